/* index.h - what the kernels that go where indices say share (index.c, places.c). */
#ifndef CR_CPU_INDEX_H
#define CR_CPU_INDEX_H

#include "../../core/array.h"

enum { INDEX_GRAIN = 32768 };                       /* elements that one chunk moves or adds, about 10 us */


typedef struct indices { const void *at; int64_t size; bool wide; } indices;       /* wide: i64, else i32; -size .. -1 mean size less */

static inline int64_t index_at(indices x, int64_t i) {
    int64_t v = x.wide ? ((const int64_t *)x.at)[i] : ((const int32_t *)x.at)[i];
    return v + (v >> 63 & x.size);
}

/* Are they in 0 .. size - 1, or with wrap from -size on?  Either all are asked first, or each chunk asks for its own, where what it writes
 * may be lost; then a message says which is the first that is not. */
typedef struct check { indices x; int64_t n, low; const char *op; atomic_llong bad; } check;      /* from low on are fine; bad: the first position that is not */
cr_status cr_cpu_start_check(check *c, const char *op, const cr_array *index, int64_t size, bool wrap);
bool      cr_cpu_check(check *c, int64_t from, int64_t to);
cr_status cr_cpu_checked(const check *c);
cr_status cr_cpu_open_indices(const char *op, const cr_array *index, int64_t size, bool wrap, indices *out);       /* all of them */

/* x[index[k] xs] = y[k ys], or += it, for k < K in order, by several threads where the places are R in one row (buckets.c); checked indices. */
bool      cr_cpu_suits_buckets(cr_dtype dt, bool sum, int64_t R, int64_t K);
cr_status cr_cpu_put_by_buckets(cr_dtype dt, bool sum, char *x, int64_t xs, int64_t R, indices index, const char *y, int64_t ys, int64_t K);

/* What is written where two go to one place: the sum, the last one, or the largest (j->least: the smallest), a NaN where there is one. */
#define SUM(a, b) ((a) + (b))
#define EITHER(a, b) ((a) | (b))
#define LAST(a, b) (b)
#define BEYOND(a, b) ((j->least ? (b) < (a) : (b) > (a)) || (b) != (b))
#define EXTREME(a, b) ((b) != (b) ? (b) : j->least ? (b) < (a) ? (b) : (a) : (b) > (a) ? (b) : (a))      /* so the compiler needs no branch, which chance would decide */
#define EXTREME_F16(a, b) (BEYOND(cr_f16_to_f32(a), cr_f16_to_f32(b)) ? (b) : (a))
#define EXTREME_BF16(a, b) (BEYOND(cr_bf16_to_f32(a), cr_bf16_to_f32(b)) ? (b) : (a))

#endif
