/* tokenizer_tiktoken.c - tiktoken files, and vocab.json with merges.txt.
 *
 * A tiktoken file has one token a line, base64 of its bytes and its rank, which is its id; pattern
 * and special tokens come from a preset or from tokenizer_config.json.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/tokenizer_parts.h"

/* --- base64 ----------------------------------------------------------------------------------- */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Strict RFC 4648 with padding: bytes written to out[0, 3 n / 4), or -1. */
static int64_t base64_decode(const char *text, int64_t n, char *out)
{
    if (n == 0 || n % 4 != 0)
        return -1;
    const int64_t padding = text[n - 1] != '=' ? 0 : text[n - 2] != '=' ? 1 : 2;
    int64_t length = 0;
    uint32_t bits = 0;
    for (int64_t i = 0; i < n - padding; i++) {
        const int digit = base64_digit(text[i]);
        if (digit < 0)
            return -1;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 == 3) {
            out[length++] = (char)(bits >> 16);
            out[length++] = (char)(bits >> 8);
            out[length++] = (char)bits;
        }
    }
    if (padding == 1) {
        if (bits & 3)
            return -1;
        out[length++] = (char)(bits >> 10);
        out[length++] = (char)(bits >> 2);
    } else if (padding == 2) {
        if (bits & 15)
            return -1;
        out[length++] = (char)(bits >> 4);
    }
    return length;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* A decimal number that is the whole of text[0, n); -1 when it is none or over the limit. */
static int64_t whole_number(const char *text, int64_t n)
{
    int64_t value = 0;
    for (int64_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || value > MICA__MAX_TOKENS)
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return n > 0 ? value : -1;
}

static mica_status read_line(mica_tokenizer *t, const char *line, int64_t n, int64_t number,
                             char *buffer)
{
    const char *space = memchr(line, ' ', (size_t)n);
    const int64_t rank = space ? whole_number(space + 1, line + n - (space + 1)) : -1;
    if (rank < 0 || rank >= MICA__MAX_TOKENS)
        MICA_FAIL(MICA_E_FORMAT, "line %lld of a tiktoken file is not \"base64 rank\": \"%.*s\"",
                  (long long)number, (int)(n < 80 ? n : 80), line);
    if (space - line > MICA__MAX_TOKEN_BYTES)
        MICA_FAIL(MICA_E_FORMAT, "line %lld of a tiktoken file is too long", (long long)number);
    /* Whisper's file writes its empty last token as "=": an id that nothing spells. */
    const bool empty = space - line == 1 && line[0] == '=';
    const int64_t length = empty ? 0 : base64_decode(line, space - line, buffer);
    if (length < 0)
        MICA_FAIL(MICA_E_FORMAT, "line %lld of a tiktoken file is not base64: \"%.*s\"",
                  (long long)number, (int)(space - line < 80 ? space - line : 80), line);
    const mica_status status = mica__vocab_set(&t->vocab, rank, buffer, length,
                                               empty ? MICA_TOKEN_UNUSED : MICA_TOKEN_NORMAL,
                                               empty ? MICA__NO_RANK : (uint32_t)rank);
    return status == MICA_OK
               ? status
               : mica__fail_at(status, "line %lld of a tiktoken file", (long long)number);
}

/* The next line of text[*at, n) without its end; false when there is none. */
static bool next_line(const char *text, int64_t n, int64_t *at, const char **line, int64_t *length)
{
    if (*at >= n)
        return false;
    *line = text + *at;
    const char *end = memchr(*line, '\n', (size_t)(n - *at));
    *length = end ? end - *line : n - *at;
    *at += *length + 1;
    if (*length > 0 && (*line)[*length - 1] == '\r')
        --*length;
    return true;
}

static mica_status read_ranks(mica_tokenizer *t, const char *bytes, int64_t n)
{
    char *buffer = mica__alloc(MICA_MEMORY_TEXT, MICA__MAX_TOKEN_BYTES + 4);
    if (!buffer)
        return MICA_E_MEMORY;
    const char *line;
    int64_t at = 0, length, number = 0;
    mica_status status = MICA_OK;
    while (status == MICA_OK && next_line(bytes, n, &at, &line, &length)) {
        number++;
        if (length > 0)
            status = read_line(t, line, length, number, buffer);
    }
    mica__free(buffer);
    return status;
}

static mica_status no_preset(const mica__model_config *config, const char *what)
{
    const char *class = mica__model_config_class(config);
    MICA_FAIL(MICA_E_UNSUPPORTED,
              "%s says nothing about how text is split, and tokenizer_config.json %s%.80s; name a "
              "preset (cl100k_base, o200k_base, llama3, qwen2, gpt2 and others)",
              what, class ? "has the class " : "is absent or has no class", class ? class : "");
}

/* A class that tells nothing is told by the begin token it has. */
static const mica__preset *guess_preset(const mica__model_config *config, const mica_tokenizer *t)
{
    static const char begin[] = "<|begin_of_text|>";
    const mica__preset *preset = mica__preset_of_class(mica__model_config_class(config));
    for (int64_t i = 0; !preset && i < t->n_added; i++) {
        const mica__piece *piece = &t->vocab.text[t->added[i].id];
        if (t->added[i].id == 128000 && piece->length == sizeof begin - 1 &&
            memcmp(t->vocab.pool + piece->at, begin, sizeof begin - 1) == 0 &&
            mica__preset_find("llama3", &preset) != MICA_OK)
            return NULL;
    }
    return preset;
}

static mica_status tiktoken_into(mica_tokenizer *t, const char *bytes, int64_t n,
                                 const mica__preset *preset, const mica__model_config *config)
{
    bool any_added;
    MICA_TRY(read_ranks(t, bytes, n));
    MICA_TRY(mica__model_config_put_added(config, t, &any_added));
    if (!preset)
        preset = guess_preset(config, t);
    if (!preset)
        return no_preset(config, "a tiktoken file");
    t->bpe.by_text = t->bpe.of_bytes = t->bpe.whole_word_first = true;
    t->spelling = MICA__SPELLING_PLAIN;
    MICA_TRY(mica__preset_apply(preset, t, !any_added));
    MICA_TRY(mica__tokenizer_index(t));
    MICA_TRY(mica__model_config_apply(config, t, false));
    mica__preset_roles(preset, t);
    return mica__tokenizer_finish(t);
}

mica_status mica__tokenizer_from_tiktoken(const char *bytes, int64_t n, const mica__preset *preset,
                                          const mica__model_config *config, mica_tokenizer **out)
{
    mica_tokenizer *t;
    MICA_TRY(mica__tokenizer_new(&t));
    const mica_status status = tiktoken_into(t, bytes, n, preset, config);
    if (status == MICA_OK)
        *out = t;
    else
        mica_tokenizer_free(t);
    return status;
}

/* --- vocab.json and merges.txt ---------------------------------------------------------------- */

/* The stream of vocab.json: one object, token to id. */
typedef struct vocab_reading {
    mica_tokenizer *t;
    mica__text token; /* the key that waits for its id */
    int depth;
} vocab_reading;

static mica_status no_vocab(void)
{
    MICA_FAIL(MICA_E_FORMAT, "vocab.json is not an object of tokens and their ids");
}

static mica_status on_open(void *user)
{
    vocab_reading *r = user;
    return r->depth++ == 0 ? MICA_OK : no_vocab();
}

static mica_status on_other(void *user)
{
    (void)user;
    return no_vocab();
}

static mica_status on_boolean(void *user, bool value)
{
    (void)value;
    return on_other(user);
}

static mica_status on_string(void *user, const char *bytes, size_t n)
{
    (void)bytes;
    (void)n;
    return on_other(user);
}

static mica_status on_key(void *user, const char *bytes, size_t n)
{
    vocab_reading *r = user;
    mica__text_clear(&r->token);
    return mica__text_add(&r->token, bytes, n);
}

static mica_status on_number(void *user, const char *text, size_t n)
{
    vocab_reading *r = user;
    const int64_t id = whole_number(text, (int64_t)n);
    if (r->depth != 1)
        return no_vocab();
    if (id < 0)
        MICA_FAIL(MICA_E_FORMAT, "token \"%.80s\" of vocab.json has the id %.*s", r->token.bytes,
                  (int)(n < 40 ? n : 40), text);
    return mica__vocab_set(&r->t->vocab, id, r->token.bytes, r->token.length, MICA_TOKEN_NORMAL,
                           MICA__NO_RANK);
}

static mica_status read_vocab(mica_tokenizer *t, const char *bytes, int64_t n)
{
    static const mica__json_events events = {
        .null = on_other,
        .boolean = on_boolean,
        .number = on_number,
        .string = on_string,
        .key = on_key,
        .start_object = on_open,
        .start_array = on_other,
    };
    vocab_reading r = {.t = t, .token = {.kind = MICA_MEMORY_TEXT}};
    const mica_status status = mica__json_stream(bytes, (size_t)n, 8, &events, &r);
    mica__text_free(&r.token);
    return status;
}

static mica_status read_merges(mica_tokenizer *t, const char *bytes, int64_t n)
{
    int64_t lines = 0;
    for (int64_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    MICA_TRY(mica__tokenizer_merges(t, lines + 1));
    const char *line;
    int64_t at = 0, length, number = 0;
    uint32_t rank = 0;
    while (next_line(bytes, n, &at, &line, &length)) {
        number++;
        if (length == 0 || (length >= 8 && memcmp(line, "#version", 8) == 0))
            continue;
        const mica_status status = mica__tokenizer_merge_line(t, line, length, rank++);
        if (status != MICA_OK)
            return mica__fail_at(status, "line %lld of merges.txt", (long long)number);
    }
    return MICA_OK;
}

static mica_status vocab_merges_into(mica_tokenizer *t, const char *vocab, int64_t vocab_n,
                                     const char *merges, int64_t merges_n,
                                     const mica__preset *preset, const mica__model_config *config)
{
    bool any_added, space = false;
    MICA_TRY(read_vocab(t, vocab, vocab_n));
    MICA_TRY(mica__model_config_put_added(config, t, &any_added));
    const char *class = mica__model_config_class(config);
    if (!preset)
        preset = mica__preset_of_class(class ? class : "GPT2Tokenizer");
    if (!preset)
        return no_preset(config, "vocab.json with merges.txt");
    MICA_TRY(mica__model_config_prefix_space(config, &space));
    if (space)
        MICA_TRY(mica__pretokenizer_add(&t->pre, (mica__step){.kind = MICA__STEP_SPACE}));
    t->bpe.of_bytes = true;
    t->spelling = MICA__SPELLING_BYTES;
    MICA_TRY(mica__preset_apply(preset, t, !any_added));
    MICA_TRY(mica__tokenizer_index(t));
    MICA_TRY(read_merges(t, merges, merges_n));
    MICA_TRY(mica__model_config_apply(config, t, false));
    mica__preset_roles(preset, t);
    return mica__tokenizer_finish(t);
}

mica_status mica__tokenizer_from_vocab_merges(const char *vocab, int64_t vocab_n,
                                              const char *merges, int64_t merges_n,
                                              const mica__preset *preset,
                                              const mica__model_config *config,
                                              mica_tokenizer **out)
{
    mica_tokenizer *t;
    MICA_TRY(mica__tokenizer_new(&t));
    const mica_status status =
        vocab_merges_into(t, vocab, vocab_n, merges, merges_n, preset, config);
    if (status == MICA_OK)
        *out = t;
    else
        mica_tokenizer_free(t);
    return status;
}
