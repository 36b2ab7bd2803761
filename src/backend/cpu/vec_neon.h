/* vec_neon.h - sixteen float lanes in four NEON registers (arm64).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_VEC_NEON_H
#define MICA_BACKEND_VEC_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <string.h>

#include "backend/common/trig_reduce.h"

#define VEC_LEVEL neon

typedef float32x4x4_t v16;
typedef uint32x4x4_t w16;
typedef float64x2_t vd;
typedef uint64x2_t vm;

/* One expression for each quarter i of the result. */
#define V_QUARTERS(expression)                                                                     \
    v16 r;                                                                                         \
    for (int i = 0; i < 4; i++)                                                                    \
        r.val[i] = (expression);                                                                   \
    return r

static inline v16 v_set(float x)
{
    V_QUARTERS(vdupq_n_f32(x));
}

static inline v16 v_load(const void *p)
{
    V_QUARTERS(vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p + 16 * i)));
}

static inline v16 v_load_n(const void *p, int n)
{
    float lanes[16] = {0};
    memcpy(lanes, p, (size_t)n * 4);
    return v_load(lanes);
}

static inline void v_store(void *p, v16 x)
{
    for (int i = 0; i < 4; i++)
        vst1q_u8((uint8_t *)p + 16 * i, vreinterpretq_u8_f32(x.val[i]));
}

static inline void v_store_n(void *p, v16 x, int n)
{
    float lanes[16];
    v_store(lanes, x);
    memcpy(p, lanes, (size_t)n * 4);
}

static inline uint16x4_t v_load_halves(const void *p, int quarter)
{
    return vreinterpret_u16_u8(vld1_u8((const uint8_t *)p + 8 * quarter));
}

static inline v16 v_load_f16(const void *p)
{
    V_QUARTERS(vcvt_f32_f16(vreinterpret_f16_u16(v_load_halves(p, i))));
}

static inline v16 v_load_bf16(const void *p)
{
    V_QUARTERS(vreinterpretq_f32_u32(vshll_n_u16(v_load_halves(p, i), 16)));
}

static inline v16 v_load_f16_n(const void *p, int n)
{
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)n * 2);
    return v_load_f16(h);
}

static inline v16 v_load_bf16_n(const void *p, int n)
{
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)n * 2);
    return v_load_bf16(h);
}

static inline void v_store_f16(void *p, v16 x)
{
    for (int i = 0; i < 4; i++)
        vst1_u8((uint8_t *)p + 8 * i, vreinterpret_u8_f16(vcvt_f16_f32(x.val[i])));
}

static inline void v_store_f16_n(void *p, v16 x, int n)
{
    uint16_t h[16];
    v_store_f16(h, x);
    memcpy(p, h, (size_t)n * 2);
}

/* The upper halves, rounded to nearest even; NaN keeps its own with the quiet bit set. */
static inline uint32x4_t v_bf16_bits(float32x4_t x)
{
    const uint32x4_t u = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd);
    return vbslq_u32(vceqq_f32(x, x), rounded, vorrq_u32(u, vdupq_n_u32(0x400000)));
}

static inline void v_store_bf16(void *p, v16 x)
{
    for (int i = 0; i < 4; i++)
        vst1_u8((uint8_t *)p + 8 * i, vreinterpret_u8_u16(vshrn_n_u32(v_bf16_bits(x.val[i]), 16)));
}

static inline void v_store_bf16_n(void *p, v16 x, int n)
{
    uint16_t h[16];
    v_store_bf16(h, x);
    memcpy(p, h, (size_t)n * 2);
}

static inline v16 v_round_f16(v16 x)
{
    V_QUARTERS(vcvt_f32_f16(vcvt_f16_f32(x.val[i])));
}

static inline v16 v_round_bf16(v16 x)
{
    V_QUARTERS(vreinterpretq_f32_u32(vandq_u32(v_bf16_bits(x.val[i]), vdupq_n_u32(0xffff0000u))));
}

static inline v16 v_set_f16(uint16_t half)
{
    const float32x4_t x = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half)));
    V_QUARTERS(x);
}

static inline v16 v_from_i8(int8x16_t q)
{
    const int16x8_t low = vmovl_s8(vget_low_s8(q)), high = vmovl_s8(vget_high_s8(q));
    v16 r;
    r.val[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    r.val[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(low)));
    r.val[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    r.val[3] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)));
    return r;
}

static inline v16 v_load_i8(const void *p)
{
    return v_from_i8(vld1q_s8(p));
}

static inline v16 v_load_i8_n(const void *p, int n)
{
    int8_t q[16] = {0};
    memcpy(q, p, (size_t)n);
    return v_load_i8(q);
}

static inline v16 v_load_i4_n(const void *p, int n)
{
    uint8_t bytes[8] = {0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88}; /* zeros */
    memcpy(bytes, p, (size_t)n / 2);
    const uint8x8_t q = vld1_u8(bytes);
    const uint8x8x2_t codes = vzip_u8(vand_u8(q, vdup_n_u8(15)), vshr_n_u8(q, 4));
    const int8x16_t all = vreinterpretq_s8_u8(vcombine_u8(codes.val[0], codes.val[1]));
    return v_from_i8(vsubq_s8(all, vdupq_n_s8(8)));
}

static inline w16 w_load(const void *p)
{
    w16 r;
    for (int i = 0; i < 4; i++)
        r.val[i] = vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p + 16 * i));
    return r;
}

static inline v16 v_code8(w16 w, int byte)
{
    const int32x4_t up = vdupq_n_s32(24 - 8 * byte);
    V_QUARTERS(vcvtq_f32_s32(vshrq_n_s32(vshlq_s32(vreinterpretq_s32_u32(w.val[i]), up), 24)));
}

static inline v16 v_code4(w16 w, int nibble)
{
    const int32x4_t down = vdupq_n_s32(-4 * nibble);
    V_QUARTERS(vcvtq_f32_s32(
        vsubq_s32(vreinterpretq_s32_u32(vandq_u32(vshlq_u32(w.val[i], down), vdupq_n_u32(15))),
                  vdupq_n_s32(8))));
}

static inline v16 v_add(v16 x, v16 y)
{
    V_QUARTERS(vaddq_f32(x.val[i], y.val[i]));
}

static inline v16 v_sub(v16 x, v16 y)
{
    V_QUARTERS(vsubq_f32(x.val[i], y.val[i]));
}

static inline v16 v_mul(v16 x, v16 y)
{
    V_QUARTERS(vmulq_f32(x.val[i], y.val[i]));
}

static inline v16 v_div(v16 x, v16 y)
{
    V_QUARTERS(vdivq_f32(x.val[i], y.val[i]));
}

/* FMAX and FMIN give NaN for NaN and order -0 below +0. */
static inline v16 v_max(v16 x, v16 y)
{
    V_QUARTERS(vmaxq_f32(x.val[i], y.val[i]));
}

static inline v16 v_min(v16 x, v16 y)
{
    V_QUARTERS(vminq_f32(x.val[i], y.val[i]));
}

static inline v16 v_fma(v16 x, v16 y, v16 z)
{
    V_QUARTERS(vfmaq_f32(z.val[i], x.val[i], y.val[i]));
}

static inline v16 v_fnma(v16 x, v16 y, v16 z)
{
    V_QUARTERS(vfmsq_f32(z.val[i], x.val[i], y.val[i]));
}

static inline v16 v_abs(v16 x)
{
    V_QUARTERS(vabsq_f32(x.val[i]));
}

static inline v16 v_neg(v16 x)
{
    V_QUARTERS(vnegq_f32(x.val[i]));
}

static inline v16 v_sqrt(v16 x)
{
    V_QUARTERS(vsqrtq_f32(x.val[i]));
}

/* The tree i+8, i+4, i+2, i+1. */
#define V_TREE(name, op4, op2)                                                                     \
    static inline float name(v16 x)                                                                \
    {                                                                                              \
        const float32x4_t h4 = op4(op4(x.val[0], x.val[2]), op4(x.val[1], x.val[3]));              \
        const float32x2_t h2 = op2(vget_low_f32(h4), vget_high_f32(h4));                           \
        return vget_lane_f32(op2(h2, vrev64_f32(h2)), 0);                                          \
    }
V_TREE(v_sum, vaddq_f32, vadd_f32)
V_TREE(v_hmax, vmaxq_f32, vmax_f32)
V_TREE(v_hmin, vminq_f32, vmin_f32)
#undef V_TREE

static inline v16 v_keep(v16 x, int first, int last, float other)
{
    static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const int32x4_t from = vdupq_n_s32(first), to = vdupq_n_s32(last);
    V_QUARTERS(vbslq_f32(vandq_u32(vcgeq_s32(vld1q_s32(lanes + 4 * i), from),
                                   vcltq_s32(vld1q_s32(lanes + 4 * i), to)),
                         x.val[i], vdupq_n_f32(other)));
}

/* e^x: the operations of mica__exp_f32. */
static inline float32x4_t v_exp4(float32x4_t x)
{
    const float32x4_t low = vdupq_n_f32(-104.0f), high = vdupq_n_f32(89.0f);
    x = vbslq_f32(vcltq_f32(x, low), low, x);
    x = vbslq_f32(vcgtq_f32(x, high), high, x);
    const float32x4_t rounder = vdupq_n_f32(0x1.8p23f);
    const float32x4_t t = vfmaq_f32(rounder, x, vdupq_n_f32(0x1.715476p+0f));
    const float32x4_t n = vsubq_f32(t, rounder);
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e43p-1f));
    r = vfmsq_f32(r, n, vdupq_n_f32(-0x1.05c61p-29f));
    float32x4_t p = vdupq_n_f32(0x1.a125p-13f);
    p = vfmaq_f32(vdupq_n_f32(0x1.6d1116p-10f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.1110dcp-7f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.55550ep-5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.555556p-3f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    const int32x4_t power = vsubq_s32(vreinterpretq_s32_f32(t), vdupq_n_s32(0x4b400000));
    const int32x4_t half = vshrq_n_s32(power, 1), rest = vsubq_s32(power, half);
    const int32x4_t first = vshlq_n_s32(vaddq_s32(half, vdupq_n_s32(127)), 23);
    const int32x4_t second = vshlq_n_s32(vaddq_s32(rest, vdupq_n_s32(127)), 23);
    return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(first)), vreinterpretq_f32_s32(second));
}

static inline v16 v_exp(v16 x)
{
    V_QUARTERS(v_exp4(x.val[i]));
}

/* Two doubles. */
#define VD_LANES   2
#define V16D_PARTS 8

typedef struct v16d {
    vd v[V16D_PARTS];
} v16d;

#define VD_OF(u) vreinterpretq_f64_u64(u)
#define VD_TO(a) vreinterpretq_u64_f64(a)

#define vd_set(c)        vdupq_n_f64(c)
#define vd_load(p)       vld1q_f64(p)
#define vd_store(p, x)   vst1q_f64(p, x)
#define vd_add(a, b)     vaddq_f64(a, b)
#define vd_sub(a, b)     vsubq_f64(a, b)
#define vd_mul(a, b)     vmulq_f64(a, b)
#define vd_div(a, b)     vdivq_f64(a, b)
#define vd_fma(a, b, c)  vfmaq_f64(c, a, b)
#define vd_fnma(a, b, c) vfmsq_f64(c, a, b)
#define vd_abs(a)        vabsq_f64(a)
#define vd_lt(a, b)      vcltq_f64(a, b)
#define vd_sel(m, a, b)  vbslq_f64(m, a, b)
#define vd_bits(u)       VD_OF(vdupq_n_u64(u))
#define vd_and(a, b)     VD_OF(vandq_u64(VD_TO(a), VD_TO(b)))
#define vd_or(a, b)      VD_OF(vorrq_u64(VD_TO(a), VD_TO(b)))
#define vd_xor(a, b)     VD_OF(veorq_u64(VD_TO(a), VD_TO(b)))
#define vd_shl(a, n)     VD_OF(vshlq_n_u64(VD_TO(a), n))
#define vd_shr52(a)      VD_OF(vshrq_n_u64(VD_TO(a), 52))
#define vd_scale(p, t)   VD_OF(vaddq_u64(VD_TO(p), vshlq_n_u64(VD_TO(t), 52)))
#define vm_sign(a)       vcltzq_s64(vreinterpretq_s64_f64(a))
#define vm_all(m)        ((vgetq_lane_u64(m, 0) & vgetq_lane_u64(m, 1)) != 0)

static inline v16d v_widen(v16 x)
{
    v16d r;
    for (int i = 0; i < 4; i++) {
        r.v[2 * i] = vcvt_f64_f32(vget_low_f32(x.val[i]));
        r.v[2 * i + 1] = vcvt_high_f64_f32(x.val[i]);
    }
    return r;
}

static inline v16 v_narrow(v16d x)
{
    V_QUARTERS(vcombine_f32(vcvt_f32_f64(x.v[2 * i]), vcvt_f32_f64(x.v[2 * i + 1])));
}

static inline void v_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

/* Register tiles of attention: query rows, blocks of keys, vectors of values. */
#define TILE_ROWS    2
#define TILE_BLOCKS  2
#define TILE_VECTORS 2

#include "backend/common/math_body.h"
#include "backend/cpu/vec_math.h"

#endif
