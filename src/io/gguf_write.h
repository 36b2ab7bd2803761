/* gguf_write.h - writing GGUF files (version 3) as a stream.
 *
 * Keys first, then the declarations of all tensors, then their data in the order of the
 * declarations, in pieces of any size; finishing puts the file in place. The order is checked
 * (MICA_E_STATE), so is everything that mica__gguf_open would refuse. After a failed call only
 * discarding is useful.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_GGUF_WRITE_H
#define MICA_IO_GGUF_WRITE_H

#include "io/gguf.h"

typedef struct mica__gguf_writer mica__gguf_writer;

/* alignment: 0 for the format's default of 32, else a power of two of at most 65536, which is
 * written as the key general.alignment. */
mica_status mica__gguf_writer_open(const char *path, int64_t alignment, mica__gguf_writer **writer);

/* Scalar keys of the given type: integers U8 to I64 (but U64 above INT64_MAX), reals F32 and F64;
 * MICA_E_ARGUMENT when the value does not fit the type. */
mica_status mica__gguf_put_integer(mica__gguf_writer *writer, const char *key, mica__gguf_type type,
                                   int64_t value);
mica_status mica__gguf_put_real(mica__gguf_writer *writer, const char *key, mica__gguf_type type,
                                double value);
mica_status mica__gguf_put_bool(mica__gguf_writer *writer, const char *key, bool value);
mica_status mica__gguf_put_string(mica__gguf_writer *writer, const char *key, const char *bytes,
                                  int64_t length);

/* An array of n elements of a numeric type or BOOL, packed as in memory (bool: one byte each). */
mica_status mica__gguf_put_array(mica__gguf_writer *writer, const char *key, mica__gguf_type type,
                                 const void *elements, int64_t n);
mica_status mica__gguf_put_strings(mica__gguf_writer *writer, const char *key,
                                   const mica__gguf_string *strings, int64_t n);

/* A key as another file has it, whatever its type (but general.alignment, which opening writes). */
mica_status mica__gguf_put_value(mica__gguf_writer *writer, const mica__gguf_value *value);

/* Declares a tensor: shape outermost first, 1 to 4 positive sizes; rows divide into blocks. */
mica_status mica__gguf_declare(mica__gguf_writer *writer, const char *name,
                               mica__block_format format, int n_dims, const int64_t *shape);

/* The next n bytes of tensor data; may end one tensor and begin the next. */
mica_status mica__gguf_write(mica__gguf_writer *writer, const void *bytes, int64_t n);

/* Completes the file and frees the writer, also on failure. Every tensor must have all its data. */
mica_status mica__gguf_writer_finish(mica__gguf_writer *writer);

/* Leaves no file behind and frees the writer; NULL is ignored. */
void mica__gguf_writer_discard(mica__gguf_writer *writer);

#endif
