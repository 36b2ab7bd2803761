/* program_cache.c - a chained hash table in order of use.
 * SPDX-License-Identifier: MIT
 */
#include "core/program_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/hash_map.h"
#include "core/program.h"

#define N_BUCKETS 256

typedef struct entry {
    struct entry *in_bucket;
    struct entry *newer, *older;
    uint64_t hash;
    int64_t n;
    int64_t bytes; /* program, key and entry */
    mica_program *program;
    char key[];
} entry;

struct mica__program_cache {
    pthread_mutex_t lock;
    int64_t max_bytes, bytes;
    entry *buckets[N_BUCKETS];
    entry *newest, *oldest;
};

mica_status mica__program_cache_new(int64_t max_bytes, mica__program_cache **cache)
{
    *cache = mica__alloc_zero(MICA_MEMORY_PROGRAMS, 1, sizeof **cache);
    if (!*cache)
        return MICA_E_MEMORY;
    (*cache)->max_bytes = max_bytes;
    pthread_mutex_init(&(*cache)->lock, NULL);
    return MICA_OK;
}

static void unlink_use(mica__program_cache *cache, entry *e)
{
    *(e->newer ? &e->newer->older : &cache->newest) = e->older;
    *(e->older ? &e->older->newer : &cache->oldest) = e->newer;
}

static void link_newest(mica__program_cache *cache, entry *e)
{
    e->newer = NULL;
    e->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = e;
    cache->newest = e;
}

static void drop(mica__program_cache *cache, entry *e)
{
    entry **at = &cache->buckets[e->hash % N_BUCKETS];
    while (*at != e)
        at = &(*at)->in_bucket;
    *at = e->in_bucket;
    unlink_use(cache, e);
    cache->bytes -= e->bytes;
    mica_program_free(e->program);
    mica__free(e);
}

void mica__program_cache_free(mica__program_cache *cache)
{
    if (!cache)
        return;
    while (cache->newest)
        drop(cache, cache->newest);
    pthread_mutex_destroy(&cache->lock);
    mica__free(cache);
}

static entry *lookup(mica__program_cache *cache, uint64_t hash, const char *key, int64_t n)
{
    for (entry *e = cache->buckets[hash % N_BUCKETS]; e; e = e->in_bucket)
        if (e->hash == hash && e->n == n && !memcmp(e->key, key, (size_t)n))
            return e;
    return NULL;
}

mica_program *mica__program_cache_find(mica__program_cache *cache, const char *key, int64_t n)
{
    const uint64_t hash = mica__hash(key, (size_t)n, 0);
    mica_program *program = NULL;
    pthread_mutex_lock(&cache->lock);
    entry *e = lookup(cache, hash, key, n);
    if (e) {
        unlink_use(cache, e);
        link_newest(cache, e);
        program = mica__program_keep(e->program);
    }
    pthread_mutex_unlock(&cache->lock);
    return program;
}

void mica__program_cache_add(mica__program_cache *cache, const char *key, int64_t n,
                             mica_program *program)
{
    const int64_t bytes =
        program->facts.program_bytes + mica__alloc_cost(sizeof(entry) + (size_t)n);
    if (bytes > cache->max_bytes)
        return;
    entry *e = mica__alloc(MICA_MEMORY_PROGRAMS, sizeof *e + (size_t)n);
    if (!e)
        return; /* the program works without being kept */
    *e = (entry){.hash = mica__hash(key, (size_t)n, 0), .n = n, .bytes = bytes};
    memcpy(e->key, key, (size_t)n);
    e->program = mica__program_keep(program);
    pthread_mutex_lock(&cache->lock);
    if (lookup(cache, e->hash, key, n)) { /* another thread was faster */
        pthread_mutex_unlock(&cache->lock);
        mica_program_free(e->program);
        mica__free(e);
        return;
    }
    e->in_bucket = cache->buckets[e->hash % N_BUCKETS];
    cache->buckets[e->hash % N_BUCKETS] = e;
    link_newest(cache, e);
    cache->bytes += bytes;
    while (cache->bytes > cache->max_bytes)
        drop(cache, cache->oldest);
    pthread_mutex_unlock(&cache->lock);
}
