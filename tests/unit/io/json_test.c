/* json_test.c - the JSON reader and writer: conformance, trees, limits, failing memory.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/json.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

static mica_status parse(const char *text, mica__json_doc **doc)
{
    return mica__json_parse(text, strlen(text), 0, doc);
}

/* Parses, checks that it is refused as FORMAT with `expected` in the message. */
static void assert_refused(const char *text, size_t n, const char *expected)
{
    mica__json_doc *doc = (mica__json_doc *)&doc;
    const int64_t before = held();
    assert_status(mica__json_parse(text, n, 0, &doc), MICA_E_FORMAT);
    assert_null(doc);
    assert_int_equal(held(), before);
    if (!strstr(mica_last_error(), expected))
        fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), expected);
}

static char *load(const char *folder, const char *name, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1); /* exact size: a read past the end is seen by the sanitizer */
    bytes = realloc(bytes, *n ? *n : 1);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    fclose(file);
    return bytes;
}

/* Runs every case of a folder through the stream, which takes duplicate keys as RFC 8259 does, and
 * through the tree, which differs in that alone. */
static int run_suite(const char *folder)
{
    const mica__json_events none = {0};
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    int n_cases = 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        const char *name = entry->d_name;
        if (!strstr(name, ".json") || !strchr("yni", name[0]))
            continue;
        size_t n;
        char *bytes = load(folder, name, &n);
        mica__json_doc *doc;
        const mica_status stream = mica__json_stream(bytes, n, 0, &none, NULL);
        const mica_status tree = mica__json_parse(bytes, n, 0, &doc);
        if (name[0] != 'i' && (stream == MICA_OK) != (name[0] == 'y'))
            fail_msg("%s: %s %s", name, mica_status_name(stream), mica_last_error());
        const bool differs =
            strstr(name, "duplicated_key") || strstr(name, "huge_exp") || strstr(name, "overflow");
        if (!differs && (tree == MICA_OK) != (stream == MICA_OK))
            fail_msg("%s: the tree says %s", name, mica_status_name(tree));
        mica__json_free(doc);
        free(bytes);
        n_cases++;
    }
    closedir(listing);
    return n_cases;
}

static void fixtures_of_the_conformance_suite(void **state)
{
    (void)state;
    assert_int_equal(run_suite(MICA_SOURCE_DIR "/tests/data/json/JSONTestSuite"), 48);
}

static void whole_conformance_suite(void **state)
{
    (void)state;
#ifdef MICA_JSON_SUITE_DIR
    assert_int_equal(run_suite(MICA_JSON_SUITE_DIR), 318);
#else
    skip();
#endif
}

static void tree_holds_values_in_file_order(void **state)
{
    (void)state;
    mica__json_doc *doc;
    assert_ok(parse(" {\"a\": [1, -2.5e1, \"x\\u0000\\ud83d\\ude00\\n\", true, null], \"b\": {}, "
                    "\"\": false}\n",
                    &doc));
    const mica__json *root = mica__json_root(doc);
    assert_int_equal(root->type, MICA__JSON_OBJECT);
    assert_int_equal(root->n, 3);
    assert_null(root->key);
    const mica__json *a = root->first;
    assert_ptr_equal(a, mica__json_get(root, "a"));
    assert_string_equal(a->key, "a");
    assert_int_equal(a->n, 5);
    const mica__json *item = a->first;
    assert_int_equal(item->type, MICA__JSON_INTEGER);
    assert_int_equal(item->integer, 1);
    assert_true(item->number == 1);
    item = item->next;
    assert_int_equal(item->type, MICA__JSON_REAL);
    assert_true(item->number == -25);
    item = item->next;
    assert_int_equal(item->length, 7);
    assert_memory_equal(item->string, "x\0\xf0\x9f\x98\x80\n", 8);
    item = item->next;
    assert_true(item->type == MICA__JSON_BOOL && item->boolean);
    item = item->next;
    assert_int_equal(item->type, MICA__JSON_NULL);
    assert_null(item->next);
    assert_int_equal(mica__json_get(root, "b")->type, MICA__JSON_OBJECT);
    assert_int_equal(mica__json_get(root, "")->boolean, false);
    assert_null(mica__json_get(root, "c"));
    assert_null(mica__json_get(a, "c"));
    assert_null(mica__json_get(NULL, "c"));
    mica__json_free(doc);
}

/* Expected values: hand-worked, and IEEE 754 corner cases whose decimal forms are well known. */
static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mica__json_type type;
        double value;
    } cases[] = {
        {"0", MICA__JSON_INTEGER, 0},
        {"-0", MICA__JSON_INTEGER, 0},
        {"9223372036854775807", MICA__JSON_INTEGER, 0x1p63},
        {"-9223372036854775808", MICA__JSON_INTEGER, -0x1p63},
        {"9223372036854775808", MICA__JSON_REAL, 0x1p63},
        {"1.0", MICA__JSON_REAL, 1},
        {"1e2", MICA__JSON_REAL, 100},
        {"0.1", MICA__JSON_REAL, 0.1},
        {"5e-324", MICA__JSON_REAL, 0x1p-1074},
        {"2.4703282292062327e-324", MICA__JSON_REAL, 0},
        {"2.4703282292062328e-324", MICA__JSON_REAL, 0x1p-1074},
        {"1.7976931348623157E+308", MICA__JSON_REAL, 0x1.fffffffffffffp1023},
        {"9007199254740993.0", MICA__JSON_REAL, 9007199254740992.0},
        {"9007199254740993.00000000000000000000000000001", MICA__JSON_REAL, 9007199254740994.0},
        {"1e-99999999999999999999", MICA__JSON_REAL, 0},
        {"0e99999999999999999999", MICA__JSON_REAL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica__json_doc *doc;
        assert_ok(parse(cases[i].text, &doc));
        const mica__json *root = mica__json_root(doc);
        if (root->type != cases[i].type || root->number != cases[i].value)
            fail_msg("%s gave type %d, %a", cases[i].text, root->type, root->number);
        mica__json_free(doc);
    }
}

static void digits_beyond_any_buffer_still_round_correctly(void **state)
{
    (void)state;
    enum { N = 5000 };
    static char text[N + 8];
    /* 2^53 + 1 lies halfway between two doubles; one digit 5000 places later decides. */
    memcpy(text, "9007199254740993.", 17);
    memset(text + 17, '0', N - 17);
    for (int last = '0'; last <= '1'; last++) {
        text[N] = (char)last;
        mica__json_doc *doc;
        assert_ok(parse(text, &doc));
        assert_true(mica__json_root(doc)->number == 9007199254740992.0 + 2 * (last - '0'));
        mica__json_free(doc);
    }
    memset(text, '1', N);
    assert_refused(text, N, "beyond the range of a double");
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    static const char *names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "de_DE"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found)
        skip();
    mica__json_doc *doc;
    mica__text out = {.kind = MICA_MEMORY_OTHER};
    const mica_status status = parse("1234.5", &doc);
    mica__json_write_number(&out, 1234.5);
    setlocale(LC_NUMERIC, "C");
    assert_ok(status);
    assert_true(mica__json_root(doc)->number == 1234.5);
    assert_string_equal(out.bytes, "1234.5");
    mica__json_free(doc);
    mica__text_free(&out);
}

static void failures_say_where_and_what(void **state)
{
    (void)state;
    assert_refused("{\"a\":\n 1,\n }", 12, "byte 11 (line 3, column 2): expected a key");
    assert_refused("[1 2]", 5, "byte 3 (line 1, column 4): expected ',' or ']'");
    assert_refused("1 1", 3, "byte 2 (line 1, column 3): bytes after the end");
    assert_refused("1\0", 2, "bytes after the end");
    assert_refused("\xef\xbb\xbf{}", 5, "byte order mark");
    assert_refused("// no\n1", 7, "no JSON value starts like this");
    assert_refused("\"\\ud800\"", 8, "surrogate");
    assert_refused("\"\\udc00\\ud800\"", 14, "surrogate");
    assert_refused("\"\xed\xa0\x80\"", 5, "not UTF-8");
    assert_refused("\"\xc0\x80\"", 4, "not UTF-8");
    assert_refused("\"\xf4\x90\x80\x80\"", 6, "not UTF-8");
    assert_refused("\"abc", 4, "not closed");
    assert_refused("\"1234567\x01\"", 10, "control character");
    assert_refused("1e999", 5, "range of a double");
    assert_refused("", 0, "the text ends");
    assert_refused("{\"k\":1,\"l\":2,\"k\":3}", 19,
                   "byte 18 (line 1, column 19): the object that "
                   "ends here has the key \"k\" twice");
}

static void depth_is_limited_before_anything_grows(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(2 * N);
    memset(text, '[', N);
    memset(text + N, ']', N);
    assert_refused(text, 2 * N, "byte 64 (line 1, column 65): nesting deeper than 64");
    mica__json_doc *doc;
    assert_ok(mica__json_parse(text + N - 64, 128, 64, &doc));
    mica__json_free(doc);
    assert_ok(mica__json_parse(text + N - 5000, 10000, 5000, &doc));
    mica__json_free(doc);
    assert_status(mica__json_parse(text, 2 * N, N, &doc), MICA_E_ARGUMENT);
    free(text);
}

static void many_keys_are_found_and_their_duplicates_refused(void **state)
{
    (void)state;
    enum { N = 20000 };
    mica__text text = {.kind = MICA_MEMORY_OTHER};
    mica__text_add_char(&text, '{');
    for (int i = 0; i < N; i++)
        mica__text_format(&text, "\"key%d\":%d,", (i * 7919) % N, i);
    assert_ok(mica__text_add_string(&text, "\"end\":0}"));
    mica__json_doc *doc;
    assert_ok(mica__json_parse(text.bytes, (size_t)text.length, 0, &doc));
    const mica__json *root = mica__json_root(doc);
    assert_int_equal(root->n, N + 1);
    for (int i = 0; i < N; i++) {
        char key[32];
        snprintf(key, sizeof key, "key%d", (i * 7919) % N);
        const mica__json *member = mica__json_get(root, key);
        assert_non_null(member);
        assert_int_equal(member->integer, i);
    }
    assert_null(mica__json_get(root, "key"));
    assert_null(mica__json_get(root, "key20000"));
    mica__json_free(doc);
    memcpy(strstr(text.bytes, "\"end\""), "\"key7\":0}", 10);
    assert_refused(text.bytes, strlen(text.bytes), "has the key \"key7\" twice");
    mica__text_free(&text);
}

static void reading_a_file_names_it(void **state)
{
    (void)state;
    mica__json_doc *doc;
    assert_status(mica__json_read("/nonexistent/x.json", 100, &doc), MICA_E_NOT_FOUND);
    assert_non_null(strstr(mica_last_error(), "/nonexistent/x.json"));
    assert_status(mica__json_read("/", 100, &doc), MICA_E_IO);
    char path[] = "/tmp/mica_json_test_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0 && write(file, "{\"a\":1]", 7) == 7);
    assert_status(mica__json_read(path, 6, &doc), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "bound of 6"));
    assert_status(mica__json_read(path, 100, &doc), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), path));
    assert_non_null(strstr(mica_last_error(), "byte 6"));
    assert_int_equal(pwrite(file, "}", 1, 6), 1);
    assert_ok(mica__json_read(path, 7, &doc));
    assert_int_equal(mica__json_get(mica__json_root(doc), "a")->integer, 1);
    mica__json_free(doc);
    close(file);
    unlink(path);
}

/* --- the stream ------------------------------------------------------------------------------- */

static mica_status log_number(void *user, const char *text, size_t n)
{
    return mica__text_format(user, "#%.*s ", (int)n, text);
}

static mica_status log_string(void *user, const char *bytes, size_t n)
{
    return mica__text_format(user, "'%.*s' ", (int)n, bytes);
}

static mica_status log_key(void *user, const char *bytes, size_t n)
{
    return mica__text_format(user, "%.*s: ", (int)n, bytes);
}

static mica_status log_boolean(void *user, bool value)
{
    return mica__text_add_string(user, value ? "true " : "false ");
}

static mica_status log_null(void *user)
{
    return mica__text_add_string(user, "null ");
}

static mica_status log_start_object(void *user)
{
    return mica__text_add_string(user, "{ ");
}

static mica_status log_end_object(void *user)
{
    return mica__text_add_string(user, "} ");
}

static mica_status log_start_array(void *user)
{
    return mica__text_add_string(user, "[ ");
}

static mica_status log_end_array(void *user)
{
    return mica__text_add_string(user, "] ");
}

static const mica__json_events logging = {log_null,       log_boolean,     log_number,
                                          log_string,     log_key,         log_start_object,
                                          log_end_object, log_start_array, log_end_array};

static void stream_calls_back_in_file_order(void **state)
{
    (void)state;
    const char *text = "{\"a\":[1.50,\"x\\ty\",[]],\"a\":{\"b\":null},\"c\":[true,false]}";
    mica__text out = {.kind = MICA_MEMORY_OTHER};
    assert_ok(mica__json_stream(text, strlen(text), 0, &logging, &out));
    assert_string_equal(out.bytes, "{ a: [ #1.50 'x\ty' [ ] ] a: { b: null } c: [ true false ] } ");
    mica__text_free(&out);
}

static void status_of_a_callback_stops_the_stream(void **state)
{
    (void)state;
    mica__text out = {.kind = MICA_MEMORY_OTHER, .max = 4};
    assert_status(mica__json_stream("[1,2,3", 6, 0, &logging, &out), MICA_E_BUDGET);
    assert_string_equal(out.bytes, "[ ");
    mica__text_free(&out);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void strings_are_written_escaped_and_repaired(void **state)
{
    (void)state;
    mica__text out = {.kind = MICA_MEMORY_OTHER};
    assert_ok(mica__json_write_string(&out, "a\"\\\b\f\n\r\t\x01\0/\x7f\xc3\xa9\xff\xe2\x82", 17));
    assert_string_equal(out.bytes,
                        "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u0000/\x7f\xc3\xa9\xef\xbf\xbd"
                        "\xef\xbf\xbd\xef\xbf\xbd\"");
    mica__text_clear(&out);
    assert_ok(mica__json_write_string(&out, "", 0));
    assert_string_equal(out.bytes, "\"\"");
    mica__text_free(&out);
}

static void numbers_are_written_short_and_read_back_the_same(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {1, "1"},
                 {-25.5, "-25.5"},
                 {0.1, "0.1"},
                 {1e15, "1000000000000000"},
                 {1e22, "1e+22"},
                 {1.5e300, "1.5e+300"},
                 {1e-7, "1e-7"},
                 {0.00025, "0.00025"},
                 {5e-324, "5e-324"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"},
                 {(double)NAN, "null"},
                 {-(double)INFINITY, "null"}};
    mica__text out = {.kind = MICA_MEMORY_OTHER};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica__text_clear(&out);
        assert_ok(mica__json_write_number(&out, cases[i].value));
        assert_string_equal(out.bytes, cases[i].text);
    }
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        double value;
        const uint64_t bits = random ^ random >> 29;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        mica__text_clear(&out);
        assert_ok(mica__json_write_number(&out, value));
        mica__json_doc *doc;
        assert_ok(mica__json_parse(out.bytes, (size_t)out.length, 0, &doc));
        if (mica__json_root(doc)->number != value)
            fail_msg("%a came back as %a through %s", value, mica__json_root(doc)->number,
                     out.bytes);
        mica__json_free(doc);
    }
    mica__text_free(&out);
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    mica__text text = {.kind = MICA_MEMORY_OTHER};
    mica__text_add_string(&text, "{\"deep\":[[[\"\\n");
    for (int i = 0; i < 40000; i++)
        mica__text_add_char(&text, 'x');
    mica__text_add_string(&text, "\"]]]");
    for (int i = 0; i < 400; i++)
        mica__text_format(&text, ",\"key \\u00e9 %d\":[%d,null,{}]", i, i);
    assert_ok(mica__text_add_char(&text, '}'));
    const int64_t before = held();
    mica_status status = MICA_E_MEMORY;
    int64_t n = 0;
    while (status != MICA_OK) {
        mica__json_doc *doc;
        mica__fault_after(++n, false);
        status = mica__json_parse(text.bytes, (size_t)text.length, 200, &doc);
        mica__fault_after(0, false);
        if (status != MICA_OK)
            assert_int_equal(status, MICA_E_MEMORY);
        mica__json_free(doc);
        assert_int_equal(held(), before);
    }
    assert_true(n > 8);
    mica__text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_of_the_conformance_suite),
        cmocka_unit_test(whole_conformance_suite),
        cmocka_unit_test(tree_holds_values_in_file_order),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(digits_beyond_any_buffer_still_round_correctly),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(failures_say_where_and_what),
        cmocka_unit_test(depth_is_limited_before_anything_grows),
        cmocka_unit_test(many_keys_are_found_and_their_duplicates_refused),
        cmocka_unit_test(reading_a_file_names_it),
        cmocka_unit_test(stream_calls_back_in_file_order),
        cmocka_unit_test(status_of_a_callback_stops_the_stream),
        cmocka_unit_test(strings_are_written_escaped_and_repaired),
        cmocka_unit_test(numbers_are_written_short_and_read_back_the_same),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
