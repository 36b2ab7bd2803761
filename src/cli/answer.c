/* answer.c - taking events apart: text to show, thinking part, tokens, log probabilities.
 *
 * Text arrives in whole characters. Where a mark of the thinking part may be arriving, text is held
 * back until it is certain; nothing is held for longer than a mark is.
 * SPDX-License-Identifier: MIT
 */
#include "cli/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"

#define OPEN_MARK  "<think>"
#define CLOSE_MARK "</think>"
#define DIM        "\033[2m"
#define PLAIN      "\033[0m"

/* --- showing ---------------------------------------------------------------------------------- */

static void show(cli_answer *answer, const char *bytes, size_t n, bool reasoning)
{
    if (!n)
        return;
    buffer_add(reasoning ? &answer->reasoning : &answer->text, bytes, n);
    if (!answer->show)
        return;
    if (reasoning && answer->color)
        fputs(DIM, stdout);
    if (reasoning && !answer->color && !answer->wrote)
        fputs(OPEN_MARK, stdout);
    fwrite(bytes, 1, n, stdout);
    if (reasoning && answer->color)
        fputs(PLAIN, stdout);
    answer->wrote = true;
    answer->last_was_newline = bytes[n - 1] == '\n';
}

/* --- marks ------------------------------------------------------------------------------------ */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Bytes at the end of text[0, n) that may become `mark`. */
static size_t open_end(const char *text, size_t n, const char *mark)
{
    const size_t length = strlen(mark);
    for (size_t k = n < length - 1 ? n : length - 1; k > 0; k--)
        if (memcmp(text + n - k, mark, k) == 0)
            return k;
    return 0;
}

static void drop(byte_buffer *held, size_t n)
{
    memmove(held->bytes, held->bytes + n, held->length - n);
    held->length -= n;
    held->bytes[held->length] = '\0';
}

/* Each step decides about a prefix of what is held; false when more text is needed. */
static bool decide_maybe(cli_answer *answer)
{
    byte_buffer *held = &answer->held;
    size_t at = 0;
    while (at < held->length && is_space(held->bytes[at]))
        at++;
    const size_t n = held->length - at, length = strlen(OPEN_MARK);
    const size_t common = n < length ? n : length;
    if (memcmp(held->bytes + at, OPEN_MARK, common) != 0) {
        answer->state = THINKING_NONE;
        return true;
    }
    if (n < length)
        return false;
    drop(held, at + length);
    answer->state = THINKING_INSIDE;
    answer->has_reasoning = true;
    return true;
}

static bool decide_inside(cli_answer *answer)
{
    byte_buffer *held = &answer->held;
    char *close =
        held->length ? memmem(held->bytes, held->length, CLOSE_MARK, strlen(CLOSE_MARK)) : NULL;
    answer->has_reasoning = true;
    if (!close) {
        const size_t n = held->length - open_end(held->bytes, held->length, CLOSE_MARK);
        show(answer, held->bytes, n, true);
        drop(held, n);
        return false;
    }
    const size_t n = (size_t)(close - held->bytes);
    show(answer, held->bytes, n, true);
    drop(held, n + strlen(CLOSE_MARK));
    if (answer->show && answer->wrote)
        fputs(answer->color ? answer->last_was_newline ? "" : "\n" : CLOSE_MARK "\n\n", stdout);
    answer->state = THINKING_AFTER;
    return true;
}

static bool decide_after(cli_answer *answer)
{
    size_t at = 0;
    while (at < answer->held.length && is_space(answer->held.bytes[at]))
        at++;
    drop(&answer->held, at);
    if (!answer->held.length)
        return false;
    answer->state = THINKING_NONE;
    return true;
}

static void add_text(cli_answer *answer, const char *bytes, size_t n, bool last)
{
    if (n)
        buffer_add(&answer->held, bytes, n);
    bool more = answer->held.length > 0 && !answer->held.failed;
    while (more && answer->state != THINKING_NONE)
        more = answer->state == THINKING_MAYBE    ? decide_maybe(answer)
               : answer->state == THINKING_INSIDE ? decide_inside(answer)
                                                  : decide_after(answer);
    if ((answer->state == THINKING_NONE || last) && answer->held.length) {
        show(answer, answer->held.bytes, answer->held.length, answer->state == THINKING_INSIDE);
        buffer_clear(&answer->held);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

static bool grow(cli_answer *answer)
{
    if (answer->n_tokens < answer->token_capacity)
        return true;
    const int64_t capacity = answer->token_capacity ? 2 * answer->token_capacity : 64;
    int32_t *tokens = realloc(answer->tokens, (size_t)capacity * sizeof *tokens);
    if (!tokens)
        return false;
    answer->tokens = tokens;
    if (answer->keep_logprobs) {
        answer_token *logprobs = realloc(answer->logprobs, (size_t)capacity * sizeof *logprobs);
        if (!logprobs)
            return false;
        answer->logprobs = logprobs;
    }
    answer->token_capacity = capacity;
    return true;
}

static bool add_token(cli_answer *answer, const mica_event *event)
{
    if (!grow(answer))
        return false;
    const int64_t at = answer->n_tokens++;
    answer->tokens[at] = event->token;
    if (answer->keep_logprobs) {
        answer->logprobs[at] =
            (answer_token){.token = event->token, .logprob = event->logprob, .n_top = event->n_top};
        memcpy(answer->logprobs[at].top, event->top, sizeof event->top);
    }
    return true;
}

int answer_take(cli_answer *answer, const mica_event *event)
{
    if (event->kind == MICA_EVENT_TOKEN && !add_token(answer, event))
        return fail_memory();
    if (event->kind == MICA_EVENT_TOKEN && answer->show_ids) {
        char id[16];
        snprintf(id, sizeof id, "%s%d", event->index ? " " : "", (int)event->token);
        show(answer, id, strlen(id), false);
    }
    if (event->kind == MICA_EVENT_FINISHED) {
        answer->finished = true;
        answer->reason = event->reason;
        answer->status = event->status;
        snprintf(answer->message, sizeof answer->message, "%s", event->message);
        answer->usage = event->usage;
    }
    if (event->kind == MICA_EVENT_TOKEN || event->kind == MICA_EVENT_FINISHED)
        add_text(answer, event->text, event->n_text, answer->finished);
    if (answer->text.failed || answer->reasoning.failed || answer->held.failed)
        return fail_memory();
    if (answer->show && fflush(stdout) != 0)
        return fail_with(MICA_E_IO, "standard output", "cannot be written");
    return 0;
}

void answer_free(cli_answer *answer)
{
    free(answer->tokens);
    free(answer->logprobs);
    buffer_free(&answer->text);
    buffer_free(&answer->reasoning);
    buffer_free(&answer->held);
}
