/* file.h - whole files: read-only views, atomic writing, paths.
 *
 * A view is the file's bytes at one address, mapped (weights, used in place) or read into counted
 * memory. Failures name the path and the system's reason. A mapped file that another program
 * truncates raises SIGBUS when the lost part is touched, as with every mapping: files are replaced
 * by renaming, not rewritten in place.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_FILE_H
#define MICA_BASE_FILE_H

#include "base/text_buffer.h"

typedef struct mica__file mica__file;

/* Opens a regular file whole. use_map: a private read-only mapping, counted by mica__memory_map;
 * else read into memory of MICA_MEMORY_WEIGHTS. MICA_E_NOT_FOUND when nothing is there, MICA_E_IO
 * for directories, FIFOs, devices, sockets and what cannot be read, MICA_E_MEMORY when over the
 * limit. */
mica_status mica__file_open(const char *path, bool use_map, mica__file **file);

/* Ends the view; its bytes are gone. NULL is ignored. */
void mica__file_close(mica__file *file);

/* The bytes: aligned to 64, never NULL (an empty file has an address and size 0). */
const uint8_t *mica__file_data(const mica__file *file);
size_t mica__file_size(const mica__file *file);
bool mica__file_is_mapped(const mica__file *file);
const char *mica__file_path(const mica__file *file); /* as given to open */

/* A regular file read piece by piece into the caller's memory, for what is never needed whole. */
typedef struct mica__file_reader mica__file_reader;
mica_status mica__file_reader_open(const char *path, mica__file_reader **reader);
void mica__file_reader_close(mica__file_reader *reader); /* NULL is ignored */
int64_t mica__file_reader_size(const mica__file_reader *reader);

/* Bytes [offset, offset + n); MICA_E_IO when the file ends before or cannot be read. */
mica_status mica__file_read_at(const mica__file_reader *reader, int64_t offset, void *bytes,
                               size_t n);

/* Writes a file so that path holds either its old content or all of the new one, also after a
 * crash: a temporary file in the same directory, fsync, rename, fsync of the directory. It keeps an
 * existing file's permission bits and follows a symbolic link to the file it names. On failure the
 * temporary file is removed and path is as it was. */
mica_status mica__file_write_atomic(const char *path, const void *bytes, size_t n);

/* The same for content that is produced in pieces: create, write any number of times, then either
 * commit or abandon. Both free the writer, whatever they return. Data written is not counted. */
typedef struct mica__file_writer mica__file_writer;
mica_status mica__file_create(const char *path, mica__file_writer **writer);
mica_status mica__file_write(mica__file_writer *writer, const void *bytes, size_t n);
mica_status mica__file_commit(mica__file_writer *writer);
void mica__file_abandon(mica__file_writer *writer);

/* Appends a regular file to text; MICA_E_BUDGET when it is longer than max_bytes or text->max lets
 * in. On failure text holds what it held, without a sticky status.
 * Also reads files whose size the system does not know (proc). */
mica_status mica__file_read_text(const char *path, int64_t max_bytes, mica__text *text);

/* Whether path can be reached and is a regular file, or a directory (links are followed). */
bool mica__file_exists(const char *path);
bool mica__directory_exists(const char *path);

/* directory/name with exactly one slash between; an absolute name or an empty directory gives name
 * alone. Counted as MICA_MEMORY_OTHER, freed by mica__free; NULL on failure. */
char *mica__path_join(const char *directory, const char *name);

/* The directory of a path, without trailing slashes ("." when it has none, "/" for the root);
 * allocated as above. */
char *mica__path_directory(const char *path);

/* What follows the last slash; points into path. */
const char *mica__path_name(const char *path);

#endif
