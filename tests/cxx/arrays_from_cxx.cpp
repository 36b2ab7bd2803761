/* arrays_from_cxx.cpp - the array API as a C++ programmer calls it: functions where C has macros.
 * SPDX-License-Identifier: MIT
 */
#include <mica/mica.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <vector>

namespace
{
mica_shape shape(std::initializer_list<std::int64_t> dims)
{
    return mica_shape_of(static_cast<int>(dims.size()), dims.begin());
}

int fail(const char *what, mica_ctx *mc)
{
    std::printf("%s: %s\n", what, mc ? mica_error(mc) : mica_last_error());
    return 1;
}

/* sum over rows of (x + 1) W^T, by hand: x = [0 1; 2 3; 4 5], W = [1 2; 3 4]. */
int products(mica_ctx *mc)
{
    const std::array<float, 6> x_data = {0, 1, 2, 3, 4, 5};
    const std::array<float, 4> w_data = {1, 2, 3, 4};
    mica_array *x = mica_from_data(mc, x_data.data(), shape({3, 2}), MICA_F32);
    mica_array *w = mica_from_data(mc, w_data.data(), shape({2, 2}), MICA_F32);
    mica_array *y =
        mica_matmul(mica_add(x, mica_scalar(mc, 1, MICA_F32)), mica_transpose(w, 0, nullptr));
    mica_array *sum = mica_sum(y, 1, false), *all = mica_sum(y, MICA_ALL_AXES, false);
    const std::vector<mica_array *> wanted = {sum, all};
    if (mica_eval(mc, static_cast<int>(wanted.size()), wanted.data()) != MICA_OK)
        return fail("eval", mc);
    const float *got = static_cast<const float *>(mica_data(sum));
    if (got[0] != 33 || got[1] != 75 || mica_item_f64(all) != 108)
        return fail("wrong sums", mc);
    const mica_shape none = mica_shape_of(0, nullptr); /* MICA_SCALAR */
    if (none.ndim != 0 || mica_array_ndim(mica_zeros(mc, none, MICA_I32)) != 0)
        return fail("scalars", mc);
    return 0;
}

int programs(mica_ctx *mc)
{
    mica_array *in = mica_input(mc, shape({4}), MICA_F32);
    mica_array *out = mica_square(in), *result = nullptr;
    mica_program *program = nullptr;
    if (mica_compile(mc, 1, &in, 1, &out, &program) != MICA_OK)
        return fail("compile", mc);
    mica_array *x = mica_arange(mc, 0, 4, 1, MICA_F32);
    int failed = mica_eval(mc, 1, &x) != MICA_OK || mica_run(mc, program, &x, &result) != MICA_OK;
    failed = failed || static_cast<const float *>(mica_data(result))[3] != 9;
    mica_program_free(program);
    return failed ? fail("program", mc) : 0;
}
} // namespace

int main()
{
    mica_options options = {};
    options.threads = 1;
    mica_ctx *mc = mica_open(&options);
    if (!mc)
        return fail("open", nullptr);
    const int failed = products(mc) || programs(mc);
    mica_close(mc);
    return failed;
}
