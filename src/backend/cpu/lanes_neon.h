/* lanes_neon.h - what qunpack_body.h and qtile_body.h ask of a level, in 128-bit vectors; included
 * by the NEON files with and without SDOT, which add the dot products.
 * SPDX-License-Identifier: MIT
 */

static inline __attribute__((always_inline)) void lanes_16_bytes(mica__stream row, int64_t at,
                                                                 lanes *out)
{
    const uint8_t *p = row.base + at;
    const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(p));
    const uint32x4_t b = vreinterpretq_u32_u8(vld1q_u8(p + row.step));
    const uint32x4_t c = vreinterpretq_u32_u8(vld1q_u8(p + 2 * row.step));
    const uint32x4_t d = vreinterpretq_u32_u8(vld1q_u8(p + 3 * row.step));
    const uint64x2_t ab_even = vreinterpretq_u64_u32(vtrn1q_u32(a, b));
    const uint64x2_t ab_odd = vreinterpretq_u64_u32(vtrn2q_u32(a, b));
    const uint64x2_t cd_even = vreinterpretq_u64_u32(vtrn1q_u32(c, d));
    const uint64x2_t cd_odd = vreinterpretq_u64_u32(vtrn2q_u32(c, d));
    out[0] = (lanes)vtrn1q_u64(ab_even, cd_even);
    out[1] = (lanes)vtrn1q_u64(ab_odd, cd_odd);
    out[2] = (lanes)vtrn2q_u64(ab_even, cd_even);
    out[3] = (lanes)vtrn2q_u64(ab_odd, cd_odd);
}

static inline __attribute__((always_inline)) lanes lanes_u32(mica__stream row, int64_t at)
{
    const uint8_t *p = row.base + at;
    return (lanes){mica__load_u32(p), mica__load_u32(p + row.step),
                   mica__load_u32(p + 2 * row.step), mica__load_u32(p + 3 * row.step)};
}

static inline __attribute__((always_inline)) lanes_f lanes_half(lanes v)
{
    const uint16x4_t halves = vmovn_u32((uint32x4_t)v);
    return (lanes_f)vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

static inline __attribute__((always_inline)) lanes lookup(lanes v, const uint8_t *table)
{
    return (lanes)vqtbl1q_u8(vld1q_u8(table), (uint8x16_t)v);
}

static inline __attribute__((always_inline)) lanes fifth_bits(lanes v, int j)
{
    const lanes bits = v >> (4 * j);
    return (bits << 4 & 0x10u) | (bits << 11 & 0x1000u) | (bits << 18 & 0x100000u) |
           (bits << 25 & 0x10000000u);
}

static inline __attribute__((always_inline)) void even_odd(const int8_t *in, int64_t n, int8_t *out)
{
    static const uint8_t places[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
    const uint8x16_t order = vld1q_u8(places);
    for (int64_t i = 0; i < n; i += 16)
        vst1q_s8(out + i, vqtbl1q_s8(vld1q_s8(in + i), order));
}

#define MAX_ACTS     2
#define WIDE_COLUMNS 0
typedef int32x4_t vi;
typedef float32x4_t vf;
#define vi_load(p)      vld1q_s32((const int32_t *)(const void *)(p))
#define vi_loadu(p)     vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)(p)))
#define vi_storeu(p, v) vst1q_s32(p, v)
#define vi_set1(i)      vdupq_n_s32(i)
#define vi_add(a, b)    vaddq_s32(a, b)
#define vi_mul(a, b)    vmulq_s32(a, b)
#define vf_load(p)      vld1q_f32((const float *)(const void *)(p))
#define vf_store(p, v)  vst1q_f32(p, v)
#define vf_storeu(p, v) vst1q_f32(p, v)
#define vf_set1(f)      vdupq_n_f32(f)
#define vf_zero()       vdupq_n_f32(0)
#define vf_fma(a, b, c) vfmaq_f32(c, a, b)
#define vf_mul(a, b)    vmulq_f32(a, b)
#define vf_negative(a)  vnegq_f32(a)
#define vf_of(i)        vcvtq_f32_s32(i)
#define vf_bits(i)      vreinterpretq_f32_s32(i)

static inline __attribute__((always_inline)) vi vi_dot_pairs(vi acc, vi a, vi b)
{
    const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(acc, vpaddq_s32(low, vmull_high_s16(x, y)));
}
