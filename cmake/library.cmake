# libchainrule: every src/**/*.c but the program's.  Each file is compiled once, position-independent and with hidden
# symbols, for both the shared and the static library.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
list(FILTER sources EXCLUDE REGEX "/src/cli/")
set(isa_sources ${sources})
list(FILTER isa_sources INCLUDE REGEX "/src/dev/cpu/[^/]*_isa\\.c$")
list(FILTER sources EXCLUDE REGEX "/src/dev/cpu/[^/]*_isa\\.c$")

function(chainrule_objects name)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${name} PRIVATE chainrule_flags Threads::Threads)
endfunction()

chainrule_objects(chainrule_objects ${sources})
if(CHAINRULE_ONEDNN_DIR)
    target_compile_definitions(chainrule_objects PRIVATE CR_ONEDNN_DIR="${CHAINRULE_ONEDNN_DIR}")
endif()
set(objects $<TARGET_OBJECTS:chainrule_objects>)

# The vector kernels once for each instruction set; src/dev/cpu chooses by CPUID when the library is loaded.
if(isa_sources)
    # Under a sanitizer -O3 would take minutes for a file and find nothing more.
    set(vector_flags $<IF:$<BOOL:${CHAINRULE_SANITIZE}>,-O1,-O3> -ffp-contract=fast -fno-math-errno -fno-trapping-math)
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
endif()

function(chainrule_library name type)
    add_library(${name} ${type} ${objects})
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME chainrule)
endfunction()

chainrule_library(chainrule_static STATIC)
add_library(chainrule::chainrule_static ALIAS chainrule_static)
if(CHAINRULE_SHARED)
    chainrule_library(chainrule_shared SHARED)
    set_target_properties(chainrule_shared PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} EXPORT_NAME chainrule)
    if(NOT CHAINRULE_SANITIZE)
        target_link_options(chainrule_shared PRIVATE -Wl,--no-undefined)
    endif()
    add_library(chainrule::chainrule ALIAS chainrule_shared)
endif()
