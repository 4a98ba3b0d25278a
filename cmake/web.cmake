# The module of the JavaScript package: the library and what web/glue.c takes of the program.  `make web` puts it beside
# the package's files (tools/build_web.py).
add_executable(chainrule_web ${PROJECT_SOURCE_DIR}/web/glue.c $<TARGET_OBJECTS:chainrule_cli>)
target_include_directories(chainrule_web PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(chainrule_web PRIVATE -Oz)
target_link_libraries(chainrule_web PRIVATE chainrule_flags chainrule_static)
set_target_properties(chainrule_web PROPERTIES OUTPUT_NAME $<IF:$<BOOL:${CHAINRULE_WEB_THREADS}>,threads,module> SUFFIX .mjs
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/web/exports.gen.txt)
target_link_options(chainrule_web PRIVATE -O2 --no-entry -sMODULARIZE -sEXPORT_ES6 -sENVIRONMENT=web,worker -sWASM_BIGINT
    -sFORCE_FILESYSTEM
    -sINCOMING_MODULE_JS_API=[instantiateWasm,print,printErr,noInitialRun,wasmMemory,buffer,mainScriptUrlOrBlob]
    -sEXPORTED_RUNTIME_METHODS=[FS,stackSave,stackAlloc,stackRestore,wasmMemory]
    -sEXPORTED_FUNCTIONS=@${PROJECT_SOURCE_DIR}/web/exports.gen.txt)
if(CHAINRULE_WEB_THREADS)                           # started with the module, because a thread that waits starts no worker
    target_link_options(chainrule_web PRIVATE -sPTHREAD_POOL_SIZE=Module.threads -sPTHREAD_POOL_SIZE_STRICT=2)
endif()
