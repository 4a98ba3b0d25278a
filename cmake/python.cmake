# The Python extension chainrule._core on the stable ABI of CPython 3.11, and beside it the package's Python files, so that
# build/<preset>/python can be put on a path as it is.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.SABIModule)
file(GLOB extension_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.c)
file(GLOB_RECURSE package_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
    ${PROJECT_SOURCE_DIR}/python/chainrule/*.py ${PROJECT_SOURCE_DIR}/python/chainrule/*.pyi ${PROJECT_SOURCE_DIR}/python/chainrule/py.typed)

Python_add_library(chainrule_python MODULE USE_SABI 3.11 WITH_SOABI ${extension_sources})
target_link_libraries(chainrule_python PRIVATE chainrule_static)
target_compile_options(chainrule_python PRIVATE -Wall -Wextra -Wshadow -Wconversion     # not -Wpedantic: type slots hold functions as void *
    -Wno-missing-field-initializers)
set_target_properties(chainrule_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/chainrule)

foreach(file IN LISTS package_files)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/${file} DEPENDS ${PROJECT_SOURCE_DIR}/python/${file}
        COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/python/${file} ${PROJECT_BINARY_DIR}/python/${file})
    list(APPEND copied ${PROJECT_BINARY_DIR}/python/${file})
endforeach()
add_custom_target(chainrule_package ALL DEPENDS ${copied})
