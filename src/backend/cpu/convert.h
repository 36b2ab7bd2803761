/* convert.h - elements of one dtype to another.
 *
 * The rules (docs/numerics.md, Conversions): integers wrap to the target's width; floats go to
 * integers towards zero, saturated, NaN to 0; anything to bool is != 0; floats round to nearest
 * even, once; complex gives its real part, real gets imaginary part 0.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_CONVERT_H
#define MICA_BACKEND_CPU_CONVERT_H

#include "core/backend.h"

/* n elements, strides in elements, any addresses; regions do not overlap. */
void mica__convert(void *to, mica_dtype to_dtype, int64_t to_stride, const void *from,
                   mica_dtype from_dtype, int64_t from_stride, int64_t n);

/* The same dtype: elements of so many bytes moved. */
void mica__move(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t bytes,
                int64_t n);

#endif
