/* promote.h - which dtype an operation on two dtypes works in.
 *
 * MLX's table: symmetric, floats win over integers whatever their width, f16 with bf16 is f32, u64
 * with a signed type is f32, anything with c64 is c64.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_PROMOTE_H
#define MICA_CORE_PROMOTE_H

#include <mica/dtype.h>

/* The common dtype of two; both must be in the list. */
mica_dtype mica__promote(mica_dtype a, mica_dtype b);

bool mica__is_float(mica_dtype dtype);   /* f16, bf16, f32, f64 */
bool mica__is_inexact(mica_dtype dtype); /* floats and c64 */
bool mica__is_integer(mica_dtype dtype); /* without bool */

/* The dtype of functions that are not defined on integers: floats and c64 stay, the rest is f32. */
mica_dtype mica__to_inexact(mica_dtype dtype);

#endif
