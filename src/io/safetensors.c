/* safetensors.c - one safetensors file, or the shards that an index names, as one set of tensors.
 *
 * Every tensor must be in the file where the index says it is, and every tensor of every file in
 * the index. Files are named by the index alone, so the names must be plain: nothing outside the
 * index's own folder is ever opened.
 * SPDX-License-Identifier: MIT
 */
#include "io/safetensors.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "io/heap_sort.h"
#include "io/json.h"
#include "io/safetensors_part.h"
#include "io/shown.h"

#define MAX_INDEX ((int64_t)100 << 20)

typedef struct shard {
    mica__file *file; /* NULL for bytes of the caller */
    char *path;
    mica__st_part part;
} shard;

struct mica__safetensors {
    shard *shards; /* [n_shards] */
    int n_shards;
    mica__st_tensor *tensors; /* all shards' in order; the shard's own list when there is one */
    int64_t n_tensors;
    bool joined;      /* tensors and names are this object's own */
    mica__map *names; /* to the index in tensors, when joined */
};

/* --- types ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int bytes;
    mica_dtype dtype;
} types[MICA__N_ST_TYPES] = {
#define X(type, text, size, loaded) [type] = {text, size, loaded},
    MICA__ST_TYPES(X)
#undef X
};

const char *mica__st_type_name(mica__st_type type)
{
    return types[type].name;
}

int64_t mica__st_type_bytes(mica__st_type type)
{
    return types[type].bytes;
}

mica_dtype mica__st_type_dtype(mica__st_type type)
{
    return types[type].dtype;
}

mica__st_type mica__st_type_of(const char *name, size_t length)
{
    int type = 0;
    while (type < MICA__N_ST_TYPES &&
           (strlen(types[type].name) != length || memcmp(types[type].name, name, length) != 0))
        type++;
    return (mica__st_type)type;
}

/* --- opening ---------------------------------------------------------------------------------- */

static mica_status open_shard(const char *path, bool use_map, shard *opened)
{
    opened->path = mica__strndup(MICA_MEMORY_OTHER, path, strlen(path));
    if (!opened->path)
        return MICA_E_MEMORY;
    MICA_TRY(mica__file_open(path, use_map, &opened->file));
    const mica_status status = mica__st_part_parse(
        mica__file_data(opened->file), (int64_t)mica__file_size(opened->file), &opened->part);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
}

static mica_status make_shards(mica__safetensors *file, int64_t n)
{
    file->shards = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)n, sizeof *file->shards);
    if (!file->shards)
        return MICA_E_MEMORY;
    file->n_shards = (int)n;
    return MICA_OK;
}

static void take_only_shard(mica__safetensors *file)
{
    file->tensors = file->shards[0].part.tensors;
    file->n_tensors = file->shards[0].part.n_tensors;
}

static mica_status open_single(mica__safetensors *file, const char *path, bool use_map)
{
    MICA_TRY(make_shards(file, 1));
    MICA_TRY(open_shard(path, use_map, &file->shards[0]));
    take_only_shard(file);
    return MICA_OK;
}

/* --- sharded models --------------------------------------------------------------------------- */

static bool is_plain_name(const char *name, int64_t length)
{
    static const char ending[] = ".safetensors";
    const int64_t ending_length = (int64_t)sizeof ending - 1;
    if (length <= ending_length || length > 255 || name[0] == '.' ||
        memcmp(name + length - ending_length, ending, sizeof ending - 1) != 0)
        return false;
    for (int64_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '/' || name[i] == '\\')
            return false;
    return true;
}

static int compare_names(const void *left, const void *right)
{
    const char *const *a = left, *const *b = right;
    return strcmp(*a, *b);
}

/* Files of the index: `files` maps each name to its place in the sorted list of all. */
static mica_status list_files(const mica__json *map, mica__map *files, const char ***sorted)
{
    char shown[MICA__SHOWN_BYTES], tensor[MICA__SHOWN_BYTES];
    for (const mica__json *entry = map->first; entry; entry = entry->next) {
        if (entry->type != MICA__JSON_STRING || !is_plain_name(entry->string, entry->length))
            MICA_FAIL(MICA_E_FORMAT,
                      "tensor \"%s\" is said to be in \"%s\": only plain file names that end in "
                      ".safetensors are allowed",
                      mica__shown(tensor, entry->key, entry->key_length),
                      entry->type == MICA__JSON_STRING
                          ? mica__shown(shown, entry->string, entry->length)
                          : "(no string)");
        MICA_TRY(mica__map_insert(files, entry->string, (size_t)entry->length, 0));
    }
    const int64_t n = mica__map_count(files);
    if (n < 1 || n > INT32_MAX)
        MICA_FAIL(MICA_E_FORMAT, "weight_map names %lld files", (long long)n);
    *sorted = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)n, sizeof **sorted);
    if (!*sorted)
        return MICA_E_MEMORY;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++)
        mica__map_next(files, &at, &(*sorted)[i], NULL, NULL);
    mica__heap_sort(*sorted, n, sizeof **sorted, compare_names);
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(mica__map_insert(files, (*sorted)[i], strlen((*sorted)[i]), i));
    return MICA_OK;
}

static mica_status open_listed(mica__safetensors *file, const char *index_path, bool use_map,
                               const char *const *names, int64_t n)
{
    MICA_TRY(make_shards(file, n));
    char *folder = mica__path_directory(index_path);
    mica_status status = folder ? MICA_OK : MICA_E_MEMORY;
    for (int64_t i = 0; i < n && status == MICA_OK; i++) {
        char *path = mica__path_join(folder, names[i]);
        status = path ? open_shard(path, use_map, &file->shards[i]) : MICA_E_MEMORY;
        mica__free(path);
    }
    mica__free(folder);
    return status;
}

/* One list of all shards' tensors, one map over their names. */
static mica_status join_tensors(mica__safetensors *file)
{
    int64_t total = 0;
    for (int i = 0; i < file->n_shards; i++)
        total += file->shards[i].part.n_tensors;
    file->joined = true;
    file->tensors = mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)total, sizeof *file->tensors);
    if (!file->tensors)
        return MICA_E_MEMORY;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &file->names));
    for (int i = 0; i < file->n_shards; i++)
        for (int64_t t = 0; t < file->shards[i].part.n_tensors; t++) {
            mica__st_tensor *tensor = &file->tensors[file->n_tensors];
            *tensor = file->shards[i].part.tensors[t];
            tensor->shard = i;
            bool added = false;
            const size_t length = strlen(tensor->name);
            MICA_TRY(mica__map_insert_new(file->names, tensor->name, length, file->n_tensors++,
                                          &added, NULL));
            char shown[MICA__SHOWN_BYTES];
            if (!added)
                MICA_FAIL(MICA_E_FORMAT, "the tensor \"%s\" is in more than one file",
                          mica__shown(shown, tensor->name, (int64_t)length));
        }
    return MICA_OK;
}

/* The tensor of a file that the index does not list. */
static mica_status find_unlisted(const mica__safetensors *file, const mica__json *map,
                                 mica__map *listed)
{
    for (const mica__json *entry = map->first; entry; entry = entry->next)
        MICA_TRY(mica__map_insert(listed, entry->key, (size_t)entry->key_length, 0));
    for (int64_t i = 0; i < file->n_tensors; i++) {
        const mica__st_tensor *tensor = &file->tensors[i];
        const size_t length = strlen(tensor->name);
        char shown[MICA__SHOWN_BYTES];
        if (!mica__map_find(listed, tensor->name, length, NULL))
            MICA_FAIL(MICA_E_FORMAT, "tensor \"%s\" of %s is not in the index",
                      mica__shown(shown, tensor->name, (int64_t)length),
                      file->shards[tensor->shard].path);
    }
    return MICA_OK;
}

/* The index and the files name the same tensors in the same places. Names are unique on both sides,
 * so every index entry in its place and equal counts are enough. */
static mica_status check_index(const mica__safetensors *file, const mica__json *map,
                               const mica__map *files)
{
    for (const mica__json *entry = map->first; entry; entry = entry->next) {
        int64_t i, wanted = -1;
        char shown[MICA__SHOWN_BYTES];
        mica__map_find(files, entry->string, (size_t)entry->length, &wanted);
        if (!mica__map_find(file->names, entry->key, (size_t)entry->key_length, &i) ||
            file->tensors[i].shard != wanted)
            MICA_FAIL(MICA_E_FORMAT, "tensor \"%s\" is not in %s as the index says",
                      mica__shown(shown, entry->key, entry->key_length), entry->string);
    }
    if (file->n_tensors == map->n)
        return MICA_OK;
    mica__map *listed;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &listed));
    const mica_status status = find_unlisted(file, map, listed);
    mica__map_free(listed);
    return status;
}

static mica_status open_from_map(mica__safetensors *file, const char *index_path, bool use_map,
                                 const mica__json *map)
{
    mica__map *files;
    const char **names = NULL;
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &files));
    mica_status status = list_files(map, files, &names);
    if (status == MICA_OK)
        status = open_listed(file, index_path, use_map, names, mica__map_count(files));
    if (status == MICA_OK)
        status = join_tensors(file);
    if (status == MICA_OK)
        status = check_index(file, map, files);
    mica__free(names);
    mica__map_free(files);
    return status;
}

static mica_status open_index(mica__safetensors *file, const char *path, bool use_map)
{
    mica__json_doc *doc;
    MICA_TRY(mica__json_read(path, MAX_INDEX, &doc));
    const mica__json *map = mica__json_get(mica__json_root(doc), "weight_map");
    mica_status status;
    if (!map || map->type != MICA__JSON_OBJECT)
        status = mica__fail(MICA_E_FORMAT, "%s: no object \"weight_map\"", path);
    else {
        status = open_from_map(file, path, use_map, map);
        if (status != MICA_OK)
            status = mica__fail_at(status, "%s", path);
    }
    mica__json_free(doc);
    return status;
}

/* --- the interface ---------------------------------------------------------------------------- */

static bool names_index(const char *path)
{
    static const char ending[] = ".index.json";
    const size_t length = strlen(path);
    return length >= sizeof ending - 1 && strcmp(path + length - (sizeof ending - 1), ending) == 0;
}

mica_status mica__safetensors_open(const char *path, bool use_map, mica__safetensors **file)
{
    *file = NULL;
    mica__safetensors *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    const mica_status status =
        names_index(path) ? open_index(opened, path, use_map) : open_single(opened, path, use_map);
    if (status != MICA_OK) {
        mica__safetensors_close(opened);
        return status;
    }
    *file = opened;
    return MICA_OK;
}

static mica_status open_bytes(mica__safetensors *file, const uint8_t *bytes, size_t n)
{
    if (n > INT64_MAX)
        MICA_FAIL(MICA_E_ARGUMENT, "more bytes than a file can have");
    MICA_TRY(make_shards(file, 1));
    MICA_TRY(mica__st_part_parse(bytes, (int64_t)n, &file->shards[0].part));
    take_only_shard(file);
    return MICA_OK;
}

mica_status mica__safetensors_open_memory(const uint8_t *bytes, size_t n, mica__safetensors **file)
{
    *file = NULL;
    mica__safetensors *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    const mica_status status = open_bytes(opened, bytes, n);
    if (status != MICA_OK) {
        mica__safetensors_close(opened);
        return status;
    }
    *file = opened;
    return MICA_OK;
}

void mica__safetensors_close(mica__safetensors *file)
{
    if (!file)
        return;
    if (file->joined)
        mica__free(file->tensors);
    mica__map_free(file->names);
    for (int i = 0; i < file->n_shards; i++) {
        mica__st_part_free(&file->shards[i].part);
        mica__file_close(file->shards[i].file);
        mica__free(file->shards[i].path);
    }
    mica__free(file->shards);
    mica__free(file);
}

int64_t mica__safetensors_file_bytes(const mica__safetensors *file)
{
    int64_t bytes = 0;
    for (int i = 0; i < file->n_shards; i++)
        bytes += file->shards[i].file ? (int64_t)mica__file_size(file->shards[i].file) : 0;
    return bytes;
}

int64_t mica__safetensors_n_tensors(const mica__safetensors *file)
{
    return file->n_tensors;
}

const mica__st_tensor *mica__safetensors_tensor_at(const mica__safetensors *file, int64_t i)
{
    return &file->tensors[i];
}

const mica__st_tensor *mica__safetensors_find(const mica__safetensors *file, const char *name)
{
    const mica__map *names = file->joined ? file->names : file->shards[0].part.names;
    int64_t i;
    return mica__map_find(names, name, strlen(name), &i) ? &file->tensors[i] : NULL;
}

const char *mica__safetensors_metadata(const mica__safetensors *file, const char *key)
{
    const mica__st_part *part = &file->shards[0].part;
    int64_t i;
    return mica__map_find(part->metadata_keys, key, strlen(key), &i) ? part->metadata[i].value
                                                                     : NULL;
}

int64_t mica__safetensors_n_metadata(const mica__safetensors *file)
{
    return file->shards[0].part.n_metadata;
}

void mica__safetensors_metadata_at(const mica__safetensors *file, int64_t i, const char **key,
                                   const char **value)
{
    *key = file->shards[0].part.metadata[i].key;
    *value = file->shards[0].part.metadata[i].value;
}

int mica__safetensors_n_shards(const mica__safetensors *file)
{
    return file->n_shards;
}

const char *mica__safetensors_path(const mica__safetensors *file, int index)
{
    return file->shards[index].path ? file->shards[index].path : "(memory)";
}
