/* tokenizer_files_test.c - the files a tokenizer is read from: what they mean, what is refused.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "io/gguf_write.h"
#include "support/temp_dir.h"
#include "support/toy_tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"

static int64_t held(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    return usage.active;
}

static const char *encode(const mica_tokenizer *t, const char *text, unsigned flags)
{
    static char out[2048];
    mica_token_list ids = {0};
    size_t at = 0;
    assert_ok(mica_tokenizer_encode(t, text, (int64_t)strlen(text), flags, &ids));
    out[0] = '\0';
    for (int64_t i = 0; i < ids.n; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, i ? " %d" : "%d", (int)ids.ids[i]);
    mica_token_list_free(&ids);
    return out;
}

static const char *decode(const mica_tokenizer *t, unsigned flags, const int32_t *ids, int64_t n)
{
    static char out[2048];
    mica_token_decoder *d;
    const char *text;
    assert_ok(mica_token_decoder_new(t, flags, &d));
    assert_ok(mica_token_decoder_next(d, ids, n, &text, NULL));
    snprintf(out, sizeof out, "%s", text);
    mica_token_decoder_free(d);
    return out;
}

static mica_tokenizer *open_json(const toy_parts *parts)
{
    mica__text json = {.kind = MICA_MEMORY_OTHER};
    mica_tokenizer *t;
    toy_json(parts, &json);
    assert_ok(json.status);
    assert_ok(mica__tokenizer_from_json(json.bytes, json.length, NULL, &t));
    mica__text_free(&json);
    return t;
}

static void assert_json_refused(const toy_parts *parts, mica_status expected, const char *message)
{
    mica__text json = {.kind = MICA_MEMORY_OTHER};
    mica_tokenizer *t;
    toy_json(parts, &json);
    const int64_t before = held();
    assert_status(mica__tokenizer_from_json(json.bytes, json.length, NULL, &t), expected);
    assert_int_equal(held(), before);
    if (!strstr(mica_last_error(), message))
        fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), message);
    mica__text_free(&json);
}

/* --- tokenizer.json --------------------------------------------------------------------------- */

static void members_may_come_in_any_order_and_merges_as_lines_or_pairs(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        mica_tokenizer *t = open_json(&(toy_parts){.merges_first = i & 1, .pairs = i & 2});
        assert_string_equal(encode(t, "hello world", 0), "259 264");
        mica_tokenizer_free(t);
    }
}

static void steps_that_are_not_implemented_are_refused_by_name(void **state)
{
    (void)state;
    const struct {
        toy_parts parts;
        const char *message;
    } cases[] = {
        {{.normalizer = "{\"type\":\"Lowercase\"}"}, "normalizer Lowercase"},
        {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"},\"content\":\"\"}"},
         "normalizer Replace with a Regex"},
        {{.pre_tokenizer = "{\"type\":\"UnicodeScripts\"}"}, "pre-tokenizer UnicodeScripts"},
        {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
                           "{\"type\":\"ByteLevel\"}]}"},
         "ByteLevel behind another"},
        {{.pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":"
                           "\"Sideways\"}"},
         "split behavior Sideways"},
        {{.post_processor = "{\"type\":\"Chewing\"}"}, "post-processor Chewing"},
        {{.decoder = "{\"type\":\"WordPiece\"}"}, "decoder WordPiece"},
        {{.decoder = "{\"type\":\"Strip\",\"content\":\"x\",\"start\":1,\"stop\":0}"}, "Strip"},
        {{.decoder = "{\"type\":\"Fuse\"}"}, "ByteLevel pre-tokenizer without a ByteLevel decoder"},
        {{.options = "\"continuing_subword_prefix\":\"##\","}, "continuing_subword_prefix"},
        {{.options = "\"end_of_word_suffix\":\"</w>\","}, "end_of_word_suffix"},
        {{.options = "\"dropout\":0.1,"}, "dropout"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_json_refused(&cases[i].parts, MICA_E_UNSUPPORTED, cases[i].message);
    mica_tokenizer *t;
    const char *unigram =
        "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1.5],[[]],{\"b\":1}]}}";
    const char *old_wordpiece =
        "{\"model\":{\"max_input_chars_per_word\":100,\"vocab\":{\"a\":0}}}";
    assert_status(mica__tokenizer_from_json(unigram, (int64_t)strlen(unigram), NULL, &t),
                  MICA_E_UNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "Unigram are not supported yet"));
    assert_status(
        mica__tokenizer_from_json(old_wordpiece, (int64_t)strlen(old_wordpiece), NULL, &t),
        MICA_E_UNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "WordPiece are not supported yet"));
}

static void broken_members_are_refused_with_what_is_wrong(void **state)
{
    (void)state;
    const struct {
        toy_parts parts;
        const char *message;
    } cases[] = {
        {{.more_vocab = ",\"x1\":5"}, "id 5 belongs to"},
        {{.more_vocab = ",\"hello\":300"}, "have the same text \"hello\""},
        {{.more_vocab = ",\"x1\":-1"}, "has the id -1"},
        {{.more_vocab = ",\"x1\":1.5"}, "has the id 1.5"},
        {{.more_vocab = ",\"x1\":99999999999999999999999"}, "has the id 999"},
        {{.more_vocab = ",\"x1\":4194304"}, "\"x1\" has id 4194304"},
        {{.more_vocab = ",\"x1\":\"5\""}, "the id of token \"x1\" is not a number"},
        {{.more_vocab = ",\"x1\":{}"}, "the id of token \"x1\" is not a number"},
        {{.more_vocab = ",\"x1\":null"}, "is not a number"},
        {{.more_merges = ",\"x y z\""}, "\"y z\", which is not in the vocabulary"},
        {{.more_merges = ",\"h h\""}, "\"hh\", which is not in the vocabulary"},
        {{.more_merges = ",\"h\""}, "not two tokens"},
        {{.more_merges = ",\" \""}, "not two tokens"},
        {{.more_merges = ",\"\""}, "not two tokens"},
        {{.more_merges = ",5"}, "neither a text nor a pair"},
        {{.more_merges = ",{}"}, "neither a text nor a pair"},
        {{.more_merges = ",[\"h\"]"}, "has 1 parts"},
        {{.more_merges = ",[]"}, "has 0 parts"},
        {{.more_merges = ",[\"h\",\"e\",\"l\"]"}, "not a pair"},
        {{.more_merges = ",[\"h\",[\"e\"]]"}, "neither a text nor a pair"},
        {{.added_tokens = "{}"}, "\"added_tokens\" is not a list"},
        {{.added_tokens = "[{\"id\":1}]"}, "has no id or no content"},
        {{.added_tokens = "[{\"id\":\"1\",\"content\":\"x\"}]"}, "has no id or no content"},
        {{.added_tokens = "[{\"id\":-5,\"content\":\"x\"}]"}, "has id -5"},
        {{.added_tokens = "[{\"id\":9999999,\"content\":\"x\"}]"}, "has id 9999999"},
        {{.added_tokens = "[{\"id\":259,\"content\":\"x\"}]"},
         "id 259 is \"hello\" in the vocabulary and \"x\""},
        {{.added_tokens = "[{\"id\":300,\"content\":\"hello\"}]"}, "have the same text"},
        {{.added_tokens = "[{\"id\":300,\"content\":\"x1\",\"lstrip\":1}]"},
         "\"lstrip\" is neither true nor false"},
        {{.normalizer = "{}"}, "has no type"},
        {{.normalizer = "{\"type\":\"Sequence\"}"}, "has no list \"normalizers\""},
        {{.normalizer = "{\"type\":\"Prepend\"}"}, "has no text"},
        {{.pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{}}"}, "neither a String nor a Regex"},
        {{.pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{\"String\":\"\"}}"}, "no characters"},
        {{.post_processor = "{\"type\":\"TemplateProcessing\"}"}, "\"single\""},
        {{.post_processor = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
                            "\"id\":\"x\"}}],\"special_tokens\":{}}"},
         "\"x\" has no ids"},
        {{.post_processor = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
                            "\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[9999]}}}"},
         "outside the vocabulary"},
        {{.post_processor = "{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",1]}"}, "no \"sep\""},
        {{.options = "\"unk_token\":\"<none>\","}, "\"<none>\" is not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_json_refused(&cases[i].parts, MICA_E_FORMAT, cases[i].message);
    char deep[2000] = "";
    for (int i = 0; i < 12; i++)
        strcat(deep, "{\"type\":\"Sequence\",\"normalizers\":[");
    strcat(deep, "{\"type\":\"NFC\"}");
    for (int i = 0; i < 12; i++)
        strcat(deep, "]}");
    assert_json_refused(&(toy_parts){.normalizer = deep}, MICA_E_FORMAT, "nested over 8 deep");
    static const char *const texts[] = {"",
                                        "null",
                                        "[]",
                                        "{}",
                                        "{\"model\":5}",
                                        "{\"model\":{}}",
                                        "{\"model\":{\"type\":\"BPE\"}}",
                                        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        mica_tokenizer *t;
        assert_status(mica__tokenizer_from_json(texts[i], (int64_t)strlen(texts[i]), NULL, &t),
                      MICA_E_FORMAT);
    }
}

/* Llama-like: Metaspace or Prepend + Replace, byte tokens, no pre-tokenizer cuts. */
static void character_vocabularies_mark_spaces_and_fall_back_to_bytes(void **state)
{
    (void)state;
    mica__text json = {.kind = MICA_MEMORY_OTHER};
    mica__text_add_string(
        &json,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
        "{\"type\":\"Prepend\",\"prepend\":\"\342\226\201\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\342\226\201\"}]},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\342\226\201\"},\"content\":\" \"},"
        "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\","
        "\"fuse_unk\":true,\"vocab\":{\"<unk>\":0,\"\342\226\201\":1,\"a\":2,\"b\":3,"
        "\"\342\226\201a\":4,\"<0xC3>\":5,\"<0xA9>\":6,\"<0x0A>\":7},"
        "\"merges\":[\"\342\226\201 a\"]}}");
    mica_tokenizer *t;
    assert_ok(mica__tokenizer_from_json(json.bytes, json.length, NULL, &t));
    assert_string_equal(encode(t, "a ab", 0), "4 4 3");
    assert_string_equal(encode(t, "b\u00e9\n", 0), "1 3 5 6 7");
    /* Characters without all their bytes are unknown, and neighbours are one. */
    assert_string_equal(encode(t, "zz\u4e00b", 0), "1 0 3");
    const int32_t ids[] = {4, 1, 3, 5, 6};
    assert_string_equal(decode(t, 0, ids, 5), "a b\u00e9");
    assert_string_equal(decode(t, MICA_DECODE_CONTINUE, ids, 5), " a b\u00e9");
    assert_int_equal(mica_tokenizer_token_kind(t, 5), MICA_TOKEN_BYTE);
    assert_int_equal(mica_tokenizer_unk(t), 0);
    assert_string_equal(mica_tokenizer_kind(t), "SentencePiece BPE");
    mica_tokenizer_free(t);
    mica__text_free(&json);
}

static void pre_tokenizer_sequences_are_mapped(void **state)
{
    (void)state;
    const toy_parts digits = {.pre_tokenizer =
                                  "{\"type\":\"Sequence\",\"pretokenizers\":["
                                  "{\"type\":\"Digits\",\"individual_digits\":true},"
                                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}",
                              .more_vocab = ",\"12\":265",
                              .more_merges = ",\"1 2\""};
    mica_tokenizer *t = open_json(&digits);
    assert_string_equal(encode(t, "12", 0), "49 50");
    mica_tokenizer_free(t);

    /* The prefix space is a byte-level option of old; digits behind it see spelled bytes. */
    const toy_parts falcon = {.pre_tokenizer =
                                  "{\"type\":\"Sequence\",\"pretokenizers\":["
                                  "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"},"
                                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":true},"
                                  "{\"type\":\"Digits\",\"individual_digits\":false},"
                                  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9][0-9][0-9]\"},"
                                  "\"behavior\":\"Isolated\"}]}",
                              .more_vocab = ",\"12\":265",
                              .more_merges = ",\"1 2\""};
    t = open_json(&falcon);
    assert_string_equal(encode(t, "world", 0), "264");
    assert_string_equal(encode(t, "1212", 0), "32 265 49 50");
    mica_tokenizer_free(t);

    /* A whole word that is a token needs no merges when the file says so. */
    const toy_parts whole = {.options = "\"ignore_merges\":true,", .more_vocab = ",\"abc\":265"};
    t = open_json(&whole);
    assert_string_equal(encode(t, "abc abc", 0), "265 32 97 98 99");
    mica_tokenizer_free(t);

    const toy_parts roberta = {.post_processor =
                                   "{\"type\":\"RobertaProcessing\",\"cls\":[\"!\",33],"
                                   "\"sep\":[\"?\",63]}"};
    t = open_json(&roberta);
    assert_string_equal(encode(t, "hello", MICA_ENCODE_ADD_SPECIAL), "33 259 63");
    assert_true(mica_tokenizer_adds_eos(t));
    mica_tokenizer_free(t);
}

/* A vocabulary that was trained on text with special tokens has merges for them, which must not let
 * plain text spell one. */
static void merges_never_make_a_special_token(void **state)
{
    (void)state;
    static const char *const options[] = {NULL, "\"ignore_merges\":true,"};
    for (int i = 0; i < 2; i++) {
        const toy_parts parts = {.options = options[i],
                                 .added_tokens = "[{\"id\":266,\"content\":\"abc\","
                                                 "\"single_word\":false,\"lstrip\":false,"
                                                 "\"rstrip\":false,\"normalized\":false,"
                                                 "\"special\":true}]",
                                 .more_vocab = ",\"ab\":265,\"abc\":266,\"abcd\":267",
                                 .more_merges = ",\"a b\",\"ab c\",\"abc d\""};
        mica_tokenizer *t = open_json(&parts);
        assert_string_equal(encode(t, "abc", 0), "265 99");
        assert_string_equal(encode(t, "abc", MICA_ENCODE_PARSE_SPECIAL), "266");
        assert_string_equal(encode(t, "abce", 0), "265 99 101");
        mica_tokenizer_free(t);
    }
}

/* --- folders ---------------------------------------------------------------------------------- */

static mica_tokenizer *open_folder(const char *dir)
{
    mica_tokenizer *t;
    assert_ok(mica_tokenizer_open(dir, &t));
    return t;
}

static void write_toy_json(const char *dir, const toy_parts *parts)
{
    mica__text json = {.kind = MICA_MEMORY_OTHER};
    toy_json(parts, &json);
    temp_write(dir, "tokenizer.json", json.bytes, (size_t)json.length);
    mica__text_free(&json);
}

static void files_beside_a_tokenizer_name_roles_flags_and_templates(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    write_toy_json(dir,
                   &(toy_parts){.added_tokens =
                                    "[{\"id\":265,\"content\":\"<s>\",\"special\":true},"
                                    "{\"id\":266,\"content\":\"</s>\"},"
                                    "{\"id\":267,\"content\":\"<|im_end|>\",\"special\":true}]"});
    temp_write_text(dir, "tokenizer_config.json",
                    "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\",\"pad_token\":"
                    "\"absent\",\"add_bos_token\":true,\"add_eos_token\":true,\"chat_template\":["
                    "{\"name\":\"default\",\"template\":\"A<|im_end|>\"},"
                    "{\"name\":\"tool_use\",\"template\":\"T\"}]}");
    temp_write_text(dir, "generation_config.json", "{\"eos_token_id\":[33,266,123456]}");
    mica_tokenizer *t = open_folder(dir);
    int64_t n;
    assert_int_equal(mica_tokenizer_bos(t), 265);
    assert_int_equal(mica_tokenizer_eos(t), 266);
    assert_int_equal(mica_tokenizer_eot(t), 267);
    assert_int_equal(mica_tokenizer_pad(t), -1);
    const int32_t *ends = mica_tokenizer_end_tokens(t, &n);
    assert_int_equal(n, 3);
    assert_true(ends[0] == 33 && ends[1] == 266 && ends[2] == 267);
    assert_string_equal(encode(t, "hello", MICA_ENCODE_ADD_SPECIAL), "265 259 266");
    /* An added token that ends an answer is special, whatever its flag says. */
    assert_true(mica_tokenizer_token_is_special(t, 266));
    assert_string_equal(encode(t, "</s>", 0), "60 47 115 62");
    assert_string_equal(mica_tokenizer_chat_template(t, NULL), "A<|im_end|>");
    assert_string_equal(mica_tokenizer_chat_template(t, "tool_use"), "T");
    assert_null(mica_tokenizer_chat_template(t, "none"));
    assert_string_equal(mica_tokenizer_chat_template_name(t, 1), "tool_use");
    assert_null(mica_tokenizer_chat_template_name(t, 2));
    mica_tokenizer_free(t);

    temp_write_text(dir, "chat_template.jinja", "J");
    temp_write_text(dir, "tokenizer_config.json", "{\"chat_template\":\"C\"}");
    temp_write_text(dir, "special_tokens_map.json", "{\"eos_token\":{\"content\":\"<|im_end|>\"}}");
    t = open_folder(dir);
    assert_string_equal(mica_tokenizer_chat_template(t, NULL), "J");
    assert_int_equal(mica_tokenizer_eos(t), 267);
    assert_false(mica_tokenizer_adds_bos(t));
    mica_tokenizer_free(t);

    static const struct {
        const char *config, *message;
    } bad[] = {{"{\"eos_token\":\"<none>\"}", "eos_token \"<none>\" is not in the vocabulary"},
               {"{\"add_bos_token\":1}", "add_bos_token of tokenizer_config.json is neither"},
               {"{\"chat_template\":5}", "neither a text nor a list"},
               {"{\"chat_template\":[{\"name\":\"x\"}]}", "no template"},
               {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", "has no id"},
               {"{\"added_tokens_decoder\":{\"259\":{\"content\":\"y\"}}}", "is \"hello\""},
               {"{\"added_tokens_decoder\":[]}", "is not an object"},
               {"{", "tokenizer_config.json"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        temp_write_text(dir, "tokenizer_config.json", bad[i].config);
        assert_status(mica_tokenizer_open(dir, &t), MICA_E_FORMAT);
        if (!strstr(mica_last_error(), bad[i].message) || !strstr(mica_last_error(), dir))
            fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), bad[i].message);
    }
    temp_dir_remove(dir);
}

/* config.json is asked only where no other file says how an answer ends. */
static void ids_of_the_model_configuration_come_last(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    write_toy_json(dir, &(toy_parts){0});
    temp_write_text(dir, "config.json", "{\"bos_token_id\":1,\"eos_token_id\":2}");
    mica_tokenizer *t = open_folder(dir);
    assert_int_equal(mica_tokenizer_bos(t), 1);
    assert_int_equal(mica_tokenizer_eos(t), 2);
    mica_tokenizer_free(t);
    temp_write_text(dir, "generation_config.json", "{\"eos_token_id\":3}");
    t = open_folder(dir);
    assert_int_equal(mica_tokenizer_eos(t), 3);
    mica_tokenizer_free(t);
    temp_write_text(dir, "generation_config.json", "{\"eos_token_id\":\"3\"}");
    assert_status(mica_tokenizer_open(dir, &t), MICA_E_FORMAT);
    temp_dir_remove(dir);
}

static void a_path_without_a_tokenizer_says_what_was_looked_for(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    mica_tokenizer *t;
    assert_status(mica_tokenizer_open(dir, &t), MICA_E_NOT_FOUND);
    assert_non_null(strstr(mica_last_error(), "looked for tokenizer.json"));
    assert_status(mica_tokenizer_open(temp_path(dir, "none"), &t), MICA_E_NOT_FOUND);
    assert_status(mica_tokenizer_open_preset(dir, "klingon", &t), MICA_E_NOT_FOUND);
    assert_non_null(strstr(mica_last_error(), "there are gpt2, "));
    assert_status(mica_tokenizer_open(NULL, &t), MICA_E_ARGUMENT);
    temp_write_text(dir, "tokenizer.json", "");
    assert_status(mica_tokenizer_open(dir, &t), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "is empty"));
    temp_dir_remove(dir);
}

/* --- tiktoken, vocab + merges ----------------------------------------------------------------- */

static void ranks_and_merges_need_a_preset_or_a_class(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    mica__text text = {.kind = MICA_MEMORY_OTHER};
    mica_tokenizer *t;
    toy_tiktoken(&text);
    temp_write(dir, "toy.tiktoken", text.bytes, (size_t)text.length);
    mica__text_clear(&text);
    assert_status(mica_tokenizer_open(dir, &t), MICA_E_UNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "name a preset"));
    assert_ok(mica_tokenizer_open_preset(dir, "cl100k_base", &t));
    assert_string_equal(encode(t, "hello world", 0), "259 264");
    assert_int_equal(mica_tokenizer_n_vocab(t), TOY_FIRST_FREE); /* special ids are not known */
    mica_tokenizer_free(t);
    temp_write_text(dir, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"Qwen2TokenizerFast\",\"added_tokens_decoder\":{\"265\":"
                    "{\"content\":\"<|im_end|>\",\"special\":true}},\"eos_token\":\"<|im_end|>\"}");
    t = open_folder(dir);
    assert_string_equal(encode(t, "hello<|im_end|>", MICA_ENCODE_PARSE_SPECIAL), "259 265");
    assert_int_equal(mica_tokenizer_eos(t), 265);
    mica_tokenizer_free(t);
    temp_write_text(dir, "tokenizer_config.json", "{\"tokenizer_class\":\"KlingonTokenizer\"}");
    assert_status(mica_tokenizer_open(dir, &t), MICA_E_UNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "KlingonTokenizer"));
    temp_dir_remove(dir);

    dir = temp_dir_new();
    toy_vocab(&text);
    temp_write(dir, "vocab.json", text.bytes, (size_t)text.length);
    mica__text_clear(&text);
    assert_status(mica_tokenizer_open(dir, &t), MICA_E_NOT_FOUND);
    toy_merges(&text);
    temp_write(dir, "merges.txt", text.bytes, (size_t)text.length);
    t = open_folder(dir);
    assert_string_equal(encode(t, "hello world", 0), "259 264");
    mica_tokenizer_free(t);
    temp_write_text(dir, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}");
    t = open_folder(dir);
    assert_string_equal(encode(t, "world", 0), "264");
    mica_tokenizer_free(t);
    temp_write_text(dir, "merges.txt", "h e\nx\n");
    assert_status(mica_tokenizer_open(dir, &t), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "line 2 of merges.txt"));
    static const char *const vocabs[] = {"[]",           "{\"a\":[0]}", "{\"a\":-1}",
                                         "{\"a\":null}", "5",           "{\"a\":0,\"b\":0}",
                                         "\"a\"",        "true",        "{\"a\":{}}"};
    for (size_t i = 0; i < sizeof vocabs / sizeof vocabs[0]; i++) {
        temp_write_text(dir, "vocab.json", vocabs[i]);
        assert_status(mica_tokenizer_open(dir, &t), MICA_E_FORMAT);
    }
    temp_dir_remove(dir);
    mica__text_free(&text);
}

static void broken_tiktoken_lines_are_refused_with_their_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"AA== 0\nAQ==1\n", "line 2"},     {"AA== 0\n\nAQ== x\n", "line 3"},
        {"AA== -1\n", "line 1"},           {"AA== 18446744073709551616\n", "line 1"},
        {"AA== 4194304\n", "line 1"},      {"A 0\n", "not base64"},
        {"AAA 0\n", "not base64"},         {"A=== 0\n", "not base64"},
        {"AB== 0\n", "not base64"},        {"AAB= 0\n", "not base64"},
        {"A*A= 0\n", "not base64"},        {"====\n", "line 1"},
        {"AA== 0\nAA== 1\n", "same text"}, {"AA== 0\nAQ== 0\n", "id 0 belongs to"},
        {"AA== 0 \n", "line 1"},           {"\n\n", "empty"},
        {"AA=A 0\n", "not base64"},        {" 0\n", "not base64"},
    };
    const mica__preset *preset;
    assert_ok(mica__preset_find("gpt2", &preset));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mica_tokenizer *t;
        const int64_t before = held();
        assert_status(mica__tokenizer_from_tiktoken(cases[i].text, (int64_t)strlen(cases[i].text),
                                                    preset, NULL, &t),
                      MICA_E_FORMAT);
        if (!strstr(mica_last_error(), cases[i].message))
            fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), cases[i].message);
        assert_int_equal(held(), before);
    }
}

/* Ids as the encodings' publishers give them. */
static void presets_bring_their_special_tokens_to_their_own_size(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        int n_ranks;
        const char *text;
        int id;
    } cases[] = {
        {"gpt2", 50256, "<|endoftext|>", 50256},
        {"cl100k_base", 100256, "<|endofprompt|>", 100276},
        {"o200k_base", 199998, "<|endoftext|>", 199999},
        {"o200k_harmony", 199998, "<|return|>", 200002},
        {"llama3", 128000, "<|eot_id|>", 128009},
        {"llama3", 128000, "<|reserved_special_token_250|>", 128255},
        {"llama3.1", 128000, "<|python_tag|>", 128010},
        {"llama3.1", 128000, "<|reserved_special_token_247|>", 128255},
        {"qwen", 151643, "<|im_end|>", 151645},
        {"qwen", 151643, "<|extra_204|>", 151850},
        {"whisper", 50257, "<|en|>", 50259},
        {"whisper", 50257, "<|notimestamps|>", 50363},
        {"whisper", 50257, "<|30.00|>", 51864},
        {"whisper_v3", 50257, "<|yue|>", 50358},
        {"whisper_v3", 50257, "<|notimestamps|>", 50364},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const mica__preset *preset;
        mica_tokenizer *t;
        assert_ok(mica__preset_find(cases[i].preset, &preset));
        assert_ok(mica__tokenizer_new(&t));
        for (int id = 0; id < cases[i].n_ranks; id++) {
            char text[16];
            const int n = snprintf(text, sizeof text, "%d", id);
            assert_ok(mica__vocab_set(&t->vocab, id, text, n, MICA_TOKEN_NORMAL, (uint32_t)id));
        }
        assert_ok(mica__preset_apply(preset, t, true));
        assert_ok(mica__tokenizer_index(t));
        assert_int_equal(mica__vocab_find(&t->vocab, cases[i].text, (int64_t)strlen(cases[i].text)),
                         cases[i].id);
        assert_int_equal(t->vocab.kind[cases[i].id], MICA_TOKEN_CONTROL);
        mica_tokenizer_free(t);
    }
    int n = 0;
    while (mica_tokenizer_preset_name(n))
        n++;
    assert_true(n >= 13);
    assert_null(mica_tokenizer_preset_name(-1));
    assert_ptr_equal(mica__preset_of_file("a/cl100k_base.tiktoken"),
                     mica__preset_of_file("cl100k_base.tiktoken"));
    assert_non_null(mica__preset_of_file("cl100k_base.tiktoken"));
    assert_non_null(mica__preset_of_file("multilingual.tiktoken"));
    assert_null(mica__preset_of_file("cl100k_bas.tiktoken"));
    assert_null(mica__preset_of_class(NULL));
}

/* --- tokenizer.model -------------------------------------------------------------------------- */

static void put_model(mica__text *out)
{
    proto_piece(out, "<unk>", 0, 2);
    proto_piece(out, "<s>", 0, 3);
    proto_piece(out, "</s>", 0, 3);
    proto_piece(out, "<0x41>", 0, 6);
    proto_piece(out, "\342\226\201", -9, 1);
    proto_piece(out, "a", -10, 1);
    proto_piece(out, "b", -11, 1);
    proto_piece(out, "ab", -1, 1);
    proto_piece(out, "\342\226\201ab", -2, 1);
    proto_piece(out, "<tool>", 0, 4);
    proto_piece(out, "abab", -3, 5);
}

/* The trainer's and the normalizer's part: BPE, and whether extra spaces go. */
static void put_specs(mica__text *out, int type, bool prefix, bool extra)
{
    mica__text spec = {.kind = MICA_MEMORY_OTHER};
    proto_number(&spec, 3, (uint64_t)type);
    proto_bytes(out, 2, spec.bytes, (size_t)spec.length);
    mica__text_clear(&spec);
    proto_number(&spec, 3, prefix);
    proto_number(&spec, 4, extra);
    proto_bytes(out, 3, spec.bytes, (size_t)spec.length);
    mica__text_free(&spec);
}

static void sentencepiece_models_are_read(void **state)
{
    (void)state;
    mica__text model = {.kind = MICA_MEMORY_OTHER};
    mica_tokenizer *t;
    put_model(&model);
    put_specs(&model, 2, true, false);
    assert_true(mica__looks_like_proto(model.bytes, model.length));
    assert_ok(mica__tokenizer_from_proto(model.bytes, model.length, NULL, &t));
    assert_string_equal(encode(t, "ab", 0), "8");
    assert_string_equal(encode(t, " ab", 0), "4 8");
    assert_string_equal(encode(t, "Aab", MICA_ENCODE_ADD_SPECIAL), "1 4 3 7");
    /* abab is unused: it comes apart again. Unknown characters fuse. */
    assert_string_equal(encode(t, "abab", 0), "8 7");
    assert_string_equal(encode(t, "zzA", 0), "4 0 3");
    /* Special tokens are parted off, and a space goes before what follows; a user-defined piece is
     * part of its text. */
    assert_string_equal(encode(t, "ab</s>ab", MICA_ENCODE_PARSE_SPECIAL), "8 2 8");
    assert_string_equal(encode(t, "ab<tool>ab", 0), "8 9 7");
    assert_int_equal(mica_tokenizer_bos(t), 1);
    assert_int_equal(mica_tokenizer_eos(t), 2);
    mica_tokenizer_free(t);

    /* No dummy prefix, extra spaces removed. */
    mica__text_clear(&model);
    put_model(&model);
    put_specs(&model, 2, false, true);
    assert_ok(mica__tokenizer_from_proto(model.bytes, model.length, NULL, &t));
    assert_string_equal(encode(t, "  ab   ab ", 0), "7 8");
    mica_tokenizer_free(t);

    /* Unless "legacy" is false in tokenizer_config.json every stretch gets its space. */
    mica__text_clear(&model);
    put_model(&model);
    put_specs(&model, 2, true, false);
    char *dir = temp_dir_new();
    temp_write(dir, "tokenizer.model", model.bytes, (size_t)model.length);
    temp_write_text(dir, "tokenizer_config.json", "{\"legacy\":false,\"add_bos_token\":false}");
    t = open_folder(dir);
    assert_string_equal(encode(t, "ab</s>ab", 3), "8 2 7");
    mica_tokenizer_free(t);
    temp_dir_remove(dir);
    mica__text_free(&model);
}

static void other_models_and_broken_pieces_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        int type;
        mica_status status;
        const char *message;
    } cases[] = {{"<0x4G>", 6, MICA_E_FORMAT, "byte token 11 is \"<0x4G>\""},
                 {"<0x>", 6, MICA_E_FORMAT, "byte token"},
                 {"<0x-1>", 6, MICA_E_FORMAT, "byte token"},
                 {"<0x041>", 6, MICA_E_FORMAT, "byte token"},
                 {"x", 6, MICA_E_FORMAT, "byte token"},
                 {"<0x41>", 6, MICA_E_FORMAT, "3 and 11 are both byte 65"},
                 {"ab", 1, MICA_E_FORMAT, "same text"},
                 {"", 1, MICA_E_FORMAT, "piece 11 of tokenizer.model is empty"},
                 {"x", 7, MICA_E_FORMAT, "unknown type 7"}};
    mica__text model = {.kind = MICA_MEMORY_OTHER};
    mica_tokenizer *t;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mica__text_clear(&model);
        put_model(&model);
        proto_piece(&model, cases[i].piece, 0, cases[i].type);
        put_specs(&model, 2, true, false);
        const int64_t before = held();
        assert_status(mica__tokenizer_from_proto(model.bytes, model.length, NULL, &t),
                      cases[i].status);
        if (!strstr(mica_last_error(), cases[i].message))
            fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), cases[i].message);
        assert_int_equal(held(), before);
    }
    static const char *const types[] = {"", "Unigram", "", "Word", "Char"};
    for (int type = 1; type <= 4; type++) {
        mica__text_clear(&model);
        put_model(&model);
        put_specs(&model, type, true, false);
        if (type == 2)
            continue;
        assert_status(mica__tokenizer_from_proto(model.bytes, model.length, NULL, &t),
                      MICA_E_UNSUPPORTED);
        assert_non_null(strstr(mica_last_error(), types[type]));
    }
    mica__text_clear(&model);
    put_model(&model);
    put_specs(&model, 2, true, false);
    mica__text spec = {.kind = MICA_MEMORY_OTHER};
    proto_bytes(&spec, 2, "map", 3);
    proto_bytes(&model, 3, spec.bytes, (size_t)spec.length);
    assert_status(mica__tokenizer_from_proto(model.bytes, model.length, NULL, &t),
                  MICA_E_UNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "precompiled_charsmap"));
    mica__text_free(&spec);
    mica__text_free(&model);
}

/* Cut anywhere or with any byte changed, a model opens or is refused; nothing else happens. */
static void damaged_models_never_do_harm(void **state)
{
    (void)state;
    mica__text model = {.kind = MICA_MEMORY_OTHER};
    put_model(&model);
    put_specs(&model, 2, true, false);
    const int64_t before = held();
    for (int64_t n = 0; n < model.length; n++) {
        mica_tokenizer *t;
        char *cut = malloc((size_t)n + 1); /* exact size: a read past the end is seen */
        cut = realloc(cut, n ? (size_t)n : 1);
        memcpy(cut, model.bytes, (size_t)n);
        if (mica__tokenizer_from_proto(cut, n, NULL, &t) == MICA_OK)
            mica_tokenizer_free(t); /* cut between two messages */
        free(cut);
        for (int bit = 0; bit < 8; bit++) {
            model.bytes[n] ^= (char)(1 << bit);
            if (mica__tokenizer_from_proto(model.bytes, model.length, NULL, &t) == MICA_OK) {
                mica_token_list ids = {0};
                mica_tokenizer_encode(t, "ab</s>\n\xff Azz", 12, 3, &ids);
                mica_token_list_free(&ids);
                mica_tokenizer_free(t);
            }
            model.bytes[n] ^= (char)(1 << bit);
        }
    }
    assert_int_equal(held(), before);
    mica__text_free(&model);
}

/* --- GGUF ------------------------------------------------------------------------------------- */

typedef struct gguf_parts {
    const char *model, *pre;
    bool no_scores, no_merges;
    float bad_score;
    int type_of_last;
    int64_t eos;
    const char *name;
} gguf_parts;

enum { N_GGUF = 12 };
static const char *const gguf_tokens[N_GGUF] = {"<unk>",          "<s>",     "</s>", "<0x41>",
                                                "\342\226\201",   "a",       "b",    "ab",
                                                "\342\226\201ab", "<|end|>", "  ",   "last"};
static const int32_t gguf_types[N_GGUF] = {2, 3, 3, 6, 1, 1, 1, 1, 1, 3, 4, 1};
static const float gguf_scores[N_GGUF] = {0, 0, 0, 0, -9, -10, -11, -1, -2, 0, 0, -20};

static const char *write_gguf(const char *dir, const gguf_parts *parts)
{
    mica__gguf_writer *w;
    const char *path = temp_path(dir, "toy.gguf");
    mica__gguf_string texts[N_GGUF];
    int32_t types[N_GGUF];
    float scores[N_GGUF];
    for (int i = 0; i < N_GGUF; i++)
        texts[i] = (mica__gguf_string){gguf_tokens[i], (int64_t)strlen(gguf_tokens[i])};
    memcpy(types, gguf_types, sizeof types);
    memcpy(scores, gguf_scores, sizeof scores);
    if (parts->type_of_last)
        types[N_GGUF - 1] = parts->type_of_last;
    if (parts->bad_score != 0)
        scores[5] = parts->bad_score;
    assert_ok(mica__gguf_writer_open(path, 0, &w));
    assert_ok(mica__gguf_put_string(w, "tokenizer.ggml.model", parts->model,
                                    (int64_t)strlen(parts->model)));
    if (parts->pre)
        assert_ok(mica__gguf_put_string(w, "tokenizer.ggml.pre", parts->pre,
                                        (int64_t)strlen(parts->pre)));
    if (parts->name)
        assert_ok(
            mica__gguf_put_string(w, "general.name", parts->name, (int64_t)strlen(parts->name)));
    assert_ok(mica__gguf_put_strings(w, "tokenizer.ggml.tokens", texts, N_GGUF));
    assert_ok(mica__gguf_put_array(w, "tokenizer.ggml.token_type", MICA__GGUF_I32, types, N_GGUF));
    if (!parts->no_scores)
        assert_ok(mica__gguf_put_array(w, "tokenizer.ggml.scores", MICA__GGUF_F32, scores, N_GGUF));
    const mica__gguf_string merges[] = {{"a b", 3}};
    if (!parts->no_merges)
        assert_ok(mica__gguf_put_strings(w, "tokenizer.ggml.merges", merges, 1));
    assert_ok(mica__gguf_put_integer(w, "tokenizer.ggml.bos_token_id", MICA__GGUF_U32, 1));
    assert_ok(mica__gguf_put_integer(w, "tokenizer.ggml.eos_token_id", MICA__GGUF_U32, parts->eos));
    assert_ok(
        mica__gguf_put_integer(w, "tokenizer.ggml.padding_token_id", MICA__GGUF_U32, UINT32_MAX));
    assert_ok(mica__gguf_put_string(w, "tokenizer.chat_template", "x<|end|>", 8));
    assert_ok(mica__gguf_put_string(w, "tokenizer.chat_template.tool_use", "y", 1));
    assert_ok(mica__gguf_writer_finish(w));
    return temp_path(dir, "toy.gguf");
}

static void gguf_keys_make_a_tokenizer(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    mica_tokenizer *t;
    assert_ok(mica_tokenizer_open(write_gguf(dir, &(gguf_parts){.model = "llama", .eos = 2}), &t));
    assert_string_equal(encode(t, "ab", MICA_ENCODE_ADD_SPECIAL), "1 8");
    assert_string_equal(encode(t, "ab<|end|> ab", MICA_ENCODE_PARSE_SPECIAL), "8 9 4 8");
    assert_string_equal(encode(t, "ab  b", 0), "8 10 4 6"); /* user-defined: found in the text */
    assert_int_equal(mica_tokenizer_eot(t), 9);
    assert_int_equal(mica_tokenizer_pad(t), -1);
    assert_string_equal(mica_tokenizer_chat_template(t, NULL), "x<|end|>");
    assert_string_equal(mica_tokenizer_chat_template(t, "tool_use"), "y");
    mica_tokenizer_free(t);

    const gguf_parts bpe = {.model = "gpt2", .pre = "llama-bpe", .eos = 2};
    assert_ok(mica_tokenizer_open(write_gguf(dir, &bpe), &t));
    assert_string_equal(encode(t, "abab", MICA_ENCODE_ADD_SPECIAL), "1 7 7");
    assert_string_equal(encode(t, "last", 0), "11"); /* a whole word needs no merges here */
    mica_tokenizer_free(t);
    const gguf_parts gpt2 = {.model = "gpt2", .pre = "gpt-2", .eos = 2};
    assert_ok(mica_tokenizer_open(write_gguf(dir, &gpt2), &t));
    assert_string_equal(encode(t, "abab", MICA_ENCODE_ADD_SPECIAL), "7 7");
    mica_tokenizer_free(t);

    const gguf_parts phi = {.model = "llama", .eos = 2, .name = "Phi-3 mini"};
    assert_ok(mica_tokenizer_open(write_gguf(dir, &phi), &t));
    assert_string_equal(encode(t, "<|end|>\n ab<s> ab", MICA_ENCODE_PARSE_SPECIAL), "9 8 1 4 8");
    mica_tokenizer_free(t);
    temp_dir_remove(dir);
}

static void every_known_pre_tokenizer_of_gguf_opens(void **state)
{
    (void)state;
    static const char names[] =
        "default llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano "
        "dbrx "
        "smaug-bpe glm4 chatglm-bpe gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de "
        "a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4 starcoder "
        "refact "
        "command-r smollm codeshell exaone minerva-7b mellum2 falcon qwen2 megrez qwen35 "
        "deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open grok-2 ufakzeka minicpm5 "
        "gpt-4o "
        "llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m tekken seed-coder bailingmoe "
        "bailingmoe2 llada-moe deepseek-llm deepseek-coder deepseek-v3 hunyuan-dense joyai-llm "
        "hy_v4 "
        "poro-chat bloom gpt3-finnish viking";
    char list[2048];
    memcpy(list, names, sizeof names);
    for (char *name = strtok(list, " "); name; name = strtok(NULL, " ")) {
        mica_tokenizer *t;
        bool adds_bos;
        assert_ok(mica__tokenizer_new(&t));
        assert_ok(mica__gguf_pre_apply(name, (int64_t)strlen(name), t, &adds_bos));
        assert_true(t->pre.n >= 1);
        for (int i = 0; i < t->pre.n; i++)
            assert_false(t->pre.steps[i].matcher.needs_valid); /* a splitter of ours */
        mica_tokenizer_free(t);
    }
}

static void impossible_gguf_keys_are_refused(void **state)
{
    (void)state;
    const struct {
        gguf_parts parts;
        mica_status status;
        const char *message;
    } cases[] = {
        {{.model = "bert", .eos = 2}, MICA_E_UNSUPPORTED, "\"bert\" (WordPiece) are not supported"},
        {{.model = "t5", .eos = 2}, MICA_E_UNSUPPORTED, "\"t5\" (Unigram)"},
        {{.model = "rwkv", .eos = 2}, MICA_E_UNSUPPORTED, "\"rwkv\" are not supported yet"},
        {{.model = "gpt2", .pre = "klingon", .eos = 2}, MICA_E_UNSUPPORTED, "\"klingon\""},
        {{.model = "gpt2", .pre = "llama", .eos = 2}, MICA_E_UNSUPPORTED, "\"llama\""},
        {{.model = "gpt2", .pre = "", .eos = 2}, MICA_E_UNSUPPORTED, "\"\""},
        {{.model = "gpt2", .no_merges = true, .eos = 2}, MICA_E_FORMAT, "tokenizer.ggml.merges"},
        {{.model = "llama", .no_scores = true, .eos = 2}, MICA_E_FORMAT, "tokenizer.ggml.scores"},
        {{.model = "llama", .bad_score = NAN, .eos = 2}, MICA_E_FORMAT, "not a number"},
        {{.model = "llama", .type_of_last = 7, .eos = 2}, MICA_E_FORMAT, "unknown type 7"},
        {{.model = "llama", .type_of_last = 6, .eos = 2}, MICA_E_FORMAT, "byte token 11"},
        {{.model = "llama", .eos = 12}, MICA_E_FORMAT, "outside the vocabulary of 12"},
    };
    char *dir = temp_dir_new();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mica_tokenizer *t;
        const char *path = write_gguf(dir, &cases[i].parts);
        const int64_t before = held();
        assert_status(mica_tokenizer_open(path, &t), cases[i].status);
        if (!strstr(mica_last_error(), cases[i].message))
            fail_msg("\"%s\" lacks \"%s\"", mica_last_error(), cases[i].message);
        assert_int_equal(held(), before);
    }
    temp_dir_remove(dir);
}

/* Higher scores merge first, minus zero is zero. */
static void scores_become_ranks(void **state)
{
    (void)state;
    const float scores[] = {INFINITY, 3.5f, 1e-30f, 0.0f, -1e-30f, -1.0f, -1e9f, -INFINITY};
    uint32_t last = 0, rank;
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        assert_ok(mica__score_rank(scores[i], &rank));
        assert_true(rank > last && rank != MICA__NO_RANK);
        last = rank;
    }
    uint32_t minus_zero;
    assert_ok(mica__score_rank(-0.0f, &minus_zero));
    assert_ok(mica__score_rank(0.0f, &rank));
    assert_int_equal(rank, minus_zero);
    assert_status(mica__score_rank(NAN, &rank), MICA_E_FORMAT);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Opens a path until it succeeds, with one failing allocation later each time. */
static void assert_opens_without_leaks(const char *path, const char *preset)
{
    const int64_t before = held();
    mica_status status = MICA_E_MEMORY;
    int64_t n = 0;
    while (status != MICA_OK) {
        mica_tokenizer *t;
        mica__fault_after(++n, false);
        status = mica_tokenizer_open_preset(path, preset, &t);
        mica__fault_after(0, false);
        if (status == MICA_OK)
            mica_tokenizer_free(t);
        else if (status != MICA_E_MEMORY && status != MICA_E_IO)
            fail_msg("%s after %d: %s", path, (int)n, mica_last_error());
        assert_int_equal(held(), before);
    }
    assert_true(n > 20);
}

static void failing_memory_leaks_nothing_in_any_loader(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    mica__text text = {.kind = MICA_MEMORY_OTHER};
    write_toy_json(
        dir, &(toy_parts){.added_tokens = "[{\"id\":265,\"content\":\"<s>\",\"special\":true},"
                                          "{\"id\":266,\"content\":\"<t>\"}]",
                          .normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"q\"},"
                                        "\"content\":\"z\"}",
                          .pre_tokenizer =
                              "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                              "\"pattern\":{\"String\":\"x\"},\"behavior\":\"Removed\"},{\"type\":"
                              "\"ByteLevel\"},{\"type\":\"Split\",\"pattern\":{\"String\":\"y\"},"
                              "\"behavior\":\"Isolated\"}]}"});
    temp_write_text(dir, "tokenizer_config.json",
                    "{\"bos_token\":\"<s>\",\"eos_token\":\"<s>\",\"chat_template\":[{\"name\":"
                    "\"default\",\"template\":\"d\"},{\"name\":\"x\",\"template\":\"y\"}]}");
    temp_write_text(dir, "chat_template.jinja", "J");
    temp_write_text(dir, "generation_config.json", "{\"eos_token_id\":[1,2,3]}");
    assert_opens_without_leaks(dir, NULL);
    temp_dir_remove(dir);

    dir = temp_dir_new();
    toy_tiktoken(&text);
    temp_write(dir, "toy.tiktoken", text.bytes, (size_t)text.length);
    assert_opens_without_leaks(dir, "whisper");
    temp_dir_remove(dir);

    dir = temp_dir_new();
    mica__text_clear(&text);
    toy_vocab(&text);
    temp_write(dir, "vocab.json", text.bytes, (size_t)text.length);
    mica__text_clear(&text);
    toy_merges(&text);
    temp_write(dir, "merges.txt", text.bytes, (size_t)text.length);
    assert_opens_without_leaks(dir, "qwen2");
    temp_dir_remove(dir);

    dir = temp_dir_new();
    mica__text_clear(&text);
    put_model(&text);
    put_specs(&text, 2, true, true);
    temp_write(dir, "tokenizer.model", text.bytes, (size_t)text.length);
    assert_opens_without_leaks(dir, NULL);
    assert_opens_without_leaks(write_gguf(dir, &(gguf_parts){.model = "llama", .eos = 2}), NULL);
    const gguf_parts bpe = {.model = "gpt2", .pre = "deepseek-llm", .eos = 2};
    assert_opens_without_leaks(write_gguf(dir, &bpe), NULL);
    temp_dir_remove(dir);
    mica__text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_never_make_a_special_token),
        cmocka_unit_test(members_may_come_in_any_order_and_merges_as_lines_or_pairs),
        cmocka_unit_test(steps_that_are_not_implemented_are_refused_by_name),
        cmocka_unit_test(broken_members_are_refused_with_what_is_wrong),
        cmocka_unit_test(character_vocabularies_mark_spaces_and_fall_back_to_bytes),
        cmocka_unit_test(pre_tokenizer_sequences_are_mapped),
        cmocka_unit_test(files_beside_a_tokenizer_name_roles_flags_and_templates),
        cmocka_unit_test(ids_of_the_model_configuration_come_last),
        cmocka_unit_test(a_path_without_a_tokenizer_says_what_was_looked_for),
        cmocka_unit_test(ranks_and_merges_need_a_preset_or_a_class),
        cmocka_unit_test(broken_tiktoken_lines_are_refused_with_their_number),
        cmocka_unit_test(presets_bring_their_special_tokens_to_their_own_size),
        cmocka_unit_test(sentencepiece_models_are_read),
        cmocka_unit_test(other_models_and_broken_pieces_are_refused),
        cmocka_unit_test(damaged_models_never_do_harm),
        cmocka_unit_test(gguf_keys_make_a_tokenizer),
        cmocka_unit_test(every_known_pre_tokenizer_of_gguf_opens),
        cmocka_unit_test(impossible_gguf_keys_are_refused),
        cmocka_unit_test(scores_become_ranks),
        cmocka_unit_test(failing_memory_leaks_nothing_in_any_loader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
