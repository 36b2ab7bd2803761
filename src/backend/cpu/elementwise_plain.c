/* elementwise_plain.c - unary and binary ops on integers, bool, f64 and c64.
 *
 * Parts of a run are widened to int64, uint64, double or a pair of doubles, worked on, and
 * narrowed: integers wrap to their width, bool is what is not 0, c64 rounds each part once.
 * Transcendental functions of f64 and c64 are the C library's: within its accuracy, and outside the
 * promise of equal bits between machines.
 * SPDX-License-Identifier: MIT
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/operand.h"

/* The header's I collides with names. */
#undef I

#ifndef CMPLX /* glibc gives it to gcc only */
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif

enum { PART = 256 };

typedef struct pair {
    double re, im;
} pair;

typedef enum number_kind { SIGNED, UNSIGNED, DOUBLE, COMPLEX, NONE } number_kind;

static number_kind kind_of(mica_dtype dtype)
{
    if (dtype == MICA_F64)
        return DOUBLE;
    if (dtype == MICA_C64)
        return COMPLEX;
    if (dtype >= MICA_I8 && dtype <= MICA_I64)
        return SIGNED;
    return dtype <= MICA_U64 ? UNSIGNED : NONE;
}

/* A part of one operand in the widest type of its domain. */
typedef union values {
    int64_t i[PART];
    uint64_t u[PART];
    double x[PART];
    pair z[PART];
} values;

static bool whole_op(mica__op op, mica_dtype dtype)
{
    switch (op) {
    case MICA__OP_NEGATIVE:
        return dtype != MICA_BOOL;
    case MICA__OP_ABS:
    case MICA__OP_SQUARE:
    case MICA__OP_ADD:
    case MICA__OP_SUBTRACT:
    case MICA__OP_MULTIPLY:
    case MICA__OP_MAXIMUM:
    case MICA__OP_MINIMUM:
        return true;
    default:
        return false;
    }
}

static bool complex_op(mica__op op)
{
    switch (op) {
    case MICA__OP_SIGMOID:
    case MICA__OP_ERF:
    case MICA__OP_SILU:
    case MICA__OP_GELU:
    case MICA__OP_GELU_TANH:
    case MICA__OP_SWIGLU:
    case MICA__OP_GEGLU:
        return false;
    default:
        return true;
    }
}

static bool plain_accepts(const mica__call *call, mica__op op)
{
    const mica_dtype dtype = call->in[0].dtype, out = call->out[0].dtype;
    const number_kind kind = kind_of(dtype);
    if (call->n_in > 1 && call->in[1].dtype != dtype)
        return false;
    if (kind == COMPLEX)
        return complex_op(op) && out == (op == MICA__OP_ABS ? MICA_F32 : MICA_C64);
    if (kind == DOUBLE)
        return out == MICA_F64;
    return kind != NONE && out == dtype && whole_op(op, dtype);
}

static void signed_part(mica__op op, int64_t *a, const int64_t *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        const uint64_t x = (uint64_t)a[k], y = (uint64_t)b[k];
        switch (op) {
        case MICA__OP_ABS:
            a[k] = (int64_t)(a[k] < 0 ? 0 - x : x);
            break;
        case MICA__OP_NEGATIVE:
            a[k] = (int64_t)(0 - x);
            break;
        case MICA__OP_SQUARE:
            a[k] = (int64_t)(x * x);
            break;
        case MICA__OP_ADD:
            a[k] = (int64_t)(x + y);
            break;
        case MICA__OP_SUBTRACT:
            a[k] = (int64_t)(x - y);
            break;
        case MICA__OP_MULTIPLY:
            a[k] = (int64_t)(x * y);
            break;
        case MICA__OP_MAXIMUM:
            a[k] = a[k] > b[k] ? a[k] : b[k];
            break;
        default: /* minimum */
            a[k] = a[k] < b[k] ? a[k] : b[k];
            break;
        }
    }
}

static void unsigned_part(mica__op op, uint64_t *a, const uint64_t *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        switch (op) {
        case MICA__OP_ABS:
            break;
        case MICA__OP_NEGATIVE:
            a[k] = 0 - a[k];
            break;
        case MICA__OP_SQUARE:
            a[k] *= a[k];
            break;
        case MICA__OP_ADD:
            a[k] += b[k];
            break;
        case MICA__OP_SUBTRACT:
            a[k] -= b[k];
            break;
        case MICA__OP_MULTIPLY:
            a[k] *= b[k];
            break;
        case MICA__OP_MAXIMUM:
            a[k] = a[k] > b[k] ? a[k] : b[k];
            break;
        default: /* minimum */
            a[k] = a[k] < b[k] ? a[k] : b[k];
            break;
        }
    }
}

static double max_f64(double a, double b)
{
    if (a != a || b != b)
        return a + b;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

static double min_f64(double a, double b)
{
    if (a != a || b != b)
        return a + b;
    return a < b || (a == b && signbit(a)) ? a : b;
}

/* x times a weight that falls faster than x grows. */
static double gated(double x, double divisor)
{
    return x == -INFINITY ? -0.0 : x / divisor;
}

static double silu(double x)
{
    return gated(x, 1 + exp(-x));
}

static double gelu_tanh(double x)
{
    const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return gated(x, 1 + exp(-2 * u));
}

static double double_of(mica__op op, double x, double y)
{
    switch (op) {
    case MICA__OP_ABS:
        return fabs(x);
    case MICA__OP_NEGATIVE:
        return -x;
    case MICA__OP_SQUARE:
        return x * x;
    case MICA__OP_SQRT:
        return sqrt(x);
    case MICA__OP_RSQRT:
        return 1 / sqrt(x);
    case MICA__OP_RECIPROCAL:
        return 1 / x;
    case MICA__OP_EXP:
        return exp(x);
    case MICA__OP_LOG:
        return log(x);
    case MICA__OP_SIN:
        return sin(x);
    case MICA__OP_COS:
        return cos(x);
    case MICA__OP_TANH:
        return tanh(x);
    case MICA__OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case MICA__OP_ERF:
        return erf(x);
    case MICA__OP_SILU:
        return silu(x);
    case MICA__OP_GELU:
        return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * 0.70710678118654752440);
    case MICA__OP_GELU_TANH:
        return gelu_tanh(x);
    case MICA__OP_ADD:
        return x + y;
    case MICA__OP_SUBTRACT:
        return x - y;
    case MICA__OP_MULTIPLY:
        return x * y;
    case MICA__OP_DIVIDE:
        return x / y;
    case MICA__OP_MAXIMUM:
        return max_f64(x, y);
    case MICA__OP_MINIMUM:
        return min_f64(x, y);
    case MICA__OP_SWIGLU:
        return silu(x) * y;
    default:
        return gelu_tanh(x) * y;
    }
}

static pair pair_of(double complex z)
{
    return (pair){creal(z), cimag(z)};
}

static double complex complex_of(pair a)
{
    return CMPLX(a.re, a.im);
}

/* Ordered by real, then imaginary part; what holds a NaN wins. */
static bool above(pair a, pair b)
{
    return a.re > b.re || (a.re == b.re && a.im > b.im);
}

static bool has_nan(pair a)
{
    return a.re != a.re || a.im != a.im;
}

static pair multiplied(pair a, pair b)
{
    return (pair){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static pair complex_op_of(mica__op op, pair a, pair b)
{
    switch (op) {
    case MICA__OP_ABS:
        return (pair){hypot(a.re, a.im), 0};
    case MICA__OP_NEGATIVE:
        return (pair){-a.re, -a.im};
    case MICA__OP_SQUARE:
        return multiplied(a, a);
    case MICA__OP_SQRT:
        return pair_of(csqrt(complex_of(a)));
    case MICA__OP_RSQRT:
        return pair_of(1 / csqrt(complex_of(a)));
    case MICA__OP_RECIPROCAL:
        return pair_of(1 / complex_of(a));
    case MICA__OP_EXP:
        return pair_of(cexp(complex_of(a)));
    case MICA__OP_LOG:
        return pair_of(clog(complex_of(a)));
    case MICA__OP_SIN:
        return pair_of(csin(complex_of(a)));
    case MICA__OP_COS:
        return pair_of(ccos(complex_of(a)));
    case MICA__OP_TANH:
        return pair_of(ctanh(complex_of(a)));
    case MICA__OP_ADD:
        return (pair){a.re + b.re, a.im + b.im};
    case MICA__OP_SUBTRACT:
        return (pair){a.re - b.re, a.im - b.im};
    case MICA__OP_MULTIPLY:
        return multiplied(a, b);
    case MICA__OP_DIVIDE:
        return pair_of(complex_of(a) / complex_of(b));
    case MICA__OP_MAXIMUM:
        return has_nan(a) || (!has_nan(b) && above(a, b)) ? a : b;
    default: /* minimum */
        return has_nan(a) || (!has_nan(b) && above(b, a)) ? a : b;
    }
}

/* The dtype that parts of a domain are widened to. */
static mica_dtype wide_dtype(number_kind kind)
{
    return kind == SIGNED ? MICA_I64 : kind == UNSIGNED ? MICA_U64 : MICA_F64;
}

static void load_part(values *to, const mica__operand *in, int64_t offset, int64_t stride,
                      int64_t n)
{
    const number_kind kind = kind_of(in->dtype);
    const uint8_t *from = in->data + offset * mica_dtype_bytes(in->dtype);
    if (kind != COMPLEX) {
        mica__convert(to, wide_dtype(kind), 1, from, in->dtype, stride, n);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        float z[2];
        memcpy(z, from + k * stride * 8, sizeof z);
        to->z[k] = (pair){(double)z[0], (double)z[1]};
    }
}

static void store_part(const mica__operand *out, int64_t offset, int64_t stride, number_kind kind,
                       const values *from, int64_t n)
{
    uint8_t *to = out->data + offset * mica_dtype_bytes(out->dtype);
    if (kind != COMPLEX) {
        mica__convert(to, out->dtype, stride, from, wide_dtype(kind), 1, n);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        const float z[2] = {(float)from->z[k].re, (float)from->z[k].im};
        const size_t bytes = (size_t)mica_dtype_bytes(out->dtype); /* f32 for abs */
        memcpy(to + k * stride * (int64_t)bytes, z, bytes);
    }
}

static mica_status plain_run(const mica__call *call, mica__op op, int64_t task)
{
    const number_kind kind = kind_of(call->in[0].dtype);
    values a, b;
    mica__walk walk;
    mica__walk_start(&walk, call->out[0].ndim, call->out[0].shape);
    for (int i = 0; i < call->n_in; i++)
        mica__walk_add(&walk, &call->in[i]);
    mica__walk_add(&walk, &call->out[0]);
    mica__walk_merge(&walk);
    memset(&b, 0, sizeof b);
    mica__cursor cursor;
    int64_t at = task * MICA__TILE_ELEMENTS;
    const int64_t stop =
        walk.size - at < MICA__TILE_ELEMENTS ? walk.size : at + MICA__TILE_ELEMENTS;
    mica__cursor_set(&walk, &cursor, at);
    while (at < stop) {
        int64_t n = mica__cursor_run(&walk, &cursor, stop - at);
        n = n < PART ? n : PART;
        load_part(&a, &call->in[0], mica__cursor_offset(&walk, &cursor, 0),
                  walk.strides[0][walk.ndim - 1], n);
        if (call->n_in > 1)
            load_part(&b, &call->in[1], mica__cursor_offset(&walk, &cursor, 1),
                      walk.strides[1][walk.ndim - 1], n);
        if (kind == SIGNED)
            signed_part(op, a.i, b.i, n);
        else if (kind == UNSIGNED)
            unsigned_part(op, a.u, b.u, n);
        else
            for (int64_t k = 0; k < n; k++)
                if (kind == DOUBLE)
                    a.x[k] = double_of(op, a.x[k], b.x[k]);
                else
                    a.z[k] = complex_op_of(op, a.z[k], b.z[k]);
        store_part(&call->out[0], mica__cursor_offset(&walk, &cursor, call->n_in),
                   walk.strides[call->n_in][walk.ndim - 1], kind, &a, n);
        mica__cursor_advance(&walk, &cursor, n);
        at += n;
    }
    return MICA_OK;
}

#define KERNEL(OP, lower, inputs)                                                                  \
    static bool lower##_accepts(const mica__call *call)                                            \
    {                                                                                              \
        return plain_accepts(call, OP);                                                            \
    }                                                                                              \
    static mica_status lower##_run(const mica__call *call, int stage, int64_t task, void *scratch) \
    {                                                                                              \
        (void)stage;                                                                               \
        (void)scratch;                                                                             \
        return plain_run(call, OP, task);                                                          \
    }                                                                                              \
    const mica__kernel mica__cpu_plain_##lower = {                                                 \
        .op = OP,                                                                                  \
        .name = "plain_" #lower,                                                                   \
        .n_stages = 1,                                                                             \
        .accepts = lower##_accepts,                                                                \
        .n_tasks = mica__elementwise_n_tasks,                                                      \
        .run = lower##_run,                                                                        \
        .in_place = (1u << (inputs)) - 1,                                                          \
    };
MICA__ELEMENTWISE_OPS(KERNEL)
