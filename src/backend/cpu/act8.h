/* act8.h - where the parts of a row of rounded activations stand (layout: core/op.h).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_ACT8_H
#define MICA_BACKEND_CPU_ACT8_H

#include "core/op.h"

/* Groups whose largest magnitude is below this become zeros: 127 / amax must be finite and
 * amax / 127 a normal float. */
#define MICA__ACT8_MIN 0x1p-119f

static inline float *mica__act8_scales(uint8_t *row, int64_t k)
{
    return (float *)(void *)(row + mica__act8_codes_bytes(k));
}

/* [k / 32][2] */
static inline int16_t *mica__act8_sums(uint8_t *row, int64_t k, int64_t group)
{
    return (int16_t *)(void *)(row + mica__act8_codes_bytes(k) + mica__act8_scales_bytes(k, group));
}

#endif
