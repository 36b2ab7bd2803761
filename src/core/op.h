/* op.h - operations: their numbers, names, classes and attributes.
 *
 * Attributes are plain data, zero-filled before they are set, compared and hashed as bytes.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_OP_H
#define MICA_CORE_OP_H

#include <mica/dtype.h>

#include "core/block_format.h"
#include "core/fused.h"

typedef enum mica__op {
#define MICA__OP(id, name, class, arity, attrs) id,
#include "core/ops.def"
#undef MICA__OP
    MICA__N_OPS
} mica__op;

typedef enum mica__op_class {
    MICA__CLASS_UNARY,
    MICA__CLASS_BINARY,
    MICA__CLASS_REDUCE,
    MICA__CLASS_VIEW,
    MICA__CLASS_CUSTOM
} mica__op_class;

typedef struct mica__op_facts {
    const char *name;
    mica__op_class class;
    int arity; /* number of inputs, -1 where it varies */
    size_t attr_bytes;
} mica__op_facts;

/* Facts of an operation of the list. Static storage. */
const mica__op_facts *mica__op_facts_of(mica__op op);

typedef struct mica__no_attrs {
    uint8_t none; /* always 0 */
} mica__no_attrs;

typedef struct mica__astype_attrs {
    int32_t dtype;
} mica__astype_attrs;

typedef struct mica__full_attrs {
    int32_t ndim;
    int32_t reserved;
    int64_t shape[MICA_MAX_DIMS];
} mica__full_attrs; /* input: the value, one element */

typedef struct mica__arange_attrs {
    double start, step;
    int64_t n;
    int32_t dtype;
    int32_t reserved;
} mica__arange_attrs;

typedef struct mica__reshape_attrs {
    int32_t ndim;
    int32_t reserved;
    int64_t shape[MICA_MAX_DIMS]; /* bounds; an axis that follows a named extent holds its bound */
} mica__reshape_attrs;

typedef struct mica__transpose_attrs {
    int32_t ndim;
    int32_t axes[MICA_MAX_DIMS]; /* output axis i is input axis axes[i] */
} mica__transpose_attrs;

typedef struct mica__slice_attrs {
    int64_t start[MICA_MAX_DIMS];
    int64_t stop[MICA_MAX_DIMS];
    int64_t step[MICA_MAX_DIMS]; /* not 0; negative walks backwards */
} mica__slice_attrs;

typedef struct mica__axis_attrs {
    int32_t axis;
} mica__axis_attrs;

typedef struct mica__reduce_attrs {
    uint32_t axes; /* bit i: axis i is reduced */
    int32_t keepdims;
} mica__reduce_attrs;

/* matmul. transposed_b: the product was written x W^T, with b [.., N, K]; canonical order over 16
 * lanes along K. Else b is [.., K, N]: each output is sequential in k. The form is part of the
 * meaning and never taken from strides. */
typedef struct mica__matmul_attrs {
    int32_t transposed_b;
} mica__matmul_attrs;

/* A weight matrix [N, K] (embedding table: N rows) in a stored format.
 * GGUF and plain formats: one input, u8 [N, row bytes] (plain types may come as their own dtype [N,
 * K] instead). MLX formats: codes u32 [N, K * bits / 32], scales [N, K / group] (affine: f16, bf16
 * or f32; mxfp4, mxfp8: u8 e8m0; nvfp4: u8 e4m3) and for affine biases [N, K / group]. */
typedef struct mica__qweight_attrs {
    int32_t format; /* mica__block_format */
    int32_t bits;   /* MLX formats */
    int32_t group;  /* MLX formats: values that share a scale */
    int32_t reserved;
    int64_t n;
    int64_t k;
} mica__qweight_attrs;

/* Rows of f32 rounded to 8-bit codes. Output: u8 [rows, mica__act8_row_bytes(k, group)]. */
typedef struct mica__quantize_rows_attrs {
    int32_t group; /* values that share a scale: 32, 64, 128 or 256 */
} mica__quantize_rows_attrs;

/* One row of rounded activations: codes int8 [k] padded to 64 bytes, then scales f32 [k / group]
 * padded to 64 bytes, then sums of the codes as pairs of i16, one pair for each 32 values: the sum
 * of the first 16 and of the last 16 of them; padded to 64 bytes. k is a multiple of group. */
static inline int64_t mica__act8_codes_bytes(int64_t k)
{
    return (k + 63) / 64 * 64;
}

static inline int64_t mica__act8_scales_bytes(int64_t k, int64_t group)
{
    return (k / group * 4 + 63) / 64 * 64;
}

static inline int64_t mica__act8_row_bytes(int64_t k, int64_t group)
{
    return mica__act8_codes_bytes(k) + mica__act8_scales_bytes(k, group) +
           (k / 32 * 4 + 63) / 64 * 64;
}

/* The activation group that a weight format is multiplied with: 256 for the K formats (and IQ4_XS),
 * the MLX group for MLX formats, else 32. */
int32_t mica__act8_group(int32_t format, int32_t mlx_group);

/* Whether a weight format has a product with rounded activations (quantized_matmul_i8): every GGUF
 * block format with a decoder, MLX affine and mxfp4. MLX mxfp8 codes are no integers, and groups of
 * 16 (nvfp4) are too short: those are dequantised. */
bool mica__act8_has_product(int32_t format);

typedef struct mica__norm_attrs {
    float eps;
    float weight_offset; /* added to the weight: 1 for Gemma's files, else 0 */
} mica__norm_attrs;

/* (positions i32 [T], freqs f32 [n]) -> f32 [T, 2, n]: scale * cos, scale * sin of (float)position
 * * freq. */
typedef struct mica__rope_table_attrs {
    float scale;
} mica__rope_table_attrs;

/* (x f32 [T, H, D], table f32 [T, 2, n]) -> as x; the first 2n features of each head are rotated.
 */
typedef struct mica__rope_attrs {
    int32_t interleaved; /* pairs (2i, 2i+1); else (i, i + n) */
} mica__rope_attrs;

/* Tokens in one KV block, for every pool. Attention works in chunks of 4 blocks at absolute
 * positions. */
#define MICA__KV_BLOCK_TOKENS 16

/* What keys and values are kept as. */
typedef enum mica__kv_dtype {
    MICA__KV_F32,
    MICA__KV_BF16,
    MICA__KV_F16,
    MICA__KV_Q8,
    MICA__KV_Q4,
    MICA__N_KV_DTYPES
} mica__kv_dtype;

/* Where one layer's K and V stand in the blocks of a pool. A block holds 16 tokens; inside it, at
 * layer_offset, for each KV head K then V: K f32/f16/bf16: [head_dim][16 tokens]     V: [16
 * tokens][value_dim] K q8: codes [head_dim / 4][16 tokens][4] then f16 scales [head_dim / g][16
 * tokens] K q4: the same with two codes a byte, [head_dim / 8][16 tokens][4] (low nibble: the first
 * four of eight values) V q8, q4: [16 tokens] x (codes [value_dim] or [value_dim / 2], low nibble
 * first), then f16 scales [16 tokens][value_dim / g] g is 32, or the head size where that is
 * smaller. */
typedef struct mica__kv_attrs {
    int32_t kv_dtype; /* mica__kv_dtype */
    int32_t kv_heads;
    int32_t head_dim;
    int32_t value_dim;
    int64_t block_bytes;
    int64_t layer_offset; /* bytes from the start of a block */
} mica__kv_attrs;

/* Bytes of one layer in one block: kv_heads * (K bytes + V bytes). -1 when q8 or q4 cannot hold
 * these head sizes (they must be multiples of 32, or smaller than 32 and a multiple of 8). */
int64_t mica__kv_layer_bytes(int32_t kv_dtype, int32_t kv_heads, int32_t head_dim,
                             int32_t value_dim);

/* kv_write: (pool u8 [bytes], k f32 [T, Hkv, D], v f32 [T, Hkv, Dv], positions i32 [T], sequence_of
 * i32 [T], block_table i32 [S, B]) -> the pool, updated in place. attention: (q f32 [T, H, D],
 * pool, positions, sequence_of, block_table) -> f32 [T, H, Dv]. Query head h reads KV head h / (H /
 * Hkv). A token at position p sees positions (p - window, p], all of [0, p] when window is 0. */
typedef struct mica__attention_attrs {
    mica__kv_attrs kv;
    float scale;    /* of q . k */
    float soft_cap; /* 0: none; else cap * tanh(score / cap) */
    int64_t window;
} mica__attention_attrs;

#endif
