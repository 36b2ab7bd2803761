/* execute.c - runs a program on the worker pool.
 *
 * All memory of the run is taken before the first step: a program that does not fit is refused
 * whole. Every worker walks the same list of phases; in a phase tasks are handed out by a counter,
 * and a barrier stands only between phases that need more than one worker: a stretch of phases with
 * one small task each is walked by worker 0 alone. Which worker does a task never changes its
 * result. A failing task stops the run at the next phase.
 * SPDX-License-Identifier: MIT
 */
#include "core/program.h"

#include <string.h>

/* A phase with at most this many bytes of output is not worth a barrier. */
#define SERIAL_BYTES 16384

typedef struct run_state {
    mica_program *program;
    mica__phase_run *phases;
    int64_t *counts; /* tasks of each entry of phase_steps */
    uint8_t *scratch;
    _Atomic int status;
    const _Atomic bool *cancel;
    char message[MICA__MESSAGE_BYTES];
} run_state;

/* --- before the run --------------------------------------------------------------------------- */

mica_status mica__program_extents(const mica_program *program, const int64_t *leading,
                                  int64_t *extents)
{
    for (int i = 0; i < program->n_extents; i++)
        extents[i] = -1;
    for (int i = 0; i < program->n_in; i++) {
        const mica__aval *aval = &program->inputs[i].aval;
        if (!aval->ndim || !aval->extents.axis[0])
            continue;
        const int extent = aval->extents.axis[0] - 1;
        if (leading[i] < 0 || leading[i] > aval->shape[0])
            MICA_FAIL(MICA_E_SHAPE, "input %d has %lld rows, its named extent allows %lld", i,
                      (long long)leading[i], (long long)aval->shape[0]);
        if (extents[extent] >= 0 && extents[extent] != leading[i])
            MICA_FAIL(MICA_E_SHAPE,
                      "input %d has %lld rows, another input with the same named extent has %lld",
                      i, (long long)leading[i], (long long)extents[extent]);
        extents[extent] = leading[i];
    }
    return MICA_OK;
}

static void set_addresses(mica_program *program, const mica__run_args *args, uint8_t *arena)
{
    for (int32_t i = 0; i < program->n_operands; i++) {
        const mica__place *place = &program->places[i];
        uint8_t *base = arena;
        switch (place->source) {
        case MICA__FROM_ARENA:
            break;
        case MICA__FROM_INPUT:
            base = args->inputs[place->index];
            break;
        case MICA__FROM_OUTPUT:
            base = args->outputs[place->index];
            break;
        case MICA__FROM_CONSTANT:
            base = program->constants[place->index]->buffer->data +
                   program->constants[place->index]->offset;
            break;
        }
        program->operands[i].data = base + place->offset;
    }
    for (int32_t i = 0; i < program->n_steps; i++)
        program->steps[i].call.workspace = program->steps[i].workspace_place >= 0
                                               ? arena + program->steps[i].workspace_place
                                               : NULL;
}

static void set_extents(mica_program *program, const int64_t *extents)
{
    for (int32_t i = 0; i < program->n_varying; i++) {
        const mica__varying *v = &program->varying[i];
        program->operands[v->operand].shape[v->axis] = v->multiple * extents[v->extent];
    }
}

static int64_t operand_bytes(const mica__operand *operand)
{
    return mica__shape_size(operand->ndim, operand->shape) * mica_dtype_bytes(operand->dtype);
}

/* Counts tasks; a phase of single small tasks needs no second worker. */
static void count_tasks(run_state *run)
{
    const mica_program *program = run->program;
    for (int32_t p = 0; p < program->n_phases; p++) {
        mica__phase_run *phase = &run->phases[p];
        int64_t bytes = 0, most = 0;
        atomic_init(&phase->next, 0);
        phase->n_tasks = 0;
        for (int32_t e = program->phase_first[p]; e < program->phase_first[p + 1]; e++) {
            const mica__program_step *step = &program->steps[program->phase_steps[e] / 4];
            const int64_t n = step->kernel->n_tasks(&step->call, program->phase_steps[e] % 4);
            run->counts[e] = n;
            phase->n_tasks += n;
            most = n > most ? n : most;
            bytes += operand_bytes(&step->call.out[0]);
        }
        phase->serial = phase->n_tasks <= 1 || (most <= 1 && bytes <= SERIAL_BYTES);
    }
}

/* --- the run ---------------------------------------------------------------------------------- */

static void report(run_state *run, mica_status status)
{
    int expected = MICA_OK;
    if (atomic_compare_exchange_strong(&run->status, &expected, (int)status))
        memcpy(run->message, mica_last_error(), sizeof run->message);
}

static void do_task(run_state *run, int32_t entry, int64_t task, void *scratch)
{
    const int32_t code = run->program->phase_steps[entry];
    const mica__program_step *step = &run->program->steps[code / 4];
    const mica_status status = step->kernel->run(&step->call, code % 4, task, scratch);
    if (status != MICA_OK)
        report(run, status);
}

static void do_serial(run_state *run, int32_t p, void *scratch)
{
    const mica_program *program = run->program;
    for (int32_t e = program->phase_first[p]; e < program->phase_first[p + 1]; e++)
        for (int64_t t = 0; t < run->counts[e]; t++)
            do_task(run, e, t, scratch);
}

static void do_shared(run_state *run, int32_t p, void *scratch)
{
    const mica_program *program = run->program;
    mica__phase_run *phase = &run->phases[p];
    int32_t entry = program->phase_first[p];
    int64_t first = 0; /* number of entry's first task */
    for (;;) {
        const int64_t task = atomic_fetch_add_explicit(&phase->next, 1, memory_order_relaxed);
        if (task >= phase->n_tasks)
            return;
        while (task - first >= run->counts[entry])
            first += run->counts[entry++];
        do_task(run, entry, task - first, scratch);
    }
}

static bool stopped(run_state *run)
{
    if (atomic_load_explicit(&run->status, memory_order_relaxed) != MICA_OK)
        return true;
    if (run->cancel && atomic_load_explicit(run->cancel, memory_order_relaxed)) {
        mica__fail(MICA_E_CANCELLED, "the run was cancelled");
        report(run, MICA_E_CANCELLED);
        return true;
    }
    return false;
}

/* Every worker takes the same path: whether a phase is serial is known before the run. Only worker
 * 0 looks at the stop flag of serial phases; shared phases look inside, so barriers always match.
 */
static void body(void *user, int worker, int n_workers)
{
    run_state *run = user;
    const mica_program *program = run->program;
    void *scratch = run->scratch ? run->scratch + (size_t)worker * program->scratch : NULL;
    bool together = true; /* no serial work since the last barrier */
    for (int32_t p = 0; p < program->n_phases; p++) {
        if (run->phases[p].serial || n_workers == 1) {
            if (worker == 0 && !stopped(run))
                do_serial(run, p, scratch);
            together = false;
            continue;
        }
        if (!together)
            mica__workers_barrier(program->runtime->workers, worker);
        if (!stopped(run))
            do_shared(run, p, scratch);
        mica__workers_barrier(program->runtime->workers, worker);
        together = true;
    }
}

static mica_status run_prepared(mica_program *program, const mica__run_args *args,
                                const int64_t *extents, uint8_t *arena, uint8_t *scratch)
{
    run_state run = {.program = program, .scratch = scratch, .cancel = args->cancel};
    run.phases = program->run_phases;
    run.counts = program->run_counts;
    set_addresses(program, args, arena);
    set_extents(program, extents);
    count_tasks(&run);
    program->run_began = true;
    mica__workers_run(program->runtime->workers, body, &run);
    atomic_fetch_add_explicit(&program->runtime->programs_run, 1, memory_order_relaxed);
    const mica_status status = (mica_status)atomic_load(&run.status);
    return status == MICA_OK ? status : mica__fail(status, "%s", run.message);
}

mica_status mica__program_run_held(mica_program *program, const mica__run_args *args)
{
    mica__pool *pool = program->runtime->pool;
    const mica_program_facts *facts = &program->facts;
    int64_t extents[MICA__MAX_EXTENTS];
    MICA_TRY(mica__program_extents(program, args->leading, extents));
    uint8_t *arena = NULL, *scratch = NULL;
    mica_status status = MICA_OK;
    if (facts->arena_bytes) {
        arena = mica__pool_take(pool, MICA_MEMORY_WORKSPACE, facts->arena_bytes);
        status = arena ? MICA_OK : MICA_E_MEMORY;
    }
    if (status == MICA_OK && facts->scratch_bytes) {
        scratch = mica__pool_take(pool, MICA_MEMORY_SCRATCH, facts->scratch_bytes);
        status = scratch ? MICA_OK : MICA_E_MEMORY;
    }
    if (status == MICA_OK)
        status = run_prepared(program, args, extents, arena, scratch);
    mica__pool_give(pool, MICA_MEMORY_SCRATCH, scratch, facts->scratch_bytes);
    mica__pool_give(pool, MICA_MEMORY_WORKSPACE, arena, facts->arena_bytes);
    return status;
}

mica_status mica__program_run(mica_program *program, const mica__run_args *args)
{
    pthread_mutex_lock(&program->run_lock);
    const mica_status status = mica__program_run_held(program, args);
    pthread_mutex_unlock(&program->run_lock);
    return status;
}
