/* argreduce.c - where the largest or smallest element of an axis lies, and which it is. */
#include "reduce.h"
#include "transform.h"

typedef struct arg_params { int axis; bool keepdim; } arg_params;

static cr_status arg_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const arg_params *p = c->params;
    if (x->ndim && !x->shape[p->axis])
        return cr_fail(CR_BAD_VALUE, c->op->name, "axis %d of %s is empty: there is no position to give", p->axis,
                       cr_shape_text(x->ndim, x->shape).s);
    *out = (cr_meta){.dtype = CR_I64};
    for (int i = 0; i < x->ndim; i++)
        if (i != p->axis || p->keepdim) out->shape[out->ndim++] = i == p->axis ? 1 : x->shape[i];
    return CR_OK;
}

static cr_status arg_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_arg_reduce_axis(c->op == &cr_op_argmax, out, c->in[0], ((const arg_params *)c->params)->axis);
}

const cr_op cr_op_argmax = {
    .name = "argmax", .arity = 1, .params_bytes = sizeof(arg_params), .infer = arg_infer, .forward = arg_forward,
    .batch = cr_batch_axis, .no_grad = "positions are integers",
};
const cr_op cr_op_argmin = {
    .name = "argmin", .arity = 1, .params_bytes = sizeof(arg_params), .infer = arg_infer, .forward = arg_forward,
    .batch = cr_batch_axis, .no_grad = "positions are integers",
};

static cr_tensor *arg(const cr_op *op, const cr_tensor *x, int axis, bool keepdim) {
    if (!cr_given(op->name, "x", x)) return NULL;
    int a = cr_axis(op->name, axis, x->ndim);
    return a < 0 ? NULL : cr_apply(op, 1, &x, &(arg_params){a, keepdim});
}

cr_tensor *cr_argmax(const cr_tensor *x, int axis, bool keepdim) { return arg(&cr_op_argmax, x, axis, keepdim); }
cr_tensor *cr_argmin(const cr_tensor *x, int axis, bool keepdim) { return arg(&cr_op_argmin, x, axis, keepdim); }

/* The values are gathered, so that the gradient goes to the one position. */
static cr_tensor *with_position(const cr_op *op, const cr_tensor *x, int axis, bool keepdim, cr_tensor **index) {
    if (index) *index = NULL;
    cr_scope_begin();
    cr_tensor *at = arg(op, x, axis, true), *y = at ? cr_gather(x->ndim ? x : cr_reshape(x, CR_LIST(1)), axis,
                                                                x->ndim ? at : cr_reshape(at, CR_LIST(1)))
                                                    : NULL;
    if (y && !x->ndim) y = cr_reshape(y, CR_ALL);
    else if (y && !keepdim) { y = cr_squeeze(y, CR_LIST(axis)); at = cr_squeeze(at, CR_LIST(axis)); }
    if (y && at && index) *index = cr_keep(at);
    return cr_leave(at ? y : NULL);
}

cr_tensor *cr_max_along(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index) {
    return with_position(&cr_op_argmax, x, axis, keepdim, index);
}
cr_tensor *cr_min_along(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index) {
    return with_position(&cr_op_argmin, x, axis, keepdim, index);
}
