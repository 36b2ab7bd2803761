/* tokenizer_build.c - putting a tokenizer together from what a loader found.
 *
 * The loaders differ in formats only; what must hold for every tokenizer (ids in range, merges of
 * known tokens, byte tokens that are bytes, special tokens that can be found) is made and checked
 * here.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "base/half.h"
#include "text/byte_spelling.h"
#include "text/tokenizer_parts.h"

mica_status mica__tokenizer_new(mica_tokenizer **out)
{
    mica_tokenizer *t = mica__alloc_zero(MICA_MEMORY_TEXT, 1, sizeof *t);
    if (!t)
        return MICA_E_MEMORY;
    t->bos = t->eos = t->eot = t->unk = t->pad = -1;
    t->bpe.unknown = -1;
    for (int i = 0; i < 256; i++)
        t->bpe.byte_id[i] = -1;
    t->bpe.vocab = &t->vocab;
    *out = t;
    return MICA_OK;
}

void mica_tokenizer_free(mica_tokenizer *t)
{
    if (!t)
        return;
    mica__vocab_free(&t->vocab);
    mica__pairs_free(&t->bpe.pairs);
    mica__free(t->bpe.neighbours);
    mica__normalizer_free(&t->normalizer);
    mica__pretokenizer_free(&t->pre);
    mica__free(t->added);
    mica__free(t->added_at);
    mica__added_set_free(&t->raw);
    mica__added_set_free(&t->normalized);
    mica__free(t->ends);
    for (int64_t i = 0; i < t->n_templates; i++) {
        mica__free(t->templates[i].name);
        mica__free(t->templates[i].text);
    }
    mica__free(t->templates);
    mica__free(t);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static mica_status put_known(mica_tokenizer *t, int32_t id, const char *text, int64_t n,
                             mica_token_kind kind)
{
    const mica__vocab *v = &t->vocab;
    if (v->text[id].length != n || memcmp(mica__vocab_text(v, id), text, (size_t)n) != 0)
        MICA_FAIL(MICA_E_FORMAT,
                  "id %d is \"%.80s\" in the vocabulary and \"%.*s\" as an added token", (int)id,
                  mica__vocab_text(v, id), (int)(n < 80 ? n : 80), text);
    t->vocab.kind[id] = (uint8_t)kind;
    return MICA_OK;
}

mica_status mica__tokenizer_put_added(mica_tokenizer *t, int64_t id, const char *text, int64_t n,
                                      mica__added_flags flags)
{
    const mica_token_kind kind = flags.special ? MICA_TOKEN_CONTROL : MICA_TOKEN_ADDED;
    if (id >= 0 && id < t->vocab.n && t->vocab.kind[id] != MICA_TOKEN_NONE)
        MICA_TRY(put_known(t, (int32_t)id, text, n, kind));
    else
        MICA_TRY(mica__vocab_set(&t->vocab, id, text, n, kind, MICA__NO_RANK));
    const mica__added item = {.id = (int32_t)id,
                              .special = flags.special,
                              .normalized = flags.normalized,
                              .single_word = flags.single_word,
                              .lstrip = flags.lstrip,
                              .rstrip = flags.rstrip};
    return mica__tokenizer_note_added(t, item);
}

bool mica__tokenizer_is_added(const mica_tokenizer *t, int32_t id)
{
    return id < t->n_added_at && t->added_at[id] >= 0;
}

mica_status mica__tokenizer_note_added(mica_tokenizer *t, mica__added item)
{
    if (mica__tokenizer_is_added(t, item.id)) {
        t->added[t->added_at[item.id]] = item;
        return MICA_OK;
    }
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&t->added_at, sizeof *t->added_at,
                        (int64_t)item.id + 1, &t->added_at_capacity));
    while (t->n_added_at <= item.id)
        t->added_at[t->n_added_at++] = -1;
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&t->added, sizeof *t->added, t->n_added + 1,
                        &t->added_capacity));
    t->added_at[item.id] = (int32_t)t->n_added;
    t->added[t->n_added++] = item;
    return MICA_OK;
}

mica_status mica__tokenizer_index(mica_tokenizer *t)
{
    if (t->vocab.n == 0)
        MICA_FAIL(MICA_E_FORMAT, "the vocabulary is empty");
    return mica__vocab_index(&t->vocab);
}

/* --- merges ----------------------------------------------------------------------------------- */

mica_status mica__tokenizer_merges(mica_tokenizer *t, int64_t n)
{
    if (n > 4 * MICA__MAX_TOKENS)
        MICA_FAIL(MICA_E_FORMAT, "%lld merges (at most %d are accepted)", (long long)n,
                  4 * MICA__MAX_TOKENS);
    return mica__pairs_init(&t->bpe.pairs, n);
}

static mica_status merge_part(const mica_tokenizer *t, const char *text, int64_t n, uint32_t rank,
                              uint32_t *id)
{
    const int32_t found = mica__vocab_find(&t->vocab, text, n);
    if (found < 0)
        MICA_FAIL(MICA_E_FORMAT, "merge %u names \"%.*s\", which is not in the vocabulary",
                  (unsigned)rank, (int)(n < 80 ? n : 80), text);
    *id = (uint32_t)found;
    return MICA_OK;
}

mica_status mica__tokenizer_merge(mica_tokenizer *t, const char *left, int64_t left_n,
                                  const char *right, int64_t right_n, uint32_t rank)
{
    mica__pair pair = {.rank = rank};
    MICA_TRY(merge_part(t, left, left_n, rank, &pair.left));
    MICA_TRY(merge_part(t, right, right_n, rank, &pair.right));
    char together[512];
    char *joined = together;
    if (left_n + right_n > (int64_t)sizeof together &&
        !(joined = mica__alloc(MICA_MEMORY_TEXT, (size_t)(left_n + right_n))))
        return MICA_E_MEMORY;
    memcpy(joined, left, (size_t)left_n);
    memcpy(joined + left_n, right, (size_t)right_n);
    mica_status status = merge_part(t, joined, left_n + right_n, rank, &pair.merged);
    if (joined != together)
        mica__free(joined);
    if (status == MICA_OK)
        status = mica__pairs_set(&t->bpe.pairs, pair);
    return status;
}

mica_status mica__tokenizer_merge_line(mica_tokenizer *t, const char *line, int64_t n,
                                       uint32_t rank)
{
    const char *space = n > 1 ? memchr(line + 1, ' ', (size_t)n - 1) : NULL;
    if (!space || space + 1 == line + n)
        MICA_FAIL(MICA_E_FORMAT, "merge %u is \"%.*s\", not two tokens and a space between",
                  (unsigned)rank, (int)(n < 80 ? n : 80), line);
    return mica__tokenizer_merge(t, line, space - line, space + 1, line + n - (space + 1), rank);
}

mica_status mica__score_rank(float score, uint32_t *rank)
{
    if (score != score)
        MICA_FAIL(MICA_E_FORMAT, "a token's score is not a number");
    if (score == 0.0f)
        score = 0.0f; /* minus zero too */
    const uint32_t bits = mica__f32_bits(score);
    const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    *rank = ~ascending; /* NaN is out, so never MICA__NO_RANK: that would need bits 0xffffffff */
    return MICA_OK;
}

/* --- SentencePiece ---------------------------------------------------------------------------- */

mica_status mica__tokenizer_set_sentencepiece(mica_tokenizer *t, mica__sentencepiece options)
{
    const char *mark = MICA__MARK_TEXT;
    const char *space = options.escape_spaces ? mark : " ";
    const int64_t space_n = options.escape_spaces ? 3 : 1;
    if (options.remove_extra_spaces)
        MICA_TRY(mica__normalizer_add(&t->normalizer, MICA__NORMALIZER_COLLAPSE, "", 0, "", 0));
    if (options.dummy_prefix)
        MICA_TRY(mica__normalizer_add(&t->normalizer,
                                      options.prefix_first_only ? MICA__NORMALIZER_PREPEND_FIRST
                                                                : MICA__NORMALIZER_PREPEND,
                                      "", 0, space, space_n));
    if (options.escape_spaces)
        MICA_TRY(mica__normalizer_add(&t->normalizer, MICA__NORMALIZER_REPLACE, " ", 1, mark, 3));
    t->spelling = MICA__SPELLING_MARKED;
    t->strips_space = options.dummy_prefix;
    t->bpe.by_text = true;
    t->bpe.of_bytes = false;
    t->bpe.fuse_unknown = true;
    return MICA_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "<0x41>" spells, or -1. */
static int byte_of(const char *text, int64_t n)
{
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

mica_status mica__tokenizer_find_bytes(mica_tokenizer *t, bool by_text)
{
    mica__vocab *v = &t->vocab;
    bool any = false;
    for (int32_t id = 0; id < v->n; id++) {
        const bool typed = v->kind[id] == MICA_TOKEN_BYTE;
        if (!typed && !(by_text && v->kind[id] == MICA_TOKEN_NORMAL))
            continue;
        const int byte = byte_of(mica__vocab_text(v, id), v->text[id].length);
        if (typed && byte < 0)
            MICA_FAIL(MICA_E_FORMAT, "byte token %d is \"%.40s\", not of the form <0x41>", (int)id,
                      mica__vocab_text(v, id));
        if (byte < 0 || (by_text && t->bpe.byte_id[byte] >= 0))
            continue;
        if (t->bpe.byte_id[byte] >= 0)
            MICA_FAIL(MICA_E_FORMAT, "tokens %d and %d are both byte %d", (int)t->bpe.byte_id[byte],
                      (int)id, byte);
        t->bpe.byte_id[byte] = id;
        v->kind[id] = MICA_TOKEN_BYTE;
        any = true;
    }
    t->bpe.byte_fallback = any;
    return MICA_OK;
}

/* --- roles ------------------------------------------------------------------------------------ */

mica_status mica__tokenizer_add_end(mica_tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->vocab.n)
        MICA_FAIL(MICA_E_FORMAT, "end token %d is outside the vocabulary of %lld", (int)id,
                  (long long)t->vocab.n);
    for (int64_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id)
            return MICA_OK;
    if (t->n_ends == MICA__MAX_ENDS)
        MICA_FAIL(MICA_E_FORMAT, "more than %d tokens end an answer", MICA__MAX_ENDS);
    MICA_TRY(mica__grow(MICA_MEMORY_TEXT, (void **)&t->ends, sizeof *t->ends, t->n_ends + 1,
                        &t->ends_capacity));
    t->ends[t->n_ends++] = id;
    return MICA_OK;
}

mica_status mica__tokenizer_add_template(mica_tokenizer *t, const char *name, int64_t name_n,
                                         const char *text, int64_t n)
{
    mica__chat_template made = {mica__strndup(MICA_MEMORY_TEXT, name, (size_t)name_n),
                                mica__strndup(MICA_MEMORY_TEXT, text, (size_t)n)};
    mica_status status = made.name && made.text ? MICA_OK : MICA_E_MEMORY;
    for (int64_t i = 0; status == MICA_OK && i < t->n_templates; i++)
        if (strcmp(t->templates[i].name, made.name) == 0) {
            mica__free(t->templates[i].name);
            mica__free(t->templates[i].text);
            t->templates[i] = made;
            return MICA_OK;
        }
    if (status == MICA_OK && t->n_templates == MICA__MAX_TEMPLATES)
        status = mica__fail(MICA_E_FORMAT, "more than %d chat templates", MICA__MAX_TEMPLATES);
    if (status == MICA_OK)
        status = mica__grow(MICA_MEMORY_TEXT, (void **)&t->templates, sizeof *t->templates,
                            t->n_templates + 1, &t->templates_capacity);
    if (status == MICA_OK) {
        t->templates[t->n_templates++] = made;
        return MICA_OK;
    }
    mica__free(made.name);
    mica__free(made.text);
    return status;
}

void mica__tokenizer_add_flags(mica_tokenizer *t, int add_bos, int add_eos)
{
    if (add_bos >= 0) {
        t->n_before = add_bos && t->bos >= 0;
        t->before[0] = t->bos;
    }
    if (add_eos >= 0) {
        t->n_after = add_eos && t->eos >= 0;
        t->after[0] = t->eos;
    }
}

/* --- finishing -------------------------------------------------------------------------------- */

/* What each token stands for. */
static mica_status derive_marked(mica_tokenizer *t, int32_t id, char *buffer)
{
    const char *text = mica__vocab_text(&t->vocab, id);
    const int64_t n = t->vocab.text[id].length;
    if (t->vocab.kind[id] == MICA_TOKEN_BYTE) {
        buffer[0] = (char)byte_of(text, n);
        return mica__vocab_set_bytes(&t->vocab, id, buffer, 1);
    }
    if (t->vocab.kind[id] == MICA_TOKEN_CONTROL || !memmem(text, (size_t)n, MICA__MARK_TEXT, 3))
        return MICA_OK;
    int64_t length = 0;
    for (int64_t at = 0; at < n;) {
        const bool mark = n - at >= 3 && memcmp(text + at, MICA__MARK_TEXT, 3) == 0;
        buffer[length++] = mark ? ' ' : text[at];
        at += mark ? 3 : 1;
    }
    return mica__vocab_set_bytes(&t->vocab, id, buffer, length);
}

static mica_status derive_bytes(mica_tokenizer *t)
{
    if (t->spelling == MICA__SPELLING_PLAIN)
        return MICA_OK;
    char *buffer = mica__alloc(MICA_MEMORY_TEXT, MICA__MAX_TOKEN_BYTES);
    if (!buffer)
        return MICA_E_MEMORY;
    mica_status status = MICA_OK;
    for (int32_t id = 0; id < t->vocab.n && status == MICA_OK; id++) {
        int64_t n;
        if (t->vocab.kind[id] == MICA_TOKEN_NONE)
            continue;
        if (t->spelling == MICA__SPELLING_MARKED)
            status = derive_marked(t, id, buffer);
        else if (mica__unspell_bytes(mica__vocab_text(&t->vocab, id), t->vocab.text[id].length,
                                     buffer, &n))
            status = mica__vocab_set_bytes(&t->vocab, id, buffer, n);
    }
    mica__free(buffer);
    return status;
}

/* In byte-level vocabularies: the token of each single byte. */
static void find_single_bytes(mica_tokenizer *t)
{
    for (int byte = 0; byte < 256; byte++) {
        const char plain = (char)byte;
        char spelled[2];
        const int64_t n =
            t->bpe.spelled ? mica__spell_bytes(&plain, 1, spelled) : (spelled[0] = plain, 1);
        t->bpe.byte_id[byte] = mica__vocab_find(&t->vocab, spelled, n);
    }
}

/* The bytes that tokens have before a mark inside them: only there can a merge cross to a mark. */
static void note_marks(const mica__vocab *v, int32_t id, bool *joins_mark)
{
    const char *text = mica__vocab_text(v, id);
    const int64_t n = v->text[id].length;
    for (int64_t at = 1; at + 3 <= n; at++)
        if (memcmp(text + at, MICA__MARK_TEXT, 3) == 0 &&
            (at < 3 || memcmp(text + at - 3, MICA__MARK_TEXT, 3) != 0))
            joins_mark[(uint8_t)text[at - 1]] = true;
}

static void note_neighbours(mica_tokenizer *t, const char *bytes, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const uint8_t a = (uint8_t)bytes[i - 1], b = (uint8_t)bytes[i];
        t->bpe.neighbours[a * 8 + b / 32] |= 1u << (b & 31);
    }
}

/* Merging of words may be parted where no token crosses, unless what it yields depends on more than
 * the part: unknown tokens that fuse, unused ones that are split where they were joined last. */
static mica_status start_neighbours(mica_tokenizer *t)
{
    if (t->bpe.has_unused || (!t->bpe.of_bytes && !t->bpe.byte_fallback))
        return MICA_OK;
    t->bpe.neighbours = mica__alloc_zero(MICA_MEMORY_TEXT, 2048, sizeof *t->bpe.neighbours);
    if (!t->bpe.neighbours)
        return MICA_E_MEMORY;
    /* Inside a character nothing parts: a lead byte or a continuation byte before another. */
    for (int a = 0x80; a < 0x100 && !t->bpe.of_bytes; a++)
        t->bpe.neighbours[a * 8 + 4] = t->bpe.neighbours[a * 8 + 5] = UINT32_MAX;
    return MICA_OK;
}

/* Whether merging can make this token; in merge lists any may be a result. */
static bool may_result(const mica_tokenizer *t, int32_t id)
{
    return t->vocab.kind[id] != MICA_TOKEN_NONE &&
           (!t->bpe.by_text || t->vocab.rank[id] != MICA__NO_RANK);
}

/* What holds for all tokens that merging can make. Their bytes are known. */
static mica_status study_tokens(mica_tokenizer *t)
{
    const mica__vocab *v = &t->vocab;
    for (int32_t id = 0; id < v->n && t->bpe.by_text; id++)
        t->bpe.has_unused |= may_result(t, id) && v->kind[id] == MICA_TOKEN_UNUSED;
    MICA_TRY(start_neighbours(t));
    t->splits_at_marks = !t->bpe.of_bytes && !t->bpe.has_unused && !t->bpe.whole_word_first;
    const mica__piece *pieces = t->bpe.of_bytes ? v->bytes : v->text;
    for (int32_t id = 0; id < v->n; id++) {
        if (!may_result(t, id))
            continue;
        if (t->splits_at_marks)
            note_marks(v, id, t->joins_mark);
        if (t->bpe.neighbours)
            note_neighbours(t, v->pool + pieces[id].at, pieces[id].length);
    }
    return MICA_OK;
}

/* An end token that text could spell is special, whatever its file says. */
static void make_roles_special(mica_tokenizer *t)
{
    for (int64_t i = 0; i < t->n_added; i++) {
        mica__added *item = &t->added[i];
        bool role = item->id == t->bos || item->id == t->eos || item->id == t->eot;
        for (int64_t k = 0; k < t->n_ends; k++)
            role |= item->id == t->ends[k];
        if (role) {
            item->special = true;
            t->vocab.kind[item->id] = MICA_TOKEN_CONTROL;
        }
    }
}

/* No merging makes a special token: text that spells one and is not parsed for it stays text, also
 * in a vocabulary that was trained on such text and has merges for it. */
static void keep_special_from_merges(mica_tokenizer *t)
{
    const mica__vocab *v = &t->vocab;
    mica__pairs *pairs = &t->bpe.pairs;
    for (int64_t id = 0; id < v->n; id++)
        if (mica_tokenizer_token_is_special(t, (int32_t)id))
            v->rank[id] = MICA__NO_RANK;
    for (int64_t i = 0; pairs->slots && i <= pairs->mask; i++) {
        mica__pair *pair = &pairs->slots[i];
        if (pair->left != UINT32_MAX && mica_tokenizer_token_is_special(t, (int32_t)pair->merged))
            pair->rank = MICA__NO_RANK;
    }
}

/* The text an added token is found by; normalised ones lie in the buffers. */
static mica_status added_text(const mica_tokenizer *t, const mica__added *item,
                              mica__text buffers[2], const char **text, int64_t *n)
{
    *text = mica__vocab_text(&t->vocab, item->id);
    *n = t->vocab.text[item->id].length;
    if (!item->normalized)
        return MICA_OK;
    return mica__normalizer_run(&t->normalizer, *text, *n, false, false, buffers, text, n);
}

/* Measures both sets on the first round and fills them on the second. */
static mica_status build_added(mica_tokenizer *t)
{
    mica__added_set *sets[2] = {&t->raw, &t->normalized};
    int64_t n[2] = {0, 0}, bytes[2] = {0, 0};
    mica__text buffers[2] = {{.kind = MICA_MEMORY_TEXT}, {.kind = MICA_MEMORY_TEXT}};
    mica_status status = MICA_OK;
    for (int round = 0; round < 2 && status == MICA_OK; round++) {
        for (int64_t i = 0; i < t->n_added && status == MICA_OK; i++) {
            const mica__added *item = &t->added[i];
            const char *text;
            int64_t length;
            status = added_text(t, item, buffers, &text, &length);
            if (round == 1 && status == MICA_OK)
                status = mica__added_set_put(sets[item->normalized], *item, text, length);
            n[item->normalized]++;
            bytes[item->normalized] += length;
        }
        for (int k = 0; round == 0 && k < 2 && status == MICA_OK; k++)
            status = mica__added_set_init(sets[k], n[k], bytes[k]);
    }
    mica__text_free(&buffers[0]);
    mica__text_free(&buffers[1]);
    return status;
}

/* Tokens that end a turn in the templates of known families. */
static const char *const turn_ends[] = {
    "<|im_end|>",      "<|eot_id|>",
    "<|eom_id|>",      "<end_of_turn>",
    "<|end|>",         "<|END_OF_TURN_TOKEN|>",
    "<|eot|>",         "<|endoftext|>",
    "<|end_of_text|>", "<|return|>",
    "<|call|>",        "<end_of_utterance>",
    "<|end_of_turn|>", "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>"};

static mica_status find_turn_ends(mica_tokenizer *t)
{
    const char *chat = mica_tokenizer_chat_template(t, NULL);
    for (size_t i = 0; chat && i < sizeof turn_ends / sizeof turn_ends[0]; i++) {
        const int32_t id = mica__vocab_find(&t->vocab, turn_ends[i], (int64_t)strlen(turn_ends[i]));
        if (id < 0 || t->vocab.kind[id] != MICA_TOKEN_CONTROL || !strstr(chat, turn_ends[i]))
            continue;
        if (t->eot < 0)
            t->eot = id;
        MICA_TRY(mica__tokenizer_add_end(t, id));
    }
    return MICA_OK;
}

static mica_status check_roles(const mica_tokenizer *t)
{
    const struct {
        const char *name;
        int32_t id;
    } roles[] = {{"begin", t->bos},
                 {"end", t->eos},
                 {"end of turn", t->eot},
                 {"unknown", t->unk},
                 {"padding", t->pad}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (roles[i].id >= t->vocab.n || roles[i].id < -1)
            MICA_FAIL(MICA_E_FORMAT, "the %s token is %d, outside the vocabulary of %lld",
                      roles[i].name, (int)roles[i].id, (long long)t->vocab.n);
    return MICA_OK;
}

/* Ids that encoding writes by itself must be tokens: a vocabulary may leave ids out. */
static mica_status check_written(const mica_tokenizer *t)
{
    for (int i = 0; i < t->n_before + t->n_after; i++) {
        const int32_t id = i < t->n_before ? t->before[i] : t->after[i - t->n_before];
        if (t->vocab.kind[id] == MICA_TOKEN_NONE)
            MICA_FAIL(MICA_E_FORMAT,
                      "id %d is put around texts, and the vocabulary has no such token", (int)id);
    }
    if (t->unk >= 0 && t->vocab.kind[t->unk] == MICA_TOKEN_NONE)
        MICA_FAIL(MICA_E_FORMAT, "the unknown token is %d, and the vocabulary has no such token",
                  (int)t->unk);
    return MICA_OK;
}

mica_status mica__tokenizer_finish(mica_tokenizer *t)
{
    MICA_TRY(check_roles(t));
    MICA_TRY(check_written(t));
    if (t->bos < 0 && t->n_before > 0)
        t->bos = t->before[0];
    if (t->eos >= 0)
        MICA_TRY(mica__tokenizer_add_end(t, t->eos));
    if (t->eot >= 0)
        MICA_TRY(mica__tokenizer_add_end(t, t->eot));
    MICA_TRY(find_turn_ends(t));
    make_roles_special(t);
    keep_special_from_merges(t);
    t->bpe.spelled = t->bpe.of_bytes && t->spelling == MICA__SPELLING_BYTES;
    if (t->bpe.of_bytes)
        find_single_bytes(t);
    MICA_TRY(derive_bytes(t));
    MICA_TRY(study_tokens(t));
    return build_added(t);
}
