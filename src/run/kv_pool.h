/* kv_pool.h - fixed-size blocks (or state slots) of one kind of layer, reference counted.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_KV_POOL_H
#define MICA_RUN_KV_POOL_H

#include "run/kv_budget.h"
#include "run/step.h"

/* Block b lies at range.base + b * spec.block_bytes. A block is free exactly when its reference
 * count is 0. At most one reference of a block belongs to the prefix tree: it is marked, so that
 * the pool knows how many blocks the tree alone keeps (these can be evicted). */
typedef struct mica__kv_pool {
    mica__pool_spec spec;
    mica__kv_range range;
    int64_t n_blocks;    /* blocks that the range has room for */
    int64_t n_live;      /* blocks with a reference */
    int64_t n_evictable; /* blocks that only the prefix tree references */
    int64_t capacity;    /* blocks that the two arrays cover */
    int32_t *references; /* [capacity] */
    uint64_t *live;      /* [capacity / 64] bit b: block b has a reference */
    uint64_t *kept;      /* [capacity / 64] bit b: the tree holds one of them */
} mica__kv_pool;

/* How many blocks a pool of this spec has under a budget of `limit` bytes; 0 when not one fits. */
int64_t mica__kv_pool_blocks(const mica__pool_spec *spec, int64_t limit);

/* Carves the pool's range out of the budget's reserve. A failed pool is zero. */
mica_status mica__kv_pool_open(mica__kv_pool *pool, const mica__pool_spec *spec,
                               mica__kv_budget *budget);

/* Frees the bookkeeping and gives back the pages of whatever blocks are still live. */
void mica__kv_pool_close(mica__kv_pool *pool);

/* A free block with one reference, right behind block `near` where that is free (near -1: none).
 * Its content is undefined. MICA_E_MEMORY when the budget has no bytes for it; nothing changes
 * then.
 */
mica_status mica__kv_pool_take(mica__kv_pool *pool, int32_t near, int32_t *block);

/* One more reference, one less; a block without any gives its pages back at once. */
void mica__kv_pool_share(mica__kv_pool *pool, int32_t block);
void mica__kv_pool_drop(mica__kv_pool *pool, int32_t block);

/* The tree's own reference: taken beside existing ones, and given up. */
void mica__kv_pool_keep(mica__kv_pool *pool, int32_t block);
void mica__kv_pool_unkeep(mica__kv_pool *pool, int32_t block);

/* The pages that a block can need for itself when it shares none with a neighbour, in bytes. */
int64_t mica__kv_pool_worst_bytes(const mica__kv_pool *pool);

/* Whether only the tree holds this block. */
bool mica__kv_pool_is_evictable(const mica__kv_pool *pool, int32_t block);

/* The bytes of a live block: block_bytes of them. */
uint8_t *mica__kv_pool_block(const mica__kv_pool *pool, int32_t block);

#endif
