/* run_report.c - answers, times and memory as JSON members and as a line for people.
 * SPDX-License-Identifier: MIT
 */
#include "cli/run_report.h"

#include <stdio.h>
#include <string.h>

/* --- answers ---------------------------------------------------------------------------------- */

static void report_token(json_out *json, int32_t token, float logprob,
                         const mica_tokenizer *tokenizer)
{
    json_integer(json, "token", token);
    if (tokenizer) {
        int64_t n;
        const char *bytes = mica_tokenizer_token_bytes(tokenizer, token, &n);
        json_bytes(json, "text", bytes, (size_t)n);
    }
    json_float(json, "logprob", logprob);
}

static void report_logprobs(json_out *json, const cli_answer *answer,
                            const mica_tokenizer *tokenizer)
{
    json_open(json, "logprobs", '[');
    for (int64_t i = 0; i < answer->n_tokens; i++) {
        const answer_token *token = &answer->logprobs[i];
        json_open(json, NULL, '{');
        report_token(json, token->token, token->logprob, tokenizer);
        json_open(json, "top", '[');
        for (int32_t k = 0; k < token->n_top; k++) {
            json_open(json, NULL, '{');
            report_token(json, token->top[k].token, token->top[k].logprob, tokenizer);
            json_close(json, '}');
        }
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
}

void report_answer(json_out *json, const cli_answer *answer, const mica_tokenizer *tokenizer,
                   const int32_t *prompt, int64_t n_prompt)
{
    json_ids(json, "prompt_tokens", prompt, n_prompt);
    json_ids(json, "tokens", answer->tokens, answer->n_tokens);
    if (tokenizer)
        json_bytes(json, "text", buffer_text(&answer->text), answer->text.length);
    else
        json_null(json, "text");
    if (answer->has_reasoning)
        json_bytes(json, "reasoning", buffer_text(&answer->reasoning), answer->reasoning.length);
    json_text(json, "finish_reason", mica_finish_reason_name(answer->reason));
    if (answer->keep_logprobs)
        report_logprobs(json, answer, tokenizer);
}

/* --- times ------------------------------------------------------------------------------------ */

static double rate(int64_t n, double seconds)
{
    return n > 0 && seconds > 0 ? (double)n / seconds : 0;
}

void report_timing(json_out *json, const run_totals *totals)
{
    json_open(json, "timing", '{');
    json_measured(json, "load_s", totals->load_s, 5);
    json_measured(json, "ttft_s", totals->ttft_s, 5);
    json_measured(json, "prefill_tok_s", rate(totals->prompt_tokens, totals->prefill_s), 5);
    json_measured(json, "decode_tok_s", rate(totals->output_tokens - 1, totals->decode_s), 5);
    json_close(json, '}');
}

void report_line(const run_totals *totals)
{
    char memory[MICA_NUMBER_TEXT_BYTES];
    mica_size_format(memory, process_memory("VmHWM"));
    fprintf(stderr, "[prompt %lld tokens, %.1f tokens/s; answer %lld tokens, %.1f tokens/s; ",
            (long long)totals->prompt_tokens, rate(totals->prompt_tokens, totals->prefill_s),
            (long long)totals->output_tokens, rate(totals->output_tokens - 1, totals->decode_s));
    fprintf(stderr, "load %.3f s, first token %.3f s; memory %s]\n", totals->load_s, totals->ttft_s,
            memory);
}

/* --- memory ----------------------------------------------------------------------------------- */

int64_t process_memory(const char *field)
{
    char line[256];
    int64_t kilobytes = 0;
    const size_t n = strlen(field);
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, n) == 0 && line[n] == ':') {
            const char *digits = line + n + 1 + strspn(line + n + 1, " \t");
            mica_integer_parse(digits, strspn(digits, "0123456789"), &kilobytes);
            break;
        }
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

void report_memory(json_out *json, const cli_session *session)
{
    mica_memory_usage usage;
    mica_engine_stats stats = {0};
    mica_memory_read(&usage);
    if (session->engine)
        mica_engine_read_stats(session->engine, &stats);
    json_open(json, "memory", '{');
    json_integer(json, "weights", session->facts.weight_bytes);
    json_integer(json, "kv", stats.kv_peak);
    json_integer(json, "program_peak", usage.peak);
    json_integer(json, "process_peak", process_memory("VmHWM"));
    json_close(json, '}');
}
