/* model_sampling.c - how a model's own files recommend to draw from it.
 *
 * One table says what the two kinds of file call each parameter.
 * SPDX-License-Identifier: MIT
 */
#include <mica/engine.h>

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "io/json.h"
#include "models/model.h"

#define MAX_CONFIG_BYTES ((int64_t)16 << 20)

typedef enum field_kind { FIELD_FLOAT, FIELD_INT32, FIELD_INT64 } field_kind;

typedef struct sampling_field {
    const char *json, *gguf; /* NULL: that kind of file has no such key */
    field_kind kind;
    size_t offset;
    double low, high;
} sampling_field;

#define FIELD(name) offsetof(mica_sampling, name)

static const sampling_field fields[] = {
    {"temperature", "general.sampling.temp", FIELD_FLOAT, FIELD(temperature), 0, 1000},
    {"top_k", "general.sampling.top_k", FIELD_INT32, FIELD(top_k), 0, INT32_MAX},
    {"top_p", "general.sampling.top_p", FIELD_FLOAT, FIELD(top_p), 0, 1},
    {"min_p", "general.sampling.min_p", FIELD_FLOAT, FIELD(min_p), 0, 1},
    {"typical_p", NULL, FIELD_FLOAT, FIELD(typical_p), 0, 1},
    {NULL, "general.sampling.xtc_probability", FIELD_FLOAT, FIELD(xtc_probability), 0, 1},
    {NULL, "general.sampling.xtc_threshold", FIELD_FLOAT, FIELD(xtc_threshold), 0, 1},
    {"repetition_penalty", "general.sampling.penalty_repeat", FIELD_FLOAT,
     FIELD(repetition_penalty), 0, 100},
    {NULL, "general.sampling.penalty_last_n", FIELD_INT64, FIELD(repetition_window), 0, 1e15},
};

#define N_FIELDS ((int)(sizeof fields / sizeof *fields))

static mica_status set_field(const sampling_field *field, const char *key, double value,
                             mica_sampling *sampling)
{
    void *at = (char *)sampling + field->offset;
    if (!(value >= field->low && value <= field->high) ||
        (field->kind != FIELD_FLOAT && floor(value) != value))
        MICA_FAIL(MICA_E_FORMAT, "%s is %g, which makes no sense", key, value);
    if (field->kind == FIELD_FLOAT)
        *(float *)at = (float)value;
    else if (field->kind == FIELD_INT32)
        *(int32_t *)at = (int32_t)value;
    else
        *(int64_t *)at = (int64_t)value;
    return MICA_OK;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

static mica_status read_gguf(const mica__gguf *gguf, mica_sampling *sampling, bool *named)
{
    for (int i = 0; i < N_FIELDS; i++) {
        double value;
        if (!fields[i].gguf || !mica__gguf_find(gguf, fields[i].gguf))
            continue;
        MICA_TRY(mica__gguf_get_f64(gguf, fields[i].gguf, &value));
        MICA_TRY(set_field(&fields[i], fields[i].gguf, value, sampling));
        *named = true;
    }
    return MICA_OK;
}

/* --- generation_config.json ------------------------------------------------------------------- */

static mica_status read_config(const mica__json *root, mica_sampling *sampling, bool *named)
{
    const mica__json *draw = mica__json_get(root, "do_sample");
    if (draw && draw->type == MICA__JSON_BOOL) {
        sampling->temperature = draw->boolean ? 1 : 0;
        *named = true;
        if (!draw->boolean)
            return MICA_OK;
    }
    for (int i = 0; i < N_FIELDS; i++) {
        const mica__json *node = fields[i].json ? mica__json_get(root, fields[i].json) : NULL;
        if (!node || node->type == MICA__JSON_NULL)
            continue;
        if (node->type != MICA__JSON_INTEGER && node->type != MICA__JSON_REAL)
            MICA_FAIL(MICA_E_FORMAT, "%s is no number", fields[i].json);
        MICA_TRY(set_field(&fields[i], fields[i].json, node->number, sampling));
        *named = true;
    }
    return MICA_OK;
}

static mica_status read_folder(const char *folder, mica_sampling *sampling, bool *named)
{
    char path[4096];
    mica__json_doc *doc = NULL;
    const int n = snprintf(path, sizeof path, "%s/generation_config.json", folder);
    if (n < 0 || (size_t)n >= sizeof path || !mica__file_exists(path))
        return MICA_OK; /* most folders of base models have none */
    MICA_TRY(mica__json_read(path, MAX_CONFIG_BYTES, &doc));
    const mica_status status = read_config(mica__json_root(doc), sampling, named);
    mica__json_free(doc);
    return status == MICA_OK ? status : mica__fail_at(status, "%s", path);
}

mica_status mica_model_sampling(const mica_model *model, mica_sampling *sampling, bool *named)
{
    bool ignored;
    named = named ? named : &ignored;
    *named = false;
    const mica__gguf *gguf = mica__weights_gguf(model->files);
    mica_sampling read = *sampling;
    const mica_status status = gguf ? read_gguf(gguf, &read, named)
                                    : read_folder(mica__weights_folder(model->files), &read, named);
    if (status == MICA_OK)
        *sampling = read;
    return status;
}
