/* golden_tokenizers.c - golden_tokenizers DIR: vocabularies against the ids that others gave.
 *
 * One table says which files below DIR make a vocabulary and which vectors belong to it. Vectors
 * without a vocabulary here and files that the table does not know are listed and counted as
 * skipped. Closes with "N passed, N failed, N skipped"; exit status 1 when a case failed.
 * SPDX-License-Identifier: MIT
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <mica/tokenizer.h>

#include "io/json.h"
#include "support/check.h"
#include "support/temp_dir.h"
#include "support/unpack_xz.h"

typedef enum vectors {
    LLAMA_CPP, /* llama.cpp-vocab/ggml-vocab-NAME.gguf.inp and .out: no special tokens added or
                  found */
    TRANSFORMERS_JS, /* a model of vectors/transformersjs_81_tokenizers.json: special tokens added
                        and found */
    REFERENCE,       /* a set of tests/data/tokenizers/reference_ids.json */
    REFUSED,         /* opening it fails, and the message says NAME */
    REAL,            /* a fetched model; NAME is a file of golden/real */
} vectors;

enum {
    NO_ROUND_TRIP = 1, /* texts are normalised, or hold U+2581, which stands for a space */
    NO_ADD = 2,        /* the vectors' tokens around a text are not this vocabulary's */
};

typedef struct row {
    const char *files; /* relative to DIR (REAL: to the model cache); several lie in one folder */
    const char *preset;
    vectors kind;
    const char *name;
    unsigned flags;
    int before, after;  /* tokens of a TRANSFORMERS_JS case that its model puts around the text */
    const char *except; /* cases that differ on purpose, with the reason in `why` */
    const char *why;
} row;

#define CPP   "llama.cpp-vocab/ggml-vocab-"
#define QWEN2 "qwen2/vocab.json.xz qwen2/merges.txt.xz qwen2/tokenizer_config.json"
#define PHI3  "phi-3-mini/tokenizer.json.xz phi-3-mini/tokenizer_config.json"
#define TINY  "tiny/torchtune_tiny_bpe_"
#define WHISPER                                                                                    \
    "the model's merges, which were derived from the ranks, cannot make one of the tokens; by "    \
    "the ranks (tiktoken "                                                                         \
    "agrees) it is one token"

static const row rows[] = {
    {CPP "gpt-2.gguf", NULL, LLAMA_CPP, "gpt-2", 0, 0, 0, NULL, NULL},
    {CPP "gpt-2.gguf", NULL, TRANSFORMERS_JS, "openai-community/gpt2", 0, 0, 0, NULL, NULL},
    {CPP "gpt-2.gguf", NULL, TRANSFORMERS_JS, "Xenova/gpt2", 0, 0, 0, NULL, NULL},
    {CPP "llama-spm.gguf", NULL, LLAMA_CPP, "llama-spm", 0, 0, 0, NULL, NULL},
    {CPP "llama-spm.gguf", NULL, TRANSFORMERS_JS, "Xenova/llama-tokenizer", 0, 0, 0, NULL, NULL},
    {CPP "phi-3.gguf", NULL, LLAMA_CPP, "phi-3", 0, 0, 0, NULL, NULL},
    {CPP "deepseek-coder.gguf", NULL, LLAMA_CPP, "deepseek-coder", 0, 0, 0, NULL, NULL},
    {CPP "deepseek-coder.gguf", NULL, TRANSFORMERS_JS, "Xenova/deepseek-coder-1.3b-instruct", 0, 0,
     0, NULL, NULL},
    {CPP "bert-bge.gguf", NULL, REFUSED, "(WordPiece) are not supported yet", 0, 0, 0, NULL, NULL},

    {"llama2/tokenizer.model", NULL, LLAMA_CPP, "llama-spm", 0, 0, 0, NULL, NULL},
    {"llama2/tokenizer.model", NULL, TRANSFORMERS_JS, "Xenova/llama-tokenizer", 0, 0, 0, NULL,
     NULL},
    {"llama2/tokenizer.model", NULL, REFERENCE, "llama2", NO_ROUND_TRIP, 0, 0, NULL, NULL},
    {"llama3/tokenizer.model.xz", "llama3", LLAMA_CPP, "llama-bpe", 0, 0, 0, NULL, NULL},
    {"llama3/tokenizer.model.xz", "llama3", TRANSFORMERS_JS, "Xenova/llama3-tokenizer", NO_ADD, 0,
     0, NULL, NULL},
    {"llama3/tokenizer.model.xz", "llama3", TRANSFORMERS_JS, "Xenova/llama3-tokenizer-new", NO_ADD,
     1, 0, NULL, NULL},
    {"llama3/tokenizer.model.xz", "llama3", REFERENCE, "llama3", 0, 0, 0, NULL, NULL},
    {"mistral/mistral_instruct_tokenizer_240323.model.v3", NULL, REFERENCE, "mistral-v3",
     NO_ROUND_TRIP, 0, 0, NULL, NULL},
    {PHI3, NULL, LLAMA_CPP, "phi-3", 0, 0, 0, NULL, NULL},
    {PHI3, NULL, REFERENCE, "phi-3-mini", NO_ROUND_TRIP, 0, 0, NULL, NULL},
    {QWEN2, NULL, LLAMA_CPP, "qwen2", NO_ROUND_TRIP, 0, 0, NULL, NULL},
    {QWEN2, NULL, LLAMA_CPP, "deepseek-r1-qwen", NO_ROUND_TRIP, 0, 0, NULL, NULL},
    {QWEN2, NULL, TRANSFORMERS_JS, "Xenova/Qwen1.5-0.5B-Chat", NO_ROUND_TRIP, 0, 0, NULL, NULL},
    {QWEN2, NULL, REFERENCE, "qwen2", NO_ROUND_TRIP, 0, 0, NULL, NULL},

    {"tiktoken/cl100k_base.tiktoken.xz", NULL, TRANSFORMERS_JS, "Xenova/gpt-4", 0, 0, 0, NULL,
     NULL},
    {"tiktoken/cl100k_base.tiktoken.xz", NULL, REFERENCE, "cl100k_base", 0, 0, 0, NULL, NULL},
    {"tiktoken/o200k_base.tiktoken.xz", NULL, TRANSFORMERS_JS, "Xenova/gpt-4o", 0, 0, 0, NULL,
     NULL},
    {"tiktoken/o200k_base.tiktoken.xz", NULL, REFERENCE, "o200k_base", 0, 0, 0, NULL, NULL},
    {"tiktoken/whisper_multilingual.tiktoken", "whisper", REFERENCE, "whisper", 0, 0, 0, NULL,
     NULL},
    {"tiktoken/whisper_multilingual.tiktoken", "whisper", TRANSFORMERS_JS,
     "distil-whisper/distil-large-v2", NO_ADD, 4, 1,
     "SIMPLE_WITH_PUNCTUATION CURRENCY CURRENCY_WITH_DECIMALS", WHISPER},
    {"tiktoken/whisper_multilingual.tiktoken", "whisper_v3", TRANSFORMERS_JS,
     "distil-whisper/distil-large-v3", NO_ADD, 2, 1, "CURRENCY", WHISPER},

    {TINY "tokenizer.json", NULL, REFERENCE, "torchtune-tiny-bpe", 0, 0, 0, NULL, NULL},
    {TINY "vocab.json " TINY "merges.txt", "qwen2", REFERENCE, "torchtune-tiny-bpe", 0, 0, 0, NULL,
     NULL},
    {"tiny/torchtune_tiktoken_small.model", "cl100k_base", REFERENCE, "torchtune-tiktoken", 0, 0, 0,
     NULL, NULL},
    {"tiny/torchtune_tokenizer_gemma_cropped.json", NULL, REFERENCE, "gemma-cropped",
     NO_ROUND_TRIP | NO_ADD, 0, 0, NULL, NULL},
    /* The package tokenizers refuses this one for the same reason: the merge "H e" makes no token.
     */
    {"tiny/test_hf_tokenizer.json", NULL, REFUSED, "\"He\", which is not in the vocabulary", 0, 0,
     0, NULL, NULL},
    {"tiny/test_tiktoken_invalid_base64.model", "gpt2", REFUSED, "is not base64", 0, 0, 0, NULL,
     NULL},
    {"tiny/test_tiktoken_invalid_rank.model", "gpt2", REFUSED, "is not \"base64 rank\"", 0, 0, 0,
     NULL, NULL},
    {"tiny/test_tiktoken_no_space.model", "gpt2", REFUSED, "is not \"base64 rank\"", 0, 0, 0, NULL,
     NULL},
    {"../../models/tales-19m/tokenizer.json", NULL, REFERENCE, "tales-19m", 0, 0, 0, NULL, NULL},

    {"bert/bert-base-uncased.tokenizer.json", NULL, REFUSED, "WordPiece are not supported yet", 0,
     0, 0, NULL, NULL},
    {"bert/all-minilm-l6-v2.tokenizer.json", NULL, REFUSED, "WordPiece are not supported yet", 0, 0,
     0, NULL, NULL},
    {"t5/spiece.model", NULL, REFUSED, "Unigram model, which is not supported yet", 0, 0, 0, NULL,
     NULL},
    {"t5/tokenizer.json.xz", NULL, REFUSED, "Unigram are not supported yet", 0, 0, 0, NULL, NULL},
    {"sentencepiece/test_model.model", NULL, REFUSED, "Unigram model, which is not supported yet",
     0, 0, 0, NULL, NULL},
    {"sentencepiece/test_ja_model.model", NULL, REFUSED,
     "Unigram model, which is not supported yet", 0, 0, 0, NULL, NULL},

    {"SmolLM2-135M-Instruct.Q4_1.gguf", NULL, REAL, "smollm2-135m-instruct-q4_1.json", 0, 0, 0,
     NULL, NULL},
    {"gemma-3-270m-q4_k_m.gguf", NULL, REAL, "gemma-3-270m-q4_k_m.json", 0, 0, 0, NULL, NULL},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Files that are no vocabulary that opens by itself, and what they are. */
static const struct {
    const char *file, *what;
} others[] = {
    {"bert/bert-base-uncased-vocab.txt", "WordPiece is not supported yet"},
    {"clip/bpe_simple_vocab_16e6.txt.gz",
     "merges without a vocabulary: CLIP's words end in </w>, not supported"},
    {"bpe-training-cs336/", "input and result of training a vocabulary"},
    {"vectors/", "vectors"},
};

static const char *root;
static int passed, failed, skipped;

static void report_failure(const row *r, const char *what)
{
    failed++;
    printf("FAILED %s, %s: %s\n", r->files, r->name, what);
}

/* --- vocabularies --- */

static char *folder; /* of unpacked files, or NULL */

static const char *in_root(const char *relative)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, relative);
    return path;
}

/* Where a file of a vocabulary lies in its folder: without what torchtune's names begin with, and
 * unpacked. */
static const char *name_in_folder(const char *file)
{
    static char name[256];
    const char *slash = strrchr(file, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : file);
    if (strncmp(name, "torchtune_tiny_bpe_", 19) == 0)
        memmove(name, name + 19, strlen(name + 19) + 1);
    const size_t n = strlen(name);
    if (n > 3 && strcmp(name + n - 3, ".xz") == 0)
        name[n - 3] = '\0';
    return name;
}

/* The path to open: the file itself, or a folder with copies of several or unpacked ones. */
static bool prepare(const row *r, char *path, size_t size)
{
    const bool packed = strstr(r->files, ".xz") != NULL;
    const bool several = strchr(r->files, ' ') != NULL;
    snprintf(path, size, "%s", in_root(r->files));
    if (!packed && !several)
        return true;
    folder = temp_dir_new();
    char files[512];
    snprintf(files, sizeof files, "%s", r->files);
    for (char *file = strtok(files, " "); file; file = strtok(NULL, " ")) {
        size_t n;
        char *bytes = read_or_unpack(in_root(file), &n);
        if (!bytes)
            return false;
        snprintf(path, size, "%s", temp_write(folder, name_in_folder(file), bytes, n));
        free(bytes);
    }
    if (several)
        snprintf(path, size, "%s", folder);
    return true;
}

static mica_tokenizer *open_row(const row *r)
{
    char path[4096];
    mica_tokenizer *t = NULL;
    if (!prepare(r, path, sizeof path))
        report_failure(r, "cannot be read");
    else if (r->kind != REFUSED && mica_tokenizer_open_preset(path, r->preset, &t) != MICA_OK)
        report_failure(r, mica_last_error());
    else if (r->kind == REFUSED && mica_tokenizer_open_preset(path, r->preset, &t) == MICA_OK)
        report_failure(r, "opens, and should not");
    else if (r->kind == REFUSED && !strstr(mica_last_error(), r->name))
        report_failure(r, mica_last_error());
    else if (r->kind == REFUSED)
        passed++;
    if (folder)
        temp_dir_remove(folder);
    folder = NULL;
    return t;
}

/* --- cases --- */

static void print_ids(const char *label, const int32_t *ids, int64_t n)
{
    printf("    %s", label);
    for (int64_t i = 0; i < n && i < 60; i++)
        printf(" %d", (int)ids[i]);
    printf(n > 60 ? " ...\n" : "\n");
}

/* The ids decode to the text again. */
static bool comes_back(const mica_tokenizer *t, const char *text, int64_t n,
                       const mica_token_list *ids)
{
    mica_token_decoder *decoder;
    const char *part;
    int64_t length;
    if (mica_token_decoder_new(t, 0, &decoder) != MICA_OK)
        return false;
    const bool same =
        mica_token_decoder_next(decoder, ids->ids, ids->n, &part, &length) == MICA_OK &&
        length == n && memcmp(part, text, (size_t)n) == 0;
    mica_token_decoder_free(decoder);
    return same;
}

static void check_case(const row *r, const mica_tokenizer *t, const char *label, const char *text,
                       int64_t n, unsigned encode_flags, const int32_t *expected,
                       int64_t n_expected)
{
    mica_token_list ids = {0};
    if (mica_tokenizer_encode(t, text, n, encode_flags, &ids) != MICA_OK) {
        report_failure(r, mica_last_error());
    } else if (ids.n != n_expected ||
               (ids.n && memcmp(ids.ids, expected, (size_t)ids.n * sizeof *expected) != 0)) {
        report_failure(r, label);
        print_ids("ids     ", ids.ids, ids.n);
        print_ids("expected", expected, n_expected);
    } else if (!(r->flags & NO_ROUND_TRIP) && !(encode_flags & MICA_ENCODE_ADD_SPECIAL) &&
               !comes_back(t, text, n, &ids)) {
        report_failure(r, label);
        printf("    does not decode to its text\n");
    } else {
        passed++;
    }
    mica_token_list_free(&ids);
}

static int64_t read_ids(char *line, int32_t *ids, int64_t most)
{
    int64_t n = 0;
    for (char *word = strtok(line, " "); word && n < most; word = strtok(NULL, " "))
        ids[n++] = (int32_t)strtol(word, NULL, 10);
    return n;
}

static void run_llama_cpp(const row *r, const mica_tokenizer *t)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char name[256];
    size_t in_n, out_n;
    snprintf(name, sizeof name, CPP "%s.gguf.inp", r->name);
    char *in = read_or_unpack(in_root(name), &in_n);
    snprintf(name, sizeof name, CPP "%s.gguf.out", r->name);
    char *out = read_or_unpack(in_root(name), &out_n);
    if (!in || !out) {
        report_failure(r, "no vectors");
    } else {
        char *text = in, *line = out;
        for (int i = 0; text && line; i++) {
            static int32_t ids[4096];
            char label[64];
            char *end = strstr(text, separator), *next = strchr(line, '\n');
            const int64_t n = end ? end - text : in + in_n - text;
            if (next)
                *next++ = '\0';
            const int64_t n_ids = read_ids(line, ids, 4096);
            snprintf(label, sizeof label, "case %d", i);
            check_case(r, t, label, text, n, 0, ids, n_ids);
            text = end ? end + sizeof separator - 1 : NULL;
            line = next;
        }
        if (text || (line && *line))
            report_failure(r, "as many texts as lines of ids");
    }
    free(in);
    free(out);
}

/* Ids of a JSON list without the first `before` and the last `after`. */
static int64_t list_ids(const mica__json *list, int before, int after, int32_t *ids, int64_t most)
{
    int64_t at = 0, n = 0;
    for (const mica__json *id = list ? list->first : NULL; id; id = id->next, at++)
        if (at >= before && at < list->n - after && n < most)
            ids[n++] = (int32_t)id->integer;
    return n;
}

static bool excepted(const row *r, const char *label)
{
    const char *found = r->except ? strstr(r->except, label) : NULL;
    const size_t n = strlen(label);
    return found && (found == r->except || found[-1] == ' ') && (found[n] == ' ' || !found[n]);
}

static void run_json_case(const row *r, const mica_tokenizer *t, const char *label,
                          const mica__json *item, unsigned encode_flags)
{
    static int32_t ids[1 << 16];
    const mica__json *text = mica__json_get(item, r->kind == REAL ? "prompt" : "text");
    const mica__json *pair = mica__json_get(item, "text_pair");
    const int64_t n = list_ids(mica__json_get(item, r->kind == REAL ? "prompt_ids" : "ids"),
                               r->before, r->after, ids, 1 << 16);
    if (excepted(r, label)) {
        printf("skipped %s, %s: %s\n", r->name, label, r->why);
        skipped++;
    } else if (pair && pair->type == MICA__JSON_STRING) {
        printf("skipped %s, %s: a pair of texts\n", r->name, label);
        skipped++;
    } else {
        check_case(r, t, label, text->string, text->length, encode_flags, ids, n);
    }
}

static mica__json_doc *transformers_js(void)
{
    static mica__json_doc *doc;
    if (!doc && mica__json_read(in_root("vectors/transformersjs_81_tokenizers.json"), 1 << 24,
                                &doc) != MICA_OK)
        printf("%s\n", mica_last_error());
    return doc;
}

static void run_transformers_js(const row *r, const mica_tokenizer *t)
{
    const mica__json *model = mica__json_get(mica__json_root(transformers_js()), r->name);
    const mica__json *cases = mica__json_get(model, "cases");
    const unsigned add = r->flags & NO_ADD ? 0 : MICA_ENCODE_ADD_SPECIAL;
    if (!cases)
        report_failure(r, "no vectors");
    for (const mica__json *item = cases ? cases->first : NULL; item; item = item->next)
        run_json_case(r, t, item->key, item, add | MICA_ENCODE_PARSE_SPECIAL);
}

static void run_reference(const row *r, const mica_tokenizer *t)
{
    mica__json_doc *doc;
    if (mica__json_read(MICA_SOURCE_DIR "/tests/data/tokenizers/reference_ids.json", 1 << 22,
                        &doc) != MICA_OK) {
        report_failure(r, mica_last_error());
        return;
    }
    const mica__json *set = mica__json_get(mica__json_root(doc), r->name);
    const mica__json *cases = mica__json_get(set, "cases");
    const mica__json *parse = mica__json_get(set, "parse_special");
    if (!cases)
        report_failure(r, "no vectors");
    int i = 0;
    for (const mica__json *item = cases ? cases->first : NULL; item; item = item->next) {
        char label[64];
        snprintf(label, sizeof label, "reference %d", i++);
        run_json_case(r, t, label, item, parse && parse->boolean ? MICA_ENCODE_PARSE_SPECIAL : 0);
    }
    mica__json_free(doc);
}

/* A model that tools/fetch brings: the prompts' ids, special tokens added and found. */
static void run_real(const row *r)
{
    const char *path = fetched_path(r->files);
    char golden[256];
    snprintf(golden, sizeof golden, "golden/real/%s", r->name);
    const char *prompts = shared_path(golden);
    mica_tokenizer *t;
    mica__json_doc *doc;
    if (!path || !prompts) {
        printf("skipped %s: %s is not here (tools/fetch gets models)\n", r->name,
               path ? golden : r->files);
        skipped++;
        return;
    }
    if (mica_tokenizer_open(path, &t) != MICA_OK) {
        report_failure(r, mica_last_error());
        return;
    }
    if (mica__json_read(prompts, 1 << 22, &doc) == MICA_OK) {
        const mica__json *list = mica__json_get(mica__json_root(doc), "prompts");
        for (const mica__json *item = list->first; item; item = item->next)
            run_json_case(r, t, item->key, item,
                          MICA_ENCODE_ADD_SPECIAL | MICA_ENCODE_PARSE_SPECIAL);
        mica__json_free(doc);
    } else {
        report_failure(r, mica_last_error());
    }
    mica_tokenizer_free(t);
}

static void run(const row *r)
{
    if (r->kind == REAL) {
        run_real(r);
        return;
    }
    mica_tokenizer *t = open_row(r);
    if (!t)
        return;
    if (r->kind == LLAMA_CPP)
        run_llama_cpp(r, t);
    else if (r->kind == TRANSFORMERS_JS)
        run_transformers_js(r, t);
    else if (r->kind == REFERENCE)
        run_reference(r, t);
    mica_tokenizer_free(t);
}

/* --- what the table leaves out --- */

static bool has_vectors(vectors kind, const char *name)
{
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].kind == kind && strcmp(rows[i].name, name) == 0)
            return true;
    return false;
}

static bool is_known_file(const char *file)
{
    for (int i = 0; i < N_ROWS; i++) {
        const char *found = rows[i].kind == REAL ? NULL : strstr(rows[i].files, file);
        if (found && (found == rows[i].files || found[-1] == ' '))
            return true;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(file, others[i].file, strlen(others[i].file)) == 0)
            return true;
    const size_t n = strlen(file);
    return n > 9 &&
           (strcmp(file + n - 9, ".gguf.inp") == 0 || strcmp(file + n - 9, ".gguf.out") == 0);
}

/* Files of DIR, two levels deep. */
static void list_unknown_files(const char *relative)
{
    DIR *dir = opendir(relative ? in_root(relative) : root);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char file[512], name[256];
        struct stat about;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s%s%s", relative ? relative : "", relative ? "/" : "",
                 entry->d_name);
        if (stat(in_root(file), &about) != 0)
            continue;
        if (S_ISDIR(about.st_mode) && !relative) {
            list_unknown_files(file);
        } else if (S_ISREG(about.st_mode) && !is_known_file(file)) {
            printf("skipped %s: not in the table\n", file);
            skipped++;
        }
        const size_t n = strlen(entry->d_name);
        if (n > 20 && strcmp(entry->d_name + n - 9, ".gguf.inp") == 0) {
            snprintf(name, sizeof name, "%.*s", (int)(n - 9 - 11), entry->d_name + 11);
            if (!has_vectors(LLAMA_CPP, name)) {
                printf("skipped llama.cpp vectors %s: no vocabulary here%s\n", name,
                       strcmp(name, "bert-bge") == 0 ? " that is supported (WordPiece)" : "");
                skipped++;
            }
        }
    }
    if (dir)
        closedir(dir);
}

static void list_models_without_vocabulary(void)
{
    const mica__json *models = mica__json_root(transformers_js());
    for (const mica__json *model = models ? models->first : NULL; model; model = model->next)
        if (!has_vectors(TRANSFORMERS_JS, model->key)) {
            const mica__json *cases = mica__json_get(model, "cases");
            printf("skipped %s: no vocabulary here for its %d cases\n", model->key,
                   (int)(cases ? cases->n : 0));
            skipped++;
        }
}

int main(int argc, char **argv)
{
    struct stat about;
    if (argc != 2) {
        printf("usage: golden_tokenizers DIR\n");
        return 2;
    }
    root = argv[1];
    if (stat(root, &about) != 0 || !S_ISDIR(about.st_mode)) {
        printf("skipped: %s is not here\n0 passed, 0 failed, 1 skipped\n", root);
        return 77;
    }
    for (int i = 0; i < N_ROWS; i++)
        run(&rows[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        printf("not a case: %s: %s\n", others[i].file, others[i].what);
    list_unknown_files(NULL);
    list_models_without_vocabulary();
    mica__json_free(transformers_js());
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}
