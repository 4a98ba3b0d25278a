# tests/cudasim: libcuda, libnvrtc and libcublasLt that simulate a GPU, for the tests of the CUDA device on machines that have none.
# Kernels are compiled by the C++ compiler while tests run; without one, or on another processor, there is no simulator.
set(CHAINRULE_CUDASIM_DIR ${PROJECT_BINARY_DIR}/cudasim)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_CXX_COMPILER AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|aarch64")
    set(CHAINRULE_CUDASIM ON)
endif()

function(cudasim_library name soversion)
    add_library(cudasim_${name} SHARED ${ARGN})
    target_link_libraries(cudasim_${name} PRIVATE chainrule_flags Threads::Threads m ${CMAKE_DL_LIBS})
    if(CHAINRULE_SANITIZE MATCHES "thread")         # the sanitizer is to see the kernels alone, ordered by nothing but their barriers
        target_compile_options(cudasim_${name} PRIVATE -fno-sanitize=thread)
        target_compile_definitions(cudasim_${name} PRIVATE CUDASIM_TSAN)
    elseif(CHAINRULE_SANITIZE MATCHES "address")    # fibers and poisoned memory are described to it, not checked by it
        target_compile_options(cudasim_${name} PRIVATE -fno-sanitize=all)
        target_compile_definitions(cudasim_${name} PRIVATE CUDASIM_ASAN)
    endif()
    set_target_properties(cudasim_${name} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${soversion} VERSION ${soversion}
        LIBRARY_OUTPUT_DIRECTORY ${CHAINRULE_CUDASIM_DIR} BUILD_RPATH "$ORIGIN")
endfunction()

if(CHAINRULE_CUDASIM)
    set(cudasim ${PROJECT_SOURCE_DIR}/tests/cudasim)
    cudasim_library(cuda 1 ${cudasim}/driver.c ${cudasim}/fibers.c)
    cudasim_library(nvrtc 13 ${cudasim}/nvrtc.c)
    target_compile_definitions(cudasim_nvrtc PRIVATE CUDASIM_COMPILER="${CMAKE_CXX_COMPILER}" CUDASIM_SHIM="${cudasim}/sim.h")
endif()
