/* vocabulary.h - the tokens of a tokenizer: texts, bytes, kinds, and the way from text to id.
 *
 * A token has a text (as its file spells it: byte-level vocabularies spell bytes as printable
 * characters, SentencePiece spells a space as U+2581) and bytes (what it stands for in a text). Ids
 * are [0, n); an id nobody set is a hole of kind MICA_TOKEN_NONE. Filled by the loaders, then
 * indexed once, then never changed.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_VOCABULARY_H
#define MICA_TEXT_VOCABULARY_H

#include <mica/tokenizer.h>

#include "base/alloc.h"

#define MICA__MAX_TOKENS      (1 << 22)          /* ids a vocabulary may have */
#define MICA__MAX_TOKEN_BYTES (1 << 16)          /* length of one token */
#define MICA__MAX_VOCAB_BYTES (INT64_C(1) << 29) /* all texts together */

#define MICA__NO_RANK UINT32_MAX

typedef struct mica__piece {
    uint32_t at; /* in the pool */
    uint32_t length;
} mica__piece;

typedef struct mica__vocab {
    int64_t n;
    int64_t capacity;
    char *pool;
    int64_t pool_n;
    int64_t pool_capacity;
    mica__piece *text;  /* [capacity] */
    mica__piece *bytes; /* [capacity] */
    uint8_t *kind;      /* [capacity], mica_token_kind */
    uint32_t *rank;     /* [capacity] lower merges first; MICA__NO_RANK: no result of a merge */
    uint32_t *slots;    /* [mask + 1] id + 1 by hash of the text, 0 empty */
    uint32_t mask;
} mica__vocab;

/* Sets token `id` (refused when it is set already, out of bounds or too long). Its bytes are its
 * text until mica__vocab_set_bytes. */
mica_status mica__vocab_set(mica__vocab *vocab, int64_t id, const char *text, int64_t n,
                            mica_token_kind kind, uint32_t rank);

/* Sets what a token stands for, where that is not its text. */
mica_status mica__vocab_set_bytes(mica__vocab *vocab, int32_t id, const char *bytes, int64_t n);

/* Builds the way from text to id; refuses two tokens of the same text. */
mica_status mica__vocab_index(mica__vocab *vocab);

/* The id of the token with this text, or -1. */
int32_t mica__vocab_find(const mica__vocab *vocab, const char *text, int64_t n);

static inline const char *mica__vocab_text(const mica__vocab *vocab, int32_t id)
{
    return vocab->pool + vocab->text[id].at;
}

void mica__vocab_free(mica__vocab *vocab);

/* A hash of n bytes, for tables that live in memory only. */
uint64_t mica__hash_bytes(const char *bytes, int64_t n);

/* (left, right) -> (rank, merged): the merges of a byte-pair vocabulary. Open addressing. */
typedef struct mica__pair {
    uint32_t left, right; /* left == UINT32_MAX: empty */
    uint32_t rank;
    uint32_t merged;
} mica__pair;

typedef struct mica__pairs {
    mica__pair *slots; /* [mask + 1] */
    uint32_t mask;
    int64_t n;
} mica__pairs;

/* Room for n pairs. */
mica_status mica__pairs_init(mica__pairs *pairs, int64_t n);

/* Adds a pair, or replaces the one with the same left and right. */
mica_status mica__pairs_set(mica__pairs *pairs, mica__pair pair);

static inline uint32_t mica__pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(h >> 32);
}

/* The pair, or NULL. */
static inline const mica__pair *mica__pairs_find(const mica__pairs *pairs, uint32_t left,
                                                 uint32_t right)
{
    if (!pairs->slots)
        return NULL;
    for (uint32_t at = mica__pair_hash(left, right) & pairs->mask;; at = (at + 1) & pairs->mask) {
        const mica__pair *slot = &pairs->slots[at];
        if (slot->left == left && slot->right == right)
            return slot;
        if (slot->left == UINT32_MAX)
            return NULL;
    }
}

void mica__pairs_free(mica__pairs *pairs);

#endif
