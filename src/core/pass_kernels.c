/* pass_kernels.c - chooses a kernel for each node, and copies where none takes an input as it lies.
 *
 * Kernels are asked in the order of the backend's list. A kernel without `accepts` wants
 * row-contiguous, aligned inputs. When none accepts, the inputs that are not so are copied and the
 * list is asked again; a copy never changes the order of additions, since that is fixed by the op's
 * logical form.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "core/plan_call.h"

static bool is_aligned(const mica__ir *ir, const mica__ir_value *value)
{
    const mica__ir_value *base = &ir->values[value->base];
    if (base->leaf < 0)
        return true;
    const mica_array *leaf = ir->leaves[base->leaf];
    return !(leaf->buffer && (leaf->buffer->unaligned || leaf->offset % 64));
}

void mica__plan_operand(const mica__ir *ir, int32_t id, mica__operand *operand)
{
    const mica__ir_value *value = &ir->values[id];
    memset(operand, 0, sizeof *operand);
    operand->dtype = value->dtype;
    operand->ndim = value->ndim;
    operand->unaligned = !is_aligned(ir, value);
    memcpy(operand->shape, value->shape, (size_t)value->ndim * sizeof *value->shape);
    memcpy(operand->strides, value->strides, (size_t)value->ndim * sizeof *value->strides);
}

void mica__plan_call(const mica__ir *ir, const mica__ir_node *node, mica__operand *operands,
                     mica__call *call)
{
    for (int i = 0; i < node->n_in; i++)
        mica__plan_operand(ir, node->in[i], &operands[i]);
    for (int i = 0; i < node->n_out; i++)
        mica__plan_operand(ir, node->out + i, &operands[node->n_in + i]);
    *call = (mica__call){.attrs = node->attrs,
                         .cpu = &ir->ctx->runtime->cpu,
                         .n_in = node->n_in,
                         .n_out = node->n_out,
                         .in = operands,
                         .out = operands + node->n_in};
}

static bool accepts(const mica__ir *ir, const mica__ir_node *node, const mica__kernel *kernel,
                    const mica__call *call)
{
    if (kernel->accepts)
        return kernel->accepts(call);
    for (int i = 0; i < node->n_in; i++)
        if (call->in[i].unaligned || !mica__ir_is_contiguous(&ir->values[node->in[i]]))
            return false;
    return true;
}

static const mica__kernel *find(const mica__ir *ir, const mica__ir_node *node, bool as_copies)
{
    const mica__runtime *runtime = ir->ctx->runtime;
    mica__operand operands[MICA__MAX_OPERANDS];
    mica__call call = {0};
    for (int i = 0; i < runtime->n_kernels; i++) {
        if (runtime->kernels[i]->op != node->op)
            continue;
        if (!call.cpu)
            mica__plan_call(ir, node, operands, &call);
        for (int j = 0; j < node->n_in && as_copies; j++)
            operands[j].unaligned = false;
        if (accepts(ir, node, runtime->kernels[i], &call))
            return runtime->kernels[i];
    }
    return NULL;
}

bool mica__has_kernel(const mica__ir *ir, const mica__ir_node *node)
{
    return node->n_in + node->n_out <= MICA__MAX_OPERANDS && find(ir, node, true);
}

static mica_status copy_input(mica__ir *ir, int32_t *input)
{
    const mica__no_attrs none = {0};
    int32_t copied, index;
    MICA_TRY(mica__ir_add_value(ir, &ir->values[*input], &copied));
    MICA_TRY(mica__ir_add_node(ir, MICA__OP_COPY, &none, 1, input, copied, &index));
    ir->values[copied].node = index;
    ir->nodes[index].kernel = find(ir, &ir->nodes[index], false);
    if (!ir->nodes[index].kernel)
        MICA_FAIL(MICA_E_UNSUPPORTED, "no kernel copies %s arrays",
                  mica_dtype_name(ir->values[copied].dtype));
    *input = copied;
    return MICA_OK;
}

mica_status mica__no_kernel(const mica__ir *ir, const mica__ir_node *node)
{
    char dtypes[128] = "";
    size_t at = 0;
    for (int i = 0; i < node->n_in && at < sizeof dtypes; i++)
        at += (size_t)snprintf(dtypes + at, sizeof dtypes - at, "%s%s", i ? ", " : "",
                               mica_dtype_name(ir->values[node->in[i]].dtype));
    mica__fail(MICA_E_UNSUPPORTED, "%s: no kernel for %s", mica__op_facts_of(node->op)->name,
               dtypes);
    if (node->part_of == node->op)
        return MICA_E_UNSUPPORTED;
    return mica__fail_at(MICA_E_UNSUPPORTED, "%s in simpler operations",
                         mica__op_facts_of(node->part_of)->name);
}

static mica_status choose(mica__ir *ir, mica__ir_node *node)
{
    node->kernel = find(ir, node, false);
    if (!node->kernel) {
        for (int i = 0; i < node->n_in; i++)
            if (!mica__ir_is_contiguous(&ir->values[node->in[i]]) ||
                !is_aligned(ir, &ir->values[node->in[i]]))
                MICA_TRY(copy_input(ir, &node->in[i]));
        node->kernel = find(ir, node, false);
    }
    return node->kernel ? mica__ir_append_node(ir, node) : mica__no_kernel(ir, node);
}

static void measure(mica__ir *ir, mica__ir_node *node)
{
    mica__operand operands[MICA__MAX_OPERANDS];
    mica__call call;
    mica__plan_call(ir, node, operands, &call);
    if (node->kernel->workspace_bytes)
        node->workspace = (int64_t)node->kernel->workspace_bytes(&call);
    if (node->kernel->scratch_bytes) {
        const size_t bytes = node->kernel->scratch_bytes(&call);
        ir->scratch = bytes > ir->scratch ? bytes : ir->scratch;
    }
}

mica_status mica__pass_kernels(mica__ir *ir)
{
    mica__ir_node *old = ir->nodes;
    const int64_t n_old = ir->n_nodes;
    ir->nodes = NULL;
    ir->n_nodes = ir->nodes_capacity = 0;
    mica_status status = MICA_OK;
    for (int64_t i = 0; i < n_old && status == MICA_OK; i++)
        if (old[i].n_in + old[i].n_out > MICA__MAX_OPERANDS)
            status = mica__fail(MICA_E_UNSUPPORTED, "%s: too many operands",
                                mica__op_facts_of(old[i].op)->name);
        else
            status = choose(ir, &old[i]);
    mica__free(old);
    for (int64_t i = 0; i < ir->n_nodes && status == MICA_OK; i++)
        measure(ir, &ir->nodes[i]);
    return status;
}
