/* prefix_tree.h - which KV blocks hold which token prefixes.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_PREFIX_TREE_H
#define MICA_RUN_PREFIX_TREE_H

#include "run/kv_pool.h"

typedef struct mica__prefix_node mica__prefix_node;

typedef struct mica__prefix_list {
    mica__prefix_node *oldest, *newest;
    int64_t length;
} mica__prefix_list;

typedef struct mica__prefix_tree {
    mica__kv_pool *pools; /* [n_pools], the owner's */
    int n_pools;
    int spine;                   /* the first full-attention pool, -1 without one */
    mica__prefix_node *root;     /* no tokens, no blocks */
    mica__prefix_node **buckets; /* [n_buckets] children by hash, a power of two */
    int64_t n_buckets;
    int64_t n_nodes;   /* without the root */
    int64_t n_evicted; /* blocks and slots that were evicted since opening */
    uint64_t clock;    /* ticks once a use */
    mica__prefix_list lists[MICA__KV_MAX_POOLS]; /* least recently used first */
} mica__prefix_tree;

/* A prefix that the tree can serve: positions [0, n_tokens) need not be computed. */
typedef struct mica__prefix_hit {
    mica__prefix_node *node;
    int64_t n_tokens; /* a multiple of MICA__KV_BLOCK_TOKENS */
} mica__prefix_hit;

mica_status mica__prefix_open(mica__prefix_tree *tree, mica__kv_pool *pools, int n_pools);

/* Gives up every block. A zero tree is fine. */
void mica__prefix_close(mica__prefix_tree *tree);

/* The longest prefix of tokens[0, n_most) after which a sequence can go on: every full-attention
 * block is there, every window block that position n_tokens still sees, and a state checkpoint at
 * n_tokens where the model has recurrent state. Takes no references. */
mica__prefix_hit mica__prefix_find(const mica__prefix_tree *tree, const int32_t *tokens,
                                   int64_t n_most);

/* Takes a reference for the caller on every block that the hit needs and writes them into
 * tables[pool][index], -1 where a window has passed; tables of state pools are left alone. Marks
 * what it took as used now. */
void mica__prefix_share(mica__prefix_tree *tree, const mica__prefix_hit *hit,
                        int32_t *const tables[MICA__KV_MAX_POOLS]);

/* The tree's own blocks of a hit in a pool, also those that it does not need: blocks[i] for i <
 * n_tokens / 16, -1 where there is none. Takes no references: valid until the next eviction. */
void mica__prefix_blocks(const mica__prefix_hit *hit, int pool, int32_t *blocks);

/* The state checkpoint of a hit in a state pool. Valid until the next eviction: take what copies it
 * first, with a reference on it held. */
int32_t mica__prefix_state(const mica__prefix_hit *hit, int pool);

/* Gives the tree the whole blocks of tokens[0, n_tokens). Where it has a block already, the
 * caller's entry is replaced by that one (same tokens, same bits) and the caller's own is dropped,
 * so that a block in use always has all blocks before it in use. checkpoint (may be NULL) has, for
 * each state pool, a slot with the state after the last whole block, or -1; the tree takes a
 * reference of its own unless it has one there. Never fails: without memory for a node the rest
 * stays the caller's alone. */
void mica__prefix_insert(mica__prefix_tree *tree, const int32_t *tokens, int64_t n_tokens,
                         int32_t *const tables[MICA__KV_MAX_POOLS],
                         const int32_t checkpoint[MICA__KV_MAX_POOLS]);

/* Gives up the least recently used thing that no sequence uses: a leaf, or a window block or state
 * of any node. False when there is none. */
bool mica__prefix_evict(mica__prefix_tree *tree);

#endif
