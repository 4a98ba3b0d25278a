/* over_logits.h - the gradient of a cross-entropy is written over the logits where nothing else holds them: the bits
 * of a graph that is kept, in less memory by the size of the logits.  The same for linear_cross_entropy, whose
 * logits nobody else can hold. */
#ifndef OVER_LOGITS_H
#define OVER_LOGITS_H

#include "test.h"

enum { OVER_M = 37, OVER_V = 1031, OVER_C = 3 };
/* who else holds the logits during the backward pass */
typedef enum holder { NOBODY, GRAPH, HANDLE, HOLDERS } holder;
typedef struct over { cr_tensor *x, *w, *target; bool each, head; } over;

static cr_tensor *over_loss(const over *t, holder h) {
    const cr_cross_entropy_options o = {.ignore_index = 5,
                                        .reduction = t->each ? CR_EACH : CR_MEAN,
                                        .label_smoothing = t->each ? 0.1 : 0};
    if (t->head) return cr_linear_cross_entropy(t->x, t->w, t->target, &o);
    cr_tensor *logits = cr_linear(t->x, t->w, CR_NONE), *loss = cr_cross_entropy(logits, t->target, &o);
    if (h != HANDLE) cr_release(logits);
    return loss;
}

/* The gradients of w and x, and the bytes that the backward pass had in use beyond those before it. */
static int64_t over_step(const over *t, holder h, float *grads) {
    const cr_device *dev = cr_device_of(t->w);
    cr_scope_begin();
    OK(cr_set_grad(t->w, CR_NONE));
    OK(cr_set_grad(t->x, CR_NONE));
    cr_tensor *loss = over_loss(t, h);
    if (t->each) loss = cr_sum(cr_mul(loss, cr_arange(1, OVER_M + 1, 1, CR_F32, cr_cpu())), CR_ALL, false);
    OK(cr_synchronize(dev));
    cr_reset_peak(dev);
    const int64_t before = cr_memory_stats(dev).current;
    OK(cr_backward(loss, CR_NONE, &(cr_backward_options){.retain_graph = h == GRAPH}));
    const int64_t more = cr_memory_stats(dev).peak - before;
    OK(cr_read(cr_grad(t->w), CR_F32, grads, sizeof(float) * OVER_V * OVER_C));
    OK(cr_read(cr_grad(t->x), CR_F32, grads + OVER_V * OVER_C, sizeof(float) * OVER_M * OVER_C));
    cr_scope_end();
    return more;
}

/* exact: products do not depend on where rows begin */
static void over_case(const over *t, const cr_dtype dt, bool exact) {
    enum { GRADS = (OVER_V + OVER_M) * OVER_C };
    static float first[GRADS], grads[HOLDERS][GRADS];
    const cr_device *dev = cr_device_of(t->w);
    const int64_t logits = OVER_M * OVER_V * (int64_t)cr_dtype_size(dt);
    int64_t more[HOLDERS];
    for (holder h = NOBODY; h < (t->head ? HANDLE : HOLDERS); h++) {
        over_step(t, h, grads[h]);                  /* kernels are made, and scratch memory is there */
        more[h] = over_step(t, h, grads[h]);
        if (h == NOBODY) continue;
        CHECK(!memcmp(grads[h], grads[NOBODY], sizeof *grads), "%s, %s: other bits over the logits, head %d, each %d",
              cr_device_name(dev), cr_dtype_name(dt), t->head, t->each);
        /* on the cpu, scratch memory of products in half precision is larger */
        CHECK(more[h] - more[NOBODY] >= logits * 3 / 4 || (dev == cr_cpu() && cr_dtype_size(dt) == 2),
              "%s, %s: the pass takes %lld bytes over the logits of %lld, else %lld; head %d, each %d",
              cr_device_name(dev), cr_dtype_name(dt), (long long)more[NOBODY], (long long)logits, (long long)more[h],
              t->head, t->each);
    }
    double most = 0, off = 0;
    for (int i = 0; t->head && i < GRADS; i++) {
        most = fmax(most, fabs((double)first[i]));
        off = fmax(off, fabs((double)first[i] - (double)grads[NOBODY][i]));
    }
    CHECK(off <= (exact ? 0 : 1e-2) * most, "%s, %s: gradients of the head are off by %g of %g, each %d",
          cr_device_name(dev), cr_dtype_name(dt), off, most, t->each);
    memcpy(first, grads[NOBODY], sizeof first);
    test_ran_on(dev);
}

__attribute__((unused)) static void check_over_logits(const cr_device *dev, cr_dtype dt, bool exact) {
    const bool transfers = cr_auto_transfer(true);
    const int threads = cr_num_threads();
    OK(cr_set_num_threads(1));                      /* how many have scratch memory at once is a matter of luck */
    cr_generator *random = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_to(cr_randn(CR_LIST(OVER_M, OVER_C), CR_F32, cr_cpu(), random), dt, cr_cpu()),
              *w = cr_to(cr_randn(CR_LIST(OVER_V, OVER_C), CR_F32, cr_cpu(), random), dt, cr_cpu());
    over t = {.x = cr_requires_grad_(cr_to(x, dt, dev), true),
              .w = cr_requires_grad_(cr_to(w, dt, dev), true),
              .target = cr_to(cr_arange(0, OVER_M, 1, CR_I64, cr_cpu()), CR_I64, dev)};
    for (int i = 0; i < 4; i++) {
        t.each = i / 2, t.head = i % 2;
        over_case(&t, dt, exact);
    }
    cr_scope_end();
    cr_generator_free(random);
    cr_auto_transfer(transfers);
    OK(cr_set_num_threads(threads));
}

#endif
