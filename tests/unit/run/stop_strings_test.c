/* stop_strings_test.c - stop strings found however a text is cut into tokens.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "run/stop_strings.h"

/* Feeds text in pieces of `step` bytes; writes what comes out and says whether a string was found.
 */
static bool feed(const mica__stop_strings *set, const char *text, size_t step, char *out)
{
    mica__stop_watch watch;
    const char *piece;
    size_t n_piece, n_out = 0;
    bool found = false;
    assert_ok(mica__stop_watch_open(&watch, set));
    for (size_t at = 0; at < strlen(text) && !found; at += step) {
        const size_t n = strlen(text) - at < step ? strlen(text) - at : step;
        assert_ok(mica__stop_watch_add(&watch, set, text + at, n, &piece, &n_piece, &found));
        memcpy(out + n_out, piece, n_piece);
        n_out += n_piece;
    }
    if (!found) {
        assert_ok(mica__stop_watch_finish(&watch, set, "", 0, &piece, &n_piece, &found));
        memcpy(out + n_out, piece, n_piece);
        n_out += n_piece;
    }
    out[n_out] = '\0';
    mica__stop_watch_close(&watch);
    return found;
}

static void assert_text(const char *const *strings, int64_t n, const char *text,
                        const char *expected, bool expect_found)
{
    mica__stop_strings set;
    char out[256];
    assert_ok(mica__stop_strings_open(&set, strings, n));
    for (size_t step = 1; step <= strlen(text); step++) {
        assert_int_equal(feed(&set, text, step, out), expect_found);
        assert_string_equal(out, expected);
    }
    mica__stop_strings_close(&set);
}

static void text_ends_before_a_stop_string_however_it_is_cut(void **state)
{
    (void)state;
    const char *const stop[] = {"</end>"};
    assert_text(stop, 1, "hello </end> world", "hello ", true);
    assert_text(stop, 1, "</end>", "", true);
    assert_text(stop, 1, "hello </en", "hello </en", false);
    assert_text(stop, 1, "a < b </e> </end>x", "a < b </e> ", true);
    assert_text(stop, 1, "nothing here", "nothing here", false);
}

static void partial_matches_that_overlap_are_found(void **state)
{
    (void)state;
    const char *const stop[] = {"aabaaa"};
    assert_text(stop, 1, "aabaabaaab", "aab", true);
    assert_text(stop, 1, "aaaaaabaaa", "aaaa", true);
    assert_text(stop, 1, "aabaab", "aabaab", false);
}

static void first_complete_string_counts_and_the_longest_of_those(void **state)
{
    (void)state;
    const char *const stops[] = {"cd", "bcd", "zzz"};
    assert_text(stops, 3, "abcde", "a", true);
    assert_text(stops, 3, "acde", "a", true);
    const char *const nested[] = {"abcdef", "cd"};
    assert_text(nested, 2, "xabcdefy", "xab", true);
}

static void text_is_held_back_only_as_long_as_it_must(void **state)
{
    (void)state;
    const char *const stop[] = {"###"};
    mica__stop_strings set;
    mica__stop_watch watch;
    const char *piece;
    size_t n;
    bool found;
    assert_ok(mica__stop_strings_open(&set, stop, 1));
    assert_ok(mica__stop_watch_open(&watch, &set));
    assert_ok(mica__stop_watch_add(&watch, &set, "ab#", 3, &piece, &n, &found));
    assert_int_equal(n, 2);
    assert_ok(mica__stop_watch_add(&watch, &set, "#", 1, &piece, &n, &found));
    assert_int_equal(n, 0);
    assert_ok(mica__stop_watch_add(&watch, &set, "c", 1, &piece, &n, &found));
    assert_int_equal(n, 3);
    assert_memory_equal(piece, "##c", 3);
    mica__stop_watch_close(&watch);
    mica__stop_strings_close(&set);
}

static void without_strings_everything_passes_at_once(void **state)
{
    (void)state;
    assert_text(NULL, 0, "any text", "any text", false);
}

static void last_bytes_can_complete_a_string(void **state)
{
    (void)state;
    const char *const stop[] = {"xy"};
    mica__stop_strings set;
    mica__stop_watch watch;
    const char *piece;
    size_t n;
    bool found;
    assert_ok(mica__stop_strings_open(&set, stop, 1));
    assert_ok(mica__stop_watch_open(&watch, &set));
    assert_ok(mica__stop_watch_add(&watch, &set, "ax", 2, &piece, &n, &found));
    assert_int_equal(n, 1);
    assert_ok(mica__stop_watch_finish(&watch, &set, "yz", 2, &piece, &n, &found));
    assert_true(found);
    assert_int_equal(n, 0);
    mica__stop_watch_close(&watch);
    mica__stop_strings_close(&set);
}

static void strings_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    mica__stop_strings set;
    static char longest[MICA__MAX_STOP_STRING_BYTES + 2];
    memset(longest, 'a', sizeof longest - 1);
    const char *const empty[] = {"x", ""}, *const null[] = {NULL}, *const large[] = {longest};
    assert_status(mica__stop_strings_open(&set, empty, 2), MICA_E_ARGUMENT);
    assert_status(mica__stop_strings_open(&set, null, 1), MICA_E_ARGUMENT);
    assert_status(mica__stop_strings_open(&set, large, 1), MICA_E_ARGUMENT);
    assert_status(mica__stop_strings_open(&set, empty, 65), MICA_E_ARGUMENT);
    assert_status(mica__stop_strings_open(&set, empty, -1), MICA_E_ARGUMENT);
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    const char *const stops[] = {"one", "two"};
    mica_memory_usage before, after;
    mica_memory_read(&before);
    for (int64_t n = 1;; n++) {
        mica__stop_strings set;
        mica__stop_watch watch;
        const char *piece;
        size_t n_piece;
        bool found;
        mica__fault_after(n, false);
        mica_status status = mica__stop_strings_open(&set, stops, 2);
        if (status == MICA_OK) {
            status = mica__stop_watch_open(&watch, &set);
            if (status == MICA_OK)
                status = mica__stop_watch_add(&watch, &set, "t", 1, &piece, &n_piece, &found);
            mica__stop_watch_close(&watch);
        }
        mica__stop_strings_close(&set);
        mica__fault_after(0, false);
        mica_memory_read(&after);
        assert_int_equal(before.active, after.active);
        if (status == MICA_OK)
            break;
        assert_int_equal(status, MICA_E_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_ends_before_a_stop_string_however_it_is_cut),
        cmocka_unit_test(partial_matches_that_overlap_are_found),
        cmocka_unit_test(first_complete_string_counts_and_the_longest_of_those),
        cmocka_unit_test(text_is_held_back_only_as_long_as_it_must),
        cmocka_unit_test(without_strings_everything_passes_at_once),
        cmocka_unit_test(last_bytes_can_complete_a_string),
        cmocka_unit_test(strings_that_make_no_sense_are_refused),
        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
