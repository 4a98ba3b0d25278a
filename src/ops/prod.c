/* prod.c - products over any axes and running products.  Their gradients are exact where elements are
 * 0, to any order: nothing is divided. */
#include "reduce.h"
#include "scan.h"
#include "transform.h"

/* y[k] = x[0] ... x[k], g its cotangent:  dx[k] = sum from k on of g[i] (product of all x up to i but x[k])
 *                                               = (x[0] ... x[k - 1]) t[k],  t[k] = g[k] + x[k + 1] t[k + 1] */
static cr_tensor *running_grad(const cr_tensor *x, const cr_tensor *y, const cr_tensor *g, int axis) {
    if (!x || !y) return NULL;
    if (!x->numel) return cr_zeros_like(x);
    const cr_tensor *one = cr_ones_like(cr_slice(x, axis, 0, 1, 1));
    return mul(cr_before(y, one, axis), cr_recurrence(g, x, axis, true));
}

/* ---- prod: products over axes; integers and bool multiply as i64 */
static cr_status prod_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    cr_reduced_meta(c, out);
    if (!cr_dtype_is_float(out->dtype)) out->dtype = CR_I64;
    return CR_OK;
}

static cr_status prod_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_reduce_axes(&(cr_reduce_how){.kind = CR_REDUCE_PROD}, out, c->in[0], mask_of(c));
}

/* y = prod(x), the last of the running products over the reduced axes:  dx = their gradient, over x as
 * (M, R), R reduced */
static void prod_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    const uint32_t mask = mask_of(c);
    const int64_t R = cr_reduced_count(x, mask), M = R ? x->numel / R : 0;
    int64_t order[CR_MAX_DIMS], back[CR_MAX_DIMS];
    int n = 0;
    if (!x->numel) { dx[0] = cr_zeros_like(x); return; }
    for (int reduced = 0; reduced < 2; reduced++)
        for (int i = 0; i < x->ndim; i++)
            if ((int)(mask >> i & 1) == reduced) { back[i] = n; order[n++] = i; }
    cr_tensor *moved = cr_permute(x, n, order), *rows = cr_reshape(widened(moved), CR_LIST(M, R)),
              *last = cr_reshape(widened(g), CR_LIST(M, 1));
    const cr_embed_params at_end = {.part = {2, {M, 1}, {R, 1}, R - 1}, .ndim = 2, .shape = {M, R}};
    cr_tensor *g_rows = cr_apply(&cr_op_embed_part, 1, (const cr_tensor *[]){last}, &at_end);
    cr_tensor *d = running_grad(rows, cr_cumprod(rows, 1), g_rows, 1);
    dx[0] = cast_to(cr_permute(moved && d ? reshaped_like(d, moved) : NULL, n, back), x->dtype);
}

const cr_op cr_op_prod = {
    .name = "prod",
    .arity = 1,
    .params_bytes = sizeof(cr_reduce_params),
    .saves = CR_SAVE_IN(0),
    .infer = prod_infer,
    .forward = prod_forward,
    .grad = prod_grad,
    .batch = cr_reduce_batch,
    .tangent = cr_reduce_tangent,
};

cr_tensor *cr_prod(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_given("prod", "x", x) || cr_axes_mask("prod", n, axes, x->ndim, &mask) != CR_OK) return NULL;
    return cr_apply(&cr_op_prod, 1, &x, &(cr_reduce_params){.mask = mask, .keepdim = keepdim});
}

/* ---- cumprod: running products along an axis; integers and bool multiply as i64 */
static cr_status cumprod_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_run_scan(c, CR_SCAN_PROD, out, NULL);
}

static void cumprod_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    if (!x->ndim) dx[0] = same(g);
    else
        dx[0] = cast_to(
            running_grad(widened(x), widened(c->out), widened(g), ((const cr_scan_params *)c->params)->axis), x->dtype);
}

/* y[k] = x[k] y[k - 1]:  dy[k] = t[k] y[k - 1] + x[k] dy[k - 1] */
static cr_tensor *cumprod_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *x = widened(c->in[0]), *y = widened(c->out);
    const int axis = ((const cr_scan_params *)c->params)->axis;
    if (!x || !x->ndim || !x->numel) return x ? same(t[0]) : NULL;
    const cr_tensor *one = cr_ones_like(cr_slice(x, axis, 0, 1, 1));
    return cr_recurrence(mul(widened(t[0]), cr_before(y, one, axis)), x, axis, false);
}

const cr_op cr_op_cumprod = {
    .name = "cumprod",
    .arity = 1,
    .params_bytes = sizeof(cr_scan_params),
    .contiguous = true,
    .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = cr_scan_infer,
    .forward = cumprod_forward,
    .grad = cumprod_grad,
    .batch = cr_batch_axis,
    .tangent = cumprod_tangent,
};

cr_tensor *cr_cumprod(const cr_tensor *x, int axis) { return cr_scan_over(&cr_op_cumprod, x, axis); }
