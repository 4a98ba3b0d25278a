/* test_mixed.c - mixed precision: autocast's table, regions, copies that an optimizer keeps, loss scaling and its
 * place in checkpoints. */
#include "folder.h"
#include "ops/op.h"
#include "test.h"
#include "wide.h"

static cr_tensor *parameter(int64_t m, int64_t n) {
    return cr_requires_grad_(cr_ones(CR_LIST(m, n), CR_F32, cr_cpu()), true);
}

static cr_dtype product(const cr_tensor *w) {
    cr_scope_begin();
    const cr_tensor *y = cr_matmul(cr_ones(CR_LIST(2, 2), CR_F32, cr_cpu()), w);
    const cr_dtype dt = y ? cr_dtype_of(y) : CR_DTYPES;
    cr_scope_end();
    return dt;
}

TEST(table) {
    for (int i = 0; cr_autocast_listed(i); i++) {
        const char *name = cr_autocast_listed(i);
        CHECK(!i || strcmp(cr_autocast_listed(i - 1), name) < 0, "'%s' is not behind '%s'", name,
              cr_autocast_listed(i - 1));
        CHECK(cr_autocast_policy(name) != CR_CAST_UNLISTED, "'%s' is not found", name);
    }
    CHECK(cr_autocast_policy("exp") == CR_CAST_UNLISTED && cr_autocast_policy("") == CR_CAST_UNLISTED &&
              cr_autocast_policy("zz") == CR_CAST_UNLISTED,
          "a name that is not listed is found");
    FAILS(CR_BAD_VALUE, "the op is NULL", cr_autocast_policy(NULL));
    cr_error_clear();
}

TEST(regions) {
    cr_scope_begin();
    cr_tensor *w = parameter(2, 2);
    FAILS(CR_RUNTIME, "no region has begun", cr_autocast_end());
    FAILS(CR_BAD_TYPE, "float32 for none: float64", cr_autocast_begin(cr_cpu(), CR_F64, true));
    FAILS(CR_BAD_VALUE, "the device is NULL", cr_autocast_begin(NULL, CR_BF16, true));
    cr_error_clear();
    CHECK(!cr_autocasting() && product(w) == CR_F32, "casts before a region");
    OK(cr_autocast_begin(cr_cpu(), CR_BF16, true));
    CHECK(product(w) == CR_BF16 && cr_autocast_dtype(cr_cpu()) == CR_BF16 && cr_autocast_dtype(cr_ref()) == CR_F32,
          "no casts, or on another device");
    OK(cr_autocast_begin(cr_cpu(), CR_F32, true));
    CHECK(product(w) == CR_F32 && cr_autocasting(), "casts in a region without");
    OK(cr_autocast_begin(cr_cpu(), CR_F16, true));
    CHECK(product(w) == CR_F16, "the innermost region counts");
    const bool before = cr_set_autocast(false);
    CHECK(before && product(w) == CR_F32, "casts while suspended");
    cr_set_autocast(before);
    for (int i = 0; i < 2; i++) OK(cr_autocast_end());
    CHECK(product(w) == CR_BF16, "the outer region does not go on");
    OK(cr_autocast_end());
    CHECK(product(w) == CR_F32 && !cr_set_autocast(true) && product(w) == CR_F32, "casts behind the last region");
    cr_set_autocast(false);
    cr_scope_end();
}

static const void *cast_storage(const cr_tensor *w) {
    cr_tensor *y = cr_autocast_cast(w, CR_BF16);
    const void *id = y ? cr_storage_id(y) : NULL;
    cr_release(y);
    return id;
}

static float first(const cr_tensor *w) {
    float v[4] = {NAN};
    cr_scope_begin();
    OK(cr_read(cr_autocast_cast(w, CR_BF16), CR_F32, v, sizeof v));
    cr_scope_end();
    return v[0];
}

static void add_to(cr_tensor *w, double v) {
    const bool mode = cr_set_grad_enabled(false);
    CHECK(cr_fill_(w, v), "%s", cr_error());
    cr_set_grad_enabled(mode);
}

/* The second run of a checkpoint casts as the first did, outside of the region. */
static cr_tensor *checkpointed(int n, const cr_tensor *const *in, void *ctx) {
    (void)n, (void)ctx;
    return cr_matmul(in[0], in[0]);
}

TEST(checkpoint_of_a_region) {
    cr_scope_begin();
    cr_tensor *w = parameter(2, 2);
    OK(cr_autocast_begin(cr_cpu(), CR_BF16, true));
    const cr_tensor *y = cr_checkpoint(checkpointed, NULL, 1, (const cr_tensor *const *)&w);
    OK(cr_autocast_end());
    REQUIRE(y && cr_dtype_of(y) == CR_BF16, "no cast in the first run");
    OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
    CHECK(!cr_autocasting() && !cr_is_none(cr_grad(w)), "a region goes on, or there is no gradient");
    cr_scope_end();
}

/* The copy of an optimizer is the cast; writes by others are seen; the gradient comes back in f32. */
TEST(kept_copies) {
    cr_scope_begin();
    cr_tensor *w = parameter(2, 2), *copy = cr_empty(CR_LIST(2, 2), CR_BF16, cr_cpu());
    cr_params *p = cr_params_new();
    OK(cr_params_add(p, "w", w));
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = 0.5;
    cr_optim *opt = cr_optim_new(p, &o);
    OK(cr_optim_mirror(opt, w, copy));
    FAILS(CR_BAD_VALUE, "the shape (2, 2)", cr_autocast_copy(w, cr_empty(CR_LIST(3), CR_BF16, cr_cpu())));
    FAILS(CR_BAD_TYPE, "half precision", cr_autocast_copy(w, w));
    cr_error_clear();
    OK(cr_autocast_copy(w, copy));
    for (int step = 0; step < 3; step++) {
        OK(cr_autocast_begin(cr_cpu(), CR_BF16, true));
        cr_scope_begin();
        CHECK(cast_storage(w) == cr_storage_id(copy), "step %d: the copy is not the cast", step);
        cr_tensor *loss = cr_sum(cr_matmul(cr_ones(CR_LIST(2, 2), CR_F32, cr_cpu()), w), CR_ALL, false);
        OK(cr_autocast_end());
        OK(cr_backward(loss, CR_NONE, NULL));
        CHECK(cr_dtype_of(cr_grad(w)) == CR_F32, "the gradient is %s", cr_dtype_name(cr_dtype_of(cr_grad(w))));
        OK(cr_optim_step(opt));
        cr_params_zero_grad(p);
        cr_scope_end();
        CHECK(fabs((double)first(w) - (double)*(const float *)cr_data(w)) < 0.01, "step %d: the copy is old", step);
    }
    add_to(w, 7);
    OK(cr_autocast_begin(cr_cpu(), CR_BF16, true));
    CHECK((double)first(w) == 7, "a write by others is not in the cast: %g", (double)first(w));
    OK(cr_autocast_copy(w, (cr_tensor *)(uintptr_t)CR_NONE));
    CHECK(cast_storage(w) != cr_storage_id(copy) && cast_storage(w) == cast_storage(w), "forgotten: a cast of its own");
    add_to(w, 3);
    CHECK((double)first(w) == 3, "a write in a region is not in the cast");
    OK(cr_autocast_end());
    cr_optim_free(opt);
    cr_params_free(p);
    cr_scope_end();
}

/* Copies that are forgotten in the order in which they were made: each is found, and none is forgotten twice. */
static void forget_copies(int n) {
    enum { MOST = 9 };
    cr_tensor *w[MOST], *copy[MOST];
    for (int i = 0; i < n; i++) {
        w[i] = parameter(2, 2);
        copy[i] = cr_to(cr_detach(w[i]), CR_BF16, cr_cpu());
        OK(cr_autocast_copy(w[i], copy[i]));
    }
    for (int i = 0; i < n; i++) {
        OK(cr_autocast_copy(w[i], (cr_tensor *)(uintptr_t)CR_NONE));
        CHECK(!cr_error(), "copy %d of %d: %s", i, n, cr_error());
        cr_error_clear();
    }
    OK(cr_autocast_begin(cr_cpu(), CR_BF16, true));
    for (int i = 0; i < n; i++)
        CHECK(cast_storage(w[i]) != cr_storage_id(copy[i]), "copy %d of %d is not forgotten", i, n);
    OK(cr_autocast_end());
}
TEST(forgotten_copies) {
    for (int n = 1; n < 10; n++) {
        cr_scope_begin();
        forget_copies(n);
        cr_scope_end();
    }
}

TEST(wide_products) {
    for (int d = 0; cr_device_at(d); d++) check_wide_products(cr_device_at(d));
}
TEST(wide_gradients) {
    for (int d = 0; cr_device_at(d); d++) check_wide_gradients(cr_device_at(d));
}

/* ---- the scaler */
typedef struct problem { cr_tensor *w; cr_params *p; cr_optim *opt; } problem;

static problem problem_new(void) {
    problem q = {.w = cr_requires_grad_(cr_zeros(CR_LIST(2), CR_F32, cr_cpu()), true), .p = cr_params_new()};
    cr_optim_options o = cr_optim_defaults(CR_SGD);
    o.lr = 1;
    OK(cr_params_add(q.p, "w", q.w));
    q.opt = cr_optim_new(q.p, &o);
    return q;
}

static void problem_free(problem *q) {
    cr_optim_free(q->opt);
    cr_params_free(q->p);
    cr_release(q->w);
}

static void gradient(problem *q, float a, float b) {
    cr_tensor *g = cr_from((float[]){a, b}, CR_LIST(2), CR_F32, cr_cpu());
    OK(cr_set_grad(q->w, g));
    cr_release(g);
}

static double at(const problem *q, int i) { return (double)((const float *)cr_data(q->w))[i]; }

TEST(scaler) {
    cr_scaler_options o = cr_scaler_defaults();
    CHECK(o.init_scale == 65536 && o.growth_factor == 2 && o.backoff_factor == 0.5 && o.growth_interval == 2000 &&
              o.enabled,
          "other defaults than PyTorch's");
    o.init_scale = 4;
    o.growth_interval = 2;
    cr_scaler *s = cr_scaler_new(&o);
    problem q = problem_new();
    double norm = 0;
    bool stepped = false;
    FAILS(CR_RUNTIME, "no optimizer has stepped", cr_scaler_update(s));
    cr_error_clear();
    cr_tensor *loss = cr_scalar(3), *scaled = cr_scaler_scale(s, loss);
    CHECK(cr_item(scaled) == 12, "scaled to %g", cr_item(scaled));
    cr_release(loss);
    cr_release(scaled);

    gradient(&q, 12, 16);                           /* of norm 5 without the scale */
    OK(cr_scaler_step(s, q.opt, INFINITY, &norm, &stepped));
    CHECK(stepped && norm == 5 && at(&q, 0) == -3 && at(&q, 1) == -4, "norm %g, at %g %g", norm, at(&q, 0), at(&q, 1));
    FAILS(CR_RUNTIME, "has stepped since", cr_scaler_step(s, q.opt, 1, NULL, NULL));
    FAILS(CR_RUNTIME, "has stepped since", cr_scaler_unscale(s, q.opt));
    cr_error_clear();
    OK(cr_scaler_update(s));

    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {                   /* skipped; the scale falls */
        gradient(&q, 1, bad[i]);
        if (i) OK(cr_scaler_unscale(s, q.opt));
        OK(cr_scaler_step(s, q.opt, 1, &norm, &stepped));
        OK(cr_scaler_update(s));
        CHECK(!stepped && at(&q, 0) == -3 && cr_scaler_scale_of(s) == 2.0 / (1 << i), "%g: scale %g", (double)bad[i],
              cr_scaler_scale_of(s));
    }
    for (int i = 0; i < 4; i++) {                   /* two steps each double it; unscaled before, then clipped to 1 */
        gradient(&q, 0, (float)(3 * cr_scaler_scale_of(s)));
        if (i % 2) {
            OK(cr_scaler_unscale(s, q.opt));
            FAILS(CR_RUNTIME, "were divided since", cr_scaler_unscale(s, q.opt));
            cr_error_clear();
            CHECK(((const float *)cr_data(cr_grad(q.w)))[1] == 3, "not divided");
        }
        const double before = at(&q, 1);
        OK(cr_scaler_step(s, q.opt, 1, &norm, &stepped));
        OK(cr_scaler_update(s));
        CHECK(stepped && fabs(norm - 3) < 1e-6 && fabs(before - at(&q, 1) - 1) < 1e-5, "norm %g, a step of %g", norm,
              before - at(&q, 1));
        CHECK(cr_scaler_scale_of(s) == (i == 3 ? 2 : i ? 1 : 0.5), "step %d: scale %g", i, cr_scaler_scale_of(s));
    }
    gradient(&q, 3e38f, 3e38f);                     /* finite, though the sum of squares is not */
    OK(cr_scaler_step(s, q.opt, INFINITY, NULL, &stepped));
    OK(cr_scaler_update(s));
    CHECK(stepped && cr_scaler_scale_of(s) == 2, "a finite gradient was skipped");

    cr_scaler_state state = cr_scaler_get(s);
    state.scale = 3e38;
    state.growth_tracker = 1;
    OK(cr_scaler_set(s, &state));
    gradient(&q, 1, 1);
    OK(cr_scaler_step(s, q.opt, INFINITY, NULL, NULL));
    OK(cr_scaler_update(s));
    CHECK(cr_scaler_scale_of(s) == 3e38, "grown to %g", cr_scaler_scale_of(s));
    state.growth_tracker = 2;
    FAILS(CR_BAD_VALUE, "growth_tracker must be in [0, 2), not 2", cr_scaler_set(s, &state));
    FAILS(CR_BAD_VALUE, "max_norm must be at least 0", cr_scaler_step(s, q.opt, NAN, NULL, NULL));
    const cr_scaler_options wrong[] = {{0, 2, 0.5, 1, true}, {1, 1, 0.5, 1, true}, {1, 2, 1, 1, true},
                                       {1, 2, 0.5, 0, true}, {INFINITY, 2, 0.5, 1, true}};
    for (int i = 0; i < 5; i++) FAILS(CR_BAD_VALUE, "must be", cr_scaler_new(&wrong[i]));
    cr_error_clear();
    cr_scaler_free(s);

    o.enabled = false;
    s = cr_scaler_new(&o);
    gradient(&q, INFINITY, 0);
    OK(cr_scaler_unscale(s, q.opt));
    OK(cr_scaler_step(s, q.opt, INFINITY, NULL, &stepped));
    OK(cr_scaler_update(s));
    CHECK(stepped && cr_scaler_scale_of(s) == 1, "off: it skips or scales");
    cr_scaler_free(s);
    problem_free(&q);
}

TEST(scaler_in_checkpoints) {
    cr_scaler *s = cr_scaler_new(NULL), *other = cr_scaler_new(NULL);
    const cr_scaler_state state = {1.0 / 3, 1.7, 0.3, 7, 5};
    const char *dir = folder_path("checkpoint");
    OK(cr_scaler_set(s, &state));
    OK(cr_training_save(dir, &(cr_training){.step = 4, .scaler = s}));
    cr_training t = {.scaler = other};
    OK(cr_training_load(dir, &t));
    const cr_scaler_state found = cr_scaler_get(other);
    CHECK(found.scale == state.scale && found.growth_factor == 1.7 && found.backoff_factor == 0.3 &&
              found.growth_interval == 7 && found.growth_tracker == 5 && t.step == 4,
          "scale %.17g, tracker %lld", found.scale, (long long)found.growth_tracker);
    OK(cr_training_save(dir, &(cr_training){.step = 4}));
    FAILS(CR_BAD_VALUE, "was saved without a scaler", cr_training_load(dir, &t));
    cr_error_clear();
    cr_scaler_free(s);
    cr_scaler_free(other);
}
