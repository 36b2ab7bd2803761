/* json.h - reading and writing JSON.
 *
 * Two ways to read: a document tree for configs and messages, a stream of events for files of many
 * megabytes. Strict RFC 8259 (valid UTF-8, paired surrogates, no trailing bytes, no byte order
 * mark, no comments, no NaN). The tree refuses duplicate keys and numbers beyond a double, too.
 * Limits on depth, nodes and bytes; everything is counted memory. Errors name the byte offset.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_JSON_H
#define MICA_IO_JSON_H

#include "base/text_buffer.h"

typedef enum mica__json_type {
    MICA__JSON_NULL,
    MICA__JSON_BOOL,
    MICA__JSON_INTEGER, /* written without fraction or exponent and fits int64 */
    MICA__JSON_REAL,
    MICA__JSON_STRING,
    MICA__JSON_ARRAY,
    MICA__JSON_OBJECT
} mica__json_type;

/* A node of a document; everything it points to belongs to the document. */
typedef struct mica__json mica__json;
struct mica__json {
    mica__json_type type;
    bool boolean;
    int64_t integer;
    double number;      /* REAL; for INTEGER the same value as a double */
    const char *string; /* STRING: UTF-8, may hold NUL; NUL-terminated besides */
    int64_t length;     /* STRING: bytes */
    const char *key;    /* of a member of an object, NUL-terminated; else NULL */
    int64_t key_length;
    const mica__json *first; /* ARRAY, OBJECT: children in file order */
    const mica__json *next;  /* the next sibling */
    int64_t n;               /* ARRAY, OBJECT: how many children */
};

typedef struct mica__json_doc mica__json_doc;

/* Parses bytes[0, n). max_depth <= 0 means 64. On success *doc is owned by the caller
 * (mica__json_free). */
mica_status mica__json_parse(const char *bytes, size_t n, int max_depth, mica__json_doc **doc);

/* Reads a whole file (at most max_bytes) and parses it; the failure names the path. */
mica_status mica__json_read(const char *path, int64_t max_bytes, mica__json_doc **doc);

const mica__json *mica__json_root(const mica__json_doc *doc);
void mica__json_free(mica__json_doc *doc);

/* The member of an object with this key, or NULL (also when object is NULL or no object). */
const mica__json *mica__json_get(const mica__json *object, const char *key);

/* Streaming: called in file order. A non-OK status from a callback stops the parse and is returned.
 * Absent callbacks ignore their event. Strings are valid during the call only. */
typedef struct mica__json_events {
    mica_status (*null)(void *user);
    mica_status (*boolean)(void *user, bool value);
    mica_status (*number)(void *user, const char *text, size_t n); /* as written */
    mica_status (*string)(void *user, const char *bytes, size_t n);
    mica_status (*key)(void *user, const char *bytes, size_t n);
    mica_status (*start_object)(void *user);
    mica_status (*end_object)(void *user);
    mica_status (*start_array)(void *user);
    mica_status (*end_array)(void *user);
} mica__json_events;

mica_status mica__json_stream(const char *bytes, size_t n, int max_depth,
                              const mica__json_events *events, void *user);

/* Writing: appends one JSON string literal, quotes included; invalid UTF-8 becomes U+FFFD. */
mica_status mica__json_write_string(mica__text *out, const char *bytes, size_t n);

/* The shortest decimal that reads back as the same double; null for NaN and infinities. */
mica_status mica__json_write_number(mica__text *out, double value);

#endif
