/* tiny_model.h - model folders made up from a seed, the same on every machine.
 *
 * 64 features, 4 query heads, 256 tokens: large enough for every step of a decoder, small enough to
 * run anywhere in an instant.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_TINY_MODEL_H
#define MICA_TESTS_TINY_MODEL_H

#include <stddef.h>

#include "core/block_format.h"

/* The i-th model's name ("llama", "gemma3_text", ...); NULL behind the last. */
const char *tiny_model_name(int i);

/* Writes config.json and model.safetensors (float32) of a model of that list into a folder. */
mica_status tiny_model_write(const char *folder, const char *name);

/* Writes a model of that list into an empty folder, and for a format other than F32 a GGUF file of
 * it with matrices in that format. Fails the test when it cannot. path: what to open. */
void tiny_model_file(const char *folder, const char *name, mica__block_format format, char *path,
                     size_t path_bytes);

#endif
