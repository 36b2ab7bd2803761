/* jinja_filters_text.c - filters that give text.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "text/jinja_run.h"
#include "text/letter_case.h"

/* str(v), but safe HTML stays what it is. */
static mica_status soft(jinja_run *run, const jinja_value *v, jinja_value *out)
{
    if (v->type == JINJA_STRING) {
        *out = *v;
        return MICA_OK;
    }
    return mica__jinja_str(&run->heap, v, out);
}

#define CASE_FILTER(name, casing)                                                                  \
    static mica_status name(jinja_run *run, const jinja_value *self, const jinja_value *args,      \
                            jinja_value *out)                                                      \
    {                                                                                              \
        jinja_value text;                                                                          \
        (void)args;                                                                                \
        MICA_TRY(soft(run, self, &text));                                                          \
        return mica__jinja_recase(run, &text, casing, out);                                        \
    }
CASE_FILTER(filter_lower, CASING_LOWER)
CASE_FILTER(filter_upper, CASING_UPPER)
CASE_FILTER(filter_capitalize, CASING_CAPITALIZE)

/* Appends a word with its first character in upper and the others in lower case. */
static mica_status put_title_word(jinja_run *run, jinja_bytes *to, const jinja_value *text,
                                  size_t from, size_t end)
{
    uint32_t point;
    if (from == end)
        return MICA_OK;
    const size_t n = mica__letter_next(mica__jinja_chars(text) + from, &point);
    jinja_value first = mica__jinja_part(text, from, n);
    jinja_value rest = mica__jinja_part(text, from + n, end - from - n);
    MICA_TRY(mica__jinja_recase(run, &first, CASING_UPPER, &first));
    MICA_TRY(mica__jinja_recase(run, &rest, CASING_LOWER, &rest));
    MICA_TRY(mica__jinja_put_text(&run->heap, to, &first));
    return mica__jinja_put_text(&run->heap, to, &rest);
}

static bool starts_word(uint32_t point)
{
    return point == '-' || point == '(' || point == '{' || point == '[' || point == '<' ||
           mica__letter_space(point);
}

/* Words and what lies between them, each with a capital. */
static mica_status filter_title(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    jinja_value text;
    size_t from = 0, at = 0;
    bool between = false;
    (void)args;
    MICA_TRY(soft(run, self, &text));
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, text.text.length);
    if (!made)
        return run->heap.status;
    while (at < text.text.length) {
        uint32_t point;
        const size_t n = mica__letter_next(mica__jinja_chars(&text) + at, &point);
        if (starts_word(point) != between) {
            MICA_TRY(put_title_word(run, made, &text, from, at));
            from = at;
            between = !between;
        }
        at += n;
    }
    MICA_TRY(put_title_word(run, made, &text, from, at));
    *out = mica__jinja_made(made);
    return MICA_OK;
}

static mica_status filter_center(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    int64_t width = 80;
    jinja_value text;
    if (args[0].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a width must be an integer", &args[0], &width));
    MICA_TRY(soft(run, self, &text));
    return mica__jinja_center(run, &text, width, out);
}

static mica_status filter_escape(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    (void)args;
    return mica__jinja_escape(run, self, out);
}

static mica_status filter_forceescape(jinja_run *run, const jinja_value *self,
                                      const jinja_value *args, jinja_value *out)
{
    jinja_value text;
    (void)args;
    MICA_TRY(mica__jinja_str(&run->heap, self, &text));
    return mica__jinja_escape(run, &text, out);
}

static mica_status filter_safe(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    (void)args;
    MICA_TRY(mica__jinja_str(&run->heap, self, out));
    out->markup = true;
    return MICA_OK;
}

static mica_status filter_format(jinja_run *run, const jinja_value *self, const jinja_args *args,
                                 jinja_value *out)
{
    jinja_value text, values;
    if (args->n && args->n_named)
        MICA_FAIL(MICA_E_ARGUMENT, "format takes positional or named arguments, not both");
    MICA_TRY(soft(run, self, &text));
    if (args->n_named) {
        jinja_dict *dict = mica__jinja_dict_new(&run->heap);
        if (!dict)
            return run->heap.status;
        for (int64_t i = 0; i < args->n_named; i++)
            MICA_TRY(mica__jinja_dict_set(&run->heap, dict, &args->names[i], &args->values[i]));
        values = (jinja_value){.type = JINJA_DICT, .dict = dict};
    } else {
        jinja_list *list = mica__jinja_list_new(&run->heap, args->n);
        if (!list)
            return run->heap.status;
        for (int64_t i = 0; i < args->n; i++)
            MICA_TRY(mica__jinja_list_add(&run->heap, list, &args->items[i]));
        values = mica__jinja_of_list(JINJA_TUPLE, "tuple", list);
    }
    return mica__jinja_percent(run, &text, &values, out);
}

/* --- lines ------------------------------------------------------------------------------------ */

static mica_status filter_indent(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    jinja_value text, indention, width = args[0], newline, whole;
    int64_t blanks = 4;
    jinja_list *lines;
    const bool first = mica__jinja_truth(&args[1]), blank = mica__jinja_truth(&args[2]);
    if (self->type != JINJA_STRING)
        return mica__jinja_wrong_type("indent takes a string", self);
    MICA_TRY(soft(run, self, &text));
    if (width.type == JINJA_STRING) {
        indention = width;
    } else {
        if (width.type != JINJA_ABSENT)
            MICA_TRY(
                mica__jinja_need_int("a width must be an integer or a string", &width, &blanks));
        MICA_TRY(mica__jinja_string(&run->heap, " ", 1, false, &indention));
        MICA_TRY(mica__jinja_repeat(run, &indention, blanks, &indention));
    }
    MICA_TRY(mica__jinja_string(&run->heap, "\n", 1, false, &newline));
    MICA_TRY(mica__jinja_concat(&run->heap, &text, &newline, &whole));
    MICA_TRY(mica__jinja_splitlines(run, &whole, false, &lines));
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, text.text.length);
    if (!made)
        return run->heap.status;
    for (int64_t i = 0; i < lines->n; i++) {
        if (i)
            MICA_TRY(mica__jinja_put_string(&run->heap, made, "\n"));
        if (i ? blank || lines->items[i].text.length : first)
            MICA_TRY(mica__jinja_put_text(&run->heap, made, &indention));
        MICA_TRY(mica__jinja_put_text(&run->heap, made, &lines->items[i]));
    }
    *out = mica__jinja_made(made);
    out->markup = text.markup;
    return MICA_OK;
}

static mica_status filter_join(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    jinja_value *items, separator, item, text;
    int64_t n;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made)
        return run->heap.status;
    separator = args[0];
    if (separator.type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_str(&run->heap, &args[0], &separator));
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    for (int64_t i = 0; i < n; i++) {
        if (i && separator.type != JINJA_ABSENT)
            MICA_TRY(mica__jinja_put_text(&run->heap, made, &separator));
        MICA_TRY(mica__jinja_path(run, &args[1], NULL, &items[i], &item));
        MICA_TRY(mica__jinja_str(&run->heap, &item, &text));
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        MICA_TRY(mica__jinja_put_text(&run->heap, made, &text));
    }
    *out = mica__jinja_made(made);
    return MICA_OK;
}

static mica_status filter_replace(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    jinja_value text, from, to;
    int64_t count = -1;
    if (args[2].type != JINJA_ABSENT && args[2].type != JINJA_NONE)
        MICA_TRY(mica__jinja_need_int("a count must be an integer", &args[2], &count));
    MICA_TRY(mica__jinja_str(&run->heap, self, &text));
    MICA_TRY(mica__jinja_str(&run->heap, &args[0], &from));
    MICA_TRY(mica__jinja_str(&run->heap, &args[1], &to));
    return mica__jinja_replace(run, &text, &from, &to, count, out);
}

static mica_status filter_trim(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    jinja_value text;
    const jinja_value *set = NULL;
    MICA_TRY(soft(run, self, &text));
    if (args[0].type != JINJA_ABSENT && args[0].type != JINJA_NONE) {
        set = &args[0];
        MICA_TRY(mica__jinja_need_string("the characters to trim must be a string", set));
    }
    *out = mica__jinja_strip(&text, set, 0);
    return MICA_OK;
}

static mica_status filter_truncate(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                   jinja_value *out)
{
    int64_t length = 255, leeway = 5;
    jinja_value end = args[2];
    if (args[0].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a length must be an integer", &args[0], &length));
    if (args[3].type != JINJA_ABSENT && args[3].type != JINJA_NONE)
        MICA_TRY(mica__jinja_need_int("a leeway must be an integer", &args[3], &leeway));
    if (end.type == JINJA_ABSENT)
        MICA_TRY(mica__jinja_string(&run->heap, "...", 3, false, &end));
    MICA_TRY(mica__jinja_need_string("an end must be a string", &end));
    const int64_t kept = length - mica__jinja_points(&end);
    if (kept < 0 || leeway < 0)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "truncate: the length must hold the end, the leeway be positive");
    int64_t n;
    *out = *self;
    if (!mica__jinja_length(self, &n))
        return mica__jinja_wrong_type("truncate takes a string", self);
    if (n <= leeway || n - leeway <= length)
        return MICA_OK;
    MICA_TRY(mica__jinja_need_string("truncate takes a string", self));
    jinja_value part = mica__jinja_part(self, 0, mica__jinja_point_offset(self, kept));
    if (!mica__jinja_truth(&args[1])) {
        const char *bytes = mica__jinja_chars(&part);
        for (size_t i = part.text.length; i-- > 0;)
            if (bytes[i] == ' ') {
                part.text.length = i;
                break;
            }
    }
    const bool markup = part.markup;
    MICA_TRY(mica__jinja_concat(&run->heap, &part, &end, out));
    out->markup = markup;
    return MICA_OK;
}

static mica_status filter_wordcount(jinja_run *run, const jinja_value *self,
                                    const jinja_value *args, jinja_value *out)
{
    jinja_value text;
    int64_t n = 0;
    bool inside = false;
    (void)args;
    MICA_TRY(soft(run, self, &text));
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)text.text.length / 16));
    for (size_t at = 0; at < text.text.length;) {
        uint32_t point;
        at += mica__letter_next(mica__jinja_chars(&text) + at, &point);
        const letter_class class = mica__letter_class(point);
        const bool word =
            class.alpha || class.decimal || class.digit || class.numeric || point == '_';
        n += word && !inside;
        inside = word;
    }
    *out = mica__jinja_int(n);
    return MICA_OK;
}

/* --- URLs ------------------------------------------------------------------------------------- */

/* query: for a query string, '/' is quoted and a blank becomes '+'. */
static mica_status put_quoted(jinja_run *run, jinja_bytes *to, const jinja_value *v, bool query)
{
    jinja_value text;
    MICA_TRY(mica__jinja_str(&run->heap, v, &text));
    for (size_t i = 0; i < text.text.length; i++) {
        const unsigned char c = (unsigned char)mica__jinja_chars(&text)[i];
        char quoted[4];
        const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                           c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
        snprintf(quoted, sizeof quoted, plain ? "%c" : c == ' ' && query ? "+" : "%%%02X", c);
        MICA_TRY(mica__jinja_put_as(&run->heap, to, quoted, strlen(quoted), &text, i, 1));
    }
    return MICA_OK;
}

static mica_status put_pair(jinja_run *run, jinja_bytes *to, const jinja_value *key,
                            const jinja_value *value)
{
    if (to->used)
        MICA_TRY(mica__jinja_put_string(&run->heap, to, "&"));
    MICA_TRY(put_quoted(run, to, key, true));
    MICA_TRY(mica__jinja_put_string(&run->heap, to, "="));
    return put_quoted(run, to, value, true);
}

static mica_status filter_urlencode(jinja_run *run, const jinja_value *self,
                                    const jinja_value *args, jinja_value *out)
{
    jinja_value *items, *pair;
    int64_t n, two;
    (void)args;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made)
        return run->heap.status;
    if (self->type == JINJA_STRING || !mica__jinja_iterable(self)) {
        MICA_TRY(put_quoted(run, made, self, false));
    } else if (self->type == JINJA_DICT) {
        for (int64_t i = 0; i < self->dict->n; i++)
            MICA_TRY(
                put_pair(run, made, &self->dict->entries[i].key, &self->dict->entries[i].value));
    } else {
        MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
        for (int64_t i = 0; i < n; i++) {
            MICA_TRY(mica__jinja_iterate(run, &items[i], &pair, &two));
            if (two != 2)
                MICA_FAIL(MICA_E_ARGUMENT, "urlencode takes pairs");
            MICA_TRY(put_pair(run, made, &pair[0], &pair[1]));
        }
    }
    *out = mica__jinja_made(made);
    return MICA_OK;
}

const jinja_builtin *mica__jinja_text_filters(int *n)
{
    static const jinja_builtin filters[] = {
        {"capitalize", "", 0, filter_capitalize, NULL},
        {"center", "width", 0, filter_center, NULL},
        {"e", "", 0, filter_escape, NULL},
        {"escape", "", 0, filter_escape, NULL},
        {"forceescape", "", 0, filter_forceescape, NULL},
        {"format", "", 0, NULL, filter_format},
        {"indent", "width,first,blank", 0, filter_indent, NULL},
        {"join", "d,attribute", 0, filter_join, NULL},
        {"lower", "", 0, filter_lower, NULL},
        {"replace", "old,new,count", 2, filter_replace, NULL},
        {"safe", "", 0, filter_safe, NULL},
        {"title", "", 0, filter_title, NULL},
        {"trim", "chars", 0, filter_trim, NULL},
        {"truncate", "length,killwords,end,leeway", 0, filter_truncate, NULL},
        {"upper", "", 0, filter_upper, NULL},
        {"urlencode", "", 0, filter_urlencode, NULL},
        {"wordcount", "", 0, filter_wordcount, NULL},
    };
    *n = (int)(sizeof filters / sizeof *filters);
    return filters;
}
