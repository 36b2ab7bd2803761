/* tokenizer_open.c - which files of a model hold its tokenizer.
 * SPDX-License-Identifier: MIT
 */
#include <dirent.h>
#include <string.h>

#include "base/file.h"
#include "text/tokenizer_parts.h"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A file's bytes, read into counted memory. */
static mica_status read_file(const char *path, mica__text *text)
{
    text->kind = MICA_MEMORY_TEXT;
    MICA_TRY(mica__file_read_text(path, MICA__MAX_FILE_BYTES, text));
    if (text->length == 0)
        MICA_FAIL(MICA_E_FORMAT, "%s is empty", path);
    return MICA_OK;
}

static mica_status open_gguf(const char *path, mica_tokenizer **out)
{
    mica__gguf *gguf;
    MICA_TRY(mica__gguf_open_keys(path, &gguf));
    const mica_status status = mica__tokenizer_from_gguf(gguf, out);
    mica__gguf_close(gguf);
    return status;
}

/* tokenizer.json, or any file of JSON. */
static mica_status open_json(const char *path, const mica__model_config *config,
                             mica_tokenizer **out)
{
    mica__text text = {0};
    mica_status status = read_file(path, &text);
    if (status == MICA_OK)
        status = mica__tokenizer_from_json(text.bytes, text.length, config, out);
    mica__text_free(&text);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
}

/* tokenizer.model and tiktoken files: the content decides. */
static mica_status open_model(const char *path, const mica__preset *preset,
                              const mica__model_config *config, mica_tokenizer **out)
{
    mica__text text = {0};
    mica_status status = read_file(path, &text);
    if (!preset)
        preset = mica__preset_of_file(path);
    if (status == MICA_OK && mica__looks_like_proto(text.bytes, text.length))
        status = mica__tokenizer_from_proto(text.bytes, text.length, config, out);
    else if (status == MICA_OK)
        status = mica__tokenizer_from_tiktoken(text.bytes, text.length, preset, config, out);
    mica__text_free(&text);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
}

static mica_status open_vocab(const char *vocab_path, const char *merges_path,
                              const mica__preset *preset, const mica__model_config *config,
                              mica_tokenizer **out)
{
    mica__text vocab = {0}, merges = {0};
    mica_status status = read_file(vocab_path, &vocab);
    if (status == MICA_OK)
        status = read_file(merges_path, &merges);
    if (status == MICA_OK)
        status = mica__tokenizer_from_vocab_merges(vocab.bytes, vocab.length, merges.bytes,
                                                   merges.length, preset, config, out);
    mica__text_free(&vocab);
    mica__text_free(&merges);
    return status;
}

/* The first file of a folder, in the order of names, that ends so; NULL when there is none. */
static mica_status find_file(const char *folder, const char *end, char **path)
{
    *path = NULL;
    char first[256] = "";
    DIR *dir = mica__fault() ? NULL : opendir(folder);
    if (!dir)
        MICA_FAIL(MICA_E_IO, "%s cannot be listed", folder);
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (ends_with(entry->d_name, end) && (!first[0] || strcmp(entry->d_name, first) < 0))
            memcpy(first, entry->d_name, strlen(entry->d_name) + 1);
    closedir(dir);
    if (!first[0])
        return MICA_OK;
    *path = mica__path_join(folder, first);
    return *path ? MICA_OK : MICA_E_MEMORY;
}

/* folder/name when it is there, else *path NULL. */
static mica_status find_named(const char *folder, const char *name, char **path)
{
    *path = mica__path_join(folder, name);
    if (!*path)
        return MICA_E_MEMORY;
    if (!mica__file_exists(*path)) {
        mica__free(*path);
        *path = NULL;
    }
    return MICA_OK;
}

static mica_status open_pair(const char *folder, const mica__preset *preset,
                             const mica__model_config *config, mica_tokenizer **out)
{
    char *vocab = NULL, *merges = NULL;
    mica_status status;
    MICA_TRY_OUT(find_named(folder, "vocab.json", &vocab));
    MICA_TRY_OUT(find_named(folder, "merges.txt", &merges));
    if (vocab && merges)
        status = open_vocab(vocab, merges, preset, config, out);
    else
        status = mica__fail(MICA_E_NOT_FOUND,
                            "%s holds no tokenizer: looked for tokenizer.json, tokenizer.model, "
                            "*.tiktoken, vocab.json with merges.txt",
                            folder);
out:
    mica__free(vocab);
    mica__free(merges);
    return status;
}

static mica_status open_folder(const char *folder, const mica__preset *preset,
                               const mica__model_config *config, mica_tokenizer **out)
{
    char *path;
    mica_status status;
    MICA_TRY(find_named(folder, "tokenizer.json", &path));
    if (path) {
        status = open_json(path, config, out);
        mica__free(path);
        return status;
    }
    MICA_TRY(find_named(folder, "tokenizer.model", &path));
    if (!path)
        MICA_TRY(find_named(folder, "tiktoken.model", &path));
    if (!path)
        MICA_TRY(find_file(folder, ".tiktoken", &path));
    if (!path)
        return open_pair(folder, preset, config, out);
    status = open_model(path, preset, config, out);
    mica__free(path);
    return status;
}

/* A file by what its name and content say. */
static mica_status open_file(const char *path, const char *folder, const mica__preset *preset,
                             const mica__model_config *config, mica_tokenizer **out)
{
    const char *name = mica__path_name(path);
    if (strcmp(name, "vocab.json") == 0 || strcmp(name, "merges.txt") == 0)
        return open_pair(folder, preset, config, out);
    if (ends_with(name, ".json"))
        return open_json(path, config, out);
    return open_model(path, preset, config, out);
}

mica_status mica_tokenizer_open_preset(const char *path, const char *preset_name,
                                       mica_tokenizer **out)
{
    const mica__preset *preset = NULL;
    if (!path || !out)
        MICA_FAIL(MICA_E_ARGUMENT, "opening a tokenizer needs a path");
    if (preset_name)
        MICA_TRY(mica__preset_find(preset_name, &preset));
    const bool is_folder = mica__directory_exists(path);
    if (!is_folder && !mica__file_exists(path))
        MICA_FAIL(MICA_E_NOT_FOUND, "%s does not exist", path);
    mica_status status = MICA_OK;
    if (!is_folder && ends_with(path, ".gguf")) {
        status = open_gguf(path, out);
        return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
    }
    char *folder = is_folder ? mica__strndup(MICA_MEMORY_TEXT, path, strlen(path))
                             : mica__path_directory(path);
    if (!folder)
        return MICA_E_MEMORY;
    mica__model_config config;
    status = mica__model_config_read(folder, &config);
    if (status == MICA_OK) {
        status = is_folder ? open_folder(path, preset, &config, out)
                           : open_file(path, folder, preset, &config, out);
        mica__model_config_free(&config);
    }
    mica__free(folder);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
}

mica_status mica_tokenizer_open(const char *path, mica_tokenizer **out)
{
    return mica_tokenizer_open_preset(path, NULL, out);
}
