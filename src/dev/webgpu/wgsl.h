/* wgsl.h - WGSL as text.  Every buffer is an array of 32-bit words; an element is read from its word or words and written into them.
 *
 * A value of dtype dt is in a kernel of the type cr_wgsl_type(dt): f32 for floats, i32 and u32 for integers up to 32 bits (bool: u32, 0 or 1),
 * vec2<u32> (low, high) for those of 64 bits. */
#ifndef CR_WEBGPU_WGSL_H
#define CR_WEBGPU_WGSL_H

#include "gpu.h"

typedef struct wgsl { char *s; size_t n, room; bool failed, subgroups, trees; } wgsl;        /* subgroups: the GPU has them; trees: cr_wgsl_tree was called */
void cr_wgsl_add(wgsl *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cr_wgsl_free(wgsl *w);
/* A function's body with the functions of wgsl_library.c that it calls before it; NULL: out of memory.  The caller frees it. */
char *cr_wgsl_complete(const wgsl *w, bool own_halves);
bool  cr_wgsl_halves(const wgsl *w);                   /* does it read or write f16? */

/* fn name(lane, v) -> type: join(a, b), an expression, over the v of all 256 invocations of a workgroup: neighbours first, then pairs of them ...  The same
 * tree, so the same bits, through subgroups of whatever size and without.  Before cr_wgsl_main; of one type in a kernel. */
void cr_wgsl_tree(wgsl *w, const char *name, const char *type, const char *join);

typedef struct expr { char s[200]; } expr;          /* text by value */
expr cr_expr_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *cr_wgsl_type(cr_dtype dt);
bool        cr_wgsl_wide(cr_dtype dt);                 /* integers of 64 bits */
int         cr_wgsl_lanes(cr_dtype dt);                /* elements in a word: 4, 2, or 1 */
expr        cr_wgsl_parameter(int i);                  /* the i-th word of a dispatch's parameters */

/* Binding b, 0 on: words(b, i) reads, set(b, i, v) writes one.  shared: several invocations write parts of one word, by atomics. */
void cr_wgsl_binding(wgsl *w, int b, bool written, bool shared);
/* fn main with what every kernel knows: group (its number), lane (in the workgroup) and i = group * size + lane. */
void cr_wgsl_main(wgsl *w, int size);

expr cr_wgsl_load(int b, cr_dtype dt, const char *at);            /* element number at */
expr cr_wgsl_cast(cr_dtype to, cr_dtype from, const char *x);     /* C's conversion, floats to integers saturate, NaN becomes 0 */
expr cr_wgsl_bits(cr_dtype dt, const char *x);                    /* u32: the low bits of x as it lies in memory; not for 64 bits */
expr cr_wgsl_key(cr_dtype dt, const char *x);          /* vec2<u32> (low, high; below 64 bits low alone): in its order NaN is the largest and -0 is 0 */
void cr_wgsl_store(wgsl *w, int b, cr_dtype dt, const char *at, const char *x);      /* a statement; dtypes of less than a word: b must be shared */

static inline wgsl wgsl_for(const gpu *g) { return (wgsl){.subgroups = g->subgroups}; }
gpu_pipeline *cr_gpu_pipeline_from(gpu *g, const char *op, const gpu_key *k, int buffers, uint32_t written, wgsl *w);      /* cr_gpu_pipeline_make of it whole; frees w */

/* ---- a kernel that is run (pipeline.c).  how: what `write` looks at, its text is a function of these bytes alone */
typedef struct gpu_call {
    const char *op;
    void (*write)(wgsl *w, const void *how);
    const void *how; size_t how_bytes;              /* no padding: members of one size; the first one tells whose it is */
    int buffers; gpu_buffer *buffer[5]; uint32_t written, shown;        /* bindings 0 on; bits.  shown: by cr_gpu_show; others are bound whole */
    size_t at[5];
    gpu_parameters q;
    uint64_t invocations;
} gpu_call;
/* The next binding is a window of b that shows the span; offset: where this begins in it, in elements.  false: none does. */
bool cr_gpu_show(const gpu *g, gpu_call *c, gpu_buffer *b, gpu_span s, cr_dtype dt, uint32_t *offset);
cr_status cr_gpu_run(gpu *g, const gpu_call *c);       /* by groups of GPU_GROUP; g is entered */

#endif
