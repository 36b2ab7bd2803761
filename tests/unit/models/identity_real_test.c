/* identity_real_test.c - real models give the same bits in every chunking, beside others or alone,
 * with a cold or warm prefix, on one thread or two.
 *
 * Compared are all logits behind the prompt, of just over 512 tokens, and of 16 decode steps. The
 * full product of models, KV types, modes, chunks, company, prefixes and threads would take hours:
 * the combinations below are chosen such that any two values of any two of them come up together,
 * which the first test checks. identity_test has the full product over tiny models.
 * Test labels: slow real noarm64
 * Test timeout: 900
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include "support/identity.h"

enum { PROMPT = 523, OTHERS = 40 };

enum { KV, CHUNK, MODE, COMPANY, WARM, THREADS, MODEL, N_FACTORS };

static const int n_values[N_FACTORS] = {MICA_N_KV_DTYPES, 4, 2, 2, 2, 2, 2};
static const int64_t chunks[] = {1, 7, 64, 512};
static const mica_activation_mode modes[] = {MICA_ACTIVATIONS_F32, MICA_ACTIVATIONS_INT8};
static const char *const models[] = {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"};

/* In the order of the factors, each the index of a value; COMPANY 1: beside 15 others. */
static const int8_t combinations[][N_FACTORS] = {
    {0, 0, 1, 0, 0, 1, 0}, {0, 1, 0, 1, 1, 0, 0}, {0, 2, 0, 1, 1, 1, 1}, {0, 3, 1, 0, 1, 0, 1},
    {1, 0, 0, 0, 1, 1, 1}, {1, 1, 1, 0, 0, 0, 0}, {1, 2, 1, 1, 0, 1, 0}, {1, 3, 1, 0, 0, 1, 0},
    {2, 0, 1, 1, 0, 1, 0}, {2, 1, 1, 0, 0, 1, 1}, {2, 2, 0, 1, 0, 1, 1}, {2, 3, 1, 0, 1, 0, 1},
    {3, 0, 1, 0, 1, 1, 1}, {3, 1, 1, 0, 0, 1, 1}, {3, 2, 0, 0, 1, 0, 0}, {3, 3, 1, 1, 0, 0, 0},
    {4, 0, 1, 0, 1, 0, 1}, {4, 1, 0, 0, 0, 1, 0}, {4, 2, 0, 1, 0, 1, 0}, {4, 3, 0, 0, 1, 1, 0},
};
#define N_COMBINATIONS ((int)(sizeof combinations / sizeof *combinations))

static void every_pair_of_values_comes_up(void **state)
{
    (void)state;
    for (int a = 0; a < N_FACTORS; a++)
        for (int b = a + 1; b < N_FACTORS; b++)
            for (int pair = 0; pair < n_values[a] * n_values[b]; pair++) {
                bool found = false;
                for (int i = 0; i < N_COMBINATIONS; i++)
                    found |= combinations[i][a] == pair % n_values[a] &&
                             combinations[i][b] == pair / n_values[a];
                if (!found)
                    fail_msg("factors %d and %d lack pair %d", a, b, pair);
            }
}

static void describe(const int8_t *c, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s, KV %s, %s, chunk %lld, %s, %s prefix, %d threads", models[c[MODEL]],
             mica_kv_dtype_name((mica_kv_dtype)c[KV]), c[MODE] ? "int8" : "f32",
             (long long)chunks[c[CHUNK]], c[COMPANY] ? "beside 15 others" : "alone",
             c[WARM] ? "warm" : "cold", 1 + c[THREADS]);
}

static void run_with(const char *path, const int8_t *c, bool reference, identity_answer *answer)
{
    const mica_options options = {.threads = reference ? 2 : 1 + c[THREADS]};
    const mica_model_options model_options = {.activations = modes[c[MODE]]};
    const mica_engine_options engine_options = {
        .kv_dtype = (mica_kv_dtype)c[KV],
        .context = PROMPT + IDENTITY_ROWS,
        .prefill_chunk = reference ? 0 : chunks[c[CHUNK]],
        .kv_memory = (int64_t)1 << 30,
    };
    mica_ctx *mc = mica_open(&options);
    mica_model *model;
    identity_engine e;
    char what[256];
    describe(c, what, sizeof what);
    assert_non_null(mc);
    assert_ok(mica_model_open(mc, path, &model_options, &model));
    if (!answer->rows)
        identity_answer_open(answer, PROMPT, mica_model_describe(model).n_vocab, false);
    identity_open(model, &engine_options, &e);
    if (reference || !c[WARM])
        identity_run(&e, what, !reference && c[COMPANY] ? 16 : 1, OTHERS, false, answer);
    if (!reference && c[WARM]) {
        identity_run(&e, what, 1, 0, false, answer);
        identity_run(&e, what, c[COMPANY] ? 16 : 1, OTHERS, false, answer);
        mica_engine_stats stats;
        mica_engine_read_stats(e.engine, &stats);
        assert_true(stats.cached_tokens >= PROMPT / 16 * 16 - 16);
    }
    identity_close(&e);
    mica_model_close(model);
    mica_close(mc);
}

/* The answer of each KV type and mode is made once, in one chunk, alone, cold, by two threads. */
static void check_real(int m)
{
    identity_answer answers[MICA_N_KV_DTYPES][2];
    const char *path = fetched_path(models[m]);
    memset(answers, 0, sizeof answers);
    if (!path) {
        print_message("%s is not in the model cache: tools/fetch gets it\n", models[m]);
        skip();
    }
    for (int i = 0; i < N_COMBINATIONS; i++) {
        const int8_t *c = combinations[i];
        identity_answer *answer = &answers[c[KV]][c[MODE]];
        if (c[MODEL] != m)
            continue;
        if (!answer->known)
            run_with(path, c, true, answer);
        run_with(path, c, false, answer);
    }
    for (int i = 0; i < MICA_N_KV_DTYPES * 2; i++)
        identity_answer_close(&answers[i / 2][i % 2]);
}

static void smollm2_gives_the_same_bits(void **state)
{
    (void)state;
    check_real(0);
}

static void gemma_gives_the_same_bits(void **state)
{
    (void)state;
    check_real(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_values_comes_up),
        cmocka_unit_test(smollm2_gives_the_same_bits),
        cmocka_unit_test(gemma_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
