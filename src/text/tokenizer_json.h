/* tokenizer_json.h - the members of tokenizer.json besides vocabulary and merges.
 *
 * Each function reads one member into the tokenizer. A type or an option that changes ids and is
 * not implemented is refused by its name.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_TOKENIZER_JSON_H
#define MICA_TEXT_TOKENIZER_JSON_H

#include "text/tokenizer_parts.h"

mica_status mica__json_check_model(const mica__json *model);
mica_status mica__json_apply_model(const mica__json *model, mica_tokenizer *t);
mica_status mica__json_apply_added(const mica__json *list, mica_tokenizer *t);
mica_status mica__json_apply_normalizer(const mica__json *normalizer, mica_tokenizer *t);
mica_status mica__json_apply_pre_tokenizer(const mica__json *pre, mica_tokenizer *t);
mica_status mica__json_apply_decoder(const mica__json *decoder, mica_tokenizer *t);

/* *has_template: the processor says what goes before and after a text. */
mica_status mica__json_apply_post_processor(const mica__json *processor, mica_tokenizer *t,
                                            bool *has_template);

/* Members of an object; the fallback where it is absent or null, MICA_E_FORMAT where its type is
 * another. */
mica_status mica__json_bool(const mica__json *object, const char *key, bool fallback, bool *value);
mica_status mica__json_text(const mica__json *object, const char *key, const char **value);

/* One entry of added_tokens or added_tokens_decoder without its id. */
mica_status mica__json_added_flags(const mica__json *entry, mica__added_flags *flags);

#endif
