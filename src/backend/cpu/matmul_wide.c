/* matmul_wide.c - products of f64 and of c64 matrices.
 *
 * Both forms add in order of k: f64 with a rounded product for each addition, c64 with both parts
 * kept in double (where the products of two floats are exact) and rounded once at the end. Operands
 * have any strides.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/operand.h"

#include <string.h>

enum { COLUMNS = 64 };

typedef struct product {
    int64_t m, n, k;
    int64_t batches, column_blocks, task_rows, row_tasks;
    int64_t x_row, x_k, b_k, b_n, out_row, out_n; /* strides in elements */
} product;

static bool transposed(const mica__call *call)
{
    const mica__matmul_attrs *attrs = call->attrs;
    return attrs->transposed_b != 0;
}

static product product_of(const mica__call *call)
{
    const mica__operand *x = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int k_axis = b->ndim - (transposed(call) ? 1 : 2);
    const int n_axis = b->ndim - (transposed(call) ? 2 : 1);
    product p = {.m = x->shape[x->ndim - 2], .n = b->shape[n_axis], .k = b->shape[k_axis]};
    p.batches = 1;
    for (int i = 0; i < out->ndim - 2; i++)
        p.batches *= out->shape[i];
    p.column_blocks = mica__div_up(p.n, COLUMNS);
    p.task_rows = MICA__TILE_ELEMENTS / (COLUMNS * (p.k < MICA__TILE_ELEMENTS ? p.k : 256) + 1) + 1;
    p.row_tasks = mica__div_up(p.m, p.task_rows);
    p.x_row = x->strides[x->ndim - 2];
    p.x_k = x->strides[x->ndim - 1];
    p.b_k = b->strides[k_axis];
    p.b_n = b->strides[n_axis];
    p.out_row = out->strides[out->ndim - 2];
    p.out_n = out->strides[out->ndim - 1];
    return p;
}

static bool accepts(const mica__call *call)
{
    const mica_dtype dtype = call->out[0].dtype;
    return (dtype == MICA_F64 || dtype == MICA_C64) && call->in[0].dtype == dtype &&
           call->in[1].dtype == dtype && call->in[0].ndim >= 2 && call->in[1].ndim >= 2;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    const product p = product_of(call);
    return p.batches * p.row_tasks * p.column_blocks;
}

/* Where the matrix of batch `batch` of the output begins in an operand whose leading axes
 * broadcast. */
static int64_t batch_offset(const mica__operand *operand, const mica__operand *out, int64_t batch)
{
    int64_t offset = 0;
    for (int i = out->ndim - 3; i >= 0; i--) {
        const int at = i - (out->ndim - operand->ndim);
        if (at >= 0 && operand->shape[at] != 1)
            offset += batch % out->shape[i] * operand->strides[at];
        batch /= out->shape[i];
    }
    return offset;
}

static double real_at(const uint8_t *data, int64_t i)
{
    double v;
    memcpy(&v, data + i * 8, sizeof v);
    return v;
}

static void row_f64(const product *p, const uint8_t *x, const uint8_t *b, int64_t n, uint8_t *out)
{
    double acc[COLUMNS] = {0};
    for (int64_t k = 0; k < p->k; k++) {
        const double xk = real_at(x, k * p->x_k);
        for (int64_t j = 0; j < n; j++)
            acc[j] = acc[j] + xk * real_at(b, k * p->b_k + j * p->b_n);
    }
    for (int64_t j = 0; j < n; j++)
        memcpy(out + j * p->out_n * 8, &acc[j], 8);
}

static void row_c64(const product *p, const uint8_t *x, const uint8_t *b, int64_t n, uint8_t *out)
{
    double re[COLUMNS] = {0}, im[COLUMNS] = {0};
    for (int64_t k = 0; k < p->k; k++) {
        float xk[2], bk[2];
        memcpy(xk, x + k * p->x_k * 8, sizeof xk);
        const double xr = (double)xk[0], xi = (double)xk[1];
        for (int64_t j = 0; j < n; j++) {
            memcpy(bk, b + (k * p->b_k + j * p->b_n) * 8, sizeof bk);
            const double br = (double)bk[0], bi = (double)bk[1];
            re[j] = re[j] + xr * br - xi * bi;
            im[j] = im[j] + xr * bi + xi * br;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        const float z[2] = {(float)re[j], (float)im[j]};
        memcpy(out + j * p->out_n * 8, z, sizeof z);
    }
}

static mica_status run(const mica__call *call, int stage, int64_t task, void *scratch)
{
    (void)stage, (void)scratch;
    const product p = product_of(call);
    const mica__operand *x = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int64_t column = task % p.column_blocks * COLUMNS;
    const int64_t first = task / p.column_blocks % p.row_tasks * p.task_rows;
    const int64_t batch = task / p.column_blocks / p.row_tasks;
    const int64_t last = first + p.task_rows < p.m ? first + p.task_rows : p.m;
    const int64_t n = p.n - column < COLUMNS ? p.n - column : COLUMNS;
    const int64_t x_at = batch_offset(x, out, batch);
    const int64_t b_at = batch_offset(b, out, batch) + column * p.b_n;
    const int64_t out_at = batch_offset(out, out, batch) + column * p.out_n;
    for (int64_t row = first; row < last; row++)
        (out->dtype == MICA_F64 ? row_f64 : row_c64)(&p, x->data + (x_at + row * p.x_row) * 8,
                                                     b->data + b_at * 8, n,
                                                     out->data + (out_at + row * p.out_row) * 8);
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
