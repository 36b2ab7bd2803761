/* engine_stress_test.c - 32 requests at random against an engine with too little memory.
 *
 * Random arrivals, lengths, shared prefixes, choices, sampling, stop tokens, cancels, pools, block
 * sizes, budgets, chunk sizes and admission; with allocation and model failures in some rounds, and
 * cancels from another thread in others. Every sequence ends; its output is what the same request
 * gives alone in an engine with memory enough, all of it unless it ended early by a named cause;
 * and no block is lost. The same over tiny real decoders, where paged attention reads what was
 * paused, resumed and recycled. Each round is one seed, named in the message of a failure.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <mica/model.h>

#include "engine/drive.h"
#include "models/model.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

#define N_REQUESTS 32

#if defined(__SANITIZE_THREAD__) /* ten times slower, and about threads */
#define N_ROUNDS      8
#define N_REAL_ROUNDS 1
#else
#define N_ROUNDS 30
#if defined(__SANITIZE_ADDRESS__) /* five times slower */
#define N_REAL_ROUNDS 1
#else
#define N_REAL_ROUNDS 5 /* one for each KV type */
#endif
#endif
#define MAX_CHOICES 3
#define CONTEXT     512

typedef enum round_kind { ROUND_PLAIN, ROUND_FAULTS, ROUND_THREADS } round_kind;

typedef struct planned {
    mica_request request;
    int32_t prompt[256];
    int32_t stop_token;
    int64_t arrival; /* step */
    int64_t cancel;  /* step, 0: never */
    int64_t id;      /* 0: refused */
    int64_t n_alone[MAX_CHOICES];
    int32_t alone[MAX_CHOICES][DRIVE_MAX_TOKENS];
    mica_finish_reason alone_reason[MAX_CHOICES];
} planned;

typedef struct round {
    uint64_t seed, random;
    round_kind kind;
    const char *path; /* of a real model, NULL: a fake one */
    mica_ctx *mc;     /* of the real model, one at a time */
    mica_model *opened;
    fake_model model; /* its stepper says what the round's model is, a real one too */
    mica_engine_options options;
    planned plan[N_REQUESTS];
    drive d;
    int64_t n_pauses, n_hits;
} round_state;

static uint64_t next_random(round_state *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return r->random * 0x2545f4914f6cdd1du >> 16;
}

static int64_t between(round_state *r, int64_t low, int64_t high)
{
    return low + (int64_t)(next_random(r) % (uint64_t)(high - low + 1));
}

static bool chance(round_state *r, int64_t percent)
{
    return between(r, 1, 100) <= percent;
}

/* --- the plan --------------------------------------------------------------------------------- */

static void choose_model(round_state *r)
{
    static const int64_t sizes[] = {200, 1000, 4096, 4096, 5000, 8192, 20480};
    fake_open(&r->model);
    r->model.stepper.max_tokens = between(r, 1, 100);
    r->model.stepper.max_sequences = between(r, 1, 32);
    r->model.stepper.context_length = CONTEXT;
    const int64_t shape = between(r, 0, 9);
    const int64_t full = sizes[between(r, 0, 6)], window = sizes[between(r, 0, 6)];
    if (shape != 0 && shape != 1)
        fake_add_pool(&r->model, MICA__POOL_FULL, 0, full);
    if (shape != 1 && shape != 2)
        fake_add_pool(&r->model, MICA__POOL_WINDOW, between(r, 1, 100), window);
    if (shape == 1 || shape > 6)
        fake_add_pool(&r->model, MICA__POOL_STATE, 0, between(r, 8, 6000));
    if (shape == 9)
        fake_add_pool(&r->model, MICA__POOL_WINDOW, between(r, 1, 300), full);
}

static void release_stepper(void *stepper)
{
    mica__model_stepper_free(stepper);
}

static void close_real(round_state *r)
{
    mica_model_close(r->opened);
    mica_close(r->mc);
    r->opened = NULL;
    r->mc = NULL;
}

/* A stepper over the real model with a number of threads. */
static void open_real(round_state *r, int threads, int64_t max_tokens, int64_t max_sequences,
                      mica__stepper *face)
{
    const mica_options options = {.threads = threads};
    const mica__stepper_options wanted = {.kv_dtype = (mica__kv_dtype)(r->seed % MICA__N_KV_DTYPES),
                                          .context = CONTEXT,
                                          .max_tokens = max_tokens,
                                          .max_sequences = max_sequences};
    mica__model_stepper *stepper;
    r->mc = mica_open(&options);
    assert_non_null(r->mc);
    assert_ok(mica_model_open(r->mc, r->path, NULL, &r->opened));
    assert_ok(mica__model_stepper_new(r->opened, &wanted, &stepper, face));
    face->release = release_stepper;
}

/* A budget of a few sequences' worth, so that pausing is needed; for a real model, of as many
 * as are admitted while they are short and do not fit when they have grown. */
static void choose_budget(round_state *r)
{
    int64_t a_sequence = 4 * 4096;
    for (int pool = 0; pool < r->model.stepper.n_pools; pool++) {
        const mica__pool_spec *spec = &r->model.stepper.pools[pool];
        const int64_t real = spec->kind == MICA__POOL_WINDOW ? 8 : CONTEXT / 16;
        const int64_t fake = spec->kind == MICA__POOL_STATE ? 2 : 22;
        a_sequence += spec->block_bytes * (r->path ? real : fake);
    }
    r->options.kv_memory = a_sequence * (r->path ? between(r, 60, 140) : between(r, 10, 120)) / 20;
}

static void choose_options(round_state *r)
{
    choose_budget(r);
    r->options.prefill_chunk = between(r, 1, 80);
    r->options.queue_limit = N_REQUESTS * MAX_CHOICES;
    if (chance(r, 15) && !r->path)
        r->options.admission = MICA_ADMISSION_STRICT;
    r->options.no_prefix_cache = chance(r, 15);
}

static void choose_sampling(round_state *r, mica_sampling *sampling)
{
    sampling->seed = next_random(r);
    if (chance(r, 40))
        return;
    sampling->temperature = (float)between(r, 1, 15) / 10;
    sampling->top_k = (int32_t)between(r, 0, 40);
    sampling->top_p = (float)between(r, 0, 10) / 10;
    sampling->repetition_penalty = chance(r, 50) ? 1.1f : 0;
    sampling->frequency_penalty = chance(r, 30) ? 0.1f : 0;
    sampling->dry_multiplier = chance(r, 30) ? 0.5f : 0;
}

static void choose_request(round_state *r, planned *p)
{
    const int64_t shared = between(r, 0, r->path ? 40 : 160);
    const int64_t n = between(r, 1, r->path ? 20 : 90);
    drive_prompt((uint64_t)between(r, 1, 4), p->prompt, shared);
    drive_prompt(next_random(r), p->prompt + shared, n);
    mica_request_init(&p->request);
    p->request.tokens = p->prompt;
    p->request.n_tokens = shared + n;
    p->request.max_tokens = chance(r, 10) ? 0 : chance(r, 15) ? -1 : between(r, 1, 350);
    p->request.n_choices = chance(r, 15) ? (int32_t)between(r, 2, MAX_CHOICES) : 1;
    if (chance(r, 20)) {
        p->stop_token = (int32_t)between(r, 0, 96);
        p->request.stop_tokens = &p->stop_token;
        p->request.n_stop_tokens = 1;
    }
    choose_sampling(r, &p->request.sampling);
    if (r->path) /* short when admitted, long later: what pausing is for */
        p->request.max_tokens = between(r, 100, 440);
    p->arrival = between(r, 0, r->path ? 30 : 150);
    p->cancel = chance(r, 12) ? p->arrival + between(r, 0, 200) : 0;
}

/* What each request gives alone, with memory enough, no cache, and every prompt in one chunk. */
static void run_alone(round_state *r)
{
    fake_model model = r->model;
    model.stepper.model = &model;
    model.stepper.max_tokens = 512;
    model.stepper.max_sequences = 4;
    if (r->path)
        open_real(r, 1, 512, 4, &model.stepper);
    drive d;
    mica_engine *engine;
    const mica_engine_options options = {.kv_memory = (int64_t)64 << 20, .no_prefix_cache = true};
    assert_ok(mica__engine_new(&model.stepper, &options, &engine));
    drive_open(&d, engine, N_REQUESTS * MAX_CHOICES);
    d.real = r->path != NULL;
    for (int i = 0; i < N_REQUESTS; i++) {
        planned *p = &r->plan[i];
        const int64_t id = drive_submit(&d, &p->request);
        drive_finish(&d);
        for (int32_t choice = 0; choice < p->request.n_choices; choice++) {
            const drive_output *output = drive_find(&d, id, choice);
            p->n_alone[choice] = output->n;
            p->alone_reason[choice] = output->last.reason;
            memcpy(p->alone[choice], output->tokens, (size_t)output->n * sizeof(int32_t));
        }
    }
    drive_close(&d);
    mica_engine_free(engine);
    close_real(r);
}

/* --- the run ---------------------------------------------------------------------------------- */

typedef struct canceller {
    mica_engine *engine;
    _Atomic int64_t last_id;
    _Atomic bool stop;
    uint64_t random;
} canceller;

static void *cancel_at_random(void *argument)
{
    canceller *c = argument;
    while (!atomic_load(&c->stop)) {
        c->random = c->random * 6364136223846793005u + 1442695040888963407u;
        const int64_t last = atomic_load(&c->last_id);
        if (last > 0 && (c->random >> 33) % 400 == 0)
            mica_engine_cancel(c->engine, 1 + (int64_t)((c->random >> 40) % (uint64_t)last));
        else if (c->random >> 63)
            mica_engine_cancel(c->engine, INT64_MAX);
        sched_yield();
    }
    return NULL;
}

static void submit_and_cancel(round_state *r, int64_t step)
{
    for (int i = 0; i < N_REQUESTS; i++) {
        planned *p = &r->plan[i];
        if (p->arrival == step) {
            const mica_status status = mica_engine_submit(r->d.engine, &p->request, &p->id);
            if (status != MICA_OK) {
                assert_int_equal(status, MICA_E_MEMORY);
                assert_int_equal(p->id, 0);
            }
        }
        if (p->cancel && p->cancel == step && p->id)
            mica_engine_cancel(r->d.engine, p->id);
    }
}

static void inject(round_state *r)
{
    if (chance(r, 20))
        mica__fault_after(between(r, 1, 12), chance(r, 10));
    else if (chance(r, 50))
        mica__fault_after(0, false);
    if (chance(r, 5)) {
        r->model.fail_from = r->model.n_calls + 1;
        r->model.fail_count = between(r, 1, 10);
        r->model.fail_status = chance(r, 80) ? MICA_E_MEMORY : MICA_E_DEVICE;
    }
}

static void run_together(round_state *r)
{
    canceller c = {.engine = r->d.engine, .random = r->seed};
    pthread_t thread;
    if (r->kind == ROUND_THREADS)
        assert_int_equal(pthread_create(&thread, NULL, cancel_at_random, &c), 0);
    for (int64_t step = 0; step <= 300 || mica_engine_pending(r->d.engine) > 0; step++) {
        if (step > 100000)
            fail_msg("seed %llu does not come to an end", (unsigned long long)r->seed);
        if (r->kind == ROUND_FAULTS && step < 5000)
            inject(r);
        else
            mica__fault_after(0, false);
        submit_and_cancel(r, step);
        atomic_store(&c.last_id, r->d.engine->last_id);
        drive_step(&r->d);
        const mica__kv_budget *budget = &r->d.engine->scheduler.store.budget;
        assert_true(budget->used <= budget->limit);
    }
    mica__fault_after(0, false);
    atomic_store(&c.stop, true);
    if (r->kind == ROUND_THREADS)
        pthread_join(thread, NULL);
}

static void check_output(const round_state *r, const planned *p, const drive_output *output)
{
    const int32_t choice = output->choice;
    const mica_finish_reason reason = output->last.reason;
    const bool complete = reason == MICA_FINISH_LENGTH || reason == MICA_FINISH_STOP;
    if (output->n_finished != 1 || output->n > p->n_alone[choice] ||
        (complete && output->n != p->n_alone[choice]) ||
        (complete && reason != p->alone_reason[choice]) ||
        memcmp(output->tokens, p->alone[choice], (size_t)output->n * sizeof(int32_t)) != 0)
        fail_msg("seed %llu, request %lld, choice %d (%s after %lld of %lld tokens, %lld pauses) "
                 "differs from running alone",
                 (unsigned long long)r->seed, (long long)p->id, (int)choice,
                 mica_finish_reason_name(reason), (long long)output->n,
                 (long long)p->n_alone[choice], (long long)output->n_paused);
    if (reason == MICA_FINISH_ERROR && r->kind != ROUND_FAULTS)
        fail_msg("seed %llu: %s", (unsigned long long)r->seed, output->message);
    if (reason == MICA_FINISH_CANCELLED && !p->cancel && r->kind != ROUND_THREADS)
        fail_msg("seed %llu: cancelled by nobody", (unsigned long long)r->seed);
}

static void check_round(round_state *r)
{
    mica_engine_stats stats;
    mica_engine_read_stats(r->d.engine, &stats);
    if (r->model.violation[0])
        fail_msg("seed %llu: %s", (unsigned long long)r->seed, r->model.violation);
    for (int i = 0; i < N_REQUESTS; i++)
        for (int32_t choice = 0; r->plan[i].id && choice < r->plan[i].request.n_choices; choice++)
            check_output(r, &r->plan[i], drive_find(&r->d, r->plan[i].id, choice));
    assert_true(stats.kv_peak <= stats.kv_limit);
    assert_int_equal(stats.waiting + stats.running + stats.paused, 0);
    if (r->options.admission == MICA_ADMISSION_STRICT && r->kind != ROUND_FAULTS)
        assert_int_equal(stats.pauses, 0);
    r->n_pauses += stats.pauses;
    r->n_hits += stats.cached_tokens;
    drive_check_empty(r->d.engine);
}

/* One seed: the plan, everybody alone, all together. */
static void run_round(round_state *r, round_kind kind, uint64_t seed, const char *path)
{
    const int64_t bytes_before = drive_bytes();
    mica_engine *engine;
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->seed = seed;
    r->path = path;
    r->random = seed * 0x9e3779b97f4a7c15u + 77;
    choose_model(r);
    if (path) { /* its pools decide the budget */
        mica__stepper face;
        open_real(r, 1, 1, 1, &face);
        r->model.stepper.n_pools = face.n_pools;
        memcpy(r->model.stepper.pools, face.pools, sizeof face.pools);
        r->model.stepper.max_sequences = between(r, 16, 32);
        face.release(face.model);
        close_real(r);
    }
    choose_options(r);
    for (int i = 0; i < N_REQUESTS; i++)
        choose_request(r, &r->plan[i]);
    run_alone(r);
    if (path)
        open_real(r, 1 + (int)(seed % 2), r->model.stepper.max_tokens,
                  r->model.stepper.max_sequences, &r->model.stepper);
    assert_ok(mica__engine_new(&r->model.stepper, &r->options, &engine));
    drive_open(&r->d, engine, N_REQUESTS * MAX_CHOICES);
    r->d.fragile = kind == ROUND_FAULTS;
    r->d.real = path != NULL;
    run_together(r);
    check_round(r);
    drive_close(&r->d);
    mica_engine_free(engine);
    close_real(r);
    assert_int_equal(drive_bytes(), bytes_before);
}

/* Returns how often somebody was paused. */
static int64_t run_rounds(round_kind kind, uint64_t first, uint64_t n, const char *path)
{
    round_state *r = malloc(sizeof *r);
    int64_t n_pauses = 0, n_hits = 0;
    assert_non_null(r);
    for (uint64_t seed = first; seed < first + n; seed++) {
        run_round(r, kind, seed, path);
        n_pauses += r->n_pauses;
        n_hits += r->n_hits;
    }
    print_message("%llu rounds: %lld pauses, %lld tokens from the cache\n", (unsigned long long)n,
                  (long long)n_pauses, (long long)n_hits);
    if (n > 1 && kind != ROUND_THREADS) /* or the rounds test nothing */
        assert_true(n_hits > (int64_t)n * 50);
    free(r);
    return n_pauses;
}

static void random_load_gives_what_each_request_gives_alone(void **state)
{
    (void)state;
    assert_true(run_rounds(ROUND_PLAIN, 1, N_ROUNDS, NULL) > N_ROUNDS);
}

static void faults_at_random_lose_no_block_and_change_no_token(void **state)
{
    (void)state;
    assert_true(run_rounds(ROUND_FAULTS, 1001, N_ROUNDS, NULL) > N_ROUNDS);
}

static void cancels_from_another_thread_are_safe(void **state)
{
    (void)state;
    run_rounds(ROUND_THREADS, 2001, 12, NULL);
}

static int64_t run_real_rounds(round_kind kind, uint64_t first, uint64_t n, const char *name,
                               mica__block_format format)
{
    char *dir = temp_dir_new(), path[4096];
    tiny_model_file(dir, name, format, path, sizeof path);
    const int64_t n_pauses = run_rounds(kind, first, n, path);
    temp_dir_remove(dir);
    return n_pauses;
}

/* All layers keep everything, or most slide: those grow little, and hardly pause. Both have heads
 * for every KV type. */
static void real_decoders_give_what_each_request_gives_alone(void **state)
{
    (void)state;
    assert_true(run_real_rounds(ROUND_PLAIN, 3001, N_REAL_ROUNDS, "qwen3", MICA__Q8_0) >
                N_REAL_ROUNDS);
#if !defined(__SANITIZE_THREAD__) /* a minute each there */
    run_real_rounds(ROUND_PLAIN, 3101, N_REAL_ROUNDS, "gemma3_text", MICA__Q4_0);
#endif
}

static void faults_change_no_token_of_real_decoders(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* minutes, with the threads of the test before */
#endif
    assert_true(run_real_rounds(ROUND_FAULTS, 4001, 2, "gemma3_text", MICA__Q4_0) > 2);
    assert_true(run_real_rounds(ROUND_FAULTS, 4101, 2, "qwen3", MICA__Q8_0) > 2);
}

int main(int argc, char **argv)
{
    if (argc >= 3) { /* KIND SEED [MODEL]: one round again, over the fake model or a real one */
        run_rounds((round_kind)strtol(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), 1,
                   argc > 3 ? argv[3] : NULL);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_load_gives_what_each_request_gives_alone),
        cmocka_unit_test(faults_at_random_lose_no_block_and_change_no_token),
        cmocka_unit_test(cancels_from_another_thread_are_safe),
        cmocka_unit_test(real_decoders_give_what_each_request_gives_alone),
        cmocka_unit_test(faults_change_no_token_of_real_decoders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
