/* safetensors.h - safetensors files, one or sharded by an index, mapped read-only and used in
 * place.
 *
 * Format (huggingface/safetensors): u64 header size; a JSON object, at most 100 MB, from tensor
 * name to {"dtype", "shape", "data_offsets": [begin, end]} and from "__metadata__" to an object of
 * strings; then the data, which the tensors cover exactly, without holes or overlaps. Offsets count
 * from the start of the data, so data stands at any alignment.
 *
 * A sharded model has an index file {"weight_map": {tensor: file}}. Opening checks everything;
 * afterwards any number of threads may read.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_SAFETENSORS_H
#define MICA_IO_SAFETENSORS_H

#include <mica/dtype.h>

#include "base/fail.h"

/* X(enumerator, name in the file, bytes of an element, dtype it loads as): the small floats load as
 * their bytes. */
#define MICA__ST_TYPES(X)                                                                          \
    X(MICA__ST_BOOL, "BOOL", 1, MICA_BOOL)                                                         \
    X(MICA__ST_U8, "U8", 1, MICA_U8)                                                               \
    X(MICA__ST_I8, "I8", 1, MICA_I8)                                                               \
    X(MICA__ST_F8_E5M2, "F8_E5M2", 1, MICA_U8)                                                     \
    X(MICA__ST_F8_E4M3, "F8_E4M3", 1, MICA_U8)                                                     \
    X(MICA__ST_F8_E8M0, "F8_E8M0", 1, MICA_U8)                                                     \
    X(MICA__ST_I16, "I16", 2, MICA_I16)                                                            \
    X(MICA__ST_U16, "U16", 2, MICA_U16)                                                            \
    X(MICA__ST_F16, "F16", 2, MICA_F16)                                                            \
    X(MICA__ST_BF16, "BF16", 2, MICA_BF16)                                                         \
    X(MICA__ST_I32, "I32", 4, MICA_I32)                                                            \
    X(MICA__ST_U32, "U32", 4, MICA_U32)                                                            \
    X(MICA__ST_F32, "F32", 4, MICA_F32)                                                            \
    X(MICA__ST_C64, "C64", 8, MICA_C64)                                                            \
    X(MICA__ST_F64, "F64", 8, MICA_F64)                                                            \
    X(MICA__ST_I64, "I64", 8, MICA_I64)                                                            \
    X(MICA__ST_U64, "U64", 8, MICA_U64)

typedef enum mica__st_type {
#define X(name, text, bytes, dtype) name,
    MICA__ST_TYPES(X)
#undef X
        MICA__N_ST_TYPES
} mica__st_type;

typedef struct mica__st_tensor {
    const char *name; /* UTF-8, NUL-terminated, holds no other NUL */
    mica__st_type type;
    int n_dims;                   /* 0 for a scalar */
    int64_t shape[MICA_MAX_DIMS]; /* outermost first; sizes may be 0 */
    const uint8_t *data;          /* in the map, any alignment; NULL from mica__st_reader */
    int64_t bytes;
    int64_t offset; /* of the data in its file */
    int shard;      /* which file, from 0 */
} mica__st_tensor;

typedef struct mica__safetensors mica__safetensors;

/* Opens a .safetensors file, or with a name that ends in ".index.json" all files that the index
 * names. The failure names file, tensor and what is wrong. use_map false reads into counted memory.
 */
mica_status mica__safetensors_open(const char *path, bool use_map, mica__safetensors **file);

/* One file over bytes that the caller keeps alive. */
mica_status mica__safetensors_open_memory(const uint8_t *bytes, size_t n, mica__safetensors **file);
void mica__safetensors_close(mica__safetensors *file);

int64_t mica__safetensors_n_tensors(const mica__safetensors *file);
const mica__st_tensor *mica__safetensors_tensor_at(const mica__safetensors *file, int64_t i);

/* The tensor of this name, NULL when there is none. */
const mica__st_tensor *mica__safetensors_find(const mica__safetensors *file, const char *name);

/* A string of __metadata__ (of a sharded model: of its first file), NULL when absent. */
const char *mica__safetensors_metadata(const mica__safetensors *file, const char *key);
int64_t mica__safetensors_n_metadata(const mica__safetensors *file);
void mica__safetensors_metadata_at(const mica__safetensors *file, int64_t i, const char **key,
                                   const char **value);

/* Bytes of all its files; none for bytes in memory. */
int64_t mica__safetensors_file_bytes(const mica__safetensors *file);

/* How many files there are, and the path of one ("(memory)" for bytes in memory). */
int mica__safetensors_n_shards(const mica__safetensors *file);
const char *mica__safetensors_path(const mica__safetensors *file, int shard);

/* Facts of a type: name in the file, bytes, the dtype it loads as. */
const char *mica__st_type_name(mica__st_type type);
int64_t mica__st_type_bytes(mica__st_type type);
mica_dtype mica__st_type_dtype(mica__st_type type);

/* The type of a name, MICA__N_ST_TYPES when unknown. */
mica__st_type mica__st_type_of(const char *name, size_t length);

#endif
