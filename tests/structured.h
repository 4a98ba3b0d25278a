/* structured.h - what the tests of the structured ops' edges share: the device under test, small
 * tensors, and values in order. */
#ifndef STRUCTURED_H
#define STRUCTURED_H

#include "test.h"
#include "ops/compose.h"

static const cr_device *dev;                        /* the one under test */
#define EACH_DEVICE for (int device_ = 0; device_ < 2 && (dev = device_ ? cr_ref() : cr_cpu()); device_++, \
    test_ran_on(dev))

static inline cr_tensor *counting(int n, const int64_t *shape) {           /* 0, 1, 2 ... */
    int64_t numel = 1;
    for (int i = 0; i < n; i++) numel *= shape[i];
    return cr_reshape(cr_arange(0, (double)numel, 1, CR_F32, dev), n, shape);
}

static inline cr_tensor *of(int n, const double *v) { return cr_from(v, CR_LIST(n), CR_F64, dev); }
#define OF(...) of((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
static inline cr_tensor *of_index(int n, const int64_t *v) { return cr_from(v, CR_LIST(n), CR_I64, dev); }
static inline cr_tensor *normal(int n, const int64_t *shape, uint64_t seed) {
    cr_generator *g = cr_generator_new(seed);
    cr_tensor *t = cr_randn(n, shape, CR_F64, dev, g);
    cr_generator_free(g);
    return t;
}

static inline bool has_shape(const cr_tensor *t, int n, const int64_t *shape) {
    return t && t->ndim == n && (!n || !memcmp(t->shape, shape, sizeof *shape * (size_t)n));
}

/* t must be these numbers in order, each within tolerance (NaN equals NaN). */
static inline void check_values(const char *file, int line, const cr_tensor *t, int n, const double *want,
                                double tolerance) {
    double got[128];
    if (!t || t->numel != n || n > 128) {
        test_fail(file, line, "%s: no tensor of %d elements: %s", dev->name, n, cr_error() ? cr_error() : "");
        return;
    }
    OK(cr_read(t, CR_F64, got, sizeof *got * (size_t)n));
    for (int i = 0; i < n; i++) {
        bool same_kind = isnan(want[i])   ? isnan(got[i])
                         : isinf(want[i]) ? got[i] == want[i]
                                          : fabs(got[i] - want[i]) <= tolerance;
        if (!same_kind) test_fail(file, line, "%s: element %d is %.17g, wanted %.17g", dev->name, i, got[i], want[i]);
    }
}
#define VALUES(t, ...) check_values(__FILE__, __LINE__, t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
    (double[]){__VA_ARGS__}, 1e-6)
#define SHAPE(t, ...) do { const cr_tensor *t_ = (t); CHECK(has_shape(t_, CR_LIST(__VA_ARGS__)), "%s: %s is %s: %s", \
    dev->name, #t, \
    t_ ? cr_shape_text(t_->ndim, t_->shape).s : "NULL", cr_error() ? cr_error() : ""); } while (0)
#define SCOPED(...) do { cr_scope_begin(); __VA_ARGS__; cr_scope_end(); } while (0)

static inline cr_tensor *gradient_of(const cr_tensor *y, const cr_tensor *x) {
    OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
    return cr_grad(x);
}

/* Bytes in use before and after: nothing stays behind, on success or failure, with or without a graph. */
static inline void check_leaks(int n, void (*const *checks)(void)) {
    EACH_DEVICE {
        const int64_t before = cr_memory_stats(dev).current;
        for (int i = 0; i < n; i++) SCOPED(checks[i]());
        const int64_t after = cr_memory_stats(dev).current;
        CHECK(before == after, "%s: %lld bytes in use before, %lld after", dev->name, (long long)before,
              (long long)after);
    }
}
#define CHECK_LEAKS(...) check_leaks((int)(sizeof((void (*const[])(void)){__VA_ARGS__}) / sizeof(void (*)(void))), \
    (void (*const[])(void)){__VA_ARGS__})

#endif
