/* generate_prompts.h - where mica generate takes its prompts from.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_GENERATE_PROMPTS_H
#define MICA_CLI_GENERATE_PROMPTS_H

#include "cli/chat_prompt.h"
#include "cli/prompts.h"
#include "cli/session.h"

typedef struct prompt_settings {
    const char *prompt, *prompt_file, *tokens, *prompts, *prefill_response, *prompt_cache_file;
    bool prompt_cache_ro;
    int64_t logprobs;
} prompt_settings;

/* Prompts as ids. Zero-initialise. */
typedef struct prompt_batch {
    id_lists ids;
    thinking_state *states; /* [ids.n] how their answers begin */
    int64_t state_capacity;
    bool chat; /* the template was applied: answers stand alone instead of continuing a text */
} prompt_batch;

extern const option_spec prompt_options[];

/* Says what is wrong with the combination of options, before anything is opened. */
int prompts_check(const prompt_settings *settings, const template_settings *templates, bool json);

/* Reads all prompts; the session has its tokenizer. */
int prompts_read(const prompt_settings *settings, const template_settings *templates,
                 const cli_session *session, prompt_batch *batch);

void prompts_free(prompt_batch *batch);

#endif
