/* qmatmul_avx2.c - products with rounded activations in 256-bit vectors, without VNNI.
 *
 * VPMADDUBSW adds pairs in 16 bits, which saturate: codes below 128 are safe (2 * 127 * 127), 8-bit
 * codes are made signed and multiplied as |w| and sign(w) a (2 * 128 * 127).
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define VL        8
#define WIDE_FLIP 0x80808080u

#include "backend/cpu/act8.h"
#include "backend/cpu/qpanel.h"
#include "base/bytes.h"

#include "backend/cpu/lanes_avx2.h"

static inline __attribute__((always_inline)) vi vi_dot(vi acc, vi w, vi a)
{
    const vi pairs = _mm256_maddubs_epi16(w, a);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __attribute__((always_inline)) vi vi_dot_wide(vi acc, vi w, vi a)
{
    return vi_dot(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
}

#define vi_dot_pairs(acc, a, b) _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))

#include "backend/cpu/qunpack_body.h"

#include "backend/cpu/qtile_body.h"

const mica__i8_level mica__i8_avx2 = {strip_i8, strip_i8_scratch};

#endif
