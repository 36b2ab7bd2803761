/* pretokenize_test.c - cutting text: our splitters against PCRE2, behaviours, chains, hostile text.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include "text/pattern_texts.h"
#include "text/pretokenize.h"
#include "text/unicode.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

/* Joins the words with '|'. */
static const char *cut(const mica__pretokenizer *pre, const char *text, int64_t n)
{
    static char out[4096];
    size_t at = 0;
    mica__words words = {0};
    const char *word;
    int64_t length;
    int got;
    mica__words_start(&words, pre, text, n, true);
    while ((got = mica__words_next(&words, &word, &length)) > 0) {
        assert_true(length > 0 && at + (size_t)length + 2 < sizeof out);
        if (at)
            out[at++] = '|';
        memcpy(out + at, word, (size_t)length);
        at += (size_t)length;
    }
    assert_int_equal(got, 0);
    assert_int_equal(mica__words_next(&words, &word, &length), 0);
    mica__words_free(&words);
    out[at] = '\0';
    return out;
}

static mica__pretokenizer one_split(mica__matcher matcher, mica__split split, bool invert)
{
    mica__pretokenizer pre = {0};
    assert_ok(mica__pretokenizer_add(
        &pre, (mica__step){
                  .kind = MICA__STEP_SPLIT, .matcher = matcher, .split = split, .invert = invert}));
    return pre;
}

static mica__matcher known(const char *regex)
{
    mica__matcher matcher;
    if (!mica__known_pattern(regex, &matcher))
        fail_msg("no splitter for %s", regex);
    return matcher;
}

static void assert_cut(const char *regex, const char *text, const char *expected)
{
    mica__pretokenizer pre = one_split(known(regex), MICA__SPLIT_ISOLATED, false);
    assert_string_equal(cut(&pre, text, (int64_t)strlen(text)), expected);
    mica__pretokenizer_free(&pre);
}

/* By hand from the expressions. */
static void known_patterns_cut_as_their_expressions_say(void **state)
{
    (void)state;
    assert_cut(MICA__RE_GPT2, "I'll  go, 42 times!!\n\n ok",
               "I|'ll| | go|,| 42| times|!!|\n\n| ok");
    assert_cut(MICA__RE_GPT2, "DON'T don't", "DON|'|T| don|'t");
    assert_cut(MICA__RE_LLAMA3, "DON'T 12345 a\t\tb", "DON|'T| |123|45| a|\t|\tb");
    assert_cut(MICA__RE_LLAMA3, "x\n \n  y  ", "x|\n \n| | y|  ");
    assert_cut(MICA__RE_LLAMA3, "(foo) ...\r\n!", "(foo|)| ...\r\n|!");
    assert_cut(MICA__RE_QWEN2, "a123", "a|1|2|3");
    assert_cut(MICA__RE_QWEN35, "e\u0301a\u0301!", "e\u0301a\u0301|!");
    assert_cut(MICA__RE_QWEN2, "e\u0301a\u0301!", "e|\u0301a|\u0301!");
    assert_cut(MICA__RE_O200K, "HTTPServer camelCase ABC don't I'M",
               "HTTPServer| camel|Case| ABC| don't| I'M");
    assert_cut(MICA__RE_O200K, "a//\n/b", "a|//\n/|b");
    assert_cut(MICA__RE_TEKKEN, "don't 12", "don|'t| |1|2");
    assert_cut(MICA__RE_DEEPSEEK3, "x_y =foo \u200b!", "x|_y| =|foo| |\u200b|!");
    assert_cut("\\s+$", "a  b  ", "a  b|  ");
    assert_cut("\\s+$", "a \n b\n", "a| |\n b|\n");
    assert_cut("[0-9][0-9][0-9]", "12 1234567", "12 |123|456|7");
    assert_cut("\\s?\\p{L}+", "ab  cd1", "ab| | cd|1");
    assert_cut(mica__deepseek_letters, "ab \u4e2d\u0561x", "ab| \u4e2d\u0561|x");
}

/* A character of every category that PCRE2's older tables know too, and what patterns speak of. */
static int random_text(unsigned *seed, char *out, int most)
{
    static const char *const special[] = {
        "'s",     "'T",           "'ll",    "'VE",    "'\u017f", " ",
        "  ",     "\n",           "\r\n",   "\t",     "\u00a0",  "\u3000",
        "\u2028", "12",           "3456",   "/",      "//",      "_",
        "$",      "...",          "abc",    "Word",   "ABC",     "e\u0301",
        "\u0301", "\u4e2d\u6587", "\uac00", "\u30ab", "\u0958",  "\u01c5",
        "\u02b0", "\u00b2",       "\u2163", "\u0661", "\u200b",  "\U0001f600",
        "\xff",   "\xe2\x82",     "\u180e"};
    int n = 0;
    const int pieces = 1 + (int)((*seed = *seed * 1103515245 + 12345) >> 16) % 14;
    for (int i = 0; i < pieces && n + 8 < most; i++) {
        const unsigned r = (*seed = *seed * 1103515245 + 12345) >> 12;
        if (r % 4 < 3) {
            const char *s = special[r / 4 % (sizeof special / sizeof special[0])];
            memcpy(out + n, s, strlen(s));
            n += (int)strlen(s);
        } else {
            n += mica__utf8_put(0x20 + r / 4 % 0x2e0, out + n);
        }
    }
    return n;
}

static void splitters_agree_with_pcre_on_random_text(void **state)
{
    (void)state;
    static const char *const regexes[] = {MICA__RE_GPT2,
                                          MICA__RE_LLAMA3,
                                          MICA__RE_QWEN2,
                                          MICA__RE_QWEN35,
                                          MICA__RE_O200K,
                                          MICA__RE_TEKKEN,
                                          MICA__RE_SEED_CODER,
                                          MICA__RE_BAILING,
                                          MICA__RE_DEEPSEEK3,
                                          MICA__RE_ANY_DIGIT,
                                          MICA__RE_UFAKZEKA,
                                          MICA__RE_CJK,
                                          MICA__RE_EAST,
                                          MICA__RE_BLOOM,
                                          mica__deepseek_letters,
                                          mica__deepseek_marks,
                                          "\\p{N}",
                                          "\\p{N}{1,3}",
                                          "\\p{N}+",
                                          "[0-9][0-9][0-9]",
                                          "[\\r\\n]",
                                          "\\s?\\p{L}+",
                                          "\\s?\\p{P}+",
                                          "\\s+$",
                                          "\\S+",
                                          "[\\p{P}\\$\\+<=>\\^~\\|`]+",
                                          "[\\p{P}\\$\\+<=>\\^~\\|]+"};
    unsigned seed = 20240607;
    print_message("seed %u\n", seed);
    for (size_t i = 0; i < sizeof regexes / sizeof regexes[0]; i++) {
        mica__matcher pcre;
        const mica_status status = mica__pcre_pattern(regexes[i], &pcre);
        if (status == MICA_E_UNSUPPORTED)
            skip();
        assert_int_equal(status, MICA_OK);
        mica__pretokenizer ours = one_split(known(regexes[i]), MICA__SPLIT_ISOLATED, false);
        mica__pretokenizer theirs = one_split(pcre, MICA__SPLIT_ISOLATED, false);
        for (int round = 0; round < 1500; round++) {
            char text[512], expected[4096];
            int64_t bad;
            const int n = random_text(&seed, text, (int)sizeof text);
            /* PCRE2 leaves bytes that are no text out of every match; our splitters take each as
             * a character of no kind, so such a text is compared by length only. */
            snprintf(expected, sizeof expected, "%s", cut(&theirs, text, n));
            const char *got = cut(&ours, text, n);
            if (mica__utf8_valid(text, n, &bad) && strcmp(got, expected) != 0)
                fail_msg("%s on \"%.*s\": \"%s\" instead of \"%s\"", regexes[i], n, text, got,
                         expected);
        }
        mica__pretokenizer_free(&ours);
        mica__pretokenizer_free(&theirs);
    }
}

/* The package tokenizers' documentation of its behaviours, on "the-final--countdown". */
static void matches_are_treated_as_the_behaviour_says(void **state)
{
    (void)state;
    const struct {
        mica__split split;
        const char *expected;
    } cases[] = {{MICA__SPLIT_REMOVED, "the|final|countdown"},
                 {MICA__SPLIT_ISOLATED, "the|-|final|-|-|countdown"},
                 {MICA__SPLIT_WITH_PREVIOUS, "the-|final-|-|countdown"},
                 {MICA__SPLIT_WITH_NEXT, "the|-final|-|-countdown"},
                 {MICA__SPLIT_CONTIGUOUS, "the|-|final|--|countdown"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mica__matcher dash;
        assert_ok(mica__literal_pattern("-", 1, &dash));
        mica__pretokenizer pre = one_split(dash, cases[i].split, false);
        assert_string_equal(cut(&pre, "the-final--countdown", 20), cases[i].expected);
        mica__pretokenizer_free(&pre);
    }
    mica__pretokenizer pre = one_split(mica__digit_pattern(false), MICA__SPLIT_REMOVED, true);
    assert_string_equal(cut(&pre, "a12b3", 5), "12|3");
    mica__pretokenizer_free(&pre);
    mica__matcher none;
    assert_status(mica__literal_pattern("", 0, &none), MICA_E_FORMAT);
}

static void steps_work_on_the_pieces_of_the_step_before(void **state)
{
    (void)state;
    mica__pretokenizer pre = {0};
    /* Falcon's chain: punctuation, words, spelled bytes, digits in threes. */
    assert_ok(mica__pretokenizer_add(&pre, (mica__step){.kind = MICA__STEP_SPLIT,
                                                        .split = MICA__SPLIT_CONTIGUOUS,
                                                        .matcher = mica__punctuation_pattern()}));
    assert_ok(mica__pretokenizer_add(
        &pre, (mica__step){.kind = MICA__STEP_SPLIT, .matcher = mica__gpt2_pattern()}));
    assert_ok(mica__pretokenizer_add(&pre, (mica__step){.kind = MICA__STEP_SPELL}));
    assert_ok(mica__pretokenizer_add(
        &pre, (mica__step){.kind = MICA__STEP_SPLIT, .matcher = known("[0-9][0-9][0-9]")}));
    assert_true(pre.spells);
    assert_string_equal(cut(&pre, "a?! b 12345", 11), "a|?!|\u0120b|\u0120|123|45");
    mica__pretokenizer_free(&pre);

    assert_ok(mica__pretokenizer_add(&pre, (mica__step){.kind = MICA__STEP_SPACE}));
    assert_ok(mica__pretokenizer_add(
        &pre, (mica__step){.kind = MICA__STEP_SPLIT, .matcher = mica__gpt2_pattern()}));
    assert_string_equal(cut(&pre, "a b", 3), " a| b");
    assert_string_equal(cut(&pre, " a", 2), " a");
    mica__pretokenizer_free(&pre);
}

static void spaces_become_marks_and_one_is_put_before(void **state)
{
    (void)state;
    mica__step mark = {.kind = MICA__STEP_MARK_SPACES, .mark = "_", .prepend = MICA__PREPEND_FIRST};
    mica__pretokenizer pre = {0};
    mica__words words = {0};
    const char *word;
    int64_t n;
    assert_ok(mica__pretokenizer_add(&pre, mark));
    assert_string_equal(cut(&pre, "a  b", 4), "_a__b");
    assert_string_equal(cut(&pre, " a", 2), "_a");
    assert_string_equal(cut(&pre, "_a", 2), "_a");
    mica__words_start(&words, &pre, "a", 1, false);
    assert_int_equal(mica__words_next(&words, &word, &n), 1);
    assert_int_equal(n, 1);
    mica__words_free(&words);
    mica__pretokenizer_free(&pre);

    mark.prepend = MICA__PREPEND_ALWAYS;
    mica__matcher at_marks;
    assert_ok(mica__pretokenizer_add(&pre, mark));
    assert_ok(mica__literal_pattern("_", 1, &at_marks));
    assert_ok(mica__pretokenizer_add(&pre, (mica__step){.kind = MICA__STEP_SPLIT,
                                                        .matcher = at_marks,
                                                        .split = MICA__SPLIT_WITH_NEXT}));
    assert_string_equal(cut(&pre, "ab c  d", 7), "_ab|_c|_|_d");
    mica__pretokenizer_free(&pre);
}

static void too_many_steps_are_refused(void **state)
{
    (void)state;
    const int64_t before = held();
    mica__pretokenizer pre = {0};
    for (int i = 0; i <= MICA__MAX_STEPS; i++) {
        mica__matcher matcher;
        assert_ok(mica__literal_pattern("x", 1, &matcher));
        assert_int_equal(mica__pretokenizer_add(
                             &pre, (mica__step){.kind = MICA__STEP_SPLIT, .matcher = matcher}),
                         i < MICA__MAX_STEPS ? MICA_OK : MICA_E_UNSUPPORTED);
    }
    mica__pretokenizer_free(&pre);
    assert_int_equal(held(), before);
}

/* Every byte comes out once, in order, whatever the bytes. */
static void no_byte_is_lost_on_random_bytes(void **state)
{
    (void)state;
    static const char *const regexes[] = {
        MICA__RE_GPT2,   MICA__RE_LLAMA3, MICA__RE_O200K, MICA__RE_DEEPSEEK3,
        MICA__RE_QWEN35, "\\s?\\p{L}+",   "\\s+$",        "[0-9][0-9][0-9]"};
    unsigned seed = 99;
    for (size_t i = 0; i < sizeof regexes / sizeof regexes[0]; i++) {
        mica__pretokenizer pre = one_split(known(regexes[i]), MICA__SPLIT_ISOLATED, false);
        for (int round = 0; round < 2000; round++) {
            char text[64];
            const int n = 1 + (int)((seed = seed * 1103515245 + 12345) >> 16) % 63;
            for (int k = 0; k < n; k++)
                text[k] = (char)((seed = seed * 1103515245 + 12345) >> 16);
            mica__words words = {0};
            const char *word;
            int64_t length, at = 0;
            mica__words_start(&words, &pre, text, n, true);
            while (mica__words_next(&words, &word, &length) > 0) {
                assert_ptr_equal(word, text + at);
                at += length;
            }
            assert_int_equal(at, n);
            mica__words_free(&words);
        }
        mica__pretokenizer_free(&pre);
    }
}

static void pcre_patterns_are_vetted_and_limited(void **state)
{
    (void)state;
    mica__matcher m;
    const mica_status status = mica__pcre_pattern("x", &m);
    if (status == MICA_E_UNSUPPORTED)
        skip();
    m.release((void *)(uintptr_t)m.pattern);
    const int64_t before = held();
    assert_status(mica__pcre_pattern("[a&&b]", &m), MICA_E_UNSUPPORTED);
    assert_status(mica__pcre_pattern("[a[bc]]", &m), MICA_E_UNSUPPORTED);
    assert_status(mica__pcre_pattern("\\h+", &m), MICA_E_UNSUPPORTED);
    assert_status(mica__pcre_pattern("[\\S]", &m), MICA_E_UNSUPPORTED);
    assert_status(mica__pcre_pattern("(?m:x)", &m), MICA_E_UNSUPPORTED);
    assert_status(mica__pcre_pattern("(", &m), MICA_E_FORMAT);
    assert_status(mica__pcre_pattern("\\C", &m), MICA_E_FORMAT);
    assert_int_equal(held(), before);

    /* A split of no width, and white space as Unicode has it. */
    assert_ok(mica__pcre_pattern("(?=(\\d{3})+(?!\\d))", &m));
    mica__pretokenizer pre = one_split(m, MICA__SPLIT_ISOLATED, false);
    assert_string_equal(cut(&pre, "1234567", 7), "1|234|567");
    mica__pretokenizer_free(&pre);
    assert_ok(mica__pcre_pattern("\\s", &m));
    pre = one_split(m, MICA__SPLIT_REMOVED, false);
    assert_string_equal(cut(&pre, "a\u180eb c\u3000d", 11), "a\u180eb|c|d");
    mica__pretokenizer_free(&pre);

    /* Exponential without a limit. */
    char text[4001];
    memset(text, 'a', 4000);
    memcpy(text + 3998, "xb", 3);
    assert_ok(mica__pcre_pattern("(a|a|aa)*b", &m));
    pre = one_split(m, MICA__SPLIT_ISOLATED, false);
    mica__words words = {0};
    const char *word;
    int64_t n;
    mica__words_start(&words, &pre, text, 4000, true);
    assert_int_equal(mica__words_next(&words, &word, &n), -(int)MICA_E_BUDGET);
    mica__words_free(&words);
    mica__pretokenizer_free(&pre);
    assert_int_equal(held(), before);
}

static mica_status pcre_walk(void)
{
    mica__matcher m;
    MICA_TRY(mica__pcre_pattern("[ab]+(?=\\s|$)|\\w", &m));
    mica__pretokenizer pre = {0};
    MICA_TRY(mica__pretokenizer_add(&pre, (mica__step){.kind = MICA__STEP_SPLIT, .matcher = m}));
    mica__words words = {0};
    const char *word;
    int64_t n;
    int got;
    mica__words_start(&words, &pre, "abab cd ab", 10, true);
    while ((got = mica__words_next(&words, &word, &n)) > 0)
        ;
    mica__words_free(&words);
    mica__pretokenizer_free(&pre);
    return (mica_status)-got;
}

static void failing_memory_leaks_nothing_with_pcre(void **state)
{
    (void)state;
    if (pcre_walk() == MICA_E_UNSUPPORTED)
        skip();
    const int64_t before = held();
    mica_status status = MICA_E_MEMORY;
    int64_t n = 0;
    while (status != MICA_OK) {
        mica__fault_after(++n, false);
        status = pcre_walk();
        mica__fault_after(0, false);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
        assert_int_equal(held(), before);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_patterns_cut_as_their_expressions_say),
        cmocka_unit_test(splitters_agree_with_pcre_on_random_text),
        cmocka_unit_test(matches_are_treated_as_the_behaviour_says),
        cmocka_unit_test(steps_work_on_the_pieces_of_the_step_before),
        cmocka_unit_test(spaces_become_marks_and_one_is_put_before),
        cmocka_unit_test(too_many_steps_are_refused),
        cmocka_unit_test(no_byte_is_lost_on_random_bytes),
        cmocka_unit_test(pcre_patterns_are_vetted_and_limited),
        cmocka_unit_test(failing_memory_leaks_nothing_with_pcre),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
