# fuzz/<name>_fuzz.c: one libFuzzer target per parser, built with clang and the sanitizers of the fuzz preset.
# SPDX-License-Identifier: MIT
file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/*_fuzz.c)
foreach(file ${fuzzers})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE mica_static)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
