/* reduce.c - sum, mean, max, min over axes, in floats.
 *
 * The reduced elements of an output are numbered in row-major order of the reduced axes. Blocks of
 * 1024 of them are summed over 16 lanes and a tree, block sums are added in order: so layout and
 * tasks never matter. Rows of reduced elements go through the level's sum; where outputs lie side
 * by side in memory instead, 16 rows of lanes are kept for many outputs at once, with the same
 * additions. Few outputs of many elements are split over tasks by blocks.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/reduce.h"

#include <string.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/level.h"

enum {
    COLUMNS = 128,     /* outputs side by side */
    SPLIT_BLOCKS = 16, /* blocks of a task when an output is split */
    SPLIT_OUTPUTS = 64 /* fewer outputs than this may be split */
};

void mica__reduction_of(const mica__call *call, mica__reduction *reduction)
{
    const mica__reduce_attrs *attrs = call->attrs;
    mica__operand kept_in = call->in[0], kept_out = call->out[0], reduced = call->in[0];
    kept_in.ndim = kept_out.ndim = reduced.ndim = 0;
    for (int i = 0, j = 0; i < call->in[0].ndim; i++) {
        mica__operand *part = &kept_in;
        if (attrs->axes >> i & 1) {
            part = &reduced;
            j += attrs->keepdims != 0;
        } else {
            kept_out.shape[kept_out.ndim] = call->in[0].shape[i];
            kept_out.strides[kept_out.ndim++] = call->out[0].strides[j++];
        }
        part->shape[part->ndim] = call->in[0].shape[i];
        part->strides[part->ndim++] = call->in[0].strides[i];
    }
    mica__walk_start(&reduction->kept, kept_in.ndim, kept_in.shape);
    mica__walk_add(&reduction->kept, &kept_in);
    mica__walk_add(&reduction->kept, &kept_out);
    mica__walk_merge(&reduction->kept);
    mica__walk_start(&reduction->reduced, reduced.ndim, reduced.shape);
    mica__walk_add(&reduction->reduced, &reduced);
    mica__walk_merge(&reduction->reduced);
    reduction->n_outputs = reduction->kept.size;
    reduction->n_reduced = reduction->reduced.size;
    reduction->n_blocks = mica__div_up(reduction->n_reduced, MICA__REDUCE_BLOCK);
}

void mica__reduction_load(const mica__reduction *reduction, const mica__operand *in, int64_t base,
                          int64_t start, int64_t n, mica_dtype dtype, void *to)
{
    const mica__walk *walk = &reduction->reduced;
    const int64_t in_bytes = mica_dtype_bytes(in->dtype), bytes = mica_dtype_bytes(dtype);
    uint8_t *target = to;
    mica__cursor cursor;
    mica__cursor_set(walk, &cursor, start);
    while (n > 0) {
        const int64_t run = mica__cursor_run(walk, &cursor, n);
        mica__convert(target, dtype, 1,
                      in->data + (base + mica__cursor_offset(walk, &cursor, 0)) * in_bytes,
                      in->dtype, walk->strides[0][walk->ndim - 1], run);
        mica__cursor_advance(walk, &cursor, run);
        target += run * bytes;
        n -= run;
    }
}

/* What sum, max and min differ in. */
typedef struct reduce_rule {
    mica__op op;
    float (*block)(const float *x, int64_t n);
    void (*to)(float *to, const float *x, int64_t n);
} reduce_rule;

static reduce_rule rule_of(const mica__call *call, mica__op op)
{
    const mica__rows_level *rows = mica__rows_level_at(call->cpu->level);
    if (op == MICA__OP_MAX)
        return (reduce_rule){op, rows->max, rows->max_to};
    if (op == MICA__OP_MIN)
        return (reduce_rule){op, rows->min, rows->min_to};
    return (reduce_rule){op, rows->sum, rows->add_to};
}

static bool is_float(mica_dtype dtype)
{
    return dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

static bool accepts(const mica__call *call)
{
    return is_float(call->out[0].dtype) && call->in[0].dtype != MICA_C64 &&
           call->in[0].dtype != MICA_F64;
}

static bool splits(const mica__reduction *r)
{
    return r->n_outputs < SPLIT_OUTPUTS && r->n_blocks > SPLIT_BLOCKS;
}

/* Outputs of one task when they are not split. */
static int64_t task_outputs(const mica__reduction *r)
{
    if (r->n_reduced >= MICA__TILE_ELEMENTS)
        return COLUMNS;
    const int64_t n = MICA__TILE_ELEMENTS / (r->n_reduced + 1);
    return n < COLUMNS ? COLUMNS : n;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    mica__reduction r;
    mica__reduction_of(call, &r);
    if (splits(&r))
        return stage == 0 ? r.n_outputs * mica__div_up(r.n_blocks, SPLIT_BLOCKS) : 1;
    return stage == 0 ? mica__div_up(r.n_outputs, task_outputs(&r)) : 0;
}

/* Lanes of COLUMNS outputs, one row of the input, totals; or one block of a row. */
static size_t scratch_bytes(const mica__call *call)
{
    (void)call;
    return (size_t)(18 * COLUMNS + MICA__REDUCE_BLOCK) * sizeof(float);
}

static size_t workspace_bytes(const mica__call *call)
{
    mica__reduction r;
    mica__reduction_of(call, &r);
    const int64_t outputs = r.n_outputs < SPLIT_OUTPUTS ? r.n_outputs : SPLIT_OUTPUTS;
    return (size_t)(outputs * r.n_blocks) * sizeof(float);
}

/* The value of one block of reduced elements. */
static float block_value(const mica__call *call, const mica__reduction *r, const reduce_rule *rule,
                         int64_t base, int64_t block, float *tile)
{
    const mica__operand *in = &call->in[0];
    const int64_t start = block * MICA__REDUCE_BLOCK;
    const int64_t n =
        r->n_reduced - start < MICA__REDUCE_BLOCK ? r->n_reduced - start : MICA__REDUCE_BLOCK;
    const mica__walk *walk = &r->reduced;
    const bool run = walk->ndim == 1 && walk->strides[0][0] == 1;
    if (run && in->dtype == MICA_F32 && !in->unaligned)
        return rule->block((const float *)(const void *)in->data + base + start, n);
    if (run && is_float(in->dtype))
        mica__tile_level_at(call->cpu->level)
            ->load(tile, in->data + (base + start) * mica_dtype_bytes(in->dtype), in->dtype, n);
    else
        mica__reduction_load(r, in, base, start, n, MICA_F32, tile);
    return rule->block(tile, n);
}

static void combine(const reduce_rule *rule, int64_t block, float *total, float value)
{
    if (block == 0 && rule->op != MICA__OP_SUM && rule->op != MICA__OP_MEAN)
        *total = value;
    else
        rule->to(total, &value, 1);
}

static void write_output(const mica__call *call, const reduce_rule *rule, const mica__reduction *r,
                         int64_t offset, float total)
{
    const mica__operand *out = &call->out[0];
    if (rule->op == MICA__OP_MEAN)
        total = total / (float)r->n_reduced;
    mica__convert(out->data + offset * mica_dtype_bytes(out->dtype), out->dtype, 1, &total,
                  MICA_F32, 1, 1);
}

static void reduce_rows(const mica__call *call, const mica__reduction *r, const reduce_rule *rule,
                        int64_t first, int64_t last, float *tile)
{
    mica__cursor cursor;
    mica__cursor_set(&r->kept, &cursor, first);
    for (int64_t i = first; i < last; i++) {
        const int64_t base = mica__cursor_offset(&r->kept, &cursor, 0);
        float total = 0;
        for (int64_t block = 0; block < r->n_blocks; block++)
            combine(rule, block, &total, block_value(call, r, rule, base, block, tile));
        write_output(call, rule, r, mica__cursor_offset(&r->kept, &cursor, 1), total);
        mica__cursor_advance(&r->kept, &cursor, 1);
    }
}

/* A row of `width` outputs' elements at one reduced index, as floats. */
static const float *column_row(const mica__call *call, int64_t offset, int64_t width, float *row)
{
    const mica__operand *in = &call->in[0];
    if (in->dtype == MICA_F32 && !in->unaligned)
        return (const float *)(const void *)in->data + offset;
    if (is_float(in->dtype))
        mica__tile_level_at(call->cpu->level)
            ->load(row, in->data + offset * mica_dtype_bytes(in->dtype), in->dtype, width);
    else
        mica__convert(row, MICA_F32, 1, in->data + offset * mica_dtype_bytes(in->dtype), in->dtype,
                      1, width);
    return row;
}

/* Sums (or extremes) of `width` <= COLUMNS outputs that lie side by side from `base` on. */
static void reduce_columns(const mica__call *call, const mica__reduction *r,
                           const reduce_rule *rule, int64_t base, int64_t width, float *totals,
                           float *scratch)
{
    float *lanes = scratch, *row = scratch + 16 * COLUMNS;
    const bool sums = rule->op == MICA__OP_SUM || rule->op == MICA__OP_MEAN;
    mica__cursor cursor;
    mica__cursor_set(&r->reduced, &cursor, 0);
    memset(totals, 0, (size_t)width * sizeof *totals);
    for (int64_t k = 0; k < r->n_reduced; k++) {
        const float *x =
            column_row(call, base + mica__cursor_offset(&r->reduced, &cursor, 0), width, row);
        mica__cursor_advance(&r->reduced, &cursor, 1);
        if (!sums) {
            if (k == 0)
                memcpy(totals, x, (size_t)width * sizeof *totals);
            else
                rule->to(totals, x, width);
            continue;
        }
        if (k % MICA__REDUCE_BLOCK == 0)
            memset(lanes, 0, 16 * COLUMNS * sizeof *lanes);
        rule->to(lanes + k % 16 * COLUMNS, x, width);
        if (k % MICA__REDUCE_BLOCK == MICA__REDUCE_BLOCK - 1 || k == r->n_reduced - 1) {
            for (int half = 8; half; half /= 2)
                for (int i = 0; i < half; i++)
                    rule->to(lanes + i * COLUMNS, lanes + (i + half) * COLUMNS, width);
            rule->to(totals, lanes, width);
        }
    }
}

static void reduce_side_by_side(const mica__call *call, const mica__reduction *r,
                                const reduce_rule *rule, int64_t first, int64_t last,
                                float *scratch)
{
    float *totals = scratch + 17 * COLUMNS;
    mica__cursor cursor;
    mica__cursor_set(&r->kept, &cursor, first);
    while (first < last) {
        int64_t width = mica__cursor_run(&r->kept, &cursor, last - first);
        width = width < COLUMNS ? width : COLUMNS;
        reduce_columns(call, r, rule, mica__cursor_offset(&r->kept, &cursor, 0), width, totals,
                       scratch);
        const int64_t to = mica__cursor_offset(&r->kept, &cursor, 1);
        for (int64_t i = 0; i < width; i++)
            write_output(call, rule, r, to + i * r->kept.strides[1][r->kept.ndim - 1], totals[i]);
        mica__cursor_advance(&r->kept, &cursor, width);
        first += width;
    }
}

static mica_status split_run(const mica__call *call, const mica__reduction *r,
                             const reduce_rule *rule, int stage, int64_t task, float *tile)
{
    float *values = (float *)(void *)call->workspace;
    mica__cursor cursor;
    if (stage == 0) {
        const int64_t parts = mica__div_up(r->n_blocks, SPLIT_BLOCKS);
        const int64_t output = task / parts, first = task % parts * SPLIT_BLOCKS;
        mica__cursor_set(&r->kept, &cursor, output);
        const int64_t base = mica__cursor_offset(&r->kept, &cursor, 0);
        for (int64_t b = first; b < first + SPLIT_BLOCKS && b < r->n_blocks; b++)
            values[output * r->n_blocks + b] = block_value(call, r, rule, base, b, tile);
        return MICA_OK;
    }
    mica__cursor_set(&r->kept, &cursor, 0);
    for (int64_t output = 0; output < r->n_outputs; output++) {
        float total = 0;
        for (int64_t b = 0; b < r->n_blocks; b++)
            combine(rule, b, &total, values[output * r->n_blocks + b]);
        write_output(call, rule, r, mica__cursor_offset(&r->kept, &cursor, 1), total);
        mica__cursor_advance(&r->kept, &cursor, 1);
    }
    return MICA_OK;
}

static mica_status reduce_run(const mica__call *call, mica__op op, int stage, int64_t task,
                              void *scratch)
{
    mica__reduction r;
    mica__reduction_of(call, &r);
    const reduce_rule rule = rule_of(call, op);
    if (r.n_reduced == 0 && (op == MICA__OP_MAX || op == MICA__OP_MIN))
        MICA_FAIL(MICA_E_ARGUMENT, "%s of no elements", mica__op_facts_of(op)->name);
    if (splits(&r))
        return split_run(call, &r, &rule, stage, task, scratch);
    const int64_t step = task_outputs(&r), first = task * step;
    const int64_t last = first + step < r.n_outputs ? first + step : r.n_outputs;
    const mica__walk *kept = &r.kept, *reduced = &r.reduced;
    const bool side_by_side = kept->strides[0][kept->ndim - 1] == 1 &&
                              kept->shape[kept->ndim - 1] >= 16 &&
                              reduced->strides[0][reduced->ndim - 1] != 1;
    if (side_by_side)
        reduce_side_by_side(call, &r, &rule, first, last, scratch);
    else
        reduce_rows(call, &r, &rule, first, last, scratch);
    return MICA_OK;
}

#define KERNEL(OP, lower)                                                                          \
    static mica_status lower##_run(const mica__call *call, int stage, int64_t task, void *scratch) \
    {                                                                                              \
        return reduce_run(call, OP, stage, task, scratch);                                         \
    }                                                                                              \
    const mica__kernel mica__cpu_##lower = {                                                       \
        .op = OP,                                                                                  \
        .name = #lower,                                                                            \
        .n_stages = 2,                                                                             \
        .accepts = accepts,                                                                        \
        .n_tasks = n_tasks,                                                                        \
        .scratch_bytes = scratch_bytes,                                                            \
        .workspace_bytes = workspace_bytes,                                                        \
        .run = lower##_run,                                                                        \
    };
KERNEL(MICA__OP_SUM, sum)
KERNEL(MICA__OP_MEAN, mean)
KERNEL(MICA__OP_MAX, max)
KERNEL(MICA__OP_MIN, min)
