/* io.h - files of tensors: looking into models without running them, writing safetensors.
 *
 * A model file is opened with every check that using it would make, whatever its architecture is.
 * After opening nothing changes: any number of threads may read.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_H
#define MICA_IO_H

#include <mica/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- looking into files ----------------------------------------------------------------------- */

typedef struct mica_file mica_file;

/* Opens what holds a model's tensors: a folder with safetensors, a .safetensors file, an index of
 * shards, or a .gguf file (any part of a split one). no_mmap reads it into counted memory instead
 * of mapping it. *file is owned by the caller: mica_file_close. MICA_E_FORMAT names file, tensor or
 * key and byte offset of what is wrong, MICA_E_UNSUPPORTED what the file is instead of a model. */
MICA_API mica_status mica_file_open(const char *path, bool no_mmap, mica_file **file);

/* NULL is ignored. */
MICA_API void mica_file_close(mica_file *file);

/* "GGUF" or "safetensors", static; and the GGUF version, 0 for safetensors. */
MICA_API const char *mica_file_format(const mica_file *file);
MICA_API int mica_file_version(const mica_file *file);

/* The files that it is made of: how many, and the path of one (NULL outside). */
MICA_API int mica_file_n_parts(const mica_file *file);
MICA_API const char *mica_file_part(const mica_file *file, int part);

/* The folder in which the model's other files would be. */
MICA_API const char *mica_file_folder(const mica_file *file);

typedef enum mica_file_kind {
    MICA_FILE_INTEGER,
    MICA_FILE_REAL,
    MICA_FILE_BOOL,
    MICA_FILE_STRING
} mica_file_kind;

/* A key of a file's metadata. Text is owned by the file. */
typedef struct mica_file_key {
    const char *name; /* UTF-8, name_length bytes, no NUL behind them */
    int64_t name_length;
    const char *type; /* "u32", "string"; of an array, its elements' */
    mica_file_kind kind;
    bool is_array;
    int64_t n; /* elements; 1 for a single value */
} mica_file_key;

/* One value, or one element of an array. */
typedef struct mica_file_value {
    mica_file_kind kind;
    int64_t integer; /* INTEGER, BOOL */
    double real;     /* REAL, INTEGER; unsigned integers beyond int64 are REAL */
    const char *string;
    int64_t length; /* of string, which has no NUL behind it */
} mica_file_value;

/* How many keys there are, one of them in file order, and the index of a name (-1: none). i must be
 * in range. */
MICA_API int64_t mica_file_n_keys(const mica_file *file);
MICA_API mica_file_key mica_file_key_at(const mica_file *file, int64_t i);
MICA_API int64_t mica_file_find_key(const mica_file *file, const char *name);

/* Elements [first, first + n) of a key. MICA_E_ARGUMENT outside the key. */
MICA_API mica_status mica_file_read_key(const mica_file *file, int64_t key, int64_t first,
                                        int64_t n, mica_file_value *values);

/* A stored tensor. Text is owned by the file. */
typedef struct mica_file_tensor {
    const char *name; /* NUL-terminated */
    const char *type; /* as the file calls it: "BF16", "Q4_K" */
    int n_dims;
    int64_t shape[MICA_MAX_DIMS]; /* outermost first, in values */
    int64_t n_values;
    int64_t bytes;
    int part;       /* which file, and */
    int64_t offset; /* where in it the data begins */
} mica_file_tensor;

/* How many tensors there are, one of them in file order, and the index of a name (-1: none). i must
 * be in range. */
MICA_API int64_t mica_file_n_tensors(const mica_file *file);
MICA_API mica_file_tensor mica_file_tensor_at(const mica_file *file, int64_t i);
MICA_API int64_t mica_file_find_tensor(const mica_file *file, const char *name);

/* Values [first, first + n) of a tensor, row-major, dequantised with one rounding to float each
 * (types wider than float: exact, but for integers beyond 2^53). MICA_E_UNSUPPORTED for types
 * without a decoder; MICA_E_ARGUMENT outside the tensor. */
MICA_API mica_status mica_file_read_tensor(const mica_file *file, int64_t tensor, int64_t first,
                                           int64_t n, double *values);

/* Whether every scale of a quantised tensor, or every value of a float one, is finite.
 * MICA_E_FORMAT names the tensor and the first place that is not. Other types pass. */
MICA_API mica_status mica_file_check_tensor(const mica_file *file, int64_t tensor);

/* --- writing safetensors ---------------------------------------------------------------------- */

/* Declarations of all tensors first, then their data in the same order, in pieces of any size. The
 * file appears under its name when it is finished, whole or not at all. */
typedef struct mica__st_writer mica_tensor_writer;

/* *writer is ended by mica_tensor_writer_finish or mica_tensor_writer_discard. */
MICA_API mica_status mica_tensor_writer_open(const char *path, mica_tensor_writer **writer);

/* A string of the file's metadata, before the first tensor. */
MICA_API mica_status mica_tensor_writer_metadata(mica_tensor_writer *writer, const char *key,
                                                 const char *value);

/* A tensor: name in UTF-8, n_dims sizes >= 0. */
MICA_API mica_status mica_tensor_writer_declare(mica_tensor_writer *writer, const char *name,
                                                mica_dtype dtype, int n_dims, const int64_t *shape);

/* The next n bytes of data, which may end one tensor and begin the next. */
MICA_API mica_status mica_tensor_writer_write(mica_tensor_writer *writer, const void *bytes,
                                              int64_t n);

/* Puts the file in place, or fails and leaves what was there. Frees the writer either way. */
MICA_API mica_status mica_tensor_writer_finish(mica_tensor_writer *writer);

/* Leaves no file behind and frees the writer; NULL is ignored. */
MICA_API void mica_tensor_writer_discard(mica_tensor_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
