/* stop_strings.c - strings that end a text, found across the borders of tokens.
 *
 * Knuth, Morris, Pratt for each string, one byte at a time, so the cost is linear however tokens
 * cut the text and whatever the strings are. Of strings that are complete at the same byte the
 * longest counts. `held` has the bytes that were not certain; those that the longest partial match
 * covers stay in it.
 * SPDX-License-Identifier: MIT
 */
#include "run/stop_strings.h"

#include <string.h>

/* --- the strings ------------------------------------------------------------------------------ */

static void find_borders(mica__stop_string *string)
{
    string->border[0] = 0;
    for (int32_t i = 1, k = 0; i < string->length; i++) {
        while (k > 0 && string->bytes[i] != string->bytes[k])
            k = string->border[k - 1];
        if (string->bytes[i] == string->bytes[k])
            k++;
        string->border[i] = k;
    }
}

static mica_status add_string(mica__stop_string *string, const char *bytes, int64_t index)
{
    const size_t length = bytes ? strnlen(bytes, MICA__MAX_STOP_STRING_BYTES + 1) : 0;
    if (length == 0)
        MICA_FAIL(MICA_E_ARGUMENT, "stop string %lld is empty", (long long)index);
    if (length > MICA__MAX_STOP_STRING_BYTES)
        MICA_FAIL(MICA_E_ARGUMENT, "stop string %lld is longer than %d bytes", (long long)index,
                  MICA__MAX_STOP_STRING_BYTES);
    string->bytes = mica__strndup(MICA_MEMORY_TEXT, bytes, length);
    string->border = mica__alloc(MICA_MEMORY_TEXT, length * sizeof *string->border);
    if (!string->bytes || !string->border)
        return MICA_E_MEMORY;
    string->length = (int32_t)length;
    find_borders(string);
    return MICA_OK;
}

mica_status mica__stop_strings_open(mica__stop_strings *set, const char *const *strings, int64_t n)
{
    memset(set, 0, sizeof *set);
    if (n < 0 || n > MICA__MAX_STOP_STRINGS || (n > 0 && !strings))
        MICA_FAIL(MICA_E_ARGUMENT, "%lld stop strings; at most %d are possible", (long long)n,
                  MICA__MAX_STOP_STRINGS);
    if (n == 0)
        return MICA_OK;
    set->strings = mica__alloc_zero(MICA_MEMORY_TEXT, (size_t)n, sizeof *set->strings);
    if (!set->strings)
        return MICA_E_MEMORY;
    set->n = n;
    for (int64_t i = 0; i < n; i++) {
        const mica_status status = add_string(&set->strings[i], strings[i], i);
        if (status != MICA_OK) {
            mica__stop_strings_close(set);
            return status;
        }
    }
    return MICA_OK;
}

void mica__stop_strings_close(mica__stop_strings *set)
{
    for (int64_t i = 0; i < set->n; i++) {
        mica__free((char *)set->strings[i].bytes);
        mica__free(set->strings[i].border);
    }
    mica__free(set->strings);
    memset(set, 0, sizeof *set);
}

/* --- the watch -------------------------------------------------------------------------------- */

mica_status mica__stop_watch_open(mica__stop_watch *watch, const mica__stop_strings *set)
{
    memset(watch, 0, sizeof *watch);
    watch->held.kind = MICA_MEMORY_TEXT;
    watch->which = -1;
    if (set->n == 0)
        return MICA_OK;
    watch->matched = mica__alloc_zero(MICA_MEMORY_TEXT, (size_t)set->n, sizeof *watch->matched);
    return watch->matched ? MICA_OK : MICA_E_MEMORY;
}

void mica__stop_watch_close(mica__stop_watch *watch)
{
    mica__text_free(&watch->held);
    mica__free(watch->matched);
    memset(watch, 0, sizeof *watch);
}

static void forget_given(mica__stop_watch *watch)
{
    mica__text *held = &watch->held;
    if (watch->given == 0)
        return;
    memmove(held->bytes, held->bytes + watch->given, (size_t)(held->length - watch->given));
    held->length -= watch->given;
    watch->given = 0;
}

/* Takes one byte; returns the length of the longest string that it completes, 0 when none. */
static int32_t advance(mica__stop_watch *watch, const mica__stop_strings *set, char byte)
{
    int32_t longest = 0;
    for (int64_t i = 0; i < set->n; i++) {
        const mica__stop_string *string = &set->strings[i];
        int32_t k = watch->matched[i];
        while (k > 0 && string->bytes[k] != byte)
            k = string->border[k - 1];
        if (string->bytes[k] == byte)
            k++;
        watch->matched[i] = k;
        if (k == string->length) {
            if (k > longest) {
                longest = k;
                watch->which = i;
            }
            watch->matched[i] = string->border[k - 1];
        }
    }
    return longest;
}

mica_status mica__stop_watch_add(mica__stop_watch *watch, const mica__stop_strings *set,
                                 const char *bytes, size_t n, const char **text, size_t *n_text,
                                 bool *found)
{
    mica__text *held = &watch->held;
    *text = "";
    *n_text = 0;
    *found = false;
    forget_given(watch);
    const int64_t before = held->length;
    MICA_TRY(mica__text_add(held, bytes, n));
    int64_t certain = held->length;
    for (size_t i = 0; i < n && !*found; i++) {
        const int32_t complete = advance(watch, set, bytes[i]);
        if (complete > 0) {
            certain = before + (int64_t)i + 1 - complete;
            held->length = certain;
            *found = true;
        }
    }
    int32_t partial = 0;
    for (int64_t i = 0; i < set->n && !*found; i++)
        if (watch->matched[i] > partial)
            partial = watch->matched[i];
    certain -= partial;
    watch->given = certain;
    if (certain > 0) {
        *text = held->bytes;
        *n_text = (size_t)certain;
    }
    return MICA_OK;
}

mica_status mica__stop_watch_finish(mica__stop_watch *watch, const mica__stop_strings *set,
                                    const char *bytes, size_t n, const char **text, size_t *n_text,
                                    bool *found)
{
    mica_status status = MICA_OK;
    *found = false;
    if (n > 0)
        status = mica__stop_watch_add(watch, set, bytes, n, text, n_text, found);
    else
        forget_given(watch);
    *text = watch->held.length > 0 ? watch->held.bytes : "";
    *n_text = (size_t)watch->held.length;
    watch->given = watch->held.length;
    return status;
}
