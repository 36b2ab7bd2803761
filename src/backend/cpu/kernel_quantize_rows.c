/* kernel_quantize_rows.c - the quantize_rows op: rows of f32 to 8-bit codes.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/strips.h"

static bool accepts(const mica__call *call)
{
    const mica__quantize_rows_attrs *attrs = call->attrs;
    const mica__operand *x = &call->in[0], *out = &call->out[0];
    const int64_t group = attrs->group;
    if (group != 32 && group != 64 && group != 128 && group != 256)
        return false;
    if (x->dtype != MICA_F32 || x->unaligned || x->ndim < 1 || out->ndim != x->ndim)
        return false;
    const int64_t k = x->shape[x->ndim - 1];
    return k % group == 0 && (k <= 1 || x->strides[x->ndim - 1] == 1) && out->dtype == MICA_U8 &&
           out->strides[out->ndim - 1] == 1 &&
           out->shape[out->ndim - 1] == mica__act8_row_bytes(k, group);
}

/* Rows that one task rounds. */
static int64_t rows_per_task(const mica__operand *x)
{
    const int64_t k = x->shape[x->ndim - 1];
    return k >= MICA__TILE_ELEMENTS || k < 1 ? 1 : MICA__TILE_ELEMENTS / k;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    const int64_t per_task = rows_per_task(&call->in[0]);
    return (mica__operand_row_count(&call->in[0]) + per_task - 1) / per_task;
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    const mica__quantize_rows_attrs *attrs = call->attrs;
    const mica__operand *x = &call->in[0];
    const mica__matmul_level *level = mica__matmul_level_for(call->cpu);
    const int64_t per_task = rows_per_task(x), rows = mica__operand_row_count(x);
    const int64_t end = (task + 1) * per_task < rows ? (task + 1) * per_task : rows;
    for (int64_t i = task * per_task; i < end; i++)
        level->real->quantize_row((const float *)(const void *)mica__operand_row(x, i),
                                  x->shape[x->ndim - 1], attrs->group,
                                  mica__operand_row(&call->out[0], i));
    return MICA_OK;
}

const mica__kernel mica__kernel_quantize_rows = {
    .op = MICA__OP_QUANTIZE_ROWS,
    .name = "quantize_rows",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .run = run,
};
