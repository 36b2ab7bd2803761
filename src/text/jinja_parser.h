/* jinja_parser.h - what the two halves of the parser share: jinja_parse.c has the statements,
 * jinja_parse_expr.c the expressions.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_JINJA_PARSER_H
#define MICA_TEXT_JINJA_PARSER_H

#include "text/jinja_ast.h"

#define MAX_STATEMENTS 60 /* how deep statements may nest */

/* The names that a scope of the template defines, to tell which ones come from outside. */
typedef struct jinja_scope_names {
    int32_t *names;
    int64_t n;
    int64_t capacity;
} jinja_scope_names;

typedef struct jinja_parser {
    jinja_program *program;
    jinja_heap *heap; /* the program's */
    const jinja_token *at;
    int nesting;               /* of statements */
    int expressions;           /* of expressions, while they are parsed */
    int loops;                 /* open for loops of this macro */
    const jinja_node *unknown; /* a filter or test of the current statement that mica lacks */
    int conditional;   /* in a branch: an unknown filter there fails only when it is reached */
    uint8_t *mentions; /* flags of the macro being parsed, or NULL */
    jinja_scope_names scopes[MAX_STATEMENTS * 2 + 2];
    int n_scopes;
} jinja_parser;

mica_status mica__jinja_refuse(const jinja_parser *p, uint32_t at, mica_status status,
                               const char *format, ...) MICA_PRINTF(4, 5);

/* "expected X, got Y" at the current token. */
mica_status mica__jinja_expected(const jinja_parser *p, const char *what);

mica_status mica__jinja_node(jinja_parser *p, jinja_node_kind kind, uint32_t at, jinja_node **made);

/* Sets a node's depth from its children; refused beyond JINJA_MAX_TREE. */
mica_status mica__jinja_close_node(jinja_parser *p, jinja_node *node);

bool mica__jinja_at_name(const jinja_parser *p, const char *name);
bool mica__jinja_skip(jinja_parser *p, jinja_token_kind kind);
bool mica__jinja_skip_name(jinja_parser *p, const char *name);
mica_status mica__jinja_expect(jinja_parser *p, jinja_token_kind kind, const char *what);

/* The index of the current token's name, which must be one. */
mica_status mica__jinja_take_name(jinja_parser *p, int32_t *name);
mica_status mica__jinja_token_value(jinja_parser *p, const jinja_token *token,
                                    const jinja_value **value);

mica_status mica__jinja_push_scope(jinja_parser *p);
void mica__jinja_pop_scope(jinja_parser *p);
mica_status mica__jinja_define(jinja_parser *p, int32_t name);

/* Notes that a name is read here. */
void mica__jinja_mention(jinja_parser *p, int32_t name);

mica_status mica__jinja_parse_expression(jinja_parser *p, jinja_node **out);

/* An expression without "a if b" of its own, as for loops take it. */
mica_status mica__jinja_parse_or(jinja_parser *p, jinja_node **out);
mica_status mica__jinja_parse_primary(jinja_parser *p, jinja_node **out);
mica_status mica__jinja_parse_postfix(jinja_parser *p, jinja_node *node, jinja_node **out);

/* One expression, or a tuple of several without parentheses. */
mica_status mica__jinja_parse_tuple(jinja_parser *p, bool conditional, jinja_node **out);

/* Fails when the statement that has just been parsed mentions a filter or test that is unknown. */
mica_status mica__jinja_check_known(const jinja_parser *p);

/* name(args) | name(args) ... applied to `subject` (NULL in filter blocks); the '|' before the
 * first has been read when `started`. */
mica_status mica__jinja_parse_filters(jinja_parser *p, jinja_node *subject, bool started,
                                      jinja_node **out);

#endif
