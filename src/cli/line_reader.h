/* line_reader.h - lines that somebody types, or that a pipe brings.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_LINE_READER_H
#define MICA_CLI_LINE_READER_H

#include <stdbool.h>

#include "cli/byte_buffer.h"

typedef struct line_reader line_reader;

typedef enum line_result { LINE_READ, LINE_END, LINE_INTERRUPTED, LINE_FAILED } line_result;

/* With a terminal on both standard input and output, and libedit on the machine, lines can be
 * edited and earlier ones recalled; otherwise they are read plainly. NULL: out of memory. */
line_reader *line_reader_open(void);

/* Whether somebody types. */
bool line_reader_is_terminal(const line_reader *reader);

/* Shows the prompt on a terminal and reads one line, without its newline. */
line_result line_reader_next(line_reader *reader, const char *prompt, byte_buffer *line);

/* NULL is ignored. */
void line_reader_close(line_reader *reader);

#endif
