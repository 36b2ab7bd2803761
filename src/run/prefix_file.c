/* prefix_file.c - writing the prefix tree's blocks of a token list.
 *
 * Everything that a block's bits depend on stands in the metadata, and each block's sum covers all
 * tokens up to it besides its bytes: what loads is what was computed for these tokens by this
 * model, or it does not load. Blocks are written from where they lie; nothing of their size is
 * allocated.
 * SPDX-License-Identifier: MIT
 */
#include "run/prefix_file.h"

#include <stdio.h>
#include <string.h>

#include "base/hash_map.h"
#include "io/safetensors_write.h"

#define BLOCK MICA__KV_BLOCK_TOKENS

/* --- what both directions share --------------------------------------------------------------- */

void mica__prefix_pools_text(const mica__kv_store *store, char text[MICA__PREFIX_POOLS_BYTES])
{
    static const char *const kinds[] = {
        [MICA__POOL_FULL] = "full", [MICA__POOL_WINDOW] = "window", [MICA__POOL_STATE] = "state"};
    int at = snprintf(text, MICA__PREFIX_POOLS_BYTES, "blocks of %d tokens", BLOCK);
    for (int pool = 0; pool < store->n_pools; pool++) {
        const mica__pool_spec *spec = &store->pools[pool].spec;
        at += snprintf(text + at, (size_t)(MICA__PREFIX_POOLS_BYTES - at), ", %s %lld: %lld bytes",
                       kinds[spec->kind], (long long)spec->window, (long long)spec->block_bytes);
    }
}

uint64_t mica__prefix_seed(uint64_t before, const int32_t *tokens)
{
    return mica__hash(tokens, BLOCK * sizeof *tokens, before);
}

uint64_t mica__prefix_sum(uint64_t seed, int pool, const uint8_t *bytes, int64_t n)
{
    return mica__hash(bytes, (size_t)n, seed + (uint64_t)pool);
}

/* --- saving ----------------------------------------------------------------------------------- */

typedef struct saver {
    const mica__kv_store *store;
    const mica__prefix_owner *owner;
    mica__st_writer *writer;
    const int32_t *tokens;
    int64_t n_blocks;
    int32_t *blocks[MICA__KV_MAX_POOLS]; /* [n_blocks] of the tree, -1 where it has none */
    int32_t *index;                      /* [n_blocks] of the pool being written */
    uint64_t *sums;                      /* [n_blocks] likewise */
    uint64_t *seeds;                     /* [n_blocks] */
} saver;

static mica_status collect(saver *s, const mica__prefix_hit *hit)
{
    const size_t n = (size_t)s->n_blocks;
    s->index = mica__alloc(MICA_MEMORY_KV, n * sizeof *s->index);
    s->sums = mica__alloc(MICA_MEMORY_KV, n * sizeof *s->sums);
    s->seeds = mica__alloc(MICA_MEMORY_KV, n * sizeof *s->seeds);
    if (!s->index || !s->sums || !s->seeds)
        return MICA_E_MEMORY;
    for (int64_t i = 0; i < s->n_blocks; i++)
        s->seeds[i] = mica__prefix_seed(i ? s->seeds[i - 1] : 0, s->tokens + i * BLOCK);
    for (int pool = 0; pool < s->store->n_pools; pool++) {
        s->blocks[pool] = mica__alloc(MICA_MEMORY_KV, n * sizeof(int32_t));
        if (!s->blocks[pool])
            return MICA_E_MEMORY;
        mica__prefix_blocks(hit, pool, s->blocks[pool]);
    }
    return MICA_OK;
}

static mica_status put_metadata(saver *s)
{
    char pools[MICA__PREFIX_POOLS_BYTES];
    const mica__identity *identity = &s->owner->identity;
    mica__prefix_pools_text(s->store, pools);
    MICA_TRY(mica__st_put_metadata(s->writer, "mica_prompt_cache", MICA__PREFIX_FILE_VERSION));
    MICA_TRY(mica__st_put_metadata(s->writer, "model", identity->model));
    MICA_TRY(mica__st_put_metadata(s->writer, "model_name", identity->name));
    MICA_TRY(mica__st_put_metadata(s->writer, "kv", identity->kv));
    MICA_TRY(mica__st_put_metadata(s->writer, "activations", identity->activations));
    return mica__st_put_metadata(s->writer, "pools", pools);
}

/* How many blocks the tree has in a pool; their places go to index. */
static int64_t list_blocks(saver *s, int pool)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_blocks; i++)
        if (s->blocks[pool][i] >= 0)
            s->index[n++] = (int32_t)i;
    return n;
}

static mica_status declare(saver *s)
{
    char name[32];
    const int64_t n_tokens = s->n_blocks * BLOCK;
    MICA_TRY(mica__st_declare(s->writer, "tokens", MICA__ST_I32, 1, &n_tokens));
    for (int pool = 0; pool < s->store->n_pools; pool++) {
        const int64_t shape[2] = {list_blocks(s, pool), s->store->pools[pool].spec.block_bytes};
        snprintf(name, sizeof name, "pool.%d.index", pool);
        MICA_TRY(mica__st_declare(s->writer, name, MICA__ST_I32, 1, shape));
        snprintf(name, sizeof name, "pool.%d.blocks", pool);
        MICA_TRY(mica__st_declare(s->writer, name, MICA__ST_U8, 2, shape));
        snprintf(name, sizeof name, "pool.%d.sums", pool);
        MICA_TRY(mica__st_declare(s->writer, name, MICA__ST_U64, 1, shape));
    }
    return MICA_OK;
}

static mica_status write_pool(saver *s, int pool)
{
    const mica__kv_pool *from = &s->store->pools[pool];
    const int64_t n = list_blocks(s, pool), bytes = from->spec.block_bytes;
    MICA_TRY(mica__st_write(s->writer, s->index, n * (int64_t)sizeof *s->index));
    for (int64_t k = 0; k < n; k++) {
        const int32_t i = s->index[k];
        const uint8_t *block = mica__kv_pool_block(from, s->blocks[pool][i]);
        s->sums[k] = mica__prefix_sum(s->seeds[i], pool, block, bytes);
        MICA_TRY(mica__st_write(s->writer, block, bytes));
    }
    return mica__st_write(s->writer, s->sums, n * (int64_t)sizeof *s->sums);
}

static mica_status write_all(saver *s, const char *path)
{
    MICA_TRY(mica__st_writer_open(path, &s->writer));
    MICA_TRY(put_metadata(s));
    MICA_TRY(declare(s));
    MICA_TRY(
        mica__st_write(s->writer, s->tokens, s->n_blocks * BLOCK * (int64_t)sizeof *s->tokens));
    for (int pool = 0; pool < s->store->n_pools; pool++)
        MICA_TRY(write_pool(s, pool));
    mica__st_writer *writer = s->writer;
    s->writer = NULL;
    return mica__st_writer_finish(writer);
}

mica_status mica__prefix_save(const mica__kv_store *store, const mica__prefix_owner *owner,
                              const int32_t *tokens, int64_t n_tokens, const char *path,
                              int64_t *n_saved)
{
    const mica__prefix_hit hit = mica__prefix_find(&store->tree, tokens, n_tokens);
    *n_saved = 0;
    if (hit.n_tokens == 0)
        MICA_FAIL(
            MICA_E_NOT_FOUND,
            "the prefix cache holds no whole block of %d tokens of these %lld: nothing to save",
            BLOCK, (long long)n_tokens);
    saver s = {.store = store, .owner = owner, .tokens = tokens, .n_blocks = hit.n_tokens / BLOCK};
    mica_status status = collect(&s, &hit);
    if (status == MICA_OK)
        status = write_all(&s, path);
    mica__st_writer_discard(s.writer);
    for (int pool = 0; pool < store->n_pools; pool++)
        mica__free(s.blocks[pool]);
    mica__free(s.index);
    mica__free(s.sums);
    mica__free(s.seeds);
    if (status == MICA_OK)
        *n_saved = hit.n_tokens;
    return status;
}
