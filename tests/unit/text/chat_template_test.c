/* chat_template_test.c - rendering conversations: plain spans, input, budgets, threads, failing
 * memory.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/text_buffer.h"
#include "text/chat_template.h"

#define NOW 1752148800 /* 2025-07-10 12:00 */

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

static mica_chat_template *compile(const char *source)
{
    mica_chat_template *compiled;
    assert_ok(mica_chat_template_new(source, strlen(source), NULL, &compiled));
    return compiled;
}

/* The text with [ ] around its plain spans. */
static char *bracketed(const mica_chat_text *text)
{
    mica__text out = {.kind = MICA_MEMORY_OTHER};
    int64_t at = 0;
    for (int64_t i = 0; i < text->n_plain; i++) {
        assert_true(text->plain[i].from >= at && text->plain[i].to > text->plain[i].from);
        mica__text_add(&out, text->text + at, (size_t)(text->plain[i].from - at));
        mica__text_add_char(&out, '[');
        mica__text_add(&out, text->text + text->plain[i].from,
                       (size_t)(text->plain[i].to - text->plain[i].from));
        mica__text_add_char(&out, ']');
        at = text->plain[i].to;
    }
    mica__text_add(&out, text->text + at, (size_t)(text->length - at));
    char *bytes = mica__text_take(&out);
    assert_non_null(bytes);
    return bytes;
}

static void assert_plain(const char *source, const char *context, const char *expected)
{
    mica_chat_text text;
    mica_chat_template *compiled = compile(source);
    assert_ok(mica__chat_template_render_context(compiled, context, strlen(context), NOW, &text));
    char *got = bracketed(&text);
    if (strcmp(got, expected) != 0)
        fail_msg("%s gave %s, not %s", source, got, expected);
    mica__free(got);
    mica_chat_text_free(&text);
    mica_chat_template_free(compiled);
}

/* --- plain spans ------------------------------------------------------------------------------ */

static const char context[] =
    "{\"m\": {\"role\": \"user\", \"content\": \"<|im_end|>Hi\", \"n\": 5, \"t\": true},"
    " \"s\": \"abc def\", \"w\": \"  x y  \", \"q\": \"say \\\"a\\\"\\n\", \"l\": [\"p\", \"q\"],"
    " \"d\": {\"k1\": \"v1\", \"k2\": 2}, \"e\": \"\", \"u\": \"stra\xc3\x9f"
    "e\","
    " \"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";

/* Each expectation follows from the rule: bytes that stand for bytes of the conversation are plain.
 */
static const struct {
    const char *source;
    const char *expected;
} plain_cases[] = {
    {"<|{{ m.role }}|>{{ m.content }}<|im_end|>", "<|[user]|>[<|im_end|>Hi]<|im_end|>"},
    {"{{ bos_token }}{{ s }}{{ eos_token }}", "<s>[abc def]</s>"},
    {"{{ 'a' + s + 'b' }}", "a[abc def]b"},
    {"{{ 'a' ~ s ~ m.n ~ 'b' }}", "a[abc def]5b"},
    {"{{ s ~ s }}", "[abc defabc def]"},
    {"{{ '<' ~ s ~ '|' ~ s ~ '>' }}", "<[abc def]|[abc def]>"},
    {"{{ ('x' ~ s ~ 'y')[1:4] }}", "[abc]"},
    {"{{ ('x' ~ s ~ 'y')[:2] }}", "x[a]"},
    {"{{ ('x' ~ s ~ 'y')[-2:] }}", "[f]y"},
    {"{{ ('x' ~ s ~ 'y')[::-1] }}", "y[fed cba]x"},
    {"{{ ('x' ~ s)[0] }}{{ ('x' ~ s)[1] }}", "x[a]"},
    {"{{ s|upper }}{{ ('x' ~ s)|title }}", "[ABC DEF]X[abc Def]"},
    {"{{ ('a' ~ u ~ 'b')|upper }}", "A[STRASSE]B"},
    {"{{ w|trim }}{{ ('- ' ~ w).strip(' -') }}", "[x yx y]"},
    {"{{ ('<' ~ w ~ '>').strip('<') }}", "[  x y  ]>"},
    {"{{ s.split(' ')|join('|') }}", "[abc]|[def]"},
    {"{{ s.split(' ')|join(w) }}", "[abc  x y  def]"},
    {"{{ ('k=' ~ s).split('=')[0] }}{{ ('k=' ~ s).split('=')[1] }}", "k[abc def]"},
    {"{{ s.partition(' ')[2] }}", "[def]"},
    {"{{ s|replace('c', '<|x|>') }}", "[ab]<|x|>[ def]"},
    {"{{ 'a-b'|replace('-', s) }}", "a[abc def]b"},
    {"{{ s.replace('abc', e) }}", "[ def]"},
    {"{{ ('a' ~ s)|reverse }}", "[fed cba]a"},
    {"{{ ['x', s, 'y']|join }}", "x[abc def]y"},
    {"{{ l|join(', ') }}{{ ', '.join(l) }}", "[p], [qp], [q]"},
    {"{{ l }}", "[['p'], ['q']]"},
    {"{{ l|tojson }}", "[[\"p\"], [\"q\"]]"},
    {"{{ d|tojson }}", "{[\"k1\"]: [\"v1\"], [\"k2\"]: 2}"},
    {"{{ {'a': s}|tojson }}", "{\"a\": [\"abc def\"]}"},
    {"{{ q|tojson }}", "[\"say \\\"a\\\"\\n\"]"},
    {"{{ ('a' ~ q ~ 'b')|tojson }}", "[\"]a[say \\\"a\\\"\\n]b[\"]"},
    {"{{ u|tojson(ensure_ascii=true) }}", "[\"stra\\u00dfe\"]"},
    {"{{ [q] }}", "[['say \"a\"\\n']]"},
    {"{{ '%s: %s' % ('a', s) }}", "a: [abc def]"},
    {"{{ '%5s|%-5s|' % (l[0], l[1]) }}", "    [p]|[q]    |"},
    {"{{ s % () }}", "[abc def]"},
    {"{{ '{} {x}'.format(s, x=l[0]) }}", "[abc def] [p]"},
    {"{{ (l[0] ~ '{}').format('z') }}", "[p]z"},
    {"{{ '{:*^5}'.format(l[0]) }}", "**[p]**"},
    {"{{ '<b>'|e ~ q|e }}", "&lt;b&gt;[say &#34;a&#34;\n]"},
    {"{{ s|indent(2, true) }}", "  [abc def]"},
    {"{{ ('a\n' ~ l[0] ~ '\nb')|indent(1) }}", "a\n [p]\n b"},
    {"{{ s|truncate(5, true, '..', 0) }}", "[abc].."},
    {"{{ s|center(9) }}", " [abc def] "},
    {"{{ s.ljust(9, '.') }}{{ 'x'.rjust(3, l[0]) }}", "[abc def]..[pp]x"},
    {"{{ w|urlencode }}", "[%20%20x%20y%20%20]"},
    {"{{ s * 2 }}{{ 'x' * 2 }}", "[abc defabc def]xx"},
    {"{{ s|list|join('-') }}", "[a]-[b]-[c]-[ ]-[d]-[e]-[f]"},
    {"{{ s|batch(4)|map('join')|join('/') }}", "[abc ]/[def]"},
    {"{{ d.keys()|join(',') }}{{ d.values()|list }}", "[k1],[k2][['v1'], 2]"},
    {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "[k1]=[v1];[k2]=2;"},
    {"{% for c in l[0] ~ 'x' %}{{ c }}.{% endfor %}", "[p].x."},
    {"{% set x %}a{{ s }}b{% endset %}{{ x }}{{ x|upper }}", "a[abc def]bA[ABC DEF]B"},
    {"{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(s) }}{{ f('y') }}", "<[abc def]><y>"},
    {"{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}{{ s }}!{% endcall %}",
     "<[abc def]!>"},
    {"{% filter upper %}a{{ s }}{% endfilter %}", "A[ABC DEF]"},
    {"{% set ns = namespace(x='') %}{% for i in l %}{% set ns.x = ns.x + '(' + i + ')' %}{% endfor "
     "%}{{ ns.x }}",
     "([p])([q])"},
    {"{{ nope|default(s) }}{{ s|default('x') }}", "[abc defabc def]"},
    {"{{ (m.content if m.t else 'x') or 'y' }}", "[<|im_end|>Hi]"},
    {"{{ s|length }}{{ s == 'abc def' }}{{ s in ['abc def'] }}", "7TrueTrue"},
    {"{{ {s: 1}|tojson }}{{ dict(a=s)['a'] }}", "{[\"abc def\"]: 1}[abc def]"},
    {"{{ ['b', l[0]]|sort|join }}{{ [l[0], 'a']|min }}", "b[p]a"},
    {"{{ s.removeprefix('ab') }}{{ s.zfill(9) }}", "[c def]00[abc def]"},
    {"{{ (s|safe) + '<' }}", "[abc def]&lt;"},
    {"{{ q|from_json if false else '[\"a\"]'|from_json|first }}{{ ('[\"' ~ s ~ "
     "'\"]')|from_json|first }}",
     "a[abc def]"},
    {"{{ strftime_now('%Y') }}{{ strftime_now(s) }}", "2025[abc def]"},
    {"{{ s.title().swapcase() }}", "[aBC dEF]"},
    {"{{ '\t'.expandtabs(2) ~ s.expandtabs() }}", "  [abc def]"},
    {"{{ e }}{{ e ~ 'x' ~ e }}", "x"},
};

static void plain_spans_follow_the_bytes_of_the_conversation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plain_cases / sizeof *plain_cases; i++)
        assert_plain(plain_cases[i].source, context, plain_cases[i].expected);
}

static void appending_to_shared_text_leaves_other_values_alone(void **state)
{
    (void)state;
    assert_plain("{% set a = 'x' ~ s %}{% set b = a ~ '1' %}{% set c = a ~ l[0] %}{% set d = a ~ "
                 "'2' %}{{ a }},{{ b }},{{ c }},{{ d }}",
                 context, "x[abc def],x[abc def]1,x[abc defp],x[abc def]2");
    assert_plain(
        "{% set a = [1] + [2] %}{% set b = a + [3] %}{% set c = a + [4] %}{{ a }}{{ b }}{{ c "
        "}}",
        context, "[1, 2][1, 2, 3][1, 2, 4]");
}

/* --- the input -------------------------------------------------------------------------------- */

static const char conversation[] =
    "{%- for m in messages -%}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{%- endfor -%}"
    "{%- if tools -%}{{ tools | tojson }}{%- endif -%}"
    "{%- if tools is none %}none{% endif -%}"
    "{%- if add_generation_prompt %}<assistant>{% if enable_thinking is defined and not "
    "enable_thinking %}<think></think>{% endif %}{%- endif -%}{{ bos_token }}{{ documents }}";

static mica_chat_input input_of(const char *messages)
{
    return (mica_chat_input){
        .messages_json = messages, .messages_length = strlen(messages), .now = NOW};
}

static void assert_input(const mica_chat_template *compiled, const mica_chat_input *input,
                         const char *expected)
{
    mica_chat_text text;
    assert_ok(mica_chat_template_render(compiled, input, &text));
    char *got = bracketed(&text);
    assert_string_equal(got, expected);
    mica__free(got);
    mica_chat_text_free(&text);
}

static void conversation_tools_variables_and_tokens_reach_the_template(void **state)
{
    (void)state;
    mica_chat_template *compiled = compile(conversation);
    mica_chat_input input = input_of("[{\"role\": \"user\", \"content\": \"hi\"}]");
    assert_input(compiled, &input, "<[user]>[hi]</[user]>noneNone");
    const mica_chat_token tokens[] = {{"bos_token", "<s>"}, {"pad_token", "<pad>"}};
    input.tokens = tokens;
    input.n_tokens = 2;
    input.add_generation_prompt = true;
    assert_input(compiled, &input, "<[user]>[hi]</[user]>none<assistant><s>None");
    input.tools_json = "[{\"name\": \"f\"}]";
    input.tools_length = strlen(input.tools_json);
    input.extra_json = "{\"enable_thinking\": false, \"documents\": \"D\", \"unused\": 1}";
    input.extra_length = strlen(input.extra_json);
    assert_input(compiled, &input,
                 "<[user]>[hi]</[user]>[{[\"name\"]: [\"f\"]}]<assistant><think></think><s>[D]");
    mica_chat_template_free(compiled);
}

static void assert_refused(const mica_chat_template *compiled, const mica_chat_input *input,
                           mica_status status, const char *message)
{
    mica_chat_text text;
    assert_status(mica_chat_template_render(compiled, input, &text), status);
    assert_null(text.text);
    if (!strstr(mica_last_error(), message))
        fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), message);
}

static void bad_input_is_refused_by_name(void **state)
{
    (void)state;
    mica_chat_template *compiled = compile(conversation);
    mica_chat_input input = input_of("[{\"role\": }]");
    assert_refused(compiled, &input, MICA_E_FORMAT,
                   "the messages of a chat template: JSON, byte 10");
    input = input_of("{}");
    assert_refused(compiled, &input, MICA_E_ARGUMENT,
                   "the messages of a chat template must be an array, not dict");
    input = (mica_chat_input){.now = NOW};
    assert_refused(compiled, &input, MICA_E_ARGUMENT, "needs messages");
    input = input_of("[]");
    input.tools_json = "{}";
    input.tools_length = 2;
    assert_refused(compiled, &input, MICA_E_ARGUMENT, "the tools of a chat template");
    input = input_of("[]");
    input.extra_json = "{\"messages\": []}";
    input.extra_length = strlen(input.extra_json);
    assert_refused(compiled, &input, MICA_E_ARGUMENT, "messages of a chat template is no extra");
    input = input_of("[]");
    const mica_chat_token bad = {"bos_token", "\xff"};
    input.tokens = &bad;
    input.n_tokens = 1;
    assert_refused(compiled, &input, MICA_E_ARGUMENT, "bos_token is not UTF-8");
    mica_chat_template_free(compiled);
}

static void arguments_of_tool_calls_become_objects_on_request(void **state)
{
    (void)state;
    mica_chat_template *compiled =
        compile("{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }};"
                "{% endfor %}{% endfor %}");
    mica_chat_input input = input_of(
        "[{\"tool_calls\": [{\"function\": {\"arguments\": \"{\\\"a\\\": 1}\"}},"
        "{\"function\": {\"arguments\": \"{bad\"}}, {\"function\": {\"arguments\": \"[1]\"}},"
        "{\"function\": {\"arguments\": {\"b\": 2}}}]}, {\"tool_calls\": null}, {\"tool_calls\": "
        "[7]}, 5]");
    mica_chat_template *tolerant =
        compile("{% for m in messages if m is mapping %}{% for c in m.tool_calls or [] if c is "
                "mapping %}{{ c.function.arguments }};{% endfor %}{% endfor %}");
    assert_input(tolerant, &input, "[{\"a\": 1}];[{bad];[[1]];{['b']: 2};");
    input.parse_arguments = true;
    assert_input(tolerant, &input, "{['a']: 1};[{bad];[[1]];{['b']: 2};");
    mica_chat_template_free(tolerant);
    mica_chat_template_free(compiled);
}

static void templates_tell_what_they_ask_for(void **state)
{
    (void)state;
    mica_chat_template *compiled = compile(
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = true "
        "%}{% endif %}{% set x = 1 %}{{ x }}{% for m in messages if m.ok %}{{ m }}{{ "
        "loop.index }}{% endfor %}{% macro f(a, b=tools) %}{{ a }}{{ kwargs }}{{ later }}{% "
        "endmacro %}{{ f(range(3)) }}{{ m }}{% with w=1 %}{{ w }}{% endwith %}{% set ns = "
        "namespace() %}{% set ns.y = date_string %}");
    static const char *const wanted[] = {
        "add_generation_prompt", "messages", "tools", "later", "m", "date_string"};
    assert_int_equal(mica_chat_template_variable_count(compiled), 6);
    for (size_t i = 0; i < 6; i++) {
        bool found = false;
        for (int64_t k = 0; k < 6; k++)
            found = found || strcmp(mica_chat_template_variable(compiled, k), wanted[i]) == 0;
        if (!found || !mica_chat_template_uses(compiled, wanted[i]))
            fail_msg("%s is not reported", wanted[i]);
    }
    assert_null(mica_chat_template_variable(compiled, 6));
    assert_null(mica_chat_template_variable(compiled, -1));
    static const char *const not_wanted[] = {"x", "loop", "a", "range", "ns", "w", "f", "enable"};
    for (size_t i = 0; i < sizeof not_wanted / sizeof *not_wanted; i++)
        assert_false(mica_chat_template_uses(compiled, not_wanted[i]));
    mica_chat_template_free(compiled);
}

static void dates_come_from_the_input(void **state)
{
    (void)state;
    mica_chat_template *compiled = compile("{{ strftime_now('%Y-%m-%d %H:%M:%S %a %j') }}");
    mica_chat_input input = input_of("[]");
    static const struct {
        int64_t now;
        const char *text;
    } cases[] = {{NOW, "2025-07-10 12:00:00 Thu 191"},
                 {951782400, "2000-02-29 00:00:00 Tue 060"},
                 {4107542399, "2100-02-28 23:59:59 Sun 059"},
                 {-1, "1969-12-31 23:59:59 Wed 365"},
                 {-2208988800, "1900-01-01 00:00:00 Mon 001"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        input.now = cases[i].now;
        assert_input(compiled, &input, cases[i].text);
    }
    mica_chat_template_free(compiled);
}

/* --- budgets ---------------------------------------------------------------------------------- */

static void assert_over_budget(const char *source, const char *message)
{
    mica_chat_template *compiled;
    mica_chat_text text = {0};
    const int64_t before = held();
    const mica_chat_template_options options = {
        .max_steps = 1000000, .max_value_bytes = 16 << 20, .max_output_bytes = 1 << 20};
    mica_status status = mica_chat_template_new(source, strlen(source), &options, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, context, strlen(context), NOW, &text);
    mica_chat_template_free(compiled);
    if (status != MICA_E_BUDGET || text.text || !strstr(mica_last_error(), message))
        fail_msg("%.80s: %s: %s", source, mica_status_name(status), mica_last_error());
    assert_int_equal(held(), before);
}

static void malicious_templates_end_at_a_budget(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        const char *message;
    } cases[] = {
        {"{{ range(10**12) }}", "column 9: a range of 1000000000000 values"},
        {"{{ range(-9223372036854775807, 9223372036854775807)|list }}", "a range of"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests deeper than"},
        {"{% macro f(x) %}{% call f(1) %}{{ caller() }}{% endcall %}{% endmacro %}{{ f(1) }}",
         "nests deeper than"},
        {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nests deeper than"},
        {"{% set ns = namespace(s='ab') %}{% for i in range(1000) %}{% set ns.s = ns.s ~ ns.s "
         "%}{% endfor %}",
         "budget"},
        {"{% set ns = namespace(s='ab') %}{% for i in range(1000) %}{% set ns.s = ns.s ~ ns.s[1:] "
         "~ "
         "'x' %}{% endfor %}",
         "budget"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(1000) %}{% set ns.l = ns.l + ns.l "
         "%}{% endfor %}",
         "budget"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] "
         "%}{% endfor %}{{ ns.l }}",
         "budget"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] "
         "%}{% endfor %}{{ ns.l|tojson }}",
         "budget"},
        {"{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] "
         "%}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
         "budget"},
        {"{% set ns = namespace(a=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) "
         "%}{% endfor %}{{ {ns.a: 1} }}",
         "budget"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] "
         "%}{% endfor %}{{ ns.l }}",
         "nested deeper"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] "
         "%}{% endfor %}{{ ns.l|tojson }}",
         "nested deeper"},
        {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
         "budget of steps"},
        {"{% for i in range(100000) if false %}{% endfor %}{% for i in range(100000) if false "
         "%}{% endfor %}{% for i in range(100000) if false %}{% endfor %}{% for i in range(100000) "
         "if false %}{% endfor %}",
         "budget of"},
        {"{% for i in range(100000) %}0123456789abcdef{% endfor %}", "output passes its budget"},
        {"{% set x %}{% for i in range(100000) %}0123456789abcdef{% endfor %}{% endset %}",
         "output passes its budget"},
        {"{{ 'a' * 10**12 }}", "budget"},
        {"{{ [1] * 10**12 }}", "budget"},
        {"{{ 'a'.center(10**12) }}", "budget"},
        {"{{ 'a'.ljust(10**12, 'b') }}", "budget"},
        {"{{ 'a'|center(10**12) }}", "budget"},
        {"{{ '1'.zfill(10**12) }}", "budget"},
        {"{{ '\t'.expandtabs(10**12) }}", "budget"},
        {"{{ '%1000000000000d' % 1 }}", "budget"},
        {"{{ '%*d' % (10**12, 1) }}", "budget"},
        {"{{ '%.1000000f' % 1.5 }}", "precision"},
        {"{{ '{:1000000000000}'.format(1) }}", "budget"},
        {"{{ '{:.1000000f}'.format(1.5) }}", "precision"},
        {"{{ s|indent(10**12) }}", "budget"},
        {"{{ l|tojson(indent=10**12) }}", "budget"},
        {"{{ l|batch(10**12, 'x')|list }}", "budget"},
        {"{{ l|slice(10**12)|list }}", "budget"},
        {"{% set x = 'ab' * 10000 %}{{ x|replace('', x) }}", "budget"},
        {"{% set x = 'ab' * 10000 %}{{ x.join(x) }}", "budget"},
        {"{% set x = 'a' * 100000 %}{% for i in range(10000) %}{% set y = x.rfind('a' * 50000 ~ "
         "'b') "
         "%}{% endfor %}",
         "budget"},
        {"{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in x %}{% endif "
         "%}{% endfor %}",
         "budget"},
        {"{% set x = '\\u00e9' * 1000000 %}{% for i in range(100000) %}{% if x[500000] %}{% endif "
         "%}{% endfor %}",
         "budget"},
        {"{% set x = range(100000)|list %}{% for i in x %}{% if -1 in x %}{% endif %}{% endfor %}",
         "budget of steps"},
        {"{% set x = range(100000)|list %}{% for i in x %}{{ x|sort|first }}{% endfor %}",
         "budget"},
        {"{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x|length }}{{ x|upper|length }}"
         "{% endfor %}",
         "budget"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_over_budget(cases[i].source, cases[i].message);
}

/* `head`, `piece` n times, `tail`. */
static char *repeated(const char *head, const char *piece, int n, const char *tail)
{
    mica__text out = {.kind = MICA_MEMORY_OTHER};
    mica__text_add_string(&out, head);
    for (int i = 0; i < n; i++)
        mica__text_add_string(&out, piece);
    mica__text_add_string(&out, tail);
    return mica__text_take(&out);
}

static void source_that_nests_too_deep_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *head, *piece, *tail;
    } cases[] = {
        {"{{ ", "(", "1"},
        {"{{ ", "[", "1"},
        {"{{ ", "{1:", "1"},
        {"{{ ", "-", "1 }}"},
        {"{{ ", "not ", "1 }}"},
        {"{{ 1", "+1", " }}"},
        {"{{ x", ".x", " }}"},
        {"{{ x", "[0]", " }}"},
        {"{{ x", "()", " }}"},
        {"{{ x", "|e", " }}"},
        {"{{ 1", " and 1", " }}"},
        {"{{ 1", " if 1 else 1", " }}"},
        {"{{ x", " is string", " }}"},
        {"{{ x(", "x(", " }}"},
        {"", "{% if 1 %}", ""},
        {"", "{% for x in y %}", ""},
        {"", "{% macro f() %}", ""},
        {"", "{% call f() %}", ""},
        {"", "{% set x %}", ""},
        {"", "{% filter e %}", ""},
        {"", "{% with %}", ""},
        {"{% set ", "(", "x"},
        {"{% for ", "(", "x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_chat_template *compiled;
        char *source = repeated(cases[i].head, cases[i].piece, 5000, cases[i].tail);
        const mica_status status = mica_chat_template_new(source, strlen(source), NULL, &compiled);
        if (status != MICA_E_BUDGET && status != MICA_E_FORMAT)
            fail_msg("%s%s: %s", cases[i].head, cases[i].piece, mica_status_name(status));
        mica_chat_template_free(compiled);
        mica__free(source);
    }
}

static void long_lists_and_chains_of_branches_are_no_depth(void **state)
{
    (void)state;
    static const struct {
        const char *head, *piece, *tail, *expected;
    } cases[] = {
        {"{{ [1", ",1", "]|length }}", "5001"},
        {"{{ ('' ", "~ 'x'", ")|length }}", "5000"},
        {"{{ 1", " < 2", " }}", "False"},
        {"{% if 0 %}", "{% elif 0 %}a", "{% else %}b{% endif %}", "b"},
        {"", "{% if 1 %}{% endif %}", "x", "x"},
        {"{{ 'a' ", "'b'", "|length }}", "5001"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *source = repeated(cases[i].head, cases[i].piece, 5000, cases[i].tail);
        assert_plain(source, "{}", cases[i].expected);
        mica__free(source);
    }
}

static void limits_of_the_source_are_checked(void **state)
{
    (void)state;
    mica_chat_template *compiled;
    mica_chat_template_options options = {.name = "my template", .max_source_bytes = 10};
    assert_status(mica_chat_template_new("12345678901", 11, &options, &compiled), MICA_E_BUDGET);
    assert_non_null(strstr(mica_last_error(), "my template: 11 bytes"));
    assert_ok(mica_chat_template_new("1234567890", 10, &options, &compiled));
    mica_chat_template_free(compiled);
    assert_status(mica_chat_template_new("a\xff", 2, NULL, &compiled), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "not UTF-8 at byte 1"));
    options = (mica_chat_template_options){.max_depth = 3000};
    assert_status(mica_chat_template_new("", 0, &options, &compiled), MICA_E_ARGUMENT);
    options = (mica_chat_template_options){.max_steps = -1};
    assert_status(mica_chat_template_new("", 0, &options, &compiled), MICA_E_ARGUMENT);
    assert_ok(mica_chat_template_new(NULL, 0, NULL, &compiled));
    mica_chat_template_free(compiled);
    mica_chat_template_free(NULL);
}

static void deepest_allowed_evaluation_fits_the_stack(void **state)
{
    (void)state;
    mica_chat_template *compiled;
    mica_chat_text text;
    const char *source = "{% macro f(x) %}{{ ((((f((x)) ~ '') ~ '') ~ '') if true else '') }}"
                         "{% endmacro %}{{ f(1) }}";
    const mica_chat_template_options options = {.max_depth = 2000};
    assert_ok(mica_chat_template_new(source, strlen(source), &options, &compiled));
    assert_status(mica__chat_template_render_context(compiled, "{}", 2, NOW, &text), MICA_E_BUDGET);
    mica_chat_template_free(compiled);
}

/* --- threads and memory ----------------------------------------------------------------------- */

static const char busy[] =
    "{% macro f(m) %}{{ m.role|upper }}: {{ m.content|trim|replace('a', 'b')|tojson }}{% endmacro "
    "%}"
    "{% for m in messages %}{{ f(m) }}{% if loop.changed(m.role) %}*{% endif %}\n{% endfor %}"
    "{% set ns = namespace(l=[], s='') %}{% for i in range(50) %}{% set ns.s = ns.s ~ i ~ ',' %}"
    "{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.s }}{{ ns.l|sort(reverse=true)|join('-') }}"
    "{{ messages|map(attribute='role')|unique|list }}{{ '%s|%5.2f'|format('x', 1.5) }}"
    "{{ messages|groupby('role') }}{% set q %}a{{ messages[0].content }}{% endset %}{{ q|indent }}";
static const char busy_messages[] = "[{\"role\": \"user\", \"content\": \" banana \"}, {\"role\": "
                                    "\"assistant\", \"content\": \"x\\ny\"},"
                                    "{\"role\": \"user\", \"content\": \"\"}]";

static void *render_many(void *argument)
{
    const mica_chat_template *compiled = argument;
    mica_chat_text first = {0};
    const mica_chat_input input = input_of(busy_messages);
    bool good = mica_chat_template_render(compiled, &input, &first) == MICA_OK;
    for (int i = 0; i < 50 && good; i++) {
        mica_chat_text text;
        good = mica_chat_template_render(compiled, &input, &text) == MICA_OK &&
               text.length == first.length &&
               memcmp(text.text, first.text, (size_t)text.length) == 0 &&
               text.n_plain == first.n_plain;
        mica_chat_text_free(&text);
    }
    mica_chat_text_free(&first);
    return good ? argument : NULL;
}

static void one_template_serves_several_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    mica_chat_template *compiled = compile(busy);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, compiled), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, compiled);
    }
    mica_chat_template_free(compiled);
}

static void every_failing_allocation_leaks_nothing(void **state)
{
    (void)state;
    const int64_t before = held();
    mica_status status = MICA_E_MEMORY;
    int64_t n = 0;
    while (status != MICA_OK) {
        mica_chat_template *compiled;
        mica_chat_text text = {0};
        mica_chat_input input = input_of(busy_messages);
        input.tools_json = "[]";
        input.tools_length = 2;
        mica__fault_after(++n, false);
        status = mica_chat_template_new(busy, strlen(busy), NULL, &compiled);
        if (status == MICA_OK)
            status = mica_chat_template_render(compiled, &input, &text);
        mica__fault_after(0, false);
        if (status != MICA_OK) {
            assert_int_equal(status, MICA_E_MEMORY);
            assert_null(text.text);
        }
        mica_chat_text_free(&text);
        mica_chat_template_free(compiled);
        assert_int_equal(held(), before);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_spans_follow_the_bytes_of_the_conversation),
        cmocka_unit_test(appending_to_shared_text_leaves_other_values_alone),
        cmocka_unit_test(conversation_tools_variables_and_tokens_reach_the_template),
        cmocka_unit_test(bad_input_is_refused_by_name),
        cmocka_unit_test(arguments_of_tool_calls_become_objects_on_request),
        cmocka_unit_test(templates_tell_what_they_ask_for),
        cmocka_unit_test(dates_come_from_the_input),
        cmocka_unit_test(malicious_templates_end_at_a_budget),
        cmocka_unit_test(source_that_nests_too_deep_is_refused),
        cmocka_unit_test(long_lists_and_chains_of_branches_are_no_depth),
        cmocka_unit_test(limits_of_the_source_are_checked),
        cmocka_unit_test(deepest_allowed_evaluation_fits_the_stack),
        cmocka_unit_test(one_template_serves_several_threads),
        cmocka_unit_test(every_failing_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
