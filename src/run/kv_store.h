/* kv_store.h - all KV pools of an engine, their budget and their prefix tree.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_KV_STORE_H
#define MICA_RUN_KV_STORE_H

#include "run/prefix_tree.h"

typedef struct mica__kv_store {
    mica__kv_budget budget;
    int n_pools;
    mica__kv_pool pools[MICA__KV_MAX_POOLS];
    mica__prefix_tree tree;
    bool caching; /* whether finished and paused sequences leave their blocks to the tree */
} mica__kv_store;

/* Opens the pools under one budget of `limit` bytes. A failed store is zero. */
mica_status mica__kv_store_open(mica__kv_store *store, const mica__pool_spec *specs, int n_pools,
                                int64_t limit, bool caching);

/* Frees everything; no sequence may use a block any more. A zero store is fine. */
void mica__kv_store_close(mica__kv_store *store);

/* As mica__kv_pool_take, evicting from the prefix tree what is least recently used until it
 * succeeds. */
mica_status mica__kv_store_take(mica__kv_store *store, int pool, int32_t near, int32_t *block);

/* Bytes of blocks that only the prefix tree holds. */
int64_t mica__kv_store_evictable(const mica__kv_store *store);

/* Empties the prefix tree of all that no sequence uses. */
void mica__kv_store_forget(mica__kv_store *store);

#endif
