/* qmatmul_neon.c - products with rounded activations in 128-bit vectors, on every arm64 processor.
 *
 * Products and the sums of two of them fit 16 bits: 2 * 128 * 127. 8-bit codes have their top bit
 * flipped, smaller ones fit as they are.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_level.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#define VL        4
#define WIDE_FLIP 0x80808080u

#include "backend/cpu/act8.h"
#include "backend/cpu/qpanel.h"
#include "base/bytes.h"

#include "backend/cpu/lanes_neon.h"

static inline __attribute__((always_inline)) vi vi_dot(vi acc, vi w, vi a)
{
    const int8x16_t x = vreinterpretq_s8_s32(w), y = vreinterpretq_s8_s32(a);
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y));
    return vpadalq_s16(acc, vpaddq_s16(low, vmull_high_s8(x, y)));
}

#define vi_dot_wide(acc, w, a) vi_dot(acc, w, a)

#include "backend/cpu/qunpack_body.h"

#include "backend/cpu/qtile_body.h"

const mica__i8_level mica__i8_neon = {strip_i8, strip_i8_scratch};

#endif
