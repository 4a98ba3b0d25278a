/* test_transform.c - vmap, forward mode and gradients inside them from C, on both devices, and what is refused; every
 * structured op inside vmap against a loop over the samples, and in forward mode against its gradient. */
#pragma GCC diagnostic ignored "-Wunused-function"         /* compares with no truth */
#include "ops_cases.h"

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

/* ---- every structured op */
enum { SAMPLES = 2, LONGEST = 6000 };               /* elements of an input: longer cases are about blocks of kernels */

/* How many elements they take or give follows from values, which differ from sample to sample. */
static const char *const by_values[] = {"nonzero", "runs", "unique", "masked_select", "masked_scatter", NULL};

static bool is_by_values(const char *op, const char *what) {
    for (int i = 0; by_values[i]; i++) if (!strcmp(op, by_values[i])) return true;
    return !strncmp(op, "index_", 6) && strstr(what, "mask");
}

static cr_tensor *run_case(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    return ((const op_case *)ctx)->run(in);
}

static cr_tensor *loop_over(const op_case *c, int n, const cr_tensor *const *in, const int *axes) {
    const cr_tensor *y[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        const cr_tensor *sample[4] = {NULL};
        for (int k = 0; k < n; k++) sample[k] = axes[k] == CR_UNMAPPED ? in[k] : cr_select(in[k], 0, s);
        if (!(y[s] = c->run(sample))) return NULL;
    }
    return cr_stack(SAMPLES, y, 0);
}

static bool runs_mapped(const op_case *c, int n, const cr_tensor *const *in, const int *axes) {
    const cr_tensor *want = loop_over(c, n, in, axes);
    CHECK(want || is_by_values(c->op, c->what), "%s, %s: a loop fails: %s", c->op, c->what, cr_error());
    cr_error_clear();
    const cr_tensor *got = cr_vmap(run_case, (void *)(uintptr_t)c, n, in, axes, 0, CR_RANDOM_SAME);
    const char *why = cr_error() ? cr_error() : "";
    CHECK(got || is_by_values(c->op, c->what), "%s, %s: no rule for vmap: %s", c->op, c->what, why);
    cr_error_clear();
    if (!want || !got) return false;
    const double near = cr_dtype_of(want) == CR_F64 ? 1e-9 : 0;
    bool close = cr_dtype_of(got) == cr_dtype_of(want) && cr_ndim(got) == cr_ndim(want);
    close = close && cr_allclose(got, want, near, near, true);
    CHECK(close, "%s, %s, the first input %s: vmap differs from a loop", c->op, c->what,
          axes[0] == CR_UNMAPPED ? "the same" : "mapped");
    return close;
}

static double product_of(const cr_tensor *a, const cr_tensor *b) {
    return cr_item(cr_sum(cr_mul(a, b), CR_ALL, false));
}

/* <v, J t> = <J^T v, t> */
static void check_forward(const op_case *c, int n, const cr_tensor *const *in, cr_generator *g) {
    const cr_tensor *x[4], *leaves[4], *t[4];
    cr_tensor *grad[4], *ty = NULL;
    int n_leaves = 0;
    for (int k = 0; k < n; k++) {
        x[k] = cr_select(in[k], 0, 0);
        t[k] = CR_NONE;
        if (cr_dtype_of(x[k]) != CR_F64) continue;
        leaves[n_leaves++] = cr_requires_grad_((cr_tensor *)(uintptr_t)x[k], true);
        t[k] = cr_randn(cr_ndim(x[k]), cr_shape(x[k]), CR_F64, cr_device_of(x[k]), g);
    }
    const cr_tensor *y = c->run(x), *v = y ? cr_randn(cr_ndim(y), cr_shape(y), CR_F64, cr_device_of(y), g) : NULL;
    if (!v || cr_gradients(1, &y, &v, n_leaves, leaves, grad, NULL) != CR_OK) {
        CHECK(false, "%s, %s: its gradient fails: %s", c->op, c->what, cr_error() ? cr_error() : "");
        return;
    }
    double reverse = 0;
    for (int k = 0, i = 0; k < n; k++) {
        if (t[k] == CR_NONE) continue;
        if (grad[i] != CR_NONE) reverse += product_of(grad[i], t[k]);
        i++;
    }
    const cr_tensor *value = cr_jvp(run_case, (void *)(uintptr_t)c, n, x, t, &ty);
    CHECK(value, "%s, %s: no rule for forward mode: %s", c->op, c->what, cr_error() ? cr_error() : "");
    cr_error_clear();
    if (!value) return;
    const double forward = product_of(ty, v);
    CHECK(fabs(forward - reverse) <= 1e-7 * (1 + fabs(reverse)), "%s, %s: forward %.12g, reverse %.12g", c->op, c->what,
          forward, reverse);
}

static long check_transforms(const op_case *c, int i, const cr_device *dev) {
    const int n = case_inputs(c);
    const cr_dtype dt = c->dtypes & FLOATS ? CR_F64 : c->dtypes & WHOLES ? CR_I64 : CR_BOOL;
    stream r = stream_of(c->op, i);
    const cr_tensor *stacked[4], *given[4];
    int axes[4];
    long ran = 0;
    cr_scope_begin();
    for (int k = 0; k < n; k++) {
        const cr_tensor *sample[SAMPLES];
        for (int s = 0; s < SAMPLES; s++) {
            data d = data_fill(&c->in[k], dt, &r);
            sample[s] = data_put(&d, DENSE, dev);
            data_free(&d);
        }
        stacked[k] = cr_stack(SAMPLES, sample, 0);
    }
    for (int only = n > 1 ? 0 : n; only <= n; only++) {         /* n: all */
        for (int k = 0; k < n; k++) {
            axes[k] = only == n || only == k ? 0 : CR_UNMAPPED;
            given[k] = axes[k] ? cr_select(stacked[k], 0, 0) : stacked[k];
        }
        ran += runs_mapped(c, n, given, axes);
    }
    if (c->smooth && dt == CR_F64) {
        cr_generator *g = cr_generator_new(test_seed());
        check_forward(c, n, stacked, g);
        cr_generator_free(g);
    }
    cr_scope_end();
    return ran;
}

static bool is_short(const op_case *c) {
    bool few = true;
    for (int k = 0; k < case_inputs(c); k++) {
        int64_t numel = 1;
        for (int a = 0; a < c->in[k].ndim; a++) numel *= c->in[k].shape[a];
        few &= numel <= LONGEST;
    }
    return few && case_inputs(c) > 0;
}

TEST(every_op) {
    long ran = 0;
    for (int i = 0; i < OP_CASES; i++)
        if (test_wants(op_cases[i].op) && is_short(&op_cases[i])) ran += check_transforms(&op_cases[i], i, cr_cpu());
    test_ran_on(cr_cpu());
    for (int i = 0; cr_ops_all[i]; i++) {
        const cr_op *op = cr_ops_all[i];
        CHECK(op->batch || op->composite || is_by_values(op->name, ""), "%s: no rule for vmap", op->name);
        CHECK(op->tangent || op->composite || op->no_grad, "%s: no rule for forward mode", op->name);
    }
    printf("  %ld mapped calls\n", ran);
}
