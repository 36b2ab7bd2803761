/* buffer.c - array memory and its pool.
 *
 * Requests under SMALL bytes go to the allocator directly. Larger ones are rounded up to a size
 * class (eighths of a power of two, whole pages); the pool holds freed blocks in a list per class,
 * newest first. Over its cap, or when the allocator asks, the pool frees blocks of the largest
 * class first.
 * SPDX-License-Identifier: MIT
 */
#include "core/buffer.h"

#include <pthread.h>
#include <string.h>

#define SMALL     4096
#define N_CLASSES 512

typedef struct free_block {
    struct free_block *next;
} free_block;

struct mica__pool {
    pthread_mutex_t lock;
    int64_t max_bytes;
    int64_t held; /* bytes waiting, at their cost */
    _Atomic int64_t hits;
    free_block *classes[N_CLASSES];
};

/* The class of a size from SMALL on: 8 classes to each power of two. */
static int class_of(int64_t bytes)
{
    const int log2 = 63 - __builtin_clzll((unsigned long long)bytes);
    const int64_t unit = (int64_t)1 << (log2 - 3);
    return (log2 - 12) * 8 + (int)((bytes - ((int64_t)1 << log2) + unit - 1) / unit);
}

static int64_t class_bytes(int class)
{
    const int log2 = class / 8 + 12;
    const int64_t bytes = ((int64_t)1 << log2) + (int64_t)(class % 8) * ((int64_t)1 << (log2 - 3));
    return (bytes + 4095) / 4096 * 4096;
}

static int64_t rounded(int64_t bytes)
{
    return bytes < SMALL ? bytes : class_bytes(class_of(bytes));
}

int64_t mica__pool_cost(int64_t bytes)
{
    return mica__alloc_cost((size_t)rounded(bytes));
}

static int64_t free_down_to(mica__pool *pool, int64_t target)
{
    int64_t freed = 0;
    for (int c = N_CLASSES - 1; c >= 0 && pool->held > target; c--)
        while (pool->classes[c] && pool->held > target) {
            free_block *block = pool->classes[c];
            pool->classes[c] = block->next;
            const int64_t cost = mica__alloc_cost((size_t)class_bytes(c));
            pool->held -= cost;
            freed += cost;
            mica__free(block);
        }
    return freed;
}

static int64_t trim(void *owner, int64_t bytes)
{
    mica__pool *pool = owner;
    pthread_mutex_lock(&pool->lock);
    const int64_t freed = free_down_to(pool, pool->held > bytes ? pool->held - bytes : 0);
    pthread_mutex_unlock(&pool->lock);
    return freed;
}

mica__pool *mica__pool_new(int64_t max_bytes)
{
    mica__pool *pool = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->max_bytes = max_bytes;
    pthread_mutex_init(&pool->lock, NULL);
    if (mica__memory_add_trimmer(trim, pool) != MICA_OK) {
        mica__free(pool);
        return NULL;
    }
    return pool;
}

void mica__pool_free(mica__pool *pool)
{
    if (!pool)
        return;
    mica__memory_remove_trimmer(trim, pool);
    free_down_to(pool, 0);
    pthread_mutex_destroy(&pool->lock);
    mica__free(pool);
}

/* Blocks in the pool stay allocated; only the kind they are counted under changes. */
void *mica__pool_take(mica__pool *pool, mica_memory_kind kind, int64_t bytes)
{
    if (bytes < SMALL)
        return mica__alloc(kind, (size_t)bytes);
    const int class = class_of(bytes);
    if (class >= N_CLASSES) {
        mica__fail(MICA_E_MEMORY, "a buffer of %lld bytes cannot be represented", (long long)bytes);
        return NULL;
    }
    pthread_mutex_lock(&pool->lock);
    free_block *block = pool->classes[class];
    if (block) {
        pool->classes[class] = block->next;
        pool->held -= mica__pool_cost(bytes);
        atomic_fetch_add_explicit(&pool->hits, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!block)
        return mica__alloc(kind, (size_t)class_bytes(class));
    mica__set_kind(block, kind);
    return block;
}

void mica__pool_give(mica__pool *pool, mica_memory_kind kind, void *memory, int64_t bytes)
{
    (void)kind;
    if (!memory)
        return;
    const int64_t cost = mica__pool_cost(bytes);
    if (bytes < SMALL || cost > pool->max_bytes) {
        mica__free(memory);
        return;
    }
    mica__set_kind(memory, MICA_MEMORY_POOL);
    pthread_mutex_lock(&pool->lock);
    free_block *block = memory;
    block->next = pool->classes[class_of(bytes)];
    pool->classes[class_of(bytes)] = block;
    pool->held += cost;
    free_down_to(pool, pool->max_bytes);
    pthread_mutex_unlock(&pool->lock);
}

int64_t mica__pool_hits(const mica__pool *pool)
{
    return atomic_load_explicit(&pool->hits, memory_order_relaxed);
}

mica__buffer *mica__buffer_new(mica__pool *pool, int64_t bytes)
{
    mica__buffer *buffer = mica__alloc(MICA_MEMORY_ARRAYS, sizeof *buffer);
    if (!buffer)
        return NULL;
    *buffer = (mica__buffer){.bytes = bytes, .pool = pool};
    atomic_init(&buffer->refs, 1);
    buffer->data = mica__pool_take(pool, MICA_MEMORY_ARRAYS, bytes);
    if (!buffer->data) {
        mica__free(buffer);
        return NULL;
    }
    return buffer;
}

int64_t mica__buffer_cost(int64_t bytes)
{
    return mica__alloc_cost(sizeof(mica__buffer)) + mica__pool_cost(bytes);
}

mica__buffer *mica__buffer_wrap(const void *data, int64_t bytes, void (*release)(void *user),
                                void *user)
{
    mica__buffer *buffer = mica__alloc(MICA_MEMORY_GRAPH, sizeof *buffer);
    if (!buffer)
        return NULL;
    *buffer = (mica__buffer){.bytes = bytes, .release = release, .user = user};
    atomic_init(&buffer->refs, 1);
    /* The data is never written through this pointer: only buffers of the pool are donated. */
    memcpy(&buffer->data, &data, sizeof data);
    buffer->unaligned = (uintptr_t)data % 64 != 0;
    return buffer;
}

void mica__buffer_release(mica__buffer *buffer)
{
    if (!buffer || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (buffer->pool)
        mica__pool_give(buffer->pool, MICA_MEMORY_ARRAYS, buffer->data, buffer->bytes);
    else if (buffer->release)
        buffer->release(buffer->user);
    mica__free(buffer);
}
