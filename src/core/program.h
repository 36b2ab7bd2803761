/* program.h - a frozen program: steps over operands whose addresses are filled in for each run.
 *
 * Immutable after it is made, but for the addresses and extents, which a run sets while it holds
 * the runtime's workers. A run takes what mica_program_facts says, before the first step, and gives
 * it back at the end; replaying allocates nothing else and builds no graph.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_PROGRAM_H
#define MICA_CORE_PROGRAM_H

#include "core/ir.h"

/* Where an operand's data comes from. */
typedef enum mica__source {
    MICA__FROM_ARENA,
    MICA__FROM_INPUT,   /* index: which input of the run */
    MICA__FROM_OUTPUT,  /* index: which output of the run */
    MICA__FROM_CONSTANT /* index: which constant of the program */
} mica__source;

typedef struct mica__place {
    mica__source source;
    int32_t index;
    int64_t offset; /* bytes */
} mica__place;

/* One axis of one operand that follows an extent: shape = multiple * value of the run. */
typedef struct mica__varying {
    int32_t operand;
    int8_t axis;
    uint8_t extent; /* number in the program */
    int64_t multiple;
} mica__varying;

typedef struct mica__program_step {
    const mica__kernel *kernel;
    mica__call call;
    int64_t workspace_place; /* -1: none */
    int32_t phase;
    int32_t first_operand; /* of the program's operands and places */
} mica__program_step;

/* Counters of one phase of a run; owned by execute.c, allocated with the program. */
typedef struct mica__phase_run {
    _Atomic int64_t next; /* task to hand out */
    int64_t n_tasks;      /* of all steps of the phase */
    bool serial;          /* done by worker 0 alone */
    char pad[64 - 2 * sizeof(int64_t) - sizeof(bool)];
} mica__phase_run;

typedef struct mica__program_value {
    mica__aval aval;
    int32_t alias; /* outputs: the program input that it updates in place, or -1 */
} mica__program_value;

struct mica_program {
    _Atomic int32_t refs;
    mica__runtime *runtime;
    mica__arena memory; /* everything below */
    mica__program_step *steps;
    int32_t n_steps, n_phases;
    int32_t *phase_steps; /* [n_entries] step * 4 + stage, by phase */
    int32_t *phase_first; /* [n_phases + 1] into phase_steps */
    mica__operand *operands;
    mica__place *places;
    int32_t n_operands;
    mica__varying *varying;
    int32_t n_varying;
    int n_extents;
    int64_t bounds[MICA__MAX_EXTENTS];
    mica__program_value *inputs, *outputs;
    int n_in, n_out;
    mica_array **constants; /* references */
    int n_constants;
    size_t scratch;                      /* of one worker */
    pthread_mutex_t run_lock;            /* a program's addresses serve one run at a time */
    mica__phase_run *run_phases;         /* [n_phases] counters of the run (execute.c) */
    int64_t *run_counts;                 /* [phase_first[n_phases]] */
    uint8_t **run_inputs, **run_outputs; /* tables of the run (evaluate.c) */
    int64_t *run_leading;
    int64_t *run_offsets; /* [n_out] where results begin in run_buffers */
    mica__buffer **run_buffers;
    bool run_began; /* whether the last run got as far as its first step */
    mica_program_facts facts;
};

/* Compiles a collected IR: runs the passes and freezes. The first n_in leaves are inputs; those
 * after them, which passes may have added to, are constants. */
mica_status mica__program_make(mica__ir *ir, int n_in, mica_program **program);

mica_program *mica__program_keep(mica_program *program);

/* One run with addresses. inputs: [n_in] first elements; leading: [n_in] length of each input's
 * first axis in this run (read for inputs with a named extent only); outputs: [n_out] buffers of
 * mica_program bounds, NULL for outputs that update an input. cancel: checked between phases, may
 * be NULL. */
typedef struct mica__run_args {
    uint8_t *const *inputs;
    const int64_t *leading;
    uint8_t *const *outputs;
    const _Atomic bool *cancel;
} mica__run_args;

mica_status mica__program_run(mica_program *program, const mica__run_args *args);

/* The same for a caller that holds program->run_lock. */
mica_status mica__program_run_held(mica_program *program, const mica__run_args *args);

/* Values of the extents from the inputs' lengths; the failure names what does not fit. extents:
 * [MICA__MAX_EXTENTS] */
mica_status mica__program_extents(const mica_program *program, const int64_t *leading,
                                  int64_t *extents);

#endif
