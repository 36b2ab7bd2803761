/* collect.c - from lazy graph to numbered IR, and its canonical description.
 *
 * A depth-first walk with an explicit stack, so depth costs memory and never the call stack. Nodes
 * are recognised by the number of this collection, which they carry with their index. The
 * description
 * is the sequence of leaves and nodes as bytes; two graphs with equal descriptions give the same
 * program, whatever their data.
 * SPDX-License-Identifier: MIT
 */
#include "core/ir.h"

#include <string.h>

static _Atomic int64_t collections;

typedef struct walk_step {
    mica__node *node;
    int next_input;
} walk_step;

typedef struct walk {
    mica__ir *ir;
    int64_t number;
    walk_step *stack;
    int64_t depth, capacity;
} walk;

/* --- storage of the IR ------------------------------------------------------------------------ */

void mica__row_strides(int ndim, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape[i] > 0 ? shape[i] : 1;
    }
}

static mica_status add_value(mica__ir *ir, const mica__aval *aval, int32_t *id)
{
    if (ir->n_values >= INT32_MAX)
        MICA_FAIL(MICA_E_UNSUPPORTED, "a graph of more than %d values", INT32_MAX);
    MICA_TRY(mica__grow(MICA_MEMORY_GRAPH, (void **)&ir->values, sizeof *ir->values,
                        ir->n_values + 1, &ir->values_capacity));
    const size_t n = (size_t)aval->ndim;
    int64_t *dims = mica__arena_alloc(&ir->arena, 2 * n * sizeof *dims + n, 16);
    if (!dims)
        return MICA_E_MEMORY;
    mica__ir_value *value = &ir->values[ir->n_values];
    *value = (mica__ir_value){.dtype = aval->dtype,
                              .ndim = aval->ndim,
                              .shape = dims,
                              .strides = dims + n,
                              .extents = (uint8_t *)(dims + 2 * n),
                              .node = -1,
                              .leaf = -1,
                              .output = -1,
                              .place = -1,
                              .base = (int32_t)ir->n_values,
                              .shows = (int32_t)ir->n_values};
    memcpy(value->shape, aval->shape, n * sizeof *dims);
    memcpy(value->extents, aval->extents.axis, n);
    mica__row_strides(aval->ndim, value->shape, value->strides);
    *id = (int32_t)ir->n_values++;
    return MICA_OK;
}

mica_status mica__ir_add_value(mica__ir *ir, const mica__ir_value *like, int32_t *id)
{
    mica__aval aval = {.dtype = like->dtype, .ndim = like->ndim};
    memcpy(aval.shape, like->shape, (size_t)like->ndim * sizeof *like->shape);
    memcpy(aval.extents.axis, like->extents, (size_t)like->ndim);
    return add_value(ir, &aval, id);
}

mica_status mica__ir_add_node(mica__ir *ir, mica__op op, const void *attrs, int n_in,
                              const int32_t *in, int32_t out, int32_t *id)
{
    MICA_TRY(mica__grow(MICA_MEMORY_GRAPH, (void **)&ir->nodes, sizeof *ir->nodes, ir->n_nodes + 1,
                        &ir->nodes_capacity));
    const size_t attr_bytes = mica__op_facts_of(op)->attr_bytes;
    int32_t *ids = mica__arena_alloc(&ir->arena, (size_t)n_in * sizeof *ids + 8, 16);
    char *copy = mica__arena_alloc(&ir->arena, attr_bytes, 16);
    if (!ids || !copy)
        return MICA_E_MEMORY;
    memset(copy, 0, attr_bytes);
    if (attrs)
        memcpy(copy, attrs, attr_bytes);
    if (n_in)
        memcpy(ids, in, (size_t)n_in * sizeof *ids);
    ir->nodes[ir->n_nodes] = (mica__ir_node){.op = op,
                                             .part_of = op,
                                             .n_in = n_in,
                                             .n_out = 1,
                                             .in = ids,
                                             .out = out,
                                             .attrs = copy,
                                             .workspace_place = -1};
    *id = (int32_t)ir->n_nodes++;
    return MICA_OK;
}

mica_status mica__ir_append_node(mica__ir *ir, const mica__ir_node *node)
{
    MICA_TRY(mica__grow(MICA_MEMORY_GRAPH, (void **)&ir->nodes, sizeof *ir->nodes, ir->n_nodes + 1,
                        &ir->nodes_capacity));
    for (int i = 0; i < node->n_out; i++)
        ir->values[node->out + i].node = (int32_t)ir->n_nodes;
    ir->nodes[ir->n_nodes++] = *node;
    return MICA_OK;
}

mica_status mica__ir_add_constant(mica__ir *ir, mica_array *array, int32_t *id)
{
    mica__aval aval;
    MICA_TRY(mica__grow(MICA_MEMORY_GRAPH, (void **)&ir->leaves, sizeof *ir->leaves,
                        ir->n_leaves + 1, &ir->leaves_capacity));
    mica__aval_of(array, &aval);
    MICA_TRY(add_value(ir, &aval, id));
    ir->values[*id].leaf = (int32_t)ir->n_leaves;
    ir->leaves[ir->n_leaves++] = array;
    atomic_fetch_add_explicit(&array->refs, 1, memory_order_relaxed);
    return MICA_OK;
}

void mica__ir_free(mica__ir *ir)
{
    for (int64_t i = ir->n_borrowed; i < ir->n_leaves; i++)
        mica__array_unref(ir->leaves[i]);
    mica__arena_free(&ir->arena);
    mica__free(ir->values);
    mica__free(ir->nodes);
    mica__free(ir->leaves);
    mica__free(ir->sources);
    mica__text_free(&ir->key);
}

int64_t mica__ir_size(const mica__ir_value *value)
{
    return mica__shape_size(value->ndim, value->shape);
}

int64_t mica__ir_bytes(const mica__ir_value *value)
{
    return mica__ir_size(value) * mica_dtype_bytes(value->dtype);
}

bool mica__ir_is_contiguous(const mica__ir_value *value)
{
    int64_t stride = 1;
    for (int i = value->ndim - 1; i >= 0; i--) {
        if (value->shape[i] != 1 && value->strides[i] != stride)
            return false;
        stride *= value->shape[i] > 0 ? value->shape[i] : 1;
    }
    return true;
}

/* --- the walk --------------------------------------------------------------------------------- */

static mica_status add_leaf(walk *w, mica_array *array)
{
    mica__ir *ir = w->ir;
    char text[MICA__ARRAY_TEXT];
    if (array->seen == w->number)
        return MICA_OK;
    if (array->donation == MICA__GONE)
        MICA_FAIL(MICA_E_STATE, "the graph needs %s, which was donated",
                  mica__array_text(array, text));
    MICA_TRY(mica__grow(MICA_MEMORY_GRAPH, (void **)&ir->leaves, sizeof *ir->leaves,
                        ir->n_leaves + 1, &ir->leaves_capacity));
    mica__aval aval;
    int32_t id;
    mica__aval_of(array, &aval);
    MICA_TRY(add_value(ir, &aval, &id));
    ir->values[id].leaf = (int32_t)ir->n_leaves;
    ir->leaves[ir->n_leaves++] = array;
    array->seen = w->number;
    array->index = id;
    return MICA_OK;
}

static mica_status push(walk *w, mica__node *node)
{
    if (node->seen == w->number)
        return MICA_OK;
    MICA_TRY(mica__grow(MICA_MEMORY_GRAPH, (void **)&w->stack, sizeof *w->stack, w->depth + 1,
                        &w->capacity));
    w->stack[w->depth++] = (walk_step){node, 0};
    return MICA_OK;
}

static mica_status visit(walk *w, mica_array *array)
{
    return array->node ? push(w, array->node) : add_leaf(w, array);
}

static int32_t value_of(const walk *w, const mica_array *array)
{
    if (!array->node)
        return array->index;
    return w->ir->nodes[array->node->index].out + array->out;
}

/* All inputs have numbers: the node gets the next one. Outputs are inferred again, since a node
 * does not know them. */
static mica_status number_node(walk *w, mica__node *node)
{
    mica__ir *ir = w->ir;
    mica__aval in[16], out[4];
    int32_t ids[16], id = 0, first = 0;
    memset(out, 0, sizeof out);
    for (int i = 0; i < node->n_in; i++) {
        ids[i] = value_of(w, node->in[i]);
        mica__aval_of(node->in[i], &in[i]);
    }
    MICA_TRY(mica__grow(MICA_MEMORY_GRAPH, (void **)&ir->sources, sizeof *ir->sources,
                        ir->n_sources + 1, &ir->sources_capacity));
    MICA_TRY(mica__rules_of(node->op)->infer(node->attrs, node->n_in, in, node->n_out, out));
    for (int i = 0; i < node->n_out; i++) {
        MICA_TRY(add_value(ir, &out[i], &id));
        first = i ? first : id;
        ir->values[id].node = (int32_t)ir->n_nodes;
    }
    MICA_TRY(mica__ir_add_node(ir, node->op, node->attrs, node->n_in, ids, first, &id));
    ir->nodes[id].n_out = node->n_out;
    ir->sources[ir->n_sources++] = node;
    ir->n_recomputed += node->computed && mica__op_facts_of(node->op)->class != MICA__CLASS_VIEW;
    node->seen = w->number;
    node->index = id;
    return MICA_OK;
}

static mica_status walk_all(walk *w)
{
    while (w->depth) {
        walk_step *top = &w->stack[w->depth - 1];
        mica__node *node = top->node;
        if (node->seen == w->number) {
            w->depth--;
        } else if (top->next_input < node->n_in) {
            MICA_TRY(visit(w, node->in[top->next_input++]));
        } else {
            MICA_TRY(number_node(w, node));
            w->depth--;
        }
    }
    return MICA_OK;
}

static mica_status collect(walk *w, int n_in, mica_array *const *inputs, int n_out,
                           mica_array *const *outputs)
{
    mica__ir *ir = w->ir;
    for (int i = 0; i < n_in; i++) {
        if (inputs[i]->node)
            MICA_FAIL(MICA_E_ARGUMENT,
                      "input %d of the program is computed: make it with mica_input", i);
        MICA_TRY(add_leaf(w, inputs[i]));
        if (ir->n_leaves != i + 1)
            MICA_FAIL(MICA_E_ARGUMENT, "input %d of the program is listed twice", i);
    }
    ir->outputs = mica__arena_alloc(&ir->arena, (size_t)n_out * sizeof *ir->outputs + 8, 16);
    if (!ir->outputs)
        return MICA_E_MEMORY;
    for (int i = 0; i < n_out; i++) {
        MICA_TRY(visit(w, outputs[i]));
        MICA_TRY(walk_all(w));
        ir->outputs[ir->n_outputs++] = value_of(w, outputs[i]);
    }
    return MICA_OK;
}

mica_status mica__ir_collect(mica_ctx *ctx, int n_in, mica_array *const *inputs, int n_out,
                             mica_array *const *outputs, mica__ir *ir)
{
    *ir = (mica__ir){.ctx = ctx, .key.kind = MICA_MEMORY_PROGRAMS};
    ir->arena.kind = MICA_MEMORY_GRAPH;
    walk w = {.ir = ir, .number = atomic_fetch_add(&collections, 1)};
    pthread_mutex_lock(&ctx->runtime->lock); /* numbers of shared leaves */
    const mica_status status = collect(&w, n_in, inputs, n_out, outputs);
    ir->n_borrowed = ir->n_leaves;
    pthread_mutex_unlock(&ctx->runtime->lock);
    mica__free(w.stack);
    return status;
}

/* --- description ------------------------------------------------------------------------------ */

static void put(mica__text *key, const void *bytes, size_t n)
{
    mica__text_add(key, bytes, n);
}

mica_status mica__ir_describe(mica__ir *ir)
{
    mica__text *key = &ir->key;
    for (int64_t i = 0; i < ir->n_leaves; i++) {
        const mica_array *leaf = ir->leaves[i];
        const bool unaligned = leaf->buffer && (leaf->buffer->unaligned || leaf->offset % 64);
        const uint8_t head[4] = {(uint8_t)leaf->dtype, (uint8_t)leaf->ndim, leaf->placeholder,
                                 (uint8_t)(unaligned | mica__array_may_be_taken(leaf) << 1)};
        put(key, head, sizeof head);
        put(key, leaf->shape, (size_t)leaf->ndim * sizeof *leaf->shape);
        put(key, leaf->extents.axis, (size_t)leaf->ndim);
    }
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        const mica__ir_node *node = &ir->nodes[i];
        const int32_t head[3] = {(int32_t)node->op, node->n_in, node->n_out};
        put(key, head, sizeof head);
        put(key, node->in, (size_t)node->n_in * sizeof *node->in);
        put(key, node->attrs, mica__op_facts_of(node->op)->attr_bytes);
    }
    put(key, ir->outputs, (size_t)ir->n_outputs * sizeof *ir->outputs);
    return key->status;
}
