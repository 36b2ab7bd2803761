/* help.c - mica help, --help and what is said about unknown commands.
 * SPDX-License-Identifier: MIT
 */
#include "cli/help.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/failure.h"

#define WIDTH       80
#define NAME_INDENT 2
#define TEXT_INDENT 8

/* --- text ------------------------------------------------------------------------------------- */

/* Writes words wrapped to the width, every line indented. An empty line keeps paragraphs apart. */
static void wrap(FILE *out, const char *text, int indent)
{
    int column = 0;
    while (*text) {
        const size_t n = strcspn(text, " \n");
        if (column && column + 1 + (int)n > WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        if (n && !column) {
            fprintf(out, "%*s", indent, "");
            column = indent;
        } else if (n) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, n, out);
        column += (int)n;
        text += n;
        if (strncmp(text, "\n\n", 2) == 0) {
            fputs("\n\n", out);
            column = 0;
        }
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

static void show_option(const option_spec *option, FILE *out)
{
    fprintf(out, "%*s", NAME_INDENT, "");
    if (option->letter)
        fprintf(out, "-%c, ", option->letter);
    fprintf(out, "--%s", option->name);
    if (option->kind != OPTION_FLAG)
        fprintf(out, " %s", option->value);
    if (option->initial)
        fprintf(out, "  (default %s)", option->initial);
    fputc('\n', out);
    wrap(out, option->help, TEXT_INDENT);
}

static void show_usage(const command_spec *command, FILE *out)
{
    fprintf(out, "usage: mica %s%s%s", command->name, *command->operands ? " " : "",
            command->operands);
    fputs(" [options]\n", out);
}

static int written(FILE *out)
{
    return fflush(out) == 0 && !ferror(out)
               ? 0
               : fail_with(MICA_E_IO, "standard output", "cannot be written");
}

int help_show(const command_spec *command, FILE *out)
{
    fprintf(out, "mica %s - %s\n\n", command->name, command->summary);
    show_usage(command, out);
    fputc('\n', out);
    wrap(out, command->description, 0);
    for (int g = 0; g < command->n_groups; g++) {
        fprintf(out, "\n%s\n", command->groups[g].title);
        for (const option_spec *option = command->groups[g].options; option->name; option++)
            show_option(option, out);
    }
    if (command->examples)
        fputs("\nExamples\n", out);
    for (const command_example *example = command->examples; example && example->line; example++)
        fprintf(out, "%s  %s:\n      %s\n", example == command->examples ? "" : "\n", example->what,
                example->line);
    return written(out);
}

int help_overview(FILE *out)
{
    fputs("mica - run language models on this machine\n\n"
          "usage: mica COMMAND [options]\n\n",
          out);
    const command_spec *command;
    for (int i = 0; (command = command_at(i)) != NULL; i++)
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    fputs("\n'mica help COMMAND' or 'mica COMMAND --help' describes one of them.\n"
          "Exit status: 0 done, 1 failed, 2 bad usage, 130 interrupted, 143 terminated.\n",
          out);
    return written(out);
}

int help_unknown_command(const char *word)
{
    const char *names[64];
    int n = 0;
    for (const command_spec *command; n < 64 && (command = command_at(n)) != NULL; n++)
        names[n] = command->name;
    const char *near = nearest_word(word, names, n);
    if (near)
        return fail_usage("there is no command '%s'; did you mean '%s'?", word, near);
    return fail_usage("there is no command '%s'; 'mica help' lists them", word);
}

/* --- the command ------------------------------------------------------------------------------ */

typedef struct help_settings {
    bool man;
    const char *completion;
} help_settings;

static const option_spec help_options[] = {
    {"man", 0, OPTION_FLAG, offsetof(help_settings, man), NULL, NULL, 0, 0,
     "Writes the manual page in mdoc instead: of the command named, or the overview."},
    {"completion", 0, OPTION_TEXT, offsetof(help_settings, completion), "bash|zsh|fish", NULL, 0, 0,
     "Writes the completions for a shell instead."},
    {0}};

static int help(const arguments *given)
{
    const help_settings *settings = given->settings;
    const command_spec *command = NULL;
    if (given->n_operands) {
        command = command_find(given->operands[0]);
        if (!command)
            return help_unknown_command(given->operands[0]);
    }
    if (settings->completion) {
        if (!completion_write(settings->completion, stdout))
            return fail_usage("--completion '%s': bash, zsh or fish", settings->completion);
        return written(stdout);
    }
    if (settings->man) {
        man_page_write(command, stdout);
        return written(stdout);
    }
    return command ? help_show(command, stdout) : help_overview(stdout);
}

static const option_group groups[] = {{"Other forms", help_options, 0}};

static const command_example examples[] = {
    {"What generate takes", "mica help generate"},
    {"Completions for this shell", "source <(mica help --completion bash)"},
    {0}};

const command_spec help_command = {
    .name = "help",
    .summary = "describes a command",
    .description = "Shows the list of commands, or what one of them does and takes.",
    .operands = "[COMMAND]",
    .max_operands = 1,
    .groups = groups,
    .n_groups = COUNT_OF(groups),
    .examples = examples,
    .settings_size = sizeof(help_settings),
    .run = help,
};
