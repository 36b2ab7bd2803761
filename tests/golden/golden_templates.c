/* golden_templates.c - chat templates of many models against what Jinja2 made of them.
 *
 * golden_templates DIR: walks DIR. A .json file that lists {template, context, output or error} is
 * what Jinja2 made: its contexts lie beside it as context_NAME.json, its templates there or in the
 * folder llama.cpp beside its own. Outputs must be equal to the byte; where Jinja2 failed, mica
 * must fail too, but for the cases of `supported`. Every template (.jinja, and the lines
 * {"name": "template"} of templates.jsonl) must compile and render the simple context. Other files
 * are counted as skipped. Closes with "N passed, N failed, N skipped"; exit status 1 when a case
 * failed or there was none.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "support/file_list.h"
#include "text/chat_template.h"

/* The date that strftime_now had: 2025-07-10 12:00. */
#define NOW 1752148800

/* Where mica renders although Jinja2 without additions fails. */
static const struct {
    const char *template_name;
    const char *context;
    const char *reason;
} supported[] = {
    {"deepseek-ai-DeepSeek-V4-Flash-0731.jinja", "tool_use", "mica has the filter from_json"},
    {"deepseek-ai-DeepSeek-V4.jinja", "tool_use", "mica has the filter from_json"},
};

static int passed, failed, skipped;

static void fail(const char *name, const char *context, const char *what)
{
    failed++;
    printf("FAIL %s %s: %s\n", name, context, what);
}

static char *load(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    *n = bytes ? fread(bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    if (bytes)
        bytes[*n] = '\0';
    return bytes;
}

/* folder/middle + name. */
static char *load_from(const char *folder, const char *middle, const char *name, size_t *n)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s%s", folder, middle, name);
    return load(path, n);
}

static const char *reason_to_support(const char *name, const char *context)
{
    for (size_t i = 0; i < sizeof supported / sizeof *supported; i++)
        if (strcmp(supported[i].template_name, name) == 0 &&
            strcmp(supported[i].context, context) == 0)
            return supported[i].reason;
    return NULL;
}

/* Says where two outputs part. */
static void show_difference(const mica_chat_text *got, const mica__json *expected)
{
    int64_t at = 0;
    while (at < got->length && at < expected->length && got->text[at] == expected->string[at])
        at++;
    const int64_t from = at > 40 ? at - 40 : 0;
    printf("  differs at byte %lld of %lld (expected %lld)\n  got      ...%.80s\n"
           "  expected ...%.80s\n",
           (long long)at, (long long)got->length, (long long)expected->length, got->text + from,
           expected->string + from);
}

/* Spans must be ascending, apart from each other, not empty and inside the text. */
static bool spans_are_sound(const mica_chat_text *text)
{
    int64_t at = -1;
    for (int64_t i = 0; i < text->n_plain; i++) {
        if (text->plain[i].from <= at || text->plain[i].to <= text->plain[i].from)
            return false;
        at = text->plain[i].to;
    }
    return at <= text->length;
}

static void check_case(const char *folder, const mica__json *entry)
{
    const char *name = mica__json_get(entry, "template")->string;
    const char *context = mica__json_get(entry, "context")->string;
    const mica__json *expected = mica__json_get(entry, "output");
    char context_file[256];
    size_t n, n_context;
    mica_chat_template *compiled = NULL;
    mica_chat_text text = {0};
    snprintf(context_file, sizeof context_file, "context_%s.json", context);
    char *source = load_from(folder, "", name, &n);
    if (!source)
        source = load_from(folder, "../llama.cpp/", name, &n);
    char *variables = load_from(folder, "", context_file, &n_context);
    mica_status status = MICA_E_NOT_FOUND;
    const mica_chat_template_options options = {.name = name};
    if (source && variables)
        status = mica_chat_template_new(source, n, &options, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, variables, n_context, NOW, &text);
    const char *reason = reason_to_support(name, context);
    if (!source || !variables) {
        fail(name, context, source ? "its context is not here" : "the template is not here");
    } else if (expected && status != MICA_OK) {
        fail(name, context, mica_last_error());
    } else if (expected && (text.length != expected->length ||
                            memcmp(text.text, expected->string, (size_t)text.length) != 0)) {
        fail(name, context, "another output");
        show_difference(&text, expected);
    } else if (!expected && (status == MICA_OK) != (reason != NULL)) {
        fail(name, context, status == MICA_OK ? "Jinja2 fails here" : mica_last_error());
    } else if (status == MICA_OK && !spans_are_sound(&text)) {
        fail(name, context, "spans that are not sound");
    } else {
        passed++;
        if (!expected)
            printf("%s %s: %s\n", name, context, reason ? reason : mica_last_error());
    }
    mica_chat_text_free(&text);
    mica_chat_template_free(compiled);
    free(source);
    free(variables);
}

/* A conversation of one question, where the data has none of its own. */
static const char simple_context[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"What is the tallest mountain?\"}], "
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";

/* context_simple.json of the data, or the one above. */
static const char *simple = simple_context;

static void check_renders(const char *name, const char *source, size_t n)
{
    mica_chat_template *compiled = NULL;
    mica_chat_text text = {0};
    const mica_chat_template_options options = {.name = name};
    mica_status status = mica_chat_template_new(source, n, &options, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, simple, strlen(simple), NOW, &text);
    if (status == MICA_OK)
        passed++;
    else
        fail(name, "simple", mica_last_error());
    mica_chat_text_free(&text);
    mica_chat_template_free(compiled);
}

/* A conversation whose text is one character that no template has, so that plain spans can be told
 * from the template's own words. */
#define MARK "\xd0\x96"
static const char marked_context[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"" MARK MARK
    "\"}, {\"role\": \"assistant\", \"content\": \"" MARK
    "\"}, {\"role\": \"user\", \"content\": \"" MARK MARK MARK
    "\"}], \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";

/* Whether a plain span is nothing but the conversation's characters and names of roles. */
static bool from_conversation(const char *text, int64_t n)
{
    static const char *const pieces[] = {MARK,        "user", "assistant", "User",
                                         "Assistant", "USER", "ASSISTANT"};
    while (n > 0) {
        size_t found = 0;
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces && !found; i++) {
            const size_t length = strlen(pieces[i]);
            if (n >= (int64_t)length && memcmp(text, pieces[i], length) == 0)
                found = length;
        }
        if (!found)
            return false;
        text += found;
        n -= (int64_t)found;
    }
    return true;
}

/* Every character of the conversation is plain, and nothing else is. */
static void check_plain(const char *name, const char *source, size_t n)
{
    mica_chat_template *compiled = NULL;
    mica_chat_text text = {0};
    int64_t in_text = 0, in_spans = 0;
    bool sound = true;
    mica_status status = mica_chat_template_new(source, n, NULL, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, marked_context,
                                                    sizeof marked_context - 1, NOW, &text);
    for (int64_t i = 0; i + 1 < text.length; i++)
        in_text += memcmp(text.text + i, MARK, 2) == 0;
    for (int64_t i = 0; i < text.n_plain; i++) {
        const mica_text_span span = text.plain[i];
        sound = sound && from_conversation(text.text + span.from, span.to - span.from);
        for (int64_t k = span.from; k + 1 < span.to; k++)
            in_spans += memcmp(text.text + k, MARK, 2) == 0;
    }
    if (status != MICA_OK)
        fail(name, "marked", mica_last_error());
    else if (!sound || in_text != in_spans || !in_text)
        fail(name, "marked", "plain spans that are not the conversation's text");
    else
        passed++;
    mica_chat_text_free(&text);
    mica_chat_template_free(compiled);
}

/* --- files ------------------------------------------------------------------------------------ */

static void check_template(const char *path, const char *name)
{
    size_t n;
    char *source = load(path, &n);
    if (!source) {
        fail(name, "", "cannot be read");
        return;
    }
    check_renders(name, source, n);
    check_plain(name, source, n);
    free(source);
}

/* Lines of {"name": "template"}. */
static void check_lines(const char *path, const char *file)
{
    size_t n;
    int number = 0;
    char *lines = load(path, &n);
    if (!lines)
        fail(file, "", "cannot be read");
    for (char *line = lines, *end; lines && line < lines + n; line = end + 1) {
        mica__json_doc *doc;
        char name[512];
        end = strchr(line, '\n');
        if (!end)
            end = lines + n;
        number++;
        if (end == line)
            continue;
        if (mica__json_parse(line, (size_t)(end - line), 0, &doc) != MICA_OK) {
            fail(file, "", mica_last_error());
            continue;
        }
        const mica__json *first = mica__json_root(doc)->first;
        snprintf(name, sizeof name, "%s line %d (%s)", file, number, first ? first->key : "?");
        if (first && first->type == MICA__JSON_STRING)
            check_renders(name, first->string, (size_t)first->length);
        else
            fail(name, "", "no template");
        mica__json_free(doc);
    }
    free(lines);
}

static bool is_text(const mica__json *node)
{
    return node && node->type == MICA__JSON_STRING;
}

static void skip(const char *name)
{
    printf("skip %s: neither templates nor what Jinja2 made of them\n", name);
    skipped++;
}

/* What Jinja2 made of templates; contexts are read with their cases. */
static void check_goldens(const char *path, const char *name)
{
    char folder[4096];
    mica__json_doc *doc = NULL;
    const char *slash = strrchr(path, '/');
    if (strncmp(slash + 1, "context_", 8) == 0)
        return;
    const mica_status status = mica__json_read(path, (int64_t)64 << 20, &doc);
    const mica__json *root = status == MICA_OK ? mica__json_root(doc) : NULL;
    const mica__json *first = root && root->type == MICA__JSON_ARRAY ? root->first : NULL;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (!is_text(mica__json_get(first, "template")) || !is_text(mica__json_get(first, "context")))
        skip(name);
    else
        for (const mica__json *entry = first; entry; entry = entry->next)
            check_case(folder, entry);
    mica__json_free(doc);
}

/* The data's simple context: in the folder, below it, or in a golden/ beside it. */
static char *find_simple(const file_list *files)
{
    size_t n;
    for (size_t i = 0; i < files->n; i++)
        if (text_ends_with(files->paths[i], "/context_simple.json"))
            return load(files->paths[i], &n);
    return load_from(files->root, "../golden/", "context_simple.json", &n);
}

int main(int argc, char **argv)
{
    file_list files = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: golden_templates DIR\n");
        return 2;
    }
    if (!file_list_below(argv[1], &files)) {
        printf("skip: %s is not there\n0 passed, 0 failed, 1 skipped\n", argv[1]);
        return 77;
    }
    char *found = find_simple(&files);
    if (found)
        simple = found;
    for (size_t i = 0; i < files.n; i++) {
        const char *path = files.paths[i], *name = file_list_relative(&files, path);
        if (text_ends_with(path, ".jinja"))
            check_template(path, name);
        else if (text_ends_with(path, "/templates.jsonl"))
            check_lines(path, name);
        else if (text_ends_with(path, ".json"))
            check_goldens(path, name);
        else
            skip(name);
    }
    file_list_free(&files);
    free(found);
    if (passed + failed == 0)
        printf("FAIL: no case in %s\n", argv[1]);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}
