/* kernel_embed.c - rows of a table in any stored format, as f32.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/strips.h"

static bool accepts(const mica__call *call)
{
    mica__qweight w;
    const mica__operand *ids = &call->in[0], *out = &call->out[0];
    if (!mica__qweight_of(call->attrs, call->in + 1, call->n_in - 1, &w))
        return false;
    return ids->dtype == MICA_I32 && ids->ndim == 1 && !ids->unaligned && out->dtype == MICA_F32 &&
           out->ndim == 2 && out->shape[0] == ids->shape[0] && out->shape[1] == w.k &&
           (w.k <= 1 || out->strides[1] == 1);
}

static int64_t rows_per_task(const mica__call *call)
{
    const int64_t k = call->out[0].shape[1];
    return k >= MICA__TILE_ELEMENTS || k < 1 ? 1 : MICA__TILE_ELEMENTS / k;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    const int64_t per_task = rows_per_task(call);
    return (call->in[0].shape[0] + per_task - 1) / per_task;
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    mica__qweight w = {0};
    (void)mica__qweight_of(call->attrs, call->in + 1, call->n_in - 1, &w);
    const mica__matmul_level *level = mica__matmul_level_for(call->cpu);
    const mica__operand *ids = &call->in[0], *out = &call->out[0];
    const int64_t per_task = rows_per_task(call), n = ids->shape[0];
    const int64_t end = (task + 1) * per_task < n ? (task + 1) * per_task : n;
    for (int64_t i = task * per_task; i < end; i++) {
        const int32_t id = ((const int32_t *)(const void *)ids->data)[i * ids->strides[0]];
        if (id < 0 || id >= w.n)
            MICA_FAIL(MICA_E_ARGUMENT, "embed: id %d at position %lld is outside a table of %lld",
                      (int)id, (long long)i, (long long)w.n);
        level->real->dequantize(&w, id, 0, w.k, (float *)(void *)mica__operand_row(out, i));
    }
    return MICA_OK;
}

const mica__kernel mica__kernel_embed = {
    .op = MICA__OP_EMBED,
    .name = "embed",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .run = run,
};
