/* normal_forms.c - the Unicode normal forms.
 *
 * Most text is in normal form, so it is copied in pieces; only from the last character that nothing
 * can change or join from the left up to the next such one is it taken apart, ordered and composed.
 * That is exact because such a character is a starter that never is the second of a composition.
 * Unicode Standard Annex #15.
 * SPDX-License-Identifier: MIT
 */
#include "text/unicode.h"

#include <string.h>

/* Hangul syllables by arithmetic (Unicode standard, 3.12). */
enum {
    S_BASE = 0xAC00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11A7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

/* One character of the piece at work; its combining class rides along. */
typedef struct mark {
    uint32_t c;
    uint8_t class;
} mark;

typedef struct piece {
    mark *marks;
    mark *ordered; /* scratch of the same capacity */
    int64_t n;
    int64_t capacity;
    int64_t ordered_capacity;
} piece;

static uint8_t combining_class(uint32_t c)
{
    int low = 0, high = mica__unicode_n_combining;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (mica__unicode_combining[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < mica__unicode_n_combining && mica__unicode_combining[low].first <= c;
    return found ? mica__unicode_combining[low].class : 0;
}

static const mica__decomposition *find_decomposition(const mica__decomposition *table, int n,
                                                     uint32_t c)
{
    int low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (table[middle].c < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && table[low].c == c ? &table[low] : NULL;
}

/* The character that first and second compose to, or 0. */
static uint32_t compose(uint32_t first, uint32_t second)
{
    if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 && second > T_BASE &&
        second < T_BASE + T_COUNT)
        return first + (second - T_BASE);
    const uint64_t key = (uint64_t)first << 32 | second;
    int low = 0, high = mica__unicode_n_composition;
    while (low < high) {
        const int middle = (low + high) / 2;
        const mica__composition *row = &mica__unicode_composition[middle];
        if (((uint64_t)row->first << 32 | row->second) < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == mica__unicode_n_composition)
        return 0;
    const mica__composition *row = &mica__unicode_composition[low];
    return row->first == first && row->second == second ? row->composed : 0;
}

static mica_status add_mark(piece *p, uint32_t c)
{
    MICA_TRY(
        mica__grow(MICA_MEMORY_TEXT, (void **)&p->marks, sizeof *p->marks, p->n + 1, &p->capacity));
    p->marks[p->n++] = (mark){c, combining_class(c)};
    return MICA_OK;
}

static mica_status add_decomposed(piece *p, uint32_t c, bool compatible)
{
    if (c - S_BASE < S_COUNT) {
        const uint32_t s = c - S_BASE;
        MICA_TRY(add_mark(p, L_BASE + s / (V_COUNT * T_COUNT)));
        MICA_TRY(add_mark(p, V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT));
        return s % T_COUNT ? add_mark(p, T_BASE + s % T_COUNT) : MICA_OK;
    }
    const uint32_t *pool = mica__unicode_compatible_pool;
    const mica__decomposition *row =
        compatible ? find_decomposition(mica__unicode_compatible, mica__unicode_n_compatible, c)
                   : NULL;
    if (!row) {
        pool = mica__unicode_canonical_pool;
        row = find_decomposition(mica__unicode_canonical, mica__unicode_n_canonical, c);
    }
    if (!row)
        return add_mark(p, c);
    for (int i = 0; i < row->length; i++)
        MICA_TRY(add_mark(p, pool[row->at + i]));
    return MICA_OK;
}

/* Orders marks[from, to), all of class > 0, by class and keeps equal ones in their order: a
 * counting sort, since a hostile text may have a run of millions. */
static void order_run(piece *p, int64_t from, int64_t to)
{
    bool sorted = true;
    for (int64_t i = from + 1; i < to && sorted; i++)
        sorted = p->marks[i - 1].class <= p->marks[i].class;
    if (sorted)
        return;
    int64_t start[257] = {0};
    for (int64_t i = from; i < to; i++)
        start[p->marks[i].class + 1]++;
    for (int i = 0; i < 256; i++)
        start[i + 1] += start[i];
    for (int64_t i = from; i < to; i++)
        p->ordered[start[p->marks[i].class]++] = p->marks[i];
    memcpy(p->marks + from, p->ordered, (size_t)(to - from) * sizeof *p->marks);
}

static mica_status order(piece *p)
{
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&p->ordered, sizeof *p->ordered, p->n,
                        &p->ordered_capacity));
    for (int64_t i = 0; i < p->n; i++) {
        int64_t end = i;
        while (end < p->n && p->marks[end].class)
            end++;
        if (end - i > 1)
            order_run(p, i, end);
        if (end > i)
            i = end - 1;
    }
    return MICA_OK;
}

/* Canonical composition in place. */
static void recompose(piece *p)
{
    int64_t kept = 0, starter = -1;
    for (int64_t i = 0; i < p->n; i++) {
        const mark m = p->marks[i];
        const bool blocked =
            kept > starter + 1 && (p->marks[kept - 1].class >= m.class || m.class == 0);
        const uint32_t joined = starter >= 0 && !blocked ? compose(p->marks[starter].c, m.c) : 0;
        if (joined) {
            p->marks[starter].c = joined;
            continue;
        }
        if (m.class == 0)
            starter = kept;
        p->marks[kept++] = m;
    }
    p->n = kept;
}

static mica_status put_piece(piece *p, bool composed, mica__text *out)
{
    MICA_TRY(order(p));
    if (composed)
        recompose(p);
    for (int64_t i = 0; i < p->n; i++) {
        char bytes[4];
        const int n = mica__utf8_put(p->marks[i].c, bytes);
        MICA_TRY(mica__text_add(out, bytes, (size_t)n));
    }
    p->n = 0;
    return MICA_OK;
}

/* Whether c may be copied and is a border: nothing before it can change because of it. Decomposed
 * forms take every non-ASCII character apart. */
static bool is_border(mica__normal_form form, uint32_t c)
{
    if (c < 0x80 || c == MICA__BAD_CHAR)
        return true;
    switch (form) {
    case MICA__NFC:
        return !(mica__unicode(c) & MICA__NOT_NFC);
    case MICA__NFKC:
        return !(mica__unicode(c) & MICA__NOT_NFKC);
    case MICA__NFD:
    case MICA__NFKD:
        break;
    }
    return false;
}

bool mica__is_normal(mica__normal_form form, const char *text, int64_t n)
{
    int length;
    for (int64_t at = 0; at < n; at += length)
        if (!is_border(form, mica__utf8_next(text, n, at, &length)))
            return false;
    return true;
}

static mica_status normalize_from(mica__normal_form form, const char *text, int64_t n, piece *p,
                                  mica__text *out)
{
    const bool compatible = form == MICA__NFKC || form == MICA__NFKD;
    const bool composed = form == MICA__NFC || form == MICA__NFKC;
    int64_t copied = 0, border = 0; /* text[0, copied) is done; `border` begins the last border */
    int length;
    for (int64_t at = 0; at < n;) {
        uint32_t c = mica__utf8_next(text, n, at, &length);
        if (is_border(form, c)) {
            border = at;
            at += length;
            continue;
        }
        int first;
        if (border < at && mica__utf8_next(text, n, border, &first) == MICA__BAD_CHAR)
            border = at; /* a stray byte joins with nothing */
        MICA_TRY(mica__text_add(out, text + copied, (size_t)(border - copied)));
        for (at = border; at < n; at += length) {
            c = mica__utf8_next(text, n, at, &length);
            if (at > border && is_border(form, c))
                break;
            MICA_TRY(add_decomposed(p, c, compatible));
        }
        MICA_TRY(put_piece(p, composed, out));
        copied = border = at;
    }
    return mica__text_add(out, text + copied, (size_t)(n - copied));
}

mica_status mica__normalize(mica__normal_form form, const char *text, int64_t n, mica__text *out)
{
    piece p = {0};
    const mica_status status = normalize_from(form, text, n, &p, out);
    mica__free(p.marks);
    mica__free(p.ordered);
    return status;
}
