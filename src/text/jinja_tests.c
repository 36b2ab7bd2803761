/* jinja_tests.c - what may stand behind `is`.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <string.h>

#include "text/jinja_run.h"

/* A test of the value's type alone. */
#define TYPE_TEST(name, condition)                                                                 \
    static mica_status name(jinja_run *run, const jinja_value *v, const jinja_value *args,         \
                            jinja_value *out)                                                      \
    {                                                                                              \
        (void)run;                                                                                 \
        (void)args;                                                                                \
        *out = mica__jinja_bool(condition);                                                        \
        return MICA_OK;                                                                            \
    }
TYPE_TEST(is_boolean, v->type == JINJA_BOOL)
TYPE_TEST(is_defined, v->type != JINJA_UNDEFINED)
TYPE_TEST(is_undefined, v->type == JINJA_UNDEFINED)
TYPE_TEST(is_escaped, v->type == JINJA_STRING && v->markup)
TYPE_TEST(is_false, v->type == JINJA_BOOL && !v->boolean)
TYPE_TEST(is_true, v->type == JINJA_BOOL && v->boolean)
TYPE_TEST(is_float, v->type == JINJA_FLOAT)
TYPE_TEST(is_integer, v->type == JINJA_INT || v->type == JINJA_BIGINT)
TYPE_TEST(is_none, v->type == JINJA_NONE)
TYPE_TEST(is_mapping, v->type == JINJA_DICT)
TYPE_TEST(is_string, v->type == JINJA_STRING)
TYPE_TEST(is_iterable, mica__jinja_iterable(v))
TYPE_TEST(is_number, v->type == JINJA_BOOL || v->type == JINJA_INT || v->type == JINJA_BIGINT ||
                         v->type == JINJA_FLOAT)
TYPE_TEST(is_sequence, v->type == JINJA_UNDEFINED || v->type == JINJA_STRING ||
                           v->type == JINJA_LIST || v->type == JINJA_TUPLE ||
                           v->type == JINJA_DICT || v->type == JINJA_RANGE)
TYPE_TEST(is_callable, v->type == JINJA_UNDEFINED || v->type == JINJA_MACRO ||
                           v->type == JINJA_LOOP || v->type == JINJA_FUNCTION ||
                           v->type == JINJA_METHOD || v->type == JINJA_JOINER)

/* v % divisor == wanted */
static mica_status remainder_is(jinja_run *run, const jinja_value *v, const jinja_value *divisor,
                                int64_t wanted, jinja_value *out)
{
    jinja_value rest;
    const jinja_value expected = mica__jinja_int(wanted);
    MICA_TRY(mica__jinja_binary(run, TOKEN_MOD, v, divisor, &rest));
    *out = mica__jinja_bool(mica__jinja_equal(&run->heap, &rest, &expected));
    return run->heap.status;
}

static mica_status is_divisibleby(jinja_run *run, const jinja_value *v, const jinja_value *args,
                                  jinja_value *out)
{
    return remainder_is(run, v, &args[0], 0, out);
}

static mica_status is_even(jinja_run *run, const jinja_value *v, const jinja_value *args,
                           jinja_value *out)
{
    const jinja_value two = mica__jinja_int(2);
    (void)args;
    return remainder_is(run, v, &two, 0, out);
}

static mica_status is_odd(jinja_run *run, const jinja_value *v, const jinja_value *args,
                          jinja_value *out)
{
    const jinja_value two = mica__jinja_int(2);
    (void)args;
    return remainder_is(run, v, &two, 1, out);
}

#define RELATION_TEST(name, op)                                                                    \
    static mica_status name(jinja_run *run, const jinja_value *v, const jinja_value *args,         \
                            jinja_value *out)                                                      \
    {                                                                                              \
        bool result;                                                                               \
        MICA_TRY(mica__jinja_relation(run, op, v, &args[0], &result));                             \
        *out = mica__jinja_bool(result);                                                           \
        return MICA_OK;                                                                            \
    }
RELATION_TEST(is_eq, TOKEN_EQ)
RELATION_TEST(is_ne, TOKEN_NE)
RELATION_TEST(is_lt, TOKEN_LT)
RELATION_TEST(is_le, TOKEN_LE)
RELATION_TEST(is_gt, TOKEN_GT)
RELATION_TEST(is_ge, TOKEN_GE)
RELATION_TEST(is_in, OP_IN)

/* Python's identity, as far as it does not hang on how values are stored: equal and of one type for
 * plain values, the very same object for the others. */
static mica_status is_sameas(jinja_run *run, const jinja_value *v, const jinja_value *args,
                             jinja_value *out)
{
    const jinja_value *other = &args[0];
    bool same = v->type == other->type;
    if (same && (v->type == JINJA_DICT || v->type == JINJA_NAMESPACE))
        same = v->dict == other->dict;
    else if (same && mica__jinja_has_list(v))
        same = v->list == other->list;
    else
        same = same && mica__jinja_equal(&run->heap, v, other);
    *out = mica__jinja_bool(same);
    return run->heap.status;
}

static mica_status has_case(jinja_run *run, const jinja_value *v, const char *method,
                            jinja_value *out)
{
    int n;
    jinja_value text;
    const jinja_builtin *methods = mica__jinja_str_methods(&n);
    MICA_TRY(mica__jinja_str(&run->heap, v, &text));
    while (strcmp(methods->name, method) != 0)
        methods++;
    return methods->call(run, &text, NULL, out);
}

static mica_status is_lower(jinja_run *run, const jinja_value *v, const jinja_value *args,
                            jinja_value *out)
{
    (void)args;
    return has_case(run, v, "islower", out);
}

static mica_status is_upper(jinja_run *run, const jinja_value *v, const jinja_value *args,
                            jinja_value *out)
{
    (void)args;
    return has_case(run, v, "isupper", out);
}

static mica_status is_filter(jinja_run *run, const jinja_value *v, const jinja_value *args,
                             jinja_value *out)
{
    (void)run;
    (void)args;
    *out = mica__jinja_bool(v->type == JINJA_STRING && mica__jinja_filter_known(v));
    return MICA_OK;
}

static mica_status is_test(jinja_run *run, const jinja_value *v, const jinja_value *args,
                           jinja_value *out)
{
    (void)run;
    (void)args;
    *out = mica__jinja_bool(v->type == JINJA_STRING && mica__jinja_test_known(v));
    return MICA_OK;
}

static const jinja_builtin tests[] = {
    {"boolean", "", 0, is_boolean, NULL},     {"callable", "", 0, is_callable, NULL},
    {"defined", "", 0, is_defined, NULL},     {"divisibleby", "num", 1, is_divisibleby, NULL},
    {"eq", "other", 1, is_eq, NULL},          {"==", "other", 1, is_eq, NULL},
    {"equalto", "other", 1, is_eq, NULL},     {"escaped", "", 0, is_escaped, NULL},
    {"even", "", 0, is_even, NULL},           {"false", "", 0, is_false, NULL},
    {"filter", "", 0, is_filter, NULL},       {"float", "", 0, is_float, NULL},
    {"ge", "other", 1, is_ge, NULL},          {">=", "other", 1, is_ge, NULL},
    {"greaterthan", "other", 1, is_gt, NULL}, {"gt", "other", 1, is_gt, NULL},
    {">", "other", 1, is_gt, NULL},           {"in", "seq", 1, is_in, NULL},
    {"integer", "", 0, is_integer, NULL},     {"iterable", "", 0, is_iterable, NULL},
    {"le", "other", 1, is_le, NULL},          {"<=", "other", 1, is_le, NULL},
    {"lessthan", "other", 1, is_lt, NULL},    {"lt", "other", 1, is_lt, NULL},
    {"<", "other", 1, is_lt, NULL},           {"lower", "", 0, is_lower, NULL},
    {"mapping", "", 0, is_mapping, NULL},     {"ne", "other", 1, is_ne, NULL},
    {"!=", "other", 1, is_ne, NULL},          {"none", "", 0, is_none, NULL},
    {"number", "", 0, is_number, NULL},       {"odd", "", 0, is_odd, NULL},
    {"sameas", "other", 1, is_sameas, NULL},  {"sequence", "", 0, is_sequence, NULL},
    {"string", "", 0, is_string, NULL},       {"test", "", 0, is_test, NULL},
    {"true", "", 0, is_true, NULL},           {"undefined", "", 0, is_undefined, NULL},
    {"upper", "", 0, is_upper, NULL},
};

const jinja_builtin *mica__jinja_test_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strlen(tests[i].name) == n && memcmp(tests[i].name, name, n) == 0)
            return &tests[i];
    return NULL;
}

bool mica__jinja_test_known(const jinja_value *name)
{
    return mica__jinja_test_find(mica__jinja_chars(name), name->text.length) != NULL;
}
