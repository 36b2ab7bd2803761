/* tokenizer_info.c - what a tokenizer says about itself.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/tokenizer_parts.h"

const char *mica_token_kind_name(mica_token_kind kind)
{
    switch (kind) {
#define X(name, text)                                                                              \
    case name:                                                                                     \
        return text;
        MICA_TOKEN_KINDS(X)
#undef X
    case MICA_TOKEN_N_KINDS:
        break;
    }
    return "?";
}

void mica_token_list_free(mica_token_list *list)
{
    if (!list)
        return;
    mica__free(list->ids);
    *list = (mica_token_list){0};
}

const char *mica_tokenizer_kind(const mica_tokenizer *t)
{
    return t->bpe.of_bytes ? "byte-level BPE" : "SentencePiece BPE";
}

int64_t mica_tokenizer_n_vocab(const mica_tokenizer *t)
{
    return t->vocab.n;
}

int32_t mica_tokenizer_find(const mica_tokenizer *t, const char *text, int64_t n)
{
    return text && n >= 0 ? mica__vocab_find(&t->vocab, text, n) : -1;
}

static bool is_token(const mica_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n && t->vocab.kind[id] != MICA_TOKEN_NONE;
}

mica_token_kind mica_tokenizer_token_kind(const mica_tokenizer *t, int32_t id)
{
    return is_token(t, id) ? (mica_token_kind)t->vocab.kind[id] : MICA_TOKEN_NONE;
}

static const char *piece(const mica_tokenizer *t, int32_t id, const mica__piece *pieces, int64_t *n)
{
    if (!is_token(t, id)) {
        if (n)
            *n = 0;
        return "";
    }
    if (n)
        *n = pieces[id].length;
    return t->vocab.pool + pieces[id].at;
}

const char *mica_tokenizer_token_text(const mica_tokenizer *t, int32_t id, int64_t *n)
{
    return piece(t, id, t->vocab.text, n);
}

const char *mica_tokenizer_token_bytes(const mica_tokenizer *t, int32_t id, int64_t *n)
{
    return piece(t, id, t->vocab.bytes, n);
}

bool mica_tokenizer_token_is_special(const mica_tokenizer *t, int32_t id)
{
    const mica_token_kind kind = mica_tokenizer_token_kind(t, id);
    return kind == MICA_TOKEN_CONTROL || kind == MICA_TOKEN_UNKNOWN;
}

int32_t mica_tokenizer_bos(const mica_tokenizer *t)
{
    return t->bos;
}

int32_t mica_tokenizer_eos(const mica_tokenizer *t)
{
    return t->eos;
}

int32_t mica_tokenizer_eot(const mica_tokenizer *t)
{
    return t->eot;
}

int32_t mica_tokenizer_unk(const mica_tokenizer *t)
{
    return t->unk;
}

int32_t mica_tokenizer_pad(const mica_tokenizer *t)
{
    return t->pad;
}

const int32_t *mica_tokenizer_end_tokens(const mica_tokenizer *t, int64_t *n)
{
    *n = t->n_ends;
    return t->ends;
}

bool mica_tokenizer_adds_bos(const mica_tokenizer *t)
{
    return t->n_before > 0;
}

bool mica_tokenizer_adds_eos(const mica_tokenizer *t)
{
    return t->n_after > 0;
}

const char *mica_tokenizer_chat_template(const mica_tokenizer *t, const char *name)
{
    for (int64_t i = 0; i < t->n_templates; i++)
        if (strcmp(t->templates[i].name, name ? name : "default") == 0)
            return t->templates[i].text;
    return NULL;
}

const char *mica_tokenizer_chat_template_name(const mica_tokenizer *t, int i)
{
    return i >= 0 && i < t->n_templates ? t->templates[i].name : NULL;
}
