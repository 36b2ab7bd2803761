/* tokenizer_files_fuzz.c - any bytes as each file that a tokenizer is read from.
 *
 * The first byte says which: tokenizer.json, tokenizer.model, tiktoken lines, vocab.json with
 * merges.txt (a zero byte between them), tokenizer_config.json beside a small vocabulary, GGUF.
 * What opens must encode any text and decode what it encoded.
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void use(mica_tokenizer *t, const char *text, int64_t n)
{
    mica_token_list ids = {0};
    const mica_text_span plain[] = {{n / 3, n / 2}};
    if (mica_tokenizer_encode_spans(t, text, n, plain, 1, 3, &ids) == MICA_OK) {
        mica_token_decoder *d;
        const char *out;
        int64_t length;
        for (int64_t i = 0; i < ids.n; i++)
            if (mica_tokenizer_token_kind(t, ids.ids[i]) == MICA_TOKEN_NONE)
                abort();
        if (mica_token_decoder_new(t, 0, &d) != MICA_OK ||
            mica_token_decoder_next(d, ids.ids, ids.n, &out, &length) != MICA_OK ||
            !mica__utf8_valid(out, length, NULL))
            abort();
        mica_token_decoder_free(d);
    }
    mica_token_list_free(&ids);
}

static mica_status open_gguf(const char *bytes, int64_t n, mica_tokenizer **t)
{
    mica__gguf *gguf;
    MICA_TRY(mica__gguf_open_memory((const uint8_t *)bytes, (size_t)n, &gguf));
    const mica_status status = mica__tokenizer_from_gguf(gguf, t);
    mica__gguf_close(gguf);
    return status;
}

/* tokenizer_config.json beside four tokens. */
static mica_status open_with_config(const char *bytes, int64_t n, mica_tokenizer **t)
{
    static const char ranks[] = "PA== 0\ncw== 1\nPg== 2\nPHM+ 3\n";
    mica__model_config config = {.jinja = {.kind = MICA_MEMORY_TEXT}};
    const mica__preset *preset;
    MICA_TRY(mica__preset_find("gpt2", &preset));
    MICA_TRY(mica__json_parse(bytes, (size_t)n, 0, &config.tokenizer));
    const mica_status status =
        mica__tokenizer_from_tiktoken(ranks, (int64_t)sizeof ranks - 1, preset, &config, t);
    mica__model_config_free(&config);
    return status;
}

static mica_status open_any(int which, const char *bytes, int64_t n, mica_tokenizer **t)
{
    const mica__preset *preset;
    const char *zero = n ? memchr(bytes, 0, (size_t)n) : NULL;
    const int64_t first = zero ? zero - bytes : n;
    MICA_TRY(mica__preset_find("cl100k_base", &preset));
    switch (which) {
    case 'j':
        return mica__tokenizer_from_json(bytes, n, NULL, t);
    case 'm':
        return mica__tokenizer_from_proto(bytes, n, NULL, t);
    case 't':
        return mica__tokenizer_from_tiktoken(bytes, n, preset, NULL, t);
    case 'v':
        return mica__tokenizer_from_vocab_merges(bytes, first, zero ? zero + 1 : bytes + n,
                                                 zero ? n - first - 1 : 0, preset, NULL, t);
    case 'c':
        return open_with_config(bytes, n, t);
    default:
        return open_gguf(bytes, n, t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char text[] = "hello <s> world\n\xff\xe2\x96\x81 1234 \xc3\xa9";
    mica_tokenizer *t;
    if (n == 0 || n > 1 << 20)
        return 0;
    const char *bytes = (const char *)data + 1;
    if (open_any(data[0], bytes, (int64_t)n - 1, &t) != MICA_OK)
        return 0;
    use(t, text, (int64_t)sizeof text - 1);
    use(t, bytes, (int64_t)n - 1);
    mica_tokenizer_free(t);
    return 0;
}
