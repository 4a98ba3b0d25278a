/* plan_net.h - a small network, trained by the step itself or by its plan. */
#ifndef CR_PLAN_NET_H
#define CR_PLAN_NET_H

#include "plan_chain.h"

static const cr_device *dev_now;
static cr_dtype dtype_now = CR_F32;                 /* half precision: with f32 masters */

typedef struct net {
    cr_params *params;
    cr_optim *opt;
    cr_generator *g;
    cr_tensor *w1, *b1, *w2, *b2;
} net;

static net net_new(const cr_device *dev, cr_optim_kind kind) {
    net n = {.params = cr_params_new(), .g = cr_generator_new(7)};
    cr_scope_begin();
    n.w1 = cr_requires_grad_(cr_randn(CR_LIST(64, 24), dtype_now, dev, n.g), true);
    n.b1 = cr_requires_grad_(cr_zeros(CR_LIST(64), dtype_now, dev), true);
    n.w2 = cr_requires_grad_(cr_randn(CR_LIST(5, 64), dtype_now, dev, n.g), true);
    n.b2 = cr_requires_grad_(cr_zeros(CR_LIST(5), dtype_now, dev), true);
    OK(cr_params_add(n.params, "w1", n.w1));
    OK(cr_params_add(n.params, "b1", n.b1));
    OK(cr_params_add(n.params, "w2", n.w2));
    OK(cr_params_add(n.params, "b2", n.b2));
    cr_scope_end();
    cr_optim_options o = cr_optim_defaults(kind);
    o.lr = 1e-2;
    o.master_weights = true;
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
    cr_tensor *x = cr_randn(CR_LIST(40, 24), dtype_now, dev, g);
    cr_generator_free(g);
    return x;
}

static cr_tensor *targets(const cr_device *dev, int seed) {
    cr_generator *g = cr_generator_new((uint64_t)seed + 1000);
    cr_tensor *x = cr_randint(0, 5, CR_LIST(40), CR_I64, dev, g);
    cr_generator_free(g);
    return x;
}

static void same_nets(const net *a, const net *b, const char *when) {
    for (int64_t i = 0; i < cr_params_count(a->params); i++)
        CHECK(same_bits(cr_params_at(a->params, i), cr_params_at(b->params, i)), "%s, %s: %s differs",
              cr_device_name(dev_now), when, cr_params_name(a->params, i));
}

#endif
