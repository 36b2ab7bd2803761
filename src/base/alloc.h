/* alloc.h - the library's only allocator.
 *
 * Every byte is counted under a kind, against one process-wide hard limit. When an allocation would
 * pass the limit, registered trimmers give back what is only cached; if that is not enough the
 * allocation is refused with need, limit and holders in the message. Tests make the n-th allocation
 * (or map, or thread start) fail with mica__fault_after(n). malloc and friends are called in
 * alloc.c only.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_ALLOC_H
#define MICA_BASE_ALLOC_H

#include <mica/memory.h>

#include "base/fail.h"

/* Memory of at least `bytes` bytes, aligned to 64, contents undefined; bytes == 0 gives a valid
 * pointer. NULL with the failure recorded (MICA_E_MEMORY). Freed by mica__free. Counted with its
 * header: mica__alloc_cost(bytes). */
void *mica__alloc(mica_memory_kind kind, size_t bytes);

/* As mica__alloc for count * size bytes, zero-filled; the product is checked. */
void *mica__alloc_zero(mica_memory_kind kind, size_t count, size_t size);

/* Resizes: contents are kept up to the smaller size; NULL leaves `memory` as it was. memory may be
 * NULL. */
void *mica__realloc(mica_memory_kind kind, void *memory, size_t bytes);

/* Frees what the functions above gave; NULL is ignored. */
void mica__free(void *memory);

/* A counted copy of n bytes with a NUL behind them; NULL on failure. */
char *mica__strndup(mica_memory_kind kind, const char *text, size_t n);

/* What mica__alloc(kind, bytes) adds to the counters, header and rounding included. */
int64_t mica__alloc_cost(size_t bytes);

/* Counts bytes that come from somewhere else (maps, thread stacks), or refuses them as mica__alloc
 * would. */
mica_status mica__memory_take(mica_memory_kind kind, int64_t bytes);
void mica__memory_give(mica_memory_kind kind, int64_t bytes);

/* Counts a block under another kind from now on (a buffer that enters or leaves the pool). */
void mica__set_kind(void *memory, mica_memory_kind kind);

/* Counts mapped weight files; refused only when the limit covers mapped bytes. */
mica_status mica__memory_map(int64_t bytes);
void mica__memory_unmap(int64_t bytes);

/* Whether `bytes` more would fit now (trimmers are tried). Else the failure is recorded, with
 * `what` needing them. */
mica_status mica__memory_check(const char *what, int64_t bytes);

/* A trimmer frees at least `bytes` of cached memory if it can and returns what it freed. At most 8
 * are registered. */
typedef int64_t (*mica__trimmer)(void *owner, int64_t bytes);
mica_status mica__memory_add_trimmer(mica__trimmer trim, void *owner);
void mica__memory_remove_trimmer(mica__trimmer trim, void *owner);

/* Fault injection: the n-th call from now (1 = the next) that can fail for want of a resource
 * fails, and all after it when `sticky`. n = 0 switches it off. mica__fault_hits counts the calls
 * since it was set. */
void mica__fault_after(int64_t n, bool sticky);
int64_t mica__fault_hits(void);

/* True when this call must fail: asked by everything that takes memory, maps or threads from the
 * system. */
bool mica__fault(void);

/* Grows *items (elements of `size` bytes) so that it holds at least `need` of them, doubling;
 * *capacity is updated. */
mica_status mica__grow(mica_memory_kind kind, void **items, size_t size, int64_t need,
                       int64_t *capacity);

/* a * b and a + b that report overflow with false. */
static inline bool mica__mul(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

static inline bool mica__add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool mica__mul_i64(int64_t a, int64_t b, int64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

static inline bool mica__add_i64(int64_t a, int64_t b, int64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

#endif
