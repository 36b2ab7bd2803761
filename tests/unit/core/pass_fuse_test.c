/* pass_fuse_test.c - fused elementwise groups: fewer steps, the same bits.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* A random graph of elementwise ops over a few inputs of random float types and broadcastable
 * shapes. */
static int random_graph(mica_ctx *mc, uint64_t seed, mica_array **nodes)
{
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16};
    float data[12 * 33];
    for (int i = 0; i < 12 * 33; i++)
        data[i] = (float)((int)(next_random(&seed) % 2001) - 1000) / 256;
    const mica_shape shapes[] = {MICA_SHAPE(12, 33), MICA_SHAPE(33), MICA_SHAPE(12, 1),
                                 MICA_SCALAR};
    int n = 0;
    for (int i = 0; i < 4; i++) {
        mica_array *leaf = mica_from_data(mc, data, shapes[i], MICA_F32);
        nodes[n] = mica_astype(leaf, dtypes[next_random(&seed) % 3]);
        mica_eval_all(mc, nodes[n]);
        n++;
    }
    while (n < 30) {
        mica_array *a = nodes[next_random(&seed) % (unsigned)n],
                   *b = nodes[next_random(&seed) % (unsigned)n];
        switch (next_random(&seed) % 7) {
        case 0:
            nodes[n++] = mica_add(a, b);
            break;
        case 1:
            nodes[n++] = mica_multiply(a, b);
            break;
        case 2:
            nodes[n++] = mica_subtract(mica_abs(a), b);
            break;
        case 3:
            nodes[n++] = mica_sigmoid(a);
            break;
        case 4:
            nodes[n++] = mica_swiglu(a, b);
            break;
        case 5:
            nodes[n++] = mica_astype(a, dtypes[next_random(&seed) % 3]);
            break;
        default:
            nodes[n++] = mica_maximum(a, b);
        }
    }
    return n;
}

static void random_graphs_have_the_bits_of_their_ops_one_by_one(void **state)
{
    (void)state;
    const mica_options options = {.threads = 2};
    mica_ctx *mc = mica_open(&options);
    assert_non_null(mc);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mica_scope *scope = mica_scope_push(mc);
        mica_array *whole[32], *single[32];
        const int n = random_graph(mc, seed, whole);
        random_graph(mc, seed, single);
        assert_ok(mica_eval(mc, 2, whole + n - 2)); /* fused as far as it goes */
        for (int i = 0; i < n; i++)                 /* every value on its own */
            assert_ok(mica_eval(mc, 1, &single[i]));
        for (int i = n - 2; i < n; i++)
            if (memcmp(mica_data(whole[i]), mica_data(single[i]),
                       (size_t)mica_array_bytes(whole[i])))
                fail_msg("seed %llu: output %d differs", (unsigned long long)seed, i);
        mica_scope_pop(scope);
    }
    mica_close(mc);
}

static int steps_of(mica_ctx *mc, mica_array *in, int n_out, mica_array *const *out)
{
    mica_program *program = NULL;
    if (mica_compile(mc, 1, &in, n_out, out, &program))
        fail_msg("%s", mica_error(mc));
    const int steps = mica_program_describe(program).n_steps;
    mica_program_free(program);
    return steps;
}

static void chains_become_one_step_and_shared_values_stay(void **state)
{
    (void)state;
    mica_ctx *mc = mica_open(NULL);
    assert_non_null(mc);
    mica_array *x = mica_input(mc, MICA_SHAPE(8, 8), MICA_F32);
    mica_array *y = mica_add(x, x);
    mica_array *z = mica_exp(mica_multiply(y, mica_abs(y)));
    assert_int_equal(steps_of(mc, x, 1, &z), 1);
    mica_array *both[] = {y, z}; /* y is wanted itself: it has a step, z fuses the rest */
    assert_int_equal(steps_of(mc, x, 2, both), 2);
    mica_array *row = mica_sum(z, 2, true); /* a reduction ends a group, its consumer starts one */
    mica_array *w = mica_square(mica_subtract(mica_exp(x), row));
    assert_int_equal(steps_of(mc, x, 1, &w), 3);
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_have_the_bits_of_their_ops_one_by_one),
        cmocka_unit_test(chains_become_one_step_and_shared_values_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
