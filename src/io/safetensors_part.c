/* safetensors_part.c - the safetensors header against the file.
 *
 * The JSON header comes as a stream of events, so a header of many megabytes costs its names and
 * one record a tensor. The events drive a small state machine: outside, the top object, the
 * metadata object, a tensor's object, its shape or its offsets. Strings go to one growing buffer
 * and are remembered by their place in it; pointers are made when it has stopped growing.
 *
 * Afterwards the spans of all tensors, sorted, must lead from 0 to the end of the data without a
 * gap or an overlap.
 * SPDX-License-Identifier: MIT
 */
#include "io/safetensors_part.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "io/heap_sort.h"
#include "io/json.h"
#include "io/shown.h"

#define MAX_HEADER 100000000
#define MAX_DEPTH  8

typedef enum state { OUTSIDE, TOP, METADATA, TENSOR, SHAPE, OFFSETS, DONE } state;

typedef enum field {
    NO_FIELD,
    FIELD_METADATA = 1, /* the value of "__metadata__" is due */
    FIELD_TENSOR = 2,   /* the value of a tensor's name is due */
    FIELD_DTYPE = 4,
    FIELD_SHAPE = 8,
    FIELD_OFFSETS = 16
} field;

#define ALL_FIELDS (FIELD_DTYPE | FIELD_SHAPE | FIELD_OFFSETS)

/* What is known of a tensor before the strings have their final place. */
typedef struct span {
    int64_t begin; /* from the start of the data */
    int64_t end;
    int64_t name; /* place in the strings */
    int64_t name_length;
    int64_t tensor;
} span;

typedef struct pair {
    int64_t key; /* places in the strings */
    int64_t key_length;
    int64_t value;
} pair;

typedef struct parser {
    mica__st_part *part;
    state state;
    field due;
    int seen; /* fields of the current tensor */
    bool metadata_seen;
    int n_offsets;
    int64_t tensors_capacity;
    span *spans; /* [n_tensors] */
    int64_t spans_capacity;
    pair *pairs; /* [n_metadata] */
    int64_t pairs_capacity;
} parser;

/* --- strings ---------------------------------------------------------------------------------- */

/* Copies a string and a NUL to the buffer; *at is its place. */
static mica_status keep(parser *p, const char *bytes, size_t n, const char *what, int64_t *at)
{
    if (memchr(bytes, 0, n))
        MICA_FAIL(MICA_E_FORMAT, "%s holds a NUL character", what);
    *at = p->part->strings.length;
    MICA_TRY(mica__text_add(&p->part->strings, bytes, n));
    return mica__text_add_char(&p->part->strings, '\0');
}

static const char *current_name(const parser *p, char buffer[MICA__SHOWN_BYTES])
{
    const span *current = &p->spans[p->part->n_tensors - 1];
    return mica__shown(buffer, p->part->strings.bytes + current->name, current->name_length);
}

static mica_status bad(const parser *p, const char *what)
{
    char shown[MICA__SHOWN_BYTES];
    if (p->state >= TENSOR || p->due == FIELD_TENSOR)
        MICA_FAIL(MICA_E_FORMAT, "header, tensor \"%s\": %s", current_name(p, shown), what);
    MICA_FAIL(MICA_E_FORMAT, "header: %s", what);
}

/* --- events ----------------------------------------------------------------------------------- */

static mica_status begin_tensor(parser *p, const char *name, size_t n)
{
    mica__st_part *part = p->part;
    MICA_TRY(mica__grow(MICA_MEMORY_OTHER, (void **)&part->tensors, sizeof *part->tensors,
                        part->n_tensors + 1, &p->tensors_capacity));
    MICA_TRY(mica__grow(MICA_MEMORY_OTHER, (void **)&p->spans, sizeof *p->spans,
                        part->n_tensors + 1, &p->spans_capacity));
    span *s = &p->spans[part->n_tensors];
    *s = (span){.tensor = part->n_tensors, .name_length = (int64_t)n};
    MICA_TRY(keep(p, name, n, "header: a tensor name", &s->name));
    part->tensors[part->n_tensors++] = (mica__st_tensor){.type = MICA__N_ST_TYPES};
    p->seen = 0;
    return MICA_OK;
}

static mica_status begin_pair(parser *p, const char *key, size_t n)
{
    MICA_TRY(mica__grow(MICA_MEMORY_OTHER, (void **)&p->pairs, sizeof *p->pairs,
                        p->part->n_metadata + 1, &p->pairs_capacity));
    pair *added = &p->pairs[p->part->n_metadata++];
    added->key_length = (int64_t)n;
    return keep(p, key, n, "header: a key of __metadata__", &added->key);
}

static bool is(const char *bytes, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(bytes, text, n) == 0;
}

static mica_status on_top_key(parser *p, const char *bytes, size_t n)
{
    if (!is(bytes, n, "__metadata__")) {
        MICA_TRY(begin_tensor(p, bytes, n));
        p->due = FIELD_TENSOR;
        return MICA_OK;
    }
    if (p->metadata_seen)
        return bad(p, "__metadata__ occurs twice");
    p->metadata_seen = true;
    p->due = FIELD_METADATA;
    return MICA_OK;
}

static mica_status on_key(void *user, const char *bytes, size_t n)
{
    parser *p = user;
    if (p->state == TOP)
        return on_top_key(p, bytes, n);
    if (p->state == METADATA)
        return begin_pair(p, bytes, n);
    if (is(bytes, n, "dtype"))
        p->due = FIELD_DTYPE;
    else if (is(bytes, n, "shape"))
        p->due = FIELD_SHAPE;
    else if (is(bytes, n, "data_offsets"))
        p->due = FIELD_OFFSETS;
    else
        return bad(p, "a field other than dtype, shape and data_offsets");
    if (p->seen & (int)p->due)
        return bad(p, "a field occurs twice");
    p->seen |= (int)p->due;
    return MICA_OK;
}

static mica_status on_string(void *user, const char *bytes, size_t n)
{
    parser *p = user;
    char shown[MICA__SHOWN_BYTES], name[MICA__SHOWN_BYTES];
    if (p->state == METADATA)
        return keep(p, bytes, n, "header: a value of __metadata__",
                    &p->pairs[p->part->n_metadata - 1].value);
    if (p->state != TENSOR || p->due != FIELD_DTYPE)
        return bad(p, "a string where none belongs");
    mica__st_tensor *tensor = &p->part->tensors[p->part->n_tensors - 1];
    tensor->type = mica__st_type_of(bytes, n);
    if (tensor->type == MICA__N_ST_TYPES)
        MICA_FAIL(MICA_E_UNSUPPORTED, "header, tensor \"%s\": unknown dtype \"%s\"",
                  current_name(p, name), mica__shown(shown, bytes, (int64_t)n));
    return MICA_OK;
}

/* A whole number from 0 to INT64_MAX, written in digits alone. */
static bool parse_size(const char *text, size_t n, int64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] < '0' || text[i] > '9' || !mica__mul_i64(*value, 10, value) ||
            !mica__add_i64(*value, text[i] - '0', value))
            return false;
    return n > 0;
}

static mica_status on_number(void *user, const char *text, size_t n)
{
    parser *p = user;
    int64_t value;
    if (p->state != SHAPE && p->state != OFFSETS)
        return bad(p, "a number where none belongs");
    if (!parse_size(text, n, &value))
        return bad(p, "sizes and offsets are whole numbers from 0 to 2^63 - 1");
    if (p->state == SHAPE) {
        mica__st_tensor *tensor = &p->part->tensors[p->part->n_tensors - 1];
        if (tensor->n_dims == MICA_MAX_DIMS)
            return bad(p, "more than 12 dimensions");
        tensor->shape[tensor->n_dims++] = value;
        return MICA_OK;
    }
    span *s = &p->spans[p->part->n_tensors - 1];
    if (p->n_offsets == 2)
        return bad(p, "data_offsets are two numbers");
    *(p->n_offsets++ ? &s->end : &s->begin) = value;
    return MICA_OK;
}

/* MLX writes "__metadata__": null when there is none. */
static mica_status on_null(void *user)
{
    parser *p = user;
    if (p->state != TOP || p->due != FIELD_METADATA)
        return bad(p, "a null where none belongs");
    p->due = NO_FIELD;
    return MICA_OK;
}

static mica_status on_boolean(void *user, bool value)
{
    return bad(user, value ? "a true where none belongs" : "a false where none belongs");
}

static mica_status on_start_array(void *user)
{
    parser *p = user;
    if (p->state != TENSOR || (p->due != FIELD_SHAPE && p->due != FIELD_OFFSETS))
        return bad(p, "a list where none belongs");
    p->state = p->due == FIELD_SHAPE ? SHAPE : OFFSETS;
    p->n_offsets = 0;
    return MICA_OK;
}

static mica_status on_end_array(void *user)
{
    parser *p = user;
    if (p->state == OFFSETS && p->n_offsets != 2)
        return bad(p, "data_offsets are two numbers");
    p->state = TENSOR;
    p->due = NO_FIELD;
    return MICA_OK;
}

static mica_status on_start_object(void *user)
{
    parser *p = user;
    if (p->state == OUTSIDE)
        p->state = TOP;
    else if (p->state == TOP && p->due == FIELD_METADATA)
        p->state = METADATA;
    else if (p->state == TOP && p->due == FIELD_TENSOR)
        p->state = TENSOR;
    else
        return bad(p, "an object where none belongs");
    p->due = NO_FIELD;
    return MICA_OK;
}

/* Shape, dtype and offsets must agree. */
static mica_status finish_tensor(parser *p)
{
    mica__st_tensor *tensor = &p->part->tensors[p->part->n_tensors - 1];
    const span *s = &p->spans[p->part->n_tensors - 1];
    if (p->seen != ALL_FIELDS)
        return bad(p, "dtype, shape and data_offsets must all be there");
    tensor->bytes = mica__st_type_bytes(tensor->type);
    bool empty = false;
    for (int i = 0; i < tensor->n_dims; i++)
        if (tensor->shape[i] == 0)
            empty = true;
        else if (!mica__mul_i64(tensor->bytes, tensor->shape[i], &tensor->bytes))
            return bad(p, "its bytes are more than 2^63");
    tensor->bytes = empty ? 0 : tensor->bytes;
    char shown[MICA__SHOWN_BYTES];
    if (s->begin > s->end || s->end - s->begin != tensor->bytes)
        MICA_FAIL(MICA_E_FORMAT,
                  "header, tensor \"%s\": data_offsets [%lld, %lld] do not span the %lld bytes of "
                  "its shape",
                  current_name(p, shown), (long long)s->begin, (long long)s->end,
                  (long long)tensor->bytes);
    return MICA_OK;
}

static mica_status on_end_object(void *user)
{
    parser *p = user;
    if (p->state == TENSOR)
        MICA_TRY(finish_tensor(p));
    p->state = p->state == TOP ? DONE : TOP;
    return MICA_OK;
}

static const mica__json_events events = {.null = on_null,
                                         .boolean = on_boolean,
                                         .number = on_number,
                                         .string = on_string,
                                         .key = on_key,
                                         .start_object = on_start_object,
                                         .end_object = on_end_object,
                                         .start_array = on_start_array,
                                         .end_array = on_end_array};

/* --- after the header ------------------------------------------------------------------------- */

static int compare_spans(const void *left, const void *right)
{
    const span *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static mica_status check_cover(parser *p, int64_t n_data)
{
    int64_t at = 0;
    char shown[MICA__SHOWN_BYTES];
    mica__heap_sort(p->spans, p->part->n_tensors, sizeof *p->spans, compare_spans);
    for (int64_t i = 0; i < p->part->n_tensors; i++) {
        const span *s = &p->spans[i];
        const char *name = p->part->strings.bytes + s->name;
        if (s->end > n_data)
            MICA_FAIL(MICA_E_FORMAT,
                      "tensor \"%s\" ends at byte %lld of the data, which has %lld (cut off while "
                      "copying?)",
                      mica__shown(shown, name, s->name_length), (long long)s->end,
                      (long long)n_data);
        if (s->begin != at)
            MICA_FAIL(MICA_E_FORMAT,
                      "tensor \"%s\" begins at byte %lld of the data, but the one before it ends "
                      "at %lld: %s",
                      mica__shown(shown, name, s->name_length), (long long)s->begin, (long long)at,
                      s->begin < at ? "they overlap" : "a hole");
        at = s->end;
    }
    if (at != n_data)
        MICA_FAIL(MICA_E_FORMAT, "the last %lld bytes of the file belong to no tensor",
                  (long long)(n_data - at));
    return MICA_OK;
}

static mica_status add_name(mica__map *map, const char *what, const char *name, int64_t length,
                            int64_t i)
{
    bool added = false;
    char shown[MICA__SHOWN_BYTES];
    MICA_TRY(mica__map_insert_new(map, name, (size_t)length, i, &added, NULL));
    if (!added)
        MICA_FAIL(MICA_E_FORMAT, "header: the %s \"%s\" occurs twice", what,
                  mica__shown(shown, name, length));
    return MICA_OK;
}

/* The strings have their final place now. */
static mica_status link_tensors(parser *p, const uint8_t *data, int64_t data_offset)
{
    mica__st_part *part = p->part;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &part->names));
    MICA_TRY(mica__map_reserve(part->names, part->n_tensors, 0));
    for (int64_t i = 0; i < part->n_tensors; i++) {
        const span *s = &p->spans[i];
        mica__st_tensor *tensor = &part->tensors[s->tensor];
        tensor->name = part->strings.bytes + s->name;
        tensor->data = data ? data + s->begin : NULL;
        tensor->offset = data_offset + s->begin;
        MICA_TRY(add_name(part->names, "tensor name", tensor->name, s->name_length, s->tensor));
    }
    return MICA_OK;
}

static mica_status link_metadata(parser *p)
{
    mica__st_part *part = p->part;
    part->metadata =
        mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)part->n_metadata, sizeof *part->metadata);
    if (!part->metadata)
        return MICA_E_MEMORY;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &part->metadata_keys));
    for (int64_t i = 0; i < part->n_metadata; i++) {
        part->metadata[i] = (mica__st_metadata){.key = part->strings.bytes + p->pairs[i].key,
                                                .value = part->strings.bytes + p->pairs[i].value};
        MICA_TRY(add_name(part->metadata_keys, "key of __metadata__", part->metadata[i].key,
                          p->pairs[i].key_length, i));
    }
    return MICA_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* bytes[0, n) is the whole file of file_bytes, or at least its header. */
static mica_status parse(parser *p, const uint8_t *bytes, int64_t n, int64_t file_bytes, bool whole)
{
    if (n < 8)
        MICA_FAIL(MICA_E_FORMAT, "not a safetensors file: %lld bytes, the header size alone has 8",
                  (long long)file_bytes);
    const uint64_t header = mica__load_u64(bytes);
    if (header > MAX_HEADER || (int64_t)header > n - 8)
        MICA_FAIL(MICA_E_FORMAT,
                  "not a whole safetensors file: a header of %llu bytes in a file of %lld (at most "
                  "%d are allowed)",
                  (unsigned long long)header, (long long)file_bytes, MAX_HEADER);
    if (!header || bytes[8] != '{')
        MICA_FAIL(MICA_E_FORMAT, "not a safetensors file: no '{' at byte 8");
    const mica_status status =
        mica__json_stream((const char *)bytes + 8, (size_t)header, MAX_DEPTH, &events, p);
    if (status != MICA_OK)
        return mica__fail_at(status, "safetensors header");
    MICA_TRY(p->part->strings.status);
    const int64_t data_offset = 8 + (int64_t)header;
    MICA_TRY(check_cover(p, file_bytes - data_offset));
    MICA_TRY(link_tensors(p, whole ? bytes + data_offset : NULL, data_offset));
    return link_metadata(p);
}

static mica_status parse_part(const uint8_t *bytes, int64_t n, int64_t file_bytes, bool whole,
                              mica__st_part *part)
{
    *part = (mica__st_part){.strings = {.kind = MICA_MEMORY_OTHER}};
    parser p = {.part = part};
    const mica_status status = parse(&p, bytes, n, file_bytes, whole);
    mica__free(p.spans);
    mica__free(p.pairs);
    if (status != MICA_OK)
        mica__st_part_free(part);
    return status;
}

mica_status mica__st_part_parse(const uint8_t *bytes, int64_t n, mica__st_part *part)
{
    return parse_part(bytes, n, n, true, part);
}

mica_status mica__st_part_parse_header(const uint8_t *bytes, int64_t n, int64_t file_bytes,
                                       mica__st_part *part)
{
    return parse_part(bytes, n, file_bytes, false, part);
}

void mica__st_part_free(mica__st_part *part)
{
    mica__text_free(&part->strings);
    mica__free(part->tensors);
    mica__free(part->metadata);
    mica__map_free(part->names);
    mica__map_free(part->metadata_keys);
    *part = (mica__st_part){0};
}
