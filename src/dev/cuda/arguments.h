/* arguments.h - the argument of each kernel in the *.cu files, declared once: the C files include this
 * header, and the text of every kernel has it after device.cuh.
 *
 * A kernel takes one struct.  Every member has 8 bytes (an address, i64, u64 or f64), so both
 * compilers lay it out alike.  ARGUMENTS lists the types that a kernel is compiled for: template
 * parameters of the kernels, ignored in C, where each POINTER is an address.  Strides are in elements;
 * flags are 0 or 1; an absent optional pointer is NULL. */
#ifndef CR_CUDA_ARGUMENTS_H
#define CR_CUDA_ARGUMENTS_H

#ifdef __cplusplus
template <class T> using pointer = T *;
#define ARGUMENTS(name, ...) template <__VA_ARGS__> struct name
#define OF(name, ...) name<__VA_ARGS__>             /* the struct `name` for these types */
#define POINTER(type) pointer<type>
#else
#include <stdint.h>
typedef int64_t i64;
typedef uint64_t u64;
typedef double f64;
#define ARGUMENTS(name, ...) typedef struct name name; struct name
#define OF(name, ...) name
#define POINTER(type) uint64_t
#endif

/* ---- rows.cu: x (M, N); `width` threads share a row */
ARGUMENTS(softmax_arguments, class T) {
    POINTER(T) y;
    POINTER(const T) x;
    i64 M, N, width, log;                           /* log: the logarithm of softmax */
};
ARGUMENTS(softmax_bwd_arguments, class T) {
    POINTER(T) dx;
    POINTER(const T) y, g;
    i64 M, N, width, log;
};
ARGUMENTS(norm_arguments, class T, class A) {
    POINTER(T) y;
    POINTER(A) mean, rstd;                          /* (M); mean: NULL for the RMS norm */
    POINTER(const T) x, w, b;                       /* w, b (N): optional */
    i64 M, N, width;
    f64 eps;
};
ARGUMENTS(norm_bwd_arguments, class T, class A) {
    POINTER(T) dx;                                  /* optional, and so are dw and db */
    POINTER(A) dw, db;                              /* (parts of the rows, N): sums of each part */
    POINTER(const T) x, w;
    POINTER(const A) mean, rstd;
    POINTER(const T) g;
    i64 M, N, width;
    i64 rows, chunks;                               /* rows of a part; chunks of columns, each with its own block */
    i64 add;                                        /* dx += instead of = */
};
ARGUMENTS(cross_entropy_arguments, class T, class A) {
    POINTER(A) loss, lse;                           /* (M) */
    POINTER(const T) x;
    POINTER(const void) target;                     /* (M): i64 where wide_target, else i32 */
    POINTER(fault) f;
    i64 M, N, pitch, width, wide_target, ignore;    /* pitch: from row to row of x */
    f64 smoothing;
};
ARGUMENTS(cross_entropy_bwd_arguments, class T, class A) {
    POINTER(T) dx;
    POINTER(const T) x;
    POINTER(const void) target;
    POINTER(const A) lse, g;
    i64 M, N, pitch, width, wide_target, ignore, g_step;       /* pitch: of x and dx; g_step: 0 where all rows share
                                                                * one cotangent */
    f64 smoothing;
};

/* ---- reduce.cu, argreduce.cu: x (M, R, N) -> y (M, parts, N); `width` threads share a result */
ARGUMENTS(reduce_arguments, class T, class A, class TO) {
    POINTER(TO) y;
    POINTER(const T) x;
    POINTER(const A) sums;                          /* (M, N): for MAP 6 (deviations from the mean) only */
    i64 R, N, stride_m, stride_r, stride_n;
    i64 parts, part_size, results, width, along;    /* results: M parts N; along: the threads are neighbours along R,
                                                     * not along N */
    f64 p;
};
ARGUMENTS(arg_reduce_arguments, class T) {
    POINTER(i64) y;
    POINTER(const T) x;
    POINTER(const i64) before;                      /* (M, candidates, N): positions of the candidates along R; NULL:
                                                     * all of R */
    i64 N, candidates, stride_m, stride_r, stride_n;
    i64 parts, part_size, results, width, along;
};

/* ---- squares.cu: tensors, cut into pieces */
enum { SQUARES_PIECE = 16384, SQUARES_TENSORS = 199 };      /* elements of a piece; tensors of a launch */
ARGUMENTS(squares_arguments, class T) {
    POINTER(f64) sums;                              /* one of each piece */
    i64 first;                                      /* the number of the first piece */
    struct { POINTER(const T) x; i64 numel; } tensor[SQUARES_TENSORS];
};

/* ---- matmul.cu: c (batch, M, N) = [c +] a (batch, M, K) b (batch, K, N) [+ bias (N)] */
enum { MATMUL_EDGE = 64, MATMUL_BATCH_AXES = 6 };           /* a block has EDGE x EDGE results */
ARGUMENTS(matmul_arguments, class T, class TO) {
    POINTER(TO) c;
    POINTER(const T) a, b;
    POINTER(const TO) bias;
    i64 M, N, K, across, tiles;                     /* tiles of a row of tiles, and of a matrix */
    i64 a_m, a_k, b_k, b_n, c_m, bias_n;            /* strides */
    i64 add, a_along_k, b_along_k;                  /* add: to c; along_k: the smaller stride is the one along K */
    i64 axes;                                       /* of the batch */
    struct { i64 size, a, b, c; } batch[MATMUL_BATCH_AXES];         /* size and strides of each axis */
};
ARGUMENTS(round_arguments, class TO) {
    POINTER(TO) y;                                  /* (matrices, columns, packs of 8 elements) */
    POINTER(const float) x;
    i64 packs, rows, columns, stride, batch_stride;
};
ARGUMENTS(bias_arguments, class T) {
    POINTER(T) c;                                   /* (matrices, M, N); a thread has V neighbours of a row, 16 bytes */
    POINTER(const T) bias;                          /* (N), of stride bias_n */
    i64 packs, M, N, c_batch, c_m, bias_n, add;     /* add: c += bias, else c = bias */
};

/* ---- quantized.cu: w (N, K), a scale for each G neighbours of a row */
enum { QUANTIZED_ROWS = 8 };                        /* of x, for which a row of w is read once */
ARGUMENTS(dequantize_arguments, class T) {
    POINTER(T) y;                                   /* (N, K) */
    POINTER(const u8) codes;
    POINTER(const f16) scales;
    i64 numel, K, G, codes_n, scales_n;             /* _n: from row to row */
};
ARGUMENTS(linear_quantized_arguments, class T) {
    POINTER(T) y;                                   /* (M, N) */
    POINTER(const T) x;                             /* (M, K) */
    POINTER(const u8) codes;
    POINTER(const f16) scales;
    POINTER(const T) bias;                          /* (N): optional */
    i64 M, N, K, G, codes_n, scales_n;
};

/* ---- conv.cu: y (M, N) = a (M, K) b (K, N) for each group.  One of n and k counts positions of a
 * batch of images, the other taps of all channels: element (k, n) of b lies where position and tap
 * meet in an image, 0 outside of it. */
typedef struct conv_walk {                          /* i counts (outer, size[0], size[1], size[2]) in row-major order */
    i64 outer, size[3];
    i64 first[3], step[3];                          /* coordinate in the image: first + step i, of n and k added */
    i64 b_outer, out_outer, out[3];                 /* strides: of b along outer; of a or y */
} conv_walk;
ARGUMENTS(conv_arguments, class T, class TO) {
    POINTER(TO) y;
    POINTER(const T) a, b, bias;                    /* bias (groups M): optional */
    conv_walk n, k;
    i64 M, groups, parts, part;                     /* part: elements of K of a part, each with a y of its own */
    i64 down, tiles, phases;                        /* tiles of a column of tiles, and of a product; of KIND 1 */
    i64 a_m, y_m, a_group, b_group, y_group, y_part;           /* strides */
    i64 b_axis[3], size[3];                         /* of the images: strides and sizes */
    i64 stride[3], cycle[3];                        /* KIND 1: of the convolution; taps that meet the same positions are
                                                     * `cycle` apart */
    i64 width;                                      /* threads that share a row of positions (conv_sums) */
};
ARGUMENTS(conv_join_arguments, class T, class A) {
    POINTER(T) y;
    POINTER(const A) x;                             /* (parts, numel) */
    POINTER(const T) bias;
    i64 numel, parts, channels, inner;              /* y (..., channels, inner) */
};

/* ---- pool.cu */
ARGUMENTS(max_pool_arguments, class T) {
    POINTER(T) y;
    POINTER(i64) index;
    POINTER(const T) x;
    i64 numel, in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
};
ARGUMENTS(band_arguments, class T, class A) {       /* y (M, S, N) */
    POINTER(T) y;
    POINTER(const T) x;
    POINTER(const i64) start;
    POINTER(const A) weights;                       /* (S, K) */
    i64 numel, S, N, K, x_m, x_r, x_n, width;       /* strides of x; width: threads that share a result */
};

/* ---- channels.cu: x (B, C, S); a part has `rows` of B, and of S `length` elements, of one channel */
ARGUMENTS(channel_sums_arguments, class T, class A) {
    POINTER(A) sums;                                /* (parts, C, 2): the sum and the squares of deviations from the
                                                     * part's mean; or the sums of g and of g h */
    POINTER(const T) x, g;
    POINTER(const A) mean, var;                     /* (C): with g */
    i64 B, C, S, rows, length, across, width;       /* across: parts along S */
    f64 eps;
};
ARGUMENTS(channel_join_arguments, class A) {
    POINTER(const A) sums;
    POINTER(A) y0, y1;                              /* (C): mean and variance, or db and dw; optional */
    POINTER(A) all;                                 /* (C, 2): optional */
    i64 B, C, S, rows, length, across, parts;
};
ARGUMENTS(channel_norm_arguments, class T, class A) {
    POINTER(T) y;                                   /* or dx */
    POINTER(const T) x, g;                          /* g: of dx only */
    POINTER(const A) mean, var, w, b, sums;         /* (C); sums (C, 2): of g and of g h */
    i64 numel, C, S;
    f64 eps, count;                                 /* count: B S */
};

/* ---- attention.cu: q, o, g, dq (B, H, queries, D), k, v, dk, dv (B, H / shared, keys, D), D contiguous */
ARGUMENTS(attention_heads, class T) { POINTER(T) at; i64 batch, head, row; };
ARGUMENTS(attention_arguments, class T, class A) {
    OF(attention_heads, T) q, k, v, o, g, dq, dk, dv;           /* g: the cotangent of o */
    POINTER(const A) mask;
    i64 mask_batch, mask_head, mask_query, mask_key;
    POINTER(A) lse, delta;                          /* (B, H, queries); delta: the sums of g o over D */
    i64 H, shared, queries, keys, head_size;        /* shared: heads of q that share one of k and v */
    i64 first, last;                                /* query t attends to the keys t + first .. t + last */
    f64 scale;
    i64 tiles, parts;                               /* blocks of a head: tiles of rows, and parts of the columns of D */
};

/* ---- hopper.cu: the tensors as the TMA reads them, in panels of 64 columns; zeros outside */
#ifdef __cplusplus
struct tensor_map { alignas(64) u64 words[16]; };
#else
typedef struct tensor_map { _Alignas(64) u64 words[16]; } tensor_map;
#endif
ARGUMENTS(hopper_arguments, class T, class A) {
    tensor_map q, k, v, g;
    OF(attention_arguments, T, A) of;
    POINTER(A) sums;                                /* of dq: (B, H, tiles of queries, 2 warpgroups, 32, 128 threads) */
    POINTER(unsigned) turns;                        /* the next block; for each part of sums, whose turn it is */
};

/* ---- index.cu */
ARGUMENTS(index_arguments, class T, class INDEX) {
    POINTER(T) to;
    POINTER(const T) from;
    POINTER(const INDEX) index;
    POINTER(fault) f;
    i64 M, K, N, bound, wrap, buckets;              /* sizes of the index; wrap: -bound .. -1 count from the end */
    /* strides; index is contiguous, so they give a position */
    i64 index_m, index_k, index_n, to_m, to_k, to_n, from_m, from_k, from_n;
};
ARGUMENTS(runs_arguments, class T, class INDEX, class KEY, class A) {
    OF(index_arguments, T, INDEX) p;                /* K: of all that is sorted; to_k: the stride from one key to the
                                                     * next */
    POINTER(KEY) keys;
    POINTER(const i64) order;                       /* positions along K, in the order of the keys */
    POINTER(A) parts;                               /* (chunks, M, N) */
    i64 chunk, chunks;
};
ARGUMENTS(ravel_arguments, class INDEX) {
    POINTER(i64) to;
    POINTER(const INDEX) index;
    POINTER(fault) f;
    i64 numel, bound, first;                        /* first: there is no index before this one */
};

/* ---- nonzero.cu: x, bool, cut into pieces */
typedef struct count_arguments {
    POINTER(unsigned) counts;
    POINTER(const struct b8) x;
    i64 numel, pieces;
} count_arguments;
typedef struct write_arguments {
    POINTER(i64) y;                                 /* (room, ndim) */
    POINTER(const struct b8) x;
    POINTER(const i64) ends;                        /* of each piece: how many elements are true up to its end */
    i64 numel, pieces, room, step, column, ndim;    /* step, column: strides of y */
    i64 shape[8];
} write_arguments;

/* ---- random.cu: element i of y from seed and counter; integers: low + [0, span), span 0: 2^64 */
ARGUMENTS(random_arguments, class T) {
    POINTER(T) y;
    i64 numel;
    u64 seed, counter;
    i64 low;
    u64 span;
};

/* ---- sample.cu */
typedef struct draw_arguments {
    POINTER(i64) y;                                 /* (M, S) */
    POINTER(const f64) sums;                        /* (M, N): running sums of the weights */
    POINTER(const u64) words;                       /* (M, S): random */
    i64 draws, N, S;
} draw_arguments;
ARGUMENTS(wait_arguments, class T) {
    POINTER(f64) times;
    POINTER(const T) w;
    POINTER(const u64) words;
    i64 numel;
};

/* ---- scan.cu: x (M, R, N) along R; `width` threads share a line */
ARGUMENTS(scan_arguments, class T, class TO, class STATE) {
    POINTER(TO) y;
    POINTER(i64) index;                             /* positions of the extremes: optional */
    POINTER(const T) x, a;                          /* a: weights; NULL: 1 */
    POINTER(STATE) states;                          /* (M, chunks, N), where lines are cut into chunks */
    i64 R, N, lines, chunk, chunks, width, along, reverse;             /* chunk: elements of a chunk */
};

/* ---- order.cu: rows of x (M, R) */
ARGUMENTS(rank_arguments, class T) {
    POINTER(T) y;                                   /* (M, K): optional */
    POINTER(i64) index;
    POINTER(const T) x;
    i64 M, R, K;
    u64 flip;                                       /* all ones: the largest first */
};
ARGUMENTS(sort_arguments, class T, class PLACE) {
    POINTER(T) y;
    POINTER(PLACE) places;                          /* positions for the next kernel, or */
    POINTER(i64) index;                             /* positions as the final result */
    POINTER(const T) x;
    POINTER(const PLACE) from;                      /* positions of the elements of x; NULL: x has its original order */
    POINTER(unsigned) counts;                       /* (M, tiles, 256): how often each digit occurs */
    POINTER(const i64) ends;                        /* running sums of the counts along the tiles */
    i64 R, K, next, tiles, shift;                   /* R, next: elements of a row of x, of y; K: elements wanted of a
                                                     * row, or of each tile of it */
    u64 flip;
};
ARGUMENTS(pick_arguments, class T) {
    POINTER(T) y;
    POINTER(i64) index;
    POINTER(const T) sorted;                        /* (M, K) */
    POINTER(const i64) places;
    i64 M, R, K, k;                                 /* k: -1: the median, or the first NaN; -2: the median of the
                                                     * numbers */
};
/* the digits found so far; how many elements with these digits precede the wanted one */
typedef struct select_state { u64 key, before; } select_state;
ARGUMENTS(select_arguments, class T, class PLACE) {
    POINTER(T) y;
    POINTER(i64) index;
    POINTER(const T) x;
    POINTER(u64) counts;                            /* (M, 257): of each digit, and of NaN; later (M, tiles): smaller
                                                     * keys << 32 | equal keys */
    POINTER(select_state) found;                    /* (M) */
    i64 R, tiles, shift, k;                         /* shift: of the digit, the highest digit first; k as in
                                                     * pick_arguments */
    POINTER(PLACE) places;                          /* y and places (M, k + 1): the elements up to the wanted one */
    POINTER(const u64) ends;                        /* running sums of counts along the tiles */
    u64 flip;
};
ARGUMENTS(search_arguments, class T) {
    POINTER(i64) y;                                 /* (M, K) */
    POINTER(const T) x, v;
    i64 results, R, K, step, right;                 /* step: from one row of x to the next; 0: x has one row */
};
ARGUMENTS(begins_arguments, class T) {
    POINTER(unsigned char) y;
    POINTER(const T) x;                             /* (R, C) */
    i64 R, C, width;                                /* width: threads that share a row */
};
typedef struct number_arguments {
    POINTER(i64) run, starts, count;                /* run: optional */
    POINTER(const i64) begun, order;                /* begun: how many runs have begun up to each row; order:
                                                     * optional */
    i64 R;
} number_arguments;

#endif
