/* model_path.c - from a name to a file: paths, the two caches, the built-in model.
 *
 * The only place that knows where models lie. Environment variables are read here and nowhere else
 * in the program.
 * SPDX-License-Identifier: MIT
 */
#include "cli/model_path.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/failure.h"

#define BUILT_IN "tales-19m.gguf"

/* Where the built-in model lies, as seen from the program's folder: installed, then in a build tree
 * inside the source tree. */
static const char *const built_in_places[] = {"../share/mica/", "../../data/"};

int is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

int is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* a/b, or false when it is too long. */
static bool join(char path[MODEL_PATH_BYTES], const char *a, const char *b)
{
    const int n = snprintf(path, MODEL_PATH_BYTES, "%s/%s", a, b);
    return n >= 0 && n < MODEL_PATH_BYTES;
}

/* --- folders ---------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The .gguf files of a folder: how many, and the name of the last one seen. Parts of a split model
 * but its first do not count. */
static int count_gguf(const char *folder, char name[256])
{
    int n = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        const char *part = strstr(entry->d_name, "-of-");
        const bool later = part && part - entry->d_name >= 6 && strncmp(part - 5, "00001", 5) != 0;
        if (!ends_with(entry->d_name, ".gguf") || later)
            continue;
        snprintf(name, 256, "%s", entry->d_name);
        n++;
    }
    if (directory)
        closedir(directory);
    return n;
}

/* Goes from a folder without config.json to the one .gguf file in it. */
static int enter_folder(char path[MODEL_PATH_BYTES])
{
    char inner[MODEL_PATH_BYTES], name[256];
    if (!is_folder(path) || !join(inner, path, "config.json") || is_file(inner))
        return 0;
    const int n = count_gguf(path, name);
    if (n > 1)
        return fail_with(MICA_E_ARGUMENT, path,
                         "this folder has %d .gguf files: name the one that is meant", n);
    if (n == 1 && join(inner, path, name))
        memcpy(path, inner, MODEL_PATH_BYTES);
    return 0;
}

/* --- caches ----------------------------------------------------------------------------------- */

static bool below_home(char path[MODEL_PATH_BYTES], const char *inner)
{
    const char *home = getenv("HOME");
    return home && *home && join(path, home, inner);
}

static bool own_cache(char path[MODEL_PATH_BYTES])
{
    const char *folder = getenv("MICA_CACHE_DIR"), *caches = getenv("XDG_CACHE_HOME");
    if (folder && *folder)
        return snprintf(path, MODEL_PATH_BYTES, "%s", folder) < MODEL_PATH_BYTES;
    if (caches && *caches)
        return join(path, caches, "mica/models");
    return below_home(path, ".cache/mica/models");
}

static bool hub_cache(char path[MODEL_PATH_BYTES])
{
    const char *folder = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    if (folder && *folder)
        return snprintf(path, MODEL_PATH_BYTES, "%s", folder) < MODEL_PATH_BYTES;
    if (home && *home)
        return join(path, home, "hub");
    return below_home(path, ".cache/huggingface/hub");
}

static bool in_own_cache(const char *name, char path[MODEL_PATH_BYTES])
{
    char cache[MODEL_PATH_BYTES], file[MODEL_PATH_BYTES];
    if (!own_cache(cache))
        return false;
    if (join(path, cache, name) && (is_file(path) || is_folder(path)))
        return true;
    return snprintf(file, sizeof file, "%s.gguf", name) < (int)sizeof file &&
           join(path, cache, file) && is_file(path);
}

/* The revision that refs/main names, else the newest snapshot. */
static bool snapshot_of(const char *repository, char path[MODEL_PATH_BYTES])
{
    char place[MODEL_PATH_BYTES], revision[128] = "", snapshots[MODEL_PATH_BYTES];
    if (!join(snapshots, repository, "snapshots"))
        return false;
    FILE *file = join(place, repository, "refs/main") ? fopen(place, "re") : NULL;
    if (file) {
        if (fgets(revision, sizeof revision, file))
            revision[strcspn(revision, "\r\n/")] = '\0';
        fclose(file);
    }
    if (revision[0] && join(path, snapshots, revision) && is_folder(path))
        return true;
    DIR *directory = opendir(snapshots);
    time_t newest = 0;
    bool found = false;
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        struct stat facts;
        if (entry->d_name[0] == '.' || !join(place, snapshots, entry->d_name) ||
            stat(place, &facts) != 0 || !S_ISDIR(facts.st_mode) ||
            (found && facts.st_mtime <= newest))
            continue;
        newest = facts.st_mtime;
        memcpy(path, place, MODEL_PATH_BYTES);
        found = true;
    }
    if (directory)
        closedir(directory);
    return found;
}

static bool in_hub_cache(const char *name, char path[MODEL_PATH_BYTES])
{
    char cache[MODEL_PATH_BYTES], folder[512] = "models--", repository[MODEL_PATH_BYTES];
    size_t n = strlen(folder);
    if (!hub_cache(cache))
        return false;
    for (; *name && n + 3 < sizeof folder; name++) {
        if (*name == '/')
            folder[n++] = '-';
        folder[n++] = *name == '/' ? '-' : *name;
    }
    folder[n] = '\0';
    return !*name && join(repository, cache, folder) && snapshot_of(repository, path);
}

/* --- public ----------------------------------------------------------------------------------- */

static int find_built_in(char path[MODEL_PATH_BYTES])
{
    char program[MODEL_PATH_BYTES];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = '\0';
        char *slash = strrchr(program, '/');
        if (slash)
            *slash = '\0';
        for (size_t i = 0; i < sizeof built_in_places / sizeof *built_in_places; i++)
            if (snprintf(path, MODEL_PATH_BYTES, "%s/%s%s", program, built_in_places[i], BUILT_IN) <
                    MODEL_PATH_BYTES &&
                is_file(path))
                return 0;
    }
    return fail_with(MICA_E_NOT_FOUND, "--model",
                     "no model was named, and the built-in one (%s) is not where it belongs, in "
                     "share/mica beside the program's bin; name a model with --model",
                     BUILT_IN);
}

/* What stands under a name without being a model, or why it cannot be looked at; NULL: nothing. */
static const char *in_the_way(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0)
        return S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode) ? "a device"
               : S_ISFIFO(facts.st_mode)                        ? "a pipe"
               : S_ISSOCK(facts.st_mode)                        ? "a socket"
                                                                : "neither a file nor a folder";
    if (errno == ELOOP)
        return "a symbolic link that leads back to itself";
    if (errno == EACCES)
        return "behind a folder that may not be entered";
    return lstat(path, &facts) == 0 ? "a symbolic link to what is not there" : NULL;
}

int model_path_find(const char *name, char path[MODEL_PATH_BYTES])
{
    if (!name)
        return find_built_in(path);
    const int n = snprintf(path, MODEL_PATH_BYTES, "%s", name);
    if (n <= 0 || n >= MODEL_PATH_BYTES)
        return fail_usage("--model '%s' cannot be a path", name);
    if (is_file(path) || is_folder(path))
        return enter_folder(path);
    const char *other = in_the_way(path);
    if (other)
        return fail_with(MICA_E_ARGUMENT, name, "this is %s; a model is a regular file or a folder",
                         other);
    const bool plain = name[0] != '/' && name[0] != '.' && !strstr(name, "..");
    if (plain && (in_own_cache(name, path) || in_hub_cache(name, path)))
        return enter_folder(path);
    char cache[MODEL_PATH_BYTES] = "", hub[MODEL_PATH_BYTES] = "";
    if (!plain)
        return fail_with(MICA_E_NOT_FOUND, name, "there is no such file or folder");
    own_cache(cache);
    hub_cache(hub);
    return fail_with(
        MICA_E_NOT_FOUND, name,
        "no such file or folder, and no model of this name in %s or in %s%s",
        *cache ? cache : "mica's cache (set HOME or MICA_CACHE_DIR)",
        *hub ? "the Hugging Face cache " : "the Hugging Face cache (set HOME or HF_HOME)", hub);
}
