# Toolchain file: cross build for arm64 Linux with Debian's cross compiler; tests run under qemu-user. The libraries are
# arm64 packages that tools/arm64-sysroot unpacks into a folder of their own.
# SPDX-License-Identifier: MIT
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
get_filename_component(default_sysroot ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot ABSOLUTE)
set(MICA_ARM64_SYSROOT ${default_sysroot} CACHE PATH "Folder with unpacked arm64 packages")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MICA_ARM64_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${MICA_ARM64_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
find_program(MICA_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(MICA_QEMU)
  # -cpu max has every extension that the kernels use.
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MICA_QEMU} -cpu max -L /usr/aarch64-linux-gnu)
endif()
