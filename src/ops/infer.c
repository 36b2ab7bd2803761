/* infer.c - pieces that the inference rules of several families share.
 * SPDX-License-Identifier: MIT
 */
#include "ops/infer.h"

mica_status mica__infer_broadcast(const mica__aval *a, const mica__aval *b, mica__aval *out)
{
    out->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 1; i <= out->ndim; i++) {
        const int64_t x = i <= a->ndim ? a->shape[a->ndim - i] : 1,
                      y = i <= b->ndim ? b->shape[b->ndim - i] : 1;
        const uint8_t ex = i <= a->ndim ? a->extents.axis[a->ndim - i] : 0;
        const uint8_t ey = i <= b->ndim ? b->extents.axis[b->ndim - i] : 0;
        const bool one_x = x == 1 && !ex, one_y = y == 1 && !ey;
        if (!one_x && !one_y && (x != y || ex != ey)) {
            char ta[MICA__SHAPE_TEXT], tb[MICA__SHAPE_TEXT];
            MICA_FAIL(MICA_E_SHAPE, "shapes %s and %s do not match",
                      mica__shape_text(a->ndim, a->shape, ta),
                      mica__shape_text(b->ndim, b->shape, tb));
        }
        out->shape[out->ndim - i] = one_x ? y : x;
        out->extents.axis[out->ndim - i] = one_x ? ey : ex;
    }
    return MICA_OK;
}

mica_status mica__infer_axis(int32_t *axis, int ndim)
{
    if (*axis < -ndim || *axis >= ndim)
        MICA_FAIL(MICA_E_SHAPE, "axis %d of an array of %d dimensions", *axis, ndim);
    if (*axis < 0)
        *axis += ndim;
    return MICA_OK;
}

mica_status mica__expect_dtype(const mica__aval *value, mica_dtype dtype, const char *what)
{
    if (value->dtype != dtype)
        MICA_FAIL(MICA_E_SHAPE, "%s must be %s, not %s", what, mica_dtype_name(dtype),
                  mica_dtype_name(value->dtype));
    return MICA_OK;
}

mica_status mica__expect_ndim(const mica__aval *value, int ndim, const char *what)
{
    if (value->ndim != ndim)
        MICA_FAIL(MICA_E_SHAPE, "%s must have %d dimensions, not %d", what, ndim, value->ndim);
    return MICA_OK;
}
