# The program, linked with the static library so that one file is enough to copy it.  The Python extension has it too:
# a wheel holds the library once, and its `chainrule` is a script that calls the extension.
file(GLOB program_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.c)
chainrule_objects(chainrule_cli ${program_sources})
if(CHAINRULE_PROGRAM)
    add_executable(chainrule $<TARGET_OBJECTS:chainrule_cli>)
    target_link_libraries(chainrule PRIVATE chainrule_static)
endif()
