/* step_programs_test.c - how often an engine compiles: once for each bucket and width of block
 * tables, and never again.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mica/engine.h>
#include <mica/mica.h>

#include "models/model.h"

static mica_ctx *mc;
static mica_model *model;
static char *folder;

/* A tiny model that knows 4,096 positions. */
static int open_all(void **state)
{
    static const char short_context[] = "\"max_position_embeddings\":1024";
    char path[512], text[8192];
    (void)state;
    folder = temp_dir_new();
    assert_ok(tiny_model_write(folder, "llama"));
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *at = strstr(text, short_context);
    assert_non_null(at);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.*s\"max_position_embeddings\":4096%s", (int)(at - text), text,
            at + strlen(short_context));
    fclose(file);
    mc = mica_open(NULL);
    assert_non_null(mc);
    assert_ok(mica_model_open(mc, folder, NULL, &model));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    mica_model_close(model);
    mica_close(mc);
    temp_dir_remove(folder);
    return 0;
}

static void submit(mica_engine *engine, int n_prompt, int max_tokens)
{
    int32_t *prompt = calloc((size_t)n_prompt, sizeof *prompt);
    mica_request request;
    int64_t id;
    assert_non_null(prompt);
    for (int i = 0; i < n_prompt; i++)
        prompt[i] = 5 + i * 7 % 200;
    mica_request_init(&request);
    request.tokens = prompt;
    request.n_tokens = n_prompt;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    assert_ok(mica_engine_submit(engine, &request, &id));
    free(prompt);
}

static int64_t compiled_by(mica_engine *engine)
{
    const int64_t before = mica_counters_read(mc).programs_compiled;
    mica_event event;
    while (mica_engine_pending(engine) > 0) {
        assert_ok(mica_engine_step(engine));
        while (mica_engine_next_event(engine, &event))
            assert_int_equal(event.status, MICA_OK);
    }
    return mica_counters_read(mc).programs_compiled - before;
}

static void growing_tables_compile_nothing(void **state)
{
    (void)state;
    mica_engine *engine;
    assert_ok(mica_engine_open(model, NULL, &engine));
    submit(engine, 40, 300);                  /* 22 blocks, tables of 64 */
    assert_int_equal(compiled_by(engine), 2); /* 40 tokens, one token */
    submit(engine, 25, 500);
    assert_int_equal(compiled_by(engine), 1); /* 25 tokens; one was there */
    submit(engine, 30, 20);
    submit(engine, 900, 300); /* past 1,024 tokens: tables of 128 */
    const int64_t wider = compiled_by(engine);
    assert_in_range(wider, 1, 3);
    submit(engine, 31, 40);
    submit(engine, 20, 600);
    submit(engine, 901, 300); /* short ones beside it: nothing flips */
    assert_in_range(compiled_by(engine), 0, 3 - wider);
    mica_engine_free(engine);
}

/* A plan holds for every width, not for the widest alone. */
static void the_planned_peak_covers_narrow_tables(void **state)
{
    (void)state;
    mica__model_stepper *stepper;
    mica__stepper face;
    mica__stepper_options options = {
        .kv_dtype = MICA__KV_F16, .max_tokens = 64, .max_sequences = 8};
    for (int64_t n = 1; n <= 64; n *= 8) {
        int64_t whole, narrow;
        options.context = 4096;
        assert_ok(mica__model_stepper_new(model, &options, &stepper, &face));
        assert_ok(mica__model_stepper_peak(stepper, n, &whole));
        mica__model_stepper_free(stepper);
        for (options.context = 256; options.context < 4096; options.context *= 2) {
            assert_ok(mica__model_stepper_new(model, &options, &stepper, &face));
            assert_ok(mica__model_stepper_peak(stepper, n, &narrow));
            mica__model_stepper_free(stepper);
            assert_true(narrow <= whole);
        }
    }
}

static void widths_are_powers_of_two_within_the_context(void **state)
{
    (void)state;
    assert_int_equal(mica__table_width(0, 512), 64);
    assert_int_equal(mica__table_width(64, 512), 64);
    assert_int_equal(mica__table_width(65, 512), 128);
    assert_int_equal(mica__table_width(300, 400), 400);
    assert_int_equal(mica__table_width(3, 16), 16);
    assert_int_equal(mica__table_width(17, 16), 17);
}

/* Counted for every place that a chunk can begin at in a block. */
static void windows_hold_as_many_blocks_as_their_worst_place(void **state)
{
    (void)state;
    for (int64_t window = 1; window < 80; window++)
        for (int64_t chunk = 1; chunk < 70; chunk++) {
            const mica__pool_spec spec = {MICA__POOL_WINDOW, window, 1};
            int64_t worst = 0;
            for (int64_t begin = 160; begin < 176; begin++) {
                const int64_t first = (160 - window + 1) / 16, last = (begin + chunk - 1) / 16;
                worst = last - first + 1 > worst ? last - first + 1 : worst;
            }
            assert_int_equal(mica__window_blocks(&spec, 1000, chunk), worst);
            assert_int_equal(mica__window_blocks(&spec, 20, chunk), worst < 2 ? worst : 2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_tables_compile_nothing),
        cmocka_unit_test(the_planned_peak_covers_narrow_tables),
        cmocka_unit_test(widths_are_powers_of_two_within_the_context),
        cmocka_unit_test(windows_hold_as_many_blocks_as_their_worst_place),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
