/* engine_prefix_file_test.c - a prompt's keys and values in a file: what comes back is what was
 * computed, or nothing does.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/drive.h"
#include "io/safetensors_write.h"
#include "run/prefix_file.h"
#include "support/temp_dir.h"

#define PROMPT 200
#define OUTPUT 24

static mica__identity fake_identity;

static mica_status identify(void *model, mica__identity *identity)
{
    (void)model;
    *identity = fake_identity;
    return MICA_OK;
}

static void set_identity(const char *model, const char *kv, const char *activations)
{
    memset(&fake_identity, 0, sizeof fake_identity);
    snprintf(fake_identity.name, sizeof fake_identity.name, "fake");
    snprintf(fake_identity.model, sizeof fake_identity.model, "%s", model);
    snprintf(fake_identity.kv, sizeof fake_identity.kv, "%s", kv);
    snprintf(fake_identity.activations, sizeof fake_identity.activations, "%s", activations);
}

/* Pools: 'f' full, 'w' a window of 40, 's' state. */
static void open_model(fake_model *model, const char *pools)
{
    fake_open(model);
    set_identity("fake 1", "f16", "int8");
    model->stepper.identify = identify;
    for (; *pools; pools++)
        fake_add_pool(model,
                      *pools == 'f'   ? MICA__POOL_FULL
                      : *pools == 'w' ? MICA__POOL_WINDOW
                                      : MICA__POOL_STATE,
                      *pools == 'w' ? 40 : 0, *pools == 'f' ? 136 : 200);
}

static mica_engine *open_engine(fake_model *model, int64_t kv_memory)
{
    const mica_engine_options options = {.kv_memory = kv_memory};
    mica_engine *engine;
    assert_ok(mica__engine_new(&model->stepper, &options, &engine));
    return engine;
}

/* Runs a prompt and compares its output with the oracle's; how many of its tokens were cached. */
static int64_t run(mica_engine *engine, const int32_t *prompt, int64_t n)
{
    int32_t expected[OUTPUT];
    drive d;
    mica_request request;
    mica_request_init(&request);
    request.tokens = prompt;
    request.n_tokens = n;
    request.max_tokens = OUTPUT;
    drive_open(&d, engine, 4);
    const int64_t id = drive_submit(&d, &request);
    drive_finish(&d);
    const drive_output *output = drive_find(&d, id, 0);
    assert_int_equal(output->last.reason, MICA_FINISH_LENGTH);
    drive_expect(&engine->stepper, prompt, n, OUTPUT, expected);
    assert_memory_equal(output->tokens, expected, sizeof expected);
    const int64_t cached = output->last.usage.cached_tokens;
    drive_close(&d);
    return cached;
}

/* Computes a prompt in an engine of its own and saves it; how many tokens that were. */
static int64_t make_file(const char *pools, uint64_t seed, int64_t n, const char *path)
{
    fake_model model;
    int32_t prompt[PROMPT];
    int64_t saved;
    open_model(&model, pools);
    mica_engine *engine = open_engine(&model, 1 << 20);
    drive_prompt(seed, prompt, n);
    run(engine, prompt, n);
    assert_ok(mica_engine_save_prefix(engine, prompt, n, path, &saved));
    assert_int_equal(saved, mica_engine_find_prefix(engine, prompt, n));
    mica_engine_free(engine);
    return saved;
}

/* --- what comes back -------------------------------------------------------------------------- */

static void a_loaded_prompt_is_a_warm_prefix(void **state)
{
    static const char *const layouts[] = {"f", "w", "fw", "fs", "fws", "s", "ffw"};
    (void)state;
    char *dir = temp_dir_new();
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s", temp_path(dir, layouts[k]));
        const int64_t start = drive_bytes();
        assert_int_equal(make_file(layouts[k], 7, PROMPT, path), 192);
        fake_model model;
        int32_t prompt[PROMPT];
        mica_prefix_load load;
        open_model(&model, layouts[k]);
        mica_engine *engine = open_engine(&model, 1 << 20);
        drive_prompt(7, prompt, PROMPT);
        assert_ok(mica_engine_load_prefix(engine, path, NULL, 0, &load));
        assert_int_equal(load.stored, 192);
        assert_int_equal(load.matched, 192);
        assert_int_equal(load.loaded, 192);
        assert_int_equal(run(engine, prompt, PROMPT), 192);
        assert_int_equal(model.n_tokens, PROMPT - 192 + OUTPUT - 1); /* nothing computed twice */
        drive_check_empty(engine);
        mica_engine_free(engine);
        assert_int_equal(drive_bytes(), start);
    }
    temp_dir_remove(dir);
}

static void a_prompt_that_only_begins_alike_uses_the_beginning(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    int32_t prompt[PROMPT];
    mica_prefix_load load;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("fw", 7, PROMPT, path);
    open_model(&model, "fw");
    mica_engine *engine = open_engine(&model, 1 << 20);
    drive_prompt(7, prompt, PROMPT);
    prompt[101] = (prompt[101] + 1) % 97;
    assert_ok(mica_engine_load_prefix(engine, path, prompt, PROMPT, &load));
    assert_int_equal(load.stored, 192);
    assert_int_equal(load.matched, 96);
    assert_int_equal(load.loaded, 96);
    assert_int_equal(run(engine, prompt, PROMPT), 96);
    prompt[0] = (prompt[0] + 1) % 97;
    assert_ok(mica_engine_load_prefix(engine, path, prompt, PROMPT, &load));
    assert_int_equal(load.matched, 0);
    assert_int_equal(run(engine, prompt, PROMPT), 0);
    drive_check_empty(engine);
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

/* The same prompt again needs its last token computed, and so the window blocks before the block
 * that this token ends. */
static void a_prompt_of_whole_blocks_is_found_again(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    int32_t prompt[PROMPT];
    mica_prefix_load load;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    assert_int_equal(make_file("fw", 3, 160, path), 160);
    open_model(&model, "fw");
    mica_engine *engine = open_engine(&model, 1 << 20);
    drive_prompt(3, prompt, 160);
    assert_ok(mica_engine_load_prefix(engine, path, prompt, 160, &load));
    assert_int_equal(load.loaded, 160);
    assert_int_equal(run(engine, prompt, 160), 144);
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

static void loading_over_what_is_there_changes_nothing(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    int32_t prompt[PROMPT];
    mica_prefix_load load;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("fws", 7, PROMPT, path);
    open_model(&model, "fws");
    mica_engine *engine = open_engine(&model, 1 << 20);
    drive_prompt(7, prompt, PROMPT);
    run(engine, prompt, PROMPT);
    const int64_t used = engine->scheduler.store.budget.used;
    for (int i = 0; i < 3; i++)
        assert_ok(mica_engine_load_prefix(engine, path, prompt, PROMPT, &load));
    assert_int_equal(load.loaded, 192);
    assert_true(engine->scheduler.store.budget.used <= used + 4096 * 3);
    assert_int_equal(run(engine, prompt, PROMPT), 192);
    drive_check_empty(engine);
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

static void what_is_beyond_the_context_is_left_out(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    int32_t prompt[PROMPT];
    mica_prefix_load load;
    mica_engine *engine;
    char path[4096];
    const mica_engine_options options = {.kv_memory = 1 << 20, .context = 70};
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("fw", 7, PROMPT, path);
    open_model(&model, "fw");
    assert_ok(mica__engine_new(&model.stepper, &options, &engine));
    drive_prompt(7, prompt, PROMPT);
    assert_ok(mica_engine_load_prefix(engine, path, NULL, 0, &load));
    assert_int_equal(load.stored, 192);
    assert_int_equal(load.loaded, 64);
    assert_int_equal(run(engine, prompt, 46), 32);
    drive_check_empty(engine);
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void expect_refusal(mica_engine *engine, const char *path, mica_status status,
                           const char *theirs, const char *ours)
{
    mica_prefix_load load;
    assert_status(mica_engine_load_prefix(engine, path, NULL, 0, &load), status);
    assert_non_null(strstr(mica_last_error(), theirs));
    assert_non_null(strstr(mica_last_error(), ours));
    assert_int_equal(load.loaded, 0);
    drive_check_empty(engine);
}

static void what_belongs_to_another_run_is_refused_with_both_names(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("f", 7, PROMPT, path);
    open_model(&model, "f");
    mica_engine *engine = open_engine(&model, 1 << 20);
    set_identity("fake 2", "f16", "int8");
    expect_refusal(engine, path, MICA_E_ARGUMENT, "fake 1", "fake 2");
    set_identity("fake 1", "q8", "int8");
    expect_refusal(engine, path, MICA_E_ARGUMENT, "f16", "q8");
    set_identity("fake 1", "f16", "f32");
    expect_refusal(engine, path, MICA_E_ARGUMENT, "int8", "f32");
    mica_engine_free(engine);
    open_model(&model, "w");
    engine = open_engine(&model, 1 << 20);
    expect_refusal(engine, path, MICA_E_ARGUMENT, "full 0: 136", "window 40: 200");
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

static void states_that_cannot_save_say_so(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    int32_t prompt[PROMPT];
    int64_t saved;
    mica_prefix_load load;
    mica_engine *engine;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    drive_prompt(7, prompt, PROMPT);
    open_model(&model, "f");
    engine = open_engine(&model, 1 << 20);
    assert_status(mica_engine_save_prefix(engine, prompt, PROMPT, path, &saved), MICA_E_NOT_FOUND);
    assert_status(mica_engine_save_prefix(engine, NULL, 3, path, &saved), MICA_E_ARGUMENT);
    assert_status(mica_engine_load_prefix(engine, path, prompt, PROMPT, &load), MICA_E_NOT_FOUND);
    assert_status(mica_engine_load_prefix(engine, dir, prompt, PROMPT, &load), MICA_E_IO);
    run(engine, prompt, PROMPT);
    assert_status(
        mica_engine_save_prefix(engine, prompt, PROMPT, temp_path(dir, "missing/cache"), &saved),
        MICA_E_NOT_FOUND);
    engine->stepper.identify = NULL;
    assert_status(mica_engine_save_prefix(engine, prompt, PROMPT, path, &saved),
                  MICA_E_UNSUPPORTED);
    mica_engine_free(engine);
    const mica_engine_options options = {.kv_memory = 1 << 20, .no_prefix_cache = true};
    assert_ok(mica__engine_new(&model.stepper, &options, &engine));
    assert_status(mica_engine_save_prefix(engine, prompt, PROMPT, path, &saved), MICA_E_STATE);
    assert_status(mica_engine_load_prefix(engine, path, prompt, PROMPT, &load), MICA_E_STATE);
    mica_engine_free(engine);
    assert_int_equal(temp_dir_entries(dir), 0);
    temp_dir_remove(dir);
}

/* --- hostile files ---------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    assert_non_null(file);
    assert_non_null(bytes);
    *n = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void a_file_cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    mica_prefix_load load;
    char path[4096];
    size_t n;
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("fws", 7, 50, path);
    char *bytes = read_file(path, &n);
    open_model(&model, "fws");
    mica_engine *engine = open_engine(&model, 1 << 20);
    for (size_t length = 0; length < n; length++) {
        const char *cut = temp_write(dir, "cut", bytes, length);
        assert_status(mica_engine_load_prefix(engine, cut, NULL, 0, &load), MICA_E_FORMAT);
        assert_int_equal(load.loaded, 0);
    }
    drive_check_empty(engine);
    mica_engine_free(engine);
    free(bytes);
    temp_dir_remove(dir);
}

/* Every byte of the file, changed in two ways: refused, or what loads is what was saved. */
static void a_changed_byte_never_changes_the_output(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    mica_prefix_load load;
    int32_t prompt[PROMPT];
    char path[4096];
    size_t n;
    int64_t n_loaded = 0;
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("fws", 7, 50, path);
    char *bytes = read_file(path, &n);
    drive_prompt(7, prompt, 50);
    open_model(&model, "fws");
    mica_engine *engine = open_engine(&model, 1 << 20);
    for (size_t i = 0; i < 2 * n; i++) {
        const char old = bytes[i / 2];
        bytes[i / 2] = (char)(old ^ (i % 2 ? 0x80 : 1));
        const char *changed = temp_write(dir, "changed", bytes, n);
        bytes[i / 2] = old;
        if (mica_engine_load_prefix(engine, changed, NULL, 0, &load) != MICA_OK) {
            assert_int_equal(load.loaded, 0);
            continue;
        }
        n_loaded++;
        assert_int_equal(run(engine, prompt, 50), load.loaded);
        drive_check_empty(engine);
    }
    assert_true(n_loaded > 0 && n_loaded < 2 * 100); /* the model's name, padding, case of hex */
    drive_check_empty(engine);
    mica_engine_free(engine);
    free(bytes);
    temp_dir_remove(dir);
}

/* A file as mica__prefix_save writes it for one full pool, but with these lists. */
typedef struct forged {
    const char *version;
    int64_t n_tokens, n_index, n_blocks, block_bytes, n_sums;
    int32_t first_token, first_index, second_index;
    bool extra;
} forged;

static void forge(const char *path, const forged *f)
{
    static const char zeros[65536];
    mica__st_writer *writer;
    int32_t ids[64] = {f->first_token}, index[64] = {f->first_index, f->second_index};
    const int64_t shape[2] = {f->n_blocks, f->block_bytes};
    assert_ok(mica__st_writer_open(path, &writer));
    assert_ok(mica__st_put_metadata(writer, "mica_prompt_cache", f->version));
    assert_ok(mica__st_put_metadata(writer, "model", "fake 1"));
    assert_ok(mica__st_put_metadata(writer, "model_name", "fake"));
    assert_ok(mica__st_put_metadata(writer, "kv", "f16"));
    assert_ok(mica__st_put_metadata(writer, "activations", "int8"));
    assert_ok(mica__st_put_metadata(writer, "pools", "blocks of 16 tokens, full 0: 136 bytes"));
    assert_ok(mica__st_declare(writer, "tokens", MICA__ST_I32, 1, &f->n_tokens));
    assert_ok(mica__st_declare(writer, "pool.0.index", MICA__ST_I32, 1, &f->n_index));
    assert_ok(mica__st_declare(writer, "pool.0.blocks", MICA__ST_U8, 2, shape));
    assert_ok(mica__st_declare(writer, "pool.0.sums", MICA__ST_U64, 1, &f->n_sums));
    if (f->extra)
        assert_ok(mica__st_declare(writer, "pool.1.sums", MICA__ST_U64, 1, &f->n_sums));
    assert_ok(mica__st_write(writer, ids, f->n_tokens * 4));
    assert_ok(mica__st_write(writer, index, f->n_index * 4));
    assert_ok(mica__st_write(writer, zeros, f->n_blocks * f->block_bytes));
    assert_ok(mica__st_write(writer, zeros, f->n_sums * 8));
    if (f->extra)
        assert_ok(mica__st_write(writer, zeros, f->n_sums * 8));
    assert_ok(mica__st_writer_finish(writer));
}

static void lists_that_do_not_fit_together_are_named(void **state)
{
    static const struct {
        forged file;
        mica_status status;
        const char *says;
    } cases[] = {
        {{"2", 32, 2, 2, 136, 2, 0, 0, 1, false}, MICA_E_UNSUPPORTED, "version 2"},
        {{"1", 31, 2, 2, 136, 2, 0, 0, 1, false}, MICA_E_FORMAT, "31 tokens"},
        {{"1", 0, 0, 0, 136, 0, 0, 0, 1, false}, MICA_E_FORMAT, "0 tokens"},
        {{"1", 32, 2, 2, 136, 2, 97, 0, 1, false}, MICA_E_FORMAT, "token 0"},
        {{"1", 32, 2, 2, 136, 2, -1, 0, 1, false}, MICA_E_FORMAT, "token 0"},
        {{"1", 32, 1, 1, 136, 1, 0, 0, 1, false}, MICA_E_FORMAT, "1 of 2"},
        {{"1", 32, 3, 3, 136, 3, 0, 0, 1, false}, MICA_E_FORMAT, "entry 2"},
        {{"1", 32, 2, 2, 136, 2, 0, 1, 1, false}, MICA_E_FORMAT, "entry 1"},
        {{"1", 32, 2, 2, 136, 2, 0, 0, 2, false}, MICA_E_FORMAT, "entry 1"},
        {{"1", 32, 2, 2, 136, 2, 0, -1, 1, false}, MICA_E_FORMAT, "entry 0"},
        {{"1", 32, 2, 1, 136, 2, 0, 0, 1, false}, MICA_E_FORMAT, "2 blocks of 136"},
        {{"1", 32, 2, 2, 135, 2, 0, 0, 1, false}, MICA_E_FORMAT, "2 blocks of 136"},
        {{"1", 32, 2, 2, 136, 1, 0, 0, 1, false}, MICA_E_FORMAT, "2 blocks of 136"},
        {{"1", 32, 2, 2, 136, 2, 0, 0, 1, true}, MICA_E_FORMAT, "more tensors"},
        {{"1", 32, 2, 2, 136, 2, 0, 0, 1, false}, MICA_E_FORMAT, "block 0 of pool 0"},
    };
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "forged"));
    open_model(&model, "f");
    mica_engine *engine = open_engine(&model, 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        forge(path, &cases[i].file);
        expect_refusal(engine, path, cases[i].status, cases[i].says, path);
    }
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void what_does_not_fit_is_left_out_from_the_end(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    int32_t prompt[PROMPT];
    mica_prefix_load load;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    drive_prompt(7, prompt, PROMPT);
    for (int window = 0; window < 2; window++) {
        fake_model large;
        int64_t saved;
        fake_open(&large);
        set_identity("fake 1", "f16", "int8");
        large.stepper.identify = identify;
        fake_add_pool(&large, MICA__POOL_FULL, 0, 4096);
        if (window)
            fake_add_pool(&large, MICA__POOL_WINDOW, 40, 4096);
        mica_engine *engine = open_engine(&large, 1 << 20);
        run(engine, prompt, PROMPT);
        assert_ok(mica_engine_save_prefix(engine, prompt, PROMPT, path, &saved));
        mica_engine_free(engine);
        engine = open_engine(&large, 8 * 4096);
        assert_ok(mica_engine_load_prefix(engine, path, NULL, 0, &load));
        /* Eight pages: 8 full blocks, or 4 of each pool. A fifth row needs two more, and a token
         * behind row 4 still sees all window blocks but the first. */
        assert_int_equal(load.loaded, window ? 4 * 16 : 8 * 16);
        assert_int_equal(load.matched, 192);
        assert_true(engine->scheduler.store.budget.used <= 8 * 4096);
        assert_int_equal(mica_engine_find_prefix(engine, prompt, PROMPT), load.loaded);
        /* With a window its first block was given up, and what ends before row 3 needs it. */
        assert_int_equal(run(engine, prompt, 40), window ? 0 : 32);
        drive_check_empty(engine);
        mica_engine_free(engine);
    }
    temp_dir_remove(dir);
}

static void a_memory_limit_without_room_refuses_with_numbers(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    mica_prefix_load load;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("f", 7, PROMPT, path);
    open_model(&model, "f");
    mica_engine *engine = open_engine(&model, 1 << 20);
    mica_set_memory_limit(1, false);
    const mica_status status = mica_engine_load_prefix(engine, path, NULL, 0, &load);
    mica_set_memory_limit(0, false);
    assert_int_equal(status, MICA_E_MEMORY);
    assert_non_null(strstr(mica_last_error(), "the memory limit is 1"));
    assert_ok(mica_engine_load_prefix(engine, path, NULL, 0, &load));
    assert_int_equal(load.loaded, 192);
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    char *dir = temp_dir_new();
    fake_model model;
    int32_t prompt[PROMPT];
    mica_prefix_load load;
    int64_t saved;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(dir, "cache"));
    make_file("fws", 7, PROMPT, path);
    open_model(&model, "fws");
    drive_prompt(7, prompt, PROMPT);
    bool complete = false;
    for (int64_t n = 1; !complete; n++) {
        mica_engine *engine = open_engine(&model, 1 << 20);
        const int64_t before = drive_bytes();
        mica__fault_after(n, false);
        const mica_status status = mica_engine_load_prefix(engine, path, NULL, 0, &load);
        complete = mica__fault_hits() < n;
        mica__fault_after(0, false);
        if (status != MICA_OK) {
            assert_int_equal(status, MICA_E_MEMORY);
            assert_int_equal(load.loaded, 0);
        }
        assert_int_equal(mica_engine_find_prefix(engine, prompt, PROMPT), load.loaded);
        drive_check_empty(engine);
        /* What may stay are the pools' own arrays, of blocks that were there once. */
        assert_true(drive_bytes() - before < 8192);
        assert_ok(mica_engine_load_prefix(engine, path, NULL, 0, &load));
        assert_int_equal(run(engine, prompt, PROMPT), 192);
        mica_engine_free(engine);
    }
    assert_int_equal(load.loaded, 192);
    mica_engine *engine = open_engine(&model, 1 << 20);
    run(engine, prompt, PROMPT);
    const int64_t before = drive_bytes();
    mica_status status = MICA_E_MEMORY;
    for (int64_t n = 1; status != MICA_OK; n++) {
        mica__fault_after(n, false);
        status = mica_engine_save_prefix(engine, prompt, PROMPT, path, &saved);
        mica__fault_after(0, false);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
        assert_int_equal(saved, status == MICA_OK ? 192 : 0);
        assert_int_equal(drive_bytes(), before);
        assert_int_equal(temp_dir_entries(dir), 1); /* no temporary file stays */
    }
    mica_engine_free(engine);
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_prompt_is_a_warm_prefix),
        cmocka_unit_test(a_prompt_that_only_begins_alike_uses_the_beginning),
        cmocka_unit_test(a_prompt_of_whole_blocks_is_found_again),
        cmocka_unit_test(loading_over_what_is_there_changes_nothing),
        cmocka_unit_test(what_is_beyond_the_context_is_left_out),
        cmocka_unit_test(what_belongs_to_another_run_is_refused_with_both_names),
        cmocka_unit_test(states_that_cannot_save_say_so),
        cmocka_unit_test(a_file_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_changed_byte_never_changes_the_output),
        cmocka_unit_test(lists_that_do_not_fit_together_are_named),
        cmocka_unit_test(what_does_not_fit_is_left_out_from_the_end),
        cmocka_unit_test(a_memory_limit_without_room_refuses_with_numbers),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
