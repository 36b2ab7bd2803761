# tests/unit/<mirrors src>/<name>_test.c: one cmocka binary and one ctest entry each, linked to the static library so
# that internal functions can be called. tests/<suite>/cmake adds what is not a plain unit test.
# SPDX-License-Identifier: MIT
find_path(CMOCKA_INCLUDE_DIR cmocka.h REQUIRED)
find_library(CMOCKA_LIBRARY cmocka REQUIRED)

file(GLOB support_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.c)
if(support_sources)
  add_library(mica_test_support STATIC ${support_sources})
  target_include_directories(mica_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src ${CMOCKA_INCLUDE_DIR})
  target_compile_definitions(mica_test_support PUBLIC MICA_SHARED_DIR="${MICA_SHARED_DIR}"
                             MICA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(mica_test_support PUBLIC mica_static ${CMOCKA_LIBRARY})
endif()

function(mica_test name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE mica_test_support)
  # Test files use cmocka's macros, which convert freely, and include its prerequisites.
  target_compile_options(${name} PRIVATE -Wno-conversion -Wno-float-conversion)
endfunction()

file(GLOB_RECURSE unit_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/*_test.c)
foreach(file ${unit_tests})
  get_filename_component(name ${file} NAME_WE)
  mica_test(${name} ${file})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endforeach()

file(GLOB suites CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*/suite.cmake)
foreach(suite ${suites})
  include(${suite})
endforeach()
