# The headers from C++: a translation unit of its own, with the function twins of the macros.
# SPDX-License-Identifier: MIT
include(CheckLanguage)
if(NOT CMAKE_CROSSCOMPILING) # a cross build has the C compiler only
  check_language(CXX)
endif()
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  add_executable(arrays_from_cxx ${CMAKE_CURRENT_LIST_DIR}/arrays_from_cxx.cpp)
  target_link_libraries(arrays_from_cxx PRIVATE mica_static)
  # Not the options for C.
  set(cxx_options -Wall -Wextra -Wpedantic -Werror)
  if(MICA_SANITIZE)
    list(APPEND cxx_options -fsanitize=${MICA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  endif()
  set_target_properties(arrays_from_cxx PROPERTIES COMPILE_OPTIONS "${cxx_options}" CXX_STANDARD 17
                        CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  add_test(NAME arrays_from_cxx COMMAND arrays_from_cxx)
endif()
