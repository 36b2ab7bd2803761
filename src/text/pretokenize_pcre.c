/* pretokenize_pcre.c - patterns that nobody knew, through PCRE2.
 *
 * The expressions come from tokenizer.json, where they have the syntax of Oniguruma; what PCRE2
 * would silently read otherwise is refused. Matching has limits, and its memory is counted: every
 * allocation of the library goes through the hooks below.
 * SPDX-License-Identifier: MIT
 */
#include "text/pretokenize.h"

#include <string.h>

#define MAX_PATTERN_BYTES 20000

#ifdef MICA_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MATCH_LIMIT    10000000u
#define DEPTH_LIMIT    250000u
#define HEAP_LIMIT_KIB 65536u

typedef struct expression {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
} expression;

static void *take(size_t bytes, void *unused)
{
    (void)unused;
    return mica__alloc(MICA_MEMORY_TEXT, bytes);
}

static void give(void *memory, void *unused)
{
    (void)unused;
    mica__free(memory);
}

static void release(void *pattern)
{
    expression *e = pattern;
    pcre2_code_free(e->code);
    pcre2_match_context_free(e->limits);
    pcre2_general_context_free(e->memory);
    mica__free(e);
}

static int match_expression(const void *pattern, const char *text, int64_t n, int64_t at,
                            int64_t *from, int64_t *to)
{
    const expression *e = pattern;
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(e->code, e->memory);
    if (!data)
        return -(int)MICA_E_MEMORY;
    const int found = pcre2_match(e->code, (PCRE2_SPTR)text, (PCRE2_SIZE)n, (PCRE2_SIZE)at,
                                  PCRE2_NO_UTF_CHECK, data, e->limits);
    if (found >= 0) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
        *from = (int64_t)ends[0];
        *to = (int64_t)(ends[1] > ends[0] ? ends[1] : ends[0]);
    }
    pcre2_match_data_free(data);
    if (found == PCRE2_ERROR_NOMATCH)
        return 0;
    if (found >= 0)
        return 1;
    if (found == PCRE2_ERROR_NOMEMORY)
        return -(int)mica__fail(MICA_E_MEMORY, "no memory to match the pre-tokenizer's pattern");
    return -(int)mica__fail(
        MICA_E_BUDGET,
        "the pre-tokenizer's pattern needs too many steps on this text (PCRE2 error %d)", found);
}

static mica_status compile(const char *regex, expression *e)
{
    e->memory = pcre2_general_context_create(take, give, NULL);
    e->limits = e->memory ? pcre2_match_context_create(e->memory) : NULL;
    pcre2_compile_context *context = e->limits ? pcre2_compile_context_create(e->memory) : NULL;
    if (!context)
        return MICA_E_MEMORY;
    pcre2_set_match_limit(e->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(e->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(e->limits, HEAP_LIMIT_KIB);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 100);
    int error;
    PCRE2_SIZE at;
    e->code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &error, &at, context);
    pcre2_compile_context_free(context);
    if (e->code)
        return MICA_OK;
    if (error == PCRE2_ERROR_NOMEMORY || error == 121) /* 121: heap failure while compiling */
        MICA_FAIL(MICA_E_MEMORY, "no memory to compile the pre-tokenizer's pattern");
    PCRE2_UCHAR message[120] = "";
    pcre2_get_error_message(error, message, sizeof message);
    MICA_FAIL(MICA_E_FORMAT,
              "the pre-tokenizer's pattern does not compile: %s at byte %zu of %.200s",
              (const char *)message, (size_t)at, regex);
}

/* What Oniguruma means by these classes; PCRE2 means a little else by the same letters. */
#define WHITE "\\p{Z}\\x{9}-\\x{d}\\x{85}"
#define WORD  "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"

/* Puts an escape sequence; *bad names one that would silently mean something else. */
static void put_escape(char c, bool in_class, mica__text *out, const char **bad)
{
    const char *class = c == 's' || c == 'S' ? WHITE : c == 'w' || c == 'W' ? WORD : NULL;
    if (c == 'h' || c == 'H') {
        *bad = "\\h";
    } else if (!class) {
        mica__text_add_char(out, '\\');
        mica__text_add_char(out, c);
    } else if (in_class && (c == 'S' || c == 'W')) {
        *bad = "\\S or \\W inside a class";
    } else {
        if (!in_class)
            mica__text_add_string(out, c == 's' || c == 'w' ? "[" : "[^");
        mica__text_add_string(out, class);
        if (!in_class)
            mica__text_add_char(out, ']');
    }
}

/* Follows one character of the expression in and out of classes. */
static void put_character(const char **at, bool *in_class, mica__text *out, const char **bad)
{
    const char *s = *at;
    mica__text_add_char(out, *s);
    if (*in_class && *s == '&' && s[1] == '&') {
        *bad = "&& inside a class";
    } else if (*in_class && *s == '[') {
        *bad = "a class inside a class";
    } else if (*in_class && *s == ']') {
        *in_class = false;
    } else if (!*in_class && *s == '[') {
        *in_class = true;
        if (s[1] == '^')
            mica__text_add_char(out, *++s);
        if (s[1] == ']')
            mica__text_add_char(out, *++s);
    } else if (!*in_class && strncmp(s, "(?m", 3) == 0) {
        *bad = "(?m)";
    }
    *at = s;
}

/* Says the expression, which has Oniguruma's syntax, in PCRE2's; what would silently mean something
 * else is refused. */
static mica_status translate(const char *regex, mica__text *out)
{
    bool in_class = false;
    const char *bad = NULL;
    for (const char *s = regex; *s && !bad; s++) {
        if (*s == '\\' && s[1])
            put_escape(*++s, in_class, out, &bad);
        else
            put_character(&s, &in_class, out, &bad);
    }
    if (bad)
        MICA_FAIL(MICA_E_UNSUPPORTED, "the pre-tokenizer's pattern uses %s: %.200s", bad, regex);
    return out->status;
}

mica_status mica__pcre_pattern(const char *regex, mica__matcher *matcher)
{
    if (strlen(regex) > MAX_PATTERN_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "a pre-tokenizer pattern of %zu bytes", strlen(regex));
    expression *e = mica__alloc_zero(MICA_MEMORY_TEXT, 1, sizeof *e);
    if (!e)
        return MICA_E_MEMORY;
    mica__text translated = {.kind = MICA_MEMORY_TEXT};
    mica_status status = translate(regex, &translated);
    if (status == MICA_OK)
        status = compile(translated.bytes ? translated.bytes : "", e);
    mica__text_free(&translated);
    if (status != MICA_OK) {
        release(e);
        return status;
    }
    *matcher = (mica__matcher){match_expression, e, release, true};
    return MICA_OK;
}

#else

mica_status mica__pcre_pattern(const char *regex, mica__matcher *matcher)
{
    (void)matcher;
    MICA_FAIL(MICA_E_UNSUPPORTED,
              "the pre-tokenizer splits at a pattern that is not known, and this build has no "
              "PCRE2 to match it with (install libpcre2-dev and build again): %.*s",
              200, strlen(regex) > MAX_PATTERN_BYTES ? "(too long)" : regex);
}

#endif
