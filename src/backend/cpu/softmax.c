/* softmax.c - softmax over one axis.
 *
 * Row by row in f32: m = max; e = exp(x - m); s = the canonical sum of e; e / s, each step rounded,
 * then once to the output's dtype. A row of -inf gives NaN.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/convert.h"
#include "backend/cpu/level.h"
#include "backend/cpu/operand.h"

static bool is_float(mica_dtype dtype)
{
    return dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

static bool accepts(const mica__call *call)
{
    return is_float(call->in[0].dtype) && is_float(call->out[0].dtype) && call->in[0].ndim >= 1;
}

static int axis_of(const mica__call *call)
{
    const mica__axis_attrs *attrs = call->attrs;
    return attrs->axis < 0 ? attrs->axis + call->in[0].ndim : attrs->axis;
}

static int64_t row_length(const mica__call *call)
{
    return call->in[0].shape[axis_of(call)];
}

static int64_t task_rows(int64_t n)
{
    return n >= MICA__TILE_ELEMENTS ? 1 : MICA__TILE_ELEMENTS / (n + 1) + 1;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    const int64_t size = mica__operand_size(&call->in[0]), n = row_length(call);
    return size ? mica__div_up(size / n, task_rows(n)) : 0;
}

static size_t scratch_bytes(const mica__call *call)
{
    return (size_t)row_length(call) * sizeof(float);
}

static void softmax_row(const mica__call *call, const uint8_t *x, int64_t x_stride, uint8_t *out,
                        int64_t out_stride, float *row)
{
    const mica__rows_level *rows = mica__rows_level_at(call->cpu->level);
    const mica__tile_level *tile = mica__tile_level_at(call->cpu->level);
    const mica_dtype from = call->in[0].dtype, to = call->out[0].dtype;
    const int64_t n = row_length(call);
    if (x_stride == 1)
        tile->load(row, x, from, n);
    else
        mica__convert(row, MICA_F32, 1, x, from, x_stride, n);
    rows->exp_less(row, row, rows->max(row, n), n);
    rows->divide(row, row, rows->sum(row, n), n);
    if (out_stride == 1)
        tile->store(out, row, to, n);
    else
        mica__convert(out, to, out_stride, row, MICA_F32, 1, n);
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    const int axis = axis_of(call);
    mica__operand x = call->in[0], out = call->out[0];
    const int64_t x_stride = x.strides[axis], out_stride = out.strides[axis];
    x.ndim--;
    out.ndim--;
    for (int i = axis; i < x.ndim; i++) {
        x.shape[i] = out.shape[i] = call->in[0].shape[i + 1];
        x.strides[i] = call->in[0].strides[i + 1];
        out.strides[i] = call->out[0].strides[i + 1];
    }
    mica__walk walk;
    mica__walk_start(&walk, x.ndim, x.shape);
    mica__walk_add(&walk, &x);
    mica__walk_add(&walk, &out);
    mica__walk_merge(&walk);
    const int64_t step = task_rows(row_length(call));
    mica__cursor cursor;
    mica__cursor_set(&walk, &cursor, task * step);
    for (int64_t row = task * step; row < (task + 1) * step && row < walk.size; row++) {
        softmax_row(call,
                    x.data + mica__cursor_offset(&walk, &cursor, 0) * mica_dtype_bytes(x.dtype),
                    x_stride,
                    out.data + mica__cursor_offset(&walk, &cursor, 1) * mica_dtype_bytes(out.dtype),
                    out_stride, scratch);
        mica__cursor_advance(&walk, &cursor, 1);
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_softmax = {
    .op = MICA__OP_SOFTMAX,
    .name = "softmax",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_bytes,
    .run = run,
    .in_place = 1,
};
