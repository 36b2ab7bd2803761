/* hash_map.h - a map from byte strings to int64, and the hash function behind it.
 *
 * Entries are kept in the order of insertion, and iteration follows it: results never depend on the
 * hash, whose key differs in every process so that nobody can prepare keys that collide.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BASE_HASH_MAP_H
#define MICA_BASE_HASH_MAP_H

#include "base/alloc.h"

/* 64-bit hash of n bytes: SipHash-1-3 keyed by the seed; the same in every process and on every
 * machine. Against chosen input only as good as the seed is secret. */
uint64_t mica__hash(const void *bytes, size_t n, uint64_t seed);

/* SipHash with c rounds a block and d at the end, as in Aumasson and Bernstein, "SipHash: a fast
 * short-input PRF", 2012. */
uint64_t mica__siphash(const void *bytes, size_t n, uint64_t k0, uint64_t k1, int c, int d);

typedef struct mica__map mica__map;

typedef enum mica__map_keys {
    MICA__MAP_COPIES, /* keys are copied into the map */
    MICA__MAP_BORROWS /* keys stay where they are, alive and unchanged while they are in the map */
} mica__map_keys;

/* An empty map; everything it holds is counted under kind. */
mica_status mica__map_new(mica_memory_kind kind, mica__map_keys keys, mica__map **map);
void mica__map_free(mica__map *map); /* NULL is ignored */

/* Makes room for n entries (and key_bytes of copied keys) in all: inserting up to these cannot
 * fail. */
mica_status mica__map_reserve(mica__map *map, int64_t n, int64_t key_bytes);

/* Sets the value of key[0, n), new or not. key may be NULL when n is 0. On failure (MICA_E_MEMORY,
 * or MICA_E_ARGUMENT for keys of 4 GiB and more) the map is unchanged. A key to be copied must not
 * lie in the map itself. */
mica_status mica__map_insert(mica__map *map, const void *key, size_t n, int64_t value);

/* As insert, but leaves an existing entry alone. *existing gets its value, or `value` when the key
 * is new; *added says which. Either may be NULL. */
mica_status mica__map_insert_new(mica__map *map, const void *key, size_t n, int64_t value,
                                 bool *added, int64_t *existing);

/* Whether the key is there; if so its value (value may be NULL). */
bool mica__map_find(const mica__map *map, const void *key, size_t n, int64_t *value);

int64_t mica__map_count(const mica__map *map);

/* Walks the entries in the order of insertion, from *at = 0; false at the end. Nothing may be
 * inserted meanwhile. key, n and value may be NULL; the key is valid until the
 * next insertion. */
bool mica__map_next(const mica__map *map, int64_t *at, const char **key, size_t *n, int64_t *value);

#endif
