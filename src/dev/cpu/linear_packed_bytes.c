/* linear_packed_bytes.c - linear_packed_isa.c by AVX-512 VNNI.  Beyond x86-64-v4, so compiled on its own. */
#define CR_BYTES
#include "linear_packed_isa.c"
