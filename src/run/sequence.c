/* sequence.c - one output in the making: its tokens and the KV blocks it holds.
 *
 * A sequence owns one reference to every block in its tables. Invariant: it writes only into blocks
 * that are its alone. Positions are written from `computed` on, and what the tree shares are whole
 * blocks below that; adopted prefixes end at a block's border.
 * SPDX-License-Identifier: MIT
 */
#include "run/sequence.h"

#include <assert.h>
#include <string.h>

#define BLOCK MICA__KV_BLOCK_TOKENS

/* --- life ------------------------------------------------------------------------------------- */

mica__sequence *mica__sequence_new(mica__request *request, const int32_t *prompt, int64_t n_prompt,
                                   int64_t max_tokens)
{
    mica__sequence *sequence = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *sequence);
    if (!sequence)
        return NULL;
    request->references++;
    sequence->request = request;
    for (int pool = 0; pool < MICA__KV_MAX_POOLS; pool++)
        sequence->slots[pool] = -1;
    sequence->n_tokens = sequence->n_prompt = n_prompt;
    sequence->max_tokens = max_tokens;
    sequence->next_logits = request->given.on_logits ? request->given.logits_from : INT64_MAX;
    sequence->token_capacity = n_prompt + 64;
    sequence->tokens =
        mica__alloc(MICA_MEMORY_OTHER, (size_t)sequence->token_capacity * sizeof *prompt);
    if (!sequence->tokens || mica__stop_watch_open(&sequence->watch, &request->stops) != MICA_OK) {
        mica__sequence_free(sequence);
        return NULL;
    }
    memcpy(sequence->tokens, prompt, (size_t)n_prompt * sizeof *prompt);
    return sequence;
}

void mica__sequence_free(mica__sequence *sequence)
{
    if (!sequence)
        return;
    for (int pool = 0; pool < MICA__KV_MAX_POOLS; pool++) {
        assert(sequence->held[pool] == 0 && sequence->slots[pool] < 0);
        mica__free(sequence->tables[pool]);
    }
    mica__free(sequence->tokens);
    mica__stop_watch_close(&sequence->watch);
    mica__request_release(sequence->request);
    mica__free(sequence);
}

int64_t mica__sequence_most_positions(const mica__sequence *sequence)
{
    const int64_t most = sequence->max_tokens - 1;
    return most > sequence->n_prompt ? most : sequence->n_prompt;
}

mica_status mica__sequence_reserve_token(mica__sequence *sequence)
{
    return mica__grow(MICA_MEMORY_OTHER, (void **)&sequence->tokens, sizeof *sequence->tokens,
                      sequence->n_tokens + 1, &sequence->token_capacity);
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Makes every pool's table cover n entries; new ones are -1. */
static mica_status cover_tables(mica__sequence *sequence, const mica__kv_store *store, int64_t n)
{
    if (n <= sequence->table_capacity)
        return MICA_OK;
    int64_t wanted = sequence->table_capacity * 2;
    if (wanted < n)
        wanted = n + 4;
    for (int pool = 0; pool < store->n_pools; pool++) {
        int32_t *grown =
            mica__realloc(MICA_MEMORY_KV, sequence->tables[pool], (size_t)wanted * sizeof *grown);
        if (!grown)
            return MICA_E_MEMORY;
        sequence->tables[pool] = grown;
        for (int64_t i = sequence->table_capacity; i < wanted; i++)
            grown[i] = -1;
    }
    sequence->table_capacity = wanted;
    return MICA_OK;
}

/* How much of the history may come from the cache: the last token's logits are needed, and so are
 * those that the request wants to see. */
static int64_t most_adoptable(const mica__sequence *sequence)
{
    const int64_t most = sequence->n_tokens - 1;
    return sequence->next_logits < most ? sequence->next_logits : most;
}

mica_status mica__sequence_adopt(mica__sequence *sequence, mica__kv_store *store,
                                 int64_t n_positions)
{
    MICA_TRY(cover_tables(sequence, store, (n_positions + BLOCK - 1) / BLOCK));
    mica__prefix_hit hit = {store->tree.root, 0};
    if (store->caching)
        hit = mica__prefix_find(&store->tree, sequence->tokens, most_adoptable(sequence));
    if (hit.n_tokens == 0)
        hit.node = store->tree.root;
    mica__prefix_share(&store->tree, &hit, sequence->tables);
    sequence->computed = hit.n_tokens;
    sequence->table_used = hit.n_tokens / BLOCK;
    for (int pool = 0; pool < store->n_pools; pool++) {
        if (store->pools[pool].spec.kind == MICA__POOL_STATE) {
            sequence->slots[pool] = mica__prefix_state(&hit, pool);
            if (sequence->slots[pool] >= 0)
                mica__kv_pool_share(&store->pools[pool], sequence->slots[pool]);
            continue;
        }
        for (int64_t i = 0; i < sequence->table_used; i++)
            sequence->held[pool] += sequence->tables[pool][i] >= 0;
    }
    return MICA_OK;
}

/* Gives the sequence a slot of its own, with the content of its checkpoint or zeros. */
static mica_status take_slot(mica__sequence *sequence, mica__kv_store *store, int pool)
{
    mica__kv_pool *slots = &store->pools[pool];
    const int32_t checkpoint = sequence->slots[pool];
    int32_t slot;
    if (sequence->held[pool] > 0)
        return MICA_OK;
    MICA_TRY(mica__kv_store_take(store, pool, -1, &slot));
    uint8_t *bytes = mica__kv_pool_block(slots, slot);
    if (checkpoint >= 0) {
        memcpy(bytes, mica__kv_pool_block(slots, checkpoint), (size_t)slots->spec.block_bytes);
        mica__kv_pool_drop(slots, checkpoint);
    } else {
        memset(bytes, 0, (size_t)slots->spec.block_bytes);
    }
    sequence->slots[pool] = slot;
    sequence->held[pool] = 1;
    return MICA_OK;
}

static mica_status take_blocks(mica__sequence *sequence, mica__kv_store *store, int pool,
                               int64_t end)
{
    int32_t *table = sequence->tables[pool];
    for (int64_t i = sequence->computed / BLOCK; i < end; i++) {
        if (table[i] >= 0)
            continue;
        MICA_TRY(mica__kv_store_take(store, pool, i > 0 ? table[i - 1] : -1, &table[i]));
        sequence->held[pool]++;
        if (i >= sequence->table_used)
            sequence->table_used = i + 1;
    }
    return MICA_OK;
}

mica_status mica__sequence_take(mica__sequence *sequence, mica__kv_store *store,
                                mica__pool_kind kind, int64_t to)
{
    const int64_t end = (to + BLOCK - 1) / BLOCK;
    MICA_TRY(cover_tables(sequence, store, end));
    for (int pool = 0; pool < store->n_pools; pool++) {
        if (store->pools[pool].spec.kind != kind)
            continue;
        MICA_TRY(kind == MICA__POOL_STATE ? take_slot(sequence, store, pool)
                                          : take_blocks(sequence, store, pool, end));
    }
    return MICA_OK;
}

/* --- giving blocks up ------------------------------------------------------------------------- */

int64_t mica__sequence_checkpoint_at(const mica__sequence *sequence)
{
    return (sequence->n_prompt - 1) / BLOCK * BLOCK;
}

/* A copy of the live state for the tree, -1 where there is none to keep or no room for it. */
static int32_t copy_state(const mica__sequence *sequence, mica__kv_store *store, int pool)
{
    int32_t copy;
    if (store->pools[pool].spec.kind != MICA__POOL_STATE || sequence->held[pool] == 0 ||
        mica__kv_store_take(store, pool, -1, &copy) != MICA_OK)
        return -1;
    memcpy(mica__kv_pool_block(&store->pools[pool], copy),
           mica__kv_pool_block(&store->pools[pool], sequence->slots[pool]),
           (size_t)store->pools[pool].spec.block_bytes);
    return copy;
}

void mica__sequence_publish(mica__sequence *sequence, mica__kv_store *store, int64_t to)
{
    int32_t checkpoint[MICA__KV_MAX_POOLS] = {-1, -1, -1, -1};
    if (!store->caching || to < BLOCK)
        return;
    const bool at_state = to == sequence->computed && to % BLOCK == 0 &&
                          to == mica__sequence_checkpoint_at(sequence) &&
                          mica__prefix_find(&store->tree, sequence->tokens, to).n_tokens < to;
    for (int pool = 0; pool < store->n_pools && at_state; pool++)
        checkpoint[pool] = copy_state(sequence, store, pool);
    mica__prefix_insert(&store->tree, sequence->tokens, to, sequence->tables, checkpoint);
    for (int pool = 0; pool < store->n_pools; pool++)
        if (checkpoint[pool] >= 0)
            mica__kv_pool_drop(&store->pools[pool], checkpoint[pool]);
}

static void drop_entries(mica__sequence *sequence, mica__kv_store *store, int pool, int64_t end)
{
    for (int64_t i = sequence->passed[pool]; i < end; i++) {
        int32_t *entry = &sequence->tables[pool][i];
        if (*entry < 0)
            continue;
        mica__kv_pool_drop(&store->pools[pool], *entry);
        *entry = -1;
        sequence->held[pool]--;
    }
}

void mica__sequence_pass(mica__sequence *sequence, mica__kv_store *store)
{
    for (int pool = 0; pool < store->n_pools; pool++) {
        const mica__pool_spec *spec = &store->pools[pool].spec;
        const int64_t first = sequence->computed / BLOCK * BLOCK - spec->window + 1;
        if (spec->kind != MICA__POOL_WINDOW || first / BLOCK <= sequence->passed[pool])
            continue;
        drop_entries(sequence, store, pool, first / BLOCK);
        sequence->passed[pool] = first / BLOCK;
    }
}

void mica__sequence_drop(mica__sequence *sequence, mica__kv_store *store)
{
    for (int pool = 0; pool < store->n_pools; pool++) {
        if (store->pools[pool].spec.kind != MICA__POOL_STATE)
            drop_entries(sequence, store, pool, sequence->table_used);
        else if (sequence->slots[pool] >= 0)
            mica__kv_pool_drop(&store->pools[pool], sequence->slots[pool]);
        sequence->slots[pool] = -1;
        sequence->held[pool] = 0;
        sequence->passed[pool] = 0;
    }
    sequence->computed = 0;
    sequence->table_used = 0;
    sequence->promised = 0;
}
