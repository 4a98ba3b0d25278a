/* test_order.c - order at its edges: NaN and signed zeros, every length at which the cpu's kernels
 * change their way, k at both ends, ties, positions and values together, unique and its kin, refusals
 * with their messages, working memory, interrupts. */
#include "test.h"
#include "use_isa.h"
#include "ops/compose.h"

static const cr_device *dev;                        /* the one under test */
#define EACH_DEVICE for (int device_ = 0; device_ < 2 && (dev = device_ ? cr_ref() : cr_cpu()); device_++, \
    test_ran_on(dev))
#define SCOPED(...) do { cr_scope_begin(); __VA_ARGS__; cr_scope_end(); } while (0)
#define OF(...) cr_from((double[]){__VA_ARGS__}, CR_LIST((int64_t)(sizeof((double[]){__VA_ARGS__}) \
    / sizeof(double))), CR_F64, dev)

/* These numbers, and 0 of the other sign is another number. */
static void check_values(int line, const cr_tensor *t, int n, const double *want) {
    double got[64];
    if (!t || t->numel != n || n > 64) {
        test_fail(__FILE__, line, "%s: no tensor of %d elements: %s", dev->name, n, cr_error() ? cr_error() : "");
        cr_error_clear();
        return;
    }
    OK(cr_read(t, CR_F64, got, sizeof *got * (size_t)n));
    for (int i = 0; i < n; i++)
        if (isnan(want[i]) ? !isnan(got[i]) : got[i] != want[i] || signbit(got[i]) != signbit(want[i]))
            test_fail(__FILE__, line, "%s: element %d is %.17g, wanted %.17g", dev->name, i, got[i], want[i]);
}
#define VALUES(t, ...) check_values(__LINE__, t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
    (double[]){__VA_ARGS__})

static void check_specials(void) {
    cr_tensor *x = OF(1, NAN, -0.0, INFINITY, 0.0, -NAN, -INFINITY, -1, -0.0), *at;
    VALUES(cr_sort(x, 0, false, &at), -INFINITY, -1, -0.0, 0.0, -0.0, 1, INFINITY, NAN, NAN);
    VALUES(at, 6, 7, 2, 4, 8, 0, 3, 1, 5);
    VALUES(cr_sort(x, 0, true, &at), NAN, NAN, INFINITY, 1, -0.0, 0.0, -0.0, -1, -INFINITY);
    VALUES(at, 1, 5, 3, 0, 2, 4, 8, 7, 6);
    VALUES(cr_topk(x, 3, -1, true, &at), NAN, NAN, INFINITY);
    VALUES(at, 1, 5, 3);
    VALUES(cr_topk(x, 4, -1, false, &at), -INFINITY, -1, -0.0, 0.0);
    VALUES(at, 6, 7, 2, 4);
    VALUES(cr_kthvalue(x, 4, 0, true, &at), 0.0);
    VALUES(at, 4);
    VALUES(cr_median(x, CR_LIST(0), false, &at), NAN);
    VALUES(at, 1);
    VALUES(cr_median(x, CR_ALL, false, NULL), NAN);
    VALUES(cr_nanmedian(x, CR_LIST(0), false, &at), 0.0);
    VALUES(at, 4);
    VALUES(cr_nanmedian(OF(NAN, NAN), CR_LIST(0), false, &at), NAN);
    VALUES(at, 0);
    VALUES(cr_median(OF(4, 1, 3, 2), CR_ALL, true, &at), 2);
    VALUES(at, 3);
    VALUES(cr_mode(OF(3, 1, 2, 3, 1), 0, true, &at), 1);
    VALUES(at, 1);
    VALUES(cr_quantile(OF(4, 1, 3, NAN), OF(0, 0.25, 1), CR_ALL, true, CR_LINEAR, true), 1, 2, 4);
    VALUES(cr_quantile(OF(4, 1, 3, NAN), cr_scalar(0.5), CR_LIST(0), false, CR_LINEAR, false), NAN);
    VALUES(cr_quantile(OF(NAN, NAN), cr_scalar(0.5), CR_LIST(0), false, CR_LINEAR, true), NAN);
    cr_tensor *between = OF(0.5, 1. / 6, 5. / 6);  /* ranks 1.5, 0.5 and 2.5 go to the even one */
    VALUES(cr_quantile(OF(1, 2, 3, 4), between, CR_ALL, false, CR_NEAREST, false), 3, 1, 3);
    VALUES(cr_histc(OF(0, 1, 2, 2, NAN, 9, -1), 2, 0, 2), 1, 3);
    FAILS(CR_BAD_VALUE, "[histc] no range: from", cr_histc(OF(0, INFINITY), 2, 0, 0));
    const cr_tensor *edges[] = {OF(0, 1, 3), OF(-1, 0, 0.5, 4)}, *one = OF(0, 0.5, 1, 3, 3.5, -1, NAN);
    VALUES(cr_histogram(cr_unsqueeze(one, 1), 1, edges, CR_NONE), 2, 2);
    VALUES(cr_histogram(cr_unsqueeze(one, 1), 1, edges, OF(1, 2, 4, 8, 16, NAN, 32)), 3, 12);
    cr_tensor *points = cr_reshape(OF(0, 4, 2, 0, 3, 0.5, 0.5, -2, 1, -1), CR_LIST(5, 2));
    VALUES(cr_histogram(points, 2, edges, CR_NONE), 0, 0, 1, 1, 1, 1);
    FAILS(CR_BAD_VALUE, "[histogram] points (M, D) with D of 2", cr_histogram(one, 2, edges, CR_NONE));
    FAILS(CR_BAD_VALUE, "[histogram] weights (2,) for (5, 2)", cr_histogram(points, 2, edges, OF(1, 2)));
    edges[1] = OF(1);
    FAILS(CR_BAD_VALUE, "[histogram] the edges of axis 1 must be at least 2", cr_histogram(points, 2, edges, CR_NONE));
    VALUES(cr_searchsorted(OF(-1, -0.0, 0.0, 2, NAN), OF(-2, 0, -0.0, 1, 2, 3, NAN), false, CR_NONE), 0, 1, 1, 3, 3, 4,
           4);
    VALUES(cr_searchsorted(OF(-1, -0.0, 0.0, 2, NAN), OF(-2, 0, -0.0, 1, 2, 3, NAN), true, CR_NONE), 0, 3, 3, 3, 4, 4,
           5);
    VALUES(cr_median(cr_zeros(CR_LIST(0), CR_F32, dev), CR_ALL, false, NULL), NAN);
    int64_t ends[] = {INT64_MAX, INT64_MIN, 0, -1, INT64_MAX - 1};
    cr_tensor *wide = cr_sort(cr_from(ends, CR_LIST(5), CR_I64, dev), 0, false, &at);
    VALUES(at, 1, 3, 2, 4, 0);
    CHECK(cr_item_int(cr_select(wide, 0, -1)) == INT64_MAX && cr_item_int(cr_select(wide, 0, 0)) == INT64_MIN,
          "the ends of int64 stay");
    uint64_t large[] = {UINT64_MAX, 1, UINT64_C(1) << 63};
    VALUES(cr_argsort(cr_from(large, CR_LIST(3), CR_U64, dev), 0, true), 0, 2, 1);
    VALUES(cr_topk(cr_from(large, CR_LIST(3), CR_U64, dev), 1, 0, false, NULL), 1);
}
TEST(specials) { EACH_DEVICE SCOPED(check_specials()); }

/* Ties: the first of equal ones gets the gradient, those of a whole median share it. */
static void check_ties(void) {
    cr_tensor *x = cr_requires_grad_(OF(2, 1, 2, 2, 5), true);
    OK(cr_backward(cr_topk(x, 2, 0, true, NULL), OF(10, 20), NULL));
    VALUES(cr_grad(x), 20, 0, 0, 0, 10);
    OK(cr_set_grad(x, CR_NONE));
    OK(cr_backward(cr_median(x, CR_ALL, false, NULL), CR_NONE, NULL));
    double third = 1.0 / 3;
    VALUES(cr_grad(x), third, 0, third, third, 0);
    OK(cr_set_grad(x, CR_NONE));
    OK(cr_backward(cr_median(x, CR_LIST(0), true, NULL), OF(6), NULL));
    VALUES(cr_grad(x), 0, 0, 6, 0, 0);
    cr_tensor *y = cr_requires_grad_(OF(NAN, 1, NAN), true);
    OK(cr_backward(cr_median(y, CR_ALL, false, NULL), CR_NONE, NULL));
    VALUES(cr_grad(y), 0.5, 0, 0.5);
    CHECK(!cr_requires_grad(cr_argsort(x, 0, false)) && cr_grad_enabled(), "positions are outside the graph");
    CHECK(!cr_requires_grad(cr_unique(x, CR_ALL, NULL, NULL)) && cr_grad_enabled(), "unique has no gradient");
}
TEST(ties) { EACH_DEVICE SCOPED(check_ties()); }

static void check_unique(void) {
    cr_tensor *inverse, *counts;
    VALUES(cr_unique(OF(3, 1, 3, 2, 1, 3), CR_ALL, &inverse, &counts), 1, 2, 3);
    VALUES(inverse, 2, 0, 2, 1, 0, 2);
    VALUES(counts, 2, 1, 3);
    VALUES(cr_unique(OF(NAN, 1, NAN, -0.0, 0.0), CR_ALL, NULL, &counts), -0.0, 1, NAN, NAN);
    VALUES(counts, 2, 1, 1, 1);
    VALUES(cr_unique_consecutive(OF(1, 1, 2, 1, 1, 1), CR_ALL, &inverse, &counts), 1, 2, 1);
    VALUES(inverse, 0, 0, 1, 2, 2, 2);
    VALUES(counts, 2, 1, 3);
    cr_tensor *x = cr_reshape(OF(2, 1, 2, 0, 9, 0, 2, 1, 2), CR_LIST(3, 3));
    VALUES(cr_unique(x, CR_LIST(0), &inverse, &counts), 0, 9, 0, 2, 1, 2);
    VALUES(inverse, 1, 0, 1);
    VALUES(counts, 1, 2);
    VALUES(cr_unique(x, CR_LIST(-1), &inverse, &counts), 1, 2, 9, 0, 1, 2);
    VALUES(inverse, 1, 0, 1);
    VALUES(cr_unique_consecutive(x, CR_LIST(0), NULL, &counts), 2, 1, 2, 0, 9, 0, 2, 1, 2);
    cr_tensor *none = cr_unique(cr_zeros(CR_LIST(0, 3), CR_F32, dev), CR_ALL, &inverse, &counts);
    CHECK(none && none->ndim == 1 && !none->numel && inverse && inverse->ndim == 2 && counts && !counts->numel,
          "of nothing there is nothing: %s", cr_error());
    VALUES(cr_unique(cr_scalar(7), CR_ALL, &inverse, NULL), 7);
    CHECK(inverse && !inverse->ndim, "the inverse has x's shape");
    VALUES(cr_isin(OF(1, 2, NAN, 4), OF(4, NAN, 1, 4)), 1, 0, 0, 1);
    VALUES(cr_isin(OF(1, 2), cr_zeros(CR_LIST(0), CR_F64, dev)), 0, 0);
    VALUES(cr_isin(OF(1, 2), cr_scalar_int(2)), 0, 1);
    VALUES(cr_isin(cr_scalar(2.5), OF(1, 2.5)), 1);
    cr_tensor *n = cr_to(OF(3, 1, 3, 0), CR_I32, dev);
    VALUES(cr_bincount(n, CR_NONE, 0), 1, 1, 0, 2);
    VALUES(cr_bincount(n, OF(0.5, 1, 2, 4), 6), 4, 1, 0, 2.5, 0, 0);
    VALUES(cr_searchsorted(cr_to(OF(1, 2, 3), CR_I64, dev), cr_scalar(2.5), false, CR_NONE), 2);
    VALUES(cr_searchsorted(OF(3, 1, 2), OF(2, 9), true, cr_argsort(OF(3, 1, 2), 0, false)), 2, 3);
}

static void check_close(void) {
    cr_tensor *a = OF(1, 100, INFINITY, INFINITY, NAN, 0), *b = OF(1.5, 101, INFINITY, -INFINITY, NAN, 1e-9);
    VALUES(cr_isclose(a, b, 0, 0, false), 0, 0, 1, 0, 0, 0);
    VALUES(cr_isclose(a, b, 0.01, 0, false), 0, 1, 1, 0, 0, 0);
    VALUES(cr_isclose(a, b, 0, 0.5, true), 1, 0, 1, 0, 1, 1);
    /* 0 - 1 does not wrap */
    VALUES(cr_isclose(cr_to(OF(0, 250), CR_U8, dev), cr_to(OF(1, 249), CR_U8, dev), 0, 1, false), 1, 1);
    VALUES(cr_isclose(cr_to(OF(0, 1), CR_BOOL, dev), cr_to(OF(1, 1), CR_BOOL, dev), 9, 9, false), 0, 1);
    CHECK(cr_item(cr_allclose(a, b, 1, 1, true)) == 0 && cr_item(cr_allclose(OF(1, 2), OF(1, 2.5), 0, 0.5, false)) == 1,
          "allclose: %s", cr_error());
    CHECK(cr_item(cr_equal(OF(1, 2), OF(1, 2))) == 1 && cr_item(cr_equal(OF(1, 2), OF(1, 3))) == 0 &&
              cr_item(cr_equal(OF(NAN), OF(NAN))) == 0,
          "equal: %s", cr_error());
    CHECK(cr_item(cr_equal(OF(1, 1), OF(1))) == 0 && cr_item(cr_equal(cr_scalar(1), OF(1))) == 0, "of one shape only");
    FAILS(CR_BAD_VALUE, "[isclose] rtol -1, atol 0: 0 or more are expected", cr_isclose(a, b, -1, 0, false));
    FAILS(CR_BAD_VALUE, "[isclose] rtol nan", cr_isclose(a, b, NAN, 0, false));
}
TEST(close) { EACH_DEVICE SCOPED(check_close()); }
TEST(unique) { EACH_DEVICE SCOPED(check_unique()); }

static void check_refusals(void) {
    cr_tensor *x = cr_zeros(CR_LIST(3, 5), CR_F32, dev), *empty = cr_zeros(CR_LIST(3, 0), CR_F32, dev), *at = x;
    FAILS(CR_BAD_INDEX, "[sort] axis 2 is out of range", cr_sort(x, 2, false, &at));
    CHECK(!at, "a failure leaves no index");
    FAILS(CR_BAD_INDEX, "[argsort] axis -3 is out of range", cr_argsort(x, -3, false));
    FAILS(CR_BAD_VALUE, "[topk] k is 6, but axis 1 of (3, 5) has 5 elements", cr_topk(x, 6, -1, true, NULL));
    FAILS(CR_BAD_VALUE, "[topk] k is -1", cr_topk(x, -1, -1, true, NULL));
    FAILS(CR_BAD_VALUE, "[kthvalue] k is 0, but axis 0 of (3, 5) has elements 1 to 3",
          cr_kthvalue(x, 0, 0, false, NULL));
    FAILS(CR_BAD_VALUE, "[kthvalue] k is 9223372036854775807", cr_kthvalue(x, INT64_MAX, 0, false, NULL));
    FAILS(CR_BAD_INDEX, "[kthvalue] axis 1 of (3, 0) is empty", cr_kthvalue(empty, 1, 1, false, NULL));
    FAILS(CR_BAD_INDEX, "[median] axis 1 of (3, 0) is empty", cr_median(empty, CR_LIST(1), false, NULL));
    FAILS(CR_BAD_VALUE, "[median] 2 axes", cr_median(x, CR_LIST(0, 1), false, NULL));
    FAILS(CR_BAD_VALUE, "[median] of no int64 there is none",
          cr_median(cr_zeros(CR_LIST(0), CR_I64, dev), CR_ALL, false, NULL));
    FAILS(CR_BAD_VALUE, "[searchsorted] rows (3, 5) for numbers (2, 5)",
          cr_searchsorted(x, cr_zeros(CR_LIST(2, 5), CR_F32, dev), false, CR_NONE));
    FAILS(CR_BAD_VALUE, "[searchsorted] rows () for numbers (3, 5)",
          cr_searchsorted(cr_zeros(CR_ALL, CR_F32, dev), x, false, CR_NONE));
    FAILS(CR_BAD_VALUE, "[searchsorted] the sorter (3,) does not cover (5,)",
          cr_searchsorted(cr_zeros(CR_LIST(5), CR_F32, dev), x, false, cr_zeros(CR_LIST(3), CR_I64, dev)));
    FAILS(CR_BAD_INDEX, "index 7 at position 1 is out of range for size 2",
          cr_searchsorted(OF(1, 2), OF(1), false, cr_to(OF(0, 7), CR_I64, dev)));
    FAILS(CR_BAD_VALUE, "[unique] the rows along axis 0 of (3, 0) are empty", cr_unique(empty, CR_LIST(0), NULL, NULL));
    FAILS(CR_BAD_INDEX, "[unique] axis 5", cr_unique(x, CR_LIST(5), NULL, NULL));
    FAILS(CR_BAD_VALUE, "[bincount] counts integers along one axis: float32 (3, 5)", cr_bincount(x, CR_NONE, 0));
    FAILS(CR_BAD_VALUE, "[bincount] counts numbers from 0: -4", cr_bincount(cr_to(OF(1, -4), CR_I64, dev), CR_NONE, 0));
    FAILS(CR_BAD_VALUE, "[bincount] weights (1,) for (2,)", cr_bincount(cr_to(OF(1, 4), CR_I64, dev), OF(1), 0));
    FAILS(CR_BAD_VALUE, "[bincount] 9223372036854775807 is too large",
          cr_bincount(cr_from(&(int64_t){INT64_MAX}, CR_LIST(1), CR_I64, dev), CR_NONE, 0));
    FAILS(CR_BAD_VALUE, "[sort] x is CR_NONE", cr_sort(CR_NONE, 0, false, NULL));
}
TEST(refusals) { EACH_DEVICE SCOPED(check_refusals()); }

/* ---- the cpu's ways, each against ref: lengths around every limit, numbers that are alike, spread,
 * few, or take two words */
typedef enum numbers { NORMAL, FEW_ONES, EQUAL, FALLING, SPREAD, KINDS } numbers;

static cr_tensor *row_of(numbers kind, int64_t n, cr_dtype dt, uint64_t seed) {
    cr_generator *g = cr_generator_new(seed);
    cr_tensor *x = NULL;
    if (kind == NORMAL) x = cr_to(cr_mul_scalar(cr_randn(CR_LIST(n), CR_F64, cr_cpu(), g), 100), dt, cr_cpu());
    if (kind == FEW_ONES) x = cr_randint(0, 3, CR_LIST(n), dt, cr_cpu(), g);
    if (kind == EQUAL) x = cr_full(CR_LIST(n), 1, dt, cr_cpu());
    if (kind == FALLING) x = cr_to(cr_arange(0, -(double)n, -1, CR_F64, cr_cpu()), dt, cr_cpu());
    if (kind == SPREAD)
        x = cr_dtype_is_float(dt)
                ? cr_to(cr_exp(cr_mul_scalar(cr_randn(CR_LIST(n), CR_F64, cr_cpu(), g), 200)), dt, cr_cpu())
                : cr_randint(dt == CR_I64 ? INT64_MIN : 0, dt == CR_I64 ? INT64_MAX : 100, CR_LIST(n), dt, cr_cpu(), g);
    cr_generator_free(g);
    return x;
}

static bool same_bits(const cr_tensor *a, const cr_tensor *b) {
    return a && b && a->numel == b->numel && a->dtype == b->dtype &&
           !memcmp(cr_data(a), cr_data(b), (size_t)a->numel * cr_dtype_size(a->dtype));
}

static void check_row(const cr_tensor *x, const char *what) {
    const int64_t n = x->numel, ks[] = {1, 2, n / 40, n / 3, n / 2 + 1, n};
    cr_tensor *there = cr_to(x, x->dtype, cr_ref());
    for (int down = 0; down < 2; down++) {
        cr_tensor *ours, *theirs, *y = cr_sort(x, 0, down, &ours), *want = cr_sort(there, 0, down, &theirs);
        CHECK(same_bits(y, want) && same_bits(ours, theirs), "sort of %lld %s, %s, %s", (long long)n,
              cr_dtype_name(x->dtype), what, down ? "falling" : "rising");
        for (int i = 0; i < 6; i++) {
            if (ks[i] < 1 || ks[i] > n) continue;
            cr_tensor *first = cr_topk(x, ks[i], 0, down, &ours);
            CHECK(same_bits(first, cr_slice(want, 0, 0, ks[i], 1)) && same_bits(ours, cr_slice(theirs, 0, 0, ks[i], 1)),
                  "the first %lld of %lld %s, %s, %s", (long long)ks[i], (long long)n, cr_dtype_name(x->dtype), what,
                  down ? "falling" : "rising");
            if (down) continue;
            cr_tensor *one = cr_kthvalue(x, ks[i], 0, true, &ours);
            CHECK(same_bits(one, cr_contiguous(cr_slice(want, 0, ks[i] - 1, ks[i], 1))) &&
                      cr_item_int(ours) == cr_item_int(cr_select(theirs, 0, ks[i] - 1)),
                  "number %lld of %lld %s, %s", (long long)ks[i], (long long)n, cr_dtype_name(x->dtype), what);
        }
    }
}

TEST(ways) {
    static const int64_t lengths[] = {1, 2, 127, 128, 129, 255, 256, 512, 513, 2049, 32767, 32768, 40009, 140009};
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16, CR_I64, CR_U8};
    static const char *const kinds[KINDS] = {"normal", "few", "equal", "falling", "spread"};
    for (int isa = 2; isa <= 4; isa++) {
        if (!test_use_isa(isa)) continue;
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
                for (int kind = 0; kind < KINDS; kind++) {
                    if (lengths[i] > 10000 && !test_full() && (isa != 4 || (d != 0 && d != 3 && kind != SPREAD)))
                        continue;
                    SCOPED(check_row(row_of((numbers)kind, lengths[i], dtypes[d], 7 + i), kinds[kind]));
                    test_ran_on(cr_cpu());
                }
    }
    test_use_isa(-1);
}

TEST(without_working_memory_it_fails) {
    cr_scope_begin();
    cr_tensor *x = row_of(NORMAL, 200003, CR_F64, 3), *at;
    cr_empty_cache(cr_cpu());
    cr_memory before = cr_memory_stats(cr_cpu());
    cr_cpu_limit_memory((size_t)(before.current + before.cached + (4 << 20)));
    FAILS(CR_NO_MEMORY, "out of memory", cr_sort(x, 0, false, &at));
    FAILS(CR_NO_MEMORY, "out of memory", cr_topk(x, 150000, 0, false, &at));
    cr_cpu_limit_memory(0);
    CHECK(cr_memory_stats(cr_cpu()).current == before.current, "%lld bytes leaked",
          (long long)(cr_memory_stats(cr_cpu()).current - before.current));
    cr_scope_end();
    test_ran_on(cr_cpu());
}

static int questions, yes_at;
static bool answer(void *ctx) { (void)ctx; return questions++ >= yes_at; }

TEST(it_can_be_interrupted) {
    cr_scope_begin();
    cr_tensor *x = row_of(NORMAL, 4000037, CR_F64, 5);
    int stopped = 0;
    for (yes_at = 0; yes_at < 4; yes_at++) {
        questions = 0;
        cr_set_interrupt(answer, NULL);
        cr_tensor *y = cr_sort(x, 0, false, NULL);
        cr_set_interrupt(NULL, NULL);
        stopped += !y && cr_error_status() == CR_INTERRUPTED;
        CHECK(y || cr_error_status() == CR_INTERRUPTED, "%s", cr_error());
        cr_error_clear();
        cr_release(y);
    }
    CHECK(stopped, "a sort of four million was never stopped");
    CHECK(cr_sort(x, 0, false, NULL), "%s", cr_error());
    cr_scope_end();
    test_ran_on(cr_cpu());
}
