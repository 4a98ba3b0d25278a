/* test_ops.c - values: every elementwise row and every structured op, over shapes x layouts x dtypes x
 * devices, against `ref` in float64 (integers: exactly), and `ref` itself against numbers worked out
 * elsewhere.  Buffers have guard words (check.h). */
#include "ops_cases.h"
#include "ops/elementwise_tests.gen.h"

static long cases_run, cases_meant;                 /* compared; what the table implies */
/* As many as that: a table that became empty shows. */
static bool enough_ran(void) { return cases_meant && cases_run + declined == cases_meant; }

/* ---- elementwise rows */
typedef struct shapes { const char *what; spec in[3]; } shapes;
static const shapes row_shapes[] = {
    {"0-d", {{.ndim = 0}, {.ndim = 0}, {.ndim = 0}}},
    {"empty", {{SHAPE(3, 0, 5)}, {SHAPE(3, 0, 5)}, {SHAPE(5)}}},
    {"one axis", {{SHAPE(7)}, {SHAPE(7)}, {SHAPE(7)}}},
    {"longer than a vector", {{SHAPE(83)}, {SHAPE(83)}, {SHAPE(83)}}},
    {"three axes", {{SHAPE(3, 5, 7)}, {SHAPE(3, 5, 7)}, {SHAPE(3, 5, 7)}}},
    {"rows by columns", {{SHAPE(5, 1)}, {SHAPE(1, 13)}, {SHAPE(13)}}},
    {"broadcast to the first", {{SHAPE(2, 3, 5, 7)}, {SHAPE(3, 1, 1)}, {.ndim = 0}}},
    {"broadcast to the last", {{.ndim = 0}, {SHAPE(7)}, {SHAPE(3, 5, 7)}}},
    {"longer than a block", {{SHAPE(3, 691)}, {SHAPE(3, 691)}, {SHAPE(3, 691)}}},
};
enum { ROW_SHAPES = sizeof row_shapes / sizeof *row_shapes };

/* The dtype of an input, and of the truth's input. */
static cr_dtype input_dtype(const cr_program *p, int k, cr_dtype dt) {
    return k == 0 && p->rule == CR_RULE_WHERE ? CR_BOOL : dt;
}

static bool rule_takes(const cr_program *p, cr_dtype dt) {
    if (p->rule == CR_RULE_BITS) return !cr_dtype_is_float(dt);
    return !(p->rule == CR_RULE_NUMBER && dt == CR_BOOL);
}

static cr_dtype rule_gives(const cr_program *p, cr_dtype dt) {
    if (p->rule == CR_RULE_TEST) return CR_BOOL;
    return p->rule == CR_RULE_FLOAT && !cr_dtype_is_float(dt) ? CR_F32 : dt;
}

static bool divides(const cr_program *p) {
    const int op = p->instr[0].op;
    return op == CR_OP_FMOD || op == CR_OP_REM || op == CR_OP_FDIV || op == CR_OP_TDIV;
}

/* Integers: the row's range where it has a domain, else what wraps and divides badly too; no divisor is 0. */
static data row_numbers(const elementwise_test *row, const cr_program *p, int k, const spec *shape, cr_dtype dt,
                        stream *r) {
    spec s = *shape;
    s.fill = k == 0 && p->rule == CR_RULE_WHERE ? MASK : REALS;
    s.lo = row->low, s.hi = row->high;
    bool whole = !cr_dtype_is_float(dt) && s.fill != MASK;
    if (whole && p->rule == CR_RULE_FLOAT) s.lo = ceil(row->low), s.hi = floor(row->high);
    if (whole && p->rule != CR_RULE_FLOAT) s.lo = -11, s.hi = 13;
    data d = data_fill(&s, dt, r);
    if (!whole || p->rule == CR_RULE_FLOAT) return d;
    for (int64_t i = 5; i < d.numel; i += 17) {     /* the smallest, the largest */
        double v = cr_dtype_kind(dt) == CR_KIND_SIGNED ? -ldexp(1, 8 * (int)cr_dtype_size(dt) - 1) : 0;
        cr_store_f64(data_at(&d, i), dt, i % 2 ? v : INFINITY);
    }
    for (int64_t i = 0; k == 1 && divides(p) && i < d.numel; i++)
        if (cr_load_i64(data_at(&d, i), dt) == 0) cr_store_i64(data_at(&d, i), dt, 7);
    return d;
}

static cr_tensor *run_row(const cr_program *p, const elementwise_test *row, const data *in, layout how,
                          const cr_device *dev) {
    const cr_tensor *t[CR_MAX_INPUTS];
    for (int k = 0; k < p->n_in; k++) t[k] = data_put(&in[k], how, dev);
    CHECK(p->n_in == row->n_in, "%s: %d inputs, but the table of tests says %d", p->name, p->n_in, row->n_in);
    return row->call(t, row->params);
}

/* What `ref` gives for the widened inputs: the same for every device and layout, so it is computed once.
 * size: the largest magnitude behind the result; slack: what the op may add to its error (structured ops). */
typedef struct expected { data value; double size, slack; bool known; } expected;

static void truth_free(expected *t) {
    if (t->known) data_free(&t->value);
    *t = (expected){0};
}

static void row_truth(expected *t, const cr_program *p, const elementwise_test *row, const data *in, cr_dtype dt) {
    if (t->known) return;
    cr_scope_begin();
    data wide[3] = {{0}};
    const bool as_f64 = cr_dtype_is_float(dt) || p->rule == CR_RULE_FLOAT;
    for (int k = 0; k < p->n_in; k++)
        wide[k] = as_f64 && in[k].dtype == dt ? data_as(&in[k], CR_F64) : data_as(&in[k], in[k].dtype);
    const cr_tensor *want = run_row(p, row, wide, DENSE, test_ref());
    t->known = want != NULL;
    if (want) t->value = data_of(want);
    for (int k = 0; k < p->n_in; k++) data_free(&wide[k]);
    cr_scope_end();
}

/* One program over given inputs on one device. */
static void check_row(const cr_program *p, const elementwise_test *row, const data *in, expected *want, cr_dtype dt,
                      layout how, const cr_device *dev, double scale) {
    now.op = p->name, now.dtype = dt, now.layout = (int)how, now.device = cr_device_name(dev);
    long alive = guard_start();
    cr_scope_begin();
    row_truth(want, p, row, in, dt);
    cr_tensor *got = want->known ? run_row(p, row, in, how, dev) : NULL;
    if (got) {
        data g = data_of(got);
        CHECK(g.dtype == rule_gives(p, dt), "%s of %s gives %s", p->name, cr_dtype_name(dt), cr_dtype_name(g.dtype));
        if (compare("value", &g, &want->value, p->n_instr, scale)) { test_ran_on(dev); cases_run++; }
        data_free(&g);
    } else if (!test_declines(dev)) {
        CHECK(false, "%s %s on %s: %s", p->name, cr_dtype_name(dt), now.device, cr_error());
        cr_error_clear();
    }
    cr_scope_end();
    guard_end(alive);
}

/* Rounding errors of a single instruction are relative to its result; where several are chained
 * something may cancel. */
static double row_scale(const cr_program *p, const elementwise_test *row) {
    return p->n_instr > 1 ? fmax(1, fmax(fabs(row->low), fabs(row->high))) : 0;
}

/* A GPU takes one in so many: of rows, whose threads share nothing (more, see row_taken); of structured cases; of those
 * in f32.  CHAINRULE_TEST_SHARE and CHAINRULE_TEST_FULL run the others. */
#if defined CUDASIM_SANITIZER
enum { SPARSE = 4, SPARSE_CASES = 16, SPARSE_F32 = 2 };     /* each takes a second to compile */
#elif defined CR_TEST_CUDA
enum { SPARSE = 9, SPARSE_CASES = 192, SPARSE_F32 = 8 };
#else
enum { SPARSE = 2, SPARSE_CASES = 64, SPARSE_F32 = 8 };
#endif
static bool row_taken(const elementwise_test *row, cr_dtype dt, size_t s, int how, const cr_device *dev) {
    return test_offers(dev, dt) &&
           test_takes(dev, (int)row->row + (int)dt + (int64_t)s, SPARSE * (dt == CR_F32 ? 3 : 27)) &&
           test_takes(dev, (int64_t)s / 3 + (int)row->row + how, dt == CR_F32 ? 2 : 4);
}

static void check_row_shapes(const cr_program *p, const elementwise_test *row, cr_dtype dt) {
    for (size_t s = 0; s < ROW_SHAPES; s++) {
        stream r = stream_of(p->name, (int64_t)s * CR_DTYPES + dt);
        data in[3] = {{0}};
        expected want = {0};
        now.what = row_shapes[s].what;
        for (int k = 0; k < p->n_in; k++)
            in[k] = row_numbers(row, p, k, &row_shapes[s].in[k], input_dtype(p, k, dt), &r);
        for (int d = 0; test_device(d); d++)
            for (int how = 0; how < LAYOUTS; how++)
                if (row_taken(row, dt, s, how, test_device(d)))
                    check_row(p, row, in, &want, dt, (layout)how, test_device(d), row_scale(p, row));
        truth_free(&want);
        for (int k = 0; k < p->n_in; k++) data_free(&in[k]);
    }
}

/* The dtypes of one round: rule, device and row_taken decide. */
static long rows_meant(void) {
    long n = 0;
    for (int i = 0; i < CR_ROW_COUNT; i++)
        for (int d = 0; test_device(d); d++)
            for (int dt = 0; dt < CR_DTYPES; dt++)
                for (size_t k = 0; k < ROW_SHAPES * LAYOUTS && rule_takes(cr_program_at(i), (cr_dtype)dt); k++)
                    n += row_taken(&elementwise_tests[i], (cr_dtype)dt, k / LAYOUTS, (int)(k % LAYOUTS),
                                   test_device(d));
    return n;
}

TEST(rows) {
    cases_run = 0;
    CHECK(cr_program_count() == CR_ROW_COUNT, "%d rows, but %d in the table of tests", cr_program_count(),
          CR_ROW_COUNT);
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const cr_program *p = cr_program_at(i);
        CHECK(!strcmp(p->name, elementwise_tests[i].name), "row %d is %s, but the table of tests says %s", i, p->name,
              elementwise_tests[i].name);
        for (int dt = 0; dt < CR_DTYPES; dt++)
            for (test_round = 0; rule_takes(p, (cr_dtype)dt) && test_round < test_rounds(); test_round++)
                check_row_shapes(p, &elementwise_tests[i], (cr_dtype)dt);
    }
    test_round = 0;
    cases_meant = rows_meant() * (long)test_rounds();
    CHECK(enough_ran(), "%ld cases of rows ran, the table implies %ld", cases_run, cases_meant);
    printf("  rows: %d rows, %ld cases, %ld beyond the device\n", CR_ROW_COUNT, cases_run, declined);
    declined = 0;
}

/* One 0 among the divisors is an error, wherever it stands; floats and what is not read do not mind. */
TEST(integer_division_by_zero) {
    static const int rows[] = {CR_ROW_FLOOR_DIVIDE, CR_ROW_TRUNC_DIVIDE, CR_ROW_REMAINDER, CR_ROW_FMOD};
    for (int d = 0; test_device(d); d++)
        for (int r = 0; r < 4; r++)
            for (int dt = 1; dt < CR_DTYPES; dt++)
                for (int64_t n = 1; n < 100000; n *= 31) {
                    const cr_device *dev = test_device(d);
                    if (!test_offers(dev, (cr_dtype)dt) || !test_takes(dev, r + dt, 7)) continue;
                    cr_scope_begin();
                    const cr_program *p = cr_program_at(rows[r]);
                    cr_tensor *x = cr_ones(CR_LIST(n), (cr_dtype)dt, dev),
                              *y = cr_ones(CR_LIST(2 * n + 1), (cr_dtype)dt, dev);
                    cr_tensor *zero = cr_slice(y, 0, 0, 2 * n - 1, 2);
                    cr_fill_(cr_select(y, 0, 2 * (n - 1)), 0);
                    if (cr_dtype_is_float((cr_dtype)dt))
                        CHECK(cr_program_apply(p, 2, (const cr_tensor *[]){x, zero}, NULL) != NULL, "%s: %s", p->name,
                              cr_error());
                    else {
                        FAILS(CR_BAD_VALUE, "an integer divided by zero",
                              (cr_program_apply(p, 2, (const cr_tensor *[]){x, zero}, NULL), cr_synchronize(dev)));
                        FAILS(CR_BAD_VALUE, p->name,
                              (cr_program_apply_(p, x, 2, (const cr_tensor *[]){x, zero}, NULL), cr_synchronize(dev)));
                        FAILS(CR_BAD_VALUE, p->name,
                              (cr_program_apply(p, 2, (const cr_tensor *[]){x, cr_scalar_int(0)}, NULL),
                               cr_synchronize(dev)));
                    }
                    CHECK(cr_program_apply(p, 2, (const cr_tensor *[]){x, cr_slice(y, 0, 1, 2 * n, 2)}, NULL) != NULL,
                          "%s: %s", p->name, cr_error());
                    cr_scope_end();
                    test_ran_on(dev);
                }
}

/* Special values, again and again.  `huge` still has a square; with `mild`, huge / tiny is a number too. */
static data specials(cr_dtype dt, bool mild, int ndim, const int64_t *shape) {
    double huge = sqrt(largest(dt)) / 8, tiny = mild ? 1 / huge : smallest_normal(dt);
    const double list[] = {0, -0.0, 1, -1, 0.5, -2.5, 3, huge, -huge, tiny, -tiny, INFINITY, -INFINITY, NAN};
    data d = data_new(dt, ndim, shape);
    for (int64_t i = 0; i < d.numel; i++) cr_store_f64(data_at(&d, i), dt, list[i % (int)(sizeof list / sizeof *list)]);
    return d;
}
enum { SPECIALS = 14 };

/* Every combination of them.  With three inputs an intermediate result may not leave float32:
 * addcdiv's quotient would.  Nor may it become a denormal where a driver takes those for 0: swiglu's would, and 0
 * times infinity is NaN. */
TEST(row_specials) {
    static const cr_dtype floats[] = {CR_F32, CR_F64, CR_BF16, CR_F16};
    static const int64_t shape[3][3] = {{SPECIALS, 1, 1}, {1, SPECIALS, 1}, {1, 1, SPECIALS}};
    now.what = "special values";
    for (int i = 0; i < cr_program_count(); i++) {
        const cr_program *p = cr_program_at(i);
        const elementwise_test *row = &elementwise_tests[i];
        for (int d = 0; p->rule != CR_RULE_BITS && test_device(d); d++)
            for (int f = 0; f < 4; f++) {
                if (!test_takes(test_device(d), i + f, floats[f] == CR_F32 ? 4 : 12)) continue;
                if (floats[f] == CR_F16 && !strcmp(p->name, "geglu")) continue; /* gelu(-32) is 0 in float32 only */
                data in[3] = {{0}};
                const bool mild = p->n_in == 3 || (FLUSHED > 0 && p->n_instr > 1);
                for (int k = 0; k < p->n_in; k++) in[k] = specials(floats[f], mild, 3, shape[k]);
                if (p->rule == CR_RULE_WHERE) { data_free(&in[0]); in[0] = data_new(CR_BOOL, 0, NULL); }
                expected want = {0};
                check_row(p, row, in, &want, floats[f], DENSE, test_device(d), p->n_instr > 1);
                truth_free(&want);
                for (int k = 0; k < p->n_in; k++) data_free(&in[k]);
            }
    }
}

/* ---- structured ops */
static bool case_takes(const op_case *c, cr_dtype dt) {
    return (int)c->dtypes & (cr_dtype_is_float(dt) ? FLOATS : dt == CR_BOOL ? BOOLS : WHOLES);
}

static cr_tensor *run_case(const op_case *c, const data *in, layout how, const cr_device *dev) {
    const cr_tensor *t[4];
    for (int k = 0; k < case_inputs(c); k++) t[k] = data_put(&in[k], how, dev);
    return c->run(t);
}

/* The largest magnitude behind a result: for sums and products that of the same with every number
 * positive, where nothing cancels. */
static double magnitude(const op_case *c, const data *in) {
    data positive[4] = {{0}};
    for (int k = 0; k < case_inputs(c); k++) {
        positive[k] = data_as(&in[k], in[k].dtype);
        for (int64_t i = 0; in[k].dtype == CR_F64 && i < in[k].numel; i++)
            cr_store_f64(data_at(&positive[k], i), CR_F64, fabs(data_f64(&in[k], i)));
    }
    data y = data_of(run_case(c, positive, DENSE, test_ref()));
    double most = data_largest(&y);
    for (int k = 0; k < case_inputs(c); k++) data_free(&positive[k]);
    data_free(&y);
    return most;
}

static bool case_taken(int number, cr_dtype dt, int how, const cr_device *dev) {
    return test_offers(dev, dt) &&
           test_takes(dev, 101 * number + (int)dt + how, dt == CR_F32 ? SPARSE_F32 : SPARSE_CASES);
}

static void case_truth(expected *t, const op_case *c, const data *in) {
    if (t->known) return;
    cr_scope_begin();
    data wide[4] = {{0}};
    for (int k = 0; k < case_inputs(c); k++)
        wide[k] = data_as(&in[k], cr_dtype_is_float(in[k].dtype) ? CR_F64 : in[k].dtype);
    const cr_tensor *want = run_case(c, wide, DENSE, test_ref());
    t->known = want != NULL;
    if (want) t->value = data_of(want);
    if (want && cr_dtype_is_float(t->value.dtype)) t->size = magnitude(c, wide);
    if (want) t->slack = slack_of(c, wide);
    for (int k = 0; k < case_inputs(c); k++) data_free(&wide[k]);
    cr_scope_end();
}

static void check_case(const op_case *c, const data *in, expected *want, cr_dtype dt, layout how,
                       const cr_device *dev) {
    now.op = c->op, now.what = c->what, now.dtype = dt, now.layout = (int)how, now.device = cr_device_name(dev);
    long alive = guard_start();
    cr_scope_begin();
    case_truth(want, c, in);
    cr_tensor *got = want->known ? run_case(c, in, how, dev) : NULL;
    if (got) {
        data g = data_of(got);
        const double slack = g.dtype == CR_F64 ? 0 : want->slack / tolerance(g.dtype, c->terms);
        if (compare("value", &g, &want->value, c->terms, cr_dtype_is_float(g.dtype) ? want->size + slack : 0)) {
            test_ran_on(dev);
            cases_run++;
        }
        data_free(&g);
    } else if (!test_declines(dev)) {
        CHECK(false, "%s [%s] %s on %s: %s", c->op, c->what, cr_dtype_name(dt), now.device, cr_error());
        cr_error_clear();
    }
    cr_scope_end();
    guard_end(alive);
}

static void check_case_layouts(int number, cr_dtype dt) {
    const op_case *c = &op_cases[number];
    stream r = stream_of(c->op, number * 100 + (int)dt);
    data in[4] = {{0}};
    expected want = {0};
    for (int k = 0; k < case_inputs(c); k++) in[k] = data_fill(&c->in[k], dt, &r);
    for (int d = 0; test_variant(d); d++)
        for (int how = 0; how < LAYOUTS; how++)
            if (case_taken(number, dt, how, test_variant(d)))
                check_case(c, in, &want, dt, (layout)how, test_variant(d));
    truth_free(&want);
    for (int k = 0; k < case_inputs(c); k++) data_free(&in[k]);
}

static bool case_for(const char *op) {
    for (int i = 0; i < OP_CASES; i++) if (!strcmp(op_cases[i].op, op)) return true;
    return false;
}

TEST(cases) {
    cases_run = cases_meant = declined = 0;
    for (int i = 0; i < OP_CASES; i++)
        for (int dt = 0; test_wants(op_cases[i].op) && dt < CR_DTYPES; dt++)
            for (test_round = 0; case_takes(&op_cases[i], (cr_dtype)dt) && test_round < test_rounds(); test_round++)
                check_case_layouts(i, (cr_dtype)dt);
    test_round = 0;
    for (int i = 0; cr_ops_all[i]; i++)
        CHECK(case_for(cr_ops_all[i]->name), "%s: no case in ops_cases.h tests this op", cr_ops_all[i]->name);
    for (int i = 0; i < OP_CASES; i++)
        for (int d = 0; test_wants(op_cases[i].op) && test_variant(d); d++)
            for (int k = 0; k < CR_DTYPES * LAYOUTS; k++)
                cases_meant += case_takes(&op_cases[i], (cr_dtype)(k / LAYOUTS)) &&
                                       case_taken(i, (cr_dtype)(k / LAYOUTS), k % LAYOUTS, test_variant(d))
                                   ? (long)test_rounds()
                                   : 0;
    CHECK(enough_ran(), "%ld cases ran, the table implies %ld", cases_run, cases_meant);
    printf("  structured ops: %d entries, %ld cases, %ld beyond the device\n", OP_CASES, cases_run, declined);
}

/* Rows with zeros, infinities and NaN in them, each row in another order. */
TEST(case_specials) {
    static const char *const names[] = {
        "sum",       "mean",    "max",         "min",         "argmax",    "argmin",       "sort",
        "argsort",   "topk",    "kthvalue",    "median",      "nanmedian", "searchsorted", "runs",
        "logsumexp", "softmax", "log_softmax", "cat",         "reshape",   "transpose",    "tril",
        "triu",      "clone",   "contiguous",  "masked_fill", "gather",    "embedding",    "expand"};
    for (int i = 0; i < OP_CASES; i++) {
        const op_case *c = &op_cases[i];
        bool wanted = false;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) wanted |= !strcmp(names[k], c->op);
        for (int d = 0; wanted && test_variant(d); d++)
            for (int f = CR_F16; f <= CR_F64; f++) {
                stream r = stream_of(c->op, i);
                data in[4] = {{0}};
                for (int k = 0; k < case_inputs(c); k++) {
                    in[k] = data_fill(&c->in[k], (cr_dtype)f, &r);
                    data s = specials((cr_dtype)f, false, 1, (int64_t[]){SPECIALS});
                    /* a special here and there */
                    for (int64_t j = 0; cr_dtype_is_float(in[k].dtype) && j < in[k].numel; j++)
                        if (stream_next(&r) < 0.15)
                            memcpy(data_at(&in[k], j), data_at(&s, (int64_t)(stream_next(&r) * SPECIALS)),
                                   cr_dtype_size((cr_dtype)f));
                    data_free(&s);
                }
                expected want = {0};
                if (test_offers(test_variant(d), (cr_dtype)f) && test_takes(test_variant(d), i + f, 4))
                    check_case(c, in, &want, (cr_dtype)f, DENSE, test_variant(d));
                truth_free(&want);
                for (int k = 0; k < case_inputs(c); k++) data_free(&in[k]);
            }
    }
}

/* ---- all pairs of dtypes meet in one addition and one comparison */
TEST(promotion) {
    static const int rows[] = {CR_ROW_ADD, CR_ROW_LT, CR_ROW_MAXIMUM};
    for (int d = 0; test_device(d); d++)
        for (int a = 0; a < CR_DTYPES; a++)
            for (int b = 0; b < CR_DTYPES; b++)
                for (int p = 0; p < 3; p++) {
                    if (!test_offers(test_device(d), cr_promote((cr_dtype)a, (cr_dtype)b)) ||
                        !test_takes(test_device(d), a + b + p, 23))
                        continue;
                    stream r = stream_of("promotion", a * 13 + b);
                    /* longer than any piece that is converted at once */
                    spec s[2] = {{SHAPE(2, 1303), .lo = 0, .hi = 30}, {SHAPE(1303), .lo = 0, .hi = 30}};
                    data in[2] = {data_fill(&s[0], (cr_dtype)a, &r), data_fill(&s[1], (cr_dtype)b, &r)};
                    cr_dtype both = cr_promote((cr_dtype)a, (cr_dtype)b);
                    const elementwise_test *row = &elementwise_tests[rows[p]];
                    now.op = row->name, now.what = "promotion", now.dtype = both, now.layout = 0,
                    now.device = cr_device_name(test_device(d));
                    cr_scope_begin();
                    cr_tensor *got = run_row(cr_program_at(rows[p]), row, in, DENSE, test_device(d));
                    data rounded[2] = {data_as(&in[0], both), data_as(&in[1], both)}, w[2];
                    for (int k = 0; k < 2; k++) w[k] = data_as(&rounded[k], cr_dtype_is_float(both) ? CR_F64 : both);
                    cr_tensor *want = run_row(cr_program_at(rows[p]), row, w, DENSE, test_ref());
                    data g = data_of(got), t = data_of(want);
                    CHECK(g.dtype == (p == 1 ? CR_BOOL : both), "%s of %s and %s gives %s", now.op,
                          cr_dtype_name((cr_dtype)a), cr_dtype_name((cr_dtype)b), cr_dtype_name(g.dtype));
                    if (compare("value", &g, &t, 1, 0)) test_ran_on(test_device(d));
                    data_free(&g), data_free(&t);
                    for (int k = 0; k < 2; k++) data_free(&in[k]), data_free(&rounded[k]), data_free(&w[k]);
                    cr_scope_end();
                }
}

/* ---- casts: every dtype to every other, saturating and rounding once */
TEST(casts) {
    for (int d = 0; test_device(d); d++)
        for (int a = 0; a < CR_DTYPES; a++)
            for (int b = 0; b < CR_DTYPES; b++)
                for (int how = 0; how < LAYOUTS; how++) {
                    const cr_device *dev = test_device(d);
                    if (!test_offers(dev, (cr_dtype)a) || !test_offers(dev, (cr_dtype)b) ||
                        !test_takes(dev, a + b + how, 17))
                        continue;
                    stream r = stream_of("casts", a);
                    spec s = {SHAPE(5, 53), .lo = -300, .hi = 70000};
                    data x = cr_dtype_is_float((cr_dtype)a) ? specials((cr_dtype)a, false, 2, s.shape)
                                                            : data_fill(&s, (cr_dtype)a, &r);
                    for (int64_t i = 0; i < x.numel; i += 2)
                        cr_store_f64(data_at(&x, i), (cr_dtype)a,
                                     (stream_next(&r) - 0.5) * exp(40 * stream_next(&r) - 8));
                    now.op = "to", now.what = cr_dtype_name((cr_dtype)a), now.dtype = (cr_dtype)b, now.layout = how,
                    now.device = cr_device_name(test_device(d));
                    long alive = guard_start();
                    cr_scope_begin();
                    data got = data_of(cr_to(data_put(&x, (layout)how, test_device(d)), (cr_dtype)b, test_device(d))),
                         want = data_as(&x, (cr_dtype)b);
                    for (int64_t i = 0; i < got.numel; i++) {
                        bool same = !memcmp(data_at(&got, i), data_at(&want, i), cr_dtype_size((cr_dtype)b)) ||
                                    (isnan(data_f64(&got, i)) && isnan(data_f64(&want, i)));
                        if (!same) complain("cast", &got, i, data_f64(&got, i), data_f64(&want, i), 0);
                    }
                    test_ran_on(test_device(d));
                    data_free(&x), data_free(&got), data_free(&want);
                    cr_scope_end();
                    guard_end(alive);
                }
}

/* Floats at and beside the bounds of each integer dtype: cut towards zero; beyond them the bound; of NaN 0. */
TEST(casts_at_bounds) {
    enum { N = 2 * 17 * 3 + 3 };
    static const int powers[17] = {0, 3, 7, 8, 15, 16, 23, 24, 31, 32, 33, 52, 53, 62, 63, 64, 100};
    for (int d = 0; test_device(d); d++)
        for (int a = CR_F32; a <= CR_F64; a++)
            for (int b = CR_U8; b <= CR_I64; b++) {
                const cr_device *dev = test_device(d);
                if (!test_offers(dev, (cr_dtype)a) || !test_offers(dev, (cr_dtype)b)) continue;
                const int bits = 8 * (int)cr_dtype_size((cr_dtype)b) - (b >= CR_I8);
                const cr_dtype widest = b >= CR_I8 ? CR_I64 : CR_U64;
                const uint64_t most = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
                const uint64_t least = b >= CR_I8 ? most + 1 : 0;      /* its magnitude */
                double v[N] = {NAN, INFINITY, -INFINITY};
                int n = 3;
                for (int k = 0; k < 17; k++)
                    for (int s = 0; s < 2; s++) {
                        const double at = ldexp(s ? -1 : 1, powers[k]);
                        v[n++] = at;
                        v[n++] = a == CR_F32 ? (double)nextafterf((float)at, 0) : nextafter(at, 0);
                        v[n++] = a == CR_F32 ? (double)nextafterf((float)at, (float)(4 * at)) : nextafter(at, 4 * at);
                    }
                for (int step = 1; step <= 2; step++) {     /* one after the other, and apart */
                    cr_scope_begin();
                    cr_tensor *x = cr_from(v, CR_LIST(N), CR_F64, dev->host ? dev : cr_cpu());
                    x = cr_slice(cr_repeat_interleave(cr_to(x, (cr_dtype)a, dev), step, 0), 0, 0, INT64_MAX, step);
                    x = cr_to(cr_to(x, (cr_dtype)b, dev), (cr_dtype)b, cr_cpu());
                    uint64_t got[N];
                    OK(cr_read(cr_to(x, widest, cr_cpu()), widest, got, sizeof got));
                    for (int i = 0; i < N; i++) {
                        const double size = trunc(fabs(v[i]));
                        const uint64_t bound = v[i] < 0 ? least : most;
                        const uint64_t cut = isnan(v[i]) ? 0 : size < ldexp(1, bits) && bound ? (uint64_t)size : bound;
                        const uint64_t want = v[i] < 0 ? 0 - cut : cut;
                        CHECK(got[i] == want, "%s to %s on %s, step %d: %.17g gives %lld, not %lld",
                              cr_dtype_name((cr_dtype)a), cr_dtype_name((cr_dtype)b), cr_device_name(dev), step, v[i],
                              (long long)got[i], (long long)want);
                    }
                    test_ran_on(dev);
                    cr_scope_end();
                }
            }
}

#if !defined CR_TEST_GPU && !defined CR_TEST_CUDA   /* whose memory is not the host's */
/* The guard words themselves: one byte before or after a buffer is noticed. */
TEST(guards) {
    const cr_device *dev = test_device(0);
    for (int at = -1; at <= 12; at += 13) {
        cr_tensor *x = cr_zeros(CR_LIST(3), CR_F32, dev);
        guards_broken = 0;
        ((unsigned char *)x->storage->data)[at] ^= 1;
        cr_release(x);
        CHECK(guards_broken == 1, "a byte at %d of 12 was written, %ld guards are broken", at, guards_broken);
    }
    guards_broken = 0;
    test_ran_on(dev);
}
#endif

/* ---- in place: also into a part of a tensor, whose neighbours stay as they are */
typedef cr_tensor *(*in_place_fn)(cr_tensor *x, const cr_tensor *y);
static cr_tensor *fill_pi(cr_tensor *x, const cr_tensor *y) { (void)y; return cr_fill_(x, 3); }
static cr_tensor *second_of(const cr_tensor *x, const cr_tensor *y) { return cr_add(cr_mul(x, cr_scalar_int(0)), y); }
static cr_tensor *three(const cr_tensor *x, const cr_tensor *y) {
    (void)y;
    return cr_add(cr_mul(x, cr_scalar_int(0)), cr_scalar_int(3));
}

static void check_in_place(const char *name, in_place_fn write,
                           cr_tensor *(*fresh)(const cr_tensor *, const cr_tensor *), cr_dtype dt, layout how,
                           const cr_device *dev) {
    static const spec xs = {SHAPE(3, 5, 7), .lo = 1, .hi = 9}, ys = {SHAPE(5, 1), .lo = 1, .hi = 9};
    stream r = stream_of(name, dt);
    data x = data_fill(&xs, dt, &r), y = data_fill(&ys, dt, &r), wx = data_as(&x, cr_dtype_is_float(dt) ? CR_F64 : dt),
         wy = data_as(&y, wx.dtype);
    now.op = name, now.what = "in place", now.dtype = dt, now.layout = (int)how, now.device = cr_device_name(dev);
    long alive = guard_start();
    cr_scope_begin();
    cr_tensor *tx = data_put(&x, how, dev),
              *want = fresh(data_put(&wx, DENSE, test_ref()), data_put(&wy, DENSE, test_ref()));
    CHECK(write(tx, data_put(&y, how, dev)) == tx, "%s on %s: %s", name, now.device, cr_error());
    data got = data_of(tx), truth = data_of(want);
    if (compare("value", &got, &truth, 1, 0)) test_ran_on(dev);
    const unsigned char *memory = cr_dtype_is_float(dt) && dev->host && how == SPACED ? tx->storage->data : NULL;
    size_t size = cr_dtype_size(dt), most = tx->storage->bytes / size, ones = 0;
    for (size_t i = 0; memory && i < most; i++) {    /* what was not ours is still all ones */
        bool all = true;
        for (size_t b = 0; b < size; b++) all &= memory[i * size + b] == 0xff;
        ones += all;
    }
    CHECK(!memory || ones == most - (size_t)x.numel, "%s on %s: %zu elements beside the view were written", name,
          now.device, most - (size_t)x.numel - ones);
    data_free(&x), data_free(&y), data_free(&wx), data_free(&wy), data_free(&got), data_free(&truth);
    cr_scope_end();
    guard_end(alive);
}

TEST(in_place) {
    static const struct {
        const char *name;
        in_place_fn write;
        cr_tensor *(*fresh)(const cr_tensor *, const cr_tensor *);
        bool floats_only;
    } ops[] = {{"add_", cr_add_, cr_add, false},      {"sub_", cr_sub_, cr_sub, false},
               {"mul_", cr_mul_, cr_mul, false},      {"div_", cr_div_, cr_div, true},
               {"copy_", cr_copy_, second_of, false}, {"fill_", fill_pi, three, false}};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (int d = 0; test_device(d); d++)
            for (int dt = CR_U8; dt < CR_DTYPES; dt++)
                for (int how = 0; how < LAYOUTS; how++)
                    if ((!ops[k].floats_only || cr_dtype_is_float((cr_dtype)dt)) &&
                        test_offers(test_device(d), (cr_dtype)dt) &&
                        test_takes(test_device(d), (int64_t)k + dt + how, 4))
                        check_in_place(ops[k].name, ops[k].write, ops[k].fresh, (cr_dtype)dt, (layout)how,
                                       test_device(d));
}

/* ---- random numbers: the same bits everywhere; normals pass through the device's log and cos */
static void check_random(cr_random_kind kind, cr_dtype dt, int64_t n, uint64_t counter, const cr_device *dev) {
    static const char *const kinds[] = {"uniform", "normal"};
    now.op = "random", now.what = kinds[kind], now.dtype = dt, now.layout = 0, now.device = cr_device_name(dev);
    long alive = guard_start();
    cr_scope_begin();
    cr_tensor *y = cr_empty(CR_LIST(n), dt, dev), *t = cr_empty(CR_LIST(n), dt, test_ref());
    OK(dev->kernels->random(&(cr_random_args){y->array, kind, test_seed(), counter}));
    OK(test_ref()->kernels->random(&(cr_random_args){t->array, kind, test_seed(), counter}));
    data got = data_of(y), want = data_of(t);
    for (int64_t i = 0; i < n; i++) {
        double g = data_f64(&got, i), w = data_f64(&want, i),
               allowed = kind == CR_RANDOM_NORMAL ? 8 * unit_of(dt) * (1 + fabs(w)) : 0;
        if (fabs(g - w) <= allowed && (kind != CR_RANDOM_UNIFORM || (g >= 0 && g < 1))) continue;
        complain("element", &got, i, g, w, allowed);
        break;
    }
    test_ran_on(dev);
    data_free(&got), data_free(&want);
    cr_scope_end();
    guard_end(alive);
}

/* Two devices' results must be equal, number for number. */
static void check_same(const char *op, const char *what, const cr_tensor *y, const cr_tensor *t, const cr_device *dev) {
    now.op = op, now.what = what, now.dtype = y->dtype, now.layout = 0, now.device = cr_device_name(dev);
    data got = data_of(y), want = data_of(t);
    for (int64_t i = 0; i < got.numel; i++)
        if (data_f64(&got, i) != data_f64(&want, i)) {
            complain("element", &got, i, data_f64(&got, i), data_f64(&want, i), 0);
            break;
        }
    test_ran_on(dev);
    data_free(&got), data_free(&want);
}

static void check_integers(cr_dtype dt, int64_t low, uint64_t span, int64_t n, uint64_t counter, const cr_device *dev) {
    cr_scope_begin();
    cr_tensor *y = cr_empty(CR_LIST(n), dt, dev), *t = cr_empty(CR_LIST(n), dt, test_ref());
    OK(dev->kernels->random_integers(&(cr_random_integers_args){y->array, low, span, test_seed(), counter}));
    OK(test_ref()->kernels->random_integers(&(cr_random_integers_args){t->array, low, span, test_seed(), counter}));
    check_same("random_integers", "", y, t, dev);
    cr_scope_end();
}

static void check_permutation(int64_t n, uint64_t counter, const cr_device *dev) {
    cr_scope_begin();
    cr_tensor *y = cr_empty(CR_LIST(n), CR_I64, dev), *t = cr_empty(CR_LIST(n), CR_I64, test_ref());
    OK(dev->kernels->permutation(&(cr_permutation_args){y->array, test_seed(), counter}));
    OK(test_ref()->kernels->permutation(&(cr_permutation_args){t->array, test_seed(), counter}));
    check_same("permutation", "", y, t, dev);
    cr_scope_end();
}

/* M rows of 7 weights, some of them 0. */
static void check_multinomial(int64_t N, int64_t S, uint64_t counter, const cr_device *dev) {
    enum { M = 7 };
    for (int k = 0; k < 4; k++) {
        const cr_dtype dt = k / 2 ? CR_F64 : CR_F32;
        const int64_t samples = k % 2 || S < N ? S : N;
        if (!test_offers(dev, dt)) continue;
        cr_scope_begin();
        cr_generator *g = cr_generator_new(test_seed());
        cr_tensor *w = cr_add(cr_rand(CR_LIST(M, N), dt, test_ref(), g), cr_scalar(0.01)), *x = cr_to(w, dt, dev);
        if (k % 2)
            x = cr_mul(x, cr_lt(x, cr_scalar(0.7))),
            x = cr_add(x, cr_mul(cr_eq(x, cr_scalar(0)), cr_scalar(N < 3 ? 0.1 : 0))), w = cr_to(x, dt, test_ref());
        cr_generator_free(g);
        cr_tensor *y = cr_empty(CR_LIST(M, samples), CR_I64, dev),
                  *t = cr_empty(CR_LIST(M, samples), CR_I64, test_ref());
        OK(dev->kernels->multinomial(&(cr_multinomial_args){y->array, x->array, k % 2, test_seed(), counter}));
        OK(test_ref()->kernels->multinomial(&(cr_multinomial_args){t->array, w->array, k % 2, test_seed(), counter}));
        check_same("multinomial", k % 2 ? "with replacement" : "without", y, t, dev);
        cr_scope_end();
    }
}

TEST(random_bits) {
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 17, 257, 4099, 40009};
    static const uint64_t counters[] = {0, 5, 0xfffffffeu, 0xffffffffffffffffu};
    for (int d = 0; test_device(d); d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int c = 0; c < 4; c++) {
                if (!test_takes(test_device(d), (int64_t)s + c, 4)) continue;
                for (int dt = CR_F16; dt <= CR_F64; dt++) {
                    if (!test_offers(test_device(d), (cr_dtype)dt)) continue;
                    check_random(CR_RANDOM_UNIFORM, (cr_dtype)dt, sizes[s], counters[c], test_device(d));
                    check_random(CR_RANDOM_NORMAL, (cr_dtype)dt, sizes[s], counters[c], test_device(d));
                }
                check_integers(CR_U64, 0, 0, sizes[s], counters[c], test_device(d));
                check_integers(CR_I64, INT64_MIN, UINT64_MAX, sizes[s], counters[c], test_device(d));
                check_integers(CR_I8, -128, 256, sizes[s], counters[c], test_device(d));
                check_integers(CR_BF16, 0, 257, sizes[s], counters[c], test_device(d));
                check_permutation(sizes[s], counters[c], test_device(d));
                check_multinomial(sizes[s] % 300 + 1, sizes[s] / 3 + 1, counters[c], test_device(d));
            }
}

/* The public functions take the same numbers from a generator whatever the device, one after another. */
TEST(random_functions) {
    for (int d = 0; test_device(d); d++) {
        data got[8];
        uint64_t counters[2];
        cr_scope_begin();
        for (int pass = 0; pass < 2; pass++) {
            const cr_device *dev = pass ? test_ref() : test_device(d);
            cr_generator *g = cr_generator_new(test_seed());
            got[4 * pass] = data_of(cr_rand(CR_LIST(3, 7), CR_F32, dev, g));
            got[4 * pass + 1] = data_of(cr_randint(-5, 1000003, CR_LIST(11), CR_I64, dev, g));
            got[4 * pass + 2] = data_of(cr_bernoulli(0.3, CR_LIST(501), CR_F32, dev, g));
            got[4 * pass + 3] = data_of(
                cr_rand(CR_LIST(5), test_offers(test_device(d), CR_F64) ? CR_F64 : CR_BF16, dev, g));
            cr_generator_get(g, NULL, &counters[pass]);
            cr_generator_free(g);
        }
        now.op = "rand, randint, bernoulli, rand", now.what = "", now.device = cr_device_name(test_device(d));
        CHECK(counters[0] == counters[1], "%s: the generator stands at %llu, on ref at %llu", now.device,
              (unsigned long long)counters[0], (unsigned long long)counters[1]);
        for (int k = 0; k < 4; k++) {
            for (int64_t i = 0; i < got[k].numel; i++)
                if (data_f64(&got[k], i) != data_f64(&got[4 + k], i)) {
                    complain("element", &got[k], i, data_f64(&got[k], i), data_f64(&got[4 + k], i), 0);
                    break;
                }
            data_free(&got[k]), data_free(&got[4 + k]);
        }
        test_ran_on(test_device(d));
        cr_scope_end();
    }
}

/* ---- tensors made from numbers */
static void check_made(const char *name, const cr_tensor *t, double (*f)(int64_t i), const cr_device *dev) {
    now.op = name, now.what = "", now.layout = 0, now.device = cr_device_name(dev);
    REQUIRE(t, "%s on %s: %s", name, now.device, cr_error());
    data got = data_of(t), want = data_new(CR_F64, got.ndim, got.shape);
    now.dtype = got.dtype;
    data exact = data_as(&want, got.dtype);
    for (int64_t i = 0; i < got.numel; i++)
        cr_store_f64(data_at(&want, i), CR_F64, f(i)), cr_store_f64(data_at(&exact, i), got.dtype, f(i));
    if (compare("value", &got, cr_dtype_is_float(got.dtype) ? &want : &exact, 1, 0)) test_ran_on(dev);
    data_free(&got), data_free(&want), data_free(&exact);
}
static double is_zero(int64_t i) { (void)i; return 0; }
static double is_one(int64_t i) { (void)i; return 1; }
static double is_seven(int64_t i) { (void)i; return 7; }
static double is_range(int64_t i) { return 2 + 3 * (double)i; }
static double is_linspace(int64_t i) { return -1 + (double)i * 0.5; }
static double is_eye(int64_t i) { return i / 5 == i % 5; }

TEST(made) {
    for (int d = 0; test_device(d); d++)
        for (int k = 0; k < CR_DTYPES; k++) {
            const cr_device *dev = test_device(d);
            cr_dtype dt = (cr_dtype)k;
            long alive = guard_start();
            cr_scope_begin();
            check_made("zeros", cr_zeros(CR_LIST(3, 5), dt, dev), is_zero, dev);
            check_made("ones", cr_ones(CR_LIST(131), dt, dev), is_one, dev);
            check_made("ones_like", cr_ones_like(cr_zeros(CR_LIST(3, 0), dt, dev)), is_one, dev);
            check_made("full", cr_full(CR_ALL, 7, dt, dev), dt == CR_BOOL ? is_one : is_seven, dev);
            if (dt != CR_BOOL) check_made("arange", cr_arange(2, 60, 3, dt, dev), is_range, dev);
            if (cr_dtype_is_float(dt)) check_made("linspace", cr_linspace(-1, 2, 7, dt, dev), is_linspace, dev);
            check_made("eye", cr_eye(3, 5, dt, dev), is_eye, dev);
            cr_scope_end();
            guard_end(alive);
        }
}

/* ---- indices out of range: which one, where, and what would do */
TEST(bad_indices) {
    for (int d = 0; test_device(d); d++) {
        const cr_device *dev = test_device(d);
        long alive = guard_start();
        cr_scope_begin();
        cr_tensor *x = cr_ones(CR_LIST(5, 3), CR_F32, dev), *src = cr_ones(CR_LIST(2, 3), CR_F32, dev);
        cr_tensor *high = cr_from((int64_t[]){0, 1, 2, 4, 5, 0}, CR_LIST(2, 3), CR_I64, dev),
                  *low = cr_from((int32_t[]){0, -1, 9, 0, 0, 0}, CR_LIST(2, 3), CR_I32, dev);
        FAILS(CR_BAD_INDEX, "[gather] index 5 at position 4 is out of range for size 5",
              (cr_gather(x, 0, high), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[gather] index -1 at position 1 is out of range for size 5",
              (cr_gather(x, 0, low), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[scatter_add] index 5 at position 4 is out of range for size 5",
              (cr_scatter_add(x, 0, high, src), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[embedding] index 5 at position 4 is out of range for size 5",
              (cr_embedding(x, high), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[embedding] index -1 at position 1 is out of range for size 5",
              (cr_embedding(x, low), cr_synchronize(dev)));
        cr_tensor *deep = cr_from((int64_t[]){0, -5, 4, -6, 0}, CR_LIST(5), CR_I64, dev),
                  *zero = cr_zeros(CR_LIST(5), CR_I64, dev);
        const cr_tensor *key[] = {deep, zero}, *turned[] = {zero, deep};
        FAILS(CR_BAD_INDEX, "[scatter] index 5 at position 4 is out of range for size 5",
              (cr_scatter_(x, 0, high, src), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[index_select] index -5 at position 1 is out of range for size 5",
              (cr_index_select(x, 0, deep), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[take] index -6 at position 3 is out of range for size 5",
              (cr_take(cr_ones(CR_LIST(5), CR_F32, dev), deep), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[index] index -6 at position 3 is out of range for size 5",
              (cr_index_get(x, 2, key), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[index] index -5 at position 1 is out of range for size 3",
              (cr_index_get(x, 2, turned), cr_synchronize(dev)));
        FAILS(CR_BAD_INDEX, "[index_put_] index -6 at position 3 is out of range for size 5",
              (cr_index_put_(x, 1, key, cr_zeros(CR_ALL, CR_F32, dev), false), cr_synchronize(dev)));
        CHECK(cr_item(cr_min(x, CR_ALL, false)) == 1, "something was written");
        cr_tensor *target = cr_from((int64_t[]){0, 2, -100, 3, 1}, CR_LIST(5), CR_I64, dev);
        FAILS(CR_BAD_INDEX,
              dev->kernels->cross_entropy ? "[cross_entropy] index 3 at position 3 is out of range for size 3"
                                          : "index 3 at position 3 is out of range for size 3",
              (cr_cross_entropy(x, target, NULL), cr_synchronize(dev)));
        cr_scope_end();
        guard_end(alive);
        test_ran_on(dev);
    }
}

#if !defined CR_TEST_GPU && !defined CR_TEST_CUDA   /* which have no threads of ours */
/* ---- the same bits for any number of threads, and again from memory that was used before */
static cr_tensor *gelu_of(inputs in) { return cr_gelu(in[0]); }
static cr_tensor *add_turned(inputs in) { return cr_add(in[0], cr_transpose(in[1], 0, 1)); }
static cr_tensor *narrow(inputs in) {
    return cr_to(cr_to(in[0], CR_BF16, cr_device_of(in[0])), CR_F64, cr_device_of(in[0]));
}
static cr_tensor *random_of(inputs in) {
    cr_generator *g = cr_generator_new(5);
    cr_tensor *y = cr_mul(in[0], cr_randn(CR_LIST(700, 1031), CR_F32, cr_device_of(in[0]), g));
    cr_generator_free(g);
    return y;
}

static const op_case large_cases[] = {
    {"gelu", "", gelu_of, FLOATS, true, 1, {{SHAPE(300007)}}},
    {"add", "a transposed one", add_turned, FLOATS, true, 1, {{SHAPE(701, 503)}, {SHAPE(503, 701)}}},
    {"to", "and back", narrow, FLOATS, true, 1, {{SHAPE(300007)}}},
    {"randn", "", random_of, FLOATS, true, 1, {{SHAPE(700, 1031)}}},
    {"sum", "all", sum_all, FLOATS, true, 1, {{SHAPE(700, 1031)}}},
    {"sum", "axis 0", sum_0, FLOATS, true, 1, {{SHAPE(5003, 67)}}},
    {"sum", "last axis", sum_last, FLOATS, true, 1, {{SHAPE(301, 5003)}}},
    {"max", "all", max_all, FLOATS, true, 1, {{SHAPE(700, 1031)}}},
    {"argmax", "last axis", argmax_last, FLOATS, false, 1, {{SHAPE(301, 5003)}}},
    {"var", "last axis", var_last, FLOATS, true, 1, {{SHAPE(301, 1031)}}},
    {"logsumexp", "all", logsumexp_all, FLOATS, true, 1, {{SHAPE(300007)}}},
    {"sum", "axes 0 and 2", sum_0_2, FLOATS, true, 1, {{SHAPE(67, 101, 131)}}},
    {"std", "axes 0 and 2", std_0_2, FLOATS, true, 1, {{SHAPE(31, 101, 131)}}},
    {"norm", "3, axes 0 and 2", norm_3_0_2, FLOATS, true, 1, {{SHAPE(31, 101, 131)}}},
    {"norm", "1, last axis", norm_1_last, FLOATS, true, 1, {{SHAPE(3, 150011)}}},
    {"count_nonzero", "all", count_all, FLOATS, false, 1, {{SHAPE(300007), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"cumsum", "axis 0", cumsum_0, FLOATS, true, 1, {{SHAPE(5003, 67)}}},
    {"cumsum", "last axis", cumsum_last, FLOATS, true, 1, {{SHAPE(2, 150011)}}},
    {"cumprod", "axis 1", cumprod_1, FLOATS, true, 1, {{SHAPE(301, 1031), .lo = 0.99, .hi = 1.01}}},
    {"logcumsumexp", "last axis", logcumsumexp_last, FLOATS, true, 1, {{SHAPE(2, 150011)}}},
    {"contiguous", "transposed", contiguous, FLOATS, true, 1, {{SHAPE(701, 503)}}},
    {"matmul", "", matmul, FLOATS, true, 1, {{SHAPE(301, 257)}, {SHAPE(257, 311)}}},
    {"matmul", "both transposed", matmul_turned, FLOATS, true, 1, {{SHAPE(257, 301)}, {SHAPE(311, 257)}}},
    {"matmul", "batch", matmul, FLOATS, true, 1, {{SHAPE(5, 101, 67)}, {SHAPE(5, 67, 103)}}},
    {"linear", "gelu", linear_gelu, FLOATS, true, 1, {{SHAPE(211, 307)}, {SHAPE(401, 307)}, {SHAPE(401)}}},
    {"softmax", "", softmax_last, FLOATS, true, 1, {{SHAPE(301, 1031)}}},
    {"log_softmax", "", log_softmax_last, FLOATS, true, 1, {{SHAPE(301, 1031)}}},
    {"layer_norm", "", layer_norm, FLOATS, true, 1, {{SHAPE(2003, 131)}, {SHAPE(131)}, {SHAPE(131)}}},
    {"rms_norm", "", rms_norm, FLOATS, true, 1, {{SHAPE(2003, 131)}, {SHAPE(131)}}},
    {"sort", "one long row", sort_last, FLOATS, true, 1, {{SHAPE(300007)}}},
    {"sort", "many rows", sort_0_down, FLOATS, true, 1, {{SHAPE(307, 211)}}},
    {"topk", "one long row", topk_last, FLOATS, true, 1, {{SHAPE(300007)}}},
    {"median", "one long row", median_all, FLOATS, true, 1, {{SHAPE(300007)}}},
    {"cross_entropy",
     "",
     cross_entropy,
     FLOATS,
     true,
     1,
     {{SHAPE(301, 1031)}, {SHAPE(301), .fill = INDEX, .hi = 1031}}},
    {"embedding", "", embedding, FLOATS, true, 1, {{SHAPE(101, 67)}, {SHAPE(5003), .fill = INDEX, .hi = 101}}},
    {"scatter_add",
     "axis 0",
     scatter_add_0,
     FLOATS,
     true,
     1,
     {{SHAPE(101, 67)}, {SHAPE(3001, 67), .fill = INDEX, .hi = 101}, {SHAPE(3001, 67)}}},
    {"index_add",
     "axis 0",
     index_add_0,
     FLOATS,
     true,
     1,
     {{SHAPE(1031)}, {SHAPE(200003), .fill = INDEX, .hi = 1031}, {SHAPE(200003)}}},
    {"index_put",
     "added",
     put_added,
     FLOATS,
     true,
     1,
     {{SHAPE(61, 1031)}, {SHAPE(2, 200003), .fill = INDEX, .lo = -61, .hi = 61}, {SHAPE(200003)}}},
    {"index_get",
     "mask of two axes",
     get_mask,
     FLOATS,
     true,
     1,
     {{SHAPE(2, 211, 307, 3)}, {SHAPE(211, 307), .fill = MASK}}},
    {"attention",
     "causal",
     attention_causal,
     FLOATS,
     true,
     1,
     {{SHAPE(2, 3, 203, 32)}, {SHAPE(2, 3, 203, 32)}, {SHAPE(2, 3, 203, 32)}}},
    {"attention",
     "added mask",
     attention_mask_causal,
     FLOATS,
     true,
     1,
     {{SHAPE(2, 3, 203, 32)}, {SHAPE(2, 3, 203, 32)}, {SHAPE(3, 203, 203)}}},
    {"attention",
     "heads inside",
     attention_heads,
     FLOATS,
     true,
     1,
     {{SHAPE(2, 131, 3, 16)}, {SHAPE(2, 131, 3, 16)}, {SHAPE(2, 131, 3, 16)}}},
};
enum { LARGE_CASES = sizeof large_cases / sizeof *large_cases };

/* The value and, for the rest of out[], the gradients of the inputs. */
static void run_large(const op_case *c, const data *in, const cr_device *dev, data out[4]) {
    cr_tensor *t[4];
    cr_scope_begin();
    for (int k = 0; k < case_inputs(c); k++) {
        t[k] = data_put(&in[k], DENSE, dev);
        if (c->smooth && cr_dtype_is_float(in[k].dtype)) cr_requires_grad_(t[k], true);
    }
    cr_tensor *y = c->run((const cr_tensor *const *)t);
    REQUIRE(y, "%s: %s", c->op, cr_error());
    out[0] = data_of(y);
    if (c->smooth) OK(cr_backward(y, cr_mul(y, y), NULL));
    for (int k = 0; k < 3; k++) {
        bool has = c->smooth && k < case_inputs(c) && cr_dtype_is_float(in[k].dtype);
        out[k + 1] = has ? data_of(cr_grad(t[k])) : data_new(CR_BOOL, 0, NULL);
    }
    cr_scope_end();
}

static void check_threads(const op_case *c, cr_dtype dt, const cr_device *dev) {
    static const int threads[] = {1, 2, 5, 2};
    static const char *const parts[] = {"value", "gradient of input 0", "gradient of input 1", "gradient of input 2"};
    stream r = stream_of(c->op, 77);
    data in[4] = {{0}}, first[4], again[4];
    for (int k = 0; k < case_inputs(c); k++) in[k] = data_fill(&c->in[k], dt, &r);
    for (int n = 0; n < 4; n++) {
        OK(cr_set_num_threads(threads[n]));
        run_large(c, in, dev, n ? again : first);
        for (int k = 0; n && k < 4; k++) {
            int64_t bytes = again[k].numel * (int64_t)cr_dtype_size(again[k].dtype), at = 0;
            while (at < bytes && again[k].bytes[at] == first[k].bytes[at]) at++;
            CHECK(at == bytes, "%s [%s] %s %s: %d threads give other bits than 1 on %s, byte %lld of %lld", c->op,
                  c->what, cr_dtype_name(dt), parts[k], threads[n], cr_device_name(dev), (long long)at,
                  (long long)bytes);
            data_free(&again[k]);
        }
    }
    for (int k = 0; k < 4; k++) data_free(&first[k]), data_free(&in[k]);
    test_ran_on(dev);
}

TEST(threads) {
    int before = cr_num_threads();
    for (int d = 0; cr_device_at(d); d++) {
        if (cr_device_at(d) == cr_ref()) continue;  /* it has one thread, and would take minutes */
        for (int k = 0; k < LARGE_CASES; k++) {
            check_threads(&large_cases[k], CR_F32, cr_device_at(d));
            if (test_full() || k % 3 == 0) check_threads(&large_cases[k], CR_BF16, cr_device_at(d));
        }
    }
    OK(cr_set_num_threads(before));
}
#endif

#if !defined CR_TEST_CUDA && !defined CR_TEST_GPU
TEST(every_kernel_ran) {
    const long idle = idle_kernels(false);
    if (!cpu_ran_elementwise || !cpu_ran_sort || getenv("CHAINRULE_TEST_OPS"))
        SKIP("only some of the tests that run kernels ran");
    CHECK(!idle, "%ld kernels", idle);
}
#endif
