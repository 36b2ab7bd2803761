/* hash_map.c - a map from byte strings to int64, and the hash function behind it.
 *
 * Entries stand in an array in the order of insertion; a table of slots, probed linearly, holds
 * (hash, entry index). Invariants: every entry has exactly one slot, no empty slot lies between an
 * entry's home and its slot, and at most 3/4 of the slots are used, so every search ends. Entries
 * are never removed. Copied keys lie one behind the other in one buffer, in the order of
 * entries.
 * SPDX-License-Identifier: MIT
 */
#include "base/hash_map.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#define MAX_LENGTH  UINT32_MAX /* keys are shorter */
#define EMPTY       UINT32_MAX /* entry of an empty slot */
#define MAX_ENTRIES ((int64_t)1 << 30)
#define MIN_SLOTS   8

typedef struct map_entry {
    union {
        const char *borrowed;
        int64_t offset; /* into key_bytes */
    } key;
    int64_t value;
    uint32_t length;
    uint32_t hash;
} map_entry;

typedef struct map_slot {
    uint32_t hash;
    uint32_t entry;
} map_slot;

struct mica__map {
    mica_memory_kind kind;
    mica__map_keys keys;
    int64_t n_entries;
    int64_t entry_capacity;
    map_entry *entries;
    int64_t n_slots; /* a power of two, or 0 */
    map_slot *slots;
    char *key_bytes;
    int64_t n_key_bytes;
    int64_t key_capacity;
};

/* --- the hash function ------------------------------------------------------------------------ */

static inline uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void sip_rounds(uint64_t v[4], int n)
{
    for (int i = 0; i < n; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static inline uint64_t siphash(const uint8_t *bytes, size_t n, uint64_t k0, uint64_t k1, int c,
                               int d)
{
    /* "somepseudorandomlygeneratedbytes" */
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                     k1 ^ 0x7465646279746573u};
    const size_t whole = n / 8 * 8;
    for (size_t at = 0; at < whole; at += 8) {
        const uint64_t block = mica__load_u64(bytes + at);
        v[3] ^= block;
        sip_rounds(v, c);
        v[0] ^= block;
    }
    uint64_t last = (uint64_t)n << 56;
    for (size_t at = whole; at < n; at++)
        last |= (uint64_t)bytes[at] << (8 * (at - whole));
    v[3] ^= last;
    sip_rounds(v, c);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_rounds(v, d);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t mica__siphash(const void *bytes, size_t n, uint64_t k0, uint64_t k1, int c, int d)
{
    return siphash(bytes, n, k0, k1, c, d);
}

uint64_t mica__hash(const void *bytes, size_t n, uint64_t seed)
{
    return siphash(bytes, n, seed, 0, 1, 3);
}

static uint64_t process_key[2];
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void make_process_key(void)
{
    if (getrandom(process_key, sizeof process_key, GRND_NONBLOCK) == (ssize_t)sizeof process_key)
        return;
    /* Early at boot, or a sandbox: worse, but different in every process. */
    process_key[0] = (uint64_t)mica__clock_ns();
    process_key[1] = (uint64_t)(uintptr_t)&process_key_once;
}

static uint32_t hash_key(const void *key, size_t n)
{
    return (uint32_t)siphash(key, n, process_key[0], process_key[1], 1, 3);
}

/* --- slots and entries ------------------------------------------------------------------------ */

static const char *key_of(const mica__map *map, const map_entry *entry)
{
    return map->keys == MICA__MAP_BORROWS ? entry->key.borrowed
                                          : map->key_bytes + entry->key.offset;
}

static bool same_key(const mica__map *map, const map_entry *entry, const void *key, size_t n)
{
    return entry->length == n && (n == 0 || memcmp(key_of(map, entry), key, n) == 0);
}

/* The slot of a key, or the empty slot where it would go; the table is not empty. */
static int64_t find_slot(const mica__map *map, const void *key, size_t n, uint32_t hash)
{
    const int64_t mask = map->n_slots - 1;
    for (int64_t at = hash & mask;; at = (at + 1) & mask) {
        const map_slot slot = map->slots[at];
        if (slot.entry == EMPTY)
            return at;
        if (slot.hash == hash && same_key(map, &map->entries[slot.entry], key, n))
            return at;
    }
}

static void fill_slots(mica__map *map)
{
    const int64_t mask = map->n_slots - 1;
    memset(map->slots, 0xff, (size_t)map->n_slots * sizeof *map->slots);
    for (int64_t i = 0; i < map->n_entries; i++) {
        const map_entry *entry = &map->entries[i];
        int64_t at = entry->hash & mask;
        while (map->slots[at].entry != EMPTY)
            at = (at + 1) & mask;
        map->slots[at] = (map_slot){entry->hash, (uint32_t)i};
    }
}

/* Gives the table room for n entries at a load of at most 3/4. */
static mica_status grow_slots(mica__map *map, int64_t n)
{
    if (n <= map->n_slots / 4 * 3)
        return MICA_OK;
    int64_t wanted = map->n_slots ? map->n_slots : MIN_SLOTS;
    while (n > wanted / 4 * 3)
        wanted *= 2; /* n is at most MAX_ENTRIES */
    map_slot *slots = mica__alloc(map->kind, (size_t)wanted * sizeof *slots);
    if (!slots)
        return MICA_E_MEMORY;
    mica__free(map->slots);
    map->slots = slots;
    map->n_slots = wanted;
    fill_slots(map);
    return MICA_OK;
}

static mica_status make_room(mica__map *map, int64_t n, int64_t key_bytes)
{
    if (n > MAX_ENTRIES)
        MICA_FAIL(MICA_E_MEMORY, "a map of %lld entries cannot be represented", (long long)n);
    MICA_TRY(mica__grow(map->kind, (void **)&map->entries, sizeof *map->entries, n,
                        &map->entry_capacity));
    if (map->keys == MICA__MAP_COPIES)
        MICA_TRY(mica__grow(map->kind, (void **)&map->key_bytes, 1, key_bytes, &map->key_capacity));
    return grow_slots(map, n);
}

/* --- the map ---------------------------------------------------------------------------------- */

mica_status mica__map_new(mica_memory_kind kind, mica__map_keys keys, mica__map **map)
{
    pthread_once(&process_key_once, make_process_key);
    *map = mica__alloc_zero(kind, 1, sizeof **map);
    if (!*map)
        return MICA_E_MEMORY;
    (*map)->kind = kind;
    (*map)->keys = keys;
    return MICA_OK;
}

void mica__map_free(mica__map *map)
{
    if (!map)
        return;
    mica__free(map->entries);
    mica__free(map->slots);
    mica__free(map->key_bytes);
    mica__free(map);
}

mica_status mica__map_reserve(mica__map *map, int64_t n, int64_t key_bytes)
{
    return make_room(map, n, key_bytes);
}

static mica_status add_entry(mica__map *map, const void *key, size_t n, uint32_t hash,
                             int64_t value)
{
    if (n >= MAX_LENGTH)
        MICA_FAIL(MICA_E_ARGUMENT, "a key of %zu bytes is too long for a map", n);
    MICA_TRY(make_room(map, map->n_entries + 1, map->n_key_bytes + (int64_t)n));
    map_entry *entry = &map->entries[map->n_entries];
    *entry = (map_entry){.value = value, .length = (uint32_t)n, .hash = hash};
    if (map->keys == MICA__MAP_BORROWS) {
        entry->key.borrowed = key;
    } else {
        entry->key.offset = map->n_key_bytes;
        if (n)
            memcpy(map->key_bytes + map->n_key_bytes, key, n);
        map->n_key_bytes += (int64_t)n;
    }
    const int64_t at = find_slot(map, key, n, hash);
    map->slots[at] = (map_slot){hash, (uint32_t)map->n_entries};
    map->n_entries++;
    return MICA_OK;
}

static map_entry *find_entry(const mica__map *map, const void *key, size_t n, uint32_t hash)
{
    if (map->n_entries == 0 || n >= MAX_LENGTH)
        return NULL;
    const map_slot slot = map->slots[find_slot(map, key, n, hash)];
    return slot.entry == EMPTY ? NULL : &map->entries[slot.entry];
}

mica_status mica__map_insert(mica__map *map, const void *key, size_t n, int64_t value)
{
    const uint32_t hash = hash_key(key, n);
    map_entry *entry = find_entry(map, key, n, hash);
    if (!entry)
        return add_entry(map, key, n, hash, value);
    entry->value = value;
    return MICA_OK;
}

mica_status mica__map_insert_new(mica__map *map, const void *key, size_t n, int64_t value,
                                 bool *added, int64_t *existing)
{
    const uint32_t hash = hash_key(key, n);
    const map_entry *entry = find_entry(map, key, n, hash);
    if (!entry)
        MICA_TRY(add_entry(map, key, n, hash, value));
    if (added)
        *added = !entry;
    if (existing)
        *existing = entry ? entry->value : value;
    return MICA_OK;
}

bool mica__map_find(const mica__map *map, const void *key, size_t n, int64_t *value)
{
    const map_entry *entry = find_entry(map, key, n, hash_key(key, n));
    if (entry && value)
        *value = entry->value;
    return entry;
}

int64_t mica__map_count(const mica__map *map)
{
    return map->n_entries;
}

bool mica__map_next(const mica__map *map, int64_t *at, const char **key, size_t *n, int64_t *value)
{
    if (*at >= map->n_entries)
        return false;
    const map_entry *entry = &map->entries[(*at)++];
    if (key)
        *key = key_of(map, entry);
    if (n)
        *n = entry->length;
    if (value)
        *value = entry->value;
    return true;
}
