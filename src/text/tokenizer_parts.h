/* tokenizer_parts.h - what a tokenizer is made of, for the loaders.
 *
 * A loader makes an empty tokenizer, puts tokens into the vocabulary (mica__tokenizer_put), sets
 * the steps and flags, and calls mica__tokenizer_index when all tokens are there; then merges and
 * roles can be looked up by text; mica__tokenizer_finish builds the rest and checks it. Whatever
 * fails, mica_tokenizer_free releases everything.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_TOKENIZER_PARTS_H
#define MICA_TEXT_TOKENIZER_PARTS_H

#include "io/gguf.h"
#include "io/json.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pretokenize.h"
#include "text/tokenizer_gguf.h"

#define MICA__MAX_TEMPLATE_IDS 8
#define MICA__MAX_ENDS         256                /* tokens that end an answer */
#define MICA__MAX_TEMPLATES    64                 /* named chat templates */
#define MICA__MAX_FILE_BYTES   (INT64_C(1) << 28) /* of any tokenizer file */

/* How the text of a token becomes its bytes. */
typedef enum mica__spelling {
    MICA__SPELLING_PLAIN,  /* the text is the bytes */
    MICA__SPELLING_BYTES,  /* bytes as printable characters (byte_spelling.h) */
    MICA__SPELLING_MARKED, /* U+2581 is a space, <0xNN> tokens of kind BYTE are bytes */
} mica__spelling;

typedef struct mica__chat_template {
    char *name;
    char *text;
} mica__chat_template;

struct mica_tokenizer {
    mica__vocab vocab;
    mica__bpe bpe;
    mica__normalizer normalizer;
    mica__pretokenizer pre;
    mica__spelling spelling;
    bool strips_space;    /* decoding drops one space at the start */
    bool splits_at_marks; /* words part before U+2581, but for those behind a byte of joins_mark */
    bool joins_mark[256];

    mica__added *added; /* [n_added] as the loaders gave them */
    int64_t n_added;
    int64_t added_capacity;
    int32_t *added_at; /* [n_added_at] where an id stands in `added`, -1 nowhere */
    int64_t n_added_at;
    int64_t added_at_capacity;
    mica__added_set raw;        /* found in the text itself */
    mica__added_set normalized; /* found after normalisation */

    int32_t bos, eos, eot, unk, pad;
    int32_t *ends; /* [n_ends] */
    int64_t n_ends;
    int64_t ends_capacity;
    int32_t before[MICA__MAX_TEMPLATE_IDS]; /* [n_before] put before a text */
    int n_before;
    int32_t after[MICA__MAX_TEMPLATE_IDS]; /* [n_after] put after it */
    int n_after;

    mica__chat_template *templates; /* [n_templates] */
    int64_t n_templates;
    int64_t templates_capacity;
};

/* An empty tokenizer with no roles. */
mica_status mica__tokenizer_new(mica_tokenizer **out);

/* Flags of an added token; special ones become kind CONTROL, others ADDED. */
typedef struct mica__added_flags {
    bool special, normalized, single_word, lstrip, rstrip;
} mica__added_flags;

/* Puts an added token: a new one, or one the vocabulary has under this id with the same text. */
mica_status mica__tokenizer_put_added(mica_tokenizer *t, int64_t id, const char *text, int64_t n,
                                      mica__added_flags flags);

/* Adds the item to the added tokens, or replaces the one of its id. */
mica_status mica__tokenizer_note_added(mica_tokenizer *t, mica__added item);

/* Whether this id is an added token. */
bool mica__tokenizer_is_added(const mica_tokenizer *t, int32_t id);

/* Text to id works from here on. */
mica_status mica__tokenizer_index(mica_tokenizer *t);

/* Room for n merges, then one by one in order: the tokens `left` and `right` merge to the token of
 * their texts put together. Unknown tokens are refused. */
mica_status mica__tokenizer_merges(mica_tokenizer *t, int64_t n);
mica_status mica__tokenizer_merge(mica_tokenizer *t, const char *left, int64_t left_n,
                                  const char *right, int64_t right_n, uint32_t rank);

/* The same from one line "left right". */
mica_status mica__tokenizer_merge_line(mica_tokenizer *t, const char *line, int64_t n,
                                       uint32_t rank);

/* Adds an end token (once). */
mica_status mica__tokenizer_add_end(mica_tokenizer *t, int32_t id);

/* Copies a chat template; a second one of the same name replaces the first. */
mica_status mica__tokenizer_add_template(mica_tokenizer *t, const char *name, int64_t name_n,
                                         const char *text, int64_t n);

/* Sets whether the begin and the end token are added; -1 leaves one as it is. */
void mica__tokenizer_add_flags(mica_tokenizer *t, int add_bos, int add_eos);

/* Derives bytes, byte tokens, added sets and end of turn, and checks that all fits together. */
mica_status mica__tokenizer_finish(mica_tokenizer *t);

/* Finds the byte tokens of a MARKED vocabulary by their spelling "<0x41>" when by_text, else takes
 * those of kind BYTE; malformed ones are refused. */
mica_status mica__tokenizer_find_bytes(mica_tokenizer *t, bool by_text);

/* U+2581, the mark of a space. */
#define MICA__MARK_TEXT "\342\226\201"

/* Normalizer and merging of a SentencePiece vocabulary with scores. */
typedef struct mica__sentencepiece {
    bool dummy_prefix;
    bool prefix_first_only; /* at the start of the input only, not after every added token */
    bool remove_extra_spaces;
    bool escape_spaces;
} mica__sentencepiece;

mica_status mica__tokenizer_set_sentencepiece(mica_tokenizer *t, mica__sentencepiece options);

/* A rank from a score: higher scores merge first. NaN is refused. */
mica_status mica__score_rank(float score, uint32_t *rank);

/* The kind behind a piece type of SentencePiece, which GGUF's token_type took over. */
mica_status mica__piece_kind(int64_t type, int64_t id, mica_token_kind *kind);

/* One piece of a SentencePiece vocabulary; its score is its rank where it can merge. */
mica_status mica__put_piece(mica_tokenizer *t, int64_t id, const char *text, int64_t n,
                            mica_token_kind kind, float score);

/* Makes control, unknown and user-defined pieces added tokens; user-defined ones are looked for
 * after normalisation when `normalized`. */
mica_status mica__put_special_pieces(mica_tokenizer *t, bool normalized);

/* --- loaders ---------------------------------------------------------------------------------- */

/* A preset: what an encoding's files do not say. */
typedef struct mica__preset mica__preset;

/* The preset with this name; MICA_E_NOT_FOUND names those there are. */
mica_status mica__preset_find(const char *name, const mica__preset **preset);

/* The preset whose files have this name ("cl100k_base.tiktoken"), or NULL. */
const mica__preset *mica__preset_of_file(const char *path);

/* The preset of a tokenizer_class, or NULL. */
const mica__preset *mica__preset_of_class(const char *name);

/* Adds a split at a regular expression. */
mica_status mica__add_regex(mica_tokenizer *t, const char *regex);

/* Adds the pattern, the normalizer and, with_specials, the special tokens. These come only with a
 * vocabulary of the encoding's own size, where their ids are known; call before indexing. */
mica_status mica__preset_apply(const mica__preset *preset, mica_tokenizer *t, bool with_specials);

/* Sets begin and end where no file named them; call after indexing. */
void mica__preset_roles(const mica__preset *preset, mica_tokenizer *t);

/* Pre-tokenizer by its name in GGUF (tokenizer.ggml.pre); unknown names are refused by name. */
mica_status mica__gguf_pre_apply(const char *name, int64_t n, mica_tokenizer *t, bool *adds_bos);

/* The files beside a tokenizer; those that are absent are NULL. */
typedef struct mica__model_config {
    mica__json_doc *tokenizer;  /* tokenizer_config.json */
    mica__json_doc *special;    /* special_tokens_map.json */
    mica__json_doc *generation; /* generation_config.json */
    mica__json_doc *model;      /* config.json: ids of begin and end where no other file has them */
    mica__text jinja;           /* chat_template.jinja */
} mica__model_config;

mica_status mica__model_config_read(const char *folder, mica__model_config *config);
void mica__model_config_free(mica__model_config *config);

/* tokenizer_class, or NULL. */
const char *mica__model_config_class(const mica__model_config *config);

/* add_prefix_space; and whether "legacy" is false: no space after added tokens then. */
mica_status mica__model_config_prefix_space(const mica__model_config *config, bool *space);
bool mica__model_config_new_prefix(const mica__model_config *config);

/* Puts the tokens of added_tokens_decoder (before indexing); *any says whether there were some. */
mica_status mica__model_config_put_added(const mica__model_config *config, mica_tokenizer *t,
                                         bool *any);

/* Roles, end tokens, add flags, templates (after indexing). has_template: the tokenizer file itself
 * says what goes before and after a text. */
mica_status mica__model_config_apply(const mica__model_config *config, mica_tokenizer *t,
                                     bool has_template);

mica_status mica__tokenizer_from_json(const char *bytes, int64_t n,
                                      const mica__model_config *config, mica_tokenizer **out);
mica_status mica__tokenizer_from_vocab_merges(const char *vocab, int64_t vocab_n,
                                              const char *merges, int64_t merges_n,
                                              const mica__preset *preset,
                                              const mica__model_config *config,
                                              mica_tokenizer **out);
mica_status mica__tokenizer_from_tiktoken(const char *bytes, int64_t n, const mica__preset *preset,
                                          const mica__model_config *config, mica_tokenizer **out);
mica_status mica__tokenizer_from_proto(const char *bytes, int64_t n,
                                       const mica__model_config *config, mica_tokenizer **out);

/* Whether a tokenizer.model is a protobuf (else it must be tiktoken lines). */
bool mica__looks_like_proto(const char *bytes, int64_t n);

#endif
