/* tokenizer.h - text to token ids and back.
 *
 * A tokenizer is read from the files of a model and never changes afterwards: any number of threads
 * may use one at the same time. Ids are what the model was trained with: encoding agrees with the
 * model's own tokenizer to the last id.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TOKENIZER_H
#define MICA_TOKENIZER_H

#include <mica/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mica_tokenizer mica_tokenizer;

/* What a token is for: enumerator, name as printed. */
#define MICA_TOKEN_KINDS(X)                                                                        \
    X(MICA_TOKEN_NONE, "none")       /* an id that the vocabulary leaves out */                    \
    X(MICA_TOKEN_NORMAL, "normal")   /* a piece of text */                                         \
    X(MICA_TOKEN_UNKNOWN, "unknown") /* stands for text that has no tokens */                      \
    X(MICA_TOKEN_CONTROL, "control") /* special: structure of a conversation, begin, end */        \
    X(MICA_TOKEN_ADDED, "added")     /* found in text as a whole before anything else */           \
    X(MICA_TOKEN_UNUSED, "unused")   /* reserved, never made from text */                          \
    X(MICA_TOKEN_BYTE, "byte")       /* one byte of a character that has no token */

typedef enum mica_token_kind {
#define X(name, text) name,
    MICA_TOKEN_KINDS(X)
#undef X
        MICA_TOKEN_N_KINDS
} mica_token_kind;

/* "control" and so on, "?" outside the list. Static storage. */
MICA_API const char *mica_token_kind_name(mica_token_kind kind);

/* A growing list of ids. Zero-initialise; encoding appends. */
typedef struct mica_token_list {
    int32_t *ids;
    int64_t n;
    int64_t capacity;
} mica_token_list;

/* Frees the ids and leaves the list empty; NULL is ignored. */
MICA_API void mica_token_list_free(mica_token_list *list);

/* Opens the tokenizer of a model.
 *
 * path   a model folder (tokenizer.json, else tokenizer.model, else *.tiktoken, else vocab.json
 *        with merges.txt; tokenizer_config.json, generation_config.json and chat_template.jinja
 *        beside them are read too), or one of these files, or a .gguf file
 * preset NULL, or what files that hold only ranks or merges do not say: the name of an encoding
 *        (see mica_tokenizer_preset_name) whose splitting pattern and special tokens apply
 * *out   owned by the caller: mica_tokenizer_free
 * Errors: MICA_E_NOT_FOUND (no such path, no tokenizer there), MICA_E_FORMAT, MICA_E_UNSUPPORTED
 *        (a kind of tokenizer or a step in it that is not implemented, named in the message),
 *        MICA_E_IO, MICA_E_MEMORY. */
MICA_API mica_status mica_tokenizer_open(const char *path, mica_tokenizer **out);
MICA_API mica_status mica_tokenizer_open_preset(const char *path, const char *preset,
                                                mica_tokenizer **out);

/* Frees a tokenizer, which nothing may use any more; NULL is ignored. */
MICA_API void mica_tokenizer_free(mica_tokenizer *tokenizer);

/* The i-th preset's name ("cl100k_base"), NULL past the last. Static storage. */
MICA_API const char *mica_tokenizer_preset_name(int i);

/* "byte-level BPE" or "SentencePiece BPE". Static storage. */
MICA_API const char *mica_tokenizer_kind(const mica_tokenizer *tokenizer);

/* --- encoding --------------------------------------------------------------------------------- */

/* Flags of the encode functions. */
enum {
    /* Put the begin token before and the end token after the text where the model's files ask for
     * them. A text that already begins with the begin token does not get a second one. */
    MICA_ENCODE_ADD_SPECIAL = 1,
    /* Text that spells a special token becomes that token. Without it such text is plain text; only
     * added tokens that are not special are still found. */
    MICA_ENCODE_PARSE_SPECIAL = 2
};

/* Bytes [from, to) of a text. */
typedef struct mica_text_span {
    int64_t from, to;
} mica_text_span;

/* Appends the ids of text[0, n), which need not end in NUL. Bytes that are not valid UTF-8 are
 * encoded one by one as bytes (byte-level vocabularies and those with byte tokens lose nothing).
 * Linear in n in practice. On failure the list keeps what it had before the call.
 * Errors: MICA_E_MEMORY; MICA_E_ARGUMENT (n over 1 GiB); MICA_E_FORMAT (the vocabulary has no token
 * for a byte of the text). */
MICA_API mica_status mica_tokenizer_encode(const mica_tokenizer *tokenizer, const char *text,
                                           int64_t n, unsigned flags, mica_token_list *ids);

/* As above for a text of which parts are only data, such as a message inside a rendered chat
 * template: a special token is never found where any byte of it lies in a plain span, so a message
 * cannot forge one. Otherwise the text is one text: ordinary tokens form across the borders.
 * plain    [n_plain], ascending, not overlapping, inside [0, n) */
MICA_API mica_status mica_tokenizer_encode_spans(const mica_tokenizer *tokenizer, const char *text,
                                                 int64_t n, const mica_text_span *plain,
                                                 int64_t n_plain, unsigned flags,
                                                 mica_token_list *ids);

/* --- tokens ----------------------------------------------------------------------------------- */

/* Ids are [0, n). */
MICA_API int64_t mica_tokenizer_n_vocab(const mica_tokenizer *tokenizer);

/* The id of the token with exactly this text as its file spells it, or -1. */
MICA_API int32_t mica_tokenizer_find(const mica_tokenizer *tokenizer, const char *text, int64_t n);

/* The kind, text (as its file spells it, NUL-terminated) and bytes (what it stands for; may hold
 * NUL) of a token, owned by the tokenizer; NONE, "" and n 0 outside [0, n_vocab). n may be NULL. */
MICA_API mica_token_kind mica_tokenizer_token_kind(const mica_tokenizer *tokenizer, int32_t id);
MICA_API const char *mica_tokenizer_token_text(const mica_tokenizer *tokenizer, int32_t id,
                                               int64_t *n);
MICA_API const char *mica_tokenizer_token_bytes(const mica_tokenizer *tokenizer, int32_t id,
                                                int64_t *n);

/* Whether a token is one of structure: left out of output that people read, and found in text only
 * with MICA_ENCODE_PARSE_SPECIAL. */
MICA_API bool mica_tokenizer_token_is_special(const mica_tokenizer *tokenizer, int32_t id);

/* Tokens with a role; -1 where the files name none. */
MICA_API int32_t mica_tokenizer_bos(const mica_tokenizer *tokenizer);
MICA_API int32_t mica_tokenizer_eos(const mica_tokenizer *tokenizer);
MICA_API int32_t mica_tokenizer_eot(const mica_tokenizer *tokenizer); /* end of a turn */
MICA_API int32_t mica_tokenizer_unk(const mica_tokenizer *tokenizer);
MICA_API int32_t mica_tokenizer_pad(const mica_tokenizer *tokenizer);

/* Every token that ends an answer: those the files name and the end of turn of the chat template.
 * Owned by the tokenizer; *n may be 0. */
MICA_API const int32_t *mica_tokenizer_end_tokens(const mica_tokenizer *tokenizer, int64_t *n);

/* Whether MICA_ENCODE_ADD_SPECIAL puts a token before, or one after, a text. */
MICA_API bool mica_tokenizer_adds_bos(const mica_tokenizer *tokenizer);
MICA_API bool mica_tokenizer_adds_eos(const mica_tokenizer *tokenizer);

/* The chat template with this name, NUL-terminated; name NULL: the default one. NULL when there is
 * none. */
MICA_API const char *mica_tokenizer_chat_template(const mica_tokenizer *tokenizer,
                                                  const char *name);

/* The name of the i-th chat template ("default" for the one without a name), NULL past the last. */
MICA_API const char *mica_tokenizer_chat_template_name(const mica_tokenizer *tokenizer, int i);

/* --- decoding --------------------------------------------------------------------------------- */

/* Turns ids into text piece by piece: what comes out is valid UTF-8 at every moment. */
typedef struct mica_token_decoder mica_token_decoder;

enum {
    MICA_DECODE_SKIP_SPECIAL = 1, /* leave out special tokens */
    MICA_DECODE_CONTINUE = 2      /* the ids continue a text: keep the space that a SentencePiece
                                   * vocabulary puts before the first word */
};

/* *out is owned by the caller (mica_token_decoder_free) and keeps `tokenizer`, which must live
 * longer. */
MICA_API mica_status mica_token_decoder_new(const mica_tokenizer *tokenizer, unsigned flags,
                                            mica_token_decoder **out);

/* Decodes n ids. *text is owned by the decoder, NUL-terminated, *length bytes, valid until the next
 * call: whole characters only, bytes that cannot become one are U+FFFD. Ids out of range are
 * MICA_E_ARGUMENT. length may be NULL. */
MICA_API mica_status mica_token_decoder_next(mica_token_decoder *decoder, const int32_t *ids,
                                             int64_t n, const char **text, int64_t *length);

/* The end: what is left of an unfinished character comes out as U+FFFD. Afterwards the decoder
 * starts anew. */
MICA_API mica_status mica_token_decoder_finish(mica_token_decoder *decoder, const char **text,
                                               int64_t *length);

/* Frees a decoder, whatever it holds; NULL is ignored. */
MICA_API void mica_token_decoder_free(mica_token_decoder *decoder);

#ifdef __cplusplus
}
#endif

#endif
