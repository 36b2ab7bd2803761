/* normalizer.c - what is done to a stretch of text before it is cut and merged.
 * SPDX-License-Identifier: MIT
 */
#include "text/normalizer.h"

#include <string.h>

static mica_status next_step(mica__normalizer *normalizer, mica__normalizer_step **step)
{
    if (normalizer->n == MICA__MAX_NORMALIZERS)
        MICA_FAIL(MICA_E_UNSUPPORTED, "the normalizer has more than %d steps",
                  MICA__MAX_NORMALIZERS);
    *step = &normalizer->steps[normalizer->n++];
    return MICA_OK;
}

mica_status mica__normalizer_add_form(mica__normalizer *normalizer, mica__normal_form form)
{
    mica__normalizer_step *step = NULL;
    MICA_TRY(next_step(normalizer, &step));
    step->kind = MICA__NORMALIZER_FORM;
    step->form = form;
    return MICA_OK;
}

mica_status mica__normalizer_add(mica__normalizer *normalizer, mica__normalizer_kind kind,
                                 const char *from, int64_t from_n, const char *to, int64_t to_n)
{
    if (kind == MICA__NORMALIZER_REPLACE && from_n == 0)
        MICA_FAIL(MICA_E_FORMAT, "the normalizer replaces a text of no characters");
    mica__normalizer_step *step = NULL;
    MICA_TRY(next_step(normalizer, &step));
    step->kind = kind;
    step->from = mica__strndup(MICA_MEMORY_TEXT, from, (size_t)from_n);
    step->to = mica__strndup(MICA_MEMORY_TEXT, to, (size_t)to_n);
    step->from_n = from_n;
    step->to_n = to_n;
    return step->from && step->to ? MICA_OK : MICA_E_MEMORY;
}

static mica_status replace(const mica__normalizer_step *step, const char *text, int64_t n,
                           mica__text *out)
{
    for (int64_t at = 0; at < n;) {
        const char *found = memmem(text + at, (size_t)(n - at), step->from, (size_t)step->from_n);
        const int64_t end = found ? found - text : n;
        MICA_TRY(mica__text_add(out, text + at, (size_t)(end - at)));
        if (!found)
            break;
        MICA_TRY(mica__text_add(out, step->to, (size_t)step->to_n));
        at = end + step->from_n;
    }
    return MICA_OK;
}

static mica_status collapse(const char *text, int64_t n, mica__text *out)
{
    bool pending = false;
    for (int64_t at = 0; at < n; at++) {
        if (text[at] == ' ') {
            pending = out->length > 0;
            continue;
        }
        if (pending)
            MICA_TRY(mica__text_add_char(out, ' '));
        pending = false;
        MICA_TRY(mica__text_add_char(out, text[at]));
    }
    return MICA_OK;
}

/* Whether the step would leave the text as it is (false: perhaps not). */
static bool changes_nothing(const mica__normalizer_step *step, const char *text, int64_t n,
                            bool at_start, bool begins)
{
    switch (step->kind) {
    case MICA__NORMALIZER_FORM:
        return mica__is_normal(step->form, text, n);
    case MICA__NORMALIZER_REPLACE:
        return !memmem(text, (size_t)n, step->from, (size_t)step->from_n);
    case MICA__NORMALIZER_PREPEND:
        return n == 0 || !begins;
    case MICA__NORMALIZER_PREPEND_FIRST:
        return n == 0 || !at_start || !begins;
    case MICA__NORMALIZER_COLLAPSE:
        break;
    }
    return false;
}

static mica_status run_step(const mica__normalizer_step *step, const char *text, int64_t n,
                            mica__text *out)
{
    switch (step->kind) {
    case MICA__NORMALIZER_FORM:
        return mica__normalize(step->form, text, n, out);
    case MICA__NORMALIZER_REPLACE:
        return replace(step, text, n, out);
    case MICA__NORMALIZER_COLLAPSE:
        return collapse(text, n, out);
    case MICA__NORMALIZER_PREPEND:
    case MICA__NORMALIZER_PREPEND_FIRST:
        break;
    }
    MICA_TRY(mica__text_add(out, step->to, (size_t)step->to_n));
    return mica__text_add(out, text, (size_t)n);
}

mica_status mica__normalizer_run(const mica__normalizer *normalizer, const char *text, int64_t n,
                                 bool at_start, bool begins, mica__text buffers[2],
                                 const char **result, int64_t *result_n)
{
    int which = 0;
    for (int i = 0; i < normalizer->n; i++) {
        if (changes_nothing(&normalizer->steps[i], text, n, at_start, begins))
            continue;
        mica__text *out = &buffers[which];
        out->kind = MICA_MEMORY_TEXT;
        mica__text_clear(out);
        MICA_TRY(run_step(&normalizer->steps[i], text, n, out));
        text = out->bytes ? out->bytes : "";
        n = out->length;
        which = 1 - which;
    }
    *result = text;
    *result_n = n;
    return MICA_OK;
}

void mica__normalizer_free(mica__normalizer *normalizer)
{
    for (int i = 0; i < normalizer->n; i++) {
        mica__free(normalizer->steps[i].from);
        mica__free(normalizer->steps[i].to);
    }
    *normalizer = (mica__normalizer){0};
}
