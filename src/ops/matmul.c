/* matmul.c - products of matrices and batches of them, and sums with a tensor.  Fast twin:
 * dev/cpu/matmul.c.  linear.c has the product with bias. */
#include "compose.h"
#include "transform.h"

#include <string.h>

static _Thread_local cr_precision precision;
cr_precision cr_set_f32_products(cr_precision p) {
    const cr_precision old = precision;
    if ((int)p < CR_HIGHEST || p > CR_MEDIUM)
        cr_fail(CR_BAD_VALUE, "set_f32_products", "%d is not a precision", (int)p);
    else precision = p;
    return old;
}
int cr_product_how(void) { return precision == CR_MEDIUM ? CR_MATMUL_BF16 : precision == CR_HIGH ? CR_MATMUL_TF32 : 0; }

/* A vector on the left is a row (1, K), on the right a column (K, 1). */
static void as_matrix(const cr_tensor *x, bool left, int *n, int64_t *shape, int64_t *strides) {
    *n = x->ndim == 1 ? 2 : x->ndim;
    memcpy(shape, x->shape, sizeof x->shape);
    memcpy(strides, x->strides, sizeof x->strides);
    if (x->ndim != 1) return;
    shape[1] = left ? x->shape[0] : 1;
    shape[0] = left ? 1 : x->shape[0];
    strides[1] = left ? x->strides[0] : 0;
    strides[0] = left ? 0 : x->strides[0];
}

static cr_status product_meta(const char *op, const cr_tensor *a, const cr_tensor *b, cr_meta *out) {
    int na, nb, n;
    int64_t sa[CR_MAX_DIMS], sb[CR_MAX_DIMS], strides[CR_MAX_DIMS], batch[CR_MAX_DIMS];
    if (!a->ndim || !b->ndim)
        return cr_fail(CR_BAD_VALUE, op, "both operands need an axis: %s x %s", cr_shape_text(a->ndim, a->shape).s,
                       cr_shape_text(b->ndim, b->shape).s);
    cr_status status = cr_want_same_dtype(op, a, b);
    if (status != CR_OK) return status;
    if (a->dtype == CR_BOOL) return cr_fail(CR_BAD_TYPE, op, "takes numbers, not bool");
    as_matrix(a, true, &na, sa, strides);
    as_matrix(b, false, &nb, sb, strides);
    if (sa[na - 1] != sb[nb - 2])
        return cr_fail(CR_BAD_VALUE, op, "inner dimensions differ: %s x %s", cr_shape_text(a->ndim, a->shape).s,
                       cr_shape_text(b->ndim, b->shape).s);
    status = cr_broadcast(op, na - 2, sa, nb - 2, sb, &n, batch);
    if (status != CR_OK) return status;
    *out = (cr_meta){.dtype = a->dtype, .ndim = n};
    memcpy(out->shape, batch, sizeof *batch * (size_t)n);
    if (a->ndim > 1) out->shape[out->ndim++] = sa[na - 2];
    if (b->ndim > 1) out->shape[out->ndim++] = sb[nb - 1];
    return cr_shape_check(op, out->ndim, out->shape, out->dtype, NULL);
}

static cr_status matmul_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    return product_meta("matmul", c->in[0], c->in[1], out);
}

/* x as (batch..., rows, columns) with n axes, stride 0 along batch axes that x lacks or repeats. */
static cr_array operand(const cr_tensor *x, bool left, int n, const int64_t *batch) {
    cr_array a = {.storage = x->storage, .dev = x->dev, .dtype = x->dtype, .ndim = n, .offset = x->offset, .numel = 1};
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS];
    int nx;
    as_matrix(x, left, &nx, shape, strides);
    for (int i = 0, k = nx - n; i < n; i++, k++) {
        bool matrix = i >= n - 2, there = k >= 0;
        a.numel *= a.shape[i] = matrix ? shape[k] : batch[i];
        a.strides[i] = there && (matrix || shape[k] == batch[i]) ? strides[k] : 0;
    }
    a.contiguous = cr_strides_are_contiguous(n, a.shape, a.strides);
    return a;
}

/* A batch of a against one matrix b is one tall product, where a's rows lie evenly in memory; false where not. */
static bool tall(const cr_tensor *a, int64_t rows, cr_array *y) {
    *y = cr_array_as(&a->array, CR_LIST(rows, a->shape[a->ndim - 1]));
    const bool even = cr_view_strides(a, 2, y->shape, y->strides);
    y->contiguous = a->contiguous;
    return even;
}

/* out = a b, or out += a b; K and out are not empty. */
static cr_status multiply(cr_tensor *out, const cr_tensor *a, const cr_tensor *b, int how) {
    int64_t shape[CR_MAX_DIMS], M = a->ndim > 1 ? a->shape[a->ndim - 2] : 1,
                                N = b->ndim > 1 ? b->shape[b->ndim - 1] : 1;
    int n = out->ndim - (a->ndim > 1) - (b->ndim > 1);      /* batch axes */
    memcpy(shape, out->shape, sizeof *shape * (size_t)n);
    cr_array left;
    const bool one = n && b->ndim <= 2 && tall(a, out->numel / N, &left);
    if (one) n = 0;
    shape[n] = one ? out->numel / N : M;
    shape[n + 1] = N;
    if (!one) left = operand(a, true, n + 2, shape);
    return out->dev->kernels->matmul(&(cr_matmul_args){.c = cr_array_as(&out->array, n + 2, shape),
                                                       .a = left,
                                                       .b = operand(b, false, n + 2, shape),
                                                       .how = cr_product_how() | how});
}

cr_tensor *cr_matmul_wide(const cr_tensor *a, const cr_tensor *b) {
    cr_meta m;
    if (product_meta("matmul", a, b, &m) != CR_OK) return NULL;
    m.dtype = wide_dtype(a);
    cr_tensor *y = cr_new_like(&m, a->dev);
    const cr_status status = !y ? cr_error_status()
                             : !y->numel ? CR_OK
                             : a->shape[1] ? multiply(y, a, b, 0)
                                           : cr_fill_elements(y, 0);
    return status == CR_OK ? y : NULL;
}

static cr_status matmul_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *a = c->in[0], *b = c->in[1];
    if (!out->numel) return CR_OK;
    return a->shape[a->ndim - 1] ? multiply(out, a, b, 0) : cr_fill_elements(out, 0);
}

/* A cotangent as (..., M, N), whatever of the two axes a vector operand took away. */
static cr_tensor *as_product(const cr_tensor *g, const cr_tensor *a, const cr_tensor *b) {
    cr_tensor *y = b->ndim == 1 ? cr_unsqueeze(g, -1) : same(g);
    return a->ndim == 1 ? cr_unsqueeze(y, -2) : y;
}

static cr_tensor *row_or_matrix(const cr_tensor *a) { return a->ndim == 1 ? cr_unsqueeze(a, 0) : same(a); }
static cr_tensor *column_or_matrix(const cr_tensor *b) { return b->ndim == 1 ? cr_unsqueeze(b, 1) : same(b); }

/* y = a b:  da = g b^T,  db = a^T g; where a batch of a met one b, db is one product over all rows */
static void factors_grad(const cr_tensor *a, const cr_tensor *b, const bool needs[2], const cr_tensor *g,
                         cr_tensor *dx[]) {
    cr_tensor *gm = as_product(g, a, b);
    if (needs[0]) {
        cr_tensor *da = cr_matmul(gm, transposed(column_or_matrix(b)));
        dx[0] = a->ndim == 1 && da ? cr_squeeze(da, CR_LIST(-2)) : da;
    }
    if (needs[1]) {
        bool fold = a->ndim > 2 && b->ndim <= 2;
        cr_tensor *db = fold ? cr_matmul(transposed(rows_of(a)), rows_of(gm))
                             : cr_matmul(transposed(row_or_matrix(a)), gm);
        dx[1] = b->ndim == 1 && db ? cr_squeeze(db, CR_LIST(-1)) : db;
    }
}

static void matmul_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    factors_grad(c->in[0], c->in[1], c->needs, g, dx);
}

static uint32_t matmul_saves(const cr_call *c) {
    return (c->needs[0] ? CR_SAVE_IN(1) : 0) | (c->needs[1] ? CR_SAVE_IN(0) : 0);
}

/* vmap: vectors become rows and columns, and batch axes line up behind the samples' axis */
static const cr_tensor *matrices(const cr_batched *b, int i, bool left, int n) {
    const cr_tensor *x = b->in[i];
    const int vector = b->call->in[i]->ndim == 1;
    if (vector) x = left ? cr_unsqueeze(x, -2) : cr_unsqueeze(x, -1);
    b->in[i] = x;
    return x ? cr_batch_aligned(b, i, n) : NULL;
}

static cr_tensor *product_of_each(const cr_batched *b, int left, int right) {
    const int nl = b->call->in[left]->ndim, nr = b->call->in[right]->ndim, n = nl > nr ? nl : nr, least = n > 2 ? n : 2;
    const cr_tensor *x = matrices(b, left, true, least), *y = matrices(b, right, false, least);
    cr_tensor *product = x && y ? cr_matmul(x, y) : NULL;
    if (nl == 1) product = product ? cr_squeeze(product, CR_LIST(-2)) : NULL;
    return nr == 1 && product ? cr_squeeze(product, CR_LIST(-1)) : product;
}

static cr_tensor *matmul_batch(const cr_batched *b) { return product_of_each(b, 0, 1); }

const cr_op cr_op_matmul = {
    .name = "matmul",
    .arity = 2,
    .saves_for = matmul_saves,
    .infer = matmul_infer,
    .forward = matmul_forward,
    .grad = matmul_grad,
    .batch = matmul_batch,
    .tangent = cr_tangent_products,
};

/* ---- addmm: y = x + a b, x broadcast; one rounding for half precision */
static cr_status addmm_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    int n = 0;
    int64_t shape[CR_MAX_DIMS];
    cr_status status = product_meta("addmm", c->in[1], c->in[2], out);
    if (status == CR_OK) status = cr_want_same_dtype("addmm", x, c->in[1]);
    if (status == CR_OK) status = cr_broadcast("addmm", x->ndim, x->shape, out->ndim, out->shape, &n, shape);
    if (status == CR_OK && (!cr_shape_equal(n, shape, out->ndim, out->shape)))
        return cr_fail(CR_BAD_VALUE, "addmm", "%s does not broadcast to the product's shape %s",
                       cr_shape_text(x->ndim, x->shape).s, cr_shape_text(out->ndim, out->shape).s);
    return status;
}

static cr_status addmm_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *a = c->in[1], *b = c->in[2];
    cr_status status = cr_copy_repeated(out, c->in[0]);
    return status == CR_OK && out->numel && a->shape[a->ndim - 1] ? multiply(out, a, b, CR_MATMUL_ADD) : status;
}

/* y = x + a b:  dx = g, which the walk sums to x's shape */
static void addmm_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (c->needs[0]) dx[0] = same(g);
    factors_grad(c->in[1], c->in[2], c->needs + 1, g, dx + 1);
}

static uint32_t addmm_saves(const cr_call *c) {
    return (c->needs[1] ? CR_SAVE_IN(2) : 0) | (c->needs[2] ? CR_SAVE_IN(1) : 0);
}

static cr_tensor *addmm_batch(const cr_batched *b) {
    const cr_tensor *x = cr_batch_aligned(b, 0, b->out->ndim);
    cr_tensor *product = b->has[1] || b->has[2] ? product_of_each(b, 1, 2) : cr_matmul(b->in[1], b->in[2]);
    return product && x ? add(product, x) : NULL;
}

/* y = x + a b:  dy = tx + ta b + a tb */
static cr_tensor *addmm_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_call of_product = {.op = &cr_op_matmul, .n = 2, .in = c->in + 1, .dev = c->dev};
    return cr_tangent_sum(t[0], cr_tangent_products(&of_product, t + 1));
}

const cr_op cr_op_addmm = {
    .name = "addmm",
    .arity = 3,
    .saves_for = addmm_saves,
    .infer = addmm_infer,
    .forward = addmm_forward,
    .grad = addmm_grad,
    .batch = addmm_batch,
    .tangent = addmm_tangent,
};

cr_tensor *cr_matmul(const cr_tensor *a, const cr_tensor *b) {
    return cr_apply(&cr_op_matmul, 2, (const cr_tensor *const[]){a, b}, NULL);
}
