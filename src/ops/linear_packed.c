/* linear_packed.c - y = x w^T + b with weights in a packed format (core/formats.h): x (..., C), w (OC, bytes of a row)
 * u8, b (OC).  w is frozen: x and b have gradients.
 *
 * A kernel multiplies w as it lies.  Where the device prefers it, and for the same layer from its other side, y = x w,
 * the gradient for x: parts of w become floats in turn, and the device's product multiplies them. */
#include "compose.h"
#include "transform.h"

#include "../core/formats.h"
#include "../core/ints.h"

enum { TILE_BYTES = 4 << 20 };                      /* of w as floats at a time: in the last cache */

typedef struct packed_params { int format; bool transposed; } packed_params;

static const packed_params *params_of(const cr_call *c) { return c->params; }

static int64_t columns_of(const cr_tensor *w, int format) {
    return w->shape[1] / cr_formats[format].bytes * cr_formats[format].block;
}

static int format_named(const char *op, const char *name) {
    const int format = name ? cr_format_named(name) : -1;
    if (format >= 0) return format;
    char known[160];
    size_t n = 0;
    for (int i = CR_FORMAT_PACKED; i < CR_FORMATS; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", cr_formats[i].name);
    cr_fail(CR_BAD_VALUE, op, "the format must be one of %s, not '%.20s'", known, name ? name : "NULL");
    return -1;
}

static cr_status check_weight(const char *op, const cr_tensor *w, int format) {
    if (w->dtype != CR_U8)
        return cr_fail(CR_BAD_TYPE, op, "packed rows must be uint8: %s", cr_dtype_name(w->dtype));
    if (w->ndim == 2 && w->shape[1] && w->shape[1] % cr_formats[format].bytes == 0) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op,
                   "the weight must be (outputs, bytes of a row), a multiple of the %d bytes of a block of %s: %s",
                   cr_formats[format].bytes, cr_formats[format].name, cr_shape_text(w->ndim, w->shape).s);
}

static cr_status packed_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    static const char op[] = "linear_packed";
    const cr_tensor *x = c->in[0], *w = c->in[1], *b = c->in[2];
    const packed_params *p = params_of(c);
    (void)aux;
    cr_status status = check_weight(op, w, p->format);
    if (status == CR_OK) status = cr_want_float(op, x);
    if (status != CR_OK) return status;
    const int64_t K = columns_of(w, p->format), N = w->shape[0], in = p->transposed ? N : K;
    if (!x->ndim || x->shape[x->ndim - 1] != in)
        return cr_fail(CR_BAD_VALUE, op, "the last axis of %s must be the %lld inputs of the weight (%lld, %lld)",
                       cr_shape_text(x->ndim, x->shape).s, (long long)in, (long long)N, (long long)K);
    if (b != CR_NONE && (b->ndim != 1 || b->shape[0] != N))
        return cr_fail(CR_BAD_VALUE, op, "the bias must be (%lld,): %s", (long long)N,
                       cr_shape_text(b->ndim, b->shape).s);
    if (b != CR_NONE) status = cr_want_same_dtype(op, x, b);
    *out = cr_meta_of(x);
    out->shape[out->ndim - 1] = p->transposed ? K : N;
    return status == CR_OK ? cr_shape_check(op, out->ndim, out->shape, out->dtype, NULL) : status;
}

/* Rows [first, first + n) of w, or with `columns` its columns, as floats. */
static cr_tensor *part_of(const cr_call *c, bool columns, int64_t first, int64_t n) {
    const cr_tensor *x = c->in[0], *w = c->in[1];
    const int format = params_of(c)->format;
    const cr_format_traits *f = &cr_formats[format];
    const int64_t K = columns_of(w, format);
    cr_tensor *y = cr_empty(2, columns ? (int64_t[]){w->shape[0], n} : (int64_t[]){n, K}, x->dtype, x->dev);
    if (!y) return NULL;
    const int64_t start = columns ? first / f->block * f->bytes : first, count = columns ? n / f->block * f->bytes : n;
    const cr_unpack_args args = {
        .y = y->array, .w = cr_array_narrowed(&w->array, columns, start, count), .format = format};
    return x->dev->kernels->unpack(&args) == CR_OK ? y : NULL;
}

/* y's columns, one part of w after another; each column is one sum, whatever the parts. */
static cr_status by_parts(const cr_call *c, const cr_array *y, const cr_array *x) {
    const bool back = params_of(c)->transposed;
    const cr_tensor *w = c->in[1], *b = c->in[2];
    const int64_t K = columns_of(w, params_of(c)->format), N = w->shape[0];
    const int64_t step = back ? cr_formats[params_of(c)->format].block : 16, all = back ? K : N,
                  line = (back ? N : K) * (int64_t)cr_dtype_size(x->dtype);
    const int64_t each = cr_imax(1, TILE_BYTES / (step * line)) * step;
    cr_status status = CR_OK;
    for (int64_t first = 0, n; first < all && status == CR_OK; first += n) {
        cr_scope own;
        n = cr_imin(all - first, each);
        cr_scope_enter(&own);
        cr_tensor *part = part_of(c, back, first, n);
        cr_matmul_args p = {.c = cr_array_narrowed(y, 1, first, n), .a = *x, .how = cr_product_how()};
        if (part) p.b = back ? part->array : cr_array_transposed(&part->array);
        if (b != CR_NONE) p.bias = cr_array_narrowed(&b->array, 0, first, n);
        status = part ? c->dev->kernels->matmul(&p) : cr_error_status();
        cr_scope_leave(&own);
    }
    return status;
}

static cr_status packed_forward(const cr_call *c, cr_tensor *y, cr_tensor *const aux[]) {
    (void)aux;
    const packed_params *p = params_of(c);
    const cr_array to = cr_rows_array(y), x = cr_rows_array(c->in[0]);
    bool done = false;
    if (!y->numel) return CR_OK;
    if (!c->in[0]->numel) return cr_fill_elements(y, 0);        /* from the other side: empty sums */
    if (!p->transposed) {
        const cr_linear_packed_args args = {.y = to, .x = x, .w = c->in[1]->array,
                                            .bias = array_of(c->in[2] == CR_NONE ? NULL : c->in[2]),
                                            .format = p->format, .done = &done};
        const cr_status status = c->dev->kernels->linear_packed(&args);
        if (status != CR_OK || done) return status;
    }
    return by_parts(c, &to, &x);
}

static cr_tensor *packed(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, int format, bool transposed) {
    return cr_apply(&cr_op_linear_packed, 3, (const cr_tensor *const[]){x, w, b}, &(packed_params){format, transposed});
}

/* y = x w^T + b:  dx = g w,  db = the sum of g's rows;  y = x w:  dx = g w^T.  w: none (frozen). */
static void packed_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const packed_params *p = params_of(c);
    if (c->needs[0]) dx[0] = packed(g, c->in[1], CR_NONE, p->format, !p->transposed);
    if (c->needs[2]) dx[2] = cr_sum(rows_of(g), CR_LIST(0), false);
}

static uint32_t packed_saves(const cr_call *c) { return c->needs[0] ? CR_SAVE_IN(1) : 0; }

extern const cr_op cr_op_linear_packed;
const cr_op cr_op_linear_packed = {
    .name = "linear_packed",
    .arity = 3,
    .optional = 1u << 2,
    .params_bytes = sizeof(packed_params),
    .contiguous = true,
    .saves_for = packed_saves,
    .infer = packed_infer,
    .forward = packed_forward,
    .grad = packed_grad,
    .batch = cr_batch_frozen,
    .tangent = cr_tangent_frozen,
};

cr_tensor *cr_linear_packed(const cr_tensor *x, const cr_tensor *w, const char *format, const cr_tensor *b) {
    const int f = format_named("linear_packed", format);
    if (f < 0 || !cr_given("linear_packed", "w", w)) return NULL;
    return packed(x, w, b, f, false);
}

/* ---- unpack: w (OC, C) */
typedef struct unpack_params { int format; cr_dtype dtype; } unpack_params;

static cr_status unpack_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const unpack_params *p = c->params;
    const cr_status status = check_weight("unpack", c->in[0], p->format);
    (void)aux;
    if (status != CR_OK) return status;
    *out = cr_meta_of(c->in[0]);
    out->shape[1] = columns_of(c->in[0], p->format);
    out->dtype = p->dtype;
    return cr_shape_check("unpack", out->ndim, out->shape, out->dtype, NULL);
}

static cr_status unpack_forward(const cr_call *c, cr_tensor *y, cr_tensor *const aux[]) {
    (void)aux;
    const int format = ((const unpack_params *)c->params)->format;
    const cr_unpack_args args = {.y = y->array, .w = c->in[0]->array, .format = format};
    return y->numel ? c->dev->kernels->unpack(&args) : CR_OK;
}

/* The rows of all samples below each other. */
static cr_tensor *unpack_batch(const cr_batched *b) {
    const cr_tensor *w = cr_reshape(b->in[0], CR_LIST(-1, b->in[0]->shape[2]));
    return w ? cr_batch_shaped(b, cr_apply(b->call->op, 1, &w, b->call->params), b->out) : NULL;
}

extern const cr_op cr_op_unpack;
const cr_op cr_op_unpack = {
    .name = "unpack",
    .arity = 1,
    .params_bytes = sizeof(unpack_params),
    .contiguous = true,
    .infer = unpack_infer,
    .forward = unpack_forward,
    .batch = unpack_batch,
    .no_grad = "packed weights are bytes",
};

cr_tensor *cr_unpack(const cr_tensor *w, const char *format, cr_dtype dt) {
    const int f = format_named("unpack", format);
    if (f < 0 || !cr_given("unpack", "w", w)) return NULL;
    if (!cr_dtype_is_float(dt))
        return cr_fail(CR_BAD_TYPE, "unpack", "the dtype must be a float dtype: %s", cr_dtype_name(dt)), NULL;
    return cr_apply(&cr_op_unpack, 1, (const cr_tensor *const[]){w}, &(unpack_params){f, dt});
}
