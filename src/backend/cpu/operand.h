/* operand.h - walking over operands of any strides in the order of a result's elements.
 *
 * Element i of an array is the i-th in row-major order of its shape, wherever strides put it, so
 * the cut into tasks and the order of work never depend on layout.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_OPERAND_H
#define MICA_BACKEND_CPU_OPERAND_H

#include "core/backend.h"

/* Most operands walked together: inputs and outputs of a fused chain. */
#define MICA__WALK_OPERANDS 20

/* Several operands over one shape, neighbouring axes merged where all strides allow it. Axes of
 * extent 1 are dropped; there is always at least one axis. */
typedef struct mica__walk {
    int ndim;
    int n_operands;
    int64_t size; /* product of shape */
    int64_t shape[MICA_MAX_DIMS];
    int64_t strides[MICA__WALK_OPERANDS][MICA_MAX_DIMS]; /* elements; 0 where broadcast */
} mica__walk;

/* Elements of an operand: the product of its shape. */
int64_t mica__operand_size(const mica__operand *operand);

/* Whether the last axis has stride 1 (or at most one element). */
bool mica__operand_in_rows(const mica__operand *operand);

/* Starts an empty walk over a shape; operands are added before mica__walk_merge. An operand has the
 * shape, or fewer axes or extents of 1, which broadcast. */
void mica__walk_start(mica__walk *walk, int ndim, const int64_t *shape);
void mica__walk_add(mica__walk *walk, const mica__operand *operand);
void mica__walk_merge(mica__walk *walk);

/* A run of elements along the last axis, and where it begins in operand k: offset in elements. */
typedef struct mica__cursor {
    int64_t at[MICA_MAX_DIMS];
} mica__cursor;

/* Puts the cursor at element i. */
void mica__cursor_set(const mica__walk *walk, mica__cursor *cursor, int64_t i);

/* Elements left in the current run, at most n. */
static inline int64_t mica__cursor_run(const mica__walk *walk, const mica__cursor *cursor,
                                       int64_t n)
{
    const int64_t left = walk->shape[walk->ndim - 1] - cursor->at[walk->ndim - 1];
    return left < n ? left : n;
}

static inline int64_t mica__cursor_offset(const mica__walk *walk, const mica__cursor *cursor,
                                          int operand)
{
    int64_t offset = 0;
    for (int i = 0; i < walk->ndim; i++)
        offset += cursor->at[i] * walk->strides[operand][i];
    return offset;
}

/* Moves on by a run's length. */
void mica__cursor_advance(const mica__walk *walk, mica__cursor *cursor, int64_t n);

/* ceil(a / b) for a >= 0, b > 0. */
static inline int64_t mica__div_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The i-th element of an operand of integers of any width, as int64 (u64 wraps). */
int64_t mica__operand_integer(const mica__operand *operand, int64_t offset);

#endif
