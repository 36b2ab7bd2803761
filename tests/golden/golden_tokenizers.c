/* golden_tokenizers.c - golden_tokenizers DIR: vocabularies against the ids that others gave.
 *
 * Walks DIR. One table (support/vocabularies.h) says which files make a vocabulary and which
 * vectors belong to it, relative to a tokenizers' folder, which DIR may be, hold, or lie in. A GGUF
 * file that the table does not know is a case where it has its vectors beside it (.inp and .out).
 * Vectors without a vocabulary here and other files are listed and counted as skipped. Closes with
 * "N passed, N failed, N skipped"; exit status 1 when a case failed or there was none.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/json.h"
#include "support/check.h"
#include "support/file_list.h"
#include "support/unpack_xz.h"
#include "support/vocabularies.h"

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

static char root[4096]; /* the tokenizers' folder that the row's files are in */
static int passed, failed, skipped;

static void report_failure(const vocabulary_row *r, const char *what)
{
    failed++;
    printf("FAILED %s, %s: %s\n", r->files, r->name, what);
}

/* --- vocabularies ----------------------------------------------------------------------------- */

static const char *in_root(const char *relative)
{
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", root, relative);
    return path;
}

static mica_tokenizer *open_row(const vocabulary_row *r)
{
    mica_tokenizer *t = NULL;
    const mica_status status = vocabulary_open(r, root, &t);
    if (r->kind != REFUSED && status != MICA_OK)
        report_failure(r, mica_last_error());
    else if (r->kind == REFUSED && status == MICA_OK)
        report_failure(r, "opens, and should not");
    else if (r->kind == REFUSED && !strstr(mica_last_error(), r->name))
        report_failure(r, mica_last_error());
    else if (r->kind == REFUSED)
        passed++;
    return t;
}

/* --- cases ------------------------------------------------------------------------------------ */

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

static void check_case(const vocabulary_row *r, const mica_tokenizer *t, const char *label,
                       const char *text, int64_t n, unsigned encode_flags, const int32_t *expected,
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

/* Texts in vectors_path.inp, a line of ids for each in vectors_path.out. */
static void run_llama_cpp(const vocabulary_row *r, const mica_tokenizer *t,
                          const char *vectors_path)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[8400];
    size_t in_n, out_n;
    snprintf(path, sizeof path, "%s.inp", vectors_path);
    char *in = read_or_unpack(path, &in_n);
    snprintf(path, sizeof path, "%s.out", vectors_path);
    char *out = read_or_unpack(path, &out_n);
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

static bool excepted(const vocabulary_row *r, const char *label)
{
    const char *found = r->except ? strstr(r->except, label) : NULL;
    const size_t n = strlen(label);
    return found && (found == r->except || found[-1] == ' ') && (found[n] == ' ' || !found[n]);
}

static void run_json_case(const vocabulary_row *r, const mica_tokenizer *t, const char *label,
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

static mica__json_doc *vectors_doc; /* of the first root */

static mica__json_doc *transformers_js(void)
{
    if (!vectors_doc && mica__json_read(in_root("vectors/transformersjs_81_tokenizers.json"),
                                        1 << 24, &vectors_doc) != MICA_OK)
        printf("%s\n", mica_last_error());
    return vectors_doc;
}

static void run_transformers_js(const vocabulary_row *r, const mica_tokenizer *t)
{
    const mica__json *model = mica__json_get(mica__json_root(transformers_js()), r->name);
    const mica__json *cases = mica__json_get(model, "cases");
    const unsigned add = r->flags & NO_ADD ? 0 : MICA_ENCODE_ADD_SPECIAL;
    if (!cases)
        report_failure(r, "no vectors");
    for (const mica__json *item = cases ? cases->first : NULL; item; item = item->next)
        run_json_case(r, t, item->key, item, add | MICA_ENCODE_PARSE_SPECIAL);
}

static void run_reference(const vocabulary_row *r, const mica_tokenizer *t)
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
static void run_real(const vocabulary_row *r)
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

static void run(const vocabulary_row *r)
{
    if (r->kind == REAL) {
        run_real(r);
        return;
    }
    mica_tokenizer *t = open_row(r);
    if (!t)
        return;
    if (r->kind == LLAMA_CPP) {
        char vectors_path[8192];
        snprintf(vectors_path, sizeof vectors_path, "%s/" LLAMA_CPP_FILES "%s.gguf", root, r->name);
        run_llama_cpp(r, t, vectors_path);
    }
    if (r->kind == TRANSFORMERS_JS)
        run_transformers_js(r, t);
    else if (r->kind == REFERENCE)
        run_reference(r, t);
    mica_tokenizer_free(t);
}

/* --- which rows there are below the folder ---------------------------------------------------- */

#define ALL_VECTORS "vectors/transformersjs_81_tokenizers.json"

/* Sets root to what stands before `file` (relative to a tokenizers' folder) in the path. */
static bool set_root(const char *path, const char *file)
{
    const size_t n = strlen(path), m = strlen(file);
    if (n <= m || path[n - m - 1] != '/' || strcmp(path + n - m, file) != 0 || n - m > sizeof root)
        return false;
    snprintf(root, sizeof root, "%.*s", (int)(n - m - 1), path);
    return true;
}

/* Runs a row wherever its first file lies below the folder. Rows of other places, the cache and
 * the models beside, belong to a folder that is whole. */
static void run_where_it_lies(const vocabulary_row *r, const file_list *files)
{
    char first[256];
    const bool elsewhere = r->kind == REAL || strncmp(r->files, "../", 3) == 0;
    const char *file = elsewhere ? ALL_VECTORS : vocabulary_first_file(r, first);
    bool found = false;
    for (size_t i = 0; i < files->n; i++)
        if (set_root(files->paths[i], file)) {
            found = true;
            run(r);
        }
    if (!found) {
        printf("skipped %s, %s: not below %s\n", r->files, r->name, files->root);
        skipped++;
    }
}

/* --- what the table leaves out ---------------------------------------------------------------- */

static bool has_vectors(vectors kind, const char *name)
{
    for (int i = 0; i < n_vocabulary_rows; i++)
        if (vocabulary_rows[i].kind == kind && strcmp(vocabulary_rows[i].name, name) == 0)
            return true;
    return false;
}

/* Whether the path ends with `file` as a whole; a folder's name, with a slash at its end, may stand
 * anywhere. */
static bool lies_at(const char *path, const char *file)
{
    if (file[strlen(file) - 1] != '/')
        return set_root(path, file);
    const char *found = strstr(path, file);
    return found && found > path && found[-1] == '/';
}

static bool is_known_file(const char *path)
{
    for (int i = 0; i < n_vocabulary_rows; i++) {
        char list[512];
        snprintf(list, sizeof list, "%s", vocabulary_rows[i].files);
        for (char *file = strtok(list, " "); file; file = strtok(NULL, " "))
            if (lies_at(path, file))
                return true;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (lies_at(path, others[i].file))
            return true;
    return text_ends_with(path, ".gguf.inp") || text_ends_with(path, ".gguf.out");
}

/* A file of its own: x.gguf with x.gguf.inp and x.gguf.out beside it is a case; what the table does
 * not know is not. */
static void run_unknown_file(const char *path)
{
    char beside[4200];
    const vocabulary_row own = {path, NULL, LLAMA_CPP, "its own vectors", NO_ROUND_TRIP, 0,
                                0,    NULL, NULL};
    mica_tokenizer *t;
    snprintf(beside, sizeof beside, "%s.inp", path);
    if (!text_ends_with(path, ".gguf") || access(beside, R_OK) != 0) {
        printf("skipped %s: not in the table\n", path);
        skipped++;
    } else if (mica_tokenizer_open(path, &t) != MICA_OK) {
        report_failure(&own, mica_last_error());
    } else {
        run_llama_cpp(&own, t, path);
        mica_tokenizer_free(t);
    }
}

/* llama.cpp's vectors whose vocabulary is not here. */
static void note_vectors(const char *path)
{
    static const char start[] = "ggml-vocab-", end[] = ".gguf.inp";
    const char *name = strrchr(path, '/') + 1;
    char model[256];
    if (!text_ends_with(name, end) || strncmp(name, start, sizeof start - 1) != 0)
        return;
    snprintf(model, sizeof model, "%.*s", (int)(strlen(name) - (sizeof start + sizeof end - 2)),
             name + sizeof start - 1);
    if (has_vectors(LLAMA_CPP, model))
        return;
    printf("skipped llama.cpp vectors %s: no vocabulary here%s\n", model,
           strcmp(model, "bert-bge") == 0 ? " that is supported (WordPiece)" : "");
    skipped++;
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

static void run_all(const file_list *files)
{
    for (int i = 0; i < n_vocabulary_rows; i++)
        run_where_it_lies(&vocabulary_rows[i], files);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        printf("not a case: %s: %s\n", others[i].file, others[i].what);
    for (size_t i = 0; i < files->n; i++) {
        note_vectors(files->paths[i]);
        if (!is_known_file(files->paths[i]))
            run_unknown_file(files->paths[i]);
    }
    for (size_t i = 0; i < files->n; i++)
        if (set_root(files->paths[i], ALL_VECTORS)) {
            list_models_without_vocabulary();
            break;
        }
    mica__json_free(vectors_doc);
}

int main(int argc, char **argv)
{
    file_list files = {0};
    if (argc != 2) {
        printf("usage: golden_tokenizers DIR\n");
        return 2;
    }
    if (!file_list_below(argv[1], &files)) {
        printf("skipped: %s is not here\n0 passed, 0 failed, 1 skipped\n", argv[1]);
        return 77;
    }
    run_all(&files);
    file_list_free(&files);
    if (passed + failed == 0)
        printf("FAILED: no case below %s\n", argv[1]);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}
