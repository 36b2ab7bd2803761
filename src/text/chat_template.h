/* chat_template.h - rendering with a whole context at once, for tests and fuzzing.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_TEXT_CHAT_TEMPLATE_H
#define MICA_TEXT_CHAT_TEMPLATE_H

#include <mica/chat_template.h>

/* As mica_chat_template_render, but context_json[0, n) is an object of all variables and nothing is
 * added to it: a name that it lacks is undefined. Its bos_token and eos_token count as the
 * prompt's, all else is plain. */
mica_status mica__chat_template_render_context(const mica_chat_template *chat_template,
                                               const char *context_json, size_t n, int64_t now,
                                               mica_chat_text *text);

#endif
