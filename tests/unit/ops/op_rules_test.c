/* op_rules_test.c - result types and shapes of operations, values by hand; golden_ops has the rest.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>

#include <mica/mica.h>

#include "core/graph.h"

static mica_ctx *open_one(void)
{
    const mica_options options = {.threads = 1};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    return mc;
}

static mica_array *counted(mica_ctx *mc, mica_shape shape, mica_dtype dtype)
{
    float data[128];
    for (int i = 0; i < 128; i++)
        data[i] = (float)i;
    return mica_astype(mica_from_data(mc, data, shape, MICA_F32), dtype);
}

static void expect_shape(mica_array *a, mica_shape want)
{
    assert_non_null(a);
    assert_int_equal(mica_array_ndim(a), want.ndim);
    for (int i = 0; i < want.ndim; i++)
        assert_int_equal(mica_array_dim(a, i), want.dims[i]);
}

static void operands_meet_in_the_promoted_type(void **state)
{
    (void)state;
    static const struct {
        mica_dtype a, b, sum, quotient;
    } cases[] = {
        {MICA_BOOL, MICA_U8, MICA_U8, MICA_F32},     {MICA_U8, MICA_I8, MICA_I16, MICA_F32},
        {MICA_U32, MICA_I8, MICA_I64, MICA_F32},     {MICA_U64, MICA_I64, MICA_F32, MICA_F32},
        {MICA_I64, MICA_F16, MICA_F16, MICA_F16},    {MICA_F16, MICA_BF16, MICA_F32, MICA_F32},
        {MICA_BF16, MICA_F64, MICA_F64, MICA_F64},   {MICA_F32, MICA_C64, MICA_C64, MICA_C64},
        {MICA_BOOL, MICA_BOOL, MICA_BOOL, MICA_F32},
    };
    mica_ctx *mc = open_one();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int turn = 0; turn < 2; turn++) {
            mica_array *a = mica_scalar(mc, 1, turn ? cases[i].b : cases[i].a);
            mica_array *b = mica_scalar(mc, 1, turn ? cases[i].a : cases[i].b);
            mica_array *sum = mica_add(a, b), *quotient = mica_divide(a, b);
            assert_int_equal(mica_array_dtype(sum), cases[i].sum);
            assert_int_equal(mica_array_dtype(quotient), cases[i].quotient);
            assert_ok(mica_eval_all(mc, sum, quotient));
        }
    mica_array *big = mica_add(mica_scalar(mc, 200, MICA_U8), mica_scalar(mc, -100, MICA_I8));
    assert_int_equal(mica_item_i64(big), 100); /* 16 bits, not 8 */
    assert_float_equal(mica_item_f64(mica_sqrt(mica_scalar(mc, 9, MICA_I64))), 3, 0);
    assert_null(mica_negative(mica_scalar(mc, 1, MICA_BOOL)));
    mica_close(mc);
}

static void the_magnitude_of_a_complex_number_is_real(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const float z[] = {3, 4, -5, 12};
    mica_array *a = mica_abs(mica_from_data(mc, z, MICA_SHAPE(2), MICA_C64));
    assert_int_equal(mica_array_dtype(a), MICA_F32);
    assert_ok(mica_eval_all(mc, a));
    assert_memory_equal(mica_data(a), ((const float[]){5, 13}), 8);
    mica_close(mc);
}

static void products_exist_for_every_inexact_type_and_no_other(void **state)
{
    (void)state;
    static const mica_dtype types[] = {MICA_F16, MICA_BF16, MICA_F32, MICA_F64};
    mica_ctx *mc = open_one();
    for (int t = 0; t < 4; t++)
        for (int turned = 0; turned < 2; turned++) {
            mica_array *a = counted(mc, MICA_SHAPE(2, 3), types[t]);
            mica_array *b = counted(mc, turned ? MICA_SHAPE(2, 3) : MICA_SHAPE(3, 2), types[t]);
            mica_array *y = mica_matmul(a, turned ? mica_transpose(b, 0, NULL) : b);
            assert_int_equal(mica_array_dtype(y), types[t]);
            mica_array *wide = mica_astype(y, MICA_F32);
            assert_ok(mica_eval_all(mc, wide));
            assert_memory_equal(
                mica_data(wide),
                turned ? ((const float[]){5, 14, 14, 50}) : ((const float[]){10, 13, 28, 40}), 16);
        }
    const float i_and_one[] = {0, 1, 1, 0};
    mica_array *z = mica_from_data(mc, i_and_one, MICA_SHAPE(1, 2), MICA_C64);
    mica_array *norm = mica_matmul(z, mica_transpose(z, 0, NULL));               /* i i + 1 = 0 */
    mica_array *mixed = mica_matmul(z, counted(mc, MICA_SHAPE(2, 1), MICA_I32)); /* 0 i + 1 */
    assert_ok(mica_eval_all(mc, norm, mixed));
    assert_memory_equal(mica_data(norm), ((const float[]){0, 0}), 8);
    assert_memory_equal(mica_data(mixed), ((const float[]){1, 0}), 8);
    mica_array *whole = counted(mc, MICA_SHAPE(2, 2), MICA_I32);
    assert_int_equal(mica_array_dtype(mica_matmul(whole, counted(mc, MICA_SHAPE(2, 2), MICA_F16))),
                     MICA_F16);
    assert_null(mica_matmul(whole, whole));
    assert_string_equal(mica_error(mc), "matmul: products of int32 are not defined");
    mica_close(mc);
}

static void wide_products_cover_many_rows_columns_and_batches(void **state)
{
    (void)state;
    enum { M = 70, K = 65, N = 130 };
    static double x[2 * M * K], b[K * N];
    mica_ctx *mc = open_one();
    for (int i = 0; i < 2 * M * K; i++)
        x[i] = i % 7 - 3;
    for (int i = 0; i < K * N; i++)
        b[i] = i % 5 - 2;
    mica_array *y = mica_matmul(mica_from_data(mc, x, MICA_SHAPE(2, M, K), MICA_F64),
                                mica_from_data(mc, b, MICA_SHAPE(K, N), MICA_F64));
    expect_shape(y, MICA_SHAPE(2, M, N));
    assert_ok(mica_eval_all(mc, y));
    const double *got = mica_data(y);
    for (int r = 0; r < 2 * M; r++)
        for (int c = 0; c < N; c++) {
            double want = 0;
            for (int k = 0; k < K; k++)
                want += x[r * K + k] * b[k * N + c];
            assert_true(got[r * N + c] == want);
        }
    mica_array *none = mica_matmul(mica_zeros(mc, MICA_SHAPE(2, 0), MICA_F64),
                                   mica_zeros(mc, MICA_SHAPE(0, 3), MICA_F64));
    assert_ok(mica_eval_all(mc, none)); /* sums of nothing */
    assert_true(((const double *)mica_data(none))[5] == 0);
    mica_close(mc);
}

static void indices_are_integers_of_any_width(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = counted(mc, MICA_SHAPE(4, 2), MICA_F32);
    for (int d = MICA_U8; d <= MICA_I64; d++) {
        mica_array *row = mica_take(x, mica_scalar(mc, 3, (mica_dtype)d), 0);
        assert_ok(mica_eval_all(mc, row));
        assert_memory_equal(mica_data(row), ((const float[]){6, 7}), 8);
    }
    assert_null(mica_take(x, mica_scalar(mc, 1, MICA_BOOL), 0));
    mica_clear_error(mc);
    assert_null(mica_take(x, mica_scalar(mc, 1, MICA_F32), 0));
    mica_close(mc);
}

static void softmax_and_rms_norm_of_doubles_have_their_accuracy(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    const double data[] = {0, 1, 2, 3};
    mica_array *x = mica_from_data(mc, data, MICA_SHAPE(2, 2), MICA_F64);
    mica_array *y = mica_softmax(x, 0), *one = mica_ones(mc, MICA_SHAPE(2), MICA_F64);
    mica_array *z = mica_rms_norm(x, one, 0);
    assert_int_equal(mica_array_dtype(y), MICA_F64);
    assert_int_equal(mica_array_dtype(z), MICA_F64);
    assert_ok(mica_eval_all(mc, y, z));
    const double *p = mica_data(y), *q = mica_data(z);
    assert_true(fabs(p[0] - 0.11920292202211755) < 1e-16); /* 1 / (1 + e^2) */
    assert_true(fabs(p[3] - 0.88079707797788244) < 1e-15);
    assert_true(fabs(q[3] - 3 / sqrt(6.5)) < 1e-15);
    assert_null(mica_softmax(mica_zeros(mc, MICA_SHAPE(2), MICA_C64), 0));
    mica_clear_error(mc);
    assert_null(mica_softmax(x, 2));
    mica_clear_error(mc);
    assert_null(mica_rms_norm(x, mica_ones(mc, MICA_SHAPE(3), MICA_F64), 0));
    mica_close(mc);
}

static void axes_move_and_merge(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = mica_zeros(mc, MICA_SHAPE(2, 3, 4, 5), MICA_U8);
    expect_shape(mica_swapaxes(x, 0, -1), MICA_SHAPE(5, 3, 4, 2));
    expect_shape(mica_moveaxis(x, 0, 2), MICA_SHAPE(3, 4, 2, 5));
    expect_shape(mica_moveaxis(x, -1, 1), MICA_SHAPE(2, 5, 3, 4));
    expect_shape(mica_moveaxis(x, 2, 2), MICA_SHAPE(2, 3, 4, 5));
    expect_shape(mica_flatten(x, 0, -1), MICA_SHAPE(120));
    expect_shape(mica_flatten(x, 1, 2), MICA_SHAPE(2, 12, 5));
    expect_shape(mica_flatten(x, -100, 100), MICA_SHAPE(120));
    expect_shape(mica_flatten(mica_scalar(mc, 1, MICA_F32), 0, -1), MICA_SHAPE(1));
    expect_shape(mica_unflatten(x, 2, MICA_SHAPE(2, -1, 1)), MICA_SHAPE(2, 3, 2, 2, 1, 5));
    expect_shape(mica_unflatten(x, -4, MICA_SHAPE(2)), MICA_SHAPE(2, 3, 4, 5));
    mica_array *y = mica_swapaxes(counted(mc, MICA_SHAPE(2, 1, 2), MICA_F32), 2, 0);
    assert_ok(mica_eval_all(mc, y));
    assert_memory_equal(mica_data(y), ((const float[]){0, 2, 1, 3}), 16);
    mica_array *refused[] = {
        mica_swapaxes(x, 0, 4),
        mica_moveaxis(x, -5, 0),
        mica_flatten(x, 2, 1),
        mica_unflatten(x, 4, MICA_SHAPE(1)),
        mica_unflatten(x, 2, MICA_SHAPE(3)),
        mica_unflatten(x, 2, MICA_SHAPE(-1, -1)),
        mica_unflatten(x, 2, MICA_SHAPE(0, -1)),
        mica_unflatten(x, 2, MICA_SCALAR),
        mica_unflatten(x, 2, MICA_SHAPE(INT64_MAX, 4)),
        mica_unflatten(x, 2, mica_shape_of(99, NULL)),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_null(refused[i]);
    assert_string_equal(mica_error(mc), "swapaxes: axis 4 of an array of 4 dimensions");
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_meet_in_the_promoted_type),
        cmocka_unit_test(the_magnitude_of_a_complex_number_is_real),
        cmocka_unit_test(products_exist_for_every_inexact_type_and_no_other),
        cmocka_unit_test(wide_products_cover_many_rows_columns_and_batches),
        cmocka_unit_test(indices_are_integers_of_any_width),
        cmocka_unit_test(softmax_and_rms_norm_of_doubles_have_their_accuracy),
        cmocka_unit_test(axes_move_and_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
