/* step_driver.c - see step_driver.h.
 * SPDX-License-Identifier: MIT
 */
#include "support/step_driver.h"

#include "base/alloc.h"

#include <string.h>

mica_status step_driver_open(mica_model *model, mica__kv_dtype kv, int64_t n_sequences,
                             int64_t max_length, int64_t max_tokens, step_driver *driver)
{
    memset(driver, 0, sizeof *driver);
    const mica__stepper_options options = {.kv_dtype = kv,
                                           .context = max_length,
                                           .max_tokens = max_tokens,
                                           .max_sequences = n_sequences};
    MICA_TRY(mica__model_stepper_new(model, &options, &driver->stepper, &driver->face));
    driver->n_sequences = n_sequences;
    driver->stride = (max_length + MICA__KV_BLOCK_TOKENS - 1) / MICA__KV_BLOCK_TOKENS;
    const int64_t n_blocks = n_sequences * driver->stride;
    driver->table = mica__alloc(MICA_MEMORY_OTHER, (size_t)n_blocks * sizeof *driver->table);
    driver->length =
        mica__alloc_zero(MICA_MEMORY_OTHER, (size_t)n_sequences, sizeof *driver->length);
    bool ready = driver->table && driver->length;
    /* Blocks in a scattered order: neighbours in a sequence are no neighbours in memory. */
    for (int64_t i = 0; ready && i < n_blocks; i++)
        driver->table[i] = (int32_t)(i % driver->stride * n_sequences + i / driver->stride);
    for (int p = 0; p < driver->face.n_pools && ready; p++) {
        const size_t bytes = (size_t)(driver->face.pools[p].block_bytes * n_blocks);
        driver->pool[p] = mica__alloc(MICA_MEMORY_OTHER, bytes);
        ready = driver->pool[p] != NULL;
        if (ready)
            memset(driver->pool[p], 0xff,
                   bytes); /* NaN everywhere: what is not written must not be read */
    }
    if (!ready)
        step_driver_close(driver);
    return ready ? MICA_OK : MICA_E_MEMORY;
}

void step_driver_close(step_driver *driver)
{
    for (int p = 0; p < MICA__KV_MAX_POOLS; p++)
        mica__free(driver->pool[p]);
    mica__free(driver->table);
    mica__free(driver->length);
    mica__model_stepper_free(driver->stepper);
    memset(driver, 0, sizeof *driver);
}

mica_status step_driver_feed(step_driver *driver, int64_t sequence, const int32_t *tokens,
                             int64_t n, float *logits)
{
    int32_t *lists = mica__alloc(MICA_MEMORY_OTHER, (size_t)(3 * n) * sizeof *lists);
    if (!lists)
        return MICA_E_MEMORY;
    int32_t *positions = lists, *sequence_of = lists + n, *rows = lists + 2 * n;
    for (int64_t i = 0; i < n; i++) {
        positions[i] = driver->length[sequence] + (int32_t)i;
        sequence_of[i] = (int32_t)sequence;
        rows[i] = (int32_t)i;
    }
    driver->length[sequence] += (int32_t)n;
    mica__step step = {.n_tokens = n,
                       .n_sequences = driver->n_sequences,
                       .n_rows = logits ? n : 0,
                       .tokens = tokens,
                       .positions = positions,
                       .sequence_of = sequence_of,
                       .kv_length = driver->length,
                       .table_stride = driver->stride,
                       .logits_rows = rows,
                       .logits = logits};
    for (int p = 0; p < driver->face.n_pools; p++) {
        step.block_table[p] = driver->table;
        step.pool_base[p] = driver->pool[p];
    }
    const mica_status status = driver->face.run(driver->face.model, &step);
    mica__free(lists);
    return status;
}

void step_driver_reset(step_driver *driver, int64_t sequence)
{
    driver->length[sequence] = 0;
}
