/* out_file.h - writing a file that is there whole or not at all.
 *
 * Bytes go to a new file beside the target; committing flushes it to the disk and renames it over
 * the target, so a reader never sees half a file and a failure leaves what was there before.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_OUT_FILE_H
#define MICA_IO_OUT_FILE_H

#include "base/fail.h"

typedef struct mica__out_file mica__out_file;

/* Creates the temporary file (permissions as for any new file). */
mica_status mica__out_open(const char *path, mica__out_file **file);

/* Appends bytes, or n zeros. After a failure every further call fails with MICA_E_STATE. */
mica_status mica__out_write(mica__out_file *file, const void *bytes, size_t n);
mica_status mica__out_zeros(mica__out_file *file, size_t n);

/* Bytes appended so far. */
int64_t mica__out_size(const mica__out_file *file);

/* Makes the target hold what was written; the object is freed whether it succeeds or not. */
mica_status mica__out_commit(mica__out_file *file);

/* Removes the temporary file and frees the object; NULL is ignored. */
void mica__out_discard(mica__out_file *file);

#endif
