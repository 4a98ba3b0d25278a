/* transform.c - gradients inside vmap and forward mode (ops/transform.c), and the transforms of functions of C.
 *
 * The graph is that of the values: an op on a batch is recorded as the op on the larger tensor.  A leaf inside vmap is
 * a batch too, so its gradient is that of each sample.  In forward mode the tangent of the gradient of y is the
 * gradient of y's tangent.  A cotangent may belong to transforms inside those of the graph (jacrev maps cotangents):
 * then the walk runs with wrappers, by differentiable ops. */
#include "graph.h"
#include "../ops/transform.h"

#include <stdlib.h>
#include <string.h>

static uint64_t level_of(const cr_tensor *t) { return cr_wrapped(t) ? t->wrapper->level : 0; }
static cr_tensor *same(const cr_tensor *t) { return (cr_tensor *)(uintptr_t)t; }

cr_tensor *cr_ungraph(const cr_tensor *x) {
    if (cr_missing("detach", "the tensor", x)) return NULL;
    if (!cr_wrapped(x)) return cr_detach(x);
    const cr_wrapper *w = x->wrapper;
    cr_scope_begin();
    cr_tensor *value = cr_ungraph(w->value), *t = w->tangent ? cr_ungraph(w->tangent) : NULL;
    cr_tensor *y = value && (t || !w->tangent) ? cr_keep(cr_wrap(w->level, value, t)) : NULL;
    cr_scope_end();
    return y;
}

/* ---- entering: the same tensor with a node of its own at the bottom */
static cr_tensor *with_leaf(const cr_tensor *x) {
    if (cr_wrapped(x)) {
        const cr_wrapper *w = x->wrapper;
        cr_tensor *value = with_leaf(w->value);
        return cr_wrap(w->level, value, w->tangent);
    }
    if (cr_grad_enabled() && cr_in_graph(x)) return cr_view(x, x->ndim, x->shape);
    cr_tensor *leaf = cr_detach(x);
    return leaf && cr_requires_grad_(leaf, true) ? leaf : NULL;
}

cr_tensor *cr_grad_enter(const cr_tensor *x) {
    if (cr_missing("grad", "the input", x)) return NULL;
    if (x == CR_NONE || !cr_dtype_is_float(x->dtype))
        return cr_fail(CR_BAD_TYPE, "grad", "only floats have a gradient: %s",
                       x == CR_NONE ? "CR_NONE" : cr_dtype_name(x->dtype)), NULL;
    cr_scope_begin();
    cr_tensor *full = cr_batched_fully(x), *y = full ? with_leaf(full) : NULL;
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

/* ---- the gradients of n_out results, whose cotangents are all there */
typedef struct problem {
    int n_out, n_in;
    const cr_tensor **out, **v;                     /* room for twice n_out of them */
    const cr_tensor *const *in;
    const cr_backward_options *o;
} problem;

/* No wrappers but in the cotangents.  A result in no graph adds nothing. */
static cr_status plain_gradients(const problem *p, cr_tensor **grads) {
    cr_backward_options o = *p->o;
    int n = 0;
    for (int k = 0; k < p->n_out; k++) {
        if (!cr_in_graph(p->out[k])) continue;
        o.create_graph |= cr_wrapped(p->v[k]);
        p->out[n] = p->out[k];
        p->v[n++] = p->v[k];
    }
    for (int i = 0; i < p->n_in; i++) grads[i] = same(CR_NONE);
    if (!n) return CR_OK;
    cr_status status = cr_gradients_between(n, p->out, p->v, p->n_in, p->in, 0, grads, &o);
    for (int i = 0; i < p->n_in && status == CR_OK && o.create_graph && !p->o->create_graph; i++) {
        cr_tensor *g = grads[i];
        if (g == CR_NONE) continue;
        grads[i] = cr_ungraph(g);
        cr_release(g);
        if (!grads[i]) status = cr_error_status();
    }
    return status;
}

static cr_status gradients(const problem *p, cr_tensor **grads);

static cr_status batched_gradients(const problem *p, uint64_t top, const cr_tensor **in, cr_tensor **grads) {
    int n = 0;
    for (int i = 0; i < p->n_in; i++) {
        if (level_of(p->in[i]) != top)
            return cr_fail(CR_RUNTIME, "gradients", "input %d %s was made outside of a vmap that the result is inside "
                           "of: use func.grad, which maps it", i, cr_shape_text(p->in[i]->ndim, p->in[i]->shape).s);
        in[i] = p->in[i]->wrapper->value;
    }
    for (int k = 0; k < p->n_out; k++) {
        if (level_of(p->out[k]) != top) continue;   /* the same for all samples: depends on none of the inputs */
        p->v[n] = cr_batch_at(p->v[k], top);
        p->out[n] = p->out[k]->wrapper->value;
        if (!p->v[n++]) return cr_error_status();
    }
    problem inner = *p;
    inner.n_out = n;
    inner.in = in;
    cr_status status = gradients(&inner, grads);
    for (int i = 0; i < p->n_in && status == CR_OK; i++)
        if (grads[i] != CR_NONE && !(grads[i] = cr_batch_again(grads[i], top))) status = cr_error_status();
    return status;
}

static cr_status dual_gradients(const problem *p, uint64_t top, const cr_tensor **in, cr_tensor **grads) {
    cr_backward_options keep = *p->o;
    cr_tensor **of_tangents = calloc((size_t)p->n_in, sizeof *of_tangents);
    const cr_tensor **lists = calloc(4 * (size_t)(p->n_out + 1) * 2, sizeof *lists);
    const int room = 2 * (p->n_out + 1);
    problem a = {.n_in = p->n_in, .in = in, .o = &keep}, b = a;
    cr_status status = of_tangents && lists ? CR_OK : cr_no_memory("gradients");
    keep.retain_graph = true;
    if (status == CR_OK) a.out = lists, a.v = lists + room, b.out = lists + 2 * room, b.v = lists + 3 * room;
    for (int i = 0; i < p->n_in; i++) in[i] = level_of(p->in[i]) == top ? p->in[i]->wrapper->value : p->in[i];
    for (int k = 0; k < p->n_out && status == CR_OK; k++) {
        const bool has = level_of(p->out[k]) == top;
        const cr_tensor *y = has ? p->out[k]->wrapper->value : p->out[k], *v = cr_part_at(p->v[k], top, false),
                        *tv = cr_part_at(p->v[k], top, true);
        if (!v || !tv) { status = cr_error_status(); break; }
        a.out[a.n_out] = y, a.v[a.n_out++] = v;
        if (has) b.out[b.n_out] = p->out[k]->wrapper->tangent, b.v[b.n_out++] = v;
        if (tv != CR_NONE) b.out[b.n_out] = y, b.v[b.n_out++] = tv;
    }
    if (status == CR_OK) status = gradients(&a, grads);
    if (status == CR_OK) status = gradients(&b, of_tangents);
    for (int i = 0; i < p->n_in && status == CR_OK; i++) {
        cr_tensor *t = of_tangents[i];
        if (t == CR_NONE) continue;
        if (grads[i] == CR_NONE) grads[i] = cr_zeros_like(t);
        if (!(grads[i] = cr_dual_again(grads[i], t, top))) status = cr_error_status();
    }
    free(of_tangents);
    free(lists);
    return status;
}

static cr_status gradients(const problem *p, cr_tensor **grads) {
    uint64_t top = 0;
    for (int k = 0; k < p->n_out; k++) if (level_of(p->out[k]) > top) top = level_of(p->out[k]);
    for (int i = 0; i < p->n_in; i++) if (level_of(p->in[i]) > top) top = level_of(p->in[i]);
    if (!top) return plain_gradients(p, grads);
    const cr_tensor **in = malloc(sizeof *in * (size_t)p->n_in);
    if (!in) return cr_no_memory("gradients");
    const cr_status status = (cr_level_is_batch(top) ? batched_gradients : dual_gradients)(p, top, in, grads);
    free(in);
    return status;
}

/* The cotangent of y, as a tensor. */
static const cr_tensor *cotangent_of(const cr_tensor *y, const cr_tensor *v, int k) {
    static const char op[] = "gradients";
    if (cr_missing(op, "a result", y) || (v && cr_missing(op, "a cotangent", v))) return NULL;
    if (!v || v == CR_NONE) {
        if (y->numel == 1) return cr_ones_like(y);
        return cr_fail(CR_RUNTIME, op, "a result of shape %s needs `grad_outputs`: only one element has a default",
                       cr_shape_text(y->ndim, y->shape).s), NULL;
    }
    if (!cr_shape_equal(v->ndim, v->shape, y->ndim, y->shape) || v->dev != y->dev)
        return cr_fail(CR_BAD_VALUE, op, "`grad_outputs` %d is %s on %s, the result %s on %s", k,
                       cr_shape_text(v->ndim, v->shape).s, v->dev->name, cr_shape_text(y->ndim, y->shape).s,
                       y->dev->name), NULL;
    return v->dtype == y->dtype ? v : cr_to(v, y->dtype, y->dev);
}

static cr_status solve(int n_out, const cr_tensor *const *out, const cr_tensor *const *v, int n_in,
                       const cr_tensor *const *in, cr_tensor **grads, const cr_backward_options *o) {
    const size_t room = 2 * (size_t)(n_out + 1);
    const cr_tensor **lists = malloc(sizeof *lists * 2 * room);
    if (!lists) return cr_no_memory("gradients");
    const bool mode = cr_set_grad_enabled(o->create_graph);
    problem p = {.n_out = n_out, .n_in = n_in, .out = lists, .v = lists + room, .in = in, .o = o};
    cr_status status = CR_OK;
    cr_scope_begin();
    for (int i = 0; i < n_in; i++) grads[i] = NULL;
    for (int i = 0; i < n_in && status == CR_OK; i++)
        if (cr_missing("gradients", "an input", in[i])) status = cr_error_status();
    for (int k = 0; k < n_out && status == CR_OK; k++) {
        p.out[k] = out[k];
        if (!(p.v[k] = cotangent_of(out[k], v ? v[k] : NULL, k))) status = cr_error_status();
    }
    if (status == CR_OK) status = gradients(&p, grads);
    for (int i = 0; i < n_in && status == CR_OK; i++)
        if (grads[i] != CR_NONE && !(grads[i] = cr_new_handle(grads[i]))) status = cr_error_status();
    for (int i = 0; i < n_in; i++) {
        if (status != CR_OK) grads[i] = NULL;
        else if (grads[i] != CR_NONE) cr_keep(grads[i]);
    }
    cr_scope_end();
    cr_set_grad_enabled(mode);
    free(lists);
    return status;
}

cr_status cr_gradients(int n_out, const cr_tensor *const *out, const cr_tensor *const *grad_outputs, int n_in,
                       const cr_tensor *const *in, cr_tensor **grads, const cr_backward_options *o) {
    bool wrapped = false;
    for (int k = 0; out && k < n_out; k++)
        wrapped |= (out[k] && cr_wrapped(out[k])) || (grad_outputs && grad_outputs[k] && cr_wrapped(grad_outputs[k]));
    for (int i = 0; in && i < n_in; i++) wrapped |= in[i] && cr_wrapped(in[i]);
    if (!wrapped || !in || !grads || n_in < 1)
        return cr_gradients_between(n_out, out, grad_outputs, n_in, in, 0, grads, o);
    const cr_backward_options none = {0};
    return solve(n_out, out, grad_outputs, n_in, in, grads, o ? o : &none);
}

/* ---- leaving */

/* The nodes at the bottom of t, of its value and of its tangents. */
static int bottom_nodes(const cr_tensor *t, cr_node **nodes, int n) {
    if (!cr_wrapped(t)) {
        if (cr_in_graph(t)) nodes[n++] = t->node;
        return n;
    }
    n = bottom_nodes(t->wrapper->value, nodes, n);
    return t->wrapper->tangent ? bottom_nodes(t->wrapper->tangent, nodes, n) : n;
}
static int parts_of(const cr_tensor *t) {
    if (!cr_wrapped(t)) return 1;
    return parts_of(t->wrapper->value) + (t->wrapper->tangent ? parts_of(t->wrapper->tangent) : 0);
}

static cr_status check_lists(int n_out, const cr_tensor *const *out, int n_in, const cr_tensor *const *in) {
    if (!out || !in) return cr_fail_null("grad", "an array");
    for (int k = 0; k < n_out; k++) if (cr_missing("grad", "a result", out[k])) return cr_error_status();
    for (int i = 0; i < n_in; i++) if (cr_missing("grad", "an input", in[i])) return cr_error_status();
    return CR_OK;
}

cr_status cr_grad_nested(int n_out, const cr_tensor *const *out, int n_in, const cr_tensor *const *in, bool *nested) {
    int room = n_in, n_roots = 0, n_leaves = 0;
    cr_status status = check_lists(n_out, out, n_in, in);
    if (status != CR_OK) return status;
    for (int k = 0; k < n_out; k++) room += parts_of(out[k]);
    cr_node **roots = malloc(sizeof *roots * (size_t)room), **stops = roots + (room - n_in);
    cr_tensor **leaves = NULL;
    bool whole;
    *nested = false;
    if (!roots) return cr_no_memory("grad");
    for (int k = 0; k < n_out; k++) n_roots = bottom_nodes(out[k], roots, n_roots);
    for (int i = 0; i < n_in; i++) {
        stops[i] = cr_bottom(in[i])->node;
        *nested |= stops[i] && stops[i]->op;
    }
    if (!*nested && n_roots) status = cr_graph_leaves(n_roots, roots, n_in, stops, &n_leaves, &leaves, &whole);
    *nested |= n_leaves > 0;
    for (int i = 0; i < n_leaves; i++) cr_drop(leaves[i]);
    free(leaves);
    free(roots);
    return status;
}

cr_status cr_grad_leave(int n_out, const cr_tensor *const *out, const cr_tensor *const *cotangents, int n_in,
                        const cr_tensor *const *in, cr_tensor **grads, const cr_backward_options *o) {
    const cr_status status = check_lists(n_out, out, n_in, in);
    const cr_backward_options none = {0};
    return status == CR_OK ? solve(n_out, out, cotangents, n_in, in, grads, o ? o : &none) : status;
}

/* ---- functions of C */
cr_tensor *cr_vmap(cr_function f, void *ctx, int n, const cr_tensor *const *in, const int *axes, int out_axis,
                   cr_randomness random) {
    static const char op[] = "vmap";
    const cr_tensor *few[CR_FEW_INPUTS];
    int64_t size = -1;
    if (!f || !in || !axes) return cr_fail_null(op, "the function or an array"), NULL;
    if (n < 1 || n > CR_FEW_INPUTS)
        return cr_fail(CR_BAD_VALUE, op, "%d inputs: 1 to %d are possible", n, CR_FEW_INPUTS), NULL;
    for (int i = 0; i < n; i++) {
        if (cr_missing(op, "an input", in[i])) return NULL;
        if (axes[i] == CR_UNMAPPED || size >= 0) continue;
        if ((size = cr_size(in[i], axes[i])) < 0) return NULL;
    }
    if (size < 0) return cr_fail(CR_BAD_VALUE, op, "no input is mapped"), NULL;
    const uint64_t level = cr_vmap_begin(size, random);
    if (!level) return NULL;
    cr_scope_begin();
    bool ready = true;
    for (int i = 0; i < n && ready; i++)
        ready = (few[i] = axes[i] == CR_UNMAPPED ? in[i] : cr_vmap_enter(in[i], axes[i], level)) != NULL;
    cr_tensor *y = ready ? cr_adopt(f(n, few, ctx)) : NULL;
    y = y ? cr_vmap_leave(y, out_axis, level) : NULL;
    if (y) cr_keep(y);
    cr_scope_end();
    cr_transform_end(level);
    return y;
}

cr_tensor *cr_jvp(cr_function f, void *ctx, int n, const cr_tensor *const *in, const cr_tensor *const *tangents,
                  cr_tensor **tangent) {
    static const char op[] = "jvp";
    const cr_tensor *few[CR_FEW_INPUTS];
    if (tangent) *tangent = NULL;
    if (!f || !in || !tangents) return cr_fail_null(op, "the function or an array"), NULL;
    if (n < 1 || n > CR_FEW_INPUTS)
        return cr_fail(CR_BAD_VALUE, op, "%d inputs: 1 to %d are possible", n, CR_FEW_INPUTS), NULL;
    const uint64_t level = cr_jvp_begin();
    if (!level) return NULL;
    cr_scope_begin();
    bool ready = true;
    for (int i = 0; i < n && ready; i++)
        ready = (few[i] = tangents[i] == CR_NONE ? in[i] : cr_jvp_enter(in[i], tangents[i], level)) != NULL;
    cr_tensor *y = ready ? cr_adopt(f(n, few, ctx)) : NULL, *t = NULL;
    y = y ? cr_jvp_leave(y, level, &t) : NULL;
    if (y) cr_keep(y);
    if (y && tangent) *tangent = cr_keep(t);
    cr_scope_end();
    cr_transform_end(level);
    return y;
}
