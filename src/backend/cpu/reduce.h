/* reduce.h - an array to reduce, seen as outputs times reduced elements.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_REDUCE_H
#define MICA_BACKEND_CPU_REDUCE_H

#include "backend/cpu/operand.h"

/* Elements of a block of the canonical order. */
#define MICA__REDUCE_BLOCK 1024

typedef struct mica__reduction {
    mica__walk kept;    /* operands: input, output */
    mica__walk reduced; /* operand: input; element k of an output's sum is its k-th */
    int64_t n_outputs;
    int64_t n_reduced;
    int64_t n_blocks; /* of MICA__REDUCE_BLOCK reduced elements */
} mica__reduction;

/* From a call with mica__reduce_attrs, its input 0 and output 0. */
void mica__reduction_of(const mica__call *call, mica__reduction *reduction);

/* Reduced elements [start, start + n) of the output whose input part begins at `base` (elements),
 * converted to dtype, into a dense array. */
void mica__reduction_load(const mica__reduction *reduction, const mica__operand *in, int64_t base,
                          int64_t start, int64_t n, mica_dtype dtype, void *to);

#endif
