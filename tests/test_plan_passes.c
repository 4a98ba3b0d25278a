/* test_plan_passes.c - what passes over a plan must leave as it is: steps in which a careless pass changes a result.
 * tools/plan_mutants.py makes the passes careless. */
#pragma GCC diagnostic ignored "-Wunused-function"  /* of the network only a part */
#include "test.h"

#include "core/tensor.h"
#include "plan_net.h"

typedef cr_tensor *(*step)(const cr_tensor *x);

static cr_plan *recorded(step f, const cr_tensor *x) {
    OK(cr_record_begin(1, &x));
    cr_tensor *y = f(x);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    CHECK(p, "%s", cr_error());
    return p;
}

static cr_tensor *input(int number) {
    cr_generator *g = cr_generator_new((uint64_t)number);
    cr_tensor *x = cr_requires_grad_(cr_randn(CR_LIST(64, 32), CR_F32, cr_cpu(), g), true);
    cr_generator_free(g);
    return x;
}

static cr_tensor *gradient(const cr_tensor *y, const cr_tensor *x) {
    cr_tensor *dx = NULL, *g = cr_cos(cr_detach(y));
    OK(cr_gradients(1, &y, (const cr_tensor *const *)&g, 1, &x, &dx, NULL));
    return dx;
}

/* Results, and gradients that are asked for later, of three runs. */
static void runs_alike(const cr_plan *p, step f, const char *name) {
    for (int run = 1; run < 4; run++) {
        cr_scope_begin();
        const cr_tensor *x = input(run);
        cr_tensor *want = f(x), *got = NULL;
        OK(cr_plan_run((cr_plan *)(uintptr_t)p, &x, &got));
        CHECK(got && same_bits(got, want), "%s: the result of run %d differs", name, run);
        CHECK(got && same_bits(gradient(got, x), gradient(want, x)), "%s: the gradient of run %d differs", name, run);
        cr_scope_end();
    }
}

/* Kernels in front of a backward pass go, or become more: the backward pass begins elsewhere. */
static cr_tensor *with_dead_kernels(const cr_tensor *x) {
    cr_scope_begin();
    cr_sin(cr_detach(x));
    cr_cos(cr_detach(x));
    cr_tensor *y = cr_keep(cr_sigmoid(cr_mul(x, x)));
    cr_scope_end();
    return y;
}

TEST(dead_kernels) {
    OK(cr_switch_set("PLAN", "cse,fuse,tile"));
    cr_scope_begin();
    cr_plan *p = recorded(with_dead_kernels, input(0));
    runs_alike(p, with_dead_kernels, "dead kernels");
    const cr_plan_info info = cr_plan_look(p);
    CHECK(info.kernels == info.recorded - 2, "%d kernels of %d", info.kernels, info.recorded);
    cr_plan_free(p);
    cr_scope_end();
    OK(cr_switch_set("PLAN", NULL));
}

/* A kernel whose result nothing uses, and whose index may be out of range: given, or computed in the step. */
static cr_tensor *with_index(const cr_tensor *i, bool computed) {
    cr_scope_begin();
    cr_tensor *x = cr_arange(0, 10, 1, CR_F32, cr_cpu()), *y;
    cr_index_select(x, 0, computed ? cr_mul(i, i) : i);
    y = cr_keep(cr_mul(cr_to(i, CR_F32, cr_cpu()), cr_to(i, CR_F32, cr_cpu())));
    cr_scope_end();
    return y;
}

TEST(bad_indices) {
    cr_scope_begin();
    for (int computed = 0; computed < 2; computed++) {
        const int64_t good[] = {1, 2, 3}, bad[] = {1, 40, 3};
        const cr_tensor *i = cr_from(good, CR_LIST(3), CR_I64, cr_cpu()),
                        *wrong = cr_from(bad, CR_LIST(3), CR_I64, cr_cpu());
        cr_tensor *y;
        OK(cr_record_begin(1, &i));
        y = with_index(i, computed);
        cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
        OK(cr_plan_run(p, &i, &y));
        CHECK(cr_plan_run(p, &wrong, &y) == CR_BAD_INDEX, "computed %d: %s", computed, cr_error());
        cr_error_clear();
        bool fit;
        const cr_status status = cr_plan_try(p, &wrong, &y, &fit);
        CHECK(status == CR_BAD_INDEX && fit == computed, "computed %d: fit %d", computed, fit);
        cr_error_clear();
        cr_plan_free(p);
    }
    cr_scope_end();
}

/* A plan without a graph does not fit where the step would have one. */
TEST(graph_or_none) {
    cr_scope_begin();
    for (int off = 0; off < 2; off++) {
        const cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), off),
                        *leaf = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), true);
        const bool mode = cr_set_grad_enabled(!off);
        OK(cr_record_begin(1, &x));
        cr_tensor *y = cr_mul(x, x);
        cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
        CHECK(cr_plan_fits(p, &x), "off %d: as recorded", off);
        cr_set_grad_enabled(true);
        CHECK(!cr_plan_fits(p, &leaf), "off %d: fits an input that requires a gradient", off);
        cr_set_grad_enabled(false);
        CHECK(cr_plan_fits(p, &leaf), "off %d: does not fit without the gradient mode", off);
        cr_set_grad_enabled(mode);
        cr_plan_retire(p);
        CHECK(!cr_plan_fits(p, &x), "off %d: a retired plan fits", off);
        cr_plan_free(p);
    }
    cr_scope_end();
}

/* An update of large parameters, one kernel for all of them, in front of a result in a graph. */
TEST(update_before_graph) {
    enum { SIDE = 160 };
    cr_scope_begin();
    cr_tensor *w[2][2], *x = NULL;
    cr_params *params[2] = {cr_params_new(), cr_params_new()};
    cr_optim *opt[2];
    const cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_plan *plan = NULL;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 2; i++) {
            w[k][i] = cr_requires_grad_(cr_ones(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu()), true);
            OK(cr_params_add(params[k], i ? "b" : "a", w[k][i]));
            OK(cr_set_grad(w[k][i], cr_full(CR_LIST(SIDE, SIDE), 0.5 + i, CR_F32, cr_cpu())));
        }
        opt[k] = cr_optim_new(params[k], &o);
    }
    for (int run = 0; run < 4; run++) {
        cr_tensor *y[2] = {NULL};
        x = cr_requires_grad_(cr_full(CR_LIST(SIDE, SIDE), 1 + run, CR_F32, cr_cpu()), true);
        for (int k = 0; k < 2; k++) {
            if (k && run == 1) OK(cr_record_begin(1, (const cr_tensor *const *)&x));
            if (k && run > 1) { OK(cr_plan_run(plan, (const cr_tensor *const *)&x, &y[k])); continue; }
            OK(cr_optim_step(opt[k]));
            y[k] = cr_sigmoid(cr_mul(cr_detach(w[k][0]), cr_mul(x, cr_detach(w[k][1]))));
            if (k && run == 1) plan = cr_record_end(1, (const cr_tensor *const *)&y[k]);
        }
        REQUIRE(y[0] && y[1], "run %d: %s", run, cr_error());
        CHECK(same_bits(y[0], y[1]), "the result of run %d differs", run);
        CHECK(same_bits(gradient(y[0], x), gradient(y[1], x)), "the gradient of run %d differs", run);
    }
    for (int k = 0; k < 2; k++) cr_optim_free(opt[k]), cr_params_free(params[k]);
    cr_plan_free(plan);
    cr_scope_end();
}

/* What a kernel makes of nothing but a tensor from outside is new in each run: others may write that tensor. */
static cr_tensor *outside;
static cr_tensor *with_outside(const cr_tensor *x) { return cr_mul(x, cr_exp(outside)); }

TEST(tensor_from_outside) {
    cr_scope_begin();
    outside = cr_zeros(CR_LIST(64, 32), CR_F32, cr_cpu());
    cr_plan *p = recorded(with_outside, input(0));
    for (int i = 0; i < 2; i++) {
        runs_alike(p, with_outside, "a tensor from outside");
        cr_fill_(outside, 0.25);
    }
    cr_plan_free(p);
    cr_scope_end();
}

/* What is read backwards is read before a part of it changes, although what changes it could run earlier. */
static cr_tensor *backwards(const cr_tensor *x) {
    cr_tensor *y = cr_mul_scalar(x, 2), *more = cr_mul_scalar(cr_narrow(x, 0, 0, 32), 3);
    const cr_tensor *z = cr_flip(y, 1, (const int64_t[]){0});
    cr_add_(cr_narrow(y, 0, 0, 32), more);
    return cr_mul(y, z);
}

TEST(read_backwards) {
    cr_scope_begin();
    cr_plan *p = recorded(backwards, input(0));
    runs_alike(p, backwards, "read backwards");
    cr_plan_free(p);
    cr_scope_end();
}

/* A plan takes inputs in a graph where they were, with the strides that they had. */
TEST(inputs_that_do_not_fit) {
    cr_scope_begin();
    outside = cr_requires_grad_(cr_full(CR_LIST(64, 64), 0.5, CR_F32, cr_cpu()), true);
    cr_tensor *x = cr_ones(CR_LIST(64, 64), CR_F32, cr_cpu()), *y;
    cr_plan *p = recorded(with_outside, x);
    const cr_tensor *const turned = cr_transpose(x, 0, 1);
    CHECK(cr_plan_fits(p, (const cr_tensor *const *)&x), "the input of the recording");
    CHECK(!cr_plan_fits(p, &turned), "other strides");
    const cr_tensor *const whole = cr_to(x, CR_I32, cr_cpu()),
                    *const longer = cr_ones(CR_LIST(65, 64), CR_F32, cr_cpu());
    CHECK(!cr_plan_fits(p, &whole) && !cr_plan_fits(p, &longer), "another dtype, or shape");
    FAILS(CR_BAD_VALUE, "differ from the recording", cr_plan_run(p, &turned, &y));
    cr_requires_grad_(outside, false);
    CHECK(!cr_plan_fits(p, (const cr_tensor *const *)&x), "a tensor from outside that is frozen now");
    cr_requires_grad_(outside, true);
    cr_requires_grad_(x, true);
    CHECK(!cr_plan_fits(p, (const cr_tensor *const *)&x), "an input that is in a graph now");
    cr_plan_free(p);
    cr_scope_end();
}

/* A result, or a gradient that the step sets, beside an input in its memory: each run gets that memory, or does not
 * fit. */
TEST(results_beside_an_input) {
    cr_tensor *w = cr_requires_grad_(cr_zeros(CR_LIST(4), CR_F32, cr_cpu()), true);
    for (int gradient = 0; gradient < 2; gradient++) {
        cr_scope_begin();
        const cr_tensor *base = cr_ones(CR_LIST(2, 4), CR_F32, cr_cpu()), *x = cr_select(base, 0, 0),
                        *other = cr_select(cr_zeros(CR_LIST(2, 4), CR_F32, cr_cpu()), 0, 0);
        OK(cr_record_begin(1, &x));
        const cr_tensor *y[] = {cr_mul_scalar(x, 2), cr_select(base, 0, 1)};
        if (gradient) OK(cr_set_grad(w, y[1]));
        cr_plan *p = cr_record_end(gradient ? 1 : 2, y);
        REQUIRE(p, "%s", cr_error());
        CHECK(cr_plan_fits(p, &x), "the input of the recording");
        CHECK(!cr_plan_fits(p, &other), "%s beside another input", gradient ? "the gradient" : "the result");
        cr_plan_free(p);
        OK(cr_set_grad(w, CR_NONE));
        cr_scope_end();
    }
    cr_release(w);
}

/* ---- what the host writes into a tensor from outside that the step had not used.  Each run writes it too, before the
 * kernels behind, which could join those in front. */
static cr_tensor *written_by_the_host(const cr_tensor *x) {
    static float numbers[1024];
    for (int i = 0; i < 1024; i++) numbers[i] = (float)i;
    const cr_tensor *before = cr_exp(cr_narrow(x, 0, 32, 32));
    cr_tensor *half = cr_narrow(outside, 0, 32, 32);
    OK(cr_write(half, CR_F32, numbers, sizeof numbers));
    return cr_mul(before, half);
}

/* By a kernel: only the kernel behind it reads what it wrote. */
static cr_tensor *written_by_a_kernel(const cr_tensor *x) {
    cr_program *twice = cr_program_new("twice", "x", "", "x * 2");
    const cr_tensor *from = cr_detach(x);
    OK(cr_program_update(twice, 1, &outside, &from, NULL));
    cr_program_free(twice);
    return cr_mul_scalar(outside, 3);
}

/* Behind a transfer that reads it. */
static cr_tensor *written_behind_a_transfer(const cr_tensor *x) {
    const cr_tensor *before = cr_exp(cr_detach(cr_narrow(x, 0, 32, 32)));
    cr_tensor *half = cr_narrow(outside, 0, 32, 32);
    const cr_tensor *there = cr_to(half, CR_F32, cr_ref());
    cr_mul_(half, before);
    return cr_to(there, CR_F32, cr_cpu());
}

TEST(written_outside) {
    const step steps[] = {written_by_the_host, written_by_a_kernel, written_behind_a_transfer};
    for (int i = 0; i < 3; i++) {
        cr_scope_begin();
        outside = cr_ones(CR_LIST(64, 32), CR_F32, cr_cpu());
        cr_tensor *other = outside, *own = cr_ones(CR_LIST(64, 32), CR_F32, cr_cpu()), *y;
        cr_plan *p = recorded(steps[i], input(0));
        for (int run = 1; run < 4; run++) {
            const cr_tensor *x = input(run);
            outside = own;
            const cr_tensor *want = steps[i](x);
            cr_fill_(other, 1);
            OK(cr_plan_run(p, &x, &y));
            CHECK(same_bits(y, want), "step %d: the result of run %d differs", i, run);
            CHECK(same_bits(other, own), "step %d: what run %d wrote differs", i, run);
            cr_fill_(own, 1);
        }
        cr_plan_free(p);
        cr_scope_end();
    }
}

/* A backward pass that computes what the forward pass has: it reads the input, which may have changed meanwhile. */
static cr_status exp_grad(const cr_function_call *c, cr_tensor **dx) {
    dx[0] = cr_mul(c->grads[0], cr_exp(c->saved[0]));
    return CR_OK;
}

static cr_tensor *exp_by_hand(const cr_tensor *x) {
    const bool mode = cr_set_grad_enabled(false);
    const cr_tensor *y = cr_mul_scalar(cr_exp(x), 2);
    cr_tensor *result = NULL;
    cr_set_grad_enabled(mode);
    OK(cr_function_record(&(cr_function_use){.name = "exp", .n_in = 1, .in = &x, .n_out = 1, .out = &y, .n_saved = 1,
                                             .saved = &x, .backward = exp_grad}, &result));
    return result;
}

/* Its trial must not write what was there before the step. */
static cr_status write_outside(const cr_function_call *c, cr_tensor **dx) {
    const cr_status status = *(const bool *)c->ctx ? cr_write(outside, CR_F32, &(float){2}, sizeof(float))
                             : cr_add_(outside, cr_scalar(1)) ? CR_OK : cr_error_status();
    if (status != CR_OK) return status;
    dx[0] = cr_mul_scalar(c->grads[0], 2);
    return CR_OK;
}

TEST(backward_pass_that_writes_outside) {
    for (int k = 0; k < 2; k++) {
        cr_scope_begin();
        outside = cr_ones(CR_LIST(1), CR_F32, cr_cpu());
        bool host = k;
        const cr_tensor *x = input(0);
        cr_tensor *result;
        OK(cr_record_begin(1, &x));
        const cr_tensor *y = cr_mul_scalar(cr_detach(x), 2);
        OK(cr_function_record(&(cr_function_use){.name = "twice", .n_in = 1, .in = &x, .n_out = 1, .out = &y,
                                                 .backward = write_outside, .ctx = &host}, &result));
        FAILS(CR_RUNTIME, "a backward pass that has not begun would write a tensor from outside",
              cr_record_end(1, (const cr_tensor *const *)&result));
        CHECK(cr_item(outside) == 1, "%g was written", cr_item(outside));
        cr_scope_end();
    }
}

TEST(input_read_again_backwards) {
    cr_scope_begin();
    cr_plan *p = recorded(exp_by_hand, input(0));
    runs_alike(p, exp_by_hand, "a function");
    const cr_tensor *x = input(1);
    cr_tensor *y, *dx;
    OK(cr_plan_run(p, &x, &y));
    cr_set_grad_enabled(false);
    cr_mul_((cr_tensor *)(uintptr_t)x, cr_scalar(2));
    cr_set_grad_enabled(true);
    const cr_tensor *sum = cr_sum(y, CR_ALL, false);
    FAILS(CR_RUNTIME, "modified in place", cr_gradients(1, &sum, NULL, 1, &x, &dx, NULL));
    cr_plan_free(p);
    cr_scope_end();
}

/* Numbers of the host that the step changes, in front of a backward pass. */
static cr_tensor *changed_numbers(const cr_tensor *x) {
    cr_tensor *c = cr_from((float[]){1, 2}, CR_LIST(2), CR_F32, cr_cpu());
    cr_add_(c, cr_scalar(0.25));
    return cr_mul(cr_sigmoid(x), cr_select(c, 0, 1));
}

TEST(changed_numbers) {
    cr_scope_begin();
    cr_plan *p = recorded(changed_numbers, input(0));
    runs_alike(p, changed_numbers, "numbers of the host that change");
    cr_plan_free(p);
    cr_scope_end();
}

/* A gradient that the step reads by its own name, before it reads the slot, stays that tensor. */
TEST(gradient_by_two_names) {
    cr_scope_begin();
    cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(64), CR_F32, cr_cpu()), true);
    cr_tensor *g = cr_full(CR_LIST(64), 0.5, CR_F32, cr_cpu());
    OK(cr_set_grad(w, g));
    OK(cr_record_begin(0, NULL));
    cr_tensor *y = cr_exp(g);
    y = cr_mul(y, cr_grad(w));
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    REQUIRE(p, "%s", cr_error());
    CHECK(cr_plan_fits(p, NULL), "the gradient of the recording");
    OK(cr_set_grad(w, cr_full(CR_LIST(64), 2, CR_F32, cr_cpu())));
    CHECK(!cr_plan_fits(p, NULL), "another gradient: the plan would read it by both names");
    cr_plan_free(p);
    cr_scope_end();
}

/* A gradient that the step itself reads before the update takes it. */
static cr_tensor *step_that_reads(net *n, const cr_tensor *x) {
    cr_scope_begin();
    OK(cr_backward(cr_mean(cr_square(cr_linear(x, n->w1, CR_NONE)), CR_ALL, false), CR_NONE, NULL));
    cr_set_grad_enabled(false);
    cr_tensor *sum = cr_keep(cr_sum(cr_square(cr_grad(n->w1)), CR_ALL, false));
    OK(cr_optim_step(n->opt));
    cr_set_grad_enabled(true);
    cr_params_zero_grad(n->params);
    cr_scope_end();
    return sum;
}

TEST(gradient_read_twice) {
    cr_scope_begin();
    net a = net_new(cr_cpu(), CR_ADAMW), b = net_new(cr_cpu(), CR_ADAMW);
    dev_now = cr_cpu();
    cr_plan *plan = NULL;
    for (int run = 0; run < 4; run++) {
        const cr_tensor *x = batch(cr_cpu(), run);
        cr_tensor *want = step_that_reads(&a, x), *got = NULL;
        if (run == 1) OK(cr_record_begin(1, &x));
        if (run <= 1) got = step_that_reads(&b, x);
        if (run == 1) plan = cr_record_end(1, (const cr_tensor *const *)&got);
        if (run > 1) OK(cr_plan_run(plan, &x, &got));
        CHECK(got && same_bits(got, want), "the norm of run %d differs", run);
        same_nets(&a, &b, "after a step that reads its gradient");
    }
    cr_plan_free(plan);
    net_free(&a);
    net_free(&b);
    cr_scope_end();
}

/* A host's step that ends the run: updates behind it have not taken place, not in a product in front of it either. */
static cr_status may_fail(cr_plan *p, void *ctx, const double *numbers, double *results) {
    (void)p, (void)numbers, (void)results;
    return *(const bool *)ctx ? CR_RUNTIME : CR_OK;
}

/* product: the update may run in the product that makes the gradient; else right behind a large one. */
static void waits_for_host(bool product) {
    const cr_device *cpu = cr_cpu();
    const int64_t rows = product ? 8 : 512, wide = 256;
    bool fails = false;
    cr_scope_begin();
    cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(rows, wide), CR_F32, cpu), true);
    cr_params *params = cr_params_new();
    OK(cr_params_add(params, "w", w));
    const cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_optim *opt = cr_optim_new(params, &o);
    cr_plan *plan = NULL;
    for (int run = 0; run < 4; run++) {
        const cr_tensor *x = cr_full(CR_LIST(rows, wide), 1 + run, CR_F32, cpu), *before = cr_clone(cr_detach(w));
        fails = run == 3;
        if (run > 1) {
            CHECK((cr_plan_run(plan, &x, NULL) == CR_OK) == !fails, "run %d", run);
            CHECK(same_bits(before, w) == fails, "run %d, %s: the weight", run, product ? "a product" : "no product");
            cr_error_clear();
            continue;
        }
        if (run == 1) OK(cr_record_begin(1, &x));
        cr_scope_begin();
        const cr_tensor *y = product ? cr_square(cr_linear(x, w, CR_NONE)) : cr_mul(w, x);
        OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
        OK(cr_record_host(0, NULL, 0, NULL, may_fail, &fails, NULL));
        OK(cr_optim_step(opt));
        cr_params_zero_grad(params);
        cr_scope_end();
        if (run == 1) plan = cr_record_end(0, NULL);
    }
    cr_plan_free(plan);
    cr_optim_free(opt);
    cr_params_free(params);
    cr_scope_end();
}

TEST(host_before_update) {
    waits_for_host(true);
    waits_for_host(false);
}

/* Values of which two live at a time share the memory of two or three. */
static cr_tensor *one_after_the_other(const cr_tensor *x) {
    cr_scope_begin();
    cr_tensor *y = cr_detach(x);
    for (int i = 0; i < 20; i++) y = cr_softmax(y, 1);
    cr_keep(y);
    cr_scope_end();
    return y;
}

TEST(shared_memory) {
    OK(cr_switch_set("PLAN", "tile"));
    cr_scope_begin();
    const cr_tensor *x = input(0);
    cr_plan *p = recorded(one_after_the_other, x);
    const cr_plan_info info = cr_plan_look(p);
    const int64_t one = cr_numel(x) * 4;
    CHECK(info.arena <= 3 * one && info.temporaries >= 19 * one, "%lld bytes of %lld", (long long)info.arena,
          (long long)info.temporaries);
    cr_plan_free(p);
    cr_scope_end();
    OK(cr_switch_set("PLAN", NULL));
}
