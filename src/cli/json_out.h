/* json_out.h - the one JSON object that a command prints with --json.
 *
 * It is built in memory and printed at the end, so that a failure on the way leaves nothing half
 * written on standard output.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_JSON_OUT_H
#define MICA_CLI_JSON_OUT_H

#include <mica/json.h>

#include "cli/byte_buffer.h"

/* Zero-initialise. key: of a member, NULL inside an array and for the outermost value. */
typedef struct json_out {
    byte_buffer text;
    bool comma; /* the next value needs one before it */
} json_out;

void json_open(json_out *json, const char *key, char bracket);
void json_close(json_out *json, char bracket);

/* text NULL: null. Bytes that are not UTF-8 become U+FFFD. */
void json_text(json_out *json, const char *key, const char *text);
void json_bytes(json_out *json, const char *key, const char *bytes, size_t n);
void json_integer(json_out *json, const char *key, int64_t value);
void json_unsigned(json_out *json, const char *key, uint64_t value);
void json_bool(json_out *json, const char *key, bool value);
void json_null(json_out *json, const char *key);

/* NaN and infinities: null. */
void json_real(json_out *json, const char *key, double value);
void json_float(json_out *json, const char *key, float value);

/* A real that was measured: `digits` significant digits. */
void json_measured(json_out *json, const char *key, double value, int digits);

/* A list of ids. */
void json_ids(json_out *json, const char *key, const int32_t *ids, int64_t n);

/* A value of a document, whole; a member of an object keeps its key. */
void json_copy(json_out *json, const mica_json *value);

/* Prints the object and a newline and frees it: 0, or 1 when memory or standard output failed. */
int json_print(json_out *json);

/* Whether json_print has written something. */
bool json_was_printed(void);

void json_free(json_out *json);

#endif
