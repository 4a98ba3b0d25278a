/* composites.c - functions of PyTorch's namespace that are compositions of others. */
#include "extension.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAST(x, k) (cr_ndim(x) - (k))

static cr_tensor *alias(const cr_tensor *x) { return cr_expand(x, cr_ndim(x), cr_shape(x)); }

/* ---- made from numbers */
/* (start, end, steps, base, dtype, device, requires_grad) */
cr_tensor *api_logspace(const arg *a) {
    cr_scope_begin();
    cr_tensor *at = cr_linspace(a[0].x.d, a[1].x.d, a[2].i, CR_F64, a[5].dev);
    cr_tensor *y = leave(cast(cr_pow(cr_scalar(a[3].d), at), a[4].dt));
    return y && a[6].b ? cr_requires_grad_(y, true) : y;
}

/* (row, col, offset, dtype, device) */
static cr_tensor *triangle(const arg *a, cr_tensor *(*f)(const cr_tensor *, int64_t)) {
    cr_scope_begin();
    cr_tensor *at = cr_nonzero(f(cr_ones(CR_LIST(a[0].i, a[1].i), CR_U8, a[4].dev), a[2].i));
    return leave(cast(cr_contiguous(cr_transpose(at, 0, 1)), a[3].given ? a[3].dt : CR_I64));
}
cr_tensor *api_tril_indices(const arg *a) { return triangle(a, cr_tril); }
cr_tensor *api_triu_indices(const arg *a) { return triangle(a, cr_triu); }

/* (input, value) */
cr_tensor *api_fill(const arg *a) {
    const cr_tensor *x = a[0].t;
    if (cr_ndim(a[1].t)) {
        set_error(PyExc_RuntimeError, "[fill] the value is a number or a 0-d tensor, not of %d",
                  cr_ndim(a[1].t));
        return NULL;
    }
    cr_scope_begin();
    return leave(cr_where(cr_full(0, NULL, 1, CR_BOOL, cr_device_of(x)),
                          cr_to(a[1].t, cr_dtype_of(x), cr_device_of(x)), x));
}

/* ---- joined and turned */
/* (tensors): with at least three axes, (N) as (1, N, 1), (M, N) as (M, N, 1), along axis 2; else vectors as columns */
static cr_tensor *stacked(const arg *a, bool deep) {
    const cr_tensor **in = a[0].list.v;
    const int n = a[0].list.n;
    cr_scope_begin();
    const cr_tensor **grown = malloc(sizeof *grown * (size_t)(n ? n : 1));
    if (!grown) {
        set_error(PyExc_MemoryError, "no memory for a list of %d tensors", n);
        return leave(NULL);
    }
    for (int i = 0; i < n; i++) {
        const int ndim = cr_ndim(in[i]);
        grown[i] = in[i];
        if (deep && ndim == 0) grown[i] = cr_reshape(in[i], CR_LIST(1, 1, 1));
        else if (deep && ndim == 1) grown[i] = cr_reshape(in[i], CR_LIST(1, cr_size(in[i], 0), 1));
        else if (deep && ndim == 2) grown[i] = cr_unsqueeze(in[i], 2);
        else if (!deep && ndim < 2) grown[i] = cr_reshape(in[i], CR_LIST(cr_numel(in[i]), 1));
    }
    cr_tensor *y = cr_cat(n, grown, deep ? 2 : 1);
    free((void *)grown);
    return leave(y);
}
cr_tensor *api_dstack(const arg *a) { return stacked(a, true); }
cr_tensor *api_column_stack(const arg *a) { return stacked(a, false); }

/* (input, k, dims) */
cr_tensor *api_rot90(const arg *a) {
    const cr_tensor *x = a[0].t;
    const int n = cr_ndim(x), turns = (int)((a[1].i % 4 + 4) % 4);
    int64_t axes[2] = {0, 1};
    if (a[2].given && a[2].size.n == 2) memcpy(axes, a[2].size.v, sizeof axes);
    if ((a[2].given && a[2].size.n != 2) || n < 2) {
        set_error(PyExc_RuntimeError, "[rot90] takes two axes of at least two, got %d of %d",
                  a[2].given ? a[2].size.n : 2, n);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        if (axes[i] < -n || axes[i] >= n) {
            set_error(PyExc_IndexError, "[rot90] axis %lld of a tensor of %d axes", (long long)axes[i], n);
            return NULL;
        }
        if (axes[i] < 0) axes[i] += n;
    }
    if (axes[0] == axes[1]) {
        set_error(PyExc_RuntimeError, "[rot90] axis %lld is named twice", (long long)axes[0]);
        return NULL;
    }
    cr_scope_begin();
    if (turns == 0) return leave(cr_clone(x));
    if (turns == 2) return leave(cr_flip(x, 2, axes));
    return leave(cr_contiguous(cr_transpose(cr_flip(x, 1, &axes[turns == 1]), (int)axes[0], (int)axes[1])));
}

cr_tensor *api_diagflat(const arg *a) {
    cr_scope_begin();
    return leave(cr_diag(cr_flatten(a[0].t, 0, -1), a[1].i));
}

/* ---- a part of a copy replaced */
static cr_tensor *with_part(const cr_tensor *x, const cr_tensor *src, cr_tensor *(*part)(cr_tensor *y, const arg *a),
                            const arg *a) {
    cr_scope_begin();
    cr_tensor *y = cr_level_of(src) > cr_level_of(x) ? cr_wrapped_as(src, x) : cr_clone(x), *at = y ? part(y, a) : NULL;
    if (at && (cr_ndim(at) != cr_ndim(src) ||
               memcmp(cr_shape(at), cr_shape(src), (size_t)cr_ndim(at) * sizeof(int64_t)))) {
        set_error(PyExc_RuntimeError, "expected src to have a size equal to the part of self that it replaces");
        return leave(NULL);
    }
    return leave(at && cr_copy_(at, src) ? y : NULL);
}
static cr_tensor *selected(cr_tensor *y, const arg *a) { return cr_select(y, axis(a[2].i), a[3].i); }
static cr_tensor *sliced(cr_tensor *y, const arg *a) {
    return cr_slice(y, axis(a[2].i), a[3].given ? a[3].i : 0, a[4].given ? a[4].i : INT64_MAX, a[5].i);
}
static cr_tensor *on_diagonal(cr_tensor *y, const arg *a) {
    return cr_diagonal(y, a[2].i, axis(a[3].i), axis(a[4].i));
}
cr_tensor *api_select_scatter(const arg *a) { return with_part(a[0].t, a[1].t, selected, a); }
cr_tensor *api_slice_scatter(const arg *a) { return with_part(a[0].t, a[1].t, sliced, a); }
cr_tensor *api_diagonal_scatter(const arg *a) { return with_part(a[0].t, a[1].t, on_diagonal, a); }

/* ---- elementwise */
PyObject *api_positive(const arg *a) {
    if (cr_dtype_of(a[0].t) != CR_BOOL) return Py_NewRef(a[0].from);
    return PyErr_Format(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
}
cr_tensor *api_float_power(const arg *a) {
    cr_scope_begin();
    return leave(cr_pow(cast(a[0].t, CR_F64), cast(a[1].t, CR_F64)));
}
cr_tensor *api_heaviside(const arg *a) {
    const cr_tensor *x = a[0].t, *values = a[1].t;
    if (cr_dtype_of(x) != cr_dtype_of(values)) {
        set_error(PyExc_RuntimeError, "[heaviside] the dtypes differ: %s and %s", cr_dtype_name(cr_dtype_of(x)),
                  cr_dtype_name(cr_dtype_of(values)));
        return NULL;
    }
    cr_scope_begin();
    x = cr_detach(x);
    return leave(cr_where(cr_eq(x, cr_scalar_int(0)), cr_detach(values),
                          cast(cr_gt(x, cr_scalar_int(0)), cr_dtype_of(a[0].t))));
}

/* ---- distances and integrals */
cr_tensor *api_dist(const arg *a) {
    cr_scope_begin();
    return leave(cr_norm(cr_sub(a[0].t, a[1].t), a[2].x.d, CR_ALL, false));
}

/* sqrt(d), 0 with gradient 0 where d is not above 0 */
static cr_tensor *root(const cr_tensor *d) {
    const cr_tensor *above = cr_gt(d, cr_scalar_int(0));
    return cr_where(above, cr_sqrt(cr_where(above, d, cr_scalar(1))), cr_scalar(0));
}

/* (x1, x2, p, compute_mode): (..., P, M), (..., R, M) -> (..., P, R) */
cr_tensor *api_cdist(const arg *a) {
    const cr_tensor *x = a[0].t, *y = a[1].t;
    static const char *const modes[] = {"use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                                        "donot_use_mm_for_euclid_dist"};
    int mode = 0;
    while (mode < 3 && strcmp(a[3].s, modes[mode])) mode++;
    if (cr_ndim(x) < 2 || cr_ndim(y) < 2 || cr_size(x, -1) != cr_size(y, -1) || mode == 3 || a[2].d < 0) {
        set_error(mode == 3 ? PyExc_ValueError : PyExc_RuntimeError,
                  mode == 3 ? "[cdist] there is no compute_mode '%s'"
                            : "[cdist] takes tensors of rows of one length, and p from 0 up", a[3].s);
        return NULL;
    }
    if (!cr_dtype_is_float(cr_dtype_of(x)) || !cr_dtype_is_float(cr_dtype_of(y))) {
        set_error(bad_type, "[cdist] takes floats, got %s and %s", cr_dtype_name(cr_dtype_of(x)),
                  cr_dtype_name(cr_dtype_of(y)));
        return NULL;
    }
    cr_scope_begin();
    const bool many = mode == 1 || (mode == 0 && (cr_size(x, -2) > 25 || cr_size(y, -2) > 25));
    if (a[2].d == 2 && many) {                       /* |x|^2 + |y|^2 - 2 x y^T */
        cr_tensor *xx = cr_sum(cr_square(x), CR_LIST(-1), true),
                  *yy = cr_transpose(cr_sum(cr_square(y), CR_LIST(-1), true), -2, -1);
        return leave(root(cr_sub(cr_add(xx, yy), cr_mul_scalar(cr_matmul(x, cr_transpose(y, -2, -1)), 2))));
    }
    return leave(cr_norm(cr_sub(cr_unsqueeze(x, -2), cr_unsqueeze(y, -3)), a[2].d, CR_LIST(-1), false));
}

/* (y, x, dx, dim): twice the areas between neighbours along dim, where dx is absent or 1 */
static cr_tensor *areas(const char *name, const arg *a) {
    const cr_tensor *y = a[0].t;
    const int n = cr_ndim(y), at = axis(a[3].i < 0 ? a[3].i + n : a[3].i);
    if (cr_dtype_of(y) == CR_BOOL || (a[1].given && cr_dtype_of(a[1].t) == CR_BOOL)) {
        set_error(bad_type, "[%s] takes numbers, not bool", name);
        return NULL;
    }
    if (at < 0 || at >= n || (a[1].given && a[2].given)) {
        set_error(at < 0 || at >= n ? PyExc_IndexError : PyExc_RuntimeError,
                  at < 0 || at >= n ? "[%s] axis %lld of a tensor of %d axes" : "[%s] takes x or dx, not both", name,
                  (long long)a[3].i, n);
        return NULL;
    }
    const int64_t size = cr_size(y, at);
    cr_tensor *both = cr_add(cr_slice(y, at, 1, INT64_MAX, 1), cr_slice(y, at, 0, size ? size - 1 : 0, 1));
    if (!a[1].given) return both;
    const cr_tensor *x = a[1].t;
    if (cr_ndim(x) == 1) {                           /* one vector for all */
        int64_t along[CR_MAX_DIMS];
        for (int i = 0; i < n; i++) along[i] = i == at ? cr_size(x, 0) : 1;
        x = cr_reshape(x, n, along);
    }
    const int xat = x ? at - n + cr_ndim(x) : 0;
    const int64_t xs = x && xat >= 0 && xat < cr_ndim(x) ? cr_size(x, xat) : -1;
    if (xs != size) {
        set_error(PyExc_RuntimeError, "[%s] x has %lld points and y %lld", name, (long long)xs, (long long)size);
        return NULL;
    }
    return cr_mul(both, cr_sub(cr_slice(x, xat, 1, INT64_MAX, 1), cr_slice(x, xat, 0, size ? size - 1 : 0, 1)));
}
static cr_tensor *times_dx(cr_tensor *y, const arg *dx) {
    return dx->given ? cr_mul(y, dx->x.integral ? cr_scalar_int(dx->x.i) : cr_scalar(dx->x.d)) : y;
}
/* As PyTorch adds: with equal distances all points, less half of both ends. */
cr_tensor *api_trapezoid(const arg *a) {
    const cr_tensor *y = a[0].t;
    cr_scope_begin();
    cr_tensor *both = areas("trapezoid", a);
    if (!both || a[1].given) return leave(cr_mul_scalar(cr_sum(both, CR_LIST(a[3].i), false), 0.5));
    cr_tensor *all = cr_sum(y, CR_LIST(a[3].i), false);
    const int at = axis(a[3].i < 0 ? a[3].i + cr_ndim(y) : a[3].i);
    if (!cr_size(y, at)) return leave(times_dx(cr_mul_scalar(all, 0.5), &a[2]));
    cr_tensor *ends = cr_add(cr_select(y, at, 0), cr_select(y, at, -1));
    return leave(times_dx(cr_sub(all, cr_mul_scalar(ends, 0.5)), &a[2]));
}
cr_tensor *api_cumulative_trapezoid(const arg *a) {
    cr_scope_begin();
    cr_tensor *both = areas("cumulative_trapezoid", a);
    if (both && a[1].given) return leave(cr_mul_scalar(cr_cumsum(both, axis(a[3].i)), 0.5));
    return leave(both ? cr_cumsum(times_dx(cr_mul_scalar(both, 0.5), &a[2]), axis(a[3].i)) : NULL);
}

/* (input, other, dim): along an axis of 3 */
cr_tensor *api_cross(const arg *a) {
    const cr_tensor *x = a[0].t, *y = a[1].t;
    const int n = cr_ndim(x);
    int at = 0;
    if (a[2].given) at = axis(a[2].i < 0 ? a[2].i + n : a[2].i);
    else while (at < n && cr_size(x, at) != 3) at++;
    if (a[2].given && (at < 0 || at >= n)) {
        set_error(PyExc_IndexError, "[cross] axis %lld of a tensor of %d axes", (long long)a[2].i, n);
        return NULL;
    }
    if (cr_ndim(y) != n || at >= n || cr_size(x, at) != 3 || cr_size(y, at) != 3) {
        set_error(PyExc_RuntimeError, "[cross] takes two tensors of as many axes, with an axis of size 3");
        return NULL;
    }
    cr_scope_begin();
    const int64_t axes[] = {at}, one[] = {-1}, two[] = {-2};
    return leave(cr_sub(cr_mul(cr_roll(x, 1, one, axes), cr_roll(y, 1, two, axes)),
                        cr_mul(cr_roll(x, 1, two, axes), cr_roll(y, 1, one, axes))));
}

/* ---- statistics */
/* (input, correction, fweights, aweights): rows are variables, columns observations */
static cr_tensor *covariance(const cr_tensor *x, double correction, const arg *f, const arg *w) {
    if (cr_ndim(x) > 2) {
        set_error(PyExc_RuntimeError, "[cov] expected input to have two or fewer dimensions but got %d", cr_ndim(x));
        return NULL;
    }
    if (cr_dtype_of(x) == CR_BOOL) {
        set_error(PyExc_RuntimeError, "[cov] bool dtype is not supported for input");
        return NULL;
    }
    if (!cr_dtype_is_float(cr_dtype_of(x))) x = cast(x, cr_default_dtype());
    if (cr_ndim(x) < 2) x = cr_reshape(x, CR_LIST(1, cr_numel(x)));
    const int64_t columns = x ? cr_size(x, 1) : 0;
    cr_tensor *weights = NULL;
    const arg *given[] = {f, w};
    for (int i = 0; i < 2; i++) {
        if (!given[i] || !given[i]->given) continue;
        const cr_tensor *v = given[i]->t;
        if (cr_ndim(v) > 1 || cr_numel(v) != columns) {
            set_error(PyExc_RuntimeError, "[cov] %lld weights for %lld observations", (long long)cr_numel(v),
                      (long long)columns);
            return NULL;
        }
        if (!columns) {
            set_error(PyExc_RuntimeError, "[cov] weights of no observation sum to zero, can't be normalized");
            return NULL;
        }
        v = cast(v, cr_dtype_of(x));
        weights = weights ? cr_mul(weights, v) : alias(v);
    }
    cr_tensor *count = weights ? cr_sum(weights, CR_ALL, false)
                               : cr_full(0, NULL, (double)columns, cr_dtype_of(x), cr_device_of(x)),
              *mean = weights ? cr_div(cr_sum(cr_mul(x, weights), CR_LIST(1), true), count)
                              : cr_div(cr_sum(x, CR_LIST(1), true), count);
    cr_tensor *centred = cr_sub(x, mean);
    const cr_tensor *taken = count;                  /* what the correction takes off */
    if (w && w->given && correction != 0)
        taken = cr_sub(count, cr_mul_scalar(cr_div(cr_sum(cr_mul(weights, cast(w->t, cr_dtype_of(x))), CR_ALL, false),
                                                   count), correction));
    else taken = cr_sub_scalar(count, correction);
    taken = cr_clamp(taken, 0, INFINITY);
    return cr_div(cr_matmul(centred, cr_transpose(weights ? cr_mul(centred, weights) : centred, 0, 1)), taken);
}
cr_tensor *api_cov(const arg *a) {
    cr_scope_begin();
    cr_tensor *c = covariance(a[0].t, a[1].d, &a[2], &a[3]);
    return leave(c && cr_numel(c) == 1 ? cr_reshape(c, 0, NULL) : c);    /* one variable: a variance without axes */
}
cr_tensor *api_corrcoef(const arg *a) {
    cr_scope_begin();
    cr_tensor *c = covariance(a[0].t, 1, NULL, NULL);
    if (!c) return leave(NULL);
    if (cr_numel(c) == 1) return leave(cr_div(cr_reshape(c, 0, NULL), cr_reshape(c, 0, NULL)));
    cr_tensor *s = cr_sqrt(cr_diagonal(c, 0, 0, 1));
    return leave(cr_clamp(cr_div(cr_div(c, cr_unsqueeze(s, 1)), cr_unsqueeze(s, 0)), -1, 1));
}

/* (x, N, increasing) */
cr_tensor *api_vander(const arg *a) {
    const cr_tensor *x = a[0].t;
    if (cr_ndim(x) != 1 || (a[1].given && a[1].i < 0)) {
        set_error(PyExc_RuntimeError, "[vander] takes a vector and a number of columns from 0 up");
        return NULL;
    }
    const int64_t n = a[1].given ? a[1].i : cr_size(x, 0);
    cr_scope_begin();
    cr_tensor *powers = cr_arange(0, (double)n, 1, CR_I64, cr_device_of(x));
    if (!a[2].b) powers = cr_flip(powers, CR_LIST(0));
    cr_tensor *base = cr_unsqueeze(cr_dtype_is_float(cr_dtype_of(x)) ? x : cast(x, CR_I64), 1);
    return leave(cr_pow(base, powers));
}

/* ---- choices */
/* (input, r, with_replacement): the r-element choices in order : (C, r) */
cr_tensor *api_combinations(const arg *a) {
    const cr_tensor *x = a[0].t;
    const int64_t r = a[1].i;
    if (cr_ndim(x) != 1 || r < 0 || r > INT32_MAX) {
        set_error(PyExc_RuntimeError, cr_ndim(x) != 1 ? "[combinations] Expect a 1D vector, but got %d axes"
                                                      : "[combinations] Expect a non-negative number, but got %lld",
                  cr_ndim(x) != 1 ? cr_ndim(x) : (int)r);
        return NULL;
    }
    if (!r) return cr_empty(CR_LIST(0), cr_dtype_of(x), cr_device_of(x));
    const int64_t n = cr_size(x, 0);
    int64_t room = 64, count = 0, *at = malloc((size_t)(room * r) * sizeof *at);
    const int64_t step = a[2].b ? 0 : 1;
    bool more = at && n > 0 && (r - 1) * step < n;
    for (int64_t i = 0; more && i < r; i++) at[i] = i * step;
    while (more) {
        if (++count == room) {
            int64_t *larger = realloc(at, (size_t)(2 * room * r) * sizeof *at);
            if (!larger) break;
            at = larger;
            room *= 2;
        }
        int64_t *next = memcpy(at + count * r, at + (count - 1) * r, (size_t)r * sizeof *at), i = r - 1;
        while (i >= 0 && next[i] == n - 1 - (r - 1 - i) * step) i--;
        if (i < 0) break;
        next[i]++;
        for (int64_t k = i + 1; k < r; k++) next[k] = next[k - 1] + step;
    }
    cr_scope_begin();
    cr_tensor *index = at ? cr_from(at, CR_LIST(count, r), CR_I64, cr_device_of(x)) : NULL;
    if (!at) set_error(PyExc_MemoryError, "[combinations] no memory");
    cr_tensor *y = leave(index ? cr_take(x, index) : NULL);
    free(at);
    return y;
}

/* ---- whole numbers */
/* Two integer tensors of one dtype and shape, or false and an error. */
static bool integers(const char *op, const arg *a, const cr_tensor *in[2]) {
    const cr_dtype dt = cr_promote(cr_dtype_of(a[0].t), cr_dtype_of(a[1].t));
    if (cr_dtype_is_float(dt) || dt == CR_BOOL) {
        set_error(bad_type, "[%s] is of integers, not %s", op, cr_dtype_name(dt));
        return false;
    }
    cr_tensor *zero = cr_zeros(0, NULL, dt, cr_device_of(a[0].t));
    in[0] = cr_add(cast(a[0].t, dt), cr_mul(zero, cast(a[1].t, dt)));   /* broadcast */
    in[1] = cr_add(cast(a[1].t, dt), cr_mul(zero, cast(a[0].t, dt)));
    return true;
}

/* Euclid's steps on all elements: (x, y) = (y, x mod y) where y is not 0; at most 92 for 64 bits */
static cr_tensor *common_divisor(const cr_tensor *x, const cr_tensor *y) {
    x = cr_abs(x);
    y = cr_abs(y);
    if (!x || !y) return NULL;
    const cr_tensor *none = cr_zeros(0, NULL, cr_dtype_of(x), cr_device_of(x)),
                    *one = cr_ones(0, NULL, cr_dtype_of(x), cr_device_of(x));
    const bool mapped = cr_level_of(x) || cr_level_of(y);    /* then nobody knows whether all are done */
    for (int step = 0; x && y && step < 92; step++) {
        cr_tensor *more = cr_ne(y, none);
        if (!more || (!mapped && cr_item(cr_any(more, CR_ALL, false)) == 0)) break;
        cr_tensor *rest = cr_where(more, cr_fmod(x, cr_where(more, y, one)), none);
        x = cr_where(more, y, x);
        y = rest;
    }
    return y ? alias(x) : NULL;
}

cr_tensor *api_gcd(const arg *a) {
    const cr_tensor *in[2];
    cr_scope_begin();
    return leave(integers("gcd", a, in) ? cr_abs(common_divisor(in[0], in[1])) : NULL);
}
cr_tensor *api_gcd_(const arg *a) { return written("gcd_", a, api_gcd(a)); }

cr_tensor *api_lcm(const arg *a) {
    const cr_tensor *in[2];
    cr_scope_begin();
    if (!integers("lcm", a, in)) return leave(NULL);
    cr_tensor *d = common_divisor(in[0], in[1]);     /* 0: both are */
    cr_tensor *safe = cr_add(d, cast(cr_eq(d, cr_scalar(0)), d ? cr_dtype_of(d) : CR_I64));
    return leave(cr_abs(cr_mul(cr_floor_divide(in[0], safe), in[1])));
}
cr_tensor *api_lcm_(const arg *a) { return written("lcm_", a, api_lcm(a)); }

/* f of the arguments, written into the first one, of which a gradient may need the values before */
static cr_tensor *in_place(const char *name, const arg *a, int n, cr_tensor *(*f)(const arg *)) {
    arg copy[6];
    memcpy(copy, a, (size_t)n * sizeof *copy);
    cr_scope_begin();
    if (cr_requires_grad(a[0].t)) copy[0].t = cr_clone(a[0].t);
    cr_tensor *x = written(name, a, copy[0].t ? f(copy) : NULL);
    cr_scope_end();
    return x;
}

/* ---- parts of floats */
cr_tensor *api_ldexp(const arg *a) {
    const cr_dtype dt = cr_dtype_of(a[1].t);
    cr_scope_begin();
    const cr_tensor *power = cr_dtype_is_float(dt) ? a[1].t : cast(a[1].t, cr_default_dtype());
    return leave(cr_mul(a[0].t, cr_pow(cr_scalar(2), power)));
}
cr_tensor *api_ldexp_(const arg *a) { return in_place("ldexp_", a, 2, api_ldexp); }

/* x / 2^e, in two steps: 2^e may have no finite inverse */
static cr_tensor *scaled_down(const cr_tensor *x, const cr_tensor *e) {
    cr_tensor *half = cr_floor(cr_mul_scalar(e, 0.5));
    return cr_mul(cr_mul(x, cr_exp2(cr_neg(half))), cr_exp2(cr_sub(half, e)));
}

/* x = mantissa 2^exponent with 1/2 <= |mantissa| < 1; 0, NaN and the infinities are their own mantissa */
static cr_tensor *split_float(const cr_tensor *x, cr_tensor **exponent) {
    const cr_dtype dt = cr_dtype_of(x), wide = dt == CR_F64 ? CR_F64 : CR_F32;
    cr_scope_begin();
    cr_tensor *w = cast(x, wide), *size = cr_abs(cr_detach(w));
    cr_tensor *plain = cr_logical_and(cr_isfinite(size), cr_ne(size, cr_scalar(0)));
    cr_tensor *one = cr_ones(0, NULL, wide, cr_device_of(x));
    size = cr_where(plain, size, one);
    /* 2^64 times a small number is normal, so that its logarithm is exact to less than 1 */
    cr_tensor *small = cr_lt(size, cr_scalar(0x1p-100));
    cr_tensor *lifted = cr_where(small, cr_mul_scalar(size, 0x1p64), size);
    cr_tensor *e = cr_add_scalar(cr_floor(cr_log2(lifted)), 1);
    e = cr_sub(e, cr_mul_scalar(cast(small, wide), 64));
    cr_tensor *m = scaled_down(size, e);
    e = cr_add(e, cr_sub(cast(cr_ge(m, cr_scalar(1)), wide), cast(cr_lt(m, cr_scalar(0.5)), wide)));
    e = cr_where(plain, e, cr_mul_scalar(one, 0));
    cr_tensor *y = cast(scaled_down(w, e), dt);
    *exponent = cast(e, CR_I32);
    if (y && *exponent) cr_keep(*exponent);
    else *exponent = NULL;
    return leave(y);
}

PyObject *api_frexp(const arg *a) {
    if (!cr_dtype_is_float(cr_dtype_of(a[0].t))) {
        PyErr_SetString(PyExc_RuntimeError, "torch.frexp() only supports floating-point dtypes");
        return NULL;
    }
    PAIR("frexp", split_float(a[0].t, &second));
}

/* ---- parts of tensors */
/* (input, p, dim, maxnorm) */
cr_tensor *api_renorm(const arg *a) {
    const cr_tensor *x = a[0].t;
    const int n = cr_ndim(x), at = axis(a[2].i < 0 ? a[2].i + n : a[2].i);
    if (n < 2 || at < 0 || at >= n || !(a[1].x.d > 0) || !(a[3].x.d >= 0)) {
        if (n < 2)
            set_error(PyExc_RuntimeError, "[renorm] input needs at least 2 dimensions, got %d dimensions", n);
        else if (at < 0 || at >= n)
            set_error(PyExc_IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)",
                      -n, n - 1, (long long)a[2].i);
        else if (!(a[1].x.d > 0)) set_error(PyExc_RuntimeError, "[renorm] p is above 0, not %g", a[1].x.d);
        else set_error(PyExc_RuntimeError, "[renorm] expected maxnorm to be >= 0 but got %g", a[3].x.d);
        return NULL;
    }
    int64_t others[CR_MAX_DIMS];
    for (int i = 0, k = 0; i < n; i++)
        if (i != at) others[k++] = i;
    cr_scope_begin();
    /* the norm of half precision may be beyond its range: in f32 */
    const cr_dtype own = cr_dtype_of(x), wide = own == CR_F16 || own == CR_BF16 ? CR_F32 : own;
    cr_tensor *norm = cr_norm(cr_to(x, wide, cr_device_of(x)), a[1].x.d, n - 1, others, true);
    const cr_tensor *most = cr_full(0, NULL, a[3].x.d, wide, cr_device_of(x)),
                    *one = cr_ones(0, NULL, wide, cr_device_of(x)),
                    *scale = cr_where(cr_gt(norm, most), cr_div(most, cr_add_scalar(norm, 1e-7)), one);
    return leave(cr_to(cr_mul(cr_to(x, wide, cr_device_of(x)), scale), own, cr_device_of(x)));
}
cr_tensor *api_renorm_(const arg *a) { return in_place("renorm_", a, 4, api_renorm); }

static bool same_but_for(const cr_tensor *x, const cr_tensor *y, int at) {
    bool same = cr_ndim(x) == cr_ndim(y);
    for (int i = 0; same && i < cr_ndim(x); i++) same = i == at || cr_size(x, i) == cr_size(y, i);
    return same;
}

/* (input, dim, index, source, reduce, include_self) */
cr_tensor *api_index_reduce(const arg *a) {
    static const char *const kinds[] = {"sum", "prod", "mean", "amax", "amin"};
    const cr_tensor *x = a[0].t, *index = a[2].t, *source = a[3].t;
    const int n = cr_ndim(x), at = axis(a[1].i < 0 ? a[1].i + n : a[1].i);
    int way = 1;
    while (way < 5 && strcmp(a[4].s, kinds[way])) way++;
    if (way == 5)
        set_error(PyExc_RuntimeError, "[index_reduce] reduce is 'prod', 'mean', 'amax' or 'amin', not '%s'", a[4].s);
    else if (at < 0 || at >= n)
        set_error(PyExc_IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n,
                  n - 1, (long long)a[1].i);
    else if (cr_ndim(index) > 1)
        set_error(PyExc_IndexError, "[index_reduce] the index is a vector, not of %d axes", cr_ndim(index));
    else if (cr_dtype_of(index) != CR_I64 && cr_dtype_of(index) != CR_I32)
        set_error(PyExc_RuntimeError, "[index_reduce] the index is int32 or int64, not %s",
                  cr_dtype_name(cr_dtype_of(index)));
    else if (cr_ndim(index) != 1 || !same_but_for(x, source, at) || cr_size(source, at) != cr_size(index, 0))
        set_error(PyExc_RuntimeError, "[index_reduce] a vector index with one element for each slice of source along "
                  "dim %d is needed", at);
    else {
        int64_t shape[CR_MAX_DIMS];
        for (int i = 0; i < n; i++) shape[i] = i == at ? cr_size(index, 0) : 1;
        cr_scope_begin();
        cr_tensor *all = cr_expand(cr_reshape(cast(index, CR_I64), n, shape), n, cr_shape(source));
        return leave(cr_scatter_reduce(x, at, all, source, (cr_scatter_kind)way, a[5].b));
    }
    return NULL;
}
cr_tensor *api_index_reduce_(const arg *a) { return in_place("index_reduce_", a, 6, api_index_reduce); }

/* (input, fill_value, wrap): wrap: a tall matrix has a diagonal again below a row that has none */
cr_tensor *api_fill_diagonal_(const arg *a) {
    cr_tensor *x = a[0].t;
    const int n = cr_ndim(x);
    bool cube = n >= 2;
    for (int i = 1; cube && n > 2 && i < n; i++) cube = cr_size(x, i) == cr_size(x, 0);
    if (!cube) {
        set_error(PyExc_RuntimeError, n < 2 ? "[fill_diagonal_] dimensions must larger than 1, not %d"
                                            : "[fill_diagonal_] all %d dimensions of input must be of equal length", n);
        return NULL;
    }
    const int64_t rows = cr_size(x, 0), step = n == 2 ? cr_size(x, 1) + 1 : rows + 1;
    bool ok = true;
    cr_scope_begin();
    for (int64_t row = 0; ok && row < rows && (row == 0 || (n == 2 && a[2].b)); row += step) {
        cr_tensor *part = cr_diagonal(row ? cr_slice(x, 0, row, rows, 1) : x, 0, 0, 1);
        while (part && cr_ndim(part) > 1) part = cr_diagonal(part, 0, 0, cr_ndim(part) - 1);
        ok = cr_fill_(part, a[1].x.d) != NULL;
    }
    cr_scope_end();
    return ok ? x : NULL;
}
