/* pass_memory_test.c - random graphs with views: planned, fused and reusing memory in place they
 * give the bits that their operations give one by one, with and without donated leaves.
 *
 * Both graphs are built by the same draws, which look at shapes only. A product is never given a
 * transpose as its right side: that form is part of a graph's meaning, and an evaluated operand
 * does not show it.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

enum { LEAVES = 5, NODES = 40, SEEDS = 200 };

typedef enum leaves { LEAVES_KEPT, LEAVES_DONATED } leaves;

typedef struct graph {
    mica_ctx *mc;
    uint64_t state;
    bool eager;
    int n;
    mica_array *node[LEAVES + NODES];
    bool turned[LEAVES + NODES]; /* a transpose */
} graph;

static unsigned draw_below(graph *g, unsigned n)
{
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(g->state >> 33) % n;
}

static mica_shape draw_shape(graph *g)
{
    static const int64_t dims[] = {1, 2, 3, 6, 40, 50};
    mica_shape shape = {.ndim = 1 + (int)draw_below(g, 3)};
    for (int i = 0; i < shape.ndim; i++)
        shape.dims[i] = dims[draw_below(g, 6)];
    return shape;
}

/* Larger than a kernel's tile, some of them. */
static mica_array *draw_leaf(graph *g)
{
    static float data[50 * 50 * 50];
    const mica_shape shape = draw_shape(g);
    mica_array *leaf;
    for (int i = 0; i < 50 * 50 * 50; i++)
        data[i] = (float)((int)draw_below(g, 2001) - 1000) / 256;
    leaf = mica_from_data(g->mc, data, shape, MICA_F32);
    return mica_array_size(leaf) <= 3000
               ? leaf
               : mica_from_data(g->mc, data, MICA_SHAPE(50, 50), MICA_F32);
}

static bool broadcasts(const mica_array *a, const mica_array *b)
{
    for (int i = 1; i <= mica_array_ndim(a) && i <= mica_array_ndim(b); i++) {
        const int64_t x = mica_array_dim(a, -i), y = mica_array_dim(b, -i);
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

static mica_array *draw_binary(graph *g, mica_array *a, mica_array *b)
{
    if (!broadcasts(a, b))
        b = a;
    switch (draw_below(g, 5)) {
    case 0:
        return mica_subtract(a, b);
    case 1:
        return mica_multiply(a, mica_sigmoid(b));
    case 2:
        return mica_maximum(a, b);
    default:
        return mica_add(b, a);
    }
}

static mica_array *draw_slice(graph *g, mica_array *a)
{
    int64_t start[MICA_MAX_DIMS], stop[MICA_MAX_DIMS], step[MICA_MAX_DIMS];
    for (int i = 0; i < mica_array_ndim(a); i++) {
        const int64_t n = mica_array_dim(a, i), keep = (n + 1) / 2;
        const unsigned kind = draw_below(g, 4);
        start[i] = kind == 0 ? INT64_MAX : kind == 1 ? n - keep : 0;
        stop[i] = kind == 0 ? INT64_MIN : kind == 3 ? keep : INT64_MAX;
        step[i] = kind == 0 ? -1 - (int64_t)draw_below(g, 2) : kind == 2 ? 2 : 1;
    }
    return mica_slice(a, mica_array_ndim(a), start, stop, step);
}

static mica_array *draw_reshape(graph *g, mica_array *a)
{
    const int64_t size = mica_array_size(a), parts[] = {1, 2, 3, 6, 50};
    const int64_t part = parts[draw_below(g, 5)];
    if (size % part)
        return mica_reshape(a, MICA_SHAPE(-1));
    return draw_below(g, 2) ? mica_reshape(a, MICA_SHAPE(part, size / part))
                            : mica_reshape(a, MICA_SHAPE(size / part, part));
}

static mica_array *draw_broadcast(graph *g, mica_array *a)
{
    if (mica_array_ndim(a) > 2 || mica_array_size(a) > 1500)
        return mica_exp(mica_negative(mica_abs(a)));
    mica_shape shape = mica_array_shape(a);
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dims[i] == 1)
            shape.dims[i] = 1 + draw_below(g, 4);
    memmove(shape.dims + 1, shape.dims, (size_t)shape.ndim++ * sizeof *shape.dims);
    shape.dims[0] = 1 + draw_below(g, 3);
    return mica_broadcast_to(a, shape);
}

static mica_array *draw_joint(graph *g, mica_array *a, mica_array *b)
{
    const int axis = (int)draw_below(g, (unsigned)mica_array_ndim(a));
    bool fits =
        mica_array_ndim(a) == mica_array_ndim(b) && mica_array_size(a) + mica_array_size(b) < 6000;
    for (int i = 0; i < mica_array_ndim(a) && fits; i++)
        fits = i == axis || mica_array_dim(a, i) == mica_array_dim(b, i);
    return mica_concatenate(2, (mica_array *[]){a, fits ? b : a}, axis);
}

static mica_array *draw_product(graph *g, mica_array *a, mica_array *b, bool b_turned)
{
    (void)g;
    if (mica_array_ndim(a) == 2 && mica_array_ndim(b) == 2 && !b_turned &&
        mica_array_dim(a, 1) == mica_array_dim(b, 0))
        return mica_softmax(mica_matmul(a, b), -1);
    return mica_softmax(a, 0);
}

static mica_array *draw_node(graph *g, bool *turned)
{
    const unsigned i = draw_below(g, (unsigned)g->n), j = draw_below(g, (unsigned)g->n);
    mica_array *a = g->node[i], *b = g->node[j];
    if (mica_array_size(a) > 6000)
        return mica_sum(a, 1, true);
    switch (draw_below(g, 14)) {
    case 0:
        *turned = true;
        return mica_transpose(a, 0, NULL);
    case 1:
        return draw_slice(g, a);
    case 2:
        return draw_reshape(g, a);
    case 3:
        return draw_broadcast(g, a);
    case 4:
        return mica_sum(a, 1u << draw_below(g, (unsigned)mica_array_ndim(a)), true);
    case 5:
        return mica_max(a, 1u << draw_below(g, (unsigned)mica_array_ndim(a)), true);
    case 6:
        return draw_joint(g, a, b);
    case 7:
        return draw_product(g, a, b, g->turned[j]);
    case 8:
        return mica_contiguous(a);
    case 9:
        return mica_tanh(a);
    default:
        return draw_binary(g, a, b);
    }
}

static void build(graph *g, mica_ctx *mc, uint64_t seed, bool eager)
{
    *g = (graph){.mc = mc, .state = seed, .eager = eager};
    while (g->n < LEAVES)
        g->node[g->n++] = draw_leaf(g);
    while (g->n < LEAVES + NODES) {
        mica_array *node = draw_node(g, &g->turned[g->n]);
        if (!node)
            fail_msg("seed %llu, node %d: %s", (unsigned long long)seed, g->n, mica_error(mc));
        if (eager)
            assert_ok(mica_eval(mc, 1, &node));
        g->node[g->n++] = node;
    }
}

/* The last node and up to five others, some asked for twice. */
static int draw_outputs(graph *g, int outputs[6])
{
    outputs[0] = g->n - 1;
    const int n = 1 + (int)draw_below(g, 6);
    for (int i = 1; i < n; i++)
        outputs[i] = LEAVES + (int)draw_below(g, NODES);
    return n;
}

static void run_seed(mica_ctx *mc, uint64_t seed, leaves kind)
{
    graph single, whole;
    int at[6];
    mica_array *outputs[6];
    mica_scope *scope = mica_scope_push(mc);
    build(&single, mc, seed, true);
    build(&whole, mc, seed, false);
    const int n = draw_outputs(&whole, at);
    for (int i = 0; i < n; i++)
        outputs[i] = whole.node[at[i]];
    for (int i = 0; i < LEAVES && kind == LEAVES_DONATED; i++)
        assert_ok(mica_donate(whole.node[i]));
    if (mica_eval(mc, n, outputs) != MICA_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, mica_error(mc));
    for (int i = 0; i < n; i++) {
        mica_array *want = single.node[at[i]];
        assert_int_equal(mica_array_bytes(outputs[i]), mica_array_bytes(want));
        if (memcmp(mica_data(outputs[i]), mica_data(want), (size_t)mica_array_bytes(want)))
            fail_msg("seed %llu: node %d differs", (unsigned long long)seed, at[i]);
    }
    for (int i = 0; i < LEAVES && kind == LEAVES_KEPT; i++) /* a leaf is never written */
        assert_memory_equal(mica_data(whole.node[i]), mica_data(single.node[i]),
                            (size_t)mica_array_bytes(single.node[i]));
    mica_scope_pop(scope);
}

static void run_all(leaves kind)
{
    const mica_options options = {.threads = 2, .program_cache_bytes = 1 << 20};
    mica_ctx *mc = mica_open(&options);
    assert_non_null(mc);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(mc, seed * 7919, kind);
    mica_close(mc);
}

static void random_graphs_have_the_bits_of_their_operations_one_by_one(void **state)
{
    (void)state;
    run_all(LEAVES_KEPT);
}

static void random_graphs_over_donated_leaves_too(void **state)
{
    (void)state;
    run_all(LEAVES_DONATED);
}

/* An input that covers only a part of its storage must not be written over. */
static void a_broadcast_part_of_a_dying_value_is_not_overwritten(void **state)
{
    (void)state;
    enum { N = 3000 };
    static float data[2 * N];
    mica_ctx *mc = mica_open(NULL);
    assert_non_null(mc);
    for (int i = 0; i < 2 * N; i++)
        data[i] = (float)i;
    mica_array *x = mica_from_data(mc, data, MICA_SHAPE(N, 2), MICA_F32);
    mica_array *y = mica_from_data(mc, (const float[]){5, 1}, MICA_SHAPE(2, 1), MICA_F32);
    mica_array *whole = mica_contiguous(mica_transpose(x, 0, NULL)); /* a step of its own */
    mica_array *row = mica_slice(whole, 2, (const int64_t[]){0, 0}, (const int64_t[]){1, N}, NULL);
    mica_array *both =
        mica_add(row, y); /* as many bytes as `whole`, whose first half is read twice */
    mica_array *end = mica_max(both, 1u << 1, false);
    mica_array *sum = mica_sum(both, 1u << 1, false);
    assert_ok(mica_eval_all(mc, end, sum));
    assert_float_equal(((const float *)mica_data(end))[0], 2 * N + 3, 0);
    assert_float_equal(((const float *)mica_data(end))[1], 2 * N - 1, 0);
    assert_float_equal(((const float *)mica_data(sum))[0], (double)N * (N + 4), 2);
    assert_float_equal(((const float *)mica_data(sum))[1], (double)N * N, 2);
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_have_the_bits_of_their_operations_one_by_one),
        cmocka_unit_test(random_graphs_over_donated_leaves_too),
        cmocka_unit_test(a_broadcast_part_of_a_dying_value_is_not_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
