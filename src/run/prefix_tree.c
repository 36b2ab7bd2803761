/* prefix_tree.c - which KV blocks hold which token prefixes.
 *
 * One node per whole block of 16 tokens, found through a hash of (parent, tokens) and compared
 * token by token. A node owns one reference to each block it names; a sequence that matched a
 * prefix owns another. Only whole blocks are shared, and a whole block is never written again, so
 * nothing is ever copied on write: a sequence computes the tokens behind its last shared block into
 * blocks of its own. Invariants: a block is free exactly when nobody references it, so eviction
 * only ever drops what no sequence is using; a full-attention block in use has all blocks before it
 * in use, so an unused subtree has an unused leaf.
 *
 * A list per pool orders its blocks by last use. What is met at the old end and cannot be evicted
 * is moved to the new end, which makes the search cheap over time. Knows nothing about attention or
 * devices: blocks are numbers.
 * SPDX-License-Identifier: MIT
 */
#include "run/prefix_tree.h"

#include <string.h>

#define BLOCK MICA__KV_BLOCK_TOKENS

typedef struct link {
    mica__prefix_node *older, *newer;
    uint64_t used; /* the tree's clock at the last use */
} link;

struct mica__prefix_node {
    mica__prefix_node *parent; /* NULL for the root */
    mica__prefix_node *next_in_bucket;
    uint64_t hash;
    int64_t depth; /* blocks up to and including this one */
    int64_t n_children;
    int32_t blocks[MICA__KV_MAX_POOLS]; /* -1 where the tree has none */
    link links[MICA__KV_MAX_POOLS];
    int32_t tokens[BLOCK];
};

/* --- lists of use ----------------------------------------------------------------------------- */

/* Full-attention blocks are evicted with their node, so one list stands for all such pools. */
static bool is_listed(const mica__prefix_tree *tree, int pool)
{
    return tree->pools[pool].spec.kind != MICA__POOL_FULL || pool == tree->spine;
}

static void list_add(mica__prefix_tree *tree, int pool, mica__prefix_node *node)
{
    mica__prefix_list *list = &tree->lists[pool];
    node->links[pool] = (link){.older = list->newest, .used = tree->clock};
    if (list->newest)
        list->newest->links[pool].newer = node;
    else
        list->oldest = node;
    list->newest = node;
    list->length++;
}

static void list_remove(mica__prefix_tree *tree, int pool, mica__prefix_node *node)
{
    mica__prefix_list *list = &tree->lists[pool];
    link *at = &node->links[pool];
    if (at->older)
        at->older->links[pool].newer = at->newer;
    else
        list->oldest = at->newer;
    if (at->newer)
        at->newer->links[pool].older = at->older;
    else
        list->newest = at->older;
    list->length--;
}

static void touch(mica__prefix_tree *tree, int pool, mica__prefix_node *node)
{
    if (!is_listed(tree, pool) || node->blocks[pool] < 0)
        return;
    list_remove(tree, pool, node);
    list_add(tree, pool, node);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static uint64_t hash_block(uint64_t seed, const int32_t *tokens)
{
    uint64_t hash = seed;
    for (int i = 0; i < BLOCK; i++) {
        hash = (hash ^ (uint32_t)tokens[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static mica__prefix_node *child_matching(const mica__prefix_tree *tree,
                                         const mica__prefix_node *parent, const int32_t *tokens)
{
    const uint64_t hash = hash_block(parent->hash, tokens);
    mica__prefix_node *node = tree->buckets[hash & (uint64_t)(tree->n_buckets - 1)];
    while (node && (node->hash != hash || node->parent != parent ||
                    memcmp(node->tokens, tokens, sizeof node->tokens) != 0))
        node = node->next_in_bucket;
    return node;
}

/* Doubles the buckets; without memory for it the chains just grow longer. */
static void grow_buckets(mica__prefix_tree *tree)
{
    const int64_t wanted = tree->n_buckets * 2;
    mica__prefix_node **grown =
        mica__alloc_zero(MICA_MEMORY_KV, (size_t)wanted, sizeof(mica__prefix_node *));
    if (!grown)
        return;
    for (int64_t i = 0; i < tree->n_buckets; i++)
        for (mica__prefix_node *node = tree->buckets[i], *next; node; node = next) {
            next = node->next_in_bucket;
            mica__prefix_node **bucket = &grown[node->hash & (uint64_t)(wanted - 1)];
            node->next_in_bucket = *bucket;
            *bucket = node;
        }
    mica__free(tree->buckets);
    tree->buckets = grown;
    tree->n_buckets = wanted;
}

static mica__prefix_node *add_child(mica__prefix_tree *tree, mica__prefix_node *parent,
                                    const int32_t *tokens)
{
    mica__prefix_node *node = mica__alloc_zero(MICA_MEMORY_KV, 1, sizeof *node);
    if (!node)
        return NULL;
    node->parent = parent;
    node->hash = hash_block(parent->hash, tokens);
    node->depth = parent->depth + 1;
    memcpy(node->tokens, tokens, sizeof node->tokens);
    for (int pool = 0; pool < MICA__KV_MAX_POOLS; pool++)
        node->blocks[pool] = -1;
    if (tree->n_nodes >= tree->n_buckets)
        grow_buckets(tree);
    mica__prefix_node **bucket = &tree->buckets[node->hash & (uint64_t)(tree->n_buckets - 1)];
    node->next_in_bucket = *bucket;
    *bucket = node;
    parent->n_children++;
    tree->n_nodes++;
    return node;
}

static void keep_block(mica__prefix_tree *tree, mica__prefix_node *node, int pool, int32_t block)
{
    mica__kv_pool_keep(&tree->pools[pool], block);
    node->blocks[pool] = block;
    if (is_listed(tree, pool))
        list_add(tree, pool, node);
}

static void unkeep_block(mica__prefix_tree *tree, mica__prefix_node *node, int pool)
{
    if (node->blocks[pool] < 0)
        return;
    if (is_listed(tree, pool))
        list_remove(tree, pool, node);
    mica__kv_pool_unkeep(&tree->pools[pool], node->blocks[pool]);
    node->blocks[pool] = -1;
}

static void remove_leaf(mica__prefix_tree *tree, mica__prefix_node *node)
{
    for (int pool = 0; pool < tree->n_pools; pool++)
        unkeep_block(tree, node, pool);
    mica__prefix_node **at = &tree->buckets[node->hash & (uint64_t)(tree->n_buckets - 1)];
    while (*at != node)
        at = &(*at)->next_in_bucket;
    *at = node->next_in_bucket;
    node->parent->n_children--;
    tree->n_nodes--;
    mica__free(node);
}

static bool holds_nothing(const mica__prefix_tree *tree, const mica__prefix_node *node)
{
    for (int pool = 0; pool < tree->n_pools; pool++)
        if (node->blocks[pool] >= 0)
            return false;
    return true;
}

/* Removes a leaf without blocks, and its parents while that makes them such leaves: models without
 * full attention leave them behind. */
static void prune(mica__prefix_tree *tree, mica__prefix_node *node)
{
    while (node != tree->root && node->n_children == 0 && holds_nothing(tree, node)) {
        mica__prefix_node *parent = node->parent;
        remove_leaf(tree, node);
        node = parent;
    }
}

/* --- opening and closing ---------------------------------------------------------------------- */

mica_status mica__prefix_open(mica__prefix_tree *tree, mica__kv_pool *pools, int n_pools)
{
    memset(tree, 0, sizeof *tree);
    tree->pools = pools;
    tree->n_pools = n_pools;
    tree->spine = -1;
    for (int pool = n_pools - 1; pool >= 0; pool--)
        if (pools[pool].spec.kind == MICA__POOL_FULL)
            tree->spine = pool;
    tree->n_buckets = 64;
    tree->root = mica__alloc_zero(MICA_MEMORY_KV, 1, sizeof *tree->root);
    tree->buckets =
        mica__alloc_zero(MICA_MEMORY_KV, (size_t)tree->n_buckets, sizeof(mica__prefix_node *));
    if (!tree->root || !tree->buckets) {
        mica__free(tree->root);
        mica__free(tree->buckets);
        memset(tree, 0, sizeof *tree);
        return MICA_E_MEMORY;
    }
    for (int pool = 0; pool < MICA__KV_MAX_POOLS; pool++)
        tree->root->blocks[pool] = -1;
    /* An address nobody outside knows: requests cannot be made to collide. */
    tree->root->hash = (uint64_t)(uintptr_t)tree->root * 0xd6e8feb86659fd93u;
    return MICA_OK;
}

void mica__prefix_close(mica__prefix_tree *tree)
{
    for (int64_t i = 0; i < tree->n_buckets; i++)
        for (mica__prefix_node *node = tree->buckets[i], *next; node; node = next) {
            next = node->next_in_bucket;
            for (int pool = 0; pool < tree->n_pools; pool++)
                unkeep_block(tree, node, pool);
            mica__free(node);
        }
    mica__free(tree->buckets);
    mica__free(tree->root);
    memset(tree, 0, sizeof *tree);
}

/* --- matching --------------------------------------------------------------------------------- */

/* The first block that the token at position n_tokens still sees in a window pool. */
static int64_t first_visible_block(const mica__pool_spec *spec, int64_t n_tokens)
{
    const int64_t first = n_tokens - spec->window + 1;
    return first > 0 ? first / BLOCK : 0;
}

/* Whether a sequence can go on behind `node`; in_row[pool] counts the nodes up to this one that
 * have the pool's block without a gap. */
static bool can_continue(const mica__prefix_tree *tree, const mica__prefix_node *node,
                         const int64_t in_row[MICA__KV_MAX_POOLS])
{
    for (int pool = 0; pool < tree->n_pools; pool++) {
        const mica__pool_spec *spec = &tree->pools[pool].spec;
        const int64_t first = first_visible_block(spec, node->depth * BLOCK);
        if (spec->kind == MICA__POOL_STATE    ? node->blocks[pool] < 0
            : spec->kind == MICA__POOL_WINDOW ? in_row[pool] < node->depth - first
                                              : in_row[pool] < node->depth)
            return false;
    }
    return true;
}

mica__prefix_hit mica__prefix_find(const mica__prefix_tree *tree, const int32_t *tokens,
                                   int64_t n_most)
{
    mica__prefix_hit hit = {tree->root, 0};
    int64_t in_row[MICA__KV_MAX_POOLS] = {0};
    const mica__prefix_node *at = tree->root;
    for (int64_t done = 0; done + BLOCK <= n_most; done += BLOCK) {
        mica__prefix_node *next = child_matching(tree, at, tokens + done);
        if (!next)
            break;
        for (int pool = 0; pool < tree->n_pools; pool++)
            in_row[pool] = next->blocks[pool] >= 0 ? in_row[pool] + 1 : 0;
        if (can_continue(tree, next, in_row))
            hit = (mica__prefix_hit){next, done + BLOCK};
        at = next;
    }
    return hit;
}

void mica__prefix_share(mica__prefix_tree *tree, const mica__prefix_hit *hit,
                        int32_t *const tables[MICA__KV_MAX_POOLS])
{
    tree->clock++;
    for (int pool = 0; pool < tree->n_pools; pool++) {
        const mica__pool_spec *spec = &tree->pools[pool].spec;
        if (spec->kind == MICA__POOL_STATE) {
            touch(tree, pool, hit->node);
            continue;
        }
        const int64_t first =
            spec->kind == MICA__POOL_WINDOW ? first_visible_block(spec, hit->n_tokens) : 0;
        /* Children are touched before their parents, so that leaves come first in the list. */
        for (mica__prefix_node *node = hit->node; node->parent; node = node->parent) {
            int32_t *entry = &tables[pool][node->depth - 1];
            *entry = node->depth - 1 >= first ? node->blocks[pool] : -1;
            if (*entry < 0)
                continue;
            mica__kv_pool_share(&tree->pools[pool], *entry);
            touch(tree, pool, node);
        }
    }
}

void mica__prefix_blocks(const mica__prefix_hit *hit, int pool, int32_t *blocks)
{
    for (const mica__prefix_node *node = hit->node; node->parent; node = node->parent)
        blocks[node->depth - 1] = node->blocks[pool];
}

int32_t mica__prefix_state(const mica__prefix_hit *hit, int pool)
{
    return hit->node->blocks[pool];
}

/* --- inserting -------------------------------------------------------------------------------- */

/* Makes node and the caller agree on the pool's block. */
static void merge_block(mica__prefix_tree *tree, mica__prefix_node *node, int pool, int32_t *own)
{
    if (*own < 0 || node->blocks[pool] == *own)
        return;
    if (node->blocks[pool] < 0) {
        keep_block(tree, node, pool, *own);
        return;
    }
    mica__kv_pool_share(&tree->pools[pool], node->blocks[pool]);
    mica__kv_pool_drop(&tree->pools[pool], *own);
    *own = node->blocks[pool];
}

void mica__prefix_insert(mica__prefix_tree *tree, const int32_t *tokens, int64_t n_tokens,
                         int32_t *const tables[MICA__KV_MAX_POOLS],
                         const int32_t checkpoint[MICA__KV_MAX_POOLS])
{
    mica__prefix_node *at = tree->root;
    int64_t done = 0;
    tree->clock++;
    for (; done + BLOCK <= n_tokens; done += BLOCK) {
        mica__prefix_node *next = child_matching(tree, at, tokens + done);
        if (!next)
            next = add_child(tree, at, tokens + done);
        if (!next)
            break;
        for (int pool = 0; pool < tree->n_pools; pool++)
            if (tree->pools[pool].spec.kind != MICA__POOL_STATE)
                merge_block(tree, next, pool, &tables[pool][done / BLOCK]);
        at = next;
    }
    const bool complete = at != tree->root && done + BLOCK > n_tokens;
    for (int pool = 0; complete && checkpoint && pool < tree->n_pools; pool++)
        if (tree->pools[pool].spec.kind == MICA__POOL_STATE && checkpoint[pool] >= 0 &&
            at->blocks[pool] < 0)
            keep_block(tree, at, pool, checkpoint[pool]);
    for (mica__prefix_node *node = at; tree->spine >= 0 && node->parent; node = node->parent)
        touch(tree, tree->spine, node);
    prune(tree, at);
}

/* --- eviction --------------------------------------------------------------------------------- */

static bool is_evictable(const mica__prefix_tree *tree, const mica__prefix_node *node, int pool)
{
    if (pool == tree->spine && node->n_children > 0)
        return false;
    return mica__kv_pool_is_evictable(&tree->pools[pool], node->blocks[pool]);
}

/* The least recently used evictable node of a pool's list. */
static mica__prefix_node *oldest_evictable(mica__prefix_tree *tree, int pool)
{
    const mica__prefix_list *list = &tree->lists[pool];
    if (!is_listed(tree, pool) || tree->pools[pool].n_evictable == 0)
        return NULL;
    for (int64_t left = list->length; left > 0; left--) {
        mica__prefix_node *node = list->oldest;
        if (is_evictable(tree, node, pool))
            return node;
        touch(tree, pool, node);
    }
    return NULL;
}

bool mica__prefix_evict(mica__prefix_tree *tree)
{
    mica__prefix_node *victim = NULL;
    int from = -1;
    for (int pool = 0; pool < tree->n_pools; pool++) {
        mica__prefix_node *node = oldest_evictable(tree, pool);
        if (node && (!victim || node->links[pool].used < victim->links[from].used)) {
            victim = node;
            from = pool;
        }
    }
    if (!victim)
        return false;
    if (from == tree->spine) {
        for (int pool = 0; pool < tree->n_pools; pool++)
            tree->n_evicted += victim->blocks[pool] >= 0;
        mica__prefix_node *parent = victim->parent;
        remove_leaf(tree, victim);
        prune(tree, parent);
        return true;
    }
    tree->n_evicted++;
    unkeep_block(tree, victim, from);
    prune(tree, victim);
    return true;
}
