/* generate.c - mica generate: completes one prompt, or many as one batch.
 *
 * One prompt streams: every character goes out as soon as it is certain. Several run side by side
 * and are shown in the order of their prompts.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/generate_prompts.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/prompt_cache.h"
#include "cli/run_report.h"
#include "cli/sampling.h"
#include "cli/session.h"

#define MOST_SEQUENCES 32

typedef struct generate_settings {
    output_settings output;
    model_settings model;
    compute_settings compute;
    engine_settings engine;
    sampling_settings sampling;
    template_settings template;
    ending_settings ending;
    prompt_settings prompt;
} generate_settings;

/* --- running ---------------------------------------------------------------------------------- */

typedef struct generation {
    const generate_settings *settings;
    cli_session session;
    prompt_batch batch;
    prompt_cache cache;
    cli_answer *answers; /* [prompts.n] */
    int64_t *requests;   /* [prompts.n] the engine's numbers */
    int64_t n_submitted, n_finished, n_shown;
    uint64_t seed;
    double started, loaded, first_token, ended;
} generation;

static int submit_next(generation *run, const mica_sampling *sampling)
{
    const ending_settings *ending = &run->settings->ending;
    const int64_t i = run->n_submitted, logprobs = run->settings->prompt.logprobs;
    mica_request request;
    mica_request_init(&request);
    request.tokens = run->batch.ids.ids + run->batch.ids.starts[i];
    request.n_tokens = run->batch.ids.starts[i + 1] - run->batch.ids.starts[i];
    request.max_tokens = ending->max_tokens;
    request.sampling = *sampling;
    request.ignore_end_tokens = ending->ignore_eos;
    request.stop_strings = ending->stop.items;
    request.n_stop_strings = ending->stop.n;
    request.logprobs = logprobs >= 0;
    request.n_top = logprobs > 0 ? (int32_t)logprobs : 0;
    const mica_status status = mica_engine_submit(run->session.engine, &request, &run->requests[i]);
    if (status != MICA_OK)
        return session_refused(status, run->batch.ids.n > 1 ? "one of the prompts" : "the prompt");
    run->n_submitted++;
    return 0;
}

/* Answers that are complete, in order, each under a line that names it. */
static int show_finished(generation *run)
{
    if (run->settings->output.json || run->batch.ids.n == 1)
        return 0;
    for (; run->n_shown < run->n_submitted && run->answers[run->n_shown].finished; run->n_shown++) {
        const cli_answer *shown = &run->answers[run->n_shown];
        const char *text = buffer_text(&shown->text);
        const size_t n = shown->text.length;
        progress_hide();
        printf("==> %lld <==\n", (long long)run->n_shown + 1);
        fwrite(text, 1, n, stdout);
        if (!n || text[n - 1] != '\n')
            putchar('\n');
    }
    return fflush(stdout) == 0 ? 0 : fail_with(MICA_E_IO, "standard output", "cannot be written");
}

static int take_events(generation *run)
{
    mica_event event;
    int exit_status = 0;
    while (!exit_status && mica_engine_next_event(run->session.engine, &event)) {
        int64_t i = event.request - run->requests[0];
        if (i < 0 || i >= run->n_submitted)
            continue;
        const bool drawn = event.kind == MICA_EVENT_TOKEN || event.reason == MICA_FINISH_STOP;
        if (drawn && run->first_token == 0)
            run->first_token = seconds_now();
        if (run->batch.ids.n == 1)
            progress_end(); /* the bar was the prompt's; now comes text */
        exit_status = answer_take(&run->answers[i], &event);
        run->n_finished += event.kind == MICA_EVENT_FINISHED;
    }
    return exit_status ? exit_status : show_finished(run);
}

static void cancel_all(generation *run)
{
    for (int64_t i = 0; i < run->n_submitted; i++)
        if (!run->answers[i].finished)
            mica_engine_cancel(run->session.engine, run->requests[i]);
}

static int steps(generation *run, const mica_sampling *sampling)
{
    int exit_status = 0;
    bool cancelled = false;
    if (run->batch.ids.n == 1)
        progress_begin("prompt", run->batch.ids.n_ids);
    else
        progress_begin("answers", run->batch.ids.n);
    while (run->n_finished < run->n_submitted ||
           (!cancelled && run->n_submitted < run->batch.ids.n)) {
        if (interrupted() && !cancelled) {
            cancelled = true;
            cancel_all(run);
        }
        while (!cancelled && !exit_status && run->n_submitted < run->batch.ids.n &&
               run->n_submitted - run->n_finished < 2 * MOST_SEQUENCES)
            exit_status = submit_next(run, sampling);
        if (exit_status)
            break;
        const mica_status status = mica_engine_step(run->session.engine);
        if (status != MICA_OK)
            exit_status = fail_from(status, run->session.path);
        if (!exit_status)
            exit_status = take_events(run);
        if (exit_status)
            break;
        progress_update(run->batch.ids.n == 1 ? session_computed(&run->session) : run->n_finished);
    }
    progress_end();
    run->ended = seconds_now();
    return !exit_status && interrupted() ? EXIT_INTERRUPTED : exit_status;
}

/* --- report ----------------------------------------------------------------------------------- */

static run_totals totals_of(const generation *run)
{
    run_totals totals = {.load_s = run->loaded - run->started};
    double prefill_s = 0;
    for (int64_t i = 0; i < run->n_submitted; i++) {
        const mica_usage *usage = &run->answers[i].usage;
        totals.prompt_tokens += usage->prompt_tokens - usage->cached_tokens;
        totals.output_tokens += run->answers[i].n_tokens;
    }
    if (run->first_token > 0) {
        totals.ttft_s = run->first_token - run->loaded;
        prefill_s = totals.ttft_s;
    }
    totals.prefill_s = prefill_s;
    totals.decode_s = run->ended - run->loaded - prefill_s;
    return totals;
}

static int print_json(const generation *run)
{
    json_out json = {0};
    const run_totals totals = totals_of(run);
    json_open(&json, NULL, '{');
    json_text(&json, "model", run->session.path);
    json_unsigned(&json, "seed", run->seed);
    if (run->batch.ids.n == 1)
        report_answer(&json, &run->answers[0], run->session.tokenizer, run->batch.ids.ids,
                      run->batch.ids.starts[1]);
    else {
        json_open(&json, "results", '[');
        for (int64_t i = 0; i < run->n_submitted; i++) {
            const int64_t from = run->batch.ids.starts[i];
            json_open(&json, NULL, '{');
            report_answer(&json, &run->answers[i], run->session.tokenizer,
                          run->batch.ids.ids + from, run->batch.ids.starts[i + 1] - from);
            json_close(&json, '}');
        }
        json_close(&json, ']');
    }
    prompt_cache_report(&json, &run->cache, run->answers[0].usage.cached_tokens);
    report_timing(&json, &totals);
    report_memory(&json, &run->session);
    json_close(&json, '}');
    return json_print(&json);
}

/* Sequences that ended for want of memory or by an error make the command fail, after what they
 * have was shown. */
static int check_answers(const generation *run)
{
    for (int64_t i = 0; i < run->n_submitted; i++)
        if (run->answers[i].status != MICA_OK)
            return fail_with(run->answers[i].status, run->session.path, "%s",
                             run->answers[i].message);
    return 0;
}

static int report(const generation *run)
{
    const output_settings *output = &run->settings->output;
    const cli_answer *only = &run->answers[0];
    const int exit_status = check_answers(run);
    if (exit_status)
        return exit_status;
    if (output->json)
        return print_json(run);
    if (run->batch.ids.n == 1 && !only->last_was_newline && (only->wrote || !interrupted()))
        putchar('\n');
    if (fflush(stdout) != 0)
        return fail_with(MICA_E_IO, "standard output", "cannot be written");
    if (!output->quiet && run->first_token == 0 && interrupted())
        fputs("[interrupted before the first token]\n", stderr);
    else if (!output->quiet) {
        const run_totals totals = totals_of(run);
        report_line(&totals);
        if (run->settings->sampling.seed.random)
            fprintf(stderr, "[seed %llu]\n", (unsigned long long)run->seed);
    }
    if (!output->quiet)
        prompt_cache_line(&run->cache, only->usage.cached_tokens);
    return 0;
}

/* --- the command ------------------------------------------------------------------------------ */

static int open_all(generation *run, const arguments *given)
{
    const generate_settings *settings = run->settings;
    cli_session *session = &run->session;
    int exit_status = session_start(session, &settings->model, &settings->compute);
    if (!exit_status)
        exit_status = session_open_model(session, &settings->compute);
    if (!exit_status)
        exit_status = session_open_tokenizer(session, settings->prompt.tokens == NULL,
                                             !settings->output.quiet);
    if (!exit_status)
        exit_status = session_add_endings(session, &settings->ending);
    if (!exit_status)
        exit_status = prompts_read(&settings->prompt, &settings->template, session, &run->batch);
    if (exit_status)
        return exit_status;
    session->decode_flags = MICA_DECODE_SKIP_SPECIAL;
    if (!run->batch.chat)
        session->decode_flags |= MICA_DECODE_CONTINUE;
    const int64_t n = run->batch.ids.n;
    exit_status = session_open_engine(session, given, &settings->engine,
                                      n < MOST_SEQUENCES ? n : MOST_SEQUENCES);
    run->cache.prompt = run->batch.ids.ids;
    run->cache.n_prompt = run->batch.ids.starts[1];
    return exit_status ? exit_status : prompt_cache_load(&run->cache, session);
}

static int make_answers(generation *run)
{
    const bool show = run->batch.ids.n == 1 && !run->settings->output.json;
    run->answers = calloc((size_t)run->batch.ids.n, sizeof *run->answers);
    run->requests = calloc((size_t)run->batch.ids.n, sizeof *run->requests);
    if (!run->answers || !run->requests)
        return fail_memory();
    for (int64_t i = 0; i < run->batch.ids.n; i++) {
        run->answers[i].keep_logprobs = run->settings->prompt.logprobs >= 0;
        run->answers[i].show = show;
        run->answers[i].show_ids = !run->session.tokenizer;
        run->answers[i].state = run->batch.states[i];
        run->answers[i].color = show && isatty(STDOUT_FILENO);
    }
    return 0;
}

/* Runs the prompts, keeps what is to be kept, and says what came of it. */
static int run_and_report(generation *run, const mica_sampling *sampling)
{
    const int exit_status = steps(run, sampling);
    if (exit_status != 0 && exit_status != EXIT_INTERRUPTED)
        return exit_status;
    const int kept = prompt_cache_save(&run->cache, &run->session);
    if (kept && run->settings->output.json)
        return kept; /* the error is the one object */
    const int reported = report(run);
    return reported ? reported : kept ? kept : exit_status;
}

static int generate(const arguments *given)
{
    const generate_settings *settings = given->settings;
    generation run = {.settings = settings,
                      .cache = {.path = settings->prompt.prompt_cache_file,
                                .read_only = settings->prompt.prompt_cache_ro},
                      .started = seconds_now()};
    sampling_lists lists = {0};
    mica_sampling sampling = {0};
    progress_allow(!run.settings->output.quiet);
    int exit_status =
        prompts_check(&run.settings->prompt, &run.settings->template, run.settings->output.json);
    if (!exit_status && option_times(given, "prompt") > 1)
        exit_status = fail_usage("--prompt was given %d times: --prompts FILE takes several",
                                 option_times(given, "prompt"));
    if (!exit_status)
        exit_status = prompt_cache_check(&run.cache);
    if (!exit_status)
        exit_status = open_all(&run, given);
    run.loaded = seconds_now();
    run.started += seconds_reading(); /* who types slowly does not make loading slow */
    if (!exit_status)
        exit_status = sampling_make(&run.settings->sampling, &run.session, &lists, &sampling);
    run.seed = sampling.seed;
    if (!exit_status)
        exit_status = make_answers(&run);
    if (!exit_status)
        exit_status = run_and_report(&run, &sampling);
    for (int64_t i = 0; run.answers && i < run.batch.ids.n; i++)
        answer_free(&run.answers[i]);
    free(run.answers);
    free(run.requests);
    sampling_free(&lists);
    prompts_free(&run.batch);
    session_close(&run.session);
    return exit_status;
}

static const option_group groups[] = {
    SHARED_GROUP("Prompt", prompt, generate_settings),
    SHARED_GROUP("Chat template", template, generate_settings),
    SHARED_GROUP("End of the answer", ending, generate_settings),
    SHARED_GROUP("Sampling", sampling, generate_settings),
    {"Seed", seed_options, offsetof(generate_settings, sampling)},
    SHARED_GROUP("Model", model, generate_settings),
    SHARED_GROUP("Computing", compute, generate_settings),
    SHARED_GROUP("Keys and values", engine, generate_settings),
    SHARED_GROUP("Output", output, generate_settings),
};

static const command_example examples[] = {
    {"Continue a story with the built-in model",
     "mica generate --prompt \"Once upon a time\" --max-tokens 100"},
    {"Ask a chat model, sampling with a seed",
     "mica generate --model model.gguf --prompt \"Name three rivers.\" --temp 0.7 --seed 1"},
    {"A prompt from a pipe, the answer as JSON",
     "git log -1 | mica generate --model model.gguf --prompt - --json"},
    {"Compute a long text once; later prompts that begin with it, and name the same file, go on "
     "there",
     "mica generate --model model.gguf -f book.txt --prompt-cache-file book.kv --max-tokens 0"},
    {0}};

const command_spec generate_command = {
    .name = "generate",
    .summary = "completes a prompt, or many prompts as one batch",
    .description =
        "Computes the prompt and writes the continuation to standard output as it comes. "
        "A timing line follows on standard error. For a model with a chat template the prompt is a "
        "user's message, and what it thinks before it answers is shown dimmed on a terminal.\n\n"
        "With --json: seed, prompt_tokens, tokens, text, finish_reason (stop, length, stop_string, "
        "memory, cancelled), reasoning where the model thought first, logprobs with --logprobs, "
        "timing (load_s, ttft_s, prefill_tok_s, "
        "decode_tok_s) and memory in bytes (weights: of the model's tensors; kv: keys and values "
        "at most; program_peak: everything that mica allocated at most, mapped weights aside; "
        "process_peak: resident memory at most), and with --prompt-cache-file prompt_cache (file; "
        "cached_tokens: of the prompt, not computed; saved_tokens: written after the run, 0 when "
        "the file stayed as it was). Several prompts give a list under results.",
    .operands = "",
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .settings_size = sizeof(generate_settings),
    .run = generate,
};
