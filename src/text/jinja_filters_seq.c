/* jinja_filters_seq.c - filters on sequences: order, groups, first and last, sums.
 *
 * Sorting is a stable merge of indices over keys that were computed once, so a comparison that
 * fails or a budget that runs out just ends it.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/jinja_run.h"

/* --- sorting ---------------------------------------------------------------------------------- */

/* Merges order[low, middle) and order[middle, high) through `spare`. */
static mica_status merge(jinja_run *run, const jinja_value *keys, bool reverse, int64_t *order,
                         int64_t *spare, int64_t low, int64_t middle, int64_t high)
{
    int64_t i = low, k = middle, at = low;
    while (i < middle && k < high) {
        const jinja_value *left = &keys[order[i]], *right = &keys[order[k]];
        bool right_first;
        MICA_TRY(
            mica__jinja_less(run, reverse ? left : right, reverse ? right : left, &right_first));
        spare[at++] = right_first ? order[k++] : order[i++];
    }
    while (i < middle)
        spare[at++] = order[i++];
    while (k < high)
        spare[at++] = order[k++];
    memcpy(order + low, spare + low, (size_t)(high - low) * sizeof *order);
    return MICA_OK;
}

mica_status mica__jinja_sort(jinja_run *run, const jinja_value *keys, int64_t n, bool reverse,
                             int64_t **order)
{
    int64_t *sorted = mica__jinja_take(&run->heap, (size_t)n + 1, sizeof *sorted);
    int64_t *spare = mica__jinja_take(&run->heap, (size_t)n + 1, sizeof *spare);
    if (!sorted || !spare)
        return run->heap.status;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        MICA_TRY(mica__jinja_charge(&run->heap, n));
        for (int64_t low = 0; low + width < n; low += 2 * width)
            MICA_TRY(merge(run, keys, reverse, sorted, spare, low, low + width,
                           low + 2 * width < n ? low + 2 * width : n));
    }
    *order = sorted;
    return MICA_OK;
}

mica_status mica__jinja_fold(jinja_run *run, bool case_sensitive, jinja_value *value)
{
    if (case_sensitive || value->type != JINJA_STRING)
        return MICA_OK;
    return mica__jinja_recase(run, value, CASING_LOWER, value);
}

/* The key of every item: its attribute, folded. */
static mica_status keys_of(jinja_run *run, const jinja_value *items, int64_t n,
                           const jinja_value *attribute, const jinja_value *missing,
                           bool case_sensitive, jinja_value **out)
{
    jinja_value *keys = mica__jinja_take(&run->heap, (size_t)n + 1, sizeof *keys);
    if (!keys)
        return run->heap.status;
    for (int64_t i = 0; i < n; i++) {
        MICA_TRY(mica__jinja_path(run, attribute, missing, &items[i], &keys[i]));
        MICA_TRY(mica__jinja_fold(run, case_sensitive, &keys[i]));
    }
    *out = keys;
    return MICA_OK;
}

/* Keys of several attributes, "a,b.c": lists of one key each. */
static mica_status several_keys(jinja_run *run, const jinja_value *items, int64_t n,
                                const jinja_value *attributes, bool case_sensitive,
                                jinja_value **out)
{
    jinja_value *keys = mica__jinja_take(&run->heap, (size_t)n + 1, sizeof *keys);
    if (!keys)
        return run->heap.status;
    for (int64_t i = 0; i < n; i++) {
        jinja_list *list;
        MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &list, &keys[i]));
        for (size_t at = 0; at <= attributes->text.length;) {
            const char *bytes = mica__jinja_chars(attributes);
            size_t end = at;
            while (end < attributes->text.length && bytes[end] != ',')
                end++;
            const jinja_value path = mica__jinja_part(attributes, at, end - at);
            jinja_value key;
            MICA_TRY(mica__jinja_path(run, &path, NULL, &items[i], &key));
            MICA_TRY(mica__jinja_fold(run, case_sensitive, &key));
            MICA_TRY(mica__jinja_list_add(&run->heap, list, &key));
            at = end + 1;
        }
    }
    *out = keys;
    return MICA_OK;
}

static mica_status filter_sort(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    jinja_value *items, *keys;
    int64_t n, *order;
    jinja_list *list;
    const bool case_sensitive = mica__jinja_truth(&args[1]);
    const jinja_value *attribute = &args[2];
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    const bool several = attribute->type == JINJA_STRING && attribute->text.length &&
                         memchr(mica__jinja_chars(attribute), ',', attribute->text.length);
    MICA_TRY(several ? several_keys(run, items, n, attribute, case_sensitive, &keys)
                     : keys_of(run, items, n, attribute, NULL, case_sensitive, &keys));
    MICA_TRY(mica__jinja_sort(run, keys, n, mica__jinja_truth(&args[0]), &order));
    MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &list, out));
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &items[order[i]]));
    return MICA_OK;
}

static mica_status pair_of(jinja_run *run, const jinja_value *a, const jinja_value *b,
                           const char *type_name, jinja_value *out)
{
    jinja_list *pair = mica__jinja_list_new(&run->heap, 2);
    if (!pair)
        return run->heap.status;
    MICA_TRY(mica__jinja_list_add(&run->heap, pair, a));
    MICA_TRY(mica__jinja_list_add(&run->heap, pair, b));
    *out = mica__jinja_of_list(JINJA_TUPLE, type_name, pair);
    return MICA_OK;
}

static mica_status filter_dictsort(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                   jinja_value *out)
{
    jinja_list *list;
    int64_t n = 0, *order;
    const bool case_sensitive = mica__jinja_truth(&args[0]);
    bool by_value = false;
    if (self->type != JINJA_DICT)
        return mica__jinja_wrong_type("dictsort takes a dict", self);
    if (args[1].type != JINJA_ABSENT) {
        MICA_TRY(mica__jinja_need_string("by must be a string", &args[1]));
        by_value = mica__jinja_text_is(&args[1], "value");
        if (!by_value && !mica__jinja_text_is(&args[1], "key"))
            MICA_FAIL(MICA_E_ARGUMENT, "dictsort sorts by \"key\" or \"value\"");
    }
    const jinja_dict *dict = self->dict;
    jinja_value *keys = mica__jinja_take(&run->heap, (size_t)dict->n + 1, sizeof *keys);
    jinja_value *pairs = mica__jinja_take(&run->heap, (size_t)dict->n + 1, sizeof *pairs);
    if (!keys || !pairs)
        return run->heap.status;
    for (int64_t i = 0; i < dict->n; i++) {
        const jinja_entry *e = &dict->entries[i];
        keys[n] = by_value ? e->value : e->key;
        MICA_TRY(mica__jinja_fold(run, case_sensitive, &keys[n]));
        MICA_TRY(pair_of(run, &e->key, &e->value, "tuple", &pairs[n++]));
    }
    MICA_TRY(mica__jinja_sort(run, keys, n, mica__jinja_truth(&args[2]), &order));
    MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &list, out));
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &pairs[order[i]]));
    return MICA_OK;
}

static mica_status filter_groupby(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    jinja_value *items, *keys, group, grouper, pair;
    int64_t n, *order;
    jinja_list *list, *members = NULL;
    const bool case_sensitive = mica__jinja_truth(&args[2]);
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    MICA_TRY(keys_of(run, items, n, &args[0], &args[1], case_sensitive, &keys));
    MICA_TRY(mica__jinja_sort(run, keys, n, false, &order));
    MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &list, out));
    for (int64_t i = 0; i < n; i++) {
        const jinja_value *item = &items[order[i]];
        const bool same =
            i > 0 && mica__jinja_equal(&run->heap, &keys[order[i - 1]], &keys[order[i]]);
        if (!same) {
            MICA_TRY(mica__jinja_path(run, &args[0], &args[1], item, &grouper));
            MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &members, &group));
            MICA_TRY(pair_of(run, &grouper, &group, "_GroupTuple", &pair));
            MICA_TRY(mica__jinja_list_add(&run->heap, list, &pair));
        }
        MICA_TRY(mica__jinja_list_add(&run->heap, members, item));
    }
    return run->heap.status;
}

static mica_status filter_unique(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    jinja_value *items, *keys;
    int64_t n;
    jinja_list *list;
    const jinja_value nothing = mica__jinja_none();
    jinja_dict *seen = mica__jinja_dict_new(&run->heap);
    if (!seen)
        return run->heap.status;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    MICA_TRY(keys_of(run, items, n, &args[1], NULL, mica__jinja_truth(&args[0]), &keys));
    MICA_TRY(mica__jinja_new_list(run, JINJA_ITERATOR, &list, out));
    for (int64_t i = 0; i < n; i++) {
        const int64_t before = seen->n;
        MICA_TRY(mica__jinja_dict_set(&run->heap, seen, &keys[i], &nothing));
        if (seen->n > before)
            MICA_TRY(mica__jinja_list_add(&run->heap, list, &items[i]));
    }
    return MICA_OK;
}

static mica_status extreme(jinja_run *run, const jinja_value *self, const jinja_value *args,
                           bool largest, jinja_value *out)
{
    jinja_value *items, *keys;
    int64_t n, best = 0;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    if (!n)
        return mica__jinja_undefined_because(run, "No aggregated item, sequence was empty.", out);
    MICA_TRY(keys_of(run, items, n, &args[1], NULL, mica__jinja_truth(&args[0]), &keys));
    for (int64_t i = 1; i < n; i++) {
        bool better;
        MICA_TRY(
            mica__jinja_less(run, &keys[largest ? best : i], &keys[largest ? i : best], &better));
        best = better ? i : best;
    }
    *out = items[best];
    return MICA_OK;
}

static mica_status filter_min(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    return extreme(run, self, args, false, out);
}

static mica_status filter_max(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    return extreme(run, self, args, true, out);
}

/* --- items ------------------------------------------------------------------------------------ */

static mica_status filter_first(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    jinja_value *items;
    int64_t n;
    (void)args;
    if (self->type == JINJA_ITERATOR && self->list->at < self->list->n) {
        *out = self->list->items[self->list->at++];
        return MICA_OK;
    }
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    if (!n)
        return mica__jinja_undefined_because(run, "No first item, sequence was empty.", out);
    *out = items[0];
    return MICA_OK;
}

static mica_status filter_last(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    jinja_value *items;
    int64_t n;
    (void)args;
    if (self->type == JINJA_ITERATOR)
        MICA_FAIL(MICA_E_ARGUMENT, "'%s' object is not reversible", mica__jinja_type_name(self));
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    if (!n)
        return mica__jinja_undefined_because(run, "No last item, sequence was empty.", out);
    *out = items[n - 1];
    return MICA_OK;
}

static mica_status filter_list(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    jinja_value *items;
    int64_t n;
    jinja_list *list;
    (void)args;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &list, out));
    for (int64_t i = 0; i < n; i++)
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &items[i]));
    return MICA_OK;
}

static mica_status filter_items(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    jinja_list *list;
    jinja_value pair;
    (void)args;
    MICA_TRY(mica__jinja_new_list(run, JINJA_ITERATOR, &list, out));
    if (self->type == JINJA_UNDEFINED)
        return MICA_OK;
    if (self->type != JINJA_DICT)
        MICA_FAIL(MICA_E_ARGUMENT, "Can only get item pairs from a mapping.");
    for (int64_t i = 0; i < self->dict->n; i++) {
        const jinja_entry *e = &self->dict->entries[i];
        MICA_TRY(pair_of(run, &e->key, &e->value, "tuple", &pair));
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &pair));
    }
    return MICA_OK;
}

static mica_status filter_reverse(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    jinja_value *items;
    int64_t n;
    jinja_list *list;
    (void)args;
    if (self->type == JINJA_STRING) {
        const jinja_value none = mica__jinja_none(), back = mica__jinja_int(-1);
        return mica__jinja_slice(run, self, &none, &none, &back, out);
    }
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    MICA_TRY(mica__jinja_new_list(run, JINJA_ITERATOR, &list, out));
    for (int64_t i = n; i-- > 0;)
        MICA_TRY(mica__jinja_list_add(&run->heap, list, &items[i]));
    if (self->type == JINJA_ITERATOR || self->type == JINJA_UNDEFINED)
        *out = mica__jinja_of_list(JINJA_LIST, "list", list);
    else
        list->type_name = self->type == JINJA_LIST ? "list_reverseiterator" : "reversed";
    return MICA_OK;
}

static mica_status filter_sum(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    jinja_value *items, item, total = mica__jinja_int(0);
    int64_t n;
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    if (args[1].type != JINJA_ABSENT)
        total = args[1];
    if (total.type == JINJA_STRING)
        MICA_FAIL(MICA_E_ARGUMENT, "sum() can't sum strings [use ''.join(seq) instead]");
    for (int64_t i = 0; i < n; i++) {
        MICA_TRY(mica__jinja_path(run, &args[0], NULL, &items[i], &item));
        MICA_TRY(mica__jinja_binary(run, TOKEN_ADD, &total, &item, &total));
    }
    *out = total;
    return MICA_OK;
}

/* --- groups of items -------------------------------------------------------------------------- */

static bool given(const jinja_value *v)
{
    return v->type != JINJA_ABSENT && v->type != JINJA_NONE;
}

static mica_status filter_batch(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    jinja_value *items, row_value;
    int64_t n, width;
    jinja_list *rows, *row = NULL;
    MICA_TRY(mica__jinja_need_int("batch takes a number of items", &args[0], &width));
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    MICA_TRY(mica__jinja_new_list(run, JINJA_ITERATOR, &rows, out));
    for (int64_t i = 0; i < n; i++) {
        if (!row || row->n == width) {
            MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &row, &row_value));
            MICA_TRY(mica__jinja_list_add(&run->heap, rows, &row_value));
        }
        MICA_TRY(mica__jinja_list_add(&run->heap, row, &items[i]));
    }
    while (row && given(&args[1]) && row->n < width) {
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        MICA_TRY(mica__jinja_list_add(&run->heap, row, &args[1]));
    }
    return MICA_OK;
}

static mica_status filter_slice(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    jinja_value *items, row_value;
    int64_t n, slices, at = 0;
    jinja_list *rows, *row;
    MICA_TRY(mica__jinja_need_int("slice takes a number of slices", &args[0], &slices));
    if (slices == 0)
        MICA_FAIL(MICA_E_ARGUMENT, "division by zero");
    MICA_TRY(mica__jinja_iterate(run, self, &items, &n));
    MICA_TRY(mica__jinja_new_list(run, JINJA_ITERATOR, &rows, out));
    for (int64_t i = 0; i < slices; i++) {
        const int64_t end = at + n / slices + (i < n % slices);
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        MICA_TRY(mica__jinja_new_list(run, JINJA_LIST, &row, &row_value));
        for (; at < end; at++)
            MICA_TRY(mica__jinja_list_add(&run->heap, row, &items[at]));
        if (given(&args[1]) && i >= n % slices)
            MICA_TRY(mica__jinja_list_add(&run->heap, row, &args[1]));
        MICA_TRY(mica__jinja_list_add(&run->heap, rows, &row_value));
    }
    return MICA_OK;
}

const jinja_builtin *mica__jinja_sequence_filters(int *n)
{
    static const jinja_builtin filters[] = {
        {"batch", "linecount,fill_with", 1, filter_batch, NULL},
        {"dictsort", "case_sensitive,by,reverse", 0, filter_dictsort, NULL},
        {"first", "", 0, filter_first, NULL},
        {"groupby", "attribute,default,case_sensitive", 1, filter_groupby, NULL},
        {"items", "", 0, filter_items, NULL},
        {"last", "", 0, filter_last, NULL},
        {"list", "", 0, filter_list, NULL},
        {"max", "case_sensitive,attribute", 0, filter_max, NULL},
        {"min", "case_sensitive,attribute", 0, filter_min, NULL},
        {"reverse", "", 0, filter_reverse, NULL},
        {"slice", "slices,fill_with", 1, filter_slice, NULL},
        {"sort", "reverse,case_sensitive,attribute", 0, filter_sort, NULL},
        {"sum", "attribute,start", 0, filter_sum, NULL},
        {"unique", "case_sensitive,attribute", 0, filter_unique, NULL},
    };
    *n = (int)(sizeof filters / sizeof *filters);
    return filters;
}
