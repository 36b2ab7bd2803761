/* gguf.h - GGUF files, versions 2 and 3, one or split, mapped read-only and used in place.
 *
 * Opening checks everything against the file: counts, lengths, types, duplicate names, alignment,
 * overlaps, bounds. After that no accessor can read outside the map. Nothing is copied but the
 * index. Format: the GGUF specification (ggml).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_GGUF_H
#define MICA_IO_GGUF_H

#include "base/fail.h"
#include "core/block_format.h"

typedef struct mica__gguf mica__gguf;

/* Value types as in the file. */
typedef enum mica__gguf_type {
    MICA__GGUF_U8 = 0,
    MICA__GGUF_I8 = 1,
    MICA__GGUF_U16 = 2,
    MICA__GGUF_I16 = 3,
    MICA__GGUF_U32 = 4,
    MICA__GGUF_I32 = 5,
    MICA__GGUF_F32 = 6,
    MICA__GGUF_BOOL = 7,
    MICA__GGUF_STRING = 8,
    MICA__GGUF_ARRAY = 9,
    MICA__GGUF_U64 = 10,
    MICA__GGUF_I64 = 11,
    MICA__GGUF_F64 = 12
} mica__gguf_type;

/* Bytes inside the map; no NUL behind them. */
typedef struct mica__gguf_string {
    const char *bytes;
    int64_t length;
} mica__gguf_string;

typedef struct mica__gguf_value {
    mica__gguf_string key;
    mica__gguf_type type;         /* ARRAY: see element_type */
    mica__gguf_type element_type; /* of an array */
    int64_t n;                    /* elements of an array, else 1 */
    const uint8_t *data;          /* the raw value or first element, any alignment */
    int64_t bytes;                /* of the value, or of all elements with their lengths */
} mica__gguf_value;

typedef struct mica__gguf_tensor {
    mica__gguf_string name;
    mica__block_format format;
    int n_dims;
    int64_t shape[4];    /* outermost first (the reverse of the file's order) */
    const uint8_t *data; /* in the map, any alignment */
    int64_t bytes;
    int shard; /* which file of a split model, from 0 */
} mica__gguf_tensor;

/* Opens a file; with a name like x-00001-of-00003.gguf (or a file that holds split.count) all its
 * parts. use_map false reads the file into counted memory instead. The failure names path, key or
 * tensor, and byte offset. */
mica_status mica__gguf_open(const char *path, bool use_map, mica__gguf **gguf);

/* The same over bytes that the caller keeps alive (tests, fuzzers); one part of a split model is
 * refused. */
mica_status mica__gguf_open_memory(const uint8_t *bytes, size_t n, mica__gguf **gguf);
void mica__gguf_close(mica__gguf *gguf);

int mica__gguf_version(const mica__gguf *gguf);

/* How many files the model has, and the path of one ("(memory)" for bytes in memory). */
int mica__gguf_n_shards(const mica__gguf *gguf);
const char *mica__gguf_path(const mica__gguf *gguf, int shard);

/* Bytes of all its files. */
int64_t mica__gguf_file_bytes(const mica__gguf *gguf);

/* Where a tensor's data stands, in bytes from the start of its file. */
int64_t mica__gguf_offset(const mica__gguf *gguf, const mica__gguf_tensor *tensor);

/* The keys of a split model are those of its first file. */
int64_t mica__gguf_n_values(const mica__gguf *gguf);
const mica__gguf_value *mica__gguf_value_at(const mica__gguf *gguf, int64_t i); /* file order */
const mica__gguf_value *mica__gguf_find(const mica__gguf *gguf,
                                        const char *key); /* NULL when absent */

int64_t mica__gguf_n_tensors(const mica__gguf *gguf);
const mica__gguf_tensor *mica__gguf_tensor_at(const mica__gguf *gguf, int64_t i);
const mica__gguf_tensor *mica__gguf_find_tensor(const mica__gguf *gguf, const char *name);

/* Typed reads of a scalar key: MICA_E_NOT_FOUND when absent, MICA_E_FORMAT when the type or range
 * does not fit (any integer type is accepted for an integer, f32 and f64 and integers for a real).
 */
mica_status mica__gguf_get_i64(const mica__gguf *gguf, const char *key, int64_t *value);
mica_status mica__gguf_get_f64(const mica__gguf *gguf, const char *key, double *value);
mica_status mica__gguf_get_bool(const mica__gguf *gguf, const char *key, bool *value);
mica_status mica__gguf_get_string(const mica__gguf *gguf, const char *key,
                                  mica__gguf_string *value);

/* Elements of an array value; MICA_E_FORMAT when the type or range does not fit, or i is not below
 * n. Truth values are integers 0 and 1 here.
 * Strings: walk with mica__gguf_strings_next from *at = 0; false at the
 * end. */
mica_status mica__gguf_element_i64(const mica__gguf_value *array, int64_t i, int64_t *value);
mica_status mica__gguf_element_f64(const mica__gguf_value *array, int64_t i, double *value);
bool mica__gguf_strings_next(const mica__gguf_value *array, int64_t *at, mica__gguf_string *value);

#endif
