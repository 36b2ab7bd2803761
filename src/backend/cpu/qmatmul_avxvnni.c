/* qmatmul_avxvnni.c - products with rounded activations in 256-bit vectors with VPDPBUSD.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define VL        8
#define WIDE_FLIP 0u

#include "backend/cpu/act8.h"
#include "backend/cpu/qpanel.h"
#include "base/bytes.h"

#include "backend/cpu/lanes_avx2.h"

#define vi_dot(acc, w, a)       _mm256_dpbusd_avx_epi32(acc, w, a)
#define vi_dot_wide(acc, w, a)  _mm256_dpbusd_avx_epi32(acc, w, a)
#define vi_dot_pairs(acc, a, b) _mm256_dpwssd_avx_epi32(acc, a, b)

#include "backend/cpu/qunpack_body.h"

#include "backend/cpu/qtile_body.h"

const mica__i8_level mica__i8_avxvnni = {strip_i8, strip_i8_scratch};

#endif
