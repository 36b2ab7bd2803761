/* jinja_eval.c - expressions, arguments and calls.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/jinja_run.h"

mica_status mica__jinja_failed_at(jinja_run *run, const jinja_node *node, mica_status status)
{
    if (run->located || status == MICA_E_MEMORY)
        return status;
    run->located = true;
    return mica__jinja_located(&run->program->source, node->at, status);
}

mica_status mica__jinja_enter(jinja_run *run)
{
    MICA_TRY(mica__jinja_charge(&run->heap, 1));
    if (run->depth >= run->max_depth)
        MICA_FAIL(MICA_E_BUDGET, "evaluation nests deeper than %d levels", run->max_depth);
    run->depth++;
    return MICA_OK;
}

/* --- names ------------------------------------------------------------------------------------ */

mica_status mica__jinja_lookup(jinja_run *run, int32_t name, jinja_value *out)
{
    for (const jinja_scope *s = run->scope; s->parent; s = s->parent)
        for (int32_t i = 0; i < s->n; i++)
            if (s->variables[i].name == name) {
                *out = s->variables[i].value;
                return MICA_OK;
            }
    *out = run->table[name];
    if (out->type == JINJA_ABSENT)
        return mica__jinja_undefined_name(run, run->program->names[name].text, out);
    return MICA_OK;
}

mica_status mica__jinja_assign(jinja_run *run, jinja_scope *scope, int32_t name,
                               const jinja_value *value)
{
    if (!scope->parent) {
        run->table[name] = *value;
        return MICA_OK;
    }
    for (int32_t i = 0; i < scope->n; i++)
        if (scope->variables[i].name == name) {
            scope->variables[i].value = *value;
            return MICA_OK;
        }
    if (scope->n == scope->capacity) {
        const int32_t wanted = scope->capacity ? 2 * scope->capacity : 4;
        jinja_variable *grown = mica__jinja_take(&run->heap, (size_t)wanted, sizeof *grown);
        if (!grown)
            return run->heap.status;
        if (scope->n)
            memcpy(grown, scope->variables, (size_t)scope->n * sizeof *grown);
        scope->variables = grown;
        scope->capacity = wanted;
    }
    scope->variables[scope->n++] = (jinja_variable){name, *value};
    return MICA_OK;
}

/* --- literals --------------------------------------------------------------------------------- */

static mica_status eval_items(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    int64_t n = 0;
    for (const jinja_node *item = node->a; item; item = item->next)
        n++;
    jinja_list *list = mica__jinja_list_new(&run->heap, n);
    if (!list)
        return run->heap.status;
    for (const jinja_node *item = node->a; item; item = item->next) {
        jinja_value value;
        MICA_TRY(mica__jinja_eval(run, item, &value));
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &value));
    }
    *out = node->kind == NODE_LIST ? mica__jinja_of_list(JINJA_LIST, "list", list)
                                   : mica__jinja_of_list(JINJA_TUPLE, "tuple", list);
    return MICA_OK;
}

static mica_status eval_dict(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_dict *dict = mica__jinja_dict_new(&run->heap);
    if (!dict)
        return run->heap.status;
    for (const jinja_node *key = node->a; key; key = key->next->next) {
        jinja_value k, v;
        MICA_TRY(mica__jinja_eval(run, key, &k));
        MICA_TRY(mica__jinja_eval(run, key->next, &v));
        MICA_TRY(mica__jinja_dict_set(&run->heap, dict, &k, &v));
    }
    *out = (jinja_value){.type = JINJA_DICT, .dict = dict};
    return MICA_OK;
}

/* --- operators -------------------------------------------------------------------------------- */

static mica_status eval_binary(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value a, b;
    MICA_TRY(mica__jinja_eval(run, node->a, &a));
    MICA_TRY(mica__jinja_eval(run, node->b, &b));
    return mica__jinja_binary(run, node->op, &a, &b, out);
}

static mica_status eval_unary(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value a;
    MICA_TRY(mica__jinja_eval(run, node->a, &a));
    return mica__jinja_unary(node->op, &a, out);
}

static mica_status eval_logic(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    MICA_TRY(mica__jinja_eval(run, node->a, out));
    if (mica__jinja_truth(out) == (node->kind == NODE_AND))
        return mica__jinja_eval(run, node->b, out);
    return MICA_OK;
}

static mica_status eval_not(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value a;
    MICA_TRY(mica__jinja_eval(run, node->a, &a));
    *out = mica__jinja_bool(!mica__jinja_truth(&a));
    return MICA_OK;
}

/* a < b < c means a < b and b < c. */
static mica_status eval_compare(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value left, right;
    bool holds = true;
    MICA_TRY(mica__jinja_eval(run, node->a, &left));
    for (const jinja_node *operand = node->b; operand && holds; operand = operand->next) {
        MICA_TRY(mica__jinja_eval(run, operand->a, &right));
        MICA_TRY(mica__jinja_relation(run, operand->op, &left, &right, &holds));
        left = right;
    }
    *out = mica__jinja_bool(holds);
    return MICA_OK;
}

static mica_status eval_concat(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value part, text, whole;
    MICA_TRY(mica__jinja_eval(run, node->a, &part));
    MICA_TRY(mica__jinja_str(&run->heap, &part, &whole));
    for (const jinja_node *next = node->a->next; next; next = next->next) {
        MICA_TRY(mica__jinja_eval(run, next, &part));
        MICA_TRY(mica__jinja_str(&run->heap, &part, &text));
        MICA_TRY(mica__jinja_concat(&run->heap, &whole, &text, &whole));
    }
    *out = whole;
    return MICA_OK;
}

static mica_status eval_cond(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value test;
    MICA_TRY(mica__jinja_eval(run, node->b, &test));
    if (mica__jinja_truth(&test))
        return mica__jinja_eval(run, node->a, out);
    if (node->c)
        return mica__jinja_eval(run, node->c, out);
    return mica__jinja_undefined_because(
        run, "the inline if-expression evaluated to false and no else section was defined", out);
}

/* --- attributes and items --------------------------------------------------------------------- */

static mica_status eval_attribute(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value object;
    MICA_TRY(mica__jinja_eval(run, node->a, &object));
    return mica__jinja_attribute(run, &object, node->value, out);
}

static mica_status eval_part(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    *out = mica__jinja_none();
    return node ? mica__jinja_eval(run, node, out) : MICA_OK;
}

static mica_status eval_item(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value object, key;
    MICA_TRY(mica__jinja_eval(run, node->a, &object));
    if (node->b->kind == NODE_SLICE) {
        jinja_value start, stop, step;
        MICA_TRY(eval_part(run, node->b->a, &start));
        MICA_TRY(eval_part(run, node->b->b, &stop));
        MICA_TRY(eval_part(run, node->b->c, &step));
        return mica__jinja_slice(run, &object, &start, &stop, &step, out);
    }
    MICA_TRY(mica__jinja_eval(run, node->b, &key));
    return mica__jinja_item(run, &object, &key, out);
}

/* --- arguments -------------------------------------------------------------------------------- */

typedef struct growing_args {
    jinja_list *items;
    jinja_list *names;
    jinja_list *values;
} growing_args;

static mica_status add_named(jinja_run *run, growing_args *g, const jinja_value *name,
                             const jinja_value *value)
{
    for (int64_t i = 0; i < g->names->n; i++)
        if (mica__jinja_equal(&run->heap, &g->names->items[i], name))
            MICA_FAIL(MICA_E_ARGUMENT, "got multiple values for keyword argument '%.*s'",
                      (int)name->text.length, mica__jinja_chars(name));
    MICA_TRY(mica__jinja_list_add(&run->heap, g->names, name));
    return mica__jinja_list_add(&run->heap, g->values, value);
}

static mica_status add_star(jinja_run *run, growing_args *g, const jinja_value *value)
{
    jinja_value *items;
    int64_t n;
    MICA_TRY(mica__jinja_iterate(run, value, &items, &n));
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(mica__jinja_list_add(&run->heap, g->items, &items[i]));
    return MICA_OK;
}

static mica_status add_double_star(jinja_run *run, growing_args *g, const jinja_value *value)
{
    if (value->type != JINJA_DICT)
        MICA_FAIL(MICA_E_ARGUMENT, "argument after ** must be a mapping, not %s",
                  mica__jinja_type_name(value));
    for (int64_t i = 0; i < value->dict->n; i++) {
        const jinja_entry *e = &value->dict->entries[i];
        if (e->key.type != JINJA_STRING)
            MICA_FAIL(MICA_E_ARGUMENT, "keywords must be strings");
        MICA_TRY(add_named(run, g, &e->key, &e->value));
    }
    return MICA_OK;
}

mica_status mica__jinja_arguments(jinja_run *run, const jinja_node *first, jinja_args *args)
{
    *args = (jinja_args){0};
    if (!first)
        return MICA_OK;
    growing_args g = {.items = mica__jinja_list_new(&run->heap, 0),
                      .names = mica__jinja_list_new(&run->heap, 0),
                      .values = mica__jinja_list_new(&run->heap, 0)};
    if (!g.items || !g.names || !g.values)
        return run->heap.status;
    for (const jinja_node *argument = first; argument; argument = argument->next) {
        jinja_value value;
        MICA_TRY(mica__jinja_eval(run, argument->a, &value));
        if (argument->kind == NODE_ARG)
            MICA_TRY(mica__jinja_list_add(&run->heap, g.items, &value));
        else if (argument->kind == NODE_KWARG)
            MICA_TRY(add_named(run, &g, argument->value, &value));
        else if (argument->kind == NODE_STAR)
            MICA_TRY(add_star(run, &g, &value));
        else
            MICA_TRY(add_double_star(run, &g, &value));
    }
    *args = (jinja_args){.items = g.items->items,
                         .n = g.items->n,
                         .names = g.names->items,
                         .values = g.values->items,
                         .n_named = g.names->n};
    return MICA_OK;
}

/* The index of a name in "a,b,c", -1 when it is not there; n_all counts them. */
static int parameter_index(const char *parameters, const jinja_value *name, int *n_all)
{
    int index = 0, found = -1;
    for (const char *at = parameters; *at; index++) {
        const size_t n = strcspn(at, ",");
        if (name && name->text.length == n && memcmp(mica__jinja_chars(name), at, n) == 0)
            found = index;
        at += n + (at[n] == ',');
    }
    *n_all = index;
    return found;
}

mica_status mica__jinja_bind(const char *what, const char *parameters, int required,
                             const jinja_args *args, jinja_value *bound)
{
    int n_all;
    parameter_index(parameters, NULL, &n_all);
    if (args->n > n_all)
        MICA_FAIL(MICA_E_ARGUMENT, "%s() takes at most %d arguments, %lld were given", what, n_all,
                  (long long)args->n);
    for (int i = 0; i < JINJA_MAX_BOUND; i++)
        bound[i] = i < args->n ? args->items[i] : (jinja_value){.type = JINJA_ABSENT};
    for (int64_t i = 0; i < args->n_named; i++) {
        const jinja_value *name = &args->names[i];
        const int index = parameter_index(parameters, name, &n_all);
        if (index < 0)
            MICA_FAIL(MICA_E_ARGUMENT, "%s() got an unexpected keyword argument '%.*s'", what,
                      name->text.length < 60 ? (int)name->text.length : 60,
                      mica__jinja_chars(name));
        if (bound[index].type != JINJA_ABSENT)
            MICA_FAIL(MICA_E_ARGUMENT, "%s() got multiple values for argument '%.*s'", what,
                      (int)name->text.length, mica__jinja_chars(name));
        bound[index] = args->values[i];
    }
    for (int i = 0; i < required; i++)
        if (bound[i].type == JINJA_ABSENT)
            MICA_FAIL(MICA_E_ARGUMENT, "%s() lacks argument %d of (%s)", what, i + 1, parameters);
    return MICA_OK;
}

mica_status mica__jinja_call_builtin(jinja_run *run, const jinja_builtin *builtin,
                                     const jinja_value *self, const jinja_args *args,
                                     jinja_value *out)
{
    if (builtin->raw)
        return builtin->raw(run, self, args, out);
    jinja_value bound[JINJA_MAX_BOUND];
    MICA_TRY(mica__jinja_bind(builtin->name, builtin->parameters, builtin->required, args, bound));
    return builtin->call(run, self, bound, out);
}

/* --- calls, filters, tests -------------------------------------------------------------------- */

mica_status mica__jinja_call_value(jinja_run *run, const jinja_value *callee,
                                   const jinja_args *args, jinja_value *out)
{
    switch (callee->type) {
    case JINJA_UNDEFINED:
        return mica__jinja_undefined_used(callee);
    case JINJA_MACRO:
        return mica__jinja_call_macro(run, callee->macro, args, out);
    case JINJA_LOOP:
        return mica__jinja_call_loop(run, callee->loop, args, out);
    case JINJA_FUNCTION:
        return mica__jinja_call_builtin(run, &callee->function->builtin, NULL, args, out);
    case JINJA_METHOD:
        return mica__jinja_method_call(run, callee->method, args, out);
    case JINJA_JOINER:
        return mica__jinja_joiner_call(run, callee->cycler, out);
    default:
        MICA_FAIL(MICA_E_ARGUMENT, "'%s' object is not callable", mica__jinja_type_name(callee));
    }
}

static mica_status eval_call(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value callee;
    jinja_args args;
    MICA_TRY(mica__jinja_eval(run, node->a, &callee));
    MICA_TRY(mica__jinja_arguments(run, node->b, &args));
    return mica__jinja_call_value(run, &callee, &args, out);
}

mica_status mica__jinja_apply_filter(jinja_run *run, const jinja_value *name,
                                     const jinja_value *subject, const jinja_args *args,
                                     jinja_value *out)
{
    const jinja_builtin *filter =
        mica__jinja_filter_find(mica__jinja_chars(name), name->text.length);
    if (!filter)
        MICA_FAIL(MICA_E_FORMAT, "there is no filter named '%.*s'",
                  name->text.length < 60 ? (int)name->text.length : 60, mica__jinja_chars(name));
    return mica__jinja_call_builtin(run, filter, subject, args, out);
}

mica_status mica__jinja_apply_test(jinja_run *run, const jinja_value *name,
                                   const jinja_value *subject, const jinja_args *args, bool *result)
{
    jinja_value value;
    const jinja_builtin *test = mica__jinja_test_find(mica__jinja_chars(name), name->text.length);
    if (!test)
        MICA_FAIL(MICA_E_FORMAT, "there is no test named '%.*s'",
                  name->text.length < 60 ? (int)name->text.length : 60, mica__jinja_chars(name));
    MICA_TRY(mica__jinja_call_builtin(run, test, subject, args, &value));
    *result = mica__jinja_truth(&value);
    return MICA_OK;
}

static mica_status eval_filter(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value subject;
    jinja_args args;
    if (node->a)
        MICA_TRY(mica__jinja_eval(run, node->a, &subject));
    else
        subject = *run->filtered;
    MICA_TRY(mica__jinja_arguments(run, node->b, &args));
    return mica__jinja_apply_filter(run, node->value, &subject, &args, out);
}

static mica_status eval_test(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value subject;
    jinja_args args;
    bool result;
    MICA_TRY(mica__jinja_eval(run, node->a, &subject));
    MICA_TRY(mica__jinja_arguments(run, node->b, &args));
    MICA_TRY(mica__jinja_apply_test(run, node->value, &subject, &args, &result));
    *out = mica__jinja_bool(result != (node->flag != 0));
    return MICA_OK;
}

/* --- the switch ------------------------------------------------------------------------------- */

static mica_status eval_kind(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    switch ((jinja_node_kind)node->kind) {
    case NODE_CONST:
        *out = *node->value;
        return MICA_OK;
    case NODE_NAME:
        return mica__jinja_lookup(run, node->name, out);
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_items(run, node, out);
    case NODE_DICT:
        return eval_dict(run, node, out);
    case NODE_UNARY:
        return eval_unary(run, node, out);
    case NODE_BINARY:
        return eval_binary(run, node, out);
    case NODE_AND:
    case NODE_OR:
        return eval_logic(run, node, out);
    case NODE_NOT:
        return eval_not(run, node, out);
    case NODE_COMPARE:
        return eval_compare(run, node, out);
    case NODE_CONCAT:
        return eval_concat(run, node, out);
    case NODE_COND:
        return eval_cond(run, node, out);
    case NODE_ATTR:
        return eval_attribute(run, node, out);
    case NODE_ITEM:
        return eval_item(run, node, out);
    case NODE_CALL:
        return eval_call(run, node, out);
    case NODE_FILTER:
        return eval_filter(run, node, out);
    case NODE_TEST:
        return eval_test(run, node, out);
    default:
        /* A slice among the indices of a tuple: nothing that a template has can be indexed so. */
        MICA_FAIL(MICA_E_UNSUPPORTED, "an index of several dimensions");
    }
}

mica_status mica__jinja_eval(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    mica_status status = mica__jinja_enter(run);
    if (status == MICA_OK) {
        status = eval_kind(run, node, out);
        run->depth--;
    }
    return status == MICA_OK ? status : mica__jinja_failed_at(run, node, status);
}
