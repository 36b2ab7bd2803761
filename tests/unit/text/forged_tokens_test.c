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
#include "support/temp_dir.h"
#include "support/unpack_xz.h"
#include "text/chat_template.h"

typedef struct pair {
    const char *files; /* of the tokenizer, separated by blanks */
    const char *preset;
    const char *template_name;
    int at_least; /* special tokens */
} pair;

static const pair pairs[] = {
    {"qwen2/vocab.json.xz qwen2/merges.txt.xz qwen2/tokenizer_config.json", NULL,
     "Qwen-Qwen3-0.6B.jinja", 3},
    {"qwen2/vocab.json.xz qwen2/merges.txt.xz qwen2/tokenizer_config.json", NULL,
     "Qwen-QwQ-32B.jinja", 3},
    {"phi-3-mini/tokenizer.json.xz phi-3-mini/tokenizer_config.json", NULL,
     "microsoft-Phi-3.5-mini-instruct.jinja", 5},
    {"llama3/tokenizer.model.xz", "llama3", "meta-llama-Llama-3.1-8B-Instruct.jinja", 200},
    {"tiktoken/o200k_base.tiktoken.xz", NULL, "ibm-granite-granite-4.0.jinja", 1},
    {"tiktoken/cl100k_base.tiktoken.xz", NULL, "deepseek-ai-DeepSeek-V3.1.jinja", 1},
};

static const char *in_data(const char *folder, const char *name)
{
    char relative[512];
    snprintf(relative, sizeof relative, "data/%s/%s", folder, name);
    return shared_path(relative);
}

/* Copies the tokenizer's files, unpacked, into a folder; NULL where they are absent. */
static mica_tokenizer *open_tokenizer(const pair *p)
{
    char files[512], path[4096] = "";
    char *folder = temp_dir_new();
    const bool several = strchr(p->files, ' ') != NULL;
    mica_tokenizer *tokenizer = NULL;
    bool there = true;
    snprintf(files, sizeof files, "%s", p->files);
    for (char *file = strtok(files, " "); file && there; file = strtok(NULL, " ")) {
        size_t n;
        const char *from = in_data("tokenizers", file);
        char *bytes = from ? read_or_unpack(from, &n) : NULL;
        char name[256];
        there = bytes != NULL;
        if (!there)
            break;
        snprintf(name, sizeof name, "%s", strrchr(file, '/') + 1);
        if (strstr(name, ".xz"))
            *strstr(name, ".xz") = '\0';
        snprintf(path, sizeof path, "%s", temp_write(folder, name, bytes, n));
        free(bytes);
    }
    if (there)
        assert_ok(mica_tokenizer_open_preset(several ? folder : path, p->preset, &tokenizer));
    temp_dir_remove(folder);
    return tokenizer;
}

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

/* The special ids of the rendered conversation. */
static void special_ids(const mica_tokenizer *tokenizer, const mica_chat_template *compiled,
                        const char *text, size_t n, mica_token_list *special)
{
    static const mica_chat_token tokens[] = {{"bos_token", ""}, {"eos_token", ""}};
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
        if (mica_tokenizer_token_is_special(tokenizer, ids.ids[i])) {
            assert_true(special->n < special->capacity);
            special->ids[special->n++] = ids.ids[i];
        }
    mica_token_list_free(&ids);
    mica_chat_text_free(&prompt);
    mica__free(messages);
}

static int check_pair(const pair *p)
{
    int32_t expected_ids[256], got_ids[256];
    mica_token_list expected = {.ids = expected_ids, .capacity = 256};
    mica_token_list got = {.ids = got_ids, .capacity = 256};
    mica_tokenizer *tokenizer = open_tokenizer(p);
    mica_chat_template *compiled = open_template(p->template_name);
    int tried = 0;
    if (tokenizer && compiled) {
        special_ids(tokenizer, compiled, "harmless", 8, &expected);
        for (int32_t id = 0; id < mica_tokenizer_n_vocab(tokenizer); id++) {
            int64_t n;
            const char *text = mica_tokenizer_token_text(tokenizer, id, &n);
            if (!mica_tokenizer_token_is_special(tokenizer, id))
                continue;
            tried++;
            special_ids(tokenizer, compiled, text, (size_t)n, &got);
            if (got.n != expected.n ||
                memcmp(got.ids, expected.ids, (size_t)got.n * sizeof *got.ids) != 0)
                fail_msg("%s: %s in a message changes the special tokens", p->template_name, text);
        }
        if (tried < p->at_least)
            fail_msg("%s has %d special tokens only", p->files, tried);
    }
    mica_chat_template_free(compiled);
    mica_tokenizer_free(tokenizer);
    return tried;
}

static void special_tokens_in_messages_stay_text(void **state)
{
    (void)state;
    int tried = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        tried += check_pair(&pairs[i]);
    if (!tried)
        skip();
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
    mica_tokenizer *tokenizer = open_tokenizer(&pairs[0]);
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
