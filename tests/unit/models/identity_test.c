/* identity_test.c - the same input gives the same bits: any chunk, any neighbours, cold or warm
 * prefix, any number of threads, for every KV type and activation mode.
 *
 * All logits are compared: behind every position of the prompt, and of 16 decode steps. Short
 * prompts over models from elsewhere, in every combination; prompts of more than the largest chunk,
 * 512, over models made here.
 *
 * Emulated it takes minutes; there digest_test shows what depends on the processor.
 * Test labels: noarm64 noasan
 * Test timeout: 900
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include "support/identity.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

enum { VOCAB = 256, SHORT = 70, LONG = 530 };

/* One model, KV type and mode at one number of threads. */
typedef struct place {
    const char *name, *path;
    mica_kv_dtype kv;
    mica_activation_mode mode;
    int threads;
} place;

static void check_chunks(const place *p, const int64_t *chunks, int n_chunks, int64_t longest,
                         identity_answer *answer)
{
    const mica_options options = {.threads = p->threads};
    const mica_model_options model_options = {.activations = p->mode};
    mica_ctx *mc = mica_open(&options);
    mica_model *model;
    assert_non_null(mc);
    assert_ok(mica_model_open(mc, p->path, &model_options, &model));
    for (int c = 0; c < n_chunks; c++) {
        const mica_engine_options engine_options = {
            .kv_dtype = p->kv,
            .context = answer->n_prompt + 20,
            .prefill_chunk = chunks[c],
            .kv_memory = 64 << 20,
        };
        char what[256];
        identity_engine e;
        snprintf(what, sizeof what, "%s, KV %s, mode %d, %d threads, chunk %lld", p->name,
                 mica_kv_dtype_name(p->kv), (int)p->mode, p->threads, (long long)chunks[c]);
        identity_open(model, &engine_options, &e);
        identity_run(&e, what, 1, 0, true, answer);
        identity_run(&e, what, 1, 0, false, answer); /* its prefix is warm now */
        mica_engine_stats stats;
        mica_engine_read_stats(e.engine, &stats);
        assert_true(stats.cached_tokens >= answer->n_prompt / 16 * 16 - 16);
        mica_engine_clear_prefix_cache(e.engine);
        identity_run(&e, what, 16, longest, true, answer);
        identity_close(&e);
    }
    mica_model_close(model);
    mica_close(mc);
}

static void check_model(const char *name, const char *path, int64_t n_prompt, int64_t longest,
                        const int64_t *chunks, int n_chunks)
{
    for (int kv = 0; kv < MICA_N_KV_DTYPES; kv++)
        for (int mode = MICA_ACTIVATIONS_F32; mode <= MICA_ACTIVATIONS_INT8; mode++) {
            identity_answer answer;
            identity_answer_open(&answer, n_prompt, VOCAB, true);
            for (int threads = 1; threads <= 2; threads++) {
                const place p = {name, path, (mica_kv_dtype)kv, (mica_activation_mode)mode,
                                 threads};
                check_chunks(&p, chunks, n_chunks, longest, &answer);
            }
            identity_answer_close(&answer);
        }
}

static void bits_do_not_depend_on_load(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-llama3rope-tied", "gemma3_text", "mlx-qwen3-q8g32",
                                         "mlx-llama-q4"};
    static const int64_t chunks[] = {0, 1, 7, 64};
    if (!shared_path("golden/models"))
        skip();
    for (int m = 0; m < 4; m++) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/%s", shared_path("golden/models"), models[m]);
        check_model(models[m], folder, SHORT, SHORT, chunks, 4);
    }
}

/* Sliding layers and full ones, both with heads for every KV type. */
static void bits_of_long_prompts_do_not_depend_on_load(void **state)
{
    (void)state;
    static const int64_t chunks[] = {512, 1, 7, 64};
    static const struct {
        const char *name;
        mica__block_format format;
    } models[] = {{"gemma3_text", MICA__Q4_0}, {"qwen3", MICA__Q8_0}};
    for (int m = 0; m < 2; m++) {
        char *dir = temp_dir_new(), path[4096];
        tiny_model_file(dir, models[m].name, models[m].format, path, sizeof path);
        check_model(models[m].name, path, LONG, 90, chunks, 4);
        temp_dir_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_load),
        cmocka_unit_test(bits_of_long_prompts_do_not_depend_on_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
