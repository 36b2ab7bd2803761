/* bpe.c - byte-pair merging.
 *
 * Symbols form a linked list inside an array, so a merge is constant work; candidates wait in a
 * heap ordered by (rank, position) and a stale one is known by its length: symbols only grow, so a
 * candidate whose two symbols still have the length it was made for is still true. n log n for any
 * word. Short words, nearly all of them, take a plain scan instead.
 * SPDX-License-Identifier: MIT
 */
#include "text/bpe.h"

#include <stdio.h>
#include <string.h>

#include "text/byte_spelling.h"
#include "text/utf8.h"

#define SHORT_WORD 24 /* symbols up to which a scan is faster than a heap */

/* A piece of the word. Joined ones stay in the array with length 0. */
typedef struct mica__symbol {
    uint32_t at;
    uint32_t length;
    int32_t id; /* -1: not a token (yet) */
    int32_t previous, next;
} mica__symbol;

/* A candidate: symbol `left` and its right neighbour, `length` bytes together. */
typedef struct mica__merge {
    uint64_t key; /* rank << 32 | left */
    uint32_t length;
    int32_t merged;
} mica__merge;

/* A stretch of the word that is still to be emitted. */
typedef struct mica__segment {
    uint32_t at;
    uint32_t length;
    int32_t id;
} mica__segment;

mica_status mica__token_list_add(mica_token_list *list, int32_t id)
{
    if (list->n == list->capacity)
        MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&list->ids, sizeof *list->ids, list->n + 1,
                            &list->capacity));
    list->ids[list->n++] = id;
    return MICA_OK;
}

/* --- candidates ------------------------------------------------------------------------------- */

/* Whether two neighbours merge: sets the rank and what they become. */
static bool merges(const mica__bpe *bpe, const char *word, const mica__symbol *left,
                   const mica__symbol *right, uint32_t *rank, int32_t *merged)
{
    if (bpe->by_text) {
        const int32_t id =
            mica__vocab_find(bpe->vocab, word + left->at, (int64_t)left->length + right->length);
        if (id < 0 || bpe->vocab->rank[id] == MICA__NO_RANK)
            return false;
        *rank = bpe->vocab->rank[id];
        *merged = id;
        return true;
    }
    if (left->id < 0 || right->id < 0)
        return false;
    const mica__pair *pair = mica__pairs_find(&bpe->pairs, (uint32_t)left->id, (uint32_t)right->id);
    if (!pair || pair->rank == MICA__NO_RANK)
        return false;
    *rank = pair->rank;
    *merged = (int32_t)pair->merged;
    return true;
}

/* --- the heap: four children a node, which lie in one cache line ------------------------------ */

static void sift_down(mica__merge *heap, int64_t n, int64_t at)
{
    const mica__merge moving = heap[at];
    for (;;) {
        const int64_t first = 4 * at + 1;
        if (first >= n)
            break;
        const int64_t end = first + 4 < n ? first + 4 : n;
        int64_t least = first;
        for (int64_t child = first + 1; child < end; child++)
            if (heap[child].key < heap[least].key)
                least = child;
        if (heap[least].key >= moving.key)
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = moving;
}

static void push(mica__bpe_work *work, mica__merge merge)
{
    int64_t at = work->heap_n++;
    while (at > 0 && work->heap[(at - 1) / 4].key > merge.key) {
        work->heap[at] = work->heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    work->heap[at] = merge;
}

static mica__merge pop(mica__bpe_work *work)
{
    const mica__merge first = work->heap[0];
    work->heap[0] = work->heap[--work->heap_n];
    if (work->heap_n > 0)
        sift_down(work->heap, work->heap_n, 0);
    return first;
}

/* Remembers where an unused token was joined, so that it can be split again. */
static void note_unused(const mica__bpe *bpe, mica__bpe_work *work, int32_t merged, uint32_t left)
{
    if (bpe->has_unused && bpe->vocab->kind[merged] == MICA_TOKEN_UNUSED)
        work->split_at[merged] = left;
}

/* The candidate of symbol `left` and its neighbour, if they merge. */
static bool candidate(const mica__bpe *bpe, mica__bpe_work *work, const char *word, int32_t left,
                      mica__merge *merge)
{
    const mica__symbol *l = &work->symbols[left];
    if (l->next < 0)
        return false;
    const mica__symbol *r = &work->symbols[l->next];
    uint32_t rank;
    if (!merges(bpe, word, l, r, &rank, &merge->merged))
        return false;
    note_unused(bpe, work, merge->merged, l->length);
    merge->key = (uint64_t)rank << 32 | (uint32_t)left;
    merge->length = l->length + r->length;
    return true;
}

static void join(mica__bpe_work *work, int32_t left, int32_t merged)
{
    mica__symbol *l = &work->symbols[left];
    mica__symbol *r = &work->symbols[l->next];
    l->length += r->length;
    l->id = merged;
    l->next = r->next;
    if (r->next >= 0)
        work->symbols[r->next].previous = left;
    r->length = 0;
}

static mica_status merge_long(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                              int64_t n)
{
    /* Every join makes two candidates and uses one up, so the heap never exceeds 2 n. */
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&work->heap, sizeof *work->heap, 2 * n,
                        &work->heap_capacity));
    work->heap_n = 0;
    mica__merge merge;
    for (int32_t i = 0; i + 1 < n; i++)
        if (candidate(bpe, work, word, i, &merge))
            work->heap[work->heap_n++] = merge;
    for (int64_t i = (work->heap_n + 2) / 4 - 1; i >= 0; i--)
        sift_down(work->heap, work->heap_n, i);
    while (work->heap_n > 0) {
        const mica__merge best = pop(work);
        const int32_t left = (int32_t)(uint32_t)best.key;
        const mica__symbol *l = &work->symbols[left];
        if (!l->length || l->next < 0 || l->length + work->symbols[l->next].length != best.length)
            continue;
        join(work, left, best.merged);
        if (l->previous >= 0 && candidate(bpe, work, word, l->previous, &merge))
            push(work, merge);
        if (candidate(bpe, work, word, left, &merge))
            push(work, merge);
    }
    return MICA_OK;
}

/* The same for a few symbols: the waiting candidates stand in an array, one per symbol. */
static void merge_short(const mica__bpe *bpe, mica__bpe_work *work, const char *word, int n)
{
    mica__merge waiting[SHORT_WORD];
    for (int i = 0; i < n; i++)
        if (!candidate(bpe, work, word, i, &waiting[i]))
            waiting[i].key = UINT64_MAX;
    for (;;) {
        int best = 0;
        for (int i = 1; i < n; i++)
            if (waiting[i].key < waiting[best].key)
                best = i;
        if (waiting[best].key == UINT64_MAX)
            return;
        const int32_t gone = work->symbols[best].next;
        join(work, best, waiting[best].merged);
        waiting[gone].key = UINT64_MAX;
        if (!candidate(bpe, work, word, best, &waiting[best]))
            waiting[best].key = UINT64_MAX;
        const int32_t previous = work->symbols[best].previous;
        if (previous >= 0 && !candidate(bpe, work, word, previous, &waiting[previous]))
            waiting[previous].key = UINT64_MAX;
    }
}

/* --- the first symbols ------------------------------------------------------------------------ */

static mica_status no_token(const mica__bpe *bpe, const char *bytes, int64_t n)
{
    (void)bpe;
    char spelled[3 * 8 + 1] = "";
    for (int64_t i = 0; i < n && i < 8; i++)
        snprintf(spelled + 3 * i, 4, "%02x ", (uint8_t)bytes[i]);
    MICA_FAIL(MICA_E_FORMAT,
              "the vocabulary has no token for the bytes %sand no token for unknown text", spelled);
}

static void add_symbol(mica__bpe_work *work, int64_t *n, uint32_t at, uint32_t length, int32_t id)
{
    work->symbols[*n] = (mica__symbol){at, length, id, (int32_t)*n - 1, (int32_t)*n + 1};
    ++*n;
}

static mica_status start_as_bytes(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                                  int64_t n, int64_t *n_symbols)
{
    for (int64_t i = 0; i < n; i++) {
        const int32_t id = bpe->byte_id[(uint8_t)word[i]];
        const bool fuse = id < 0 && bpe->fuse_unknown && *n_symbols > 0 &&
                          work->symbols[*n_symbols - 1].id == bpe->unknown;
        if (id < 0 && bpe->unknown < 0)
            return no_token(bpe, word + i, 1);
        if (fuse)
            work->symbols[*n_symbols - 1].length++;
        else
            add_symbol(work, n_symbols, (uint32_t)i, 1, id < 0 ? bpe->unknown : id);
    }
    return MICA_OK;
}

/* Whether every one of these bytes has a token. */
static bool have_bytes(const mica__bpe *bpe, const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (bpe->byte_id[(uint8_t)bytes[i]] < 0)
            return false;
    return bpe->byte_fallback;
}

/* A character without a token, in a vocabulary of merge lists: byte tokens, else unknown. */
static mica_status start_unknown(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                                 uint32_t at, uint32_t length, int64_t *n)
{
    if (have_bytes(bpe, word + at, length)) {
        for (uint32_t i = 0; i < length; i++)
            add_symbol(work, n, at + i, 1, bpe->byte_id[(uint8_t)word[at + i]]);
        return MICA_OK;
    }
    if (bpe->unknown < 0)
        return no_token(bpe, word + at, length);
    if (bpe->fuse_unknown && *n > 0 && work->symbols[*n - 1].id == bpe->unknown)
        work->symbols[*n - 1].length += length;
    else
        add_symbol(work, n, at, length, bpe->unknown);
    return MICA_OK;
}

static mica_status start_as_characters(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                                       int64_t n, int64_t *n_symbols)
{
    int length;
    for (int64_t at = 0; at < n; at += length) {
        mica__utf8_next(word, n, at, &length);
        const int32_t id = mica__vocab_find(bpe->vocab, word + at, length);
        if (bpe->by_text)
            add_symbol(work, n_symbols, (uint32_t)at, (uint32_t)length,
                       id >= 0 && bpe->vocab->rank[id] != MICA__NO_RANK ? id : -1);
        else if (id >= 0)
            add_symbol(work, n_symbols, (uint32_t)at, (uint32_t)length, id);
        else
            MICA_TRY(start_unknown(bpe, work, word, (uint32_t)at, (uint32_t)length, n_symbols));
    }
    return MICA_OK;
}

/* --- the result ------------------------------------------------------------------------------- */

/* A stretch that is no token: its bytes, else unknown. */
static mica_status emit_unknown(const mica__bpe *bpe, const char *bytes, int64_t n,
                                bool *after_unknown, mica_token_list *ids)
{
    if (have_bytes(bpe, bytes, n)) {
        *after_unknown = false;
        for (int64_t i = 0; i < n; i++)
            MICA_TRY(mica__token_list_add(ids, bpe->byte_id[(uint8_t)bytes[i]]));
        return MICA_OK;
    }
    if (bpe->unknown < 0)
        return no_token(bpe, bytes, n);
    if (*after_unknown && bpe->fuse_unknown)
        return MICA_OK;
    *after_unknown = true;
    return mica__token_list_add(ids, bpe->unknown);
}

/* Emits one symbol; an unused token is split where it was joined, as often as needed. */
static mica_status emit(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                        mica__segment segment, bool *after_unknown, mica_token_list *ids)
{
    int64_t depth = 0;
    for (;;) {
        const uint32_t left =
            bpe->has_unused && segment.id >= 0 && bpe->vocab->kind[segment.id] == MICA_TOKEN_UNUSED
                ? work->split_at[segment.id]
                : 0;
        if (left > 0 && left < segment.length) {
            MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&work->stack, sizeof *work->stack,
                                depth + 1, &work->stack_capacity));
            const uint32_t rest = segment.length - left;
            work->stack[depth++] =
                (mica__segment){segment.at + left, rest,
                                mica__vocab_find(bpe->vocab, word + segment.at + left, rest)};
            segment.length = left;
            segment.id = mica__vocab_find(bpe->vocab, word + segment.at, left);
            continue;
        }
        if (segment.id >= 0) {
            *after_unknown = false;
            MICA_TRY(mica__token_list_add(ids, segment.id));
        } else {
            MICA_TRY(emit_unknown(bpe, word + segment.at, segment.length, after_unknown, ids));
        }
        if (depth == 0)
            return MICA_OK;
        segment = work->stack[--depth];
    }
}

/* The token that the whole word is, or -1; special ones are not found here. */
static int32_t whole_word(const mica__bpe *bpe, const char *word, int64_t n)
{
    char spelled[2 * MICA__SPELLED_WORD];
    int32_t id = -1;
    if (!bpe->spelled)
        id = mica__vocab_find(bpe->vocab, word, n);
    else if (n <= MICA__SPELLED_WORD)
        id = mica__vocab_find(bpe->vocab, spelled, mica__spell_bytes(word, n, spelled));
    if (id < 0)
        return -1;
    const mica_token_kind kind = (mica_token_kind)bpe->vocab->kind[id];
    return kind == MICA_TOKEN_CONTROL || kind == MICA_TOKEN_UNKNOWN ? -1 : id;
}

static mica_status prepare(const mica__bpe *bpe, mica__bpe_work *work, int64_t n)
{
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&work->symbols, sizeof *work->symbols, n,
                        &work->symbols_capacity));
    if (bpe->has_unused && !work->split_at) {
        work->split_at =
            mica__alloc_zero(MICA_MEMORY_TEXT, (size_t)bpe->vocab->n, sizeof *work->split_at);
        if (!work->split_at)
            return MICA_E_MEMORY;
    }
    return MICA_OK;
}

/* Merges word[0, n) and appends its tokens. */
static mica_status encode_part(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                               int64_t n, mica_token_list *ids)
{
    MICA_TRY(prepare(bpe, work, n));
    int64_t n_symbols = 0;
    MICA_TRY(bpe->of_bytes ? start_as_bytes(bpe, work, word, n, &n_symbols)
                           : start_as_characters(bpe, work, word, n, &n_symbols));
    work->symbols[n_symbols - 1].next = -1;
    if (n_symbols <= SHORT_WORD)
        merge_short(bpe, work, word, (int)n_symbols);
    else
        MICA_TRY(merge_long(bpe, work, word, n_symbols));
    bool after_unknown = false;
    for (int32_t i = 0; i >= 0; i = work->symbols[i].next) {
        const mica__symbol *s = &work->symbols[i];
        MICA_TRY(
            emit(bpe, work, word, (mica__segment){s->at, s->length, s->id}, &after_unknown, ids));
    }
    return MICA_OK;
}

mica_status mica__bpe_encode(const mica__bpe *bpe, mica__bpe_work *work, const char *word,
                             int64_t n, mica_token_list *ids)
{
    if (n == 0)
        return MICA_OK;
    if (bpe->whole_word_first) {
        const int32_t id = whole_word(bpe, word, n);
        if (id >= 0)
            return mica__token_list_add(ids, id);
    }
    if (!bpe->neighbours || n <= SHORT_WORD)
        return encode_part(bpe, work, word, n, ids);
    /* No merge crosses two bytes that are neighbours in no token. */
    int64_t start = 0;
    for (int64_t at = 1; at < n; at++)
        if (!mica__are_neighbours(bpe, word[at - 1], word[at])) {
            MICA_TRY(encode_part(bpe, work, word + start, at - start, ids));
            start = at;
        }
    return encode_part(bpe, work, word + start, n - start, ids);
}

void mica__bpe_work_free(mica__bpe_work *work)
{
    mica__free(work->symbols);
    mica__free(work->heap);
    mica__free(work->split_at);
    mica__free(work->stack);
    *work = (mica__bpe_work){0};
}
