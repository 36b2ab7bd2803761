/* jinja_value.h - what templates compute with: values with Python's meaning on a heap with a
 * budget.
 *
 * A render owns one heap. Values are small structs passed by copy; what they point to lies in the
 * heap's chunks and is freed with it, never one by one. Strings are UTF-8 windows into byte
 * buffers. A buffer carries marks: the runs of its bytes that came from a message. Every way to
 * make a string from strings goes through mica__jinja_put*, so marks follow the bytes.
 *
 * Invariant: bytes, marks and list items that a value can see never change. Appending to a string
 * or list whose end is its buffer's end writes behind it, which makes `s = s + x` in a loop linear.
 * Methods that change a list or dict copy its storage first.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_JINJA_VALUE_H
#define MICA_TEXT_JINJA_VALUE_H

#include "base/alloc.h"

typedef struct jinja_chunk jinja_chunk;

/* Bump allocation with a budget for bytes, and the budget for steps beside it, since work on values
 * costs both. `status` keeps the first failure: functions without a status of their own (equality)
 * leave it here, and the next charge reports it. */
typedef struct jinja_heap {
    jinja_chunk *chunks;
    char *at;
    char *end;
    int64_t taken; /* bytes of chunks */
    int64_t limit;
    int64_t steps; /* left */
    mica_status status;
    uint64_t seed[2]; /* of the hash of dict keys */
} jinja_heap;

void mica__jinja_heap_init(jinja_heap *heap, int64_t max_bytes, int64_t max_steps);
void mica__jinja_heap_free(jinja_heap *heap);

/* Uses up steps; BUDGET when there are not enough, or the failure that the heap keeps. */
mica_status mica__jinja_charge(jinja_heap *heap, int64_t steps);

/* count * size bytes, aligned to 16, undefined contents. NULL: heap->status says why. */
void *mica__jinja_take(jinja_heap *heap, size_t count, size_t size);

typedef enum jinja_type {
    JINJA_ABSENT, /* no value: an argument that was not given, a name that is not set */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_BIGINT, /* an integer of the input beyond 64 bits: printed and compared, no arithmetic */
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_ITERATOR, /* generators: consumed once, no length, no index */
    JINJA_VIEW,     /* keys(), values(), items() of a dict: a length, no index */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_RANGE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION, /* a global */
    JINJA_METHOD,   /* an attribute of a value that can be called */
    JINJA_CYCLER,
    JINJA_JOINER
} jinja_type;

typedef struct jinja_mark {
    size_t begin, end;
} jinja_mark;

typedef struct jinja_bytes {
    char *bytes;
    size_t used;
    size_t capacity;
    jinja_mark *marks; /* sorted, disjoint, never touching */
    int64_t n_marks;
    int64_t marks_capacity;
    bool ascii; /* all used bytes are */
    bool fixed; /* belongs to a template: shared by threads, never appended to */
} jinja_bytes;

typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_range {
    int64_t start, stop, step, n;
} jinja_range;

typedef struct jinja_value jinja_value;

/* Why a value is undefined, for the message when it is used. */
typedef struct jinja_undefined {
    const char *name;    /* NUL-terminated, shortened */
    const char *owner;   /* the type that lacks the attribute, or NULL for a variable */
    const char *message; /* instead of both: said as it is */
    bool forbidden;      /* an attribute that the sandbox hides */
} jinja_undefined;

typedef struct jinja_method jinja_method;
struct jinja_loop;
struct jinja_macro;
struct jinja_function;
struct jinja_cycler;

struct jinja_value {
    jinja_type type;
    bool markup; /* STRING: safe HTML as Python's Markup */
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            jinja_bytes *buffer;
            size_t begin;
            size_t length;
        } text; /* STRING, BIGINT */
        jinja_list *list;
        jinja_dict *dict; /* DICT, NAMESPACE */
        jinja_range *range;
        const jinja_undefined *undefined; /* may be NULL */
        jinja_method *method;
        struct jinja_loop *loop;
        struct jinja_macro *macro;
        const struct jinja_function *function;
        struct jinja_cycler *cycler; /* CYCLER, JOINER */
    };
};

struct jinja_builtin;

struct jinja_method {
    jinja_value self;
    const struct jinja_builtin *builtin;
};

struct jinja_list {
    jinja_value *items;
    int64_t n;
    int64_t at;            /* ITERATOR: consumed so far */
    int64_t *used;         /* items in use in the storage, shared by all lists on it */
    int64_t capacity;      /* of the storage from items on */
    const char *type_name; /* as Python would call it: "list", "generator", "dict_items" */
};

typedef struct jinja_entry {
    jinja_value key;
    jinja_value value;
    uint64_t hash;
} jinja_entry;

struct jinja_dict {
    jinja_entry *entries; /* [n] in insertion order */
    int64_t n;
    int64_t capacity;
    uint32_t *slots; /* [n_slots] entry index + 1, or 0; NULL while there are few */
    int64_t n_slots;
};

/* --- simple values ---------------------------------------------------------------------------- */

static inline jinja_value mica__jinja_none(void)
{
    return (jinja_value){.type = JINJA_NONE};
}

static inline jinja_value mica__jinja_bool(bool value)
{
    return (jinja_value){.type = JINJA_BOOL, .boolean = value};
}

static inline jinja_value mica__jinja_int(int64_t value)
{
    return (jinja_value){.type = JINJA_INT, .integer = value};
}

static inline jinja_value mica__jinja_float(double value)
{
    return (jinja_value){.type = JINJA_FLOAT, .number = value};
}

static inline bool mica__jinja_is_string(const jinja_value *v)
{
    return v->type == JINJA_STRING;
}

static inline const char *mica__jinja_chars(const jinja_value *v)
{
    return v->text.buffer->bytes + v->text.begin;
}

/* LIST, TUPLE, ITERATOR and VIEW keep their items in a jinja_list. */
static inline bool mica__jinja_has_list(const jinja_value *v)
{
    return v->type == JINJA_LIST || v->type == JINJA_TUPLE || v->type == JINJA_ITERATOR ||
           v->type == JINJA_VIEW;
}

/* bool and int as an integer; false for every other type. */
bool mica__jinja_as_int(const jinja_value *v, int64_t *value);

/* bool, int and float as a double. */
bool mica__jinja_as_float(const jinja_value *v, double *value);

/* Python's name of the type, as messages show it. */
const char *mica__jinja_type_name(const jinja_value *v);

/* --- strings ---------------------------------------------------------------------------------- */

jinja_bytes *mica__jinja_bytes_new(jinja_heap *heap, size_t capacity);
mica_status mica__jinja_put(jinja_heap *heap, jinja_bytes *to, const char *bytes, size_t n,
                            bool marked);
mica_status mica__jinja_put_string(jinja_heap *heap, jinja_bytes *to, const char *string);

/* Appends bytes [from, from + n) of a string with their marks; `to` may be the string's own buffer.
 */
mica_status mica__jinja_put_part(jinja_heap *heap, jinja_bytes *to, const jinja_value *text,
                                 size_t from, size_t n);
mica_status mica__jinja_put_text(jinja_heap *heap, jinja_bytes *to, const jinja_value *text);

/* Appends bytes that stand for bytes [from, from + n) of `text`: marked when any of those is. */
mica_status mica__jinja_put_as(jinja_heap *heap, jinja_bytes *to, const char *bytes, size_t n_bytes,
                               const jinja_value *text, size_t from, size_t n);

/* The whole buffer as a string. */
jinja_value mica__jinja_made(jinja_bytes *buffer);

/* A new string; `marked` marks all of it. */
mica_status mica__jinja_string(jinja_heap *heap, const char *bytes, size_t n, bool marked,
                               jinja_value *out);

/* Bytes [from, from + n) of a string, sharing its buffer and keeping `markup`. */
jinja_value mica__jinja_part(const jinja_value *text, size_t from, size_t n);

/* Whether any of the bytes [from, from + n) is marked. */
bool mica__jinja_marked(const jinja_value *text, size_t from, size_t n);
bool mica__jinja_any_mark(const jinja_value *text);

mica_status mica__jinja_concat(jinja_heap *heap, const jinja_value *a, const jinja_value *b,
                               jinja_value *out);

/* Code points: their number, and the byte offset of the index-th (0 <= index <= number). */
int64_t mica__jinja_points(const jinja_value *text);
size_t mica__jinja_point_offset(const jinja_value *text, int64_t index);

bool mica__jinja_text_is(const jinja_value *text, const char *string);

/* --- lists and dicts -------------------------------------------------------------------------- */

jinja_list *mica__jinja_list_new(jinja_heap *heap, int64_t capacity);
mica_status mica__jinja_list_add(jinja_heap *heap, jinja_list *list, const jinja_value *item);
jinja_value mica__jinja_of_list(jinja_type type, const char *type_name, jinja_list *list);

/* A list of a's items and then b's; a's storage is shared where b fits behind it. */
mica_status mica__jinja_list_concat(jinja_heap *heap, const jinja_list *a, const jinja_list *b,
                                    jinja_list **out);

jinja_dict *mica__jinja_dict_new(jinja_heap *heap);

/* Fails (ARGUMENT) for keys that cannot be hashed. */
mica_status mica__jinja_dict_set(jinja_heap *heap, jinja_dict *dict, const jinja_value *key,
                                 const jinja_value *value);

/* The entry with this key, NULL when there is none or the key cannot be hashed. */
jinja_entry *mica__jinja_dict_find(jinja_heap *heap, const jinja_dict *dict,
                                   const jinja_value *key);
jinja_entry *mica__jinja_dict_find_bytes(jinja_heap *heap, const jinja_dict *dict,
                                         const char *bytes, size_t n);
bool mica__jinja_hashable(jinja_heap *heap, const jinja_value *v);

/* The failure for a value that cannot be a key, or that of the heap. */
mica_status mica__jinja_unhashable(const jinja_heap *heap, const jinja_value *v);

/* --- meaning ---------------------------------------------------------------------------------- */

/* How deep values may nest where they are compared or printed. */
#define JINJA_MAX_NESTING 200

bool mica__jinja_truth(const jinja_value *v);

/* ==; values nested deeper than JINJA_MAX_NESTING count as different. */
bool mica__jinja_equal(jinja_heap *heap, const jinja_value *a, const jinja_value *b);

/* *order < 0, 0, > 0; *comparable false for types that have no order (NaN: *unordered). */
typedef struct jinja_order {
    int order;
    bool comparable;
    bool unordered;
} jinja_order;
jinja_order mica__jinja_compare(jinja_heap *heap, const jinja_value *a, const jinja_value *b);

/* str(v) and repr(v), appended. BUDGET for values nested too deep. */
mica_status mica__jinja_put_str(jinja_heap *heap, jinja_bytes *to, const jinja_value *v);
mica_status mica__jinja_put_repr(jinja_heap *heap, jinja_bytes *to, const jinja_value *v);
mica_status mica__jinja_str(jinja_heap *heap, const jinja_value *v, jinja_value *out);

#endif
