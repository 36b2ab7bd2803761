/* qmatmul_avx512vnni.c - products with rounded activations in 512-bit vectors with VPDPBUSD.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define VL        16
#define WIDE_FLIP 0u

#include "backend/cpu/act8.h"
#include "backend/cpu/qpanel.h"
#include "base/bytes.h"

/* Rows i, i + 4, i + 8, i + 12 as the quarters of a vector. */
static inline __attribute__((always_inline)) __m512i four_rows(mica__stream row, int i, int64_t at)
{
    const uint8_t *p = row.base + i * row.step + at;
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 4 * row.step)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 8 * row.step)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 12 * row.step)), 3);
}

/* A transpose of 4 x 4 dwords inside each quarter, whose rows are 4q .. 4q + 3. */
static inline __attribute__((always_inline)) void lanes_16_bytes(mica__stream row, int64_t at,
                                                                 lanes *out)
{
    const __m512i a = four_rows(row, 0, at), b = four_rows(row, 1, at);
    const __m512i c = four_rows(row, 2, at), d = four_rows(row, 3, at);
    const __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
    const __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
    out[0] = (lanes)_mm512_unpacklo_epi64(ab_low, cd_low);
    out[1] = (lanes)_mm512_unpackhi_epi64(ab_low, cd_low);
    out[2] = (lanes)_mm512_unpacklo_epi64(ab_high, cd_high);
    out[3] = (lanes)_mm512_unpackhi_epi64(ab_high, cd_high);
}

static inline __attribute__((always_inline)) __m128i four_u32(const uint8_t *p, int64_t step)
{
    return _mm_set_epi32((int)mica__load_u32(p + 3 * step), (int)mica__load_u32(p + 2 * step),
                         (int)mica__load_u32(p + step), (int)mica__load_u32(p));
}

static inline __attribute__((always_inline)) lanes lanes_u32(mica__stream row, int64_t at)
{
    const uint8_t *p = row.base + at;
    __m512i v = _mm512_castsi128_si512(four_u32(p, row.step));
    v = _mm512_inserti32x4(v, four_u32(p + 4 * row.step, row.step), 1);
    v = _mm512_inserti32x4(v, four_u32(p + 8 * row.step, row.step), 2);
    return (lanes)_mm512_inserti32x4(v, four_u32(p + 12 * row.step, row.step), 3);
}

static inline __attribute__((always_inline)) lanes_f lanes_half(lanes v)
{
    return (lanes_f)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)v));
}

static inline __attribute__((always_inline)) lanes lookup(lanes v, const uint8_t *table)
{
    const __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table));
    return (lanes)_mm512_shuffle_epi8(t, (__m512i)v);
}

static inline __attribute__((always_inline)) lanes fifth_bits(lanes v, int j)
{
    /* Byte j / 2 of each dword to its four bytes, then one bit of each. */
    const __m512i place = _mm512_add_epi8(
        _mm512_broadcast_i32x4(_mm_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0)),
        _mm512_set1_epi8((char)(j / 2)));
    const __m512i bit = _mm512_set1_epi32(j % 2 ? (int)0x80402010u : 0x08040201);
    const __mmask64 set = _mm512_test_epi8_mask(_mm512_shuffle_epi8((__m512i)v, place), bit);
    return (lanes)_mm512_maskz_mov_epi8(set, _mm512_set1_epi8(16));
}

static inline __attribute__((always_inline)) void even_odd(const int8_t *in, int64_t n, int8_t *out)
{
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_set_epi8(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0));
    for (int64_t i = 0; i < n; i += 64)
        _mm512_storeu_si512(out + i, _mm512_shuffle_epi8(_mm512_loadu_si512(in + i), order));
}

#define MAX_ACTS     6
#define WIDE_COLUMNS 1
typedef __m512i vi;
typedef __m512 vf;
#define vi_load(p)              _mm512_load_si512(p)
#define vi_loadu(p)             _mm512_loadu_si512(p)
#define vi_storeu(p, v)         _mm512_storeu_si512(p, v)
#define vi_set1(i)              _mm512_set1_epi32(i)
#define vi_add(a, b)            _mm512_add_epi32(a, b)
#define vi_mul(a, b)            _mm512_mullo_epi32(a, b)
#define vi_dot(acc, w, a)       _mm512_dpbusd_epi32(acc, w, a)
#define vi_dot_wide(acc, w, a)  _mm512_dpbusd_epi32(acc, w, a)
#define vi_dot_pairs(acc, a, b) _mm512_dpwssd_epi32(acc, a, b)
#define vf_load(p)              _mm512_load_ps((const float *)(const void *)(p))
#define vf_store(p, v)          _mm512_store_ps(p, v)
#define vf_storeu(p, v)         _mm512_storeu_ps(p, v)
#define vf_set1(f)              _mm512_set1_ps(f)
#define vf_zero()               _mm512_setzero_ps()
#define vf_fma(a, b, c)         _mm512_fmadd_ps(a, b, c)
#define vf_mul(a, b)            _mm512_mul_ps(a, b)
#define vf_negative(a)          _mm512_xor_ps(a, _mm512_set1_ps(-0.0f))
#define vf_of(i)                _mm512_cvtepi32_ps(i)
#define vf_bits(i)              _mm512_castsi512_ps(i)

#include "backend/cpu/qunpack_body.h"

#include "backend/cpu/qtile_body.h"

const mica__i8_level mica__i8_avx512vnni = {strip_i8, strip_i8_scratch};

#endif
