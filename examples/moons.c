/* moons.c - a network of two hidden layers learns to tell two interleaved half-moons apart. */
#include <chainrule.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 200, HIDDEN = 16, STEPS = 200 };

/* Two half circles with a little noise: xy (POINTS, 2), label (POINTS). */
static void moons(float *xy, int64_t *label) {
    for (int i = 0; i < POINTS; i++) {
        const double t = 3.14159265 * (i / 2) / (POINTS / 2 - 1), noise = 0.1 * sin(12.9898 * i) * cos(78.233 * i);
        label[i] = i % 2;
        xy[2 * i] = (float)(label[i] ? 1 - cos(t) : cos(t) + noise);
        xy[2 * i + 1] = (float)(label[i] ? 0.5 - sin(t) + noise : sin(t));
    }
}

static void layer(cr_params *p, const char *weight, const char *bias, int64_t in, int64_t out) {
    cr_scope_begin();
    cr_tensor *w = cr_empty(CR_LIST(out, in), CR_F32, cr_cpu()), *b = cr_zeros(CR_LIST(out), CR_F32, cr_cpu());
    cr_init_kaiming_uniform(w, 0, cr_default_generator());
    cr_params_add(p, weight, cr_requires_grad_(w, true));
    cr_params_add(p, bias, cr_requires_grad_(b, true));
    cr_scope_end();
}

int main(void) {
    float xy[2 * POINTS];
    int64_t label[POINTS];
    moons(xy, label);
    cr_manual_seed(1);
    cr_params *p = cr_params_new();
    layer(p, "w1", "b1", 2, HIDDEN);
    layer(p, "w2", "b2", HIDDEN, HIDDEN);
    layer(p, "w3", "b3", HIDDEN, 2);
    cr_optim_options o = cr_optim_defaults(CR_ADAM);
    o.lr = 0.02;
    cr_optim *opt = cr_optim_new(p, &o);
    double loss = NAN, right = NAN;
    for (int step = 0; opt && step < STEPS; step++) {
        cr_scope_begin();
        cr_tensor *x = cr_from(xy, CR_LIST(POINTS, 2), CR_F32, cr_cpu()),
                  *y = cr_from(label, CR_LIST(POINTS), CR_I64, cr_cpu());
        for (int64_t l = 0; l < 6; l += 2) {
            x = cr_linear(x, cr_params_at(p, l), cr_params_at(p, l + 1));
            if (l < 4) x = cr_relu(x);
        }
        cr_tensor *l = cr_cross_entropy(x, y, NULL);
        cr_backward(l, CR_NONE, NULL);
        cr_optim_step(opt);
        cr_params_zero_grad(p);
        loss = cr_item(l);
        right = cr_item(cr_sum(cr_eq(cr_argmax(x, 1, false), y), CR_ALL, false)) / POINTS;
        cr_scope_end();
        if (step % 40 == 39) printf("step %3d  loss %.4f  right %.1f %%\n", step + 1, loss, 100 * right);
    }
    if (cr_error()) fprintf(stderr, "%s\n", cr_error());
    cr_optim_free(opt);
    cr_params_free(p);
    return cr_error() || !(right > 0.98);
}
