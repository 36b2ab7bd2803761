# The version script of libmica.so, made from the public headers: what they declare with MICA_API is exported, nothing
# else is. tools/check compares the library that comes out with the headers once more.
# SPDX-License-Identifier: MIT
file(GLOB public_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/mica/*.h)
set(exported "")
foreach(header ${public_headers})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(READ ${header} text)
  string(REPLACE ";" "@" text "${text}")
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" " " text "${text}")
  string(REGEX REPLACE "#[^\n\\]*(\\\\\n[^\n\\]*)*" " " text "${text}")
  string(REGEX MATCHALL "MICA_API[^(@]*[(@]" declarations "${text}")
  foreach(declaration ${declarations})
    string(REGEX MATCH "([A-Za-z0-9_]+)[ \n]*[(@]$" name "${declaration}")
    list(APPEND exported ${CMAKE_MATCH_1})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES exported)
list(SORT exported)
list(JOIN exported ";\n    " exported)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/mica.map @ONLY CONTENT
"/* Made by cmake/exports.cmake from include/mica. */
{
global:
    @exported@;
local:
    *;
};
")
target_link_options(mica_shared PRIVATE -Wl,--version-script=${CMAKE_BINARY_DIR}/mica.map)
if(NOT MICA_SANITIZE) # whose runtime comes with the program
  target_link_options(mica_shared PRIVATE -Wl,-z,defs)
endif()
set_property(TARGET mica_shared APPEND PROPERTY LINK_DEPENDS ${CMAKE_BINARY_DIR}/mica.map)
