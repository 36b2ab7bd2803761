/* reduce_test.c - sums, means, extremes and softmax: the written order whatever the layout.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "backend/common/math_f32.h"
#include "support/kernel_call.h"

static random_source source = {31337};

static mica_status reduce(mica__op op, const mica__cpu *cpu, uint32_t axes, int keepdims,
                          mica__operand x, mica__operand out)
{
    const mica__reduce_attrs attrs = {axes, keepdims};
    const mica__call call = {
        .attrs = &attrs, .cpu = cpu, .n_in = 1, .n_out = 1, .in = &x, .out = &out};
    return run_kernel(op, &call);
}

/* The written order over n values with a stride. */
static float sum_by_hand(const float *x, int64_t stride, int64_t n)
{
    float total = 0;
    for (int64_t start = 0; start < n; start += 1024) {
        float lanes[16] = {0};
        for (int64_t k = start; k < n && k < start + 1024; k++)
            lanes[k % 16] += x[k * stride];
        for (int half = 8; half; half /= 2)
            for (int i = 0; i < half; i++)
                lanes[i] += lanes[i + half];
        total += lanes[0];
    }
    return total;
}

static void sums_follow_the_written_order_along_rows_and_columns(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 7, 16, 33, 1000, 1024, 1025, 5000, 40000};
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int wide = 0; wide < 2; wide++) {
            const int64_t n = wide ? sizes[s] % 4001 : sizes[s], m = wide ? 150 : 3;
            float *x = malloc((size_t)(n * m) * 4 + 4), out[150];
            for (int64_t i = 0; i < n * m; i++)
                x[i] = random_normal(&source) * expf(random_float(&source, -5, 5));
            for (int level = 0; level < n_levels; level++) {
                assert_ok(reduce(MICA__OP_SUM, levels[level], 2, 0, OPERAND(x, MICA_F32, m, n),
                                 OPERAND(out, MICA_F32, m)));
                for (int64_t i = 0; i < m; i++) {
                    const float want = sum_by_hand(x + i * n, 1, n);
                    assert_same_floats(&out[i], &want, 1, "rows");
                }
                assert_ok(reduce(MICA__OP_SUM, levels[level], 1, 1, OPERAND(x, MICA_F32, n, m),
                                 OPERAND(out, MICA_F32, 1, m)));
                for (int64_t i = 0; i < m; i++) {
                    const float want = sum_by_hand(x + i, m, n);
                    assert_same_floats(&out[i], &want, 1, "columns");
                }
                mica__operand turned = OPERAND(x, MICA_F32, m, n); /* a view of [n, m] */
                turned.strides[0] = 1;
                turned.strides[1] = m;
                float again[150];
                assert_ok(
                    reduce(MICA__OP_SUM, levels[level], 2, 0, turned, OPERAND(again, MICA_F32, m)));
                assert_same_floats(again, out, m, "view");
            }
            free(x);
        }
}

/* Axes 0 and 2 of [3, 4, 700]: the reduced index is row-major over both. */
static void several_axes_are_numbered_in_row_major_order(void **state)
{
    (void)state;
    static float x[3 * 4 * 700], gathered[2100];
    float out[4], means[4];
    for (int i = 0; i < 8400; i++)
        x[i] = random_normal(&source);
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        assert_ok(reduce(MICA__OP_SUM, levels[level], 5, 0, OPERAND(x, MICA_F32, 3, 4, 700),
                         OPERAND(out, MICA_F32, 4)));
        assert_ok(reduce(MICA__OP_MEAN, levels[level], 5, 1, OPERAND(x, MICA_F32, 3, 4, 700),
                         OPERAND(means, MICA_F32, 1, 4, 1)));
        for (int j = 0; j < 4; j++) {
            for (int i = 0; i < 3; i++)
                memcpy(gathered + i * 700, x + (i * 4 + j) * 700, 2800);
            const float want = sum_by_hand(gathered, 1, 2100), mean = want / 2100;
            assert_same_floats(&out[j], &want, 1, "axes");
            assert_same_floats(&means[j], &mean, 1, "mean");
        }
    }
}

static void halves_accumulate_in_f32_and_integers_wrap(void **state)
{
    (void)state;
    enum { N = 3000 };
    static uint16_t h[N];
    static float wide[N];
    static int8_t q[N];
    int64_t whole = 0;
    for (int i = 0; i < N; i++) {
        h[i] = mica__f32_to_f16(random_float(&source, 0, 1));
        wide[i] = mica__f16_to_f32(h[i]);
        q[i] = (int8_t)random_u32(&source);
        whole += q[i];
    }
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        uint16_t half;
        int32_t total;
        float mean;
        assert_ok(reduce(MICA__OP_SUM, levels[level], 1, 0, OPERAND(h, MICA_F16, N),
                         OPERAND(&half, MICA_F16, 1)));
        assert_int_equal(half, mica__f32_to_f16(sum_by_hand(wide, 1, N)));
        assert_ok(reduce(MICA__OP_SUM, levels[level], 1, 0, OPERAND(q, MICA_I8, N),
                         OPERAND(&total, MICA_I32, 1)));
        assert_int_equal(total, whole);
        assert_ok(reduce(MICA__OP_MEAN, levels[level], 1, 0, OPERAND(q, MICA_I8, N),
                         OPERAND(&mean, MICA_F32, 1)));
        assert_true(mean == (float)whole / N);
    }
}

static void extremes_show_nan_and_order_zeros(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++)
        for (int n = 1; n < 70; n++)
            for (int place = 0; place < n; place++) {
                float x[70], out;
                for (int i = 0; i < n; i++)
                    x[i] = -0.0f;
                x[place] = 0.0f;
                assert_ok(reduce(MICA__OP_MAX, levels[level], 1, 0, OPERAND(x, MICA_F32, n),
                                 OPERAND(&out, MICA_F32, 1)));
                assert_false(signbit(out));
                x[place] = -3;
                assert_ok(reduce(MICA__OP_MIN, levels[level], 1, 0, OPERAND(x, MICA_F32, n),
                                 OPERAND(&out, MICA_F32, 1)));
                assert_true(out == -3);
                x[place] = NAN;
                assert_ok(reduce(MICA__OP_MIN, levels[level], 1, 0, OPERAND(x, MICA_F32, n),
                                 OPERAND(&out, MICA_F32, 1)));
                assert_true(isnan(out));
            }
    float none, out;
    assert_status(reduce(MICA__OP_MAX, levels[0], 1, 0, OPERAND(&none, MICA_F32, 0),
                         OPERAND(&out, MICA_F32, 1)),
                  MICA_E_ARGUMENT);
}

static void columns_of_extremes_equal_rows(void **state)
{
    (void)state;
    enum { N = 60, M = 300 };
    static float x[N * M];
    static uint16_t h[N * M];
    float out[M];
    for (int i = 0; i < N * M; i++) {
        x[i] = random_normal(&source);
        h[i] = mica__f32_to_bf16(x[i]);
    }
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        assert_ok(reduce(MICA__OP_MAX, levels[level], 1, 0, OPERAND(x, MICA_F32, N, M),
                         OPERAND(out, MICA_F32, M)));
        for (int j = 0; j < M; j++) {
            float top = x[j];
            for (int i = 1; i < N; i++)
                top = fmaxf(top, x[i * M + j]);
            assert_true(out[j] == top);
        }
        uint16_t low[M];
        assert_ok(reduce(MICA__OP_MIN, levels[level], 1, 0, OPERAND(h, MICA_BF16, N, M),
                         OPERAND(low, MICA_BF16, M)));
        for (int j = 0; j < M; j++) {
            float bottom = mica__bf16_to_f32(h[j]);
            for (int i = 1; i < N; i++)
                bottom = fminf(bottom, mica__bf16_to_f32(h[i * M + j]));
            assert_int_equal(low[j], mica__f32_to_bf16(bottom));
        }
    }
}

static void doubles_and_complex_numbers_reduce(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    kernel_levels(levels);
    double x[] = {1, 1e-17, 1e-17, -4}, out;
    assert_ok(
        reduce(MICA__OP_SUM, levels[0], 1, 0, OPERAND(x, MICA_F64, 4), OPERAND(&out, MICA_F64, 1)));
    assert_true(out == ((1 + 1e-17) + (1e-17 + -4)));
    assert_ok(
        reduce(MICA__OP_MIN, levels[0], 1, 0, OPERAND(x, MICA_F64, 4), OPERAND(&out, MICA_F64, 1)));
    assert_true(out == -4);
    float z[] = {1, 2, 3, -1, 3, 5}, w[2];
    assert_ok(
        reduce(MICA__OP_MEAN, levels[0], 1, 0, OPERAND(z, MICA_C64, 3), OPERAND(w, MICA_C64, 1)));
    assert_true(w[0] == 7.0f / 3 && w[1] == 2);
    assert_ok(
        reduce(MICA__OP_MAX, levels[0], 1, 0, OPERAND(z, MICA_C64, 3), OPERAND(w, MICA_C64, 1)));
    assert_true(w[0] == 3 && w[1] == 5);
}

static mica_status soften(const mica__cpu *cpu, int axis, mica__operand x, mica__operand out)
{
    const mica__axis_attrs attrs = {axis};
    const mica__call call = {
        .attrs = &attrs, .cpu = cpu, .n_in = 1, .n_out = 1, .in = &x, .out = &out};
    return run_kernel(MICA__OP_SOFTMAX, &call);
}

static void softmax_is_the_exact_value_within_its_roundings(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 5, 16, 100, 1025, 3001};
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t n = sizes[s], rows = 4;
        float *x = malloc((size_t)(rows * n) * 4), *first = malloc((size_t)(rows * n) * 4);
        float *out = malloc((size_t)(rows * n) * 4), *turned = malloc((size_t)(rows * n) * 4);
        for (int64_t i = 0; i < rows * n; i++)
            x[i] = random_normal(&source) * 8;
        for (int level = 0; level < n_levels; level++) {
            assert_ok(soften(levels[level], -1, OPERAND(x, MICA_F32, rows, n),
                             OPERAND(level ? out : first, MICA_F32, rows, n)));
            if (level)
                assert_same_floats(out, first, rows * n, "softmax");
            mica__operand view = OPERAND(x, MICA_F32, n, rows); /* the same rows as columns */
            view.strides[0] = 1;
            view.strides[1] = n;
            assert_ok(soften(levels[level], 0, view, OPERAND(turned, MICA_F32, n, rows)));
            for (int64_t i = 0; i < rows * n; i++)
                assert_same_floats(&turned[i % n * rows + i / n], &first[i], 1, "columns");
        }
        for (int64_t r = 0; r < rows; r++) {
            double top = -INFINITY, sum = 0;
            for (int64_t i = 0; i < n; i++)
                top = fmax(top, (double)x[r * n + i]);
            for (int64_t i = 0; i < n; i++)
                sum += exp((double)x[r * n + i] - top);
            for (int64_t i = 0; i < n; i++) {
                const double less = (double)x[r * n + i] - top, want = exp(less) / sum;
                /* exp 1 ulp, its argument rounded once, division, and at most 70 additions */
                assert_true(fabs((double)first[r * n + i] - want) <=
                            want * (4 + fabs(less) + 70) * 0x1p-24 + 0x1p-149);
            }
        }
        free(x);
        free(first);
        free(out);
        free(turned);
    }
}

static void softmax_of_masked_rows(void **state)
{
    (void)state;
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        float x[] = {-INFINITY, 0, -INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
        assert_ok(soften(levels[level], 1, OPERAND(x, MICA_F32, 2, 4), OPERAND(x, MICA_F32, 2, 4)));
        assert_same_floats(x, (float[]){0, 0.5f, 0, 0.5f, NAN, NAN, NAN, NAN}, 8, "masked");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_follow_the_written_order_along_rows_and_columns),
        cmocka_unit_test(several_axes_are_numbered_in_row_major_order),
        cmocka_unit_test(halves_accumulate_in_f32_and_integers_wrap),
        cmocka_unit_test(extremes_show_nan_and_order_zeros),
        cmocka_unit_test(columns_of_extremes_equal_rows),
        cmocka_unit_test(doubles_and_complex_numbers_reduce),
        cmocka_unit_test(softmax_is_the_exact_value_within_its_roundings),
        cmocka_unit_test(softmax_of_masked_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
