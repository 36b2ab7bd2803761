/* workers_test.c - the worker pool: every worker once, barriers, order of callers, refused threads.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/alloc.h"
#include "base/workers.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

static const int counts[] = {1, 2, 3, 7};

static int64_t held_by_threads(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.by_kind[MICA_MEMORY_THREADS];
}

/* --- every worker once ------------------------------------------------------------------------ */

typedef struct roll_call {
    int called[8]; /* plain on purpose: run must order these writes before its return */
    int n_workers[8];
} roll_call;

static void answer(void *user, int worker, int n_workers)
{
    roll_call *roll = user;
    roll->called[worker]++;
    roll->n_workers[worker] = n_workers;
}

static void every_worker_runs_exactly_once_per_run(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        mica__workers *workers;
        assert_ok(mica__workers_new(counts[c], &workers));
        assert_int_equal(mica__workers_count(workers), counts[c]);
        roll_call roll = {0};
        for (int run = 1; run <= 1000; run++) {
            mica__workers_run(workers, answer, &roll);
            for (int w = 0; w < 8; w++) {
                assert_int_equal(roll.called[w], w < counts[c] ? run : 0);
                assert_int_equal(roll.n_workers[w], w < counts[c] ? counts[c] : 0);
            }
        }
        mica__workers_free(workers);
    }
}

/* --- barriers --------------------------------------------------------------------------------- */

typedef struct relay {
    mica__workers *workers;
    int rounds;
    int64_t value[8]; /* plain: the barriers must order them */
    atomic_int wrong;
} relay;

/* Each round every worker sets its value from its left neighbour's value of the round before; two
 * barriers keep reading and writing apart. Hand calculation: after r rounds all hold r. */
static void pass_on(void *user, int worker, int n_workers)
{
    relay *r = user;
    for (int round = 0; round < r->rounds; round++) {
        const int64_t left = r->value[(worker + n_workers - 1) % n_workers];
        if (left != round)
            atomic_fetch_add(&r->wrong, 1);
        mica__workers_barrier(r->workers, worker);
        r->value[worker] = left + 1;
        mica__workers_barrier(r->workers, worker);
    }
}

static void check_barriers(int n_workers, int n_barriers)
{
    relay r = {.rounds = n_barriers / 2};
    assert_ok(mica__workers_new(n_workers, &r.workers));
    mica__workers_run(r.workers, pass_on, &r);
    assert_int_equal(atomic_load(&r.wrong), 0);
    for (int w = 0; w < n_workers; w++)
        assert_int_equal(r.value[w], r.rounds);
    mica__workers_free(r.workers);
}

static void a_hundred_thousand_barriers_keep_workers_in_step(void **state)
{
    (void)state;
    check_barriers(1, 100000);
    check_barriers(2, 100000);
}

static void barriers_hold_with_more_workers_than_processors(void **state)
{
    (void)state;
    check_barriers(3, 20000);
    check_barriers(7, 20000);
}

/* --- callers ---------------------------------------------------------------------------------- */

typedef struct counter_job {
    mica__workers *workers;
    int64_t total;  /* plain: runs of different callers must not overlap */
    int64_t own[8]; /* per worker */
} counter_job;

static void count_once(void *user, int worker, int n_workers)
{
    (void)n_workers;
    counter_job *job = user;
    job->own[worker]++;
    mica__workers_barrier(job->workers, worker);
    if (worker == 0)
        job->total++;
}

static void *call_often(void *user)
{
    counter_job *job = user;
    for (int i = 0; i < 500; i++)
        mica__workers_run(job->workers, count_once, job);
    return NULL;
}

static void runs_of_concurrent_callers_do_not_overlap(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        counter_job job = {0};
        assert_ok(mica__workers_new(counts[c], &job.workers));
        pthread_t callers[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&callers[i], NULL, call_often, &job), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(callers[i], NULL);
        assert_int_equal(job.total, 2000);
        for (int w = 0; w < counts[c]; w++)
            assert_int_equal(job.own[w], 2000);
        assert_int_equal(mica__workers_callers(job.workers), 0);
        mica__workers_free(job.workers);
    }
}

enum { N_CALLERS = 40 }; /* more than the 32 wake-up bits */

typedef struct queue_test {
    mica__workers *workers;
    atomic_int open;
    int served; /* plain: runs are serial */
    int order[N_CALLERS];
} queue_test;

typedef struct caller {
    queue_test *test;
    int index;
} caller;

static void hold_until_open(void *user, int worker, int n_workers)
{
    (void)n_workers;
    queue_test *test = user;
    while (worker == 0 && !atomic_load(&test->open))
        sched_yield();
}

static void *hold(void *user)
{
    queue_test *test = user;
    mica__workers_run(test->workers, hold_until_open, test);
    return NULL;
}

static void note_order(void *user, int worker, int n_workers)
{
    (void)n_workers;
    caller *c = user;
    if (worker == 0)
        c->test->order[c->test->served++] = c->index;
}

static void *call_once(void *user)
{
    caller *c = user;
    mica__workers_run(c->test->workers, note_order, c);
    return NULL;
}

static void callers_are_served_in_the_order_of_their_calls(void **state)
{
    (void)state;
    queue_test test = {0};
    assert_ok(mica__workers_new(2, &test.workers));
    pthread_t holder, threads[N_CALLERS];
    caller callers[N_CALLERS];
    assert_int_equal(pthread_create(&holder, NULL, hold, &test), 0);
    while (mica__workers_callers(test.workers) < 1)
        sched_yield();
    for (int i = 0; i < N_CALLERS; i++) {
        callers[i] = (caller){&test, i};
        assert_int_equal(pthread_create(&threads[i], NULL, call_once, &callers[i]), 0);
        while (mica__workers_callers(test.workers) < i + 2)
            sched_yield();
    }
    atomic_store(&test.open, 1);
    pthread_join(holder, NULL);
    for (int i = 0; i < N_CALLERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(test.served, N_CALLERS);
    for (int i = 0; i < N_CALLERS; i++)
        assert_int_equal(test.order[i], i);
    mica__workers_free(test.workers);
}

/* --- resources -------------------------------------------------------------------------------- */

static void a_refused_thread_leaves_nothing_behind(void **state)
{
    (void)state;
    const int64_t before = held_by_threads();
    int64_t n = 1;
    for (;; n++) {
        assert_true(n < 100);
        mica__workers *workers;
        mica__fault_after(n, false);
        const mica_status status = mica__workers_new(7, &workers);
        mica__fault_after(0, false);
        if (status == MICA_OK) {
            mica__workers_free(workers);
            break;
        }
        assert_int_equal(status, MICA_E_MEMORY);
        assert_null(workers);
        assert_int_equal(held_by_threads(), before);
    }
    assert_int_equal(held_by_threads(), before);
    assert_int_equal(n, 14); /* the pool, and 6 times a stack and a thread, can fail */
}

static void stacks_are_counted_and_limited(void **state)
{
    (void)state;
    const int64_t before = held_by_threads();
    mica__workers *one, *four;
    assert_ok(mica__workers_new(1, &one));
    const int64_t alone = held_by_threads();
    assert_true(alone - before < 4096);
    mica_memory_usage usage;
    mica_memory_read(&usage);
    mica_set_memory_limit(usage.active + 3 * MICA__WORKERS_STACK_BYTES, false);
    assert_status(mica__workers_new(4, &four), MICA_E_MEMORY); /* no room for the guard pages */
    assert_int_equal(held_by_threads(), alone);
    mica_set_memory_limit(0, false);
    assert_ok(mica__workers_new(4, &four));
    assert_true(held_by_threads() - alone >= 3 * MICA__WORKERS_STACK_BYTES);
    assert_true(held_by_threads() - alone < 4 * MICA__WORKERS_STACK_BYTES);
    mica__workers_free(four);
    mica__workers_free(one);
    assert_int_equal(held_by_threads(), before);
}

static void impossible_counts_are_refused(void **state)
{
    (void)state;
    mica__workers *workers;
    assert_status(mica__workers_new(0, &workers), MICA_E_ARGUMENT);
    assert_status(mica__workers_new(-3, &workers), MICA_E_ARGUMENT);
    assert_status(mica__workers_new(MICA__WORKERS_MAX + 1, &workers), MICA_E_ARGUMENT);
    mica__workers_free(NULL);
}

/* --- surroundings ----------------------------------------------------------------------------- */

typedef struct surroundings {
    int rounding[8];
    int blocked[8]; /* SIGINT and SIGTERM, not SIGSEGV */
} surroundings;

static void look_around(void *user, int worker, int n_workers)
{
    (void)n_workers;
    surroundings *seen = user;
    seen->rounding[worker] = fegetround();
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    seen->blocked[worker] = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) &&
                            !sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGBUS);
}

static void threads_take_no_signals(void **state)
{
    (void)state;
    mica__workers *workers;
    assert_ok(mica__workers_new(3, &workers));
    surroundings seen = {0};
    mica__workers_run(workers, look_around, &seen);
    assert_int_equal(seen.blocked[0], 0); /* the caller's own mask is not touched */
    assert_int_equal(seen.blocked[1], 1);
    assert_int_equal(seen.blocked[2], 1);
    mica__workers_free(workers);
}

/* 1 + 2^-24 is half way between two floats: 1 to nearest even, the next float upwards. */
static void add_half_a_step(void *user, int worker, int n_workers)
{
    (void)n_workers;
    volatile float one = 1.0f, half_step = 0x1p-24f;
    volatile float tiny = 0x1p-126f;
    ((float *)user)[2 * worker] = one + half_step;
    ((float *)user)[2 * worker + 1] = tiny * 0.5f;
}

static void bodies_round_to_nearest_whatever_the_caller_has_set(void **state)
{
    (void)state;
    mica__workers *workers;
    fesetround(FE_UPWARD);
    const mica_status status = mica__workers_new(3, &workers);
    float sums[6] = {0};
    if (status == MICA_OK)
        mica__workers_run(workers, add_half_a_step, sums);
    const int after = fegetround();
    fesetround(FE_TONEAREST);
    assert_ok(status);
    assert_int_equal(after, FE_UPWARD);
    for (int w = 0; w < 3; w++) {
        assert_true(sums[2 * w] == 1.0f);
        assert_true(sums[2 * w + 1] == 0x1p-127f);
    }
    mica__workers_free(workers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_runs_exactly_once_per_run),
        cmocka_unit_test(a_hundred_thousand_barriers_keep_workers_in_step),
        cmocka_unit_test(barriers_hold_with_more_workers_than_processors),
        cmocka_unit_test(runs_of_concurrent_callers_do_not_overlap),
        cmocka_unit_test(callers_are_served_in_the_order_of_their_calls),
        cmocka_unit_test(a_refused_thread_leaves_nothing_behind),
        cmocka_unit_test(stacks_are_counted_and_limited),
        cmocka_unit_test(impossible_counts_are_refused),
        cmocka_unit_test(threads_take_no_signals),
        cmocka_unit_test(bodies_round_to_nearest_whatever_the_caller_has_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
