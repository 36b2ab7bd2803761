/* chat_prompt.c - conversations to token ids through the model's chat template.
 *
 * Text of messages is marked as plain all the way to the tokenizer, so that nothing that somebody
 * typed becomes a special token.
 * SPDX-License-Identifier: MIT
 */
#include "cli/chat_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/prompts.h"

#define OPEN_MARK  "<think>"
#define CLOSE_MARK "</think>"

/* --- opening ---------------------------------------------------------------------------------- */

static void add_special(chat_prompt *prompt, const char *name, int32_t id)
{
    if (id >= 0)
        prompt->tokens[prompt->n_tokens++] = (mica_chat_token){
            .name = name, .text = mica_tokenizer_token_text(prompt->tokenizer, id, NULL)};
}

static int compile(chat_prompt *prompt, const char *source, size_t n, const char *name,
                   mica_chat_template **compiled)
{
    const mica_chat_template_options options = {.name = name};
    const mica_status status = mica_chat_template_new(source, n, &options, compiled);
    if (status != MICA_OK)
        return fail_from(status, name);
    prompt->thinks |= memmem(source, n, OPEN_MARK, strlen(OPEN_MARK)) != NULL;
    return 0;
}

static int compile_file(chat_prompt *prompt, const char *path)
{
    byte_buffer source = {0};
    int exit_status = read_all(path, &source);
    if (!exit_status)
        exit_status = compile(prompt, buffer_text(&source), source.length, path, &prompt->compiled);
    buffer_free(&source);
    return exit_status;
}

static int compile_own(chat_prompt *prompt)
{
    const char *source = mica_tokenizer_chat_template(prompt->tokenizer, NULL);
    const char *with_tools = mica_tokenizer_chat_template(prompt->tokenizer, "tool_use");
    int exit_status = 0;
    if (source)
        exit_status =
            compile(prompt, source, strlen(source), "the chat template", &prompt->compiled);
    if (source && with_tools && with_tools != source && !exit_status)
        exit_status = compile(prompt, with_tools, strlen(with_tools), "the chat template tool_use",
                              &prompt->compiled_tools);
    return exit_status;
}

static int check_config(chat_prompt *prompt, const char *config)
{
    mica_json_doc *doc;
    const mica_status status = mica_json_parse(config, strlen(config), &doc);
    if (status != MICA_OK)
        return fail_from(status, "--chat-template-config");
    const bool object = mica_json_type_of(mica_json_root(doc)) == MICA_JSON_OBJECT;
    mica_json_free(doc);
    if (!object)
        return fail_with(MICA_E_ARGUMENT, "--chat-template-config",
                         "a JSON object is needed, say '{\"enable_thinking\": false}'");
    buffer_add_text(&prompt->config, config);
    return prompt->config.failed ? fail_memory() : 0;
}

/* Options that would have no effect are refused. */
static int check_unused(const template_settings *settings)
{
    const char *unused = settings->system_prompt          ? "--system-prompt"
                         : settings->chat_template_config ? "--chat-template-config"
                                                          : NULL;
    if (!unused)
        return 0;
    if (settings->ignore_chat_template)
        return fail_usage("%s has no effect with --ignore-chat-template", unused);
    return fail_with(MICA_E_ARGUMENT, unused, "the model has no chat template");
}

int chat_prompt_open(chat_prompt *prompt, const mica_tokenizer *tokenizer,
                     const template_settings *settings)
{
    prompt->tokenizer = tokenizer;
    if (settings->ignore_chat_template && settings->chat_template)
        return fail_usage("--chat-template has no effect with --ignore-chat-template");
    int exit_status = 0;
    if (tokenizer && settings->chat_template)
        exit_status = compile_file(prompt, settings->chat_template);
    else if (tokenizer && !settings->ignore_chat_template)
        exit_status = compile_own(prompt);
    if (exit_status || !prompt->compiled)
        return exit_status ? exit_status : check_unused(settings);
    add_special(prompt, "bos_token", mica_tokenizer_bos(tokenizer));
    add_special(prompt, "eos_token", mica_tokenizer_eos(tokenizer));
    add_special(prompt, "unk_token", mica_tokenizer_unk(tokenizer));
    add_special(prompt, "pad_token", mica_tokenizer_pad(tokenizer));
    return settings->chat_template_config ? check_config(prompt, settings->chat_template_config)
                                          : 0;
}

void chat_prompt_free(chat_prompt *prompt)
{
    mica_chat_template_free(prompt->compiled);
    mica_chat_template_free(prompt->compiled_tools);
    buffer_free(&prompt->config);
    *prompt = (chat_prompt){0};
}

/* --- rendering -------------------------------------------------------------------------------- */

/* Copies the text and its plain spans, with the prefill as one more. */
static int take_text(const mica_chat_text *made, const char *prefill, chat_text *text)
{
    text->plain = calloc((size_t)made->n_plain + 1, sizeof *text->plain);
    if (!text->plain)
        return fail_memory();
    buffer_add(&text->text, made->text, made->length);
    for (int64_t i = 0; i < made->n_plain; i++)
        text->plain[text->n_plain++] = made->plain[i];
    if (prefill && *prefill) {
        const int64_t from = (int64_t)text->text.length;
        buffer_add_text(&text->text, prefill);
        text->plain[text->n_plain++] =
            (mica_text_span){.from = from, .to = (int64_t)text->text.length};
    }
    return text->text.failed ? fail_memory() : 0;
}

int chat_prompt_render(const chat_prompt *prompt, const char *messages, const char *tools,
                       bool open_answer, const char *prefill, chat_text *text)
{
    const mica_chat_template *used =
        tools && prompt->compiled_tools ? prompt->compiled_tools : prompt->compiled;
    const mica_chat_input input = {.messages_json = messages,
                                   .messages_length = strlen(messages),
                                   .tools_json = tools,
                                   .tools_length = tools ? strlen(tools) : 0,
                                   .extra_json =
                                       prompt->config.length ? prompt->config.bytes : NULL,
                                   .extra_length = prompt->config.length,
                                   .tokens = prompt->tokens,
                                   .n_tokens = prompt->n_tokens,
                                   .add_generation_prompt = open_answer};
    mica_chat_text made;
    const mica_status status = mica_chat_template_render(used, &input, &made);
    if (status != MICA_OK)
        return fail_from(status, "the chat template");
    const int exit_status = take_text(&made, prefill, text);
    mica_chat_text_free(&made);
    return exit_status;
}

void chat_text_free(chat_text *text)
{
    buffer_free(&text->text);
    free(text->plain);
    *text = (chat_text){0};
}

int chat_prompt_encode(const chat_prompt *prompt, const chat_text *text, mica_token_list *ids)
{
    const mica_status status = mica_tokenizer_encode_spans(
        prompt->tokenizer, buffer_text(&text->text), (int64_t)text->text.length, text->plain,
        text->n_plain, MICA_ENCODE_ADD_SPECIAL | MICA_ENCODE_PARSE_SPECIAL, ids);
    if (status != MICA_OK)
        return fail_from(status, "the conversation");
    if (ids->n > 0 && mica_tokenizer_adds_eos(prompt->tokenizer))
        ids->n--;
    return ids->n ? 0 : fail_with(MICA_E_ARGUMENT, "the conversation", "it has no tokens");
}

/* --- thinking --------------------------------------------------------------------------------- */

/* Where the last mark outside of messages ends; -1: nowhere. */
static int64_t last_mark(const chat_text *text, const char *mark)
{
    const int64_t n = (int64_t)strlen(mark);
    int64_t plain = text->n_plain - 1;
    for (int64_t at = (int64_t)text->text.length - n; at >= 0; at--) {
        while (plain >= 0 && text->plain[plain].from >= at + n)
            plain--;
        const bool own = plain < 0 || text->plain[plain].to <= at;
        if (own && memcmp(text->text.bytes + at, mark, (size_t)n) == 0)
            return at + n;
    }
    return -1;
}

thinking_state chat_prompt_thinking(const chat_prompt *prompt, const chat_text *text)
{
    if (!prompt->thinks)
        return THINKING_NONE;
    const int64_t opened = last_mark(text, OPEN_MARK), closed = last_mark(text, CLOSE_MARK);
    if (opened > closed)
        return THINKING_INSIDE;
    if (closed < 0)
        return THINKING_MAYBE;
    const char *rest = text->text.bytes + closed; /* closed by the template itself: no thinking */
    return rest[strspn(rest, " \n")] ? THINKING_MAYBE : THINKING_NONE;
}

void chat_add_message(json_out *json, const char *role, const char *content, size_t n)
{
    json_open(json, NULL, '{');
    json_text(json, "role", role);
    json_bytes(json, "content", content, n);
    json_close(json, '}');
}
