/* jinja_fuzz.c - any bytes as a chat template and its context (behind the first NUL): every render
 * ends within its budgets, with sound spans and the same result twice.
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>

#include "text/chat_template.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char default_context[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" sys \"}, {\"role\": \"user\", "
    "\"content\": "
    "\"<|x|> h\\u00e9 \\ud83d\\ude00\"}, {\"role\": \"assistant\", \"content\": null, "
    "\"tool_calls\": [{\"id\": "
    "\"1\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true]}}}]}, {\"role\": "
    "\"tool\", "
    "\"content\": \"r\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", "
    "\"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"array\"}}}}}], "
    "\"add_generation_prompt\": "
    "true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"s\": \"Hello World\", \"l\": [3, 1, "
    "2], \"d\": "
    "{\"b\": 1, \"a\": [1, 2]}, \"u\": \"stra\\u00dfe \\u03a3\", \"f\": 2.5, \"n\": null}";

static void check(const mica_chat_text *text)
{
    int64_t at = -1, bad;
    for (int64_t i = 0; i < text->n_plain; i++) {
        if (text->plain[i].from <= at || text->plain[i].to <= text->plain[i].from)
            abort();
        at = text->plain[i].to;
    }
    if (at > text->length || !mica__utf8_valid(text->text, text->length, &bad))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *source = (const char *)data, *context = default_context;
    const char *end = n ? memchr(source, '\0', n) : NULL;
    size_t n_source = n, n_context = sizeof default_context - 1;
    const mica_chat_template_options options = {.max_source_bytes = 1 << 16,
                                                .max_steps = 200000,
                                                .max_value_bytes = 8 << 20,
                                                .max_output_bytes = 1 << 20};
    mica_chat_template *compiled;
    mica_chat_text first, second;
    if (end) {
        n_source = (size_t)(end - source);
        context = end + 1;
        n_context = n - n_source - 1;
    }
    if (mica_chat_template_new(source, n_source, &options, &compiled) != MICA_OK)
        return 0;
    const mica_status status =
        mica__chat_template_render_context(compiled, context, n_context, 1752148800, &first);
    if (mica__chat_template_render_context(compiled, context, n_context, 1752148800, &second) !=
        status)
        abort();
    if (status == MICA_OK) {
        check(&first);
        if (first.length != second.length || first.n_plain != second.n_plain ||
            memcmp(first.text, second.text, (size_t)first.length) != 0)
            abort();
    }
    mica_chat_text_free(&first);
    mica_chat_text_free(&second);
    mica_chat_template_free(compiled);
    return 0;
}
