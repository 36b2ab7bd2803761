/* copy.c - contiguous, astype, full, arange, concatenate: elements moved or made, no arithmetic.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/convert.h"
#include "backend/cpu/fused_run.h"
#include "backend/cpu/operand.h"

#include <string.h>

static bool accepts_any(const mica__call *call)
{
    (void)call;
    return true;
}

static int64_t tiles(const mica__call *call, int stage)
{
    (void)stage;
    return mica__div_up(mica__operand_size(&call->out[0]), MICA__TILE_ELEMENTS);
}

/* Elements [start, stop) of `out`, converted from `in`, which has or broadcasts to its shape. */
static void convert_part(const mica__operand *in, const mica__operand *out, int64_t start,
                         int64_t stop)
{
    const int64_t in_bytes = mica_dtype_bytes(in->dtype);
    const int64_t out_bytes = mica_dtype_bytes(out->dtype);
    mica__walk walk;
    mica__walk_start(&walk, out->ndim, out->shape);
    mica__walk_add(&walk, in);
    mica__walk_add(&walk, out);
    mica__walk_merge(&walk);
    mica__cursor cursor;
    mica__cursor_set(&walk, &cursor, start);
    while (start < stop) {
        const int64_t run = mica__cursor_run(&walk, &cursor, stop - start);
        mica__convert(out->data + mica__cursor_offset(&walk, &cursor, 1) * out_bytes, out->dtype,
                      walk.strides[1][walk.ndim - 1],
                      in->data + mica__cursor_offset(&walk, &cursor, 0) * in_bytes, in->dtype,
                      walk.strides[0][walk.ndim - 1], run);
        mica__cursor_advance(&walk, &cursor, run);
        start += run;
    }
}

static int64_t tile_stop(const mica__call *call, int64_t task)
{
    const int64_t size = mica__operand_size(&call->out[0]);
    return (task + 1) * MICA__TILE_ELEMENTS < size ? (task + 1) * MICA__TILE_ELEMENTS : size;
}

static mica_status convert_run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    convert_part(&call->in[0], &call->out[0], task * MICA__TILE_ELEMENTS, tile_stop(call, task));
    return MICA_OK;
}

const mica__kernel mica__cpu_copy = {
    .op = MICA__OP_COPY,
    .name = "contiguous",
    .n_stages = 1,
    .accepts = accepts_any,
    .n_tasks = tiles,
    .run = convert_run,
};

const mica__kernel mica__cpu_full = {
    .op = MICA__OP_FULL,
    .name = "full",
    .n_stages = 1,
    .accepts = accepts_any,
    .n_tasks = tiles,
    .run = convert_run,
};

const mica__kernel mica__cpu_astype = {
    .op = MICA__OP_ASTYPE,
    .name = "astype",
    .n_stages = 1,
    .accepts = accepts_any,
    .n_tasks = tiles,
    .run = convert_run,
};

/* Between f32, f16 and bf16: the tile interpreter. */
static void float_chain(const mica__call *call, mica__fused_attrs *chain)
{
    memset(chain, 0, sizeof *chain);
    chain->n_inputs = chain->n_outputs = chain->n_instrs = 1;
    chain->n_slots = 2;
    chain->outputs[0] = 1;
    chain->instrs[0] =
        (mica__fused_instr){.op = MICA__OP_ASTYPE, .dtype = (uint8_t)call->out[0].dtype, .out = 1};
}

static bool float_accepts(const mica__call *call)
{
    mica__fused_attrs chain;
    float_chain(call, &chain);
    return mica__fused_accepts(&chain, call->in, call->out);
}

static size_t float_scratch_bytes(const mica__call *call)
{
    (void)call;
    return 2 * MICA__FUSED_TILE * sizeof(float);
}

static mica_status float_run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    mica__fused_attrs chain;
    float_chain(call, &chain);
    const int64_t start = task * MICA__TILE_ELEMENTS;
    return mica__fused_run(call->cpu, &chain, call->in, call->out, start,
                           tile_stop(call, task) - start, scratch);
}

const mica__kernel mica__cpu_astype_float = {
    .op = MICA__OP_ASTYPE,
    .name = "astype_float",
    .n_stages = 1,
    .accepts = float_accepts,
    .n_tasks = tiles,
    .scratch_bytes = float_scratch_bytes,
    .run = float_run,
    .in_place = 1,
};

/* Element i is start + i * step in double, converted; integer ranges are computed in int64. */
static mica_status arange_run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    const mica__arange_attrs *attrs = call->attrs;
    const mica__operand *out = &call->out[0];
    const int64_t bytes = mica_dtype_bytes(out->dtype);
    const bool whole = attrs->start == (double)(int64_t)attrs->start &&
                       attrs->step == (double)(int64_t)attrs->step;
    for (int64_t i = task * MICA__TILE_ELEMENTS; i < tile_stop(call, task); i++) {
        uint8_t *to = out->data + i * out->strides[0] * bytes;
        if (whole) {
            const int64_t value = (int64_t)((uint64_t)(int64_t)attrs->start +
                                            (uint64_t)i * (uint64_t)(int64_t)attrs->step);
            mica__convert(to, out->dtype, 1, &value, MICA_I64, 1, 1);
        } else {
            const double value = attrs->start + (double)i * attrs->step;
            mica__convert(to, out->dtype, 1, &value, MICA_F64, 1, 1);
        }
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_arange = {
    .op = MICA__OP_ARANGE,
    .name = "arange",
    .n_stages = 1,
    .accepts = accepts_any,
    .n_tasks = tiles,
    .run = arange_run,
};

static int64_t concatenate_n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    int64_t n = 0;
    for (int i = 0; i < call->n_in; i++)
        n += mica__div_up(mica__operand_size(&call->in[i]), MICA__TILE_ELEMENTS);
    return n;
}

static bool concatenate_accepts(const mica__call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].dtype != call->out[0].dtype)
            return false;
    return true;
}

static mica_status concatenate_run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    const mica__axis_attrs *attrs = call->attrs;
    mica__operand part = call->out[0];
    const int axis = attrs->axis;
    for (int i = 0; i < call->n_in; i++) {
        const mica__operand *in = &call->in[i];
        const int64_t size = mica__operand_size(in);
        const int64_t n = mica__div_up(size, MICA__TILE_ELEMENTS);
        if (task < n) {
            const int64_t start = task * MICA__TILE_ELEMENTS;
            const int64_t stop =
                start + MICA__TILE_ELEMENTS < size ? start + MICA__TILE_ELEMENTS : size;
            part.shape[axis] = in->shape[axis];
            convert_part(in, &part, start, stop);
            return MICA_OK;
        }
        task -= n;
        part.data += in->shape[axis] * part.strides[axis] * mica_dtype_bytes(part.dtype);
    }
    return MICA_OK;
}

const mica__kernel mica__cpu_concatenate = {
    .op = MICA__OP_CONCATENATE,
    .name = "concatenate",
    .n_stages = 1,
    .accepts = concatenate_accepts,
    .n_tasks = concatenate_n_tasks,
    .run = concatenate_run,
};
