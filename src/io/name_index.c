/* name_index.c - sorted names.
 * SPDX-License-Identifier: MIT
 */
#include "io/name_index.h"

#include <string.h>

#include "base/alloc.h"

/* By length first: most names differ there. */
static int compare(const char *a, int64_t a_length, const char *b, int64_t b_length)
{
    if (a_length != b_length)
        return a_length < b_length ? -1 : 1;
    return a_length ? memcmp(a, b, (size_t)a_length) : 0;
}

static int compare_entries(const mica__name_entry *a, const mica__name_entry *b)
{
    return compare(a->bytes, a->length, b->bytes, b->length);
}

mica_status mica__name_add(mica__name_index *index, const char *bytes, int64_t length, int64_t item)
{
    MICA_TRY(mica__grow(MICA_MEMORY_OTHER, (void **)&index->entries, sizeof *index->entries,
                        index->n + 1, &index->capacity));
    index->entries[index->n++] = (mica__name_entry){.bytes = bytes, .length = length, .item = item};
    return MICA_OK;
}

/* Lets entries[root] sink until no child below `end` is larger. */
static void sink(mica__name_entry *entries, int64_t root, int64_t end)
{
    const mica__name_entry sinking = entries[root];
    for (;;) {
        int64_t child = 2 * root + 1;
        if (child >= end)
            break;
        if (child + 1 < end && compare_entries(&entries[child], &entries[child + 1]) < 0)
            child++;
        if (compare_entries(&sinking, &entries[child]) >= 0)
            break;
        entries[root] = entries[child];
        root = child;
    }
    entries[root] = sinking;
}

const mica__name_entry *mica__name_sort(mica__name_index *index)
{
    mica__name_entry *entries = index->entries;
    for (int64_t root = index->n / 2 - 1; root >= 0; root--)
        sink(entries, root, index->n);
    for (int64_t end = index->n - 1; end > 0; end--) {
        const mica__name_entry largest = entries[0];
        entries[0] = entries[end];
        entries[end] = largest;
        sink(entries, 0, end);
    }
    for (int64_t i = 1; i < index->n; i++)
        if (compare_entries(&entries[i - 1], &entries[i]) == 0)
            return &entries[i];
    return NULL;
}

int64_t mica__name_find(const mica__name_index *index, const char *bytes, int64_t length)
{
    int64_t low = 0, high = index->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const mica__name_entry *entry = &index->entries[middle];
        const int order = compare(bytes, length, entry->bytes, entry->length);
        if (order == 0)
            return entry->item;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

void mica__name_free(mica__name_index *index)
{
    mica__free(index->entries);
    *index = (mica__name_index){0};
}

const char *mica__shown(char buffer[MICA__SHOWN_BYTES], const char *bytes, int64_t length)
{
    const int64_t shown = length < MICA__SHOWN_BYTES - 1 ? length : MICA__SHOWN_BYTES - 1;
    for (int64_t i = 0; i < shown; i++)
        buffer[i] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? bytes[i] : '?';
    buffer[shown] = '\0';
    return buffer;
}
