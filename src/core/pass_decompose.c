/* pass_decompose.c - what the device has no kernel for, said in simpler operations.
 *
 * Runs first, on values as they were collected, so that what a rule builds is shared, folded, fused
 * and planned like anything else. A node without a kernel is replaced by the graph that its op's
 * rule builds from placeholders, which is collected as a graph of its own and copied in; constants
 * of the rule become the program's. Parts may lack kernels, too: the list is gone through again
 * until none does, at most MAX_DEPTH times, so a rule that leads back to its own op ends as an
 * error.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "core/plan_call.h"

#define MAX_DEPTH 8

/* Whether a node must be replaced: without a rule it is left for the kernel pass to refuse. */
static bool is_lacking(const mica__ir *ir, const mica__ir_node *node)
{
    return mica__op_facts_of(node->op)->class != MICA__CLASS_VIEW &&
           mica__rules_of(node->op)->decompose && !mica__has_kernel(ir, node);
}

static void aval_of(const mica__ir_value *value, mica__aval *aval)
{
    *aval = (mica__aval){.dtype = value->dtype, .ndim = value->ndim};
    memcpy(aval->shape, value->shape, (size_t)value->ndim * sizeof *value->shape);
    memcpy(aval->extents.axis, value->extents, (size_t)value->ndim);
}

/* The rule's result must be what the op's inference promised. */
static mica_status check_result(const mica__ir_value *out, const mica_array *result)
{
    if (result->dtype != out->dtype || result->ndim != out->ndim ||
        memcmp(result->shape, out->shape, (size_t)out->ndim * sizeof *out->shape) ||
        memcmp(result->extents.axis, out->extents, (size_t)out->ndim))
        MICA_FAIL(MICA_E_INTERNAL, "the simpler operations give another dtype or shape");
    return MICA_OK;
}

/* Builds what the rule says in the innermost scope and collects it: leaves 0 .. n_in - 1 stand for
 * the node's inputs. */
static mica_status build(const mica__ir *ir, const mica__ir_node *node, mica__ir *parts)
{
    mica_ctx *ctx = ir->ctx;
    mica_array *in[MICA__MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++) {
        mica__aval aval;
        aval_of(&ir->values[node->in[i]], &aval);
        in[i] = mica__array_new(ctx, &aval);
        if (!in[i])
            return MICA_E_MEMORY;
        in[i]->placeholder = true;
    }
    mica_array *result = mica__rules_of(node->op)->decompose(ctx, node->attrs, node->n_in, in);
    if (!result && ctx->status == MICA_OK)
        return mica__no_kernel(ir, node);
    const mica_status status = result ? check_result(&ir->values[node->out], result) : ctx->status;
    if (status == MICA_E_MEMORY)
        return status;
    if (status != MICA_OK)
        return mica__fail_at(status, "%s in simpler operations",
                             mica__op_facts_of(node->part_of)->name);
    return mica__ir_collect(ctx, node->n_in, in, 1, &result, parts);
}

/* Gives every value of the parts one in the program; `out` is the one that becomes the node's. */
static mica_status map_values(mica__ir *ir, const mica__ir_node *node, const mica__ir *parts,
                              int32_t out, int32_t *map)
{
    for (int32_t i = 0; i < parts->n_values; i++) {
        const mica__ir_value *value = &parts->values[i];
        if (value->leaf >= 0 && value->leaf < node->n_in)
            map[i] = node->in[value->leaf];
        else if (value->leaf >= 0)
            MICA_TRY(mica__ir_add_constant(ir, parts->leaves[value->leaf], &map[i]));
        else if (i == out)
            map[i] = node->out;
        else
            MICA_TRY(mica__ir_add_value(ir, value, &map[i]));
    }
    return MICA_OK;
}

static mica_status add_part(mica__ir *ir, const mica__ir_node *node, mica__op op, const void *attrs,
                            int n_in, const int32_t *in, int32_t out, int n_out)
{
    int32_t id;
    MICA_TRY(mica__ir_add_node(ir, op, attrs, n_in, in, out, &id));
    ir->nodes[id].part_of = node->part_of;
    ir->nodes[id].n_out = n_out;
    for (int i = 0; i < n_out; i++)
        ir->values[out + i].node = id;
    return MICA_OK;
}

static mica_status splice(mica__ir *ir, const mica__ir_node *node, const mica__ir *parts,
                          int32_t *map)
{
    const int32_t result = parts->outputs[0], made_by = parts->values[result].node;
    const bool own = made_by >= 0 && parts->nodes[made_by].n_out == 1;
    MICA_TRY(map_values(ir, node, parts, own ? result : -1, map));
    for (int64_t i = 0; i < parts->n_nodes; i++) {
        const mica__ir_node *part = &parts->nodes[i];
        int32_t in[MICA__MAX_OPERANDS];
        for (int j = 0; j < part->n_in; j++)
            in[j] = map[part->in[j]];
        MICA_TRY(
            add_part(ir, node, part->op, part->attrs, part->n_in, in, map[part->out], part->n_out));
    }
    const mica__no_attrs none = {0};
    if (!own) /* the rule gave an input, a constant or one of several outputs */
        return add_part(ir, node, MICA__OP_COPY, &none, 1, &map[result], node->out, 1);
    return MICA_OK;
}

/* A failure while building stands in the context, too: it is taken away there, so that the caller's
 * record, which names the op, is the one that stays. */
static mica_status decompose(mica__ir *ir, const mica__ir_node *node)
{
    mica__ir parts = {0};
    int32_t *map = NULL;
    mica_scope *scope = mica_scope_push(ir->ctx);
    if (!scope)
        return MICA_E_MEMORY;
    mica_status status = build(ir, node, &parts);
    if (status == MICA_OK) {
        map = mica__alloc(MICA_MEMORY_GRAPH, (size_t)(parts.n_values + 1) * sizeof *map);
        status = map ? splice(ir, node, &parts, map) : MICA_E_MEMORY;
    }
    mica__free(map);
    mica__ir_free(&parts);
    mica_scope_pop(scope);
    if (status != MICA_OK)
        mica_clear_error(ir->ctx);
    return status;
}

static bool any_lacking(const mica__ir *ir, mica__op *op)
{
    for (int64_t i = 0; i < ir->n_nodes; i++)
        if (is_lacking(ir, &ir->nodes[i])) {
            *op = ir->nodes[i].part_of;
            return true;
        }
    return false;
}

static mica_status replace_lacking(mica__ir *ir)
{
    mica__ir_node *old = ir->nodes;
    const int64_t n_old = ir->n_nodes;
    ir->nodes = NULL;
    ir->n_nodes = ir->nodes_capacity = 0;
    mica_status status = MICA_OK;
    for (int64_t i = 0; i < n_old && status == MICA_OK; i++)
        status =
            is_lacking(ir, &old[i]) ? decompose(ir, &old[i]) : mica__ir_append_node(ir, &old[i]);
    mica__free(old);
    return status;
}

mica_status mica__pass_decompose(mica__ir *ir)
{
    mica__op op;
    for (int depth = 0; any_lacking(ir, &op); depth++) {
        if (depth == MAX_DEPTH)
            MICA_FAIL(MICA_E_INTERNAL, "%s: no kernels after %d rounds of simpler operations",
                      mica__op_facts_of(op)->name, MAX_DEPTH);
        MICA_TRY(replace_lacking(ir));
    }
    return MICA_OK;
}
