# libchainrule: every src/**/*.c but the program's.  Each file is compiled once, position-independent and with hidden
# symbols, for both the shared and the static library.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
list(FILTER sources EXCLUDE REGEX "/src/cli/")
list(FILTER sources EXCLUDE REGEX "/src/core/os_[a-z]*\\.c$")           # the platform: the files of the system that is built for
if(WIN32)
    set(platform windows)
elseif(APPLE)
    set(platform posix macos)
elseif(EMSCRIPTEN)
    set(platform posix web)
else()
    set(platform posix linux)
endif()
list(TRANSFORM platform REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/core/os_\\1.c")
list(APPEND sources ${platform})
set(isa_sources ${sources})
list(FILTER isa_sources INCLUDE REGEX "/src/dev/cpu/[^/]*_isa\\.c$")
list(FILTER sources EXCLUDE REGEX "/src/dev/cpu/([^/]*_isa|matmul_bf16|linear_packed_bytes)\\.c$")

if(EMSCRIPTEN)                                      # web/without.c has what is called of these
    list(FILTER sources EXCLUDE REGEX "/src/dev/webgpu/api\\.c$")
    list(FILTER sources EXCLUDE REGEX "/src/(dist|dev/ref)/|/src/dev/cpu/(compile|lapack|onednn)\\.c$")
endif()

function(chainrule_objects name)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${name} PRIVATE chainrule_flags Threads::Threads)
endfunction()

# GPUs through WebGPU, where the headers of wgpu-native are here: of the PyPI package wgpu.  The library itself is opened at run time.
set(wgpu_folders ${CMAKE_PREFIX_PATH})              # of a wheel's build: scikit-build-core's, with the site-packages of what pip installed for it
list(TRANSFORM wgpu_folders APPEND /wgpu/resources)
file(GLOB wgpu_folders ${CHAINRULE_WGPU_DIR} ${wgpu_folders} ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/wgpu/resources)
find_path(CHAINRULE_WGPU_INCLUDE wgpu.h HINTS ${wgpu_folders} PATH_SUFFIXES webgpu NO_CMAKE_FIND_ROOT_PATH)
if(CHAINRULE_WGPU_INCLUDE)
    list(APPEND CMAKE_BUILD_RPATH ${CHAINRULE_WGPU_INCLUDE})            # the package has the library beside its headers
    if(EMSCRIPTEN)
        list(APPEND sources ${PROJECT_SOURCE_DIR}/web/gpu.c)            # in the place of api.c
    endif()
else()
    message(NOTICE "went without WebGPU: no wgpu.h here (pip install wgpu)")
    list(FILTER sources EXCLUDE REGEX "/src/dev/webgpu/")
endif()

# GPUs through CUDA: nothing of NVIDIA's is needed to build.  Kernels are compiled when the library runs, so their texts are in it.
if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/dev/cuda AND NOT EMSCRIPTEN)
    set(CHAINRULE_CUDA TRUE)
endif()
function(chainrule_embed folder prefix)              # the texts of a folder as constants <prefix><name> of the library
    foreach(text IN LISTS ARGN)
        get_filename_component(name ${text} NAME_WE)
        set(embedded ${PROJECT_BINARY_DIR}/${folder}/${name}_text.c)
        add_custom_command(OUTPUT ${embedded} DEPENDS ${text} ${cuda_headers} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
            COMMAND ${CMAKE_COMMAND} -DFROM=${text} -DTO=${embedded} -DNAME=${prefix}${name} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
        list(APPEND sources ${embedded})
    endforeach()
    set(sources ${sources} PARENT_SCOPE)
endfunction()
set(loop_texts isa_name.h loops.h vec.h vmath.h)     # the vectors of loops that are made while the library runs
if(CHAINRULE_CUDA)
    file(GLOB cuda_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dev/cuda/*.cu)
    file(GLOB cuda_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dev/cuda/*.cuh)    # in the texts that include them
    list(APPEND cuda_texts ${PROJECT_SOURCE_DIR}/src/dev/cuda/device.cuh ${PROJECT_SOURCE_DIR}/src/dev/cuda/arguments.h)
    chainrule_embed(cuda cr_cuda_source_ ${cuda_texts})
else()
    list(FILTER sources EXCLUDE REGEX "/src/dev/cuda/")
endif()
list(TRANSFORM loop_texts PREPEND ${PROJECT_SOURCE_DIR}/src/dev/cpu/)
if(NOT EMSCRIPTEN)
    chainrule_embed(cpu cr_cpu_source_ ${loop_texts})
endif()
if(CHAINRULE_WGPU_INCLUDE)
    file(GLOB wgsl_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dev/webgpu/*.wgsl)
    chainrule_embed(webgpu cr_wgsl_ ${wgsl_texts})
    set(wgsl_header ${PROJECT_BINARY_DIR}/webgpu/wgsl.gen.h)
    add_custom_command(OUTPUT ${wgsl_header} DEPENDS ${wgsl_texts} ${PROJECT_SOURCE_DIR}/cmake/wgsl.cmake
        COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/src/dev/webgpu -DTO=${wgsl_header}
                -P ${PROJECT_SOURCE_DIR}/cmake/wgsl.cmake VERBATIM)
    list(APPEND sources ${wgsl_header})
endif()
if(CHAINRULE_CUDA_FATBIN)
    find_program(CHAINRULE_NVCC nvcc PATHS /usr/local/cuda/bin)
    if(CHAINRULE_NVCC)
        include(fatbin)
    else()
        message(NOTICE "went without compiled CUDA kernels: no nvcc here")
    endif()
endif()

chainrule_objects(chainrule_objects ${sources})
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT CHAINRULE_SANITIZE)     # hot are the files for instruction sets, and a few more: elsewhere size counts
    set(kernels ${sources})                         # those whose loops wait for memory: the same for every instruction set
    list(FILTER kernels INCLUDE REGEX "/src/dev/cpu/(blocks|buckets|copy|index|nonzero|rows_by_index|sample|scan)\\.c$")
    set(remote ${sources})
    list(FILTER remote INCLUDE REGEX "/src/dev/(cuda|webgpu)/|/src/ops/factor\\.c$")
    target_compile_options(chainrule_objects PRIVATE -O2 -fno-asynchronous-unwind-tables)
    # a short loop whose code lies in two lines of 64 bytes takes up to 1.3x as long
    set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "-O3;-falign-loops=64")
    set_source_files_properties(${remote} PROPERTIES COMPILE_OPTIONS -Os)
    # -O3 makes these several times as large
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/dev/cpu/factor_isa.c PROPERTIES COMPILE_OPTIONS -O2)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/dev/cpu/linear_packed_isa.c PROPERTIES
        COMPILE_OPTIONS "$<$<STREQUAL:$<TARGET_PROPERTY:NAME>,chainrule_isa2>:-O2>")
    if(EMSCRIPTEN)                                  # every byte is downloaded; vectors are explicit, and tiles unrolled by pragmas
        set_source_files_properties(${sources} ${isa_sources} PROPERTIES COMPILE_OPTIONS -Oz)
        set(hot ${sources} ${isa_sources})
        list(FILTER hot INCLUDE REGEX "/src/dev/cpu/(attention|elementwise|linear_packed|matmul|rows)_isa\\.c$")
        set_source_files_properties(${hot} PROPERTIES COMPILE_OPTIONS "-O2;-fno-unroll-loops")
    endif()
endif()
if(CHAINRULE_CUDA)
    target_compile_definitions(chainrule_objects PRIVATE CR_CUDA $<$<BOOL:${fatbins}>:CR_CUDA_FATBIN>)
endif()
if(CHAINRULE_WGPU_INCLUDE)
    target_include_directories(chainrule_objects SYSTEM PRIVATE ${CHAINRULE_WGPU_INCLUDE})
    target_include_directories(chainrule_objects PRIVATE ${PROJECT_BINARY_DIR}/webgpu)
    target_compile_definitions(chainrule_objects PRIVATE CR_WEBGPU)
endif()
set(objects $<TARGET_OBJECTS:chainrule_objects>)

# The vector kernels once for each instruction set; src/dev/cpu chooses by CPUID when the library is loaded.
if(isa_sources)
    set(vector_flags -O3 -falign-loops=64 -fno-asynchronous-unwind-tables)
    if(CHAINRULE_SANITIZE)                          # where -O3 would take minutes for a file and find nothing more
        set(vector_flags -O1)
        if(CMAKE_C_COMPILER_ID STREQUAL GNU)        # GCC's frames for use-after-return misalign 64-byte vectors (its bug 110027)
            list(APPEND vector_flags --param=asan-use-after-return=0)
        endif()
    endif()
    list(APPEND vector_flags -fno-math-errno -fno-trapping-math
        $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-pass-failed>)          # of loops that an instruction set has no vectors for
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
        include(CheckCCompilerFlag)
        check_c_compiler_flag(-march=x86-64-v4 HAVE_X86_64_LEVELS)
        if(NOT HAVE_X86_64_LEVELS)
            message(FATAL_ERROR "${CMAKE_C_COMPILER} does not know -march=x86-64-v4: GCC 11 or Clang 12 or newer is needed")
        endif()
        set(levels 2 3 4)
    else()
        set(levels 0)
    endif()
    foreach(level IN LISTS levels)
        chainrule_objects(chainrule_isa${level} ${isa_sources})
        target_compile_definitions(chainrule_isa${level} PRIVATE CR_ISA=${level})
        target_compile_options(chainrule_isa${level} PRIVATE ${vector_flags}
            $<$<NOT:$<EQUAL:${level},0>>:-march=x86-64-v${level}> $<$<EQUAL:${level},4>:-mprefer-vector-width=512>)
        list(APPEND objects $<TARGET_OBJECTS:chainrule_isa${level}>)
    endforeach()
    if(4 IN_LIST levels)                            # steps beyond v4, for one file each
        set(beyond_files matmul_bf16 linear_packed_bytes)
        set(beyond_flags -mavx512bf16 "SHELL:-mavx512vnni -mavx512vbmi")
        foreach(file flag IN ZIP_LISTS beyond_files beyond_flags)
            chainrule_objects(chainrule_${file} ${PROJECT_SOURCE_DIR}/src/dev/cpu/${file}.c)
            target_compile_definitions(chainrule_${file} PRIVATE CR_ISA=4)
            target_compile_options(chainrule_${file} PRIVATE ${vector_flags} -march=x86-64-v4 ${flag} -mprefer-vector-width=512)
            list(APPEND objects $<TARGET_OBJECTS:chainrule_${file}>)
        endforeach()
    endif()
endif()

function(chainrule_library name type)
    add_library(${name} ${type} ${objects})
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m
        $<$<BOOL:${WIN32}>:ws2_32;api-ms-win-core-synch-l1-2-0;shell32>)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME chainrule)
endfunction()

chainrule_library(chainrule_static STATIC)
add_library(chainrule::chainrule_static ALIAS chainrule_static)
if(CHAINRULE_SHARED)
    chainrule_library(chainrule_shared SHARED)
    set(CHAINRULE_ABI ${PROJECT_VERSION_MAJOR})
    if(CHAINRULE_ABI EQUAL 0)                        # until 1.0 a minor version may change the interface
        set(CHAINRULE_ABI 0.${PROJECT_VERSION_MINOR})
    endif()
    set_target_properties(chainrule_shared PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${CHAINRULE_ABI} EXPORT_NAME chainrule)
    if(NOT CHAINRULE_SANITIZE AND NOT APPLE AND NOT WIN32)
        target_link_options(chainrule_shared PRIVATE -Wl,--no-undefined)
    endif()
    if(NOT APPLE AND NOT WIN32)                     # what it exports carries the interface's version: CHAINRULE_0.1
        set(version_script ${PROJECT_BINARY_DIR}/libchainrule.map)
        file(WRITE ${version_script} "CHAINRULE_${CHAINRULE_ABI} {\n    global: cr_*;\n    local: *;\n};\n")
        target_link_options(chainrule_shared PRIVATE -Wl,--version-script=${version_script})
        set_target_properties(chainrule_shared PROPERTIES LINK_DEPENDS ${version_script})
    endif()
    add_library(chainrule::chainrule ALIAS chainrule_shared)
endif()
