/* reduce_ops.c - sums, means, extremes, softmax.
 * SPDX-License-Identifier: MIT
 */
#include <mica/ops.h>

#include "ops/infer.h"
#include "ops/parts.h"

/* Sums of small integers and bool are 32 bits wide (MLX). */
static mica_dtype sum_dtype(mica_dtype dtype)
{
    switch (dtype) {
    case MICA_BOOL:
    case MICA_I8:
    case MICA_I16:
        return MICA_I32;
    case MICA_U8:
    case MICA_U16:
        return MICA_U32;
    default:
        return dtype;
    }
}

static mica_status infer_reduce(void *attrs, int n_in, const mica__aval *in, int n_out,
                                mica__aval *out)
{
    mica__reduce_attrs *a = attrs;
    (void)n_in, (void)n_out;
    const uint32_t all = (uint32_t)((1ull << in[0].ndim) - 1);
    if (a->axes == MICA_ALL_AXES)
        a->axes = all;
    if (a->axes & ~all)
        MICA_FAIL(MICA_E_SHAPE, "an axis to reduce is beyond the %d of the array", in[0].ndim);
    out[0].dtype = in[0].dtype;
    out[0].ndim = 0;
    for (int i = 0; i < in[0].ndim; i++) {
        const bool reduced = a->axes >> i & 1;
        if (reduced && in[0].extents.axis[i])
            MICA_FAIL(MICA_E_UNSUPPORTED, "axis %d varies from run to run and cannot be reduced",
                      i);
        if (reduced && !a->keepdims)
            continue;
        out[0].extents.axis[out[0].ndim] = in[0].extents.axis[i];
        out[0].shape[out[0].ndim++] = reduced ? 1 : in[0].shape[i];
    }
    return MICA_OK;
}

static mica_status infer_sum(void *attrs, int n_in, const mica__aval *in, int n_out,
                             mica__aval *out)
{
    MICA_TRY(infer_reduce(attrs, n_in, in, n_out, out));
    out[0].dtype = sum_dtype(in[0].dtype);
    return MICA_OK;
}

static mica_status infer_mean(void *attrs, int n_in, const mica__aval *in, int n_out,
                              mica__aval *out)
{
    MICA_TRY(infer_reduce(attrs, n_in, in, n_out, out));
    out[0].dtype = mica__to_inexact(in[0].dtype);
    return MICA_OK;
}

static mica_status infer_extreme(void *attrs, int n_in, const mica__aval *in, int n_out,
                                 mica__aval *out)
{
    MICA_TRY(infer_reduce(attrs, n_in, in, n_out, out));
    const mica__reduce_attrs *a = attrs;
    for (int i = 0; i < in[0].ndim; i++)
        if ((a->axes >> i & 1) && in[0].shape[i] == 0)
            MICA_FAIL(MICA_E_SHAPE, "axis %d is empty and has no extreme", i);
    return MICA_OK;
}

static mica_status infer_softmax(void *attrs, int n_in, const mica__aval *in, int n_out,
                                 mica__aval *out)
{
    mica__axis_attrs *a = attrs;
    (void)n_in, (void)n_out;
    MICA_TRY(mica__infer_axis(&a->axis, in[0].ndim));
    if (in[0].dtype == MICA_C64)
        MICA_FAIL(MICA_E_UNSUPPORTED, "not defined for %s", mica_dtype_name(in[0].dtype));
    if (in[0].extents.axis[a->axis])
        MICA_FAIL(MICA_E_UNSUPPORTED, "axis %d varies from run to run and cannot be reduced",
                  a->axis);
    out[0] = in[0];
    out[0].dtype = mica__to_inexact(in[0].dtype);
    return MICA_OK;
}

/* Halves work in f32, as the kernels do. */
static mica_array *mean_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    const mica__reduce_attrs *a = attrs;
    (void)n_in;
    double count = 1;
    for (int i = 0; i < in[0]->ndim; i++)
        count *= a->axes >> i & 1 ? (double)in[0]->shape[i] : 1;
    mica_array *sum = mica_sum(mica__widened(in[0]), a->axes, a->keepdims);
    if (!sum)
        return NULL;
    mica_array *mean = mica_divide(sum, mica__constant(ctx, count, sum->dtype));
    return mica_astype(mean, mica__to_inexact(in[0]->dtype));
}

static mica_array *softmax_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    const mica__axis_attrs *a = attrs;
    (void)ctx, (void)n_in;
    const mica_dtype dtype = mica__to_inexact(in[0]->dtype);
    const uint32_t axis = 1u << a->axis;
    if (!in[0]->shape[a->axis]) /* nothing, which has no largest */
        return mica_astype(in[0], dtype);
    mica_array *x = mica__widened(in[0]);
    mica_array *e = mica_exp(mica_subtract(x, mica_max(x, axis, true)));
    return mica_astype(mica_divide(e, mica_sum(e, axis, true)), dtype);
}

const mica__rules mica__reduce_rules[] = {
    {MICA__OP_SUM, "sum over axes", infer_sum, NULL, 0, 0},
    {MICA__OP_MEAN, "mean over axes", infer_mean, mean_parts, 0, 0},
    {MICA__OP_MAX, "largest over axes; NaN if there is one", infer_extreme, NULL, 0, 0},
    {MICA__OP_MIN, "smallest over axes; NaN if there is one", infer_extreme, NULL, 0, 0},
    {MICA__OP_SOFTMAX, "exp(a - max) / sum over one axis", infer_softmax, softmax_parts, 0, 0},
    {MICA__N_OPS, NULL, NULL, NULL, 0, 0},
};

static mica_array *reduce(mica__op op, mica_array *a, uint32_t axes, bool keepdims)
{
    const mica__reduce_attrs attrs = {.axes = axes, .keepdims = keepdims};
    return a ? mica__apply(mica__ctx_for(1, &a), op, &attrs, 1, &a) : NULL;
}

mica_array *mica_sum(mica_array *a, uint32_t axes, bool keepdims)
{
    return reduce(MICA__OP_SUM, a, axes, keepdims);
}

mica_array *mica_mean(mica_array *a, uint32_t axes, bool keepdims)
{
    if (a)
        a = mica_astype(a, mica__to_inexact(a->dtype));
    return reduce(MICA__OP_MEAN, a, axes, keepdims);
}

mica_array *mica_max(mica_array *a, uint32_t axes, bool keepdims)
{
    return reduce(MICA__OP_MAX, a, axes, keepdims);
}

mica_array *mica_min(mica_array *a, uint32_t axes, bool keepdims)
{
    return reduce(MICA__OP_MIN, a, axes, keepdims);
}

mica_array *mica_softmax(mica_array *a, int axis)
{
    if (!a)
        return NULL;
    a = mica_astype(a, mica__to_inexact(a->dtype));
    if (!a)
        return NULL;
    int32_t at = axis;
    const bool known = mica__infer_axis(&at, a->ndim) == MICA_OK;
    if (!known || at == a->ndim - 1) {
        const mica__axis_attrs attrs = {.axis = axis};
        return mica__apply(mica__ctx_for(1, &a), MICA__OP_SOFTMAX, &attrs, 1, &a);
    }
    /* The kernel works along the last axis: swap it there and back, which costs nothing. */
    int axes[MICA_MAX_DIMS];
    for (int i = 0; i < a->ndim; i++)
        axes[i] = i == at ? a->ndim - 1 : i == a->ndim - 1 ? at : i;
    const mica__axis_attrs last = {.axis = a->ndim - 1};
    mica_array *moved = mica_transpose(a, a->ndim, axes);
    mica_array *result =
        moved ? mica__apply(mica__ctx_for(1, &moved), MICA__OP_SOFTMAX, &last, 1, &moved) : NULL;
    return mica_transpose(result, a->ndim, axes);
}
