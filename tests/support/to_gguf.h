/* to_gguf.h - writes a model folder as a GGUF file, for tests and for the built-in model.
 *
 * llama, mistral (as llama, without its window), qwen2, qwen3 and gemma3_text, plain tensors. What
 * GGUF stores otherwise is converted as its writers do: llama's rows of q and k are permuted for
 * interleaved rotation, Gemma's norms get their 1, llama3's scaling becomes a tensor of factors.
 * Tokenizer keys come from a byte-level tokenizer.json where the folder has one.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_TO_GGUF_H
#define MICA_TESTS_TO_GGUF_H

#include "core/block_format.h"

typedef struct to_gguf_options {
    const char *name;             /* general.name */
    const char *description;      /* general.description; NULL: none */
    const char *license;          /* general.license; NULL: none */
    mica__block_format matrices;  /* format of products */
    mica__block_format embedding; /* of the embedding table (and a tied head) */
} to_gguf_options;

mica_status to_gguf(const char *folder, const char *path, const to_gguf_options *options);

#endif
