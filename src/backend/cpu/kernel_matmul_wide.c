/* kernel_matmul_wide.c - products of f64 and complex matrices, in both forms.
 *
 * Plain C at every level, any strides, inputs of any float dtype or c64: for completeness, not for
 * speed. Each output is sequential in k whichever form the product has. SPDX-License-Identifier:
 * MIT
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/strips.h"
#include "base/bytes.h"
#include "base/half.h"

static bool is_wide(mica_dtype dtype)
{
    return dtype == MICA_F64 || dtype == MICA_C64;
}

static bool is_number(mica_dtype dtype)
{
    return is_wide(dtype) || dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

static bool accepts(const mica__call *call)
{
    const mica__operand *x = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    return x->ndim >= 2 && b->ndim >= 2 && out->ndim >= 2 && is_number(x->dtype) &&
           is_number(b->dtype) && is_wide(out->dtype);
}

/* Element i (in elements from the first) as a real and an imaginary part. */
static void load(const mica__operand *from, int64_t i, double part[2])
{
    const uint8_t *at = from->data + i * mica_dtype_bytes(from->dtype);
    part[1] = 0;
    switch (from->dtype) {
    case MICA_F64:
        part[0] = mica__load_f64(at);
        break;
    case MICA_F16:
        part[0] = mica__f16_to_f32(mica__load_u16(at));
        break;
    case MICA_BF16:
        part[0] = mica__bf16_to_f32(mica__load_u16(at));
        break;
    case MICA_C64:
        part[1] = mica__load_f32(at + 4);
        part[0] = mica__load_f32(at);
        break;
    default:
        part[0] = mica__load_f32(at);
        break;
    }
}

/* Where one output's row of x and column of B begin, and the steps along k. */
typedef struct line {
    int64_t x, b, x_step, b_step, k;
} line;

static double dot_f64(const mica__call *call, const line *l)
{
    double acc = 0;
    for (int64_t i = 0; i < l->k; i++) {
        double x[2], b[2];
        load(&call->in[0], l->x + i * l->x_step, x);
        load(&call->in[1], l->b + i * l->b_step, b);
        acc = fma(x[0], b[0], acc);
    }
    return acc;
}

static void dot_c64(const mica__call *call, const line *l, float acc[2])
{
    acc[0] = acc[1] = 0;
    for (int64_t i = 0; i < l->k; i++) {
        double x[2], b[2];
        load(&call->in[0], l->x + i * l->x_step, x);
        load(&call->in[1], l->b + i * l->b_step, b);
        const float xr = (float)x[0], xi = (float)x[1], br = (float)b[0], bi = (float)b[1];
        acc[0] = fmaf(-xi, bi, fmaf(xr, br, acc[0]));
        acc[1] = fmaf(xi, br, fmaf(xr, bi, acc[1]));
    }
}

/* Elements from an input's start to the matrix that output batch `batch` uses. */
static int64_t batch_start(const mica__operand *in, const mica__operand *out, int64_t batch)
{
    int64_t offset = 0;
    for (int i = out->ndim - 3; i >= 0; i--) {
        const int at = i - (out->ndim - in->ndim);
        if (at >= 0 && in->shape[at] != 1)
            offset += batch % out->shape[i] * in->strides[at];
        batch /= out->shape[i];
    }
    return offset;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    return mica__operand_row_count(&call->out[0]);
}

/* One row of the output. */
static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage;
    (void)scratch;
    const mica__matmul_attrs *attrs = call->attrs;
    const mica__operand *x = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int64_t m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1];
    const int64_t batch = task / m, row = task % m;
    const int k_axis = b->ndim - (attrs->transposed_b ? 1 : 2);
    const int n_axis = b->ndim - (attrs->transposed_b ? 2 : 1);
    const int64_t b_first = batch_start(b, out, batch);
    line l = {.x = batch_start(x, out, batch) + row * x->strides[x->ndim - 2],
              .x_step = x->strides[x->ndim - 1],
              .b_step = b->strides[k_axis],
              .k = x->shape[x->ndim - 1]};
    uint8_t *to = mica__operand_row(out, task);
    for (int64_t j = 0; j < n; j++) {
        uint8_t *at = to + j * out->strides[out->ndim - 1] * 8;
        l.b = b_first + j * b->strides[n_axis];
        if (out->dtype == MICA_F64) {
            const double value = dot_f64(call, &l);
            memcpy(at, &value, sizeof value);
        } else {
            float value[2];
            dot_c64(call, &l, value);
            memcpy(at, value, sizeof value);
        }
    }
    return MICA_OK;
}

const mica__kernel mica__kernel_matmul_wide = {
    .op = MICA__OP_MATMUL,
    .name = "matmul_wide",
    .n_stages = 1,
    .accepts = accepts,
    .n_tasks = n_tasks,
    .run = run,
};
