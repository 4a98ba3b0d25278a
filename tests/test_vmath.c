/* test_vmath.c - the cpu's vector functions against libm in double, those of f64 in long double: every
 * exponent, dense mantissas, all special values, each instruction set.  CHAINRULE_TEST_FULL=1: every
 * float there is for the functions that networks live on.  -v prints the worst errors. */
#include "test.h"

#include "core/pool.h"
#include "dev/cpu/isa.h"
#include "dev/elementary.h"

#include <float.h>

enum { BLOCK = 1024, LIMIT_ULP = 2 };

static double sign_of(double a) { return (a > 0) - (a < 0); }
static double rsqrt_of(double a) { return 1 / sqrt(a); }
static double sigmoid_of(double a) { return a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a)); }
static double neg_of(double a) { return -a; }
static double isnan_of(double a) { return isnan(a) != 0; }
static double f16_of(double a) {
    uint16_t h;
    cr_store_f64(&h, CR_F16, a);
    return (double)cr_f16_to_f32(h);
}
static double bf16_of(double a) {
    uint16_t h;
    cr_store_f64(&h, CR_BF16, a);
    return (double)cr_bf16_to_f32(h);
}
static double acosh_exactly(double a) { return a < 1 ? NAN : acosh(a); }         /* musl has numbers there */
static double isinf_of(double a) { return isinf(a) != 0; }

static const struct unary { const char *name; int op; double (*f)(double); bool hot; double limit;
} unary[] = {
    {"exp", CR_OP_EXP, exp, true, LIMIT_ULP},
    {"exp2", CR_OP_EXP2, exp2, false, LIMIT_ULP},
    {"expm1", CR_OP_EXPM1, expm1, false, LIMIT_ULP},
    {"log", CR_OP_LOG, log, true, LIMIT_ULP},
    {"log2", CR_OP_LOG2, log2, false, LIMIT_ULP},
    {"log10", CR_OP_LOG10, log10, false, LIMIT_ULP},
    {"log1p", CR_OP_LOG1P, log1p, false, LIMIT_ULP},
    {"sqrt", CR_OP_SQRT, sqrt, false, 0.5},
    {"rsqrt", CR_OP_RSQRT, rsqrt_of, false, LIMIT_ULP},
    {"sin", CR_OP_SIN, sin, true, LIMIT_ULP},
    {"cos", CR_OP_COS, cos, true, LIMIT_ULP},
    {"tan", CR_OP_TAN, tan, false, LIMIT_ULP},
    {"asin", CR_OP_ASIN, asin, false, LIMIT_ULP},
    {"acos", CR_OP_ACOS, acos, false, LIMIT_ULP},
    {"atan", CR_OP_ATAN, atan, false, LIMIT_ULP},
    {"sinh", CR_OP_SINH, sinh, false, LIMIT_ULP},
    {"cosh", CR_OP_COSH, cosh, false, LIMIT_ULP},
    {"tanh", CR_OP_TANH, tanh, true, LIMIT_ULP},
    {"asinh", CR_OP_ASINH, asinh, false, LIMIT_ULP},
    {"acosh", CR_OP_ACOSH, acosh_exactly, false, LIMIT_ULP},
    {"atanh", CR_OP_ATANH, atanh, false, LIMIT_ULP},
    {"erf", CR_OP_ERF, erf, true, LIMIT_ULP},
    {"erfc", CR_OP_ERFC, erfc, false, LIMIT_ULP},
    {"sigmoid", CR_OP_SIGMOID, sigmoid_of, true, LIMIT_ULP},
    {"floor", CR_OP_FLOOR, floor, false, 0},
    {"ceil", CR_OP_CEIL, ceil, false, 0},
    {"round", CR_OP_ROUND, rint, false, 0},
    {"trunc", CR_OP_TRUNC, trunc, false, 0},
    {"neg", CR_OP_NEG, neg_of, false, 0},
    {"abs", CR_OP_ABS, fabs, false, 0},
    {"sign", CR_OP_SIGN, sign_of, false, 0},
    {"f16", CR_OP_F16, f16_of, false, 0},
    {"bf16", CR_OP_BF16, bf16_of, false, 0},
    {"isnan", CR_OP_ISNAN, isnan_of, false, 0},
    {"isinf", CR_OP_ISINF, isinf_of, false, 0},
};

static double add_of(double a, double b) { return a + b; }
static double sub_of(double a, double b) { return a - b; }
static double mul_of(double a, double b) { return a * b; }
static double div_of(double a, double b) { return a / b; }
static double max_of(double a, double b) { return isnan(a) || a > b ? a : b; }
static double min_of(double a, double b) { return isnan(a) || a < b ? a : b; }
static double rem_of(double a, double b) {
    double r = fmod(a, b);
    return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}
/* of two floats: below 2^28 the double quotient is on the right side of every whole number */
static double fdiv_of(double a, double b) {
    if (isinf(a) && b != 0) return NAN;
    return isinf(b) && a != 0 && !isnan(a) && (a < 0) != (b < 0) ? -1 : floor(a / b);
}
static double tdiv_of(double a, double b) { return trunc(a / b); }
static double eq_of(double a, double b) { return a == b; }
static double ne_of(double a, double b) { return a != b; }
static double lt_of(double a, double b) { return a < b; }
static double le_of(double a, double b) { return a <= b; }
static double gt_of(double a, double b) { return a > b; }
static double ge_of(double a, double b) { return a >= b; }

static const struct binary { const char *name; int op; double (*f)(double, double); double limit;
} binary[] = {
    {"add", CR_OP_ADD, add_of, 0.5},
    {"sub", CR_OP_SUB, sub_of, 0.5},
    {"mul", CR_OP_MUL, mul_of, 0.5},
    {"div", CR_OP_DIV, div_of, 0.5},
    {"max", CR_OP_MAX, max_of, 0},
    {"min", CR_OP_MIN, min_of, 0},
    {"pow", CR_OP_POW, pow, LIMIT_ULP},
    {"fmod", CR_OP_FMOD, fmod, 0},
    {"rem", CR_OP_REM, rem_of, 0.5},
    {"fdiv", CR_OP_FDIV, fdiv_of, 0.5},
    {"tdiv", CR_OP_TDIV, tdiv_of, 0.5},
    {"atan2", CR_OP_ATAN2, atan2, LIMIT_ULP},
    {"eq", CR_OP_EQ, eq_of, 0},
    {"ne", CR_OP_NE, ne_of, 0},
    {"lt", CR_OP_LT, lt_of, 0},
    {"le", CR_OP_LE, le_of, 0},
    {"gt", CR_OP_GT, gt_of, 0},
    {"ge", CR_OP_GE, ge_of, 0},
    {"copysign", CR_OP_COPYSIGN, copysign, 0},
};
enum { UNARY = sizeof unary / sizeof *unary, BINARY = sizeof binary / sizeof *binary };

static float float_of(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }

/* Distance of y from the exact value in units of the float spacing there; infinity where kind or sign is wrong. */
static double ulps(float y, double exact) {
    if (isnan(exact)) return isnan(y) ? 0 : INFINITY;
    if (isnan(y)) return INFINITY;
    if (exact == 0)
        return y == 0 && !signbit(y) == !signbit(exact) ? 0 : y == 0 ? INFINITY : fabs((double)y) / 0x1p-149;
    double size = fabs(exact);
    if (isinf(y))
        return size > (double)FLT_MAX && (y > 0) == (exact > 0) ? fmax(0, (0x1p128 - size) / 0x1p104 - 0.5) : INFINITY;
    if (size >= 0x1p128) return isinf(exact) ? INFINITY : (size - fabs((double)y)) / 0x1p104;
    uint64_t bits, spacing;                         /* 2^(exponent - 23), but no finer than the denormals' 2^-149 */
    double unit;
    memcpy(&bits, &size, 8);
    bits >>= 52;
    spacing = (bits < 1023 - 126 ? 1023 - 149 : bits - 23) << 52;
    memcpy(&unit, &spacing, 8);
    return fabs((double)y - exact) / unit;
}

/* ---- many inputs of a one-operand function on one instruction set */
typedef struct sweep {
    const struct unary *u;
    const struct cr_isa_kernels *k;
    uint64_t step, blocks;                          /* bits of input i: i * step (+ something below step, so that
                                                     * mantissas vary) */
    double *worst; uint32_t *where;                 /* by worker */
} sweep;

static void sweep_block(void *ctx, int64_t block, int worker) {
    sweep *s = ctx;
    float x[BLOCK], y[BLOCK];
    uint64_t random = (uint64_t)block * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < BLOCK; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t at = ((uint64_t)block * BLOCK + (uint64_t)i) * s->step;
        x[i] = float_of((uint32_t)(at + (random >> 33) % s->step));
    }
    s->k->blocks->f32[s->u->op](y, x, NULL, NULL, BLOCK);
    for (int i = 0; i < BLOCK; i++) {
        double error = ulps(y[i], s->u->f((double)x[i]));
        if (!(error <= s->worst[worker])) { s->worst[worker] = error; memcpy(&s->where[worker], &x[i], 4); }
    }
}

static void run_sweep(const struct unary *u, const struct cr_isa_kernels *k, uint64_t step) {
    int workers = cr_pool_workers();
    sweep s = {.u = u,
               .k = k,
               .step = step,
               .worst = calloc((size_t)workers, sizeof(double)),
               .where = calloc((size_t)workers, sizeof(uint32_t))};
    cr_pool_run((int64_t)((UINT64_C(1) << 32) / step / BLOCK), sweep_block, &s);
    int w = 0;
    for (int i = 1; i < workers; i++) if (!(s.worst[i] <= s.worst[w])) w = i;
    if (getenv("CHAINRULE_TEST_SHOW"))
        printf("  %-8s v%d: %.3f ulp at %.9g\n", u->name, k->isa, s.worst[w], (double)float_of(s.where[w]));
    float x[64], y[64];
    for (int i = 0; i < 64; i++) x[i] = float_of(s.where[w]);
    k->blocks->f32[u->op](y, x, NULL, NULL, 64);
    CHECK(s.worst[w] <= u->limit, "%s(%.9g) on v%d: got %.9g, exactly %.17g: %.3f ulp, at most %g", u->name,
          (double)x[0], k->isa, (double)y[0], u->f((double)x[0]), s.worst[w], u->limit);
    test_ran_on(cr_cpu());
    free(s.worst);
    free(s.where);
}

static int isa_at(int i) { return (int[]){0, 2, 3, 4}[i]; }

TEST(unary_functions_stay_within_two_ulp) {
    for (int i = 0; i < 4; i++) {
        const struct cr_isa_kernels *k = cr_cpu_vec_for(isa_at(i));
        for (int f = 0; k && f < UNARY; f++) run_sweep(&unary[f], k, test_full() ? 64 : unary[f].hot ? 512 : 2048);
    }
}

TEST(every_float_of_the_hot_functions) {
    if (!test_exhaustive()) SKIP("all 2^32 floats: with CHAINRULE_TEST_FULL=2");
    for (int f = 0; f < UNARY; f++)
        if (unary[f].hot) run_sweep(&unary[f], cr_cpu_vec(), 1);
}

/* ---- f64: in four of the ranges that matter, and over all exponents */
static long double sigmoid_wide(long double a) { return a < 0 ? expl(a) / (1 + expl(a)) : 1 / (1 + expl(-a)); }
static const struct wide { const char *name; int op; long double (*f)(long double);
} wide[] = {
    {"exp", CR_OP_EXP, expl},       {"expm1", CR_OP_EXPM1, expm1l}, {"log", CR_OP_LOG, logl},
    {"log1p", CR_OP_LOG1P, log1pl}, {"tanh", CR_OP_TANH, tanhl},    {"sigmoid", CR_OP_SIGMOID, sigmoid_wide},
};
enum { WIDE = sizeof wide / sizeof *wide };

static double wide_ulps(double y, long double exact) {
    if (isnan(exact)) return isnan(y) ? 0 : INFINITY;
    if (isnan(y)) return INFINITY;
    if (exact == 0) return y == 0 && !signbit(y) == !signbit(exact) ? 0 : INFINITY;
    const long double size = fabsl(exact), most = 0x1p1023L * 2;
    if (isinf(y))
        return isinf(exact) && (y > 0) == (exact > 0) ? 0
               : size > (long double)DBL_MAX && (y > 0) == (exact > 0)
                   ? (double)fmaxl(0, (most - size) / 0x1p971L - 0.5L)
                   : INFINITY;
    if (isinf(exact)) return INFINITY;
    int exponent;                                   /* size in 2^exponent [1/2, 1) */
    frexpl(size, &exponent);
    return (double)(fabsl((long double)y - exact) / ldexpl(1, exponent - 53 < -1074 ? -1074 : exponent - 53));
}

/* by worker */
typedef struct wide_sweep { const struct wide *w; const struct cr_isa_kernels *k; double *worst, *where; } wide_sweep;

static void wide_block(void *ctx, int64_t block, int worker) {
    static const double reach[] = {1, 5, 40, 746};
    wide_sweep *s = ctx;
    double x[BLOCK], y[BLOCK];
    uint64_t random = (uint64_t)block * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < BLOCK; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        x[i] = reach[i % 4] * ((double)(int64_t)random * 0x1p-63);
        if (i % 8 > 5) memcpy(&x[i], &random, 8);
        if (i % 16 == 0) x[i] = 1 + x[i] * 0x1p-6;
    }
    const int64_t n = BLOCK - block % 9;            /* not always whole vectors */
    s->k->blocks->f64[s->w->op](y, x, NULL, NULL, n);
    for (int64_t i = 0; i < n; i++) {
        const double error = wide_ulps(y[i], s->w->f((long double)x[i]));
        if (!(error <= s->worst[worker])) { s->worst[worker] = error; s->where[worker] = x[i]; }
    }
}

/* Does long double say more than double? */
static bool wide_is_exact(void) {
    volatile double third = 0.3;                    /* musl computes in double on aarch64 */
    const bool rounded = expl(third) == (long double)exp(third) || tanhl(third) == (long double)tanh(third);
#ifdef _WIN32
    return false;                                   /* its functions are not exact enough */
#endif
    return !rounded && LDBL_MANT_DIG > DBL_MANT_DIG;
}

TEST(f64_functions_stay_within_two_ulp) {
    if (!wide_is_exact()) SKIP("the long double functions of this C library say no more than double");
    const int workers = cr_pool_workers();
    for (int i = 0; i < 4 * WIDE; i++) {
        const struct wide *w = &wide[i / 4];
        const struct cr_isa_kernels *k = cr_cpu_vec_for(isa_at(i % 4));
        if (!k) continue;
        wide_sweep s = {w, k, calloc((size_t)workers, sizeof(double)), calloc((size_t)workers, sizeof(double))};
        cr_pool_run(test_full() ? 1 << 15 : 1 << 9, wide_block, &s);
        int at = 0;
        for (int j = 1; j < workers; j++) if (!(s.worst[j] <= s.worst[at])) at = j;
        const double worst = s.worst[at], x = s.where[at];
        if (getenv("CHAINRULE_TEST_SHOW")) printf("  f64 %-8s v%d: %.3f ulp at %.17g\n", w->name, k->isa, worst, x);
        CHECK(worst <= LIMIT_ULP, "f64 %s(%.17g) on v%d: %.3f ulp, at most %d", w->name, x, k->isa, worst, LIMIT_ULP);
        free(s.worst);
        free(s.where);
    }
    test_ran_on(cr_cpu());
}

TEST(f64_special_values) {
    static const double at[] = {0,
                                0x1p-1074,
                                0x1.8p-1030,
                                0x1p-1022,
                                0x1p-54,
                                0x1.8p-54,
                                1e-10,
                                0.34657359,
                                0.5,
                                0.70710678118654752,
                                0.70710678118654757,
                                1,
                                1.5,
                                709.78,
                                709.79,
                                745.13,
                                745.14,
                                746,
                                1e300,
                                DBL_MAX,
                                INFINITY,
                                NAN};
    for (int i = 0; i < 4 * WIDE; i++) {
        const struct cr_isa_kernels *k = cr_cpu_vec_for(isa_at(i % 4));
        for (int s = 0; k && s < 2 * (int)(sizeof at / sizeof *at); s++) {
            const double x = s % 2 ? -at[s / 2] : at[s / 2], xs[] = {x, x, x, x, x, x, x, x, x};
            double y[9];
            k->blocks->f64[wide[i / 4].op](y, xs, NULL, NULL, 9);
            const long double exact = wide[i / 4].f((long double)x);
            for (int j = 0; j < 9; j++)
                CHECK(wide_ulps(y[j], exact) <= LIMIT_ULP, "f64 %s(%.17g) on v%d, place %d: %.17g, wanted %.20Lg",
                      wide[i / 4].name, x, k->isa, j, y[j], exact);
        }
    }
    test_ran_on(cr_cpu());
}

/* ---- single numbers (elementary.h) */
static double power_of(double x) { return cr_f64_power(10000, -x / 0x1p20); }
static long double power_wide(long double x) { return powl(10000, -x / 0x1p20L); }
static const struct single { const char *name; double (*f)(double); long double (*wide)(long double); double low, limit;
} single[] = {
    {"exp", cr_f64_exp, expl, -700, LIMIT_ULP},     {"log", cr_f64_log, logl, 0, LIMIT_ULP},
    {"log1p", cr_f64_log1p, log1pl, 0, LIMIT_ULP},  {"sin", cr_f64_sin, sinl, -0x1p20, LIMIT_ULP},
    {"cos", cr_f64_cos, cosl, -0x1p20, LIMIT_ULP},  {"power", power_of, power_wide, 0, 24},
};
enum { SINGLE = sizeof single / sizeof *single, SINGLES = 1 << 14 };

/* From low to -low or 2^20: whole numbers, neighbours of multiples of pi / 2, and others. */
static double single_at(const struct single *s, int i) {
    const double share = (double)i / SINGLES, high = s->low == -700 ? 700 : 0x1p20;
    const double x = s->low + (high - s->low) * share, quarter = 1.5707963267948966;
    return i % 3 == 0 ? x : i % 3 == 1 ? rint(x) : rint(x / quarter) * quarter;
}

TEST(single_numbers) {
    const bool exact = wide_is_exact();
    uint64_t hash = 0xCBF29CE484222325u;
    for (int f = 0; f < SINGLE; f++) {
        double worst = 0, where = 0;
        for (int i = 1; i <= SINGLES; i++) {
            const double x = single_at(&single[f], i), y = single[f].f(x);
            const double error = exact ? wide_ulps(y, single[f].wide((long double)x)) : 0;
            uint64_t bits;
            memcpy(&bits, &y, sizeof bits);
            hash = (hash ^ bits) * 0x100000001B3u;
            if (!(error <= worst)) worst = error, where = x;
        }
        if (getenv("CHAINRULE_TEST_SHOW")) printf("  %-8s %.3f ulp at %.17g\n", single[f].name, worst, where);
        CHECK(worst <= single[f].limit, "%s(%.17g): %.3f ulp, at most %g", single[f].name, where, worst,
              single[f].limit);
    }
    CHECK(hash == 0x40e5bd898ee5b0d0, "the bits are not those of other systems: %016llx", (unsigned long long)hash);
    CHECK(isnan(cr_f64_sin(INFINITY)) && isnan(cr_f64_cos(NAN)) && signbit(cr_f64_sin(-0.0)), "special values");
    test_ran_on(cr_cpu());
}

/* ---- special values */
static const float special[] = {
    0.0f,    0x1p-149f, 0x1.8p-140f, 0x1p-126f,      0x1p-60f,   1e-10f,        0x1p-14f,    0.25f,
    0.3f,    0.5f,      0.625f,      0x1.fffffep-1f, 1.0f,       0x1.000002p0f, 1.5f,        2.0f,
    2.5f,    3.0f,      3.5f,        7.0f,           10.0f,      88.5f,         89.0f,       104.0f,
    1000.0f, 99999.0f,  100001.0f,   8388607.5f,     8388609.0f, 16777215.0f,   16777216.0f, 33554432.0f,
    1e10f,   1e20f,     3e38f,       FLT_MAX,        INFINITY,   NAN,
};
enum { SPECIAL = 2 * sizeof special / sizeof *special };
static float special_at(int i) { return i < SPECIAL / 2 ? special[i] : -special[i - SPECIAL / 2]; }

/* One value in every lane: each lane must give the same. */
static float lanes_of(const struct cr_isa_kernels *k, int op, float a, float b, const char *name) {
    float x[64], z[64], y[64];
    for (int i = 0; i < 64; i++) { x[i] = a; z[i] = b; }
    k->blocks->f32[op](y, x, z, NULL, k->blocks->lanes);
    for (int i = 1; i < k->blocks->lanes; i++)
        CHECK(!memcmp(&y[i], &y[0], 4) || (isnan(y[i]) && isnan(y[0])),
              "%s(%g, %g) on v%d: lane %d gives %g, lane 0 %g", name, (double)a, (double)b, k->isa, i, (double)y[i],
              (double)y[0]);
    return y[0];
}

TEST(special_values) {
    for (int i = 0; i < 4; i++) {
        const struct cr_isa_kernels *k = cr_cpu_vec_for(isa_at(i));
        if (!k) continue;
        for (int s = 0; s < SPECIAL; s++) {
            float a = special_at(s);
            for (int f = 0; f < UNARY; f++) {
                float y = lanes_of(k, unary[f].op, a, 0, unary[f].name);
                double exact = unary[f].f((double)a), error = ulps(y, exact);
                CHECK(error <= unary[f].limit, "%s(%.9g) on v%d: got %.9g, exactly %.17g: %.3f ulp", unary[f].name,
                      (double)a, k->isa, (double)y, exact, error);
            }
            for (int t = 0; t < SPECIAL; t++)
                for (int f = 0; f < BINARY; f++) {
                    float b = special_at(t), y = lanes_of(k, binary[f].op, a, b, binary[f].name);
                    double exact = binary[f].f((double)a, (double)b), error = ulps(y, exact);
                    /* max(0, -0) may be either */
                    if (binary[f].limit == 0 && exact == 0 && y == 0) error = 0;
                    if (binary[f].op == CR_OP_FMOD) error = ulps(y, exact);
                    CHECK(error <= binary[f].limit, "%s(%.9g, %.9g) on v%d: got %.9g, exactly %.17g: %.3f ulp",
                          binary[f].name, (double)a, (double)b, k->isa, (double)y, exact, error);
                }
        }
        test_ran_on(cr_cpu());
    }
}

/* ---- two operands: magnitudes near each other half of the time, anything otherwise */
static uint64_t state;
static uint32_t next32(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static void pair(float *a, float *b, int kind) {
    *a = float_of(next32());
    *b = float_of(next32());
    if (kind % 4 == 0)
        *b = ldexpf(frexpf(*b, &(int){0}),
                    ilogbf(*a == 0 || isnan(*a) || isinf(*a) ? 1.0f : *a) + (int)(next32() % 9) - 4);
    /* powers that stay in range */
    if (kind % 4 == 1) *a = 0.5f + (float)next32() * 0x1p-31f, *b = ((float)next32() * 0x1p-31f - 1) * 130;
    if (kind % 4 == 2)
        *a = 1 + ((float)next32() * 0x1p-31f - 1) * 0x1p-12f, *b = ((float)next32() * 0x1p-31f - 1) * 0x1p18f;
    if (kind % 16 == 3) *a = truncf(ldexpf(frexpf(*a, &(int){0}), 20)), *b = truncf(ldexpf(frexpf(*b, &(int){0}), 5));
}

TEST(binary_functions_stay_within_their_bounds) {
    int rounds = test_full() ? 2000 : 60;
    state = test_seed();
    for (int round = 0; round < rounds; round++) {
        float a[BLOCK], b[BLOCK], y[BLOCK];
        for (int i = 0; i < BLOCK; i++) pair(&a[i], &b[i], i);
        for (int i = 0; i < 4; i++) {
            const struct cr_isa_kernels *k = cr_cpu_vec_for(isa_at(i));
            for (int f = 0; k && f < BINARY; f++) {
                k->blocks->f32[binary[f].op](y, a, b, NULL, BLOCK);
                for (int j = 0; j < BLOCK; j++) {
                    double exact = binary[f].f((double)a[j], (double)b[j]), error = ulps(y[j], exact);
                    CHECK(error <= binary[f].limit,
                          "%s(%.9g, %.9g) on v%d: got %.9g, exactly %.17g: %.3f ulp, seed %llu", binary[f].name,
                          (double)a[j], (double)b[j], k->isa, (double)y[j], exact, error,
                          (unsigned long long)test_seed());
                }
            }
        }
    }
    test_ran_on(cr_cpu());
}

TEST(select_takes_any_number_but_zero_as_true) {
    const float c[] = {0.0f, -0.0f, 1.0f, -3.0f, 0x1p-149f, NAN, INFINITY, 0.5f};
    for (int i = 0; i < 4; i++) {
        const struct cr_isa_kernels *k = cr_cpu_vec_for(isa_at(i));
        float x[64], a[64], b[64], y[64];
        for (int j = 0; j < 64; j++) {
            x[j] = c[j % 8];
            a[j] = j % 3 ? (float)j : NAN;
            b[j] = j % 3 == 1 ? NAN : (float)-j;
        }
        if (!k) continue;
        k->blocks->f32[CR_OP_SEL](y, x, a, b, 64);
        for (int j = 0; j < 64; j++) {
            float want = x[j] != 0 ? a[j] : b[j];
            CHECK(y[j] == want || (isnan(want) && isnan(y[j])), "sel(%g, %g, %g) on v%d: %g", (double)x[j],
                  (double)a[j], (double)b[j], k->isa, (double)y[j]);
        }
    }
    test_ran_on(cr_cpu());
}
