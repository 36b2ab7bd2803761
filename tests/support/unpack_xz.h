/* unpack_xz.h - the packed files of the outside test data.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_UNPACK_XZ_H
#define MICA_TESTS_UNPACK_XZ_H

#include <stddef.h>

/* A whole file, unpacked when its name ends in .xz, with a NUL behind it; freed by free. NULL when
 * it cannot be read. */
char *read_or_unpack(const char *path, size_t *n);

#endif
