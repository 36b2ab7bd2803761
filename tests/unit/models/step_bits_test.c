/* step_bits_test.c - the logits of a decoder's steps have the same bits with any number of threads
 * and at every feature level of this machine.
 *
 * Tiny models of every architecture and the built-in model, whose products, norms and attention are
 * cut into many tasks; float and rounded activations; all KV types come up. A step of many tokens,
 * then steps of one behind it. Feature levels that the machine lacks are skipped, each visibly.
 * Test labels: noarm64 noasan notsan
 * Test timeout: 900
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include <mica/mica.h>

#include "base/cpu.h"
#include "support/step_driver.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

enum { PROMPT = 67, DECODED = 4, LENGTH = PROMPT + DECODED };

/* What MICA_ISA could say, by architecture. */
static const char *const levels[] = {"scalar",     "avx2",        "avx2-avxvnni",
                                     "avx512",     "avx512-vnni", "avx512-vnni-avxvnni",
                                     "avx512-amx", "neon",        "neon-dotprod"};
#define N_LEVELS ((int)(sizeof levels / sizeof *levels))

static const struct {
    const char *name; /* NULL: the built-in model */
    mica__block_format format;
    mica_activation_mode mode;
    mica__kv_dtype kv;
} variants[] = {
    {"llama", MICA__F32, MICA_ACTIVATIONS_F32, MICA__KV_F16},
    {"mistral", MICA__F32, MICA_ACTIVATIONS_F32, MICA__KV_BF16},
    {"qwen2", MICA__Q4_0, MICA_ACTIVATIONS_INT8, MICA__KV_F32},
    {"qwen3", MICA__Q8_0, MICA_ACTIVATIONS_INT8, MICA__KV_Q8},
    {"gemma3_text", MICA__Q5_1, MICA_ACTIVATIONS_INT8, MICA__KV_Q4},
    {"gemma3_text", MICA__Q4_0, MICA_ACTIVATIONS_F32, MICA__KV_F16},
    {NULL, MICA__Q4_0, MICA_ACTIVATIONS_INT8, MICA__KV_F16},
    {NULL, MICA__Q4_0, MICA_ACTIVATIONS_F32, MICA__KV_Q8},
};
#define N_VARIANTS ((int)(sizeof variants / sizeof *variants))

static struct {
    char *folder;
    char path[4096];
    int64_t n; /* logits */
    float *want;
} made[N_VARIANTS];

/* All logits of a prompt in one step and of the steps behind it. */
static float *logits_of(int v, int threads, const char *isa, int64_t *n)
{
    const mica_options options = {.threads = threads, .isa = isa};
    const mica_model_options model_options = {.activations = variants[v].mode};
    int32_t ids[LENGTH];
    mica_model *model;
    step_driver driver;
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_threads(mc), threads);
    assert_ok(mica_model_open(mc, made[v].path, &model_options, &model));
    assert_ok(step_driver_open(model, variants[v].kv, 2, LENGTH, PROMPT, &driver));
    const int64_t n_vocab = driver.face.n_vocab;
    *n = LENGTH * n_vocab;
    float *logits = malloc((size_t)*n * sizeof *logits);
    assert_non_null(logits);
    for (int i = 0; i < LENGTH; i++)
        ids[i] = 5 + i * 37 % 240;
    assert_ok(step_driver_feed(&driver, 1, ids, PROMPT, logits));
    for (int i = PROMPT; i < LENGTH; i++)
        assert_ok(step_driver_feed(&driver, 1, ids + i, 1, logits + i * n_vocab));
    step_driver_close(&driver);
    mica_model_close(model);
    mica_close(mc);
    return logits;
}

static void expect_the_same(int v, int threads, const char *isa)
{
    int64_t n;
    float *got = logits_of(v, threads, isa, &n);
    assert_int_equal(n, made[v].n);
    if (memcmp(got, made[v].want, (size_t)n * sizeof *got) != 0) {
        int64_t at = 0;
        while (!memcmp(&got[at], &made[v].want[at], sizeof *got))
            at++;
        fail_msg("%s, variant %d, %d threads, %s: logit %lld behind token %lld is %.9g, not %.9g",
                 variants[v].name ? variants[v].name : "built-in", v, threads,
                 isa ? isa : "the host's level", (long long)(at % (n / LENGTH)),
                 (long long)(at / (n / LENGTH)), got[at], made[v].want[at]);
    }
    free(got);
}

/* The reference: one thread at the machine's own level. */
static int make_references(void **state)
{
    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        if (variants[v].name) {
            made[v].folder = temp_dir_new();
            tiny_model_file(made[v].folder, variants[v].name, variants[v].format, made[v].path,
                            sizeof made[v].path);
        } else {
            snprintf(made[v].path, sizeof made[v].path, "%s/data/tales-19m.gguf", MICA_SOURCE_DIR);
        }
        made[v].want = logits_of(v, 1, NULL, &made[v].n);
    }
    return 0;
}

static int remove_references(void **state)
{
    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        free(made[v].want);
        if (made[v].folder)
            temp_dir_remove(made[v].folder);
    }
    return 0;
}

static void logits_are_equal_at_2_3_and_7_threads(void **state)
{
    (void)state;
    static const int threads[] = {2, 3, 7};
    for (int v = 0; v < N_VARIANTS; v++)
        for (int t = 0; t < 3; t++)
            expect_the_same(v, threads[t], NULL);
}

static void logits_are_equal_at_level(void **state)
{
    const char *isa = *state;
    mica__cpu cpu = *mica__cpu_host();
    if (mica__cpu_cap(isa, &cpu) != MICA_OK)
        skip();
    for (int v = 0; v < N_VARIANTS; v++) {
        expect_the_same(v, 1, isa);
        expect_the_same(v, 3, isa);
    }
}

int main(void)
{
    struct CMUnitTest tests[1 + N_LEVELS] = {
        cmocka_unit_test(logits_are_equal_at_2_3_and_7_threads)};
    static char names[N_LEVELS][64], texts[N_LEVELS][64];
    for (int i = 0; i < N_LEVELS; i++) {
        snprintf(names[i], sizeof names[i], "logits_are_equal_at_level %s", levels[i]);
        snprintf(texts[i], sizeof texts[i], "%s", levels[i]);
        tests[1 + i] = (struct CMUnitTest){
            .name = names[i], .test_func = logits_are_equal_at_level, .initial_state = texts[i]};
    }
    return cmocka_run_group_tests(tests, make_references, remove_references);
}
