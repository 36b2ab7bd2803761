/* engine_pressure_test.c - an engine with too little memory, a failing model, failing allocations.
 *
 * Budgets are counted by hand: a block holds 16 tokens, and in most tests it is one page.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "engine/drive.h"

#define PAGE 4096

typedef struct fixture {
    fake_model model;
    mica_engine *engine;
    drive d;
    mica_engine_options options;
    mica_request request;
    int32_t prompt[512];
    int64_t bytes_before;
} fixture;

/* A full-attention pool of one page a block under a budget of n_blocks. */
static void begin(fixture *f, int64_t n_blocks)
{
    memset(f, 0, sizeof *f);
    fake_open(&f->model);
    fake_add_pool(&f->model, MICA__POOL_FULL, 0, PAGE);
    f->options.kv_memory = n_blocks * PAGE;
    drive_prompt(1, f->prompt, 512);
    mica_request_init(&f->request);
    f->request.tokens = f->prompt;
    f->request.n_tokens = 64;
    f->request.max_tokens = 120;
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

static void assert_greedy(const fixture *f, const drive_output *output, const int32_t *prompt,
                          int64_t n_prompt, int64_t n)
{
    int32_t expected[DRIVE_MAX_TOKENS];
    drive_expect(&f->model.stepper, prompt, n_prompt, n, expected);
    assert_int_equal(output->n, n);
    assert_memory_equal(output->tokens, expected, (size_t)n * sizeof *expected);
}

/* --- too few blocks --------------------------------------------------------------------------- */

static void youngest_is_paused_and_resumed_and_nothing_is_lost(void **state)
{
    (void)state;
    fixture f;
    int32_t prompts[4][64];
    int64_t ids[4];
    begin(&f, 20); /* fully grown a sequence needs 12 */
    make(&f);
    for (int i = 0; i < 4; i++) {
        drive_prompt((uint64_t)i + 10, prompts[i], 64);
        f.request.tokens = prompts[i];
        ids[i] = drive_submit(&f.d, &f.request);
    }
    drive_finish(&f.d);
    for (int i = 0; i < 4; i++) {
        const drive_output *output = drive_find(&f.d, ids[i], 0);
        assert_greedy(&f, output, prompts[i], 64, 120);
        assert_int_equal(output->last.reason, MICA_FINISH_LENGTH);
        assert_int_equal(output->n_paused, output->last.usage.pauses);
    }
    assert_int_equal(drive_find(&f.d, ids[0], 0)->n_paused, 0); /* the oldest never is */
    assert_true(drive_find(&f.d, ids[1], 0)->n_paused > 0);
    mica_engine_stats stats;
    mica_engine_read_stats(f.engine, &stats);
    assert_true(stats.kv_peak <= 20 * PAGE);
    assert_int_equal(stats.pauses, drive_find(&f.d, ids[1], 0)->n_paused +
                                       drive_find(&f.d, ids[2], 0)->n_paused +
                                       drive_find(&f.d, ids[3], 0)->n_paused);
    end(&f);
}

static void lone_sequence_that_outgrows_the_budget_keeps_what_it_has(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 10);
    make(&f);
    f.request.max_tokens = 500;
    const int64_t id = drive_submit(&f.d, &f.request);
    drive_finish(&f.d);
    const drive_output *output = drive_find(&f.d, id, 0);
    assert_int_equal(output->last.reason, MICA_FINISH_MEMORY);
    assert_int_equal(output->last.status, MICA_E_MEMORY);
    assert_non_null(strstr(output->message, "40960"));
    assert_greedy(&f, output, f.prompt, 64, 97); /* 160 positions give the tokens up to 161 */
    end(&f);
}

static void prompt_larger_than_the_budget_is_refused_with_the_numbers(void **state)
{
    (void)state;
    fixture f;
    int64_t id;
    begin(&f, 10);
    make(&f);
    f.request.n_tokens = 161;
    assert_status(mica_engine_submit(f.engine, &f.request, &id), MICA_E_MEMORY);
    assert_non_null(strstr(mica_last_error(), "161 tokens needs 45056 bytes"));
    assert_non_null(strstr(mica_last_error(), "40960"));
    f.request.n_tokens = 160;
    f.request.max_tokens = 1;
    id = drive_submit(&f.d, &f.request);
    drive_finish(&f.d);
    assert_greedy(&f, drive_find(&f.d, id, 0), f.prompt, 160, 1);
    end(&f);
}

static void paused_sequence_that_only_just_fits_alone_still_ends(void **state)
{
    (void)state;
    fixture f;
    int32_t prompts[2][64];
    int64_t ids[2];
    begin(&f, 13); /* the second is paused beyond 13 - 4 blocks, where 64 tokens more do not fit */
    make(&f);
    for (int i = 0; i < 2; i++) {
        drive_prompt((uint64_t)i + 10, prompts[i], 64);
        f.request.tokens = prompts[i];
        f.request.n_tokens = i == 0 ? 16 : 64;
        f.request.max_tokens = i == 0 ? 180 : 130;
        ids[i] = drive_submit(&f.d, &f.request);
        for (int step = 0; i == 0 && step < 1; step++)
            drive_step(&f.d);
    }
    drive_finish(&f.d);
    assert_greedy(&f, drive_find(&f.d, ids[0], 0), prompts[0], 16, 180);
    assert_greedy(&f, drive_find(&f.d, ids[1], 0), prompts[1], 64, 130);
    end(&f);
}

static void strict_admission_never_pauses(void **state)
{
    (void)state;
    fixture f;
    int64_t ids[6];
    begin(&f, 45); /* two fully grown sequences of 12 blocks and 8 window blocks, a page each */
    fake_add_pool(&f.model, MICA__POOL_WINDOW, 32, 256);
    f.options.admission = MICA_ADMISSION_STRICT;
    make(&f);
    for (int i = 0; i < 6; i++) {
        f.request.tokens = f.prompt + 20 * i;
        ids[i] = drive_submit(&f.d, &f.request);
    }
    int64_t most = 0;
    while (mica_engine_pending(f.engine) > 0) {
        mica_engine_stats stats;
        drive_step(&f.d);
        mica_engine_read_stats(f.engine, &stats);
        most = stats.running > most ? stats.running : most;
        assert_int_equal(stats.paused, 0);
    }
    assert_int_equal(most, 2);
    for (int i = 0; i < 6; i++)
        assert_greedy(&f, drive_find(&f.d, ids[i], 0), f.prompt + 20 * i, 64, 120);
    int64_t id;
    f.request.max_tokens = 900;
    assert_status(mica_engine_submit(f.engine, &f.request, &id), MICA_E_MEMORY);
    assert_non_null(strstr(mica_last_error(), "strict"));
    end(&f);
}

static void process_wide_limit_pauses_and_evicts_like_the_budget(void **state)
{
    (void)state;
    fixture f;
    int64_t ids[3];
    begin(&f, 1000);
    make(&f);
    /* Room for about 20 blocks beside what the engine and its bookkeeping hold. */
    mica_set_memory_limit(drive_bytes() + 20 * PAGE + 60000, false);
    for (int i = 0; i < 3; i++) {
        f.request.tokens = f.prompt + 30 * i;
        ids[i] = drive_submit(&f.d, &f.request);
    }
    f.d.fragile = true;
    drive_finish(&f.d);
    mica_set_memory_limit(0, false);
    for (int i = 0; i < 3; i++)
        assert_greedy(&f, drive_find(&f.d, ids[i], 0), f.prompt + 30 * i, 64, 120);
    end(&f);
}

static void window_blocks_behind_the_window_are_given_back(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 8); /* 8 blocks are 128 tokens; a window of 32 needs at most 7 with chunks of 64 */
    f.model.stepper.pools[0] = (mica__pool_spec){MICA__POOL_WINDOW, 32, PAGE};
    make(&f);
    f.request.n_tokens = 400;
    f.request.max_tokens = 300;
    const int64_t id = drive_submit(&f.d, &f.request);
    drive_finish(&f.d);
    assert_greedy(&f, drive_find(&f.d, id, 0), f.prompt, 400, 300);
    end(&f);
}

static void tight_budget_makes_chunks_smaller(void **state)
{
    (void)state;
    /* A window of 32 and one token: 31 positions before it and up to 15 more, 4 blocks at most. */
    for (int64_t n_blocks = 4; n_blocks <= 8; n_blocks++) {
        fixture f;
        begin(&f, n_blocks);
        f.model.stepper.pools[0] = (mica__pool_spec){MICA__POOL_WINDOW, 32, PAGE};
        make(&f);
        f.request.n_tokens = 400;
        f.request.max_tokens = 10;
        const int64_t id = drive_submit(&f.d, &f.request);
        drive_finish(&f.d);
        assert_greedy(&f, drive_find(&f.d, id, 0), f.prompt, 400, 10);
        end(&f);
    }
}

/* --- a model that fails ----------------------------------------------------------------------- */

static void model_without_memory_for_a_large_step_gets_smaller_ones(void **state)
{
    (void)state;
    fixture f;
    int64_t ids[5];
    begin(&f, 100);
    make(&f);
    f.model.fail_above = 3;
    for (int i = 0; i < 5; i++)
        ids[i] = drive_submit(&f.d, &f.request);
    drive_finish(&f.d);
    for (int i = 0; i < 5; i++)
        assert_greedy(&f, drive_find(&f.d, ids[i], 0), f.prompt, 64, 120);
    assert_true(f.model.largest_step <= 3);
    end(&f);
}

static void model_that_recovers_gets_large_steps_again(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 100);
    make(&f);
    f.model.fail_from = 1;
    f.model.fail_count = 6; /* 64 tokens down to 1 */
    f.model.fail_status = MICA_E_MEMORY;
    f.request.n_tokens = 512;
    const int64_t id = drive_submit(&f.d, &f.request);
    drive_finish(&f.d);
    assert_greedy(&f, drive_find(&f.d, id, 0), f.prompt, 512, 120);
    assert_true(f.model.largest_step >= 32);
    end(&f);
}

static void model_without_memory_for_one_token_ends_with_memory(void **state)
{
    (void)state;
    fixture f;
    int64_t ids[3];
    begin(&f, 100);
    make(&f);
    for (int i = 0; i < 3; i++)
        ids[i] = drive_submit(&f.d, &f.request);
    for (int i = 0; i < 10; i++)
        drive_step(&f.d);
    f.model.fail_from = f.model.n_calls + 1;
    f.model.fail_count = INT64_MAX / 2;
    f.d.fragile = true;
    f.model.fail_status = MICA_E_MEMORY;
    drive_finish(&f.d);
    for (int i = 0; i < 3; i++) {
        const drive_output *output = drive_find(&f.d, ids[i], 0);
        assert_int_equal(output->last.reason, MICA_FINISH_MEMORY);
        assert_non_null(strstr(output->message, "on purpose"));
        assert_greedy(&f, output, f.prompt, 64, output->n);
    }
    end(&f);
}

static void failing_step_ends_its_members_and_nobody_else(void **state)
{
    (void)state;
    fixture f;
    int64_t ids[4];
    begin(&f, 100);
    f.options.max_sequences = 2;
    make(&f);
    for (int i = 0; i < 4; i++)
        ids[i] = drive_submit(&f.d, &f.request);
    for (int i = 0; i < 10; i++)
        drive_step(&f.d);
    f.model.fail_from = f.model.n_calls + 1;
    f.model.fail_count = 1;
    f.model.fail_status = MICA_E_DEVICE;
    drive_finish(&f.d);
    for (int i = 0; i < 4; i++) {
        const drive_output *output = drive_find(&f.d, ids[i], 0);
        assert_int_equal(output->last.reason, i < 2 ? MICA_FINISH_ERROR : MICA_FINISH_LENGTH);
        assert_int_equal(output->last.status, i < 2 ? MICA_E_DEVICE : MICA_OK);
        if (i < 2)
            assert_non_null(strstr(output->message, "on purpose"));
        assert_greedy(&f, output, f.prompt, 64, i < 2 ? output->n : 120);
    }
    end(&f);
}

/* --- allocations that fail -------------------------------------------------------------------- */

/* Makes an engine and runs three requests to their ends. Output is right as far as it goes, and
 * complete where the sequence says so. Returns how many calls could have failed. */
static int64_t run_all(fixture *f)
{
    int64_t ids[3] = {0};
    if (mica__engine_new(&f->model.stepper, &f->options, &f->engine) != MICA_OK) {
        assert_null(f->engine);
        return mica__fault_hits();
    }
    drive_open(&f->d, f->engine, 64);
    f->d.fragile = true;
    for (int i = 0; i < 3; i++) {
        f->request.tokens = f->prompt + 10 * i;
        if (mica_engine_submit(f->engine, &f->request, &ids[i]) != MICA_OK)
            ids[i] = 0;
    }
    for (int64_t steps = 0; mica_engine_pending(f->engine) > 0 && steps < 2000; steps++)
        drive_step(&f->d);
    const int64_t hits = mica__fault_hits();
    mica__fault_after(0, false);
    drive_finish(&f->d); /* where there was no memory even for events */
    for (int i = 0; i < 3; i++) {
        if (ids[i] == 0)
            continue;
        const drive_output *output = drive_find(&f->d, ids[i], 0);
        assert_int_equal(output->n_finished, 1);
        if (output->last.reason != MICA_FINISH_LENGTH)
            assert_true(output->last.reason == MICA_FINISH_MEMORY ||
                        output->last.reason == MICA_FINISH_ERROR);
        assert_greedy(f, output, f->prompt + 10 * i, 64,
                      output->last.reason == MICA_FINISH_LENGTH ? 120 : output->n);
    }
    end(f);
    return hits;
}

static void every_failing_allocation_leaves_all_in_order(void **state)
{
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++)
        for (int64_t n = 1;; n++) {
            fixture f;
            begin(&f, 22);
            fake_add_pool(&f.model, MICA__POOL_WINDOW, 32, 200);
            fake_add_pool(&f.model, MICA__POOL_STATE, 0, 24);
            f.options.kv_memory += 2 * PAGE;
            f.request.sampling.dry_multiplier = 0.0001f; /* wants scratch, changes nothing */
            mica__fault_after(n, sticky);
            const int64_t hits = run_all(&f);
            mica__fault_after(0, false);
            assert_int_equal(drive_bytes(), f.bytes_before);
            if (hits < n) {
                assert_true(n > 50);
                break;
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(youngest_is_paused_and_resumed_and_nothing_is_lost),
        cmocka_unit_test(lone_sequence_that_outgrows_the_budget_keeps_what_it_has),
        cmocka_unit_test(prompt_larger_than_the_budget_is_refused_with_the_numbers),
        cmocka_unit_test(paused_sequence_that_only_just_fits_alone_still_ends),
        cmocka_unit_test(strict_admission_never_pauses),
        cmocka_unit_test(process_wide_limit_pauses_and_evicts_like_the_budget),
        cmocka_unit_test(window_blocks_behind_the_window_are_given_back),
        cmocka_unit_test(tight_budget_makes_chunks_smaller),
        cmocka_unit_test(model_without_memory_for_a_large_step_gets_smaller_ones),
        cmocka_unit_test(model_that_recovers_gets_large_steps_again),
        cmocka_unit_test(model_without_memory_for_one_token_ends_with_memory),
        cmocka_unit_test(failing_step_ends_its_members_and_nobody_else),
        cmocka_unit_test(every_failing_allocation_leaves_all_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
