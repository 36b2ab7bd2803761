/* file_list.c - see file_list.h.
 * SPDX-License-Identifier: MIT
 */
#include "support/file_list.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DEPTH 32

static int ascending(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void append(file_list *list, const char *path)
{
    if (list->n == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->paths = realloc(list->paths, list->capacity * sizeof *list->paths);
        if (!list->paths)
            abort();
    }
    list->paths[list->n++] = strdup(path);
}

static void walk(file_list *list, const char *folder, int depth)
{
    DIR *dir = depth < MAX_DEPTH ? opendir(folder) : NULL;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[4096];
        struct stat about;
        const int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || n >= (int)sizeof path || lstat(path, &about) != 0)
            continue;
        if (S_ISDIR(about.st_mode))
            walk(list, path, depth + 1);
        else if (stat(path, &about) == 0 && S_ISREG(about.st_mode))
            append(list, path);
    }
    if (dir)
        closedir(dir);
}

bool file_list_below(const char *folder, file_list *list)
{
    struct stat about;
    if (!realpath(folder, list->root) || stat(list->root, &about) != 0 || !S_ISDIR(about.st_mode))
        return false;
    walk(list, list->root, 0);
    if (list->n)
        qsort(list->paths, list->n, sizeof *list->paths, ascending);
    return true;
}

void file_list_free(file_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (file_list){0};
}

const char *file_list_relative(const file_list *list, const char *path)
{
    const size_t n = strlen(list->root);
    return strncmp(path, list->root, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

bool text_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}
