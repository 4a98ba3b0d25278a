/* random.c - random numbers: new tensors of them, tensors filled with them, permutations and samples.
 * Each call takes the next blocks of a generator's stream (core/rng.c) and depends on nothing else.
 * Nothing here has a gradient: a draw is no function of its parameters, and filling a tensor cuts it
 * from the graph that it came from. */
#include "compose.h"
#include "transform.h"
#include "walk.h"
#include "../dev/elementary.h"

#include <float.h>
#include <math.h>

/* ---- one draw: a kernel over the next blocks of the stream */
typedef struct drawing { const char *op; double start; uint64_t seed, counter; } drawing;

/* words: how many of 32 bits. */
static drawing begin(const char *op, cr_generator *g, uint64_t words) {
    drawing d = {.op = op};
    d.counter = cr_generator_take(g, words / 4 + (words % 4 != 0), &d.seed);
    d.start = cr_profile_start();
    return d;
}

static cr_status end(const drawing *d, const cr_tensor *y, cr_status kernel) {
    if (d->start > 0) cr_profile_event(d->start, "op", d->op, 0, NULL, 1, &y);
    return cr_finished(d->op, kernel);
}

/* Fills contiguous y with uniform or normal numbers. */
static cr_status draw_floats(const char *op, cr_tensor *y, cr_random_kind kind, cr_generator *g) {
    if (!y->numel) return CR_OK;
    if (cr_await(op, y->storage) != CR_OK) return cr_error_status();
    drawing d = begin(op, g, (uint64_t)y->numel * (y->dtype == CR_F64 ? 2 : 1));
    return end(&d, y, y->dev->kernels->random(&(cr_random_args){y->array, kind, d.seed, d.counter}));
}

/* And with integers from low to low + span - 1; span 0: all of 64 bits. */
static cr_status draw_integers(const char *op, cr_tensor *y, int64_t low, uint64_t span, cr_generator *g) {
    if (!y->numel) return CR_OK;
    if (cr_await(op, y->storage) != CR_OK) return cr_error_status();
    drawing d = begin(op, g, (uint64_t)y->numel * 2);
    return end(&d, y,
               y->dev->kernels->random_integers(&(cr_random_integers_args){y->array, low, span, d.seed, d.counter}));
}

static cr_tensor *drawn(cr_tensor *y, cr_status status) {
    if (y && status == CR_OK) return y;
    cr_release(y);
    return NULL;
}

static cr_tensor *new_floats(const char *op, cr_random_kind kind, int n, const int64_t *shape, cr_dtype dt,
                             const cr_device *dev, cr_generator *g) {
    cr_meta m;
    if (cr_made_meta(op, n, shape, dt, dev, &m) != CR_OK) return NULL;
    if (!cr_dtype_is_float(dt))
        return cr_fail(CR_BAD_TYPE, op, "needs a floating point dtype: %s", cr_dtype_name(dt)), NULL;
    if (cr_lacks(op, "the generator", g)) return NULL;
    int all = n;
    int64_t room[CR_MAX_LEVELS + CR_MAX_DIMS];
    if (!cr_random_begin(op, &all, &shape, room) || cr_made_meta(op, all, shape, dt, dev, &m) != CR_OK) return NULL;
    cr_tensor *y = cr_new_like(&m, dev);
    return cr_random_end(n, drawn(y, y ? draw_floats(op, y, kind, g) : CR_NO_MEMORY));
}

cr_tensor *cr_rand(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    return new_floats("rand", CR_RANDOM_UNIFORM, n, shape, dt, dev, g);
}
cr_tensor *cr_randn(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    return new_floats("randn", CR_RANDOM_NORMAL, n, shape, dt, dev, g);
}

/* ---- tensors filled */

static bool takes_part(const cr_tensor *x) { return cr_grad_enabled() && (x->flags & CR_FLAG_REQUIRES_GRAD); }

/* May draws be written where x lies?  Otherwise they are copied there: into other strides, with a
 * place in the graph. */
static bool direct(const cr_tensor *x) { return x->contiguous && !takes_part(x); }

static bool fillable(const char *op, const cr_tensor *x, const cr_generator *g) {
    if (!cr_given(op, "x", x)) return false;
    if (cr_lacks(op, "the generator", g)) return false;
    if (cr_wrapped(x)) return true;
    return cr_check_writable(op, x, takes_part(x)) == CR_OK;
}

/* x = y, where y is not x itself. */
static cr_tensor *filled(cr_tensor *x, cr_tensor *y, cr_status status) {
    if (!y || status != CR_OK) return NULL;
    if (y == x) {
        cr_count_write(x);
        if (cr_watching()) cr_watching()->writes(1, &x);
        return x;
    }
    return cr_copy_(x, y);
}

/* x = an update of ops.def over uniform or normal numbers; drawn in f32, in f64 for f64 or, where the
 * device has it, where f32's 24 bits are too few. */
typedef struct source { const char *rule; cr_random_kind kind; bool wide; } source;

static cr_tensor *fill_plain(const char *op, cr_tensor *x, source from, const double *params, cr_generator *g) {
    const cr_dtype dt = x->dtype == CR_F64 ? CR_F64 : from.wide ? widest_float(x->dev) : CR_F32;
    cr_scope_begin();
    cr_meta m = cr_meta_of(x);
    m.dtype = dt;
    const bool here = direct(x);
    cr_tensor *u = here && x->dtype == dt ? x : cr_new_like(&m, x->dev),
              *y = here && cr_dtype_is_float(x->dtype) ? x : u;
    cr_status status = u ? draw_floats(op, u, from.kind, g) : CR_NO_MEMORY;
    if (status == CR_OK)
        status = cr_program_update(cr_program_find(from.rule), 1, &y, (const cr_tensor *const *)&u, params);
    x = filled(x, y, status);
    cr_scope_end();
    return x;
}

/* Inside vmap new numbers, the same or different ones for the samples, are copied into x. */
static cr_tensor *fill(const char *op, cr_tensor *x, source from, const double *params, cr_generator *g) {
    int n = x->ndim;
    const int64_t *shape = x->shape;
    int64_t room[CR_MAX_LEVELS + CR_MAX_DIMS];
    if (!cr_random_begin(op, &n, &shape, room)) return NULL;
    if (!cr_wrapped(x) && n == x->ndim) return fill_plain(op, x, from, params, g);
    cr_scope_begin();
    cr_tensor *y = cr_empty(n, shape, x->dtype, x->dev);
    y = y && fill_plain(op, y, from, params, g) ? cr_random_end(x->ndim, cr_alias(y)) : NULL;
    x = y ? cr_copy_(x, y) : NULL;
    cr_scope_end();
    return x;
}

static bool fillable_floats(const char *op, const cr_tensor *x, const cr_generator *g) {
    return fillable(op, x, g) && cr_want_float(op, x) == CR_OK;
}

/* One element of dt, a step below v where rounding took it to v or above. */
static double below(double v, cr_dtype dt) {
    uint16_t h;
    char element[8];
    cr_store_f64(element, dt, v);
    if (cr_load_f64(element, dt) < v) return cr_load_f64(element, dt);
    if (dt == CR_F64) return nextafter(v, -INFINITY);
    if (dt == CR_F32) return (double)nextafterf((float)v, -INFINITY);
    h = dt == CR_F16 ? cr_f32_to_f16((float)v) : cr_f32_to_bf16((float)v);
    h = (uint16_t)(!(h & 0x7fff) ? 0x8001 : h & 0x8000 ? h + 1 : h - 1);      /* sign and magnitude */
    return (double)(dt == CR_F16 ? cr_f16_to_f32(h) : cr_bf16_to_f32(h));
}

cr_tensor *cr_uniform_(cr_tensor *x, double low, double high, cr_generator *g) {
    static const char op[] = "uniform_";
    char element[8];
    if (!fillable_floats(op, x, g)) return NULL;
    if (!(low <= high) || !isfinite(high - low))
        return cr_fail(CR_BAD_VALUE, op, "the range must be finite and not reversed: [%g, %g)", low, high), NULL;
    if (cr_element(op, low, x->dtype, element) != CR_OK || cr_element(op, high, x->dtype, element) != CR_OK)
        return NULL;
    const double most = below(high, x->dtype);
    return fill(op, x, (source){"uniform", CR_RANDOM_UNIFORM, false},
                (double[]){low, high - low, most > low ? most : low}, g);
}

static bool has_spread(const char *op, const char *what, double spread, bool positive) {
    if (positive ? spread > 0 : spread >= 0) return true;
    return cr_fail(CR_BAD_VALUE, op, "the %s must be %s 0: %g", what, positive ? "above" : "at least", spread), false;
}

cr_tensor *cr_normal_(cr_tensor *x, double mean, double std, cr_generator *g) {
    if (!fillable_floats("normal_", x, g) || !has_spread("normal_", "std", std, false)) return NULL;
    return fill("normal_", x, (source){"normal", CR_RANDOM_NORMAL, false}, (double[]){mean, std}, g);
}

cr_tensor *cr_log_normal_(cr_tensor *x, double mean, double std, cr_generator *g) {
    if (!fillable_floats("log_normal_", x, g) || !has_spread("log_normal_", "std", std, true)) return NULL;
    return fill("log_normal_", x, (source){"log_normal", CR_RANDOM_NORMAL, false}, (double[]){mean, std}, g);
}

cr_tensor *cr_cauchy_(cr_tensor *x, double median, double sigma, cr_generator *g) {
    if (!fillable_floats("cauchy_", x, g) || !has_spread("cauchy_", "sigma", sigma, true)) return NULL;
    return fill("cauchy_", x, (source){"cauchy", CR_RANDOM_UNIFORM, false}, (double[]){median, sigma}, g);
}

/* What -log(1 - u) is at least: its mean where u is 0, that is, below the smallest step of u. */
static double least_wait(const cr_tensor *x) { return x->dtype == CR_F64 ? 0x1p-54 : 0x1p-25; }

cr_tensor *cr_exponential_(cr_tensor *x, double rate, cr_generator *g) {
    if (!fillable_floats("exponential_", x, g) || !has_spread("exponential_", "rate", rate, true)) return NULL;
    return fill("exponential_", x, (source){"exponential", CR_RANDOM_UNIFORM, false},
                (double[]){1 / rate, least_wait(x)}, g);
}

/* In double: a number of trials may be as large as 2^53 log(2) / p. */
cr_tensor *cr_geometric_(cr_tensor *x, double p, cr_generator *g) {
    if (!fillable("geometric_", x, g)) return NULL;
    if (!(p > 0 && p < 1)) return cr_fail(CR_BAD_VALUE, "geometric_", "the chance must be in (0, 1): %g", p), NULL;
    return fill("geometric_", x, (source){"geometric", CR_RANDOM_UNIFORM, true}, (double[]){cr_f64_log1p(-p)}, g);
}

cr_tensor *cr_gumbel(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    cr_meta m;
    if (cr_made_meta("gumbel", n, shape, dt, dev, &m) != CR_OK) return NULL;
    int all = n;
    int64_t room[CR_MAX_LEVELS + CR_MAX_DIMS];
    if (!cr_random_begin("gumbel", &all, &shape, room) || cr_made_meta("gumbel", all, shape, dt, dev, &m) != CR_OK)
        return NULL;
    cr_tensor *y = cr_new_like(&m, dev);
    if (!y) return NULL;
    bool ok = fillable_floats("gumbel", y, g) &&
              fill_plain("gumbel", y, (source){"gumbel", CR_RANDOM_UNIFORM, false}, (double[]){least_wait(y)}, g);
    return cr_random_end(n, drawn(y, ok ? CR_OK : cr_error_status()));
}

/* ---- integers */

/* Do all integers from low to high - 1 fit dt? */
static cr_status check_bounds(const char *op, int64_t low, int64_t high, cr_dtype dt) {
    char element[8];
    if (low >= high)
        return cr_fail(CR_BAD_VALUE, op, "low must be below high: %lld, %lld", (long long)low, (long long)high);
    if (dt == CR_I64) return CR_OK;
    cr_status status = cr_element(op, (double)low, dt, element);
    return status == CR_OK ? cr_element(op, (double)(high - 1), dt, element) : status;
}

cr_tensor *cr_randint(int64_t low, int64_t high, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev,
                      cr_generator *g) {
    cr_meta m;
    if (cr_made_meta("randint", n, shape, dt, dev, &m) != CR_OK || check_bounds("randint", low, high, dt) != CR_OK)
        return NULL;
    if (cr_lacks("randint", "the generator", g)) return NULL;
    int all = n;
    int64_t room[CR_MAX_LEVELS + CR_MAX_DIMS];
    if (!cr_random_begin("randint", &all, &shape, room) ||
        cr_made_meta("randint", all, shape, dt, dev, &m) != CR_OK)
        return NULL;
    cr_tensor *y = cr_new_like(&m, dev);
    return cr_random_end(n, drawn(y, y ? draw_integers("randint", y, low, (uint64_t)high - (uint64_t)low, g)
                                       : CR_NO_MEMORY));
}

/* n such that dt holds every integer below n exactly; 0: 2^64. */
static uint64_t all_of(cr_dtype dt) {
    const int digits = cr_dtype_digits(dt);
    return digits == 64 ? 0 : (UINT64_C(1) << digits) + (cr_dtype_kind(dt) == CR_KIND_FLOAT);
}

static cr_tensor *fill_integers(cr_tensor *x, int64_t low, uint64_t span, cr_generator *g) {
    cr_scope_begin();
    int n = x->ndim;
    const int64_t *shape = x->shape;
    int64_t room[CR_MAX_LEVELS + CR_MAX_DIMS];
    const bool may = cr_random_begin("random_", &n, &shape, room), each = cr_wrapped(x) || n != x->ndim;
    cr_tensor *y = !may ? NULL : direct(x) && !each ? x : cr_empty(n, shape, x->dtype, x->dev);
    cr_status status = y ? draw_integers("random_", y, low, span, g) : cr_error_status();
    if (each && status == CR_OK) y = cr_random_end(x->ndim, cr_alias(y));
    x = filled(x, y, status);
    cr_scope_end();
    return x;
}

cr_tensor *cr_random_(cr_tensor *x, int64_t low, int64_t high, cr_generator *g) {
    if (!fillable("random_", x, g) || check_bounds("random_", low, high, x->dtype) != CR_OK) return NULL;
    return fill_integers(x, low, (uint64_t)high - (uint64_t)low, g);
}

cr_tensor *cr_random_all_(cr_tensor *x, cr_generator *g) {
    return fillable("random_", x, g) ? fill_integers(x, 0, all_of(x->dtype), g) : NULL;
}

/* ---- tensors of parameters */

/* Every element in [low, high]: else the first that is not, and where. */
static cr_status check_elements(const char *op, const char *rule, const cr_tensor *t, double low, double high) {
    if (!t->numel || cr_watching() || cr_wrapped(t)) return CR_OK;     /* a recorded step, or vmap, reads no values */
    cr_scope_begin();
    const bool recording = cr_set_grad_enabled(false);
    cr_tensor *least = cr_min(t, CR_ALL, false), *most = least ? cr_max(t, CR_ALL, false) : NULL;
    cr_status status = most ? CR_OK : cr_error_status();
    if (most && !(cr_item(least) >= low && cr_item(most) <= high)) {     /* NaN is both */
        cr_tensor *line = cr_reshape(cr_to(t, CR_F64, cr_cpu()), CR_LIST(-1)),
                  *inside = cr_logical_and(cr_ge(line, cr_scalar(low)), cr_le(line, cr_scalar(high)));
        cr_tensor *first = inside ? cr_argmin(cr_to(inside, CR_U8, cr_cpu()), 0, false) : NULL;
        int64_t at = first ? cr_item_int(first) : 0, index[CR_MAX_DIMS];
        const double bad = line && first ? cr_item(cr_select(line, 0, at)) : 0;
        for (int d = t->ndim - 1; d >= 0; at /= t->shape[d], d--) index[d] = at % t->shape[d];
        status = !first    ? cr_error_status()
                 : t->ndim ? cr_fail(CR_BAD_VALUE, op, "%s: %g at %s", rule, bad, cr_shape_text(t->ndim, index).s)
                           : cr_fail(CR_BAD_VALUE, op, "%s: %g", rule, bad);
    }
    cr_set_grad_enabled(recording);
    cr_scope_end();
    return status;
}

/* Where uniform numbers of this shape are below p; in the scope of the caller. */
static cr_tensor *hits(const char *op, int n, const int64_t *shape, const cr_device *dev, const cr_tensor *p,
                       cr_generator *g) {
    if (!cr_given(op, "p", p) || cr_want_float(op, p) != CR_OK) return NULL;
    if (check_elements(op, "the chance must be in [0, 1]", p, 0, 1) != CR_OK) return NULL;
    const bool wide = p->dtype == CR_F64 && !(p->flags & CR_FLAG_WEAK);
    cr_tensor *u = new_floats(op, CR_RANDOM_UNIFORM, n, shape, wide ? CR_F64 : CR_F32, dev, g);
    return u ? cr_lt(u, p) : NULL;
}

cr_tensor *cr_bernoulli_(cr_tensor *x, const cr_tensor *p, cr_generator *g) {
    if (!fillable("bernoulli_", x, g)) return NULL;
    cr_scope_begin();
    cr_tensor *hit = hits("bernoulli_", x->ndim, x->shape, x->dev, p, g);
    x = hit ? cr_copy_(x, hit) : NULL;
    cr_scope_end();
    return x;
}

cr_tensor *cr_bernoulli(double p, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    cr_meta m;
    if (cr_made_meta("bernoulli", n, shape, dt, dev, &m) != CR_OK) return NULL;
    cr_scope_begin();
    return cr_leave(cast_to(hits("bernoulli", n, shape, dev, cr_scalar(p), g), dt));
}

cr_tensor *cr_bernoulli_of(const cr_tensor *p, cr_generator *g) {
    if (!cr_given("bernoulli", "p", p) || cr_want_float("bernoulli", p) != CR_OK) return NULL;
    cr_scope_begin();
    return cr_leave(cast_to(hits("bernoulli", p->ndim, p->shape, p->dev, p, g), p->dtype));
}

cr_tensor *cr_normal(const cr_tensor *mean, const cr_tensor *std, cr_generator *g) {
    static const char op[] = "normal";
    cr_dtype compute, dt;
    int n;
    int64_t shape[CR_MAX_DIMS];
    if (!cr_given(op, "mean", mean) || !cr_given(op, "std", std) || cr_want_float(op, mean) != CR_OK ||
        cr_want_float(op, std) != CR_OK)
        return NULL;
    if (cr_broadcast(op, mean->ndim, mean->shape, std->ndim, std->shape, &n, shape) != CR_OK) return NULL;
    if (cr_rule_dtypes(cr_program_find("mul"), (const cr_tensor *const[]){mean, std}, &compute, &dt) != CR_OK)
        return NULL;
    if (check_elements(op, "the std must be at least 0", std, 0, INFINITY) != CR_OK) return NULL;
    cr_scope_begin();
    const bool recording = cr_set_grad_enabled(false);
    cr_tensor *z = cr_randn(n, shape, dt, (mean->flags & CR_FLAG_WEAK ? std : mean)->dev, g),
              *y = z ? add(mean, mul(std, z)) : NULL;
    cr_set_grad_enabled(recording);
    return cr_leave(y);
}

/* ---- permutations and samples */
cr_tensor *cr_randperm(int64_t n, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    cr_meta m;
    char element[8];
    if (cr_made_meta("randperm", CR_LIST(n), dt, dev, &m) != CR_OK ||
        cr_made_meta("randperm", CR_LIST(n), CR_I64, dev, &m) != CR_OK)
        return NULL;
    if (dt == CR_BOOL) return cr_fail(CR_BAD_TYPE, "randperm", "bool does not hold positions"), NULL;
    if (n && cr_element("randperm", (double)(n - 1), dt, element) != CR_OK) return NULL;
    if (cr_lacks("randperm", "the generator", g) || !cr_random_same("randperm")) return NULL;
    cr_scope_begin();
    cr_tensor *y = cr_new_like(&m, dev);
    if (y && n) {
        drawing d = begin("randperm", g, 2 * (uint64_t)n);
        if (end(&d, y, dev->kernels->permutation(&(cr_permutation_args){y->array, d.seed, d.counter})) != CR_OK)
            y = NULL;
    }
    return cr_leave(cast_to(y, dt));
}

/* Has each row of w at least `least` weights above 0? */
static cr_status check_rows(const char *op, const cr_tensor *w, int64_t least) {
    if (cr_watching()) return CR_OK;
    cr_scope_begin();
    const bool recording = cr_set_grad_enabled(false);
    cr_tensor *some = cr_sum(cr_gt(w, cr_scalar(0)), CR_LIST(-1), false),
              *fewest = some ? cr_min(some, CR_ALL, false) : NULL;
    cr_status status = fewest ? CR_OK : cr_error_status();
    if (fewest && cr_item_int(fewest) < least) {
        const long long row = some->ndim ? (long long)cr_item_int(cr_argmin(some, 0, false)) : 0,
                        has = (long long)cr_item_int(fewest);
        status = has ? cr_fail(CR_BAD_VALUE, op,
                               "%lld samples without replacement from row %lld, which has %lld weights above 0",
                               (long long)least, row, has)
                     : cr_fail(CR_BAD_VALUE, op, "the weights of row %lld sum to 0", row);
    }
    cr_set_grad_enabled(recording);
    cr_scope_end();
    return status;
}

cr_tensor *cr_multinomial(const cr_tensor *w, int64_t n, bool replacement, cr_generator *g) {
    static const char op[] = "multinomial";
    if (!cr_given(op, "the weights", w) || cr_want_float(op, w) != CR_OK) return NULL;
    if (w->ndim < 1 || w->ndim > 2)
        return cr_fail(CR_BAD_VALUE, op, "needs weights (N) or (M, N): %s", cr_shape_text(w->ndim, w->shape).s), NULL;
    if (n < 1) return cr_fail(CR_BAD_VALUE, op, "%lld samples: at least 1 is expected", (long long)n), NULL;
    if (cr_lacks(op, "the generator", g)) return NULL;
    if (!cr_random_same(op) || cr_want_elements(op, w) != CR_OK) return NULL;
    int64_t M, N;
    cr_rows_of(w, &M, &N);
    if (N == 0 || (!replacement && n > N))
        return cr_fail(CR_BAD_VALUE, op, "%lld samples %s replacement from %lld weights", (long long)n,
                       replacement ? "with" : "without", (long long)N),
               NULL;
    if (check_elements(op, "weights are finite and not negative", w, 0, DBL_MAX / (double)N) != CR_OK) return NULL;
    if (M && check_rows(op, w, replacement ? 1 : n) != CR_OK) return NULL;
    cr_meta m;
    if (cr_made_meta(op, w->ndim, w->ndim == 1 ? (int64_t[]){n} : (int64_t[]){M, n}, CR_I64, w->dev, &m) != CR_OK)
        return NULL;
    cr_tensor *packed = cr_packed_as(w, wide_dtype(w)), *y = packed ? cr_new_like(&m, w->dev) : NULL;
    cr_status status = y ? cr_await(op, packed->storage) : CR_NO_MEMORY;
    if (status == CR_OK && y->numel) {
        drawing d = begin(op, g, 2 * (uint64_t)(replacement ? M * n : M * N));
        status = end(
            &d, y,
            w->dev->kernels->multinomial(&(cr_multinomial_args){.y = cr_array_as(&y->array, CR_LIST(M, n)),
                                                                .w = cr_array_as(&packed->array, CR_LIST(M, N)),
                                                                .replacement = replacement,
                                                                .seed = d.seed,
                                                                .counter = d.counter}));
    }
    cr_release(packed);
    return drawn(y, status);
}
