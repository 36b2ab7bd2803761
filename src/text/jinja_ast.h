/* jinja_ast.h - a parsed template: nodes, names and what it asks its caller for.
 *
 * Nodes lie in the program's heap and never change after parsing, so that threads share them. A
 * node knows how deep the tree below it is; the parser refuses trees that are deeper than
 * JINJA_MAX_TREE, which bounds every recursion over them.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_JINJA_AST_H
#define MICA_TEXT_JINJA_AST_H

#include "text/jinja_lex.h"

#define JINJA_MAX_TREE 300

typedef enum jinja_node_kind {
    /* expressions */
    NODE_CONST,  /* value */
    NODE_NAME,   /* name */
    NODE_LIST,   /* a: items */
    NODE_TUPLE,  /* a: items */
    NODE_DICT,   /* a: key, value, key, value ... */
    NODE_UNARY,  /* op a */
    NODE_BINARY, /* a op b */
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_COMPARE, /* a, then b: operands, each with its op */
    NODE_CONCAT,  /* a: parts */
    NODE_COND,    /* a if b else c; c may be NULL */
    NODE_ATTR,    /* a.value */
    NODE_ITEM,    /* a[b] */
    NODE_SLICE,   /* a : b : c, each may be NULL */
    NODE_CALL,    /* a(b: arguments) */
    NODE_FILTER,  /* a | value(b: arguments); a NULL in a filter block */
    NODE_TEST,    /* a is value(b: arguments); flag: negated */
    NODE_OPERAND, /* op a */
    NODE_ARG,     /* a */
    NODE_KWARG,   /* value = a */
    NODE_STAR,    /* *a */
    NODE_DSTAR,   /* **a */
    /* statements */
    NODE_TEXT,         /* value */
    NODE_PRINT,        /* a */
    NODE_IF,           /* a: branches */
    NODE_BRANCH,       /* a: condition or NULL, b: body */
    NODE_FOR,          /* a: target, b: iterable, c: condition or NULL, d: body, e: else; flag:
                          recursive */
    NODE_SET,          /* a: target, b: value */
    NODE_SET_BLOCK,    /* a: target, b: filter or NULL, c: body */
    NODE_MACRO,        /* name, a: parameters, c: body; flags below */
    NODE_PARAM,        /* name, a: default or NULL */
    NODE_CALL_BLOCK,   /* a: the call, b: NODE_MACRO of the caller */
    NODE_FILTER_BLOCK, /* a: filter, b: body */
    NODE_WITH,         /* a: NODE_SETs, b: body */
    NODE_DO,           /* a */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_GENERATION, /* a: body */
    NODE_NS_TARGET   /* name.value as a target of set */
} jinja_node_kind;

/* Flags of NODE_MACRO: what its body mentions. */
#define MACRO_VARARGS 1
#define MACRO_KWARGS  2
#define MACRO_CALLER  4

typedef struct jinja_node jinja_node;
struct jinja_node {
    uint8_t kind;
    uint8_t op;   /* a jinja_token_kind, or for OPERAND also OP_IN and OP_NOT_IN */
    uint8_t flag; /* see the kinds */
    uint16_t depth;
    uint32_t at;  /* byte offset in the source */
    int32_t name; /* index of names */
    const jinja_node *a, *b, *c, *d, *e;
    jinja_node *next; /* in a list */
    const jinja_value *value;
};

#define OP_IN     200
#define OP_NOT_IN 201

typedef struct jinja_name {
    const char *text; /* NUL-terminated */
    uint32_t length;
    bool free; /* looked for outside the template */
} jinja_name;

typedef struct jinja_program {
    jinja_heap heap;
    jinja_source source;
    const jinja_node *body;
    jinja_name *names;
    int32_t n_names;
    int32_t names_capacity;
} jinja_program;

/* Parses source[0, n) into *program, which is freed by mica__jinja_program_free also after a
 * failure. FORMAT: no template; UNSUPPORTED: include, import and the like; BUDGET: over the limits.
 * `name` must outlive the program. */
mica_status mica__jinja_parse(const char *name, const char *source, size_t n, int64_t max_bytes,
                              jinja_program *program);
void mica__jinja_program_free(jinja_program *program);

/* The index of a name that the template mentions, -1 when it does not. */
int32_t mica__jinja_name_find(const jinja_program *program, const char *text, size_t n);

#endif
