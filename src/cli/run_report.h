/* run_report.h - what is said about a run: answers, times, memory.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_RUN_REPORT_H
#define MICA_CLI_RUN_REPORT_H

#include "cli/answer.h"
#include "cli/session.h"

typedef struct run_totals {
    double load_s;    /* from the start until everything is open */
    double ttft_s;    /* from then to the first token */
    double prefill_s; /* time in which prompt_tokens were computed */
    double decode_s;  /* time in which the tokens after the first were drawn */
    int64_t prompt_tokens, output_tokens;
} run_totals;

/* The members that describe an answer. tokenizer may be NULL. */
void report_answer(json_out *json, const cli_answer *answer, const mica_tokenizer *tokenizer,
                   const int32_t *prompt, int64_t n_prompt);

/* The members "timing" and "memory". */
void report_timing(json_out *json, const run_totals *totals);
void report_memory(json_out *json, const cli_session *session);

/* The timing line, on standard error. */
void report_line(const run_totals *totals);

/* A field of /proc/self/status in bytes ("VmHWM", "VmRSS", "RssAnon"); 0 when it is not there. */
int64_t process_memory(const char *field);

#endif
