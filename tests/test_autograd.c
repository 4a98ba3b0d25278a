/* test_autograd.c - the graph itself: walk, accumulation, saved tensors, in-place work, hooks,
 * checkpointing, custom ops. Gradients of single ops are test_grad.c's. */
#include "test.h"
#include "core/tensor.h"

static const cr_device *devices[2];
static int n_devices(void) { devices[0] = cr_cpu(); devices[1] = cr_ref(); return 2; }
#define EACH_DEVICE(d) for (int d##_i = 0, d##_n = n_devices(); d##_i < d##_n; d##_i++) for (const cr_device *d = \
    devices[d##_i]; d; d = NULL, test_ran_on(devices[d##_i]))

static cr_tensor *vec3(double a, double b, double c, const cr_device *d) {
    double v[3] = {a, b, c};
    return cr_from(v, CR_LIST(3), CR_F64, d);
}
static cr_tensor *leaf3(double a, double b, double c, const cr_device *d) {
    return cr_requires_grad_(vec3(a, b, c, d), true);
}
static cr_tensor *total(const cr_tensor *x) { return cr_sum(x, CR_ALL, false); }

static void expect3(const cr_tensor *t, double a, double b, double c, int line) {
    double v[3] = {0}, want[3] = {a, b, c};
    if (!t || t == CR_NONE) { test_fail(__FILE__, line, "no tensor: %s", cr_error() ? cr_error() : "none"); return; }
    OK(cr_read(t, CR_F64, v, sizeof v));
    for (int i = 0; i < 3; i++)
        if (!(fabs(v[i] - want[i]) <= 1e-12 * (1 + fabs(want[i]))))
            test_fail(__FILE__, line, "element %d is %.17g, wanted %.17g", i, v[i], want[i]);
}
#define EXPECT3(t, a, b, c) expect3(t, a, b, c, __LINE__)

TEST(accumulates_over_uses_and_calls) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d), *y = total(cr_mul(cr_add(x, x), x));     /* 2 x^2 */
        OK(cr_backward(y, CR_NONE, &(cr_backward_options){.retain_graph = true}));
        EXPECT3(cr_grad(x), 4, 8, 12);
        OK(cr_backward(y, CR_NONE, NULL));
        EXPECT3(cr_grad(x), 8, 16, 24);
        FAILS(CR_RUNTIME, "retain_graph", cr_backward(y, CR_NONE, NULL));
        OK(cr_set_grad(x, CR_NONE));
        CHECK(cr_is_none(cr_grad(x)), "the gradient stays");
        cr_scope_end();
    }
}

/* Overlapping parts of one tensor, and rows of it: their gradients are added where the first one lies. */
static cr_tensor *use_parts(int n, const cr_tensor *const *in, void *ctx) {
    const cr_tensor *x = in[0], *index = ctx;
    (void)n;
    cr_tensor *h = cr_mul(x, x), *part = cr_slice(h, 0, 1, 5, 2), *row = cr_select(h, 0, 3),
              *rows = cr_embedding(h, index);
    cr_tensor *sum = cr_add(cr_add(total(cr_mul(part, part)), total(cr_exp(row))), total(cr_mul(rows, rows)));
    return cr_add(sum, total(cr_mul(cr_slice(h, 1, 0, 2, 1), cr_slice(h, 1, 1, 3, 1))));
}

TEST(parts_add_to_one_gradient) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_generator *g = cr_generator_new(test_seed());
        cr_tensor *index = cr_from((int64_t[]){4, 0, 4}, CR_LIST(3), CR_I64, d),
                  *x = cr_requires_grad_(cr_randn(CR_LIST(5, 3), CR_F64, d, g), true);
        OK(cr_gradcheck(use_parts, index, 1, (const cr_tensor *[]){x}, NULL));
        OK(cr_gradgradcheck(use_parts, index, 1, (const cr_tensor *[]){x}, NULL));
        /* a cotangent that somebody else reads is left alone: dy/dh = 1 serves h and k alike */
        cr_tensor *h = cr_mul_scalar(x, 1), *k = cr_mul_scalar(x, 1), *part = cr_select(h, 0, 1), *y = cr_add(h, k);
        OK(cr_retain_grad(h));
        OK(cr_retain_grad(k));
        OK(cr_backward(cr_add(total(y), total(part)), CR_NONE, NULL));
        CHECK(cr_item(total(cr_grad(k))) == 15, "k's gradient was written to: sum %g", cr_item(total(cr_grad(k))));
        CHECK(cr_item(total(cr_grad(h))) == 18, "h's gradient: sum %g", cr_item(total(cr_grad(h))));
        /* nor is one that was kept, or given from outside, written over by the next gradient */
        cr_tensor *u = leaf3(1, 2, 3, d), *v = cr_square(u), *w = cr_square(v), *seed = vec3(1, 1, 1, d);
        OK(cr_retain_grad(v));
        OK(cr_backward(w, seed, NULL));
        EXPECT3(seed, 1, 1, 1);
        EXPECT3(cr_grad(v), 2, 8, 18);
        EXPECT3(cr_grad(u), 4, 32, 108);
        cr_generator_free(g);
        cr_scope_end();
    }
}

TEST(broadcast_and_promotion_are_undone) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *a = cr_requires_grad_(cr_ones(CR_LIST(2, 1), CR_F32, d), true), *b = leaf3(1, 2, 3, d);
        OK(cr_backward(total(cr_mul(a, b)), CR_NONE, NULL));
        CHECK(cr_ndim(cr_grad(a)) == 2 && cr_size(cr_grad(a), 0) == 2 && cr_size(cr_grad(a), 1) == 1,
              "shape of a's gradient");
        CHECK(cr_dtype_of(cr_grad(a)) == CR_F32, "dtype of a's gradient: %s", cr_dtype_name(cr_dtype_of(cr_grad(a))));
        EXPECT3(cr_grad(b), 2, 2, 2);
        cr_scope_end();
    }
}

TEST(gradients_of_chosen_tensors_only) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d), *w = leaf3(5, 6, 7, d), *unused = leaf3(0, 0, 0, d);
        cr_tensor *h = cr_mul(x, w), *y = total(cr_mul(h, h)), *g[3];
        OK(cr_gradients(1, (const cr_tensor *[]){y}, NULL, 3, (const cr_tensor *[]){h, x, unused}, g, NULL));
        EXPECT3(g[0], 10, 24, 42);
        EXPECT3(g[1], 50, 144, 294);
        CHECK(cr_is_none(g[2]), "a gradient for what y does not depend on");
        CHECK(cr_is_none(cr_grad(x)) && cr_is_none(cr_grad(w)), "leaves collected");
        const cr_device *other = d == cr_cpu() ? cr_ref() : cr_cpu();
        FAILS(CR_BAD_VALUE, "[set_grad] the gradient is float64 (3,) on ", cr_set_grad(x, vec3(1, 1, 1, other)));
        FAILS(CR_BAD_VALUE, "[set_grad] the gradient is float32 (3,)", cr_set_grad(x, cr_ones(CR_LIST(3), CR_F32, d)));
        FAILS(CR_BAD_VALUE, "[set_grad] the gradient is float64 (1, 3)",
              cr_set_grad(x, cr_ones(CR_LIST(1, 3), CR_F64, d)));
        cr_scope_end();
    }
}

TEST(higher_orders) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d), *y = cr_mul(cr_mul(x, x), cr_mul(x, x)), *g = total(y);
        cr_backward_options o = {.create_graph = true};
        for (int i = 0; i < 3; i++) {                /* x^4 -> 4x^3 -> 12x^2 -> 24x */
            cr_tensor *next;
            OK(cr_gradients(1, (const cr_tensor *[]){g}, NULL, 1, (const cr_tensor *[]){x}, &next, &o));
            if (i == 2) EXPECT3(next, 24, 48, 72);
            g = total(next);
        }
        cr_scope_end();
    }
}

TEST(no_grad_and_detach) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d);
        bool mode = cr_set_grad_enabled(false);
        cr_tensor *y = cr_mul(x, x);
        cr_set_grad_enabled(mode);
        CHECK(mode && !cr_requires_grad(y) && cr_is_leaf(y), "recorded without gradient mode");
        cr_tensor *z = cr_mul(cr_detach(x), x);
        OK(cr_backward(total(z), CR_NONE, NULL));
        EXPECT3(cr_grad(x), 1, 2, 3);
        FAILS(CR_RUNTIME, "does not depend", cr_backward(total(y), CR_NONE, NULL));
        FAILS(CR_RUNTIME, "(3,) needs `gradient`", cr_backward(cr_mul(x, x), CR_NONE, NULL));
        FAILS(CR_BAD_VALUE, "(2,)", cr_backward(cr_mul(x, x), cr_ones(CR_LIST(2), CR_F64, d), NULL));
        FAILS(CR_BAD_TYPE, "int64", cr_requires_grad_(cr_zeros(CR_LIST(2), CR_I64, d), true));
        cr_scope_end();
    }
}

TEST(writing_what_the_backward_pass_needs_is_an_error) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d), *h = cr_add_scalar(x, 0.5), *y = total(cr_mul(h, h));
        cr_add_(h, vec3(1, 1, 1, d));
        FAILS(CR_RUNTIME, "[mul] input 0", cr_backward(y, CR_NONE, NULL));
        cr_tensor *e = cr_exp(x);
        cr_fill_(cr_detach(e), 0);
        FAILS(CR_RUNTIME, "[exp] its result", cr_backward(total(e), CR_NONE, NULL));
        FAILS(CR_RUNTIME, "leaf", cr_add_(x, vec3(1, 1, 1, d)));
        bool mode = cr_set_grad_enabled(false);
        CHECK(cr_add_(x, vec3(1, 1, 1, d)) != NULL, "a leaf under no-grad: %s", cr_error());
        cr_set_grad_enabled(mode);
        EXPECT3(x, 2, 3, 4);
        cr_scope_end();
    }
}

/* Each way to write into a tensor, outside of any graph, is seen by the backward pass that reads it later. */
enum { WAYS = 17 };
static bool write_in_way(int way, cr_tensor *s, const cr_device *d) {      /* s (2, 2) */
    const cr_tensor *ones = cr_ones(CR_LIST(2, 2), CR_F64, d), *at = cr_zeros(CR_LIST(1), CR_I64, d);
    const cr_tensor *places = cr_zeros(CR_LIST(2, 2), CR_I64, d);
    const cr_tensor *row = cr_ones(CR_LIST(1, 2), CR_F64, d), *mask = cr_ones(CR_LIST(2, 2), CR_BOOL, d);
    const double numbers[4] = {9, 9, 9, 9};
    switch (way) {
        case 0: return cr_fill_(s, 3);
        case 1: return cr_copy_(s, ones);
        case 2: return cr_write(s, CR_F64, numbers, sizeof numbers) == CR_OK;
        case 3: return cr_write(cr_transpose(s, 0, 1), CR_F64, numbers, sizeof numbers) == CR_OK;
        case 4: return cr_add_(s, ones);
        case 5: return cr_fill_(cr_select(s, 0, 1), 3);
        case 6: return cr_index_fill_(s, 0, at, cr_scalar(2));
        case 7: return cr_index_copy_(s, 0, at, row);
        case 8: return cr_index_add_(s, 0, at, row);
        case 9: return cr_index_put_(s, 1, &at, row, false);
        case 10: return cr_masked_fill_(s, mask, 2);
        case 11: return cr_masked_scatter_(s, mask, ones);
        case 12: return cr_tril_(s, -1);
        case 13: return cr_scatter_(s, 0, places, ones);
        case 14: return cr_scatter_add_(s, 0, places, ones);
        case 15: return cr_uniform_(s, 0, 1, cr_default_generator());
        default: return cr_bernoulli_(s, cr_scalar(0.5), cr_default_generator());
    }
}

TEST(every_way_to_write_is_seen) {
    EACH_DEVICE(d)
        for (int way = 0; way < WAYS; way++) {
            cr_scope_begin();
            cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(2, 2), CR_F64, d), true);
            cr_tensor *s = cr_full(CR_LIST(2, 2), 4, CR_F64, d);
            cr_tensor *y = total(cr_mul(x, s));
            CHECK(write_in_way(way, s, d), "way %d: %s", way, cr_error());
            FAILS(CR_RUNTIME, "was modified in place since", cr_backward(y, CR_NONE, NULL));
            cr_scope_end();
        }
}

TEST(in_place_work_on_results) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d), *w = leaf3(2, 3, 4, d), *y = cr_add_scalar(x, 1);
        CHECK(cr_mul_(y, w) == y, "mul_: %s", cr_error());        /* (x + 1) w: d/dw reads a copy of y's old value */
        OK(cr_backward(total(y), CR_NONE, NULL));
        EXPECT3(cr_grad(x), 2, 3, 4);
        EXPECT3(cr_grad(w), 2, 3, 4);
        cr_tensor *z = cr_add_scalar(x, 1);
        CHECK(cr_add_(z, cr_mul(w, w)) == z, "add_: %s", cr_error());
        OK(cr_set_grad(x, CR_NONE));
        OK(cr_set_grad(w, CR_NONE));
        OK(cr_backward(total(z), CR_NONE, NULL));
        EXPECT3(cr_grad(x), 1, 1, 1);
        EXPECT3(cr_grad(w), 4, 6, 8);
        cr_tensor *base = cr_add_scalar(x, 0), *view = cr_slice(base, 0, 0, 2, 1);
        CHECK(cr_mul_(base, vec3(3, 3, 3, d)) != NULL, "mul_ by a constant: %s", cr_error());
        OK(cr_set_grad(x, CR_NONE));
        OK(cr_backward(total(view), CR_NONE, NULL));            /* the view follows: test_views.c */
        EXPECT3(cr_grad(x), 3, 3, 0);
        FAILS(CR_BAD_VALUE, "cannot be written into", cr_add_(vec3(1, 1, 1, d), cr_ones(CR_LIST(2, 3), CR_F64, d)));
        FAILS(CR_BAD_VALUE, "expanded",
              cr_add_(cr_expand(cr_ones(CR_LIST(1), CR_F64, d), CR_LIST(3)), vec3(1, 1, 1, d)));
        FAILS(CR_BAD_TYPE, "int64", cr_add_(cr_zeros(CR_LIST(3), CR_I64, d), vec3(1, 1, 1, d)));
        cr_scope_end();
    }
}

TEST(overlapping_operands_in_place) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        double v[4] = {1, 2, 3, 4};
        cr_tensor *x = cr_from(v, CR_LIST(4), CR_F64, d), *tail = cr_slice(x, 0, 1, 4, 1),
                  *front = cr_slice(x, 0, 0, 3, 1);
        CHECK(cr_add_(tail, front) != NULL, "add_: %s", cr_error());
        EXPECT3(tail, 3, 5, 7);
        cr_scope_end();
    }
}

static cr_tensor *double_it(const cr_tensor *g, void *ctx) { ++*(int *)ctx; return cr_mul_scalar(g, 2); }
static cr_tensor *look(const cr_tensor *g, void *ctx) {
    (void)g;
    ++*(int *)ctx;
    return (cr_tensor *)(uintptr_t)CR_NONE;
}
static cr_tensor *ends_a_scope(const cr_tensor *g, void *ctx) {
    (void)g;
    (void)ctx;
    cr_scope_end();
    return (cr_tensor *)(uintptr_t)CR_NONE;
}
static cr_tensor *wrong(const cr_tensor *g, void *ctx) { (void)ctx; return cr_unsqueeze(g, 0); }

TEST(hooks) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        int doubled = 0, seen = 0;
        cr_tensor *x = leaf3(1, 2, 3, d), *h = cr_mul_scalar(x, 3), *y = total(cr_add(h, h));
        int64_t id = cr_add_hook(x, double_it, &doubled, NULL);
        CHECK(id > 0 && cr_add_hook(h, look, &seen, NULL) > 0, "add_hook: %s", cr_error());
        OK(cr_retain_grad(h));
        OK(cr_backward(y, CR_NONE, &(cr_backward_options){.retain_graph = true}));
        EXPECT3(cr_grad(x), 12, 12, 12);
        EXPECT3(cr_grad(h), 2, 2, 2);
        CHECK(doubled == 1 && seen == 1, "hooks ran %d and %d times", doubled, seen);
        const cr_tensor *from = y, *to = x;
        cr_tensor *g;
        OK(cr_gradients(1, &from, NULL, 1, &to, &g, &(cr_backward_options){.retain_graph = true}));
        EXPECT3(g, 12, 12, 12);                      /* whoever asks gets what the hooks made of it */
        OK(cr_remove_hook(x, id));
        FAILS(CR_BAD_VALUE, "no hook", cr_remove_hook(x, id));
        OK(cr_backward(y, CR_NONE, &(cr_backward_options){.retain_graph = true}));
        EXPECT3(cr_grad(x), 18, 18, 18);
        cr_add_hook(h, wrong, NULL, NULL);
        FAILS(CR_BAD_VALUE, "(1, 3)", cr_backward(y, CR_NONE, NULL));
        FAILS(CR_RUNTIME, "does not require", cr_add_hook(vec3(1, 2, 3, d), look, &seen, NULL));
        cr_add_hook(x, ends_a_scope, NULL, NULL);    /* the walk's own scope is not the hook's to end */
        FAILS(CR_RUNTIME, "no scope is open", cr_backward(total(cr_mul(x, x)), CR_NONE, NULL));
        cr_scope_end();
    }
}

static cr_tensor *halves_grad(const cr_tensor *leaf, void *ctx) {
    cr_scope_begin();
    cr_set_grad((cr_tensor *)(uintptr_t)leaf, cr_keep(cr_mul_scalar(cr_grad(leaf), 0.5)));
    cr_scope_end();
    return look(leaf, ctx);
}
static cr_tensor *fails(const cr_tensor *leaf, void *ctx) { (void)leaf; (void)ctx; return NULL; }

/* ---- behind a pass: each gradient is complete, in the order of the calls, once */
typedef struct behind { cr_tensor *x, *y; int calls, dropped; double sum; bool fails; } behind;

static cr_status look_behind(void *ctx) {
    behind *b = ctx;
    b->calls++;
    b->sum = cr_item(total(cr_grad(b->x))) + cr_item(total(cr_grad(b->y)));
    return b->fails ? CR_RUNTIME : CR_OK;
}

static void dropped_behind(void *ctx) { ((behind *)ctx)->dropped++; }

static cr_tensor *asks_behind(const cr_tensor *leaf, void *ctx) {
    (void)leaf;
    if (cr_after_backward(look_behind, ctx, dropped_behind)) return NULL;
    return cr_retain(CR_NONE);
}

TEST(calls_behind_a_pass) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        behind b = {.x = leaf3(1, 2, 3, d), .y = leaf3(1, 2, 3, d)};
        int runs = 0;
        cr_add_late_hook(b.x, asks_behind, &b, NULL);
        OK(cr_backward(total(cr_add(b.x, cr_mul_scalar(b.y, 2))), CR_NONE, NULL));
        CHECK(b.calls == 1 && b.dropped == 1 && b.sum == 9, "%d calls, %d dropped, sum %g", b.calls, b.dropped, b.sum);
        OK(cr_backward(total(b.y), CR_NONE, NULL));
        CHECK(b.calls == 1, "a pass that asked for nothing calls");
        b.fails = true;
        FAILS(CR_RUNTIME, "a function behind a pass failed without a message", cr_backward(total(b.x), CR_NONE, NULL));
        cr_add_late_hook(b.x, fails, &runs, NULL);
        FAILS(CR_RUNTIME, "a hook of a leaf failed", cr_backward(total(b.x), CR_NONE, NULL));
        CHECK(b.calls == 2 && b.dropped == 3, "after a failure: %d calls, %d dropped", b.calls, b.dropped);
        FAILS(CR_RUNTIME, "[after_backward] no backward pass runs", cr_after_backward(look_behind, &b, NULL));
        cr_scope_end();
    }
}

TEST(late_hooks) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        int runs = 0, first = 0;
        cr_tensor *x = leaf3(1, 2, 3, d), *y = cr_mul_scalar(x, 4);
        const int64_t id = cr_add_late_hook(x, halves_grad, &runs, NULL);
        CHECK(id && cr_add_hook(x, double_it, &first, NULL), "add_late_hook: %s", cr_error());
        OK(cr_backward(total(cr_add(y, x)), CR_NONE, &(cr_backward_options){.retain_graph = true}));
        EXPECT3(cr_grad(x), 5, 5, 5);                /* (4 + 1) doubled by one kind, halved by the other */
        CHECK(runs == 1 && first == 1, "the hooks ran %d and %d times", runs, first);
        const cr_tensor *to = x, *from = total(y);
        cr_tensor *g;
        OK(cr_gradients(1, &from, NULL, 1, &to, &g, NULL));
        CHECK(runs == 1, "nothing is added to a gradient that is returned");
        OK(cr_backward(total(cr_mul_scalar(x, 3)), CR_NONE, &(cr_backward_options){.n_inputs = 1, .inputs = &to}));
        EXPECT3(cr_grad(x), 5.5, 5.5, 5.5);          /* (5 + 6) / 2 */
        OK(cr_remove_hook(x, id));
        OK(cr_backward(total(x), CR_NONE, NULL));
        EXPECT3(cr_grad(x), 7.5, 7.5, 7.5);
        cr_add_late_hook(x, fails, NULL, NULL);
        FAILS(CR_RUNTIME, "a hook of a leaf failed without a message", cr_backward(total(x), CR_NONE, NULL));
        FAILS(CR_RUNTIME, "[add_late_hook] the tensor is not a leaf",
              cr_add_late_hook(cr_mul(x, x), fails, NULL, NULL));
        FAILS(CR_RUNTIME, "does not require", cr_add_late_hook(vec3(1, 2, 3, d), fails, NULL, NULL));
        FAILS(CR_BAD_VALUE, "the hook", cr_add_late_hook(x, NULL, NULL, NULL));
        cr_scope_end();
    }
}

/* The result of several ops may be called as the function that made it; a tensor that the function only passes on keeps
 * its name. */
TEST(renamed_nodes) {
    cr_scope_begin();
    cr_tensor *x = leaf3(1, 2, 3, cr_cpu()), *y = cr_mul_scalar(x, 2);
    cr_node_rename(y, "twice");
    cr_tensor *same = cr_view(y, CR_LIST(3));
    CHECK(!strcmp(cr_op_name(y), "twice") && !strcmp(cr_op_name(same), "view"), "%s, %s", cr_op_name(y),
          cr_op_name(same));
    cr_node_rename(x, "leaf");
    CHECK(!strcmp(cr_op_name(x), ""), "a leaf has no op: %s", cr_op_name(x));
    cr_node *n = cr_node_of(y);
    cr_node_rename(y, "shared");
    CHECK(!strcmp(cr_node_look(n).op, "twice"), "a node with another reference: %s", cr_node_look(n).op);
    cr_node_release(n);
    OK(cr_backward(total(y), CR_NONE, NULL));
    EXPECT3(cr_grad(x), 2, 2, 2);
    cr_scope_end();
}

/* Storage for a hook's ctx that lives as long as the hook. */
typedef struct life { cr_tensor *t; int64_t id; int runs, ended; } life;
static void end_life(void *ctx) { ((life *)ctx)->ended++; }
static cr_tensor *watch(const cr_tensor *g, void *ctx) { return look(g, &((life *)ctx)->runs); }
static cr_tensor *once(const cr_tensor *g, void *ctx) {
    life *l = ctx;
    OK(cr_remove_hook(l->t, l->id));
    CHECK(!l->ended, "ended while it runs");
    return look(g, &l->runs);
}

TEST(hooks_end_once) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        life removed = {0}, freed = {0}, of_leaf = {0}, of_itself = {0}, after = {0};
        cr_tensor *x = leaf3(1, 2, 3, d), *h = cr_mul_scalar(x, 3), *y = total(h);
        const int64_t id = cr_add_hook(h, watch, &removed, end_life);
        CHECK(cr_add_hook(h, watch, &freed, end_life) > id, "the second hook's number");
        cr_add_hook(x, watch, &of_leaf, end_life);
        of_itself = (life){.t = h, .id = cr_add_hook(h, once, &of_itself, end_life)};
        cr_add_hook(h, watch, &after, end_life);
        OK(cr_backward(y, CR_NONE, &(cr_backward_options){.retain_graph = true}));
        CHECK(of_itself.runs == 1 && of_itself.ended == 1 && after.runs == 1,
              "a hook that removes itself: %d, %d; the next one: %d", of_itself.runs, of_itself.ended, after.runs);
        OK(cr_remove_hook(h, id));
        CHECK(removed.ended == 1 && !freed.ended, "removed: ended %d times, the other one %d", removed.ended,
              freed.ended);
        OK(cr_backward(y, CR_NONE, NULL));
        CHECK(removed.runs == 1 && freed.runs == 2 && of_itself.runs == 1, "runs: %d, %d, %d", removed.runs, freed.runs,
              of_itself.runs);
        cr_release(h);
        CHECK(!freed.ended, "the graph still carries it");
        cr_release(y);
        CHECK(freed.ended == 1 && after.ended == 1 && removed.ended == 1 && of_itself.ended == 1,
              "ended: %d, %d, %d, %d", freed.ended, after.ended, removed.ended, of_itself.ended);
        CHECK(!of_leaf.ended, "the leaf lives");
        cr_requires_grad_(x, false);
        FAILS(CR_RUNTIME, "does not require", cr_add_hook(x, watch, &of_leaf, end_life));
        cr_requires_grad_(x, true);                 /* switched off and on, it has its hooks */
        OK(cr_backward(total(x), CR_NONE, NULL));
        CHECK(!of_leaf.ended && of_leaf.runs == 3, "of the leaf: ended %d times, ran %d", of_leaf.ended, of_leaf.runs);
        cr_scope_end();
        CHECK(of_leaf.ended == 1, "of the leaf: ended %d times", of_leaf.ended);
    }
}

TEST(anomaly_names_the_first_op) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, -2, 0, d);
        bool before = cr_set_anomaly(true);
        FAILS(CR_RUNTIME, "[log] anomaly: forward made", cr_mul_scalar(cr_log(cr_mul_scalar(x, 2)), 3));
        cr_tensor *y = cr_sqrt(cr_mul(x, x));        /* sqrt's gradient at 0 is infinite */
        FAILS(CR_RUNTIME, "[sqrt_bwd] anomaly", cr_backward(total(y), CR_NONE, NULL));
        cr_set_anomaly(before);
        cr_scope_end();
    }
}

static const char *line_of(void *ctx) { return *(const char **)ctx; }

TEST(anomaly_says_where_the_op_was_made) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        char text[32] = "train.py:12";
        const char *line = text;
        cr_tensor *x = leaf3(4, 0, 9, d);
        const bool before = cr_set_anomaly(true);
        cr_set_source(line_of, &line);
        cr_tensor *y = cr_sqrt(x);
        strcpy(text, "train.py:99");                 /* copied when the op was made */
        cr_tensor *z = cr_mul_scalar(y, 2);
        FAILS(CR_RUNTIME, "[sqrt_bwd] anomaly",
              cr_backward(total(z), CR_NONE, &(cr_backward_options){.retain_graph = true}));
        FAILS(CR_RUNTIME, "in the gradient of sqrt, made at train.py:12",
              cr_backward(total(z), CR_NONE, &(cr_backward_options){.retain_graph = true}));
        cr_tensor *inf = cr_full(CR_LIST(3), INFINITY, CR_F64, d);
        FAILS(CR_RUNTIME, "in the gradient of mul, made at train.py:99", cr_backward(cr_mul_scalar(x, 2), inf, NULL));
        line = NULL;                                 /* unknown */
        cr_error_clear();
        CHECK(cr_backward(total(cr_sqrt(x)), CR_NONE, NULL) == CR_RUNTIME && !strstr(cr_error(), "made at"),
              "message: %s", cr_error());
        cr_error_clear();
        FAILS(CR_RUNTIME, "forward made", cr_log(x));
        cr_set_source(NULL, NULL);
        cr_set_anomaly(before);
        cr_scope_end();
    }
}

static cr_tensor *block(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    cr_generator *g = ctx;
    cr_tensor *h = cr_tanh(cr_mul(in[0], in[1]));
    return cr_mul(cr_dropout(h, 0.5, true, g), cr_exp(in[0]));
}

TEST(checkpointing_gives_the_same_gradients) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_generator *g = cr_generator_new(7);
        cr_tensor *x = leaf3(0.1, 0.2, 0.3, d), *w = leaf3(1, -2, 3, d);
        const cr_tensor *in[2] = {x, w};
        cr_tensor *plain = cr_mul_scalar(block(2, in, g), 2);
        OK(cr_backward(total(plain), CR_NONE, NULL));
        double gx[3], gw[3], hx[3], hw[3];
        OK(cr_read(cr_grad(x), CR_F64, gx, sizeof gx));
        OK(cr_read(cr_grad(w), CR_F64, gw, sizeof gw));
        OK(cr_set_grad(x, CR_NONE));
        OK(cr_set_grad(w, CR_NONE));
        cr_generator_set(g, 7, 0);
        cr_tensor *y = cr_mul_scalar(cr_checkpoint(block, g, 2, in), 2);
        cr_generator_set(g, 99, 5);                  /* what happens to the generator meanwhile does not matter */
        for (int walk = 0; walk < 2; walk++) {      /* the numbers are drawn again in each */
            OK(cr_backward(total(y), CR_NONE, &(cr_backward_options){.retain_graph = true}));
            OK(cr_read(cr_grad(x), CR_F64, hx, sizeof hx));
            OK(cr_read(cr_grad(w), CR_F64, hw, sizeof hw));
            CHECK(!memcmp(gx, hx, sizeof gx) && !memcmp(gw, hw, sizeof gw), "walk %d, gradients differ: %g %g, %g %g",
                  walk, gx[0], hx[0], gw[0], hw[0]);
            OK(cr_set_grad(x, CR_NONE));
            OK(cr_set_grad(w, CR_NONE));
        }
        cr_generator_free(g);
        cr_scope_end();
    }
}

/* Blocks of a network, y = tanh(tanh(x a) b) * scale, whose weights are in ctx.  With shared the blocks also multiply
 * by one weight of the whole network. */
enum { BLOCKS = 20, SIDE = 8 };
typedef struct arrivals {
    cr_tensor *weight[BLOCKS][2], *shared;
    bool share;
    int64_t at[BLOCKS][2], shared_at;               /* nodes visited when its gradient came; -1: not yet */
    int again;                                      /* gradients that came twice */
} arrivals;
typedef struct of_block { const arrivals *all; int i; } of_block;

static cr_tensor *two_products(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    const of_block *b = ctx;
    cr_scope_begin();
    const cr_tensor *h = in[0];
    for (int k = 0; k < 2; k++) h = cr_tanh(cr_matmul(h, b->all->weight[b->i][k]));
    cr_tensor *y = b->all->share ? cr_mul(h, b->all->shared) : cr_mul_scalar(h, 1.5);
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

static void arrives(arrivals *a, const cr_tensor *leaf) {
    int64_t *at = &a->shared_at;
    for (int i = 0; i < 2 * BLOCKS; i++)
        if (a->weight[i / 2][i % 2] == leaf) at = &a->at[i / 2][i % 2];
    a->again += *at >= 0;
    *at = cr_backward_visited();
}
static cr_status arrives_by_on_grad(cr_tensor *leaf, const cr_tensor *g, void *ctx) {
    (void)g;
    arrives(ctx, leaf);
    return CR_OK;
}
static cr_tensor *arrives_by_hook(const cr_tensor *leaf, void *ctx) {
    arrives(ctx, leaf);
    return (cr_tensor *)(uintptr_t)CR_NONE;
}

/* How the gradients come: by on_grad, by late hooks, by late hooks with chosen inputs. */
static void check_arrivals(int how, bool checkpoints, bool share) {
    static const char *const names[] = {"on_grad", "late hooks", "late hooks, inputs"};
    arrivals a = {.share = share, .shared_at = -1};
    of_block of[BLOCKS];
    cr_generator *g = cr_generator_new(test_seed());
    cr_scope_begin();
    const cr_tensor *all[2 * BLOCKS + 1];
    for (int i = 0; i < 2 * BLOCKS; i++) {
        a.at[i / 2][i % 2] = -1;
        all[i] = a.weight[i / 2][i % 2] = cr_requires_grad_(cr_randn(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu(), g), true);
    }
    all[2 * BLOCKS] = a.shared = cr_requires_grad_(cr_ones(CR_LIST(SIDE), CR_F32, cr_cpu()), true);
    for (int i = 0; i <= 2 * BLOCKS && how; i++)
        CHECK(cr_add_late_hook((cr_tensor *)(uintptr_t)all[i], arrives_by_hook, &a, NULL), "%s", cr_error());
    const cr_tensor *x = cr_randn(CR_LIST(3, SIDE), CR_F32, cr_cpu(), g);
    for (int i = 0; i < BLOCKS; i++) {
        of[i] = (of_block){&a, i};
        x = checkpoints ? cr_checkpoint(two_products, &of[i], 1, &x) : two_products(1, &x, &of[i]);
    }
    const cr_backward_options o = {.on_grad = how ? NULL : arrives_by_on_grad, .ctx = &a,
                                   .n_inputs = how == 2 ? 2 * BLOCKS + share : 0, .inputs = all};
    OK(cr_backward(total(x), CR_NONE, &o));
    const double nodes = (double)cr_backward_visited();
    int early = 0, missing = 0;
    for (int i = 0; i < 2 * BLOCKS; i++) {
        early += (double)a.at[i / 2][i % 2] < 0.95 * nodes;
        missing += a.at[i / 2][i % 2] < 0;
    }
    CHECK(!missing && !a.again && early >= 0.9 * 2 * BLOCKS, "%s%s%s: %d of %d gradients before 95 %% of %g nodes, %d "
          "missing, %d twice", names[how], checkpoints ? ", checkpoints" : "", share ? ", shared" : "", early,
          2 * BLOCKS, nodes, missing, a.again);
    CHECK((a.shared_at >= 0) == share, "%s: the shared weight came at %d", names[how], (int)a.shared_at);
    if (share) CHECK(a.shared_at > a.at[1][0], "%s: the shared weight came before its last use", names[how]);
    cr_scope_end();
    cr_generator_free(g);
}

TEST(gradients_come_on_time) {
    for (int i = 0; i < 12; i++) check_arrivals(i / 4, i & 1, i & 2);
}

/* Weights that only the function knows make its result depend on them, also where no input does. */
TEST(checkpoints_know_the_weights_of_their_function) {
    cr_scope_begin();
    arrivals a = {.share = false};
    of_block b = {&a, 0};
    cr_generator *g = cr_generator_new(3);
    for (int k = 0; k < 2; k++)
        a.weight[0][k] = cr_requires_grad_(cr_randn(CR_LIST(SIDE, SIDE), CR_F64, cr_cpu(), g), true);
    const cr_tensor *x = cr_randn(CR_LIST(3, SIDE), CR_F64, cr_cpu(), g), *w = a.weight[0][1];
    cr_tensor *plain = NULL, *again = NULL;
    const cr_tensor *y = total(two_products(1, &x, &b));
    OK(cr_gradients(1, &y, NULL, 1, &w, &plain, NULL));
    y = total(cr_checkpoint(two_products, &b, 1, &x));
    OK(cr_gradients(1, &y, NULL, 1, &w, &again, NULL));
    if (plain && again) CHECK(cr_item(cr_all(cr_eq(plain, again), CR_ALL, false)) == 1, "the gradients differ");
    cr_scope_end();
    cr_generator_free(g);
}

/* on_grad: once for each leaf, complete, and when writing to the leaf can do no harm. */
static cr_status halve(cr_tensor *leaf, const cr_tensor *g, void *ctx) {
    ++*(int *)ctx;
    return cr_sub_(leaf, cr_mul_scalar(g, 0.5)) ? CR_OK : cr_error_status();
}
static cr_status refuse(cr_tensor *leaf, const cr_tensor *g, void *ctx) {
    (void)leaf;
    (void)g;
    (void)ctx;
    return CR_RUNTIME;
}
static cr_tensor *times_w(int n, const cr_tensor *const *in, void *ctx) { (void)n; return cr_mul(in[0], ctx); }

TEST(gradients_taken_as_they_come) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        int calls = 0;
        cr_backward_options o = {.on_grad = halve, .ctx = &calls};
        cr_tensor *x = leaf3(1, 2, 3, d), *w = leaf3(2, 2, 2, d), *h = cr_mul(x, w);
        /* x w^2:  dx = w^2, dw = 2 x w, each from two uses */
        OK(cr_backward(total(cr_mul(h, w)), CR_NONE, &o));
        EXPECT3(x, -1, 0, 1);
        EXPECT3(w, 0, -2, -4);
        CHECK(calls == 2, "called %d times", calls);
        CHECK(cr_is_none(cr_grad(x)) && cr_is_none(cr_grad(w)), "a gradient was kept");
        /* a checkpoint reads its leaves again: they are written behind that */
        cr_tensor *a = leaf3(1, 2, 3, d), *b = leaf3(2, 2, 2, d);
        calls = 0;
        OK(cr_backward(total(cr_mul(cr_checkpoint(times_w, b, 1, (const cr_tensor *[]){a}), b)), CR_NONE, &o));
        EXPECT3(a, -1, 0, 1);
        EXPECT3(b, 0, -2, -4);
        CHECK(calls == 2, "with a checkpoint called %d times", calls);
        /* hooks come first, and what they return is what is taken */
        cr_tensor *u = leaf3(1, 2, 3, d);
        cr_add_hook(u, double_it, &calls, NULL);
        OK(cr_backward(total(cr_mul_scalar(u, 4)), CR_NONE, &o));
        EXPECT3(u, -3, -2, -1);
        CHECK(calls == 4, "with a hook called %d times", calls);
        FAILS(CR_BAD_VALUE, "excludes retain_graph",
              cr_backward(total(x), CR_NONE,
                          &(cr_backward_options){.on_grad = halve, .ctx = &calls, .retain_graph = true}));
        FAILS(CR_RUNTIME, "on_grad failed without a message",
              cr_backward(total(x), CR_NONE, &(cr_backward_options){.on_grad = refuse}));
        OK(cr_backward(total(x), CR_NONE, NULL));
        FAILS(CR_RUNTIME, "has a gradient already", cr_backward(total(x), CR_NONE, &o));
        cr_scope_end();
    }
}

static cr_status scaled_bwd(const cr_custom_call *c, const cr_tensor *g, cr_tensor **dx) {
    dx[0] = cr_mul_scalar(cr_mul(g, c->in[0]), 2 * *(const double *)c->params);
    return CR_OK;
}
static cr_tensor *scaled_square(const cr_custom_call *c) {
    return cr_mul_scalar(cr_mul(c->in[0], c->in[0]), *(const double *)c->params);
}
static cr_tensor *use_custom(int n, const cr_tensor *const *in, void *ctx) {
    return cr_custom_apply("test_scaled_square", n, in, ctx);
}

TEST(custom_ops) {
    cr_custom_op op = {.name = "test_scaled_square",
                       .arity = 1,
                       .params_bytes = sizeof(double),
                       .forward = scaled_square,
                       .backward = scaled_bwd};
    OK(cr_custom_register(&op));
    FAILS(CR_BAD_VALUE, "already", cr_custom_register(&op));
    FAILS(CR_BAD_VALUE, "no op named", cr_custom_apply("nothing", 1, (const cr_tensor *[]){CR_NONE}, NULL));
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d);
        double k = 1.5;
        OK(cr_gradcheck(use_custom, &k, 1, (const cr_tensor *[]){x}, NULL));
        OK(cr_gradgradcheck(use_custom, &k, 1, (const cr_tensor *[]){x}, NULL));
        FAILS(CR_BAD_VALUE, "takes 1 inputs, got 2",
              cr_custom_apply("test_scaled_square", 2, (const cr_tensor *[]){x, x}, &k));
        cr_scope_end();
    }
}

/* A function of two results, u = a b and v = exp(a), and its gradient: da = gu b + gv v, db = gu a.  saved: a, b, v. */
typedef struct calls { int ran, ended; bool twice_the_same, none[2]; cr_status refuse; } calls;

static cr_tensor *zeros_for(const cr_tensor *g, const cr_tensor *like) {
    return cr_is_none(g) ? cr_zeros_like(like) : cr_detach(g);
}

static cr_status pair_bwd(const cr_function_call *c, cr_tensor **dx) {
    calls *k = c->ctx;
    const cr_tensor *a = c->saved[0], *b = c->saved[1], *v = c->saved[2], *gu = c->grads[0], *gv = c->grads[1];
    k->ran++;
    for (int i = 0; i < 2; i++) k->none[i] = cr_is_none(c->grads[i]);
    if (k->refuse) return k->refuse;
    if (cr_is_none(gu)) gu = zeros_for(gu, a);
    if (cr_is_none(gv)) gv = zeros_for(gv, a);
    if (c->needs[0]) dx[0] = cr_add(cr_mul(gu, b), cr_mul(gv, v));
    if (c->needs[1]) dx[1] = cr_mul(gu, a);
    return CR_OK;
}

static void end_calls(void *ctx) { ((calls *)ctx)->ended++; }

static cr_status pair(const cr_tensor *a, const cr_tensor *b, calls *k, cr_tensor *results[2]) {
    const bool mode = cr_set_grad_enabled(false);
    const cr_tensor *out[2] = {cr_mul(a, b), cr_exp(a)};
    cr_set_grad_enabled(mode);
    return cr_function_record(&(cr_function_use){.name = "test_pair",
                                                 .n_in = 2,
                                                 .in = (const cr_tensor *[]){a, b},
                                                 .n_out = 2,
                                                 .out = out,
                                                 .n_saved = 3,
                                                 .saved = (const cr_tensor *[]){a, b, out[1]},
                                                 .backward = pair_bwd,
                                                 .ctx = k,
                                                 .done = end_calls},
                              results);
}

static cr_tensor *use_pair(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    cr_tensor *r[2];
    return pair(in[0], in[1], ctx, r) == CR_OK ? cr_mul(cr_add(r[0], r[1]), r[1]) : NULL;      /* (u + v) v */
}
static cr_tensor *use_second_only(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    cr_tensor *r[2];
    if (pair(in[0], in[1], ctx, r) != CR_OK) return NULL;
    cr_release(r[0]);
    return cr_add(cr_mul(r[1], r[1]), cr_mul(in[1], in[1]));
}

TEST(functions_with_closures) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        calls k = {0};
        cr_tensor *a = leaf3(0.1, 0.2, 0.3, d), *b = leaf3(2, 3, 4, d), *r[2];
        OK(cr_gradcheck(use_pair, &k, 2, (const cr_tensor *[]){a, b}, NULL));
        OK(cr_gradgradcheck(use_pair, &k, 2, (const cr_tensor *[]){a, b}, NULL));
        OK(cr_gradcheck(use_second_only, &k, 2, (const cr_tensor *[]){a, b}, NULL));
        OK(cr_gradgradcheck(use_second_only, &k, 2, (const cr_tensor *[]){a, b}, NULL));
        /* once, with both cotangents, however many uses the results have */
        k = (calls){0};
        OK(pair(a, b, &k, r));
        CHECK(cr_requires_grad(r[0]) && !cr_is_leaf(r[1]), "the results are not recorded");
        cr_tensor *y = total(cr_add(cr_mul(r[0], r[0]), cr_mul(r[1], r[0])));
        const cr_backward_options retain = {.retain_graph = true};
        OK(cr_backward(y, CR_NONE, &retain));
        CHECK(k.ran == 1 && !k.none[0] && !k.none[1] && !k.ended, "ran %d times, ended %d", k.ran, k.ended);
        k.refuse = CR_IO;                            /* a failure leaves nothing behind */
        FAILS(CR_IO, "[test_pair]", cr_backward(y, CR_NONE, &retain));
        k.refuse = CR_OK;
        OK(cr_backward(total(r[1]), CR_NONE, &retain));
        CHECK(k.none[0] && !k.none[1], "cotangents of an earlier walk");
        OK(cr_backward(y, CR_NONE, NULL));
        FAILS(CR_RUNTIME, "what test_pair saved was freed", cr_backward(total(r[0]), CR_NONE, NULL));
        CHECK(!k.ended, "ended before the graph");
        cr_scope_end();
        CHECK(k.ended == 1, "ended %d times", k.ended);
        cr_scope_begin();
        /* what it saved was written to */
        a = leaf3(0.1, 0.2, 0.3, d);
        OK(pair(a, vec3(1, 2, 3, d), &k, r));
        cr_fill_(cr_detach(r[1]), 0);
        FAILS(CR_RUNTIME, "[test_pair] input 4", cr_backward(total(r[0]), CR_NONE, NULL));
        /* nothing to record: over at once */
        k = (calls){0};
        OK(pair(vec3(1, 2, 3, d), vec3(1, 2, 3, d), &k, r));
        CHECK(k.ended == 1 && !cr_requires_grad(r[0]), "without gradients: ended %d times", k.ended);
        FAILS(CR_BAD_VALUE, "NULL",
              cr_function_record(&(cr_function_use){.name = "test_pair",
                                                    .n_in = 1,
                                                    .in = (const cr_tensor *[]){NULL},
                                                    .n_out = 1,
                                                    .out = (const cr_tensor *[]){a},
                                                    .backward = pair_bwd,
                                                    .ctx = &k,
                                                    .done = end_calls},
                                 r));
        CHECK(k.ended == 1, "ended by a failure");
        cr_scope_end();
    }
}

/* out is the input itself; the gradient is a handle in no scope, the same one for both inputs, of a
 * shape that broadcasting made. */
static cr_status same_bwd(const cr_function_call *c, cr_tensor **dx) {
    calls *k = c->ctx;
    k->ran++;
    cr_tensor *g = cr_mul_scalar(c->grads[0], 3), *wide = cr_mul(g, cr_ones(CR_LIST(2, 3), CR_F64, cr_device_of(g)));
    for (int i = 0; i < 2; i++) dx[i] = cr_retain(wide);
    cr_release(wide);
    if (k->twice_the_same) return CR_OK;
    cr_drop(dx[1]);
    dx[1] = cr_ones(CR_LIST(7), CR_F64, cr_device_of(g));
    return CR_OK;
}

TEST(functions_that_return_their_input) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        calls k = {.twice_the_same = true};
        cr_tensor *a = leaf3(1, 2, 3, d), *b = leaf3(4, 5, 6, d), *y;
        const cr_function_use u = {.name = "test_same",
                                   .n_in = 2,
                                   .in = (const cr_tensor *[]){a, b},
                                   .n_out = 1,
                                   .out = (const cr_tensor *[]){a},
                                   .backward = same_bwd,
                                   .ctx = &k,
                                   .done = end_calls};
        OK(cr_function_record(&u, &y));
        CHECK(cr_is_leaf(a) && !cr_is_leaf(y) && cr_data(a) == cr_data(y), "the input became the result");
        OK(cr_backward(total(y), CR_NONE, NULL));
        EXPECT3(cr_grad(a), 6, 6, 6);
        EXPECT3(cr_grad(b), 6, 6, 6);
        k.twice_the_same = false;
        OK(cr_function_record(&u, &y));
        FAILS(CR_BAD_VALUE, "[test_same] its gradient of input 1 is float64 (7,)",
              cr_backward(total(y), CR_NONE, NULL));
        OK(cr_set_grad(a, CR_NONE));
        OK(cr_set_grad(b, CR_NONE));
        /* a long chain of them is walked and freed without recursion, and in anomaly mode */
        k = (calls){.twice_the_same = true};
        const bool anomaly = cr_set_anomaly(true);
        enum { LONG = 2000 };
        cr_tensor *chain = cr_mul_scalar(a, 1);
        for (int i = 0; i < LONG && chain; i++) {
            const cr_function_use next = {.name = "test_same",
                                          .n_in = 2,
                                          .in = (const cr_tensor *[]){chain, CR_NONE},
                                          .n_out = 1,
                                          .out = (const cr_tensor *[]){chain},
                                          .backward = same_bwd,
                                          .ctx = &k,
                                          .done = end_calls};
            OK(cr_function_record(&next, &y));
            cr_release(chain);
            chain = y;
        }
        OK(cr_backward(total(cr_mul_scalar(chain, 0)), CR_NONE, NULL));
        CHECK(k.ran == LONG && !k.ended, "ran %d times", k.ran);
        EXPECT3(cr_grad(a), 0, 0, 0);
        cr_release(chain);
        cr_set_anomaly(anomaly);
        cr_scope_end();
        CHECK(k.ended == LONG + 2, "ended %d times", k.ended);        /* and the two from before */
    }
}

/* a + a + b, whose gradient is one handle for all three */
static cr_status shared_bwd(const cr_function_call *c, cr_tensor **dx) {
    dx[0] = dx[1] = dx[2] = cr_mul_scalar(c->grads[0], 1);
    return CR_OK;
}

TEST(one_gradient_for_several_inputs) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        calls k = {0};
        cr_tensor *a = leaf3(1, 2, 3, d), *b = leaf3(4, 5, 6, d), *y;
        cr_tensor *x = cr_mul_scalar(a, 1), *z = cr_mul_scalar(b, 1);
        const cr_function_use u = {.name = "test_shared",
                                   .n_in = 3,
                                   .in = (const cr_tensor *[]){x, x, z},
                                   .n_out = 1,
                                   .out = (const cr_tensor *[]){vec3(6, 9, 12, d)},
                                   .backward = shared_bwd,
                                   .ctx = &k,
                                   .done = end_calls};
        OK(cr_function_record(&u, &y));
        OK(cr_backward(total(y), CR_NONE, NULL));
        EXPECT3(cr_grad(a), 2, 2, 2);
        EXPECT3(cr_grad(b), 1, 1, 1);
        cr_scope_end();
    }
}

/* ---- other memory under the same node, and version counters */
TEST(data_of_a_leaf_is_replaced) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        int doubled = 0;
        cr_tensor *w = leaf3(1, 2, 3, d), *x = vec3(1, 10, 100, d);
        CHECK(cr_add_hook(w, double_it, &doubled, NULL), "%s", cr_error());
        cr_tensor *y = cr_mul(w, x), *v = cr_with_data(w, cr_to(vec3(7, 8, 9, d), CR_F32, d));
        cr_node *before = cr_node_of(w), *after = cr_node_of(v);
        CHECK(before == after && cr_is_leaf(v) && cr_requires_grad(v), "another node");
        CHECK(cr_node_look(after).dtype == CR_F32, "the node is %s", cr_dtype_name(cr_node_look(after).dtype));
        cr_node_release(before);
        cr_node_release(after);
        cr_release(w);
        OK(cr_backward(total(y), CR_NONE, NULL));       /* an earlier use, in another dtype */
        CHECK(cr_dtype_of(cr_grad(v)) == CR_F32, "the gradient is %s", cr_dtype_name(cr_dtype_of(cr_grad(v))));
        EXPECT3(cr_grad(v), 2, 20, 200);
        v = cr_with_data(v, cr_ones(CR_LIST(2, 2), CR_F64, d));
        EXPECT3(cr_grad(v), 2, 20, 200);
        FAILS(CR_RUNTIME, "a gradient of (2, 2) cannot be added to one of (3,)", cr_backward(total(v), CR_NONE, NULL));
        EXPECT3(cr_grad(v), 2, 20, 200);
        OK(cr_set_grad(v, CR_NONE));
        OK(cr_backward(total(v), CR_NONE, NULL));
        CHECK(cr_item(cr_sum(cr_grad(v), CR_ALL, false)) == 8, "the hook is gone");
        y = cr_mul_scalar(v, 2);
        v = cr_with_data(v, vec3(1, 2, 3, d));
        FAILS(CR_RUNTIME, "used with shape (2, 2) and has shape (3,) now", cr_backward(total(y), CR_NONE, NULL));
        FAILS(CR_RUNTIME, "must be floating point: int64", cr_with_data(v, cr_to(vec3(1, 2, 3, d), CR_I64, d)));
        y = cr_mul_scalar(v, 2);                        /* a result keeps its node, and its shape */
        FAILS(CR_RUNTIME, "data of a result of mul", cr_with_data(y, cr_ones(CR_LIST(2), CR_F64, d)));
        OK(cr_retain_grad(y));
        y = cr_with_data(y, vec3(5, 5, 5, d));
        CHECK(cr_retains_grad(y) && !cr_is_leaf(y), "the result lost its place");
        OK(cr_set_grad(v, CR_NONE));
        OK(cr_backward(total(cr_mul(y, y)), CR_NONE, NULL));
        EXPECT3(cr_grad(y), 10, 10, 10);
        EXPECT3(cr_grad(v), 40, 40, 40);
        cr_scope_end();
    }
}

TEST(data_has_a_version_of_its_own) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *a = leaf3(1, 2, 3, d), *b = cr_mul_scalar(a, 1), *y = cr_mul(b, b), *data = cr_variable_data(b);
        cr_fill_(cr_reshape(data, CR_LIST(3, 1)), 7);                 /* a view of data counts with data */
        CHECK(cr_tensor_version(b) == 0 && cr_tensor_version(data) == 1, "versions %u, %u", cr_tensor_version(b),
              cr_tensor_version(data));
        EXPECT3(b, 7, 7, 7);
        OK(cr_backward(total(y), CR_NONE, NULL));
        y = cr_mul(a, data);                                          /* the other way round too */
        cr_fill_(cr_detach(b), 5);
        CHECK(cr_tensor_version(b) == 1 && cr_tensor_version(data) == 1, "versions %u, %u", cr_tensor_version(b),
              cr_tensor_version(data));
        const cr_backward_options retain = {.retain_graph = true};
        OK(cr_backward(total(y), CR_NONE, &retain));
        cr_fill_(data, 6);
        FAILS(CR_RUNTIME, "modified in place", cr_backward(total(y), CR_NONE, NULL));
        cr_scope_end();
    }
}

/* ---- in-place writes: what is retained, what is zero, what is refused */
TEST(retained_gradients_follow_writes) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *a = leaf3(1, 2, 3, d), *b = cr_mul_scalar(a, 2), *part = cr_slice(b, 0, 0, 1, 1);
        OK(cr_retain_grad(b));
        OK(cr_retain_grad(part));
        cr_mul_(b, vec3(3, 3, 3, d));
        OK(cr_backward(total(cr_add(cr_mul_scalar(b, 5), part)), CR_NONE, NULL));
        EXPECT3(cr_grad(b), 8, 5, 5);
        CHECK(!cr_is_none(cr_grad(part)) && cr_item(cr_grad(part)) == 3, "the view has no gradient");
        EXPECT3(cr_grad(a), 48, 30, 30);
        cr_scope_end();
    }
}

TEST(gradients_behind_constants_are_zero) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *a = leaf3(1, 2, 3, d), *y = cr_mul_scalar(a, 2);
        cr_fill_(y, 4);
        OK(cr_backward(total(y), CR_NONE, NULL));
        CHECK(!cr_is_none(cr_grad(a)), "no gradient behind fill_");
        EXPECT3(cr_grad(a), 0, 0, 0);
        cr_scope_end();
    }
}

TEST(views_made_without_recording) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *a = leaf3(1, 2, 3, d), *b = cr_mul_scalar(a, 1);
        bool mode = cr_set_grad_enabled(false);
        cr_tensor *v = cr_slice(b, 0, 0, 2, 1);
        cr_fill_(v, 1);                                 /* allowed there */
        cr_set_grad_enabled(mode);
        FAILS(CR_RUNTIME, "while the gradient mode was off", cr_fill_(v, 2));
        FAILS(CR_RUNTIME, "while the gradient mode was off", cr_fill_(cr_reshape(v, CR_LIST(2, 1)), 2));
        CHECK(cr_fill_(cr_detach(v), 2), "%s", cr_error());
        CHECK(!cr_requires_grad(cr_mul_scalar(v, 2)), "a view of no graph is recorded");
        cr_mul_(b, b);
        FAILS(CR_RUNTIME, "take it again", cr_mul_scalar(v, 2));
        cr_scope_end();
    }
}

static cr_status doubled_bwd(const cr_function_call *c, cr_tensor **dx) {
    dx[0] = cr_mul_scalar(c->grads[0], 2);
    return CR_OK;
}

/* x, doubled in place by a function with a gradient of its own */
static cr_status double_(cr_tensor *x) {
    const bool mode = cr_set_grad_enabled(false), written = true;
    cr_mul_(x, cr_scalar(2));
    cr_set_grad_enabled(mode);
    const cr_tensor *in = x;
    cr_tensor *y;
    return cr_function_record(&(cr_function_use){.name = "double_", .n_in = 1, .in = &in, .n_out = 1, .out = &in,
                                                 .backward = doubled_bwd, .written = &written}, &y);
}

TEST(functions_that_write_their_input) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *a = leaf3(1, 2, 3, d), *b = cr_mul_scalar(a, 1), *part = cr_slice(b, 0, 1, 3, 1);
        OK(double_(part));
        OK(cr_backward(total(cr_mul(b, b)), CR_NONE, NULL));
        EXPECT3(cr_grad(a), 2, 16, 24);
        FAILS(CR_RUNTIME, "[double_] a leaf that requires grad", double_(a));
        cr_scope_end();
    }
}

TEST(names_of_ops) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d), *y = cr_exp(x), *r[2];
        calls k = {0};
        OK(pair(x, vec3(1, 2, 3, d), &k, r));
        CHECK(!strcmp(cr_op_name(x), "") && !strcmp(cr_op_name(cr_detach(y)), ""), "a leaf is the result of '%s'",
              cr_op_name(x));
        CHECK(!strcmp(cr_op_name(y), "exp"), "exp is called '%s'", cr_op_name(y));
        CHECK(!strcmp(cr_op_name(cr_sum(y, CR_ALL, false)), "sum"), "sum is called '%s'",
              cr_op_name(cr_sum(y, CR_ALL, false)));
        CHECK(!strcmp(cr_op_name(r[1]), "test_pair"), "a function is called '%s'", cr_op_name(r[1]));
        FAILS(CR_BAD_VALUE, "NULL", cr_op_name(NULL));
        cr_scope_end();
    }
}

static bool shows(const cr_node *n, const cr_tensor *t) {
    cr_tensor *shown = cr_node_tensor(n);
    cr_drop(shown);
    return shown == t;
}

TEST(nodes_outlive_tensors) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, d), *h = cr_mul(x, vec3(1, 2, 3, d)), *y = total(cr_exp(h)), *r[2];
        calls k = {0};
        OK(cr_retain_grad(h));
        OK(pair(x, x, &k, r));
        cr_node *sum = cr_node_of(y), *exp = cr_node_input(sum, 0), *mul = cr_node_input(exp, 0),
                *leaf = cr_node_input(mul, 0), *same = cr_node_of(x), *function = cr_node_of(r[1]);
        CHECK(!strcmp(cr_node_look(sum).op, "sum") && !strcmp(cr_node_look(exp).op, "exp") &&
                  !strcmp(cr_node_look(mul).op, "mul"),
              "wrong ops");
        CHECK(cr_node_look(sum).ndim == 0 && cr_node_look(exp).ndim == 1 && cr_node_look(exp).shape[0] == 3 &&
                  cr_node_look(exp).dtype == CR_F64,
              "wrong shapes");
        CHECK(leaf == same && !*cr_node_look(leaf).op && shows(leaf, x) && cr_node_look(leaf).shape[0] == 3,
              "the leaf is another");
        CHECK(shows(mul, h) && shows(exp, NULL), "what retains its gradient is shown, and no other");
        CHECK(cr_node_look(mul).inputs == 2 && !cr_node_input(mul, 1) && !cr_error(), "a constant has a node");
        CHECK(!cr_node_of(vec3(1, 2, 3, d)) && !cr_error(), "a tensor outside any graph has a node");
        cr_node *to_x = cr_node_input(function, 1);
        CHECK(cr_node_look(function).function && cr_node_look(function).inputs == 2 && to_x == leaf,
              "a function's result has the function's inputs");
        FAILS(CR_BAD_INDEX, "no input 2", cr_node_input(mul, 2));
        FAILS(CR_BAD_INDEX, "no input 0", cr_node_input(leaf, 0));
        FAILS(CR_BAD_VALUE, "NULL", cr_node_input(NULL, 0));
        FAILS(CR_BAD_VALUE, "NULL", cr_node_of(NULL));
        FAILS(CR_BAD_VALUE, "NULL", cr_node_look(NULL).inputs ? sum : NULL);
        OK(cr_backward(y, CR_NONE, NULL));                             /* what was saved is gone, the nodes are not */
        cr_scope_end();
        cr_node *again = cr_node_input(exp, 0);
        CHECK(again == mul && shows(mul, NULL) && shows(leaf, NULL), "a node shows a tensor that is gone");
        cr_node *all[] = {sum, exp, mul, leaf, same, function, to_x, again, NULL};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) cr_node_release(all[i]);
    }
}

static cr_status lying_bwd(const cr_custom_call *c, const cr_tensor *g, cr_tensor **dx) {
    dx[0] = cr_mul(g, c->in[0]);                     /* half of the truth */
    return CR_OK;
}

static cr_tensor *use_lying(int n, const cr_tensor *const *in, void *ctx) {
    return cr_custom_apply("test_lying_square", n, in, ctx);
}

TEST(gradcheck_finds_a_wrong_gradient) {
    cr_custom_op op = {.name = "test_lying_square",
                       .arity = 1,
                       .params_bytes = sizeof(double),
                       .forward = scaled_square,
                       .backward = lying_bwd};
    OK(cr_custom_register(&op));
    cr_scope_begin();
    cr_tensor *x = leaf3(1, 2, 3, cr_cpu());
    double k = 1;
    FAILS(CR_RUNTIME, "[gradcheck] input 0 (3,), position 0",
          cr_gradcheck(use_lying, &k, 1, (const cr_tensor *[]){x}, NULL));
    cr_scope_end();
}

TEST(programs_differentiate) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_program *p = cr_program_new("test_swish", "x w", "beta", "y = x * sigmoid(beta * x) + w ** 2; y");
        REQUIRE(p, "%s", cr_error());
        cr_tensor *x = leaf3(0.5, -1, 2, d), *w = leaf3(1, 2, 3, d);
        cr_tensor *y = cr_program_apply(p, 2, (const cr_tensor *[]){x, w}, (double[]){1.5});
        cr_program_free(p);                          /* the graph keeps it */
        OK(cr_backward(total(y), CR_NONE, NULL));
        EXPECT3(cr_grad(w), 2, 4, 6);
        double s = 1 / (1 + exp(-0.75)), g[3];
        OK(cr_read(cr_grad(x), CR_F64, g, sizeof g));
        CHECK(fabs(g[0] - (s + 0.75 * s * (1 - s))) < 1e-12, "gradient %.17g", g[0]);
        cr_scope_end();
    }
}

/* Depth: built, differentiated and freed without recursion. */
TEST(long_chains) {
    int64_t n = test_full() ? 10000000 : 300000;
    cr_tensor *x = cr_requires_grad_(cr_scalar(1), true), *y = cr_mul_scalar(x, 1);
    REQUIRE(x && y, "%s", cr_error());
    for (int64_t i = 0; i < n && y; i++) {
        cr_tensor *next = i % 2 ? cr_neg(y) : cr_add(y, x);
        cr_release(y);
        y = next;
    }
    REQUIRE(y, "%s", cr_error());
    OK(cr_backward(y, CR_NONE, NULL));
    double want = 1;
    for (int64_t i = 0; i < n; i++) want = i % 2 ? -want : want + 1;
    CHECK(cr_item(cr_grad(x)) == want, "gradient %g, wanted %g", cr_item(cr_grad(x)), want);
    cr_release(y);
    cr_release(x);
    test_ran_on(cr_cpu());
}

TEST(nothing_leaks) {
    cr_memory before = cr_memory_stats(cr_cpu());
    cr_scope_begin();
    for (int round = 0; round < 3; round++) {
        cr_scope_begin();
        cr_tensor *x = leaf3(1, 2, 3, cr_cpu()), *y = total(cr_exp(cr_mul(x, x)));
        if (round < 2) OK(cr_backward(y, CR_NONE, round ? NULL : &(cr_backward_options){.create_graph = true}));
        if (round == 0) OK(cr_set_grad(x, CR_NONE));  /* a gradient with a graph holds its leaf: as in PyTorch, the
                                                       * user breaks the cycle */
        cr_scope_end();
    }
    cr_scope_end();
    CHECK(cr_memory_stats(cr_cpu()).current == before.current, "%lld bytes stay in use",
          (long long)(cr_memory_stats(cr_cpu()).current - before.current));
    test_ran_on(cr_cpu());
}

TEST(scopes) {
    cr_scope_begin();
    cr_tensor *outer, *kept;
    cr_scope_begin();
    outer = cr_scalar(1);
    cr_scope_begin();
    kept = cr_keep(cr_scalar(2));
    cr_release(cr_scalar(3));                        /* out early */
    cr_scope_end();
    CHECK(cr_item(kept) == 2 && cr_item(outer) == 1, "a kept handle died");
    cr_tensor *held = cr_retain(outer);
    cr_scope_end();
    CHECK(cr_item(held) == 1, "a retained handle died");
    cr_drop(held);
    cr_scope_end();
    FAILS(CR_RUNTIME, "no scope", cr_scope_end());
    test_ran_on(cr_cpu());
}

TEST(failures_pass_through_a_chain) {
    cr_scope_begin();
    cr_tensor *a = cr_ones(CR_LIST(2, 3), CR_F32, cr_cpu()), *b = cr_ones(CR_LIST(4), CR_F32, cr_cpu());
    cr_error_clear();
    cr_tensor *y = cr_sum(cr_exp(cr_add(a, b)), CR_ALL, false);
    CHECK(!y && cr_error() && strstr(cr_error(), "[add]") && strstr(cr_error(), "(2, 3)") && strstr(cr_error(), "(4,)"),
          "message: %s", cr_error());
    FAILS(CR_BAD_VALUE, "NULL", cr_exp(NULL));
    FAILS(CR_BAD_VALUE, "CR_NONE", cr_exp(CR_NONE));
    FAILS(CR_BAD_VALUE, "two devices, cpu and ref", cr_add(a, cr_ones(CR_LIST(3), CR_F32, cr_ref())));
    bool before = cr_auto_transfer(true);
    CHECK(cr_device_of(cr_add(a, cr_ones(CR_LIST(3), CR_F32, cr_ref()))) == cr_cpu(), "auto transfer: %s", cr_error());
    cr_auto_transfer(before);
    CHECK(cr_device_of(cr_mul(cr_ones(CR_LIST(3), CR_F32, cr_ref()), cr_scalar(2))) == cr_ref(), "a weak scalar: %s",
          cr_error());
    cr_scope_end();
    test_ran_on(cr_cpu());
}

/* ---- hooks of saved tensors: each is kept as a copy that holds its elements times a factor */
typedef struct hooked { int packs, unpacks, alive; double factor; bool wrong; } hooked;
typedef struct held { hooked *h; cr_tensor *t; } held;

static void *pack(const cr_tensor *t, void *ctx) {
    held *p = malloc(sizeof *p);
    *p = (held){ctx, cr_unscope(cr_mul_scalar(t, ((hooked *)ctx)->factor))};
    p->h->packs++;
    p->h->alive++;
    return p;
}
static cr_tensor *unpack(void *packed) {
    held *p = packed;
    p->h->unpacks++;
    return p->h->wrong ? cr_unscope(cr_sum(p->t, CR_ALL, false)) : cr_retain(p->t);
}
static void unhold(void *packed) {
    held *p = packed;
    p->h->alive--;
    cr_drop(p->t);
    free(p);
}

TEST(saved_hooks) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        hooked h = {.factor = 10};
        cr_tensor *a = cr_requires_grad_(vec3(1, 2, 3, d), true), *b = cr_requires_grad_(vec3(4, 5, 6, d), true);
        const cr_saved_hooks old = cr_set_saved_hooks((cr_saved_hooks){pack, unpack, unhold, &h});
        CHECK(!old.pack, "hooks were set before");
        cr_tensor *y = cr_mul(a, b), *unused = cr_mul(a, b);
        CHECK(cr_set_saved_hooks((cr_saved_hooks){0}).ctx == &h, "another setting came back");
        cr_tensor *z = cr_mul(a, b);
        CHECK(h.packs == 4 && h.alive == 4 && !h.unpacks, "%d packed, %d alive, %d unpacked", h.packs, h.alive,
              h.unpacks);
        OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
        double g[3];
        OK(cr_read(cr_grad(a), CR_F64, g, sizeof g));
        CHECK(g[0] == 40 && g[1] == 50 && g[2] == 60, "gradient %g %g %g: not of what was unpacked", g[0], g[1], g[2]);
        CHECK(h.unpacks == 2 && h.alive == 2, "%d unpacked, %d alive after a pass that frees", h.unpacks, h.alive);
        FAILS(CR_RUNTIME, "freed by an earlier", cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
        OK(cr_set_grad(a, CR_NONE));
        OK(cr_backward(cr_sum(z, CR_ALL, false), CR_NONE, NULL));
        OK(cr_read(cr_grad(a), CR_F64, g, sizeof g));
        CHECK(g[0] == 4 && g[2] == 6, "hooks at work behind their end: %g", g[0]);
        h.wrong = true;
        FAILS(CR_RUNTIME, "[saved_tensors_hooks] the hook that unpacks gave float64 () on",
              cr_backward(cr_sum(unused, CR_ALL, false), CR_NONE, NULL));
        cr_scope_end();
        CHECK(!h.alive, "%d packed tensors outlive their graph", h.alive);
    }
}
