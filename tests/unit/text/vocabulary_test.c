/* vocabulary_test.c - tokens, tables, merging and added tokens by themselves.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/vocabulary.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

static void set(mica__vocab *v, int64_t id, const char *text)
{
    assert_ok(mica__vocab_set(v, id, text, (int64_t)strlen(text), MICA_TOKEN_NORMAL, (uint32_t)id));
}

static void tokens_are_found_by_text_and_holes_are_none(void **state)
{
    (void)state;
    const int64_t before = held();
    mica__vocab v = {0};
    for (int i = 0; i < 5000; i++) {
        char text[16];
        snprintf(text, sizeof text, "t%d", i);
        set(&v, 2 * i, text);
    }
    assert_ok(mica__vocab_index(&v));
    for (int i = 0; i < 5000; i++) {
        char text[16];
        const int n = snprintf(text, sizeof text, "t%d", i);
        assert_int_equal(mica__vocab_find(&v, text, n), 2 * i);
        assert_string_equal(mica__vocab_text(&v, 2 * i), text);
        if (i > 0)
            assert_int_equal(v.kind[2 * i - 1], MICA_TOKEN_NONE);
    }
    assert_int_equal(mica__vocab_find(&v, "t", 1), -1);
    assert_int_equal(mica__vocab_find(&v, "", 0), -1);
    mica__vocab_free(&v);
    assert_int_equal(mica__vocab_find(&v, "t1", 2), -1);
    assert_int_equal(held(), before);
}

static void impossible_tokens_are_refused(void **state)
{
    (void)state;
    mica__vocab v = {0};
    char *huge = calloc(MICA__MAX_TOKEN_BYTES + 1, 1);
    set(&v, 3, "a");
    assert_status(mica__vocab_set(&v, 3, "b", 1, MICA_TOKEN_NORMAL, 0), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "id 3 belongs to \"a\" and to \"b\""));
    assert_status(mica__vocab_set(&v, -1, "b", 1, MICA_TOKEN_NORMAL, 0), MICA_E_FORMAT);
    assert_status(mica__vocab_set(&v, MICA__MAX_TOKENS, "b", 1, MICA_TOKEN_NORMAL, 0),
                  MICA_E_FORMAT);
    assert_status(mica__vocab_set(&v, 4, huge, MICA__MAX_TOKEN_BYTES + 1, MICA_TOKEN_NORMAL, 0),
                  MICA_E_FORMAT);
    set(&v, 5, "a");
    assert_status(mica__vocab_index(&v), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "tokens 3 and 5 have the same text \"a\""));
    mica__vocab_free(&v);
    set(&v, 3000000, "a");
    assert_status(mica__vocab_index(&v), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "1 tokens have ids up to 3000000"));
    mica__vocab_free(&v);
    free(huge);
}

static void pairs_are_found_and_replaced(void **state)
{
    (void)state;
    mica__pairs pairs = {0};
    assert_null(mica__pairs_find(&pairs, 1, 2));
    assert_ok(mica__pairs_init(&pairs, 1000));
    for (uint32_t i = 0; i < 1000; i++)
        assert_ok(mica__pairs_set(&pairs, (mica__pair){i % 37, i, i, i + 1}));
    assert_ok(mica__pairs_set(&pairs, (mica__pair){5, 5, 77, 78}));
    assert_int_equal(mica__pairs_find(&pairs, 5, 5)->rank, 77);
    assert_int_equal(mica__pairs_find(&pairs, 999 % 37, 999)->merged, 1000);
    assert_null(mica__pairs_find(&pairs, 5, 6));
    assert_int_equal(pairs.n, 1000);
    mica__pairs_free(&pairs);
}

/* --- merging ---------------------------------------------------------------------------------- */

/* A vocabulary of the bytes a to d and every string of them up to five long that a seed lets in;
 * merges are ranked in random order. */
typedef struct toy {
    mica__vocab v;
    mica__bpe bpe;
} toy;

static unsigned next(unsigned *seed)
{
    return (*seed = *seed * 1103515245 + 12345) >> 16;
}

static void toy_new(toy *t, unsigned *seed, bool by_text)
{
    memset(t, 0, sizeof *t);
    int id = 0;
    char text[6] = "a";
    for (char c = 'a'; c <= 'd'; c++) {
        text[0] = c;
        assert_ok(mica__vocab_set(&t->v, id++, text, 1, MICA_TOKEN_NORMAL, 1000000));
    }
    for (int n = 2; n <= 5; n++)
        for (int k = 0; k < 60; k++) {
            for (int i = 0; i < n; i++)
                text[i] = (char)('a' + next(seed) % 4);
            bool known = false;
            for (int i = 0; i < id && !known; i++)
                known = t->v.text[i].length == (uint32_t)n &&
                        memcmp(mica__vocab_text(&t->v, i), text, (size_t)n) == 0;
            /* Equal ranks too: the leftmost goes first then. */
            if (!known)
                assert_ok(
                    mica__vocab_set(&t->v, id++, text, n, MICA_TOKEN_NORMAL, next(seed) % 100));
        }
    assert_ok(mica__vocab_index(&t->v));
    t->bpe.vocab = &t->v;
    t->bpe.by_text = by_text;
    t->bpe.of_bytes = true;
    t->bpe.unknown = -1;
    for (int b = 0; b < 256; b++)
        t->bpe.byte_id[b] = b >= 'a' && b <= 'd' ? b - 'a' : -1;
    if (by_text)
        return;
    assert_ok(mica__pairs_init(&t->bpe.pairs, 4 * t->v.n));
    for (int i = 4; i < t->v.n; i++) {
        const int n = (int)t->v.text[i].length, left_n = 1 + (int)(next(seed) % (n - 1));
        const int left = mica__vocab_find(&t->v, mica__vocab_text(&t->v, i), left_n);
        const int right = mica__vocab_find(&t->v, mica__vocab_text(&t->v, i) + left_n, n - left_n);
        if (left >= 0 && right >= 0)
            assert_ok(mica__pairs_set(&t->bpe.pairs, (mica__pair){(uint32_t)left, (uint32_t)right,
                                                                  t->v.rank[i], (uint32_t)i}));
    }
}

static void toy_free(toy *t)
{
    mica__vocab_free(&t->v);
    mica__pairs_free(&t->bpe.pairs);
}

/* The definition: find the pair of lowest rank, leftmost first, join it, start over. */
static int naive(const toy *t, const char *word, int n, int *ids)
{
    int at[1024], count = n;
    for (int i = 0; i <= n; i++)
        at[i] = i;
    for (int i = 0; i < n; i++)
        ids[i] = word[i] - 'a';
    for (;;) {
        uint32_t best_rank = UINT32_MAX;
        int best = -1, merged = -1;
        for (int i = 0; i + 1 < count; i++) {
            int id = -1;
            uint32_t rank = 0;
            if (t->bpe.by_text) {
                id = mica__vocab_find(&t->v, word + at[i], at[i + 2] - at[i]);
                rank = id >= 0 ? t->v.rank[id] : 0;
            } else {
                const mica__pair *p =
                    mica__pairs_find(&t->bpe.pairs, (uint32_t)ids[i], (uint32_t)ids[i + 1]);
                id = p ? (int)p->merged : -1;
                rank = p ? p->rank : 0;
            }
            if (id >= 0 && rank < best_rank) {
                best_rank = rank;
                best = i;
                merged = id;
            }
        }
        if (best < 0)
            return count;
        ids[best] = merged;
        for (int i = best + 1; i + 1 < count; i++)
            ids[i] = ids[i + 1];
        for (int i = best + 1; i < count; i++)
            at[i] = at[i + 1];
        count--;
    }
}

static void short_and_long_words_merge_as_defined(void **state)
{
    (void)state;
    unsigned seed = 4711;
    print_message("seed %u\n", seed);
    for (int round = 0; round < 40; round++) {
        toy t;
        toy_new(&t, &seed, round % 2);
        mica__bpe_work work = {0};
        for (int k = 0; k < 60; k++) {
            char word[1024];
            int expected[1024];
            const int n = 1 + (int)(next(&seed) % (k % 3 ? 30 : 900));
            for (int i = 0; i < n; i++)
                word[i] = (char)('a' + next(&seed) % 4);
            const int count = naive(&t, word, n, expected);
            mica_token_list ids = {0};
            assert_ok(mica__bpe_encode(&t.bpe, &work, word, n, &ids));
            assert_int_equal(ids.n, count);
            assert_memory_equal(ids.ids, expected, (size_t)count * sizeof *expected);
            mica_token_list_free(&ids);
        }
        mica__bpe_work_free(&work);
        toy_free(&t);
    }
}

static void a_byte_without_a_token_is_unknown_or_an_error(void **state)
{
    (void)state;
    unsigned seed = 1;
    toy t;
    toy_new(&t, &seed, true);
    mica__bpe_work work = {0};
    mica_token_list ids = {0};
    assert_status(mica__bpe_encode(&t.bpe, &work, "ax", 2, &ids), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "no token for the bytes 78 "));
    t.bpe.unknown = 3;
    ids.n = 0;
    assert_ok(mica__bpe_encode(&t.bpe, &work, "xx", 2, &ids));
    assert_int_equal(ids.n, 2);
    t.bpe.fuse_unknown = true;
    ids.n = 0;
    assert_ok(mica__bpe_encode(&t.bpe, &work, "xx", 2, &ids));
    assert_int_equal(ids.n, 1);
    mica_token_list_free(&ids);
    mica__bpe_work_free(&work);
    toy_free(&t);
}

/* SentencePiece's rule for unused pieces, worked by hand: ab joins first, then abc, which is
 * unused, so it comes apart into ab and c again. */
static void an_unused_token_comes_apart_where_it_was_joined(void **state)
{
    (void)state;
    mica__vocab v = {0};
    assert_ok(mica__vocab_set(&v, 0, "a", 1, MICA_TOKEN_NORMAL, 9));
    assert_ok(mica__vocab_set(&v, 1, "b", 1, MICA_TOKEN_NORMAL, 9));
    assert_ok(mica__vocab_set(&v, 2, "c", 1, MICA_TOKEN_NORMAL, 9));
    assert_ok(mica__vocab_set(&v, 3, "ab", 2, MICA_TOKEN_NORMAL, 1));
    assert_ok(mica__vocab_set(&v, 4, "abc", 3, MICA_TOKEN_UNUSED, 2));
    assert_ok(mica__vocab_set(&v, 5, "abcabc", 6, MICA_TOKEN_UNUSED, 3));
    assert_ok(mica__vocab_index(&v));
    mica__bpe bpe = {.vocab = &v, .by_text = true, .has_unused = true, .unknown = -1};
    mica__bpe_work work = {0};
    mica_token_list ids = {0};
    const int32_t expected[] = {3, 2, 3, 2};
    assert_ok(mica__bpe_encode(&bpe, &work, "abcabc", 6, &ids));
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.ids, expected, sizeof expected);
    mica_token_list_free(&ids);
    mica__bpe_work_free(&work);
    mica__vocab_free(&v);
}

/* --- added tokens ----------------------------------------------------------------------------- */

typedef struct found {
    int32_t id;
    int64_t from, to;
} found;

static int find_all(const mica__added_set *set, mica__added_rules rules, const char *text,
                    found *out)
{
    const mica__added *item;
    int64_t at = 0, from, to;
    int n = 0;
    while (mica__added_find(set, &rules, text, (int64_t)strlen(text), at, &item, &from, &to)) {
        out[n++] = (found){item->id, from, to};
        at = to;
    }
    return n;
}

static void the_longest_added_token_is_found_leftmost_first(void **state)
{
    (void)state;
    static const char *const texts[] = {"<a", "<ab>", "b>c", "\n", "\n\n", "\xe2\x96\x81"};
    mica__added_set set = {0};
    found f[16];
    assert_ok(mica__added_set_init(&set, 6, 15));
    for (int i = 0; i < 6; i++)
        assert_ok(
            mica__added_set_put(&set, (mica__added){.id = i}, texts[i], (int64_t)strlen(texts[i])));
    const mica__added_rules rules = {.special = true};
    assert_int_equal(find_all(&set, rules, "x<ab>c<a b>c", f), 3);
    assert_true(f[0].id == 1 && f[0].from == 1 && f[0].to == 5);
    assert_true(f[1].id == 0 && f[1].from == 6 && f[1].to == 8);
    assert_true(f[2].id == 2 && f[2].from == 9);
    assert_int_equal(find_all(&set, rules, "\n\n\n\n\n", f), 3);
    assert_true(f[0].id == 4 && f[1].id == 4 && f[2].id == 3);
    assert_int_equal(find_all(&set, rules, "", f), 0);
    assert_status(mica__added_set_put(&set, (mica__added){.id = 9}, "", 0), MICA_E_FORMAT);
    mica__added_set_free(&set);
}

static void added_tokens_look_at_their_surroundings(void **state)
{
    (void)state;
    mica__added_set set = {0};
    found f[16];
    assert_ok(mica__added_set_init(&set, 3, 9));
    assert_ok(mica__added_set_put(&set, (mica__added){.id = 0, .single_word = true}, "wor", 3));
    assert_ok(mica__added_set_put(&set, (mica__added){.id = 1, .lstrip = true, .rstrip = true},
                                  "<m>", 3));
    assert_ok(mica__added_set_put(&set, (mica__added){.id = 2, .special = true}, "<s>", 3));
    mica__added_rules rules = {0};
    assert_int_equal(find_all(&set, rules, "wor wors swor w\u00f6wor wor-wor", f), 3);
    assert_true(f[0].from == 0 && f[1].from == 21 && f[2].from == 25);
    /* White space goes along, but not what the match before has taken. */
    assert_int_equal(find_all(&set, rules, "a \u3000<m> \n <m>b", f), 2);
    assert_true(f[0].from == 1 && f[0].to == 11 && f[1].from == 11 && f[1].to == 14);
    assert_int_equal(find_all(&set, rules, "<s>", f), 0);
    rules.special = true;
    assert_int_equal(find_all(&set, rules, "<s><s>", f), 2);
    /* Not where any byte of it is plain. */
    const mica_text_span plain[] = {{0, 1}, {4, 4}, {8, 9}};
    rules.plain = plain;
    rules.n_plain = 3;
    assert_int_equal(find_all(&set, rules, "<s><s><s><s>", f), 2);
    assert_true(f[0].from == 3 && f[1].from == 9);
    mica__added_set_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_found_by_text_and_holes_are_none),
        cmocka_unit_test(impossible_tokens_are_refused),
        cmocka_unit_test(pairs_are_found_and_replaced),
        cmocka_unit_test(short_and_long_words_merge_as_defined),
        cmocka_unit_test(a_byte_without_a_token_is_unknown_or_an_error),
        cmocka_unit_test(an_unused_token_comes_apart_where_it_was_joined),
        cmocka_unit_test(the_longest_added_token_is_found_leftmost_first),
        cmocka_unit_test(added_tokens_look_at_their_surroundings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
