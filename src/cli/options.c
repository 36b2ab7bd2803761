/* options.c - the one parser of command lines.
 *
 * --name VALUE, --name=VALUE, -l VALUE, -lVALUE; options and operands in any order; "--" ends the
 * options. Numbers are read the same in every locale.
 * SPDX-License-Identifier: MIT
 */
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

#include <mica/number.h>

#include "cli/failure.h"

#define MAX_WORDS 256

/* --- near words ------------------------------------------------------------------------------- */

#define MAX_WORD 40

/* Edits (insert, delete, replace, swap neighbours) between two words. */
static int distance(const char *a, const char *b)
{
    const int n = (int)strlen(a), m = (int)strlen(b);
    int rows[3][MAX_WORD + 1];
    if (n > MAX_WORD || m > MAX_WORD)
        return MAX_WORD;
    int *before = rows[0], *last = rows[1], *row = rows[2];
    for (int j = 0; j <= m; j++)
        last[j] = j;
    for (int i = 1; i <= n; i++) {
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        int *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

const char *nearest_word(const char *typed, const char *const *words, int n)
{
    const char *nearest = NULL;
    int best = (int)strlen(typed) / 3 + 1;
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(typed);
        int d = distance(typed, words[i]);
        if (length >= 3 && strncmp(typed, words[i], length) == 0)
            d = 1;
        if (d <= best && (!nearest || d < best)) {
            best = d;
            nearest = words[i];
        }
    }
    return nearest;
}

const char *choice_word(const char *choices, int index, int *n)
{
    for (int i = 0; i < index; i++) {
        choices = strchr(choices, '|');
        if (!choices)
            return NULL;
        choices++;
    }
    const char *end = strchr(choices, '|');
    *n = (int)(end ? end - choices : (long)strlen(choices));
    return choices;
}

/* --- finding options -------------------------------------------------------------------------- */

static const option_spec *find(const command_spec *command, const char *name, size_t n, char letter,
                               size_t *base)
{
    for (int g = 0; g < command->n_groups; g++)
        for (const option_spec *option = command->groups[g].options; option->name; option++) {
            const bool found = name ? strlen(option->name) == n && !memcmp(option->name, name, n)
                                    : option->letter == letter;
            if (found) {
                *base = command->groups[g].base;
                return option;
            }
        }
    return NULL;
}

static int unknown_option(const command_spec *command, const char *word)
{
    const char *names[MAX_WORDS];
    char typed[MAX_WORD + 1];
    int n = 0;
    size_t length = strcspn(word + 2, "=");
    if (length > MAX_WORD)
        length = MAX_WORD;
    memcpy(typed, word + 2, length);
    typed[length] = '\0';
    for (int g = 0; g < command->n_groups; g++)
        for (const option_spec *option = command->groups[g].options; option->name && n < MAX_WORDS;
             option++)
            names[n++] = option->name;
    const char *near = nearest_word(typed, names, n);
    if (near)
        return fail_usage("there is no option --%s; did you mean --%s?", typed, near);
    return fail_usage("there is no option --%s", typed);
}

/* --- values ----------------------------------------------------------------------------------- */

static int bad_value(const option_spec *option, const char *value, const char *wanted)
{
    return fail_usage("--%s '%s': %s", option->name, value, wanted);
}

static int check_range(const option_spec *option, const char *value, double number)
{
    char low[MICA_NUMBER_TEXT_BYTES], high[MICA_NUMBER_TEXT_BYTES];
    if ((option->low == 0 && option->high == 0) ||
        (number >= option->low && number <= option->high))
        return 0;
    mica_number_format(low, option->low);
    mica_number_format(high, option->high);
    if (option->high >= 1e15)
        return fail_usage("--%s '%s': at least %s", option->name, value, low);
    return fail_usage("--%s '%s': from %s to %s", option->name, value, low, high);
}

static int read_integer(const option_spec *option, const char *value, size_t n, int64_t *number)
{
    if (!mica_integer_parse(value, n, number))
        return bad_value(option, value, "a whole number is needed");
    return check_range(option, value, (double)*number);
}

/* All of text as digits up to 2^64 - 1. */
static bool read_unsigned(const char *text, uint64_t *number)
{
    uint64_t made = 0;
    for (const char *at = text; *at; at++) {
        const unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9 || made > (UINT64_MAX - digit) / 10)
            return false;
        made = 10 * made + digit;
    }
    *number = made;
    return *text != '\0';
}

static int read_seed(const option_spec *option, const char *value, option_seed *seed)
{
    seed->random = strcmp(value, "random") == 0 || strcmp(value, "-1") == 0;
    if (!seed->random && !read_unsigned(value, &seed->value))
        return bad_value(option, value, "from 0 to 18446744073709551615, or random (-1)");
    return 0;
}

static int read_choice(const option_spec *option, const char *value, size_t n, int64_t *chosen)
{
    int length;
    const char *word;
    for (int i = 0; (word = choice_word(option->value, i, &length)) != NULL; i++)
        if ((size_t)length == n && memcmp(word, value, n) == 0) {
            *chosen = i;
            return 0;
        }
    return fail_usage("--%s '%.*s': one of %s is needed", option->name, (int)n, value,
                      option->value);
}

static int read_list(const option_spec *option, const char *value, integer_list *list)
{
    list->n = 0;
    for (const char *at = value;; at++) {
        const size_t n = strcspn(at, ",");
        if (list->n == MAX_LIST)
            return bad_value(option, value, "too many entries");
        const int exit_status = option->kind == OPTION_CHOICES
                                    ? read_choice(option, at, n, &list->items[list->n])
                                    : read_integer(option, at, n, &list->items[list->n]);
        if (exit_status)
            return exit_status;
        list->n++;
        at += n;
        if (!*at)
            return 0;
    }
}

static int set_text(const option_spec *option, const char *value, text_list *list)
{
    if (list->n == MAX_LIST)
        return fail_usage("--%s was given more than %d times", option->name, MAX_LIST);
    list->items[list->n++] = value;
    return 0;
}

static int set_value(const option_spec *option, void *field, const char *value)
{
    int exit_status;
    int64_t integer;
    double real;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return 0;
    case OPTION_TEXT:
    case OPTION_FILE:
        *(const char **)field = value;
        return 0;
    case OPTION_TEXTS:
        return set_text(option, value, field);
    case OPTION_INTEGER:
        exit_status = read_integer(option, value, strlen(value), &integer);
        if (!exit_status)
            *(int64_t *)field = integer;
        return exit_status;
    case OPTION_REAL:
        if (!mica_number_parse(value, strlen(value), &real))
            return bad_value(option, value, "a number is needed");
        *(double *)field = real;
        return check_range(option, value, real);
    case OPTION_SEED:
        return read_seed(option, value, field);
    case OPTION_SIZE:
        if (mica_size_parse(value, &integer) != MICA_OK)
            return bad_value(option, value, "an amount like 800M, 4G or 1.5Gi is needed");
        *(int64_t *)field = integer;
        return check_range(option, value, (double)integer);
    case OPTION_CHOICE:
        exit_status = read_choice(option, value, strlen(value), &integer);
        if (!exit_status)
            *(int *)field = (int)integer;
        return exit_status;
    case OPTION_INTEGERS:
    case OPTION_CHOICES:
        return read_list(option, value, field);
    }
    return fail_usage("--%s cannot be read", option->name);
}

/* --- the line --------------------------------------------------------------------------------- */

static void *field_of(const parsed_line *parsed, size_t base, const option_spec *option)
{
    return (char *)parsed->arguments.settings + base + option->offset;
}

static int set_defaults(const command_spec *command, parsed_line *parsed)
{
    for (int g = 0; g < command->n_groups; g++)
        for (const option_spec *option = command->groups[g].options; option->name; option++) {
            if (!option->initial)
                continue;
            const int exit_status = set_value(
                option, field_of(parsed, command->groups[g].base, option), option->initial);
            if (exit_status)
                return exit_status;
        }
    return 0;
}

/* Takes one option at argv[*i], and its value from the next word where it needs one. */
static int take_option(const command_spec *command, int argc, char *const *argv, int *i,
                       parsed_line *parsed)
{
    const char *word = argv[*i], *value = NULL;
    const option_spec *option;
    size_t base = 0;
    if (word[1] == '-') {
        const size_t n = strcspn(word + 2, "=");
        option = find(command, word + 2, n, 0, &base);
        if (!option)
            return unknown_option(command, word);
        value = word[2 + n] ? word + 3 + n : NULL;
    } else {
        option = find(command, NULL, 0, word[1], &base);
        if (!option)
            return fail_usage("there is no option -%c", word[1]);
        value = word[2] ? word + 2 : NULL;
    }
    if (option->kind == OPTION_FLAG && value)
        return fail_usage("--%s takes no value", option->name);
    if (option->kind != OPTION_FLAG && !value) {
        if (*i + 1 >= argc)
            return fail_usage("--%s needs a value: %s", option->name, option->value);
        value = argv[++*i];
    }
    parsed->given[parsed->arguments.n_given++] = option;
    if (option->kind != OPTION_TEXTS && option->kind != OPTION_FLAG && !*value &&
        option->kind != OPTION_TEXT)
        return bad_value(option, value, "a value is needed");
    return set_value(option, field_of(parsed, base, option), value);
}

static int check_operands(const command_spec *command, const parsed_line *parsed)
{
    const int n = parsed->arguments.n_operands;
    if (n < command->min_operands)
        return fail_usage("%s is missing", command->operands);
    if (n > command->max_operands)
        return command->max_operands
                   ? fail_usage("'%s' is one argument too many",
                                parsed->operands[command->max_operands])
                   : fail_usage("'%s': this command takes options only", parsed->operands[0]);
    return 0;
}

static bool asks(int argc, char *const *argv, const char *long_form, const char *short_form)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], long_form) == 0 || (short_form && strcmp(argv[i], short_form) == 0))
            return true;
    return false;
}

bool options_ask_for_json(int argc, char *const *argv)
{
    return asks(argc, argv, "--json", NULL);
}

int options_parse(const command_spec *command, int argc, char *const *argv, parsed_line *parsed)
{
    *parsed = (parsed_line){0};
    parsed->help = asks(argc, argv, "--help", "-h");
    parsed->version = asks(argc, argv, "--version", NULL);
    if (parsed->help || parsed->version)
        return 0;
    const size_t words = (size_t)argc + 1;
    parsed->arguments.settings = calloc(1, command->settings_size ? command->settings_size : 1);
    parsed->operands = calloc(words, sizeof *parsed->operands);
    parsed->given = calloc(words, sizeof *parsed->given);
    if (!parsed->arguments.settings || !parsed->operands || !parsed->given)
        return fail_memory();
    int exit_status = set_defaults(command, parsed);
    bool options_end = false;
    for (int i = 0; i < argc && !exit_status; i++) {
        if (options_end || argv[i][0] != '-' || !argv[i][1])
            parsed->operands[parsed->arguments.n_operands++] = argv[i];
        else if (strcmp(argv[i], "--") == 0)
            options_end = true;
        else
            exit_status = take_option(command, argc, argv, &i, parsed);
    }
    parsed->arguments.operands = parsed->operands;
    parsed->arguments.given = parsed->given;
    return exit_status ? exit_status : check_operands(command, parsed);
}

void options_free(parsed_line *parsed)
{
    free(parsed->arguments.settings);
    free(parsed->operands);
    free(parsed->given);
    *parsed = (parsed_line){0};
}

int option_times(const arguments *given, const char *name)
{
    int n = 0;
    for (int i = 0; i < given->n_given; i++)
        n += strcmp(given->given[i]->name, name) == 0;
    return n;
}

bool option_given(const arguments *given, const char *name)
{
    return option_times(given, name) > 0;
}
