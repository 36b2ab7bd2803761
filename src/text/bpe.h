/* bpe.h - byte-pair merging: a word becomes tokens.
 *
 * A word starts as symbols, bytes or characters; the adjacent pair that merges first (lowest rank,
 * then leftmost) is joined until no pair merges. Which pairs merge is a table of pairs (merge
 * lists) or the vocabulary itself: a pair merges when its text is a token (tiktoken ranks,
 * SentencePiece scores).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_BPE_H
#define MICA_TEXT_BPE_H

#include "text/vocabulary.h"

typedef struct mica__bpe {
    const mica__vocab *vocab;
    mica__pairs pairs;     /* merges, when not by_text */
    bool by_text;          /* a pair merges when its text is a token with a rank */
    bool of_bytes;         /* symbols start as bytes, else as characters */
    bool spelled;          /* texts spell bytes as printable characters (byte_spelling.h) */
    bool whole_word_first; /* a word that is a token (not a special one) as a whole is that token */
    bool byte_fallback;    /* a character without a token becomes byte tokens */
    bool fuse_unknown;     /* neighbouring unknown characters are one unknown token */
    bool has_unused;       /* some tokens may merge but not be emitted: they are split again */
    int32_t unknown;       /* or -1 */
    int32_t byte_id[256];  /* the token of a byte, -1 none */
    uint32_t *neighbours; /* [2048] bit 256 a + b: byte b stands behind a in some token, or bytes of
                           * one character do; NULL: unknown. Long words part between others */
} mica__bpe;

static inline bool mica__are_neighbours(const mica__bpe *bpe, char a, char b)
{
    return bpe->neighbours[(uint8_t)a * 8 + (uint8_t)b / 32] >> ((uint8_t)b & 31) & 1;
}

/* What one thread needs while it encodes; zero-initialise. */
typedef struct mica__bpe_work {
    struct mica__symbol *symbols;
    int64_t symbols_capacity;
    struct mica__merge *heap;
    int64_t heap_capacity;
    int64_t heap_n;
    uint32_t *split_at; /* [n_vocab] where an unused token was last joined, 0 never */
    struct mica__segment *stack;
    int64_t stack_capacity;
} mica__bpe_work;

/* Appends the tokens of word[0, n). On failure `ids` may hold some of them. */
mica_status mica__bpe_encode(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                             int64_t n, mica_token_list *ids);

void mica__bpe_work_free(mica__bpe_work *work);

/* Appends one id. */
mica_status mica__token_list_add(mica_token_list *list, int32_t id);

#endif
