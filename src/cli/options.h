/* options.h - what a command takes, as data.
 *
 * A command is one constant description: its options with types, defaults and help, its operands,
 * examples and the function that runs it. The parser, --help, the manual pages and the shell
 * completions are all made from it, so there is no second list of options anywhere.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_OPTIONS_H
#define MICA_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an option's value is, and the C type of the field that takes it. */
typedef enum option_kind {
    OPTION_FLAG,     /* bool: given or not */
    OPTION_TEXT,     /* const char *, NULL when not given */
    OPTION_FILE,     /* the same, a path: shells complete it */
    OPTION_TEXTS,    /* text_list: may be given several times */
    OPTION_INTEGER,  /* int64_t */
    OPTION_REAL,     /* double */
    OPTION_SEED,     /* option_seed: 0 to 2^64 - 1, "random" or -1 */
    OPTION_SIZE,     /* int64_t: bytes, with K M G Ki Mi Gi */
    OPTION_CHOICE,   /* int: which of the words in `value` */
    OPTION_INTEGERS, /* integer_list: separated by commas */
    OPTION_CHOICES   /* integer_list: words separated by commas */
} option_kind;

#define MAX_LIST 64

typedef struct text_list {
    const char *items[MAX_LIST];
    int n;
} text_list;

typedef struct integer_list {
    int64_t items[MAX_LIST];
    int n;
} integer_list;

typedef struct option_seed {
    uint64_t value;
    bool random; /* one is to be drawn */
} option_seed;

typedef struct option_spec {
    const char *name; /* without dashes */
    char letter;      /* its short form, or 0 */
    option_kind kind;
    size_t offset;       /* of the field in the group's structure */
    const char *value;   /* what stands for the value in help; the words of a choice: "a|b" */
    const char *initial; /* the default as a user would write it, or NULL */
    double low, high;    /* the range of numbers; both 0: any */
    const char *help;    /* full sentences, with units */
} option_spec;

/* Options that several commands share, and where their structure is in a command's own. */
typedef struct option_group {
    const char *title;
    const option_spec *options; /* ends with one without a name */
    size_t base;
} option_group;

typedef struct command_example {
    const char *what, *line;
} command_example;

typedef struct arguments {
    void *settings; /* the command's own structure, filled */
    const char *const *operands;
    int n_operands;
    const option_spec *const *given; /* options on the command line */
    int n_given;
} arguments;

typedef struct command_spec {
    const char *name;
    const char *summary;     /* completes "mica NAME - ..." */
    const char *description; /* paragraphs separated by an empty line */
    const char *operands;    /* as usage shows them, "" for none */
    int min_operands, max_operands;
    const char *operand_words; /* "a|b" when the first operand is one of these, else NULL */
    const option_group *groups;
    int n_groups;
    const command_example *examples; /* ends with an empty one */
    bool ends_at_once; /* a signal ends it wherever it is: it leaves nothing half done */
    size_t settings_size;
    int (*run)(const arguments *given);
} command_spec;

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Parses what follows the command's name. The structure behind `settings` (settings_size bytes) is
 * set to the defaults, then to what was given. *operands and *given are owned by the caller's
 * `parsed`, which options_free ends. 0 or EXIT_USAGE with the failure recorded. *help is set, and
 * nothing else looked at, when --help is among the options. */
typedef struct parsed_line {
    arguments arguments;
    const char **operands;
    const option_spec **given;
    bool help, version;
} parsed_line;

int options_parse(const command_spec *command, int argc, char *const *argv, parsed_line *parsed);
void options_free(parsed_line *parsed);

/* Whether an option of this name was on the command line. */
bool option_given(const arguments *given, const char *name);

/* How many times it was. */
int option_times(const arguments *given, const char *name);

/* Whether --json is among the words, looked for before they are parsed. */
bool options_ask_for_json(int argc, char *const *argv);

/* The word nearest to what was typed, among n words with a stride in bytes from first, or NULL
 * when none is near. */
const char *nearest_word(const char *typed, const char *const *words, int n);

/* The index-th word of "a|b|c", its length in *n; NULL past the last. */
const char *choice_word(const char *choices, int index, int *n);

#endif
