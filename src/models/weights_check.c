/* weights_check.c - looks for scales that are not finite.
 *
 * Workers take matrices from a counter; the lowest failing one wins, so the answer does not depend
 * on who was first.
 * SPDX-License-Identifier: MIT
 */
#include "models/weights_check.h"

#include <stdatomic.h>

#include "base/bytes.h"
#include "io/block_codec.h"

typedef struct check {
    const mica__matrix **matrices;
    int64_t n;
    _Atomic int64_t next;
    _Atomic int64_t bad; /* index of the lowest failing matrix, n: none */
} check;

static const uint8_t *data_of(const mica_array *array)
{
    return array->buffer->data + array->offset;
}

static bool blocks_are_finite(const mica__matrix *m)
{
    const mica__block_format format = (mica__block_format)m->attrs.format;
    const int64_t row = mica__block_row_bytes(format, m->attrs.k);
    int64_t bad;
    for (int64_t i = 0; i < m->attrs.n; i++)
        if (mica__block_check_scales(format, data_of(m->parts[0]) + i * row, m->attrs.k, &bad) !=
            MICA_OK)
            return false;
    return true;
}

/* Scales and biases of MLX groups: floats with an exponent below all ones; e8m0 bytes but 255; e4m3
 * bytes but NaN. */
static bool part_is_finite(const mica_array *part, int32_t format)
{
    const uint8_t *data = data_of(part);
    const int64_t n = mica_array_size(part);
    bool finite = true;
    for (int64_t i = 0; i < n; i++)
        switch (part->dtype) {
        case MICA_F16:
            finite &= (mica__load_u16(data + 2 * i) & 0x7c00) != 0x7c00;
            break;
        case MICA_BF16:
            finite &= (mica__load_u16(data + 2 * i) & 0x7f80) != 0x7f80;
            break;
        case MICA_F32:
            finite &= (mica__load_u32(data + 4 * i) & 0x7f800000u) != 0x7f800000u;
            break;
        default:
            finite &= format == MICA__MLX_NVFP4 ? (data[i] & 0x7f) != 0x7f : data[i] != 255;
        }
    return finite;
}

static bool is_finite(const mica__matrix *m)
{
    if (m->attrs.format < MICA__MLX_AFFINE)
        return blocks_are_finite(m);
    for (int i = 1; i < m->n_parts; i++)
        if (!part_is_finite(m->parts[i], m->attrs.format))
            return false;
    return true;
}

static void body(void *user, int worker, int n_workers)
{
    check *c = user;
    (void)worker, (void)n_workers;
    for (int64_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;) {
        int64_t seen = atomic_load(&c->bad);
        if (i < seen && !is_finite(c->matrices[i]))
            while (i < seen && !atomic_compare_exchange_weak(&c->bad, &seen, i))
                ;
    }
}

static void list(check *c, const mica__matrix *m)
{
    if (m->n_parts)
        c->matrices[c->n++] = m;
}

static mica_status name_it(const mica__weights *files, const mica__matrix *m)
{
    for (int64_t i = 0; i < mica__weights_n(files); i++) {
        const mica__weight *tensor = mica__weights_at(files, i);
        if (tensor->data == data_of(m->parts[0]))
            MICA_FAIL(MICA_E_FORMAT, "%s: tensor %s has a scale that is not finite",
                      mica__weights_file(files, tensor), tensor->name);
    }
    MICA_FAIL(MICA_E_FORMAT, "a weight has a scale that is not finite");
}

mica_status mica__weights_check(const mica__weights *files, const mica__decoder_weights *weights,
                                const mica__decoder_spec *spec, mica__workers *workers)
{
    check c = {.n = 0};
    const size_t most = (size_t)spec->n_layers * MICA__N_LAYER_ROLES + 2;
    c.matrices = mica__alloc_zero(MICA_MEMORY_OTHER, most, sizeof *c.matrices);
    if (!c.matrices)
        return MICA_E_MEMORY;
    list(&c, &weights->embed.matrix);
    if (!spec->tied)
        list(&c, &weights->head.matrix);
    for (int i = 0; i < spec->n_layers; i++)
        for (int r = 0; r < MICA__N_LAYER_ROLES; r++)
            list(&c, &weights->layers[i].linear[r].matrix);
    atomic_init(&c.bad, c.n);
    mica__workers_run(workers, body, &c);
    const int64_t bad = atomic_load(&c.bad);
    const mica_status status = bad < c.n ? name_it(files, c.matrices[bad]) : MICA_OK;
    mica__free(c.matrices);
    return status;
}
