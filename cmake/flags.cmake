# What every C file of ours is compiled with.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(EMSCRIPTEN)                                      # programs for node
    set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
    add_compile_options(-msimd128)
    add_link_options(-sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=4MB)
endif()
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
if(EMSCRIPTEN)
    option(CHAINRULE_WEB_THREADS "Threads over shared memory, for pages that are cross-origin isolated" OFF)
    add_library(Threads::Threads INTERFACE IMPORTED)
    if(CHAINRULE_WEB_THREADS)
        add_compile_options(-pthread)
        add_link_options(-pthread)
    endif()
else()
    find_package(Threads REQUIRED)
endif()

add_library(chainrule_flags INTERFACE)
target_compile_options(chainrule_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
target_compile_definitions(chainrule_flags INTERFACE $<$<CONFIG:Debug,RelWithDebInfo>:CR_DEBUG>)     # CR_ASSERT is on
if(CHAINRULE_WERROR)
    target_compile_options(chainrule_flags INTERFACE -Werror)
endif()
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=.)    # no path of this machine in what is made
# No compiler joins a product and a sum by itself, so that all give the same bits: the code says where (v_fma of vec.h).
add_compile_options($<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>)
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    # Small structs are cleared by stores: GCC's own choice, rep stos, takes 10 ns to start, of the 80 of a small op.
    add_compile_options($<$<COMPILE_LANGUAGE:C>:-mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign>)
endif()

# What lies in the build folder finds the libraries that it opens by its RPATH, which an installation strips.
set(CMAKE_BUILD_RPATH ${CHAINRULE_ONEDNN_DIR})
if(CHAINRULE_SANITIZE)
    add_link_options(-Wl,--disable-new-dtags)       # a sanitizer's dlopen is no call of ours: only the program's own RPATH counts
    set(sanitize -fsanitize=${CHAINRULE_SANITIZE} -fno-omit-frame-pointer)
    if(CHAINRULE_SANITIZE MATCHES "undefined")
        list(APPEND sanitize -fno-sanitize-recover=undefined)
    endif()
    add_compile_options(${sanitize})
    add_link_options(${sanitize})
endif()
