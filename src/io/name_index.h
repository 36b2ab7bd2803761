/* name_index.h - finding one name among many, and names that occur twice.
 *
 * Names come from files, so no input may make this slow: the entries are sorted (heap sort, always
 * n log n, no memory of its own) and searched by halves. Names are bytes with a length; they stay
 * where they are and must outlive the index. SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_NAME_INDEX_H
#define MICA_IO_NAME_INDEX_H

#include "base/fail.h"

typedef struct mica__name_entry {
    const char *bytes;
    int64_t length;
    int64_t item; /* what the name stands for, chosen by the caller */
} mica__name_entry;

/* Zero-initialise. */
typedef struct mica__name_index {
    mica__name_entry *entries;
    int64_t n;
    int64_t capacity;
} mica__name_index;

mica_status mica__name_add(mica__name_index *index, const char *bytes, int64_t length,
                           int64_t item);

/* Sorts after the last addition. NULL, or an entry whose name occurs more than once. */
const mica__name_entry *mica__name_sort(mica__name_index *index);

/* The item of a name in a sorted index, or -1. */
int64_t mica__name_find(const mica__name_index *index, const char *bytes, int64_t length);

void mica__name_free(mica__name_index *index);

/* A name from a file as it may stand in a message: at most 63 bytes, everything but printable ASCII
 * shown as '?'. Fills and returns `buffer`. */
#define MICA__SHOWN_BYTES 64
const char *mica__shown(char buffer[MICA__SHOWN_BYTES], const char *bytes, int64_t length);

#endif
