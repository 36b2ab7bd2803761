/* ops.h - operations on arrays. Semantics are MLX's: argument meaning, promotion, edge cases.
 *
 * Every function returns a lazy array of the innermost scope, or NULL with the error in the
 * context; NULL in gives NULL out. Axes count from the end where they are negative. Shapes
 * broadcast as in NumPy.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_OPS_H
#define MICA_OPS_H

#include <mica/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- making ----------------------------------------------------------------------------------- */

/* An array of one value, rounded to dtype. */
MICA_API mica_array *mica_full(mica_ctx *mc, mica_shape shape, double value, mica_dtype dtype);
MICA_API mica_array *mica_zeros(mica_ctx *mc, mica_shape shape, mica_dtype dtype);
MICA_API mica_array *mica_ones(mica_ctx *mc, mica_shape shape, mica_dtype dtype);

/* An array of no dimensions with this value. */
MICA_API mica_array *mica_scalar(mica_ctx *mc, double value, mica_dtype dtype);

/* start, start + step, ... below stop (above it where step is negative). */
MICA_API mica_array *mica_arange(mica_ctx *mc, double start, double stop, double step,
                                 mica_dtype dtype);

/* --- elementwise, one operand ----------------------------------------------------------------- */
/* abs (but f32 for c64), negative and square keep the dtype; the others give f32 for integers
 * and bool. */
MICA_API mica_array *mica_abs(mica_array *a);
MICA_API mica_array *mica_negative(mica_array *a); /* bool is refused */
MICA_API mica_array *mica_square(mica_array *a);
MICA_API mica_array *mica_sqrt(mica_array *a);
MICA_API mica_array *mica_rsqrt(mica_array *a);
MICA_API mica_array *mica_reciprocal(mica_array *a);
MICA_API mica_array *mica_exp(mica_array *a);
MICA_API mica_array *mica_log(mica_array *a);
MICA_API mica_array *mica_sin(mica_array *a);
MICA_API mica_array *mica_cos(mica_array *a);
MICA_API mica_array *mica_tanh(mica_array *a);
MICA_API mica_array *mica_sigmoid(mica_array *a);
MICA_API mica_array *mica_erf(mica_array *a);
MICA_API mica_array *mica_silu(mica_array *a);      /* a * sigmoid(a), rounded once */
MICA_API mica_array *mica_gelu(mica_array *a);      /* a * (1 + erf(a / sqrt 2)) / 2 */
MICA_API mica_array *mica_gelu_tanh(mica_array *a); /* its approximation with tanh */

/* Converts: floats to integers toward zero, out of range clamped, NaN to 0; anything but 0 to true.
 */
MICA_API mica_array *mica_astype(mica_array *a, mica_dtype dtype);

/* --- elementwise, two operands ---------------------------------------------------------------- */
/* The result has the promoted dtype of both; divide gives f32 for integers. */
MICA_API mica_array *mica_add(mica_array *a, mica_array *b);
MICA_API mica_array *mica_subtract(mica_array *a, mica_array *b);
MICA_API mica_array *mica_multiply(mica_array *a, mica_array *b);
MICA_API mica_array *mica_divide(mica_array *a, mica_array *b);
MICA_API mica_array *mica_maximum(mica_array *a, mica_array *b); /* NaN if either is */
MICA_API mica_array *mica_minimum(mica_array *a, mica_array *b);
MICA_API mica_array *mica_swiglu(mica_array *gate,
                                 mica_array *up); /* silu(gate) * up, rounded once */
MICA_API mica_array *mica_geglu(mica_array *gate,
                                mica_array *up); /* gelu_tanh(gate) * up, rounded once */

/* --- shape ------------------------------------------------------------------------------------ */

/* One dimension may be -1: it takes what is left. A varying first axis may be named by its bound or
 * -1. */
MICA_API mica_array *mica_reshape(mica_array *a, mica_shape shape);

/* Output axis i is axis axes[i] of a; n must be its number of dimensions. n 0 reverses all axes. */
MICA_API mica_array *mica_transpose(mica_array *a, int n, const int *axes);

/* Two axes exchanged; one axis moved to another place, the others keep their order. */
MICA_API mica_array *mica_swapaxes(mica_array *a, int axis1, int axis2);
MICA_API mica_array *mica_moveaxis(mica_array *a, int source, int destination);

/* Axes start_axis .. end_axis become one; both are taken into the array's range, a scalar becomes
 * one element. And back: axis becomes axes of this shape, of which one may be -1. */
MICA_API mica_array *mica_flatten(mica_array *a, int start_axis, int end_axis);
MICA_API mica_array *mica_unflatten(mica_array *a, int axis, mica_shape shape);

/* Repeats a along new leading axes and axes of length 1 so that it has this shape. */
MICA_API mica_array *mica_broadcast_to(mica_array *a, mica_shape shape);

/* a[start:stop:step] on every axis, Python's rules for negative and far indices; n must be its
 * number of dimensions. A varying axis can be taken whole only. step NULL: all 1. */
MICA_API mica_array *mica_slice(mica_array *a, int n, const int64_t *start, const int64_t *stop,
                                const int64_t *step);

/* New axes of length 1 at position axis of the result; axes of length 1 taken away. */
MICA_API mica_array *mica_expand_dims(mica_array *a, int axis);
MICA_API mica_array *mica_squeeze(mica_array *a, int axis);

/* The same values, row-major. */
MICA_API mica_array *mica_contiguous(mica_array *a);

/* Joins 1 to 16 arrays of equal shape but for `axis`. */
MICA_API mica_array *mica_concatenate(int n, mica_array *const *arrays, int axis);

/* --- reductions ------------------------------------------------------------------------------- */
/* axes: a set of bits, bit i for axis i, or MICA_ALL_AXES. Sums of halves accumulate in f32,
 * sums of small integers in 32 bits; order of additions: docs/numerics.md. */
MICA_API mica_array *mica_sum(mica_array *a, uint32_t axes, bool keepdims);
MICA_API mica_array *mica_mean(mica_array *a, uint32_t axes, bool keepdims);
MICA_API mica_array *mica_max(mica_array *a, uint32_t axes,
                              bool keepdims); /* NaN if there is one */
MICA_API mica_array *mica_min(mica_array *a, uint32_t axes, bool keepdims);
MICA_API mica_array *mica_softmax(mica_array *a, int axis);

/* --- indexing --------------------------------------------------------------------------------- */

/* Slices of a at indices (integers, negative from the end) along axis; out of range fails when it
 * is computed. Returns a's shape with the axis replaced by the indices' shape. */
MICA_API mica_array *mica_take(mica_array *a, mica_array *indices, int axis);

/* --- products --------------------------------------------------------------------------------- */

/* [.., M, K] x [.., K, N], leading dimensions broadcast; one-dimensional operands as in NumPy. A
 * product whose right side is written as a transpose of its last two axes takes the x W^T order of
 * additions (docs/numerics.md). */
MICA_API mica_array *mica_matmul(mica_array *a, mica_array *b);

/* --- fused ------------------------------------------------------------------------------------ */

/* x / sqrt(mean(x^2) + eps) * weight over the last axis, rounded once to x's dtype.
 * x [.., D], weight [D]; Zhang and Sennrich, arXiv 1910.07467. */
MICA_API mica_array *mica_rms_norm(mica_array *x, mica_array *weight, float eps);

#ifdef __cplusplus
}
#endif

#endif
