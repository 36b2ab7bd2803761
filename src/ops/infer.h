/* infer.h - pieces that the inference rules of several families share.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_OPS_INFER_H
#define MICA_OPS_INFER_H

#include "core/graph.h"
#include "core/promote.h"

/* The shape two values broadcast to; the failure names both. Extents: an axis that varies must meet
 * one of length 1 or the same extent. */
mica_status mica__infer_broadcast(const mica__aval *a, const mica__aval *b, mica__aval *out);

/* Wraps a negative axis; the failure names it. */
mica_status mica__infer_axis(int32_t *axis, int ndim);

/* Fails unless the value has this dtype / number of dimensions; `what` names it. */
mica_status mica__expect_dtype(const mica__aval *value, mica_dtype dtype, const char *what);
mica_status mica__expect_ndim(const mica__aval *value, int ndim, const char *what);

#endif
