/* heap_sort.h - sorting in place: n log n for every input, no memory of its own, no recursion.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_HEAP_SORT_H
#define MICA_IO_HEAP_SORT_H

#include <stddef.h>
#include <stdint.h>

#define MICA__SORT_MAX_SIZE 64

/* Sorts n items of `size` bytes (at most MICA__SORT_MAX_SIZE) ascending; equal ones in any order.
 * compare: negative, zero or positive as the first is before, equal to or after the second. */
void mica__heap_sort(void *items, int64_t n, size_t size,
                     int (*compare)(const void *, const void *));

#endif
