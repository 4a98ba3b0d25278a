/* kernels.h - every kernel that a device can have, declared once: its row in CR_KERNELS and its argument struct.
 *
 * A kernel receives arrays, never tensors: it knows no graph, no scope and no owner.  It returns CR_OK or a failure recorded with cr_fail
 * (index out of range, out of memory).  Outputs are allocated already.  Unless a line says otherwise arrays are contiguous, outputs do not
 * overlap inputs, and no array is empty.  Optional arrays are absent where their storage is NULL. */
#ifndef CR_KERNELS_H
#define CR_KERNELS_H

#include "../core/array.h"

/* ---- the list.  Each column is a device: 1 where it has the kernel.  A kernel that every device has is required: ops call it without
 * asking.  A device without an optional kernel has NULL in its table, and the op runs as its composite.
 *
 *    kernel                cpu ref cuda webgpu */
#define CR_KERNELS(X)                           \
    X(copy,                   1,  1,  1,  1)    \
    X(fill,                   1,  1,  1,  1)    \
    X(elementwise,            1,  1,  1,  1)    \
    X(reduce,                 1,  1,  1,  1)    \
    X(arg_reduce,             1,  1,  1,  1)    \
    X(scan,                   1,  1,  1,  1)    \
    X(matmul,                 1,  1,  1,  1)    \
    X(gather,                 1,  1,  1,  1)    \
    X(scatter,                1,  1,  1,  1)    \
    X(take_rows,              1,  1,  1,  1)    \
    X(put_rows,               1,  1,  1,  1)    \
    X(ravel,                  1,  1,  1,  1)    \
    X(nonzero,                1,  1,  1,  1)    \
    X(sort,                   1,  1,  1,  1)    \
    X(kth,                    1,  1,  1,  1)    \
    X(search,                 1,  1,  1,  1)    \
    X(runs,                   1,  1,  1,  1)    \
    X(random,                 1,  1,  1,  1)    \
    X(random_integers,        1,  1,  1,  1)    \
    X(permutation,            1,  1,  1,  1)    \
    X(multinomial,            1,  1,  1,  1)    \
    X(softmax,                1,  1,  1,  1)    \
    X(softmax_bwd,            1,  1,  1,  1)    \
    X(norm,                   1,  1,  1,  1)    \
    X(norm_bwd,               1,  1,  1,  1)    \
    X(cross_entropy,          1,  1,  1,  1)    \
    X(cross_entropy_bwd,      1,  1,  1,  1)    \
    X(attention,              1,  1,  1,  1)    \
    X(attention_bwd,          1,  1,  1,  1)    \
    X(scatter_extreme,        1,  0,  0,  0)    \
    X(nextafter,              1,  0,  0,  0)    \
    X(triangle,               1,  1,  0,  0)    \
    X(sum_squares,            0,  0,  1,  0)    \
    X(update_by_product,      1,  0,  0,  0)    \
    X(matmul_epilogue,        0,  0,  1,  0)

/* ---- elementwise programs (program.h has the instruction set) */
enum { CR_MAX_OUTPUTS = 5, CR_MAX_INPUTS = 12 };    /* of one program */

typedef struct cr_arg {                             /* one operand of a walk */
    void *data;                                     /* first element, where the host can read it (cpu, ref; on other devices a number beside tensors); else storage and offset say where */
    cr_storage *storage; int64_t offset;
    cr_dtype dtype;
    int64_t strides[CR_MAX_DIMS];                   /* in elements, over the walk's shape; 0 where broadcast */
} cr_arg;

typedef struct cr_walk {                            /* one run of a program over a shape; size-1 axes dropped, axes merged where possible */
    const cr_program *program;
    const double *params;
    cr_dtype compute;                               /* f32 or f64 for floats (f16, bf16 compute in f32); else the promoted integer dtype or bool */
    int ndim; int64_t shape[CR_MAX_DIMS], numel;
    int n_out, n_in;
    cr_arg out[CR_MAX_OUTPUTS], in[CR_MAX_INPUTS];  /* an output may be the very same elements as an input (in place), never a shifted overlap */
} cr_walk;

typedef struct cr_elementwise_args { const cr_walk *walks; int64_t count; } cr_elementwise_args;       /* independent of each other */

/* ---- copies */
typedef struct cr_copy_args { cr_array dst, src; } cr_copy_args;           /* same shape, any strides (src 0 where broadcast), casts */
typedef struct cr_fill_args { cr_array dst; const void *value; } cr_fill_args;        /* any strides; value: one element of dst's dtype */
typedef struct cr_triangle_args {                   /* (..., M, N): y = x where column - row <= diagonal (upper: >=), else 0; y may be x */
    cr_array y, x;
    int64_t diagonal;
    bool upper;
} cr_triangle_args;
typedef struct cr_nextafter_args { cr_array y, a, b; int64_t infinity; } cr_nextafter_args;      /* bits of floats as contiguous signed integers, one shape; infinity: its bits */

/* ---- reductions of x (M, R, N), of any strides, over R: y (M, N) */
typedef enum cr_reduce_kind { CR_REDUCE_SUM, CR_REDUCE_PROD, CR_REDUCE_MAX, CR_REDUCE_MIN } cr_reduce_kind;
typedef enum cr_reduce_map {                        /* applied to each element x first; all but the first two for floats only */
    CR_MAP_SAME, CR_MAP_NONZERO,                    /* x, and x != 0 as 0 or 1 */
    CR_MAP_ABS, CR_MAP_SQUARE, CR_MAP_POWER,        /* |x|, x^2, |x|^p */
    CR_MAP_NUMBER,                                  /* x, but 0 for NaN */
    CR_MAP_DEVIATION                                /* (x - mean)^2, the mean over the same R */
} cr_reduce_map;
typedef struct cr_reduce_how { cr_reduce_kind kind; cr_reduce_map map; double p; } cr_reduce_how;

/* Sizes and strides of x, for devices that cut it further. */
typedef struct cr_slab { int64_t M, R, N, strides[3]; } cr_slab;
static inline cr_slab cr_slab_of(const cr_array *x) {
    return (cr_slab){x->shape[0], x->shape[1], x->shape[2], {x->strides[0], x->strides[1], x->strides[2]}};
}

/* SUM, PROD: y's dtype is the accumulator's (f16, bf16: f32 inside).  NaN wins in MAX, MIN.  R 0: the identity; MAX and MIN come so with
 * NONZERO only, and give that of 0 and 1. */
typedef struct cr_reduce_args { cr_array y, x; cr_reduce_how how; } cr_reduce_args;
typedef struct cr_arg_reduce_args { cr_array y, x; bool max; } cr_arg_reduce_args;    /* y i64: position of the first largest (NaN is larger) or smallest (NaN is smaller) */
typedef struct cr_sum_squares_args { cr_array y; int64_t n; const cr_array *const *x; } cr_sum_squares_args;      /* y () f64: over all elements of n contiguous float arrays */

/* ---- scans of x (M, R, N) along R: y[r] from all elements up to r, or from r on (reverse).  Floats in double (or as near to that as
 * webgpu/scan.c says), rounded once for each element; SUM, PROD of integers: y i64. */
typedef enum cr_scan_kind { CR_SCAN_SUM, CR_SCAN_PROD, CR_SCAN_LOGSUMEXP, CR_SCAN_MAX, CR_SCAN_MIN } cr_scan_kind;
typedef struct cr_scan_args {
    cr_array y, index, x, a;
    cr_scan_kind kind;
    bool reverse;                                   /* never for MAX, MIN */
} cr_scan_args;
/* SUM with a, of x's dtype and shape (else absent): y[r] = x[r] + a[r] y[r - 1]; reverse, the transpose: y[r] = x[r] + a[r + 1] y[r + 1].
 * MAX, MIN: the extreme so far, and in index, i64 (else absent), the position of the last of equals; NaN is more extreme. */

/* ---- products: c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)] */
typedef enum cr_matmul_how {
    CR_MATMUL_ADD = 1,                              /* c is added to */
    CR_MATMUL_BF16 = 2,                             /* f32: a and b are rounded to bf16 first (to nearest, ties to even; denormals may become 0); ignored for other dtypes */
    CR_MATMUL_TF32 = 4,                             /* f32: operands may keep only the 10 bits of TF32's fraction, where that is faster; ignored for other dtypes */
    CR_MATMUL_GELU = 8, CR_MATMUL_SUMS = 16, CR_MATMUL_DGELU = 32         /* of matmul_epilogue only */
} cr_matmul_how;
/* Equal ndim 2..8, any strides on a, b (0 where broadcast), c's rows contiguous in N; one dtype for all, f16 and bf16 accumulate in f32. */
typedef struct cr_matmul_args { cr_array c, a, b, bias; int how; } cr_matmul_args;      /* bias may be absent; how: cr_matmul_how, or 0 */
/* A product of two axes each with one epilogue.
 * GELU:  c = gelu_tanh(h) of h = a b [+ operand (N)], and aux (M, N) = h, unless absent.
 * DGELU: c = gelu_tanh'(h) a b, h = operand (M, N), and aux (N) = the sum of c's rows, unless absent.
 * SUMS:  c = a b, and aux (M) = the sum of each row of a. */
typedef struct cr_matmul_epilogue_args {
    cr_array c, aux, a, b, operand;
    int how;
    bool *done;                                     /* false: not for such operands, nothing was written */
} cr_matmul_epilogue_args;
typedef struct cr_update_by_product_args {          /* the walk with a b, (M, K) (K, N), for this input, of which it knows only the dtype: */
    const cr_walk *update;                          /* one axis of M N contiguous elements for all other operands */
    int input;
    cr_array a, b;
    int how;
} cr_update_by_product_args;

/* ---- places along an axis: x (M, R, N), index i32 or i64.  An index out of range is refused: a message with position and bound. */
typedef struct cr_gather_args { cr_array y, x, index; } cr_gather_args;    /* y[m, k, n] = x[m, index[m, k, n], n]: index and y (M, K, N) */
typedef struct cr_scatter_args { cr_array y, index, src; bool sum; } cr_scatter_args;      /* y[m, index[m, k, n], n] = src[m, k, n], or += it, in order of k */
typedef struct cr_scatter_extreme_args { cr_array y, index, src; bool least; } cr_scatter_extreme_args;        /* the same with the larger, or the smaller, of it and src[m, k, n]; NaN wins */
typedef struct cr_take_rows_args {                  /* y[m, k, n] = x[m, index[k], n]: x of any strides, index (K), y (M, K, N) */
    const char *op;                                 /* for messages */
    cr_array y, x, index;
    bool wrap;                                      /* -R .. -1 count from the end */
} cr_take_rows_args;
typedef struct cr_put_rows_args {                   /* x[m, index[k], n] = src[m, k, n], or += it, in order of k: x and src of any strides (src 0 where broadcast) */
    const char *op;
    cr_array x, index, src;
    bool sum, wrap;
} cr_put_rows_args;
typedef struct cr_ravel_args {                      /* y = ((index[0] sizes[1]) + index[1]) sizes[2] + ...: all i64 of one shape, indices wrap */
    const char *op;
    cr_array y;
    int n;
    const cr_array *const *index;
    const int64_t *sizes;
} cr_ravel_args;
typedef struct cr_nonzero_args { cr_array y, x; int64_t *count; } cr_nonzero_args;        /* where x, bool of any shape, is true, in order: y (count, ndim) i64 of any strides; y absent: only counts */

/* ---- order: rows of x (M, R).  NaN is the largest. */
typedef struct cr_sort_args { cr_array y, index, x; bool descending; } cr_sort_args;      /* the first K of each row in order, 1 <= K <= R, and their positions, i64: (M, K) both.  Stable */
typedef enum cr_kth { CR_KTH_MEDIAN = -1, CR_KTH_NANMEDIAN = -2 } cr_kth;       /* the lower of the two middle ones; MEDIAN: the first NaN where there is one; NANMEDIAN: of the numbers only */
typedef struct cr_kth_args { cr_array y, index, x; int64_t k; } cr_kth_args;    /* element k, or cr_kth, of each sorted row, and its position: (M) both */
typedef struct cr_search_args {                     /* y i64 (M, K): how many elements of row m of x (M, R), or of x (R), are less than v[m, k] */
    cr_array y, x, v;
    bool right;                                     /* less or equal */
} cr_search_args;                                   /* x is in order; one dtype */
/* Equal rows of x (R, C), R >= 1, one after another are a run: run[order[i]], or run[i] where order is absent, is row i's (run absent: not
 * wanted), starts[j] is where run j begins, count[0] how many there are; i64 (R), (R), (), (R).  NaN is equal to nothing. */
typedef struct cr_runs_args { cr_array run, starts, count, x, order; } cr_runs_args;

/* ---- random numbers: Philox block counter + i / 4, word i % 4, for element i (f64: block counter + i / 2, words 2(i % 2), +1).
 * W(i), the i-th word of 64 bits: of block counter + i / 2, words 2(i % 2) and, high, 2(i % 2) + 1. */
typedef enum cr_random_kind { CR_RANDOM_UNIFORM, CR_RANDOM_NORMAL } cr_random_kind;
/* UNIFORM in [0, 1): f32 (and f16, bf16, from f32 rounded towards 0) = (word >> 8) 2^-24, f64 = 53 bits 2^-53.
 * NORMAL: Box-Muller on the pair 2j, 2j + 1: r = sqrt(-2 log(1 - u0)), (r cos(2 pi u1), r sin(2 pi u1)). */
typedef struct cr_random_args { cr_array y; cr_random_kind kind; uint64_t seed, counter; } cr_random_args;
typedef struct cr_random_integers_args { cr_array y; int64_t low; uint64_t span, seed, counter; } cr_random_integers_args;        /* y[i] = low + cr_below(W(i), span), in any dtype that holds them */
typedef struct cr_permutation_args { cr_array y; uint64_t seed, counter; } cr_permutation_args;        /* y i64 (n): the positions 0 .. n - 1 in the order of W(0) .. W(n - 1); stable */
/* y i64 (M, S): positions drawn by the weights w (M, N), f32 or f64, finite, >= 0 and enough of them above 0.  In double (or as
 * webgpu/sample.c says), U(i) = (W(i) >> 11) 2^-53.
 * With replacement: y[m, s] = the first i with w[m, 0] + ... + w[m, i] > U(m S + s) (w[m, 0] + ... + w[m, N - 1]), added in order.
 * Without: the S smallest of -log(1 - U(m N + i)) / w[m, i] in their order (Efraimidis and Spirakis 2006), which the last bit of log may swap. */
typedef struct cr_multinomial_args { cr_array y, w; bool replacement; uint64_t seed, counter; } cr_multinomial_args;

/* ---- rows: x (M, N) */
typedef struct cr_softmax_args { cr_array y, x; bool log; } cr_softmax_args;
typedef struct cr_softmax_bwd_args { cr_array dx, y, g; bool log; } cr_softmax_bwd_args;
typedef struct cr_norm_args {                       /* layer norm; mean absent: RMS norm */
    cr_array y, mean, rstd;                         /* mean, rstd (M) f32 (f64 for f64) */
    cr_array x, w, b;                               /* w, b (N) may be absent */
    double eps;
} cr_norm_args;
typedef struct cr_norm_bwd_args {
    cr_array dx, dw, db;                            /* each may be absent */
    cr_array x, w, mean, rstd, g;
} cr_norm_bwd_args;
typedef struct cr_cross_entropy_args {
    cr_array loss, lse;                             /* (M) f32 (f64 for f64); ignored rows: loss 0 */
    cr_array x, target;                             /* target (M) i32 or i64, checked */
    int64_t ignore;
    double smoothing;
} cr_cross_entropy_args;
typedef struct cr_cross_entropy_bwd_args {
    cr_array dx, x, target, lse, g;                 /* g (M), or one number: the cotangent of each row's loss, lse's dtype */
    int64_t ignore;
    double smoothing;
} cr_cross_entropy_bwd_args;

/* ---- attention: q, o (B, H, T, D), k, v (B, H, S, D): any strides with D contiguous (o: (B, T, H, D) in memory); lse (B, H, T) f32 (f64 for
 * f64); mask (B, H, T, S): absent, or added to the scores, lse's dtype, any strides (0 where broadcast).  A query that sees nothing but -Inf: o 0,
 * lse -Inf. */
typedef struct cr_attention_args { cr_array o, lse, q, k, v, mask; double scale; bool causal; } cr_attention_args;
typedef struct cr_attention_bwd_args {
    cr_array dq, dk, dv;                            /* any strides with D contiguous */
    cr_array q, k, v, mask, o, lse, g;
    double scale;
    bool causal;
} cr_attention_bwd_args;

/* ---- what follows from the list: cr_<name>_kernel, the type of each kernel's function, and the table */
#define CR_KERNEL_TYPE(name, ...) typedef cr_status cr_##name##_kernel(const cr_##name##_args *args);
CR_KERNELS(CR_KERNEL_TYPE)

typedef struct cr_kernels {
#define CR_KERNEL_MEMBER(name, ...) cr_##name##_kernel *name;
    CR_KERNELS(CR_KERNEL_MEMBER)
    bool (*attention_takes)(const cr_array *q, const cr_array *k);         /* are the attention kernels for such shapes?  NULL: for all */
    bool f32_only;                                  /* f64 is stored and moved, but nothing computes in it */
} cr_kernels;

/* Prototypes of one device, CR_KERNELS(CR_KERNEL_OF_CPU), and the entries of its table, {CR_KERNELS(CR_ENTRY_OF_CPU)}. */
#define CR_IF_0(...)
#define CR_IF_1(...) __VA_ARGS__
#define CR_KERNEL_OF_CPU(name, cpu, ref, cuda, webgpu)      CR_IF_##cpu(cr_##name##_kernel cr_cpu_##name;)
#define CR_KERNEL_OF_REF(name, cpu, ref, cuda, webgpu)      CR_IF_##ref(cr_##name##_kernel cr_ref_##name;)
#define CR_KERNEL_OF_CUDA(name, cpu, ref, cuda, webgpu)     CR_IF_##cuda(cr_##name##_kernel cr_cuda_##name;)
#define CR_KERNEL_OF_WEBGPU(name, cpu, ref, cuda, webgpu)   CR_IF_##webgpu(cr_##name##_kernel cr_gpu_##name;)
#define CR_ENTRY_OF_CPU(name, cpu, ref, cuda, webgpu)       CR_IF_##cpu(.name = cr_cpu_##name,)
#define CR_ENTRY_OF_REF(name, cpu, ref, cuda, webgpu)       CR_IF_##ref(.name = cr_ref_##name,)
#define CR_ENTRY_OF_CUDA(name, cpu, ref, cuda, webgpu)      CR_IF_##cuda(.name = cr_cuda_##name,)
#define CR_ENTRY_OF_WEBGPU(name, cpu, ref, cuda, webgpu)    CR_IF_##webgpu(.name = cr_gpu_##name,)

#endif
