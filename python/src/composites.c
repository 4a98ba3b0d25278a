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
        set_error(PyExc_RuntimeError, "[fill] the value is a number or a tensor without axes, not of %d",
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
    cr_tensor *y = cr_clone(x), *at = y ? part(y, a) : NULL;
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
cr_tensor *api_positive(const arg *a) {
    if (cr_dtype_of(a[0].t) != CR_BOOL) return alias(a[0].t);
    set_error(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return NULL;
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

/* (y, x, dx, dim): the areas between neighbours along dim */
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
    cr_tensor *mean = cr_mul_scalar(cr_add(cr_slice(y, at, 1, INT64_MAX, 1),
                                           cr_slice(y, at, 0, size ? size - 1 : 0, 1)), 0.5);
    if (!a[1].given) return a[2].given ? cr_mul(mean, a[2].x.integral ? cr_scalar_int(a[2].x.i) : cr_scalar(a[2].x.d))
                                       : mean;
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
    return cr_mul(mean, cr_sub(cr_slice(x, xat, 1, INT64_MAX, 1), cr_slice(x, xat, 0, size ? size - 1 : 0, 1)));
}
cr_tensor *api_trapezoid(const arg *a) {
    cr_scope_begin();
    return leave(cr_sum(areas("trapezoid", a), CR_LIST(a[3].i), false));
}
cr_tensor *api_cumulative_trapezoid(const arg *a) {
    cr_scope_begin();
    return leave(cr_cumsum(areas("cumulative_trapezoid", a), axis(a[3].i)));
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
    return leave(c && cr_numel(c) == 1 && cr_ndim(a[0].t) < 2 ? cr_reshape(c, 0, NULL) : c);
}
cr_tensor *api_corrcoef(const arg *a) {
    cr_scope_begin();
    cr_tensor *c = covariance(a[0].t, 1, NULL, NULL);
    if (!c) return leave(NULL);
    if (cr_ndim(a[0].t) < 2) return leave(cr_div(cr_reshape(c, 0, NULL), cr_reshape(c, 0, NULL)));
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
