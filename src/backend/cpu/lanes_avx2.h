/* lanes_avx2.h - what qunpack_body.h and qtile_body.h ask of a level, in 256-bit vectors; included
 * by the AVX2 and AVX-VNNI files, which add the dot products.
 * SPDX-License-Identifier: MIT
 */

/* Rows i and i + 4 as the halves of a vector. */
static inline __attribute__((always_inline)) __m256i two_rows(mica__stream row, int i, int64_t at)
{
    const uint8_t *p = row.base + i * row.step + at;
    const __m128i low = _mm_loadu_si128((const __m128i *)p);
    const __m128i high = _mm_loadu_si128((const __m128i *)(p + 4 * row.step));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* A transpose of 4 x 4 dwords inside each half. */
static inline __attribute__((always_inline)) void lanes_16_bytes(mica__stream row, int64_t at,
                                                                 lanes *out)
{
    const __m256i a = two_rows(row, 0, at), b = two_rows(row, 1, at);
    const __m256i c = two_rows(row, 2, at), d = two_rows(row, 3, at);
    const __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
    const __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
    out[0] = (lanes)_mm256_unpacklo_epi64(ab_low, cd_low);
    out[1] = (lanes)_mm256_unpackhi_epi64(ab_low, cd_low);
    out[2] = (lanes)_mm256_unpacklo_epi64(ab_high, cd_high);
    out[3] = (lanes)_mm256_unpackhi_epi64(ab_high, cd_high);
}

/* Inserted in registers: a vector filled through memory would wait for its stores. */
static inline __attribute__((always_inline)) __m128i four_u32(const uint8_t *p, int64_t step)
{
    return _mm_set_epi32((int)mica__load_u32(p + 3 * step), (int)mica__load_u32(p + 2 * step),
                         (int)mica__load_u32(p + step), (int)mica__load_u32(p));
}

static inline __attribute__((always_inline)) lanes lanes_u32(mica__stream row, int64_t at)
{
    const uint8_t *p = row.base + at;
    return (lanes)_mm256_set_m128i(four_u32(p + 4 * row.step, row.step), four_u32(p, row.step));
}

static inline __attribute__((always_inline)) lanes_f lanes_half(lanes v)
{
    const __m256i packed = _mm256_packus_epi32((__m256i)v, (__m256i)v);
    const __m256i halves = _mm256_permute4x64_epi64(packed, 0x08); /* quarters 0 and 2 */
    return (lanes_f)_mm256_cvtph_ps(_mm256_castsi256_si128(halves));
}

static inline __attribute__((always_inline)) lanes lookup(lanes v, const uint8_t *table)
{
    const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    return (lanes)_mm256_shuffle_epi8(t, (__m256i)v);
}

static inline __attribute__((always_inline)) lanes fifth_bits(lanes v, int j)
{
    /* Byte j / 2 of each dword to its four bytes, then one bit of each. */
    const __m256i place = _mm256_add_epi8(
        _mm256_broadcastsi128_si256(_mm_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0)),
        _mm256_set1_epi8((char)(j / 2)));
    const __m256i bit = _mm256_set1_epi32(j % 2 ? (int)0x80402010u : 0x08040201);
    const __m256i bits = _mm256_and_si256(_mm256_shuffle_epi8((__m256i)v, place), bit);
    return (lanes)_mm256_and_si256(_mm256_cmpeq_epi8(bits, bit), _mm256_set1_epi8(16));
}

static inline __attribute__((always_inline)) void even_odd(const int8_t *in, int64_t n, int8_t *out)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_set_epi8(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0));
    for (int64_t i = 0; i < n; i += 32)
        _mm256_storeu_si256(
            (__m256i *)(void *)(out + i),
            _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(in + i)),
                                order));
}

#define MAX_ACTS     2
#define WIDE_COLUMNS 0
typedef __m256i vi;
typedef __m256 vf;
#define vi_load(p)      _mm256_load_si256((const __m256i *)(const void *)(p))
#define vi_loadu(p)     _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define vi_storeu(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define vi_set1(i)      _mm256_set1_epi32(i)
#define vi_add(a, b)    _mm256_add_epi32(a, b)
#define vi_mul(a, b)    _mm256_mullo_epi32(a, b)
#define vf_load(p)      _mm256_load_ps((const float *)(const void *)(p))
#define vf_store(p, v)  _mm256_store_ps(p, v)
#define vf_storeu(p, v) _mm256_storeu_ps(p, v)
#define vf_set1(f)      _mm256_set1_ps(f)
#define vf_zero()       _mm256_setzero_ps()
#define vf_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vf_mul(a, b)    _mm256_mul_ps(a, b)
#define vf_negative(a)  _mm256_xor_ps(a, _mm256_set1_ps(-0.0f))
#define vf_of(i)        _mm256_cvtepi32_ps(i)
#define vf_bits(i)      _mm256_castsi256_ps(i)
