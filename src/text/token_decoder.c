/* token_decoder.c - ids to text, whole characters at a time.
 *
 * Bytes of the tokens are appended to what was left over; everything up to the last whole character
 * comes out, at most three bytes of an unfinished one stay.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#define REPLACEMENT "\357\277\275"

struct mica_token_decoder {
    const mica_tokenizer *t;
    unsigned flags;
    bool at_start;
    char left[4]; /* the beginning of a character, [n_left] */
    int n_left;
    mica__text bytes;
    mica__text out;
};

mica_status mica_token_decoder_new(const mica_tokenizer *t, unsigned flags,
                                   mica_token_decoder **out)
{
    if (!t || !out)
        MICA_FAIL(MICA_E_ARGUMENT, "a decoder needs a tokenizer");
    mica_token_decoder *d = mica__alloc_zero(MICA_MEMORY_TEXT, 1, sizeof *d);
    if (!d)
        return MICA_E_MEMORY;
    d->t = t;
    d->flags = flags;
    d->at_start = true;
    d->bytes.kind = d->out.kind = MICA_MEMORY_TEXT;
    *out = d;
    return MICA_OK;
}

void mica_token_decoder_free(mica_token_decoder *d)
{
    if (!d)
        return;
    mica__text_free(&d->bytes);
    mica__text_free(&d->out);
    mica__free(d);
}

static mica_status add_token(mica_token_decoder *d, int32_t id, bool *at_start)
{
    int64_t n;
    const char *bytes = mica_tokenizer_token_bytes(d->t, id, &n);
    if (id < 0 || id >= d->t->vocab.n)
        MICA_FAIL(MICA_E_ARGUMENT, "token %d is outside the vocabulary of %lld", (int)id,
                  (long long)d->t->vocab.n);
    if ((d->flags & MICA_DECODE_SKIP_SPECIAL) && mica_tokenizer_token_is_special(d->t, id))
        return MICA_OK;
    if (n > 0 && *at_start) {
        *at_start = false;
        if (bytes[0] == ' ' && d->t->strips_space && !(d->flags & MICA_DECODE_CONTINUE)) {
            bytes++;
            n--;
        }
    }
    return mica__text_add(&d->bytes, bytes, (size_t)n);
}

/* Moves the whole characters of text[0, n) to the output; returns how many bytes are left over. */
static int put_characters(mica_token_decoder *d, const char *text, int64_t n)
{
    int64_t done = 0; /* text[done, at) is valid and waits to be copied */
    int length;
    for (int64_t at = 0; at < n;) {
        if (mica__utf8_next(text, n, at, &length) != MICA__BAD_CHAR) {
            at += length;
            continue;
        }
        mica__text_add(&d->out, text + done, (size_t)(at - done));
        const int pending = mica__utf8_pending(text + at, n - at);
        if (pending > 0)
            return pending;
        mica__text_add(&d->out, REPLACEMENT, 3);
        at += mica__utf8_bad_length(text + at, n - at);
        done = at;
    }
    mica__text_add(&d->out, text + done, (size_t)(n - done));
    return 0;
}

static void give(const mica_token_decoder *d, const char **text, int64_t *length)
{
    *text = d->out.bytes ? d->out.bytes : "";
    if (length)
        *length = d->out.length;
}

mica_status mica_token_decoder_next(mica_token_decoder *d, const int32_t *ids, int64_t n,
                                    const char **text, int64_t *length)
{
    if (!d || !text || n < 0 || (!ids && n > 0))
        MICA_FAIL(MICA_E_ARGUMENT, "decoding needs a decoder, ids and a place for the text");
    mica__text_clear(&d->bytes);
    mica__text_clear(&d->out);
    MICA_TRY(mica__text_add(&d->bytes, d->left, (size_t)d->n_left));
    bool at_start = d->at_start;
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(add_token(d, ids[i], &at_start));
    const int left = put_characters(d, d->bytes.bytes, d->bytes.length);
    if (d->out.status != MICA_OK)
        return d->out.status; /* nothing was taken: the same ids may be given again */
    d->at_start = at_start;
    d->n_left = left;
    memcpy(d->left, d->bytes.bytes + d->bytes.length - left, (size_t)left);
    give(d, text, length);
    return MICA_OK;
}

mica_status mica_token_decoder_finish(mica_token_decoder *d, const char **text, int64_t *length)
{
    if (!d || !text)
        MICA_FAIL(MICA_E_ARGUMENT, "decoding needs a decoder and a place for the text");
    mica__text_clear(&d->out);
    if (d->n_left > 0)
        MICA_TRY(mica__text_add(&d->out, REPLACEMENT, 3));
    d->n_left = 0;
    d->at_start = true;
    give(d, text, length);
    return MICA_OK;
}
