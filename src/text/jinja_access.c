/* jinja_access.c - attributes, items, slices, iteration, and what undefined values say.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "text/jinja_run.h"
#include "text/letter_case.h"

/* --- undefined values ------------------------------------------------------------------------- */

/* Keeps a copy of `text` as the name (or message) of a new undefined value. */
static mica_status make_undefined(jinja_run *run, const jinja_undefined *why, const char *text,
                                  bool as_message, jinja_value *out)
{
    const size_t n = strlen(text);
    char *copy = mica__jinja_take(&run->heap, n + 1, 1);
    jinja_undefined *made = mica__jinja_take(&run->heap, 1, sizeof *made);
    if (!copy || !made)
        return run->heap.status;
    memcpy(copy, text, n + 1);
    *made = *why;
    if (as_message)
        made->message = copy;
    else
        made->name = copy;
    *out = (jinja_value){.type = JINJA_UNDEFINED, .undefined = made};
    return MICA_OK;
}

mica_status mica__jinja_undefined_name(jinja_run *run, const char *name, jinja_value *out)
{
    jinja_undefined *made = mica__jinja_take(&run->heap, 1, sizeof *made);
    if (!made)
        return run->heap.status;
    *made = (jinja_undefined){.name = name}; /* names of the program outlive the run */
    *out = (jinja_value){.type = JINJA_UNDEFINED, .undefined = made};
    return MICA_OK;
}

mica_status mica__jinja_undefined_because(jinja_run *run, const char *message, jinja_value *out)
{
    const jinja_undefined why = {0};
    return make_undefined(run, &why, message, true, out);
}

static const char *owner_name(const jinja_value *owner)
{
    return owner->type == JINJA_NONE ? "None" : mica__jinja_type_name(owner);
}

mica_status mica__jinja_undefined_key(jinja_run *run, const jinja_value *owner,
                                      const jinja_value *key, bool forbidden, jinja_value *out)
{
    char text[80];
    if (key->type == JINJA_STRING)
        snprintf(text, sizeof text, "'%.*s'", key->text.length < 60 ? (int)key->text.length : 60,
                 mica__jinja_chars(key));
    else if (key->type == JINJA_INT)
        snprintf(text, sizeof text, "%lld", (long long)key->integer);
    else
        snprintf(text, sizeof text, "of type %s", mica__jinja_type_name(key));
    const jinja_undefined why = {.owner = owner_name(owner), .forbidden = forbidden};
    return make_undefined(run, &why, text, false, out);
}

mica_status mica__jinja_undefined_used(const jinja_value *v)
{
    const jinja_undefined *why = v->undefined;
    if (!why)
        MICA_FAIL(MICA_E_ARGUMENT, "an undefined value is used");
    if (why->message)
        MICA_FAIL(MICA_E_ARGUMENT, "%s", why->message);
    if (why->forbidden)
        MICA_FAIL(MICA_E_ARGUMENT, "access to attribute %s of '%s' object is unsafe", why->name,
                  why->owner);
    if (why->owner)
        MICA_FAIL(MICA_E_ARGUMENT, "'%s%s' has no attribute %s", why->owner,
                  strcmp(why->owner, "None") == 0 ? "" : " object", why->name);
    MICA_FAIL(MICA_E_ARGUMENT, "'%s' is undefined", why->name);
}

mica_status mica__jinja_wrong_type(const char *what, const jinja_value *v)
{
    if (v->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(v);
    return mica__fail(MICA_E_ARGUMENT, "%s, not '%s'", what, mica__jinja_type_name(v));
}

mica_status mica__jinja_need_int(const char *what, const jinja_value *v, int64_t *value)
{
    return mica__jinja_as_int(v, value) ? MICA_OK : mica__jinja_wrong_type(what, v);
}

mica_status mica__jinja_need_string(const char *what, const jinja_value *v)
{
    return v->type == JINJA_STRING ? MICA_OK : mica__jinja_wrong_type(what, v);
}

/* --- iteration -------------------------------------------------------------------------------- */

bool mica__jinja_iterable(const jinja_value *v)
{
    return mica__jinja_has_list(v) || v->type == JINJA_STRING || v->type == JINJA_DICT ||
           v->type == JINJA_RANGE || v->type == JINJA_UNDEFINED;
}

bool mica__jinja_length(const jinja_value *v, int64_t *n)
{
    switch (v->type) {
    case JINJA_STRING:
        *n = mica__jinja_points(v);
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        *n = v->list->n;
        return true;
    case JINJA_DICT:
        *n = v->dict->n;
        return true;
    case JINJA_RANGE:
        *n = v->range->n;
        return true;
    case JINJA_UNDEFINED:
        *n = 0;
        return true;
    default:
        return false;
    }
}

static mica_status iterate_string(jinja_run *run, const jinja_value *text, jinja_value *items)
{
    const char *bytes = mica__jinja_chars(text);
    int64_t n = 0;
    (void)run;
    for (size_t at = 0; at < text->text.length;) {
        uint32_t point;
        const size_t length = mica__letter_next(bytes + at, &point);
        items[n] = mica__jinja_part(text, at, length);
        items[n++].markup = false;
        at += length;
    }
    return MICA_OK;
}

mica_status mica__jinja_iterate(jinja_run *run, const jinja_value *iterable, jinja_value **items,
                                int64_t *n)
{
    *items = NULL;
    *n = 0;
    if (mica__jinja_has_list(iterable)) {
        jinja_list *list = iterable->list;
        *items = list->items ? list->items + list->at : NULL;
        *n = list->n - list->at;
        if (iterable->type == JINJA_ITERATOR)
            list->at = list->n;
        return mica__jinja_charge(&run->heap, *n / 8);
    }
    if (!mica__jinja_iterable(iterable))
        MICA_FAIL(MICA_E_ARGUMENT, "'%s' object is not iterable", mica__jinja_type_name(iterable));
    mica__jinja_length(iterable, n);
    MICA_TRY(mica__jinja_charge(&run->heap, *n));
    jinja_value *made = mica__jinja_take(&run->heap, (size_t)*n + 1, sizeof *made);
    if (!made)
        return run->heap.status;
    *items = made;
    if (iterable->type == JINJA_STRING)
        return iterate_string(run, iterable, made);
    if (iterable->type == JINJA_RANGE)
        for (int64_t i = 0; i < *n; i++)
            made[i] = mica__jinja_int(iterable->range->start + i * iterable->range->step);
    if (iterable->type == JINJA_DICT)
        for (int64_t i = 0; i < iterable->dict->n; i++)
            made[i] = iterable->dict->entries[i].key;
    return MICA_OK;
}

/* --- attributes ------------------------------------------------------------------------------- */

/* Names that Python objects have and the sandbox hides: all of __name__. */
static bool hidden(const jinja_value *name)
{
    const char *bytes = mica__jinja_chars(name);
    const size_t n = name->text.length;
    return n > 4 && memcmp(bytes, "__", 2) == 0 && memcmp(bytes + n - 2, "__", 2) == 0;
}

static mica_status macro_attribute(jinja_run *run, const struct jinja_macro *macro,
                                   const char *name, jinja_value *out)
{
    const jinja_node *node = macro->node;
    *out = (jinja_value){.type = JINJA_ABSENT};
    if (strcmp(name, "name") == 0) {
        return mica__jinja_string(&run->heap, macro->name, strlen(macro->name), false, out);
    }
    if (strcmp(name, "catch_kwargs") == 0)
        *out = mica__jinja_bool(node->flag & MACRO_KWARGS);
    else if (strcmp(name, "catch_varargs") == 0)
        *out = mica__jinja_bool(node->flag & MACRO_VARARGS);
    else if (strcmp(name, "caller") == 0)
        *out = mica__jinja_bool(node->flag & MACRO_CALLER);
    else if (strcmp(name, "arguments") == 0) {
        jinja_list *list = mica__jinja_list_new(&run->heap, 0);
        if (!list)
            return run->heap.status;
        for (const jinja_node *p = node->a; p; p = p->next) {
            const char *text = run->program->names[p->name].text;
            jinja_value value;
            MICA_TRY(mica__jinja_string(&run->heap, text, strlen(text), false, &value));
            MICA_TRY(mica__jinja_list_add(&run->heap, list, &value));
        }
        *out = mica__jinja_of_list(JINJA_TUPLE, "tuple", list);
    }
    return MICA_OK;
}

/* What an object of the interpreter's own shows; ABSENT for nothing of this name. */
static mica_status own_attribute(jinja_run *run, const jinja_value *object, const jinja_value *name,
                                 jinja_value *out)
{
    char text[32];
    *out = (jinja_value){.type = JINJA_ABSENT};
    if (name->text.length >= sizeof text)
        return MICA_OK;
    memcpy(text, mica__jinja_chars(name), name->text.length);
    text[name->text.length] = '\0';
    if (object->type == JINJA_LOOP)
        return mica__jinja_loop_attribute(run, object->loop, text, out);
    if (object->type == JINJA_MACRO)
        return macro_attribute(run, object->macro, text, out);
    if (object->type == JINJA_CYCLER && strcmp(text, "current") == 0)
        *out = object->cycler->items[object->cycler->at];
    const bool whole = object->type == JINJA_INT || object->type == JINJA_BOOL;
    if (whole && (strcmp(text, "real") == 0 || strcmp(text, "numerator") == 0)) {
        *out = mica__jinja_int(0);
        mica__jinja_as_int(object, &out->integer);
    }
    if (whole && strcmp(text, "denominator") == 0)
        *out = mica__jinja_int(1);
    if (object->type == JINJA_FLOAT && strcmp(text, "real") == 0)
        *out = *object;
    if ((whole || object->type == JINJA_FLOAT) && strcmp(text, "imag") == 0)
        *out = whole ? mica__jinja_int(0) : mica__jinja_float(0);
    const bool group = object->type == JINJA_TUPLE && object->list->n == 2 &&
                       strcmp(object->list->type_name, "_GroupTuple") == 0;
    if (group && strcmp(text, "grouper") == 0)
        *out = object->list->items[0];
    if (group && strcmp(text, "list") == 0)
        *out = object->list->items[1];
    return MICA_OK;
}

mica_status mica__jinja_plain_attribute(jinja_run *run, const jinja_value *object,
                                        const jinja_value *name, jinja_value *out)
{
    bool found;
    if (hidden(name))
        return mica__jinja_undefined_key(run, object, name, true, out);
    if (object->type == JINJA_NAMESPACE) {
        const jinja_entry *e = mica__jinja_dict_find(&run->heap, object->dict, name);
        *out = e ? e->value : (jinja_value){.type = JINJA_ABSENT};
        return run->heap.status;
    }
    MICA_TRY(mica__jinja_method_find(run, object, name, &found, out));
    return found ? MICA_OK : own_attribute(run, object, name, out);
}

mica_status mica__jinja_attribute(jinja_run *run, const jinja_value *object,
                                  const jinja_value *name, jinja_value *out)
{
    if (object->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(object);
    MICA_TRY(mica__jinja_plain_attribute(run, object, name, out));
    if (out->type != JINJA_ABSENT)
        return MICA_OK;
    if (object->type == JINJA_DICT) {
        const jinja_entry *e = mica__jinja_dict_find(&run->heap, object->dict, name);
        MICA_TRY(run->heap.status);
        if (e) {
            *out = e->value;
            return MICA_OK;
        }
    }
    return mica__jinja_undefined_key(run, object, name, false, out);
}

/* --- items ------------------------------------------------------------------------------------ */

/* The index-th value of a sequence; ABSENT outside of it or for what has no index. */
static mica_status item_at(const jinja_value *object, int64_t index, jinja_value *out)
{
    int64_t n;
    *out = (jinja_value){.type = JINJA_ABSENT};
    if (object->type != JINJA_STRING && object->type != JINJA_LIST && object->type != JINJA_TUPLE &&
        object->type != JINJA_RANGE)
        return MICA_OK;
    mica__jinja_length(object, &n);
    if (index < 0)
        index += n;
    if (index < 0 || index >= n)
        return MICA_OK;
    if (object->type == JINJA_RANGE) {
        *out = mica__jinja_int(object->range->start + index * object->range->step);
    } else if (object->type == JINJA_STRING) {
        const size_t at = mica__jinja_point_offset(object, index);
        uint32_t point;
        *out =
            mica__jinja_part(object, at, mica__letter_next(mica__jinja_chars(object) + at, &point));
    } else {
        *out = object->list->items[index];
    }
    return MICA_OK;
}

mica_status mica__jinja_item(jinja_run *run, const jinja_value *object, const jinja_value *key,
                             jinja_value *out)
{
    int64_t index;
    *out = (jinja_value){.type = JINJA_ABSENT};
    if (object->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(object);
    if (object->type == JINJA_DICT) {
        const jinja_entry *e = mica__jinja_dict_find(&run->heap, object->dict, key);
        MICA_TRY(run->heap.status);
        if (e)
            *out = e->value;
    } else if (mica__jinja_as_int(key, &index)) {
        if (object->type == JINJA_STRING && !object->text.buffer->ascii)
            MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)object->text.length / 64));
        MICA_TRY(item_at(object, index, out));
    }
    if (out->type == JINJA_ABSENT && key->type == JINJA_STRING)
        MICA_TRY(mica__jinja_plain_attribute(run, object, key, out));
    if (out->type == JINJA_ABSENT)
        return mica__jinja_undefined_key(run, object, key, false, out);
    return MICA_OK;
}

/* --- slices ----------------------------------------------------------------------------------- */

typedef struct slice_bounds {
    int64_t start, step, n;
} slice_bounds;

static mica_status slice_number(const jinja_value *v, int64_t missing, int64_t *value)
{
    *value = missing;
    if (v->type == JINJA_NONE)
        return MICA_OK;
    return mica__jinja_need_int("slice indices must be integers or None", v, value);
}

static int64_t clamp(int64_t index, int64_t n, int64_t low, int64_t high)
{
    if (index < 0)
        index += n;
    return index < low ? low : index > high ? high : index;
}

/* Python's rules for s[start:stop:step] of n values. */
static mica_status bound_slice(const jinja_value *start, const jinja_value *stop,
                               const jinja_value *step, int64_t n, slice_bounds *bounds)
{
    int64_t first, last, by;
    MICA_TRY(slice_number(step, 1, &by));
    if (by == 0)
        MICA_FAIL(MICA_E_ARGUMENT, "slice step cannot be zero");
    if (by < -INT64_MAX)
        by = -INT64_MAX;
    const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? n - 1 : n;
    MICA_TRY(slice_number(start, 0, &first));
    MICA_TRY(slice_number(stop, 0, &last));
    first = start->type == JINJA_NONE ? (by < 0 ? high : low) : clamp(first, n, low, high);
    last = stop->type == JINJA_NONE ? (by < 0 ? low : high) : clamp(last, n, low, high);
    bounds->start = first;
    bounds->step = by;
    if (by > 0)
        bounds->n = last > first ? (last - first - 1) / by + 1 : 0;
    else
        bounds->n = first > last ? (first - last - 1) / -by + 1 : 0;
    return MICA_OK;
}

static mica_status slice_string(jinja_run *run, const jinja_value *text, const slice_bounds *b,
                                jinja_value *out)
{
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)text->text.length / 64));
    if (b->step == 1) {
        const size_t from = mica__jinja_point_offset(text, b->start);
        const jinja_value rest = mica__jinja_part(text, from, text->text.length - from);
        *out = mica__jinja_part(text, from, mica__jinja_point_offset(&rest, b->n));
        return MICA_OK;
    }
    jinja_value *points;
    int64_t n;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made)
        return run->heap.status;
    MICA_TRY(mica__jinja_iterate(run, text, &points, &n));
    for (int64_t i = 0; i < b->n; i++)
        MICA_TRY(mica__jinja_put_text(&run->heap, made, &points[b->start + i * b->step]));
    *out = mica__jinja_made(made);
    out->markup = text->markup;
    return MICA_OK;
}

mica_status mica__jinja_slice(jinja_run *run, const jinja_value *object, const jinja_value *start,
                              const jinja_value *stop, const jinja_value *step, jinja_value *out)
{
    slice_bounds b = {0, 1, 0};
    int64_t n;
    if (object->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(object);
    if (object->type != JINJA_STRING && object->type != JINJA_LIST && object->type != JINJA_TUPLE &&
        object->type != JINJA_RANGE)
        MICA_FAIL(MICA_E_ARGUMENT, "'%s' object cannot be sliced", mica__jinja_type_name(object));
    mica__jinja_length(object, &n);
    MICA_TRY(bound_slice(start, stop, step, n, &b));
    if (object->type == JINJA_STRING)
        return slice_string(run, object, &b, out);
    if (object->type == JINJA_RANGE) {
        jinja_range *range = mica__jinja_take(&run->heap, 1, sizeof *range);
        if (!range)
            return run->heap.status;
        const jinja_range *r = object->range;
        *range = (jinja_range){.start = r->start + b.start * r->step, .n = b.n};
        if (__builtin_mul_overflow(r->step, b.step, &range->step))
            range->step = 1; /* at most one value: the step is never taken */
        if (__builtin_mul_overflow(b.n, range->step, &range->stop) ||
            __builtin_add_overflow(range->start, range->stop, &range->stop))
            range->stop = range->step < 0 ? INT64_MIN : INT64_MAX;
        *out = (jinja_value){.type = JINJA_RANGE, .range = range};
        return MICA_OK;
    }
    jinja_list *list = mica__jinja_list_new(&run->heap, b.n);
    if (!list)
        return run->heap.status;
    MICA_TRY(mica__jinja_charge(&run->heap, b.n / 8));
    for (int64_t i = 0; i < b.n; i++)
        MICA_TRY(
            mica__jinja_list_add(&run->heap, list, &object->list->items[b.start + i * b.step]));
    *out = mica__jinja_of_list(object->type, object->type == JINJA_LIST ? "list" : "tuple", list);
    return MICA_OK;
}
