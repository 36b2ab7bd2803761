/* golden_ops.c - golden_ops DIR: every golden case of an array operation that the public API has.
 *
 * DIR/README.md defines the cases. Each case runs in three layouts: inputs as they come, inputs
 * that are strided views (transposed, or every other element), and inputs reversed in misaligned
 * memory and turned round by slices; the answer must meet the same expectation each time. The table
 * `ops` maps a case's op to its caller; what it does not name is skipped, counted and listed, as is
 * a case that the API cannot say (a reason is given). Prints each failing case with its first
 * difference and closes with "N passed, N failed, N skipped"; exit status 1 when a case failed
 * or there was none, 77 when DIR is absent. DIR is walked to its depths.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mica/mica.h>

#include "base/bytes.h"
#include "base/half.h"
#include "io/json.h"
#include "io/weights.h"
#include "support/file_list.h"

enum { MAX_ARRAYS = 16, N_LAYOUTS = 3 };

static const char *const layout_names[N_LAYOUTS] = {"plain", "strided", "reversed, misaligned"};

static int passed, failed, skipped;

/* --- what was skipped ------------------------------------------------------------------------- */

typedef struct skip_line {
    char what[96];
    int count;
} skip_line;

static skip_line skips[512];
static int n_skips;

static void note_skip(const char *op, const char *reason)
{
    char what[sizeof skips->what];
    snprintf(what, sizeof what, "%s%s%s%s", op, reason ? " (" : "", reason ? reason : "",
             reason ? ")" : "");
    skipped++;
    for (int i = 0; i < n_skips; i++)
        if (!strcmp(skips[i].what, what)) {
            skips[i].count++;
            return;
        }
    if (n_skips == (int)(sizeof skips / sizeof *skips))
        return;
    memcpy(skips[n_skips].what, what, sizeof what);
    skips[n_skips++].count = 1;
}

static int by_what(const void *a, const void *b)
{
    return strcmp(((const skip_line *)a)->what, ((const skip_line *)b)->what);
}

/* --- reading parameters ----------------------------------------------------------------------- */

/* One operation to call: its arrays, its parameters, and why the API cannot say it. */
typedef struct op_call {
    mica_ctx *mc;
    const mica__json *params;
    int n;
    mica_array *in[MAX_ARRAYS];
    const char *cannot; /* set by a caller when it cannot express the case */
} op_call;

static mica_array *cannot(op_call *c, const char *reason)
{
    c->cannot = reason;
    return NULL;
}

static const mica__json *param(const op_call *c, const char *key)
{
    const mica__json *value = mica__json_get(c->params, key);
    return value && value->type != MICA__JSON_NULL ? value : NULL;
}

/* A number; non-finite ones are strings. */
static double number_of(const mica__json *value)
{
    if (value->type == MICA__JSON_STRING)
        return !strcmp(value->string, "inf")    ? INFINITY
               : !strcmp(value->string, "-inf") ? -INFINITY
                                                : NAN;
    return value->type == MICA__JSON_BOOL ? value->boolean : value->number;
}

static int64_t integer_param(const op_call *c, const char *key, int64_t otherwise)
{
    const mica__json *value = param(c, key);
    return value ? value->integer : otherwise;
}

static mica_shape shape_param(const mica__json *list)
{
    mica_shape shape = {0};
    for (const mica__json *at = list ? list->first : NULL; at; at = at->next)
        if (shape.ndim < MICA_MAX_DIMS)
            shape.dims[shape.ndim++] = at->integer;
    return shape;
}

static bool dtype_named(const char *name, mica_dtype *dtype)
{
    for (int i = 0; i < MICA_N_DTYPES; i++)
        if (!strcmp(mica_dtype_name((mica_dtype)i), name)) {
            *dtype = (mica_dtype)i;
            return true;
        }
    return false;
}

static mica_dtype dtype_param(const op_call *c, mica_dtype otherwise)
{
    const mica__json *value = param(c, "dtype");
    mica_dtype dtype = otherwise;
    if (value && !dtype_named(value->string, &dtype))
        return MICA_N_DTYPES;
    return dtype;
}

/* A set of axes from an integer, a list, or nothing for all. A set cannot say an axis twice. */
static bool axes_param(op_call *c, int ndim, uint32_t *axes)
{
    const mica__json *value = param(c, "axis");
    *axes = MICA_ALL_AXES;
    if (!value)
        return true;
    *axes = 0;
    const bool list = value->type == MICA__JSON_ARRAY;
    for (const mica__json *at = list ? value->first : value; at; at = list ? at->next : NULL) {
        const int64_t axis = at->integer < 0 ? at->integer + ndim : at->integer;
        if (axis < 0 || axis > 31 || *axes >> axis & 1) {
            cannot(c, "an axis below 0 or twice in a set of axes");
            return false;
        }
        *axes |= 1u << axis;
    }
    return true;
}

/* --- callers, one for each form --------------------------------------------------------------- */

#define UNARY(name)                                                                                \
    static mica_array *call_##name(op_call *c)                                                     \
    {                                                                                              \
        return mica_##name(c->in[0]);                                                              \
    }
#define BINARY(name)                                                                               \
    static mica_array *call_##name(op_call *c)                                                     \
    {                                                                                              \
        return mica_##name(c->in[0], c->in[1]);                                                    \
    }
#define REDUCTION(name)                                                                            \
    static mica_array *call_##name(op_call *c)                                                     \
    {                                                                                              \
        uint32_t axes;                                                                             \
        const mica__json *keep = param(c, "keepdims");                                             \
        if (!axes_param(c, mica_array_ndim(c->in[0]), &axes))                                      \
            return NULL;                                                                           \
        return mica_##name(c->in[0], axes, keep && keep->boolean);                                 \
    }

/* clang-format off */
UNARY(abs) UNARY(negative) UNARY(square) UNARY(sqrt) UNARY(rsqrt) UNARY(reciprocal) UNARY(exp)
UNARY(log) UNARY(sin) UNARY(cos) UNARY(tanh) UNARY(sigmoid) UNARY(erf) UNARY(silu) UNARY(gelu)
UNARY(gelu_tanh) UNARY(contiguous)
BINARY(add) BINARY(subtract) BINARY(multiply) BINARY(divide) BINARY(maximum) BINARY(minimum)
BINARY(matmul)
REDUCTION(sum) REDUCTION(mean) REDUCTION(max) REDUCTION(min)
    /* clang-format on */

    static mica_array *call_softmax(op_call *c)
{
    const mica__json *axis = param(c, "axis");
    if (axis && axis->type == MICA__JSON_INTEGER)
        return mica_softmax(c->in[0], (int)axis->integer);
    if (mica_array_ndim(c->in[0]) == 1)
        return mica_softmax(c->in[0], 0);
    return cannot(c, "over several axes at once");
}

/* nn.softmax works on the last axis unless told otherwise. */
static mica_array *call_nn_softmax(op_call *c)
{
    return mica_softmax(c->in[0], (int)integer_param(c, "axis", -1));
}

static mica_array *call_astype(op_call *c)
{
    return mica_astype(c->in[0], dtype_param(c, MICA_N_DTYPES));
}

static mica_array *call_zeros(op_call *c)
{
    return mica_zeros(c->mc, shape_param(param(c, "shape")), dtype_param(c, MICA_F32));
}

static mica_array *call_ones(op_call *c)
{
    return mica_ones(c->mc, shape_param(param(c, "shape")), dtype_param(c, MICA_F32));
}

static mica_array *call_full(op_call *c)
{
    if (mica_array_size(c->in[0]) != 1 || mica_array_dtype(c->in[0]) == MICA_C64)
        return cannot(c, "of an array");
    return mica_full(c->mc, shape_param(param(c, "shape")), mica_item_f64(c->in[0]),
                     dtype_param(c, mica_array_dtype(c->in[0])));
}

/* One to three Python numbers: f32 when one is a float. */
static mica_array *call_arange(op_call *c)
{
    double range[3] = {0, 0, 1};
    int n = 0;
    mica_dtype dtype = MICA_I32;
    for (const mica__json *at = param(c, "range")->first; at && n < 3; at = at->next) {
        if (!strcmp(mica__json_get(at, "kind")->string, "float"))
            dtype = MICA_F32;
        range[n++] = number_of(mica__json_get(at, "value"));
    }
    if (n == 1) {
        range[1] = range[0];
        range[0] = 0;
    }
    return mica_arange(c->mc, range[0], range[1], range[2], dtype_param(c, dtype));
}

static mica_array *call_reshape(op_call *c)
{
    return mica_reshape(c->in[0], shape_param(mica__json_get(c->params, "shape")));
}

static mica_array *call_broadcast_to(op_call *c)
{
    return mica_broadcast_to(c->in[0], shape_param(mica__json_get(c->params, "shape")));
}

static mica_array *call_transpose(op_call *c)
{
    const mica_shape axes = shape_param(param(c, "axes"));
    int order[MICA_MAX_DIMS];
    for (int i = 0; i < axes.ndim; i++)
        order[i] = (int)axes.dims[i];
    return mica_transpose(c->in[0], axes.ndim, order);
}

static mica_array *call_swapaxes(op_call *c)
{
    return mica_swapaxes(c->in[0], (int)integer_param(c, "axis1", 0),
                         (int)integer_param(c, "axis2", 0));
}

static mica_array *call_moveaxis(op_call *c)
{
    return mica_moveaxis(c->in[0], (int)integer_param(c, "source", 0),
                         (int)integer_param(c, "destination", 0));
}

static mica_array *call_flatten(op_call *c)
{
    return mica_flatten(c->in[0], (int)integer_param(c, "start_axis", 0),
                        (int)integer_param(c, "end_axis", -1));
}

static mica_array *call_unflatten(op_call *c)
{
    return mica_unflatten(c->in[0], (int)integer_param(c, "axis", 0),
                          shape_param(param(c, "shape")));
}

static int by_axis(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Several axes: added one after the other, the first in the result first. */
static mica_array *call_expand_dims(op_call *c)
{
    const mica__json *axis = param(c, "axis");
    if (axis->type == MICA__JSON_INTEGER)
        return mica_expand_dims(c->in[0], (int)axis->integer);
    mica_shape axes = shape_param(axis);
    for (int i = 0; i < axes.ndim; i++)
        if (axes.dims[i] < 0)
            axes.dims[i] += mica_array_ndim(c->in[0]) + axes.ndim;
    qsort(axes.dims, (size_t)axes.ndim, sizeof *axes.dims, by_axis);
    mica_array *a = c->in[0];
    for (int i = 0; i < axes.ndim; i++) {
        if (i && axes.dims[i] == axes.dims[i - 1])
            return cannot(c, "an axis twice in one call");
        a = mica_expand_dims(a, (int)axes.dims[i]);
    }
    return a;
}

/* Several axes, or all of length 1: taken away one after the other, the last first. */
static mica_array *call_squeeze(op_call *c)
{
    const mica__json *axis = param(c, "axis");
    mica_array *a = c->in[0];
    const int ndim = mica_array_ndim(a);
    bool away[MICA_MAX_DIMS] = {false};
    if (axis && axis->type == MICA__JSON_INTEGER)
        return mica_squeeze(a, (int)axis->integer);
    for (int i = 0; i < ndim && !axis; i++)
        away[i] = mica_array_dim(a, i) == 1;
    for (const mica__json *at = axis ? axis->first : NULL; at; at = at->next)
        away[at->integer < 0 ? at->integer + ndim : at->integer] = true;
    for (int i = ndim - 1; i >= 0; i--)
        if (away[i])
            a = mica_squeeze(a, i);
    return a;
}

static mica_array *call_concatenate(op_call *c)
{
    const mica__json *axis = param(c, "axis");
    const bool flat = mica__json_get(c->params, "axis") && !axis;
    mica_array *parts[MAX_ARRAYS];
    for (int i = 0; i < c->n; i++)
        parts[i] =
            flat ? mica_reshape(c->in[i], mica_shape_of(1, (const int64_t[]){-1})) : c->in[i];
    return mica_concatenate(c->n, parts, axis ? (int)axis->integer : 0);
}

static mica_array *call_take(op_call *c)
{
    const mica__json *axis = param(c, "axis");
    if (axis)
        return mica_take(c->in[0], c->in[1], (int)axis->integer);
    return mica_take(mica_reshape(c->in[0], mica_shape_of(1, (const int64_t[]){-1})), c->in[1], 0);
}

static mica_array *call_rms_norm(op_call *c)
{
    const mica__json *has_weight = param(c, "weight");
    mica_array *weight = c->in[1];
    if (has_weight && !has_weight->boolean)
        weight =
            mica_ones(c->mc, MICA_SHAPE(mica_array_dim(c->in[0], -1)), mica_array_dtype(c->in[0]));
    return mica_rms_norm(c->in[0], weight, (float)param(c, "eps")->number);
}

/* a[start:stop:step] on one axis. */
static mica_array *slice_axis(mica_array *a, int axis, const mica__json *spec)
{
    int64_t start[MICA_MAX_DIMS], stop[MICA_MAX_DIMS], step[MICA_MAX_DIMS], given[3] = {0, 0, 1};
    bool is_given[3] = {false};
    int n = 0;
    for (const mica__json *at = spec->first; at && n < 3; at = at->next, n++)
        if (at->type != MICA__JSON_NULL) {
            given[n] = at->integer;
            is_given[n] = true;
        }
    for (int i = 0; i < mica_array_ndim(a); i++) {
        start[i] = 0;
        stop[i] = mica_array_dim(a, i);
        step[i] = 1;
    }
    if (axis < mica_array_ndim(a)) {
        const bool back = given[2] < 0;
        step[axis] = given[2];
        start[axis] = is_given[0] ? given[0] : back ? INT64_MAX : 0;
        stop[axis] = is_given[1] ? given[1] : back ? INT64_MIN : INT64_MAX;
    }
    return mica_slice(a, mica_array_ndim(a), start, stop, step);
}

/* a[index:index + 1] on one axis; empty where there is no such index. */
static mica_array *slice_one(mica_array *a, int axis, int64_t index)
{
    int64_t start[MICA_MAX_DIMS] = {0}, stop[MICA_MAX_DIMS];
    for (int i = 0; i < mica_array_ndim(a); i++)
        stop[i] = mica_array_dim(a, i);
    if (axis < mica_array_ndim(a)) {
        start[axis] = index < 0 ? index + stop[axis] : index;
        stop[axis] = start[axis] + 1;
    }
    return mica_slice(a, mica_array_ndim(a), start, stop, NULL);
}

/* How many axes of a an index item takes. */
static int axes_of_item(const mica__json *item)
{
    return mica__json_get(item, "newaxis") || mica__json_get(item, "ellipsis") ? 0 : 1;
}

static mica_array *index_item(op_call *c, mica_array *a, const mica__json *item, int *axis,
                              int rest)
{
    const mica__json *value = mica__json_get(item, "slice");
    if (value)
        return slice_axis(a, (*axis)++, value);
    value = mica__json_get(item, "array");
    if (value) {
        mica_array *indices = c->in[1 + value->integer];
        a = mica_take(a, indices, *axis);
        *axis += mica_array_ndim(indices);
        return a;
    }
    value = mica__json_get(item, "int");
    if (value)
        return mica_squeeze(slice_one(a, *axis, value->integer), *axis);
    if (mica__json_get(item, "newaxis"))
        return mica_expand_dims(a, (*axis)++);
    *axis += rest;
    return a;
}

/* Items from left to right; an index array stands where its axis stood. */
static mica_array *call_getitem(op_call *c)
{
    const mica__json *index = param(c, "index");
    int arrays = 0, ellipses = 0, taken = 0, axis = 0;
    for (const mica__json *at = index->first; at; at = at->next) {
        arrays += mica__json_get(at, "array") != NULL;
        ellipses += mica__json_get(at, "ellipsis") != NULL;
        taken += axes_of_item(at);
    }
    if (arrays > 1)
        return cannot(c, "several index arrays");
    if (ellipses > 1)
        return cannot(c, "two ellipses");
    mica_array *a = c->in[0];
    const int rest = mica_array_ndim(a) - taken;
    for (const mica__json *at = index->first; at && a; at = at->next)
        a = index_item(c, a, at, &axis, rest);
    return a;
}

/* The promoted dtype is that of a sum. There are no tensors: see judge. */
static mica_array *call_result_type(op_call *c)
{
    mica_dtype a, b;
    if (!dtype_named(param(c, "a")->string, &a) || !dtype_named(param(c, "b")->string, &b))
        return NULL;
    return mica_add(mica_zeros(c->mc, MICA_SCALAR, a), mica_zeros(c->mc, MICA_SCALAR, b));
}

static mica_array *call_program(op_call *c);

typedef struct op_entry {
    const char *name;
    mica_array *(*call)(op_call *c);
} op_entry;

#define SAME(name)                                                                                 \
    {                                                                                              \
#name, call_##name                                                                         \
    }

static const op_entry ops[] = {
    SAME(abs),
    SAME(negative),
    SAME(square),
    SAME(sqrt),
    SAME(rsqrt),
    SAME(reciprocal),
    SAME(exp),
    SAME(log),
    SAME(sin),
    SAME(cos),
    SAME(tanh),
    SAME(sigmoid),
    SAME(erf),
    SAME(add),
    SAME(subtract),
    SAME(multiply),
    SAME(divide),
    SAME(maximum),
    SAME(minimum),
    SAME(matmul),
    SAME(sum),
    SAME(mean),
    SAME(max),
    SAME(min),
    SAME(softmax),
    SAME(astype),
    SAME(zeros),
    SAME(ones),
    SAME(full),
    SAME(arange),
    SAME(reshape),
    SAME(broadcast_to),
    SAME(transpose),
    SAME(swapaxes),
    SAME(moveaxis),
    SAME(flatten),
    SAME(unflatten),
    SAME(expand_dims),
    SAME(squeeze),
    SAME(concatenate),
    SAME(contiguous),
    SAME(take),
    SAME(getitem),
    SAME(result_type),
    SAME(program),
    {"fast.rms_norm", call_rms_norm},
    {"nn.fn.sigmoid", call_sigmoid},
    {"nn.fn.tanh", call_tanh},
    {"nn.fn.silu", call_silu},
    {"nn.fn.gelu", call_gelu},
    {"nn.fn.gelu_approx", call_gelu_tanh},
    {"nn.fn.softmax", call_nn_softmax},
};

static const op_entry *op_named(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name))
            return &ops[i];
    return NULL;
}

/* --- programs: several operations over named arrays ------------------------------------------- */

enum { MAX_NAMES = 32 };

typedef struct names {
    int n;
    char name[MAX_NAMES][16];
    mica_array *array[MAX_NAMES];
} names;

static mica_array *named(const names *env, const char *name)
{
    for (int i = 0; i < env->n; i++)
        if (!strcmp(env->name[i], name))
            return env->array[i];
    return NULL;
}

static void set_name(names *env, const char *name, mica_array *array)
{
    if (env->n == MAX_NAMES)
        return;
    snprintf(env->name[env->n], sizeof env->name[0], "%s", name);
    env->array[env->n++] = array;
}

static mica_array *call_program(op_call *c)
{
    const mica__json *fn = param(c, "fn");
    names env = {0};
    for (int i = 0; i < c->n; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        set_name(&env, name, c->in[i]);
    }
    for (const mica__json *step = mica__json_get(fn, "steps")->first; step; step = step->next) {
        const op_entry *op = op_named(mica__json_get(step, "op")->string);
        op_call inner = {.mc = c->mc, .params = mica__json_get(step, "params")};
        if (!op || mica__json_get(step, "out")->n != 1)
            return cannot(c, mica__json_get(step, "op")->string);
        for (const mica__json *at = mica__json_get(step, "in")->first; at; at = at->next)
            inner.in[inner.n++] = named(&env, at->string);
        mica_array *result = op->call(&inner);
        if (inner.cannot)
            return cannot(c, inner.cannot);
        set_name(&env, mica__json_get(step, "out")->first->string, result);
    }
    const mica__json *outputs = mica__json_get(fn, "outputs");
    return outputs->n == 1 ? named(&env, outputs->first->string) : cannot(c, "several outputs");
}

/* --- inputs in a layout ----------------------------------------------------------------------- */

static mica_shape tensor_shape(const mica__weight *t)
{
    return mica_shape_of(t->n_dims, t->shape);
}

/* Copies the elements of a row-major tensor to places: element (i0, i1, ...) goes to base + sum of
 * i * strides elements. */
static void scatter(const mica__weight *t, uint8_t *to, const int64_t *strides, int64_t base)
{
    const int64_t bytes = mica_dtype_bytes(t->dtype);
    int64_t at[MICA_MAX_DIMS] = {0};
    for (int64_t i = 0; i * bytes < t->bytes; i++) {
        int64_t place = base;
        for (int d = 0; d < t->n_dims; d++)
            place += at[d] * strides[d];
        memcpy(to + place * bytes, t->data + i * bytes, (size_t)bytes);
        for (int d = t->n_dims - 1; d >= 0 && ++at[d] == t->shape[d]; d--)
            at[d] = 0;
    }
}

/* A view of memory that holds the axes in reverse order; of one axis: every other element. */
static mica_array *strided_input(mica_ctx *mc, const mica__weight *t, uint8_t *memory)
{
    int64_t strides[MICA_MAX_DIMS], stride = 1;
    mica_shape stored = {.ndim = t->n_dims};
    if (t->n_dims == 1) {
        scatter(t, memory, (const int64_t[]){2}, 0);
        return mica_slice(mica_from_data(mc, memory, MICA_SHAPE(2 * t->shape[0]), t->dtype), 1,
                          (const int64_t[]){0}, (const int64_t[]){2 * t->shape[0]},
                          (const int64_t[]){2});
    }
    for (int d = 0; d < t->n_dims; d++) {
        strides[d] = stride;
        stride *= t->shape[d];
        stored.dims[t->n_dims - 1 - d] = t->shape[d];
    }
    scatter(t, memory, strides, 0);
    return mica_transpose(mica_from_data(mc, memory, stored, t->dtype), 0, NULL);
}

/* A view that walks backwards through memory at an odd address. */
static mica_array *reversed_input(mica_ctx *mc, const mica__weight *t, uint8_t *memory)
{
    int64_t strides[MICA_MAX_DIMS], start[MICA_MAX_DIMS], stop[MICA_MAX_DIMS], step[MICA_MAX_DIMS];
    int64_t stride = 1, last = 0;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        strides[d] = -stride;
        last += t->shape[d] ? (t->shape[d] - 1) * stride : 0;
        stride *= t->shape[d];
        start[d] = INT64_MAX;
        stop[d] = INT64_MIN;
        step[d] = -1;
    }
    scatter(t, memory + 1, strides, last);
    mica_array *stored = mica_from_memory(mc, memory + 1, tensor_shape(t), t->dtype, NULL, NULL);
    return mica_slice(stored, t->n_dims, start, stop, step);
}

static mica_array *make_input(mica_ctx *mc, const mica__weight *t, int layout, uint8_t *memory)
{
    if (layout == 1)
        return strided_input(mc, t, memory);
    if (layout == 2)
        return reversed_input(mc, t, memory);
    return mica_from_data(mc, t->data, tensor_shape(t), t->dtype);
}

/* A Python scalar beside an array of this dtype. */
static mica_array *weak_scalar(mica_ctx *mc, const mica__json *weak, mica_dtype beside)
{
    const char *kind = mica__json_get(weak, "kind")->string;
    const mica__json *value = mica__json_get(weak, "value");
    const bool is_float =
        beside == MICA_F16 || beside == MICA_BF16 || beside == MICA_F32 || beside == MICA_F64;
    if (!strcmp(kind, "complex")) {
        const float z[2] = {(float)value->first->number, (float)value->first->next->number};
        return mica_from_data(mc, z, MICA_SCALAR, MICA_C64);
    }
    mica_dtype dtype = beside;
    if (!strcmp(kind, "int") && beside == MICA_BOOL)
        dtype = MICA_I32;
    else if (!strcmp(kind, "float") && !is_float)
        dtype = MICA_F32;
    return mica_scalar(mc, number_of(value), dtype);
}

static void insert_input(op_call *c, int64_t at, mica_array *array)
{
    for (int i = c->n++; i > at; i--)
        c->in[i] = c->in[i - 1];
    c->in[at] = array;
}

/* --- comparing -------------------------------------------------------------------------------- */

static double real_at(const uint8_t *data, mica_dtype dtype, int64_t i)
{
    switch (dtype) {
    case MICA_F16:
        return (double)mica__f16_to_f32(mica__load_u16(data + 2 * i));
    case MICA_BF16:
        return (double)mica__bf16_to_f32(mica__load_u16(data + 2 * i));
    case MICA_F32:
    case MICA_C64: /* the parts of it */
        return (double)mica__load_f32(data + 4 * i);
    default:
        return mica__load_f64(data + 8 * i);
    }
}

/* Integers and bool; u64 as the int64 of the same bits. */
static int64_t whole_at(const uint8_t *data, mica_dtype dtype, int64_t i)
{
    switch (dtype) {
    case MICA_BOOL:
    case MICA_U8:
        return data[i];
    case MICA_I8:
        return (int8_t)data[i];
    case MICA_U16:
        return mica__load_u16(data + 2 * i);
    case MICA_I16:
        return (int16_t)mica__load_u16(data + 2 * i);
    case MICA_U32:
        return mica__load_u32(data + 4 * i);
    case MICA_I32:
        return (int32_t)mica__load_u32(data + 4 * i);
    default:
        return (int64_t)mica__load_u64(data + 8 * i);
    }
}

typedef struct expectation {
    bool exact, zero_sign;
    double absolute, relative;
} expectation;

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool reals_meet(const expectation *e, double got, double want)
{
    bool ok = same(got, want);
    if (!e->exact && isfinite(want))
        ok |= fabs(got - want) <= e->absolute + e->relative * fabs(want);
    if (e->zero_sign && got == 0 && want == 0)
        ok &= signbit(got) == signbit(want);
    return ok;
}

static bool complex_meet(const expectation *e, const uint8_t *got, const uint8_t *want, int64_t i)
{
    const double gr = real_at(got, MICA_C64, 2 * i), gi = real_at(got, MICA_C64, 2 * i + 1);
    const double wr = real_at(want, MICA_C64, 2 * i), wi = real_at(want, MICA_C64, 2 * i + 1);
    if (same(gr, wr) && same(gi, wi))
        return true;
    return !e->exact && isfinite(wr) && isfinite(wi) &&
           hypot(gr - wr, gi - wi) <= e->absolute + e->relative * hypot(wr, wi);
}

static bool wholes_meet(const expectation *e, mica_dtype dtype, int64_t got, int64_t want)
{
    if (got == want)
        return true;
    if (e->exact || !(e->absolute > 0) || dtype == MICA_BOOL)
        return false;
    const double g = dtype == MICA_U64 ? (double)(uint64_t)got : (double)got;
    const double w = dtype == MICA_U64 ? (double)(uint64_t)want : (double)want;
    return fabs(g - w) <= e->absolute;
}

/* Where and what the first difference is. */
static void describe(char *why, size_t size, const mica__weight *want, const uint8_t *got,
                     int64_t i, int64_t n_off)
{
    char at[128] = "";
    size_t length = 0;
    int64_t rest = i, index[MICA_MAX_DIMS];
    for (int d = want->n_dims - 1; d >= 0; d--) {
        index[d] = rest % want->shape[d];
        rest /= want->shape[d];
    }
    for (int d = 0; d < want->n_dims && length < sizeof at - 24; d++)
        length += (size_t)snprintf(at + length, sizeof at - length, "%s%lld", d ? ", " : "",
                                   (long long)index[d]);
    if (want->dtype == MICA_C64)
        snprintf(why, size, "%lld off, first at (%s): (%.9g, %.9g) for (%.9g, %.9g)",
                 (long long)n_off, at, real_at(got, MICA_C64, 2 * i),
                 real_at(got, MICA_C64, 2 * i + 1), real_at(want->data, MICA_C64, 2 * i),
                 real_at(want->data, MICA_C64, 2 * i + 1));
    else if (want->dtype >= MICA_F16)
        snprintf(why, size, "%lld off, first at (%s): %.17g for %.17g", (long long)n_off, at,
                 real_at(got, want->dtype, i), real_at(want->data, want->dtype, i));
    else
        snprintf(why, size, "%lld off, first at (%s): %lld for %lld", (long long)n_off, at,
                 (long long)whole_at(got, want->dtype, i),
                 (long long)whole_at(want->data, want->dtype, i));
}

static bool values_meet(const expectation *e, const mica__weight *want, const uint8_t *got,
                        char *why, size_t size)
{
    const int64_t n = want->bytes / mica_dtype_bytes(want->dtype);
    int64_t first = -1, n_off = 0;
    for (int64_t i = 0; i < n; i++) {
        bool ok;
        if (want->dtype == MICA_C64)
            ok = complex_meet(e, got, want->data, i);
        else if (want->dtype >= MICA_F16)
            ok = reals_meet(e, real_at(got, want->dtype, i), real_at(want->data, want->dtype, i));
        else
            ok = wholes_meet(e, want->dtype, whole_at(got, want->dtype, i),
                             whole_at(want->data, want->dtype, i));
        n_off += !ok;
        if (!ok && first < 0)
            first = i;
    }
    if (n_off)
        describe(why, size, want, got, first, n_off);
    return !n_off;
}

static bool shape_meets(const mica_array *got, const mica__weight *want, char *why, size_t size)
{
    bool equal = mica_array_dtype(got) == want->dtype && mica_array_ndim(got) == want->n_dims;
    for (int d = 0; d < want->n_dims && equal; d++)
        equal = mica_array_dim(got, d) == want->shape[d];
    if (equal)
        return true;
    size_t at = (size_t)snprintf(why, size, "%s [", mica_dtype_name(mica_array_dtype(got)));
    for (int d = 0; d < mica_array_ndim(got) && at < size; d++)
        at += (size_t)snprintf(why + at, size - at, " %lld", (long long)mica_array_dim(got, d));
    if (at < size)
        at += (size_t)snprintf(why + at, size - at, " ] for %s [", mica_dtype_name(want->dtype));
    for (int d = 0; d < want->n_dims && at < size; d++)
        at += (size_t)snprintf(why + at, size - at, " %lld", (long long)want->shape[d]);
    if (at < size)
        snprintf(why + at, size - at, " ]");
    return false;
}

/* --- one case --------------------------------------------------------------------------------- */

typedef struct golden_case {
    const mica__json *json;
    const char *id, *op;
    const op_entry *entry;
    int n_in;
    const mica__weight *in[MAX_ARRAYS], *out; /* out NULL: no tensor to compare with */
    bool must_fail;
} golden_case;

static bool read_case(const mica__json *json, const mica__weights *tensors, golden_case *c)
{
    const mica__json *error = mica__json_get(json, "error");
    const mica__json *inputs = mica__json_get(json, "inputs");
    const mica__json *outputs = mica__json_get(json, "outputs");
    *c = (golden_case){.json = json,
                       .id = mica__json_get(json, "id")->string,
                       .op = mica__json_get(json, "op")->string};
    c->entry = op_named(c->op);
    c->must_fail = error && error->boolean;
    if (!c->entry)
        return true;
    for (const mica__json *at = inputs ? inputs->first : NULL; at; at = at->next) {
        if (c->n_in == MAX_ARRAYS || !(c->in[c->n_in++] = mica__weights_find(tensors, at->string)))
            return false;
    }
    if (outputs && outputs->n == 1)
        c->out = mica__weights_find(tensors, outputs->first->string);
    return c->out || c->must_fail || !strcmp(c->op, "result_type");
}

static void fill_call(mica_ctx *mc, const golden_case *gc, int layout, uint8_t **memory, op_call *c)
{
    *c = (op_call){.mc = mc, .params = mica__json_get(gc->json, "params")};
    for (int i = 0; i < gc->n_in; i++) {
        memory[i] = malloc((size_t)gc->in[i]->bytes * 2 + 64);
        c->in[c->n++] = make_input(mc, gc->in[i], layout, memory[i]);
    }
    const mica__json *weak = param(c, "weak");
    for (const mica__json *at = weak ? weak->first : NULL; at && c->n < MAX_ARRAYS; at = at->next)
        insert_input(c, mica__json_get(at, "pos")->integer, weak_scalar(mc, at, gc->in[0]->dtype));
}

static bool judge(mica_ctx *mc, const golden_case *gc, mica_array *result, char *why, size_t size)
{
    const mica__json *tol = mica__json_get(gc->json, "tol");
    const mica__json *zero_sign = mica__json_get(gc->json, "zero_sign");
    expectation e = {.exact = !tol, .zero_sign = zero_sign && zero_sign->boolean};
    if (tol) {
        e.absolute = mica__json_get(tol, "abs")->number;
        e.relative = mica__json_get(tol, "rel")->number;
    }
    if (!result || mica_eval(mc, 1, &result) != MICA_OK) {
        snprintf(why, size, "%s", mica_error(mc));
        return false;
    }
    if (!gc->out) {
        const char *want = mica__json_get(mica__json_get(gc->json, "params"), "result")->string;
        const char *got = mica_dtype_name(mica_array_dtype(result));
        snprintf(why, size, "%s for %s", got, want);
        return !strcmp(got, want);
    }
    return shape_meets(result, gc->out, why, size) &&
           values_meet(&e, gc->out, mica_data(result), why, size);
}

/* Whether a result that must not exist is refused, by builder or evaluation, with a message. */
static bool refused(mica_ctx *mc, mica_array *result, char *why, size_t size)
{
    const bool refuses = !result || mica_eval(mc, 1, &result) != MICA_OK;
    if (!refuses)
        snprintf(why, size, "no error");
    else if (!*mica_error(mc))
        snprintf(why, size, "refused without a message");
    return refuses && *mica_error(mc);
}

typedef enum verdict { PASS, FAIL, CANNOT } verdict;

static verdict run_layout(mica_ctx *mc, const golden_case *gc, int layout, const char **reason)
{
    uint8_t *memory[MAX_ARRAYS] = {NULL};
    char why[512] = "";
    op_call call;
    mica_scope *scope = mica_scope_push(mc);
    fill_call(mc, gc, layout, memory, &call);
    mica_array *result = gc->entry->call(&call);
    verdict v = CANNOT;
    if (!call.cannot)
        v = (gc->must_fail ? refused(mc, result, why, sizeof why)
                           : judge(mc, gc, result, why, sizeof why))
                ? PASS
                : FAIL;
    if (v == FAIL)
        printf("FAIL %s [%s]: %s\n", gc->id, layout_names[layout], why);
    *reason = call.cannot;
    mica_scope_pop(scope);
    mica_clear_error(mc);
    for (int i = 0; i < gc->n_in; i++)
        free(memory[i]);
    return v;
}

static void run_case(mica_ctx *mc, const mica__json *json, const mica__weights *tensors)
{
    golden_case gc;
    const char *reason = NULL;
    if (!read_case(json, tensors, &gc)) {
        printf("FAIL %s: its tensors are not there\n", gc.id);
        failed++;
        return;
    }
    if (!gc.entry) {
        note_skip(gc.op, NULL);
        return;
    }
    verdict v = PASS;
    const int n_layouts = gc.n_in && !gc.must_fail ? N_LAYOUTS : 1;
    for (int layout = 0; layout < n_layouts && v == PASS; layout++)
        v = run_layout(mc, &gc, layout, &reason);
    if (v == CANNOT)
        note_skip(gc.op, reason);
    passed += v == PASS;
    failed += v == FAIL;
}

/* --- all groups ------------------------------------------------------------------------------- */

/* What a group's file of cases says, read already, with the tensors beside it. */
static void run_group(mica_ctx *mc, const char *path, const char *name, const mica__json *cases)
{
    char beside[4200];
    mica__weights *tensors = NULL;
    snprintf(beside, sizeof beside, "%.*s.safetensors", (int)(strlen(path) - strlen(".json")),
             path);
    if (mica__weights_open(beside, true, &tensors) != MICA_OK) {
        printf("FAIL %s: %s\n", name, mica_last_error());
        failed++;
        return;
    }
    for (const mica__json *at = cases->first; at; at = at->next)
        run_case(mc, at, tensors);
    mica__weights_close(tensors);
}

/* A file of JSON: a group when it has a list of cases of operations. */
static void run_file(mica_ctx *mc, const char *path, const char *name)
{
    mica__json_doc *doc = NULL;
    const mica_status status = mica__json_read(path, 64 << 20, &doc);
    const mica__json *cases =
        status == MICA_OK ? mica__json_get(mica__json_root(doc), "cases") : NULL;
    if (cases && cases->type == MICA__JSON_ARRAY && mica__json_get(cases->first, "op")) {
        run_group(mc, path, name, cases);
    } else {
        printf("skip %s: %s\n", name, status == MICA_OK ? "no cases" : mica_last_error());
        skipped++;
    }
    mica__json_free(doc);
}

int main(int argc, char **argv)
{
    file_list files = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: golden_ops DIR\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!file_list_below(argv[1], &files)) {
        printf("skip: %s is not there\n0 passed, 0 failed, 1 skipped\n", argv[1]);
        return 77;
    }
    mica_ctx *mc = mica_open(NULL);
    for (size_t i = 0; mc && i < files.n; i++)
        if (text_ends_with(files.paths[i], ".json"))
            run_file(mc, files.paths[i], file_list_relative(&files, files.paths[i]));
    mica_close(mc);
    file_list_free(&files);
    qsort(skips, (size_t)n_skips, sizeof *skips, by_what);
    for (int i = 0; i < n_skips; i++)
        printf("skip %s: %d\n", skips[i].what, skips[i].count);
    if (passed + failed + n_skips == 0)
        printf("FAIL: no cases in %s\n", argv[1]);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed + n_skips == 0;
}
