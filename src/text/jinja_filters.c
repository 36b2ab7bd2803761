/* jinja_filters.c - the table of filters, and those on single values and on filters themselves.
 * Text: jinja_filters_text.c. Sequences: jinja_filters_seq.c.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/decimal.h"
#include "text/jinja_run.h"

mica_status mica__jinja_new_list(jinja_run *run, jinja_type type, jinja_list **list,
                                 jinja_value *out)
{
    *list = mica__jinja_list_new(&run->heap, 0);
    if (!*list)
        return run->heap.status;
    *out = mica__jinja_of_list(type, type == JINJA_LIST ? "list" : "generator", *list);
    return MICA_OK;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static mica_status filter_abs(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    (void)run;
    (void)args;
    int64_t i;
    if (self->type == JINJA_FLOAT) {
        *out = mica__jinja_float(fabs(self->number));
        return MICA_OK;
    }
    if (self->type == JINJA_BIGINT) {
        const size_t sign = mica__jinja_chars(self)[0] == '-';
        *out = mica__jinja_part(self, sign, self->text.length - sign);
        return MICA_OK;
    }
    if (!mica__jinja_as_int(self, &i))
        return mica__jinja_wrong_type("abs() takes a number", self);
    if (i == INT64_MIN)
        MICA_FAIL(MICA_E_ARGUMENT, "an integer result does not fit 64 bits");
    *out = mica__jinja_int(i < 0 ? -i : i);
    return MICA_OK;
}

/* Digits with single underscores between them, copied without them; false when it is not so. */
static bool clean_digits(const jinja_value *text, char *to, size_t size, size_t *n)
{
    const jinja_value stripped = mica__jinja_strip(text, NULL, 0);
    const char *bytes = mica__jinja_chars(&stripped);
    const size_t end = stripped.text.length;
    *n = 0;
    for (size_t i = 0; i < end; i++) {
        const bool inner = i > 0 && i + 1 < end && bytes[i - 1] != '_' && bytes[i + 1] != '_' &&
                           bytes[i - 1] >= '0' && bytes[i + 1] >= '0';
        if (bytes[i] == '_' && inner)
            continue;
        if (bytes[i] == '_' || *n + 1 >= size)
            return false;
        to[(*n)++] = bytes[i];
    }
    to[*n] = '\0';
    return *n > 0;
}

/* Python's int(text, base); *overflow for what does not fit. */
static bool parse_int(const jinja_value *text, int64_t base, int64_t *value, bool *overflow)
{
    char digits[128];
    size_t n, at = 0;
    *overflow = false;
    *value = 0;
    if (!clean_digits(text, digits, sizeof digits, &n))
        return false;
    const bool negative = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+')
        at++;
    const char letter = digits[at] == '0' ? (char)(digits[at + 1] | 0x20) : 0;
    const int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefixed && (base == 0 || base == prefixed)) {
        base = prefixed;
        at += 2;
    }
    if (base == 0)
        base = 10;
    if (at == n || base < 2 || base > 36)
        return false;
    for (; at < n; at++) {
        const char c = digits[at], lower = (char)(c | 0x20);
        const int digit = c >= '0' && c <= '9'           ? c - '0'
                          : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                         : 99;
        if (digit >= base)
            return false;
        *overflow = *overflow || __builtin_mul_overflow(*value, base, value) ||
                    __builtin_add_overflow(*value, negative ? -digit : digit, value);
    }
    return true;
}

/* Python's float(text). */
static bool parse_float(const jinja_value *text, double *value)
{
    char digits[512];
    size_t n, at = 0, mantissa = 0;
    if (!clean_digits(text, digits, sizeof digits, &n))
        return false;
    const bool negative = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+')
        at++;
    const char *from = digits + at;
    if (strcasecmp(from, "inf") == 0 || strcasecmp(from, "infinity") == 0 ||
        strcasecmp(from, "nan") == 0) {
        *value = (from[0] | 0x20) == 'n' ? (double)NAN
                 : negative              ? -(double)INFINITY
                                         : (double)INFINITY;
        return true;
    }
    for (bool point = false;
         at < n && (digits[at] == '.' || (digits[at] >= '0' && digits[at] <= '9')); at++) {
        if (digits[at] == '.' && point)
            return false;
        point = point || digits[at] == '.';
        mantissa += digits[at] != '.';
    }
    if (!mantissa)
        return false;
    if (at < n && (digits[at] | 0x20) == 'e') {
        at++;
        if (digits[at] == '-' || digits[at] == '+')
            at++;
        if (at == n)
            return false;
        while (digits[at] >= '0' && digits[at] <= '9')
            at++;
    }
    if (at != n)
        return false;
    *value = mica__jinja_float_value(from, n - (size_t)(from - digits));
    if (negative)
        *value = -*value;
    return true;
}

/* A float cut to an integer; false for NaN. */
static mica_status truncate_float(double value, jinja_value *out, bool *good)
{
    *good = !isnan(value);
    if (!*good)
        return MICA_OK;
    if (!(fabs(value) < 0x1p63))
        MICA_FAIL(MICA_E_ARGUMENT, "a float that does not fit an integer");
    *out = mica__jinja_int((int64_t)value);
    return MICA_OK;
}

static mica_status filter_int(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    int64_t base = 10, value;
    bool overflow, good;
    double number;
    (void)run;
    if (args[1].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a base must be an integer", &args[1], &base));
    if (self->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(self);
    if (self->type == JINJA_BIGINT) {
        *out = *self;
        return MICA_OK;
    }
    if (self->type == JINJA_STRING && parse_int(self, base, &value, &overflow)) {
        if (overflow)
            MICA_FAIL(MICA_E_ARGUMENT, "an integer beyond 64 bits");
        *out = mica__jinja_int(value);
        return MICA_OK;
    }
    if (mica__jinja_as_int(self, &value)) {
        *out = mica__jinja_int(value);
        return MICA_OK;
    }
    if (self->type == JINJA_FLOAT || (self->type == JINJA_STRING && parse_float(self, &number))) {
        MICA_TRY(truncate_float(self->type == JINJA_FLOAT ? self->number : number, out, &good));
        if (good)
            return MICA_OK;
    }
    *out = args[0].type == JINJA_ABSENT ? mica__jinja_int(0) : args[0];
    return MICA_OK;
}

static mica_status filter_float(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    double number;
    (void)run;
    if (self->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(self);
    if (mica__jinja_as_float(self, &number) ||
        (self->type == JINJA_STRING && parse_float(self, &number)))
        *out = mica__jinja_float(number);
    else if (self->type == JINJA_BIGINT)
        *out =
            mica__jinja_float(mica__jinja_float_value(mica__jinja_chars(self), self->text.length));
    else
        *out = args[0].type == JINJA_ABSENT ? mica__jinja_float(0) : args[0];
    return MICA_OK;
}

/* round() of a float to `precision` places: the decimal closest to the exact value, ties to even.
 */
static double round_decimal(double value, int64_t precision)
{
    char text[MICA__DECIMAL_BYTES];
    if (!isfinite(value) || precision > 330)
        return value;
    if (precision < -308)
        return copysign(0.0, value);
    if (precision < 0) {
        const double unit = pow(10, (double)-precision);
        return nearbyint(value / unit) * unit;
    }
    const size_t n = mica__decimal_fixed(value, (int)precision, false, text);
    return copysign(mica__jinja_float_value(text, n), value);
}

static mica_status round_int(int64_t value, int64_t precision, jinja_value *out)
{
    int64_t unit = 1;
    for (int64_t i = precision; i < 0; i++)
        if (__builtin_mul_overflow(unit, 10, &unit)) {
            *out = mica__jinja_int(0);
            return MICA_OK;
        }
    const int64_t rest = ((value % unit) + unit) % unit, low = value - rest;
    const bool up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
    if (unit > 1 && up && low > INT64_MAX - unit)
        MICA_FAIL(MICA_E_ARGUMENT, "an integer result does not fit 64 bits");
    *out = mica__jinja_int(unit > 1 ? low + (up ? unit : 0) : value);
    return MICA_OK;
}

static mica_status filter_round(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    int64_t precision = 0, integer;
    double value;
    (void)run;
    if (args[0].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a precision must be an integer", &args[0], &precision));
    if (!mica__jinja_as_float(self, &value))
        return mica__jinja_wrong_type("round() takes a number", self);
    const bool method = args[1].type != JINJA_ABSENT;
    if (method)
        MICA_TRY(mica__jinja_need_string("a method must be a string", &args[1]));
    if (!method || mica__jinja_text_is(&args[1], "common")) {
        if (mica__jinja_as_int(self, &integer))
            return round_int(integer, precision, out);
        *out = mica__jinja_float(round_decimal(value, precision));
        return MICA_OK;
    }
    const bool up = mica__jinja_text_is(&args[1], "ceil");
    if (!up && !mica__jinja_text_is(&args[1], "floor"))
        MICA_FAIL(MICA_E_ARGUMENT, "method must be common, ceil or floor");
    if (precision < -300 || precision > 300)
        MICA_FAIL(MICA_E_ARGUMENT, "a precision beyond 300");
    const double unit = pow(10, (double)precision);
    *out = mica__jinja_float((up ? ceil(value * unit) : floor(value * unit)) / unit);
    return MICA_OK;
}

static mica_status filter_filesizeformat(jinja_run *run, const jinja_value *self,
                                         const jinja_value *args, jinja_value *out)
{
    static const char *const units[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
    const bool binary = args[0].type != JINJA_ABSENT && mica__jinja_truth(&args[0]);
    const double base = binary ? 1024 : 1000;
    double value;
    char text[64];
    if (!mica__jinja_as_float(self, &value) &&
        !(self->type == JINJA_STRING && parse_float(self, &value)))
        return mica__jinja_wrong_type("filesizeformat takes a number", self);
    if (!(fabs(value) < 1e30))
        MICA_FAIL(MICA_E_ARGUMENT, "a size beyond any file");
    if (value == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (value < base) {
        snprintf(text, sizeof text, "%lld Bytes", (long long)value);
    } else {
        int unit = 0;
        for (value /= base; value >= base && unit < 7; unit++)
            value /= base;
        const long long tenths = (long long)nearbyint(value * 10);
        snprintf(text, sizeof text, "%lld.%lld %s%s", tenths / 10, tenths % 10,
                 binary && unit == 0 ? "K" : units[unit], binary ? "iB" : "B");
    }
    return mica__jinja_string(&run->heap, text, strlen(text), false, out);
}

/* --- any value -------------------------------------------------------------------------------- */

static mica_status filter_attr(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    jinja_value name;
    MICA_TRY(mica__jinja_str(&run->heap, &args[0], &name));
    if (self->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(self);
    MICA_TRY(mica__jinja_plain_attribute(run, self, &name, out));
    if (out->type == JINJA_ABSENT)
        return mica__jinja_undefined_key(run, self, &name, false, out);
    return MICA_OK;
}

static mica_status filter_default(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    const bool falsy = args[1].type != JINJA_ABSENT && mica__jinja_truth(&args[1]);
    *out = *self;
    if (self->type != JINJA_UNDEFINED && !(falsy && !mica__jinja_truth(self)))
        return MICA_OK;
    *out = args[0];
    if (out->type == JINJA_ABSENT)
        return mica__jinja_string(&run->heap, "", 0, false, out);
    return MICA_OK;
}

static mica_status filter_length(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    (void)args;
    *out = mica__jinja_int(0);
    if (self->type == JINJA_STRING)
        MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)self->text.length / 64));
    if (!mica__jinja_length(self, &out->integer))
        MICA_FAIL(MICA_E_ARGUMENT, "object of type '%s' has no len()", mica__jinja_type_name(self));
    return MICA_OK;
}

static mica_status filter_string(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    (void)args;
    if (self->type == JINJA_STRING) {
        *out = *self;
        return MICA_OK;
    }
    return mica__jinja_str(&run->heap, self, out);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* indent=4 or indent="\t" as the text of one level. */
static mica_status json_indent(jinja_run *run, const jinja_value *indent, jinja_value *out)
{
    int64_t width;
    out->type = JINJA_ABSENT;
    if (indent->type == JINJA_ABSENT || indent->type == JINJA_NONE)
        return MICA_OK;
    if (indent->type == JINJA_STRING) {
        *out = *indent;
        return MICA_OK;
    }
    MICA_TRY(mica__jinja_need_int("indent must be an integer or a string", indent, &width));
    jinja_value blank;
    MICA_TRY(mica__jinja_string(&run->heap, " ", 1, false, &blank));
    return mica__jinja_repeat(run, &blank, width, out);
}

static mica_status json_separators(const jinja_value *separators, jinja_json_style *style)
{
    if (separators->type == JINJA_ABSENT || separators->type == JINJA_NONE)
        return MICA_OK;
    if ((separators->type != JINJA_TUPLE && separators->type != JINJA_LIST) ||
        separators->list->n != 2)
        return mica__jinja_wrong_type("separators must be two strings", separators);
    for (int i = 0; i < 2; i++)
        MICA_TRY(
            mica__jinja_need_string("a separator must be a string", &separators->list->items[i]));
    style->item_separator = separators->list->items[0];
    style->key_separator = separators->list->items[1];
    return MICA_OK;
}

static mica_status filter_tojson(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    jinja_json_style style = {.ascii = mica__jinja_truth(&args[0]),
                              .sort_keys = mica__jinja_truth(&args[3])};
    MICA_TRY(json_indent(run, &args[1], &style.indent));
    MICA_TRY(json_separators(&args[2], &style));
    return mica__jinja_to_json(run, self, &style, out);
}

static mica_status filter_from_json(jinja_run *run, const jinja_value *self,
                                    const jinja_value *args, jinja_value *out)
{
    (void)args;
    MICA_TRY(mica__jinja_need_string("from_json takes a string", self));
    return mica__jinja_from_json(&run->heap, mica__jinja_chars(self), self->text.length,
                                 mica__jinja_any_mark(self), out);
}

/* --- filters on filters and tests ------------------------------------------------------------- */

mica_status mica__jinja_path(jinja_run *run, const jinja_value *path, const jinja_value *missing,
                             const jinja_value *from, jinja_value *out)
{
    const bool fill = missing && missing->type != JINJA_ABSENT && missing->type != JINJA_NONE;
    *out = *from;
    if (path->type == JINJA_ABSENT || path->type == JINJA_NONE)
        return MICA_OK;
    const bool text = path->type == JINJA_STRING;
    for (size_t at = 0;;) {
        jinja_value key = *path;
        const jinja_value object = *out;
        size_t end = 0;
        if (text) {
            const char *bytes = mica__jinja_chars(path);
            int64_t number = 0;
            bool digits = true;
            for (end = at; end < path->text.length && bytes[end] != '.'; end++) {
                digits = digits && bytes[end] >= '0' && bytes[end] <= '9' && number < INT32_MAX;
                number = digits ? number * 10 + (bytes[end] - '0') : 0;
            }
            key =
                digits && end > at ? mica__jinja_int(number) : mica__jinja_part(path, at, end - at);
        }
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        MICA_TRY(mica__jinja_item(run, &object, &key, out));
        if (fill && out->type == JINJA_UNDEFINED)
            *out = *missing;
        if (!text || end >= path->text.length)
            return MICA_OK;
        at = end + 1;
    }
}

static const jinja_value *named(const jinja_args *args, const char *name)
{
    for (int64_t i = 0; i < args->n_named; i++)
        if (mica__jinja_text_is(&args->names[i], name))
            return &args->values[i];
    return NULL;
}

static mica_status filter_map(jinja_run *run, const jinja_value *self, const jinja_args *args,
                              jinja_value *out)
{
    jinja_value *items, result;
    int64_t n;
    jinja_list *list;
    const jinja_value *attribute = args->n ? NULL : named(args, "attribute");
    const jinja_value *missing = args->n ? NULL : named(args, "default");
    if (!attribute && !args->n)
        MICA_FAIL(MICA_E_ARGUMENT, "map requires a filter argument");
    if (attribute && args->n_named > (missing ? 2 : 1))
        MICA_FAIL(MICA_E_ARGUMENT, "map takes attribute and default only");
    if (!attribute)
        MICA_TRY(mica__jinja_need_string("map takes the name of a filter", &args->items[0]));
    MICA_TRY(mica__jinja_new_list(run, JINJA_ITERATOR, &list, out));
    if (!mica__jinja_truth(self)) /* also 0 and None, which have no items */
        return MICA_OK;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    for (int64_t i = 0; i < n; i++) {
        if (attribute) {
            MICA_TRY(mica__jinja_path(run, attribute, missing, &items[i], &result));
        } else {
            jinja_args rest = *args;
            rest.items++;
            rest.n--;
            MICA_TRY(mica__jinja_apply_filter(run, &args->items[0], &items[i], &rest, &result));
        }
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &result));
    }
    return MICA_OK;
}

/* select, reject (of: 0), selectattr, rejectattr (of: 1 for the attribute's name). */
static mica_status choose(jinja_run *run, const jinja_value *self, const jinja_args *args, int of,
                          bool wanted, jinja_value *out)
{
    jinja_value *items, tested;
    int64_t n;
    jinja_list *list;
    if (args->n < of)
        MICA_FAIL(MICA_E_ARGUMENT, "missing parameter for attribute name");
    if (args->n > of)
        MICA_TRY(mica__jinja_need_string("the name of a test must be a string", &args->items[of]));
    MICA_TRY(mica__jinja_new_list(run, JINJA_ITERATOR, &list, out));
    if (!mica__jinja_truth(self))
        return MICA_OK;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    for (int64_t i = 0; i < n; i++) {
        bool result;
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        tested = items[i];
        if (of)
            MICA_TRY(mica__jinja_path(run, &args->items[0], NULL, &items[i], &tested));
        if (args->n > of) {
            jinja_args rest = *args;
            rest.items += of + 1;
            rest.n -= of + 1;
            MICA_TRY(mica__jinja_apply_test(run, &args->items[of], &tested, &rest, &result));
        } else {
            result = mica__jinja_truth(&tested);
        }
        if (result == wanted)
            MICA_TRY(mica__jinja_list_add(&run->heap, list, &items[i]));
    }
    return MICA_OK;
}

static mica_status filter_select(jinja_run *run, const jinja_value *self, const jinja_args *args,
                                 jinja_value *out)
{
    return choose(run, self, args, 0, true, out);
}

static mica_status filter_reject(jinja_run *run, const jinja_value *self, const jinja_args *args,
                                 jinja_value *out)
{
    return choose(run, self, args, 0, false, out);
}

static mica_status filter_selectattr(jinja_run *run, const jinja_value *self,
                                     const jinja_args *args, jinja_value *out)
{
    return choose(run, self, args, 1, true, out);
}

static mica_status filter_rejectattr(jinja_run *run, const jinja_value *self,
                                     const jinja_args *args, jinja_value *out)
{
    return choose(run, self, args, 1, false, out);
}

/* --- the table -------------------------------------------------------------------------------- */

static const jinja_builtin filters[] = {
    {"abs", "", 0, filter_abs, NULL},
    {"attr", "name", 1, filter_attr, NULL},
    {"count", "", 0, filter_length, NULL},
    {"d", "default_value,boolean", 0, filter_default, NULL},
    {"default", "default_value,boolean", 0, filter_default, NULL},
    {"filesizeformat", "binary", 0, filter_filesizeformat, NULL},
    {"float", "default", 0, filter_float, NULL},
    {"from_json", "", 0, filter_from_json, NULL},
    {"int", "default,base", 0, filter_int, NULL},
    {"length", "", 0, filter_length, NULL},
    {"map", "", 0, NULL, filter_map},
    {"reject", "", 0, NULL, filter_reject},
    {"rejectattr", "", 0, NULL, filter_rejectattr},
    {"round", "precision,method", 0, filter_round, NULL},
    {"select", "", 0, NULL, filter_select},
    {"selectattr", "", 0, NULL, filter_selectattr},
    {"string", "", 0, filter_string, NULL},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, filter_tojson, NULL},
};

static const jinja_builtin *find_in(const jinja_builtin *table, int count, const char *name,
                                    size_t n)
{
    for (int i = 0; i < count; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}

const jinja_builtin *mica__jinja_filter_find(const char *name, size_t n)
{
    int count;
    const jinja_builtin *found = find_in(filters, (int)(sizeof filters / sizeof *filters), name, n);
    const jinja_builtin *table = mica__jinja_text_filters(&count);
    if (!found)
        found = find_in(table, count, name, n);
    table = mica__jinja_sequence_filters(&count);
    return found ? found : find_in(table, count, name, n);
}

bool mica__jinja_filter_known(const jinja_value *name)
{
    return mica__jinja_filter_find(mica__jinja_chars(name), name->text.length) != NULL;
}
