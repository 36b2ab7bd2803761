/* file_list.h - every file below a folder, for tests that take whatever lies in one.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_FILE_LIST_H
#define MICA_TESTS_FILE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise. */
typedef struct file_list {
    char root[4096]; /* the folder, absolute */
    char **paths;    /* [n] absolute, ascending */
    size_t n, capacity;
} file_list;

/* Lists regular files at every depth, links to files too, hidden ones not. False when the folder is
 * not there. */
bool file_list_below(const char *folder, file_list *list);
void file_list_free(file_list *list);

/* A path without the list's root. */
const char *file_list_relative(const file_list *list, const char *path);

/* Whether text ends with this. */
bool text_ends_with(const char *text, const char *end);

#endif
