/* digest_text.c - texts to ids and back, normal forms, and what templates make of conversations.
 * SPDX-License-Identifier: MIT
 */
#include "digest/digest_test.h"

#include <stdlib.h>

#include "base/text_buffer.h"
#include "io/json.h"
#include "support/check.h"
#include "support/temp_dir.h"
#include "support/toy_tokenizer.h"
#include "text/chat_template.h"
#include "text/letter_case.h"
#include "text/unicode.h"

#define NOW 1752148800 /* 2025-07-10 12:00 */

static void add_text(digest_book *book, mica__text *text, const char *name)
{
    assert_ok(text->status);
    digest_add(book, text->bytes, MICA_U8, text->length, "%s", name);
    mica__text_free(text);
}

static mica__json_doc *fixture(const char *relative)
{
    char path[1024];
    mica__json_doc *doc;
    snprintf(path, sizeof path, "%s/tests/data/%s", MICA_SOURCE_DIR, relative);
    assert_ok(mica__json_read(path, 1 << 24, &doc));
    return doc;
}

/* --- tokenizers ------------------------------------------------------------------------------- */

/* Ids of all texts, each list ended by -1, and the texts that come back. */
static void add_tokenizer(digest_book *book, const mica_tokenizer *tokenizer,
                          const mica__json *cases, const char *name)
{
    mica__text ids = {.kind = MICA_MEMORY_OTHER}, back = {.kind = MICA_MEMORY_OTHER};
    char part[96];
    for (const mica__json *c = cases->first; c; c = c->next) {
        const mica__json *text = mica__json_get(c, "text");
        mica_token_list list = {0};
        mica_token_decoder *decoder;
        const char *piece;
        int64_t n;
        const mica_status status =
            mica_tokenizer_encode(tokenizer, text->string, text->length,
                                  MICA_ENCODE_ADD_SPECIAL | MICA_ENCODE_PARSE_SPECIAL, &list);
        mica__text_format(&ids, "%d", (int)status);
        for (int64_t i = 0; i < list.n; i++)
            mica__text_format(&ids, " %d", (int)list.ids[i]);
        mica__text_add_string(&ids, "\n");
        assert_ok(mica_token_decoder_new(tokenizer, 0, &decoder));
        assert_ok(mica_token_decoder_next(decoder, list.ids, list.n, &piece, &n));
        mica__text_add(&back, piece, (size_t)n);
        assert_ok(mica_token_decoder_finish(decoder, &piece, &n));
        mica__text_add(&back, piece, (size_t)n);
        mica__text_add_string(&back, "\n");
        mica_token_decoder_free(decoder);
        mica_token_list_free(&list);
    }
    snprintf(part, sizeof part, "%s/ids", name);
    add_text(book, &ids, part);
    snprintf(part, sizeof part, "%s/decoded", name);
    add_text(book, &back, part);
}

static void add_opened(digest_book *book, const char *path, const char *preset,
                       const mica__json *cases, const char *name)
{
    mica_tokenizer *tokenizer;
    assert_ok(mica_tokenizer_open_preset(path, preset, &tokenizer));
    add_tokenizer(book, tokenizer, cases, name);
    mica_tokenizer_free(tokenizer);
}

/* A SentencePiece model: bytes, letters, and some words of them. */
static void put_pieces(mica__text *out)
{
    static const char *const words[] = {"\342\226\201", "he",    "ll",
                                        "hell",         "hello", "\342\226\201w",
                                        "or",           "ld",    "\342\226\201hello"};
    char piece[16];
    proto_piece(out, "<unk>", 0, 2);
    proto_piece(out, "<s>", 0, 3);
    proto_piece(out, "</s>", 0, 3);
    for (int byte = 0; byte < 256; byte++) {
        snprintf(piece, sizeof piece, "<0x%02X>", byte);
        proto_piece(out, piece, 0, 6);
    }
    for (int i = 0; i < 9; i++)
        proto_piece(out, words[i], (float)-i, 1);
    for (char c = 'a'; c <= 'z'; c++)
        proto_piece(out, (char[]){c, '\0'}, (float)-c, 1);
    mica__text spec = {.kind = MICA_MEMORY_OTHER};
    proto_number(&spec, 3, 2);
    proto_number(&spec, 35, 1); /* byte fallback */
    proto_bytes(out, 2, spec.bytes, (size_t)spec.length);
    mica__text_free(&spec);
}

static void add_tokenizers(digest_book *book)
{
    mica__json_doc *doc = fixture("tokenizers/reference_ids.json");
    const mica__json *cases =
        mica__json_get(mica__json_get(mica__json_root(doc), "tales-19m"), "cases");
    assert_true(cases && cases->n > 0);
    mica__text text = {.kind = MICA_MEMORY_OTHER};
    char *dir = temp_dir_new(), name[96];
    toy_tiktoken(&text);
    temp_write(dir, "toy.tiktoken", text.bytes, (size_t)text.length);
    mica__text_clear(&text);
    toy_json(&(toy_parts){.normalizer = "{\"type\":\"NFC\"}"}, &text);
    temp_write(dir, "byte/tokenizer.json", text.bytes, (size_t)text.length);
    mica__text_clear(&text);
    put_pieces(&text);
    temp_write(dir, "pieces/tokenizer.model", text.bytes, (size_t)text.length);
    mica__text_free(&text);
    add_opened(book, MICA_SOURCE_DIR "/data/tales-19m.gguf", NULL, cases, "tales-19m");
    add_opened(book, temp_path(dir, "byte"), NULL, cases, "byte_level");
    add_opened(book, temp_path(dir, "pieces"), NULL, cases, "sentencepiece");
    for (int i = 0; mica_tokenizer_preset_name(i); i++) {
        snprintf(name, sizeof name, "preset/%s", mica_tokenizer_preset_name(i));
        add_opened(book, temp_path(dir, "toy.tiktoken"), mica_tokenizer_preset_name(i), cases,
                   name);
    }
    temp_dir_remove(dir);
    mica__json_free(doc);
}

/* --- characters ------------------------------------------------------------------------------- */

static void add_characters(digest_book *book)
{
    static const char *const forms[] = {"nfc", "nfd", "nfkc", "nfkd"};
    char bytes[4], name[32];
    for (int form = 0; form < 4; form++) {
        mica__text out = {.kind = MICA_MEMORY_OTHER}, line = {.kind = MICA_MEMORY_OTHER};
        for (uint32_t c = 0x80; c < 0x20000; c++) {
            if (c >= 0xd800 && c < 0xe000)
                continue;
            mica__text_clear(&line);
            mica__text_add(&line, "a\314\201", 3);
            mica__text_add(&line, bytes, mica__letter_put(bytes, c));
            mica__text_add(&line, "\314\247\314\201", 4);
            assert_ok(mica__normalize((mica__normal_form)form, line.bytes, line.length, &out));
        }
        mica__text_free(&line);
        snprintf(name, sizeof name, "normal/%s", forms[form]);
        add_text(book, &out, name);
    }
    for (int form = LETTER_TO_UPPER; form <= LETTER_TO_TITLE; form++) {
        static const char *const names[] = {"upper", "lower", "title"};
        mica__text out = {.kind = MICA_MEMORY_OTHER};
        uint32_t mapped[3];
        for (uint32_t c = 0; c < 0x20000; c++) {
            const int n = mica__letter_map(c, (letter_form)form, mapped);
            for (int i = 0; i < n; i++)
                mica__text_add(&out, (const char *)&mapped[i], sizeof mapped[i]);
        }
        snprintf(name, sizeof name, "case/%s", names[form]);
        add_text(book, &out, name);
    }
}

/* --- templates -------------------------------------------------------------------------------- */

static void render_into(mica__text *out, const mica__json *source, const char *context, size_t n)
{
    mica_chat_template *compiled;
    mica_chat_text text = {0};
    mica_status status =
        mica_chat_template_new(source->string, (size_t)source->length, NULL, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, context, n, NOW, &text);
    mica__text_format(out, "%d ", (int)status);
    if (status == MICA_OK)
        mica__text_add(out, text.text, (size_t)text.length);
    else
        mica__text_add_string(out, mica_last_error());
    for (int64_t i = 0; i < text.n_plain; i++)
        mica__text_format(out, " %d-%d", (int)text.plain[i].from, (int)text.plain[i].to);
    mica__text_add_string(out, "\n");
    mica_chat_text_free(&text);
    mica_chat_template_free(compiled);
}

static void add_templates(digest_book *book)
{
    static const char context[] =
        "{\"s\":\"Hello World\",\"u\":\"Gr\\u00fc\\u00dfe \\u03a9\",\"n\":null,\"i\":7,\"j\":-3,"
        "\"f\":2.5,\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":[1,2]},\"e\":[],\"t\":true,\"z\":0,"
        "\"m\":[{\"role\":\"user\",\"content\":\"hi\",\"n\":2},"
        "{\"role\":\"bot\",\"content\":\"Yo <|im_end|>\",\"n\":0.1}]}";
    mica__json_doc *doc = fixture("jinja/expressions.json");
    const mica__json *cases = mica__json_get(mica__json_root(doc), "cases");
    const mica__json *c = cases->first;
    char name[32];
    for (int part = 0; c; part++) {
        mica__text out = {.kind = MICA_MEMORY_OTHER};
        for (int i = 0; i < 50 && c; i++, c = c->next)
            render_into(&out, mica__json_get(c, "source"), context, sizeof context - 1);
        snprintf(name, sizeof name, "templates/%d", part);
        add_text(book, &out, name);
    }
    mica__json_free(doc);
}

void digest_text(digest_book *book, const mica__cpu *cpu, const char *isa)
{
    (void)cpu;
    (void)isa;
    add_tokenizers(book);
    add_characters(book);
    add_templates(book);
}
