/* temp_dir.h - a directory of its own for a test, removed with all its contents.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_TEMP_DIR_H
#define MICA_TESTS_TEMP_DIR_H

#include <stddef.h>

/* Makes a new empty directory; the path (no trailing slash) must be given to temp_dir_remove. */
char *temp_dir_new(void);

/* Removes the directory with all that is in it and frees the path. */
void temp_dir_remove(char *dir);

/* dir/relative; static buffer, valid until the next call. */
const char *temp_path(const char *dir, const char *relative);

/* Writes a file (and the directories above it) and returns its path as temp_path does. */
const char *temp_write(const char *dir, const char *relative, const void *bytes, size_t n);
const char *temp_write_text(const char *dir, const char *relative, const char *text);

/* Files and directories directly in dir. */
int temp_dir_entries(const char *dir);

#endif
