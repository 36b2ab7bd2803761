/* tokenizer_bench.c - how fast text becomes ids, in MB of text a second on one core.
 *
 *     tokenizer_bench [-r rounds] [-p preset] TOKENIZER TEXT...
 *
 * TOKENIZER is what mica_tokenizer_open takes. Each text file is encoded whole, then a line of a
 * million letters without a space, a million times the same letter, and a million spaces. The time
 * is that of the processor, the best of several rounds; the load is timed too.
 * SPDX-License-Identifier: MIT
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mica/tokenizer.h>

enum { LINE = 1000000 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *read_whole(const char *path, int64_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    *n = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)*n + 1);
    if (!bytes || fread(bytes, 1, (size_t)*n, file) != (size_t)*n) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return bytes;
}

static void run(const mica_tokenizer *t, const char *name, const char *text, int64_t n, int rounds)
{
    double best = 1e9;
    int64_t n_ids = 0;
    for (int i = 0; i < rounds; i++) {
        mica_token_list ids = {0};
        const double start = seconds();
        if (mica_tokenizer_encode(t, text, n, 0, &ids) != MICA_OK) {
            printf("%-28s %s\n", name, mica_last_error());
            return;
        }
        const double took = seconds() - start;
        best = took < best ? took : best;
        n_ids = ids.n;
        mica_token_list_free(&ids);
    }
    printf("%-28s %8.1f MB/s  %10lld bytes  %10lld ids\n", name, (double)n / best / 1e6,
           (long long)n, (long long)n_ids);
}

static void run_lines(const mica_tokenizer *t, int rounds)
{
    char *text = malloc(LINE);
    unsigned seed = 1;
    if (!text)
        return;
    for (int i = 0; i < LINE; i++)
        text[i] = (char)('a' + ((seed = seed * 1103515245 + 12345) >> 16) % 26);
    run(t, "a line of letters", text, LINE, rounds);
    memset(text, 'a', LINE);
    run(t, "a line of one letter", text, LINE, rounds);
    memset(text, ' ', LINE);
    run(t, "a line of spaces", text, LINE, rounds);
    free(text);
}

int main(int argc, char **argv)
{
    const char *preset = NULL;
    int rounds = 5, option;
    while ((option = getopt(argc, argv, "r:p:")) != -1) {
        if (option == 'r')
            rounds = (int)strtol(optarg, NULL, 10);
        else if (option == 'p')
            preset = optarg;
        else
            return 2;
    }
    if (optind >= argc || rounds < 1) {
        printf("usage: tokenizer_bench [-r rounds] [-p preset] TOKENIZER TEXT...\n");
        return 2;
    }
    mica_tokenizer *t;
    const double start = seconds();
    if (mica_tokenizer_open_preset(argv[optind], preset, &t) != MICA_OK) {
        printf("%s\n", mica_last_error());
        return 1;
    }
    printf("%s, %lld tokens, opened in %.1f ms\n", mica_tokenizer_kind(t),
           (long long)mica_tokenizer_n_vocab(t), (seconds() - start) * 1e3);
    for (int i = optind + 1; i < argc; i++) {
        int64_t n;
        char *text = read_whole(argv[i], &n);
        const char *slash = strrchr(argv[i], '/');
        run(t, slash ? slash + 1 : argv[i], text, n, rounds);
        free(text);
    }
    run_lines(t, rounds);
    mica_tokenizer_free(t);
    return 0;
}
