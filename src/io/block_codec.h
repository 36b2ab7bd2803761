/* block_codec.h - rows of stored weights to float32 and back.
 *
 * Decoding rounds every weight once to float32, however its layout spells it: a product of an f16
 * scale and a code is exact, a scale with a minimum is one fused multiply-add. So every feature
 * level can have the same bits, and "dequantised" means one thing everywhere. Encoders follow
 * ggml's reference rounding to the bit. Data may stand at any address.
 *
 * Layouts (GGUF specification and ggml's block structures; d, m, dmin are f16, little-endian, `q` a
 * code; "nibbles" are 16 bytes for 32 values, low nibble = value j, high nibble = value j + 16):
 *   Q4_0    d, nibbles; (q - 8) d
 *   Q4_1    d, m, nibbles; q d + m
 *   Q5_0    d, u32 of fifth bits, nibbles; (q - 16) d
 *   Q5_1    d, m, u32 of fifth bits, nibbles; q d + m
 *   Q8_0    d, 32 i8; q d
 *   IQ4_NL  as Q4_0, through a table of 16 integers
 *   MXFP4   E8M0 byte e, nibbles; twice the E2M1 value times 2^(e - 128)
 *   Q2_K    16 bytes {scale, min} nibbles, 64 bytes of 2-bit codes, d, dmin
 *   Q3_K    32 bytes of third bits, 64 bytes of 2-bit codes, 12 bytes of 6-bit scales, d
 *   Q4_K    d, dmin, 12 bytes of 6-bit scales and mins, 128 bytes of nibbles
 *   Q5_K    d, dmin, 12 bytes of 6-bit scales and mins, 32 bytes of fifth bits, 128 bytes of
 * nibbles Q6_K    128 bytes of low nibbles, 64 bytes of high bit pairs, 16 i8 scales, d IQ4_XS  d,
 * u16 of high scale bits, 4 bytes of scale nibbles, 128 bytes of nibbles A K block holds 256
 * values; d * scale * q - dmin * min.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_BLOCK_CODEC_H
#define MICA_IO_BLOCK_CODEC_H

#include "base/fail.h"
#include "core/block_format.h"

/* Decodes k values (a multiple of the format's block) of any format that has_decoder and is no MLX
 * format. blocks: mica__block_row_bytes(format, k) bytes at any address; out: [k].
 * MICA_E_UNSUPPORTED for formats without a decoder, MICA_E_SHAPE for a k that is no multiple. F64
 * beyond the range of float32 becomes an infinity. */
mica_status mica__block_decode(mica__block_format format, const uint8_t *blocks, int64_t k,
                               float *out);

/* Whether mica__block_encode knows the format: F32 F16 BF16 F64 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 MXFP4. */
bool mica__block_can_encode(mica__block_format format);

/* Encodes values [k] into mica__block_row_bytes(format, k) bytes. Block formats refuse values that
 * are not finite, and values whose scale leaves the range of f16 (MICA_E_ARGUMENT with the index).
 */
mica_status mica__block_encode(mica__block_format format, const float *values, int64_t k,
                               uint8_t *blocks);

/* Whether all scales and minima of a row are finite: kernels rely on it. On failure
 * (MICA_E_FORMAT) *bad is the index of the first block that has none. Plain formats have no scales
 * and pass; so do integer formats. */
mica_status mica__block_check_scales(mica__block_format format, const uint8_t *blocks, int64_t k,
                                     int64_t *bad);

#endif
