/* heap_sort.c - heap sort.
 * SPDX-License-Identifier: MIT
 */
#include "io/heap_sort.h"

#include <string.h>

typedef int (*comparison)(const void *, const void *);

/* Lets the item at root sink until no child below `end` is larger. */
static void sink(char *items, int64_t root, int64_t end, size_t size, comparison compare)
{
    char sinking[MICA__SORT_MAX_SIZE];
    memcpy(sinking, items + (size_t)root * size, size);
    for (;;) {
        int64_t child = 2 * root + 1;
        if (child >= end)
            break;
        if (child + 1 < end &&
            compare(items + (size_t)child * size, items + (size_t)(child + 1) * size) < 0)
            child++;
        if (compare(sinking, items + (size_t)child * size) >= 0)
            break;
        memcpy(items + (size_t)root * size, items + (size_t)child * size, size);
        root = child;
    }
    memcpy(items + (size_t)root * size, sinking, size);
}

void mica__heap_sort(void *items, int64_t n, size_t size, comparison compare)
{
    char *bytes = items;
    for (int64_t root = n / 2 - 1; root >= 0; root--)
        sink(bytes, root, n, size, compare);
    for (int64_t end = n - 1; end > 0; end--) {
        char largest[MICA__SORT_MAX_SIZE];
        memcpy(largest, bytes, size);
        memcpy(bytes, bytes + (size_t)end * size, size);
        memcpy(bytes + (size_t)end * size, largest, size);
        sink(bytes, 0, end, size, compare);
    }
}
