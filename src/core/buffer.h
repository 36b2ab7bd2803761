/* buffer.h - the memory behind arrays, and the pool that keeps freed buffers for reuse.
 *
 * Buffers of the pool come in size classes, so that a program's memory is predicted to the byte:
 * what a run takes for n bytes is mica__pool_cost(n), whether the buffer is new or reused. While a
 * buffer waits in the pool it is counted as pool, else under the kind it was taken for.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_BUFFER_H
#define MICA_CORE_BUFFER_H

#include <stdatomic.h>

#include "base/alloc.h"

typedef struct mica__pool mica__pool;

/* A pool that keeps at most max_bytes; it registers a memory trimmer. NULL with the failure
 * recorded. */
mica__pool *mica__pool_new(int64_t max_bytes);
void mica__pool_free(mica__pool *pool);

/* Bytes that a request for `bytes` takes, allocator overhead included. */
int64_t mica__pool_cost(int64_t bytes);

/* 64-byte aligned memory of at least `bytes`, counted under `kind`; contents undefined. NULL when
 * refused. */
void *mica__pool_take(mica__pool *pool, mica_memory_kind kind, int64_t bytes);

/* Gives back what mica__pool_take gave for the same kind and bytes. NULL is ignored. */
void mica__pool_give(mica__pool *pool, mica_memory_kind kind, void *memory, int64_t bytes);

/* How many takes were served from the pool. */
int64_t mica__pool_hits(const mica__pool *pool);

/* Shared, reference-counted data of arrays. */
typedef struct mica__buffer {
    _Atomic int32_t refs;
    bool unaligned;
    uint8_t *data;
    int64_t bytes;
    mica__pool *pool;            /* where data came from, or NULL for memory of the caller */
    void (*release)(void *user); /* for memory of the caller; may be NULL */
    void *user;
} mica__buffer;

/* A buffer of `bytes` from the pool (one reference), NULL when refused. Costs
 * mica__buffer_cost(bytes). */
mica__buffer *mica__buffer_new(mica__pool *pool, int64_t bytes);
int64_t mica__buffer_cost(int64_t bytes);

/* A buffer over memory of the caller. */
mica__buffer *mica__buffer_wrap(const void *data, int64_t bytes, void (*release)(void *user),
                                void *user);

static inline mica__buffer *mica__buffer_keep(mica__buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

void mica__buffer_release(mica__buffer *buffer);

#endif
