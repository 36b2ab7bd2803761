/* math_f32.h - functions of one float, the same bits as the vector kernels of every level.
 *
 * exp works in float with fused multiply-add (1 ulp); the others go through double and round once
 * (below 0.51 ulp, math_body.h). For samplers, tests and the scalar kernels.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_MATH_F32_H
#define MICA_BACKEND_MATH_F32_H

#include <math.h>
#include <stdbool.h>

#include "backend/common/trig_reduce.h"

typedef double vd;
typedef bool vm;
#define VD_LANES 1

static inline uint64_t mica__f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double vd_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#define vd_set(c)        ((double)(c))
#define vd_load(p)       (*(p))
#define vd_store(p, x)   (*(p) = (x))
#define vd_add(a, b)     ((a) + (b))
#define vd_sub(a, b)     ((a) - (b))
#define vd_mul(a, b)     ((a) * (b))
#define vd_div(a, b)     ((a) / (b))
#define vd_fma(a, b, c)  fma(a, b, c)
#define vd_fnma(a, b, c) fma(-(a), b, c) /* c - a * b */
#define vd_abs(a)        fabs(a)
#define vd_lt(a, b)      ((a) < (b))
#define vd_sel(m, a, b)  ((m) ? (a) : (b))
#define vd_and(a, b)     vd_bits(mica__f64_bits(a) & mica__f64_bits(b))
#define vd_or(a, b)      vd_bits(mica__f64_bits(a) | mica__f64_bits(b))
#define vd_xor(a, b)     vd_bits(mica__f64_bits(a) ^ mica__f64_bits(b))
#define vd_shl(a, n)     vd_bits(mica__f64_bits(a) << (n))
#define vd_shr52(a)      vd_bits(mica__f64_bits(a) >> 52)
#define vd_scale(p, t)   vd_bits(mica__f64_bits(p) + (mica__f64_bits(t) << 52)) /* p * 2^n */
#define vm_sign(a)       ((mica__f64_bits(a) >> 63) != 0)
#define vm_all(m)        (m)

#include "backend/common/math_body.h"

/* e^x within 1 ulp: x = n ln 2 + r, polynomial of degree 7 in r, then 2^n in two exact halves so
 * that subnormal results round once. */
static inline float mica__exp_f32(float x)
{
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float t = fmaf(x, 0x1.715476p+0f, 0x1.8p23f);
    const float n = t - 0x1.8p23f;
    float r = fmaf(-n, 0x1.62e43p-1f, x);
    r = fmaf(-n, -0x1.05c61p-29f, r);
    float p = 0x1.a125p-13f;
    p = fmaf(p, r, 0x1.6d1116p-10f);
    p = fmaf(p, r, 0x1.1110dcp-7f);
    p = fmaf(p, r, 0x1.55550ep-5f);
    p = fmaf(p, r, 0x1.555556p-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    const int32_t power = (int32_t)(mica__f32_bits(t) - 0x4b400000u);
    if (power < -200 || power > 200) /* x is NaN */
        return p;
    const int32_t half = (power + 512) / 2 - 256;
    return p * mica__f32_from_bits((uint32_t)(half + 127) << 23) *
           mica__f32_from_bits((uint32_t)(power - half + 127) << 23);
}

#define MICA__THROUGH_DOUBLE(name)                                                                 \
    static inline float mica__##name##_f32(float x)                                                \
    {                                                                                              \
        return (float)d_##name((double)x);                                                         \
    }
MICA__THROUGH_DOUBLE(log)
MICA__THROUGH_DOUBLE(sin)
MICA__THROUGH_DOUBLE(cos)
MICA__THROUGH_DOUBLE(tanh)
MICA__THROUGH_DOUBLE(sigmoid)
MICA__THROUGH_DOUBLE(erf)
MICA__THROUGH_DOUBLE(silu)
MICA__THROUGH_DOUBLE(gelu)
MICA__THROUGH_DOUBLE(gelu_tanh)
#undef MICA__THROUGH_DOUBLE

/* Both steps round correctly. rsqrt(+-0) = +-inf, of negatives NaN. */
static inline float mica__rsqrt_f32(float x)
{
    return 1.0f / sqrtf(x);
}

/* max(a, b) and min(a, b): NaN wins, +0 is above -0; the order of arguments never matters. */
static inline float mica__max_f32(float a, float b)
{
    if (a != a || b != b)
        return a + b;
    if (a == b)
        return mica__f32_from_bits(mica__f32_bits(a) & mica__f32_bits(b));
    return a > b ? a : b;
}

static inline float mica__min_f32(float a, float b)
{
    if (a != a || b != b)
        return a + b;
    if (a == b)
        return mica__f32_from_bits(mica__f32_bits(a) | mica__f32_bits(b));
    return a < b ? a : b;
}

#endif
