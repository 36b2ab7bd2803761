/* added_tokens.c - tokens that are found in the text as a whole.
 *
 * At each byte that begins some token the trie is walked; a walk is as long as the longest common
 * start, so the search is linear in the text for a given vocabulary.
 * SPDX-License-Identifier: MIT
 */
#include "text/added_tokens.h"

#include "text/unicode.h"

mica_status mica__added_set_init(mica__added_set *set, int64_t n_items, int64_t n_bytes)
{
    MICA_TRY(mica__pairs_init(&set->edges, n_bytes));
    set->item_of = mica__alloc(MICA_MEMORY_TEXT, (size_t)(n_bytes + 1) * sizeof *set->item_of);
    if (!set->item_of)
        return MICA_E_MEMORY;
    set->item_of[0] = -1;
    set->n_nodes = 1;
    set->max_nodes = n_bytes;
    return mica__grow(MICA_MEMORY_TEXT, (void **)&set->items, sizeof *set->items, n_items + 1,
                      &set->capacity);
}

mica_status mica__added_set_put(mica__added_set *set, mica__added item, const char *text, int64_t n)
{
    if (n == 0 || n > MICA__MAX_ADDED_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "added token %d has %lld bytes (1 to %d are accepted)",
                  (int)item.id, (long long)n, MICA__MAX_ADDED_BYTES);
    uint32_t node = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t byte = (uint8_t)text[i];
        const mica__pair *edge = mica__pairs_find(&set->edges, node, byte);
        if (edge) {
            node = edge->merged;
            continue;
        }
        if (set->n_nodes > set->max_nodes)
            MICA_FAIL(MICA_E_INTERNAL, "no room for added token %d", (int)item.id);
        const uint32_t made = (uint32_t)set->n_nodes;
        MICA_TRY(mica__pairs_set(&set->edges, (mica__pair){node, byte, 0, made}));
        set->item_of[set->n_nodes++] = -1;
        node = made;
    }
    if (set->item_of[node] >= 0)
        return MICA_OK; /* two texts that normalisation made equal: the first one is found */
    set->item_of[node] = (int32_t)set->n;
    set->items[set->n++] = item;
    set->starts[(uint8_t)text[0]] = true;
    return MICA_OK;
}

void mica__added_set_free(mica__added_set *set)
{
    mica__free(set->items);
    mica__free(set->item_of);
    mica__pairs_free(&set->edges);
    *set = (mica__added_set){0};
}

/* Where the character that ends at `at` begins. */
static int64_t before(const char *text, int64_t at)
{
    int64_t start = at - 1;
    while (start > 0 && at - start < 4 && ((uint8_t)text[start] & 0xc0) == 0x80)
        start--;
    int length;
    mica__utf8_next(text, at, start, &length);
    return start + length == at ? start : at - 1;
}

static bool is_word(const char *text, int64_t n, int64_t at)
{
    int length;
    return (mica__unicode(mica__utf8_next(text, n, at, &length)) & MICA__WORD) != 0;
}

static bool stands_alone(const char *text, int64_t n, int64_t from, int64_t to)
{
    return !(from > 0 && is_word(text, n, before(text, from))) && !(to < n && is_word(text, n, to));
}

static bool touches_plain(mica__added_rules *rules, int64_t from, int64_t to)
{
    while (rules->next_plain < rules->n_plain && rules->plain[rules->next_plain].to <= from)
        rules->next_plain++;
    for (int64_t i = rules->next_plain; i < rules->n_plain && rules->plain[i].from < to; i++)
        if (rules->plain[i].to > rules->plain[i].from)
            return true;
    return false;
}

static bool counts(const mica__added *item, mica__added_rules *rules, const char *text, int64_t n,
                   int64_t from, int64_t to)
{
    if (item->special && (!rules->special || touches_plain(rules, from, to)))
        return false;
    return !item->single_word || stands_alone(text, n, from, to);
}

/* The longest token at `at` that counts, or NULL. */
static const mica__added *longest(const mica__added_set *set, mica__added_rules *rules,
                                  const char *text, int64_t n, int64_t at, int64_t *to)
{
    const mica__added *best = NULL;
    uint32_t node = 0;
    for (int64_t i = at; i < n; i++) {
        const mica__pair *edge = mica__pairs_find(&set->edges, node, (uint8_t)text[i]);
        if (!edge)
            break;
        node = edge->merged;
        const int32_t index = set->item_of[node];
        if (index >= 0 && counts(&set->items[index], rules, text, n, at, i + 1)) {
            best = &set->items[index];
            *to = i + 1;
        }
    }
    return best;
}

static void strip(const mica__added *item, const char *text, int64_t n, int64_t least,
                  int64_t *from, int64_t *to)
{
    int length;
    while (item->lstrip && *from > least) {
        const int64_t start = before(text, *from);
        if (start < least || !mica__is(mica__utf8_next(text, n, start, &length), MICA__SPACE))
            break;
        *from = start;
    }
    while (item->rstrip && *to < n && mica__is(mica__utf8_next(text, n, *to, &length), MICA__SPACE))
        *to += length;
}

bool mica__added_find(const mica__added_set *set, mica__added_rules *rules, const char *text,
                      int64_t n, int64_t at, const mica__added **item, int64_t *from, int64_t *to)
{
    if (set->n == 0)
        return false;
    for (int64_t i = at; i < n; i++) {
        if (!set->starts[(uint8_t)text[i]])
            continue;
        *item = longest(set, rules, text, n, i, to);
        if (*item) {
            *from = i;
            strip(*item, text, n, at, from, to);
            return true;
        }
    }
    return false;
}
