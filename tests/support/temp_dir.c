/* temp_dir.c - a directory of its own for a test, removed with all its contents.
 * SPDX-License-Identifier: MIT
 */
#include "support/temp_dir.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void stop(const char *what, const char *path)
{
    fprintf(stderr, "temp_dir: %s %s: %s\n", what, path, strerror(errno));
    abort();
}

char *temp_dir_new(void)
{
    const char *base = getenv("TMPDIR");
    char path[2048];
    snprintf(path, sizeof path, "%s/mica-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path))
        stop("cannot make", path);
    return strdup(path);
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *at)
{
    (void)stat, (void)type, (void)at;
    return remove(path);
}

void temp_dir_remove(char *dir)
{
    if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        stop("cannot remove", dir);
    free(dir);
}

const char *temp_path(const char *dir, const char *relative)
{
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", dir, relative);
    return path;
}

const char *temp_write(const char *dir, const char *relative, const void *bytes, size_t n)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", dir, relative);
    for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            stop("cannot make", path);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0)
        stop("cannot write", path);
    return temp_path(dir, relative);
}

const char *temp_write_text(const char *dir, const char *relative, const char *text)
{
    return temp_write(dir, relative, text, strlen(text));
}

int temp_dir_entries(const char *dir)
{
    DIR *handle = opendir(dir);
    if (!handle)
        stop("cannot list", dir);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(handle));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(handle);
    return n;
}
