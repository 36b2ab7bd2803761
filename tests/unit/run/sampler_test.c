/* sampler_test.c - random bits, exponentials, penalties, filters and draws.
 *
 * Expected values: the published test vectors of Philox4x32-10, the C library's long double
 * functions, hand calculation, and a naive reference in this file for whole distributions.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "run/philox.h"
#include "run/sample_math.h"
#include "run/sampler.h"
#include "run/sampler_filters.h"
#include "run/sampler_penalties.h"

/* --- numbers ---------------------------------------------------------------------------------- */

static void philox_gives_the_published_vectors(void **state)
{
    (void)state;
    /* kat_vectors of the paper's Random123 distribution, philox4x32 with 10 rounds. */
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        mica__philox_bits counter;
        memcpy(counter.word, known[i].counter, sizeof counter.word);
        const mica__philox_bits out =
            mica__philox((uint64_t)known[i].key[1] << 32 | known[i].key[0], counter);
        assert_memory_equal(out.word, known[i].out, sizeof out.word);
    }
    assert_true(mica__philox_unit(0, 0) == 0);
    assert_true(mica__philox_unit(0xffffffff, 0xffffffff) == 1 - 0x1p-53);
}

static double ulps(double value, long double exact)
{
    const double nearest = (double)exact;
    const double unit = nextafter(fabs(nearest), INFINITY) - fabs(nearest);
    return fabs((double)((long double)value - exact)) / unit;
}

static void exp_and_log_are_within_two_ulps(void **state)
{
    (void)state;
    double worst_exp = 0, worst_log = 0;
    for (int i = -708000; i <= 708000; i += 7) {
        const double x = i * 1e-3 + (i % 13) * 1e-7;
        if (x > -708 && x < 709)
            worst_exp = fmax(worst_exp, ulps(mica__sample_exp(x), expl((long double)x)));
    }
    for (double x = 1e-300; x < 1e300; x *= 1.0137)
        worst_log = fmax(worst_log, ulps(mica__sample_log(x), logl((long double)x)));
    if (worst_exp > 2 || worst_log > 2)
        fail_msg("exp is off by %f ulp, log by %f", worst_exp, worst_log);
    assert_true(mica__sample_exp(0) == 1 && mica__sample_log(1) == 0);
    assert_true(mica__sample_exp(-800) == 0 && mica__sample_exp(-INFINITY) == 0);
    assert_true(isinf(mica__sample_exp(800)) && isnan(mica__sample_exp(NAN)));
    assert_true(fabs(mica__sample_log(1 + 0x1p-40) - 0x1p-40) < 0x1p-52);
}

/* --- penalties -------------------------------------------------------------------------------- */

typedef struct fixture {
    mica__sampler sampler;
    mica_sampling sampling;
    mica__sampler_input input;
    float logits[16];
} fixture;

static void begin(fixture *f, int64_t n_vocab)
{
    memset(f, 0, sizeof *f);
    assert_ok(mica__sampler_open(&f->sampler, n_vocab));
    assert_ok(mica__sampler_reserve_history(&f->sampler, 256));
    f->input = (mica__sampler_input){.logits = f->logits, .sampling = &f->sampling};
}

static void set_history(fixture *f, const int32_t *tokens, int64_t n, int64_t n_prompt)
{
    f->input.tokens = tokens;
    f->input.n_tokens = n;
    f->input.n_prompt = n_prompt;
}

static void assert_changed(const fixture *f, const float *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (f->sampler.logits[i] != expected[i])
            fail_msg("logit %lld is %.9g, not %.9g", (long long)i, (double)f->sampler.logits[i],
                     (double)expected[i]);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(f->sampler.counts[i], 0);
}

static void repetition_divides_positive_and_multiplies_negative_logits_once(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 6);
    const int32_t history[] = {0, 1, 1, 1, 2};
    const float start[] = {4, 4, -4, 4, -4, 0};
    const float expected[] = {2, 2, -8, 4, -4, 0};
    memcpy(f.sampler.logits, start, sizeof start);
    f.sampling.repetition_penalty = 2;
    set_history(&f, history, 5, 3);
    mica__apply_repetition(&f.sampler, &f.input);
    assert_changed(&f, expected, 6);
    const float last_two[] = {4, 2, -8, 4, -4, 0};
    memcpy(f.sampler.logits, start, sizeof start);
    f.sampling.repetition_window = 2;
    mica__apply_repetition(&f.sampler, &f.input);
    assert_changed(&f, last_two, 6);
    mica__sampler_close(&f.sampler);
}

static void repetition_looks_at_64_tokens_by_default(void **state)
{
    (void)state;
    fixture f;
    int32_t history[65] = {1};
    begin(&f, 3);
    const float expected[] = {4, 8, 8};
    f.sampler.logits[0] = f.sampler.logits[1] = f.sampler.logits[2] = 8;
    f.sampling.repetition_penalty = 2;
    set_history(&f, history, 65, 65); /* the 1 is the 65th from the end */
    mica__apply_repetition(&f.sampler, &f.input);
    assert_changed(&f, expected, 3);
    mica__sampler_close(&f.sampler);
}

static void presence_and_frequency_look_at_the_output_only(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 4);
    const int32_t history[] = {0, 0, 1, 2, 1, 1};
    const float expected[] = {5, 5 - 0.5f - 3 * 0.25f, 5 - 0.5f - 0.25f, 5};
    for (int i = 0; i < 4; i++)
        f.sampler.logits[i] = 5;
    f.sampling.presence_penalty = 0.5f;
    f.sampling.frequency_penalty = 0.25f;
    set_history(&f, history, 6, 2);
    mica__apply_presence(&f.sampler, &f.input);
    assert_changed(&f, expected, 4);
    mica__sampler_close(&f.sampler);
}

static void dry_penalises_what_would_go_on_with_a_repetition(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 8);
    /* "1 2 3" is repeated, 5 would go on; "3" alone came before 6 as well, too short. */
    const int32_t history[] = {1, 2, 3, 5, 3, 6, 1, 2, 3};
    float expected[8] = {0};
    f.sampling.dry_multiplier = 0.5f;
    f.sampling.dry_base = 2;
    set_history(&f, history, 9, 9);
    mica__apply_dry(&f.sampler, &f.input);
    assert_true(fabsf(f.sampler.logits[5] + 0.5f * 2) < 1e-6f); /* length 3, allowed 2 */
    f.sampler.logits[5] = 0;
    assert_changed(&f, expected, 8);

    f.sampling.dry_allowed_length = 1; /* now "3" counts for 6 */
    mica__apply_dry(&f.sampler, &f.input);
    assert_true(fabsf(f.sampler.logits[5] + 0.5f * 4) < 1e-6f);
    assert_true(fabsf(f.sampler.logits[6] + 0.5f) < 1e-6f);
    f.sampler.logits[5] = f.sampler.logits[6] = 0;
    assert_changed(&f, expected, 8);

    const int32_t breaker[] = {2}; /* repetitions reach back to "3" only */
    f.sampling.dry_breakers = breaker;
    f.sampling.n_dry_breakers = 1;
    mica__apply_dry(&f.sampler, &f.input);
    assert_true(fabsf(f.sampler.logits[5] + 0.5f) < 1e-6f);
    assert_true(fabsf(f.sampler.logits[6] + 0.5f) < 1e-6f);
    f.sampler.logits[5] = f.sampler.logits[6] = 0;
    f.sampling.dry_allowed_length = 2;
    mica__apply_dry(&f.sampler, &f.input);
    assert_changed(&f, expected, 8);
    mica__sampler_close(&f.sampler);
}

/* The longest suffix of text that also ends before each occurrence of `next`, the slow way. */
static int64_t slow_run(const int32_t *text, int64_t n, int32_t next)
{
    int64_t longest = 0;
    for (int64_t at = 1; at < n; at++) {
        int64_t run = 0;
        while (text[at] == next && run < at && text[at - 1 - run] == text[n - 1 - run])
            run++;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void dry_finds_the_longest_repetition_for_every_token(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 3);
    f.sampling.dry_multiplier = 1;
    f.sampling.dry_base = 1.25f;
    f.sampling.dry_allowed_length = 1;
    uint32_t random = 12345;
    for (int round = 0; round < 300; round++) {
        int32_t text[200];
        const int64_t n = 1 + round % 60;
        for (int64_t i = 0; i < n; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = (int32_t)(random >> 16) % 3;
        }
        memset(f.sampler.logits, 0, 3 * sizeof(float));
        set_history(&f, text, n, n);
        mica__apply_dry(&f.sampler, &f.input);
        for (int32_t next = 0; next < 3; next++) {
            const int64_t run = slow_run(text, n, next);
            const double expected = run >= 1 ? -pow(1.25, (double)run - 1) : 0;
            assert_true(fabs((double)f.sampler.logits[next] - expected) <
                        1e-6 * (1 + fabs(expected)));
        }
    }
    mica__sampler_close(&f.sampler);
}

/* --- filters ---------------------------------------------------------------------------------- */

/* Candidates with given probabilities, in a scrambled order. */
static int64_t make_list(mica__candidate *list, const double *probabilities, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t token = (i * 7 + 3) % n;
        list[i] =
            (mica__candidate){.logit = (float)log(probabilities[token]), .token = (int32_t)token};
    }
    return n;
}

/* The set of tokens as bits. */
static unsigned tokens_of(const mica__candidate *list, int64_t n)
{
    unsigned bits = 0;
    for (int64_t i = 0; i < n; i++)
        bits |= 1u << list[i].token;
    return bits;
}

static const double five[] = {0.05, 0.4, 0.1, 0.3, 0.15}; /* in order: 1, 3, 4, 2, 0 */

static void top_k_keeps_the_k_largest_ties_by_token(void **state)
{
    (void)state;
    mica__candidate list[5];
    static const unsigned expected[] = {
        0, 1u << 1, 1u << 1 | 1u << 3, 1u << 1 | 1u << 3 | 1u << 4, 0x1f & ~1u, 0x1f};
    for (int64_t k = 1; k <= 5; k++) {
        const int64_t kept = mica__filter_top_k(list, make_list(list, five, 5), k);
        assert_int_equal(kept, k);
        assert_int_equal(tokens_of(list, kept), expected[k]);
    }
    static const double equal[] = {0.2, 0.2, 0.2, 0.2, 0.2};
    const int64_t kept = mica__filter_top_k(list, make_list(list, equal, 5), 2);
    assert_int_equal(tokens_of(list, kept), 1u << 0 | 1u << 1);
}

static void top_p_keeps_the_fewest_that_reach_p(void **state)
{
    (void)state;
    mica__candidate list[5];
    static const struct {
        double p;
        unsigned expected;
    } cases[] = {{0.01, 1u << 1},
                 {0.39, 1u << 1},
                 {0.41, 1u << 1 | 1u << 3},
                 {0.69, 1u << 1 | 1u << 3},
                 {0.71, 1u << 1 | 1u << 3 | 1u << 4},
                 {0.94, 0x1f & ~1u},
                 {0.96, 0x1f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t kept = mica__filter_top_p(list, make_list(list, five, 5), cases[i].p);
        assert_int_equal(tokens_of(list, kept), cases[i].expected);
    }
}

static void min_p_compares_with_the_largest(void **state)
{
    (void)state;
    mica__candidate list[5];
    assert_int_equal(tokens_of(list, mica__filter_min_p(list, make_list(list, five, 5), 0.26)),
                     1u << 1 | 1u << 3 | 1u << 4); /* at least 0.104 */
    assert_int_equal(tokens_of(list, mica__filter_min_p(list, make_list(list, five, 5), 0.24)),
                     0x1f & ~1u); /* at least 0.096 */
    assert_int_equal(tokens_of(list, mica__filter_min_p(list, make_list(list, five, 5), 1)),
                     1u << 1);
}

static void typical_prefers_information_near_the_entropy(void **state)
{
    (void)state;
    mica__candidate list[5];
    /* Entropy 1.3921; distances of -log p from it: token 1 0.476, 3 0.188, 4 0.505, 2 0.910,
     * 0 1.604. Sorted: 3 (0.3), 1 (0.7), 4 (0.85), 2 (0.95), 0. */
    static const struct {
        double p;
        unsigned expected;
    } cases[] = {{0.2, 1u << 3},
                 {0.31, 1u << 3 | 1u << 1},
                 {0.71, 1u << 3 | 1u << 1 | 1u << 4},
                 {0.86, 0x1f & ~1u}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t kept = mica__filter_typical(list, make_list(list, five, 5), cases[i].p);
        assert_int_equal(tokens_of(list, kept), cases[i].expected);
    }
}

static void xtc_removes_the_likely_but_the_least_of_them(void **state)
{
    (void)state;
    mica__candidate list[5];
    int64_t kept = mica__filter_xtc(list, make_list(list, five, 5), 0.14, NULL, 0);
    assert_int_equal(tokens_of(list, kept), 1u << 4 | 1u << 2 | 1u << 0); /* 1 and 3 went */
    kept = mica__filter_xtc(list, make_list(list, five, 5), 0.35, NULL, 0);
    assert_int_equal(tokens_of(list, kept), 0x1f); /* only one reaches it */
    kept = mica__filter_xtc(list, make_list(list, five, 5), 0.5, NULL, 0);
    assert_int_equal(tokens_of(list, kept), 0x1f);
    const int32_t spared[] = {1};
    kept = mica__filter_xtc(list, make_list(list, five, 5), 0.14, spared, 1);
    assert_int_equal(tokens_of(list, kept), 0x1f & ~(1u << 3));
}

/* --- draws ------------------------------------------------------------------------------------ */

static int32_t draw(fixture *f)
{
    mica__sample sample;
    assert_ok(mica__sampler_draw(&f->sampler, &f->input, &sample));
    return sample.token;
}

static void temperature_zero_takes_the_largest_and_the_lowest_of_equals(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 5);
    const float logits[] = {1, 7, -2, 7, 7};
    const mica_logit_bias bias[] = {{1, -INFINITY}, {4, 1}};
    memcpy(f.logits, logits, sizeof logits);
    assert_int_equal(draw(&f), 1);
    f.sampling.logit_bias = bias;
    f.sampling.n_logit_bias = 1;
    assert_int_equal(draw(&f), 3);
    f.sampling.n_logit_bias = 2;
    assert_int_equal(draw(&f), 4);
    const uint32_t allowed = 1u << 0 | 1u << 2;
    f.input.allowed = &allowed;
    assert_int_equal(draw(&f), 0);
    mica__sampler_close(&f.sampler);
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 5);
    int counts[5] = {0};
    const int n = 40000;
    for (int i = 0; i < 5; i++)
        f.logits[i] = (float)(2 * log(five[i])); /* halved by the temperature */
    f.sampling.temperature = 2;
    for (int i = 0; i < n; i++) {
        f.sampling.seed = (uint64_t)(i / 100);
        f.input.n_tokens = i % 100;
        set_history(&f, NULL, i % 100, i % 100);
        counts[draw(&f)]++;
    }
    for (int i = 0; i < 5; i++) {
        const double expected = n * five[i], deviation = sqrt(n * five[i] * (1 - five[i]));
        if (fabs(counts[i] - expected) > 5 * deviation)
            fail_msg("token %d was drawn %d times, not about %.0f", i, counts[i], expected);
    }
    mica__sampler_close(&f.sampler);
}

static void filters_act_before_temperature(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 5);
    unsigned seen = 0;
    for (int i = 0; i < 5; i++)
        f.logits[i] = (float)log(five[i]);
    f.sampling.temperature = 100; /* nearly flat: alone it would let all five through */
    f.sampling.top_p = 0.6f;
    for (int i = 0; i < 500; i++) {
        f.sampling.seed = (uint64_t)i;
        seen |= 1u << draw(&f);
    }
    assert_int_equal(seen, 1u << 1 | 1u << 3);
    f.sampling.temperature = 1e-6f;
    f.sampling.top_p = 0;
    for (int i = 0; i < 100; i++) {
        f.sampling.seed = (uint64_t)i;
        assert_int_equal(draw(&f), 1);
    }
    mica__sampler_close(&f.sampler);
}

static void draw_depends_on_seed_choice_and_position_only(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 16);
    int32_t first[64], history[64] = {0};
    f.sampling.temperature = 1;
    int differ_by_seed = 0, differ_by_choice = 0;
    for (int i = 0; i < 64; i++) {
        set_history(&f, history, i, 0);
        first[i] = draw(&f);
    }
    for (int i = 63; i >= 0; i--) {
        set_history(&f, history, i, 0);
        assert_int_equal(draw(&f), first[i]);
        f.input.choice = 1;
        differ_by_choice += draw(&f) != first[i];
        f.input.choice = 0;
        f.sampling.seed = 1;
        differ_by_seed += draw(&f) != first[i];
        f.sampling.seed = 0;
    }
    assert_true(differ_by_seed > 40 && differ_by_choice > 40);
    mica__sampler_close(&f.sampler);
}

static int by_logit(const void *a, const void *b)
{
    const mica__candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->token < y->token ? -1 : 1;
}

static void large_vocabulary_gives_the_sets_of_a_full_sort(void **state)
{
    (void)state;
    enum { N = 50000 };
    mica__candidate *list = malloc(N * sizeof *list), *sorted = malloc(N * sizeof *sorted);
    uint32_t random = 7;
    for (int round = 0; round < 6; round++) {
        long double sum = 0, reached = 0;
        for (int i = 0; i < N; i++) {
            random = random * 1664525u + 1013904223u;
            sorted[i] = (mica__candidate){
                .logit = (float)(random >> 8) * 0x1p-24f * (float)(4 + 8 * round), .token = i};
        }
        memcpy(list, sorted, N * sizeof *list);
        qsort(sorted, N, sizeof *sorted, by_logit);
        for (int i = 0; i < N; i++)
            sum += expl((long double)sorted[i].logit);
        int64_t expected = 0;
        while (reached < 0.9L * sum)
            reached += expl((long double)sorted[expected++].logit);
        const int64_t kept = mica__filter_top_p(list, N, 0.9);
        assert_true(kept >= expected - 1 && kept <= expected + 1); /* rounding at the edge */
        for (int64_t i = 0; i < kept; i++)
            assert_int_equal(list[i].token, sorted[i].token);
    }
    free(list);
    free(sorted);
}

static void logits_that_are_no_numbers_are_refused_by_token(void **state)
{
    (void)state;
    fixture f;
    mica__sample sample;
    begin(&f, 5);
    f.logits[2] = NAN;
    assert_status(mica__sampler_draw(&f.sampler, &f.input, &sample), MICA_E_ARGUMENT);
    assert_non_null(strstr(mica_last_error(), "token 2 is not a number"));
    f.logits[2] = INFINITY;
    assert_status(mica__sampler_draw(&f.sampler, &f.input, &sample), MICA_E_ARGUMENT);
    assert_non_null(strstr(mica_last_error(), "infinite"));
    for (int i = 0; i < 5; i++)
        f.logits[i] = -INFINITY;
    f.sampling.temperature = 1;
    assert_status(mica__sampler_draw(&f.sampler, &f.input, &sample), MICA_E_STATE);
    f.logits[3] = -1e30f;
    assert_int_equal(draw(&f), 3);
    mica__sampler_close(&f.sampler);
}

static void drawing_allocates_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 16);
    const int32_t history[] = {1, 2, 1, 2, 1};
    set_history(&f, history, 5, 2);
    f.sampling = (mica_sampling){.temperature = 0.8f,
                                 .top_k = 10,
                                 .typical_p = 0.9f,
                                 .top_p = 0.9f,
                                 .min_p = 0.01f,
                                 .xtc_probability = 0.5f,
                                 .xtc_threshold = 0.1f,
                                 .repetition_penalty = 1.1f,
                                 .presence_penalty = 0.1f,
                                 .dry_multiplier = 1};
    f.input.logprobs = true;
    f.input.n_top = 5;
    mica__fault_after(1, true);
    draw(&f);
    assert_int_equal(mica__fault_hits(), 0);
    mica__fault_after(0, false);
    mica__sampler_close(&f.sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(exp_and_log_are_within_two_ulps),
        cmocka_unit_test(repetition_divides_positive_and_multiplies_negative_logits_once),
        cmocka_unit_test(repetition_looks_at_64_tokens_by_default),
        cmocka_unit_test(presence_and_frequency_look_at_the_output_only),
        cmocka_unit_test(dry_penalises_what_would_go_on_with_a_repetition),
        cmocka_unit_test(dry_finds_the_longest_repetition_for_every_token),
        cmocka_unit_test(top_k_keeps_the_k_largest_ties_by_token),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_p),
        cmocka_unit_test(min_p_compares_with_the_largest),
        cmocka_unit_test(typical_prefers_information_near_the_entropy),
        cmocka_unit_test(xtc_removes_the_likely_but_the_least_of_them),
        cmocka_unit_test(temperature_zero_takes_the_largest_and_the_lowest_of_equals),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(filters_act_before_temperature),
        cmocka_unit_test(draw_depends_on_seed_choice_and_position_only),
        cmocka_unit_test(large_vocabulary_gives_the_sets_of_a_full_sort),
        cmocka_unit_test(logits_that_are_no_numbers_are_refused_by_token),
        cmocka_unit_test(drawing_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
