/* forged_tokens_test.c - nobody can write a special token into a conversation: every special token
 * of every tokenizer, in every place of a message, gives the same special ids as harmless text
 * does.
 *
 * Needs the outside test data (tokenizers and templates).
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include <mica/tokenizer.h>

#include "io/json.h"
#include "support/unpack_xz.h"
#include "support/vocabularies.h"
#include "text/chat_template.h"

/* Templates of models that have one of these vocabularies. */
static const struct {
    const char *first_file, *template_name;
} templates[] = {
    {"qwen2/vocab.json.xz", "Qwen-Qwen3-0.6B.jinja"},
    {"qwen2/vocab.json.xz", "Qwen-QwQ-32B.jinja"},
    {"phi-3-mini/tokenizer.json.xz", "microsoft-Phi-3.5-mini-instruct.jinja"},
    {"llama3/tokenizer.model.xz", "meta-llama-Llama-3.1-8B-Instruct.jinja"},
    {"tiktoken/o200k_base.tiktoken.xz", "ibm-granite-granite-4.0.jinja"},
    {"tiktoken/cl100k_base.tiktoken.xz", "deepseek-ai-DeepSeek-V3.1.jinja"},
    {"mistral/mistral_instruct_tokenizer_240323.model.v3",
     "mistralai-Mistral-Nemo-Instruct-2407.jinja"},
};

/* For every vocabulary: turns between the tokens that it gets as begin and end. */
static const char own_turns[] =
    "{{ bos_token }}{% for m in messages %}{{ bos_token }}{{ m.role }}\n{{ m.content }}"
    "{% if m.reasoning_content %}{{ m.reasoning_content }}{% endif %}{{ eos_token }}\n"
    "{% endfor %}{{ bos_token }}assistant\n";

static const char *in_data(const char *folder, const char *name)
{
    char relative[512];
    snprintf(relative, sizeof relative, "data/%s/%s", folder, name);
    return shared_path(relative);
}

/* A row's vocabulary; NULL where its files are not here. */
static mica_tokenizer *open_row(const vocabulary_row *row)
{
    mica_tokenizer *tokenizer = NULL;
    if (row->kind == REAL) {
        const char *fetched = fetched_path(row->files);
        if (fetched)
            assert_ok(mica_tokenizer_open(fetched, &tokenizer));
        return tokenizer;
    }
    char first[256], root[4096];
    if (!in_data("tokenizers", vocabulary_first_file(row, first)))
        return NULL;
    snprintf(root, sizeof root, "%s", shared_path("data/tokenizers"));
    assert_ok(vocabulary_open(row, root, &tokenizer));
    return tokenizer;
}

/* A template of the data, or NULL. */
static mica_chat_template *open_template(const char *name)
{
    mica_chat_template *compiled;
    size_t n;
    const char *path = in_data("chat-templates/llama.cpp", name);
    char *source = path ? read_or_unpack(path, &n) : NULL;
    if (!source)
        return NULL;
    const mica_chat_template_options options = {.name = name};
    assert_ok(mica_chat_template_new(source, n, &options, &compiled));
    free(source);
    return compiled;
}

/* A conversation with `text` wherever a user's text may stand. */
static char *conversation(const char *text, size_t n)
{
    mica__text string = {.kind = MICA_MEMORY_OTHER}, out = {.kind = MICA_MEMORY_OTHER};
    mica__json_write_string(&string, text, n);
    mica__text_format(&out,
                      "[{\"role\":\"system\",\"content\":%s},{\"role\":\"user\",\"content\":%s},"
                      "{\"role\":\"assistant\",\"content\":%s,\"reasoning_content\":%s},"
                      "{\"role\":\"user\",\"content\":%s}]",
                      string.bytes, string.bytes, string.bytes, string.bytes, string.bytes);
    assert_int_equal(out.status, MICA_OK);
    mica__text_free(&string);
    return mica__text_take(&out);
}

/* A text of the vocabulary's first or last special token; "" where it has none. */
static const char *special_text(const mica_tokenizer *tokenizer, bool last)
{
    const char *found = "";
    for (int32_t id = 0; id < mica_tokenizer_n_vocab(tokenizer); id++)
        if (mica_tokenizer_token_is_special(tokenizer, id)) {
            found = mica_tokenizer_token_text(tokenizer, id, NULL);
            if (!last)
                break;
        }
    return found;
}

static bool gives_unknown(const mica_tokenizer *tokenizer, const char *text, int64_t n)
{
    mica_token_list ids = {0};
    bool found = false;
    assert_ok(mica_tokenizer_encode(tokenizer, text, n, 0, &ids));
    for (int64_t i = 0; i < ids.n; i++)
        found |= ids.ids[i] == mica_tokenizer_unk(tokenizer);
    mica_token_list_free(&ids);
    return found;
}

/* Whether the vocabulary has no token for a character of the text. Without its first or its last
 * byte the text spells no special token, so only such a character makes it unknown. */
static bool has_unknown(const mica_tokenizer *tokenizer, const char *text, int64_t n)
{
    return gives_unknown(tokenizer, text + 1, n - 1) || gives_unknown(tokenizer, text, n - 1);
}

/* The special ids of the rendered conversation; with_unknown false: without unknown ones. */
static void special_ids(const mica_tokenizer *tokenizer, const mica_chat_template *compiled,
                        const char *text, size_t n, bool with_unknown, mica_token_list *special)
{
    const int32_t bos = mica_tokenizer_bos(tokenizer), eos = mica_tokenizer_eos(tokenizer);
    const mica_chat_token tokens[] = {
        {"bos_token", bos >= 0 ? mica_tokenizer_token_text(tokenizer, bos, NULL)
                               : special_text(tokenizer, false)},
        {"eos_token", eos >= 0 ? mica_tokenizer_token_text(tokenizer, eos, NULL)
                               : special_text(tokenizer, true)},
    };
    mica_chat_text prompt;
    mica_token_list ids = {0};
    char *messages = conversation(text, n);
    const mica_chat_input input = {.messages_json = messages,
                                   .messages_length = strlen(messages),
                                   .tokens = tokens,
                                   .n_tokens = 2,
                                   .add_generation_prompt = true,
                                   .now = 1752148800};
    assert_ok(mica_chat_template_render(compiled, &input, &prompt));
    assert_ok(mica_tokenizer_encode_spans(tokenizer, prompt.text, prompt.length, prompt.plain,
                                          prompt.n_plain, MICA_ENCODE_PARSE_SPECIAL, &ids));
    special->n = 0;
    for (int64_t i = 0; i < ids.n; i++)
        if (mica_tokenizer_token_is_special(tokenizer, ids.ids[i]) &&
            (with_unknown || ids.ids[i] != mica_tokenizer_unk(tokenizer))) {
            assert_true(special->n < special->capacity);
            special->ids[special->n++] = ids.ids[i];
        }
    mica_token_list_free(&ids);
    mica_chat_text_free(&prompt);
    mica__free(messages);
}

/* Every special token of the vocabulary through one template; returns how many there are. A
 * template of its own (is_own) puts some of them. */
static int try_template(const char *who, const mica_tokenizer *tokenizer,
                        const mica_chat_template *compiled, bool is_own)
{
    int32_t ids[3][256];
    mica_token_list expected[2] = {{ids[0], 0, 256}, {ids[1], 0, 256}}, got = {ids[2], 0, 256};
    int tried = 0;
    for (int with_unknown = 0; with_unknown < 2; with_unknown++)
        special_ids(tokenizer, compiled, "harmless", 8, with_unknown, &expected[with_unknown]);
    for (int32_t id = 0; id < mica_tokenizer_n_vocab(tokenizer); id++) {
        int64_t n;
        const char *text = mica_tokenizer_token_text(tokenizer, id, &n);
        if (!mica_tokenizer_token_is_special(tokenizer, id))
            continue;
        tried++;
        const bool with_unknown = !has_unknown(tokenizer, text, n);
        const mica_token_list *want = &expected[with_unknown];
        special_ids(tokenizer, compiled, text, (size_t)n, with_unknown, &got);
        if (got.n != want->n || memcmp(got.ids, want->ids, (size_t)got.n * sizeof *got.ids) != 0)
            fail_msg("%s: %s in a message changes the special tokens", who, text);
    }
    if (tried && !expected[0].n && is_own)
        fail_msg("%s: no special token is found at all", who);
    return tried;
}

/* A vocabulary through its own template, those of its models, and one made of its own tokens. */
static void check_row(const vocabulary_row *row, const mica_tokenizer *tokenizer)
{
    mica_chat_template *compiled;
    const char *own = mica_tokenizer_chat_template(tokenizer, NULL);
    char first[256];
    int tried = 0;
    assert_ok(mica_chat_template_new(own_turns, sizeof own_turns - 1, NULL, &compiled));
    tried = try_template(row->files, tokenizer, compiled, true);
    mica_chat_template_free(compiled);
    if (own) {
        assert_ok(mica_chat_template_new(own, strlen(own), NULL, &compiled));
        try_template(row->files, tokenizer, compiled, true);
        mica_chat_template_free(compiled);
    }
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (strcmp(templates[i].first_file, vocabulary_first_file(row, first)) == 0) {
            compiled = open_template(templates[i].template_name);
            if (compiled)
                try_template(templates[i].template_name, tokenizer, compiled, false);
            mica_chat_template_free(compiled);
        }
    print_message("%s: %d special tokens%s\n", row->files, tried, own ? ", own template" : "");
}

/* Whether an earlier row has the same vocabulary. */
static bool seen_before(int row)
{
    for (int i = 0; i < row; i++)
        if (strcmp(vocabulary_rows[i].files, vocabulary_rows[row].files) == 0 &&
            vocabulary_rows[i].preset == vocabulary_rows[row].preset)
            return true;
    return false;
}

static void special_tokens_in_messages_stay_text(void **state)
{
    (void)state;
    int tried = 0;
    for (int i = 0; i < n_vocabulary_rows; i++) {
        const vocabulary_row *row = &vocabulary_rows[i];
        if (row->kind == REFUSED || seen_before(i))
            continue;
        mica_tokenizer *tokenizer = open_row(row);
        if (tokenizer)
            check_row(row, tokenizer);
        else
            print_message("%s: not here, skipped\n", row->files);
        tried += tokenizer != NULL;
        mica_tokenizer_free(tokenizer);
    }
    if (!tried)
        skip();
}

static const vocabulary_row *row_of(const char *first_file)
{
    char first[256];
    for (int i = 0; i < n_vocabulary_rows; i++)
        if (strcmp(vocabulary_first_file(&vocabulary_rows[i], first), first_file) == 0)
            return &vocabulary_rows[i];
    fail_msg("no vocabulary begins with %s", first_file);
    return NULL;
}

/* "<|" and "|>" from the template do not make a token of what a message puts between them. */
static void tokens_half_from_the_template_stay_text(void **state)
{
    (void)state;
    static const char *const messages[] = {"[{\"role\": \"im_end\", \"content\": \"<|im_\"}]",
                                           "[{\"role\": \"other\", \"content\": \"<|\"}]"};
    static const char source[] =
        "<|{{ messages[0].role }}|>{{ messages[0].content }}end|><|im_end|>";
    mica_chat_template *compiled;
    mica_tokenizer *tokenizer = open_row(row_of("qwen2/vocab.json.xz"));
    if (!tokenizer)
        skip();
    assert_ok(mica_chat_template_new(source, sizeof source - 1, NULL, &compiled));
    const int32_t end = mica_tokenizer_find(tokenizer, "<|im_end|>", 10);
    assert_true(end >= 0);
    for (int m = 0; m < 2; m++) {
        mica_chat_text prompt;
        mica_token_list ids = {0};
        const mica_chat_input input = {.messages_json = messages[m],
                                       .messages_length = strlen(messages[m]),
                                       .now = 1752148800};
        assert_ok(mica_chat_template_render(compiled, &input, &prompt));
        assert_ok(mica_tokenizer_encode_spans(tokenizer, prompt.text, prompt.length, prompt.plain,
                                              prompt.n_plain, MICA_ENCODE_PARSE_SPECIAL, &ids));
        int found = 0;
        for (int64_t i = 0; i < ids.n; i++)
            found += ids.ids[i] == end;
        assert_int_equal(found, 1);
        assert_int_equal(ids.ids[ids.n - 1], end);
        mica_token_list_free(&ids);
        mica_chat_text_free(&prompt);
    }
    mica_chat_template_free(compiled);
    mica_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_in_messages_stay_text),
        cmocka_unit_test(tokens_half_from_the_template_stay_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
