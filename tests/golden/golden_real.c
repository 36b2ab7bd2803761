/* golden_real.c - golden_real DIR: real checkpoints against the greedy runs of their reference
 * implementations.
 *
 * DIR holds one JSON file a model; the models are where tools/fetch puts them (MICA_CACHE_DIR) and
 * are skipped where absent. The reference tokens are fed (teacher forcing). With f32 activations
 * and KV every step whose margin exceeds 0.01 must agree with the float32 reference; by default
 * every step whose margin exceeds 0.2 with llama.cpp, which rounds activations too. Closes with "N
 * passed, N failed, N skipped".
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mica/mica.h>

#include "io/json.h"
#include "support/step_driver.h"

static int passed, failed, skipped;

static const struct {
    const char *golden, *file;
} models[] = {
    {"smollm2-135m-instruct-q4_1.json", "SmolLM2-135M-Instruct.Q4_1.gguf"},
    {"gemma-3-270m-q4_k_m.json", "gemma-3-270m-q4_k_m.gguf"},
};

static int64_t ids_of(const mica__json *list, int32_t *ids, int64_t most)
{
    int64_t n = 0;
    for (const mica__json *at = list ? list->first : NULL; at && n < most; at = at->next)
        ids[n++] = (int32_t)at->integer;
    return n;
}

static int32_t argmax(const float *x, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = (int32_t)i;
    return best;
}

/* How many steps above the margin disagree; -1 when a step fails. */
static int disagreements(step_driver *driver, const mica__json *prompt, const mica__json *reference,
                         double margin, float *logits, int *compared)
{
    int32_t ids[4096], out[256];
    const int64_t n = ids_of(mica__json_get(prompt, "prompt_ids"), ids, 4096);
    const int64_t n_out = ids_of(mica__json_get(reference, "output_ids"), out, 256);
    const mica__json *margins = mica__json_get(reference, "margins");
    const int64_t vocab = driver->face.n_vocab;
    int wrong = 0;
    step_driver_reset(driver, 0);
    for (int64_t i = 0, chunk; i < n - 1; i += chunk) {
        chunk = n - 1 - i < driver->face.max_tokens ? n - 1 - i : driver->face.max_tokens;
        if (step_driver_feed(driver, 0, ids + i, chunk, NULL) != MICA_OK)
            return -1;
    }
    const mica__json *m = margins ? margins->first : NULL;
    int32_t token = ids[n - 1];
    for (int64_t i = 0; i < n_out && m; i++, m = m->next) {
        if (step_driver_feed(driver, 0, &token, 1, logits) != MICA_OK)
            return -1;
        if (m->number > margin) {
            ++*compared;
            wrong += argmax(logits, vocab) != out[i];
        }
        token = out[i];
    }
    return wrong;
}

static void run_mode(mica_ctx *mc, const char *name, const char *file, const mica__json *golden,
                     bool exact)
{
    const mica_model_options options = {.activations =
                                            exact ? MICA_ACTIVATIONS_F32 : MICA_ACTIVATIONS_INT8};
    mica_model *model = NULL;
    step_driver driver;
    float *logits = NULL;
    int wrong = 0, compared = 0, prompts = 0;
    mica_status status = mica_model_open(mc, file, &options, &model);
    if (status == MICA_OK)
        status =
            step_driver_open(model, exact ? MICA__KV_F32 : MICA__KV_F16, 1, 4096, 256, &driver);
    if (status == MICA_OK) {
        logits = malloc((size_t)driver.face.n_vocab * sizeof *logits);
        const mica__json *list = mica__json_get(golden, "prompts");
        for (const mica__json *at = list ? list->first : NULL; at && wrong >= 0;
             at = at->next, prompts++) {
            const int bad =
                disagreements(&driver, at, mica__json_get(at, exact ? "f32" : "llama_cpp"),
                              exact ? 0.01 : 0.2, logits, &compared);
            wrong = bad < 0 ? -1 : wrong + bad;
        }
        step_driver_close(&driver);
    }
    const bool ok = status == MICA_OK && wrong == 0 && compared > 0;
    printf("%s %s, %s: %d of %d steps disagree over %d prompts%s%s\n", ok ? "ok  " : "FAIL", name,
           exact ? "f32 against f32" : "int8 and f16 against llama.cpp", wrong, compared, prompts,
           status || wrong < 0 ? ": " : "", status || wrong < 0 ? mica_last_error() : "");
    fflush(stdout);
    passed += ok;
    failed += !ok;
    free(logits);
    mica_model_close(model);
}

int main(int argc, char **argv)
{
    const char *cache = getenv("MICA_CACHE_DIR") ? getenv("MICA_CACHE_DIR") : MICA_CACHE_DIR;
    if (argc != 2) {
        fprintf(stderr, "usage: golden_real DIR\n");
        return 2;
    }
    mica_ctx *mc = mica_open(NULL);
    for (size_t i = 0; mc && i < sizeof models / sizeof *models; i++) {
        char golden[4096], file[4096];
        mica__json_doc *doc = NULL;
        snprintf(golden, sizeof golden, "%s/%s", argv[1], models[i].golden);
        snprintf(file, sizeof file, "%s/%s", cache, models[i].file);
        if (access(golden, R_OK) || access(file, R_OK)) {
            printf("skip %s: not in %s (tools/fetch gets it)\n", models[i].file, cache);
            skipped += 2;
            continue;
        }
        if (mica__json_read(golden, 16 << 20, &doc) == MICA_OK)
            for (int exact = 1; exact >= 0; exact--)
                run_mode(mc, models[i].file, file, mica__json_root(doc), exact);
        else
            failed++;
        mica__json_free(doc);
    }
    mica_close(mc);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : passed ? 0 : 77;
}
