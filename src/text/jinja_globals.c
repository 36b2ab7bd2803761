/* jinja_globals.c - the functions that every template sees: range, dict, namespace, cycler, joiner,
 * and those that chat templates are given: raise_exception, strftime_now.
 *
 * The date comes from the run, never from a clock: a render is a function of its input.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "text/jinja_run.h"

/* --- values ----------------------------------------------------------------------------------- */

static mica_status range_of(int64_t start, int64_t stop, int64_t step, jinja_range *range)
{
    uint64_t span = 0, n = 0;
    if (step == 0)
        MICA_FAIL(MICA_E_ARGUMENT, "range() arg 3 must not be zero");
    if (step > 0 && stop > start)
        span = (uint64_t)stop - (uint64_t)start;
    if (step < 0 && stop < start)
        span = (uint64_t)start - (uint64_t)stop;
    if (span)
        n = (span - 1) / (step > 0 ? (uint64_t)step : 0 - (uint64_t)step) + 1;
    if (n > JINJA_MAX_RANGE)
        MICA_FAIL(MICA_E_BUDGET, "a range of %llu values: at most %d are allowed",
                  (unsigned long long)n, JINJA_MAX_RANGE);
    *range = (jinja_range){start, stop, step, (int64_t)n};
    return MICA_OK;
}

static mica_status call_range(jinja_run *run, const jinja_value *self, const jinja_value *args,
                              jinja_value *out)
{
    int64_t start = 0, stop, step = 1;
    (void)self;
    MICA_TRY(mica__jinja_need_int("range() takes integers", &args[0], &stop));
    if (args[1].type != JINJA_ABSENT) {
        start = stop;
        MICA_TRY(mica__jinja_need_int("range() takes integers", &args[1], &stop));
    }
    if (args[2].type != JINJA_ABSENT)
        MICA_TRY(mica__jinja_need_int("range() takes integers", &args[2], &step));
    jinja_range *range = mica__jinja_take(&run->heap, 1, sizeof *range);
    if (!range)
        return run->heap.status;
    MICA_TRY(range_of(start, stop, step, range));
    *out = (jinja_value){.type = JINJA_RANGE, .range = range};
    return MICA_OK;
}

/* Key and value pairs of an iterable, as dict() takes them. */
static mica_status add_pairs(jinja_run *run, jinja_dict *dict, const jinja_value *from)
{
    jinja_value *items, *pair;
    int64_t n, two;
    if (from->type == JINJA_UNDEFINED)
        return MICA_OK;
    MICA_TRY(mica__jinja_iterate(run, from, &items, &n));
    for (int64_t i = 0; i < n; i++) {
        if (from->type == JINJA_DICT) {
            const jinja_entry *e = mica__jinja_dict_find(&run->heap, from->dict, &items[i]);
            if (!e)
                return run->heap.status;
            MICA_TRY(mica__jinja_dict_set(&run->heap, dict, &e->key, &e->value));
            continue;
        }
        MICA_TRY(mica__jinja_iterate(run, &items[i], &pair, &two));
        if (two != 2)
            MICA_FAIL(MICA_E_ARGUMENT, "dict() takes pairs, element %lld has %lld values",
                      (long long)i, (long long)two);
        MICA_TRY(mica__jinja_dict_set(&run->heap, dict, &pair[0], &pair[1]));
    }
    return MICA_OK;
}

static mica_status make_dict(jinja_run *run, const char *what, const jinja_args *args,
                             jinja_dict **out)
{
    if (args->n > 1)
        MICA_FAIL(MICA_E_ARGUMENT, "%s() takes at most one positional argument", what);
    *out = mica__jinja_dict_new(&run->heap);
    if (!*out)
        return run->heap.status;
    if (args->n)
        MICA_TRY(add_pairs(run, *out, &args->items[0]));
    for (int64_t i = 0; i < args->n_named; i++)
        MICA_TRY(mica__jinja_dict_set(&run->heap, *out, &args->names[i], &args->values[i]));
    return MICA_OK;
}

static mica_status call_dict(jinja_run *run, const jinja_value *self, const jinja_args *args,
                             jinja_value *out)
{
    (void)self;
    *out = (jinja_value){.type = JINJA_DICT};
    return make_dict(run, "dict", args, &out->dict);
}

static mica_status call_namespace(jinja_run *run, const jinja_value *self, const jinja_args *args,
                                  jinja_value *out)
{
    (void)self;
    *out = (jinja_value){.type = JINJA_NAMESPACE};
    return make_dict(run, "namespace", args, &out->dict);
}

static mica_status make_cycler(jinja_run *run, jinja_type type, const jinja_value *items, int64_t n,
                               jinja_value *out)
{
    struct jinja_cycler *cycler = mica__jinja_take(&run->heap, 1, sizeof *cycler);
    jinja_value *copy = mica__jinja_take(&run->heap, (size_t)n, sizeof *copy);
    if (!cycler || !copy)
        return run->heap.status;
    memcpy(copy, items, (size_t)n * sizeof *copy);
    *cycler = (struct jinja_cycler){.items = copy, .n = n};
    *out = (jinja_value){.type = type, .cycler = cycler};
    return MICA_OK;
}

static mica_status call_cycler(jinja_run *run, const jinja_value *self, const jinja_args *args,
                               jinja_value *out)
{
    (void)self;
    if (!args->n || args->n_named)
        MICA_FAIL(MICA_E_ARGUMENT, "cycler() takes one or more items");
    return make_cycler(run, JINJA_CYCLER, args->items, args->n, out);
}

static mica_status call_joiner(jinja_run *run, const jinja_value *self, const jinja_value *args,
                               jinja_value *out)
{
    jinja_value separator = args[0];
    (void)self;
    if (separator.type == JINJA_ABSENT)
        MICA_TRY(mica__jinja_string(&run->heap, ", ", 2, false, &separator));
    return make_cycler(run, JINJA_JOINER, &separator, 1, out);
}

mica_status mica__jinja_cycler_next(jinja_run *run, struct jinja_cycler *cycler, jinja_value *out)
{
    (void)run;
    *out = cycler->items[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->n;
    return MICA_OK;
}

/* Nothing the first time, then the separator. */
mica_status mica__jinja_joiner_call(jinja_run *run, struct jinja_cycler *joiner, jinja_value *out)
{
    if (joiner->at++)
        *out = joiner->items[0];
    else
        return mica__jinja_string(&run->heap, "", 0, false, out);
    joiner->at = 1;
    return MICA_OK;
}

static mica_status call_raise_exception(jinja_run *run, const jinja_value *self,
                                        const jinja_value *args, jinja_value *out)
{
    jinja_value text;
    (void)self;
    (void)out;
    MICA_TRY(mica__jinja_str(&run->heap, &args[0], &text));
    const int n = text.text.length < 600 ? (int)text.text.length : 600;
    MICA_FAIL(MICA_E_ARGUMENT, "the template refuses this conversation: %.*s", n,
              mica__jinja_chars(&text));
}

/* --- dates ------------------------------------------------------------------------------------ */

typedef struct civil_time {
    int64_t year;
    int month, day, hour, minute, second; /* month and day from 1 */
    int weekday;                          /* 0 Sunday */
    int yearday;                          /* from 1 */
} civil_time;

static bool leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days and seconds of the proleptic Gregorian calendar. */
static civil_time civil(int64_t seconds)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    civil_time t = {.year = 1970, .month = 1};
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    t.weekday = (int)(((days + 4) % 7 + 7) % 7);
    t.hour = (int)(rest / 3600);
    t.minute = (int)(rest / 60 % 60);
    t.second = (int)(rest % 60);
    const int64_t eras = days / 146097; /* 400 years each */
    t.year += 400 * eras;
    days -= 146097 * eras;
    for (; days < 0; t.year--)
        days += leap(t.year - 1) ? 366 : 365;
    for (; days >= (leap(t.year) ? 366 : 365); t.year++)
        days -= leap(t.year) ? 366 : 365;
    t.yearday = (int)days + 1;
    for (int m = 0; m < 12; m++) {
        const int length = lengths[m] + (m == 1 && leap(t.year));
        if (days < length)
            break;
        days -= length;
        t.month++;
    }
    t.day = (int)days + 1;
    return t;
}

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const weekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};

/* One directive of strftime in the C locale; returns the length, -1 for one that is not known.
 * plain: without leading zeros ("%-d"). */
static int format_directive(char directive, bool plain, const civil_time *t, char to[64])
{
    const int two = plain ? 1 : 2, hour12 = t->hour % 12 ? t->hour % 12 : 12;
    switch (directive) {
    case 'Y':
        return snprintf(to, 64, "%lld", (long long)t->year);
    case 'y':
        return snprintf(to, 64, "%0*d", two, (int)(((t->year % 100) + 100) % 100));
    case 'm':
        return snprintf(to, 64, "%0*d", two, t->month);
    case 'd':
        return snprintf(to, 64, "%0*d", two, t->day);
    case 'e':
        return snprintf(to, 64, plain ? "%d" : "%2d", t->day);
    case 'H':
        return snprintf(to, 64, "%0*d", two, t->hour);
    case 'I':
        return snprintf(to, 64, "%0*d", two, hour12);
    case 'M':
        return snprintf(to, 64, "%0*d", two, t->minute);
    case 'S':
        return snprintf(to, 64, "%0*d", two, t->second);
    case 'j':
        return snprintf(to, 64, "%0*d", plain ? 1 : 3, t->yearday);
    case 'w':
        return snprintf(to, 64, "%d", t->weekday);
    case 'u':
        return snprintf(to, 64, "%d", t->weekday ? t->weekday : 7);
    case 'p':
        return snprintf(to, 64, "%s", t->hour < 12 ? "AM" : "PM");
    case 'B':
        return snprintf(to, 64, "%s", months[t->month - 1]);
    case 'b':
    case 'h':
        return snprintf(to, 64, "%.3s", months[t->month - 1]);
    case 'A':
        return snprintf(to, 64, "%s", weekdays[t->weekday]);
    case 'a':
        return snprintf(to, 64, "%.3s", weekdays[t->weekday]);
    case 'F':
        return snprintf(to, 64, "%lld-%02d-%02d", (long long)t->year, t->month, t->day);
    case 'T':
    case 'X':
        return snprintf(to, 64, "%02d:%02d:%02d", t->hour, t->minute, t->second);
    case 'R':
        return snprintf(to, 64, "%02d:%02d", t->hour, t->minute);
    case 'D':
    case 'x':
        return snprintf(to, 64, "%02d/%02d/%02d", t->month, t->day,
                        (int)(((t->year % 100) + 100) % 100));
    case 'c':
        return snprintf(to, 64, "%.3s %.3s %2d %02d:%02d:%02d %lld", weekdays[t->weekday],
                        months[t->month - 1], t->day, t->hour, t->minute, t->second,
                        (long long)t->year);
    case 'f':
        return snprintf(to, 64, "000000");
    case 'n':
        return snprintf(to, 64, "\n");
    case 't':
        return snprintf(to, 64, "\t");
    case '%':
        return snprintf(to, 64, "%%");
    case 'Z':
    case 'z':
        to[0] = '\0'; /* a time without zone */
        return 0;
    default:
        return -1;
    }
}

static mica_status call_strftime_now(jinja_run *run, const jinja_value *self,
                                     const jinja_value *args, jinja_value *out)
{
    (void)self;
    MICA_TRY(mica__jinja_need_string("strftime_now() takes a format string", &args[0]));
    const civil_time t = civil(run->now);
    const jinja_value *format = &args[0];
    const char *bytes = mica__jinja_chars(format);
    const size_t end = format->text.length;
    jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
    if (!made)
        return run->heap.status;
    for (size_t at = 0; at < end;) {
        char to[64];
        const char *percent = memchr(bytes + at, '%', end - at);
        const size_t stop = percent ? (size_t)(percent - bytes) : end;
        MICA_TRY(mica__jinja_put_part(&run->heap, made, format, at, stop - at));
        if (stop == end)
            break;
        const bool plain = stop + 1 < end && bytes[stop + 1] == '-';
        at = stop + 1 + plain;
        const int n = at < end ? format_directive(bytes[at], plain, &t, to) : -1;
        if (n < 0)
            MICA_FAIL(MICA_E_ARGUMENT, "strftime_now() does not know this directive of '%.*s'",
                      end < 60 ? (int)end : 60, bytes);
        MICA_TRY(mica__jinja_put(&run->heap, made, to, (size_t)n, false));
        at++;
    }
    *out = mica__jinja_made(made);
    return MICA_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

static const struct jinja_function globals[] = {
    {{"range", "start,stop,step", 1, call_range, NULL}},
    {{"dict", "", 0, NULL, call_dict}},
    {{"namespace", "", 0, NULL, call_namespace}},
    {{"cycler", "", 0, NULL, call_cycler}},
    {{"joiner", "sep", 0, call_joiner, NULL}},
    {{"raise_exception", "message", 1, call_raise_exception, NULL}},
    {{"strftime_now", "format", 1, call_strftime_now, NULL}},
};

const struct jinja_function *mica__jinja_global_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (strlen(globals[i].builtin.name) == n && memcmp(globals[i].builtin.name, name, n) == 0)
            return &globals[i];
    return NULL;
}
