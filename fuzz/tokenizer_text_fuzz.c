/* tokenizer_text_fuzz.c - any bytes as text for fixed tokenizers.
 *
 * A byte-level vocabulary gives every byte back, in order, whatever the pattern that cuts words;
 * decoding one by one gives what decoding at once gives; a text that is all plain has no special
 * token. The first byte picks the pattern.
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>

#include "text/byte_spelling.h"
#include "text/tokenizer_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const pres[] = {"gpt-2",        "llama-bpe",   "gpt-4o",  "tekken",
                                   "deepseek-llm", "deepseek-v3", "falcon",  "smollm",
                                   "seed-coder",   "bloom",       "default", "deepseek-coder"};
enum { N_PRES = sizeof pres / sizeof pres[0] };

static void must(mica_status status)
{
    if (status != MICA_OK)
        abort();
}

static mica_tokenizer *make(const char *pre)
{
    mica_tokenizer *t;
    bool adds_bos;
    must(mica__tokenizer_new(&t));
    must(mica__gguf_pre_apply(pre, (int64_t)strlen(pre), t, &adds_bos));
    for (int byte = 0; byte < 256; byte++) {
        const char raw = (char)byte;
        char spelled[2];
        must(mica__vocab_set(&t->vocab, byte, spelled, mica__spell_bytes(&raw, 1, spelled),
                             MICA_TOKEN_NORMAL, MICA__NO_RANK));
    }
    must(mica__vocab_set(&t->vocab, 256, "aa", 2, MICA_TOKEN_NORMAL, MICA__NO_RANK));
    must(mica__vocab_set(&t->vocab, 257, "aaaa", 4, MICA_TOKEN_NORMAL, MICA__NO_RANK));
    must(mica__tokenizer_put_added(t, 258, "<s>", 3, (mica__added_flags){.special = true}));
    must(mica__tokenizer_put_added(t, 259, "\n\n", 2, (mica__added_flags){.lstrip = false}));
    must(mica__tokenizer_index(t));
    must(mica__tokenizer_merges(t, 2));
    must(mica__tokenizer_merge(t, "a", 1, "a", 1, 0));
    must(mica__tokenizer_merge(t, "aa", 2, "aa", 2, 1));
    t->bpe.of_bytes = true;
    t->spelling = MICA__SPELLING_BYTES;
    must(mica__tokenizer_finish(t));
    return t;
}

static void check_bytes(const mica_tokenizer *t, const mica_token_list *ids, const char *text,
                        int64_t n)
{
    int64_t at = 0, length;
    for (int64_t i = 0; i < ids->n; i++) {
        const char *bytes = mica_tokenizer_token_bytes(t, ids->ids[i], &length);
        if (at + length > n || memcmp(bytes, text + at, (size_t)length) != 0)
            abort();
        at += length;
    }
    if (at != n)
        abort();
}

static void check_decoding(const mica_tokenizer *t, const mica_token_list *ids)
{
    mica_token_decoder *one, *all;
    const char *whole, *part;
    int64_t n, length, at = 0;
    must(mica_token_decoder_new(t, 0, &one));
    must(mica_token_decoder_new(t, 0, &all));
    must(mica_token_decoder_next(all, ids->ids, ids->n, &whole, &n));
    if (!mica__utf8_valid(whole, n, NULL))
        abort();
    for (int64_t i = 0; i < ids->n; i++) {
        must(mica_token_decoder_next(one, ids->ids + i, 1, &part, &length));
        if (at + length > n || memcmp(whole + at, part, (size_t)length) != 0)
            abort();
        at += length;
    }
    if (at != n)
        abort();
    mica_token_decoder_free(one);
    mica_token_decoder_free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static mica_tokenizer *made[N_PRES];
    if (n == 0)
        return 0;
    const int which = data[0] % N_PRES;
    const char *text = (const char *)data + 1;
    const int64_t length = (int64_t)n - 1;
    if (!made[which])
        made[which] = make(pres[which]);
    const mica_tokenizer *t = made[which];
    const mica_text_span whole[] = {{0, length}};
    mica_token_list ids = {0};
    must(mica_tokenizer_encode(t, text, length, MICA_ENCODE_PARSE_SPECIAL, &ids));
    check_bytes(t, &ids, text, length);
    check_decoding(t, &ids);
    ids.n = 0;
    must(mica_tokenizer_encode_spans(t, text, length, whole, 1, MICA_ENCODE_PARSE_SPECIAL, &ids));
    for (int64_t i = 0; i < ids.n; i++)
        if (mica_tokenizer_token_is_special(t, ids.ids[i]))
            abort();
    check_bytes(t, &ids, text, length);
    mica_token_list_free(&ids);
    return 0;
}
