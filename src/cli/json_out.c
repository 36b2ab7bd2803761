/* json_out.c - writing JSON into memory.
 * SPDX-License-Identifier: MIT
 */
#include "cli/json_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <mica/json.h>
#include <mica/number.h>

#include "cli/failure.h"

#define MAX_DEPTH 64

static bool printed;

static void quote(json_out *json, const char *bytes, size_t n)
{
    if (n > SIZE_MAX / 16) {
        json->text.failed = true;
        return;
    }
    if (!buffer_reserve(&json->text, MICA_JSON_QUOTED_BYTES(n)))
        return;
    const size_t length = mica_json_quote(bytes, n, json->text.bytes + json->text.length);
    json->text.failed |= length == 0;
    json->text.length += length;
    json->text.bytes[json->text.length] = '\0';
}

static void begin(json_out *json, const char *key)
{
    if (json->comma)
        buffer_add(&json->text, ", ", 2);
    if (key) {
        quote(json, key, strlen(key));
        buffer_add(&json->text, ": ", 2);
    }
    json->comma = true;
}

void json_open(json_out *json, const char *key, char bracket)
{
    begin(json, key);
    buffer_add(&json->text, &bracket, 1);
    json->comma = false;
}

void json_close(json_out *json, char bracket)
{
    buffer_add(&json->text, &bracket, 1);
    json->comma = true;
}

void json_bytes(json_out *json, const char *key, const char *bytes, size_t n)
{
    begin(json, key);
    quote(json, bytes, n);
}

void json_text(json_out *json, const char *key, const char *text)
{
    if (text)
        json_bytes(json, key, text, strlen(text));
    else
        json_null(json, key);
}

void json_integer(json_out *json, const char *key, int64_t value)
{
    begin(json, key);
    buffer_format(&json->text, "%lld", (long long)value);
}

void json_unsigned(json_out *json, const char *key, uint64_t value)
{
    begin(json, key);
    buffer_format(&json->text, "%llu", (unsigned long long)value);
}

void json_bool(json_out *json, const char *key, bool value)
{
    begin(json, key);
    buffer_add_text(&json->text, value ? "true" : "false");
}

void json_null(json_out *json, const char *key)
{
    begin(json, key);
    buffer_add_text(&json->text, "null");
}

void json_real(json_out *json, const char *key, double value)
{
    char text[MICA_NUMBER_TEXT_BYTES];
    if (!isfinite(value)) {
        json_null(json, key);
        return;
    }
    begin(json, key);
    buffer_add(&json->text, text, (size_t)mica_number_format(text, value));
}

void json_float(json_out *json, const char *key, float value)
{
    char text[MICA_NUMBER_TEXT_BYTES];
    if (!isfinite(value)) {
        json_null(json, key);
        return;
    }
    begin(json, key);
    buffer_add(&json->text, text, (size_t)mica_float_format(text, value));
}

void json_measured(json_out *json, const char *key, double value, int digits)
{
    if (isfinite(value) && value != 0) {
        const double unit = pow(10, digits - 1 - (int)floor(log10(fabs(value))));
        value = unit >= 1 ? round(value * unit) / unit : round(value);
    }
    json_real(json, key, value);
}

void json_ids(json_out *json, const char *key, const int32_t *ids, int64_t n)
{
    json_open(json, key, '[');
    for (int64_t i = 0; i < n; i++)
        json_integer(json, NULL, ids[i]);
    json_close(json, ']');
}

static void copy_leaf(json_out *json, const mica_json *value)
{
    const char *key = mica_json_key(value);
    int64_t n;
    const char *text = mica_json_string(value, &n);
    switch (mica_json_type_of(value)) {
    case MICA_JSON_BOOL:
        json_bool(json, key, mica_json_bool(value));
        break;
    case MICA_JSON_INTEGER:
        json_integer(json, key, mica_json_integer(value));
        break;
    case MICA_JSON_REAL:
        json_real(json, key, mica_json_number(value));
        break;
    case MICA_JSON_STRING:
        json_bytes(json, key, text, (size_t)n);
        break;
    default:
        json_null(json, key);
    }
}

static char bracket_of(const mica_json *value, bool end)
{
    const bool array = mica_json_type_of(value) == MICA_JSON_ARRAY;
    return array ? (end ? ']' : '[') : (end ? '}' : '{');
}

/* A document is at most MAX_DEPTH deep, so a stack of that size is enough. */
void json_copy(json_out *json, const mica_json *value)
{
    const mica_json *open[MAX_DEPTH], *at = value;
    int depth = 0;
    for (;;) {
        const mica_json_type type = mica_json_type_of(at);
        if (type == MICA_JSON_ARRAY || type == MICA_JSON_OBJECT) {
            json_open(json, mica_json_key(at), bracket_of(at, false));
            if (mica_json_first(at) && depth < MAX_DEPTH) {
                open[depth++] = at;
                at = mica_json_first(at);
                continue;
            }
            json_close(json, bracket_of(at, true));
        } else {
            copy_leaf(json, at);
        }
        while (depth && !mica_json_next(at)) {
            at = open[--depth];
            json_close(json, bracket_of(at, true));
        }
        if (!depth)
            return;
        at = mica_json_next(at);
    }
}

int json_print(json_out *json)
{
    int exit_status = 0;
    buffer_add(&json->text, "\n", 1);
    printed = !json->text.failed;
    if (json->text.failed)
        exit_status = fail_memory();
    else if (fwrite(json->text.bytes, 1, json->text.length, stdout) != json->text.length ||
             fflush(stdout) != 0)
        exit_status = fail_with(MICA_E_IO, "standard output", "cannot be written");
    json_free(json);
    return exit_status;
}

bool json_was_printed(void)
{
    return printed;
}

void json_free(json_out *json)
{
    buffer_free(&json->text);
    json->comma = false;
}
