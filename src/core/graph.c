/* graph.c - arrays and nodes: making, sharing, freeing, recording operations.
 * SPDX-License-Identifier: MIT
 */
#include "core/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- shapes ----------------------------------------------------------------------------------- */

mica_shape mica_shape_of(int ndim, const int64_t *dims)
{
    mica_shape shape = {.ndim = ndim};
    if (ndim > 0 && ndim <= MICA_MAX_DIMS)
        memcpy(shape.dims, dims, (size_t)ndim * sizeof *dims);
    return shape;
}

int64_t mica__shape_size(int ndim, const int64_t *shape)
{
    int64_t size = 1;
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return -1;
        empty |= shape[i] == 0;
        if (shape[i] && !mica__mul_i64(size, shape[i], &size))
            return -1;
    }
    return empty ? 0 : size;
}

mica_status mica__shape_check(const char *what, const mica_shape *shape, mica_dtype dtype)
{
    if ((unsigned)dtype >= MICA_N_DTYPES)
        MICA_FAIL(MICA_E_ARGUMENT, "%s: %d is no dtype", what, (int)dtype);
    if (shape->ndim < 0 || shape->ndim > MICA_MAX_DIMS)
        MICA_FAIL(MICA_E_SHAPE, "%s: %d dimensions, at most %d are possible", what, shape->ndim,
                  MICA_MAX_DIMS);
    int64_t bytes = mica__shape_size(shape->ndim, shape->dims);
    if (bytes < 0 || !mica__mul_i64(bytes, mica_dtype_bytes(dtype), &bytes))
        MICA_FAIL(MICA_E_SHAPE, "%s: a dimension is negative or the shape is too large", what);
    return MICA_OK;
}

const char *mica__shape_text(int ndim, const int64_t *shape, char out[MICA__SHAPE_TEXT])
{
    size_t at = 1;
    out[0] = '[';
    for (int i = 0; i < ndim && at < MICA__SHAPE_TEXT - 24; i++)
        at += (size_t)snprintf(out + at, MICA__SHAPE_TEXT - at, "%s%lld", i ? ", " : "",
                               (long long)shape[i]);
    snprintf(out + at, MICA__SHAPE_TEXT - at, "]");
    return out;
}

const char *mica__array_text(const mica_array *array, char out[MICA__ARRAY_TEXT])
{
    char shape[MICA__SHAPE_TEXT];
    snprintf(out, MICA__ARRAY_TEXT, "%s %s", mica_dtype_name(array->dtype),
             mica__shape_text(array->ndim, array->shape, shape));
    return out;
}

void mica__aval_of(const mica_array *array, mica__aval *aval)
{
    *aval = (mica__aval){.dtype = array->dtype, .ndim = array->ndim, .extents = array->extents};
    memcpy(aval->shape, array->shape, (size_t)array->ndim * sizeof *array->shape);
}

/* --- arrays ----------------------------------------------------------------------------------- */

static size_t array_bytes(int ndim)
{
    return sizeof(mica_array) + (size_t)ndim * sizeof(int64_t);
}

int64_t mica__array_cost(int ndim)
{
    return mica__alloc_cost(array_bytes(ndim));
}

static void scope_add(mica_scope *scope, mica_array *array)
{
    array->scope = scope;
    array->scope_next = scope->arrays;
    array->scope_link = &scope->arrays;
    if (scope->arrays)
        scope->arrays->scope_link = &array->scope_next;
    scope->arrays = array;
}

static void scope_remove(mica_array *array)
{
    *array->scope_link = array->scope_next;
    if (array->scope_next)
        array->scope_next->scope_link = array->scope_link;
    array->scope = NULL;
    array->scope_next = NULL;
    array->scope_link = NULL;
}

mica_array *mica__array_new(mica_ctx *ctx, const mica__aval *aval)
{
    mica_array *array = mica__alloc(MICA_MEMORY_GRAPH, array_bytes(aval->ndim));
    if (!array) {
        mica__ctx_fail(ctx, MICA_E_MEMORY);
        return NULL;
    }
    *array = (mica_array){
        .dtype = aval->dtype, .ndim = aval->ndim, .ctx = ctx, .extents = aval->extents, .seen = -1};
    memcpy(array->shape, aval->shape, (size_t)aval->ndim * sizeof *aval->shape);
    atomic_init(&array->refs, 1);
    atomic_init(&array->kept, 0);
    atomic_init(&array->pinned, 0);
    atomic_fetch_add_explicit(&ctx->refs, 1, memory_order_relaxed);
    scope_add(ctx->innermost, array);
    return array;
}

/* Frees what nobody references any more, following inputs through a list instead of recursion. */
static void free_nodes(mica__node *list);

static void array_free(mica_array *array, mica__node **dead)
{
    mica__node *node = array->node;
    if (node && atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1) {
        node->next = *dead;
        *dead = node;
    }
    mica__buffer_release(array->buffer);
    mica__ctx_unref(array->ctx);
    mica__free(array);
}

static void unref_into(mica_array *array, mica__node **dead)
{
    if (atomic_fetch_sub_explicit(&array->refs, 1, memory_order_acq_rel) == 1)
        array_free(array, dead);
}

static void free_nodes(mica__node *list)
{
    while (list) {
        mica__node *node = list;
        list = node->next;
        for (int i = 0; i < node->n_in; i++)
            unref_into(node->in[i], &list);
        mica__free(node);
    }
}

void mica__array_unref(mica_array *array)
{
    if (!array)
        return;
    mica__node *dead = NULL;
    unref_into(array, &dead);
    free_nodes(dead);
}

void mica__array_drop(mica_array *array)
{
    if (!array)
        return;
    scope_remove(array);
    mica__array_unref(array);
}

void mica__array_fill(mica_array *array, mica__buffer *buffer, int64_t offset)
{
    mica__node *node = array->node;
    array->buffer = buffer;
    array->offset = offset;
    array->node = NULL;
    if (node && atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1) {
        node->next = NULL;
        free_nodes(node);
    }
}

/* The count and the list change together: another thread may keep what this one releases. */
mica_array *mica_keep(mica_array *array)
{
    if (!array)
        return NULL;
    mica__runtime *runtime = array->ctx->runtime;
    atomic_fetch_add_explicit(&array->refs, 1, memory_order_relaxed);
    pthread_mutex_lock(&runtime->lock);
    if (atomic_fetch_add(&array->kept, 1) == 0) {
        array->kept_next = runtime->kept;
        array->kept_link = &runtime->kept;
        if (runtime->kept)
            runtime->kept->kept_link = &array->kept_next;
        runtime->kept = array;
    }
    pthread_mutex_unlock(&runtime->lock);
    return array;
}

void mica_release(mica_array *array)
{
    if (!array)
        return;
    mica__runtime *runtime = array->ctx->runtime;
    pthread_mutex_lock(&runtime->lock);
    if (atomic_fetch_sub(&array->kept, 1) == 1) {
        *array->kept_link = array->kept_next;
        if (array->kept_next)
            array->kept_next->kept_link = array->kept_link;
    }
    pthread_mutex_unlock(&runtime->lock);
    mica__array_unref(array);
}

mica_array *mica_scope_return(mica_array *array)
{
    if (!array || !array->scope || !array->scope->parent)
        return array;
    mica_scope *outer = array->scope->parent;
    scope_remove(array);
    scope_add(outer, array);
    return array;
}

/* --- giving away ------------------------------------------------------------------------------ */

bool mica__array_may_be_taken(const mica_array *array)
{
    const mica__buffer *buffer = array->buffer;
    return array->donation == MICA__OFFERED && buffer && buffer->pool && !array->offset &&
           buffer->bytes == mica_array_bytes(array) && atomic_load(&buffer->refs) == 1;
}

void mica__array_consume(mica_array *array)
{
    array->donation = MICA__GONE;
    mica__buffer_release(array->buffer);
    array->buffer = NULL;
}

static mica_status donate(mica_array *array)
{
    char text[MICA__ARRAY_TEXT];
    if (!array)
        MICA_FAIL(MICA_E_ARGUMENT, "donate: no array");
    if (array->donation != MICA__NOT_DONATED)
        MICA_FAIL(MICA_E_STATE, "donate: %s was donated before", mica__array_text(array, text));
    if (!array->buffer)
        MICA_FAIL(MICA_E_STATE, "donate: %s %s", mica__array_text(array, text),
                  array->placeholder ? "is a placeholder" : "is not evaluated");
    if (atomic_load(&array->pinned))
        MICA_FAIL(MICA_E_STATE, "donate: %s is a constant of a compiled program",
                  mica__array_text(array, text));
    array->donation = MICA__OFFERED;
    return MICA_OK;
}

mica_status mica_donate(mica_array *array)
{
    const mica_status status = donate(array);
    return status == MICA_OK ? status : mica__ctx_fail(mica__ctx_of(array), status);
}

/* --- facts ------------------------------------------------------------------------------------ */

mica_dtype mica_array_dtype(const mica_array *array)
{
    return array ? array->dtype : MICA_N_DTYPES;
}

mica_shape mica_array_shape(const mica_array *array)
{
    return array ? mica_shape_of(array->ndim, array->shape) : (mica_shape){.ndim = -1};
}

int mica_array_ndim(const mica_array *array)
{
    return array ? array->ndim : -1;
}

int64_t mica_array_dim(const mica_array *array, int axis)
{
    if (!array || axis < -array->ndim || axis >= array->ndim)
        return -1;
    return array->shape[axis < 0 ? axis + array->ndim : axis];
}

int64_t mica_array_size(const mica_array *array)
{
    return array ? mica__shape_size(array->ndim, array->shape) : -1;
}

int64_t mica_array_bytes(const mica_array *array)
{
    return array ? mica_array_size(array) * mica_dtype_bytes(array->dtype) : -1;
}

bool mica_array_is_evaluated(const mica_array *array)
{
    return array && array->buffer;
}

/* --- leaves ----------------------------------------------------------------------------------- */

static mica_array *leaf(mica_ctx *mc, const char *what, const mica_shape *shape, mica_dtype dtype)
{
    if (!mc)
        return NULL;
    const mica_status status = mica__shape_check(what, shape, dtype);
    if (status != MICA_OK) {
        mica__ctx_fail(mc, status);
        return NULL;
    }
    mica__aval aval = {.dtype = dtype, .ndim = shape->ndim};
    memcpy(aval.shape, shape->dims, sizeof aval.shape);
    return mica__array_new(mc, &aval);
}

mica_array *mica_from_data(mica_ctx *mc, const void *data, mica_shape shape, mica_dtype dtype)
{
    mica_array *array = leaf(mc, "from_data", &shape, dtype);
    if (!array)
        return NULL;
    const int64_t bytes = mica_array_bytes(array);
    mica__buffer *buffer = mica__buffer_new(mc->runtime->pool, bytes);
    if (!buffer) {
        mica__ctx_fail(mc, MICA_E_MEMORY);
        mica__array_drop(array);
        return NULL;
    }
    if (bytes)
        memcpy(buffer->data, data, (size_t)bytes);
    mica__array_fill(array, buffer, 0);
    return array;
}

mica_array *mica_from_memory(mica_ctx *mc, const void *data, mica_shape shape, mica_dtype dtype,
                             void (*release)(void *user), void *user)
{
    mica_array *array = leaf(mc, "from_memory", &shape, dtype);
    if (!array)
        return NULL;
    mica__buffer *buffer = mica__buffer_wrap(data, mica_array_bytes(array), release, user);
    if (!buffer) {
        mica__ctx_fail(mc, MICA_E_MEMORY);
        mica__array_drop(array);
        return NULL;
    }
    mica__array_fill(array, buffer, 0);
    return array;
}

mica_array *mica_input(mica_ctx *mc, mica_shape shape, mica_dtype dtype)
{
    mica_array *array = leaf(mc, "input", &shape, dtype);
    if (array)
        array->placeholder = true;
    return array;
}

static mica_status extent_number(mica_ctx *mc, const char *name, int64_t bound, int *number)
{
    if (!name || !*name || strlen(name) >= sizeof mc->extents[0].name)
        MICA_FAIL(MICA_E_ARGUMENT, "input: the name of an extent has 1 to %zu characters",
                  sizeof mc->extents[0].name - 1);
    for (*number = 0; *number < mc->n_extents; ++*number)
        if (!strcmp(mc->extents[*number].name, name) && mc->extents[*number].bound == bound)
            return MICA_OK;
    if (mc->n_extents == MICA__MAX_EXTENTS)
        MICA_FAIL(MICA_E_ARGUMENT, "input: more than %d named extents", MICA__MAX_EXTENTS);
    mica__extent *extent = &mc->extents[mc->n_extents++];
    memcpy(extent->name, name, strlen(name) + 1);
    extent->bound = bound;
    return MICA_OK;
}

mica_array *mica_input_extent(mica_ctx *mc, const char *name, mica_shape shape, mica_dtype dtype)
{
    if (!mc)
        return NULL;
    int number = 0;
    mica_status status = MICA_OK;
    if (shape.ndim < 1 || shape.dims[0] < 1)
        status = mica__fail(MICA_E_SHAPE,
                            "input: a named extent needs a first axis with a bound of at least 1");
    else
        status = extent_number(mc, name, shape.dims[0], &number);
    if (status != MICA_OK) {
        mica__ctx_fail(mc, status);
        return NULL;
    }
    mica_array *array = mica_input(mc, shape, dtype);
    if (array)
        array->extents.axis[0] = (uint8_t)(number + 1);
    return array;
}

/* --- recording operations --------------------------------------------------------------------- */

/* Whether the calling thread may record in a context: its own ones; when it never opened any, one
 * that was handed to it. */
static bool may_record(const mica_ctx *ctx)
{
    const bool mine = !mica__ctx_current() || ctx->thread == mica__thread_mark();
    return mine && atomic_load(&ctx->open);
}

mica_ctx *mica__ctx_for(int n, mica_array *const *inputs)
{
    mica_ctx *found = NULL;
    for (int i = 0; i < n; i++) {
        if (!inputs[i] || !may_record(inputs[i]->ctx))
            continue;
        if (!inputs[i]->buffer)
            return inputs[i]->ctx;
        if (!found)
            found = inputs[i]->ctx;
    }
    if (!found)
        found = mica__ctx_current();
    if (!found)
        mica__fail(MICA_E_STATE, "no context is open on this thread");
    return found;
}

mica_ctx *mica__ctx_of(const mica_array *array)
{
    return array && may_record(array->ctx) ? array->ctx : mica__ctx_current();
}

mica_status mica__check_context(const mica_ctx *ctx, const char *what, int i,
                                const mica_array *array)
{
    if (array->buffer || array->ctx == ctx)
        return MICA_OK;
    if (!atomic_load(&array->ctx->open))
        MICA_FAIL(MICA_E_STATE, "%s %d was not evaluated before its context was closed", what, i);
    MICA_FAIL(MICA_E_STATE, "%s %d belongs to another context's graph: evaluate it there first",
              what, i);
}

static mica_status check_inputs(const mica_ctx *ctx, int n, mica_array *const *inputs)
{
    char text[MICA__ARRAY_TEXT];
    for (int i = 0; i < n; i++) {
        if (inputs[i]->donation != MICA__NOT_DONATED)
            MICA_FAIL(MICA_E_STATE, "input %d, %s, was donated", i,
                      mica__array_text(inputs[i], text));
        MICA_TRY(mica__check_context(ctx, "input", i, inputs[i]));
    }
    return MICA_OK;
}

static mica__node *node_new(mica__op op, const void *attrs, int n_in, mica_array *const *inputs,
                            int n_out)
{
    const mica__op_facts *facts = mica__op_facts_of(op);
    const size_t in_bytes = (size_t)n_in * sizeof *inputs;
    mica__node *node =
        mica__alloc_zero(MICA_MEMORY_GRAPH, 1, sizeof *node + in_bytes + facts->attr_bytes);
    if (!node)
        return NULL;
    node->op = op;
    node->n_in = n_in;
    node->n_out = n_out;
    node->seen = -1;
    node->attrs = (char *)node->in + in_bytes;
    if (attrs)
        memcpy(node->attrs, attrs, facts->attr_bytes);
    for (int i = 0; i < n_in; i++) {
        node->in[i] = inputs[i];
        atomic_fetch_add_explicit(&inputs[i]->refs, 1, memory_order_relaxed);
    }
    return node;
}

static void outputs_drop(int n, mica_array **outputs)
{
    for (int i = 0; i < n; i++) {
        mica__array_drop(outputs[i]);
        outputs[i] = NULL;
    }
}

static mica_status record(mica_ctx *ctx, mica__node *node, mica_array **outputs)
{
    const mica__rules *rules = mica__rules_of(node->op);
    mica__aval in[16], out[4];
    if (node->n_in > 16 || node->n_out > 4)
        MICA_FAIL(MICA_E_UNSUPPORTED, "more than 16 inputs or 4 outputs");
    memset(out, 0, sizeof out);
    for (int i = 0; i < node->n_in; i++)
        mica__aval_of(node->in[i], &in[i]);
    MICA_TRY(rules->infer(node->attrs, node->n_in, in, node->n_out, out));
    for (int i = 0; i < node->n_out; i++) {
        const mica_shape shape = mica_shape_of(out[i].ndim, out[i].shape);
        MICA_TRY(mica__shape_check("result", &shape, out[i].dtype));
        outputs[i] = mica__array_new(ctx, &out[i]);
        if (!outputs[i])
            return MICA_E_MEMORY;
        outputs[i]->node = node;
        outputs[i]->out = i;
        atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
    }
    return MICA_OK;
}

mica_status mica__apply_multi(mica_ctx *ctx, mica__op op, const void *attrs, int n_in,
                              mica_array *const *inputs, int n_out, mica_array **outputs)
{
    for (int i = 0; i < n_out; i++)
        outputs[i] = NULL;
    for (int i = 0; i < n_in; i++)
        if (!inputs[i])
            return MICA_E_ARGUMENT; /* the error that made it NULL stands in its context */
    if (!ctx)
        return MICA_E_STATE;
    mica_status status = check_inputs(ctx, n_in, inputs);
    mica__node *node = NULL;
    if (status == MICA_OK) {
        node = node_new(op, attrs, n_in, inputs, n_out);
        status = node ? MICA_OK : MICA_E_MEMORY;
    }
    if (status == MICA_OK) {
        atomic_init(&node->refs, 1); /* ours, so that a failure frees it once */
        status = record(ctx, node, outputs);
        if (status != MICA_OK)
            outputs_drop(n_out, outputs);
        if (atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1)
            free_nodes(node);
    }
    if (status != MICA_OK && status != MICA_E_MEMORY)
        mica__fail_at(status, "%s", mica__op_facts_of(op)->name);
    return status == MICA_OK ? status : mica__ctx_fail(ctx, status);
}

mica_array *mica__apply(mica_ctx *ctx, mica__op op, const void *attrs, int n_in,
                        mica_array *const *inputs)
{
    mica_array *output = NULL;
    mica__apply_multi(ctx, op, attrs, n_in, inputs, 1, &output);
    return output;
}
