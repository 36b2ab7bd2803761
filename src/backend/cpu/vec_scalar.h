/* vec_scalar.h - sixteen float lanes in plain C: the oracle of the other vec_<level>.h.
 *
 * Every level defines the same names. v16 is sixteen floats (a struct by value), vd a register of
 * doubles for math_body.h. Loads and stores take any address; the _n forms touch n < 16 elements
 * only and fill the other lanes with +0. Operations round as IEEE says, lane by lane; the compiler
 * fuses nothing.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_VEC_SCALAR_H
#define MICA_BACKEND_VEC_SCALAR_H

#include "backend/common/math_f32.h"

#define VEC_LEVEL scalar

typedef struct v16 {
    float v[16];
} v16;

typedef struct v16d {
    double v[16];
} v16d;

#define LANES for (int i = 0; i < 16; i++)

static inline v16 v_set(float x)
{
    v16 r;
    LANES r.v[i] = x;
    return r;
}

static inline v16 v_load(const void *p)
{
    v16 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

static inline v16 v_load_n(const void *p, int n)
{
    v16 r = v_set(0);
    memcpy(r.v, p, (size_t)n * 4);
    return r;
}

static inline void v_store(void *p, v16 a)
{
    memcpy(p, a.v, sizeof a.v);
}

static inline void v_store_n(void *p, v16 a, int n)
{
    memcpy(p, a.v, (size_t)n * 4);
}

static inline v16 v_load_f16_n(const void *p, int n)
{
    uint16_t h[16];
    memcpy(h, p, (size_t)n * 2);
    v16 r = v_set(0);
    for (int i = 0; i < n; i++)
        r.v[i] = mica__f16_to_f32(h[i]);
    return r;
}

static inline v16 v_load_bf16_n(const void *p, int n)
{
    uint16_t h[16];
    memcpy(h, p, (size_t)n * 2);
    v16 r = v_set(0);
    for (int i = 0; i < n; i++)
        r.v[i] = mica__bf16_to_f32(h[i]);
    return r;
}

static inline void v_store_f16_n(void *p, v16 a, int n)
{
    uint16_t h[16];
    for (int i = 0; i < n; i++)
        h[i] = mica__f32_to_f16(a.v[i]);
    memcpy(p, h, (size_t)n * 2);
}

static inline void v_store_bf16_n(void *p, v16 a, int n)
{
    uint16_t h[16];
    for (int i = 0; i < n; i++)
        h[i] = mica__f32_to_bf16(a.v[i]);
    memcpy(p, h, (size_t)n * 2);
}

#define v_load_f16(p)      v_load_f16_n(p, 16)
#define v_load_bf16(p)     v_load_bf16_n(p, 16)
#define v_store_f16(p, a)  v_store_f16_n(p, a, 16)
#define v_store_bf16(p, a) v_store_bf16_n(p, a, 16)

static inline v16 v_load_i8_n(const void *p, int n)
{
    int8_t q[16];
    memcpy(q, p, (size_t)n);
    v16 r = v_set(0);
    for (int i = 0; i < n; i++)
        r.v[i] = (float)q[i];
    return r;
}

#define v_load_i8(p) v_load_i8_n(p, 16)

/* n even: two codes a byte, low nibble first, less 8. */
static inline v16 v_load_i4_n(const void *p, int n)
{
    uint8_t q[8];
    memcpy(q, p, (size_t)n / 2);
    v16 r = v_set(0);
    for (int i = 0; i < n; i++)
        r.v[i] = (float)((q[i / 2] >> i % 2 * 4 & 15) - 8);
    return r;
}

static inline v16 v_set_f16(uint16_t half)
{
    return v_set(mica__f16_to_f32(half));
}

/* Sixteen dwords as they lie; v_code8(w, i): byte i as int8, v_code4(w, i): nibble i less 8. */
typedef struct w16 {
    uint32_t v[16];
} w16;

static inline w16 w_load(const void *p)
{
    w16 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

static inline v16 v_code8(w16 w, int byte)
{
    v16 r;
    LANES r.v[i] = (float)(int8_t)(w.v[i] >> 8 * byte);
    return r;
}

static inline v16 v_code4(w16 w, int nibble)
{
    v16 r;
    LANES r.v[i] = (float)((int32_t)(w.v[i] >> 4 * nibble & 15) - 8);
    return r;
}

#define V_BINARY(name, expression)                                                                 \
    static inline v16 name(v16 a, v16 b)                                                           \
    {                                                                                              \
        v16 r;                                                                                     \
        LANES                                                                                      \
        {                                                                                          \
            const float x = a.v[i], y = b.v[i];                                                    \
            r.v[i] = (expression);                                                                 \
        }                                                                                          \
        return r;                                                                                  \
    }
V_BINARY(v_add, x + y)
V_BINARY(v_sub, x - y)
V_BINARY(v_mul, x *y)
V_BINARY(v_div, x / y)
V_BINARY(v_max, mica__max_f32(x, y))
V_BINARY(v_min, mica__min_f32(x, y))
#undef V_BINARY

#define V_UNARY(name, expression)                                                                  \
    static inline v16 name(v16 a)                                                                  \
    {                                                                                              \
        v16 r;                                                                                     \
        LANES                                                                                      \
        {                                                                                          \
            const float x = a.v[i];                                                                \
            r.v[i] = (expression);                                                                 \
        }                                                                                          \
        return r;                                                                                  \
    }
V_UNARY(v_abs, fabsf(x))
V_UNARY(v_neg, -x)
V_UNARY(v_sqrt, sqrtf(x))
V_UNARY(v_exp, mica__exp_f32(x))
V_UNARY(v_round_f16, mica__f16_to_f32(mica__f32_to_f16(x)))
V_UNARY(v_round_bf16, mica__bf16_to_f32(mica__f32_to_bf16(x)))
#undef V_UNARY

/* a * b + c and c - a * b, rounded once. */
static inline v16 v_fma(v16 a, v16 b, v16 c)
{
    v16 r;
    LANES r.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return r;
}

static inline v16 v_fnma(v16 a, v16 b, v16 c)
{
    v16 r;
    LANES r.v[i] = fmaf(-a.v[i], b.v[i], c.v[i]);
    return r;
}

/* The tree i+8, i+4, i+2, i+1 over the lanes. */
static inline float v_sum(v16 a)
{
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            a.v[i] = a.v[i] + a.v[i + half];
    return a.v[0];
}

static inline float v_hmax(v16 a)
{
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            a.v[i] = mica__max_f32(a.v[i], a.v[i + half]);
    return a.v[0];
}

static inline float v_hmin(v16 a)
{
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            a.v[i] = mica__min_f32(a.v[i], a.v[i + half]);
    return a.v[0];
}

/* Lane i keeps a where first <= i < last, else takes `other`. */
static inline v16 v_keep(v16 a, int first, int last, float other)
{
    LANES if (i < first || i >= last) a.v[i] = other;
    return a;
}

/* Doubles: lanes by parts of VD_LANES. */
static inline v16d v_widen(v16 a)
{
    v16d r;
    LANES r.v[i] = (double)a.v[i];
    return r;
}

static inline v16 v_narrow(v16d a)
{
    v16 r;
    LANES r.v[i] = (float)a.v[i];
    return r;
}

#define V16D_PARTS 16

/* Register tiles of attention: query rows, blocks of keys, vectors of values. */
#define TILE_ROWS    2
#define TILE_BLOCKS  2
#define TILE_VECTORS 2

#undef LANES

static inline void v_prefetch(const void *p)
{
    (void)p;
}

#include "backend/cpu/vec_math.h"

#endif
