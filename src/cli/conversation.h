/* conversation.h - messages as a list: added, taken back, saved, loaded, written as JSON.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_CONVERSATION_H
#define MICA_CLI_CONVERSATION_H

#include "cli/json_out.h"

typedef struct chat_message {
    char role[16]; /* "system", "user", "assistant", "tool" */
    byte_buffer content;
} chat_message;

/* Zero-initialise. A system message is always the first. */
typedef struct conversation {
    chat_message *messages; /* [n] */
    int n, capacity;
    int left_out; /* how many, counted from the system message on, prompts leave out for room */
} conversation;

int conversation_add(conversation *talk, const char *role, const char *content, size_t n);

/* Sets the system message; "" takes it away. */
int conversation_set_system(conversation *talk, const char *content);

/* Takes back messages from the end until n are left. */
void conversation_cut(conversation *talk, int n);

/* Leaves one more turn out of prompts, the oldest; false when only the last one is left. */
bool conversation_leave_out(conversation *talk);

/* Whether the last message has this role. */
bool conversation_ends_with(const conversation *talk, const char *role);

/* The messages as a JSON array, without those that are left out. */
void conversation_json(const conversation *talk, json_out *json);

/* The same contents one after the other, as a text that goes on: what a person adds starts a line.
 */
void conversation_text(const conversation *talk, byte_buffer *text);

/* A file of JSON: a list of messages with role and content as strings. Loading replaces all. */
int conversation_save(const conversation *talk, const char *path);
int conversation_load(conversation *talk, const char *path);

void conversation_free(conversation *talk);

#endif
