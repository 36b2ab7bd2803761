/* tile_body.h - elementwise operations over runs of floats, for one feature level.
 *
 * Included by tile_<level>.c after vec_<level>.h. The last, partial vector of a run goes through
 * the _n loads and stores, so nothing outside the run is touched.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/level.h"

#define TILE_CONCAT_(a, b) a##b
#define TILE_CONCAT(a, b)  TILE_CONCAT_(a, b)
#define TILE_EXPORT        TILE_CONCAT(mica__tile_, VEC_LEVEL)

/* to[0, n) = f(from[0, n)) with the given loads and stores of elements of so many bytes. */
#define RUN(LOAD, FROM_BYTES, STORE, TO_BYTES, EXPRESSION)                                         \
    do {                                                                                           \
        const char *source = (const char *)from;                                                   \
        char *target = (char *)to;                                                                 \
        int64_t i = 0;                                                                             \
        for (; i + 16 <= n; i += 16) {                                                             \
            const v16 x = LOAD(source + i * FROM_BYTES);                                           \
            STORE(target + i * TO_BYTES, EXPRESSION);                                              \
        }                                                                                          \
        if (i < n) {                                                                               \
            const v16 x = LOAD##_n(source + i * FROM_BYTES, (int)(n - i));                         \
            STORE##_n(target + i * TO_BYTES, EXPRESSION, (int)(n - i));                            \
        }                                                                                          \
    } while (0)

static void load_run(float *to, const void *from, mica_dtype dtype, int64_t n)
{
    if (dtype == MICA_F16)
        RUN(v_load_f16, 2, v_store, 4, x);
    else if (dtype == MICA_BF16)
        RUN(v_load_bf16, 2, v_store, 4, x);
    else
        memcpy(to, from, (size_t)n * 4);
}

static void store_run(void *to, const float *from, mica_dtype dtype, int64_t n)
{
    if (dtype == MICA_F16)
        RUN(v_load, 4, v_store_f16, 2, x);
    else if (dtype == MICA_BF16)
        RUN(v_load, 4, v_store_bf16, 2, x);
    else
        memcpy(to, from, (size_t)n * 4);
}

static void round_run(float *to, mica_dtype dtype, int64_t n)
{
    const float *from = to;
    if (dtype == MICA_F16)
        RUN(v_load, 4, v_store, 4, v_round_f16(x));
    else if (dtype == MICA_BF16)
        RUN(v_load, 4, v_store, 4, v_round_bf16(x));
}

#define UNARY_CASE(op, expression)                                                                 \
    case op:                                                                                       \
        RUN(v_load, 4, v_store, 4, expression);                                                    \
        return true;

static bool unary_run(mica__op op, float *to, const float *from, int64_t n)
{
    switch (op) {
        UNARY_CASE(MICA__OP_ABS, v_abs(x))
        UNARY_CASE(MICA__OP_NEGATIVE, v_neg(x))
        UNARY_CASE(MICA__OP_SQUARE, v_mul(x, x))
        UNARY_CASE(MICA__OP_SQRT, v_sqrt(x))
        UNARY_CASE(MICA__OP_RSQRT, v_div(v_set(1.0f), v_sqrt(x)))
        UNARY_CASE(MICA__OP_RECIPROCAL, v_div(v_set(1.0f), x))
        UNARY_CASE(MICA__OP_EXP, v_exp(x))
        UNARY_CASE(MICA__OP_LOG, v_log(x))
        UNARY_CASE(MICA__OP_SIN, v_sin(x))
        UNARY_CASE(MICA__OP_COS, v_cos(x))
        UNARY_CASE(MICA__OP_TANH, v_tanh(x))
        UNARY_CASE(MICA__OP_SIGMOID, v_sigmoid(x))
        UNARY_CASE(MICA__OP_ERF, v_erf(x))
        UNARY_CASE(MICA__OP_SILU, v_silu(x))
        UNARY_CASE(MICA__OP_GELU, v_gelu(x))
        UNARY_CASE(MICA__OP_GELU_TANH, v_gelu_tanh(x))
    default:
        return false;
    }
}

#define BINARY_CASE(op, f)                                                                         \
    case op: {                                                                                     \
        int64_t i = 0;                                                                             \
        for (; i + 16 <= n; i += 16)                                                               \
            v_store(to + i, f(v_load(a + i), v_load(b + i)));                                      \
        if (i < n) {                                                                               \
            const int rest = (int)(n - i);                                                         \
            v_store_n(to + i, f(v_load_n(a + i, rest), v_load_n(b + i, rest)), rest);              \
        }                                                                                          \
        return true;                                                                               \
    }

static bool binary_run(mica__op op, float *to, const float *a, const float *b, int64_t n)
{
    switch (op) {
        BINARY_CASE(MICA__OP_ADD, v_add)
        BINARY_CASE(MICA__OP_SUBTRACT, v_sub)
        BINARY_CASE(MICA__OP_MULTIPLY, v_mul)
        BINARY_CASE(MICA__OP_DIVIDE, v_div)
        BINARY_CASE(MICA__OP_MAXIMUM, v_max)
        BINARY_CASE(MICA__OP_MINIMUM, v_min)
        BINARY_CASE(MICA__OP_SWIGLU, v_swiglu)
        BINARY_CASE(MICA__OP_GEGLU, v_geglu)
    default:
        return false;
    }
}

const mica__tile_level TILE_EXPORT = {load_run, store_run, round_run, unary_run, binary_run};
