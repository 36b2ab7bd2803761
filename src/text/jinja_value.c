/* jinja_value.c - the heap, strings with marks, lists, dicts and what equality means.
 * SPDX-License-Identifier: MIT
 */
#include "text/jinja_value.h"

#include <math.h>
#include <string.h>

#include "base/hash_map.h"
#include "text/jinja_run.h"

#define KIND        MICA_MEMORY_TEXT
#define FIRST_CHUNK ((size_t)32 << 10)
#define LAST_CHUNK  ((size_t)1 << 20)
#define FEW_KEYS    8

/* --- the heap --------------------------------------------------------------------------------- */

struct jinja_chunk {
    jinja_chunk *next;
    size_t bytes;
};

#define CHUNK_HEADER ((sizeof(jinja_chunk) + 15) / 16 * 16)

void mica__jinja_heap_init(jinja_heap *heap, int64_t max_bytes, int64_t max_steps)
{
    *heap = (jinja_heap){.limit = max_bytes, .steps = max_steps};
    /* Where things lie differs from process to process: enough to make colliding keys guesswork,
     * and no output depends on it. */
    heap->seed[0] = (uint64_t)(uintptr_t)heap * 0x9e3779b97f4a7c15u;
    heap->seed[1] = (uint64_t)(uintptr_t)&mica__jinja_heap_init ^ heap->seed[0] >> 31;
}

void mica__jinja_heap_free(jinja_heap *heap)
{
    for (jinja_chunk *c = heap->chunks, *next; c; c = next) {
        next = c->next;
        mica__free(c);
    }
    heap->chunks = NULL;
    heap->at = heap->end = NULL;
}

mica_status mica__jinja_charge(jinja_heap *heap, int64_t steps)
{
    if (heap->status != MICA_OK)
        return heap->status;
    if (steps > heap->steps) {
        heap->steps = 0;
        return heap->status = mica__fail(MICA_E_BUDGET, "the budget of steps is used up");
    }
    heap->steps -= steps;
    return MICA_OK;
}

void *mica__jinja_take(jinja_heap *heap, size_t count, size_t size)
{
    size_t bytes;
    if (heap->status != MICA_OK)
        return NULL;
    if (!mica__mul(count, size, &bytes) || bytes > (size_t)INT64_MAX / 4) {
        heap->status = mica__fail(MICA_E_BUDGET, "a value too large to represent");
        return NULL;
    }
    bytes = (bytes + 15) / 16 * 16;
    if ((size_t)(heap->end - heap->at) < bytes || !heap->at) {
        size_t fresh = (size_t)heap->taken < FIRST_CHUNK  ? FIRST_CHUNK
                       : (size_t)heap->taken < LAST_CHUNK ? (size_t)heap->taken
                                                          : LAST_CHUNK;
        const bool alone = bytes > fresh / 4;
        if (alone)
            fresh = bytes;
        if ((int64_t)(fresh + CHUNK_HEADER) > heap->limit - heap->taken) {
            heap->status =
                mica__fail(MICA_E_BUDGET, "the budget of %lld bytes for values is used up",
                           (long long)heap->limit);
            return NULL;
        }
        jinja_chunk *chunk = mica__alloc(KIND, fresh + CHUNK_HEADER);
        if (!chunk) {
            heap->status = MICA_E_MEMORY;
            return NULL;
        }
        heap->taken += (int64_t)(fresh + CHUNK_HEADER);
        *chunk = (jinja_chunk){.next = heap->chunks, .bytes = fresh};
        heap->chunks = chunk;
        char *memory = (char *)chunk + CHUNK_HEADER;
        if (alone) /* the chunk being filled stays the one being filled */
            return memory;
        heap->at = memory;
        heap->end = memory + fresh;
    }
    void *memory = heap->at;
    heap->at += bytes;
    return memory;
}

/* --- simple values ---------------------------------------------------------------------------- */

bool mica__jinja_as_int(const jinja_value *v, int64_t *value)
{
    if (v->type == JINJA_BOOL)
        *value = v->boolean;
    else if (v->type == JINJA_INT)
        *value = v->integer;
    else
        return false;
    return true;
}

bool mica__jinja_as_float(const jinja_value *v, double *value)
{
    int64_t integer;
    if (v->type == JINJA_FLOAT)
        *value = v->number;
    else if (mica__jinja_as_int(v, &integer))
        *value = (double)integer;
    else
        return false;
    return true;
}

const char *mica__jinja_type_name(const jinja_value *v)
{
    switch (v->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        return "Undefined";
    case JINJA_NONE:
        return "NoneType";
    case JINJA_BOOL:
        return "bool";
    case JINJA_INT:
    case JINJA_BIGINT:
        return "int";
    case JINJA_FLOAT:
        return "float";
    case JINJA_STRING:
        return v->markup ? "Markup" : "str";
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_ITERATOR:
    case JINJA_VIEW:
        return v->list->type_name;
    case JINJA_DICT:
        return "dict";
    case JINJA_NAMESPACE:
        return "Namespace";
    case JINJA_RANGE:
        return "range";
    case JINJA_LOOP:
        return "LoopContext";
    case JINJA_MACRO:
        return "Macro";
    case JINJA_FUNCTION:
        return "function";
    case JINJA_METHOD:
        return "builtin_function_or_method";
    case JINJA_CYCLER:
        return "Cycler";
    case JINJA_JOINER:
        return "Joiner";
    }
    return "?";
}

bool mica__jinja_truth(const jinja_value *v)
{
    switch (v->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v->boolean;
    case JINJA_INT:
        return v->integer != 0;
    case JINJA_FLOAT:
        return v->number != 0;
    case JINJA_STRING:
        return v->text.length > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return v->list->n > 0;
    case JINJA_DICT:
        return v->dict->n > 0;
    case JINJA_RANGE:
        return v->range->n > 0;
    case JINJA_BIGINT:
    case JINJA_ITERATOR:
    case JINJA_NAMESPACE:
    case JINJA_LOOP:
    case JINJA_MACRO:
    case JINJA_FUNCTION:
    case JINJA_METHOD:
    case JINJA_CYCLER:
    case JINJA_JOINER:
        return true;
    }
    return true;
}

/* --- strings ---------------------------------------------------------------------------------- */

jinja_bytes *mica__jinja_bytes_new(jinja_heap *heap, size_t capacity)
{
    jinja_bytes *made = mica__jinja_take(heap, 1, sizeof *made);
    if (!made)
        return NULL;
    static char nothing[1]; /* never written to: its capacity is 0 */
    *made = (jinja_bytes){.bytes = nothing, .ascii = true};
    if (capacity) {
        made->bytes = mica__jinja_take(heap, capacity, 1);
        if (!made->bytes)
            return NULL;
        made->capacity = capacity;
    }
    return made;
}

/* Room for n more bytes. What was there stays where it was for those who look at it. */
static mica_status reserve(jinja_heap *heap, jinja_bytes *to, size_t n)
{
    if (to->capacity - to->used >= n)
        return MICA_OK;
    size_t wanted = to->used + n;
    wanted = wanted < 32 ? 64 : wanted * 2;
    char *grown = mica__jinja_take(heap, wanted, 1);
    if (!grown)
        return heap->status;
    if (to->used)
        memcpy(grown, to->bytes, to->used);
    to->bytes = grown;
    to->capacity = wanted;
    return MICA_OK;
}

/* Marks bytes [begin, end), which lie behind every mark so far. */
static mica_status mark(jinja_heap *heap, jinja_bytes *to, size_t begin, size_t end)
{
    if (begin == end)
        return MICA_OK;
    if (to->n_marks && to->marks[to->n_marks - 1].end == begin) {
        to->marks[to->n_marks - 1].end = end;
        return MICA_OK;
    }
    if (to->n_marks == to->marks_capacity) {
        const int64_t wanted = to->marks_capacity ? 2 * to->marks_capacity : 2;
        jinja_mark *grown = mica__jinja_take(heap, (size_t)wanted, sizeof *grown);
        if (!grown)
            return heap->status;
        if (to->n_marks)
            memcpy(grown, to->marks, (size_t)to->n_marks * sizeof *grown);
        to->marks = grown;
        to->marks_capacity = wanted;
    }
    to->marks[to->n_marks++] = (jinja_mark){begin, end};
    return MICA_OK;
}

static bool all_ascii(const char *bytes, size_t n)
{
    unsigned char seen = 0;
    for (size_t i = 0; i < n; i++)
        seen |= (unsigned char)bytes[i];
    return seen < 0x80;
}

/* The bytes without a mark. Long copies cost steps as other work does. */
static mica_status put_plain(jinja_heap *heap, jinja_bytes *to, const char *bytes, size_t n)
{
    if (n > 64)
        MICA_TRY(mica__jinja_charge(heap, (int64_t)(n / 64)));
    MICA_TRY(reserve(heap, to, n));
    if (n)
        memcpy(to->bytes + to->used, bytes, n);
    to->ascii = to->ascii && all_ascii(bytes, n);
    to->used += n;
    return MICA_OK;
}

mica_status mica__jinja_put(jinja_heap *heap, jinja_bytes *to, const char *bytes, size_t n,
                            bool marked)
{
    MICA_TRY(put_plain(heap, to, bytes, n));
    return marked ? mark(heap, to, to->used - n, to->used) : MICA_OK;
}

mica_status mica__jinja_put_string(jinja_heap *heap, jinja_bytes *to, const char *string)
{
    return put_plain(heap, to, string, strlen(string));
}

/* Index of the first mark that ends behind `at`. */
static int64_t first_mark(const jinja_bytes *buffer, size_t at)
{
    int64_t low = 0, high = buffer->n_marks;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (buffer->marks[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

mica_status mica__jinja_put_part(jinja_heap *heap, jinja_bytes *to, const jinja_value *text,
                                 size_t from, size_t n)
{
    const jinja_bytes *source = text->text.buffer;
    const size_t begin = text->text.begin + from, at = to->used;
    const int64_t n_marks = source->n_marks; /* `to` may be the source */
    if (!n)
        return MICA_OK;
    MICA_TRY(reserve(heap, to, n)); /* before the source's bytes are looked up: they may move */
    MICA_TRY(put_plain(heap, to, source->bytes + begin, n));
    for (int64_t i = first_mark(source, begin); i < n_marks; i++) {
        const jinja_mark m = source->marks[i];
        if (m.begin >= begin + n)
            break;
        MICA_TRY(mark(heap, to, at + (m.begin > begin ? m.begin - begin : 0),
                      at + (m.end < begin + n ? m.end - begin : n)));
    }
    return MICA_OK;
}

mica_status mica__jinja_put_text(jinja_heap *heap, jinja_bytes *to, const jinja_value *text)
{
    return mica__jinja_put_part(heap, to, text, 0, text->text.length);
}

bool mica__jinja_marked(const jinja_value *text, size_t from, size_t n)
{
    const jinja_bytes *buffer = text->text.buffer;
    if (!buffer->n_marks || !n)
        return false;
    const size_t begin = text->text.begin + from;
    const int64_t i = first_mark(buffer, begin);
    return i < buffer->n_marks && buffer->marks[i].begin < begin + n;
}

bool mica__jinja_any_mark(const jinja_value *text)
{
    return mica__jinja_marked(text, 0, text->text.length);
}

mica_status mica__jinja_put_as(jinja_heap *heap, jinja_bytes *to, const char *bytes, size_t n_bytes,
                               const jinja_value *text, size_t from, size_t n)
{
    return mica__jinja_put(heap, to, bytes, n_bytes, mica__jinja_marked(text, from, n));
}

jinja_value mica__jinja_made(jinja_bytes *buffer)
{
    return (jinja_value){.type = JINJA_STRING, .text = {buffer, 0, buffer->used}};
}

mica_status mica__jinja_string(jinja_heap *heap, const char *bytes, size_t n, bool marked,
                               jinja_value *out)
{
    jinja_bytes *buffer = mica__jinja_bytes_new(heap, n);
    if (!buffer)
        return heap->status;
    MICA_TRY(mica__jinja_put(heap, buffer, bytes, n, marked));
    *out = mica__jinja_made(buffer);
    return MICA_OK;
}

jinja_value mica__jinja_part(const jinja_value *text, size_t from, size_t n)
{
    jinja_value part = *text;
    part.text.begin += from;
    part.text.length = n;
    return part;
}

mica_status mica__jinja_concat(jinja_heap *heap, const jinja_value *a, const jinja_value *b,
                               jinja_value *out)
{
    jinja_bytes *left = a->text.buffer;
    const size_t n = a->text.length + b->text.length;
    if (!left->fixed && a->text.length && left->used == a->text.begin + a->text.length &&
        left->capacity - left->used >= b->text.length) {
        *out = *a;
        out->text.length = n;
        return mica__jinja_put_text(heap, left, b);
    }
    jinja_bytes *made = mica__jinja_bytes_new(heap, n + n / 2 + 16);
    if (!made)
        return heap->status;
    MICA_TRY(mica__jinja_put_text(heap, made, a));
    MICA_TRY(mica__jinja_put_text(heap, made, b));
    *out = mica__jinja_made(made);
    return MICA_OK;
}

int64_t mica__jinja_points(const jinja_value *text)
{
    if (text->text.buffer->ascii)
        return (int64_t)text->text.length;
    const char *bytes = mica__jinja_chars(text);
    int64_t n = 0;
    for (size_t i = 0; i < text->text.length; i++)
        n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return n;
}

size_t mica__jinja_point_offset(const jinja_value *text, int64_t index)
{
    if (text->text.buffer->ascii)
        return (size_t)index;
    const char *bytes = mica__jinja_chars(text);
    size_t at = 0;
    for (; index > 0 && at < text->text.length; index--) {
        at++;
        while (at < text->text.length && ((unsigned char)bytes[at] & 0xc0) == 0x80)
            at++;
    }
    return at;
}

bool mica__jinja_text_is(const jinja_value *text, const char *string)
{
    const size_t n = strlen(string);
    return text->text.length == n && memcmp(mica__jinja_chars(text), string, n) == 0;
}

/* --- lists ------------------------------------------------------------------------------------ */

jinja_list *mica__jinja_list_new(jinja_heap *heap, int64_t capacity)
{
    jinja_list *list = mica__jinja_take(heap, 1, sizeof *list);
    int64_t *used = mica__jinja_take(heap, 1, sizeof *used);
    if (!list || !used)
        return NULL;
    *used = 0;
    *list = (jinja_list){.used = used, .type_name = "list"};
    if (capacity > 0) {
        list->items = mica__jinja_take(heap, (size_t)capacity, sizeof *list->items);
        if (!list->items)
            return NULL;
        list->capacity = capacity;
    }
    return list;
}

mica_status mica__jinja_list_add(jinja_heap *heap, jinja_list *list, const jinja_value *item)
{
    if (list->n == list->capacity || *list->used != list->n) {
        const int64_t wanted = list->n < 4 ? 8 : 2 * list->n;
        jinja_value *grown = mica__jinja_take(heap, (size_t)wanted, sizeof *grown);
        int64_t *used = mica__jinja_take(heap, 1, sizeof *used);
        if (!grown || !used)
            return heap->status;
        if (list->n)
            memcpy(grown, list->items, (size_t)list->n * sizeof *grown);
        *used = list->n;
        list->items = grown;
        list->used = used;
        list->capacity = wanted;
    }
    list->items[list->n++] = *item;
    *list->used = list->n;
    return MICA_OK;
}

jinja_value mica__jinja_of_list(jinja_type type, const char *type_name, jinja_list *list)
{
    list->type_name = type_name;
    return (jinja_value){.type = type, .list = list};
}

mica_status mica__jinja_list_concat(jinja_heap *heap, const jinja_list *a, const jinja_list *b,
                                    jinja_list **out)
{
    MICA_TRY(mica__jinja_charge(heap, 1 + b->n / 8));
    jinja_list *made = mica__jinja_take(heap, 1, sizeof *made);
    if (!made)
        return heap->status;
    *made = *a;
    made->at = 0;
    *out = made;
    if (a->n > 0 && *a->used == a->n && a->capacity - a->n >= b->n) {
        if (b->n)
            memcpy(made->items + a->n, b->items, (size_t)b->n * sizeof *b->items);
        made->n = *made->used = a->n + b->n;
        return MICA_OK;
    }
    MICA_TRY(mica__jinja_charge(heap, a->n / 8));
    jinja_list *fresh = mica__jinja_list_new(heap, 2 * (a->n + b->n));
    if (!fresh)
        return heap->status;
    if (a->n)
        memcpy(fresh->items, a->items, (size_t)a->n * sizeof *a->items);
    if (b->n)
        memcpy(fresh->items + a->n, b->items, (size_t)b->n * sizeof *b->items);
    fresh->n = *fresh->used = a->n + b->n;
    fresh->type_name = a->type_name;
    *out = fresh;
    return MICA_OK;
}

/* --- dicts ------------------------------------------------------------------------------------ */

static bool hashable_at(jinja_heap *heap, const jinja_value *v, int depth)
{
    if (v->type == JINJA_LIST || v->type == JINJA_DICT || v->type == JINJA_VIEW)
        return false;
    if (v->type != JINJA_TUPLE)
        return true;
    if (depth > JINJA_MAX_NESTING || mica__jinja_charge(heap, v->list->n) != MICA_OK)
        return false;
    for (int64_t i = 0; i < v->list->n; i++)
        if (!hashable_at(heap, &v->list->items[i], depth + 1))
            return false;
    return true;
}

bool mica__jinja_hashable(jinja_heap *heap, const jinja_value *v)
{
    return hashable_at(heap, v, 0);
}

mica_status mica__jinja_unhashable(const jinja_heap *heap, const jinja_value *v)
{
    if (heap->status != MICA_OK)
        return heap->status;
    return mica__fail(MICA_E_ARGUMENT, "unhashable type: '%s'", mica__jinja_type_name(v));
}

/* Keys that collide cannot be prepared without the seed. */
static uint64_t hash_bytes(const uint64_t seed[2], const char *bytes, size_t n)
{
    return mica__siphash(bytes, n, seed[0], seed[1], 1, 3);
}

static uint64_t hash_number(const uint64_t seed[2], double number)
{
    return hash_bytes(seed, (const char *)&number, sizeof number);
}

/* Equal values have equal hashes: 1, 1.0 and true are one key. */
static uint64_t hash_value(jinja_heap *heap, const jinja_value *v, int depth)
{
    double number;
    if (mica__jinja_as_float(v, &number))
        return hash_number(heap->seed, number == 0 ? 0.0 : number);
    if (v->type == JINJA_STRING || v->type == JINJA_BIGINT)
        return hash_bytes(heap->seed, mica__jinja_chars(v), v->text.length);
    if (v->type == JINJA_TUPLE) {
        uint64_t hash = 0x345678;
        if (depth < JINJA_MAX_NESTING && mica__jinja_charge(heap, v->list->n) == MICA_OK)
            for (int64_t i = 0; i < v->list->n; i++)
                hash = (hash ^ hash_value(heap, &v->list->items[i], depth + 1)) * 1000003;
        return hash;
    }
    return (uint64_t)v->type * 0x9e3779b97f4a7c15u;
}

jinja_dict *mica__jinja_dict_new(jinja_heap *heap)
{
    jinja_dict *dict = mica__jinja_take(heap, 1, sizeof *dict);
    if (dict)
        *dict = (jinja_dict){0};
    return dict;
}

static jinja_entry *find_hashed(jinja_heap *heap, const jinja_dict *dict, const jinja_value *key,
                                uint64_t hash)
{
    if (!dict->slots) {
        for (int64_t i = 0; i < dict->n; i++) {
            jinja_entry *e = &dict->entries[i];
            if (e->hash == hash && mica__jinja_equal(heap, &e->key, key))
                return e;
        }
        return NULL;
    }
    for (uint64_t at = hash;; at++) {
        const uint32_t slot = dict->slots[at & (uint64_t)(dict->n_slots - 1)];
        if (!slot)
            return NULL;
        jinja_entry *e = &dict->entries[slot - 1];
        if (e->hash == hash && mica__jinja_equal(heap, &e->key, key))
            return e;
    }
}

jinja_entry *mica__jinja_dict_find(jinja_heap *heap, const jinja_dict *dict, const jinja_value *key)
{
    if (!dict->n || !mica__jinja_hashable(heap, key))
        return NULL;
    return find_hashed(heap, dict, key, hash_value(heap, key, 0));
}

jinja_entry *mica__jinja_dict_find_bytes(jinja_heap *heap, const jinja_dict *dict,
                                         const char *bytes, size_t n)
{
    if (!dict->n)
        return NULL;
    jinja_bytes buffer = {.bytes = (char *)(uintptr_t)bytes, .used = n, .fixed = true};
    const jinja_value key = {.type = JINJA_STRING, .text = {&buffer, 0, n}};
    return mica__jinja_dict_find(heap, dict, &key);
}

static void fill_slots(jinja_dict *dict)
{
    memset(dict->slots, 0, (size_t)dict->n_slots * sizeof *dict->slots);
    for (int64_t i = 0; i < dict->n; i++) {
        uint64_t at = dict->entries[i].hash;
        while (dict->slots[at & (uint64_t)(dict->n_slots - 1)])
            at++;
        dict->slots[at & (uint64_t)(dict->n_slots - 1)] = (uint32_t)(i + 1);
    }
}

/* Room for one more entry, and slots at most half full. */
static mica_status dict_grow(jinja_heap *heap, jinja_dict *dict)
{
    if (dict->n < dict->capacity)
        return MICA_OK;
    if (dict->n >= (int64_t)1 << 30)
        return heap->status = mica__fail(MICA_E_BUDGET, "a dict of too many keys");
    const int64_t wanted = dict->capacity ? 2 * dict->capacity : 4;
    jinja_entry *grown = mica__jinja_take(heap, (size_t)wanted, sizeof *grown);
    uint32_t *slots = dict->slots;
    if (wanted > FEW_KEYS)
        slots = mica__jinja_take(heap, (size_t)(2 * wanted), sizeof *slots);
    if (!grown || (wanted > FEW_KEYS && !slots))
        return heap->status;
    if (dict->n)
        memcpy(grown, dict->entries, (size_t)dict->n * sizeof *grown);
    dict->entries = grown;
    dict->capacity = wanted;
    if (wanted > FEW_KEYS) {
        dict->slots = slots;
        dict->n_slots = 2 * wanted;
        fill_slots(dict);
    }
    return MICA_OK;
}

mica_status mica__jinja_dict_set(jinja_heap *heap, jinja_dict *dict, const jinja_value *key,
                                 const jinja_value *value)
{
    if (!mica__jinja_hashable(heap, key))
        return mica__jinja_unhashable(heap, key);
    const uint64_t hash = hash_value(heap, key, 0);
    jinja_entry *found = find_hashed(heap, dict, key, hash);
    if (found) {
        found->value = *value;
        return MICA_OK;
    }
    MICA_TRY(dict_grow(heap, dict));
    dict->entries[dict->n++] = (jinja_entry){.key = *key, .value = *value, .hash = hash};
    if (dict->slots) {
        uint64_t at = hash;
        while (dict->slots[at & (uint64_t)(dict->n_slots - 1)])
            at++;
        dict->slots[at & (uint64_t)(dict->n_slots - 1)] = (uint32_t)dict->n;
    }
    return heap->status;
}

/* --- equality and order ----------------------------------------------------------------------- */

static int compare_bytes(const jinja_value *a, const jinja_value *b)
{
    const size_t n = a->text.length < b->text.length ? a->text.length : b->text.length;
    const int order = n ? memcmp(mica__jinja_chars(a), mica__jinja_chars(b), n) : 0;
    if (order)
        return order;
    return (a->text.length > b->text.length) - (a->text.length < b->text.length);
}

/* An integer against a double, exactly. */
static int compare_int_float(int64_t i, double d)
{
    if (d >= 0x1p63)
        return -1;
    if (d < -0x1p63)
        return 1;
    const int64_t whole = (int64_t)d;
    if (i != whole)
        return i < whole ? -1 : 1;
    const double rest = d - (double)whole;
    return (rest < 0) - (rest > 0);
}

static jinja_order compare_numbers(const jinja_value *a, const jinja_value *b)
{
    int64_t i = 0, j = 0;
    const bool a_int = mica__jinja_as_int(a, &i), b_int = mica__jinja_as_int(b, &j);
    jinja_order result = {.comparable = true};
    if (a_int && b_int)
        result.order = (i > j) - (i < j);
    else if ((!a_int && isnan(a->number)) || (!b_int && isnan(b->number)))
        result.unordered = true;
    else if (a_int)
        result.order = compare_int_float(i, b->number);
    else if (b_int)
        result.order = -compare_int_float(j, a->number);
    else
        result.order = (a->number > b->number) - (a->number < b->number);
    return result;
}

static bool is_number(const jinja_value *v)
{
    return v->type == JINJA_BOOL || v->type == JINJA_INT || v->type == JINJA_FLOAT;
}

static bool equal_at(jinja_heap *heap, const jinja_value *a, const jinja_value *b, int depth);

static bool equal_dicts(jinja_heap *heap, const jinja_dict *a, const jinja_dict *b, int depth)
{
    if (a->n != b->n)
        return false;
    for (int64_t i = 0; i < a->n; i++) {
        const jinja_entry *e = &a->entries[i];
        const jinja_entry *other = mica__jinja_dict_find(heap, b, &e->key);
        if (!other || !equal_at(heap, &e->value, &other->value, depth + 1))
            return false;
    }
    return true;
}

static bool equal_lists(jinja_heap *heap, const jinja_list *a, const jinja_list *b, int depth)
{
    if (a->n != b->n)
        return false;
    for (int64_t i = 0; i < a->n; i++)
        if (!equal_at(heap, &a->items[i], &b->items[i], depth + 1))
            return false;
    return true;
}

static bool equal_at(jinja_heap *heap, const jinja_value *a, const jinja_value *b, int depth)
{
    if (depth > JINJA_MAX_NESTING || mica__jinja_charge(heap, 1) != MICA_OK)
        return false;
    if (is_number(a) && is_number(b)) {
        const jinja_order order = compare_numbers(a, b);
        return !order.unordered && order.order == 0;
    }
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_STRING:
    case JINJA_BIGINT:
        return a->text.length == b->text.length && compare_bytes(a, b) == 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return a->list == b->list || equal_lists(heap, a->list, b->list, depth);
    case JINJA_DICT:
        return a->dict == b->dict || equal_dicts(heap, a->dict, b->dict, depth);
    case JINJA_RANGE:
        return a->range->n == b->range->n &&
               (a->range->n == 0 || (a->range->start == b->range->start &&
                                     (a->range->n == 1 || a->range->step == b->range->step)));
    case JINJA_ITERATOR:
    case JINJA_VIEW:
        return a->list == b->list;
    case JINJA_NAMESPACE:
        return a->dict == b->dict;
    case JINJA_METHOD:
        return a->method->builtin == b->method->builtin &&
               equal_at(heap, &a->method->self, &b->method->self, depth + 1);
    case JINJA_LOOP:
        return a->loop == b->loop;
    case JINJA_MACRO:
        return a->macro == b->macro;
    case JINJA_FUNCTION:
        return a->function == b->function;
    case JINJA_CYCLER:
    case JINJA_JOINER:
        return a->cycler == b->cycler;
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        break;
    }
    return false;
}

bool mica__jinja_equal(jinja_heap *heap, const jinja_value *a, const jinja_value *b)
{
    return equal_at(heap, a, b, 0);
}

/* Integers beyond 64 bits: by sign, then by their digits; a smaller integer lies on the other side
 * of 0 or nearer to it. */
static jinja_order compare_large(const jinja_value *a, const jinja_value *b)
{
    const bool a_large = a->type == JINJA_BIGINT;
    const jinja_value *large = a_large ? a : b;
    const bool negative = mica__jinja_chars(large)[0] == '-';
    int order = a_large == negative ? -1 : 1; /* where the other one is smaller */
    if (a->type == b->type) {
        const bool b_negative = mica__jinja_chars(b)[0] == '-';
        if (negative == b_negative && a->text.length != b->text.length)
            order = (a->text.length < b->text.length) == negative ? 1 : -1;
        else if (negative == b_negative)
            order = negative ? -compare_bytes(a, b) : compare_bytes(a, b);
    } else if (a->type == JINJA_FLOAT || b->type == JINJA_FLOAT) {
        const jinja_value value = mica__jinja_float(
            mica__jinja_float_value(mica__jinja_chars(large), large->text.length));
        return a_large ? compare_numbers(&value, b) : compare_numbers(a, &value);
    }
    return (jinja_order){.order = order, .comparable = true};
}

static jinja_order compare_at(jinja_heap *heap, const jinja_value *a, const jinja_value *b,
                              int depth)
{
    const jinja_order none = {0};
    if (depth > JINJA_MAX_NESTING || mica__jinja_charge(heap, 1) != MICA_OK)
        return none;
    if (is_number(a) && is_number(b))
        return compare_numbers(a, b);
    if ((a->type == JINJA_BIGINT && (is_number(b) || b->type == JINJA_BIGINT)) ||
        (b->type == JINJA_BIGINT && is_number(a)))
        return compare_large(a, b);
    if (a->type != b->type)
        return none;
    if (a->type == JINJA_STRING)
        return (jinja_order){.order = compare_bytes(a, b), .comparable = true};
    if (a->type != JINJA_LIST && a->type != JINJA_TUPLE)
        return none;
    const int64_t n = a->list->n < b->list->n ? a->list->n : b->list->n;
    for (int64_t i = 0; i < n; i++)
        if (!equal_at(heap, &a->list->items[i], &b->list->items[i], depth + 1))
            return compare_at(heap, &a->list->items[i], &b->list->items[i], depth + 1);
    return (jinja_order){.order = (a->list->n > b->list->n) - (a->list->n < b->list->n),
                         .comparable = true};
}

jinja_order mica__jinja_compare(jinja_heap *heap, const jinja_value *a, const jinja_value *b)
{
    return compare_at(heap, a, b, 0);
}
