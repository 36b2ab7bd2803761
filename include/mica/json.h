/* json.h - JSON documents, read strictly, and the pieces that writing needs.
 *
 * Strict RFC 8259: valid UTF-8, paired surrogates, no duplicate keys, no comments, no NaN, nothing
 * after the value. A document never changes after it was read: any number of threads may look at
 * it. Everything that a value hands out lives as long as its document.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_JSON_H
#define MICA_JSON_H

#include <mica/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mica__json_doc mica_json_doc;
typedef struct mica__json mica_json; /* a value inside a document */

typedef enum mica_json_type {
    MICA_JSON_NULL,
    MICA_JSON_BOOL,
    MICA_JSON_INTEGER, /* written without fraction or exponent and fits int64 */
    MICA_JSON_REAL,
    MICA_JSON_STRING,
    MICA_JSON_ARRAY,
    MICA_JSON_OBJECT
} mica_json_type;

/* Reads bytes[0, n), nested at most 64 deep. *doc is owned by the caller (mica_json_free).
 * MICA_E_FORMAT names the byte offset of what is wrong. */
MICA_API mica_status mica_json_parse(const char *bytes, size_t n, mica_json_doc **doc);

/* Frees a document; NULL is ignored. */
MICA_API void mica_json_free(mica_json_doc *doc);

/* The document's value. */
MICA_API const mica_json *mica_json_root(const mica_json_doc *doc);

/* What a value is; NULL is MICA_JSON_NULL. */
MICA_API mica_json_type mica_json_type_of(const mica_json *value);

/* The value of a bool, integer, number (an integer too) or string; false, 0 or NULL for other
 * types. A string is NUL-terminated UTF-8 and may hold NUL; *n (may be NULL) is its bytes. */
MICA_API bool mica_json_bool(const mica_json *value);
MICA_API int64_t mica_json_integer(const mica_json *value);
MICA_API double mica_json_number(const mica_json *value);
MICA_API const char *mica_json_string(const mica_json *value, int64_t *n);

/* Elements of an array or members of an object: how many, the first, and the one after a value, in
 * file order; 0 and NULL where there is none. */
MICA_API int64_t mica_json_count(const mica_json *value);
MICA_API const mica_json *mica_json_first(const mica_json *value);
MICA_API const mica_json *mica_json_next(const mica_json *value);

/* The key of a member of an object, NUL-terminated; NULL for any other value. */
MICA_API const char *mica_json_key(const mica_json *value);

/* The member with this key; NULL when there is none, also when object is NULL or no object. */
MICA_API const mica_json *mica_json_get(const mica_json *object, const char *key);

/* Most bytes that a literal of n bytes of text takes. */
#define MICA_JSON_QUOTED_BYTES(n) (6 * (size_t)(n) + 2)

/* Writes text[0, n) as a JSON string literal, quotes included, to out, which has room for
 * MICA_JSON_QUOTED_BYTES(n); invalid UTF-8 becomes U+FFFD. No NUL is added. Returns the length of
 * the literal, 0 when there was no memory for it. */
MICA_API size_t mica_json_quote(const char *text, size_t n, char *out);

#ifdef __cplusplus
}
#endif

#endif
