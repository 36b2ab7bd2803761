/* kernel_call.c - runs one kernel of the CPU backend the hard way.
 * SPDX-License-Identifier: MIT
 */
#include "support/kernel_call.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/level.h"
#include "support/check.h"

int kernel_levels(const mica__cpu **levels)
{
    static mica__cpu cpus[MICA__N_CPU_LEVELS];
    const mica__cpu *host = mica__cpu_host();
    int n = 0;
    for (int level = 0; level < MICA__N_CPU_LEVELS; level++) {
        const bool arm = level == MICA__CPU_NEON;
        if (level != MICA__CPU_SCALAR &&
            (level > (int)host->level || arm != (host->level == MICA__CPU_NEON)))
            continue;
        if (!mica__tile_level_at((mica__cpu_level)level))
            continue;
        cpus[n].level = (mica__cpu_level)level;
        levels[n] = &cpus[n];
        n++;
    }
    return n;
}

mica__operand operand_of(void *data, mica_dtype dtype, int ndim, const int64_t *shape)
{
    mica__operand operand = {.data = data, .dtype = dtype, .ndim = ndim};
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        operand.shape[i] = shape[i];
        operand.strides[i] = stride;
        stride *= shape[i];
    }
    return operand;
}

uint32_t random_u32(random_source *random)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t x = random->state ^ random->state >> 29;
    return (uint32_t)(x * 0x9e3779b97f4a7c15u >> 32);
}

float random_float(random_source *random, float low, float high)
{
    return low + (high - low) * (float)(random_u32(random) >> 8) * 0x1p-24f;
}

float random_normal(random_source *random)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += random_float(random, 0, 1);
    return sum - 6;
}

static const mica__kernel *kernel_of(mica__op op, const mica__call *call)
{
    for (int i = 0; i < mica__cpu_n_kernels; i++)
        if (mica__cpu_kernels[i]->op == op &&
            (!mica__cpu_kernels[i]->accepts || mica__cpu_kernels[i]->accepts(call)))
            return mica__cpu_kernels[i];
    return NULL;
}

static void *poisoned(size_t bytes)
{
    void *memory = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    if (memory)
        memset(memory, 0xff, bytes);
    return memory;
}

static mica_status run_stage(const mica__kernel *kernel, const mica__call *call, int stage,
                             size_t scratch_bytes, random_source *random)
{
    const int64_t n = kernel->n_tasks(call, stage);
    int64_t *order = malloc((size_t)(n + 1) * sizeof *order);
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = random_u32(random) % (uint64_t)(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    mica_status status = MICA_OK;
    for (int64_t i = 0; i < n && status == MICA_OK; i++) {
        void *scratch = poisoned(scratch_bytes);
        status = kernel->run(call, stage, order[i], scratch);
        free(scratch);
    }
    free(order);
    return status;
}

mica_status run_kernel(mica__op op, const mica__call *call)
{
    return run_kernel_planned(op, call, call);
}

mica_status run_kernel_planned(mica__op op, const mica__call *planned, const mica__call *call)
{
    static random_source random = {1};
    const mica__kernel *kernel = kernel_of(op, call);
    if (!kernel)
        fail_msg("no kernel accepts this call of %s", mica__op_facts_of(op)->name);
    const size_t scratch_bytes = kernel->scratch_bytes ? kernel->scratch_bytes(planned) : 0;
    const size_t workspace_bytes = kernel->workspace_bytes ? kernel->workspace_bytes(planned) : 0;
    mica__call own = *call;
    own.workspace = poisoned(workspace_bytes);
    mica_status status = MICA_OK;
    for (int stage = 0; stage < kernel->n_stages && status == MICA_OK; stage++)
        status = run_stage(kernel, &own, stage, scratch_bytes, &random);
    free(own.workspace);
    return status;
}

void assert_same_floats(const float *got, const float *want, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        if (isnan(got[i]) && isnan(want[i]))
            continue;
        if (memcmp(&got[i], &want[i], sizeof *got))
            fail_msg("%s: element %lld is %a, not %a", what, (long long)i, (double)got[i],
                     (double)want[i]);
    }
}
