/* stop_strings.h - strings that end a text, found across the borders of tokens.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_STOP_STRINGS_H
#define MICA_RUN_STOP_STRINGS_H

#include "base/text_buffer.h"

/* Limits on what a request may bring. */
#define MICA__MAX_STOP_STRINGS      64
#define MICA__MAX_STOP_STRING_BYTES 4096

/* The strings themselves, shared by all choices of a request. */
typedef struct mica__stop_string {
    const char *bytes;
    int32_t length;
    int32_t *border; /* [length] longest proper beginning of bytes[0, i] that is also its end */
} mica__stop_string;

typedef struct mica__stop_strings {
    int64_t n;
    mica__stop_string *strings; /* [n] */
} mica__stop_strings;

/* Copies n strings. MICA_E_ARGUMENT when one is empty, too long, or there are too many. A failed
 * set is zero. */
mica_status mica__stop_strings_open(mica__stop_strings *set, const char *const *strings, int64_t n);
void mica__stop_strings_close(mica__stop_strings *set);

/* The text of one choice as it is watched. Zero-initialise. */
typedef struct mica__stop_watch {
    mica__text held;  /* bytes not given out yet */
    int64_t given;    /* how many at the start of `held` were given out by the last call */
    int32_t *matched; /* [set->n] how much of each string the text ends with */
    int64_t which;    /* the string that was found, -1 before */
} mica__stop_watch;

mica_status mica__stop_watch_open(mica__stop_watch *watch, const mica__stop_strings *set);
void mica__stop_watch_close(mica__stop_watch *watch);

/* Adds bytes to the text and says which of it is certain: *text [*n_text], valid until the next
 * call. A tail that may be the beginning of a stop string is held back. When a string is complete
 * *found is true, the text ends before it, and whatever follows is dropped. */
mica_status mica__stop_watch_add(mica__stop_watch *watch, const mica__stop_strings *set,
                                 const char *bytes, size_t n, const char **text, size_t *n_text,
                                 bool *found);

/* Adds the last bytes (n may be 0) and gives all text that was not given out yet, up to a stop
 * string where these bytes complete one. */
mica_status mica__stop_watch_finish(mica__stop_watch *watch, const mica__stop_strings *set,
                                    const char *bytes, size_t n, const char **text, size_t *n_text,
                                    bool *found);

#endif
