/* prefix_file.h - keys and values of a prompt in a file, for another run.
 *
 * One safetensors file: metadata says what it belongs to, "tokens" [n] I32 whose they are, and each
 * pool has "pool.P.index" [k] I32, ascending: which blocks of 16 tokens there are; "pool.P.blocks"
 * [k, block_bytes] U8, as they lie in memory; "pool.P.sums" [k] U64, a hash of each, seeded by a
 * hash of all tokens up to it. Full-attention pools hold every block, window and state pools those
 * that the prefix tree had.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_PREFIX_FILE_H
#define MICA_RUN_PREFIX_FILE_H

#include <mica/engine.h>

#include "run/kv_store.h"

/* Raised when blocks come to lie differently in memory, and when a change of docs/numerics.md gives
 * keys or values other bits. */
#define MICA__PREFIX_FILE_VERSION "1"

/* What a file must agree with. */
typedef struct mica__prefix_owner {
    mica__identity identity;
    int64_t n_vocab;
    int64_t context; /* tokens beyond are of no use */
} mica__prefix_owner;

/* As the public calls in mica/engine.h. */
mica_status mica__prefix_save(const mica__kv_store *store, const mica__prefix_owner *owner,
                              const int32_t *tokens, int64_t n_tokens, const char *path,
                              int64_t *n_saved);
mica_status mica__prefix_load(mica__kv_store *store, const mica__prefix_owner *owner,
                              const char *path, const int32_t *tokens, int64_t n_tokens,
                              mica_prefix_load *load);

/* Facts that both directions share: the pools as a metadata string, and the seed of a block's sum
 * from that of the one before it (0 for the first) and its 16 tokens. */
#define MICA__PREFIX_POOLS_BYTES 256
void mica__prefix_pools_text(const mica__kv_store *store, char text[MICA__PREFIX_POOLS_BYTES]);
uint64_t mica__prefix_seed(uint64_t before, const int32_t *tokens);
uint64_t mica__prefix_sum(uint64_t seed, int pool, const uint8_t *bytes, int64_t n);

#endif
