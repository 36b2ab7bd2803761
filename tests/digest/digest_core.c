/* digest_core.c - operations of the array library, and numbers as text.
 * SPDX-License-Identifier: MIT
 */
#include "digest/digest_test.h"

#include <math.h>
#include <stdlib.h>

#include <mica/mica.h>

#include "base/number.h"
#include "support/check.h"
#include "support/weights.h"

#define N 4093 /* elements: several vectors and a rest at every level */

typedef mica_array *(*unary)(mica_array *a);
typedef mica_array *(*binary)(mica_array *a, mica_array *b);
typedef mica_array *(*reduction)(mica_array *a, uint32_t axes, bool keepdims);

static mica_array *drawn(mica_ctx *mc, mica_dtype dtype, mica_shape shape, uint64_t seed)
{
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++)
        n *= shape.dims[i];
    void *data = drawn_elements(dtype, n, seed);
    mica_array *array = mica_from_data(mc, data, shape, dtype);
    free(data);
    return array;
}

/* Numbers of moderate size, so that long sums are numbers. */
static mica_array *drawn_normal(mica_ctx *mc, mica_dtype dtype, mica_shape shape, uint64_t seed)
{
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++)
        n *= shape.dims[i];
    float *data = malloc((size_t)n * sizeof *data + 1);
    assert_non_null(data);
    draw_activations(data, n, seed);
    mica_array *array = mica_astype(mica_from_data(mc, data, shape, MICA_F32), dtype);
    free(data);
    return array;
}

/* Evaluates an array and takes it into the book. */
#define ADD(book, mc, array, ...)                                                                  \
    do {                                                                                           \
        mica_array *add_this = (array);                                                            \
        if (!add_this || mica_eval_all((mc), add_this) != MICA_OK)                                 \
            fail_msg("%s", mica_error(mc));                                                        \
        digest_add((book), mica_data(add_this), mica_array_dtype(add_this),                        \
                   mica_array_size(add_this), __VA_ARGS__);                                        \
    } while (0)

/* --- elementwise ------------------------------------------------------------------------------ */

/* exact: parts of a double or a complex number come from correctly rounded steps, not from the C
 * library's functions. */
static const struct {
    const char *name;
    unary op;
    bool exact;
} unaries[] = {
    {"abs", mica_abs, true},       {"negative", mica_negative, true},
    {"square", mica_square, true}, {"sqrt", mica_sqrt, true},
    {"rsqrt", mica_rsqrt, true},   {"reciprocal", mica_reciprocal, true},
    {"exp", mica_exp, false},      {"log", mica_log, false},
    {"sin", mica_sin, false},      {"cos", mica_cos, false},
    {"tanh", mica_tanh, false},    {"sigmoid", mica_sigmoid, false},
    {"erf", mica_erf, false},      {"silu", mica_silu, false},
    {"gelu", mica_gelu, false},    {"gelu_tanh", mica_gelu_tanh, false},
};

static void add_unaries(digest_book *book, mica_ctx *mc)
{
    for (int d = 0; d < MICA_N_DTYPES; d++)
        for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++) {
            const bool negative = unaries[i].op == mica_negative, keeps = i < 3;
            if ((d == MICA_F64 && !unaries[i].exact) || (d == MICA_BOOL && negative) ||
                (d == MICA_C64 && !negative && unaries[i].op != mica_square))
                continue;
            mica_scope *scope = mica_scope_push(mc);
            mica_array *x = drawn(mc, (mica_dtype)d, MICA_SHAPE(keeps ? 100 : N), 1 + (uint64_t)d);
            ADD(book, mc, unaries[i].op(x), "%s/%s", unaries[i].name, mica_dtype_name(d));
            mica_scope_pop(scope);
        }
}

static const struct {
    const char *name;
    binary op;
    bool exact, complex;
} binaries[] = {
    {"add", mica_add, true, true},           {"subtract", mica_subtract, true, true},
    {"multiply", mica_multiply, true, true}, {"divide", mica_divide, true, false},
    {"maximum", mica_maximum, true, true},   {"minimum", mica_minimum, true, true},
    {"swiglu", mica_swiglu, false, false},   {"geglu", mica_geglu, false, false},
};

static void add_binaries(digest_book *book, mica_ctx *mc)
{
    for (int d = 0; d < MICA_N_DTYPES; d++)
        for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
            if ((d == MICA_F64 && !binaries[i].exact) || (d == MICA_C64 && !binaries[i].complex) ||
                (d == MICA_BOOL && binaries[i].op == mica_subtract))
                continue;
            mica_scope *scope = mica_scope_push(mc);
            mica_array *a = drawn(mc, (mica_dtype)d, MICA_SHAPE(N), 30 + (uint64_t)d);
            mica_array *b = drawn(mc, (mica_dtype)d, MICA_SHAPE(N), 51 + (uint64_t)d);
            ADD(book, mc, binaries[i].op(a, b), "%s/%s", binaries[i].name, mica_dtype_name(d));
            mica_scope_pop(scope);
        }
}

/* Every pair of dtypes, the second one broadcast along a strided first. */
static void add_promotions(digest_book *book, mica_ctx *mc)
{
    for (int d = 0; d < MICA_N_DTYPES; d++)
        for (int e = 0; e < MICA_N_DTYPES; e++) {
            mica_scope *scope = mica_scope_push(mc);
            mica_array *a = drawn(mc, (mica_dtype)d, MICA_SHAPE(5, 3, 17), 90 + (uint64_t)d);
            mica_array *b = drawn(mc, (mica_dtype)e, MICA_SHAPE(3, 1), 120 + (uint64_t)e);
            ADD(book, mc, mica_add(mica_swapaxes(a, 0, 2), b), "add/%s/%s", mica_dtype_name(d),
                mica_dtype_name(e));
            ADD(book, mc, mica_astype(a, (mica_dtype)e), "astype/%s/%s", mica_dtype_name(d),
                mica_dtype_name(e));
            mica_scope_pop(scope);
        }
}

static void add_chains(digest_book *book, mica_ctx *mc)
{
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16};
    for (int d = 0; d < 3; d++) {
        mica_scope *scope = mica_scope_push(mc);
        mica_array *x = drawn(mc, dtypes[d], MICA_SHAPE(7, 1, N / 7), 200);
        mica_array *y = drawn(mc, MICA_F32, MICA_SHAPE(5, 1), 201);
        mica_array *chain = mica_multiply(mica_add(mica_exp(mica_negative(x)), x), mica_sigmoid(y));
        ADD(book, mc, mica_tanh(mica_astype(chain, dtypes[d])), "chain/%s",
            mica_dtype_name(dtypes[d]));
        mica_scope_pop(scope);
    }
}

/* --- shapes ----------------------------------------------------------------------------------- */

static void add_shapes(digest_book *book, mica_ctx *mc)
{
    static const int64_t start[] = {-1, 1, 0}, stop[] = {-100, 40, 1000}, step[] = {-2, 3, 1};
    const int32_t picks[] = {6, -1, 0, 3, 3, -7};
    mica_scope *scope = mica_scope_push(mc);
    for (int d = 0; d < MICA_N_DTYPES; d++) {
        mica_array *x = drawn(mc, (mica_dtype)d, MICA_SHAPE(7, 11, 13), 300 + (uint64_t)d);
        mica_array *view = mica_slice(x, 3, start, stop, step);
        const char *name = mica_dtype_name(d);
        ADD(book, mc, mica_contiguous(mica_transpose(view, 0, NULL)), "copy/%s", name);
        mica_array *parts[] = {x, mica_swapaxes(mica_swapaxes(x, 0, 2), 0, 2), view};
        ADD(book, mc, mica_concatenate(2, parts, 1), "concatenate/%s", name);
        mica_array *indices = mica_from_data(mc, picks, MICA_SHAPE(2, 3), MICA_I32);
        ADD(book, mc, mica_take(x, indices, 0), "take/%s", name);
        ADD(book, mc, mica_full(mc, MICA_SHAPE(3), d == MICA_BOOL ? 1 : 100.37, (mica_dtype)d),
            "full/%s", name);
        if (d != MICA_BOOL && d != MICA_C64) {
            ADD(book, mc, mica_arange(mc, 1, 90, 3, (mica_dtype)d), "arange/%s/whole", name);
            ADD(book, mc, mica_arange(mc, 0.1, 9, 0.3, (mica_dtype)d), "arange/%s/broken", name);
        }
    }
    mica_scope_pop(scope);
}

/* --- reductions ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    reduction op;
} reductions[] = {{"sum", mica_sum}, {"mean", mica_mean}, {"max", mica_max}, {"min", mica_min}};

static void add_reductions(digest_book *book, mica_ctx *mc)
{
    static const struct {
        const char *name;
        uint32_t axes;
    } sets[] = {{"last", 4}, {"first", 1}, {"outer", 5}, {"all", MICA_ALL_AXES}};
    for (int d = 0; d < MICA_N_DTYPES; d++)
        for (int r = 0; r < 4; r++)
            for (int s = 0; s < 4; s++) {
                mica_scope *scope = mica_scope_push(mc);
                const char *name = mica_dtype_name(d);
                mica_array *x = drawn(mc, (mica_dtype)d, MICA_SHAPE(3, 5, 149), 400 + (uint64_t)d);
                mica_array *y = drawn_normal(mc, (mica_dtype)d, MICA_SHAPE(3, 2, 1043), 430);
                ADD(book, mc, reductions[r].op(x, sets[s].axes, false), "%s/%s/%s/corners",
                    reductions[r].name, name, sets[s].name);
                ADD(book, mc, reductions[r].op(y, sets[s].axes, true), "%s/%s/%s/long",
                    reductions[r].name, name, sets[s].name);
                mica_scope_pop(scope);
            }
}

static void add_rows(digest_book *book, mica_ctx *mc)
{
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16};
    static const int64_t sizes[] = {1, 15, 64, 1025, 2100};
    for (int d = 0; d < 3; d++)
        for (int s = 0; s < 5; s++) {
            mica_scope *scope = mica_scope_push(mc);
            const char *name = mica_dtype_name(dtypes[d]);
            const int64_t n = sizes[s];
            mica_array *x = drawn_normal(mc, dtypes[d], MICA_SHAPE(5, n), 500);
            mica_array *w = drawn_normal(mc, dtypes[d], MICA_SHAPE(n), 501);
            mica_array *odd = drawn(mc, dtypes[d], MICA_SHAPE(9, n), 502);
            mica_array *none = mica_full(mc, MICA_SHAPE(2, n), -(double)INFINITY, dtypes[d]);
            ADD(book, mc, mica_softmax(x, -1), "softmax/%s/%d", name, (int)n);
            ADD(book, mc, mica_softmax(odd, -1), "softmax/%s/%d/corners", name, (int)n);
            ADD(book, mc, mica_softmax(odd, 0), "softmax/%s/%d/first", name, (int)n);
            ADD(book, mc, mica_softmax(none, 1), "softmax/%s/%d/none", name, (int)n);
            ADD(book, mc, mica_rms_norm(x, w, 1e-5f), "rms_norm/%s/%d", name, (int)n);
            ADD(book, mc, mica_rms_norm(odd, w, 1e-6f), "rms_norm/%s/%d/corners", name, (int)n);
            mica_scope_pop(scope);
        }
}

/* --- products --------------------------------------------------------------------------------- */

static void add_product(digest_book *book, mica_ctx *mc, mica_dtype d, mica_dtype e, int64_t m,
                        int64_t k, int64_t n)
{
    mica_scope *scope = mica_scope_push(mc);
    const char *a_name = mica_dtype_name(d), *b_name = mica_dtype_name(e);
    mica_array *x = drawn_normal(mc, d, MICA_SHAPE(m, k), 600);
    mica_array *b = drawn_normal(mc, e, MICA_SHAPE(k, n), 601);
    mica_array *w = drawn_normal(mc, e, MICA_SHAPE(n, k), 602);
    ADD(book, mc, mica_matmul(x, b), "matmul/%s/%s/%dx%dx%d", a_name, b_name, (int)m, (int)k,
        (int)n);
    ADD(book, mc, mica_matmul(x, mica_swapaxes(w, 0, 1)), "matmul_t/%s/%s/%dx%dx%d", a_name, b_name,
        (int)m, (int)k, (int)n);
    mica_scope_pop(scope);
}

static void add_products(digest_book *book, mica_ctx *mc)
{
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16, MICA_F64, MICA_C64};
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 1029, 19}, {3, 17, 33}, {7, 100, 70}};
    for (int d = 0; d < 5; d++)
        for (int e = 0; e < 5; e++)
            for (int s = 0; s < 4; s++)
                if (d == e || s == 2)
                    add_product(book, mc, dtypes[d], dtypes[e], sizes[s][0], sizes[s][1],
                                sizes[s][2]);
    for (int d = 0; d < 3; d++) {
        mica_scope *scope = mica_scope_push(mc);
        mica_array *x = drawn(mc, dtypes[d], MICA_SHAPE(2, 3, 5, 29), 610);
        mica_array *b = drawn(mc, dtypes[d], MICA_SHAPE(3, 29, 21), 611);
        mica_array *w = drawn(mc, dtypes[d], MICA_SHAPE(3, 21, 29), 612);
        ADD(book, mc, mica_matmul(x, b), "matmul/%s/corners", mica_dtype_name(dtypes[d]));
        ADD(book, mc, mica_matmul(x, mica_swapaxes(w, 1, 2)), "matmul_t/%s/corners",
            mica_dtype_name(dtypes[d]));
        mica_scope_pop(scope);
    }
}

/* --- numbers as text -------------------------------------------------------------------------- */

static void add_numbers(digest_book *book)
{
    const int64_t n = 3000;
    double *values = drawn_elements(MICA_F64, n, 700), *read = malloc((size_t)n * sizeof *read);
    char *text = calloc((size_t)n, 2 * MICA__F64_TEXT_BYTES);
    assert_true(read && text);
    for (int64_t i = 0; i < n; i++) {
        char *at = text + i * 2 * MICA__F64_TEXT_BYTES;
        const int length = mica__format_f64(at, values[i]);
        mica__format_f32(at + MICA__F64_TEXT_BYTES, (float)values[i]);
        read[i] = 0;
        /* One digit less than it takes: another number, read with rounding. */
        if (length > 4)
            mica__parse_f64(at, (size_t)length - 1, &read[i]);
    }
    digest_add(book, text, MICA_U8, n * 2 * MICA__F64_TEXT_BYTES, "number/format");
    digest_add(book, read, MICA_F64, n, "number/parse");
    free(values);
    free(read);
    free(text);
}

void digest_core(digest_book *book, const mica__cpu *cpu, const char *isa)
{
    const mica_options options = {.isa = isa, .threads = 2};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("%s", mica_last_error());
    assert_string_equal(mica_isa(mc), mica__cpu_level_name(cpu->level));
    add_unaries(book, mc);
    add_binaries(book, mc);
    add_promotions(book, mc);
    add_chains(book, mc);
    add_shapes(book, mc);
    add_reductions(book, mc);
    add_rows(book, mc);
    add_products(book, mc);
    add_numbers(book);
    mica_close(mc);
}
