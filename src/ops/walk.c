/* walk.c - fills a cr_walk from tensors, and PyTorch's dtype rules for programs. */
#include "programs.h"
#include "walk.h"

#include <math.h>
#include <string.h>

/* ---- dtypes: aten/native/TypeProperties.cpp's three ranks - tensors with axes, 0-d tensors,
 * numbers */
enum { NO_DTYPE = CR_DTYPES };

static int join_kinds(int a, int b) {
    return a == NO_DTYPE ? b : b == NO_DTYPE ? a : (int)cr_promote((cr_dtype)a, (cr_dtype)b);
}

/* A lower rank changes the dtype only if its kind is higher. */
static int combine(int high, int low) {
    if (high == NO_DTYPE || low == NO_DTYPE) return join_kinds(high, low);
    bool low_float = cr_dtype_is_float((cr_dtype)low);
    if (cr_dtype_is_float((cr_dtype)high)) return high;
    return high == CR_BOOL || low_float ? join_kinds(high, low) : high;
}

static cr_dtype promoted(int n, const cr_tensor *const *in) {
    int rank[3] = {NO_DTYPE, NO_DTYPE, NO_DTYPE};
    for (int i = 0; i < n; i++) {
        bool weak = in[i]->flags & CR_FLAG_WEAK;
        int dt = (int)in[i]->dtype;
        if (weak && cr_dtype_is_float((cr_dtype)dt)) dt = (int)cr_default_dtype();  /* of a plain number */
        int r = weak ? 2 : in[i]->ndim == 0;
        rank[r] = join_kinds(rank[r], dt);
    }
    return (cr_dtype)combine(rank[0], combine(rank[1], rank[2]));
}

cr_dtype cr_result_type(int n, const cr_tensor *const *in) {
    if (n < 1 || !in) return cr_fail(CR_BAD_VALUE, "result_type", "needs at least one tensor"), CR_DTYPES;
    for (int i = 0; i < n; i++) {
        if (cr_missing("result_type", "a tensor", in[i])) return CR_DTYPES;
        if (in[i] == CR_NONE) return cr_fail(CR_BAD_VALUE, "result_type", "CR_NONE has no dtype"), CR_DTYPES;
    }
    return promoted(n, in);
}

cr_status cr_rule_dtypes(const cr_program *p, const cr_tensor *const *in, cr_dtype *compute, cr_dtype *result) {
    const int condition = p->rule == CR_RULE_WHERE;
    cr_dtype dt = promoted(p->n_in - condition, in + condition);
    bool is_float = cr_dtype_is_float(dt);
    if (p->rule == CR_RULE_WHERE && in[0]->dtype != CR_BOOL)
        return cr_fail(CR_BAD_TYPE, p->name, "the condition must be bool, got %s: compare it, as in x != 0",
                       cr_dtype_name(in[0]->dtype));
    if (p->rule == CR_RULE_NUMBER && dt == CR_BOOL)
        return cr_fail(CR_BAD_TYPE, p->name, "bool is not a number: cast to an integer or float dtype first");
    if (p->rule == CR_RULE_BITS && is_float)
        return cr_fail(CR_BAD_TYPE, p->name, "works on the bits of integers and bool, got %s", cr_dtype_name(dt));
    /* as in PyTorch, which checks plain numbers only */
    if (p == &cr_rows[CR_ROW_POW] && !is_float && in[1]->flags & CR_FLAG_WEAK && cr_item(in[1]) < 0)
        return cr_fail(CR_BAD_VALUE, p->name, "integers to the negative power %g: cast to a float dtype first",
                       cr_item(in[1]));
    if (p->rule == CR_RULE_FLOAT && !is_float) dt = cr_default_dtype();
    *result = p->rule == CR_RULE_TEST ? CR_BOOL : dt;
    *compute = cr_dtype_wide(dt);
    return CR_OK;
}

/* ---- the walk */
static void fill_arg(cr_arg *a, const cr_tensor *t, int ndim, const int64_t *shape) {
    *a = (cr_arg){
        .data = t->dev->host ? cr_tensor_data(t) : NULL, .storage = t->storage, .offset = t->offset, .dtype = t->dtype};
    int missing = ndim - t->ndim;
    for (int i = missing; i < ndim; i++)
        a->strides[i] = t->shape[i - missing] == shape[i] ? t->strides[i - missing] : 0;
}

static cr_arg *operand(cr_walk *w, int k) { return k < w->n_out ? &w->out[k] : &w->in[k - w->n_out]; }

/* Drops axes of size 1 and merges neighbours, in order; what is left stays row-major over the outputs. */
static void coalesce(cr_walk *w) {
    const int n = w->n_out + w->n_in;
    int64_t *strides[sizeof w->out / sizeof *w->out + sizeof w->in / sizeof *w->in];
    for (int k = 0; k < n; k++) strides[k] = operand(w, k)->strides;
    w->ndim = cr_merge_axes(w->ndim, w->shape, n, strides);
}

static void one_axis(cr_walk *w) {
    w->ndim = 1;
    w->shape[0] = w->numel;
    for (int k = 0; k < w->n_out + w->n_in; k++) operand(w, k)->strides[0] = 1;
}

static cr_status check_shapes(int n_out, cr_tensor *const *out, int n_in, const cr_tensor *const *in, const char *op) {
    const cr_tensor *y = out[0];
    for (int r = 1; r < n_out; r++)
        if (!cr_shape_equal(out[r]->ndim, out[r]->shape, y->ndim, y->shape))
            return cr_fail(CR_BAD_VALUE, op, "results of different shapes, %s and %s",
                           cr_shape_text(y->ndim, y->shape).s, cr_shape_text(out[r]->ndim, out[r]->shape).s);
    for (int k = 0; k < n_in; k++) {
        const cr_tensor *t = in[k];
        bool fits = t->ndim <= y->ndim;
        for (int i = 0; fits && i < t->ndim; i++)
            fits = t->shape[i] == y->shape[i + y->ndim - t->ndim] || t->shape[i] == 1;
        if (!fits)
            return cr_fail(CR_BAD_VALUE, op, "shape %s does not broadcast to the result's %s",
                           cr_shape_text(t->ndim, t->shape).s, cr_shape_text(y->ndim, y->shape).s);
    }
    return CR_OK;
}

/* Integer arithmetic must not truncate 0.5 to 0 silently.  Infinities mean "no bound" and
 * saturate. */
static cr_status check_params(const cr_program *p, const double *params, cr_dtype compute, const char *op) {
    for (int i = 0; i < p->n_param && !cr_dtype_is_float(compute); i++)
        if (isnan(params[i]) || (isfinite(params[i]) && params[i] != trunc(params[i])))
            return cr_fail(CR_BAD_TYPE, op, "parameter %g has no %s value: cast the tensor to a float dtype first",
                           params[i], cr_dtype_name(compute));
    return CR_OK;
}

cr_status cr_walk_fill(cr_walk *w, const cr_program *p, const double *params, cr_dtype compute, int n_out,
                       cr_tensor *const *out, int n_in, const cr_tensor *const *in, const char *op) {
    if (check_shapes(n_out, out, n_in, in, op) != CR_OK || check_params(p, params, compute, op) != CR_OK)
        return cr_error_status();
    const cr_tensor *y = out[0];
    w->program = p, w->params = params, w->compute = compute, w->n_out = n_out, w->n_in = n_in;
    w->ndim = y->ndim, w->numel = y->numel;
    memcpy(w->shape, y->shape, sizeof w->shape);
    for (int r = 0; r < n_out; r++) fill_arg(&w->out[r], out[r], y->ndim, y->shape);
    for (int k = 0; k < n_in; k++) fill_arg(&w->in[k], in[k], y->ndim, y->shape);
    if (w->numel > 1) coalesce(w);
    else one_axis(w);
    return CR_OK;
}
