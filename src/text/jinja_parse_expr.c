/* jinja_parse_expr.c - expressions, by recursive descent with Jinja's precedences.
 *
 * From loosest to tightest: a if b else c, or, and, not, comparisons and in, + and -, ~,
 * * / // %, **, unary signs, then attributes, calls, filters and tests behind a value.
 * SPDX-License-Identifier: MIT
 */
#include "text/jinja_parser.h"

#include <string.h>

#include "text/jinja_run.h"

#define MAX_EXPRESSIONS 100 /* how deep parentheses and the like may nest */

static mica_status parse_unary(jinja_parser *p, bool with_filters, jinja_node **out);

static mica_status enter(jinja_parser *p)
{
    if (++p->expressions > MAX_EXPRESSIONS)
        return mica__jinja_refuse(p, p->at->at, MICA_E_BUDGET, "expressions nest deeper than %d",
                                  MAX_EXPRESSIONS);
    return MICA_OK;
}

/* --- lists of expressions --------------------------------------------------------------------- */

typedef struct node_list {
    jinja_node *first;
    jinja_node *last;
} node_list;

static void append(node_list *list, jinja_node *node)
{
    if (list->last)
        list->last->next = node;
    else
        list->first = node;
    list->last = node;
}

static bool ends_tuple(const jinja_parser *p, bool conditional)
{
    switch (p->at->kind) {
    case TOKEN_PRINT_END:
    case TOKEN_TAG_END:
    case TOKEN_RPAREN:
    case TOKEN_RBRACKET:
    case TOKEN_RBRACE:
    case TOKEN_ASSIGN:
    case TOKEN_END:
        return true;
    default:
        return !conditional && mica__jinja_at_name(p, "recursive");
    }
}

mica_status mica__jinja_parse_tuple(jinja_parser *p, bool conditional, jinja_node **out)
{
    const uint32_t at = p->at->at;
    node_list items = {0};
    bool comma = false;
    while (!ends_tuple(p, conditional)) {
        jinja_node *item;
        MICA_TRY(conditional ? mica__jinja_parse_expression(p, &item)
                             : mica__jinja_parse_or(p, &item));
        append(&items, item);
        if (!mica__jinja_skip(p, TOKEN_COMMA))
            break;
        comma = true;
    }
    if (!items.first)
        return mica__jinja_expected(p, "an expression");
    if (!comma) {
        *out = items.first;
        return MICA_OK;
    }
    MICA_TRY(mica__jinja_node(p, NODE_TUPLE, at, out));
    (*out)->a = items.first;
    return mica__jinja_close_node(p, *out);
}

/* ( ... ): a value, a tuple, or the empty tuple. */
static mica_status parse_parentheses(jinja_parser *p, jinja_node **out)
{
    const uint32_t at = p->at->at;
    p->at++;
    if (mica__jinja_skip(p, TOKEN_RPAREN)) {
        MICA_TRY(mica__jinja_node(p, NODE_TUPLE, at, out));
        return mica__jinja_close_node(p, *out);
    }
    MICA_TRY(mica__jinja_parse_tuple(p, true, out));
    return mica__jinja_expect(p, TOKEN_RPAREN, "')'");
}

static mica_status parse_list(jinja_parser *p, jinja_node **out)
{
    MICA_TRY(mica__jinja_node(p, NODE_LIST, p->at->at, out));
    node_list items = {0};
    p->at++;
    while (p->at->kind != TOKEN_RBRACKET) {
        jinja_node *item;
        MICA_TRY(mica__jinja_parse_expression(p, &item));
        append(&items, item);
        if (!mica__jinja_skip(p, TOKEN_COMMA))
            break;
    }
    (*out)->a = items.first;
    MICA_TRY(mica__jinja_expect(p, TOKEN_RBRACKET, "',' or ']'"));
    return mica__jinja_close_node(p, *out);
}

static mica_status parse_dict(jinja_parser *p, jinja_node **out)
{
    MICA_TRY(mica__jinja_node(p, NODE_DICT, p->at->at, out));
    node_list items = {0};
    p->at++;
    while (p->at->kind != TOKEN_RBRACE) {
        jinja_node *key, *value;
        MICA_TRY(mica__jinja_parse_expression(p, &key));
        MICA_TRY(mica__jinja_expect(p, TOKEN_COLON, "':'"));
        MICA_TRY(mica__jinja_parse_expression(p, &value));
        append(&items, key);
        append(&items, value);
        if (!mica__jinja_skip(p, TOKEN_COMMA))
            break;
    }
    (*out)->a = items.first;
    MICA_TRY(mica__jinja_expect(p, TOKEN_RBRACE, "',' or '}'"));
    return mica__jinja_close_node(p, *out);
}

/* --- values ----------------------------------------------------------------------------------- */

static mica_status parse_const(jinja_parser *p, jinja_value value, jinja_node **out)
{
    jinja_value *kept = mica__jinja_take(p->heap, 1, sizeof *kept);
    if (!kept)
        return p->heap->status;
    *kept = value;
    MICA_TRY(mica__jinja_node(p, NODE_CONST, p->at->at, out));
    (*out)->value = kept;
    p->at++;
    return MICA_OK;
}

/* Neighbouring strings are one. */
static mica_status parse_strings(jinja_parser *p, jinja_node **out)
{
    const jinja_token *first = p->at;
    jinja_value value = first->value;
    if (first[1].kind == TOKEN_STRING) {
        jinja_bytes *made = mica__jinja_bytes_new(p->heap, 0);
        if (!made)
            return p->heap->status;
        for (; p->at->kind == TOKEN_STRING; p->at++)
            MICA_TRY(mica__jinja_put_text(p->heap, made, &p->at->value));
        made->fixed = true;
        value = mica__jinja_made(made);
        p->at--;
    }
    MICA_TRY(parse_const(p, value, out));
    (*out)->at = first->at;
    return MICA_OK;
}

static mica_status parse_name(jinja_parser *p, jinja_node **out)
{
    if (mica__jinja_at_name(p, "true") || mica__jinja_at_name(p, "True"))
        return parse_const(p, mica__jinja_bool(true), out);
    if (mica__jinja_at_name(p, "false") || mica__jinja_at_name(p, "False"))
        return parse_const(p, mica__jinja_bool(false), out);
    if (mica__jinja_at_name(p, "none") || mica__jinja_at_name(p, "None"))
        return parse_const(p, mica__jinja_none(), out);
    MICA_TRY(mica__jinja_node(p, NODE_NAME, p->at->at, out));
    MICA_TRY(mica__jinja_take_name(p, &(*out)->name));
    mica__jinja_mention(p, (*out)->name);
    return MICA_OK;
}

mica_status mica__jinja_parse_primary(jinja_parser *p, jinja_node **out)
{
    switch (p->at->kind) {
    case TOKEN_NAME:
        return parse_name(p, out);
    case TOKEN_STRING:
        return parse_strings(p, out);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
        return parse_const(p, p->at->value, out);
    case TOKEN_LPAREN:
        return parse_parentheses(p, out);
    case TOKEN_LBRACKET:
        return parse_list(p, out);
    case TOKEN_LBRACE:
        return parse_dict(p, out);
    default:
        return mica__jinja_expected(p, "an expression");
    }
}

/* --- behind a value --------------------------------------------------------------------------- */

static mica_status parse_argument(jinja_parser *p, jinja_node **out)
{
    const uint32_t at = p->at->at;
    jinja_node_kind kind = NODE_ARG;
    const jinja_value *key = NULL;
    if (mica__jinja_skip(p, TOKEN_MUL)) {
        kind = NODE_STAR;
    } else if (mica__jinja_skip(p, TOKEN_POW)) {
        kind = NODE_DSTAR;
    } else if (p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_ASSIGN) {
        kind = NODE_KWARG;
        MICA_TRY(mica__jinja_token_value(p, p->at, &key));
        p->at += 2;
    }
    jinja_node *value;
    MICA_TRY(mica__jinja_parse_expression(p, &value));
    MICA_TRY(mica__jinja_node(p, kind, at, out));
    (*out)->a = value;
    (*out)->value = key;
    return mica__jinja_close_node(p, *out);
}

/* ( arguments ), the parenthesis not yet read. Positional ones must come first. */
static mica_status parse_arguments(jinja_parser *p, const jinja_node **out)
{
    node_list arguments = {0};
    bool named = false;
    p->at++;
    while (p->at->kind != TOKEN_RPAREN) {
        jinja_node *argument;
        MICA_TRY(parse_argument(p, &argument));
        if (argument->kind == NODE_ARG && named)
            return mica__jinja_refuse(p, argument->at, MICA_E_FORMAT,
                                      "a positional argument behind a named one");
        named = named || argument->kind != NODE_ARG;
        append(&arguments, argument);
        if (!mica__jinja_skip(p, TOKEN_COMMA))
            break;
    }
    *out = arguments.first;
    return mica__jinja_expect(p, TOKEN_RPAREN, "',' or ')'");
}

/* What stands between brackets: an index, or a slice. */
static mica_status parse_index(jinja_parser *p, jinja_node **out)
{
    const uint32_t at = p->at->at;
    jinja_node *parts[3] = {NULL, NULL, NULL};
    int n = 0;
    if (p->at->kind != TOKEN_COLON) {
        MICA_TRY(mica__jinja_parse_expression(p, &parts[0]));
        if (p->at->kind != TOKEN_COLON) {
            *out = parts[0];
            return MICA_OK;
        }
    }
    while (n < 2 && mica__jinja_skip(p, TOKEN_COLON)) {
        n++;
        if (p->at->kind != TOKEN_COLON && p->at->kind != TOKEN_RBRACKET &&
            p->at->kind != TOKEN_COMMA)
            MICA_TRY(mica__jinja_parse_expression(p, &parts[n]));
    }
    MICA_TRY(mica__jinja_node(p, NODE_SLICE, at, out));
    (*out)->a = parts[0];
    (*out)->b = parts[1];
    (*out)->c = parts[2];
    return mica__jinja_close_node(p, *out);
}

static mica_status parse_brackets(jinja_parser *p, jinja_node *node, jinja_node **out)
{
    const uint32_t at = p->at->at;
    node_list indices = {0};
    bool comma = false;
    p->at++;
    while (p->at->kind != TOKEN_RBRACKET) {
        jinja_node *index;
        MICA_TRY(parse_index(p, &index));
        append(&indices, index);
        if (!mica__jinja_skip(p, TOKEN_COMMA))
            break;
        comma = true;
    }
    if (!indices.first)
        return mica__jinja_expected(p, "an index");
    MICA_TRY(mica__jinja_expect(p, TOKEN_RBRACKET, "']'"));
    jinja_node *index = indices.first;
    if (comma) {
        MICA_TRY(mica__jinja_node(p, NODE_TUPLE, at, &index));
        index->a = indices.first;
        MICA_TRY(mica__jinja_close_node(p, index));
    }
    MICA_TRY(mica__jinja_node(p, NODE_ITEM, at, out));
    (*out)->a = node;
    (*out)->b = index;
    return mica__jinja_close_node(p, *out);
}

static mica_status parse_dot(jinja_parser *p, jinja_node *node, jinja_node **out)
{
    const uint32_t at = p->at->at;
    p->at++;
    if (p->at->kind == TOKEN_INTEGER) {
        jinja_node *index;
        MICA_TRY(parse_const(p, p->at->value, &index));
        MICA_TRY(mica__jinja_node(p, NODE_ITEM, at, out));
        (*out)->b = index;
    } else if (p->at->kind == TOKEN_NAME) {
        MICA_TRY(mica__jinja_node(p, NODE_ATTR, at, out));
        MICA_TRY(mica__jinja_token_value(p, p->at, &(*out)->value));
        p->at++;
    } else {
        return mica__jinja_expected(p, "a name or number behind '.'");
    }
    (*out)->a = node;
    return mica__jinja_close_node(p, *out);
}

static mica_status parse_call(jinja_parser *p, jinja_node *node, jinja_node **out)
{
    MICA_TRY(mica__jinja_node(p, NODE_CALL, p->at->at, out));
    (*out)->a = node;
    MICA_TRY(parse_arguments(p, &(*out)->b));
    return mica__jinja_close_node(p, *out);
}

mica_status mica__jinja_parse_postfix(jinja_parser *p, jinja_node *node, jinja_node **out)
{
    for (;;) {
        if (p->at->kind == TOKEN_DOT)
            MICA_TRY(parse_dot(p, node, &node));
        else if (p->at->kind == TOKEN_LBRACKET)
            MICA_TRY(parse_brackets(p, node, &node));
        else if (p->at->kind == TOKEN_LPAREN)
            MICA_TRY(parse_call(p, node, &node));
        else
            break;
    }
    *out = node;
    return MICA_OK;
}

/* A name with dots, as filters and tests may have. */
static mica_status parse_dotted(jinja_parser *p, const jinja_value **value)
{
    if (p->at->kind != TOKEN_NAME)
        return mica__jinja_expected(p, "a name");
    jinja_token whole = *p->at++;
    while (p->at->kind == TOKEN_DOT && p->at[1].kind == TOKEN_NAME) {
        whole.length = p->at[1].at + p->at[1].length - whole.at;
        p->at += 2;
    }
    return mica__jinja_token_value(p, &whole, value);
}

static bool known(const jinja_node *node)
{
    return node->kind == NODE_FILTER ? mica__jinja_filter_known(node->value)
                                     : mica__jinja_test_known(node->value);
}

/* Unknown filters and tests are refused while parsing, but for those in a branch that may never be
 * taken: these fail when they are reached. */
static void note_unknown(jinja_parser *p, const jinja_node *node)
{
    if (!p->conditional && !p->unknown && !known(node))
        p->unknown = node;
}

mica_status mica__jinja_check_known(const jinja_parser *p)
{
    const jinja_node *node = p->unknown;
    if (!node)
        return MICA_OK;
    return mica__jinja_refuse(p, node->at, MICA_E_FORMAT, "there is no %s named '%.*s'",
                              node->kind == NODE_FILTER ? "filter" : "test",
                              node->value->text.length < 60 ? (int)node->value->text.length : 60,
                              mica__jinja_chars(node->value));
}

mica_status mica__jinja_parse_filters(jinja_parser *p, jinja_node *subject, bool started,
                                      jinja_node **out)
{
    while (started || mica__jinja_skip(p, TOKEN_PIPE)) {
        jinja_node *filter;
        started = false;
        MICA_TRY(mica__jinja_node(p, NODE_FILTER, p->at->at, &filter));
        filter->a = subject;
        MICA_TRY(parse_dotted(p, &filter->value));
        if (p->at->kind == TOKEN_LPAREN)
            MICA_TRY(parse_arguments(p, &filter->b));
        note_unknown(p, filter);
        MICA_TRY(mica__jinja_close_node(p, filter));
        subject = filter;
    }
    *out = subject;
    return MICA_OK;
}

static bool starts_test_argument(const jinja_parser *p)
{
    switch (p->at->kind) {
    case TOKEN_NAME:
        return !mica__jinja_at_name(p, "else") && !mica__jinja_at_name(p, "or") &&
               !mica__jinja_at_name(p, "and");
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LPAREN:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE:
        return true;
    default:
        return false;
    }
}

static mica_status parse_test(jinja_parser *p, jinja_node *subject, jinja_node **out)
{
    MICA_TRY(mica__jinja_node(p, NODE_TEST, p->at->at, out));
    p->at++;
    (*out)->flag = mica__jinja_skip_name(p, "not");
    (*out)->a = subject;
    MICA_TRY(parse_dotted(p, &(*out)->value));
    if (p->at->kind == TOKEN_LPAREN) {
        MICA_TRY(parse_arguments(p, &(*out)->b));
    } else if (starts_test_argument(p)) {
        if (mica__jinja_at_name(p, "is"))
            return mica__jinja_refuse(p, p->at->at, MICA_E_FORMAT,
                                      "tests cannot be chained with 'is'");
        jinja_node *value, *argument;
        MICA_TRY(mica__jinja_parse_primary(p, &value));
        MICA_TRY(mica__jinja_parse_postfix(p, value, &value));
        MICA_TRY(mica__jinja_node(p, NODE_ARG, value->at, &argument));
        argument->a = value;
        MICA_TRY(mica__jinja_close_node(p, argument));
        (*out)->b = argument;
    }
    note_unknown(p, *out);
    return mica__jinja_close_node(p, *out);
}

static mica_status parse_filters_and_tests(jinja_parser *p, jinja_node *node, jinja_node **out)
{
    for (;;) {
        if (p->at->kind == TOKEN_PIPE)
            MICA_TRY(mica__jinja_parse_filters(p, node, false, &node));
        else if (mica__jinja_at_name(p, "is"))
            MICA_TRY(parse_test(p, node, &node));
        else if (p->at->kind == TOKEN_LPAREN)
            MICA_TRY(parse_call(p, node, &node));
        else
            break;
    }
    *out = node;
    return MICA_OK;
}

/* --- operators -------------------------------------------------------------------------------- */

static mica_status parse_unary(jinja_parser *p, bool with_filters, jinja_node **out)
{
    jinja_node *node;
    MICA_TRY(enter(p));
    if (p->at->kind == TOKEN_SUB || p->at->kind == TOKEN_ADD) {
        MICA_TRY(mica__jinja_node(p, NODE_UNARY, p->at->at, &node));
        node->op = (uint8_t)p->at->kind;
        p->at++;
        jinja_node *operand;
        MICA_TRY(parse_unary(p, false, &operand));
        node->a = operand;
        MICA_TRY(mica__jinja_close_node(p, node));
    } else {
        MICA_TRY(mica__jinja_parse_primary(p, &node));
    }
    MICA_TRY(mica__jinja_parse_postfix(p, node, &node));
    if (with_filters)
        MICA_TRY(parse_filters_and_tests(p, node, &node));
    p->expressions--;
    *out = node;
    return MICA_OK;
}

/* One level of operators that group to the left. */
typedef mica_status (*operand_parser)(jinja_parser *p, jinja_node **out);

static mica_status parse_left(jinja_parser *p, const jinja_token_kind *kinds, int n_kinds,
                              operand_parser operand, jinja_node **out)
{
    jinja_node *left;
    MICA_TRY(operand(p, &left));
    for (;;) {
        bool found = false;
        for (int i = 0; i < n_kinds; i++)
            found = found || p->at->kind == kinds[i];
        if (!found)
            break;
        jinja_node *node, *right;
        MICA_TRY(mica__jinja_node(p, NODE_BINARY, p->at->at, &node));
        node->op = (uint8_t)p->at->kind;
        p->at++;
        MICA_TRY(operand(p, &right));
        node->a = left;
        node->b = right;
        MICA_TRY(mica__jinja_close_node(p, node));
        left = node;
    }
    *out = left;
    return MICA_OK;
}

static mica_status parse_signed(jinja_parser *p, jinja_node **out)
{
    return parse_unary(p, true, out);
}

static mica_status parse_power(jinja_parser *p, jinja_node **out)
{
    static const jinja_token_kind kinds[] = {TOKEN_POW};
    return parse_left(p, kinds, 1, parse_signed, out);
}

static mica_status parse_product(jinja_parser *p, jinja_node **out)
{
    static const jinja_token_kind kinds[] = {TOKEN_MUL, TOKEN_DIV, TOKEN_FLOORDIV, TOKEN_MOD};
    return parse_left(p, kinds, 4, parse_power, out);
}

static mica_status parse_concat(jinja_parser *p, jinja_node **out)
{
    jinja_node *node, *part;
    MICA_TRY(parse_product(p, &part));
    if (p->at->kind != TOKEN_TILDE) {
        *out = part;
        return MICA_OK;
    }
    MICA_TRY(mica__jinja_node(p, NODE_CONCAT, p->at->at, &node));
    node_list parts = {0};
    append(&parts, part);
    while (mica__jinja_skip(p, TOKEN_TILDE)) {
        MICA_TRY(parse_product(p, &part));
        append(&parts, part);
    }
    node->a = parts.first;
    *out = node;
    return mica__jinja_close_node(p, node);
}

static mica_status parse_sum(jinja_parser *p, jinja_node **out)
{
    static const jinja_token_kind kinds[] = {TOKEN_ADD, TOKEN_SUB};
    return parse_left(p, kinds, 2, parse_concat, out);
}

/* The comparison at the current token, stepped over; 0 when there is none. */
static uint8_t skip_comparison(jinja_parser *p)
{
    if (p->at->kind >= TOKEN_EQ && p->at->kind <= TOKEN_GE)
        return (uint8_t)(p->at++)->kind;
    if (mica__jinja_skip_name(p, "in"))
        return OP_IN;
    if (mica__jinja_at_name(p, "not") && p->at[1].kind == TOKEN_NAME) {
        p->at++;
        if (mica__jinja_skip_name(p, "in"))
            return OP_NOT_IN;
        p->at--;
    }
    return 0;
}

static mica_status parse_comparison(jinja_parser *p, jinja_node **out)
{
    jinja_node *left, *node;
    node_list operands = {0};
    const uint32_t start = p->at->at;
    MICA_TRY(parse_sum(p, &left));
    for (;;) {
        const uint32_t at = p->at->at;
        const uint8_t op = skip_comparison(p);
        if (!op)
            break;
        jinja_node *operand, *right;
        MICA_TRY(parse_sum(p, &right));
        MICA_TRY(mica__jinja_node(p, NODE_OPERAND, at, &operand));
        operand->op = op;
        operand->a = right;
        MICA_TRY(mica__jinja_close_node(p, operand));
        append(&operands, operand);
    }
    *out = left;
    if (!operands.first)
        return MICA_OK;
    MICA_TRY(mica__jinja_node(p, NODE_COMPARE, start, &node));
    node->a = left;
    node->b = operands.first;
    *out = node;
    return mica__jinja_close_node(p, node);
}

static mica_status parse_not(jinja_parser *p, jinja_node **out)
{
    if (!mica__jinja_at_name(p, "not"))
        return parse_comparison(p, out);
    jinja_node *operand;
    const uint32_t at = p->at->at;
    MICA_TRY(enter(p));
    p->at++;
    MICA_TRY(parse_not(p, &operand));
    p->expressions--;
    MICA_TRY(mica__jinja_node(p, NODE_NOT, at, out));
    (*out)->a = operand;
    return mica__jinja_close_node(p, *out);
}

static mica_status parse_logic(jinja_parser *p, const char *word, jinja_node_kind kind,
                               operand_parser operand, jinja_node **out)
{
    jinja_node *left, *right, *node;
    MICA_TRY(operand(p, &left));
    while (mica__jinja_at_name(p, word)) {
        MICA_TRY(mica__jinja_node(p, kind, p->at->at, &node));
        p->at++;
        MICA_TRY(operand(p, &right));
        node->a = left;
        node->b = right;
        MICA_TRY(mica__jinja_close_node(p, node));
        left = node;
    }
    *out = left;
    return MICA_OK;
}

static mica_status parse_and(jinja_parser *p, jinja_node **out)
{
    return parse_logic(p, "and", NODE_AND, parse_not, out);
}

mica_status mica__jinja_parse_or(jinja_parser *p, jinja_node **out)
{
    MICA_TRY(enter(p));
    MICA_TRY(parse_logic(p, "or", NODE_OR, parse_and, out));
    p->expressions--;
    return MICA_OK;
}

mica_status mica__jinja_parse_expression(jinja_parser *p, jinja_node **out)
{
    jinja_node *node, *test, *otherwise = NULL, *value;
    const jinja_node *unknown = p->unknown;
    MICA_TRY(enter(p));
    MICA_TRY(mica__jinja_parse_or(p, &value));
    while (mica__jinja_at_name(p, "if")) {
        p->unknown = unknown; /* what stands before the "if" may never be reached */
        MICA_TRY(mica__jinja_node(p, NODE_COND, p->at->at, &node));
        p->at++;
        p->conditional++;
        MICA_TRY(mica__jinja_parse_or(p, &test));
        otherwise = NULL;
        if (mica__jinja_skip_name(p, "else"))
            MICA_TRY(mica__jinja_parse_expression(p, &otherwise));
        p->conditional--;
        node->a = value;
        node->b = test;
        node->c = otherwise;
        MICA_TRY(mica__jinja_close_node(p, node));
        value = node;
    }
    p->expressions--;
    *out = value;
    return MICA_OK;
}
