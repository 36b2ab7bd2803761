/* fmatmul_neon.c - float products, rounding and dequantising in 128-bit vectors.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/act8.h"
#include "backend/cpu/qgroup.h"
#include "base/bytes.h"
#include "base/half.h"

#define VL             4
#define TILE_ROWS      4
#define TILE_ACTS      6
#define FEW_ROWS       4
#define COLUMN_VECTORS 4
#define COLUMN_ACTS    4
typedef float32x4_t vf;
typedef int32x4_t vi;
#define vf_loadu(p)      vld1q_f32(p)
#define vf_storeu(p, v)  vst1q_f32(p, v)
#define vf_set1(f)       vdupq_n_f32(f)
#define vf_zero()        vdupq_n_f32(0)
#define vf_fma(a, b, c)  vfmaq_f32(c, a, b)
#define vf_mul(a, b)     vmulq_f32(a, b)
#define vf_of(i)         vcvtq_f32_s32(i)
#define vi_bits(f)       vreinterpretq_s32_f32(f)
#define vi_set1(i)       vdupq_n_s32(i)
#define vi_add(a, b)     vaddq_s32(a, b)
#define vi_sub(a, b)     vsubq_s32(a, b)
#define vi_mul(a, b)     vmulq_s32(a, b)
#define vi_and(a, b)     vandq_s32(a, b)
#define vi_max(a, b)     vmaxq_s32(a, b)
#define vi_min(a, b)     vminq_s32(a, b)
#define vi_largest(v)    vmaxvq_s32(v)
#define vi_sum(v)        vaddvq_s32(v)
#define vi_round(f)      vcvtnq_s32_f32(f)
#define vf_load_half(p)  vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))
#define vf_load_brain(p) vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16))
#define store_half(p, v) vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v)))
#define half_value(h)    mica__f16_to_f32(h)

static inline __attribute__((always_inline)) float lanes_sum(const float32x4_t v[4])
{
    const float32x4_t low = vaddq_f32(v[0], v[2]), high = vaddq_f32(v[1], v[3]);
    const float32x4_t four = vaddq_f32(low, high);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static inline __attribute__((always_inline)) int32x4_t vi_codes(const uint8_t *at)
{
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(mica__load_u32(at)));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}

static inline __attribute__((always_inline)) void vi_store_codes(int8_t *at, int32x4_t v)
{
    const int16x4_t words = vmovn_s32(v);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    mica__store_u32(at, vget_lane_u32(vreinterpret_u32_s8(bytes), 0));
}

#include "backend/cpu/fmatmul_body.h"

const mica__float_level mica__float_neon = FLOAT_LEVEL;

#endif
