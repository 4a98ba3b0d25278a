/* isa_name.h - what a table of a file that is compiled once per instruction set (*_isa.c) is called in each. */
#ifndef CR_ISA_NAME_H
#define CR_ISA_NAME_H

#ifndef CR_ISA
#define CR_ISA 0
#endif

#define CR_PASTE2(a, b) a##b
#define CR_PASTE(a, b) CR_PASTE2(a, b)
#define CR_ISA_NAME(name) CR_PASTE(name##_v, CR_ISA)          /* cr_blocks -> cr_blocks_v4 */

#endif
