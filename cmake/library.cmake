# libmica: every source below src/ but the program's, compiled once and linked as .a and .so.
# SPDX-License-Identifier: MIT
find_package(Threads REQUIRED)
# Optional: splits text at tokenizer patterns that nobody knew.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)

file(GLOB MICA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/base/*.c ${CMAKE_SOURCE_DIR}/src/core/*.c
     ${CMAKE_SOURCE_DIR}/src/ops/*.c ${CMAKE_SOURCE_DIR}/src/transform/*.c
     ${CMAKE_SOURCE_DIR}/src/backend/common/*.c ${CMAKE_SOURCE_DIR}/src/backend/cpu/*.c
     ${CMAKE_SOURCE_DIR}/src/io/*.c ${CMAKE_SOURCE_DIR}/src/text/*.c ${CMAKE_SOURCE_DIR}/src/nn/*.c
     ${CMAKE_SOURCE_DIR}/src/models/*.c ${CMAKE_SOURCE_DIR}/src/run/*.c)

add_library(mica_objects OBJECT ${MICA_SOURCES})
target_include_directories(mica_objects PUBLIC ${CMAKE_SOURCE_DIR}/include PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(mica_objects PRIVATE MICA_BUILDING=1 MICA_VERSION="${PROJECT_VERSION}")
target_link_libraries(mica_objects PUBLIC Threads::Threads)
if(PCRE2_INCLUDE_DIR AND PCRE2_LIBRARY)
  target_compile_definitions(mica_objects PRIVATE MICA_HAVE_PCRE2=1)
  target_include_directories(mica_objects SYSTEM PRIVATE ${PCRE2_INCLUDE_DIR})
endif()
include(${CMAKE_SOURCE_DIR}/cmake/kernels.cmake)

foreach(kind STATIC SHARED)
  string(TOLOWER mica_${kind} target)
  add_library(${target} ${kind})
  target_link_libraries(${target} PRIVATE mica_objects PUBLIC m Threads::Threads)
  if(PCRE2_INCLUDE_DIR AND PCRE2_LIBRARY)
    target_link_libraries(${target} PUBLIC ${PCRE2_LIBRARY})
  endif()
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME mica VERSION ${PROJECT_VERSION} SOVERSION 0)
endforeach()
