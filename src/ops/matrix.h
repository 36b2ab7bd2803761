/* matrix.h - products with stored weights, for models: the public matmul knows plain arrays only.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_OPS_MATRIX_H
#define MICA_OPS_MATRIX_H

#include "core/graph.h"

/* A weight matrix [n, k] as a file stores it: what attrs say, in one to three arrays (op.h,
 * mica__qweight_attrs). */
typedef struct mica__matrix {
    mica__qweight_attrs attrs;
    int n_parts;
    mica_array *parts[3]; /* codes or rows; scales; biases */
} mica__matrix;

/* How activations enter a product with quantised weights. */
typedef enum mica__activations {
    MICA__ACTIVATIONS_F32,  /* as they are; weights are dequantised */
    MICA__ACTIVATIONS_INT8, /* rounded to 8 bits per group where the weights are quantised */
    MICA__ACTIVATIONS_BF16  /* rounded to bfloat16 for bfloat16 weights */
} mica__activations;

/* Whether the parts have the dtypes and shapes that attrs ask for. */
mica_status mica__check_qweight(const mica__qweight_attrs *attrs, int n_parts,
                                const mica__aval *parts);

/* Records an op whose inputs are x and the weight's parts. */
mica_array *mica__apply_matrix(mica__op op, mica_array *x, const mica__matrix *weight);

/* Rows of the table for ids i32 [T]: f32 [T, k]. */
mica_array *mica__embed(mica_array *ids, const mica__matrix *weight);

/* x f32 [M, k] times the weight's transpose: f32 [M, n]. */
mica_array *mica__linear(mica_array *x, const mica__matrix *weight, mica__activations activations);

#endif
