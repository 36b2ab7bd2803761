/* mlx_codec.h - rows in MLX's quantised formats to float32 and back.
 *
 * A row of K values is a dense little-endian bit stream of codes (value k at bit k * bits, least
 * significant bit first, in ascending bytes; MLX views it as uint32 words), with one scale, and for
 * affine one bias, per group along the row:
 *   affine  bits 2 3 4 5 6 8, groups of 32 64 128; q * scale + bias; scales and biases f16, bf16,
 * f32 mxfp4   4-bit E2M1 codes, groups of 32; code * 2^(byte - 127) mxfp8   8-bit E4M3 codes,
 * groups of 32; code * 2^(byte - 127) nvfp4   4-bit E2M1 codes, groups of 16; code * E4M3(byte),
 * times global_scale / 2688 where one is given Decoding rounds once a weight (the scale of nvfp4
 * with a global scale is itself rounded to f32 first). Encoding gives MLX's bits on the CPU: affine
 * codes round half to even, E2M1 takes the lower code of two equally near, block scales of mxfp4
 * and mxfp8 round up to a power of two. Source: mlx.core.quantize, MLX 0.32.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_MLX_CODEC_H
#define MICA_IO_MLX_CODEC_H

#include "base/fail.h"
#include "core/block_format.h"

typedef struct mica__mlx_spec {
    mica__block_format format; /* MICA__MLX_AFFINE, _MXFP4, _MXFP8 or _NVFP4 */
    int bits;
    int group_size;
    mica_dtype dtype;   /* MICA_F16, MICA_BF16 or MICA_F32: what was quantised; affine scales and
                           biases have it */
    float global_scale; /* nvfp4: > 0; 0 when there is none */
} mica__mlx_spec;

/* Whether the combination exists and rows of k values divide into its groups and 32-bit words. */
mica_status mica__mlx_check(const mica__mlx_spec *spec, int64_t k);

/* Bytes of the codes, and of the scales (and as many of the biases), of a row of k values; the spec
 * must have passed the check. */
int64_t mica__mlx_code_bytes(const mica__mlx_spec *spec, int64_t k);
int64_t mica__mlx_scale_bytes(const mica__mlx_spec *spec, int64_t k);

/* Decodes a row: codes, scales and biases (NULL but for affine) at any address; out: [k]. */
mica_status mica__mlx_decode(const mica__mlx_spec *spec, const uint8_t *codes,
                             const uint8_t *scales, const uint8_t *biases, int64_t k, float *out);

/* Encodes a row of k values, which hold numbers of spec->dtype widened to f32. MICA_E_ARGUMENT for
 * values that are not finite or span more than f32 holds. */
mica_status mica__mlx_encode(const mica__mlx_spec *spec, const float *values, int64_t k,
                             uint8_t *codes, uint8_t *scales, uint8_t *biases);

/* E4M3 (bias 7, no infinity, 0x7f is NaN). Encoding rounds half to even and saturates: magnitudes
 * from 464 on, infinities and NaN become 0x7e with their sign. */
float mica__e4m3_to_f32(uint8_t code);
uint8_t mica__f32_to_e4m3(float value);

#endif
