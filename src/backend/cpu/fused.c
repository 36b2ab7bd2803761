/* fused.c - the kernel of a fused elementwise group: one pass of the tile interpreter.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/fused_run.h"
#include "backend/cpu/vector_kernels.h"

static bool accepts(const mica__call *call)
{
    return mica__fused_accepts(call->attrs, call->in, call->out);
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    return mica__div_up(mica__operand_size(&call->out[0]), MICA__TILE_ELEMENTS);
}

static size_t scratch_bytes(const mica__call *call)
{
    return mica__fused_scratch_bytes(call->attrs);
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    const int64_t size = mica__operand_size(&call->out[0]), start = task * MICA__TILE_ELEMENTS;
    const int64_t n = size - start < MICA__TILE_ELEMENTS ? size - start : MICA__TILE_ELEMENTS;
    return mica__fused_run(call->cpu, call->attrs, call->in, call->out, start, n, scratch);
}

const mica__kernel mica__cpu_fused = {
    .op = MICA__OP_FUSED,
    .name = "fused",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_bytes,
    .run = run,
    .in_place = (1u << MICA__FUSED_INPUTS) - 1,
};
