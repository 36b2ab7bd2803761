/* safetensors_write.c - header as text, then data.
 *
 * The tensors lie back to back in the order of their declarations, so what remains to be known
 * while data comes in is only how many bytes are still missing.
 * SPDX-License-Identifier: MIT
 */
#include "io/safetensors_write.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/hash_map.h"
#include "base/text_buffer.h"
#include "io/json.h"

#define MAX_HEADER 100000000

typedef struct names {
    mica__text bytes; /* each with a NUL behind it */
    int64_t n;
} names;

struct mica__st_writer {
    mica__file_writer *file;
    mica__text header; /* without the closing brace */
    names tensors;
    names keys;
    bool writing;    /* the header is out */
    int64_t size;    /* bytes of all declared tensors */
    int64_t missing; /* bytes of data still to come */
};

mica_status mica__st_writer_open(const char *path, mica__st_writer **writer)
{
    *writer = NULL;
    mica__st_writer *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    opened->header =
        (mica__text){.kind = MICA_MEMORY_OTHER, .max = MAX_HEADER - 16}; /* room for the padding */
    opened->tensors.bytes.kind = opened->keys.bytes.kind = MICA_MEMORY_OTHER;
    const mica_status status = mica__file_create(path, &opened->file);
    if (status != MICA_OK) {
        mica__st_writer_discard(opened);
        return status;
    }
    *writer = opened;
    return MICA_OK;
}

void mica__st_writer_discard(mica__st_writer *writer)
{
    if (!writer)
        return;
    mica__file_abandon(writer->file);
    mica__text_free(&writer->header);
    mica__text_free(&writer->tensors.bytes);
    mica__text_free(&writer->keys.bytes);
    mica__free(writer);
}

/* Appends a string as JSON; text that is no valid UTF-8 would come out changed, and is refused. */
static mica_status add_string(mica__text *out, const char *string)
{
    const int64_t start = out->length;
    const size_t length = strlen(string);
    MICA_TRY(mica__json_write_string(out, string, length));
    mica__json_doc *doc;
    MICA_TRY(mica__json_parse(out->bytes + start, (size_t)(out->length - start), 0, &doc));
    const mica__json *back = mica__json_root(doc);
    const bool same = back->length == (int64_t)length && memcmp(back->string, string, length) == 0;
    mica__json_free(doc);
    if (!same)
        MICA_FAIL(MICA_E_ARGUMENT, "a name or metadata string is not valid UTF-8");
    return MICA_OK;
}

static mica_status remember(names *list, const char *name)
{
    list->n++;
    return mica__text_add(&list->bytes, name, strlen(name) + 1);
}

mica_status mica__st_put_metadata(mica__st_writer *writer, const char *key, const char *value)
{
    if (writer->writing || writer->tensors.n)
        MICA_FAIL(MICA_E_STATE, "metadata \"%s\": metadata comes before tensors", key);
    mica__text *header = &writer->header;
    MICA_TRY(mica__text_add_string(header, writer->keys.n ? "," : "{\"__metadata__\":{"));
    MICA_TRY(remember(&writer->keys, key));
    MICA_TRY(add_string(header, key));
    MICA_TRY(mica__text_add_char(header, ':'));
    return add_string(header, value);
}

static mica_status measure(const char *name, mica__st_type type, int n_dims, const int64_t *shape,
                           int64_t *bytes)
{
    if (strcmp(name, "__metadata__") == 0)
        MICA_FAIL(MICA_E_ARGUMENT, "no tensor can be named __metadata__");
    if (n_dims < 0 || n_dims > MICA_MAX_DIMS)
        MICA_FAIL(MICA_E_ARGUMENT, "tensor \"%s\": %d dimensions", name, n_dims);
    *bytes = mica__st_type_bytes(type);
    bool empty = false;
    for (int i = 0; i < n_dims; i++) {
        empty = empty || shape[i] == 0;
        if (shape[i] < 0 || (shape[i] > 0 && !mica__mul_i64(*bytes, shape[i], bytes)))
            MICA_FAIL(MICA_E_ARGUMENT, "tensor \"%s\": size %lld of dimension %d", name,
                      (long long)shape[i], i);
    }
    *bytes = empty ? 0 : *bytes;
    return MICA_OK;
}

/* What stands before the first tensor, or between two. */
static mica_status add_separator(mica__st_writer *writer)
{
    if (writer->tensors.n)
        return mica__text_add_char(&writer->header, ',');
    return mica__text_add_string(&writer->header, writer->keys.n ? "}," : "{");
}

mica_status mica__st_declare(mica__st_writer *writer, const char *name, mica__st_type type,
                             int n_dims, const int64_t *shape)
{
    int64_t bytes = 0, end;
    if (writer->writing)
        MICA_FAIL(MICA_E_STATE, "tensor \"%s\": all tensors are declared before the first data",
                  name);
    MICA_TRY(measure(name, type, n_dims, shape, &bytes));
    if (!mica__add_i64(writer->size, bytes, &end))
        MICA_FAIL(MICA_E_ARGUMENT, "tensor \"%s\": the data would end beyond 2^63", name);
    mica__text *header = &writer->header;
    MICA_TRY(add_separator(writer));
    MICA_TRY(remember(&writer->tensors, name));
    MICA_TRY(add_string(header, name));
    MICA_TRY(mica__text_format(header, ":{\"dtype\":\"%s\",\"shape\":[", mica__st_type_name(type)));
    for (int i = 0; i < n_dims; i++)
        MICA_TRY(mica__text_format(header, "%s%lld", i ? "," : "", (long long)shape[i]));
    MICA_TRY(mica__text_format(header, "],\"data_offsets\":[%lld,%lld]}", (long long)writer->size,
                               (long long)end));
    writer->size = end;
    return MICA_OK;
}

static mica_status insert_all(const names *list, const char *what, mica__map *seen)
{
    const char *at = list->bytes.bytes;
    for (int64_t i = 0; i < list->n; i++) {
        const size_t length = strlen(at);
        bool added = false;
        MICA_TRY(mica__map_insert_new(seen, at, length, i, &added, NULL));
        if (!added)
            MICA_FAIL(MICA_E_ARGUMENT, "the %s \"%s\" is given twice", what, at);
        at += length + 1;
    }
    return MICA_OK;
}

static mica_status check_unique(const names *list, const char *what)
{
    mica__map *seen;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &seen));
    const mica_status status = insert_all(list, what, seen);
    mica__map_free(seen);
    return status;
}

static mica_status write_header(mica__st_writer *writer)
{
    MICA_TRY(check_unique(&writer->tensors, "tensor"));
    MICA_TRY(check_unique(&writer->keys, "metadata key"));
    mica__text *header = &writer->header;
    header->max = 0;
    if (!writer->tensors.n)
        MICA_TRY(mica__text_add_string(header, writer->keys.n ? "}" : "{"));
    MICA_TRY(mica__text_add_char(header, '}'));
    while (header->length % 8)
        MICA_TRY(mica__text_add_char(header, ' '));
    uint8_t size[8];
    mica__store_u64(size, (uint64_t)header->length);
    MICA_TRY(mica__file_write(writer->file, size, sizeof size));
    MICA_TRY(mica__file_write(writer->file, header->bytes, (size_t)header->length));
    writer->writing = true;
    writer->missing = writer->size;
    return MICA_OK;
}

mica_status mica__st_write(mica__st_writer *writer, const void *bytes, int64_t n)
{
    if (!writer->writing)
        MICA_TRY(write_header(writer));
    if (n > writer->missing)
        MICA_FAIL(MICA_E_STATE, "%lld bytes more than the declared tensors hold",
                  (long long)(n - writer->missing));
    writer->missing -= n;
    return mica__file_write(writer->file, bytes, (size_t)n);
}

static mica_status finish(mica__st_writer *writer)
{
    if (!writer->writing)
        MICA_TRY(write_header(writer));
    if (writer->missing)
        MICA_FAIL(MICA_E_STATE, "the declared tensors lack %lld of their %lld bytes",
                  (long long)writer->missing, (long long)writer->size);
    mica__file_writer *file = writer->file;
    writer->file = NULL;
    return mica__file_commit(file);
}

mica_status mica__st_writer_finish(mica__st_writer *writer)
{
    const mica_status status = finish(writer);
    mica__st_writer_discard(writer);
    return status;
}
