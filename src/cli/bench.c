/* bench.c - mica bench: how fast prompts are computed and tokens are drawn, as plain figures.
 *
 * Only the model's steps are timed: no text, no sampling. Token ids are random but the same in
 * every run. Each figure has one run to warm up and is the median of the repeats.
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
#include "cli/run_report.h"
#include "cli/session.h"

#define MOST_FIGURES   128
#define MOST_REPEATS   1000
#define BATCH_PROMPT   16
#define BATCH_STEPS    32
#define STEP_TOKENS    512
#define FIGURE_BYTES   64
#define FIRST_TOKEN_ID 260
#define LAST_TOKEN_ID  32000

typedef struct run_settings {
    int64_t prompt, generate, depth, repeats;
    integer_list batch, kv;
} run_settings;

typedef struct bench_settings {
    output_settings output;
    model_settings model;
    compute_settings compute;
    run_settings own;
} bench_settings;

#define OWN(field) offsetof(run_settings, field)

static const option_spec own_options[] = {
    {"prompt-tokens", 'p', OPTION_INTEGER, OWN(prompt), "N", "512", 0, 1e9,
     "Tokens of the prompt whose computation is measured: ppN_tps. 0 leaves it out."},
    {"gen-tokens", 'n', OPTION_INTEGER, OWN(generate), "N", "128", 0, 1e9,
     "Steps of one token that are measured: tgN_tps. 0 leaves it out."},
    {"depth", 'd', OPTION_INTEGER, OWN(depth), "N", "0", 0, 1e9,
     "Measures both behind a context of N tokens: ppN_dD_tps and tgN_dD_tps."},
    {"batch", 'b', OPTION_INTEGERS, OWN(batch), "N,N...", NULL, 1, 512,
     "Numbers of sequences that are decoded side by side, 32 steps each: decode_bN_tps, all "
     "sequences together."},
    {"repeats", 'r', OPTION_INTEGER, OWN(repeats), "N", "3", 1, MOST_REPEATS,
     "Runs of each figure after one to warm up. The figure is their median."},
    {"kv", 0, OPTION_CHOICES, OWN(kv), KV_WORDS, "f16", 0, 0,
     "How keys and values are stored. Of several, separated by commas, the figures of the second "
     "and later ones carry the type in their name: pp512_q8_tps."},
    {0}};

typedef struct figure {
    char name[FIGURE_BYTES];
    double value;
    double *repeats; /* [n_repeats] */
    int64_t n_repeats;
    double fast_steps; /* rate of the fastest tenth of the steps, 0 where there is none */
} figure;

typedef struct bench_run {
    const bench_settings *settings;
    cli_session session;
    figure figures[MOST_FIGURES];
    int n_figures;
    uint64_t random;
    int32_t *tokens; /* room for depth + prompt tokens, and for a batch's prompts */
    int32_t *depth_tokens;
    double *step_s; /* [step_capacity] times of the steps of the last run */
    int64_t n_steps, step_capacity;
    const char *kv_suffix;
    int64_t n_done;
} bench_run;

/* --- figures ---------------------------------------------------------------------------------- */

static figure *add_figure(bench_run *run, const char *name)
{
    figure *added = &run->figures[run->n_figures++];
    snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

static void add_plain(bench_run *run, const char *name, double value)
{
    add_figure(run, name)->value = value;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int64_t n)
{
    double sorted[MOST_REPEATS];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* A small generator of our own (splitmix64), so that every run has the same ids. */
static int32_t random_token(bench_run *run)
{
    run->random += 0x9e3779b97f4a7c15u;
    uint64_t z = run->random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    int64_t low = FIRST_TOKEN_ID, high = run->session.facts.n_vocab;
    if (high > LAST_TOKEN_ID)
        high = LAST_TOKEN_ID;
    if (high - low < 64)
        low = 0;
    return (int32_t)(low + (int64_t)(z % (uint64_t)(high - low)));
}

/* The prefix of the depth, then random tokens: n in all. */
static void fill_tokens(bench_run *run, int32_t *tokens, int64_t depth, int64_t n)
{
    if (depth)
        memcpy(tokens, run->depth_tokens, (size_t)depth * sizeof *tokens);
    for (int64_t i = depth; i < n; i++)
        tokens[i] = random_token(run);
}

/* --- steps ------------------------------------------------------------------------------------ */

static int submit(bench_run *run, const int32_t *tokens, int64_t n, int64_t max_tokens)
{
    mica_request request;
    int64_t id;
    mica_request_init(&request);
    request.tokens = tokens;
    request.n_tokens = n;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    const mica_status status = mica_engine_submit(run->session.engine, &request, &id);
    return status == MICA_OK ? 0 : fail_from(status, run->session.path);
}

/* A step: its time inside the model and the tokens that it computed. Events are taken and looked at
 * for failures only. */
static int step(bench_run *run, double *seconds, int64_t *computed)
{
    mica_engine *engine = run->session.engine;
    mica_engine_stats before, after;
    mica_event event;
    if (interrupted())
        return EXIT_INTERRUPTED;
    mica_engine_read_stats(engine, &before);
    const mica_status status = mica_engine_step(engine);
    if (status != MICA_OK)
        return fail_from(status, run->session.path);
    mica_engine_read_stats(engine, &after);
    *seconds = after.model_s - before.model_s;
    *computed = after.computed_tokens - before.computed_tokens;
    while (mica_engine_next_event(engine, &event))
        if (event.kind == MICA_EVENT_FINISHED && event.status != MICA_OK)
            return fail_with(event.status, run->session.path, "%s", event.message);
    return 0;
}

/* Runs everything submitted. Steps count from the first `skip` of them on, where they computed
 * exactly `exact` tokens (0: any number). */
static int run_steps(bench_run *run, int64_t skip, int64_t exact, double *seconds,
                     int64_t *computed)
{
    *seconds = 0;
    *computed = 0;
    run->n_steps = 0;
    for (int64_t i = 0; mica_engine_pending(run->session.engine) > 0; i++) {
        double one_s;
        int64_t n;
        const int exit_status = step(run, &one_s, &n);
        if (exit_status)
            return exit_status;
        if (i < skip || (exact && n != exact))
            continue;
        *seconds += one_s;
        *computed += n;
        if (run->n_steps < run->step_capacity)
            run->step_s[run->n_steps++] = one_s;
    }
    return interrupted() ? EXIT_INTERRUPTED : 0;
}

/* --- what is measured ------------------------------------------------------------------------- */

/* One run of a figure: its rate in tokens a second. `sequences` is for batches. */
typedef int measure(bench_run *run, int64_t sequences, double *rate);

static void forget(bench_run *run)
{
    if (!run->settings->own.depth)
        mica_engine_clear_prefix_cache(run->session.engine);
}

/* A prompt behind the depth, the prediction of its last token included. */
static int measure_prompt(bench_run *run, int64_t sequences, double *rate)
{
    const run_settings *own = &run->settings->own;
    double seconds;
    int64_t computed;
    (void)sequences;
    forget(run);
    fill_tokens(run, run->tokens, own->depth, own->depth + own->prompt);
    int exit_status = submit(run, run->tokens, own->depth + own->prompt, 1);
    if (!exit_status)
        exit_status = run_steps(run, 0, 0, &seconds, &computed);
    run->n_steps = 0; /* chunks of a prompt are not alike */
    if (!exit_status)
        *rate = (double)computed / seconds;
    return exit_status;
}

/* Steps of one token after one token behind the depth. */
static int measure_generation(bench_run *run, int64_t sequences, double *rate)
{
    const run_settings *own = &run->settings->own;
    double seconds;
    int64_t computed;
    (void)sequences;
    forget(run);
    fill_tokens(run, run->tokens, own->depth, own->depth + 1);
    int exit_status = submit(run, run->tokens, own->depth + 1, own->generate + 1);
    if (!exit_status)
        exit_status = run_steps(run, 1, 1, &seconds, &computed);
    if (!exit_status)
        *rate = (double)computed / seconds;
    return exit_status;
}

/* Sequences side by side: steps in which all of them draw a token. */
static int measure_batch(bench_run *run, int64_t sequences, double *rate)
{
    double seconds;
    int64_t computed;
    int exit_status = 0;
    forget(run);
    for (int64_t i = 0; i < sequences && !exit_status; i++) {
        fill_tokens(run, run->tokens, 0, BATCH_PROMPT);
        exit_status = submit(run, run->tokens, BATCH_PROMPT, BATCH_STEPS + 1);
    }
    if (!exit_status)
        exit_status = run_steps(run, 1, sequences, &seconds, &computed);
    if (!exit_status && computed == 0)
        exit_status =
            fail_with(MICA_E_MEMORY, run->session.path,
                      "%lld sequences do not fit into memory side by side", (long long)sequences);
    if (!exit_status)
        *rate = (double)computed / seconds;
    return exit_status;
}

/* Warms up once, then repeats; `sequences` tokens come of each step. */
static int measure_figure(bench_run *run, const char *name, measure *once, int64_t sequences)
{
    const int64_t n = run->settings->own.repeats;
    figure *made = add_figure(run, name);
    double ignored;
    made->repeats = calloc((size_t)n, sizeof *made->repeats);
    if (!made->repeats)
        return fail_memory();
    int exit_status = once(run, sequences, &ignored);
    for (int64_t i = 0; i < n && !exit_status; i++) {
        exit_status = once(run, sequences, &made->repeats[i]);
        made->n_repeats += !exit_status;
        progress_update(++run->n_done);
        if (exit_status || !run->n_steps)
            continue;
        qsort(run->step_s, (size_t)run->n_steps, sizeof *run->step_s, compare);
        made->fast_steps =
            fmax(made->fast_steps, (double)sequences / run->step_s[run->n_steps / 10]);
    }
    if (!exit_status)
        made->value = median(made->repeats, n);
    return exit_status;
}

/* --- one KV type ------------------------------------------------------------------------------ */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int open_engine(bench_run *run, mica_kv_dtype kv)
{
    const run_settings *own = &run->settings->own;
    int64_t context = own->depth + larger(own->prompt, own->generate + 1) + 1, sequences = 1;
    for (int i = 0; i < own->batch.n; i++)
        sequences = larger(sequences, own->batch.items[i]);
    if (own->batch.n)
        context = larger(context, BATCH_PROMPT + BATCH_STEPS + 1);
    if (context > run->session.facts.context)
        return fail_with(MICA_E_ARGUMENT, run->session.path,
                         "these figures need a context of %lld tokens; the model has %lld",
                         (long long)context, (long long)run->session.facts.context);
    const mica_engine_options options = {.kv_dtype = kv,
                                         .context = context,
                                         .max_sequences = sequences,
                                         .queue_limit = larger(sequences, 1)};
    const mica_status status = mica_engine_open(run->session.model, &options, &run->session.engine);
    if (status != MICA_OK)
        return fail_from(status, run->session.path);
    interrupt_watch(run->session.engine);
    return 0;
}

/* Computes the context that the figures stand behind; the prefix cache keeps it. */
static int compute_depth(bench_run *run)
{
    const int64_t depth = run->settings->own.depth;
    double seconds;
    int64_t computed;
    if (!depth)
        return 0;
    const int exit_status = submit(run, run->depth_tokens, depth, 0);
    return exit_status ? exit_status : run_steps(run, 0, 0, &seconds, &computed);
}

static int measure_kv(bench_run *run)
{
    const run_settings *own = &run->settings->own;
    char name[FIGURE_BYTES], at[24] = "";
    if (own->depth)
        snprintf(at, sizeof at, "_d%lld", (long long)own->depth);
    int exit_status = compute_depth(run);
    snprintf(name, sizeof name, "pp%lld%s%s_tps", (long long)own->prompt, at, run->kv_suffix);
    if (!exit_status && own->prompt)
        exit_status = measure_figure(run, name, measure_prompt, 1);
    snprintf(name, sizeof name, "tg%lld%s%s_tps", (long long)own->generate, at, run->kv_suffix);
    if (!exit_status && own->generate)
        exit_status = measure_figure(run, name, measure_generation, 1);
    for (int i = 0; i < own->batch.n && !exit_status; i++) {
        snprintf(name, sizeof name, "decode_b%lld%s_tps", (long long)own->batch.items[i],
                 run->kv_suffix);
        exit_status = measure_figure(run, name, measure_batch, own->batch.items[i]);
    }
    return exit_status;
}

/* --- the command ------------------------------------------------------------------------------ */

static int allocate(bench_run *run)
{
    const run_settings *own = &run->settings->own;
    const int64_t n_tokens = own->depth + larger(own->prompt, BATCH_PROMPT) + 1;
    run->step_capacity = larger(own->generate, 2 * BATCH_STEPS) + 1;
    run->tokens = calloc((size_t)n_tokens, sizeof *run->tokens);
    run->depth_tokens = calloc((size_t)own->depth + 1, sizeof *run->depth_tokens);
    run->step_s = calloc((size_t)run->step_capacity, sizeof *run->step_s);
    if (!run->tokens || !run->depth_tokens || !run->step_s)
        return fail_memory();
    return 0;
}

/* The first prompt token after opening: it pages in what the loader left. */
static int measure_first(bench_run *run)
{
    double seconds;
    int64_t computed;
    const int32_t token = random_token(run);
    const double started = seconds_now();
    int exit_status = submit(run, &token, 1, 1);
    if (!exit_status)
        exit_status = run_steps(run, 0, 0, &seconds, &computed);
    add_plain(run, "first_ms", 1e3 * (seconds_now() - started));
    return exit_status;
}

static int measure_all(bench_run *run)
{
    const run_settings *own = &run->settings->own;
    const double started = seconds_now();
    int exit_status = session_start(&run->session, &run->settings->model, &run->settings->compute);
    if (!exit_status)
        exit_status = session_open_model(&run->session, &run->settings->compute);
    const int n_figures = (own->prompt > 0) + (own->generate > 0) + own->batch.n;
    if (!exit_status && own->kv.n * n_figures > MOST_FIGURES - 4)
        exit_status = fail_usage("--batch and --kv ask for more than %d figures", MOST_FIGURES - 4);
    progress_begin("bench", own->kv.n * n_figures * own->repeats);
    for (int i = 0; i < own->kv.n && !exit_status; i++) {
        const mica_kv_dtype kv = (mica_kv_dtype)own->kv.items[i];
        char suffix[16] = "";
        if (i)
            snprintf(suffix, sizeof suffix, "_%s", mica_kv_dtype_name(kv));
        run->kv_suffix = suffix;
        exit_status = open_engine(run, kv);
        if (!exit_status && !i) {
            add_plain(run, "load_ms", 1e3 * (seconds_now() - started));
            exit_status = measure_first(run);
        }
        run->random = 7;
        for (int64_t k = 0; k < own->depth && !exit_status; k++)
            run->depth_tokens[k] = random_token(run);
        if (!exit_status)
            exit_status = measure_kv(run);
        if (!exit_status && i == own->kv.n - 1) {
            add_plain(run, "rss_mb", (double)process_memory("VmRSS") / 1048576);
            add_plain(run, "anon_mb", (double)process_memory("RssAnon") / 1048576);
        }
        interrupt_watch(NULL);
        mica_engine_free(run->session.engine);
        run->session.engine = NULL;
    }
    progress_end();
    return exit_status;
}

static int print_json(const bench_run *run)
{
    const run_settings *own = &run->settings->own;
    json_out json = {0};
    json_open(&json, NULL, '{');
    json_open(&json, "mica", '{');
    json_text(&json, "version", MICA_VERSION);
    json_text(&json, "model", run->session.path);
    json_integer(&json, "threads", mica_threads(run->session.mc));
    json_text(&json, "isa", mica_isa(run->session.mc));
    json_text(&json, "activations",
              run->session.facts.activations == MICA_ACTIVATIONS_F32 ? "f32" : "int8");
    json_open(&json, "kv", '[');
    for (int i = 0; i < own->kv.n; i++)
        json_text(&json, NULL, mica_kv_dtype_name((mica_kv_dtype)own->kv.items[i]));
    json_close(&json, ']');
    json_close(&json, '}');
    json_open(&json, "repeats", '{');
    for (int i = 0; i < run->n_figures; i++) {
        const figure *at = &run->figures[i];
        char name[FIGURE_BYTES + 16];
        if (!at->repeats)
            continue;
        json_open(&json, at->name, '[');
        for (int64_t k = 0; k < at->n_repeats; k++)
            json_measured(&json, NULL, at->repeats[k], 6);
        json_close(&json, ']');
        snprintf(name, sizeof name, "%s_fast_steps", at->name);
        if (at->fast_steps > 0)
            json_measured(&json, name, at->fast_steps, 6);
    }
    json_close(&json, '}');
    json_open(&json, "figures", '{');
    for (int i = 0; i < run->n_figures; i++)
        json_measured(&json, run->figures[i].name, run->figures[i].value, 5);
    json_close(&json, '}');
    json_close(&json, '}');
    return json_print(&json);
}

static int print_text(const bench_run *run)
{
    printf("%s, %d threads, %s\n", run->session.path, mica_threads(run->session.mc),
           mica_isa(run->session.mc));
    for (int i = 0; i < run->n_figures; i++) {
        const figure *at = &run->figures[i];
        printf("%-20s %10.5g", at->name, at->value);
        if (at->n_repeats > 1)
            printf("   of");
        for (int64_t k = 0; at->n_repeats > 1 && k < at->n_repeats; k++)
            printf(" %.5g", at->repeats[k]);
        putchar('\n');
    }
    return fflush(stdout) == 0 ? 0 : fail_with(MICA_E_IO, "standard output", "cannot be written");
}

static int bench(const arguments *given)
{
    bench_run *run = calloc(1, sizeof *run);
    if (!run)
        return fail_memory();
    run->settings = given->settings;
    progress_allow(!run->settings->output.quiet);
    int exit_status = allocate(run);
    if (!exit_status)
        exit_status = measure_all(run);
    if (!exit_status)
        exit_status = run->settings->output.json ? print_json(run) : print_text(run);
    for (int i = 0; i < run->n_figures; i++)
        free(run->figures[i].repeats);
    free(run->tokens);
    free(run->depth_tokens);
    free(run->step_s);
    session_close(&run->session);
    free(run);
    return exit_status;
}

static const option_group groups[] = {
    {"Measurement", own_options, offsetof(bench_settings, own)},
    SHARED_GROUP("Model", model, bench_settings),
    SHARED_GROUP("Computing", compute, bench_settings),
    SHARED_GROUP("Output", output, bench_settings),
};

static const command_example examples[] = {
    {"Prompt of 512 tokens, 64 steps, on two threads",
     "mica bench --model model.gguf -p 512 -n 64 -t 2"},
    {"Several sequences side by side, behind nothing", "mica bench -p 0 -n 0 -b 1,4,8,16 --json"},
    {0}};

const command_spec bench_command = {
    .name = "bench",
    .summary = "measures prompt processing and generation",
    .description =
        "Figures end in their unit: tokens a second (tps), milliseconds (ms), mebibytes (mb). "
        "load_ms is the time from opening the file until steps can run, first_ms that of the "
        "first token after it, rss_mb the resident memory at the end, anon_mb the part of it that "
        "is no mapped file.\n\n"
        "With --json they stand under figures, and every repeat under repeats, with the rate of "
        "the fastest tenth of the steps as NAME_fast_steps: what a run that was disturbed could "
        "have reached.",
    .operands = "",
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .settings_size = sizeof(bench_settings),
    .run = bench,
};
