/* tokenizer_gguf.c - a tokenizer from the keys of a GGUF file.
 *
 * tokenizer.ggml.model says what it is: gpt2 (byte-level BPE with merges and the name of a
 * pre-tokenizer) or llama (SentencePiece BPE with scores).
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "text/tokenizer_parts.h"

static bool is(mica__gguf_string s, const char *text)
{
    return s.length == (int64_t)strlen(text) && memcmp(s.bytes, text, strlen(text)) == 0;
}

/* An array key with this many elements; NULL when absent. */
static mica_status find_array(const mica__gguf *g, const char *key, int64_t n,
                              const mica__gguf_value **array)
{
    *array = mica__gguf_find(g, key);
    if (!*array)
        return MICA_OK;
    if ((*array)->type != MICA__GGUF_ARRAY || (n >= 0 && (*array)->n != n))
        MICA_FAIL(MICA_E_FORMAT, "%s is not an array of %lld elements", key, (long long)n);
    return MICA_OK;
}

static mica_status find_strings(const mica__gguf *g, const char *key,
                                const mica__gguf_value **array)
{
    MICA_TRY(find_array(g, key, -1, array));
    if (!*array)
        MICA_FAIL(MICA_E_FORMAT, "the file has no %s", key);
    if ((*array)->element_type != MICA__GGUF_STRING)
        MICA_FAIL(MICA_E_FORMAT, "%s is not an array of strings", key);
    return MICA_OK;
}

static mica_status read_tokens(const mica__gguf *g, mica_tokenizer *t, bool scored)
{
    const mica__gguf_value *tokens, *types, *scores;
    MICA_TRY(find_strings(g, "tokenizer.ggml.tokens", &tokens));
    MICA_TRY(find_array(g, "tokenizer.ggml.token_type", tokens->n, &types));
    MICA_TRY(find_array(g, "tokenizer.ggml.scores", tokens->n, &scores));
    if (scored && !scores)
        MICA_FAIL(MICA_E_FORMAT, "the file has no tokenizer.ggml.scores");
    mica__gguf_string text;
    int64_t at = 0;
    for (int64_t id = 0; mica__gguf_strings_next(tokens, &at, &text); id++) {
        int64_t type = 1;
        double score = 0;
        mica_token_kind kind = MICA_TOKEN_NORMAL;
        if (types)
            MICA_TRY(mica__gguf_element_i64(types, id, &type));
        MICA_TRY(mica__piece_kind(type, id, &kind));
        if (scored)
            MICA_TRY(mica__gguf_element_f64(scores, id, &score));
        if (scored && text.length > 0)
            MICA_TRY(mica__put_piece(t, id, text.bytes, text.length, kind, (float)score));
        else if (text.length > 0)
            MICA_TRY(mica__vocab_set(&t->vocab, id, text.bytes, text.length, kind, MICA__NO_RANK));
    }
    return MICA_OK;
}

static mica_status read_merges(const mica__gguf *g, mica_tokenizer *t)
{
    const mica__gguf_value *merges;
    MICA_TRY(find_strings(g, "tokenizer.ggml.merges", &merges));
    MICA_TRY(mica__tokenizer_merges(t, merges->n));
    mica__gguf_string line;
    int64_t at = 0;
    for (uint32_t rank = 0; mica__gguf_strings_next(merges, &at, &line); rank++)
        MICA_TRY(mica__tokenizer_merge_line(t, line.bytes, line.length, rank));
    return MICA_OK;
}

/* An id key; -1 when absent. Writers store "none" as -1 or as 2^32 - 1. */
static mica_status read_id(const mica__gguf *g, const mica_tokenizer *t, const char *name,
                           int32_t *id)
{
    char key[80];
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    int64_t value;
    if (!mica__gguf_find(g, key))
        return MICA_OK;
    MICA_TRY(mica__gguf_get_i64(g, key, &value));
    if (value == -1 || value == UINT32_MAX) {
        *id = -1;
        return MICA_OK;
    }
    if (value < 0 || value >= t->vocab.n)
        MICA_FAIL(MICA_E_FORMAT, "%s is %lld, outside the vocabulary of %lld", key,
                  (long long)value, (long long)t->vocab.n);
    *id = (int32_t)value;
    return MICA_OK;
}

/* A flag key; *flag stays as it is when absent. */
static mica_status read_flag(const mica__gguf *g, const char *key, bool *flag)
{
    return mica__gguf_find(g, key) ? mica__gguf_get_bool(g, key, flag) : MICA_OK;
}

static mica_status read_roles(const mica__gguf *g, mica_tokenizer *t, bool add_bos)
{
    bool add_eos = false;
    int32_t eom = -1;
    MICA_TRY(read_id(g, t, "bos", &t->bos));
    MICA_TRY(read_id(g, t, "eos", &t->eos));
    MICA_TRY(read_id(g, t, "eot", &t->eot));
    MICA_TRY(read_id(g, t, "eom", &eom));
    MICA_TRY(read_id(g, t, "unknown", &t->unk));
    MICA_TRY(read_id(g, t, "padding", &t->pad));
    if (eom >= 0)
        MICA_TRY(mica__tokenizer_add_end(t, eom));
    MICA_TRY(read_flag(g, "tokenizer.ggml.add_bos_token", &add_bos));
    MICA_TRY(read_flag(g, "tokenizer.ggml.add_eos_token", &add_eos));
    mica__tokenizer_add_flags(t, add_bos, add_eos);
    return MICA_OK;
}

static mica_status read_templates(const mica__gguf *g, mica_tokenizer *t)
{
    static const char prefix[] = "tokenizer.chat_template";
    const int64_t n = (int64_t)sizeof prefix - 1;
    for (int64_t i = 0; i < mica__gguf_n_values(g); i++) {
        const mica__gguf_value *v = mica__gguf_value_at(g, i);
        if (v->type != MICA__GGUF_STRING || v->key.length < n ||
            memcmp(v->key.bytes, prefix, (size_t)n) != 0 ||
            (v->key.length > n && v->key.bytes[n] != '.'))
            continue;
        const bool named = v->key.length > n + 1;
        char key[256];
        if (v->key.length >= (int64_t)sizeof key)
            continue;
        memcpy(key, v->key.bytes, (size_t)v->key.length);
        key[v->key.length] = '\0';
        mica__gguf_string text;
        MICA_TRY(mica__gguf_get_string(g, key, &text));
        MICA_TRY(mica__tokenizer_add_template(t, named ? key + n + 1 : "default",
                                              named ? v->key.length - n - 1 : 7, text.bytes,
                                              text.length));
    }
    return MICA_OK;
}

/* Phi-3's tokens take the white space behind them along, which its GGUF cannot say. */
static void apply_name(const mica__gguf *g, mica_tokenizer *t)
{
    static const char *const bare[] = {"<unk>", "<s>", "<|endoftext|>"};
    mica__gguf_string name;
    if (!mica__gguf_find(g, "general.name") ||
        mica__gguf_get_string(g, "general.name", &name) != MICA_OK)
        return;
    bool phi3 = false;
    for (int64_t i = 0; i + 4 <= name.length && !phi3; i++)
        phi3 = (name.bytes[i] | 0x20) == 'p' && (name.bytes[i + 1] | 0x20) == 'h' &&
               (name.bytes[i + 2] | 0x20) == 'i' &&
               (name.bytes[i + 3] == '3' ||
                (i + 5 <= name.length && name.bytes[i + 3] == '-' && name.bytes[i + 4] == '3'));
    for (int64_t i = 0; phi3 && i < t->n_added; i++) {
        const char *text = mica__vocab_text(&t->vocab, t->added[i].id);
        t->added[i].rstrip = true;
        for (int k = 0; k < 3; k++)
            if (strcmp(text, bare[k]) == 0)
                t->added[i].rstrip = false;
    }
}

static mica_status read_gpt2(const mica__gguf *g, mica_tokenizer *t)
{
    mica__gguf_string pre = {"default", 7};
    bool add_bos = false, prefix = false;
    if (mica__gguf_find(g, "tokenizer.ggml.pre"))
        MICA_TRY(mica__gguf_get_string(g, "tokenizer.ggml.pre", &pre));
    MICA_TRY(read_flag(g, "tokenizer.ggml.add_space_prefix", &prefix));
    if (prefix)
        MICA_TRY(mica__pretokenizer_add(&t->pre, (mica__step){.kind = MICA__STEP_SPACE}));
    MICA_TRY(mica__gguf_pre_apply(pre.bytes, pre.length, t, &add_bos));
    MICA_TRY(read_tokens(g, t, false));
    MICA_TRY(mica__tokenizer_index(t));
    t->bpe.of_bytes = true;
    t->spelling = MICA__SPELLING_BYTES;
    MICA_TRY(read_merges(g, t));
    return read_roles(g, t, add_bos);
}

static mica_status read_llama(const mica__gguf *g, mica_tokenizer *t)
{
    mica__sentencepiece options = {.dummy_prefix = true, .escape_spaces = true};
    MICA_TRY(read_flag(g, "tokenizer.ggml.add_space_prefix", &options.dummy_prefix));
    MICA_TRY(read_flag(g, "tokenizer.ggml.remove_extra_whitespaces", &options.remove_extra_spaces));
    MICA_TRY(read_tokens(g, t, true));
    MICA_TRY(mica__tokenizer_find_bytes(t, false));
    MICA_TRY(mica__tokenizer_index(t));
    MICA_TRY(mica__tokenizer_set_sentencepiece(t, options));
    MICA_TRY(read_roles(g, t, true));
    if (t->unk < 0)
        t->unk = mica__vocab_find(&t->vocab, "<unk>", 5);
    t->bpe.unknown = t->unk;
    return MICA_OK;
}

static mica_status gguf_into(const mica__gguf *g, mica_tokenizer *t)
{
    mica__gguf_string model;
    if (!mica__gguf_find(g, "tokenizer.ggml.model"))
        MICA_FAIL(MICA_E_NOT_FOUND, "the GGUF file has no tokenizer (tokenizer.ggml.model)");
    MICA_TRY(mica__gguf_get_string(g, "tokenizer.ggml.model", &model));
    if (is(model, "gpt2"))
        MICA_TRY(read_gpt2(g, t));
    else if (is(model, "llama"))
        MICA_TRY(read_llama(g, t));
    else
        MICA_FAIL(MICA_E_UNSUPPORTED, "tokenizers of the kind \"%.*s\"%s are not supported yet",
                  (int)(model.length < 80 ? model.length : 80), model.bytes,
                  is(model, "bert") ? " (WordPiece)"
                  : is(model, "t5") ? " (Unigram)"
                                    : "");
    MICA_TRY(mica__put_special_pieces(t, false));
    apply_name(g, t);
    MICA_TRY(read_templates(g, t));
    return mica__tokenizer_finish(t);
}

mica_status mica__tokenizer_from_gguf(const mica__gguf *gguf, mica_tokenizer **out)
{
    mica_tokenizer *t;
    MICA_TRY(mica__tokenizer_new(&t));
    const mica_status status = gguf_into(gguf, t);
    if (status == MICA_OK)
        *out = t;
    else
        mica_tokenizer_free(t);
    return status;
}
