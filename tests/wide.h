/* wide.h - f32 results of half precision: products of it with an f32 result and bias, and the gradients of f32 weights
 * that autocast has cast. */
#ifndef WIDE_H
#define WIDE_H

#include "test.h"

#include "dev/dev.h"
#include "ops/linear.h"

/* ---- gradients: those of the same step in f32, from numbers that half precision represents; they are not rounded */
enum { WIDE_ROWS = 37, WIDE_IN = 53, WIDE_OUT = 19, WIDE_LEAVES = 4 };
/* leaves: w (OUT, IN), b (OUT), and weight and bias of a norm (IN) */
typedef struct wide_model { const cr_tensor *x, *index; cr_tensor *leaf[WIDE_LEAVES]; } wide_model;

static const cr_tensor *wide_table(const wide_model *s) {
    return cr_autocasting() ? cr_autocast_operand(s->leaf[0], cr_dtype_of(s->x)) : s->leaf[0];
}
static cr_tensor *wide_linear(const wide_model *s) { return cr_linear(s->x, s->leaf[0], s->leaf[1]); }
static cr_tensor *wide_layer_norm(const wide_model *s) { return cr_layer_norm(s->x, s->leaf[2], s->leaf[3], 1e-5); }
static cr_tensor *wide_rms_norm(const wide_model *s) { return cr_rms_norm(s->x, s->leaf[2], 1e-5); }
static cr_tensor *wide_rows(const wide_model *s) { return cr_embedding(wide_table(s), s->index); }
/* a table that is a layer too: both gradients meet in one cast */
static cr_tensor *wide_tied(const wide_model *s) {
    const cr_tensor *parts[] = {wide_rows(s), cr_linear(s->x, s->leaf[0], CR_NONE)};
    return cr_cat(2, parts, 1);
}
/* some rows of a table, added to every sequence: a sum over the sequences behind a view */
static cr_tensor *wide_positions(const wide_model *s) {
    return cr_add(cr_reshape(s->x, CR_LIST(WIDE_ROWS, 1, WIDE_IN)), cr_slice(wide_table(s), 0, 2, 9, 1));
}
static const struct { const char *name; cr_tensor *(*fn)(const wide_model *s); } wide_steps[] = {
    {"linear", wide_linear}, {"layer_norm", wide_layer_norm}, {"rms_norm", wide_rms_norm},
    {"rows", wide_rows},     {"tied", wide_tied},             {"positions", wide_positions}};

/* t with numbers of dtype dt, stored in it or, full, in f32 */
static cr_tensor *wide_numbers(int n, const int64_t *shape, cr_dtype dt, bool full, const cr_device *dev,
                               uint64_t seed) {
    cr_generator *g = cr_generator_new(seed);
    cr_tensor *t = cr_to(cr_to(cr_randn(n, shape, CR_F32, cr_cpu(), g), dt, cr_cpu()), dt, dev);
    cr_generator_free(g);
    return full ? cr_to(t, CR_F32, dev) : t;
}

static void wide_step(int step, cr_dtype dt, bool full, const cr_device *dev, cr_tensor *grad[WIDE_LEAVES]) {
    static const int64_t shapes[WIDE_LEAVES][2] = {{WIDE_OUT, WIDE_IN}, {WIDE_OUT}, {WIDE_IN}, {WIDE_IN}};
    int64_t index[WIDE_ROWS];
    for (int i = 0; i < WIDE_ROWS; i++) index[i] = i * i % WIDE_OUT;
    wide_model s = {.x = wide_numbers(CR_LIST(WIDE_ROWS, WIDE_IN), dt, full, dev, 1),
              .index = cr_from(index, CR_LIST(WIDE_ROWS), CR_I64, dev)};
    for (int i = 0; i < WIDE_LEAVES; i++)
        s.leaf[i] = cr_requires_grad_(wide_numbers(i ? 1 : 2, shapes[i], dt, true, dev, 2 + (uint64_t)i), true);
    if (!full) OK(cr_autocast_begin(dev, dt, true));
    cr_scope_begin();                               /* the walk alone sees casts and views when it runs */
    cr_tensor *y = wide_steps[step].fn(&s);
    if (y) cr_keep(y);
    cr_scope_end();
    if (!full) OK(cr_autocast_end());
    REQUIRE(y && cr_dtype_of(y) == (full ? CR_F32 : dt), "%s: %s", wide_steps[step].name, cr_error());
    OK(cr_backward(y, wide_numbers(cr_ndim(y), cr_shape(y), dt, full, dev, 9), NULL));
    for (int i = 0; i < WIDE_LEAVES; i++) grad[i] = cr_grad(s.leaf[i]);
}

__attribute__((unused)) static void check_wide_gradients(const cr_device *dev) {
    for (size_t i = 0; i < sizeof wide_steps / sizeof *wide_steps; i++)
        for (int f16 = 0; f16 < 2; f16++) {
            cr_tensor *got[WIDE_LEAVES] = {NULL}, *want[WIDE_LEAVES] = {NULL};
            cr_scope_begin();
            wide_step((int)i, f16 ? CR_F16 : CR_BF16, false, dev, got);
            wide_step((int)i, f16 ? CR_F16 : CR_BF16, true, cr_cpu(), want);
            for (int k = 0; k < WIDE_LEAVES; k++) {
                const bool same = (!got[k] || got[k] == CR_NONE) == (!want[k] || want[k] == CR_NONE);
                REQUIRE(same, "%s, %s: leaf %d has no gradient", cr_device_name(dev), wide_steps[i].name, k);
                if (!got[k] || got[k] == CR_NONE) continue;
                CHECK(cr_item(cr_allclose(cr_to(got[k], CR_F32, cr_cpu()), want[k], 2e-5, 2e-5, false)) == 1,
                      "%s, %s, %s: the gradient of leaf %d is rounded or wrong", cr_device_name(dev),
                      wide_steps[i].name, f16 ? "f16" : "bf16", k);
                test_ran_on(dev);
            }
            cr_scope_end();
        }
}

#endif
