/* safetensors_reader.c - the header is read, parsed and forgotten; data is read where it stands.
 * SPDX-License-Identifier: MIT
 */
#include "io/safetensors_reader.h"

#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "io/safetensors_part.h"

struct mica__st_reader {
    mica__file_reader *file;
    mica__st_part part;
};

static mica_status read_header(mica__st_reader *reader, int64_t max_header)
{
    uint8_t size[8] = {0};
    const int64_t file_bytes = mica__file_reader_size(reader->file);
    if (file_bytes < 8)
        return mica__st_part_parse_header(size, 0, 0, &reader->part); /* says what is wrong */
    MICA_TRY(mica__file_read_at(reader->file, 0, size, sizeof size));
    const uint64_t length = mica__load_u64(size);
    if (length > (uint64_t)max_header || (int64_t)length > file_bytes - 8)
        MICA_FAIL(MICA_E_FORMAT,
                  "no safetensors file of this kind: a header of %llu bytes in a file of %lld (at "
                  "most %lld are allowed)",
                  (unsigned long long)length, (long long)file_bytes, (long long)max_header);
    const int64_t n = 8 + (int64_t)length;
    uint8_t *bytes = mica__alloc(MICA_MEMORY_OTHER, (size_t)n);
    if (!bytes)
        return MICA_E_MEMORY;
    mica_status status = mica__file_read_at(reader->file, 0, bytes, (size_t)n);
    mica__store_u64(bytes, length); /* what was checked, should the file have changed */
    if (status == MICA_OK)
        status = mica__st_part_parse_header(bytes, n, file_bytes, &reader->part);
    mica__free(bytes);
    return status;
}

mica_status mica__st_reader_open(const char *path, int64_t max_header, mica__st_reader **reader)
{
    *reader = NULL;
    mica__st_reader *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    mica_status status = mica__file_reader_open(path, &opened->file);
    if (status == MICA_OK)
        status = read_header(opened, max_header);
    if (status != MICA_OK) {
        mica__st_reader_close(opened);
        return status;
    }
    *reader = opened;
    return MICA_OK;
}

void mica__st_reader_close(mica__st_reader *reader)
{
    if (!reader)
        return;
    mica__st_part_free(&reader->part);
    mica__file_reader_close(reader->file);
    mica__free(reader);
}

int64_t mica__st_reader_n_tensors(const mica__st_reader *reader)
{
    return reader->part.n_tensors;
}

const mica__st_tensor *mica__st_reader_find(const mica__st_reader *reader, const char *name)
{
    int64_t i;
    return mica__map_find(reader->part.names, name, strlen(name), &i) ? &reader->part.tensors[i]
                                                                      : NULL;
}

const char *mica__st_reader_metadata(const mica__st_reader *reader, const char *key)
{
    int64_t i;
    return mica__map_find(reader->part.metadata_keys, key, strlen(key), &i)
               ? reader->part.metadata[i].value
               : NULL;
}

mica_status mica__st_reader_read(const mica__st_reader *reader, const mica__st_tensor *tensor,
                                 int64_t first, void *bytes, int64_t n)
{
    if (first < 0 || n < 0 || first > tensor->bytes || n > tensor->bytes - first)
        MICA_FAIL(MICA_E_ARGUMENT, "bytes %lld to %lld are not in a tensor of %lld",
                  (long long)first, (long long)(first + n), (long long)tensor->bytes);
    return mica__file_read_at(reader->file, tensor->offset + first, bytes, (size_t)n);
}
