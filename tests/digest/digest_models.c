/* digest_models.c - logits and drawn tokens of tiny models, float and quantised.
 * SPDX-License-Identifier: MIT
 */
#include "digest/digest_test.h"

#include <stdlib.h>

#include <mica/mica.h>

#include "support/check.h"
#include "support/step_driver.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"
#include "support/to_gguf.h"

enum { PROMPT = 21, STEPS = 3, LENGTH = PROMPT + STEPS, DRAWN = 12 };

/* A model file and how it is run: each format meets both modes, all KV types come up. */
static const struct {
    const char *name;
    mica__block_format format; /* of the matrices; F32: the folder itself */
    mica_activation_mode mode;
    mica__kv_dtype kv;
} variants[] = {
    {"f32", MICA__F32, MICA_ACTIVATIONS_F32, MICA__KV_F32},
    {"f32/f16", MICA__F32, MICA_ACTIVATIONS_INT8, MICA__KV_F16},
    {"f16/bf16", MICA__F16, MICA_ACTIVATIONS_F32, MICA__KV_BF16},
    {"q8_0/f32/f32", MICA__Q8_0, MICA_ACTIVATIONS_F32, MICA__KV_F32},
    {"q8_0/int8/f16", MICA__Q8_0, MICA_ACTIVATIONS_INT8, MICA__KV_F16},
    {"q4_0/int8/q8", MICA__Q4_0, MICA_ACTIVATIONS_INT8, MICA__KV_Q8},
    {"q5_1/int8/q4", MICA__Q5_1, MICA_ACTIVATIONS_INT8, MICA__KV_Q4},
    {"mxfp4/f32/bf16", MICA__MXFP4, MICA_ACTIVATIONS_F32, MICA__KV_BF16},
};

static void add_logits(digest_book *book, mica_model *model, mica__kv_dtype kv, const char *name,
                       const char *variant)
{
    step_driver driver;
    int32_t ids[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        ids[i] = 5 + i * 37 % 240;
    assert_ok(step_driver_open(model, kv, 1, 64, 32, &driver));
    const int64_t n_vocab = driver.face.n_vocab;
    float *logits = malloc((size_t)(PROMPT * n_vocab) * sizeof *logits);
    assert_non_null(logits);
    /* In chunks first: they must not show. */
    float *chunk = malloc((size_t)(PROMPT * n_vocab) * sizeof *chunk);
    assert_non_null(chunk);
    for (int at = 0, n = 1; at < PROMPT; at += n, n = PROMPT - at < 7 ? PROMPT - at : 7)
        assert_ok(step_driver_feed(&driver, 0, ids + at, n, chunk + at * n_vocab));
    step_driver_reset(&driver, 0);
    assert_ok(step_driver_feed(&driver, 0, ids, PROMPT, logits));
    assert_memory_equal(chunk, logits, (size_t)(PROMPT * n_vocab) * sizeof *logits);
    free(chunk);
    digest_add(book, logits, MICA_F32, PROMPT * n_vocab, "%s/%s/prompt", name, variant);
    for (int i = PROMPT; i < LENGTH; i++) {
        assert_ok(step_driver_feed(&driver, 0, ids + i, 1, logits));
        digest_add(book, logits, MICA_F32, n_vocab, "%s/%s/step%d", name, variant, i - PROMPT);
    }
    free(logits);
    step_driver_close(&driver);
}

/* Tokens drawn by the engine: all of sampling's own arithmetic. */
static void add_drawn(digest_book *book, mica_model *model, const char *name)
{
    const mica_engine_options options = {.context = 64, .kv_memory = 4 << 20};
    int32_t ids[PROMPT], drawn[DRAWN] = {0};
    float logprobs[DRAWN] = {0};
    mica_engine *engine;
    mica_request request;
    int64_t id;
    int n = 0;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 5 + i * 37 % 240;
    mica_request_init(&request);
    request.tokens = ids;
    request.n_tokens = PROMPT;
    request.max_tokens = DRAWN;
    request.ignore_end_tokens = request.logprobs = true;
    request.sampling.temperature = 0.8f;
    request.sampling.top_p = 0.95f;
    request.sampling.min_p = 0.01f;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.seed = 7;
    assert_ok(mica_engine_open(model, &options, &engine));
    assert_ok(mica_engine_submit(engine, &request, &id));
    while (mica_engine_pending(engine) > 0) {
        mica_event event;
        assert_ok(mica_engine_step(engine));
        while (mica_engine_next_event(engine, &event))
            if (event.kind == MICA_EVENT_TOKEN && n < DRAWN) {
                logprobs[n] = (float)event.logprob;
                drawn[n++] = event.token;
            }
    }
    assert_int_equal(n, DRAWN);
    digest_add(book, drawn, MICA_I32, DRAWN, "%s/drawn", name);
    digest_add(book, logprobs, MICA_F32, DRAWN, "%s/drawn/logprobs", name);
    mica_engine_free(engine);
}

static void add_model(digest_book *book, mica_ctx *mc, const char *name)
{
    char *dir = temp_dir_new(), file[4096];
    assert_ok(tiny_model_write(dir, name));
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        const mica_model_options options = {.activations = variants[v].mode};
        const mica__block_format format = variants[v].format;
        mica_model *model;
        /* Its GGUF would say llama: nothing that the folder does not show. */
        if (format != MICA__F32 && !strcmp(name, "mistral"))
            continue;
        snprintf(file, sizeof file, "%s", dir);
        if (format != MICA__F32) {
            const to_gguf_options gguf = {.name = name, .matrices = format, .embedding = format};
            snprintf(file, sizeof file, "%s/%d.gguf", dir, (int)format);
            assert_ok(to_gguf(dir, file, &gguf));
        }
        assert_ok(mica_model_open(mc, file, &options, &model));
        add_logits(book, model, variants[v].kv, name, variants[v].name);
        if (format == MICA__Q4_0)
            add_drawn(book, model, name);
        mica_model_close(model);
    }
    temp_dir_remove(dir);
}

void digest_models(digest_book *book, const mica__cpu *cpu, const char *isa)
{
    const mica_options options = {.isa = isa, .threads = 2};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("%s", mica_last_error());
    assert_string_equal(mica_isa(mc), mica__cpu_level_name(cpu->level));
    for (int i = 0; tiny_model_name(i); i++)
        add_model(book, mc, tiny_model_name(i));
    mica_close(mc);
}
