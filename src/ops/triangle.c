/* triangle.c - the lower (tril) or upper (triu) triangle of matrices, zeros elsewhere.  Fast twin: dev/cpu/copy.c. */
#include "compose.h"
#include "transform.h"

#include <stddef.h>

/* kept: column - row <= diagonal, or >= it */
typedef struct triangle_params { int64_t diagonal; bool upper; } triangle_params;

static const char *triangle_name(const void *params) {
    return ((const triangle_params *)params)->upper ? "triu" : "tril";
}

static cr_status triangle_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    *out = cr_meta_of(x);
    return x->ndim >= 2
               ? CR_OK
               : cr_fail(CR_BAD_VALUE, cr_call_name(c), "needs a matrix: %s", cr_shape_text(x->ndim, x->shape).s);
}

static cr_status triangle_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const triangle_params *p = c->params;
    return out->numel
               ? c->dev->kernels->triangle(&(cr_triangle_args){out->array, c->in[0]->array, p->diagonal, p->upper})
               : CR_OK;
}

static cr_status triangle_into(const cr_call *c, cr_tensor *x) {
    if (c->dev->kernels->triangle && x->contiguous) return triangle_forward(c, x, NULL);
    cr_tensor *y = cr_apply(&cr_op_triangle, 1, c->in, c->params);
    const cr_status status = y && cr_copy_(x, y) ? CR_OK : cr_error_status();
    cr_release(y);
    return status;
}

/* Column less row. */
static cr_tensor *distance(const cr_tensor *x) {
    int64_t M = x->shape[x->ndim - 2], N = x->shape[x->ndim - 1];
    cr_tensor *row = cr_arange(0, (double)M, 1, CR_I64, x->dev), *column = cr_arange(0, (double)N, 1, CR_I64, x->dev);
    return row ? sub(column, cr_unsqueeze(row, 1)) : NULL;
}

static cr_tensor *triangle_composite(const cr_call *c) {
    const triangle_params *p = c->params;
    cr_tensor *bound = cr_scalar_int(p->diagonal), *d = distance(c->in[0]);
    return cr_masked_fill(c->in[0], p->upper ? cr_lt(d, bound) : cr_gt(d, bound), 0);
}

/* y = the triangle of x:  dx = that of g */
static void triangle_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    dx[0] = cr_apply(&cr_op_triangle, 1, &g, c->params);
}

const cr_op cr_op_triangle = {
    .name = "triangle",
    .name_of = triangle_name,
    .arity = 1,
    .params_bytes = sizeof(triangle_params),
    .contiguous = true,
    .needs_kernel = offsetof(cr_kernels, triangle),
    .infer = triangle_infer,
    .forward = triangle_forward,
    .write = triangle_into,
    .composite = triangle_composite,
    .grad = triangle_grad,
    .batch = cr_batch_same,
    .tangent = cr_tangent_linear,
};

static cr_tensor *triangle(const char *op, const cr_tensor *x, int64_t diagonal, bool upper) {
    return cr_given(op, "x", x) ? cr_apply(&cr_op_triangle, 1, &x, &(triangle_params){diagonal, upper}) : NULL;
}
static cr_tensor *triangle_in_place(cr_tensor *x, int64_t diagonal, bool upper) {
    return cr_apply_(&cr_op_triangle, x, 1, (const cr_tensor *const[]){x}, &(triangle_params){diagonal, upper});
}
cr_tensor *cr_tril(const cr_tensor *x, int64_t diagonal) { return triangle("tril", x, diagonal, false); }
cr_tensor *cr_triu(const cr_tensor *x, int64_t diagonal) { return triangle("triu", x, diagonal, true); }
cr_tensor *cr_tril_(cr_tensor *x, int64_t diagonal) {
    return cr_given("tril_", "x", x) ? triangle_in_place(x, diagonal, false) : NULL;
}
cr_tensor *cr_triu_(cr_tensor *x, int64_t diagonal) {
    return cr_given("triu_", "x", x) ? triangle_in_place(x, diagonal, true) : NULL;
}
