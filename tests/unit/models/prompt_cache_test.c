/* prompt_cache_test.c - keys and values of real decoders in a file: for every KV type and
 * activation mode, output after loading is that of a cold run to the bit, and no other model takes
 * the file.
 *
 * Emulated it takes minutes; nothing in it depends on the processor.
 * Test labels: noarm64
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include <mica/mica.h>

#include "support/temp_dir.h"
#include "support/tiny_model.h"

#define PROMPT 91
#define OUTPUT 8

typedef struct answer {
    float logits[256]; /* behind the prompt */
    int32_t tokens[OUTPUT];
    int n_tokens;
    int64_t cached;
} answer;

static mica_ctx *mc;

static int open_all(void **state)
{
    const mica_options options = {.threads = 2};
    (void)state;
    mc = mica_open(&options);
    return mc ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    mica_close(mc);
    return 0;
}

static void keep_logits(void *owner, int64_t position, const float *logits, int64_t n_vocab)
{
    answer *a = owner;
    (void)position;
    memcpy(a->logits, logits, (size_t)n_vocab * sizeof *logits);
}

static void fill_prompt(int32_t *ids)
{
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 4 + (i * i * 7 + i) % 250;
}

static void run(mica_engine *engine, answer *a)
{
    int32_t ids[PROMPT];
    int64_t id;
    mica_request request;
    mica_event event;
    memset(a, 0, sizeof *a);
    fill_prompt(ids);
    mica_request_init(&request);
    request.tokens = ids;
    request.n_tokens = PROMPT;
    request.max_tokens = OUTPUT;
    request.ignore_end_tokens = true;
    request.on_logits = keep_logits;
    request.on_logits_owner = a;
    request.logits_from = PROMPT - 1;
    assert_ok(mica_engine_submit(engine, &request, &id));
    while (mica_engine_pending(engine) > 0) {
        assert_ok(mica_engine_step(engine));
        while (mica_engine_next_event(engine, &event)) {
            if (event.kind == MICA_EVENT_FINISHED && event.reason == MICA_FINISH_ERROR)
                fail_msg("%s", event.message);
            if (event.kind == MICA_EVENT_FINISHED)
                a->cached = event.usage.cached_tokens;
            if (event.kind == MICA_EVENT_TOKEN)
                a->tokens[a->n_tokens++] = event.token;
        }
    }
    assert_int_equal(a->n_tokens, OUTPUT);
}

static mica_engine *open_engine(const char *folder, mica_kv_dtype kv, mica_activation_mode mode,
                                mica_model **model)
{
    const mica_model_options model_options = {.activations = mode};
    const mica_engine_options options = {.kv_dtype = kv, .context = 128, .kv_memory = 8 << 20};
    mica_engine *engine;
    assert_ok(mica_model_open(mc, folder, &model_options, model));
    assert_ok(mica_engine_open(*model, &options, &engine));
    return engine;
}

static void close_engine(mica_engine *engine, mica_model *model)
{
    mica_engine_free(engine);
    mica_model_close(model);
}

/* A tiny model in a folder of its own below dir. */
static void make_model(const char *dir, const char *name, const char *kind, char folder[4096])
{
    char config[256];
    snprintf(config, sizeof config, "%s/config.json", name);
    temp_write_text(dir, config, ""); /* makes the folder */
    snprintf(folder, 4096, "%s", temp_path(dir, name));
    assert_ok(tiny_model_write(folder, kind));
}

/* Computes the prompt cold and saves it. */
static void make_file(const char *folder, mica_kv_dtype kv, mica_activation_mode mode,
                      const char *path, answer *a)
{
    mica_model *model;
    int32_t ids[PROMPT];
    int64_t saved;
    mica_engine *engine = open_engine(folder, kv, mode, &model);
    fill_prompt(ids);
    run(engine, a);
    assert_int_equal(a->cached, 0);
    assert_ok(mica_engine_save_prefix(engine, ids, PROMPT, path, &saved));
    assert_int_equal(saved, PROMPT / 16 * 16);
    close_engine(engine, model);
}

static void check_model(const char *folder, const char *path)
{
    static answer cold, warm;
    for (int kv = 0; kv < MICA_N_KV_DTYPES; kv++)
        for (int mode = MICA_ACTIVATIONS_F32; mode <= MICA_ACTIVATIONS_INT8; mode++) {
            mica_model *model;
            mica_prefix_load load;
            make_file(folder, (mica_kv_dtype)kv, (mica_activation_mode)mode, path, &cold);
            mica_engine *engine =
                open_engine(folder, (mica_kv_dtype)kv, (mica_activation_mode)mode, &model);
            assert_ok(mica_engine_load_prefix(engine, path, NULL, 0, &load));
            assert_int_equal(load.loaded, PROMPT / 16 * 16);
            run(engine, &warm);
            assert_int_equal(warm.cached, PROMPT / 16 * 16);
            if (memcmp(cold.tokens, warm.tokens, sizeof cold.tokens) ||
                memcmp(cold.logits, warm.logits, sizeof cold.logits))
                fail_msg("%s, %s, mode %d: the output differs", folder,
                         mica_kv_dtype_name((mica_kv_dtype)kv), mode);
            close_engine(engine, model);
        }
}

static void output_after_loading_is_that_of_a_cold_run(void **state)
{
    static const char *const quantised[] = {"mlx-qwen3-q8g32", "mlx-llama-q4"};
    (void)state;
    char *dir = temp_dir_new();
    char path[4096], folder[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    for (int i = 0; tiny_model_name(i); i++) {
        make_model(dir, tiny_model_name(i), tiny_model_name(i), folder);
        check_model(folder, path);
    }
    for (int i = 0; i < 2 && shared_path("golden/models"); i++) {
        snprintf(folder, sizeof folder, "%s/%s", shared_path("golden/models"), quantised[i]);
        check_model(folder, path);
    }
    temp_dir_remove(dir);
}

static void expect_refusal(const char *folder, const char *path, mica_kv_dtype kv,
                           mica_activation_mode mode, const char *says)
{
    mica_model *model;
    mica_prefix_load load;
    mica_engine *engine = open_engine(folder, kv, mode, &model);
    assert_status(mica_engine_load_prefix(engine, path, NULL, 0, &load), MICA_E_ARGUMENT);
    if (!strstr(mica_last_error(), says))
        fail_msg("'%s' is not in: %s", says, mica_last_error());
    close_engine(engine, model);
}

/* Changes one byte of a file, counted from its end. */
static void change_byte(const char *path, long from_end)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
    const int old = fgetc(file);
    assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
    fputc(old ^ 1, file);
    assert_int_equal(fclose(file), 0);
}

static void only_the_same_model_takes_the_file(void **state)
{
    static answer cold;
    (void)state;
    char *dir = temp_dir_new();
    char path[4096], one[4096], other[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_model(dir, "one", "llama", one);
    make_model(dir, "other", "llama", other);
    make_file(one, MICA_KV_F16, MICA_ACTIVATIONS_F32, path, &cold);
    expect_refusal(one, path, MICA_KV_Q8, MICA_ACTIVATIONS_F32, "f16");
    expect_refusal(one, path, MICA_KV_F16, MICA_ACTIVATIONS_INT8, "activations f32");

    /* A copy elsewhere is the same model, until one value of it or its configuration changes. */
    mica_model *model;
    mica_prefix_load load;
    mica_engine *engine = open_engine(other, MICA_KV_F16, MICA_ACTIVATIONS_F32, &model);
    assert_ok(mica_engine_load_prefix(engine, path, NULL, 0, &load));
    close_engine(engine, model);
    FILE *file = fopen(temp_path(other, "config.json"), "ab");
    assert_non_null(file);
    fputc('\n', file);
    fclose(file);
    expect_refusal(other, path, MICA_KV_F16, MICA_ACTIVATIONS_F32, "\"one\"");
    assert_ok(tiny_model_write(other, "llama"));
    change_byte(temp_path(other, "model.safetensors"), 2);
    expect_refusal(other, path, MICA_KV_F16, MICA_ACTIVATIONS_F32, "\"other\"");
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_after_loading_is_that_of_a_cold_run),
        cmocka_unit_test(only_the_same_model_takes_the_file),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
