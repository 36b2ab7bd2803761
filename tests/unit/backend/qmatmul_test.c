/* qmatmul_test.c - products with stored weights against double precision, in every format.
 *
 * Weights come from support/weights.c, whose values are known without decoding. Bounds are derived
 * from the written order of additions.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/weights.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/act8.h"
#include "backend/cpu/matmul_kernels.h"
#include "base/bytes.h"
#include "base/half.h"

static void *filled(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(p);
    memset(p, 0xff, bytes);
    return p;
}

/* x [m, k] rounded with the group of w: act8 rows. */
static uint8_t *rounded(const float *x, int64_t m, int64_t k, int64_t group)
{
    const int64_t bytes = mica__act8_row_bytes(k, group);
    uint8_t *rows = filled((size_t)(m * bytes));
    mica__quantize_rows_attrs attrs = {(int32_t)group};
    mica__operand in = plain_operand((void *)x, MICA_F32, 2, (int64_t[]){m, k});
    mica__operand out = plain_operand(rows, MICA_U8, 2, (int64_t[]){m, bytes});
    mica__call call = {.attrs = &attrs, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
    assert_ok(run_kernel_in_order(&mica__kernel_quantize_rows, &call, 1));
    return rows;
}

static mica_status product(const mica__kernel *kernel, const weights *w, void *x, mica_dtype dtype,
                           int64_t m, int64_t columns, float *out)
{
    mica__operand in[4], y = plain_operand(out, MICA_F32, 2, (int64_t[]){m, w->attrs.n});
    in[0] = plain_operand(x, dtype, 2, (int64_t[]){m, columns});
    mica__call call = {.attrs = &w->attrs, .n_out = 1, .in = in, .out = &y};
    call.n_in = 1 + weights_operands(w, in + 1);
    return run_kernel_in_order(kernel, &call, 1);
}

/* Relative error of a sum of magnitudes that a product with weights may have: one rounding a
 * weight, one of each product that is added, and one for each addition of a chain. */
static void check_rows(const weights *w, const double *x, int64_t m, const float *y, int64_t chain)
{
    const int64_t n = w->attrs.n, k = w->attrs.k;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, magnitude = 0;
            for (int64_t c = 0; c < k; c++) {
                const double p = x[i * k + c] * w->values[j * k + c];
                sum += p;
                magnitude += fabs(p);
            }
            const double got = y[i * n + j];
            const double bound = magnitude * (double)(chain + 4) * 0x1p-24 + (double)k * 0x1p-140;
            if (!(fabs(got - sum) <= bound))
                fail_msg("%s: row %lld, output %lld: %.9g instead of %.9g, bound %.3g",
                         weights_name(w), (long long)i, (long long)j, got, sum, bound);
        }
}

static void f32_case(int format_index, int64_t n, int64_t k, pattern kind, int offset)
{
    int32_t format;
    int bits, group;
    mica_dtype scales;
    assert_true(weights_format(format_index, &format, &bits, &group, &scales));
    const int64_t m = 3;
    weights w = weights_make(format, bits, group, scales, n, k, kind, offset, 77);
    float *x = filled((size_t)(m * k) * 4), *y = filled((size_t)(m * n) * 4);
    draw_activations(x, m * k, 5);
    assert_ok(product(&mica__kernel_qmatmul, &w, x, MICA_F32, m, k, y));
    double *exact = filled((size_t)(m * k) * 8);
    for (int64_t i = 0; i < m * k; i++)
        exact[i] = x[i];
    check_rows(&w, exact, m, y, k / 16 + 6 + k / 1024);
    free(x);
    free(y);
    free(exact);
    weights_free(&w);
}

static void f32_products_are_within_the_bound_of_their_order(void **state)
{
    (void)state;
    int32_t format;
    int bits, group;
    mica_dtype scales;
    for (int i = 0; weights_format(i, &format, &bits, &group, &scales); i++)
        for (pattern kind = 0; kind < N_PATTERNS; kind++) {
            f32_case(i, 5, 256, kind, (int)kind);
            f32_case(i, 17, 1280, kind, 1);
        }
}

/* The value of a rounded activation, exactly: code times scale. */
static void exact_acts(const uint8_t *rows, int64_t m, int64_t k, int64_t group, double *out)
{
    for (int64_t i = 0; i < m; i++) {
        uint8_t *row = (uint8_t *)rows + i * mica__act8_row_bytes(k, group);
        const float *s = mica__act8_scales(row, k);
        for (int64_t c = 0; c < k; c++)
            out[i * k + c] = (double)((const int8_t *)row)[c] * s[c / group];
    }
}

/* With biases or minima the two parts of a group may cancel: the bound counts both. */
static void check_i8(const weights *w, const uint8_t *rows, int64_t m, const float *y)
{
    const int64_t n = w->attrs.n, k = w->attrs.k;
    const int64_t group = mica__act8_group(w->attrs.format, w->attrs.group);
    double *x = filled((size_t)(m * k) * 8);
    exact_acts(rows, m, k, group, x);
    double largest = 0;
    for (int64_t i = 0; i < n * k; i++)
        largest = fmax(largest, fabs(w->values[i]));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, magnitude = 0;
            for (int64_t c = 0; c < k; c++) {
                sum += x[i * k + c] * w->values[j * k + c];
                magnitude += fabs(x[i * k + c]);
            }
            /* Any part of a value (d q, m, d s q, m n) is at most 40 times the largest value that
             * this matrix has: scales and minima come from the same distribution. */
            const double bound =
                magnitude * largest * 40 * (double)(k / group + 4) * 0x1p-24 + (double)k * 0x1p-126;
            const double got = y[i * n + j];
            if (!(fabs(got - sum) <= bound))
                fail_msg("%s: row %lld, output %lld: %.9g instead of %.9g, bound %.3g",
                         weights_name(w), (long long)i, (long long)j, got, sum, bound);
        }
    free(x);
}

static void i8_case(int format_index, int64_t n, int64_t k, pattern kind, int offset)
{
    int32_t format;
    int bits, group;
    mica_dtype scales;
    assert_true(weights_format(format_index, &format, &bits, &group, &scales));
    if (!mica__act8_has_product(format))
        return;
    const int64_t m = 3, act_group = mica__act8_group(format, group);
    weights w = weights_make(format, bits, group, scales, n, k, kind, offset, 78);
    float *x = filled((size_t)(m * k) * 4), *y = filled((size_t)(m * n) * 4);
    draw_activations(x, m * k, 6);
    uint8_t *rows = rounded(x, m, k, act_group);
    assert_ok(product(&mica__kernel_qmatmul_i8, &w, rows, MICA_U8, m,
                      mica__act8_row_bytes(k, act_group), y));
    check_i8(&w, rows, m, y);
    free(x);
    free(y);
    free(rows);
    weights_free(&w);
}

static void i8_products_are_within_the_bound_of_their_order(void **state)
{
    (void)state;
    int32_t format;
    int bits, group;
    mica_dtype scales;
    for (int i = 0; weights_format(i, &format, &bits, &group, &scales); i++)
        for (pattern kind = 0; kind < N_PATTERNS; kind++) {
            i8_case(i, 5, 256, kind, (int)kind);
            i8_case(i, 17, 1280, kind, 1);
        }
}

/* --- by hand ---------------------------------------------------------------------------------- */

static void a_q4_0_block_gives_the_sum_worked_out_by_hand(void **state)
{
    (void)state;
    /* d = 0.5; codes of values 0..15: 9 (+1), of 16..31: 6 (-2). */
    uint8_t block[18] = {0x00, 0x38};
    memset(block + 2, 0x69, 16);
    weights w = {.attrs = {MICA__Q4_0, 0, 0, 0, 1, 32}, .codes = block};
    float x[32] __attribute__((aligned(64))), y = -1;
    for (int i = 0; i < 32; i++)
        x[i] = i < 16 ? 127.0f : 63.5f;
    uint8_t *rows = rounded(x, 1, 32, 32);
    /* amax 127: scale 1, 63.5 is a tie and goes to 64. */
    assert_int_equal(((int8_t *)rows)[0], 127);
    assert_int_equal(((int8_t *)rows)[16], 64);
    assert_int_equal(mica__act8_sums(rows, 32, 32)[0], 16 * 127);
    assert_int_equal(mica__act8_sums(rows, 32, 32)[1], 16 * 64);
    assert_ok(
        product(&mica__kernel_qmatmul_i8, &w, rows, MICA_U8, 1, mica__act8_row_bytes(32, 32), &y));
    assert_true(y == 0.5f * (16 * 127 * 1 + 16 * 64 * -2));
    assert_ok(product(&mica__kernel_qmatmul, &w, x, MICA_F32, 1, 32, &y));
    assert_true(y == 0.5f * (16 * 127 * 1 - 16 * 63.5f * 2));
    free(rows);
}

static void activations_round_by_the_written_rule(void **state)
{
    (void)state;
    float x[5 * 32] __attribute__((aligned(64))) = {0};
    x[0] = 254.0f; /* scale 2, inv 0.5 */
    x[1] = 1.0f;   /* 0.5 -> 0 */
    x[2] = 3.0f;   /* 1.5 -> 2 */
    x[3] = -5.0f;  /* -2.5 -> -2 */
    x[4] = -254.0f;
    x[32] = 0x1p-120f; /* below the smallest */
    x[64] = 0x1p-119f;
    x[96] = NAN;
    x[97] = 1.0f;
    x[128] = -INFINITY;
    uint8_t *row = rounded(x, 1, 160, 32);
    const int8_t *codes = (int8_t *)row;
    const float *scales = mica__act8_scales(row, 160);
    assert_true(scales[0] == 2.0f);
    assert_int_equal(codes[0], 127);
    assert_int_equal(codes[1], 0);
    assert_int_equal(codes[2], 2);
    assert_int_equal(codes[3], -2);
    assert_int_equal(codes[4], -127);
    assert_true(scales[1] == 0.0f && codes[32] == 0);
    assert_true(scales[2] == 0x1p-119f / 127 && codes[64] == 127);
    assert_true(isnan(scales[3]) && codes[96] == 0 && codes[97] == 0);
    assert_true(isnan(scales[4]) && codes[128] == 0);
    for (int64_t i = 160; i < 192; i++)
        assert_int_equal(row[i], 0); /* padding */
    free(row);
}

static void a_nan_activation_makes_every_output_nan(void **state)
{
    (void)state;
    weights w = weights_make(MICA__Q8_0, 0, 0, 0, 20, 64, PATTERN_RANDOM, 0, 3);
    float x[64] __attribute__((aligned(64))), y[20];
    draw_activations(x, 64, 9);
    x[40] = NAN;
    uint8_t *rows = rounded(x, 1, 64, 32);
    assert_ok(
        product(&mica__kernel_qmatmul_i8, &w, rows, MICA_U8, 1, mica__act8_row_bytes(64, 32), y));
    for (int i = 0; i < 20; i++)
        assert_true(isnan(y[i]));
    free(rows);
    weights_free(&w);
}

/* --- embedding -------------------------------------------------------------------------------- */

static void embed_gives_rows_rounded_once(void **state)
{
    (void)state;
    int32_t format;
    int bits, group;
    mica_dtype scales;
    for (int i = 0; weights_format(i, &format, &bits, &group, &scales); i++)
        for (pattern kind = 0; kind < N_PATTERNS; kind++) {
            weights w = weights_make(format, bits, group, scales, 9, 1536, kind, 3, 21);
            int32_t ids[4] = {8, 0, 3, 8};
            float *y = filled(4 * 1536 * 4);
            mica__operand in[4], out = plain_operand(y, MICA_F32, 2, (int64_t[]){4, 1536});
            in[0] = plain_operand(ids, MICA_I32, 1, (int64_t[]){4});
            mica__call call = {.attrs = &w.attrs, .n_out = 1, .in = in, .out = &out};
            call.n_in = 1 + weights_operands(&w, in + 1);
            assert_ok(run_kernel_in_order(&mica__kernel_embed, &call, 1));
            for (int t = 0; t < 4; t++)
                for (int c = 0; c < 1536; c++) {
                    /* The exact value fits a double, so this conversion is the one rounding. */
                    const float want = (float)w.values[ids[t] * 1536 + c];
                    if (y[t * 1536 + c] != want)
                        fail_msg("%s: id %d, column %d: %.9g instead of %.9g", weights_name(&w),
                                 (int)ids[t], c, y[t * 1536 + c], want);
                }
            free(y);
            weights_free(&w);
        }
}

static void embed_names_an_id_outside_the_table(void **state)
{
    (void)state;
    weights w = weights_make(MICA__F16, 0, 0, 0, 9, 32, PATTERN_RANDOM, 0, 21);
    int32_t ids[3] = {8, 9, 0};
    float y[96];
    mica__operand in[2], out = plain_operand(y, MICA_F32, 2, (int64_t[]){3, 32});
    in[0] = plain_operand(ids, MICA_I32, 1, (int64_t[]){3});
    mica__call call = {.attrs = &w.attrs, .n_out = 1, .in = in, .out = &out};
    call.n_in = 1 + weights_operands(&w, in + 1);
    assert_status(run_kernel_in_order(&mica__kernel_embed, &call, 1), MICA_E_ARGUMENT);
    assert_non_null(strstr(mica_last_error(), "id 9 at position 1"));
    ids[1] = -1;
    assert_status(run_kernel_in_order(&mica__kernel_embed, &call, 1), MICA_E_ARGUMENT);
    assert_non_null(strstr(mica_last_error(), "id -1"));
    weights_free(&w);
}

/* --- what is declined, and the check of scales ------------------------------------------------ */

static void shapes_that_do_not_fit_are_declined(void **state)
{
    (void)state;
    weights w = weights_make(MICA__Q4_K, 0, 0, 0, 4, 512, PATTERN_RANDOM, 0, 1);
    mica__operand in[2];
    mica__qweight q;
    weights_operands(&w, in);
    assert_true(mica__qweight_of(&w.attrs, in, 1, &q));
    mica__qweight_attrs bad = w.attrs;
    bad.k = 384; /* no multiple of 256 */
    assert_false(mica__qweight_of(&bad, in, 1, &q));
    bad = w.attrs;
    bad.format = MICA__IQ2_XXS; /* no decoder */
    assert_false(mica__qweight_of(&bad, in, 1, &q));
    bad.format = MICA__N_FORMATS;
    assert_false(mica__qweight_of(&bad, in, 1, &q));
    bad.format = -1;
    assert_false(mica__qweight_of(&bad, in, 1, &q));
    bad = w.attrs;
    bad.n = 5;
    assert_false(mica__qweight_of(&bad, in, 1, &q));
    in[0].strides[1] = 2;
    assert_false(mica__qweight_of(&w.attrs, in, 1, &q));
    weights_free(&w);
    w = weights_make(MICA__MLX_MXFP8, 8, 32, MICA_U8, 4, 64, PATTERN_RANDOM, 0, 1);
    float x[64] = {0}, y[4];
    assert_status(
        product(&mica__kernel_qmatmul_i8, &w, x, MICA_U8, 1, mica__act8_row_bytes(64, 32), y),
        MICA_E_UNSUPPORTED);
    weights_free(&w);
}

static void empty_products_write_nothing_or_zeros(void **state)
{
    (void)state;
    weights w = weights_make(MICA__Q4_0, 0, 0, 0, 3, 0, PATTERN_RANDOM, 0, 1);
    float x[1] = {0}, y[6] = {1, 1, 1, 1, 1, 1};
    assert_ok(product(&mica__kernel_qmatmul, &w, x, MICA_F32, 2, 0, y));
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 0);
    weights_free(&w);
    w = weights_make(MICA__Q4_0, 0, 0, 0, 0, 32, PATTERN_RANDOM, 0, 1);
    assert_ok(product(&mica__kernel_qmatmul, &w, x, MICA_F32, 0, 32, y));
    weights_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_products_are_within_the_bound_of_their_order),
        cmocka_unit_test(i8_products_are_within_the_bound_of_their_order),
        cmocka_unit_test(a_q4_0_block_gives_the_sum_worked_out_by_hand),
        cmocka_unit_test(activations_round_by_the_written_rule),
        cmocka_unit_test(a_nan_activation_makes_every_output_nan),
        cmocka_unit_test(embed_gives_rows_rounded_once),
        cmocka_unit_test(embed_names_an_id_outside_the_table),
        cmocka_unit_test(shapes_that_do_not_fit_are_declined),
        cmocka_unit_test(empty_products_write_nothing_or_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
