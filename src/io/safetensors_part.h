/* safetensors_part.h - one safetensors file, parsed and checked; safetensors.c joins shards.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_SAFETENSORS_PART_H
#define MICA_IO_SAFETENSORS_PART_H

#include "base/hash_map.h"
#include "base/text_buffer.h"
#include "io/safetensors.h"

typedef struct mica__st_metadata {
    const char *key;
    const char *value;
} mica__st_metadata;

typedef struct mica__st_part {
    mica__text strings;       /* names, metadata keys and values, each with a NUL behind it */
    mica__st_tensor *tensors; /* header order */
    int64_t n_tensors;
    mica__map *names;            /* to the index in tensors */
    mica__st_metadata *metadata; /* header order */
    int64_t n_metadata;
    mica__map *metadata_keys; /* to the index in metadata */
} mica__st_part;

/* Parses bytes[0, n), which must outlive the part. On failure the part is empty and needs no
 * freeing; the message does not name the file. */
mica_status mica__st_part_parse(const uint8_t *bytes, int64_t n, mica__st_part *part);

/* The same for the first n bytes of a file of file_bytes, which must hold the header; tensors get
 * no data. */
mica_status mica__st_part_parse_header(const uint8_t *bytes, int64_t n, int64_t file_bytes,
                                       mica__st_part *part);
void mica__st_part_free(mica__st_part *part);

#endif
