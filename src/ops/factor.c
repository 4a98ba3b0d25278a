/* factor.c - factors of matrices: Cholesky, LU, QR, symmetric eigenvalues, SVD; triangular solves, and solve.
 *
 * Each op has one result, in which several factors stand one below the other; the public functions cut it.  Where a
 * device has no kernel for them, matrices go to the cpu and their factors come back.  Half precision computes in f32.
 * Gradients are made of differentiable ops, so they have gradients.  Where two eigenvalues or singular values are equal
 * the vectors have no derivative: the terms between these two are left out, as if their distance were infinite. */
#include "compose.h"
#include "transform.h"

#include <math.h>

typedef struct factor_params { cr_factor_kind kind; } factor_params;

/* ---- shapes */
static bool is_square(const cr_tensor *x) { return x->shape[x->ndim - 2] == x->shape[x->ndim - 1]; }
static int64_t rows_in(const cr_tensor *x) { return x->shape[x->ndim - 2]; }
static int64_t columns_in(const cr_tensor *x) { return x->shape[x->ndim - 1]; }

static cr_status check_matrices(const char *op, const cr_tensor *x, bool square) {
    const cr_status status = cr_want_float(op, x);
    if (status != CR_OK) return status;
    if (x->ndim < 2) return cr_fail(CR_BAD_VALUE, op, "needs matrices: %s", cr_shape_text(x->ndim, x->shape).s);
    if (square && !is_square(x))
        return cr_fail(CR_BAD_VALUE, op, "needs square matrices: %s", cr_shape_text(x->ndim, x->shape).s);
    return CR_OK;
}

static cr_status factor_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    const cr_factor_kind kind = ((const factor_params *)c->params)->kind;
    const cr_status status = check_matrices(c->op->name, x, kind == CR_FACTOR_CHOLESKY || kind == CR_FACTOR_EIGH ||
                                                                     kind == CR_FACTOR_EIGVALSH);
    if (status != CR_OK) return status;
    const int64_t M = rows_in(x), N = columns_in(x);
    *out = cr_meta_of(x);
    if (kind == CR_FACTOR_QR) out->shape[x->ndim - 2] = M + N;
    if (kind == CR_FACTOR_EIGH) out->shape[x->ndim - 2] = N + 1;
    if (kind == CR_FACTOR_SVD) out->shape[x->ndim - 2] = M + 1 + N;
    if (kind == CR_FACTOR_EIGVALSH || kind == CR_FACTOR_SVDVALS) out->shape[x->ndim - 2] = 1;
    if (kind != CR_FACTOR_LU) return CR_OK;
    aux[0] = aux[1] = cr_meta_of(x);
    aux[0].ndim = aux[1].ndim = x->ndim - 1;
    aux[0].dtype = CR_I64;
    aux[0].shape[x->ndim - 2] = M;
    aux[1].dtype = CR_I32;
    aux[1].shape[x->ndim - 2] = cr_imin(M, N);
    return CR_OK;
}

/* contiguous t as (B, M, N), or (B, M) with one axis less */
static cr_array batch_of(const cr_tensor *t, int axes) {
    int64_t shape[3] = {1, 1, 1};
    for (int i = 0; i < t->ndim; i++) shape[cr_imax(0, i - (t->ndim - axes) + 1)] *= t->shape[i];
    return cr_array_as(&t->array, axes + 1, shape);
}

static cr_status factor_forward(const cr_call *c, cr_tensor *y, cr_tensor *const aux[]) {
    const cr_tensor *x = c->in[0];
    const cr_factor_kind kind = ((const factor_params *)c->params)->kind;
    cr_factor_args args = {.y = batch_of(y, 2), .x = batch_of(x, 2), .kind = kind};
    if (kind == CR_FACTOR_LU) {
        if (!x->numel && aux[0]->numel) {           /* matrices without columns */
            cr_tensor *order = cr_arange(0, (double)rows_in(x), 1, CR_I64, c->dev);
            const cr_status status = order ? cr_copy_repeated(aux[0], order) : cr_error_status();
            cr_release(order);
            return status;
        }
        args.order = batch_of(aux[0], 1);
        args.pivots = batch_of(aux[1], 1);
    }
    return x->numel ? c->dev->kernels->factor(&args) : y->numel ? cr_fill_elements(y, 0) : CR_OK;
}

/* ---- where the kernels are */
static const cr_device *factors_on(const cr_tensor *x, cr_factor_kind kind) {
    const cr_device *dev = x->dev;
    const int64_t M = rows_in(x), N = columns_in(x), B = x->numel ? x->numel / (M * N) : 0;
    return dev->kernels->factor && (!dev->factors || dev->factors(dev, kind, B, M, N)) ? dev : cr_cpu();
}
static const cr_tensor *to_kernels(const cr_tensor *x, const cr_device *dev) {
    const cr_dtype dt = wide_dtype(x);
    return dev == x->dev && dt == x->dtype ? x : cr_to(x, dt, dev);
}
static cr_tensor *back(const cr_tensor *y, const cr_tensor *x) {
    return !y || (y->dev == x->dev && y->dtype == x->dtype) ? same(y) : cr_to(y, x->dtype, x->dev);
}
static cr_tensor *moved_back(const cr_tensor *y, const cr_tensor *x) {               /* of integers */
    return !y || y->dev == x->dev ? same(y) : cr_to(y, y->dtype, x->dev);
}

static cr_tensor *factored(const cr_op *op, const cr_tensor *x, cr_factor_kind kind, cr_tensor *aux[]) {
    const cr_status status = check_matrices(op->name, x, false);
    const cr_tensor *in = status == CR_OK ? to_kernels(x, factors_on(x, kind)) : NULL;
    return in ? cr_apply_aux(op, 1, &in, &(factor_params){kind}, aux) : NULL;
}

/* rows [first, first + count) of y, in x's dtype and place, kept beyond the scope */
static cr_tensor *rows(const cr_tensor *y, int64_t first, int64_t count) {
    return cr_slice(y, -2, first, first + count, 1);
}
static cr_status keep_all(int n, cr_tensor *const made[], cr_tensor **const to[]) {
    for (int i = 0; i < n; i++) if (!made[i]) return cr_error_status();
    for (int i = 0; i < n; i++) if (to[i]) *to[i] = cr_keep(made[i]);
    return CR_OK;
}

/* 1 / gap, 0 where gap is 0 */
static cr_tensor *over_gaps(const cr_tensor *x, const cr_tensor *gap) {
    return divide(x, cr_masked_fill(gap, cr_eq(gap, cr_scalar(0)), INFINITY));
}
/* row (..., 1, N) on the diagonal of (..., N, N) */
static cr_tensor *on_diagonal(const cr_tensor *row) {
    const int64_t N = row ? columns_in(row) : 0;
    return row ? mul(row, cr_eye(N, N, row->dtype, row->dev)) : NULL;
}

/* The lower triangle with half the diagonal. */
static cr_tensor *lower_half(const cr_tensor *x) {
    if (!x) return NULL;
    const int64_t N = columns_in(x);
    cr_tensor *ones = cr_ones(CR_LIST(N, N), x->dtype, x->dev);
    return mul(x, mul_k(add(cr_tril(ones, 0), cr_tril(ones, -1)), 0.5));
}

/* ---- Cholesky: a = L L^T, P = Phi(L^T g) with half its diagonal:  da = sym(L^-T P L^-1) */
static void cholesky_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *L = c->out;
    cr_tensor *t = cr_contiguous(transposed(L));    /* both systems read it */
    cr_tensor *left = cr_solve_triangular(t, lower_half(cr_matmul(t, g)), true, false);
    cr_tensor *both = cr_solve_triangular(t, transposed(left), true, false);
    dx[0] = mul_k(add(both, transposed(both)), 0.5);
}

static cr_tensor *symmetric(const cr_tensor *a) { return a ? mul_k(add(a, transposed(a)), 0.5) : NULL; }

/* dL = L Phi(L^-1 t L^-T), Phi: the lower triangle with half the diagonal */
static cr_tensor *cholesky_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *L = c->out;
    cr_tensor *left = cr_solve_triangular(L, symmetric(t[0]), false, false);
    cr_tensor *both = cr_solve_triangular(L, transposed(left), false, false);
    return cr_matmul(L, lower_half(both));
}

const cr_op cr_op_cholesky = {
    .name = "cholesky",
    .arity = 1,
    .params_bytes = sizeof(factor_params),
    .contiguous = true,
    .saves = CR_SAVE_OUT,
    .infer = factor_infer,
    .forward = factor_forward,
    .grad = cholesky_grad,
    .batch = cr_batch_same,
    .tangent = cholesky_tangent,
};

cr_tensor *cr_cholesky(const cr_tensor *a) {
    if (!cr_given("cholesky", "a", a)) return NULL;
    cr_scope_begin();
    return cr_leave(back(factored(&cr_op_cholesky, a, CR_FACTOR_CHOLESKY, NULL), a));
}

/* ---- LU: a = P L U.  With K = min(M, N), L1 and U1 the square parts, L2 and U2 the rest:
 *   da = P [ L1^-T (tril(L1^T gL1 - gU2 U2^T, -1) + triu(gU1 U1^T - L2^T gL2)) ; gL2 ] U1^-T, beside it L1^-T gU2 */
static cr_tensor *spread_rows(const cr_tensor *order, const cr_tensor *x) {
    if (!x || !x->numel) return same(x);
    const int64_t M = rows_in(x), K = columns_in(x), all = x->numel / K;            /* of the whole batch */
    cr_tensor *first = cr_arange(0, (double)all, (double)M, CR_I64, x->dev);       /* of each matrix */
    cr_tensor *index = add(cr_reshape(order, CR_LIST(all / M, M)), cr_unsqueeze(first, -1));
    cr_tensor *flat = cr_reshape(x, CR_LIST(all, K));
    cr_tensor *y = cr_index_copy(cr_zeros_like(flat), 0, cr_reshape(index, CR_LIST(all)), flat);
    return cr_reshape(y, x->ndim, x->shape);
}

static void lu_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const int64_t M = rows_in(c->out), N = columns_in(c->out), K = cr_imin(M, N);
    if (!c->out->numel) { dx[0] = same(g); return; }
    cr_tensor *lu1 = cr_slice(rows(c->out, 0, K), -1, 0, K, 1), *g1 = cr_slice(rows(g, 0, K), -1, 0, K, 1);
    cr_tensor *L = cr_add(cr_tril(lu1, -1), cr_eye(K, K, g->dtype, g->dev)), *U = cr_triu(lu1, 0);
    cr_tensor *low = cr_matmul(transposed(L), cr_tril(g1, -1)), *high = cr_matmul(cr_triu(g1, 0), transposed(U));
    cr_tensor *u2 = cr_slice(c->out, -1, K, N, 1), *gu2 = cr_slice(g, -1, K, N, 1);
    cr_tensor *l2 = rows(c->out, K, M - K), *gl2 = rows(g, K, M - K), *t = transposed(lu1);
    if (N > K) low = sub(low, cr_matmul(gu2, transposed(u2)));
    if (M > K) high = sub(high, cr_matmul(transposed(l2), gl2));
    cr_tensor *inner = add(cr_tril(low, -1), cr_triu(high, 0));
    cr_tensor *y = cr_solve_triangular(t, inner, true, true);
    if (M > K) y = cr_cat(2, (const cr_tensor *[]){y, gl2}, -2);
    y = transposed(cr_solve_triangular(lu1, transposed(y), true, false));           /* y U1^-T */
    if (N > K) y = cr_cat(2, (const cr_tensor *[]){y, cr_solve_triangular(t, gu2, true, true)}, -1);
    dx[0] = spread_rows(c->aux[0], y);
}

/* With b = P^T t and F = L1^-1 b1 U1^-1:  dL1 = L1 tril(F, -1),  dU1 = triu(F) U1; below dL2 = (b2 - L2 dU1) U1^-1,
 * beside dU2 = L1^-1 (b3 - dL1 U2) */
static cr_tensor *lu_tangent(const cr_call *c, const cr_tensor *const *t) {
    const int64_t M = rows_in(c->out), N = columns_in(c->out), K = cr_imin(M, N);
    if (!c->out->numel) return same(t[0]);
    cr_tensor *index = cr_expand(cr_unsqueeze(c->aux[0], -1), t[0]->ndim, t[0]->shape), *b = cr_gather(t[0], -2, index);
    cr_tensor *top = rows(b, 0, K), *lu1 = cr_slice(rows(c->out, 0, K), -1, 0, K, 1), *ut = transposed(lu1);
    cr_tensor *L = add(cr_tril(lu1, -1), cr_eye(K, K, b ? b->dtype : CR_F32, c->dev)), *U = cr_triu(lu1, 0);
    cr_tensor *left = cr_solve_triangular(lu1, cr_slice(top, -1, 0, K, 1), false, true);
    cr_tensor *F = transposed(cr_solve_triangular(ut, transposed(left), false, false));
    cr_tensor *dL = cr_matmul(L, cr_tril(F, -1)), *dU = cr_matmul(cr_triu(F, 0), U), *y = add(dL, dU);
    if (M > K) {
        cr_tensor *rest = sub(rows(b, K, M - K), cr_matmul(rows(c->out, K, M - K), dU));
        cr_tensor *dl2 = transposed(cr_solve_triangular(ut, transposed(rest), false, false));
        y = cr_cat(2, (const cr_tensor *[]){y, dl2}, -2);
    }
    if (N > K) {
        cr_tensor *rest = sub(cr_slice(b, -1, K, N, 1), cr_matmul(dL, cr_slice(c->out, -1, K, N, 1)));
        y = cr_cat(2, (const cr_tensor *[]){y, cr_solve_triangular(lu1, rest, false, true)}, -1);
    }
    return y;
}

const cr_op cr_op_lu_factor = {
    .name = "lu_factor",
    .arity = 1,
    .params_bytes = sizeof(factor_params),
    .contiguous = true,
    .saves = CR_SAVE_OUT | CR_SAVE_AUX,
    .n_aux = 2,
    .infer = factor_infer,
    .forward = factor_forward,
    .grad = lu_grad,
    .batch = cr_batch_same,
    .tangent = lu_tangent,
};

cr_tensor *cr_lu_factor(const cr_tensor *a, cr_tensor **pivots, cr_tensor **order) {
    if (pivots) *pivots = NULL;
    if (order) *order = NULL;
    if (!cr_given("lu_factor", "a", a)) return NULL;
    cr_scope_begin();
    cr_tensor *aux[2] = {NULL}, *y = back(factored(&cr_op_lu_factor, a, CR_FACTOR_LU, aux), a);
    cr_tensor *const made[] = {y, y ? moved_back(aux[0], a) : NULL, y ? moved_back(aux[1], a) : NULL};
    cr_tensor *kept = NULL, **const to[] = {&kept, order, pivots};
    keep_all(3, made, to);
    cr_scope_end();
    return kept;
}

/* ---- triangular systems: x = a^-1 b:  db = a^-T g,  da = -db x^T in the triangle */
typedef struct triangular_params { bool upper, unit; } triangular_params;

static cr_status check_systems(const char *op, const cr_tensor *a, const cr_tensor *b) {
    cr_status status = check_matrices(op, a, true);
    if (status == CR_OK) status = check_matrices(op, b, false);
    if (status == CR_OK) status = cr_want_same_dtype(op, a, b);
    if (status == CR_OK && rows_in(a) != rows_in(b))
        status = cr_fail(CR_BAD_VALUE, op, "%s systems with right-hand sides %s: the rows differ",
                         cr_shape_text(a->ndim, a->shape).s, cr_shape_text(b->ndim, b->shape).s);
    if (status == CR_OK && a->dev != b->dev)
        status = cr_fail(CR_BAD_VALUE, op, "operands on two devices, %s and %s", a->dev->name, b->dev->name);
    return status;
}

static cr_status systems_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    *out = cr_meta_of(c->in[1]);
    if (c->op->n_aux) {
        aux[0] = aux[1] = cr_meta_of(c->in[0]);
        aux[1].ndim--;
        aux[1].dtype = CR_I64;
    }
    return check_systems(c->op->name, c->in[0], c->in[1]);
}

static cr_status triangular_forward(const cr_call *c, cr_tensor *x, cr_tensor *const aux[]) {
    (void)aux;
    const triangular_params *p = c->params;
    if (!x->numel) return CR_OK;
    return c->dev->kernels->substitute(&(cr_substitute_args){.x = batch_of(x, 2), .a = batch_of(c->in[0], 2),
                                                             .b = batch_of(c->in[1], 2), .upper = p->upper,
                                                             .unit = p->unit});
}

static void triangular_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const triangular_params *p = c->params;
    cr_tensor *db = cr_solve_triangular(transposed(c->in[0]), g, !p->upper, p->unit);
    dx[1] = db;
    if (!c->needs[0]) return;
    cr_tensor *da = cr_neg(cr_matmul(db, transposed(c->out)));
    dx[0] = p->upper ? cr_triu(da, p->unit) : cr_tril(da, -(int64_t)p->unit);
}

/* x = a^-1 b:  dx = a^-1 (tb - ta x), ta in the triangle */
static cr_tensor *triangular_tangent(const cr_call *c, const cr_tensor *const *t) {
    const triangular_params *p = c->params;
    cr_tensor *b = same(t[1]);
    if (t[0] != CR_NONE) {
        cr_tensor *ta = p->upper ? cr_triu(t[0], p->unit) : cr_tril(t[0], -(int64_t)p->unit);
        b = cr_tangent_sum(cr_neg(cr_matmul(ta, c->out)), b);
    }
    return cr_solve_triangular(c->in[0], b, p->upper, p->unit);
}

const cr_op cr_op_solve_triangular = {
    .name = "solve_triangular",
    .arity = 2,
    .params_bytes = sizeof(triangular_params),
    .contiguous = true,
    .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = systems_infer,
    .forward = triangular_forward,
    .grad = triangular_grad,
    .batch = cr_batch_all,
    .tangent = triangular_tangent,
};

/* Both with the same batch axes, in the same dtype, where the kernels are. */
static cr_status prepare(const char *op, const cr_tensor *in[2], bool triangular) {
    int64_t batch[CR_MAX_DIMS], shape[CR_MAX_DIMS];
    int n;
    const cr_device *dev = NULL;
    cr_status status = check_systems(op, in[0], in[1]);
    if (status == CR_OK)
        status = cr_broadcast(op, in[0]->ndim - 2, in[0]->shape, in[1]->ndim - 2, in[1]->shape, &n, batch);
    for (int i = 0; i < 2 && status == CR_OK; i++) {
        for (int k = 0; k < n; k++) shape[k] = batch[k];
        shape[n] = rows_in(in[i]);
        shape[n + 1] = columns_in(in[i]);
        if (!cr_shape_equal(n + 2, shape, in[i]->ndim, in[i]->shape)) in[i] = cr_expand(in[i], n + 2, shape);
        if (in[i] && !dev)
            dev = !triangular                         ? factors_on(in[i], CR_FACTOR_LU)
                  : in[i]->dev->kernels->substitute ? in[i]->dev
                                                    : cr_cpu();
        if (in[i]) in[i] = to_kernels(in[i], dev);
        if (!in[i]) status = cr_error_status();
    }
    return status;
}

cr_tensor *cr_solve_triangular(const cr_tensor *a, const cr_tensor *b, bool upper, bool unit) {
    static const char op[] = "solve_triangular";
    if (!cr_given(op, "a", a) || !cr_given(op, "b", b)) return NULL;
    cr_scope_begin();
    const cr_tensor *in[] = {a, b};
    if (prepare(op, in, true) != CR_OK) return cr_leave(NULL);
    return cr_leave(back(cr_apply(&cr_op_solve_triangular, 2, in, &(triangular_params){upper, unit}), b));
}

/* ---- solve: x = a^-1 b by LU:  db = a^-T g,  da = -db x^T */
static cr_status solve_forward(const cr_call *c, cr_tensor *x, cr_tensor *const aux[]) {
    const cr_tensor *a = c->in[0];
    if (!a->numel) return CR_OK;
    return c->dev->kernels->solve(&(cr_solve_args){.x = batch_of(x, 2), .lu = batch_of(aux[0], 2),
                                                   .order = batch_of(aux[1], 1), .a = batch_of(a, 2),
                                                   .b = batch_of(c->in[1], 2)});
}

static void solve_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    cr_tensor *db, *t = cr_contiguous(transposed(c->differentiable ? c->in[0] : c->aux[0]));
    if (c->differentiable) db = cr_solve(t, g, NULL);
    else db = spread_rows(c->aux[1], cr_solve_triangular(t, cr_solve_triangular(t, g, false, false), true, true));
    dx[1] = db;
    if (c->needs[0]) dx[0] = cr_neg(cr_matmul(db, transposed(c->out)));
}

/* x = a^-1 b:  dx = a^-1 (tb - ta x) */
static cr_tensor *solve_tangent(const cr_call *c, const cr_tensor *const *t) {
    cr_tensor *b = same(t[1]);
    if (t[0] != CR_NONE) b = cr_tangent_sum(cr_neg(cr_matmul(t[0], c->out)), b);
    return cr_solve(c->in[0], b, NULL);
}

const cr_op cr_op_solve = {
    .name = "solve",
    .arity = 2,
    .contiguous = true,
    .saves = CR_SAVE_IN(0) | CR_SAVE_OUT | CR_SAVE_AUX,
    .n_aux = 2,
    .infer = systems_infer,
    .forward = solve_forward,
    .grad = solve_grad,
    .batch = cr_batch_all,
    .tangent = solve_tangent,
};

cr_tensor *cr_solve(const cr_tensor *a, const cr_tensor *b, cr_tensor **lu) {
    static const char op[] = "solve";
    if (lu) *lu = NULL;
    if (!cr_given(op, "a", a) || !cr_given(op, "b", b)) return NULL;
    cr_scope_begin();
    const cr_tensor *in[] = {a, b};
    cr_tensor *aux[2] = {NULL}, *kept = NULL, **const to[] = {&kept, lu};
    cr_tensor *x = prepare(op, in, false) == CR_OK ? back(cr_apply_aux(&cr_op_solve, 2, in, NULL, aux), b) : NULL;
    if (x) keep_all(2, (cr_tensor *const[]){x, back(aux[0], a)}, to);
    cr_scope_end();
    return kept;
}

/* ---- QR: x = Q R:  dx = (gQ + Q S) R^-T,  S the symmetric matrix with the upper triangle of gR R^T - Q^T gQ */
static void qr_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const int64_t N = columns_in(c->out), M = rows_in(c->out) - N;
    cr_tensor *Q = rows(c->out, 0, M), *R = rows(c->out, M, N), *gQ = rows(g, 0, M), *gR = rows(g, M, N);
    cr_tensor *s = cr_triu(sub(cr_matmul(gR, transposed(R)), cr_matmul(transposed(Q), gQ)), 0);
    s = add(s, transposed(cr_triu(s, 1)));
    dx[0] = transposed(cr_solve_triangular(R, transposed(add(gQ, cr_matmul(Q, s))), true, false));
}

/* With W = t R^-1, s = Q^T W and w = tril(s, -1) - tril(s, -1)^T:  dR = (s - w) R,  dQ = W - Q (s - w) */
static cr_tensor *qr_tangent(const cr_call *c, const cr_tensor *const *t) {
    const int64_t N = columns_in(c->out), M = rows_in(c->out) - N;
    cr_tensor *Q = rows(c->out, 0, M), *R = rows(c->out, M, N);
    cr_tensor *W = transposed(cr_solve_triangular(transposed(R), transposed(t[0]), false, false));
    cr_tensor *s = cr_matmul(transposed(Q), W), *low = cr_tril(s, -1), *upper = sub(s, sub(low, transposed(low)));
    return cr_cat(2, (const cr_tensor *[]){sub(W, cr_matmul(Q, upper)), cr_matmul(upper, R)}, -2);
}

const cr_op cr_op_qr = {
    .name = "qr",
    .arity = 1,
    .params_bytes = sizeof(factor_params),
    .contiguous = true,
    .saves = CR_SAVE_OUT,
    .infer = factor_infer,
    .forward = factor_forward,
    .grad = qr_grad,
    .batch = cr_batch_same,
    .tangent = qr_tangent,
};

/* A wide matrix is (A1, A2), A1 square: Q is that of A1, and R = (R1, Q^T A2). */
cr_tensor *cr_qr(const cr_tensor *x, cr_tensor **r) {
    if (r) *r = NULL;
    if (!cr_given("qr", "x", x) || check_matrices("qr", x, false) != CR_OK) return NULL;
    const int64_t M = rows_in(x), N = columns_in(x), K = cr_imin(M, N);
    cr_scope_begin();
    cr_tensor *wide = N > K ? cr_slice(x, -1, K, N, 1) : NULL;
    cr_tensor *y = back(factored(&cr_op_qr, N > K ? cr_slice(x, -1, 0, K, 1) : x, CR_FACTOR_QR, NULL), x);
    cr_tensor *q = rows(y, 0, M), *upper = rows(y, M, K), *kept = NULL, **const to[] = {&kept, r};
    if (wide) upper = cr_cat(2, (const cr_tensor *[]){upper, cr_matmul(transposed(q), wide)}, -1);
    keep_all(2, (cr_tensor *const[]){q, upper}, to);
    cr_scope_end();
    return kept;
}

static cr_tensor *skew(const cr_tensor *a) { return sub(a, transposed(a)); }

/* ---- x = V diag(w) V^T:  dx = V (diag(gw) + (V^T gV - gV^T V) / 2 / (w_j - w_i)) V^T */
static void eigh_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const int64_t N = columns_in(c->out);
    cr_tensor *V = rows(c->out, 0, N), *w = rows(c->out, N, 1), *gV = rows(g, 0, N), *gw = rows(g, N, 1);
    cr_tensor *turn = over_gaps(mul_k(skew(cr_matmul(transposed(V), gV)), 0.5), sub(w, transposed(w)));
    dx[0] = cr_matmul(cr_matmul(V, add(turn, on_diagonal(gw))), transposed(V));
}

/* With p = V^T t V:  dw = diag(p),  dV = V (p / (w_j - w_i)) */
static cr_tensor *eigh_tangent(const cr_call *c, const cr_tensor *const *t) {
    const int64_t N = columns_in(c->out);
    cr_tensor *V = rows(c->out, 0, N), *w = rows(c->out, N, 1);
    cr_tensor *p = cr_matmul(cr_matmul(transposed(V), symmetric(t[0])), V);
    cr_tensor *dV = cr_matmul(V, over_gaps(p, sub(w, transposed(w))));
    cr_tensor *dw = p ? cr_unsqueeze(cr_diagonal(p, 0, -2, -1), -2) : NULL;
    return cr_cat(2, (const cr_tensor *[]){dV, dw}, -2);
}

const cr_op cr_op_eigh = {
    .name = "eigh",
    .arity = 1,
    .params_bytes = sizeof(factor_params),
    .contiguous = true,
    .saves = CR_SAVE_OUT,
    .infer = factor_infer,
    .forward = factor_forward,
    .grad = eigh_grad,
    .batch = cr_batch_same,
    .tangent = eigh_tangent,
};

cr_tensor *cr_eigh(const cr_tensor *x, cr_tensor **vectors) {
    if (vectors) *vectors = NULL;
    if (!cr_given("eigh", "x", x)) return NULL;
    cr_scope_begin();
    cr_tensor *y = back(factored(&cr_op_eigh, x, CR_FACTOR_EIGH, NULL), x), *kept = NULL;
    const int64_t N = y ? columns_in(y) : 0;
    cr_tensor *w = y ? cr_squeeze(rows(y, N, 1), CR_LIST(-2)) : NULL, **const to[] = {&kept, vectors};
    keep_all(2, (cr_tensor *const[]){w, y ? rows(y, 0, N) : NULL}, to);
    cr_scope_end();
    return kept;
}

/* ---- x = U diag(s) V^T, M >= N, E_ij = s_j^2 - s_i^2, skew(a) = a - a^T:
 *   dx = U (skew(U^T gU) / E s_j + s_i skew(V^T gV) / E + diag(gs)) V^T + (I - U U^T) gU diag(1 / s) V^T */
static void svd_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const int64_t N = columns_in(c->out), M = rows_in(c->out) - 1 - N;
    cr_tensor *U = rows(c->out, 0, M), *s = rows(c->out, M, 1), *V = rows(c->out, M + 1, N);
    cr_tensor *gU = rows(g, 0, M), *gs = rows(g, M, 1), *gV = rows(g, M + 1, N);
    cr_tensor *squares = mul(s, s), *E = sub(squares, transposed(squares));
    cr_tensor *of_u = mul(over_gaps(skew(cr_matmul(transposed(U), gU)), E), s);
    cr_tensor *of_v = mul(transposed(s), over_gaps(skew(cr_matmul(transposed(V), gV)), E));
    cr_tensor *y = cr_matmul(U, add(add(of_u, of_v), on_diagonal(gs)));
    if (M > N) {
        cr_tensor *outside = over_gaps(gU, s);
        y = add(y, sub(outside, cr_matmul(U, cr_matmul(transposed(U), outside))));
    }
    dx[0] = cr_matmul(y, transposed(V));
}

/* With p = U^T t V and E_ij = s_j^2 - s_i^2:  ds = diag(p),  dU = U ((p_ij s_j + s_i p_ji) / E) + (I - U U^T) t V / s,
 *   dV = V ((s_i p_ij + p_ji s_j) / E) */
static cr_tensor *svd_tangent(const cr_call *c, const cr_tensor *const *t) {
    const int64_t N = columns_in(c->out), M = rows_in(c->out) - 1 - N;
    cr_tensor *U = rows(c->out, 0, M), *s = rows(c->out, M, 1), *V = rows(c->out, M + 1, N);
    cr_tensor *squares = mul(s, s), *E = sub(squares, transposed(squares)), *column = transposed(s);
    cr_tensor *tv = cr_matmul(t[0], V), *p = cr_matmul(transposed(U), tv), *back = transposed(p);
    cr_tensor *dU = cr_matmul(U, over_gaps(add(mul(p, s), mul(column, back)), E));
    cr_tensor *dV = cr_matmul(V, over_gaps(add(mul(column, p), mul(back, s)), E));
    if (M > N) {
        cr_tensor *outside = over_gaps(tv, s);
        dU = add(dU, sub(outside, cr_matmul(U, cr_matmul(transposed(U), outside))));
    }
    cr_tensor *ds = p ? cr_unsqueeze(cr_diagonal(p, 0, -2, -1), -2) : NULL;
    return cr_cat(3, (const cr_tensor *[]){dU, ds, dV}, -2);
}

const cr_op cr_op_svd = {
    .name = "svd",
    .arity = 1,
    .params_bytes = sizeof(factor_params),
    .contiguous = true,
    .saves = CR_SAVE_OUT,
    .infer = factor_infer,
    .forward = factor_forward,
    .grad = svd_grad,
    .batch = cr_batch_same,
    .tangent = svd_tangent,
};

cr_tensor *cr_svd(const cr_tensor *x, cr_tensor **s, cr_tensor **v) {
    if (s) *s = NULL;
    if (v) *v = NULL;
    if (!cr_given("svd", "x", x) || check_matrices("svd", x, false) != CR_OK) return NULL;
    const int64_t M = rows_in(x), N = columns_in(x), K = cr_imin(M, N), most = cr_imax(M, N);
    cr_scope_begin();
    cr_tensor *y = back(factored(&cr_op_svd, M < N ? transposed(x) : x, CR_FACTOR_SVD, NULL), x), *kept = NULL;
    cr_tensor *first = rows(y, 0, most), *second = rows(y, most + 1, K), **const to[] = {&kept, s, v};
    cr_tensor *values = y ? cr_squeeze(rows(y, most, 1), CR_LIST(-2)) : NULL;
    keep_all(3, (cr_tensor *const[]){M < N ? second : first, values, M < N ? first : second}, to);
    cr_scope_end();
    return kept;
}

/* ---- values without vectors: the gradient computes these.  Up to FEW columns rotations are faster. */
enum { FEW = 16 };

/* w of x = V diag(w) V^T:  dx = V diag(g) V^T */
static void eigvalsh_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    cr_tensor *V = NULL;
    cr_eigh(c->in[0], &V);
    dx[0] = cr_matmul(mul(V, g), transposed(V));
}
/* dw = diag(V^T t V) */
static cr_tensor *eigvalsh_tangent(const cr_call *c, const cr_tensor *const *t) {
    cr_tensor *V = NULL;
    cr_eigh(c->in[0], &V);
    return cr_sum(mul(V, cr_matmul(symmetric(t[0]), V)), CR_LIST(-2), true);
}

const cr_op cr_op_eigvalsh = {
    .name = "eigvalsh",
    .arity = 1,
    .params_bytes = sizeof(factor_params),
    .contiguous = true,
    .saves = CR_SAVE_IN(0),
    .infer = factor_infer,
    .forward = factor_forward,
    .grad = eigvalsh_grad,
    .batch = cr_batch_same,
    .tangent = eigvalsh_tangent,
};

cr_tensor *cr_eigvalsh(const cr_tensor *x) {
    if (!cr_given("eigvalsh", "x", x)) return NULL;
    if (x->ndim < 2 || columns_in(x) <= FEW) return cr_eigh(x, NULL);
    cr_scope_begin();
    cr_tensor *w = back(factored(&cr_op_eigvalsh, x, CR_FACTOR_EIGVALSH, NULL), x);
    return cr_leave(w ? cr_squeeze(w, CR_LIST(-2)) : NULL);
}

/* s of x = U diag(s) V^T:  dx = U diag(g) V^T */
static void svdvals_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    cr_tensor *s = NULL, *V = NULL, *U = cr_svd(c->in[0], &s, &V);
    dx[0] = cr_matmul(mul(U, g), transposed(V));
}
/* ds = diag(U^T t V) */
static cr_tensor *svdvals_tangent(const cr_call *c, const cr_tensor *const *t) {
    cr_tensor *s = NULL, *V = NULL, *U = cr_svd(c->in[0], &s, &V);
    return cr_sum(mul(U, cr_matmul(t[0], V)), CR_LIST(-2), true);
}

const cr_op cr_op_svdvals = {
    .name = "svdvals",
    .arity = 1,
    .params_bytes = sizeof(factor_params),
    .contiguous = true,
    .saves = CR_SAVE_IN(0),
    .infer = factor_infer,
    .forward = factor_forward,
    .grad = svdvals_grad,
    .batch = cr_batch_same,
    .tangent = svdvals_tangent,
};

cr_tensor *cr_svdvals(const cr_tensor *x) {
    if (!cr_given("svdvals", "x", x) || check_matrices("svd", x, false) != CR_OK) return NULL;
    const int64_t M = rows_in(x), N = columns_in(x);
    cr_tensor *s = NULL;
    cr_scope_begin();
    if (cr_imin(M, N) <= FEW) return cr_svd(x, &s, NULL), cr_leave(s);
    s = back(factored(&cr_op_svdvals, M < N ? transposed(x) : x, CR_FACTOR_SVDVALS, NULL), x);
    return cr_leave(s ? cr_squeeze(s, CR_LIST(-2)) : NULL);
}
