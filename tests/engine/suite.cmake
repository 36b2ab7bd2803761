# The engine over a fake model: behaviour, and a stress test with random load, pausing and faults.
# SPDX-License-Identifier: MIT
foreach(name engine_test engine_pressure_test engine_stress_test engine_prefix_file_test)
  mica_test(${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c ${CMAKE_CURRENT_LIST_DIR}/fake_model.c
            ${CMAKE_CURRENT_LIST_DIR}/drive.c)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS run)
endforeach()
