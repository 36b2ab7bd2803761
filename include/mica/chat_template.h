/* chat_template.h - conversations to prompts through a model's own Jinja template.
 *
 * A template is compiled once and rendered from any number of threads. It runs in an interpreter
 * without access to anything but its input, under budgets for steps, depth, values and output, so a
 * template from an unknown place can be tried.
 *
 * Text that came from messages, tools or extra variables stays text: the result says which of its
 * bytes did (its plain spans), whatever the template did to them on the way - cutting, joining,
 * upper-casing, writing them as JSON. A tokenizer takes a special token only where none of its
 * bytes is plain, so a user who types "<|im_end|>" cannot end a turn. What the template itself says
 * and the special tokens that it is given are not plain.
 *
 * The language is Jinja2 as Hugging Face sets it up for chat templates: trim_blocks, lstrip_blocks,
 * break and continue, generation blocks, tojson without HTML escaping, raise_exception,
 * strftime_now, values immutable. Differences: integers have 64 bits (more is an error), include,
 * import, extends and block are refused, from_json exists.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CHAT_TEMPLATE_H
#define MICA_CHAT_TEMPLATE_H

#include <mica/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mica_chat_template mica_chat_template;

/* Limits, 0 for the default of each. */
typedef struct mica_chat_template_options {
    const char *name;         /* in messages; NULL: "chat template". Copied. */
    int64_t max_source_bytes; /* of the template: 1 MiB */
    int64_t max_steps;        /* of one render: 20 million (about a second) */
    int64_t max_value_bytes;  /* that the values of one render may take: 256 MiB */
    int64_t max_output_bytes; /* of one render, also of a block on the way: 32 MiB */
    int max_depth;            /* of evaluation, macros included: 1000, at most 2000 */
} mica_chat_template_options;

/* Compiles source[0, n). options may be NULL. On success *made belongs to the caller.
 * Fails with MICA_E_FORMAT (no template; line and column are named), MICA_E_UNSUPPORTED (a tag that
 * chat templates cannot have), MICA_E_BUDGET (nested too deep or too large), MICA_E_MEMORY. */
MICA_API mica_status mica_chat_template_new(const char *source, size_t n,
                                            const mica_chat_template_options *options,
                                            mica_chat_template **made);

/* NULL is ignored. */
MICA_API void mica_chat_template_free(mica_chat_template *chat_template);

/* Whether the template asks for a variable, say "tools" or "enable_thinking". */
MICA_API bool mica_chat_template_uses(const mica_chat_template *chat_template,
                                      const char *variable);

/* How many variables the template asks for. */
MICA_API int64_t mica_chat_template_variable_count(const mica_chat_template *chat_template);

/* The index-th variable that it asks for, in the order of their first mention; NULL outside. The
 * name belongs to the template. */
MICA_API const char *mica_chat_template_variable(const mica_chat_template *chat_template,
                                                 int64_t index);

/* A variable that is part of the prompt's language, not of the conversation: bos_token and the
 * like. Its text is not plain. */
typedef struct mica_chat_token {
    const char *name;
    const char *text; /* UTF-8 */
} mica_chat_token;

/* What a conversation is rendered from. Zero-initialise and set what there is. */
typedef struct mica_chat_input {
    const char *messages_json; /* an array of objects with role, content and so on */
    size_t messages_length;
    const char *tools_json; /* an array, or NULL: the template sees None */
    size_t tools_length;
    const char
        *extra_json; /* an object, or NULL: each member is a variable (enable_thinking ...) */
    size_t extra_length;
    const mica_chat_token *tokens; /* [n_tokens] */
    int64_t n_tokens;
    bool add_generation_prompt;
    /* Turns the arguments of tool calls from JSON text, as OpenAI's protocol has them, into
     * the objects that templates expect. Text that is no JSON object is left as it is. */
    bool parse_arguments;
    /* For templates that write the date: seconds since 1970-01-01 00:00 on the local calendar; 0
     * for the system's clock and time zone. */
    int64_t now;
} mica_chat_input;

/* A prompt. text and plain go to mica_tokenizer_encode_spans as they are. */
typedef struct mica_chat_text {
    char *text; /* UTF-8, NUL-terminated */
    int64_t length;
    mica_text_span *plain; /* [n_plain], ascending: the bytes that came from the conversation */
    int64_t n_plain;
} mica_chat_text;

/* Renders a conversation. On success *text is filled (mica_chat_text_free), else emptied.
 * Fails with MICA_E_ARGUMENT (the template refuses the conversation, or something in it is not what
 * the template needs; line and column of the template are named), MICA_E_FORMAT (the JSON is none),
 * MICA_E_BUDGET, MICA_E_MEMORY. Safe from several threads. */
MICA_API mica_status mica_chat_template_render(const mica_chat_template *chat_template,
                                               const mica_chat_input *input, mica_chat_text *text);

/* Frees what a render filled and empties it. */
MICA_API void mica_chat_text_free(mica_chat_text *text);

#ifdef __cplusplus
}
#endif

#endif
