# make install: headers, libraries, program, pkg-config file, and the CMake package behind find_package(chainrule).
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/chainrule)
set(generated ${PROJECT_BINARY_DIR}/package)

# Where the folders end up is known only when they are installed (--prefix, DESTDIR): the pkg-config file finds itself.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up "${up}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/chainrule.pc.in ${generated}/chainrule.pc @ONLY)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/chainruleConfig.cmake.in ${generated}/chainruleConfig.cmake
    INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${generated}/chainruleConfigVersion.cmake COMPATIBILITY SameMinorVersion)

set(targets chainrule_static)
if(CHAINRULE_SHARED)
    list(APPEND targets chainrule_shared)
endif()
install(TARGETS ${targets} EXPORT chainruleTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT chainruleTargets NAMESPACE chainrule:: DESTINATION ${package_folder})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${generated}/chainrule.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${generated}/chainruleConfig.cmake ${generated}/chainruleConfigVersion.cmake DESTINATION ${package_folder})
if(TARGET chainrule)
    install(TARGETS chainrule RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
