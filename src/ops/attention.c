/* attention.c - softmax(scale q k^T + mask) v for every head: q (B, H, T, D), k and v (B, H, S, D) ->
 * (B, H, T, D).  k and v may have fewer heads, KV: H / KV neighbouring heads of q share one.  Causal:
 * query t sees the keys up to t + S - T + shift, or the last `window` of them.  A mask broadcasts to
 * (B, H, T, S): false, or -Inf, hides a key.  A query that sees no key gives 0.  The result is (B, T, H, D) in
 * memory, so that merging the heads needs no copy. The scores are never stored, but for the backward
 * pass under create_graph, or where the mask's own gradient is wanted. Fast twins:
 * dev/cpu/attention.c, dev/webgpu/attention.c. */
#include "compose.h"
#include "transform.h"

#include <math.h>
#include <string.h>

typedef struct attention_params { double scale; bool causal; int64_t window, shift; } attention_params;
typedef struct attention_inputs {
    const cr_tensor *q, *k, *v, *mask;
    int64_t T, S, D;
    int64_t first, last;                            /* query t sees the keys t + first .. t + last */
    double scale;
} attention_inputs;

static attention_inputs with_limits(attention_inputs i, const attention_params *p) {
    if (i.scale == 0) i.scale = 1 / sqrt((double)i.D);
    if (!p->causal) return i;
    i.last = i.S - i.T + cr_iclamp(p->shift, -i.S, i.T);
    if (p->window) i.first = cr_imax(-i.T, i.last + 1 - cr_imin(p->window, i.S + i.T));
    return i;
}

static attention_inputs inputs(const cr_call *c) {
    const attention_params *p = c->params;
    const cr_tensor *q = c->in[0], *k = c->in[1];
    const int64_t T = q->shape[2], S = k->shape[2], D = q->shape[3];
    return with_limits((attention_inputs){q, k, c->in[2], c->in[3], T, S, D, -T, S, p->scale}, p);
}

/* (B, H, T, D), in memory as (B, T, H, D) */
static cr_meta inside(cr_meta m) {
    const int64_t H = m.shape[1], T = m.shape[2], D = m.shape[3];
    m.strided = true;
    m.strides[0] = T * H * D; m.strides[1] = D; m.strides[2] = H * D; m.strides[3] = 1;
    return m;
}
static cr_meta heads_inside(const cr_tensor *q) { return inside(cr_meta_of(q)); }

static cr_status check_mask(const cr_tensor *mask, const cr_tensor *q, int64_t S) {
    const int64_t scores[4] = {q->shape[0], q->shape[1], q->shape[2], S};
    if (mask == CR_NONE) return CR_OK;
    if (mask->dtype != CR_BOOL && mask->dtype != q->dtype)
        return cr_fail(CR_BAD_TYPE, "attention", "the mask must be bool or %s, as q is: %s", cr_dtype_name(q->dtype),
                       cr_dtype_name(mask->dtype));
    bool ok = mask->ndim <= 4;
    for (int i = 1; i <= mask->ndim && ok; i++)
        ok = mask->shape[mask->ndim - i] == 1 || mask->shape[mask->ndim - i] == scores[4 - i];
    return ok ? CR_OK
              : cr_fail(CR_BAD_VALUE, "attention", "the mask does not broadcast to the scores (B, H, T, S): %s, %s",
                        cr_shape_text(mask->ndim, mask->shape).s, cr_shape_text(4, scores).s);
}

static cr_status check_params(const char *op, const attention_params *p) {
    if (p->window < 0 || ((p->window || p->shift) && !p->causal))
        return cr_fail(CR_BAD_VALUE, op,
                       "window must be >= 0, and window and shift are for causal attention: window %lld, shift %lld%s",
                       (long long)p->window, (long long)p->shift, p->causal ? "" : ", not causal");
    return isfinite(p->scale) ? CR_OK
                              : cr_fail(CR_BAD_VALUE, op, "the scale must be finite: %g", p->scale);
}

static cr_status attention_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2];
    const attention_params *p = c->params;
    cr_status status = cr_want_float("attention", q);
    if (status == CR_OK) status = cr_want_same_dtype("attention", q, k);
    if (status == CR_OK) status = cr_want_same_dtype("attention", q, v);
    if (status != CR_OK) return status;
    bool ok = q->ndim == 4 && k->ndim == 4 && v->ndim == 4;
    for (int i = 0; i < 4 && ok; i++)
        ok = k->shape[i] == v->shape[i] && (i == 1 || i == 2 || q->shape[i] == k->shape[i]);
    if (ok) ok = k->shape[1] ? q->shape[1] % k->shape[1] == 0 : q->shape[1] == 0;
    if (!ok)
        return cr_fail(CR_BAD_VALUE, "attention",
                       "takes q (B, H, T, D) and k, v (B, KV, S, D), KV divides H: %s, %s, %s",
                       cr_shape_text(q->ndim, q->shape).s, cr_shape_text(k->ndim, k->shape).s,
                       cr_shape_text(v->ndim, v->shape).s);
    if (check_params("attention", p) != CR_OK || check_mask(c->in[3], q, k->shape[2]) != CR_OK)
        return cr_error_status();
    if (cr_shape_check("attention", 4, q->shape, q->dtype, NULL) != CR_OK) return cr_error_status();
    *out = heads_inside(q);
    /* log(sum(exp(scores))) */
    aux[0] = (cr_meta){.dtype = wide_dtype(q), .ndim = 3, .shape = {q->shape[0], q->shape[1], q->shape[2]}};
    return CR_OK;
}

/* x with D contiguous: itself where it is so, else a copy. */
static cr_status dense_heads(const cr_tensor *x, cr_array *a) {
    *a = x->array;
    return x->strides[3] == 1 || x->shape[3] == 1 ? CR_OK : cr_pack(a);
}

/* The term that the mask adds to the scores, in the mask's shape; CR_NONE without a mask.  log(true) =
 * 0, log(false) = -Inf. */
static cr_tensor *bias(const attention_inputs *i) {
    if (i->mask == CR_NONE) return same(CR_NONE);
    cr_tensor *m = cast_to(i->mask, wide_dtype(i->q));
    return i->mask->dtype == CR_BOOL ? cr_log(m) : m;
}

/* The same for a kernel: (B, H, T, S), or absent. */
static cr_status kernel_bias(const attention_inputs *i, cr_array *a) {
    *a = (cr_array){0};
    if (i->mask == CR_NONE) return CR_OK;
    const bool recording = cr_set_grad_enabled(false);
    const cr_tensor *mask = cr_expand(bias(i), CR_LIST(i->q->shape[0], i->q->shape[1], i->T, i->S));
    cr_set_grad_enabled(recording);
    *a = array_of(mask);
    return mask ? CR_OK : cr_error_status();
}

/* The inputs as the kernels take them; the scope around owns copies. */
static cr_status kernel_inputs(const attention_inputs *i, cr_array *q, cr_array *k, cr_array *v, cr_array *mask) {
    cr_status status = kernel_bias(i, mask);
    if (status == CR_OK) status = dense_heads(i->q, q);
    if (status == CR_OK) status = dense_heads(i->k, k);
    if (status == CR_OK) status = dense_heads(i->v, v);
    return status;
}

static bool kernel_supports(const cr_call *c) {
    const cr_kernels *k = c->dev->kernels;
    return !k->attention_takes || k->attention_takes(&c->in[0]->array, &c->in[1]->array);
}

static cr_status attention_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const attention_inputs i = inputs(c);
    if (!out->numel) return CR_OK;
    if (!i.S) {                                     /* no keys: every query gives 0 */
        cr_status status = cr_fill_elements(out, 0);
        return status == CR_OK ? cr_fill_elements(aux[0], -INFINITY) : status;
    }
    cr_scope_begin();
    cr_attention_args args = {
        .o = out->array, .lse = aux[0]->array, .scale = i.scale, .first = i.first, .last = i.last};
    cr_status status = kernel_inputs(&i, &args.q, &args.k, &args.v, &args.mask);
    if (status == CR_OK) status = c->dev->kernels->attention(&args);
    cr_scope_end();
    return status;
}

/* ---- the plain formula, with all T x S weights */

static cr_tensor *either(cr_tensor *a, cr_tensor *b) {
    if (a == CR_NONE) return b;
    return b == CR_NONE ? a : cr_logical_or(a, b);
}

/* Which keys a query must not see, over the scores; CR_NONE: none.  m: the bias. */
static cr_tensor *hidden(const attention_inputs *i, const cr_tensor *m) {
    cr_tensor *masked = m == CR_NONE ? same(CR_NONE) : cr_eq(m, cr_scalar(-INFINITY));
    const bool behind = i->last < i->S - 1, before = i->first > 1 - i->T;
    if (!behind && !before) return masked;
    cr_tensor *t = cr_unsqueeze(cr_arange(0, (double)i->T, 1, CR_I64, i->q->dev), 1),
              *s = cr_arange(0, (double)i->S, 1, CR_I64, i->q->dev), *at = sub(s, t), *out = same(CR_NONE);
    if (behind) out = cr_gt(at, cr_scalar_int(i->last));
    if (before) out = either(out, cr_lt(at, cr_scalar_int(i->first)));
    return either(masked, out);
}

/* The heads that share keys as rows of one: (B, H, T, X) -> (B, KV, H / KV T, X), and back. */
static cr_tensor *joined(const attention_inputs *i, const cr_tensor *x) {
    const int64_t KV = i->k->shape[1], H = i->q->shape[1];
    if (!x || KV == H) return same(x);
    return cr_reshape(x, CR_LIST(x->shape[0], KV, H / KV * x->shape[2], x->shape[3]));
}
static cr_tensor *apart(const attention_inputs *i, const cr_tensor *x) {
    if (!x || i->k->shape[1] == i->q->shape[1]) return same(x);
    return cr_reshape(x, CR_LIST(x->shape[0], i->q->shape[1], i->T, x->shape[3]));
}

/* p = softmax(scale q k^T + mask), 0 where hidden: (B, H, T, S) */
static cr_tensor *weights(const attention_inputs *i, const cr_tensor *q, const cr_tensor *k) {
    cr_tensor *scores = mul_k(apart(i, cr_matmul(joined(i, q), transposed(k))), i->scale), *m = bias(i),
              *blind = hidden(i, m);
    if (m != CR_NONE) scores = add(scores, m);
    if (blind == CR_NONE) return cr_softmax(scores, -1);
    return cr_masked_fill(cr_softmax(cr_masked_fill(scores, blind, -INFINITY), -1), blind, 0);
}

static cr_tensor *attention_composite(const cr_call *c) {
    const attention_inputs i = inputs(c);
    cr_tensor *p = weights(&i, widened(i.q), widened(i.k)), *o = apart(&i, cr_matmul(joined(&i, p), widened(i.v)));
    return cast_to(cr_transpose(cr_contiguous(cr_transpose(o, 1, 2)), 1, 2), i.q->dtype);
}

/* o = p v, p = softmax(scale q k^T + mask):  dv = p^T g,  dmask = p (g v^T - sum(p g v^T)),  ds =
 * scale dmask,  dq = ds k,  dk = ds^T q; dk and dv are sums over the heads that share a key */
static void composed_grad(const cr_call *c, const cr_tensor *cotangent, cr_tensor *dx[]) {
    const attention_inputs i = inputs(c);
    cr_tensor *q = widened(i.q), *k = widened(i.k), *v = widened(i.v), *g = joined(&i, widened(cotangent)),
              *p = weights(&i, q, k);
    cr_tensor *dp = apart(&i, cr_matmul(g, transposed(v)));
    cr_tensor *dmask = mul(p, sub(dp, sum_last(mul(p, dp)))), *ds = joined(&i, mul_k(dmask, i.scale));
    if (c->needs[0]) dx[0] = apart(&i, cr_matmul(ds, k));
    if (c->needs[1]) dx[1] = cr_matmul(transposed(ds), joined(&i, q));
    if (c->needs[2]) dx[2] = cr_matmul(transposed(joined(&i, p)), g);
    if (c->needs[3]) dx[3] = dmask;
}

/* A gradient laid out as its input: heads inside time, or time inside heads. */
static cr_tensor *laid_out_like(const cr_tensor *x) {
    cr_meta m = x->strides[1] < x->strides[2] ? heads_inside(x) : cr_meta_of(x);
    return cr_new_like(&m, x->dev);
}

static void fused_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const attention_inputs i = inputs(c);
    cr_tensor *d[3] = {laid_out_like(i.q), laid_out_like(i.k), laid_out_like(i.v)};
    cr_status status = d[0] && d[1] && d[2] ? CR_OK : cr_error_status();
    if (status == CR_OK && c->out->numel && i.S) {
        cr_attention_bwd_args args = {.dq = d[0]->array,
                                      .dk = d[1]->array,
                                      .dv = d[2]->array,
                                      .o = c->out->array,
                                      .lse = c->aux[0]->array,
                                      .scale = i.scale,
                                      .first = i.first,
                                      .last = i.last};
        status = kernel_inputs(&i, &args.q, &args.k, &args.v, &args.mask);
        if (status == CR_OK) status = dense_heads(g, &args.g);
        if (status == CR_OK) status = c->dev->kernels->attention_bwd(&args);
    } else {
        for (int n = 0; n < 3; n++)
            if (status == CR_OK) status = cr_fill_elements(d[n], 0);
    }
    for (int n = 0; n < 3; n++)
        if (c->needs[n]) dx[n] = status == CR_OK ? d[n] : NULL;
}

static void attention_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (c->differentiable || c->needs[3] || !c->dev->kernels->attention_bwd || !kernel_supports(c))
        composed_grad(c, g, dx);
    else fused_grad(c, g, dx);
}

/* vmap: the batches of all samples are one */
static const cr_tensor *batches_joined(const cr_batched *b, int i, const int64_t *first) {
    const cr_tensor *x = cr_batch_in(b, i);
    int64_t shape[CR_MAX_DIMS];
    if (!x || x == CR_NONE) return x;
    if (first) {                                    /* a mask: (size, B or 1, ...), which must have all B of them */
        for (int k = 0; k < x->ndim; k++) shape[k] = k == 1 ? *first : x->shape[k];
        x = cr_expand(x, x->ndim, shape);
    }
    for (int k = 0; x && k + 1 < x->ndim; k++) shape[k] = k ? x->shape[k + 1] : x->shape[0] * x->shape[1];
    return x ? cr_reshape(x, x->ndim - 1, shape) : NULL;
}

static cr_tensor *attention_batch(const cr_batched *b) {
    const cr_call *c = b->call;
    const cr_tensor *in[4];
    for (int i = 0; i < 3; i++) in[i] = batches_joined(b, i, NULL);
    in[3] = b->in[3];
    if (b->has[3]) b->in[3] = cr_batch_aligned(b, 3, 4);
    if (b->has[3] || (in[3] != CR_NONE && in[3]->ndim == 4 && in[3]->shape[0] != 1))
        in[3] = b->in[3] ? batches_joined(b, 3, &c->in[0]->shape[0]) : NULL;
    return cr_batch_shaped(b, cr_batch_apply(b, in, c->params), b->out);
}

const cr_op cr_op_attention = {
    .name = "attention",
    .arity = 4,
    .optional = 1u << 3,
    .params_bytes = sizeof(attention_params),
    .needs_kernel = offsetof(cr_kernels, attention),
    .kernel_supports = kernel_supports,
    .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_IN(2) | CR_SAVE_IN(3) | CR_SAVE_OUT | CR_SAVE_AUX,
    .n_aux = 1,
    .infer = attention_infer,
    .forward = attention_forward,
    .composite = attention_composite,
    .grad = attention_grad,
    .batch = attention_batch,
};

/* ---- attention_packed: q, k and v are the thirds of one tensor (B, T, 3, H, D), as one product makes them.  Their
 * gradients are written into the thirds of one tensor too, which nothing has to add up. */
static cr_array third(const cr_tensor *qkv, int i) {
    const int64_t *n = qkv->shape, *s = qkv->strides;
    const int64_t shape[4] = {n[0], n[3], n[1], n[4]}, strides[4] = {s[0], s[3], s[1], s[4]};
    return cr_array_strided(&qkv->array, 4, shape, strides, qkv->offset + i * s[2]);
}

static attention_inputs packed_inputs(const cr_call *c) {
    const int64_t *n = c->in[0]->shape;
    const attention_params *p = c->params;
    return with_limits((attention_inputs){.T = n[1], .S = n[1], .D = n[4], .first = -n[1], .last = n[1],
                                          .scale = p->scale}, p);
}

static cr_status packed_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    const cr_status status = cr_want_float("attention_packed", x);
    if (status != CR_OK) return status;
    if (x->ndim != 5 || x->shape[2] != 3)
        return cr_fail(CR_BAD_VALUE, "attention_packed", "takes q, k and v as (B, T, 3, H, D): %s",
                       cr_shape_text(x->ndim, x->shape).s);
    if (check_params("attention_packed", c->params) != CR_OK) return cr_error_status();
    const int64_t *n = x->shape;
    *out = inside((cr_meta){.dtype = x->dtype, .ndim = 4, .shape = {n[0], n[3], n[1], n[4]}});
    aux[0] = (cr_meta){.dtype = wide_dtype(x), .ndim = 3, .shape = {n[0], n[3], n[1]}};
    return CR_OK;
}

static bool packed_kernel_supports(const cr_call *c) {
    const cr_kernels *k = c->dev->kernels;
    const cr_array q = third(c->in[0], 0);
    return k->attention_bwd && (!k->attention_takes || k->attention_takes(&q, &q));
}

static cr_status packed_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const attention_inputs i = packed_inputs(c);
    const cr_tensor *x = c->in[0];
    if (!out->numel) return CR_OK;
    return c->dev->kernels->attention(&(cr_attention_args){
        .o = out->array, .lse = aux[0]->array, .q = third(x, 0), .k = third(x, 1), .v = third(x, 2), .scale = i.scale,
        .first = i.first, .last = i.last});
}

static cr_tensor *packed_composite(const cr_call *c) {
    const cr_tensor *part[4] = {NULL, NULL, NULL, CR_NONE};
    for (int i = 0; i < 3; i++) part[i] = cr_transpose(cr_select(c->in[0], 2, i), 1, 2);
    return cr_apply(&cr_op_attention, 4, part, c->params);
}

static void packed_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const attention_inputs i = packed_inputs(c);
    const cr_tensor *x = c->in[0];
    if (c->differentiable) {
        const cr_tensor *y = packed_composite(c);
        if (!y || c->backward_through(y, g) != CR_OK) dx[0] = NULL;
        return;
    }
    cr_tensor *d = dx[0] = cr_fused(x);
    if (!d || !d->numel) return;
    cr_attention_bwd_args args = {.dq = third(d, 0), .dk = third(d, 1), .dv = third(d, 2), .q = third(x, 0),
                                  .k = third(x, 1), .v = third(x, 2), .o = c->out->array, .lse = c->aux[0]->array,
                                  .scale = i.scale, .first = i.first, .last = i.last};
    if (dense_heads(g, &args.g) != CR_OK || c->dev->kernels->attention_bwd(&args) != CR_OK) dx[0] = NULL;
}

static cr_tensor *packed_batch(const cr_batched *b) {
    const cr_tensor *x = batches_joined(b, 0, NULL);
    return cr_batch_shaped(b, cr_batch_apply(b, &x, b->call->params), b->out);
}

const cr_op cr_op_attention_packed = {
    .name = "attention_packed",
    .arity = 1,
    .params_bytes = sizeof(attention_params),
    .contiguous = true,
    .recompute_forward = true,
    .needs_kernel = offsetof(cr_kernels, attention),
    .kernel_supports = packed_kernel_supports,
    .saves = CR_SAVE_IN(0) | CR_SAVE_OUT | CR_SAVE_AUX,
    .n_aux = 1,
    .infer = packed_infer,
    .forward = packed_forward,
    .composite = packed_composite,
    .grad = packed_grad,
    .batch = packed_batch,
};

static attention_params params_of(const cr_attention_options *o) {
    return o ? (attention_params){o->scale, o->causal, o->window, o->shift} : (attention_params){0};
}

cr_tensor *cr_attention(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_attention_options *o) {
    const attention_params p = params_of(o);
    return cr_apply(&cr_op_attention, 4, (const cr_tensor *const[]){q, k, v, o && o->mask ? o->mask : CR_NONE}, &p);
}

cr_tensor *cr_attention_packed(const cr_tensor *qkv, const cr_attention_options *o) {
    const attention_params p = params_of(o);
    if (o && o->mask && o->mask != CR_NONE)
        return cr_fail(CR_BAD_VALUE, "attention_packed", "takes no mask: give q, k and v to attention"), NULL;
    return cr_apply(&cr_op_attention_packed, 1, &qkv, &p);
}
