/* program.c - passes in order, then freezing the IR into a program.
 * SPDX-License-Identifier: MIT
 */
#include "core/program.h"

#include <string.h>

#include "core/plan_call.h"

static mica_status run_passes(mica__ir *ir)
{
    MICA_TRY(mica__pass_decompose(ir));
    MICA_TRY(mica__pass_cse(ir));
    MICA_TRY(mica__pass_views(ir));
    MICA_TRY(mica__pass_fuse(ir));
    MICA_TRY(mica__pass_kernels(ir));
    MICA_TRY(mica__pass_order(ir));
    MICA_TRY(mica__pass_phases(ir));
    return mica__pass_memory(ir);
}

static void *take(mica_program *program, size_t count, size_t size)
{
    size_t bytes;
    if (!mica__mul(count + 1, size, &bytes))
        return NULL;
    void *memory = mica__arena_alloc(&program->memory, bytes, 16);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static mica__place place_of(const mica__ir *ir, int32_t id, int n_in)
{
    const mica__ir_value *value = &ir->values[id];
    const mica__ir_value *base = &ir->values[value->base];
    const int64_t offset = value->offset * mica_dtype_bytes(value->dtype);
    if (base->leaf >= 0)
        return base->leaf < n_in ? (mica__place){MICA__FROM_INPUT, base->leaf, offset}
                                 : (mica__place){MICA__FROM_CONSTANT, base->leaf - n_in, offset};
    if (base->output >= 0)
        return (mica__place){MICA__FROM_OUTPUT, base->output, offset};
    return (mica__place){MICA__FROM_ARENA, 0, base->place + offset};
}

static int32_t count_varying(const mica__ir *ir)
{
    int32_t n = 0;
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        const mica__ir_node *node = &ir->nodes[i];
        for (int j = 0; j < node->n_in + node->n_out; j++) {
            const mica__ir_value *value =
                &ir->values[j < node->n_in ? node->in[j] : node->out + j - node->n_in];
            for (int d = 0; d < value->ndim; d++)
                n += value->extents[d] != 0;
        }
    }
    return n;
}

static void note_varying(mica_program *program, const mica__ir *ir, const mica__ir_value *value,
                         int32_t operand)
{
    for (int d = 0; d < value->ndim; d++) {
        if (!value->extents[d])
            continue;
        const int extent = value->extents[d] - 1;
        const int64_t bound = ir->ctx->extents[extent].bound;
        program->bounds[extent] = bound;
        program->n_extents = extent + 1 > program->n_extents ? extent + 1 : program->n_extents;
        program->varying[program->n_varying++] =
            (mica__varying){operand, (int8_t)d, (uint8_t)extent, value->shape[d] / bound};
    }
}

static mica_status freeze_steps(mica_program *program, const mica__ir *ir, int n_in)
{
    for (int64_t i = 0; i < ir->n_nodes; i++)
        program->n_operands += ir->nodes[i].n_in + ir->nodes[i].n_out;
    program->steps = take(program, (size_t)ir->n_nodes, sizeof *program->steps);
    program->operands = take(program, (size_t)program->n_operands, sizeof *program->operands);
    program->places = take(program, (size_t)program->n_operands, sizeof *program->places);
    program->varying = take(program, (size_t)count_varying(ir), sizeof *program->varying);
    if (!program->steps || !program->operands || !program->places || !program->varying)
        return MICA_E_MEMORY;
    int32_t operand = 0;
    for (int64_t i = 0; i < ir->n_nodes; i++) {
        const mica__ir_node *node = &ir->nodes[i];
        mica__program_step *step = &program->steps[program->n_steps++];
        const size_t attr_bytes = mica__op_facts_of(node->op)->attr_bytes;
        void *attrs = take(program, 1, attr_bytes);
        if (!attrs)
            return MICA_E_MEMORY;
        memcpy(attrs, node->attrs, attr_bytes);
        mica__plan_call(ir, node, &program->operands[operand], &step->call);
        step->call.attrs = attrs;
        step->call.cpu = &program->runtime->cpu;
        step->kernel = node->kernel;
        step->phase = node->phase;
        step->workspace_place = node->workspace > 0 ? node->workspace_place : -1;
        step->first_operand = operand;
        for (int j = 0; j < node->n_in + node->n_out; j++, operand++) {
            const int32_t id = j < node->n_in ? node->in[j] : node->out + j - node->n_in;
            program->places[operand] = place_of(ir, id, n_in);
            note_varying(program, ir, &ir->values[id], operand);
        }
    }
    return MICA_OK;
}

/* Lists what each phase has to do: (step, stage) pairs. */
static mica_status freeze_phases(mica_program *program, const mica__ir *ir)
{
    int64_t entries = 0;
    for (int64_t i = 0; i < ir->n_nodes; i++)
        entries += ir->nodes[i].kernel->n_stages;
    program->n_phases = ir->n_phases;
    program->phase_first = take(program, (size_t)ir->n_phases + 1, sizeof *program->phase_first);
    program->phase_steps = take(program, (size_t)entries, sizeof *program->phase_steps);
    program->run_phases = take(program, (size_t)ir->n_phases, sizeof *program->run_phases);
    program->run_counts = take(program, (size_t)entries, sizeof *program->run_counts);
    if (!program->phase_first || !program->phase_steps || !program->run_phases ||
        !program->run_counts)
        return MICA_E_MEMORY;
    for (int32_t i = 0; i < program->n_steps; i++)
        for (int s = 0; s < program->steps[i].kernel->n_stages; s++)
            program->phase_first[program->steps[i].phase + s + 1]++;
    for (int32_t p = 0; p < program->n_phases; p++)
        program->phase_first[p + 1] += program->phase_first[p];
    int32_t *at = mica__alloc(MICA_MEMORY_GRAPH, (size_t)(program->n_phases + 1) * sizeof *at);
    if (!at)
        return MICA_E_MEMORY;
    memcpy(at, program->phase_first, (size_t)program->n_phases * sizeof *at);
    for (int32_t i = 0; i < program->n_steps; i++)
        for (int s = 0; s < program->steps[i].kernel->n_stages; s++)
            program->phase_steps[at[program->steps[i].phase + s]++] = i * 4 + s;
    mica__free(at);
    return MICA_OK;
}

static void freeze_value(const mica__ir_value *value, mica__program_value *frozen)
{
    frozen->aval = (mica__aval){.dtype = value->dtype, .ndim = value->ndim};
    memcpy(frozen->aval.shape, value->shape, (size_t)value->ndim * sizeof *value->shape);
    memcpy(frozen->aval.extents.axis, value->extents, (size_t)value->ndim);
    frozen->alias = -1;
}

static mica_status freeze_ends(mica_program *program, const mica__ir *ir, int n_in)
{
    program->n_in = n_in;
    program->n_out = ir->n_outputs;
    program->inputs = take(program, (size_t)program->n_in, sizeof *program->inputs);
    program->outputs = take(program, (size_t)program->n_out, sizeof *program->outputs);
    program->constants = take(program, (size_t)ir->n_leaves, sizeof *program->constants);
    program->run_inputs = take(program, (size_t)program->n_in, sizeof *program->run_inputs);
    program->run_leading = take(program, (size_t)program->n_in, sizeof *program->run_leading);
    program->run_outputs = take(program, (size_t)program->n_out, sizeof *program->run_outputs);
    program->run_offsets = take(program, (size_t)program->n_out, sizeof *program->run_offsets);
    program->run_buffers = take(program, (size_t)program->n_out, sizeof *program->run_buffers);
    if (!program->inputs || !program->outputs || !program->constants || !program->run_inputs ||
        !program->run_leading || !program->run_outputs || !program->run_offsets ||
        !program->run_buffers)
        return MICA_E_MEMORY;
    for (int64_t i = 0; i < ir->n_values; i++)
        if (ir->values[i].leaf >= 0 && ir->values[i].leaf < program->n_in)
            freeze_value(&ir->values[i], &program->inputs[ir->values[i].leaf]);
    for (int i = 0; i < program->n_out; i++) {
        const mica__ir_value *value = &ir->values[ir->outputs[i]];
        freeze_value(value, &program->outputs[i]);
        if (ir->values[value->base].leaf >= 0)
            program->outputs[i].alias = ir->values[value->base].leaf;
    }
    for (int64_t i = n_in; i < ir->n_leaves; i++) {
        if (ir->leaves[i]->placeholder)
            MICA_FAIL(MICA_E_ARGUMENT,
                      "the graph reads a placeholder that is no input of the program");
        program->constants[program->n_constants++] = ir->leaves[i];
        atomic_fetch_add_explicit(&ir->leaves[i]->refs, 1, memory_order_relaxed);
        atomic_fetch_add(&ir->leaves[i]->pinned, 1);
    }
    return MICA_OK;
}

static void freeze_facts(mica_program *program, const mica__ir *ir)
{
    const int threads = program->runtime->threads;
    mica_program_facts *facts = &program->facts;
    program->scratch = ir->scratch ? (ir->scratch + 127) / 64 * 64 : 0;
    facts->arena_bytes = ir->arena_bytes;
    facts->live_bytes = ir->live_bytes;
    facts->scratch_bytes = (int64_t)program->scratch * threads;
    facts->n_steps = program->n_steps;
    facts->n_phases = program->n_phases;
    for (int i = 0; i < program->n_out; i++) {
        const mica__aval *aval = &program->outputs[i].aval;
        facts->output_bytes += mica__array_cost(aval->ndim);
        if (program->outputs[i].alias < 0)
            facts->output_bytes += mica__buffer_cost(mica__shape_size(aval->ndim, aval->shape) *
                                                     mica_dtype_bytes(aval->dtype));
    }
    facts->peak_bytes = facts->output_bytes;
    if (facts->arena_bytes)
        facts->peak_bytes += mica__pool_cost(facts->arena_bytes);
    if (facts->scratch_bytes)
        facts->peak_bytes += mica__pool_cost(facts->scratch_bytes);
    facts->program_bytes = mica__arena_bytes(&program->memory) + mica__alloc_cost(sizeof *program);
}

mica_status mica__program_make(mica__ir *ir, int n_in, mica_program **made)
{
    MICA_TRY(run_passes(ir));
    mica_program *program = mica__alloc_zero(MICA_MEMORY_PROGRAMS, 1, sizeof *program);
    if (!program)
        return MICA_E_MEMORY;
    atomic_init(&program->refs, 1);
    pthread_mutex_init(&program->run_lock, NULL);
    program->runtime = ir->ctx->runtime;
    program->memory.kind = MICA_MEMORY_PROGRAMS;
    mica_status status = freeze_steps(program, ir, n_in);
    if (status == MICA_OK)
        status = freeze_phases(program, ir);
    if (status == MICA_OK)
        status = freeze_ends(program, ir, n_in);
    if (status != MICA_OK) {
        mica_program_free(program);
        return status;
    }
    freeze_facts(program, ir);
    atomic_fetch_add(&program->runtime->programs_compiled, 1);
    *made = program;
    return MICA_OK;
}

mica_program *mica__program_keep(mica_program *program)
{
    atomic_fetch_add_explicit(&program->refs, 1, memory_order_relaxed);
    return program;
}

void mica_program_free(mica_program *program)
{
    if (!program || atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < program->n_constants; i++) {
        atomic_fetch_sub(&program->constants[i]->pinned, 1);
        mica__array_unref(program->constants[i]);
    }
    mica__arena_free(&program->memory);
    pthread_mutex_destroy(&program->run_lock);
    mica__free(program);
}

mica_program_facts mica_program_describe(const mica_program *program)
{
    return program->facts;
}
