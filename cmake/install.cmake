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

if(TARGET mica)
  install(TARGETS mica RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
file(GLOB built_in_models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/data/*.gguf)
install(FILES ${built_in_models} DESTINATION ${CMAKE_INSTALL_DATADIR}/mica)

file(GLOB man_pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
foreach(completion mica.bash=bash-completion/completions/mica _mica=zsh/site-functions/_mica
        mica.fish=fish/vendor_completions.d/mica.fish)
  string(REGEX MATCH "([^=]+)=(.*)/([^/]+)" _ ${completion})
  if(EXISTS ${CMAKE_SOURCE_DIR}/completions/${CMAKE_MATCH_1})
    install(FILES ${CMAKE_SOURCE_DIR}/completions/${CMAKE_MATCH_1} RENAME ${CMAKE_MATCH_3}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/${CMAKE_MATCH_2})
  endif()
endforeach()
