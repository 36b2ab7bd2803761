/* public_json_test.c - JSON documents through the public header.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/json.h>

#include "base/alloc.h"

static mica_json_doc *parse(const char *text)
{
    mica_json_doc *doc;
    assert_ok(mica_json_parse(text, strlen(text), &doc));
    return doc;
}

static void values_are_what_was_written(void **state)
{
    (void)state;
    mica_json_doc *doc = parse("{\"a\": [true, -3, 2.5, \"x\\u0000y\", null], \"b\": {}}");
    const mica_json *root = mica_json_root(doc), *a = mica_json_get(root, "a");
    int64_t n;
    assert_int_equal(mica_json_count(root), 2);
    assert_string_equal(mica_json_key(a), "a");
    assert_int_equal(mica_json_count(a), 5);
    const mica_json *at = mica_json_first(a);
    assert_true(mica_json_type_of(at) == MICA_JSON_BOOL && mica_json_bool(at));
    assert_null(mica_json_key(at));
    at = mica_json_next(at);
    assert_true(mica_json_type_of(at) == MICA_JSON_INTEGER && mica_json_integer(at) == -3);
    assert_true(mica_json_number(at) == -3);
    at = mica_json_next(at);
    assert_true(mica_json_type_of(at) == MICA_JSON_REAL && mica_json_number(at) == 2.5);
    assert_int_equal(mica_json_integer(at), 0);
    at = mica_json_next(at);
    assert_memory_equal(mica_json_string(at, &n), "x\0y", 4);
    assert_int_equal(n, 3);
    at = mica_json_next(at);
    assert_int_equal(mica_json_type_of(at), MICA_JSON_NULL);
    assert_null(mica_json_next(at));
    assert_null(mica_json_first(mica_json_get(root, "b")));
    mica_json_free(doc);
}

static void what_is_not_there_is_nothing(void **state)
{
    (void)state;
    int64_t n = 7;
    assert_int_equal(mica_json_type_of(NULL), MICA_JSON_NULL);
    assert_false(mica_json_bool(NULL));
    assert_true(mica_json_number(NULL) == 0);
    assert_null(mica_json_string(NULL, &n));
    assert_int_equal(n, 0);
    assert_null(mica_json_get(NULL, "x"));
    assert_null(mica_json_next(NULL));
    mica_json_doc *doc = parse("3");
    assert_null(mica_json_get(mica_json_root(doc), "x"));
    assert_null(mica_json_string(mica_json_root(doc), NULL));
    assert_int_equal(mica_json_count(mica_json_root(doc)), 0);
    mica_json_free(doc);
    mica_json_free(NULL);
}

static void what_is_no_json_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "1 2", "NaN", "'x'"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mica_json_doc *doc;
        assert_status(mica_json_parse(texts[i], strlen(texts[i]), &doc), MICA_E_FORMAT);
    }
}

static void text_is_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *text, *quoted;
        size_t n;
    } cases[] = {{"", "\"\"", 0},
                 {"a\"\\\n\x01", "\"a\\\"\\\\\\n\\u0001\"", 5},
                 {"z\xc3\xb6", "\"z\xc3\xb6\"", 3},
                 {"\xff\x00", "\"\xef\xbf\xbd\\u0000\"", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[MICA_JSON_QUOTED_BYTES(5)];
        const size_t n = mica_json_quote(cases[i].text, cases[i].n, out);
        assert_int_equal(n, strlen(cases[i].quoted));
        assert_memory_equal(out, cases[i].quoted, n);
    }
    char out[MICA_JSON_QUOTED_BYTES(1)];
    mica__fault_after(1, false);
    assert_int_equal(mica_json_quote("x", 1, out), 0);
    mica__fault_after(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_what_was_written),
        cmocka_unit_test(what_is_not_there_is_nothing),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(text_is_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
