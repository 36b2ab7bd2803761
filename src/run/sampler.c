/* sampler.c - one token out of a row of logits.
 *
 * The row is copied once; bias, penalties and mask change the copy, filters shorten a list of
 * candidates, and one random number picks from what is left. The random number is a function of the
 * request's seed, its choice and the position, and everything else of the row and the history, so a
 * draw does not know what else the engine does.
 * SPDX-License-Identifier: MIT
 */
#include "run/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "run/philox.h"
#include "run/sample_math.h"
#include "run/sampler_filters.h"
#include "run/sampler_penalties.h"

mica_status mica__sampler_open(mica__sampler *sampler, int64_t n_vocab)
{
    memset(sampler, 0, sizeof *sampler);
    const size_t n = (size_t)n_vocab;
    sampler->n_vocab = n_vocab;
    sampler->logits = mica__alloc_zero(MICA_MEMORY_SCRATCH, n, sizeof *sampler->logits);
    sampler->counts = mica__alloc_zero(MICA_MEMORY_SCRATCH, n, sizeof *sampler->counts);
    sampler->allowed =
        mica__alloc_zero(MICA_MEMORY_SCRATCH, (n + 31) / 32, sizeof *sampler->allowed);
    sampler->candidates = mica__alloc_zero(MICA_MEMORY_SCRATCH, n, sizeof *sampler->candidates);
    if (!sampler->logits || !sampler->counts || !sampler->allowed || !sampler->candidates) {
        mica__sampler_close(sampler);
        return MICA_E_MEMORY;
    }
    return MICA_OK;
}

void mica__sampler_close(mica__sampler *sampler)
{
    mica__free(sampler->logits);
    mica__free(sampler->counts);
    mica__free(sampler->allowed);
    mica__free(sampler->candidates);
    mica__free(sampler->runs);
    memset(sampler, 0, sizeof *sampler);
}

mica_status mica__sampler_reserve_history(mica__sampler *sampler, int64_t n_tokens)
{
    if (n_tokens <= sampler->history_capacity)
        return MICA_OK;
    int32_t *runs = mica__alloc_zero(MICA_MEMORY_SCRATCH, (size_t)n_tokens, sizeof *runs);
    if (!runs)
        return MICA_E_MEMORY;
    mica__free(sampler->runs);
    sampler->runs = runs;
    sampler->history_capacity = n_tokens;
    return MICA_OK;
}

/* --- parameters ------------------------------------------------------------------------------- */

static mica_status check_range(const char *name, float value, float low, float high,
                               const char *range)
{
    if (!(value >= low && value <= high))
        MICA_FAIL(MICA_E_ARGUMENT, "%s is not between %s", name, range);
    return MICA_OK;
}

static mica_status check_share(const char *name, float value)
{
    return check_range(name, value, 0, 1, "0 and 1");
}

static mica_status check_count(const char *name, int64_t value)
{
    if (value < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "%s %lld is negative", name, (long long)value);
    return MICA_OK;
}

static mica_status check_lists(const mica_sampling *sampling, int64_t n_vocab)
{
    MICA_TRY(check_count("the number of dry breakers", sampling->n_dry_breakers));
    MICA_TRY(check_count("the number of logit biases", sampling->n_logit_bias));
    if ((sampling->n_dry_breakers && !sampling->dry_breakers) ||
        (sampling->n_logit_bias && !sampling->logit_bias))
        MICA_FAIL(MICA_E_ARGUMENT, "a list of dry breakers or logit biases is NULL");
    for (int64_t i = 0; i < sampling->n_logit_bias; i++) {
        const mica_logit_bias *bias = &sampling->logit_bias[i];
        if (bias->token < 0 || bias->token >= n_vocab)
            MICA_FAIL(MICA_E_ARGUMENT, "logit bias %lld is for token %d; the vocabulary has %lld",
                      (long long)i, (int)bias->token, (long long)n_vocab);
        if (!(bias->bias < INFINITY))
            MICA_FAIL(MICA_E_ARGUMENT, "the logit bias of token %d is NaN or +infinity",
                      (int)bias->token);
    }
    return MICA_OK;
}

mica_status mica__sampling_check(const mica_sampling *sampling, int64_t n_vocab)
{
    MICA_TRY(check_range("temperature", sampling->temperature, 0, 1000, "0 and 1000"));
    MICA_TRY(check_count("top_k", sampling->top_k));
    MICA_TRY(check_share("typical_p", sampling->typical_p));
    MICA_TRY(check_share("top_p", sampling->top_p));
    MICA_TRY(check_share("min_p", sampling->min_p));
    MICA_TRY(check_share("xtc_probability", sampling->xtc_probability));
    MICA_TRY(check_share("xtc_threshold", sampling->xtc_threshold));
    if (sampling->repetition_penalty != 0)
        MICA_TRY(check_range("repetition_penalty", sampling->repetition_penalty, 0.01f, 100,
                             "0.01 and 100"));
    MICA_TRY(check_count("repetition_window", sampling->repetition_window));
    MICA_TRY(
        check_range("presence_penalty", sampling->presence_penalty, -100, 100, "-100 and 100"));
    MICA_TRY(
        check_range("frequency_penalty", sampling->frequency_penalty, -100, 100, "-100 and 100"));
    MICA_TRY(check_range("dry_multiplier", sampling->dry_multiplier, 0, 1000, "0 and 1000"));
    if (sampling->dry_base != 0)
        MICA_TRY(check_range("dry_base", sampling->dry_base, 1, 1000, "1 and 1000"));
    MICA_TRY(check_count("dry_allowed_length", sampling->dry_allowed_length));
    MICA_TRY(check_count("dry_window", sampling->dry_window));
    return check_lists(sampling, n_vocab);
}

/* --- log probabilities ------------------------------------------------------------------------ */

static float largest(const float *logits, int64_t n)
{
    float most = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (logits[i] > most)
            most = logits[i];
    return most;
}

/* log(sum(exp(logits))): what turns a logit into a log probability. */
static double log_total(const float *logits, int64_t n)
{
    const float most = largest(logits, n);
    if (most == -INFINITY)
        return 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += mica__sample_exp((double)logits[i] - (double)most);
    return (double)most + mica__sample_log(sum);
}

/* The n_top largest, equal ones by token. */
static void find_top(const float *logits, int64_t n, int32_t n_top, double total,
                     mica__sample *sample)
{
    int32_t found = 0;
    for (int64_t token = 0; token < n; token++) {
        if (found == n_top && (n_top == 0 || !(logits[token] > sample->top[found - 1].logprob)))
            continue;
        int32_t at = found < n_top ? found++ : found - 1;
        for (; at > 0 && logits[token] > sample->top[at - 1].logprob; at--)
            sample->top[at] = sample->top[at - 1];
        sample->top[at] = (mica_token_logprob){(int32_t)token, logits[token]};
    }
    for (int32_t i = 0; i < found; i++)
        sample->top[i].logprob = (float)((double)sample->top[i].logprob - total);
    sample->n_top = found;
}

/* --- drawing ---------------------------------------------------------------------------------- */

static mica_status copy_row(mica__sampler *sampler, const float *logits)
{
    bool sound = true;
    for (int64_t i = 0; i < sampler->n_vocab; i++) {
        sampler->logits[i] = logits[i];
        sound &= logits[i] <= FLT_MAX;
    }
    for (int64_t i = 0; !sound && i < sampler->n_vocab; i++)
        if (!(logits[i] <= FLT_MAX))
            MICA_FAIL(MICA_E_ARGUMENT, "the model's logit of token %lld is %s", (long long)i,
                      logits[i] != logits[i] ? "not a number" : "infinite");
    return MICA_OK;
}

/* Whether the largest logit of the row as it is will be taken. */
static bool is_plain_greedy(const mica__sampler_input *input)
{
    const mica_sampling *sampling = input->sampling;
    return sampling->temperature == 0 && !input->allowed && sampling->n_logit_bias == 0 &&
           (sampling->repetition_penalty == 0 || sampling->repetition_penalty == 1) &&
           sampling->presence_penalty == 0 && sampling->frequency_penalty == 0 &&
           sampling->dry_multiplier == 0;
}

static void change_logits(mica__sampler *sampler, const mica__sampler_input *input)
{
    mica__apply_bias(sampler, input->sampling);
    mica__apply_repetition(sampler, input);
    mica__apply_presence(sampler, input);
    mica__apply_dry(sampler, input);
    if (input->allowed)
        mica__apply_mask(sampler, input->allowed);
}

static int32_t argmax(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

static int64_t gather(mica__sampler *sampler)
{
    int64_t n = 0;
    for (int64_t i = 0; i < sampler->n_vocab; i++) {
        if (sampler->logits[i] == -INFINITY)
            continue;
        const float logit = sampler->logits[i] <= FLT_MAX ? sampler->logits[i] : FLT_MAX;
        sampler->candidates[n++] = (mica__candidate){.logit = logit, .token = (int32_t)i};
    }
    return n;
}

static int64_t filter(mica__candidate *list, int64_t n, const mica__sampler_input *input,
                      double coin)
{
    const mica_sampling *sampling = input->sampling;
    if (sampling->top_k > 0)
        n = mica__filter_top_k(list, n, sampling->top_k);
    if (sampling->typical_p > 0 && sampling->typical_p < 1)
        n = mica__filter_typical(list, n, (double)sampling->typical_p);
    if (sampling->top_p > 0 && sampling->top_p < 1)
        n = mica__filter_top_p(list, n, (double)sampling->top_p);
    if (sampling->min_p > 0)
        n = mica__filter_min_p(list, n, (double)sampling->min_p);
    if (sampling->xtc_probability > 0 && coin < (double)sampling->xtc_probability)
        n = mica__filter_xtc(list, n, (double)sampling->xtc_threshold, input->end_tokens,
                             input->n_end_tokens);
    return n;
}

static int32_t pick(mica__candidate *list, int64_t n, double temperature, double unit)
{
    const double wanted = unit * mica__candidates_weigh(list, n, temperature);
    double reached = 0;
    int64_t last = 0; /* the last that can be drawn, should rounding leave wanted unreached */
    for (int64_t i = 0; i < n; i++) {
        if (list[i].weight == 0)
            continue;
        last = i;
        reached += list[i].weight;
        if (reached > wanted)
            break;
    }
    return list[last].token;
}

static int32_t draw(mica__sampler *sampler, const mica__sampler_input *input)
{
    const mica__philox_bits bits =
        mica__philox(input->sampling->seed, (mica__philox_bits){{(uint32_t)input->n_tokens,
                                                                 (uint32_t)(input->n_tokens >> 32),
                                                                 (uint32_t)input->choice, 0}});
    const double coin = mica__philox_unit(bits.word[2], bits.word[3]);
    const int64_t n = filter(sampler->candidates, gather(sampler), input, coin);
    return pick(sampler->candidates, n, (double)input->sampling->temperature,
                mica__philox_unit(bits.word[0], bits.word[1]));
}

mica_status mica__sampler_draw(mica__sampler *sampler, const mica__sampler_input *input,
                               mica__sample *sample)
{
    *sample = (mica__sample){.token = -1};
    MICA_TRY(copy_row(sampler, input->logits));
    const double total = input->logprobs ? log_total(input->logits, sampler->n_vocab) : 0;
    if (input->logprobs)
        find_top(input->logits, sampler->n_vocab, input->n_top, total, sample);
    if (!is_plain_greedy(input))
        change_logits(sampler, input);
    if (largest(sampler->logits, sampler->n_vocab) == -INFINITY)
        MICA_FAIL(MICA_E_STATE,
                  "no token is possible: all %lld are masked or have a logit of "
                  "-infinity",
                  (long long)sampler->n_vocab);
    sample->token = input->sampling->temperature == 0 ? argmax(sampler->logits, sampler->n_vocab)
                                                      : draw(sampler, input);
    if (input->logprobs)
        sample->logprob = (float)((double)input->logits[sample->token] - total);
    return MICA_OK;
}
