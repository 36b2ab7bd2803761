# The program: one file per command in src/cli, written against the public headers only.
# SPDX-License-Identifier: MIT
file(GLOB cli_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.c)
if(cli_sources)
  add_executable(mica ${cli_sources})
  target_compile_definitions(mica PRIVATE MICA_VERSION="${PROJECT_VERSION}")
  target_include_directories(mica PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(mica PRIVATE mica_static)

  # Line editing in chat; without the library lines are read plainly.
  find_path(LIBEDIT_INCLUDE_DIR editline/readline.h)
  find_library(LIBEDIT_LIBRARY edit)
  if(LIBEDIT_INCLUDE_DIR AND LIBEDIT_LIBRARY)
    target_compile_definitions(mica PRIVATE MICA_HAVE_LIBEDIT=1)
    target_include_directories(mica PRIVATE ${LIBEDIT_INCLUDE_DIR})
    target_link_libraries(mica PRIVATE ${LIBEDIT_LIBRARY})
  endif()
endif()

# The built-in model lies in models/ beside the program of the build tree, in ../share/mica/models from the installed one.
if(EXISTS ${CMAKE_SOURCE_DIR}/models)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/models ${CMAKE_BINARY_DIR}/models SYMBOLIC)
endif()
