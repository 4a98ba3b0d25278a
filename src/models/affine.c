/* affine.c - the linear layers of the language models: weights as floats or packed, with the adapter that a layer
 * may have. */
#include "lm.h"
#include "../core/formats.h"
#include "../ops/linear.h"

/* In the dtype of an adapter, which is f32 over weights in half precision; autocast has its own rules. */
static cr_tensor *in_dtype_of(const cr_tensor *x, const cr_tensor *like) {
    if (!x || cr_autocast_dtype(cr_device_of(x)) != CR_F32) return (cr_tensor *)(uintptr_t)x;
    return cr_to(x, cr_dtype_of(like), cr_device_of(x));
}

static _Thread_local bool lora_trains;

bool cr_lora_train(bool on) {
    const bool before = lora_trains;
    lora_trains = on;
    return before;
}

/* scale (dropout(x) A^T) B^T : (..., C) -> (..., OC).  The scale is applied to the r columns in the middle. */
static cr_tensor *low_rank(const cr_affine *p, const cr_tensor *x) {
    const cr_lora_mode *mode = p->lora_mode;
    if (lora_trains && mode->dropout > 0) x = cr_dropout(x, mode->dropout, true, mode->generator);
    cr_tensor *narrow = cr_linear(in_dtype_of(x, p->lora_a), p->lora_a, CR_NONE);
    return cr_linear(cr_mul_scalar(narrow, p->scale), p->lora_b, CR_NONE);
}

static const cr_tensor *rows_of(const cr_affine *p) { return p->packed ? p->packed : p->weight; }

bool cr_affine_exists(const cr_affine *p) { return rows_of(p) != NULL; }

int64_t cr_affine_inputs(const cr_affine *p) {
    const int64_t line = cr_size(rows_of(p), 1);
    if (!p->packed) return line;
    const cr_format_traits *f = &cr_formats[cr_format_named(p->format)];
    return line / f->bytes * f->block;
}

int64_t cr_affine_outputs(const cr_affine *p) { return cr_size(rows_of(p), 0); }

bool cr_affine_is_plain(const cr_affine *p) { return p->weight && !p->moments && !p->lora_a; }

/* ---- packed rows.  Where heads are paired, axis `axis` has the rows (head, i, half) in the place of
 * (head, half, i). */
static cr_tensor *unpair_columns(const cr_affine *p, cr_tensor *y, int axis) {
    int64_t shape[CR_MAX_DIMS], split[CR_MAX_DIMS];
    const int n = y && p->paired ? cr_ndim(y) : 0;
    if (!n) return y;
    for (int i = 0; i < n; i++) shape[i] = cr_size(y, i);
    for (int i = 0; i < n; i++) split[i < axis ? i : i + 2] = shape[i];
    split[axis] = shape[axis] / p->paired;
    split[axis + 1] = p->paired / 2;
    split[axis + 2] = 2;
    return cr_reshape(cr_transpose(cr_reshape(y, n + 2, split), axis + 1, axis + 2), n, shape);
}

static cr_tensor *apply_packed(const cr_affine *p, const cr_tensor *x, const cr_tensor *bias) {
    if (!p->paired) return cr_linear_packed(x, p->packed, p->format, bias);
    cr_tensor *y = unpair_columns(p, cr_linear_packed(x, p->packed, p->format, CR_NONE), cr_ndim(x) - 1);
    return y && bias != CR_NONE ? cr_add(y, bias) : y;
}

cr_tensor *cr_affine_floats(const cr_affine *p, cr_dtype dt) {
    return unpair_columns(p, cr_unpack(p->packed, p->format, dt), 0);
}

/* moments += x^T x, or its diagonal, over all rows of x */
static bool add_moments(const cr_affine *p, const cr_tensor *x) {
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *rows = cr_reshape(cr_to(cr_detach(x), CR_F32, cr_device_of(x)), CR_LIST(-1, cr_size(x, -1)));
    const cr_tensor *more = cr_ndim(p->moments) == 1 ? cr_sum(cr_mul(rows, rows), CR_LIST(0), false)
                                                     : cr_matmul(cr_transpose(rows, 0, 1), rows);
    const bool added = cr_add_(p->moments, more) != NULL;
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return added;
}

static const cr_tensor *bias_of(const cr_affine *p) { return p->bias ? p->bias : CR_NONE; }

static cr_tensor *base_product(const cr_affine *p, const cr_tensor *x) {
    return p->packed ? apply_packed(p, x, bias_of(p)) : cr_linear(x, p->weight, bias_of(p));
}

cr_tensor *cr_affine_loss(const cr_affine *head, const cr_tensor *x, const cr_tensor *targets,
                          const cr_cross_entropy_options *o) {
    /* the loss of logits in half precision is f32 in a region of autocast, which casts nothing else here */
    const cr_dtype dt = x ? cr_dtype_of(x) : CR_F32;
    const bool half = dt == CR_F16 || dt == CR_BF16;
    if (half && cr_autocast_begin(cr_device_of(x), dt, true)) return NULL;
    cr_tensor *y = cr_affine_is_plain(head) && !head->bias
                       ? cr_linear_cross_entropy(x, head->weight, targets, o)
                       : cr_cross_entropy(cr_affine_apply(head, x), targets, o);
    return !half || cr_autocast_end() == CR_OK ? y : NULL;
}

cr_tensor *cr_affine_apply(const cr_affine *p, const cr_tensor *x) {
    if (!x || (p->moments && !add_moments(p, x))) return NULL;
    cr_tensor *y = base_product(p, x), *low = p->lora_a ? low_rank(p, x) : NULL;
    if (!p->lora_a) return y;
    return y && low ? cr_add(y, in_dtype_of(low, y)) : NULL;
}

cr_tensor *cr_affine_gelu(const cr_affine *p, const cr_tensor *x) {
    if (cr_affine_is_plain(p)) return cr_linear_gelu(x, p->weight, bias_of(p));
    cr_tensor *y = cr_affine_apply(p, x);
    return y ? cr_gelu_tanh(y) : NULL;
}

cr_tensor *cr_affine_rows(const cr_affine *p, const cr_tensor *tokens, cr_dtype dt) {
    if (p->weight) return cr_embedding(cr_linear_weight(p->weight), tokens);
    if (!tokens) return NULL;
    int64_t shape[CR_MAX_DIMS];
    const int n = cr_ndim(tokens);
    for (int i = 0; i < n; i++) shape[i] = cr_size(tokens, i);
    shape[n] = cr_affine_inputs(p);
    cr_scope_begin();
    const cr_tensor *flat = cr_reshape(tokens, CR_LIST(-1));
    cr_tensor *y = cr_unpack(cr_index_select(p->packed, 0, flat), p->format, dt);
    return cr_scope_leave(cr_reshape(y, n + 1, shape));
}

cr_tensor *cr_decoder_logits(const cr_decoder *d, const cr_tensor *x) {
    return cr_capped(cr_affine_apply(&d->head, x), d->logit_cap);
}

cr_tensor *cr_decoder_loss(const cr_decoder *d, const cr_tensor *x, const cr_tensor *targets,
                           const cr_cross_entropy_options *o) {
    if (d->logit_cap <= 0) return cr_affine_loss(&d->head, x, targets, o);
    cr_tensor *y = cr_decoder_logits(d, x);
    return y ? cr_cross_entropy(cr_to(y, cr_dtype_of(y) == CR_F64 ? CR_F64 : CR_F32, d->dev), targets, o) : NULL;
}
