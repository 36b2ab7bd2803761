# The same bits on every machine and at every feature level (digest_test.c says how the files are written). A cross
# build runs the sections once more on the oldest arm64 processor: no dot products, no half-float arithmetic.
# SPDX-License-Identifier: MIT
mica_test(digest_test ${CMAKE_CURRENT_LIST_DIR}/digest_test.c ${CMAKE_CURRENT_LIST_DIR}/digest_core.c
          ${CMAKE_CURRENT_LIST_DIR}/digest_kernels.c ${CMAKE_CURRENT_LIST_DIR}/digest_io.c
          ${CMAKE_CURRENT_LIST_DIR}/digest_models.c ${CMAKE_CURRENT_LIST_DIR}/digest_text.c)
foreach(section core kernels io models text)
  add_test(NAME digest_${section} COMMAND digest_test ${section})
endforeach()
if(CMAKE_CROSSCOMPILING AND MICA_QEMU)
  foreach(section core kernels models)
    add_test(NAME digest_${section}_cortex_a53 COMMAND ${MICA_QEMU} -cpu cortex-a53 -L /usr/aarch64-linux-gnu
                                                       $<TARGET_FILE:digest_test> ${section} --isa neon)
  endforeach()
endif()
