/* embedding.c - rows of a table: w (V, C), index (...) -> (..., C), and its gradient, rows added into zeros.
 * Fast twins: dev/cpu/index.c. */
#include "compose.h"

#include <string.h>

static cr_status embedding_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *w = c->in[0], *index = c->in[1];
    if (w->ndim != 2) return cr_fail(CR_BAD_VALUE, "embedding", "the table must be (rows, columns): %s", cr_shape_text(w->ndim, w->shape).s);
    if (index->ndim == CR_MAX_DIMS) return cr_fail(CR_BAD_VALUE, "embedding", "an index of %d axes leaves none for the columns", CR_MAX_DIMS);
    *out = cr_meta_of(index);
    out->dtype = dtype_of(w);
    out->shape[out->ndim++] = w->shape[1];
    cr_status status = cr_want_index("embedding", index);
    return status == CR_OK ? cr_shape_check("embedding", out->ndim, out->shape, out->dtype, NULL) : status;
}

/* x as (rows, C). */
static cr_tensor *as_rows(const cr_tensor *x, int64_t C) { return cr_shaped(x, 2, (int64_t[]){x->numel / C, C}); }

static cr_status embedding_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *w = c->in[0], *index = c->in[1];
    if (!out->numel) return CR_OK;
    cr_tensor *y = as_rows(out, w->shape[1]), *at = cr_shaped(index, 1, &index->numel);
    cr_status status = y && at ? c->dev->kernels->take_rows(y, w, at) : cr_error_status();
    cr_release(y); cr_release(at);
    return status;
}

typedef struct rows_params { int64_t V; } rows_params;

/* y[index[i]] += g[i] */
static cr_status add_rows(const cr_device *dev, cr_tensor *y, const cr_tensor *g, const cr_tensor *index) {
    cr_tensor *dense = cr_packed(g), *rows = dense ? as_rows(dense, y->shape[1]) : NULL, *at = cr_shaped(index, 1, &index->numel);
    cr_status status = rows && at ? dev->kernels->add_rows(y, at, rows) : cr_error_status();
    cr_release(dense); cr_release(rows); cr_release(at);
    return status;
}

/* y = w[index]:  dw = embedding_bwd(g, index); rows that have arrived are added to: a tied table has its head's gradient already */
static void embedding_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *w = c->in[0], *index = c->in[1];
    if (!c->needs[0]) return;
    if (c->arrived[0] && g->numel) dx[0] = add_rows(c->dev, c->arrived[0], g, index) == CR_OK ? c->arrived[0] : NULL;
    else dx[0] = cr_apply(&cr_op_embedding_bwd, 2, (const cr_tensor *const[]){g, index}, &(rows_params){w->shape[0]});
}

const cr_op cr_op_embedding = {
    .name = "embedding", .arity = 2, .contiguous = true, .saves = CR_SAVE_IN(1),
    .infer = embedding_infer, .forward = embedding_forward, .grad = embedding_grad, .doc = "rows of a table",
};

/* ---- y (V, C) = zeros, then y[index[i]] += g[i] */
static cr_status bwd_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *g = c->in[0], *index = c->in[1];
    bool matches = g->ndim == index->ndim + 1 && !memcmp(g->shape, index->shape, sizeof(int64_t) * index->ndim);
    if (!matches)
        return cr_fail(CR_BAD_VALUE, "embedding_bwd", "rows %s for an index %s", cr_shape_text(g->ndim, g->shape).s, cr_shape_text(index->ndim, index->shape).s);
    *out = (cr_meta){.dtype = dtype_of(g), .ndim = 2, .shape = {((const rows_params *)c->params)->V, g->shape[g->ndim - 1]}};
    return cr_want_index("embedding_bwd", index);
}

static cr_status bwd_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *g = c->in[0], *index = c->in[1];
    cr_status status = cr_fill_elements(out, 0);
    return status == CR_OK && g->numel ? add_rows(c->dev, out, g, index) : status;
}

/* y = zeros with rows added:  dg = the cotangent's rows at index */
static void bwd_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (c->needs[0]) dx[0] = cr_embedding(g, c->in[1]);
}

const cr_op cr_op_embedding_bwd = {
    .name = "embedding_bwd", .arity = 2, .params_bytes = sizeof(rows_params), .contiguous = true, .saves = CR_SAVE_IN(1),
    .infer = bwd_infer, .forward = bwd_forward, .grad = bwd_grad, .doc = "rows added into a table of zeros: the gradient of embedding",
};

cr_tensor *cr_embedding(const cr_tensor *w, const cr_tensor *index) {
    return cr_apply(&cr_op_embedding, 2, (const cr_tensor *const[]){w, index}, NULL);
}
