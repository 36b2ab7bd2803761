/* tiny_model.h - model folders made up from a seed, the same on every machine.
 *
 * 64 features, 4 query heads, 256 tokens: large enough for every step of a decoder, small enough to
 * run anywhere in an instant.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_TINY_MODEL_H
#define MICA_TESTS_TINY_MODEL_H

#include <mica/status.h>

/* The i-th model's name ("llama", "gemma3_text", ...); NULL behind the last. */
const char *tiny_model_name(int i);

/* Writes config.json and model.safetensors (float32) of a model of that list into a folder. */
mica_status tiny_model_write(const char *folder, const char *name);

#endif
