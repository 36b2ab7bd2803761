# Language level, warnings and the switches a build can set.
# SPDX-License-Identifier: MIT
option(MICA_BUILD_TESTS "Build the test suite (needs cmocka and liblzma)" ON)
option(MICA_BUILD_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
option(MICA_WERROR "Treat warnings as errors" ON)
set(MICA_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize=")
set(MICA_SHARED_DIR "${CMAKE_SOURCE_DIR}/../shared" CACHE PATH
    "Folder with outside test data (golden results, vocabularies, corpora); tests that need it skip where it is absent")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_compile_definitions(_GNU_SOURCE)
# One canonical order of additions: the compiler may not contract or reorder floating point.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
                    -Wno-sign-conversion -ffp-contract=off -fno-math-errno)
if(MICA_WERROR)
  add_compile_options(-Werror)
endif()
if(MICA_SANITIZE)
  add_compile_options(-fsanitize=${MICA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MICA_SANITIZE})
  if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    # gcc's own manual: with sanitizers these warn about code that is right. The release build keeps them.
    add_compile_options(-Wno-format-truncation -Wno-maybe-uninitialized -Wno-conversion
                        -Wno-alloc-size-larger-than -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
  endif()
endif()
