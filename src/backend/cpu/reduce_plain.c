/* reduce_plain.c - sum, mean, max, min over axes of integers, bool, f64 and c64.
 *
 * Integers add modulo 2^64 and wrap to the output's width. f64 adds in double and the parts of c64
 * in f32, both in the canonical order (16 lanes, blocks of 1024). Extremes of c64 compare the real,
 * then the imaginary part.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/reduce.h"

enum { BLOCK = MICA__REDUCE_BLOCK };

static bool is_whole(mica_dtype dtype)
{
    return dtype <= MICA_I64;
}

static bool accepts(const mica__call *call, mica__op op)
{
    const mica_dtype in = call->in[0].dtype, out = call->out[0].dtype;
    if (in == MICA_F64 || in == MICA_C64)
        return out == in;
    return is_whole(in) && is_whole(out) && op != MICA__OP_MEAN;
}

static int64_t task_outputs(const mica__reduction *r)
{
    return r->n_reduced >= MICA__TILE_ELEMENTS ? 1 : MICA__TILE_ELEMENTS / (r->n_reduced + 1) + 1;
}

static int64_t n_tasks(const mica__call *call, int stage)
{
    (void)stage;
    mica__reduction r;
    mica__reduction_of(call, &r);
    return mica__div_up(r.n_outputs, task_outputs(&r));
}

/* One block in the type it is worked on. */
static size_t scratch_bytes(const mica__call *call)
{
    (void)call;
    return BLOCK * 8;
}

/* What an output has gathered so far. */
typedef struct total {
    uint64_t u;
    double x;
    float re, im;
} total;

static bool replaces(mica__op op, bool greater, bool less)
{
    return op == MICA__OP_MAX ? greater : less;
}

static void gather_signed(mica__op op, const int64_t *x, int64_t n, bool first, total *t)
{
    for (int64_t k = 0; k < n; k++) {
        const int64_t so_far = (int64_t)t->u;
        if (op == MICA__OP_SUM)
            t->u += (uint64_t)x[k];
        else if ((first && k == 0) || replaces(op, x[k] > so_far, x[k] < so_far))
            t->u = (uint64_t)x[k];
    }
}

static void gather_unsigned(mica__op op, const uint64_t *x, int64_t n, bool first, total *t)
{
    for (int64_t k = 0; k < n; k++) {
        if (op == MICA__OP_SUM)
            t->u += x[k];
        else if ((first && k == 0) || replaces(op, x[k] > t->u, x[k] < t->u))
            t->u = x[k];
    }
}

static void gather_double(mica__op op, const double *x, int64_t n, bool first, total *t)
{
    double lanes[16] = {0};
    for (int64_t k = 0; k < n; k++) {
        if (op == MICA__OP_SUM || op == MICA__OP_MEAN)
            lanes[k % 16] = lanes[k % 16] + x[k];
        else if ((first && k == 0) || x[k] != x[k] ||
                 replaces(op, x[k] > t->x || (x[k] == t->x && !signbit(x[k])),
                          x[k] < t->x || (x[k] == t->x && signbit(x[k]))))
            t->x = x[k];
    }
    if (op != MICA__OP_SUM && op != MICA__OP_MEAN)
        return;
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] = lanes[i] + lanes[i + half];
    t->x = t->x + lanes[0];
}

static void gather_complex(mica__op op, const float *z, int64_t n, bool first, total *t)
{
    float re[16] = {0}, im[16] = {0};
    for (int64_t k = 0; k < n; k++) {
        const float a = z[2 * k], b = z[2 * k + 1];
        if (op == MICA__OP_SUM || op == MICA__OP_MEAN) {
            re[k % 16] = re[k % 16] + a;
            im[k % 16] = im[k % 16] + b;
        } else if ((first && k == 0) || (t->re == t->re && t->im == t->im &&
                                         (a != a || b != b ||
                                          replaces(op, a > t->re || (a == t->re && b > t->im),
                                                   a < t->re || (a == t->re && b < t->im))))) {
            t->re = a;
            t->im = b;
        }
    }
    if (op != MICA__OP_SUM && op != MICA__OP_MEAN)
        return;
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) {
            re[i] = re[i] + re[i + half];
            im[i] = im[i] + im[i + half];
        }
    t->re = t->re + re[0];
    t->im = t->im + im[0];
}

static void reduce_output(const mica__call *call, const mica__reduction *r, mica__op op,
                          int64_t base, void *block, total *t)
{
    const mica__operand *in = &call->in[0];
    const bool is_signed = in->dtype >= MICA_I8 && in->dtype <= MICA_I64;
    const mica_dtype wide = in->dtype == MICA_F64 || in->dtype == MICA_C64 ? in->dtype
                            : is_signed                                    ? MICA_I64
                                                                           : MICA_U64;
    for (int64_t start = 0; start < r->n_reduced; start += BLOCK) {
        const int64_t n = r->n_reduced - start < BLOCK ? r->n_reduced - start : BLOCK;
        mica__reduction_load(r, in, base, start, n, wide, block);
        if (wide == MICA_I64)
            gather_signed(op, block, n, start == 0, t);
        else if (wide == MICA_U64)
            gather_unsigned(op, block, n, start == 0, t);
        else if (wide == MICA_F64)
            gather_double(op, block, n, start == 0, t);
        else
            gather_complex(op, block, n, start == 0, t);
    }
}

static void write_total(const mica__call *call, const mica__reduction *r, mica__op op,
                        int64_t offset, const total *t)
{
    const mica__operand *out = &call->out[0];
    uint8_t *to = out->data + offset * mica_dtype_bytes(out->dtype);
    const double count = op == MICA__OP_MEAN ? (double)r->n_reduced : 1;
    if (out->dtype == MICA_F64) {
        const double x = t->x / count;
        memcpy(to, &x, sizeof x);
    } else if (out->dtype == MICA_C64) {
        const float z[2] = {t->re / (float)count, t->im / (float)count};
        memcpy(to, z, sizeof z);
    } else {
        mica__convert(to, out->dtype, 1, &t->u, MICA_U64, 1, 1);
    }
}

static mica_status reduce_run(const mica__call *call, mica__op op, int64_t task, void *scratch)
{
    mica__reduction r;
    mica__reduction_of(call, &r);
    if (r.n_reduced == 0 && (op == MICA__OP_MAX || op == MICA__OP_MIN))
        MICA_FAIL(MICA_E_ARGUMENT, "%s of no elements", mica__op_facts_of(op)->name);
    const int64_t step = task_outputs(&r);
    mica__cursor cursor;
    mica__cursor_set(&r.kept, &cursor, task * step);
    for (int64_t i = task * step; i < (task + 1) * step && i < r.n_outputs; i++) {
        total t = {0};
        reduce_output(call, &r, op, mica__cursor_offset(&r.kept, &cursor, 0), scratch, &t);
        write_total(call, &r, op, mica__cursor_offset(&r.kept, &cursor, 1), &t);
        mica__cursor_advance(&r.kept, &cursor, 1);
    }
    return MICA_OK;
}

#define KERNEL(OP, lower)                                                                          \
    static bool lower##_accepts(const mica__call *call)                                            \
    {                                                                                              \
        return accepts(call, OP);                                                                  \
    }                                                                                              \
    static mica_status lower##_run(const mica__call *call, int stage, int64_t task, void *scratch) \
    {                                                                                              \
        (void)stage;                                                                               \
        return reduce_run(call, OP, task, scratch);                                                \
    }                                                                                              \
    const mica__kernel mica__cpu_plain_##lower = {                                                 \
        .op = OP,                                                                                  \
        .name = "plain_" #lower,                                                                   \
        .n_stages = 1,                                                                             \
        .accepts = lower##_accepts,                                                                \
        .n_tasks = n_tasks,                                                                        \
        .scratch_bytes = scratch_bytes,                                                            \
        .run = lower##_run,                                                                        \
    };
KERNEL(MICA__OP_SUM, sum)
KERNEL(MICA__OP_MEAN, mean)
KERNEL(MICA__OP_MAX, max)
KERNEL(MICA__OP_MIN, min)
