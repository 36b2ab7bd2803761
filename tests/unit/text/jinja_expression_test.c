/* jinja_expression_test.c - the language: what Jinja2 makes of 1300 templates, and where mica
 * differs.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include "io/json.h"
#include "text/chat_template.h"

#define NOW 1752148800 /* 2025-07-10 12:00, the date of the expected outputs */

static char *load(const char *name, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/jinja/%s", MICA_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    fclose(file);
    bytes[*n] = '\0';
    return bytes;
}

static mica_status render(const char *source, size_t n, const char *context, size_t n_context,
                          mica_chat_text *text)
{
    mica_chat_template *compiled;
    *text = (mica_chat_text){0};
    mica_status status = mica_chat_template_new(source, n, NULL, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, context, n_context, NOW, text);
    mica_chat_template_free(compiled);
    return status;
}

/* The context as it stands in the file: the value behind its first key. */
static const char *context_text(const char *bytes, size_t n, size_t *length)
{
    const char *from = (const char *)memchr(bytes, ':', n) + 1, *to = strstr(from, ",\n \"cases\"");
    *length = (size_t)(to - from);
    return from;
}

static void every_template_gives_what_jinja2_gives(void **state)
{
    (void)state;
    size_t n, n_context;
    int wrong = 0;
    mica__json_doc *doc;
    char *bytes = load("expressions.json", &n);
    const char *context = context_text(bytes, n, &n_context);
    assert_ok(mica__json_parse(bytes, n, 0, &doc));
    const mica__json *cases = mica__json_get(mica__json_root(doc), "cases");
    assert_true(cases->n > 1300);
    for (const mica__json *c = cases->first; c; c = c->next) {
        const mica__json *source = mica__json_get(c, "source");
        const mica__json *output = mica__json_get(c, "output");
        mica_chat_text text;
        const mica_status status =
            render(source->string, (size_t)source->length, context, n_context, &text);
        const bool right = output ? status == MICA_OK && text.length == output->length &&
                                        memcmp(text.text, output->string, text.length) == 0
                                  : status != MICA_OK;
        if (!right) {
            wrong++;
            print_message("%s\n  gave %s\n  not  %s\n", source->string,
                          status == MICA_OK ? text.text : mica_last_error(),
                          output ? output->string : mica__json_get(c, "error")->string);
        }
        mica_chat_text_free(&text);
    }
    mica__json_free(doc);
    free(bytes);
    assert_int_equal(wrong, 0);
}

static void assert_renders(const char *source, const char *context, const char *expected)
{
    mica_chat_text text;
    const mica_status status = render(source, strlen(source), context, strlen(context), &text);
    if (status != MICA_OK)
        fail_msg("%s: %s", source, mica_last_error());
    assert_string_equal(text.text, expected);
    mica_chat_text_free(&text);
}

static void assert_fails(const char *source, const char *context, mica_status expected,
                         const char *message)
{
    mica_chat_text text;
    assert_status(render(source, strlen(source), context, strlen(context), &text), expected);
    assert_null(text.text);
    if (!strstr(mica_last_error(), message))
        fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), message);
}

static void integers_beyond_64_bits_are_refused_where_they_are_computed(void **state)
{
    (void)state;
    static const char *const sources[] = {"{{ 9223372036854775807 + 1 }}",
                                          "{{ -9223372036854775807 - 2 }}",
                                          "{{ 2**63 }}",
                                          "{{ 4611686018427387904 * 2 }}",
                                          "{{ 2 ** 1000 }}",
                                          "{{ x + 1 }}",
                                          "{{ (-9223372036854775807 - 1) // -1 }}",
                                          "{{ -(-9223372036854775807 - 1) }}",
                                          "{{ (-9223372036854775807 - 1)|abs }}"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        assert_fails(sources[i], "{\"x\": 9223372036854775808}", MICA_E_ARGUMENT, "64 bits");
    assert_fails("{{ 9223372036854775808 }}", "{}", MICA_E_FORMAT, "64 bits");
    assert_renders("{{ 2**62 }} {{ -2**63 + 0 if false else (-9223372036854775807 - 1) % -1 }}",
                   "{}", "4611686018427387904 0");
}

static void integers_of_the_input_keep_all_their_digits(void **state)
{
    (void)state;
    assert_renders(
        "{{ x }} {{ [x] }} {{ x|tojson }} {{ x == y }} {{ x is integer }} {{ x|string }}",
        "{\"x\": -123456789012345678901234567890, \"y\": -123456789012345678901234567890}",
        "-123456789012345678901234567890 [-123456789012345678901234567890] "
        "-123456789012345678901234567890 True True -123456789012345678901234567890");
}

static void from_json_reads_text(void **state)
{
    (void)state;
    assert_renders("{% set v = x|from_json %}{{ v.a[1] }} {{ v.b is none }} {{ v|tojson }}",
                   "{\"x\": \"{\\\"a\\\": [1, 2.50], \\\"b\\\": null}\"}",
                   "2.5 True {\"a\": [1, 2.5], \"b\": null}");
    assert_fails("{{ 'x {'|from_json }}", "{}", MICA_E_FORMAT, "line 1, column 10");
}

static void tags_of_other_templates_are_refused_by_name(void **state)
{
    (void)state;
    assert_fails("{% include 'a' %}", "{}", MICA_E_UNSUPPORTED, "include");
    assert_fails("a\n {% import 'a' as b %}", "{}", MICA_E_UNSUPPORTED,
                 "line 2, column 5: '{% import %}'");
    assert_fails("{% from 'a' import b %}", "{}", MICA_E_UNSUPPORTED, "from");
    assert_fails("{% extends 'a' %}", "{}", MICA_E_UNSUPPORTED, "extends");
    assert_fails("{% block a %}{% endblock %}", "{}", MICA_E_UNSUPPORTED, "block");
    assert_fails("{% autoescape true %}{% endautoescape %}", "{}", MICA_E_UNSUPPORTED,
                 "autoescape");
    assert_fails("{% nonsense %}", "{}", MICA_E_FORMAT, "unexpected tag 'nonsense'");
}

static void methods_that_mica_lacks_are_refused_by_name(void **state)
{
    (void)state;
    assert_fails("{{ 'a'.encode() }}", "{}", MICA_E_ARGUMENT, "method 'encode' of 'str'");
    assert_fails("{{ {}.fromkeys([1]) }}", "{}", MICA_E_ARGUMENT, "method 'fromkeys' of 'dict'");
    assert_renders("{{ 'a'.encode is defined }}", "{}", "False");
}

static void failures_name_template_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        mica_status status;
        const char *message;
    } cases[] = {
        {"a\n\n  {{ x.y.z }}", MICA_E_ARGUMENT,
         "chat template, line 3, column 7: 'x' is undefined"},
        {"{% for m in [1] %}\n{{ m.role.x }}{% endfor %}", MICA_E_ARGUMENT,
         "chat template, line 2, column 10: 'int object' has no attribute 'role'"},
        {"\xc3\xa9\xc3\xa9{{ none.a.b }}", MICA_E_ARGUMENT,
         "chat template, line 1, column 12: 'None' has no attribute 'a'"},
        {"{% if x %}\r\na", MICA_E_FORMAT, "line 2, column 1: no 'endif'"},
        {"{{ 1 + }}", MICA_E_FORMAT, "line 1, column 8: expected an expression, got '}}'"},
        {"\n{{ 'abc }}", MICA_E_FORMAT, "line 2, column 4: a string that is not closed"},
        {"{{ x", MICA_E_FORMAT, "line 1, column 1: '{{' without '}}'"},
        {"{# x", MICA_E_FORMAT, "line 1, column 1: '{#' without '#}'"},
        {"{{ (1] }}", MICA_E_FORMAT, "line 1, column 6: a closing bracket"},
        {"{% for %}", MICA_E_FORMAT, "line 1, column 8: expected a name, got '%}'"},
        {"{{ 1|nope }}", MICA_E_FORMAT, "line 1, column 6: there is no filter named 'nope'"},
        {"{{ 1 is nope }}", MICA_E_FORMAT, "line 1, column 6: there is no test named 'nope'"},
        {"{{ raise_exception('no ' ~ 'way') }}", MICA_E_ARGUMENT,
         "line 1, column 19: the template refuses this conversation: no way"},
        {"{{ ''.__class__ }}{{ ''.__class__.x }}", MICA_E_ARGUMENT,
         "access to attribute '__class__' of 'str' object is unsafe"},
        {"{{ [].append(1) }}", MICA_E_ARGUMENT,
         "access to attribute 'append' of 'list' object is unsafe"},
        {"{{ 'a' + 1 }}", MICA_E_ARGUMENT,
         "column 8: can only concatenate str (not \"int\") to str"},
        {"{{ 1 < 'a' }}", MICA_E_ARGUMENT,
         "'<' not supported between instances of 'int' and 'str'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(cases[i].source, "{}", cases[i].status, cases[i].message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_gives_what_jinja2_gives),
        cmocka_unit_test(integers_beyond_64_bits_are_refused_where_they_are_computed),
        cmocka_unit_test(integers_of_the_input_keep_all_their_digits),
        cmocka_unit_test(from_json_reads_text),
        cmocka_unit_test(tags_of_other_templates_are_refused_by_name),
        cmocka_unit_test(methods_that_mica_lacks_are_refused_by_name),
        cmocka_unit_test(failures_name_template_line_and_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
