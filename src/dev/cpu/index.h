/* index.h - shared by the indexing kernels (index.c, rows_by_index.c, buckets.c). */
#ifndef CR_CPU_INDEX_H
#define CR_CPU_INDEX_H

#include "../../core/array.h"

enum { INDEX_GRAIN = 32768 };                       /* elements that one chunk moves or adds, about 10 us */


/* wide: i64, else i32; -size .. -1 count from the end */
typedef struct indices { const void *at; int64_t size; bool wide; } indices;

static inline int64_t index_at(indices x, int64_t i) {
    int64_t v = x.wide ? ((const int64_t *)x.at)[i] : ((const int32_t *)x.at)[i];
    return v + (v >> 63 & x.size);
}

/* Checks that indices are in 0 .. size - 1, or with wrap in -size .. size - 1: all of them first or,
 * where a failed call may leave a partial result, chunk by chunk.  The message names the first that is
 * out of range. */
/* low: the smallest valid index; bad: the first bad position */
typedef struct check { indices x; int64_t n, low; const char *op; atomic_llong bad; } check;
cr_status cr_cpu_start_check(check *c, const char *op, const cr_array *index, int64_t size, bool wrap);
bool      cr_cpu_check(check *c, int64_t from, int64_t to);
cr_status cr_cpu_checked(const check *c);
/* all of them */
cr_status cr_cpu_open_indices(const char *op, const cr_array *index, int64_t size, bool wrap, indices *out);

/* x[index[k] xs] = y[k ys], or +=, for k < K in order, on several threads; index[k] < R, checked (buckets.c). */
bool      cr_cpu_suits_buckets(cr_dtype dt, bool sum, int64_t R, int64_t K);
cr_status cr_cpu_put_by_buckets(cr_dtype dt, bool sum, char *x, int64_t xs, int64_t R, indices index, const char *y,
                                int64_t ys, int64_t K);

/* The result where two elements have one index: the sum, the last one, or the larger one (j->least:
 * the smaller), where NaN wins. */
#define SUM(a, b) ((a) + (b))
#define EITHER(a, b) ((a) | (b))
#define LAST(a, b) (b)
#define BEYOND(a, b) ((j->least ? (b) < (a) : (b) > (a)) || (b) != (b))
/* written so that the compiler needs no unpredictable branch */
#define EXTREME(a, b) ((b) != (b) ? (b) : j->least ? (b) < (a) ? (b) : (a) : (b) > (a) ? (b) : (a))
#define EXTREME_F16(a, b) (BEYOND(cr_f16_to_f32(a), cr_f16_to_f32(b)) ? (b) : (a))
#define EXTREME_BF16(a, b) (BEYOND(cr_bf16_to_f32(a), cr_bf16_to_f32(b)) ? (b) : (a))

#endif
