/* isa_name.h - names of the tables that the files *_isa.c define.  Each of these files is compiled
 * once per instruction set. */
#ifndef CR_ISA_NAME_H
#define CR_ISA_NAME_H

#ifndef CR_ISA
#define CR_ISA 0
#endif

#define CR_PASTE2(a, b) a##b
#define CR_PASTE(a, b) CR_PASTE2(a, b)
#define CR_ISA_NAME(name) CR_PASTE(name##_v, CR_ISA)          /* cr_blocks -> cr_blocks_v4 */

/* Declares the tables of all instruction sets. */
#define CR_ISA_TABLE(type) extern const struct type type##_v0, type##_v2, type##_v3, type##_v4

#endif
