/* linear.c - y = x w^T + b, the layer: x (..., C), w (OC, C), b (OC).  Fast twin: dev/cpu/matmul.c.
 * All rows of x are one product; the activation is an op of its own behind it. */
#include "compose.h"

typedef struct linear_inputs { const cr_tensor *x, *w, *b; } linear_inputs;
static linear_inputs inputs(const cr_call *c) { return (linear_inputs){c->in[0], c->in[1], c->in[2]}; }

static cr_status linear_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const linear_inputs i = inputs(c);
    if (i.w->ndim != 2) return cr_fail(CR_BAD_VALUE, "linear", "the weight must be (outputs, inputs): %s", cr_shape_text(i.w->ndim, i.w->shape).s);
    if (!i.x->ndim || i.x->shape[i.x->ndim - 1] != i.w->shape[1])
        return cr_fail(CR_BAD_VALUE, "linear", "the last axis of %s must be the %lld inputs of the weight %s", cr_shape_text(i.x->ndim, i.x->shape).s,
                       (long long)i.w->shape[1], cr_shape_text(2, i.w->shape).s);
    if (i.b != CR_NONE && (i.b->ndim != 1 || i.b->shape[0] != i.w->shape[0]))
        return cr_fail(CR_BAD_VALUE, "linear", "the bias must be (%lld,): %s", (long long)i.w->shape[0], cr_shape_text(i.b->ndim, i.b->shape).s);
    cr_status status = cr_want_float("linear", i.x);
    if (status == CR_OK) status = cr_want_same_dtype("linear", i.x, i.w);
    if (status == CR_OK && i.b != CR_NONE) status = cr_want_same_dtype("linear", i.x, i.b);
    *out = cr_meta_of(i.x);
    out->shape[out->ndim - 1] = i.w->shape[0];
    return status == CR_OK ? cr_shape_check("linear", out->ndim, out->shape, out->dtype, NULL) : status;
}

/* x as (rows, C), where that needs no copy, else packed. */
static cr_tensor *rows_for_kernel(const cr_tensor *x) {
    cr_meta m = {.dtype = dtype_of(x), .ndim = 2, .offset = x->offset, .strided = true};
    cr_rows_of(x, &m.shape[0], &m.shape[1]);
    if (cr_view_strides(x, 2, m.shape, m.strides)) return cr_tensor_alias(x, &m);
    cr_tensor *dense = cr_packed(x), *y = dense ? cr_shaped(dense, 2, m.shape) : NULL;
    cr_release(dense);
    return y;
}

static cr_status linear_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const linear_inputs i = inputs(c);
    const int64_t OC = i.w->shape[0], C = i.w->shape[1];
    if (!out->numel) return CR_OK;
    if (!C) return i.b == CR_NONE ? cr_fill_elements(out, 0) : cr_copy_repeated(out, i.b);         /* no inputs: the bias in every row */
    cr_meta flipped = {.dtype = dtype_of(i.w), .ndim = 2, .shape = {C, OC}, .strides = {i.w->strides[1], i.w->strides[0]}, .offset = i.w->offset, .strided = true};
    cr_tensor *x = rows_for_kernel(i.x), *wt = cr_tensor_alias(i.w, &flipped), *y = cr_shaped(out, 2, (int64_t[]){out->numel / OC, OC});
    cr_tensor *b = i.b != CR_NONE ? cr_packed(i.b) : NULL;
    bool ready = x && wt && y && (b || i.b == CR_NONE);
    cr_status status = ready ? c->dev->kernels->matmul(y, x, wt, b, cr_product_how()) : cr_error_status();
    cr_release(x); cr_release(wt); cr_release(y); cr_release(b);
    return status;
}

/* y = x w^T + b over rows:  dx = g w,  dw = g^T x,  db = sum of g's rows */
static void linear_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const linear_inputs i = inputs(c);
    cr_tensor *gr = rows_of(g);
    if (c->needs[0]) {
        cr_tensor *d = cr_matmul(gr, i.w);
        dx[0] = d ? reshaped_like(d, i.x) : NULL;
    }
    if (c->needs[1]) dx[1] = c->product(1, cr_transpose(gr, 0, 1), rows_of(i.x));
    if (c->needs[2]) dx[2] = cr_sum(gr, CR_LIST(0), false);
}

static uint32_t linear_saves(const cr_call *c) {
    return (c->needs[0] ? CR_SAVE_IN(1) : 0) | (c->needs[1] ? CR_SAVE_IN(0) : 0);
}

const cr_op cr_op_linear = {
    .name = "linear", .arity = 3, .optional = 1u << 2, .saves_for = linear_saves, .infer = linear_infer, .forward = linear_forward, .grad = linear_grad,
    .doc = "x w^T + b, the weight (outputs, inputs)",
    .tests = {{.in = {{2, {3, 5}}, {2, {7, 5}}, {1, {7}}}}, {.in = {{3, {2, 3, 5}}, {2, {2, 5}}, {1, {2}}}}, {.in = {{1, {5}}, {2, {3, 5}}, {1, {3}}}},
              {.in = {{2, {0, 5}}, {2, {3, 5}}, {1, {3}}}}, {.in = {{2, {3, 0}}, {2, {2, 0}}, {1, {2}}}}},
};

static cr_tensor *activated(const cr_tensor *x, cr_act act) {
    switch (act) {
        case CR_ACT_RELU: return cr_relu(x);
        case CR_ACT_GELU: return cr_gelu(x);
        case CR_ACT_GELU_TANH: return cr_gelu_tanh(x);
        case CR_ACT_SILU: return cr_silu(x);
        case CR_ACT_TANH: return cr_tanh(x);
        case CR_ACT_SIGMOID: return cr_sigmoid(x);
        case CR_ACT_NONE: break;
    }
    return cr_alias(x);
}

cr_tensor *cr_linear(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, cr_act act) {
    if ((int)act < 0 || act > CR_ACT_SIGMOID) return cr_fail(CR_BAD_VALUE, "linear", "%d is not an activation", (int)act), NULL;
    cr_tensor *y = cr_apply(&cr_op_linear, 3, (const cr_tensor *const[]){x, w, b}, NULL);
    if (!y || act == CR_ACT_NONE) return y;
    cr_tensor *z = activated(y, act);
    cr_release(y);
    return z;
}
