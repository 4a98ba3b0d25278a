/* dev.h - what a device must do.  Kernels see storage, shapes and numbers; they know nothing of gradients.
 *
 * A kernel returns CR_OK or a failure recorded with cr_fail (index out of range, out of memory).  Outputs are already
 * allocated.  Unless a line says otherwise tensors are contiguous and outputs do not overlap inputs. */
#ifndef CR_DEV_H
#define CR_DEV_H

#include "../core/core.h"

/* ---- elementwise programs (dev/program.h has the instruction set) */
enum { CR_MAX_OUTPUTS = 5, CR_MAX_INPUTS = 12 };    /* of one program */

typedef struct cr_arg {                             /* one operand of the walk */
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

/* ---- reductions of x, seen as (M, R, N), over R */
typedef struct cr_slab { int64_t M, R, N, strides[3]; } cr_slab;     /* strides in elements from x's first one on, of any sign */
typedef enum cr_reduce_kind { CR_REDUCE_SUM, CR_REDUCE_PROD, CR_REDUCE_MAX, CR_REDUCE_MIN } cr_reduce_kind;
typedef enum cr_reduce_map {                        /* what is reduced, of each element x; but for the first two floats alone */
    CR_MAP_SAME, CR_MAP_NONZERO,                    /* x, and x != 0 as 0 or 1 */
    CR_MAP_ABS, CR_MAP_SQUARE, CR_MAP_POWER,        /* |x|, x^2, |x|^p */
    CR_MAP_NUMBER,                                  /* x, but 0 for NaN */
    CR_MAP_DEVIATION                                /* (x - mean)^2, the mean over the same R */
} cr_reduce_map;
typedef struct cr_reduce_how { cr_reduce_kind kind; cr_reduce_map map; double p; } cr_reduce_how;

/* ---- scans of x (M, R, N) along R: y[r] from all elements up to r, or from r on */
typedef enum cr_scan_kind { CR_SCAN_SUM, CR_SCAN_PROD, CR_SCAN_LOGSUMEXP, CR_SCAN_MAX, CR_SCAN_MIN } cr_scan_kind;

typedef enum cr_random_kind { CR_RANDOM_UNIFORM, CR_RANDOM_NORMAL } cr_random_kind;

typedef enum cr_kth { CR_KTH_MEDIAN = -1, CR_KTH_NANMEDIAN = -2 } cr_kth;       /* the lower of the two middle ones; MEDIAN: the first NaN where there is one; NANMEDIAN: of the numbers alone */

typedef enum cr_matmul_how {
    CR_MATMUL_ADD = 1,                              /* c is added to */
    CR_MATMUL_BF16 = 2,                             /* f32: a and b are rounded to bf16 first (to nearest, ties to even; denormals may become 0); no meaning for other dtypes */
    CR_MATMUL_TF32 = 4,                             /* f32: of a and b a device may take 10 bits of the fraction, where that is quicker; no meaning for other dtypes */
    CR_MATMUL_GELU = 8, CR_MATMUL_SUMS = 16, CR_MATMUL_DGELU = 32         /* of matmul_beside alone */
} cr_matmul_how;

typedef struct cr_kernels {
    /* -- every device */
    cr_storage *(*allocate)(const cr_device *d, size_t bytes);      /* 64-byte aligned, uninitialised; NULL and a message */
    cr_storage *(*allocate_host)(const cr_device *d, size_t bytes); /* the same in the host's memory, where kernels of this device reach it, slowly; NULL: they do not */
    cr_status (*upload)(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
    cr_status (*download)(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
    cr_status (*synchronize)(const cr_device *d);
    cr_status (*copy)(cr_tensor *dst, const cr_tensor *src);        /* same shape, any strides (src 0 where broadcast), casts */
    cr_status (*fill)(cr_tensor *dst, const void *value);           /* value: one element of dst's dtype; any strides */
    cr_status (*elementwise)(const cr_walk *walks, int64_t count);  /* count independent walks */
    cr_status (*reduce)(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
                                                    /* x (M, R, N) -> y (M, N); SUM, PROD: y's dtype is the accumulator's (f16, bf16: f32 inside); NaN wins in MAX, MIN;
                                                       R 0: the identity, for MAX, MIN that of 0 and 1: they come so with NONZERO alone */
    cr_status (*arg_reduce)(bool max, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
                                                    /* y i64: position of the first largest (NaN is larger) or smallest (NaN is smaller) */
    cr_status (*scan)(cr_scan_kind kind, bool reverse, cr_tensor *y, cr_tensor *index, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N);
                                                    /* floats in double (or as near to that as webgpu/scan.c says), rounded once for each element; SUM, PROD of integers: y i64.  SUM with a, of x's dtype and shape (else NULL): y[r] = x[r] + a[r] y[r - 1],
                                                       reverse: the transpose, y[r] = x[r] + a[r + 1] y[r + 1].  MAX, MIN, never reverse: the extreme so far, and in index, i64 (else NULL), where the last of equals lay; NaN is more extreme */
    cr_status (*matmul)(cr_tensor *c, const cr_tensor *a, const cr_tensor *b, const cr_tensor *bias, int how);      /* how: cr_matmul_how, or 0 */
                                                    /* c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)]: equal ndim 2..8, any strides on a, b (0 where broadcast), c's rows contiguous in N;
                                                       one dtype for all, f16 and bf16 accumulate in f32; bias may be NULL */
    cr_status (*gather)(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K);
                                                    /* y[m, k, n] = x[m, index[m, k, n], n]: x (M, R, N), index and y (M, K, N); index i32 or i64, negative refused: a message with position and bound */
    cr_status (*sort)(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending);
                                                    /* the first K of each row of x (M, R) in order, 1 <= K <= R, and where they lay, i64: (M, K) both.  Equal elements keep their order; NaN is the largest */
    cr_status (*kth)(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k);
                                                    /* element k, or cr_kth, of each row as sort orders it, and where it lay: (M) both */
    cr_status (*search)(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right);
                                                    /* y i64 (M, K): how many of row m of x (M, R), or of the only row where shared, are less than v[m, k]; right: or equal.  x is in order, one dtype */
    cr_status (*runs)(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C);
                                                    /* equal rows of x (R, C), R >= 1, one after another are a run: run[order[i]], or run[i] where order is NULL, is row i's (run NULL: not wanted), starts[j] is where
                                                       run j begins, count[0] how many there are; i64 (R), (R), (), (R).  NaN is equal to nothing */
    cr_status (*scatter)(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool sum, int64_t M, int64_t R, int64_t N, int64_t K);
                                                    /* y[m, index[m, k, n], n] = src[m, k, n], or += it, in order of k */
    cr_status (*take_rows)(const char *op, cr_tensor *y, const cr_tensor *x, const cr_tensor *index, bool wrap);
                                                    /* y[m, k, n] = x[m, index[k], n]: x (M, R, N) of any strides, index (K), y (M, K, N); wrap: -R .. -1 mean R more and are fine; op: for messages */
    cr_status (*put_rows)(const char *op, cr_tensor *x, const cr_tensor *index, const cr_tensor *src, bool sum, bool wrap);
                                                    /* x[m, index[k], n] = src[m, k, n], or += it, in order of k: x and src of any strides (src 0 where broadcast) */
    cr_status (*ravel)(const char *op, cr_tensor *y, int n, const cr_tensor *const *index, const int64_t *sizes);
                                                    /* y = ((index[0] sizes[1]) + index[1]) sizes[2] + ...: all i64 of one shape, indices checked as by take_rows with wrap */
    cr_status (*nonzero)(cr_tensor *y, const cr_tensor *x, int64_t *count);
                                                    /* where x, bool of any shape, is true, in order: y (count, ndim) i64 of any strides; y NULL: only counts */
    cr_status (*random)(cr_random_kind kind, cr_tensor *y, uint64_t seed, uint64_t counter);
                                                    /* Philox block counter + i / 4, word i % 4, for element i (f64: block counter + i / 2, words 2(i % 2), +1).
                                                       UNIFORM in [0, 1): f32 (and f16, bf16, from f32 rounded towards 0) = (word >> 8) 2^-24, f64 = 53 bits 2^-53.
                                                       NORMAL: Box-Muller on the pair 2j, 2j + 1: r = sqrt(-2 log(1 - u0)), (r cos(2 pi u1), r sin(2 pi u1)). */
    cr_status (*random_integers)(cr_tensor *y, int64_t low, uint64_t span, uint64_t seed, uint64_t counter);
                                                    /* y[i] = low + cr_below(W(i), span), in any dtype that holds them.  W(i), the i-th word of 64 bits: of block counter + i / 2, words
                                                       2(i % 2) and, high, 2(i % 2) + 1 */
    cr_status (*permutation)(cr_tensor *y, uint64_t seed, uint64_t counter);
                                                    /* y i64 (n): the positions 0 .. n - 1 in the order of W(0) .. W(n - 1); of equals the first comes first */
    cr_status (*multinomial)(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter);
                                                    /* y i64 (M, S): positions drawn by the weights w (M, N), f32 or f64, finite, >= 0 and enough of them above 0.  In double (or webgpu/sample.c), U(i) = (W(i) >> 11) 2^-53:
                                                       with replacement y[m, s] = the first i with w[m, 0] + ... + w[m, i] > U(m S + s) (w[m, 0] + ... + w[m, N - 1]), added in order; without,
                                                       the S smallest of -log(1 - U(m N + i)) / w[m, i] in their order (Efraimidis and Spirakis 2006), which the last bit of log may swap */

    /* -- where a device has them; NULL: the op's composite runs */
    cr_status (*softmax)(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, bool log);        /* rows of N */
    cr_status (*softmax_bwd)(cr_tensor *dx, const cr_tensor *y, const cr_tensor *g, int64_t M, int64_t N, bool log);
    cr_status (*norm)(cr_tensor *y, cr_tensor *mean, cr_tensor *rstd, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                      int64_t M, int64_t N, double eps);            /* layer norm; mean NULL: RMS norm; w, b may be NULL; mean, rstd (M) f32 (f64 for f64) */
    cr_status (*norm_bwd)(cr_tensor *dx, cr_tensor *dw, cr_tensor *db, const cr_tensor *x, const cr_tensor *w, const cr_tensor *mean,
                          const cr_tensor *rstd, const cr_tensor *g, int64_t M, int64_t N);        /* any of dx, dw, db may be NULL */
    cr_status (*cross_entropy)(cr_tensor *loss, cr_tensor *lse, const cr_tensor *x, const cr_tensor *target, int64_t M, int64_t N,
                               int64_t ignore, double smoothing);   /* loss, lse (M) f32 (f64 for f64); ignored rows: loss 0; target i32 or i64, checked */
    cr_status (*cross_entropy_bwd)(cr_tensor *dx, const cr_tensor *x, const cr_tensor *target, const cr_tensor *lse, const cr_tensor *g,
                                   int64_t M, int64_t N, int64_t ignore, double smoothing);        /* g (M), or one number: the cotangent of each row's loss, lse's dtype */
    cr_status (*sum_squares)(cr_tensor *y, int64_t n, const cr_tensor *const *x);      /* y () f64: of all elements of n contiguous float tensors */
    cr_status (*attention)(cr_tensor *o, cr_tensor *lse, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask,
                           double scale, bool causal);  /* q, o (B, H, T, D), k, v (B, H, S, D): any strides with D contiguous (o: (B, T, H, D) in memory); lse (B, H, T) f32 (f64 for f64);
                                                       mask (B, H, T, S): NULL, or added to the scores, lse's dtype, any strides (0 where broadcast); a query that sees nothing but -Inf: o 0, lse -Inf */
    cr_status (*attention_bwd)(cr_tensor *dq, cr_tensor *dk, cr_tensor *dv, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                               const cr_tensor *mask, const cr_tensor *o, const cr_tensor *lse, const cr_tensor *g, double scale, bool causal);
                                                    /* dq, dk, dv: any strides with D contiguous */
    bool (*attention_takes)(const cr_tensor *q, const cr_tensor *k);        /* are these two for such shapes?  NULL: for all */
    cr_status (*scatter_extreme)(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool least, int64_t M, int64_t R, int64_t N, int64_t K);
                                                    /* y[m, index[m, k, n], n] = the larger, or the smaller, of it and src[m, k, n]; NaN wins */
    cr_status (*nextafter)(cr_tensor *y, const cr_tensor *a, const cr_tensor *b, int64_t infinity);        /* bits of floats as contiguous signed integers, one shape; infinity: its bits */
    cr_status (*triangle)(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, int64_t diagonal, bool upper);
                                                    /* (..., M, N): y = x where column - row <= diagonal (upper: >=), else 0; y may be x */
    cr_status (*update_by_product)(const cr_walk *update, int input, const cr_tensor *a, const cr_tensor *b, int how);
                                                    /* the walk with a b, (M, K) (K, N), for this input, of which it knows the dtype alone: one axis of M N contiguous elements for all else */
    cr_status (*matmul_beside)(cr_tensor *c, cr_tensor *beside, const cr_tensor *a, const cr_tensor *b, const cr_tensor *with, int how, bool *done);
                                                    /* matmul of two axes each with one thing more on the way.  GELU: c = gelu_tanh(h) of h = a b [+ with (N)], and beside (M, N) is h; NULL: not wanted.
                                                       DGELU: c = gelu_tanh'(h) a b, h = with (M, N), and beside (N) is the sum of c's rows; NULL: not wanted.
                                                       SUMS: c = a b, and beside (M) is the sum of each row of a.  *done false: not for operands such as these, nothing was written */
    bool f32_only;                                  /* f64 is stored and moved, but nothing computes in it */
} cr_kernels;

struct cr_device {
    const char *name;                               /* "cpu", "ref", "cuda:0" */
    const char *type; int index;
    const cr_kernels *kernels;
    const char *(*info)(const cr_device *d);
    cr_memory (*memory)(const cr_device *d);
    void (*empty_cache)(const cr_device *d);
    bool host;                                      /* storage->data is an address that this process can read */
    bool software;                                  /* a GPU that the processor plays: "auto" passes it by */
};

/* dst = src as one walk of the program y = x, axes that both step over as over one merged; src NULL: dst = value, one element of dst's dtype (move.c) */
cr_walk cr_walk_of_copy(cr_tensor *dst, const cr_tensor *src, const void *value);
cr_dtype cr_moved_as(cr_dtype dt);                   /* the unsigned integer of that size: what is only moved keeps all its bits */

/* ---- registry.c */
extern const cr_device cr_device_cpu, cr_device_ref;
int64_t cr_gpu_budget(const char *op, int64_t otherwise);      /* bytes that a GPU may reserve: CHAINRULE_GPU_MEMORY's; 0: that is no number of MiB */
const cr_device *cr_cuda_at(int i);                 /* the i-th NVIDIA GPU, NULL past the end (cuda/gpu.c, where that folder is there) */
const char      *cr_cuda_problem(void);             /* why there is none */
const cr_device *cr_webgpu_at(int i);               /* the i-th GPU behind WebGPU, NULL past the end (webgpu/gpu.c, where the library is built with it) */
const char      *cr_webgpu_problem(void);           /* why there is none */

#endif
