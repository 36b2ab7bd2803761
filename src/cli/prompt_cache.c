/* prompt_cache.c - loading a prompt's keys and values before the run, writing them after it.
 *
 * A file that does not fit this run is an error and never written over: it may be a cache for
 * another model that took an hour to compute, or no cache at all but a mistyped name.
 * SPDX-License-Identifier: MIT
 */
#include "cli/prompt_cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/failure.h"

#define BLOCK 16 /* tokens that the engine keeps together */

int prompt_cache_check(const prompt_cache *cache)
{
    char folder[MODEL_PATH_BYTES];
    if (!cache->path)
        return cache->read_only ? fail_usage("--prompt-cache-ro needs --prompt-cache-file") : 0;
    if (cache->read_only || access(cache->path, F_OK) == 0)
        return 0;
    const char *slash = strrchr(cache->path, '/');
    if (!slash)
        snprintf(folder, sizeof folder, ".");
    else
        snprintf(folder, sizeof folder, "%.*s",
                 slash == cache->path ? 1 : (int)(slash - cache->path), cache->path);
    if (access(folder, W_OK | X_OK) != 0)
        return fail_with(MICA_E_IO, cache->path, "no file can be made in '%s': %s", folder,
                         strerror(errno));
    return 0;
}

int prompt_cache_load(prompt_cache *cache, const cli_session *session)
{
    if (!cache->path || (!cache->read_only && access(cache->path, F_OK) != 0))
        return 0;
    const mica_status status = mica_engine_load_prefix(session->engine, cache->path, cache->prompt,
                                                       cache->n_prompt, &cache->load);
    if (status == MICA_E_ARGUMENT || status == MICA_E_UNSUPPORTED || status == MICA_E_FORMAT)
        return fail_with(status, cache->path,
                         "%s. The file is left as it is: remove it, or give another one",
                         mica_last_error());
    return status == MICA_OK ? 0 : fail_from(status, cache->path);
}

int prompt_cache_save(prompt_cache *cache, const cli_session *session)
{
    if (!cache->path || cache->read_only || cache->n_prompt / BLOCK * BLOCK <= cache->load.matched)
        return 0;
    if (mica_engine_find_prefix(session->engine, cache->prompt, cache->n_prompt) <=
        cache->load.matched)
        return 0; /* it ended before that, or memory was too short to keep it */
    const mica_status status = mica_engine_save_prefix(
        session->engine, cache->prompt, cache->n_prompt, cache->path, &cache->n_saved);
    return status == MICA_OK ? 0 : fail_from(status, cache->path);
}

void prompt_cache_report(json_out *json, const prompt_cache *cache, int64_t n_cached)
{
    if (!cache->path)
        return;
    json_open(json, "prompt_cache", '{');
    json_text(json, "file", cache->path);
    json_integer(json, "cached_tokens", n_cached);
    json_integer(json, "saved_tokens", cache->n_saved);
    json_close(json, '}');
}

void prompt_cache_line(const prompt_cache *cache, int64_t n_cached)
{
    if (!cache->path)
        return;
    fprintf(stderr, "[prompt cache %s: %lld of %lld prompt tokens were there", cache->path,
            (long long)n_cached, (long long)cache->n_prompt);
    if (cache->load.loaded < cache->load.matched)
        fprintf(stderr, ", %lld of the file's %lld could not be used",
                (long long)(cache->load.matched - cache->load.loaded),
                (long long)cache->load.matched);
    if (cache->n_saved)
        fprintf(stderr, "; %lld saved]\n", (long long)cache->n_saved);
    else
        fprintf(stderr, "; the file is as it was]\n");
}
