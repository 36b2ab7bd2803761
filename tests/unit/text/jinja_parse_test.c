/* jinja_parse_test.c - shapes of parsed templates, and the limits of the parser at their edges.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "base/text_buffer.h"
#include "text/jinja_parser.h"

static void parse(const char *source, jinja_program *program)
{
    assert_ok(mica__jinja_parse("t", source, strlen(source), 64 << 20, program));
}

/* Writes an expression with a bracket around every operation. */
static void show(const jinja_program *program, const jinja_node *node, mica__text *out)
{
    switch ((jinja_node_kind)node->kind) {
    case NODE_CONST:
        mica__text_format(out, "%lld", (long long)node->value->integer);
        break;
    case NODE_NAME:
        mica__text_add_string(out, program->names[node->name].text);
        break;
    case NODE_UNARY:
    case NODE_NOT:
        mica__text_add_string(out, node->kind == NODE_NOT ? "(not " : "(-");
        show(program, node->a, out);
        mica__text_add_char(out, ')');
        break;
    case NODE_FILTER:
    case NODE_TEST:
        mica__text_add_char(out, '(');
        show(program, node->a, out);
        mica__text_format(out, "%c%.*s", node->kind == NODE_FILTER ? '|' : '?',
                          (int)node->value->text.length, mica__jinja_chars(node->value));
        mica__text_add_char(out, ')');
        break;
    case NODE_COMPARE:
    case NODE_CONCAT:
        mica__text_add_char(out, '(');
        show(program, node->a, out);
        for (const jinja_node *n = node->kind == NODE_COMPARE ? node->b : node->a->next; n;
             n = n->next) {
            mica__text_add_string(out, node->kind == NODE_CONCAT ? "~"
                                       : n->op == OP_IN          ? " in "
                                       : n->op == OP_NOT_IN      ? " not in "
                                                                 : "<");
            show(program, node->kind == NODE_COMPARE ? n->a : n, out);
        }
        mica__text_add_char(out, ')');
        break;
    default:
        mica__text_add_char(out, '(');
        show(program, node->a, out);
        mica__text_add_string(out, node->kind == NODE_AND  ? " and "
                                   : node->kind == NODE_OR ? " or "
                                   : node->kind == NODE_COND
                                       ? " if "
                                       : mica__jinja_token_name((jinja_token_kind)node->op));
        show(program, node->b, out);
        if (node->kind == NODE_COND && node->c) {
            mica__text_add_string(out, " else ");
            show(program, node->c, out);
        }
        mica__text_add_char(out, ')');
    }
}

/* Jinja's documentation and grammar: what binds tighter than what. */
static void operators_bind_as_in_jinja(void **state)
{
    (void)state;
    static const struct {
        const char *source, *shape;
    } cases[] = {
        {"a + b * c", "(a+(b*c))"},
        {"a - b - c", "((a-b)-c)"},
        {"a ~ b + c", "((a~b)+c)"},
        {"a ~ b * c ~ d", "(a~(b*c)~d)"},
        {"-a ** b", "((-a)**b)"},
        {"a ** b ** c", "((a**b)**c)"},
        {"-a|f", "((-a)|f)"},
        {"a + b|f", "(a+(b|f))"},
        {"not a in b", "(not (a in b))"},
        {"a not in b and c", "((a not in b) and c)"},
        {"a or b and not c", "(a or (b and (not c)))"},
        {"a < b < c", "(a<b<c)"},
        {"a if b else c if d else e", "(a if b else (c if d else e))"},
        {"a if b", "(a if b)"},
        {"a is string and b", "((a?string) and b)"},
        {"not a is string", "(not (a?string))"},
        {"a|f is string", "((a|f)?string)"},
        {"a // b % c", "((a//b)%c)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[128];
        jinja_program program;
        mica__text out = {.kind = MICA_MEMORY_OTHER};
        snprintf(source, sizeof source, "{{ %s }}", cases[i].source);
        for (char *p = source; *p; p++) /* |f stands for a filter that exists */
            if (p[0] == '|' && p[1] == 'f')
                p[1] = 'e';
        parse(source, &program);
        show(&program, program.body->a, &out);
        for (char *p = out.bytes; *p; p++)
            if (p[0] == '|' && p[1] == 'e')
                p[1] = 'f';
        assert_string_equal(out.bytes, cases[i].shape);
        mica__text_free(&out);
        mica__jinja_program_free(&program);
    }
}

static mica_status parse_nested(const char *open, int n, const char *middle, const char *close)
{
    mica__text out = {.kind = MICA_MEMORY_OTHER};
    jinja_program program;
    for (int i = 0; i < n; i++)
        mica__text_add_string(&out, open);
    mica__text_add_string(&out, middle);
    for (int i = 0; i < n; i++)
        mica__text_add_string(&out, close);
    assert_ok(out.status);
    const mica_status status =
        mica__jinja_parse("t", out.bytes, (size_t)out.length, 64 << 20, &program);
    mica__jinja_program_free(&program);
    mica__text_free(&out);
    return status;
}

static void statements_may_nest_to_the_limit_and_no_deeper(void **state)
{
    (void)state;
    /* The template itself is the first level. */
    assert_ok(parse_nested("{% if x %}", MAX_STATEMENTS - 1, "a", "{% endif %}"));
    assert_status(parse_nested("{% if x %}", MAX_STATEMENTS, "a", "{% endif %}"), MICA_E_BUDGET);
    assert_ok(parse_nested("{% macro f(x) %}", MAX_STATEMENTS - 1, "a", "{% endmacro %}"));
    assert_ok(parse_nested("{% for x in y %}", MAX_STATEMENTS - 1, "a", "{% endfor %}"));
}

static void trees_know_their_depth(void **state)
{
    (void)state;
    jinja_program program;
    parse("{{ ((a + b) * c).d }}", &program);
    assert_int_equal(program.body->kind, NODE_PRINT);
    assert_int_equal(program.body->depth, 5);
    mica__jinja_program_free(&program);
}

static void memory_of_a_program_has_a_budget(void **state)
{
    (void)state;
    jinja_program program;
    const char *source = "{% for x in y %}{{ x.a.b.c }}{% endfor %}";
    assert_status(mica__jinja_parse("t", source, strlen(source), 1000, &program), MICA_E_BUDGET);
    mica__jinja_program_free(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_bind_as_in_jinja),
        cmocka_unit_test(statements_may_nest_to_the_limit_and_no_deeper),
        cmocka_unit_test(trees_know_their_depth),
        cmocka_unit_test(memory_of_a_program_has_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
