/* strips.c - cutting products with weights into tasks.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/strips.h"

#include <string.h>

/* With up to this many activation rows the weights decide the time: they are read as 16 streams. */
#define FEW_ACTS 16
/* About so many tasks there are for few activation rows, of so many bytes of weights. A task's rows
 * follow each other: short stretches would be read ahead by the hardware in vain. */
#define FEW_ACTS_TASKS  16
#define TASK_BYTES      32768
#define TASK_BYTES_MOST 262144
/* Strips of many activation rows are halved where there would be fewer tasks than this. */
#define FEW_TASKS 8

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

mica__cut mica__cut_of(int64_t n, int64_t m, int64_t row_bytes)
{
    mica__cut cut = {.n = n, .m = m};
    const int64_t panel_bytes = 16 * at_least(row_bytes, 1);
    if (m <= FEW_ACTS) {
        cut.lane_rows = n / 16;
        /* Streams a multiple of 4096 bytes apart share the sets of the first cache. */
        if (cut.lane_rows > 1 && cut.lane_rows * row_bytes % 4096 == 0)
            cut.lane_rows--;
        cut.panels = cut.lane_rows + ceil_div(n - 16 * cut.lane_rows, 16);
        cut.task_panels = at_least(
            ceil_div(TASK_BYTES, panel_bytes),
            at_most(ceil_div(cut.panels, FEW_ACTS_TASKS), ceil_div(TASK_BYTES_MOST, panel_bytes)));
        cut.task_acts = at_least(m, 1);
    } else {
        cut.panels = ceil_div(n, 16);
        cut.task_acts = MICA__STRIP_ACTS;
        const int64_t tasks = ceil_div(n, MICA__STRIP_ROWS) * ceil_div(m, cut.task_acts);
        cut.task_panels = tasks < FEW_TASKS ? 2 : MICA__STRIP_ROWS / 16;
    }
    cut.row_tasks = ceil_div(cut.panels, cut.task_panels);
    cut.act_tasks = ceil_div(m, cut.task_acts);
    return cut;
}

/* The rows of a panel. The last neighbours overlap the panel before where there are 16 rows. */
static mica__panel_rows panel_of(const mica__cut *cut, int64_t panel)
{
    if (panel < cut->lane_rows)
        return (mica__panel_rows){panel, cut->lane_rows, 0, 16};
    const int64_t first = 16 * panel; /* lane_rows panels hold 16 * lane_rows rows */
    if (first + 16 <= cut->n)
        return (mica__panel_rows){first, 1, 0, 16};
    if (cut->n >= 16)
        return (mica__panel_rows){cut->n - 16, 1, (int)(first - (cut->n - 16)), 16};
    return (mica__panel_rows){0, 1, 0, (int)cut->n};
}

/* Bytes of the results of one strip, when there are at most m activation rows. */
static size_t acc_bytes(int64_t m)
{
    const int64_t few = at_most(m, MICA__STRIP_FEW_ACTS) * MICA__STRIP_FEW_ROWS;
    return (size_t)at_least(few, at_most(m, MICA__STRIP_ACTS) * MICA__STRIP_ROWS) * sizeof(float);
}

size_t mica__cut_scratch_bound(int64_t m, size_t level_bytes)
{
    return MICA__STRIP_ACTS * sizeof(void *) + acc_bytes(m) + level_bytes;
}

int64_t mica__operand_row_count(const mica__operand *operand)
{
    int64_t rows = 1;
    for (int i = 0; i < operand->ndim - 1; i++)
        rows *= operand->shape[i];
    return rows;
}

uint8_t *mica__operand_row(const mica__operand *operand, int64_t row)
{
    int64_t offset = 0;
    for (int i = operand->ndim - 2; i > 0; i--) {
        offset += row % operand->shape[i] * operand->strides[i];
        row /= operand->shape[i];
    }
    if (operand->ndim > 1)
        offset += row * operand->strides[0];
    return operand->data + offset * mica_dtype_bytes(operand->dtype);
}

void mica__store_row(const mica__matmul_level *level, mica_dtype dtype, const float *in, int64_t n,
                     uint8_t *out)
{
    if (dtype == MICA_F32)
        memcpy(out, in, (size_t)n * sizeof(float));
    else
        level->real->from_f32(dtype, in, n, out);
}

static void store_f32(const mica__panel_rows *rows, const float *acc, float *out)
{
    if (rows->step == 1 && rows->to - rows->from == 16)
        memcpy(out + rows->first, acc, 16 * sizeof *acc); /* the usual case, of a constant size */
    else
        for (int i = rows->from; i < rows->to; i++)
            out[rows->first + i * rows->step] = acc[i];
}

/* Moves one row of results to the output. */
static void store_results(const mica__strip *strip, int act, mica_dtype dtype,
                          const mica__matmul_level *level, uint8_t *out)
{
    for (int p = 0; p < strip->n_panels; p++) {
        const mica__panel_rows *rows = &strip->panels[p];
        const float *acc = strip->acc + (act * strip->n_panels + p) * 16;
        if (dtype == MICA_F32) {
            store_f32(rows, acc, (float *)(void *)out);
            continue;
        }
        for (int i = rows->from; i < rows->to; i++)
            level->real->from_f32(dtype, acc + i, 1, out + (rows->first + i * rows->step) * 2);
    }
}

void mica__cut_run(const mica__cut *cut, int64_t task, const mica__qweight *weight,
                   void (*run_strip)(const mica__strip *), const mica__matmul_level *level,
                   const mica__strip_rows *rows, void *scratch)
{
    const int64_t first_act = task % cut->act_tasks * cut->task_acts;
    const int64_t first_panel = task / cut->act_tasks * cut->task_panels;
    const int64_t end = at_most(first_panel + cut->task_panels, cut->panels);
    const int n_acts = (int)at_most(cut->task_acts, cut->m - first_act);
    const void **acts = scratch;
    mica__strip strip = {.weight = weight, .acts = acts, .n_acts = n_acts};
    strip.acc = (float *)(void *)(acts + MICA__STRIP_ACTS);
    strip.scratch = (uint8_t *)strip.acc + acc_bytes(cut->m);
    for (int i = 0; i < n_acts; i++)
        acts[i] = rows->plain_acts
                      ? rows->plain_acts + (rows->acts_first + first_act + i) * weight->k * 4
                      : mica__operand_row(rows->acts, rows->acts_first + first_act + i);
    const int most =
        (n_acts <= MICA__STRIP_FEW_ACTS ? MICA__STRIP_FEW_ROWS : MICA__STRIP_ROWS) / 16;
    for (int64_t panel = first_panel; panel < end; panel += strip.n_panels) {
        strip.n_panels = (int)at_most(end - panel, most);
        for (int i = 0; i < strip.n_panels; i++)
            strip.panels[i] = panel_of(cut, panel + i);
        run_strip(&strip);
        for (int i = 0; i < n_acts; i++)
            store_results(&strip, i, rows->out->dtype, level,
                          mica__operand_row(rows->out, rows->out_first + first_act + i));
    }
}
