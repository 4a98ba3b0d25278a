/* affine.c - the linear layers of the language models: weights as floats, or quantized. */
#include "lm.h"

int64_t cr_affine_inputs(const cr_affine *p) {
    if (!p->codes) return cr_size(p->weight, 1);
    return cr_size(p->codes, 1) * (cr_dtype_of(p->codes) == CR_I8 ? 1 : 2);
}

/* moments += x^T x, over all rows of x */
static bool add_moments(const cr_affine *p, const cr_tensor *x) {
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *rows = cr_reshape(cr_to(cr_detach(x), CR_F32, cr_device_of(x)), CR_LIST(-1, cr_size(x, -1)));
    const bool added = cr_add_(p->moments, cr_matmul(cr_transpose(rows, 0, 1), rows)) != NULL;
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return added;
}

cr_tensor *cr_affine_apply(const cr_affine *p, const cr_tensor *x, cr_act act) {
    const cr_tensor *bias = p->bias ? p->bias : CR_NONE;
    if (!x || (p->moments && !add_moments(p, x))) return NULL;
    if (p->codes) return cr_linear_quantized(x, p->codes, p->scales, bias, act);
    return cr_linear(x, p->weight, bias, act);
}

cr_tensor *cr_affine_rows(const cr_affine *p, const cr_tensor *tokens, cr_dtype dt) {
    if (!p->codes) return cr_embedding(p->weight, tokens);
    if (!tokens) return NULL;
    int64_t shape[CR_MAX_DIMS];
    const int n = cr_ndim(tokens);
    for (int i = 0; i < n; i++) shape[i] = cr_size(tokens, i);
    shape[n] = cr_affine_inputs(p);
    cr_scope_begin();
    const cr_tensor *flat = cr_reshape(tokens, CR_LIST(-1));
    const cr_tensor *codes = cr_index_select(p->codes, 0, flat), *scales = cr_index_select(p->scales, 0, flat);
    cr_tensor *y = cr_reshape(cr_dequantize(codes, scales, dt), n + 1, shape);
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}
