/* engine_test.c - what an engine gives for requests, one by one and together, with memory enough.
 *
 * Expected tokens come from the oracle in fake_model.c, which knows no blocks, steps or caches.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>

#include "engine/drive.h"

/* A model with a full, a window and a state pool, and an engine with memory enough. */
typedef struct fixture {
    fake_model model;
    mica_engine *engine;
    drive d;
    mica_engine_options options;
    mica_request request;
    int32_t prompt[512];
    int64_t bytes_before;
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    fake_open(&f->model);
    fake_add_pool(&f->model, MICA__POOL_FULL, 0, 1000);
    fake_add_pool(&f->model, MICA__POOL_WINDOW, 40, 4096);
    f->options.kv_memory = 4 << 20;
    drive_prompt(1, f->prompt, 512);
    mica_request_init(&f->request);
    f->request.tokens = f->prompt;
    f->request.n_tokens = 100;
    f->request.max_tokens = 20;
    f->bytes_before = drive_bytes();
}

static void make(fixture *f)
{
    assert_ok(mica__engine_new(&f->model.stepper, &f->options, &f->engine));
    drive_open(&f->d, f->engine, 64);
}

static void end(fixture *f)
{
    drive_check_empty(f->engine);
    drive_close(&f->d);
    mica_engine_free(f->engine);
    assert_int_equal(drive_bytes(), f->bytes_before);
}

static drive_output *generate(fixture *f)
{
    const int64_t id = drive_submit(&f->d, &f->request);
    drive_finish(&f->d);
    return drive_find(&f->d, id, 0);
}

static void assert_greedy(const fixture *f, const drive_output *output, const int32_t *prompt,
                          int64_t n_prompt, int64_t n)
{
    int32_t expected[DRIVE_MAX_TOKENS];
    drive_expect(&f->model.stepper, prompt, n_prompt, n, expected);
    assert_int_equal(output->n, n);
    assert_memory_equal(output->tokens, expected, (size_t)n * sizeof *expected);
}

/* --- the same tokens whatever the way --------------------------------------------------------- */

static void greedy_output_is_the_oracles(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    const drive_output *output = generate(&f);
    assert_greedy(&f, output, f.prompt, 100, 20);
    assert_int_equal(output->last.reason, MICA_FINISH_LENGTH);
    assert_int_equal(output->last.usage.prompt_tokens, 100);
    assert_int_equal(output->last.usage.output_tokens, 20);
    assert_int_equal(output->last.usage.computed_tokens, 119);
    assert_int_equal(f.model.n_rows, 20);
    end(&f);
}

static void output_is_the_same_for_every_prefill_chunk(void **state)
{
    (void)state;
    static const int64_t chunks[] = {1, 7, 64, 512};
    for (int with_state = 0; with_state < 2; with_state++)
        for (int i = 0; i < 4; i++)
            for (int64_t n = 1; n < 200; n += 13) {
                fixture f;
                begin(&f);
                if (with_state)
                    fake_add_pool(&f.model, MICA__POOL_STATE, 0, 24);
                f.model.stepper.max_tokens = 512;
                f.options.prefill_chunk = chunks[i];
                f.request.n_tokens = n;
                f.request.max_tokens = 5;
                make(&f);
                assert_greedy(&f, generate(&f), f.prompt, n, 5);
                end(&f);
            }
}

static void warm_prefix_gives_the_same_tokens_and_computes_less(void **state)
{
    (void)state;
    for (int with_state = 0; with_state < 2; with_state++)
        for (int64_t n = 1; n < 130; n++) {
            fixture f;
            begin(&f);
            if (with_state)
                fake_add_pool(&f.model, MICA__POOL_STATE, 0, 24);
            f.request.n_tokens = n;
            f.request.max_tokens = 3;
            make(&f);
            assert_greedy(&f, generate(&f), f.prompt, n, 3);
            const drive_output *warm = generate(&f);
            assert_greedy(&f, warm, f.prompt, n, 3);
            const int64_t whole = (n - 1) / 16 * 16;
            assert_int_equal(warm->last.usage.cached_tokens, whole);
            assert_int_equal(warm->last.usage.computed_tokens, n + 2 - whole);
            end(&f);
        }
}

static void prefix_cache_serves_a_longer_and_a_diverging_prompt(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    f.request.max_tokens = 4;
    generate(&f);
    f.request.n_tokens = 180;
    const drive_output *longer = generate(&f);
    assert_greedy(&f, longer, f.prompt, 180, 4);
    assert_int_equal(longer->last.usage.cached_tokens, 96);
    f.prompt[70] = (f.prompt[70] + 1) % 97;
    const drive_output *diverging = generate(&f);
    assert_greedy(&f, diverging, f.prompt, 180, 4);
    assert_int_equal(diverging->last.usage.cached_tokens, 64);
    end(&f);
}

static void conversation_reuses_the_answer_of_its_last_turn(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    f.request.max_tokens = 60;
    const drive_output *first = generate(&f);
    int32_t history[400];
    memcpy(history, f.prompt, 100 * sizeof *history);
    memcpy(history + 100, first->tokens, 60 * sizeof *history);
    drive_prompt(9, history + 160, 40);
    f.request.tokens = history;
    f.request.n_tokens = 200;
    const drive_output *second = generate(&f);
    assert_greedy(&f, second, history, 200, 60);
    assert_int_equal(second->last.usage.cached_tokens, 144); /* 159 were computed */
    end(&f);
}

static void without_prefix_cache_nothing_is_kept(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.options.no_prefix_cache = true;
    make(&f);
    generate(&f);
    mica_engine_stats stats;
    mica_engine_read_stats(f.engine, &stats);
    assert_int_equal(stats.kv_used, 0);
    const drive_output *again = generate(&f);
    assert_int_equal(again->last.usage.cached_tokens, 0);
    assert_greedy(&f, again, f.prompt, 100, 20);
    end(&f);
}

static void fifteen_neighbours_change_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.options.prefill_chunk = 30;
    make(&f);
    int64_t ids[16];
    int32_t prompts[16][200];
    for (int i = 0; i < 16; i++) {
        drive_prompt((uint64_t)i / 2, prompts[i], 200); /* pairs share prefixes */
        f.request.tokens = prompts[i];
        f.request.n_tokens = 20 + i * 11;
        f.request.max_tokens = 10 + i;
        ids[i] = drive_submit(&f.d, &f.request);
        if (i % 3 == 0)
            drive_step(&f.d);
    }
    drive_finish(&f.d);
    for (int i = 0; i < 16; i++)
        assert_greedy(&f, drive_find(&f.d, ids[i], 0), prompts[i], 20 + i * 11, 10 + i);
    end(&f);
}

static void steps_of_one_token_still_serve_everybody(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.options.step_tokens = 1;
    make(&f);
    int64_t ids[4];
    for (int i = 0; i < 4; i++) {
        f.request.n_tokens = 5 + 20 * i;
        f.request.max_tokens = 30;
        ids[i] = drive_submit(&f.d, &f.request);
        drive_step(&f.d);
    }
    drive_finish(&f.d);
    for (int i = 0; i < 4; i++)
        assert_greedy(&f, drive_find(&f.d, ids[i], 0), f.prompt, 5 + 20 * i, 30);
    assert_int_equal(f.model.largest_step, 1);
    end(&f);
}

static void sampling_with_a_seed_does_not_depend_on_load(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    f.request.sampling.temperature = 0.9f;
    f.request.sampling.top_p = 0.9f;
    f.request.sampling.seed = 42;
    f.request.sampling.repetition_penalty = 1.2f;
    f.request.sampling.dry_multiplier = 0.8f;
    const drive_output alone = *generate(&f);
    const int64_t id = drive_submit(&f.d, &f.request);
    for (int i = 0; i < 10; i++) {
        f.request.sampling.seed = (uint64_t)i;
        drive_submit(&f.d, &f.request);
        drive_step(&f.d);
    }
    drive_finish(&f.d);
    const drive_output *loaded = drive_find(&f.d, id, 0);
    assert_memory_equal(alone.tokens, loaded->tokens, 20 * sizeof(int32_t));
    assert_memory_not_equal(alone.tokens, drive_find(&f.d, id + 1, 0)->tokens,
                            20 * sizeof(int32_t));
    end(&f);
}

static void choices_share_the_prompt_and_differ(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    f.request.n_choices = 4;
    f.request.sampling.temperature = 1;
    const int64_t id = drive_submit(&f.d, &f.request);
    drive_finish(&f.d);
    int64_t computed = 0;
    for (int32_t choice = 0; choice < 4; choice++) {
        const drive_output *output = drive_find(&f.d, id, choice);
        assert_int_equal(output->n, 20);
        computed += output->last.usage.computed_tokens;
        for (int32_t other = 0; other < choice; other++)
            assert_memory_not_equal(output->tokens, drive_find(&f.d, id, other)->tokens,
                                    20 * sizeof(int32_t));
    }
    assert_int_equal(computed, 100 + 3 * 4 + 4 * 19); /* 96 of 100 are shared */
    end(&f);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void end_and_stop_tokens_end_it_and_are_not_output(void **state)
{
    (void)state;
    fixture f;
    int32_t expected[20];
    begin(&f);
    drive_expect(&f.model.stepper, f.prompt, 100, 20, expected);
    const int32_t ends[2] = {96, expected[7]};
    int64_t first = 0;
    while (expected[first] != ends[0] && expected[first] != ends[1])
        first++;
    f.options.end_tokens = ends;
    f.options.n_end_tokens = 2;
    make(&f);
    const drive_output *stopped = generate(&f);
    assert_greedy(&f, stopped, f.prompt, 100, first);
    assert_int_equal(stopped->last.reason, MICA_FINISH_STOP);
    assert_int_equal(stopped->last.token, expected[first]);
    f.request.ignore_end_tokens = true;
    assert_greedy(&f, generate(&f), f.prompt, 100, 20);
    f.request.stop_tokens = &expected[3];
    f.request.n_stop_tokens = 1;
    const drive_output *again = generate(&f);
    assert_int_equal(again->last.reason, MICA_FINISH_STOP);
    assert_int_equal(again->last.token, expected[3]);
    assert_true(again->n <= 3);
    end(&f);
}

static void context_ends_it_with_length(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.options.context = 130;
    make(&f);
    f.request.max_tokens = -1;
    const drive_output *output = generate(&f);
    assert_greedy(&f, output, f.prompt, 100, 30);
    assert_int_equal(output->last.reason, MICA_FINISH_LENGTH);
    f.request.n_tokens = 129;
    assert_greedy(&f, generate(&f), f.prompt, 129, 1);
    int64_t id;
    f.request.n_tokens = 130;
    assert_status(mica_engine_submit(f.engine, &f.request, &id), MICA_E_ARGUMENT);
    assert_non_null(strstr(mica_last_error(), "130 tokens"));
    end(&f);
}

static void no_tokens_wanted_computes_the_prompt_only(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    f.request.max_tokens = 0;
    const drive_output *output = generate(&f);
    assert_int_equal(output->n, 0);
    assert_int_equal(output->last.reason, MICA_FINISH_LENGTH);
    assert_int_equal(output->last.usage.computed_tokens, 100);
    assert_int_equal(f.model.n_rows, 0);
    end(&f);
}

static void cancel_ends_all_choices_at_the_next_step(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.options.max_sequences = 2;
    make(&f);
    f.request.n_choices = 3; /* two may run, one waits */
    f.request.max_tokens = 500;
    const int64_t id = drive_submit(&f.d, &f.request);
    for (int i = 0; i < 10; i++)
        drive_step(&f.d);
    assert_ok(mica_engine_cancel(f.engine, id));
    drive_step(&f.d);
    assert_int_equal(mica_engine_pending(f.engine), 0);
    for (int32_t choice = 0; choice < 3; choice++)
        assert_int_equal(drive_find(&f.d, id, choice)->last.reason, MICA_FINISH_CANCELLED);
    assert_status(mica_engine_cancel(f.engine, id), MICA_E_NOT_FOUND);
    assert_status(mica_engine_cancel(f.engine, 12345), MICA_E_NOT_FOUND);
    end(&f);
}

/* --- text ------------------------------------------------------------------------------------- */

/* Token t is the letter 'a' + t % 26, twice where t is odd. */
typedef struct letters {
    char bytes[3];
    int64_t *n_open;
} letters;

static mica_status letters_begin(void *owner, void **stream)
{
    static letters streams[64];
    int64_t *n_open = owner;
    *stream = &streams[*n_open];
    streams[(*n_open)++].n_open = n_open;
    return MICA_OK;
}

static mica_status letters_add(void *stream, int32_t token, const char **bytes, size_t *n_bytes)
{
    letters *l = stream;
    l->bytes[0] = l->bytes[1] = (char)('a' + token % 26);
    *bytes = l->bytes;
    *n_bytes = token % 2 ? 2 : 1;
    return MICA_OK;
}

static mica_status letters_finish(void *stream, const char **bytes, size_t *n_bytes)
{
    (void)stream;
    *bytes = "!";
    *n_bytes = 1;
    return MICA_OK;
}

static void letters_end(void *stream)
{
    letters *l = stream;
    --*l->n_open;
}

static void expected_text(const int32_t *tokens, int64_t n, char *text)
{
    for (int64_t i = 0; i < n; i++) {
        *text++ = (char)('a' + tokens[i] % 26);
        if (tokens[i] % 2)
            *text++ = (char)('a' + tokens[i] % 26);
    }
    *text = '\0';
}

static void events_carry_the_text(void **state)
{
    (void)state;
    fixture f;
    int64_t n_open = 0;
    const mica_detokenizer detokenizer = {&n_open, letters_begin, letters_add, letters_finish,
                                          letters_end};
    begin(&f);
    f.options.detokenizer = &detokenizer;
    make(&f);
    const drive_output *output = generate(&f);
    char text[64];
    expected_text(output->tokens, 20, text);
    strcat(text, "!");
    assert_string_equal(output->text, text);
    assert_int_equal(n_open, 0);
    end(&f);
}

static void stop_string_across_tokens_cuts_the_text_before_it(void **state)
{
    (void)state;
    fixture f;
    int64_t n_open = 0;
    const mica_detokenizer detokenizer = {&n_open, letters_begin, letters_add, letters_finish,
                                          letters_end};
    int32_t expected[20];
    char text[64], stop[5], never[8];
    begin(&f);
    f.options.detokenizer = &detokenizer;
    make(&f);
    drive_expect(&f.model.stepper, f.prompt, 100, 20, expected);
    expected_text(expected, 20, text);
    snprintf(stop, sizeof stop, "%.4s", text + 9);
    snprintf(never, sizeof never, "%.4s~", text + 3); /* held back for a while, then let go */
    const char *const stops[] = {never, stop};
    f.request.stop_strings = stops;
    f.request.n_stop_strings = 2;
    const drive_output *output = generate(&f);
    assert_int_equal(output->last.reason, MICA_FINISH_STOP_STRING);
    *strstr(text, stop) = '\0';
    assert_string_equal(output->text, text);
    assert_true(output->n < 20);
    end(&f);
}

static void stop_strings_without_a_detokenizer_are_refused(void **state)
{
    (void)state;
    fixture f;
    int64_t id;
    const char *const stops[] = {"x"};
    begin(&f);
    make(&f);
    f.request.stop_strings = stops;
    f.request.n_stop_strings = 1;
    assert_status(mica_engine_submit(f.engine, &f.request, &id), MICA_E_ARGUMENT);
    end(&f);
}

/* --- logits ----------------------------------------------------------------------------------- */

static void logprobs_are_those_of_the_unfiltered_distribution(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    f.request.logprobs = true;
    f.request.n_top = 3;
    f.request.max_tokens = 1;
    f.request.sampling.temperature = 0.3f;
    f.request.sampling.top_k = 2;
    const int64_t id = drive_submit(&f.d, &f.request);
    assert_ok(mica_engine_step(f.engine));
    assert_ok(mica_engine_step(f.engine));
    mica_event event;
    assert_true(mica_engine_next_event(f.engine, &event));
    assert_int_equal(event.request, id);
    static fake_oracle oracle;
    float logits[97];
    oracle = (fake_oracle){.stepper = &f.model.stepper};
    for (int i = 0; i < 100; i++)
        fake_oracle_feed(&oracle, f.prompt[i], logits);
    double sum = 0;
    for (int v = 0; v < 97; v++)
        sum += exp((double)logits[v]);
    assert_true(fabs((double)event.logprob - ((double)logits[event.token] - log(sum))) < 1e-5);
    assert_int_equal(event.n_top, 3);
    for (int i = 0; i < 3; i++) {
        int larger = 0;
        for (int v = 0; v < 97; v++)
            larger += logits[v] > logits[event.top[i].token];
        assert_int_equal(larger, i);
        assert_true(fabs((double)event.top[i].logprob -
                         ((double)logits[event.top[i].token] - log(sum))) < 1e-5);
    }
    drive_finish(&f.d);
    end(&f);
}

typedef struct seen_logits {
    int64_t n;
    int64_t positions[512];
    float first[512];
} seen_logits;

static void see(void *owner, int64_t position, const float *logits, int64_t n_vocab)
{
    seen_logits *seen = owner;
    assert_int_equal(n_vocab, 97);
    seen->positions[seen->n] = position;
    seen->first[seen->n++] = logits[5];
}

static void on_logits_sees_every_wanted_prompt_position_once(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.options.prefill_chunk = 30;
    make(&f);
    f.request.max_tokens = 0;
    generate(&f); /* warms the cache, which must not hide positions */
    for (int64_t from = 0; from < 100; from += 33)
        for (int64_t wanted = 0; wanted < 3; wanted++) {
            seen_logits seen = {0};
            f.request.on_logits = see;
            f.request.on_logits_owner = &seen;
            f.request.logits_from = from;
            f.request.max_tokens = wanted;
            const drive_output *output = generate(&f);
            assert_greedy(&f, output, f.prompt, 100, wanted);
            assert_int_equal(output->last.usage.cached_tokens, from / 16 * 16);
            assert_int_equal(seen.n, 100 - from);
            static fake_oracle oracle;
            float logits[97];
            oracle = (fake_oracle){.stepper = &f.model.stepper};
            for (int64_t i = 0; i < 100; i++) {
                fake_oracle_feed(&oracle, f.prompt[i], logits);
                if (i >= from)
                    assert_true(seen.positions[i - from] == i && seen.first[i - from] == logits[5]);
            }
        }
    end(&f);
}

static void nan_logit_ends_its_sequence_with_an_error_naming_it(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    make(&f);
    const int64_t first = drive_submit(&f.d, &f.request);
    const int64_t second = drive_submit(&f.d, &f.request);
    f.model.nan_call = 6;
    drive_finish(&f.d);
    const drive_output *broken = drive_find(&f.d, first, 0);
    assert_int_equal(broken->last.reason, MICA_FINISH_ERROR);
    assert_non_null(strstr(broken->message, "token 3 is not a number"));
    assert_greedy(&f, drive_find(&f.d, second, 0), f.prompt, 100, 20);
    end(&f);
}

/* --- constraint ------------------------------------------------------------------------------- */

/* Allows t only where t % 7 equals the number of tokens so far; nothing after the fifth. */
static mica_status sevens_begin(void *owner, void **state)
{
    int64_t *count = owner;
    *count = 0;
    *state = count;
    return MICA_OK;
}

static mica_status sevens_mask(void *state, uint32_t *allowed, int64_t n_vocab)
{
    const int64_t *count = state;
    for (int64_t t = *count; t < n_vocab && *count < 5; t += 7)
        allowed[t / 32] |= 1u << (t % 32);
    return MICA_OK;
}

static mica_status sevens_accept(void *state, int32_t token)
{
    int64_t *count = state;
    assert_int_equal(token % 7, *count);
    ++*count;
    return MICA_OK;
}

static void sevens_end(void *state)
{
    *(int64_t *)state = -1;
}

static void constraint_decides_what_may_come(void **state)
{
    (void)state;
    for (int temperature = 0; temperature < 2; temperature++) {
        fixture f;
        int64_t count = 0;
        const mica_constraint constraint = {&count, sevens_begin, sevens_mask, sevens_accept,
                                            sevens_end};
        begin(&f);
        make(&f);
        f.request.constraint = &constraint;
        f.request.sampling.temperature = (float)temperature;
        const drive_output *output = generate(&f);
        assert_int_equal(output->n, 5);
        for (int i = 0; i < 5; i++)
            assert_int_equal(output->tokens[i] % 7, i);
        assert_int_equal(output->last.reason, MICA_FINISH_ERROR);
        assert_non_null(strstr(output->message, "no token is possible"));
        assert_int_equal(count, -1);
        end(&f);
    }
}

/* --- refusals --------------------------------------------------------------------------------- */

static void requests_that_make_no_sense_are_refused_by_name(void **state)
{
    (void)state;
    fixture f;
    int64_t id;
    begin(&f);
    make(&f);
    const mica_request good = f.request;
#define REFUSED(change, word)                                                                      \
    do {                                                                                           \
        f.request = good;                                                                          \
        change;                                                                                    \
        assert_status(mica_engine_submit(f.engine, &f.request, &id), MICA_E_ARGUMENT);             \
        if (!strstr(mica_last_error(), word))                                                      \
            fail_msg("\"%s\" does not name %s", mica_last_error(), word);                          \
    } while (0)
    const int32_t bad[] = {0, 97};
    const mica_logit_bias bias[] = {{3, NAN}};
    REFUSED(f.request.n_tokens = 0, "no tokens");
    REFUSED(f.request.tokens = NULL, "prompt");
    REFUSED((f.request.tokens = bad, f.request.n_tokens = 2), "token 97");
    REFUSED((f.request.stop_tokens = bad, f.request.n_stop_tokens = 2), "stop tokens");
    REFUSED(f.request.n_choices = -1, "n_choices");
    REFUSED(f.request.n_choices = 257, "queue");
    REFUSED(f.request.n_top = 21, "n_top");
    REFUSED(f.request.sampling.temperature = -1, "temperature");
    REFUSED(f.request.sampling.temperature = NAN, "temperature");
    REFUSED(f.request.sampling.top_p = 1.5f, "top_p");
    REFUSED(f.request.sampling.min_p = -0.1f, "min_p");
    REFUSED(f.request.sampling.top_k = -3, "top_k");
    REFUSED(f.request.sampling.dry_base = 0.5f, "dry_base");
    REFUSED((f.request.sampling.logit_bias = bias, f.request.sampling.n_logit_bias = 1), "bias");
    f.request = good;
    assert_greedy(&f, generate(&f), f.prompt, 100, 20);
    end(&f);
}

static void full_queue_is_refused_with_the_numbers(void **state)
{
    (void)state;
    fixture f;
    int64_t id;
    begin(&f);
    f.options.queue_limit = 3;
    f.options.max_sequences = 2;
    make(&f);
    for (int i = 0; i < 3; i++)
        drive_submit(&f.d, &f.request);
    assert_status(mica_engine_submit(f.engine, &f.request, &id), MICA_E_STATE);
    assert_non_null(strstr(mica_last_error(), "queue is full: 3 sequences wait"));
    drive_step(&f.d);
    drive_submit(&f.d, &f.request);
    drive_finish(&f.d);
    end(&f);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const mica_engine_options good = f.options;
#define BAD(change, status)                                                                        \
    do {                                                                                           \
        f.options = good;                                                                          \
        change;                                                                                    \
        assert_status(mica__engine_new(&f.model.stepper, &f.options, &f.engine), status);          \
        assert_null(f.engine);                                                                     \
    } while (0)
    const int32_t ends[] = {97};
    BAD(f.options.context = 1025, MICA_E_ARGUMENT);
    BAD(f.options.context = -1, MICA_E_ARGUMENT);
    BAD(f.options.step_tokens = 65, MICA_E_ARGUMENT);
    BAD(f.options.max_sequences = 17, MICA_E_ARGUMENT);
    BAD(f.options.queue_limit = -1, MICA_E_ARGUMENT);
    BAD(f.options.kv_memory = 4095, MICA_E_MEMORY);
    BAD((f.options.end_tokens = ends, f.options.n_end_tokens = 1), MICA_E_ARGUMENT);
    assert_int_equal(drive_bytes(), f.bytes_before);
    f.options = good;
    /* The default, which is at most what 16 x 1024 tokens need: blocks of 1000 bytes can lie across
     * two pages each, those of 4096 take one. */
    f.options.kv_memory = 0;
    make(&f);
    mica_engine_stats stats;
    mica_engine_read_stats(f.engine, &stats);
    assert_true(stats.kv_limit > 0 && stats.kv_limit <= 16 * 64 * (2 * 4096 + 4096));
    assert_greedy(&f, generate(&f), f.prompt, 100, 20);
    end(&f);
}

static int64_t kv_limit_of(fixture *f)
{
    mica_engine *engine;
    mica_engine_stats stats;
    assert_ok(mica__engine_new(&f->model.stepper, &f->options, &engine));
    mica_engine_read_stats(engine, &stats);
    mica_engine_free(engine);
    return stats.kv_limit;
}

/* One context of 1024 tokens: 64 blocks of two pages, and of the window of 40 tokens in steps of 64
 * at most 8 blocks of one page. */
static void the_default_budget_is_one_context_where_that_fits_under_a_limit(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const int64_t one = 64 * 2 * 4096 + 8 * 4096;
    f.options.kv_memory = 0;
    mica_memory_usage usage;
    mica_memory_read(&usage);
    const int64_t used = usage.active + usage.by_kind[MICA_MEMORY_POOL];
    const int64_t engines_own = (int64_t)1 << 18; /* its tables, from the same limit */
    mica_set_memory_limit(used + one + engines_own, false);
    assert_int_equal(kv_limit_of(&f), one);
    mica_set_memory_limit(used + one - 8192, false);
    assert_in_range(kv_limit_of(&f), 4096, one / 2);
    mica_set_memory_limit(used + 64 * one, false);
    assert_int_equal(kv_limit_of(&f), 16 * one);
    mica_set_memory_limit(0, false);
    make(&f);
    end(&f);
}

static void freeing_an_engine_in_the_middle_leaks_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.options.max_sequences = 2;
    make(&f);
    for (int i = 0; i < 5; i++)
        drive_submit(&f.d, &f.request);
    for (int i = 0; i < 6; i++)
        drive_step(&f.d);
    drive_close(&f.d);
    mica_engine_free(f.engine);
    assert_int_equal(drive_bytes(), f.bytes_before);
    mica_engine_free(NULL);
}

static void model_without_any_cache_works(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.model.stepper.n_pools = 0;
    make(&f);
    const drive_output *output = generate(&f);
    assert_int_equal(output->n, 20);
    end(&f);
}

static void models_without_full_attention_reuse_prefixes_too(void **state)
{
    (void)state;
    for (int kind = 1; kind <= 3; kind++) {
        fixture f;
        begin(&f);
        f.model.stepper.n_pools = 0;
        if (kind & 1)
            fake_add_pool(&f.model, MICA__POOL_WINDOW, 20, 512);
        if (kind & 2)
            fake_add_pool(&f.model, MICA__POOL_STATE, 0, 5000);
        make(&f);
        assert_greedy(&f, generate(&f), f.prompt, 100, 20);
        const drive_output *warm = generate(&f);
        assert_greedy(&f, warm, f.prompt, 100, 20);
        assert_int_equal(warm->last.usage.cached_tokens, 96);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_output_is_the_oracles),
        cmocka_unit_test(output_is_the_same_for_every_prefill_chunk),
        cmocka_unit_test(warm_prefix_gives_the_same_tokens_and_computes_less),
        cmocka_unit_test(prefix_cache_serves_a_longer_and_a_diverging_prompt),
        cmocka_unit_test(conversation_reuses_the_answer_of_its_last_turn),
        cmocka_unit_test(without_prefix_cache_nothing_is_kept),
        cmocka_unit_test(fifteen_neighbours_change_nothing),
        cmocka_unit_test(steps_of_one_token_still_serve_everybody),
        cmocka_unit_test(sampling_with_a_seed_does_not_depend_on_load),
        cmocka_unit_test(choices_share_the_prompt_and_differ),
        cmocka_unit_test(end_and_stop_tokens_end_it_and_are_not_output),
        cmocka_unit_test(context_ends_it_with_length),
        cmocka_unit_test(no_tokens_wanted_computes_the_prompt_only),
        cmocka_unit_test(cancel_ends_all_choices_at_the_next_step),
        cmocka_unit_test(events_carry_the_text),
        cmocka_unit_test(stop_string_across_tokens_cuts_the_text_before_it),
        cmocka_unit_test(stop_strings_without_a_detokenizer_are_refused),
        cmocka_unit_test(logprobs_are_those_of_the_unfiltered_distribution),
        cmocka_unit_test(on_logits_sees_every_wanted_prompt_position_once),
        cmocka_unit_test(nan_logit_ends_its_sequence_with_an_error_naming_it),
        cmocka_unit_test(constraint_decides_what_may_come),
        cmocka_unit_test(requests_that_make_no_sense_are_refused_by_name),
        cmocka_unit_test(full_queue_is_refused_with_the_numbers),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(the_default_budget_is_one_context_where_that_fits_under_a_limit),
        cmocka_unit_test(freeing_an_engine_in_the_middle_leaks_nothing),
        cmocka_unit_test(model_without_any_cache_works),
        cmocka_unit_test(models_without_full_attention_reuse_prefixes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
