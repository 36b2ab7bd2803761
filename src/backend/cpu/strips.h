/* strips.h - how a product with weights is cut into tasks, and the loop that runs one.
 *
 * The cut depends on shapes and formats only. Few activation rows: 16 weight rows that stand far
 * apart share the lanes of a vector, so that memory is read as 16 streams. Many: neighbouring
 * rows, each unpacked once for a block of activation rows. Results are collected in scratch and
 * leave it through one function, which rounds them to the output's dtype.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_CPU_STRIPS_H
#define MICA_BACKEND_CPU_STRIPS_H

#include "backend/cpu/matmul_level.h"

typedef struct mica__cut {
    int64_t n, m;
    int64_t lane_rows; /* distance of the rows that share a vector; 0: neighbours */
    int64_t panels;    /* of 16 rows, the last may have fewer */
    int64_t task_panels;
    int64_t task_acts;
    int64_t row_tasks; /* tasks along n */
    int64_t act_tasks; /* tasks along m */
} mica__cut;

/* The cut of n weight rows of row_bytes times m activation rows. */
mica__cut mica__cut_of(int64_t n, int64_t m, int64_t row_bytes);

/* Scratch of one worker for any task with at most m activation rows, `level_bytes` of which are the
 * level's. */
size_t mica__cut_scratch_bound(int64_t m, size_t level_bytes);

/* Where the rows of both sides are: row i of the activations and of the output. */
typedef struct mica__strip_rows {
    const mica__operand *acts;
    int64_t acts_first;        /* row of `acts` that is row 0 of this product */
    const uint8_t *plain_acts; /* when set instead: rows of f32 [k] without gaps */
    mica__operand *out;
    int64_t out_first;
} mica__strip_rows;

/* Runs task `task` of row_tasks * act_tasks. */
void mica__cut_run(const mica__cut *cut, int64_t task, const mica__qweight *weight,
                   void (*strip)(const mica__strip *), const mica__matmul_level *level,
                   const mica__strip_rows *rows, void *scratch);

/* Rows (all axes but the last) of an operand, and where row i begins. */
int64_t mica__operand_row_count(const mica__operand *operand);
uint8_t *mica__operand_row(const mica__operand *operand, int64_t row);

/* Stores n values as the output's dtype (f32, f16, bf16) at out. */
void mica__store_row(const mica__matmul_level *level, mica_dtype dtype, const float *in, int64_t n,
                     uint8_t *out);

#endif
