/* engine.h - the engine behind include/mica/engine.h, made from any stepper.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_ENGINE_H
#define MICA_RUN_ENGINE_H

#include <pthread.h>

#include "run/event_queue.h"
#include "run/sampler.h"
#include "run/scheduler.h"

struct mica_engine {
    mica__stepper stepper;
    _Atomic bool interrupted; /* the stepper looks at it between phases */
    mica__scheduler scheduler;
    mica__sampler sampler;
    mica__event_queue events;
    mica_detokenizer detokenizer;
    bool has_text;
    int64_t context;
    int64_t queue_limit;
    int32_t *end_tokens; /* [n_end_tokens] */
    int64_t n_end_tokens;
    int64_t last_id;

    /* Guards the links of the scheduler's list against mica_engine_cancel: the owning thread takes
     * it to change them, other threads to read them. */
    pthread_mutex_t lock;

    /* The step being run. */
    int32_t *tokens, *positions, *sequence_of; /* [step_tokens] */
    int32_t *logits_rows;                      /* [max_rows] */
    int32_t *kv_length, *state_slot;           /* [max_sequences] */
    int32_t *tables[MICA__KV_MAX_POOLS];       /* [max_sequences * ceil(context / 16)] */
    mica__sequence **members;                  /* [max_sequences] */
    int64_t n_members;
    float *logits; /* [row_capacity, n_vocab] */
    int64_t row_capacity, max_rows;

    int64_t n_finished, n_steps, n_computed, n_output;
    int64_t model_ns;
};

/* Makes an engine over a stepper (copied; its model must outlive the engine, whose end calls
 * release). options may be NULL.
 * MICA_E_ARGUMENT names what makes no sense, MICA_E_MEMORY what does not fit. */
mica_status mica__engine_new(const mica__stepper *stepper, const mica_engine_options *options,
                             mica_engine **engine);

/* The stepper's name for a public KV dtype. */
mica__kv_dtype mica__kv_dtype_from(mica_kv_dtype dtype);

/* Bytes of KV when options do not say: half of what is free, at most what n_sequences of `context`
 * tokens can use. More than the half: all but what steps need under a memory limit; what one
 * sequence takes where the caller chose the context and that fits into what is free. */
mica_status mica__engine_default_kv(const mica__stepper *stepper, int64_t context,
                                    int64_t n_sequences, bool chosen, int64_t *bytes);

/* One step in engine_step.c, after events were reserved and cancellations obeyed. */
void mica__engine_run_step(mica_engine *engine);

/* Ends a sequence: its last event, then everything it holds is freed. `token` is the end token or
 * -1. For memory and error, status is the cause and the failure is recorded. */
void mica__engine_finish(mica_engine *engine, mica__sequence *sequence, mica_finish_reason reason,
                         mica_status status, int32_t token, const mica__sample *sample);

/* Draws from a row of logits, appends the token, reports it, and ends the sequence where it ends.
 */
void mica__engine_output(mica_engine *engine, mica__sequence *sequence, const float *logits);

/* Frees a sequence that is in no list and holds no blocks, with its hooks' states. */
void mica__engine_discard(mica_engine *engine, mica__sequence *sequence);

#endif
