/* chat_prompt.h - conversations to token ids through the model's chat template.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_CHAT_PROMPT_H
#define MICA_CLI_CHAT_PROMPT_H

#include <mica/chat_template.h>
#include <mica/tokenizer.h>

#include "cli/answer.h"
#include "cli/settings.h"

#define MAX_CHAT_TOKENS 4

/* Zero-initialise. */
typedef struct chat_prompt {
    const mica_tokenizer *tokenizer;
    mica_chat_template *compiled;            /* NULL: the model has no template, or it is ignored */
    mica_chat_template *compiled_tools;      /* for conversations with tools, where it is another */
    mica_chat_token tokens[MAX_CHAT_TOKENS]; /* bos_token and the like */
    int64_t n_tokens;
    byte_buffer config; /* extra variables, a JSON object; empty: none */
    bool thinks;        /* the template knows a thinking part */
} chat_prompt;

/* A rendered conversation. Zero-initialise. */
typedef struct chat_text {
    byte_buffer text;
    mica_text_span *plain; /* [n_plain] what came from messages */
    int64_t n_plain;
} chat_text;

/* Compiles the template: --chat-template's, else the tokenizer's. tokenizer NULL: none. */
int chat_prompt_open(chat_prompt *prompt, const mica_tokenizer *tokenizer,
                     const template_settings *settings);
void chat_prompt_free(chat_prompt *prompt);

/* Renders messages (a JSON array) and tools (the same, or NULL). open_answer: ends with what
 * begins an answer; prefill (or NULL) is put behind it. There must be a template. */
int chat_prompt_render(const chat_prompt *prompt, const char *messages, const char *tools,
                       bool open_answer, const char *prefill, chat_text *text);
void chat_text_free(chat_text *text);

/* The ids of a rendered text, with a begin token where the model wants one that the template did
 * not write, and never an end token. */
int chat_prompt_encode(const chat_prompt *prompt, const chat_text *text, mica_token_list *ids);

/* The state in which an answer to it begins. */
thinking_state chat_prompt_thinking(const chat_prompt *prompt, const chat_text *text);

/* Appends a message to a JSON array that json_out is writing. */
void chat_add_message(json_out *json, const char *role, const char *content, size_t n);

#endif
