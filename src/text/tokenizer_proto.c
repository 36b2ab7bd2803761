/* tokenizer_proto.c - tokenizer.model, SentencePiece's protocol buffer.
 *
 * Read field by field; what a field says is in sentencepiece_model.proto. Fields that do not change
 * ids are passed over, model types other than BPE are refused by name.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "base/bytes.h"
#include "text/tokenizer_parts.h"

/* Field numbers. */
enum {
    MODEL_PIECE = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    PIECE_TEXT = 1,
    PIECE_SCORE = 2,
    PIECE_TYPE = 3,
    TRAINER_TYPE = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_UNK = 40,
    TRAINER_BOS = 41,
    TRAINER_EOS = 42,
    TRAINER_PAD = 43,
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_PREFIX = 3,
    NORMALIZER_EXTRA_SPACES = 4,
    NORMALIZER_ESCAPE = 5
};

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* One field: its number, and its value or its bytes. */
typedef struct field {
    uint32_t number;
    int wire;
    uint64_t value;
    const char *bytes;
    int64_t n;
} field;

typedef struct span {
    const char *bytes;
    int64_t n;
    int64_t at;
} span;

static mica_status truncated(const span *s, const char *what)
{
    MICA_FAIL(MICA_E_FORMAT, "tokenizer.model is damaged: %s at byte %lld of a message of %lld",
              what, (long long)s->at, (long long)s->n);
}

static mica_status read_varint(span *s, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (s->at >= s->n)
            return truncated(s, "it ends inside a number");
        const uint8_t byte = (uint8_t)s->bytes[s->at++];
        if (shift == 63 && byte > 1)
            break;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return MICA_OK;
    }
    return truncated(s, "a number of over 64 bits");
}

/* The next field; *got false at the end of the message. */
static mica_status next_field(span *s, field *f, bool *got)
{
    uint64_t tag, length;
    *got = s->at < s->n;
    if (!*got)
        return MICA_OK;
    MICA_TRY(read_varint(s, &tag));
    f->number = (uint32_t)(tag >> 3);
    f->wire = (int)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return truncated(s, "a field number out of range");
    switch (f->wire) {
    case WIRE_VARINT:
        return read_varint(s, &f->value);
    case WIRE_64:
    case WIRE_32: {
        const int64_t n = f->wire == WIRE_64 ? 8 : 4;
        if (s->n - s->at < n)
            return truncated(s, "it ends inside a number");
        f->value = n == 8 ? mica__load_u64(s->bytes + s->at) : mica__load_u32(s->bytes + s->at);
        s->at += n;
        return MICA_OK;
    }
    case WIRE_BYTES:
        MICA_TRY(read_varint(s, &length));
        if (length > (uint64_t)(s->n - s->at))
            return truncated(s, "a text or message longer than what is left");
        f->bytes = s->bytes + s->at;
        f->n = (int64_t)length;
        s->at += f->n;
        return MICA_OK;
    default:
        return truncated(s, "an unknown kind of field");
    }
}

bool mica__looks_like_proto(const char *bytes, int64_t n)
{
    /* A list of pieces: field 1, a message; tiktoken lines begin with base64. */
    return n > 2 && bytes[0] == 0x0a && (uint8_t)bytes[1] < 0x80 && bytes[2] == 0x0a;
}

/* --- messages --------------------------------------------------------------------------------- */

typedef struct model {
    mica_tokenizer *t;
    int64_t n_pieces;
    int64_t type; /* 1 unigram, 2 BPE, 3 word, 4 char */
    int64_t unk, bos, eos, pad;
    bool maps_characters;
    mica__sentencepiece options;
} model;

static mica_status wrong_wire(const field *f)
{
    MICA_FAIL(MICA_E_FORMAT, "tokenizer.model is damaged: field %u is of kind %d",
              (unsigned)f->number, f->wire);
}

static float as_float(uint64_t value)
{
    const uint32_t bits = (uint32_t)value;
    return mica__load_f32(&bits);
}

mica_status mica__piece_kind(int64_t type, int64_t id, mica_token_kind *kind)
{
    static const mica_token_kind kinds[] = {MICA_TOKEN_NORMAL,  MICA_TOKEN_UNKNOWN,
                                            MICA_TOKEN_CONTROL, MICA_TOKEN_ADDED,
                                            MICA_TOKEN_UNUSED,  MICA_TOKEN_BYTE};
    if (type < 1 || type > 6)
        MICA_FAIL(MICA_E_FORMAT, "token %lld has the unknown type %lld", (long long)id,
                  (long long)type);
    *kind = kinds[type - 1];
    return MICA_OK;
}

mica_status mica__put_piece(mica_tokenizer *t, int64_t id, const char *text, int64_t n,
                            mica_token_kind kind, float score)
{
    uint32_t rank = MICA__NO_RANK;
    if (kind == MICA_TOKEN_NORMAL || kind == MICA_TOKEN_ADDED || kind == MICA_TOKEN_UNUSED)
        MICA_TRY(mica__score_rank(score, &rank));
    MICA_TRY(mica__vocab_set(&t->vocab, id, text, n, kind, rank));
    return MICA_OK;
}

static mica_status read_piece(model *m, span s)
{
    const char *text = "";
    int64_t n = 0;
    uint64_t type = 1;
    float score = 0;
    for (;;) {
        field f;
        bool got;
        MICA_TRY(next_field(&s, &f, &got));
        if (!got)
            break;
        if (f.number == PIECE_TEXT && f.wire == WIRE_BYTES) {
            text = f.bytes;
            n = f.n;
        } else if (f.number == PIECE_SCORE && f.wire == WIRE_32) {
            score = as_float(f.value);
        } else if (f.number == PIECE_TYPE && f.wire == WIRE_VARINT) {
            type = f.value;
        } else if (f.number <= PIECE_TYPE) {
            return wrong_wire(&f);
        }
    }
    const int64_t id = m->n_pieces++;
    mica_token_kind kind = MICA_TOKEN_NORMAL;
    MICA_TRY(mica__piece_kind((int64_t)type, id, &kind));
    if (n == 0)
        MICA_FAIL(MICA_E_FORMAT, "piece %lld of tokenizer.model is empty", (long long)id);
    return mica__put_piece(m->t, id, text, n, kind, score);
}

static mica_status read_trainer(model *m, span s)
{
    const struct {
        uint32_t number;
        int64_t *value;
    } numbers[] = {{TRAINER_TYPE, &m->type},
                   {TRAINER_UNK, &m->unk},
                   {TRAINER_BOS, &m->bos},
                   {TRAINER_EOS, &m->eos},
                   {TRAINER_PAD, &m->pad}};
    for (;;) {
        field f;
        bool got;
        MICA_TRY(next_field(&s, &f, &got));
        if (!got)
            return MICA_OK;
        if (f.number == TRAINER_SUFFIX && f.value)
            MICA_FAIL(MICA_E_UNSUPPORTED,
                      "tokenizer.model marks spaces behind words, which is not supported");
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            if (f.number != numbers[i].number)
                continue;
            if (f.wire != WIRE_VARINT)
                return wrong_wire(&f);
            *numbers[i].value = (int64_t)f.value;
        }
    }
}

static mica_status read_normalizer(model *m, span s)
{
    const struct {
        uint32_t number;
        bool *value;
    } flags[] = {{NORMALIZER_PREFIX, &m->options.dummy_prefix},
                 {NORMALIZER_EXTRA_SPACES, &m->options.remove_extra_spaces},
                 {NORMALIZER_ESCAPE, &m->options.escape_spaces}};
    for (;;) {
        field f;
        bool got;
        MICA_TRY(next_field(&s, &f, &got));
        if (!got)
            return MICA_OK;
        if (f.number == NORMALIZER_CHARSMAP && f.wire == WIRE_BYTES && f.n > 0)
            m->maps_characters = true;
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
            if (f.number != flags[i].number)
                continue;
            if (f.wire != WIRE_VARINT)
                return wrong_wire(&f);
            *flags[i].value = f.value != 0;
        }
    }
}

static mica_status read_model(model *m, span s)
{
    for (;;) {
        field f;
        bool got;
        MICA_TRY(next_field(&s, &f, &got));
        if (!got)
            return MICA_OK;
        if (f.number < MODEL_PIECE || f.number > MODEL_NORMALIZER)
            continue;
        if (f.wire != WIRE_BYTES)
            return wrong_wire(&f);
        const span inner = {f.bytes, f.n, 0};
        if (f.number == MODEL_PIECE)
            MICA_TRY(read_piece(m, inner));
        else if (f.number == MODEL_TRAINER)
            MICA_TRY(read_trainer(m, inner));
        else
            MICA_TRY(read_normalizer(m, inner));
    }
}

static mica_status check_type(const model *m)
{
    static const char *const names[] = {"Unigram", "BPE", "Word", "Char"};
    if (m->type < 1 || m->type > 4)
        MICA_FAIL(MICA_E_FORMAT, "tokenizer.model has the unknown model type %lld",
                  (long long)m->type);
    if (m->type != 2)
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "tokenizer.model is a SentencePiece %s model, which is not supported yet",
                  names[m->type - 1]);
    if (m->maps_characters)
        MICA_FAIL(MICA_E_UNSUPPORTED, "tokenizer.model maps characters before it splits "
                                      "(precompiled_charsmap), which is not supported yet");
    return MICA_OK;
}

/* Pieces that are found as a whole; user-defined ones inside the normalised text. */
mica_status mica__put_special_pieces(mica_tokenizer *t, bool normalized)
{
    for (int32_t id = 0; id < t->vocab.n; id++) {
        const mica_token_kind kind = (mica_token_kind)t->vocab.kind[id];
        const bool special = kind == MICA_TOKEN_CONTROL || kind == MICA_TOKEN_UNKNOWN;
        if (!special && kind != MICA_TOKEN_ADDED)
            continue;
        if (!mica__tokenizer_is_added(t, id))
            MICA_TRY(mica__tokenizer_note_added(
                t,
                (mica__added){.id = id, .special = special, .normalized = normalized && !special}));
    }
    return MICA_OK;
}

static int32_t role(const mica_tokenizer *t, int64_t id)
{
    return id >= 0 && id < t->vocab.n ? (int32_t)id : -1;
}

static mica_status proto_into(model *m, const char *bytes, int64_t n,
                              const mica__model_config *config)
{
    mica_tokenizer *t = m->t;
    bool any;
    MICA_TRY(read_model(m, (span){bytes, n, 0}));
    MICA_TRY(check_type(m));
    m->options.prefix_first_only = mica__model_config_new_prefix(config);
    MICA_TRY(mica__tokenizer_find_bytes(t, false));
    MICA_TRY(mica__model_config_put_added(config, t, &any));
    MICA_TRY(mica__tokenizer_index(t));
    MICA_TRY(mica__tokenizer_set_sentencepiece(t, m->options));
    MICA_TRY(mica__put_special_pieces(t, true));
    t->unk = t->bpe.unknown = role(t, m->unk);
    t->bos = role(t, m->bos);
    t->eos = role(t, m->eos);
    t->pad = role(t, m->pad);
    mica__tokenizer_add_flags(t, true, false);
    MICA_TRY(mica__model_config_apply(config, t, false));
    return mica__tokenizer_finish(t);
}

mica_status mica__tokenizer_from_proto(const char *bytes, int64_t n,
                                       const mica__model_config *config, mica_tokenizer **out)
{
    model m = {
        .type = 1,
        .unk = 0,
        .bos = 1,
        .eos = 2,
        .pad = -1,
        .options = {.dummy_prefix = true, .remove_extra_spaces = true, .escape_spaces = true}};
    MICA_TRY(mica__tokenizer_new(&m.t));
    const mica_status status = proto_into(&m, bytes, n, config);
    if (status == MICA_OK)
        *out = m.t;
    else
        mica_tokenizer_free(m.t);
    return status;
}
