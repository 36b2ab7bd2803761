/* jinja_json.c - JSON to values and values to JSON, as Python's json.dumps writes it.
 *
 * Marks: what JSON text was marked gives marked strings and keys. Written out, a string or key
 * keeps the mark of every character, escapes included, and its quotes are marked when any of it is;
 * brackets, separators and numbers are the template's own.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "io/json.h"
#include "text/jinja_run.h"
#include "text/letter_case.h"

#define MAX_DEPTH 128

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct reader {
    jinja_heap *heap;
    jinja_value open[MAX_DEPTH]; /* LIST or DICT */
    jinja_value key[MAX_DEPTH];  /* the pending key of a dict */
    jinja_value result;
    int depth;
    bool marked;
} reader;

static mica_status add(reader *r, const jinja_value *value)
{
    MICA_TRY(mica__jinja_charge(r->heap, 1));
    if (!r->depth) {
        r->result = *value;
        return MICA_OK;
    }
    const jinja_value *open = &r->open[r->depth - 1];
    if (open->type == JINJA_LIST)
        return mica__jinja_list_add(r->heap, open->list, value);
    return mica__jinja_dict_set(r->heap, open->dict, &r->key[r->depth - 1], value);
}

static mica_status on_null(void *user)
{
    const jinja_value value = mica__jinja_none();
    return add(user, &value);
}

static mica_status on_boolean(void *user, bool boolean)
{
    const jinja_value value = mica__jinja_bool(boolean);
    return add(user, &value);
}

static mica_status on_number(void *user, const char *text, size_t n)
{
    reader *r = user;
    jinja_value value = mica__jinja_int(0);
    if (!mica__parse_i64(text, n, &value.integer)) {
        bool whole = true;
        for (size_t i = 0; i < n; i++)
            whole = whole && text[i] != '.' && text[i] != 'e' && text[i] != 'E';
        if (whole) {
            MICA_TRY(mica__jinja_string(r->heap, text, n, false, &value));
            value.type = JINJA_BIGINT;
        } else {
            value = mica__jinja_float(mica__jinja_float_value(text, n));
        }
    }
    return add(r, &value);
}

static mica_status on_string(void *user, const char *bytes, size_t n)
{
    reader *r = user;
    jinja_value value;
    MICA_TRY(mica__jinja_string(r->heap, bytes, n, r->marked, &value));
    return add(r, &value);
}

static mica_status on_key(void *user, const char *bytes, size_t n)
{
    reader *r = user;
    return mica__jinja_string(r->heap, bytes, n, r->marked, &r->key[r->depth - 1]);
}

static mica_status open_value(reader *r, const jinja_value *value)
{
    MICA_TRY(add(r, value));
    r->open[r->depth++] = *value;
    return MICA_OK;
}

static mica_status on_start_object(void *user)
{
    reader *r = user;
    const jinja_value value = {.type = JINJA_DICT, .dict = mica__jinja_dict_new(r->heap)};
    return value.dict ? open_value(r, &value) : r->heap->status;
}

static mica_status on_start_array(void *user)
{
    reader *r = user;
    jinja_list *list = mica__jinja_list_new(r->heap, 0);
    if (!list)
        return r->heap->status;
    const jinja_value value = mica__jinja_of_list(JINJA_LIST, "list", list);
    return open_value(r, &value);
}

static mica_status on_end(void *user)
{
    reader *r = user;
    r->depth--;
    return MICA_OK;
}

mica_status mica__jinja_from_json(jinja_heap *heap, const char *text, size_t n, bool marked,
                                  jinja_value *out)
{
    static const mica__json_events events = {
        .null = on_null,
        .boolean = on_boolean,
        .number = on_number,
        .string = on_string,
        .key = on_key,
        .start_object = on_start_object,
        .end_object = on_end,
        .start_array = on_start_array,
        .end_array = on_end,
    };
    reader r = {.heap = heap, .marked = marked};
    MICA_TRY(mica__jinja_charge(heap, (int64_t)(n / 64)));
    MICA_TRY(mica__json_stream(text, n, MAX_DEPTH, &events, &r));
    *out = r.result;
    return MICA_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct writer {
    jinja_run *run;
    jinja_heap *heap;
    jinja_bytes *to;
    const jinja_json_style *style;
} writer;

static mica_status put(writer *w, const char *string)
{
    return mica__jinja_put_string(w->heap, w->to, string);
}

/* The escape of a code point in a JSON string; 0 when it stands for itself. */
static int escape_point(uint32_t point, bool ascii, char to[16])
{
    static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = point && point < 0x80 ? strchr(special, (int)point) : NULL;
    if (found)
        return snprintf(to, 16, "\\%c", letters[found - special]);
    if (point >= 0x20 && (!ascii || point < 0x7f))
        return 0;
    if (point < 0x10000)
        return snprintf(to, 16, "\\u%04x", point);
    return snprintf(to, 16, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                    0xdc00 + ((point - 0x10000) & 0x3ff));
}

static mica_status put_string(writer *w, const jinja_value *text)
{
    const char *bytes = mica__jinja_chars(text);
    const bool marked = mica__jinja_any_mark(text);
    size_t from = 0, at = 0;
    MICA_TRY(mica__jinja_put(w->heap, w->to, "\"", 1, marked));
    while (at < text->text.length) {
        uint32_t point;
        char escape[16];
        const size_t n = mica__letter_next(bytes + at, &point);
        const int escaped = escape_point(point, w->style->ascii, escape);
        if (escaped) {
            MICA_TRY(mica__jinja_put_part(w->heap, w->to, text, from, at - from));
            MICA_TRY(mica__jinja_put_as(w->heap, w->to, escape, (size_t)escaped, text, at, n));
            from = at + n;
        }
        at += n;
    }
    MICA_TRY(mica__jinja_put_part(w->heap, w->to, text, from, at - from));
    return mica__jinja_put(w->heap, w->to, "\"", 1, marked);
}

static mica_status put_float(writer *w, double value)
{
    char text[40];
    if (isnan(value))
        return put(w, "NaN");
    if (isinf(value))
        return put(w, value < 0 ? "-Infinity" : "Infinity");
    return mica__jinja_put(w->heap, w->to, text, mica__jinja_float_text(value, text), false);
}

static mica_status put_newline(writer *w, int depth)
{
    if (w->style->indent.type == JINJA_ABSENT)
        return MICA_OK;
    MICA_TRY(put(w, "\n"));
    for (int i = 0; i < depth; i++)
        MICA_TRY(mica__jinja_put_text(w->heap, w->to, &w->style->indent));
    return MICA_OK;
}

static mica_status put_item_separator(writer *w)
{
    if (w->style->item_separator.type != JINJA_ABSENT)
        return mica__jinja_put_text(w->heap, w->to, &w->style->item_separator);
    return put(w, w->style->indent.type == JINJA_ABSENT ? ", " : ",");
}

static mica_status put_value(writer *w, const jinja_value *v, int depth);

static mica_status put_list(writer *w, const jinja_list *list, int depth)
{
    if (!list->n)
        return put(w, "[]");
    MICA_TRY(put(w, "["));
    for (int64_t i = 0; i < list->n; i++) {
        if (i)
            MICA_TRY(put_item_separator(w));
        MICA_TRY(put_newline(w, depth + 1));
        MICA_TRY(put_value(w, &list->items[i], depth + 1));
    }
    MICA_TRY(put_newline(w, depth));
    return put(w, "]");
}

static mica_status put_key(writer *w, const jinja_value *key)
{
    if (key->type == JINJA_STRING)
        return put_string(w, key);
    if (key->type != JINJA_INT && key->type != JINJA_BIGINT && key->type != JINJA_FLOAT &&
        key->type != JINJA_BOOL && key->type != JINJA_NONE)
        MICA_FAIL(MICA_E_ARGUMENT, "keys must be str, int, float, bool or None, not %s",
                  mica__jinja_type_name(key));
    MICA_TRY(put(w, "\""));
    MICA_TRY(put_value(w, key, 0));
    return put(w, "\"");
}

static mica_status put_pair(writer *w, const jinja_entry *e, bool first, int depth)
{
    if (!first)
        MICA_TRY(put_item_separator(w));
    MICA_TRY(put_newline(w, depth + 1));
    MICA_TRY(put_key(w, &e->key));
    if (w->style->key_separator.type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_put_text(w->heap, w->to, &w->style->key_separator));
    else
        MICA_TRY(put(w, ": "));
    return put_value(w, &e->value, depth + 1);
}

static mica_status put_sorted(writer *w, const jinja_dict *dict, int depth)
{
    int64_t n = 0, *sorted;
    jinja_value *keys = mica__jinja_take(w->heap, (size_t)dict->n, sizeof *keys);
    const jinja_entry **entries = mica__jinja_take(w->heap, (size_t)dict->n, sizeof *entries);
    if (!keys || !entries)
        return w->heap->status;
    for (int64_t i = 0; i < dict->n; i++) {
        keys[n] = dict->entries[i].key;
        entries[n++] = &dict->entries[i];
    }
    MICA_TRY(mica__jinja_sort(w->run, keys, n, false, &sorted));
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(put_pair(w, entries[sorted[i]], i == 0, depth));
    return MICA_OK;
}

static mica_status put_dict(writer *w, const jinja_dict *dict, int depth)
{
    bool first = true;
    if (!dict->n)
        return put(w, "{}");
    MICA_TRY(put(w, "{"));
    if (w->style->sort_keys) {
        MICA_TRY(put_sorted(w, dict, depth));
    } else {
        for (int64_t i = 0; i < dict->n; i++) {
            MICA_TRY(put_pair(w, &dict->entries[i], first, depth));
            first = false;
        }
    }
    MICA_TRY(put_newline(w, depth));
    return put(w, "}");
}

static mica_status put_value(writer *w, const jinja_value *v, int depth)
{
    if (depth > JINJA_MAX_NESTING)
        MICA_FAIL(MICA_E_BUDGET, "a value nested deeper than %d is written as JSON",
                  JINJA_MAX_NESTING);
    MICA_TRY(mica__jinja_charge(w->heap, 1));
    switch (v->type) {
    case JINJA_NONE:
        return put(w, "null");
    case JINJA_BOOL:
        return put(w, v->boolean ? "true" : "false");
    case JINJA_INT:
    case JINJA_BIGINT:
        return mica__jinja_put_str(w->heap, w->to, v);
    case JINJA_FLOAT:
        return put_float(w, v->number);
    case JINJA_STRING:
        return put_string(w, v);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return put_list(w, v->list, depth);
    case JINJA_DICT:
        return put_dict(w, v->dict, depth);
    default:
        MICA_FAIL(MICA_E_ARGUMENT, "Object of type %s is not JSON serializable",
                  mica__jinja_type_name(v));
    }
}

mica_status mica__jinja_to_json(jinja_run *run, const jinja_value *v, const jinja_json_style *style,
                                jinja_value *out)
{
    writer w = {.run = run,
                .heap = &run->heap,
                .to = mica__jinja_bytes_new(&run->heap, 64),
                .style = style};
    if (!w.to)
        return run->heap.status;
    MICA_TRY(put_value(&w, v, 0));
    *out = mica__jinja_made(w.to);
    return MICA_OK;
}
