/* tokenizer_gguf.h - a tokenizer from a GGUF file that is open already.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_TOKENIZER_GGUF_H
#define MICA_TEXT_TOKENIZER_GGUF_H

#include <mica/tokenizer.h>

#include "io/gguf.h"

/* From the tokenizer keys of a GGUF file; nothing of the file is needed afterwards. */
mica_status mica__tokenizer_from_gguf(const mica__gguf *gguf, mica_tokenizer **out);

#endif
