# Kernel bodies are compiled once per feature level: src/backend/cpu/<name>_<level>.c gets that level's flags.
# Kernel files go without the vectorisers, which spoil scale copies (docs/numerics.md).
# SPDX-License-Identifier: MIT
set(kernel_options -fno-tree-vectorize -fno-tree-slp-vectorize)
if(MICA_BUILD_FUZZERS)
  # Fuzz targets are parsers: instrumented kernels would only make the build minutes longer.
  list(APPEND kernel_options -fno-sanitize=all -fno-sanitize=fuzzer-no-link)
endif()
# Sanitizers multiply what -O3 unrolls: their builds stay at the preset's level.
set(level_options -Wno-psabi)
if(NOT MICA_SANITIZE)
  list(PREPEND level_options -O3)
endif()
if(MICA_SANITIZE MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL GNU)
  # gcc before 14 misaligns vectors in frames that AddressSanitizer keeps beyond their return.
  list(APPEND level_options --param=asan-use-after-return=0)
endif()
file(GLOB kernel_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cpu/*.c)
set_source_files_properties(${kernel_files} PROPERTIES COMPILE_OPTIONS "${kernel_options}")
function(mica_level suffix)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cpu/*_${suffix}.c)
  if(files)
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${level_options};${kernel_options};${ARGN}")
  endif()
endfunction()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  mica_level(avx2 -mavx2 -mfma -mf16c -mbmi2)
  mica_level(avxvnni -mavx2 -mfma -mf16c -mbmi2 -mavxvnni)
  mica_level(avx512 -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq)
  mica_level(avx512vnni -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
  mica_level(amx -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mamx-tile -mamx-int8)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # NEON belongs to the base architecture: its kernels run on every arm64 processor.
  mica_level(neon)
  mica_level(neondot -march=armv8.2-a+dotprod)
endif()
