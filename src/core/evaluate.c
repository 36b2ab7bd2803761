/* evaluate.c - mica_eval, mica_compile, mica_run: the ways into programs.
 *
 * There is one path: the graph is collected, described, and its program found in the cache or made;
 * then leaves are bound and it runs. mica_compile keeps the program instead.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "core/program.h"
#include "core/program_cache.h"

/* One run with the program's own tables, which serve one run at a time: begin locks them and makes
 * the output buffers, end gives back those that nobody took and unlocks. Nothing else is allocated,
 * so the program's predicted peak holds. */
static mica_status begin_run(mica_program *program)
{
    pthread_mutex_lock(&program->run_lock);
    program->run_began = false;
    for (int i = 0; i < program->n_out; i++) {
        program->run_buffers[i] = NULL;
        program->run_outputs[i] = NULL;
    }
    for (int i = 0; i < program->n_out; i++) {
        const mica__aval *aval = &program->outputs[i].aval;
        if (program->outputs[i].alias >= 0)
            continue;
        program->run_buffers[i] =
            mica__buffer_new(program->runtime->pool, mica__shape_size(aval->ndim, aval->shape) *
                                                         mica_dtype_bytes(aval->dtype));
        if (!program->run_buffers[i])
            return MICA_E_MEMORY;
        program->run_outputs[i] = program->run_buffers[i]->data;
    }
    return MICA_OK;
}

static mica_status do_run(mica_program *program, mica_array *const *inputs)
{
    for (int i = 0; i < program->n_in; i++) {
        program->run_inputs[i] = inputs[i]->buffer->data + inputs[i]->offset;
        program->run_leading[i] = inputs[i]->ndim ? inputs[i]->shape[0] : 1;
    }
    const mica__run_args args = {.inputs = program->run_inputs,
                                 .leading = program->run_leading,
                                 .outputs = program->run_outputs};
    return mica__program_run_held(program, &args);
}

static void end_run(mica_program *program)
{
    for (int i = 0; i < program->n_out; i++)
        mica__buffer_release(program->run_buffers[i]);
    pthread_mutex_unlock(&program->run_lock);
}

/* --- eval ------------------------------------------------------------------------------------- */

static mica_status find_program(mica_ctx *mc, mica__ir *ir, mica_program **program)
{
    mica__runtime *runtime = mc->runtime;
    for (int64_t i = 0; i < ir->n_leaves; i++)
        if (ir->leaves[i]->placeholder)
            MICA_FAIL(MICA_E_STATE,
                      "the value of a placeholder is not known: compile and run a program instead");
    MICA_TRY(mica__ir_describe(ir));
    *program = mica__program_cache_find(runtime->cache, ir->key.bytes, ir->key.length);
    if (*program) {
        atomic_fetch_add(&runtime->cache_hits, 1);
        return MICA_OK;
    }
    MICA_TRY(mica__program_make(ir, (int)ir->n_leaves, program));
    mica__program_cache_add(runtime->cache, ir->key.bytes, ir->key.length, *program);
    return MICA_OK;
}

/* After a run: an output that was written into an input has its buffer, and the input has no value
 * any more, whether the run succeeded or not; what was offered to a run that succeeded is taken,
 * too. */
static void settle_inputs(mica_program *program, mica_array *const *inputs, bool success)
{
    for (int i = 0; i < program->n_out && program->run_began; i++) {
        const int alias = program->outputs[i].alias;
        program->run_offsets[i] = alias >= 0 ? inputs[alias]->offset : 0;
        if (alias >= 0)
            program->run_buffers[i] = mica__buffer_keep(inputs[alias]->buffer);
    }
    for (int i = 0; i < program->n_out && program->run_began; i++)
        if (program->outputs[i].alias >= 0)
            mica__array_consume(inputs[program->outputs[i].alias]);
    for (int i = 0; i < program->n_in && success; i++)
        if (inputs[i]->donation == MICA__OFFERED)
            mica__array_consume(inputs[i]);
}

/* Results get their buffers. In an evaluation they let go of their graph: inputs may be gone
 * afterwards. */
static void fill_results(mica_program *program, mica_array *const *results)
{
    for (int i = 0; i < program->n_out; i++) {
        mica__array_fill(results[i], program->run_buffers[i], program->run_offsets[i]);
        program->run_buffers[i] = NULL;
    }
}

/* Nodes that stay in graphs although their values were computed on the way. */
static void note_computed(mica__runtime *runtime, const mica__ir *ir)
{
    atomic_fetch_add(&runtime->recomputed, ir->n_recomputed);
    for (int64_t i = 0; i < ir->n_sources; i++)
        ir->sources[i]->computed = true;
}

static mica_status eval_pending(mica_ctx *mc, int n, mica_array *const *pending)
{
    mica__ir ir;
    mica_program *program = NULL;
    mica_status status = mica__ir_collect(mc, 0, NULL, n, pending, &ir);
    if (status == MICA_OK)
        status = find_program(mc, &ir, &program);
    if (status == MICA_OK) {
        status = begin_run(program);
        if (status == MICA_OK)
            status = do_run(program, ir.leaves);
        settle_inputs(program, ir.leaves, status == MICA_OK);
        if (status == MICA_OK) {
            note_computed(mc->runtime, &ir);
            fill_results(program, pending);
        }
        end_run(program);
    }
    mica_program_free(program);
    mica__ir_free(&ir);
    return status;
}

static mica_status check_eval(const mica_ctx *mc, int i, const mica_array *array)
{
    char text[MICA__ARRAY_TEXT];
    if (!array)
        MICA_FAIL(MICA_E_ARGUMENT, "eval: array %d is NULL", i);
    if (array->donation != MICA__NOT_DONATED)
        MICA_FAIL(MICA_E_STATE, "eval: array %d, %s, was donated", i,
                  mica__array_text(array, text));
    if (array->placeholder)
        MICA_FAIL(MICA_E_STATE, "eval: array %d, %s, is a placeholder and has no value", i,
                  mica__array_text(array, text));
    return mica__check_context(mc, "eval: array", i, array);
}

mica_status mica_eval(mica_ctx *mc, int n, mica_array *const *arrays)
{
    if (!mc)
        return mica__fail(MICA_E_ARGUMENT, "eval: no context");
    if (mc->status != MICA_OK)
        return mc->status;
    mica_array **pending =
        mica__alloc(MICA_MEMORY_GRAPH, (size_t)(n > 0 ? n : 1) * sizeof *pending);
    if (!pending)
        return mica__ctx_fail(mc, MICA_E_MEMORY);
    int n_pending = 0;
    mica_status status = MICA_OK;
    for (int i = 0; i < n && status == MICA_OK; i++) {
        status = check_eval(mc, i, arrays[i]);
        bool listed = false;
        for (int j = 0; j < n_pending; j++)
            listed |= pending[j] == arrays[i];
        if (status == MICA_OK && !arrays[i]->buffer && !listed)
            pending[n_pending++] = arrays[i];
    }
    if (status == MICA_OK && n_pending)
        status = eval_pending(mc, n_pending, pending);
    mica__free(pending);
    return status == MICA_OK ? status : mica__ctx_fail(mc, status);
}

/* --- compiled programs ------------------------------------------------------------------------ */

/* A program keeps its constants: they cannot have been given away. */
static mica_status check_constants(const mica__ir *ir)
{
    char text[MICA__ARRAY_TEXT];
    for (int64_t i = 0; i < ir->n_leaves; i++)
        if (ir->leaves[i]->donation != MICA__NOT_DONATED)
            MICA_FAIL(MICA_E_STATE, "the graph needs %s, which was donated",
                      mica__array_text(ir->leaves[i], text));
    return MICA_OK;
}

mica_status mica_compile(mica_ctx *mc, int n_in, mica_array *const *inputs, int n_out,
                         mica_array *const *outs, mica_program **program)
{
    if (!mc)
        return mica__fail(MICA_E_ARGUMENT, "compile: no context");
    if (mc->status != MICA_OK)
        return mc->status;
    for (int i = 0; i < n_in + n_out; i++) {
        const char *what = i < n_in ? "compile: input" : "compile: output";
        const int number = i < n_in ? i : i - n_in;
        const mica_array *array = i < n_in ? inputs[i] : outs[number];
        const mica_status fits = array ? mica__check_context(mc, what, number, array)
                                       : mica__fail(MICA_E_ARGUMENT, "%s %d is NULL", what, number);
        if (fits != MICA_OK)
            return mica__ctx_fail(mc, fits);
    }
    mica__ir ir;
    mica_status status = mica__ir_collect(mc, n_in, inputs, n_out, outs, &ir);
    if (status == MICA_OK)
        status = check_constants(&ir);
    if (status == MICA_OK)
        status = mica__program_make(&ir, n_in, program);
    mica__ir_free(&ir);
    return status == MICA_OK ? status : mica__ctx_fail(mc, mica__fail_at(status, "compile"));
}

static mica_status check_run_input(const mica_program *program, int i, const mica_array *array)
{
    const mica__aval *want = &program->inputs[i].aval;
    if (!array || !array->buffer)
        MICA_FAIL(MICA_E_STATE, "input %d %s", i,
                  !array                          ? "is NULL"
                  : array->donation == MICA__GONE ? "was donated"
                  : array->placeholder            ? "is a placeholder"
                                                  : "is not evaluated");
    if (array->dtype != want->dtype || array->ndim != want->ndim)
        MICA_FAIL(MICA_E_SHAPE, "input %d is %s of %d dimensions, the program takes %s of %d", i,
                  mica_dtype_name(array->dtype), array->ndim, mica_dtype_name(want->dtype),
                  want->ndim);
    for (int d = 0; d < want->ndim; d++)
        if (array->shape[d] != want->shape[d] && !(d == 0 && want->extents.axis[0]))
            MICA_FAIL(MICA_E_SHAPE, "input %d has %lld for axis %d, the program takes %lld", i,
                      (long long)array->shape[d], d, (long long)want->shape[d]);
    if (array->buffer->unaligned || array->offset % 64)
        MICA_FAIL(MICA_E_UNSUPPORTED, "input %d starts at an unaligned address: copy it first", i);
    return MICA_OK;
}

/* The arrays that a run gives, with the shapes of this run. */
static mica_status make_results(mica_ctx *mc, const mica_program *program, const int64_t *extents,
                                mica_array **results)
{
    for (int i = 0; i < program->n_out; i++) {
        mica__aval aval = program->outputs[i].aval;
        for (int d = 0; d < aval.ndim; d++)
            if (aval.extents.axis[d]) {
                const int e = aval.extents.axis[d] - 1;
                aval.shape[d] = aval.shape[d] / program->bounds[e] * extents[e];
            }
        memset(&aval.extents, 0, sizeof aval.extents);
        results[i] = mica__array_new(mc, &aval);
        if (!results[i])
            return MICA_E_MEMORY;
    }
    return MICA_OK;
}

/* An input that the program updates in place may be given once only. */
static mica_status check_updated(const mica_program *program, mica_array *const *inputs)
{
    for (int i = 0; i < program->n_out; i++) {
        const int alias = program->outputs[i].alias;
        for (int j = 0; j < program->n_in && alias >= 0; j++)
            if (j != alias && inputs[j]->buffer == inputs[alias]->buffer)
                MICA_FAIL(MICA_E_ARGUMENT,
                          "input %d is updated in place and given again as input %d", alias, j);
    }
    return MICA_OK;
}

static mica_status run_checked(mica_ctx *mc, mica_program *program, mica_array *const *inputs,
                               mica_array **results)
{
    int64_t extents[MICA__MAX_EXTENTS];
    for (int i = 0; i < program->n_in; i++) {
        MICA_TRY(check_run_input(program, i, inputs[i]));
        program->run_leading[i] = inputs[i]->ndim ? inputs[i]->shape[0] : 1;
    }
    MICA_TRY(check_updated(program, inputs));
    MICA_TRY(mica__program_extents(program, program->run_leading, extents));
    MICA_TRY(make_results(mc, program, extents, results));
    const mica_status status = do_run(program, inputs);
    settle_inputs(program, inputs, status == MICA_OK);
    if (status == MICA_OK)
        fill_results(program, results);
    return status;
}

mica_status mica_run(mica_ctx *mc, mica_program *program, mica_array *const *inputs,
                     mica_array **results)
{
    if (!mc || !program)
        return mica__fail(MICA_E_ARGUMENT, "run: no context or no program");
    const mica_status sticky = mc->status; /* a run neither obeys nor touches it */
    for (int i = 0; i < program->n_out; i++)
        results[i] = NULL;
    mica_status status = begin_run(program);
    if (status == MICA_OK)
        status = run_checked(mc, program, inputs, results);
    end_run(program);
    if (status == MICA_OK)
        return MICA_OK;
    for (int i = 0; i < program->n_out; i++) {
        mica__array_drop(results[i]);
        results[i] = NULL;
    }
    if (sticky == MICA_OK)
        mica_clear_error(mc);
    return mica__fail_at(status, "run");
}

/* --- reading values --------------------------------------------------------------------------- */

const void *mica_data(const mica_array *array)
{
    if (!array)
        return NULL;
    char text[MICA__ARRAY_TEXT];
    if (array->donation != MICA__NOT_DONATED || !array->buffer) {
        const char *why = array->donation      ? "was donated"
                          : array->placeholder ? "is a placeholder"
                                               : "is not evaluated";
        mica__ctx_fail(mica__ctx_of(array),
                       mica__fail(MICA_E_STATE, "data: %s %s", mica__array_text(array, text), why));
        return NULL;
    }
    return array->buffer->data + array->offset;
}

static const uint8_t *item(mica_array *array)
{
    if (!array)
        return NULL;
    mica_ctx *ctx = mica__ctx_of(array);
    if (mica_array_size(array) != 1) {
        mica__ctx_fail(ctx, mica__fail(MICA_E_SHAPE, "item: the array has %lld elements, not one",
                                       (long long)mica_array_size(array)));
        return NULL;
    }
    const bool pending = !array->buffer && !array->placeholder && !array->donation;
    if (pending && mica_eval(ctx, 1, &array) != MICA_OK)
        return NULL;
    return mica_data(array);
}

double mica_item_f64(mica_array *array)
{
    const uint8_t *at = item(array);
    if (!at)
        return NAN;
    switch (array->dtype) {
    case MICA_F16:
        return (double)mica__f16_to_f32(mica__load_u16(at));
    case MICA_BF16:
        return (double)mica__bf16_to_f32(mica__load_u16(at));
    case MICA_F32:
        return (double)mica__load_f32(at);
    case MICA_F64:
        return mica__load_f64(at);
    case MICA_U64:
        return (double)mica__load_u64(at);
    default:
        return (double)mica_item_i64(array);
    }
}

int64_t mica_item_i64(mica_array *array)
{
    const uint8_t *at = item(array);
    if (!at)
        return 0;
    switch (array->dtype) {
    case MICA_BOOL:
    case MICA_U8:
        return *at;
    case MICA_I8:
        return (int8_t)*at;
    case MICA_U16:
        return mica__load_u16(at);
    case MICA_I16:
        return (int16_t)mica__load_u16(at);
    case MICA_U32:
        return mica__load_u32(at);
    case MICA_I32:
        return (int32_t)mica__load_u32(at);
    case MICA_U64:
    case MICA_I64:
        return (int64_t)mica__load_u64(at);
    default:
        mica__ctx_fail(mica__ctx_of(array),
                       mica__fail(MICA_E_ARGUMENT, "item: %s is no integer type",
                                  mica_dtype_name(array->dtype)));
        return 0;
    }
}
