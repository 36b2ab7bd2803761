# What `cmake --install` gives: headers, libmica.so and .a, pkg-config file, the program with its model, man pages and
# shell completions.
# SPDX-License-Identifier: MIT
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/mica DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(TARGETS mica_shared mica_static LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# The prefix is filled in at install time, so that `cmake --install --prefix` gives a file that works.
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(MICA_PC_${kind} "${CMAKE_INSTALL_${kind}}")
  else()
    set(MICA_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
set(MICA_PC_PCRE2 "")
if(PCRE2_INCLUDE_DIR AND PCRE2_LIBRARY)
  set(MICA_PC_PCRE2 " -lpcre2-8")
endif()
install(CODE "
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  set(MICA_PC_PCRE2 \"${MICA_PC_PCRE2}\")
  set(MICA_PC_LIBDIR [[${MICA_PC_LIBDIR}]])
  set(MICA_PC_INCLUDEDIR [[${MICA_PC_INCLUDEDIR}]])
  get_filename_component(CMAKE_INSTALL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  configure_file(\"${CMAKE_SOURCE_DIR}/cmake/mica.pc.in\" \"${CMAKE_BINARY_DIR}/mica.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/mica.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

file(GLOB built_in_models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/models/*.gguf)
install(FILES ${built_in_models} DESTINATION ${CMAKE_INSTALL_DATADIR}/mica/models)

if(TARGET mica)
  install(TARGETS mica RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

  # The list of commands is src/cli/commands.h's.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/commands.h)
  file(STRINGS ${CMAKE_SOURCE_DIR}/src/cli/commands.h commands REGEX "^ +X\\([a-z_]+\\)")
  list(TRANSFORM commands REPLACE "^ +X\\(([a-z_]+)\\).*$" "\\1")
  set(documents ${CMAKE_BINARY_DIR}/documents)
  list(TRANSFORM commands REPLACE "(.+)" "${documents}/mica-\\1.1" OUTPUT_VARIABLE man_pages)
  list(PREPEND man_pages ${documents}/mica.1)
  list(JOIN commands " " commands)
  add_custom_command(OUTPUT ${man_pages} ${documents}/mica.bash ${documents}/_mica ${documents}/mica.fish
    COMMAND ${CMAKE_SOURCE_DIR}/cmake/documents ${documents} "${commands}" ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:mica>
    DEPENDS mica ${CMAKE_SOURCE_DIR}/cmake/documents VERBATIM)
  add_custom_target(documents ALL DEPENDS ${man_pages})
  install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${documents}/mica.bash RENAME mica DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${documents}/_mica DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${documents}/mica.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
