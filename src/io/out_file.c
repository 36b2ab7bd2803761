/* out_file.c - a buffered temporary file beside its target.
 * SPDX-License-Identifier: MIT
 */
#include "io/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text_buffer.h"

#define BUFFER_BYTES ((size_t)1 << 16)
#define TRIES        100

struct mica__out_file {
    char *path;
    char *temporary;
    uint8_t *buffer; /* [BUFFER_BYTES] */
    size_t buffered;
    int64_t size; /* appended, buffered included */
    int fd;       /* -1: none */
    bool failed;
};

static mica_status io_failure(const mica__out_file *file, const char *what)
{
    MICA_FAIL(MICA_E_IO, "%s: %s: %s", file->path, what, strerror(errno));
}

/* "<path>.<process>-<count>.part": unique among this machine's running processes, so a left-over of
 * a crashed one is at worst skipped. */
static mica_status create_temporary(mica__out_file *file)
{
    static _Atomic unsigned counter;
    for (int i = 0; i < TRIES; i++) {
        mica__text name = {.kind = MICA_MEMORY_OTHER};
        mica__text_format(&name, "%s.%ld-%u.part", file->path, (long)getpid(),
                          atomic_fetch_add(&counter, 1));
        file->temporary = mica__text_take(&name);
        if (!file->temporary)
            return MICA_E_MEMORY;
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0)
            return MICA_OK;
        mica__free(file->temporary);
        file->temporary = NULL;
        if (errno != EEXIST)
            break;
    }
    return io_failure(file, "cannot create a file beside it");
}

static mica_status open_out(const char *path, mica__out_file *file)
{
    file->path = mica__strndup(MICA_MEMORY_OTHER, path, strlen(path));
    file->buffer = mica__alloc(MICA_MEMORY_OTHER, BUFFER_BYTES);
    if (!file->path || !file->buffer)
        return MICA_E_MEMORY;
    return create_temporary(file);
}

mica_status mica__out_open(const char *path, mica__out_file **file)
{
    *file = NULL;
    mica__out_file *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    opened->fd = -1;
    const mica_status status = open_out(path, opened);
    if (status != MICA_OK) {
        mica__out_discard(opened);
        return status;
    }
    *file = opened;
    return MICA_OK;
}

static mica_status write_all(mica__out_file *file, const uint8_t *bytes, size_t n)
{
    while (n) {
        const ssize_t written = write(file->fd, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            file->failed = true;
            return io_failure(file, "cannot write");
        }
        bytes += written;
        n -= (size_t)written;
    }
    return MICA_OK;
}

static mica_status flush(mica__out_file *file)
{
    const size_t n = file->buffered;
    file->buffered = 0;
    return write_all(file, file->buffer, n);
}

static mica_status check_usable(const mica__out_file *file)
{
    if (file->failed)
        MICA_FAIL(MICA_E_STATE, "%s: an earlier write failed", file->path);
    return MICA_OK;
}

mica_status mica__out_write(mica__out_file *file, const void *bytes, size_t n)
{
    MICA_TRY(check_usable(file));
    file->size += (int64_t)n;
    if (n > BUFFER_BYTES - file->buffered)
        MICA_TRY(flush(file));
    if (n >= BUFFER_BYTES)
        return write_all(file, bytes, n);
    if (n)
        memcpy(file->buffer + file->buffered, bytes, n);
    file->buffered += n;
    return MICA_OK;
}

mica_status mica__out_zeros(mica__out_file *file, size_t n)
{
    static const uint8_t zeros[4096];
    while (n) {
        const size_t some = n < sizeof zeros ? n : sizeof zeros;
        MICA_TRY(mica__out_write(file, zeros, some));
        n -= some;
    }
    return MICA_OK;
}

int64_t mica__out_size(const mica__out_file *file)
{
    return file->size;
}

/* The folder too must reach the disk for the new name to last; file systems that cannot do that for
 * folders say so, and then the rename is all there is. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash && (size_t)(slash - path) + 2 > sizeof folder)
        return;
    if (slash) {
        const size_t length = slash == path ? 1 : (size_t)(slash - path);
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

static mica_status commit(mica__out_file *file)
{
    MICA_TRY(check_usable(file));
    MICA_TRY(flush(file));
    if (fsync(file->fd) != 0)
        return io_failure(file, "cannot flush to disk");
    const int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0)
        return io_failure(file, "cannot close");
    if (rename(file->temporary, file->path) != 0)
        return io_failure(file, "cannot rename the finished file");
    mica__free(file->temporary);
    file->temporary = NULL;
    sync_folder(file->path);
    return MICA_OK;
}

mica_status mica__out_commit(mica__out_file *file)
{
    const mica_status status = commit(file);
    mica__out_discard(file);
    return status;
}

void mica__out_discard(mica__out_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->temporary)
        unlink(file->temporary);
    mica__free(file->temporary);
    mica__free(file->path);
    mica__free(file->buffer);
    mica__free(file);
}
