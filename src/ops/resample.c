/* resample.c - average pooling and resampling: a banded matrix for each spatial axis (band.c). */
#include "windows.h"

#include <math.h>
#include <stdlib.h>

/* Adds w at element r of row s; the row's elements lie in [start[s], start[s] + K). */
static void add_weight(cr_band *b, int64_t s, int64_t r, double w) { b->weights[s * b->K + r - b->start[s]] += w; }

static bool is_identity(const cr_band *b) {
    if (b->S != b->R) return false;
    for (int64_t s = 0; s < b->S; s++)
        for (int64_t k = 0; k < b->K; k++)
            if (b->weights[s * b->K + k] != (b->start[s] + k == s ? 1 : 0)) return false;
    return true;
}

/* The n bands over the last n axes of x: those that leave fewest elements first.  In half precision several products
 * would round several times, so these run in f32. */
static cr_tensor *apply_bands(const cr_tensor *x, int n, const cr_band *bands) {
    int order[3], count = 0;
    for (int i = 0; i < n; i++)
        if (!is_identity(&bands[i])) order[count++] = i;
    for (int i = 1; i < count; i++)
        for (int j = i; j && (double)bands[order[j]].S * (double)bands[order[j - 1]].R <
                                 (double)bands[order[j - 1]].S * (double)bands[order[j]].R; j--) {
            const int swapped = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swapped;
        }
    if (!count) return cr_clone(x);
    cr_tensor *y = count > 1 ? widened(x) : same(x);
    for (int i = 0; i < count; i++) y = cr_apply_band(y, x->ndim - n + order[i], &bands[order[i]]);
    return cast_to(y, x->dtype);
}

/* Makes one band for each spatial axis by `make`, and applies them. */
typedef bool band_maker(const void *how, int axis, int64_t R, cr_band *b);
static cr_tensor *resampled(const cr_tensor *x, int n, band_maker *make, const void *how) {
    cr_band bands[3] = {{0}};
    bool ok = true;
    cr_scope_begin();
    for (int i = 0; i < n && ok; i++) ok = make(how, i, x->shape[x->ndim - n + i], &bands[i]);
    cr_tensor *y = ok ? apply_bands(x, n, bands) : NULL;
    for (int i = 0; i < n; i++) cr_band_free(&bands[i]);
    return cr_leave(y);
}

/* ---- average pooling: the mean of each window */
typedef struct average { const cr_pool_options *o; const int64_t *count; } average;

static bool average_band(const void *how, int axis, int64_t R, cr_band *b) {
    const average *a = how;
    const cr_pool_options *o = a->o;
    const int64_t kernel = o->kernel[axis], pad = o->pad[axis], S = a->count[axis];
    if (!cr_band_new("avg_pool", S, R, cr_imin(kernel, R), b)) return false;
    for (int64_t s = 0; s < S; s++) {
        const int64_t begin = s * o->stride[axis] - pad, stop = cr_imin(begin + kernel, R + pad);
        const int64_t first = cr_imax(begin, 0), end = cr_imin(stop, R);
        const int64_t all = o->count_pad ? stop - begin : end - first;
        const double divisor = !o->divisor ? (double)all : axis ? 1 : (double)o->divisor;
        b->start[s] = cr_imin(first, R - b->K);
        for (int64_t r = first; r < end; r++) add_weight(b, s, r, 1 / divisor);
    }
    return true;
}

cr_tensor *cr_avg_pool(const cr_tensor *x, const cr_pool_options *o) {
    cr_meta m;
    if (!cr_given("avg_pool", "x", x)) return NULL;
    for (int i = 0; i < o->n && i < 3; i++)
        if (o->dilation[i] != 1)
            return cr_fail(CR_BAD_VALUE, "avg_pool", "the dilation must be 1: %lld", (long long)o->dilation[i]), NULL;
    if (cr_pooled_shape("avg_pool", x, o, &m) != CR_OK) return NULL;
    const int64_t *count = m.shape + x->ndim - o->n;
    if (!cr_is_integer(x)) return resampled(x, o->n, average_band, &(average){o, count});
    const cr_windows w = cr_windows_of(o, count);
    cr_scope_begin();
    return cr_leave(cr_integer_avg_pool(x, &w, o->count_pad, o->divisor));
}

static bool adaptive_band(const void *how, int axis, int64_t R, cr_band *b) {
    const int64_t S = ((const int64_t *)how)[axis];
    int64_t K = 1;
    for (int64_t s = 0; s < S; s++) K = cr_imax(K, cr_adaptive_end(s, S, R) - cr_adaptive_first(s, S, R));
    if (!cr_band_new("adaptive_avg_pool", S, R, K, b)) return false;
    for (int64_t s = 0; s < S; s++) {
        const int64_t first = cr_adaptive_first(s, S, R), end = cr_adaptive_end(s, S, R);
        b->start[s] = cr_imin(first, R - K);
        for (int64_t r = first; r < end; r++) add_weight(b, s, r, 1 / (double)(end - first));
    }
    return true;
}

cr_tensor *cr_adaptive_avg_pool(const cr_tensor *x, int n, const int64_t *size) {
    if (!cr_given("adaptive_avg_pool", "x", x)) return NULL;
    if (cr_check_sizes("adaptive_avg_pool", x, n, size) != CR_OK) return NULL;
    if (cr_want_float("adaptive_avg_pool", x) != CR_OK) return NULL;
    int64_t ones = 0, axes[3];
    for (int i = 0; i < n; i++) {
        axes[i] = i - n;
        ones += size[i] == 1;
    }
    if (ones == n) return cr_mean(x, n, axes, true);
    return resampled(x, n, adaptive_band, size);
}

/* ---- interpolation: element s of S lies at position `at` of an axis of R, and the elements around it */
typedef struct interpolation { const int64_t *size; const cr_interpolate_options *o; } interpolation;

/* elements of x per element of y */
static double step_of(const interpolation *p, int axis, int64_t R) {
    const int64_t S = p->size[axis];
    if (p->o->align_corners) return S > 1 ? (double)(R - 1) / (double)(S - 1) : 0;
    return p->o->scale[axis] > 0 ? 1 / p->o->scale[axis] : (double)R / (double)S;
}

static bool is_nearest(const cr_interpolate_options *o) {
    return o->mode == CR_RESAMPLE_NEAREST || o->mode == CR_RESAMPLE_NEAREST_EXACT;
}

/* In f32, as PyTorch: elsewhere the same position could be rounded to another element. */
static int64_t nearest(const interpolation *p, int axis, int64_t R, int64_t s) {
    const int64_t S = p->size[axis];
    const double scale = p->o->scale[axis];
    const float step = scale > 0 ? (float)(1 / scale) : (float)R / (float)S;
    return cr_imin((int64_t)floorf(((float)s + (p->o->mode == CR_RESAMPLE_NEAREST_EXACT ? 0.5f : 0)) * step), R - 1);
}

/* Cubic convolution of Keys (1981): the weight of an element at distance d < 2. */
static double cubic(double d, double a) {
    d = fabs(d);
    if (d >= 2) return 0;
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* `taps` elements around `at`, those outside of x replaced by its first or last one. */
static void weigh_around(cr_band *b, int64_t s, double at, bool is_cubic) {
    const int64_t whole = (int64_t)floor(at), taps = is_cubic ? 4 : 2, first = whole - (taps - 2) / 2;
    b->start[s] = cr_iclamp(first, 0, b->R - b->K);
    for (int64_t k = 0; k < taps; k++) {
        const double d = fabs(at - (double)(first + k));
        add_weight(b, s, cr_iclamp(first + k, 0, b->R - 1), is_cubic ? cubic(d, -0.75) : 1 - d);
    }
}

/* Elements within the support of a filter that is `step` times as wide where y is smaller than x; weights of sum 1. */
static void weigh_filtered(cr_band *b, int64_t s, double step, bool is_cubic) {
    const double wide = step > 1 ? step : 1, support = (is_cubic ? 2 : 1) * wide, center = step * ((double)s + 0.5);
    const int64_t first = cr_iclamp((int64_t)(center - support + 0.5), 0, b->R - 1);
    const int64_t end = cr_iclamp((int64_t)(center + support + 0.5), first + 1, b->R);
    double sum = 0;
    b->start[s] = cr_imin(first, b->R - b->K);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t r = first; r < end; r++) {
            const double d = ((double)r - center + 0.5) / wide;
            const double w = is_cubic ? cubic(d, -0.5) : fabs(d) < 1 ? 1 - fabs(d) : 0;
            if (pass) add_weight(b, s, r, sum != 0 ? w / sum : w);
            else sum += w;
        }
}

static bool interpolation_band(const void *how, int axis, int64_t R, cr_band *b) {
    const interpolation *p = how;
    const cr_interpolate_options *o = p->o;
    const int64_t S = p->size[axis];
    const bool is_cubic = o->mode == CR_RESAMPLE_CUBIC;
    const double step = step_of(p, axis, R), support = (is_cubic ? 2 : 1) * (step > 1 ? step : 1);
    const double most = is_nearest(o) ? 1 : o->antialias ? 2 * ceil(support) + 1 : is_cubic ? 4 : 2;
    if (!cr_band_new("interpolate", S, R, most < (double)R ? (int64_t)most : R, b)) return false;
    for (int64_t s = 0; s < S; s++) {
        const double at = o->align_corners ? (double)s * step : ((double)s + 0.5) * step - 0.5;
        if (is_nearest(o)) {
            b->start[s] = nearest(p, axis, R, s);
            add_weight(b, s, b->start[s], 1);
        } else if (o->antialias) weigh_filtered(b, s, step, is_cubic);
        else weigh_around(b, s, is_cubic ? at : fmin(fmax(at, 0), (double)(R - 1)), is_cubic);
    }
    return true;
}

/* The nearest elements of a dtype that has no products. */
static cr_tensor *nearest_elements(const cr_tensor *x, int n, const interpolation *p) {
    cr_scope_begin();
    cr_tensor *y = same(x);
    for (int i = 0; i < n && y; i++) {
        const int64_t R = x->shape[x->ndim - n + i], S = p->size[i];
        int64_t *at = malloc(sizeof *at * (size_t)S);
        if (!at) { cr_fail(CR_NO_MEMORY, "interpolate", "out of memory for %lld positions", (long long)S); y = NULL; }
        for (int64_t s = 0; at && s < S; s++) at[s] = nearest(p, i, R, s);
        if (at) y = cr_index_select(y, x->ndim - n + i, cr_from(at, CR_LIST(S), CR_I64, x->dev));
        free(at);
    }
    return cr_leave(y);
}

cr_tensor *cr_interpolate(const cr_tensor *x, int n, const int64_t *size, const cr_interpolate_options *o) {
    const cr_interpolate_options defaults = {0};
    if (!cr_given("interpolate", "x", x)) return NULL;
    if (!o) o = &defaults;
    const interpolation p = {size, o};
    if (cr_check_sizes("interpolate", x, n, size) != CR_OK) return NULL;
    if (!is_nearest(o) && cr_want_float("interpolate", x) != CR_OK) return NULL;
    for (int i = 0; i < n; i++)
        if (size[i] < 1)
            return cr_fail(CR_BAD_VALUE, "interpolate", "the sizes of the result must be 1 or more: %s",
                           cr_shape_text(n, size).s), NULL;
    if (o->antialias && is_nearest(o))
        return cr_fail(CR_BAD_VALUE, "interpolate", "antialias is for linear and cubic interpolation"), NULL;
    return cr_dtype_is_float(x->dtype) ? resampled(x, n, interpolation_band, &p) : nearest_elements(x, n, &p);
}
