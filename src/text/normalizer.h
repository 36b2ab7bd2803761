/* normalizer.h - what is done to a stretch of text before it is cut and merged.
 *
 * A short list of steps, as tokenizer.json names them; SentencePiece's own settings are said in
 * the same steps.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_NORMALIZER_H
#define MICA_TEXT_NORMALIZER_H

#include "text/unicode.h"

typedef enum mica__normalizer_kind {
    MICA__NORMALIZER_FORM,         /* a Unicode normal form */
    MICA__NORMALIZER_REPLACE,      /* every `from` becomes `to` */
    MICA__NORMALIZER_PREPEND,      /* `to` goes before a text that is not empty */
    MICA__NORMALIZER_COLLAPSE,     /* no spaces at the ends, runs of spaces become one */
    MICA__NORMALIZER_PREPEND_FIRST /* as PREPEND, where the whole input begins only */
} mica__normalizer_kind;

typedef struct mica__normalizer_step {
    mica__normalizer_kind kind;
    mica__normal_form form;
    char *from, *to; /* owned */
    int64_t from_n, to_n;
} mica__normalizer_step;

#define MICA__MAX_NORMALIZERS 8

typedef struct mica__normalizer {
    mica__normalizer_step steps[MICA__MAX_NORMALIZERS];
    int n;
} mica__normalizer;

mica_status mica__normalizer_add_form(mica__normalizer *normalizer, mica__normal_form form);
mica_status mica__normalizer_add(mica__normalizer *normalizer, mica__normalizer_kind kind,
                                 const char *from, int64_t from_n, const char *to, int64_t to_n);

/* Runs the steps over text[0, n). at_start: the text is where the whole input begins; begins: it is
 * not a part that continues another one (nothing is put before those). *result is text itself where
 * nothing changes, else one of the two buffers (both .kind TEXT). */
mica_status mica__normalizer_run(const mica__normalizer *normalizer, const char *text, int64_t n,
                                 bool at_start, bool begins, mica__text buffers[2],
                                 const char **result, int64_t *result_n);

void mica__normalizer_free(mica__normalizer *normalizer);

#endif
