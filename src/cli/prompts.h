/* prompts.h - the prompts of a command: from options, files and standard input to token ids.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_PROMPTS_H
#define MICA_CLI_PROMPTS_H

#include <stdint.h>

#include <mica/json.h>

#include "cli/byte_buffer.h"

/* Reads a whole file, or standard input where path is "-". At most 1 GiB. */
int read_all(const char *path, byte_buffer *bytes);

/* Seconds that were spent waiting for what files and standard input bring. */
double seconds_reading(void);

/* Reads and parses a JSON file; *doc is ended by mica_json_free. */
int read_json(const char *path, mica_json_doc **doc);

/* Lists of ids. Zero-initialise. */
typedef struct id_lists {
    int32_t *ids;    /* all of them */
    int64_t *starts; /* [n + 1] */
    int64_t n, n_ids, id_capacity, start_capacity;
} id_lists;

/* Appends one list. */
int id_lists_add(id_lists *lists, const int32_t *ids, int64_t n);

/* Appends what a JSON file holds: a list of ids, or a list of lists of them. */
int id_lists_read(id_lists *lists, const char *path);

void id_lists_free(id_lists *lists);

#endif
