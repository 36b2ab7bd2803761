/* pretokenize.h - cutting text into words, which then are merged each by itself.
 *
 * A chain of steps, each of which takes apart or rewrites the pieces of the one before, as the
 * pre-tokenizers of tokenizer.json do. Patterns that models use have splitters of our own on the
 * pinned Unicode tables; a pattern nobody knew is compiled with PCRE2 where the build has it.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_PRETOKENIZE_H
#define MICA_TEXT_PRETOKENIZE_H

#include "base/text_buffer.h"

/* Finds the first match in text[at, n): 1 with [*from, *to), 0 when there is none, minus the status
 * on failure. What lies before `at` counts as the left context, as in a search from `at`. */
typedef int (*mica__match)(const void *pattern, const char *text, int64_t n, int64_t at,
                           int64_t *from, int64_t *to);

typedef struct mica__matcher {
    mica__match match;
    const void *pattern; /* static, or owned: see release */
    void (*release)(void *pattern);
    bool needs_valid; /* match is only given valid UTF-8; other bytes lie between the matches */
} mica__matcher;

/* What becomes of a match, as in tokenizer.json. */
typedef enum mica__split {
    MICA__SPLIT_ISOLATED,
    MICA__SPLIT_REMOVED,
    MICA__SPLIT_WITH_PREVIOUS,
    MICA__SPLIT_WITH_NEXT,
    MICA__SPLIT_CONTIGUOUS
} mica__split;

typedef enum mica__step_kind {
    MICA__STEP_SPLIT,       /* cut at the matches of `matcher` */
    MICA__STEP_SPACE,       /* put a space before a piece that does not begin with one */
    MICA__STEP_SPELL,       /* from here on bytes are spelled as characters (byte_spelling.h) */
    MICA__STEP_MARK_SPACES, /* spaces become `mark`; one is put before the piece by `prepend` */
} mica__step_kind;

typedef enum mica__prepend {
    MICA__PREPEND_NEVER,
    MICA__PREPEND_FIRST, /* only where the text begins */
    MICA__PREPEND_ALWAYS
} mica__prepend;

typedef struct mica__step {
    mica__step_kind kind;
    mica__matcher matcher;
    mica__split split;
    bool invert;
    mica__prepend prepend;
    char mark[8]; /* MARK_SPACES: one character, NUL-terminated */
} mica__step;

#define MICA__MAX_STEPS 16

typedef struct mica__pretokenizer {
    mica__step steps[MICA__MAX_STEPS];
    int n;
    bool spells; /* words come out spelled */
} mica__pretokenizer;

mica_status mica__pretokenizer_add(mica__pretokenizer *pre, mica__step step);
void mica__pretokenizer_free(mica__pretokenizer *pre);

/* Where one level of the chain stands in its piece. */
typedef struct mica__cut {
    const char *text;
    int64_t n;
    int64_t at;
    int64_t from, to; /* the next match, when have_match */
    bool first;       /* begins where the whole input begins */
    bool have_match;
    bool no_more;
    bool held; /* one cut was looked at ahead */
    int64_t held_from, held_to;
    bool held_match;
    int64_t valid_from, valid_to; /* for needs_valid: the stretch of valid text at hand */
    mica__text rewritten;
} mica__cut;

/* Walks the words of a text; zero-initialise, then start. */
typedef struct mica__words {
    const mica__pretokenizer *pre;
    mica__cut cuts[MICA__MAX_STEPS];
    int level;
    bool at_start; /* the text begins where the whole input begins */
    const char *text;
    int64_t n;
    bool whole_done;
} mica__words;

void mica__words_start(mica__words *words, const mica__pretokenizer *pre, const char *text,
                       int64_t n, bool at_start);

/* The next word, never empty: 1, 0 at the end, minus the status on failure. It stays valid until
 * the next call. */
int mica__words_next(mica__words *words, const char **word, int64_t *n);
void mica__words_free(mica__words *words);

/* --- patterns --------------------------------------------------------------------------------- */

/* The splitter of our own for this regular expression, as tokenizer.json spells it; false when
 * there is none. */
bool mica__known_pattern(const char *regex, mica__matcher *matcher);

/* Literal text. */
mica_status mica__literal_pattern(const char *text, int64_t n, mica__matcher *matcher);

/* Any regular expression: ours where known, else PCRE2's, else MICA_E_UNSUPPORTED. */
mica_status mica__regex_pattern(const char *regex, mica__matcher *matcher);

/* Through PCRE2 whatever the expression (the tests compare our splitters with it). */
mica_status mica__pcre_pattern(const char *regex, mica__matcher *matcher);

/* Named classes of tokenizer.json's pre-tokenizers. */
mica__matcher mica__digit_pattern(bool individual); /* \p{N} or \p{N}+ */
mica__matcher mica__punctuation_pattern(void);      /* one of \p{P} or ASCII punctuation */
mica__matcher mica__whitespace_pattern(void);       /* one of \s */
mica__matcher mica__gpt2_pattern(void);

#endif
