/* attention.c - paged attention: cuts a step into tasks and walks the chunks each query sees.
 *
 * Keys go in chunks of 64 at absolute positions; chunks fold left to right into a span of 1024,
 * spans left to right into the result. A query's arithmetic is fixed by its own position and window
 * alone. What varies with the step's shape is who does it:
 *   direct  a task owns some tokens and one KV head, and folds all spans itself;
 *   split   a task owns one range of spans, leaves each span's state in the workspace, and a second
 *           stage folds them. Used when there are too few tokens to occupy many workers.
 * Consecutive tokens of one sequence in a task share the walk, so keys and values that are in cache
 * serve all of them.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/kv_layout.h"
#include "backend/cpu/level.h"

#include <string.h>

enum {
    SPAN_CHUNKS = 16,
    SPAN_TOKENS = SPAN_CHUNKS * MICA__CHUNK_TOKENS,
    TASK_ROWS = 64,    /* query rows of a task, unless one token has more */
    ENOUGH_TASKS = 64, /* so many tasks occupy the workers without splitting spans */
    MOST_RANGES = 32,
    FEW_ROWS = 16 /* so few rows wait for memory more than they compute */
};

static const int64_t most_workspace = 16 << 20;

enum { QUERY, POOL, POSITIONS, SEQUENCE_OF, BLOCK_TABLE };

/* How a call is cut: a function of shapes and attributes. */
typedef struct split_plan {
    int64_t n_tokens;
    int64_t group;    /* tokens of a task */
    int64_t n_groups; /* of tokens */
    int64_t spans;    /* that the block table can hold */
    int64_t ranges;   /* 1: direct */
    int64_t range_spans;
    int kv_heads;
    int share;            /* query heads of one KV head */
    int64_t state_floats; /* one span's state in the workspace: header, values */
    int64_t padded;       /* value_dim rounded up to 16 */
} split_plan;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t workspace_floats(const split_plan *plan)
{
    return plan->n_tokens * plan->kv_heads * plan->share * plan->spans * plan->state_floats;
}

static split_plan plan_of(const mica__call *call)
{
    const mica__attention_attrs *attrs = call->attrs;
    split_plan plan = {.n_tokens = call->in[QUERY].shape[0], .kv_heads = attrs->kv.kv_heads};
    plan.share = (int)(call->in[QUERY].shape[1] / attrs->kv.kv_heads);
    const int64_t wanted = plan.n_tokens <= 4 ? 1 : plan.n_tokens <= 32 ? 4 : 16;
    plan.group = larger(1, smaller(wanted, TASK_ROWS / plan.share));
    plan.n_groups = mica__div_up(plan.n_tokens, plan.group);
    plan.spans = mica__div_up(call->in[BLOCK_TABLE].shape[1] * MICA__KV_BLOCK_TOKENS, SPAN_TOKENS);
    plan.padded = mica__div_up(attrs->kv.value_dim, 16) * 16;
    plan.state_floats = 16 + plan.padded;
    const bool split = plan.spans > 1 && plan.n_groups * plan.kv_heads < ENOUGH_TASKS &&
                       workspace_floats(&plan) <= most_workspace / 4;
    plan.ranges = split ? smaller(plan.spans, MOST_RANGES) : 1;
    plan.range_spans = mica__div_up(larger(plan.spans, 1), plan.ranges);
    plan.ranges = larger(1, mica__div_up(plan.spans, plan.range_spans));
    return plan;
}

static bool accepts(const mica__call *call)
{
    const mica__attention_attrs *attrs = call->attrs;
    const mica__operand *q = &call->in[QUERY], *out = &call->out[0];
    return q->dtype == MICA_F32 && q->ndim == 3 && mica__operand_in_rows(q) && !q->unaligned &&
           out->dtype == MICA_F32 && mica__operand_in_rows(out) && attrs->kv.kv_heads > 0 &&
           q->shape[1] % attrs->kv.kv_heads == 0 &&
           mica__kv_operands_fit(&call->in[POOL], &call->in[POSITIONS], &call->in[SEQUENCE_OF],
                                 &call->in[BLOCK_TABLE]);
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    if (!mica__operand_size(&call->in[QUERY]))
        return 0;
    const split_plan plan = plan_of(call);
    if (stage == 0)
        return plan.n_groups * plan.kv_heads * plan.ranges;
    return plan.ranges > 1 ? plan.n_tokens * plan.kv_heads : 0;
}

/* Scratch of one worker, in parts. */
typedef struct scratch_parts {
    float *tile;        /* of the level's attend */
    float *span_values; /* [rows][padded] */
    float *total_values;
    mica__softmax_state *span_states; /* [rows] */
    mica__softmax_state *total_states;
    const float **queries; /* [rows] */
} scratch_parts;

static int64_t most_rows(int64_t share)
{
    return larger(TASK_ROWS, share);
}

static size_t scratch_bytes(const mica__call *call)
{
    const mica__attention_attrs *attrs = call->attrs;
    const int64_t rows = most_rows(call->in[QUERY].shape[1] / attrs->kv.kv_heads);
    const int64_t padded = mica__div_up(attrs->kv.value_dim, 16) * 16;
    return (size_t)(mica__attend_floats(attrs->kv.head_dim, attrs->kv.value_dim) * 4 +
                    2 * rows * padded * 4 + 2 * rows * (int64_t)sizeof(mica__softmax_state) + 64 +
                    rows * (int64_t)sizeof(float *));
}

static scratch_parts parts_of(const split_plan *plan, const mica__attention_attrs *attrs,
                              void *scratch)
{
    const int64_t rows = most_rows(plan->share);
    scratch_parts parts;
    parts.tile = scratch;
    parts.span_values = parts.tile + mica__attend_floats(attrs->kv.head_dim, attrs->kv.value_dim);
    parts.total_values = parts.span_values + rows * plan->padded;
    parts.queries = (const float **)(void *)(parts.total_values + rows * plan->padded);
    parts.span_states = (mica__softmax_state *)(void *)(parts.queries + rows);
    parts.total_states = parts.span_states + rows;
    return parts;
}

static size_t workspace_bytes(const mica__call *call)
{
    const split_plan plan = plan_of(call);
    return (size_t)smaller(most_workspace, workspace_floats(&plan) * 4);
}

/* Tokens [first, last) of one sequence, for one KV head. */
typedef struct query_run {
    const mica__call *call;
    const mica__attention_attrs *attrs;
    const mica__attention_level *level;
    const split_plan *plan;
    const mica__kv_step *step;
    scratch_parts parts;
    int64_t first, last;
    int64_t sequence;
    int head;
} query_run;

/* First and last position that a token at `position` sees. */
static int64_t first_seen(const mica__attention_attrs *attrs, int64_t position)
{
    return attrs->window > 0 ? larger(0, position - attrs->window + 1) : 0;
}

static int64_t position_of(const query_run *run, int64_t token)
{
    const mica__operand *positions = run->step->positions;
    return mica__operand_integer(positions, token * positions->strides[0]);
}

/* The part of a chunk that a token sees, as offsets in the chunk; empty: first >= last. */
static void seen_part(const query_run *run, int64_t token, int64_t chunk, int *first, int *last)
{
    const int64_t position = position_of(run, token), start = chunk * MICA__CHUNK_TOKENS;
    *first = (int)larger(0, smaller(MICA__CHUNK_TOKENS, first_seen(run->attrs, position) - start));
    *last = (int)larger(0, smaller(MICA__CHUNK_TOKENS, position + 1 - start));
}

/* Folds the tokens [first, last), which see the same part of the chunk, into their span states. */
static mica_status attend_alike(const query_run *run, int64_t first, int64_t last, int64_t at,
                                int part_first, int part_last)
{
    const mica__kv_attrs *kv = &run->attrs->kv;
    mica__chunk chunk = {.kv_dtype = kv->kv_dtype,
                         .head_dim = kv->head_dim,
                         .value_dim = kv->value_dim,
                         .first = part_first,
                         .last = part_last,
                         .scale = run->attrs->scale,
                         .soft_cap = run->attrs->soft_cap};
    for (int b = part_first / MICA__KV_BLOCK_TOKENS; b * MICA__KV_BLOCK_TOKENS < part_last; b++) {
        uint8_t *keys;
        MICA_TRY(mica__kv_block(run->step, run->sequence, at * MICA__CHUNK_BLOCKS + b, run->head,
                                &keys));
        chunk.keys[b] = keys;
        chunk.values[b] = keys + run->step->layout.key_bytes;
    }
    const int64_t share = run->plan->share;
    const int64_t row = (first - run->first) * share;
    run->level->attend(&chunk, (int)((last - first) * share), run->parts.queries + row,
                       run->parts.span_states + row,
                       run->parts.span_values + row * run->plan->padded, run->plan->padded,
                       run->parts.tile);
    return MICA_OK;
}

static mica_status attend_chunk(const query_run *run, int64_t at)
{
    int64_t token = run->first;
    while (token < run->last) {
        int first, last, next_first, next_last;
        seen_part(run, token, at, &first, &last);
        int64_t stop = token + 1;
        for (; stop < run->last; stop++) {
            seen_part(run, stop, at, &next_first, &next_last);
            if (next_first != first || next_last != last)
                break;
        }
        if (first < last)
            MICA_TRY(attend_alike(run, token, stop, at, first, last));
        token = stop;
    }
    return MICA_OK;
}

/* Few query rows read keys and values once, in the order of the block table, which hardware does
 * not know: asks for the blocks of a later chunk. Entries that are not blocks are left to be
 * refused when they are read. */
static void prefetch_chunk(const query_run *run, int64_t at)
{
    const mica__operand *table = run->step->block_table;
    const int64_t bytes = run->step->layout.head_bytes;
    for (int64_t i = at * MICA__CHUNK_BLOCKS; i < (at + 1) * MICA__CHUNK_BLOCKS; i++) {
        if (i >= table->shape[1])
            return;
        const int64_t block =
            mica__operand_integer(table, run->sequence * table->strides[0] + i * table->strides[1]);
        if (block < 0 || block >= run->step->n_blocks)
            continue;
        const uint8_t *keys = run->step->pool->data + block * run->attrs->kv.block_bytes +
                              run->attrs->kv.layer_offset + run->head * bytes;
        for (int64_t byte = 0; byte < bytes; byte += 64)
            __builtin_prefetch(keys + byte, 0, 2);
    }
}

/* Where the state of (token, query head g of the KV head, span) stands in the workspace. */
static float *stored_state(const mica__call *call, const split_plan *plan, int head, int64_t span,
                           int64_t token, int64_t g)
{
    const int64_t index = ((head * plan->spans + span) * plan->n_tokens + token) * plan->share + g;
    return (float *)(void *)call->workspace + index * plan->state_floats;
}

/* Span states go to the workspace (split) or into the totals (direct). */
static void leave_span(const query_run *run, int64_t span)
{
    const split_plan *plan = run->plan;
    const int64_t value_dim = run->attrs->kv.value_dim;
    for (int64_t row = 0; row < (run->last - run->first) * plan->share; row++) {
        const mica__softmax_state *state = &run->parts.span_states[row];
        const float *values = run->parts.span_values + row * plan->padded;
        if (plan->ranges == 1) {
            run->level->fold(&run->parts.total_states[row],
                             run->parts.total_values + row * plan->padded, state, values,
                             value_dim);
        } else if (state->n_chunks) {
            float *stored = stored_state(run->call, plan, run->head, span,
                                         run->first + row / plan->share, row % plan->share);
            memcpy(stored, state, sizeof *state);
            memcpy(stored + 16, values, (size_t)value_dim * sizeof *values);
        }
    }
}

static float *out_row(const mica__call *call, int64_t token, int64_t head)
{
    const mica__operand *out = &call->out[0];
    return (float *)(void *)out->data + token * out->strides[0] + head * out->strides[1];
}

/* Walks the spans [from, to) for one run of tokens. */
static mica_status walk_spans(const query_run *run, int64_t from, int64_t to)
{
    const split_plan *plan = run->plan;
    const mica__operand *q = &run->call->in[QUERY];
    const int64_t rows = (run->last - run->first) * plan->share;
    int64_t lowest = INT64_MAX, highest = 0;
    for (int64_t token = run->first; token < run->last; token++) {
        const int64_t position = position_of(run, token);
        lowest = smaller(lowest, first_seen(run->attrs, position));
        highest = larger(highest, position);
        for (int64_t g = 0; g < plan->share; g++)
            run->parts.queries[(token - run->first) * plan->share + g] =
                (const float *)(const void *)q->data + token * q->strides[0] +
                (run->head * plan->share + g) * q->strides[1];
    }
    memset(run->parts.total_states, 0, (size_t)rows * sizeof *run->parts.total_states);
    from = larger(from, lowest / SPAN_TOKENS);
    to = smaller(to, highest / SPAN_TOKENS + 1);
    for (int64_t span = from; span < to; span++) {
        memset(run->parts.span_states, 0, (size_t)rows * sizeof *run->parts.span_states);
        const int64_t first = larger(span * SPAN_CHUNKS, lowest / MICA__CHUNK_TOKENS);
        const int64_t last =
            smaller(span * SPAN_CHUNKS + SPAN_CHUNKS - 1, highest / MICA__CHUNK_TOKENS);
        for (int64_t chunk = first; chunk <= last; chunk++) {
            if (rows <= FEW_ROWS && chunk + 2 <= highest / MICA__CHUNK_TOKENS)
                prefetch_chunk(run, chunk + 2);
            MICA_TRY(attend_chunk(run, chunk));
        }
        leave_span(run, span);
    }
    if (plan->ranges == 1)
        for (int64_t row = 0; row < rows; row++)
            run->level->finish(out_row(run->call, run->first + row / plan->share,
                                       run->head * plan->share + row % plan->share),
                               &run->parts.total_states[row],
                               run->parts.total_values + row * plan->padded,
                               run->attrs->kv.value_dim);
    return MICA_OK;
}

static mica_status attend_task(const mica__call *call, int64_t task, void *scratch)
{
    const mica__attention_attrs *attrs = call->attrs;
    const split_plan plan = plan_of(call);
    mica__kv_step step;
    MICA_TRY(mica__kv_step_of("paged_attention", &attrs->kv, &call->in[POOL], &call->in[POSITIONS],
                              &step));
    const int64_t range = task / (plan.n_groups * plan.kv_heads);
    const int64_t group = plan.n_groups - 1 - task / plan.kv_heads % plan.n_groups;
    query_run run = {.call = call,
                     .attrs = attrs,
                     .level = mica__attention_level_at(call->cpu->level),
                     .plan = &plan,
                     .step = &step,
                     .parts = parts_of(&plan, attrs, scratch),
                     .head = (int)(task % plan.kv_heads)};
    const int64_t stop = smaller(plan.n_tokens, (group + 1) * plan.group);
    for (run.first = group * plan.group; run.first < stop; run.first = run.last) {
        int64_t sequence, position;
        MICA_TRY(mica__kv_token(&step, run.first, &run.sequence, &position));
        for (run.last = run.first + 1; run.last < stop; run.last++) {
            MICA_TRY(mica__kv_token(&step, run.last, &sequence, &position));
            if (sequence != run.sequence)
                break;
        }
        MICA_TRY(walk_spans(&run, range * plan.range_spans,
                            smaller(plan.spans, (range + 1) * plan.range_spans)));
    }
    return MICA_OK;
}

/* Folds the stored spans of one token and KV head. */
static mica_status fold_task(const mica__call *call, int64_t task, void *scratch)
{
    const mica__attention_attrs *attrs = call->attrs;
    const mica__attention_level *level = mica__attention_level_at(call->cpu->level);
    const split_plan plan = plan_of(call);
    const scratch_parts parts = parts_of(&plan, attrs, scratch);
    const int64_t token = task / plan.kv_heads;
    const int head = (int)(task % plan.kv_heads);
    const mica__operand *positions = &call->in[POSITIONS];
    const int64_t position = mica__operand_integer(positions, token * positions->strides[0]);
    const int64_t from = first_seen(attrs, position) / SPAN_TOKENS;
    for (int64_t g = 0; g < plan.share; g++) {
        mica__softmax_state total = {0};
        for (int64_t span = from; span <= position / SPAN_TOKENS; span++) {
            const float *stored = stored_state(call, &plan, head, span, token, g);
            mica__softmax_state state;
            memcpy(&state, stored, sizeof state);
            level->fold(&total, parts.total_values, &state, stored + 16, attrs->kv.value_dim);
        }
        level->finish(out_row(call, token, head * plan.share + g), &total, parts.total_values,
                      attrs->kv.value_dim);
    }
    return MICA_OK;
}

static mica_status run_stage(const mica__call *call, int stage, int64_t task, void *scratch)
{
    return stage == 0 ? attend_task(call, task, scratch) : fold_task(call, task, scratch);
}

const mica__kernel mica__cpu_attention = {
    .op = MICA__OP_ATTENTION,
    .name = "paged_attention",
    .n_stages = 2,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_bytes,
    .workspace_bytes = workspace_bytes,
    .run = run_stage,
};
