/* generate_prompts.c - prompts from options, files, standard input and JSON lines, as token ids.
 *
 * A prompt for a model with a chat template is one user message; otherwise it is a text to go on
 * with.
 * SPDX-License-Identifier: MIT
 */
#include "cli/generate_prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"

#define PROMPT(field) offsetof(prompt_settings, field)

const option_spec prompt_options[] = {
    {"prompt", 'p', OPTION_TEXT, PROMPT(prompt), "TEXT", NULL, 0, 0,
     "The prompt; - reads it from standard input."},
    {"prompt-file", 'f', OPTION_FILE, PROMPT(prompt_file), "FILE", NULL, 0, 0,
     "Reads the prompt from a file."},
    {"tokens", 0, OPTION_FILE, PROMPT(tokens), "FILE", NULL, 0, 0,
     "A JSON file with token ids: a list for one prompt, a list of lists for a batch."},
    {"prompts", 0, OPTION_FILE, PROMPT(prompts), "FILE", NULL, 0, 0,
     "A file of JSON lines, run as one batch: each line a string, or an object with \"prompt\" or "
     "\"messages\"."},
    {"prefill-response", 0, OPTION_TEXT, PROMPT(prefill_response), "TEXT", NULL, 0, 0,
     "The beginning of the answer, which the model goes on with. It is not part of what is "
     "printed."},
    {"prompt-cache-file", 0, OPTION_FILE, PROMPT(prompt_cache_file), "FILE", NULL, 0, 0,
     "Keeps the keys and values of the prompt in FILE. What FILE holds of the prompt's beginning "
     "is loaded instead of computed; after the run FILE is written when the prompt has whole "
     "blocks of 16 tokens that it did not hold. The answer is the same to the bit. A file made "
     "with "
     "another model, --kv or --activations is refused and left as it is. For one prompt; with "
     "--max-tokens 0 the prompt is computed and kept, and nothing else done."},
    {"prompt-cache-ro", 0, OPTION_FLAG, PROMPT(prompt_cache_ro), NULL, NULL, 0, 0,
     "Reads --prompt-cache-file and never writes it: for many questions about one long text."},
    {"logprobs", 0, OPTION_INTEGER, PROMPT(logprobs), "N", "-1", -1, MICA_MAX_TOP_LOGPROBS,
     "With --json: the log probability of each token, and of the N likeliest ones (0 to 20)."},
    {0}};

int prompts_check(const prompt_settings *settings, const template_settings *templates, bool json)
{
    const int n =
        !!settings->prompt + !!settings->prompt_file + !!settings->tokens + !!settings->prompts;
    if (n == 0)
        return fail_usage("no prompt: give --prompt TEXT (--prompt - reads standard input), "
                          "--prompt-file, --tokens or --prompts");
    if (n > 1)
        return fail_usage("give one of --prompt, --prompt-file, --tokens and --prompts");
    if (settings->logprobs >= 0 && !json)
        return fail_usage("--logprobs are printed with --json only");
    const char *unused = settings->prefill_response        ? "--prefill-response"
                         : templates->system_prompt        ? "--system-prompt"
                         : templates->chat_template        ? "--chat-template"
                         : templates->chat_template_config ? "--chat-template-config"
                                                           : NULL;
    if (settings->tokens && unused)
        return fail_usage("%s has no effect with --tokens", unused);
    return 0;
}

/* --- adding ----------------------------------------------------------------------------------- */

typedef struct prompt_reader {
    const prompt_settings *settings;
    const template_settings *templates;
    const mica_tokenizer *tokenizer;
    chat_prompt chat;
    prompt_batch *batch;
} prompt_reader;

static int add_state(prompt_batch *batch, thinking_state state)
{
    if (batch->ids.n > batch->state_capacity) {
        const int64_t capacity = 2 * batch->ids.n + 14;
        thinking_state *grown = realloc(batch->states, (size_t)capacity * sizeof *grown);
        if (!grown)
            return fail_memory();
        batch->states = grown;
        batch->state_capacity = capacity;
    }
    batch->states[batch->ids.n - 1] = state;
    return 0;
}

static int add_ids(prompt_reader *reader, const mica_token_list *ids, thinking_state state)
{
    const int exit_status = id_lists_add(&reader->batch->ids, ids->ids, ids->n);
    return exit_status ? exit_status : add_state(reader->batch, state);
}

/* A text to go on with: a begin token where the model wants one, and never an end token. */
static int add_plain(prompt_reader *reader, const char *text, size_t n)
{
    mica_token_list ids = {0};
    const mica_status status =
        mica_tokenizer_encode(reader->tokenizer, text, (int64_t)n,
                              MICA_ENCODE_ADD_SPECIAL | MICA_ENCODE_PARSE_SPECIAL, &ids);
    int exit_status = status == MICA_OK ? 0 : fail_from(status, "the prompt");
    if (!exit_status && ids.n > 0 && mica_tokenizer_adds_eos(reader->tokenizer))
        ids.n--;
    if (!exit_status)
        exit_status = ids.n ? add_ids(reader, &ids, THINKING_NONE)
                            : fail_with(MICA_E_ARGUMENT, "the prompt", "it is empty");
    mica_token_list_free(&ids);
    return exit_status;
}

static int add_messages(prompt_reader *reader, const char *messages)
{
    chat_text text = {0};
    mica_token_list ids = {0};
    int exit_status = chat_prompt_render(&reader->chat, messages, NULL, true,
                                         reader->settings->prefill_response, &text);
    if (!exit_status)
        exit_status = chat_prompt_encode(&reader->chat, &text, &ids);
    if (!exit_status)
        exit_status = add_ids(reader, &ids, chat_prompt_thinking(&reader->chat, &text));
    mica_token_list_free(&ids);
    chat_text_free(&text);
    return exit_status;
}

static int add_prompt(prompt_reader *reader, const char *prompt, size_t n)
{
    const char *system = reader->templates->system_prompt;
    json_out json = {0};
    if (!reader->chat.compiled)
        return add_plain(reader, prompt, n);
    json_open(&json, NULL, '[');
    if (system)
        chat_add_message(&json, "system", system, strlen(system));
    chat_add_message(&json, "user", prompt, n);
    json_close(&json, ']');
    const int exit_status =
        json.text.failed ? fail_memory() : add_messages(reader, json.text.bytes);
    json_free(&json);
    return exit_status;
}

/* --- JSON lines ------------------------------------------------------------------------------- */

/* A line's own messages, with the system prompt of the options before them. */
static int add_given_messages(prompt_reader *reader, const mica_json *messages, const char *where)
{
    const char *system = reader->templates->system_prompt;
    json_out json = {0};
    if (mica_json_type_of(messages) != MICA_JSON_ARRAY)
        return fail_with(MICA_E_FORMAT, where, "\"messages\" is no list");
    if (!reader->chat.compiled)
        return fail_with(MICA_E_ARGUMENT, where, "messages need a model with a chat template");
    json_open(&json, NULL, '[');
    if (system)
        chat_add_message(&json, "system", system, strlen(system));
    for (const mica_json *at = mica_json_first(messages); at; at = mica_json_next(at))
        json_copy(&json, at);
    json_close(&json, ']');
    const int exit_status =
        json.text.failed ? fail_memory() : add_messages(reader, json.text.bytes);
    json_free(&json);
    return exit_status;
}

static int add_line_object(prompt_reader *reader, const mica_json *object, const char *where)
{
    const mica_json *prompt = mica_json_get(object, "prompt");
    const mica_json *messages = mica_json_get(object, "messages");
    int64_t n;
    if (!prompt == !messages || mica_json_count(object) != 1)
        return fail_with(MICA_E_FORMAT, where,
                         "an object with \"prompt\" or \"messages\" and nothing else is needed");
    if (messages)
        return add_given_messages(reader, messages, where);
    const char *text = mica_json_string(prompt, &n);
    if (!text)
        return fail_with(MICA_E_FORMAT, where, "\"prompt\" is no string");
    return add_prompt(reader, text, (size_t)n);
}

static int add_line(prompt_reader *reader, const char *line, size_t n, const char *where)
{
    mica_json_doc *doc;
    int64_t length;
    const mica_status status = mica_json_parse(line, n, &doc);
    if (status != MICA_OK)
        return fail_from(status, where);
    const mica_json *root = mica_json_root(doc);
    const char *text = mica_json_string(root, &length);
    const int exit_status = text ? add_prompt(reader, text, (size_t)length)
                            : mica_json_type_of(root) == MICA_JSON_OBJECT
                                ? add_line_object(reader, root, where)
                                : fail_with(MICA_E_FORMAT, where, "neither a string nor an object");
    mica_json_free(doc);
    return exit_status;
}

static int add_lines(prompt_reader *reader, const char *path)
{
    byte_buffer text = {0};
    char where[1024];
    int exit_status = read_all(path, &text);
    const char *at = buffer_text(&text), *end = at + text.length;
    for (int64_t number = 1; at < end && !exit_status; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((newline ? newline : end) - at);
        snprintf(where, sizeof where, "%s:%lld", path, (long long)number);
        if (strspn(at, " \t\r") < n)
            exit_status = add_line(reader, at, n, where);
        at += n + 1;
    }
    if (!exit_status && reader->batch->ids.n == 0)
        exit_status = fail_with(MICA_E_ARGUMENT, path, "it has no prompts");
    buffer_free(&text);
    return exit_status;
}

/* --- public ----------------------------------------------------------------------------------- */

static int add_file(prompt_reader *reader, const char *path)
{
    byte_buffer text = {0};
    int exit_status = read_all(path, &text);
    if (!exit_status)
        exit_status = add_prompt(reader, buffer_text(&text), text.length);
    buffer_free(&text);
    return exit_status;
}

static int read_ids(const char *path, prompt_batch *batch)
{
    const int exit_status = id_lists_read(&batch->ids, path);
    if (exit_status)
        return exit_status;
    batch->states = calloc((size_t)batch->ids.n, sizeof *batch->states);
    return batch->states ? 0 : fail_memory();
}

/* A file keeps one prompt. */
static int check_cache_file(const prompt_settings *settings, const prompt_batch *batch)
{
    if (settings->prompt_cache_file && batch->ids.n != 1)
        return fail_usage("--prompt-cache-file keeps one prompt, and %s has %lld",
                          settings->prompts ? settings->prompts : settings->tokens,
                          (long long)batch->ids.n);
    return 0;
}

static int read_texts(const prompt_settings *settings, const template_settings *templates,
                      const cli_session *session, prompt_batch *batch)
{
    prompt_reader reader = {.settings = settings,
                            .templates = templates,
                            .tokenizer = session->tokenizer,
                            .batch = batch};
    int exit_status = chat_prompt_open(&reader.chat, session->tokenizer, templates);
    batch->chat = reader.chat.compiled != NULL;
    if (!exit_status && settings->prefill_response && !batch->chat)
        exit_status = fail_with(MICA_E_ARGUMENT, "--prefill-response",
                                "there is no chat template: put the text behind the prompt");
    if (exit_status) {
        chat_prompt_free(&reader.chat);
        return exit_status;
    }
    if (settings->prompts)
        exit_status = add_lines(&reader, settings->prompts);
    else if (settings->prompt_file)
        exit_status = add_file(&reader, settings->prompt_file);
    else if (strcmp(settings->prompt, "-") == 0)
        exit_status = add_file(&reader, "-");
    else
        exit_status = add_prompt(&reader, settings->prompt, strlen(settings->prompt));
    chat_prompt_free(&reader.chat);
    return exit_status;
}

int prompts_read(const prompt_settings *settings, const template_settings *templates,
                 const cli_session *session, prompt_batch *batch)
{
    const int exit_status = settings->tokens ? read_ids(settings->tokens, batch)
                                             : read_texts(settings, templates, session, batch);
    return exit_status ? exit_status : check_cache_file(settings, batch);
}

void prompts_free(prompt_batch *batch)
{
    id_lists_free(&batch->ids);
    free(batch->states);
    *batch = (prompt_batch){0};
}
