/* test_bits.c - the bits of every op's results and gradients on the cpu are the same for any number of threads.
 *
 * CHAINRULE_TEST_BITS=1 prints them, a hash for each op and dtype: tools/same_bits.py compares those of several builds
 * and systems.  Such a line ends with "libm" where the result is made by functions of f64 of the C library. */
#pragma GCC diagnostic ignored "-Wunused-function"         /* compares with no truth */
#include "ops_cases.h"
#include "ops/elementwise_tests.gen.h"

typedef struct subject {
    const char *op, *what;
    const op_case *c;                               /* or */
    const elementwise_test *row;
} subject;

static cr_tensor *call(const subject *s, const cr_tensor *const *t) {
    return s->c ? s->c->run(t) : s->row->call(t, s->row->params);
}

/* FNV-1a over the elements; every NaN is one number, because its sign and payload say nothing. */
static uint64_t hashed(uint64_t h, const cr_tensor *t) {
    data d = data_of(t);
    for (int64_t i = 0; i < d.numel; i++) {
        const bool nan = cr_dtype_is_float(d.dtype) && isnan(data_f64(&d, i));
        const unsigned char *bytes = data_at(&d, i);
        for (size_t k = 0; k < cr_dtype_size(d.dtype); k++) h = (h ^ (nan ? 0xff : bytes[k])) * 0x100000001B3u;
    }
    data_free(&d);
    return h;
}

/* Numbers for a combination of y's elements. */
static const cr_tensor *weights_for(const cr_tensor *y, cr_generator *r) {
    return cr_to(cr_randn(cr_ndim(y), cr_shape(y), CR_F32, cr_cpu(), r), cr_dtype_of(y), cr_device_of(y));
}

/* The gradients of a combination of y[0 .. n) go to g[0 .. m); their hash after h. */
static uint64_t gradients_of(uint64_t h, int n, const cr_tensor **y, int m, const cr_tensor **x, cr_tensor **g,
                             bool create_graph) {
    const cr_tensor *c[4];
    cr_generator *r = cr_generator_new(test_seed());
    for (int k = 0; k < n; k++) c[k] = weights_for(y[k], r);
    cr_generator_free(r);
    OK(cr_gradients(n, y, c, m, x, g, &(cr_backward_options){.create_graph = create_graph}));
    for (int k = 0; k < m; k++) if (g[k] && !cr_is_none(g[k])) h = hashed(h, g[k]);
    return h;
}

/* A hash of the op's result and of the gradients of a random combination of its elements.  Where the gradients are
 * smooth, the hash includes the gradients of one of them. */
static uint64_t bits_of(const subject *s, int n, const data *in) {
    cr_tensor *t[4] = {NULL}, *g[4] = {NULL};
    const cr_tensor *x[4], *dx[4];
    int m = 0, more = 0;
    uint64_t h = 0xCBF29CE484222325u;
    cr_scope_begin();
    for (int k = 0; k < n; k++) {
        t[k] = data_put(&in[k], DENSE, cr_cpu());
        if (cr_dtype_is_float(in[k].dtype)) x[m++] = cr_requires_grad_(t[k], true);
    }
    const cr_tensor *y = call(s, (const cr_tensor *const *)t);
    CHECK(y, "%s [%s]: %s", s->op, s->what, cr_error());
    if (y) h = hashed(h, y);
    const bool twice = s->c ? s->c->smooth : s->row->differentiable;
    if (y && cr_requires_grad(y)) h = gradients_of(h, 1, &y, m, x, g, twice);
    for (int k = 0; k < m && twice; k++)
        if (g[k] && !cr_is_none(g[k]) && cr_requires_grad(g[k])) dx[more++] = g[k];
    if (more) h = gradients_of(h, more, dx, m, x, g, false);
    cr_scope_end();
    cr_error_clear();
    test_ran_on(cr_cpu());
    return h;
}

static void check_threads(const subject *s, int number, cr_dtype dt, int n, const spec *shapes, bool libm) {
    stream r = stream_of(s->op, number * 100 + (int)dt);
    data in[4] = {{0}};
    for (int k = 0; k < n; k++) in[k] = data_fill(&shapes[k], dt, &r);
    cr_set_num_threads(1);
    const uint64_t one = bits_of(s, n, in);
    cr_set_num_threads(3);
    const uint64_t three = bits_of(s, n, in);
    CHECK(one == three, "%s [%s] %s: 3 threads give other bits than 1", s->op, s->what, cr_dtype_name(dt));
    if (getenv("CHAINRULE_TEST_BITS"))
        printf("bits %s [%s] %s: %016llx%s\n", s->op, s->what, cr_dtype_name(dt), (unsigned long long)one,
               libm ? " libm" : "");
    for (int k = 0; k < n; k++) data_free(&in[k]);
}

/* Does it, or a gradient, compute f64 by the C library? */
static bool is_of_libm(const subject *s) {
    static const char *const names[] = {"pow",  "exp2", "log2",  "log10", "sin",   "cos",   "tan",  "asin", "acos",
                                        "atan", "sinh", "acosh", "erf",   "gelu",  "geglu", "ndtr", "zeta"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (strstr(s->op, names[i])) return true;
    return s->c && (strstr(s->what, "gelu") || (!strcmp(s->op, "linear") && !strcmp(s->what, "larger")));
}

TEST(rows) {
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const elementwise_test *row = &elementwise_tests[i];
        const subject s = {.op = row->name, .what = "row", .row = row};
        spec in[3];
        for (int k = 0; k < row->n_in; k++)
            in[k] = (spec){SHAPE(3, 691), .lo = row->low, .hi = row->high,
                           .fill = k == 0 && row->rule == CR_RULE_WHERE ? MASK : REALS};
        for (int dt = CR_F16; dt <= CR_F64 && row->rule != CR_RULE_BITS && test_wants(row->name); dt++)
            check_threads(&s, i, (cr_dtype)dt, row->n_in, in, dt == CR_F64 && is_of_libm(&s));
    }
}

TEST(cases) {
    for (int i = 0; i < OP_CASES; i++) {
        const op_case *c = &op_cases[i];
        const subject s = {.op = c->op, .what = c->what, .c = c};
        for (int dt = CR_F16; dt <= CR_F64 && (c->dtypes & FLOATS) && test_wants(c->op); dt++)
            check_threads(&s, i, (cr_dtype)dt, case_inputs(c), c->in, dt == CR_F64 && is_of_libm(&s));
    }
}

TEST(numbers) {
    cr_scope_begin();
    for (int dt = CR_F16; dt <= CR_F64; dt++) {
        cr_generator *g = cr_generator_new(7);
        const cr_tensor *y = cr_randn(CR_LIST(1237), (cr_dtype)dt, cr_cpu(), g);
        CHECK(y, "%s", cr_error());
        if (y && getenv("CHAINRULE_TEST_BITS"))
            printf("bits randn [numbers] %s: %016llx\n", cr_dtype_name((cr_dtype)dt), (unsigned long long)hashed(0, y));
        cr_generator_free(g);
    }
    cr_scope_end();
}
