/* kernel_matmul.c - products of float matrices, in the two forms that a graph can ask for.
 *
 * x W^T runs as a product with a plain weight matrix (strips.h), 16 lanes along K; x B gives each
 * output sequentially in k. Which one it is stands in the attributes. Half activations are widened
 * once, in a stage of their own.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/strips.h"

/* One product as the loops below see it. */
typedef struct product {
    int64_t m, n, k;
    int64_t batches; /* 1 where all rows of x meet the same matrix */
    bool shared_b;
    const mica__operand *x, *b;
    mica__operand *out;
} product;

static bool is_float(mica_dtype dtype)
{
    return dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

static int64_t leading(const mica__operand *operand)
{
    int64_t count = 1;
    for (int i = 0; i < operand->ndim - 2; i++)
        count *= operand->shape[i];
    return count;
}

static product product_of(const mica__call *call, bool transposed)
{
    product p = {.x = &call->in[0], .b = &call->in[1], .out = &call->out[0]};
    p.k = p.x->shape[p.x->ndim - 1];
    p.n = p.b->shape[p.b->ndim - (transposed ? 2 : 1)];
    p.shared_b = leading(p.b) == 1;
    p.batches = p.shared_b ? 1 : leading(p.out);
    p.m = p.shared_b ? mica__operand_row_count(p.x) : p.x->shape[p.x->ndim - 2];
    return p;
}

/* Whether the leading axes of an input broadcast to the output's. */
static bool broadcasts(const mica__operand *in, const mica__operand *out)
{
    const int shift = out->ndim - in->ndim;
    if (shift < 0)
        return false;
    for (int i = 0; i < in->ndim - 2; i++)
        if (in->shape[i] != 1 && in->shape[i] != out->shape[i + shift])
            return false;
    return true;
}

static bool rows_are_contiguous(const mica__operand *operand)
{
    return operand->shape[operand->ndim - 1] <= 1 || operand->strides[operand->ndim - 1] == 1;
}

static bool accepts(const mica__call *call, bool transposed)
{
    const mica__matmul_attrs *attrs = call->attrs;
    const mica__operand *x = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    if ((attrs->transposed_b != 0) != transposed || x->ndim < 2 || b->ndim < 2 || out->ndim < 2 ||
        !is_float(x->dtype) || !is_float(b->dtype) || !is_float(out->dtype))
        return false;
    if (!broadcasts(x, out) || !broadcasts(b, out) || !rows_are_contiguous(x) ||
        !rows_are_contiguous(b) || !rows_are_contiguous(out) ||
        (x->unaligned && x->dtype == MICA_F32))
        return false;
    const int64_t k = x->shape[x->ndim - 1];
    return b->shape[b->ndim - (transposed ? 1 : 2)] == k &&
           out->shape[out->ndim - 2] == x->shape[x->ndim - 2] &&
           out->shape[out->ndim - 1] == b->shape[b->ndim - (transposed ? 2 : 1)] &&
           (leading(b) == 1 ? leading(x) == leading(out) : true);
}

static bool accepts_transposed(const mica__call *call)
{
    return accepts(call, true);
}

static bool accepts_plain(const mica__call *call)
{
    return accepts(call, false);
}

/* The entry of `in`'s leading axes that batch `batch` of the output uses. */
static int64_t batch_entry(const mica__operand *in, const mica__operand *out, int64_t batch)
{
    int64_t entry = 0, weight = 1;
    for (int i = out->ndim - 3; i >= 0; i--) {
        const int at = i - (out->ndim - in->ndim);
        const int64_t index = batch % out->shape[i];
        batch /= out->shape[i];
        if (at < 0)
            break;
        entry += (in->shape[at] == 1 ? 0 : index) * weight;
        weight *= in->shape[at];
    }
    return entry;
}

/* --- widening activations: stage 0 ------------------------------------------------------------ */

static int64_t rows_per_task(const mica__operand *x)
{
    const int64_t k = x->shape[x->ndim - 1];
    return k >= MICA__TILE_ELEMENTS || k < 1 ? 1 : MICA__TILE_ELEMENTS / k;
}

static int64_t n_widen_tasks(const mica__operand *x)
{
    if (x->dtype == MICA_F32)
        return 0;
    const int64_t per_task = rows_per_task(x);
    return (mica__operand_row_count(x) + per_task - 1) / per_task;
}

static size_t workspace_bytes(const mica__call *call)
{
    const mica__operand *x = &call->in[0];
    if (x->dtype == MICA_F32)
        return 0;
    return (size_t)(mica__operand_row_count(x) * x->shape[x->ndim - 1]) * sizeof(float);
}

static void widen(const mica__call *call, int64_t task)
{
    const mica__operand *x = &call->in[0];
    const mica__matmul_level *level = mica__matmul_level_for(call->cpu);
    const int64_t k = x->shape[x->ndim - 1], per_task = rows_per_task(x);
    const int64_t rows = mica__operand_row_count(x);
    const int64_t end = (task + 1) * per_task < rows ? (task + 1) * per_task : rows;
    for (int64_t i = task * per_task; i < end; i++)
        level->real->to_f32(x->dtype, mica__operand_row(x, i), k,
                            (float *)(void *)call->workspace + i * k);
}

/* --- x W^T ------------------------------------------------------------------------------------ */

static mica__cut cut_of(const product *p)
{
    return mica__cut_of(p->n, p->m, p->k * mica_dtype_bytes(p->b->dtype));
}

static int64_t transposed_tasks(const mica__call *call, int stage)
{
    if (stage == 0)
        return n_widen_tasks(&call->in[0]);
    const product p = product_of(call, true);
    const mica__cut cut = cut_of(&p);
    return p.batches * cut.row_tasks * cut.act_tasks;
}

static size_t transposed_scratch(const mica__call *call)
{
    const product p = product_of(call, true);
    const mica__qweight w = mica__qweight_plain(p.b->dtype, p.n, p.k, NULL, 0);
    return mica__cut_scratch_bound(p.m, mica__matmul_level_for(call->cpu)->real->strip_scratch(&w));
}

static mica_status run_transposed(const mica__call *call, int stage, int64_t task, void *scratch)
{
    if (stage == 0) {
        widen(call, task);
        return MICA_OK;
    }
    const product p = product_of(call, true);
    const mica__cut cut = cut_of(&p);
    const mica__matmul_level *level = mica__matmul_level_for(call->cpu);
    const int64_t tasks = cut.row_tasks * cut.act_tasks, batch = task / tasks;
    mica__strip_rows rows = {.acts = p.x, .out = p.out, .out_first = batch * p.m};
    int64_t entry = 0;
    if (!p.shared_b) {
        rows.acts_first = batch_entry(p.x, p.out, batch) * p.m;
        entry = batch_entry(p.b, p.out, batch);
    }
    if (p.x->dtype != MICA_F32)
        rows.plain_acts = call->workspace;
    const mica__qweight w =
        mica__qweight_plain(p.b->dtype, p.n, p.k, mica__operand_row(p.b, entry * p.n),
                            p.b->strides[p.b->ndim - 2] * mica_dtype_bytes(p.b->dtype));
    mica__cut_run(&cut, task % tasks, &w, level->real->strip, level, &rows, scratch);
    return MICA_OK;
}

/* --- x B -------------------------------------------------------------------------------------- */

static int64_t column_tasks(const product *p)
{
    return (p->n + MICA__STRIP_ROWS - 1) / MICA__STRIP_ROWS;
}

static int64_t act_tasks(const product *p)
{
    return (p->m + MICA__STRIP_ACTS - 1) / MICA__STRIP_ACTS;
}

static int64_t plain_tasks(const mica__call *call, int stage)
{
    if (stage == 0)
        return n_widen_tasks(&call->in[0]);
    const product p = product_of(call, false);
    return p.batches * column_tasks(&p) * act_tasks(&p);
}

static size_t plain_scratch(const mica__call *call)
{
    const product p = product_of(call, false);
    return mica__cut_scratch_bound(p.m, mica__matmul_level_for(call->cpu)->real->columns_scratch);
}

static const void *act_row(const mica__call *call, const product *p, int64_t row)
{
    if (p->x->dtype != MICA_F32)
        return call->workspace + row * p->k * 4;
    return mica__operand_row(p->x, row);
}

static mica_status run_plain(const mica__call *call, int stage, int64_t task, void *scratch)
{
    if (stage == 0) {
        widen(call, task);
        return MICA_OK;
    }
    const product p = product_of(call, false);
    const mica__matmul_level *level = mica__matmul_level_for(call->cpu);
    const int64_t tasks = column_tasks(&p) * act_tasks(&p), batch = task / tasks;
    const int64_t column = task % tasks / act_tasks(&p) * MICA__STRIP_ROWS;
    const int64_t first = task % act_tasks(&p) * MICA__STRIP_ACTS;
    const int64_t x_first = p.shared_b ? 0 : batch_entry(p.x, p.out, batch) * p.m;
    const int64_t entry = p.shared_b ? 0 : batch_entry(p.b, p.out, batch);
    const int64_t bytes = mica_dtype_bytes(p.b->dtype);
    const void **acts = scratch;
    mica__columns c = {.k = p.k, .acts = acts};
    c.n = (int)(p.n - column < MICA__STRIP_ROWS ? p.n - column : MICA__STRIP_ROWS);
    c.n_acts = (int)(p.m - first < MICA__STRIP_ACTS ? p.m - first : MICA__STRIP_ACTS);
    c.b = mica__operand_row(p.b, entry * p.k) + column * bytes;
    c.format = mica__qweight_plain(p.b->dtype, 0, 0, NULL, 0).format;
    c.stride_bytes = p.b->strides[p.b->ndim - 2] * bytes;
    c.acc = (float *)(void *)(acts + MICA__STRIP_ACTS);
    c.scratch = (uint8_t *)(c.acc + (size_t)c.n_acts * MICA__STRIP_ROWS);
    for (int i = 0; i < c.n_acts; i++)
        acts[i] = act_row(call, &p, x_first + first + i);
    level->real->columns(&c);
    const int64_t out_bytes = mica_dtype_bytes(p.out->dtype);
    for (int i = 0; i < c.n_acts; i++)
        mica__store_row(level, p.out->dtype, c.acc + i * MICA__STRIP_ROWS, c.n,
                        mica__operand_row(p.out, batch * p.m + first + i) + column * out_bytes);
    return MICA_OK;
}

const mica__kernel mica__kernel_matmul_transposed = {
    .op = MICA__OP_MATMUL,
    .name = "matmul_transposed",
    .n_stages = 2,
    .accepts = accepts_transposed,
    .n_tasks = transposed_tasks,
    .scratch_bytes = transposed_scratch,
    .workspace_bytes = workspace_bytes,
    .run = run_transposed,
};

const mica__kernel mica__kernel_matmul_plain = {
    .op = MICA__OP_MATMUL,
    .name = "matmul_plain",
    .n_stages = 2,
    .accepts = accepts_plain,
    .n_tasks = plain_tasks,
    .scratch_bytes = plain_scratch,
    .workspace_bytes = workspace_bytes,
    .run = run_plain,
};
