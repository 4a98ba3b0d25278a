/* test_plan_memory.c - recording and replaying while each allocation of the host fails in turn: a message, nothing half
 * recorded, and the next try has the right bits.  The linker gives the functions below in place of the C library's. */
#include "test.h"

#include <stdlib.h>

static _Thread_local long left = -1;                /* allocations until one fails; below 0: none will */
static _Thread_local bool failed;

static bool fails(void) {
    if (left < 0 || left-- > 0) return false;
    return failed = true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t alignment, size_t n) { return fails() ? NULL : __real_aligned_alloc(alignment, n); }

/* ---- steps */
typedef struct net { cr_params *params; cr_optim *opt; cr_tensor *w, *b; } net;

static net net_new(const cr_device *dev) {
    net n = {.params = cr_params_new()};
    cr_generator *g = cr_generator_new(3);
    cr_scope_begin();
    n.w = cr_requires_grad_(cr_randn(CR_LIST(16, 24), CR_F32, dev, g), true);
    n.b = cr_requires_grad_(cr_zeros(CR_LIST(16), CR_F32, dev), true);
    OK(cr_params_add(n.params, "w", n.w));
    OK(cr_params_add(n.params, "b", n.b));
    cr_scope_end();
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    n.opt = cr_optim_new(n.params, &o);
    cr_generator_free(g);
    return n;
}

static void net_free(net *n) {
    cr_optim_free(n->opt);
    cr_params_free(n->params);
}

/* Products, rows, chains, kernels by tiles; NULL: an op failed. */
static cr_tensor *forward(const net *n, const cr_tensor *x) {
    cr_tensor *h = cr_gelu(cr_linear(x, n->w, n->b));
    cr_tensor *y = cr_sub(h, cr_max(h, CR_LIST(-1), true)), *p = cr_softmax(cr_mul(y, cr_exp(y)), -1);
    return cr_add(p, cr_mul_scalar(cr_layer_norm(h, n->b, n->b, 1e-5), 0.5));
}

static cr_tensor *trained(const net *n, const cr_tensor *x) {
    cr_params_zero_grad(n->params);
    cr_tensor *loss = cr_mean(cr_mul(forward(n, x), forward(n, x)), 0, NULL, false);
    if (!loss || cr_backward(loss, CR_NONE, NULL) != CR_OK || cr_optim_step(n->opt) != CR_OK) return NULL;
    return cr_detach(loss);
}

static cr_plan *recorded(const net *n, const cr_tensor *x, bool training) {
    cr_tensor *y;
    if (cr_record_begin(1, &x) != CR_OK) return NULL;
    if (!(y = training ? trained(n, x) : forward(n, x))) return cr_record_cancel(), NULL;
    return cr_record_end(1, (const cr_tensor *const *)&y);
}

static void check_failure(long k, const char *what) {
    CHECK(cr_error() && cr_error_status() == CR_NO_MEMORY, "%s, allocation %ld: %s", what, k,
          cr_error() ? cr_error() : "no message");
    CHECK(!cr_recording(), "%s, allocation %ld: still recording", what, k);
    cr_error_clear();
}

static void same(const cr_tensor *a, const cr_tensor *b, const char *what, long k) {
    float x[1024 * 16], y[1024 * 16];
    const size_t bytes = (size_t)cr_numel(a) * sizeof *x;
    OK(cr_read(a, CR_F32, x, bytes));
    OK(cr_read(b, CR_F32, y, bytes));
    CHECK(!memcmp(x, y, bytes), "%s after allocation %ld failed: other bits", what, k);
}

static const cr_device *const *devices(void) {
    static const cr_device *all[3];
    all[0] = cr_cpu(), all[1] = cr_ref();
    return all;
}

/* The plain loops of ref take long: there one allocation in seven. */
static long stride_of(const cr_device *dev) { return dev == cr_ref() && !test_full() ? 7 : 1; }

static void record_without_memory(const cr_device *dev, bool training) {
    const char *what = training ? "a recorded update" : "a recorded step";
    cr_scope_begin();
    net n = net_new(dev);
    const cr_tensor *x = cr_ones(CR_LIST(1024, 24), CR_F32, dev);
    if (training) CHECK(trained(&n, x), "%s", cr_error());
    for (long k = 0; ; k += stride_of(dev)) {
        CHECK(k < 20000, "%s never succeeds", what);
        cr_scope_begin();
        left = k, failed = false;
        cr_plan *p = recorded(&n, x, training);
        left = -1;
        if (failed && !p) check_failure(k, what);
        CHECK(p || failed, "%s: %s", what, cr_error());
        cr_plan_free(p);
        cr_scope_end();
        if (!failed) { CHECK(k > 100, "only %ld allocations", k); break; }
    }
    net_free(&n);
    cr_scope_end();
    test_ran_on(dev);
}

static void run_without_memory(const cr_device *dev) {
    cr_scope_begin();
    net n = net_new(dev);
    cr_generator *g = cr_generator_new(5);
    const cr_tensor *x = cr_randn(CR_LIST(1024, 24), CR_F32, dev, g);
    cr_tensor *want = forward(&n, x), *y = NULL, *dw[2] = {NULL}, *dz[2] = {NULL};
    const cr_tensor *w[] = {n.w, n.b}, *ones = cr_ones(CR_LIST(1024, 16), CR_F32, dev);
    OK(cr_gradients(1, (const cr_tensor *const *)&want, &ones, 2, w, dw, NULL));
    cr_plan *p = recorded(&n, x, false);
    CHECK(p, "%s", cr_error());
    for (long k = 0; ; k += stride_of(dev)) {
        cr_scope_begin();
        left = k, failed = false;
        cr_status status = cr_plan_run(p, &x, &y);
        if (status == CR_OK) status = cr_gradients(1, (const cr_tensor *const *)&y, &ones, 2, w, dz, NULL);
        left = -1;
        if (status != CR_OK) check_failure(k, "a run");
        if (status == CR_OK || k % 7 == 0) {
            OK(cr_plan_run(p, &x, &y));
            OK(cr_gradients(1, (const cr_tensor *const *)&y, &ones, 2, w, dz, NULL));
            same(y, want, "a run", k);
            same(dz[0], dw[0], "a gradient", k);
        }
        cr_scope_end();
        if (!failed) { CHECK(k > 10, "only %ld allocations", k); break; }
    }
    cr_plan_wait(p);
    cr_plan_free(p);
    cr_generator_free(g);
    net_free(&n);
    cr_scope_end();
    test_ran_on(dev);
}

TEST(recording) {
    for (const cr_device *const *d = devices(); *d; d++) {
        record_without_memory(*d, false);
        record_without_memory(*d, true);
    }
}

TEST(replaying) { for (const cr_device *const *d = devices(); *d; d++) run_without_memory(*d); }
