# A text as a C array that ends with 0:  cmake -DFROM=device.cuh -DTO=device.c -DNAME=cr_cuda_source_device -P embed.cmake
file(READ ${FROM} text)
string(REGEX REPLACE "/\\*[^*\n]*\\*/|//[^\n]*" "" text "${text}")     # comments and indentation are for readers; lines keep their numbers
string(REGEX REPLACE "\n +| +\n" "\n" text "${text}")
string(REGEX REPLACE "#include \"[^\n]*" "" text "${text}")               # the text that contains this one has those before it
get_filename_component(file ${FROM} NAME)
set(line "")
if(FROM MATCHES "\\.cuh?$")                         # so that messages of the compiler name the file; WGSL has no #line
    string(HEX "#line 1 \"${file}\"\n" line)
endif()
string(HEX "${text}" bytes)
string(PREPEND bytes "${line}")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
