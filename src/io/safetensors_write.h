/* safetensors_write.h - writing a safetensors file as a stream.
 *
 * Metadata and the declarations of all tensors first, then their data in the order of the
 * declarations, in pieces of any size; finishing puts the file in place. The header is padded with
 * spaces so that the data starts at a multiple of 8. The order is checked (MICA_E_STATE), so is
 * everything that mica__safetensors_open would refuse. After a failed call only discarding is
 * useful.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_SAFETENSORS_WRITE_H
#define MICA_IO_SAFETENSORS_WRITE_H

#include "io/safetensors.h"

typedef struct mica__st_writer mica__st_writer;

mica_status mica__st_writer_open(const char *path, mica__st_writer **writer);

/* A string of __metadata__, before the first tensor. */
mica_status mica__st_put_metadata(mica__st_writer *writer, const char *key, const char *value);

/* Declares a tensor: name in valid UTF-8, shape outermost first, at most MICA_MAX_DIMS sizes >= 0.
 */
mica_status mica__st_declare(mica__st_writer *writer, const char *name, mica__st_type type,
                             int n_dims, const int64_t *shape);

/* The next n bytes of tensor data; may end one tensor and begin the next. */
mica_status mica__st_write(mica__st_writer *writer, const void *bytes, int64_t n);

/* Completes the file and frees the writer, also on failure. All data must be there. */
mica_status mica__st_writer_finish(mica__st_writer *writer);

/* Leaves no file behind and frees the writer; NULL is ignored. */
void mica__st_writer_discard(mica__st_writer *writer);

#endif
