/* gradcheck.c - gradients against central differences, in f64, for a random cotangent: L(x) =
 * sum(f(x) * c).  A random cotangent matters: the gradient of sum(softmax(x)) is zero whatever
 * softmax does. */
#include "graph.h"

#include <math.h>
#include <stdlib.h>

cr_gradcheck_options cr_gradcheck_defaults(void) {
    return (cr_gradcheck_options){.eps = 1e-6, .atol = 1e-5, .rtol = 1e-3, .seed = 1};
}

typedef struct check {
    cr_function f;
    void *ctx;
    int n;
    const cr_tensor *const *in;
    const char *name;
    cr_gradcheck_options o;
    const cr_tensor *c;
} check;

static cr_status verify_inputs(const char *name, cr_function f, int n, const cr_tensor *const *in) {
    bool any = false;
    if (!f || !in) return cr_fail_null(name, "the function or its inputs");
    for (int i = 0; i < n; i++) {
        if (cr_missing(name, "an input", in[i])) return cr_error_status();
        if (!cr_in_graph(in[i])) continue;
        any = true;
        if (in[i]->dtype != CR_F64)
            return cr_fail(CR_BAD_TYPE, name, "input %d is %s: central differences need float64", i,
                           cr_dtype_name(in[i]->dtype));
        if (!cr_is_leaf(in[i])) return cr_fail(CR_BAD_VALUE, name, "input %d is not a leaf", i);
    }
    return any ? CR_OK : cr_fail(CR_BAD_VALUE, name, "no input requires a gradient");
}

static double loss(const check *k) {                /* NaN and a message on failure */
    cr_scope_begin();
    cr_tensor *y = cr_adopt(k->f(k->n, k->in, k->ctx));
    double v = cr_item(cr_sum(cr_mul(y, k->c), CR_ALL, false));
    cr_scope_end();
    return v;
}

static cr_status compare_element(const check *k, int i, double *x, int64_t at, double analytic) {
    cr_tensor *t = (cr_tensor *)(uintptr_t)k->in[i];
    size_t bytes = (size_t)t->numel * sizeof *x;
    double before = x[at], at_plus, at_minus;
    x[at] = before + k->o.eps;
    double width = x[at];
    if (cr_write(t, CR_F64, x, bytes) != CR_OK) return cr_error_status();
    at_plus = loss(k);
    x[at] = before - k->o.eps;
    width -= x[at];                                 /* the step after rounding */
    if (cr_write(t, CR_F64, x, bytes) != CR_OK) return cr_error_status();
    at_minus = loss(k);
    x[at] = before;
    if (cr_write(t, CR_F64, x, bytes) != CR_OK || cr_error()) return cr_error_status();
    double numeric = (at_plus - at_minus) / width, error = fabs(analytic - numeric);
    if (error <= k->o.atol + k->o.rtol * fabs(numeric)) return CR_OK;     /* NaN fails */
    return cr_fail(
        CR_RUNTIME, k->name,
        "input %d %s, position %lld: gradient %.9g, central difference %.9g (error %.3g, allowed %.3g, seed %llu)", i,
        cr_shape_text(t->ndim, t->shape).s, (long long)at, analytic, numeric, error,
        k->o.atol + k->o.rtol * fabs(numeric), (unsigned long long)k->o.seed);
}

static cr_status compare_input(const check *k, int i, const cr_tensor *gradient) {
    size_t n = (size_t)k->in[i]->numel;
    double *x = malloc(2 * n * sizeof *x + 1), *g = x + n;
    if (!x) return cr_no_memory(k->name);
    cr_status status = cr_read(k->in[i], CR_F64, x, n * sizeof *x);
    for (size_t j = 0; j < n; j++) g[j] = 0;
    if (status == CR_OK && gradient != CR_NONE) status = cr_read(gradient, CR_F64, g, n * sizeof *g);
    bool mode = cr_set_grad_enabled(false);
    for (size_t j = 0; j < n && status == CR_OK; j++) {
        status = compare_element(k, i, x, (int64_t)j, g[j]);
        if (status == CR_OK) status = cr_check_interrupt(k->name);
    }
    cr_set_grad_enabled(mode);
    free(x);
    return status;
}

/* Analytic gradients of L for every input that requires one. */
static cr_status analytic(check *k, cr_tensor **grads, int *which) {
    const cr_tensor *wanted[CR_MAX_INPUTS + CR_MAX_DIMS];
    int m = 0, room = (int)(sizeof wanted / sizeof *wanted);
    for (int i = 0; i < k->n; i++) {
        if (!cr_in_graph(k->in[i])) continue;
        if (m == room) return cr_fail(CR_BAD_VALUE, k->name, "more than %d inputs require a gradient", room);
        which[m] = i;
        wanted[m++] = k->in[i];
    }
    bool mode = cr_set_grad_enabled(true);
    cr_tensor *y = cr_adopt(k->f(k->n, k->in, k->ctx));
    cr_set_grad_enabled(mode);
    if (!y) return cr_error_status();
    if (y->dtype != CR_F64)
        return cr_fail(CR_BAD_TYPE, k->name, "the function returned %s: float64 is needed", cr_dtype_name(y->dtype));
    cr_generator *r = cr_generator_new(k->o.seed);
    cr_tensor *c = r ? cr_randn(y->ndim, y->shape, CR_F64, y->dev, r) : NULL;
    cr_generator_free(r);
    if (!c) return cr_error_status();
    k->c = c;
    if (!cr_in_graph(y)) {                          /* constant according to the graph: every gradient is 0 */
        for (int j = 0; j < m; j++) grads[j] = (cr_tensor *)(uintptr_t)CR_NONE;
        return CR_OK;
    }
    const cr_tensor *out = y, *cotangent = c;
    return cr_gradients(1, &out, &cotangent, m, wanted, grads, NULL);
}

static cr_status compare_gradients(check *k) {
    cr_tensor *grads[CR_MAX_INPUTS + CR_MAX_DIMS];
    int which[CR_MAX_INPUTS + CR_MAX_DIMS], m = 0;
    for (int i = 0; i < k->n; i++) m += cr_in_graph(k->in[i]);
    cr_scope_begin();
    cr_status status = analytic(k, grads, which);
    for (int j = 0; j < m && status == CR_OK; j++) status = compare_input(k, which[j], grads[j]);
    cr_scope_end();
    return status;
}

cr_status cr_gradcheck(cr_function f, void *ctx, int n, const cr_tensor *const *in, const cr_gradcheck_options *o) {
    cr_status status = verify_inputs("gradcheck", f, n, in);
    if (status != CR_OK) return status;
    check k = {.f = f, .ctx = ctx, .n = n, .in = in, .name = "gradcheck", .o = o ? *o : cr_gradcheck_defaults()};
    return compare_gradients(&k);
}

/* ---- second order: h_k(x, v) = d <f(x), v> / d x_k is a function like any other; its gradients
 * are checked */
typedef struct second { cr_function f; void *ctx; int n, k; } second;

static cr_tensor *gradient_of_input(int n, const cr_tensor *const *in, void *ctx) {
    second *s = ctx;
    cr_backward_options o = {.create_graph = true};
    cr_tensor *g = NULL;
    bool mode = cr_set_grad_enabled(true);
    cr_scope_begin();
    const cr_tensor *y = cr_adopt(s->f(s->n, in, s->ctx)), *v = in[n - 1], *x = in[s->k];
    if (y && cr_in_graph(y)) cr_gradients(1, &y, &v, 1, &x, &g, &o);
    if (y && (!g || g == CR_NONE) && !cr_error()) g = cr_zeros_like(x);
    if (g) cr_keep(g);
    cr_scope_end();
    cr_set_grad_enabled(mode);
    return g;
}

cr_status cr_gradgradcheck(cr_function f, void *ctx, int n, const cr_tensor *const *in, const cr_gradcheck_options *o) {
    enum { ROOM = CR_MAX_INPUTS + CR_MAX_DIMS };
    cr_gradcheck_options options = o ? *o : cr_gradcheck_defaults();
    cr_status status = verify_inputs("gradgradcheck", f, n, in);
    if (status == CR_OK && n >= ROOM)
        status = cr_fail(CR_BAD_VALUE, "gradgradcheck", "%d inputs, at most %d", n, ROOM - 1);
    if (status != CR_OK) return status;
    cr_scope_begin();
    const cr_tensor *all[ROOM];
    cr_tensor *y = cr_adopt(f(n, in, ctx)), *v = NULL;
    cr_generator *r = cr_generator_new(options.seed + 1);
    if (y && r) v = cr_requires_grad_(cr_randn(y->ndim, y->shape, CR_F64, y->dev, r), true);
    cr_generator_free(r);
    for (int i = 0; i < n; i++) all[i] = in[i];
    all[n] = v;
    if (!v) status = cr_error_status();
    for (int i = 0; i < n && status == CR_OK; i++) {
        if (!cr_in_graph(in[i])) continue;
        second s = {.f = f, .ctx = ctx, .n = n, .k = i};
        check k = {.f = gradient_of_input, .ctx = &s, .n = n + 1, .in = all, .name = "gradgradcheck", .o = options};
        status = compare_gradients(&k);
    }
    cr_scope_end();
    return status;
}
