# The Python extension chainrule._core on the stable ABI of CPython 3.11.  For development it lies with the package's Python files
# in build/<preset>/python, which can be put on a path as it is; for a wheel (pip, scikit-build-core) component `python` is installed.
# CPython without a GIL has no stable ABI: there it is chainrule._core of that version.
#   CHAINRULE_PYTHON_INCLUDE   for another system: Python.h, with a pyconfig.h of that system (tools/release.py)
#   CHAINRULE_PYTHON_IMPORTS   for Windows: the import library of python3.dll
if(CHAINRULE_PYTHON_INCLUDE)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
elseif(NOT CMAKE_VERSION VERSION_LESS 3.26)         # which knows the stable ABI
    find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.SABIModule)
endif()
if(NOT CHAINRULE_PYTHON_INCLUDE AND NOT Python_Development.SABIModule_FOUND)
    if(SKBUILD)
        message(FATAL_ERROR "Python.h of CPython 3.11 or newer is not here: install python3-dev")
    endif()
    message(NOTICE "went without the Python extension: no Python.h of CPython 3.11 or newer here (make deps)")
    return()
endif()

file(GLOB extension_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.c)
set(tools ${PROJECT_SOURCE_DIR}/tools)
set(api_tables ${PROJECT_BINARY_DIR}/api.gen.c)
add_custom_command(OUTPUT ${api_tables} COMMAND ${Python_EXECUTABLE} -B ${tools}/gen_python.py --tables ${api_tables} VERBATIM
    DEPENDS ${tools}/gen_python.py ${tools}/gen_ops.py ${PROJECT_SOURCE_DIR}/python/src/api.def ${PROJECT_SOURCE_DIR}/src/ops/ops.def)
list(APPEND extension_sources ${api_tables} $<TARGET_OBJECTS:chainrule_cli>)
if(CHAINRULE_PYTHON_INCLUDE)
    add_library(chainrule_python MODULE ${extension_sources})
    target_include_directories(chainrule_python SYSTEM PRIVATE ${CHAINRULE_PYTHON_INCLUDE})
    file(STRINGS ${CHAINRULE_PYTHON_INCLUDE}/pyconfig.h free_threaded REGEX "^#define Py_GIL_DISABLED 1")
    if(free_threaded)
        set_target_properties(chainrule_python PROPERTIES PREFIX "" SUFFIX .so)
    else()
        target_compile_definitions(chainrule_python PRIVATE Py_LIMITED_API=0x030B0000)
        set_target_properties(chainrule_python PROPERTIES PREFIX "" SUFFIX .abi3.so)
    endif()
    target_link_libraries(chainrule_python PRIVATE ${CHAINRULE_PYTHON_IMPORTS})
    if(WIN32)
        set_target_properties(chainrule_python PROPERTIES SUFFIX .pyd)
    endif()
else()
    Python_add_library(chainrule_python MODULE USE_SABI 3.11 WITH_SOABI ${extension_sources})
endif()
target_include_directories(chainrule_python PRIVATE ${PROJECT_SOURCE_DIR}/python/src)
target_link_libraries(chainrule_python PRIVATE chainrule_static)
if(APPLE)
    target_link_options(chainrule_python PRIVATE -undefined dynamic_lookup)
elseif(NOT WIN32)
    target_link_options(chainrule_python PRIVATE -Wl,--exclude-libs,ALL)    # PyInit__core is all that it exports
endif()
target_compile_options(chainrule_python PRIVATE -Wall -Wextra -Wshadow -Wconversion     # not -Wpedantic: type slots hold functions as void *
    -Wno-missing-field-initializers)
set_target_properties(chainrule_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/chainrule)

if(SKBUILD)                                         # the Python files are scikit-build-core's (wheel.packages)
    install(TARGETS chainrule_python LIBRARY DESTINATION chainrule COMPONENT python)
    return()
endif()

file(GLOB_RECURSE package_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
    ${PROJECT_SOURCE_DIR}/python/chainrule/*.py ${PROJECT_SOURCE_DIR}/python/chainrule/*.pyi ${PROJECT_SOURCE_DIR}/python/chainrule/py.typed)
foreach(file IN LISTS package_files)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/${file} DEPENDS ${PROJECT_SOURCE_DIR}/python/${file}
        COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/python/${file} ${PROJECT_BINARY_DIR}/python/${file} VERBATIM)
    list(APPEND copied ${PROJECT_BINARY_DIR}/python/${file})
endforeach()
add_custom_target(chainrule_package ALL DEPENDS ${copied})
