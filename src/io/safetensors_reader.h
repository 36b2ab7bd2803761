/* safetensors_reader.h - one safetensors file read piece by piece: only its header is ever in
 * memory.
 *
 * For files of data that goes somewhere else (keys and values into their pool), where a map or a
 * copy would count a second time against the memory limit. Everything about the header is checked
 * as in safetensors.h.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_SAFETENSORS_READER_H
#define MICA_IO_SAFETENSORS_READER_H

#include "io/safetensors.h"

typedef struct mica__st_reader mica__st_reader;

/* Opens a file whose header has at most max_header bytes. */
mica_status mica__st_reader_open(const char *path, int64_t max_header, mica__st_reader **reader);
void mica__st_reader_close(mica__st_reader *reader); /* NULL is ignored */

int64_t mica__st_reader_n_tensors(const mica__st_reader *reader);

/* The tensor of this name, NULL when there is none; its `data` is NULL. */
const mica__st_tensor *mica__st_reader_find(const mica__st_reader *reader, const char *name);

/* A string of __metadata__, NULL when absent. */
const char *mica__st_reader_metadata(const mica__st_reader *reader, const char *key);

/* Bytes [first, first + n) of a tensor; MICA_E_ARGUMENT outside of it. */
mica_status mica__st_reader_read(const mica__st_reader *reader, const mica__st_tensor *tensor,
                                 int64_t first, void *bytes, int64_t n);

#endif
