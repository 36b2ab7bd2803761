/* step_memory_test.c - what steps of real decoders take: the predicted peak to the byte, arenas
 * close to the largest sum of live bytes, and a limit that is one byte short.
 *
 * Tiny models of every architecture, as float folders and as quantised GGUF files, and the built-in
 * model; every activation mode and KV type; steps of 1, 7, 64 tokens and of the most that a step
 * holds; 1, 2 and 7 threads.
 * Test labels: noarm64 noasan notsan
 * Test timeout: 900
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include <mica/mica.h>

#include "base/alloc.h"
#include "support/step_driver.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

enum { LARGEST = 200, CONTEXT = 256 };

/* --- the models ------------------------------------------------------------------------------- */

typedef struct source {
    char name[64];
    char path[4096];
    char *folder; /* NULL: not ours to remove */
    bool quantised;
} source;

static source sources[16];
static int n_sources;

static void add_tiny(const char *name, mica__block_format format)
{
    source *s = &sources[n_sources++];
    s->folder = temp_dir_new();
    s->quantised = format != MICA__F32;
    snprintf(s->name, sizeof s->name, "%s%s", name, s->quantised ? " quantised" : "");
    tiny_model_file(s->folder, name, format, s->path, sizeof s->path);
}

static int make_models(void **state)
{
    (void)state;
    for (int i = 0; tiny_model_name(i); i++) {
        add_tiny(tiny_model_name(i), MICA__F32);
        if (strcmp(tiny_model_name(i), "mistral") != 0) /* its GGUF would say llama */
            add_tiny(tiny_model_name(i), i % 2 ? MICA__Q8_0 : MICA__Q4_0);
    }
    source *s = &sources[n_sources++];
    snprintf(s->name, sizeof s->name, "built-in");
    snprintf(s->path, sizeof s->path, "%s/data/tales-19m.gguf", MICA_SOURCE_DIR);
    s->quantised = true;
    return 0;
}

static int remove_models(void **state)
{
    (void)state;
    for (int i = 0; i < n_sources; i++)
        if (sources[i].folder)
            temp_dir_remove(sources[i].folder);
    return 0;
}

static mica_model *open_model(mica_ctx *mc, const source *s, mica_activation_mode mode)
{
    const mica_model_options options = {.activations = mode};
    mica_model *model;
    assert_ok(mica_model_open(mc, s->path, &options, &model));
    return model;
}

/* False where the model's heads cannot be kept in this type. */
static bool has_kv(const mica_model *model, mica__kv_dtype kv)
{
    mica__decoder_pools pools;
    return mica__decoder_pools_of(&model->spec, kv, &pools) == MICA_OK;
}

/* Float weights are the same in both modes. */
static mica_activation_mode last_mode(const source *s)
{
    return s->quantised ? MICA_ACTIVATIONS_INT8 : MICA_ACTIVATIONS_F32;
}

/* --- the peak --------------------------------------------------------------------------------- */

static void draw_ids(int32_t *ids, int64_t n, int64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(4 + (i * 37 + seed * 11) % 250);
}

/* A step of n tokens of an empty sequence and what it took, besides the driver's own lists. */
static int64_t step_takes(step_driver *driver, const int32_t *ids, int64_t n, float *logits)
{
    mica_memory_usage before, after;
    mica_memory_reset_peak();
    mica_memory_read(&before);
    assert_ok(step_driver_feed(driver, 1, ids, n, logits));
    mica_memory_read(&after);
    step_driver_reset(driver, 1);
    assert_int_equal(after.active, before.active);
    return after.peak - before.active - mica__alloc_cost((size_t)(3 * n) * sizeof(int32_t));
}

static int check_peaks(const source *s, mica_model *model, mica__kv_dtype kv, int threads)
{
    static const int64_t counts[] = {1, 7, 64, LARGEST, 1, 33};
    int32_t ids[LARGEST];
    step_driver driver;
    assert_ok(step_driver_open(model, kv, 2, CONTEXT, LARGEST, &driver));
    float *logits = malloc((size_t)(LARGEST * driver.face.n_vocab) * sizeof *logits);
    assert_non_null(logits);
    for (int i = 0; i < 6; i++) {
        int64_t predicted;
        draw_ids(ids, counts[i], i);
        assert_ok(step_driver_feed(&driver, 1, ids, counts[i], logits)); /* compiles, checks */
        step_driver_reset(&driver, 1);
        assert_ok(mica__model_stepper_peak(driver.stepper, counts[i], &predicted));
        for (int repeat = 0; repeat < 2; repeat++) {
            const int64_t taken = step_takes(&driver, ids, counts[i], logits);
            if (taken != predicted)
                fail_msg("%s, KV %d, %d threads, %lld tokens: took %lld bytes, predicted %lld",
                         s->name, (int)kv, threads, (long long)counts[i], (long long)taken,
                         (long long)predicted);
        }
    }
    free(logits);
    step_driver_close(&driver);
    return 6;
}

static void steps_take_their_predicted_peak_to_the_byte(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 7};
    int n = 0;
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < n_sources; i++)
            for (int mode = MICA_ACTIVATIONS_F32; mode <= (int)last_mode(&sources[i]); mode++) {
                const mica_options options = {.threads = threads[t]};
                mica_ctx *mc = mica_open(&options);
                assert_non_null(mc);
                mica_model *model = open_model(mc, &sources[i], (mica_activation_mode)mode);
                for (int kv = 0; kv < MICA__N_KV_DTYPES; kv++)
                    if (has_kv(model, (mica__kv_dtype)kv))
                        n += check_peaks(&sources[i], model, (mica__kv_dtype)kv, threads[t]);
                mica_model_close(model);
                mica_close(mc);
            }
    print_message("%d peaks compared\n", n);
}

/* --- the arena -------------------------------------------------------------------------------- */

static int check_arenas(mica_ctx *mc, const source *s, mica_model *model, mica__kv_dtype kv)
{
    static const int64_t tokens[] = {1, 7, 32, 64, LARGEST, 512};
    static const int64_t blocks[] = {1, 16, 512};
    mica__decoder_pools pools;
    assert_ok(mica__decoder_pools_of(&model->spec, kv, &pools));
    for (int t = 0; t < 6; t++)
        for (int b = 0; b < 3; b++) {
            const mica__step_bounds bounds = {
                .tokens = tokens[t], .sequences = 32, .blocks = blocks[b]};
            mica_program *program;
            assert_ok(mica__decoder_compile(mc, &model->spec, &model->weights, &pools,
                                            model->activations, &bounds, &program));
            const mica_program_facts facts = mica_program_describe(program);
            if (facts.arena_bytes > facts.live_bytes + facts.live_bytes / 20 ||
                facts.arena_bytes < facts.live_bytes)
                fail_msg("%s, KV %d, %lld tokens, %lld blocks: an arena of %lld bytes for %lld",
                         s->name, (int)kv, (long long)tokens[t], (long long)blocks[b],
                         (long long)facts.arena_bytes, (long long)facts.live_bytes);
            mica_program_free(program);
        }
    return 18;
}

static void arenas_are_within_5_percent_of_the_live_bytes(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < n_sources; i++)
        for (int mode = MICA_ACTIVATIONS_F32; mode <= (int)last_mode(&sources[i]); mode++) {
            mica_ctx *mc = mica_open(NULL);
            assert_non_null(mc);
            mica_model *model = open_model(mc, &sources[i], (mica_activation_mode)mode);
            for (int kv = 0; kv < MICA__N_KV_DTYPES; kv++)
                if (has_kv(model, (mica__kv_dtype)kv))
                    n += check_arenas(mc, &sources[i], model, (mica__kv_dtype)kv);
            mica_model_close(model);
            mica_close(mc);
        }
    print_message("%d arenas compared\n", n);
}

/* --- one byte less ---------------------------------------------------------------------------- */

/* The refusal names what is needed, the limit and who holds what. */
static void expect_refusal(int64_t limit)
{
    char text[64];
    const char *message = mica_last_error();
    snprintf(text, sizeof text, "the memory limit is %lld", (long long)limit);
    if (!strstr(message, text) || !strstr(message, " needs ") || !strstr(message, "in use are") ||
        !strstr(message, "tables and requests ") || !strstr(message, "compiled programs "))
        fail_msg("the refusal says: %s", message);
}

static void check_limit(mica_model *model, mica__kv_dtype kv, int64_t n)
{
    int32_t ids[LARGEST];
    step_driver driver;
    mica_memory_usage usage;
    int64_t predicted;
    assert_ok(step_driver_open(model, kv, 2, CONTEXT, LARGEST, &driver));
    const size_t bytes = (size_t)(n * driver.face.n_vocab) * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    assert_non_null(want);
    assert_non_null(got);
    draw_ids(ids, n, 3);
    assert_ok(step_driver_feed(&driver, 0, ids, n, want));
    assert_ok(mica__model_stepper_peak(driver.stepper, n, &predicted));
    mica_memory_read(&usage);
    const int64_t need =
        usage.active + predicted + mica__alloc_cost((size_t)(3 * n) * sizeof(int32_t));
    mica_set_memory_limit(need - 1, false);
    assert_status(step_driver_feed(&driver, 1, ids, n, got), MICA_E_MEMORY);
    expect_refusal(need - 1);
    step_driver_reset(&driver, 1);
    mica_set_memory_limit(need, false);
    memset(got, 0xff, bytes);
    assert_ok(step_driver_feed(&driver, 1, ids, n, got));
    mica_set_memory_limit(0, false);
    assert_memory_equal(got, want, bytes);
    free(want);
    free(got);
    step_driver_close(&driver);
}

static void a_limit_one_byte_short_refuses_and_leaves_everything_usable(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 7, 64, LARGEST};
    for (int i = 0; i < n_sources; i++)
        for (int pool = 0; pool < 2; pool++) { /* without kept buffers, and with some to give up */
            const mica_options options = {.threads = 2, .pool_bytes = pool ? 0 : -1};
            mica_ctx *mc = mica_open(&options);
            assert_non_null(mc);
            mica_model *model = open_model(mc, &sources[i], last_mode(&sources[i]));
            for (int c = 0; c < 4; c++) {
                const mica__kv_dtype kv = (mica__kv_dtype)((i + c) % MICA__N_KV_DTYPES);
                check_limit(model, has_kv(model, kv) ? kv : MICA__KV_F16, counts[c]);
            }
            mica_model_close(model);
            mica_close(mc);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_take_their_predicted_peak_to_the_byte),
        cmocka_unit_test(arenas_are_within_5_percent_of_the_live_bytes),
        cmocka_unit_test(a_limit_one_byte_short_refuses_and_leaves_everything_usable),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
