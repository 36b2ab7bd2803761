/* toy_tokenizer.h - small tokenizers for tests, written as their files.
 *
 * The byte-level one has the 256 bytes as ids 0 to 255 and the merges below, whose results are 256
 * and on: he, ll, hell, hello, (space)w, or, (space)wor, ld, (space)world.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_TOY_TOKENIZER_H
#define MICA_TESTS_TOY_TOKENIZER_H

#include "base/text_buffer.h"

enum { TOY_HELLO = 259, TOY_WORLD = 264, TOY_FIRST_FREE = 265 };

/* Members of a tokenizer.json as JSON text; NULL for the byte-level default, "" to leave it out. */
typedef struct toy_parts {
    const char *added_tokens;
    const char *normalizer;
    const char *pre_tokenizer;
    const char *post_processor;
    const char *decoder;
    const char *options;     /* of the model, each followed by a comma */
    const char *more_vocab;  /* entries after the toy's, each preceded by a comma */
    const char *more_merges; /* the same for merges */
    bool merges_first;       /* the model comes first in the file, merges first in the model */
    bool pairs;              /* merges as pairs instead of lines */
} toy_parts;

/* Appends the file's text. */
void toy_json(const toy_parts *parts, mica__text *out);

/* Appends vocab.json, merges.txt, and tiktoken lines with the same tokens. */
void toy_vocab(mica__text *out);
void toy_merges(mica__text *out);
void toy_tiktoken(mica__text *out);

/* Protocol buffers: a field with a number, with bytes, with a float. */
void proto_number(mica__text *out, int field, uint64_t value);
void proto_bytes(mica__text *out, int field, const char *bytes, size_t n);
void proto_float(mica__text *out, int field, float value);

/* Appends a piece of a SentencePiece model: type 1 normal, 2 unknown, 3 control, 4 user-defined, 5
 * unused, 6 byte. */
void proto_piece(mica__text *out, const char *text, float score, int type);

#endif
