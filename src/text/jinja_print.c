/* jinja_print.c - str() and repr() of values, as Python prints them.
 *
 * Marks follow every byte: what is printed for a marked character is marked, and so are the quotes
 * around a string that has any. Numbers, brackets and names are never marked.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"
#include "text/letter_case.h"

double mica__jinja_float_value(const char *text, size_t n)
{
    double value;
    if (!mica__parse_f64(text, n, &value))
        return text[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    return value;
}

/* The fewest digits that read back as `value` (positive): returns how many, *exponent is that of
 * the first. */
static int shortest(double value, char digits[MICA__F64_TEXT_BYTES], int *exponent)
{
    char text[MICA__F64_TEXT_BYTES];
    const int length = mica__format_f64(text, value);
    int n = 0, behind = 0;
    bool point = false;
    int64_t written = 0;
    for (int i = 0; i < length; i++) {
        if (text[i] == 'e') {
            mica__parse_i64(text + i + 1, (size_t)(length - i - 1), &written);
            break;
        }
        if (text[i] == '.') {
            point = true;
            continue;
        }
        behind += point;
        if (n || text[i] != '0')
            digits[n++] = text[i];
    }
    *exponent = (int)written - behind + n - 1;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

/* repr of a float: the shortest digits that read back, an exponent outside 1e-4 .. 1e16. */
size_t mica__jinja_float_text(double value, char text[40])
{
    char digits[MICA__F64_TEXT_BYTES] = "0", *to = text;
    int exponent = 0, n = 1;
    if (!isfinite(value))
        return (size_t)mica__format_f64(text, value);
    if (signbit(value))
        *to++ = '-';
    if (value != 0)
        n = shortest(fabs(value), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        *to++ = digits[0];
        if (n > 1) {
            *to++ = '.';
            memcpy(to, digits + 1, (size_t)(n - 1));
            to += n - 1;
        }
        to += snprintf(to, 8, "e%c%02d", exponent < 0 ? '-' : '+',
                       exponent < 0 ? -exponent : exponent);
        return (size_t)(to - text);
    }
    if (exponent < 0) {
        memcpy(to, "0.0000", 6);
        to += 1 - exponent;
        memcpy(to, digits, (size_t)n);
        return (size_t)(to + n - text);
    }
    for (int i = 0; i < n || i <= exponent + 1; i++) {
        if (i == exponent + 1)
            *to++ = '.';
        *to++ = i < n ? digits[i] : '0';
    }
    return (size_t)(to - text);
}

/* The escape that repr writes for a code point; 0 when it stands for itself. */
static int repr_escape(uint32_t point, char quote, char to[12])
{
    if (point == '\\' || point == (uint32_t)quote)
        return snprintf(to, 12, "\\%c", (char)point);
    if (point == '\n' || point == '\r' || point == '\t')
        return snprintf(to, 12, "\\%c", point == '\n' ? 'n' : point == '\r' ? 'r' : 't');
    if (point < 0x20 || point == 0x7f)
        return snprintf(to, 12, "\\x%02x", point);
    if (point < 0x7f || mica__letter_class(point).printable)
        return 0;
    if (point < 0x100)
        return snprintf(to, 12, "\\x%02x", point);
    return point < 0x10000 ? snprintf(to, 12, "\\u%04x", point)
                           : snprintf(to, 12, "\\U%08x", point);
}

static mica_status put_string_repr(jinja_heap *heap, jinja_bytes *to, const jinja_value *v)
{
    const char *bytes = mica__jinja_chars(v);
    const size_t n = v->text.length;
    const bool marked = mica__jinja_any_mark(v);
    const char quote = n && memchr(bytes, '\'', n) && !memchr(bytes, '"', n) ? '"' : '\'';
    if (v->markup)
        MICA_TRY(mica__jinja_put_string(heap, to, "Markup("));
    MICA_TRY(mica__jinja_put(heap, to, &quote, 1, marked));
    size_t from = 0, at = 0;
    while (at < n) {
        uint32_t point;
        char escape[12];
        const size_t length = mica__letter_next(bytes + at, &point);
        const int escaped = repr_escape(point, quote, escape);
        if (escaped) {
            MICA_TRY(mica__jinja_put_part(heap, to, v, from, at - from));
            MICA_TRY(mica__jinja_put_as(heap, to, escape, (size_t)escaped, v, at, length));
            from = at + length;
        }
        at += length;
    }
    MICA_TRY(mica__jinja_put_part(heap, to, v, from, n - from));
    MICA_TRY(mica__jinja_put(heap, to, &quote, 1, marked));
    return v->markup ? mica__jinja_put_string(heap, to, ")") : MICA_OK;
}

static mica_status put_at(jinja_heap *heap, jinja_bytes *to, const jinja_value *v, int depth);

static mica_status put_items(jinja_heap *heap, jinja_bytes *to, const jinja_list *list, char open,
                             char close, int depth)
{
    MICA_TRY(mica__jinja_put(heap, to, &open, 1, false));
    for (int64_t i = 0; i < list->n; i++) {
        if (i)
            MICA_TRY(mica__jinja_put_string(heap, to, ", "));
        MICA_TRY(put_at(heap, to, &list->items[i], depth + 1));
    }
    if (open == '(' && list->n == 1)
        MICA_TRY(mica__jinja_put_string(heap, to, ","));
    return mica__jinja_put(heap, to, &close, 1, false);
}

static mica_status put_dict(jinja_heap *heap, jinja_bytes *to, const jinja_dict *dict, int depth)
{
    const char *separator = "";
    MICA_TRY(mica__jinja_put_string(heap, to, "{"));
    for (int64_t i = 0; i < dict->n; i++) {
        MICA_TRY(mica__jinja_put_string(heap, to, separator));
        MICA_TRY(put_at(heap, to, &dict->entries[i].key, depth + 1));
        MICA_TRY(mica__jinja_put_string(heap, to, ": "));
        MICA_TRY(put_at(heap, to, &dict->entries[i].value, depth + 1));
        separator = ", ";
    }
    return mica__jinja_put_string(heap, to, "}");
}

static mica_status put_range(jinja_heap *heap, jinja_bytes *to, const jinja_range *range)
{
    char text[96];
    int n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)range->start,
                     (long long)range->stop);
    n += range->step == 1
             ? snprintf(text + n, sizeof text - (size_t)n, ")")
             : snprintf(text + n, sizeof text - (size_t)n, ", %lld)", (long long)range->step);
    return mica__jinja_put(heap, to, text, (size_t)n, false);
}

static mica_status put_list(jinja_heap *heap, jinja_bytes *to, const jinja_value *v, int depth)
{
    if (v->type == JINJA_LIST)
        return put_items(heap, to, v->list, '[', ']', depth);
    if (v->type == JINJA_TUPLE)
        return put_items(heap, to, v->list, '(', ')', depth);
    if (v->type == JINJA_ITERATOR) {
        MICA_TRY(mica__jinja_put_string(heap, to, "<"));
        MICA_TRY(mica__jinja_put_string(heap, to, v->list->type_name));
        return mica__jinja_put_string(heap, to, " object>");
    }
    MICA_TRY(mica__jinja_put_string(heap, to, v->list->type_name));
    MICA_TRY(mica__jinja_put_string(heap, to, "("));
    MICA_TRY(put_items(heap, to, v->list, '[', ']', depth));
    return mica__jinja_put_string(heap, to, ")");
}

static mica_status put_at(jinja_heap *heap, jinja_bytes *to, const jinja_value *v, int depth)
{
    char text[40];
    if (depth > JINJA_MAX_NESTING)
        MICA_FAIL(MICA_E_BUDGET, "a value nested deeper than %d is printed", JINJA_MAX_NESTING);
    MICA_TRY(mica__jinja_charge(heap, 1));
    switch (v->type) {
    case JINJA_NONE:
        return mica__jinja_put_string(heap, to, "None");
    case JINJA_BOOL:
        return mica__jinja_put_string(heap, to, v->boolean ? "True" : "False");
    case JINJA_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->integer);
        return mica__jinja_put_string(heap, to, text);
    case JINJA_FLOAT:
        return mica__jinja_put(heap, to, text, mica__jinja_float_text(v->number, text), false);
    case JINJA_BIGINT:
        return mica__jinja_put_text(heap, to, v);
    case JINJA_STRING:
        return put_string_repr(heap, to, v);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_ITERATOR:
    case JINJA_VIEW:
        return put_list(heap, to, v, depth);
    case JINJA_DICT:
        return put_dict(heap, to, v->dict, depth);
    case JINJA_NAMESPACE:
        MICA_TRY(mica__jinja_put_string(heap, to, "<Namespace "));
        MICA_TRY(put_dict(heap, to, v->dict, depth));
        return mica__jinja_put_string(heap, to, ">");
    case JINJA_RANGE:
        return put_range(heap, to, v->range);
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_LOOP:
    case JINJA_MACRO:
    case JINJA_FUNCTION:
    case JINJA_METHOD:
    case JINJA_CYCLER:
    case JINJA_JOINER:
        break;
    }
    if (v->type == JINJA_UNDEFINED || v->type == JINJA_ABSENT)
        return mica__jinja_put_string(heap, to, "Undefined");
    MICA_TRY(mica__jinja_put_string(heap, to, "<"));
    MICA_TRY(mica__jinja_put_string(heap, to, mica__jinja_type_name(v)));
    if (v->type == JINJA_MACRO) {
        MICA_TRY(mica__jinja_put_string(heap, to, " '"));
        MICA_TRY(mica__jinja_put_string(heap, to, v->macro->name));
        MICA_TRY(mica__jinja_put_string(heap, to, "'"));
    }
    return mica__jinja_put_string(heap, to, ">");
}

mica_status mica__jinja_put_repr(jinja_heap *heap, jinja_bytes *to, const jinja_value *v)
{
    return put_at(heap, to, v, 0);
}

mica_status mica__jinja_put_str(jinja_heap *heap, jinja_bytes *to, const jinja_value *v)
{
    if (v->type == JINJA_STRING)
        return mica__jinja_put_text(heap, to, v);
    if (v->type == JINJA_UNDEFINED || v->type == JINJA_ABSENT)
        return MICA_OK;
    return put_at(heap, to, v, 0);
}

mica_status mica__jinja_str(jinja_heap *heap, const jinja_value *v, jinja_value *out)
{
    if (v->type == JINJA_STRING) {
        *out = *v;
        out->markup = false;
        return MICA_OK;
    }
    jinja_bytes *made = mica__jinja_bytes_new(heap, 0);
    if (!made)
        return heap->status;
    MICA_TRY(mica__jinja_put_str(heap, made, v));
    *out = mica__jinja_made(made);
    return MICA_OK;
}
