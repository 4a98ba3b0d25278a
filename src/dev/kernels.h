/* kernels.h - what kernels.def lists, in C: the types of arguments (written here), the argument struct and the function
 * type of each kernel, and the table of a device. */
#ifndef CR_KERNELS_H
#define CR_KERNELS_H

#include "../core/watch.h"

/* ---- elementwise programs (program.h has the instruction set) */
enum { CR_MAX_OUTPUTS = 5, CR_MAX_INPUTS = 12 };    /* of one program */

typedef struct cr_arg {                             /* one operand of a walk */
    void *data;                                     /* first element, if the host can read it (cpu, ref, scalars) */
    cr_storage *storage; int64_t offset;            /* where it lies otherwise */
    cr_dtype dtype;
    int64_t strides[CR_MAX_DIMS];                   /* in elements, over the walk's shape; 0 where broadcast */
} cr_arg;

typedef struct cr_walk {                            /* one run of a program over a shape */
    const cr_program *program;
    const double *params;
    cr_dtype compute;                               /* bool, an integer dtype, f32 or f64; f16 and bf16 compute in
                                                     * f32 */
    int ndim;                                       /* axes of size 1 are dropped, others merged where possible */
    int64_t shape[CR_MAX_DIMS], numel;
    int n_out, n_in;
    cr_arg out[CR_MAX_OUTPUTS], in[CR_MAX_INPUTS];  /* an output may be the same elements as an input (in-place), but
                                                       never a shifted overlap */
} cr_walk;

/* ---- reductions */
typedef enum cr_reduce_kind { CR_REDUCE_SUM, CR_REDUCE_PROD, CR_REDUCE_MAX, CR_REDUCE_MIN } cr_reduce_kind;
typedef enum cr_reduce_map {                        /* applied to each element first; all but the first two: floats
                                                     * only */
    CR_MAP_SAME,                                    /* x */
    CR_MAP_NONZERO,                                 /* x != 0 as 0 or 1 */
    CR_MAP_ABS, CR_MAP_SQUARE, CR_MAP_POWER,        /* |x|, x^2, |x|^p */
    CR_MAP_NUMBER,                                  /* x, but 0 for NaN */
    CR_MAP_DEVIATION                                /* (x - mean)^2, the mean over the same R */
} cr_reduce_map;
typedef struct cr_reduce_how { cr_reduce_kind kind; cr_reduce_map map; double p; } cr_reduce_how;

typedef struct cr_slab { int64_t M, R, N, strides[3]; } cr_slab;       /* sizes and strides of x */
static inline cr_slab cr_slab_of(const cr_array *x) {
    return (cr_slab){x->shape[0], x->shape[1], x->shape[2], {x->strides[0], x->strides[1], x->strides[2]}};
}

enum { CR_SQUARES_PIECE = 1 << 14 };                /* elements of a partial sum of sum_squares */

typedef enum cr_scan_kind { CR_SCAN_SUM, CR_SCAN_PROD, CR_SCAN_LOGSUMEXP, CR_SCAN_MAX, CR_SCAN_MIN } cr_scan_kind;

/* ---- products */
typedef enum cr_matmul_how {
    CR_MATMUL_ADD = 1,                              /* adds to c */
    CR_MATMUL_BF16 = 2,                             /* f32 operands are rounded to bf16, to nearest even; denormals
                                                       may become 0 */
    CR_MATMUL_TF32 = 4,                             /* f32 operands may be rounded to TF32 where that is faster */
    CR_MATMUL_GELU = 8, CR_MATMUL_SUMS = 16         /* matmul_epilogue only */
} cr_matmul_how;                                    /* BF16, TF32: ignored for other dtypes */

typedef enum cr_conv_kind {
    CR_CONV_FORWARD,                                /* writes y = conv(x, w) [+ bias] */
    CR_CONV_INPUT,                                  /* writes x, from w and y: the transposed convolution of y */
    CR_CONV_WEIGHT                                  /* writes w, from x and y */
} cr_conv_kind;

/* Notes whether the kernel computes its result; if not, nothing is written.  done NULL: a step of a plan, whose kernel
 * did when it was recorded. */
static inline bool cr_note_done(bool *done, bool computes) {
    if (done) *done = computes;
    return computes;
}


/* ---- factors of x (M, N); y: */
typedef enum cr_factor_kind {
    CR_FACTOR_CHOLESKY,                             /* (N, N): L, NaN from the first pivot that is not above 0 */
    CR_FACTOR_LU,                                   /* (M, N): L below the diagonal, U; rows in `order` of x.  pivots:
                                                     * row i was exchanged with row pivots[i] - 1 */
    CR_FACTOR_QR,                                   /* (M + N, N), M >= N: Q above R */
    CR_FACTOR_EIGH,                                 /* (N + 1, N): vectors as columns above the ascending values */
    CR_FACTOR_SVD,                                  /* (M + 1 + N, N), M >= N: U, descending values, V */
    CR_FACTOR_EIGVALSH,                             /* (1, N): the values of EIGH */
    CR_FACTOR_SVDVALS                               /* (1, N): the values of SVD */
} cr_factor_kind;

/* ---- order, random numbers */
typedef enum cr_kth {
    CR_KTH_MEDIAN = -1,                             /* the lower of the two middle elements; the first NaN if there
                                                     * is one */
    CR_KTH_NANMEDIAN = -2                           /* the same over the numbers only */
} cr_kth;

typedef enum cr_random_kind {
    CR_RANDOM_UNIFORM,                              /* [0, 1): (word >> 8) 2^-24, for f16 and bf16 rounded towards 0;
                                                       f64: 53 bits 2^-53 */
    CR_RANDOM_NORMAL                                /* Box-Muller on elements 2j, 2j + 1: r = sqrt(-2 log(1 - u0)),
                                                       (r cos(2 pi u1), r sin(2 pi u1)) */
} cr_random_kind;

/* ---- recurrent layers: T steps over B sequences.  Step t has the rows at[t] .. at[t + 1] - 1, one for each of the
 * first B_t sequences. */
typedef struct cr_recurrent_steps {
    cr_cell cell;
    bool reverse;
    int how;                                        /* CR_MATMUL_BF16, CR_MATMUL_TF32, or 0 */
    const cr_program *program;
    int64_t T;
    const int64_t *at;                              /* T + 1 */
} cr_recurrent_steps;

/* ---- of each kernel: its argument struct, and the type of its function, cr_<name>_kernel.  An array or a walk that is
 * declared as a VALUE, and so without a role, does not compile. */
typedef cr_array cr_array_member;
typedef cr_walk cr_walk_member;
#define cr_array array_without_a_role
#define cr_walk walk_without_a_role
#define KERNEL(name, cpu, ref, cuda, webgpu, ...)                                                                    \
    typedef struct cr_##name##_args { __VA_ARGS__ } cr_##name##_args;                                                \
    typedef cr_status cr_##name##_kernel(const cr_##name##_args *args);
#define TWIN(name, of, ...)                                                                                          \
    typedef cr_##of##_args cr_##name##_args;                                                                         \
    typedef cr_##of##_kernel cr_##name##_kernel;
#define OUT(x)               cr_array_member x;
#define IN(x)                cr_array_member x;
#define INOUT(x)             cr_array_member x;
#define OUT_OR_IN(x, out)    cr_array_member x;
#define OUT_ADD(x, adds)     cr_array_member x;
#define IN_WHOLE(x)          cr_array_member x;
#define LIST(x, n)           const cr_array_member *const *x;
#define WALKS(x, n, without) const cr_walk_member *x;
#define BYTES(type, x, n)    type x;
#define STEPS(x)             cr_recurrent_steps x;
#define SEED(seed, counter)  uint64_t seed, counter;
#define DONE(x)              bool *x;
#define COUNT(x)             int64_t *x;
#define VALUE(...)           __VA_ARGS__;
#define ROWS(x)
#define ELEMENTS(x, n)
#define FLOPS(n)
#include "kernels.def"
#undef cr_array
#undef cr_walk

/* ---- the numbers of the kernels, and the table of a device */
enum {
#define KERNEL(name, ...) CR_KERNEL_##name,
#include "kernels.def"
    CR_KERNEL_COUNT
};

typedef struct cr_kernels {
#define KERNEL(name, ...) cr_##name##_kernel *name;
#include "kernels.def"
    bool (*attention_takes)(const cr_array *q, const cr_array *k);         /* NULL: attention supports all shapes */
    bool can_fuse;                                  /* a result of a program does not depend on what else it computes:
                                                     * plans join programs */
    bool fuse_behind_barrier;                       /* the compiler may contract and reorder: a joined program keeps
                                                     * the instructions of different kernels apart */
    int chain_buffers;                              /* storages of a joined program; 0: any number */
    bool f32_only;                                  /* f64 is stored and moved, but no kernel computes in it */
    /* Has update_by_product the bits of this product, then the update?  NULL: never. */
    bool (*update_keeps_bits)(const cr_matmul_args *args);
    cr_kernel_run raw[CR_KERNEL_COUNT];             /* the kernels without the watch, for plans; NULL: absent */
} cr_kernels;

/* A device lists kernels.def with these, each in CR_IF_1: its prototypes, the functions of its table, which a recording
 * watches, and the entries of the table. */
#define CR_IF_0(...)
#define CR_IF_1(...) __VA_ARGS__
#ifdef __EMSCRIPTEN__
#define CR_IF_N(...)
#else
#define CR_IF_N(...) __VA_ARGS__
#endif
#ifdef CR_WEB_SMALL
#define CR_IF_L(...)
#else
#define CR_IF_L(...) __VA_ARGS__
#endif
#define CR_WATCHED(prefix, name)                                                                                     \
    static cr_status run_##name(const void *args) { return prefix##name(args); }                                     \
    static cr_status watched_##name(const cr_##name##_args *args) {                                                  \
        const cr_watch *watch = cr_watching();                                                                       \
        return watch ? watch->kernel(CR_KERNEL_##name, run_##name, args) : prefix##name(args);                       \
    }
#define CR_ENTRY(name) .name = watched_##name, .raw[CR_KERNEL_##name] = run_##name,

#endif
