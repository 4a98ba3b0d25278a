/* ref.h - what the kernels of `ref` share: access to one element, as a double or as an integer, and where it lies.
 *
 * `ref` is the meaning of every op, held against by every other device: the plainest loop over the definition, floats in double
 * and rounded once on store, integers wrapped in their own dtype.  Deliberately no threads, no vectors, no kernel that calls another. */
#ifndef CR_REF_H
#define CR_REF_H

#include "../dev.h"
#include "../program.h"

/* A loop that ends early where a long call was told to stop; the op then fails, whatever its kernel wrote.  Asked every 1024 rounds. */
#define EACH(i, n) for (int64_t i = 0; i < (n) && (i % 1024 || !cr_stop_asked()); i++)

/* Offset of the i-th element (in row-major order) of a strided shape. */
static inline int64_t place(int64_t i, int ndim, const int64_t *shape, const int64_t *strides) {
    int64_t offset = 0;
    for (int d = ndim - 1; d >= 0; d--) { offset += i % shape[d] * strides[d]; i /= shape[d]; }
    return offset;
}

static inline char *address(const cr_tensor *t, int64_t i) {
    return (char *)t->storage->data + (t->offset + i) * (int64_t)cr_dtype_size((cr_dtype)t->dtype);
}
static inline double get(const cr_tensor *t, int64_t i) { return cr_load_f64(address(t, i), (cr_dtype)t->dtype); }
static inline void put(const cr_tensor *t, int64_t i, double v) { cr_store_f64(address(t, i), (cr_dtype)t->dtype, v); }
static inline int64_t get_int(const cr_tensor *t, int64_t i) { return cr_load_i64(address(t, i), (cr_dtype)t->dtype); }
static inline void put_int(const cr_tensor *t, int64_t i, int64_t v) { cr_store_i64(address(t, i), (cr_dtype)t->dtype, v); }
static inline bool is_float(const cr_tensor *t) { return cr_dtype_is_float((cr_dtype)t->dtype); }

/* Sums and products that wrap: signed overflow is undefined in C, unsigned is not. */
static inline int64_t add_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t mul_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
/* a < b for two integers of dtype dt, as cr_load_i64 gives them (u64 keeps its bits). */
static inline bool less_int(cr_dtype dt, int64_t a, int64_t b) { return dt == CR_U64 ? (uint64_t)a < (uint64_t)b : a < b; }

cr_status cr_ref_check_index(const char *op, const cr_tensor *index, int64_t bound, bool wrap);      /* every element in [0, bound), or with wrap in [-bound, bound) */

int64_t *cr_ref_order(int64_t n, bool (*less)(const void *ctx, int64_t i, int64_t j), const void *ctx);      /* NULL: no memory, a failure is recorded */

cr_status cr_ref_elementwise(const cr_walk *walks, int64_t count);
cr_status cr_ref_reduce(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
cr_status cr_ref_arg_reduce(bool max, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
cr_status cr_ref_scan(cr_scan_kind kind, bool reverse, cr_tensor *y, cr_tensor *index, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N);
cr_status cr_ref_matmul(cr_tensor *c, const cr_tensor *a, const cr_tensor *b, const cr_tensor *bias, int how);
cr_status cr_ref_gather(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K);
cr_status cr_ref_sort(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending);
cr_status cr_ref_kth(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k);
cr_status cr_ref_search(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right);
cr_status cr_ref_runs(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C);
cr_status cr_ref_triangle(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, int64_t diagonal, bool upper);
cr_status cr_ref_scatter(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool sum, int64_t M, int64_t R, int64_t N, int64_t K);
cr_status cr_ref_take_rows(const char *op, cr_tensor *y, const cr_tensor *x, const cr_tensor *index, bool wrap);
cr_status cr_ref_put_rows(const char *op, cr_tensor *x, const cr_tensor *index, const cr_tensor *src, bool sum, bool wrap);
cr_status cr_ref_ravel(const char *op, cr_tensor *y, int n, const cr_tensor *const *index, const int64_t *sizes);
cr_status cr_ref_nonzero(cr_tensor *y, const cr_tensor *x, int64_t *count);
cr_status cr_ref_random(cr_random_kind kind, cr_tensor *y, uint64_t seed, uint64_t counter);
cr_status cr_ref_random_integers(cr_tensor *y, int64_t low, uint64_t span, uint64_t seed, uint64_t counter);
cr_status cr_ref_permutation(cr_tensor *y, uint64_t seed, uint64_t counter);
cr_status cr_ref_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter);
cr_status cr_ref_softmax(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, bool log_of);
cr_status cr_ref_softmax_bwd(cr_tensor *dx, const cr_tensor *y, const cr_tensor *g, int64_t M, int64_t N, bool log_of);
cr_status cr_ref_norm(cr_tensor *y, cr_tensor *mean, cr_tensor *rstd, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                   int64_t M, int64_t N, double eps);
cr_status cr_ref_norm_bwd(cr_tensor *dx, cr_tensor *dw, cr_tensor *db, const cr_tensor *x, const cr_tensor *w, const cr_tensor *mean,
                       const cr_tensor *rstd, const cr_tensor *g, int64_t M, int64_t N);
cr_status cr_ref_cross_entropy(cr_tensor *loss, cr_tensor *lse, const cr_tensor *x, const cr_tensor *target, int64_t M, int64_t N,
                            int64_t ignore, double smoothing);
cr_status cr_ref_cross_entropy_bwd(cr_tensor *dx, const cr_tensor *x, const cr_tensor *target, const cr_tensor *lse, const cr_tensor *g,
                                int64_t M, int64_t N, int64_t ignore, double smoothing);
cr_status cr_ref_attention(cr_tensor *o, cr_tensor *lse, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask,
                        double scale, bool causal);
cr_status cr_ref_attention_bwd(cr_tensor *dq, cr_tensor *dk, cr_tensor *dv, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                            const cr_tensor *mask, const cr_tensor *o, const cr_tensor *lse, const cr_tensor *g, double scale, bool causal);

#endif
