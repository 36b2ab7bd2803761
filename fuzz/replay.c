/* replay.c - runs a fuzz target over files, without libFuzzer.
 *
 * Each argument is a file or a folder of files (not searched deeper). Every input is handed over in
 * a block of exactly its size, so that a sanitizer sees a read beyond it. No input at all is a
 * failure: a corpus that went missing must not pass.
 * SPDX-License-Identifier: MIT
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns false when the file cannot be read whole. */
static bool replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat found;
    if (!file || fstat(fileno(file), &found) != 0 || found.st_size < 0) {
        if (file)
            fclose(file);
        fprintf(stderr, "replay: cannot read %s\n", path);
        return false;
    }
    const size_t size = (size_t)found.st_size;
    uint8_t *data = malloc(size ? size : 1);
    const bool whole = data && fread(data, 1, size, file) == size;
    fclose(file);
    if (whole)
        LLVMFuzzerTestOneInput(data, size);
    else
        fprintf(stderr, "replay: cannot read %s\n", path);
    free(data);
    return whole;
}

static bool replay_folder(const char *path, DIR *folder, long *n_inputs)
{
    bool fine = true;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char inside[4096];
        struct stat found;
        const int n = snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (n < 0 || (size_t)n >= sizeof inside || stat(inside, &found) != 0) {
            fprintf(stderr, "replay: cannot read %s/%s\n", path, entry->d_name);
            fine = false;
        } else if (S_ISREG(found.st_mode)) {
            fine = replay_file(inside) && fine;
            ++*n_inputs;
        }
    }
    return fine;
}

int main(int argc, char **argv)
{
    long n_inputs = 0;
    bool fine = true;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder) {
            fine = replay_folder(argv[i], folder, &n_inputs) && fine;
            closedir(folder);
        } else {
            fine = replay_file(argv[i]) && fine;
            n_inputs++;
        }
    }
    printf("%ld inputs\n", n_inputs);
    return fine && n_inputs > 0 ? 0 : 1;
}
