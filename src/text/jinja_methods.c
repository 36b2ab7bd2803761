/* jinja_methods.c - which attributes values have, and the methods of lists, dicts and the rest.
 *
 * A name that Python gives the type is found here before the items of a dict, as Jinja looks
 * attributes up. Methods that change a value are refused as by Jinja's immutable sandbox; those
 * that it lets through (pop and clear of lists) copy the storage first, since other values share
 * it.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja_run.h"

/* --- lists ------------------------------------------------------------------------------------ */

static mica_status seq_count(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    jinja_value *items;
    int64_t n, found = 0;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    for (int64_t i = 0; i < n; i++)
        found += mica__jinja_equal(&run->heap, &items[i], &args[0]);
    *out = mica__jinja_int(found);
    return run->heap.status;
}

static mica_status seq_index(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    jinja_value *items;
    int64_t n, from = 0, to = INT64_MAX;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    if (args[1].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a position must be an integer", &args[1], &from));
    if (args[2].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a position must be an integer", &args[2], &to));
    if (from < 0)
        from = from + n < 0 ? 0 : from + n;
    if (to < 0)
        to += n;
    for (int64_t i = from; i < n && i < to; i++)
        if (mica__jinja_equal(&run->heap, &items[i], &args[0])) {
            *out = mica__jinja_int(i);
            return MICA_OK;
        }
    MICA_TRY(run->heap.status);
    MICA_FAIL(MICA_E_ARGUMENT, "the value is not in the %s", mica__jinja_type_name(self));
}

/* A list of its own storage with the same items. */
static mica_status copy_list(jinja_run *run, const jinja_list *list, jinja_list **out)
{
    *out = mica__jinja_list_new(&run->heap, list->n);
    if (!*out)
        return run->heap.status;
    MICA_TRY(mica__jinja_charge(&run->heap, list->n / 8));
    if (list->n)
        memcpy((*out)->items, list->items, (size_t)list->n * sizeof *list->items);
    (*out)->n = *(*out)->used = list->n;
    return MICA_OK;
}

static mica_status list_copy(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    jinja_list *copy;
    (void)args;
    MICA_TRY(copy_list(run, self->list, &copy));
    *out = mica__jinja_of_list(JINJA_LIST, "list", copy);
    return MICA_OK;
}

static mica_status list_clear(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    jinja_list *fresh = mica__jinja_list_new(&run->heap, 0);
    (void)args;
    if (!fresh)
        return run->heap.status;
    *self->list = *fresh;
    *out = mica__jinja_none();
    return MICA_OK;
}

static mica_status list_pop(jinja_run *run, const jinja_value *self, const jinja_value *args,
                            jinja_value *out)
{
    jinja_list *list = self->list, *copy;
    int64_t index = -1;
    if (args[0].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("an index must be an integer", &args[0], &index));
    if (!list->n)
        MICA_FAIL(MICA_E_ARGUMENT, "pop from empty list");
    if (index < 0)
        index += list->n;
    if (index < 0 || index >= list->n)
        MICA_FAIL(MICA_E_ARGUMENT, "pop index out of range");
    MICA_TRY(copy_list(run, list, &copy));
    *out = copy->items[index];
    memmove(copy->items + index, copy->items + index + 1,
            (size_t)(copy->n - index - 1) * sizeof *copy->items);
    *copy->used = --copy->n;
    *list = *copy;
    return MICA_OK;
}

/* --- dicts ------------------------------------------------------------------------------------ */

static mica_status dict_get(jinja_run *run, const jinja_value *self, const jinja_value *args,
                            jinja_value *out)
{
    if (!mica__jinja_hashable(&run->heap, &args[0]))
        return mica__jinja_unhashable(&run->heap, &args[0]);
    const jinja_entry *e = mica__jinja_dict_find(&run->heap, self->dict, &args[0]);
    MICA_TRY(run->heap.status);
    *out = e ? e->value : args[1].type != JINJA_ABSENT ? args[1] : mica__jinja_none();
    return MICA_OK;
}

/* what: 'k' keys, 'v' values, 'i' both as tuples. */
static mica_status dict_view(jinja_run *run, const jinja_dict *dict, char what,
                             const char *type_name, jinja_value *out)
{
    jinja_list *list = mica__jinja_list_new(&run->heap, dict->n);
    if (!list)
        return run->heap.status;
    MICA_TRY(mica__jinja_charge(&run->heap, dict->n / 4));
    for (int64_t i = 0; i < dict->n; i++) {
        const jinja_entry *e = &dict->entries[i];
        jinja_value item = what == 'k' ? e->key : e->value;
        if (what == 'i') {
            jinja_list *pair = mica__jinja_list_new(&run->heap, 2);
            if (!pair)
                return run->heap.status;
            MICA_TRY(mica__jinja_list_add(&run->heap, pair, &e->key));
            MICA_TRY(mica__jinja_list_add(&run->heap, pair, &e->value));
            item = mica__jinja_of_list(JINJA_TUPLE, "tuple", pair);
        }
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &item));
    }
    *out = mica__jinja_of_list(JINJA_VIEW, type_name, list);
    return MICA_OK;
}

static mica_status dict_keys(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    (void)args;
    return dict_view(run, self->dict, 'k', "dict_keys", out);
}

static mica_status dict_values(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    (void)args;
    return dict_view(run, self->dict, 'v', "dict_values", out);
}

static mica_status dict_items(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    (void)args;
    return dict_view(run, self->dict, 'i', "dict_items", out);
}

static mica_status dict_copy(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    jinja_dict *copy = mica__jinja_dict_new(&run->heap);
    (void)args;
    if (!copy)
        return run->heap.status;
    for (int64_t i = 0; i < self->dict->n; i++)
        MICA_TRY(mica__jinja_dict_set(&run->heap, copy, &self->dict->entries[i].key,
                                      &self->dict->entries[i].value));
    *out = (jinja_value){.type = JINJA_DICT, .dict = copy};
    return MICA_OK;
}

/* --- numbers and the interpreter's own objects ------------------------------------------------ */

static mica_status float_is_integer(jinja_run *run, const jinja_value *self,
                                    const jinja_value *args, jinja_value *out)
{
    (void)run;
    (void)args;
    *out = mica__jinja_bool(isfinite(self->number) && floor(self->number) == self->number);
    return MICA_OK;
}

static mica_status int_bit_length(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    int64_t value = 0, n = 0;
    (void)run;
    (void)args;
    mica__jinja_as_int(self, &value);
    for (uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value; rest; rest >>= 1)
        n++;
    *out = mica__jinja_int(n);
    return MICA_OK;
}

static mica_status cycler_next(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    (void)args;
    return mica__jinja_cycler_next(run, self->cycler, out);
}

static mica_status cycler_reset(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    (void)run;
    (void)args;
    self->cycler->at = 0;
    *out = mica__jinja_none();
    return MICA_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

static const jinja_builtin list_methods[] = {
    {"clear", "", 0, list_clear, NULL},     {"copy", "", 0, list_copy, NULL},
    {"count", "value", 1, seq_count, NULL}, {"index", "value,start,stop", 1, seq_index, NULL},
    {"pop", "index", 0, list_pop, NULL},
};

static const jinja_builtin tuple_methods[] = {
    {"count", "value", 1, seq_count, NULL},
    {"index", "value,start,stop", 1, seq_index, NULL},
};

static const jinja_builtin dict_methods[] = {
    {"copy", "", 0, dict_copy, NULL},     {"get", "key,default", 1, dict_get, NULL},
    {"items", "", 0, dict_items, NULL},   {"keys", "", 0, dict_keys, NULL},
    {"values", "", 0, dict_values, NULL},
};

static const jinja_builtin float_methods[] = {
    {"is_integer", "", 0, float_is_integer, NULL},
};

static const jinja_builtin int_methods[] = {
    {"bit_length", "", 0, int_bit_length, NULL},
};

static const jinja_builtin loop_methods[] = {
    {"cycle", "", 0, NULL, mica__jinja_loop_cycle},
    {"changed", "", 0, NULL, mica__jinja_loop_changed},
};

static const jinja_builtin cycler_methods[] = {
    {"next", "", 0, cycler_next, NULL},
    {"reset", "", 0, cycler_reset, NULL},
};

/* Attributes that Python has and a template cannot use: those that change the value, which the
 * sandbox hides, and those that mica does not have. */
static const struct {
    jinja_type type;
    const char *name;
    bool mutating;
} refused[] = {
    {JINJA_LIST, "append", true},        {JINJA_LIST, "extend", true},
    {JINJA_LIST, "insert", true},        {JINJA_LIST, "remove", true},
    {JINJA_LIST, "reverse", true},       {JINJA_LIST, "sort", true},
    {JINJA_DICT, "clear", true},         {JINJA_DICT, "pop", true},
    {JINJA_DICT, "popitem", true},       {JINJA_DICT, "setdefault", true},
    {JINJA_DICT, "update", true},        {JINJA_DICT, "fromkeys", false},
    {JINJA_STRING, "casefold", false},   {JINJA_STRING, "encode", false},
    {JINJA_STRING, "format_map", false}, {JINJA_STRING, "isidentifier", false},
    {JINJA_STRING, "maketrans", false},  {JINJA_STRING, "translate", false},
};

#define TABLE(table) *n = (int)(sizeof(table) / sizeof *(table)), (table)

static const jinja_builtin *methods_of(jinja_type type, int *n)
{
    switch (type) {
    case JINJA_STRING:
        return mica__jinja_str_methods(n);
    case JINJA_LIST:
        return TABLE(list_methods);
    case JINJA_TUPLE:
    case JINJA_RANGE:
        return TABLE(tuple_methods);
    case JINJA_DICT:
        return TABLE(dict_methods);
    case JINJA_FLOAT:
        return TABLE(float_methods);
    case JINJA_BOOL:
    case JINJA_INT:
        return TABLE(int_methods);
    case JINJA_LOOP:
        return TABLE(loop_methods);
    case JINJA_CYCLER:
        return TABLE(cycler_methods);
    default:
        *n = 0;
        return NULL;
    }
}

static mica_status find_refused(jinja_run *run, const jinja_value *object, const jinja_value *name,
                                bool *found, jinja_value *out)
{
    *found = false;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (refused[i].type != object->type || !mica__jinja_text_is(name, refused[i].name))
            continue;
        *found = true;
        if (refused[i].mutating)
            return mica__jinja_undefined_key(run, object, name, true, out);
        char message[96];
        snprintf(message, sizeof message, "method '%s' of '%s' is not supported", refused[i].name,
                 mica__jinja_type_name(object));
        return mica__jinja_undefined_because(run, message, out);
    }
    return MICA_OK;
}

mica_status mica__jinja_method_find(jinja_run *run, const jinja_value *object,
                                    const jinja_value *name, bool *found, jinja_value *out)
{
    int n;
    const jinja_builtin *methods = methods_of(object->type, &n);
    *out = (jinja_value){.type = JINJA_ABSENT};
    for (int i = 0; i < n; i++) {
        if (!mica__jinja_text_is(name, methods[i].name))
            continue;
        jinja_method *method = mica__jinja_take(&run->heap, 1, sizeof *method);
        if (!method)
            return run->heap.status;
        *method = (jinja_method){.self = *object, .builtin = &methods[i]};
        *out = (jinja_value){.type = JINJA_METHOD, .method = method};
        *found = true;
        return MICA_OK;
    }
    return find_refused(run, object, name, found, out);
}

mica_status mica__jinja_method_call(jinja_run *run, const jinja_method *method,
                                    const jinja_args *args, jinja_value *out)
{
    return mica__jinja_call_builtin(run, method->builtin, &method->self, args, out);
}
