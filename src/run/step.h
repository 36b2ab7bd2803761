/* step.h - what the engine asks of a model: one ragged step.
 *
 * The signature is the same for every architecture. A step is a flat list of tokens, each with its
 * sequence and position; KV state lives in paged pools that the engine owns and the model reads and
 * writes through block tables. The engine knows no architecture, the model no scheduling.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_STEP_H
#define MICA_RUN_STEP_H

#include "base/fail.h"
#include "core/op.h"

#define MICA__KV_MAX_POOLS 4

typedef enum mica__pool_kind {
    MICA__POOL_FULL,   /* every earlier token is visible */
    MICA__POOL_WINDOW, /* the last `window` tokens are visible; blocks wholly behind are dropped */
    MICA__POOL_STATE   /* recurrent state: one slot a sequence */
} mica__pool_kind;

/* One KV pool: the layers of one kind. A block holds 16 tokens of all those layers. */
typedef struct mica__pool_spec {
    mica__pool_kind kind;
    int64_t window;      /* MICA__POOL_WINDOW: a token sees positions (p - window, p] */
    int64_t block_bytes; /* bytes of one block (of one slot, for state), any value > 0 */
} mica__pool_spec;

static inline int64_t mica__blocks_for(int64_t positions)
{
    return (positions + MICA__KV_BLOCK_TOKENS - 1) / MICA__KV_BLOCK_TOKENS;
}

/* The most blocks of a window pool that a sequence holds at once while it grows to `positions` in
 * chunks of at most `chunk`: those before the block that a chunk begins in, as far as its first
 * position sees (sequence.c drops whole blocks), and those from there to the chunk's end. */
static inline int64_t mica__window_blocks(const mica__pool_spec *spec, int64_t positions,
                                          int64_t chunk)
{
    const int64_t all = mica__blocks_for(positions);
    if (spec->window >= positions)
        return all;
    const int64_t most =
        mica__blocks_for(spec->window - 1) + mica__blocks_for(chunk + MICA__KV_BLOCK_TOKENS - 1);
    return most < all ? most : all;
}

typedef struct mica__step {
    int64_t n_tokens;      /* T >= 1 */
    int64_t n_sequences;   /* S >= 1 */
    int64_t n_rows;        /* R, may be 0 */
    const int32_t *tokens; /* [T] */
    const int32_t
        *positions; /* [T] absolute, from 0; ascending within a sequence and without gaps */
    const int32_t *sequence_of;                     /* [T] index into the tables below */
    const int32_t *kv_length;                       /* [S] tokens in the cache after this step */
    const int32_t *block_table[MICA__KV_MAX_POOLS]; /* [S, table_stride]; entry p / 16 is the block,
                                                       -1 where dropped */
    int64_t table_stride;       /* of the engine: a width of mica__table_width */
    const int32_t *state_slot;  /* [S], NULL without a state pool */
    const int32_t *logits_rows; /* [R] indices of tokens whose logits are wanted, ascending */
    uint8_t
        *pool_base[MICA__KV_MAX_POOLS]; /* block b of pool i is at pool_base[i] + b * block_bytes */
    float *logits;                      /* [R, n_vocab], written by the model */
} mica__step;

/* What keys and values depend on besides the tokens: steppers whose `model`, `kv` and `activations`
 * are equal write the same bits. Texts of printable ASCII. */
typedef struct mica__identity {
    char name[64];       /* for messages only */
    char model[64];      /* architecture and a fingerprint of configuration and weights */
    char kv[8];          /* "f16" */
    char activations[8]; /* "int8" */
} mica__identity;

/* Entries of a block table's row for sequences of up to `used` blocks where contexts have `most`: a
 * power of two times 1,024 tokens. Programs depend on it, so it must not follow every block. */
static inline int64_t mica__table_width(int64_t used, int64_t most)
{
    int64_t width = 64;
    while (width < used)
        width *= 2;
    return width < most ? width : used > most ? used : most;
}

/* A model as the engine sees it. */
typedef struct mica__stepper {
    void *model;
    int64_t n_vocab;
    int64_t context_length; /* positions the model knows */
    int64_t max_tokens;     /* most tokens in one step */
    int64_t max_sequences;  /* most sequences in one step */
    int n_pools;
    mica__pool_spec pools[MICA__KV_MAX_POOLS];

    /* Runs one step. On failure (MICA_E_MEMORY, MICA_E_CANCELLED...) the cache content of the
     * step's tokens is undefined, everything else is as before, and the same step may be tried
     * again. */
    mica_status (*run)(void *model, const mica__step *step);

    /* Says what its keys and values depend on; NULL: they cannot be saved. */
    mica_status (*identify)(void *model, mica__identity *identity);

    /* What steps of n_sequences take at most beyond weights and KV, in bytes, before anything ran;
     * may be NULL: not known. */
    mica_status (*reserve)(void *model, int64_t n_sequences, int64_t *bytes);

    /* Called once when the engine is freed; may be NULL. */
    void (*release)(void *model);
} mica__stepper;

#endif
