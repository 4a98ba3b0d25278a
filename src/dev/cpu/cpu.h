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
bool cr_cpu_use_isa(int isa);                       /* from now on, for tests; false: not built, or this processor lacks it */
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

/* ---- kernels: one file each */
cr_status cr_cpu_copy(cr_tensor *dst, const cr_tensor *src);
cr_status cr_cpu_fill(cr_tensor *dst, const void *value);
void      cr_cpu_pack(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides, cr_dtype dt, int ndim, const int64_t *shape);   /* cr_cpu_copy of memory without tensors */
cr_status cr_cpu_nextafter(cr_tensor *y, const cr_tensor *a, const cr_tensor *b, int64_t infinity);
cr_status cr_cpu_triangle(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, int64_t diagonal, bool upper);
cr_status cr_cpu_elementwise(const cr_walk *walks, int64_t count);
cr_status cr_cpu_reduce(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
cr_status cr_cpu_arg_reduce(bool max, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
cr_status cr_cpu_scan(cr_scan_kind kind, bool reverse, cr_tensor *y, cr_tensor *index, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N);
cr_status cr_cpu_random(cr_random_kind kind, cr_tensor *y, uint64_t seed, uint64_t counter);
cr_status cr_cpu_random_integers(cr_tensor *y, int64_t low, uint64_t span, uint64_t seed, uint64_t counter);
cr_status cr_cpu_permutation(cr_tensor *y, uint64_t seed, uint64_t counter);
cr_status cr_cpu_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter);

cr_status cr_cpu_matmul(cr_tensor *c, const cr_tensor *a, const cr_tensor *b, const cr_tensor *bias, int how);
cr_status cr_cpu_update_by_product(const cr_walk *update, int input, const cr_tensor *a, const cr_tensor *b, int how);
cr_status cr_cpu_gather(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K);
cr_status cr_cpu_sort(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending);
cr_status cr_cpu_kth(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k);
cr_status cr_cpu_search(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right);
cr_status cr_cpu_runs(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C);
cr_status cr_cpu_scatter(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool sum, int64_t M, int64_t R, int64_t N, int64_t K);
cr_status cr_cpu_scatter_extreme(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool least, int64_t M, int64_t R, int64_t N, int64_t K);
cr_status cr_cpu_take_rows(const char *op, cr_tensor *y, const cr_tensor *x, const cr_tensor *index, bool wrap);
cr_status cr_cpu_put_rows(const char *op, cr_tensor *x, const cr_tensor *index, const cr_tensor *src, bool sum, bool wrap);
cr_status cr_cpu_ravel(const char *op, cr_tensor *y, int n, const cr_tensor *const *index, const int64_t *sizes);
cr_status cr_cpu_nonzero(cr_tensor *y, const cr_tensor *x, int64_t *count);

cr_status cr_cpu_softmax(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, bool log);
cr_status cr_cpu_softmax_bwd(cr_tensor *dx, const cr_tensor *y, const cr_tensor *g, int64_t M, int64_t N, bool log);
cr_status cr_cpu_norm(cr_tensor *y, cr_tensor *mean, cr_tensor *rstd, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                      int64_t M, int64_t N, double eps);
cr_status cr_cpu_norm_bwd(cr_tensor *dx, cr_tensor *dw, cr_tensor *db, const cr_tensor *x, const cr_tensor *w, const cr_tensor *mean,
                          const cr_tensor *rstd, const cr_tensor *g, int64_t M, int64_t N);
cr_status cr_cpu_cross_entropy(cr_tensor *loss, cr_tensor *lse, const cr_tensor *x, const cr_tensor *target, int64_t M, int64_t N,
                               int64_t ignore, double smoothing);
cr_status cr_cpu_cross_entropy_bwd(cr_tensor *dx, const cr_tensor *x, const cr_tensor *target, const cr_tensor *lse, const cr_tensor *g,
                                   int64_t M, int64_t N, int64_t ignore, double smoothing);
cr_status cr_cpu_attention(cr_tensor *o, cr_tensor *lse, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask,
                           double scale, bool causal);
cr_status cr_cpu_attention_bwd(cr_tensor *dq, cr_tensor *dk, cr_tensor *dv, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                               const cr_tensor *mask, const cr_tensor *o, const cr_tensor *lse, const cr_tensor *g, double scale, bool causal);

#endif
