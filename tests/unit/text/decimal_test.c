/* decimal_test.c - decimals of a wanted precision. Expected texts are hand-worked from exact
 * values, or known constants.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "text/decimal.h"

static void fixed_rounds_exact_values_half_to_even(void **state)
{
    (void)state;
    static const struct {
        double value;
        int precision;
        const char *text;
    } cases[] = {
        {0, 0, "0"},
        {0, 3, "0.000"},
        {0.5, 0, "0"},
        {1.5, 0, "2"},
        {2.5, 0, "2"},
        {0.125, 2, "0.12"},
        {0.375, 2, "0.38"},
        {2.675, 2, "2.67"}, /* the double lies below */
        {1.005, 2, "1.00"},
        {9.995, 2, "9.99"},
        {9.9951, 2, "10.00"},
        {999.5, 0, "1000"},
        {0.1, 20, "0.10000000000000000555"},
        {0x1p-1074, 3, "0.000"},
        {0x1p70, 1, "1180591620717411303424.0"},
        {123456789, 0, "123456789"},
        {-2.5, 1, "2.5"},
    };
    char out[MICA__DECIMAL_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t n = mica__decimal_fixed(cases[i].value, cases[i].precision, false, out);
        assert_string_equal(out, cases[i].text);
        assert_int_equal(n, strlen(out));
    }
    mica__decimal_fixed(3, 0, true, out);
    assert_string_equal(out, "3.");
}

static void longest_results_fit(void **state)
{
    (void)state;
    char out[MICA__DECIMAL_BYTES];
    /* The largest double is 2^1024 - 2^971, a number of 309 digits. */
    assert_int_equal(
        mica__decimal_fixed(0x1.fffffffffffffp1023, MICA__DECIMAL_MAX_PRECISION, false, out),
        309 + 1 + MICA__DECIMAL_MAX_PRECISION);
    assert_memory_equal(out, "179769313486231570814527423731704356798070", 42);
    assert_memory_equal(out + 300, "124858368.000", 13);
    mica__decimal_scientific(0x1p-1074, 40, false, 'e', out);
    assert_string_equal(out, "4.9406564584124654417656879286822137236506e-324");
}

static void scientific_and_general_follow_printf(void **state)
{
    (void)state;
    char out[MICA__DECIMAL_BYTES];
    mica__decimal_scientific(12345.678, 2, false, 'e', out);
    assert_string_equal(out, "1.23e+04");
    mica__decimal_scientific(0, 2, false, 'E', out);
    assert_string_equal(out, "0.00E+00");
    mica__decimal_scientific(9.99, 1, false, 'e', out);
    assert_string_equal(out, "1.0e+01");
    mica__decimal_scientific(5, 0, true, 'e', out);
    assert_string_equal(out, "5.e+00");
    static const struct {
        double value;
        int precision;
        bool keep;
        const char *text;
    } cases[] = {
        {100000, 6, false, "100000"}, {1000000, 6, false, "1e+06"}, {0.0001, 6, false, "0.0001"},
        {0.00001, 6, false, "1e-05"}, {0, 6, false, "0"},           {0, 6, true, "0.00000"},
        {1.5, 6, true, "1.50000"},    {1.5, 0, false, "2"},         {999999.5, 6, false, "1e+06"},
        {123.456, 4, false, "123.5"}, {999.9, 3, true, "1.00E+03"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica__decimal_general(cases[i].value, cases[i].precision,
                              cases[i].precision ? cases[i].precision : 1, cases[i].keep,
                              i == 10 ? 'E' : 'e', out);
        assert_string_equal(out, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_rounds_exact_values_half_to_even),
        cmocka_unit_test(longest_results_fit),
        cmocka_unit_test(scientific_and_general_follow_printf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
