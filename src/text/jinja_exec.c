/* jinja_exec.c - statements, loops and macros.
 *
 * Scopes: for, with, macros, and the bodies of set, filter, call and generation blocks have one of
 * their own; if has none. A loop's body starts every iteration with an empty scope, whose storage
 * is used again unless a macro was defined in it and still looks into it.
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "text/jinja_run.h"

static mica_status exec_body(jinja_run *run, const jinja_node *first);

/* --- scopes and output ------------------------------------------------------------------------ */

static jinja_scope *new_scope(jinja_run *run, jinja_scope *parent)
{
    jinja_scope *scope = mica__jinja_take(&run->heap, 1, sizeof *scope);
    if (scope)
        *scope = (jinja_scope){.parent = parent};
    return scope;
}

/* Runs a body in a scope of its own below the current one. */
static mica_status exec_scoped(jinja_run *run, const jinja_node *first)
{
    jinja_scope *outer = run->scope;
    run->scope = new_scope(run, outer);
    if (!run->scope) {
        run->scope = outer;
        return run->heap.status;
    }
    const mica_status status = exec_body(run, first);
    run->scope = outer;
    return status;
}

/* Runs a body in `scope` and gives what it prints. */
static mica_status capture(jinja_run *run, jinja_scope *scope, const jinja_node *first,
                           jinja_value *out)
{
    jinja_bytes *outer_out = run->out;
    jinja_scope *outer = run->scope;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made || !scope)
        return run->heap.status;
    run->out = made;
    run->scope = scope;
    const mica_status status = exec_body(run, first);
    run->out = outer_out;
    run->scope = outer;
    if (status == MICA_OK)
        *out = mica__jinja_made(made);
    return status;
}

static mica_status check_output(const jinja_run *run)
{
    if ((int64_t)run->out->used > run->max_output)
        MICA_FAIL(MICA_E_BUDGET, "the output passes its budget of %lld bytes",
                  (long long)run->max_output);
    return MICA_OK;
}

static mica_status exec_print(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    MICA_TRY(mica__jinja_eval(run, node->a, &value));
    MICA_TRY(mica__jinja_put_str(&run->heap, run->out, &value));
    return check_output(run);
}

static mica_status exec_text(jinja_run *run, const jinja_node *node)
{
    MICA_TRY(mica__jinja_put_text(&run->heap, run->out, node->value));
    return check_output(run);
}

/* --- targets ---------------------------------------------------------------------------------- */

static mica_status assign_target(jinja_run *run, jinja_scope *scope, const jinja_node *target,
                                 const jinja_value *value);

static mica_status assign_attribute(jinja_run *run, const jinja_node *target,
                                    const jinja_value *value)
{
    jinja_value object;
    MICA_TRY(mica__jinja_lookup(run, target->name, &object));
    if (object.type != JINJA_NAMESPACE)
        MICA_FAIL(MICA_E_ARGUMENT, "cannot assign attribute on non-namespace object");
    return mica__jinja_dict_set(&run->heap, object.dict, target->value, value);
}

static mica_status unpack(jinja_run *run, jinja_scope *scope, const jinja_node *target,
                          const jinja_value *value)
{
    jinja_value *items;
    int64_t n, wanted = 0;
    for (const jinja_node *item = target->a; item; item = item->next)
        wanted++;
    if (!mica__jinja_iterable(value))
        MICA_FAIL(MICA_E_ARGUMENT, "cannot unpack non-iterable %s object",
                  mica__jinja_type_name(value));
    MICA_TRY(mica__jinja_iterate(run, value, &items, &n));
    if (n < wanted)
        MICA_FAIL(MICA_E_ARGUMENT, "not enough values to unpack (expected %lld, got %lld)",
                  (long long)wanted, (long long)n);
    if (n > wanted)
        MICA_FAIL(MICA_E_ARGUMENT, "too many values to unpack (expected %lld)", (long long)wanted);
    for (const jinja_node *item = target->a; item; item = item->next)
        MICA_TRY(assign_target(run, scope, item, items++));
    return MICA_OK;
}

/* Recursion follows the target's nesting, which the parser bounds. */
static mica_status assign_target(jinja_run *run, jinja_scope *scope, const jinja_node *target,
                                 const jinja_value *value)
{
    if (target->kind == NODE_TUPLE)
        return unpack(run, scope, target, value);
    if (target->kind == NODE_NS_TARGET)
        return assign_attribute(run, target, value);
    return mica__jinja_assign(run, scope, target->name, value);
}

static mica_status exec_set(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    MICA_TRY(mica__jinja_eval(run, node->b, &value));
    return assign_target(run, run->scope, node->a, &value);
}

/* Applies the filters of a block to what it printed. */
static mica_status filter_captured(jinja_run *run, const jinja_node *filter, jinja_value *text)
{
    const jinja_value *outer = run->filtered;
    const jinja_value subject = *text;
    run->filtered = &subject;
    const mica_status status = mica__jinja_eval(run, filter, text);
    run->filtered = outer;
    return status;
}

static mica_status exec_set_block(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    MICA_TRY(capture(run, new_scope(run, run->scope), node->c, &value));
    if (node->b)
        MICA_TRY(filter_captured(run, node->b, &value));
    return assign_target(run, run->scope, node->a, &value);
}

static mica_status exec_filter_block(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    MICA_TRY(capture(run, new_scope(run, run->scope), node->b, &value));
    MICA_TRY(filter_captured(run, node->a, &value));
    MICA_TRY(mica__jinja_put_str(&run->heap, run->out, &value));
    return check_output(run);
}

/* The values are those of the scope around the block. */
static mica_status exec_with(jinja_run *run, const jinja_node *node)
{
    jinja_scope *outer = run->scope, *scope = new_scope(run, outer);
    if (!scope)
        return run->heap.status;
    for (const jinja_node *pair = node->a; pair; pair = pair->next) {
        jinja_value value;
        MICA_TRY(mica__jinja_eval(run, pair->b, &value));
        MICA_TRY(assign_target(run, scope, pair->a, &value));
    }
    run->scope = scope;
    const mica_status status = exec_body(run, node->b);
    run->scope = outer;
    return status;
}

static mica_status exec_if(jinja_run *run, const jinja_node *node)
{
    for (const jinja_node *branch = node->a; branch; branch = branch->next) {
        jinja_value condition = mica__jinja_bool(true);
        if (branch->a)
            MICA_TRY(mica__jinja_eval(run, branch->a, &condition));
        if (mica__jinja_truth(&condition))
            return exec_body(run, branch->b);
    }
    return MICA_OK;
}

/* --- loops ------------------------------------------------------------------------------------ */

/* Whether an item passes the loop's condition. */
static mica_status passes(jinja_run *run, const struct jinja_loop *loop, const jinja_value *item,
                          bool *result)
{
    jinja_value value;
    jinja_scope *outer = run->scope, *scope = new_scope(run, loop->outer);
    if (!scope)
        return run->heap.status;
    MICA_TRY(assign_target(run, scope, loop->node->a, item));
    run->scope = scope;
    const mica_status status = mica__jinja_eval(run, loop->node->c, &value);
    run->scope = outer;
    *result = status == MICA_OK && mica__jinja_truth(&value);
    return status;
}

/* Looks for the next item; loop->after is ABSENT when there is none. */
static mica_status peek(jinja_run *run, struct jinja_loop *loop)
{
    while (loop->after.type == JINJA_ABSENT && loop->at < loop->n) {
        bool passed = true;
        const jinja_value item = loop->items[loop->at++];
        if (loop->filtered)
            MICA_TRY(passes(run, loop, &item, &passed));
        if (passed)
            loop->after = item;
        else
            MICA_TRY(mica__jinja_charge(&run->heap, 1));
    }
    return MICA_OK;
}

/* Applies the condition to all that is left, so that it can be counted. */
static mica_status settle(jinja_run *run, struct jinja_loop *loop)
{
    if (!loop->filtered)
        return MICA_OK;
    jinja_list *rest = mica__jinja_list_new(&run->heap, 0);
    if (!rest)
        return run->heap.status;
    while (loop->at < loop->n) {
        bool passed;
        const jinja_value item = loop->items[loop->at++];
        MICA_TRY(passes(run, loop, &item, &passed));
        if (passed)
            MICA_TRY(mica__jinja_list_add(&run->heap, rest, &item));
    }
    loop->items = rest->items;
    loop->n = rest->n;
    loop->at = 0;
    loop->filtered = false;
    return MICA_OK;
}

static mica_status loop_length(jinja_run *run, struct jinja_loop *loop, int64_t *length)
{
    MICA_TRY(settle(run, loop));
    *length = loop->index0 + 1 + (loop->after.type != JINJA_ABSENT) + loop->n - loop->at;
    return MICA_OK;
}

static mica_status neighbour(jinja_run *run, const jinja_value *item, const char *missing,
                             jinja_value *out)
{
    if (item->type == JINJA_ABSENT)
        return mica__jinja_undefined_because(run, missing, out);
    *out = *item;
    return MICA_OK;
}

mica_status mica__jinja_loop_attribute(jinja_run *run, struct jinja_loop *loop, const char *name,
                                       jinja_value *out)
{
    int64_t length;
    if (strcmp(name, "index") == 0 || strcmp(name, "index0") == 0)
        *out = mica__jinja_int(loop->index0 + !name[5]);
    else if (strcmp(name, "depth") == 0 || strcmp(name, "depth0") == 0)
        *out = mica__jinja_int(loop->depth0 + !name[5]);
    else if (strcmp(name, "first") == 0)
        *out = mica__jinja_bool(loop->index0 == 0);
    else if (strcmp(name, "previtem") == 0)
        return neighbour(run, &loop->previous, "there is no previous item", out);
    else if (strcmp(name, "last") == 0 || strcmp(name, "nextitem") == 0) {
        MICA_TRY(peek(run, loop));
        if (name[0] == 'n')
            return neighbour(run, &loop->after, "there is no next item", out);
        *out = mica__jinja_bool(loop->after.type == JINJA_ABSENT);
    } else {
        MICA_TRY(loop_length(run, loop, &length));
        if (strcmp(name, "length") == 0)
            *out = mica__jinja_int(length);
        else if (strcmp(name, "revindex") == 0)
            *out = mica__jinja_int(length - loop->index0);
        else if (strcmp(name, "revindex0") == 0)
            *out = mica__jinja_int(length - loop->index0 - 1);
        else
            *out = (jinja_value){.type = JINJA_ABSENT};
    }
    return MICA_OK;
}

mica_status mica__jinja_loop_cycle(jinja_run *run, const jinja_value *self, const jinja_args *args,
                                   jinja_value *out)
{
    (void)run;
    if (!args->n)
        MICA_FAIL(MICA_E_ARGUMENT, "no items for cycling given");
    *out = args->items[self->loop->index0 % args->n];
    return MICA_OK;
}

mica_status mica__jinja_loop_changed(jinja_run *run, const jinja_value *self,
                                     const jinja_args *args, jinja_value *out)
{
    struct jinja_loop *loop = self->loop;
    bool same = loop->seen && loop->n_seen == args->n;
    for (int64_t i = 0; same && i < args->n; i++)
        same = mica__jinja_equal(&run->heap, &loop->seen[i], &args->items[i]);
    loop->seen = args->items ? args->items : &loop->current;
    loop->n_seen = args->n;
    *out = mica__jinja_bool(!same);
    return MICA_OK;
}

/* One iteration; *going false after break. */
static mica_status exec_iteration(jinja_run *run, struct jinja_loop *loop, jinja_scope *scope,
                                  int32_t loop_name, bool *going)
{
    const jinja_value self = {.type = JINJA_LOOP, .loop = loop};
    jinja_scope *outer = run->scope;
    if (loop_name >= 0)
        MICA_TRY(mica__jinja_assign(run, scope, loop_name, &self));
    MICA_TRY(assign_target(run, scope, loop->node->a, &loop->current));
    run->scope = scope;
    const mica_status status = exec_body(run, loop->node->d);
    run->scope = outer;
    *going = run->flow != FLOW_BREAK;
    run->flow = FLOW_ON;
    return status;
}

static mica_status exec_loop(jinja_run *run, struct jinja_loop *loop)
{
    const int32_t loop_name = mica__jinja_name_find(run->program, "loop", 4);
    jinja_scope *scope = NULL;
    bool going = true;
    loop->index0 = -1;
    while (going) {
        MICA_TRY(peek(run, loop));
        if (loop->after.type == JINJA_ABSENT)
            break;
        if (!scope || scope->captured)
            scope = new_scope(run, loop->outer);
        if (!scope)
            return run->heap.status;
        scope->n = 0;
        loop->index0++;
        loop->previous = loop->current;
        loop->current = loop->after;
        loop->after.type = JINJA_ABSENT;
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        MICA_TRY(exec_iteration(run, loop, scope, loop_name, &going));
    }
    if (loop->index0 >= 0 || !loop->node->e)
        return MICA_OK;
    return exec_scoped(run, loop->node->e);
}

static mica_status start_loop(jinja_run *run, const jinja_node *node, jinja_scope *outer,
                              const jinja_value *iterable, int64_t depth0)
{
    struct jinja_loop *loop = mica__jinja_take(&run->heap, 1, sizeof *loop);
    if (!loop)
        return run->heap.status;
    *loop = (struct jinja_loop){
        .node = node, .outer = outer, .filtered = node->c != NULL, .depth0 = depth0};
    MICA_TRY(mica__jinja_iterate(run, iterable, &loop->items, &loop->n));
    return exec_loop(run, loop);
}

static mica_status exec_for(jinja_run *run, const jinja_node *node)
{
    jinja_value iterable;
    MICA_TRY(mica__jinja_eval(run, node->b, &iterable));
    return start_loop(run, node, run->scope, &iterable, 0);
}

/* loop(children) in a recursive loop: the same loop over other items, as text. */
mica_status mica__jinja_call_loop(jinja_run *run, struct jinja_loop *loop, const jinja_args *args,
                                  jinja_value *out)
{
    if (!loop->node->flag)
        MICA_FAIL(MICA_E_ARGUMENT, "the loop must have the 'recursive' marker to be called");
    if (args->n != 1 || args->n_named)
        MICA_FAIL(MICA_E_ARGUMENT, "loop() takes one argument");
    jinja_bytes *outer_out = run->out;
    jinja_scope *outer = run->scope;
    run->out = mica__jinja_bytes_new(&run->heap, 0);
    mica_status status = run->out ? MICA_OK : run->heap.status;
    if (status == MICA_OK) {
        run->scope = loop->outer;
        status = start_loop(run, loop->node, loop->outer, &args->items[0], loop->depth0 + 1);
    }
    if (status == MICA_OK)
        *out = mica__jinja_made(run->out);
    run->out = outer_out;
    run->scope = outer;
    return status;
}

/* --- macros ----------------------------------------------------------------------------------- */

/* The named argument `name`, marked as used; NULL when it was not given. */
static const jinja_value *take_named(const jinja_args *args, bool *used, const jinja_name *name)
{
    for (int64_t i = 0; i < args->n_named; i++)
        if (args->names[i].text.length == name->length &&
            memcmp(mica__jinja_chars(&args->names[i]), name->text, name->length) == 0) {
            used[i] = true;
            return &args->values[i];
        }
    return NULL;
}

static mica_status bind_parameters(jinja_run *run, const jinja_node *node, jinja_scope *scope,
                                   const jinja_args *args, bool *used, int64_t *n_taken)
{
    int64_t position = 0;
    for (const jinja_node *p = node->a; p; p = p->next, position++) {
        const jinja_name *name = &run->program->names[p->name];
        const jinja_value *named = take_named(args, used, name);
        jinja_value value;
        if (named && position < args->n)
            MICA_FAIL(MICA_E_ARGUMENT, "macro got multiple values for argument '%s'", name->text);
        if (position < args->n) {
            value = args->items[position];
        } else if (named) {
            value = *named;
        } else if (p->a) {
            jinja_scope *outer = run->scope;
            run->scope = scope;
            const mica_status status = mica__jinja_eval(run, p->a, &value);
            run->scope = outer;
            MICA_TRY(status);
        } else {
            char message[160];
            snprintf(message, sizeof message, "parameter '%.100s' was not provided", name->text);
            MICA_TRY(mica__jinja_undefined_because(run, message, &value));
        }
        MICA_TRY(mica__jinja_assign(run, scope, p->name, &value));
    }
    *n_taken = position < args->n ? position : args->n;
    return MICA_OK;
}

/* varargs, kwargs and caller, or a complaint about arguments that nothing takes. */
static mica_status bind_rest(jinja_run *run, const struct jinja_macro *macro, jinja_scope *scope,
                             const jinja_args *args, bool *used, int64_t n_taken)
{
    const jinja_node *node = macro->node;
    const int32_t caller = mica__jinja_name_find(run->program, "caller", 6);
    jinja_value value;
    bool own_caller = false;
    for (const jinja_node *p = node->a; p; p = p->next)
        own_caller = own_caller || p->name == caller;
    if (node->flag & MACRO_CALLER && !own_caller) {
        const jinja_value *given = take_named(args, used, &run->program->names[caller]);
        if (given)
            value = *given;
        else
            MICA_TRY(mica__jinja_undefined_because(run, "no caller defined", &value));
        MICA_TRY(mica__jinja_assign(run, scope, caller, &value));
    }
    if (node->flag & MACRO_KWARGS) {
        jinja_dict *dict = mica__jinja_dict_new(&run->heap);
        if (!dict)
            return run->heap.status;
        for (int64_t i = 0; i < args->n_named; i++)
            if (!used[i])
                MICA_TRY(mica__jinja_dict_set(&run->heap, dict, &args->names[i], &args->values[i]));
        value = (jinja_value){.type = JINJA_DICT, .dict = dict};
        MICA_TRY(mica__jinja_assign(run, scope, mica__jinja_name_find(run->program, "kwargs", 6),
                                    &value));
    } else {
        for (int64_t i = 0; i < args->n_named; i++)
            if (!used[i])
                MICA_FAIL(MICA_E_ARGUMENT, "macro '%s' takes no keyword argument '%.*s'",
                          macro->name,
                          args->names[i].text.length < 60 ? (int)args->names[i].text.length : 60,
                          mica__jinja_chars(&args->names[i]));
    }
    if (node->flag & MACRO_VARARGS) {
        jinja_list *rest = mica__jinja_list_new(&run->heap, args->n - n_taken);
        if (!rest)
            return run->heap.status;
        for (int64_t i = n_taken; i < args->n; i++)
            MICA_TRY(mica__jinja_list_add(&run->heap, rest, &args->items[i]));
        value = mica__jinja_of_list(JINJA_TUPLE, "tuple", rest);
        return mica__jinja_assign(run, scope, mica__jinja_name_find(run->program, "varargs", 7),
                                  &value);
    }
    if (args->n > n_taken)
        MICA_FAIL(MICA_E_ARGUMENT, "macro '%s' takes not more than %lld arguments", macro->name,
                  (long long)n_taken);
    return MICA_OK;
}

mica_status mica__jinja_call_macro(jinja_run *run, struct jinja_macro *macro,
                                   const jinja_args *args, jinja_value *out)
{
    int64_t n_taken = 0;
    jinja_scope *scope = new_scope(run, macro->scope);
    bool *used = mica__jinja_take(&run->heap, (size_t)args->n_named + 1, sizeof *used);
    if (!scope || !used)
        return run->heap.status;
    memset(used, 0, (size_t)args->n_named + 1);
    MICA_TRY(bind_parameters(run, macro->node, scope, args, used, &n_taken));
    MICA_TRY(bind_rest(run, macro, scope, args, used, n_taken));
    return capture(run, scope, macro->node->c, out);
}

static mica_status make_macro(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    struct jinja_macro *macro = mica__jinja_take(&run->heap, 1, sizeof *macro);
    if (!macro)
        return run->heap.status;
    *macro = (struct jinja_macro){.node = node,
                                  .name = node->name >= 0 ? run->program->names[node->name].text
                                                          : "caller",
                                  .scope = run->scope};
    for (jinja_scope *s = run->scope; s->parent; s = s->parent)
        s->captured = true;
    *out = (jinja_value){.type = JINJA_MACRO, .macro = macro};
    return MICA_OK;
}

static mica_status exec_macro(jinja_run *run, const jinja_node *node)
{
    jinja_value macro;
    MICA_TRY(make_macro(run, node, &macro));
    return mica__jinja_assign(run, run->scope, node->name, &macro);
}

static mica_status with_caller(jinja_run *run, const jinja_args *args, const jinja_value *caller,
                               jinja_args *more)
{
    const size_t n = (size_t)args->n_named;
    *more = *args;
    more->names = mica__jinja_take(&run->heap, n + 1, sizeof *more->names);
    more->values = mica__jinja_take(&run->heap, n + 1, sizeof *more->values);
    if (!more->names || !more->values)
        return run->heap.status;
    if (n) {
        memcpy(more->names, args->names, n * sizeof *more->names);
        memcpy(more->values, args->values, n * sizeof *more->values);
    }
    MICA_TRY(mica__jinja_string(&run->heap, "caller", 6, false, &more->names[n]));
    more->values[n] = *caller;
    more->n_named++;
    return MICA_OK;
}

static mica_status exec_call_block(jinja_run *run, const jinja_node *node)
{
    jinja_value callee, caller, value;
    jinja_args args, more;
    MICA_TRY(make_macro(run, node->b, &caller));
    MICA_TRY(mica__jinja_eval(run, node->a->a, &callee));
    MICA_TRY(mica__jinja_arguments(run, node->a->b, &args));
    MICA_TRY(with_caller(run, &args, &caller, &more));
    MICA_TRY(mica__jinja_call_value(run, &callee, &more, &value));
    MICA_TRY(mica__jinja_put_str(&run->heap, run->out, &value));
    return check_output(run);
}

/* --- the switch ------------------------------------------------------------------------------- */

static mica_status exec_kind(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    switch ((jinja_node_kind)node->kind) {
    case NODE_TEXT:
        return exec_text(run, node);
    case NODE_PRINT:
        return exec_print(run, node);
    case NODE_IF:
        return exec_if(run, node);
    case NODE_FOR:
        return exec_for(run, node);
    case NODE_SET:
        return exec_set(run, node);
    case NODE_SET_BLOCK:
        return exec_set_block(run, node);
    case NODE_MACRO:
        return exec_macro(run, node);
    case NODE_CALL_BLOCK:
        return exec_call_block(run, node);
    case NODE_FILTER_BLOCK:
        return exec_filter_block(run, node);
    case NODE_WITH:
        return exec_with(run, node);
    case NODE_DO:
        return mica__jinja_eval(run, node->a, &value);
    case NODE_BREAK:
        run->flow = FLOW_BREAK;
        return MICA_OK;
    case NODE_CONTINUE:
        run->flow = FLOW_CONTINUE;
        return MICA_OK;
    case NODE_GENERATION:
        return exec_scoped(run, node->a);
    default:
        MICA_FAIL(MICA_E_INTERNAL, "a node of kind %d is no statement", node->kind);
    }
}

static mica_status exec_body(jinja_run *run, const jinja_node *first)
{
    for (const jinja_node *node = first; node && run->flow == FLOW_ON; node = node->next) {
        mica_status status = mica__jinja_enter(run);
        if (status == MICA_OK) {
            status = exec_kind(run, node);
            run->depth--;
        }
        if (status != MICA_OK)
            return mica__jinja_failed_at(run, node, status);
    }
    return MICA_OK;
}

mica_status mica__jinja_exec(jinja_run *run, const jinja_node *body)
{
    return exec_body(run, body);
}
