/* reduce_isa.c - sums, products, maxima and minima of runs and of columns, in f32, f64 and i64, with a map
 * of the elements; and the position of an extreme.  A run is reduced in a fixed tree: four accumulator
 * vectors, then the four to one, then its lanes.  reduce.c cuts the runs. */
#include "isa.h"
#include "vmath.h"

typedef double  vecd_at __attribute__((vector_size(V_BYTES), aligned(8), may_alias));
typedef int64_t vlong_at __attribute__((vector_size(V_BYTES), aligned(8), may_alias));

static inline vecd add_f64(vecd a, vecd b) { return a + b; }
static inline vecd mul_f64(vecd a, vecd b) { return a * b; }
/* d_most gives b where b is NaN */
static inline vecd max_f64(vecd a, vecd b) { return d_blend(md_nan(a), a, d_most(a, b)); }
static inline vecd min_f64(vecd a, vecd b) { return d_blend(md_nan(a), a, d_least(a, b)); }
static inline vlong add_i64(vlong a, vlong b) { return (vlong)((vulong)a + (vulong)b); }
static inline vlong mul_i64(vlong a, vlong b) { return (vlong)((vulong)a * (vulong)b); }
static inline vlong max_i64(vlong a, vlong b) { vlong m = a > b; return (m & a) | (~m & b); }
static inline vlong min_i64(vlong a, vlong b) { vlong m = a < b; return (m & a) | (~m & b); }

#define ONE_ADD(a, b) (a + b)
#define ONE_MUL(a, b) (a * b)
#define ONE_MAX(a, b) (a != a || a > b ? a : b)
#define ONE_MIN(a, b) (a != a || a < b ? a : b)
#define WRAP_ADD(a, b) ((int64_t)((uint64_t)a + (uint64_t)b))
#define WRAP_MUL(a, b) ((int64_t)((uint64_t)a * (uint64_t)b))

#define AT(T, VT, p) (*(const VT##_at *)(p))
#define PUT(T, VT, p, v) (*(VT##_at *)(p) = (v))

/* s + v v, of vectors and of single numbers */
#define SQUARES_f32(s, v) fma_f32(v, v, s)
#define SQUARES_f64(s, v) fma_f64(v, v, s)
#define ONE_SQUARE_f32(s, v) one_fma_f32(v, v, s)
#define ONE_SQUARE_f64(s, v) one_fma_f64(v, v, s)

/* next, next_one: a sum and an element; op, one: two sums.  The second of each is of single numbers. */
#define RUN(name, T, VT, identity, next, next_one, op, one)                                         \
static void run_##name(void *y, const void *from, int64_t n) {                                      \
    enum { L = V_BYTES / sizeof(T) };                                                               \
    const T *x = from;                                                                              \
    VT s0 = (VT){0} + (T)(identity), s1 = s0, s2 = s0, s3 = s0;                                     \
    T tail = (identity);                                                                            \
    int64_t i = 0;                                                                                  \
    for (; i + 4 * L <= n; i += 4 * L) {                                                            \
        s0 = next(s0, AT(T, VT, x + i));                                                            \
        s1 = next(s1, AT(T, VT, x + i + L));                                                        \
        s2 = next(s2, AT(T, VT, x + i + 2 * L));                                                    \
        s3 = next(s3, AT(T, VT, x + i + 3 * L));                                                    \
    }                                                                                               \
    for (; i + L <= n; i += L) s0 = next(s0, AT(T, VT, x + i));                                     \
    s0 = op(op(s0, s1), op(s2, s3));                                                                \
    FOLD_LANES(VT, L, s0, op);                                                                      \
    for (; i < n; i++) tail = next_one(tail, x[i]);                                                 \
    *(T *)y = one(s0[0], tail);                                                                     \
}
#define REDUCER(name, T, VT, identity, op, one)                                                     \
RUN(name, T, VT, identity, op, one, op, one)                                                        \
static void columns_##name(void *to, const void *from, int64_t rows, int64_t stride, int64_t n) {   \
    enum { L = V_BYTES / sizeof(T) };                                                               \
    T *acc = to;                                                                                    \
    const T *x = from;                                                                              \
    int64_t r = 0, i, whole = n / L * L;                                                            \
    for (; r + 4 <= rows; r += 4, x += 4 * stride)                                                  \
        for (i = 0; i < whole; i += L) {                                                            \
            VT a = op(AT(T, VT, x + i), AT(T, VT, x + stride + i)), b = op(AT(T, VT, x + 2 * stride + i), AT(T, VT, \
                x + 3 * stride + i)); \
            PUT(T, VT, acc + i, op(AT(T, VT, acc + i), op(a, b)));                                  \
        }                                                                                           \
    for (; r < rows; r++, x += stride)                                                              \
        for (i = 0; i < whole; i += L) PUT(T, VT, acc + i, op(AT(T, VT, acc + i), AT(T, VT, x + i))); \
    for (x = from, r = 0; r < rows; r++, x += stride)                                               \
        for (i = whole; i < n; i++) acc[i] = one(acc[i], x[i]);                                     \
}

REDUCER(sum_f32, float, vec, 0, v_add, ONE_ADD)
RUN(squares_f32, float, vec, 0, SQUARES_f32, ONE_SQUARE_f32, v_add, ONE_ADD)
REDUCER(prod_f32, float, vec, 1, v_mul, ONE_MUL)
REDUCER(max_f32, float, vec, -INFINITY, v_max, ONE_MAX)
REDUCER(min_f32, float, vec, INFINITY, v_min, ONE_MIN)
REDUCER(sum_f64, double, vecd, 0, add_f64, ONE_ADD)
RUN(squares_f64, double, vecd, 0, SQUARES_f64, ONE_SQUARE_f64, add_f64, ONE_ADD)
REDUCER(prod_f64, double, vecd, 1, mul_f64, ONE_MUL)
REDUCER(max_f64, double, vecd, (double)-INFINITY, max_f64, ONE_MAX)
REDUCER(min_f64, double, vecd, (double)INFINITY, min_f64, ONE_MIN)
REDUCER(sum_i64, int64_t, vlong, 0, add_i64, WRAP_ADD)
REDUCER(prod_i64, int64_t, vlong, 1, mul_i64, WRAP_MUL)
REDUCER(max_i64, int64_t, vlong, INT64_MIN, max_i64, ONE_MAX)
REDUCER(min_i64, int64_t, vlong, INT64_MAX, min_i64, ONE_MIN)

/* ---- deviations d = x - mean: the sums of d^2 and of d */
#define DEVIATIONS(name, T, VT)                                                                     \
static void deviations_##name(void *to, const void *from, const void *mean, int64_t n) {            \
    enum { L = V_BYTES / sizeof(T) };                                                               \
    const T *x = from, m = *(const T *)mean;                                                        \
    VT q[4] = {{0}}, s[4] = {{0}};                                                                  \
    T *y = to, squares = 0, sum = 0;                                                                \
    int64_t i = 0;                                                                                  \
    for (; i + 4 * L <= n; i += 4 * L)                                                              \
        CR_UNROLL(4) for (int k = 0; k < 4; k++) {                                                  \
            const VT d = AT(T, VT, x + i + k * L) - m;                                              \
            q[k] = fma_##name(d, d, q[k]);                                                          \
            s[k] += d;                                                                              \
        }                                                                                           \
    for (; i < n; i++) {                                                                            \
        const T d = x[i] - m;                                                                       \
        squares = one_fma_##name(d, d, squares);                                                    \
        sum += d;                                                                                   \
    }                                                                                               \
    q[0] = (q[0] + q[1]) + (q[2] + q[3]);                                                           \
    s[0] = (s[0] + s[1]) + (s[2] + s[3]);                                                           \
    FOLD_LANES(VT, L, q[0], ONE_ADD);                                                               \
    FOLD_LANES(VT, L, s[0], ONE_ADD);                                                               \
    y[0] = q[0][0] + squares;                                                                       \
    y[1] = s[0][0] + sum;                                                                           \
}                                                                                                   \
static void deviation_columns_##name(void *squares, void *sums, const void *from, const void *mean, int64_t rows, \
    int64_t stride, int64_t n) { \
    enum { L = V_BYTES / sizeof(T) };                                                               \
    const T *x = from, *m = mean;                                                                   \
    T *q = squares, *s = sums;                                                                      \
    int64_t i = 0;                                                                                  \
    for (; i + 4 * L <= n; i += 4 * L) {                                                            \
        VT a[4] = {{0}}, b[4] = {{0}};                                                              \
        for (int64_t r = 0; r < rows; r++)                                                          \
            CR_UNROLL(4) for (int k = 0; k < 4; k++) {                                              \
                const VT d = AT(T, VT, x + r * stride + i + k * L) - AT(T, VT, m + i + k * L);      \
                a[k] = fma_##name(d, d, a[k]);                                                      \
                b[k] += d;                                                                          \
            }                                                                                       \
        CR_UNROLL(4) for (int k = 0; k < 4; k++) {                                                  \
            PUT(T, VT, q + i + k * L, AT(T, VT, q + i + k * L) + a[k]);                             \
            PUT(T, VT, s + i + k * L, AT(T, VT, s + i + k * L) + b[k]);                             \
        }                                                                                           \
    }                                                                                               \
    for (; i < n; i++) {                                                                            \
        T a = 0, b = 0;                                                                             \
        for (int64_t r = 0; r < rows; r++) {                                                        \
            const T d = x[r * stride + i] - m[i];                                                   \
            a = one_fma_##name(d, d, a);                                                            \
            b += d;                                                                                 \
        }                                                                                           \
        q[i] += a;                                                                                  \
        s[i] += b;                                                                                  \
    }                                                                                               \
}
DEVIATIONS(f32, float, vec)
DEVIATIONS(f64, double, vecd)

/* ---- maps of the elements: blocks in the cache, in loops that the compiler vectorises */
#define EACH(expression) { for (int64_t i = 0; i < n; i++) y[i] = (expression); }
#define MAP(T, name, fabs_)                                                                         \
static void map_##name(cr_reduce_map map, void *to, const void *from, int64_t n) {                  \
    const T *x = from;                                                                              \
    T *y = to;                                                                                      \
    switch (map) {                                                                                  \
    case CR_MAP_ABS: EACH(fabs_(x[i])) break;                                                       \
    case CR_MAP_SQUARE: EACH(x[i] * x[i]) break;                                                    \
    default: EACH(x[i] == x[i] ? x[i] : 0)                                                          \
    }                                                                                               \
}
MAP(float, f32, fabsf)
MAP(double, f64, fabs)

/* A float is 0 where all its bits but the sign are 0.  Blocks of 64, so that a byte can count them. */
#define NONZERO(T)                                                                                  \
static int64_t nonzero_##T(const void *from, int64_t n, int shift) {                                \
    const T *x = from;                                                                              \
    int64_t total = 0, i = 0;                                                                       \
    for (; i + 64 <= n; i += 64) {                                                                  \
        T hits = 0;                                                                                 \
        for (int j = 0; j < 64; j++) hits = (T)(hits + ((T)(x[i + j] << shift) != 0));              \
        total += (int64_t)hits;                                                                     \
    }                                                                                               \
    for (; i < n; i++) total += (T)(x[i] << shift) != 0;                                            \
    return total;                                                                                   \
}                                                                                                   \
static void test_columns_##T(int64_t *y, const void *from, int64_t rows, int64_t stride, int64_t n, int shift, \
    bool all) { \
    for (int64_t first = 0, length; first < n; first += length) {                                   \
        const T *x = (const T *)from + first;                                                       \
        T seen[256] = {0};                          /* elements != 0; all: == 0 */                  \
        length = n - first < 256 ? n - first : 256;                                                 \
        for (int64_t r = 0; r < rows; r++, x += stride) {                                           \
            if (all) for (int64_t i = 0; i < length; i++) seen[i] |= (T)!(T)(x[i] << shift);          \
            else for (int64_t i = 0; i < length; i++) seen[i] |= (T)(x[i] << shift);                \
        }                                                                                           \
        for (int64_t i = 0; i < length; i++) y[first + i] = (seen[i] != 0) != all;                  \
    }                                                                                               \
}
NONZERO(uint8_t)
NONZERO(uint16_t)
NONZERO(uint32_t)
NONZERO(uint64_t)

static int64_t nonzero(const void *x, int64_t n, size_t bytes, bool is_float) {
    return bytes == 1 ? nonzero_uint8_t(x, n, 0) : bytes == 2 ? nonzero_uint16_t(x, n, is_float)
         : bytes == 4 ? nonzero_uint32_t(x, n, is_float) : nonzero_uint64_t(x, n, is_float);
}

/* ---- positions.  SEARCH works on blocks of 64: with a fixed count the compiler vectorises it. */
#define SEARCH(T, name)                                                                             \
static int64_t find_##name(const void *from, int64_t n, const void *value) {                        \
    const T *x = from, v = *(const T *)value;                                                       \
    int64_t i = 0;                                                                                  \
    if (v == v) for (; i + 64 <= n; i += 64) {                                                      \
        int hits = 0;                                                                               \
        for (int j = 0; j < 64; j++) hits += x[i + j] == v;                                         \
        if (hits) break;                                                                            \
    }                                                                                               \
    for (; i < n; i++) if (x[i] == v || (v != v && x[i] != x[i])) return i;                         \
    return n;                                                                                       \
}                                                                                                   \
static void arg_##name(bool max, void *to, int64_t *index, const void *from, int64_t first, int64_t rows, \
    int64_t stride, int64_t n) { \
    T *best = to;                                                                                   \
    const T *x = from;                                                                              \
    for (int64_t r = 0; r < rows; r++)                                                              \
        for (int64_t i = 0; i < n; i++) {                                                           \
            T v = x[r * stride + i], b = best[i];                                                   \
            bool better = (max ? v > b : v < b) || (v != v && b == b);                              \
            best[i] = better ? v : b;                                                               \
            index[i] = better ? first + r : index[i];                                               \
        }                                                                                           \
}
SEARCH(float, f32)
SEARCH(double, f64)
SEARCH(int64_t, i64)

static void test_columns(int64_t *y, const void *x, int64_t rows, int64_t stride, int64_t n, size_t bytes,
                         bool is_float, bool all) {
    if (bytes == 1) test_columns_uint8_t(y, x, rows, stride, n, 0, all);
    else if (bytes == 2) test_columns_uint16_t(y, x, rows, stride, n, is_float, all);
    else if (bytes == 4) test_columns_uint32_t(y, x, rows, stride, n, is_float, all);
    else test_columns_uint64_t(y, x, rows, stride, n, is_float, all);
}

#define OF(lane, squares) \
    { \
        {run_sum_##lane, columns_sum_##lane}, {run_prod_##lane, columns_prod_##lane}, \
            {run_max_##lane, columns_max_##lane}, {run_min_##lane, columns_min_##lane}, { \
            squares, columns_sum_##lane \
        } \
    }
const struct cr_reducers CR_ISA_NAME(cr_reducers) = {
    .piece = 64 * V_BYTES,
    .of = {OF(f32, run_squares_f32), OF(f64, run_squares_f64), OF(i64, NULL)},
    .map = {map_f32, map_f64},
    .deviations = {deviations_f32, deviations_f64},
    .deviation_columns = {deviation_columns_f32, deviation_columns_f64},
    .nonzero = nonzero,
    .test_columns = test_columns,
    .find = {find_f32, find_f64, find_i64},
    .arg_columns = {arg_f32, arg_f64, arg_i64},
};
