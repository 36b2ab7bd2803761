/* jinja_run.h - one render of a program: scopes, output, budgets, and the parts of the interpreter.
 *
 * A run belongs to one thread and owns its heap; the program is shared. Every evaluation of a node
 * costs a step and a level of depth while it lasts; the first failure is given the place of the
 * node where it happened (`located`) and ends the run.
 *
 *   jinja_exec.c          statements, loops, macros
 *   jinja_eval.c          expressions, calls, arguments
 *   jinja_ops.c           operators, indexing, attributes, iteration
 *   jinja_methods.c       methods of strings (jinja_str_methods.c), lists, dicts
 *   jinja_filters*.c      filters
 *   jinja_tests.c         tests
 *   jinja_globals.c       functions that every template sees
 *   jinja_format.c        % and str.format
 *   jinja_json.c          tojson, from_json and the input
 *   jinja_print.c         str and repr
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_JINJA_RUN_H
#define MICA_TEXT_JINJA_RUN_H

#include "text/jinja_ast.h"

#define JINJA_MAX_RANGE 100000 /* values of one range(), as Jinja's sandbox has it */
#define JINJA_MAX_BOUND 8      /* parameters of one builtin */

typedef struct jinja_variable {
    int32_t name;
    jinja_value value;
} jinja_variable;

typedef struct jinja_scope {
    struct jinja_scope *parent; /* NULL: the root, whose variables are in the run's table */
    jinja_variable *variables;
    int32_t n;
    int32_t capacity;
    bool captured; /* a macro looks into it: it cannot be used again */
} jinja_scope;

typedef enum jinja_flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } jinja_flow;

typedef struct jinja_run {
    const jinja_program *program;
    jinja_heap heap;
    jinja_value *table; /* [program->n_names] the root's variables */
    jinja_scope root;
    jinja_scope *scope;
    jinja_bytes *out;
    const jinja_value *filtered; /* what the innermost filter block captured */
    int64_t max_output;
    int depth;
    int max_depth;
    int64_t now; /* seconds since 1970-01-01 00:00 of the local calendar */
    jinja_flow flow;
    bool located;
} jinja_run;

typedef struct jinja_args {
    jinja_value *items; /* [n] positional */
    int64_t n;
    jinja_value *names; /* [n_named] strings */
    jinja_value *values;
    int64_t n_named;
} jinja_args;

/* A function that templates can call: `self` is what it is applied to (a filter's subject, a
 * method's object, NULL for globals), args the bound parameters, JINJA_ABSENT where not given. */
typedef mica_status (*jinja_call)(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out);
typedef mica_status (*jinja_raw_call)(jinja_run *run, const jinja_value *self,
                                      const jinja_args *args, jinja_value *out);

typedef struct jinja_builtin {
    const char *name;
    const char *parameters; /* "a,b,c" */
    int required;           /* how many of them must be given */
    jinja_call call;
    jinja_raw_call raw; /* instead of `call`: takes the arguments as they come */
} jinja_builtin;

struct jinja_function {
    jinja_builtin builtin;
};

/* Where a for loop is: what `loop` in a template refers to. */
struct jinja_loop {
    const jinja_node *node; /* NODE_FOR */
    jinja_scope *outer;     /* where the loop stands */
    jinja_value *items;     /* [n] what is left from `at` on */
    int64_t n, at;
    bool filtered; /* items still have to pass node->c */
    int64_t index0;
    int64_t depth0;
    jinja_value current, previous, after; /* ABSENT: not there, for `after` also not looked at */
    jinja_value *seen;                    /* [n_seen] the values of the last changed() */
    int64_t n_seen;
};

struct jinja_macro {
    const jinja_node *node; /* NODE_MACRO */
    const char *name;       /* "caller" for the body of a call block */
    jinja_scope *scope;     /* where it was defined */
};

/* cycler(a, b, c) and joiner(separator). */
struct jinja_cycler {
    jinja_value *items;
    int64_t n;
    int64_t at;
};

/* --- jinja_exec.c ----------------------------------------------------------------------------- */

/* Runs the program's body into run->out. */
mica_status mica__jinja_exec(jinja_run *run, const jinja_node *body);
mica_status mica__jinja_call_macro(jinja_run *run, struct jinja_macro *macro,
                                   const jinja_args *args, jinja_value *out);
mica_status mica__jinja_call_loop(jinja_run *run, struct jinja_loop *loop, const jinja_args *args,
                                  jinja_value *out);
mica_status mica__jinja_loop_attribute(jinja_run *run, struct jinja_loop *loop, const char *name,
                                       jinja_value *out);
mica_status mica__jinja_loop_cycle(jinja_run *run, const jinja_value *self, const jinja_args *args,
                                   jinja_value *out);
mica_status mica__jinja_loop_changed(jinja_run *run, const jinja_value *self,
                                     const jinja_args *args, jinja_value *out);

/* --- jinja_eval.c ----------------------------------------------------------------------------- */

mica_status mica__jinja_eval(jinja_run *run, const jinja_node *node, jinja_value *out);

/* Adds the place of a node to a failure that has none yet. */
mica_status mica__jinja_failed_at(jinja_run *run, const jinja_node *node, mica_status status);
mica_status mica__jinja_enter(jinja_run *run);

mica_status mica__jinja_lookup(jinja_run *run, int32_t name, jinja_value *out);
mica_status mica__jinja_assign(jinja_run *run, jinja_scope *scope, int32_t name,
                               const jinja_value *value);
mica_status mica__jinja_arguments(jinja_run *run, const jinja_node *first, jinja_args *args);
mica_status mica__jinja_call_value(jinja_run *run, const jinja_value *callee,
                                   const jinja_args *args, jinja_value *out);
mica_status mica__jinja_apply_filter(jinja_run *run, const jinja_value *name,
                                     const jinja_value *subject, const jinja_args *args,
                                     jinja_value *out);
mica_status mica__jinja_apply_test(jinja_run *run, const jinja_value *name,
                                   const jinja_value *subject, const jinja_args *args,
                                   bool *result);

/* Puts arguments into bound[JINJA_MAX_BOUND] by position and name. `what` names the function. */
mica_status mica__jinja_bind(const char *what, const char *parameters, int required,
                             const jinja_args *args, jinja_value *bound);
mica_status mica__jinja_call_builtin(jinja_run *run, const jinja_builtin *builtin,
                                     const jinja_value *self, const jinja_args *args,
                                     jinja_value *out);

/* --- jinja_ops.c ------------------------------------------------------------------------------ */

mica_status mica__jinja_binary(jinja_run *run, int op, const jinja_value *a, const jinja_value *b,
                               jinja_value *out);
mica_status mica__jinja_unary(int op, const jinja_value *a, jinja_value *out);

/* ==, !=, <, <=, >, >=, in, not in. */
mica_status mica__jinja_relation(jinja_run *run, int op, const jinja_value *a, const jinja_value *b,
                                 bool *result);
mica_status mica__jinja_contains(jinja_run *run, const jinja_value *container,
                                 const jinja_value *item, bool *result);
mica_status mica__jinja_less(jinja_run *run, const jinja_value *a, const jinja_value *b,
                             bool *result);

/* Repeats text or list; *out keeps its type. */
mica_status mica__jinja_repeat(jinja_run *run, const jinja_value *what, int64_t times,
                               jinja_value *out);

/* --- jinja_access.c --------------------------------------------------------------------------- */

/* obj.name and obj[key] as Jinja looks them up: missing ones give an undefined value. */
mica_status mica__jinja_attribute(jinja_run *run, const jinja_value *object,
                                  const jinja_value *name, jinja_value *out);
mica_status mica__jinja_item(jinja_run *run, const jinja_value *object, const jinja_value *key,
                             jinja_value *out);
mica_status mica__jinja_slice(jinja_run *run, const jinja_value *object, const jinja_value *start,
                              const jinja_value *stop, const jinja_value *step, jinja_value *out);

/* getattr(object, name): methods and the like, no items; *out ABSENT when there is none. */
mica_status mica__jinja_plain_attribute(jinja_run *run, const jinja_value *object,
                                        const jinja_value *name, jinja_value *out);

/* The values of an iterable; an iterator is used up. *n of *items, which must not be written. */
mica_status mica__jinja_iterate(jinja_run *run, const jinja_value *iterable, jinja_value **items,
                                int64_t *n);
bool mica__jinja_iterable(const jinja_value *v);

/* len(v); false for what has none. */
bool mica__jinja_length(const jinja_value *v, int64_t *n);

/* Undefined values: of a variable, an attribute of `owner`, with a message of its own. */
mica_status mica__jinja_undefined_name(jinja_run *run, const char *name, jinja_value *out);
mica_status mica__jinja_undefined_key(jinja_run *run, const jinja_value *owner,
                                      const jinja_value *key, bool forbidden, jinja_value *out);
mica_status mica__jinja_undefined_because(jinja_run *run, const char *message, jinja_value *out);

/* Fails as using this undefined value does. */
mica_status mica__jinja_undefined_used(const jinja_value *v);

/* Fails with the name of a type that does not fit. */
mica_status mica__jinja_wrong_type(const char *what, const jinja_value *v);

/* An argument as an integer or string; fails with `what` otherwise. */
mica_status mica__jinja_need_int(const char *what, const jinja_value *v, int64_t *value);
mica_status mica__jinja_need_string(const char *what, const jinja_value *v);

/* --- jinja_methods.c, jinja_str_methods.c ----------------------------------------------------- */

/* The method of this type with this name: *found false when it has none. */
mica_status mica__jinja_method_find(jinja_run *run, const jinja_value *object,
                                    const jinja_value *name, bool *found, jinja_value *out);
mica_status mica__jinja_method_call(jinja_run *run, const jinja_method *method,
                                    const jinja_args *args, jinja_value *out);
const jinja_builtin *mica__jinja_str_methods(int *n);

/* Lower case, upper case and so on; every character keeps its mark. */
typedef enum jinja_casing {
    CASING_LOWER,
    CASING_UPPER,
    CASING_TITLE,
    CASING_CAPITALIZE,
    CASING_SWAP
} jinja_casing;
mica_status mica__jinja_recase(jinja_run *run, const jinja_value *text, jinja_casing casing,
                               jinja_value *out);

/* Without the characters of `set` (NULL: white space) at its ends; side < 0 left, > 0 right, 0
 * both.
 */
jinja_value mica__jinja_strip(const jinja_value *text, const jinja_value *set, int side);

/* Every `from` by `to`, at most `count` times (< 0: all). */
mica_status mica__jinja_replace(jinja_run *run, const jinja_value *text, const jinja_value *from,
                                const jinja_value *to, int64_t count, jinja_value *out);
mica_status mica__jinja_center(jinja_run *run, const jinja_value *text, int64_t width,
                               jinja_value *out);
mica_status mica__jinja_splitlines(jinja_run *run, const jinja_value *text, bool keep_ends,
                                   jinja_list **out);

/* The offset of `needle` in text at or behind `from`, -1 when it is not there. */
int64_t mica__jinja_find(const jinja_value *text, const jinja_value *needle, size_t from);

/* HTML-escaped, as Markup; Markup stays as it is. */
mica_status mica__jinja_escape(jinja_run *run, const jinja_value *v, jinja_value *out);

/* str(v), escaped first when `markup` and v is not safe itself. */
mica_status mica__jinja_str_for(jinja_run *run, bool markup, const jinja_value *v,
                                jinja_value *out);

/* --- jinja_filters.c, jinja_tests.c, jinja_globals.c ------------------------------------------ */

const jinja_builtin *mica__jinja_filter_find(const char *name, size_t n);
const jinja_builtin *mica__jinja_test_find(const char *name, size_t n);
bool mica__jinja_filter_known(const jinja_value *name);
bool mica__jinja_test_known(const jinja_value *name);
const jinja_builtin *mica__jinja_text_filters(int *n);
const jinja_builtin *mica__jinja_sequence_filters(int *n);

/* The order that sorts keys[0, n), stable: (*order)[i] is the index of the i-th. */
mica_status mica__jinja_sort(jinja_run *run, const jinja_value *keys, int64_t n, bool reverse,
                             int64_t **order);

const struct jinja_function *mica__jinja_global_find(const char *name, size_t n);

/* The methods and attributes of cycler and joiner objects. */
mica_status mica__jinja_cycler_next(jinja_run *run, struct jinja_cycler *cycler, jinja_value *out);
mica_status mica__jinja_joiner_call(jinja_run *run, struct jinja_cycler *joiner, jinja_value *out);

/* a.b.0 applied to a value, as the attribute= of filters has it (ABSENT or None: the value itself).
 * Undefined steps become `missing` unless that is ABSENT or None. */
mica_status mica__jinja_path(jinja_run *run, const jinja_value *path, const jinja_value *missing,
                             const jinja_value *from, jinja_value *out);

/* A value as filters compare it: text in lower case unless `case_sensitive`. */
mica_status mica__jinja_fold(jinja_run *run, bool case_sensitive, jinja_value *value);

/* A new list or iterator for a filter's result. */
mica_status mica__jinja_new_list(jinja_run *run, jinja_type type, jinja_list **list,
                                 jinja_value *out);

/* --- jinja_format.c --------------------------------------------------------------------------- */

/* text % arguments */
mica_status mica__jinja_percent(jinja_run *run, const jinja_value *format, const jinja_value *args,
                                jinja_value *out);
mica_status mica__jinja_str_format(jinja_run *run, const jinja_value *format,
                                   const jinja_args *args, jinja_value *out);

/* --- jinja_print.c ---------------------------------------------------------------------------- */

size_t mica__jinja_float_text(double value, char text[40]);

/* The double nearest to digits that may have sign, point and exponent; infinite beyond the range.
 */
double mica__jinja_float_value(const char *text, size_t n);

/* --- jinja_json.c ----------------------------------------------------------------------------- */

/* JSON text to values; strings and keys are marked when `marked`. */
mica_status mica__jinja_from_json(jinja_heap *heap, const char *text, size_t n, bool marked,
                                  jinja_value *out);

typedef struct jinja_json_style {
    bool ascii;
    bool sort_keys;
    jinja_value indent; /* ABSENT, or a string for one level */
    jinja_value item_separator;
    jinja_value key_separator; /* ABSENT: Python's default */
} jinja_json_style;
mica_status mica__jinja_to_json(jinja_run *run, const jinja_value *v, const jinja_json_style *style,
                                jinja_value *out);

#endif
