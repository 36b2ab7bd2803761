/* norm.c - rms_norm over the last axis.
 *
 * Roundings: squares by fused multiply-add in the canonical order of sums; mean = sum / n; r = 1 /
 * sqrt(mean + eps), each step rounded; out = (x * r) * (weight + offset), each step rounded, then
 * once to the output's dtype.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/level.h"
#include "backend/cpu/operand.h"

#include <math.h>

static bool is_float(mica_dtype dtype)
{
    return dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

static bool accepts(const mica__call *call)
{
    const mica__operand *x = &call->in[0], *weight = &call->in[1], *out = &call->out[0];
    return is_float(x->dtype) && is_float(weight->dtype) && out->dtype == x->dtype &&
           x->ndim >= 1 && !x->unaligned && mica__operand_in_rows(x) &&
           mica__operand_in_rows(out) && weight->ndim == 1 && mica__operand_in_rows(weight);
}

static int64_t n_rows(const mica__call *call)
{
    const mica__operand *x = &call->in[0];
    int64_t rows = 1;
    for (int i = 0; i < x->ndim - 1; i++)
        rows *= x->shape[i];
    return rows;
}

static int64_t task_rows(int64_t n)
{
    return n >= MICA__TILE_ELEMENTS ? 1 : MICA__TILE_ELEMENTS / (n > 0 ? n : 1);
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    const int64_t n = call->in[0].shape[call->in[0].ndim - 1];
    return n ? mica__div_up(n_rows(call), task_rows(n)) : 0;
}

/* A row of halves as floats. */
static size_t scratch_bytes(const mica__call *call)
{
    const mica__operand *x = &call->in[0];
    return x->dtype == MICA_F32 ? 0 : (size_t)x->shape[x->ndim - 1] * 4;
}

static void norm_row(const mica__call *call, const uint8_t *x, uint8_t *out, float *wide)
{
    const mica__norm_attrs *attrs = call->attrs;
    const mica__rows_level *rows = mica__rows_level_at(call->cpu->level);
    const mica__tile_level *tile = mica__tile_level_at(call->cpu->level);
    const mica_dtype dtype = call->in[0].dtype;
    const int64_t n = call->in[0].shape[call->in[0].ndim - 1];
    const float *source = (const float *)(const void *)x;
    float *target = (float *)(void *)out;
    if (dtype != MICA_F32) {
        tile->load(wide, x, dtype, n);
        source = wide;
        target = wide;
    }
    const float mean = rows->sum_squares(source, n) / (float)n;
    const float r = 1.0f / sqrtf(mean + attrs->eps);
    rows->scale_weighted(target, source, r, call->in[1].data, call->in[1].dtype,
                         attrs->weight_offset, n);
    if (dtype != MICA_F32)
        tile->store(out, wide, dtype, n);
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    const mica__operand *x = &call->in[0], *out = &call->out[0];
    const int64_t bytes = mica_dtype_bytes(x->dtype);
    mica__walk walk;
    mica__walk_start(&walk, x->ndim - 1, x->shape);
    for (int i = 0; i < 2; i++) {
        mica__operand rows = i ? *out : *x;
        rows.ndim--;
        mica__walk_add(&walk, &rows);
    }
    mica__walk_merge(&walk);
    const int64_t step = task_rows(x->shape[x->ndim - 1]);
    const int64_t stop = (task + 1) * step < walk.size ? (task + 1) * step : walk.size;
    mica__cursor cursor;
    mica__cursor_set(&walk, &cursor, task * step);
    for (int64_t row = task * step; row < stop; row++) {
        norm_row(call, x->data + mica__cursor_offset(&walk, &cursor, 0) * bytes,
                 out->data + mica__cursor_offset(&walk, &cursor, 1) * bytes, scratch);
        mica__cursor_advance(&walk, &cursor, 1);
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_rms_norm = {
    .op = MICA__OP_RMS_NORM,
    .name = "rms_norm",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_bytes,
    .run = run,
    .in_place = 1,
};
