/* tokenize.c - mica tokenize: text to token ids and back, and what a chat template makes of
 * messages.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/prompts.h"
#include "cli/session.h"

typedef struct text_settings {
    const char *file, *messages, *tools, *prefill_response;
    bool decode, render, plain, no_special, no_answer;
} text_settings;

typedef struct tokenize_settings {
    output_settings output;
    model_settings model;
    template_settings template;
    text_settings own;
} tokenize_settings;

#define OWN(field) offsetof(text_settings, field)

static const option_spec own_options[] = {
    {"file", 'f', OPTION_FILE, OWN(file), "FILE", NULL, 0, 0,
     "Reads the text (with --decode the ids) from a file; - is standard input."},
    {"decode", 'd', OPTION_FLAG, OWN(decode), NULL, NULL, 0, 0,
     "The other way: operands are ids, or the file holds a JSON list of them."},
    {"messages", 0, OPTION_FILE, OWN(messages), "FILE", NULL, 0, 0,
     "A JSON file with a list of messages, put through the chat template."},
    {"tools", 0, OPTION_FILE, OWN(tools), "FILE", NULL, 0, 0,
     "A JSON file with a list of tools for the template."},
    {"render", 0, OPTION_FLAG, OWN(render), NULL, NULL, 0, 0,
     "Shows the rendered prompt instead of its ids."},
    {"no-generation-prompt", 0, OPTION_FLAG, OWN(no_answer), NULL, NULL, 0, 0,
     "Renders the messages without what begins an answer."},
    {"plain", 0, OPTION_FLAG, OWN(plain), NULL, NULL, 0, 0,
     "Special tokens spelled in the text are plain text."},
    {"no-special", 0, OPTION_FLAG, OWN(no_special), NULL, NULL, 0, 0,
     "No begin or end token around the text; with --decode special tokens are left out."},
    {0}};

/* --- showing ---------------------------------------------------------------------------------- */

static int print_json(const mica_tokenizer *tokenizer, const mica_token_list *ids, const char *text,
                      size_t n)
{
    json_out json = {0};
    json_open(&json, NULL, '{');
    json_ids(&json, "ids", ids->ids, ids->n);
    json_open(&json, "pieces", '[');
    for (int64_t i = 0; i < ids->n; i++) {
        int64_t length;
        const char *bytes = mica_tokenizer_token_bytes(tokenizer, ids->ids[i], &length);
        json_bytes(&json, NULL, bytes, (size_t)length);
    }
    json_close(&json, ']');
    json_bytes(&json, "text", text, n);
    json_close(&json, '}');
    return json_print(&json);
}

static int flushed(void)
{
    return fflush(stdout) == 0 && !ferror(stdout)
               ? 0
               : fail_with(MICA_E_IO, "standard output", "cannot be written");
}

/* A token a line: id, and what it stands for as a JSON string. */
static int print_table(const mica_tokenizer *tokenizer, const mica_token_list *ids)
{
    for (int64_t i = 0; i < ids->n; i++) {
        json_out piece = {0};
        int64_t n;
        const char *bytes = mica_tokenizer_token_bytes(tokenizer, ids->ids[i], &n);
        json_bytes(&piece, NULL, bytes, (size_t)n);
        if (piece.text.failed)
            return fail_memory();
        printf("%7d  %s%s\n", (int)ids->ids[i], buffer_text(&piece.text),
               mica_tokenizer_token_is_special(tokenizer, ids->ids[i]) ? "  special" : "");
        json_free(&piece);
    }
    return flushed();
}

/* --- decoding --------------------------------------------------------------------------------- */

static int ids_from_operands(const arguments *given, id_lists *lists)
{
    int32_t ids[1];
    for (int i = 0; i < given->n_operands; i++) {
        int64_t id;
        const char *word = given->operands[i];
        if (!mica_integer_parse(word, strlen(word), &id) || id < 0 || id > INT32_MAX)
            return fail_usage("'%s' is no token id", word);
        ids[0] = (int32_t)id;
        const int exit_status = id_lists_add(lists, ids, 1);
        if (exit_status)
            return exit_status;
    }
    return 0;
}

static int decode_ids(const mica_tokenizer *tokenizer, const mica_token_list *ids, unsigned flags,
                      byte_buffer *text)
{
    mica_token_decoder *decoder;
    const char *bytes;
    int64_t n;
    mica_status status = mica_token_decoder_new(tokenizer, flags, &decoder);
    if (status != MICA_OK)
        return fail_from(status, NULL);
    status = mica_token_decoder_next(decoder, ids->ids, ids->n, &bytes, &n);
    if (status == MICA_OK) {
        buffer_add(text, bytes, (size_t)n);
        status = mica_token_decoder_finish(decoder, &bytes, &n);
    }
    if (status == MICA_OK)
        buffer_add(text, bytes, (size_t)n);
    mica_token_decoder_free(decoder);
    if (status != MICA_OK)
        return fail_from(status, "the ids");
    return text->failed ? fail_memory() : 0;
}

static int decode(const arguments *given, const mica_tokenizer *tokenizer)
{
    const tokenize_settings *settings = given->settings;
    id_lists lists = {0};
    byte_buffer text = {0};
    int exit_status = given->n_operands
                          ? ids_from_operands(given, &lists)
                          : id_lists_read(&lists, settings->own.file ? settings->own.file : "-");
    const mica_token_list ids = {.ids = lists.ids, .n = lists.n_ids};
    if (!exit_status)
        exit_status = decode_ids(tokenizer, &ids,
                                 settings->own.no_special ? MICA_DECODE_SKIP_SPECIAL : 0, &text);
    if (!exit_status && settings->output.json)
        exit_status = print_json(tokenizer, &ids, buffer_text(&text), text.length);
    else if (!exit_status) {
        fwrite(buffer_text(&text), 1, text.length, stdout);
        putchar('\n');
        exit_status = flushed();
    }
    id_lists_free(&lists);
    buffer_free(&text);
    return exit_status;
}

/* --- encoding --------------------------------------------------------------------------------- */

static int show(const tokenize_settings *settings, const mica_tokenizer *tokenizer,
                const mica_token_list *ids, const char *text, size_t n)
{
    if (settings->output.json)
        return print_json(tokenizer, ids, text, n);
    if (!settings->own.render)
        return print_table(tokenizer, ids);
    fwrite(text, 1, n, stdout);
    return flushed();
}

static int encode_text(const arguments *given, const mica_tokenizer *tokenizer)
{
    const tokenize_settings *settings = given->settings;
    const unsigned flags = (settings->own.no_special ? 0 : MICA_ENCODE_ADD_SPECIAL) |
                           (settings->own.plain ? 0 : MICA_ENCODE_PARSE_SPECIAL);
    byte_buffer text = {0};
    mica_token_list ids = {0};
    int exit_status = 0;
    if (given->n_operands)
        buffer_add_text(&text, given->operands[0]);
    else
        exit_status = read_all(settings->own.file ? settings->own.file : "-", &text);
    if (!exit_status) {
        const mica_status status =
            mica_tokenizer_encode(tokenizer, buffer_text(&text), (int64_t)text.length, flags, &ids);
        if (status != MICA_OK)
            exit_status = fail_from(status, "the text");
    }
    if (!exit_status)
        exit_status = show(settings, tokenizer, &ids, buffer_text(&text), text.length);
    mica_token_list_free(&ids);
    buffer_free(&text);
    return exit_status;
}

/* The messages with the system prompt of the options before them. */
static int join_messages(const tokenize_settings *settings, json_out *json)
{
    const char *system = settings->template.system_prompt;
    mica_json_doc *doc;
    int exit_status = read_json(settings->own.messages, &doc);
    if (exit_status)
        return exit_status;
    json_open(json, NULL, '[');
    if (system)
        chat_add_message(json, "system", system, strlen(system));
    if (mica_json_type_of(mica_json_root(doc)) != MICA_JSON_ARRAY)
        exit_status = fail_with(MICA_E_FORMAT, settings->own.messages, "no list of messages");
    for (const mica_json *at = mica_json_first(mica_json_root(doc)); at; at = mica_json_next(at))
        json_copy(json, at);
    json_close(json, ']');
    mica_json_free(doc);
    return !exit_status && json->text.failed ? fail_memory() : exit_status;
}

static int encode_messages(const tokenize_settings *settings, const mica_tokenizer *tokenizer)
{
    chat_prompt prompt = {0};
    chat_text text = {0};
    byte_buffer tools = {0};
    json_out messages = {0};
    mica_token_list ids = {0};
    int exit_status = chat_prompt_open(&prompt, tokenizer, &settings->template);
    if (!exit_status && !prompt.compiled)
        exit_status = fail_with(MICA_E_ARGUMENT, "--messages",
                                "the model has no chat template; give one with --chat-template");
    if (!exit_status)
        exit_status = join_messages(settings, &messages);
    if (!exit_status && settings->own.tools)
        exit_status = read_all(settings->own.tools, &tools);
    if (!exit_status)
        exit_status = chat_prompt_render(&prompt, messages.text.bytes,
                                         settings->own.tools ? buffer_text(&tools) : NULL,
                                         !settings->own.no_answer, NULL, &text);
    if (!exit_status && (settings->output.json || !settings->own.render))
        exit_status = chat_prompt_encode(&prompt, &text, &ids);
    if (!exit_status)
        exit_status = show(settings, tokenizer, &ids, buffer_text(&text.text), text.text.length);
    mica_token_list_free(&ids);
    json_free(&messages);
    buffer_free(&tools);
    chat_text_free(&text);
    chat_prompt_free(&prompt);
    return exit_status;
}

/* --- the command ------------------------------------------------------------------------------ */

static int check(const arguments *given)
{
    const tokenize_settings *settings = given->settings;
    const text_settings *own = &settings->own;
    if (given->n_operands > 1 && !own->decode)
        return fail_usage("more than one text: put it in quotes");
    if (!!given->n_operands + !!own->file + !!own->messages > 1)
        return fail_usage("give one of a text, --file and --messages");
    if (own->messages && (own->decode || own->plain || own->no_special))
        return fail_usage("--decode, --plain and --no-special have no effect with --messages");
    if (own->decode && own->plain)
        return fail_usage("--plain has no effect with --decode");
    if (!own->messages &&
        (own->tools || own->render || own->no_answer || settings->template.system_prompt ||
         settings->template.chat_template || settings->template.chat_template_config ||
         settings->template.ignore_chat_template))
        return fail_usage("options of the chat template need --messages");
    return 0;
}

static int tokenize(const arguments *given)
{
    const tokenize_settings *settings = given->settings;
    cli_session session = {0};
    int exit_status = check(given);
    if (!exit_status)
        exit_status = model_path_find(settings->model.model, session.path);
    mica_set_memory_limit(settings->model.memory_limit, settings->model.memory_limit > 0);
    if (!exit_status)
        exit_status = session_open_tokenizer(&session, true, false);
    if (!exit_status)
        exit_status = settings->own.decode     ? decode(given, session.tokenizer)
                      : settings->own.messages ? encode_messages(settings, session.tokenizer)
                                               : encode_text(given, session.tokenizer);
    session_close(&session);
    return exit_status;
}

static const option_group groups[] = {
    {"Text", own_options, offsetof(tokenize_settings, own)},
    SHARED_GROUP("Chat template", template, tokenize_settings),
    SHARED_GROUP("Model", model, tokenize_settings),
    SHARED_GROUP("Output", output, tokenize_settings),
};

static const command_example examples[] = {
    {"The tokens of a text", "mica tokenize --model model.gguf \"Hello, world\""},
    {"The text of tokens", "mica tokenize --model model.gguf --decode 9906 11 1917"},
    {"What a conversation looks like to the model",
     "mica tokenize --model model.gguf --messages messages.json --render"},
    {0}};

const command_spec tokenize_command = {
    .name = "tokenize",
    .summary = "turns text into token ids and back",
    .description =
        "Shows one token a line: its id, and what it stands for as a JSON string. Without a text "
        "standard input is read.\n\n"
        "With --json: ids, pieces and text.",
    .operands = "[TEXT | ID...]",
    .max_operands = 1000000,
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .ends_at_once = true,
    .settings_size = sizeof(tokenize_settings),
    .run = tokenize,
};
