/* gguf_part.h - one GGUF file, parsed and checked; gguf.c joins the parts of a split model.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_GGUF_PART_H
#define MICA_IO_GGUF_PART_H

#include "base/hash_map.h"
#include "io/gguf.h"

typedef struct mica__gguf_part {
    const uint8_t *bytes;
    int64_t n_bytes;
    int version;
    int64_t alignment;
    int64_t data_start;       /* where the tensor data begins, from the start of the file */
    mica__gguf_value *values; /* file order */
    int64_t n_values;
    mica__map *keys;            /* to the index in values */
    mica__gguf_tensor *tensors; /* file order */
    int64_t n_tensors;
    mica__map *names; /* to the index in tensors */
} mica__gguf_part;

/* Parses bytes[0, n), which must outlive the part. On failure the part is empty and needs no
 * freeing; the message names byte offset, key or tensor, not the file. */
mica_status mica__gguf_part_parse(const uint8_t *bytes, int64_t n, mica__gguf_part *part);

/* The same for a file's beginning: its keys only, no tensors. */
mica_status mica__gguf_part_parse_keys(const uint8_t *bytes, int64_t n, mica__gguf_part *part);
void mica__gguf_part_free(mica__gguf_part *part);

/* Bytes of a scalar type; 0 for strings, arrays and unknown types. */
int mica__gguf_scalar_bytes(uint32_t type);

const mica__gguf_value *mica__gguf_part_find(const mica__gguf_part *part, const char *key);

#endif
