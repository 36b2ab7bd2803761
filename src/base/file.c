/* file.c - whole files: read-only views, atomic writing, paths.
 *
 * A view's size is the one that fstat gave after opening; all reading stays inside it. Files are
 * opened without blocking and checked to be regular, so that a FIFO or a terminal in a model's
 * folder cannot hang the program. Writing goes to a name that nobody else has (O_EXCL) in the same
 * directory, so that the final rename cannot cross file systems.
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct mica__file {
    const uint8_t *data;
    size_t size;
    bool mapped;
    uint8_t *owned; /* what was read, NULL for maps and empty files */
    char *path;
};

struct mica__file_reader {
    int fd;
    int64_t size;
    char *path;
};

struct mica__file_writer {
    int fd;
    int64_t written;
    char *target;    /* links resolved */
    char *directory; /* of the target */
    char *temporary;
};

#define IO_PIECE ((size_t)1 << 30) /* the system moves less than 2^31 bytes a call */

static _Alignas(64) const uint8_t empty_file[64];

/* --- opening ---------------------------------------------------------------------------------- */

static mica_status fail_errno(const char *what, const char *path)
{
    const int error = errno;
    const mica_status status = error == ENOENT || error == ENOTDIR ? MICA_E_NOT_FOUND
                               : error == ENOMEM                   ? MICA_E_MEMORY
                                                                   : MICA_E_IO;
    return mica__fail(status, "%s \"%.512s\": %s", what, path, strerrordesc_np(error));
}

static mica_status refuse_kind(const char *path, mode_t mode)
{
    const char *kind = S_ISDIR(mode)    ? "a directory"
                       : S_ISFIFO(mode) ? "a FIFO"
                       : S_ISSOCK(mode) ? "a socket"
                                        : "a device";
    return mica__fail(MICA_E_IO, "\"%.512s\" is %s, where a regular file is needed", path, kind);
}

static mica_status open_regular(const char *path, int *fd, struct stat *info)
{
    /* Looked at before it is opened, since opening a device can do things. */
    if (stat(path, info) != 0)
        return fail_errno("cannot open", path);
    if (!S_ISREG(info->st_mode))
        return refuse_kind(path, info->st_mode);
    do
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0)
        return fail_errno("cannot open", path);
    mica_status status = MICA_OK;
    if (fstat(*fd, info) != 0)
        status = fail_errno("cannot examine", path);
    else if (!S_ISREG(info->st_mode))
        status = refuse_kind(path, info->st_mode);
    else if (info->st_size < 0 || (uint64_t)info->st_size > SIZE_MAX / 2)
        status = mica__fail(MICA_E_IO, "\"%.512s\" has an impossible size", path);
    if (status != MICA_OK)
        close(*fd);
    return status;
}

static mica_status read_exactly(int fd, const char *path, int64_t offset, uint8_t *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        const size_t piece = n - done < IO_PIECE ? n - done : IO_PIECE;
        const ssize_t got = pread(fd, bytes + done, piece, (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno("cannot read", path);
        if (got == 0)
            MICA_FAIL(MICA_E_IO,
                      "\"%.512s\" ended after %zu of %zu bytes: it changed while it was "
                      "read",
                      path, done, n);
        done += (size_t)got;
    }
    return MICA_OK;
}

static mica_status read_view(mica__file *file, int fd)
{
    file->owned = mica__alloc(MICA_MEMORY_WEIGHTS, file->size);
    if (!file->owned)
        return mica__fail_at(MICA_E_MEMORY, "%.256s", file->path);
    file->data = file->owned;
    return read_exactly(fd, file->path, 0, file->owned, file->size);
}

static mica_status map_view(mica__file *file, int fd)
{
    const mica_status status = mica__memory_map((int64_t)file->size);
    if (status != MICA_OK)
        return mica__fail_at(status, "%.256s", file->path);
    void *data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        mica__memory_unmap((int64_t)file->size);
        return fail_errno("cannot map", file->path);
    }
    file->data = data;
    file->mapped = true;
    return MICA_OK;
}

mica_status mica__file_open(const char *path, bool use_map, mica__file **file)
{
    *file = NULL;
    mica__file *view = NULL;
    struct stat info;
    int fd;
    MICA_TRY(open_regular(path, &fd, &info));
    mica_status status = MICA_E_MEMORY;
    view = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *view);
    if (!view)
        goto out;
    view->data = empty_file;
    view->size = (size_t)info.st_size;
    view->path = mica__strndup(MICA_MEMORY_OTHER, path, strlen(path));
    if (!view->path)
        goto out;
    status = MICA_OK;
    if (view->size > 0)
        status = use_map ? map_view(view, fd) : read_view(view, fd);
out:
    close(fd);
    if (status == MICA_OK)
        *file = view;
    else
        mica__file_close(view);
    return status;
}

void mica__file_close(mica__file *file)
{
    if (!file)
        return;
    if (file->mapped) {
        munmap((void *)(uintptr_t)file->data, file->size);
        mica__memory_unmap((int64_t)file->size);
    }
    mica__free(file->owned);
    mica__free(file->path);
    mica__free(file);
}

const uint8_t *mica__file_data(const mica__file *file)
{
    return file->data;
}

size_t mica__file_size(const mica__file *file)
{
    return file->size;
}

bool mica__file_is_mapped(const mica__file *file)
{
    return file->mapped;
}

const char *mica__file_path(const mica__file *file)
{
    return file->path;
}

/* --- reading in pieces ------------------------------------------------------------------------ */

mica_status mica__file_reader_open(const char *path, mica__file_reader **reader)
{
    struct stat info;
    *reader = NULL;
    mica__file_reader *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    opened->fd = -1;
    opened->path = mica__strndup(MICA_MEMORY_OTHER, path, strlen(path));
    const mica_status status =
        opened->path ? open_regular(path, &opened->fd, &info) : MICA_E_MEMORY;
    if (status != MICA_OK) {
        opened->fd = -1;
        mica__file_reader_close(opened);
        return status;
    }
    opened->size = (int64_t)info.st_size;
    *reader = opened;
    return MICA_OK;
}

void mica__file_reader_close(mica__file_reader *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    mica__free(reader->path);
    mica__free(reader);
}

int64_t mica__file_reader_size(const mica__file_reader *reader)
{
    return reader->size;
}

mica_status mica__file_read_at(const mica__file_reader *reader, int64_t offset, void *bytes,
                               size_t n)
{
    int64_t end;
    if (offset < 0 || n > INT64_MAX || !mica__add_i64(offset, (int64_t)n, &end) ||
        end > reader->size)
        MICA_FAIL(MICA_E_IO, "\"%.512s\" has %lld bytes: %zu from %lld on are not there",
                  reader->path, (long long)reader->size, n, (long long)offset);
    return read_exactly(reader->fd, reader->path, offset, bytes, n);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Opens a new file beside the target, under a name that nobody has. */
static mica_status open_temporary(mica__file_writer *writer)
{
    static _Atomic uint32_t counter;
    for (int attempt = 0; attempt < 100; attempt++) {
        char name[64];
        snprintf(name, sizeof name, ".mica-%ld-%u-%llx", (long)getpid(),
                 (unsigned)atomic_fetch_add(&counter, 1), (unsigned long long)mica__clock_ns());
        writer->temporary = mica__path_join(writer->directory, name);
        if (!writer->temporary)
            return MICA_E_MEMORY;
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd >= 0)
            return MICA_OK;
        mica__free(writer->temporary);
        writer->temporary = NULL;
        if (errno != EEXIST && errno != EINTR)
            break;
    }
    return fail_errno("cannot create a file in", writer->directory);
}

/* Finds what path stands for: the file behind a link, itself otherwise. *mode gets an existing
 * file's permissions, or 0. */
static mica_status resolve_target(const char *path, char **target, mode_t *mode)
{
    char resolved[PATH_MAX];
    struct stat info;
    *mode = 0;
    if (!*path)
        MICA_FAIL(MICA_E_ARGUMENT, "an empty path names no file to write");
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        if (!realpath(path, resolved))
            return fail_errno("cannot follow the link", path);
        path = resolved;
    }
    if (stat(path, &info) == 0) {
        if (!S_ISREG(info.st_mode))
            return refuse_kind(path, info.st_mode);
        *mode = info.st_mode & 0777;
    }
    *target = mica__strndup(MICA_MEMORY_OTHER, path, strlen(path));
    return *target ? MICA_OK : MICA_E_MEMORY;
}

mica_status mica__file_create(const char *path, mica__file_writer **writer)
{
    *writer = NULL;
    mica_status status = MICA_OK;
    mode_t mode;
    mica__file_writer *w = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *w);
    if (!w)
        return MICA_E_MEMORY;
    w->fd = -1;
    MICA_TRY_OUT(resolve_target(path, &w->target, &mode));
    w->directory = mica__path_directory(w->target);
    status = w->directory ? open_temporary(w) : MICA_E_MEMORY;
    if (status == MICA_OK && mode && fchmod(w->fd, mode) != 0)
        status = fail_errno("cannot keep the permissions of", w->target);
out:
    if (status == MICA_OK)
        *writer = w;
    else
        mica__file_abandon(w);
    return status;
}

mica_status mica__file_write(mica__file_writer *writer, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        const size_t piece = n - done < IO_PIECE ? n - done : IO_PIECE;
        const ssize_t put = write(writer->fd, (const char *)bytes + done, piece);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            fail_errno("cannot write", writer->target);
            return mica__fail_at(MICA_E_IO, "after %lld bytes", (long long)writer->written);
        }
        done += (size_t)put;
        writer->written += put;
    }
    return MICA_OK;
}

/* Some file systems cannot sync one file; then there is nothing to wait for. */
static bool sync_failed(int fd)
{
    int result;
    do
        result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result != 0 && errno != EINVAL && errno != ENOTSUP;
}

static mica_status sync_directory(const char *directory)
{
    mica_status status = MICA_OK;
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return MICA_OK; /* a directory that may not be read cannot be synced */
    if (sync_failed(fd))
        status = fail_errno("the file is written, but may not survive a power cut: cannot sync",
                            directory);
    close(fd);
    return status;
}

mica_status mica__file_commit(mica__file_writer *writer)
{
    mica_status status = MICA_OK;
    if (sync_failed(writer->fd))
        status = fail_errno("cannot write", writer->target);
    if (close(writer->fd) != 0 && errno != EINTR && status == MICA_OK)
        status = fail_errno("cannot write", writer->target);
    writer->fd = -1;
    if (status == MICA_OK && rename(writer->temporary, writer->target) != 0)
        status = fail_errno("cannot replace", writer->target);
    if (status == MICA_OK) {
        mica__free(writer->temporary);
        writer->temporary = NULL;
        status = sync_directory(writer->directory);
    }
    mica__file_abandon(writer);
    return status;
}

void mica__file_abandon(mica__file_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->temporary)
        unlink(writer->temporary);
    mica__free(writer->temporary);
    mica__free(writer->directory);
    mica__free(writer->target);
    mica__free(writer);
}

mica_status mica__file_write_atomic(const char *path, const void *bytes, size_t n)
{
    mica__file_writer *writer;
    MICA_TRY(mica__file_create(path, &writer));
    const mica_status status = mica__file_write(writer, bytes, n);
    if (status == MICA_OK)
        return mica__file_commit(writer);
    mica__file_abandon(writer);
    return status;
}

/* --- text ------------------------------------------------------------------------------------- */

static mica_status refuse_length(const char *path, int64_t max_bytes)
{
    return mica__fail(MICA_E_BUDGET, "\"%.512s\" is longer than the %lld bytes allowed", path,
                      (long long)max_bytes);
}

/* Reads to the end of fd, growing text; expected is a guess that saves growing. */
static mica_status read_to_end(int fd, const char *path, int64_t expected, int64_t max_bytes,
                               mica__text *text)
{
    const int64_t start = text->length;
    for (int64_t room = expected + 1;; room = 4096) { /* one more byte finds the end */
        MICA_TRY(mica__grow(text->kind, (void **)&text->bytes, 1, text->length + room + 1,
                            &text->capacity));
        size_t piece = (size_t)(text->capacity - text->length - 1);
        piece = piece < IO_PIECE ? piece : IO_PIECE;
        const ssize_t got = read(fd, text->bytes + text->length, piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno("cannot read", path);
        if (got == 0)
            return MICA_OK;
        text->length += got;
        if (text->length - start > max_bytes)
            return refuse_length(path, max_bytes);
    }
}

mica_status mica__file_read_text(const char *path, int64_t max_bytes, mica__text *text)
{
    if (text->status != MICA_OK)
        return text->status;
    if (text->max > 0 && max_bytes > text->max - text->length)
        max_bytes = text->max - text->length;
    struct stat info;
    int fd;
    MICA_TRY(open_regular(path, &fd, &info));
    const int64_t start = text->length;
    mica_status status = MICA_OK;
    if (info.st_size > max_bytes)
        status = refuse_length(path, max_bytes);
    else
        status = read_to_end(fd, path, info.st_size, max_bytes, text);
    close(fd);
    if (status != MICA_OK)
        text->length = start;
    if (text->bytes)
        text->bytes[text->length] = '\0';
    return status;
}

/* --- paths ------------------------------------------------------------------------------------ */

bool mica__file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool mica__directory_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *mica__path_join(const char *directory, const char *name)
{
    size_t before = strlen(directory);
    const size_t length = strlen(name);
    if (before == 0 || name[0] == '/')
        return mica__strndup(MICA_MEMORY_OTHER, name, length);
    while (before > 1 && directory[before - 1] == '/')
        before--;
    const bool slash = directory[before - 1] != '/';
    char *path = mica__alloc(MICA_MEMORY_OTHER, before + slash + length + 1);
    if (!path)
        return NULL;
    memcpy(path, directory, before);
    path[before] = '/';
    memcpy(path + before + slash, name, length + 1);
    return path;
}

char *mica__path_directory(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0)
        return mica__strndup(MICA_MEMORY_OTHER, ".", 1);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return mica__strndup(MICA_MEMORY_OTHER, path, n);
}

const char *mica__path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
