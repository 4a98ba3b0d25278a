# The program, linked with the static library so that one file is enough to copy it.
file(GLOB program_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.c)
if(program_sources)
    add_executable(chainrule ${program_sources})
    target_link_libraries(chainrule PRIVATE chainrule_flags chainrule_static)
endif()
