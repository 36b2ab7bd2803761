/* commands.h - every command that there is; the one list of them.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_COMMANDS_H
#define MICA_CLI_COMMANDS_H

#include "cli/options.h"

/* In the order in which help shows them. */
#define COMMANDS(X)                                                                                \
    X(generate)                                                                                    \
    X(chat)                                                                                        \
    X(tokenize)                                                                                    \
    X(inspect)                                                                                     \
    X(plan)                                                                                        \
    X(eval)                                                                                        \
    X(bench)                                                                                       \
    X(help)

#define X(name) extern const command_spec name##_command;
COMMANDS(X)
#undef X

/* The command of this name, or NULL. */
const command_spec *command_find(const char *name);

/* The i-th command, NULL past the last. */
const command_spec *command_at(int i);

#endif
