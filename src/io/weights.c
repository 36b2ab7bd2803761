/* weights.c - one list of tensors over GGUF and safetensors, and what a path stands for.
 *
 * The list is made once; it borrows data from the opened file and names from it too, but for GGUF,
 * whose names have no NUL behind them and are copied.
 * SPDX-License-Identifier: MIT
 */
#include "io/weights.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash_map.h"
#include "base/text_buffer.h"

#define GET_INSTEAD "get the model as safetensors or GGUF"

struct mica__weights {
    mica__gguf *gguf; /* one of these two */
    mica__safetensors *safetensors;
    char *folder;
    mica__weight *tensors; /* [n] */
    int64_t n;
    mica__text names; /* GGUF: names, each with a NUL behind it */
    mica__map *index; /* name to place in tensors */
};

/* --- the list --------------------------------------------------------------------------------- */

/* The format of rows of a safetensors type. */
static mica__block_format format_of_st(mica__st_type type)
{
    switch (type) {
    case MICA__ST_F32:
        return MICA__F32;
    case MICA__ST_F16:
        return MICA__F16;
    case MICA__ST_BF16:
        return MICA__BF16;
    case MICA__ST_F64:
        return MICA__F64;
    case MICA__ST_I8:
        return MICA__I8;
    case MICA__ST_I16:
        return MICA__I16;
    case MICA__ST_I32:
        return MICA__I32;
    case MICA__ST_I64:
        return MICA__I64;
    default:
        return MICA__N_FORMATS;
    }
}

/* The element type of a plain format. */
static mica_dtype dtype_of_format(mica__block_format format)
{
    switch ((int)format) {
    case MICA__F32:
        return MICA_F32;
    case MICA__F16:
        return MICA_F16;
    case MICA__BF16:
        return MICA_BF16;
    case MICA__F64:
        return MICA_F64;
    case MICA__I8:
        return MICA_I8;
    case MICA__I16:
        return MICA_I16;
    case MICA__I32:
        return MICA_I32;
    case MICA__I64:
        return MICA_I64;
    default:
        return MICA_N_DTYPES;
    }
}

static void fill_from_safetensors(mica__weight *weight, const mica__st_tensor *tensor)
{
    *weight = (mica__weight){.name = tensor->name,
                             .type = mica__st_type_name(tensor->type),
                             .format = format_of_st(tensor->type),
                             .dtype = mica__st_type_dtype(tensor->type),
                             .st_type = tensor->type,
                             .n_dims = tensor->n_dims,
                             .data = tensor->data,
                             .bytes = tensor->bytes,
                             .file = tensor->shard};
    memcpy(weight->shape, tensor->shape, sizeof weight->shape);
}

static void fill_from_gguf(mica__weight *weight, const mica__gguf_tensor *tensor, const char *name)
{
    *weight = (mica__weight){.name = name,
                             .type = mica__block_info_of(tensor->format)->name,
                             .format = tensor->format,
                             .dtype = dtype_of_format(tensor->format),
                             .st_type = MICA__N_ST_TYPES,
                             .n_dims = tensor->n_dims,
                             .data = tensor->data,
                             .bytes = tensor->bytes,
                             .file = tensor->shard};
    memcpy(weight->shape, tensor->shape, sizeof tensor->shape);
}

static mica_status copy_gguf_names(mica__weights *weights)
{
    for (int64_t i = 0; i < weights->n; i++) {
        const mica__gguf_tensor *tensor = mica__gguf_tensor_at(weights->gguf, i);
        mica__text_add(&weights->names, tensor->name.bytes, (size_t)tensor->name.length);
        MICA_TRY(mica__text_add_char(&weights->names, '\0'));
    }
    return MICA_OK;
}

static mica_status make_list(mica__weights *weights)
{
    weights->n = weights->gguf ? mica__gguf_n_tensors(weights->gguf)
                               : mica__safetensors_n_tensors(weights->safetensors);
    weights->tensors =
        mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)weights->n, sizeof *weights->tensors);
    if (!weights->tensors)
        return MICA_E_MEMORY;
    if (weights->gguf)
        MICA_TRY(copy_gguf_names(weights));
    MICA_TRY(mica__map_new(MICA_MEMORY_OTHER, MICA__MAP_BORROWS, &weights->index));
    MICA_TRY(mica__map_reserve(weights->index, weights->n, 0));
    const char *name = weights->names.bytes;
    for (int64_t i = 0; i < weights->n; i++) {
        mica__weight *weight = &weights->tensors[i];
        if (weights->gguf) {
            const mica__gguf_tensor *tensor = mica__gguf_tensor_at(weights->gguf, i);
            fill_from_gguf(weight, tensor, name);
            name += tensor->name.length + 1;
        } else
            fill_from_safetensors(weight, mica__safetensors_tensor_at(weights->safetensors, i));
        MICA_TRY(mica__map_insert(weights->index, weight->name, strlen(weight->name), i));
    }
    return MICA_OK;
}

/* --- what is no model ------------------------------------------------------------------------- */

static bool gguf_says(const mica__gguf *gguf, const char *key, const char *value)
{
    const mica__gguf_value *found = mica__gguf_find(gguf, key);
    mica__gguf_string string;
    return found && found->type == MICA__GGUF_STRING &&
           mica__gguf_get_string(gguf, key, &string) == MICA_OK &&
           string.length == (int64_t)strlen(value) &&
           memcmp(string.bytes, value, (size_t)string.length) == 0;
}

static mica_status refuse_other_gguf(const mica__gguf *gguf, const char *path)
{
    if (gguf_says(gguf, "general.architecture", "clip") ||
        gguf_says(gguf, "general.type", "mmproj"))
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "%s: a vision or audio projector, not a language model: give the model's own "
                  "GGUF file (images are not supported yet)",
                  path);
    if (gguf_says(gguf, "general.type", "adapter"))
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "%s: a LoRA adapter, not a model: merge it into its base model first", path);
    if (gguf_says(gguf, "general.type", "imatrix"))
        MICA_FAIL(MICA_E_UNSUPPORTED, "%s: an importance matrix for quantising, not a model", path);
    return MICA_OK;
}

/* Whether a tensor belongs to a LoRA adapter, as peft (lora_A, lora_B) and mlx (lora_a, lora_b)
 * name them. */
static bool is_adapter_tensor(const char *name)
{
    return strstr(name, "lora_A") || strstr(name, "lora_B") || strstr(name, "lora_a") ||
           strstr(name, "lora_b") || strstr(name, "lora_magnitude_vector");
}

static mica_status refuse_adapter(const mica__safetensors *file, const char *path)
{
    const int64_t n = mica__safetensors_n_tensors(file);
    for (int64_t i = 0; i < n; i++)
        if (!is_adapter_tensor(mica__safetensors_tensor_at(file, i)->name))
            return MICA_OK;
    if (n)
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "%s: a LoRA adapter, not a model: merge it into its base model first", path);
    return MICA_OK;
}

static bool ends_with(const char *text, const char *ending)
{
    const size_t length = strlen(text), ending_length = strlen(ending);
    return length >= ending_length && strcmp(text + length - ending_length, ending) == 0;
}

/* Names that PyTorch and others give to pickle files. */
static bool has_pickle_name(const char *path)
{
    return ends_with(path, ".bin") || ends_with(path, ".pt") || ends_with(path, ".pth") ||
           ends_with(path, ".pkl") || ends_with(path, ".ckpt");
}

/* --- a file ----------------------------------------------------------------------------------- */

typedef enum content {
    CONTENT_GGUF,
    CONTENT_SAFETENSORS,
    CONTENT_PICKLE,
    CONTENT_ZIP,
    CONTENT_UNKNOWN
} content;

static mica_status cannot_read(const char *path)
{
    MICA_FAIL(errno == ENOENT ? MICA_E_NOT_FOUND : MICA_E_IO, "%s: %s", path, strerror(errno));
}

/* The first bytes of a file; *n is how many there are. */
static mica_status read_head(const char *path, uint8_t head[16], int64_t *n)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cannot_read(path);
    *n = 0;
    ssize_t got = 0;
    do {
        got = read(fd, head + *n, (size_t)(16 - *n));
        *n += got > 0 ? got : 0;
    } while (*n < 16 && (got > 0 || (got < 0 && errno == EINTR)));
    const mica_status status = got < 0 ? cannot_read(path) : MICA_OK;
    close(fd);
    return status;
}

static content content_of(const uint8_t head[16], int64_t n)
{
    static const char *const gguf_like[] = {"GGUF", "FUGG", "lmgg", "tjgg", "fmgg", "algg"};
    for (size_t i = 0; n >= 4 && i < sizeof gguf_like / sizeof *gguf_like; i++)
        if (memcmp(head, gguf_like[i], 4) == 0)
            return CONTENT_GGUF;
    if (n >= 9 && head[8] == '{')
        return CONTENT_SAFETENSORS;
    if (n >= 4 && memcmp(head, "PK\3\4", 4) == 0)
        return CONTENT_ZIP;
    if (n >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return CONTENT_PICKLE;
    return CONTENT_UNKNOWN;
}

static mica_status open_gguf(mica__weights *weights, const char *path, bool use_map)
{
    MICA_TRY(mica__gguf_open(path, use_map, &weights->gguf));
    return refuse_other_gguf(weights->gguf, path);
}

static mica_status open_safetensors(mica__weights *weights, const char *path, bool use_map)
{
    MICA_TRY(mica__safetensors_open(path, use_map, &weights->safetensors));
    return refuse_adapter(weights->safetensors, path);
}

static mica_status open_by_content(mica__weights *weights, const char *path, bool use_map)
{
    uint8_t head[16];
    int64_t n = 0;
    if (ends_with(path, ".safetensors.index.json"))
        return open_safetensors(weights, path, use_map);
    MICA_TRY(read_head(path, head, &n));
    switch (content_of(head, n)) {
    case CONTENT_GGUF:
        return open_gguf(weights, path, use_map);
    case CONTENT_SAFETENSORS:
        return open_safetensors(weights, path, use_map);
    case CONTENT_PICKLE:
        break;
    case CONTENT_ZIP:
        if (has_pickle_name(path))
            break;
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "%s: a zip archive (PyTorch, numpy), not a weight file: " GET_INSTEAD, path);
    case CONTENT_UNKNOWN:
        if (has_pickle_name(path))
            break;
        /* The reader of what the name promises says best what is wrong. */
        if (ends_with(path, ".gguf"))
            return open_gguf(weights, path, use_map);
        if (ends_with(path, ".safetensors"))
            return open_safetensors(weights, path, use_map);
        MICA_FAIL(MICA_E_FORMAT, "%s: neither a GGUF nor a safetensors file", path);
    }
    MICA_FAIL(
        MICA_E_UNSUPPORTED,
        "%s: a PyTorch pickle file, which can run code when it is read, and is not: " GET_INSTEAD,
        path);
}

/* --- a folder --------------------------------------------------------------------------------- */

/* What a folder holds, by names. */
typedef struct listing {
    bool single;       /* model.safetensors */
    bool index;        /* model.safetensors.index.json */
    bool adapter;      /* adapter_config.json */
    int n_safetensors; /* files, adapters not counted */
    int n_gguf;        /* files, the parts of a split model after the first not counted */
    int n_pickle;      /* files */
    char other[256];   /* the last .safetensors file seen */
    char gguf[256];    /* the last .gguf file seen */
    char pickle[256];  /* the last pickle file seen */
} listing;

static void keep_name(char kept[256], const char *name)
{
    const size_t length = strlen(name);
    memcpy(kept, name, length < 255 ? length : 255);
    kept[length < 255 ? length : 255] = '\0';
}

/* Whether the name is that of a later part, as in x-00002-of-00003.gguf. */
static bool is_later_part(const char *name)
{
    const char *of = strstr(name, "-of-");
    return of && of - name >= 6 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0;
}

static void note_entry(listing *found, const char *name)
{
    if (strcmp(name, "model.safetensors") == 0)
        found->single = true;
    else if (strcmp(name, "model.safetensors.index.json") == 0)
        found->index = true;
    else if (strcmp(name, "adapter_config.json") == 0)
        found->adapter = true;
    if (ends_with(name, ".safetensors") && strncmp(name, "adapter", 7) != 0) {
        found->n_safetensors++;
        keep_name(found->other, name);
    } else if (ends_with(name, ".gguf") && !is_later_part(name)) {
        found->n_gguf++;
        keep_name(found->gguf, name);
    } else if (has_pickle_name(name)) {
        found->n_pickle++;
        keep_name(found->pickle, name);
    }
}

static mica_status list_folder(const char *path, listing *found)
{
    *found = (listing){0};
    if (mica__fault())
        MICA_FAIL(MICA_E_MEMORY, "cannot list %s (injected fault)", path);
    DIR *folder = opendir(path);
    if (!folder)
        return cannot_read(path);
    for (const struct dirent *entry; (entry = readdir(folder));)
        note_entry(found, entry->d_name);
    closedir(folder);
    return MICA_OK;
}

static mica_status open_in_folder(mica__weights *weights, const char *folder, const char *name,
                                  bool use_map)
{
    char *path = mica__path_join(folder, name);
    if (!path)
        return MICA_E_MEMORY;
    const mica_status status = open_by_content(weights, path, use_map);
    mica__free(path);
    return status;
}

static mica_status refuse_folder(const char *path, const listing *found)
{
    if (found->adapter)
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "%s: a LoRA adapter (adapter_config.json), not a model: merge it into its base "
                  "model first",
                  path);
    if (found->n_safetensors > 1)
        MICA_FAIL(MICA_E_NOT_FOUND,
                  "%s: %d safetensors files and no model.safetensors.index.json that says which "
                  "belong to the model",
                  path, found->n_safetensors);
    if (found->n_gguf)
        MICA_FAIL(MICA_E_NOT_FOUND, "%s: no safetensors; to use the GGUF file give its path, %s/%s",
                  path, path, found->gguf);
    if (found->n_pickle)
        MICA_FAIL(MICA_E_UNSUPPORTED,
                  "%s: only pickle files (%s), which can run code when they are read, and are "
                  "not: " GET_INSTEAD,
                  path, found->pickle);
    MICA_FAIL(MICA_E_NOT_FOUND, "%s: no weight file (model.safetensors, a .gguf file) in it", path);
}

static mica_status open_folder(mica__weights *weights, const char *path, bool use_map)
{
    listing found;
    MICA_TRY(list_folder(path, &found));
    if (found.single)
        return open_in_folder(weights, path, "model.safetensors", use_map);
    if (found.index)
        return open_in_folder(weights, path, "model.safetensors.index.json", use_map);
    if (found.n_safetensors == 1 && !found.adapter)
        return open_in_folder(weights, path, found.other, use_map);
    return refuse_folder(path, &found);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The folder itself without slashes at its end, or the folder of a file. */
static mica_status keep_folder(mica__weights *weights, const char *path, bool is_folder)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    weights->folder =
        is_folder ? mica__strndup(MICA_MEMORY_OTHER, path, length) : mica__path_directory(path);
    return weights->folder ? MICA_OK : MICA_E_MEMORY;
}

static mica_status open_path(mica__weights *weights, const char *path, bool use_map)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return cannot_read(path);
    const bool is_folder = S_ISDIR(facts.st_mode);
    if (!is_folder && !S_ISREG(facts.st_mode))
        MICA_FAIL(MICA_E_IO, "%s: neither a file nor a folder", path);
    MICA_TRY(keep_folder(weights, path, is_folder));
    if (is_folder)
        MICA_TRY(open_folder(weights, weights->folder, use_map));
    else
        MICA_TRY(open_by_content(weights, path, use_map));
    return make_list(weights);
}

mica_status mica__weights_open(const char *path, bool use_map, mica__weights **weights)
{
    *weights = NULL;
    mica__weights *opened = mica__alloc_zero(MICA_MEMORY_OTHER, 1, sizeof *opened);
    if (!opened)
        return MICA_E_MEMORY;
    opened->names.kind = MICA_MEMORY_OTHER;
    const mica_status status = open_path(opened, path, use_map);
    if (status != MICA_OK) {
        mica__weights_close(opened);
        return status;
    }
    *weights = opened;
    return MICA_OK;
}

void mica__weights_close(mica__weights *weights)
{
    if (!weights)
        return;
    mica__gguf_close(weights->gguf);
    mica__safetensors_close(weights->safetensors);
    mica__free(weights->folder);
    mica__free(weights->tensors);
    mica__text_free(&weights->names);
    mica__map_free(weights->index);
    mica__free(weights);
}

/* --- reading ---------------------------------------------------------------------------------- */

mica__weights_kind mica__weights_kind_of(const mica__weights *weights)
{
    return weights->gguf ? MICA__WEIGHTS_GGUF : MICA__WEIGHTS_SAFETENSORS;
}

int64_t mica__weights_n(const mica__weights *weights)
{
    return weights->n;
}

const mica__weight *mica__weights_at(const mica__weights *weights, int64_t i)
{
    return &weights->tensors[i];
}

const mica__weight *mica__weights_find(const mica__weights *weights, const char *name)
{
    int64_t i;
    return mica__map_find(weights->index, name, strlen(name), &i) ? &weights->tensors[i] : NULL;
}

mica_status mica__weights_need(const mica__weights *weights, const char *name,
                               const mica__weight **weight)
{
    *weight = mica__weights_find(weights, name);
    if (!*weight)
        MICA_FAIL(MICA_E_NOT_FOUND, "%s has no tensor \"%s\"",
                  weights->gguf ? mica__gguf_path(weights->gguf, 0)
                                : mica__safetensors_path(weights->safetensors, 0),
                  name);
    return MICA_OK;
}

const mica__gguf *mica__weights_gguf(const mica__weights *weights)
{
    return weights->gguf;
}

const mica__safetensors *mica__weights_safetensors(const mica__weights *weights)
{
    return weights->safetensors;
}

const char *mica__weights_folder(const mica__weights *weights)
{
    return weights->folder;
}

const char *mica__weights_file(const mica__weights *weights, const mica__weight *weight)
{
    return weights->gguf ? mica__gguf_path(weights->gguf, weight->file)
                         : mica__safetensors_path(weights->safetensors, weight->file);
}

int64_t mica__weights_offset(const mica__weights *weights, const mica__weight *weight)
{
    const int64_t i = weight - weights->tensors;
    if (weights->gguf)
        return mica__gguf_offset(weights->gguf, mica__gguf_tensor_at(weights->gguf, i));
    return mica__safetensors_tensor_at(weights->safetensors, i)->offset;
}

int64_t mica__weights_bytes(const mica__weights *weights)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < weights->n; i++)
        bytes += weights->tensors[i].bytes;
    return bytes;
}

int64_t mica__weights_file_bytes(const mica__weights *weights)
{
    return weights->gguf ? mica__gguf_file_bytes(weights->gguf)
                         : mica__safetensors_file_bytes(weights->safetensors);
}
