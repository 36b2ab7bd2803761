/* vocabulary.c - the tokens of a tokenizer and the way from text to id.
 *
 * Texts lie in one pool; the index is an open-addressing table of ids, at most half full. A table
 * that needs overlong probes was made to (no honest vocabulary does) and is refused, so that a
 * hostile file cannot make loading quadratic.
 * SPDX-License-Identifier: MIT
 */
#include "text/vocabulary.h"

#include <string.h>

#include "base/bytes.h"

#define MAX_PROBES 2000

uint64_t mica__hash_bytes(const char *bytes, int64_t n)
{
    const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = (uint64_t)n * k;
    while (n >= 8) {
        h = (h ^ mica__load_u64(bytes)) * k;
        h ^= h >> 29;
        bytes += 8;
        n -= 8;
    }
    uint64_t rest = 0;
    for (int64_t i = 0; i < n; i++)
        rest |= (uint64_t)(uint8_t)bytes[i] << (8 * i);
    h = (h ^ rest) * k;
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* Makes ids [0, need) exist; new ones are holes. */
static mica_status grow_ids(mica__vocab *v, int64_t need)
{
    if (need > v->capacity) {
        int64_t capacity = v->capacity ? v->capacity : 256;
        while (capacity < need)
            capacity *= 2;
        const size_t n = (size_t)capacity;
        struct {
            void **array;
            size_t size;
        } arrays[] = {
            {(void **)&v->text, sizeof *v->text},
            {(void **)&v->bytes, sizeof *v->bytes},
            {(void **)&v->kind, sizeof *v->kind},
            {(void **)&v->rank, sizeof *v->rank},
        };
        for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
            void *grown = mica__realloc(MICA_MEMORY_TEXT, *arrays[i].array, n * arrays[i].size);
            if (!grown)
                return MICA_E_MEMORY;
            *arrays[i].array = grown;
        }
        v->capacity = capacity;
    }
    for (; v->n < need; v->n++) {
        v->text[v->n] = v->bytes[v->n] = (mica__piece){0, 0};
        v->kind[v->n] = MICA_TOKEN_NONE;
        v->rank[v->n] = MICA__NO_RANK;
    }
    return MICA_OK;
}

static mica_status add_to_pool(mica__vocab *v, const char *bytes, int64_t n, mica__piece *piece)
{
    if (n > MICA__MAX_TOKEN_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "a token of %lld bytes (at most %d are accepted)", (long long)n,
                  MICA__MAX_TOKEN_BYTES);
    if (v->pool_n + n > MICA__MAX_VOCAB_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "the tokens are over %lld bytes together",
                  (long long)MICA__MAX_VOCAB_BYTES);
    MICA_TRY(
        mica__grow(MICA_MEMORY_TEXT, (void **)&v->pool, 1, v->pool_n + n + 1, &v->pool_capacity));
    if (n)
        memcpy(v->pool + v->pool_n, bytes, (size_t)n);
    *piece = (mica__piece){(uint32_t)v->pool_n, (uint32_t)n};
    v->pool_n += n;
    v->pool[v->pool_n++] = '\0';
    return MICA_OK;
}

mica_status mica__vocab_set(mica__vocab *v, int64_t id, const char *text, int64_t n,
                            mica_token_kind kind, uint32_t rank)
{
    if (id < 0 || id >= MICA__MAX_TOKENS)
        MICA_FAIL(MICA_E_FORMAT, "token \"%.*s\" has id %lld (ids are 0 to %d)",
                  (int)(n < 80 ? n : 80), text, (long long)id, MICA__MAX_TOKENS - 1);
    MICA_TRY(grow_ids(v, id + 1));
    if (v->kind[id] != MICA_TOKEN_NONE)
        MICA_FAIL(MICA_E_FORMAT, "id %lld belongs to \"%.80s\" and to \"%.*s\"", (long long)id,
                  mica__vocab_text(v, (int32_t)id), (int)(n < 80 ? n : 80), text);
    MICA_TRY(add_to_pool(v, text, n, &v->text[id]));
    v->bytes[id] = v->text[id];
    v->kind[id] = (uint8_t)kind;
    v->rank[id] = rank;
    return MICA_OK;
}

mica_status mica__vocab_set_bytes(mica__vocab *v, int32_t id, const char *bytes, int64_t n)
{
    return add_to_pool(v, bytes, n, &v->bytes[id]);
}

static bool same_text(const mica__vocab *v, int32_t id, const char *text, int64_t n)
{
    return v->text[id].length == n && memcmp(mica__vocab_text(v, id), text, (size_t)n) == 0;
}

static mica_status index_one(mica__vocab *v, int32_t id)
{
    const char *text = mica__vocab_text(v, id);
    const int64_t n = v->text[id].length;
    uint32_t at = (uint32_t)mica__hash_bytes(text, n) & v->mask;
    for (int probes = 0; v->slots[at]; at = (at + 1) & v->mask) {
        const int32_t other = (int32_t)v->slots[at] - 1;
        if (same_text(v, other, text, n))
            MICA_FAIL(MICA_E_FORMAT, "tokens %d and %d have the same text \"%.80s\"", (int)other,
                      (int)id, text);
        if (++probes > MAX_PROBES)
            MICA_FAIL(MICA_E_FORMAT, "the vocabulary is made to collide (token %d)", (int)id);
    }
    v->slots[at] = (uint32_t)id + 1;
    return MICA_OK;
}

/* Ids nearly fill [0, n); a file that scatters a few of them wants memory for nothing. */
static mica_status check_density(const mica__vocab *v)
{
    int64_t n_set = 0;
    for (int64_t id = 0; id < v->n; id++)
        n_set += v->kind[id] != MICA_TOKEN_NONE;
    if (v->n > 65536 && v->n > 16 * n_set)
        MICA_FAIL(MICA_E_FORMAT, "%lld tokens have ids up to %lld", (long long)n_set,
                  (long long)v->n - 1);
    return MICA_OK;
}

mica_status mica__vocab_index(mica__vocab *v)
{
    MICA_TRY(check_density(v));
    uint32_t size = 16;
    while (size < 2 * (uint64_t)v->n)
        size *= 2;
    mica__free(v->slots);
    v->slots = mica__alloc_zero(MICA_MEMORY_TEXT, size, sizeof *v->slots);
    if (!v->slots)
        return MICA_E_MEMORY;
    v->mask = size - 1;
    for (int32_t id = 0; id < v->n; id++)
        if (v->kind[id] != MICA_TOKEN_NONE)
            MICA_TRY(index_one(v, id));
    return MICA_OK;
}

int32_t mica__vocab_find(const mica__vocab *v, const char *text, int64_t n)
{
    if (!v->slots)
        return -1;
    for (uint32_t at = (uint32_t)mica__hash_bytes(text, n) & v->mask; v->slots[at];
         at = (at + 1) & v->mask) {
        const int32_t id = (int32_t)v->slots[at] - 1;
        if (same_text(v, id, text, n))
            return id;
    }
    return -1;
}

void mica__vocab_free(mica__vocab *v)
{
    mica__free(v->pool);
    mica__free(v->text);
    mica__free(v->bytes);
    mica__free(v->kind);
    mica__free(v->rank);
    mica__free(v->slots);
    *v = (mica__vocab){0};
}

mica_status mica__pairs_init(mica__pairs *pairs, int64_t n)
{
    size_t size = 16;
    while (size < 2 * (uint64_t)n)
        size *= 2;
    pairs->slots = mica__alloc(MICA_MEMORY_TEXT, size * sizeof *pairs->slots);
    if (!pairs->slots)
        return MICA_E_MEMORY;
    memset(pairs->slots, 0xff, size * sizeof *pairs->slots);
    pairs->mask = (uint32_t)size - 1;
    pairs->n = 0;
    return MICA_OK;
}

mica_status mica__pairs_set(mica__pairs *pairs, mica__pair pair)
{
    if (pairs->n >= ((int64_t)pairs->mask + 1) / 2)
        MICA_FAIL(MICA_E_INTERNAL, "a table of pairs is full");
    uint32_t at = mica__pair_hash(pair.left, pair.right) & pairs->mask;
    for (int probes = 0; pairs->slots[at].left != UINT32_MAX; at = (at + 1) & pairs->mask) {
        if (pairs->slots[at].left == pair.left && pairs->slots[at].right == pair.right) {
            pairs->slots[at] = pair;
            return MICA_OK;
        }
        if (++probes > MAX_PROBES)
            MICA_FAIL(MICA_E_FORMAT, "the merges are made to collide");
    }
    pairs->slots[at] = pair;
    pairs->n++;
    return MICA_OK;
}

void mica__pairs_free(mica__pairs *pairs)
{
    mica__free(pairs->slots);
    *pairs = (mica__pairs){0};
}
