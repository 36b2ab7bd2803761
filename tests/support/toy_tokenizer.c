/* toy_tokenizer.c - small tokenizers for tests, written as their files.
 * SPDX-License-Identifier: MIT
 */
#include "support/toy_tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "text/byte_spelling.h"

/* \304\240 is a space, spelled. */
static const char *const merges[][2] = {
    {"h", "e"}, {"l", "l"},          {"he", "ll"}, {"hell", "o"},        {"\304\240", "w"},
    {"o", "r"}, {"\304\240w", "or"}, {"l", "d"},   {"\304\240wor", "ld"}};
enum { N_MERGES = sizeof merges / sizeof merges[0] };

static void put(mica__text *out, const char *text)
{
    mica__text_add_string(out, text);
}

static void put_string(mica__text *out, const char *text, size_t n)
{
    mica__json_write_string(out, text, n);
}

static void put_vocab(mica__text *out, const char *more)
{
    char text[64];
    put(out, "{");
    for (int byte = 0; byte < 256; byte++) {
        const char raw = (char)byte;
        const int64_t n = mica__spell_bytes(&raw, 1, text);
        put_string(out, text, (size_t)n);
        mica__text_format(out, ":%d,", byte);
    }
    for (int i = 0; i < N_MERGES; i++) {
        snprintf(text, sizeof text, "%s%s", merges[i][0], merges[i][1]);
        put_string(out, text, strlen(text));
        mica__text_format(out, ":%d%s", 256 + i, i + 1 < N_MERGES ? "," : "");
    }
    put(out, more);
    put(out, "}");
}

static void put_merges(mica__text *out, bool pairs, const char *more)
{
    put(out, "[");
    for (int i = 0; i < N_MERGES; i++) {
        mica__text_format(out, pairs ? "%s[\"%s\",\"%s\"]" : "%s\"%s %s\"", i ? "," : "",
                          merges[i][0], merges[i][1]);
    }
    put(out, more);
    put(out, "]");
}

static void put_member(mica__text *out, const char *key, const char *value, const char *fallback)
{
    if (!value)
        value = fallback;
    if (*value)
        mica__text_format(out, "\"%s\":%s,", key, value);
}

static void put_model(const toy_parts *parts, mica__text *out)
{
    put(out, "\"model\":{\"type\":\"BPE\",");
    put(out, parts->options ? parts->options : "");
    const char *more_merges = parts->more_merges ? parts->more_merges : "";
    if (parts->merges_first) {
        put(out, "\"merges\":");
        put_merges(out, parts->pairs, more_merges);
        put(out, ",");
    }
    put(out, "\"vocab\":");
    put_vocab(out, parts->more_vocab ? parts->more_vocab : "");
    if (!parts->merges_first) {
        put(out, ",\"merges\":");
        put_merges(out, parts->pairs, more_merges);
    }
    put(out, "}");
}

void toy_json(const toy_parts *parts, mica__text *out)
{
    static const char byte_level[] =
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}";
    put(out, "{");
    if (parts->merges_first) {
        put_model(parts, out);
        put(out, ",");
    }
    put_member(out, "added_tokens", parts->added_tokens, "[]");
    put_member(out, "normalizer", parts->normalizer, "null");
    put_member(out, "pre_tokenizer", parts->pre_tokenizer, byte_level);
    put_member(out, "post_processor", parts->post_processor, "null");
    put_member(out, "decoder", parts->decoder, "{\"type\":\"ByteLevel\"}");
    if (parts->merges_first)
        put(out, "\"version\":\"1.0\"");
    else
        put_model(parts, out);
    put(out, "}");
}

void toy_vocab(mica__text *out)
{
    put_vocab(out, "");
}

void toy_merges(mica__text *out)
{
    put(out, "#version: 0.2\n");
    for (int i = 0; i < N_MERGES; i++)
        mica__text_format(out, "%s %s\r\n", merges[i][0], merges[i][1]);
}

static void put_base64(mica__text *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t a = (uint8_t)bytes[i], b = i + 1 < n ? (uint8_t)bytes[i + 1] : 0,
                       c = i + 2 < n ? (uint8_t)bytes[i + 2] : 0, bits = a << 16 | b << 8 | c;
        mica__text_add_char(out, digits[bits >> 18]);
        mica__text_add_char(out, digits[bits >> 12 & 63]);
        mica__text_add_char(out, i + 1 < n ? digits[bits >> 6 & 63] : '=');
        mica__text_add_char(out, i + 2 < n ? digits[bits & 63] : '=');
    }
}

void toy_tiktoken(mica__text *out)
{
    for (int id = 0; id < 256 + N_MERGES; id++) {
        char spelled[64], raw[64] = {(char)id};
        int64_t n = 1;
        if (id >= 256) {
            snprintf(spelled, sizeof spelled, "%s%s", merges[id - 256][0], merges[id - 256][1]);
            mica__unspell_bytes(spelled, (int64_t)strlen(spelled), raw, &n);
        }
        put_base64(out, raw, (size_t)n);
        mica__text_format(out, " %d\n", id);
    }
}

static void put_varint(mica__text *out, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        mica__text_add_char(out, (char)(value | 128));
    mica__text_add_char(out, (char)value);
}

void proto_number(mica__text *out, int field, uint64_t value)
{
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, value);
}

void proto_bytes(mica__text *out, int field, const char *bytes, size_t n)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, n);
    mica__text_add(out, bytes, n);
}

void proto_float(mica__text *out, int field, float value)
{
    char bytes[4];
    memcpy(bytes, &value, 4);
    put_varint(out, (uint64_t)field << 3 | 5);
    mica__text_add(out, bytes, 4);
}

void proto_piece(mica__text *out, const char *text, float score, int type)
{
    mica__text piece = {.kind = MICA_MEMORY_OTHER};
    proto_bytes(&piece, 1, text, strlen(text));
    proto_float(&piece, 2, score);
    if (type != 1)
        proto_number(&piece, 3, (uint64_t)type);
    proto_bytes(out, 1, piece.bytes, (size_t)piece.length);
    mica__text_free(&piece);
}
