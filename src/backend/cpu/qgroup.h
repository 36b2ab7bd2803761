/* qgroup.h - one group of stored weights as integers and scales, in plain C.
 *
 * The readable description of every layout: scalar kernels multiply what these functions give, and
 * vector unpackers are tested against them.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_QGROUP_H
#define MICA_BACKEND_CPU_QGROUP_H

#include "backend/cpu/qweight.h"

typedef struct mica__qgroup {
    float d; /* scale */
    float m; /* bias, or the scale of the minima */
    int16_t code[256];
    int16_t scale[16]; /* super forms: one for each `sub` values */
    int16_t min[16];
} mica__qgroup;

/* Group g (of w->group values) of a row. w->form must not be MICA__FORM_NONE. */
void mica__qgroup_read(const mica__qweight *w, int64_t row, int64_t g, mica__qgroup *out);

/* The scales alone of a super-block: d, m, scale, min. */
void mica__qgroup_scales(mica__block_format format, const uint8_t *block, mica__qgroup *out);

/* Values [k0, k0 + n) of a row of any format as f32, each rounded once; k0 a multiple of 256. */
void mica__qgroup_dequantize(const mica__qweight *w, int64_t row, int64_t k0, int64_t n,
                             float *out);

/* 2^(e - 128); e < 2 gives a subnormal float. */
float mica__half_e8m0(uint8_t e);

/* The float8 value (4 exponent bits, 3 of fraction, no infinity) of a byte. */
float mica__e4m3(uint8_t b);

/* Scale or bias i of an MLX affine group. */
float mica__mlx_scale(mica_dtype dtype, const uint8_t *at, int64_t i);

/* The values of 4-bit codes: IQ4_NL and IQ4_XS; twice the E2M1 values. */
extern const int8_t mica__iq4_values[16];
extern const int8_t mica__e2m1_doubled[16];

#endif
