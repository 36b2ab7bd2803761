/* fused_run.c - the tile interpreter: loads, instructions and stores over tiles of 1024 floats.
 *
 * A slot is a pointer: to the operand itself where that is dense f32, else to a tile of the
 * scratch. Only the last instruction writes straight into an output, when all inputs have been
 * read, so an output may lie over an input.
 * SPDX-License-Identifier: MIT
 */
#include "backend/cpu/fused_run.h"

#include <string.h>

#include "backend/cpu/level.h"

static bool is_float(mica_dtype dtype)
{
    return dtype == MICA_F32 || dtype == MICA_F16 || dtype == MICA_BF16;
}

/* The instruction that last writes a slot; NULL where none does. */
static const mica__fused_instr *writer_of(const mica__fused_attrs *chain, int slot)
{
    for (int i = chain->n_instrs - 1; i >= 0; i--)
        if (chain->instrs[i].out == slot)
            return &chain->instrs[i];
    return NULL;
}

static bool instr_fits(const mica__fused_attrs *chain, const mica__fused_instr *instr)
{
    if (instr->op >= MICA__N_OPS || !is_float((mica_dtype)instr->dtype))
        return false;
    const mica__op_class class = mica__op_facts_of((mica__op)instr->op)->class;
    if (class != MICA__CLASS_UNARY && class != MICA__CLASS_BINARY && instr->op != MICA__OP_ASTYPE)
        return false;
    return instr->out < chain->n_slots && instr->in[0] < chain->n_slots &&
           instr->in[1] < chain->n_slots;
}

bool mica__fused_accepts(const mica__fused_attrs *chain, const mica__operand *in,
                         const mica__operand *out)
{
    if (chain->n_inputs > MICA__FUSED_INPUTS || chain->n_outputs < 1 ||
        chain->n_outputs > MICA__FUSED_OUTPUTS || chain->n_instrs < 1 ||
        chain->n_instrs > MICA__FUSED_INSTRS || chain->n_slots > MICA__FUSED_SLOTS ||
        chain->n_slots < chain->n_inputs)
        return false;
    for (int i = 0; i < chain->n_instrs; i++)
        if (!instr_fits(chain, &chain->instrs[i]))
            return false;
    for (int i = 0; i < chain->n_inputs; i++)
        if (!is_float(in[i].dtype) || in[i].ndim > out[0].ndim)
            return false;
    for (int i = 0; i < chain->n_outputs; i++) {
        const mica__fused_instr *writer = writer_of(chain, chain->outputs[i]);
        if (!writer || out[i].dtype != (mica_dtype)writer->dtype)
            return false;
    }
    return true;
}

size_t mica__fused_scratch_bytes(const mica__fused_attrs *chain)
{
    return (size_t)chain->n_slots * MICA__FUSED_TILE * sizeof(float);
}

/* One run of elements with a stride into floats. */
static void load_strided(const mica__tile_level *level, float *to, const uint8_t *from,
                         mica_dtype dtype, int64_t stride, int64_t n)
{
    const int64_t bytes = mica_dtype_bytes(dtype);
    if (stride == 1) {
        level->load(to, from, dtype, n);
    } else if (stride == 0) {
        level->load(to, from, dtype, n > 0);
        for (int64_t i = 1; i < n; i++)
            to[i] = to[0];
    } else if (dtype == MICA_F32) {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i, from + i * stride * 4, 4);
    } else {
        for (int64_t i = 0; i < n; i++)
            level->load(to + i, from + i * stride * bytes, dtype, 1);
    }
}

static void store_strided(const mica__tile_level *level, uint8_t *to, const float *from,
                          mica_dtype dtype, int64_t stride, int64_t n)
{
    const int64_t bytes = mica_dtype_bytes(dtype);
    if (stride == 1) {
        level->store(to, from, dtype, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        level->store(to + i * stride * bytes, from + i, dtype, 1);
}

/* One run of the interpreter over a part of the outputs. */
typedef struct interpreter {
    const mica__tile_level *level;
    const mica__fused_attrs *chain;
    const mica__operand *in;
    const mica__operand *out;
    mica__walk walk; /* inputs, then outputs */
    float *tiles;
    const float *slots[MICA__FUSED_SLOTS];
} interpreter;

static float *tile_of(const interpreter *self, int slot)
{
    return self->tiles + (int64_t)slot * MICA__FUSED_TILE;
}

static bool dense(const interpreter *self, int operand)
{
    return self->walk.ndim == 1 && self->walk.strides[operand][0] == 1;
}

static void load_input(interpreter *self, int i, int64_t start, int64_t n)
{
    const mica__operand *in = &self->in[i];
    const int64_t bytes = mica_dtype_bytes(in->dtype);
    if (dense(self, i) && in->dtype == MICA_F32 && !in->unaligned) {
        self->slots[i] = (const float *)(const void *)in->data + start;
        return;
    }
    float *tile = tile_of(self, i);
    self->slots[i] = tile;
    const int64_t stride = self->walk.strides[i][self->walk.ndim - 1];
    mica__cursor cursor;
    mica__cursor_set(&self->walk, &cursor, start);
    while (n > 0) {
        const int64_t run = mica__cursor_run(&self->walk, &cursor, n);
        load_strided(self->level, tile,
                     in->data + mica__cursor_offset(&self->walk, &cursor, i) * bytes, in->dtype,
                     stride, run);
        mica__cursor_advance(&self->walk, &cursor, run);
        tile += run;
        n -= run;
    }
}

static void store_output(interpreter *self, int i, int64_t start, int64_t n)
{
    const mica__operand *out = &self->out[i];
    const int operand = self->chain->n_inputs + i;
    const int64_t bytes = mica_dtype_bytes(out->dtype);
    const float *values = self->slots[self->chain->outputs[i]];
    if (dense(self, operand) && (const uint8_t *)values == out->data + start * bytes)
        return;
    const int64_t stride = self->walk.strides[operand][self->walk.ndim - 1];
    mica__cursor cursor;
    mica__cursor_set(&self->walk, &cursor, start);
    while (n > 0) {
        const int64_t run = mica__cursor_run(&self->walk, &cursor, n);
        store_strided(self->level,
                      out->data + mica__cursor_offset(&self->walk, &cursor, operand) * bytes,
                      values, out->dtype, stride, run);
        mica__cursor_advance(&self->walk, &cursor, run);
        values += run;
        n -= run;
    }
}

/* Where instruction k writes: into output 0 itself where it is the last and that is dense f32. */
static float *target_of(const interpreter *self, int k, int64_t start)
{
    const mica__fused_attrs *chain = self->chain;
    const int slot = chain->instrs[k].out;
    if (k == chain->n_instrs - 1 && chain->n_outputs == 1 && chain->outputs[0] == slot &&
        self->out[0].dtype == MICA_F32 && dense(self, chain->n_inputs))
        return (float *)(void *)self->out[0].data + start;
    return tile_of(self, slot);
}

static mica_status execute(interpreter *self, int k, int64_t start, int64_t n)
{
    const mica__fused_instr *instr = &self->chain->instrs[k];
    const float *a = self->slots[instr->in[0]], *b = self->slots[instr->in[1]];
    float *to = target_of(self, k, start);
    const mica__op op = (mica__op)instr->op;
    if (op == MICA__OP_ASTYPE) {
        if (to != a)
            memmove(to, a, (size_t)n * sizeof *to);
    } else if (!(mica__op_facts_of(op)->arity == 1 ? self->level->unary(op, to, a, n)
                                                   : self->level->binary(op, to, a, b, n))) {
        MICA_FAIL(MICA_E_INTERNAL, "the tile interpreter has no operation %s",
                  mica__op_facts_of(op)->name);
    }
    self->level->round(to, (mica_dtype)instr->dtype, n);
    self->slots[instr->out] = to;
    return MICA_OK;
}

mica_status mica__fused_run(const mica__cpu *cpu, const mica__fused_attrs *chain,
                            const mica__operand *in, const mica__operand *out, int64_t start,
                            int64_t n, void *scratch)
{
    interpreter self = {.level = mica__tile_level_at(cpu->level),
                        .chain = chain,
                        .in = in,
                        .out = out,
                        .tiles = scratch};
    mica__walk_start(&self.walk, out[0].ndim, out[0].shape);
    for (int i = 0; i < chain->n_inputs; i++)
        mica__walk_add(&self.walk, &in[i]);
    for (int i = 0; i < chain->n_outputs; i++)
        mica__walk_add(&self.walk, &out[i]);
    mica__walk_merge(&self.walk);
    for (int i = 0; i < chain->n_slots; i++)
        self.slots[i] = tile_of(&self, i);
    for (const int64_t stop = start + n; start < stop; start += MICA__FUSED_TILE) {
        const int64_t count = stop - start < MICA__FUSED_TILE ? stop - start : MICA__FUSED_TILE;
        for (int i = 0; i < chain->n_inputs; i++)
            load_input(&self, i, start, count);
        for (int k = 0; k < chain->n_instrs; k++)
            MICA_TRY(execute(&self, k, start, count));
        for (int i = 0; i < chain->n_outputs; i++)
            store_output(&self, i, start, count);
    }
    return MICA_OK;
}
