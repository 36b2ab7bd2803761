/* engine_step.c - building a ragged step, running it, and what comes of it.
 *
 * The plan gives every member of the step a chunk of positions with blocks for them; this file
 * writes it out as the flat arrays of step.h, in order of arrival, and hands each row of logits to
 * where it is wanted. A step that the model has no memory for is tried again smaller; any other
 * failure ends its members and nobody else.
 * SPDX-License-Identifier: MIT
 */
#include "run/engine.h"

#include <string.h>

#include "base/clock.h"

#define BLOCK MICA__KV_BLOCK_TOKENS

/* --- rows of logits --------------------------------------------------------------------------- */

static bool shows_logits(const mica__scheduler *scheduler)
{
    for (int64_t i = 0; i < scheduler->n_running; i++)
        if (scheduler->running[i]->next_logits < scheduler->running[i]->n_prompt)
            return true;
    return false;
}

/* How many rows the step may have. The buffer grows to what the pending sequences can use at once,
 * or stays as it is when memory is short. */
static int64_t prepare_rows(mica_engine *engine)
{
    const int64_t pending = mica_engine_pending(engine);
    int64_t wanted = engine->scheduler.max_sequences;
    if (shows_logits(&engine->scheduler) || wanted > engine->max_rows)
        wanted = engine->max_rows;
    else if (wanted > pending)
        wanted = pending;
    if (wanted <= engine->row_capacity)
        return engine->row_capacity;
    float *grown = mica__alloc(MICA_MEMORY_WORKSPACE,
                               (size_t)(wanted * engine->stepper.n_vocab) * sizeof *grown);
    if (grown) {
        mica__free(engine->logits);
        engine->logits = grown;
        engine->row_capacity = wanted;
    }
    return engine->row_capacity;
}

/* --- building --------------------------------------------------------------------------------- */

static void add_tokens(mica_engine *engine, mica__step *step, mica__sequence *sequence)
{
    const int64_t end = sequence->computed + sequence->chunk;
    sequence->row = step->n_rows;
    for (int64_t position = sequence->computed; position < end; position++) {
        const int64_t at = step->n_tokens++;
        engine->tokens[at] = sequence->tokens[position];
        engine->positions[at] = (int32_t)position;
        engine->sequence_of[at] = (int32_t)step->n_sequences;
        if (mica__scheduler_wants_row(sequence, position))
            engine->logits_rows[step->n_rows++] = (int32_t)at;
    }
}

static void add_tables(mica_engine *engine, mica__step *step, const mica__sequence *sequence)
{
    for (int pool = 0; pool < engine->stepper.n_pools; pool++) {
        if (engine->stepper.pools[pool].kind == MICA__POOL_STATE) {
            engine->state_slot[step->n_sequences] = sequence->slots[pool];
            step->state_slot = engine->state_slot;
            continue;
        }
        int32_t *row = engine->tables[pool] + step->n_sequences * step->table_stride;
        memcpy(row, sequence->tables[pool], (size_t)sequence->table_used * sizeof *row);
        for (int64_t i = sequence->table_used; i < step->table_stride; i++)
            row[i] = -1;
    }
}

static mica__step build(mica_engine *engine)
{
    const mica__scheduler *scheduler = &engine->scheduler;
    mica__step step = {.tokens = engine->tokens,
                       .positions = engine->positions,
                       .sequence_of = engine->sequence_of,
                       .kv_length = engine->kv_length,
                       .logits_rows = engine->logits_rows,
                       .logits = engine->logits};
    for (int pool = 0; pool < engine->stepper.n_pools; pool++) {
        step.block_table[pool] = engine->tables[pool];
        step.pool_base[pool] = scheduler->store.pools[pool].range.base;
    }
    int64_t used = 0;
    for (int64_t i = 0; i < scheduler->n_running; i++)
        if (scheduler->running[i]->chunk > 0 && scheduler->running[i]->table_used > used)
            used = scheduler->running[i]->table_used;
    step.table_stride = mica__table_width(used, mica__blocks_for(engine->context));
    for (int64_t i = 0; i < scheduler->n_running; i++) {
        mica__sequence *sequence = scheduler->running[i];
        if (sequence->chunk == 0)
            continue;
        add_tokens(engine, &step, sequence);
        add_tables(engine, &step, sequence);
        engine->kv_length[step.n_sequences] = (int32_t)(sequence->computed + sequence->chunk);
        engine->members[step.n_sequences++] = sequence;
    }
    engine->n_members = step.n_sequences;
    return step;
}

/* --- results ---------------------------------------------------------------------------------- */

/* Shows the request the rows it wants to see, and gives the row to draw from, NULL when there is
 * none. */
static const float *show_rows(mica_engine *engine, mica__sequence *sequence, int64_t start)
{
    const mica_request *given = &sequence->request->given;
    const float *row = engine->logits + sequence->row * engine->stepper.n_vocab;
    const float *last = NULL;
    for (int64_t position = start; position < sequence->computed; position++) {
        if (!mica__scheduler_wants_row(sequence, position))
            continue;
        if (position >= sequence->next_logits && position < sequence->n_prompt) {
            given->on_logits(given->on_logits_owner, position, row, engine->stepper.n_vocab);
            sequence->next_logits = position + 1;
        }
        last = row;
        row += engine->stepper.n_vocab;
    }
    return sequence->computed == sequence->n_tokens ? last : NULL;
}

static void take_result(mica_engine *engine, mica__sequence *sequence)
{
    const int64_t start = sequence->computed;
    mica__scheduler_advance(&engine->scheduler, sequence);
    const float *logits = show_rows(engine, sequence, start);
    if (sequence->computed < sequence->n_tokens)
        return;
    if (sequence->max_tokens > sequence->n_prompt)
        mica__engine_output(engine, sequence, logits);
    else
        mica__engine_finish(engine, sequence, MICA_FINISH_LENGTH, MICA_OK, -1, NULL);
}

static void take_results(mica_engine *engine, const mica__step *step)
{
    int64_t n_decoded = 0;
    engine->n_steps++;
    engine->n_computed += step->n_tokens;
    for (int64_t i = 0; i < engine->n_members; i++)
        n_decoded += engine->members[i]->n_tokens - engine->members[i]->computed == 1;
    for (int64_t i = 0; i < engine->n_members; i++)
        take_result(engine, engine->members[i]);
    mica__scheduler_succeeded(&engine->scheduler, n_decoded);
}

/* Ends the members of a step that failed for good. */
static void fail_members(mica_engine *engine, mica_status status)
{
    char message[MICA__MESSAGE_BYTES];
    const mica_finish_reason reason = status == MICA_E_MEMORY      ? MICA_FINISH_MEMORY
                                      : status == MICA_E_CANCELLED ? MICA_FINISH_CANCELLED
                                                                   : MICA_FINISH_ERROR;
    memcpy(message, mica_last_error(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    for (int64_t i = 0; i < engine->n_members; i++) {
        mica__fail(status, "%s", message);
        mica__engine_finish(engine, engine->members[i], reason,
                            reason == MICA_FINISH_CANCELLED ? MICA_OK : status, -1, NULL);
    }
}

void mica__engine_run_step(mica_engine *engine)
{
    const int64_t rows = prepare_rows(engine);
    while (mica__scheduler_plan(&engine->scheduler, rows) > 0) {
        const mica__step step = build(engine);
        const int64_t started = mica__clock_ns();
        for (int64_t i = 0; i < engine->n_members; i++)
            if (engine->members[i]->started_ns == 0)
                engine->members[i]->started_ns = started;
        const mica_status status = engine->stepper.run(engine->stepper.model, &step);
        engine->model_ns += mica__clock_ns() - started;
        if (status == MICA_OK) {
            take_results(engine, &step);
            return;
        }
        if (status == MICA_E_CANCELLED)
            atomic_store(&engine->interrupted, false); /* obeyed */
        if (status == MICA_E_MEMORY && mica__scheduler_relieve(&engine->scheduler, step.n_tokens))
            continue;
        fail_members(engine, status);
        return;
    }
}
