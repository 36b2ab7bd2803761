/* fmatmul_avx512.c - float products, rounding and dequantising in 512-bit vectors.
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

#define VL             16
#define TILE_ROWS      4
#define TILE_ACTS      6
#define FEW_ROWS       8
#define COLUMN_VECTORS 4
#define COLUMN_ACTS    6
typedef __m512 vf;
typedef __m512i vi;
#define vf_loadu(p)          _mm512_loadu_ps(p)
#define vf_storeu(p, v)      _mm512_storeu_ps(p, v)
#define vf_set1(f)           _mm512_set1_ps(f)
#define vf_zero()            _mm512_setzero_ps()
#define vf_fma(a, b, c)      _mm512_fmadd_ps(a, b, c)
#define vf_mul(a, b)         _mm512_mul_ps(a, b)
#define vf_of(i)             _mm512_cvtepi32_ps(i)
#define vi_bits(f)           _mm512_castps_si512(f)
#define vi_set1(i)           _mm512_set1_epi32(i)
#define vi_add(a, b)         _mm512_add_epi32(a, b)
#define vi_sub(a, b)         _mm512_sub_epi32(a, b)
#define vi_mul(a, b)         _mm512_mullo_epi32(a, b)
#define vi_and(a, b)         _mm512_and_si512(a, b)
#define vi_max(a, b)         _mm512_max_epi32(a, b)
#define vi_min(a, b)         _mm512_min_epi32(a, b)
#define vi_largest(v)        _mm512_reduce_max_epi32(v)
#define vi_sum(v)            _mm512_reduce_add_epi32(v)
#define vi_round(f)          _mm512_cvtps_epi32(f)
#define vi_codes(p)          _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define vi_store_codes(p, v) _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8(v))
#define vf_load_half(p)      _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define vf_load_brain(p)                                                                           \
    _mm512_castsi512_ps(                                                                           \
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p))), 16))
#define store_half(p, v)                                                                           \
    _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define half_value(h) _cvtsh_ss(h)

static inline __attribute__((always_inline)) float lanes_sum(const __m512 v[1])
{
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#include "backend/cpu/fmatmul_body.h"

const mica__float_level mica__float_avx512 = FLOAT_LEVEL;

#endif
