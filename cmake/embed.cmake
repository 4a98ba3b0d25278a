# A text as a C array that ends with 0, with the text of each .cuh that it includes:  cmake -DFROM=device.cuh -DTO=device.c -DNAME=cr_cuda_source_device -P embed.cmake
file(READ ${FROM} text)
get_filename_component(file ${FROM} NAME)
get_filename_component(folder ${FROM} DIRECTORY)
string(REGEX MATCHALL "#include \"[a-z]+\\.cuh\"\n" includes "${text}")
list(REVERSE includes)                              # so that line numbers are those of the file
foreach(include IN LISTS includes)
    string(REGEX MATCH "[a-z]+\\.cuh" included "${include}")
    string(FIND "${text}" "${include}" place)
    string(SUBSTRING "${text}" 0 ${place} before)
    string(REGEX REPLACE "[^\n]" "" before "${before}")
    string(LENGTH "${before}" line)
    math(EXPR line "${line} + 2")
    file(READ ${folder}/${included} inner)
    string(REPLACE "${include}" "#line 1 \"${included}\"\n${inner}#line ${line} \"${file}\"\n" text "${text}")
endforeach()
string(REGEX REPLACE "/\\*[^*\n]*\\*/|//[^\n]*" "" text "${text}")     # comments and indentation are for readers; lines keep their numbers
string(REGEX REPLACE "\n +| +\n" "\n" text "${text}")
string(REGEX REPLACE "#include \"[^\n]*" "" text "${text}")               # the text that contains this one has those before it
set(line "")
if(FROM MATCHES "\\.cuh?$")                         # so that messages of the compiler name the file; WGSL has no #line
    string(HEX "#line 1 \"${file}\"\n" line)
endif()
string(HEX "${text}" bytes)
string(PREPEND bytes "${line}")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
