/* test_program.c - elementwise programs without a device: an interpreter in double runs every row of
 * ops.def and its gradients against PyTorch's answers and against central differences, first and
 * higher orders; the parser; promotion; the walk. */
#include "test.h"
#include "golden/elementwise.h"
#include "ops/elementwise_tests.gen.h"
#include "ops/walk.h"

/* ---- the interpreter: rounded to f32 after every step where asked, to see overflow as a device would */
static const uint8_t arity[CR_OP_COUNT] = CR_OPCODE_ARITY;
static const char *const names[CR_OP_COUNT] = CR_OPCODE_NAMES;
enum { MOST_VALUES = 4096 };

static double rem_(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* The floor of the exact quotient, as PyTorch and Python have it: -1 // inf is -1. */
static double floor_div(double a, double b) {
    if (b == 0) return a / b;
    double r = fmod(a, b), q = (a - r) / b - (r != 0 && (r < 0) != (b < 0)), floored = floor(q);
    return q - floored > 0.5 ? floored + 1 : floored;
}

static double step(int op, double a, double b, double c) {
    switch (op) {
        case CR_OP_ADD: return a + b;
        case CR_OP_SUB: return a - b;
        case CR_OP_MUL: return a * b;
        case CR_OP_DIV: return a / b;
        case CR_OP_NEG: return -a;
        case CR_OP_ABS: return fabs(a);
        case CR_OP_SIGN: return (a > 0) - (a < 0);
        case CR_OP_COPYSIGN: return copysign(a, b);
        case CR_OP_MAX: return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
        case CR_OP_MIN: return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
        case CR_OP_POW: return pow(a, b);
        case CR_OP_FMOD: return fmod(a, b);
        case CR_OP_REM: return rem_(a, b);
        case CR_OP_FDIV: return floor_div(a, b);
        case CR_OP_TDIV: return trunc(a / b);
        case CR_OP_EXP: return exp(a);
        case CR_OP_EXP2: return exp2(a);
        case CR_OP_EXPM1: return expm1(a);
        case CR_OP_LOG: return log(a);
        case CR_OP_LOG2: return log2(a);
        case CR_OP_LOG10: return log10(a);
        case CR_OP_LOG1P: return log1p(a);
        case CR_OP_SQRT: return sqrt(a);
        case CR_OP_RSQRT: return 1 / sqrt(a);
        case CR_OP_SIN: return sin(a);
        case CR_OP_COS: return cos(a);
        case CR_OP_TAN: return tan(a);
        case CR_OP_ASIN: return asin(a);
        case CR_OP_ACOS: return acos(a);
        case CR_OP_ATAN: return atan(a);
        case CR_OP_ATAN2: return atan2(a, b);
        case CR_OP_SINH: return sinh(a);
        case CR_OP_COSH: return cosh(a);
        case CR_OP_TANH: return tanh(a);
        case CR_OP_ASINH: return asinh(a);
        case CR_OP_ACOSH: return acosh(a);
        case CR_OP_ATANH: return atanh(a);
        case CR_OP_ERF: return erf(a);
        case CR_OP_ERFC: return erfc(a);
        case CR_OP_SIGMOID: return 1 / (1 + exp(-a));
        case CR_OP_FLOOR: return floor(a);
        case CR_OP_CEIL: return ceil(a);
        case CR_OP_ROUND: return rint(a);
        case CR_OP_TRUNC: return trunc(a);
        case CR_OP_ISNAN: return isnan(a) != 0;
        case CR_OP_ISINF: return isinf(a) != 0;
        case CR_OP_EQ: return a == b;
        case CR_OP_NE: return a != b;
        case CR_OP_LT: return a < b;
        case CR_OP_LE: return a <= b;
        case CR_OP_GT: return a > b;
        case CR_OP_GE: return a >= b;
        case CR_OP_SEL: return a != 0 ? b : c;
        default: return NAN;                        /* bits */
    }
}

static double run_as(bool f32, const cr_program *p, const double *in, const double *params) {
    static double v[MOST_VALUES];
    int n = 0;
    for (int i = 0; i < p->n_in; i++) v[n++] = in[i];
    for (int i = 0; i < p->n_param; i++) v[n++] = params[i];
    for (int i = 0; i < p->n_const; i++) v[n++] = p->consts[i];
    for (int i = 0; i < n && f32; i++) v[i] = (double)(float)v[i];
    for (int i = 0; i < p->n_instr; i++) {
        const cr_instr *s = &p->instr[i];
        double y = step(s->op, v[s->a], s->b < 0 ? 0 : v[s->b], s->c < 0 ? 0 : v[s->c]);
        v[n++] = f32 ? (double)(float)y : y;
    }
    return v[p->out[0]];
}
static double run(const cr_program *p, const double *in, const double *params) { return run_as(false, p, in, params); }

/* A gradient program on the values it names. */
static double run_gradient(bool f32, const cr_gradient *d, int n_in, const double *in, const double *params, double y,
                           double g) {
    double args[CR_MAX_INPUTS + 2];
    for (int j = 0; j < d->n; j++) args[j] = d->from[j] < n_in ? in[d->from[j]] : d->from[j] == n_in ? y : g;
    return run_as(f32, d->program, args, params);
}

static uint64_t state;
static double uniform(double low, double high) {     /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u, z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return low + (high - low) * (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}
static int below(int n) { return (int)uniform(0, n); }

static bool close_to(double a, double b, double tolerance) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* ---- the table */
static void check_program(const cr_program *p) {
    int n = p->n_in + p->n_param + p->n_const;
    CHECK(p->n_in >= 1 && p->n_in <= CR_MAX_INPUTS, "%s: %d inputs", p->name, p->n_in);
    for (int i = 0; i < p->n_instr; i++, n++) {
        const cr_instr *s = &p->instr[i];
        REQUIRE(s->op < CR_OP_COUNT, "%s: opcode %d", p->name, s->op);
        int k = arity[s->op];
        CHECK(s->a >= 0 && s->a < n && (k > 1 ? s->b >= 0 && s->b < n : s->b == -1) &&
                  (k > 2 ? s->c >= 0 && s->c < n : s->c == -1),
              "%s: operands of instruction %d (%s)", p->name, i, names[s->op]);
    }
    for (int i = 0; i < p->n_out; i++) CHECK(p->out[i] >= 0 && p->out[i] < n, "%s: result %d", p->name, i);
}

TEST(rows_are_well_formed) {
    CHECK(cr_program_count() == CR_ROW_COUNT && !cr_program_at(-1) && !cr_program_at(CR_ROW_COUNT), "count");
    FAILS(CR_BAD_VALUE, "named 'tan?'", cr_program_find("tan?"));
    FAILS(CR_BAD_VALUE, "named ''", cr_program_find(""));
    FAILS(CR_BAD_VALUE, "is NULL", cr_program_find(NULL));
    for (int i = 0; i < CR_UPDATE_COUNT; i++) {
        check_program(&cr_updates[i]);
        CHECK(cr_program_find(cr_updates[i].name) == &cr_updates[i], "%s by name", cr_updates[i].name);
        int results, params;
        CHECK(cr_program_inputs(&cr_updates[i], &results, &params) == cr_updates[i].n_in &&
                  results == cr_updates[i].n_out && params == cr_updates[i].n_param,
              "what %s takes and gives", cr_updates[i].name);
    }
    CHECK(cr_program_inputs(cr_program_find("add"), NULL, NULL) == 2, "the inputs alone");
    FAILS(CR_BAD_VALUE, "is NULL", cr_program_inputs(NULL, NULL, NULL));
    const char *const options[] = {"scale", "weight_decay", "lr", "eps"};
    const double values[] = {2, 0.5, 0.1, 3};
    double params[8] = {0};
    OK(cr_program_params(cr_program_find("sgd"), 4, options, values, params));
    CHECK(params[0] == 0.1 && params[1] == 0.5 && params[2] == 2, "sgd: %g %g %g", params[0], params[1], params[2]);
    OK(cr_program_params(cr_program_find("sgd_copy"), 4, options, values, params));
    FAILS(CR_BAD_VALUE, "'lion' needs the option 'beta1'",
          cr_program_params(cr_program_find("lion"), 4, options, values, params));
    FAILS(CR_BAD_VALUE, "'add' is not an update",
          cr_program_params(cr_program_find("add"), 4, options, values, params));
    FAILS(CR_BAD_VALUE, "NULL", cr_program_params(NULL, 4, options, values, params));
    FAILS(CR_BAD_VALUE, "NULL", cr_program_params(cr_program_find("sgd"), 4, options, values, NULL));
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const cr_program *p = cr_program_at(i);
        const elementwise_test *t = &elementwise_tests[i];
        CHECK(cr_program_find(p->name) == p && !strcmp(t->name, p->name) && (int)t->row == i, "%s by name", p->name);
        CHECK(t->n_in == p->n_in && t->n_param == p->n_param && (p->differentiable || !t->differentiable),
              "%s in the test table", p->name);
        check_program(p);
        const cr_gradient *d = atomic_load(&p->grad);
        CHECK(!d == !p->differentiable, "%s: gradients and the flag disagree", p->name);
        for (int k = 0; d && k < p->n_in; k++)
            if (d[k].program) {
                check_program(d[k].program);
                CHECK(d[k].n == d[k].program->n_in && d[k].program->n_param == p->n_param,
                      "%s: gradient %d takes other values", p->name, k);
            }
    }
    for (int op = 0; op < CR_OP_COUNT; op++) {
        if (cr_opcode_row[op] < 0) continue;        /* only programs of plans have it */
        const cr_program *p = &cr_rows[cr_opcode_row[op]];
        CHECK(p->n_instr == 1 && p->instr[0].op == op && p->n_in == arity[op] && !p->n_param, "row of %s is %s",
              names[op], p->name);
    }
}

/* ---- PyTorch's answers */

/* f32 must be finite and a number where PyTorch's f64 is (and fits), so that formulas are stable. */
static void check_golden(const char *name, const double *params, int n_in, int columns, int points, const double *in,
                         const double *y, int *seen) {
    const cr_program *p = cr_program_find(name);
    REQUIRE(p, "PyTorch's %s is not in ops.def", name);
    *seen += 1;
    CHECK(columns == (p->differentiable ? 1 + n_in : 1), "%s: PyTorch has %d derivatives", name, columns - 1);
    const cr_gradient *d = atomic_load(&p->grad);
    for (int i = 0; i < points; i++) {
        double x[3], want[4] = {0};
        for (int k = 0; k < n_in; k++) x[k] = in[k * points + i];
        for (int k = 0; k < columns; k++) want[k] = y[k * points + i];
        for (int k = 0; k < columns; k++) {
            /* PyTorch's composite gives NaN, ours the limit 0 */
            if (k && isinf(x[0]) && !strcmp(name, "softsign")) continue;
            /* a large number at a pole, where sin(pi x) is not 0; ours infinity */
            if (k && x[0] < 0 && x[0] == rint(x[0]) && !strcmp(name, "digamma")) continue;
            if (k && x[0] == 1e-8 && !strcmp(name, "sinc")) continue;           /* PyTorch's cancels near 0 */
            if (k && fabs(x[0]) == 1e4 && !strcmp(name, "i1")) continue;        /* PyTorch's is inf - inf */
            if (k && isnan(x[0]) && !strncmp(name, "i1", 2)) continue;  /* PyTorch's derivative is 0.5 */
            if (k && isinf(x[0]) && (!strcmp(name, "log_ndtr") || !strcmp(name, "erfcx") || !strcmp(name, "gelu_tanh")))
                continue;                                                       /* PyTorch's is NaN, ours the limit */
            if (k && !d[k - 1].program) {
                CHECK(want[k] == 0, "%s: PyTorch has a gradient of input %d", name, k - 1);
                continue;
            }
            for (int f32 = 0; f32 < 2; f32++) {
                double got = k ? run_gradient(f32, &d[k - 1], n_in, x, params, want[0], 1) : run_as(f32, p, x, params);
                /* PyTorch's hardsigmoid has 1/6 in f32 */
                bool ok = f32 ? isnan(got) == isnan(want[k]) && (!isinf(got) || !(fabs(want[k]) < 1e38))
                              : close_to(got, want[k], 1e-8);
                CHECK(ok, "%s(%g, %g, %g)%s%s%d: %.17g, PyTorch %.17g", name, x[0], n_in > 1 ? x[1] : 0,
                      n_in > 2 ? x[2] : 0, f32 ? " in f32" : "", k ? " derivative " : " value ", k, got, want[k]);
            }
        }
    }
}

TEST(values_and_gradients_are_pytorchs) {
    int seen = 0;
#define ALL(golden, in) \
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) \
        check_golden(golden[i].name, golden[i].params, (int)(sizeof in / sizeof *in), golden[i].columns, \
            (int)(sizeof *in / sizeof **in), \
                     &in[0][0], &golden[i].y[0][0], &seen)
    ALL(golden_unary, unary_in);
    ALL(golden_binary, binary_in);
    ALL(golden_ternary, ternary_in);
    for (int i = 0; i < CR_ROW_COUNT; i++)          /* zeta: test_special.py compares it with SciPy */
        seen += cr_rows[i].rule == CR_RULE_BITS || !strcmp(cr_rows[i].name, "zeta");
    CHECK(seen == CR_ROW_COUNT, "%d rows of %d compared", seen, CR_ROW_COUNT);
}

/* ---- derivatives by central differences */

static double slope(const cr_program *p, double *in, int k, const double *params) {
    double x = in[k], h = 2e-6 * (1 + fabs(x));
    in[k] = x + h;
    double up = run(p, in, params);
    in[k] = x - h;
    double down = run(p, in, params);
    in[k] = x;
    return (up - down) / (2 * h);
}

/* All gradients of p at one point, then theirs, to the given order.  discrete: bit i set where input i
 * is a condition. */
static void check_orders(const cr_program *p, const double *in, unsigned discrete, const double *params, int order,
                         int *checks) {
    const cr_gradient *d = cr_program_gradient(p);
    REQUIRE(d, "%s: %s", p->name, cr_error());
    double x[CR_MAX_INPUTS + 2], y = run(p, in, params), g = uniform(0.5, 1.5);
    memcpy(x, in, sizeof *x * (size_t)p->n_in);
    for (int k = 0; k < p->n_in; k++) {
        if (discrete >> k & 1) continue;
        double want = g * slope(p, x, k, params),
               got = d[k].program ? run_gradient(false, &d[k], p->n_in, x, params, y, g) : 0;
        CHECK(close_to(got, want, 2e-5), "%s, order %d, input %d at (%.9g, %.9g, %.9g): %.9g, by differences %.9g",
              p->name, order, k, x[0], p->n_in > 1 ? x[1] : 0, p->n_in > 2 ? x[2] : 0, got, want);
        ++*checks;
        if (!d[k].program || order == 1) continue;
        double next[CR_MAX_INPUTS + 2];
        unsigned next_discrete = 0;
        for (int j = 0; j < d[k].n; j++) {
            int from = d[k].from[j];
            /* relu's gradient jumps at y = 0 */
            next[j] = from < p->n_in ? x[from] : from == p->n_in ? (y == 0 ? -0.5 : y) : g;
            if (from < p->n_in && discrete >> from & 1) next_discrete |= 1u << j;
        }
        check_orders(d[k].program, next, next_discrete, params, order - 1, checks);
    }
}

static void random_inputs(const elementwise_test *t, double *in, double *params, unsigned *discrete) {
    *discrete = t->rule == CR_RULE_WHERE;
    for (int i = 0; i < t->n_in; i++) in[i] = *discrete >> i & 1 ? below(2) : uniform(t->low, t->high);
    bool other = below(2);                           /* PyTorch's defaults, and values that no formula holds by
                                                      * chance */
    for (int i = 0; i < t->n_param; i++)
        params[i] = other ? 1.3 * t->params[i] + 0.07 * (t->params[i] > 0) : t->params[i];
}

TEST(derivatives_by_differences) {
    state = test_seed();
    int points = test_full() ? 400 : 60, checks = 0;
    for (int i = 0; i < CR_ROW_COUNT; i++)
        for (int k = 0; k < points && elementwise_tests[i].differentiable; k++) {
            double in[3], params[3] = {0};
            unsigned discrete;
            random_inputs(&elementwise_tests[i], in, params, &discrete);
            check_orders(&cr_rows[i], in, discrete, params, k < points / 6 ? 3 : 2, &checks);
        }
    CHECK(checks > 70 * points, "only %d derivatives", checks);
}

/* The gradient that derive.c derives from a value's formula must equal the gradient in ops.def. */
TEST(derived_gradients_are_the_rows) {
    state = test_seed() + 1;
    for (int i = 0; i < CR_ROW_COUNT; i++) {
        const elementwise_test *t = &elementwise_tests[i];
        if (!t->differentiable || t->rule == CR_RULE_BITS) continue;
        char body[128], inputs[] = "a b c", params[] = "p q r";
        static const char *const lists[3][4] = {
            {"a", "a, p", "a, p, q", "a, p, q, r"}, {"a, b", "a, b, p"}, {"a, b, c", "a, b, c, p"}};
        inputs[2 * t->n_in - 1] = 0;
        params[t->n_param ? 2 * t->n_param - 1 : 0] = 0;
        snprintf(body, sizeof body, "y = %s(%s); y", t->name, lists[t->n_in - 1][t->n_param]);
        cr_program *p = cr_program_new("again", inputs, params, body);
        REQUIRE(p, "%s", cr_error());
        check_program(p);
        const cr_gradient *d = cr_program_gradient(p), *row = cr_program_gradient(&cr_rows[i]);
        for (int k = 0; k < 50; k++) {
            double in[3], values[3];
            unsigned discrete;
            random_inputs(t, in, values, &discrete);
            double y = run(p, in, values), g = uniform(-2, 2);
            CHECK(y == run(&cr_rows[i], in, values), "%s: the program of the same name gives %g", t->name, y);
            for (int j = 0; j < t->n_in; j++) {
                CHECK(!d[j].program == !row[j].program, "%s: input %d", t->name, j);
                if (!d[j].program || !row[j].program) continue;
                double a = run_gradient(false, &d[j], t->n_in, in, values, y, g),
                       b = run_gradient(false, &row[j], t->n_in, in, values, y, g);
                CHECK(close_to(a, b, 1e-9), "%s at (%g, %g), input %d: derived %.17g, ops.def %.17g", t->name, in[0],
                      in[1], j, a, b);
            }
        }
        cr_program_free(p);
    }
}

/* ---- the parser */
static const struct { const char *inputs, *params, *body; double in[3], p[2], want; } good[] = {
    {"x", "", "x", {3}, {0}, 3},
    {"a b", "", "y = a * sigmoid(a) * b; y", {0, 5}, {0}, 0},
    {"a b", "", "  a+b*2 ;", {1, 3}, {0}, 7},
    {"a b", "", "(a + b) * 2", {1, 3}, {0}, 8},
    {"a b c", "", "a - b - c", {10, 3, 2}, {0}, 5},
    {"a b c", "", "a / b / c", {12, 3, 2}, {0}, 2},
    {"a b c", "", "a ** b ** c", {2, 3, 2}, {0}, 512},
    {"x", "", "-x ** 2", {3}, {0}, -9},
    {"x", "", "2 ** -x", {1}, {0}, 0.5},
    {"x", "", "- - x", {3}, {0}, 3},
    {"x", "", "x ** 3 + x ** 0.5 + x ** -1 + x ** 1", {4}, {0}, 70.25},
    {"x", "lr beta", "m = beta * x; x - lr * m", {2}, {0.5, 3}, -1},
    {"a b", "", "where(a < b, a, b)", {2, 1}, {0}, 1},
    {"a b", "", "(a <= b) + (a >= b) + (a == b) + (a != b) + (a > b) + (a < b)", {2, 2}, {0}, 3},
    {"a b", "", "min(a, b) * 10 + max(a, b)", {3, 2}, {0}, 23},
    {"x", "", "leaky_relu(x, 0.1)", {-3}, {0}, -0.1 * 3},
    {"x", "s", "leaky_relu(x, s * 2)", {-3}, {0.25}, -1.5},
    {"x", "", "clamp(x, -1, 1) + lerp(x, 2, 0.25)", {5}, {0}, 1 + 5 - 0.75},
    {"x", "", "x * 1e2 + .5 + 2.E-1 + 1e+1", {1}, {0}, 110.7},
    {"exp", "", "exp(exp)", {0}, {0}, 1},
    {"x_1 _y", "", "\tx_1\n-\r_y", {5, 3}, {0}, 2},
    {"x", "", "isnan(x) + isfinite(x)", {1}, {0}, 1},
    {"x", "", "1 - (2 - (3 - (4 - x)))", {7}, {0}, 5},
    {"x", "", "0 * x + 4 * 2 - 6 / 3", {7}, {0}, 6},
};

TEST(parser_good) {
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_program *p = cr_program_new("f", good[i].inputs, good[i].params, good[i].body);
        CHECK(p, "'%s': %s", good[i].body, cr_error());
        if (!p) { cr_error_clear(); continue; }
        check_program(p);
        double got = run(p, good[i].in, good[i].p);
        CHECK(close_to(got, good[i].want, 1e-12), "'%s' is %.17g, wanted %.17g", good[i].body, got, good[i].want);
        cr_program_free(p);
    }
}

static const struct { const char *name, *inputs, *params, *body, *message;
} bad[] = {
    {"f", "x", "", "", "no result at character 1"},
    {"f", "x", "", "   ", "no result"},
    {"f", "x", "", "y = x;", "no result at character 7"},
    {"f", "x", "", "y = x", "does not end at character 6"},
    {"f", "x", "", "x +", "ends early at character 4"},
    {"f", "x", "", "x + + x", "not a value at character 5"},
    {"f", "x", "", "(x", "parenthesis that does not end at character 3"},
    {"f", "x", "", "x)", "text after the results at character 2"},
    {"f", "x", "", "x x", "text after the results at character 3"},
    {"f", "x", "", "x; x", "text after the results"},
    {"f", "x", "", "z", "unknown name at character 1"},
    {"f", "x", "", "foo(x)", "unknown function at character 1"},
    {"f", "x", "", "softmax(x)", "unknown function"},
    {"f", "x", "", "bitwise_and(x, x)", "function on bits"},
    {"f", "x", "", "exp()", "not a value at character 5"},
    {"f", "x", "", "exp(x, x)", "too many arguments at character 1"},
    {"f", "x", "", "x + pow(x)", "too few arguments at character 5"},
    {"f", "x", "", "leaky_relu(x)", "too few arguments"},
    {"f", "x", "", "exp(x", "call that does not end"},
    {"f", "x", "", "x < x < x", "chain of comparisons"},
    {"f", "x", "", "x = 2; x", "name given twice at character 1"},
    {"f", "x", "", "y = x; y = x; y", "name given twice at character 8"},
    {"f", "x", "", "1.2.3 * x", "unexpected text after a number at character 4"},
    {"f", "x", "", "2x", "unexpected text after a number at character 2"},
    {"f", "x", "", "0x10 * x", "unexpected text after a number"},
    {"f", "x", "", ". * x", "not a number at character 1"},
    {"f", "x", "", "1e999999 * x", "exponent that is too long"},
    {"f", "x", "", "x + 1e309", "number out of range at character 5"},
    {"f", "x", "", "1111111111111111111111111111111111111111111111111111111111111111111111 * x",
     "number that is too long"},
    {"f", "x", "", "x $ x", "text after the results at character 3"},
    {"f", "x", "", "x * \xc3\xa9", "not a value at character 5"},
    {"f", "x", "", "x, x, x, x, x, x", "too many results"},
    {"f", "x", "", "x,", "ends early"},
    {"f", "x", "", "y = x, x; y", "does not end"},
    {"f", "x", "", "exp(inf)", "unknown name at character 5"},
    {"f", "", "", "1", "no inputs"},
    {"f", "  ", "", "1", "no inputs"},
    {"f", "a b a", "", "a", "name given twice at character 5"},
    {"f", "a", "a", "a", "name given twice at character 1"},
    {"f", "a,b", "", "a", "not a name at character 2"},
    {"f", "1a", "", "1", "not a name at character 1"},
    {"f", "a b c d e f g h i j k l m", "", "a", "too many at character 25"},
    {"f", "x", "a b c d e f g h i", "x", "too many at character 17"},
    {"", "x", "", "x", "'' is not a name"},
    {"a b", "x", "", "x", "'a b' is not a name"},
    {NULL, "x", "", "x", "name is NULL"},
    {"f", NULL, "", "x", "inputs is NULL"},
    {"f", "x", NULL, "x", "params is NULL"},
    {"f", "x", "", NULL, "body is NULL"},
};

TEST(parser_bad) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(CR_BAD_VALUE, bad[i].message, cr_program_new(bad[i].name, bad[i].inputs, bad[i].params, bad[i].body));
}

TEST(parser_limits) {
    static char text[400000];
    size_t n = 0;
    for (int i = 0; i < 99; i++) text[n++] = '(';
    text[n++] = 'x';
    for (int i = 0; i < 99; i++) text[n++] = ')';
    text[n] = 0;
    cr_program *p = cr_program_new("deep", "x", "", text);
    CHECK(p, "99 levels: %s", cr_error());
    cr_program_free(p);
    memset(text, '(', 100000);
    FAILS(CR_BAD_VALUE, "nested too deep", cr_program_new("deep", "x", "", text));
    memset(text, '-', 100000);
    FAILS(CR_BAD_VALUE, "nested too deep", cr_program_new("deep", "x", "", text));
    n = (size_t)sprintf(text, "x");
    for (int i = 0; i < 33000; i++) n += (size_t)sprintf(text + n, "*(x+%d)", i);
    FAILS(CR_BAD_VALUE, "more than 32767 values", cr_program_new("long_one", "x", "", text));
    n = (size_t)sprintf(text, "x");
    for (int i = 0; i < 1000; i++) n += (size_t)sprintf(text + n, "*(x+%d)", i);
    p = cr_program_new("long_one", "x", "", text);
    REQUIRE(p, "1000 terms: %s", cr_error());
    const cr_gradient *d = cr_program_gradient(p);
    CHECK(d && d[0].program, "its gradient: %s", cr_error());
    cr_program_free(p);
    /* twelve inputs leave no room for g in a gradient that reads them all */
    p = cr_program_new("wide", "a b c d e f g h i j k l", "", "exp(a*b*c*d*e*f*g*h*i*j*k*l)");
    REQUIRE(p, "%s", cr_error());
    FAILS(CR_BAD_VALUE, "13 inputs", cr_program_gradient(p));
    cr_program_free(p);
    p = cr_program_new("two", "a", "", "a, -a");
    REQUIRE(p && p->n_out == 2 && !p->differentiable, "two results: %s", cr_error());
    FAILS(CR_BAD_VALUE, "has 2 results", cr_program_gradient(p));
    FAILS(CR_BAD_VALUE, "has 2 results", cr_program_apply(p, 1, (const cr_tensor *const[]){CR_NONE}, NULL));
    FAILS(CR_BAD_VALUE, "takes 1 inputs, got 2",
          cr_program_apply(p, 2, (const cr_tensor *const[]){CR_NONE, CR_NONE}, NULL));
    FAILS(CR_BAD_VALUE, "is NULL", cr_program_apply(p, 1, NULL, NULL));
    FAILS(CR_BAD_VALUE, "is NULL", cr_program_apply(NULL, 1, NULL, NULL));
    cr_program_free(p);
    cr_program_free(NULL);
}

/* A program shares, folds and drops instructions, except where that would change NaN, -0 or infinity. */
TEST(parser_simplifies) {
    static const struct { const char *body; int instructions, constants;
    } programs[] = {{"exp(x) * exp(x)", 2, 0},
                    {"a = sin(x); b = cos(x); a", 1, 0},
                    {"x * 1 + x / 1", 1, 0},
                    {"-(-x)", 0, 0},
                    {"x - 0", 0, 0},
                    {"x + 0", 1, 1},
                    {"x * 0", 1, 1},
                    {"x - x", 1, 0},
                    {"2 * 3 * x", 1, 1},
                    {"x ** 2", 1, 0},
                    {"x ** 1", 0, 0},
                    {"where(x, 2, 2)", 0, 1},
                    {"gelu(x) + gelu(x)", 6, 2},
                    {"0 * x + -0 * x", 3, 2}};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        cr_program *p = cr_program_new("f", "x", "", programs[i].body);
        REQUIRE(p, "%s", cr_error());
        CHECK(p->n_instr == programs[i].instructions && p->n_const == programs[i].constants,
              "'%s': %d instructions, %d constants", programs[i].body, p->n_instr, p->n_const);
        cr_program_free(p);
    }
}

/* Random bytes, and random pieces of the language: a program or a message, never anything else. */
TEST(parser_fuzz) {
    static const char *const pieces[] = {
        "x",  "y", "z", "p",   " ",   ";",    "=",      "==",   "<",    ">=",   "(",    ")",    ",", "+", "-", "*",
        "**", "/", "1", "0.5", "2e3", "exp(", "where(", "pow(", "elu(", "max(", "t = ", "u = ", "t", "u", ".", "\n"};
    state = test_seed() + 2;
    int made = 0, rounds = test_full() ? 400000 : 40000;
    for (int i = 0; i < rounds; i++) {
        char text[300];
        int n = 0, length = below(i % 3 ? 24 : 60);
        for (int k = 0; k < length && n < 280; k++) {
            if (i % 3 == 0) text[n++] = (char)(1 + below(255));
            else n += sprintf(text + n, "%s", pieces[below((int)(sizeof pieces / sizeof *pieces))]);
        }
        text[n] = 0;
        cr_program *p = cr_program_new("f", "x y", "p", text);
        CHECK(!p == !!cr_error(), "'%s' gave %s", text, p ? "a program and an error" : "no program and no error");
        cr_error_clear();
        if (!p) continue;
        made++;
        check_program(p);
        const cr_gradient *d = p->n_out == 1 ? cr_program_gradient(p) : NULL;
        for (int k = 0; d && k < p->n_in; k++)
            if (d[k].program) {
                check_program(d[k].program);
                CHECK(cr_program_gradient(d[k].program), "second order of '%s': %s", text, cr_error());
            }
        cr_program_free(p);
    }
    CHECK(made > rounds / 200, "only %d programs of %d", made, rounds);
}

/* A gradient's programs live as long as somebody holds the program, and may be held by themselves. */
TEST(references) {
    cr_program *p = cr_program_new("held", "x", "", "tanh(x) * x");
    REQUIRE(p, "%s", cr_error());
    const cr_gradient *d = cr_program_gradient(p);
    REQUIRE(d && d == cr_program_gradient(p), "derived once");
    CHECK(!strcmp(d[0].program->name, "held_bwd"), "called %s", d[0].program->name);
    cr_program *inner = cr_program_retain(d[0].program);
    CHECK(cr_program_retain(p) == p, "retain gives the same");
    cr_program_free(p);
    cr_program_free(p);
    CHECK(run(inner, (const double[]){0.5, 2}, NULL) > 1, "the gradient outlives the program");
    const cr_gradient *second = cr_program_gradient(inner);
    CHECK(second && !strcmp(second[0].program->name, "held_bwd2"), "its own gradient");
    cr_program_free(inner);
    cr_program *row = cr_program_retain(&cr_rows[CR_ROW_TANH]);
    cr_program_free(row);
    cr_program_free(row);
    CHECK(row == cr_program_find("tanh") && run(row, (const double[]){0}, NULL) == 0, "rows stay");
}

/* ---- dtypes */
static cr_device fake_device = {.name = "fake", .type = "fake", .host = true};
static cr_tensor fake(cr_dtype dt, int ndim, uint16_t flags) {
    return (cr_tensor){.dtype = (uint8_t)dt,
                       .ndim = (uint8_t)ndim,
                       .flags = flags,
                       .dev = &fake_device,
                       .shape = {2, 3},
                       .strides = {3, 1},
                       .numel = ndim ? 6 : 1};
}

static int promoted(const cr_tensor *a, const cr_tensor *b) {
    cr_dtype compute, result;
    return cr_rule_dtypes(&cr_rows[CR_ROW_ADD], (const cr_tensor *const[]){a, b}, &compute, &result) == CR_OK
               ? (int)result
               : -1;
}

TEST(promotion_is_pytorchs) {
    for (int a = 0; a < CR_DTYPES; a++)
        for (int b = 0; b < CR_DTYPES; b++) {
            cr_dtype x = (cr_dtype)a, y = (cr_dtype)b;
            cr_tensor tx = fake(x, 1, 0), ty = fake(y, 1, 0), zero = fake(y, 0, 0),
                      number = fake(cr_dtype_is_float(y) ? CR_F64 : CR_I64, 0, CR_FLAG_WEAK);
            int want = golden_promote[a][b], want_0d = golden_promote_0d[a][b],
                want_number = golden_promote_number[a][b];
            CHECK(want < 0 || (int)cr_promote(x, y) == want, "%s and %s: %s", cr_dtype_name(x), cr_dtype_name(y),
                  cr_dtype_name(cr_promote(x, y)));
            CHECK(cr_promote(x, y) == cr_promote(y, x), "%s and %s: order matters", cr_dtype_name(x), cr_dtype_name(y));
            CHECK(want < 0 || promoted(&tx, &ty) == want, "tensors of %s and %s: %d", cr_dtype_name(x),
                  cr_dtype_name(y), promoted(&tx, &ty));
            CHECK(want_0d < 0 || promoted(&tx, &zero) == want_0d, "%s and 0-d %s: %d", cr_dtype_name(x),
                  cr_dtype_name(y), promoted(&tx, &zero));
            CHECK(want_0d < 0 || promoted(&zero, &tx) == want_0d, "0-d %s and %s: %d", cr_dtype_name(y),
                  cr_dtype_name(x), promoted(&zero, &tx));
            CHECK(promoted(&tx, &number) == want_number, "%s and a number of %s: %d", cr_dtype_name(x),
                  cr_dtype_name(y), promoted(&tx, &number));
        }
    cr_tensor real = fake(CR_F64, 0, CR_FLAG_WEAK), whole = fake(CR_I64, 0, CR_FLAG_WEAK), zero = fake(CR_F64, 0, 0);
    CHECK(promoted(&real, &whole) == CR_F32 && promoted(&whole, &whole) == CR_I64,
          "numbers alone are of the default dtypes");
    CHECK(promoted(&zero, &real) == CR_F64, "a number gives way to a 0-d tensor");
}

TEST(rules) {
    /* of one dtype throughout: compute and result, or what is refused */
    static const struct { cr_row row; cr_dtype in; int compute, result; const char *message;
    } cases[] = {
        {CR_ROW_EXP, CR_I64, CR_F32, CR_F32, ""},
        {CR_ROW_EXP, CR_BOOL, CR_F32, CR_F32, ""},
        {CR_ROW_EXP, CR_BF16, CR_F32, CR_BF16, ""},
        {CR_ROW_EXP, CR_F16, CR_F32, CR_F16, ""},
        {CR_ROW_EXP, CR_F64, CR_F64, CR_F64, ""},
        {CR_ROW_ADD, CR_BOOL, CR_BOOL, CR_BOOL, ""},
        {CR_ROW_ADD, CR_I16, CR_I16, CR_I16, ""},
        {CR_ROW_SUB, CR_U8, CR_U8, CR_U8, ""},
        {CR_ROW_SUB, CR_BOOL, -1, 0, "bool is not a number"},
        {CR_ROW_BITWISE_AND, CR_BOOL, CR_BOOL, CR_BOOL, ""},
        {CR_ROW_BITWISE_AND, CR_I32, CR_I32, CR_I32, ""},
        {CR_ROW_BITWISE_AND, CR_F32, -1, 0, "works on the bits"},
        {CR_ROW_LT, CR_I64, CR_I64, CR_BOOL, ""},
        {CR_ROW_LT, CR_BF16, CR_F32, CR_BOOL, ""},
        {CR_ROW_WHERE, CR_F32, -1, 0, "condition must be bool"},
        {CR_ROW_WHERE, CR_BOOL, CR_BOOL, CR_BOOL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_tensor t = fake(cases[i].in, 1, 0);
        cr_dtype compute, result;
        cr_status s = cr_rule_dtypes(&cr_rows[cases[i].row], (const cr_tensor *const[]){&t, &t, &t}, &compute, &result);
        if (cases[i].compute < 0)
            FAILS(CR_BAD_TYPE, cases[i].message,
                  cr_rule_dtypes(&cr_rows[cases[i].row], (const cr_tensor *const[]){&t, &t, &t}, &compute, &result));
        else
            CHECK(s == CR_OK && (int)compute == cases[i].compute && (int)result == cases[i].result, "%s of %s: %d, %d",
                  cr_rows[cases[i].row].name, cr_dtype_name(cases[i].in), (int)compute, (int)result);
    }
    cr_tensor c = fake(CR_BOOL, 1, 0), a = fake(CR_I32, 1, 0), b = fake(CR_F16, 1, 0);
    cr_dtype compute, result;
    OK(cr_rule_dtypes(&cr_rows[CR_ROW_WHERE], (const cr_tensor *const[]){&c, &a, &b}, &compute, &result));
    CHECK(compute == CR_F32 && result == CR_F16, "where(bool, i32, f16)");
}

/* ---- the walk */

/* A random view of `shape` (possibly broadcast to it): some axes missing in front, some of size 1, odd strides. */
static cr_tensor random_view(cr_storage *s, int ndim, const int64_t *shape, bool output) {
    int skip = output ? 0 : below(ndim + 1), order[CR_MAX_DIMS];
    cr_tensor t = {.dtype = CR_F32,
                   .ndim = (uint8_t)(ndim - skip),
                   .storage = s,
                   .dev = &fake_device,
                   .offset = below(5),
                   .numel = 1};
    for (int i = 0; i < t.ndim; i++) t.shape[i] = !output && below(4) == 0 ? 1 : shape[i + skip];
    for (int i = 0; i < t.ndim; i++) order[i] = i;
    if (below(3) == 0)
        for (int i = t.ndim - 1; i > 0; i--) {
            int j = below(i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
    int64_t stride = below(4) ? 1 : 2;
    for (int i = t.ndim - 1; i >= 0; i--) {
        t.strides[order[i]] = stride;
        stride *= (t.shape[order[i]] ? t.shape[order[i]] : 1) + (below(4) == 0);
        t.numel *= t.shape[i];
    }
    return t;
}

/* The k-th element of the broadcast shape, in row-major order: where is it in t? */
static int64_t offset_of(const cr_tensor *t, int ndim, const int64_t *shape, int64_t k) {
    int64_t at = t->offset;
    for (int i = ndim - 1; i >= 0; k /= shape[i], i--) {
        int own = i - (ndim - t->ndim);
        if (own >= 0 && t->shape[own] != 1) at += k % shape[i] * t->strides[own];
    }
    return at;
}

static int64_t walk_offset(const cr_walk *w, const cr_arg *a, int64_t k) {
    int64_t at = a->offset;
    for (int i = w->ndim - 1; i >= 0; k /= w->shape[i], i--) at += k % w->shape[i] * a->strides[i];
    return at;
}

TEST(walks_visit_every_element_in_order) {
    static float memory[8];
    cr_storage s = {.data = memory, .bytes = sizeof memory, .dev = &fake_device};
    state = test_seed() + 3;
    int merged = 0;
    for (int round = 0; round < 4000; round++) {
        static const int64_t sizes[] = {1, 2, 3, 5, 7, 1, 4};
        int ndim = below(6);
        int64_t shape[CR_MAX_DIMS];
        for (int i = 0; i < ndim; i++) shape[i] = sizes[below(7)];
        if (round % 50 == 0 && ndim) shape[below(ndim)] = 0;
        cr_tensor t[4];
        for (int k = 0; k < 4; k++) t[k] = random_view(&s, ndim, shape, k == 0);
        cr_tensor *out[] = {&t[0]};
        const cr_tensor *in[] = {&t[1], &t[2], &t[3]};
        cr_walk w;
        REQUIRE(cr_walk_fill(&w, &cr_rows[CR_ROW_WHERE], NULL, CR_F32, 1, out, 3, in, "where") == CR_OK, "%s",
                cr_error());
        int64_t numel = 1;
        for (int i = 0; i < w.ndim; i++) numel *= w.shape[i];
        REQUIRE(w.ndim >= 1 && numel == t[0].numel && w.numel == numel, "%d axes, %lld elements of %lld", w.ndim,
                (long long)numel, (long long)t[0].numel);
        merged += w.ndim < ndim;
        for (int i = 0; i < w.ndim; i++)
            CHECK(w.ndim == 1 || w.shape[i] > 1, "axis of size %lld left", (long long)w.shape[i]);
        for (int64_t k = 0; k < numel; k++)
            for (int j = 0; j < 4; j++) {
                int64_t want = offset_of(&t[j], ndim, shape, k), got = walk_offset(&w, j ? &w.in[j - 1] : &w.out[0], k);
                REQUIRE(want == got, "round %d, operand %d, element %lld: %lld, wanted %lld", round, j, (long long)k,
                        (long long)got, (long long)want);
            }
    }
    CHECK(merged > 1000, "axes were merged only %d times", merged);
}

TEST(walk_refuses) {
    cr_tensor y = fake(CR_I32, 2, 0), x = fake(CR_I32, 2, 0), odd = fake(CR_I32, 1, 0);
    cr_storage s = {.data = &y, .dev = &fake_device};
    y.storage = x.storage = odd.storage = &s;
    odd.shape[0] = 2;
    cr_walk w;
    const double half[] = {0.5, 2}, nan[] = {NAN, 1}, open[] = {-INFINITY, 2};
    const cr_program *clamp = &cr_rows[CR_ROW_CLAMP];
    FAILS(CR_BAD_VALUE, "does not broadcast",
          cr_walk_fill(&w, clamp, open, CR_I32, 1, (cr_tensor *[]){&y}, 1, (const cr_tensor *[]){&odd}, "clamp"));
    FAILS(CR_BAD_TYPE, "parameter 0.5 has no int32 value",
          cr_walk_fill(&w, clamp, half, CR_I32, 1, (cr_tensor *[]){&y}, 1, (const cr_tensor *[]){&x}, "clamp"));
    FAILS(CR_BAD_TYPE, "parameter nan",
          cr_walk_fill(&w, clamp, nan, CR_I32, 1, (cr_tensor *[]){&y}, 1, (const cr_tensor *[]){&x}, "clamp"));
    OK(cr_walk_fill(&w, clamp, open, CR_I32, 1, (cr_tensor *[]){&y}, 1, (const cr_tensor *[]){&x}, "clamp"));
    FAILS(CR_BAD_VALUE, "different shapes",
          cr_walk_fill(&w, clamp, open, CR_I32, 2, (cr_tensor *[]){&y, &odd}, 1, (const cr_tensor *[]){&x}, "clamp"));
}
