/* engine_interrupt_test.c - a step of a real program ended from outside.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>

#include <mica/engine.h>

static mica_ctx *mc;
static mica_model *model;
static mica_engine *engine;
static const int32_t prompt[] = {5, 6, 7, 8};

static int open_all(void **state)
{
    (void)state;
    const char *path = shared_path("golden/models/llama-llama3rope-tied");
    mc = mica_open(NULL);
    assert_non_null(mc);
    if (!path)
        return 0;
    assert_ok(mica_model_open(mc, path, NULL, &model));
    assert_ok(mica_engine_open(model, NULL, &engine));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    mica_engine_free(engine);
    mica_model_close(model);
    mica_close(mc);
    return 0;
}

/* Runs to the end; the last event, and the tokens in *n_tokens. */
static mica_event finish(int64_t max_tokens, int64_t *n_tokens)
{
    mica_request request;
    mica_event event, last = {.reason = MICA_FINISH_NONE};
    int64_t id;
    *n_tokens = 0;
    mica_request_init(&request);
    request.tokens = prompt;
    request.n_tokens = 4;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    assert_ok(mica_engine_submit(engine, &request, &id));
    while (mica_engine_pending(engine) > 0) {
        assert_ok(mica_engine_step(engine));
        while (mica_engine_next_event(engine, &event)) {
            *n_tokens += event.kind == MICA_EVENT_TOKEN;
            last = event;
        }
    }
    return last;
}

static void the_next_step_obeys_and_the_one_after_it_does_not(void **state)
{
    (void)state;
    int64_t n;
    if (!engine)
        skip();
    mica_engine_interrupt(engine, true);
    mica_event last = finish(4, &n);
    assert_int_equal(last.reason, MICA_FINISH_CANCELLED);
    assert_int_equal(last.status, MICA_OK);
    assert_int_equal(n, 0);
    last = finish(4, &n);
    assert_int_equal(last.reason, MICA_FINISH_LENGTH);
    assert_int_equal(n, 4);
}

static void an_interrupt_can_be_forgotten(void **state)
{
    (void)state;
    int64_t n;
    if (!engine)
        skip();
    mica_engine_interrupt(engine, true);
    mica_engine_interrupt(engine, false);
    assert_int_equal(finish(4, &n).reason, MICA_FINISH_LENGTH);
}

static atomic_bool done;

static void *keep_interrupting(void *unused)
{
    (void)unused;
    while (!atomic_load(&done))
        mica_engine_interrupt(engine, true);
    return NULL;
}

static void interrupts_from_another_thread_cancel_and_break_nothing(void **state)
{
    (void)state;
    pthread_t thread;
    int64_t n, expected;
    if (!engine)
        skip();
    assert_int_equal(finish(200, &expected).reason, MICA_FINISH_LENGTH);
    assert_int_equal(pthread_create(&thread, NULL, keep_interrupting, NULL), 0);
    for (int i = 0; i < 20; i++) {
        const mica_finish_reason reason = finish(200, &n).reason;
        assert_true(reason == MICA_FINISH_CANCELLED || n == expected);
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    mica_engine_interrupt(engine, false);
    assert_int_equal(finish(200, &n).reason, MICA_FINISH_LENGTH);
    assert_int_equal(n, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_step_obeys_and_the_one_after_it_does_not),
        cmocka_unit_test(an_interrupt_can_be_forgotten),
        cmocka_unit_test(interrupts_from_another_thread_cancel_and_break_nothing),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
