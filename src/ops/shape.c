/* shape.c - operations that move or rename elements.
 * SPDX-License-Identifier: MIT
 */
#include <mica/ops.h>

#include <string.h>

#include "ops/infer.h"

/* --- inference -------------------------------------------------------------------------------- */

/* Carries varying axes through a reshape: an axis that varies may absorb the fixed axes behind it
 * (its multiple grows) or give them away again; a fixed axis in front of it may not be merged with
 * it, since elements would move. */
static mica_status reshape_extents(const mica__aval *in, mica__aval *out)
{
    int64_t before_in = 1;
    for (int i = 0; i < in->ndim; i++) {
        if (in->extents.axis[i]) {
            int64_t before_out = 1;
            int o = 0;
            while (o < out->ndim && before_out < before_in)
                before_out *= out->shape[o++];
            while (o < out->ndim && out->shape[o] == 1 && in->shape[i] != 1)
                o++;
            if (before_out != before_in || o == out->ndim || out->shape[o] % in->shape[i])
                MICA_FAIL(MICA_E_SHAPE,
                          "a varying axis cannot be merged behind a fixed one or split");
            out->extents.axis[o] = in->extents.axis[i];
        }
        before_in *= in->shape[i];
    }
    return MICA_OK;
}

static mica_status infer_reshape(void *attrs, int n_in, const mica__aval *in, int n_out,
                                 mica__aval *out)
{
    mica__reshape_attrs *a = attrs;
    (void)n_in, (void)n_out;
    int64_t known = 1;
    int unknown = -1;
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] == -1 && unknown < 0)
            unknown = i;
        else if (a->shape[i] < 0)
            MICA_FAIL(MICA_E_SHAPE, "dimension %d is %lld", i, (long long)a->shape[i]);
        else if (!mica__mul_i64(known, a->shape[i], &known))
            MICA_FAIL(MICA_E_SHAPE, "the shape is too large");
    }
    const int64_t size = mica__shape_size(in[0].ndim, in[0].shape);
    if (unknown >= 0) {
        if (known == 0 || size % known)
            known = -1;
        else
            a->shape[unknown] = size / known;
    }
    if (known < 0 || (unknown < 0 && known != size)) {
        char from[MICA__SHAPE_TEXT], to[MICA__SHAPE_TEXT];
        MICA_FAIL(MICA_E_SHAPE, "%s cannot become %s",
                  mica__shape_text(in[0].ndim, in[0].shape, from),
                  mica__shape_text(a->ndim, a->shape, to));
    }
    out[0].dtype = in[0].dtype;
    out[0].ndim = a->ndim;
    memcpy(out[0].shape, a->shape, sizeof a->shape);
    return reshape_extents(&in[0], &out[0]);
}

static mica_status infer_transpose(void *attrs, int n_in, const mica__aval *in, int n_out,
                                   mica__aval *out)
{
    mica__transpose_attrs *a = attrs;
    (void)n_in, (void)n_out;
    uint32_t used = 0;
    if (a->ndim != in[0].ndim)
        MICA_FAIL(MICA_E_SHAPE, "%d axes for an array of %d dimensions", a->ndim, in[0].ndim);
    out[0].dtype = in[0].dtype;
    out[0].ndim = in[0].ndim;
    for (int i = 0; i < a->ndim; i++) {
        MICA_TRY(mica__infer_axis(&a->axes[i], a->ndim));
        if (used >> a->axes[i] & 1)
            MICA_FAIL(MICA_E_SHAPE, "axis %d appears twice", a->axes[i]);
        used |= 1u << a->axes[i];
        out[0].shape[i] = in[0].shape[a->axes[i]];
        out[0].extents.axis[i] = in[0].extents.axis[a->axes[i]];
    }
    return MICA_OK;
}

static mica_status infer_broadcast_to(void *attrs, int n_in, const mica__aval *in, int n_out,
                                      mica__aval *out)
{
    const mica__reshape_attrs *a = attrs;
    (void)n_in, (void)n_out;
    mica__aval target = {.dtype = in[0].dtype, .ndim = a->ndim};
    memcpy(target.shape, a->shape, sizeof a->shape);
    const int added = a->ndim - in[0].ndim;
    for (int i = 0; i < in[0].ndim && added >= 0; i++)
        if (in[0].shape[i] == target.shape[added + i])
            target.extents.axis[added + i] = in[0].extents.axis[i];
    MICA_TRY(mica__infer_broadcast(&in[0], &target, &out[0]));
    out[0].dtype = in[0].dtype;
    if (out[0].ndim != a->ndim ||
        memcmp(out[0].shape, a->shape, (size_t)a->ndim * sizeof *a->shape)) {
        char from[MICA__SHAPE_TEXT], to[MICA__SHAPE_TEXT];
        MICA_FAIL(MICA_E_SHAPE, "%s does not broadcast to %s",
                  mica__shape_text(in[0].ndim, in[0].shape, from),
                  mica__shape_text(a->ndim, a->shape, to));
    }
    return MICA_OK;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Attributes of one axis in a form that gives itself when it is inferred again: an empty or single
 * slice has step 1, a backward one that ends before the first element stops at -n - 1. */
static void settle_slice(mica__slice_attrs *a, int axis, int64_t n, int64_t start, int64_t length)
{
    const int64_t step = a->step[axis];
    a->start[axis] = length ? start : 0;
    a->stop[axis] = a->start[axis] + length;
    if (length <= 1) {
        a->step[axis] = 1;
        return;
    }
    const int64_t last = start + (length - 1) * step;
    a->stop[axis] = step > 0 ? last + 1 : last > 0 ? last - 1 : -n - 1;
}

static mica_status infer_slice(void *attrs, int n_in, const mica__aval *in, int n_out,
                               mica__aval *out)
{
    mica__slice_attrs *a = attrs;
    (void)n_in, (void)n_out;
    out[0].dtype = in[0].dtype;
    out[0].ndim = in[0].ndim;
    for (int i = 0; i < in[0].ndim; i++) {
        const int64_t n = in[0].shape[i], step = a->step[i];
        if (step == 0 || step == INT64_MIN)
            MICA_FAIL(MICA_E_SHAPE, "the step of axis %d is %lld", i, (long long)step);
        const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
        int64_t start = a->start[i], stop = a->stop[i];
        start = clamp(start < 0 && start >= -n ? start + n : start, low, high);
        stop = clamp(stop < 0 && stop >= -n ? stop + n : stop, low, high);
        const int64_t length = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0)
                                        : (start > stop ? (start - stop - 1) / -step + 1 : 0);
        if (in[0].extents.axis[i] && (length != n || step != 1))
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "axis %d varies from run to run and can be taken whole only", i);
        settle_slice(a, i, n, start, length);
        out[0].shape[i] = length;
        out[0].extents.axis[i] = in[0].extents.axis[i];
    }
    return MICA_OK;
}

static mica_status infer_copy(void *attrs, int n_in, const mica__aval *in, int n_out,
                              mica__aval *out)
{
    (void)attrs, (void)n_in, (void)n_out;
    out[0] = in[0];
    return MICA_OK;
}

static mica_status infer_concatenate(void *attrs, int n_in, const mica__aval *in, int n_out,
                                     mica__aval *out)
{
    mica__axis_attrs *a = attrs;
    (void)n_out;
    if (n_in < 1)
        MICA_FAIL(MICA_E_ARGUMENT, "no arrays");
    MICA_TRY(mica__infer_axis(&a->axis, in[0].ndim));
    out[0] = in[0];
    if (in[0].extents.axis[a->axis])
        MICA_FAIL(MICA_E_UNSUPPORTED, "the axis varies from run to run");
    for (int i = 1; i < n_in; i++) {
        out[0].dtype = mica__promote(out[0].dtype, in[i].dtype);
        bool fits = in[i].ndim == in[0].ndim;
        for (int d = 0; fits && d < in[0].ndim; d++)
            fits = d == a->axis ? !in[i].extents.axis[d]
                                : in[i].shape[d] == in[0].shape[d] &&
                                      in[i].extents.axis[d] == in[0].extents.axis[d];
        if (!fits) {
            char first[MICA__SHAPE_TEXT], other[MICA__SHAPE_TEXT];
            MICA_FAIL(MICA_E_SHAPE, "shapes %s and %s do not join along axis %d",
                      mica__shape_text(in[0].ndim, in[0].shape, first),
                      mica__shape_text(in[i].ndim, in[i].shape, other), a->axis);
        }
        if (!mica__add_i64(out[0].shape[a->axis], in[i].shape[a->axis], &out[0].shape[a->axis]))
            MICA_FAIL(MICA_E_SHAPE, "the result is too large");
    }
    return MICA_OK;
}

const mica__rules mica__shape_rules[] = {
    {MICA__OP_RESHAPE, "the same elements in another shape", infer_reshape, NULL, 0, 0},
    {MICA__OP_TRANSPOSE, "axes in another order", infer_transpose, NULL, 0, 0},
    {MICA__OP_BROADCAST, "repeated along new or single axes", infer_broadcast_to, NULL, 0, 0},
    {MICA__OP_SLICE, "a regular part of each axis", infer_slice, NULL, 0, 0},
    {MICA__OP_COPY, "the same values, row-major", infer_copy, NULL, 0, 0},
    {MICA__OP_CONCATENATE, "arrays joined along an axis", infer_concatenate, NULL, 0, 0},
    {MICA__N_OPS, NULL, NULL, NULL, 0, 0},
};

/* --- builders --------------------------------------------------------------------------------- */

static bool shape_attrs(mica_ctx *ctx, const char *op, const mica_shape *shape,
                        mica__reshape_attrs *attrs)
{
    if (shape->ndim < 0 || shape->ndim > MICA_MAX_DIMS) {
        mica__ctx_fail(ctx, mica__fail(MICA_E_SHAPE, "%s: %d dimensions, at most %d are possible",
                                       op, shape->ndim, MICA_MAX_DIMS));
        return false;
    }
    attrs->ndim = shape->ndim;
    memcpy(attrs->shape, shape->dims, (size_t)shape->ndim * sizeof *shape->dims);
    return true;
}

mica_array *mica_reshape(mica_array *a, mica_shape shape)
{
    mica__reshape_attrs attrs = {0};
    mica_ctx *ctx = a ? mica__ctx_for(1, &a) : NULL;
    return a && shape_attrs(ctx, "reshape", &shape, &attrs)
               ? mica__apply(ctx, MICA__OP_RESHAPE, &attrs, 1, &a)
               : NULL;
}

mica_array *mica_broadcast_to(mica_array *a, mica_shape shape)
{
    mica__reshape_attrs attrs = {0};
    mica_ctx *ctx = a ? mica__ctx_for(1, &a) : NULL;
    return a && shape_attrs(ctx, "broadcast_to", &shape, &attrs)
               ? mica__apply(ctx, MICA__OP_BROADCAST, &attrs, 1, &a)
               : NULL;
}

mica_array *mica_transpose(mica_array *a, int n, const int *axes)
{
    if (!a)
        return NULL;
    mica_ctx *ctx = mica__ctx_for(1, &a);
    if (n < 0 || n > MICA_MAX_DIMS || (n && n != a->ndim)) {
        mica__ctx_fail(ctx,
                       mica__fail(MICA_E_SHAPE, "transpose: %d axes for an array of %d dimensions",
                                  n, a->ndim));
        return NULL;
    }
    mica__transpose_attrs attrs = {.ndim = a->ndim};
    for (int i = 0; i < a->ndim; i++)
        attrs.axes[i] = n ? axes[i] : a->ndim - 1 - i;
    return mica__apply(ctx, MICA__OP_TRANSPOSE, &attrs, 1, &a);
}

/* Axis `from` of a moved to `to`, those in between towards `from`; both are checked by the caller.
 */
static mica_array *move_axis(mica_array *a, int from, int to)
{
    int axes[MICA_MAX_DIMS];
    for (int i = 0; i < a->ndim; i++)
        axes[i] = i == to ? from : i >= from && i < to ? i + 1 : i <= from && i > to ? i - 1 : i;
    return mica_transpose(a, a->ndim, axes);
}

/* Wraps two axes of an op; false with the failure recorded in a's context. */
static bool wrap_axes(mica_array *a, const char *op, int axes[2])
{
    for (int i = 0; i < 2; i++) {
        int32_t at = axes[i];
        const mica_status status = mica__infer_axis(&at, a->ndim);
        if (status != MICA_OK) {
            mica__ctx_fail(mica__ctx_for(1, &a), mica__fail_at(status, "%s", op));
            return false;
        }
        axes[i] = at;
    }
    return true;
}

mica_array *mica_moveaxis(mica_array *a, int source, int destination)
{
    int at[2] = {source, destination};
    return a && wrap_axes(a, "moveaxis", at) ? move_axis(a, at[0], at[1]) : NULL;
}

mica_array *mica_swapaxes(mica_array *a, int axis1, int axis2)
{
    int at[2] = {axis1, axis2}, axes[MICA_MAX_DIMS];
    if (!a || !wrap_axes(a, "swapaxes", at))
        return NULL;
    for (int i = 0; i < a->ndim; i++)
        axes[i] = i == at[0] ? at[1] : i == at[1] ? at[0] : i;
    return mica_transpose(a, a->ndim, axes);
}

mica_array *mica_flatten(mica_array *a, int start_axis, int end_axis)
{
    if (!a)
        return NULL;
    if (!a->ndim)
        return mica_reshape(a, mica_shape_of(1, (const int64_t[]){1}));
    int first = start_axis < 0 ? start_axis + a->ndim : start_axis;
    int last = end_axis < 0 ? end_axis + a->ndim : end_axis;
    first = first < 0 ? 0 : first;
    last = last < a->ndim ? last : a->ndim - 1;
    if (first > last) {
        mica__ctx_fail(mica__ctx_for(1, &a),
                       mica__fail(MICA_E_SHAPE,
                                  "flatten: no axes from %d to %d in an array of %d dimensions",
                                  start_axis, end_axis, a->ndim));
        return NULL;
    }
    mica_shape shape = {.ndim = a->ndim - (last - first)};
    for (int i = 0; i < shape.ndim; i++)
        shape.dims[i] = i <= first ? a->shape[i] : a->shape[i + last - first];
    shape.dims[first] = mica__shape_size(last - first + 1, a->shape + first);
    return mica_reshape(a, shape);
}

mica_array *mica_unflatten(mica_array *a, int axis, mica_shape parts)
{
    int at[2] = {axis, axis};
    if (!a || !wrap_axes(a, "unflatten", at))
        return NULL;
    mica_ctx *ctx = mica__ctx_for(1, &a);
    const int added = parts.ndim - 1;
    int64_t known = 1;
    int unknown = -1;
    bool fits = parts.ndim >= 1 && parts.ndim <= MICA_MAX_DIMS && a->ndim + added <= MICA_MAX_DIMS;
    for (int i = 0; i < parts.ndim && fits; i++) {
        if (parts.dims[i] == -1 && unknown < 0)
            unknown = i;
        else
            fits = parts.dims[i] >= 0 && mica__mul_i64(known, parts.dims[i], &known);
    }
    const int64_t length = a->shape[at[0]];
    if (fits && unknown >= 0) {
        fits = known && length % known == 0;
        parts.dims[unknown] = fits ? length / known : 0;
    } else {
        fits &= known == length;
    }
    if (!fits) {
        mica__ctx_fail(ctx, mica__fail(MICA_E_SHAPE,
                                       "unflatten: axis %d of length %lld does not have this shape",
                                       axis, (long long)length));
        return NULL;
    }
    mica_shape shape = {.ndim = a->ndim + added};
    for (int i = 0; i < shape.ndim; i++)
        shape.dims[i] = i < at[0]            ? a->shape[i]
                        : i <= at[0] + added ? parts.dims[i - at[0]]
                                             : a->shape[i - added];
    return mica_reshape(a, shape);
}

mica_array *mica_slice(mica_array *a, int n, const int64_t *start, const int64_t *stop,
                       const int64_t *step)
{
    if (!a)
        return NULL;
    mica_ctx *ctx = mica__ctx_for(1, &a);
    if (n != a->ndim) {
        mica__ctx_fail(ctx, mica__fail(MICA_E_SHAPE, "slice: %d axes for an array of %d dimensions",
                                       n, a->ndim));
        return NULL;
    }
    mica__slice_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    for (int i = 0; i < n; i++) {
        attrs.start[i] = start[i];
        attrs.stop[i] = stop[i];
        attrs.step[i] = step ? step[i] : 1;
    }
    return mica__apply(ctx, MICA__OP_SLICE, &attrs, 1, &a);
}

mica_array *mica_expand_dims(mica_array *a, int axis)
{
    if (!a)
        return NULL;
    int32_t at = axis;
    if (a->ndim == MICA_MAX_DIMS || mica__infer_axis(&at, a->ndim + 1) != MICA_OK) {
        mica_ctx *ctx = mica__ctx_for(1, &a);
        mica__ctx_fail(ctx, mica__fail(MICA_E_SHAPE,
                                       "expand_dims: no axis %d can be added to %d dimensions",
                                       axis, a->ndim));
        return NULL;
    }
    mica_shape shape = {.ndim = a->ndim + 1};
    for (int i = 0; i < shape.ndim; i++)
        shape.dims[i] = i < at ? a->shape[i] : i == at ? 1 : a->shape[i - 1];
    return mica_reshape(a, shape);
}

mica_array *mica_squeeze(mica_array *a, int axis)
{
    if (!a)
        return NULL;
    int32_t at = axis;
    if (mica__infer_axis(&at, a->ndim) != MICA_OK || a->shape[at] != 1) {
        mica__ctx_fail(mica__ctx_for(1, &a),
                       mica__fail(MICA_E_SHAPE, "squeeze: axis %d is not of length 1", axis));
        return NULL;
    }
    mica_shape shape = {.ndim = a->ndim - 1};
    for (int i = 0; i < shape.ndim; i++)
        shape.dims[i] = a->shape[i < at ? i : i + 1];
    return mica_reshape(a, shape);
}

mica_array *mica_contiguous(mica_array *a)
{
    return a ? mica__apply(mica__ctx_for(1, &a), MICA__OP_COPY, NULL, 1, &a) : NULL;
}

mica_array *mica_concatenate(int n, mica_array *const *arrays, int axis)
{
    const mica__axis_attrs attrs = {.axis = axis};
    mica_array *same[16];
    if (n < 1 || n > 16) {
        mica_ctx *ctx = n > 0 ? mica__ctx_for(n, arrays) : mica__ctx_current();
        mica__ctx_fail(
            ctx, mica__fail(MICA_E_ARGUMENT, "concatenate: %d arrays, 1 to 16 are possible", n));
        return NULL;
    }
    mica_dtype dtype = arrays[0] ? arrays[0]->dtype : MICA_F32;
    for (int i = 0; i < n; i++) {
        if (!arrays[i])
            return NULL;
        dtype = mica__promote(dtype, arrays[i]->dtype);
    }
    for (int i = 0; i < n; i++)
        same[i] = mica_astype(arrays[i], dtype);
    return mica__apply(mica__ctx_for(n, arrays), MICA__OP_CONCATENATE, &attrs, n, same);
}
