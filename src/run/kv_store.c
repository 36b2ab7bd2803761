/* kv_store.c - all KV pools of an engine, their budget and their prefix tree.
 *
 * Joins what knows nothing of each other: pools take bytes from the budget, the tree keeps blocks
 * alive, and a take that the budget refuses evicts from the tree first.
 * SPDX-License-Identifier: MIT
 */
#include "run/kv_store.h"

#include <string.h>
#include <unistd.h>

static mica_status check_spec(const mica__pool_spec *spec, int index)
{
    if (spec->kind != MICA__POOL_FULL && spec->kind != MICA__POOL_WINDOW &&
        spec->kind != MICA__POOL_STATE)
        MICA_FAIL(MICA_E_ARGUMENT, "KV pool %d is of unknown kind %d", index, (int)spec->kind);
    if (spec->block_bytes < 1)
        MICA_FAIL(MICA_E_ARGUMENT, "KV pool %d has blocks of %lld bytes", index,
                  (long long)spec->block_bytes);
    if (spec->kind == MICA__POOL_WINDOW && spec->window < 1)
        MICA_FAIL(MICA_E_ARGUMENT, "KV pool %d has a window of %lld tokens", index,
                  (long long)spec->window);
    return MICA_OK;
}

/* The address space for all pools, each able to hold the whole budget. */
static mica_status reserve_for(const mica__pool_spec *specs, int n_pools, int64_t limit,
                               int64_t *reserve)
{
    const int64_t page = (int64_t)sysconf(_SC_PAGESIZE);
    *reserve = 1;
    for (int pool = 0; pool < n_pools; pool++) {
        MICA_TRY(check_spec(&specs[pool], pool));
        const int64_t blocks = mica__kv_pool_blocks(&specs[pool], limit);
        if (blocks < 1 || limit < page)
            MICA_FAIL(MICA_E_MEMORY,
                      "the KV budget of %lld bytes is less than one block of KV pool %d, %lld "
                      "bytes for %d tokens: give the KV cache more memory",
                      (long long)limit, pool, (long long)specs[pool].block_bytes,
                      MICA__KV_BLOCK_TOKENS);
        const int64_t cost = mica__kv_range_cost(blocks * specs[pool].block_bytes);
        if (cost == 0 || !mica__add_i64(*reserve, cost, reserve))
            MICA_FAIL(MICA_E_ARGUMENT, "a KV budget of %lld bytes cannot be represented",
                      (long long)limit);
    }
    return MICA_OK;
}

mica_status mica__kv_store_open(mica__kv_store *store, const mica__pool_spec *specs, int n_pools,
                                int64_t limit, bool caching)
{
    mica_status status;
    int64_t reserve;
    memset(store, 0, sizeof *store);
    if (n_pools < 0 || n_pools > MICA__KV_MAX_POOLS)
        MICA_FAIL(MICA_E_ARGUMENT, "%d KV pools; at most %d are possible", n_pools,
                  MICA__KV_MAX_POOLS);
    MICA_TRY(reserve_for(specs, n_pools, limit, &reserve));
    MICA_TRY(mica__kv_budget_open(&store->budget, limit, reserve));
    for (int pool = 0; pool < n_pools; pool++)
        MICA_TRY_OUT(mica__kv_pool_open(&store->pools[pool], &specs[pool], &store->budget));
    MICA_TRY_OUT(mica__prefix_open(&store->tree, store->pools, n_pools));
    store->n_pools = n_pools;
    store->caching = caching;
out:
    if (status != MICA_OK)
        mica__kv_store_close(store);
    return status;
}

void mica__kv_store_close(mica__kv_store *store)
{
    mica__prefix_close(&store->tree);
    for (int pool = 0; pool < MICA__KV_MAX_POOLS; pool++)
        if (store->pools[pool].n_blocks)
            mica__kv_pool_close(&store->pools[pool]);
    mica__kv_budget_close(&store->budget);
    memset(store, 0, sizeof *store);
}

mica_status mica__kv_store_take(mica__kv_store *store, int pool, int32_t near, int32_t *block)
{
    for (;;) {
        const mica_status status = mica__kv_pool_take(&store->pools[pool], near, block);
        if (status != MICA_E_MEMORY || !mica__prefix_evict(&store->tree))
            return status;
    }
}

int64_t mica__kv_store_evictable(const mica__kv_store *store)
{
    int64_t bytes = 0;
    for (int pool = 0; pool < store->n_pools; pool++)
        bytes += store->pools[pool].n_evictable * store->pools[pool].spec.block_bytes;
    return bytes;
}

void mica__kv_store_forget(mica__kv_store *store)
{
    while (mica__prefix_evict(&store->tree))
        ;
}
