/* sampling.c - the sampling options as the engine takes them.
 * SPDX-License-Identifier: MIT
 */
#include "cli/sampling.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/failure.h"

#define MOST_BREAKERS 4096

static int read_bias(const char *text, int64_t n_vocab, mica_logit_bias *bias)
{
    const char *equals = strchr(text, '=');
    int64_t id;
    double value;
    if (!equals || !mica_integer_parse(text, (size_t)(equals - text), &id) || id < 0 ||
        id > INT32_MAX || !mica_number_parse(equals + 1, strlen(equals + 1), &value))
        return fail_usage("--logit-bias '%s': ID=X is needed, say 42=-5.5", text);
    if (id >= n_vocab)
        return fail_usage("--logit-bias '%s': the model has the tokens 0 to %lld", text,
                          (long long)n_vocab - 1);
    *bias = (mica_logit_bias){.token = (int32_t)id, .bias = (float)value};
    return 0;
}

static int add_breaker(sampling_lists *lists, int32_t token)
{
    if (lists->n_breakers == MOST_BREAKERS)
        return fail_with(MICA_E_ARGUMENT, "--dry-breaker", "more than %d tokens are breakers",
                         MOST_BREAKERS);
    if (lists->n_breakers == lists->breaker_capacity) {
        const int64_t capacity = lists->breaker_capacity ? 2 * lists->breaker_capacity : 64;
        int32_t *grown = realloc(lists->breakers, (size_t)capacity * sizeof *grown);
        if (!grown)
            return fail_memory();
        lists->breakers = grown;
        lists->breaker_capacity = capacity;
    }
    lists->breakers[lists->n_breakers++] = token;
    return 0;
}

/* Whether bytes[0, n) is text once or several times, spaces around it aside. */
static bool repeats(const char *bytes, int64_t n, const char *text)
{
    const int64_t length = (int64_t)strlen(text);
    while (n > length && *bytes == ' ' && *text != ' ') {
        bytes++;
        n--;
    }
    int64_t at = 0;
    while (length > 0 && at + length <= n && memcmp(bytes + at, text, (size_t)length) == 0)
        at += length;
    if (at == 0)
        return false;
    while (at < n && bytes[at] == ' ')
        at++;
    return at == n;
}

static int find_breakers(const sampling_settings *settings, const mica_tokenizer *tokenizer,
                         sampling_lists *lists)
{
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const char *const *texts = settings->dry_breakers.n ? settings->dry_breakers.items : usual;
    const int n_texts = settings->dry_breakers.n ? settings->dry_breakers.n : COUNT_OF(usual);
    const int64_t n_vocab = tokenizer ? mica_tokenizer_n_vocab(tokenizer) : 0;
    int exit_status = 0;
    for (int64_t id = 0; id < n_vocab && !exit_status; id++) {
        int64_t n;
        const char *bytes = mica_tokenizer_token_bytes(tokenizer, (int32_t)id, &n);
        for (int i = 0; i < n_texts; i++)
            if (repeats(bytes, n, texts[i])) {
                exit_status = add_breaker(lists, (int32_t)id);
                break;
            }
    }
    return exit_status;
}

static int choose_seed(const option_seed *given, uint64_t *seed)
{
    *seed = given->value;
    if (!given->random)
        return 0;
    if (getrandom(seed, sizeof *seed, 0) != (ssize_t)sizeof *seed)
        return fail_with(MICA_E_IO, "--seed", "the system gave no random seed");
    *seed >>= 11;
    return 0;
}

int sampling_make(const sampling_settings *settings, const cli_session *session,
                  sampling_lists *lists, mica_sampling *sampling)
{
    uint64_t seed;
    int exit_status = choose_seed(&settings->seed, &seed);
    for (int i = 0; i < settings->logit_bias.n && !exit_status; i++)
        exit_status =
            read_bias(settings->logit_bias.items[i], session->facts.n_vocab, &lists->bias[i]);
    if (!exit_status && settings->dry_multiplier > 0)
        exit_status = find_breakers(settings, session->tokenizer, lists);
    *sampling = (mica_sampling){.temperature = (float)settings->temperature,
                                .seed = seed,
                                .top_k = (int32_t)settings->top_k,
                                .typical_p = (float)settings->typical_p,
                                .top_p = (float)settings->top_p,
                                .min_p = (float)settings->min_p,
                                .xtc_probability = (float)settings->xtc_probability,
                                .xtc_threshold = (float)settings->xtc_threshold,
                                .repetition_penalty = (float)settings->repetition_penalty,
                                .repetition_window = settings->repetition_window,
                                .presence_penalty = (float)settings->presence_penalty,
                                .frequency_penalty = (float)settings->frequency_penalty,
                                .dry_multiplier = (float)settings->dry_multiplier,
                                .dry_base = (float)settings->dry_base,
                                .dry_allowed_length = settings->dry_allowed_length,
                                .dry_window = settings->dry_window,
                                .dry_breakers = lists->breakers,
                                .n_dry_breakers = lists->n_breakers,
                                .logit_bias = lists->bias,
                                .n_logit_bias = settings->logit_bias.n};
    return exit_status;
}

void sampling_free(sampling_lists *lists)
{
    free(lists->breakers);
    *lists = (sampling_lists){0};
}
