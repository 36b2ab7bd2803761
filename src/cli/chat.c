/* chat.c - mica chat: a conversation, on a terminal or through a pipe.
 *
 * Every turn renders the whole conversation again; the engine's prefix cache knows the beginning
 * and computes only what is new.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/progress.h"
#include "cli/run_report.h"
#include "cli/sampling.h"
#include "cli/session.h"

typedef struct chat_settings {
    output_settings output;
    model_settings model;
    compute_settings compute;
    engine_settings engine;
    sampling_settings sampling;
    template_settings template;
    ending_settings ending;
} chat_settings;

typedef struct chat_run {
    const chat_settings *settings;
    cli_session session;
    chat_prompt prompt;
    conversation talk;
    line_reader *reader;
    sampling_lists lists;
    mica_sampling sampling;
    mica_usage usage; /* of the last answer */
    int64_t answers;
    bool terminal, notes;
    bool quit;
} chat_run;

/* --- sampling --------------------------------------------------------------------------------- */

/* What the options do not say comes from the model's files, or from the usual where they are
 * silent. */
static int choose_sampling(chat_run *run, const arguments *given)
{
    mica_sampling recommended = {.temperature = 1, .top_p = 1};
    bool named;
    int exit_status =
        sampling_make(&run->settings->sampling, &run->session, &run->lists, &run->sampling);
    if (exit_status)
        return exit_status;
    const mica_status status = mica_model_sampling(run->session.model, &recommended, &named);
    if (status != MICA_OK)
        return fail_from(status, run->session.path);
    if (!named) {
        recommended.temperature = 0.7f;
        recommended.top_p = 0.95f;
    }
    if (!option_given(given, "temp"))
        run->sampling.temperature = recommended.temperature;
    if (!option_given(given, "top-p"))
        run->sampling.top_p = recommended.top_p;
    if (!option_given(given, "min-p"))
        run->sampling.min_p = recommended.min_p;
    if (!option_given(given, "top-k"))
        run->sampling.top_k = recommended.top_k;
    if (!option_given(given, "typical-p"))
        run->sampling.typical_p = recommended.typical_p;
    if (!option_given(given, "xtc-probability"))
        run->sampling.xtc_probability = recommended.xtc_probability;
    if (!option_given(given, "xtc-threshold") && recommended.xtc_threshold > 0)
        run->sampling.xtc_threshold = recommended.xtc_threshold;
    if (!option_given(given, "repetition-penalty"))
        run->sampling.repetition_penalty = recommended.repetition_penalty;
    if (!option_given(given, "repetition-context-size") && recommended.repetition_window > 0)
        run->sampling.repetition_window = recommended.repetition_window;
    return 0;
}

/* --- a turn ----------------------------------------------------------------------------------- */

/* The conversation as ids, and how the answer begins. */
static int make_prompt(chat_run *run, mica_token_list *ids, thinking_state *state)
{
    *state = THINKING_NONE;
    if (!run->prompt.compiled) {
        byte_buffer text = {0};
        conversation_text(&run->talk, &text);
        mica_status status = MICA_E_MEMORY;
        if (!text.failed)
            status = mica_tokenizer_encode(run->session.tokenizer, buffer_text(&text),
                                           (int64_t)text.length, MICA_ENCODE_ADD_SPECIAL, ids);
        buffer_free(&text);
        if (status != MICA_OK)
            return fail_from(status, "the text");
        if (ids->n > 0 && mica_tokenizer_adds_eos(run->session.tokenizer))
            ids->n--;
        return 0;
    }
    json_out messages = {0};
    chat_text text = {0};
    conversation_json(&run->talk, &messages);
    int exit_status = messages.text.failed ? fail_memory() : 0;
    if (!exit_status)
        exit_status =
            chat_prompt_render(&run->prompt, messages.text.bytes, NULL, true, NULL, &text);
    if (!exit_status)
        exit_status = chat_prompt_encode(&run->prompt, &text, ids);
    if (!exit_status)
        *state = chat_prompt_thinking(&run->prompt, &text);
    json_free(&messages);
    chat_text_free(&text);
    return exit_status;
}

/* The same with the oldest turns left out where they would leave no room for an answer. Half of the
 * context is freed at once, so that the next turns find their beginning in the prefix cache. */
static int make_fitting_prompt(chat_run *run, mica_token_list *ids, thinking_state *state)
{
    const int64_t asked = run->settings->engine.context;
    const int64_t context = asked ? asked : run->session.facts.context;
    const int before = run->talk.left_out;
    int64_t room = context / 4;
    if (run->settings->ending.max_tokens >= 0 && run->settings->ending.max_tokens < room)
        room = run->settings->ending.max_tokens;
    int exit_status = make_prompt(run, ids, state);
    while (!exit_status && ids->n + room > context && conversation_leave_out(&run->talk)) {
        room = context / 2;
        ids->n = 0;
        exit_status = make_prompt(run, ids, state);
    }
    if (before == 0 && run->talk.left_out && run->notes)
        fprintf(stderr,
                "[the context of %lld tokens is full: the oldest messages are left out from here "
                "on; /clear forgets all]\n",
                (long long)context);
    return exit_status;
}

static int submit(chat_run *run, const mica_token_list *ids, int64_t *id)
{
    const ending_settings *ending = &run->settings->ending;
    mica_request request;
    mica_request_init(&request);
    request.tokens = ids->ids;
    request.n_tokens = ids->n;
    request.max_tokens = ending->max_tokens;
    request.sampling = run->sampling;
    request.ignore_end_tokens = ending->ignore_eos;
    request.stop_strings = ending->stop.items;
    request.n_stop_strings = ending->stop.n;
    const mica_status status = mica_engine_submit(run->session.engine, &request, id);
    return status == MICA_OK ? 0 : session_refused(status, "the conversation");
}

static int run_answer(chat_run *run, int64_t id, int64_t n_prompt, cli_answer *made)
{
    mica_event event;
    bool cancelled = false;
    int exit_status = 0;
    const int64_t before = session_computed(&run->session);
    progress_begin("prompt", n_prompt);
    while (!made->finished && !exit_status) {
        if (interrupted() && !cancelled) {
            cancelled = true;
            mica_engine_cancel(run->session.engine, id);
        }
        const mica_status status = mica_engine_step(run->session.engine);
        if (status != MICA_OK)
            exit_status = fail_from(status, run->session.path);
        while (!exit_status && mica_engine_next_event(run->session.engine, &event))
            if (event.request == id) {
                progress_end(); /* now comes text */
                exit_status = answer_take(made, &event);
            }
        progress_update(session_computed(&run->session) - before);
    }
    progress_end();
    return exit_status;
}

static void note_end(const chat_run *run, const cli_answer *made)
{
    if (!run->notes)
        return;
    if (made->reason == MICA_FINISH_CANCELLED)
        fputs("[stopped]\n", stderr);
    if (made->reason == MICA_FINISH_LENGTH)
        fprintf(stderr, "[cut off after %lld tokens]\n", (long long)made->n_tokens);
}

/* Answers the conversation as it stands and adds the answer to it. */
static int answer_turn(chat_run *run)
{
    mica_token_list ids = {0};
    cli_answer made = {.show = true, .color = isatty(STDOUT_FILENO)};
    int64_t id;
    int exit_status = make_fitting_prompt(run, &ids, &made.state);
    if (!exit_status)
        exit_status = submit(run, &ids, &id);
    if (!exit_status)
        exit_status = run_answer(run, id, ids.n, &made);
    mica_token_list_free(&ids);
    if (!exit_status) {
        if (!made.last_was_newline)
            putchar('\n');
        exit_status =
            conversation_add(&run->talk, "assistant", buffer_text(&made.text), made.text.length);
        run->usage = made.usage;
        run->answers++;
        note_end(run, &made);
    }
    if (!exit_status && made.status != MICA_OK)
        exit_status = fail_with(made.status, NULL, "%s", made.message);
    if (!exit_status && fflush(stdout) != 0)
        exit_status = fail_with(MICA_E_IO, "standard output", "cannot be written");
    if (asked_to_end())
        exit_status = EXIT_INTERRUPTED;
    else if (interrupted())
        interrupt_clear(); /* also when the answer had just ended */
    answer_free(&made);
    return exit_status;
}

/* A failed turn leaves the conversation as it was before. On a terminal it goes on. */
static int turn(chat_run *run, const char *message, size_t n)
{
    const int before = run->talk.n;
    int exit_status = conversation_add(&run->talk, "user", message, n);
    if (!exit_status)
        exit_status = answer_turn(run);
    if (exit_status)
        conversation_cut(&run->talk, before);
    return exit_status;
}

/* --- commands --------------------------------------------------------------------------------- */

static int do_system(chat_run *run, const char *argument)
{
    if (!run->prompt.compiled)
        return fail_with(MICA_E_UNSUPPORTED, "/system", "the model has no chat template");
    return conversation_set_system(&run->talk, argument);
}

static int do_save(chat_run *run, const char *argument)
{
    if (!*argument)
        return fail_usage("/save needs a file name");
    const int exit_status = conversation_save(&run->talk, argument);
    if (!exit_status && run->notes)
        fprintf(stderr, "[%d messages in %s]\n", run->talk.n, argument);
    return exit_status;
}

static int do_load(chat_run *run, const char *argument)
{
    if (!*argument)
        return fail_usage("/load needs a file name");
    const int exit_status = conversation_load(&run->talk, argument);
    if (!exit_status && run->notes)
        fprintf(stderr, "[%d messages from %s]\n", run->talk.n, argument);
    return exit_status;
}

static int do_stats(chat_run *run, const char *argument)
{
    mica_engine_stats stats;
    mica_memory_usage memory;
    char kv[MICA_NUMBER_TEXT_BYTES], active[MICA_NUMBER_TEXT_BYTES];
    const mica_usage *usage = &run->usage;
    (void)argument;
    mica_engine_read_stats(run->session.engine, &stats);
    mica_memory_read(&memory);
    mica_size_format(kv, stats.kv_used);
    mica_size_format(active, memory.active);
    fprintf(stderr, "%d messages, %lld answers, %lld tokens drawn, seed %llu\n", run->talk.n,
            (long long)run->answers, (long long)stats.output_tokens,
            (unsigned long long)run->sampling.seed);
    const double decode_s = usage->total_s - usage->first_token_s;
    if (run->answers)
        fprintf(stderr,
                "last answer: %lld tokens of prompt (%lld from the cache), first token after "
                "%.3f s, then %.1f tokens/s\n",
                (long long)usage->prompt_tokens, (long long)usage->cached_tokens,
                usage->first_token_s,
                decode_s > 0 ? (double)(usage->output_tokens - 1) / decode_s : 0);
    fprintf(stderr, "keys and values %s, all memory of mica %s, weights mapped beside it\n", kv,
            active);
    return 0;
}

static int do_retry(chat_run *run, const char *argument)
{
    (void)argument;
    if (!conversation_ends_with(&run->talk, "assistant"))
        return fail_with(MICA_E_STATE, "/retry", "there is no answer to give again");
    chat_message before = run->talk.messages[--run->talk.n];
    run->sampling.seed++;
    const int exit_status = answer_turn(run);
    if (exit_status && !conversation_ends_with(&run->talk, "assistant"))
        run->talk.messages[run->talk.n++] = before; /* its place is still there */
    else
        buffer_free(&before.content);
    return exit_status;
}

static int do_clear(chat_run *run, const char *argument)
{
    const bool system = run->talk.n > 0 && strcmp(run->talk.messages[0].role, "system") == 0;
    (void)argument;
    conversation_cut(&run->talk, system);
    return 0;
}

static int do_quit(chat_run *run, const char *argument)
{
    (void)argument;
    run->quit = true;
    return 0;
}

static int do_help(chat_run *run, const char *argument);

static const struct {
    const char *name, *argument, *help;
    int (*run)(chat_run *run, const char *argument);
} chat_commands[] = {
    {"/system", "TEXT", "sets the system message; without TEXT there is none", do_system},
    {"/retry", "", "gives another answer", do_retry},
    {"/clear", "", "forgets all messages but the system message", do_clear},
    {"/save", "FILE", "writes the conversation as JSON", do_save},
    {"/load", "FILE", "goes on with a conversation that was saved", do_load},
    {"/stats", "", "shows times and memory", do_stats},
    {"/help", "", "shows this", do_help},
    {"/quit", "", "ends; so does Ctrl-D", do_quit},
};

static int do_help(chat_run *run, const char *argument)
{
    (void)run;
    (void)argument;
    for (int i = 0; i < COUNT_OF(chat_commands); i++)
        fprintf(stderr, "  %-8s %-5s %s\n", chat_commands[i].name, chat_commands[i].argument,
                chat_commands[i].help);
    fputs("A line that ends with a backslash goes on in the next one; \"\"\" begins and ends a\n"
          "message of several lines; // begins a message with a slash. Ctrl-C stops an answer.\n",
          stderr);
    return 0;
}

static int do_command(chat_run *run, const char *line)
{
    const char *names[COUNT_OF(chat_commands)];
    char word[24];
    size_t n = strcspn(line, " \t");
    const char *argument = line + n + strspn(line + n, " \t");
    for (int i = 0; i < COUNT_OF(chat_commands); i++) {
        names[i] = chat_commands[i].name;
        if (strlen(names[i]) == n && memcmp(names[i], line, n) == 0)
            return chat_commands[i].run(run, argument);
    }
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), line);
    const char *near = nearest_word(word, names, COUNT_OF(chat_commands));
    return near ? fail_usage("there is no %s; did you mean %s?", word, near)
                : fail_usage("there is no %s; /help lists what there is", word);
}

/* --- reading ---------------------------------------------------------------------------------- */

#define FENCE "\"\"\""

static bool ends_with(const byte_buffer *text, const char *end)
{
    const size_t n = strlen(end);
    return text->length >= n && memcmp(text->bytes + text->length - n, end, n) == 0;
}

static void cut(byte_buffer *text, size_t n)
{
    text->length -= n;
    text->bytes[text->length] = '\0';
}

/* The lines up to one that ends with the fence. What came behind the opening one is in `message`.
 */
static line_result read_fenced(chat_run *run, byte_buffer *message)
{
    byte_buffer line = {0};
    line_result result = LINE_READ;
    while (result == LINE_READ && !ends_with(message, FENCE)) {
        result = line_reader_next(run->reader, "... ", &line);
        if (result != LINE_READ)
            break;
        if (message->length)
            buffer_add(message, "\n", 1);
        buffer_add(message, buffer_text(&line), line.length);
    }
    if (result == LINE_READ)
        cut(message, strlen(FENCE));
    while (message->length && message->bytes[message->length - 1] == '\n')
        cut(message, 1);
    buffer_free(&line);
    return result == LINE_END ? LINE_READ : result; /* the end of the input ends a message too */
}

/* A message: one line, several joined by backslashes, or what stands between fences. *plain: it
 * cannot be a command. */
static line_result read_message(chat_run *run, byte_buffer *message, bool *plain)
{
    byte_buffer line = {0};
    buffer_clear(message);
    *plain = false;
    line_result result = line_reader_next(run->reader, "> ", &line);
    if (result == LINE_READ && line.length >= 3 && memcmp(line.bytes, FENCE, 3) == 0) {
        *plain = true;
        buffer_add(message, line.bytes + 3, line.length - 3);
        buffer_free(&line);
        return read_fenced(run, message);
    }
    while (result == LINE_READ) {
        const bool goes_on = ends_with(&line, "\\");
        buffer_add(message, buffer_text(&line), line.length - goes_on);
        if (!goes_on)
            break;
        buffer_add(message, "\n", 1);
        *plain = true;
        result = line_reader_next(run->reader, "... ", &line);
    }
    if (result == LINE_END && message->length)
        result = LINE_READ;
    buffer_free(&line);
    return message->failed ? LINE_FAILED : result;
}

static int take_message(chat_run *run, const byte_buffer *message, bool plain)
{
    const char *text = buffer_text(message);
    if (message->length == 0)
        return 0;
    if (!plain && text[0] == '/' && text[1] != '/')
        return do_command(run, text);
    const bool escaped = !plain && text[0] == '/';
    return turn(run, text + escaped, message->length - escaped);
}

static int talk(chat_run *run)
{
    byte_buffer message = {0};
    bool plain;
    int exit_status = 0, mistakes = 0;
    while (!exit_status && !run->quit) {
        const line_result result = read_message(run, &message, &plain);
        if (result == LINE_END)
            break;
        if (result == LINE_INTERRUPTED)
            exit_status = EXIT_INTERRUPTED;
        else if (result == LINE_FAILED)
            exit_status = fail_with(MICA_E_IO, "standard input", "cannot be read");
        else
            exit_status = take_message(run, &message, plain);
        const bool mistyped = exit_status == EXIT_USAGE;
        if (result == LINE_READ && (mistyped || (run->terminal && exit_status == EXIT_FAILED))) {
            report_brief();
            mistakes |= mistyped && !run->terminal;
            exit_status = 0;
        }
    }
    buffer_free(&message);
    return exit_status || !mistakes ? exit_status : EXIT_USAGE;
}

/* --- the command ------------------------------------------------------------------------------ */

static int open_all(chat_run *run, const arguments *given)
{
    const chat_settings *settings = run->settings;
    cli_session *session = &run->session;
    int exit_status = session_start(session, &settings->model, &settings->compute);
    if (!exit_status)
        exit_status = session_open_model(session, &settings->compute);
    if (!exit_status)
        exit_status = session_open_tokenizer(session, true, false);
    if (!exit_status)
        exit_status = session_add_endings(session, &settings->ending);
    if (!exit_status)
        exit_status = chat_prompt_open(&run->prompt, session->tokenizer, &settings->template);
    if (!exit_status)
        exit_status = choose_sampling(run, given);
    if (exit_status)
        return exit_status;
    session->decode_flags = MICA_DECODE_SKIP_SPECIAL;
    if (!run->prompt.compiled)
        session->decode_flags |= MICA_DECODE_CONTINUE;
    if (settings->template.system_prompt)
        exit_status = conversation_set_system(&run->talk, settings->template.system_prompt);
    return exit_status ? exit_status : session_open_engine(session, given, &settings->engine, 1);
}

static void greet(const chat_run *run)
{
    if (!run->notes)
        return;
    if (run->terminal)
        fprintf(stderr, "%s. /help lists commands, Ctrl-D ends.\n", run->session.facts.name);
    if (!run->prompt.compiled)
        fputs("[no chat template: the text is continued as it is]\n", stderr);
}

static int chat(const arguments *given)
{
    chat_run run = {.settings = given->settings};
    run.notes = !run.settings->output.quiet;
    progress_allow(run.notes);
    int exit_status = open_all(&run, given);
    if (!exit_status) {
        run.reader = line_reader_open();
        exit_status = run.reader ? 0 : fail_memory();
    }
    if (!exit_status) {
        run.terminal = line_reader_is_terminal(run.reader);
        greet(&run);
        exit_status = talk(&run);
    }
    line_reader_close(run.reader);
    conversation_free(&run.talk);
    chat_prompt_free(&run.prompt);
    sampling_free(&run.lists);
    session_close(&run.session);
    return exit_status;
}

static const option_group groups[] = {
    SHARED_GROUP("Chat template", template, chat_settings),
    SHARED_GROUP("End of an answer", ending, chat_settings),
    SHARED_GROUP("Sampling", sampling, chat_settings),
    {"Seed", random_seed_options, offsetof(chat_settings, sampling)},
    SHARED_GROUP("Model", model, chat_settings),
    SHARED_GROUP("Computing", compute, chat_settings),
    SHARED_GROUP("Keys and values", engine, chat_settings),
    {"Output", output_options + 1, offsetof(chat_settings, output)}, /* all but --json */
};

static const command_example examples[] = {
    {"Talk to a model in at most 2 GB", "mica chat --model model.gguf --memory-limit 2G"},
    {"Two turns from a pipe",
     "printf 'Name a river.\\nWhere is it?\\n' | mica chat --model model.gguf"},
    {0}};

const command_spec chat_command = {
    .name = "chat",
    .summary = "talks with a model",
    .description =
        "Every line is a message, and the answer comes as it is made. On a terminal lines can be "
        "edited and earlier ones recalled. A line that ends with a backslash goes on in the next "
        "one, and three double quotes begin and end a message of several lines.\n\n"
        "/system TEXT sets the system message, /retry gives another answer, /clear forgets the "
        "conversation, /save FILE and /load FILE write and read it as JSON, /stats shows times "
        "and memory, /help lists the commands, /quit ends. A message that begins with a slash is "
        "written with two. From a pipe, a command that does not exist is said on standard error, "
        "the rest goes on, and the exit status is 2; a failure ends it.\n\n"
        "When the conversation outgrows the context, its oldest turns are left out of what the "
        "model reads, until half of the context is free; the system message stays, /save writes "
        "all.\n\n"
        "Ctrl-C stops an answer, and what there is of it stays; at the prompt it ends the "
        "program.\n\n"
        "Temperature and the like come from generation_config.json or the general.sampling keys "
        "of a GGUF file; where these are silent, --temp is 0.7 and --top-p 0.95. Without --seed "
        "every run draws other answers. A model without "
        "a chat template, such as the built-in one, continues the text.",
    .operands = "",
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .settings_size = sizeof(chat_settings),
    .run = chat,
};
