# The tree's own rules, and tests of the scripts in tools/.
# SPDX-License-Identifier: MIT
find_program(PYTHON3 python3 REQUIRED)
add_test(NAME check COMMAND ${CMAKE_SOURCE_DIR}/tools/check --library $<TARGET_FILE:mica_shared>
         --archive $<TARGET_FILE:mica_static>)
add_test(NAME check_test COMMAND ${PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/check_test.py)
add_test(NAME scripts_test COMMAND ${PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/scripts_test.py)
set_tests_properties(check check_test scripts_test PROPERTIES LABELS check)
