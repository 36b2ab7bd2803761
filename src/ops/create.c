/* create.c - arrays from numbers.
 * SPDX-License-Identifier: MIT
 */
#include <mica/ops.h>

#include <math.h>
#include <string.h>

#include "ops/infer.h"

static mica_status infer_full(void *attrs, int n_in, const mica__aval *in, int n_out,
                              mica__aval *out)
{
    const mica__full_attrs *a = attrs;
    (void)n_in, (void)n_out;
    if (in[0].ndim)
        MICA_FAIL(MICA_E_SHAPE, "the value must be a scalar");
    out[0].dtype = in[0].dtype;
    out[0].ndim = a->ndim;
    memcpy(out[0].shape, a->shape, sizeof a->shape);
    return MICA_OK;
}

static mica_status infer_arange(void *attrs, int n_in, const mica__aval *in, int n_out,
                                mica__aval *out)
{
    const mica__arange_attrs *a = attrs;
    (void)n_in, (void)in, (void)n_out;
    out[0].dtype = (mica_dtype)a->dtype;
    out[0].ndim = 1;
    out[0].shape[0] = a->n;
    return MICA_OK;
}

static mica_array *full_parts(mica_ctx *ctx, const void *attrs, int n_in, mica_array *const *in)
{
    const mica__full_attrs *a = attrs;
    (void)ctx, (void)n_in;
    return mica_contiguous(mica_broadcast_to(in[0], mica_shape_of(a->ndim, a->shape)));
}

const mica__rules mica__create_rules[] = {
    {MICA__OP_FULL, "an array of one value", infer_full, full_parts, 0, 0},
    {MICA__OP_ARANGE, "evenly spaced numbers", infer_arange, NULL, 0, 0},
    {MICA__N_OPS, NULL, NULL, NULL, 0, 0},
};

mica_array *mica_scalar(mica_ctx *mc, double value, mica_dtype dtype)
{
    if (!mc)
        return NULL;
    mica_array *exact = mica_from_data(mc, &value, mica_shape_of(0, NULL), MICA_F64);
    return mica_astype(exact, dtype);
}

mica_array *mica_full(mica_ctx *mc, mica_shape shape, double value, mica_dtype dtype)
{
    if (!mc)
        return NULL;
    if (mica__shape_check("full", &shape, dtype) != MICA_OK) {
        mica__ctx_fail(mc, MICA_E_SHAPE);
        return NULL;
    }
    mica__full_attrs attrs = {.ndim = shape.ndim};
    memcpy(attrs.shape, shape.dims, (size_t)shape.ndim * sizeof *shape.dims);
    mica_array *one = mica_scalar(mc, value, dtype);
    return one ? mica__apply(mc, MICA__OP_FULL, &attrs, 1, &one) : NULL;
}

mica_array *mica_zeros(mica_ctx *mc, mica_shape shape, mica_dtype dtype)
{
    return mica_full(mc, shape, 0, dtype);
}

mica_array *mica_ones(mica_ctx *mc, mica_shape shape, mica_dtype dtype)
{
    return mica_full(mc, shape, 1, dtype);
}

mica_array *mica_arange(mica_ctx *mc, double start, double stop, double step, mica_dtype dtype)
{
    if (!mc)
        return NULL;
    const double count = ceil((stop - start) / step);
    if (!(count < 0x1p53) || (unsigned)dtype >= MICA_N_DTYPES || dtype == MICA_BOOL ||
        dtype == MICA_C64) {
        mica__ctx_fail(mc, mica__fail(MICA_E_ARGUMENT,
                                      "arange: from %g to %g by %g as %s is no finite list", start,
                                      stop, step, mica_dtype_name(dtype)));
        return NULL;
    }
    const mica__arange_attrs attrs = {
        .start = start, .step = step, .n = count > 0 ? (int64_t)count : 0, .dtype = dtype};
    return mica__apply(mc, MICA__OP_ARANGE, &attrs, 0, NULL);
}
