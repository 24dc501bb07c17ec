# SPDX-License-Identifier: MIT OR Apache-2.0
# Has Kompute's own build take libraries that are here instead of cloning their repositories. The folders with Debian's packages of
# fmt and Vulkan, and that of pybind11, are in the environment.
foreach(option INSTALL USE_BUILT_IN_FMT USE_BUILT_IN_PYBIND11 USE_BUILT_IN_VULKAN_HEADER)
    set(KOMPUTE_OPT_${option} OFF CACHE BOOL "")
endforeach()
set(fmt_DIR "$ENV{FMT}/usr/lib/x86_64-linux-gnu/cmake/fmt" CACHE PATH "")
set(pybind11_DIR "$ENV{PYBIND11}" CACHE PATH "")
set(Vulkan_INCLUDE_DIR "$ENV{VULKAN}/usr/include" CACHE PATH "")
set(Vulkan_LIBRARY "$ENV{VULKAN}/usr/lib/x86_64-linux-gnu/libvulkan.so" CACHE FILEPATH "")
set(PYTHON_EXECUTABLE "$ENV{VIRTUAL_ENV}/bin/python" CACHE FILEPATH "")
set(CMAKE_POSITION_INDEPENDENT_CODE ON CACHE BOOL "")
# Vulkan's C++ header takes compilers minutes otherwise.
set(CMAKE_CXX_FLAGS_RELEASE "-O0" CACHE STRING "")
