/* test_threads.c - threads that share tensors: leaves, parts of a graph, hooks, functions,
 * checkpoints, views.  Gradients are small whole numbers, so sums are the same in any order.  The
 * thread sanitizer runs it too. */
#include "test.h"

#include <stdatomic.h>

#include "core/tensor.h"
#include "core/os.h"

enum { THREADS = 8, N = 5 };

typedef struct work {
    int rounds;
    void (*round)(struct work *w, int me, int round);
    cr_tensor *x, *y;                               /* what the test shares */
    cr_generator *g;
    int64_t id;
    atomic_int wrong, ran, failed, go, count;
} work;
typedef struct member { work *w; int me; } member;

static void rounds_of(void *arg) {
    const member *m = arg;
    work *w = m->w;
    atomic_fetch_add(&w->go, 1);
    while (atomic_load(&w->go) < THREADS) cr_os_sleep(10e-6);  /* all at once */
    for (int i = 0; i < w->rounds; i++) {
        cr_scope_begin();
        w->round(w, m->me, i);
        cr_scope_end();
    }
    if (cr_error()) atomic_fetch_add(&w->failed, 1);
    cr_error_clear();
}

static void together(work *w) {
    cr_thread *threads[THREADS];
    member members[THREADS];
    for (int i = 0; i < THREADS; i++) {
        members[i] = (member){w, i};
        threads[i] = cr_thread_start(rounds_of, &members[i]);
        if (!threads[i]) { test_fail(__FILE__, __LINE__, "thread %d could not be made", i); exit(1); }
    }
    for (int i = 0; i < THREADS; i++) cr_thread_join(threads[i]);
    CHECK(!w->failed, "%d threads failed", w->failed);
    CHECK(!w->wrong, "%d wrong values in %d rounds", w->wrong, w->rounds);
}

static cr_tensor *row_of(double v) { return cr_full(CR_LIST(N), v, CR_F64, cr_cpu()); }
static cr_tensor *leaf_of(double v) { return cr_requires_grad_(row_of(v), true); }
static cr_tensor *total(const cr_tensor *x) { return cr_sum(x, CR_ALL, false); }
static bool all_are(const cr_tensor *t, double v) {
    double got[N] = {0};
    if (!t || t == CR_NONE || cr_read(t, CR_F64, got, sizeof got) != CR_OK) return false;
    for (int i = 0; i < N; i++) if (got[i] != v) return false;
    return true;
}
#define EXPECT(t, v) CHECK(all_are(t, v), "element 0 is %g, wanted %g", cr_is_none(t) ? NAN : cr_item(cr_select(t, 0, \
    0)), (double)(v))
static const cr_backward_options keeps = {.retain_graph = true};

/* ---- leaves */

/* (k x + x y) y, k = me + 1: at x = 2, y = 3 that is d/dx = k y + y^2, d/dy = k x + 2 x y */
static void share_leaves(work *w, int me, int round) {
    const double k = me + 1;
    cr_tensor *z = total(cr_mul(cr_add(cr_mul_scalar(w->x, k), cr_mul(w->x, w->y)), w->y)), *d[2];
    if (round % 2) {
        cr_backward(z, CR_NONE, NULL);
        return;
    }
    const cr_tensor *in[] = {w->x, w->y};
    if (cr_gradients(1, (const cr_tensor *[]){z}, NULL, 2, in, d, NULL) != CR_OK) return;
    if (!all_are(d[0], 3 * k + 9) || !all_are(d[1], 2 * k + 12)) atomic_fetch_add(&w->wrong, 1);
}

TEST(one_model_in_eight_threads) {
    cr_scope_begin();
    work w = {.rounds = 100, .round = share_leaves, .x = leaf_of(2), .y = leaf_of(3)};
    together(&w);
    const double k = THREADS * (THREADS + 1) / 2.0;            /* the sum of all k */
    EXPECT(cr_grad(w.x), 50 * (3 * k + 9 * THREADS));
    EXPECT(cr_grad(w.y), 50 * (2 * k + 12 * THREADS));
    cr_scope_end();
}

/* cr_backward with inputs, and create_graph, add to the same gradients. */
static void in_other_ways(work *w, int me, int round) {
    cr_tensor *z = total(cr_mul(w->x, w->y));
    const cr_tensor *in[] = {w->x};
    const cr_backward_options o = {.create_graph = me % 2, .n_inputs = 1, .inputs = in};
    (void)round;
    cr_backward(z, CR_NONE, &o);
}

TEST(gradients_of_chosen_inputs) {
    cr_scope_begin();
    work w = {.rounds = 50, .round = in_other_ways, .x = leaf_of(2), .y = leaf_of(3)};
    together(&w);
    EXPECT(cr_grad(w.x), 3 * 50 * THREADS);
    CHECK(cr_is_none(cr_grad(w.y)), "a leaf that was not chosen has a gradient");
    CHECK(cr_set_grad(w.x, CR_NONE) == CR_OK, "the graph of a gradient leads to the leaf");
    cr_scope_end();
}

/* Others read and free the gradient meanwhile: what they see is whole. */
static void read_and_free(work *w, int me, int round) {
    if (me % 2) {
        cr_backward(total(cr_mul_scalar(w->x, 2)), CR_NONE, &(cr_backward_options){.create_graph = me == 3});
        return;
    }
    cr_tensor *g = cr_grad_retain(w->x);
    if (g && g != CR_NONE && cr_numel(g) != N) atomic_fetch_add(&w->wrong, 1);
    cr_drop(g);
    if (round % 8 == me) cr_set_grad(w->x, CR_NONE);
}

TEST(gradients_read_and_freed_meanwhile) {
    cr_scope_begin();
    work w = {.rounds = 300, .round = read_and_free, .x = leaf_of(2)};
    together(&w);
    CHECK(cr_set_grad(w.x, CR_NONE) == CR_OK, "a gradient stays");
    cr_scope_end();
}

/* The last handle of a leaf goes while another thread walks to it. */
static void outlive_leaf(work *w, int me, int round) {
    (void)me; (void)round;
    cr_tensor *x = leaf_of(1), *z = total(cr_mul(x, w->x));
    cr_retain(z);
    cr_node *n = cr_node_of(x);
    cr_release(x);
    cr_tensor *gone = cr_node_tensor(n);
    if (gone) atomic_fetch_add(&w->wrong, 1);
    cr_node_release(n);
    cr_backward(z, CR_NONE, NULL);
    cr_drop(z);
}

static void drop_shared(work *w, int me, int round) {
    (void)round;
    if (me) cr_backward(w->y, CR_NONE, &keeps);
    else if (w->x) { cr_release(w->x); w->x = NULL; }
}

TEST(leaves_that_go_meanwhile) {
    cr_scope_begin();
    work w = {.rounds = 50, .round = outlive_leaf, .x = leaf_of(2)};
    together(&w);
    EXPECT(cr_grad(w.x), 50 * THREADS);
    for (int i = 0; i < 20; i++) {
        cr_tensor *x = leaf_of(3), *y = total(cr_mul(x, x));
        work v = {.rounds = 5, .round = drop_shared, .x = x, .y = y};
        together(&v);
        cr_release(y);
    }
    cr_scope_end();
}

/* ---- a part of the graph */

/* w.y = exp-free h = x x + x is shared, each thread goes on alone: k h */
static void share_inside(work *w, int me, int round) {
    const double k = me + 1;
    cr_tensor *z = total(cr_mul_scalar(w->y, k)), *d[1];
    if (round % 2) {
        cr_backward(z, CR_NONE, &keeps);
        return;
    }
    if (cr_gradients(1, (const cr_tensor *[]){z}, NULL, 1, (const cr_tensor *[]){w->x}, d, &keeps) != CR_OK) return;
    if (!all_are(d[0], k * 5)) atomic_fetch_add(&w->wrong, 1);
}

TEST(one_graph_in_eight_threads) {
    cr_scope_begin();
    cr_tensor *x = leaf_of(2), *h = cr_add(cr_mul(x, x), x);
    work w = {.rounds = 100, .round = share_inside, .x = x, .y = h};
    CHECK(cr_retain_grad(h) == CR_OK, "%s", cr_error());
    together(&w);
    EXPECT(cr_grad(x), 50 * 5 * THREADS * (THREADS + 1) / 2);
    EXPECT(cr_grad(h), 100 * THREADS * (THREADS + 1) / 2);     /* in walks of both kinds */
    cr_scope_end();
}

/* Without retain_graph it serves one of them; the others are told so. */
static void race_for_graph(work *w, int me, int round) {
    (void)me; (void)round;
    const cr_status status = cr_backward(w->y, CR_NONE, NULL);
    if (status == CR_OK) atomic_fetch_add(&w->count, 1);
    else if (!strstr(cr_error(), "was freed by an earlier backward pass")) atomic_fetch_add(&w->wrong, 1);
    cr_error_clear();
}

TEST(a_graph_serves_one_walk) {
    for (int i = 0; i < 50; i++) {
        cr_scope_begin();
        cr_tensor *x = leaf_of(2);
        work w = {.rounds = 1, .round = race_for_graph, .x = x, .y = total(cr_exp(cr_mul(x, x)))};
        together(&w);
        CHECK(w.count == 1, "%d of %d walks had the graph", w.count, THREADS);
        CHECK(!cr_is_none(cr_grad(x)), "no gradient");
        cr_scope_end();
    }
}

/* ---- hooks, functions, checkpoints */
static cr_tensor *count_hook(const cr_tensor *g, void *ctx) {
    (void)g;
    atomic_fetch_add((atomic_int *)ctx, 1);
    return (cr_tensor *)(uintptr_t)CR_NONE;
}

static void hooks_come_and_go(work *w, int me, int round) {
    (void)me; (void)round;
    const int64_t id = cr_add_hook(w->x, count_hook, &w->count, NULL);
    cr_backward(total(cr_mul_scalar(w->x, 2)), CR_NONE, NULL);
    if (cr_remove_hook(w->x, id) != CR_OK) atomic_fetch_add(&w->wrong, 1);
}

TEST(hooks_of_a_shared_leaf) {
    cr_scope_begin();
    work w = {.rounds = 100, .round = hooks_come_and_go, .x = leaf_of(2)};
    cr_add_hook(w.x, count_hook, &w.ran, NULL);
    together(&w);
    CHECK(w.ran == 100 * THREADS, "the hook that stays ran %d times", w.ran);
    CHECK(w.count >= 100 * THREADS, "the hooks that come and go ran %d times", w.count);
    EXPECT(cr_grad(w.x), 200 * THREADS);
    cr_scope_end();
}

/* u, v = x x, 3 x; du, dv -> dx = 2 x du + 3 dv */
static cr_status both_bwd(const cr_function_call *c, cr_tensor **dx) {
    atomic_fetch_add((atomic_int *)c->ctx, 1);
    dx[0] = cr_add(cr_mul_scalar(cr_mul(c->saved[0], c->grads[0]), 2), cr_mul_scalar(c->grads[1], 3));
    return CR_OK;
}

TEST(one_function_in_eight_threads) {
    cr_scope_begin();
    cr_tensor *x = leaf_of(2), *r[2];
    const bool mode = cr_set_grad_enabled(false);
    const cr_tensor *in[] = {x}, *out[] = {cr_mul(x, x), cr_mul_scalar(x, 3)};
    cr_set_grad_enabled(mode);
    work w = {.rounds = 100, .round = share_inside, .x = x};
    const cr_function_use use = {.name = "both",
                                 .n_in = 1,
                                 .in = in,
                                 .n_out = 2,
                                 .out = out,
                                 .n_saved = 1,
                                 .saved = in,
                                 .backward = both_bwd,
                                 .ctx = &w.ran};
    CHECK(cr_function_record(&use, r) == CR_OK, "%s", cr_error());
    w.y = cr_sub(r[0], cr_div_scalar(r[1], -3));               /* 2 x + 1 */
    together(&w);
    CHECK(w.ran == 100 * THREADS, "the function's gradient ran %d times", w.ran);
    EXPECT(cr_grad(x), 50 * 5 * THREADS * (THREADS + 1) / 2);
    cr_scope_end();
}

static cr_tensor *drop_half(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    return cr_dropout(cr_dropout(in[0], 0.5, true, ctx), 0.5, true, ctx);
}

static void share_checkpoint(work *w, int me, int round) {
    /* y = x mask at x = 2 */
    cr_tensor *d[1], *z = cr_mul_scalar(w->y, me + 1), *mask = cr_div_scalar(cr_detach(w->y), 2);
    (void)round;
    if (cr_gradients(1, (const cr_tensor *[]){total(z)}, NULL, 1, (const cr_tensor *[]){w->x}, d, &keeps) != CR_OK)
        return;
    if (!cr_equal(d[0], cr_mul_scalar(mask, me + 1))) atomic_fetch_add(&w->wrong, 1);
}

TEST(one_checkpoint_in_eight_threads) {
    cr_scope_begin();
    cr_generator *g = cr_generator_new(test_seed());
    cr_tensor *x = cr_requires_grad_(cr_full(CR_LIST(1009), 2, CR_F64, cr_cpu()), true);
    work w = {
        .rounds = 30, .round = share_checkpoint, .x = x, .y = cr_checkpoint(drop_half, g, 1, (const cr_tensor *[]){x})};
    together(&w);
    cr_generator_free(g);
    cr_scope_end();
}

/* ---- handles that follow a write to their memory, views of one tensor, the first use of a leaf */
static void use_follower(work *w, int me, int round) {
    cr_tensor *d[1];
    (void)me; (void)round;
    if (cr_gradients(1, (const cr_tensor *[]){total(w->y)}, NULL, 1, (const cr_tensor *[]){w->x}, d, &keeps) != CR_OK)
        return;
    if (cr_item(cr_select(d[0], 0, 0)) != 6 || cr_item(cr_select(d[0], 0, 1)) != 3) atomic_fetch_add(&w->wrong, 1);
}

TEST(handles_that_follow_a_write) {
    for (int i = 0; i < 30; i++) {
        cr_scope_begin();
        cr_tensor *x = leaf_of(1), *y = cr_mul_scalar(x, 3);
        CHECK(cr_mul_(cr_select(y, 0, 0), cr_full(CR_ALL, 2, CR_F64, cr_cpu())), "%s", cr_error());
        /* y follows in the thread that comes first */
        work w = {.rounds = 3, .round = use_follower, .x = x, .y = y};
        together(&w);
        cr_scope_end();
    }
}

static void use_views(work *w, int me, int round) {
    (void)round;
    cr_tensor *part = cr_select(w->x, 0, me % N), *buffer = cr_reshape(w->y, CR_LIST(1, N));
    cr_backward(cr_mul(part, cr_sum(buffer, CR_ALL, false)), CR_NONE, NULL);
}

TEST(views_of_a_shared_tensor) {
    for (int i = 0; i < 10; i++) {
        cr_scope_begin();
        work w = {.rounds = 10, .round = use_views, .x = leaf_of(1), .y = row_of(1)};
        together(&w);
        const double want[N] = {100, 100, 100, 50, 50};        /* threads 0 to 7 take elements 0 1 2 3 4 0 1 2 */
        CHECK(cr_equal(cr_grad(w.x), cr_from(want, CR_LIST(N), CR_F64, cr_cpu())), "wrong gradients of views");
        cr_scope_end();
    }
}

#ifndef __SANITIZE_THREAD__                         /* the flag is read without a lock: either answer is right */
/* Whether it is a parameter or frozen changes while others compute: no graph is lost from under them. */
static void freeze(work *w, int me, int round) {
    if (me == 0) { cr_requires_grad_(w->x, round % 2); return; }
    cr_tensor *z = total(cr_add(cr_mul(w->x, w->x), w->y));
    cr_backward(z, CR_NONE, NULL);
}

TEST(parameters_frozen_meanwhile) {
    cr_scope_begin();
    work w = {.rounds = 300, .round = freeze, .x = leaf_of(2), .y = leaf_of(1)};
    together(&w);
    EXPECT(cr_grad(w.y), 300 * (THREADS - 1));
    cr_scope_end();
}
#endif

/* ---- one gradient, one memory */
TEST(gradients_share_no_memory) {
    cr_scope_begin();
    cr_tensor *x = leaf_of(1), *y = leaf_of(1), *g = row_of(3), *one = row_of(1);
    for (int chosen = 0; chosen < 2; chosen++) {               /* the second time they are there already */
        const cr_backward_options o = {.n_inputs = 2 * chosen, .inputs = (const cr_tensor *[]){x, y}};
        CHECK(cr_backward(cr_add(x, y), g, &o) == CR_OK, "%s", cr_error());
        EXPECT(cr_grad(x), 3 + 3 * chosen);
        cr_add_(cr_grad(x), one);
        EXPECT(cr_grad(y), 3 + 3 * chosen);
        EXPECT(g, 3);
        cr_sub_(cr_grad(x), one);
    }
    CHECK(cr_set_grad(x, CR_NONE) == CR_OK && cr_set_grad(y, CR_NONE) == CR_OK, "gradients stay");
    CHECK(cr_backward(cr_add(x, y), g, &(cr_backward_options){.n_inputs = 2, .inputs = (const cr_tensor *[]){x, y}}) ==
              CR_OK,
          "%s", cr_error());
    cr_add_(cr_grad(x), one);
    EXPECT(cr_grad(y), 3);
    EXPECT(g, 3);
    cr_scope_end();
}
