/* tokenizer_json.c - tokenizer.json, the file of Hugging Face tokenizers.
 *
 * Nearly all of its bytes are the vocabulary and the merges, so these are taken from the stream of
 * events as they come; the rest, the skeleton, is collected as JSON text and read as a small tree
 * afterwards. So the order of the file's members does not matter.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/tokenizer_json.h"

#define MAX_SKELETON (INT64_C(64) << 20)

/* Where the stream is. */
typedef enum place {
    IN_SKELETON,
    IN_VOCAB,
    IN_MERGES,
    IN_MERGE_PAIR,
    IN_IGNORED /* a vocabulary that is a list: not BPE, refused by its type later */
} place;

/* A merge as it stood in the file: one line, or two tokens when right_n >= 0. */
typedef struct raw_merge {
    int64_t at; /* in the pool */
    int32_t n;
    int32_t right_n;
} raw_merge;

typedef struct reading {
    mica_tokenizer *t;
    place at;
    int depth; /* open objects and lists */
    int ignored_depth;
    bool in_model;                                 /* the key at depth 1 is "model" */
    enum { KEY_OTHER, KEY_VOCAB, KEY_MERGES } key; /* at depth 2 inside the model */
    bool comma[80]; /* a member was written at this depth of the skeleton */
    mica__text skeleton;
    mica__text token; /* the vocabulary's key that waits for its id */
    mica__text pool;  /* texts of merges */
    raw_merge *merges;
    int64_t n_merges;
    int64_t merges_capacity;
    int parts; /* of the merge pair at hand */
} reading;

/* --- the skeleton ----------------------------------------------------------------------------- */

/* A comma where one is due before a value in a list or a key in an object. */
static void separate(reading *r)
{
    if (r->comma[r->depth])
        mica__text_add_char(&r->skeleton, ',');
    r->comma[r->depth] = true;
}

/* A value follows a key directly, else it is a member of a list. */
static mica_status put_value(reading *r, const char *text, size_t n)
{
    const char last = r->skeleton.length ? r->skeleton.bytes[r->skeleton.length - 1] : 0;
    if (last != ':')
        separate(r);
    return mica__text_add(&r->skeleton, text, n);
}

static mica_status open_level(reading *r, char bracket)
{
    MICA_TRY(put_value(r, &bracket, 1));
    r->depth++;
    r->comma[r->depth] = false;
    return MICA_OK;
}

static mica_status close_level(reading *r, char bracket)
{
    r->depth--;
    return mica__text_add_char(&r->skeleton, bracket);
}

/* --- merges ----------------------------------------------------------------------------------- */

static mica_status add_merge(reading *r, const char *text, size_t n)
{
    if (r->n_merges >= 4 * MICA__MAX_TOKENS || n > 2 * MICA__MAX_TOKEN_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "merge %lld is too long or one too many", (long long)r->n_merges);
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&r->merges, sizeof *r->merges, r->n_merges + 1,
                        &r->merges_capacity));
    r->merges[r->n_merges++] = (raw_merge){r->pool.length, (int32_t)n, -1};
    return mica__text_add(&r->pool, text, n);
}

static mica_status add_merge_part(reading *r, const char *text, size_t n)
{
    r->parts++;
    if (r->parts == 1)
        return add_merge(r, text, n);
    if (r->parts > 2 || n > MICA__MAX_TOKEN_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "merge %lld is not a pair of tokens", (long long)r->n_merges - 1);
    r->merges[r->n_merges - 1].right_n = (int32_t)n;
    return mica__text_add(&r->pool, text, n);
}

/* --- events ----------------------------------------------------------------------------------- */

static mica_status misplaced(const reading *r)
{
    MICA_FAIL(MICA_E_FORMAT,
              r->at == IN_VOCAB ? "the id of token \"%.80s\" is not a number"
                                : "a merge is neither a text nor a pair of texts%.0s",
              r->token.bytes ? r->token.bytes : "");
}

static mica_status on_literal(reading *r, const char *text, size_t n)
{
    if (r->at == IN_IGNORED)
        return MICA_OK;
    return r->at == IN_SKELETON ? put_value(r, text, n) : misplaced(r);
}

static mica_status on_null(void *user)
{
    return on_literal(user, "null", 4);
}

static mica_status on_boolean(void *user, bool value)
{
    return on_literal(user, value ? "true" : "false", value ? 4 : 5);
}

static mica_status on_number(void *user, const char *text, size_t n)
{
    reading *r = user;
    if (r->at != IN_VOCAB)
        return on_literal(r, text, n);
    int64_t id = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || id > MICA__MAX_TOKENS)
            MICA_FAIL(MICA_E_FORMAT, "token \"%.80s\" has the id %.*s (ids are 0 to %d)",
                      r->token.bytes, (int)(n < 40 ? n : 40), text, MICA__MAX_TOKENS - 1);
        id = id * 10 + (text[i] - '0');
    }
    return mica__vocab_set(&r->t->vocab, id, r->token.bytes, r->token.length, MICA_TOKEN_NORMAL,
                           MICA__NO_RANK);
}

static mica_status on_string(void *user, const char *bytes, size_t n)
{
    reading *r = user;
    switch (r->at) {
    case IN_SKELETON:
        MICA_TRY(put_value(r, "", 0));
        return mica__json_write_string(&r->skeleton, bytes, n);
    case IN_MERGES:
        return add_merge(r, bytes, n);
    case IN_MERGE_PAIR:
        return add_merge_part(r, bytes, n);
    case IN_IGNORED:
        return MICA_OK;
    case IN_VOCAB:
        break;
    }
    return misplaced(r);
}

static bool is(const char *bytes, size_t n, const char *text)
{
    return strlen(text) == n && memcmp(bytes, text, n) == 0;
}

static mica_status on_key(void *user, const char *bytes, size_t n)
{
    reading *r = user;
    if (r->at == IN_IGNORED)
        return MICA_OK;
    if (r->at == IN_VOCAB) {
        mica__text_clear(&r->token);
        return mica__text_add(&r->token, bytes, n);
    }
    if (r->depth == 1)
        r->in_model = is(bytes, n, "model");
    r->key = KEY_OTHER;
    if (r->depth == 2 && r->in_model && is(bytes, n, "vocab"))
        r->key = KEY_VOCAB;
    if (r->depth == 2 && r->in_model && is(bytes, n, "merges"))
        r->key = KEY_MERGES;
    separate(r);
    MICA_TRY(mica__json_write_string(&r->skeleton, bytes, n));
    return mica__text_add_char(&r->skeleton, ':');
}

/* Whether the value that begins now is the model's vocabulary or merges. */
static bool is_member(const reading *r, int key)
{
    return r->at == IN_SKELETON && r->depth == 2 && r->in_model && (int)r->key == key &&
           r->skeleton.length && r->skeleton.bytes[r->skeleton.length - 1] == ':';
}

static mica_status on_start_object(void *user)
{
    reading *r = user;
    if (is_member(r, KEY_VOCAB)) {
        r->at = IN_VOCAB;
        return mica__text_add_string(&r->skeleton, "{}");
    }
    if (r->at == IN_IGNORED) {
        r->ignored_depth++;
        return MICA_OK;
    }
    return r->at == IN_SKELETON ? open_level(r, '{') : misplaced(r);
}

static mica_status on_end_object(void *user)
{
    reading *r = user;
    if (r->at == IN_VOCAB) {
        r->at = IN_SKELETON;
        return MICA_OK;
    }
    if (r->at == IN_IGNORED) {
        r->ignored_depth--;
        return MICA_OK;
    }
    return close_level(r, '}');
}

static mica_status on_start_array(void *user)
{
    reading *r = user;
    if (is_member(r, KEY_MERGES)) {
        r->at = IN_MERGES;
        return mica__text_add_string(&r->skeleton, "[]");
    }
    if (is_member(r, KEY_VOCAB)) {
        r->at = IN_IGNORED;
        r->ignored_depth = 1;
        return mica__text_add_string(&r->skeleton, "[]");
    }
    if (r->at == IN_IGNORED) {
        r->ignored_depth++;
        return MICA_OK;
    }
    if (r->at == IN_MERGES) {
        r->at = IN_MERGE_PAIR;
        r->parts = 0;
        return MICA_OK;
    }
    return r->at == IN_SKELETON ? open_level(r, '[') : misplaced(r);
}

static mica_status on_end_array(void *user)
{
    reading *r = user;
    switch (r->at) {
    case IN_MERGES:
        r->at = IN_SKELETON;
        return MICA_OK;
    case IN_MERGE_PAIR:
        r->at = IN_MERGES;
        if (r->parts != 2)
            MICA_FAIL(MICA_E_FORMAT, "merge %lld has %d parts instead of 2",
                      (long long)r->n_merges - (r->parts > 0), r->parts);
        return MICA_OK;
    case IN_IGNORED:
        if (--r->ignored_depth == 0)
            r->at = IN_SKELETON;
        return MICA_OK;
    case IN_SKELETON:
    case IN_VOCAB:
        break;
    }
    return close_level(r, ']');
}

static const mica__json_events events = {
    .null = on_null,
    .boolean = on_boolean,
    .number = on_number,
    .string = on_string,
    .key = on_key,
    .start_object = on_start_object,
    .end_object = on_end_object,
    .start_array = on_start_array,
    .end_array = on_end_array,
};

/* --- after the stream ------------------------------------------------------------------------- */

static mica_status apply_merges(reading *r)
{
    MICA_TRY(mica__tokenizer_merges(r->t, r->n_merges));
    uint32_t rank = 0;
    for (int64_t i = 0; i < r->n_merges; i++) {
        const raw_merge *m = &r->merges[i];
        const char *text = r->pool.bytes + m->at;
        if (m->right_n >= 0)
            MICA_TRY(mica__tokenizer_merge(r->t, text, m->n, text + m->n, m->right_n, rank++));
        else if (m->n < 8 || memcmp(text, "#version", 8) != 0)
            MICA_TRY(mica__tokenizer_merge_line(r->t, text, m->n, rank++));
    }
    return MICA_OK;
}

static mica_status build(reading *r, const mica__json *root, const mica__model_config *config)
{
    mica_tokenizer *t = r->t;
    bool any;
    MICA_TRY(mica__json_check_model(mica__json_get(root, "model")));
    MICA_TRY(mica__json_apply_added(mica__json_get(root, "added_tokens"), t));
    MICA_TRY(mica__model_config_put_added(config, t, &any));
    MICA_TRY(mica__tokenizer_index(t));
    MICA_TRY(mica__json_apply_pre_tokenizer(mica__json_get(root, "pre_tokenizer"), t));
    MICA_TRY(mica__json_apply_normalizer(mica__json_get(root, "normalizer"), t));
    MICA_TRY(mica__json_apply_decoder(mica__json_get(root, "decoder"), t));
    MICA_TRY(mica__json_apply_model(mica__json_get(root, "model"), t));
    MICA_TRY(apply_merges(r));
    bool has_template = false;
    MICA_TRY(
        mica__json_apply_post_processor(mica__json_get(root, "post_processor"), t, &has_template));
    MICA_TRY(mica__model_config_apply(config, t, has_template));
    return mica__tokenizer_finish(t);
}

static mica_status read_all(reading *r, const char *bytes, int64_t n,
                            const mica__model_config *config)
{
    MICA_TRY(mica__json_stream(bytes, (size_t)n, 64, &events, r));
    mica__json_doc *doc = NULL;
    MICA_TRY(mica__json_parse(r->skeleton.bytes, (size_t)r->skeleton.length, 64, &doc));
    const mica_status status = build(r, mica__json_root(doc), config);
    mica__json_free(doc);
    return status;
}

mica_status mica__tokenizer_from_json(const char *bytes, int64_t n,
                                      const mica__model_config *config, mica_tokenizer **out)
{
    reading r = {
        .skeleton = {.kind = MICA_MEMORY_TEXT, .max = MAX_SKELETON},
        .token = {.kind = MICA_MEMORY_TEXT},
        .pool = {.kind = MICA_MEMORY_TEXT},
    };
    MICA_TRY(mica__tokenizer_new(&r.t));
    const mica_status status = read_all(&r, bytes, n, config);
    mica__text_free(&r.skeleton);
    mica__text_free(&r.token);
    mica__text_free(&r.pool);
    mica__free(r.merges);
    if (status == MICA_OK)
        *out = r.t;
    else
        mica_tokenizer_free(r.t);
    return status;
}
