/* prompt_cache.h - --prompt-cache-file: a prompt's keys and values from one run to the next.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_PROMPT_CACHE_H
#define MICA_CLI_PROMPT_CACHE_H

#include "cli/json_out.h"
#include "cli/session.h"

/* Zero-initialise; without a path every function does nothing. */
typedef struct prompt_cache {
    const char *path;
    bool read_only;
    const int32_t *prompt; /* [n_prompt], the caller's */
    int64_t n_prompt;
    mica_prefix_load load; /* what the file had */
    int64_t n_saved;       /* tokens written after the run, 0: the file is as it was */
} prompt_cache;

/* Refuses a file that could not be written, before anything is computed for it. */
int prompt_cache_check(const prompt_cache *cache);

/* Loads what the file holds of the prompt into the engine; a file that is not there is none. */
int prompt_cache_load(prompt_cache *cache, const cli_session *session);

/* Writes the file when the engine has more whole blocks of the prompt than it held. */
int prompt_cache_save(prompt_cache *cache, const cli_session *session);

/* The member "prompt_cache", and the line on standard error; n_cached: prompt tokens that were not
 * computed. */
void prompt_cache_report(json_out *json, const prompt_cache *cache, int64_t n_cached);
void prompt_cache_line(const prompt_cache *cache, int64_t n_cached);

#endif
