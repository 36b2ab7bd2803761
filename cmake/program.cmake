# The program: one file per command in src/cli, written against the public headers only.
# SPDX-License-Identifier: MIT
file(GLOB cli_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.c)
if(cli_sources)
  add_executable(mica ${cli_sources})
  target_compile_definitions(mica PRIVATE MICA_VERSION="${PROJECT_VERSION}")
  target_include_directories(mica PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(mica PRIVATE mica_static m)

  # Line editing in chat: the library is opened when chat runs on a terminal, so that nothing else pays for loading it.
  # Without it lines are read plainly.
  find_path(LIBEDIT_INCLUDE_DIR histedit.h)
  if(LIBEDIT_INCLUDE_DIR)
    target_compile_definitions(mica PRIVATE MICA_HAVE_LIBEDIT=1)
    target_include_directories(mica PRIVATE ${LIBEDIT_INCLUDE_DIR})
    target_link_libraries(mica PRIVATE ${CMAKE_DL_LIBS})
  endif()
endif()
