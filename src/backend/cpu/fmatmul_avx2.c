/* fmatmul_avx2.c - float products, rounding and dequantising in 256-bit vectors.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/act8.h"
#include "backend/cpu/qgroup.h"
#include "base/bytes.h"
#include "base/half.h"

#define VL             8
#define TILE_ROWS      4
#define TILE_ACTS      3
#define FEW_ROWS       4
#define COLUMN_VECTORS 2
#define COLUMN_ACTS    6
typedef __m256 vf;
typedef __m256i vi;
#define vf_loadu(p)     _mm256_loadu_ps(p)
#define vf_storeu(p, v) _mm256_storeu_ps(p, v)
#define vf_set1(f)      _mm256_set1_ps(f)
#define vf_zero()       _mm256_setzero_ps()
#define vf_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vf_mul(a, b)    _mm256_mul_ps(a, b)
#define vf_of(i)        _mm256_cvtepi32_ps(i)
#define vi_bits(f)      _mm256_castps_si256(f)
#define vi_set1(i)      _mm256_set1_epi32(i)
#define vi_add(a, b)    _mm256_add_epi32(a, b)
#define vi_sub(a, b)    _mm256_sub_epi32(a, b)
#define vi_mul(a, b)    _mm256_mullo_epi32(a, b)
#define vi_and(a, b)    _mm256_and_si256(a, b)
#define vi_max(a, b)    _mm256_max_epi32(a, b)
#define vi_min(a, b)    _mm256_min_epi32(a, b)
#define vi_round(f)     _mm256_cvtps_epi32(f)
#define vi_codes(p)     _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define vf_load_half(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define vf_load_brain(p)                                                                           \
    _mm256_castsi256_ps(                                                                           \
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))), 16))
#define store_half(p, v)                                                                           \
    _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define half_value(h) _cvtsh_ss(h)

static inline __attribute__((always_inline)) float lanes_sum(const __m256 v[2])
{
    const __m256 eight = _mm256_add_ps(v[0], v[1]);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline __attribute__((always_inline)) int32_t vi_largest(__m256i v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtsi128_si32(m);
}

static inline __attribute__((always_inline)) int32_t vi_sum(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

static inline __attribute__((always_inline)) void vi_store_codes(int8_t *at, __m256i v)
{
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)at, _mm_packs_epi16(words, words));
}

#include "backend/cpu/fmatmul_body.h"

const mica__float_level mica__float_avx2 = FLOAT_LEVEL;

#endif
