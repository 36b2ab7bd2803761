/* sampler.h - one token out of a row of logits.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_SAMPLER_H
#define MICA_RUN_SAMPLER_H

#include <mica/engine.h>

#include "base/alloc.h"

/* A token that may still be drawn. */
typedef struct mica__candidate {
    double weight; /* of the current filter */
    float logit;
    int32_t token;
} mica__candidate;

/* Scratch for any number of draws, one at a time; nothing is allocated while drawing. */
typedef struct mica__sampler {
    int64_t n_vocab;
    float *logits;               /* [n_vocab] changed copy of the row */
    int32_t *counts;             /* [n_vocab] zero between draws */
    uint32_t *allowed;           /* [ceil(n_vocab / 32)] for the constraint's mask */
    mica__candidate *candidates; /* [n_vocab] */
    int32_t *runs;               /* [history_capacity] for dry; NULL until a request wants it */
    int64_t history_capacity;
} mica__sampler;

typedef struct mica__sampler_input {
    const float *logits;   /* [n_vocab] as the model wrote them; not changed */
    const int32_t *tokens; /* [n_tokens] prompt and output so far */
    int64_t n_tokens;
    int64_t n_prompt;
    const mica_sampling *sampling;
    int32_t choice;
    const uint32_t *allowed;   /* mask, see mica_constraint; NULL: all */
    const int32_t *end_tokens; /* [n_end_tokens] that xtc spares */
    int64_t n_end_tokens;
    bool logprobs;
    int32_t n_top;
} mica__sampler_input;

typedef struct mica__sample {
    int32_t token;
    float logprob;
    int32_t n_top;
    mica_token_logprob top[MICA_MAX_TOP_LOGPROBS];
} mica__sample;

mica_status mica__sampler_open(mica__sampler *sampler, int64_t n_vocab);
void mica__sampler_close(mica__sampler *sampler);

/* Makes room for dry over histories of n_tokens; called when a request that uses it is submitted.
 */
mica_status mica__sampler_reserve_history(mica__sampler *sampler, int64_t n_tokens);

/* Says what is wrong with the parameters: MICA_E_ARGUMENT naming the field. */
mica_status mica__sampling_check(const mica_sampling *sampling, int64_t n_vocab);

/* Draws the token for position n_tokens. A pure function of the input: the same bits on every
 * machine. MICA_E_ARGUMENT naming the token when a logit is NaN or +infinity, MICA_E_STATE when no
 * token is left (everything masked, forbidden or -infinity). */
mica_status mica__sampler_draw(mica__sampler *sampler, const mica__sampler_input *input,
                               mica__sample *sample);

#endif
