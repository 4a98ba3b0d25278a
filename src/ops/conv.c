/* conv.c - convolutions (cross-correlations) and transposed convolutions over one to three spatial axes.
 * x (B, C, *in), w (OC, C / groups, *kernel), y (B, OC, *out):
 *   y[b, o, p] = sum over c, t of x[b, c, p stride + t dilation - pad] w[o, c, t] + bias[o].
 * The sum is linear in x, w and y's cotangent: one op with three kinds, each the derivative of the others in one
 * operand, so gradients of any order are this op again.  Fast twin: dev/cpu/conv.c. */
#include "transform.h"
#include "windows.h"

#include <string.h>

enum { SPACE = 3, FIRST = 2 };                      /* most spatial axes; the first of them */
typedef struct conv_params {
    cr_conv_kind kind;
    int n;                                          /* spatial axes */
    int64_t stride[SPACE], pad[SPACE], dilation[SPACE], groups;     /* of the n axes */
    int64_t size[SPACE];                            /* spatial sizes of the result */
} conv_params;

static const char *conv_name(const void *params) {
    static const char *const names[] = {
        [CR_CONV_FORWARD] = "conv", [CR_CONV_INPUT] = "conv_transpose", [CR_CONV_WEIGHT] = "conv_weight"};
    return names[((const conv_params *)params)->kind];
}

/* The operands of a use, of which the result is NULL: in[0] and in[1] are x and w, y and w, or x and y. */
typedef struct operands { const cr_tensor *x, *w, *y; } operands;
static operands operands_of(const cr_call *c) {
    const cr_tensor *a = c->in[0], *b = c->in[1];
    switch (((const conv_params *)c->params)->kind) {
        case CR_CONV_FORWARD: return (operands){a, b, NULL};
        case CR_CONV_INPUT: return (operands){NULL, b, a};
        default: return (operands){a, NULL, b};
    }
}

static cr_status conv_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const conv_params *p = c->params;
    const char *op = conv_name(p);
    const operands o = operands_of(c);
    cr_status status = cr_want_float(op, c->in[0]);
    if (status == CR_OK) status = cr_want_same_dtype(op, c->in[0], c->in[1]);
    if (status == CR_OK && c->in[2] != CR_NONE) status = cr_want_same_dtype(op, c->in[0], c->in[2]);
    *out = (cr_meta){.dtype = c->in[0]->dtype, .ndim = p->n + FIRST};
    switch (p->kind) {
        case CR_CONV_FORWARD: out->shape[0] = o.x->shape[0], out->shape[1] = o.w->shape[0]; break;
        case CR_CONV_INPUT: out->shape[0] = o.y->shape[0], out->shape[1] = o.w->shape[1] * p->groups; break;
        case CR_CONV_WEIGHT: out->shape[0] = o.y->shape[1], out->shape[1] = o.x->shape[1] / p->groups; break;
    }
    memcpy(out->shape + FIRST, p->size, sizeof *p->size * (size_t)p->n);
    return status == CR_OK ? cr_shape_check(op, out->ndim, out->shape, out->dtype, NULL) : status;
}

/* t with three spatial axes: those that it lacks come first and have size 1. */
static cr_array with_all_axes(const cr_tensor *t, int n) {
    int64_t shape[FIRST + SPACE] = {t->shape[0], t->shape[1], 1, 1, 1}, strides[FIRST + SPACE];
    memcpy(shape + FIRST + SPACE - n, t->shape + FIRST, sizeof *shape * (size_t)n);
    if (t->contiguous) return cr_array_as(&t->array, FIRST + SPACE, shape);
    memcpy(strides, (int64_t[]){t->strides[0], t->strides[1], 1, 1, 1}, sizeof strides);
    memcpy(strides + FIRST + SPACE - n, t->strides + FIRST, sizeof *strides * (size_t)n);
    return cr_array_strided(&t->array, FIRST + SPACE, shape, strides, t->offset);
}

static cr_status conv_kernel(const cr_call *c, const cr_tensor *out) {
    const conv_params *p = c->params;
    const operands o = operands_of(c);
    cr_conv_args args = {.y = with_all_axes(o.y ? o.y : out, p->n),
                         .x = with_all_axes(o.x ? o.x : out, p->n),
                         .w = with_all_axes(o.w ? o.w : out, p->n),
                         .bias = array_of(c->in[2]),
                         .kind = p->kind,
                         .stride = {1, 1, 1},
                         .dilation = {1, 1, 1},
                         .groups = p->groups,
                         .how = cr_product_how()};
    const int none = SPACE - p->n;
    memcpy(args.stride + none, p->stride, sizeof *p->stride * (size_t)p->n);
    memcpy(args.pad + none, p->pad, sizeof *p->pad * (size_t)p->n);
    memcpy(args.dilation + none, p->dilation, sizeof *p->dilation * (size_t)p->n);
    cr_scope own;
    cr_scope_enter(&own);
    cr_status status = cr_pack(&args.bias);
    if (status == CR_OK && o.w) status = cr_pack(&args.w);
    if (status == CR_OK) status = c->dev->kernels->conv(&args);
    cr_scope_leave(&own);
    return status;
}

/* The result where an operand is empty: every sum is. */
static cr_status only_bias(const cr_call *c, cr_tensor *out) {
    if (c->in[2] == CR_NONE) return cr_fill_elements(out, 0);
    int64_t strides[CR_MAX_DIMS] = {0, c->in[2]->strides[0]};
    const cr_array bias = cr_array_strided(&c->in[2]->array, out->ndim, out->shape, strides, c->in[2]->offset);
    return cr_copy_array(&out->array, &bias);
}

static cr_status conv_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    if (!out->numel) return CR_OK;
    return c->in[0]->numel && c->in[1]->numel ? conv_kernel(c, out) : only_bias(c, out);
}

static cr_tensor *apply(const conv_params *p, cr_conv_kind kind, const cr_tensor *a, const cr_tensor *b,
                        const cr_tensor *bias, const int64_t *size) {
    conv_params q = *p;
    q.kind = kind;
    memmove(q.size, size, sizeof *size * (size_t)p->n);
    return cr_apply(&cr_op_conv, 3, (const cr_tensor *const[]){a, b, bias}, &q);
}

/* y = conv(x, w) + b:  dx = conv_input(g, w),  dw = conv_weight(x, g),  db = the sum of g over all but the channels;
 * the two other kinds have the result's cotangent instead */
static void conv_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const conv_params *p = c->params;
    const operands o = operands_of(c);
    const cr_tensor *x = o.x ? o.x : g, *w = o.w ? o.w : g, *y = o.y ? o.y : g;
    const int at_x = 0, at_w = 1, at_y = p->kind == CR_CONV_INPUT ? 0 : 1;
    if (o.x && c->needs[at_x]) dx[at_x] = apply(p, CR_CONV_INPUT, y, w, CR_NONE, o.x->shape + FIRST);
    if (o.w && c->needs[at_w]) dx[at_w] = apply(p, CR_CONV_WEIGHT, x, y, CR_NONE, o.w->shape + FIRST);
    if (o.y && c->needs[at_y]) dx[at_y] = apply(p, CR_CONV_FORWARD, x, w, CR_NONE, o.y->shape + FIRST);
    if (c->needs[2]) dx[2] = cr_sum_mask(g, ((1u << g->ndim) - 1) & ~2u, false, false);
}

static uint32_t conv_saves(const cr_call *c) {
    return (c->needs[0] ? CR_SAVE_IN(1) : 0) | (c->needs[1] ? CR_SAVE_IN(0) : 0);
}

/* ---- vmap.  Where all samples share w, their batches are one.  Else the samples are groups: their channels lie side
 * by side in x and y, and their output channels (of conv_transpose: input channels) below each other in w. */

/* (size, A, B, ...) as (size A, B, ...) */
static cr_tensor *first_joined(const cr_tensor *t) {
    int64_t shape[CR_MAX_DIMS];
    if (!t) return NULL;
    for (int i = 0; i + 1 < t->ndim; i++) shape[i] = i ? t->shape[i + 1] : t->shape[0] * t->shape[1];
    return cr_reshape(t, t->ndim - 1, shape);
}
/* (size, A, B, ...) as (A, size B, ...), and back */
static cr_tensor *second_joined(const cr_tensor *t) {
    int64_t shape[CR_MAX_DIMS];
    if (!t) return NULL;
    for (int i = 0; i + 1 < t->ndim; i++)
        shape[i] = i == 1 ? t->shape[0] * t->shape[2] : i ? t->shape[i + 1] : t->shape[1];
    return cr_reshape(cr_movedim(t, 1, (int64_t[]){0}, (int64_t[]){1}), t->ndim - 1, shape);
}
static cr_tensor *second_apart(const cr_tensor *t, int64_t size) {
    int64_t shape[CR_MAX_DIMS];
    if (!t) return NULL;
    for (int i = 0; i <= t->ndim; i++) shape[i] = !i ? t->shape[0] : i == 1 ? size : t->shape[i - 1];
    shape[2] /= size;
    return cr_movedim(cr_reshape(t, t->ndim + 1, shape), 1, (int64_t[]){1}, (int64_t[]){0});
}

/* in[0], x or y, and in[1], w or y; the bias is added by the caller */
static cr_tensor *conv_of_each(const cr_batched *b, const conv_params *p) {
    const bool to_weight = p->kind == CR_CONV_WEIGHT;
    if (!to_weight && !b->has[1]) {
        const cr_tensor *in[] = {first_joined(b->in[0]), b->in[1], CR_NONE};
        return in[0] ? cr_batch_shaped(b, cr_apply(&cr_op_conv, 3, in, p), b->out) : NULL;
    }
    conv_params q = *p;
    q.groups *= b->size;
    const cr_tensor *second = cr_batch_in(b, 1),
                    *in[] = {second_joined(cr_batch_in(b, 0)), to_weight ? second_joined(second) : first_joined(second),
                             CR_NONE};
    cr_tensor *y = in[0] && in[1] ? cr_apply(&cr_op_conv, 3, in, &q) : NULL;
    return to_weight ? cr_batch_shaped(b, y, b->out) : second_apart(y, b->size);
}

/* b (..., C) as (..., C, 1, 1...), to be added to channels */
static cr_tensor *along_channels(const cr_tensor *b, int n) {
    int64_t shape[CR_MAX_DIMS];
    if (!b) return NULL;
    for (int i = 0; i < b->ndim + n; i++) shape[i] = i < b->ndim ? b->shape[i] : 1;
    return cr_reshape(b, b->ndim + n, shape);
}

static cr_tensor *conv_batch(const cr_batched *b) {
    const conv_params *p = b->call->params;
    cr_tensor *y = NULL;
    if (b->has[0] || b->has[1]) y = conv_of_each(b, p);
    else {
        const cr_tensor *in[] = {b->in[0], b->in[1], CR_NONE};
        y = cr_apply(&cr_op_conv, 3, in, p);
    }
    if (!y || b->in[2] == CR_NONE) return y;
    const cr_tensor *bias = b->in[2];
    if (b->has[2]) bias = cr_unsqueeze(bias, 1);                 /* (size, 1, C) */
    return add(y, along_channels(bias, p->n));
}

/* The sum is linear in both operands and the bias. */
static cr_tensor *conv_tangent(const cr_call *c, const cr_tensor *const *t) {
    const conv_params *p = c->params;
    cr_tensor *sum = t[2] == CR_NONE ? same(CR_NONE) : along_channels(t[2], p->n);
    for (int i = 0; i < 2 && sum; i++) {
        const cr_tensor *in[] = {i ? c->in[0] : t[0], i ? t[1] : c->in[1], CR_NONE};
        if (t[i] != CR_NONE) sum = cr_tangent_sum(sum, cr_apply(&cr_op_conv, 3, in, p));
    }
    return sum;
}

const cr_op cr_op_conv = {
    .name = "conv",
    .name_of = conv_name,
    .arity = 3,
    .optional = 1u << 2,
    .params_bytes = sizeof(conv_params),
    .saves_for = conv_saves,
    .infer = conv_infer,
    .forward = conv_forward,
    .grad = conv_grad,
    .batch = conv_batch,
    .tangent = conv_tangent,
};

/* ---- the public functions: arguments */

cr_conv_options cr_conv_defaults(void) {
    return (cr_conv_options){.stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
}

static cr_status check_axis(const char *op, const cr_conv_options *o, int i, int64_t kernel) {
    if (o->stride[i] < 1)
        return cr_fail(CR_BAD_VALUE, op, "the stride must be at least 1: %lld", (long long)o->stride[i]);
    if (o->dilation[i] < 1)
        return cr_fail(CR_BAD_VALUE, op, "the dilation must be at least 1: %lld", (long long)o->dilation[i]);
    if (o->padding[i][0] < 0 || o->padding[i][1] < 0)
        return cr_fail(CR_BAD_VALUE, op, "padding must not be negative: %lld, %lld", (long long)o->padding[i][0],
                       (long long)o->padding[i][1]);
    if (kernel < 1) return cr_fail(CR_BAD_VALUE, op, "the kernel has no elements along spatial axis %d", i);
    const int64_t most = INT64_C(1) << 31;          /* products of two of them fit int64_t */
    if (o->stride[i] >= most || o->dilation[i] >= most || o->padding[i][0] >= most || o->padding[i][1] >= most)
        return cr_fail(CR_BAD_VALUE, op, "stride, dilation and padding must be less than 2^31: %lld, %lld, %lld, %lld",
                       (long long)o->stride[i], (long long)o->dilation[i], (long long)o->padding[i][0],
                       (long long)o->padding[i][1]);
    return CR_OK;
}

/* How many zeros make `size` and a kernel of `kernel` elements fit. */
static int64_t reach(const cr_conv_options *o, int i, int64_t kernel) { return o->dilation[i] * (kernel - 1) + 1; }

/* size: of the result */
static cr_status size_forward(const char *op, const cr_conv_options *o, int i, int64_t in, int64_t kernel,
                              int64_t *size) {
    const int64_t padded = in + o->padding[i][0] + o->padding[i][1];
    if (padded < reach(o, i, kernel))
        return cr_fail(CR_BAD_VALUE, op,
                       "the kernel is larger than the padded input along spatial axis %d: %lld elements of the kernel "
                       "with dilation %lld, %lld of the input",
                       i, (long long)kernel, (long long)o->dilation[i], (long long)padded);
    *size = (padded - reach(o, i, kernel)) / o->stride[i] + 1;
    return CR_OK;
}

static cr_status size_transposed(const char *op, const cr_conv_options *o, int i, int64_t in, int64_t kernel,
                                 int64_t *size) {
    if (o->output_padding[i] < 0 || o->output_padding[i] >= cr_imax(o->stride[i], o->dilation[i]))
        return cr_fail(CR_BAD_VALUE, op,
                       "output padding must not be negative and must be less than stride or dilation: %lld; %lld, %lld",
                       (long long)o->output_padding[i], (long long)o->stride[i], (long long)o->dilation[i]);
    *size = (in - 1) * o->stride[i] - o->padding[i][0] - o->padding[i][1] + reach(o, i, kernel) + o->output_padding[i];
    if (*size >= 1) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op, "the result has no elements along spatial axis %d: %lld of the input, a kernel of "
                   "%lld, stride %lld, padding %lld, %lld",
                   i, (long long)in, (long long)kernel, (long long)o->stride[i], (long long)o->padding[i][0],
                   (long long)o->padding[i][1]);
}

static cr_status check_channels(const char *op, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                                int64_t groups, bool transposed) {
    const int n = w->ndim - FIRST;
    const int64_t C = x->shape[x->ndim - n - 1], results = transposed ? w->shape[1] * groups : w->shape[0];
    if (groups < 1) return cr_fail(CR_BAD_VALUE, op, "groups must be at least 1: %lld", (long long)groups);
    if (w->shape[0] % groups)
        return cr_fail(CR_BAD_VALUE, op, "%lld groups do not divide the %lld %s channels of the weight %s",
                       (long long)groups, (long long)w->shape[0], transposed ? "input" : "output",
                       cr_shape_text(w->ndim, w->shape).s);
    if (transposed ? C != w->shape[0] : C % groups || C / groups != w->shape[1])
        return cr_fail(CR_BAD_VALUE, op, "the weight %s with %lld groups takes %lld channels, the input %s has %lld",
                       cr_shape_text(w->ndim, w->shape).s, (long long)groups,
                       (long long)(transposed ? w->shape[0] : w->shape[1] * groups),
                       cr_shape_text(x->ndim, x->shape).s, (long long)C);
    if (b != CR_NONE && (b->ndim != 1 || b->shape[0] != results))
        return cr_fail(CR_BAD_VALUE, op, "the bias must be (%lld,): %s", (long long)results,
                       cr_shape_text(b->ndim, b->shape).s);
    return CR_OK;
}

/* Fills p for x and w; o has been checked by nobody. */
static cr_status plan(const char *op, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                      const cr_conv_options *o, conv_params *p) {
    const bool transposed = p->kind == CR_CONV_INPUT;
    const int n = w->ndim - FIRST;
    if (n < 1 || n > SPACE)
        return cr_fail(CR_BAD_VALUE, op, "the weight must have two axes of channels and 1 to 3 spatial axes: %s",
                       cr_shape_text(w->ndim, w->shape).s);
    if (x->ndim != n + 1 && x->ndim != n + FIRST)
        return cr_fail(CR_BAD_VALUE, op, "the weight %s takes an input of %d axes, or %d with a batch: %s",
                       cr_shape_text(w->ndim, w->shape).s, n + 1, n + FIRST, cr_shape_text(x->ndim, x->shape).s);
    cr_status status = check_channels(op, x, w, b, o->groups, transposed);
    for (int i = 0; i < n && status == CR_OK; i++) {
        const int64_t in = x->shape[x->ndim - n + i], kernel = w->shape[FIRST + i];
        status = check_axis(op, o, i, kernel);
        if (status == CR_OK) status = (transposed ? size_transposed : size_forward)(op, o, i, in, kernel, &p->size[i]);
        p->stride[i] = o->stride[i];
        p->pad[i] = o->padding[i][0];
        p->dilation[i] = o->dilation[i];
    }
    p->n = n;
    p->groups = o->groups;
    return status;
}

static cr_tensor *of_integers(const conv_params *p, const cr_tensor *x, const cr_tensor *w) {
    const bool back = p->kind == CR_CONV_INPUT;
    cr_windows windows = {.n = p->n};
    for (int i = 0; i < p->n; i++) {
        windows.kernel[i] = w->shape[FIRST + i];
        windows.stride[i] = p->stride[i];
        windows.dilation[i] = p->dilation[i];
        windows.pad[i] = p->pad[i];
        windows.count[i] = back ? x->shape[FIRST + i] : p->size[i];
    }
    return back ? cr_integer_conv_transpose(x, w, &windows, p->groups, p->size)
                : cr_integer_conv(x, w, &windows, p->groups);
}

static cr_tensor *convolve(cr_conv_kind kind, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                           const cr_conv_options *o) {
    conv_params p = {.kind = kind};
    const char *op = conv_name(&p);
    const cr_conv_options plain = cr_conv_defaults();
    if (!cr_given(op, "the input", x) || !cr_given(op, "the weight", w) || cr_missing(op, "the bias", b)) return NULL;
    if (plan(op, x, w, b, o ? o : &plain, &p) != CR_OK) return NULL;
    const bool whole = cr_is_integer(x) && cr_is_integer(w);
    const bool single = x->ndim == p.n + 1, later = (kind == CR_CONV_INPUT || whole) && b != CR_NONE;
    if (!single && !later && !whole) return apply(&p, kind, x, w, b, p.size);
    if (whole && cr_want_same_dtype(op, x, w) != CR_OK) return NULL;
    if (whole && later && cr_want_same_dtype(op, x, b) != CR_OK) return NULL;
    cr_scope_begin();
    const cr_tensor *batch = single ? cr_unsqueeze(x, 0) : x;
    cr_tensor *y = whole ? of_integers(&p, batch, w) : apply(&p, kind, batch, w, later ? CR_NONE : b, p.size);
    if (later) y = add(y, along_channels(b, p.n));
    return cr_leave(single ? cr_squeeze(y, CR_LIST(0)) : y);
}

cr_tensor *cr_conv(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, const cr_conv_options *o) {
    return convolve(CR_CONV_FORWARD, x, w, b, o);
}

cr_tensor *cr_conv_transpose(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, const cr_conv_options *o) {
    return convolve(CR_CONV_INPUT, x, w, b, o);
}
