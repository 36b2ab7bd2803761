/* vocabularies.c - see vocabularies.h.
 * SPDX-License-Identifier: MIT
 */
#include "support/vocabularies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "support/temp_dir.h"
#include "support/unpack_xz.h"

#define CPP   LLAMA_CPP_FILES
#define QWEN2 "qwen2/vocab.json.xz qwen2/merges.txt.xz qwen2/tokenizer_config.json"
#define PHI3  "phi-3-mini/tokenizer.json.xz phi-3-mini/tokenizer_config.json"
#define TINY  "tiny/torchtune_tiny_bpe_"
#define WHISPER                                                                                    \
    "the model's merges, which were derived from the ranks, cannot make one of the tokens; by "    \
    "the ranks (tiktoken "                                                                         \
    "agrees) it is one token"

const vocabulary_row vocabulary_rows[] = {
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
const int n_vocabulary_rows = sizeof vocabulary_rows / sizeof *vocabulary_rows;

const char *vocabulary_first_file(const vocabulary_row *row, char out[256])
{
    snprintf(out, 256, "%.*s", (int)strcspn(row->files, " "), row->files);
    return out;
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

/* Copies of the row's files in a folder; path is the last one's. */
static bool unpack_into(const char *folder, const vocabulary_row *row, const char *root,
                        char path[4096])
{
    char files[512], from[4096];
    snprintf(files, sizeof files, "%s", row->files);
    for (char *file = strtok(files, " "); file; file = strtok(NULL, " ")) {
        size_t n;
        snprintf(from, sizeof from, "%s/%s", root, file);
        char *bytes = read_or_unpack(from, &n);
        if (!bytes)
            return false;
        snprintf(path, 4096, "%s", temp_write(folder, name_in_folder(file), bytes, n));
        free(bytes);
    }
    return true;
}

mica_status vocabulary_open(const vocabulary_row *row, const char *root, mica_tokenizer **out)
{
    char path[4096];
    const bool several = strchr(row->files, ' ') != NULL;
    *out = NULL;
    snprintf(path, sizeof path, "%s/%s", root, row->files);
    if (!several && !strstr(row->files, ".xz"))
        return mica_tokenizer_open_preset(path, row->preset, out);
    char *folder = temp_dir_new();
    const mica_status status =
        unpack_into(folder, row, root, path)
            ? mica_tokenizer_open_preset(several ? folder : path, row->preset, out)
            : mica__fail(MICA_E_IO, "%s: cannot be read", row->files);
    temp_dir_remove(folder);
    return status;
}
