/* man_page.c - manual pages in mdoc from the commands' descriptions.
 * SPDX-License-Identifier: MIT
 */
#include <ctype.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/settings.h"

/* Text inside a macro line or at the start of a line: what roff would read as its own is escaped.
 */
static void write_escaped(const char *text, size_t n, bool in_macro, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '"' && in_macro)
            fputs("\\(dq", out);
        else if ((text[i] == '.' || text[i] == '\'') && i == 0)
            fprintf(out, "\\&%c", text[i]);
        else if (text[i] == '-' && in_macro)
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
}

/* One sentence a line, as mdoc wants it; an empty line begins a paragraph. */
static void write_text(const char *text, FILE *out)
{
    while (*text) {
        size_t n = 0;
        while (text[n] && strncmp(text + n, ". ", 2) != 0 && strncmp(text + n, "\n\n", 2) != 0)
            n++;
        const bool sentence = text[n] == '.';
        n += sentence;
        write_escaped(text, n, false, out);
        fputc('\n', out);
        text += n;
        if (strncmp(text, "\n\n", 2) == 0)
            fputs(".Pp\n", out);
        text += strspn(text, " \n");
    }
}

static void write_argument(const char *macro, const char *text, FILE *out)
{
    fprintf(out, " %s \"", macro);
    write_escaped(text, strlen(text), true, out);
    fputc('"', out);
}

static void write_option(const option_spec *option, FILE *out)
{
    fputs(".It", out);
    if (option->letter)
        fprintf(out, " Fl %c ,", option->letter);
    fputs(" Fl \"\\-", out);
    write_escaped(option->name, strlen(option->name), true, out);
    fputc('"', out);
    if (option->kind != OPTION_FLAG)
        write_argument("Ar", option->value, out);
    fputc('\n', out);
    write_text(option->help, out);
    if (option->initial) {
        fputs("The default is", out);
        fputc('\n', out);
        fputs(".Ql", out);
        fputs(" \"", out);
        write_escaped(option->initial, strlen(option->initial), true, out);
        fputs("\" .\n", out);
    }
}

static void write_head(const char *page, const char *summary, FILE *out)
{
    fprintf(out,
            ".\\\" mica%s%s.1 - made by 'mica help%s%s --man'.\n"
            ".\\\" SPDX-License-Identifier: MIT\n"
            ".Dd December 1, 2026\n.Dt MICA",
            page ? "-" : "", page ? page : "", page ? " " : "", page ? page : "");
    if (page) {
        fputc('-', out);
        for (const char *at = page; *at; at++)
            fputc(toupper((unsigned char)*at), out);
    }
    fprintf(out, " 1\n.Os mica\n.Sh NAME\n.Nm mica%s%s\n.Nd %s\n", page ? "-" : "",
            page ? page : "", summary);
}

static void write_options(const char *title, const option_spec *options, FILE *out)
{
    fprintf(out, ".Ss %s\n.Bl -tag -width Ds\n", title);
    for (const option_spec *option = options; option->name; option++)
        write_option(option, out);
    fputs(".El\n", out);
}

static void write_examples(const command_spec *command, FILE *out)
{
    if (!command->examples)
        return;
    fputs(".Sh EXAMPLES\n", out);
    for (const command_example *example = command->examples; example->line; example++) {
        if (example != command->examples)
            fputs(".Pp\n", out);
        fprintf(out, "%s:\n.Pp\n.Dl \"", example->what);
        write_escaped(example->line, strlen(example->line), true, out);
        fputs("\"\n", out);
    }
}

static const char exit_status[] = ".Sh EXIT STATUS\n"
                                  "0 when done, 1 when it failed, 2 for bad usage, 130 after "
                                  "Ctrl-C or SIGTERM.\n";

static void write_overview(FILE *out)
{
    const command_spec *command;
    write_head(NULL, "run language models on this machine", out);
    fputs(".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar options\n.Nm\n.Cm help\n.Op Ar command\n.Nm\n"
          ".Fl \"\\-version\"\n.Sh DESCRIPTION\n.Nm\n"
          "generates text with language models, talks to them and shows what they are made of.\n"
          "It reads GGUF files and folders with safetensors files as they are, maps them instead "
          "of copying them, and never takes more memory than it was allowed.\n"
          ".Pp\nThe commands are:\n.Bl -tag -width tokenize\n",
          out);
    for (int i = 0; (command = command_at(i)) != NULL; i++)
        fprintf(out, ".It Cm %s\n%s.\n", command->name, command->summary);
    fputs(".El\n.Sh COMMON OPTIONS\nMost commands take these.\n", out);
    write_options("Model", model_options, out);
    write_options("Computing", compute_options, out);
    write_options("Keys and values", engine_options, out);
    write_options("Output", output_options, out);
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
          ".It Ev MICA_ISA\nCaps the processor's feature level: scalar, avx2, avx512 or neon.\n"
          "Results do not depend on it.\n"
          ".It Ev MICA_CACHE_DIR\nWhere models are looked for by name.\n"
          "The default is mica/models in\n.Ev XDG_CACHE_HOME\nor ~/.cache.\n"
          ".It Ev HF_HUB_CACHE , HF_HOME\nWhere the Hugging Face cache is, which is looked at "
          "next.\n.El\n",
          out);
    fputs(exit_status, out);
    fputs(".Sh EXAMPLES\nContinue a story with the built-in model:\n.Pp\n"
          ".Dl \"mica generate \\-\\-prompt \\(dqOnce upon a time\\(dq\"\n.Pp\n"
          "Talk to a model in at most 2 GB:\n.Pp\n"
          ".Dl \"mica chat \\-\\-model model.gguf \\-\\-memory\\-limit 2G\"\n",
          out);
    fputs(".Sh SEE ALSO\n", out);
    for (int i = 0; (command = command_at(i)) != NULL; i++)
        fprintf(out, ".Xr mica-%s 1%s\n", command->name, command_at(i + 1) ? " ," : "");
}

void man_page_write(const command_spec *command, FILE *out)
{
    if (!command) {
        write_overview(out);
        return;
    }
    write_head(command->name, command->summary, out);
    fprintf(out, ".Sh SYNOPSIS\n.Nm mica %s\n", command->name);
    if (*command->operands) {
        fputs(".Ar \"", out);
        write_escaped(command->operands, strlen(command->operands), true, out);
        fputs("\"\n", out);
    }
    fputs(".Op Ar options\n.Sh DESCRIPTION\n", out);
    write_text(command->description, out);
    fputs(".Sh OPTIONS\n", out);
    for (int g = 0; g < command->n_groups; g++)
        write_options(command->groups[g].title, command->groups[g].options, out);
    fputs(exit_status, out);
    write_examples(command, out);
    fputs(".Sh SEE ALSO\n.Xr mica 1\n", out);
}
