/* isa.h - the tables of kernels that are compiled once per instruction set.  A file x_isa.c defines its table as
 * CR_ISA_NAME(cr_x): cr_x_v2, cr_x_v3, cr_x_v4, or cr_x_v0 on processors other than x86-64.  cpu.c
 * chooses among them. */
#ifndef CR_ISA_H
#define CR_ISA_H

#include "blocks.h"
#include "isa_name.h"
#include "../program.h"

#include <string.h>

/* One instruction over a block, results first.  f32: whole vectors, so n is a multiple of `lanes`; y
 * may be an operand. */
typedef void (*cr_block_f32)(float *y, const float *a, const float *b, const float *c, int64_t n);
typedef void (*cr_block_f64)(double *y, const double *a, const double *b, const double *c, int64_t n);
/* elements; bool: bytes that are 0 or 1 */
typedef void (*cr_block_int)(void *y, const void *a, const void *b, const void *c, int64_t n);
struct cr_blocks {                                  /* elementwise_isa.c */
    int lanes;
    cr_block_f32 f32[CR_OP_COUNT];                  /* NULL: no instruction of floats */
    cr_block_f64 f64[CR_OP_COUNT];
    /* whole programs, by cr_program.fused; every input is read before a result is written over it */
    const cr_loop *fused;
    int n_fused;
};
CR_ISA_TABLE(cr_blocks);

struct cr_integers {                                /* integers_isa.c */
    const cr_block_int *of[CR_DTYPES];              /* by dtype, then by opcode; NULL: no instruction of integers */
    /* nextafter on the bits of floats, as signed integers */
    void (*next[CR_DTYPES])(void *y, const void *a, const void *b, int64_t infinity, int64_t n);
};
CR_ISA_TABLE(cr_integers);

struct cr_conversions {                             /* conversions_isa.c: cr_block_load and cr_block_store */
    void (*load)(cr_lane lane, void *block, cr_dtype dt, const void *src, int64_t stride, int64_t n);
    void (*store)(cr_lane lane, const void *block, cr_dtype dt, void *dst, int64_t stride, int64_t n);
};
CR_ISA_TABLE(cr_conversions);

struct cr_casts {                                   /* casts_isa.c: contiguous elements */
    /* to[i to_step + j] = from[i + j from_step], i and j < tile, 4 bytes each; stream: writes past the caches */
    int tile;
    void (*transpose)(uint32_t *to, const uint32_t *from, int64_t to_step, int64_t from_step, bool stream);
    void (*stream_end)(void);                       /* after the last call with `stream` on this thread */
    void (*f16_to_f32)(float *y, const uint16_t *x, int64_t n);
    void (*bf16_to_f32)(float *y, const uint16_t *x, int64_t n);
    void (*f32_to_f16)(uint16_t *y, const float *x, int64_t n);                 /* to nearest, ties to even */
    void (*f32_to_bf16)(uint16_t *y, const float *x, int64_t n);
    void (*round_to_bf16)(float *y, const float *x, int64_t n);                 /* to bf16 and back; y may be x */
    /* to integers; NULL: no such function */
    void (*f32_to[CR_DTYPES])(void *y, const float *x, int64_t n);
    void (*repeat)(void *to, uint64_t pattern, int64_t bytes);                  /* repeats the 8 bytes of pattern */
    /* to[i] = from[-i], i < n; size 1, 2, 4 or 8 */
    void (*reverse)(void *to, const void *from, int64_t n, int64_t size);
};
CR_ISA_TABLE(cr_casts);
static inline uint64_t cr_pattern(const void *value, size_t size) {     /* an element of 1, 2, 4 or 8 bytes, repeated */
    uint64_t pattern = 0;
    memcpy(&pattern, value, size);
    for (; size < sizeof pattern; size *= 2) pattern |= pattern << 8 * size;
    return pattern;
}

/* reduce_isa.c.  Pointers to void point to lanes.  CR_RUN_SQUARES: sums of squares of floats. */
enum { CR_RUN_SQUARES = CR_REDUCE_MIN + 1 };
struct cr_reducer {
    /* *y = the reduction of n numbers; n 0: the identity */
    void (*run)(void *y, const void *x, int64_t n);
    /* acc[i] = acc[i] op x[r * stride + i] for all rows r, by fours; of squares: sums */
    void (*columns)(void *acc, const void *x, int64_t rows, int64_t stride, int64_t n);
};
struct cr_reducers {
    int64_t piece;                                  /* numbers of one `run`: each lane adds at most 64, so
                                                     * that the error of a sum is below 1e-6 */
    struct cr_reducer of[3][5];                     /* by cr_lane, then by cr_reduce_kind or CR_RUN_SQUARES */
    /* ABS, SQUARE, NUMBER; y may be x; by lane, f32 or f64 */
    void (*map[2])(cr_reduce_map map, void *y, const void *x, int64_t n);
    /* d = x - mean: y[0], y[1] = the sums of d^2, of d; of columns, each with its own mean: added to what is there */
    void (*deviations[2])(void *y, const void *x, const void *mean, int64_t n);
    void (*deviation_columns[2])(void *squares, void *sums, const void *x, const void *mean, int64_t rows,
                                 int64_t stride, int64_t n);
    /* how many of n elements are not 0 */
    int64_t (*nonzero)(const void *x, int64_t n, size_t bytes, bool is_float);
    /* y[i] = is any x[r * stride + i] not 0?  all: are all? */
    void (*test_columns)(int64_t *y, const void *x, int64_t rows, int64_t stride, int64_t n, size_t bytes,
                         bool is_float, bool all);
    /* the first position of *v, where NaN equals NaN, or n; by lane */
    int64_t (*find[3])(const void *x, int64_t n, const void *v);
    /* compares rows first .. first + rows - 1 with the best so far, at index; by lane */
    void (*arg_columns[3])(bool max, void *best, int64_t *index, const void *x, int64_t first, int64_t rows,
                           int64_t stride, int64_t n);
};
CR_ISA_TABLE(cr_reducers);

struct cr_randoms {                                 /* random_isa.c */
    /* 4 words of each block, in order */
    void (*philox)(uint64_t seed, uint64_t first, uint32_t *words, int64_t blocks);
    void (*uniforms)(float *y, const uint32_t *words, int64_t n);                      /* [0, 1) */
    void (*normals)(double *y, const uint32_t *words, int64_t n);                      /* n even */
};
CR_ISA_TABLE(cr_randoms);
static inline uint64_t cr_word64(const uint32_t *words, int64_t i) {
    return words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
}
static inline double cr_uniform64(const uint32_t *words, int64_t i) {
    return (double)(cr_word64(words, i) >> 11) * 0x1p-53;
}

/* rows_isa.c in f32, rows_f64.c in f64: one row of n lanes; absent operands are NULL. */
typedef struct cr_logits_sums { double max, sum_exp, sum; } cr_logits_sums;                /* sum_exp of exp(x - max) */
struct cr_rows {
    void (*softmax)(void *y, const void *x, int64_t n, bool log_of);
    void (*softmax_bwd)(void *dx, const void *y, const void *g, int64_t n, bool log_of);
    void (*norm)(void *y, void *mean, void *rstd, const void *x, const void *w, const void *b, int64_t n, double eps);
    void (*norm_bwd)(void *dx, void *dw, void *db, const void *x, const void *w, const void *mean, const void *rstd,
                     const void *g, int64_t n, bool add);
    void (*logits_sums)(cr_logits_sums *s, const void *x, int64_t n, bool with_sum);
    void (*logits_bwd)(void *dx, const void *x, int64_t n, double lse, double g, double c);
};
CR_ISA_TABLE(cr_rows);
extern const struct cr_rows cr_rows_f64;

enum { CR_RANKED = 128, CR_IN_STEP = 16 };
struct cr_orders {                                  /* order_isa.c; keys: order.h */
    /* the keys of n elements, each xor flip: all ones reverse the order */
    void (*keys)(uint64_t *y, cr_dtype dt, const void *x, int64_t n, uint64_t flip);
    /* widens range to contain all keys */
    void (*range)(uint64_t range[2], const uint64_t *keys, int64_t n);
    /* order[r]: the position of the r-th of n <= CR_RANKED keys; stable */
    void (*rank)(uint64_t *order, const uint64_t *keys, int64_t n);
    bool (*any_up_to)(const uint64_t *keys, int64_t n, uint64_t limit);
    /* at[i]: the first of the R elements from x + start[i] whose key is >= (right: >) keys[i]; i < CR_IN_STEP */
    void (*positions)(int64_t *at, const int64_t *start, cr_dtype dt, const void *x, int64_t R, const uint64_t *keys,
                      bool right);
    /* at[i]: does keys[i + 1] differ from keys[i], or is it NaN?  Returns how many do */
    int64_t (*changes)(uint8_t *at, const uint64_t *keys, int64_t n, uint64_t nan);
    /* indices, i64 (wide) or i32: is any below low or above high? */
    bool (*any_outside)(const void *at, bool wide, int64_t n, int64_t low, int64_t high);
};
CR_ISA_TABLE(cr_orders);

/* Factors of matrices: panels (factor_blocks.h), and CR_FACTOR_LANES small ones side by side (factor_lanes.h). */
enum {
    CR_FACTOR_LANES = 16,
    CR_FACTOR_PANEL = 48,                           /* columns of a panel */
    CR_FACTOR_SWEEPS = 60                           /* of Jacobi rotations; 6 to 10 are usual */
};
struct cr_factors {                                 /* factor_isa.c */
    void (*eigh_f32)(float *a, float *v, const double *least, int64_t n);
    void (*eigh_f64)(double *a, double *v, const double *least, int64_t n);
    void (*svd_f32)(float *a, float *v, int64_t m, int64_t n);
    void (*svd_f64)(double *a, double *v, int64_t m, int64_t n);
    void (*cholesky_f32)(float *a, int64_t n);
    void (*cholesky_f64)(double *a, int64_t n);
    void (*lu_f32)(float *a, float *b, float *best, int64_t m, int64_t n, int64_t columns);
    void (*lu_f64)(double *a, double *b, double *best, int64_t m, int64_t n, int64_t columns);
    void (*substitute_f32)(float *x, const float *a, int64_t n, int64_t columns, bool upper, bool unit);
    void (*substitute_f64)(double *x, const double *a, int64_t n, int64_t columns, bool upper, bool unit);
    void (*cholesky_panel_f32)(float *a, int64_t row, int64_t rows, int64_t n);
    void (*cholesky_panel_f64)(double *a, int64_t row, int64_t rows, int64_t n);
    void (*lu_panel_f32)(float *a, int64_t row, int64_t rows, int64_t n, int32_t *best);
    void (*lu_panel_f64)(double *a, int64_t row, int64_t rows, int64_t n, int32_t *best);
    void (*solve_strip_f32)(float *x, int64_t x_row, const float *a, int64_t a_row, int64_t n, int64_t columns,
                            bool upper, bool unit);
    void (*solve_strip_f64)(double *x, int64_t x_row, const double *a, int64_t a_row, int64_t n, int64_t columns,
                            bool upper, bool unit);
    void (*transpose_matrix_f32)(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows,
                                 int64_t columns);
    void (*transpose_matrix_f64)(double *to, int64_t to_row, const double *from, int64_t from_row, int64_t rows,
                                 int64_t columns);
    void (*tridiagonal_f32)(float *a, int64_t row, int64_t n, double *d, double *e, float *v, float *w);
    void (*tridiagonal_f64)(double *a, int64_t row, int64_t n, double *d, double *e, double *v, double *w);
    void (*bidiagonal_f32)(float *a, int64_t row, int64_t m, int64_t n, double *d, double *e, float *v, float *w);
    void (*bidiagonal_f64)(double *a, int64_t row, int64_t m, int64_t n, double *d, double *e, double *v, double *w);
};
CR_ISA_TABLE(cr_factors);

/* All kernels of one instruction set.  cpu.c chooses one such table for the process. */
struct cr_isa_kernels {
    int isa;                                        /* 2, 3, 4: x86-64-v2, v3, v4; 0: plain C */
    const struct cr_blocks *blocks;
    const struct cr_casts *casts;
    const struct cr_reducers *reduce;
    const struct cr_rows *rows;
    const struct cr_randoms *randoms;
    const struct cr_orders *orders;
    const struct cr_integers *integers;
    const struct cr_conversions *conversions;
    const struct cr_products *products;             /* product.h */
    const struct cr_attentions *attention;          /* attention.h */
    const struct cr_windows *windows;               /* windows.h */
    const struct cr_convs *conv;                    /* conv.h */
    const struct cr_winograds *winograd;            /* winograd.h */
    const struct cr_packeds *packed;                /* linear_packed.h */
    const struct cr_factors *factors;
};

#endif
