/* wgsl.h - the source of a kernel: a .wgsl file of this folder after the definitions that it uses.
 *
 * A kernel's `write` function adds, in this order: constants, types, arrays (one storage binding
 * each), small functions that depend on dtypes, the file, and the entry point.  Lines of a file
 * that begin with # are conditions and loops over constants:
 *
 *     #if NAME ... #else ... #end      lines for NAME != 0, and for NAME == 0 or undefined
 *     #for k NAME ... #end             the lines NAME times, where $k becomes 0, 1 ...
 *
 * The file declares `struct parameters`, whose first member is `zero: u32`, and `fn kernel(group,
 * lane, i)` (main.wgsl).  The build writes wgsl.gen.h, which has the text of x.wgsl as cr_wgsl_x and
 * its structs in C: x_parameters (cmake/wgsl.cmake).
 *
 * Every buffer is an array of 32-bit words.  In a kernel, a value of dtype dt has the type
 * cr_wgsl_type(dt): f32 for floats, i32 or u32 for integers of up to 32 bits (bool: u32, 0 or 1),
 * vec2<u32> (low, high) for integers of 64 bits. */
#ifndef CR_WEBGPU_WGSL_H
#define CR_WEBGPU_WGSL_H

#include "gpu.h"
#include "../../core/out.h"

typedef struct wgsl_constant { const char *name; int value; } wgsl_constant;
typedef struct wgsl {
    cr_out out;
    int subgroups;                                  /* their size, where kernels may use them; else 0 */
    int arrays;                                     /* storage bindings so far */
    uint32_t written;                               /* bits: arrays */
    int constants, loops;
    wgsl_constant constant[32];
    struct { char variable; int value; } loop[4];   /* the #for lines around the current line */
} wgsl;

void cr_wgsl_add(wgsl *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `const NAME = <value>u;`, and for # lines; value >= 0 */
void cr_wgsl_const(wgsl *w, const char *name, int value);
void cr_wgsl_file(wgsl *w, const char *text);
void cr_wgsl_trees(wgsl *w, int trees);                               /* tree.wgsl, for workgroups of 256 invocations */
/* the entry point, for workgroups of `size` invocations */
void cr_wgsl_end(wgsl *w, int size);
void cr_wgsl_free(wgsl *w);
/* The whole source: w after the functions of library.wgsl that it calls.  NULL: out of memory.  The
 * caller frees it. */
char *cr_wgsl_complete(const wgsl *w, bool native_halves);
bool  cr_wgsl_uses_halves(const wgsl *w);                             /* does it read or write f16? */

typedef struct expr { char s[200]; } expr;          /* text by value */
expr cr_expr_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *cr_wgsl_type(cr_dtype dt);
bool        cr_wgsl_wide(cr_dtype dt);                 /* integers of 64 bits */
int         cr_wgsl_lanes(cr_dtype dt);                /* elements in a word: 4, 2, or 1 */

/* The next binding, x: array<TYPE>. */
void cr_wgsl_storage(wgsl *w, const char *x, const char *type, bool written);
/* The next binding, of words: x_word(i) reads word i, x_set(i, v) writes it.  shared: invocations
 * share words, so x_part(i, mask, v) writes the bits of the mask by atomics. */
void cr_wgsl_words(wgsl *w, const char *x, bool written, bool shared);
/* The next binding, of elements of dt: load_x(at), and if written store_x(at, v). */
void cr_wgsl_array(wgsl *w, const char *x, cr_dtype dt, bool written);
/* load2_x(at): elements at and at + 1, 16 bits each, of a binding; at is even */
void cr_wgsl_load2(wgsl *w, const char *x, cr_dtype dt);
/* The next binding, of 16-bit elements that are stored in pairs, without atomics: load_x(at), and
 * store2_x(at, a, b) for an even at. */
void cr_wgsl_pairs(wgsl *w, const char *x, cr_dtype dt);

expr cr_wgsl_load(const char *array, cr_dtype dt, const char *at);    /* element number at */
/* a statement; dtypes of less than a word: shared */
void cr_wgsl_store(wgsl *w, const char *array, cr_dtype dt, const char *at, const char *x);
/* as in C, but floats to integers saturate and NaN becomes 0 */
expr cr_wgsl_cast(cr_dtype to, cr_dtype from, const char *x);
/* u32: the low bits of x as stored in memory; not for 64 bits */
expr cr_wgsl_bits(cr_dtype dt, const char *x);
/* vec2<u32> (low, high), an unsigned key: NaN is the largest, -0 equals 0 */
expr cr_wgsl_key(cr_dtype dt, const char *x);
/* fn key_of(x) -> vec2<u32>: the key, or its complement for the reverse order */
void cr_wgsl_key_function(wgsl *w, cr_dtype dt, bool reverse);
/* fn moved_x(at): element `at` of array x, by its bits: of dtype cr_dtype_bits(dt) */
void cr_wgsl_moved_function(wgsl *w, cr_dtype dt);
/* fn NAME(x) { return cast(x); } */
void cr_wgsl_cast_function(wgsl *w, const char *name, cr_dtype to, cr_dtype from);

/* Finds the pipeline with key k, or compiles w.  Frees w. */
gpu_pipeline *cr_gpu_pipeline_from(gpu *g, const char *op, const gpu_key *k, wgsl *w);

/* ---- one dispatch (pipeline.c) */
enum { GPU_CALL_BUFFERS = 10 };
typedef struct gpu_call {
    const char *op;
    void (*write)(wgsl *w, const void *how);        /* the source; a function of the bytes of `how` only */
    const void *how; size_t how_bytes;              /* no padding: members of one size; the first names the kernel */
    int buffers; gpu_buffer *buffer[GPU_CALL_BUFFERS];                /* in the order of the arrays of `write` */
    /* bits: buffers that are bound by windows; the others are bound whole */
    uint32_t windows;
    size_t at[GPU_CALL_BUFFERS];
    /* a C struct with the layout of the file's `parameters` */
    const void *parameters; size_t parameters_bytes;
    uint64_t groups;                                /* workgroups */
    double work;                                    /* multiply-adds, where the bytes of the buffers do not tell */
} gpu_call;
/* The next buffer is a window of b that holds the span; offset: of the span in the window, in
 * elements.  false: no window does. */
bool cr_gpu_bind_window(const gpu *g, gpu_call *c, gpu_buffer *b, gpu_span s, cr_dtype dt, uint32_t *offset);
cr_status cr_gpu_run(gpu *g, const gpu_call *c);       /* g is entered */
cr_status cr_gpu_measure_subgroups(gpu *g, const char *op);       /* sets g->subgroups */
static inline uint64_t gpu_groups(int64_t invocations) { return (uint64_t)gpu_ceil_div(invocations, GPU_GROUP); }

#endif
