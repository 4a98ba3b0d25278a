/* linear_quantized.c - y = x w^T + b with weights of 4 or 8 bits (kernels.def has their layout): x (..., C), codes
 * (OC, C) i8 or (OC, C / 2) u8, scales (OC, C / G) f16, b (OC).  The codes are frozen: x and b have gradients.
 *
 * Few rows of x: a kernel that reads each code once.  Many: parts of w become floats in turn, and the device's
 * product multiplies them.  `transposed` is the same layer from its other side, y = x w, the gradient for x. */
#include "compose.h"
#include "transform.h"

#include "../core/ints.h"

enum { TILE_BYTES = 4 << 20 };                      /* of w as floats at a time: in the last cache */

typedef struct quantized_params { bool transposed; } quantized_params;
typedef struct quantized_inputs { const cr_tensor *x, *codes, *scales, *b; } quantized_inputs;

static quantized_inputs inputs(const cr_call *c) { return (quantized_inputs){c->in[0], c->in[1], c->in[2], c->in[3]}; }
static bool is_transposed(const cr_call *c) { return ((const quantized_params *)c->params)->transposed; }
static int64_t columns_of(const cr_tensor *codes) { return codes->shape[1] * (codes->dtype == CR_I8 ? 1 : 2); }

/* codes and scales of one matrix? */
static cr_status check_weights(const char *op, const cr_tensor *codes, const cr_tensor *scales) {
    if (codes->dtype != CR_I8 && codes->dtype != CR_U8)
        return cr_fail(CR_BAD_TYPE, op, "the codes must be int8 (8 bits) or uint8 (4 bits): %s",
                       cr_dtype_name(codes->dtype));
    if (scales->dtype != CR_F16)
        return cr_fail(CR_BAD_TYPE, op, "the scales must be float16: %s", cr_dtype_name(scales->dtype));
    if (codes->ndim != 2 || scales->ndim != 2 || codes->shape[0] != scales->shape[0])
        return cr_fail(CR_BAD_VALUE, op, "codes and scales must be matrices with the same number of rows: %s, %s",
                       cr_shape_text(codes->ndim, codes->shape).s, cr_shape_text(scales->ndim, scales->shape).s);
    const int64_t K = columns_of(codes), groups = scales->shape[1];
    if (!K || !groups || K % groups || K / groups % CR_QUANTIZED_BLOCK)
        return cr_fail(CR_BAD_VALUE, op, "%lld scales do not divide %lld columns into groups of a multiple of %d",
                       (long long)groups, (long long)K, CR_QUANTIZED_BLOCK);
    if (cr_grad_enabled() && cr_in_graph(scales))
        return cr_fail(CR_BAD_VALUE, op, "the scales are frozen, but they require a gradient");
    return CR_OK;
}

static cr_status quantized_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    static const char op[] = "linear_quantized";
    const quantized_inputs i = inputs(c);
    (void)aux;
    cr_status status = check_weights(op, i.codes, i.scales);
    if (status == CR_OK) status = cr_want_float(op, i.x);
    if (status != CR_OK) return status;
    const bool back = is_transposed(c);
    const int64_t K = columns_of(i.codes), in = back ? i.codes->shape[0] : K;
    if (!i.x->ndim || i.x->shape[i.x->ndim - 1] != in)
        return cr_fail(CR_BAD_VALUE, op, "the last axis of %s must be the %lld inputs of the weight (%lld, %lld)",
                       cr_shape_text(i.x->ndim, i.x->shape).s, (long long)in, (long long)i.codes->shape[0],
                       (long long)K);
    if (i.b != CR_NONE && (i.b->ndim != 1 || i.b->shape[0] != i.codes->shape[0]))
        return cr_fail(CR_BAD_VALUE, op, "the bias must be (%lld,): %s", (long long)i.codes->shape[0],
                       cr_shape_text(i.b->ndim, i.b->shape).s);
    if (i.b != CR_NONE) status = cr_want_same_dtype(op, i.x, i.b);
    *out = cr_meta_of(i.x);
    out->shape[out->ndim - 1] = back ? K : i.codes->shape[0];
    return status == CR_OK ? cr_shape_check(op, out->ndim, out->shape, out->dtype, NULL) : status;
}

/* Rows [first, first + n) of w, or with `columns` its columns, as floats. */
static cr_tensor *part_of(quantized_inputs i, bool columns, int64_t first, int64_t n) {
    const int64_t K = columns_of(i.codes), G = K / i.scales->shape[1], N = i.codes->shape[0];
    const int64_t per = i.codes->dtype == CR_I8 ? 1 : 2;
    cr_tensor *w = cr_empty(2, columns ? (int64_t[]){N, n} : (int64_t[]){n, K}, i.x->dtype, i.x->dev);
    if (!w) return NULL;
    const cr_dequantize_args args = {
        .y = w->array,
        .codes = cr_array_narrowed(&i.codes->array, columns, columns ? first / per : first, columns ? n / per : n),
        .scales = cr_array_narrowed(&i.scales->array, columns, columns ? first / G : first, columns ? n / G : n)};
    return i.x->dev->kernels->dequantize(&args) == CR_OK ? w : NULL;
}

/* y's columns, one part of w after another; each column is one sum, whatever the parts. */
static cr_status by_parts(const cr_call *c, quantized_inputs i, const cr_array *y, const cr_array *x) {
    const bool back = is_transposed(c);
    const int64_t K = columns_of(i.codes), N = i.codes->shape[0], G = K / i.scales->shape[1];
    const int64_t step = back ? G : CR_QUANTIZED_BLOCK, all = back ? K : N,
                  line = (back ? N : K) * (int64_t)cr_dtype_size(i.x->dtype);
    const int64_t each = cr_imax(1, TILE_BYTES / (step * line)) * step;
    cr_status status = CR_OK;
    for (int64_t first = 0, n; first < all && status == CR_OK; first += n) {
        cr_scope own;
        n = cr_imin(all - first, each);
        cr_scope_enter(&own);
        cr_tensor *w = part_of(i, back, first, n);
        cr_matmul_args p = {.c = cr_array_narrowed(y, 1, first, n), .a = *x, .how = cr_product_how()};
        if (w) p.b = back ? w->array : cr_array_transposed(&w->array);
        if (i.b != CR_NONE) p.bias = cr_array_narrowed(&i.b->array, 0, first, n);
        status = w ? c->dev->kernels->matmul(&p) : cr_error_status();
        cr_scope_leave(&own);
    }
    return status;
}

static cr_status quantized_forward(const cr_call *c, cr_tensor *y, cr_tensor *const aux[]) {
    (void)aux;
    const quantized_inputs i = inputs(c);
    const cr_array to = cr_rows_array(y), x = cr_rows_array(i.x);
    bool done = false;
    if (!y->numel) return CR_OK;
    if (!i.x->numel) return cr_fill_elements(y, 0);             /* from the other side: empty sums */
    if (!is_transposed(c)) {
        const cr_linear_quantized_args args = {.y = to,
                                               .x = x,
                                               .codes = i.codes->array,
                                               .scales = i.scales->array,
                                               .bias = array_of(i.b == CR_NONE ? NULL : i.b),
                                               .done = &done};
        const cr_status status = c->dev->kernels->linear_quantized(&args);
        if (status != CR_OK || done) return status;
    }
    return by_parts(c, i, &to, &x);
}

static cr_tensor *quantized(const cr_tensor *x, const cr_tensor *codes, const cr_tensor *scales, const cr_tensor *b,
                            bool transposed) {
    return cr_apply(&cr_op_linear_quantized, 4, (const cr_tensor *const[]){x, codes, scales, b},
                    &(quantized_params){transposed});
}

/* y = x w^T + b:  dx = g w,  db = the sum of g's rows;  y = x w:  dx = g w^T.  Codes and scales: none (frozen). */
static void quantized_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const quantized_inputs i = inputs(c);
    if (c->needs[0]) dx[0] = quantized(g, i.codes, i.scales, CR_NONE, !is_transposed(c));
    if (c->needs[3]) dx[3] = cr_sum(rows_of(g), CR_LIST(0), false);
}

static uint32_t quantized_saves(const cr_call *c) { return c->needs[0] ? CR_SAVE_IN(1) | CR_SAVE_IN(2) : 0; }

extern const cr_op cr_op_linear_quantized;
const cr_op cr_op_linear_quantized = {
    .name = "linear_quantized",
    .arity = 4,
    .optional = 1u << 3,
    .params_bytes = sizeof(quantized_params),
    .contiguous = true,
    .saves_for = quantized_saves,
    .infer = quantized_infer,
    .forward = quantized_forward,
    .grad = quantized_grad,
    .batch = cr_batch_frozen,
    .tangent = cr_tangent_frozen,
};

cr_tensor *cr_linear_quantized(const cr_tensor *x, const cr_tensor *codes, const cr_tensor *scales,
                               const cr_tensor *b) {
    return quantized(x, codes, scales, b, false);
}

/* ---- dequantize: w (OC, C) */
static cr_status dequantize_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_status status = check_weights("dequantize", c->in[0], c->in[1]);
    (void)aux;
    if (status != CR_OK) return status;
    *out = cr_meta_of(c->in[1]);
    out->shape[1] = columns_of(c->in[0]);
    out->dtype = *(const cr_dtype *)c->params;
    return cr_shape_check("dequantize", out->ndim, out->shape, out->dtype, NULL);
}

static cr_status dequantize_forward(const cr_call *c, cr_tensor *y, cr_tensor *const aux[]) {
    (void)aux;
    const cr_dequantize_args args = {.y = y->array, .codes = c->in[0]->array, .scales = c->in[1]->array};
    return y->numel ? c->dev->kernels->dequantize(&args) : CR_OK;
}

static cr_tensor *dequantize_batch(const cr_batched *b) {
    const cr_tensor *in[2];
    for (int i = 0; i < 2; i++) {                   /* the rows of all samples are rows of one weight */
        const cr_tensor *x = cr_batch_in(b, i);
        in[i] = x ? cr_reshape(x, CR_LIST(b->size * x->shape[1], x->shape[2])) : NULL;
    }
    return cr_batch_shaped(b, cr_batch_apply(b, in, b->call->params), b->out);
}

extern const cr_op cr_op_dequantize;
const cr_op cr_op_dequantize = {
    .name = "dequantize",
    .arity = 2,
    .params_bytes = sizeof(cr_dtype),
    .contiguous = true,
    .infer = dequantize_infer,
    .forward = dequantize_forward,
    .batch = dequantize_batch,
    .no_grad = "codes are integers, and scales are frozen",
};

cr_tensor *cr_dequantize(const cr_tensor *codes, const cr_tensor *scales, cr_dtype dt) {
    if (!cr_dtype_is_float(dt))
        return cr_fail(CR_BAD_TYPE, "dequantize", "the dtype must be a float dtype: %s", cr_dtype_name(dt)), NULL;
    return cr_apply(&cr_op_dequantize, 2, (const cr_tensor *const[]){codes, scales}, &dt);
}
