/* prompts.c - reading what a command is given to work on.
 * SPDX-License-Identifier: MIT
 */
#include "cli/prompts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

#define MOST_BYTES ((size_t)1 << 30)

static double reading; /* seconds */

/* --- files ------------------------------------------------------------------------------------ */

static int read_descriptor(int file, const char *name, byte_buffer *bytes)
{
    for (;;) {
        if (!buffer_reserve(bytes, 65536))
            return fail_memory();
        if (!interrupt_wait(file))
            return EXIT_INTERRUPTED;
        const ssize_t n = read(file, bytes->bytes + bytes->length, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_with(MICA_E_IO, name, "cannot be read: %s", strerror(errno));
        bytes->length += (size_t)n;
        bytes->bytes[bytes->length] = '\0';
        if (bytes->length > MOST_BYTES)
            return fail_with(MICA_E_BUDGET, name, "is over 1 GiB");
        if (n == 0)
            return 0;
    }
}

double seconds_reading(void)
{
    return reading;
}

static int read_file(const char *path, byte_buffer *bytes)
{
    if (strcmp(path, "-") == 0)
        return read_descriptor(STDIN_FILENO, "standard input", bytes);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail_with(errno == ENOENT ? MICA_E_NOT_FOUND : MICA_E_IO, path,
                         "cannot be opened: %s", strerror(errno));
    const int exit_status = read_descriptor(file, path, bytes);
    close(file);
    return exit_status;
}

int read_all(const char *path, byte_buffer *bytes)
{
    const double started = seconds_now();
    const int exit_status = read_file(path, bytes);
    reading += seconds_now() - started;
    return exit_status;
}

int read_json(const char *path, mica_json_doc **doc)
{
    byte_buffer bytes = {0};
    *doc = NULL;
    int exit_status = read_all(path, &bytes);
    if (!exit_status) {
        const mica_status status = mica_json_parse(buffer_text(&bytes), bytes.length, doc);
        if (status != MICA_OK)
            exit_status = fail_from(status, path);
    }
    buffer_free(&bytes);
    return exit_status;
}

/* --- lists of ids ----------------------------------------------------------------------------- */

/* Items with room for `need`, or NULL with everything as it was. */
static void *with_room(void *items, int64_t *capacity, int64_t need, size_t size)
{
    if (items && need <= *capacity)
        return items;
    int64_t grown = *capacity ? *capacity : 64;
    while (grown < need)
        grown *= 2;
    void *memory = realloc(items, (size_t)grown * size);
    if (memory)
        *capacity = grown;
    return memory;
}

int id_lists_add(id_lists *lists, const int32_t *ids, int64_t n)
{
    int32_t *all = with_room(lists->ids, &lists->id_capacity, lists->n_ids + n + 1, sizeof *all);
    if (!all)
        return fail_memory();
    lists->ids = all;
    int64_t *starts =
        with_room(lists->starts, &lists->start_capacity, lists->n + 2, sizeof *starts);
    if (!starts)
        return fail_memory();
    lists->starts = starts;
    if (n)
        memcpy(lists->ids + lists->n_ids, ids, (size_t)n * sizeof *ids);
    lists->starts[0] = 0;
    lists->n_ids += n;
    lists->starts[++lists->n] = lists->n_ids;
    return 0;
}

static int add_json_list(id_lists *lists, const mica_json *list, const char *path)
{
    const int64_t n = mica_json_count(list);
    int32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    if (!ids)
        return fail_memory();
    int64_t i = 0;
    for (const mica_json *at = mica_json_first(list); at; at = mica_json_next(at), i++) {
        const int64_t id = mica_json_integer(at);
        if (mica_json_type_of(at) != MICA_JSON_INTEGER || id < 0 || id > INT32_MAX) {
            free(ids);
            return fail_with(MICA_E_FORMAT, path,
                             "list %lld, entry %lld is no token id (a whole number from 0 on)",
                             (long long)lists->n, (long long)i);
        }
        ids[i] = (int32_t)id;
    }
    const int exit_status =
        n ? id_lists_add(lists, ids, n)
          : fail_with(MICA_E_FORMAT, path, "list %lld of tokens is empty", (long long)lists->n);
    free(ids);
    return exit_status;
}

int id_lists_read(id_lists *lists, const char *path)
{
    mica_json_doc *doc;
    int exit_status = read_json(path, &doc);
    if (exit_status)
        return exit_status;
    const mica_json *root = mica_json_root(doc);
    const mica_json *first = mica_json_first(root);
    if (mica_json_type_of(root) != MICA_JSON_ARRAY || !first)
        exit_status = fail_with(MICA_E_FORMAT, path,
                                "a list of token ids is needed, or a list of "
                                "such lists");
    else if (mica_json_type_of(first) == MICA_JSON_ARRAY)
        for (const mica_json *at = first; at && !exit_status; at = mica_json_next(at))
            exit_status = mica_json_type_of(at) == MICA_JSON_ARRAY
                              ? add_json_list(lists, at, path)
                              : fail_with(MICA_E_FORMAT, path, "lists and ids are mixed");
    else
        exit_status = add_json_list(lists, root, path);
    mica_json_free(doc);
    return exit_status;
}

void id_lists_free(id_lists *lists)
{
    free(lists->ids);
    free(lists->starts);
    *lists = (id_lists){0};
}
