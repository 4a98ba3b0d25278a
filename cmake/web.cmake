# The modules of the JavaScript package: the library and what web/glue.c takes of the program.  `make web` puts them
# beside the package's files (tools/build_web.py).  The small one is linked without the files whose functions
# web/small.c has, and exports less; the linker leaves out what no export reaches.
function(chainrule_module target name exports)
    add_executable(${target} ${PROJECT_SOURCE_DIR}/web/glue.c ${PROJECT_SOURCE_DIR}/web/without.c ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_compile_options(${target} PRIVATE -Oz)
    target_link_libraries(${target} PRIVATE chainrule_flags Threads::Threads m)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}$<$<BOOL:${CHAINRULE_WEB_THREADS}>:-threads> SUFFIX .mjs
        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/web/${exports})
    target_link_options(${target} PRIVATE -O2 --no-entry -sMODULARIZE -sEXPORT_ES6 -sENVIRONMENT=web,worker -sWASM_BIGINT
        -sFORCE_FILESYSTEM
        -sINCOMING_MODULE_JS_API=[instantiateWasm,print,printErr,noInitialRun,wasmMemory,buffer,mainScriptUrlOrBlob]
        -sEXPORTED_RUNTIME_METHODS=[FS,stackSave,stackAlloc,stackRestore,wasmMemory]
        -sEXPORTED_FUNCTIONS=@${PROJECT_SOURCE_DIR}/web/${exports})
    find_program(CHAINRULE_WASM_OPT wasm-opt)       # Emscripten's own call of it is for speed
    if(CHAINRULE_WASM_OPT)
        set(features simd bulk-memory sign-ext mutable-globals nontrapping-float-to-int threads)
        list(TRANSFORM features PREPEND --enable-)
        add_custom_command(TARGET ${target} POST_BUILD VERBATIM COMMAND ${CHAINRULE_WASM_OPT} -Oz ${features}
            $<TARGET_FILE_DIR:${target}>/$<TARGET_FILE_BASE_NAME:${target}>.wasm
            -o $<TARGET_FILE_DIR:${target}>/$<TARGET_FILE_BASE_NAME:${target}>.wasm)
    endif()
    if(CHAINRULE_WEB_THREADS)                       # started with the module, because a thread that waits starts no worker
        target_link_options(${target} PRIVATE -sPTHREAD_POOL_SIZE=Module.threads -sPTHREAD_POOL_SIZE_STRICT=2)
    endif()
endfunction()

chainrule_module(chainrule_whole whole exports.gen.txt $<TARGET_OBJECTS:chainrule_cli> ${objects})
set(without "/src/text/(chat|classes|decode|encode|formats|gguf|jinja.*|models|normalize|oniguruma)[.]c"
    "/src/text/(pipeline|regex|splits|train|unicode)[.]c"
    "/src/models/(beam|encoder|gguf_model|lm|lora|quantize|speculative)[.]c" "/src/io/gguf[.]c" "/src/dev/webgpu/"
    "/web/gpu[.]c" "_text[.]c"
    "/src/(dev/cpu/cpu|dev/registry|models/family)[.]c"  # compiled below
    "/src/ops/linear_packed[.]c" "/src/dev/cpu/linear_packed(_isa)?[.]c")
list(JOIN without "|" without)
set(small_sources checkpoint curve data generate loop main memory model options precision progress ranks runlog settings step train)
list(TRANSFORM small_sources PREPEND ${PROJECT_SOURCE_DIR}/src/cli/)
list(TRANSFORM small_sources APPEND .c)
chainrule_module(chainrule_small small exports.small.gen.txt ${small_sources} ${PROJECT_SOURCE_DIR}/web/small.c
    ${PROJECT_SOURCE_DIR}/web/small_models.c ${PROJECT_SOURCE_DIR}/src/dev/cpu/cpu.c
    ${PROJECT_SOURCE_DIR}/src/models/family.c ${PROJECT_SOURCE_DIR}/src/dev/registry.c
    "$<FILTER:${objects},EXCLUDE,${without}>")
target_compile_definitions(chainrule_small PRIVATE CR_WEB_SMALL)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/models/family.c PROPERTIES
    COMPILE_OPTIONS "-Oz;-Wno-unused-const-variable")
