/* wide.h - f32 results of half precision: products of it with an f32 result and bias, and the gradients of f32 weights
 * that autocast has cast. */
#ifndef WIDE_H
#define WIDE_H

#include "test.h"

#include "core/tensor.h"
#include "dev/dev.h"
#include "ops/linear.h"

/* ---- f32 parameters with copies in dt that the optimizer writes; optim NULL: the copies are forgotten */
__attribute__((unused)) static void wide_copies(const cr_params *p, cr_optim *optim, cr_dtype dt) {
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        cr_tensor *w = cr_params_at(p, i);
        cr_tensor *const none = (cr_tensor *)(uintptr_t)CR_NONE,
                  *copy = optim ? cr_empty(cr_ndim(w), cr_shape(w), dt, cr_device_of(w)) : none;
        if (optim) OK(cr_optim_mirror(optim, w, copy));
        OK(cr_autocast_copy(w, copy));
    }
}

/* ---- gradients: those of the same step in f32, from numbers that half precision represents; they are not rounded */
enum { WIDE_ROWS = 37, WIDE_IN = 53, WIDE_OUT = 19, WIDE_LEAVES = 4 };
/* leaves: w (OUT, IN), b (OUT), and weight and bias of a norm (IN) */
typedef struct wide_model { const cr_tensor *x, *index; cr_tensor *leaf[WIDE_LEAVES]; } wide_model;

static const cr_tensor *wide_table(const wide_model *s) { return cr_linear_weight(s->leaf[0]); }
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

/* ---- products c (..., M, N) = [c +] a b [+ bias (N)] of half precision, with c and bias in f32.  Operands are
 * multiples of 1/16: f32 holds every sum exactly, half precision does not, so the results are equal in any order. */
/* turned: 1: of a, 2: of b, columns lie in memory instead of rows; pitch: those begin at multiples of so many elements;
 * step: from one element to the next, so 2: no axis is dense; first: the element at which each operand begins;
 * shared: the batch has one b */
typedef struct wide_product {
    int64_t M, N, K, batch;
    int turned, pitch, step, first;
    bool shared, bias, add;
} wide_product;
typedef struct wide_matrix { cr_array array; cr_tensor *memory; } wide_matrix;
enum { WIDE_A = 1, WIDE_B, WIDE_BIAS, WIDE_C, WIDE_MOST = 31 };

static double wide_value(int matrix, int64_t batch, int64_t i, int64_t j) {
    uint32_t h = (uint32_t)matrix * 0x9E3779B9u + (uint32_t)batch * 0x85EBCA6Bu + (uint32_t)i * 0xC2B2AE35u +
                 (uint32_t)j * 0x27D4EB2Fu;
    h = (h ^ h >> 15) * 0x2C1B3C6Du;
    const int whole = (int)((h ^ h >> 13) % (2 * WIDE_MOST + 1)) - WIDE_MOST;
    return matrix < WIDE_BIAS ? whole / 16.0 : 99 * whole / 256.0;
}

/* (batch, rows, columns) as q lays it out.  The elements between its own are 77. */
static wide_matrix wide_made(int matrix, const wide_product *q, int64_t rows, int64_t columns, cr_dtype dt,
                             const cr_device *dev) {
    const bool turned = q->turned & matrix, shared = q->shared && matrix == WIDE_B;
    const int64_t along = q->step * (turned ? rows : columns), row = (along + q->pitch - 1) / q->pitch * q->pitch,
                  size = row * (turned ? columns : rows), n = q->first + q->batch * size;
    const int64_t shape[] = {q->batch, rows, columns},
                  strides[] = {shared ? 0 : size, turned ? q->step : row, turned ? row : q->step};
    float *at = malloc(sizeof *at * (size_t)n);
    if (!at) exit(9);
    for (int64_t i = 0; i < n; i++) at[i] = 77;
    for (int64_t k = 0; k < (shared ? 1 : q->batch); k++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                at[q->first + k * size + i * strides[1] + j * strides[2]] = (float)wide_value(matrix, k, i, j);
    wide_matrix m = {.memory = cr_to(cr_to(cr_from(at, CR_LIST(n), CR_F32, cr_cpu()), dt, cr_cpu()), dt, dev)};
    free(at);
    const int axis = q->batch == 1;                 /* a product of two axes each may be cut, a batch is not */
    m.array = cr_array_strided(&m.memory->array, 3 - axis, shape + axis, strides + axis, q->first);
    return m;
}

/* The elements of c's memory that are not as they should be. */
static int64_t wide_wrong(const wide_product *q, const wide_matrix *c, const float *got) {
    const int64_t row = c->array.strides[c->array.ndim - 2], size = row * q->M, n = cr_numel(c->memory);
    int64_t wrong = 0;
    for (int64_t at = 0; at < n; at++) {
        const int64_t i = at < q->first ? -1 : at - q->first, k = i / size, m = i % size / row, j = i % row;
        double want = i < 0 || j >= q->N ? 77 : q->add ? wide_value(WIDE_C, k, m, j) : 0;
        if (i >= 0 && j < q->N) {
            if (q->bias) want += wide_value(WIDE_BIAS, 0, 0, j);
            for (int64_t d = 0; d < q->K; d++)
                want += wide_value(WIDE_A, k, m, d) * wide_value(WIDE_B, q->shared ? 0 : k, d, j);
        }
        wrong += (double)got[at] != want;
    }
    return wrong;
}

static void wide_multiply(const wide_product *q, cr_dtype dt, const cr_device *dev) {
    wide_product plain = *q, one = *q;
    plain.turned = one.turned = 0, plain.step = one.step = one.pitch = 1, one.batch = 1;
    const wide_matrix a = wide_made(WIDE_A, q, q->M, q->K, dt, dev), b = wide_made(WIDE_B, q, q->K, q->N, dt, dev),
                      c = wide_made(WIDE_C, &plain, q->M, q->N, CR_F32, dev),
                      bias = wide_made(WIDE_BIAS, &one, 1, q->N, CR_F32, dev);
    cr_matmul_args args = {.c = c.array, .a = a.array, .b = b.array, .how = q->add ? CR_MATMUL_ADD : 0};
    if (q->bias) args.bias = cr_array_strided(&bias.array, CR_LIST(q->N), (int64_t[]){1}, q->first);
    OK(dev->kernels->matmul(&args));
    float *got = malloc(sizeof *got * (size_t)cr_numel(c.memory));
    OK(cr_read(c.memory, CR_F32, got, sizeof *got * (size_t)cr_numel(c.memory)));
    const int64_t wrong = wide_wrong(q, &c, got);
    CHECK(!wrong,
          "%s: %lld wrong of (%lld, %lld, %lld) x (%lld, %lld) %s, turned %d, pitch %d, step %d, first %d%s%s%s",
          cr_device_name(dev), (long long)wrong, (long long)q->batch, (long long)q->M, (long long)q->K, (long long)q->K,
          (long long)q->N, cr_dtype_name(dt), q->turned, q->pitch, q->step, q->first, q->shared ? ", one b" : "",
          q->bias ? ", bias" : "", q->add ? ", added" : "");
    free(got);
    test_ran_on(dev);
}

__attribute__((unused)) static void check_wide_products(const cr_device *dev) {
    /* the last two are cut by CUDA's: N and K are long and no multiple of 8 */
    static const int64_t shapes[][3] = {{5, 7, 9}, {64, 64, 64}, {67, 131, 71}, {3, 1033, 24}, {5, 8, 1031}};
    static const struct { int pitch, step, first; } layouts[] = {{1, 1, 0}, {8, 1, 0}, {1, 1, 1}, {8, 1, 3}, {1, 2, 1}};
    for (int i = 0; i < 5; i++)
        for (int l = 0; l < 5; l++)
            for (int turned = 0; turned < 4; turned++) {
                const int n = i + l + turned;
#ifdef CR_TEST_GPU
                if (!test_sampled(20 * i + 4 * l + turned, 7)) continue;
#endif
                const wide_product q = {.M = shapes[i][0], .N = shapes[i][1], .K = shapes[i][2],
                                        .batch = i < 3 && n % 5 == 0 ? 3 : 1, .turned = turned,
                                        .pitch = layouts[l].pitch, .step = layouts[l].step, .first = layouts[l].first,
                                        .shared = n % 2, .bias = n % 3 == 1, .add = n % 4 == 2};
                cr_scope_begin();
                wide_multiply(&q, n % 2 ? CR_F16 : CR_BF16, dev);
                cr_scope_end();
            }
}

#endif
