/* kernel_qmatmul.c - products of rows with a stored weight matrix: activations in 8 bits, or in f32
 * with the weights dequantised.
 *
 * Both are cut and run alike (strips.h); only the level's strip function differs.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/strips.h"

/* Whether x [.., columns] and out f32 [.., n] have contiguous rows and equal leading axes. */
static bool rows_fit(const mica__operand *x, int64_t columns, const mica__operand *out, int64_t n)
{
    if (x->ndim < 1 || x->ndim != out->ndim || x->unaligned || out->dtype != MICA_F32)
        return false;
    for (int i = 0; i < x->ndim - 1; i++)
        if (x->shape[i] != out->shape[i])
            return false;
    const int last = x->ndim - 1;
    return x->shape[last] == columns && (columns <= 1 || x->strides[last] == 1) &&
           out->shape[last] == n && (n <= 1 || out->strides[last] == 1);
}

static bool accepts_i8(const mica__call *call)
{
    mica__qweight w;
    const mica__operand *x = &call->in[0];
    if (!mica__qweight_of(call->attrs, call->in + 1, call->n_in - 1, &w) ||
        w.form == MICA__FORM_NONE || x->dtype != MICA_U8)
        return false;
    /* Parts of an act8 row are aligned when rows are: their length is a multiple of 64. */
    return rows_fit(x, mica__act8_row_bytes(w.k, w.group), &call->out[0], w.n);
}

static bool accepts_f32(const mica__call *call)
{
    mica__qweight w;
    return mica__qweight_of(call->attrs, call->in + 1, call->n_in - 1, &w) &&
           call->in[0].dtype == MICA_F32 && rows_fit(&call->in[0], w.k, &call->out[0], w.n);
}

static mica__qweight weight_of(const mica__call *call)
{
    mica__qweight w = {0};
    (void)mica__qweight_of(call->attrs, call->in + 1, call->n_in - 1, &w);
    return w;
}

static mica__cut cut_of(const mica__call *call, const mica__qweight *w)
{
    return mica__cut_of(w->n, mica__operand_row_count(&call->in[0]), w->codes_stride);
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    const mica__qweight w = weight_of(call);
    const mica__cut cut = cut_of(call, &w);
    return cut.row_tasks * cut.act_tasks;
}

static size_t scratch_i8(const mica__call *call)
{
    const mica__qweight w = weight_of(call);
    return mica__cut_scratch_bound(mica__operand_row_count(&call->in[0]),
                                   mica__matmul_level_for(call->cpu)->i8->scratch(&w));
}

static size_t scratch_f32(const mica__call *call)
{
    const mica__qweight w = weight_of(call);
    return mica__cut_scratch_bound(mica__operand_row_count(&call->in[0]),
                                   mica__matmul_level_for(call->cpu)->real->strip_scratch(&w));
}

static void run_task(const mica__call *call, int64_t task, bool i8, void *scratch)
{
    const mica__qweight w = weight_of(call);
    const mica__cut cut = cut_of(call, &w);
    const mica__matmul_level *level = mica__matmul_level_for(call->cpu);
    const mica__strip_rows rows = {.acts = &call->in[0], .out = &call->out[0]};
    mica__cut_run(&cut, task, &w, i8 ? level->i8->strip : level->real->strip, level, &rows,
                  scratch);
}

static mica_status run_i8(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    run_task(call, task, true, scratch);
    return MICA_OK;
}

static mica_status run_f32(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    run_task(call, task, false, scratch);
    return MICA_OK;
}

const mica__kernel mica__kernel_qmatmul_i8 = {
    .op = MICA__OP_QMATMUL_I8,
    .name = "qmatmul_i8",
    .n_stages = 1,
    .accepts = accepts_i8,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_i8,
    .run = run_i8,
};

const mica__kernel mica__kernel_qmatmul = {
    .op = MICA__OP_QMATMUL,
    .name = "qmatmul",
    .n_stages = 1,
    .accepts = accepts_f32,
    .n_tasks = n_tasks,
    .scratch_bytes = scratch_f32,
    .run = run_f32,
};
