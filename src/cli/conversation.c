/* conversation.c - the messages of a chat.
 * SPDX-License-Identifier: MIT
 */
#include "cli/conversation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat_prompt.h"
#include "cli/failure.h"
#include "cli/prompts.h"

int conversation_add(conversation *talk, const char *role, const char *content, size_t n)
{
    if (talk->n == talk->capacity) {
        const int capacity = talk->capacity ? 2 * talk->capacity : 16;
        chat_message *grown = realloc(talk->messages, (size_t)capacity * sizeof *grown);
        if (!grown)
            return fail_memory();
        talk->messages = grown;
        talk->capacity = capacity;
    }
    chat_message *added = &talk->messages[talk->n];
    *added = (chat_message){0};
    snprintf(added->role, sizeof added->role, "%s", role);
    buffer_add(&added->content, content, n);
    if (added->content.failed)
        return fail_memory();
    talk->n++;
    return 0;
}

static bool has_system(const conversation *talk)
{
    return talk->n > 0 && strcmp(talk->messages[0].role, "system") == 0;
}

int conversation_set_system(conversation *talk, const char *content)
{
    if (has_system(talk)) {
        buffer_free(&talk->messages[0].content);
        talk->n--;
        memmove(talk->messages, talk->messages + 1, (size_t)talk->n * sizeof *talk->messages);
    }
    if (!*content)
        return 0;
    const int exit_status = conversation_add(talk, "system", content, strlen(content));
    if (exit_status)
        return exit_status;
    const chat_message added = talk->messages[talk->n - 1];
    memmove(talk->messages + 1, talk->messages, (size_t)(talk->n - 1) * sizeof *talk->messages);
    talk->messages[0] = added;
    return 0;
}

void conversation_cut(conversation *talk, int n)
{
    while (talk->n > n)
        buffer_free(&talk->messages[--talk->n].content);
    if (talk->left_out >= talk->n)
        talk->left_out = 0;
}

/* Whether prompts have message i. */
static bool is_in(const conversation *talk, int i)
{
    const int system = has_system(talk);
    return i < system || i >= system + talk->left_out;
}

bool conversation_leave_out(conversation *talk)
{
    int next = has_system(talk) + talk->left_out + 1;
    while (next < talk->n && strcmp(talk->messages[next].role, "user") != 0)
        next++;
    if (next >= talk->n)
        return false;
    talk->left_out = next - has_system(talk);
    return true;
}

bool conversation_ends_with(const conversation *talk, const char *role)
{
    return talk->n > 0 && strcmp(talk->messages[talk->n - 1].role, role) == 0;
}

static void add_messages(const conversation *talk, bool all, json_out *json)
{
    json_open(json, NULL, '[');
    for (int i = 0; i < talk->n; i++)
        if (all || is_in(talk, i))
            chat_add_message(json, talk->messages[i].role, buffer_text(&talk->messages[i].content),
                             talk->messages[i].content.length);
    json_close(json, ']');
}

void conversation_json(const conversation *talk, json_out *json)
{
    add_messages(talk, false, json);
}

void conversation_text(const conversation *talk, byte_buffer *text)
{
    for (int i = 0; i < talk->n; i++) {
        const chat_message *message = &talk->messages[i];
        if (!is_in(talk, i))
            continue;
        if (strcmp(message->role, "user") == 0 && text->length &&
            text->bytes[text->length - 1] != '\n')
            buffer_add(text, "\n", 1);
        buffer_add(text, buffer_text(&message->content), message->content.length);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

int conversation_save(const conversation *talk, const char *path)
{
    json_out json = {0};
    int exit_status = 0;
    add_messages(talk, true, &json);
    buffer_add(&json.text, "\n", 1);
    FILE *file = json.text.failed ? NULL : fopen(path, "we");
    if (json.text.failed)
        exit_status = fail_memory();
    else if (!file)
        exit_status = fail_with(MICA_E_IO, path, "cannot be written: %s", strerror(errno));
    else {
        const bool written = fwrite(json.text.bytes, 1, json.text.length, file) == json.text.length;
        if (fclose(file) != 0 || !written)
            exit_status = fail_with(MICA_E_IO, path, "cannot be written: %s", strerror(errno));
    }
    json_free(&json);
    return exit_status;
}

static int load_message(conversation *talk, const mica_json *message, const char *path)
{
    static const char *const roles[] = {"user", "assistant", "tool"};
    int64_t n = 0;
    const char *role = mica_json_string(mica_json_get(message, "role"), NULL);
    const char *content = mica_json_string(mica_json_get(message, "content"), &n);
    bool known = role && talk->n == 0 && strcmp(role, "system") == 0;
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        known |= strcmp(role, roles[i]) == 0;
    if (!known || !content || mica_json_count(message) != 2)
        return fail_with(MICA_E_FORMAT, path,
                         "message %d: a role (user, assistant, tool; system for the first) and "
                         "content as text are needed, and nothing else",
                         talk->n + 1);
    return conversation_add(talk, role, content, (size_t)n);
}

int conversation_load(conversation *talk, const char *path)
{
    mica_json_doc *doc;
    conversation loaded = {0};
    int exit_status = read_json(path, &doc);
    if (exit_status)
        return exit_status;
    const mica_json *root = mica_json_root(doc);
    if (mica_json_type_of(root) != MICA_JSON_ARRAY)
        exit_status = fail_with(MICA_E_FORMAT, path, "no list of messages");
    for (const mica_json *at = mica_json_first(root); at && !exit_status; at = mica_json_next(at))
        exit_status = load_message(&loaded, at, path);
    mica_json_free(doc);
    if (exit_status) {
        conversation_free(&loaded);
        return exit_status;
    }
    conversation_free(talk);
    *talk = loaded;
    return 0;
}

void conversation_free(conversation *talk)
{
    conversation_cut(talk, 0);
    free(talk->messages);
    *talk = (conversation){0};
}
