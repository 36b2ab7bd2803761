/* scheduler.h - which sequences run, and what the next step computes.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_SCHEDULER_H
#define MICA_RUN_SCHEDULER_H

#include "run/sequence.h"

/* A sequence is admitted or resumed only when its history and this many tokens more fit. */
#define MICA__ADMISSION_AHEAD 64

typedef struct mica__scheduler {
    const mica__stepper *stepper;
    mica__kv_store store;
    mica_admission admission;
    int64_t prefill_chunk; /* tokens of one sequence in one step at most */
    int64_t step_tokens;   /* tokens in one step at most */
    int64_t max_sequences;

    mica__sequence *oldest, *newest; /* all that have not ended, in order of arrival */
    mica__sequence **running;        /* [max_sequences] in order of arrival */
    int64_t n_running, n_waiting, n_paused;

    int64_t token_limit; /* step_tokens, or less after the model ran out of memory */
    int64_t successes;   /* steps since that changed */
    int64_t turn;        /* decode starts here when not all fit into a step */
    int64_t n_steps;
    int64_t n_pauses, n_cached_tokens;

    /* Told about every change that the engine reports: PAUSED, RESUMED, or FINISHED with reason
     * memory (the failure is recorded). The callee ends the sequence in the last case. */
    void (*on_change)(void *owner, mica__sequence *sequence, mica_event_kind kind);
    void *owner;
} mica__scheduler;

/* Why the prompt, or with strict admission the whole of the sequence, can never fit: MICA_E_MEMORY
 * with the numbers. */
mica_status mica__scheduler_check_fit(const mica__scheduler *scheduler, int64_t n_prompt,
                                      int64_t most_positions);

/* Puts a new sequence at the end of the queue. */
void mica__scheduler_add(mica__scheduler *scheduler, mica__sequence *sequence);

/* Takes a sequence out wherever it is, with its blocks; with keep, its whole blocks go to the
 * prefix tree. The caller frees it. */
void mica__scheduler_remove(mica__scheduler *scheduler, mica__sequence *sequence, bool keep);

/* Resumes and admits what fits, oldest first. When nothing runs and the first in line does not fit
 * although all is there for it, it is reported as finished with reason memory. */
void mica__scheduler_admit(mica__scheduler *scheduler);

/* Plans a step of at most token_limit tokens and max_rows rows of logits: sets `chunk` of every
 * running sequence, with blocks for all of it. Pauses the youngest when blocks run out. Returns the
 * number of tokens; 0 when nothing runs. */
int64_t mica__scheduler_plan(mica__scheduler *scheduler, int64_t max_rows);

/* Whether the logits behind a position of the step are wanted. */
bool mica__scheduler_wants_row(const mica__sequence *sequence, int64_t position);

/* The rows of logits that the sequence's chunk gives. */
int64_t mica__scheduler_rows(const mica__sequence *sequence);

/* Records that the model computed the sequence's chunk. */
void mica__scheduler_advance(mica__scheduler *scheduler, mica__sequence *sequence);

/* After a step: restores the token limit, step by step, once memory is there again. */
void mica__scheduler_succeeded(mica__scheduler *scheduler, int64_t n_decoded);

/* The model had no memory for a step of n_tokens: the next plan is smaller, or has fewer sequences.
 * False when there is nothing left to give up; the failure is recorded still. */
bool mica__scheduler_relieve(mica__scheduler *scheduler, int64_t n_tokens);

#endif
