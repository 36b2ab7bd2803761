/* take.c - slices along one axis, picked by an array of indices.
 *
 * The output's shape is the input's with the axis replaced by the shape of the indices. An index
 * below 0 counts from the end; one outside [-n, n) fails the run and names itself.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/convert.h"
#include "backend/cpu/operand.h"

static bool is_integer(mica_dtype dtype)
{
    return dtype >= MICA_U8 && dtype <= MICA_I64;
}

static bool accepts(const mica__call *call)
{
    return is_integer(call->in[1].dtype) && call->in[0].dtype == call->out[0].dtype;
}

/* The output as [before][picked][after]: rows of `after` elements. */
typedef struct take_shape {
    int axis;
    int64_t after;  /* elements behind the axis */
    int64_t picked; /* indices */
    int64_t rows;   /* before * picked */
} take_shape;

static take_shape shape_of(const mica__call *call)
{
    const mica__axis_attrs *attrs = call->attrs;
    const mica__operand *x = &call->in[0];
    take_shape shape = {.axis = attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis, .after = 1};
    for (int i = shape.axis + 1; i < x->ndim; i++)
        shape.after *= x->shape[i];
    shape.picked = mica__operand_size(&call->in[1]);
    shape.rows = shape.picked;
    for (int i = 0; i < shape.axis; i++)
        shape.rows *= x->shape[i];
    return shape;
}

static int64_t task_rows(const take_shape *shape)
{
    return shape->after >= MICA__TILE_ELEMENTS ? 1 : MICA__TILE_ELEMENTS / (shape->after + 1) + 1;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    const take_shape shape = shape_of(call);
    return shape.after ? mica__div_up(shape.rows, task_rows(&shape)) : 0;
}

/* A part of the axes of an operand, to walk by itself. */
static void walk_axes(mica__walk *walk, const mica__operand *operand, int first, int last)
{
    mica__operand part = *operand;
    part.ndim = last - first;
    for (int i = first; i < last; i++) {
        part.shape[i - first] = operand->shape[i];
        part.strides[i - first] = operand->strides[i];
    }
    mica__walk_start(walk, part.ndim, part.shape);
    mica__walk_add(walk, &part);
}

static int64_t offset_at(const mica__walk *walk, int64_t i)
{
    mica__cursor cursor;
    mica__cursor_set(walk, &cursor, i);
    return mica__cursor_offset(walk, &cursor, 0);
}

/* Walks of the parts of input, indices and output that a row touches. */
typedef struct take_walks {
    mica__walk before_in, before_out, indices, picked_out, after;
} take_walks;

static void walks_of(const mica__call *call, const take_shape *shape, take_walks *walks)
{
    const mica__operand *x = &call->in[0], *out = &call->out[0];
    const int picked_axes = call->in[1].ndim;
    walk_axes(&walks->before_in, x, 0, shape->axis);
    walk_axes(&walks->before_out, out, 0, shape->axis);
    walk_axes(&walks->indices, &call->in[1], 0, picked_axes);
    walk_axes(&walks->picked_out, out, shape->axis, shape->axis + picked_axes);
    walk_axes(&walks->after, x, shape->axis + 1, x->ndim);
    mica__operand rest = *out;
    rest.ndim = x->ndim - shape->axis - 1;
    for (int i = 0; i < rest.ndim; i++) {
        rest.shape[i] = out->shape[shape->axis + picked_axes + i];
        rest.strides[i] = out->strides[shape->axis + picked_axes + i];
    }
    mica__walk_add(&walks->after, &rest);
    mica__walk *all[] = {&walks->before_in, &walks->before_out, &walks->indices, &walks->picked_out,
                         &walks->after};
    for (int i = 0; i < 5; i++)
        mica__walk_merge(all[i]);
}

static void move_row(const mica__walk *after, uint8_t *to, const uint8_t *from, int64_t bytes,
                     int64_t n)
{
    mica__cursor cursor;
    mica__cursor_set(after, &cursor, 0);
    while (n > 0) {
        const int64_t run = mica__cursor_run(after, &cursor, n);
        mica__move(to + mica__cursor_offset(after, &cursor, 1) * bytes,
                   after->strides[1][after->ndim - 1],
                   from + mica__cursor_offset(after, &cursor, 0) * bytes,
                   after->strides[0][after->ndim - 1], bytes, run);
        mica__cursor_advance(after, &cursor, run);
        n -= run;
    }
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    const mica__operand *x = &call->in[0], *out = &call->out[0];
    const take_shape shape = shape_of(call);
    take_walks walks;
    walks_of(call, &shape, &walks);
    const int64_t bytes = mica_dtype_bytes(x->dtype), extent = x->shape[shape.axis];
    const int64_t step = task_rows(&shape);
    for (int64_t row = task * step; row < (task + 1) * step && row < shape.rows; row++) {
        const int64_t before = row / shape.picked, pick = row % shape.picked;
        const int64_t given = mica__operand_integer(&call->in[1], offset_at(&walks.indices, pick));
        const bool wraps = call->in[1].dtype == MICA_U64 && given < 0;
        const int64_t index = given < 0 && !wraps ? given + extent : given;
        if (index < 0 || index >= extent)
            MICA_FAIL(MICA_E_ARGUMENT,
                      "take: index %lld (number %lld) is out of range for an axis of %lld",
                      (long long)given, (long long)pick, (long long)extent);
        const int64_t from = offset_at(&walks.before_in, before) + index * x->strides[shape.axis];
        const int64_t to =
            offset_at(&walks.before_out, before) + offset_at(&walks.picked_out, pick);
        move_row(&walks.after, out->data + to * bytes, x->data + from * bytes, bytes, shape.after);
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_take = {
    .op = MICA__OP_TAKE,
    .name = "take",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .run = run,
};
