/* vec_avx2.h - sixteen float lanes in two AVX2 registers (with FMA and F16C).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_VEC_AVX2_H
#define MICA_BACKEND_VEC_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "backend/common/trig_reduce.h"

#define VEC_LEVEL avx2

typedef struct v16 {
    __m256 a, b;
} v16;

typedef struct w16 {
    __m256i a, b;
} w16;

typedef __m256d vd;
typedef __m256d vm; /* all bits of a lane or none */

#define V_PAIR(first, second) ((v16){first, second})

/* Lanes [0, n) of eight, n any integer. */
static inline __m256i v_first8(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline v16 v_set(float x)
{
    return V_PAIR(_mm256_set1_ps(x), _mm256_set1_ps(x));
}

static inline v16 v_load(const void *p)
{
    return V_PAIR(_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8));
}

static inline v16 v_load_n(const void *p, int n)
{
    return V_PAIR(_mm256_maskload_ps(p, v_first8(n)),
                  _mm256_maskload_ps((const float *)p + 8, v_first8(n - 8)));
}

static inline void v_store(void *p, v16 x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps((float *)p + 8, x.b);
}

static inline void v_store_n(void *p, v16 x, int n)
{
    _mm256_maskstore_ps(p, v_first8(n), x.a);
    _mm256_maskstore_ps((float *)p + 8, v_first8(n - 8), x.b);
}

static inline v16 v_load_f16(const void *p)
{
    return V_PAIR(_mm256_cvtph_ps(_mm_loadu_si128(p)),
                  _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p + 1)));
}

static inline v16 v_load_f16_n(const void *p, int n)
{
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)n * 2);
    return v_load_f16(h);
}

static inline v16 v_load_bf16(const void *p)
{
    const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
    const __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p + 1));
    return V_PAIR(_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
                  _mm256_castsi256_ps(_mm256_slli_epi32(high, 16)));
}

static inline v16 v_load_bf16_n(const void *p, int n)
{
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)n * 2);
    return v_load_bf16(h);
}

static inline void v_store_f16(void *p, v16 x)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)p + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

static inline void v_store_f16_n(void *p, v16 x, int n)
{
    uint16_t h[16];
    v_store_f16(h, x);
    memcpy(p, h, (size_t)n * 2);
}

/* The upper halves, rounded to nearest even; NaN keeps its own with the quiet bit set. */
static inline __m256i v_bf16_dwords(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}

static inline void v_store_bf16(void *p, v16 x)
{
    const __m256i packed = _mm256_packus_epi32(v_bf16_dwords(x.a), v_bf16_dwords(x.b));
    _mm256_storeu_si256(p, _mm256_permute4x64_epi64(packed, 0xd8));
}

static inline void v_store_bf16_n(void *p, v16 x, int n)
{
    uint16_t h[16];
    v_store_bf16(h, x);
    memcpy(p, h, (size_t)n * 2);
}

static inline v16 v_round_f16(v16 x)
{
    return V_PAIR(_mm256_cvtph_ps(_mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT)),
                  _mm256_cvtph_ps(_mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT)));
}

static inline v16 v_round_bf16(v16 x)
{
    return V_PAIR(_mm256_castsi256_ps(_mm256_slli_epi32(v_bf16_dwords(x.a), 16)),
                  _mm256_castsi256_ps(_mm256_slli_epi32(v_bf16_dwords(x.b), 16)));
}

static inline v16 v_set_f16(uint16_t half)
{
    const __m256 x = _mm256_cvtph_ps(_mm_set1_epi16((short)half));
    return V_PAIR(x, x);
}

static inline v16 v_from_i8(__m128i q)
{
    return V_PAIR(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)),
                  _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8))));
}

static inline v16 v_load_i8(const void *p)
{
    return v_from_i8(_mm_loadu_si128(p));
}

static inline v16 v_load_i8_n(const void *p, int n)
{
    int8_t q[16] = {0};
    memcpy(q, p, (size_t)n);
    return v_load_i8(q);
}

static inline v16 v_keep(v16 x, int first, int last, float other)
{
    const __m256 o = _mm256_set1_ps(other);
    const __m256i low = _mm256_andnot_si256(v_first8(first), v_first8(last));
    const __m256i high = _mm256_andnot_si256(v_first8(first - 8), v_first8(last - 8));
    return V_PAIR(_mm256_blendv_ps(o, x.a, _mm256_castsi256_ps(low)),
                  _mm256_blendv_ps(o, x.b, _mm256_castsi256_ps(high)));
}

static inline v16 v_load_i4_n(const void *p, int n)
{
    uint64_t bytes = 0;
    memcpy(&bytes, p, (size_t)n / 2);
    const __m128i q = _mm_cvtsi64_si128((long long)bytes), mask = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(q, mask), high = _mm_and_si128(_mm_srli_epi16(q, 4), mask);
    const v16 x = v_from_i8(_mm_sub_epi8(_mm_unpacklo_epi8(low, high), _mm_set1_epi8(8)));
    return n == 16 ? x : v_keep(x, 0, n, 0);
}

static inline w16 w_load(const void *p)
{
    return (w16){_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1)};
}

static inline __m256 v_byte8(__m256i w, int byte)
{
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(w, 24 - 8 * byte), 24));
}

static inline __m256 v_nibble8(__m256i w, int nibble)
{
    const __m256i code = _mm256_and_si256(_mm256_srli_epi32(w, 4 * nibble), _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(8)));
}

#define v_code8(w, byte)   V_PAIR(v_byte8((w).a, byte), v_byte8((w).b, byte))
#define v_code4(w, nibble) V_PAIR(v_nibble8((w).a, nibble), v_nibble8((w).b, nibble))

#define V_BINARY(name, intrinsic)                                                                  \
    static inline v16 name(v16 x, v16 y)                                                           \
    {                                                                                              \
        return V_PAIR(intrinsic(x.a, y.a), intrinsic(x.b, y.b));                                   \
    }
V_BINARY(v_add, _mm256_add_ps)
V_BINARY(v_sub, _mm256_sub_ps)
V_BINARY(v_mul, _mm256_mul_ps)
V_BINARY(v_div, _mm256_div_ps)

static inline v16 v_fma(v16 x, v16 y, v16 z)
{
    return V_PAIR(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}

static inline v16 v_fnma(v16 x, v16 y, v16 z)
{
    return V_PAIR(_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b));
}

static inline v16 v_abs(v16 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return V_PAIR(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}

static inline v16 v_neg(v16 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return V_PAIR(_mm256_xor_ps(sign, x.a), _mm256_xor_ps(sign, x.b));
}

static inline v16 v_sqrt(v16 x)
{
    return V_PAIR(_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b));
}

/* vmaxps takes the second operand for zeros and NaN: equal values combine as bits (the sign of zero
 * is the only bit that may differ), NaN is put back. */
static inline __m256 v_max8(__m256 x, __m256 y)
{
    const __m256 equal = _mm256_cmp_ps(x, y, _CMP_EQ_OQ), nan = _mm256_cmp_ps(x, y, _CMP_UNORD_Q);
    const __m256 r = _mm256_blendv_ps(_mm256_max_ps(x, y), _mm256_and_ps(x, y), equal);
    return _mm256_blendv_ps(r, _mm256_add_ps(x, y), nan);
}

static inline __m256 v_min8(__m256 x, __m256 y)
{
    const __m256 equal = _mm256_cmp_ps(x, y, _CMP_EQ_OQ), nan = _mm256_cmp_ps(x, y, _CMP_UNORD_Q);
    const __m256 r = _mm256_blendv_ps(_mm256_min_ps(x, y), _mm256_or_ps(x, y), equal);
    return _mm256_blendv_ps(r, _mm256_add_ps(x, y), nan);
}

V_BINARY(v_max, v_max8)
V_BINARY(v_min, v_min8)
#undef V_BINARY

/* The tree i+8, i+4, i+2, i+1; the upper lanes of each step are not looked at. */
#define V_TREE(name, op)                                                                           \
    static inline float name(v16 x)                                                                \
    {                                                                                              \
        const __m256 h8 = op(x.a, x.b);                                                            \
        const __m256 h4 = op(h8, _mm256_permute2f128_ps(h8, h8, 1));                               \
        const __m256 h2 = op(h4, _mm256_permute_ps(h4, 0x4e));                                     \
        return _mm256_cvtss_f32(op(h2, _mm256_permute_ps(h2, 0xb1)));                              \
    }
V_TREE(v_sum, _mm256_add_ps)
V_TREE(v_hmax, v_max8)
V_TREE(v_hmin, v_min8)
#undef V_TREE

/* e^x: the operations of mica__exp_f32. */
static inline __m256 v_exp8(__m256 x)
{
    const __m256 low = _mm256_set1_ps(-104.0f), high = _mm256_set1_ps(89.0f);
    x = _mm256_blendv_ps(x, low, _mm256_cmp_ps(x, low, _CMP_LT_OQ));
    x = _mm256_blendv_ps(x, high, _mm256_cmp_ps(x, high, _CMP_GT_OQ));
    const __m256 rounder = _mm256_set1_ps(0x1.8p23f);
    const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p+0f), rounder);
    const __m256 n = _mm256_sub_ps(t, rounder);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e43p-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-0x1.05c61p-29f), r);
    __m256 p = _mm256_set1_ps(0x1.a125p-13f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.6d1116p-10f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.1110dcp-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.55550ep-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555556p-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256i power = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000));
    const __m256i half = _mm256_srai_epi32(power, 1), rest = _mm256_sub_epi32(power, half);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

static inline v16 v_exp(v16 x)
{
    return V_PAIR(v_exp8(x.a), v_exp8(x.b));
}

/* Four doubles. */
#define VD_LANES   4
#define V16D_PARTS 4

typedef struct v16d {
    vd v[V16D_PARTS];
} v16d;

#define vd_set(c)        _mm256_set1_pd(c)
#define vd_load(p)       _mm256_loadu_pd(p)
#define vd_store(p, x)   _mm256_storeu_pd(p, x)
#define vd_add(a, b)     _mm256_add_pd(a, b)
#define vd_sub(a, b)     _mm256_sub_pd(a, b)
#define vd_mul(a, b)     _mm256_mul_pd(a, b)
#define vd_div(a, b)     _mm256_div_pd(a, b)
#define vd_fma(a, b, c)  _mm256_fmadd_pd(a, b, c)
#define vd_fnma(a, b, c) _mm256_fnmadd_pd(a, b, c)
#define vd_abs(a)        _mm256_andnot_pd(_mm256_set1_pd(-0.0), a)
#define vd_lt(a, b)      _mm256_cmp_pd(a, b, _CMP_LT_OQ)
#define vd_sel(m, a, b)  _mm256_blendv_pd(b, a, m)
#define vd_bits(u)       _mm256_castsi256_pd(_mm256_set1_epi64x(u))
#define vd_and(a, b)     _mm256_and_pd(a, b)
#define vd_or(a, b)      _mm256_or_pd(a, b)
#define vd_xor(a, b)     _mm256_xor_pd(a, b)
#define vd_shl(a, n)     _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(a), n))
#define vd_shr52(a)      _mm256_castsi256_pd(_mm256_srli_epi64(_mm256_castpd_si256(a), 52))
#define vd_scale(p, t)                                                                             \
    _mm256_castsi256_pd(                                                                           \
        _mm256_add_epi64(_mm256_castpd_si256(p), _mm256_slli_epi64(_mm256_castpd_si256(t), 52)))
#define vm_sign(a) (a) /* blendv looks at the sign */
#define vm_all(m)  (_mm256_movemask_pd(m) == 15)

static inline v16d v_widen(v16 x)
{
    return (v16d){{_mm256_cvtps_pd(_mm256_castps256_ps128(x.a)),
                   _mm256_cvtps_pd(_mm256_extractf128_ps(x.a, 1)),
                   _mm256_cvtps_pd(_mm256_castps256_ps128(x.b)),
                   _mm256_cvtps_pd(_mm256_extractf128_ps(x.b, 1))}};
}

static inline v16 v_narrow(v16d x)
{
    return V_PAIR(_mm256_set_m128(_mm256_cvtpd_ps(x.v[1]), _mm256_cvtpd_ps(x.v[0])),
                  _mm256_set_m128(_mm256_cvtpd_ps(x.v[3]), _mm256_cvtpd_ps(x.v[2])));
}

static inline void v_prefetch(const void *p)
{
    _mm_prefetch(p, _MM_HINT_T1);
}

/* Register tiles of attention: query rows, blocks of keys, vectors of values. */
#define TILE_ROWS    2
#define TILE_BLOCKS  2
#define TILE_VECTORS 2

#include "backend/common/math_body.h"
#include "backend/cpu/vec_math.h"

#endif
