/* tokenizer_presets.c - what an encoding's files do not say: patterns and special tokens by name.
 *
 * Three lists: the published encodings (tiktoken files, vocab + merges), the tokenizer classes of
 * tokenizer_config.json that mean one of them, and the pre-tokenizers of GGUF.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "text/pattern_texts.h"
#include "text/tokenizer_parts.h"

/* --- encodings -------------------------------------------------------------------------------- */

typedef struct special {
    const char *text;
    int32_t id;
} special;

struct mica__preset {
    const char *name;
    const char *regex;
    const special *specials;                              /* ends with a NULL text */
    mica_status (*put)(mica_tokenizer *t, int32_t first); /* specials that follow the ranks */
    int32_t n_ranks; /* special ids hold for a file of this many ranks only; 0: any, put() is given
                      * the first free id */
    bool nfc;
    const char *begin, *end; /* roles among the special tokens, or NULL */
};

static const special gpt2_specials[] = {{"<|endoftext|>", 50256}, {NULL, 0}};
static const special p50k_edit_specials[] = {{"<|endoftext|>", 50256},
                                             {"<|fim_prefix|>", 50281},
                                             {"<|fim_middle|>", 50282},
                                             {"<|fim_suffix|>", 50283},
                                             {NULL, 0}};
static const special cl100k_specials[] = {{"<|endoftext|>", 100257},   {"<|fim_prefix|>", 100258},
                                          {"<|fim_middle|>", 100259},  {"<|fim_suffix|>", 100260},
                                          {"<|endofprompt|>", 100276}, {NULL, 0}};
static const special o200k_specials[] = {
    {"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}, {NULL, 0}};
static const special harmony_specials[] = {{"<|startoftext|>", 199998},
                                           {"<|endoftext|>", 199999},
                                           {"<|return|>", 200002},
                                           {"<|constrain|>", 200003},
                                           {"<|channel|>", 200005},
                                           {"<|start|>", 200006},
                                           {"<|end|>", 200007},
                                           {"<|message|>", 200008},
                                           {"<|call|>", 200012},
                                           {"<|endofprompt|>", 200018},
                                           {NULL, 0}};

/* Whether the vocabulary has this text under this id. */
static bool is_text(const mica_tokenizer *t, int64_t id, const char *text)
{
    return id < t->vocab.n && t->vocab.kind[id] != MICA_TOKEN_NONE &&
           t->vocab.text[id].length == strlen(text) &&
           memcmp(mica__vocab_text(&t->vocab, (int32_t)id), text, strlen(text)) == 0;
}

static mica_status put_special(mica_tokenizer *t, int64_t id, const char *text)
{
    if (id < t->vocab.n && t->vocab.kind[id] != MICA_TOKEN_NONE && !is_text(t, id, text))
        return MICA_OK; /* the model's own files say more about it */
    return mica__tokenizer_put_added(t, id, text, (int64_t)strlen(text),
                                     (mica__added_flags){.special = true});
}

static mica_status put_list(mica_tokenizer *t, int32_t first, const char *const *texts)
{
    for (int32_t i = 0; texts[i]; i++)
        MICA_TRY(put_special(t, first + i, texts[i]));
    return MICA_OK;
}

static mica_status put_chatml(mica_tokenizer *t, int32_t first)
{
    static const char *const texts[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", NULL};
    return put_list(t, first, texts);
}

static mica_status put_qwen(mica_tokenizer *t, int32_t first)
{
    MICA_TRY(put_chatml(t, first));
    for (int i = 0; i < 205; i++) {
        char text[32];
        snprintf(text, sizeof text, "<|extra_%d|>", i);
        MICA_TRY(put_special(t, first + 3 + i, text));
    }
    return MICA_OK;
}

/* 256 tokens: named ones at their places, reserved ones numbered in between. */
static mica_status put_llama3_names(mica_tokenizer *t, int32_t first, const special *names)
{
    int reserved = 0;
    for (int32_t i = 0; i < 256; i++) {
        char text[48];
        snprintf(text, sizeof text, "<|reserved_special_token_%d|>", reserved);
        const char *name = text;
        for (const special *s = names; s->text; s++)
            if (s->id == i)
                name = s->text;
        reserved += name == text;
        MICA_TRY(put_special(t, first + i, name));
    }
    return MICA_OK;
}

static mica_status put_llama3(mica_tokenizer *t, int32_t first)
{
    static const special names[] = {{"<|begin_of_text|>", 0},   {"<|end_of_text|>", 1},
                                    {"<|start_header_id|>", 6}, {"<|end_header_id|>", 7},
                                    {"<|eot_id|>", 9},          {NULL, 0}};
    return put_llama3_names(t, first, names);
}

static mica_status put_llama31(mica_tokenizer *t, int32_t first)
{
    static const special names[] = {
        {"<|begin_of_text|>", 0},   {"<|end_of_text|>", 1},   {"<|finetune_right_pad_id|>", 4},
        {"<|start_header_id|>", 6}, {"<|end_header_id|>", 7}, {"<|eom_id|>", 8},
        {"<|eot_id|>", 9},          {"<|python_tag|>", 10},   {NULL, 0}};
    return put_llama3_names(t, first, names);
}

/* Language codes in the order of the model's ids; version 3 has the last one too. */
static const char whisper_languages[] =
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th "
    "ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr "
    "pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt "
    "haw ln ha ba jw su yue";

static mica_status put_whisper_with(mica_tokenizer *t, int32_t first, int n_languages)
{
    static const char *const tasks[] = {"<|translate|>",
                                        "<|transcribe|>",
                                        "<|startoflm|>",
                                        "<|startofprev|>",
                                        "<|nospeech|>",
                                        "<|notimestamps|>",
                                        NULL};
    int32_t id = first;
    char text[32];
    MICA_TRY(put_special(t, id++, "<|endoftext|>"));
    MICA_TRY(put_special(t, id++, "<|startoftranscript|>"));
    const char *code = whisper_languages;
    for (int i = 0; i < n_languages; i++) {
        const int n = (int)strcspn(code, " ");
        snprintf(text, sizeof text, "<|%.*s|>", n, code);
        MICA_TRY(put_special(t, id++, text));
        code += n + (code[n] == ' ');
    }
    MICA_TRY(put_list(t, id, tasks));
    id += 6;
    for (int i = 0; i <= 1500; i++) { /* steps of 0.02 seconds */
        snprintf(text, sizeof text, "<|%d.%02d|>", i / 50, i % 50 * 2);
        MICA_TRY(put_special(t, id++, text));
    }
    return MICA_OK;
}

static mica_status put_whisper(mica_tokenizer *t, int32_t first)
{
    return put_whisper_with(t, first, 99);
}

static mica_status put_whisper3(mica_tokenizer *t, int32_t first)
{
    return put_whisper_with(t, first, 100);
}

#define EOT "<|endoftext|>"
static const mica__preset presets[] = {
    {"gpt2", MICA__RE_GPT2, gpt2_specials, NULL, 50256, false, EOT, EOT},
    {"r50k_base", MICA__RE_GPT2, gpt2_specials, NULL, 50256, false, NULL, EOT},
    {"p50k_base", MICA__RE_GPT2, gpt2_specials, NULL, 50280, false, NULL, EOT},
    {"p50k_edit", MICA__RE_GPT2, p50k_edit_specials, NULL, 50280, false, NULL, EOT},
    {"cl100k_base", MICA__RE_LLAMA3, cl100k_specials, NULL, 100256, false, NULL, EOT},
    {"o200k_base", MICA__RE_O200K, o200k_specials, NULL, 199998, false, NULL, EOT},
    {"o200k_harmony", MICA__RE_O200K, harmony_specials, NULL, 199998, false, "<|startoftext|>",
     "<|return|>"},
    {"llama3", MICA__RE_LLAMA3, NULL, put_llama3, 128000, false, "<|begin_of_text|>",
     "<|end_of_text|>"},
    {"llama3.1", MICA__RE_LLAMA3, NULL, put_llama31, 128000, false, "<|begin_of_text|>",
     "<|end_of_text|>"},
    {"qwen", MICA__RE_QWEN2, NULL, put_qwen, 151643, true, NULL, EOT},
    {"qwen2", MICA__RE_QWEN2, NULL, put_chatml, 0, true, NULL, EOT},
    {"whisper", MICA__RE_GPT2, NULL, put_whisper, 0, false, NULL, EOT},
    {"whisper_v3", MICA__RE_GPT2, NULL, put_whisper3, 0, false, NULL, EOT},
};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const char *mica_tokenizer_preset_name(int i)
{
    return i >= 0 && i < N_PRESETS ? presets[i].name : NULL;
}

mica_status mica__preset_find(const char *name, const mica__preset **preset)
{
    char names[256] = "";
    for (int i = 0; i < N_PRESETS; i++) {
        if (strcmp(name, presets[i].name) == 0) {
            *preset = &presets[i];
            return MICA_OK;
        }
        const size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", presets[i].name);
    }
    MICA_FAIL(MICA_E_NOT_FOUND, "there is no tokenizer preset \"%.80s\" (there are %s)", name,
              names);
}

const mica__preset *mica__preset_of_file(const char *path)
{
    static const struct {
        const char *file, *preset;
    } files[] = {{"multilingual.tiktoken", "whisper"}, {"qwen.tiktoken", "qwen"}};
    const char *name = mica__path_name(path);
    const mica__preset *found = NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(name, files[i].file) == 0 &&
            mica__preset_find(files[i].preset, &found) == MICA_OK)
            return found;
    for (int i = 0; i < N_PRESETS; i++) {
        const size_t n = strlen(presets[i].name);
        if (strncmp(name, presets[i].name, n) == 0 && strcmp(name + n, ".tiktoken") == 0)
            return &presets[i];
    }
    return NULL;
}

const mica__preset *mica__preset_of_class(const char *name)
{
    static const struct {
        const char *class, *preset;
    } classes[] = {
        {"GPT2Tokenizer", "gpt2"},    {"CodeGenTokenizer", "gpt2"}, {"GPTNeoXTokenizer", "gpt2"},
        {"WhisperTokenizer", "gpt2"}, {"Qwen2Tokenizer", "qwen2"},  {"QWenTokenizer", "qwen"},
    };
    for (size_t i = 0; name && i < sizeof classes / sizeof classes[0]; i++) {
        const size_t n = strlen(classes[i].class);
        const mica__preset *found;
        if (strncmp(name, classes[i].class, n) == 0 &&
            (name[n] == '\0' || strcmp(name + n, "Fast") == 0) &&
            mica__preset_find(classes[i].preset, &found) == MICA_OK)
            return found;
    }
    return NULL;
}

mica_status mica__add_regex(mica_tokenizer *t, const char *regex)
{
    mica__step step = {.kind = MICA__STEP_SPLIT, .split = MICA__SPLIT_ISOLATED};
    MICA_TRY(mica__regex_pattern(regex, &step.matcher));
    return mica__pretokenizer_add(&t->pre, step);
}

mica_status mica__preset_apply(const mica__preset *preset, mica_tokenizer *t, bool with_specials)
{
    MICA_TRY(mica__add_regex(t, preset->regex));
    if (preset->nfc)
        MICA_TRY(mica__normalizer_add_form(&t->normalizer, MICA__NFC));
    int64_t n_ranks = 0;
    for (int64_t id = 0; id < t->vocab.n; id++)
        n_ranks += t->vocab.kind[id] == MICA_TOKEN_NORMAL;
    for (const special *s = preset->specials; s && s->text; s++)
        n_ranks -= is_text(t, s->id, s->text);
    if (!with_specials || (preset->n_ranks && preset->n_ranks != n_ranks))
        return MICA_OK;
    for (const special *s = preset->specials; s && s->text; s++)
        MICA_TRY(put_special(t, s->id, s->text));
    return preset->put ? preset->put(t, (int32_t)t->vocab.n) : MICA_OK;
}

void mica__preset_roles(const mica__preset *preset, mica_tokenizer *t)
{
    if (preset->begin && t->bos < 0)
        t->bos = mica__vocab_find(&t->vocab, preset->begin, (int64_t)strlen(preset->begin));
    if (preset->end && t->eos < 0)
        t->eos = mica__vocab_find(&t->vocab, preset->end, (int64_t)strlen(preset->end));
}

/* --- pre-tokenizers of GGUF ------------------------------------------------------------------- */

enum {
    WHOLE_WORD_FIRST = 1, /* a word that is a token needs no merges */
    ADDS_BOS = 2,         /* by default; a key of the file overrules it */
    NFC = 4
};

/* What the name of a pre-tokenizer stands for. */
typedef struct pre {
    const char *names; /* separated by spaces */
    const char *regexes[6];
    unsigned flags;
} pre;

static const pre pres[] = {
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", MICA__RE_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, 0},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {MICA__RE_LLAMA3},
     WHOLE_WORD_FIRST | ADDS_BOS},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {MICA__RE_LLAMA3}, 0},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt "
     "olmo jais trillion granite-docling exaone4",
     {MICA__RE_GPT2},
     0},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     {"\\p{N}", MICA__RE_GPT2},
     0},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", MICA__RE_GPT2, "[0-9][0-9][0-9]"}, 0},
    {"qwen2 megrez", {MICA__RE_QWEN2}, NFC},
    {"qwen35", {MICA__RE_QWEN35}, NFC},
    {"deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open grok-2", {MICA__RE_QWEN2}, 0},
    {"ufakzeka", {MICA__RE_UFAKZEKA}, 0},
    {"minicpm5", {"\\p{N}{1,3}", MICA__RE_ANY_DIGIT}, WHOLE_WORD_FIRST},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", {MICA__RE_O200K}, 0},
    {"granite-embed-multi-97m", {MICA__RE_O200K}, WHOLE_WORD_FIRST},
    {"tekken", {MICA__RE_TEKKEN}, WHOLE_WORD_FIRST | ADDS_BOS},
    {"seed-coder", {MICA__RE_SEED_CODER}, 0},
    {"bailingmoe bailingmoe2 llada-moe", {MICA__RE_BAILING}, 0},
    {"deepseek-llm",
     {"[\\r\\n]", mica__deepseek_letters, mica__deepseek_marks, "\\s+$", MICA__RE_EAST, "\\p{N}+"},
     0},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", MICA__RE_EAST, "\\p{N}"}, 0},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     {"\\p{N}{1,3}", MICA__RE_CJK, MICA__RE_DEEPSEEK3},
     0},
    {"poro-chat bloom gpt3-finnish", {MICA__RE_BLOOM}, 0},
    {"viking", {MICA__RE_BLOOM, "\\p{N}"}, 0},
    {"exaone-moe", {MICA__RE_EXAONE_MOE}, 0},
    {"tiny_aya cohere2moe", {MICA__RE_TINY_AYA, MICA__RE_O200K}, 0},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, 0},
};

/* Whether the list of names has this one. */
static bool has_name(const char *names, const char *name, int64_t n)
{
    while (*names) {
        const size_t length = strcspn(names, " ");
        if ((int64_t)length == n && memcmp(names, name, length) == 0)
            return true;
        names += length + (names[length] == ' ');
    }
    return false;
}

mica_status mica__gguf_pre_apply(const char *name, int64_t n, mica_tokenizer *t, bool *adds_bos)
{
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++) {
        const pre *p = &pres[i];
        if (!has_name(p->names, name, n))
            continue;
        for (int k = 0; k < 6 && p->regexes[k]; k++)
            MICA_TRY(mica__add_regex(t, p->regexes[k]));
        if (p->flags & NFC)
            MICA_TRY(mica__normalizer_add_form(&t->normalizer, MICA__NFC));
        t->bpe.whole_word_first = (p->flags & WHOLE_WORD_FIRST) != 0;
        *adds_bos = (p->flags & ADDS_BOS) != 0;
        return MICA_OK;
    }
    MICA_FAIL(MICA_E_UNSUPPORTED, "the pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not known",
              (int)(n < 80 ? n : 80), name);
}
