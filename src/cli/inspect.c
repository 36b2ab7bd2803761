/* inspect.c - mica inspect: what a file or a model is, without running it.
 *
 * Works on every file that can be opened; whether the architecture is one that mica runs is part of
 * what is shown.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "cli/session.h"

#define SHOWN_ELEMENTS 8
#define SHOWN_BYTES    120
#define SHOWN_VALUES   8
#define CHUNK          4096

typedef struct look_settings {
    text_list tensor;
    bool verify, full;
} look_settings;

typedef struct inspect_settings {
    output_settings output;
    model_settings model;
    look_settings own;
} inspect_settings;

#define OWN(field) offsetof(look_settings, field)

static const option_spec own_options[] = {
    {"tensor", 0, OPTION_TEXTS, OWN(tensor), "NAME", NULL, 0, 0,
     "Shows values and statistics of a tensor, dequantised. May be given several times."},
    {"verify", 0, OPTION_FLAG, OWN(verify), NULL, NULL, 0, 0,
     "Reads everything: opening checks every limit, this also every scale and float for being "
     "finite. Findings make the command fail."},
    {"full", 0, OPTION_FLAG, OWN(full), NULL, NULL, 0, 0,
     "With --json: arrays and the chat template whole, not only their beginning."},
    {0}};

typedef struct statistics {
    int64_t n, n_zero, n_not_finite;
    double least, most, mean, deviation; /* of the finite values */
    double first[SHOWN_VALUES], last[SHOWN_VALUES];
    int n_first, n_last;
} statistics;

typedef struct inspection {
    const inspect_settings *settings;
    cli_session session;
    mica_file *file;
    bool runs;          /* the model can be opened */
    char refusal[1024]; /* why it cannot */
    char no_tokenizer[1024];
    byte_buffer findings; /* of --verify, a line each */
    int64_t n_findings;
} inspection;

/* --- statistics ------------------------------------------------------------------------------- */

static void add_values(statistics *stats, const double *values, int64_t n, double *sum,
                       double *squares)
{
    for (int64_t i = 0; i < n; i++) {
        const double value = values[i];
        stats->n_zero += value == 0;
        if (!isfinite(value)) {
            stats->n_not_finite++;
            continue;
        }
        stats->least = fmin(stats->least, value);
        stats->most = fmax(stats->most, value);
        *sum += value;
        *squares += value * value;
    }
}

static int look_at_values(const mica_file *file, int64_t tensor, statistics *stats)
{
    double values[CHUNK], sum = 0, squares = 0;
    *stats = (statistics){
        .n = mica_file_tensor_at(file, tensor).n_values, .least = INFINITY, .most = -INFINITY};
    progress_begin("values", stats->n);
    for (int64_t done = 0; done < stats->n; done += CHUNK) {
        const int64_t n = stats->n - done < CHUNK ? stats->n - done : CHUNK;
        const mica_status status = mica_file_read_tensor(file, tensor, done, n, values);
        if (status != MICA_OK)
            return fail_from(status, NULL);
        if (interrupted())
            return EXIT_INTERRUPTED;
        add_values(stats, values, n, &sum, &squares);
        progress_update(done + n);
    }
    progress_end();
    const double n_finite = (double)(stats->n - stats->n_not_finite);
    if (n_finite > 0) {
        stats->mean = sum / n_finite;
        stats->deviation = sqrt(fmax(0, squares / n_finite - stats->mean * stats->mean));
    }
    stats->n_first = (int)(stats->n < SHOWN_VALUES ? stats->n : SHOWN_VALUES);
    stats->n_last =
        (int)(stats->n - stats->n_first < SHOWN_VALUES ? stats->n - stats->n_first : SHOWN_VALUES);
    mica_status status = mica_file_read_tensor(file, tensor, 0, stats->n_first, stats->first);
    if (status == MICA_OK)
        status = mica_file_read_tensor(file, tensor, stats->n - stats->n_last, stats->n_last,
                                       stats->last);
    return status == MICA_OK ? 0 : fail_from(status, NULL);
}

/* --- verifying -------------------------------------------------------------------------------- */

static int verify(inspection *look)
{
    const int64_t n = mica_file_n_tensors(look->file);
    progress_begin("tensors", n);
    for (int64_t i = 0; i < n; i++) {
        if (interrupted())
            return EXIT_INTERRUPTED;
        const mica_status status = mica_file_check_tensor(look->file, i);
        if (status != MICA_OK) {
            buffer_format(&look->findings, "%s\n", mica_last_error());
            look->n_findings++;
        }
        progress_update(i + 1);
    }
    progress_end();
    return look->findings.failed ? fail_memory() : 0;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_value(json_out *json, const char *key, const mica_file_value *value)
{
    switch (value->kind) {
    case MICA_FILE_INTEGER:
        json_integer(json, key, value->integer);
        break;
    case MICA_FILE_REAL:
        json_real(json, key, value->real);
        break;
    case MICA_FILE_BOOL:
        json_bool(json, key, value->integer != 0);
        break;
    case MICA_FILE_STRING:
        json_bytes(json, key, value->string, (size_t)value->length);
        break;
    }
}

static int json_key(const inspection *look, json_out *json, int64_t i)
{
    const mica_file_key key = mica_file_key_at(look->file, i);
    const int64_t n = look->settings->own.full || key.n < SHOWN_ELEMENTS ? key.n : SHOWN_ELEMENTS;
    mica_file_value *values = calloc((size_t)n + 1, sizeof *values);
    if (!values)
        return fail_memory();
    const mica_status status = mica_file_read_key(look->file, i, 0, n, values);
    if (status != MICA_OK) {
        free(values);
        return fail_from(status, NULL);
    }
    json_open(json, NULL, '{');
    json_bytes(json, "key", key.name, (size_t)key.name_length);
    json_text(json, "type", key.type);
    if (key.is_array) {
        json_integer(json, "n", key.n);
        json_open(json, "values", '[');
        for (int64_t k = 0; k < n; k++)
            json_value(json, NULL, &values[k]);
        json_close(json, ']');
    } else {
        json_value(json, "value", &values[0]);
    }
    json_close(json, '}');
    free(values);
    return 0;
}

static int json_keys(const inspection *look, json_out *json)
{
    const int64_t n = mica_file_n_keys(look->file);
    int exit_status = 0;
    json_open(json, "metadata", '[');
    for (int64_t i = 0; i < n && !exit_status; i++)
        exit_status = json_key(look, json, i);
    json_close(json, ']');
    return exit_status;
}

static void json_tensors(const inspection *look, json_out *json)
{
    json_open(json, "tensors", '[');
    for (int64_t i = 0; i < mica_file_n_tensors(look->file); i++) {
        const mica_file_tensor tensor = mica_file_tensor_at(look->file, i);
        json_open(json, NULL, '{');
        json_text(json, "name", tensor.name);
        json_text(json, "type", tensor.type);
        json_open(json, "shape", '[');
        for (int d = 0; d < tensor.n_dims; d++)
            json_integer(json, NULL, tensor.shape[d]);
        json_close(json, ']');
        json_integer(json, "bytes", tensor.bytes);
        json_integer(json, "part", tensor.part);
        json_integer(json, "offset", tensor.offset);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_architecture(const inspection *look, json_out *json)
{
    const mica_model_facts *facts = &look->session.facts;
    if (!look->runs) {
        json_null(json, "architecture");
        json_text(json, "refused", look->refusal);
        return;
    }
    json_open(json, "architecture", '{');
    json_text(json, "name", facts->architecture);
    json_text(json, "model", facts->name);
    json_integer(json, "parameters", facts->n_parameters);
    json_integer(json, "weight_bytes", facts->weight_bytes);
    json_integer(json, "read_bytes_per_token", facts->read_bytes);
    json_integer(json, "layers", facts->n_layers);
    json_integer(json, "hidden", facts->hidden);
    json_integer(json, "heads", facts->n_heads);
    json_integer(json, "kv_heads", facts->n_kv_heads);
    json_integer(json, "head_dim", facts->head_dim);
    json_integer(json, "vocabulary", facts->n_vocab);
    json_integer(json, "context", facts->context);
    json_integer(json, "window", facts->window);
    json_integer(json, "sliding_layers", facts->n_sliding_layers);
    json_close(json, '}');
}

static void json_token(json_out *json, const char *key, const mica_tokenizer *tokenizer, int32_t id)
{
    if (id < 0) {
        json_null(json, key);
        return;
    }
    json_open(json, key, '{');
    json_integer(json, "id", id);
    json_text(json, "text", mica_tokenizer_token_text(tokenizer, id, NULL));
    json_close(json, '}');
}

static void json_tokenizer(const inspection *look, json_out *json)
{
    const mica_tokenizer *tokenizer = look->session.tokenizer;
    int64_t n_end = 0;
    if (!tokenizer) {
        json_null(json, "tokenizer");
        return;
    }
    json_open(json, "tokenizer", '{');
    json_text(json, "kind", mica_tokenizer_kind(tokenizer));
    json_integer(json, "vocabulary", mica_tokenizer_n_vocab(tokenizer));
    json_token(json, "bos", tokenizer, mica_tokenizer_bos(tokenizer));
    json_token(json, "eos", tokenizer, mica_tokenizer_eos(tokenizer));
    json_token(json, "eot", tokenizer, mica_tokenizer_eot(tokenizer));
    json_token(json, "unk", tokenizer, mica_tokenizer_unk(tokenizer));
    json_token(json, "pad", tokenizer, mica_tokenizer_pad(tokenizer));
    json_bool(json, "adds_bos", mica_tokenizer_adds_bos(tokenizer));
    json_bool(json, "adds_eos", mica_tokenizer_adds_eos(tokenizer));
    const int32_t *end = mica_tokenizer_end_tokens(tokenizer, &n_end);
    json_ids(json, "end_tokens", end, n_end);
    json_close(json, '}');
}

static void json_templates(const inspection *look, json_out *json)
{
    const char *name;
    json_open(json, "chat_templates", '{');
    for (int i = 0; look->session.tokenizer &&
                    (name = mica_tokenizer_chat_template_name(look->session.tokenizer, i)) != NULL;
         i++) {
        const char *text = mica_tokenizer_chat_template(look->session.tokenizer, name);
        size_t n = text ? strlen(text) : 0;
        if (!look->settings->own.full && n > SHOWN_BYTES)
            n = SHOWN_BYTES;
        json_bytes(json, name, text ? text : "", n);
    }
    json_close(json, '}');
}

static int json_statistics(const inspection *look, json_out *json)
{
    const text_list *names = &look->settings->own.tensor;
    if (!names->n)
        return 0;
    json_open(json, "values", '{');
    for (int k = 0; k < names->n; k++) {
        statistics stats;
        const int exit_status =
            look_at_values(look->file, mica_file_find_tensor(look->file, names->items[k]), &stats);
        if (exit_status)
            return exit_status;
        json_open(json, names->items[k], '{');
        json_integer(json, "n", stats.n);
        json_real(json, "least", stats.least);
        json_real(json, "most", stats.most);
        json_real(json, "mean", stats.mean);
        json_real(json, "deviation", stats.deviation);
        json_integer(json, "zeros", stats.n_zero);
        json_integer(json, "not_finite", stats.n_not_finite);
        json_open(json, "first", '[');
        for (int i = 0; i < stats.n_first; i++)
            json_real(json, NULL, stats.first[i]);
        json_close(json, ']');
        json_open(json, "last", '[');
        for (int i = 0; i < stats.n_last; i++)
            json_real(json, NULL, stats.last[i]);
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, '}');
    return 0;
}

static int print_json(const inspection *look)
{
    json_out json = {0};
    json_open(&json, NULL, '{');
    json_text(&json, "path", look->session.path);
    json_text(&json, "format", mica_file_format(look->file));
    if (mica_file_version(look->file))
        json_integer(&json, "version", mica_file_version(look->file));
    json_open(&json, "parts", '[');
    for (int i = 0; i < mica_file_n_parts(look->file); i++)
        json_text(&json, NULL, mica_file_part(look->file, i));
    json_close(&json, ']');
    json_architecture(look, &json);
    json_tokenizer(look, &json);
    json_templates(look, &json);
    int exit_status = json_keys(look, &json);
    json_tensors(look, &json);
    if (!exit_status)
        exit_status = json_statistics(look, &json);
    if (look->settings->own.verify)
        json_bool(&json, "verified", look->n_findings == 0);
    json_close(&json, '}');
    if (!exit_status)
        return json_print(&json);
    json_free(&json);
    return exit_status;
}

/* --- text ------------------------------------------------------------------------------------- */

/* The beginning of a text as a JSON string, so that nothing in a file reaches the terminal raw. */
static void print_quoted(const char *bytes, int64_t n)
{
    json_out quoted = {0};
    json_bytes(&quoted, NULL, bytes, (size_t)(n > SHOWN_BYTES ? SHOWN_BYTES : n));
    printf("%s%s", buffer_text(&quoted.text), n > SHOWN_BYTES ? "..." : "");
    json_free(&quoted);
}

/* A float's value is shown with a float's digits. */
static int format_real(char text[MICA_NUMBER_TEXT_BYTES], double value)
{
    return (double)(float)value == value ? mica_float_format(text, (float)value)
                                         : mica_number_format(text, value);
}

/* A name from a file: control characters are shown as '?'. */
static void print_name(const char *name, int64_t n, int width)
{
    for (int64_t i = 0; i < n; i++)
        putchar((unsigned char)name[i] < 32 || name[i] == 127 ? '?' : name[i]);
    printf("%*s", n < width ? (int)(width - n) : 0, "");
}

static void print_value(const mica_file_value *value)
{
    char text[MICA_NUMBER_TEXT_BYTES];
    if (value->kind == MICA_FILE_STRING) {
        print_quoted(value->string, value->length);
        return;
    }
    if (value->kind == MICA_FILE_REAL)
        format_real(text, value->real);
    else if (value->kind == MICA_FILE_INTEGER)
        snprintf(text, sizeof text, "%lld", (long long)value->integer);
    else
        snprintf(text, sizeof text, "%s", value->integer ? "true" : "false");
    fputs(text, stdout);
}

static int print_keys(const inspection *look)
{
    const int64_t n_keys = mica_file_n_keys(look->file);
    if (n_keys)
        printf("\nMetadata: %lld keys\n", (long long)n_keys);
    for (int64_t i = 0; i < n_keys; i++) {
        const mica_file_key key = mica_file_key_at(look->file, i);
        mica_file_value values[SHOWN_ELEMENTS];
        const int64_t n = key.n < SHOWN_ELEMENTS ? key.n : SHOWN_ELEMENTS;
        const mica_status status = mica_file_read_key(look->file, i, 0, n, values);
        if (status != MICA_OK)
            return fail_from(status, NULL);
        printf("  ");
        print_name(key.name, key.name_length, 44);
        printf(" %-6s ", key.type);
        if (key.is_array)
            printf("[%lld] ", (long long)key.n);
        for (int64_t k = 0; k < n; k++) {
            print_value(&values[k]);
            fputs(k + 1 < n ? ", " : key.n > n ? ", ..." : "", stdout);
        }
        putchar('\n');
    }
    return 0;
}

static void print_tensors(const inspection *look)
{
    const int64_t n = mica_file_n_tensors(look->file);
    printf("\nTensors: %lld\n", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const mica_file_tensor tensor = mica_file_tensor_at(look->file, i);
        char size[MICA_NUMBER_TEXT_BYTES];
        mica_size_format(size, tensor.bytes);
        printf("  ");
        print_name(tensor.name, (int64_t)strlen(tensor.name), 44);
        printf(" %-8s %10s  [", tensor.type, size);
        for (int d = 0; d < tensor.n_dims; d++)
            printf("%s%lld", d ? ", " : "", (long long)tensor.shape[d]);
        puts("]");
    }
}

static void print_model(const inspection *look)
{
    const mica_model_facts *facts = &look->session.facts;
    char size[MICA_NUMBER_TEXT_BYTES];
    if (!look->runs) {
        printf("model         cannot be run: %s\n", look->refusal);
        return;
    }
    mica_size_format(size, facts->weight_bytes);
    printf("architecture  %s: %lld layers, hidden %lld, %lld heads (%lld kv) of %lld\n",
           facts->architecture, (long long)facts->n_layers, (long long)facts->hidden,
           (long long)facts->n_heads, (long long)facts->n_kv_heads, (long long)facts->head_dim);
    printf("parameters    %.1f million in %s: %.2f bits each\n", (double)facts->n_parameters / 1e6,
           size, 8.0 * (double)facts->weight_bytes / (double)facts->n_parameters);
    printf("vocabulary    %lld\n", (long long)facts->n_vocab);
    printf("context       %lld tokens", (long long)facts->context);
    if (facts->window)
        printf(", %lld layers see the last %lld", (long long)facts->n_sliding_layers,
               (long long)facts->window);
    putchar('\n');
}

static void print_role(const mica_tokenizer *tokenizer, const char *role, int32_t id)
{
    if (id < 0)
        return;
    printf(", %s ", role);
    const char *text = mica_tokenizer_token_text(tokenizer, id, NULL);
    print_quoted(text, (int64_t)strlen(text));
}

static void print_tokenizer(const inspection *look)
{
    const mica_tokenizer *tokenizer = look->session.tokenizer;
    if (!tokenizer) {
        printf("tokenizer     none: %s\n", look->no_tokenizer);
        return;
    }
    printf("tokenizer     %s, %lld tokens", mica_tokenizer_kind(tokenizer),
           (long long)mica_tokenizer_n_vocab(tokenizer));
    print_role(tokenizer, "begin", mica_tokenizer_bos(tokenizer));
    print_role(tokenizer, "end", mica_tokenizer_eos(tokenizer));
    print_role(tokenizer, "end of turn", mica_tokenizer_eot(tokenizer));
    putchar('\n');
    const char *name;
    for (int i = 0; (name = mica_tokenizer_chat_template_name(tokenizer, i)) != NULL; i++) {
        const char *text = mica_tokenizer_chat_template(tokenizer, name);
        printf("template      %s: %lld bytes, ", name, text ? (long long)strlen(text) : 0);
        print_quoted(text ? text : "", text ? (int64_t)strlen(text) : 0);
        putchar('\n');
    }
}

static void print_values(const double *values, int n)
{
    char text[MICA_NUMBER_TEXT_BYTES];
    for (int i = 0; i < n; i++) {
        format_real(text, values[i]);
        printf(" %s", text);
    }
}

static int print_statistics(const inspection *look)
{
    const text_list *names = &look->settings->own.tensor;
    for (int k = 0; k < names->n; k++) {
        const int64_t i = mica_file_find_tensor(look->file, names->items[k]);
        const mica_file_tensor tensor = mica_file_tensor_at(look->file, i);
        statistics stats;
        const int exit_status = look_at_values(look->file, i, &stats);
        if (exit_status)
            return exit_status;
        printf("%s%s  %s  [", k ? "\n" : "", tensor.name, tensor.type);
        for (int d = 0; d < tensor.n_dims; d++)
            printf("%s%lld", d ? ", " : "", (long long)tensor.shape[d]);
        printf("]\n  least %.6g, most %.6g, mean %.6g, deviation %.6g\n", stats.least, stats.most,
               stats.mean, stats.deviation);
        printf("  %lld values, %lld zeros, %lld not finite\n  ", (long long)stats.n,
               (long long)stats.n_zero, (long long)stats.n_not_finite);
        print_values(stats.first, stats.n_first);
        if (stats.n > stats.n_first + stats.n_last)
            printf(" ...");
        print_values(stats.last, stats.n_last);
        putchar('\n');
    }
    return 0;
}

static int print_text(const inspection *look)
{
    int exit_status;
    if (look->settings->own.tensor.n) {
        exit_status = print_statistics(look);
    } else {
        printf("path          %s\n", look->session.path);
        printf("format        %s", mica_file_format(look->file));
        if (mica_file_version(look->file))
            printf(" version %d", mica_file_version(look->file));
        if (mica_file_n_parts(look->file) > 1)
            printf(", %d parts", mica_file_n_parts(look->file));
        putchar('\n');
        print_model(look);
        print_tokenizer(look);
        exit_status = print_keys(look);
        print_tensors(look);
    }
    if (!exit_status && look->settings->own.verify && !look->n_findings)
        printf("\nverified: every limit, scale and float\n");
    if (!exit_status && (fflush(stdout) != 0 || ferror(stdout)))
        exit_status = fail_with(MICA_E_IO, "standard output", "cannot be written");
    return exit_status;
}

/* --- the command ------------------------------------------------------------------------------ */

static int open_file(inspection *look, const arguments *given)
{
    const inspect_settings *settings = look->settings;
    model_settings model = settings->model;
    if (given->n_operands && model.model)
        return fail_usage("give the file as an operand or with --model, not both");
    if (given->n_operands)
        model.model = given->operands[0];
    const int exit_status = session_start(&look->session, &model, NULL);
    if (exit_status)
        return exit_status;
    const mica_status status = mica_file_open(look->session.path, false, &look->file);
    if (status != MICA_OK)
        return fail_from(status, look->session.path);
    for (int i = 0; i < settings->own.tensor.n; i++)
        if (mica_file_find_tensor(look->file, settings->own.tensor.items[i]) < 0)
            return fail_with(MICA_E_NOT_FOUND, look->session.path, "there is no tensor %s",
                             settings->own.tensor.items[i]);
    return 0;
}

/* What cannot be opened is not a failure here but part of what is shown. */
static void open_model(inspection *look)
{
    cli_session *session = &look->session;
    const mica_status status = mica_model_open(session->mc, session->path, NULL, &session->model);
    look->runs = status == MICA_OK;
    if (look->runs)
        session->facts = mica_model_describe(session->model);
    else
        snprintf(look->refusal, sizeof look->refusal, "%s", mica_last_error());
    if (session_open_tokenizer(session, true, false) != 0)
        snprintf(look->no_tokenizer, sizeof look->no_tokenizer, "%s", mica_last_error());
    forget_failure();
}

static int inspect(const arguments *given)
{
    inspection look = {.settings = given->settings};
    progress_allow(!look.settings->output.quiet);
    int exit_status = open_file(&look, given);
    if (!exit_status)
        open_model(&look);
    if (!exit_status && look.settings->own.verify)
        exit_status = verify(&look);
    if (!exit_status && look.n_findings) {
        if (!look.settings->output.json)
            fputs(buffer_text(&look.findings), stdout);
        exit_status =
            fail_with(MICA_E_FORMAT, look.session.path, "%lld findings, the first: %.*s",
                      (long long)look.n_findings, (int)strcspn(buffer_text(&look.findings), "\n"),
                      buffer_text(&look.findings));
    } else if (!exit_status) {
        exit_status = look.settings->output.json ? print_json(&look) : print_text(&look);
    }
    buffer_free(&look.findings);
    mica_file_close(look.file);
    session_close(&look.session);
    return exit_status;
}

static const option_group groups[] = {
    {"What to look at", own_options, offsetof(inspect_settings, own)},
    SHARED_GROUP("Model", model, inspect_settings),
    SHARED_GROUP("Output", output, inspect_settings),
};

static const command_example examples[] = {
    {"What a file holds", "mica inspect model.gguf"},
    {"Values of a tensor", "mica inspect model.gguf --tensor output_norm.weight"},
    {"Is a download whole and sane", "mica inspect model.gguf --verify"},
    {0}};

const command_spec inspect_command = {
    .name = "inspect",
    .summary = "shows what a file or model is",
    .description =
        "Shows format, architecture, tokenizer, chat template, metadata and tensors of a model "
        "file or folder, and whether mica can run it. Without FILE and --model it is the built-in "
        "model.\n\n"
        "With --json: path, format, version, parts, architecture (null and the reason under "
        "refused where it cannot be run), tokenizer, chat_templates, metadata, tensors, values of "
        "--tensor, verified.",
    .operands = "[FILE]",
    .max_operands = 1,
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .settings_size = sizeof(inspect_settings),
    .run = inspect,
};
