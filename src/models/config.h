/* config.h - a model's configuration, whichever file it comes from, with account of what was read.
 *
 * Architectures ask for fields under one name; the config looks in config.json or in the GGUF keys.
 * Every field that was asked for is marked; what remains at the end and is not known to be harmless
 * is refused by name, so that nothing which changes the result is overlooked.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MODELS_CONFIG_H
#define MICA_MODELS_CONFIG_H

#include "io/gguf.h"
#include "io/json.h"
#include "models/decoder_spec.h"

typedef struct mica__config {
    const mica__json *json;        /* the text model's object, or NULL */
    const mica__gguf *gguf;        /* or NULL */
    char prefix[MICA__ARCH_BYTES]; /* GGUF: the architecture, before the dot */
    uint64_t *used;                /* bit per field in file order */
    int64_t n_fields;
} mica__config;

mica_status mica__config_from_json(const mica__json *object, mica__config *config);
mica_status mica__config_from_gguf(const mica__gguf *gguf, mica__config *config);
void mica__config_free(mica__config *config);

/* A field as an architecture names it: its Hugging Face key and its GGUF key (behind "arch."),
 * either may be NULL when that source never has it. */
typedef struct mica__field {
    const char *hf;
    const char *gguf;
} mica__field;

/* Whether the field is there and not null. Marks it as read. */
bool mica__config_has(mica__config *config, mica__field field);

/* Required when `fallback` is NULL; otherwise *fallback where the field is absent or null. The
 * failure names the key and what stands there. */
mica_status mica__config_int(mica__config *config, mica__field field, const int64_t *fallback,
                             int64_t min, int64_t max, int64_t *value);
mica_status mica__config_real(mica__config *config, mica__field field, const double *fallback,
                              double *value);
mica_status mica__config_bool(mica__config *config, mica__field field, bool fallback, bool *value);

/* Fails unless the field is absent, null, or equal to this text. */
mica_status mica__config_expect(mica__config *config, mica__field field, const char *text);

/* config.json only: the node under a key, or NULL; marks it. */
const mica__json *mica__config_node(mica__config *config, const char *key);

/* Refuses what nobody asked for, but for fields known not to change the result. */
mica_status mica__config_finish(const mica__config *config);

/* Reads rope: rope_theta with rope_scaling, or rope_parameters (flat, or by layer type under
 * `section`), or GGUF's rope.freq_base and rope.scaling.*. default_base 0: required. */
mica_status mica__config_rope(mica__config *config, const char *section, double default_base,
                              mica__rope_spec *rope);

#endif
