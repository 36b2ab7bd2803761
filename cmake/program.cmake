# The program: one file per command in src/cli, written against the public headers only.
# SPDX-License-Identifier: MIT
file(GLOB cli_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.c)
if(cli_sources)
  add_executable(mica ${cli_sources})
  target_compile_definitions(mica PRIVATE MICA_VERSION="${PROJECT_VERSION}")
  target_link_libraries(mica PRIVATE mica_static)
endif()
