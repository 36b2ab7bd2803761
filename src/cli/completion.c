/* completion.c - shell completions from the commands' descriptions.
 * SPDX-License-Identifier: MIT
 */
#include <string.h>

#include "cli/commands.h"
#include "cli/help.h"

static bool takes_file(const option_spec *option)
{
    return option->kind == OPTION_FILE;
}

static bool takes_words(const option_spec *option)
{
    return option->kind == OPTION_CHOICE || option->kind == OPTION_CHOICES;
}

/* Words of "a|b" separated by spaces. */
static void write_words(const char *words, FILE *out)
{
    for (; *words; words++)
        fputc(*words == '|' ? ' ' : *words, out);
}

/* The first sentence, without its full stop and without what a shell's quotes would end. */
static void write_brief(const char *text, const char *escaped, FILE *out)
{
    for (size_t i = 0; text[i] && strncmp(text + i, ". ", 2) != 0; i++) {
        if (text[i] == '.' && !text[i + 1])
            return;
        if (text[i] == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(escaped, text[i]))
            fputc('\\', out);
        fputc(text[i], out);
    }
}

static void write_commands(FILE *out)
{
    const command_spec *command;
    for (int i = 0; (command = command_at(i)) != NULL; i++)
        fprintf(out, "%s%s", i ? " " : "", command->name);
}

/* --- bash ------------------------------------------------------------------------------------- */

static void bash_command(const command_spec *command, FILE *out)
{
    fprintf(out, "    %s)\n        options='", command->name);
    for (int g = 0; g < command->n_groups; g++)
        for (const option_spec *option = command->groups[g].options; option->name; option++)
            fprintf(out, "%s--%s", g || option != command->groups[0].options ? " " : "",
                    option->name);
    fputs("'\n        case $before in\n", out);
    for (int g = 0; g < command->n_groups; g++)
        for (const option_spec *option = command->groups[g].options; option->name; option++) {
            if (option->kind == OPTION_FLAG)
                continue;
            fprintf(out, "        --%s", option->name);
            if (option->letter)
                fprintf(out, "|-%c", option->letter);
            fputs(") ", out);
            if (takes_file(option))
                fputs("files=yes", out);
            else {
                fputs("words='", out);
                if (takes_words(option))
                    write_words(option->value, out);
                fputs("' given=yes", out);
            }
            fputs(" ;;\n", out);
        }
    fputs("        esac", out);
    if (command->operand_words) {
        fputs("\n        operands='", out);
        write_words(command->operand_words, out);
        fputc('\'', out);
    } else if (strcmp(command->name, "help") == 0) {
        fputs("\n        operands='", out);
        write_commands(out);
        fputc('\'', out);
    }
    fputs(" ;;\n", out);
}

static void bash(FILE *out)
{
    const command_spec *command;
    fputs("# mica.bash - completions, made by 'mica help --completion bash'.\n"
          "# SPDX-License-Identifier: MIT\n"
          "_mica() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local options='' words='' operands='' files=no given=no\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          out);
    write_commands(out);
    fputs(" --help --version' -- \"$current\"))\n        return\n    fi\n"
          "    case ${COMP_WORDS[1]} in\n",
          out);
    for (int i = 0; (command = command_at(i)) != NULL; i++)
        bash_command(command, out);
    fputs("    *) return ;;\n    esac\n"
          "    if [ $given = yes ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "    elif [ $files = no ] && [ \"${current#-}\" != \"$current\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
          "    elif [ -n \"$operands\" ] && [ $files = no ]; then\n"
          "        COMPREPLY=($(compgen -W \"$operands\" -- \"$current\"))\n"
          "    else\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _mica mica\n",
          out);
}

/* --- zsh -------------------------------------------------------------------------------------- */

static void zsh_option(const option_spec *option, FILE *out)
{
    fprintf(out, "            '%s--%s%s[", option->kind == OPTION_TEXTS ? "*" : "", option->name,
            option->kind == OPTION_FLAG ? "" : "=");
    write_brief(option->help, "[]:\\", out);
    fputc(']', out);
    if (option->kind != OPTION_FLAG) {
        fputs(":value:", out);
        if (takes_file(option))
            fputs("_files", out);
        if (takes_words(option)) {
            fputc('(', out);
            write_words(option->value, out);
            fputc(')', out);
        }
    }
    fputs("' \\\n", out);
}

static void zsh(FILE *out)
{
    const command_spec *command;
    fputs("#compdef mica\n"
          "# _mica - completions, made by 'mica help --completion zsh'.\n"
          "# SPDX-License-Identifier: MIT\n"
          "_mica() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (int i = 0; (command = command_at(i)) != NULL; i++) {
        fprintf(out, "        '%s:", command->name);
        write_brief(command->summary, ":\\", out);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local name=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $name in\n",
          out);
    for (int i = 0; (command = command_at(i)) != NULL; i++) {
        fprintf(out, "    %s)\n        _arguments -s \\\n", command->name);
        for (int g = 0; g < command->n_groups; g++)
            for (const option_spec *option = command->groups[g].options; option->name; option++)
                zsh_option(option, out);
        if (strcmp(command->name, "help") == 0) {
            fputs("            '*:command:(", out);
            write_commands(out);
            fputs(")'", out);
        } else if (command->operand_words) {
            fputs("            '1:what:(", out);
            write_words(command->operand_words, out);
            fputs(")'", out);
        } else {
            fputs("            '*:file:_files'", out);
        }
        fputs(" ;;\n", out);
    }
    fputs("    esac\n}\n_mica \"$@\"\n", out);
}

/* --- fish ------------------------------------------------------------------------------------- */

static void fish_option(const command_spec *command, const option_spec *option, FILE *out)
{
    fprintf(out, "complete -c mica -n '__fish_seen_subcommand_from %s' -l %s", command->name,
            option->name);
    if (option->letter)
        fprintf(out, " -s %c", option->letter);
    if (option->kind != OPTION_FLAG)
        fputs(takes_file(option) ? " -rF" : " -x", out);
    if (takes_words(option)) {
        fputs(" -a '", out);
        write_words(option->value, out);
        fputc('\'', out);
    }
    fputs(" -d '", out);
    write_brief(option->help, "\\", out);
    fputs("'\n", out);
}

static void fish(FILE *out)
{
    const command_spec *command;
    fputs("# mica.fish - completions, made by 'mica help --completion fish'.\n"
          "# SPDX-License-Identifier: MIT\n",
          out);
    for (int i = 0; (command = command_at(i)) != NULL; i++) {
        fprintf(out, "complete -c mica -n __fish_use_subcommand -f -a %s -d '", command->name);
        write_brief(command->summary, "\\", out);
        fputs("'\n", out);
        if (command->operand_words || strcmp(command->name, "help") == 0) {
            fprintf(out, "complete -c mica -n '__fish_seen_subcommand_from %s' -f -a '",
                    command->name);
            if (command->operand_words)
                write_words(command->operand_words, out);
            else
                write_commands(out);
            fputs("'\n", out);
        }
        for (int g = 0; g < command->n_groups; g++)
            for (const option_spec *option = command->groups[g].options; option->name; option++)
                fish_option(command, option, out);
    }
}

bool completion_write(const char *shell, FILE *out)
{
    static const struct {
        const char *name;
        void (*write)(FILE *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (int i = 0; i < COUNT_OF(shells); i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].write(out);
            return true;
        }
    return false;
}
