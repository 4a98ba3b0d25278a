/* init.c - initial values for weights, by torch.nn.init's formulas.  The numbers come from the given
 * generator in the order of the elements, so a seed gives the same weights on every device.
 * Half-precision tensors are drawn in f32 and rounded. */
#include <chainrule.h>

#include <math.h>
#include <stdlib.h>

#include "../core/status.h"

static cr_status check_float(const char *op, const cr_tensor *t) {
    if (cr_lacks_tensor(op, "the tensor", t)) return cr_error_status();
    if (cr_is_none(t)) return cr_fail(CR_BAD_VALUE, op, "the tensor may not be CR_NONE");
    if (!cr_dtype_is_float(cr_dtype_of(t)))
        return cr_fail(CR_BAD_TYPE, op, "only float tensors can be initialised, not %s", cr_dtype_name(cr_dtype_of(t)));
    return CR_OK;
}

static cr_dtype wide(const cr_tensor *t) { return cr_dtype_of(t) == CR_F64 ? CR_F64 : CR_F32; }

/* Uniform or normal numbers of t's shape and device; in the thread's scope. */
static cr_tensor *draw(const cr_tensor *t, bool gaussian, cr_generator *g) {
    const cr_dtype dt = wide(t);
    return gaussian ? cr_randn(cr_ndim(t), cr_shape(t), dt, cr_device_of(t), g)
                    : cr_rand(cr_ndim(t), cr_shape(t), dt, cr_device_of(t), g);
}

/* out = program(in...), written in place without a gradient. */
static cr_status write_values(const char *name, const char *inputs, const char *params, const char *body,
                              cr_tensor *const *out, const cr_tensor *const *in, const double *values) {
    cr_program *p = cr_program_new(name, inputs, params, body);
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = p ? cr_program_update(p, 1, out, in, values) : cr_error_status();
    cr_set_grad_enabled(recording);
    cr_program_free(p);
    return status;
}

/* Runs cr_normal_ or cr_uniform_ on t, which may be a leaf. */
typedef cr_tensor *(*filler)(cr_tensor *t, double a, double b, cr_generator *g);
static cr_status fill(cr_tensor *t, filler f, double a, double b, cr_generator *g) {
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = f(t, a, b, g) ? CR_OK : cr_error_status();
    cr_set_grad_enabled(recording);
    return status;
}

cr_status cr_init_uniform(cr_tensor *t, double low, double high, cr_generator *g) {
    cr_status status = check_float("init_uniform", t);
    if (status != CR_OK) return status;
    if (!(low <= high) || !isfinite(high - low))
        return cr_fail(CR_BAD_VALUE, "init_uniform", "the range must be finite and not empty: [%g, %g)", low, high);
    return fill(t, cr_uniform_, low, high, g);
}

static cr_status check_std(const char *op, double mean, double std) {
    if (!isfinite(mean)) return cr_fail(CR_BAD_VALUE, op, "mean must be finite, not %g", mean);
    if (!(std >= 0) || !isfinite(std))
        return cr_fail(CR_BAD_VALUE, op, "std must be finite and at least 0, not %g", std);
    return CR_OK;
}

cr_status cr_init_normal(cr_tensor *t, double mean, double std, cr_generator *g) {
    cr_status status = check_float("init_normal", t);
    if (status == CR_OK) status = check_std("init_normal", mean, std);
    return status != CR_OK ? status : fill(t, cr_normal_, mean, std, g);
}

/* ---- truncated normal by rejection.  If [low, high] has more than 0.3 of the normal's mass, numbers
 * outside are drawn again. Otherwise candidates are uniform and accepted with probability density /
 * peak, as in torch.  The interval is first reduced to the part where this probability is above e^-40,
 * so at least one candidate in fifty is accepted.  The number of rounds is bounded, because the dtype
 * may have no number in the interval. */
enum { REDRAWS = 200, CANDIDATES = 5000 };
static double normal_cdf(double x) { return 0.5 * erfc(-x / sqrt(2)); }

static cr_status redraw_outside(cr_tensor *y, double mean, double std, double low, double high, cr_generator *g) {
    static const char body[] = "fresh = mean + u * std; z = where(y >= low, where(y <= high, y, fresh), fresh); z";
    for (int round = 0; round < REDRAWS; round++) {
        cr_status status = CR_OK;
        cr_scope_begin();
        const double least = cr_item(cr_min(y, CR_ALL, false)), most = cr_item(cr_max(y, CR_ALL, false));
        const bool inside = least >= low && most <= high;
        const cr_tensor *u = inside ? NULL : draw(y, true, g);
        if (u)
            status = write_values("init_trunc_normal", "y u", "mean std low high", body, &y,
                                  (const cr_tensor *[]){y, u}, (double[]){mean, std, low, high});
        else if (!inside) status = cr_error_status();
        cr_scope_end();
        if (inside || status) return status;
    }
    return cr_fail(CR_BAD_VALUE, "init_trunc_normal", "%s has no numbers in [%g, %g] for mean %g, std %g",
                   cr_dtype_name(cr_dtype_of(y)), low, high, mean, std);
}

static cr_status accept_uniform(cr_tensor *y, double mean, double std, double low, double high, cr_generator *g) {
    static const char body[] =
        "x = low + a * width; d = (x - nearest) / std; hit = where(b < exp(-d * (d + z + z) / 2), w, 0); "
                               /* density at x over the largest density, at nearest */
        "r = where(hit > 0, x, y); left = w - hit; r, left";
    const double nearest = mean < low    ? low
                           : mean > high ? high
                                         : mean,
                 z = (nearest - mean) / std, reach = std * sqrt(z * z + 80);
    if (high > mean + reach) high = mean + reach;
    if (low < mean - reach) low = mean - reach;
    double left = 1;
    cr_scope_begin();
    cr_tensor *waiting = cr_ones_like(y);
    cr_status status = waiting ? CR_OK : cr_error_status();
    for (int round = 0; round < CANDIDATES && left > 0; round++) {
        if (status != CR_OK) break;
        cr_scope_begin();
        const cr_tensor *a = draw(y, false, g), *b = draw(y, false, g);
        status = a && b
                     ? write_values("init_trunc_normal", "y w a b", "nearest std low width z", body,
                                    (cr_tensor *[]){y, waiting},
                                    (const cr_tensor *[]){y, waiting, a, b},
                                    (double[]){nearest, std, low, high - low, z})
                     : cr_error_status();
        if (status == CR_OK) left = cr_item(cr_max(waiting, CR_ALL, false));
        cr_scope_end();
    }
    cr_scope_end();
    if (status == CR_OK && isnan(left)) status = cr_error_status();
    if (status != CR_OK || left <= 0) return status;
    return cr_fail(CR_BAD_VALUE, "init_trunc_normal", "%s has no numbers in [%g, %g] for mean %g, std %g",
                   cr_dtype_name(cr_dtype_of(y)), low, high, mean, std);
}

cr_status cr_init_trunc_normal(cr_tensor *t, double mean, double std, double low, double high, cr_generator *g) {
    static const char op[] = "init_trunc_normal";
    cr_status status = check_float(op, t);
    if (status == CR_OK) status = check_std(op, mean, std);
    if (status != CR_OK) return status;
    if (!(std > 0)) return cr_fail(CR_BAD_VALUE, op, "std must be above 0, not %g", std);
    if (cr_dtype_of(t) != CR_F64) { low = (float)low; high = (float)high; }        /* as the program sees them */
    if (!(low < high)) return cr_fail(CR_BAD_VALUE, op, "low must be below high: [%g, %g]", low, high);
    if (!(fmin(fabs(low - mean), fabs(high - mean)) < 1e6 * std) && !(low < mean && mean < high))
        return cr_fail(CR_BAD_VALUE, op, "[%g, %g] is more than 1e6 std away from the mean: mean %g, std %g", low, high,
                       mean, std);
    if (!cr_numel(t)) return CR_OK;
    const bool recording = cr_set_grad_enabled(false);
    const bool much = normal_cdf((high - mean) / std) - normal_cdf((low - mean) / std) > 0.3;
    cr_scope_begin();
    /* in full precision for every dtype of t */
    cr_tensor *y = cr_empty(cr_ndim(t), cr_shape(t), wide(t), cr_device_of(t));
    if (!y || (much && !cr_normal_(y, mean, std, g))) status = cr_error_status();
    if (status == CR_OK)
        status = much ? redraw_outside(y, mean, std, low, high, g) : accept_uniform(y, mean, std, low, high, g);
    if (status == CR_OK && !cr_copy_(t, y)) status = cr_error_status();
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

/* ---- by fan: w (OC, C, ...): fan_in C, fan_out OC, each times the elements behind ---- */
static cr_status fans(const char *op, const cr_tensor *t, double *in, double *out) {
    cr_status status = check_float(op, t);
    if (status != CR_OK) return status;
    if (cr_ndim(t) < 2) return cr_fail(CR_BAD_VALUE, op, "needs at least two axes, (OC, C, ...), not %d", cr_ndim(t));
    const int64_t *shape = cr_shape(t);
    double behind = 1;
    for (int i = 2; i < cr_ndim(t); i++) behind *= (double)shape[i];
    *in = (double)shape[1] * behind;
    *out = (double)shape[0] * behind;
    return CR_OK;
}

static cr_status check_number(const char *op, const char *what, double v) {
    return isfinite(v) ? CR_OK : cr_fail(CR_BAD_VALUE, op, "%s must be finite, not %g", what, v);
}

/* Xavier: std = gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010).  Kaiming: std = sqrt(2 /
 * ((1 + a^2) fan_in)) (He et al. 2015). The uniform distribution of the same std reaches sqrt(3) std. */
static cr_status by_std(cr_tensor *t, filler f, double std, cr_generator *g) {
    if (!cr_numel(t)) return CR_OK;
    const double reach = sqrt(3) * fabs(std);
    return f == cr_normal_ ? fill(t, f, 0, fabs(std), g) : fill(t, f, -reach, reach, g);
}

static cr_status xavier(const char *op, cr_tensor *t, filler f, double gain, cr_generator *g) {
    double in, out;
    cr_status status = fans(op, t, &in, &out);
    if (status == CR_OK) status = check_number(op, "gain", gain);
    return status != CR_OK ? status : by_std(t, f, gain * sqrt(2 / (in + out)), g);
}

static cr_status kaiming(const char *op, cr_tensor *t, filler f, double a, cr_generator *g) {
    double in, out;
    cr_status status = fans(op, t, &in, &out);
    if (status == CR_OK) status = check_number(op, "a", a);
    return status != CR_OK ? status : by_std(t, f, sqrt(2 / ((1 + a * a) * in)), g);
}

cr_status cr_init_xavier_uniform(cr_tensor *t, double gain, cr_generator *g) {
    return xavier("init_xavier_uniform", t, cr_uniform_, gain, g);
}
cr_status cr_init_xavier_normal(cr_tensor *t, double gain, cr_generator *g) {
    return xavier("init_xavier_normal", t, cr_normal_, gain, g);
}
cr_status cr_init_kaiming_uniform(cr_tensor *t, double a, cr_generator *g) {
    return kaiming("init_kaiming_uniform", t, cr_uniform_, a, g);
}
cr_status cr_init_kaiming_normal(cr_tensor *t, double a, cr_generator *g) {
    return kaiming("init_kaiming_normal", t, cr_normal_, a, g);
}

/* ---- orthogonal: the rows of a (k, n) normal matrix, k <= n, made orthonormal one after the other
 * (modified Gram-Schmidt, twice, which is orthogonal to rounding: Giraud, Langou, Rozloznik 2005).
 * Each keeps its own direction, as with R's diagonal positive in a QR. */
static double dot(int64_t n, const double *x, const double *y) {
    double s[8] = {0};                              /* eight sums, which the compiler can vectorize */
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) for (int j = 0; j < 8; j++) s[j] += x[i + j] * y[i + j];
    for (; i < n; i++) s[0] += x[i] * y[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static void orthonormalise(int64_t k, int64_t n, double *a) {
    for (int64_t i = 0; i < k; i++) {
        double *x = a + i * n;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t j = 0; j < i; j++) {
                const double *y = a + j * n, d = dot(n, x, y);
                for (int64_t c = 0; c < n; c++) x[c] -= d * y[c];
            }
        const double length = sqrt(dot(n, x, x));
        for (int64_t c = 0; c < n; c++) x[c] /= length;
    }
}

static void transpose(int64_t rows, int64_t cols, const double *from, double *to) {
    for (int64_t r = 0; r < rows; r++) for (int64_t c = 0; c < cols; c++) to[c * rows + r] = from[r * cols + c];
}

/* a (rows, cols) becomes gain times an orthogonal matrix; b: room for its transpose. */
static void orthogonalise(int64_t rows, int64_t cols, double *a, double *b, double gain) {
    if (rows <= cols) {
        orthonormalise(rows, cols, a);
    } else {
        transpose(rows, cols, a, b);
        orthonormalise(cols, rows, b);
        transpose(cols, rows, b, a);
    }
    for (int64_t i = 0; i < rows * cols; i++) a[i] *= gain;
}

static cr_status draw_orthogonal(cr_tensor *t, double gain, cr_generator *g, double *a, double *b) {
    const int64_t rows = cr_shape(t)[0], cols = cr_numel(t) / rows;
    const size_t bytes = (size_t)cr_numel(t) * sizeof(double);
    cr_scope_begin();
    const cr_tensor *drawn = draw(t, true, g);
    cr_status status = drawn ? cr_read(drawn, CR_F64, a, bytes) : cr_error_status();
    cr_scope_end();
    if (status != CR_OK) return status;
    orthogonalise(rows, cols, a, b, gain);
    const bool recording = cr_set_grad_enabled(false);
    status = cr_write(t, CR_F64, a, bytes);
    cr_set_grad_enabled(recording);
    return status;
}

cr_status cr_init_orthogonal(cr_tensor *t, double gain, cr_generator *g) {
    static const char op[] = "init_orthogonal";
    double in, out;
    cr_status status = fans(op, t, &in, &out);
    if (status == CR_OK) status = check_number(op, "gain", gain);
    if (status != CR_OK || !cr_numel(t)) return status;
    const size_t bytes = (size_t)cr_numel(t) * sizeof(double);
    double *a = malloc(bytes), *b = malloc(bytes);
    status = a && b ? draw_orthogonal(t, gain, g, a, b)
                    : cr_fail(CR_NO_MEMORY, op, "no memory for %lld doubles", (long long)cr_numel(t));
    free(a);
    free(b);
    return status;
}
