/* identity_test.c - the same input gives the same bits: any chunk, any neighbours, cold or warm
 * prefix, any number of threads, for every KV type and activation mode.
 *
 * Emulated it takes minutes; there digest_test shows what depends on the processor.
 * Test labels: noarm64
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include <mica/mica.h>

#define PROMPT 70
#define OUTPUT 16

typedef struct answer {
    float logits[PROMPT * 256]; /* behind every prompt position */
    int32_t tokens[OUTPUT];
    int n_tokens;
} answer;

static void keep_logits(void *owner, int64_t position, const float *logits, int64_t n_vocab)
{
    answer *a = owner;
    memcpy(a->logits + position * 256, logits, (size_t)n_vocab * sizeof *logits);
}

static void fill_prompt(int32_t *ids, int which)
{
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 4 + (i * (7 + which) + which * 31) % 250;
}

/* Runs `n` prompts at once and keeps the answer to the first. logits_from PROMPT: none but the
 * last. */
static void run(mica_engine *engine, int n, int64_t logits_from, answer *a)
{
    int32_t ids[PROMPT];
    int64_t first = 0, id;
    memset(a, 0, sizeof *a);
    for (int i = 0; i < n; i++) {
        mica_request request;
        mica_request_init(&request);
        fill_prompt(ids, i);
        request.tokens = ids;
        request.n_tokens = i % 3 == 1 ? PROMPT - 13 : PROMPT;
        request.max_tokens = OUTPUT;
        request.ignore_end_tokens = true;
        if (i == 0) {
            request.on_logits = keep_logits;
            request.on_logits_owner = a;
            request.logits_from = logits_from;
        }
        assert_ok(mica_engine_submit(engine, &request, &id));
        first = i ? first : id;
    }
    while (mica_engine_pending(engine) > 0) {
        mica_event event;
        assert_ok(mica_engine_step(engine));
        while (mica_engine_next_event(engine, &event)) {
            if (event.kind == MICA_EVENT_FINISHED && event.reason == MICA_FINISH_ERROR)
                fail_msg("%s", event.message);
            if (event.request == first && event.kind == MICA_EVENT_TOKEN)
                a->tokens[a->n_tokens++] = event.token;
        }
    }
    assert_int_equal(a->n_tokens, OUTPUT);
}

static void expect_equal(const char *what, const answer *want, const answer *got, int64_t from)
{
    if (memcmp(want->tokens, got->tokens, sizeof want->tokens))
        fail_msg("%s: the output differs", what);
    for (int64_t p = from; p < PROMPT; p++)
        if (memcmp(want->logits + p * 256, got->logits + p * 256, 256 * sizeof(float)))
            fail_msg("%s: the logits behind position %lld differ", what, (long long)p);
}

static void check_model(mica_ctx *mc, const char *folder, mica_kv_dtype kv,
                        mica_activation_mode mode, answer *reference, bool first_run)
{
    static const int64_t chunks[] = {0, 1, 7, 64};
    const mica_model_options model_options = {.activations = mode};
    mica_model *model;
    mica_engine *engine;
    answer *got = malloc(sizeof *got);
    assert_ok(mica_model_open(mc, folder, &model_options, &model));
    for (int c = 0; c < 4; c++) {
        const mica_engine_options options = {
            .kv_dtype = kv, .context = 256, .prefill_chunk = chunks[c], .kv_memory = 64 << 20};
        assert_ok(mica_engine_open(model, &options, &engine));
        run(engine, 1, 0, first_run && c == 0 ? reference : got);
        if (!first_run || c)
            expect_equal("chunk", reference, got, 0);
        run(engine, 1, PROMPT - 1, got); /* its prefix is warm now */
        expect_equal("warm prefix", reference, got, PROMPT - 1);
        mica_engine_clear_prefix_cache(engine);
        run(engine, 16, 0, got);
        expect_equal("beside 15 others", reference, got, 0);
        mica_engine_free(engine);
    }
    mica_model_close(model);
    free(got);
}

static void bits_do_not_depend_on_load(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-llama3rope-tied", "gemma3_text", "mlx-qwen3-q8g32",
                                         "mlx-llama-q4"};
    static const mica_kv_dtype kv[] = {MICA_KV_F32, MICA_KV_F16, MICA_KV_BF16, MICA_KV_Q8,
                                       MICA_KV_Q4};
    if (!shared_path("golden/models"))
        skip();
    answer *reference = malloc(sizeof *reference);
    for (int m = 0; m < 4; m++) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/%s", shared_path("golden/models"), models[m]);
        for (int k = 0; k < 5; k++)
            for (int mode = MICA_ACTIVATIONS_F32; mode <= MICA_ACTIVATIONS_INT8; mode++)
                for (int threads = 1; threads <= 2; threads++) {
                    const mica_options options = {.threads = threads};
                    mica_ctx *mc = mica_open(&options);
                    assert_non_null(mc);
                    check_model(mc, folder, kv[k], (mica_activation_mode)mode, reference,
                                threads == 1);
                    mica_close(mc);
                }
    }
    free(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
