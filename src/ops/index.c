/* index.c - taking slices by index.
 * SPDX-License-Identifier: MIT
 */
#include <mica/ops.h>

#include "ops/infer.h"
#include "ops/matrix.h"

static mica_status infer_take(void *attrs, int n_in, const mica__aval *in, int n_out,
                              mica__aval *out)
{
    mica__axis_attrs *a = attrs;
    (void)n_in, (void)n_out;
    if (!mica__is_integer(in[1].dtype))
        MICA_FAIL(MICA_E_SHAPE, "indices must be integers, not %s", mica_dtype_name(in[1].dtype));
    MICA_TRY(mica__infer_axis(&a->axis, in[0].ndim));
    if (in[0].ndim - 1 + in[1].ndim > MICA_MAX_DIMS)
        MICA_FAIL(MICA_E_SHAPE, "the result has more than %d dimensions", MICA_MAX_DIMS);
    out[0].dtype = in[0].dtype;
    out[0].ndim = 0;
    for (int i = 0; i < in[0].ndim; i++) {
        if (i != a->axis) {
            out[0].extents.axis[out[0].ndim] = in[0].extents.axis[i];
            out[0].shape[out[0].ndim++] = in[0].shape[i];
            continue;
        }
        for (int j = 0; j < in[1].ndim; j++) {
            out[0].extents.axis[out[0].ndim] = in[1].extents.axis[j];
            out[0].shape[out[0].ndim++] = in[1].shape[j];
        }
    }
    return MICA_OK;
}

static mica_status infer_embed(void *attrs, int n_in, const mica__aval *in, int n_out,
                               mica__aval *out)
{
    const mica__qweight_attrs *a = attrs;
    (void)n_out;
    MICA_TRY(mica__expect_ndim(&in[0], 1, "the ids"));
    MICA_TRY(mica__expect_dtype(&in[0], MICA_I32, "the ids"));
    MICA_TRY(mica__check_qweight(a, n_in - 1, in + 1));
    out[0] = (mica__aval){.dtype = MICA_F32, .ndim = 2, .shape = {in[0].shape[0], a->k}};
    out[0].extents.axis[0] = in[0].extents.axis[0];
    return MICA_OK;
}

const mica__rules mica__index_rules[] = {
    {MICA__OP_TAKE, "slices at indices along an axis", infer_take, NULL, 0, 0},
    {MICA__OP_EMBED, "rows of a stored table, dequantised", infer_embed, NULL, 0, 0},
    {MICA__N_OPS, NULL, NULL, NULL, 0, 0},
};

mica_array *mica_take(mica_array *a, mica_array *indices, int axis)
{
    const mica__axis_attrs attrs = {.axis = axis};
    mica_array *in[2] = {a, indices};
    return a && indices ? mica__apply(mica__ctx_for(2, in), MICA__OP_TAKE, &attrs, 2, in) : NULL;
}

mica_array *mica__embed(mica_array *ids, const mica__matrix *weight)
{
    return mica__apply_matrix(MICA__OP_EMBED, ids, weight);
}
