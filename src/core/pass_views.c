/* pass_views.c - operations that only change shape, strides and offset cost nothing.
 *
 * A view's value lies in the storage of its base: the pass computes offset and strides there and
 * kills the node. Where strides cannot say it (a reshape across a gap) a copy is put in between.
 * Strides are those of the bounds, so a named extent never moves an element; a reshape that would
 * merge a varying axis into the middle of another is refused. Insertions keep the order valid: the
 * node list is rebuilt.
 * SPDX-License-Identifier: MIT
 */
#include "core/ir.h"

#include <string.h>

static void set_view(mica__ir *ir, int32_t id, int32_t of, int64_t extra_offset)
{
    ir->values[id].node = -1;
    ir->values[id].base = ir->values[of].base;
    ir->values[id].shows = ir->values[of].shows;
    ir->values[id].offset = ir->values[of].offset + extra_offset;
}

static void view_transpose(mica__ir *ir, const mica__ir_node *node)
{
    const mica__transpose_attrs *attrs = node->attrs;
    const mica__ir_value *in = &ir->values[node->in[0]];
    mica__ir_value *out = &ir->values[node->out];
    for (int i = 0; i < out->ndim; i++)
        out->strides[i] = in->strides[attrs->axes[i]];
    set_view(ir, node->out, node->in[0], 0);
}

static void view_broadcast(mica__ir *ir, const mica__ir_node *node)
{
    const mica__ir_value *in = &ir->values[node->in[0]];
    mica__ir_value *out = &ir->values[node->out];
    const int added = out->ndim - in->ndim;
    for (int i = 0; i < out->ndim; i++)
        out->strides[i] =
            i < added || in->shape[i - added] != out->shape[i] ? 0 : in->strides[i - added];
    set_view(ir, node->out, node->in[0], 0);
}

static void view_slice(mica__ir *ir, const mica__ir_node *node)
{
    const mica__slice_attrs *attrs = node->attrs;
    const mica__ir_value *in = &ir->values[node->in[0]];
    mica__ir_value *out = &ir->values[node->out];
    int64_t offset = 0;
    for (int i = 0; i < out->ndim; i++) {
        offset += attrs->start[i] * in->strides[i];
        out->strides[i] = attrs->step[i] * in->strides[i];
    }
    set_view(ir, node->out, node->in[0], mica__ir_size(out) ? offset : 0);
}

/* Strides of `out` (a reshape of `in`) in in's storage; false where none exist. Walks groups of
 * axes with equal products from the left, as every array library does; axes of length 1 take no
 * part. */
static bool reshape_strides(const mica__ir_value *in, const mica__ir_value *out, int64_t *strides)
{
    int64_t shape[MICA_MAX_DIMS], stride[MICA_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < in->ndim; i++)
        if (in->shape[i] != 1) {
            shape[n] = in->shape[i];
            stride[n++] = in->strides[i];
        }
    int i = 0, o = 0;
    while (i < n) {
        int i_end = i + 1, o_end = o + 1;
        int64_t i_size = shape[i], o_size = o < out->ndim ? out->shape[o] : 1;
        while (i_size != o_size) {
            if (i_size < o_size)
                i_size *= shape[i_end++];
            else
                o_size *= out->shape[o_end++];
        }
        for (int k = i; k < i_end - 1; k++)
            if (stride[k] != shape[k + 1] * stride[k + 1])
                return false;
        int64_t s = stride[i_end - 1];
        for (int k = o_end - 1; k >= o; k--) {
            strides[k] = s;
            s *= out->shape[k];
        }
        i = i_end;
        o = o_end;
    }
    for (; o < out->ndim; o++)
        strides[o] = 1;
    return true;
}

static mica_status append_copy(mica__ir *ir, int32_t value, int32_t *copied)
{
    int32_t node;
    const mica__no_attrs none = {0};
    MICA_TRY(mica__ir_add_value(ir, &ir->values[value], copied));
    MICA_TRY(mica__ir_add_node(ir, MICA__OP_COPY, &none, 1, &value, *copied, &node));
    ir->values[*copied].node = node;
    return MICA_OK;
}

static mica_status view_reshape(mica__ir *ir, const mica__ir_node *node)
{
    int32_t from = node->in[0];
    const int32_t out = node->out;
    int64_t strides[MICA_MAX_DIMS];
    if (mica__ir_size(&ir->values[from]) == 0)
        mica__row_strides(ir->values[out].ndim, ir->values[out].shape, strides);
    else if (!reshape_strides(&ir->values[from], &ir->values[out], strides)) {
        MICA_TRY(append_copy(ir, from, &from));
        if (!reshape_strides(&ir->values[from], &ir->values[out], strides))
            MICA_FAIL(MICA_E_INTERNAL, "a contiguous array could not be reshaped");
    }
    memcpy(ir->values[out].strides, strides, (size_t)ir->values[out].ndim * sizeof *strides);
    set_view(ir, out, from, 0);
    return MICA_OK;
}

static mica_status fold(mica__ir *ir, const mica__ir_node *node)
{
    switch (node->op) {
    case MICA__OP_TRANSPOSE:
        view_transpose(ir, node);
        return MICA_OK;
    case MICA__OP_BROADCAST:
        view_broadcast(ir, node);
        return MICA_OK;
    case MICA__OP_SLICE:
        view_slice(ir, node);
        return MICA_OK;
    case MICA__OP_RESHAPE:
        return view_reshape(ir, node);
    default:
        MICA_FAIL(MICA_E_INTERNAL, "%s is called a view and is none",
                  mica__op_facts_of(node->op)->name);
    }
}

/* A program output needs a buffer of its own: a view, a leaf or a value wanted twice is copied,
 * unless it is the in-place update of an input. */
static mica_status own_outputs(mica__ir *ir)
{
    for (int i = 0; i < ir->n_outputs; i++) {
        int32_t id = ir->outputs[i];
        const mica__ir_value *value = &ir->values[id];
        const bool updates_leaf = value->node >= 0 && ir->values[value->base].leaf >= 0 &&
                                  value->base != id &&
                                  mica__rules_of(ir->nodes[value->node].op)->alias_of;
        if (!updates_leaf && (value->base != id || value->leaf >= 0 || value->output >= 0))
            MICA_TRY(append_copy(ir, id, &id));
        ir->outputs[i] = id;
        ir->values[id].output = i;
    }
    return MICA_OK;
}

mica_status mica__pass_views(mica__ir *ir)
{
    mica__ir_node *old = ir->nodes;
    const int64_t n_old = ir->n_nodes;
    ir->nodes = NULL;
    ir->n_nodes = ir->nodes_capacity = 0;
    mica_status status = MICA_OK;
    for (int64_t i = 0; i < n_old && status == MICA_OK; i++) {
        if (old[i].dead)
            continue;
        if (mica__op_facts_of(old[i].op)->class == MICA__CLASS_VIEW) {
            status = fold(ir, &old[i]);
            continue;
        }
        status = mica__ir_append_node(ir, &old[i]);
        const int alias = mica__rules_of(old[i].op)->alias_of;
        if (alias) { /* the result is its input's storage, updated */
            mica__ir_value *out = &ir->values[old[i].out];
            const mica__ir_value *in = &ir->values[old[i].in[alias - 1]];
            out->base = in->base;
            out->offset = in->offset;
            memcpy(out->strides, in->strides, (size_t)in->ndim * sizeof *in->strides);
        }
    }
    mica__free(old);
    MICA_TRY(status);
    return own_outputs(ir);
}
