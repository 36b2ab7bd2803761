/* gguf.c - GGUF models: the parts of a split one joined, and typed reads of keys.
 *
 * gguf_part.c parses and checks each file. A split model is one whose split.count key is above 1:
 * every part carries split.count, its number split.no and the number of tensors of the whole, and
 * is named <prefix>-00001-of-0000N.gguf. Keys come from the first part. After opening nothing here
 * changes, so any number of threads may read.
 * SPDX-License-Identifier: MIT
 */
#include "io/gguf.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/text_buffer.h"
#include "io/gguf_part.h"
#include "io/shown.h"

#define MAX_PARTS 65535
#define SUFFIX    ((int64_t)sizeof "-00001-of-00001.gguf" - 1)

typedef struct part_file {
    mica__file *file; /* NULL for bytes of the caller */
    char *path;
    mica__gguf_part part;
} part_file;

struct mica__gguf {
    part_file *parts; /* [n_parts] */
    int n_parts;
    mica__gguf_tensor *tensors; /* all parts' in order; the part's own list when there is one */
    int64_t n_tensors;
    bool joined;      /* tensors and names are this object's own */
    mica__map *names; /* to the index in tensors, when joined */
};

/* --- split models ----------------------------------------------------------------------------- */

/* Splits "<prefix>-00002-of-00003.gguf" into the length of the prefix, 2 and 3. */
static bool parse_split_name(const char *path, int64_t *prefix, int *number, int *count)
{
    const int64_t length = (int64_t)strlen(path);
    if (length < SUFFIX)
        return false;
    const char *at = path + length - SUFFIX;
    if (at[0] != '-' || memcmp(at + 6, "-of-", 4) != 0 || strcmp(at + 15, ".gguf") != 0)
        return false;
    *number = *count = 0;
    for (int i = 0; i < 5; i++) {
        if (at[1 + i] < '0' || at[1 + i] > '9' || at[10 + i] < '0' || at[10 + i] > '9')
            return false;
        *number = *number * 10 + (at[1 + i] - '0');
        *count = *count * 10 + (at[10 + i] - '0');
    }
    *prefix = length - SUFFIX;
    return *number >= 1 && *number <= *count;
}

static mica_status scalar_i64(const mica__gguf_value *value, int64_t *out);

/* An integer key of one part; `missing` where it is absent. */
static mica_status part_i64(const mica__gguf_part *part, const char *key, int64_t missing,
                            int64_t *out)
{
    const mica__gguf_value *value = mica__gguf_part_find(part, key);
    *out = missing;
    if (!value)
        return MICA_OK;
    if (scalar_i64(value, out) != MICA_OK)
        MICA_FAIL(MICA_E_FORMAT, "the key %s must be an integer", key);
    return MICA_OK;
}

static mica_status expect_i64(const mica__gguf_part *part, const char *key, int64_t expected)
{
    int64_t found;
    MICA_TRY(part_i64(part, key, -1, &found));
    if (found != expected)
        MICA_FAIL(MICA_E_FORMAT,
                  "%s is %lld where %lld is expected: the files do not belong together", key,
                  (long long)found, (long long)expected);
    return MICA_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static mica_status open_part(const char *path, bool use_map, part_file *part)
{
    part->path = mica__strndup(MICA_MEMORY_OTHER, path, strlen(path));
    if (!part->path)
        return MICA_E_MEMORY;
    MICA_TRY(mica__file_open(path, use_map, &part->file));
    const mica_status status = mica__gguf_part_parse(
        mica__file_data(part->file), (int64_t)mica__file_size(part->file), &part->part);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
}

/* Opens part `number` (from 1) of the model whose paths begin with path[0, prefix). */
static mica_status open_numbered(mica__gguf *gguf, const char *path, int64_t prefix, int number,
                                 bool use_map)
{
    mica__text name = {.kind = MICA_MEMORY_OTHER};
    mica__text_add(&name, path, (size_t)prefix);
    mica__text_format(&name, "-%05d-of-%05d.gguf", number, gguf->n_parts);
    mica_status status = name.status;
    if (status == MICA_OK)
        status = open_part(name.bytes, use_map, &gguf->parts[number - 1]);
    mica__text_free(&name);
    return status;
}

static mica_status check_part_of(const mica__gguf *gguf, int i, int64_t n_tensors)
{
    const mica__gguf_part *part = &gguf->parts[i].part;
    MICA_TRY(expect_i64(part, "split.no", i));
    MICA_TRY(expect_i64(part, "split.count", gguf->n_parts));
    return expect_i64(part, "split.tensors.count", n_tensors);
}

/* One list of all parts' tensors, and one index over their names. */
static mica_status join_tensors(mica__gguf *gguf)
{
    gguf->joined = true;
    int64_t total = 0;
    for (int i = 0; i < gguf->n_parts; i++)
        total += gguf->parts[i].part.n_tensors;
    for (int i = 0; i < gguf->n_parts; i++) {
        const mica_status status = check_part_of(gguf, i, total);
        if (status != MICA_OK)
            return mica__fail_at(status, "%s", gguf->parts[i].path);
    }
    gguf->tensors = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)total, sizeof *gguf->tensors);
    if (!gguf->tensors)
        return MICA_E_MEMORY;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &gguf->names));
    for (int i = 0; i < gguf->n_parts; i++)
        for (int64_t t = 0; t < gguf->parts[i].part.n_tensors; t++) {
            mica__gguf_tensor *tensor = &gguf->tensors[gguf->n_tensors];
            *tensor = gguf->parts[i].part.tensors[t];
            tensor->shard = i;
            bool added = false;
            MICA_TRY(mica__map_insert_new(gguf->names, tensor->name.bytes,
                                          (size_t)tensor->name.length, gguf->n_tensors++, &added,
                                          NULL));
            char shown[MICA__SHOWN_BYTES];
            if (!added)
                MICA_FAIL(MICA_E_FORMAT, "%s: the tensor \"%s\" is in an earlier part too",
                          gguf->parts[i].path,
                          mica__shown(shown, tensor->name.bytes, tensor->name.length));
        }
    return MICA_OK;
}

/* How many parts the file that was just opened belongs to, from its keys and its name. */
static mica_status count_parts(const mica__gguf *gguf, const char *path, int64_t *prefix,
                               int *number, int64_t *count)
{
    int named = 1;
    *number = 1;
    const bool has_name = parse_split_name(path, prefix, number, &named);
    MICA_TRY(part_i64(&gguf->parts[0].part, "split.count", 1, count));
    if (*count < 0 || *count > MAX_PARTS)
        MICA_FAIL(MICA_E_FORMAT, "%s: split.count is %lld", path, (long long)*count);
    *count = *count ? *count : 1;
    if (*count > 1 && !has_name)
        MICA_FAIL(MICA_E_FORMAT,
                  "%s: one part of a model of %lld files, which are found by names that end in "
                  "-00001-of-%05lld.gguf: give it its name back",
                  path, (long long)*count, (long long)*count);
    if (has_name && named != *count)
        MICA_FAIL(MICA_E_FORMAT,
                  "%s: the name says %d files, the key split.count says %lld: rename the file, or "
                  "get all parts",
                  path, named, (long long)*count);
    return MICA_OK;
}

static mica_status open_parts(mica__gguf *gguf, const char *path, bool use_map)
{
    gguf->parts = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *gguf->parts);
    if (!gguf->parts)
        return MICA_E_MEMORY;
    gguf->n_parts = 1;
    MICA_TRY(open_part(path, use_map, &gguf->parts[0]));
    int64_t prefix = 0, count = 1;
    int number = 1;
    MICA_TRY(count_parts(gguf, path, &prefix, &number, &count));
    if (count == 1) {
        gguf->tensors = gguf->parts[0].part.tensors;
        gguf->n_tensors = gguf->parts[0].part.n_tensors;
        return MICA_OK;
    }
    part_file *all = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)count, sizeof *all);
    if (!all)
        return MICA_E_MEMORY;
    all[number - 1] = gguf->parts[0];
    mica__free(gguf->parts);
    gguf->parts = all;
    gguf->n_parts = (int)count;
    for (int i = 1; i <= gguf->n_parts; i++)
        if (i != number) {
            const mica_status status = open_numbered(gguf, path, prefix, i, use_map);
            if (status != MICA_OK)
                return mica__fail_at(status, "part %d of %d of the model", i, gguf->n_parts);
        }
    return join_tensors(gguf);
}

mica_status mica__gguf_open(const char *path, bool use_map, mica__gguf **gguf)
{
    *gguf = NULL;
    mica__gguf *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    const mica_status status = open_parts(opened, path, use_map);
    if (status != MICA_OK) {
        mica__gguf_close(opened);
        return status;
    }
    *gguf = opened;
    return MICA_OK;
}

static mica_status open_bytes(mica__gguf *gguf, const uint8_t *bytes, size_t n)
{
    gguf->parts = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *gguf->parts);
    if (!gguf->parts)
        return MICA_E_MEMORY;
    gguf->n_parts = 1;
    if (n > INT64_MAX)
        MICA_FAIL(MICA_E_ARGUMENT, "more bytes than a file can have");
    MICA_TRY(mica__gguf_part_parse(bytes, (int64_t)n, &gguf->parts[0].part));
    int64_t count;
    MICA_TRY(part_i64(&gguf->parts[0].part, "split.count", 1, &count));
    if (count < 0 || count > 1)
        MICA_FAIL(MICA_E_UNSUPPORTED, "one part of a model of %lld files: open it by its path",
                  (long long)count);
    gguf->tensors = gguf->parts[0].part.tensors;
    gguf->n_tensors = gguf->parts[0].part.n_tensors;
    return MICA_OK;
}

mica_status mica__gguf_open_memory(const uint8_t *bytes, size_t n, mica__gguf **gguf)
{
    *gguf = NULL;
    mica__gguf *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    const mica_status status = open_bytes(opened, bytes, n);
    if (status != MICA_OK) {
        mica__gguf_close(opened);
        return status;
    }
    *gguf = opened;
    return MICA_OK;
}

void mica__gguf_close(mica__gguf *gguf)
{
    if (!gguf)
        return;
    if (gguf->joined)
        mica__free(gguf->tensors);
    mica__map_free(gguf->names);
    for (int i = 0; i < gguf->n_parts; i++) {
        mica__gguf_part_free(&gguf->parts[i].part);
        mica__file_close(gguf->parts[i].file);
        mica__free(gguf->parts[i].path);
    }
    mica__free(gguf->parts);
    mica__free(gguf);
}

/* --- reading ---------------------------------------------------------------------------------- */

int mica__gguf_version(const mica__gguf *gguf)
{
    return gguf->parts[0].part.version;
}

int mica__gguf_n_shards(const mica__gguf *gguf)
{
    return gguf->n_parts;
}

const char *mica__gguf_path(const mica__gguf *gguf, int shard)
{
    return gguf->parts[shard].path ? gguf->parts[shard].path : "(memory)";
}

int64_t mica__gguf_file_bytes(const mica__gguf *gguf)
{
    int64_t bytes = 0;
    for (int i = 0; i < gguf->n_parts; i++)
        bytes += gguf->parts[i].part.n_bytes;
    return bytes;
}

int64_t mica__gguf_offset(const mica__gguf *gguf, const mica__gguf_tensor *tensor)
{
    return tensor->data - gguf->parts[tensor->shard].part.bytes;
}

int64_t mica__gguf_n_values(const mica__gguf *gguf)
{
    return gguf->parts[0].part.n_values;
}

const mica__gguf_value *mica__gguf_value_at(const mica__gguf *gguf, int64_t i)
{
    return &gguf->parts[0].part.values[i];
}

const mica__gguf_value *mica__gguf_find(const mica__gguf *gguf, const char *key)
{
    return mica__gguf_part_find(&gguf->parts[0].part, key);
}

int64_t mica__gguf_n_tensors(const mica__gguf *gguf)
{
    return gguf->n_tensors;
}

const mica__gguf_tensor *mica__gguf_tensor_at(const mica__gguf *gguf, int64_t i)
{
    return &gguf->tensors[i];
}

const mica__gguf_tensor *mica__gguf_find_tensor(const mica__gguf *gguf, const char *name)
{
    const mica__map *names = gguf->joined ? gguf->names : gguf->parts[0].part.names;
    int64_t i;
    return mica__map_find(names, name, strlen(name), &i) ? &gguf->tensors[i] : NULL;
}

/* --- typed values ----------------------------------------------------------------------------- */

static bool load_i64(mica__gguf_type type, const uint8_t *at, int64_t *value)
{
    switch ((int)type) {
    case MICA__GGUF_U8:
        *value = *at;
        return true;
    case MICA__GGUF_I8:
        *value = (int8_t)*at;
        return true;
    case MICA__GGUF_U16:
        *value = mica__load_u16(at);
        return true;
    case MICA__GGUF_I16:
        *value = (int16_t)mica__load_u16(at);
        return true;
    case MICA__GGUF_U32:
        *value = mica__load_u32(at);
        return true;
    case MICA__GGUF_I32:
        *value = (int32_t)mica__load_u32(at);
        return true;
    case MICA__GGUF_I64:
    case MICA__GGUF_U64:
        *value = (int64_t)mica__load_u64(at);
        return type == MICA__GGUF_I64 || *value >= 0;
    default:
        return false;
    }
}

static bool load_f64(mica__gguf_type type, const uint8_t *at, double *value)
{
    int64_t integer;
    if (type == MICA__GGUF_F32)
        *value = (double)mica__load_f32(at);
    else if (type == MICA__GGUF_F64)
        *value = mica__load_f64(at);
    else if (type == MICA__GGUF_U64)
        *value = (double)mica__load_u64(at);
    else if (load_i64(type, at, &integer))
        *value = (double)integer;
    else
        return false;
    return true;
}

static mica_status wrong_type(const mica__gguf_value *value, const char *wanted)
{
    char shown[MICA__SHOWN_BYTES];
    MICA_FAIL(MICA_E_FORMAT, "key \"%s\" holds no %s in range (its type is %d%s)",
              mica__shown(shown, value->key.bytes, value->key.length), wanted, (int)value->type,
              value->type == MICA__GGUF_ARRAY ? ", an array" : "");
}

static mica_status scalar_i64(const mica__gguf_value *value, int64_t *out)
{
    return load_i64(value->type, value->data, out) ? MICA_OK : wrong_type(value, "integer");
}

static mica_status find_value(const mica__gguf *gguf, const char *key,
                              const mica__gguf_value **value)
{
    *value = mica__gguf_find(gguf, key);
    if (!*value)
        MICA_FAIL(MICA_E_NOT_FOUND, "the file has no key \"%s\"", key);
    return MICA_OK;
}

mica_status mica__gguf_get_i64(const mica__gguf *gguf, const char *key, int64_t *value)
{
    const mica__gguf_value *found;
    MICA_TRY(find_value(gguf, key, &found));
    return scalar_i64(found, value);
}

mica_status mica__gguf_get_f64(const mica__gguf *gguf, const char *key, double *value)
{
    const mica__gguf_value *found;
    MICA_TRY(find_value(gguf, key, &found));
    return load_f64(found->type, found->data, value) ? MICA_OK : wrong_type(found, "number");
}

mica_status mica__gguf_get_bool(const mica__gguf *gguf, const char *key, bool *value)
{
    const mica__gguf_value *found;
    MICA_TRY(find_value(gguf, key, &found));
    if (found->type != MICA__GGUF_BOOL)
        return wrong_type(found, "truth value");
    *value = found->data[0] != 0;
    return MICA_OK;
}

mica_status mica__gguf_get_string(const mica__gguf *gguf, const char *key, mica__gguf_string *value)
{
    const mica__gguf_value *found;
    MICA_TRY(find_value(gguf, key, &found));
    if (found->type != MICA__GGUF_STRING)
        return wrong_type(found, "string");
    value->length = (int64_t)mica__load_u64(found->data);
    value->bytes = (const char *)found->data + 8;
    return MICA_OK;
}

/* Element i of an array, or NULL where there is none. */
static const uint8_t *element(const mica__gguf_value *array, int64_t i)
{
    if (array->type != MICA__GGUF_ARRAY || i < 0 || i >= array->n)
        return NULL;
    return array->data + i * mica__gguf_scalar_bytes(array->element_type);
}

mica_status mica__gguf_element_i64(const mica__gguf_value *array, int64_t i, int64_t *value)
{
    const uint8_t *at = element(array, i);
    if (at && array->element_type == MICA__GGUF_BOOL) {
        *value = *at;
        return MICA_OK;
    }
    return at && load_i64(array->element_type, at, value)
               ? MICA_OK
               : wrong_type(array, "such integer element");
}

mica_status mica__gguf_element_f64(const mica__gguf_value *array, int64_t i, double *value)
{
    const uint8_t *at = element(array, i);
    return at && load_f64(array->element_type, at, value)
               ? MICA_OK
               : wrong_type(array, "such number element");
}

bool mica__gguf_strings_next(const mica__gguf_value *array, int64_t *at, mica__gguf_string *value)
{
    if (array->type != MICA__GGUF_ARRAY || array->element_type != MICA__GGUF_STRING)
        return false;
    if (*at < 0 || array->bytes - *at < 8)
        return false;
    value->length = (int64_t)mica__load_u64(array->data + *at);
    value->bytes = (const char *)array->data + *at + 8;
    *at += 8 + value->length;
    return true;
}
