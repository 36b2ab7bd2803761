/* matmul_test.c - float products in both forms: dtypes, broadcasting, strides, levels.
 *
 * The reference is double precision over the same stored numbers; bounds follow from the written
 * order of additions.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/weights.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/matmul_kernels.h"
#include "base/bytes.h"
#include "base/cpu.h"
#include "base/half.h"

static const char *const level_texts[] = {"scalar", "avx512", "avx2", "neon"};
#define N_LEVELS ((int)(sizeof level_texts / sizeof *level_texts))

static bool capped(int i, mica__cpu *cpu)
{
    *cpu = *mica__cpu_host();
    return mica__cpu_cap(level_texts[i], cpu) == MICA_OK;
}

static void *filled(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(p);
    memset(p, 0xff, bytes);
    return p;
}

static float element(const void *data, mica_dtype dtype, int64_t i)
{
    const uint8_t *at = data;
    if (dtype == MICA_F16)
        return mica__f16_to_f32(mica__load_u16(at + 2 * i));
    if (dtype == MICA_BF16)
        return mica__bf16_to_f32(mica__load_u16(at + 2 * i));
    return mica__load_f32(at + 4 * i);
}

static void draw_floats(void *data, mica_dtype dtype, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)draw_signed(&seed);
        uint8_t *at = data;
        if (dtype == MICA_F32)
            mica__store_f32(at + 4 * i, v);
        else
            mica__store_u16(at + 2 * i,
                            dtype == MICA_F16 ? mica__f32_to_f16(v) : mica__f32_to_bf16(v));
    }
}

static mica_dtype promoted(mica_dtype a, mica_dtype b)
{
    return a == b ? a : MICA_F32;
}

static const mica__kernel *kernel_of(bool transposed)
{
    return transposed ? &mica__kernel_matmul_transposed : &mica__kernel_matmul_plain;
}

/* Shapes of one product: leading axes of x, b and out, then m, n, k. */
typedef struct shapes {
    int n_x, n_b, n_out;
    int64_t x[4], b[4], out[4];
    int64_t m, n, k;
} shapes;

static mica__operand operand_with(void *data, mica_dtype dtype, int n, const int64_t *lead,
                                  int64_t rows, int64_t columns)
{
    int64_t shape[6];
    memcpy(shape, lead, (size_t)n * sizeof *shape);
    shape[n] = rows;
    shape[n + 1] = columns;
    return plain_operand(data, dtype, n + 2, shape);
}

static int64_t count(const mica__operand *o)
{
    int64_t n = 1;
    for (int i = 0; i < o->ndim; i++)
        n *= o->shape[i];
    return n;
}

/* Offset in elements of the matrix that output batch `batch` uses, by broadcasting. */
static int64_t batch_offset(const mica__operand *in, const mica__operand *out, int64_t batch)
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

static void check_product(const mica__operand *x, const mica__operand *b, const mica__operand *out,
                          bool transposed, const char *what)
{
    const int64_t m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1];
    const int64_t k = x->shape[x->ndim - 1];
    const double step = out->dtype == MICA_F16 ? 0x1p-11 : out->dtype == MICA_BF16 ? 0x1p-8 : 0;
    for (int64_t batch = 0; batch < (m * n == 0 ? 0 : count(out) / (m * n)); batch++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                const int64_t xo = batch_offset(x, out, batch) + i * x->strides[x->ndim - 2];
                const int64_t bo = batch_offset(b, out, batch);
                double sum = 0, magnitude = 0;
                for (int64_t c = 0; c < k; c++) {
                    const int64_t at = transposed ? j * b->strides[b->ndim - 2] + c
                                                  : c * b->strides[b->ndim - 2] + j;
                    const double p = (double)element(x->data, x->dtype, xo + c) *
                                     element(b->data, b->dtype, bo + at);
                    sum += p;
                    magnitude += fabs(p);
                }
                const double got = element(out->data, out->dtype, (batch * m + i) * n + j);
                const double chain = transposed ? (double)k / 16 + 8 : (double)k;
                const double bound = magnitude * chain * 0x1p-24 + fabs(sum) * step + 1e-30 +
                                     (out->dtype == MICA_F16 ? 0x1p-24 : 0);
                if (!(fabs(got - sum) <= bound))
                    fail_msg("%s: batch %lld, %lld, %lld: %.9g instead of %.9g", what,
                             (long long)batch, (long long)i, (long long)j, got, sum);
            }
}

/* Runs one product at every level: within the bound, and the same bits everywhere. */
static void product_case(const shapes *s, bool transposed, mica_dtype x_type, mica_dtype b_type)
{
    mica__operand in[2] = {operand_with(NULL, x_type, s->n_x, s->x, s->m, s->k),
                           transposed ? operand_with(NULL, b_type, s->n_b, s->b, s->n, s->k)
                                      : operand_with(NULL, b_type, s->n_b, s->b, s->k, s->n)};
    mica__operand out = operand_with(NULL, promoted(x_type, b_type), s->n_out, s->out, s->m, s->n);
    const size_t x_bytes = (size_t)(count(&in[0]) * mica_dtype_bytes(x_type));
    const size_t b_bytes = (size_t)(count(&in[1]) * mica_dtype_bytes(b_type));
    const size_t out_bytes = (size_t)(count(&out) * mica_dtype_bytes(out.dtype));
    uint8_t *b_block = filled(b_bytes + 1), *first = filled(out_bytes), *again = filled(out_bytes);
    in[0].data = filled(x_bytes);
    in[1].data = b_block + 1; /* as in a mapped file */
    in[1].unaligned = true;
    draw_floats(in[0].data, x_type, count(&in[0]), 3);
    draw_floats(in[1].data, b_type, count(&in[1]), 4);
    const mica__matmul_attrs attrs = {transposed};
    for (int level = 0; level < N_LEVELS; level++) {
        mica__cpu cpu;
        char what[160];
        if (!capped(level, &cpu))
            continue;
        snprintf(what, sizeof what, "%s %s x %s, [%lld, %lld] x %lld, %s",
                 transposed ? "transposed" : "plain", mica_dtype_name(x_type),
                 mica_dtype_name(b_type), (long long)s->m, (long long)s->k, (long long)s->n,
                 level_texts[level]);
        out.data = level ? again : first;
        mica__call call = {
            .attrs = &attrs, .cpu = &cpu, .n_in = 2, .n_out = 1, .in = in, .out = &out};
        assert_ok(run_kernel_in_order(kernel_of(transposed), &call, level % 2 ? 1 : -1));
        if (level == 0)
            check_product(&in[0], &in[1], &out, transposed, what);
        else if (memcmp(first, again, out_bytes))
            fail_msg("%s: other bits than scalar", what);
    }
    free(in[0].data);
    free(b_block);
    free(first);
    free(again);
}

static const mica_dtype float_types[] = {MICA_F32, MICA_F16, MICA_BF16};

static void every_pair_of_float_types_gives_the_promoted_type(void **state)
{
    (void)state;
    const shapes s = {.m = 7, .n = 19, .k = 83};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            for (int form = 0; form < 2; form++)
                product_case(&s, form, float_types[a], float_types[b]);
}

static void shapes_around_tiles_and_blocks_are_right(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 16, 16},    {2, 17, 1024}, {3, 5, 1025},
                                       {5, 33, 2049},  {6, 64, 256},   {7, 65, 257},  {13, 15, 31},
                                       {16, 130, 100}, {17, 80, 1500}, {33, 31, 48},  {1, 200, 700},
                                       {4, 3, 5000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = 0; form < 2; form++) {
            const shapes s = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2]};
            product_case(&s, form, MICA_F32, float_types[i % 3]);
            product_case(&s, form, float_types[(i + 1) % 3], MICA_F16);
        }
}

static void leading_axes_broadcast(void **state)
{
    (void)state;
    const shapes cases[] = {
        {2, 2, 2, {2, 3}, {2, 3}, {2, 3}, 4, 9, 20}, {2, 2, 2, {2, 1}, {1, 3}, {2, 3}, 4, 9, 20},
        {1, 2, 2, {3}, {2, 1}, {2, 3}, 5, 3, 17},    {2, 0, 2, {2, 3}, {0}, {2, 3}, 4, 18, 33},
        {0, 1, 1, {0}, {4}, {4}, 3, 7, 40},          {3, 1, 3, {2, 1, 2}, {1}, {2, 1, 2}, 9, 6, 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int form = 0; form < 2; form++)
            for (int type = 0; type < 3; type++)
                product_case(&cases[i], form, float_types[type], float_types[(type + i) % 3]);
}

static void empty_axes_give_nothing_or_zeros(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        const shapes no_k = {.m = 3, .n = 20, .k = 0}, no_m = {.m = 0, .n = 4, .k = 5};
        const shapes no_n = {.m = 3, .n = 0, .k = 5};
        product_case(&no_k, form, MICA_F32, MICA_F32);
        product_case(&no_k, form, MICA_F16, MICA_F16);
        product_case(&no_m, form, MICA_F32, MICA_F32);
        product_case(&no_n, form, MICA_BF16, MICA_F32);
    }
}

static void rows_of_a_larger_matrix_are_used_in_place(void **state)
{
    (void)state;
    float *x = filled(6 * 50 * 4), *b = filled(20 * 70 * 4), *y = filled(3 * 10 * 4);
    draw_floats(x, MICA_F32, 6 * 50, 1);
    draw_floats(b, MICA_F32, 20 * 70, 2);
    /* Every other row and 40 columns from 5 on; rows of b from the last back. */
    mica__operand in[2], out = plain_operand(y, MICA_F32, 2, (int64_t[]){3, 10});
    in[0] = plain_operand(x + 5, MICA_F32, 2, (int64_t[]){3, 40});
    in[0].strides[0] = 100;
    in[1] = plain_operand(b + 19 * 70, MICA_F32, 2, (int64_t[]){10, 40});
    in[1].strides[0] = -70;
    const mica__matmul_attrs attrs = {1};
    mica__call call = {.attrs = &attrs, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    assert_ok(run_kernel_in_order(&mica__kernel_matmul_transposed, &call, 1));
    check_product(&in[0], &in[1], &out, true, "views");
    in[1].strides[1] = 2; /* columns apart: declined, a copy has to be made */
    assert_status(run_kernel_in_order(&mica__kernel_matmul_transposed, &call, 1),
                  MICA_E_UNSUPPORTED);
    free(x);
    free(b);
    free(y);
}

static void each_form_takes_only_its_own(void **state)
{
    (void)state;
    float x[4] = {1, 2, 3, 4}, y[4];
    mica__operand in[2] = {plain_operand(x, MICA_F32, 2, (int64_t[]){2, 2}),
                           plain_operand(x, MICA_F32, 2, (int64_t[]){2, 2})};
    mica__operand out = plain_operand(y, MICA_F32, 2, (int64_t[]){2, 2});
    mica__matmul_attrs attrs = {1};
    mica__call call = {.attrs = &attrs, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    assert_status(run_kernel_in_order(&mica__kernel_matmul_plain, &call, 1), MICA_E_UNSUPPORTED);
    assert_ok(run_kernel_in_order(&mica__kernel_matmul_transposed, &call, 1));
    assert_true(y[0] == 5 && y[1] == 11 && y[2] == 11 && y[3] == 25);
    attrs.transposed_b = 0;
    assert_status(run_kernel_in_order(&mica__kernel_matmul_transposed, &call, 1),
                  MICA_E_UNSUPPORTED);
    assert_ok(run_kernel_in_order(&mica__kernel_matmul_plain, &call, 1));
    assert_true(y[0] == 7 && y[1] == 10 && y[2] == 15 && y[3] == 22);
}

/* The order by hand: 2^24 + 1 is a tie in f32. */
static void the_order_of_additions_is_the_written_one(void **state)
{
    (void)state;
    float x[32], w[32], y;
    for (int i = 0; i < 32; i++) {
        x[i] = 1;
        w[i] = 0;
    }
    w[0] = 0x1p24f; /* lane 0 */
    w[16] = 1;      /* lane 0 again: fma gives 2^24, even */
    w[1] = 1;       /* lane 1 */
    w[9] = 1;       /* lane 9: added to lane 1 first, so 2 reach lane 0 together */
    mica__operand in[2] = {plain_operand(x, MICA_F32, 2, (int64_t[]){1, 32}),
                           plain_operand(w, MICA_F32, 2, (int64_t[]){1, 32})};
    mica__operand out = plain_operand(&y, MICA_F32, 2, (int64_t[]){1, 1});
    mica__matmul_attrs attrs = {1};
    for (int level = 0; level < N_LEVELS; level++) {
        mica__cpu cpu;
        if (!capped(level, &cpu))
            continue;
        mica__call call = {
            .attrs = &attrs, .cpu = &cpu, .n_in = 2, .n_out = 1, .in = in, .out = &out};
        assert_ok(run_kernel_in_order(&mica__kernel_matmul_transposed, &call, 1));
        assert_true(y == 0x1p24f + 2);
    }
    /* Sequential: each 1 is lost against 2^24. */
    in[1] = plain_operand(w, MICA_F32, 2, (int64_t[]){32, 1});
    attrs.transposed_b = 0;
    for (int level = 0; level < N_LEVELS; level++) {
        mica__cpu cpu;
        if (!capped(level, &cpu))
            continue;
        mica__call call = {
            .attrs = &attrs, .cpu = &cpu, .n_in = 2, .n_out = 1, .in = in, .out = &out};
        assert_ok(run_kernel_in_order(&mica__kernel_matmul_plain, &call, 1));
        assert_true(y == 0x1p24f);
    }
}

/* Complex values by hand: (1 + 2i)(3 - i) + (0 + i)(2 + 2i) = (5 + 5i) + (-2 + 2i). */
static void complex_and_double_products_are_right(void **state)
{
    (void)state;
    float x[4] = {1, 2, 0, 1}, b[4] = {3, -1, 2, 2}, y[2];
    for (int form = 0; form < 2; form++) {
        mica__operand in[2] = {
            plain_operand(x, MICA_C64, 2, (int64_t[]){1, 2}),
            plain_operand(b, MICA_C64, 2, form ? (int64_t[]){1, 2} : (int64_t[]){2, 1})};
        mica__operand out = plain_operand(y, MICA_C64, 2, (int64_t[]){1, 1});
        const mica__matmul_attrs attrs = {form};
        mica__call call = {.attrs = &attrs, .n_in = 2, .n_out = 1, .in = in, .out = &out};
        assert_ok(run_kernel_in_order(&mica__kernel_matmul_wide, &call, 1));
        assert_true(y[0] == 3 && y[1] == 7);
    }
    /* f64 with a broadcast batch and a transposed view; 2^52 + 3 needs more than f32. */
    double u[4] = {0x1p52, 1, 1, 2}, v[4] = {1, 3, 1, 5}, z[8];
    mica__operand in[2] = {plain_operand(u, MICA_F64, 3, (int64_t[]){1, 2, 2}),
                           plain_operand(v, MICA_F64, 3, (int64_t[]){2, 2, 2})};
    in[1].strides[0] = 0;
    in[1].strides[1] = 1;
    in[1].strides[2] = 2; /* the transpose: [[1, 1], [3, 5]] */
    mica__operand out = plain_operand(z, MICA_F64, 3, (int64_t[]){2, 2, 2});
    const mica__matmul_attrs attrs = {0};
    mica__call call = {.attrs = &attrs, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    assert_ok(run_kernel_in_order(&mica__kernel_matmul_wide, &call, -1));
    for (int batch = 0; batch < 2; batch++) {
        const double *got = z + 4 * batch;
        assert_true(got[0] == 0x1p52 + 3 && got[1] == 0x1p52 + 5 && got[2] == 7 && got[3] == 11);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_float_types_gives_the_promoted_type),
        cmocka_unit_test(shapes_around_tiles_and_blocks_are_right),
        cmocka_unit_test(leading_axes_broadcast),
        cmocka_unit_test(empty_axes_give_nothing_or_zeros),
        cmocka_unit_test(rows_of_a_larger_matrix_are_used_in_place),
        cmocka_unit_test(each_form_takes_only_its_own),
        cmocka_unit_test(the_order_of_additions_is_the_written_one),
        cmocka_unit_test(complex_and_double_products_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
