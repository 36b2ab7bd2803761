/* chat_template.c - the public face of the Jinja interpreter.
 *
 * A template is its program, which nothing changes after parsing. A render builds the variables on
 * a heap of its own, runs the program, copies text and marks out and frees the heap at once.
 * SPDX-License-Identifier: MIT
 */
#include "text/chat_template.h"

#include <string.h>
#include <time.h>

#include "text/jinja_run.h"
#include "text/letter_case.h"
#include "text/utf8.h"

#define KIND                MICA_MEMORY_TEXT
#define DEFAULT_NAME        "chat template"
#define DEFAULT_SOURCE      ((int64_t)1 << 20)
#define DEFAULT_STEPS       ((int64_t)20000000)
#define DEFAULT_VALUE_BYTES ((int64_t)256 << 20)
#define DEFAULT_OUTPUT      ((int64_t)32 << 20)
#define DEFAULT_DEPTH       1000
#define MOST_DEPTH          2000
#define PROGRAM_BYTES       ((int64_t)256 << 20)

struct mica_chat_template {
    char *name;
    jinja_program program;
    int64_t max_steps;
    int64_t max_value_bytes;
    int64_t max_output_bytes;
    int max_depth;
};

/* --- compiling -------------------------------------------------------------------------------- */

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value > 0 ? value : otherwise;
}

static mica_status check_options(const mica_chat_template_options *o)
{
    if (o->max_source_bytes < 0 || o->max_steps < 0 || o->max_value_bytes < 0 ||
        o->max_output_bytes < 0 || o->max_depth < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "a limit of a chat template is negative");
    if (o->max_depth > MOST_DEPTH)
        MICA_FAIL(MICA_E_ARGUMENT, "a chat template's max_depth of %d is over %d", o->max_depth,
                  MOST_DEPTH);
    return MICA_OK;
}

static mica_status compile(mica_chat_template *t, const char *source, size_t n,
                           const mica_chat_template_options *o)
{
    const int64_t max_source = or_default(o->max_source_bytes, DEFAULT_SOURCE);
    t->max_steps = or_default(o->max_steps, DEFAULT_STEPS);
    t->max_value_bytes = or_default(o->max_value_bytes, DEFAULT_VALUE_BYTES);
    t->max_output_bytes = or_default(o->max_output_bytes, DEFAULT_OUTPUT);
    t->max_depth = o->max_depth > 0 ? o->max_depth : DEFAULT_DEPTH;
    const char *name = o->name ? o->name : DEFAULT_NAME;
    t->name = mica__strndup(KIND, name, strlen(name));
    if (!t->name)
        return MICA_E_MEMORY;
    if (n > (size_t)max_source)
        MICA_FAIL(MICA_E_BUDGET, "%s: %zu bytes are over the limit of %lld", name, n,
                  (long long)max_source);
    return mica__jinja_parse(t->name, source, n, PROGRAM_BYTES, &t->program);
}

mica_status mica_chat_template_new(const char *source, size_t n,
                                   const mica_chat_template_options *options,
                                   mica_chat_template **made)
{
    static const mica_chat_template_options defaults = {0};
    *made = NULL;
    if (!options)
        options = &defaults;
    MICA_TRY(check_options(options));
    mica_chat_template *t = mica__alloc_zero(KIND, 1, sizeof *t);
    if (!t)
        return MICA_E_MEMORY;
    const mica_status status = compile(t, source, n, options);
    if (status != MICA_OK) {
        mica_chat_template_free(t);
        return status;
    }
    *made = t;
    return MICA_OK;
}

void mica_chat_template_free(mica_chat_template *chat_template)
{
    if (!chat_template)
        return;
    mica__jinja_program_free(&chat_template->program);
    mica__free(chat_template->name);
    mica__free(chat_template);
}

/* --- variables -------------------------------------------------------------------------------- */

static bool asks_for(const jinja_name *name)
{
    return name->free && !mica__jinja_global_find(name->text, name->length);
}

bool mica_chat_template_uses(const mica_chat_template *chat_template, const char *variable)
{
    const int32_t name = mica__jinja_name_find(&chat_template->program, variable, strlen(variable));
    return name >= 0 && asks_for(&chat_template->program.names[name]);
}

int64_t mica_chat_template_variable_count(const mica_chat_template *chat_template)
{
    int64_t n = 0;
    for (int32_t i = 0; i < chat_template->program.n_names; i++)
        n += asks_for(&chat_template->program.names[i]);
    return n;
}

const char *mica_chat_template_variable(const mica_chat_template *chat_template, int64_t index)
{
    for (int32_t i = 0; i < chat_template->program.n_names; i++)
        if (asks_for(&chat_template->program.names[i]) && index-- == 0)
            return chat_template->program.names[i].text;
    return NULL;
}

/* --- a run ------------------------------------------------------------------------------------ */

static int64_t local_now(void)
{
    const time_t now = time(NULL);
    struct tm local;
    return (int64_t)now + (localtime_r(&now, &local) ? (int64_t)local.tm_gmtoff : 0);
}

/* Starts a run; its heap must be freed also after a failure. */
static mica_status start(const mica_chat_template *t, int64_t now, jinja_run *run)
{
    const jinja_program *program = &t->program;
    *run = (jinja_run){.program = program,
                       .max_output = t->max_output_bytes,
                       .max_depth = t->max_depth,
                       .now = now ? now : local_now()};
    run->scope = &run->root;
    mica__jinja_heap_init(&run->heap, t->max_value_bytes, t->max_steps);
    run->table = mica__jinja_take(&run->heap, (size_t)program->n_names + 1, sizeof *run->table);
    run->out = mica__jinja_bytes_new(&run->heap, 0);
    if (!run->table || !run->out)
        return run->heap.status;
    for (int32_t i = 0; i < program->n_names; i++) {
        const struct jinja_function *global =
            mica__jinja_global_find(program->names[i].text, program->names[i].length);
        run->table[i] = global ? (jinja_value){.type = JINJA_FUNCTION, .function = global}
                               : (jinja_value){.type = JINJA_ABSENT};
    }
    return MICA_OK;
}

/* Sets a variable where the template mentions it. */
static void set_variable(jinja_run *run, const char *name, size_t n, const jinja_value *value)
{
    const int32_t index = mica__jinja_name_find(run->program, name, n);
    if (index >= 0)
        run->table[index] = *value;
}

static mica_status read_json(jinja_run *run, const char *what, const char *text, size_t n,
                             jinja_type type, const char *type_text, jinja_value *out)
{
    const mica_status status = mica__jinja_from_json(&run->heap, text, n, true, out);
    if (status != MICA_OK)
        return mica__fail_at(status, "the %s of a chat template", what);
    if (out->type != type)
        MICA_FAIL(MICA_E_ARGUMENT, "the %s of a chat template must be %s, not %s", what, type_text,
                  mica__jinja_type_name(out));
    return MICA_OK;
}

static mica_status copy_plain(const jinja_bytes *out, mica_chat_text *text)
{
    text->plain = mica__alloc_zero(KIND, (size_t)out->n_marks + 1, sizeof *text->plain);
    if (!text->plain)
        return MICA_E_MEMORY;
    for (int64_t i = 0; i < out->n_marks; i++)
        text->plain[i] = (mica_text_span){(int64_t)out->marks[i].begin, (int64_t)out->marks[i].end};
    text->n_plain = out->n_marks;
    return MICA_OK;
}

static mica_status finish(jinja_run *run, mica_chat_text *text)
{
    mica_status status = mica__jinja_exec(run, run->program->body);
    if (status == MICA_OK)
        status = run->heap.status; /* a comparison may have used up the last step */
    if (status != MICA_OK)
        return status;
    text->text = mica__strndup(KIND, run->out->bytes, run->out->used);
    text->length = (int64_t)run->out->used;
    status = text->text ? copy_plain(run->out, text) : MICA_E_MEMORY;
    if (status != MICA_OK)
        mica_chat_text_free(text);
    return status;
}

void mica_chat_text_free(mica_chat_text *text)
{
    mica__free(text->text);
    mica__free(text->plain);
    *text = (mica_chat_text){0};
}

/* --- the input -------------------------------------------------------------------------------- */

static mica_status set_tokens(jinja_run *run, const mica_chat_input *input)
{
    for (int64_t i = 0; i < input->n_tokens; i++) {
        const mica_chat_token *token = &input->tokens[i];
        jinja_value value;
        int64_t bad;
        if (!mica__utf8_valid(token->text, (int64_t)strlen(token->text), &bad))
            MICA_FAIL(MICA_E_ARGUMENT, "the chat template's %s is not UTF-8", token->name);
        MICA_TRY(mica__jinja_string(&run->heap, token->text, strlen(token->text), false, &value));
        set_variable(run, token->name, strlen(token->name), &value);
    }
    return MICA_OK;
}

static mica_status set_extra(jinja_run *run, const mica_chat_input *input)
{
    static const char *const own[] = {"messages", "tools", "add_generation_prompt"};
    jinja_value extra;
    if (!input->extra_json)
        return MICA_OK;
    MICA_TRY(read_json(run, "extra variables", input->extra_json, input->extra_length, JINJA_DICT,
                       "an object", &extra));
    for (int64_t i = 0; i < extra.dict->n; i++) {
        const jinja_entry *e = &extra.dict->entries[i];
        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            if (mica__jinja_text_is(&e->key, own[k]))
                MICA_FAIL(MICA_E_ARGUMENT, "%s of a chat template is no extra variable", own[k]);
        set_variable(run, mica__jinja_chars(&e->key), e->key.text.length, &e->value);
    }
    return MICA_OK;
}

static jinja_entry *member(jinja_run *run, const jinja_value *object, const char *key)
{
    return object->type == JINJA_DICT
               ? mica__jinja_dict_find_bytes(&run->heap, object->dict, key, strlen(key))
               : NULL;
}

/* Replaces the arguments of one tool call by the object that their text says. */
static mica_status parse_call(jinja_run *run, const jinja_value *call)
{
    jinja_value parsed;
    const jinja_entry *function = member(run, call, "function");
    jinja_entry *arguments = member(run, function ? &function->value : call, "arguments");
    if (!arguments || arguments->value.type != JINJA_STRING)
        return MICA_OK;
    const jinja_value *text = &arguments->value;
    const mica_status status = mica__jinja_from_json(&run->heap, mica__jinja_chars(text),
                                                     text->text.length, true, &parsed);
    if (status == MICA_OK && parsed.type == JINJA_DICT)
        arguments->value = parsed;
    return status == MICA_E_FORMAT ? run->heap.status : status;
}

static mica_status parse_arguments(jinja_run *run, const jinja_value *messages)
{
    for (int64_t i = 0; i < messages->list->n; i++) {
        const jinja_entry *calls = member(run, &messages->list->items[i], "tool_calls");
        if (!calls || calls->value.type != JINJA_LIST)
            continue;
        for (int64_t k = 0; k < calls->value.list->n; k++)
            MICA_TRY(parse_call(run, &calls->value.list->items[k]));
    }
    return run->heap.status;
}

/* Hugging Face gives tools and documents to every template, None where there are none. */
static mica_status set_input(jinja_run *run, const mica_chat_input *input)
{
    jinja_value value = mica__jinja_none();
    set_variable(run, "tools", 5, &value);
    set_variable(run, "documents", 9, &value);
    MICA_TRY(set_tokens(run, input));
    MICA_TRY(set_extra(run, input));
    if (input->tools_json) {
        MICA_TRY(read_json(run, "tools", input->tools_json, input->tools_length, JINJA_LIST,
                           "an array", &value));
        set_variable(run, "tools", 5, &value);
    }
    if (!input->messages_json)
        MICA_FAIL(MICA_E_ARGUMENT, "a chat template needs messages");
    MICA_TRY(read_json(run, "messages", input->messages_json, input->messages_length, JINJA_LIST,
                       "an array", &value));
    if (input->parse_arguments)
        MICA_TRY(parse_arguments(run, &value));
    set_variable(run, "messages", 8, &value);
    value = mica__jinja_bool(input->add_generation_prompt);
    set_variable(run, "add_generation_prompt", 21, &value);
    return MICA_OK;
}

mica_status mica_chat_template_render(const mica_chat_template *chat_template,
                                      const mica_chat_input *input, mica_chat_text *text)
{
    jinja_run run;
    *text = (mica_chat_text){0};
    mica_status status = start(chat_template, input->now, &run);
    if (status == MICA_OK)
        status = set_input(&run, input);
    if (status == MICA_OK)
        status = finish(&run, text);
    mica__jinja_heap_free(&run.heap);
    return status;
}

static mica_status set_context(jinja_run *run, const char *context_json, size_t n)
{
    static const char *const tokens[] = {"bos_token", "eos_token"};
    jinja_value context;
    MICA_TRY(read_json(run, "context", context_json, n, JINJA_DICT, "an object", &context));
    for (int64_t i = 0; i < context.dict->n; i++) {
        const jinja_entry *e = &context.dict->entries[i];
        jinja_value value = e->value;
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            if (mica__jinja_text_is(&e->key, tokens[k]) && value.type == JINJA_STRING)
                MICA_TRY(mica__jinja_string(&run->heap, mica__jinja_chars(&e->value),
                                            e->value.text.length, false, &value));
        set_variable(run, mica__jinja_chars(&e->key), e->key.text.length, &value);
    }
    return MICA_OK;
}

mica_status mica__chat_template_render_context(const mica_chat_template *chat_template,
                                               const char *context_json, size_t n, int64_t now,
                                               mica_chat_text *text)
{
    jinja_run run;
    *text = (mica_chat_text){0};
    mica_status status = start(chat_template, now, &run);
    if (status == MICA_OK)
        status = set_context(&run, context_json, n);
    if (status == MICA_OK)
        status = finish(&run, text);
    mica__jinja_heap_free(&run.heap);
    return status;
}
