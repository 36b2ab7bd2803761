/* sampler_penalties.c - what changes logits before any filter: bias, penalties, dry, mask.
 *
 * All are computed from the history anew for each draw, so a paused or resumed sequence has nothing
 * to restore. sampler->counts is all zero whenever no function here runs.
 * SPDX-License-Identifier: MIT
 */
#include "run/sampler_penalties.h"

#include <math.h>

#include "run/sample_math.h"

/* Beyond e^60 the token is out of the question; floats stay finite. */
#define MAX_DRY_EXPONENT 60.0

static bool in_vocabulary(const mica__sampler *sampler, int32_t token)
{
    return token >= 0 && token < sampler->n_vocab;
}

void mica__apply_bias(mica__sampler *sampler, const mica_sampling *sampling)
{
    for (int64_t i = 0; i < sampling->n_logit_bias; i++)
        if (in_vocabulary(sampler, sampling->logit_bias[i].token))
            sampler->logits[sampling->logit_bias[i].token] += sampling->logit_bias[i].bias;
}

void mica__apply_repetition(mica__sampler *sampler, const mica__sampler_input *input)
{
    const float penalty = input->sampling->repetition_penalty;
    if (penalty == 0 || penalty == 1)
        return;
    const int64_t window =
        input->sampling->repetition_window ? input->sampling->repetition_window : 64;
    const int64_t first = input->n_tokens > window ? input->n_tokens - window : 0;
    for (int64_t i = first; i < input->n_tokens; i++) {
        const int32_t token = input->tokens[i];
        if (!in_vocabulary(sampler, token) || sampler->counts[token]++)
            continue;
        float *logit = &sampler->logits[token];
        *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
    }
    for (int64_t i = first; i < input->n_tokens; i++)
        if (in_vocabulary(sampler, input->tokens[i]))
            sampler->counts[input->tokens[i]] = 0;
}

void mica__apply_presence(mica__sampler *sampler, const mica__sampler_input *input)
{
    const float presence = input->sampling->presence_penalty;
    const float frequency = input->sampling->frequency_penalty;
    if (presence == 0 && frequency == 0)
        return;
    for (int64_t i = input->n_prompt; i < input->n_tokens; i++)
        if (in_vocabulary(sampler, input->tokens[i]))
            sampler->counts[input->tokens[i]]++;
    for (int64_t i = input->n_prompt; i < input->n_tokens; i++) {
        const int32_t token = input->tokens[i];
        if (!in_vocabulary(sampler, token) || sampler->counts[token] == 0)
            continue;
        float *logit = &sampler->logits[token];
        *logit = *logit - presence - frequency * (float)sampler->counts[token];
        sampler->counts[token] = 0;
    }
}

/* --- dry -------------------------------------------------------------------------------------- */

static bool is_breaker(const mica_sampling *sampling, int32_t token)
{
    for (int64_t i = 0; i < sampling->n_dry_breakers; i++)
        if (sampling->dry_breakers[i] == token)
            return true;
    return false;
}

/* runs[i]: how many tokens before the end of text[0, n) equal those that end at text[n - 1 - i],
 * i >= 1. The Z-function of the text read backwards; linear. */
static void repeated_suffixes(const int32_t *text, int64_t n, int32_t *runs)
{
    const int32_t *last = text + n - 1; /* last[-k] is token k of the reversed text */
    int64_t left = 0, right = 0;        /* the match that reaches furthest: [left, right) */
    for (int64_t i = 1; i < n; i++) {
        int64_t length = 0;
        if (i < right)
            length = runs[i - left] < right - i ? runs[i - left] : right - i;
        while (i + length < n && last[-length] == last[-(i + length)])
            length++;
        runs[i] = (int32_t)length;
        if (i + length > right) {
            left = i;
            right = i + length;
        }
    }
}

static double dry_penalty(const mica_sampling *sampling, int64_t excess)
{
    const double base = sampling->dry_base != 0 ? (double)sampling->dry_base : 1.75;
    double exponent = (double)excess * mica__sample_log(base);
    if (exponent > MAX_DRY_EXPONENT)
        exponent = MAX_DRY_EXPONENT;
    return (double)sampling->dry_multiplier * mica__sample_exp(exponent);
}

void mica__apply_dry(mica__sampler *sampler, const mica__sampler_input *input)
{
    const mica_sampling *sampling = input->sampling;
    if (sampling->dry_multiplier == 0 || !sampler->runs)
        return;
    const int64_t allowed = sampling->dry_allowed_length ? sampling->dry_allowed_length : 2;
    int64_t n = input->n_tokens;
    if (sampling->dry_window > 0 && n > sampling->dry_window)
        n = sampling->dry_window;
    if (n > sampler->history_capacity)
        n = sampler->history_capacity;
    const int32_t *text = input->tokens + input->n_tokens - n;
    /* No repetition reaches back over the last breaker, and it needs text before it to repeat. */
    int64_t longest = 0;
    while (longest < n && !is_breaker(sampling, text[n - 1 - longest]))
        longest++;
    if (longest < allowed)
        return;
    repeated_suffixes(text, n, sampler->runs);
    for (int64_t i = 1; i < n; i++) {
        const int32_t run = sampler->runs[i] < longest ? sampler->runs[i] : (int32_t)longest;
        const int32_t next = text[n - i]; /* what followed that occurrence */
        if (in_vocabulary(sampler, next) && run > sampler->counts[next])
            sampler->counts[next] = run;
    }
    for (int64_t i = 1; i < n; i++) {
        const int32_t next = text[n - i];
        if (!in_vocabulary(sampler, next))
            continue;
        if (sampler->counts[next] >= allowed && !is_breaker(sampling, next))
            sampler->logits[next] -= (float)dry_penalty(sampling, sampler->counts[next] - allowed);
        sampler->counts[next] = 0;
    }
}

void mica__apply_mask(mica__sampler *sampler, const uint32_t *allowed)
{
    for (int64_t token = 0; token < sampler->n_vocab; token++)
        if (!(allowed[token / 32] >> (token % 32) & 1))
            sampler->logits[token] = -INFINITY;
}
