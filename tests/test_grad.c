/* test_grad.c - gradients: every differentiable row and structured op, on every device.
 *   exact        f64 against central differences (cr_gradcheck: random cotangent, element by element),
 *   and the gradient's gradient;
 *                where a device has no f64 (a GPU behind WebGPU), f32 against `ref`, in as many ways
 *   low          what float32, bfloat16 and float16 give, against float64 on `ref` for the same inputs and cotangent
 *   corners      the same at 0, infinities and NaN: these must be the same
 *   row_mutants  every gradient of ops.def broken in memory, one way at a time: a check that does not
 *   notice is a defect */
#include "ops_cases.h"
#include "golden/elementwise.h"
#include "golden/structured.h"
#include "ops/elementwise_tests.gen.h"

static struct { long ops, cases, first, second, low, beyond; } count;


/* Some of a table for a GPU without CHAINRULE_TEST_FULL. */
static bool taken(const cr_device *dev, int number) { return test_takes(dev, number, 20); }
/* Every device runs gradients in float32, and a sample of the other dtypes. */
static bool low_taken(const cr_device *dev, cr_dtype dt, int number) {
    return test_offers(dev, dt) && taken(dev, number) && (dt == CR_F32 || test_sampled(number, 2));
}

/* ---- a function of leaves, as cr_gradcheck wants it */
/* the cotangent arrives transposed, expanded; in[0] is in[1] too */
typedef enum wrap { BARE, TURNED, SUMMED, TWICE, WRAPS } wrap;
static const char *const wrap_names[] = {"", ", cotangent transposed", ", cotangent expanded",
                                         ", the same input twice"};

typedef struct function {
    const op_case *c;                               /* or */
    const elementwise_test *row;
    const double *params;
    wrap how;
} function;

static cr_tensor *call(int n, const cr_tensor *const *in, void *ctx) {
    const function *f = ctx;
    const cr_tensor *t[4] = {NULL};
    for (int k = 0; k < n && k < 4; k++) t[k] = in[k];
    if (f->how == TWICE) t[1] = t[0];
    cr_tensor *y = f->c ? f->c->run(t) : f->row->call(t, f->params);
    if (f->how == TURNED) return cr_transpose(y, 0, -1);
    if (f->how == SUMMED) return cr_sum(y, CR_LIST(0), false);
    return y;
}

/* Leaves of float64 on dev; mask says which of the float inputs require a gradient.  0: none would. */
static int leaves(int n, const data *in, layout how, unsigned mask, const cr_device *dev, cr_tensor **t) {
    int wanted = 0;
    for (int k = 0; k < n; k++) {
        t[k] = data_put(&in[k], how, dev);
        if (!cr_dtype_is_float(in[k].dtype) || !(mask >> k & 1)) continue;
        cr_requires_grad_(t[k], true);
        wanted++;
    }
    return wanted;
}

/* In the longest sum of a gradient: an input that was broadcast sums its cotangents. */
static int64_t most_terms(int64_t terms, int n, const data *in) {
    for (int k = 0; k < n; k++) terms = in[k].numel > terms ? in[k].numel : terms;
    return terms;
}

/* Gradients of a random combination of f's elements; second: of one of those gradients again, also for
 * the first combination. */
static int gradients(function f, int n, const data *in, layout how, unsigned mask, bool second, const cr_device *dev,
                     data out[5]) {
    cr_tensor *t[4] = {NULL}, *g[5] = {NULL};
    const cr_tensor *x[5], *dy[5], *dc[5];
    int m = 0, order = 0;
    leaves(n, in, how, mask, dev, t);
    for (int k = 0; k < n; k++) if (cr_requires_grad(t[k])) x[m++] = t[k];
    const cr_tensor *y = call(n, (const cr_tensor *const *)t, &f);
    if (!y || !cr_requires_grad(y)) return 0;
    cr_generator *r = cr_generator_new(test_seed());
    const cr_tensor *c = cr_requires_grad_(
        cr_to(cr_randn(cr_ndim(y), cr_shape(y), CR_F32, cr_cpu(), r), cr_dtype_of(y), cr_device_of(y)), second);
    cr_status status = cr_gradients(1, &y, &c, m, x, g, &(cr_backward_options){.create_graph = second});
    for (int k = 0; k < m && second && status == CR_OK; k++) {
        if (cr_is_none(g[k]) || !cr_requires_grad(g[k])) continue;
        dy[order] = g[k];
        dc[order++] = cr_to(cr_randn(cr_ndim(g[k]), cr_shape(g[k]), CR_F32, cr_cpu(), r), cr_dtype_of(g[k]),
                            cr_device_of(g[k]));
    }
    if (second) {
        x[m++] = c;
        if (status == CR_OK && order) status = cr_gradients(order, dy, dc, m, x, g, NULL);
    }
    cr_generator_free(r);
    if (status != CR_OK || (second && !order)) return 0;
    for (int k = 0; k < m; k++) out[k] = cr_is_none(g[k]) ? data_new(CR_BOOL, 0, NULL) : data_of(g[k]);
    return m;
}

/* The same in float64 on `ref` is the truth.  Terms may cancel, so errors are relative to the largest
 * element (tolerance() says how large they are). Second derivatives subtract what is nearly equal (1 -
 * tanh^2...), on the cpu in float32 as well, to the same bits: 8 times the part of the sums. */
static bool check_as_ref(const function *f, int n, const data *in, layout how, unsigned mask, bool second,
                         const cr_device *dev) {
    const int64_t terms = most_terms(f->c ? f->c->terms : 1, n, in) * (second ? 64 : 1);
    data wide[4] = {{0}}, got[5], want[5];
    now.device = cr_device_name(dev), now.layout = (int)how;
    for (int k = 0; k < n; k++) wide[k] = data_as(&in[k], cr_dtype_is_float(in[k].dtype) ? CR_F64 : in[k].dtype);
    const int m = gradients(*f, n, in, how, mask, second, dev, got),
              truths = cr_error() ? 0 : gradients(*f, n, wide, how, mask, second, test_ref(), want);
    bool good = !cr_error() && m == truths;
    CHECK(good || cr_error(), "%s [%s]: %d gradients, on ref %d", now.op, now.what, m, truths);
    for (int k = 0; k < m && good; k++)
        good = got[k].dtype == CR_BOOL || compare(second   ? "second order"
                                                  : f->how ? wrap_names[f->how] + 2
                                                           : "gradient",
                                                  &got[k], &want[k], terms, fmax(1, data_largest(&want[k])));
    for (int k = 0; k < m; k++) data_free(&got[k]);
    for (int k = 0; k < truths; k++) data_free(&want[k]);
    for (int k = 0; k < n; k++) data_free(&wide[k]);
    return good;
}

/* One call of cr_gradcheck or cr_gradgradcheck, or what stands for it.  True when it agrees; quiet:
 * says nothing when it does not. */
static bool check(const function *f, int n, const data *in, layout how, unsigned mask, bool second,
                  const cr_device *dev, bool quiet) {
    cr_tensor *t[4] = {NULL};
    cr_gradcheck_options o = cr_gradcheck_defaults();
    o.seed = test_seed();
    if (second) o.eps = 1e-5, o.atol = 1e-4;
    cr_scope_begin();
    bool good = true, exact = test_offers(dev, CR_F64);
    if (leaves(n, in, how, mask, dev, t)) {
        function copy = *f;
        good = exact ? (second ? cr_gradgradcheck : cr_gradcheck)(call, &copy, n, (const cr_tensor *const *)t, &o) ==
                           CR_OK
                     : check_as_ref(f, n, in, how, mask, second, dev);
        if (!good && test_declines(dev)) count.beyond++;
        else if (!good && !quiet && cr_error())
            test_fail(__FILE__, __LINE__, "%s [%s] on %s, inputs %s, mask %u%s%s: %s; repeat: CHAINRULE_TEST_SEED=%llu",
                      now.op, now.what, cr_device_name(dev), layout_names[how], mask, wrap_names[f->how],
                      second ? ", second order" : "", cr_error(), (unsigned long long)test_seed());
        else if (!quiet) test_ran_on(dev), *(second ? &count.second : &count.first) += 1;
        cr_error_clear();
    }
    cr_scope_end();
    return good;
}

static unsigned float_inputs(int n, const data *in) {
    unsigned mask = 0;
    for (int k = 0; k < n; k++) if (cr_dtype_is_float(in[k].dtype)) mask |= 1u << k;
    return mask;
}

static bool same_shape(const data *a, const data *b) {
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim);
}

/* Under create_graph other formulas run, over ops instead of fused kernels: the gradients are the
 * same.  (cr_gradgradcheck would not notice if they were consistently wrong.) */
static void check_create_graph(const function *f, int n, const data *in, unsigned mask, const cr_device *dev) {
    cr_tensor *t[4] = {NULL}, *plain[4], *graph[4];
    const cr_tensor *x[4];
    int m = 0;
    cr_scope_begin();
    leaves(n, in, DENSE, mask, dev, t);
    for (int k = 0; k < n; k++) if (cr_requires_grad(t[k])) x[m++] = t[k];
    function copy = *f;
    cr_generator *r = cr_generator_new(test_seed());
    const cr_tensor *y = call(n, (const cr_tensor *const *)t, &copy),
                    *c = y ? cr_randn(cr_ndim(y), cr_shape(y), cr_dtype_of(y), cr_device_of(y), r) : NULL;
    cr_generator_free(r);
    bool there = y && cr_requires_grad(y) &&
                 cr_gradients(1, &y, &c, m, x, graph, &(cr_backward_options){.create_graph = true}) == CR_OK &&
                 cr_gradients(1, &y, &c, m, x, plain, NULL) == CR_OK;
    CHECK(!cr_error() || test_declines(dev), "%s [%s] on %s: %s", now.op, now.what, cr_device_name(dev), cr_error());
    for (int k = 0; k < m && there; k++) {
        CHECK(cr_is_none(plain[k]) == cr_is_none(graph[k]), "%s [%s]: create_graph changes whether there is a gradient",
              now.op, now.what);
        if (cr_is_none(plain[k]) || cr_is_none(graph[k])) continue;
        data got = data_of(graph[k]), want = data_of(plain[k]);
        if (compare("gradient under create_graph", &got, &want, 9 * want.numel, fmax(1, data_largest(&want))))
            test_ran_on(dev), count.first++;
        data_free(&got), data_free(&want);
    }
    cr_error_clear();
    cr_scope_end();
}

/* All the ways one function over one set of inputs, in float64, is looked at. */
static void check_exact(function f, int n, const data *exact, int result_ndim, const cr_device *dev) {
    unsigned all = float_inputs(n, exact);
    long alive = guard_start();
    data in[4] = {{0}};
    now.dtype = test_offers(dev, CR_F64) ? CR_F64 : CR_F32;
    for (int k = 0; k < n; k++)
        in[k] = data_as(&exact[k], cr_dtype_is_float(exact[k].dtype) ? now.dtype : exact[k].dtype);
    now.device = cr_device_name(dev);
    for (int how = 0; how < LAYOUTS; how++)         /* one of the others, without CHAINRULE_TEST_FULL */
        if (how == DENSE || test_full() || how == 1 + count.cases % (LAYOUTS - 1))
            check(&f, n, in, (layout)how, all, false, dev, false);
    for (int k = 0; k < n; k++) if (all != 1u << k && all >> k & 1) check(&f, n, in, DENSE, 1u << k, false, dev, false);
    for (int w = TURNED; w < WRAPS; w++) {
        f.how = (wrap)w;
        if (w == TWICE ? n >= 2 && same_shape(&in[0], &in[1]) : result_ndim >= (w == TURNED ? 2 : 1))
            check(&f, n, in, DENSE, w == TWICE ? 1 : all, false, dev, false);
    }
    f.how = BARE;
    check_create_graph(&f, n, in, all, dev);
    check(&f, n, in, DENSE, all, true, dev, false);
    for (int k = 0; k < n; k++) data_free(&in[k]);
    guard_end(alive);
    count.cases++;
}

static int ndim_of_result(const function *f, int n, const data *in) {
    cr_tensor *t[4] = {NULL};
    cr_scope_begin();
    leaves(n, in, DENSE, 0, test_ref(), t);
    function copy = *f;
    int ndim = cr_ndim(call(n, (const cr_tensor *const *)t, &copy));
    cr_scope_end();
    return ndim;
}

/* ---- structured ops */
TEST(cases_exact) {
    if (!strncmp(test_device(0)->name, "cuda", 4) && !test_full())
        SKIP("minutes on a simulated GPU: with CHAINRULE_TEST_FULL=1");
    for (int i = 0; i < OP_CASES; i++) {
        const op_case *c = &op_cases[i];
        if (!c->smooth || !test_wants(c->op) || !test_of_shard(i)) continue;
        stream r = stream_of(c->op, i);
        data in[4] = {{0}};
        function f = {.c = c};
        int n = case_inputs(c);
        for (int k = 0; k < n; k++) in[k] = data_fill(&c->in[k], CR_F64, &r);
        now.op = c->op, now.what = c->what, now.dtype = CR_F64;
        int ndim = ndim_of_result(&f, n, in);
        for (int d = 0; test_variant(d); d++)
            if (taken(test_variant(d), i)) check_exact(f, n, in, ndim, test_variant(d));
        for (int k = 0; k < n; k++) data_free(&in[k]);
    }
    for (int i = 0; cr_ops_all[i]; i++) {
        const cr_op *op = cr_ops_all[i];
        if (!test_wants(op->name)) continue;
        bool tested = !strcmp(op->name, "cast");    /* differences cannot see through its rounding: cases_low does it */
        for (int k = 0; k < OP_CASES; k++) tested |= op_cases[k].smooth && !strcmp(op_cases[k].op, op->name);
        CHECK(op->grad || op->no_grad, "%s: no gradient, and no word about why", op->name);
        CHECK(!op->grad || tested, "%s: it has a gradient, but no smooth case in ops_cases.h", op->name);
        count.ops += op->grad && tested;
    }
}

/* ---- rows */
static const spec row_shapes[][3] = {
    {{SHAPE(11)}, {SHAPE(11)}, {SHAPE(11)}},
    {{SHAPE(3, 4)}, {SHAPE(4)}, {SHAPE(3, 1)}},
    {{.ndim = 0}, {SHAPE(2, 1)}, {SHAPE(1, 3)}},
    {{SHAPE(2, 0)}, {SHAPE(2, 0)}, {SHAPE(2, 0)}},
};
enum { ROW_SHAPES = sizeof row_shapes / sizeof *row_shapes };

static void row_data(const elementwise_test *row, int shape, cr_dtype dt, data in[3]) {
    stream r = stream_of(row->name, shape);
    for (int k = 0; k < row->n_in; k++) {
        spec s = row_shapes[shape][k];
        s.fill = k == 0 && row->rule == CR_RULE_WHERE ? MASK : REALS;
        s.lo = row->low, s.hi = row->high;
        in[k] = data_fill(&s, dt, &r);
    }
}

/* The defaults, and others. */
static const double *row_params(const elementwise_test *row, bool others, double params[3]) {
    for (int i = 0; i < 3; i++) params[i] = others ? 0.7 * row->params[i] + 0.1 : row->params[i];
    return params;
}

TEST(rows_exact) {
    if (!strncmp(test_device(0)->name, "cuda", 4) && !test_full())
        SKIP("minutes on a simulated GPU: with CHAINRULE_TEST_FULL=1");
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const elementwise_test *row = &elementwise_tests[i];
        if (!row->differentiable || !test_wants(row->name) || !test_of_shard(i)) continue;
        count.ops++;
        for (int s = 0; s < ROW_SHAPES; s++)
            for (int p = 0; p < (row->n_param ? 2 : 1); p++) {
                double params[3];
                data in[3] = {{0}};
                function f = {.row = row, .params = row_params(row, p, params)};
                now.op = row->name, now.what = s == 0 ? "one axis" : s == 3 ? "empty" : "broadcast", now.dtype = CR_F64;
                row_data(row, s, CR_F64, in);
                for (int d = 0; test_device(d); d++)
                    if (taken(test_device(d), i + s))
                        check_exact(f, row->n_in, in, ndim_of_result(&f, row->n_in, in), test_device(d));
                for (int k = 0; k < row->n_in; k++) data_free(&in[k]);
            }
    }
}

/* ---- low precision: the fused backward kernels as they are used in training */
static bool backward(function f, int n, const data *in, const data *cotangent, const cr_device *dev, data *out) {
    cr_tensor *t[4] = {NULL};
    leaves(n, in, DENSE, ~0u, dev, t);
    cr_tensor *y = call(n, (const cr_tensor *const *)t, &f);
    cr_tensor *c = y ? data_put(cotangent, DENSE, cr_device_of(y)) : NULL;
    if (!c || cr_backward(y, c, NULL) != CR_OK) {
        if (test_declines(dev)) return count.beyond++, false;
        CHECK(false, "%s [%s] on %s: %s", now.op, now.what, cr_device_name(dev), cr_error());
        cr_error_clear();
        return false;
    }
    for (int k = 0; k < n; k++)
        out[k] = cr_dtype_is_float(in[k].dtype) && cr_grad(t[k]) != CR_NONE ? data_of(cr_grad(t[k]))
                                                                            : data_new(CR_BOOL, 0, NULL);
    return true;
}

static data cotangent_for(function f, int n, const data *in, stream *r) {
    cr_tensor *t[4] = {NULL};
    leaves(n, in, DENSE, 0, test_ref(), t);
    cr_tensor *y = call(n, (const cr_tensor *const *)t, &f);
    spec s = {.ndim = cr_ndim(y), .lo = -1, .hi = 1};
    data c = data_new(cr_dtype_of(y), cr_ndim(y), cr_shape(y));
    for (int64_t i = 0; i < c.numel; i++) cr_store_f64(data_at(&c, i), c.dtype, s.lo + 2 * stream_next(r));
    return c;
}

/* On every device that takes the case, against the gradients that `ref` gives for the widened inputs and
 * cotangent.  The terms of a gradient (g w, 1 - y^2) are about 1, with cotangents up to 1 and inputs up to 2;
 * they may cancel. */
static void check_low(function f, int n, const data *in, int64_t terms, cr_dtype dt, int number,
                      const cr_device *(*device)(int)) {
    static const char *const parts[] = {"gradient of input 0", "gradient of input 1", "gradient of input 2",
                                        "gradient of input 3"};
    data wide[4] = {{0}}, want[4] = {{0}};
    stream r = stream_of(now.op, dt);
    now.dtype = dt, now.layout = DENSE, now.device = "ref";
    cr_scope_begin();
    data c = cotangent_for(f, n, in, &r), wide_c = data_as(&c, CR_F64);
    const bool has = cr_dtype_is_float(c.dtype);    /* positions, counts and tests have no gradient */
    for (int k = 0; k < n; k++) wide[k] = data_as(&in[k], cr_dtype_is_float(in[k].dtype) ? CR_F64 : in[k].dtype);
    terms = most_terms(terms, n, in);
    /* a recurrent layer's steps, up to four, each pass the rounding of a state h in half precision on to the next;
     * it counts twice in 1 - h^2 */
    const double passed_on = !strcmp(now.op, "recurrent") && (dt == CR_F16 || dt == CR_BF16) ? 2 * 4 : 1;
    /* that of y times the slope of its activation's slope, at most 0.8, and a weight */
    const double slack = f.c && dt != CR_F64 ? slack_of(f.c, wide) / tolerance(dt, terms) : 0;
    bool known = false;
    for (int d = 0; has && device(d); d++) {
        const cr_device *dev = device(d);
        if (!low_taken(dev, dt, number)) continue;
        if (!known && !(known = backward(f, n, wide, &wide_c, test_ref(), want))) break;
        data got[4] = {{0}};
        now.device = cr_device_name(dev);
        const long alive = guard_start();
        cr_scope_begin();
        for (int k = 0, good = backward(f, n, in, &c, dev, got); good && k < n; k++)
            if (got[k].dtype != CR_BOOL &&
                compare(parts[k], &got[k], &want[k], terms, slack + passed_on * fmax(1, data_largest(&want[k]))))
                test_ran_on(dev), count.low++;
        for (int k = 0; k < n; k++) data_free(&got[k]);
        cr_scope_end();
        guard_end(alive);
    }
    for (int k = 0; k < n; k++) data_free(&wide[k]), data_free(&want[k]);
    data_free(&c), data_free(&wide_c);
    cr_scope_end();
}

TEST(cases_low) {
    for (test_round = 0; test_round < test_rounds(); test_round++)
        for (int i = 0; i < OP_CASES; i++)          /* the long ones too */
            for (int dt = CR_F16; dt <= CR_F64 && test_wants(op_cases[i].op); dt++) {
                const op_case *c = &op_cases[i];
                stream r = stream_of(c->op, i);
                data in[4] = {{0}};
                for (int k = 0; k < case_inputs(c); k++) in[k] = data_fill(&c->in[k], (cr_dtype)dt, &r);
                now.op = c->op, now.what = c->what;
                check_low((function){.c = c}, case_inputs(c), in, c->terms, (cr_dtype)dt, i + dt, test_variant);
                for (int k = 0; k < case_inputs(c); k++) data_free(&in[k]);
            }
    test_round = 0;
}

static void low_row(const elementwise_test *row, data in[3], cr_dtype dt, int number) {
    now.op = row->name;
    check_low((function){.row = row, .params = row->params}, row->n_in, in, 1, dt, number, test_device);
    for (int k = 0; k < row->n_in; k++) data_free(&in[k]);
}

TEST(rows_low) {
    for (test_round = 0; test_round < test_rounds(); test_round++)
        for (int i = 0; i < CR_ROW_COUNT; i++)
            for (int s = 0;
                 s < ROW_SHAPES && elementwise_tests[i].differentiable && test_wants(elementwise_tests[i].name); s++)
                for (int dt = CR_F16; dt <= CR_F64; dt++) {
                    data in[3] = {{0}};
                    row_data(&elementwise_tests[i], s, (cr_dtype)dt, in);
                    now.what = "gradient";
                    low_row(&elementwise_tests[i], in, (cr_dtype)dt, i + s + dt);
                }
    test_round = 0;
}

/* Every combination of special values: where float64 finds an infinity or NaN, float32 finds the same. */
TEST(corners) {
    static const double list[] = {0, -0.0, 1, -1, 0.5, -2.5, 3, INFINITY, -INFINITY, NAN};
    enum { VALUES = sizeof list / sizeof *list };
    const long low = count.low;                     /* which coverage counts, and these are beside it */
    now.what = "gradient at special values";
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const elementwise_test *row = &elementwise_tests[i];
        if (!row->differentiable || !test_wants(row->name)) continue;
        data in[3] = {{0}};
        int64_t n = 1, step = 1;
        for (int k = 0; k < row->n_in; k++) n *= VALUES;
        for (int k = 0; k < row->n_in; k++, step *= VALUES) {
            in[k] = data_new(k == 0 && row->rule == CR_RULE_WHERE ? CR_BOOL : CR_F32, 1, &n);
            for (int64_t j = 0; j < n; j++) cr_store_f64(data_at(&in[k], j), in[k].dtype, list[j / step % VALUES]);
        }
        low_row(row, in, CR_F32, i);
    }
    count.low = low;
}

#ifndef CR_TEST_GPU                                  /* float64, and what is the same for every device */
/* ---- PyTorch's word.  Values and gradients of every structured case that PyTorch has, as sums
 * weighted by fixed numbers (golden/structured.py has the other side of these formulas). */
static double golden_weight(int64_t i, int64_t a, int64_t b, int64_t m) {
    return (double)((i * a + b) % m) / (double)m - 0.5;
}

static data golden_input(const spec *s, int k) {
    data d = data_new(s->fill == INDEX ? CR_I64 : s->fill == MASK ? CR_BOOL : CR_F64, s->ndim, s->shape);
    double lo = s->lo, hi = s->hi;
    if (lo == 0 && hi == 0) lo = -2, hi = 2;
    for (int64_t i = 0; i < d.numel; i++) {
        double v = lo + (hi - lo) * ((double)((i * 7919 + k * 104729 + 31) % 1009) / 1009.0);
        if (s->fill == STEPS) v = floor(v);
        if (s->fill == INDEX) v = (double)((i * 7919 + k * 13) % (int64_t)s->hi);
        if (s->fill == MASK) v = (i * 7919) % 3 == 0;
        cr_store_f64(data_at(&d, i), d.dtype, v);
    }
    return d;
}

static void check_golden(const op_case *c, const golden_case *k, const cr_device *dev) {
    data in[4] = {{0}}, got[4] = {{0}};
    int n = case_inputs(c);
    cr_scope_begin();
    cr_tensor *t[4] = {NULL};
    for (int j = 0; j < n; j++) in[j] = golden_input(&c->in[j], j);
    leaves(n, in, DENSE, 0, dev, t);
    cr_tensor *y = c->run((const cr_tensor *const *)t);
    REQUIRE(y, "%s [%s]: %s", c->op, c->what, cr_error());
    data value = data_of(y), cotangent = data_new(CR_F64, value.ndim, value.shape);
    double sum = 0;
    for (int64_t i = 0; i < value.numel; i++) {
        double w = golden_weight(i, 613, 17, 499);
        sum += w * data_f64(&value, i);
        cr_store_f64(data_at(&cotangent, i), CR_F64, w);
    }
    CHECK(fabs(sum - k->value) <= 1e-9 * (1 + fabs(k->value)), "%s [%s] on %s: weighted sum %.15g, PyTorch has %.15g",
          c->op, c->what, cr_device_name(dev), sum, k->value);
    now.op = c->op, now.what = c->what;
    if (cr_dtype_is_float(value.dtype) && backward((function){.c = c}, n, in, &cotangent, dev, got))
        for (int j = 0; j < n; j++) {
            double dot = 0;
            for (int64_t i = 0; i < got[j].numel && got[j].dtype == CR_F64; i++)
                dot += golden_weight(i, 389, 5, 251) * data_f64(&got[j], i);
            CHECK(fabs(dot - k->grad[j]) <= 1e-9 * (1 + fabs(k->grad[j])),
                  "%s [%s] on %s: gradient of input %d, weighted sum %.15g, PyTorch has %.15g", c->op, c->what,
                  cr_device_name(dev), j, dot, k->grad[j]);
        }
    test_ran_on(dev);
    for (int j = 0; j < n; j++) data_free(&in[j]), data_free(&got[j]);
    data_free(&value), data_free(&cotangent);
    cr_scope_end();
}

TEST(golden_cases) {
    for (int i = 0; i < OP_CASES; i++) {
        const golden_case *found = NULL;
        if (!test_wants(op_cases[i].op)) continue;
        for (size_t k = 0; k < sizeof golden_cases / sizeof *golden_cases; k++)
            if (!strcmp(golden_cases[k].op, op_cases[i].op) && !strcmp(golden_cases[k].what, op_cases[i].what))
                found = &golden_cases[k];
        /* our mask is not PyTorch's; tests/python/test_gguf.py compares formats of GGUF files */
        const char *op = op_cases[i].op;
        const bool ours = !strcmp(op, "dropout") || !strcmp(op, "unpack") || !strcmp(op, "linear_packed");
        CHECK(found || ours, "%s [%s]: no golden value", op, op_cases[i].what);
        for (int d = 0; found && test_variant(d); d++)
            if (test_takes(test_variant(d), i, 6)) check_golden(&op_cases[i], found, test_variant(d));
    }
}

/* ---- broken gradients.  PyTorch's derivatives at awkward points (corners, 0, infinities) see what
 * random points cannot. */
enum { GOLDEN_POINTS = 81 };
typedef struct corner { int points; const double *in[3], *params, *grad[3]; } corner;

static bool corner_of(const char *name, corner *k) {
    /* test_elementwise.c looks at these */
    (void)golden_promote, (void)golden_promote_0d, (void)golden_promote_number;
    for (size_t i = 0; i < sizeof golden_unary / sizeof *golden_unary; i++)
        if (!strcmp(golden_unary[i].name, name) && golden_unary[i].columns > 1)
            return *k = (corner){23, {unary_in[0]}, golden_unary[i].params, {golden_unary[i].y[1]}}, true;
    for (size_t i = 0; i < sizeof golden_binary / sizeof *golden_binary; i++)
        if (!strcmp(golden_binary[i].name, name) && golden_binary[i].columns > 1)
            return *k = (corner){81,
                                 {binary_in[0], binary_in[1]},
                                 golden_binary[i].params,
                                 {golden_binary[i].y[1], golden_binary[i].y[2]}},
                   true;
    for (size_t i = 0; i < sizeof golden_ternary / sizeof *golden_ternary; i++)
        if (!strcmp(golden_ternary[i].name, name) && golden_ternary[i].columns > 1)
            return *k = (corner){64, {ternary_in[0], ternary_in[1], ternary_in[2]}, golden_ternary[i].params,
                                 {golden_ternary[i].y[1], golden_ternary[i].y[2], golden_ternary[i].y[3]}}, true;
    return false;
}

/* For each point and input: does the gradient agree with PyTorch's (for a cotangent of 2), and is the
 * second derivative a number? */
typedef struct corners { bool agree[3][GOLDEN_POINTS], second[3][GOLDEN_POINTS]; } corners;

static void judge_corners(const corner *k, int j, const cr_tensor *g, const cr_tensor *gg, corners *out) {
    data first = data_of(g), second = data_of(gg);
    for (int i = 0; i < k->points; i++) {
        double a = data_f64(&first, i), b = 2 * k->grad[j][i];
        out->agree[j][i] = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fabs(b);
        out->second[j][i] = !isnan(data_f64(&second, i));
    }
    data_free(&first), data_free(&second);
}

static corners corners_of(const elementwise_test *row, const cr_device *dev) {
    corner k;
    corners out = {0};
    if (!corner_of(row->name, &k)) return out;
    cr_scope_begin();
    cr_tensor *t[3], *g, *gg;
    /* a gradient may have saved y, and with it its graph */
    cr_backward_options graph = {.create_graph = true}, again = {.retain_graph = true};
    for (int j = 0; j < row->n_in; j++) {
        t[j] = cr_from(k.in[j], CR_LIST(k.points), CR_F64, dev);
        if (j == 0 && row->rule == CR_RULE_WHERE) t[j] = cr_to(t[j], CR_BOOL, dev);
        else cr_requires_grad_(t[j], true);
    }
    const cr_tensor *y = row->call((const cr_tensor *const *)t, k.params),
                    *two = cr_requires_grad_(cr_full(CR_LIST(k.points), 2, CR_F64, dev), true);
    for (int j = 0; j < row->n_in && y && cr_requires_grad(y); j++) {
        const cr_tensor *x = t[j];
        if (!cr_requires_grad(x)) continue;
        OK(cr_gradients(1, &y, &two, 1, &x, &g, &graph));
        if (cr_is_none(g)) g = cr_zeros_like(x);
        const cr_tensor *first = g;
        if (!cr_requires_grad(g) || cr_gradients(1, &first, &two, 1, &x, &gg, &again) != CR_OK || cr_is_none(gg))
            gg = cr_zeros_like(x);
        judge_corners(&k, j, g, gg, &out);
    }
    cr_scope_end();
    return out;
}

/* A gradient program that can be edited: one more constant (1.5) and one more instruction than the original. */
enum { MOST_CODE = 192 };
typedef struct mutant { cr_program p; cr_instr code[MOST_CODE]; double consts[MOST_CODE]; char what[80]; } mutant;

static void mutant_start(mutant *m, const cr_program *original) {
    const cr_program *o = original;
    *m = (mutant){0};
    if (o->n_instr + 1 >= MOST_CODE || o->n_const + 1 >= MOST_CODE)
        exit(fputs("test_grad: MOST_CODE is too small\n", stderr) ? 9 : 9);
    m->p.name = o->name, m->p.doc = o->doc, m->p.rule = o->rule, m->p.n_in = o->n_in, m->p.n_param = o->n_param,
    m->p.n_out = 1;
    m->p.n_const = o->n_const + 1, m->p.n_instr = o->n_instr, m->p.consts = m->consts, m->p.instr = m->code,
    m->p.fused = -1;
    m->p.differentiable = o->differentiable;
    atomic_init(&m->p.refs, -1);
    int first = o->n_in + o->n_param + o->n_const;  /* values from here on move up by the new constant */
    for (int i = 0; i < o->n_const; i++) m->consts[i] = o->consts[i];
    m->consts[o->n_const] = 1.5;
    for (int i = 0; i < o->n_instr; i++) {
        int16_t *v[3] = {&m->code[i].a, &m->code[i].b, &m->code[i].c};
        m->code[i] = o->instr[i];
        for (int k = 0; k < 3; k++) if (*v[k] >= first) ++*v[k];
    }
    m->p.out[0] = (int16_t)(o->out[0] + (o->out[0] >= first));
}

static void mutant_append(mutant *m, int op, int16_t a, int16_t b) {
    m->code[m->p.n_instr] = (cr_instr){(uint8_t)op, a, b, -1};
    m->p.out[0] = (int16_t)(m->p.n_in + m->p.n_param + m->p.n_const + m->p.n_instr++);
}

/* The result of instruction i is replaced by value v everywhere. */
static void mutant_bypass(mutant *m, int i, int16_t v) {
    int16_t gone = (int16_t)(m->p.n_in + m->p.n_param + m->p.n_const + i);
    for (int k = i + 1; k < m->p.n_instr; k++) {
        int16_t *operand[3] = {&m->code[k].a, &m->code[k].b, &m->code[k].c};
        for (int j = 0; j < 3; j++) if (*operand[j] == gone) *operand[j] = v;
    }
    if (m->p.out[0] == gone) m->p.out[0] = v;
}

/* The number-th way to break a gradient; false past the last one.  none: there was no gradient, and
 * now there is one. */
static bool mutant_make(mutant *m, const cr_gradient *g, int number) {
    static const char *const names[CR_OP_COUNT] = CR_OPCODE_NAMES;
    static const cr_program identity = {.name = "none", .rule = CR_RULE_FLOAT, .n_in = 1, .n_out = 1};
    const cr_program *o = g->program ? g->program : &identity;
    mutant_start(m, o);
    int zero = o->out[0] - o->n_in - o->n_param;    /* a gradient that is the constant 0 becomes 1.5 */
    if (!g->program || (zero >= 0 && zero < o->n_const)) {
        if (g->program) m->p.out[0] = (int16_t)(m->p.n_in + m->p.n_param + m->p.n_const - 1);
        return snprintf(m->what, sizeof m->what, "0 -> not 0"), number == 0;
    }
    if (number == 0)
        return mutant_append(m, CR_OP_NEG, m->p.out[0], -1), snprintf(m->what, sizeof m->what, "negated"), true;
    if (number == 1)
        return mutant_append(m, CR_OP_MUL, m->p.out[0], (int16_t)(m->p.n_in + m->p.n_param + m->p.n_const - 1)),
               snprintf(m->what, sizeof m->what, "times 1.5"), true;
    number -= 2;
    for (int i = 0; i < o->n_instr; i++) {          /* one operand of a sum, a product or a choice is dropped */
        cr_instr *s = &m->code[i];
        int op = s->op, ways = op == CR_OP_ADD || op == CR_OP_SUB || op == CR_OP_MUL || op == CR_OP_SEL ? 2
                               : op == CR_OP_DIV                                                        ? 1
                                                                                                        : 0;
        if (number >= ways) { number -= ways; continue; }
        snprintf(m->what, sizeof m->what, "%s v%d: %s operand alone", names[op], i, number ? "second" : "first");
        int16_t keep = op == CR_OP_SEL ? (number ? s->c : s->b) : number ? s->b : s->a;
        if (op == CR_OP_SUB && number) *s = (cr_instr){CR_OP_NEG, s->b, -1, -1};
        else mutant_bypass(m, i, keep);
        return true;
    }
    return false;
}

/* Derivatives where a square overflows, where 1 - q^2 cancels, and where only the second one sees a guard: by input
 * `by`, then by input `again` (-1: the first derivative). */
static const struct { const char *name; double in[2]; int by, again; double want; } hard_points[] = {
    {"pow", {2, 0}, 0, 1, 0.5},
    {"atan2", {1e140, 1e-20}, 0, -1, 1e-300},
    {"atan2", {1e-20, 1e140}, 0, -1, 1e-140},
    {"atan2", {1e200, 1e200}, 0, -1, 5e-201},
    {"atan2", {1e140, 1e-20}, 1, -1, -1e-140},
    {"atan2", {1e-20, 1e140}, 1, -1, -1e-300},
    {"atan2", {1e200, 1e200}, 1, -1, -5e-201},
    {"mish", {-40}, 0, -1, -39 * 0x1.39792499b1a24p-58},    /* (1 + x) e^x */
    {"mish", {30}, 0, 0, -232 * 0x1.5ae191a99585ap-87},     /* (8 - 8 x) e^(-2 x) */
};

static bool hard_points_are_right(const elementwise_test *row, const cr_device *dev) {
    bool good = true;
    for (size_t i = 0; i < sizeof hard_points / sizeof *hard_points && good; i++) {
        if (strcmp(hard_points[i].name, row->name)) continue;
        const int again = hard_points[i].again;
        cr_scope_begin();
        const cr_tensor *t[2];
        for (int k = 0; k < row->n_in; k++)
            t[k] = cr_requires_grad_(cr_full(CR_LIST(1), hard_points[i].in[k], CR_F64, dev), true);
        const cr_tensor *y = row->call(t, row->params), *first;
        cr_tensor *g = NULL;
        OK(cr_gradients(1, &y, NULL, 1, &t[hard_points[i].by], &g, &(cr_backward_options){.create_graph = true}));
        if (again >= 0) {
            first = g;
            OK(cr_gradients(1, &first, NULL, 1, &t[again], &g, NULL));
        }
        good = fabs(cr_item(g) / hard_points[i].want - 1) <= 1e-8;
        cr_scope_end();
    }
    return good;
}

/* before: what the corners said while nothing was changed. */
static bool row_is_right(const elementwise_test *row, const cr_device *dev, const corners *before) {
    static const spec points = {SHAPE(41)};
    bool good = true;
    for (int p = 0; good && p < (row->n_param ? 2 : 1); p++) {
        stream r = stream_of(row->name, 9);
        double params[3];
        data in[3] = {{0}};
        for (int k = 0; k < row->n_in; k++) {
            spec s = points;
            s.lo = row->low, s.hi = row->high, s.fill = k == 0 && row->rule == CR_RULE_WHERE ? MASK : REALS;
            in[k] = data_fill(&s, CR_F64, &r);
        }
        function f = {.row = row, .params = row_params(row, p, params)};
        good = check(&f, row->n_in, in, DENSE, ~0u, false, dev, true);
        for (int k = 0; k < row->n_in; k++) data_free(&in[k]);
    }
    if (!good || !hard_points_are_right(row, dev)) return false;
    corners after = corners_of(row, dev);
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < GOLDEN_POINTS; i++)
            if ((before->agree[j][i] && !after.agree[j][i]) || (before->second[j][i] && !after.second[j][i]))
                return false;
    return true;
}

/* Programs derived from a mutant (its own gradients) are freed with it. */
static void mutant_end(mutant *m) {
    cr_gradient *derived = atomic_load(&m->p.grad);
    for (int i = 0; derived && i < m->p.n_in; i++) cr_program_free(derived[i].program);
    free(derived);
}

/* Mutants of one gradient; they are put in place of the row's own, as cr_program_gradient finds it.
 * The gradients of the row's other programs were derived before (corners_of), so none of those is
 * derived from a mutant and kept. */
static void mutate_gradient(const elementwise_test *row, int input, const corners *before, long *made, long *caught) {
    cr_gradient *own = atomic_load(&cr_rows[row->row].grad), changed[3];
    mutant m;
    /* golden values hold the coefficients and branches of a fit: only its sign and size are broken here */
    for (int number = 0; mutant_make(&m, &own[input], number) && (!row->fitted || number < 2); number++) {
        memcpy(changed, own, sizeof *own * (size_t)row->n_in);
        changed[input].program = &m.p;
        if (!own[input].program) changed[input].n = 1, changed[input].from[0] = (uint8_t)(row->n_in + 1);
        atomic_store(&cr_rows[row->row].grad, changed);
        bool survived = row_is_right(row, cr_cpu(), before);
        atomic_store(&cr_rows[row->row].grad, own);
        mutant_end(&m);
        ++*made;
        if (survived) printf("  survivor: %s, gradient of input %d, %s\n", row->name, input, m.what);
        else ++*caught;
    }
}

enum { FAST_POINTS = 241 };
/* The gradient of input 0 in dtype, where no graph of it is made. */
static void gradient_at(const elementwise_test *row, const double *x, cr_dtype dtype, const cr_device *dev,
                        double *out) {
    cr_scope_begin();
    const cr_tensor *in[3];
    for (int k = 0; k < row->n_in; k++)
        in[k] = k ? cr_full(CR_LIST(FAST_POINTS), 1.5, dtype, dev)
                  : cr_requires_grad_(cr_to(cr_from(x, CR_LIST(FAST_POINTS), CR_F64, cr_cpu()), dtype, dev), true);
    const cr_tensor *y = row->call(in, row->params), *two = cr_full(CR_LIST(FAST_POINTS), 2, dtype, dev);
    cr_tensor *g = NULL;
    OK(cr_gradients(1, &y, &two, 1, in, &g, NULL));
    OK(cr_read(g, CR_F64, out, sizeof *out * FAST_POINTS));
    cr_scope_end();
}

/* The gradients that ops.def calls fast, in f32, beside the exact ones, in f64. */
static bool fast_is_right(const elementwise_test *row, const cr_device *dev) {
    double x[FAST_POINTS], fast[FAST_POINTS], exact[FAST_POINTS];
    for (int i = 0; i < FAST_POINTS; i++) x[i] = i < 2 ? (i ? 1e30 : -1e30) : 0.125 * (i - FAST_POINTS / 2);
    gradient_at(row, x, CR_F32, dev, fast);
    gradient_at(row, x, CR_F64, cr_cpu(), exact);
    for (int i = 0; i < FAST_POINTS; i++)
        if (!(fabs(fast[i] - exact[i]) <= 2e-6 * (1 + fabs(exact[i])))) return false;
    return true;
}

TEST(fast_rows) {
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const elementwise_test *row = &elementwise_tests[i];
        cr_program *p = &cr_rows[row->row];
        const cr_gradient *own = p->fast;
        if (!own || !test_wants(row->name)) continue;
        for (int d = 0; test_device(d); d++)
            CHECK(fast_is_right(row, test_device(d)), "%s on %s: its fast gradient is wrong", row->name,
                  cr_device_name(test_device(d)));
        cr_gradient changed[3];
        mutant m;
        for (int number = 0; mutant_make(&m, own, number); number++) {
            memcpy(changed, own, sizeof *own * (size_t)row->n_in);
            changed[0].program = &m.p;
            p->fast = changed;
            CHECK(!fast_is_right(row, cr_cpu()), "%s: nobody sees its fast gradient with %s", row->name, m.what);
            p->fast = own;
            mutant_end(&m);
        }
    }
}

TEST(row_mutants) {
    if (!strncmp(test_device(0)->name, "cuda", 4) && !test_full())
        SKIP("minutes on a simulated GPU: with CHAINRULE_TEST_FULL=1");
    long made = 0, caught = 0;
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const elementwise_test *row = &elementwise_tests[i];
        if (!row->differentiable || !test_of_shard(i)) continue;
        corners before = corners_of(row, cr_cpu());
        CHECK(row_is_right(row, cr_cpu(), &before), "%s: its gradient is wrong before anything was changed", row->name);
        for (int k = row->rule == CR_RULE_WHERE; k < row->n_in; k++) mutate_gradient(row, k, &before, &made, &caught);
    }
    printf("  row mutants: %ld mutants, %ld caught\n", made, caught);
    CHECK(caught == made && made > (test_sharded() ? 0 : 400), "%ld of %ld broken gradients were not noticed",
          made - caught, made);
}

#endif

TEST(coverage) {
    int rows = 0, ops = 0;
    long cases = 0, low = 0;
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const elementwise_test *row = &elementwise_tests[i];
        rows += row->differentiable;
        for (int d = 0; row->differentiable && test_device(d); d++)
            for (int s = 0; s < ROW_SHAPES; s++) {
                cases += taken(test_device(d), i + s) ? row->n_param ? 2 : 1 : 0;
                for (int dt = CR_F16; dt <= CR_F64; dt++)
                    low += low_taken(test_device(d), (cr_dtype)dt, i + s + dt);
            }
    }
    for (int i = 0; cr_ops_all[i]; i++) ops += cr_ops_all[i]->grad != NULL;
    for (int i = 0; i < OP_CASES; i++)
        for (int d = 0; op_cases[i].smooth && test_variant(d); d++) cases += taken(test_variant(d), i);
    printf("  gradients: %ld ops, %ld cases, %ld first and %ld second order checks, %ld in low precision, %ld beyond "
           "the device\n",
           count.ops, count.cases, count.first, count.second, count.low, count.beyond);
    if (!count.low || !count.cases || getenv("CHAINRULE_TEST_OPS") || test_sharded())
        SKIP("only some of the tests that count ran");
#if !defined CR_TEST_CUDA && !defined CR_TEST_GPU
    CHECK(!idle_kernels(true), "kernels of gradients that no test ran");
#endif
    CHECK(count.ops == rows + ops, "%ld ops, the tables imply %d", count.ops, rows + ops);
    CHECK(count.cases == cases, "%ld cases, the tables imply %ld", count.cases, cases);
    CHECK(count.second + count.beyond >= count.cases, "%ld of %ld cases were derived twice", count.second, count.cases);
    CHECK(count.first + count.beyond >= (LAYOUTS + 1) * count.cases && count.low >= low, "too few checks: %ld, %ld",
          count.first, count.low);
}
