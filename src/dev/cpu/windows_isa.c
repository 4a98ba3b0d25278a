/* windows_isa.c - rows of maxima, of banded products and of normalization by channel, in f32 and f64.  Loops over
 * lanes are written plainly: the compiler writes them by vectors. */
#include "isa.h"
#include "vec.h"
#include "windows.h"

typedef double vecd_at __attribute__((vector_size(V_BYTES), aligned(8), may_alias));

enum { STRIP = 128 };

/* ---- maxima */
#define MOST_BY(T, STRIDE) \
    for (int64_t i = 0; i < n; i++) { \
        const T v = x[i * (STRIDE)]; \
        const bool takes = (v > best[i]) | (v != v) | (at[i] < 0); \
        best[i] = takes ? v : best[i]; \
        at[i] = takes ? position + (int32_t)(i * (STRIDE)) : at[i]; \
    }
#define BY_STRIDE(loop, T) \
    if (stride == 1) loop(T, 1) \
    else if (stride == 2) loop(T, 2) \
    else if (stride == 3) loop(T, 3) \
    else loop(T, stride)
#define MOST(name, T) \
static void most_##name(void *bests, int32_t *restrict at, const void *from, int64_t stride, int32_t position, \
                        int64_t n) { \
    T *restrict best = bests; \
    const T *x = from; \
    BY_STRIDE(MOST_BY, T) \
}
MOST(f32, float)
MOST(f64, double)

#define MERGE_BY(T, STRIDE) \
    for (int64_t i = 0; i < n; i++) { \
        const T v = x[i * (STRIDE)], b = best[i]; \
        const int32_t p = from[i * (STRIDE)], a = at[i]; \
        const bool takes = (a < 0) | (v > b) | ((v == b) & (p < a)) | ((v != v) & ((b == b) | (p > a))); \
        best[i] = takes ? v : b; \
        at[i] = takes ? p : a; \
    }
#define PEAK_BY(T, STRIDE) \
    for (int64_t i = 0; i < n; i++) { \
        const T v = x[i * (STRIDE)], b = best[i]; \
        best[i] = ((v > b) | (v != v)) ? v : b; \
    }
#define PEAK(name, T) \
static void merge_##name(void *bests, int32_t *restrict at, const void *values, const int32_t *restrict from, \
                         int64_t stride, int64_t n) { \
    T *restrict best = bests; \
    const T *restrict x = values; \
    BY_STRIDE(MERGE_BY, T) \
} \
static void peak_##name(void *bests, const void *values, int64_t stride, int64_t n) { \
    T *restrict best = bests; \
    const T *restrict x = values; \
    BY_STRIDE(PEAK_BY, T) \
} \
static void pairs_##name(void *to, const void *from, int64_t n) { \
    T *restrict y = to; \
    const T *restrict x = from; \
    for (int64_t i = 0; i < n; i++) { \
        const T a = x[2 * i], b = x[2 * i + 1]; \
        y[i] = ((b > a) | (b != b)) ? b : a; \
    } \
}
PEAK(f32, float)
PEAK(f64, double)

static void widen(int64_t *restrict y, const int32_t *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i];
}

/* ---- banded products */
#define SLIDE_BY(name, Q) \
    for (int64_t i = 0; i < count; i++) sum[i] = one_fma_##name(one, x[i * (Q)], sum[i])
#define BAND(name, T, VT) \
static void mix_##name(void *to, const void *from, int64_t stride, const void *weights, int64_t K, int64_t n) { \
    enum { L = V_BYTES / sizeof(T) }; \
    T *y = to; \
    const T *x = from, *w = weights; \
    int64_t i = 0; \
    for (; i + 4 * L <= n; i += 4 * L) { \
        VT s0 = {0}, s1 = s0, s2 = s0, s3 = s0; \
        for (int64_t k = 0; k < K; k++) { \
            const T *p = x + k * stride + i; \
            if (w[k] == 0) continue; \
            const VT by = w[k] - (VT){0}; \
            s0 = fma_##name(by, *(const VT##_at *)p, s0); \
            s1 = fma_##name(by, *(const VT##_at *)(p + L), s1); \
            s2 = fma_##name(by, *(const VT##_at *)(p + 2 * L), s2); \
            s3 = fma_##name(by, *(const VT##_at *)(p + 3 * L), s3); \
        } \
        *(VT##_at *)(y + i) = s0; \
        *(VT##_at *)(y + i + L) = s1; \
        *(VT##_at *)(y + i + 2 * L) = s2; \
        *(VT##_at *)(y + i + 3 * L) = s3; \
    } \
    for (; i + L <= n; i += L) { \
        VT s = {0}; \
        for (int64_t k = 0; k < K; k++) \
            if (w[k] != 0) s = fma_##name(w[k] - (VT){0}, *(const VT##_at *)(x + k * stride + i), s); \
        *(VT##_at *)(y + i) = s; \
    } \
    for (; i < n; i++) { \
        T s = 0; \
        for (int64_t k = 0; k < K; k++) \
            if (w[k] != 0) s = one_fma_##name(w[k], x[k * stride + i], s); \
        y[i] = s; \
    } \
} \
static void slide_line_##name(T *restrict sum, const T *restrict x, const T *w, int64_t K, int Q, int64_t count) { \
    for (int64_t i = 0; i < count; i++) sum[i] = 0; \
    for (int64_t k = 0; k < K; k++, x++) { \
        const T one = w[k]; \
        if (one == 0) continue; \
        if (Q == 1) SLIDE_BY(name, 1); \
        else if (Q == 2) SLIDE_BY(name, 2); \
        else if (Q == 3) SLIDE_BY(name, 3); \
        else SLIDE_BY(name, 4); \
    } \
} \
static void slide_##name(void *to, const void *from, const void *weights, const int64_t *offset, int64_t K, int P, \
                         int Q, int64_t n) { \
    T *restrict y = to, sum[4][STRIP]; \
    const T *x = from, *w = weights; \
    for (int64_t i = 0, count; i < n; i += count, y += count * P) { \
        count = n - i < STRIP ? n - i : STRIP; \
        for (int p = 0; p < P; p++) \
            slide_line_##name(P == 1 ? y : sum[p], x + i * Q + offset[p], w + p * K, K, Q, count); \
        if (P == 2) for (int64_t j = 0; j < count; j++) { y[2 * j] = sum[0][j]; y[2 * j + 1] = sum[1][j]; } \
        if (P == 3) for (int64_t j = 0; j < count; j++) { \
            y[3 * j] = sum[0][j]; y[3 * j + 1] = sum[1][j]; y[3 * j + 2] = sum[2][j]; } \
        if (P == 4) for (int64_t j = 0; j < count; j++) { \
            y[4 * j] = sum[0][j]; y[4 * j + 1] = sum[1][j]; y[4 * j + 2] = sum[2][j]; y[4 * j + 3] = sum[3][j]; } \
    } \
}
BAND(f32, float, vec)
BAND(f64, double, vecd)

/* ---- one channel: sums are a fixed tree of four vectors of accumulators, then their lanes, then the rest in order */
static inline vec plus_f32(vec a, vec b) { return a + b; }
static inline vecd plus_f64(vecd a, vecd b) { return a + b; }
#define SUMMED(T, VT, name, next, next_one) \
    VT s0 = {0}, s1 = s0, s2 = s0, s3 = s0; \
    T tail = 0; \
    int64_t i = 0; \
    for (; i + 4 * L <= n; i += 4 * L) { \
        s0 = next(name, s0, i); \
        s1 = next(name, s1, i + L); \
        s2 = next(name, s2, i + 2 * L); \
        s3 = next(name, s3, i + 3 * L); \
    } \
    for (; i + L <= n; i += L) s0 = next(name, s0, i); \
    for (; i < n; i++) tail = next_one(name, tail, i); \
    s0 = (s0 + s1) + (s2 + s3); \
    FOLD_LANES(VT, L, s0, plus_##name); \
    return (double)(s0[0] + tail)
#define X_AT(i) (*(const VT_ *)(x + (i)))
#define G_AT(i) (*(const VT_ *)(g + (i)))
#define ADD_X(name, s, i) (s + X_AT(i))
#define ADD_SQUARE(name, s, i) fma_##name(X_AT(i) - mean, X_AT(i) - mean, s)
#define ADD_DOT(name, s, i) fma_##name(G_AT(i), X_AT(i) - mean, s)
#define ONE_X(name, s, i) (s + x[i])
#define ONE_SQUARE(name, s, i) one_fma_##name(x[i] - mean, x[i] - mean, s)
#define ONE_DOT(name, s, i) one_fma_##name(g[i], x[i] - mean, s)
#define CHANNEL(name, T, VT) \
static double sum_##name(const T *x, int64_t n) { \
    enum { L = V_BYTES / sizeof(T) }; \
    typedef VT##_at VT_; \
    SUMMED(T, VT, name, ADD_X, ONE_X); \
} \
static double squares_##name(const T *x, T mean, int64_t n) { \
    enum { L = V_BYTES / sizeof(T) }; \
    typedef VT##_at VT_; \
    SUMMED(T, VT, name, ADD_SQUARE, ONE_SQUARE); \
} \
static double dot_##name(const T *x, const T *g, T mean, int64_t n) { \
    enum { L = V_BYTES / sizeof(T) }; \
    typedef VT##_at VT_; \
    SUMMED(T, VT, name, ADD_DOT, ONE_DOT); \
} \
static void moments_##name(double sums[2], const void *from, int64_t n) { \
    const T *x = from; \
    sums[0] = sum_##name(x, n); \
    sums[1] = squares_##name(x, (T)(sums[0] / (double)n), n); \
} \
static void dots_##name(double sums[2], const void *x, const void *g, double mean, int64_t n) { \
    sums[0] = sum_##name(g, n); \
    sums[1] = dot_##name(x, g, (T)mean, n); \
} \
static void scale_##name(void *to, const void *from, double mean_, double scale_, double shift_, int64_t n) { \
    T *restrict y = to; \
    const T *restrict x = from, mean = (T)mean_, scale = (T)scale_, shift = (T)shift_; \
    for (int64_t i = 0; i < n; i++) y[i] = one_fma_##name(x[i] - mean, scale, shift); \
} \
static void scale_two_##name(void *to, const void *from, const void *cotangent, double mean_, double a_, double b_, \
                             double c_, int64_t n) { \
    T *restrict dx = to; \
    const T *restrict x = from, *restrict g = cotangent, mean = (T)mean_, a = (T)a_, b = (T)b_, c = (T)c_; \
    for (int64_t i = 0; i < n; i++) dx[i] = one_fma_##name(a, g[i], one_fma_##name(b, x[i] - mean, c)); \
} \
/* ---- planes of several channels */ \
static void scale_planes_##name(void *y, const void *x, double mean, const double *scale, const double *shift, \
                                int64_t count, int64_t S) { \
    for (int64_t k = 0; k < count; k++) \
        scale_##name((T *)y + k * S, (const T *)x + k * S, mean, scale[k], shift[k], S); \
} \
static void dots_planes_##name(double *sums, double *dots, const void *x, const void *g, double mean, int64_t count, \
                               int64_t S) { \
    for (int64_t k = 0; k < count; k++) { \
        sums[k] = sum_##name((const T *)g + k * S, S); \
        dots[k] = dot_##name((const T *)x + k * S, (const T *)g + k * S, (T)mean, S); \
    } \
} \
static void scale_two_planes_##name(void *dx, const void *x, const void *g, double mean, const double *a, double b, \
                                    double c, int64_t count, int64_t S) { \
    for (int64_t k = 0; k < count; k++) \
        scale_two_##name((T *)dx + k * S, (const T *)x + k * S, (const T *)g + k * S, mean, a[k], b, c, S); \
} \
/* ---- lanes of several channels */ \
static void add_lanes_##name(double *restrict sum, const void *from, int64_t n) { \
    const T *restrict x = from; \
    for (int64_t i = 0; i < n; i++) sum[i] += (double)x[i]; \
} \
static void add_squares_##name(double *restrict sum, const void *from, const void *means, int64_t n) { \
    const T *restrict x = from, *restrict mean = means; \
    for (int64_t i = 0; i < n; i++) { \
        const double d = (double)(x[i] - mean[i]); \
        sum[i] = one_fma_f64(d, d, sum[i]); \
    } \
} \
static void scale_lanes_##name(void *to, const void *from, const void *means, const void *scales, const void *shifts, \
                               int64_t n) { \
    T *restrict y = to; \
    const T *restrict x = from, *restrict mean = means, *restrict scale = scales, *restrict shift = shifts; \
    for (int64_t i = 0; i < n; i++) y[i] = one_fma_##name(x[i] - mean[i], scale[i], shift[i]); \
} \
static void add_dots_##name(double *restrict sum, double *restrict dot, const void *from, const void *cotangent, \
                            const void *means, int64_t n) { \
    const T *restrict x = from, *restrict g = cotangent, *restrict mean = means; \
    for (int64_t i = 0; i < n; i++) { \
        sum[i] += (double)g[i]; \
        dot[i] = one_fma_f64((double)g[i], (double)(x[i] - mean[i]), dot[i]); \
    } \
} \
static void scale_two_lanes_##name(void *to, const void *from, const void *cotangent, const void *means, \
                                   const void *as, const void *bs, const void *cs, int64_t n) { \
    T *restrict dx = to; \
    const T *restrict x = from, *restrict g = cotangent, *restrict mean = means; \
    const T *restrict a = as, *restrict b = bs, *restrict c = cs; \
    for (int64_t i = 0; i < n; i++) \
        dx[i] = one_fma_##name(a[i], g[i], one_fma_##name(b[i], x[i] - mean[i], c[i])); \
}
CHANNEL(f32, float, vec)
CHANNEL(f64, double, vecd)

#define BOTH(kernel) {kernel##_f32, kernel##_f64}
const struct cr_windows CR_ISA_NAME(cr_windows) = {
    .most = BOTH(most),
    .merge = BOTH(merge),
    .peak = BOTH(peak),
    .pairs = BOTH(pairs),
    .widen = widen,
    .mix = BOTH(mix),
    .slide = BOTH(slide),
    .moments = BOTH(moments),
    .scale = BOTH(scale),
    .dots = BOTH(dots),
    .scale_two = BOTH(scale_two),
    .scale_planes = BOTH(scale_planes),
    .dots_planes = BOTH(dots_planes),
    .scale_two_planes = BOTH(scale_two_planes),
    .add_lanes = BOTH(add_lanes),
    .add_squares = BOTH(add_squares),
    .scale_lanes = BOTH(scale_lanes),
    .add_dots = BOTH(add_dots),
    .scale_two_lanes = BOTH(scale_two_lanes),
};
