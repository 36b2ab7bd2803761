/* kv_pool.c - which blocks of a pool are in use, and the pages under them.
 *
 * Blocks need not be whole pages, so neighbours may share one: a page is committed exactly when a
 * live block overlaps it. Placement prefers the block behind the sequence's last one, then the
 * start of a run of eight free blocks, so that a sequence's blocks lie side by side even when many
 * grow together.
 * SPDX-License-Identifier: MIT
 */
#include "run/kv_pool.h"

#include <assert.h>
#include <string.h>

int64_t mica__kv_pool_blocks(const mica__pool_spec *spec, int64_t limit)
{
    const int64_t blocks = limit / spec->block_bytes;
    return blocks < INT32_MAX ? blocks : INT32_MAX - 1;
}

mica_status mica__kv_pool_open(mica__kv_pool *pool, const mica__pool_spec *spec,
                               mica__kv_budget *budget)
{
    memset(pool, 0, sizeof *pool);
    const int64_t blocks = mica__kv_pool_blocks(spec, budget->limit);
    if (blocks < 1)
        MICA_FAIL(MICA_E_MEMORY, "a KV block of %lld bytes does not fit into the budget of %lld",
                  (long long)spec->block_bytes, (long long)budget->limit);
    MICA_TRY(mica__kv_budget_carve(budget, blocks * spec->block_bytes, &pool->range));
    pool->spec = *spec;
    pool->n_blocks = blocks;
    return MICA_OK;
}

static bool bit(const uint64_t *bits, int64_t i)
{
    return (bits[i / 64] >> (i % 64)) & 1;
}

static void set_bit(uint64_t *bits, int64_t i)
{
    bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static void clear_bit(uint64_t *bits, int64_t i)
{
    bits[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static bool is_live(const mica__kv_pool *pool, int64_t block)
{
    return block >= 0 && block < pool->capacity && bit(pool->live, block);
}

/* --- pages ------------------------------------------------------------------------------------ */

/* Whether a live block other than `block` overlaps the page at byte offset `page`. */
static bool page_is_shared(const mica__kv_pool *pool, int64_t block, int64_t page)
{
    const int64_t size = pool->spec.block_bytes;
    const int64_t last = (page + pool->range.budget->page_bytes - 1) / size;
    for (int64_t other = page / size; other <= last; other++)
        if (other != block && is_live(pool, other))
            return true;
    return false;
}

/* The pages that only `block` needs: [from, to) in bytes, empty when neighbours hold them all. */
static void own_pages(const mica__kv_pool *pool, int64_t block, int64_t *from, int64_t *to)
{
    const int64_t page = pool->range.budget->page_bytes, size = pool->spec.block_bytes;
    *from = block * size / page * page;
    *to = ((block + 1) * size + page - 1) / page * page;
    if (page_is_shared(pool, block, *from))
        *from += page;
    if (*to > *from && page_is_shared(pool, block, *to - page))
        *to -= page;
}

int64_t mica__kv_pool_worst_bytes(const mica__kv_pool *pool)
{
    const int64_t page = pool->range.budget->page_bytes, size = pool->spec.block_bytes;
    if (size % page == 0)
        return size;
    if (page % size == 0)
        return page;
    return ((size - 2) / page + 2) * page;
}

/* --- placement -------------------------------------------------------------------------------- */

/* The first free block at the start of eight free ones in a row, else the first free one; -1 when
 * all are live. Blocks beyond the arrays are free. */
static int64_t find_free(const mica__kv_pool *pool)
{
    int64_t single = -1;
    for (int64_t w = 0; w < pool->capacity / 64; w++) {
        const uint64_t word = pool->live[w];
        if (word == UINT64_MAX)
            continue;
        for (int k = 0; k < 8; k++) {
            const int64_t first = w * 64 + k * 8;
            if ((word >> (k * 8) & 0xff) == 0 && first + 8 <= pool->n_blocks)
                return first;
        }
        const int64_t free_block = w * 64 + __builtin_ctzll(~word);
        if (single < 0 && free_block < pool->n_blocks)
            single = free_block;
    }
    if (pool->capacity < pool->n_blocks)
        return pool->capacity;
    return single;
}

/* Makes the arrays cover `block`; new entries are free. */
static mica_status cover(mica__kv_pool *pool, int64_t block)
{
    if (block < pool->capacity)
        return MICA_OK;
    int64_t wanted = pool->capacity ? pool->capacity * 2 : 64;
    while (wanted <= block)
        wanted *= 2;
    const size_t words = (size_t)wanted / 64, old_words = (size_t)pool->capacity / 64;
    int32_t *references = mica__alloc_zero(MICA_MEMORY_KV, (size_t)wanted, sizeof *references);
    uint64_t *bits = mica__alloc_zero(MICA_MEMORY_KV, words * 2, sizeof *bits);
    if (!references || !bits) {
        mica__free(references);
        mica__free(bits);
        return MICA_E_MEMORY;
    }
    if (pool->capacity) {
        memcpy(references, pool->references, (size_t)pool->capacity * sizeof *references);
        memcpy(bits, pool->live, old_words * sizeof *bits);
        memcpy(bits + words, pool->kept, old_words * sizeof *bits);
    }
    mica__free(pool->references);
    mica__free(pool->live);
    pool->references = references;
    pool->live = bits;
    pool->kept = bits + words;
    pool->capacity = wanted;
    return MICA_OK;
}

mica_status mica__kv_pool_take(mica__kv_pool *pool, int32_t near, int32_t *block)
{
    int64_t found = (int64_t)near + 1;
    if (near < 0 || found >= pool->n_blocks || is_live(pool, found))
        found = find_free(pool);
    if (found < 0)
        MICA_FAIL(
            MICA_E_MEMORY,
            "the KV budget of %lld bytes is used up: all %lld blocks of %lld bytes are in use",
            (long long)pool->range.budget->limit, (long long)pool->n_blocks,
            (long long)pool->spec.block_bytes);
    MICA_TRY(cover(pool, found));
    int64_t from, to;
    own_pages(pool, found, &from, &to);
    MICA_TRY(mica__kv_range_commit(&pool->range, from, to));
    pool->references[found] = 1;
    set_bit(pool->live, found);
    pool->n_live++;
    *block = (int32_t)found;
    return MICA_OK;
}

/* --- references ------------------------------------------------------------------------------- */

void mica__kv_pool_share(mica__kv_pool *pool, int32_t block)
{
    assert(is_live(pool, block));
    if (mica__kv_pool_is_evictable(pool, block))
        pool->n_evictable--;
    pool->references[block]++;
}

static void free_block(mica__kv_pool *pool, int32_t block)
{
    int64_t from, to;
    clear_bit(pool->live, block);
    pool->n_live--;
    own_pages(pool, block, &from, &to);
    mica__kv_range_release(&pool->range, from, to);
}

void mica__kv_pool_drop(mica__kv_pool *pool, int32_t block)
{
    assert(is_live(pool, block));
    if (--pool->references[block] == 0)
        free_block(pool, block);
    else if (mica__kv_pool_is_evictable(pool, block))
        pool->n_evictable++;
}

void mica__kv_pool_keep(mica__kv_pool *pool, int32_t block)
{
    assert(is_live(pool, block) && !bit(pool->kept, block));
    pool->references[block]++;
    set_bit(pool->kept, block);
}

void mica__kv_pool_unkeep(mica__kv_pool *pool, int32_t block)
{
    assert(is_live(pool, block) && bit(pool->kept, block));
    if (mica__kv_pool_is_evictable(pool, block))
        pool->n_evictable--;
    clear_bit(pool->kept, block);
    if (--pool->references[block] == 0)
        free_block(pool, block);
}

bool mica__kv_pool_is_evictable(const mica__kv_pool *pool, int32_t block)
{
    return pool->references[block] == 1 && bit(pool->kept, block);
}

uint8_t *mica__kv_pool_block(const mica__kv_pool *pool, int32_t block)
{
    return pool->range.base + (int64_t)block * pool->spec.block_bytes;
}

void mica__kv_pool_close(mica__kv_pool *pool)
{
    for (int64_t b = 0; b < pool->capacity; b++)
        if (bit(pool->live, b))
            free_block(pool, (int32_t)b);
    mica__free(pool->references);
    mica__free(pool->live);
    memset(pool, 0, sizeof *pool);
}
