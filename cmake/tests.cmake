# tests/unit/<mirrors src>/<name>_test.c: one cmocka binary and one ctest entry each, linked to the static library so
# that internal functions can be called. tests/<suite>/suite.cmake adds what is not a plain unit test.
#
# Labels choose what the sanitizer and arm64 configurations run (CMakePresets.json, testPresets). A unit test has its
# layer's label (base, core, ...), every test of a suite the suite's. More come from a line in the file's first comment:
#   Test labels: slow real      slow: release only; real: needs a fetched model; noasan, notsan, noarm64: not there
#   Test timeout: 900           seconds, default 600: machines may be busy
# SPDX-License-Identifier: MIT
find_path(CMOCKA_INCLUDE_DIR cmocka.h REQUIRED)
find_library(CMOCKA_LIBRARY cmocka REQUIRED)
find_path(LZMA_INCLUDE_DIR lzma.h REQUIRED)
find_library(LZMA_LIBRARY lzma REQUIRED)

# Where tools/fetch keeps real models. The environment's MICA_CACHE_DIR wins when the tests run.
if(DEFINED ENV{MICA_CACHE_DIR})
  set(default_cache $ENV{MICA_CACHE_DIR})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(default_cache $ENV{XDG_CACHE_HOME}/mica/models)
else()
  set(default_cache $ENV{HOME}/.cache/mica/models)
endif()
set(MICA_CACHE_DIR ${default_cache} CACHE PATH "Folder where tools/fetch keeps real models")

# A locale with a decimal comma, which the tests find through LOCPATH; without localedef they skip.
find_program(LOCALEDEF localedef)
set(test_locales ${CMAKE_BINARY_DIR}/tests/locale)
if(LOCALEDEF AND NOT EXISTS ${test_locales}/de_DE.UTF-8)
  file(MAKE_DIRECTORY ${test_locales})
  execute_process(COMMAND ${LOCALEDEF} -i de_DE -f UTF-8 ${test_locales}/de_DE.UTF-8 OUTPUT_QUIET ERROR_QUIET)
endif()

file(GLOB support_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.c)
add_library(mica_test_support STATIC ${support_sources})
target_include_directories(mica_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src)
# Other people's headers, in the cross build's folder too: their macros are not ours to warn about.
target_include_directories(mica_test_support SYSTEM PUBLIC ${CMOCKA_INCLUDE_DIR} ${LZMA_INCLUDE_DIR})
target_compile_definitions(mica_test_support PUBLIC MICA_SHARED_DIR="${MICA_SHARED_DIR}"
                           MICA_SOURCE_DIR="${CMAKE_SOURCE_DIR}" MICA_CACHE_DIR="${MICA_CACHE_DIR}")
target_link_libraries(mica_test_support PUBLIC mica_static ${CMOCKA_LIBRARY} ${LZMA_LIBRARY})

function(mica_test name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE mica_test_support)
  # Test files use cmocka's macros, which convert freely, and include its prerequisites.
  target_compile_options(${name} PRIVATE -Wno-conversion -Wno-float-conversion)
endfunction()

# The value of `key: value` in the first comment of a test file.
function(mica_test_note file key default out)
  file(STRINGS ${file} lines REGEX "^[ /*]+${key}: " LIMIT_COUNT 1)
  if(lines)
    string(REGEX REPLACE ".*${key}: *([A-Za-z0-9 ]*).*" "\\1" value "${lines}")
    string(STRIP "${value}" value)
    set(${out} "${value}" PARENT_SCOPE)
  else()
    set(${out} "${default}" PARENT_SCOPE)
  endif()
endfunction()

file(GLOB_RECURSE unit_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/*_test.c)
foreach(file ${unit_tests})
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "^.*/tests/unit/([^/]+)/.*$" "\\1" layer ${file})
  mica_test_note(${file} "Test labels" "" labels)
  mica_test_note(${file} "Test timeout" 600 timeout)
  string(REPLACE " " ";" labels "${layer} ${labels}")
  mica_test(${name} ${file})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${timeout} LABELS "${labels}"
                       ENVIRONMENT LOCPATH=${test_locales})
endforeach()

# Labels for what a suite added: tests that stand in the list now and did not before.
function(mica_label_new before label)
  get_property(now DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY TESTS)
  list(REMOVE_ITEM now ${before} "")
  foreach(test ${now})
    set_property(TEST ${test} APPEND PROPERTY LABELS ${label})
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LOCPATH=${test_locales})
    get_property(skip_code TEST ${test} PROPERTY SKIP_RETURN_CODE)
    if(NOT skip_code)
      set_property(TEST ${test} PROPERTY SKIP_RETURN_CODE 77)
    endif()
    get_property(timeout TEST ${test} PROPERTY TIMEOUT)
    if(NOT timeout)
      set_property(TEST ${test} PROPERTY TIMEOUT 600)
    endif()
  endforeach()
endfunction()

file(GLOB suites CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*/suite.cmake)
foreach(suite ${suites})
  get_property(before DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY TESTS)
  include(${suite})
  get_filename_component(folder ${suite} DIRECTORY)
  get_filename_component(label ${folder} NAME)
  mica_label_new("${before}" ${label})
endforeach()
