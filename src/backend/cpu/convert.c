/* convert.c - elements of one dtype to another, through the widest type of their kind.
 *
 * A part of a run is read into int64, uint64 or double (all exact), then written; so there are
 * readers and writers for each dtype, not a function for each pair.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/convert.h"

#include <math.h>

#include "base/half.h"

enum { PART = 128 };

typedef enum kind { SIGNED, UNSIGNED, REAL } kind;

typedef struct part {
    kind kind;
    int64_t i[PART];
    uint64_t u[PART];
    double x[PART];
    float imaginary[PART];
} part;

#define READ(dtype, type, which, array, expression)                                                \
    case dtype:                                                                                    \
        values->kind = which;                                                                      \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type v;                                                                                \
            memcpy(&v, from + k * stride * (int64_t)sizeof v, sizeof v);                           \
            values->array[k] = expression;                                                         \
        }                                                                                          \
        break;

static void read_part(part *values, const uint8_t *from, mica_dtype dtype, int64_t stride,
                      int64_t n)
{
    switch (dtype) {
        READ(MICA_BOOL, uint8_t, UNSIGNED, u, v != 0)
        READ(MICA_U8, uint8_t, UNSIGNED, u, v)
        READ(MICA_U16, uint16_t, UNSIGNED, u, v)
        READ(MICA_U32, uint32_t, UNSIGNED, u, v)
        READ(MICA_U64, uint64_t, UNSIGNED, u, v)
        READ(MICA_I8, int8_t, SIGNED, i, v)
        READ(MICA_I16, int16_t, SIGNED, i, v)
        READ(MICA_I32, int32_t, SIGNED, i, v)
        READ(MICA_I64, int64_t, SIGNED, i, v)
        READ(MICA_F16, uint16_t, REAL, x, (double)mica__f16_to_f32(v))
        READ(MICA_BF16, uint16_t, REAL, x, (double)mica__bf16_to_f32(v))
        READ(MICA_F32, float, REAL, x, (double)v)
        READ(MICA_F64, double, REAL, x, v)
    case MICA_C64:
        values->kind = REAL;
        for (int64_t k = 0; k < n; k++) {
            float v[2];
            memcpy(v, from + k * stride * 8, sizeof v);
            values->x[k] = (double)v[0];
            values->imaginary[k] = v[1];
        }
        break;
    case MICA_N_DTYPES:
        break;
    }
}

/* Towards zero, saturated; NaN gives 0. */
static int64_t to_signed(double x, int bits)
{
    const double limit = bits == 64 ? 0x1p63 : (double)((int64_t)1 << (bits - 1));
    if (x != x)
        return 0;
    if (x >= limit)
        return bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    if (x <= -limit)
        return bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
    return (int64_t)x;
}

static uint64_t to_unsigned(double x, int bits)
{
    const double limit = bits == 64 ? 0x1p64 : (double)((uint64_t)1 << bits);
    if (!(x > 0))
        return 0;
    if (x >= limit)
        return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return (uint64_t)x;
}

/* A float that rounds to any narrower type as x would: inexact values get an odd last bit. */
static float to_odd(double x)
{
    const float f = (float)x;
    if ((double)f == x || x != x || isinf(x))
        return f;
    uint32_t u = mica__f32_bits(f);
    if (fabs((double)f) > fabs(x))
        u--;
    return mica__f32_from_bits(u | 1);
}

static float narrow_int(const part *values, int64_t k)
{
    return values->kind == SIGNED ? (float)values->i[k] : (float)values->u[k];
}

#define WRITE(dtype, type, from_signed, from_unsigned, from_real)                                  \
    case dtype:                                                                                    \
        for (int64_t k = 0; k < n; k++) {                                                          \
            const int64_t i = values->i[k];                                                        \
            const uint64_t u = values->u[k];                                                       \
            const double x = values->x[k];                                                         \
            const type v = values->kind == SIGNED     ? (type)(from_signed)                        \
                           : values->kind == UNSIGNED ? (type)(from_unsigned)                      \
                                                      : (type)(from_real);                         \
            (void)i, (void)u, (void)x;                                                             \
            memcpy(to + k * stride * (int64_t)sizeof v, &v, sizeof v);                             \
        }                                                                                          \
        break;

static void write_part(uint8_t *to, mica_dtype dtype, int64_t stride, const part *values, int64_t n,
                       bool complex_source)
{
    switch (dtype) {
        WRITE(MICA_BOOL, uint8_t, i != 0, u != 0,
              x != 0 || (complex_source && values->imaginary[k] != 0))
        WRITE(MICA_U8, uint8_t, i, u, to_unsigned(x, 8))
        WRITE(MICA_U16, uint16_t, i, u, to_unsigned(x, 16))
        WRITE(MICA_U32, uint32_t, i, u, to_unsigned(x, 32))
        WRITE(MICA_U64, uint64_t, i, u, to_unsigned(x, 64))
        WRITE(MICA_I8, int8_t, i, u, to_signed(x, 8))
        WRITE(MICA_I16, int16_t, i, u, to_signed(x, 16))
        WRITE(MICA_I32, int32_t, i, u, to_signed(x, 32))
        WRITE(MICA_I64, int64_t, i, u, to_signed(x, 64))
        WRITE(MICA_F16, uint16_t, mica__f32_to_f16(narrow_int(values, k)),
              mica__f32_to_f16(narrow_int(values, k)), mica__f32_to_f16(to_odd(x)))
        WRITE(MICA_BF16, uint16_t, mica__f32_to_bf16(narrow_int(values, k)),
              mica__f32_to_bf16(narrow_int(values, k)), mica__f32_to_bf16(to_odd(x)))
        WRITE(MICA_F32, float, i, u, x)
        WRITE(MICA_F64, double, i, u, x)
    case MICA_C64:
        for (int64_t k = 0; k < n; k++) {
            const float v[2] = {values->kind == REAL ? (float)values->x[k] : narrow_int(values, k),
                                complex_source ? values->imaginary[k] : 0};
            memcpy(to + k * stride * 8, v, sizeof v);
        }
        break;
    case MICA_N_DTYPES:
        break;
    }
}

void mica__convert(void *to, mica_dtype to_dtype, int64_t to_stride, const void *from,
                   mica_dtype from_dtype, int64_t from_stride, int64_t n)
{
    const int64_t to_bytes = mica_dtype_bytes(to_dtype), from_bytes = mica_dtype_bytes(from_dtype);
    if (to_dtype == from_dtype) {
        mica__move(to, to_stride, from, from_stride, to_bytes, n);
        return;
    }
    part values;
    memset(&values, 0, sizeof values);
    for (int64_t start = 0; start < n; start += PART) {
        const int64_t count = n - start < PART ? n - start : PART;
        read_part(&values, (const uint8_t *)from + start * from_stride * from_bytes, from_dtype,
                  from_stride, count);
        write_part((uint8_t *)to + start * to_stride * to_bytes, to_dtype, to_stride, &values,
                   count, from_dtype == MICA_C64);
    }
}

#define MOVE(size)                                                                                 \
    case size:                                                                                     \
        for (int64_t k = 0; k < n; k++)                                                            \
            memcpy((uint8_t *)to + k * to_stride * size,                                           \
                   (const uint8_t *)from + k * from_stride * size, size);                          \
        break;

void mica__move(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t bytes,
                int64_t n)
{
    if (to_stride == 1 && from_stride == 1) {
        if (n > 0)
            memmove(to, from, (size_t)(n * bytes));
        return;
    }
    switch (bytes) {
        MOVE(1)
        MOVE(2)
        MOVE(4)
        MOVE(8)
    default:
        break;
    }
}
