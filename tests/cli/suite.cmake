# The built program as its users meet it: usage, output, exit status, interrupts, memory limits.
# SPDX-License-Identifier: MIT
if(TARGET mica)
  find_program(PYTHON3 python3 REQUIRED)
  foreach(what usage generate look chat)
    add_test(NAME cli_${what} COMMAND ${PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/${what}_test.py)
    set_tests_properties(cli_${what} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 ENVIRONMENT
        "MICA=$<TARGET_FILE:mica>;MICA_SHARED_DIR=${MICA_SHARED_DIR};MICA_TEST_CACHE=${MICA_CACHE_DIR};MICA_SANITIZE=${MICA_SANITIZE}")
  endforeach()
  add_test(NAME cli_pages COMMAND ${CMAKE_SOURCE_DIR}/tools/gen_pages --check)
  set_tests_properties(cli_pages PROPERTIES ENVIRONMENT "MICA=$<TARGET_FILE:mica>")

  mica_test(answer_test ${CMAKE_CURRENT_LIST_DIR}/answer_test.c ${CMAKE_SOURCE_DIR}/src/cli/answer.c
            ${CMAKE_SOURCE_DIR}/src/cli/byte_buffer.c ${CMAKE_SOURCE_DIR}/src/cli/failure.c
            ${CMAKE_SOURCE_DIR}/src/cli/json_out.c)
  add_test(NAME answer_test COMMAND answer_test)
endif()
