/* tokenizer_json_steps.c - the steps that tokenizer.json names.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "text/tokenizer_json.h"

#define MAX_NESTING 8

/* --- members ---------------------------------------------------------------------------------- */

static bool absent(const mica__json *node)
{
    return !node || node->type == MICA__JSON_NULL;
}

mica_status mica__json_bool(const mica__json *object, const char *key, bool fallback, bool *value)
{
    const mica__json *node = mica__json_get(object, key);
    *value = fallback;
    if (absent(node))
        return MICA_OK;
    if (node->type != MICA__JSON_BOOL)
        MICA_FAIL(MICA_E_FORMAT, "\"%s\" is neither true nor false", key);
    *value = node->boolean;
    return MICA_OK;
}

mica_status mica__json_text(const mica__json *object, const char *key, const char **value)
{
    const mica__json *node = mica__json_get(object, key);
    *value = NULL;
    if (absent(node))
        return MICA_OK;
    if (node->type != MICA__JSON_STRING)
        MICA_FAIL(MICA_E_FORMAT, "\"%s\" is not a text", key);
    if ((int64_t)strlen(node->string) != node->length)
        MICA_FAIL(MICA_E_FORMAT, "\"%s\" holds a zero byte", key);
    *value = node->string;
    return MICA_OK;
}

/* The "type" of a step; `what` it is a type of. */
static mica_status type_of(const mica__json *step, const char *what, const char **type)
{
    MICA_TRY(mica__json_text(step, "type", type));
    if (!*type)
        MICA_FAIL(MICA_E_FORMAT, "a %s of tokenizer.json has no type", what);
    return MICA_OK;
}

static mica_status not_supported(const char *what, const char *type)
{
    MICA_FAIL(MICA_E_UNSUPPORTED, "tokenizer.json has the %s %.80s, which is not supported", what,
              type);
}

/* Runs a function over a step, or over the members of a Sequence in order, to a bounded depth. */
typedef mica_status (*apply_step)(const mica__json *step, const char *type, void *user);

static mica_status each_step(const mica__json *step, const char *what, const char *list, int depth,
                             apply_step apply, void *user)
{
    if (absent(step))
        return MICA_OK;
    const char *type;
    MICA_TRY(type_of(step, what, &type));
    if (strcmp(type, "Sequence") != 0)
        return apply(step, type, user);
    if (depth == MAX_NESTING)
        MICA_FAIL(MICA_E_FORMAT, "sequences of %ss are nested over %d deep", what, MAX_NESTING);
    const mica__json *items = mica__json_get(step, list);
    if (!items || items->type != MICA__JSON_ARRAY)
        MICA_FAIL(MICA_E_FORMAT, "a sequence of %ss has no list \"%s\"", what, list);
    for (const mica__json *item = items->first; item; item = item->next)
        MICA_TRY(each_step(item, what, list, depth + 1, apply, user));
    return MICA_OK;
}

/* --- model ------------------------------------------------------------------------------------ */

mica_status mica__json_check_model(const mica__json *model)
{
    if (!model || model->type != MICA__JSON_OBJECT)
        MICA_FAIL(MICA_E_FORMAT, "this is no tokenizer.json: it has no \"model\"");
    const char *type;
    MICA_TRY(mica__json_text(model, "type", &type));
    /* Older files do not say the type. */
    if (!type && mica__json_get(model, "max_input_chars_per_word"))
        type = "WordPiece";
    if (!type && mica__json_get(model, "unk_id"))
        type = "Unigram";
    if (!type && !mica__json_get(model, "merges"))
        MICA_FAIL(MICA_E_FORMAT, "the model of tokenizer.json has neither type nor merges");
    if (type && strcmp(type, "BPE") != 0)
        MICA_FAIL(MICA_E_UNSUPPORTED, "tokenizers of type %.80s are not supported yet", type);
    return MICA_OK;
}

/* Options that would change every id. */
static mica_status check_model_options(const mica__json *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *affix;
        MICA_TRY(mica__json_text(model, affixes[i], &affix));
        if (affix && affix[0])
            MICA_FAIL(MICA_E_UNSUPPORTED, "the BPE option %s (\"%.40s\") is not supported",
                      affixes[i], affix);
    }
    const mica__json *dropout = mica__json_get(model, "dropout");
    if (!absent(dropout) && dropout->number != 0)
        MICA_FAIL(MICA_E_UNSUPPORTED, "the BPE option dropout is not supported");
    return MICA_OK;
}

mica_status mica__json_apply_model(const mica__json *model, mica_tokenizer *t)
{
    MICA_TRY(check_model_options(model));
    bool fallback, ignore_merges;
    MICA_TRY(mica__json_bool(model, "fuse_unk", false, &t->bpe.fuse_unknown));
    MICA_TRY(mica__json_bool(model, "byte_fallback", false, &fallback));
    MICA_TRY(mica__json_bool(model, "ignore_merges", false, &ignore_merges));
    t->bpe.whole_word_first = ignore_merges;
    if (fallback && !t->bpe.of_bytes)
        MICA_TRY(mica__tokenizer_find_bytes(t, true));
    const char *unknown;
    MICA_TRY(mica__json_text(model, "unk_token", &unknown));
    if (unknown) {
        t->unk = mica__vocab_find(&t->vocab, unknown, (int64_t)strlen(unknown));
        if (t->unk < 0)
            MICA_FAIL(MICA_E_FORMAT, "the unknown token \"%.80s\" is not in the vocabulary",
                      unknown);
        t->vocab.kind[t->unk] = MICA_TOKEN_UNKNOWN;
        t->bpe.unknown = t->unk;
    }
    return MICA_OK;
}

/* --- added tokens ----------------------------------------------------------------------------- */

mica_status mica__json_added_flags(const mica__json *entry, mica__added_flags *flags)
{
    MICA_TRY(mica__json_bool(entry, "special", false, &flags->special));
    MICA_TRY(mica__json_bool(entry, "normalized", !flags->special, &flags->normalized));
    MICA_TRY(mica__json_bool(entry, "single_word", false, &flags->single_word));
    MICA_TRY(mica__json_bool(entry, "lstrip", false, &flags->lstrip));
    return mica__json_bool(entry, "rstrip", false, &flags->rstrip);
}

mica_status mica__json_apply_added(const mica__json *list, mica_tokenizer *t)
{
    if (absent(list))
        return MICA_OK;
    if (list->type != MICA__JSON_ARRAY)
        MICA_FAIL(MICA_E_FORMAT, "\"added_tokens\" is not a list");
    for (const mica__json *entry = list->first; entry; entry = entry->next) {
        const mica__json *id = mica__json_get(entry, "id");
        const mica__json *content = mica__json_get(entry, "content");
        if (!id || id->type != MICA__JSON_INTEGER || !content || content->type != MICA__JSON_STRING)
            MICA_FAIL(MICA_E_FORMAT, "an added token has no id or no content");
        mica__added_flags flags;
        MICA_TRY(mica__json_added_flags(entry, &flags));
        MICA_TRY(
            mica__tokenizer_put_added(t, id->integer, content->string, content->length, flags));
    }
    return MICA_OK;
}

/* --- patterns --------------------------------------------------------------------------------- */

/* {"String": text} or {"Regex": expression}. */
static mica_status read_pattern(const mica__json *step, mica__matcher *matcher)
{
    const mica__json *pattern = mica__json_get(step, "pattern");
    const char *text, *regex;
    MICA_TRY(mica__json_text(pattern, "String", &text));
    if (text)
        return mica__literal_pattern(text, (int64_t)strlen(text), matcher);
    MICA_TRY(mica__json_text(pattern, "Regex", &regex));
    if (!regex)
        MICA_FAIL(MICA_E_FORMAT, "a pattern is neither a String nor a Regex");
    return mica__regex_pattern(regex, matcher);
}

static mica_status read_behavior(const mica__json *step, mica__split fallback, mica__split *split)
{
    static const struct {
        const char *name;
        mica__split split;
    } names[] = {{"Isolated", MICA__SPLIT_ISOLATED},
                 {"Removed", MICA__SPLIT_REMOVED},
                 {"MergedWithPrevious", MICA__SPLIT_WITH_PREVIOUS},
                 {"MergedWithNext", MICA__SPLIT_WITH_NEXT},
                 {"Contiguous", MICA__SPLIT_CONTIGUOUS}};
    const char *name;
    MICA_TRY(mica__json_text(step, "behavior", &name));
    *split = fallback;
    if (!name)
        return MICA_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0) {
            *split = names[i].split;
            return MICA_OK;
        }
    return not_supported("split behavior", name);
}

/* --- pre-tokenizers --------------------------------------------------------------------------- */

typedef struct pre_reading {
    mica_tokenizer *t;
    bool spelled; /* a ByteLevel step came: what follows sees bytes as characters */
    bool added_spell;
} pre_reading;

static mica_status add_step(pre_reading *r, mica__step step)
{
    if (r->spelled && !r->added_spell) {
        r->added_spell = true;
        const mica_status status =
            mica__pretokenizer_add(&r->t->pre, (mica__step){.kind = MICA__STEP_SPELL});
        if (status != MICA_OK) {
            if (step.matcher.release)
                step.matcher.release((void *)(uintptr_t)step.matcher.pattern);
            return status;
        }
    }
    return mica__pretokenizer_add(&r->t->pre, step);
}

static mica_status add_split(const mica__json *step, pre_reading *r)
{
    mica__step made = {.kind = MICA__STEP_SPLIT};
    MICA_TRY(read_behavior(step, MICA__SPLIT_ISOLATED, &made.split));
    MICA_TRY(mica__json_bool(step, "invert", false, &made.invert));
    MICA_TRY(read_pattern(step, &made.matcher));
    return add_step(r, made);
}

static mica_status add_byte_level(const mica__json *step, pre_reading *r)
{
    bool space, regex;
    MICA_TRY(mica__json_bool(step, "add_prefix_space", true, &space));
    MICA_TRY(mica__json_bool(step, "use_regex", true, &regex));
    if (r->spelled)
        return not_supported("pre-tokenizer", "ByteLevel behind another ByteLevel");
    if (space)
        MICA_TRY(add_step(r, (mica__step){.kind = MICA__STEP_SPACE}));
    if (regex)
        MICA_TRY(
            add_step(r, (mica__step){.kind = MICA__STEP_SPLIT, .matcher = mica__gpt2_pattern()}));
    r->spelled = true;
    return MICA_OK;
}

static mica_status add_metaspace(const mica__json *step, pre_reading *r)
{
    mica__step made = {.kind = MICA__STEP_MARK_SPACES, .prepend = MICA__PREPEND_ALWAYS};
    const char *scheme, *mark;
    bool prefix, split;
    MICA_TRY(mica__json_text(step, "prepend_scheme", &scheme));
    MICA_TRY(mica__json_text(step, "replacement", &mark));
    MICA_TRY(mica__json_bool(step, "add_prefix_space", true, &prefix));
    MICA_TRY(mica__json_bool(step, "split", true, &split));
    if (scheme && strcmp(scheme, "first") == 0)
        made.prepend = MICA__PREPEND_FIRST;
    else if (scheme ? strcmp(scheme, "never") == 0 : !prefix)
        made.prepend = MICA__PREPEND_NEVER;
    else if (scheme && strcmp(scheme, "always") != 0)
        return not_supported("Metaspace prepend_scheme", scheme);
    if (mark && strcmp(mark, MICA__MARK_TEXT) != 0)
        return not_supported("Metaspace replacement", mark);
    memcpy(made.mark, MICA__MARK_TEXT, sizeof MICA__MARK_TEXT);
    MICA_TRY(add_step(r, made));
    if (!split)
        return MICA_OK;
    mica__step cut = {.kind = MICA__STEP_SPLIT, .split = MICA__SPLIT_WITH_NEXT};
    MICA_TRY(mica__literal_pattern(MICA__MARK_TEXT, 3, &cut.matcher));
    return add_step(r, cut);
}

static mica_status add_pre_tokenizer(const mica__json *step, const char *type, void *user)
{
    pre_reading *r = user;
    mica__step made = {.kind = MICA__STEP_SPLIT};
    if (strcmp(type, "Split") == 0)
        return add_split(step, r);
    if (strcmp(type, "ByteLevel") == 0)
        return add_byte_level(step, r);
    if (strcmp(type, "Metaspace") == 0)
        return add_metaspace(step, r);
    if (strcmp(type, "Digits") == 0) {
        bool individual;
        MICA_TRY(mica__json_bool(step, "individual_digits", false, &individual));
        made.matcher = mica__digit_pattern(individual);
        return add_step(r, made);
    }
    if (strcmp(type, "Punctuation") == 0) {
        MICA_TRY(read_behavior(step, MICA__SPLIT_ISOLATED, &made.split));
        made.matcher = mica__punctuation_pattern();
        return add_step(r, made);
    }
    if (strcmp(type, "WhitespaceSplit") == 0) {
        made.split = MICA__SPLIT_REMOVED;
        made.matcher = mica__whitespace_pattern();
        return add_step(r, made);
    }
    return not_supported("pre-tokenizer", type);
}

mica_status mica__json_apply_pre_tokenizer(const mica__json *pre, mica_tokenizer *t)
{
    pre_reading r = {.t = t};
    MICA_TRY(each_step(pre, "pre-tokenizer", "pretokenizers", 0, add_pre_tokenizer, &r));
    t->bpe.of_bytes = r.spelled;
    return MICA_OK;
}

/* --- normalizers ------------------------------------------------------------------------------ */

static mica_status add_replace(const mica__json *step, mica_tokenizer *t)
{
    const char *from, *regex, *to;
    const mica__json *pattern = mica__json_get(step, "pattern");
    MICA_TRY(mica__json_text(pattern, "String", &from));
    MICA_TRY(mica__json_text(pattern, "Regex", &regex));
    MICA_TRY(mica__json_text(step, "content", &to));
    if (regex)
        return not_supported("normalizer", "Replace with a Regex");
    if (!from || !to)
        MICA_FAIL(MICA_E_FORMAT, "a Replace normalizer has no pattern or no content");
    return mica__normalizer_add(&t->normalizer, MICA__NORMALIZER_REPLACE, from,
                                (int64_t)strlen(from), to, (int64_t)strlen(to));
}

static mica_status add_normalizer(const mica__json *step, const char *type, void *user)
{
    static const struct {
        const char *name;
        mica__normal_form form;
    } forms[] = {
        {"NFC", MICA__NFC}, {"NFD", MICA__NFD}, {"NFKC", MICA__NFKC}, {"NFKD", MICA__NFKD}};
    mica_tokenizer *t = user;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(type, forms[i].name) == 0)
            return mica__normalizer_add_form(&t->normalizer, forms[i].form);
    if (strcmp(type, "Replace") == 0)
        return add_replace(step, t);
    if (strcmp(type, "Prepend") == 0) {
        const char *text;
        MICA_TRY(mica__json_text(step, "prepend", &text));
        if (!text)
            MICA_FAIL(MICA_E_FORMAT, "a Prepend normalizer has no text");
        return mica__normalizer_add(&t->normalizer, MICA__NORMALIZER_PREPEND, "", 0, text,
                                    (int64_t)strlen(text));
    }
    return not_supported("normalizer", type);
}

mica_status mica__json_apply_normalizer(const mica__json *normalizer, mica_tokenizer *t)
{
    return each_step(normalizer, "normalizer", "normalizers", 0, add_normalizer, t);
}

/* --- decoders --------------------------------------------------------------------------------- */

typedef struct decoder_reading {
    mica_tokenizer *t;
    bool any, byte_level, marks;
} decoder_reading;

static mica_status add_metaspace_decoder(const mica__json *step, decoder_reading *r)
{
    const char *scheme;
    bool prefix;
    MICA_TRY(mica__json_text(step, "prepend_scheme", &scheme));
    MICA_TRY(mica__json_bool(step, "add_prefix_space", true, &prefix));
    r->marks = true;
    r->t->strips_space = scheme ? strcmp(scheme, "never") != 0 : prefix;
    return MICA_OK;
}

static mica_status add_replace_decoder(const mica__json *step, decoder_reading *r)
{
    const char *from, *to;
    MICA_TRY(mica__json_text(mica__json_get(step, "pattern"), "String", &from));
    MICA_TRY(mica__json_text(step, "content", &to));
    if (!from || !to || strcmp(from, MICA__MARK_TEXT) != 0 || strcmp(to, " ") != 0)
        return not_supported("decoder", "Replace of anything but the mark of a space");
    r->marks = true;
    return MICA_OK;
}

static mica_status add_strip_decoder(const mica__json *step, decoder_reading *r)
{
    const char *content;
    const mica__json *start = mica__json_get(step, "start");
    const mica__json *stop = mica__json_get(step, "stop");
    MICA_TRY(mica__json_text(step, "content", &content));
    if (!content || strcmp(content, " ") != 0 || !start || start->integer > 1 ||
        start->integer < 0 || (stop && stop->integer != 0))
        return not_supported("decoder", "Strip of anything but one space at the start");
    r->t->strips_space = start->integer == 1;
    return MICA_OK;
}

static mica_status add_decoder(const mica__json *step, const char *type, void *user)
{
    decoder_reading *r = user;
    r->any = true;
    if (strcmp(type, "ByteLevel") == 0) {
        r->byte_level = true;
        return MICA_OK;
    }
    if (strcmp(type, "ByteFallback") == 0 || strcmp(type, "Fuse") == 0)
        return MICA_OK;
    if (strcmp(type, "Metaspace") == 0)
        return add_metaspace_decoder(step, r);
    if (strcmp(type, "Replace") == 0)
        return add_replace_decoder(step, r);
    if (strcmp(type, "Strip") == 0)
        return add_strip_decoder(step, r);
    return not_supported("decoder", type);
}

mica_status mica__json_apply_decoder(const mica__json *decoder, mica_tokenizer *t)
{
    decoder_reading r = {.t = t};
    MICA_TRY(each_step(decoder, "decoder", "decoders", 0, add_decoder, &r));
    if (r.any && r.byte_level != t->bpe.of_bytes)
        MICA_FAIL(MICA_E_UNSUPPORTED, "tokenizer.json has a ByteLevel %s without a ByteLevel %s",
                  r.byte_level ? "decoder" : "pre-tokenizer",
                  r.byte_level ? "pre-tokenizer" : "decoder");
    t->spelling = t->bpe.of_bytes ? MICA__SPELLING_BYTES : MICA__SPELLING_MARKED;
    return MICA_OK;
}

/* --- post-processors -------------------------------------------------------------------------- */

typedef struct post_reading {
    mica_tokenizer *t;
    bool has_template;
} post_reading;

static mica_status add_around(mica_tokenizer *t, bool before, int64_t id)
{
    int *n = before ? &t->n_before : &t->n_after;
    if (id < 0 || id >= t->vocab.n)
        MICA_FAIL(MICA_E_FORMAT, "the post-processor names id %lld, outside the vocabulary of %lld",
                  (long long)id, (long long)t->vocab.n);
    if (*n == MICA__MAX_TEMPLATE_IDS)
        MICA_FAIL(MICA_E_UNSUPPORTED, "the post-processor puts over %d tokens around a text",
                  MICA__MAX_TEMPLATE_IDS);
    (before ? t->before : t->after)[(*n)++] = (int32_t)id;
    return MICA_OK;
}

/* The ids that a template's special token stands for. */
static mica_status add_template_token(const mica__json *template, const char *name, bool before,
                                      mica_tokenizer *t)
{
    const mica__json *entry = mica__json_get(mica__json_get(template, "special_tokens"), name);
    const mica__json *ids = mica__json_get(entry, "ids");
    if (!ids || ids->type != MICA__JSON_ARRAY)
        MICA_FAIL(MICA_E_FORMAT, "the post-processor's token \"%.80s\" has no ids", name);
    for (const mica__json *id = ids->first; id; id = id->next) {
        if (id->type != MICA__JSON_INTEGER)
            MICA_FAIL(MICA_E_FORMAT, "the post-processor's token \"%.80s\" has no ids", name);
        MICA_TRY(add_around(t, before, id->integer));
    }
    return MICA_OK;
}

static mica_status add_template(const mica__json *template, post_reading *r)
{
    const mica__json *single = mica__json_get(template, "single");
    if (!single || single->type != MICA__JSON_ARRAY)
        MICA_FAIL(MICA_E_FORMAT, "a TemplateProcessing has no template \"single\"");
    if (single->n > 4 * MICA__MAX_TEMPLATE_IDS)
        MICA_FAIL(MICA_E_UNSUPPORTED, "a template of %lld parts", (long long)single->n);
    bool before = true;
    for (const mica__json *item = single->first; item; item = item->next) {
        const mica__json *token = mica__json_get(item, "SpecialToken");
        if (!token) {
            before = false;
            continue;
        }
        const char *name;
        MICA_TRY(mica__json_text(token, "id", &name));
        if (!name)
            MICA_FAIL(MICA_E_FORMAT, "a special token of the post-processor has no id");
        MICA_TRY(add_template_token(template, name, before, r->t));
    }
    r->has_template = true;
    return MICA_OK;
}

/* RoBERTa's and BERT's: ["<s>", 0] before and ["</s>", 2] after. */
static mica_status add_pair(const mica__json *processor, const char *key, bool before,
                            mica_tokenizer *t)
{
    const mica__json *pair = mica__json_get(processor, key);
    const mica__json *id = pair && pair->first ? pair->first->next : NULL;
    if (!id || id->type != MICA__JSON_INTEGER)
        MICA_FAIL(MICA_E_FORMAT, "the post-processor has no \"%s\"", key);
    return add_around(t, before, id->integer);
}

static mica_status add_post_processor(const mica__json *step, const char *type, void *user)
{
    post_reading *r = user;
    if (strcmp(type, "ByteLevel") == 0)
        return MICA_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return add_template(step, r);
    if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        r->has_template = true;
        MICA_TRY(add_pair(step, "cls", true, r->t));
        return add_pair(step, "sep", false, r->t);
    }
    return not_supported("post-processor", type);
}

mica_status mica__json_apply_post_processor(const mica__json *processor, mica_tokenizer *t,
                                            bool *has_template)
{
    post_reading r = {.t = t};
    MICA_TRY(each_step(processor, "post-processor", "processors", 0, add_post_processor, &r));
    *has_template = r.has_template;
    return MICA_OK;
}
