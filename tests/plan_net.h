/* plan_net.h - a small network, trained by the step itself or by its plan. */
#ifndef CR_PLAN_NET_H
#define CR_PLAN_NET_H

#include "test.h"

static const cr_device *dev_now;

typedef struct net {
    cr_params *params;
    cr_optim *opt;
    cr_generator *g;
    cr_tensor *w1, *b1, *w2, *b2;
} net;

static net net_new(const cr_device *dev, cr_optim_kind kind) {
    net n = {.params = cr_params_new(), .g = cr_generator_new(7)};
    cr_scope_begin();
    n.w1 = cr_requires_grad_(cr_randn(CR_LIST(64, 24), CR_F32, dev, n.g), true);
    n.b1 = cr_requires_grad_(cr_zeros(CR_LIST(64), CR_F32, dev), true);
    n.w2 = cr_requires_grad_(cr_randn(CR_LIST(5, 64), CR_F32, dev, n.g), true);
    n.b2 = cr_requires_grad_(cr_zeros(CR_LIST(5), CR_F32, dev), true);
    OK(cr_params_add(n.params, "w1", n.w1));
    OK(cr_params_add(n.params, "b1", n.b1));
    OK(cr_params_add(n.params, "w2", n.w2));
    OK(cr_params_add(n.params, "b2", n.b2));
    cr_scope_end();
    cr_optim_options o = cr_optim_defaults(kind);
    o.lr = 1e-2;
    n.opt = cr_optim_new(n.params, &o);
    return n;
}

static void net_free(net *n) {
    cr_optim_free(n->opt);
    cr_params_free(n->params);
    cr_generator_free(n->g);
}

/* The loss of one step: dropout, a GELU layer, cross-entropy, an update. */
static cr_tensor *net_step(net *n, const cr_tensor *x, const cr_tensor *target) {
    cr_scope_begin();
    cr_params_zero_grad(n->params);
    cr_tensor *h = cr_gelu(cr_linear(cr_dropout(x, 0.2, true, n->g), n->w1, n->b1));
    cr_tensor *loss = cr_cross_entropy(cr_linear(h, n->w2, n->b2), target, NULL);
    OK(cr_backward(loss, CR_NONE, NULL));
    OK(cr_optim_step(n->opt));
    cr_tensor *kept = cr_detach(loss);
    if (kept) cr_keep(kept);
    cr_scope_end();
    return kept;
}

static cr_tensor *batch(const cr_device *dev, int seed) {
    cr_generator *g = cr_generator_new((uint64_t)seed);
    cr_tensor *x = cr_randn(CR_LIST(40, 24), CR_F32, dev, g);
    cr_generator_free(g);
    return x;
}

static cr_tensor *targets(const cr_device *dev, int seed) {
    cr_generator *g = cr_generator_new((uint64_t)seed + 1000);
    cr_tensor *x = cr_randint(0, 5, CR_LIST(40), CR_I64, dev, g);
    cr_generator_free(g);
    return x;
}

static bool same_bits(const cr_tensor *a, const cr_tensor *b) {
    const size_t bytes = cr_dtype_size(cr_dtype_of(a)) * (size_t)cr_numel(a);
    if (cr_dtype_of(a) != cr_dtype_of(b) || cr_numel(a) != cr_numel(b)) return false;
    void *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    OK(cr_read(a, cr_dtype_of(a), x, bytes));
    OK(cr_read(b, cr_dtype_of(b), y, bytes));
    const bool same = !memcmp(x, y, bytes);
    free(x), free(y);
    return same;
}

static void same_nets(const net *a, const net *b, const char *when) {
    for (int64_t i = 0; i < cr_params_count(a->params); i++)
        CHECK(same_bits(cr_params_at(a->params, i), cr_params_at(b->params, i)), "%s, %s: %s differs",
              cr_device_name(dev_now), when, cr_params_name(a->params, i));
}

/* Elementwise kernels that follow each other, with their gradients: products and sums within a kernel and across two,
 * and values of half precision between them. */
static inline cr_tensor *chained(const cr_tensor *const *in, cr_dtype dt) {
    const cr_device *dev = cr_device_of(in[0]);
    cr_program *minus = cr_program_new("minus", "a b c", "", "a * b - c"),
               *from = cr_program_new("from", "a b c", "", "c - a * b");
    cr_scope_begin();
    cr_tensor *x = cr_requires_grad_(cr_detach(in[0]), true), *h = cr_to(x, dt, dev), *dx = NULL;
    cr_tensor *y = cr_lerp(cr_gelu(h), cr_to(in[1], dt, dev), cr_square(h));
    cr_tensor *z = cr_where(cr_gt(y, cr_scalar(0.1)), cr_mul_scalar(cr_silu(y), 3), cr_addcmul(h, h, y, 0.7));
    z = cr_program_apply(minus, 3, (const cr_tensor *[]){z, y, h}, NULL);
    z = cr_program_apply(from, 3, (const cr_tensor *[]){y, z, h}, NULL);
    cr_tensor *sum = cr_add(cr_to(z, CR_F32, dev), cr_to(cr_relu(y), CR_F32, dev));
    OK(cr_gradients(1, (const cr_tensor *const *)&sum, in, 1, (const cr_tensor *const *)&x, &dx, NULL));
    cr_tensor *kept = cr_keep(cr_cat(2, (const cr_tensor *[]){cr_detach(sum), dx}, 0));
    cr_program_free(minus), cr_program_free(from);
    cr_scope_end();
    return kept;
}

#endif
