/* kernels.h - every kernel of a device, declared once: a row in CR_KERNELS and an argument struct.
 *
 * A kernel receives arrays, never tensors: it knows no graph, no scope and no owner.  It returns CR_OK, or a
 * failure that it recorded with cr_fail (index out of range, out of memory).
 *
 * Unless a comment says otherwise: outputs are allocated, arrays are contiguous, outputs do not overlap inputs,
 * and no array is empty.  An optional array is absent where its storage is NULL (cr_present). */
#ifndef CR_KERNELS_H
#define CR_KERNELS_H

#include "../core/watch.h"

/* ---- the list
 *
 * Each column is a device: 1 where it has the kernel.  Kernels that all devices have are required: ops call them
 * without a test.  A missing kernel is NULL in the table of its device, and the op runs as its composite there.
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
    X(conv,                   1,  1,  1,  1)    \
    X(max_pool,               1,  1,  1,  1)    \
    X(band,                   1,  1,  1,  1)    \
    X(channel_norm,           1,  1,  1,  1)    \
    X(channel_norm_bwd,       1,  1,  1,  1)    \
    X(dequantize,             1,  1,  1,  1)    \
    X(linear_quantized,       1,  1,  1,  1)    \
    X(softmax,                1,  1,  1,  1)    \
    X(softmax_bwd,            1,  1,  1,  1)    \
    X(norm,                   1,  1,  1,  1)    \
    X(norm_bwd,               1,  1,  1,  1)    \
    X(cross_entropy,          1,  1,  1,  1)    \
    X(cross_entropy_bwd,      1,  1,  1,  1)    \
    X(attention,              1,  1,  1,  1)    \
    X(attention_bwd,          1,  1,  1,  1)    \
    X(recurrent,              1,  0,  0,  0)    \
    X(recurrent_bwd,          1,  0,  0,  0)    \
    X(channel_scale,          1,  0,  0,  0)    \
    X(channel_scale_bwd,      1,  0,  0,  0)    \
    X(group_norm,             1,  0,  0,  0)    \
    X(group_norm_bwd,         1,  0,  0,  0)    \
    X(max_pool_values,        1,  0,  0,  0)    \
    X(scatter_extreme,        1,  0,  0,  0)    \
    X(nextafter,              1,  0,  0,  0)    \
    X(triangle,               1,  1,  0,  0)    \
    X(sum_squares,            0,  0,  1,  0)    \
    X(update_by_product,      1,  0,  0,  0)    \
    X(matmul_epilogue,        0,  0,  1,  0)

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

typedef struct cr_elementwise_args {
    const cr_walk *walks;                           /* independent of each other */
    int64_t count;
} cr_elementwise_args;

/* ---- copies */
typedef struct cr_copy_args {                       /* dst = src, cast: one shape, any strides (src: 0 where
                                                     * broadcast) */
    cr_array dst, src;
} cr_copy_args;

typedef struct cr_fill_args {
    cr_array dst;                                   /* any strides */
    const void *value;                              /* one element of dst's dtype */
} cr_fill_args;

typedef struct cr_triangle_args {                   /* (..., M, N): y = x where column - row <= diagonal, else 0 */
    cr_array y, x;                                  /* y may be x */
    int64_t diagonal;
    bool upper;                                     /* >= instead of <= */
} cr_triangle_args;

typedef struct cr_nextafter_args {                  /* y: the neighbour of a in the direction of b */
    cr_array y, a, b;                               /* the bits of floats as signed integers; one shape */
    int64_t infinity;                               /* the bits of infinity */
} cr_nextafter_args;

/* ---- reductions of x (M, R, N), any strides, over R: y (M, N) */
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

/* SUM, PROD: y has the accumulator's dtype or, for f16 and bf16 that accumulate in f32, x's own.
 * MAX, MIN: NaN wins.
 * R = 0: y is the identity of the reduction.  MAX and MIN with R = 0 occur with NONZERO only: 0 and 1. */
typedef struct cr_reduce_args { cr_array y, x; cr_reduce_how how; } cr_reduce_args;

/* y i64: position of the first largest element (NaN is larger than all numbers) or the first smallest
 * (NaN is smaller). */
typedef struct cr_arg_reduce_args { cr_array y, x; bool max; } cr_arg_reduce_args;

enum { CR_SQUARES_PIECE = 1 << 14 };
typedef struct cr_sum_squares_args {
    cr_array y;                                     /* f64 (): the sum over all elements of all x; f64 (pieces): of each
                                                     * CR_SQUARES_PIECE elements of the first x, the second ... */
    int64_t n;
    const cr_array *const *x;                       /* n contiguous float arrays */
} cr_sum_squares_args;

/* ---- scans of x (M, R, N) along R: y[r] from the elements 0 .. r, or r .. R - 1 (reverse)
 *
 * Floats accumulate in double and are rounded once per element (webgpu/scan.c describes its substitute for double).
 * SUM and PROD of integers: y i64.
 * SUM with weights a, of x's dtype and shape: y[r] = x[r] + a[r] y[r - 1]; reverse is the transpose,
 * y[r] = x[r] + a[r + 1] y[r + 1].
 * MAX, MIN: the extreme so far, and in index its position, the last one of equal elements.  NaN is more extreme. */
typedef enum cr_scan_kind { CR_SCAN_SUM, CR_SCAN_PROD, CR_SCAN_LOGSUMEXP, CR_SCAN_MAX, CR_SCAN_MIN } cr_scan_kind;
typedef struct cr_scan_args {
    cr_array y;
    cr_array index;                                 /* i64; only with MAX, MIN */
    cr_array x;
    cr_array a;                                     /* optional, only with SUM */
    cr_scan_kind kind;
    bool reverse;                                   /* never with MAX, MIN */
} cr_scan_args;

/* ---- products: c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)] */
typedef enum cr_matmul_how {
    CR_MATMUL_ADD = 1,                              /* adds to c */
    CR_MATMUL_BF16 = 2,                             /* f32 operands are rounded to bf16, to nearest even; denormals
                                                       may become 0 */
    CR_MATMUL_TF32 = 4,                             /* f32 operands may be rounded to TF32 where that is faster */
    CR_MATMUL_GELU = 8, CR_MATMUL_SUMS = 16         /* matmul_epilogue only */
} cr_matmul_how;                                    /* BF16, TF32: ignored for other dtypes */

/* One ndim, 2 .. 8; f16 and bf16 accumulate in f32.  One dtype, but c and bias may be f32 where a and b are f16 or
 * bf16: c is then not rounded. */
typedef struct cr_matmul_args {
    cr_array c;                                     /* rows contiguous in N */
    cr_array a, b;                                  /* any strides, 0 where broadcast */
    cr_array bias;                                  /* optional */
    int how;                                        /* cr_matmul_how, or 0 */
} cr_matmul_args;

/* A product of two axes each, with one epilogue:
 *   GELU   c = gelu_tanh(h), h = a b [+ bias (N)];         aux (M, N) = h
 *   SUMS   c = a b;                                        aux (M) = the sum of each row of a */
typedef struct cr_matmul_epilogue_args {
    cr_array c;
    cr_array aux;                                   /* optional with GELU */
    cr_array a, b;
    cr_array bias;                                  /* optional, with GELU */
    int how;
    bool *done;                                     /* false: not supported for these operands, nothing was written */
} cr_matmul_epilogue_args;

/* Runs the walk `update` with the product a b as its input number `input`.  The product need not exist whole. */
typedef struct cr_update_by_product_args {
    const cr_walk *update;                          /* one axis of M N contiguous elements; the input has only a
                                                     * dtype */
    int input;
    cr_array a, b;                                  /* (M, K), (K, N) */
    int how;
} cr_update_by_product_args;

/* ---- quantized weights w (N, K): each G neighbours of a row share a scale, CR_QUANTIZED_BLOCK divides G, G divides K
 *
 * 8 bits: codes (N, K) i8, w = scale code.  4 bits: codes (N, K / 2) u8, w = scale (code - 8); each 16 bytes hold 32
 * codes: those at 0 .. 15 in the low halves, those at 16 .. 31 in the high halves.  scales (N, K / G) f16.
 * Rows are contiguous; codes and scales may have any distance from row to row. */
enum { CR_QUANTIZED_BLOCK = 32 };

/* y (N, K), of any float dtype: w */
typedef struct cr_dequantize_args { cr_array y, codes, scales; } cr_dequantize_args;

/* y (M, N) = x (M, K) w^T [+ bias (N)]; one float dtype.  A device may read x with 16 bits for each element, which
 * share a scale along each group: an error of at most 2^-16 of the group's largest. */
typedef struct cr_linear_quantized_args {
    cr_array y, x, codes, scales;
    cr_array bias;                                  /* optional */
    bool *done;                                     /* false: the device prefers products with w's parts as floats for
                                                     * these operands, nothing was written */
} cr_linear_quantized_args;
static inline bool cr_quantized_has_8_bits(const cr_array *codes) { return codes->dtype == CR_I8; }

/* ---- indexing along R.  Index: i32 or i64; an element out of range is a failure that names its
 * position and the bound. */
typedef struct cr_gather_args {                     /* y[m, k, n] = x[m, index[m, k, n], n] */
    cr_array y, x, index;                           /* x (M, R, N); index, y (M, K, N) */
} cr_gather_args;

typedef struct cr_scatter_args {                    /* y[m, index[m, k, n], n] = src[m, k, n], in order of k */
    cr_array y, index, src;
    bool sum;                                       /* += instead of = */
} cr_scatter_args;

typedef struct cr_scatter_extreme_args {            /* the same with max(y, src) instead of src; NaN wins */
    cr_array y, index, src;
    bool least;                                     /* min instead of max */
} cr_scatter_extreme_args;

typedef struct cr_take_rows_args {                  /* y[m, k, n] = x[m, index[k], n] */
    const char *op;                                 /* named in messages */
    cr_array y, x, index;                           /* x: any strides; index (K); y (M, K, N) */
    bool wrap;                                      /* -R .. -1 count from the end */
} cr_take_rows_args;

typedef struct cr_put_rows_args {                   /* x[m, index[k], n] = src[m, k, n], in order of k */
    const char *op;
    cr_array x, index, src;                         /* x, src: any strides, src: 0 where broadcast */
    bool sum, wrap;                                 /* sum: += instead of = */
} cr_put_rows_args;

typedef struct cr_ravel_args {                      /* y = ((index[0] sizes[1]) + index[1]) sizes[2] + ... */
    const char *op;
    cr_array y;                                     /* i64 */
    int n;
    const cr_array *const *index;                   /* n arrays of y's shape; negative indices count from the end */
    const int64_t *sizes;
} cr_ravel_args;

typedef struct cr_nonzero_args {                    /* the coordinates of the true elements of x, in row-major order */
    cr_array y;                                     /* (count, ndim) i64, any strides; absent: only counts */
    cr_array x;                                     /* bool, any shape */
    int64_t *count;
} cr_nonzero_args;

/* ---- order of rows of x (M, R).  NaN is larger than all numbers. */
typedef struct cr_sort_args {                       /* the first K of each row in order, 1 <= K <= R; stable */
    cr_array y, index;                              /* (M, K): values, and positions as i64 */
    cr_array x;
    bool descending;
} cr_sort_args;

typedef enum cr_kth {
    CR_KTH_MEDIAN = -1,                             /* the lower of the two middle elements; the first NaN if there
                                                     * is one */
    CR_KTH_NANMEDIAN = -2                           /* the same over the numbers only */
} cr_kth;
typedef struct cr_kth_args {                        /* element k of each sorted row */
    cr_array y, index;                              /* (M): value, and position as i64 */
    cr_array x;
    int64_t k;                                      /* 0 .. R - 1, or cr_kth */
} cr_kth_args;

typedef struct cr_search_args {                     /* y[m, k]: how many elements of row m of x are less than v[m, k] */
    cr_array y;                                     /* (M, K) i64 */
    cr_array x, v;                                  /* x (M, R), or (R) for all rows: sorted, of v's dtype */
    bool right;                                     /* less or equal */
} cr_search_args;

/* Equal rows of x (R, C) that follow one another are a run; NaN is equal to nothing.  R >= 1. */
typedef struct cr_runs_args {
    cr_array run;                                   /* (R) i64, optional: run[order[i]] is the run of row i */
    cr_array starts;                                /* (R) i64: starts[j] is the first row of run j */
    cr_array count;                                 /* () i64: the number of runs */
    cr_array x;
    cr_array order;                                 /* (R) i64; absent: order[i] = i */
} cr_runs_args;

/* ---- random numbers, from Philox blocks of four 32-bit words
 *
 * Element i uses word i % 4 of block counter + i / 4.  f64 uses words 2 (i % 2) and 2 (i % 2) + 1 of block
 * counter + i / 2, which as one 64-bit word, the first one low, are called W(i). */
typedef enum cr_random_kind {
    CR_RANDOM_UNIFORM,                              /* [0, 1): (word >> 8) 2^-24, for f16 and bf16 rounded towards 0;
                                                       f64: 53 bits 2^-53 */
    CR_RANDOM_NORMAL                                /* Box-Muller on elements 2j, 2j + 1: r = sqrt(-2 log(1 - u0)),
                                                       (r cos(2 pi u1), r sin(2 pi u1)) */
} cr_random_kind;
typedef struct cr_random_args { cr_array y; cr_random_kind kind; uint64_t seed, counter; } cr_random_args;

typedef struct cr_random_integers_args {            /* y[i] = low + cr_below(W(i), span) */
    cr_array y;                                     /* any dtype that holds these numbers */
    int64_t low;
    uint64_t span, seed, counter;
} cr_random_integers_args;

typedef struct cr_permutation_args {                /* y (n) i64: 0 .. n - 1 sorted by W(0) .. W(n - 1); stable */
    cr_array y;
    uint64_t seed, counter;
} cr_permutation_args;

/* Positions drawn by weights, in double (webgpu/sample.c describes its substitute); U(i) = (W(i) >> 11) 2^-53.
 * With replacement: y[m, s] is the first i with w[m, 0] + ... + w[m, i] > U(m S + s) (w[m, 0] + ... + w[m, N - 1]),
 * added in order.
 * Without: the positions of the S smallest -log(1 - U(m N + i)) / w[m, i], in order (Efraimidis and Spirakis 2006).
 * The last bit of log may exchange two of them. */
typedef struct cr_multinomial_args {
    cr_array y;                                     /* (M, S) i64 */
    cr_array w;                                     /* (M, N) f32 or f64: finite, >= 0, enough of them above 0 */
    bool replacement;
    uint64_t seed, counter;
} cr_multinomial_args;

/* ---- rows of x (M, N).  Statistics have the accumulator's dtype: f32, or f64 for f64. */
typedef struct cr_softmax_args { cr_array y, x; bool log; } cr_softmax_args;       /* log: log_softmax */
typedef struct cr_softmax_bwd_args { cr_array dx, y, g; bool log; } cr_softmax_bwd_args;

typedef struct cr_norm_args {                       /* y = (x - mean) rstd w + b */
    cr_array y;
    cr_array mean, rstd;                            /* (M); mean absent: RMS norm */
    cr_array x;
    cr_array w, b;                                  /* (N), optional */
    double eps;
} cr_norm_args;
typedef struct cr_norm_bwd_args {
    cr_array dx, dw, db;                            /* optional */
    cr_array x, w, mean, rstd, g;
    bool add;                                       /* dx += instead of = */
} cr_norm_bwd_args;

typedef struct cr_cross_entropy_args {
    cr_array loss, lse;                             /* (M); loss is 0 in ignored rows */
    cr_array x, target;                             /* rows of x: further apart than N elements where the device has
                                                     * row_bytes (dev.h); target (M) i32 or i64, checked */
    int64_t ignore;                                 /* the target of ignored rows */
    double smoothing;
} cr_cross_entropy_args;
typedef struct cr_cross_entropy_bwd_args {
    cr_array dx, x, target, lse;                    /* dx lies as x does, and may be x */
    cr_array g;                                     /* (M), or one number: the cotangent of each row's loss, of lse's
                                                     * dtype */
    int64_t ignore;
    double smoothing;
} cr_cross_entropy_bwd_args;

/* ---- attention: o = softmax(scale q k^T + mask) v, per batch and head
 *
 * q, o (B, H, T, D), k, v (B, KV, S, D), KV divides H: any strides with D contiguous; o lies as (B, T, H, D) in
 * memory.  Head h of q uses head h / (H / KV) of k and v.
 * lse (B, H, T): the log-sum-exp of each row of scores, f32 (f64 for f64).
 * Query t sees the keys t + first .. t + last that exist; -T <= first, last <= S.
 * A query whose scores are all -Inf, or that sees no key, gives o = 0 and lse = -Inf. */
typedef struct cr_attention_args {
    cr_array o, lse, q, k, v;
    cr_array mask;                                  /* (B, H, T, S), optional: lse's dtype, any strides, 0 where
                                                     * broadcast */
    double scale;
    int64_t first, last;
} cr_attention_args;
typedef struct cr_attention_bwd_args {
    cr_array dq, dk, dv;                            /* any strides with D contiguous */
    cr_array q, k, v, mask, o, lse, g;
    double scale;
    int64_t first, last;
} cr_attention_bwd_args;

/* ---- convolutions (cross-correlations) over three spatial axes; axes that a layer lacks have size 1
 *
 * x (B, C, *in), w (OC, C / groups, *kernel), y (B, OC, *out), one float dtype; f16 and bf16 accumulate in f32.
 * Output channel o of group q = o / (OC / groups) reads the channels c' = q C / groups + c:
 *   y[b, o, p] = sum over c, t of x[b, c', p stride + t dilation - pad] w[o, c, t];  0 where that is outside of x.
 * x, w and y enter one sum of products, and each kind is its derivative in one of them.  So the gradients of a kind
 * are the other two kinds. */
typedef enum cr_conv_kind {
    CR_CONV_FORWARD,                                /* writes y = conv(x, w) [+ bias] */
    CR_CONV_INPUT,                                  /* writes x, from w and y: the transposed convolution of y */
    CR_CONV_WEIGHT                                  /* writes w, from x and y */
} cr_conv_kind;
typedef struct cr_conv_args {
    cr_array y, x, w;                               /* the written one is contiguous; x and y that are read: any
                                                     * strides; w that is read: contiguous */
    cr_array bias;                                  /* (OC), optional, only with FORWARD */
    cr_conv_kind kind;
    int64_t stride[3], pad[3], dilation[3];         /* pad: zeros before the first element; those behind the last one
                                                     * follow from the shapes */
    int64_t groups;
    int how;                                        /* CR_MATMUL_BF16, CR_MATMUL_TF32, or 0 */
} cr_conv_args;

/* ---- windows: floats x (N, *in), y (N, *out) with three spatial axes.  Elements outside of x take no part; each
 * window holds at least one element of x. */
typedef struct cr_max_pool_args {
    cr_array y;                                     /* max of x[n, p stride + t dilation - pad] over t < kernel; NaN
                                                     * wins */
    cr_array index;                                 /* i64, of y's shape: its position in the spatial axes of x,
                                                     * flattened; the first of equals, but the last NaN */
    cr_array x;
    int64_t kernel[3], stride[3], pad[3], dilation[3];
} cr_max_pool_args;
typedef cr_max_pool_args cr_max_pool_values_args;      /* the same without index */

/* A banded matrix times x (M, R, N) along R:  y[m, s, n] = sum over k < K of weights[s, k] x[m, start[s] + k, n].
 * A weight of 0 adds nothing, also where x is not finite.  Resampling and average pooling are such products, one for
 * each axis; the gradient is the product with the transposed band. */
typedef struct cr_band_args {
    cr_array y, x;                                  /* y (M, S, N) contiguous; x: any strides; floats of one dtype,
                                                     * f16 and bf16 accumulate in f32 */
    cr_array start;                                 /* (S) i64: 0 <= start[s] <= R - K */
    cr_array weights;                               /* (S, K), f32, or f64 where x is */
} cr_band_args;

/* ---- batch normalization: statistics of each channel of x (B, C, S), over B and S
 *
 * y = (x - mean) / sqrt(var + eps) w + b, with var the mean of (x - mean)^2.  Statistics, w and b have the
 * accumulator's dtype: f32, or f64 for f64. */
typedef struct cr_channel_norm_args {
    cr_array y;
    cr_array mean, var;                             /* (C), written */
    cr_array x;
    cr_array w, b;                                  /* (C), optional */
    double eps;
} cr_channel_norm_args;
typedef struct cr_channel_norm_bwd_args {
    cr_array dx, dw, db;                            /* optional */
    cr_array x, w, mean, var, g;
    double eps;
} cr_channel_norm_bwd_args;

/* The same with statistics that are given: mean and var are read.  dx = g w / sqrt(var + eps). */
typedef cr_channel_norm_args cr_channel_scale_args;
typedef cr_channel_norm_bwd_args cr_channel_scale_bwd_args;

/* ---- group normalization: statistics of each row of x (R, C, S), over C and S
 *
 * As above, mean and var (R); w and b hold a value for each channel of rows that follow one another, and begin again.
 * dw and db: (R, C). */
typedef cr_channel_norm_args cr_group_norm_args;
typedef cr_channel_norm_bwd_args cr_group_norm_bwd_args;

/* ---- the time steps of a recurrent layer in one direction, with the inputs' part of the gates computed: a step adds
 * h w to the gates and runs the cell's program over them (recurrent.c)
 *
 * T steps over B sequences: step t has the rows at[t] .. at[t + 1] - 1, one for each of the first B_t sequences, and N
 * in all.  G gates, H cells of a gate, P elements of the state. */
typedef struct cr_recurrent_steps {
    cr_cell cell;
    bool reverse;
    int how;                                        /* CR_MATMUL_BF16, CR_MATMUL_TF32, or 0 */
    const cr_program *program;
    int64_t T;
    const int64_t *at;                              /* T + 1 */
} cr_recurrent_steps;

typedef struct cr_recurrent_args {
    cr_recurrent_steps steps;
    cr_array y;                                     /* (N, P); RNN: holds the gates before */
    cr_array h, c;                                  /* (B, P), LSTM: (B, H): the states, in place */
    cr_array gates;                                 /* (N, G H): LSTM: all are added; GRU: of the inputs */
    cr_array before;                                /* LSTM: c before each step (N, H), written; GRU: the bias of the
                                                     * state's part (N, 3 H), to which h w is added */
    cr_array w;                                     /* (G, P, H) */
    cr_array w_hr;                                  /* (P, H), optional: LSTM with projections */
    cr_array hidden, twin;                          /* (B, H): room for its results before w_hr */
} cr_recurrent_args;

typedef struct cr_recurrent_bwd_args {
    cr_recurrent_steps steps;
    const cr_program *sum;                          /* a + b */
    cr_array d;                                     /* (N, G H): of the gates; GRU: n of the inputs */
    cr_array d_state;                               /* GRU: of the state's part */
    cr_array dh, dc;                                /* of the states, in place */
    cr_array d_out, d_hidden;                       /* projections: (N, P), of y; (B, H), room */
    cr_array y, gates, before;                      /* as forward left them; y: RNN, the others: not RNN */
    cr_array states;                                /* GRU: h before each step (N, H) */
    cr_array g;                                     /* (N, P): of y */
    cr_array w, w_hr;                               /* (G H, P); (P, H), optional */
    cr_array zero;                                  /* projections: one 0 */
} cr_recurrent_bwd_args;

/* ---- derived from the list: the type of each kernel's function, cr_<name>_kernel, and the table of a device */
#define CR_KERNEL_TYPE(name, ...) typedef cr_status cr_##name##_kernel(const cr_##name##_args *args);
CR_KERNELS(CR_KERNEL_TYPE)

/* The numbers of the kernels. */
#define CR_KERNEL_NUMBER(name, ...) CR_KERNEL_##name,
enum { CR_KERNELS(CR_KERNEL_NUMBER) CR_KERNEL_COUNT };

typedef struct cr_kernels {
#define CR_KERNEL_MEMBER(name, ...) cr_##name##_kernel *name;
    CR_KERNELS(CR_KERNEL_MEMBER)
    bool (*attention_takes)(const cr_array *q, const cr_array *k);         /* NULL: attention supports all shapes */
    bool chains;                                    /* a result of a program does not depend on what else it computes:
                                                     * plans join programs */
    bool links_apart;                               /* the compiler may contract and reorder: a joined program keeps
                                                     * the instructions of different kernels apart */
    int chain_buffers;                              /* storages of a joined program; 0: any number */
    bool f32_only;                                  /* f64 is stored and moved, but no kernel computes in it */
    /* Has update_by_product the bits of this product, then the update?  NULL: never. */
    bool (*update_keeps_bits)(const cr_matmul_args *args);
    cr_kernel_run unwatched[CR_KERNEL_COUNT];       /* the kernels without the watch, for plans; NULL: absent */
} cr_kernels;

/* Prototypes of one device, CR_KERNELS(CR_KERNEL_OF_CPU), the functions of its table, CR_KERNELS(CR_WATCHED_OF_CPU),
 * which a recording watches, and the table's entries, {CR_KERNELS(CR_ENTRY_OF_CPU)}. */
#define CR_WATCHED(prefix, name)                                                                                     \
    static cr_status run_##name(const void *args) { return prefix##name(args); }                                     \
    static cr_status watched_##name(const cr_##name##_args *args) {                                                  \
        const cr_watch *watch = cr_watching();                                                                       \
        return watch ? watch->kernel(CR_KERNEL_##name, run_##name, args) : prefix##name(args);                       \
    }
#define CR_ENTRY(name) .name = watched_##name, .unwatched[CR_KERNEL_##name] = run_##name,
#define CR_IF_0(...)
#define CR_IF_1(...) __VA_ARGS__
#define CR_KERNEL_OF_CPU(name, cpu, ref, cuda, webgpu)      CR_IF_##cpu(cr_##name##_kernel cr_cpu_##name;)
#define CR_KERNEL_OF_REF(name, cpu, ref, cuda, webgpu)      CR_IF_##ref(cr_##name##_kernel cr_ref_##name;)
#define CR_KERNEL_OF_CUDA(name, cpu, ref, cuda, webgpu)     CR_IF_##cuda(cr_##name##_kernel cr_cuda_##name;)
#define CR_KERNEL_OF_WEBGPU(name, cpu, ref, cuda, webgpu)   CR_IF_##webgpu(cr_##name##_kernel cr_gpu_##name;)
#define CR_WATCHED_OF_CPU(name, cpu, ref, cuda, webgpu)     CR_IF_##cpu(CR_WATCHED(cr_cpu_, name))
#define CR_WATCHED_OF_REF(name, cpu, ref, cuda, webgpu)     CR_IF_##ref(CR_WATCHED(cr_ref_, name))
#define CR_WATCHED_OF_CUDA(name, cpu, ref, cuda, webgpu)    CR_IF_##cuda(CR_WATCHED(cr_cuda_, name))
#define CR_WATCHED_OF_WEBGPU(name, cpu, ref, cuda, webgpu)  CR_IF_##webgpu(CR_WATCHED(cr_gpu_, name))
#define CR_ENTRY_OF_CPU(name, cpu, ref, cuda, webgpu)       CR_IF_##cpu(CR_ENTRY(name))
#define CR_ENTRY_OF_REF(name, cpu, ref, cuda, webgpu)       CR_IF_##ref(CR_ENTRY(name))
#define CR_ENTRY_OF_CUDA(name, cpu, ref, cuda, webgpu)      CR_IF_##cuda(CR_ENTRY(name))
#define CR_ENTRY_OF_WEBGPU(name, cpu, ref, cuda, webgpu)    CR_IF_##webgpu(CR_ENTRY(name))

#endif
