/* test_plan.c - recorded steps: a replay has the bits of the step itself, whatever passes changed it. */
#include "test.h"

#include "core/tensor.h"
#include "plan_net.h"
#include "core/os.h"
#include "folder.h"

static void trains_alike(const cr_device *dev, cr_optim_kind kind, const char *passes) {
    dev_now = dev;
    OK(cr_switch_set("PLAN", passes));
    cr_scope_begin();
    net a = net_new(dev, kind), b = net_new(dev, kind);
    cr_plan *plan = NULL;
    for (int step = 0; step < 6; step++) {
        cr_scope_begin();
        if (step == 4) OK(cr_optim_set_lr(a.opt, 3e-3));
        if (step == 4) OK(cr_optim_set_lr(b.opt, 3e-3));
        const cr_tensor *in[] = {batch(dev, step), targets(dev, step)};
        cr_tensor *loss = net_step(&a, in[0], in[1]), *other = NULL;
        if (step == 1) OK(cr_record_begin(2, in));
        if (step <= 1) other = net_step(&b, in[0], in[1]);
        if (step == 1) plan = cr_record_end(1, (const cr_tensor *const *)&other);
        if (step == 1) CHECK(plan, "%s: %s", cr_device_name(dev), cr_error());
        if (step > 1) OK(cr_plan_run(plan, in, &other));
        CHECK(other && same_bits(loss, other), "%s, passes left out: %s: the loss of step %d differs",
              cr_device_name(dev), passes ? passes : "none", step);
        same_nets(&a, &b, "after a step");
        CHECK(cr_optim_steps(a.opt) == cr_optim_steps(b.opt), "%lld steps", (long long)cr_optim_steps(b.opt));
        cr_scope_end();
        test_ran_on(dev);
    }
    if (getenv("SHOW")) { char *text = cr_plan_text(plan); printf("%s", text); free(text); }
    cr_plan_free(plan);
    net_free(&a);
    net_free(&b);
    cr_scope_end();
    OK(cr_switch_set("PLAN", NULL));
}

TEST(training) {
    const char *const passes[] = {NULL, "none", "cse", "fold", "fuse_update", "remat", "fuse", "tile", "dce",
                                  "arena"};
    for (int i = 0; i < 10; i++) {
        trains_alike(cr_cpu(), CR_ADAMW, passes[i]);
        trains_alike(cr_ref(), CR_ADAMW, passes[i]);
    }
    trains_alike(cr_cpu(), CR_SGD, NULL);
    for (int i = 0; i < 2; i++) trains_alike(cr_cpu(), CR_MUON, passes[i]);
    dtype_now = CR_BF16;
    for (int i = 0; i < 10; i++) trains_alike(cr_cpu(), CR_ADAMW, passes[i]);
    trains_alike(cr_cpu(), CR_MUON, NULL);
    dtype_now = CR_F32;
}

/* A run that fails counts no step.  It fails before it changes anything where parameters that stepped together when
 * the step was recorded have taken other numbers of steps since, or the optimizer has other moments. */
TEST(steps_of_replays) {
    dev_now = cr_cpu();
    cr_scope_begin();
    net a = net_new(dev_now, CR_ADAMW), b = net_new(dev_now, CR_ADAMW);
    const cr_tensor *in[] = {batch(dev_now, 1), targets(dev_now, 1)},
                    *bad[] = {in[0], cr_full(CR_LIST(40), 5, CR_I64, dev_now)};
    cr_tensor *loss = NULL;
    for (int step = 0; step < 4; step++) (void)net_step(&a, in[0], in[1]);
    (void)net_step(&b, in[0], in[1]);
    OK(cr_record_begin(2, in));
    loss = net_step(&b, in[0], in[1]);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&loss);
    REQUIRE(p, "%s", cr_error());
    uint64_t seed, counter;
    cr_generator_get(b.g, &seed, &counter);
    FAILS(CR_BAD_INDEX, "out of range for size 5", cr_plan_run(p, bad, &loss));
    CHECK(cr_optim_steps(b.opt) == 2, "%lld steps", (long long)cr_optim_steps(b.opt));
    cr_generator_set(b.g, seed, counter);
    for (int run = 0; run < 2; run++) OK(cr_plan_run(p, in, &loss));
    same_nets(&a, &b, "after a run that failed");
    cr_params_zero_grad(b.params);
    OK(cr_set_grad(b.w2, cr_ones_like(b.w2)));
    OK(cr_optim_step(b.opt));
    const cr_tensor *before = cr_clone(cr_detach(b.w1));
    FAILS(CR_RUNTIME, "'w1' and 'w2' stepped together in the recording, but have taken 4 and 5 steps by now",
          cr_plan_run(p, in, &loss));
    CHECK(same_bits(b.w1, before) && cr_optim_steps(b.opt) == 5, "%lld steps", (long long)cr_optim_steps(b.opt));
    cr_params *state = cr_optim_state(a.opt);
    OK(cr_optim_load(b.opt, state, 4));
    FAILS(CR_RUNTIME, "a state was loaded or a mirror changed", cr_plan_run(p, in, &loss));
    CHECK(same_bits(b.w1, before) && cr_optim_steps(b.opt) == 4, "%lld steps", (long long)cr_optim_steps(b.opt));
    cr_params_free(state);
    cr_plan_free(p);
    OK(cr_record_begin(2, in));
    loss = net_step(&b, in[0], in[1]);
    REQUIRE(p = cr_record_end(1, (const cr_tensor *const *)&loss), "%s", cr_error());
    OK(cr_plan_run(p, in, &loss));
    OK(cr_optim_mirror(b.opt, b.w1, cr_to(cr_detach(b.w1), CR_BF16, dev_now)));
    FAILS(CR_RUNTIME, "a state was loaded or a mirror changed", cr_plan_run(p, in, &loss));
    cr_plan_free(p);
    net_free(&a);
    net_free(&b);
    cr_scope_end();
    test_ran_on(dev_now);
}

/* ---- what a plan says it computes: a linear layer, products of matrices, a convolution, causal attention, with their
 * gradients */
TEST(flops) {
    const double B = 2, H = 3, T = 5, D = 16, linear = 2 * 4 * 6 * 7, conv = 2.0 * (1 * 5 * 6 * 6) * (4 * 3 * 3),
                 attention = B * H * D * (T * (T + 1) / 2);
    cr_scope_begin();
    cr_generator *g = cr_generator_new(1);
    cr_tensor *in[] = {cr_randn(CR_LIST(4, 6), CR_F32, cr_cpu(), g),
                       cr_randn(CR_LIST(1, 4, 8, 8), CR_F32, cr_cpu(), g)};
    cr_tensor *w = cr_requires_grad_(cr_randn(CR_LIST(7, 6), CR_F32, cr_cpu(), g), true),
              *kernel = cr_requires_grad_(cr_randn(CR_LIST(5, 4, 3, 3), CR_F32, cr_cpu(), g), true),
              *q = cr_requires_grad_(cr_randn(CR_LIST(2, 3, 5, 16), CR_F32, cr_cpu(), g), true);
    for (int backward = 0; backward < 2; backward++) {
        cr_set_grad_enabled(backward);
        OK(cr_record_begin(2, (const cr_tensor *const *)in));
        cr_tensor *y = cr_sum(cr_linear(in[0], w, CR_NONE), CR_ALL, false);
        y = cr_add(y, cr_sum(cr_conv(in[1], kernel, CR_NONE, NULL), CR_ALL, false));
        y = cr_add(y, cr_sum(cr_attention(q, q, q, &(cr_attention_options){.causal = true}), CR_ALL, false));
        if (backward) OK(cr_backward(y, CR_NONE, NULL));
        y = cr_detach(y);
        cr_plan *plan = cr_record_end(1, (const cr_tensor *const *)&y);
        REQUIRE(plan, "%s", cr_error());
        /* the inputs need no gradient: one product more of the linear layer and of the convolution */
        const double expected = (linear + conv) * (1 + backward) + attention * (backward ? 14 : 4);
        CHECK(cr_plan_look(plan).flops == expected, "%.0f flops, not %.0f", cr_plan_look(plan).flops, expected);
        char *text = cr_plan_text(plan);
        CHECK(text && strstr(text, "MFLOP") && strstr(text, "GFLOP"), "%s", text);
        free(text);
        cr_plan_free(plan);
    }
    cr_release(w), cr_release(kernel), cr_release(q);
    cr_generator_free(g);
    cr_scope_end();
}

/* ---- anomaly mode: the first kernel of a replay whose result is not finite is an error that names its ops */
static void finds_anomalies(const cr_device *dev, int64_t rows, int64_t wide, const char *passes) {
    OK(cr_switch_set("PLAN", passes));
    cr_scope_begin();
    cr_tensor *good = cr_ones(CR_LIST(rows, wide), CR_F32, dev), *bad = cr_full(CR_LIST(rows, wide), -1, CR_F32, dev),
              *y;
    OK(cr_record_begin(1, (const cr_tensor *[]){good}));
    y = cr_matmul(cr_softmax(cr_add_scalar(cr_sqrt(good), 1), 1), cr_log(cr_add_scalar(cr_transpose(good, 0, 1), 2)));
    cr_plan *plan = cr_record_end(1, (const cr_tensor *const *)&y);
    REQUIRE(plan, "%s", cr_error());
    const bool before = cr_set_anomaly(true);
    OK(cr_plan_run(plan, (const cr_tensor *[]){good}, &y));
    /* a large square root is a tile of the softmax's group */
    FAILS(CR_RUNTIME, rows > 100 && !passes ? "softmax" : "sqrt",
          cr_plan_run(plan, (const cr_tensor *[]){bad}, &y));
    const cr_tensor *less = cr_full(CR_LIST(rows, wide), 0, CR_F32, dev);
    OK(cr_plan_run(plan, &less, &y));
    cr_set_anomaly(before);
    OK(cr_plan_run(plan, (const cr_tensor *[]){bad}, &y));
    CHECK(isnan(cr_item(cr_sum(y, CR_ALL, false))), "%s: not NaN", cr_device_name(dev));
    cr_set_anomaly(true);                           /* tiles are no results, and memory has NaN from before */
    OK(cr_plan_run(plan, (const cr_tensor *[]){good}, &y));
    cr_set_anomaly(before);
    cr_plan_free(plan);
    cr_scope_end();
    OK(cr_switch_set("PLAN", NULL));
    test_ran_on(dev);
}

TEST(anomalies_of_replays) {
    for (int d = 0; cr_device_at(d); d++)
        for (int i = 0; i < 3; i++) {
            const char *passes = (const char *[]){NULL, "none", "tile"}[i];
            finds_anomalies(cr_device_at(d), 30, 40, passes);
            if (cr_device_at(d) == cr_cpu()) finds_anomalies(cr_cpu(), 160, 120, passes);
        }
}

/* ---- clipped gradients: the host finds the factor in the middle of a run */
typedef enum clip_kind { STEP_CLIPPED, PARAMS_CLIPPED } clip_kind;

static cr_tensor *clipped_step(net *n, const cr_tensor *x, const cr_tensor *target, clip_kind kind, double most) {
    cr_scope_begin();
    cr_params_zero_grad(n->params);
    cr_tensor *h = cr_gelu(cr_linear(x, n->w1, n->b1));
    cr_tensor *loss = cr_cross_entropy(cr_linear(h, n->w2, n->b2), target, NULL);
    OK(cr_backward(loss, CR_NONE, NULL));
    if (kind == STEP_CLIPPED) OK(cr_optim_step_clipped(n->opt, most, NULL));
    else OK(cr_params_clip_grad_norm(n->params, most, NULL)), OK(cr_optim_step(n->opt));
    cr_tensor *kept = cr_keep(cr_detach(loss));
    cr_scope_end();
    return kept;
}

static void clips_alike(const cr_device *dev, clip_kind kind, double most, const char *passes) {
    dev_now = dev;
    OK(cr_switch_set("PLAN", passes));
    cr_scope_begin();
    net a = net_new(dev, CR_ADAMW), b = net_new(dev, CR_ADAMW);
    cr_plan *plan = NULL;
    bool clipped = false;
    for (int step = 0; step < 6; step++) {
        cr_scope_begin();
        const cr_tensor *in[] = {batch(dev, step), targets(dev, step)};
        cr_tensor *loss = clipped_step(&a, in[0], in[1], kind, most), *other = NULL;
        if (step == 1) OK(cr_record_begin(2, in));
        if (step <= 1) other = clipped_step(&b, in[0], in[1], kind, most);
        if (step == 1) plan = cr_record_end(1, (const cr_tensor *const *)&other);
        if (step > 1) OK(cr_plan_run(plan, in, &other));
        CHECK(other && same_bits(loss, other), "%s: the loss of step %d differs", cr_device_name(dev), step);
        same_nets(&a, &b, "after a clipped step");
        CHECK(cr_optim_steps(a.opt) == cr_optim_steps(b.opt), "%lld steps", (long long)cr_optim_steps(b.opt));
        const double norm = cr_optim_norm(b.opt);
        if (kind == STEP_CLIPPED) CHECK(norm == cr_optim_norm(a.opt), "norm %.17g in step %d", norm, step);
        clipped |= norm > most;
        for (int64_t i = 0; i < cr_params_count(a.params); i++)
            CHECK(same_bits(cr_grad(cr_params_at(a.params, i)), cr_grad(cr_params_at(b.params, i))),
                  "a gradient differs after step %d", step);
        cr_scope_end();
        test_ran_on(dev);
    }
    if (kind == STEP_CLIPPED) CHECK(clipped == (most < 100), "norm %g", cr_optim_norm(b.opt));
    cr_plan_free(plan);
    net_free(&a);
    net_free(&b);
    cr_scope_end();
    OK(cr_switch_set("PLAN", NULL));
}

TEST(clipping) {
    const char *const passes[] = {NULL, "none", "tile"};
    for (int i = 0; i < 3; i++)
        for (clip_kind kind = STEP_CLIPPED; kind <= PARAMS_CLIPPED; kind++) {
            clips_alike(cr_cpu(), kind, 0.3, passes[i]);
            clips_alike(cr_ref(), kind, 0.3, passes[i]);
            clips_alike(cr_cpu(), kind, 1e6, passes[i]);
        }
}

/* Gradients that elementwise kernels make: their updates could go along tile by tile, but for the factor, which is not
 * known before all are there. */
static void clips_tiles(int n) {
    const cr_device *cpu = cr_cpu();
    cr_scope_begin();
    cr_tensor *w[2][2], *x = NULL;
    cr_params *params[2] = {cr_params_new(), cr_params_new()};
    cr_optim *opt[2];
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_plan *plan = NULL;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < n; i++) {
            w[k][i] = cr_requires_grad_(cr_ones(CR_LIST(128, 256), CR_F32, cpu), true);
            OK(cr_params_add(params[k], i ? "b" : "a", w[k][i]));
        }
        opt[k] = cr_optim_new(params[k], &o);
    }
    for (int step = 0; step < 5; step++) {
        cr_scope_begin();
        x = cr_arange(0, 128 * 256, 1, CR_F32, cpu);
        x = cr_sin(cr_mul_scalar(cr_reshape(x, CR_LIST(128, 256)), 1 + step));
        for (int k = 0; k < 2; k++) {
            if (k && step == 1) OK(cr_record_begin(1, (const cr_tensor *const *)&x));
            if (k && step > 1) { OK(cr_plan_run(plan, (const cr_tensor *const *)&x, NULL)); continue; }
            cr_scope_begin();
            cr_tensor *y = cr_mul(w[k][0], x);
            if (n > 1) y = cr_mul(y, w[k][1]);
            OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
            OK(cr_optim_step_clipped(opt[k], 0.1, NULL));
            cr_params_zero_grad(params[k]);
            cr_scope_end();
            if (k && step == 1) plan = cr_record_end(0, NULL);
        }
        for (int i = 0; i < n; i++)
            CHECK(same_bits(w[0][i], w[1][i]), "parameter %d of %d differs in step %d", i, n, step);
        cr_scope_end();
    }
    for (int k = 0; k < 2; k++) cr_optim_free(opt[k]), cr_params_free(params[k]);
    cr_plan_free(plan);
    cr_scope_end();
}

/* Params that change from run to run, of a program of the user's own, whose rows could join others as constants. */
typedef struct changing { int number; double k; } changing;

static cr_status next_param(cr_plan *p, void *ctx) {
    changing *c = ctx;
    c->k++;
    cr_plan_set_params(p, c->number, &c->k);
    return CR_OK;
}

static void changes_params(bool of_constant) {
    changing c = {.k = 2};
    cr_scope_begin();
    cr_program *times = cr_program_new("times", "x", "k", "y = x * k; y");
    cr_tensor *x = cr_ones(CR_LIST(64, 64), CR_F32, cr_cpu()), *z = NULL;
    OK(cr_record_begin(1, (const cr_tensor *const *)&x));
    cr_tensor *y = of_constant ? cr_full(CR_LIST(64, 64), 2, CR_F32, cr_cpu()) : cr_add(x, x);
    OK(cr_program_update(times, 1, &y, (const cr_tensor *const *)&y, &c.k));
    c.number = cr_record_params();
    OK(cr_record_replay(next_param, &c, NULL));
    y = cr_add(y, x);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    CHECK(cr_item(cr_max(y, CR_ALL, false)) == 5, "2 2 + 1");
    for (int run = 0; run < 3; run++) {
        OK(cr_plan_run(p, (const cr_tensor *const *)&x, &z));
        CHECK(cr_item(cr_max(z, CR_ALL, false)) == 2 * c.k + 1 && c.k == 3 + run, "run %d with %g gives %g", run, c.k,
              cr_item(cr_max(z, CR_ALL, false)));
    }
    cr_plan_free(p);
    cr_program_free(times);
    cr_scope_end();
}

/* Two updates that are equal in the recording, and not later. */
static cr_status next_of_two(cr_plan *p, void *ctx) {
    const changing *c = ctx;
    for (int i = 0; p && i < 2; i++) cr_plan_set_params(p, c[i].number, &c[i].k);
    return CR_OK;
}

static void changes_two_params(void) {
    changing c[2] = {{.k = 2}, {.k = 2}};
    cr_scope_begin();
    cr_program *times = cr_program_new("times", "x", "k", "y = x * k; y");
    cr_tensor *x = cr_ones(CR_LIST(64, 64), CR_F32, cr_cpu()), *y[2], *z = NULL;
    OK(cr_record_begin(1, (const cr_tensor *const *)&x));
    for (int i = 0; i < 2; i++) {
        y[i] = cr_empty(CR_LIST(64, 64), CR_F32, cr_cpu());
        OK(cr_program_update(times, 1, &y[i], (const cr_tensor *const *)&x, &c[i].k));
        c[i].number = cr_record_params();
    }
    OK(cr_record_replay(next_of_two, c, NULL));
    const cr_tensor *sum = cr_add(y[0], y[1]);
    cr_plan *p = cr_record_end(1, &sum);
    c[1].k = 5;
    OK(cr_plan_run(p, (const cr_tensor *const *)&x, &z));
    CHECK(cr_item(cr_max(z, CR_ALL, false)) == 7, "2 + 5 gives %g", cr_item(cr_max(z, CR_ALL, false)));
    cr_plan_free(p);
    cr_program_free(times);
    cr_scope_end();
}

TEST(changing_params) {
    changes_params(false);
    changes_params(true);
    changes_two_params();
}

TEST(clipped_tiles) {
    clips_tiles(1);
    clips_tiles(2);
}

/* ---- steps of the host */
typedef struct counted { int runs, ends; bool fails; } counted;

static cr_status double_it(cr_plan *p, void *ctx, const double *numbers, double *results) {
    counted *c = ctx;
    (void)p;
    c->runs++;
    results[0] = 2 * numbers[0] + numbers[1];
    results[1] = -numbers[1];
    return c->fails ? CR_RUNTIME : CR_OK;
}

/* Also while a step is recorded, which refuses cr_item and cr_data. */
static double value_now(const cr_tensor *t) { return *(const double *)cr_tensor_data(t); }

static void count_end(void *ctx) { ((counted *)ctx)->ends++; }

TEST(host_steps) {
    const cr_device *cpu = cr_cpu();
    counted c = {0};
    cr_scope_begin();
    cr_tensor *x = cr_from((float[]){1, 2, 3}, CR_LIST(3), CR_F32, cpu), *y = NULL;
    cr_tensor *out = cr_zeros(0, NULL, CR_F64, cpu), *other = cr_zeros(0, NULL, CR_F64, cpu);
    for (int recorded = 0; recorded < 2; recorded++) {
        const unsigned version = cr_tensor_version(out);
        if (recorded) OK(cr_record_begin(1, (const cr_tensor *const *)&x));
        cr_tensor *total = cr_sum(x, CR_ALL, false), *most = cr_max(x, CR_ALL, false);
        cr_tensor *const outs[] = {out, other};
        OK(cr_record_host(2, (const cr_tensor *const[]){total, most}, 2, outs, double_it, &c, count_end));
        CHECK(cr_tensor_version(out) > version, "the host writes version %u", cr_tensor_version(out));
        y = cr_exp(cr_mul_scalar(out, 0.1));
        CHECK(value_now(y) == exp(1.5), "exp(0.1 (2 6 + 3)) is %.17g", value_now(y));
        CHECK(c.runs == 1 + recorded && c.ends == 1, "%d runs, %d ends", c.runs, c.ends);
    }
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    CHECK(p, "%s", cr_error());
    cr_tensor *x2 = cr_from((float[]){0, -2, 4}, CR_LIST(3), CR_F32, cpu), *z = NULL;
    OK(cr_plan_run(p, (const cr_tensor *const *)&x2, &z));
    CHECK(cr_item(z) == exp(0.8) && cr_item(out) == 8, "a run gives %.17g", cr_item(z));
    CHECK(cr_item(other) == -4, "a run gives %g as its second number", cr_item(other));
    c.fails = true;
    CHECK(cr_plan_run(p, (const cr_tensor *const *)&x2, &z) != CR_OK, "the host fails");
    cr_error_clear();
    CHECK(c.ends == 1, "the plan has it");
    cr_plan_free(p);
    CHECK(c.ends == 2, "%d ends", c.ends);
    FAILS(CR_BAD_VALUE, "tensor 0 has not one element",
          cr_record_host(1, (const cr_tensor *const *)&x, 0, NULL, double_it, &c, count_end));
    FAILS(CR_BAD_VALUE, "the function is NULL", cr_record_host(0, NULL, 0, NULL, NULL, &c, count_end));
    FAILS(CR_BAD_VALUE, "the tensors", cr_record_host(1, NULL, 0, NULL, double_it, &c, count_end));
    FAILS(CR_BAD_VALUE, "fewer than no", cr_record_host(-1, NULL, 0, NULL, double_it, &c, count_end));
    CHECK(c.ends == 6, "%d ends: also after a failure", c.ends);
    cr_scope_end();
}

/* ---- gradients freed by the step: updates may run inside the products that make them */
static cr_tensor *net_step_freeing(net *n, const cr_tensor *x, const cr_tensor *target) {
    cr_tensor *loss = net_step(n, x, target);
    cr_params_zero_grad(n->params);
    return loss;
}

TEST(updates_in_products) {
    for (int sw = 0; sw < 2; sw++) {
        dev_now = cr_cpu();
        OK(cr_switch_set("PLAN", sw ? "fuse_update" : NULL));
        cr_scope_begin();
        net a = net_new(dev_now, CR_ADAMW), b = net_new(dev_now, CR_ADAMW);
        cr_plan *plan = NULL;
        for (int step = 0; step < 5; step++) {
            cr_scope_begin();
            const cr_tensor *in[] = {batch(dev_now, step), targets(dev_now, step)};
            cr_tensor *loss = net_step_freeing(&a, in[0], in[1]), *other = NULL;
            if (step == 1) OK(cr_record_begin(2, in));
            if (step <= 1) other = net_step_freeing(&b, in[0], in[1]);
            if (step == 1) plan = cr_record_end(1, (const cr_tensor *const *)&other);
            if (step > 1) OK(cr_plan_run(plan, in, &other));
            CHECK(other && same_bits(loss, other), "the loss of step %d differs", step);
            same_nets(&a, &b, "after a step that frees its gradients");
            for (int64_t i = 0; i < cr_params_count(b.params); i++)
                CHECK(cr_is_none(cr_grad(cr_params_at(b.params, i))), "a gradient is there");
            cr_scope_end();
        }
        char *text = cr_plan_text(plan);
        CHECK(text && !!strstr(text, "update_by_product") == !sw, "updates in products: %s", text ? text : "no text");
        free(text);
        cr_plan_free(plan);
        net_free(&a);
        net_free(&b);
        cr_scope_end();
    }
    OK(cr_switch_set("PLAN", NULL));
}

/* The update waits for a step that reads the weight.  It joins its gradient's product there, unless x has changed. */
static cr_tensor *reading_step(net *n, cr_tensor *x, bool changes) {
    cr_scope_begin();
    cr_tensor *loss = cr_mean(cr_square(cr_linear(x, n->w1, CR_NONE)), CR_ALL, false);
    OK(cr_backward(loss, CR_NONE, NULL));
    cr_set_grad_enabled(false);
    if (changes) cr_mul_(x, x);
    cr_tensor *sum = cr_add(cr_sum(n->w1, CR_ALL, false), cr_detach(loss));
    OK(cr_optim_step(n->opt));
    cr_set_grad_enabled(true);
    cr_params_zero_grad(n->params);
    cr_keep(sum);
    cr_scope_end();
    return sum;
}

TEST(update_waits_for_readers) {
    const cr_device *cpu = cr_cpu();
    for (int changes = 0; changes < 2; changes++) {
        cr_scope_begin();
        net a = net_new(cpu, CR_SGD), b = net_new(cpu, CR_SGD);
        cr_plan *plan = NULL;
        for (int step = 0; step < 4; step++) {
            cr_tensor *x = batch(cpu, step);
            cr_tensor *want = reading_step(&a, cr_clone(x), changes), *got = NULL;
            if (step == 1) OK(cr_record_begin(1, (const cr_tensor *const *)&x));
            if (step <= 1) got = reading_step(&b, x, changes);
            if (step == 1) plan = cr_record_end(1, (const cr_tensor *const *)&got);
            if (step > 1) OK(cr_plan_run(plan, (const cr_tensor *const *)&x, &got));
            CHECK(got && same_bits(got, want), "the result of step %d differs", step);
        }
        char *text = cr_plan_text(plan);
        CHECK(text && !!strstr(text, "update_by_product") == !changes, "updates in products: %s", text ? text : "none");
        free(text);
        cr_plan_free(plan);
        net_free(&a);
        net_free(&b);
        cr_scope_end();
    }
}

/* Large gradients that no product makes: each update runs right behind its gradient, so that one gradient at a time is
 * in memory; but behind a step that still reads the weight. */
enum { LAYERS = 4, CHANNELS = 256 };
static cr_tensor *conv_step(cr_tensor *const w[LAYERS], cr_optim *opt, cr_params *params, const cr_tensor *x) {
    const cr_conv_options o = cr_conv_defaults();
    cr_scope_begin();
    cr_tensor *y = cr_conv(x, w[0], CR_NONE, &o);
    for (int i = 1; i < LAYERS; i++) y = cr_conv(cr_tanh(y), w[i], CR_NONE, &o);
    OK(cr_backward(cr_mean(cr_square(y), CR_ALL, false), CR_NONE, NULL));
    cr_set_grad_enabled(false);
    cr_tensor *before = cr_sum(w[1], CR_ALL, false);
    OK(cr_optim_step(opt));
    cr_set_grad_enabled(true);
    cr_params_zero_grad(params);
    cr_keep(before);
    cr_scope_end();
    return before;
}

TEST(updates_behind_gradients) {
    const cr_device *cpu = cr_cpu();
    int64_t arena[2];
    for (int sw = 0; sw < 2; sw++) {
        OK(cr_switch_set("PLAN", sw ? "fuse_update" : NULL));
        cr_scope_begin();
        cr_tensor *w[2][LAYERS];
        cr_params *params[2] = {cr_params_new(), cr_params_new()};
        cr_optim *opt[2];
        cr_optim_options o = cr_optim_defaults(CR_ADAMW);
        cr_plan *plan = NULL;
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < LAYERS; i++) {
                w[k][i] = cr_requires_grad_(cr_full(CR_LIST(CHANNELS, CHANNELS, 1), 1e-2, CR_F32, cpu), true);
                OK(cr_params_add(params[k], (const char *[]){"a", "b", "c", "d"}[i], w[k][i]));
            }
            opt[k] = cr_optim_new(params[k], &o);
        }
        for (int step = 0; step < 5; step++) {
            cr_scope_begin();
            const cr_tensor *x = cr_sin(cr_arange(step, step + 8 * CHANNELS, 1, CR_F32, cpu));
            x = cr_reshape(x, CR_LIST(1, CHANNELS, 8));
            cr_tensor *want = conv_step(w[0], opt[0], params[0], x), *got = NULL;
            if (step == 1) OK(cr_record_begin(1, &x));
            if (step <= 1) got = conv_step(w[1], opt[1], params[1], x);
            if (step == 1) plan = cr_record_end(1, (const cr_tensor *const *)&got);
            if (step > 1) OK(cr_plan_run(plan, &x, &got));
            CHECK(got && same_bits(got, want), "the sum of a weight before step %d differs", step);
            for (int i = 0; i < LAYERS; i++)
                CHECK(same_bits(w[0][i], w[1][i]), "weight %d differs after step %d", i, step);
            cr_scope_end();
        }
        arena[sw] = cr_plan_look(plan).arena;
        for (int k = 0; k < 2; k++) cr_optim_free(opt[k]), cr_params_free(params[k]);
        cr_plan_free(plan);
        cr_scope_end();
    }
    OK(cr_switch_set("PLAN", NULL));
    const int64_t weight = CHANNELS * CHANNELS * 4;
    CHECK(arena[0] <= arena[1] - 2 * weight, "%lld bytes for temporaries, %lld with updates at the end",
          (long long)arena[0], (long long)arena[1]);
}

/* ---- values computed again where they are used much later */
enum { DEPTH = 16, WIDTH = 128, ROWS = 512 };
static cr_tensor *deep_step(cr_tensor *const w[DEPTH], const cr_tensor *x) {
    cr_scope_begin();
    for (int i = 0; i < DEPTH; i++) x = cr_gelu(cr_linear(x, w[i], CR_NONE));
    cr_tensor *loss = cr_mean(cr_square(x), CR_ALL, false), *sum = cr_detach(loss);
    OK(cr_backward(loss, CR_NONE, NULL));
    cr_set_grad_enabled(false);
    for (int i = 0; i < DEPTH; i++) sum = cr_add(sum, cr_sum(cr_square(cr_grad(w[i])), CR_ALL, false));
    cr_set_grad_enabled(true);
    for (int i = 0; i < DEPTH; i++) OK(cr_set_grad(w[i], CR_NONE));
    cr_keep(sum);
    cr_scope_end();
    return sum;
}

TEST(values_again) {
    const cr_device *cpu = cr_cpu();
    int64_t arena[2];
    for (int sw = 0; sw < 2; sw++) {
        OK(cr_switch_set("PLAN", sw ? "remat" : NULL));
        cr_scope_begin();
        cr_generator *g = cr_generator_new(3);
        cr_tensor *w[DEPTH];
        for (int i = 0; i < DEPTH; i++)
            w[i] = cr_requires_grad_(cr_mul_scalar(cr_randn(CR_LIST(WIDTH, WIDTH), CR_F32, cpu, g), 0.1), true);
        cr_plan *plan = NULL;
        for (int step = 0; step < 3; step++) {
            const cr_tensor *x = cr_randn(CR_LIST(ROWS, WIDTH), CR_F32, cpu, g);
            cr_tensor *want = deep_step(w, x), *got = NULL;
            if (!step) OK(cr_record_begin(1, &x));
            if (!step) got = deep_step(w, x);
            if (!step) plan = cr_record_end(1, (const cr_tensor *const *)&got);
            if (step) OK(cr_plan_run(plan, &x, &got));
            CHECK(got && same_bits(got, want), "the sum of step %d differs", step);
        }
        char *text = cr_plan_text(plan);
        CHECK(text && !!strstr(text, "gelu again") == !sw, "values again: %s", text ? text : "no text");
        free(text);
        arena[sw] = cr_plan_look(plan).arena;
        cr_plan_free(plan);
        cr_generator_free(g);
        cr_scope_end();
    }
    OK(cr_switch_set("PLAN", NULL));
    CHECK(arena[0] <= arena[1] - 4 * ROWS * WIDTH * 4, "%lld bytes for temporaries, %lld with all values kept",
          (long long)arena[0], (long long)arena[1]);
}

/* An input that changes in the meantime, or ends: its value cannot be had again, or is cheaper to keep. */
static cr_tensor *changing_step(const cr_tensor *x, bool ends) {
    cr_scope_begin();
    cr_tensor *h = cr_add_scalar(x, 1), *y = cr_gelu(h), *z = cr_linear(y, y, CR_NONE);
    if (!ends) cr_mul_(h, x);
    for (int i = 0; i < 2 * DEPTH; i++) z = cr_softmax(cr_linear(z, z, CR_NONE), 1);
    z = cr_add(cr_sum(cr_mul(y, ends ? x : h), CR_ALL, false), cr_sum(z, CR_ALL, false));
    cr_keep(z);
    cr_scope_end();
    return z;
}

TEST(values_that_change) {
    for (int ends = 0; ends < 2; ends++) {
        cr_scope_begin();
        cr_generator *g = cr_generator_new(3);
        cr_plan *plan = NULL;
        for (int step = 0; step < 3; step++) {
            const cr_tensor *x = cr_randn(CR_LIST(WIDTH, WIDTH), CR_F32, cr_cpu(), g);
            cr_tensor *want = changing_step(x, ends), *got = NULL;
            if (!step) OK(cr_record_begin(1, &x));
            if (!step) got = changing_step(x, ends);
            if (!step) plan = cr_record_end(1, (const cr_tensor *const *)&got);
            if (step) OK(cr_plan_run(plan, &x, &got));
            CHECK(got && same_bits(got, want), "the result of step %d differs", step);
        }
        char *text = cr_plan_text(plan);
        CHECK(text && !strstr(text, "again"), "values again: %s", text ? text : "no text");
        free(text);
        cr_plan_free(plan);
        cr_generator_free(g);
        cr_scope_end();
    }
}

/* ---- groups by tiles: chains over rows of every kind, with results that others read too */
typedef cr_tensor *(*chain)(cr_tensor *const *in);

static cr_tensor *kept(cr_tensor *y) {
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

static cr_tensor *chain_numbers(cr_tensor *const *in) {          /* x, m (R, 1), w (C) */
    cr_scope_begin();
    cr_tensor *y = cr_mul(cr_sub(in[0], in[1]), in[2]), *z = cr_exp(cr_neg(cr_abs(y)));
    return kept(cr_add(cr_sum(z, CR_LIST(0), true), cr_mul(z, cr_add(y, in[0]))));
}

static cr_tensor *chain_rows(cr_tensor *const *in) {
    cr_scope_begin();
    cr_tensor *x = cr_sub(in[0], cr_max(in[0], CR_LIST(-1), true));
    cr_tensor *p = cr_softmax(cr_gelu(x), -1), *l = cr_log(cr_sum(cr_exp(x), CR_LIST(-1), true));
    return kept(cr_add(cr_mul(p, l), cr_layer_norm(x, in[2], in[2], 1e-5)));
}

static cr_tensor *chain_random(cr_tensor *const *in) {
    cr_scope_begin();
    cr_tensor *y = cr_dropout(cr_relu(in[0]), 0.3, true, cr_default_generator());
    return kept(cr_add(y, cr_mul(cr_randn(2, cr_shape(in[0]), CR_F32, cr_cpu(), cr_default_generator()), in[1])));
}

static cr_tensor *chain_in_place(cr_tensor *const *in) {         /* writes views, and what it reads */
    cr_scope_begin();
    cr_tensor *y = cr_mul_scalar(in[0], 0.5), *half = cr_narrow(y, 0, 0, cr_size(y, 0) / 2);
    cr_add_(y, in[2]);
    cr_mul_(half, cr_narrow(in[0], 0, 1, cr_size(y, 0) / 2));
    cr_sub_(y, in[1]);
    return kept(cr_sub(y, cr_transpose(cr_contiguous(cr_transpose(y, 0, 1)), 0, 1)));
}

static cr_tensor *chain_casts(cr_tensor *const *in) {
    cr_scope_begin();
    const cr_device *dev = cr_device_of(in[0]);
    cr_tensor *y = cr_to(cr_mul(in[0], in[2]), CR_BF16, dev), *z = cr_sigmoid(y);
    cr_tensor *any = cr_to(cr_to(cr_relu(y), CR_BOOL, dev), CR_F32, dev);
    return kept(cr_add(cr_to(cr_gt(z, cr_scalar(0.5)), CR_F32, dev), cr_mul(any, cr_to(z, CR_F32, dev))));
}

/* Mixed precision with its gradients: values that overflow, vanish or are denormal in half precision, and masks. */
static cr_tensor *mixed(cr_tensor *const *in, cr_dtype half) {
    const cr_device *dev = cr_device_of(in[0]);
    cr_scope_begin();
    cr_tensor *x = cr_requires_grad_(cr_detach(in[0]), true), *h = cr_to(x, half, dev), *w = cr_to(in[2], half, dev);
    cr_tensor *y = cr_mul(cr_gelu(h), w), *e = cr_exp(cr_mul_scalar(h, 7));
    cr_tensor *z = cr_where(cr_gt(y, cr_scalar(0.1)), cr_tanh(y), cr_mul(h, h)), *dx = NULL;
    cr_tensor *sum = cr_add(cr_mul(cr_to(z, CR_F32, dev), in[1]), cr_to(cr_add(cr_relu(z), e), CR_F32, dev));
    OK(cr_gradients(1, (const cr_tensor *const *)&sum, (const cr_tensor *const *)&in[0], 1,
                    (const cr_tensor *const *)&x, &dx, NULL));
    return kept(cr_cat(2, (const cr_tensor *[]){cr_detach(sum), dx}, 0));
}
static cr_tensor *chain_f16(cr_tensor *const *in) { return mixed(in, CR_F16); }
static cr_tensor *chain_bf16(cr_tensor *const *in) { return mixed(in, CR_BF16); }

static cr_tensor *chain_transposed(cr_tensor *const *in) {       /* a reader out of step with the writer */
    cr_scope_begin();
    cr_tensor *y = cr_exp(cr_mul(in[0], in[1]));
    if (cr_size(y, 0) == cr_size(y, 1)) y = cr_add(y, cr_transpose(y, 0, 1));
    return kept(cr_mul(y, in[2]));
}

static cr_tensor *chain_of_host(cr_tensor *const *in) {          /* numbers of the host, changed by the step */
    cr_scope_begin();
    const float numbers[] = {1, 2, 3};
    cr_tensor *c = cr_from(numbers, CR_LIST(3), CR_F32, cr_cpu());
    cr_add_(c, cr_scalar(0.25));
    cr_mul_(c, c);
    return kept(cr_add(cr_mul(cr_exp(in[0]), cr_select(c, 0, 2)), in[1]));
}

static cr_tensor *chain_written_across(cr_tensor *const *in) {   /* a writer out of step with an earlier reader */
    cr_scope_begin();
    cr_tensor *c = cr_contiguous(cr_transpose(in[0], 0, 1)), *z = cr_mul_scalar(c, 1.5);
    if (cr_size(c, 0) == cr_size(c, 1)) cr_mul_(cr_transpose(c, 0, 1), z);
    return kept(cr_add(c, z));
}

static cr_tensor *chain_picked(cr_tensor *const *in) {           /* elements of each row, chosen by another one */
    cr_scope_begin();
    cr_tensor *x = cr_sub(in[0], cr_max(in[0], CR_LIST(-1), true)), *least = cr_argmin(in[0], 1, true);
    cr_tensor *l = cr_log(cr_sum(cr_exp(cr_mul(x, in[2])), CR_LIST(-1), true));
    return kept(cr_add(cr_sub(l, cr_gather(x, 1, least)), cr_mul(x, in[1])));
}

static cr_tensor *chain_parts(cr_tensor *const *in) {            /* two parts of one input that overlap */
    cr_scope_begin();
    const int64_t rows = cr_size(in[0], 0) - 1;
    cr_tensor *a = cr_narrow(in[0], 0, 0, rows), *b = cr_narrow(in[0], 0, 1, rows);
    return kept(cr_sub(cr_mul(cr_exp(a), b), cr_mul(a, in[2])));
}

static cr_tensor *chain_joined(cr_tensor *const *in) {           /* two parts of one buffer, one of which is read */
    cr_scope_begin();
    cr_tensor *y = cr_exp(in[0]), *z = cr_cat(2, (const cr_tensor *[]){y, cr_mul(y, in[1])}, 0);
    return kept(cr_mul(cr_narrow(z, 0, 0, cr_size(y, 0)), in[2]));
}

static cr_tensor *chain_zeros(cr_tensor *const *in) {            /* constants that are equal, with other bits */
    cr_program *times = cr_program_new("times", "x", "k", "x * k");
    cr_scope_begin();
    const cr_tensor *e = cr_exp(in[0]);
    cr_tensor *plus = cr_program_apply(times, 1, &e, (const double[]){0.0});
    cr_tensor *minus = cr_add(cr_reciprocal(cr_program_apply(times, 1, &e, (const double[]){-0.0})),
                              cr_reciprocal(cr_mul_scalar(e, -0.0)));       /* -inf */
    cr_program_free(times);
    return kept(cr_add(minus, plus));
}

static const struct { const char *name; chain run; bool apart; } chains[] = {
    {"parts", chain_parts, false},       {"zeros", chain_zeros, false},
    {"joined", chain_joined, false},
    {"transposed", chain_transposed, false}, {"numbers of the host", chain_of_host, false},
    {"picked", chain_picked, false},
    {"numbers", chain_numbers, false},   {"rows", chain_rows, false},   {"random", chain_random, false},
    {"in place", chain_in_place, false}, {"casts", chain_casts, false},
    {"written across", chain_written_across, true},
    {"float16", chain_f16, false},       {"bfloat16", chain_bf16, false},
};

/* passes: "fuse" leaves all of it to tiles.  with_loops: again with loops of the system's C compiler. */
static void replay_chain(int i, int64_t rows, int64_t wide, int threads, const char *passes, bool with_loops) {
    const cr_device *cpu = cr_cpu();
    cr_generator *g = cr_generator_new((uint64_t)(rows + i));
    cr_scope_begin();
    cr_tensor *in[3], *other[3];
    for (int k = 0; k < 2; k++) {
        cr_tensor **to = k ? other : in;
        to[0] = cr_randn(CR_LIST(rows, wide), CR_F32, cpu, g);
        to[1] = cr_randn(CR_LIST(rows, 1), CR_F32, cpu, g);
        to[2] = cr_randn(CR_LIST(wide), CR_F32, cpu, g);
    }
    OK(cr_switch_set("PLAN", passes));
    OK(cr_record_begin(3, (const cr_tensor *const *)in));
    cr_tensor *y = chains[i].run(in), *z = NULL;
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    CHECK(p, "%s: %s", chains[i].name, cr_error());
    OK(cr_switch_set("PLAN", NULL));
    if (rows * wide > 100000 && passes)
        CHECK(cr_plan_look(p).fused > 1, "%s: fused %d", chains[i].name, cr_plan_look(p).fused);
    if (rows * wide > 100000 && !passes && !chains[i].apart)
        CHECK(cr_plan_look(p).kernels < cr_plan_look(p).recorded, "%s: %d kernels", chains[i].name,
              cr_plan_look(p).kernels);
    uint64_t seed, counter;
    cr_generator_get(cr_default_generator(), &seed, &counter);
    cr_tensor *want = chains[i].run(other);
    cr_generator_set(cr_default_generator(), seed, counter);
    OK(cr_set_num_threads(threads));
    OK(cr_plan_run(p, (const cr_tensor *const *)in, &z));
    if (z) cr_release(z);                           /* a run leaves nothing behind */
    cr_generator_set(cr_default_generator(), seed, counter);
    OK(cr_plan_run(p, (const cr_tensor *const *)other, &z));
    CHECK(z && same_bits(z, want), "%s (%lld, %lld), %d threads: the replay differs", chains[i].name, (long long)rows,
          (long long)wide, threads);
    if (with_loops) {
        cr_plan_wait(p);
        CHECK(cr_plan_look(p).loops > 0, "%s: no loops", chains[i].name);
        cr_generator_set(cr_default_generator(), seed, counter);
        OK(cr_plan_run(p, (const cr_tensor *const *)other, &z));
        CHECK(z && same_bits(z, want), "%s (%lld, %lld): loops differ", chains[i].name, (long long)rows,
              (long long)wide);
    }
    cr_plan_free(p);
    cr_scope_end();
    cr_generator_free(g);
    test_ran_on(cpu);
}

TEST(tiles) {
    static const int64_t sizes[][2] = {{3, 7}, {127, 131}, {1024, 64}, {301, 1031}, {67, 4099}, {5, 40009}, {389, 389}};
    const int before = cr_num_threads();
    const bool compiler = test_opens_libraries() && !cr_os_run((const char *const[]){"cc", "--version", NULL});
    OK(cr_switch_set("CACHE", folder_path("loops")));
    for (int i = 0; i < (int)(sizeof chains / sizeof *chains); i++)
        for (int k = 0; k < 7; k++)
            for (int threads = 1; threads <= 2; threads++) {
                const bool with_loops = compiler && threads == 2 && !chains[i].apart && (k == 3 || k == 6);
                replay_chain(i, sizes[k][0], sizes[k][1], threads, NULL, with_loops);
                replay_chain(i, sizes[k][0], sizes[k][1], threads, "fuse", false);
            }
    OK(cr_set_num_threads(before));
    OK(cr_switch_set("CACHE", NULL));
}

/* ---- work that is done twice */
typedef struct twice { const char *name; cr_tensor *(*run)(cr_tensor *const *in); int kernels; } twice;

static cr_tensor *twice_exp(cr_tensor *const *in) {              /* 3 of 4 */
    cr_scope_begin();
    cr_tensor *a = cr_exp(in[0]), *b = cr_exp(in[0]);
    return kept(cr_add(cr_sin(a), b));
}

static cr_tensor *twice_read(cr_tensor *const *in) {             /* the first result is read in between: 3 of 4 */
    cr_scope_begin();
    cr_tensor *a = cr_sin(cr_exp(in[0]));
    return kept(cr_add(a, cr_exp(in[0])));
}

static cr_tensor *twice_with_numbers(cr_tensor *const *in) {     /* other numbers: 4 of 5 */
    cr_scope_begin();
    cr_tensor *a = cr_clamp(in[0], -1, 1), *b = cr_clamp(in[0], -1, 1), *c = cr_clamp(in[0], -1, 2);
    return kept(cr_sub(cr_mul(a, b), c));
}

static cr_tensor *twice_changed(cr_tensor *const *in) {          /* what is read changes between: all 5 */
    cr_scope_begin();
    cr_tensor *x = cr_sin(in[0]), *a = cr_exp(x);
    cr_mul_(x, cr_scalar(-1));
    return kept(cr_sub(a, cr_exp(x)));
}

static cr_tensor *twice_changed_in_part(cr_tensor *const *in) {  /* all 5 */
    cr_scope_begin();
    cr_tensor *x = cr_sin(in[0]), *a = cr_exp(x);
    cr_mul_(cr_narrow(x, 0, 2, 3), cr_scalar(-1));
    return kept(cr_sub(a, cr_exp(x)));
}

static cr_tensor *twice_of_other_lengths(cr_tensor *const *in) { /* all 5 */
    cr_scope_begin();
    cr_tensor *a = cr_exp(cr_narrow(in[0], 0, 0, 3)), *b = cr_exp(cr_narrow(in[0], 0, 0, 5));
    return kept(cr_add(cr_sum(a, CR_ALL, false), cr_sum(b, CR_ALL, false)));
}

static cr_tensor *other_ops(cr_tensor *const *in) {              /* of one input: all 3 */
    cr_scope_begin();
    return kept(cr_sub(cr_exp(in[0]), cr_sin(in[0])));
}

static cr_tensor *twice_written(cr_tensor *const *in) {          /* one of both changes later: all 4 */
    cr_scope_begin();
    cr_tensor *a = cr_exp(in[0]), *b = cr_exp(in[0]);
    cr_mul_(a, cr_scalar(-1));
    return kept(cr_sub(a, b));
}

static cr_tensor *twice_drawn(cr_tensor *const *in) {            /* random numbers are never the same */
    cr_scope_begin();
    cr_generator *g = cr_default_generator();
    return kept(cr_sub(cr_rand(CR_LIST(5, 7), CR_F32, cr_device_of(in[0]), g),
                       cr_rand(CR_LIST(5, 7), CR_F32, cr_device_of(in[0]), g)));
}

static cr_tensor *twice_products(cr_tensor *const *in) {         /* 3 of 4, and a result that is returned */
    cr_scope_begin();
    cr_tensor *y = cr_matmul(in[0], in[1]);
    return kept(cr_add(cr_exp(cr_matmul(in[0], in[1])), y));
}

static cr_tensor *twice_parts(cr_tensor *const *in) {            /* parts of one shape, with other strides: all 3 */
    cr_scope_begin();
    cr_tensor *rows = cr_index(in[1], 2, (const cr_part[]){{0, 3, 1}, {0, 3, 1}}),
              *others = cr_index(in[1], 2, (const cr_part[]){{0, 6, 2}, {0, 3, 1}});
    return kept(cr_sub(cr_contiguous(rows), cr_contiguous(others)));
}

static cr_tensor *twice_rows(cr_tensor *const *in) {             /* other rows of one matrix, and a column: all 5 */
    cr_scope_begin();
    cr_tensor *a = cr_exp(cr_select(in[1], 0, 0)), *b = cr_exp(cr_select(in[1], 0, 2));
    return kept(cr_sub(cr_mul(a, b), cr_exp(cr_select(in[1], 1, 0))));
}

TEST(common) {
    static const twice cases[] = {{"exp", twice_exp, 3}, {"read", twice_read, 3},
                                  {"numbers", twice_with_numbers, 4},
                                  {"rows", twice_rows, 5}, {"parts", twice_parts, 3},
                                  {"lengths", twice_of_other_lengths, 5}, {"other ops", other_ops, 3},
                                  {"changed in part", twice_changed_in_part, 5},
                                  {"changed", twice_changed, 5}, {"written", twice_written, 4},
                                  {"drawn", twice_drawn, 3}, {"products", twice_products, 3}};
    const cr_device *const devices[] = {cr_cpu(), cr_ref()};
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
            cr_scope_begin();
            cr_generator *g = cr_generator_new(5);
            cr_tensor *in[2][2], *z = NULL;
            for (int k = 0; k < 2; k++) {
                in[k][0] = cr_randn(CR_LIST(5, 7), CR_F32, devices[d], g);
                in[k][1] = cr_randn(CR_LIST(7, 7), CR_F32, devices[d], g);
            }
            OK(cr_record_begin(2, (const cr_tensor *const *)in[0]));
            cr_tensor *y = cases[i].run(in[0]);
            cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
            uint64_t seed, counter;
            cr_generator_get(cr_default_generator(), &seed, &counter);
            cr_tensor *want = cases[i].run(in[1]);
            cr_generator_set(cr_default_generator(), seed, counter);
            OK(cr_plan_run(p, (const cr_tensor *const *)in[1], &z));
            CHECK(z && same_bits(z, want), "%s: the replay differs", cases[i].name);
            CHECK(cr_plan_look(p).kernels == cases[i].kernels, "%s: %d kernels of %d, not %d", cases[i].name,
                  cr_plan_look(p).kernels, cr_plan_look(p).recorded, cases[i].kernels);
            cr_plan_free(p);
            cr_generator_free(g);
            cr_scope_end();
            test_ran_on(devices[d]);
        }
}

/* ---- work that is the same in each run.  `kernels` are left, of which `kept` bytes are constants. */
typedef struct fixed { const char *name; cr_tensor *(*run)(cr_tensor *const *in); int kernels; int64_t kept; } fixed;
enum { SIDE = 300, MASK = 4 * SIDE * SIDE };

static cr_tensor *fixed_mask(cr_tensor *const *in) {             /* only the product is left */
    cr_scope_begin();
    const cr_device *dev = cr_device_of(in[0]);
    cr_tensor *mask = cr_tril(cr_ones(CR_LIST(SIDE, SIDE), CR_F32, dev), 0);
    return kept(cr_mul(in[0], mask));
}

static cr_tensor *fixed_returned(cr_tensor *const *in) {         /* a result is new in each run */
    cr_scope_begin();
    cr_tensor *y = cr_exp(cr_arange(0, 5, 1, CR_F32, cr_device_of(in[0])));
    return kept(y);
}

static cr_tensor *fixed_changed(cr_tensor *const *in) {          /* read between two writes: exp and mul are new */
    cr_scope_begin();
    cr_tensor *c = cr_exp(cr_full(CR_LIST(SIDE, SIDE), 0.5, CR_F32, cr_device_of(in[0])));
    cr_tensor *y = cr_mul(in[0], c);
    cr_mul_(c, cr_scalar(3));
    return kept(cr_add(y, c));
}

static cr_tensor *fixed_parts(cr_tensor *const *in) {            /* written in parts, then read */
    cr_scope_begin();
    cr_tensor *c = cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_device_of(in[0])), *half = cr_narrow(c, 0, 7, SIDE / 2);
    OK(cr_add_(half, cr_sin(cr_arange(0, SIDE, 1, CR_F32, cr_device_of(in[0])))) ? CR_OK : CR_BAD_VALUE);
    OK(cr_mul_(c, cr_scalar(2)) ? CR_OK : CR_BAD_VALUE);
    return kept(cr_mul(in[0], c));
}

static cr_tensor *fixed_summed(cr_tensor *const *in) {           /* the step adds to it: it starts at 0 in each run */
    cr_scope_begin();
    cr_tensor *c = cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_device_of(in[0]));
    cr_add_(c, in[0]);
    cr_add_(c, cr_exp(in[0]));
    return kept(cr_sin(c));
}

static cr_tensor *fixed_drawn(cr_tensor *const *in) {            /* rand, mul, add */
    cr_scope_begin();
    cr_tensor *noise = cr_rand(CR_LIST(SIDE, SIDE), CR_F32, cr_device_of(in[0]), cr_default_generator());
    return kept(cr_add(in[0], cr_mul(noise, noise)));
}

static cr_tensor *fixed_large(cr_tensor *const *in) {            /* 36 MB are too many to keep; a row is not */
    cr_scope_begin();
    cr_tensor *line = cr_sin(cr_arange(0, 10 * SIDE, 1, CR_F32, cr_device_of(in[0])));
    cr_tensor *table = cr_mul(line, cr_reshape(line, CR_LIST(10 * SIDE, 1)));
    return kept(cr_mul(in[0], cr_narrow(cr_narrow(table, 0, 5, SIDE), 1, 3, SIDE)));
}

TEST(fold) {
    static const fixed cases[] = {
        {"a mask", fixed_mask, 1, MASK},       {"returned", fixed_returned, 1, 0}, {"changed", fixed_changed, 4, MASK},
        {"in parts", fixed_parts, 1, MASK},    {"summed", fixed_summed, 5, 0},     {"drawn", fixed_drawn, 3, 0},
        {"too large", fixed_large, 2, MASK / 30},
    };
    const cr_device *const devices[] = {cr_cpu(), cr_ref()};
    for (int off = 0; off < 2; off++)
        for (int d = 0; d < 2; d++)
            for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
                const fixed *f = &cases[i];
                cr_scope_begin();
                cr_generator *g = cr_generator_new(5);
                cr_tensor *in[2], *z = NULL;
                for (int k = 0; k < 2; k++) in[k] = cr_randn(CR_LIST(SIDE, SIDE), CR_F32, devices[d], g);
                OK(cr_switch_set("PLAN", off ? "fold,remat,fuse,tile" : "remat,fuse,tile"));
                OK(cr_record_begin(1, (const cr_tensor *const *)in));
                cr_tensor *y = f->run(in);
                cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
                REQUIRE(p, "%s", cr_error());
                uint64_t seed, counter;
                cr_generator_get(cr_default_generator(), &seed, &counter);
                cr_tensor *want = f->run(&in[1]);
                for (int run = 0; run < 3; run++) {
                    cr_generator_set(cr_default_generator(), seed, counter);
                    OK(cr_plan_run(p, (const cr_tensor *const *)&in[1], &z));
                    CHECK(z && same_bits(z, want), "%s: replay %d differs", f->name, run);
                    cr_fill_(z, -1);
                }
                const cr_plan_info info = cr_plan_look(p);
                if (off) CHECK(info.kernels == info.recorded, "%s: %d of %d", f->name, info.kernels, info.recorded);
                else CHECK(info.kernels == f->kernels && info.kept >= f->kept && info.kept < f->kept + 100,
                           "%s: %d kernels of %d, %lld bytes kept", f->name, info.kernels, info.recorded,
                           (long long)info.kept);
                cr_plan_free(p);
                cr_generator_free(g);
                cr_scope_end();
                test_ran_on(devices[d]);
            }
    OK(cr_switch_set("PLAN", NULL));
}

/* A large value that nothing reads for many steps is computed again, as a checkpoint asks for. */
TEST(common_far) {
    OK(cr_switch_set("PLAN", "remat,fuse,tile"));
    for (int far = 0; far < 2; far++) {
        cr_scope_begin();
        const int between = far ? 30 : 10;
        const cr_tensor *x = cr_ones(CR_LIST(200, 100), CR_F32, cr_cpu());
        cr_tensor *small = cr_ones(CR_LIST(4), CR_F32, cr_cpu());
        OK(cr_record_begin(1, &x));
        cr_tensor *y = cr_sin(cr_exp(x));
        for (int i = 0; i < between; i++) small = cr_sin(small);
        y = cr_add(cr_add(y, cr_exp(x)), cr_select(small, 0, 0));
        cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
        REQUIRE(p, "%s", cr_error());
        CHECK(cr_plan_look(p).kernels == between + 4 + far, "%d kernels with %d between", cr_plan_look(p).kernels,
              between);
        cr_plan_free(p);
        cr_scope_end();
    }
    OK(cr_switch_set("PLAN", NULL));
}

/* ---- what cannot be recorded or replayed */
static cr_tensor *hook(const cr_tensor *g, void *ctx) { (void)g; (void)ctx; return (cr_tensor *)(uintptr_t)CR_NONE; }

TEST(refused) {
    const cr_device *cpu = cr_cpu();
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(4), CR_F32, cpu), *w = cr_requires_grad_(cr_ones(CR_LIST(4), CR_F32, cpu), true);
    const cr_tensor *in[] = {x};
    FAILS(CR_RUNTIME, "records nothing", cr_record_end(0, NULL));
    OK(cr_record_begin(1, in));
    CHECK(cr_recording(), "it records");
    FAILS(CR_RUNTIME, "already records a step", cr_record_begin(1, in));
    FAILS(CR_RUNTIME, "[item] the value of a tensor is read while a step is recorded",
          cr_item(cr_sum(cr_exp(x), CR_ALL, false)));
    CHECK(!cr_record_end(0, NULL) && !cr_recording(), "a failed recording ends without a plan");
    cr_error_clear();
    OK(cr_record_begin(1, in));
    FAILS(CR_RUNTIME, "the value of a tensor is read", cr_item(cr_select(w, 0, 1)));       /* not used before */
    cr_record_cancel();
    OK(cr_record_begin(1, in));
    FAILS(CR_RUNTIME, "depends on values", cr_nonzero(x));
    cr_record_cancel();
    CHECK(!cr_recording(), "cancelled");
    OK(cr_record_begin(1, in));
    cr_add_hook(w, hook, NULL, NULL);
    FAILS(CR_RUNTIME, "a hook of a gradient would run",
          cr_backward(cr_sum(cr_mul(w, x), CR_ALL, false), CR_NONE, NULL));
    cr_record_cancel();
    OK(cr_record_begin(1, in));
    cr_tensor *y = cr_add(x, x), *z = NULL;
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    const cr_tensor *wrong[] = {cr_ones(CR_LIST(5), CR_F32, cpu)};
    FAILS(CR_BAD_VALUE, "record the step again", cr_plan_run(p, wrong, &z));
    FAILS(CR_BAD_VALUE, "the plan is NULL", cr_plan_run(NULL, in, &z));
    OK(cr_record_begin(1, in));
    FAILS(CR_RUNTIME, "a plan runs while a step is recorded", cr_plan_run(p, in, &z));
    cr_record_cancel();
    net n = net_new(cpu, CR_SGD);
    double norm;
    OK(cr_record_begin(1, in));
    FAILS(CR_RUNTIME, "ask cr_optim_norm", cr_optim_step_clipped(n.opt, 1, &norm));
    cr_record_cancel();
    net_free(&n);
    FAILS(CR_BAD_VALUE, "CHAINRULE_PLAN lists passes", cr_switch_set("PLAN", "fusion"));
    cr_plan_free(p);
    cr_plan_free(NULL);
    cr_scope_end();
}

/* x + x on another thread, into y where there is one. */
typedef struct elsewhere { cr_tensor *x, *y; } elsewhere;
static void add_elsewhere(void *at) {
    elsewhere *e = at;
    if (e->y) cr_add_(e->y, e->x);
    else e->y = cr_unscope(cr_add(e->x, e->x));
}

TEST(other_threads) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(4), CR_F32, cr_cpu());
    for (int round = 0; round < 4; round++) {
        elsewhere e = {.x = x};
        OK(cr_record_begin(1, (const cr_tensor *const *)&x));
        cr_tensor *y = cr_exp(x);
        if (round == 0) e.y = y;                    /* writes a tensor of the step */
        if (round == 1) e.x = y;                    /* reads one */
        cr_thread_join(cr_thread_start(add_elsewhere, &e));
        if (round == 2) y = cr_mul(y, e.y);         /* makes one */
        if (round < 3) FAILS(CR_RUNTIME, "another thread takes part in a step",
                             cr_record_end(1, (const cr_tensor *const *)&y));
        else cr_plan_free(cr_record_end(1, (const cr_tensor *const *)&y));
        CHECK(!cr_error() && !cr_recording(), "round %d: %s", round, cr_error());
        if (round) cr_release(e.y);
    }
    cr_scope_end();
}

/* ---- memory: replays allocate nothing but results */
TEST(flat_memory) {
    const cr_device *cpu = cr_cpu();
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(300), CR_F32, cpu), *y, *z;
    OK(cr_record_begin(1, (const cr_tensor *const *)&x));
    y = cr_exp(cr_add(cr_mul(x, x), x));
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    int64_t before = 0;
    for (int i = 0; i < 10000; i++) {
        if (i == 10) before = cr_memory_stats(cpu).current;
        OK(cr_plan_run(p, (const cr_tensor *const *)&x, &z));
        cr_release(z);
    }
    const int64_t after = cr_memory_stats(cpu).current;
    CHECK(after == before, "%lld bytes more", (long long)(after - before));
    cr_plan_free(p);
    cr_scope_end();
}
