/* cpu.h - what the files of the cpu device share.  kernels.def describes the kernels. */
#ifndef CR_CPU_H
#define CR_CPU_H

#include "../dev.h"

/* ---- the machine (cpu.c) */
int cr_cpu_isa(void);                               /* 2, 3, 4: x86-64-v2, v3, v4; 0: plain C; -1: an x86-64 below v2 */
struct cr_isa_kernels;
const struct cr_isa_kernels *cr_cpu_vec(void);      /* the kernels of the chosen instruction set (isa.h) */
const struct cr_isa_kernels *cr_cpu_vec_for(int isa);  /* of one instruction set; NULL: not built, or not supported
                                                        * here */
bool cr_cpu_bf16(void);                             /* AVX-512 BF16 is used; never with CHAINRULE_ISA or
                                                     * cr_cpu_use_isa */
bool cr_cpu_bytes(void);                            /* likewise AVX-512 VNNI and VBMI: products of bytes */
bool cr_cpu_use_isa(int isa);                       /* for tests: sets the instruction set, -1: the default; false:
                                                     * not supported */
const char *cr_cpu_engine_info(void);               /* onednn.c: "oneDNN 3.2", "oneDNN not found: own products"... */

/* ---- memory (alloc.c) */
cr_storage *cr_cpu_allocate(const cr_device *d, size_t bytes);
cr_memory   cr_cpu_memory(const cr_device *d);
void        cr_cpu_reset_peak(const cr_device *d);
void        cr_cpu_empty_cache(const cr_device *d);
void       *cr_cpu_take(size_t bytes);              /* scratch memory of a kernel, 64-byte aligned; NULL and a
                                                     * message */
void       *cr_cpu_try_take(size_t bytes);          /* the same without a message, for chunks */
void       *cr_cpu_take_room(size_t *bytes);        /* the same for the large: a free block that is larger is reused
                                                     * before memory is mapped; *bytes: what to give back */
void        cr_cpu_give(void *p, size_t bytes);     /* returns it, with the same size; NULL is allowed */
const void *cr_cpu_thread(void);                    /* identifies the calling thread for cr_cpu_give_to */
/* prefers this thread, whose cache has it, for reuse */
void        cr_cpu_give_to(const void *thread, void *p, size_t bytes);
bool        cr_cpu_owns(const cr_storage *s);       /* allocated here: 64-byte aligned, the last cache line not
                                                     * shared */
void        cr_cpu_limit_memory(size_t bytes);      /* for tests: simulates a system with so much memory; 0: no limit */

/* ---- kernels (kernels.def): one file each */
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##cpu(cr_##name##_kernel cr_cpu_##name;)
#include "../kernels.def"
bool cr_cpu_update_keeps_bits(const cr_matmul_args *args);
/* cr_cpu_copy for plain memory */
void cr_cpu_pack(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides, cr_dtype dt,
                 int ndim, const int64_t *shape);

#endif
