/* vec_avx512.h - sixteen float lanes in one AVX-512 register (F, BW, VL, DQ).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_VEC_AVX512_H
#define MICA_BACKEND_VEC_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "backend/common/trig_reduce.h"

#define VEC_LEVEL avx512

typedef __m512 v16;
typedef __m512i w16;
typedef __m512d vd;
typedef __mmask8 vm;

static inline __mmask16 v_first(int n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline v16 v_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline v16 v_load(const void *p)
{
    return _mm512_loadu_ps(p);
}

static inline v16 v_load_n(const void *p, int n)
{
    return _mm512_maskz_loadu_ps(v_first(n), p);
}

static inline void v_store(void *p, v16 a)
{
    _mm512_storeu_ps(p, a);
}

static inline void v_store_n(void *p, v16 a, int n)
{
    _mm512_mask_storeu_ps(p, v_first(n), a);
}

static inline v16 v_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

static inline v16 v_load_f16_n(const void *p, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}

static inline v16 v_from_bf16(__m256i halves)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

static inline v16 v_load_bf16(const void *p)
{
    return v_from_bf16(_mm256_loadu_si256(p));
}

static inline v16 v_load_bf16_n(const void *p, int n)
{
    return v_from_bf16(_mm256_maskz_loadu_epi16(v_first(n), p));
}

static inline __m256i v_to_f16(v16 a)
{
    return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT);
}

/* To nearest even in integers; NaN keeps its upper half with the quiet bit set. */
static inline __m256i v_to_bf16(v16 a)
{
    const __m512i u = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i kept = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
}

static inline void v_store_f16(void *p, v16 a)
{
    _mm256_storeu_si256(p, v_to_f16(a));
}

static inline void v_store_f16_n(void *p, v16 a, int n)
{
    _mm256_mask_storeu_epi16(p, v_first(n), v_to_f16(a));
}

static inline void v_store_bf16(void *p, v16 a)
{
    _mm256_storeu_si256(p, v_to_bf16(a));
}

static inline void v_store_bf16_n(void *p, v16 a, int n)
{
    _mm256_mask_storeu_epi16(p, v_first(n), v_to_bf16(a));
}

static inline v16 v_round_f16(v16 a)
{
    return _mm512_cvtph_ps(v_to_f16(a));
}

static inline v16 v_round_bf16(v16 a)
{
    return v_from_bf16(v_to_bf16(a));
}

static inline v16 v_set_f16(uint16_t half)
{
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)half));
}

static inline v16 v_load_i8(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

static inline v16 v_load_i8_n(const void *p, int n)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(v_first(n), p)));
}

static inline v16 v_load_i4_n(const void *p, int n)
{
    __m128i q;
    if (n == 16) {
        q = _mm_loadl_epi64(p);
    } else {
        uint64_t bytes = 0;
        memcpy(&bytes, p, (size_t)n / 2);
        q = _mm_cvtsi64_si128((long long)bytes);
    }
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(q, mask), high = _mm_and_si128(_mm_srli_epi16(q, 4), mask);
    const __m128i codes = _mm_sub_epi8(_mm_unpacklo_epi8(low, high), _mm_set1_epi8(8));
    return _mm512_maskz_mov_ps(v_first(n), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)));
}

static inline w16 w_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

#define v_code8(w, byte)                                                                           \
    _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(w, 24 - 8 * (byte)), 24))

#define v_code4(w, nibble)                                                                         \
    _mm512_cvtepi32_ps(_mm512_sub_epi32(                                                           \
        _mm512_and_si512(_mm512_srli_epi32(w, 4 * (nibble)), _mm512_set1_epi32(15)),               \
        _mm512_set1_epi32(8)))

static inline v16 v_add(v16 a, v16 b)
{
    return _mm512_add_ps(a, b);
}

static inline v16 v_sub(v16 a, v16 b)
{
    return _mm512_sub_ps(a, b);
}

static inline v16 v_mul(v16 a, v16 b)
{
    return _mm512_mul_ps(a, b);
}

static inline v16 v_div(v16 a, v16 b)
{
    return _mm512_div_ps(a, b);
}

static inline v16 v_fma(v16 a, v16 b, v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline v16 v_fnma(v16 a, v16 b, v16 c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

static inline v16 v_abs(v16 a)
{
    return _mm512_abs_ps(a);
}

static inline v16 v_neg(v16 a)
{
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}

static inline v16 v_sqrt(v16 a)
{
    return _mm512_sqrt_ps(a);
}

/* vrangeps orders -0 below +0 and drops NaN; NaN is put back. */
static inline v16 v_max(v16 a, v16 b)
{
    const __mmask16 nan = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    return _mm512_mask_add_ps(_mm512_range_ps(a, b, 5), nan, a, b);
}

static inline v16 v_min(v16 a, v16 b)
{
    const __mmask16 nan = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    return _mm512_mask_add_ps(_mm512_range_ps(a, b, 4), nan, a, b);
}

/* The tree i+8, i+4, i+2, i+1 with an operation of four and of eight lanes. */
#define V_TREE(name, op256, op128)                                                                 \
    static inline float name(v16 a)                                                                \
    {                                                                                              \
        const __m256 h8 = op256(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));          \
        const __m128 h4 = op128(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));         \
        const __m128 h2 = op128(h4, _mm_movehl_ps(h4, h4));                                        \
        return _mm_cvtss_f32(op128(h2, _mm_shuffle_ps(h2, h2, 1)));                                \
    }

static inline __m128 v_max4(__m128 a, __m128 b)
{
    const __mmask8 nan = _mm_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    return _mm_mask_add_ps(_mm_range_ps(a, b, 5), nan, a, b);
}

static inline __m256 v_max8(__m256 a, __m256 b)
{
    const __mmask8 nan = _mm256_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    return _mm256_mask_add_ps(_mm256_range_ps(a, b, 5), nan, a, b);
}

static inline __m128 v_min4(__m128 a, __m128 b)
{
    const __mmask8 nan = _mm_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    return _mm_mask_add_ps(_mm_range_ps(a, b, 4), nan, a, b);
}

static inline __m256 v_min8(__m256 a, __m256 b)
{
    const __mmask8 nan = _mm256_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    return _mm256_mask_add_ps(_mm256_range_ps(a, b, 4), nan, a, b);
}

V_TREE(v_sum, _mm256_add_ps, _mm_add_ps)
V_TREE(v_hmax, v_max8, v_max4)
V_TREE(v_hmin, v_min8, v_min4)

static inline v16 v_keep(v16 a, int first, int last, float other)
{
    const int from = first < 0 ? 0 : first > 16 ? 16 : first;
    const int to = last < 0 ? 0 : last > 16 ? 16 : last;
    const __mmask16 kept = (__mmask16)(v_first(to) & ~v_first(from));
    return _mm512_mask_mov_ps(_mm512_set1_ps(other), kept, a);
}

/* e^x: the operations of mica__exp_f32. */
static inline v16 v_exp(v16 x)
{
    x = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, v_set(-104.0f), _CMP_LT_OQ), v_set(-104.0f));
    x = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, v_set(89.0f), _CMP_GT_OQ), v_set(89.0f));
    const v16 n = v_sub(v_fma(x, v_set(0x1.715476p+0f), v_set(0x1.8p23f)), v_set(0x1.8p23f));
    v16 r = v_fnma(n, v_set(0x1.62e43p-1f), x);
    r = v_fnma(n, v_set(-0x1.05c61p-29f), r);
    v16 p = v_set(0x1.a125p-13f);
    p = v_fma(p, r, v_set(0x1.6d1116p-10f));
    p = v_fma(p, r, v_set(0x1.1110dcp-7f));
    p = v_fma(p, r, v_set(0x1.55550ep-5f));
    p = v_fma(p, r, v_set(0x1.555556p-3f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    return _mm512_scalef_ps(p, n); /* one rounding, as the two exact halves give */
}

/* Eight doubles. */
#define VD_LANES   8
#define V16D_PARTS 2

typedef struct v16d {
    vd v[V16D_PARTS];
} v16d;

#define vd_set(c)        _mm512_set1_pd(c)
#define vd_load(p)       _mm512_loadu_pd(p)
#define vd_store(p, x)   _mm512_storeu_pd(p, x)
#define vd_add(a, b)     _mm512_add_pd(a, b)
#define vd_sub(a, b)     _mm512_sub_pd(a, b)
#define vd_mul(a, b)     _mm512_mul_pd(a, b)
#define vd_div(a, b)     _mm512_div_pd(a, b)
#define vd_fma(a, b, c)  _mm512_fmadd_pd(a, b, c)
#define vd_fnma(a, b, c) _mm512_fnmadd_pd(a, b, c)
#define vd_abs(a)        _mm512_abs_pd(a)
#define vd_lt(a, b)      _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ)
#define vd_sel(m, a, b)  _mm512_mask_mov_pd(b, m, a)
#define vd_bits(u)       _mm512_castsi512_pd(_mm512_set1_epi64(u))
#define vd_and(a, b)     _mm512_and_pd(a, b)
#define vd_or(a, b)      _mm512_or_pd(a, b)
#define vd_xor(a, b)     _mm512_xor_pd(a, b)
#define vd_shl(a, n)     _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(a), n))
#define vd_shr52(a)      _mm512_castsi512_pd(_mm512_srli_epi64(_mm512_castpd_si512(a), 52))
#define vd_scale(p, t)                                                                             \
    _mm512_castsi512_pd(                                                                           \
        _mm512_add_epi64(_mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_castpd_si512(t), 52)))
#define vm_sign(a) _mm512_movepi64_mask(_mm512_castpd_si512(a))
#define vm_all(m)  ((m) == 0xff)

static inline v16d v_widen(v16 a)
{
    return (v16d){{_mm512_cvtps_pd(_mm512_castps512_ps256(a)),
                   _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1))}};
}

static inline v16 v_narrow(v16d a)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a.v[0])),
                              _mm512_cvtpd_ps(a.v[1]), 1);
}

static inline void v_prefetch(const void *p)
{
    _mm_prefetch(p, _MM_HINT_T1);
}

/* Register tiles of attention: query rows, blocks of keys, vectors of values. */
#define TILE_ROWS    4
#define TILE_BLOCKS  4
#define TILE_VECTORS 4

#include "backend/common/math_body.h"
#include "backend/cpu/vec_math.h"

#endif
