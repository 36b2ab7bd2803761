/* parts.h - what rules share that say an op in simpler ones.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_OPS_PARTS_H
#define MICA_OPS_PARTS_H

#include "core/graph.h"

/* The array in the dtype that a composition works in: f64 and c64 stay, the rest is f32. */
mica_array *mica__widened(mica_array *a);

/* A constant of no dimensions in a dtype that a composition works in (f32, f64, c64), evaluated: it
 * costs a program no step. */
mica_array *mica__constant(mica_ctx *ctx, double value, mica_dtype dtype);

#endif
