/* request.c - the engine's own copy of a request, shared by its choices.
 *
 * Whatever a caller hands in is checked before anything is copied; the prompt itself is copied by
 * each sequence, which appends to it.
 * SPDX-License-Identifier: MIT
 */
#include "run/request.h"

#include <string.h>

#include "run/sampler.h"

/* --- checks ----------------------------------------------------------------------------------- */

static mica_status check_tokens(const char *what, const int32_t *tokens, int64_t n, int64_t n_vocab)
{
    if (n > 0 && !tokens)
        MICA_FAIL(MICA_E_ARGUMENT, "the list of %s is NULL", what);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            MICA_FAIL(MICA_E_ARGUMENT, "%s: entry %lld is token %d; the vocabulary has %lld", what,
                      (long long)i, (int)tokens[i], (long long)n_vocab);
    return MICA_OK;
}

static mica_status check_bound(const char *what, int64_t value, int64_t most)
{
    if (value < 0 || value > most)
        MICA_FAIL(MICA_E_ARGUMENT, "%s is %lld, not between 0 and %lld", what, (long long)value,
                  (long long)most);
    return MICA_OK;
}

static mica_status check_hooks(const mica_request *given)
{
    const mica_constraint *constraint = given->constraint;
    if (constraint &&
        (!constraint->begin || !constraint->mask || !constraint->accept || !constraint->end))
        MICA_FAIL(MICA_E_ARGUMENT, "the constraint lacks a function");
    if (given->on_logits && given->logits_from < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "logits_from is %lld", (long long)given->logits_from);
    return MICA_OK;
}

mica_status mica__request_check(const mica_request *given, int64_t n_vocab, int64_t context,
                                bool has_text)
{
    if (given->n_tokens < 1)
        MICA_FAIL(MICA_E_ARGUMENT, "the prompt has no tokens");
    const int64_t most = given->max_tokens == 0 ? context : context - 1;
    if (given->n_tokens > most)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "the prompt has %lld tokens; with a context of %lld at most %lld are possible",
                  (long long)given->n_tokens, (long long)context, (long long)most);
    MICA_TRY(check_tokens("the prompt", given->tokens, given->n_tokens, n_vocab));
    MICA_TRY(check_bound("n_choices", given->n_choices, MICA__MAX_CHOICES));
    MICA_TRY(check_bound("n_top", given->n_top, MICA_MAX_TOP_LOGPROBS));
    MICA_TRY(check_bound("n_stop_tokens", given->n_stop_tokens, MICA__MAX_STOP_TOKENS));
    MICA_TRY(check_tokens("stop tokens", given->stop_tokens, given->n_stop_tokens, n_vocab));
    MICA_TRY(check_bound("n_dry_breakers", given->sampling.n_dry_breakers, MICA__MAX_DRY_BREAKERS));
    MICA_TRY(check_bound("n_logit_bias", given->sampling.n_logit_bias, n_vocab));
    if (given->n_stop_strings > 0 && !has_text)
        MICA_FAIL(MICA_E_ARGUMENT, "stop strings need an engine with a detokenizer");
    MICA_TRY(check_hooks(given));
    return mica__sampling_check(&given->sampling, n_vocab);
}

/* --- copying ---------------------------------------------------------------------------------- */

/* Replaces *list by a copy of its n elements; NULL stays NULL. */
static mica_status copy_list(const void **list, int64_t n, size_t size)
{
    const void *from = *list;
    *list = NULL;
    if (n == 0)
        return MICA_OK;
    void *copy = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)n, size);
    if (!copy)
        return MICA_E_MEMORY;
    memcpy(copy, from, (size_t)n * size);
    *list = copy;
    return MICA_OK;
}

static mica_status copy_lists(mica_request *copy)
{
    const void *stops = copy->stop_tokens, *breakers = copy->sampling.dry_breakers,
               *bias = copy->sampling.logit_bias;
    mica_sampling *sampling = &copy->sampling;
    copy->stop_tokens = NULL;
    sampling->dry_breakers = NULL;
    sampling->logit_bias = NULL;
    MICA_TRY(copy_list(&stops, copy->n_stop_tokens, sizeof *copy->stop_tokens));
    copy->stop_tokens = stops;
    MICA_TRY(copy_list(&breakers, sampling->n_dry_breakers, sizeof *sampling->dry_breakers));
    sampling->dry_breakers = breakers;
    MICA_TRY(copy_list(&bias, sampling->n_logit_bias, sizeof *sampling->logit_bias));
    sampling->logit_bias = bias;
    return MICA_OK;
}

mica__request *mica__request_copy(const mica_request *given)
{
    mica__request *request = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *request);
    if (!request)
        return NULL;
    request->references = 1;
    request->given = *given;
    request->given.tokens = NULL;
    request->given.stop_strings = NULL;
    mica_status status = copy_lists(&request->given);
    if (status == MICA_OK)
        status =
            mica__stop_strings_open(&request->stops, given->stop_strings, given->n_stop_strings);
    if (given->constraint) {
        request->constraint = *given->constraint;
        request->given.constraint = &request->constraint;
    }
    if (status == MICA_OK)
        return request;
    mica__request_release(request);
    return NULL;
}

void mica__request_release(mica__request *request)
{
    if (!request || --request->references > 0)
        return;
    mica__free((void *)request->given.stop_tokens);
    mica__free((void *)request->given.sampling.dry_breakers);
    mica__free((void *)request->given.sampling.logit_bias);
    mica__stop_strings_close(&request->stops);
    mica__free(request);
}
