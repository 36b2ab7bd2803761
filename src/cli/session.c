/* session.c - opening what a command works with, and telling what could not be opened.
 * SPDX-License-Identifier: MIT
 */
#include "cli/session.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/interrupt.h"

int session_start(cli_session *session, const model_settings *model,
                  const compute_settings *compute)
{
    const int exit_status = model_path_find(model->model, session->path);
    if (exit_status)
        return exit_status;
    const mica_options options = {.memory_limit = model->memory_limit,
                                  .limit_covers_mapped_weights = model->memory_limit > 0,
                                  .threads = compute ? (int)compute->threads : 1};
    session->mc = mica_open(&options);
    if (!session->mc)
        return fail_with(MICA_E_MEMORY, NULL, "%s", mica_last_error());
    return 0;
}

int session_open_model(cli_session *session, const compute_settings *settings)
{
    mica_model_options options = {.no_mmap = settings->no_mmap};
    const int exit_status = settings_activations(settings, &options.activations);
    if (exit_status)
        return exit_status;
    const mica_status status =
        mica_model_open(session->mc, session->path, &options, &session->model);
    if (status != MICA_OK)
        return fail_from(status, session->path);
    session->facts = mica_model_describe(session->model);
    return 0;
}

/* --- tokenizer -------------------------------------------------------------------------------- */

/* Weights named as a file have their tokenizer beside them. */
static const char *tokenizer_place(const char *path, char folder[MODEL_PATH_BYTES])
{
    const char *end = strrchr(path, '.'), *slash = strrchr(path, '/');
    if (!end || (strcmp(end, ".safetensors") != 0 && strcmp(end, ".json") != 0))
        return path;
    if (!slash)
        return ".";
    snprintf(folder, MODEL_PATH_BYTES, "%.*s", (int)(slash - path), path);
    return folder;
}

static int add_end_id(cli_session *session, int32_t id)
{
    for (int64_t i = 0; i < session->n_end_tokens; i++)
        if (session->end_tokens[i] == id)
            return 0;
    if (session->n_end_tokens == session->end_capacity) {
        const int64_t capacity = session->end_capacity ? 2 * session->end_capacity : 16;
        int32_t *grown = realloc(session->end_tokens, (size_t)capacity * sizeof *grown);
        if (!grown)
            return fail_memory();
        session->end_tokens = grown;
        session->end_capacity = capacity;
    }
    session->end_tokens[session->n_end_tokens++] = id;
    return 0;
}

/* A vocabulary may be longer than the model's table: such ids can never be drawn. */
static int add_own_end_tokens(cli_session *session)
{
    int64_t n;
    const int32_t *ids = mica_tokenizer_end_tokens(session->tokenizer, &n);
    int exit_status = 0;
    for (int64_t i = 0; i < n && !exit_status; i++)
        if (!session->model || ids[i] < session->facts.n_vocab)
            exit_status = add_end_id(session, ids[i]);
    return exit_status;
}

int session_open_tokenizer(cli_session *session, bool required, bool notes)
{
    char folder[MODEL_PATH_BYTES];
    const mica_status status =
        session->model
            ? mica_model_tokenizer(session->model, &session->tokenizer)
            : mica_tokenizer_open(tokenizer_place(session->path, folder), &session->tokenizer);
    if (status == MICA_E_NOT_FOUND && !required)
        return 0;
    if (status != MICA_OK && status != MICA_E_MEMORY && !required) {
        if (notes)
            fprintf(stderr, "[ids instead of text: %s]\n", mica_last_error());
        return 0;
    }
    if (status != MICA_OK)
        return fail_from(status, session->path);
    return add_own_end_tokens(session);
}

static int add_named_end(cli_session *session, const char *text)
{
    int64_t id;
    if (mica_integer_parse(text, strlen(text), &id)) {
        if (id < 0 || id >= session->facts.n_vocab)
            return fail_usage("--extra-eos-token %lld: the model has the tokens 0 to %lld",
                              (long long)id, (long long)session->facts.n_vocab - 1);
        return add_end_id(session, (int32_t)id);
    }
    if (!session->tokenizer)
        return fail_with(MICA_E_ARGUMENT, "--extra-eos-token",
                         "the model has no tokenizer: give the token's id");
    const int32_t found = mica_tokenizer_find(session->tokenizer, text, (int64_t)strlen(text));
    if (found < 0 || found >= session->facts.n_vocab)
        return fail_with(MICA_E_NOT_FOUND, "--extra-eos-token", "no single token is '%s'", text);
    return add_end_id(session, found);
}

int session_add_endings(cli_session *session, const ending_settings *settings)
{
    int exit_status = 0;
    if (settings->stop.n && !session->tokenizer)
        return fail_with(MICA_E_ARGUMENT, "--stop", "the model has no tokenizer");
    for (int i = 0; i < settings->stop.n; i++)
        if (!*settings->stop.items[i])
            return fail_usage("--stop '': a text is needed");
    for (int i = 0; i < settings->extra_eos_token.n && !exit_status; i++)
        exit_status = add_named_end(session, settings->extra_eos_token.items[i]);
    return exit_status;
}

/* --- engine ----------------------------------------------------------------------------------- */

static mica_status begin_text(void *owner, void **stream)
{
    const cli_session *session = owner;
    mica_token_decoder *decoder = NULL;
    const mica_status status =
        mica_token_decoder_new(session->tokenizer, session->decode_flags, &decoder);
    *stream = decoder;
    return status;
}

static mica_status add_token(void *stream, int32_t token, const char **bytes, size_t *n_bytes)
{
    int64_t n = 0;
    const mica_status status = mica_token_decoder_next(stream, &token, 1, bytes, &n);
    *n_bytes = (size_t)n;
    return status;
}

static mica_status finish_text(void *stream, const char **bytes, size_t *n_bytes)
{
    int64_t n = 0;
    const mica_status status = mica_token_decoder_finish(stream, bytes, &n);
    *n_bytes = (size_t)n;
    return status;
}

static void end_text(void *stream)
{
    mica_token_decoder_free(stream);
}

int session_check_context(const cli_session *session, const engine_settings *settings)
{
    if (settings->context > session->facts.context)
        return fail_usage("--context %lld is more than the %lld tokens that the model was made for",
                          (long long)settings->context, (long long)session->facts.context);
    return 0;
}

int session_open_engine(cli_session *session, const arguments *given,
                        const engine_settings *settings, int64_t sequences)
{
    const mica_detokenizer detokenizer = {.owner = session,
                                          .begin = begin_text,
                                          .add = add_token,
                                          .finish = finish_text,
                                          .end = end_text};
    mica_engine_options options = {.kv_memory = settings->kv_memory,
                                   .context = settings->context,
                                   .max_sequences = sequences,
                                   .no_prefix_cache = session->no_prefix_cache,
                                   .end_tokens = session->end_tokens,
                                   .n_end_tokens = session->n_end_tokens,
                                   .detokenizer = session->tokenizer ? &detokenizer : NULL};
    int exit_status = settings_kv(given, settings, &options.kv_dtype);
    if (!exit_status)
        exit_status = session_check_context(session, settings);
    if (exit_status)
        return exit_status;
    const mica_status status = mica_engine_open(session->model, &options, &session->engine);
    if (status != MICA_OK)
        return fail_from(status, session->path);
    interrupt_watch(session->engine);
    return 0;
}

int session_refused(mica_status status, const char *where)
{
    if (status != MICA_E_MEMORY)
        return fail_from(status, where);
    return fail_with(status, where,
                     "%s; --kv-memory SIZE allows more, --context N makes room for N tokens where "
                     "they fit, --kv q8 takes half as much",
                     mica_last_error());
}

int64_t session_computed(const cli_session *session)
{
    mica_engine_stats stats;
    mica_engine_read_stats(session->engine, &stats);
    return stats.computed_tokens;
}

void session_close(cli_session *session)
{
    interrupt_watch(NULL);
    mica_engine_free(session->engine);
    mica_tokenizer_free(session->tokenizer);
    mica_model_close(session->model);
    mica_close(session->mc);
    free(session->end_tokens);
    memset(session, 0, sizeof *session);
}
