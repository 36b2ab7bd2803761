/* context_threads_test.c - contexts on several threads at once: one runtime, no shared graphs,
 * evaluated arrays read by all. Made to be run under ThreadSanitizer.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <pthread.h>
#include <stdlib.h>

#include <mica/mica.h>

#include "core/graph.h"

enum { THREADS = 3, ROUNDS = 40 };

typedef struct job {
    pthread_t id;
    int number;
    mica_array *shared; /* evaluated by the main thread: 0 1 2 ... 63 */
    const char *failed; /* what went wrong, NULL: nothing */
} job;

/* cmocka's assertions belong to the main thread: here the first failure is kept. */
#define REQUIRE(job, condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (job)->failed = #condition;                                                            \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

static void *evaluate_over_and_over(void *argument)
{
    job *self = argument;
    mica_ctx *mc = mica_open(NULL);
    if (!mc) {
        self->failed = "mica_open";
        return NULL;
    }
    for (int round = 0; round < ROUNDS; round++) {
        mica_scope *scope = mica_scope_push(mc);
        mica_array *two = mica_scalar(mc, 2 + self->number, MICA_F32);
        mica_array *grid = mica_reshape(mica_multiply(self->shared, two), MICA_SHAPE(8, 8));
        mica_array *product = mica_matmul(grid, mica_transpose(grid, 0, NULL));
        mica_array *row = mica_sum(product, 1, false), *own = mica_add(self->shared, self->shared);
        REQUIRE(self, own && own->ctx == mc); /* recorded here, not where the operand was made */
        REQUIRE(self, mica_eval_all(mc, row, own) == MICA_OK);
        /* sum over i of (sum over k of s (8 i + k) s (8 j + k)): by hand */
        for (int j = 0; j < 8; j++) {
            double want = 0;
            for (int i = 0; i < 8; i++)
                for (int k = 0; k < 8; k++)
                    want += (8.0 * i + k) * (8.0 * j + k);
            want *= (2.0 + self->number) * (2.0 + self->number);
            REQUIRE(self, ((const float *)mica_data(row))[j] == (float)want);
        }
        REQUIRE(self, ((const float *)mica_data(own))[63] == 126);
        mica_release(mica_keep(self->shared));
        REQUIRE(self, mica_item_f64(mica_max(self->shared, 1, false)) == 63);
        REQUIRE(self,
                !mica_matmul(self->shared, grid) && *mica_error(mc)); /* an error of its own */
        mica_clear_error(mc);
        REQUIRE(self, mica_counters_read(mc).programs_run > 0);
        mica_scope_pop(scope);
    }
out:
    mica_close(mc);
    return NULL;
}

static void run_jobs(void *(*body)(void *), mica_array *shared)
{
    job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.number = i, .shared = shared};
        assert_int_equal(pthread_create(&jobs[i].id, NULL, body, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(jobs[i].id, NULL);
    for (int i = 0; i < THREADS; i++)
        if (jobs[i].failed)
            fail_msg("thread %d: %s", i, jobs[i].failed);
}

static void contexts_evaluate_at_the_same_time(void **state)
{
    (void)state;
    const mica_options options = {.threads = 2};
    mica_ctx *mc = mica_open(&options);
    assert_non_null(mc);
    mica_array *shared = mica_arange(mc, 0, 64, 1, MICA_F32);
    assert_ok(mica_eval(mc, 1, &shared));
    run_jobs(evaluate_over_and_over, shared);
    assert_string_equal(mica_error(mc), "");
    assert_int_equal(shared->refs, 1);
    mica_close(mc);
}

static void *open_use_close(void *argument)
{
    job *self = argument;
    for (int round = 0; round < ROUNDS / 2; round++) {
        mica_ctx *mc = mica_open(NULL);
        REQUIRE(self, mc);
        mica_array *x = mica_keep(mica_ones(mc, MICA_SHAPE(5), MICA_F32));
        mica_array *sum = mica_sum(x, 1, false);
        const bool right = mica_item_f64(sum) == 5;
        mica_release(x);
        mica_close(mc);
        REQUIRE(self, right);
    }
out:
    return NULL;
}

/* The runtime is born and dies as contexts come and go. */
static void contexts_come_and_go(void **state)
{
    (void)state;
    mica_memory_usage before, after;
    mica_memory_read(&before);
    run_jobs(open_use_close, NULL);
    mica_memory_read(&after);
    assert_int_equal(after.active, before.active);
}

typedef struct handed {
    mica_ctx *mc;
    double value;
} handed;

static void *use_a_handed_context(void *argument)
{
    handed *self = argument;
    mica_array *x = mica_full(self->mc, MICA_SHAPE(3), 2, MICA_F32);
    self->value = mica_item_f64(mica_sum(mica_exp(x), MICA_ALL_AXES, false));
    return NULL;
}

/* A context may move to another thread as a whole, one that opened none. */
static void a_context_can_be_handed_to_a_thread(void **state)
{
    (void)state;
    const mica_options options = {.threads = 2};
    handed it = {.mc = mica_open(&options)};
    pthread_t id;
    assert_non_null(it.mc);
    assert_int_equal(pthread_create(&id, NULL, use_a_handed_context, &it), 0);
    pthread_join(id, NULL);
    assert_float_equal(it.value, 3 * 7.38905609893065, 1e-5);
    mica_close(it.mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_evaluate_at_the_same_time),
        cmocka_unit_test(contexts_come_and_go),
        cmocka_unit_test(a_context_can_be_handed_to_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
