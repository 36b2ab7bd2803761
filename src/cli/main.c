/* main.c - the program's entry: finds the command, parses its line, runs it, reports.
 * SPDX-License-Identifier: MIT
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/interrupt.h"

static const command_spec *const commands[] = {
#define X(name) &name##_command,
    COMMANDS(X)
#undef X
};

const command_spec *command_at(int i)
{
    return i >= 0 && i < COUNT_OF(commands) ? commands[i] : NULL;
}

const command_spec *command_find(const char *name)
{
    for (int i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int show_version(void)
{
    puts("mica " MICA_VERSION);
    return fflush(stdout) == 0 ? 0 : fail_with(MICA_E_IO, "standard output", "cannot be written");
}

static int run_command(const command_spec *command, int argc, char **argv)
{
    parsed_line parsed;
    int exit_status = options_parse(command, argc, argv, &parsed);
    if (command->ends_at_once)
        interrupt_at_once(options_ask_for_json(argc, argv));
    if (!exit_status)
        exit_status = parsed.help      ? help_show(command, stdout)
                      : parsed.version ? show_version()
                                       : command->run(&parsed.arguments);
    options_free(&parsed);
    return exit_status;
}

/* Who types the bare name wants to know what there is; a script that does has a mistake in it. */
static int show_commands(void)
{
    help_overview(stderr);
    return EXIT_USAGE;
}

static int dispatch(int argc, char **argv, const command_spec **command)
{
    if (argc < 2)
        return show_commands();
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0)
        return show_version();
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help_overview(stdout);
    if (word[0] == '-')
        return fail_usage("'%s' stands before the command; options follow it", word);
    *command = command_find(word);
    if (!*command)
        return help_unknown_command(word);
    return run_command(*command, argc - 2, argv + 2);
}

/* A standard stream that the caller closed must not become the number of a file of ours. Its place
 * is taken: a missing input is at its end, a missing output is an error for who writes to it, and
 * what goes to a missing standard error is lost. */
static int take_missing_streams(void)
{
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY) != stream)
            return fail_with(MICA_E_IO, "/dev/null",
                             "cannot be opened in the place of a closed standard stream");
    return 0;
}

int main(int argc, char **argv)
{
    const command_spec *command = NULL;
    int exit_status = take_missing_streams();
    if (!exit_status) {
        interrupt_install();
        exit_status = dispatch(argc, argv, &command);
    }
    const bool json = options_ask_for_json(argc, argv);
    if (exit_status == EXIT_INTERRUPTED)
        report_interrupted(json);
    else if (exit_status)
        report_failure(command ? command->name : NULL, json);
    return exit_status == EXIT_INTERRUPTED && asked_to_end() ? EXIT_TERMINATED : exit_status;
}
