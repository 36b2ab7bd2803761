/* model_engine.c - engines over models, and what they would take.
 * SPDX-License-Identifier: MIT
 */
#include <mica/engine.h>

#include <string.h>

#include "models/model.h"
#include "run/engine.h"
#include "text/tokenizer_gguf.h"

static void release_stepper(void *stepper)
{
    mica__model_stepper_free(stepper);
}

static mica_status stepper_for(mica_model *model, const mica_engine_options *options,
                               int64_t sequences, mica__model_stepper **stepper,
                               mica__stepper *face)
{
    const mica__stepper_options wanted = {.kv_dtype = mica__kv_dtype_from(options->kv_dtype),
                                          .context = options->context,
                                          .max_tokens = options->step_tokens,
                                          .max_sequences =
                                              sequences ? sequences : options->max_sequences};
    return mica__model_stepper_new(model, &wanted, stepper, face);
}

/* The caller's end tokens and the model's, without doubles. */
static int64_t join_end_tokens(const mica_model *model, const mica_engine_options *options,
                               int32_t *ids)
{
    int64_t n = 0;
    for (int64_t i = 0; i < options->n_end_tokens; i++)
        ids[n++] = options->end_tokens[i];
    for (int i = 0; i < model->spec.n_end_ids; i++) {
        bool known = model->spec.end_ids[i] >= model->spec.n_vocab;
        for (int64_t j = 0; j < n; j++)
            known |= ids[j] == model->spec.end_ids[i];
        if (!known)
            ids[n++] = model->spec.end_ids[i];
    }
    return n;
}

mica_status mica_engine_open(mica_model *model, const mica_engine_options *options,
                             mica_engine **engine)
{
    static const mica_engine_options defaults;
    *engine = NULL;
    if (!model)
        MICA_FAIL(MICA_E_ARGUMENT, "engine_open: no model");
    mica_engine_options joined = options ? *options : defaults;
    if (joined.n_end_tokens < 0 || (joined.n_end_tokens > 0 && !joined.end_tokens))
        MICA_FAIL(MICA_E_ARGUMENT, "engine_open: end_tokens are missing");
    int32_t *ids = mica__alloc(MICA_MEMORY_OTHER,
                               (size_t)(joined.n_end_tokens + MICA__MAX_END_IDS) * sizeof *ids);
    if (!ids)
        return MICA_E_MEMORY;
    joined.n_end_tokens = join_end_tokens(model, &joined, ids);
    joined.end_tokens = ids;
    mica__model_stepper *stepper = NULL;
    mica__stepper face;
    mica_status status = stepper_for(model, &joined, 0, &stepper, &face);
    if (status == MICA_OK) {
        face.release = release_stepper;
        status = mica__engine_new(&face, &joined, engine);
    }
    if (status == MICA_OK)
        mica__model_stepper_set_cancel(stepper, &(*engine)->interrupted);
    else
        mica__model_stepper_free(stepper);
    mica__free(ids);
    return status;
}

/* --- planning --------------------------------------------------------------------------------- */

/* KV bytes of one sequence of n tokens, at most. */
static int64_t kv_of(const mica__stepper *face, int64_t n)
{
    int64_t bytes = 0;
    for (int p = 0; p < face->n_pools; p++) {
        const mica__pool_spec *pool = &face->pools[p];
        const int64_t blocks = pool->kind == MICA__POOL_WINDOW
                                   ? mica__window_blocks(pool, n, face->max_tokens)
                                   : mica__blocks_for(n);
        bytes += blocks * pool->block_bytes;
    }
    return bytes;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The longest sequence whose KV fits into `free` bytes, up to the model's context. */
static int64_t longest(const mica__stepper *face, int64_t context, int64_t free)
{
    int64_t low = 0, high = context / MICA__KV_BLOCK_TOKENS + 1;
    while (low + 1 < high) {
        const int64_t middle = (low + high) / 2;
        if (kv_of(face, middle * MICA__KV_BLOCK_TOKENS) <= free)
            low = middle;
        else
            high = middle;
    }
    const int64_t fits = low * MICA__KV_BLOCK_TOKENS;
    return kv_of(face, context) <= free ? context : fits;
}

/* What an engine holds whatever the model: lists of requests, events, detokenizers, rounding of
 * pools to pages. */
#define ENGINE_BYTES   ((int64_t)1 << 20)
#define SEQUENCE_BYTES ((int64_t)16 << 10)

/* The sampler's lists by token: logits, counts, candidates, and bits of allowed ones. */
#define SAMPLER_TOKEN_BYTES ((int64_t)17)

static int64_t held(const mica_memory_usage *usage)
{
    return usage->active - usage->by_kind[MICA_MEMORY_WEIGHTS] -
           usage->by_kind[MICA_MEMORY_WORKSPACE] - usage->by_kind[MICA_MEMORY_SCRATCH] -
           usage->by_kind[MICA_MEMORY_KV];
}

/* What the model's vocabulary takes; nothing where it has none that can be read. */
static mica_status vocabulary_bytes(const mica_model *model, int64_t *bytes)
{
    mica_memory_usage before, after;
    mica_tokenizer *tokenizer = NULL;
    mica_memory_read(&before);
    const mica_status status = mica_model_tokenizer(model, &tokenizer);
    mica_memory_read(&after);
    mica_tokenizer_free(tokenizer);
    *bytes =
        status == MICA_OK ? after.by_kind[MICA_MEMORY_TEXT] - before.by_kind[MICA_MEMORY_TEXT] : 0;
    return status == MICA_E_MEMORY ? status : MICA_OK;
}

/* Everything but weights, KV and the peaks; called before the stepper has compiled anything. */
static mica_status overhead_of(const mica_model *model, const mica__stepper *face,
                               const mica_plan *plan, int64_t *overhead)
{
    mica_memory_usage usage;
    int64_t vocabulary;
    mica_memory_read(&usage);
    MICA_TRY(vocabulary_bytes(model, &vocabulary));
    const int64_t headers =
        mica__weights_file_bytes(model->files) - mica__weights_bytes(model->files);
    const int64_t lists =
        ENGINE_BYTES + face->n_vocab * SAMPLER_TOKEN_BYTES + plan->sequences * SEQUENCE_BYTES;
    *overhead = held(&usage) + headers + vocabulary + lists +
                mica__model_stepper_slack(face->model, plan->sequences);
    return MICA_OK;
}

/* Both peaks, and what the programs themselves take; there is a third of a size between. */
static mica_status peaks_of(mica__model_stepper *stepper, const mica__stepper *face,
                            mica_plan *plan)
{
    mica_memory_usage before, after;
    mica_memory_read(&before);
    MICA_TRY(mica__model_stepper_peak(stepper, face->max_tokens, &plan->prefill_peak));
    MICA_TRY(mica__model_stepper_peak(stepper, plan->sequences, &plan->decode_peak));
    mica_memory_read(&after);
    const int64_t two = after.by_kind[MICA_MEMORY_PROGRAMS] - before.by_kind[MICA_MEMORY_PROGRAMS];
    plan->overhead += two + two / 2;
    /* The programs' logits are bounded by a row for each token; the engine gives them a buffer for
     * each sequence. */
    const int64_t logits = plan->sequences * face->n_vocab * (int64_t)sizeof(float);
    plan->prefill_peak += logits;
    plan->decode_peak += logits;
    return MICA_OK;
}

mica_status mica_plan_model(mica_model *model, const mica_engine_options *options,
                            int64_t sequences, int64_t limit, mica_plan *plan)
{
    static const mica_engine_options defaults;
    mica__model_stepper *stepper;
    mica__stepper face;
    memset(plan, 0, sizeof *plan);
    if (!model || sequences < 0 || limit < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "plan: no model, or a negative number");
    plan->sequences = sequences ? sequences : 1;
    MICA_TRY(stepper_for(model, options ? options : &defaults, plan->sequences, &stepper, &face));
    const mica_model_facts facts = mica_model_describe(model);
    plan->weights = facts.weight_bytes;
    plan->read_per_token = facts.read_bytes;
    plan->context = face.context_length;
    plan->limit = limit;
    for (int p = 0; p < face.n_pools; p++)
        if (face.pools[p].kind == MICA__POOL_FULL)
            plan->kv_per_token += face.pools[p].block_bytes / MICA__KV_BLOCK_TOKENS;
        else
            plan->kv_window +=
                mica__window_blocks(&face.pools[p], face.context_length, face.max_tokens) *
                face.pools[p].block_bytes;
    plan->kv = plan->sequences * kv_of(&face, face.context_length);
    mica_status status = overhead_of(model, &face, plan, &plan->overhead);
    if (status == MICA_OK)
        status = peaks_of(stepper, &face, plan);
    mica__model_stepper_free(stepper);
    MICA_TRY(status);
    const int64_t besides =
        plan->weights + plan->overhead + larger(plan->prefill_peak, plan->decode_peak);
    plan->total = besides + plan->kv;
    plan->max_context = facts.context;
    if (limit)
        plan->max_context = longest(&face, facts.context, limit - besides);
    return MICA_OK;
}
