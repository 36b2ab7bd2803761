# The installed tree as a C or C++ programmer meets it.
# SPDX-License-Identifier: MIT
add_test(NAME installed_tree COMMAND ${CMAKE_CURRENT_LIST_DIR}/installed_tree ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER})
