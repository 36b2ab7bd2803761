/* eval.c - mica eval: logits of given tokens, perplexity of a text.
 *
 * Both look at the logits behind every prompt position through the engine's on_logits hook; nothing
 * is drawn.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/prompts.h"
#include "cli/run_report.h"
#include "cli/session.h"

#define DEFAULT_WINDOW 512

typedef struct data_settings {
    const char *tokens, *out, *data;
} data_settings;

typedef struct eval_settings {
    output_settings output;
    model_settings model;
    compute_settings compute;
    engine_settings engine;
    data_settings own;
} eval_settings;

#define OWN(field) offsetof(data_settings, field)

static const option_spec own_options[] = {
    {"tokens", 0, OPTION_FILE, OWN(tokens), "FILE", NULL, 0, 0,
     "logits: a JSON file with a list of token ids, or a list of lists."},
    {"out", 'o', OPTION_FILE, OWN(out), "FILE", NULL, 0, 0,
     "logits: the safetensors file to write: logits of shape [rows, tokens, vocabulary] in "
     "float32; "
     "rows of different lengths become one tensor [tokens, vocabulary] each, named by its number."},
    {"data", 0, OPTION_FILE, OWN(data), "FILE", NULL, 0, 0,
     "perplexity: the text; - is standard input."},
    {0}};

static int open_engine(const arguments *given, cli_session *session, engine_settings engine)
{
    session->no_prefix_cache = true;
    return session_open_engine(session, given, &engine, 1);
}

/* Computes one prompt to its end, with the hook looking on. `failed` is what the hook records. */
static int run_prompt(cli_session *session, const mica_request *request)
{
    int64_t id;
    bool cancelled = false;
    const mica_status submitted = mica_engine_submit(session->engine, request, &id);
    if (submitted != MICA_OK)
        return fail_from(submitted, session->path);
    while (mica_engine_pending(session->engine) > 0) {
        mica_event event;
        if (interrupted() && !cancelled) {
            cancelled = true;
            mica_engine_cancel(session->engine, id);
        }
        const mica_status status = mica_engine_step(session->engine);
        if (status != MICA_OK)
            return fail_from(status, session->path);
        while (mica_engine_next_event(session->engine, &event)) {
            if (event.kind == MICA_EVENT_FINISHED && event.status != MICA_OK)
                return fail_with(event.status, session->path, "%s", event.message);
            cancelled |= event.reason == MICA_FINISH_CANCELLED;
        }
    }
    return cancelled ? EXIT_INTERRUPTED : 0;
}

/* --- logits ----------------------------------------------------------------------------------- */

typedef struct logits_run {
    mica_tensor_writer *writer;
    mica_status status;
    int64_t done;
} logits_run;

static void write_row(void *owner, int64_t position, const float *logits, int64_t n_vocab)
{
    logits_run *run = owner;
    (void)position;
    if (run->status == MICA_OK)
        run->status =
            mica_tensor_writer_write(run->writer, logits, n_vocab * (int64_t)sizeof *logits);
    progress_update(++run->done);
}

static bool same_lengths(const id_lists *rows)
{
    for (int64_t i = 0; i < rows->n; i++)
        if (rows->starts[i + 1] - rows->starts[i] != rows->starts[1])
            return false;
    return true;
}

static mica_status declare(mica_tensor_writer *writer, const id_lists *rows, int64_t n_vocab)
{
    mica_status status = MICA_OK;
    char name[32];
    if (same_lengths(rows)) {
        const int64_t shape[3] = {rows->n, rows->starts[1], n_vocab};
        return mica_tensor_writer_declare(writer, "logits", MICA_F32, 3, shape);
    }
    for (int64_t i = 0; i < rows->n && status == MICA_OK; i++) {
        const int64_t shape[2] = {rows->starts[i + 1] - rows->starts[i], n_vocab};
        snprintf(name, sizeof name, "%lld", (long long)i);
        status = mica_tensor_writer_declare(writer, name, MICA_F32, 2, shape);
    }
    return status;
}

static int write_logits(cli_session *session, const id_lists *rows, logits_run *run)
{
    int exit_status = 0;
    progress_begin("logits", rows->n_ids);
    for (int64_t i = 0; i < rows->n && !exit_status; i++) {
        mica_request request;
        mica_request_init(&request);
        request.tokens = rows->ids + rows->starts[i];
        request.n_tokens = rows->starts[i + 1] - rows->starts[i];
        request.max_tokens = 0;
        request.on_logits = write_row;
        request.on_logits_owner = run;
        exit_status = run_prompt(session, &request);
        if (!exit_status && run->status != MICA_OK)
            exit_status = fail_from(run->status, NULL);
    }
    progress_end();
    return exit_status;
}

static int report_logits(const eval_settings *settings, const id_lists *rows, int64_t n_vocab,
                         double seconds)
{
    if (settings->output.json) {
        json_out json = {0};
        json_open(&json, NULL, '{');
        json_text(&json, "out", settings->own.out);
        json_integer(&json, "rows", rows->n);
        json_integer(&json, "count", rows->n_ids);
        json_integer(&json, "vocabulary", n_vocab);
        json_measured(&json, "seconds", seconds, 5);
        json_close(&json, '}');
        return json_print(&json);
    }
    if (!settings->output.quiet)
        fprintf(stderr, "[%lld rows, %lld tokens, %.2f s: %s]\n", (long long)rows->n,
                (long long)rows->n_ids, seconds, settings->own.out);
    return 0;
}

static int logits(const arguments *given, cli_session *session)
{
    const eval_settings *settings = given->settings;
    id_lists rows = {0};
    logits_run run = {0};
    if (!settings->own.tokens || !settings->own.out || settings->own.data)
        return fail_usage("logits takes --tokens and --out");
    if (strcmp(settings->own.out, "-") == 0)
        return fail_usage("--out -: logits go to a file, not to standard output");
    int exit_status = id_lists_read(&rows, settings->own.tokens);
    if (!exit_status)
        exit_status = session_open_model(session, &settings->compute);
    if (!exit_status)
        exit_status = open_engine(given, session, settings->engine);
    const double started = seconds_now();
    if (!exit_status) {
        mica_status status = mica_tensor_writer_open(settings->own.out, &run.writer);
        if (status == MICA_OK)
            status = declare(run.writer, &rows, session->facts.n_vocab);
        if (status != MICA_OK)
            exit_status = fail_from(status, settings->own.out);
    }
    if (!exit_status)
        exit_status = write_logits(session, &rows, &run);
    if (!exit_status) {
        const mica_status status = mica_tensor_writer_finish(run.writer);
        run.writer = NULL;
        exit_status = status == MICA_OK ? report_logits(settings, &rows, session->facts.n_vocab,
                                                        seconds_now() - started)
                                        : fail_from(status, settings->own.out);
    }
    mica_tensor_writer_discard(run.writer);
    id_lists_free(&rows);
    return exit_status;
}

/* --- perplexity ------------------------------------------------------------------------------- */

typedef struct perplexity_run {
    const int32_t *window; /* [n] the tokens being scored */
    int64_t n;
    double sum, sum_squares; /* of the negative log-likelihoods, natural */
    int64_t count, windows;
} perplexity_run;

/* The negative log-likelihood of `token` under a row of logits. */
static double surprise(const float *logits, int64_t n_vocab, int32_t token)
{
    float most = logits[0];
    double sum = 0;
    for (int64_t i = 1; i < n_vocab; i++)
        most = logits[i] > most ? logits[i] : most;
    for (int64_t i = 0; i < n_vocab; i++)
        sum += exp((double)(logits[i] - most));
    return log(sum) - (double)(logits[token] - most);
}

static void score(void *owner, int64_t position, const float *logits, int64_t n_vocab)
{
    perplexity_run *run = owner;
    if (position + 1 >= run->n)
        return; /* what follows the window is not scored */
    const double nll = surprise(logits, n_vocab, run->window[position + 1]);
    run->sum += nll;
    run->sum_squares += nll * nll;
    run->count++;
}

static int score_windows(cli_session *session, int32_t *tokens, int64_t n_tokens, int64_t window,
                         perplexity_run *run)
{
    const int32_t bos =
        mica_tokenizer_adds_bos(session->tokenizer) ? mica_tokenizer_bos(session->tokenizer) : -1;
    const int64_t n_windows = n_tokens / window;
    int exit_status = 0;
    progress_begin("windows", n_windows);
    for (int64_t i = 0; i < n_windows && !exit_status; i++) {
        mica_request request;
        int32_t *at = tokens + i * window;
        if (bos >= 0)
            at[0] = bos;
        run->window = at;
        run->n = window;
        mica_request_init(&request);
        request.tokens = at;
        request.n_tokens = window;
        request.max_tokens = 0;
        request.on_logits = score;
        request.on_logits_owner = run;
        request.logits_from = window / 2;
        exit_status = run_prompt(session, &request);
        run->windows += !exit_status;
        progress_update(i + 1);
    }
    progress_end();
    return exit_status;
}

static int report_perplexity(const eval_settings *settings, const perplexity_run *run,
                             int64_t window, double seconds)
{
    const double n = (double)run->count, mean = run->sum / n;
    const double variance = run->sum_squares / n - mean * mean;
    const double value = exp(mean);
    const double error = run->count > 1 && variance > 0 ? value * sqrt(variance / (n - 1)) : 0;
    if (settings->output.json) {
        json_out json = {0};
        json_open(&json, NULL, '{');
        json_real(&json, "value", value);
        json_measured(&json, "standard_error", error, 6);
        json_real(&json, "nats_per_token", mean);
        json_integer(&json, "count", run->count);
        json_integer(&json, "windows", run->windows);
        json_integer(&json, "context", window);
        json_measured(&json, "seconds", seconds, 5);
        json_close(&json, '}');
        return json_print(&json);
    }
    printf("perplexity %.4f +- %.4f, %lld tokens in %lld windows of %lld\n", value, error,
           (long long)run->count, (long long)run->windows, (long long)window);
    if (!settings->output.quiet)
        fprintf(stderr, "[%.2f s]\n", seconds);
    return fflush(stdout) == 0 ? 0 : fail_with(MICA_E_IO, "standard output", "cannot be written");
}

/* The whole text as ids, the begin token included where the model adds one. */
static int read_text(const cli_session *session, const char *path, mica_token_list *ids)
{
    byte_buffer text = {0};
    int exit_status = read_all(path, &text);
    if (!exit_status) {
        const mica_status status =
            mica_tokenizer_encode(session->tokenizer, buffer_text(&text), (int64_t)text.length,
                                  MICA_ENCODE_ADD_SPECIAL, ids);
        if (status != MICA_OK)
            exit_status = fail_from(status, path);
    }
    buffer_free(&text);
    return exit_status;
}

static int64_t window_of(const eval_settings *settings, const cli_session *session)
{
    if (settings->engine.context)
        return settings->engine.context;
    return session->facts.context < DEFAULT_WINDOW ? session->facts.context : DEFAULT_WINDOW;
}

static int perplexity(const arguments *given, cli_session *session)
{
    const eval_settings *settings = given->settings;
    mica_token_list ids = {0};
    perplexity_run run = {0};
    engine_settings engine = settings->engine;
    if (!settings->own.data || settings->own.tokens || settings->own.out)
        return fail_usage("perplexity takes --data");
    int exit_status = session_open_model(session, &settings->compute);
    if (!exit_status)
        exit_status = session_open_tokenizer(session, true, false);
    const int64_t window = window_of(settings, session);
    engine.context = window;
    if (!exit_status)
        exit_status = open_engine(given, session, engine);
    if (!exit_status)
        exit_status = read_text(session, settings->own.data, &ids);
    if (!exit_status && (window < 4 || ids.n < 2 * window))
        exit_status = fail_with(MICA_E_ARGUMENT, settings->own.data,
                                "%lld tokens are too few: two windows of %lld (at least 4) are "
                                "needed; see --context",
                                (long long)ids.n, (long long)window);
    const double started = seconds_now();
    if (!exit_status)
        exit_status = score_windows(session, ids.ids, ids.n, window, &run);
    if (!exit_status)
        exit_status = report_perplexity(settings, &run, window, seconds_now() - started);
    else if (exit_status == EXIT_INTERRUPTED && !settings->output.quiet)
        fprintf(stderr, "[interrupted after %lld of %lld windows]\n", (long long)run.windows,
                (long long)(ids.n / window));
    mica_token_list_free(&ids);
    return exit_status;
}

/* --- the command ------------------------------------------------------------------------------ */

static int eval(const arguments *given)
{
    const eval_settings *settings = given->settings;
    const char *what = given->operands[0];
    cli_session session = {0};
    const bool wants_logits = strcmp(what, "logits") == 0;
    if (!wants_logits && strcmp(what, "perplexity") != 0)
        return fail_usage("'%s': logits or perplexity is needed", what);
    progress_allow(!settings->output.quiet);
    int exit_status = session_start(&session, &settings->model, &settings->compute);
    if (!exit_status)
        exit_status = wants_logits ? logits(given, &session) : perplexity(given, &session);
    session_close(&session);
    return exit_status;
}

static const option_group groups[] = {
    {"What to look at", own_options, offsetof(eval_settings, own)},
    SHARED_GROUP("Model", model, eval_settings),
    SHARED_GROUP("Computing", compute, eval_settings),
    SHARED_GROUP("Keys and values", engine, eval_settings),
    SHARED_GROUP("Output", output, eval_settings),
};

static const command_example examples[] = {
    {"Logits of given tokens in the reference mode",
     "mica eval logits --model DIR --tokens ids.json -o out.safetensors --activations f32"},
    {"Perplexity of a text", "mica eval perplexity --model model.gguf --data text.txt"},
    {0}};

const command_spec eval_command = {
    .name = "eval",
    .summary = "computes logits, or the perplexity of a text",
    .description =
        "logits writes the logits behind every given token to a safetensors file.\n\n"
        "perplexity cuts a text into windows of --context tokens (512 by default), each with the "
        "begin token first where the model adds one, and scores the second half of each. What is "
        "left at the end is not scored. With --json: value, standard_error, count of scored "
        "tokens, windows, seconds.",
    .operands = "logits|perplexity",
    .operand_words = "logits|perplexity",
    .min_operands = 1,
    .max_operands = 1,
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .settings_size = sizeof(eval_settings),
    .run = eval,
};
