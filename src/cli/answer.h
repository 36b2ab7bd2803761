/* answer.h - one answer as it grows: tokens, text, thinking part, what to show of it.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_ANSWER_H
#define MICA_CLI_ANSWER_H

#include <mica/engine.h>

#include "cli/byte_buffer.h"
#include "cli/json_out.h"

/* Where in its text an answer is. The thinking part stands between <think> and </think> at its
 * beginning, or is opened by the prompt already. */
typedef enum thinking_state {
    THINKING_NONE,   /* everything is answer */
    THINKING_MAYBE,  /* nothing but a possible beginning of <think> so far */
    THINKING_INSIDE, /* between the marks */
    THINKING_AFTER   /* line ends behind </think> are left out */
} thinking_state;

typedef struct answer_token {
    int32_t token;
    float logprob;
    int32_t n_top;
    mica_token_logprob top[MICA_MAX_TOP_LOGPROBS];
} answer_token;

/* Zero-initialise and set `state`. */
typedef struct cli_answer {
    thinking_state state;
    bool show;     /* text goes to standard output as it comes */
    bool show_ids; /* ids instead of text, where there is no tokenizer */
    bool color;    /* a terminal: the thinking part is dimmed */
    bool last_was_newline;
    bool wrote;
    int32_t *tokens; /* [n_tokens] */
    int64_t n_tokens, token_capacity;
    bool keep_logprobs;
    answer_token *logprobs; /* [n_tokens] when keep_logprobs */
    byte_buffer text, reasoning;
    byte_buffer held; /* may be a mark: not yet decided */
    bool has_reasoning;
    bool finished;
    mica_finish_reason reason;
    mica_status status;
    char message[512];
    mica_usage usage;
} cli_answer;

/* Takes an event of this answer: 0, or a failure when memory or standard output is out. */
int answer_take(cli_answer *answer, const mica_event *event);

void answer_free(cli_answer *answer);

#endif
