/* plan.c - steps recorded once and replayed, beside the same steps op by op.
 *
 *     plan [--json]      least times of several rounds, in turn */
#include <chainrule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct step { const char *name; int64_t n; int inputs; cr_tensor *(*run)(cr_tensor *const *in); } step;

static cr_tensor *kept(cr_tensor *y) {
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

static cr_tensor *square_plus(cr_tensor *const *in) {
    cr_scope_begin();
    return kept(cr_add(cr_mul(in[0], in[0]), in[0]));
}

static cr_tensor *standardize(cr_tensor *const *in) {
    cr_scope_begin();
    cr_tensor *y = cr_div(cr_sub(in[0], in[1]), in[2]);
    return kept(cr_add(cr_mul(y, in[3]), in[4]));
}

static cr_tensor *gelu_gradient(cr_tensor *const *in) {
    cr_scope_begin();
    cr_tensor *x = cr_requires_grad_(cr_detach(in[0]), true), *grad = NULL;
    cr_tensor *loss = cr_sum(cr_gelu(x), CR_ALL, false);
    cr_gradients(1, (const cr_tensor *const *)&loss, NULL, 1, (const cr_tensor *const *)&x, &grad, NULL);
    return kept(grad);
}

/* the cross-entropy of each row, written out */
static cr_tensor *cross_entropy(cr_tensor *const *in) {
    cr_scope_begin();
    cr_tensor *x = cr_sub(in[0], cr_max(in[0], CR_LIST(-1), true));
    cr_tensor *log_sum = cr_log(cr_sum(cr_exp(x), CR_LIST(-1), true));
    return kept(cr_mean(cr_sub(log_sum, cr_gather(x, -1, in[1])), CR_ALL, false));
}

static cr_tensor *norm_residual_dropout(cr_tensor *const *in) {
    cr_scope_begin();
    cr_tensor *h = cr_add(in[0], cr_dropout(in[1], 0.1, true, cr_default_generator()));
    return kept(cr_layer_norm(h, in[2], in[3], 1e-5));
}

static void measure(const step *s, cr_tensor *const *in, bool json, bool *first) {
    double eager = 1e9, replayed = 1e9;
    cr_scope_begin();
    cr_release(s->run(in));
    cr_record_begin(s->inputs, (const cr_tensor *const *)in);
    cr_tensor *y = s->run(in);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    if (!p) { fprintf(stderr, "%s: %s\n", s->name, cr_error()); exit(1); }
    for (int round = 0; round < 40; round++) {
        double t = now();
        cr_release(s->run(in));
        eager = now() - t < eager ? now() - t : eager;
        t = now();
        cr_tensor *z;
        if (cr_plan_run(p, (const cr_tensor *const *)in, &z) != CR_OK) { fprintf(stderr, "%s\n", cr_error()); exit(1); }
        cr_release(z);
        replayed = now() - t < replayed ? now() - t : replayed;
    }
    if (json)
        printf("%s\n  {\"name\": \"%s\", \"n\": %lld, \"eager_ms\": %.4f, \"plan_ms\": %.4f}", *first ? "" : ",",
               s->name, (long long)s->n, 1e3 * eager, 1e3 * replayed);
    else printf("%-44s eager %8.3f ms, plan %8.3f ms, %.2f\n", s->name, 1e3 * eager, 1e3 * replayed, eager / replayed);
    *first = false;
    if (getenv("SHOW")) { char *text = cr_plan_text(p); printf("%s", text); free(text); }
    cr_plan_free(p);
    cr_scope_end();
}

int main(int argc, char **argv) {
    const bool json = argc > 1 && !strcmp(argv[1], "--json");
    const cr_device *cpu = cr_cpu();
    cr_generator *g = cr_generator_new(1);
    bool first = true;
    cr_scope_begin();
    const int64_t rows = 4096, wide = 1024;
    cr_tensor *x = cr_randn(CR_LIST(rows, wide), CR_F32, cpu, g), *y = cr_randn(CR_LIST(rows, wide), CR_F32, cpu, g);
    cr_tensor *m = cr_randn(CR_LIST(rows, 1), CR_F32, cpu, g), *s = cr_rand(CR_LIST(rows, 1), CR_F32, cpu, g);
    cr_tensor *w = cr_randn(CR_LIST(wide), CR_F32, cpu, g), *b = cr_randn(CR_LIST(wide), CR_F32, cpu, g);
    cr_tensor *target = cr_randint(0, wide, CR_LIST(rows, 1), CR_I64, cpu, g);
    const step steps[] = {
        {"a * a + a", rows * wide, 1, square_plus},
        {"(x - m) / s * w + b", rows * wide, 5, standardize},
        {"GELU, forward and backward", rows * wide, 1, gelu_gradient},
        {"cross-entropy written out", rows * wide, 2, cross_entropy},
        {"layer norm of residual + dropout", rows * wide, 4, norm_residual_dropout},
    };
    cr_tensor *const inputs[][5] = {{x}, {x, m, s, w, b}, {x}, {x, target}, {x, y, w, b}};
    if (json) printf("{\"rows\": [");
    for (int i = 0; i < 5; i++) measure(&steps[i], inputs[i], json, &first);
    if (json) printf("\n]}\n");
    cr_scope_end();
    cr_generator_free(g);
    return 0;
}
