/* jinja_str_methods.c - the methods of strings, and the text functions that filters share.
 *
 * Positions are code points outside and bytes inside. Parts of a string share its bytes and marks;
 * whatever is built anew goes through mica__jinja_put_*, so every character keeps its mark.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/jinja_run.h"
#include "text/letter_case.h"

/* --- searching -------------------------------------------------------------------------------- */

int64_t mica__jinja_find(const jinja_value *text, const jinja_value *needle, size_t from)
{
    if (from > text->text.length)
        return -1;
    if (!needle->text.length)
        return (int64_t)from;
    const char *bytes = mica__jinja_chars(text);
    const char *found = memmem(bytes + from, text->text.length - from, mica__jinja_chars(needle),
                               needle->text.length);
    return found ? found - bytes : -1;
}

/* What a search from the right costs at worst: every place is compared. */
static mica_status charge_search(jinja_run *run, const jinja_value *text, const jinja_value *needle)
{
    const int64_t n = (int64_t)text->text.length;
    MICA_TRY(mica__jinja_charge(&run->heap, n / 16));
    return mica__jinja_charge(&run->heap, n / 64 * ((int64_t)needle->text.length / 16));
}

static int64_t find_last(const jinja_value *text, const jinja_value *needle)
{
    const size_t n = needle->text.length;
    if (n > text->text.length)
        return -1;
    for (size_t at = text->text.length - n;; at--) {
        if (memcmp(mica__jinja_chars(text) + at, mica__jinja_chars(needle), n) == 0)
            return (int64_t)at;
        if (!at)
            return -1;
    }
}

/* The part that [start:end] selects; false when start lies behind the end of the text. */
static mica_status window(jinja_run *run, const jinja_value *text, const jinja_value *start,
                          const jinja_value *end, jinja_value *part, int64_t *first, bool *inside)
{
    const int64_t n = mica__jinja_points(text);
    const jinja_value none = mica__jinja_none();
    const jinja_value *from = start->type == JINJA_ABSENT ? &none : start;
    const jinja_value *to = end->type == JINJA_ABSENT ? &none : end;
    *first = 0;
    if (from->type != JINJA_NONE)
        MICA_TRY(mica__jinja_need_int("a position must be an integer", from, first));
    if (*first < 0)
        *first = *first + n < 0 ? 0 : *first + n;
    *inside = *first <= n;
    return mica__jinja_slice(run, text, from, to, &none, part);
}

static mica_status search(jinja_run *run, const jinja_value *self, const jinja_value *args,
                          bool last, int64_t *index)
{
    jinja_value part;
    int64_t first;
    bool inside;
    MICA_TRY(mica__jinja_need_string("what is searched must be a string", &args[0]));
    MICA_TRY(window(run, self, &args[1], &args[2], &part, &first, &inside));
    MICA_TRY(charge_search(run, &part, &args[0]));
    const int64_t at = !inside ? -1
                       : last  ? find_last(&part, &args[0])
                               : mica__jinja_find(&part, &args[0], 0);
    *index = at;
    if (at >= 0) {
        const jinja_value before = mica__jinja_part(&part, 0, (size_t)at);
        *index = first + mica__jinja_points(&before);
    }
    return MICA_OK;
}

static mica_status str_find(jinja_run *run, const jinja_value *self, const jinja_value *args,
                            jinja_value *out)
{
    *out = mica__jinja_int(0);
    return search(run, self, args, false, &out->integer);
}

static mica_status str_rfind(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    *out = mica__jinja_int(0);
    return search(run, self, args, true, &out->integer);
}

static mica_status must_be_found(const jinja_value *found)
{
    if (found->integer < 0)
        MICA_FAIL(MICA_E_ARGUMENT, "substring not found");
    return MICA_OK;
}

static mica_status str_index(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    MICA_TRY(str_find(run, self, args, out));
    return must_be_found(out);
}

static mica_status str_rindex(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    MICA_TRY(str_rfind(run, self, args, out));
    return must_be_found(out);
}

static mica_status str_count(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    jinja_value part;
    int64_t first, n = 0;
    bool inside;
    MICA_TRY(mica__jinja_need_string("what is counted must be a string", &args[0]));
    MICA_TRY(window(run, self, &args[1], &args[2], &part, &first, &inside));
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)part.text.length / 16));
    if (!args[0].text.length) {
        n = inside ? mica__jinja_points(&part) + 1 : 0;
    } else {
        for (int64_t at = 0; (at = mica__jinja_find(&part, &args[0], (size_t)at)) >= 0; n++)
            at += (int64_t)args[0].text.length;
    }
    *out = mica__jinja_int(n);
    return MICA_OK;
}

static bool begins(const jinja_value *text, const jinja_value *with, bool at_end)
{
    const size_t n = with->text.length;
    return n <= text->text.length &&
           memcmp(mica__jinja_chars(text) + (at_end ? text->text.length - n : 0),
                  mica__jinja_chars(with), n) == 0;
}

static mica_status affix(jinja_run *run, const jinja_value *self, const jinja_value *args,
                         bool at_end, jinja_value *out)
{
    jinja_value part;
    int64_t first;
    bool inside, result = false;
    MICA_TRY(window(run, self, &args[1], &args[2], &part, &first, &inside));
    if (args[0].type == JINJA_TUPLE) {
        for (int64_t i = 0; i < args[0].list->n && !result; i++) {
            MICA_TRY(mica__jinja_need_string("a tuple here must have strings only",
                                             &args[0].list->items[i]));
            result = inside && begins(&part, &args[0].list->items[i], at_end);
        }
    } else {
        MICA_TRY(
            mica__jinja_need_string("the first argument must be str or a tuple of str", &args[0]));
        result = inside && begins(&part, &args[0], at_end);
    }
    *out = mica__jinja_bool(result);
    return MICA_OK;
}

static mica_status str_startswith(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    return affix(run, self, args, false, out);
}

static mica_status str_endswith(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                jinja_value *out)
{
    return affix(run, self, args, true, out);
}

static mica_status str_removeprefix(jinja_run *run, const jinja_value *self,
                                    const jinja_value *args, jinja_value *out)
{
    (void)run;
    MICA_TRY(mica__jinja_need_string("a prefix must be a string", &args[0]));
    const size_t n = args[0].text.length;
    *out = begins(self, &args[0], false) ? mica__jinja_part(self, n, self->text.length - n) : *self;
    return MICA_OK;
}

static mica_status str_removesuffix(jinja_run *run, const jinja_value *self,
                                    const jinja_value *args, jinja_value *out)
{
    (void)run;
    MICA_TRY(mica__jinja_need_string("a suffix must be a string", &args[0]));
    const size_t n = args[0].text.length;
    *out = begins(self, &args[0], true) ? mica__jinja_part(self, 0, self->text.length - n) : *self;
    return MICA_OK;
}

/* --- stripping -------------------------------------------------------------------------------- */

static bool in_set(const jinja_value *set, const char *at, size_t n, uint32_t point)
{
    if (!set)
        return mica__letter_space(point);
    const char *bytes = mica__jinja_chars(set);
    for (size_t i = 0; i + n <= set->text.length; i++)
        if (memcmp(bytes + i, at, n) == 0) /* UTF-8: a match can only start at a code point */
            return true;
    return false;
}

jinja_value mica__jinja_strip(const jinja_value *text, const jinja_value *set, int side)
{
    const char *bytes = mica__jinja_chars(text);
    size_t from = 0, to = text->text.length;
    uint32_t point;
    while (side <= 0 && from < to) {
        const size_t n = mica__letter_next(bytes + from, &point);
        if (!in_set(set, bytes + from, n, point))
            break;
        from += n;
    }
    while (side >= 0 && to > from) {
        const size_t n = mica__letter_back(bytes + to);
        mica__letter_next(bytes + to - n, &point);
        if (!in_set(set, bytes + to - n, n, point))
            break;
        to -= n;
    }
    return mica__jinja_part(text, from, to - from);
}

static mica_status strip_with(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              int side, jinja_value *out)
{
    const jinja_value *set = NULL;
    if (args[0].type != JINJA_ABSENT && args[0].type != JINJA_NONE) {
        set = &args[0];
        MICA_TRY(mica__jinja_need_string("the characters to strip must be None or str", set));
        MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)(set->text.length / 16) *
                                                    (int64_t)(1 + self->text.length / 16)));
    }
    *out = mica__jinja_strip(self, set, side);
    return MICA_OK;
}

static mica_status str_strip(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    return strip_with(run, self, args, 0, out);
}

static mica_status str_lstrip(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    return strip_with(run, self, args, -1, out);
}

static mica_status str_rstrip(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    return strip_with(run, self, args, 1, out);
}

/* --- splitting and joining -------------------------------------------------------------------- */

static mica_status add_part(jinja_run *run, jinja_list *list, const jinja_value *text, size_t from,
                            size_t to)
{
    const jinja_value part = mica__jinja_part(text, from, to - from);
    MICA_TRY(mica__jinja_charge(&run->heap, 1));
    return mica__jinja_list_add(&run->heap, list, &part);
}

/* Words between white space; after `most` splits the rest is one word. */
static mica_status split_words(jinja_run *run, const jinja_value *text, int64_t most,
                               jinja_list *list)
{
    const char *bytes = mica__jinja_chars(text);
    const size_t end = text->text.length;
    size_t at = 0;
    uint32_t point;
    while (at < end) {
        size_t n = mica__letter_next(bytes + at, &point);
        if (mica__letter_space(point)) {
            at += n;
            continue;
        }
        const size_t from = at;
        if (list->n == most)
            return add_part(run, list, text, from, end);
        for (at += n; at < end; at += n) {
            n = mica__letter_next(bytes + at, &point);
            if (mica__letter_space(point))
                break;
        }
        MICA_TRY(add_part(run, list, text, from, at));
    }
    return MICA_OK;
}

static mica_status split_words_right(jinja_run *run, const jinja_value *text, int64_t most,
                                     jinja_list *list)
{
    const char *bytes = mica__jinja_chars(text);
    size_t end = text->text.length;
    uint32_t point;
    for (;;) {
        const jinja_value rest = mica__jinja_part(text, 0, end);
        end = mica__jinja_strip(&rest, NULL, 1).text.length;
        if (!end)
            return MICA_OK;
        size_t from = end;
        if (list->n == most)
            return add_part(run, list, text, 0, end);
        while (from > 0) {
            const size_t n = mica__letter_back(bytes + from);
            mica__letter_next(bytes + from - n, &point);
            if (mica__letter_space(point))
                break;
            from -= n;
        }
        MICA_TRY(add_part(run, list, text, from, end));
        end = from;
    }
}

static mica_status split_at(jinja_run *run, const jinja_value *text, const jinja_value *separator,
                            int64_t most, jinja_list *list)
{
    size_t from = 0;
    while (list->n != most) {
        const int64_t at = mica__jinja_find(text, separator, from);
        if (at < 0)
            break;
        MICA_TRY(add_part(run, list, text, from, (size_t)at));
        from = (size_t)at + separator->text.length;
    }
    return add_part(run, list, text, from, text->text.length);
}

static mica_status split_at_right(jinja_run *run, const jinja_value *text,
                                  const jinja_value *separator, int64_t most, jinja_list *list)
{
    size_t end = text->text.length;
    while (list->n != most) {
        const jinja_value rest = mica__jinja_part(text, 0, end);
        const int64_t at = find_last(&rest, separator);
        if (at < 0)
            break;
        MICA_TRY(add_part(run, list, text, (size_t)at + separator->text.length, end));
        end = (size_t)at;
    }
    return add_part(run, list, text, 0, end);
}

static void reverse_items(jinja_list *list)
{
    for (int64_t i = 0, k = list->n - 1; i < k; i++, k--) {
        const jinja_value item = list->items[i];
        list->items[i] = list->items[k];
        list->items[k] = item;
    }
}

static mica_status split(jinja_run *run, const jinja_value *self, const jinja_value *args,
                         bool right, jinja_value *out)
{
    int64_t most = -1;
    jinja_list *list = mica__jinja_list_new(&run->heap, 0);
    if (!list)
        return run->heap.status;
    if (args[1].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("maxsplit must be an integer", &args[1], &most));
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)self->text.length / 16));
    if (args[0].type == JINJA_ABSENT || args[0].type == JINJA_NONE) {
        MICA_TRY(right ? split_words_right(run, self, most, list)
                       : split_words(run, self, most, list));
    } else {
        MICA_TRY(mica__jinja_need_string("a separator must be str or None", &args[0]));
        if (!args[0].text.length)
            MICA_FAIL(MICA_E_ARGUMENT, "empty separator");
        MICA_TRY(charge_search(run, self, &args[0]));
        MICA_TRY(right ? split_at_right(run, self, &args[0], most, list)
                       : split_at(run, self, &args[0], most, list));
    }
    if (right)
        reverse_items(list);
    *out = mica__jinja_of_list(JINJA_LIST, "list", list);
    return MICA_OK;
}

static mica_status str_split(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    return split(run, self, args, false, out);
}

static mica_status str_rsplit(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    return split(run, self, args, true, out);
}

static bool line_end(uint32_t point)
{
    return (point >= 10 && point <= 13) || (point >= 28 && point <= 30) || point == 0x85 ||
           point == 0x2028 || point == 0x2029;
}

mica_status mica__jinja_splitlines(jinja_run *run, const jinja_value *text, bool keep_ends,
                                   jinja_list **out)
{
    const char *bytes = mica__jinja_chars(text);
    const size_t end = text->text.length;
    jinja_list *list = *out = mica__jinja_list_new(&run->heap, 0);
    if (!list)
        return run->heap.status;
    for (size_t from = 0, at = 0; at < end;) {
        uint32_t point;
        const size_t line = at;
        at += mica__letter_next(bytes + at, &point);
        if (!line_end(point)) {
            if (at == end)
                MICA_TRY(add_part(run, list, text, from, end));
            continue;
        }
        if (point == '\r' && at < end && bytes[at] == '\n')
            at++;
        MICA_TRY(add_part(run, list, text, from, keep_ends ? at : line));
        from = at;
    }
    return MICA_OK;
}

static mica_status str_splitlines(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    jinja_list *list;
    MICA_TRY(mica__jinja_splitlines(run, self, mica__jinja_truth(&args[0]), &list));
    *out = mica__jinja_of_list(JINJA_LIST, "list", list);
    return MICA_OK;
}

static mica_status partition(jinja_run *run, const jinja_value *self, const jinja_value *separator,
                             bool right, jinja_value *out)
{
    MICA_TRY(mica__jinja_need_string("a separator must be a string", separator));
    if (!separator->text.length)
        MICA_FAIL(MICA_E_ARGUMENT, "empty separator");
    MICA_TRY(charge_search(run, self, separator));
    const int64_t at = right ? find_last(self, separator) : mica__jinja_find(self, separator, 0);
    const size_t end = self->text.length, n = separator->text.length;
    const size_t first = at >= 0 ? (size_t)at : right ? 0 : end;
    const size_t second = at >= 0 ? (size_t)at + n : first;
    jinja_list *list = mica__jinja_list_new(&run->heap, 3);
    if (!list)
        return run->heap.status;
    MICA_TRY(add_part(run, list, self, 0, first));
    MICA_TRY(add_part(run, list, self, first, second));
    MICA_TRY(add_part(run, list, self, second, end));
    *out = mica__jinja_of_list(JINJA_TUPLE, "tuple", list);
    return MICA_OK;
}

static mica_status str_partition(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                 jinja_value *out)
{
    return partition(run, self, &args[0], false, out);
}

static mica_status str_rpartition(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    return partition(run, self, &args[0], true, out);
}

static mica_status str_join(jinja_run *run, const jinja_value *self, const jinja_value *args,
                            jinja_value *out)
{
    jinja_value *items;
    int64_t n;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made)
        return run->heap.status;
    if (args[0].type == JINJA_UNDEFINED || !mica__jinja_iterable(&args[0]))
        return mica__jinja_wrong_type("can only join an iterable", &args[0]);
    MICA_TRY(mica__jinja_iterate(run, &args[0], &items, &n));
    for (int64_t i = 0; i < n; i++) {
        jinja_value item = items[i];
        if (item.type != JINJA_STRING && !self->markup)
            MICA_FAIL(MICA_E_ARGUMENT, "sequence item %lld: expected str instance, %s found",
                      (long long)i, mica__jinja_type_name(&item));
        MICA_TRY(mica__jinja_str_for(run, self->markup, &items[i], &item));
        if (i)
            MICA_TRY(mica__jinja_put_text(&run->heap, made, self));
        MICA_TRY(mica__jinja_put_text(&run->heap, made, &item));
    }
    *out = mica__jinja_made(made);
    out->markup = self->markup;
    return MICA_OK;
}

mica_status mica__jinja_replace(jinja_run *run, const jinja_value *text, const jinja_value *from,
                                const jinja_value *to, int64_t count, jinja_value *out)
{
    const size_t step = from->text.length, end = text->text.length;
    size_t at = 0;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made)
        return run->heap.status;
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)end / 16));
    for (; count != 0; count--) {
        const int64_t found = mica__jinja_find(text, from, at);
        if (found < 0)
            break;
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        MICA_TRY(mica__jinja_put_part(&run->heap, made, text, at, (size_t)found - at));
        MICA_TRY(mica__jinja_put_text(&run->heap, made, to));
        at = (size_t)found + step;
        if (step)
            continue;
        if (at == end) /* nothing is replaced by `to` before every character and at the end */
            break;
        uint32_t point;
        const size_t n = mica__letter_next(mica__jinja_chars(text) + at, &point);
        MICA_TRY(mica__jinja_put_part(&run->heap, made, text, at, n));
        at += n;
    }
    MICA_TRY(mica__jinja_put_part(&run->heap, made, text, at, end - at));
    *out = mica__jinja_made(made);
    out->markup = text->markup;
    return MICA_OK;
}

static mica_status str_replace(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    int64_t count = -1;
    jinja_value from, to;
    MICA_TRY(mica__jinja_need_string("what is replaced must be a string", &args[0]));
    MICA_TRY(mica__jinja_need_string("a replacement must be a string", &args[1]));
    if (args[2].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a count must be an integer", &args[2], &count));
    MICA_TRY(mica__jinja_str_for(run, self->markup, &args[0], &from));
    MICA_TRY(mica__jinja_str_for(run, self->markup, &args[1], &to));
    return mica__jinja_replace(run, self, &from, &to, count, out);
}

/* --- HTML ------------------------------------------------------------------------------------- */

mica_status mica__jinja_escape(jinja_run *run, const jinja_value *v, jinja_value *out)
{
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    jinja_value text;
    if (v->type == JINJA_STRING && v->markup) {
        *out = *v;
        return MICA_OK;
    }
    MICA_TRY(mica__jinja_str(&run->heap, v, &text));
    const char *bytes = mica__jinja_chars(&text);
    const size_t end = text.text.length;
    size_t from = 0;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, end);
    if (!made)
        return run->heap.status;
    for (size_t at = 0; at < end; at++) {
        const char *found = bytes[at] ? strchr(special, bytes[at]) : NULL;
        if (!found)
            continue;
        const char *entity = entities[found - special];
        MICA_TRY(mica__jinja_put_part(&run->heap, made, &text, from, at - from));
        MICA_TRY(mica__jinja_put_as(&run->heap, made, entity, strlen(entity), &text, at, 1));
        from = at + 1;
    }
    MICA_TRY(mica__jinja_put_part(&run->heap, made, &text, from, end - from));
    *out = mica__jinja_made(made);
    out->markup = true;
    return MICA_OK;
}

mica_status mica__jinja_str_for(jinja_run *run, bool markup, const jinja_value *v, jinja_value *out)
{
    return markup ? mica__jinja_escape(run, v, out) : mica__jinja_str(&run->heap, v, out);
}

/* --- letter case ------------------------------------------------------------------------------ */

/* Whether the sigma at [at, at + n) ends a word: a letter before it and none behind it. */
static bool final_sigma(const jinja_value *text, size_t at, size_t n)
{
    const char *bytes = mica__jinja_chars(text);
    uint32_t point;
    bool before = false;
    for (size_t i = at; i > 0 && !before;) {
        i -= mica__letter_back(bytes + i);
        mica__letter_next(bytes + i, &point);
        const letter_class class = mica__letter_class(point);
        before = !class.ignorable && class.cased;
        if (!class.ignorable)
            break;
    }
    if (!before)
        return false;
    for (size_t i = at + n; i < text->text.length;) {
        i += mica__letter_next(bytes + i, &point);
        const letter_class class = mica__letter_class(point);
        if (!class.ignorable)
            return !class.cased;
    }
    return true;
}

static letter_form form_of(jinja_casing casing, uint32_t point, bool in_word, bool first)
{
    switch (casing) {
    case CASING_UPPER:
        return LETTER_TO_UPPER;
    case CASING_TITLE:
        return in_word ? LETTER_TO_LOWER : LETTER_TO_TITLE;
    case CASING_CAPITALIZE:
        return first ? LETTER_TO_TITLE : LETTER_TO_LOWER;
    case CASING_SWAP:
        return mica__letter_class(point).lower ? LETTER_TO_UPPER : LETTER_TO_LOWER;
    case CASING_LOWER:
        break;
    }
    return LETTER_TO_LOWER;
}

mica_status mica__jinja_recase(jinja_run *run, const jinja_value *text, jinja_casing casing,
                               jinja_value *out)
{
    const char *bytes = mica__jinja_chars(text);
    const size_t end = text->text.length;
    bool in_word = false;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, end + 16);
    if (!made)
        return run->heap.status;
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)end / 8));
    for (size_t at = 0; at < end;) {
        uint32_t point, mapped[3];
        char to[12];
        size_t n_bytes = 0;
        const size_t n = mica__letter_next(bytes + at, &point);
        const letter_form form = form_of(casing, point, in_word, at == 0);
        int n_mapped = 1;
        if (form == LETTER_TO_LOWER && point == 0x3a3)
            mapped[0] = final_sigma(text, at, n) ? 0x3c2 : 0x3c3;
        else
            n_mapped = mica__letter_map(point, form, mapped);
        for (int i = 0; i < n_mapped; i++)
            n_bytes += mica__letter_put(to + n_bytes, mapped[i]);
        MICA_TRY(mica__jinja_put_as(&run->heap, made, to, n_bytes, text, at, n));
        if (casing == CASING_TITLE)
            in_word = mica__letter_class(point).cased;
        at += n;
    }
    *out = mica__jinja_made(made);
    out->markup = text->markup;
    return MICA_OK;
}

#define CASE_METHOD(name, casing)                                                                  \
    static mica_status name(jinja_run *run, const jinja_value *self, const jinja_value *args,      \
                            jinja_value *out)                                                      \
    {                                                                                              \
        (void)args;                                                                                \
        return mica__jinja_recase(run, self, casing, out);                                         \
    }
CASE_METHOD(str_lower, CASING_LOWER)
CASE_METHOD(str_upper, CASING_UPPER)
CASE_METHOD(str_title, CASING_TITLE)
CASE_METHOD(str_capitalize, CASING_CAPITALIZE)
CASE_METHOD(str_swapcase, CASING_SWAP)

/* --- padding ---------------------------------------------------------------------------------- */

static mica_status put_fill(jinja_run *run, jinja_bytes *to, const jinja_value *fill, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        MICA_TRY(mica__jinja_charge(&run->heap, 1));
        if (fill)
            MICA_TRY(mica__jinja_put_text(&run->heap, to, fill));
        else
            MICA_TRY(mica__jinja_put(&run->heap, to, " ", 1, false));
    }
    return MICA_OK;
}

static mica_status pad(jinja_run *run, const jinja_value *text, int64_t left, int64_t right,
                       const jinja_value *fill, jinja_value *out)
{
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, text->text.length);
    if (!made)
        return run->heap.status;
    MICA_TRY(put_fill(run, made, fill, left));
    MICA_TRY(mica__jinja_put_text(&run->heap, made, text));
    MICA_TRY(put_fill(run, made, fill, right));
    *out = mica__jinja_made(made);
    out->markup = text->markup;
    return MICA_OK;
}

mica_status mica__jinja_center(jinja_run *run, const jinja_value *text, int64_t width,
                               jinja_value *out)
{
    const int64_t n = mica__jinja_points(text), missing = width > n ? width - n : 0;
    const int64_t left = missing / 2 + (missing & width & 1);
    return pad(run, text, left, missing - left, NULL, out);
}

/* side: 'c' center, 'l' text left, 'r' text right. */
static mica_status justify(jinja_run *run, const jinja_value *self, const jinja_value *args,
                           char side, jinja_value *out)
{
    int64_t width;
    const jinja_value *fill = args[1].type == JINJA_ABSENT ? NULL : &args[1];
    MICA_TRY(mica__jinja_need_int("a width must be an integer", &args[0], &width));
    if (fill)
        MICA_TRY(mica__jinja_need_string("a fill character must be a string", fill));
    if (fill && mica__jinja_points(fill) != 1)
        MICA_FAIL(MICA_E_ARGUMENT, "the fill character must be exactly one character long");
    const int64_t n = mica__jinja_points(self), missing = width > n ? width - n : 0;
    const int64_t left = side == 'l'   ? 0
                         : side == 'r' ? missing
                                       : missing / 2 + (missing & width & 1);
    return pad(run, self, left, missing - left, fill, out);
}

static mica_status str_center(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    return justify(run, self, args, 'c', out);
}

static mica_status str_ljust(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    return justify(run, self, args, 'l', out);
}

static mica_status str_rjust(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    return justify(run, self, args, 'r', out);
}

static mica_status str_zfill(jinja_run *run, const jinja_value *self, const jinja_value *args,
                             jinja_value *out)
{
    int64_t width;
    jinja_value zero;
    MICA_TRY(mica__jinja_need_int("a width must be an integer", &args[0], &width));
    MICA_TRY(mica__jinja_string(&run->heap, "0", 1, false, &zero));
    const int64_t n = mica__jinja_points(self), missing = width > n ? width - n : 0;
    const char first = self->text.length ? mica__jinja_chars(self)[0] : 0;
    const size_t sign = first == '+' || first == '-';
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made)
        return run->heap.status;
    MICA_TRY(mica__jinja_put_part(&run->heap, made, self, 0, sign));
    MICA_TRY(put_fill(run, made, &zero, missing));
    MICA_TRY(mica__jinja_put_part(&run->heap, made, self, sign, self->text.length - sign));
    *out = mica__jinja_made(made);
    out->markup = self->markup;
    return MICA_OK;
}

static mica_status str_expandtabs(jinja_run *run, const jinja_value *self, const jinja_value *args,
                                  jinja_value *out)
{
    int64_t size = 8, column = 0;
    const char *bytes = mica__jinja_chars(self);
    if (args[0].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("a tab size must be an integer", &args[0], &size));
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, self->text.length);
    if (!made)
        return run->heap.status;
    for (size_t at = 0; at < self->text.length;) {
        uint32_t point;
        const size_t n = mica__letter_next(bytes + at, &point);
        if (point == '\t') {
            const int64_t blanks = size > 0 ? size - column % size : 0;
            MICA_TRY(put_fill(run, made, NULL, blanks));
            column += blanks;
        } else {
            MICA_TRY(mica__jinja_put_part(&run->heap, made, self, at, n));
            column = point == '\n' || point == '\r' ? 0 : column + 1;
        }
        at += n;
    }
    *out = mica__jinja_made(made);
    out->markup = self->markup;
    return MICA_OK;
}

/* --- questions -------------------------------------------------------------------------------- */

typedef enum question {
    IS_ALPHA,
    IS_ALNUM,
    IS_DECIMAL,
    IS_DIGIT,
    IS_NUMERIC,
    IS_SPACE,
    IS_PRINTABLE,
    IS_ASCII
} question;

static bool answer(question q, uint32_t point)
{
    const letter_class class = mica__letter_class(point);
    switch (q) {
    case IS_ALPHA:
        return class.alpha;
    case IS_ALNUM:
        return class.alpha || class.decimal || class.digit || class.numeric;
    case IS_DECIMAL:
        return class.decimal;
    case IS_DIGIT:
        return class.digit;
    case IS_NUMERIC:
        return class.numeric;
    case IS_SPACE:
        return mica__letter_space(point);
    case IS_PRINTABLE:
        return class.printable;
    case IS_ASCII:
        return point < 0x80;
    }
    return false;
}

/* Whether all characters are such; of an empty text only what `empty` says. */
static mica_status all_are(jinja_run *run, const jinja_value *self, question q, bool empty,
                           jinja_value *out)
{
    bool result = self->text.length || empty;
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)self->text.length / 16));
    for (size_t at = 0; at < self->text.length && result;) {
        uint32_t point;
        at += mica__letter_next(mica__jinja_chars(self) + at, &point);
        result = answer(q, point);
    }
    *out = mica__jinja_bool(result);
    return MICA_OK;
}

#define QUESTION(name, q, empty)                                                                   \
    static mica_status name(jinja_run *run, const jinja_value *self, const jinja_value *args,      \
                            jinja_value *out)                                                      \
    {                                                                                              \
        (void)args;                                                                                \
        return all_are(run, self, q, empty, out);                                                  \
    }
QUESTION(str_isalpha, IS_ALPHA, false)
QUESTION(str_isalnum, IS_ALNUM, false)
QUESTION(str_isdecimal, IS_DECIMAL, false)
QUESTION(str_isdigit, IS_DIGIT, false)
QUESTION(str_isnumeric, IS_NUMERIC, false)
QUESTION(str_isspace, IS_SPACE, false)
QUESTION(str_isprintable, IS_PRINTABLE, true)
QUESTION(str_isascii, IS_ASCII, true)

/* At least one letter of the case, and none of the other (nor title case). */
static mica_status cased_as(jinja_run *run, const jinja_value *self, bool upper, jinja_value *out)
{
    bool some = false, other = false;
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)self->text.length / 16));
    for (size_t at = 0; at < self->text.length && !other;) {
        uint32_t point;
        at += mica__letter_next(mica__jinja_chars(self) + at, &point);
        const letter_class class = mica__letter_class(point);
        some = some || (upper ? class.upper : class.lower);
        other = class.title || (upper ? class.lower : class.upper);
    }
    *out = mica__jinja_bool(some && !other);
    return MICA_OK;
}

static mica_status str_islower(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    (void)args;
    return cased_as(run, self, false, out);
}

static mica_status str_isupper(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    (void)args;
    return cased_as(run, self, true, out);
}

static mica_status str_istitle(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    bool some = false, in_word = false, good = true;
    (void)args;
    MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)self->text.length / 16));
    for (size_t at = 0; at < self->text.length && good;) {
        uint32_t point;
        at += mica__letter_next(mica__jinja_chars(self) + at, &point);
        const letter_class class = mica__letter_class(point);
        const bool large = class.upper || class.title;
        good = large ? !in_word : !class.lower || in_word;
        in_word = large || class.lower;
        some = some || in_word;
    }
    *out = mica__jinja_bool(some && good);
    return MICA_OK;
}

static mica_status str_format(jinja_run *run, const jinja_value *self, const jinja_args *args,
                              jinja_value *out)
{
    return mica__jinja_str_format(run, self, args, out);
}

const jinja_builtin *mica__jinja_str_methods(int *n)
{
    static const jinja_builtin methods[] = {
        {"capitalize", "", 0, str_capitalize, NULL},
        {"center", "width,fillchar", 1, str_center, NULL},
        {"count", "sub,start,end", 1, str_count, NULL},
        {"endswith", "suffix,start,end", 1, str_endswith, NULL},
        {"expandtabs", "tabsize", 0, str_expandtabs, NULL},
        {"find", "sub,start,end", 1, str_find, NULL},
        {"format", "", 0, NULL, str_format},
        {"index", "sub,start,end", 1, str_index, NULL},
        {"isalnum", "", 0, str_isalnum, NULL},
        {"isalpha", "", 0, str_isalpha, NULL},
        {"isascii", "", 0, str_isascii, NULL},
        {"isdecimal", "", 0, str_isdecimal, NULL},
        {"isdigit", "", 0, str_isdigit, NULL},
        {"islower", "", 0, str_islower, NULL},
        {"isnumeric", "", 0, str_isnumeric, NULL},
        {"isprintable", "", 0, str_isprintable, NULL},
        {"isspace", "", 0, str_isspace, NULL},
        {"istitle", "", 0, str_istitle, NULL},
        {"isupper", "", 0, str_isupper, NULL},
        {"join", "iterable", 1, str_join, NULL},
        {"ljust", "width,fillchar", 1, str_ljust, NULL},
        {"lower", "", 0, str_lower, NULL},
        {"lstrip", "chars", 0, str_lstrip, NULL},
        {"partition", "sep", 1, str_partition, NULL},
        {"removeprefix", "prefix", 1, str_removeprefix, NULL},
        {"removesuffix", "suffix", 1, str_removesuffix, NULL},
        {"replace", "old,new,count", 2, str_replace, NULL},
        {"rfind", "sub,start,end", 1, str_rfind, NULL},
        {"rindex", "sub,start,end", 1, str_rindex, NULL},
        {"rjust", "width,fillchar", 1, str_rjust, NULL},
        {"rpartition", "sep", 1, str_rpartition, NULL},
        {"rsplit", "sep,maxsplit", 0, str_rsplit, NULL},
        {"rstrip", "chars", 0, str_rstrip, NULL},
        {"split", "sep,maxsplit", 0, str_split, NULL},
        {"splitlines", "keepends", 0, str_splitlines, NULL},
        {"startswith", "prefix,start,end", 1, str_startswith, NULL},
        {"strip", "chars", 0, str_strip, NULL},
        {"swapcase", "", 0, str_swapcase, NULL},
        {"title", "", 0, str_title, NULL},
        {"upper", "", 0, str_upper, NULL},
        {"zfill", "width", 1, str_zfill, NULL},
    };
    *n = (int)(sizeof methods / sizeof *methods);
    return methods;
}
