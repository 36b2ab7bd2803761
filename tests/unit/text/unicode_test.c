/* unicode_test.c - categories, normal forms, normalizer steps.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include "text/normalizer.h"
#include "text/unicode.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

static void characters_have_their_categories(void **state)
{
    (void)state;
    const struct {
        uint32_t c;
        int category;
    } cases[] = {{'A', MICA__LU},
                 {'z', MICA__LL},
                 {'5', MICA__ND},
                 {' ', MICA__ZS},
                 {'\n', MICA__CONTROL_SPACE},
                 {0, MICA__CC},
                 {0x85, MICA__CONTROL_SPACE},
                 {'_', MICA__PC},
                 {'-', MICA__PD},
                 {'$', MICA__SC},
                 {'+', MICA__SM},
                 {'^', MICA__SK},
                 {0x1c5, MICA__LT},
                 {0x2b0, MICA__LM},
                 {0x4e2d, MICA__LO},
                 {0x301, MICA__MN},
                 {0x903, MICA__MC},
                 {0x488, MICA__ME},
                 {0x2160, MICA__NL},
                 {0xb2, MICA__NO},
                 {0x200b, MICA__CF},
                 {0x2028, MICA__ZL},
                 {0x2029, MICA__ZP},
                 {0x3000, MICA__ZS},
                 {0xd800, MICA__CS},
                 {0xe000, MICA__CO},
                 {0x378, MICA__CN},
                 {0x1f600, MICA__SO},
                 {0xab, MICA__PI},
                 {0xbb, MICA__PF},
                 {0x10ffff, MICA__CN},
                 {0x20000, MICA__LO},
                 {0x1c89, MICA__LU}, /* new in 16.0 */
                 {0x180e, MICA__CF},
                 {MICA__BAD_CHAR, MICA__CN}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(mica__category(cases[i].c), MICA__BIT(cases[i].category));
    assert_true(mica__unicode('_') & MICA__WORD);
    assert_true(mica__unicode(0x24b6) & MICA__WORD); /* circled A: alphabetic, no letter */
    assert_true(mica__unicode(0x200d) & MICA__WORD);
    assert_false(mica__unicode('-') & MICA__WORD);
}

/* White_Space has 25 characters (PropList.txt). */
static void white_space_is_the_property(void **state)
{
    (void)state;
    int n = 0;
    for (uint32_t c = 0; c < 0x110000; c++)
        n += mica__is(c, MICA__SPACE);
    assert_int_equal(n, 25);
}

static void assert_form(mica__normal_form form, const char *text, const char *expected)
{
    mica__text out = {.kind = MICA_MEMORY_TEXT};
    assert_ok(mica__normalize(form, text, (int64_t)strlen(text), &out));
    assert_string_equal(out.bytes ? out.bytes : "", expected);
    if (mica__is_normal(form, text, (int64_t)strlen(text)))
        assert_string_equal(text, expected);
    mica__text_free(&out);
}

/* Examples of Unicode Standard Annex #15, figures 3 to 6, and lines of NormalizationTest.txt. */
static void normal_forms_are_those_of_the_annex(void **state)
{
    (void)state;
    const struct {
        const char *source, *nfc, *nfd, *nfkc, *nfkd;
    } cases[] = {
        {"\u212B", "\u00C5", "A\u030A", "\u00C5", "A\u030A"},
        {"\u2126", "\u03A9", "\u03A9", "\u03A9", "\u03A9"},
        {"\u00F4", "\u00F4", "o\u0302", "\u00F4", "o\u0302"},
        {"\u1E69", "\u1E69", "s\u0323\u0307", "\u1E69", "s\u0323\u0307"},
        {"\u1E0B\u0323", "\u1E0D\u0307", "d\u0323\u0307", "\u1E0D\u0307", "d\u0323\u0307"},
        {"q\u0307\u0323", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307"},
        {"\uFB01", "\uFB01", "\uFB01", "fi", "fi"},
        {"2\u2075", "2\u2075", "2\u2075", "25", "25"},
        {"\u1E9B\u0323", "\u1E9B\u0323", "\u017F\u0323\u0307", "\u1E69", "s\u0323\u0307"},
        {"\uAC00", "\uAC00", "\u1100\u1161", "\uAC00", "\u1100\u1161"},
        {"\uD4DB", "\uD4DB", "\u1111\u1171\u11B6", "\uD4DB", "\u1111\u1171\u11B6"},
        {"\u1111\u1171\u11B6", "\uD4DB", "\u1111\u1171\u11B6", "\uD4DB", "\u1111\u1171\u11B6"},
        {"\u0958", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C"},
        {"\u0344", "\u0308\u0301", "\u0308\u0301", "\u0308\u0301", "\u0308\u0301"},
        {"\uFDFA", "\uFDFA", "\uFDFA",
         "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064A\u0647 "
         "\u0648\u0633\u0644\u0645",
         "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064A\u0647 "
         "\u0648\u0633\u0644\u0645"},
        {"a\u0315\u0300\u05AEb", "\u00E0\u05AE\u0315b", "a\u05AE\u0300\u0315b",
         "\u00E0\u05AE\u0315b", "a\u05AE\u0300\u0315b"},
        {"plain ascii", "plain ascii", "plain ascii", "plain ascii", "plain ascii"},
        {"", "", "", "", ""},
        {"x \u0338 =\u0338", "x \u0338 \u2260", "x \u0338 =\u0338", "x \u0338 \u2260",
         "x \u0338 =\u0338"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_form(MICA__NFC, cases[i].source, cases[i].nfc);
        assert_form(MICA__NFD, cases[i].source, cases[i].nfd);
        assert_form(MICA__NFKC, cases[i].source, cases[i].nfkc);
        assert_form(MICA__NFKD, cases[i].source, cases[i].nfkd);
        assert_form(MICA__NFC, cases[i].nfd, cases[i].nfc);
        assert_form(MICA__NFD, cases[i].nfc, cases[i].nfd);
    }
}

static void bytes_that_are_no_text_pass_and_join_with_nothing(void **state)
{
    (void)state;
    assert_form(MICA__NFC, "e\xff\xcc\x81", "e\xff\xcc\x81");
    assert_form(MICA__NFC, "\xcc\x81\xcc", "\xcc\x81\xcc");
    assert_form(MICA__NFD, "\xed\xa0\x80\xc3\xa9",
                "\xed\xa0\x80"
                "e\xcc\x81");
}

/* A counting sort, so a million marks take a moment, not minutes. */
static void a_million_marks_are_ordered_in_linear_time(void **state)
{
    (void)state;
    const int n = 500000;
    char *text = malloc(4 * (size_t)n + 1);
    for (int i = 0; i < n; i++)
        memcpy(text + 4 * i, i % 2 ? "\u0323\u0323" : "\u0307\u0307", 4);
    text[4 * n] = '\0';
    mica__text out = {.kind = MICA_MEMORY_TEXT};
    assert_ok(mica__normalize(MICA__NFC, text, 4 * n, &out));
    assert_int_equal(out.length, 4 * n);
    for (int i = 0; i < n; i++)
        assert_memory_equal(out.bytes + 4 * i, i < n / 2 ? "\u0323\u0323" : "\u0307\u0307", 4);
    mica__text_free(&out);
    free(text);
}

static const char *run(const mica__normalizer *n, const char *text, bool at_start, bool begins,
                       mica__text buffers[2])
{
    static char result[256];
    const char *out;
    int64_t length;
    assert_ok(mica__normalizer_run(n, text, (int64_t)strlen(text), at_start, begins, buffers, &out,
                                   &length));
    snprintf(result, sizeof result, "%.*s", (int)length, out);
    return result;
}

static void normalizer_steps_run_in_order(void **state)
{
    (void)state;
    mica__text buffers[2] = {{.kind = MICA_MEMORY_TEXT}, {.kind = MICA_MEMORY_TEXT}};
    mica__normalizer n = {0};
    assert_ok(mica__normalizer_add(&n, MICA__NORMALIZER_COLLAPSE, "", 0, "", 0));
    assert_ok(mica__normalizer_add(&n, MICA__NORMALIZER_PREPEND, "", 0, " ", 1));
    assert_ok(mica__normalizer_add(&n, MICA__NORMALIZER_REPLACE, " ", 1, "_", 1));
    assert_ok(mica__normalizer_add_form(&n, MICA__NFC));
    assert_string_equal(run(&n, "  e\u0301  b ", true, true, buffers), "_\u00e9_b");
    assert_string_equal(run(&n, "a b", false, false, buffers), "a_b");
    assert_string_equal(run(&n, "   ", true, true, buffers), "");
    assert_string_equal(run(&n, "", true, true, buffers), "");
    assert_status(mica__normalizer_add(&n, MICA__NORMALIZER_REPLACE, "", 0, "_", 1), MICA_E_FORMAT);
    mica__normalizer_free(&n);

    assert_ok(mica__normalizer_add(&n, MICA__NORMALIZER_PREPEND_FIRST, "", 0, "_", 1));
    assert_string_equal(run(&n, "a", true, true, buffers), "_a");
    assert_string_equal(run(&n, "a", false, true, buffers), "a");
    for (int i = 1; i < MICA__MAX_NORMALIZERS; i++)
        assert_ok(mica__normalizer_add_form(&n, MICA__NFC));
    assert_status(mica__normalizer_add_form(&n, MICA__NFC), MICA_E_UNSUPPORTED);
    mica__normalizer_free(&n);
    mica__text_free(&buffers[0]);
    mica__text_free(&buffers[1]);
}

static void failing_memory_leaks_nothing(void **state)
{
    (void)state;
    const char *text = "A\u030A\u0323 q\u0307\u0323 \uD4DB x";
    const int64_t before = held();
    mica_status status = MICA_E_MEMORY;
    int64_t n = 0;
    while (status != MICA_OK) {
        mica__text out = {.kind = MICA_MEMORY_TEXT};
        mica__fault_after(++n, false);
        status = mica__normalize(MICA__NFC, text, (int64_t)strlen(text), &out);
        mica__fault_after(0, false);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
        mica__text_free(&out);
        assert_int_equal(held(), before);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_have_their_categories),
        cmocka_unit_test(white_space_is_the_property),
        cmocka_unit_test(normal_forms_are_those_of_the_annex),
        cmocka_unit_test(bytes_that_are_no_text_pass_and_join_with_nothing),
        cmocka_unit_test(a_million_marks_are_ordered_in_linear_time),
        cmocka_unit_test(normalizer_steps_run_in_order),
        cmocka_unit_test(failing_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
