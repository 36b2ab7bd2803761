/* jinja_lex.h - a template's source as tokens.
 *
 * Delimiters and white space as the Jinja environment of Hugging Face has them: {{ }}, {% %}, {#
 * #}, trim_blocks and lstrip_blocks on, no trailing newline. The source must be UTF-8; its newlines
 * become \n.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_JINJA_LEX_H
#define MICA_TEXT_JINJA_LEX_H

#include "text/jinja_value.h"

typedef enum jinja_token_kind {
    TOKEN_END,
    TOKEN_DATA,
    TOKEN_PRINT_BEGIN, /* {{ */
    TOKEN_PRINT_END,
    TOKEN_TAG_BEGIN, /* {% */
    TOKEN_TAG_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_MUL,
    TOKEN_POW,
    TOKEN_DIV,
    TOKEN_FLOORDIV,
    TOKEN_MOD,
    TOKEN_TILDE,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_LT,
    TOKEN_LE,
    TOKEN_GT,
    TOKEN_GE,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COMMA,
    TOKEN_COLON,
    TOKEN_PIPE,
    TOKEN_SEMICOLON,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LBRACE,
    TOKEN_RBRACE
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    uint32_t at;       /* byte offset in the source */
    uint32_t length;   /* bytes of NAME */
    jinja_value value; /* DATA, STRING, INTEGER, FLOAT */
} jinja_token;

typedef struct jinja_source {
    const char *name; /* in messages */
    char *text;       /* newlines normalised */
    size_t length;
} jinja_source;

/* Copies source[0, n) into *made with newlines normalised; FORMAT when it is not UTF-8. */
mica_status mica__jinja_source(jinja_heap *heap, const char *name, const char *source, size_t n,
                               jinja_source *made);

/* Puts "NAME, line L, column C: " before the recorded message and returns status. */
mica_status mica__jinja_located(const jinja_source *source, size_t at, mica_status status);

/* All tokens, the last of kind END. They lie in the heap. */
mica_status mica__jinja_lex(jinja_heap *heap, const jinja_source *source, jinja_token **tokens,
                            int64_t *n_tokens);

/* A token as messages name it. Static storage. */
const char *mica__jinja_token_name(jinja_token_kind kind);

#endif
