# The program, linked with the static library so that one file is enough to copy it.  The Python extension has it too:
# a wheel holds the library once, and its `chainrule` is a script that calls the extension.
file(GLOB program_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.c)
if(EMSCRIPTEN)
    list(FILTER program_sources EXCLUDE REGEX "/gpus\\.c$")          # web/without.c
endif()
chainrule_objects(chainrule_cli ${program_sources})
if(EMSCRIPTEN)
    target_compile_options(chainrule_cli PRIVATE -Oz)
endif()
if(CHAINRULE_PROGRAM)
    add_executable(chainrule $<TARGET_OBJECTS:chainrule_cli>)
    target_link_libraries(chainrule PRIVATE chainrule_static)
    if(EMSCRIPTEN)                                  # for node, with its files
        target_sources(chainrule PRIVATE ${PROJECT_SOURCE_DIR}/web/without.c)
        target_include_directories(chainrule PRIVATE ${PROJECT_SOURCE_DIR}/include)
        target_link_options(chainrule PRIVATE -sEXIT_RUNTIME -lnodefs.js --pre-js ${PROJECT_SOURCE_DIR}/web/node.js)
        include(web)
    endif()
endif()
