/* rope.c - rotary position embedding and its table.
 *
 * The table: angle = round(position) * freq, rounded once; scale * cos and scale * sin, each
 * rounded. A pair (a, b) becomes fma(-b, s, round(a * c)), fma(a, s, round(b * c)).
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/level.h"
#include "backend/cpu/operand.h"

#include <string.h>

static bool table_accepts(const mica__call *call)
{
    return call->in[0].dtype == MICA_I32 && call->in[0].ndim == 1 && !call->in[0].unaligned &&
           call->in[1].dtype == MICA_F32 && call->in[1].ndim == 1 && !call->in[1].unaligned &&
           mica__operand_in_rows(&call->in[1]) && call->out[0].dtype == MICA_F32 &&
           mica__operand_in_rows(&call->out[0]);
}

enum { TABLE_TASK_TOKENS = 64 };

static int64_t table_n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    return mica__div_up(call->in[0].shape[0], TABLE_TASK_TOKENS);
}

static mica_status table_run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    const mica__rope_table_attrs *attrs = call->attrs;
    const mica__rows_level *rows = mica__rows_level_at(call->cpu->level);
    const mica__operand *positions = &call->in[0], *out = &call->out[0];
    const int64_t first = task * TABLE_TASK_TOKENS;
    for (int64_t t = first; t < first + TABLE_TASK_TOKENS && t < positions->shape[0]; t++) {
        const int64_t position = mica__operand_integer(positions, t * positions->strides[0]);
        float *row = (float *)(void *)out->data + t * out->strides[0];
        rows->angles(row, row + out->strides[1], (const float *)(const void *)call->in[1].data,
                     (float)position, attrs->scale, call->in[1].shape[0]);
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_rope_table = {
    .op = MICA__OP_ROPE_TABLE,
    .name = "rope_table",
    .n_stages = 1,
    .accepts = table_accepts,
    .n_tasks = table_n_tasks,
    .run = table_run,
};

static bool accepts(const mica__call *call)
{
    const mica__operand *x = &call->in[0], *table = &call->in[1];
    return x->dtype == MICA_F32 && x->ndim == 3 && !x->unaligned && mica__operand_in_rows(x) &&
           table->dtype == MICA_F32 && table->ndim == 3 && !table->unaligned &&
           mica__operand_in_rows(table) && mica__operand_in_rows(&call->out[0]) &&
           2 * table->shape[2] <= x->shape[2];
}

static int64_t task_tokens(const mica__call *call)
{
    const int64_t each = call->in[0].shape[1] * call->in[0].shape[2];
    return each >= MICA__TILE_ELEMENTS ? 1 : MICA__TILE_ELEMENTS / (each > 0 ? each : 1);
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    return mica__operand_size(&call->in[0]) ? mica__div_up(call->in[0].shape[0], task_tokens(call))
                                            : 0;
}

/* Interleaved pairs taken apart: two rows of n. */
static size_t scratch_bytes(const mica__call *call)
{
    const mica__rope_attrs *attrs = call->attrs;
    return attrs->interleaved ? (size_t)call->in[1].shape[2] * 8 : 0;
}

static void turn_head(const mica__call *call, const float *x, float *to, const float *c,
                      const float *s, float *apart)
{
    const mica__rope_attrs *attrs = call->attrs;
    const mica__rows_level *rows = mica__rows_level_at(call->cpu->level);
    const int64_t n = call->in[1].shape[2], dim = call->in[0].shape[2];
    if (!attrs->interleaved) {
        rows->rotate(to, to + n, x, x + n, c, s, n);
    } else {
        float *a = apart, *b = apart + n;
        for (int64_t i = 0; i < n; i++) {
            a[i] = x[2 * i];
            b[i] = x[2 * i + 1];
        }
        rows->rotate(a, b, a, b, c, s, n);
        for (int64_t i = 0; i < n; i++) {
            to[2 * i] = a[i];
            to[2 * i + 1] = b[i];
        }
    }
    if (to != x && dim > 2 * n)
        memcpy(to + 2 * n, x + 2 * n, (size_t)(dim - 2 * n) * sizeof *to);
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    const mica__operand *x = &call->in[0], *table = &call->in[1], *out = &call->out[0];
    const int64_t step = task_tokens(call);
    for (int64_t t = task * step; t < (task + 1) * step && t < x->shape[0]; t++) {
        const float *c = (const float *)(const void *)table->data + t * table->strides[0];
        for (int64_t h = 0; h < x->shape[1]; h++)
            turn_head(call,
                      (const float *)(const void *)x->data + t * x->strides[0] + h * x->strides[1],
                      (float *)(void *)out->data + t * out->strides[0] + h * out->strides[1], c,
                      c + table->strides[1], scratch);
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_rope = {
    .op = MICA__OP_ROPE,
    .name = "rope",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_bytes,
    .run = run,
    .in_place = 1,
};
