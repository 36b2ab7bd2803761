/* weights_check_test.c - a model whose file holds a scale that is not finite is refused at its
 * first step, by name.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <mica/mica.h>

#include "base/bytes.h"
#include "io/weights.h"
#include "support/step_driver.h"
#include "support/temp_dir.h"
#include "support/to_gguf.h"

static mica_status first_step(const char *path)
{
    mica_ctx *mc = mica_open(NULL);
    mica_model *model;
    step_driver driver;
    const int32_t id = 7;
    assert_ok(mica_model_open(mc, path, NULL, &model));
    assert_ok(step_driver_open(model, MICA__KV_F32, 1, 32, 8, &driver));
    const mica_status status = step_driver_feed(&driver, 0, &id, 1, NULL);
    step_driver_close(&driver);
    mica_model_close(model);
    mica_close(mc);
    return status;
}

static void an_infinite_scale_is_found_and_named(void **state)
{
    (void)state;
    const char *folder = shared_path("golden/models/qwen3");
    if (!folder)
        skip();
    char *dir = temp_dir_new(), file[4096];
    snprintf(file, sizeof file, "%s/model.gguf", dir);
    const to_gguf_options options = {
        .name = "qwen3", .matrices = MICA__Q8_0, .embedding = MICA__Q8_0};
    assert_ok(to_gguf(folder, file, &options));
    assert_ok(first_step(file));

    mica__weights *weights;
    const mica__weight *tensor;
    assert_ok(mica__weights_open(file, true, &weights));
    assert_ok(mica__weights_need(weights, "blk.1.ffn_up.weight", &tensor));
    const long at =
        (long)mica__weights_offset(weights, tensor) + 5 * 34; /* the sixth block's scale */
    mica__weights_close(weights);
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    const uint8_t infinity[2] = {0x00, 0x7c};
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(infinity, 1, 2, f), 2);
    fclose(f);
    assert_status(first_step(file), MICA_E_FORMAT);
    assert_non_null(strstr(mica_last_error(), "blk.1.ffn_up.weight"));
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_infinite_scale_is_found_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
