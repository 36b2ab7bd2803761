/* pass_order_test.c - the order of execution: smaller plans where there are some, never larger
 * ones, and the same bits.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include "base/alloc.h"
#include "core/program.h"
#include "ops/fast.h"

enum { SIDE = 32, DEPTH = 24, MATRIX_BYTES = SIDE * SIDE * 4 };

static mica_ctx *open_one(void)
{
    const mica_options options = {.threads = 2};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    return mc;
}

static uint32_t draw_below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static mica_array *draw_leaf(mica_ctx *mc, mica_shape shape, uint64_t seed)
{
    static float data[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        data[i] = (float)((int)draw_below(&seed, 2001) - 1000) / 2048;
    return mica_from_data(mc, data, shape, MICA_F32);
}

/* What the graph takes in its own order and in the pass's. */
typedef struct plans {
    int64_t own, ordered;
    int32_t own_phases, ordered_phases;
} plans;

static int64_t planned(mica_ctx *mc, int n, mica_array *const *outputs, bool ordered,
                       int32_t *phases)
{
    mica__ir ir;
    assert_ok(mica__ir_collect(mc, 0, NULL, n, outputs, &ir));
    assert_ok(mica__pass_cse(&ir));
    assert_ok(mica__pass_views(&ir));
    assert_ok(mica__pass_fuse(&ir));
    assert_ok(mica__pass_kernels(&ir));
    if (ordered)
        assert_ok(mica__pass_order(&ir));
    assert_ok(mica__pass_phases(&ir));
    assert_ok(mica__pass_memory(&ir));
    const int64_t bytes = ir.arena_bytes;
    *phases = ir.n_phases;
    mica__ir_free(&ir);
    return bytes;
}

static plans plan(mica_ctx *mc, int n, mica_array *const *outputs)
{
    plans p;
    p.own = planned(mc, n, outputs, false, &p.own_phases);
    p.ordered = planned(mc, n, outputs, true, &p.ordered_phases);
    return p;
}

/* A1 (A2 (A3 ...)), each a product itself: written so, all As are computed before the first
 * product of two of them. */
static mica_array *nested_products(mica_ctx *mc)
{
    mica_array *column[DEPTH], *x = NULL;
    for (int i = 0; i < DEPTH; i++)
        column[i] = draw_leaf(mc, MICA_SHAPE(SIDE, 1), (uint64_t)i + 1);
    mica_array *row = draw_leaf(mc, MICA_SHAPE(1, SIDE), 99);
    for (int i = DEPTH - 1; i >= 0; i--) {
        mica_array *a = mica_matmul(column[i], row);
        x = x ? mica_matmul(a, x) : a;
    }
    return mica_sum(x, MICA_ALL_AXES, false);
}

static void inner_products_come_before_what_waits_for_them(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *y = nested_products(mc);
    const plans p = plan(mc, 1, &y);
    assert_true(p.own >= DEPTH * MATRIX_BYTES);
    /* Two factors, their product, and the next factor, which shares the product's phase. */
    assert_true(p.ordered <= 4 * MATRIX_BYTES + 1024);
    mica_program *program = NULL;
    assert_ok(mica_compile(mc, 0, NULL, 1, &y, &program));
    assert_int_equal(mica_program_describe(program).arena_bytes, p.ordered);
    mica_program_free(program);
    mica_close(mc);
}

/* Products whose left side is done first as written need nothing else. */
static void an_order_that_is_good_stays(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = draw_leaf(mc, MICA_SHAPE(SIDE, SIDE), 1);
    for (int i = 0; i < DEPTH; i++)
        x = mica_matmul(x, mica_softmax(draw_leaf(mc, MICA_SHAPE(SIDE, SIDE), 2), 1));
    const plans p = plan(mc, 1, &x);
    assert_int_equal(p.own, p.ordered);
    assert_int_equal(p.own_phases, p.ordered_phases);
    mica_close(mc);
}

static mica_array *draw_node(mica_ctx *mc, uint64_t *state, mica_array *const *nodes, int n)
{
    mica_array *a = nodes[draw_below(state, (uint32_t)n)];
    mica_array *b = nodes[draw_below(state, (uint32_t)n)];
    const int64_t from[2] = {0, 0}, to[2] = {SIDE / 2, SIDE};
    mica_array *halves[2];
    switch (draw_below(state, 6)) {
    case 0:
        return mica_softmax(a, 1);
    case 1:
        return mica_broadcast_to(mica_sum(a, 1, true), MICA_SHAPE(SIDE, SIDE));
    case 2:
        return mica_exp(mica_negative(mica_abs(a)));
    case 3:
        halves[0] = mica_slice(a, 2, from, to, NULL);
        halves[1] = mica_slice(b, 2, from, to, NULL);
        return mica_concatenate(2, halves, 0);
    case 4:
        return mica_matmul(a, draw_leaf(mc, MICA_SHAPE(SIDE, SIDE), *state));
    default:
        return mica_multiply(a, b);
    }
}

static void random_graphs_never_plan_larger(void **state)
{
    (void)state;
    enum { NODES = 40, SEEDS = 300 };
    mica_ctx *mc = open_one();
    int smaller = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mica_scope *scope = mica_scope_push(mc);
        uint64_t drawn = seed;
        mica_array *nodes[NODES] = {draw_leaf(mc, MICA_SHAPE(SIDE, SIDE), seed)};
        for (int i = 1; i < NODES; i++) {
            nodes[i] = draw_node(mc, &drawn, nodes, i);
            assert_non_null(nodes[i]);
        }
        mica_array *outputs[4];
        for (int i = 0; i < 4; i++)
            outputs[i] = nodes[NODES - 1 - (int)draw_below(&drawn, NODES / 2)];
        const plans p = plan(mc, 4, outputs);
        if (p.ordered > p.own)
            fail_msg("seed %d: %d bytes instead of %d", (int)seed, (int)p.ordered, (int)p.own);
        smaller += p.ordered < p.own;
        mica_scope_pop(scope);
    }
    assert_true(smaller > 0);
    mica_close(mc);
}

/* --- updates in place ------------------------------------------------------------------------- */

enum { TOKENS = 4, HEADS = 2, HEAD_DIM = 16 };

static mica_array *token_list(mica_ctx *mc, bool counting)
{
    return counting ? mica_arange(mc, 0, TOKENS, 1, MICA_I32)
                    : mica_zeros(mc, MICA_SHAPE(TOKENS), MICA_I32);
}

static mica__attention_attrs step_attrs(void)
{
    mica__attention_attrs attrs = {
        .kv = {.kv_dtype = MICA__KV_F32,
               .kv_heads = HEADS,
               .head_dim = HEAD_DIM,
               .value_dim = HEAD_DIM},
        .scale = 0.25f,
    };
    attrs.kv.block_bytes = mica__kv_layer_bytes(MICA__KV_F32, HEADS, HEAD_DIM, HEAD_DIM);
    return attrs;
}

/* [what the pool gives before an update | products of what it gives afterwards]: the right part
 * needs more memory and waits for the left one all the same. */
static mica_array *read_update_read(mica_ctx *mc, bool eager)
{
    const mica__kv_step step = {token_list(mc, true), token_list(mc, false),
                                mica_zeros(mc, MICA_SHAPE(1, 1), MICA_I32)};
    const mica__attention_attrs attrs = step_attrs();
    mica_array *pool = mica_zeros(mc, MICA_SHAPE(attrs.kv.block_bytes), MICA_U8);
    mica_array *x = draw_leaf(mc, MICA_SHAPE(TOKENS, HEADS, HEAD_DIM), 5);
    assert_ok(mica_eval_all(mc, pool));
    mica_array *first = mica__attention(x, pool, &step, &attrs);
    if (eager)
        assert_ok(mica_eval(mc, 1, &first));
    mica_array *updated = mica__kv_write(pool, x, x, &step, &attrs.kv);
    mica_array *second = mica_reshape(mica__attention(x, updated, &step, &attrs),
                                      MICA_SHAPE(TOKENS, HEADS * HEAD_DIM));
    if (eager)
        assert_ok(mica_eval(mc, 1, &second));
    mica_array *wide = mica_matmul(mica_transpose(second, 0, NULL), second);
    second = mica_matmul(second, mica_softmax(wide, 1));
    mica_array *parts[2] = {mica_reshape(first, MICA_SHAPE(TOKENS, HEADS * HEAD_DIM)), second};
    return mica_concatenate(2, parts, 1);
}

static void readers_stay_on_their_side_of_an_update(void **state)
{
    (void)state;
    enum { VALUES = 2 * TOKENS * HEADS * HEAD_DIM };
    float want[VALUES];
    mica_ctx *mc = open_one();
    mica_array *y = read_update_read(mc, true);
    assert_ok(mica_eval(mc, 1, &y));
    memcpy(want, mica_data(y), sizeof want);
    mica_array *z = read_update_read(mc, false);
    assert_ok(mica_eval(mc, 1, &z));
    assert_memory_equal(mica_data(z), want, sizeof want);
    const float zero[HEADS * HEAD_DIM] = {0};
    assert_memory_equal(want, zero, sizeof zero); /* before the update: zeros */
    assert_true(want[HEADS * HEAD_DIM] != 0);
    mica_close(mc);
}

/* --- a decoder -------------------------------------------------------------------------------- */

enum { WIDTH = HEADS * HEAD_DIM, HIDDEN = 24, STEP_TOKENS = 8, LAYERS = 3 };

typedef struct decoder {
    mica_ctx *mc;
    mica__kv_step step;
    mica__attention_attrs attrs;
    mica_array *table, *pool, *x;
    uint64_t drawn;
} decoder;

static mica_array *draw_weight(decoder *d, int64_t n, int64_t k)
{
    return mica_transpose(draw_leaf(d->mc, MICA_SHAPE(n, k), d->drawn++), 0, NULL);
}

static mica_array *turned(decoder *d, mica_array *heads)
{
    return mica__rope(mica_reshape(heads, MICA_SHAPE(STEP_TOKENS, HEADS, HEAD_DIM)), d->table,
                      false);
}

static void add_layer(decoder *d)
{
    const mica_shape heads = MICA_SHAPE(STEP_TOKENS, HEADS, HEAD_DIM);
    mica_array *norm = mica_ones(d->mc, MICA_SHAPE(WIDTH), MICA_F32);
    mica_array *h = mica_rms_norm(d->x, norm, 1e-5f);
    mica_array *q = mica_matmul(h, draw_weight(d, WIDTH, WIDTH));
    mica_array *k = mica_matmul(h, draw_weight(d, WIDTH, WIDTH));
    mica_array *v = mica_matmul(h, draw_weight(d, WIDTH, WIDTH));
    d->pool = mica__kv_write(d->pool, turned(d, k), mica_reshape(v, heads), &d->step, &d->attrs.kv);
    mica_array *mixed = mica__attention(turned(d, q), d->pool, &d->step, &d->attrs);
    mixed = mica_reshape(mixed, MICA_SHAPE(STEP_TOKENS, WIDTH));
    d->x = mica_add(d->x, mica_matmul(mixed, draw_weight(d, WIDTH, WIDTH)));
    h = mica_rms_norm(d->x, norm, 1e-5f);
    mica_array *gate = mica_matmul(h, draw_weight(d, HIDDEN, WIDTH));
    mica_array *up = mica_matmul(h, draw_weight(d, HIDDEN, WIDTH));
    d->x = mica_add(d->x, mica_matmul(mica_swiglu(gate, up), draw_weight(d, WIDTH, HIDDEN)));
}

static void a_decoder_step_plans_no_larger_and_in_no_more_phases(void **state)
{
    (void)state;
    const float freqs[HEAD_DIM / 2] = {1, 0.5f, 0.25f, 0.125f};
    mica_ctx *mc = open_one();
    decoder d = {.mc = mc, .drawn = 1, .attrs = step_attrs()};
    d.step.positions = mica_arange(mc, 0, STEP_TOKENS, 1, MICA_I32);
    d.step.sequence_of = mica_zeros(mc, MICA_SHAPE(STEP_TOKENS), MICA_I32);
    d.step.block_table = mica_zeros(mc, MICA_SHAPE(1, 1), MICA_I32);
    d.table = mica__rope_table(d.step.positions,
                               mica_from_data(mc, freqs, MICA_SHAPE(HEAD_DIM / 2), MICA_F32), 1);
    d.pool = mica_zeros(mc, MICA_SHAPE(d.attrs.kv.block_bytes), MICA_U8);
    assert_ok(mica_eval_all(mc, d.pool));
    d.x = draw_leaf(mc, MICA_SHAPE(STEP_TOKENS, WIDTH), 77);
    for (int i = 0; i < LAYERS; i++)
        add_layer(&d);
    mica_array *outputs[2] = {d.x, d.pool};
    const plans p = plan(mc, 2, outputs);
    assert_true(p.ordered <= p.own);
    assert_true(p.ordered_phases <= p.own_phases);
    mica_close(mc);
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *y = nested_products(mc);
    mica_memory_usage before, after;
    mica_memory_read(&before);
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        mica_program *program = NULL;
        mica__fault_after(n, false);
        const mica_status status = mica_compile(mc, 0, NULL, 1, &y, &program);
        done = status == MICA_OK && mica__fault_hits() < n;
        mica__fault_after(0, false);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
        mica_clear_error(mc);
        mica_program_free(program);
    }
    mica_memory_read(&after);
    assert_int_equal(after.by_kind[MICA_MEMORY_GRAPH], before.by_kind[MICA_MEMORY_GRAPH]);
    assert_int_equal(after.by_kind[MICA_MEMORY_PROGRAMS], before.by_kind[MICA_MEMORY_PROGRAMS]);
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inner_products_come_before_what_waits_for_them),
        cmocka_unit_test(an_order_that_is_good_stays),
        cmocka_unit_test(random_graphs_never_plan_larger),
        cmocka_unit_test(readers_stay_on_their_side_of_an_update),
        cmocka_unit_test(a_decoder_step_plans_no_larger_and_in_no_more_phases),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
