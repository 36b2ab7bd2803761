/* block_format.h - how a weight row is stored: plain elements, GGUF blocks, MLX groups.
 *
 * One list of every format. A GGUF block format is self-contained: a row of K values is K / values
 * blocks of `bytes` bytes. An MLX format has its codes in one tensor (a dense little-endian bit
 * stream per row, `bits` each) and its scales, and for affine its biases, in others. Layouts: GGUF
 * specification and ggml's block structures; MLX's quantize. Encoders and decoders:
 * io/block_codec.h.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_BLOCK_FORMAT_H
#define MICA_CORE_BLOCK_FORMAT_H

#include <mica/dtype.h>

/* X(enumerator, name, ggml id or -1, bytes of a block, values of a block, has a decoder here)
 * Rows of the plain types have blocks of one value. */
#define MICA__BLOCK_FORMATS(X)                                                                     \
    X(MICA__F32, "F32", 0, 4, 1, 1)                                                                \
    X(MICA__F16, "F16", 1, 2, 1, 1)                                                                \
    X(MICA__BF16, "BF16", 30, 2, 1, 1)                                                             \
    X(MICA__F64, "F64", 28, 8, 1, 1)                                                               \
    X(MICA__I8, "I8", 24, 1, 1, 0)                                                                 \
    X(MICA__I16, "I16", 25, 2, 1, 0)                                                               \
    X(MICA__I32, "I32", 26, 4, 1, 0)                                                               \
    X(MICA__I64, "I64", 27, 8, 1, 0)                                                               \
    X(MICA__Q4_0, "Q4_0", 2, 18, 32, 1)                                                            \
    X(MICA__Q4_1, "Q4_1", 3, 20, 32, 1)                                                            \
    X(MICA__Q5_0, "Q5_0", 6, 22, 32, 1)                                                            \
    X(MICA__Q5_1, "Q5_1", 7, 24, 32, 1)                                                            \
    X(MICA__Q8_0, "Q8_0", 8, 34, 32, 1)                                                            \
    X(MICA__Q8_1, "Q8_1", 9, 36, 32, 0)                                                            \
    X(MICA__Q2_K, "Q2_K", 10, 84, 256, 1)                                                          \
    X(MICA__Q3_K, "Q3_K", 11, 110, 256, 1)                                                         \
    X(MICA__Q4_K, "Q4_K", 12, 144, 256, 1)                                                         \
    X(MICA__Q5_K, "Q5_K", 13, 176, 256, 1)                                                         \
    X(MICA__Q6_K, "Q6_K", 14, 210, 256, 1)                                                         \
    X(MICA__Q8_K, "Q8_K", 15, 292, 256, 0)                                                         \
    X(MICA__IQ2_XXS, "IQ2_XXS", 16, 66, 256, 0)                                                    \
    X(MICA__IQ2_XS, "IQ2_XS", 17, 74, 256, 0)                                                      \
    X(MICA__IQ3_XXS, "IQ3_XXS", 18, 98, 256, 0)                                                    \
    X(MICA__IQ1_S, "IQ1_S", 19, 50, 256, 0)                                                        \
    X(MICA__IQ4_NL, "IQ4_NL", 20, 18, 32, 1)                                                       \
    X(MICA__IQ3_S, "IQ3_S", 21, 110, 256, 0)                                                       \
    X(MICA__IQ2_S, "IQ2_S", 22, 82, 256, 0)                                                        \
    X(MICA__IQ4_XS, "IQ4_XS", 23, 136, 256, 1)                                                     \
    X(MICA__IQ1_M, "IQ1_M", 29, 56, 256, 0)                                                        \
    X(MICA__TQ1_0, "TQ1_0", 34, 54, 256, 0)                                                        \
    X(MICA__TQ2_0, "TQ2_0", 35, 66, 256, 0)                                                        \
    X(MICA__MXFP4, "MXFP4", 39, 17, 32, 1)                                                         \
    X(MICA__NVFP4, "NVFP4", 40, 36, 64, 0)                                                         \
    X(MICA__Q1_0, "Q1_0", 41, 18, 128, 0)                                                          \
    X(MICA__Q2_0, "Q2_0", 42, 18, 64, 0)

typedef enum mica__block_format {
#define X(name, text, id, bytes, values, decoder) name,
    MICA__BLOCK_FORMATS(X)
#undef X
    /* MLX formats: codes, scales and biases are separate tensors; bits and group size stand beside
       the format. */
    MICA__MLX_AFFINE,
    MICA__MLX_MXFP4,
    MICA__MLX_MXFP8,
    MICA__MLX_NVFP4,
    MICA__N_FORMATS
} mica__block_format;

typedef struct mica__block_info {
    const char *name;
    int ggml_id;      /* -1: no GGUF type */
    int bytes;        /* of one block; 0 for the MLX formats */
    int values;       /* in one block; 0 for the MLX formats */
    bool has_decoder; /* whether it can be dequantised and multiplied here */
} mica__block_info;

/* Facts of a format; format must be in the list. Static storage. */
const mica__block_info *mica__block_info_of(mica__block_format format);

/* The format of a ggml type id, or MICA__N_FORMATS for ids that are unknown or were removed. */
mica__block_format mica__block_format_of_ggml(uint32_t ggml_id);

/* Bytes of a row of k values in a GGUF or plain format; -1 when k is not a multiple of the block or
 * overflows. */
int64_t mica__block_row_bytes(mica__block_format format, int64_t k);

#endif
