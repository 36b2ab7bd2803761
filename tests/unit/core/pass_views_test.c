/* pass_views_test.c - reshape, transpose, slice and broadcast read through strides: the elements by
 * hand, and how many steps they cost. Phases: what is independent shares them.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

static mica_ctx *open_one(void)
{
    const mica_options options = {.threads = 2};
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        fail_msg("mica_open: %s", mica_last_error());
    return mc;
}

static mica_program_facts facts_of(mica_ctx *mc, mica_array *in, int n_out, mica_array *const *out)
{
    mica_program *program = NULL;
    if (mica_compile(mc, 1, &in, n_out, out, &program) != MICA_OK)
        fail_msg("%s", mica_error(mc));
    const mica_program_facts facts = mica_program_describe(program);
    mica_program_free(program);
    return facts;
}

/* 0 1 2 ... as f32 of this shape, evaluated. */
static mica_array *counted(mica_ctx *mc, mica_shape shape)
{
    float data[256];
    for (int i = 0; i < 256; i++)
        data[i] = (float)i;
    return mica_from_data(mc, data, shape, MICA_F32);
}

static void expect(mica_ctx *mc, mica_array *got, const float *want, int n)
{
    /* Once as a result of its own, once read by an operation. */
    mica_array *read = mica_subtract(got, mica_scalar(mc, 0, MICA_F32));
    assert_ok(mica_eval_all(mc, got, read));
    assert_int_equal(mica_array_size(got), n);
    assert_memory_equal(mica_data(got), want, (size_t)n * sizeof *want);
    assert_memory_equal(mica_data(read), want, (size_t)n * sizeof *want);
}

static void a_reshape_of_a_transpose_reads_in_row_major_order(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = counted(mc, MICA_SHAPE(2, 3));
    expect(mc, mica_reshape(mica_transpose(x, 0, NULL), MICA_SHAPE(6)),
           (const float[]){0, 3, 1, 4, 2, 5}, 6);
    const int axes[] = {1, 0, 2};
    mica_array *y = mica_transpose(counted(mc, MICA_SHAPE(2, 2, 2)), 3, axes);
    expect(mc, mica_reshape(y, MICA_SHAPE(4, 2)), (const float[]){0, 1, 4, 5, 2, 3, 6, 7}, 8);
    expect(mc, mica_reshape(y, MICA_SHAPE(2, 4)), (const float[]){0, 1, 4, 5, 2, 3, 6, 7}, 8);
    mica_close(mc);
}

static void a_reshape_costs_a_copy_only_where_strides_cannot_say_it(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = mica_input(mc, MICA_SHAPE(4, 6), MICA_F32);
    mica_array *split = mica_sum(mica_reshape(x, MICA_SHAPE(2, 2, 3, 2)), 5, false);
    assert_int_equal(facts_of(mc, x, 1, &split).n_steps, 1);
    mica_array *turned = mica_transpose(x, 0, NULL);
    mica_array *apart = mica_sum(mica_reshape(turned, MICA_SHAPE(3, 2, 4, 1)), 5, false);
    assert_int_equal(facts_of(mc, x, 1, &apart).n_steps, 1);
    mica_array *merged = mica_sum(mica_reshape(turned, MICA_SHAPE(24)), 1, false);
    assert_int_equal(facts_of(mc, x, 1, &merged).n_steps, 2);
    mica_close(mc);
}

static void negative_steps_walk_backwards(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = counted(mc, MICA_SHAPE(3, 4));
    const int64_t from[] = {INT64_MAX, INT64_MAX}, to[] = {INT64_MIN, INT64_MIN};
    mica_array *back = mica_slice(x, 2, from, to, (const int64_t[]){-1, -1});
    expect(mc, back, (const float[]){11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 12);
    mica_array *again = mica_slice(back, 2, from, to, (const int64_t[]){-2, -3});
    expect(mc, again, (const float[]){0, 3, 8, 11}, 4);
    expect(mc, mica_reshape(again, MICA_SHAPE(4)), (const float[]){0, 3, 8, 11}, 4);
    mica_close(mc);
}

static void slices_clamp_as_python_does(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = counted(mc, MICA_SHAPE(5));
    static const struct {
        int64_t start, stop, step;
        int n;
        float want[5];
    } cases[] = {
        {0, 5, 1, 5, {0, 1, 2, 3, 4}},
        {-2, 5, 1, 2, {3, 4}},
        {1, -1, 1, 3, {1, 2, 3}},
        {-100, 100, 2, 3, {0, 2, 4}},
        {4, 1, 1, 0, {0}},
        {7, 9, 1, 0, {0}},
        {4, 0, -1, 4, {4, 3, 2, 1}},
        {4, -6, -1, 5, {4, 3, 2, 1, 0}},
        {3, -100, -2, 2, {3, 1}},
        {0, -6, -1, 1, {0}},
        {-100, -200, -1, 0, {0}},
        {0, 5, INT64_MAX, 1, {0}},
        {4, -6, -INT64_MAX, 1, {4}},
        {2, 3, -1, 0, {0}},
        {INT64_MAX, INT64_MIN, -4, 2, {4, 0}},
        {INT64_MIN, INT64_MAX, 4, 2, {0, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_array *part = mica_slice(x, 1, &cases[i].start, &cases[i].stop, &cases[i].step);
        if (!part)
            fail_msg("case %zu: %s", i, mica_error(mc));
        expect(mc, part, cases[i].want, cases[i].n);
    }
    const int64_t zero = 0, least = INT64_MIN;
    assert_null(mica_slice(x, 1, &zero, &zero, &zero));
    mica_clear_error(mc);
    assert_null(mica_slice(x, 1, &zero, &zero, &least));
    mica_clear_error(mc);
    assert_null(mica_slice(x, 2, &zero, &zero, NULL));
    mica_close(mc);
}

static void broadcasts_read_one_element_many_times(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *row = counted(mc, MICA_SHAPE(3));
    mica_array *wide = mica_broadcast_to(mica_reshape(row, MICA_SHAPE(3, 1)), MICA_SHAPE(2, 3, 2));
    expect(mc, wide, (const float[]){0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}, 12);
    expect(mc, mica_reshape(wide, MICA_SHAPE(4, 3)),
           (const float[]){0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}, 12);
    expect(mc, mica_sum(wide, 1u << 1, false), (const float[]){3, 3, 3, 3}, 4);
    mica_array *x = mica_input(mc, MICA_SHAPE(3), MICA_F32);
    mica_array *sum = mica_sum(mica_broadcast_to(x, MICA_SHAPE(1 << 20, 3)), 1, false);
    assert_true(facts_of(mc, x, 1, &sum).peak_bytes < 1 << 20); /* 12 MiB are never made */
    mica_close(mc);
}

static void empty_views_are_empty(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *none = counted(mc, MICA_SHAPE(0, 3));
    expect(mc, mica_transpose(none, 0, NULL), NULL, 0);
    expect(mc, mica_reshape(none, MICA_SHAPE(3, 0, 7)), NULL, 0);
    expect(mc, mica_broadcast_to(none, MICA_SHAPE(2, 0, 3)), NULL, 0);
    assert_float_equal(mica_item_f64(mica_sum(none, MICA_ALL_AXES, false)), 0, 0);
    mica_close(mc);
}

static void every_output_has_a_buffer_of_its_own(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = counted(mc, MICA_SHAPE(2, 2));
    mica_array *y = mica_negative(x), *turned = mica_transpose(y, 0, NULL);
    mica_array *flat = mica_reshape(y, MICA_SHAPE(4)), *same = mica_reshape(x, MICA_SHAPE(2, 2));
    assert_ok(mica_eval_all(mc, turned, y, flat, same));
    assert_memory_equal(mica_data(turned), ((const float[]){-0.0f, -2, -1, -3}), 16);
    assert_memory_equal(mica_data(flat), ((const float[]){-0.0f, -1, -2, -3}), 16);
    assert_memory_equal(mica_data(same), ((const float[]){0, 1, 2, 3}), 16);
    const void *data[] = {mica_data(x), mica_data(y), mica_data(turned), mica_data(flat),
                          mica_data(same)};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(data[i], data[j]);
    mica_close(mc);
}

static void independent_steps_share_a_phase(void **state)
{
    (void)state;
    mica_ctx *mc = open_one();
    mica_array *x = mica_input(mc, MICA_SHAPE(4, 4), MICA_F32);
    mica_array *apart[6];
    for (int i = 0; i < 6; i++) /* softmax is one step of one stage */
        apart[i] = mica_softmax(mica_slice(x, 2, (const int64_t[]){0, 0},
                                           (const int64_t[]){1 + i % 4, 4 - i / 4}, NULL),
                                -1);
    mica_program_facts facts = facts_of(mc, x, 6, apart);
    assert_int_equal(facts.n_steps, 6);
    assert_int_equal(facts.n_phases, 1);
    mica_array *chain = x;
    for (int i = 0; i < 6; i++)
        chain = mica_softmax(chain, -1);
    facts = facts_of(mc, x, 1, &chain);
    assert_int_equal(facts.n_steps, 6);
    assert_int_equal(facts.n_phases, 6);
    mica_array *joined = mica_concatenate(
        6, (mica_array *[]){apart[0], apart[0], apart[0], apart[0], apart[0], apart[0]},
        0); /* one softmax, then the joint */
    facts = facts_of(mc, x, 1, &joined);
    assert_int_equal(facts.n_steps, 2);
    assert_int_equal(facts.n_phases, 2);
    mica_close(mc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reshape_of_a_transpose_reads_in_row_major_order),
        cmocka_unit_test(a_reshape_costs_a_copy_only_where_strides_cannot_say_it),
        cmocka_unit_test(negative_steps_walk_backwards),
        cmocka_unit_test(slices_clamp_as_python_does),
        cmocka_unit_test(broadcasts_read_one_element_many_times),
        cmocka_unit_test(empty_views_are_empty),
        cmocka_unit_test(every_output_has_a_buffer_of_its_own),
        cmocka_unit_test(independent_steps_share_a_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
