/* prefix_file_load.c - putting a file's blocks into the prefix tree.
 *
 * The file is not trusted: its lists are checked against each other and against the engine before a
 * block is taken, and every block against its sum before anything reaches the tree. Blocks are read
 * straight into their pools, in the order of the prompt, so that what does not fit any more is its
 * end; window blocks that nobody behind them needs are given up for those that follow.
 * SPDX-License-Identifier: MIT
 */
#include "run/prefix_file.h"

#include <stdio.h>
#include <string.h>

#include "io/safetensors_reader.h"
#include "io/shown.h"

#define BLOCK      MICA__KV_BLOCK_TOKENS
#define MAX_HEADER ((int64_t)1 << 16)

/* A pool's part of the file, and what came of it. */
typedef struct pool_part {
    const mica__st_tensor *blocks; /* [n, block_bytes] */
    int32_t *index;                /* [n] */
    uint64_t *sums;                /* [n] */
    int64_t n;
    int64_t next;   /* the first that is not dealt with */
    int32_t *table; /* [table_length] blocks taken, -1 elsewhere */
    int64_t passed; /* entries before this are -1: given up */
} pool_part;

typedef struct loader {
    mica__kv_store *store;
    const mica__prefix_owner *owner;
    mica__st_reader *file;
    int32_t *tokens; /* [n_stored] */
    int64_t n_stored;
    int64_t n_blocks;     /* that match and are to be loaded; then, that were */
    int64_t table_length; /* of the tables below */
    pool_part parts[MICA__KV_MAX_POOLS];
} loader;

/* --- identity --------------------------------------------------------------------------------- */

static mica_status refuse(const char *what, const char *theirs, const char *ours)
{
    char shown[MICA__SHOWN_BYTES];
    return mica__fail(MICA_E_ARGUMENT, "a prompt cache made with %s %s cannot be used with %s %s",
                      what, mica__shown(shown, theirs, (int64_t)strlen(theirs)), what, ours);
}

static mica_status need_metadata(const loader *l, const char *key, const char **value)
{
    *value = mica__st_reader_metadata(l->file, key);
    if (!*value)
        MICA_FAIL(MICA_E_FORMAT, "a prompt cache without the metadata \"%s\"", key);
    return MICA_OK;
}

static mica_status check_model(const loader *l)
{
    const mica__identity *ours = &l->owner->identity;
    const char *model, *name;
    char shown_model[MICA__SHOWN_BYTES], shown_name[MICA__SHOWN_BYTES];
    MICA_TRY(need_metadata(l, "model", &model));
    MICA_TRY(need_metadata(l, "model_name", &name));
    if (strcmp(model, ours->model) != 0)
        MICA_FAIL(MICA_E_ARGUMENT,
                  "a prompt cache made by the model \"%s\" (%s) cannot be used with \"%s\" (%s)",
                  mica__shown(shown_name, name, (int64_t)strlen(name)),
                  mica__shown(shown_model, model, (int64_t)strlen(model)), ours->name, ours->model);
    return MICA_OK;
}

static mica_status check_identity(const loader *l)
{
    const mica__identity *ours = &l->owner->identity;
    const char *version = mica__st_reader_metadata(l->file, "mica_prompt_cache"), *theirs;
    char pools[MICA__PREFIX_POOLS_BYTES], shown[MICA__SHOWN_BYTES];
    if (!version)
        MICA_FAIL(MICA_E_FORMAT, "a safetensors file, but no prompt cache of mica");
    if (strcmp(version, MICA__PREFIX_FILE_VERSION) != 0)
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "a prompt cache of version %s, this version of mica reads and writes "
                  "version " MICA__PREFIX_FILE_VERSION,
                  mica__shown(shown, version, (int64_t)strlen(version)));
    MICA_TRY(check_model(l));
    MICA_TRY(need_metadata(l, "kv", &theirs));
    if (strcmp(theirs, ours->kv) != 0)
        return refuse("KV type", theirs, ours->kv);
    MICA_TRY(need_metadata(l, "activations", &theirs));
    if (strcmp(theirs, ours->activations) != 0)
        return refuse("activations", theirs, ours->activations);
    MICA_TRY(need_metadata(l, "pools", &theirs));
    mica__prefix_pools_text(l->store, pools);
    if (strcmp(theirs, pools) != 0)
        return refuse("the KV layout", theirs, pools);
    return MICA_OK;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* A list of the file in memory; n is its length. */
static mica_status read_list(const loader *l, const char *name, mica__st_type type, void *list,
                             int64_t *n)
{
    const mica__st_tensor *tensor = mica__st_reader_find(l->file, name);
    if (!tensor || tensor->type != type || tensor->n_dims != 1)
        MICA_FAIL(MICA_E_FORMAT, "a prompt cache needs a list \"%s\" of type %s", name,
                  mica__st_type_name(type));
    void *read = mica__alloc(MICA_MEMORY_KV, (size_t)tensor->bytes);
    if (!read)
        return MICA_E_MEMORY;
    memcpy(list, &read, sizeof read); /* the caller frees it, whatever happens */
    *n = tensor->shape[0];
    return mica__st_reader_read(l->file, tensor, 0, read, tensor->bytes);
}

static mica_status read_tokens(loader *l)
{
    MICA_TRY(read_list(l, "tokens", MICA__ST_I32, &l->tokens, &l->n_stored));
    if (l->n_stored < BLOCK || l->n_stored % BLOCK || l->n_stored > INT32_MAX)
        MICA_FAIL(MICA_E_FORMAT,
                  "a prompt cache of %lld tokens, where whole blocks of %d are needed",
                  (long long)l->n_stored, BLOCK);
    for (int64_t i = 0; i < l->n_stored; i++)
        if (l->tokens[i] < 0 || l->tokens[i] >= l->owner->n_vocab)
            MICA_FAIL(MICA_E_FORMAT,
                      "token %lld of the prompt cache is %d, outside the vocabulary of "
                      "%lld",
                      (long long)i, (int)l->tokens[i], (long long)l->owner->n_vocab);
    return MICA_OK;
}

static mica_status check_index(const loader *l, int pool)
{
    const pool_part *part = &l->parts[pool];
    const int64_t n_blocks = l->n_stored / BLOCK;
    for (int64_t k = 0; k < part->n; k++)
        if (part->index[k] < 0 || part->index[k] >= n_blocks ||
            (k > 0 && part->index[k] <= part->index[k - 1]))
            MICA_FAIL(MICA_E_FORMAT,
                      "pool.%d.index: entry %lld is %d, where ascending numbers below "
                      "%lld are needed",
                      pool, (long long)k, (int)part->index[k], (long long)n_blocks);
    if (l->store->pools[pool].spec.kind == MICA__POOL_FULL && part->n != n_blocks)
        MICA_FAIL(MICA_E_FORMAT, "pool.%d.index has %lld of %lld blocks", pool, (long long)part->n,
                  (long long)n_blocks);
    return MICA_OK;
}

static mica_status read_part(loader *l, int pool)
{
    char name[32];
    pool_part *part = &l->parts[pool];
    int64_t n_sums;
    snprintf(name, sizeof name, "pool.%d.index", pool);
    MICA_TRY(read_list(l, name, MICA__ST_I32, &part->index, &part->n));
    MICA_TRY(check_index(l, pool));
    snprintf(name, sizeof name, "pool.%d.sums", pool);
    MICA_TRY(read_list(l, name, MICA__ST_U64, &part->sums, &n_sums));
    snprintf(name, sizeof name, "pool.%d.blocks", pool);
    part->blocks = mica__st_reader_find(l->file, name);
    if (!part->blocks || part->blocks->type != MICA__ST_U8 || part->blocks->n_dims != 2 ||
        part->blocks->shape[0] != part->n || n_sums != part->n ||
        part->blocks->shape[1] != l->store->pools[pool].spec.block_bytes)
        MICA_FAIL(MICA_E_FORMAT, "pool.%d: %lld blocks of %lld bytes and their sums are not there",
                  pool, (long long)part->n, (long long)l->store->pools[pool].spec.block_bytes);
    return MICA_OK;
}

/* Reads and checks everything but the blocks. */
static mica_status read_lists(loader *l)
{
    MICA_TRY(read_tokens(l));
    for (int pool = 0; pool < l->store->n_pools; pool++)
        MICA_TRY(read_part(l, pool));
    if (mica__st_reader_n_tensors(l->file) != 1 + 3 * l->store->n_pools)
        MICA_FAIL(MICA_E_FORMAT, "a prompt cache with more tensors than its pools have");
    return MICA_OK;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static mica_status make_tables(loader *l)
{
    l->table_length = l->n_blocks;
    for (int pool = 0; pool < l->store->n_pools; pool++) {
        int32_t *table = mica__alloc(MICA_MEMORY_KV, (size_t)l->n_blocks * sizeof *table);
        if (!table)
            return MICA_E_MEMORY;
        for (int64_t i = 0; i < l->n_blocks; i++)
            table[i] = -1;
        l->parts[pool].table = table;
    }
    return MICA_OK;
}

static void drop_entries(loader *l, int pool, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        int32_t *entry = &l->parts[pool].table[i];
        if (*entry >= 0)
            mica__kv_pool_drop(&l->store->pools[pool], *entry);
        *entry = -1;
    }
}

/* Gives up the window blocks that no token behind block i - 1 sees; whether there were any. */
static bool give_up_passed(loader *l, int64_t i)
{
    bool any = false;
    for (int pool = 0; pool < l->store->n_pools; pool++) {
        const mica__pool_spec *spec = &l->store->pools[pool].spec;
        pool_part *part = &l->parts[pool];
        const int64_t first = (i * BLOCK - spec->window + 1) / BLOCK;
        if (spec->kind != MICA__POOL_WINDOW || first <= part->passed)
            continue;
        for (int64_t k = part->passed; k < first; k++)
            any |= part->table[k] >= 0;
        drop_entries(l, pool, part->passed, first);
        part->passed = first;
    }
    return any;
}

/* Reads block i of a pool, if the file has it, into a block of the pool. */
static mica_status load_block(loader *l, int pool, int64_t i, uint64_t seed)
{
    pool_part *part = &l->parts[pool];
    mica__kv_pool *to = &l->store->pools[pool];
    const int64_t bytes = to->spec.block_bytes, k = part->next;
    if (k >= part->n || part->index[k] != i)
        return MICA_OK;
    if (part->table[i] < 0) /* not taken before memory ran out for another pool */
        MICA_TRY(mica__kv_store_take(l->store, pool, i ? part->table[i - 1] : -1, &part->table[i]));
    uint8_t *block = mica__kv_pool_block(to, part->table[i]);
    MICA_TRY(mica__st_reader_read(l->file, part->blocks, k * bytes, block, bytes));
    if (mica__prefix_sum(seed, pool, block, bytes) != part->sums[k])
        MICA_FAIL(MICA_E_FORMAT,
                  "the prompt cache is damaged: block %lld of pool %d does not have its sum",
                  (long long)i, pool);
    part->next++;
    return MICA_OK;
}

/* Block i of every pool, at the cost of window blocks that are of no use any more. */
static mica_status load_row(loader *l, int64_t i, uint64_t seed)
{
    for (int pool = 0; pool < l->store->n_pools; pool++) {
        mica_status status = load_block(l, pool, i, seed);
        while (status == MICA_E_MEMORY && give_up_passed(l, i))
            status = load_block(l, pool, i, seed);
        MICA_TRY(status);
    }
    return MICA_OK;
}

/* Loads what fits; n_blocks becomes what did. MICA_E_MEMORY only when nothing did. */
static mica_status load_rows(loader *l)
{
    uint64_t seed = 0;
    for (int64_t i = 0; i < l->n_blocks; i++) {
        seed = mica__prefix_seed(seed, l->tokens + i * BLOCK);
        const mica_status status = load_row(l, i, seed);
        if (status == MICA_OK)
            continue;
        if (status != MICA_E_MEMORY || i == 0)
            return status;
        for (int pool = 0; pool < l->store->n_pools; pool++)
            drop_entries(l, pool, i, i + 1);
        l->n_blocks = i;
    }
    return MICA_OK;
}

/* --- the tree --------------------------------------------------------------------------------- */

/* The state pools' blocks of place i; false when there is none. */
static bool checkpoint_at(const loader *l, int64_t i, int32_t checkpoint[MICA__KV_MAX_POOLS])
{
    bool any = false;
    for (int pool = 0; pool < l->store->n_pools; pool++) {
        const bool state = l->store->pools[pool].spec.kind == MICA__POOL_STATE;
        checkpoint[pool] = state ? l->parts[pool].table[i] : -1;
        any |= checkpoint[pool] >= 0;
    }
    return any;
}

/* The tree takes references of its own on what it did not have. */
static void insert(loader *l)
{
    int32_t *tables[MICA__KV_MAX_POOLS] = {NULL};
    int32_t checkpoint[MICA__KV_MAX_POOLS] = {-1, -1, -1, -1};
    for (int pool = 0; pool < l->store->n_pools; pool++)
        tables[pool] = l->parts[pool].table;
    for (int64_t i = 0; i < l->n_blocks; i++)
        if (checkpoint_at(l, i, checkpoint) || i + 1 == l->n_blocks)
            mica__prefix_insert(&l->store->tree, l->tokens, (i + 1) * BLOCK, tables, checkpoint);
}

/* --- loading ---------------------------------------------------------------------------------- */

/* The leading whole blocks of the file that are those of tokens[0, n). */
static int64_t count_matching(const loader *l, const int32_t *tokens, int64_t n)
{
    int64_t same = 0;
    const int64_t most = n < l->n_stored ? n : l->n_stored;
    while (same < most && l->tokens[same] == tokens[same])
        same++;
    return same / BLOCK;
}

static mica_status load_file(loader *l, const char *path, const int32_t *tokens, int64_t n_tokens,
                             mica_prefix_load *load)
{
    MICA_TRY(mica__st_reader_open(path, MAX_HEADER, &l->file));
    MICA_TRY(check_identity(l));
    MICA_TRY(read_lists(l));
    load->stored = l->n_stored;
    l->n_blocks = tokens ? count_matching(l, tokens, n_tokens) : l->n_stored / BLOCK;
    load->matched = l->n_blocks * BLOCK;
    if (l->n_blocks > l->owner->context / BLOCK)
        l->n_blocks = l->owner->context / BLOCK;
    if (l->n_blocks == 0)
        return MICA_OK;
    mica_status status = make_tables(l);
    if (status == MICA_OK)
        status = load_rows(l);
    return status;
}

static void free_loader(loader *l)
{
    for (int pool = 0; pool < l->store->n_pools; pool++) {
        pool_part *part = &l->parts[pool];
        mica__free(part->index);
        mica__free(part->sums);
        mica__free(part->table);
    }
    mica__free(l->tokens);
    mica__st_reader_close(l->file);
}

mica_status mica__prefix_load(mica__kv_store *store, const mica__prefix_owner *owner,
                              const char *path, const int32_t *tokens, int64_t n_tokens,
                              mica_prefix_load *load)
{
    loader l = {.store = store, .owner = owner};
    *load = (mica_prefix_load){0};
    const mica_status status = load_file(&l, path, tokens, n_tokens, load);
    if (status == MICA_OK && l.n_blocks > 0) {
        insert(&l);
        load->loaded = mica__prefix_find(&store->tree, l.tokens, l.n_blocks * BLOCK).n_tokens;
    }
    for (int pool = 0; pool < store->n_pools; pool++)
        if (l.parts[pool].table)
            drop_entries(&l, pool, 0, l.table_length);
    free_loader(&l);
    const bool named = status == MICA_E_IO || status == MICA_E_NOT_FOUND; /* the path, already */
    return status == MICA_OK || named ? status : mica__fail_at(status, "%s", path);
}
