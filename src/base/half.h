/* half.h - float16 and bfloat16 as bits, converted exactly and rounded to nearest even.
 *
 * Portable integer code: the scalar level and the arm64 build use it as it is, vector kernels use
 * instructions that give the same bits (F16C keeps subnormals and rounds the same way). NaN stays
 * NaN; payloads are not kept.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_HALF_H
#define MICA_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t mica__f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float mica__f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float mica__f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 31u;
    const uint32_t fraction = h & 0x3ffu;
    if (exponent == 31)
        return mica__f32_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) /* zero or subnormal: fraction * 2^-24 is exact in float */
        return mica__f32_from_bits(sign | mica__f32_bits((float)fraction * 0x1p-24f));
    return mica__f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t mica__f32_to_f16(float f)
{
    const uint32_t u = mica__f32_bits(f);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) /* rounds to 2^16 or beyond */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude <
        0x38800000u) { /* below 2^-14: adding 0.5 aligns the fraction and rounds it to even */
        const float aligned = mica__f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (mica__f32_bits(aligned) - 0x3f000000u));
    }
    const uint32_t odd = (magnitude >> 13) & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

static inline float mica__bf16_to_f32(uint16_t b)
{
    return mica__f32_from_bits((uint32_t)b << 16);
}

static inline uint16_t mica__f32_to_bf16(float f)
{
    const uint32_t u = mica__f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

#endif
