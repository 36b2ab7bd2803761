/* qmatmul_neondot.c - products with rounded activations in 128-bit vectors with SDOT.
 *
 * Both sides of SDOT are signed: 8-bit codes have their top bit flipped, smaller ones fit as they
 * are.
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

#define vi_dot(acc, w, a)      vdotq_s32(acc, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(a))
#define vi_dot_wide(acc, w, a) vi_dot(acc, w, a)

#include "backend/cpu/qunpack_body.h"

#include "backend/cpu/qtile_body.h"

const mica__i8_level mica__i8_neondot = {strip_i8, strip_i8_scratch};

#endif
