/* help.h - help texts, manual pages and completions, all made from the commands' descriptions.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_HELP_H
#define MICA_CLI_HELP_H

#include <stdio.h>

#include "cli/options.h"

/* What --help shows; the list of commands. 0, or a failure to write. */
int help_show(const command_spec *command, FILE *out);
int help_overview(FILE *out);

/* Bad usage: there is no such command; near names are suggested. */
int help_unknown_command(const char *word);

/* man_page.c: a command's page in mdoc, or the overview's (command NULL). */
void man_page_write(const command_spec *command, FILE *out);

/* completion.c: a completion script for "bash", "zsh" or "fish"; false for other names. */
bool completion_write(const char *shell, FILE *out);

#endif
