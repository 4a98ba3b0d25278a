/* unique.c - which elements there are, and how often: unique, isin, bincount, histc, histogram.  Nothing here has
 * a gradient: which elements are equal does not change smoothly. */
#include "compose.h"

#include <math.h>

/* ---- runs of equal rows, (R, C), which were at order, (R)|CR_NONE: the run of each row there (R), or
 * (0) where not wanted; aux: where each begins (R), how many there are () */
typedef struct runs_params { bool wanted; } runs_params;

static bool wanted(const cr_call *c) { return ((const runs_params *)c->params)->wanted; }

static cr_status runs_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    if (x->ndim != 2) return cr_fail(CR_BAD_VALUE, "runs", "needs rows: %s", cr_shape_text(x->ndim, x->shape).s);
    *out = aux[0] = (cr_meta){.dtype = CR_I64, .ndim = 1, .shape = {x->shape[0]}};
    if (!wanted(c)) out->shape[0] = 0;
    aux[1] = (cr_meta){.dtype = CR_I64};
    if (c->in[1] == CR_NONE) return CR_OK;
    return c->in[1]->numel == x->shape[0] && c->in[1]->dtype == CR_I64
               ? CR_OK
               : cr_fail(CR_BAD_VALUE, "runs", "an order of other rows");
}

static cr_status runs_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const cr_tensor *x = c->in[0];
    if (!x->shape[0]) return cr_fill_elements(aux[1], 0);
    return c->dev->kernels->runs(
        &(cr_runs_args){array_of(wanted(c) ? out : NULL), aux[0]->array, aux[1]->array, x->array, c->in[1]->array});
}

const cr_op cr_op_runs = {
    .name = "runs",
    .arity = 2,
    .optional = 2,
    .params_bytes = sizeof(runs_params),
    .contiguous = true,
    .n_aux = 2,
    .infer = runs_infer,
    .forward = runs_forward,
    .no_grad = "runs are counted",
};

/* The order that sorts the rows, (R): stable sorts by each column, the last column first. */
static cr_tensor *order_of_rows(const cr_tensor *rows) {
    cr_tensor *order = NULL;
    for (int64_t c = rows->shape[1]; c-- > 0; ) {
        cr_scope_begin();
        cr_tensor *column = cr_select(rows, 1, c),
                  *next = cr_argsort(order ? cr_gather(column, 0, order) : column, 0, false);
        next = cr_leave(order ? cr_gather(order, 0, next) : next);
        cr_release(order);
        if (!(order = next)) return NULL;
    }
    return order;
}

typedef struct found { cr_tensor *rows, *inverse, *counts; } found;

/* The rows that there are, (R, C) -> (n, C), or (n) for columns; where asked for, the number of each
 * row among them (R) and how often each occurs (n). */
static found find_rows(const cr_tensor *rows, bool consecutive, bool inverse, bool counts) {
    found f = {NULL, NULL, NULL};
    if (!rows) return f;
    const int64_t R = rows->shape[0];
    cr_tensor *order = NULL, *sorted = same(rows), *aux[2];
    if (!consecutive && rows->shape[1] == 1) {
        sorted = cr_sort(rows, 0, false, &order);
        order = cr_reshape(order, CR_LIST(R));
    } else if (!consecutive) {
        order = order_of_rows(rows);
        sorted = cr_embedding(rows, order);
    }
    cr_tensor *run = cr_apply_aux(&cr_op_runs, 2, (const cr_tensor *const[]){sorted, consecutive ? CR_NONE : order},
                                  &(runs_params){inverse}, aux);
    if (!run) return f;
    int64_t n;
    if (cr_read(aux[1], CR_I64, &n, sizeof n) != CR_OK) return f;
    cr_tensor *starts = cr_slice(aux[0], 0, 0, n, 1);
    f.inverse = run;
    if (counts) {
        const cr_tensor *ends[] = {cr_slice(starts, 0, 1, INT64_MAX, 1),
                                   cr_full(CR_LIST(n ? 1 : 0), (double)R, CR_I64, rows->dev)};
        f.counts = sub(cr_cat(2, ends, 0), starts);
    }
    f.rows = rows->shape[1] == 1 ? cr_gather(cr_reshape(sorted, CR_LIST(R)), 0, starts) : cr_embedding(sorted, starts);
    return f;
}

static cr_tensor *unique(const char *op, const cr_tensor *x, int n, const int64_t *axis, bool consecutive,
                         cr_tensor **inverse, cr_tensor **counts) {
    if (inverse) *inverse = NULL;
    if (counts) *counts = NULL;
    if (!cr_given(op, "x", x)) return NULL;
    if (n > 1) return cr_fail(CR_BAD_VALUE, op, "%d axes: one, or all of them (CR_ALL)", n), NULL;
    const int a = n ? cr_axis(op, axis[0], x->ndim) : 0;
    if (a < 0) return NULL;
    if (n && !x->ndim) return cr_fail(CR_BAD_INDEX, op, "a scalar has no axis %d", a), NULL;
    const bool along = n;
    const int64_t R = along ? x->shape[a] : x->numel;
    int64_t C = 1, to[CR_MAX_DIMS] = {a}, back[CR_MAX_DIMS], shape[CR_MAX_DIMS];
    for (int i = 0, next = 1; along && i < x->ndim; i++)
        if (i != a) { C *= x->shape[i]; to[next++] = i; }
    if (!C)
        return cr_fail(CR_BAD_VALUE, op, "the rows along axis %d of %s are empty", a,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    const found f = find_rows(cr_reshape(along ? cr_permute(x, x->ndim, to) : x, CR_LIST(R, C)), consecutive, inverse,
                              counts);
    cr_tensor *y = f.rows;
    for (int i = 0; along && i < x->ndim; i++) { shape[i] = x->shape[to[i]]; back[to[i]] = i; }
    shape[0] = y ? y->shape[0] : 0;
    y = cr_reshape(y, along ? x->ndim : 1, shape);
    if (along) y = cr_permute(y, x->ndim, back);
    cr_tensor *runs = inverse && !along ? cr_reshape(f.inverse, x->ndim, x->shape) : f.inverse;
    if ((inverse && !runs) || (counts && !f.counts)) y = NULL;
    if (y && inverse) *inverse = cr_keep(runs);
    if (y && counts) *counts = cr_keep(f.counts);
    y = cr_leave(y);
    cr_set_grad_enabled(recording);
    return y;
}

cr_tensor *cr_unique(const cr_tensor *x, int n, const int64_t *axis, cr_tensor **inverse, cr_tensor **counts) {
    return unique("unique", x, n, axis, false, inverse, counts);
}
cr_tensor *cr_unique_consecutive(const cr_tensor *x, int n, const int64_t *axis, cr_tensor **inverse,
                                 cr_tensor **counts) {
    return unique("unique_consecutive", x, n, axis, true, inverse, counts);
}

/* ---- isin: x is among the others where more of them are <= x than < x; NaN is in nothing */
cr_tensor *cr_isin(const cr_tensor *x, const cr_tensor *others) {
    if (!cr_given("isin", "x", x) || !cr_given("isin", "the others", others)) return NULL;
    /* a plain number goes where the other is */
    const cr_device *dev = x->flags & CR_FLAG_WEAK ? others->dev : x->dev;
    bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    if (x->flags & CR_FLAG_WEAK) x = cr_to(x, cr_compared(others, x), dev);
    if (others->flags & CR_FLAG_WEAK) others = cr_to(others, cr_compared(x, others), dev);
    cr_tensor *sorted = cr_sort(cr_reshape(others, CR_LIST(-1)), 0, false, NULL);
    cr_tensor *among = cr_ne(cr_searchsorted(sorted, x, false, CR_NONE), cr_searchsorted(sorted, x, true, CR_NONE));
    /* NaN equals nothing */
    cr_tensor *y = cr_leave(x && cr_dtype_is_float(x->dtype) ? cr_logical_and(among, cr_eq(x, x)) : among);
    cr_set_grad_enabled(recording);
    return y;
}

/* ---- bincount, histc */
cr_tensor *cr_bincount(const cr_tensor *x, const cr_tensor *weights, int64_t minlength) {
    if (!cr_given("bincount", "x", x)) return NULL;
    if (!weights) return cr_fail_null("bincount", "weights"), NULL;
    if (x->ndim != 1 || cr_dtype_is_float(x->dtype) || x->dtype == CR_BOOL)
        return cr_fail(CR_BAD_VALUE, "bincount", "counts integers along one axis: %s %s", cr_dtype_name(x->dtype),
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    if (weights != CR_NONE && (weights->ndim != 1 || weights->numel != x->numel))
        return cr_fail(CR_BAD_VALUE, "bincount", "weights %s for %s", cr_shape_text(weights->ndim, weights->shape).s,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    if (minlength < 0) return cr_fail(CR_BAD_VALUE, "bincount", "minlength is %lld", (long long)minlength), NULL;
    bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *at = cast_to(x, CR_I64), *y = NULL;
    int64_t low = 0, high = -1;
    if (at && at->numel &&
        !(cr_read(cr_min(at, CR_ALL, false), CR_I64, &low, sizeof low) == CR_OK &&
          cr_read(cr_max(at, CR_ALL, false), CR_I64, &high, sizeof high) == CR_OK))
        at = NULL;
    if (low < 0) cr_fail(CR_BAD_VALUE, "bincount", "counts numbers from 0: %lld", (long long)low);
    else if (high == INT64_MAX) cr_fail(CR_BAD_VALUE, "bincount", "%lld is too large", (long long)high);
    else if (at) {
        int64_t n = high + 1 > minlength ? high + 1 : minlength;
        cr_dtype dt = weights == CR_NONE ? CR_I64 : weights->dtype == CR_F32 ? CR_F32 : widest_float(x->dev);
        y = cr_scatter_add(cr_zeros(CR_LIST(n), dt, x->dev), 0, at,
                           weights == CR_NONE ? cr_ones(CR_LIST(x->numel), dt, x->dev) : cast_to(weights, dt));
    }
    y = cr_leave(y);
    cr_set_grad_enabled(recording);
    return y;
}

cr_tensor *cr_histc(const cr_tensor *x, int64_t bins, double low, double high) {
    if (!cr_given("histc", "x", x) || cr_want_float("histc", x) != CR_OK) return NULL;
    if (bins < 1) return cr_fail(CR_BAD_VALUE, "histc", "%lld bins: at least 1", (long long)bins), NULL;
    bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    if (low == high && x->numel) {
        low = cr_item(cr_min(x, CR_ALL, false));
        high = cr_item(cr_max(x, CR_ALL, false));
    }
    if (low == high) { low -= 1; high += 1; }
    if (!(low < high) || !isfinite(high - low)) {   /* NaN: of x, or of an item that could not be had */
        cr_scope_end();
        cr_set_grad_enabled(recording);
        return cr_fail(CR_BAD_VALUE, "histc", "no range: from %g to %g", low, high), NULL;
    }
    cr_tensor *flat = widened(cr_reshape(x, CR_LIST(-1))),
              *inside = cr_logical_and(cr_ge(flat, cr_scalar(low)), cr_le(flat, cr_scalar(high)));
    cr_tensor *part = cr_floor(cr_div_scalar(mul_k(cr_sub_scalar(flat, low), (double)bins), high - low));
    cr_tensor *at = cast_to(cr_where(inside, cr_minimum(part, cr_scalar((double)bins - 1)), cr_scalar(0)), CR_I64);
    cr_tensor *counts = cr_scatter_add(cr_zeros(CR_LIST(bins), wide_dtype(x), x->dev), 0, at,
                                       cast_to(inside, wide_dtype(x)));
    cr_tensor *y = cr_leave(cast_to(counts, x->dtype));
    cr_set_grad_enabled(recording);
    return y;
}

/* ---- histogram */
static cr_status check_edges(const cr_tensor *x, int D, const cr_tensor *const *edges, const cr_tensor *weights) {
    static const char op[] = "histogram";
    if (x->ndim != 2 || x->shape[1] != D || D > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, op, "points (M, D) with D of %d are needed, and at most %d: %s", D, CR_MAX_DIMS,
                       cr_shape_text(x->ndim, x->shape).s);
    if (D && !edges) return cr_fail_null(op, "the edges");
    for (int i = 0; i < D; i++) {
        if (!cr_given(op, "the edges", edges[i])) return cr_error_status();
        if (edges[i]->ndim != 1 || edges[i]->numel < 2)
            return cr_fail(CR_BAD_VALUE, op, "the edges of axis %d must be at least 2 along one axis: %s", i,
                           cr_shape_text(edges[i]->ndim, edges[i]->shape).s);
        const cr_status status = cr_want_same_dtype(op, x, edges[i]);
        if (status != CR_OK) return status;
    }
    if (weights == CR_NONE) return CR_OK;
    if (weights->ndim == 1 && weights->numel == x->shape[0]) return cr_want_same_dtype(op, x, weights);
    return cr_fail(CR_BAD_VALUE, op, "weights %s for %s", cr_shape_text(weights->ndim, weights->shape).s,
                   cr_shape_text(x->ndim, x->shape).s);
}

/* The bin of each element of x (M) between edges (N + 1), 0 where it is in none; *inside: is it in one? */
static cr_tensor *bin_of(const cr_tensor *x, const cr_tensor *edges, cr_tensor **inside) {
    const int64_t N = edges->numel - 1;
    cr_tensor *last = cr_select(edges, 0, N), *from = cr_searchsorted(edges, x, true, CR_NONE);
    *inside = cr_logical_and(cr_ge(x, cr_select(edges, 0, 0)), cr_le(x, last));
    return cr_where(*inside, cr_minimum(cr_sub(from, cr_scalar_int(1)), cr_scalar_int(N - 1)), cr_scalar_int(0));
}

cr_tensor *cr_histogram(const cr_tensor *x, int D, const cr_tensor *const *edges, const cr_tensor *weights) {
    static const char op[] = "histogram";
    if (!cr_given(op, "x", x) || cr_missing(op, "the weights", weights) || cr_want_float(op, x) != CR_OK) return NULL;
    if (check_edges(x, D, edges, weights) != CR_OK) return NULL;
    const bool recording = cr_set_grad_enabled(false);
    const cr_status before = cr_error_status();
    int64_t shape[CR_MAX_DIMS], boxes = 1;
    cr_scope_begin();
    cr_tensor *at = cr_zeros(CR_LIST(x->shape[0]), CR_I64, x->dev),
              *counted = cr_ones(CR_LIST(x->shape[0]), CR_BOOL, x->dev), *inside;
    for (int i = 0; i < D; i++) {
        shape[i] = edges[i]->numel - 1;
        if (__builtin_mul_overflow(boxes, shape[i], &boxes)) boxes = INT64_MAX;         /* cr_zeros refuses it */
        cr_tensor *bin = bin_of(cr_select(x, 1, i), edges[i], &inside);
        at = cr_add(cr_mul(at, cr_scalar_int(shape[i])), bin);
        counted = cr_logical_and(counted, inside);
    }
    const cr_dtype dt = wide_dtype(x);
    cr_tensor *share = weights == CR_NONE ? cast_to(counted, dt)
                                          : cr_where(counted, cast_to(weights, dt), cr_scalar(0));
    cr_tensor *sums = cr_scatter_add(cr_zeros(CR_LIST(boxes), dt, x->dev), 0,
                                     cr_where(counted, at, cr_scalar_int(0)), share);
    cr_tensor *y = cr_leave(cr_reshape(cast_to(sums, x->dtype), D, shape));
    cr_set_grad_enabled(recording);
    return cr_named(op, before, y);
}
