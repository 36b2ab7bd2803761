/* golden_templates.c - chat templates of many models against what Jinja2 made of them.
 *
 * golden_templates DIR: DIR has golden/ (contexts, and for every template and context Jinja2's
 * output or the error it ended with), llama.cpp/ and ollama/ (templates). Outputs must be equal to
 * the byte; where Jinja2 failed, mica must fail too, but for the cases of `supported`. Every
 * template must compile and render the simple context.
 * SPDX-License-Identifier: MIT
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
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

static char *load(const char *folder, const char *sub, const char *name, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s", folder, sub, name);
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
    char *source = load(folder, "llama.cpp", name, &n);
    char *variables = load(folder, "golden", context_file, &n_context);
    mica_status status = MICA_E_NOT_FOUND;
    const mica_chat_template_options options = {.name = name};
    if (source && variables)
        status = mica_chat_template_new(source, n, &options, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, variables, n_context, NOW, &text);
    const char *reason = reason_to_support(name, context);
    if (expected && status != MICA_OK) {
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

static void check_renders(const char *folder, const char *name, const char *source, size_t n)
{
    size_t n_context;
    mica_chat_template *compiled = NULL;
    mica_chat_text text = {0};
    char *variables = load(folder, "golden", "context_simple.json", &n_context);
    mica_status status = variables ? MICA_OK : MICA_E_NOT_FOUND;
    const mica_chat_template_options options = {.name = name};
    if (status == MICA_OK)
        status = mica_chat_template_new(source, n, &options, &compiled);
    if (status == MICA_OK)
        status = mica__chat_template_render_context(compiled, variables, n_context, NOW, &text);
    if (status == MICA_OK)
        passed++;
    else
        fail(name, "simple", mica_last_error());
    mica_chat_text_free(&text);
    mica_chat_template_free(compiled);
    free(variables);
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

/* Every file of llama.cpp/ renders the simple context. */
static void check_folder(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/llama.cpp", folder);
    DIR *listing = opendir(path);
    if (!listing) {
        skipped++;
        return;
    }
    for (struct dirent *entry; (entry = readdir(listing));) {
        size_t n;
        if (!strstr(entry->d_name, ".jinja"))
            continue;
        char *source = load(folder, "llama.cpp", entry->d_name, &n);
        check_renders(folder, entry->d_name, source, n);
        check_plain(entry->d_name, source, n);
        free(source);
    }
    closedir(listing);
}

/* Lines of {"name": "template"}. */
static void check_ollama(const char *folder)
{
    size_t n;
    char *lines = load(folder, "ollama", "templates.jsonl", &n);
    if (!lines) {
        skipped++;
        return;
    }
    int number = 0;
    for (char *line = lines, *end; line < lines + n; line = end + 1) {
        mica__json_doc *doc;
        char name[128];
        end = strchr(line, '\n');
        if (!end)
            end = lines + n;
        if (end == line)
            continue;
        number++;
        if (mica__json_parse(line, (size_t)(end - line), 0, &doc) != MICA_OK) {
            fail("ollama/templates.jsonl", "", mica_last_error());
            continue;
        }
        const mica__json *first = mica__json_root(doc)->first;
        snprintf(name, sizeof name, "ollama/templates.jsonl line %d (%s)", number, first->key);
        check_renders(folder, name, first->string, (size_t)first->length);
        mica__json_free(doc);
    }
    free(lines);
}

int main(int argc, char **argv)
{
    char path[4096];
    mica__json_doc *doc;
    if (argc != 2) {
        fprintf(stderr, "usage: golden_templates DIR\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/golden/rendered_with_jinja2_3.1.2.json", argv[1]);
    if (mica__json_read(path, (int64_t)64 << 20, &doc) != MICA_OK) {
        fprintf(stderr, "%s\n", mica_last_error());
        return 77;
    }
    for (const mica__json *entry = mica__json_root(doc)->first; entry; entry = entry->next)
        check_case(argv[1], entry);
    mica__json_free(doc);
    check_folder(argv[1]);
    check_ollama(argv[1]);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
