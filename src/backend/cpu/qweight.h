/* qweight.h - a weight matrix as the products see it: where its rows are and how they are stored.
 *
 * One struct for plain, GGUF and MLX storage, made from a call's operands. Every format belongs to
 * one of a few forms, which say how integer sums become a float (docs/numerics.md); kernels are
 * written for forms, only the unpacking knows formats. Rows may start at any address.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_QWEIGHT_H
#define MICA_BACKEND_CPU_QWEIGHT_H

#include "core/backend.h"

/* How the value of a code q comes about, and how a group's integer sum enters the result. */
typedef enum mica__qform {
    MICA__FORM_NONE,      /* has no product with rounded activations (or is plain) */
    MICA__FORM_SCALE,     /* d q: groups with one scale */
    MICA__FORM_BIAS,      /* d q + m */
    MICA__FORM_SUPER,     /* 256 values: d s q, an integer s for each `sub` values */
    MICA__FORM_SUPER_MIN, /* 256 values: d s q - m n, integers s and n for each `sub` values */
} mica__qform;

typedef struct mica__qweight {
    mica__block_format format;
    mica__qform form;
    int bits;      /* MLX formats */
    int64_t group; /* values that share an activation scale: mica__act8_group; plain: 0 */
    int sub;       /* super forms: values that share an integer scale, 16 or 32 */
    int64_t n, k;
    const uint8_t *codes;  /* GGUF, plain: whole rows */
    int64_t codes_stride;  /* bytes from row to row, as below */
    const uint8_t *scales; /* MLX formats only */
    int64_t scales_stride;
    const uint8_t *biases; /* MLX affine only */
    int64_t biases_stride;
    mica_dtype scales_dtype; /* of scales and biases: f16, bf16, f32; u8 where they are exponents */
} mica__qweight;

/* Describes the weight inputs in[0 .. n_in) of a call (the inputs behind the activations). False
 * where the operands do not fit attrs or are laid out in a way the kernels do not read: rows must
 * be contiguous. Data pointers may be NULL (planning). */
bool mica__qweight_of(const mica__qweight_attrs *attrs, const mica__operand *in, int n_in,
                      mica__qweight *weight);

/* A plain matrix [n, k] of f32, f16, bf16 or f64 with rows `stride_bytes` apart. */
mica__qweight mica__qweight_plain(mica_dtype dtype, int64_t n, int64_t k, const uint8_t *data,
                                  int64_t stride_bytes);

/* Whether there is a product with activations rounded to 8 bits: every GGUF format with a decoder,
 * MLX affine and mxfp4. (mxfp8 codes are no integers; nvfp4 has groups of 16.) */
bool mica__qweight_has_i8(int32_t format);

#endif
