# fuzz/<name>_fuzz.c: one fuzz target per parser. Every test build replays fuzz/corpus/<name> through it, with any
# compiler; the fuzz preset builds it with clang as <name>_fuzz for libFuzzer, and replays the corpus that way too.
# SPDX-License-Identifier: MIT
file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/*_fuzz.c)
foreach(file ${fuzzers})
  get_filename_component(target ${file} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name ${target})
  set(corpus ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name})
  if(MICA_BUILD_FUZZERS)
    add_executable(${target} ${file})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(arguments -runs=0 -timeout=60 -rss_limit_mb=4096)
  else()
    set(target ${name}_replay)
    add_executable(${target} ${file} ${CMAKE_SOURCE_DIR}/fuzz/replay.c)
    set(arguments "")
  endif()
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE mica_static)
  # libFuzzer's entry point has no header to declare it.
  target_compile_options(${target} PRIVATE -Wno-missing-prototypes)
  add_test(NAME ${name}_corpus COMMAND ${target} ${arguments} ${corpus})
  set_tests_properties(${name}_corpus PROPERTIES LABELS fuzz TIMEOUT 600)
endforeach()
