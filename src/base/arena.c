/* arena.c - memory that is taken piece by piece and given back all at once.
 *
 * Chunks form a list. Invariant: chunks before `current` are never touched again before a reset,
 * chunks behind it are empty. A piece that does not fit `current` goes to the next chunk if it fits
 * there, else to a new chunk put between them; so pieces larger than a chunk work, and reset reuses
 * all there is. Chunks double up to a bound, which keeps both small arenas small and large ones
 * quick.
 * SPDX-License-Identifier: MIT
 */
#include "base/arena.h"

#include <assert.h>
#include <string.h>

#define FIRST_BYTES ((size_t)4032) /* 4 KiB with the allocator's header */
#define MOST_BYTES  (((size_t)1 << 20) - 64)

struct mica__arena_chunk {
    mica__arena_chunk *next;
    size_t capacity; /* of bytes */
    size_t used;
    _Alignas(64) unsigned char bytes[];
};

/* A piece in a chunk, or NULL when there is no room. Chunks are aligned to 64. */
static void *take(mica__arena_chunk *chunk, size_t bytes, size_t align)
{
    const size_t at = (chunk->used + align - 1) & ~(align - 1);
    if (at > chunk->capacity || bytes > chunk->capacity - at)
        return NULL;
    chunk->used = at + bytes;
    return chunk->bytes + at;
}

static mica__arena_chunk *add_chunk(mica__arena *arena, size_t bytes)
{
    size_t size = arena->next_bytes ? arena->next_bytes : FIRST_BYTES;
    const size_t next = size >= MOST_BYTES / 2 ? MOST_BYTES : size * 2 + 64;
    size_t needed;
    if (!mica__add(bytes, sizeof(mica__arena_chunk), &needed)) {
        mica__fail(MICA_E_MEMORY, "a piece of %zu bytes cannot be represented", bytes);
        return NULL;
    }
    size = size > needed ? size : needed;
    mica__arena_chunk *chunk = mica__alloc(arena->kind, size);
    if (!chunk)
        return NULL;
    mica__arena_chunk **link = arena->current ? &arena->current->next : &arena->first;
    *chunk = (mica__arena_chunk){.next = *link, .capacity = size - sizeof *chunk};
    *link = chunk;
    arena->next_bytes = next;
    return chunk;
}

void *mica__arena_alloc(mica__arena *arena, size_t bytes, size_t align)
{
    assert(align > 0 && align <= 64 && (align & (align - 1)) == 0);
    void *piece = arena->current ? take(arena->current, bytes, align) : NULL;
    if (piece)
        return piece;
    mica__arena_chunk *next = arena->current ? arena->current->next : arena->first;
    if (!next || bytes > next->capacity)
        next = add_chunk(arena, bytes);
    if (!next)
        return NULL;
    arena->current = next;
    return take(next, bytes, align);
}

void *mica__arena_zero(mica__arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (!mica__mul(count, size, &bytes)) {
        mica__fail(MICA_E_MEMORY, "an allocation of %zu x %zu bytes cannot be represented", count,
                   size);
        return NULL;
    }
    void *piece = mica__arena_alloc(arena, bytes, 16);
    if (piece)
        memset(piece, 0, bytes);
    return piece;
}

char *mica__arena_strndup(mica__arena *arena, const char *text, size_t n)
{
    char *copy = mica__arena_alloc(arena, n + 1, 1);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

mica__arena_mark mica__arena_mark_here(const mica__arena *arena)
{
    return (mica__arena_mark){arena->current, arena->current ? arena->current->used : 0};
}

void mica__arena_reset(mica__arena *arena, mica__arena_mark mark)
{
    mica__arena_chunk *chunk = mark.chunk ? mark.chunk->next : arena->first;
    for (; chunk; chunk = chunk->next)
        chunk->used = 0;
    if (mark.chunk)
        mark.chunk->used = mark.used;
    arena->current = mark.chunk;
}

void mica__arena_trim(mica__arena *arena)
{
    mica__arena_chunk **link = arena->current ? &arena->current->next : &arena->first;
    mica__arena_chunk *chunk = *link;
    *link = NULL;
    while (chunk) {
        mica__arena_chunk *next = chunk->next;
        mica__free(chunk);
        chunk = next;
    }
}

void mica__arena_free(mica__arena *arena)
{
    arena->current = NULL;
    mica__arena_trim(arena);
    arena->next_bytes = 0;
}

int64_t mica__arena_bytes(const mica__arena *arena)
{
    int64_t bytes = 0;
    for (const mica__arena_chunk *chunk = arena->first; chunk; chunk = chunk->next)
        bytes += mica__alloc_cost(sizeof *chunk + chunk->capacity);
    return bytes;
}
