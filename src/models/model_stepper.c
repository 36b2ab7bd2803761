/* model_stepper.c - runs ragged steps of a model: picks the program of the smallest bucket that
 * holds the step, for the width of its block tables, and binds its inputs.
 *
 * Programs differ in their bounds only, so a step's result does not depend on which one ran it.
 * Arenas come from the runtime's pool, so that programs share memory. Each is compiled when a step
 * first needs it.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "core/program.h"
#include "models/model.h"
#include "models/weights_check.h"

#define N_BUCKETS 3
#define N_WIDTHS  16
#define MAX_ENDS  (MICA__STEP_INPUTS + 2 * MICA__KV_MAX_POOLS)

/* Compiling the programs of one width: graphs and tables of a few dozen nodes a layer. */
#define COMPILE_BYTES       ((int64_t)512 << 10)
#define COMPILE_LAYER_BYTES ((int64_t)48 << 10)

/* A token of a sequence, in its history, in trees and in tables. */
#define TOKEN_BYTES ((int64_t)64)

/* The programs for block tables of one width. */
typedef struct width_programs {
    int64_t blocks; /* 0: unused */
    mica_program *programs[N_BUCKETS];
} width_programs;

struct mica__model_stepper {
    mica_model *model;
    mica__decoder_pools pools;
    mica__step_bounds bounds; /* of the largest bucket and the whole context */
    int64_t bucket[N_BUCKETS];
    width_programs widths[N_WIDTHS];
    int next_width; /* given up when another is needed */
    const _Atomic bool *cancel;
};

static void forget_programs(width_programs *width)
{
    for (int i = 0; i < N_BUCKETS; i++) {
        mica_program_free(width->programs[i]);
        width->programs[i] = NULL;
    }
}

/* The powers of two up to any context fit; a caller with other widths loses the oldest. */
static width_programs *width_for(mica__model_stepper *stepper, int64_t blocks)
{
    for (int i = 0; i < N_WIDTHS; i++)
        if (stepper->widths[i].blocks == blocks)
            return &stepper->widths[i];
    width_programs *width = &stepper->widths[stepper->next_width];
    stepper->next_width = (stepper->next_width + 1) % N_WIDTHS;
    forget_programs(width);
    width->blocks = blocks;
    return width;
}

static mica_status program_for(mica__model_stepper *stepper, int64_t n_tokens, int64_t blocks,
                               mica_program **program)
{
    int i = 0;
    while (i < N_BUCKETS - 1 && stepper->bucket[i] < n_tokens)
        i++;
    if (n_tokens > stepper->bucket[i])
        MICA_FAIL(MICA_E_ARGUMENT, "a step of %lld tokens, at most %lld are possible",
                  (long long)n_tokens, (long long)stepper->bucket[i]);
    width_programs *width = width_for(stepper, blocks);
    if (!width->programs[i]) {
        mica__step_bounds bounds = stepper->bounds;
        bounds.tokens = stepper->bucket[i];
        bounds.blocks = blocks;
        MICA_TRY(mica__decoder_compile(stepper->model->mc, &stepper->model->spec,
                                       &stepper->model->weights, &stepper->pools,
                                       stepper->model->activations, &bounds, &width->programs[i]));
    }
    *program = width->programs[i];
    return MICA_OK;
}

/* Arrays of the step are read where they are; programs never write them. */
static uint8_t *bytes_of(const void *array)
{
    uint8_t *bytes;
    memcpy(&bytes, &array, sizeof bytes);
    return bytes;
}

static mica_status run_step(void *user, const mica__step *step)
{
    mica__model_stepper *stepper = user;
    const int n_pools = stepper->pools.n;
    uint8_t *in[MAX_ENDS], *out[1 + MICA__KV_MAX_POOLS] = {NULL};
    int64_t leading[MAX_ENDS];
    mica_program *program;
    if (!stepper->model->checked) {
        MICA_TRY(mica__weights_check(stepper->model->files, &stepper->model->weights,
                                     &stepper->model->spec, stepper->model->mc->runtime->workers));
        stepper->model->checked = true;
    }
    MICA_TRY(program_for(stepper, step->n_tokens > step->n_rows ? step->n_tokens : step->n_rows,
                         step->table_stride, &program));
    in[0] = bytes_of(step->tokens);
    in[1] = bytes_of(step->positions);
    in[2] = bytes_of(step->sequence_of);
    in[3] = bytes_of(step->logits_rows);
    for (int i = 0; i < 3; i++)
        leading[i] = step->n_tokens;
    leading[3] = step->n_rows;
    for (int p = 0; p < n_pools; p++) {
        in[MICA__STEP_INPUTS + p] = bytes_of(step->block_table[p]);
        leading[MICA__STEP_INPUTS + p] = step->n_sequences;
        in[MICA__STEP_INPUTS + n_pools + p] = step->pool_base[p];
        leading[MICA__STEP_INPUTS + n_pools + p] = 1;
    }
    out[0] = (uint8_t *)step->logits;
    const mica__run_args args = {
        .inputs = in, .leading = leading, .outputs = out, .cancel = stepper->cancel};
    return mica__program_run(program, &args);
}

static mica_status identify(void *user, mica__identity *identity)
{
    const mica__model_stepper *stepper = user;
    return mica__model_identify(stepper->model, stepper->pools.kv_dtype, identity);
}

int64_t mica__model_stepper_slack(const mica__model_stepper *stepper, int64_t n_sequences)
{
    const int64_t tokens = stepper->bounds.blocks * MICA__KV_BLOCK_TOKENS;
    int64_t n_widths = 0;
    for (int64_t width = 0; width < stepper->bounds.blocks; n_widths++)
        width = mica__table_width(width + 1, stepper->bounds.blocks);
    return n_widths * (COMPILE_BYTES + stepper->model->spec.n_layers * COMPILE_LAYER_BYTES) +
           n_sequences * tokens * TOKEN_BYTES;
}

/* The engine holds a row of logits for each sequence. */
static mica_status reserve_for(void *user, int64_t n_sequences, int64_t *bytes)
{
    mica__model_stepper *stepper = user;
    MICA_TRY(mica__model_stepper_peak(stepper, stepper->bounds.tokens, bytes));
    *bytes += n_sequences * stepper->model->spec.n_vocab * (int64_t)sizeof(float) +
              mica__model_stepper_slack(stepper, n_sequences);
    return MICA_OK;
}

mica_status mica__model_stepper_new(mica_model *model, const mica__stepper_options *options,
                                    mica__model_stepper **made, mica__stepper *face)
{
    const int64_t context = options->context > 0 && options->context < model->spec.context
                                ? options->context
                                : model->spec.context;
    mica__model_stepper *stepper = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *stepper);
    *made = NULL;
    if (!stepper)
        return MICA_E_MEMORY;
    const mica_status status =
        mica__decoder_pools_of(&model->spec, options->kv_dtype, &stepper->pools);
    if (status != MICA_OK) {
        mica__free(stepper);
        return status;
    }
    stepper->model = model;
    stepper->bounds = (mica__step_bounds){
        .tokens = options->max_tokens > 0 ? options->max_tokens : 512,
        .sequences = options->max_sequences > 0 ? options->max_sequences : 32,
        .blocks = mica__blocks_for(context),
    };
    const int64_t small[N_BUCKETS] = {1, 32, stepper->bounds.tokens};
    for (int i = 0; i < N_BUCKETS; i++)
        stepper->bucket[i] = small[i] < stepper->bounds.tokens ? small[i] : stepper->bounds.tokens;
    *face = (mica__stepper){.model = stepper,
                            .n_vocab = model->spec.n_vocab,
                            .context_length = context,
                            .max_tokens = stepper->bounds.tokens,
                            .max_sequences = stepper->bounds.sequences,
                            .n_pools = stepper->pools.n,
                            .run = run_step,
                            .reserve = reserve_for,
                            .identify = identify};
    memcpy(face->pools, stepper->pools.spec, (size_t)stepper->pools.n * sizeof *face->pools);
    *made = stepper;
    return MICA_OK;
}

void mica__model_stepper_free(mica__model_stepper *stepper)
{
    if (!stepper)
        return;
    for (int i = 0; i < N_WIDTHS; i++)
        forget_programs(&stepper->widths[i]);
    mica__free(stepper);
}

mica_status mica__model_stepper_peak(mica__model_stepper *stepper, int64_t n_tokens, int64_t *bytes)
{
    /* Attention cuts wide tables in other ways than narrow ones: the widest is not always first. */
    *bytes = 0;
    for (int64_t width = 0; width < stepper->bounds.blocks;) {
        mica_program *program;
        width = mica__table_width(width + 1, stepper->bounds.blocks);
        MICA_TRY(program_for(stepper, n_tokens, width, &program));
        const mica_program_facts facts = mica_program_describe(program);
        const int64_t peak =
            facts.peak_bytes - facts.output_bytes; /* logits have the engine's rows */
        *bytes = peak > *bytes ? peak : *bytes;
    }
    return MICA_OK;
}

void mica__model_stepper_set_cancel(mica__model_stepper *stepper, const _Atomic bool *cancel)
{
    stepper->cancel = cancel;
}
