/* parts.c - what rules share that say an op in simpler ones.
 * SPDX-License-Identifier: MIT
 */
#include "ops/parts.h"

#include <mica/ops.h>

mica_array *mica__widened(mica_array *a)
{
    return a && a->dtype != MICA_F64 && a->dtype != MICA_C64 ? mica_astype(a, MICA_F32) : a;
}

mica_array *mica__constant(mica_ctx *ctx, double value, mica_dtype dtype)
{
    const float single[2] = {(float)value, 0};
    const void *data = dtype == MICA_F64 ? (const void *)&value : single;
    return mica_from_data(ctx, data, mica_shape_of(0, NULL), dtype);
}
