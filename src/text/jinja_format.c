/* jinja_format.c - text % values and str.format, with Python's format specifications.
 *
 * Both parse what stands before the conversion letter into one `spec` and share the layout of
 * numbers and text.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/decimal.h"
#include "text/jinja_run.h"
#include "text/letter_case.h"

#define NUMBER_BYTES 1200 /* a decimal with separators between groups of its digits */

typedef struct spec {
    jinja_value fill; /* a string of one character, or ABSENT for a blank */
    char align;       /* < > ^ =, or 0 */
    char sign;        /* + - blank, or 0 */
    bool alternate;
    bool zero;     /* the alignment is that of a leading 0 */
    char grouping; /* , or _ or 0 */
    int64_t width;
    int64_t precision; /* -1: not given */
    char type;         /* or 0 */
} spec;

/* --- numbers to text -------------------------------------------------------------------------- */

/* The digits of |value|. Without a type but with a precision: as 'g', but whole numbers keep one
 * digit behind the point and the exponent comes one digit earlier. */
static void float_digits(double value, const spec *s, char *text)
{
    const int precision = s->precision < 0 ? 6 : (int)s->precision;
    const int significant = precision ? precision : 1;
    const char lower = (char)(s->type | 0x20);
    const bool large = s->type && lower != s->type;
    size_t n;
    value = s->type == '%' ? fabs(value * 100) : fabs(value);
    if (isnan(value) || isinf(value))
        n = (size_t)snprintf(text, 8, "%s",
                             isnan(value) ? (large ? "NAN" : "nan") : (large ? "INF" : "inf"));
    else if (!s->type && s->precision < 0)
        n = mica__jinja_float_text(value, text);
    else if (lower == 'f' || s->type == '%')
        n = mica__decimal_fixed(value, precision, s->alternate, text);
    else if (lower == 'e')
        n = mica__decimal_scientific(value, precision, s->alternate, s->type, text);
    else
        n = mica__decimal_general(value, precision, s->type ? significant : significant - 1,
                                  s->alternate, large ? 'E' : 'e', text);
    text[n] = '\0';
    if (!s->type && !isinf(value) && !isnan(value) && !strpbrk(text, ".e"))
        n += (size_t)snprintf(text + n, 4, ".0");
    if (s->type == '%')
        snprintf(text + n, 4, "%%");
}

/* The digits of |value| in the base of the type. */
static void int_digits(uint64_t value, const spec *s, char *text)
{
    const int base = s->type == 'b' ? 2 : s->type == 'o' ? 8 : (s->type | 0x20) == 'x' ? 16 : 10;
    const char *digits = s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[72];
    int n = 0;
    do
        reversed[n++] = digits[value % (uint64_t)base];
    while (value /= (uint64_t)base);
    for (int i = 0; i < n; i++)
        text[i] = reversed[n - 1 - i];
    text[n] = '\0';
}

/* Puts a separator between groups of the whole digits. */
static void group_digits(char *text, const spec *s)
{
    const int every = s->grouping == '_' && s->type && strchr("boxX", s->type) ? 4 : 3;
    char grouped[NUMBER_BYTES];
    int whole = 0, at = 0;
    const bool hexadecimal = (s->type | 0x20) == 'x';
    while ((text[whole] >= '0' && text[whole] <= '9') ||
           (hexadecimal && (text[whole] | 0x20) >= 'a' && (text[whole] | 0x20) <= 'f'))
        whole++;
    for (int i = 0; i < whole; i++) {
        if (i && (whole - i) % every == 0)
            grouped[at++] = s->grouping;
        grouped[at++] = text[i];
    }
    snprintf(grouped + at, sizeof grouped - (size_t)at, "%s", text + whole);
    memcpy(text, grouped, strlen(grouped) + 1);
}

/* --- layout ----------------------------------------------------------------------------------- */

static mica_status put_fill(jinja_run *run, jinja_bytes *to, const spec *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        if (s->fill.type == JINJA_ABSENT)
            MICA_TRY(mica__jinja_put(&run->heap, to, " ", 1, false));
        else
            MICA_TRY(mica__jinja_put_text(&run->heap, to, &s->fill));
    }
    return MICA_OK;
}

/* Sign and prefix, then digits, padded to the width. */
static mica_status put_number(jinja_run *run, jinja_bytes *to, const spec *s, const char *prefix,
                              const char *digits)
{
    const int64_t n = (int64_t)(strlen(prefix) + strlen(digits));
    const int64_t missing = s->width > n ? s->width - n : 0;
    const char align = s->align ? s->align : '>';
    const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    MICA_TRY(put_fill(run, to, s, left));
    MICA_TRY(mica__jinja_put_string(&run->heap, to, prefix));
    if (align == '=')
        MICA_TRY(put_fill(run, to, s, missing));
    MICA_TRY(mica__jinja_put_string(&run->heap, to, digits));
    return align == '=' ? MICA_OK : put_fill(run, to, s, missing - left);
}

static mica_status put_padded(jinja_run *run, jinja_bytes *to, const spec *s,
                              const jinja_value *text)
{
    jinja_value shown = *text;
    int64_t n = mica__jinja_points(text);
    if (s->precision >= 0 && s->precision < n) {
        n = s->precision;
        shown = mica__jinja_part(text, 0, mica__jinja_point_offset(text, n));
    }
    const int64_t missing = s->width > n ? s->width - n : 0;
    const int64_t left = s->align == '>' ? missing : s->align == '^' ? missing / 2 : 0;
    MICA_TRY(put_fill(run, to, s, left));
    MICA_TRY(mica__jinja_put_text(&run->heap, to, &shown));
    return put_fill(run, to, s, missing - left);
}

static const char *sign_text(bool negative, const spec *s)
{
    return negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
}

static mica_status put_int(jinja_run *run, jinja_bytes *to, const spec *s, int64_t value)
{
    char digits[NUMBER_BYTES], prefix[8];
    const char *base = "";
    int_digits(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, s, digits);
    if (s->alternate && s->type && strchr("boxX", s->type))
        base = s->type == 'b' ? "0b" : s->type == 'o' ? "0o" : s->type == 'x' ? "0x" : "0X";
    if (s->grouping)
        group_digits(digits, s);
    snprintf(prefix, sizeof prefix, "%s%s", sign_text(value < 0, s), base);
    return put_number(run, to, s, prefix, digits);
}

static mica_status put_float(jinja_run *run, jinja_bytes *to, const spec *s, double value)
{
    char digits[NUMBER_BYTES];
    if (s->precision > MICA__DECIMAL_MAX_PRECISION)
        MICA_FAIL(MICA_E_BUDGET, "a precision over %d", MICA__DECIMAL_MAX_PRECISION);
    float_digits(value, s, digits);
    if (s->grouping)
        group_digits(digits, s);
    return put_number(run, to, s, sign_text(!isnan(value) && signbit(value), s), digits);
}

/* A code point as text, for the conversion 'c'. */
static mica_status put_character(jinja_run *run, jinja_bytes *to, const spec *s, int64_t point)
{
    char bytes[4];
    jinja_value text;
    if (point < 0 || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        MICA_FAIL(MICA_E_ARGUMENT, "%lld is no character", (long long)point);
    MICA_TRY(mica__jinja_string(&run->heap, bytes, mica__letter_put(bytes, (uint32_t)point), false,
                                &text));
    return put_padded(run, to, s, &text);
}

/* --- text % values ---------------------------------------------------------------------------- */

typedef struct percent {
    jinja_run *run;
    jinja_bytes *to;
    const jinja_value *format;
    const char *bytes;
    size_t at, end;
    const jinja_value *args; /* what stands behind % */
    const jinja_value *items;
    int64_t n, next;
} percent;

static mica_status next_value(percent *p, const jinja_value **value)
{
    if (p->next >= p->n)
        MICA_FAIL(MICA_E_ARGUMENT, "not enough arguments for format string");
    *value = &p->items[p->next++];
    return MICA_OK;
}

/* A number of a specification, or the next value for '*'. */
static mica_status percent_number(percent *p, int64_t *number)
{
    const jinja_value *value = NULL;
    if (p->at < p->end && p->bytes[p->at] == '*') {
        p->at++;
        MICA_TRY(next_value(p, &value));
        return mica__jinja_need_int("* wants int", value, number);
    }
    *number = 0;
    for (; p->at < p->end && p->bytes[p->at] >= '0' && p->bytes[p->at] <= '9'; p->at++)
        if (*number < INT32_MAX)
            *number = *number * 10 + (p->bytes[p->at] - '0');
    return MICA_OK;
}

/* (key): the value of the mapping. */
static mica_status percent_key(percent *p, const jinja_value **value)
{
    const size_t from = ++p->at;
    for (int depth = 1; p->at < p->end; p->at++) {
        depth += (p->bytes[p->at] == '(') - (p->bytes[p->at] == ')');
        if (!depth)
            break;
    }
    if (p->at >= p->end)
        MICA_FAIL(MICA_E_ARGUMENT, "incomplete format key");
    if (p->args->type != JINJA_DICT)
        MICA_FAIL(MICA_E_ARGUMENT, "format requires a mapping");
    const jinja_entry *e =
        mica__jinja_dict_find_bytes(&p->run->heap, p->args->dict, p->bytes + from, p->at - from);
    if (!e)
        MICA_FAIL(MICA_E_ARGUMENT, "the format's key '%.*s' is not there", (int)(p->at - from),
                  p->bytes + from);
    *value = &e->value;
    p->at++;
    return MICA_OK;
}

static mica_status percent_spec(percent *p, spec *s, const jinja_value **value)
{
    bool zero = false;
    *s = (spec){.precision = -1};
    if (p->at < p->end && p->bytes[p->at] == '(')
        MICA_TRY(percent_key(p, value));
    for (; p->at < p->end && strchr("#0- +", p->bytes[p->at]); p->at++) {
        const char c = p->bytes[p->at];
        if (!c)
            break;
        if (c == '-')
            s->align = '<';
        else if (c == '#')
            s->alternate = true;
        else if (c == '0')
            zero = true;
        else if (s->sign != '+')
            s->sign = c;
    }
    MICA_TRY(percent_number(p, &s->width));
    if (s->width < 0) {
        s->align = '<';
        s->width = s->width < -INT32_MAX ? INT32_MAX : -s->width;
    }
    if (p->at < p->end && p->bytes[p->at] == '.') {
        p->at++;
        MICA_TRY(percent_number(p, &s->precision));
        if (s->precision < 0)
            s->precision = 0;
    }
    while (p->at < p->end && strchr("hlL", p->bytes[p->at]) && p->bytes[p->at])
        p->at++;
    if (p->at >= p->end)
        MICA_FAIL(MICA_E_ARGUMENT, "incomplete format");
    s->type = p->bytes[p->at++];
    if (zero && s->align != '<' && strchr("diouxXeEfFgG", s->type)) {
        s->align = '=';
        MICA_TRY(mica__jinja_string(&p->run->heap, "0", 1, false, &s->fill));
    } else if (!s->align) {
        s->align = '>';
    }
    return MICA_OK;
}

static mica_status percent_int(percent *p, spec *s, const jinja_value *value)
{
    int64_t integer;
    if (value->type == JINJA_FLOAT && strchr("diu", s->type)) {
        if (!(fabs(value->number) < 0x1p63))
            MICA_FAIL(MICA_E_ARGUMENT, "a float that does not fit an integer");
        integer = (int64_t)value->number;
    } else {
        char what[48];
        snprintf(what, sizeof what, "%%%c format: a number is required", s->type);
        MICA_TRY(mica__jinja_need_int(what, value, &integer));
    }
    if (strchr("diu", s->type))
        s->type = 'd';
    s->precision = -1;
    return put_int(p->run, p->to, s, integer);
}

static mica_status percent_text(percent *p, const spec *s, const jinja_value *value)
{
    jinja_value text;
    if (s->type == 's') {
        MICA_TRY(mica__jinja_str_for(p->run, p->format->markup, value, &text));
    } else {
        jinja_bytes *made = mica__jinja_bytes_new(&p->run->heap, 0);
        if (!made)
            return p->run->heap.status;
        MICA_TRY(mica__jinja_put_repr(&p->run->heap, made, value));
        text = mica__jinja_made(made);
    }
    return put_padded(p->run, p->to, s, &text);
}

static mica_status percent_conversion(percent *p)
{
    spec s;
    int64_t integer;
    double number;
    const jinja_value *value = NULL;
    MICA_TRY(percent_spec(p, &s, &value));
    if (s.type == '%')
        return mica__jinja_put_string(&p->run->heap, p->to, "%");
    if (!s.type || !strchr("diouxXeEfFgGcrsa", s.type))
        MICA_FAIL(MICA_E_ARGUMENT, "unsupported format character '%c'", s.type ? s.type : '?');
    if (!value)
        MICA_TRY(next_value(p, &value));
    if (strchr("diouxX", s.type))
        return percent_int(p, &s, value);
    if (strchr("rsa", s.type))
        return percent_text(p, &s, value);
    if (s.type == 'c') {
        if (value->type == JINJA_STRING && mica__jinja_points(value) == 1)
            return put_padded(p->run, p->to, &s, value);
        MICA_TRY(mica__jinja_need_int("%c requires int or char", value, &integer));
        return put_character(p->run, p->to, &s, integer);
    }
    if (!mica__jinja_as_float(value, &number))
        return mica__jinja_wrong_type("must be real number", value);
    return put_float(p->run, p->to, &s, number);
}

mica_status mica__jinja_percent(jinja_run *run, const jinja_value *format, const jinja_value *args,
                                jinja_value *out)
{
    percent p = {.run = run,
                 .to = mica__jinja_bytes_new(&run->heap, format->text.length),
                 .format = format,
                 .bytes = mica__jinja_chars(format),
                 .end = format->text.length,
                 .args = args,
                 .items = args,
                 .n = 1};
    if (!p.to)
        return run->heap.status;
    if (args->type == JINJA_TUPLE) {
        p.items = args->list->items;
        p.n = args->list->n;
    }
    while (p.at < p.end) {
        const char *sign = memchr(p.bytes + p.at, '%', p.end - p.at);
        const size_t stop = sign ? (size_t)(sign - p.bytes) : p.end;
        MICA_TRY(mica__jinja_put_part(&run->heap, p.to, format, p.at, stop - p.at));
        p.at = stop + 1;
        if (stop < p.end)
            MICA_TRY(percent_conversion(&p));
    }
    const bool mapping = args->type == JINJA_DICT || args->type == JINJA_LIST ||
                         args->type == JINJA_RANGE || args->type == JINJA_UNDEFINED;
    if (p.next < p.n && !mapping)
        MICA_FAIL(MICA_E_ARGUMENT, "not all arguments converted during string formatting");
    *out = mica__jinja_made(p.to);
    out->markup = format->markup;
    return MICA_OK;
}

/* --- str.format ------------------------------------------------------------------------------- */

typedef struct formatter {
    jinja_run *run;
    const jinja_value *format;
    const jinja_args *args;
    const char *bytes;
    int64_t automatic; /* the next number of {}, -1 once fields are numbered */
} formatter;

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static mica_status parse_spec(jinja_run *run, const jinja_value *text, spec *s)
{
    const char *bytes = mica__jinja_chars(text);
    const size_t end = text->text.length;
    size_t at = 0;
    uint32_t point;
    *s = (spec){.precision = -1};
    const size_t first = end ? mica__letter_next(bytes, &point) : 0;
    if (first && first < end && is_align(bytes[first])) {
        s->fill = mica__jinja_part(text, 0, first);
        s->align = bytes[first];
        at = first + 1;
    } else if (end && is_align(bytes[0])) {
        s->align = bytes[at++];
    }
    if (at < end && (bytes[at] == '+' || bytes[at] == '-' || bytes[at] == ' '))
        s->sign = bytes[at++];
    if (at < end && bytes[at] == '#') {
        s->alternate = true;
        at++;
    }
    if (at < end && bytes[at] == '0') {
        at++;
        if (s->fill.type == JINJA_ABSENT)
            MICA_TRY(mica__jinja_string(&run->heap, "0", 1, false, &s->fill));
        if (!s->align) {
            s->align = '=';
            s->zero = true;
        }
    }
    for (; at < end && bytes[at] >= '0' && bytes[at] <= '9'; at++)
        s->width = s->width < INT32_MAX ? s->width * 10 + (bytes[at] - '0') : s->width;
    if (at < end && (bytes[at] == ',' || bytes[at] == '_'))
        s->grouping = bytes[at++];
    if (at < end && bytes[at] == '.') {
        if (++at == end || bytes[at] < '0' || bytes[at] > '9')
            MICA_FAIL(MICA_E_ARGUMENT, "Format specifier missing precision");
        for (s->precision = 0; at < end && bytes[at] >= '0' && bytes[at] <= '9'; at++)
            s->precision =
                s->precision < INT32_MAX ? s->precision * 10 + (bytes[at] - '0') : s->precision;
    }
    if (at < end)
        s->type = bytes[at++];
    if (at < end)
        MICA_FAIL(MICA_E_ARGUMENT, "Invalid format specifier '%.*s'", end < 60 ? (int)end : 60,
                  bytes);
    return MICA_OK;
}

static mica_status unknown_code(char code, const jinja_value *v)
{
    return mica__fail(MICA_E_ARGUMENT, "Unknown format code '%c' for object of type '%s'", code,
                      mica__jinja_type_name(v));
}

/* format(value, spec) */
static mica_status put_formatted(jinja_run *run, jinja_bytes *to, const jinja_value *value,
                                 const jinja_value *text)
{
    spec s;
    int64_t integer;
    double number;
    if (!text->text.length)
        return mica__jinja_put_str(&run->heap, to, value);
    MICA_TRY(parse_spec(run, text, &s));
    if (value->type == JINJA_STRING) {
        if (s.type && s.type != 's')
            return unknown_code(s.type, value);
        if (s.sign || s.alternate || s.grouping || (s.align == '=' && !s.zero))
            MICA_FAIL(MICA_E_ARGUMENT, "a string cannot be formatted as a number");
        return put_padded(run, to, &s, value);
    }
    if (mica__jinja_as_int(value, &integer) && (!s.type || strchr("bcdoxXn", s.type))) {
        if (s.precision >= 0)
            MICA_FAIL(MICA_E_ARGUMENT, "Precision not allowed in integer format specifier");
        if (s.type == 'c')
            return put_character(run, to, &s, integer);
        return put_int(run, to, &s, integer);
    }
    if (mica__jinja_as_float(value, &number)) {
        if (s.type && !strchr("eEfFgGn%", s.type))
            return unknown_code(s.type, value);
        return put_float(run, to, &s, number);
    }
    if (value->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(value);
    MICA_FAIL(MICA_E_ARGUMENT, "unsupported format string passed to %s.__format__",
              mica__jinja_type_name(value));
}

static bool all_digits(const char *bytes, size_t n, int64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] < '0' || bytes[i] > '9' || *number > INT32_MAX)
            return false;
        *number = *number * 10 + (bytes[i] - '0');
    }
    return n > 0;
}

/* The argument that a field begins with. */
static mica_status field_argument(formatter *f, const jinja_value *name, jinja_value *out)
{
    int64_t index;
    const char *bytes = mica__jinja_chars(name);
    const size_t n = name->text.length;
    if (n && !all_digits(bytes, n, &index)) {
        for (int64_t i = 0; i < f->args->n_named; i++)
            if (mica__jinja_equal(&f->run->heap, &f->args->names[i], name)) {
                *out = f->args->values[i];
                return MICA_OK;
            }
        MICA_FAIL(MICA_E_ARGUMENT, "format() has no argument named '%.*s'", n < 60 ? (int)n : 60,
                  bytes);
    }
    if (n ? f->automatic > 0 : f->automatic < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "format() mixes numbered fields and {}");
    if (n)
        f->automatic = -1;
    else
        index = f->automatic++;
    if (index >= f->args->n)
        MICA_FAIL(MICA_E_ARGUMENT, "Replacement index %lld out of range for positional args tuple",
                  (long long)index);
    *out = f->args->items[index];
    return MICA_OK;
}

/* name.attribute[index]... */
static mica_status field_value(formatter *f, const jinja_value *field, jinja_value *out)
{
    const char *bytes = mica__jinja_chars(field);
    const size_t end = field->text.length;
    size_t at = 0;
    while (at < end && bytes[at] != '.' && bytes[at] != '[')
        at++;
    const jinja_value name = mica__jinja_part(field, 0, at);
    MICA_TRY(field_argument(f, &name, out));
    while (at < end) {
        const bool bracket = bytes[at++] == '[';
        const size_t from = at;
        jinja_value object = *out, key;
        int64_t index;
        while (at < end && (bracket ? bytes[at] != ']' : bytes[at] != '.' && bytes[at] != '['))
            at++;
        if (at == from || (bracket && at == end))
            MICA_FAIL(MICA_E_ARGUMENT, "an empty or open part in a format field");
        key = mica__jinja_part(field, from, at - from);
        if (bracket && all_digits(bytes + from, at - from, &index))
            key = mica__jinja_int(index);
        at += bracket;
        MICA_TRY(bracket ? mica__jinja_item(f->run, &object, &key, out)
                         : mica__jinja_attribute(f->run, &object, &key, out));
    }
    return MICA_OK;
}

static mica_status convert(formatter *f, char conversion, jinja_value *value)
{
    if (conversion == 's')
        return mica__jinja_str(&f->run->heap, value, value);
    if (conversion != 'r' && conversion != 'a')
        MICA_FAIL(MICA_E_ARGUMENT, "Unknown conversion specifier '%c'",
                  conversion ? conversion : '?');
    jinja_bytes *made = mica__jinja_bytes_new(&f->run->heap, 0);
    if (!made)
        return f->run->heap.status;
    MICA_TRY(mica__jinja_put_repr(&f->run->heap, made, value));
    *value = mica__jinja_made(made);
    return MICA_OK;
}

static mica_status put_format(formatter *f, const jinja_value *format, int depth, jinja_bytes *to);

/* {field!conversion:specification}, the inside of the braces. */
static mica_status put_field(formatter *f, const jinja_value *inside, int depth, jinja_bytes *to)
{
    const char *bytes = mica__jinja_chars(inside);
    const size_t end = inside->text.length;
    size_t at = 0;
    jinja_value value, text;
    for (bool bracket = false; at < end; at++) {
        if (bytes[at] == '[')
            bracket = true;
        else if (bytes[at] == ']')
            bracket = false;
        else if (!bracket && (bytes[at] == ':' || bytes[at] == '!'))
            break;
    }
    const jinja_value field = mica__jinja_part(inside, 0, at);
    MICA_TRY(field_value(f, &field, &value));
    if (at < end && bytes[at] == '!') {
        if (at + 1 >= end || (at + 2 < end && bytes[at + 2] != ':'))
            MICA_FAIL(MICA_E_ARGUMENT, "expected ':' after conversion specifier");
        MICA_TRY(convert(f, bytes[at + 1], &value));
        at += 2;
    }
    jinja_bytes *made = mica__jinja_bytes_new(&f->run->heap, 0);
    if (!made)
        return f->run->heap.status;
    if (at < end) {
        const jinja_value nested = mica__jinja_part(inside, at + 1, end - at - 1);
        MICA_TRY(put_format(f, &nested, depth + 1, made));
    }
    text = mica__jinja_made(made);
    if (!f->format->markup)
        return put_formatted(f->run, to, &value, &text);
    jinja_bytes *plain = mica__jinja_bytes_new(&f->run->heap, 0);
    if (!plain)
        return f->run->heap.status;
    const bool safe = value.type == JINJA_STRING && value.markup;
    MICA_TRY(put_formatted(f->run, plain, &value, &text));
    value = mica__jinja_made(plain);
    value.markup = safe;
    MICA_TRY(mica__jinja_escape(f->run, &value, &text));
    return mica__jinja_put_text(&f->run->heap, to, &text);
}

/* The end of the field that starts behind the brace at `at`. */
static mica_status field_end(const char *bytes, size_t at, size_t end, size_t *stop)
{
    int depth = 1;
    for (; at < end; at++) {
        depth += (bytes[at] == '{') - (bytes[at] == '}');
        if (!depth) {
            *stop = at;
            return MICA_OK;
        }
    }
    return mica__fail(MICA_E_ARGUMENT, "expected '}' before end of string");
}

static mica_status put_format(formatter *f, const jinja_value *format, int depth, jinja_bytes *to)
{
    const char *bytes = mica__jinja_chars(format);
    const size_t end = format->text.length;
    if (depth > 1)
        MICA_FAIL(MICA_E_ARGUMENT, "Max string recursion exceeded");
    for (size_t at = 0, from = 0; at < end;) {
        const char c = bytes[at];
        if (c != '{' && c != '}') {
            at++;
            if (at == end)
                MICA_TRY(mica__jinja_put_part(&f->run->heap, to, format, from, at - from));
            continue;
        }
        MICA_TRY(mica__jinja_put_part(&f->run->heap, to, format, from, at - from));
        if (at + 1 < end && bytes[at + 1] == c && depth == 0) {
            MICA_TRY(mica__jinja_put_part(&f->run->heap, to, format, at, 1));
            from = at += 2;
            continue;
        }
        if (c == '}')
            MICA_FAIL(MICA_E_ARGUMENT, "Single '}' encountered in format string");
        size_t stop = end;
        MICA_TRY(field_end(bytes, at + 1, end, &stop));
        const jinja_value inside = mica__jinja_part(format, at + 1, stop - at - 1);
        MICA_TRY(mica__jinja_charge(&f->run->heap, 1));
        MICA_TRY(put_field(f, &inside, depth, to));
        from = at = stop + 1;
    }
    return MICA_OK;
}

mica_status mica__jinja_str_format(jinja_run *run, const jinja_value *format,
                                   const jinja_args *args, jinja_value *out)
{
    formatter f = {.run = run, .format = format, .args = args};
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, format->text.length);
    if (!made)
        return run->heap.status;
    MICA_TRY(put_format(&f, format, 0, made));
    *out = mica__jinja_made(made);
    out->markup = format->markup;
    return MICA_OK;
}
