/* fake_model.h - a stepper whose logits depend on every token it should see and on nothing else.
 *
 * Each position writes a record of 8 bytes into its block of every pool: a hash of its token, its
 * position and all records visible to it, read back through the block tables. Logits are a hash of
 * what the last position sees. A wrong table entry, a block recycled too early, a shared block
 * written to, a window cut off by one or a state mixed up changes all that follows. fake_oracle
 * computes the same without blocks.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_FAKE_MODEL_H
#define MICA_TESTS_FAKE_MODEL_H

#include "run/step.h"

typedef struct fake_model {
    mica__stepper stepper;
    int64_t n_runs, n_tokens, n_rows; /* successful ones */
    int64_t largest_step;
    /* Steps fail with fail_status from run number fail_from on (counting all, from 1), fail_count
     * times; 0: never. */
    int64_t n_calls, fail_from, fail_count;
    mica_status fail_status;
    int64_t fail_above;  /* steps of more tokens fail with MICA_E_MEMORY; 0: never */
    int64_t nan_call;    /* this run writes a NaN as logit 3 of its first row */
    char violation[256]; /* what was wrong with a step; "" while nothing was */
} fake_model;

/* A vocabulary of 97, a context of 1024, steps of 64 tokens and 16 sequences, no pools. */
void fake_open(fake_model *model);

/* Adds a pool. */
void fake_add_pool(fake_model *model, mica__pool_kind kind, int64_t window, int64_t block_bytes);

/* The state of the oracle: one sequence, token by token. */
typedef struct fake_oracle {
    const mica__stepper *stepper;
    int64_t n;
    uint64_t records[MICA__KV_MAX_POOLS][4096];
} fake_oracle;

/* Feeds the next token and writes the logits behind it. */
void fake_oracle_feed(fake_oracle *oracle, int32_t token, float *logits);

#endif
