/* pretokenize.c - the chain of steps that cuts text into words.
 *
 * The levels are walked depth first with one cursor each, so a word is known as soon as its text
 * has been looked at and nothing is stored per word.
 * SPDX-License-Identifier: MIT
 */
#include "text/pretokenize.h"

#include <string.h>

#include "text/byte_spelling.h"
#include "text/utf8.h"

mica_status mica__pretokenizer_add(mica__pretokenizer *pre, mica__step step)
{
    if (pre->n == MICA__MAX_STEPS) {
        if (step.matcher.release)
            step.matcher.release((void *)(uintptr_t)step.matcher.pattern);
        MICA_FAIL(MICA_E_UNSUPPORTED, "the pre-tokenizer has more than %d steps", MICA__MAX_STEPS);
    }
    pre->steps[pre->n++] = step;
    if (step.kind == MICA__STEP_SPELL)
        pre->spells = true;
    return MICA_OK;
}

void mica__pretokenizer_free(mica__pretokenizer *pre)
{
    for (int i = 0; i < pre->n; i++)
        if (pre->steps[i].matcher.release)
            pre->steps[i].matcher.release((void *)(uintptr_t)pre->steps[i].matcher.pattern);
    *pre = (mica__pretokenizer){0};
}

/* --- rewriting steps -------------------------------------------------------------------------- */

static mica_status mark_spaces(const mica__step *step, const char *text, int64_t n, bool first,
                               mica__text *out)
{
    const size_t mark = strlen(step->mark);
    const bool has_mark = (size_t)n >= mark && memcmp(text, step->mark, mark) == 0;
    const bool wanted =
        step->prepend == MICA__PREPEND_ALWAYS || (step->prepend == MICA__PREPEND_FIRST && first);
    if (wanted && !has_mark && text[0] != ' ')
        MICA_TRY(mica__text_add(out, step->mark, mark));
    for (int64_t at = 0; at < n;) {
        const char *space = memchr(text + at, ' ', (size_t)(n - at));
        const int64_t end = space ? space - text : n;
        MICA_TRY(mica__text_add(out, text + at, (size_t)(end - at)));
        if (space)
            MICA_TRY(mica__text_add(out, step->mark, mark));
        at = end + (space != NULL);
    }
    return MICA_OK;
}

static mica_status spell(const char *text, int64_t n, mica__text *out)
{
    char spelled[128];
    for (int64_t at = 0; at < n; at += 64) {
        const int64_t part = n - at < 64 ? n - at : 64;
        const int64_t length = mica__spell_bytes(text + at, part, spelled);
        MICA_TRY(mica__text_add(out, spelled, (size_t)length));
    }
    return MICA_OK;
}

static mica_status rewrite(const mica__step *step, mica__cut *cut, bool first)
{
    mica__text *out = &cut->rewritten;
    out->kind = MICA_MEMORY_TEXT;
    mica__text_clear(out);
    switch (step->kind) {
    case MICA__STEP_SPACE:
        if (cut->text[0] == ' ')
            return MICA_OK;
        MICA_TRY(mica__text_add(out, " ", 1));
        MICA_TRY(mica__text_add(out, cut->text, (size_t)cut->n));
        break;
    case MICA__STEP_SPELL:
        MICA_TRY(spell(cut->text, cut->n, out));
        break;
    case MICA__STEP_MARK_SPACES:
        MICA_TRY(mark_spaces(step, cut->text, cut->n, first, out));
        break;
    case MICA__STEP_SPLIT:
        return MICA_OK;
    }
    cut->text = out->bytes;
    cut->n = out->length;
    return MICA_OK;
}

/* --- cutting ---------------------------------------------------------------------------------- */

/* Moves to the stretch of valid text that holds `at` or follows it; false when there is none. */
static bool next_valid(mica__cut *cut, int64_t at)
{
    int length;
    while (at < cut->n && mica__utf8_next(cut->text, cut->n, at, &length) == MICA__BAD_CHAR)
        at += length;
    cut->valid_from = cut->valid_to = at;
    while (cut->valid_to < cut->n &&
           mica__utf8_next(cut->text, cut->n, cut->valid_to, &length) != MICA__BAD_CHAR)
        cut->valid_to += length;
    return at < cut->n;
}

/* As m->match, for matchers that may only see valid text. */
static int match_valid(const mica__matcher *m, mica__cut *cut, int64_t at)
{
    if (!m->needs_valid)
        return m->match(m->pattern, cut->text, cut->n, at, &cut->from, &cut->to);
    while (at < cut->valid_to || next_valid(cut, at)) {
        const int64_t base = cut->valid_from;
        if (at < base)
            at = base;
        const int found = m->match(m->pattern, cut->text + base, cut->valid_to - base, at - base,
                                   &cut->from, &cut->to);
        if (found < 0)
            return found;
        cut->from += base;
        cut->to += base;
        if (found > 0)
            return 1;
        at = cut->valid_to;
    }
    return 0;
}

/* Looks for the next match from the cursor on; one of no width at the cursor is passed over, since
 * a cut is there already. */
static int find_match(const mica__matcher *m, mica__cut *cut)
{
    int64_t at = cut->at;
    for (;;) {
        const int found = match_valid(m, cut, at);
        if (found <= 0) {
            cut->no_more = found == 0;
            return found;
        }
        if (cut->to > cut->from || cut->from > cut->at) {
            cut->have_match = true;
            return 1;
        }
        int length;
        mica__utf8_next(cut->text, cut->n, at, &length);
        at += length;
        if (at >= cut->n) {
            cut->no_more = true;
            return 0;
        }
    }
}

/* The next match or gap. */
static int next_cut(const mica__step *step, mica__cut *cut, int64_t *from, int64_t *to, bool *match)
{
    if (cut->held) {
        cut->held = false;
        *from = cut->held_from;
        *to = cut->held_to;
        *match = cut->held_match;
        return 1;
    }
    if (cut->at >= cut->n)
        return 0;
    if (!cut->have_match && !cut->no_more) {
        const int found = find_match(&step->matcher, cut);
        if (found < 0)
            return found;
    }
    *from = cut->at;
    *match = cut->have_match && cut->from == cut->at;
    if (*match)
        *to = cut->to;
    else
        *to = cut->have_match ? cut->from : cut->n;
    cut->at = *to;
    if (*match || (cut->have_match && cut->from == cut->to))
        cut->have_match = false;
    *match = *match != step->invert;
    return 1;
}

static void hold(mica__cut *cut, int64_t from, int64_t to, bool match)
{
    cut->held = true;
    cut->held_from = from;
    cut->held_to = to;
    cut->held_match = match;
}

/* The next piece under the step's rule for matches. */
static int next_piece(const mica__step *step, mica__cut *cut, int64_t *from, int64_t *to)
{
    bool match;
    int got = next_cut(step, cut, from, to, &match);
    if (got <= 0 || step->split == MICA__SPLIT_ISOLATED)
        return got;
    if (step->split == MICA__SPLIT_REMOVED) {
        while (got > 0 && match)
            got = next_cut(step, cut, from, to, &match);
        return got;
    }
    for (;;) {
        int64_t next_from, next_to;
        bool next_match;
        const int more = next_cut(step, cut, &next_from, &next_to, &next_match);
        if (more < 0)
            return more;
        const bool joins =
            more > 0 && ((step->split == MICA__SPLIT_WITH_PREVIOUS && !match && next_match) ||
                         (step->split == MICA__SPLIT_WITH_NEXT && match && !next_match) ||
                         (step->split == MICA__SPLIT_CONTIGUOUS && match == next_match));
        if (joins)
            *to = next_to;
        else if (more > 0)
            hold(cut, next_from, next_to, next_match);
        if (!joins || step->split != MICA__SPLIT_CONTIGUOUS)
            return 1;
    }
}

/* --- the walk --------------------------------------------------------------------------------- */

static mica_status enter(mica__words *w, int level, const char *text, int64_t n, bool first)
{
    mica__cut *cut = &w->cuts[level];
    const mica__text kept = cut->rewritten;
    *cut = (mica__cut){.text = text, .n = n, .first = first, .rewritten = kept};
    w->level = level;
    return rewrite(&w->pre->steps[level], cut, first);
}

void mica__words_start(mica__words *w, const mica__pretokenizer *pre, const char *text, int64_t n,
                       bool at_start)
{
    w->pre = pre;
    w->text = text;
    w->n = n;
    w->at_start = at_start;
    w->whole_done = n == 0;
    w->level = -1;
}

int mica__words_next(mica__words *w, const char **word, int64_t *n)
{
    if (w->level < 0) {
        if (w->whole_done)
            return 0;
        w->whole_done = true;
        if (w->pre->n == 0) {
            *word = w->text;
            *n = w->n;
            return 1;
        }
        const mica_status status = enter(w, 0, w->text, w->n, w->at_start);
        if (status != MICA_OK)
            return -(int)status;
    }
    while (w->level >= 0) {
        mica__cut *cut = &w->cuts[w->level];
        const mica__step *step = &w->pre->steps[w->level];
        int64_t from = 0, to = cut->n;
        int got = 1;
        if (step->kind == MICA__STEP_SPLIT)
            got = next_piece(step, cut, &from, &to);
        else if (cut->at >= cut->n)
            got = 0;
        else
            cut->at = cut->n;
        if (got < 0)
            return got;
        if (got == 0) {
            w->level--;
        } else if (to > from) {
            if (w->level + 1 == w->pre->n) {
                *word = cut->text + from;
                *n = to - from;
                return 1;
            }
            const mica_status status =
                enter(w, w->level + 1, cut->text + from, to - from, cut->first && from == 0);
            if (status != MICA_OK)
                return -(int)status;
        }
    }
    return 0;
}

void mica__words_free(mica__words *w)
{
    for (int i = 0; i < MICA__MAX_STEPS; i++)
        mica__text_free(&w->cuts[i].rewritten);
}
