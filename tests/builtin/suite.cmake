# The maker of the built-in model: `cmake --build build/release --target make_builtin_model`.
# SPDX-License-Identifier: MIT
mica_test(make_builtin_model ${CMAKE_SOURCE_DIR}/tools/builtin/make_builtin_model.c)
set_target_properties(make_builtin_model PROPERTIES EXCLUDE_FROM_ALL ON)
