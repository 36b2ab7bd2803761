/* arena.h - memory that is taken piece by piece and given back all at once.
 *
 * For trees and lists whose parts die together (a parsed document, a compiled template). Pieces
 * come from chunks of counted memory; nothing is freed singly.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_ARENA_H
#define MICA_BASE_ARENA_H

#include "base/alloc.h"

typedef struct mica__arena_chunk mica__arena_chunk;

/* Zero-initialise all but `kind`. */
typedef struct mica__arena {
    mica_memory_kind kind;
    mica__arena_chunk *first;   /* all chunks, in the order in which they are filled */
    mica__arena_chunk *current; /* those behind it are empty and kept for reuse */
    size_t next_bytes;          /* size of the next chunk */
} mica__arena;

/* `bytes` bytes aligned to `align` (a power of two, at most 64), contents undefined; bytes may be
 * 0. NULL with the failure recorded (MICA_E_MEMORY): the arena is as before. */
void *mica__arena_alloc(mica__arena *arena, size_t bytes, size_t align);

/* count * size zero bytes aligned to 16; the product is checked. */
void *mica__arena_zero(mica__arena *arena, size_t count, size_t size);

/* A copy of n bytes with a NUL behind them. */
char *mica__arena_strndup(mica__arena *arena, const char *text, size_t n);

/* A point to come back to: everything taken after it is given back to the arena (not to the system)
 * by reset. Points nest: an earlier reset ends later points. A zeroed mark is the arena's start. */
typedef struct mica__arena_mark {
    mica__arena_chunk *chunk;
    size_t used;
} mica__arena_mark;
mica__arena_mark mica__arena_mark_here(const mica__arena *arena);
void mica__arena_reset(mica__arena *arena, mica__arena_mark mark);

/* Bytes that the arena holds, chunk overhead included. */
int64_t mica__arena_bytes(const mica__arena *arena);

/* Gives chunks that hold nothing back to the system. */
void mica__arena_trim(mica__arena *arena);

/* Gives everything back; the arena can be used again. */
void mica__arena_free(mica__arena *arena);

#endif
