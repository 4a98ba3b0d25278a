/* cpu.h - the doors between the files of the CPU device.  Kernels have the shapes and rules of dev/dev.h. */
#ifndef CR_CPU_H
#define CR_CPU_H

#include "../dev.h"

/* ---- the machine (cpu.c) */
int cr_cpu_isa(void);                               /* 2, 3, 4: x86-64-v2, v3, v4 (CHAINRULE_ISA can lower it); 0: plain C; -1: an x86-64 below v2 */
struct cr_isa_kernels;
const struct cr_isa_kernels *cr_cpu_vec(void);      /* this processor's vector kernels (isa.h) */
const struct cr_isa_kernels *cr_cpu_vec_for(int isa);   /* those of one instruction set; NULL: not built, or this processor lacks it */
bool cr_cpu_bf16(void);                             /* products of bf16 (AVX-512 BF16), unless CHAINRULE_ISA asks for a level */
bool cr_cpu_use_isa(int isa);                       /* for tests: sets the instruction set, -1: back to the default; false: not built, or this processor lacks it */
const char *cr_cpu_engine_info(void);               /* onednn.c: "oneDNN 3.2", "oneDNN not found: own products"..., without opening it */

/* ---- memory (alloc.c) */
cr_storage *cr_cpu_allocate(const cr_device *d, size_t bytes);
cr_memory   cr_cpu_memory(const cr_device *d);
void        cr_cpu_empty_cache(const cr_device *d);
void       *cr_cpu_take(size_t bytes);              /* working memory of a kernel, 64-byte aligned, from the same cache; NULL and a message */
void       *cr_cpu_try_take(size_t bytes);          /* the same without a message: inside chunks, whose thread's errors nobody reads */
void        cr_cpu_give(void *p, size_t bytes);     /* back, with the same size; NULL is fine */
void        cr_cpu_give_to(const void *thread, void *p, size_t bytes);          /* the same for a thread that used it and will find it in its cache */
const void *cr_cpu_thread(void);                    /* names the calling thread for that */
bool        cr_cpu_owns(const cr_storage *s);       /* from here: 64-byte aligned, and its last line is its own to the end */
void        cr_cpu_limit_memory(size_t bytes);      /* as if the system had no more than this (for tests); 0: no limit */

/* ---- kernels (kernels.h): one file each */
CR_KERNELS(CR_KERNEL_OF_CPU)
void      cr_cpu_pack(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides, cr_dtype dt, int ndim, const int64_t *shape);   /* cr_cpu_copy of plain memory */

#endif
