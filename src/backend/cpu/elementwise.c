/* elementwise.c - the kernels of every unary and binary op on f32, f16 and bf16.
 *
 * An op is a chain of one instruction for the tile interpreter: halves go through f32 and round
 * once.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/elementwise.h"

#include <string.h>

#include "backend/cpu/fused_run.h"

static void chain_of(const mica__call *call, mica__op op, mica__fused_attrs *chain)
{
    memset(chain, 0, sizeof *chain);
    chain->n_inputs = (uint8_t)call->n_in;
    chain->n_outputs = 1;
    chain->n_instrs = 1;
    chain->n_slots = (uint8_t)(call->n_in + 1);
    chain->outputs[0] = (uint8_t)call->n_in;
    chain->instrs[0] = (mica__fused_instr){.op = (uint16_t)op,
                                           .dtype = (uint8_t)call->out[0].dtype,
                                           .out = (uint8_t)call->n_in,
                                           .in = {0, call->n_in > 1 ? 1 : 0}};
}

bool mica__elementwise_accepts(const mica__call *call, mica__op op)
{
    mica__fused_attrs chain;
    chain_of(call, op, &chain);
    return mica__fused_accepts(&chain, call->in, call->out);
}

int64_t mica__elementwise_n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    return mica__div_up(mica__operand_size(&call->out[0]), MICA__TILE_ELEMENTS);
}

size_t mica__elementwise_scratch_bytes(const mica__call *call)
{
    return (size_t)(call->n_in + 1) * MICA__FUSED_TILE * sizeof(float);
}

mica_status mica__elementwise_run(const mica__call *call, mica__op op, int64_t task, void *scratch)
{
    mica__fused_attrs chain;
    chain_of(call, op, &chain);
    const int64_t size = mica__operand_size(&call->out[0]), start = task * MICA__TILE_ELEMENTS;
    const int64_t n = size - start < MICA__TILE_ELEMENTS ? size - start : MICA__TILE_ELEMENTS;
    return mica__fused_run(call->cpu, &chain, call->in, call->out, start, n, scratch);
}

#define KERNEL(OP, lower, inputs)                                                                  \
    static bool lower##_accepts(const mica__call *call)                                            \
    {                                                                                              \
        return mica__elementwise_accepts(call, OP);                                                \
    }                                                                                              \
    static mica_status lower##_run(const mica__call *call, int stage, int64_t task, void *scratch) \
    {                                                                                              \
        (void)stage;                                                                               \
        return mica__elementwise_run(call, OP, task, scratch);                                     \
    }                                                                                              \
    const mica__kernel mica__cpu_##lower = {                                                       \
        .op = OP,                                                                                  \
        .name = #lower,                                                                            \
        .n_stages = 1,                                                                             \
        .accepts = lower##_accepts,                                                                \
        .n_tasks = mica__elementwise_n_tasks,                                                      \
        .scratch_bytes = mica__elementwise_scratch_bytes,                                          \
        .run = lower##_run,                                                                        \
        .in_place = (1u << (inputs)) - 1,                                                          \
    };
MICA__ELEMENTWISE_OPS(KERNEL)
