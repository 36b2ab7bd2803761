/* backend.h - what the evaluator asks of a device's kernels.
 *
 * A program is a list of steps; a step is one kernel over operands. A kernel cuts its work into
 * independent tasks by a rule that depends on shapes only, never on the number of workers, so
 * results do not either. Tasks of one stage may run in any order and at the same time; all tasks of
 * a stage end before the next stage begins.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_BACKEND_H
#define MICA_CORE_BACKEND_H

#include "base/fail.h"
#include "core/op.h"

typedef struct mica__cpu mica__cpu; /* base/cpu.h */

/* An operand as a kernel sees it. Strides are fixed when the program is planned (named extents at
 * their bounds); shape holds the real extents of this run. */
typedef struct mica__operand {
    uint8_t *data; /* first element; NULL while planning */
    mica_dtype dtype;
    int ndim;
    bool unaligned; /* data may start at any address (mapped files) */
    int64_t shape[MICA_MAX_DIMS];
    int64_t strides[MICA_MAX_DIMS]; /* in elements */
} mica__operand;

typedef struct mica__call {
    const void *attrs; /* the struct that ops.def names for the op */
    const mica__cpu *cpu;
    int n_in;
    int n_out;
    mica__operand *in;
    mica__operand *out;
    uint8_t *workspace; /* workspace_bytes, shared by the step's tasks, 64-byte aligned; contents
                           undefined */
} mica__call;

typedef struct mica__kernel {
    mica__op op;
    const char *name;
    int n_stages; /* at least 1 */

    /* Whether these dtypes and layouts are handled. NULL: everything the op allows, with inputs
     * row-contiguous and aligned. Where no kernel accepts, inputs are copied to contiguous aligned
     * buffers and it is asked again. An op that no kernel takes even then is decomposed, which is
     * found out first (pass_decompose.c): who accepts a layout accepts contiguous inputs, too. Data
     * pointers are NULL. */
    bool (*accepts)(const mica__call *call);

    /* How many tasks a stage has: a function of shapes and attributes only. 0 is allowed (empty
     * arrays). */
    int64_t (*n_tasks)(const mica__call *call, int stage);

    /* Bytes of scratch one worker needs, 64-byte aligned, and of workspace for the step; asked
     * once, while planning, with all extents at their bounds. NULL: none. */
    size_t (*scratch_bytes)(const mica__call *call);
    size_t (*workspace_bytes)(const mica__call *call);

    /* Does one task. May fail on bad data (an index out of range): the run stops and reports it. */
    mica_status (*run)(const mica__call *call, int stage, int64_t task, void *scratch);

    /* Bit i: output 0 may be written over input i when nobody else needs that input (same dtype and
     * size, each element read before it is written by the same task). */
    uint32_t in_place;
} mica__kernel;

/* The kernels of the CPU backend, tried in order (backend/cpu/kernels.c lists them). */
extern const mica__kernel *const mica__cpu_kernels[];
extern const int mica__cpu_n_kernels;

/* The weighted cost of work: tasks smaller than this many bytes or operations are not worth handing
 * out. Kernels cut elementwise work into tiles of this many elements. */
#define MICA__TILE_ELEMENTS 16384

#endif
