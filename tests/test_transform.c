/* test_transform.c - vmap, forward mode and gradients inside them from C, on both devices, and what is refused. */
#include "test.h"

#include <math.h>

/* sum(sin(x) w): of x (C) and w (C) */
static cr_tensor *energy(int n, const cr_tensor *const *in, void *ctx) {
    (void)n; (void)ctx;
    return cr_sum(cr_mul(cr_sin(in[0]), in[1]), CR_ALL, false);
}

/* its gradient with respect to x: cos(x) w */
static cr_tensor *slope(int n, const cr_tensor *const *in, void *ctx) {
    const cr_tensor *x = cr_grad_enter(in[0]), *of[] = {x, in[1]};
    const cr_tensor *y = x ? energy(n, of, ctx) : NULL;
    bool nested = true;
    cr_tensor *dx = NULL;
    if (!y || cr_grad_nested(1, &y, 1, &x, &nested) != CR_OK) return NULL;
    CHECK(!nested, "the result depends on no other leaf");
    return cr_grad_leave(1, &y, NULL, 1, &x, &dx, NULL) == CR_OK ? dx : NULL;
}

/* its derivative along (1, 1...): -sin(x) w */
static cr_tensor *curvature(int n, const cr_tensor *const *in, void *ctx) {
    const cr_tensor *const tangents[] = {cr_ones_like(in[0]), CR_NONE};
    cr_tensor *t = NULL;
    cr_release(cr_jvp(slope, ctx, n, in, tangents, &t));
    return t;
}

static double largest_gap(const cr_tensor *a, const cr_tensor *b) {
    return a && b ? cr_item(cr_max(cr_abs(cr_sub(a, b)), CR_ALL, false)) : NAN;
}

static void on_device(const cr_device *dev) {
    cr_generator *g = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_randn(CR_LIST(5, 3), CR_F64, dev, g), *w = cr_randn(CR_LIST(3, 7), CR_F64, dev, g);
    const cr_tensor *in[] = {x, w};
    const int axes[] = {CR_UNMAPPED, 1}, outer[] = {0, CR_UNMAPPED};
    const cr_tensor *row[] = {cr_select(x, 0, 1), w};
    cr_tensor *want = cr_sum(cr_mul(cr_unsqueeze(cr_sin(row[0]), 1), w), CR_LIST(0), false);
    double gap = largest_gap(cr_vmap(energy, NULL, 2, row, axes, 0, CR_RANDOM_ERROR), want);
    CHECK(gap < 1e-12, "vmap: %g", gap);
    const cr_tensor *one[] = {x, cr_select(w, 1, 0)};
    want = cr_mul(cr_cos(x), one[1]);
    gap = largest_gap(cr_vmap(slope, NULL, 2, one, outer, 0, CR_RANDOM_ERROR), want);
    CHECK(gap < 1e-12, "vmap of a gradient: %g", gap);
    want = cr_neg(cr_mul(cr_sin(x), one[1]));
    gap = largest_gap(cr_vmap(curvature, NULL, 2, one, outer, 0, CR_RANDOM_ERROR), want);
    CHECK(gap < 1e-12, "vmap of forward mode of a gradient: %g", gap);
    FAILS(CR_BAD_VALUE, "no input is mapped",
          cr_vmap(energy, NULL, 2, in, (const int[]){CR_UNMAPPED, CR_UNMAPPED}, 0, CR_RANDOM_ERROR));
    FAILS(CR_BAD_VALUE, "[vmap]", cr_vmap(energy, NULL, 2, in, (const int[]){0, 1}, 0, CR_RANDOM_ERROR));
    CHECK(!cr_transform_depth(), "%d levels are left", cr_transform_depth());
    const uint64_t level = cr_vmap_begin(5, CR_RANDOM_ERROR);
    cr_tensor *sample = cr_vmap_enter(x, 0, level);
    CHECK(cr_ndim(sample) == 1 && cr_level_of(sample) == level && !cr_level_of(x), "a sample has one axis");
    cr_item(cr_sum(sample, CR_ALL, false));
    CHECK(cr_error() && strstr(cr_error(), "[item]"), "item inside vmap: %s", cr_error() ? cr_error() : "no error");
    cr_error_clear();
    OK(cr_transform_end(level));
    FAILS(CR_RUNTIME, "has ended", cr_neg(sample));
    CHECK(cr_transform_end(level) != CR_OK, "a level ends once");
    cr_error_clear();
    cr_scope_end();
    cr_generator_free(g);
    test_ran_on(dev);
}

TEST(transforms) { on_device(cr_cpu()); on_device(cr_ref()); }
