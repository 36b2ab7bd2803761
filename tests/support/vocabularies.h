/* vocabularies.h - the vocabularies among the outside test data, and what is known about each.
 *
 * One table for all tests that go through them: which files make a vocabulary, with which preset,
 * and which vectors of others belong to it.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TESTS_VOCABULARIES_H
#define MICA_TESTS_VOCABULARIES_H

#include <mica/tokenizer.h>

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

typedef struct vocabulary_row {
    const char *files; /* relative to the tokenizers' folder (REAL: to the model cache), in one
                          folder, separated by blanks */
    const char *preset;
    vectors kind;
    const char *name;
    unsigned flags;
    int before, after;  /* tokens of a TRANSFORMERS_JS case that its model puts around the text */
    const char *except; /* cases that differ on purpose, with the reason in `why` */
    const char *why;
} vocabulary_row;

extern const vocabulary_row vocabulary_rows[];
extern const int n_vocabulary_rows;

/* Where llama.cpp's vocabularies and vectors lie, and what their names begin with. */
#define LLAMA_CPP_FILES "llama.cpp-vocab/ggml-vocab-"

/* The first of a row's files. */
const char *vocabulary_first_file(const vocabulary_row *row, char out[256]);

/* Opens a row's vocabulary from a tokenizers' folder (not a REAL one): packed files are unpacked,
 * several are put together. MICA_E_IO when a file cannot be read. */
mica_status vocabulary_open(const vocabulary_row *row, const char *root, mica_tokenizer **out);

#endif
