/* tokenizer.c - encoding: text through added tokens, normalizer, cutting and merging to ids.
 *
 * A text is parted at its added tokens; each stretch between is normalised, parted again at the
 * added tokens that are looked for after normalisation, cut into words, and every word merged.
 * Nothing in a tokenizer changes while it encodes: what is needed on the way belongs to the call.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/byte_spelling.h"
#include "text/tokenizer_parts.h"

#define MAX_TEXT          (INT64_C(1) << 30)
#define CACHED_WORD       30 /* words longer than this are merged anew each time */
#define MIN_TEXT_TO_CACHE 256

/* A word that this call has merged before: its ids stand in the list of this call. */
typedef struct cached_word {
    uint32_t hash;
    uint8_t length; /* 0: empty */
    uint8_t n_ids;
    char word[CACHED_WORD];
    int64_t at;
} cached_word;

typedef struct encoding {
    const mica_tokenizer *t;
    mica_token_list *ids;
    bool parse_special;
    const mica_text_span *plain;
    int64_t n_plain;
    mica__bpe_work work;
    mica__words words;
    mica__text buffers[2]; /* of the normalizer */
    mica__text piece;      /* of the normalizer, to measure where spans come to lie */
    mica__text unspelled;
    mica_text_span *moved; /* plain spans in the normalised text */
    int64_t moved_capacity;
    cached_word *cache;
    uint32_t cache_mask;
} encoding;

/* --- words ------------------------------------------------------------------------------------ */

static mica_status copy_ids(encoding *e, const cached_word *hit)
{
    mica_token_list *ids = e->ids;
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&ids->ids, sizeof *ids->ids, ids->n + hit->n_ids,
                        &ids->capacity));
    memcpy(ids->ids + ids->n, ids->ids + hit->at, hit->n_ids * sizeof *ids->ids);
    ids->n += hit->n_ids;
    return MICA_OK;
}

static mica_status encode_word(encoding *e, const char *word, int64_t n)
{
    if (!e->cache || n > CACHED_WORD)
        return mica__bpe_encode(&e->t->bpe, &e->work, word, n, e->ids);
    const uint32_t hash = (uint32_t)mica__hash_bytes(word, n);
    cached_word *slot = &e->cache[hash & e->cache_mask];
    if (slot->hash == hash && slot->length == n && memcmp(slot->word, word, (size_t)n) == 0)
        return copy_ids(e, slot);
    const int64_t at = e->ids->n;
    MICA_TRY(mica__bpe_encode(&e->t->bpe, &e->work, word, n, e->ids));
    if (e->ids->n - at <= UINT8_MAX) {
        slot->hash = hash;
        slot->length = (uint8_t)n;
        slot->n_ids = (uint8_t)(e->ids->n - at);
        slot->at = at;
        memcpy(slot->word, word, (size_t)n);
    }
    return MICA_OK;
}

/* Parts a stretch before every mark that follows another character, where no merge crosses. */
static mica_status encode_marked(encoding *e, const char *text, int64_t n)
{
    const char *mark = MICA__MARK_TEXT;
    int64_t start = 0;
    bool in_marks = true;
    for (int64_t at = 0; at < n;) {
        const bool is_mark = n - at >= 3 && text[at] == mark[0] && text[at + 1] == mark[1] &&
                             text[at + 2] == mark[2];
        if (is_mark && !in_marks && !e->t->joins_mark[(uint8_t)text[at - 1]]) {
            MICA_TRY(encode_word(e, text + start, at - start));
            start = at;
        }
        in_marks = is_mark;
        at += is_mark ? 3 : 1;
    }
    return encode_word(e, text + start, n - start);
}

static mica_status encode_spelled(encoding *e, const char *word, int64_t n)
{
    mica__text *out = &e->unspelled;
    out->kind = MICA_MEMORY_TEXT;
    MICA_TRY(mica__grow(out->kind, (void **)&out->bytes, 1, n, &out->capacity));
    if (!mica__unspell_bytes(word, n, out->bytes, &out->length))
        MICA_FAIL(MICA_E_INTERNAL, "a spelled word cannot be read back");
    return encode_word(e, out->bytes, out->length);
}

static mica_status encode_words(encoding *e, const char *text, int64_t n, bool at_start)
{
    mica__words_start(&e->words, &e->t->pre, text, n, at_start);
    const char *word;
    int64_t length;
    int got;
    while ((got = mica__words_next(&e->words, &word, &length)) > 0) {
        if (e->t->pre.spells && e->t->bpe.of_bytes)
            MICA_TRY(encode_spelled(e, word, length));
        else if (e->t->splits_at_marks)
            MICA_TRY(encode_marked(e, word, length));
        else
            MICA_TRY(encode_word(e, word, length));
    }
    return (mica_status)-got;
}

/* --- stretches between added tokens ----------------------------------------------------------- */

/* The first plain span that ends behind `base`. */
static int64_t first_span(const encoding *e, int64_t base)
{
    int64_t low = 0, high = e->n_plain;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (e->plain[middle].to <= base)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the plain spans of text[0, n), which starts at `base` of the input, lie once the text is
 * normalised: the parts are measured one by one. */
static mica_status move_spans(encoding *e, const char *text, int64_t base, int64_t n, bool at_start,
                              int64_t *n_moved)
{
    *n_moved = 0;
    int64_t done = 0, length = 0;
    for (int64_t i = 2 * first_span(e, base); i < 2 * e->n_plain; i++) {
        const mica_text_span *span = &e->plain[i / 2];
        if (i % 2 == 0 && span->from >= base + n)
            break;
        int64_t border = (i % 2 ? span->to : span->from) - base;
        border = border < 0 ? 0 : border > n ? n : border;
        if (border > done) {
            const char *part;
            int64_t part_n;
            mica__text scratch[2] = {e->piece, {.kind = MICA_MEMORY_TEXT}};
            const mica_status status =
                mica__normalizer_run(&e->t->normalizer, text + done, border - done,
                                     at_start && done == 0, done == 0, scratch, &part, &part_n);
            e->piece = scratch[0];
            mica__text_free(&scratch[1]);
            if (status != MICA_OK)
                return status;
            length += part_n;
            done = border;
        }
        MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&e->moved, sizeof *e->moved, *n_moved + 1,
                            &e->moved_capacity));
        if (i % 2 == 0)
            e->moved[*n_moved].from = length;
        else
            e->moved[(*n_moved)++].to = length;
    }
    return MICA_OK;
}

static mica_status encode_stretch(encoding *e, const char *text, int64_t base, int64_t n)
{
    const char *normal;
    int64_t length;
    const bool at_start = base == 0;
    MICA_TRY(mica__normalizer_run(&e->t->normalizer, text, n, at_start, true, e->buffers, &normal,
                                  &length));
    if (e->t->normalized.n == 0)
        return encode_words(e, normal, length, at_start);
    int64_t n_moved = 0;
    if (e->parse_special && e->n_plain > 0)
        MICA_TRY(move_spans(e, text, base, n, at_start, &n_moved));
    mica__added_rules rules = {.special = e->parse_special, .plain = e->moved, .n_plain = n_moved};
    const mica__added *item;
    int64_t at = 0, from, to;
    while (mica__added_find(&e->t->normalized, &rules, normal, length, at, &item, &from, &to)) {
        MICA_TRY(encode_words(e, normal + at, from - at, at_start && at == 0));
        MICA_TRY(mica__token_list_add(e->ids, item->id));
        at = to;
    }
    return encode_words(e, normal + at, length - at, at_start && at == 0);
}

static mica_status encode_text(encoding *e, const char *text, int64_t n)
{
    mica__added_rules rules = {
        .special = e->parse_special, .plain = e->plain, .n_plain = e->n_plain};
    const mica__added *item;
    int64_t at = 0, from, to;
    while (mica__added_find(&e->t->raw, &rules, text, n, at, &item, &from, &to)) {
        MICA_TRY(encode_stretch(e, text + at, at, from - at));
        MICA_TRY(mica__token_list_add(e->ids, item->id));
        at = to;
    }
    return encode_stretch(e, text + at, at, n - at);
}

/* --- the call --------------------------------------------------------------------------------- */

static mica_status encode_all(encoding *e, const char *text, int64_t n, bool add_special)
{
    const mica_tokenizer *t = e->t;
    const int64_t start = e->ids->n;
    for (int i = 0; add_special && i < t->n_before; i++)
        MICA_TRY(mica__token_list_add(e->ids, t->before[i]));
    const int64_t first = e->ids->n;
    MICA_TRY(encode_text(e, text, n));
    if (first == start + 1 && e->ids->n > first && e->ids->ids[first] == e->ids->ids[start]) {
        /* The text brought its own begin token. */
        memmove(e->ids->ids + start, e->ids->ids + first,
                (size_t)(e->ids->n - first) * sizeof *e->ids->ids);
        e->ids->n--;
    }
    for (int i = 0; add_special && i < t->n_after; i++)
        MICA_TRY(mica__token_list_add(e->ids, t->after[i]));
    return MICA_OK;
}

static mica_status check_arguments(const mica_tokenizer *t, const char *text, int64_t n,
                                   const mica_text_span *plain, int64_t n_plain,
                                   const mica_token_list *ids)
{
    if (!t || !ids || n < 0 || n_plain < 0 || (!text && n > 0) || (!plain && n_plain > 0))
        MICA_FAIL(MICA_E_ARGUMENT, "encoding needs a tokenizer, a text and a list");
    if (n > MAX_TEXT)
        MICA_FAIL(MICA_E_ARGUMENT, "a text of %lld bytes (at most %lld can be encoded at once)",
                  (long long)n, (long long)MAX_TEXT);
    int64_t done = 0;
    for (int64_t i = 0; i < n_plain; i++) {
        if (plain[i].from < done || plain[i].to < plain[i].from || plain[i].to > n)
            MICA_FAIL(MICA_E_ARGUMENT,
                      "plain span %lld is [%lld, %lld): spans ascend inside [0, %lld)",
                      (long long)i, (long long)plain[i].from, (long long)plain[i].to, (long long)n);
        done = plain[i].to;
    }
    return MICA_OK;
}

/* A cache that fits the text; without memory for it words are merged each time. */
static mica_status make_cache(encoding *e, int64_t n)
{
    if (n < MIN_TEXT_TO_CACHE)
        return MICA_OK;
    uint32_t size = 64;
    while (size < 8192 && size * 16 < n)
        size *= 2;
    e->cache = mica__alloc_zero(MICA_MEMORY_TEXT, size, sizeof *e->cache);
    if (!e->cache)
        return MICA_E_MEMORY;
    e->cache_mask = size - 1;
    return MICA_OK;
}

static void release(encoding *e)
{
    mica__bpe_work_free(&e->work);
    mica__words_free(&e->words);
    mica__text_free(&e->buffers[0]);
    mica__text_free(&e->buffers[1]);
    mica__text_free(&e->piece);
    mica__text_free(&e->unspelled);
    mica__free(e->moved);
    mica__free(e->cache);
}

mica_status mica_tokenizer_encode_spans(const mica_tokenizer *t, const char *text, int64_t n,
                                        const mica_text_span *plain, int64_t n_plain,
                                        unsigned flags, mica_token_list *ids)
{
    MICA_TRY(check_arguments(t, text, n, plain, n_plain, ids));
    encoding e = {.t = t,
                  .ids = ids,
                  .parse_special = (flags & MICA_ENCODE_PARSE_SPECIAL) != 0,
                  .plain = plain,
                  .n_plain = n_plain};
    const int64_t before = ids->n;
    mica_status status = make_cache(&e, n);
    if (status == MICA_OK)
        status = encode_all(&e, text ? text : "", n, (flags & MICA_ENCODE_ADD_SPECIAL) != 0);
    if (status != MICA_OK)
        ids->n = before;
    release(&e);
    int64_t bad;
    if (status == MICA_E_FORMAT && text && !mica__utf8_valid(text, n, &bad))
        return mica__fail_at(status, "byte %lld is the first that is not UTF-8", (long long)bad);
    return status;
}

mica_status mica_tokenizer_encode(const mica_tokenizer *t, const char *text, int64_t n,
                                  unsigned flags, mica_token_list *ids)
{
    return mica_tokenizer_encode_spans(t, text, n, NULL, 0, flags, ids);
}
