/* norm_rope_test.c - rms_norm, rope and its table against double references and written roundings.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "support/kernel_call.h"

static random_source source = {4711};

/* The written order of the sum of squares, in plain C. */
static float sum_squares_by_hand(const float *x, int64_t n)
{
    float total = 0;
    for (int64_t start = 0; start < n; start += 1024) {
        float lanes[16] = {0};
        for (int64_t k = start; k < n && k < start + 1024; k++)
            lanes[k % 16] = fmaf(x[k], x[k], lanes[k % 16]);
        for (int half = 8; half; half /= 2)
            for (int i = 0; i < half; i++)
                lanes[i] += lanes[i + half];
        total += lanes[0];
    }
    return total;
}

static mica_status norm(const mica__cpu *cpu, float eps, float offset, mica__operand x,
                        mica__operand weight, mica__operand out)
{
    const mica__norm_attrs attrs = {eps, offset};
    mica__operand in[] = {x, weight};
    const mica__call call = {
        .attrs = &attrs, .cpu = cpu, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    return run_kernel(MICA__OP_RMS_NORM, &call);
}

static void norms_follow_the_written_roundings_for_any_weight(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 15, 16, 17, 64, 1023, 1024, 1025, 3000};
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int type = 0; type < 3; type++) {
            const int64_t n = sizes[s], rows = 7;
            const mica_dtype dtype = type == 0 ? MICA_F32 : type == 1 ? MICA_F16 : MICA_BF16;
            float *x = malloc((size_t)(rows * n) * 4), *out = malloc((size_t)(rows * n) * 4);
            float *w = malloc((size_t)n * 4);
            uint8_t *stored = malloc((size_t)n * 4 + 1);
            for (int64_t i = 0; i < rows * n; i++)
                x[i] = random_normal(&source) * 3;
            for (int64_t i = 0; i < n; i++) {
                w[i] = random_normal(&source);
                const uint16_t half = type == 1 ? mica__f32_to_f16(w[i]) : mica__f32_to_bf16(w[i]);
                if (type)
                    w[i] = type == 1 ? mica__f16_to_f32(half) : mica__bf16_to_f32(half);
                memcpy(stored + 1 + i * (type ? 2 : 4), type ? (void *)&half : (void *)&w[i],
                       type ? 2 : 4);
            }
            mica__operand weight = OPERAND(stored + 1, dtype, n);
            weight.unaligned = true;
            for (int level = 0; level < n_levels; level++) {
                assert_ok(norm(levels[level], 1e-5f, 1, OPERAND(x, MICA_F32, rows, n), weight,
                               OPERAND(out, MICA_F32, rows, n)));
                for (int64_t r = 0; r < rows; r++) {
                    const float mean = sum_squares_by_hand(x + r * n, n) / (float)n;
                    const float scale = 1.0f / sqrtf(mean + 1e-5f);
                    double exact = 0;
                    for (int64_t i = 0; i < n; i++)
                        exact += (double)x[r * n + i] * x[r * n + i];
                    exact = 1 / sqrt(exact / n + (double)1e-5f);
                    for (int64_t i = 0; i < n; i++) {
                        const float want = (x[r * n + i] * scale) * (w[i] + 1);
                        const double far = x[r * n + i] * exact * ((double)w[i] + 1);
                        assert_same_floats(&out[r * n + i], &want, 1, "rms_norm");
                        assert_true(fabs((double)want - far) <=
                                    fabs(far) * (70 * 0x1p-24) + 1e-30 +
                                        fabs((double)x[r * n + i] * exact) * 0x1p-23);
                    }
                }
            }
            free(x);
            free(out);
            free(w);
            free(stored);
        }
}

static void norms_of_halves_round_the_f32_result_once(void **state)
{
    (void)state;
    enum { ROWS = 3, N = 100 };
    uint16_t x[ROWS * N], out[ROWS * N];
    float wide[ROWS * N], w[N], result[ROWS * N];
    for (int i = 0; i < ROWS * N; i++) {
        x[i] = mica__f32_to_f16(random_normal(&source));
        wide[i] = mica__f16_to_f32(x[i]);
    }
    for (int i = 0; i < N; i++)
        w[i] = random_normal(&source);
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        assert_ok(norm(levels[level], 1e-6f, 0, OPERAND(wide, MICA_F32, ROWS, N),
                       OPERAND(w, MICA_F32, N), OPERAND(result, MICA_F32, ROWS, N)));
        assert_ok(norm(levels[level], 1e-6f, 0, OPERAND(x, MICA_F16, ROWS, N),
                       OPERAND(w, MICA_F32, N), OPERAND(out, MICA_F16, ROWS, N)));
        for (int i = 0; i < ROWS * N; i++)
            assert_int_equal(out[i], mica__f32_to_f16(result[i]));
    }
}

static void a_strided_view_is_normed_row_by_row(void **state)
{
    (void)state;
    enum { T = 5, H = 3, D = 24, WIDE = 200 };
    float x[T * WIDE], w[D], out[T * H * D], dense[T * H * D], want[T * H * D];
    for (int i = 0; i < T * WIDE; i++)
        x[i] = random_normal(&source);
    for (int i = 0; i < D; i++)
        w[i] = random_normal(&source);
    mica__operand view = OPERAND(x + 11, MICA_F32, T, H, D);
    view.strides[0] = WIDE;
    for (int t = 0; t < T; t++)
        memcpy(dense + t * H * D, x + 11 + t * WIDE, H * D * 4);
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    kernel_levels(levels);
    assert_ok(
        norm(levels[0], 1e-6f, 0, view, OPERAND(w, MICA_F32, D), OPERAND(out, MICA_F32, T, H, D)));
    assert_ok(norm(levels[0], 1e-6f, 0, OPERAND(dense, MICA_F32, T * H, D), OPERAND(w, MICA_F32, D),
                   OPERAND(want, MICA_F32, T * H, D)));
    assert_same_floats(out, want, T * H * D, "view");
}

static void tables_hold_the_cosine_and_sine_of_the_rounded_angle(void **state)
{
    (void)state;
    enum { T = 70, N = 37 };
    int32_t positions[T];
    float freqs[N], table[T * 2 * N];
    for (int t = 0; t < T; t++)
        positions[t] = t < 10 ? t : (int32_t)(random_u32(&source) % 2000000);
    for (int i = 0; i < N; i++)
        freqs[i] = powf(500000.0f, -(float)i / N);
    const mica__rope_table_attrs attrs = {1.25f};
    mica__operand in[] = {OPERAND(positions, MICA_I32, T), OPERAND(freqs, MICA_F32, N)};
    mica__operand out = OPERAND(table, MICA_F32, T, 2, N);
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int level = 0; level < n_levels; level++) {
        const mica__call call = {
            .attrs = &attrs, .cpu = levels[level], .n_in = 2, .n_out = 1, .in = in, .out = &out};
        assert_ok(run_kernel(MICA__OP_ROPE_TABLE, &call));
        for (int t = 0; t < T; t++)
            for (int i = 0; i < N; i++) {
                const float angle = (float)positions[t] * freqs[i];
                const double c = 1.25 * cos((double)angle), s = 1.25 * sin((double)angle);
                assert_true(fabs((double)table[t * 2 * N + i] - c) <= 1.7 * 0x1p-24);
                assert_true(fabs((double)table[t * 2 * N + N + i] - s) <= 1.7 * 0x1p-24);
            }
    }
}

static void pairs_turn_in_both_arrangements_and_the_rest_stays(void **state)
{
    (void)state;
    enum { T = 9, H = 4 };
    static const struct {
        int64_t dim, n;
    } shapes[] = {{64, 32}, {80, 40}, {100, 23}, {24, 4}, {2, 1}};
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    for (int interleaved = 0; interleaved < 2; interleaved++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            for (int level = 0; level < n_levels; level++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    const int64_t dim = shapes[k].dim, n = shapes[k].n;
                    static float x[T * H * 100], kept[T * H * 100], out[T * H * 100];
                    static float table[T * 2 * 50];
                    for (int64_t i = 0; i < T * H * dim; i++)
                        kept[i] = x[i] = random_normal(&source);
                    for (int64_t i = 0; i < T * 2 * n; i++)
                        table[i] = random_float(&source, -1, 1);
                    const mica__rope_attrs attrs = {interleaved};
                    mica__operand in[] = {OPERAND(x, MICA_F32, T, H, dim),
                                          OPERAND(table, MICA_F32, T, 2, n)};
                    float *to = in_place ? x : out;
                    mica__operand result = OPERAND(to, MICA_F32, T, H, dim);
                    const mica__call call = {.attrs = &attrs,
                                             .cpu = levels[level],
                                             .n_in = 2,
                                             .n_out = 1,
                                             .in = in,
                                             .out = &result};
                    assert_ok(run_kernel(MICA__OP_ROPE, &call));
                    for (int64_t row = 0; row < T * H; row++)
                        for (int64_t d = 0; d < dim; d++) {
                            const float *head = kept + row * dim, *c = table + row / H * 2 * n;
                            float want = head[d];
                            if (d < 2 * n) {
                                const int64_t i = interleaved ? d / 2 : d % n;
                                const bool second = interleaved ? d % 2 : d >= n;
                                const float a = head[interleaved ? 2 * i : i];
                                const float b = head[interleaved ? 2 * i + 1 : i + n];
                                want = second ? fmaf(a, c[n + i], b * c[i])
                                              : fmaf(-b, c[n + i], a * c[i]);
                            }
                            assert_same_floats(&to[row * dim + d], &want, 1, "rope");
                        }
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_follow_the_written_roundings_for_any_weight),
        cmocka_unit_test(norms_of_halves_round_the_f32_result_once),
        cmocka_unit_test(a_strided_view_is_normed_row_by_row),
        cmocka_unit_test(tables_hold_the_cosine_and_sine_of_the_rounded_angle),
        cmocka_unit_test(pairs_turn_in_both_arrangements_and_the_rest_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
