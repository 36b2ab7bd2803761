/* added_tokens.h - tokens that are found in the text as a whole, before anything else happens.
 *
 * Leftmost match first, the longest of those that start there. A token may ask for its
 * surroundings (single_word) or take white space beside it along (lstrip, rstrip).
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_ADDED_TOKENS_H
#define MICA_TEXT_ADDED_TOKENS_H

#include "text/vocabulary.h"

#define MICA__MAX_ADDED_BYTES 4096 /* length of an added token's text */

typedef struct mica__added {
    int32_t id;
    bool special;    /* not found in plain spans or without MICA_ENCODE_PARSE_SPECIAL */
    bool normalized; /* looked for after normalisation */
    bool single_word;
    bool lstrip, rstrip;
} mica__added;

/* A trie over the texts of some added tokens. The edges lie in a table: (node, byte) -> node. */
typedef struct mica__added_set {
    mica__added *items;
    int64_t n;
    int64_t capacity;
    mica__pairs edges;
    int32_t *item_of; /* [n_nodes] index of the item whose text ends there, -1 none */
    int64_t n_nodes;
    int64_t max_nodes; /* besides the root */
    bool starts[256];  /* first bytes of the texts */
} mica__added_set;

/* Puts an item with the text it is found by into the set. Room must have been made. */
mica_status mica__added_set_init(mica__added_set *set, int64_t n_items, int64_t n_bytes);
mica_status mica__added_set_put(mica__added_set *set, mica__added item, const char *text,
                                int64_t n);
void mica__added_set_free(mica__added_set *set);

/* Which matches count. */
typedef struct mica__added_rules {
    bool special;                /* special tokens are found at all */
    const mica_text_span *plain; /* [n_plain] ... but not where they touch one of these */
    int64_t n_plain;
    int64_t next_plain; /* cursor; the search moves forward only */
} mica__added_rules;

/* The first match in text[at, n): fills in the item and the bytes it takes, stripped white space
 * included, which never reaches back before `at`. False when there is none. */
bool mica__added_find(const mica__added_set *set, mica__added_rules *rules, const char *text,
                      int64_t n, int64_t at, const mica__added **item, int64_t *from, int64_t *to);

#endif
