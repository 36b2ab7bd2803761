/* program_cache.h - programs of evaluated graphs, found again by their canonical description.
 *
 * Capped in bytes; least recently used programs go first. Safe from any thread.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CORE_PROGRAM_CACHE_H
#define MICA_CORE_PROGRAM_CACHE_H

#include <mica/array.h>

typedef struct mica__program_cache mica__program_cache;

mica_status mica__program_cache_new(int64_t max_bytes, mica__program_cache **cache);
void mica__program_cache_free(mica__program_cache *cache);

/* The program with this key, with a reference for the caller; NULL when there is none. */
mica_program *mica__program_cache_find(mica__program_cache *cache, const char *key, int64_t n);

/* Keeps a program (a reference of its own) under a copy of the key, if it fits; failure to keep it
 * is no failure. */
void mica__program_cache_add(mica__program_cache *cache, const char *key, int64_t n,
                             mica_program *program);

#endif
