/* jinja_lex.c - from source to tokens, white space control included.
 *
 * The lexer is always in the text, in a tag, in a print or in a comment; inside tags and prints it
 * counts open brackets, so that the }} of a dict does not end a print.
 * SPDX-License-Identifier: MIT
 */
#include "text/jinja_lex.h"

#include <string.h>

#include "text/jinja_run.h"
#include "text/letter_case.h"
#include "text/utf8.h"

#define MAX_BRACKETS 200

typedef struct lexer {
    jinja_heap *heap;
    const jinja_source *source;
    const char *text;
    size_t at;
    size_t end;
    bool line_starting; /* what was read last ended a line */
    jinja_token *tokens;
    int64_t n_tokens;
    int64_t capacity;
    char open[MAX_BRACKETS];
    int n_open;
} lexer;

static const struct {
    const char *text;
    jinja_token_kind kind;
} operators[] = {
    {"//", TOKEN_FLOORDIV}, {"**", TOKEN_POW},      {"==", TOKEN_EQ},    {"!=", TOKEN_NE},
    {">=", TOKEN_GE},       {"<=", TOKEN_LE},       {"+", TOKEN_ADD},    {"-", TOKEN_SUB},
    {"/", TOKEN_DIV},       {"*", TOKEN_MUL},       {"%", TOKEN_MOD},    {"~", TOKEN_TILDE},
    {"[", TOKEN_LBRACKET},  {"]", TOKEN_RBRACKET},  {"(", TOKEN_LPAREN}, {")", TOKEN_RPAREN},
    {"{", TOKEN_LBRACE},    {"}", TOKEN_RBRACE},    {">", TOKEN_GT},     {"<", TOKEN_LT},
    {"=", TOKEN_ASSIGN},    {".", TOKEN_DOT},       {":", TOKEN_COLON},  {"|", TOKEN_PIPE},
    {",", TOKEN_COMMA},     {";", TOKEN_SEMICOLON},
};

const char *mica__jinja_token_name(jinja_token_kind kind)
{
    switch (kind) {
    case TOKEN_END:
        return "the end of the template";
    case TOKEN_DATA:
        return "text";
    case TOKEN_PRINT_BEGIN:
        return "'{{'";
    case TOKEN_PRINT_END:
        return "'}}'";
    case TOKEN_TAG_BEGIN:
        return "'{%'";
    case TOKEN_TAG_END:
        return "'%}'";
    case TOKEN_NAME:
        return "a name";
    case TOKEN_STRING:
        return "a string";
    case TOKEN_INTEGER:
        return "an integer";
    case TOKEN_FLOAT:
        return "a number";
    default:
        break;
    }
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].kind == kind)
            return operators[i].text;
    return "?";
}

/* --- the source ------------------------------------------------------------------------------- */

mica_status mica__jinja_source(jinja_heap *heap, const char *name, const char *source, size_t n,
                               jinja_source *made)
{
    int64_t bad;
    size_t length = 0;
    *made = (jinja_source){.name = name};
    if (n >= UINT32_MAX)
        MICA_FAIL(MICA_E_BUDGET, "%s: %zu bytes are too many", name, n);
    if (!mica__utf8_valid(source, (int64_t)n, &bad))
        MICA_FAIL(MICA_E_FORMAT, "%s: not UTF-8 at byte %lld", name, (long long)bad);
    made->text = mica__jinja_take(heap, n + 1, 1);
    if (!made->text)
        return heap->status;
    for (size_t i = 0; i < n; i++) {
        const bool newline = source[i] == '\r' || source[i] == '\n';
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n')
            i++;
        made->text[length++] = newline ? '\n' : source[i];
    }
    if (length && made->text[length - 1] == '\n')
        length--;
    made->text[length] = '\0';
    made->length = length;
    return MICA_OK;
}

mica_status mica__jinja_located(const jinja_source *source, size_t at, mica_status status)
{
    int64_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < source->length; i++) {
        if (source->text[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)source->text[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    return mica__fail_at(status, "%s, line %lld, column %lld", source->name, (long long)line,
                         (long long)column);
}

static mica_status refuse(const lexer *l, size_t at, const char *what)
{
    return mica__jinja_located(l->source, at, mica__fail(MICA_E_FORMAT, "%s", what));
}

/* --- tokens ----------------------------------------------------------------------------------- */

static mica_status emit(lexer *l, jinja_token_kind kind, size_t at, jinja_token **made)
{
    MICA_TRY(mica__jinja_charge(l->heap, 1));
    if (l->n_tokens == l->capacity) {
        const int64_t wanted = l->capacity ? 2 * l->capacity : 256;
        jinja_token *grown = mica__jinja_take(l->heap, (size_t)wanted, sizeof *grown);
        if (!grown)
            return l->heap->status;
        if (l->n_tokens)
            memcpy(grown, l->tokens, (size_t)l->n_tokens * sizeof *grown);
        l->tokens = grown;
        l->capacity = wanted;
    }
    *made = &l->tokens[l->n_tokens++];
    **made = (jinja_token){.kind = kind, .at = (uint32_t)at};
    return MICA_OK;
}

static mica_status emit_bare(lexer *l, jinja_token_kind kind, size_t at)
{
    jinja_token *token;
    return emit(l, kind, at, &token);
}

/* A string that all renders share: exactly as large as its bytes, never appended to. */
static mica_status fixed_string(lexer *l, const char *bytes, size_t n, jinja_value *out)
{
    MICA_TRY(mica__jinja_string(l->heap, bytes, n, false, out));
    out->text.buffer->fixed = true;
    return MICA_OK;
}

static mica_status emit_data(lexer *l, size_t from, size_t to)
{
    jinja_token *token;
    if (from == to)
        return MICA_OK;
    MICA_TRY(emit(l, TOKEN_DATA, from, &token));
    return fixed_string(l, l->text + from, to - from, &token->value);
}

static size_t skip_space(const lexer *l, size_t at)
{
    while (at < l->end) {
        uint32_t point;
        const size_t n = mica__letter_next(l->text + at, &point);
        if (!mica__letter_space(point))
            break;
        at += n;
    }
    return at;
}

static size_t strip_right(const lexer *l, size_t from, size_t to)
{
    while (to > from) {
        uint32_t point;
        const size_t n = mica__letter_back(l->text + to);
        mica__letter_next(l->text + to - n, &point);
        if (!mica__letter_space(point))
            break;
        to -= n;
    }
    return to;
}

static bool starts(const lexer *l, size_t at, const char *with)
{
    const size_t n = strlen(with);
    return l->end - at >= n && memcmp(l->text + at, with, n) == 0;
}

/* The end of the text [from, to) before a delimiter, shortened by the delimiter's sign: '-' takes
 * all white space, none takes the blanks of a line of its own (lstrip_blocks), '+' nothing. */
static size_t trimmed(const lexer *l, size_t from, size_t to, char sign, bool print)
{
    if (sign == '-')
        return strip_right(l, from, to);
    if (sign == '+' || print)
        return to;
    size_t line = to;
    while (line > from && l->text[line - 1] != '\n')
        line--;
    if (line == from && !l->line_starting)
        return to;
    return strip_right(l, line, to) == line ? line : to;
}

/* Steps over what follows a closing delimiter at l->at: all white space after '-', one newline
 * after a plain tag or comment. */
static void finish_delimiter(lexer *l, char sign, bool print)
{
    if (sign == '-')
        l->at = skip_space(l, l->at);
    else if (sign != '+' && !print && l->at < l->end && l->text[l->at] == '\n')
        l->at++;
    l->line_starting = l->at > 0 && l->text[l->at - 1] == '\n';
}

/* The closing delimiter at `at`, with its sign before it; *sign is 0 without one. */
static bool closes(const lexer *l, size_t at, const char *close, char *sign, size_t *after)
{
    *sign = 0;
    if (at < l->end && (l->text[at] == '-' || (l->text[at] == '+' && close[0] != '}'))) {
        *sign = l->text[at];
        at++;
    }
    *after = at + 2;
    return starts(l, at, close);
}

/* --- strings and numbers ---------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes the escape at text[*at] (behind the backslash) into `to`; returns the bytes, 0 when it is
 * refused, and steps over it. */
static size_t unescape(const lexer *l, size_t *at, size_t end, char to[4])
{
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = l->text[(*at)++];
    const char *found = c ? strchr(letters, c) : NULL;
    uint32_t point = 0;
    if (found) {
        to[0] = values[found - letters];
        return 1;
    }
    if (c >= '0' && c <= '7') {
        point = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < end && l->text[*at] >= '0' && l->text[*at] <= '7'; i++)
            point = point * 8 + (uint32_t)(l->text[(*at)++] - '0');
        return mica__letter_put(to, point);
    }
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits) /* not an escape: the backslash stays, and the character is read as any other */
    {
        to[0] = '\\';
        if (c == 'N' && *at < end && l->text[*at] == '{')
            return 0;
        (*at)--;
        return 1;
    }
    for (int i = 0; i < digits; i++) {
        const int value = *at < end ? hex_value(l->text[*at]) : -1;
        if (value < 0 || point > 0x10ffff)
            return 0;
        point = point * 16 + (uint32_t)value;
        (*at)++;
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    return mica__letter_put(to, point);
}

static mica_status lex_string(lexer *l)
{
    const size_t start = l->at;
    const char quote = l->text[start];
    size_t end = start + 1;
    while (end < l->end && l->text[end] != quote)
        end += l->text[end] == '\\' ? 2 : 1;
    if (end >= l->end)
        return refuse(l, start, "a string that is not closed");
    jinja_bytes *made = mica__jinja_bytes_new(l->heap, end - start);
    if (!made)
        return l->heap->status;
    for (size_t at = start + 1, from = at; from < end;) {
        while (at < end && l->text[at] != '\\')
            at++;
        MICA_TRY(mica__jinja_put(l->heap, made, l->text + from, at - from, false));
        if (at == end)
            break;
        const size_t backslash = at++;
        from = at;
        if (l->text[at] == '\n') { /* a line that goes on */
            from = ++at;
            continue;
        }
        char to[4];
        const size_t n = unescape(l, &at, end, to);
        if (!n)
            return refuse(l, backslash, "an escape that stands for no character");
        MICA_TRY(mica__jinja_put(l->heap, made, to, n, false));
        from = at;
    }
    jinja_token *token;
    MICA_TRY(emit(l, TOKEN_STRING, start, &token));
    token->value = mica__jinja_made(made);
    made->fixed = true;
    l->at = end + 1;
    return MICA_OK;
}

static bool is_digit(const lexer *l, size_t at)
{
    return at < l->end && l->text[at] >= '0' && l->text[at] <= '9';
}

/* The end of digits that single underscores may separate. */
static size_t digits_end(const lexer *l, size_t at)
{
    while (is_digit(l, at) || (l->text[at] == '_' && at + 1 < l->end && is_digit(l, at + 1)))
        at++;
    return at;
}

/* The end of the fraction and exponent behind whole digits, or `at` when it is an integer. */
static size_t float_end(const lexer *l, size_t at)
{
    size_t end = at;
    if (end + 1 < l->end && l->text[end] == '.' && is_digit(l, end + 1))
        end = digits_end(l, end + 1);
    if (end < l->end && (l->text[end] == 'e' || l->text[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < l->end && (l->text[exponent] == '+' || l->text[exponent] == '-'))
            exponent++;
        if (is_digit(l, exponent))
            end = digits_end(l, exponent);
    }
    return end;
}

static mica_status lex_float(lexer *l, size_t end)
{
    char digits[64];
    size_t n = 0;
    for (size_t i = l->at; i < end; i++) {
        if (l->text[i] == '_')
            continue;
        if (n == sizeof digits)
            return refuse(l, l->at, "a number of too many digits");
        digits[n++] = l->text[i];
    }
    jinja_token *token;
    MICA_TRY(emit(l, TOKEN_FLOAT, l->at, &token));
    token->value = mica__jinja_float(mica__jinja_float_value(digits, n));
    l->at = end;
    return MICA_OK;
}

static int base_of(const lexer *l)
{
    if (l->text[l->at] != '0' || l->at + 2 >= l->end)
        return 10;
    const char c = (char)(l->text[l->at + 1] | 0x20);
    const int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    const int first = hex_value(l->text[l->at + 2]);
    return first >= 0 && first < base ? base : 10;
}

static mica_status lex_number(lexer *l)
{
    const int base = base_of(l);
    size_t end = l->at + (base == 10 ? 0 : 2);
    int64_t value = 0;
    bool overflow = false;
    if (base == 10) {
        end = digits_end(l, l->at);
        const bool attribute = l->at > 0 && l->text[l->at - 1] == '.';
        const size_t real = attribute ? end : float_end(l, end);
        if (real > end)
            return lex_float(l, real);
        if (l->text[l->at] == '0') /* only zeros may follow a zero */
            for (end = l->at + 1; end < l->end && (l->text[end] == '0' || l->text[end] == '_');)
                end++;
    }
    size_t at = l->at + (base == 10 ? 0 : 2);
    for (; base == 10 ? at < end : at < l->end; at++) {
        const int digit = hex_value(l->text[at]);
        if (l->text[at] == '_')
            continue;
        if (digit < 0 || digit >= base)
            break;
        overflow = overflow || __builtin_mul_overflow(value, base, &value) ||
                   __builtin_add_overflow(value, digit, &value);
    }
    if (overflow)
        return refuse(l, l->at, "an integer beyond 64 bits");
    jinja_token *token;
    MICA_TRY(emit(l, TOKEN_INTEGER, l->at, &token));
    token->value = mica__jinja_int(value);
    l->at = at;
    return MICA_OK;
}

/* --- tags ------------------------------------------------------------------------------------- */

static size_t name_end(const lexer *l, size_t at)
{
    while (at < l->end) {
        uint32_t point;
        const size_t n = mica__letter_next(l->text + at, &point);
        const bool ascii = point == '_' || (point >= '0' && point <= '9') ||
                           ((point | 0x20) >= 'a' && (point | 0x20) <= 'z');
        if (point < 0x80 ? !ascii : !mica__letter_class(point).alpha)
            break;
        at += n;
    }
    return at;
}

static mica_status lex_operator(lexer *l)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!starts(l, l->at, operators[i].text))
            continue;
        const char c = operators[i].text[0];
        if (c == '(' || c == '[' || c == '{') {
            if (l->n_open == MAX_BRACKETS)
                return refuse(l, l->at, "brackets nest too deep");
            l->open[l->n_open++] = c;
        }
        if (c == ')' || c == ']' || c == '}') {
            const char opened = c == ')' ? '(' : c == ']' ? '[' : '{';
            if (!l->n_open || l->open[l->n_open - 1] != opened)
                return refuse(l, l->at, "a closing bracket that does not match");
            l->n_open--;
        }
        MICA_TRY(emit_bare(l, operators[i].kind, l->at));
        l->at += strlen(operators[i].text);
        return MICA_OK;
    }
    return refuse(l, l->at, "a character that no expression can have");
}

/* The inside of a tag or print up to its closing delimiter. */
static mica_status lex_inside(lexer *l, size_t start, bool print)
{
    const char *close = print ? "}}" : "%}";
    l->n_open = 0;
    for (;;) {
        char sign;
        size_t after;
        l->at = skip_space(l, l->at);
        if (l->at == l->end)
            return refuse(l, start, print ? "'{{' without '}}'" : "'{%' without '%}'");
        if (!l->n_open && closes(l, l->at, close, &sign, &after)) {
            MICA_TRY(emit_bare(l, print ? TOKEN_PRINT_END : TOKEN_TAG_END, l->at));
            l->at = after;
            finish_delimiter(l, sign, print);
            return MICA_OK;
        }
        const char c = l->text[l->at];
        if (is_digit(l, l->at)) {
            MICA_TRY(lex_number(l));
        } else if (c == '\'' || c == '"') {
            MICA_TRY(lex_string(l));
        } else if (name_end(l, l->at) > l->at) {
            jinja_token *token;
            const size_t end = name_end(l, l->at);
            MICA_TRY(emit(l, TOKEN_NAME, l->at, &token));
            token->length = (uint32_t)(end - l->at);
            l->at = end;
        } else {
            MICA_TRY(lex_operator(l));
        }
    }
}

static mica_status lex_comment(lexer *l, size_t start)
{
    size_t at = l->at;
    while (at < l->end && !starts(l, at, "#}"))
        at++;
    if (at >= l->end)
        return refuse(l, start, "'{#' without '#}'");
    const char before = at > l->at ? l->text[at - 1] : 0;
    l->at = at + 2;
    finish_delimiter(l, before == '-' || before == '+' ? before : 0, false);
    return MICA_OK;
}

/* Whether a tag of one word ("raw") starts at `at`, behind its "{%" and sign; *after is its end. */
static bool word_tag(const lexer *l, size_t at, const char *word, char *sign, size_t *after)
{
    at = skip_space(l, at);
    if (!starts(l, at, word))
        return false;
    at = skip_space(l, at + strlen(word));
    return closes(l, at, "%}", sign, after);
}

static mica_status lex_raw(lexer *l, size_t start)
{
    const size_t from = l->at;
    for (size_t at = from; at < l->end; at++) {
        char sign, end_sign;
        size_t after;
        if (!starts(l, at, "{%"))
            continue;
        sign = at + 2 < l->end ? l->text[at + 2] : 0;
        if (sign != '-' && sign != '+')
            sign = 0;
        if (!word_tag(l, at + 2 + (sign != 0), "endraw", &end_sign, &after))
            continue;
        l->line_starting = false;
        MICA_TRY(emit_data(l, from, trimmed(l, from, at, sign, false)));
        l->at = after;
        finish_delimiter(l, end_sign, false);
        return MICA_OK;
    }
    return refuse(l, start, "'{% raw %}' without '{% endraw %}'");
}

/* The delimiter that starts at or behind `at`; l->end when there is none. */
static size_t next_delimiter(const lexer *l, size_t at)
{
    for (; at + 1 < l->end; at++) {
        const char *found = memchr(l->text + at, '{', l->end - 1 - at);
        if (!found)
            break;
        at = (size_t)(found - l->text);
        const char c = l->text[at + 1];
        if (c == '{' || c == '%' || c == '#')
            return at;
    }
    return l->end;
}

static mica_status lex_delimiter(lexer *l, size_t from, size_t at)
{
    const char kind = l->text[at + 1];
    char sign = at + 2 < l->end ? l->text[at + 2] : 0, raw_sign;
    size_t after;
    if (sign != '-' && sign != '+')
        sign = 0;
    MICA_TRY(emit_data(l, from, trimmed(l, from, at, sign, kind == '{')));
    l->at = at + 2 + (sign != 0);
    if (kind == '#')
        return lex_comment(l, at);
    if (kind == '%' && word_tag(l, l->at, "raw", &raw_sign, &after) && raw_sign != '+') {
        l->at = raw_sign == '-' ? skip_space(l, after) : after;
        return lex_raw(l, at);
    }
    MICA_TRY(emit_bare(l, kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_TAG_BEGIN, at));
    return lex_inside(l, at, kind == '{');
}

mica_status mica__jinja_lex(jinja_heap *heap, const jinja_source *source, jinja_token **tokens,
                            int64_t *n_tokens)
{
    lexer l = {.heap = heap,
               .source = source,
               .text = source->text,
               .end = source->length,
               .line_starting = true};
    while (l.at < l.end) {
        const size_t from = l.at, at = next_delimiter(&l, from);
        if (at == l.end) {
            MICA_TRY(emit_data(&l, from, at));
            break;
        }
        MICA_TRY(lex_delimiter(&l, from, at));
    }
    MICA_TRY(emit_bare(&l, TOKEN_END, l.end));
    *tokens = l.tokens;
    *n_tokens = l.n_tokens;
    return MICA_OK;
}
