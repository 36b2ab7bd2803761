/* public_json.c - include/mica/json.h over json.h: a document's nodes are the public values.
 * SPDX-License-Identifier: MIT
 */
#include <mica/json.h>

#include <string.h>

#include "io/json.h"

_Static_assert((int)MICA_JSON_NULL == (int)MICA__JSON_NULL &&
                   (int)MICA_JSON_INTEGER == (int)MICA__JSON_INTEGER &&
                   (int)MICA_JSON_STRING == (int)MICA__JSON_STRING &&
                   (int)MICA_JSON_OBJECT == (int)MICA__JSON_OBJECT,
               "the public types are the node's");

mica_status mica_json_parse(const char *bytes, size_t n, mica_json_doc **doc)
{
    return mica__json_parse(bytes, n, 0, doc);
}

void mica_json_free(mica_json_doc *doc)
{
    mica__json_free(doc);
}

const mica_json *mica_json_root(const mica_json_doc *doc)
{
    return mica__json_root(doc);
}

mica_json_type mica_json_type_of(const mica_json *value)
{
    return value ? (mica_json_type)value->type : MICA_JSON_NULL;
}

bool mica_json_bool(const mica_json *value)
{
    return value && value->type == MICA__JSON_BOOL && value->boolean;
}

int64_t mica_json_integer(const mica_json *value)
{
    return value && value->type == MICA__JSON_INTEGER ? value->integer : 0;
}

double mica_json_number(const mica_json *value)
{
    const bool number =
        value && (value->type == MICA__JSON_INTEGER || value->type == MICA__JSON_REAL);
    return number ? value->number : 0;
}

const char *mica_json_string(const mica_json *value, int64_t *n)
{
    const bool string = value && value->type == MICA__JSON_STRING;
    if (n)
        *n = string ? value->length : 0;
    return string ? value->string : NULL;
}

static bool has_children(const mica_json *value)
{
    return value && (value->type == MICA__JSON_ARRAY || value->type == MICA__JSON_OBJECT);
}

int64_t mica_json_count(const mica_json *value)
{
    return has_children(value) ? value->n : 0;
}

const mica_json *mica_json_first(const mica_json *value)
{
    return has_children(value) ? value->first : NULL;
}

const mica_json *mica_json_next(const mica_json *value)
{
    return value ? value->next : NULL;
}

const char *mica_json_key(const mica_json *value)
{
    return value ? value->key : NULL;
}

const mica_json *mica_json_get(const mica_json *object, const char *key)
{
    return mica__json_get(object, key);
}

size_t mica_json_quote(const char *text, size_t n, char *out)
{
    mica__text literal = {.kind = MICA_MEMORY_OTHER};
    size_t length = 0;
    if (mica__json_write_string(&literal, text, n) == MICA_OK) {
        length = (size_t)literal.length;
        memcpy(out, literal.bytes, length);
    }
    mica__text_free(&literal);
    return length;
}
