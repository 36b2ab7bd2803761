/* model_faults_test.c - every allocation of opening a model, of a whole generation, and of
 * compiling and running a program fails in turn.
 *
 * Once alone and once with all behind it. Nothing crashes or leaks: every kind of memory returns to
 * its start. What was there before stays usable and gives the bits it gave.
 * Test labels: noarm64
 * Test timeout: 900
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include "base/alloc.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* ten times slower */
#define STRIDE 7
#else
#define STRIDE 1
#endif

enum { PROMPT = 20, OUTPUT = 3 };

static const char *path; /* of the model under test */

static mica_ctx *open_context(void)
{
    const mica_options options = {.threads = 2};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("%s", mica_last_error());
    return mc;
}

/* Fails unless every kind holds what it held; kept buffers may come and go where `pool`. */
static void expect_returned(const mica_memory_usage *before, bool pool, const char *what, int64_t n)
{
    mica_memory_usage after;
    mica_memory_read(&after);
    for (int k = 0; k < MICA_MEMORY_N_KINDS; k++)
        if (after.by_kind[k] != before->by_kind[k] && !(pool && k == MICA_MEMORY_POOL))
            fail_msg("%s, allocation %lld failed: %lld bytes of %s are left", what, (long long)n,
                     (long long)(after.by_kind[k] - before->by_kind[k]),
                     mica_memory_kind_name((mica_memory_kind)k));
    assert_int_equal(after.mapped, before->mapped);
}

/* Ends one attempt: its status must be OK or MEMORY. True when no allocation was left to fail. */
static bool was_the_last(mica_status status, int64_t n, const char *what)
{
    const int64_t hits = mica__fault_hits();
    mica__fault_after(0, false);
    if (status != MICA_OK && status != MICA_E_MEMORY)
        fail_msg("%s, allocation %lld failed: %s: %s", what, (long long)n, mica_status_name(status),
                 mica_last_error());
    if (hits < n)
        assert_int_equal(status, MICA_OK);
    return hits < n;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* A context keeps programs and buffers for the next time; its end gives back all there is. */
static void opening_fails_cleanly(bool sticky)
{
    bool last = false;
    for (int64_t n = 1; !last; n++) {
        mica_memory_usage before;
        mica_model *model = NULL;
        mica_memory_read(&before);
        mica_ctx *mc = open_context();
        mica__fault_after(n, sticky);
        const mica_status status = mica_model_open(mc, path, NULL, &model);
        last = was_the_last(status, n, "model_open");
        assert_true((status == MICA_OK) == (model != NULL));
        mica_model_close(model);
        mica_close(mc);
        expect_returned(&before, false, "model_open", n);
    }
}

/* --- generating ------------------------------------------------------------------------------- */

/* A whole generation; *tokens holds what came. The first failure is what comes back. */
static mica_status generate(mica_engine *engine, int32_t tokens[OUTPUT])
{
    int32_t ids[PROMPT];
    int64_t id;
    int n = 0, refusals = 0;
    mica_status status = MICA_OK;
    mica_request request;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 5 + i;
    mica_request_init(&request);
    request.tokens = ids;
    request.n_tokens = PROMPT;
    request.max_tokens = OUTPUT;
    request.ignore_end_tokens = true;
    request.logprobs = true;
    MICA_TRY(mica_engine_submit(engine, &request, &id));
    while (mica_engine_pending(engine) > 0) {
        mica_event event;
        const mica_status step = mica_engine_step(engine);
        status = status == MICA_OK ? step : status;
        if (step != MICA_OK && ++refusals == 3)
            mica__fault_after(0, false); /* there is memory again: it must go on */
        assert_true(refusals < 10);
        while (mica_engine_next_event(engine, &event)) {
            if (event.kind == MICA_EVENT_TOKEN && n < OUTPUT)
                tokens[n++] = event.token;
            if (event.kind == MICA_EVENT_FINISHED && event.reason != MICA_FINISH_LENGTH)
                status = event.status;
        }
    }
    return status;
}

static mica_status open_and_generate(mica_ctx *mc, int32_t tokens[OUTPUT])
{
    const mica_engine_options options = {.context = 64, .kv_memory = 4 << 20};
    mica_model *model;
    mica_engine *engine;
    MICA_TRY(mica_model_open(mc, path, NULL, &model));
    mica_status status = mica_engine_open(model, &options, &engine);
    if (status == MICA_OK)
        status = generate(engine, tokens);
    mica_engine_free(engine);
    mica_model_close(model);
    return status;
}

/* From the file to the last token. */
static void everything_fails_cleanly(bool sticky)
{
    int32_t want[OUTPUT], got[OUTPUT];
    mica_ctx *mc = open_context();
    assert_ok(open_and_generate(mc, want));
    mica_close(mc);
    bool last = false;
    for (int64_t n = 1; !last; n += STRIDE) {
        mica_memory_usage before;
        mica_memory_read(&before);
        mc = open_context();
        mica__fault_after(n, sticky);
        const mica_status status = open_and_generate(mc, got);
        last = was_the_last(status, n, "a generation");
        if (status == MICA_OK)
            assert_memory_equal(got, want, sizeof want);
        mica_close(mc);
        expect_returned(&before, false, "a generation", n);
    }
}

/* An engine whose generation failed generates the next time. */
static void engines_stay_usable(bool sticky)
{
    const mica_engine_options options = {.context = 64, .kv_memory = 4 << 20};
    int32_t want[OUTPUT], got[OUTPUT];
    bool last = false;
    for (int64_t n = 1; !last; n += STRIDE) {
        mica_memory_usage before;
        mica_memory_read(&before);
        mica_ctx *mc = open_context();
        mica_model *model;
        mica_engine *engine;
        assert_ok(mica_model_open(mc, path, NULL, &model));
        assert_ok(mica_engine_open(model, &options, &engine));
        mica__fault_after(n, sticky);
        last = was_the_last(generate(engine, got), n, "a generation");
        assert_ok(generate(engine, n == 1 ? want : got));
        assert_memory_equal(n == 1 ? want : got, want, sizeof want);
        mica_engine_free(engine);
        mica_model_close(model);
        mica_close(mc);
        expect_returned(&before, false, "a generation", n);
    }
}

/* --- programs --------------------------------------------------------------------------------- */

enum { ROWS = 24, COLUMNS = 32 };

/* A product, branches, a reduction. */
static mica_array *some_graph(mica_array *x, mica_array *w)
{
    mica_array *y = mica_matmul(x, mica_transpose(w, 0, NULL));
    mica_array *a = mica_multiply(mica_add(y, y), mica_sigmoid(y));
    return mica_subtract(mica_square(a), mica_sum(a, 1u << 1, true));
}

static void compile_and_run_fail_cleanly(bool sticky)
{
    static float data[COLUMNS * COLUMNS], want[ROWS * COLUMNS];
    mica_ctx *mc = open_context();
    for (int i = 0; i < COLUMNS * COLUMNS; i++)
        data[i] = (float)(i % 97) * 0.25f - 10.0f;
    mica_array *input = mica_from_data(mc, data, MICA_SHAPE(ROWS, COLUMNS), MICA_F32);
    mica_array *w = mica_from_data(mc, data, MICA_SHAPE(COLUMNS, COLUMNS), MICA_F32);
    mica_array *plain = some_graph(input, w),
               *x = mica_input(mc, MICA_SHAPE(ROWS, COLUMNS), MICA_F32);
    mica_array *y = some_graph(x, w);
    assert_ok(mica_eval_all(mc, plain));
    memcpy(want, mica_data(plain), sizeof want);
    bool last = false;
    for (int64_t n = 1; !last; n++) {
        mica_memory_usage before;
        mica_program *program = NULL;
        mica_array *out = NULL;
        mica_scope *scope = mica_scope_push(mc);
        assert_non_null(scope);
        mica_memory_read(&before);
        mica__fault_after(n, sticky);
        mica_status status = mica_compile(mc, 1, &x, 1, &y, &program);
        if (status == MICA_OK)
            status = mica_run(mc, program, &input, &out);
        last = was_the_last(status, n, "compile and run");
        if (status != MICA_OK && program) { /* it was the run that failed: it runs now */
            assert_null(out);
            assert_ok(mica_run(mc, program, &input, &out));
        }
        if (out)
            assert_memory_equal(mica_data(out), want, sizeof want);
        mica_program_free(program);
        mica_clear_error(mc);
        mica_scope_pop(scope);
        scope = mica_scope_push(mc); /* as `before` was read */
        expect_returned(&before, true, "compile and run", n);
        mica_scope_pop(scope);
    }
    mica_close(mc);
}

/* --- the models ------------------------------------------------------------------------------- */

static void over_both_files(void (*check)(bool sticky), const char *name)
{
    static const mica__block_format formats[] = {MICA__F32, MICA__Q4_0};
    for (int f = 0; f < 2; f++) {
        char *dir = temp_dir_new(), file[4096];
        tiny_model_file(dir, name, formats[f], file, sizeof file);
        path = file;
        check(false);
        check(true);
        path = NULL;
        temp_dir_remove(dir);
    }
}

static void a_model_opens_or_leaves_nothing(void **state)
{
    (void)state;
    over_both_files(opening_fails_cleanly, "llama");
    over_both_files(opening_fails_cleanly, "gemma3_text");
}

static void a_generation_comes_to_its_end_or_leaves_nothing(void **state)
{
    (void)state;
    over_both_files(everything_fails_cleanly, "gemma3_text");
}

static void an_engine_generates_after_a_failure(void **state)
{
    (void)state;
    over_both_files(engines_stay_usable, "qwen3");
}

static void a_program_compiles_and_runs_or_leaves_nothing(void **state)
{
    (void)state;
    compile_and_run_fail_cleanly(false);
    compile_and_run_fail_cleanly(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_opens_or_leaves_nothing),
        cmocka_unit_test(a_generation_comes_to_its_end_or_leaves_nothing),
        cmocka_unit_test(an_engine_generates_after_a_failure),
        cmocka_unit_test(a_program_compiles_and_runs_or_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
