/* cat.c - tensors one after the other along an axis (cat), or along a new one (stack). */
#include "compose.h"
#include "transform.h"

#include <stdlib.h>

typedef struct cat_params { int axis; } cat_params;         /* 0 .. ndim - 1 */

static cr_status cat_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const int axis = ((const cat_params *)c->params)->axis;
    *out = cr_meta_of(c->in[0]);
    for (int i = 1; i < c->n; i++) {
        const cr_tensor *x = c->in[i];
        bool alike = x->ndim == out->ndim;
        for (int d = 0; alike && d < out->ndim; d++) alike = d == axis || x->shape[d] == out->shape[d];
        if (!alike)
            return cr_fail(CR_BAD_VALUE, "cat", "shapes %s and %s differ in more than axis %d",
                           cr_shape_text(c->in[0]->ndim, c->in[0]->shape).s, cr_shape_text(x->ndim, x->shape).s, axis);
        if (__builtin_add_overflow(out->shape[axis], x->shape[axis], &out->shape[axis]))
            return cr_fail(CR_BAD_VALUE, "cat", "the result holds too many elements");
        out->dtype = cr_promote(out->dtype, x->dtype);
    }
    return cr_shape_check("cat", out->ndim, out->shape, out->dtype, NULL);
}

static cr_status cat_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const int axis = ((const cat_params *)c->params)->axis;
    cr_status status = CR_OK;
    int64_t at = 0;
    for (int i = 0; i < c->n && status == CR_OK; at += c->in[i++]->shape[axis]) {
        const cr_array *x = &c->in[i]->array, to = cr_array_narrowed(&out->array, axis, at, x->shape[axis]);
        status = cr_copy_array(&to, x);
    }
    return status;
}

/* y = cat(x0, x1, ...):  dxi = the slice of g where xi lies */
static void cat_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const int axis = ((const cat_params *)c->params)->axis;
    int64_t at = 0;
    for (int i = 0; i < c->n; at += c->in[i++]->shape[axis])
        if (c->needs[i]) dx[i] = cr_slice(g, axis, at, at + c->in[i]->shape[axis], 1);
}

/* Integers among floats have no tangent: zeros. */
static cr_tensor *cat_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *few[CR_FEW_INPUTS], **in = c->n <= CR_FEW_INPUTS ? few : malloc(sizeof *in * (size_t)c->n);
    bool have = in || cr_no_memory("cat") == CR_OK;
    for (int i = 0; i < c->n && have; i++) have = (in[i] = cr_tangent_or_zeros(t[i], c->in[i]));
    cr_tensor *y = have ? cr_apply(&cr_op_cat, c->n, in, c->params) : NULL;
    if (in != few) free(in);
    return y;
}

const cr_op cr_op_cat = {
    .name = "cat",
    .arity = -1,
    .params_bytes = sizeof(cat_params),
    .infer = cat_infer,
    .forward = cat_forward,
    .grad = cat_grad,
    .batch = cr_batch_axis,
    .tangent = cat_tangent,
};

static cr_status check_list(const char *op, int n, const cr_tensor *const *in) {
    if (n < 1) return cr_fail(CR_BAD_VALUE, op, "needs at least one tensor, got %d", n);
    if (!in) return cr_fail_null(op, "the list of tensors");
    for (int i = 0; i < n; i++) if (!cr_given(op, "a tensor", in[i])) return cr_error_status();
    return CR_OK;
}

cr_tensor *cr_cat(int n, const cr_tensor *const *in, int axis) {
    if (check_list("cat", n, in) != CR_OK) return NULL;
    if (!in[0]->ndim)
        return cr_fail(CR_BAD_VALUE, "cat", "0-d tensors cannot be concatenated: cr_stack can"), NULL;
    int a = cr_axis("cat", axis, in[0]->ndim);
    return a < 0 ? NULL : cr_apply(&cr_op_cat, n, in, &(cat_params){a});
}

cr_tensor *cr_stack(int n, const cr_tensor *const *in, int axis) {
    if (check_list("stack", n, in) != CR_OK) return NULL;
    for (int i = 1; i < n; i++)
        if (!cr_shape_equal(in[i]->ndim, in[i]->shape, in[0]->ndim, in[0]->shape))
            return cr_fail(CR_BAD_VALUE, "stack", "shapes differ: %s, %s", cr_shape_text(in[0]->ndim, in[0]->shape).s,
                           cr_shape_text(in[i]->ndim, in[i]->shape).s),
                   NULL;
    int a = cr_axis("stack", axis, in[0]->ndim + 1);
    if (a < 0) return NULL;
    cr_tensor **each = malloc(sizeof *each * (size_t)n), *y = NULL;
    if (!each) return cr_no_memory("stack"), NULL;
    cr_scope_begin();
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = (each[i] = cr_unsqueeze(in[i], a)) != NULL;
    if (ok) y = cr_cat(n, (const cr_tensor *const *)each, a);
    free(each);
    return cr_leave(y);
}
