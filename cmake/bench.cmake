# bench/<name>_bench.c: one developer bench each, built only when asked for (cmake --build ... --target matmul_bench).
# SPDX-License-Identifier: MIT
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*_bench.c)
foreach(file ${bench_sources})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${file})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE mica_static)
endforeach()
