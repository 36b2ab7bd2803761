/* tokenizer_test.c - encoding, plain spans, decoding, what a tokenizer says about itself.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <pthread.h>
#include <stdlib.h>

#include "support/toy_tokenizer.h"
#include "text/tokenizer_parts.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

static mica_tokenizer *open_toy(const toy_parts *parts)
{
    mica__text json = {.kind = MICA_MEMORY_OTHER};
    mica_tokenizer *t;
    toy_json(parts, &json);
    assert_ok(json.status);
    assert_ok(mica__tokenizer_from_json(json.bytes, json.length, NULL, &t));
    mica__text_free(&json);
    return t;
}

/* <s>, the turn markers, a tool token that is not special, one that eats white space. */
enum { BOS = 265, IM_START, IM_END, THINK, MASK };
static const toy_parts chat = {
    .added_tokens = "[{\"id\":265,\"content\":\"<s>\",\"special\":true},"
                    "{\"id\":266,\"content\":\"<|im_start|>\",\"special\":true},"
                    "{\"id\":267,\"content\":\"<|im_end|>\",\"special\":true},"
                    "{\"id\":268,\"content\":\"<think>\",\"special\":false,\"normalized\":false},"
                    "{\"id\":269,\"content\":\"<m>\",\"special\":true,\"rstrip\":true}]",
    .post_processor = "{\"type\":\"TemplateProcessing\",\"single\":["
                      "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
                      "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[265]}}}"};

/* Ids as text. */
static const char *spans(const mica_tokenizer *t, const char *text, const mica_text_span *plain,
                         int64_t n_plain, unsigned flags)
{
    static char out[2048];
    mica_token_list ids = {0};
    size_t at = 0;
    assert_ok(
        mica_tokenizer_encode_spans(t, text, (int64_t)strlen(text), plain, n_plain, flags, &ids));
    out[0] = '\0';
    for (int64_t i = 0; i < ids.n; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, i ? " %d" : "%d", (int)ids.ids[i]);
    mica_token_list_free(&ids);
    return out;
}

static const char *encode(const mica_tokenizer *t, const char *text, unsigned flags)
{
    return spans(t, text, NULL, 0, flags);
}

static const char *decode(const mica_tokenizer *t, unsigned flags, const int32_t *ids, int64_t n)
{
    static char out[2048];
    mica_token_decoder *d;
    const char *text;
    int64_t length;
    assert_ok(mica_token_decoder_new(t, flags, &d));
    assert_ok(mica_token_decoder_next(d, ids, n, &text, &length));
    assert_int_equal(strlen(text), length);
    snprintf(out, sizeof out, "%s", text);
    assert_ok(mica_token_decoder_finish(d, &text, &length));
    snprintf(out + strlen(out), sizeof out - strlen(out), "%s", text);
    mica_token_decoder_free(d);
    return out;
}

static void text_becomes_words_and_words_tokens(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    assert_string_equal(encode(t, "hello world", 0), "259 264");
    assert_string_equal(encode(t, "hello hello", 0), "259 32 259");
    assert_string_equal(encode(t, "", 0), "");
    assert_string_equal(encode(t, "\xff\xfe", 0), "255 254");
    assert_string_equal(encode(t, "hello", MICA_ENCODE_ADD_SPECIAL), "265 259");
    assert_string_equal(encode(t, "", MICA_ENCODE_ADD_SPECIAL), "265");
    assert_string_equal(mica_tokenizer_kind(t), "byte-level BPE");
    mica_tokenizer_free(t);
}

static void special_tokens_are_found_only_when_asked(void **state)
{
    (void)state;
    const unsigned parse = MICA_ENCODE_PARSE_SPECIAL, both = parse | MICA_ENCODE_ADD_SPECIAL;
    mica_tokenizer *t = open_toy(&chat);
    assert_string_equal(encode(t, "<|im_start|>hello<|im_end|>", parse), "266 259 267");
    assert_string_equal(encode(t, "<s>", 0), "60 115 62");
    /* One that is not special is found always. */
    assert_string_equal(encode(t, "<think>hello", 0), "268 259");
    /* The begin token comes once. */
    assert_string_equal(encode(t, "<s>hello", both), "265 259");
    assert_string_equal(encode(t, "<s><s>hello", both), "265 265 259");
    assert_string_equal(encode(t, "<s>hello", MICA_ENCODE_ADD_SPECIAL), "265 60 115 62 259");
    /* White space behind <m> belongs to it. */
    assert_string_equal(encode(t, "<m> \n hello", parse), "269 259");
    mica_tokenizer_free(t);
}

static void a_plain_span_hides_special_tokens_and_nothing_else(void **state)
{
    (void)state;
    const unsigned parse = MICA_ENCODE_PARSE_SPECIAL;
    mica_tokenizer *t = open_toy(&chat);
    const char *text = "<|im_start|><s>hello<|im_end|>";
    const mica_text_span message[] = {{12, 20}};
    assert_string_equal(spans(t, text, message, 1, parse), "266 60 115 62 259 267");
    /* A match may not straddle the border, from either side. */
    for (int64_t border = 13; border <= 14; border++) {
        const mica_text_span left[] = {{12, border}}, right[] = {{border, 15}};
        assert_string_equal(spans(t, text, left, 1, parse), "266 60 115 62 259 267");
        assert_string_equal(spans(t, text, right, 1, parse), "266 60 115 62 259 267");
    }
    /* An empty span hides nothing, and spans may touch. */
    const mica_text_span empty[] = {{13, 13}}, touching[] = {{12, 13}, {13, 15}};
    assert_string_equal(spans(t, text, empty, 1, parse), "266 265 259 267");
    assert_string_equal(spans(t, text, touching, 2, parse), "266 60 115 62 259 267");
    /* Ordinary tokens form across borders; tokens that are not special are found inside. */
    const mica_text_span half[] = {{3, 5}};
    assert_string_equal(spans(t, "hello", half, 1, parse), "259");
    const mica_text_span think[] = {{0, 7}};
    assert_string_equal(spans(t, "<think>", think, 1, parse), "268");
    mica_tokenizer_free(t);
}

/* A special token that is looked for after normalisation: the spans move with the text. */
static void plain_spans_move_with_the_normalised_text(void **state)
{
    (void)state;
    const toy_parts parts = {
        .added_tokens = "[{\"id\":265,\"content\":\"<s>\",\"special\":true,\"normalized\":true}]",
        .normalizer = "{\"type\":\"Sequence\",\"normalizers\":["
                      "{\"type\":\"Prepend\",\"prepend\":\"o\"},"
                      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"o\"},\"content\":\"---\"},"
                      "{\"type\":\"NFC\"}]}"};
    mica_tokenizer *t = open_toy(&parts);
    const unsigned parse = MICA_ENCODE_PARSE_SPECIAL;
    const char *text = "oo<s>o<s>o";
    assert_string_equal(spans(t, text, NULL, 0, parse),
                        "45 45 45 45 45 45 45 45 45 265 45 45 45 265 "
                        "45 45 45");
    const mica_text_span first[] = {{0, 3}}, second[] = {{6, 9}}, between[] = {{5, 6}};
    assert_string_equal(spans(t, text, first, 1, parse),
                        "45 45 45 45 45 45 45 45 45 60 115 62 45 45 45 265 45 45 45");
    assert_string_equal(spans(t, text, second, 1, parse),
                        "45 45 45 45 45 45 45 45 45 265 45 45 45 60 115 62 45 45 45");
    assert_string_equal(spans(t, text, between, 1, parse),
                        "45 45 45 45 45 45 45 45 45 265 45 45 45 265 45 45 45");
    mica_tokenizer_free(t);
}

static void impossible_arguments_are_refused_and_leave_the_list(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    mica_token_list ids = {0};
    assert_ok(mica_tokenizer_encode(t, "hello", 5, 0, &ids));
    const mica_text_span backwards[] = {{3, 5}, {2, 3}}, outside[] = {{3, 6}}, turned[] = {{3, 2}},
                         negative[] = {{-1, 2}};
    const mica_text_span *const bad[] = {backwards, outside, turned, negative};
    for (int i = 0; i < 4; i++)
        assert_status(mica_tokenizer_encode_spans(t, "hello", 5, bad[i], i ? 1 : 2, 0, &ids),
                      MICA_E_ARGUMENT);
    assert_status(mica_tokenizer_encode(t, NULL, 5, 0, &ids), MICA_E_ARGUMENT);
    assert_status(mica_tokenizer_encode(t, "x", -1, 0, &ids), MICA_E_ARGUMENT);
    assert_status(mica_tokenizer_encode(t, "x", INT64_MAX, 0, &ids), MICA_E_ARGUMENT);
    assert_status(mica_tokenizer_encode(NULL, "x", 1, 0, &ids), MICA_E_ARGUMENT);
    assert_status(mica_tokenizer_encode(t, "x", 1, 0, NULL), MICA_E_ARGUMENT);
    assert_ok(mica_tokenizer_encode(t, NULL, 0, 0, &ids));
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.ids[0], TOY_HELLO);
    mica_token_list_free(&ids);
    mica_token_list_free(NULL);
    mica_tokenizer_free(t);
    mica_tokenizer_free(NULL);
}

/* The ids of any bytes stand for these bytes. */
static void any_bytes_come_back(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&(toy_parts){0});
    unsigned seed = 12;
    print_message("seed %u\n", seed);
    for (int round = 0; round < 400; round++) {
        char text[2000];
        const int n = (int)((seed = seed * 1103515245 + 12345) >> 16) % (round % 10 ? 60 : 2000);
        for (int i = 0; i < n; i++) {
            const unsigned r = (seed = seed * 1103515245 + 12345) >> 16;
            text[i] = r % 3 ? "hello world"[r % 11] : (char)(r >> 4);
        }
        mica_token_list ids = {0};
        int64_t at = 0, length;
        assert_ok(mica_tokenizer_encode(t, text, n, 0, &ids));
        for (int64_t i = 0; i < ids.n; i++) {
            const char *bytes = mica_tokenizer_token_bytes(t, ids.ids[i], &length);
            assert_true(at + length <= n);
            assert_memory_equal(bytes, text + at, (size_t)length);
            at += length;
        }
        assert_int_equal(at, n);
        mica_token_list_free(&ids);
    }
    mica_tokenizer_free(t);
}

static void decoding_emits_whole_characters_only(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    mica_token_decoder *d;
    const char *text;
    int64_t n;
    assert_ok(mica_token_decoder_new(t, 0, &d));
    const char *emoji = "\xf0\x9f\x98\x80";
    for (int i = 0; i < 4; i++) {
        const int32_t id = (uint8_t)emoji[i];
        assert_ok(mica_token_decoder_next(d, &id, 1, &text, &n));
        assert_string_equal(text, i < 3 ? "" : emoji);
    }
    /* Two bytes of a character, then a letter: one replacement for both. */
    const int32_t broken[] = {0xe2, 0x82, 'a', 0xff, 0xc3};
    assert_ok(mica_token_decoder_next(d, broken, 5, &text, &n));
    assert_string_equal(text, "\xef\xbf\xbd"
                              "a\xef\xbf\xbd");
    /* Out of range: nothing is taken, the character goes on. */
    const int32_t none = 270, rest = 0xa9;
    assert_status(mica_token_decoder_next(d, &none, 1, &text, &n), MICA_E_ARGUMENT);
    assert_non_null(strstr(mica_last_error(), "270"));
    assert_ok(mica_token_decoder_next(d, &rest, 1, &text, &n));
    assert_string_equal(text, "\xc3\xa9");
    assert_ok(mica_token_decoder_next(d, NULL, 0, &text, &n));
    assert_string_equal(text, "");
    assert_ok(mica_token_decoder_next(d, broken, 2, &text, &n));
    assert_ok(mica_token_decoder_finish(d, &text, &n));
    assert_string_equal(text, "\xef\xbf\xbd");
    assert_ok(mica_token_decoder_finish(d, &text, NULL));
    assert_string_equal(text, "");
    mica_token_decoder_free(d);
    mica_token_decoder_free(NULL);

    const int32_t turn[] = {IM_START, TOY_HELLO, TOY_WORLD, IM_END, THINK};
    assert_string_equal(decode(t, 0, turn, 5), "<|im_start|>hello world<|im_end|><think>");
    assert_string_equal(decode(t, MICA_DECODE_SKIP_SPECIAL, turn, 5), "hello world<think>");
    mica_tokenizer_free(t);
}

/* Every cut of a text into single ids gives the same text as all at once. */
static void decoding_one_by_one_is_decoding_at_once(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    const char *text = "h\u00e9llo \u20ac\U0001f468\u200d\U0001f469 \xf0\x9f w\xff";
    mica_token_list ids = {0};
    assert_ok(mica_tokenizer_encode(t, text, (int64_t)strlen(text), 0, &ids));
    mica_token_decoder *d;
    const char *part;
    char all[256] = "";
    assert_ok(mica_token_decoder_new(t, 0, &d));
    for (int64_t i = 0; i < ids.n; i++) {
        assert_ok(mica_token_decoder_next(d, ids.ids + i, 1, &part, NULL));
        strncat(all, part, sizeof all - strlen(all) - 1);
    }
    assert_ok(mica_token_decoder_finish(d, &part, NULL));
    strncat(all, part, sizeof all - strlen(all) - 1);
    assert_string_equal(all, decode(t, 0, ids.ids, ids.n));
    mica_token_decoder_free(d);
    mica_token_list_free(&ids);
    mica_tokenizer_free(t);
}

static void tokens_tell_kind_text_and_bytes(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    int64_t n;
    assert_int_equal(mica_tokenizer_n_vocab(t), 270);
    assert_string_equal(mica_tokenizer_token_text(t, TOY_WORLD, &n), "\304\240world");
    assert_int_equal(n, 7);
    assert_string_equal(mica_tokenizer_token_bytes(t, TOY_WORLD, &n), " world");
    assert_int_equal(n, 6);
    assert_memory_equal(mica_tokenizer_token_bytes(t, 0, &n), "\0", 1);
    assert_int_equal(n, 1);
    assert_int_equal(mica_tokenizer_token_kind(t, TOY_WORLD), MICA_TOKEN_NORMAL);
    assert_int_equal(mica_tokenizer_token_kind(t, IM_END), MICA_TOKEN_CONTROL);
    assert_int_equal(mica_tokenizer_token_kind(t, THINK), MICA_TOKEN_ADDED);
    assert_true(mica_tokenizer_token_is_special(t, IM_END));
    assert_false(mica_tokenizer_token_is_special(t, THINK));
    for (int32_t id = -1; id <= 270; id += 271) {
        assert_string_equal(mica_tokenizer_token_text(t, id, &n), "");
        assert_int_equal(n, 0);
        assert_string_equal(mica_tokenizer_token_bytes(t, id, NULL), "");
        assert_int_equal(mica_tokenizer_token_kind(t, id), MICA_TOKEN_NONE);
        assert_false(mica_tokenizer_token_is_special(t, id));
    }
    assert_int_equal(mica_tokenizer_find(t, "\304\240world", 7), TOY_WORLD);
    assert_int_equal(mica_tokenizer_find(t, " world", 6), -1);
    assert_int_equal(mica_tokenizer_find(t, "<|im_end|>", 10), IM_END);
    assert_true(mica_tokenizer_adds_bos(t));
    assert_false(mica_tokenizer_adds_eos(t));
    assert_string_equal(mica_token_kind_name(MICA_TOKEN_CONTROL), "control");
    assert_string_equal(mica_token_kind_name(MICA_TOKEN_N_KINDS), "?");
    mica_tokenizer_free(t);
}

/* A message that holds every special token of a vocabulary cannot make one of them. */
static void no_message_can_forge_a_special_token(void **state)
{
    (void)state;
    static const char *const files[] = {"gpt-2", "llama-spm", "phi-3", "deepseek-coder"};
    int tried = 0;
    for (int f = 0; f < 4; f++) {
        char name[128];
        snprintf(name, sizeof name, "data/tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf", files[f]);
        const char *path = shared_path(name);
        if (!path)
            continue;
        mica_tokenizer *t;
        assert_ok(mica_tokenizer_open(path, &t));
        mica__text message = {.kind = MICA_MEMORY_OTHER};
        int64_t n_special = 0;
        for (int32_t id = 0; id < mica_tokenizer_n_vocab(t); id++)
            if (mica_tokenizer_token_is_special(t, id)) {
                n_special++;
                mica__text_add_string(&message, mica_tokenizer_token_text(t, id, NULL));
                mica__text_add_string(&message, "x");
            }
        assert_true(n_special > 0);
        mica_token_list ids = {0};
        const mica_text_span all[] = {{0, message.length}};
        assert_ok(mica_tokenizer_encode(t, message.bytes, message.length, MICA_ENCODE_PARSE_SPECIAL,
                                        &ids));
        int64_t seen = 0;
        for (int64_t i = 0; i < ids.n; i++)
            seen += mica_tokenizer_token_is_special(t, ids.ids[i]);
        assert_int_equal(seen, n_special);
        ids.n = 0;
        assert_ok(mica_tokenizer_encode_spans(t, message.bytes, message.length, all, 1,
                                              MICA_ENCODE_PARSE_SPECIAL, &ids));
        for (int64_t i = 0; i < ids.n; i++)
            assert_false(mica_tokenizer_token_is_special(t, ids.ids[i]));
        mica_token_list_free(&ids);
        mica__text_free(&message);
        mica_tokenizer_free(t);
        tried++;
    }
    if (!tried)
        skip();
}

/* Hours if anything about a line were quadratic. */
static void a_line_of_a_million_bytes_takes_a_moment(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    const int n = 1000000;
    char *text = malloc((size_t)n);
    static const char *const fills[] = {"hello", "<|im_start|", " ", "\n", "\xe4\xb8\x80", "1"};
    for (int k = 0; k < 6; k++) {
        const size_t length = strlen(fills[k]);
        for (int i = 0; i < n; i++)
            text[i] = fills[k][(size_t)i % length];
        mica_token_list ids = {0};
        assert_ok(mica_tokenizer_encode(t, text, n, MICA_ENCODE_PARSE_SPECIAL, &ids));
        assert_true(ids.n > 0);
        mica_token_list_free(&ids);
    }
    free(text);
    mica_tokenizer_free(t);
}

static int64_t ids_of_many; /* what one thread alone got */

static void *encode_many(void *user)
{
    const mica_tokenizer *t = user;
    char text[600];
    for (int i = 0; i < 599; i++)
        text[i] = "hello world, <think> 12"[i % 23];
    for (int round = 0; round < 50; round++) {
        mica_token_list ids = {0};
        if (mica_tokenizer_encode(t, text, 599, 0, &ids) != MICA_OK ||
            (ids_of_many && ids.n != ids_of_many))
            return user;
        if (!ids_of_many)
            ids_of_many = ids.n;
        mica_token_list_free(&ids);
    }
    return NULL;
}

static void many_threads_may_encode_at_once(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    pthread_t threads[4];
    assert_null(encode_many(t));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, t), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    mica_tokenizer_free(t);
}

static void failing_memory_leaves_lists_and_decoders_usable(void **state)
{
    (void)state;
    mica_tokenizer *t = open_toy(&chat);
    char text[900];
    for (int i = 0; i < 900; i++)
        text[i] = "<s>hello world "[i % 15];
    memset(text + 500, 'l', 300);
    const mica_text_span plain[] = {{15, 30}};
    const int64_t before = held();
    mica_status status = MICA_E_MEMORY;
    mica_token_list ids = {0}, whole = {0};
    assert_ok(mica_tokenizer_encode(t, "hello", 5, 0, &ids));
    int64_t n = 0;
    while (status != MICA_OK) {
        mica__fault_after(++n, false);
        status = mica_tokenizer_encode_spans(t, text, 900, plain, 1, 3, &ids);
        mica__fault_after(0, false);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
        if (status != MICA_OK)
            assert_int_equal(ids.n, 1);
    }
    assert_true(n > 5);
    assert_ok(mica_tokenizer_encode_spans(t, text, 900, plain, 1, 3, &whole));
    assert_int_equal(ids.n, whole.n + 1);

    mica_token_decoder *d = NULL;
    const char *part = NULL;
    for (n = 1, status = MICA_E_MEMORY; status != MICA_OK; n++) {
        mica__fault_after(n, false);
        status = d ? MICA_OK : mica_token_decoder_new(t, 0, &d);
        if (status == MICA_OK)
            status = mica_token_decoder_next(d, whole.ids, whole.n, &part, NULL);
        mica__fault_after(0, false);
    }
    assert_true(n > 3);
    assert_int_equal(strlen(part), 900);
    mica_token_decoder_free(d);
    mica_token_list_free(&ids);
    mica_token_list_free(&whole);
    assert_int_equal(held(), before);
    mica_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_words_and_words_tokens),
        cmocka_unit_test(special_tokens_are_found_only_when_asked),
        cmocka_unit_test(a_plain_span_hides_special_tokens_and_nothing_else),
        cmocka_unit_test(plain_spans_move_with_the_normalised_text),
        cmocka_unit_test(impossible_arguments_are_refused_and_leave_the_list),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(decoding_emits_whole_characters_only),
        cmocka_unit_test(decoding_one_by_one_is_decoding_at_once),
        cmocka_unit_test(tokens_tell_kind_text_and_bytes),
        cmocka_unit_test(no_message_can_forge_a_special_token),
        cmocka_unit_test(a_line_of_a_million_bytes_takes_a_moment),
        cmocka_unit_test(many_threads_may_encode_at_once),
        cmocka_unit_test(failing_memory_leaves_lists_and_decoders_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
