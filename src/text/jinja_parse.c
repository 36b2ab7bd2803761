/* jinja_parse.c - statements, names and the limits on both.
 *
 * Names are interned while they are read. A name that is read where no enclosing scope has defined
 * it yet is `free`: the template asks its caller for it.
 * SPDX-License-Identifier: MIT
 */
#include "text/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAMES 1000

/* --- the current token ------------------------------------------------------------------------ */

mica_status mica__jinja_refuse(const jinja_parser *p, uint32_t at, mica_status status,
                               const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    mica__fail(status, "%s", what);
    return mica__jinja_located(&p->program->source, at, status);
}

mica_status mica__jinja_expected(const jinja_parser *p, const char *what)
{
    const char *text = p->program->source.text + p->at->at;
    if (p->at->kind == TOKEN_NAME)
        return mica__jinja_refuse(p, p->at->at, MICA_E_FORMAT, "expected %s, got '%.*s'", what,
                                  p->at->length < 60 ? (int)p->at->length : 60, text);
    return mica__jinja_refuse(p, p->at->at, MICA_E_FORMAT, "expected %s, got %s", what,
                              mica__jinja_token_name(p->at->kind));
}

static bool name_is(const jinja_parser *p, const jinja_token *token, const char *name)
{
    const size_t n = strlen(name);
    return token->kind == TOKEN_NAME && token->length == n &&
           memcmp(p->program->source.text + token->at, name, n) == 0;
}

bool mica__jinja_at_name(const jinja_parser *p, const char *name)
{
    return name_is(p, p->at, name);
}

bool mica__jinja_skip(jinja_parser *p, jinja_token_kind kind)
{
    if (p->at->kind != kind)
        return false;
    p->at++;
    return true;
}

bool mica__jinja_skip_name(jinja_parser *p, const char *name)
{
    if (!mica__jinja_at_name(p, name))
        return false;
    p->at++;
    return true;
}

mica_status mica__jinja_expect(jinja_parser *p, jinja_token_kind kind, const char *what)
{
    if (p->at->kind != kind)
        return mica__jinja_expected(p, what);
    p->at++;
    return MICA_OK;
}

mica_status mica__jinja_token_value(jinja_parser *p, const jinja_token *token,
                                    const jinja_value **value)
{
    jinja_value *made = mica__jinja_take(p->heap, 1, sizeof *made);
    if (!made)
        return p->heap->status;
    MICA_TRY(mica__jinja_string(p->heap, p->program->source.text + token->at, token->length, false,
                                made));
    made->text.buffer->fixed = true;
    *value = made;
    return MICA_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

mica_status mica__jinja_node(jinja_parser *p, jinja_node_kind kind, uint32_t at, jinja_node **made)
{
    *made = mica__jinja_take(p->heap, 1, sizeof **made);
    if (!*made)
        return p->heap->status;
    **made = (jinja_node){.kind = (uint8_t)kind, .at = at, .name = -1, .depth = 1};
    return MICA_OK;
}

static int deepest(const jinja_node *first, int deep)
{
    for (; first; first = first->next)
        deep = first->depth > deep ? first->depth : deep;
    return deep;
}

mica_status mica__jinja_close_node(jinja_parser *p, jinja_node *node)
{
    int deep = deepest(node->a, 0);
    deep = deepest(node->b, deep);
    deep = deepest(node->c, deep);
    deep = deepest(node->d, deep);
    deep = deepest(node->e, deep);
    if (deep >= JINJA_MAX_TREE)
        return mica__jinja_refuse(p, node->at, MICA_E_BUDGET,
                                  "an expression or statement of more than %d levels",
                                  JINJA_MAX_TREE);
    node->depth = (uint16_t)(deep + 1);
    return MICA_OK;
}

/* --- names ------------------------------------------------------------------------------------ */

int32_t mica__jinja_name_find(const jinja_program *program, const char *text, size_t n)
{
    for (int32_t i = 0; i < program->n_names; i++)
        if (program->names[i].length == n && memcmp(program->names[i].text, text, n) == 0)
            return i;
    return -1;
}

static mica_status intern(jinja_parser *p, const char *text, uint32_t n, int32_t *name)
{
    jinja_program *program = p->program;
    *name = mica__jinja_name_find(program, text, n);
    if (*name >= 0)
        return MICA_OK;
    if (program->n_names == MAX_NAMES)
        return mica__jinja_refuse(p, p->at->at, MICA_E_BUDGET, "more than %d different names",
                                  MAX_NAMES);
    if (program->n_names == program->names_capacity) {
        const int32_t wanted = program->names_capacity ? 2 * program->names_capacity : 32;
        jinja_name *grown = mica__jinja_take(p->heap, (size_t)wanted, sizeof *grown);
        if (!grown)
            return p->heap->status;
        if (program->n_names)
            memcpy(grown, program->names, (size_t)program->n_names * sizeof *grown);
        program->names = grown;
        program->names_capacity = wanted;
    }
    char *copy = mica__jinja_take(p->heap, n + 1, 1);
    if (!copy)
        return p->heap->status;
    memcpy(copy, text, n);
    copy[n] = '\0';
    *name = program->n_names++;
    program->names[*name] = (jinja_name){.text = copy, .length = n};
    return MICA_OK;
}

mica_status mica__jinja_take_name(jinja_parser *p, int32_t *name)
{
    if (p->at->kind != TOKEN_NAME)
        return mica__jinja_expected(p, "a name");
    MICA_TRY(intern(p, p->program->source.text + p->at->at, p->at->length, name));
    p->at++;
    return MICA_OK;
}

mica_status mica__jinja_push_scope(jinja_parser *p)
{
    if (p->n_scopes == (int)(sizeof p->scopes / sizeof *p->scopes))
        return mica__jinja_refuse(p, p->at->at, MICA_E_BUDGET, "too many nested scopes");
    p->scopes[p->n_scopes++] = (jinja_scope_names){0};
    return MICA_OK;
}

void mica__jinja_pop_scope(jinja_parser *p)
{
    p->n_scopes--;
}

mica_status mica__jinja_define(jinja_parser *p, int32_t name)
{
    jinja_scope_names *scope = &p->scopes[p->n_scopes - 1];
    for (int64_t i = 0; i < scope->n; i++)
        if (scope->names[i] == name)
            return MICA_OK;
    if (scope->n == scope->capacity) {
        const int64_t wanted = scope->capacity ? 2 * scope->capacity : 8;
        int32_t *grown = mica__jinja_take(p->heap, (size_t)wanted, sizeof *grown);
        if (!grown)
            return p->heap->status;
        if (scope->n)
            memcpy(grown, scope->names, (size_t)scope->n * sizeof *grown);
        scope->names = grown;
        scope->capacity = wanted;
    }
    scope->names[scope->n++] = name;
    return MICA_OK;
}

void mica__jinja_mention(jinja_parser *p, int32_t name)
{
    jinja_name *entry = &p->program->names[name];
    if (p->mentions) {
        if (strcmp(entry->text, "varargs") == 0)
            *p->mentions |= MACRO_VARARGS;
        else if (strcmp(entry->text, "kwargs") == 0)
            *p->mentions |= MACRO_KWARGS;
        else if (strcmp(entry->text, "caller") == 0)
            *p->mentions |= MACRO_CALLER;
    }
    for (int i = p->n_scopes; i-- > 0;)
        for (int64_t k = 0; k < p->scopes[i].n; k++)
            if (p->scopes[i].names[k] == name)
                return;
    entry->free = true;
}

/* --- targets of set, for and with ------------------------------------------------------------- */

static mica_status parse_target(jinja_parser *p, bool namespaces, int depth, jinja_node **out);

static mica_status parse_target_item(jinja_parser *p, bool namespaces, int depth, jinja_node **out)
{
    static const char *const reserved[] = {"true", "True", "false", "False",
                                           "none", "None", "not",   "in"};
    if (p->at->kind == TOKEN_LPAREN) {
        p->at++;
        MICA_TRY(parse_target(p, false, depth + 1, out));
        return mica__jinja_expect(p, TOKEN_RPAREN, "')'");
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (mica__jinja_at_name(p, reserved[i]))
            return mica__jinja_expected(p, "a name that can be set");
    const bool attribute = namespaces && p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_DOT;
    MICA_TRY(mica__jinja_node(p, attribute ? NODE_NS_TARGET : NODE_NAME, p->at->at, out));
    MICA_TRY(mica__jinja_take_name(p, &(*out)->name));
    if (attribute) {
        mica__jinja_mention(p, (*out)->name);
        p->at++;
        if (p->at->kind != TOKEN_NAME)
            return mica__jinja_expected(p, "a name behind '.'");
        MICA_TRY(mica__jinja_token_value(p, p->at, &(*out)->value));
        p->at++;
    }
    return MICA_OK;
}

static mica_status parse_target(jinja_parser *p, bool namespaces, int depth, jinja_node **out)
{
    const uint32_t at = p->at->at;
    if (depth > 20)
        return mica__jinja_refuse(p, at, MICA_E_BUDGET, "targets nest too deep");
    jinja_node *first, *last;
    MICA_TRY(parse_target_item(p, namespaces, depth, &first));
    *out = last = first;
    if (p->at->kind != TOKEN_COMMA)
        return MICA_OK;
    while (mica__jinja_skip(p, TOKEN_COMMA)) {
        if (p->at->kind != TOKEN_NAME && p->at->kind != TOKEN_LPAREN)
            break;
        if (mica__jinja_at_name(p, "in"))
            break;
        MICA_TRY(parse_target_item(p, false, depth, &last->next));
        last = last->next;
    }
    MICA_TRY(mica__jinja_node(p, NODE_TUPLE, at, out));
    (*out)->a = first;
    return mica__jinja_close_node(p, *out);
}

static mica_status define_target(jinja_parser *p, const jinja_node *target)
{
    if (target->kind == NODE_NAME && p->loops &&
        strcmp(p->program->names[target->name].text, "loop") == 0)
        return mica__jinja_refuse(p, target->at, MICA_E_FORMAT,
                                  "'loop' cannot be set in a for loop");
    if (target->kind == NODE_NAME)
        return mica__jinja_define(p, target->name);
    if (target->kind == NODE_TUPLE)
        for (const jinja_node *item = target->a; item; item = item->next)
            MICA_TRY(define_target(p, item));
    return MICA_OK;
}

/* --- bodies ----------------------------------------------------------------------------------- */

static mica_status parse_statement(jinja_parser *p, jinja_node **out);

/* The word that opens the tag at the current token matches one of the NULL-terminated `ends`. */
static bool at_end_tag(const jinja_parser *p, const char *const *ends)
{
    for (; *ends; ends++)
        if (name_is(p, p->at + 1, *ends))
            return true;
    return false;
}

static mica_status parse_print(jinja_parser *p, jinja_node **out)
{
    jinja_node *value;
    MICA_TRY(mica__jinja_node(p, NODE_PRINT, p->at->at, out));
    p->at++;
    MICA_TRY(mica__jinja_parse_tuple(p, true, &value));
    MICA_TRY(mica__jinja_expect(p, TOKEN_PRINT_END, "'}}'"));
    (*out)->a = value;
    return mica__jinja_close_node(p, *out);
}

static mica_status parse_text(jinja_parser *p, jinja_node **out)
{
    jinja_value *kept = mica__jinja_take(p->heap, 1, sizeof *kept);
    if (!kept)
        return p->heap->status;
    *kept = p->at->value;
    MICA_TRY(mica__jinja_node(p, NODE_TEXT, p->at->at, out));
    (*out)->value = kept;
    p->at++;
    return MICA_OK;
}

/* Statements up to a tag that starts with one of `ends` (NULL-terminated; empty: up to the end of
 * the template). The "{%" of that tag has been read, its word has not. */
static mica_status parse_body(jinja_parser *p, const char *const *ends, const jinja_node **out)
{
    jinja_node *first = NULL, *last = NULL;
    const uint32_t opened = p->at->at;
    if (++p->nesting > MAX_STATEMENTS)
        return mica__jinja_refuse(p, opened, MICA_E_BUDGET, "statements nest deeper than %d",
                                  MAX_STATEMENTS);
    while (p->at->kind != TOKEN_END) {
        jinja_node *node = NULL;
        if (p->at->kind == TOKEN_TAG_BEGIN && at_end_tag(p, ends))
            break;
        if (p->at->kind == TOKEN_DATA)
            MICA_TRY(parse_text(p, &node));
        else if (p->at->kind == TOKEN_PRINT_BEGIN)
            MICA_TRY(parse_print(p, &node));
        else
            MICA_TRY(parse_statement(p, &node));
        MICA_TRY(mica__jinja_check_known(p));
        if (last)
            last->next = node;
        else
            first = node;
        last = node;
    }
    p->nesting--;
    if (*ends) {
        if (p->at->kind == TOKEN_END)
            return mica__jinja_refuse(p, opened, MICA_E_FORMAT,
                                      "no '%s' for the tag before this place", ends[0]);
        p->at++;
    }
    *out = first;
    return MICA_OK;
}

static mica_status end_tag(jinja_parser *p)
{
    return mica__jinja_expect(p, TOKEN_TAG_END, "'%}'");
}

/* A body with a scope of its own, its end tag included. */
static mica_status parse_scoped_body(jinja_parser *p, const char *end, const jinja_node **out)
{
    const char *const ends[] = {end, NULL};
    MICA_TRY(mica__jinja_push_scope(p));
    MICA_TRY(parse_body(p, ends, out));
    mica__jinja_pop_scope(p);
    p->at++;
    return end_tag(p);
}

/* --- statements ------------------------------------------------------------------------------- */

static mica_status parse_if(jinja_parser *p, jinja_node *node)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    jinja_node *last = NULL;
    p->conditional++;
    for (bool more = true; more;) {
        jinja_node *branch, *condition = NULL;
        MICA_TRY(mica__jinja_node(p, NODE_BRANCH, p->at->at, &branch));
        const bool otherwise = mica__jinja_skip_name(p, "else");
        if (!otherwise) {
            p->at++; /* if, elif */
            MICA_TRY(mica__jinja_parse_tuple(p, false, &condition));
        }
        MICA_TRY(end_tag(p));
        branch->a = condition;
        MICA_TRY(
            parse_body(p, otherwise ? (const char *const[]){"endif", NULL} : ends, &branch->b));
        MICA_TRY(mica__jinja_close_node(p, branch));
        if (last)
            last->next = branch;
        else
            node->a = branch;
        last = branch;
        more = !mica__jinja_skip_name(p, "endif");
    }
    p->conditional--;
    return end_tag(p);
}

static mica_status parse_for(jinja_parser *p, jinja_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    jinja_node *target, *iterable, *condition = NULL;
    int32_t loop;
    p->at++;
    MICA_TRY(parse_target(p, false, 0, &target));
    if (!mica__jinja_skip_name(p, "in"))
        return mica__jinja_expected(p, "'in'");
    MICA_TRY(mica__jinja_parse_tuple(p, false, &iterable));
    node->a = target;
    node->b = iterable;
    MICA_TRY(mica__jinja_push_scope(p));
    p->loops++;
    MICA_TRY(define_target(p, target));
    if (mica__jinja_skip_name(p, "if"))
        MICA_TRY(mica__jinja_parse_expression(p, &condition));
    node->c = condition;
    node->flag = mica__jinja_skip_name(p, "recursive");
    MICA_TRY(end_tag(p));
    MICA_TRY(intern(p, "loop", 4, &loop));
    MICA_TRY(mica__jinja_define(p, loop));
    MICA_TRY(parse_body(p, ends, &node->d));
    p->loops--;
    mica__jinja_pop_scope(p);
    if (mica__jinja_skip_name(p, "else")) {
        MICA_TRY(end_tag(p));
        return parse_scoped_body(p, "endfor", &node->e);
    }
    p->at++;
    return end_tag(p);
}

static mica_status parse_set(jinja_parser *p, jinja_node *node)
{
    jinja_node *target, *value = NULL;
    p->at++;
    MICA_TRY(parse_target(p, true, 0, &target));
    node->a = target;
    if (mica__jinja_skip(p, TOKEN_ASSIGN)) {
        MICA_TRY(mica__jinja_parse_tuple(p, true, &value));
        node->b = value;
        MICA_TRY(define_target(p, target));
        return end_tag(p);
    }
    node->kind = NODE_SET_BLOCK;
    MICA_TRY(mica__jinja_parse_filters(p, NULL, false, &value));
    node->b = value;
    MICA_TRY(end_tag(p));
    MICA_TRY(parse_scoped_body(p, "endset", &node->c));
    return define_target(p, target);
}

/* ( parameters ) of a macro or caller, defined in the current scope. */
static mica_status parse_parameters(jinja_parser *p, jinja_node *node)
{
    jinja_node *last = NULL;
    MICA_TRY(mica__jinja_expect(p, TOKEN_LPAREN, "'('"));
    while (p->at->kind != TOKEN_RPAREN) {
        jinja_node *parameter, *value = NULL;
        if (last)
            MICA_TRY(mica__jinja_expect(p, TOKEN_COMMA, "',' or ')'"));
        MICA_TRY(mica__jinja_node(p, NODE_PARAM, p->at->at, &parameter));
        MICA_TRY(mica__jinja_take_name(p, &parameter->name));
        for (const jinja_node *other = node->a; other; other = other->next)
            if (other->name == parameter->name)
                return mica__jinja_refuse(p, parameter->at, MICA_E_FORMAT,
                                          "the parameter '%s' appears twice",
                                          p->program->names[parameter->name].text);
        MICA_TRY(mica__jinja_define(p, parameter->name));
        if (mica__jinja_skip(p, TOKEN_ASSIGN))
            MICA_TRY(mica__jinja_parse_expression(p, &value));
        else if (last && last->a)
            return mica__jinja_refuse(p, parameter->at, MICA_E_FORMAT,
                                      "a parameter without default behind one with");
        parameter->a = value;
        MICA_TRY(mica__jinja_close_node(p, parameter));
        if (last)
            last->next = parameter;
        else
            node->a = parameter;
        last = parameter;
    }
    p->at++;
    return MICA_OK;
}

/* Parameters (when they are there) and body of a macro or of a call block. */
static mica_status parse_macro_rest(jinja_parser *p, jinja_node *node, const char *end)
{
    static const char *const implied[] = {"varargs", "kwargs", "caller"};
    uint8_t *outer = p->mentions;
    const int loops = p->loops;
    for (size_t i = 0; i < sizeof implied / sizeof *implied; i++) {
        int32_t name;
        MICA_TRY(intern(p, implied[i], (uint32_t)strlen(implied[i]), &name));
        MICA_TRY(mica__jinja_define(p, name));
    }
    p->mentions = &node->flag;
    p->loops = 0;
    MICA_TRY(end_tag(p));
    MICA_TRY(parse_scoped_body(p, end, &node->c));
    p->loops = loops;
    p->mentions = outer;
    if (outer)
        *outer |= node->flag;
    return mica__jinja_close_node(p, node);
}

static mica_status parse_macro(jinja_parser *p, jinja_node *node)
{
    p->at++;
    MICA_TRY(mica__jinja_take_name(p, &node->name));
    MICA_TRY(mica__jinja_define(p, node->name));
    MICA_TRY(mica__jinja_push_scope(p));
    MICA_TRY(parse_parameters(p, node));
    MICA_TRY(parse_macro_rest(p, node, "endmacro"));
    mica__jinja_pop_scope(p);
    return MICA_OK;
}

static mica_status parse_call_block(jinja_parser *p, jinja_node *node)
{
    jinja_node *caller, *call;
    MICA_TRY(mica__jinja_node(p, NODE_MACRO, p->at->at, &caller));
    p->at++;
    MICA_TRY(mica__jinja_push_scope(p));
    if (p->at->kind == TOKEN_LPAREN)
        MICA_TRY(parse_parameters(p, caller));
    MICA_TRY(mica__jinja_parse_expression(p, &call));
    if (call->kind != NODE_CALL)
        return mica__jinja_refuse(p, call->at, MICA_E_FORMAT, "expected a call in a call block");
    node->a = call;
    MICA_TRY(parse_macro_rest(p, caller, "endcall"));
    mica__jinja_pop_scope(p);
    node->b = caller;
    return MICA_OK;
}

static mica_status parse_filter_block(jinja_parser *p, jinja_node *node)
{
    jinja_node *filter;
    p->at++;
    MICA_TRY(mica__jinja_parse_filters(p, NULL, true, &filter));
    node->a = filter;
    MICA_TRY(end_tag(p));
    return parse_scoped_body(p, "endfilter", &node->b);
}

static mica_status parse_with(jinja_parser *p, jinja_node *node)
{
    jinja_node *last = NULL;
    p->at++;
    MICA_TRY(mica__jinja_push_scope(p));
    while (p->at->kind != TOKEN_TAG_END) {
        jinja_node *pair, *target, *value;
        if (last)
            MICA_TRY(mica__jinja_expect(p, TOKEN_COMMA, "',' or '%}'"));
        MICA_TRY(mica__jinja_node(p, NODE_SET, p->at->at, &pair));
        MICA_TRY(parse_target_item(p, false, 0, &target));
        MICA_TRY(mica__jinja_expect(p, TOKEN_ASSIGN, "'='"));
        MICA_TRY(mica__jinja_parse_expression(p, &value));
        pair->a = target;
        pair->b = value;
        MICA_TRY(mica__jinja_close_node(p, pair));
        MICA_TRY(define_target(p, target));
        if (last)
            last->next = pair;
        else
            node->a = pair;
        last = pair;
    }
    p->at++;
    MICA_TRY(parse_scoped_body(p, "endwith", &node->b));
    mica__jinja_pop_scope(p);
    return MICA_OK;
}

static mica_status parse_do(jinja_parser *p, jinja_node *node)
{
    jinja_node *value;
    p->at++;
    MICA_TRY(mica__jinja_parse_tuple(p, true, &value));
    node->a = value;
    return end_tag(p);
}

static mica_status parse_jump(jinja_parser *p, jinja_node *node)
{
    if (!p->loops)
        return mica__jinja_refuse(p, node->at, MICA_E_FORMAT, "'%s' outside of a loop",
                                  node->kind == NODE_BREAK ? "break" : "continue");
    p->at++;
    return end_tag(p);
}

static mica_status parse_generation(jinja_parser *p, jinja_node *node)
{
    p->at++;
    MICA_TRY(end_tag(p));
    return parse_scoped_body(p, "endgeneration", &node->a);
}

static mica_status refuse_tag(const jinja_parser *p)
{
    static const char *const others[] = {"include", "import", "from",       "extends",
                                         "block",   "trans",  "autoescape", "debug"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (mica__jinja_at_name(p, others[i]))
            return mica__jinja_refuse(p, p->at->at, MICA_E_UNSUPPORTED,
                                      "'{%% %s %%}' is not for chat templates: they are one text "
                                      "each",
                                      others[i]);
    if (p->at->kind != TOKEN_NAME)
        return mica__jinja_expected(p, "a tag's name");
    return mica__jinja_refuse(p, p->at->at, MICA_E_FORMAT, "unexpected tag '%.*s'",
                              p->at->length < 60 ? (int)p->at->length : 60,
                              p->program->source.text + p->at->at);
}

static const struct {
    const char *name;
    jinja_node_kind kind;
    mica_status (*parse)(jinja_parser *p, jinja_node *node);
} statements[] = {
    {"if", NODE_IF, parse_if},
    {"for", NODE_FOR, parse_for},
    {"set", NODE_SET, parse_set},
    {"macro", NODE_MACRO, parse_macro},
    {"call", NODE_CALL_BLOCK, parse_call_block},
    {"filter", NODE_FILTER_BLOCK, parse_filter_block},
    {"with", NODE_WITH, parse_with},
    {"do", NODE_DO, parse_do},
    {"break", NODE_BREAK, parse_jump},
    {"continue", NODE_CONTINUE, parse_jump},
    {"generation", NODE_GENERATION, parse_generation},
};

/* A tag, its "{%" not yet read. The parser of each starts at the tag's word. */
static mica_status parse_statement(jinja_parser *p, jinja_node **out)
{
    const uint32_t at = p->at->at;
    p->at++;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!mica__jinja_at_name(p, statements[i].name))
            continue;
        MICA_TRY(mica__jinja_node(p, statements[i].kind, at, out));
        MICA_TRY(statements[i].parse(p, *out));
        return mica__jinja_close_node(p, *out);
    }
    return refuse_tag(p);
}

/* --- the whole -------------------------------------------------------------------------------- */

static mica_status parse_program(jinja_program *program, const char *name, const char *source,
                                 size_t n)
{
    static const char *const no_ends[] = {NULL};
    jinja_parser p = {.program = program, .heap = &program->heap};
    jinja_token *tokens;
    int64_t n_tokens;
    MICA_TRY(mica__jinja_source(p.heap, name, source, n, &program->source));
    MICA_TRY(mica__jinja_lex(p.heap, &program->source, &tokens, &n_tokens));
    p.at = tokens;
    MICA_TRY(mica__jinja_push_scope(&p));
    return parse_body(&p, no_ends, &program->body);
}

mica_status mica__jinja_parse(const char *name, const char *source, size_t n, int64_t max_bytes,
                              jinja_program *program)
{
    *program = (jinja_program){0};
    mica__jinja_heap_init(&program->heap, max_bytes, INT64_MAX);
    return parse_program(program, name, source, n);
}

void mica__jinja_program_free(jinja_program *program)
{
    mica__jinja_heap_free(&program->heap);
}
