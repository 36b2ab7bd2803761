/* line_reader.c - plain lines, and edited ones through libedit.
 *
 * libedit is opened when it is needed, so that no other command pays for loading it, and a machine
 * without it reads lines plainly. Characters come through a function of ours: it ends the line when
 * a signal came, which libedit's own would not.
 * SPDX-License-Identifier: MIT
 */
#include "cli/line_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/interrupt.h"

#ifdef MICA_HAVE_LIBEDIT
#include <dlfcn.h>
#include <histedit.h>
#include <locale.h>
#include <sys/ioctl.h>

#define HISTORY_LINES 1000
#define CONTROL_D     4

typedef struct editing {
    void *library;
    EditLine *(*init)(const char *, FILE *, FILE *, FILE *);
    int (*set)(EditLine *, int, ...);
    const char *(*gets)(EditLine *, int *);
    void (*end)(EditLine *);
    History *(*history_init)(void);
    int (*history)(History *, HistEvent *, int, ...);
    void (*history_end)(History *);
    EditLine *line;
    History *lines;
} editing;
#else
typedef struct editing {
    void *line;
} editing;
#endif

struct line_reader {
    bool terminal;
    editing edit;      /* edit.line NULL: read plainly */
    byte_buffer ahead; /* read and not handed out */
    size_t taken;      /* of it */
};

/* --- editing ---------------------------------------------------------------------------------- */

#ifdef MICA_HAVE_LIBEDIT

/* libedit asks a function without an argument of ours for the prompt. */
static const char *current_prompt = "";

static char *prompt_for_libedit(EditLine *line)
{
    char *prompt;
    (void)line;
    memcpy(&prompt, &current_prompt, sizeof prompt); /* it is not written to */
    return prompt;
}

/* What was typed before the line was asked for, or -1: not looked yet. The terminal still made
 * lines then, and keeps the Ctrl-D that ended one as a byte 0. */
static int typed_before = -1;

/* One character: 1, 0 at the end, -1 when a signal came. */
static int read_character(EditLine *line, wchar_t *character)
{
    mbstate_t state = {0};
    (void)line;
    if (typed_before < 0 && ioctl(STDIN_FILENO, FIONREAD, &typed_before) != 0)
        typed_before = 0;
    for (;;) {
        char byte;
        if (!interrupt_wait(STDIN_FILENO))
            return -1;
        const ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        if (typed_before > 0 && typed_before-- && byte == '\0')
            byte = CONTROL_D;
        const size_t used = mbrtowc(character, &byte, 1, &state);
        if (used == (size_t)-2)
            continue;
        if (used == (size_t)-1) {
            memset(&state, 0, sizeof state);
            continue;
        }
        return 1;
    }
}

static bool find(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, size);
    return found != NULL;
}

#define FIND(edit, name, field) find((edit)->library, name, &(edit)->field, sizeof(edit)->field)

static bool load(editing *edit)
{
    edit->library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!edit->library)
        edit->library = dlopen("libedit.so.0", RTLD_NOW | RTLD_LOCAL);
    return edit->library && FIND(edit, "el_init", init) && FIND(edit, "el_set", set) &&
           FIND(edit, "el_gets", gets) && FIND(edit, "el_end", end) &&
           FIND(edit, "history_init", history_init) && FIND(edit, "history", history) &&
           FIND(edit, "history_end", history_end);
}

static void open_editing(editing *edit)
{
    HistEvent event;
    setlocale(LC_CTYPE, ""); /* libedit measures characters by it; numbers stay as they are */
    if (!load(edit))
        return;
    edit->line = edit->init("mica", stdin, stdout, stderr);
    edit->lines = edit->history_init();
    if (!edit->line || !edit->lines)
        return;
    edit->history(edit->lines, &event, H_SETSIZE, HISTORY_LINES);
    edit->history(edit->lines, &event, H_SETUNIQUE, 1);
    edit->set(edit->line, EL_PROMPT, prompt_for_libedit);
    edit->set(edit->line, EL_EDITOR, "emacs");
    edit->set(edit->line, EL_SIGNAL, 0);
    edit->set(edit->line, EL_HIST, edit->history, edit->lines);
    edit->set(edit->line, EL_GETCFN, read_character);
    edit->set(edit->line, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

static void close_editing(editing *edit)
{
    if (edit->lines)
        edit->history_end(edit->lines);
    if (edit->line)
        edit->end(edit->line);
    /* The library stays: its terminal tables are reachable only through its own variables. */
}

static line_result read_edited(editing *edit, const char *prompt, byte_buffer *line)
{
    HistEvent event;
    int n = 0;
    current_prompt = prompt;
    typed_before = -1;
    const char *text = edit->gets(edit->line, &n);
    if (interrupted()) {
        fputc('\n', stdout);
        return LINE_INTERRUPTED;
    }
    if (!text || n <= 0) {
        fputc('\n', stdout);
        return LINE_END;
    }
    const size_t length = text[n - 1] == '\n' ? (size_t)n - 1 : (size_t)n;
    if (length)
        edit->history(edit->lines, &event, H_ENTER, text);
    buffer_add(line, text, length);
    return line->failed ? LINE_FAILED : LINE_READ;
}

#else

static void open_editing(editing *edit)
{
    (void)edit;
}

static void close_editing(editing *edit)
{
    (void)edit;
}

static line_result read_edited(editing *edit, const char *prompt, byte_buffer *line)
{
    (void)edit;
    (void)prompt;
    (void)line;
    return LINE_FAILED;
}

#endif

/* --- plain lines ------------------------------------------------------------------------------ */

/* Reads more: LINE_READ, or why there is no more. */
static line_result read_more(line_reader *reader)
{
    byte_buffer *ahead = &reader->ahead;
    if (reader->taken) {
        memmove(ahead->bytes, ahead->bytes + reader->taken, ahead->length - reader->taken);
        ahead->length -= reader->taken;
        reader->taken = 0;
    }
    if (!buffer_reserve(ahead, 65536))
        return LINE_FAILED;
    for (;;) {
        if (!interrupt_wait(STDIN_FILENO))
            return LINE_INTERRUPTED;
        const ssize_t n = read(STDIN_FILENO, ahead->bytes + ahead->length, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? LINE_FAILED : LINE_END;
        ahead->length += (size_t)n;
        return LINE_READ;
    }
}

static line_result read_plain(line_reader *reader, byte_buffer *line)
{
    const byte_buffer *ahead = &reader->ahead;
    size_t looked = reader->taken;
    line_result result = LINE_READ;
    char *newline = NULL;
    while (result == LINE_READ && !newline) {
        if (ahead->length > looked)
            newline = memchr(ahead->bytes + looked, '\n', ahead->length - looked);
        if (newline)
            break;
        looked = ahead->length - reader->taken;
        result = read_more(reader);
    }
    if (result == LINE_INTERRUPTED || result == LINE_FAILED)
        return result;
    const size_t end = newline ? (size_t)(newline - ahead->bytes) : ahead->length;
    size_t n = end - reader->taken;
    if (!newline && !n)
        return LINE_END;
    const char *text = ahead->bytes + reader->taken;
    reader->taken = newline ? end + 1 : end;
    while (n && text[n - 1] == '\r')
        n--;
    buffer_add(line, text, n);
    return line->failed ? LINE_FAILED : LINE_READ;
}

/* --- public ----------------------------------------------------------------------------------- */

line_reader *line_reader_open(void)
{
    line_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (reader->terminal)
        open_editing(&reader->edit);
    return reader;
}

bool line_reader_is_terminal(const line_reader *reader)
{
    return reader->terminal;
}

line_result line_reader_next(line_reader *reader, const char *prompt, byte_buffer *line)
{
    buffer_clear(line);
    if (reader->edit.line)
        return read_edited(&reader->edit, prompt, line);
    if (reader->terminal) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    return read_plain(reader, line);
}

void line_reader_close(line_reader *reader)
{
    if (!reader)
        return;
    close_editing(&reader->edit);
    buffer_free(&reader->ahead);
    free(reader);
}
