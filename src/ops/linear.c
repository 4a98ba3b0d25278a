/* linear.c - y = x w^T + b, the layer: x (..., C), w (OC, C), b (OC).  Fast twin: dev/cpu/matmul.c.
 * All rows of x are one product.  linear_gelu is the layer with GELU in its tanh form behind it, which products
 * of CUDA apply. */
#include "compose.h"
#include "linear.h"
#include "programs.h"
#include "transform.h"

#include <string.h>

static const cr_program *const gelu = &cr_rows[CR_ROW_GELU_TANH];

typedef struct linear_inputs { const cr_tensor *x, *w, *b; } linear_inputs;
static linear_inputs inputs(const cr_call *c) { return (linear_inputs){c->in[0], c->in[1], c->in[2]}; }

static cr_status linear_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const linear_inputs i = inputs(c);
    if (i.w->ndim != 2)
        return cr_fail(CR_BAD_VALUE, "linear", "the weight must be (outputs, inputs): %s",
                       cr_shape_text(i.w->ndim, i.w->shape).s);
    if (!i.x->ndim || i.x->shape[i.x->ndim - 1] != i.w->shape[1])
        return cr_fail(CR_BAD_VALUE, "linear", "the last axis of %s must be the %lld inputs of the weight %s",
                       cr_shape_text(i.x->ndim, i.x->shape).s, (long long)i.w->shape[1],
                       cr_shape_text(2, i.w->shape).s);
    if (i.b != CR_NONE && (i.b->ndim != 1 || i.b->shape[0] != i.w->shape[0]))
        return cr_fail(CR_BAD_VALUE, "linear", "the bias must be (%lld,): %s", (long long)i.w->shape[0],
                       cr_shape_text(i.b->ndim, i.b->shape).s);
    cr_status status = cr_want_float("linear", i.x);
    if (status == CR_OK) status = cr_want_same_dtype("linear", i.x, i.w);
    if (status == CR_OK && i.b != CR_NONE) status = cr_want_same_dtype("linear", i.x, i.b);
    *out = cr_meta_of(i.x);
    out->shape[out->ndim - 1] = i.w->shape[0];
    return status == CR_OK ? cr_shape_check("linear", out->ndim, out->shape, out->dtype, NULL) : status;
}

/* x w^T + b as a product into h; the scope around owns copies. */
static cr_status product_args(linear_inputs i, const cr_tensor *h, cr_matmul_args *args) {
    int64_t M, N;
    cr_rows_of(i.x, &M, &N);
    *args = (cr_matmul_args){
        .c = cr_rows_array(h), .b = cr_array_transposed(&i.w->array), .bias = array_of(i.b), .how = cr_product_how()};
    const cr_status status = cr_see_as(i.x, CR_LIST(M, N), &args->a);
    return status == CR_OK ? cr_pack(&args->bias) : status;
}

/* h = x w^T + b.  With out, and a device whose product applies GELU: out = gelu_tanh(h) too, and
 * *done; h is written unless it is out. */
static cr_status multiply(linear_inputs i, cr_tensor *h, cr_tensor *out, bool *done) {
    const cr_kernels *kernels = i.w->dev->kernels;
    cr_scope own;
    cr_scope_enter(&own);
    cr_matmul_args p;
    cr_status status = product_args(i, h, &p);
    if (status == CR_OK && out)
        status = kernels->matmul_epilogue(&(cr_matmul_epilogue_args){.c = cr_rows_array(out),
                                                                     .aux = h == out ? (cr_array){0} : p.c,
                                                                     .a = p.a,
                                                                     .b = p.b,
                                                                     .bias = p.bias,
                                                                     .how = p.how | CR_MATMUL_GELU,
                                                                     .done = done});
    if (status == CR_OK && !*done) status = kernels->matmul(&p);
    cr_scope_leave(&own);
    return status;
}

/* h of a layer without inputs: the bias in every row. */
static cr_status bias_only(linear_inputs i, cr_tensor *h) {
    return i.b == CR_NONE ? cr_fill_elements(h, 0) : cr_copy_repeated(h, i.b);
}

/* h = x w^T + b and, with out, out = gelu_tanh(h); h may be out. */
static cr_status layer(linear_inputs i, cr_tensor *h, cr_tensor *out) {
    bool done = false;
    if (!h->numel) return CR_OK;
    const cr_status status = i.w->shape[1] ? multiply(i, h, out, &done) : bias_only(i, h);
    if (status != CR_OK || !out || done) return status;
    return cr_apply_program_(gelu, out, (const cr_tensor *const[]){h}, NULL) ? CR_OK : cr_error_status();
}

static cr_status linear_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return layer(inputs(c), out, NULL);
}

/* y = x w^T + b:  dw = g^T x and db, the sum of g's rows, in one reading of g (rows, OC).  False: the
 * device does not do that. */
static bool sums_at_once(const cr_call *c, const cr_tensor *x, const cr_tensor *g, cr_tensor *dx[]) {
    bool done = false;
    if (c->differentiable || !c->dev->kernels->matmul_epilogue) return false;
    cr_tensor *dw = cr_fused_as(c, 1), *db = cr_fused_as(c, 2), *rows = rows_of(x);
    cr_status status = dw && db && rows && g ? CR_OK : cr_error_status();
    if (status == CR_OK)
        status = c->dev->kernels->matmul_epilogue(&(cr_matmul_epilogue_args){.c = dw->array,
                                                                             .aux = db->array,
                                                                             .a = cr_array_transposed(&g->array),
                                                                             .b = rows->array,
                                                                             .how = cr_product_how() | CR_MATMUL_SUMS,
                                                                             .done = &done});
    if (status == CR_OK && !done) return cr_release(dw), cr_release(db), false;
    dx[1] = status == CR_OK ? dw : NULL;
    dx[2] = status == CR_OK ? db : NULL;
    return true;
}

/* y = x w^T + b over rows:  dx = g w,  dw = g^T x,  db = sum of g's rows */
static void linear_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const linear_inputs i = inputs(c);
    cr_tensor *gr = rows_of(g);
    if (c->needs[0]) {
        cr_tensor *d = cr_matmul(gr, i.w);
        dx[0] = d ? reshaped_like(d, i.x) : NULL;
    }
    if (c->needs[1] && c->needs[2] && sums_at_once(c, i.x, gr, dx)) return;
    if (c->needs[1]) dx[1] = c->product(1, cr_transpose(gr, 0, 1), rows_of(i.x));
    if (c->needs[2]) dx[2] = cr_sum_mask(gr, 1, false, c->wide & 1u << 2);
}

static uint32_t linear_saves(const cr_call *c) {
    return (c->needs[0] ? CR_SAVE_IN(1) : 0) | (c->needs[1] ? CR_SAVE_IN(0) : 0);
}

/* vmap: one product for all samples where they share the weight */
static cr_tensor *linear_batch(const cr_batched *b) {
    const linear_inputs i = {b->in[0], b->in[1], b->in[2]};
    const int n = b->call->in[0]->ndim;
    if (!b->has[1] && !b->has[2]) return cr_linear(i.x, i.w, i.b);
    cr_tensor *y = NULL;
    if (!b->has[1]) y = cr_linear(i.x, i.w, CR_NONE);
    else {                                          /* (size or absent, rows, C) times (size, C, OC) */
        int64_t rows, C;
        cr_rows_of(b->call->in[0], &rows, &C);
        cr_tensor *x = b->has[0] ? cr_reshape(i.x, CR_LIST(b->size, rows, C)) : cr_reshape(i.x, CR_LIST(rows, C));
        y = x ? cr_batch_shaped(b, cr_matmul(x, transposed(i.w)), b->out) : NULL;
    }
    if (!y || i.b == CR_NONE) return y;
    const cr_tensor *bias = cr_batch_aligned(b, 2, n);
    if (y->ndim == n && bias) y = cr_unsqueeze(y, 0);            /* only the bias differs */
    return bias ? add(y, bias) : NULL;
}

/* y = x w^T + b:  dy = tx w^T + x tw^T + tb */
static cr_tensor *linear_tangent(const cr_call *c, const cr_tensor *const *t) {
    cr_tensor *sum = same(t[2]);
    if (t[0] != CR_NONE) sum = cr_tangent_sum(sum, cr_linear(t[0], c->in[1], CR_NONE));
    if (t[1] != CR_NONE) sum = cr_tangent_sum(sum, cr_linear(c->in[0], t[1], CR_NONE));
    return sum;
}

const cr_op cr_op_linear = {
    .name = "linear",
    .arity = 3,
    .optional = 1u << 2,
    .saves_for = linear_saves,
    .infer = linear_infer,
    .forward = linear_forward,
    .grad = linear_grad,
    .batch = linear_batch,
    .tangent = linear_tangent,
};

/* ---- linear_gelu: y = gelu_tanh(h), h = x w^T + b.  aux: h for the gradient, empty where none is wanted. */
static bool wants_grad(const cr_tensor *x) { return cr_grad_enabled() && cr_in_graph(x); }

static cr_status linear_gelu_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const linear_inputs i = inputs(c);
    const cr_status status = linear_infer(c, out, NULL);
    aux[0] = wants_grad(i.x) || wants_grad(i.w) || wants_grad(i.b) ? *out : (cr_meta){.dtype = out->dtype, .ndim = 1};
    return status;
}

/* Saves x for the second gradient, which computes h again: too much where the weight needs no gradient. */
static bool kernel_supports(const cr_call *c) {
    const linear_inputs i = inputs(c);
    return wants_grad(i.w) || !(wants_grad(i.x) || wants_grad(i.b));
}

static cr_status linear_gelu_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    return layer(inputs(c), aux[0]->numel ? aux[0] : out, out);
}

static cr_tensor *linear_gelu_composite(const cr_call *c) {
    return cr_gelu_tanh(cr_apply(&cr_op_linear, 3, c->in, NULL));
}

/* h, the argument of GELU: in the graph under create_graph */
static const cr_tensor *argument(const cr_call *c) {
    return c->differentiable ? cr_apply(&cr_op_linear, 3, c->in, NULL) : c->aux[0];
}

/* a = gelu_tanh(h):  dh = g gelu_tanh'(h) */
static cr_tensor *gelu_grad(const cr_call *c, const cr_tensor *h, const cr_tensor *g) {
    const cr_call of_gelu = {.op = &cr_op_elementwise,
                             .params = &(cr_ew_params){.program = gelu},
                             .n = 1,
                             .in = &h,
                             .dev = c->dev,
                             .needs = &(bool){true},
                             .differentiable = c->differentiable};
    cr_tensor *dh = NULL;
    if (h && g) cr_op_elementwise.grad(&of_gelu, g, &dh);
    return dh;
}

/* y = gelu_tanh(h), h = x w^T + b:  dx, dw, db: linear's, of dh */
static void linear_gelu_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    linear_grad(c, gelu_grad(c, argument(c), g), dx);
}

const cr_op cr_op_linear_gelu = {
    .name = "linear_gelu",
    .arity = 3,
    .optional = 1u << 2,
    .needs_kernel = offsetof(cr_kernels, matmul_epilogue),
    .kernel_supports = kernel_supports,
    .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_IN(2) | CR_SAVE_AUX,
    .n_aux = 1,
    .infer = linear_gelu_infer,
    .forward = linear_gelu_forward,
    .composite = linear_gelu_composite,
    .grad = linear_gelu_grad,
};

cr_tensor *cr_linear(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b) {
    return cr_apply(&cr_op_linear, 3, (const cr_tensor *const[]){x, w, b}, NULL);
}

cr_tensor *cr_linear_gelu(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b) {
    return cr_apply(&cr_op_linear_gelu, 3, (const cr_tensor *const[]){x, w, b}, NULL);
}

const cr_tensor *cr_linear_weight(const cr_tensor *w) {
    return !cr_autocasting() || cr_autocast_inputs("linear", w->dev, 1, &w) == CR_OK ? w : NULL;
}
