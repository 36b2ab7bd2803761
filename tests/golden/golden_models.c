/* golden_models.c - golden_models DIR: every tiny checkpoint below DIR against the logits of its
 * reference library.
 *
 * With f32 activations and KV: logits within the tolerance that golden.json states, prefilled in
 * one step and token by token, greedy continuation equal; with both configuration files where there
 * are two. Architectures that do not exist here are skipped and listed. Closes with "N passed, N
 * failed, N skipped"; exit status 1 when a case failed or there was none. SPDX-License-Identifier:
 * MIT
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mica/mica.h>

#include "io/json.h"
#include "io/safetensors.h"
#include "io/weights.h"
#include "support/file_list.h"
#include "support/step_driver.h"

static int passed, failed, skipped;

typedef struct golden {
    mica__json_doc *doc;
    mica__weights *tensors;
    int32_t *ids;  /* [n, length] */
    float *logits; /* [n, length, vocab] */
    int64_t n, length, vocab;
    double tolerance;
} golden;

/* A copy of a tensor's bytes: in a mapped file they can begin at any address. */
static void *copy_of(const mica__weight *tensor, int64_t bytes)
{
    void *copy = (int64_t)tensor->bytes == bytes ? malloc((size_t)bytes) : NULL;
    if (copy)
        memcpy(copy, tensor->data, (size_t)bytes);
    return copy;
}

static bool golden_open(const char *folder, golden *g)
{
    char path[4096];
    memset(g, 0, sizeof *g);
    snprintf(path, sizeof path, "%s/golden.json", folder);
    if (mica__json_read(path, 1 << 20, &g->doc) != MICA_OK)
        return false;
    const mica__json *tolerance =
        mica__json_get(mica__json_get(mica__json_root(g->doc), "tolerance"), "fp32_max_abs");
    g->tolerance = tolerance ? tolerance->number : 0;
    snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    if (mica__weights_open(path, false, &g->tensors) != MICA_OK)
        return false;
    const mica__weight *ids = mica__weights_find(g->tensors, "input_ids");
    const mica__weight *logits = mica__weights_find(g->tensors, "logits");
    if (!ids || !logits || logits->n_dims != 3 || logits->dtype != MICA_F32)
        return false;
    g->n = logits->shape[0];
    g->length = logits->shape[1];
    g->vocab = logits->shape[2];
    g->ids = copy_of(ids, g->n * g->length * 4);
    g->logits = copy_of(logits, g->n * g->length * g->vocab * 4);
    return g->ids && g->logits;
}

static void golden_close(golden *g)
{
    free(g->ids);
    free(g->logits);
    mica__json_free(g->doc);
    mica__weights_close(g->tensors);
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst))
            worst = d;
    }
    return worst;
}

/* Feeds each row in steps of `chunk` tokens and compares all logits. */
static double logits_error(step_driver *driver, const golden *g, int64_t chunk)
{
    double worst = 0;
    float *got = malloc((size_t)(g->length * g->vocab) * sizeof *got);
    for (int64_t row = 0; row < g->n && got; row++) {
        step_driver_reset(driver, row);
        for (int64_t at = 0; at < g->length; at += chunk) {
            const int64_t n = g->length - at < chunk ? g->length - at : chunk;
            if (step_driver_feed(driver, row, g->ids + row * g->length + at, n,
                                 got + at * g->vocab) != MICA_OK) {
                free(got);
                return INFINITY;
            }
        }
        const double d =
            largest_difference(got, g->logits + row * g->length * g->vocab, g->length * g->vocab);
        worst = d > worst || isnan(d) ? d : worst;
    }
    free(got);
    return worst;
}

static int32_t argmax(const float *x, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = (int32_t)i;
    return best;
}

static bool greedy_equal(step_driver *driver, const golden *g)
{
    const mica__json *greedy = mica__json_get(mica__json_root(g->doc), "greedy");
    const mica__json *prompt = mica__json_get(greedy, "prompt"),
                     *want = mica__json_get(greedy, "tokens");
    float *logits = malloc((size_t)g->vocab * sizeof *logits);
    bool equal = prompt && want && logits;
    int32_t next = 0;
    step_driver_reset(driver, 0);
    for (const mica__json *at = prompt ? prompt->first : NULL; at && equal; at = at->next) {
        const int32_t id = (int32_t)at->integer;
        equal = step_driver_feed(driver, 0, &id, 1, logits) == MICA_OK;
        next = argmax(logits, g->vocab);
    }
    for (const mica__json *at = want ? want->first : NULL; at && equal; at = at->next) {
        equal = next == at->integer && step_driver_feed(driver, 0, &next, 1, logits) == MICA_OK;
        next = argmax(logits, g->vocab);
    }
    free(logits);
    return equal;
}

static void judge(const char *name, mica_model *model, const golden *g)
{
    step_driver driver;
    if (step_driver_open(model, MICA__KV_F32, g->n, g->length + 32, 64, &driver) != MICA_OK) {
        printf("FAIL %s: %s\n", name, mica_last_error());
        failed++;
        return;
    }
    const double whole = logits_error(&driver, g, g->length), single = logits_error(&driver, g, 1);
    const bool greedy = greedy_equal(&driver, g);
    const bool ok = whole <= g->tolerance && single == whole && greedy;
    printf("%s %s: largest difference %.3g in one step, %.3g token by token (tolerance %.3g), "
           "greedy %s%s%s\n",
           ok ? "ok  " : "FAIL", name, whole, single, g->tolerance, greedy ? "equal" : "differs",
           isinf(whole) ? ": " : "", isinf(whole) ? mica_last_error() : "");
    passed += ok;
    failed += !ok;
    step_driver_close(&driver);
}

static void run_case(mica_ctx *mc, const char *name, const char *folder)
{
    golden g;
    mica_model *model = NULL;
    const mica_model_options options = {.activations = MICA_ACTIVATIONS_F32};
    const mica_status status = mica_model_open(mc, folder, &options, &model);
    if (status == MICA_E_UNSUPPORTED && strstr(mica_last_error(), "architecture")) {
        printf("skip %s: %s\n", name, mica_last_error());
        skipped++;
        return;
    }
    if (status != MICA_OK || !golden_open(folder, &g)) {
        printf("FAIL %s: %s\n", name, mica_last_error());
        failed++;
        mica_model_close(model);
        return;
    }
    judge(name, model, &g);
    golden_close(&g);
    mica_model_close(model);
}

/* The same folder with the other configuration file in its place. */
static void run_with_config(mica_ctx *mc, const char *name, const char *folder, const char *config)
{
    char label[512], from[6000], to[6000], dir[64];
    snprintf(from, sizeof from, "%s/%s", folder, config);
    if (access(from, R_OK))
        return;
    snprintf(label, sizeof label, "%s (%s)", name, config);
    snprintf(dir, sizeof dir, "/tmp/mica-golden-XXXXXX");
    if (!mkdtemp(dir)) {
        printf("FAIL %s: no temporary folder\n", label);
        failed++;
        return;
    }
    static const char *const files[] = {"model.safetensors", "golden.safetensors", "golden.json"};
    for (int i = 0; i < 4; i++) {
        snprintf(from, sizeof from, "%s/%s", folder, i < 3 ? files[i] : config);
        snprintf(to, sizeof to, "%s/%s", dir, i < 3 ? files[i] : "config.json");
        if (symlink(from, to))
            printf("cannot link %s\n", to);
    }
    run_case(mc, label, dir);
    for (int i = 0; i < 4; i++) {
        snprintf(to, sizeof to, "%s/%s", dir, i < 3 ? files[i] : "config.json");
        unlink(to);
    }
    rmdir(dir);
}

int main(int argc, char **argv)
{
    static const char end[] = "/golden.safetensors";
    file_list files = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: golden_models DIR\n");
        return 2;
    }
    if (!file_list_below(argv[1], &files)) {
        printf("skip: %s is not there\n0 passed, 0 failed, 1 skipped\n", argv[1]);
        return 77;
    }
    mica_ctx *mc = mica_open(NULL);
    for (size_t i = 0; mc && i < files.n; i++) {
        char *folder = files.paths[i];
        if (!text_ends_with(folder, end))
            continue;
        folder[strlen(folder) - strlen(end)] = '\0';
        const char *name = file_list_relative(&files, folder);
        run_case(mc, name, folder);
        run_with_config(mc, name, folder, "config.transformers5.json");
    }
    file_list_free(&files);
    mica_close(mc);
    if (passed + failed + skipped == 0)
        printf("FAIL: no folder with golden.safetensors in %s\n", argv[1]);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed + skipped == 0;
}
