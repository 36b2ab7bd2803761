/* plan.c - mica plan: what a model will take, before it is run.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>

#include "cli/bandwidth.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/json_out.h"
#include "cli/session.h"

typedef struct size_settings {
    int64_t batch;
} size_settings;

typedef struct plan_settings {
    output_settings output;
    model_settings model;
    compute_settings compute;
    engine_settings engine;
    size_settings own;
} plan_settings;

static const option_spec own_options[] = {{"batch", 'b', OPTION_INTEGER,
                                           offsetof(size_settings, batch), "N", "1", 1, 512,
                                           "Sequences at once, each with the whole context."},
                                          {0}};

typedef struct prediction {
    mica_plan plan;
    double bandwidth;     /* bytes a second, 0: not measured */
    double decode_tok_s;  /* all sequences together, at the beginning of the context */
    double decode_full_s; /* and at its end */
} prediction;

/* A step reads the weights once, and of every sequence its keys and values. */
static void predict(prediction *made)
{
    const mica_plan *plan = &made->plan;
    const double weights = (double)plan->read_per_token, n = (double)plan->sequences;
    if (made->bandwidth <= 0 || weights <= 0)
        return;
    made->decode_tok_s = n * made->bandwidth / weights;
    made->decode_full_s = n * made->bandwidth / (weights + (double)plan->kv);
}

static bool fits(const mica_plan *plan)
{
    return !plan->limit || plan->total <= plan->limit;
}

/* --- showing ---------------------------------------------------------------------------------- */

static int print_json(const prediction *made, const cli_session *session, mica_kv_dtype kv)
{
    const mica_plan *plan = &made->plan;
    json_out json = {0};
    json_open(&json, NULL, '{');
    json_text(&json, "model", session->path);
    json_text(&json, "architecture", session->facts.architecture);
    json_text(&json, "kv_type", mica_kv_dtype_name(kv));
    json_integer(&json, "context", plan->context);
    json_integer(&json, "sequences", plan->sequences);
    json_integer(&json, "weights", plan->weights);
    json_integer(&json, "read_per_token", plan->read_per_token);
    json_integer(&json, "kv_per_token", plan->kv_per_token);
    json_integer(&json, "kv_window", plan->kv_window);
    json_integer(&json, "kv", plan->kv);
    json_integer(&json, "prefill_peak", plan->prefill_peak);
    json_integer(&json, "decode_peak", plan->decode_peak);
    json_integer(&json, "overhead", plan->overhead);
    json_integer(&json, "total", plan->total);
    json_integer(&json, "max_context", plan->max_context);
    if (plan->limit)
        json_integer(&json, "limit", plan->limit);
    else
        json_null(&json, "limit");
    json_bool(&json, "fits", fits(plan));
    json_integer(&json, "threads", mica_threads(session->mc));
    json_measured(&json, "bandwidth", made->bandwidth, 4);
    json_measured(&json, "decode_tok_s", made->decode_tok_s, 4);
    json_measured(&json, "decode_full_tok_s", made->decode_full_s, 4);
    json_close(&json, '}');
    return json_print(&json);
}

static void line(const char *what, int64_t bytes, const char *note)
{
    char size[MICA_NUMBER_TEXT_BYTES];
    mica_size_format(size, bytes);
    printf("%-22s %12s   %s\n", what, size, note);
}

static int print_text(const prediction *made, const cli_session *session, mica_kv_dtype kv)
{
    const mica_plan *plan = &made->plan;
    char note[128], size[MICA_NUMBER_TEXT_BYTES];
    printf("%s: %s, %lld sequence%s of %lld tokens, kv %s\n", session->path,
           session->facts.architecture, (long long)plan->sequences, plan->sequences == 1 ? "" : "s",
           (long long)plan->context, mica_kv_dtype_name(kv));
    line("weights", plan->weights, "mapped from the file");
    line("kv per token", plan->kv_per_token, "of one sequence");
    if (plan->kv_window)
        line("kv of sliding layers", plan->kv_window, "of one sequence, at most");
    line("kv", plan->kv, "when every sequence is full");
    line("prefill peak", plan->prefill_peak, "of the largest step");
    line("decode peak", plan->decode_peak, "of a step of one token a sequence");
    line("overhead", plan->overhead, "vocabulary, programs, lists, at most");
    line("total", plan->total, "weights, kv, the larger peak, overhead");
    if (plan->limit) {
        mica_size_format(size, plan->limit);
        if (fits(plan))
            printf("%-22s %12s   under the limit of %s\n", "fits", "yes", size);
        else
            printf("it does not fit under the limit of %s\n", size);
    }
    snprintf(note, sizeof note, "tokens of one sequence%s", plan->limit ? " under the limit" : "");
    printf("%-22s %12lld   %s\n", "longest context", (long long)plan->max_context, note);
    if (made->bandwidth > 0) {
        printf("%-22s %12.1f   GB/s, measured just now on %d threads\n", "memory bandwidth",
               made->bandwidth / 1e9, mica_threads(session->mc));
        printf("%-22s %12.1f   tokens/s at most; %.1f with a full context\n", "predicted decode",
               made->decode_tok_s, made->decode_full_s);
    }
    return fflush(stdout) == 0 ? 0 : fail_with(MICA_E_IO, "standard output", "cannot be written");
}

/* --- the command ------------------------------------------------------------------------------ */

static int make_plan(const arguments *given, cli_session *session, prediction *made,
                     mica_kv_dtype *kv)
{
    const plan_settings *settings = given->settings;
    const model_settings unlimited = {.model = settings->model.model};
    int exit_status = settings_kv(given, &settings->engine, kv);
    if (!exit_status)
        exit_status = session_start(session, &unlimited, &settings->compute);
    if (!exit_status)
        exit_status = session_open_model(session, &settings->compute);
    if (!exit_status)
        exit_status = session_check_context(session, &settings->engine);
    if (exit_status)
        return exit_status;
    const mica_engine_options options = {.kv_dtype = *kv, .context = settings->engine.context};
    const mica_status status = mica_plan_model(session->model, &options, settings->own.batch,
                                               settings->model.memory_limit, &made->plan);
    if (status != MICA_OK)
        return fail_from(status, session->path);
    made->bandwidth = bandwidth_measure(mica_threads(session->mc));
    predict(made);
    return 0;
}

static int plan(const arguments *given)
{
    const plan_settings *settings = given->settings;
    cli_session session = {0};
    prediction made = {0};
    mica_kv_dtype kv;
    if (settings->engine.kv_memory)
        return fail_usage("--kv-memory has no effect here: the plan says what it would have to be");
    int exit_status = make_plan(given, &session, &made, &kv);
    if (!exit_status)
        exit_status = settings->output.json ? print_json(&made, &session, kv)
                                            : print_text(&made, &session, kv);
    if (!exit_status && !fits(&made.plan))
        exit_status = EXIT_FAILED; /* what there is to say has been printed */
    session_close(&session);
    return exit_status;
}

static const option_group groups[] = {
    {"What to plan for", own_options, offsetof(plan_settings, own)},
    SHARED_GROUP("Model", model, plan_settings),
    SHARED_GROUP("Computing", compute, plan_settings),
    SHARED_GROUP("Keys and values", engine, plan_settings),
    SHARED_GROUP("Output", output, plan_settings),
};

static const command_example examples[] = {
    {"Does it fit with a context of 8192 tokens",
     "mica plan --model model.gguf --context 8192 --memory-limit 4G"},
    {"Eight sequences with quantised keys and values",
     "mica plan --model model.gguf --batch 8 --kv q8 --json"},
    {0}};

const command_spec plan_command = {
    .name = "plan",
    .summary = "says what will fit into memory, before anything runs",
    .description =
        "Prints the memory that weights, keys and values and the steps' programs will take, and "
        "the longest context that fits under --memory-limit, which is planned for here and not "
        "obeyed. Exit status 1 says that the whole does not fit under it. The peaks are exact; the "
        "overhead is an upper bound for what else a run holds, so that a run under a limit of the "
        "total succeeds.\n\n"
        "The predicted speed is the memory bandwidth divided by what a token reads: an upper "
        "bound. The bandwidth is the best of a few readings of a buffer, on all threads with many "
        "streams each, in 0.3 seconds at most; a model that fits into the processor's caches can "
        "be faster.\n\n"
        "With --json sizes are bytes and bandwidth is bytes a second.",
    .operands = "",
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .ends_at_once = true,
    .settings_size = sizeof(plan_settings),
    .run = plan,
};
