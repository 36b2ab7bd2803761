/* copy_test.c - contiguous, astype, full, arange, concatenate and take.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/convert.h"
#include "base/half.h"
#include "support/kernel_call.h"

static const mica__cpu *scalar(void)
{
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    kernel_levels(levels);
    return levels[0];
}

static mica_status run(mica__op op, const void *attrs, const mica__cpu *cpu, int n_in,
                       mica__operand *in, mica__operand out)
{
    const mica__call call = {
        .attrs = attrs, .cpu = cpu, .n_in = n_in, .n_out = 1, .in = in, .out = &out};
    return run_kernel(op, &call);
}

static bool is_nan(mica_dtype dtype, const void *p)
{
    uint32_t u = 0;
    memcpy(&u, p, (size_t)mica_dtype_bytes(dtype) < 4 ? (size_t)mica_dtype_bytes(dtype) : 4);
    return (dtype == MICA_F32 && (u & 0x7fffffff) > 0x7f800000) ||
           (dtype == MICA_F16 && (u & 0x7fff) > 0x7c00) ||
           (dtype == MICA_BF16 && (u & 0x7fff) > 0x7f80);
}

/* Casts at every level; all must agree, NaN with any NaN. */
static void cast(const void *from, mica_dtype from_dtype, void *to, mica_dtype to_dtype, int64_t n)
{
    const mica__cpu *levels[MICA__N_CPU_LEVELS];
    const int n_levels = kernel_levels(levels);
    const mica__astype_attrs attrs = {(int32_t)to_dtype};
    const size_t bytes = (size_t)(n * mica_dtype_bytes(to_dtype));
    uint8_t *first = malloc(bytes + 1);
    for (int level = 0; level < n_levels; level++) {
        mica__operand in = OPERAND((void *)from, from_dtype, n);
        assert_ok(run(MICA__OP_ASTYPE, &attrs, levels[level], 1, &in, OPERAND(to, to_dtype, n)));
        if (level == 0)
            memcpy(first, to, bytes);
        for (size_t i = 0; i < bytes; i += (size_t)mica_dtype_bytes(to_dtype)) {
            const void *a = first + i, *b = (uint8_t *)to + i;
            if (!is_nan(to_dtype, a) || !is_nan(to_dtype, b))
                assert_memory_equal(a, b, (size_t)mica_dtype_bytes(to_dtype));
        }
    }
    free(first);
}

static void floats_become_integers_towards_zero_and_saturate(void **state)
{
    (void)state;
    const float x[] = {0,    -0.9f, 2.99f, -2.5f,  127.9f,   300,       -300,
                       3e9f, -3e9f, 1e20f, -1e20f, INFINITY, -INFINITY, NAN};
    enum { N = sizeof x / sizeof *x };
    int8_t i8[N];
    uint8_t u8[N], truth[N];
    int32_t i32[N];
    uint32_t u32[N];
    int64_t i64[N];
    uint64_t u64[N];
    cast(x, MICA_F32, i8, MICA_I8, N);
    assert_memory_equal(
        i8, ((int8_t[]){0, 0, 2, -2, 127, 127, -128, 127, -128, 127, -128, 127, -128, 0}), N);
    cast(x, MICA_F32, u8, MICA_U8, N);
    assert_memory_equal(u8, ((uint8_t[]){0, 0, 2, 0, 127, 255, 0, 255, 0, 255, 0, 255, 0, 0}), N);
    cast(x, MICA_F32, i32, MICA_I32, N);
    const int32_t want32[] = {0,         0,         2,         -2,        127,
                              300,       -300,      INT32_MAX, INT32_MIN, INT32_MAX,
                              INT32_MIN, INT32_MAX, INT32_MIN, 0};
    assert_memory_equal(i32, want32, sizeof want32);
    cast(x, MICA_F32, u32, MICA_U32, N);
    assert_true(u32[7] == 3000000000u && u32[8] == 0 && u32[9] == UINT32_MAX && u32[13] == 0);
    cast(x, MICA_F32, i64, MICA_I64, N);
    assert_true(i64[7] == 3000000000 && i64[9] == INT64_MAX && i64[10] == INT64_MIN);
    cast(x, MICA_F32, u64, MICA_U64, N);
    assert_true(u64[8] == 0 && u64[9] == UINT64_MAX && u64[11] == UINT64_MAX);
    cast(x, MICA_F32, truth, MICA_BOOL, N);
    assert_memory_equal(truth, ((uint8_t[]){0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), N);
}

static void integers_wrap_and_round_once_to_floats(void **state)
{
    (void)state;
    const int64_t x[] = {0, -1, 300, 4294967301, INT64_MIN, 16777217, 16777219};
    enum { N = sizeof x / sizeof *x };
    uint8_t u8[N];
    int32_t i32[N];
    float f[N];
    uint16_t h[N];
    cast(x, MICA_I64, u8, MICA_U8, N);
    assert_memory_equal(u8, ((uint8_t[]){0, 255, 44, 5, 0, 1, 3}), N);
    cast(x, MICA_I64, i32, MICA_I32, N);
    assert_true(i32[1] == -1 && i32[3] == 5 && i32[4] == 0);
    cast(x, MICA_I64, f, MICA_F32, N);
    assert_true(f[1] == -1 && f[4] == -0x1p63f && f[5] == 16777216 && f[6] == 16777220);
    cast(x, MICA_I64, h, MICA_F16, N);
    assert_int_equal(h[2], mica__f32_to_f16(300));
    assert_int_equal(h[3], 0x7c00);
}

/* Doubles just beside the midpoint of two halves: a rounding through f32 would lose the side. */
static void doubles_round_to_halves_once(void **state)
{
    (void)state;
    const double x[] = {1 + 0x1p-11 + 0x1p-40,
                        1 + 0x1p-11 - 0x1p-40,
                        1 + 0x1p-8 + 0x1p-40,
                        -(1 + 3 * 0x1p-8 - 0x1p-45),
                        1e300,
                        -INFINITY,
                        0x1p-25 + 0x1p-70};
    uint16_t h[7], b[7];
    float f[7];
    cast(x, MICA_F64, h, MICA_F16, 7);
    assert_int_equal(h[0], 0x3c01);
    assert_int_equal(h[1], 0x3c00);
    assert_int_equal(h[4], 0x7c00);
    assert_int_equal(h[5], 0xfc00);
    assert_int_equal(h[6], 1);
    cast(x, MICA_F64, b, MICA_BF16, 7);
    assert_int_equal(b[2], 0x3f81);
    assert_int_equal(b[3], 0xbf81);
    assert_int_equal(b[4], 0x7f80);
    cast(x, MICA_F64, f, MICA_F32, 7);
    assert_true(f[0] == (float)x[0] && f[4] == INFINITY);
}

static void every_half_survives_f32_and_complex_keeps_the_real_part(void **state)
{
    (void)state;
    static uint16_t all[65536], back[65536];
    static float wide[65536], z[2 * 65536];
    for (int i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const mica_dtype dtype = bf16 ? MICA_BF16 : MICA_F16;
        cast(all, dtype, wide, MICA_F32, 65536);
        cast(wide, MICA_F32, back, dtype, 65536);
        for (int i = 0; i < 65536; i++)
            assert_true(isnan(wide[i]) || back[i] == i);
    }
    cast(wide, MICA_F32, z, MICA_C64, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_same_floats(&z[2 * i], &wide[i], 1, "real");
        assert_true(z[2 * i + 1] == 0);
        z[2 * i + 1] = 1;
    }
    cast(z, MICA_C64, wide, MICA_F32, 1000);
    assert_same_floats(wide + 500, z + 1000, 1, "real part");
    uint8_t truth[2];
    cast((float[]){0, 2, 0, 0}, MICA_C64, truth, MICA_BOOL, 2);
    assert_true(truth[0] == 1 && truth[1] == 0);
}

static void copies_of_views_of_every_width(void **state)
{
    (void)state;
    static uint8_t from[60000], to[60000];
    for (int i = 0; i < 60000; i++)
        from[i] = (uint8_t)(i * 31 + i / 256);
    static const mica_dtype dtypes[] = {MICA_U8, MICA_F16, MICA_I32, MICA_C64};
    for (int k = 0; k < 4; k++) {
        const int64_t bytes = mica_dtype_bytes(dtypes[k]);
        mica__operand in = OPERAND(from + 1, dtypes[k], 5, 7, 19); /* at an odd address */
        in.unaligned = true;
        in.strides[0] = 3;
        in.strides[1] = 300;
        in.strides[2] = 16;
        assert_ok(run(MICA__OP_COPY, NULL, scalar(), 1, &in, OPERAND(to, dtypes[k], 5, 7, 19)));
        for (int64_t i = 0; i < 5 * 7 * 19; i++) {
            const int64_t offset = i / 133 * 3 + i / 19 % 7 * 300 + i % 19 * 16;
            assert_memory_equal(to + i * bytes, from + 1 + offset * bytes, (size_t)bytes);
        }
        in = OPERAND(from, dtypes[k], 1000);
        in.strides[0] = -1;
        in.data += 999 * bytes;
        assert_ok(run(MICA__OP_COPY, NULL, scalar(), 1, &in, OPERAND(to, dtypes[k], 1000)));
        for (int64_t i = 0; i < 1000; i++)
            assert_memory_equal(to + i * bytes, from + (999 - i) * bytes, (size_t)bytes);
    }
}

static void full_and_arange_make_their_elements(void **state)
{
    (void)state;
    static int16_t made[40000];
    int16_t value = -321;
    mica__operand one = {.data = (uint8_t *)&value, .dtype = MICA_I16};
    const mica__full_attrs full = {.ndim = 2, .shape = {200, 200}};
    assert_ok(run(MICA__OP_FULL, &full, scalar(), 1, &one, OPERAND(made, MICA_I16, 200, 200)));
    for (int i = 0; i < 40000; i++)
        assert_int_equal(made[i], -321);
    const mica__arange_attrs whole = {.start = 10, .step = -3, .n = 4, .dtype = MICA_I16};
    assert_ok(run(MICA__OP_ARANGE, &whole, scalar(), 0, NULL, OPERAND(made, MICA_I16, 4)));
    assert_memory_equal(made, ((int16_t[]){10, 7, 4, 1}), 8);
    float f[5];
    const mica__arange_attrs part = {.start = 1, .step = 0.25, .n = 5, .dtype = MICA_F32};
    assert_ok(run(MICA__OP_ARANGE, &part, scalar(), 0, NULL, OPERAND(f, MICA_F32, 5)));
    assert_memory_equal(f, ((float[]){1, 1.25f, 1.5f, 1.75f, 2}), 20);
    uint16_t h[3];
    const mica__arange_attrs half = {.start = 0.5, .step = 1, .n = 3, .dtype = MICA_F16};
    assert_ok(run(MICA__OP_ARANGE, &half, scalar(), 0, NULL, OPERAND(h, MICA_F16, 3)));
    assert_int_equal(h[2], mica__f32_to_f16(2.5f));
}

static void concatenation_lays_parts_behind_each_other(void **state)
{
    (void)state;
    int32_t a[2 * 3 * 4], b[2 * 1 * 4], c[1], out[2 * 4 * 4];
    for (int i = 0; i < 24; i++)
        a[i] = i;
    for (int i = 0; i < 8; i++)
        b[i] = 100 + i;
    const mica__axis_attrs attrs = {1};
    mica__operand in[] = {OPERAND(a, MICA_I32, 2, 3, 4), OPERAND(c, MICA_I32, 2, 0, 4),
                          OPERAND(b, MICA_I32, 2, 1, 4)};
    assert_ok(run(MICA__OP_CONCATENATE, &attrs, scalar(), 3, in, OPERAND(out, MICA_I32, 2, 4, 4)));
    for (int i = 0; i < 32; i++) {
        const int x = i / 16, y = i / 4 % 4, z = i % 4;
        assert_int_equal(out[i], y < 3 ? a[x * 12 + y * 4 + z] : b[x * 4 + z]);
    }
    static int32_t big[70000], two[140000];
    for (int i = 0; i < 70000; i++)
        big[i] = i;
    const mica__axis_attrs first = {0};
    mica__operand twice[] = {OPERAND(big, MICA_I32, 70000), OPERAND(big, MICA_I32, 70000)};
    assert_ok(
        run(MICA__OP_CONCATENATE, &first, scalar(), 2, twice, OPERAND(two, MICA_I32, 140000)));
    for (int i = 0; i < 140000; i++)
        assert_int_equal(two[i], i % 70000);
}

static void take_picks_along_any_axis(void **state)
{
    (void)state;
    uint16_t x[3 * 5 * 4];
    for (int i = 0; i < 60; i++)
        x[i] = (uint16_t)(i + 7);
    int32_t index[] = {4, -5, 0, -1, 2, 2};
    for (int axis = 0; axis < 3; axis++) {
        const int extent = axis == 0 ? 3 : axis == 1 ? 5 : 4;
        int32_t wrapped[6];
        for (int i = 0; i < 6; i++)
            wrapped[i] = index[i] >= 0 ? index[i] % extent : -1 - (-index[i] - 1) % extent;
        const mica__axis_attrs attrs = {axis - (axis == 2 ? 3 : 0)};
        int64_t shape[] = {3, 5, 4, 0};
        for (int i = 3; i > axis; i--)
            shape[i] = shape[i - 1];
        shape[axis] = 2;
        shape[axis + 1] = 3;
        uint16_t to[2 * 3 * 20];
        mica__operand in[] = {OPERAND(x, MICA_F16, 3, 5, 4), OPERAND(wrapped, MICA_I32, 2, 3)};
        assert_ok(run(MICA__OP_TAKE, &attrs, scalar(), 2, in, operand_of(to, MICA_F16, 4, shape)));
        int64_t after = 1, before = 1;
        for (int i = 0; i < 3; i++) {
            after *= i > axis ? in[0].shape[i] : 1;
            before *= i < axis ? in[0].shape[i] : 1;
        }
        for (int64_t b = 0; b < before; b++)
            for (int p = 0; p < 6; p++)
                for (int64_t a = 0; a < after; a++) {
                    const int64_t from = wrapped[p] < 0 ? wrapped[p] + extent : wrapped[p];
                    assert_int_equal(to[(b * 6 + p) * after + a],
                                     x[(b * extent + from) * after + a]);
                }
    }
}

static void take_of_views_and_wide_rows(void **state)
{
    (void)state;
    static float x[10 * 5000], out[4 * 5000];
    for (int i = 0; i < 50000; i++)
        x[i] = (float)i;
    uint32_t index[8] = {9, 77, 0, 77, 3, 77, 9, 77};
    mica__operand in[] = {OPERAND(x, MICA_F32, 10, 2500), OPERAND(index, MICA_U32, 4)};
    in[0].strides[0] = 5000;
    in[0].strides[1] = 2;
    in[1].strides[0] = 2;
    const mica__axis_attrs attrs = {0};
    assert_ok(run(MICA__OP_TAKE, &attrs, scalar(), 2, in, OPERAND(out, MICA_F32, 4, 2500)));
    for (int i = 0; i < 10000; i++)
        assert_true(out[i] == x[index[i / 2500 * 2] * 5000 + i % 2500 * 2]);
}

static void take_refuses_what_is_out_of_range(void **state)
{
    (void)state;
    float x[6] = {0}, out[6];
    const mica__axis_attrs attrs = {0};
    static const int32_t wrong[] = {3, -4, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        int32_t index[] = {0, wrong[i]};
        mica__operand in[] = {OPERAND(x, MICA_F32, 3, 2), OPERAND(index, MICA_I32, 2)};
        assert_status(run(MICA__OP_TAKE, &attrs, scalar(), 2, in, OPERAND(out, MICA_F32, 2, 2)),
                      MICA_E_ARGUMENT);
        assert_non_null(strstr(mica_last_error(), "out of range"));
    }
    uint32_t high[] = {UINT32_MAX};
    mica__operand in[] = {OPERAND(x, MICA_F32, 3, 2), OPERAND(high, MICA_U32, 1)};
    assert_status(run(MICA__OP_TAKE, &attrs, scalar(), 2, in, OPERAND(out, MICA_F32, 1, 2)),
                  MICA_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_become_integers_towards_zero_and_saturate),
        cmocka_unit_test(integers_wrap_and_round_once_to_floats),
        cmocka_unit_test(doubles_round_to_halves_once),
        cmocka_unit_test(every_half_survives_f32_and_complex_keeps_the_real_part),
        cmocka_unit_test(copies_of_views_of_every_width),
        cmocka_unit_test(full_and_arange_make_their_elements),
        cmocka_unit_test(concatenation_lays_parts_behind_each_other),
        cmocka_unit_test(take_picks_along_any_axis),
        cmocka_unit_test(take_of_views_and_wide_rows),
        cmocka_unit_test(take_refuses_what_is_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
