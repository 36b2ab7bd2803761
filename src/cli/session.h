/* session.h - what most commands open in turn: runtime, model, tokenizer, engine.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_SESSION_H
#define MICA_CLI_SESSION_H

#include "cli/model_path.h"
#include "cli/settings.h"

/* Zero-initialise; session_close ends whatever was opened. */
typedef struct cli_session {
    char path[MODEL_PATH_BYTES];
    mica_ctx *mc;
    mica_model *model;
    mica_model_facts facts;
    mica_tokenizer *tokenizer; /* NULL: the model has none, and the command can do without */
    mica_engine *engine;
    int32_t *end_tokens; /* [n_end_tokens] of the tokenizer and of --extra-eos-token */
    int64_t n_end_tokens, end_capacity;
    bool no_prefix_cache;
    unsigned decode_flags; /* of the engine's texts: MICA_DECODE_... */
} cli_session;

/* Finds the model's path and opens the runtime with the limits asked for; compute NULL: one thread.
 */
int session_start(cli_session *session, const model_settings *model,
                  const compute_settings *compute);

/* Opens the model itself. */
int session_open_model(cli_session *session, const compute_settings *settings);

/* Opens the model's tokenizer. required false: a model without one is no failure, and one that
 * cannot be read is said on standard error where `notes` allow it. */
int session_open_tokenizer(cli_session *session, bool required, bool notes);

/* The tokens of --extra-eos-token; and --stop needs a tokenizer. Before the engine is opened. */
int session_add_endings(cli_session *session, const ending_settings *settings);

/* Refuses a --context beyond the model's. */
int session_check_context(const cli_session *session, const engine_settings *settings);

/* Makes the engine for that many sequences at once. With a tokenizer, texts come with its events.
 */
int session_open_engine(cli_session *session, const arguments *given,
                        const engine_settings *settings, int64_t sequences);

/* Positions that the engine has computed since it was opened. */
/* Records why the engine did not take a request, with the options that help where KV is short. */
int session_refused(mica_status status, const char *where);

int64_t session_computed(const cli_session *session);

void session_close(cli_session *session);

#endif
