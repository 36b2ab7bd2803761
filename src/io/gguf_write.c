/* gguf_write.c - a GGUF file from keys, declarations and data in that order.
 *
 * Keys and tensor infos are collected as the bytes they will be, since the counts stand before
 * them; the header leaves on the first data (or at the end), and from then on only the place within
 * the current tensor is remembered.
 * SPDX-License-Identifier: MIT
 */
#include "io/gguf_write.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/hash_map.h"
#include "base/text_buffer.h"
#include "io/gguf_part.h"
#include "io/shown.h"

#define ALIGNMENT_KEY     "general.alignment"
#define DEFAULT_ALIGNMENT 32
#define MAX_ALIGNMENT     65536
#define MAX_KEY           65535
#define MAX_NAME          63
#define MAX_ELEMENTS      ((int64_t)1 << 30)

/* Where a key or name stands in the collected bytes. */
typedef struct place {
    int64_t at;
    int64_t length;
    int64_t bytes; /* of the tensor's data */
} place;

typedef struct places {
    place *items;
    int64_t n;
    int64_t capacity;
} places;

struct mica__gguf_writer {
    mica__file_writer *file;
    int64_t alignment; /* 0 only while opening */
    mica__text keys;   /* as in the file */
    mica__text infos;  /* as in the file */
    places key_places;
    places tensors;
    int64_t next_offset; /* of the next declaration, from the start of the data */
    int64_t written;     /* bytes of the file so far */
    bool writing;        /* the header is out */
    int64_t current;     /* the tensor whose data comes next */
    int64_t missing;     /* bytes that it still lacks */
};

/* --- pieces ----------------------------------------------------------------------------------- */

static mica_status add_u32(mica__text *out, uint32_t value)
{
    uint8_t bytes[4];
    mica__store_u32(bytes, value);
    return mica__text_add(out, (const char *)bytes, sizeof bytes);
}

static mica_status add_u64(mica__text *out, uint64_t value)
{
    uint8_t bytes[8];
    mica__store_u64(bytes, value);
    return mica__text_add(out, (const char *)bytes, sizeof bytes);
}

static mica_status add_string(mica__text *out, const char *bytes, int64_t length)
{
    MICA_TRY(add_u64(out, (uint64_t)length));
    return mica__text_add(out, bytes, (size_t)length);
}

static mica_status remember(places *list, place item)
{
    MICA_TRY(mica__grow(MICA_MEMORY_OTHER, (void **)&list->items, sizeof *list->items, list->n + 1,
                        &list->capacity));
    list->items[list->n++] = item;
    return MICA_OK;
}

static mica_status insert_all(const mica__text *text, const places *list, const char *what,
                              mica__map *seen)
{
    for (int64_t i = 0; i < list->n; i++) {
        const char *name = text->bytes + list->items[i].at;
        bool added = false;
        char shown[MICA__SHOWN_BYTES];
        MICA_TRY(mica__map_insert_new(seen, name, (size_t)list->items[i].length, i, &added, NULL));
        if (!added)
            MICA_FAIL(MICA_E_ARGUMENT, "the %s \"%s\" is given twice", what,
                      mica__shown(shown, name, list->items[i].length));
    }
    return MICA_OK;
}

static mica_status check_unique(const mica__text *text, const places *list, const char *what)
{
    mica__map *seen;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &seen));
    const mica_status status = insert_all(text, list, what, seen);
    mica__map_free(seen);
    return status;
}

/* --- opening ---------------------------------------------------------------------------------- */

static mica_status start(const char *path, int64_t alignment, mica__gguf_writer *writer)
{
    if (alignment < 0 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)))
        MICA_FAIL(MICA_E_ARGUMENT, "an alignment of %lld: a power of two of at most %d is allowed",
                  (long long)alignment, MAX_ALIGNMENT);
    writer->keys.kind = writer->infos.kind = MICA_MEMORY_OTHER;
    MICA_TRY(mica__file_create(path, &writer->file));
    if (alignment)
        MICA_TRY(mica__gguf_put_integer(writer, ALIGNMENT_KEY, MICA__GGUF_U32, alignment));
    writer->alignment = alignment ? alignment : DEFAULT_ALIGNMENT;
    return MICA_OK;
}

mica_status mica__gguf_writer_open(const char *path, int64_t alignment, mica__gguf_writer **writer)
{
    *writer = NULL;
    mica__gguf_writer *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    const mica_status status = start(path, alignment, opened);
    if (status != MICA_OK) {
        mica__gguf_writer_discard(opened);
        return status;
    }
    *writer = opened;
    return MICA_OK;
}

void mica__gguf_writer_discard(mica__gguf_writer *writer)
{
    if (!writer)
        return;
    mica__file_abandon(writer->file);
    mica__text_free(&writer->keys);
    mica__text_free(&writer->infos);
    mica__free(writer->key_places.items);
    mica__free(writer->tensors.items);
    mica__free(writer);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Key and type; the value follows. */
static mica_status begin_key(mica__gguf_writer *writer, const char *key, int64_t length,
                             mica__gguf_type type)
{
    if (writer->writing || writer->tensors.n)
        MICA_FAIL(MICA_E_STATE, "key \"%s\": keys come before tensors", key);
    if (length < 1 || length > MAX_KEY)
        MICA_FAIL(MICA_E_ARGUMENT, "a key of %lld bytes: 1 to %d are allowed", (long long)length,
                  MAX_KEY);
    if (writer->alignment && length == (int64_t)sizeof ALIGNMENT_KEY - 1 &&
        memcmp(key, ALIGNMENT_KEY, (size_t)length) == 0)
        MICA_FAIL(MICA_E_ARGUMENT, "the key " ALIGNMENT_KEY " is written by opening with it");
    MICA_TRY(
        remember(&writer->key_places, (place){.at = writer->keys.length + 8, .length = length}));
    MICA_TRY(add_string(&writer->keys, key, length));
    return add_u32(&writer->keys, (uint32_t)type);
}

static bool integer_fits(mica__gguf_type type, int64_t value)
{
    switch ((int)type) {
    case MICA__GGUF_U8:
        return value >= 0 && value <= UINT8_MAX;
    case MICA__GGUF_I8:
        return value >= INT8_MIN && value <= INT8_MAX;
    case MICA__GGUF_U16:
        return value >= 0 && value <= UINT16_MAX;
    case MICA__GGUF_I16:
        return value >= INT16_MIN && value <= INT16_MAX;
    case MICA__GGUF_U32:
        return value >= 0 && value <= UINT32_MAX;
    case MICA__GGUF_I32:
        return value >= INT32_MIN && value <= INT32_MAX;
    case MICA__GGUF_U64:
        return value >= 0;
    case MICA__GGUF_I64:
        return true;
    default:
        return false;
    }
}

mica_status mica__gguf_put_integer(mica__gguf_writer *writer, const char *key, mica__gguf_type type,
                                   int64_t value)
{
    if (!integer_fits(type, value))
        MICA_FAIL(MICA_E_ARGUMENT, "key \"%s\": %lld does not fit type %d", key, (long long)value,
                  (int)type);
    MICA_TRY(begin_key(writer, key, (int64_t)strlen(key), type));
    uint8_t bytes[8];
    mica__store_u64(bytes, (uint64_t)value);
    return mica__text_add(&writer->keys, (const char *)bytes,
                          (size_t)mica__gguf_scalar_bytes(type));
}

mica_status mica__gguf_put_real(mica__gguf_writer *writer, const char *key, mica__gguf_type type,
                                double value)
{
    uint8_t bytes[8];
    if (type == MICA__GGUF_F32 && (isnan(value) || isinf(value) || fabs(value) <= 0x1.fffffep127))
        mica__store_f32(bytes, (float)value);
    else if (type == MICA__GGUF_F64)
        memcpy(bytes, &value, sizeof value);
    else
        MICA_FAIL(MICA_E_ARGUMENT, "key \"%s\": the real number does not fit type %d", key,
                  (int)type);
    MICA_TRY(begin_key(writer, key, (int64_t)strlen(key), type));
    return mica__text_add(&writer->keys, (const char *)bytes,
                          (size_t)mica__gguf_scalar_bytes(type));
}

mica_status mica__gguf_put_bool(mica__gguf_writer *writer, const char *key, bool value)
{
    MICA_TRY(begin_key(writer, key, (int64_t)strlen(key), MICA__GGUF_BOOL));
    return mica__text_add_char(&writer->keys, value ? 1 : 0);
}

mica_status mica__gguf_put_string(mica__gguf_writer *writer, const char *key, const char *bytes,
                                  int64_t length)
{
    MICA_TRY(begin_key(writer, key, (int64_t)strlen(key), MICA__GGUF_STRING));
    return add_string(&writer->keys, bytes, length);
}

static mica_status begin_array(mica__gguf_writer *writer, const char *key, mica__gguf_type type,
                               int64_t n)
{
    if (n < 0 || n > MAX_ELEMENTS)
        MICA_FAIL(MICA_E_ARGUMENT, "key \"%s\": an array of %lld elements", key, (long long)n);
    MICA_TRY(begin_key(writer, key, (int64_t)strlen(key), MICA__GGUF_ARRAY));
    MICA_TRY(add_u32(&writer->keys, (uint32_t)type));
    return add_u64(&writer->keys, (uint64_t)n);
}

mica_status mica__gguf_put_array(mica__gguf_writer *writer, const char *key, mica__gguf_type type,
                                 const void *elements, int64_t n)
{
    const int size = mica__gguf_scalar_bytes(type);
    if (!size)
        MICA_FAIL(MICA_E_ARGUMENT, "key \"%s\": no array of numbers has type %d", key, (int)type);
    for (int64_t i = 0; type == MICA__GGUF_BOOL && i < n; i++)
        if (((const uint8_t *)elements)[i] > 1)
            MICA_FAIL(MICA_E_ARGUMENT, "key \"%s\": truth value %lld is neither 0 nor 1", key,
                      (long long)i);
    MICA_TRY(begin_array(writer, key, type, n));
    return mica__text_add(&writer->keys, elements, (size_t)n * (size_t)size);
}

mica_status mica__gguf_put_strings(mica__gguf_writer *writer, const char *key,
                                   const mica__gguf_string *strings, int64_t n)
{
    MICA_TRY(begin_array(writer, key, MICA__GGUF_STRING, n));
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(add_string(&writer->keys, strings[i].bytes, strings[i].length));
    return MICA_OK;
}

mica_status mica__gguf_put_value(mica__gguf_writer *writer, const mica__gguf_value *value)
{
    MICA_TRY(begin_key(writer, value->key.bytes, value->key.length, value->type));
    if (value->type == MICA__GGUF_ARRAY) {
        MICA_TRY(add_u32(&writer->keys, (uint32_t)value->element_type));
        MICA_TRY(add_u64(&writer->keys, (uint64_t)value->n));
    }
    return mica__text_add(&writer->keys, (const char *)value->data, (size_t)value->bytes);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static mica_status check_tensor(const char *name, mica__block_format format, int n_dims,
                                const int64_t *shape, int64_t *bytes)
{
    const size_t length = strlen(name);
    const mica__block_info *facts = mica__block_info_of(format);
    if (length < 1 || length > MAX_NAME)
        MICA_FAIL(MICA_E_ARGUMENT, "a tensor name of %zu bytes: 1 to %d are allowed", length,
                  MAX_NAME);
    if (facts->ggml_id < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "tensor \"%s\": GGUF has no type for %s", name, facts->name);
    if (n_dims < 1 || n_dims > 4)
        MICA_FAIL(MICA_E_ARGUMENT, "tensor \"%s\": %d dimensions, 1 to 4 are allowed", name,
                  n_dims);
    int64_t elements = 1;
    for (int i = 0; i < n_dims; i++)
        if (shape[i] < 1 || !mica__mul_i64(elements, shape[i], &elements))
            MICA_FAIL(MICA_E_ARGUMENT, "tensor \"%s\": size %lld of dimension %d", name,
                      (long long)shape[i], i);
    const int64_t row = shape[n_dims - 1];
    *bytes = mica__block_row_bytes(format, row);
    if (*bytes < 0 || !mica__mul_i64(*bytes, elements / row, bytes))
        MICA_FAIL(MICA_E_ARGUMENT,
                  "tensor \"%s\": rows of %lld values do not divide into %s blocks of %d", name,
                  (long long)row, facts->name, facts->values);
    return MICA_OK;
}

mica_status mica__gguf_declare(mica__gguf_writer *writer, const char *name,
                               mica__block_format format, int n_dims, const int64_t *shape)
{
    int64_t bytes = 0;
    if (writer->writing)
        MICA_FAIL(MICA_E_STATE, "tensor \"%s\": all tensors are declared before the first data",
                  name);
    MICA_TRY(check_tensor(name, format, n_dims, shape, &bytes));
    int64_t end;
    if (!mica__add_i64(writer->next_offset, bytes, &end) ||
        !mica__add_i64(end, writer->alignment - 1, &end))
        MICA_FAIL(MICA_E_ARGUMENT, "tensor \"%s\": the data would end beyond 2^63", name);
    const int64_t length = (int64_t)strlen(name);
    MICA_TRY(remember(&writer->tensors,
                      (place){.at = writer->infos.length + 8, .length = length, .bytes = bytes}));
    MICA_TRY(add_string(&writer->infos, name, length));
    MICA_TRY(add_u32(&writer->infos, (uint32_t)n_dims));
    for (int i = n_dims - 1; i >= 0; i--)
        MICA_TRY(add_u64(&writer->infos, (uint64_t)shape[i]));
    MICA_TRY(add_u32(&writer->infos, (uint32_t)mica__block_info_of(format)->ggml_id));
    MICA_TRY(add_u64(&writer->infos, (uint64_t)writer->next_offset));
    writer->next_offset = end & ~(writer->alignment - 1);
    return MICA_OK;
}

/* --- data ------------------------------------------------------------------------------------- */

static mica_status put(mica__gguf_writer *writer, const void *bytes, size_t n)
{
    writer->written += (int64_t)n;
    return mica__file_write(writer->file, bytes, n);
}

static mica_status pad(mica__gguf_writer *writer)
{
    static const uint8_t zeros[4096];
    int64_t missing = -writer->written & (writer->alignment - 1);
    while (missing > 0) {
        const int64_t some = missing < (int64_t)sizeof zeros ? missing : (int64_t)sizeof zeros;
        MICA_TRY(put(writer, zeros, (size_t)some));
        missing -= some;
    }
    return MICA_OK;
}

static mica_status write_header(mica__gguf_writer *writer)
{
    MICA_TRY(writer->keys.status);
    MICA_TRY(writer->infos.status);
    MICA_TRY(check_unique(&writer->keys, &writer->key_places, "key"));
    MICA_TRY(check_unique(&writer->infos, &writer->tensors, "tensor"));
    uint8_t head[24];
    memcpy(head, "GGUF", 4);
    mica__store_u32(head + 4, 3);
    mica__store_u64(head + 8, (uint64_t)writer->tensors.n);
    mica__store_u64(head + 16, (uint64_t)writer->key_places.n);
    MICA_TRY(put(writer, head, sizeof head));
    MICA_TRY(put(writer, writer->keys.bytes, (size_t)writer->keys.length));
    MICA_TRY(put(writer, writer->infos.bytes, (size_t)writer->infos.length));
    MICA_TRY(pad(writer));
    writer->writing = true;
    writer->missing = writer->tensors.n ? writer->tensors.items[0].bytes : 0;
    return MICA_OK;
}

mica_status mica__gguf_write(mica__gguf_writer *writer, const void *bytes, int64_t n)
{
    if (!writer->writing)
        MICA_TRY(write_header(writer));
    const uint8_t *at = bytes;
    while (n) {
        if (writer->current == writer->tensors.n)
            MICA_FAIL(MICA_E_STATE, "%lld bytes more than the declared tensors hold", (long long)n);
        const int64_t some = n < writer->missing ? n : writer->missing;
        MICA_TRY(put(writer, at, (size_t)some));
        at += some;
        n -= some;
        writer->missing -= some;
        if (writer->missing)
            break;
        MICA_TRY(pad(writer));
        writer->current++;
        if (writer->current < writer->tensors.n)
            writer->missing = writer->tensors.items[writer->current].bytes;
    }
    return MICA_OK;
}

static mica_status finish(mica__gguf_writer *writer)
{
    if (!writer->writing)
        MICA_TRY(write_header(writer));
    if (writer->current < writer->tensors.n) {
        const place *tensor = &writer->tensors.items[writer->current];
        MICA_FAIL(MICA_E_STATE, "tensor \"%.*s\" lacks %lld of its %lld bytes", (int)tensor->length,
                  writer->infos.bytes + tensor->at, (long long)writer->missing,
                  (long long)tensor->bytes);
    }
    mica__file_writer *file = writer->file;
    writer->file = NULL;
    return mica__file_commit(file);
}

mica_status mica__gguf_writer_finish(mica__gguf_writer *writer)
{
    const mica_status status = finish(writer);
    mica__gguf_writer_discard(writer);
    return status;
}
