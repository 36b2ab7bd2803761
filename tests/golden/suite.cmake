# golden_<what>.c: programs that compare with results other programs wrote, over folders of the outside test data.
# Each is built here; golden_<what>.cmake beside it registers it with ctest.
# SPDX-License-Identifier: MIT
file(GLOB golden_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/golden_*.c)
foreach(file ${golden_sources})
  get_filename_component(name ${file} NAME_WE)
  mica_test(${name} ${file})
endforeach()
file(GLOB golden_registrations CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/golden_*.cmake)
foreach(file ${golden_registrations})
  include(${file})
endforeach()

# A folder without a single case is a mistake, not a success.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests/empty)
foreach(what models ops templates tokenizers)
  add_test(NAME golden_${what}_of_nothing COMMAND golden_${what} ${CMAKE_BINARY_DIR}/tests/empty)
  set_tests_properties(golden_${what}_of_nothing PROPERTIES WILL_FAIL TRUE)
endforeach()
