/* number_test.c - numbers as text: exact reading, shortest writing, amounts of memory, locales.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/temp_dir.h"

#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

static double parsed(const char *text)
{
    double value;
    if (!mica__parse_f64(text, strlen(text), &value))
        fail_msg("\"%s\" was refused", text);
    return value;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void reals_are_read_to_the_nearest_double(void **state)
{
    (void)state;
    assert_true(parsed("0") == 0 && !signbit(parsed("0")));
    assert_true(parsed("-0.0e7") == 0 && signbit(parsed("-0.0e7")));
    assert_true(parsed("1") == 1);
    assert_true(parsed("+1.") == 1);
    assert_true(parsed(".5") == 0.5);
    assert_true(parsed("-12.5E+1") == -125);
    assert_true(parsed("0.1") == 0x1.999999999999ap-4);
    assert_true(parsed("000000000000000000000000000000000000000001e-1") == parsed("0.1"));
    assert_true(parsed("9007199254740993") == 0x1p53); /* half way, to even */
    assert_true(parsed("9007199254740993.00000000000000000000000000001") == 0x1p53 + 2);
    assert_true(parsed("9007199254740995") == 0x1p53 + 4);
    assert_true(parsed("1.7976931348623157e308") == 0x1.fffffffffffffp1023);
    assert_true(parsed("1.7976931348623158e308") == 0x1.fffffffffffffp1023);
    assert_true(parsed("5e-324") == 0x1p-1074);
    assert_true(parsed("2.4703282292062328e-324") == 0x1p-1074); /* just over half the smallest */
    assert_true(parsed("2.4703282292062327e-324") == 0);         /* just below */
    assert_true(parsed("1e-400") == 0);
    assert_true(parsed("0e999999999999999999999999") == 0);
    assert_true(parsed("1e-999999999999999999999999") == 0);
}

static void any_number_of_digits_counts(void **state)
{
    (void)state;
    static char text[30100];
    /* 0.000...01e30000 */
    strcpy(text, "0.");
    memset(text + 2, '0', 29999);
    strcpy(text + 2 + 29999, "1e30000");
    assert_true(parsed(text) == 1);
    /* 1000...0e-30000 */
    text[0] = '1';
    memset(text + 1, '0', 30000);
    strcpy(text + 30001, "e-30000");
    assert_true(parsed(text) == 1);
    /* half way between 1 and the next double, and a one 20000 digits later: rounds up */
    strcpy(text, "1.00000000000000011102230246251565404236316680908203125");
    assert_true(parsed(text) == 1);
    const size_t n = strlen(text);
    memset(text + n, '0', 20000);
    text[n + 20000] = '\0';
    assert_true(parsed(text) == 1);
    text[n + 20000] = '1';
    text[n + 20001] = '\0';
    assert_true(parsed(text) == 1 + 0x1p-52);
}

static void what_is_no_decimal_number_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",      " ",     "1 ",     " 1",  "+",   "-",    ".",     "e5",     "1e", "1e+",
        "1e5.0", "1.2.3", "0x10",   "inf", "nan", "1,5",  "1_000", "--1",    "1-", "1e5e5",
        "1f",    "1e309", "-1e309", "+-1", "1d5", "1e 5", ".e1",   "1.8e308"};
    double value = 42;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (mica__parse_f64(texts[i], strlen(texts[i]), &value) || value != 42)
            fail_msg("\"%s\" was read as %g", texts[i], value);
    assert_false(mica__parse_f64("1\0", 2, &value));
    assert_true(mica__parse_f64("123", 2, &value) && value == 12); /* no further than n */
}

static void integers_are_read_within_int64(void **state)
{
    (void)state;
    int64_t value = 42;
    static const char *const bad[] = {"",
                                      "-",
                                      "+",
                                      "1.0",
                                      "1e3",
                                      " 1",
                                      "1 ",
                                      "0x1",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mica__parse_i64(bad[i], strlen(bad[i]), &value));
    assert_int_equal(value, 42);
    assert_true(mica__parse_i64("-9223372036854775808", 20, &value) && value == INT64_MIN);
    assert_true(mica__parse_i64("+9223372036854775807", 20, &value) && value == INT64_MAX);
    assert_true(mica__parse_i64("0000123", 7, &value) && value == 123);
    assert_true(mica__parse_i64("-0", 2, &value) && value == 0);
    assert_true(mica__parse_i64("987", 2, &value) && value == 98);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void check_written(double value, const char *expected)
{
    char text[MICA__F64_TEXT_BYTES];
    const int n = mica__format_f64(text, value);
    assert_string_equal(text, expected);
    assert_int_equal(n, strlen(expected));
}

static void doubles_are_written_with_the_fewest_digits(void **state)
{
    (void)state;
    /* Digits as Python's repr gives them. */
    check_written(0, "0");
    check_written(-0.0, "-0");
    check_written(1, "1");
    check_written(-3, "-3");
    check_written(0.1, "0.1");
    check_written(0.1 + 0.2, "0.30000000000000004");
    check_written(1.0 / 3, "0.3333333333333333");
    check_written(2.0 / 3, "0.6666666666666666");
    check_written(100, "100");
    check_written(123456.789, "123456.789");
    check_written(9007199254740992.0, "9007199254740992");
    check_written(1e15, "1000000000000000");
    check_written(1e16, "1e+16");
    check_written(1e23, "1e+23");
    check_written(1.5e-5, "0.000015");
    check_written(1e-6, "1e-6");
    check_written(0x1p-44, "5.684341886080802e-14"); /* the nearest 16 digits end in 1 */
    check_written(0x1p-1022, "2.2250738585072014e-308");
    check_written(0x1p-1074, "5e-324");
    check_written(0x0.fffffffffffffp-1022, "2.225073858507201e-308");
    check_written(0x1.fffffffffffffp1023, "1.7976931348623157e+308");
    check_written(-1.2345678901234567e-300, "-1.2345678901234568e-300");
    check_written(0.00001234567890123456, "0.00001234567890123456");
    check_written((double)INFINITY, "inf");
    check_written((double)-INFINITY, "-inf");
    check_written((double)NAN, "nan");
}

static void floats_are_written_with_the_fewest_digits(void **state)
{
    (void)state;
    char text[MICA__F64_TEXT_BYTES];
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0.1f, "0.1"},
                 {16777216.0f, "16777216"},
                 {0x1p-149f, "1e-45"},
                 {3.4028235e38f, "3.4028235e+38"},
                 {1.0f / 3, "0.33333334"},
                 {-2.5f, "-2.5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica__format_f32(text, cases[i].value);
        assert_string_equal(text, cases[i].text);
    }
}

static void every_double_reads_back_as_itself(void **state)
{
    (void)state;
    uint64_t bits = 88172645463325252u; /* xorshift */
    for (int i = 0; i < 100000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (isnan(value) || isinf(value))
            continue;
        char text[MICA__F64_TEXT_BYTES];
        const int n = mica__format_f64(text, value);
        assert_true(n < MICA__F64_TEXT_BYTES);
        if (!mica__parse_f64(text, (size_t)n, &back) || memcmp(&back, &value, sizeof back))
            fail_msg("%a was written as %s", value, text);
    }
}

/* Switches to a locale with a decimal comma: an installed one, or one made from the system's
 * sources in dir. */
static bool use_decimal_comma(const char *dir)
{
    char command[4200];
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8"))
        return true;
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", dir);
    if (system(command) != 0)
        return false;
    setenv("LOCPATH", dir, 1);
    const bool found = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    unsetenv("LOCPATH");
    return found;
}

static void the_locale_changes_nothing(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    const bool found = use_decimal_comma(dir);
    temp_dir_remove(dir);
    if (!found) {
        print_message("no locale with a decimal comma can be had\n");
        skip();
    }
    char comma[16];
    snprintf(comma, sizeof comma, "%.1f", 1.5);
    char one[MICA__F64_TEXT_BYTES], size[MICA__F64_TEXT_BYTES];
    double value = 0;
    int64_t bytes = 0;
    const bool read = mica__parse_f64("1234.5e-1", 9, &value);
    mica__format_f64(one, 1.5);
    mica__format_size(size, 1536);
    const mica_status status = mica__parse_size("1.5k", &bytes);
    setlocale(LC_ALL, "C");
    assert_string_equal(comma, "1,5"); /* the locale was in force */
    assert_true(read && value == 123.45);
    assert_string_equal(one, "1.5");
    assert_string_equal(size, "1.5 KiB");
    assert_ok(status);
    assert_int_equal(bytes, 1500);
}

/* --- amounts ---------------------------------------------------------------------------------- */

static void amounts_of_memory_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {{"0", 0},
                 {"4096", 4096},
                 {"512B", 512},
                 {"4G", INT64_C(4000000000)},
                 {"4g", INT64_C(4000000000)},
                 {"4Gi", INT64_C(4) << 30},
                 {"4GiB", INT64_C(4) << 30},
                 {"4GB", INT64_C(4000000000)},
                 {"4 GB", INT64_C(4000000000)},
                 {"512Ki", 524288},
                 {"512k", 512000},
                 {"512KB", 512000},
                 {"1.5M", 1500000},
                 {".5k", 500},
                 {"2.Ti", INT64_C(2) << 40},
                 {"0.57kB", 570}, /* 0.57 * 1000 in double is less than 570 */
                 {"0.0009k", 0},
                 {"7Pi", INT64_C(7) << 50},
                 {"8191Pi", INT64_C(8191) << 50},
                 {"9223372036854775", INT64_C(9223372036854775)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = -1;
        assert_ok(mica__parse_size(cases[i].text, &bytes));
        if (bytes != cases[i].bytes)
            fail_msg("%s was read as %lld", cases[i].text, (long long)bytes);
    }
    static const char *const bad[] = {"",
                                      "G",
                                      "-1",
                                      "+1",
                                      "1X",
                                      "1.5",
                                      "1.5B",
                                      "1..5G",
                                      "1.2.3G",
                                      "4GG",
                                      "4GiBs",
                                      "1e9",
                                      " 4G",
                                      "4G ",
                                      "4,5G",
                                      ".",
                                      ".G",
                                      "8192Pi",
                                      "9999999999999999999999",
                                      "1iB",
                                      "max"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t bytes = 42;
        assert_status(mica__parse_size(bad[i], &bytes), MICA_E_ARGUMENT);
        assert_int_equal(bytes, 42);
    }
}

static void amounts_of_memory_are_written_for_people(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1.0 KiB"},
                 {1536, "1.5 KiB"},
                 {1048575, "1.0 MiB"}, /* not 1024.0 KiB */
                 {INT64_C(4) << 30, "4.0 GiB"},
                 {INT64_MAX, "8.0 EiB"},
                 {INT64_MIN, "-8.0 EiB"},
                 {-2048, "-2.0 KiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[MICA__F64_TEXT_BYTES];
        const int n = mica__format_size(text, cases[i].bytes);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(n, strlen(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_are_read_to_the_nearest_double),
        cmocka_unit_test(any_number_of_digits_counts),
        cmocka_unit_test(what_is_no_decimal_number_is_refused),
        cmocka_unit_test(integers_are_read_within_int64),
        cmocka_unit_test(doubles_are_written_with_the_fewest_digits),
        cmocka_unit_test(floats_are_written_with_the_fewest_digits),
        cmocka_unit_test(every_double_reads_back_as_itself),
        cmocka_unit_test(the_locale_changes_nothing),
        cmocka_unit_test(amounts_of_memory_are_read_exactly),
        cmocka_unit_test(amounts_of_memory_are_written_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
