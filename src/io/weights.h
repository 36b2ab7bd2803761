/* weights.h - the tensors of a model on disk, whatever file format holds them.
 *
 * A path is a folder (config.json beside *.safetensors, one or sharded by an index), a .safetensors
 * file, an index of shards, or a .gguf file (any part of a split one); the content decides. What is
 * no model is refused by what it is, with what to do instead: pickle files, adapters, vision
 * projectors, big-endian files, files cut off. After opening nothing changes: any number of threads
 * may read.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_WEIGHTS_H
#define MICA_IO_WEIGHTS_H

#include "core/block_format.h"
#include "io/gguf.h"
#include "io/safetensors.h"

typedef struct mica__weights mica__weights;

typedef enum mica__weights_kind {
    MICA__WEIGHTS_SAFETENSORS,
    MICA__WEIGHTS_GGUF
} mica__weights_kind;

/* A stored tensor. */
typedef struct mica__weight {
    const char *name;          /* NUL-terminated, holds no other NUL */
    const char *type;          /* as the file calls it: "BF16", "F8_E4M3", "Q4_K" */
    mica__block_format format; /* how a row is stored; MICA__N_FORMATS for element types outside the
                                  list (unsigned, BOOL, C64, the small floats) */
    mica_dtype dtype;      /* of an element (small floats as MICA_U8); MICA_N_DTYPES for blocks */
    mica__st_type st_type; /* safetensors: the exact type; MICA__N_ST_TYPES for GGUF */
    int n_dims;
    int64_t shape[MICA_MAX_DIMS]; /* outermost first, in values */
    const uint8_t *data;          /* in the map, any alignment */
    int64_t bytes;
    int file; /* which file, for messages: mica__weights_file */
} mica__weight;

/* use_map false reads the files into counted memory instead of mapping them. */
mica_status mica__weights_open(const char *path, bool use_map, mica__weights **weights);
void mica__weights_close(mica__weights *weights);

mica__weights_kind mica__weights_kind_of(const mica__weights *weights);

int64_t mica__weights_n(const mica__weights *weights);
const mica__weight *mica__weights_at(const mica__weights *weights, int64_t i); /* file order */

/* The tensor of this name; NULL when there is none. */
const mica__weight *mica__weights_find(const mica__weights *weights, const char *name);

/* As above, but a missing one is a failure that names it and the path (MICA_E_NOT_FOUND). */
mica_status mica__weights_need(const mica__weights *weights, const char *name,
                               const mica__weight **weight);

/* The GGUF with its keys, NULL when the weights are safetensors. */
const mica__gguf *mica__weights_gguf(const mica__weights *weights);

/* The safetensors with their metadata, NULL when the weights are GGUF. */
const mica__safetensors *mica__weights_safetensors(const mica__weights *weights);

/* The folder that config.json and the tokenizer's files would be in, without a slash at the end. */
const char *mica__weights_folder(const mica__weights *weights);

/* The path of a tensor's file and where its data begins in it, for messages. */
const char *mica__weights_file(const mica__weights *weights, const mica__weight *weight);
int64_t mica__weights_offset(const mica__weights *weights, const mica__weight *weight);

/* Bytes of all tensors, and of the files that hold them. */
int64_t mica__weights_bytes(const mica__weights *weights);
int64_t mica__weights_file_bytes(const mica__weights *weights);

#endif
