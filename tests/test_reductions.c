/* test_reductions.c - reductions and scans at their edges: axes, layouts, empty tensors, gradients at
 * ties and zeros. */
#include "structured.h"

/* ---- reductions */
/* Sum, max and mean of a permuted tensor over every set of axes, against adding up element by element. */
static void check_reduction_axes(void) {
    const int64_t shape[4] = {2, 3, 1, 5}, axes_of[3][4] = {{0, 1, 2, 3}, {3, 0, 2, 1}, {1, 3, 0, 2}};
    for (int order = 0; order < 3; order++) {
        cr_tensor *x = cr_permute(counting(CR_LIST(2, 3, 1, 5)), 4, axes_of[order]);
        for (uint32_t mask = 1; mask < 16; mask++) {
            double all[30], sum[30] = {0}, max[30];
            int64_t axes[4], index[4] = {0};
            int n = 0, results = 1, each;
            for (int i = 0; i < 4; i++) {
                if (mask >> i & 1) axes[n++] = i;
                else results *= (int)shape[axes_of[order][i]];
            }
            each = 30 / results;
            OK(cr_read(x, CR_F64, all, sizeof all));
            for (int i = 0; i < 30; i++) max[i] = -1;
            for (int e = 0; e < 30; e++) {
                int to = 0, rest = e;
                for (int i = 3; i >= 0; i--) { index[i] = rest % x->shape[i]; rest /= (int)x->shape[i]; }
                for (int i = 0; i < 4; i++) if (!(mask >> i & 1)) to = to * (int)x->shape[i] + (int)index[i];
                sum[to] += all[e];
                max[to] = fmax(max[to], all[e]);
            }
            check_values(__FILE__, __LINE__, cr_sum(x, n, axes, false), results, sum, 0);
            check_values(__FILE__, __LINE__, cr_max(x, n, axes, true), results, max, 0);
            for (int i = 0; i < results; i++) sum[i] /= each;
            check_values(__FILE__, __LINE__, cr_mean(x, n, axes, false), results, sum, 1e-5);
        }
    }
}
TEST(reduction_axes) { EACH_DEVICE SCOPED(check_reduction_axes()); }

static void check_reduction_edges(void) {
    const double inf = INFINITY;
    cr_tensor *none = cr_zeros(CR_LIST(0, 3), CR_F32, dev);
    VALUES(cr_sum(none, CR_LIST(0), false), 0, 0, 0);
    VALUES(cr_mean(none, CR_LIST(0), false), NAN, NAN, NAN);
    VALUES(cr_logsumexp(none, CR_LIST(0), false), -inf, -inf, -inf);
    SHAPE(cr_max(none, CR_LIST(1), true), 0, 1);
    FAILS(CR_BAD_VALUE, "[max] over no elements has no value: the reduced axes of (0, 3) are empty",
          cr_max(none, CR_ALL, false));
    FAILS(CR_BAD_VALUE, "[argmin] axis 0 of (0, 3) is empty", cr_argmin(none, 0, false));
    VALUES(cr_var(OF(1, 2, 6), CR_ALL, 1, false), 7);
    VALUES(cr_var(OF(4), CR_ALL, 1, false), NAN);
    VALUES(cr_std(OF(1, 2, 6), CR_ALL, 1, false), sqrt(7));
    VALUES(cr_var(OF(1, 2), CR_ALL, 5, false), inf);        /* N - correction is 0, not below */
    VALUES(cr_std(OF(1, 2), CR_ALL, 5, false), inf);
    VALUES(cr_prod(none, CR_LIST(0), false), 1, 1, 1);
    VALUES(cr_any(none, CR_ALL, false), 0);
    VALUES(cr_all(none, CR_LIST(0), true), 1, 1, 1);
    VALUES(cr_any(OF(0, -0.0, 0), CR_ALL, false), 0);
    VALUES(cr_all(OF(1, NAN, -2), CR_ALL, false), 1);
    VALUES(cr_count_nonzero(OF(0, NAN, -0.0, inf, 3), CR_ALL), 3);
    VALUES(cr_nansum(OF(1, NAN, 3), CR_ALL, false), 4);
    VALUES(cr_nanmean(OF(1, NAN, 3), CR_ALL, true), 2);
    VALUES(cr_nanmean(OF(NAN, NAN), CR_ALL, false), NAN);
    VALUES(cr_norm(OF(3, -4), 2, CR_ALL, false), 5);
    VALUES(cr_norm(OF(3, -4, NAN), INFINITY, CR_ALL, false), NAN);
    VALUES(cr_norm(OF(3, 0, -4), 0, CR_ALL, false), 2);
    VALUES(cr_norm(none, 1, CR_LIST(0), false), 0, 0, 0);
    FAILS(CR_BAD_VALUE, "[norm] over no elements has no value", cr_norm(none, -INFINITY, CR_ALL, false));
    FAILS(CR_BAD_VALUE, "[norm] over no elements has no value", cr_norm(none, -2, CR_LIST(0), false));
    FAILS(CR_BAD_VALUE, "[norm] p must be a number or an infinity: nan", cr_norm(none, NAN, CR_ALL, false));
    FAILS(CR_BAD_TYPE, "[norm] needs a floating point tensor: int64",
          cr_norm(cr_ones(CR_LIST(2), CR_I64, dev), 2, CR_ALL, false));
    FAILS(CR_BAD_TYPE, "[nanmean] needs a floating point tensor: int64",
          cr_nanmean(cr_ones(CR_LIST(2), CR_I64, dev), CR_ALL, false));
    CHECK(cr_dtype_of(cr_any(cr_ones(CR_LIST(2), CR_U8, dev), CR_ALL, false)) == CR_U8,
          "any of uint8 is uint8, as in PyTorch");
    CHECK(cr_dtype_of(cr_prod(cr_ones(CR_LIST(2), CR_BOOL, dev), CR_ALL, false)) == CR_I64, "bool multiplies as int64");
    VALUES(cr_logsumexp(OF(-inf, -inf), CR_ALL, false), -inf);
    VALUES(cr_logsumexp(OF(1, inf), CR_ALL, true), inf);
    VALUES(cr_logsumexp(OF(1000, 1000), CR_ALL, false), 1000 + log(2));
    VALUES(cr_logsumexp(OF(-1, NAN), CR_ALL, false), NAN);
    VALUES(cr_max(OF(1, NAN, 3), CR_ALL, false), NAN);
    VALUES(cr_argmax(OF(1, NAN, 3, NAN), 0, false), 1);
    VALUES(cr_argmin(OF(2, 1, 1), -1, true), 1);
    cr_tensor *bits = cr_ones(CR_LIST(300), CR_BOOL, dev), *half = cr_full(CR_LIST(10000), 10, CR_F16, dev);
    CHECK(cr_dtype_of(cr_sum(bits, CR_ALL, false)) == CR_I64 && cr_item(cr_sum(bits, CR_ALL, false)) == 300,
          "bool sums as int64");
    VALUES(cr_mean(half, CR_ALL, false), 10);       /* the sum would overflow a float16 */
    FAILS(CR_BAD_TYPE, "[mean] needs a floating point tensor: int64",
          cr_mean(cr_ones(CR_LIST(2), CR_I64, dev), CR_ALL, false));
    FAILS(CR_BAD_TYPE, "[var] needs a floating point tensor", cr_var(bits, CR_ALL, 1, false));
    FAILS(CR_BAD_TYPE, "[logsumexp] needs a floating point tensor", cr_logsumexp(bits, CR_ALL, false));
    FAILS(CR_BAD_VALUE, "[var] the correction must be finite", cr_var(half, CR_ALL, NAN, false));
    FAILS(CR_BAD_INDEX, "[sum] axis 1 is out of range", cr_sum(half, CR_LIST(1), false));
    FAILS(CR_BAD_VALUE, "[sum] axis -1 appears more than once", cr_sum(half, CR_LIST(0, -1), false));
    FAILS(CR_BAD_INDEX, "[argmax] axis -2", cr_argmax(half, -2, false));
}
/* Whatever lies around the elements in memory: every set of axes of a tensor that is a part of a
 * larger one, repeated and turned, against its copy. */
static void check_reduction_layouts(void) {
    cr_tensor *base = cr_reshape(normal(CR_LIST(2520), 7), CR_LIST(5, 6, 7, 12)), *views[4];
    views[0] = cr_slice(cr_slice(base, 1, 1, 6, 2), 3, 2, 11, 3);
    views[1] = cr_permute(cr_slice(base, 2, 0, 7, 2), CR_LIST(3, 1, 0, 2));
    views[2] = cr_expand(cr_slice(base, 1, 2, 3, 1), CR_LIST(5, 4, 7, 12));
    views[3] = cr_transpose(cr_expand(cr_slice(base, 3, 0, 1, 1), CR_LIST(5, 6, 7, 3)), 0, 3);
    for (int v = 0; v < 4; v++) {
        cr_tensor *x = views[v], *dense = cr_clone(cr_contiguous(x));
        for (uint32_t mask = 1; mask < 16; mask++) {
            int64_t axes[4];
            int n = 0;
            for (int i = 0; i < 4; i++) if (mask >> i & 1) axes[n++] = i;
            const cr_tensor *pair[5][2] = {{cr_sum(x, n, axes, false), cr_sum(dense, n, axes, false)},
                                           {cr_max(x, n, axes, true), cr_max(dense, n, axes, true)},
                                           {cr_var(x, n, axes, 1, false), cr_var(dense, n, axes, 1, false)},
                                           {cr_norm(x, 1.5, n, axes, false), cr_norm(dense, 1.5, n, axes, false)},
                                           {cr_count_nonzero(cr_gt(x, cr_scalar(0)), n, axes),
                                            cr_count_nonzero(cr_gt(dense, cr_scalar(0)), n, axes)}};
            for (int k = 0; k < 5; k++) {
                double worst = cr_item(cr_max(cr_abs(cr_sub(pair[k][0], pair[k][1])), CR_ALL, false));
                CHECK(worst < 1e-11,
                      "%s: reduction %d of view %d over the axes of %x differs by %g from that of its copy", dev->name,
                      k, v, mask, worst);
            }
        }
        for (int axis = 0; axis < 4; axis++)
            CHECK(cr_item(cr_all(cr_eq(cr_argmax(x, axis, false), cr_argmax(dense, axis, false)), CR_ALL, false)) == 1,
                  "%s: argmax of view %d along %d", dev->name, v, axis);
    }
}
TEST(reduction_layouts) { EACH_DEVICE SCOPED(check_reduction_layouts()); }

TEST(reduction_edges) { EACH_DEVICE SCOPED(check_reduction_edges()); }

static void check_reduction_gradients(void) {
    const double inf = INFINITY;
    cr_tensor *x = cr_requires_grad_(OF(3, 1, 3, 3), true), *m = cr_requires_grad_(OF(2, 2, 5), true);
    VALUES(gradient_of(cr_max(x, CR_ALL, false), x), 1. / 3, 0, 1. / 3, 1. / 3);
    VALUES(gradient_of(cr_min(m, CR_ALL, true), m), 0.5, 0.5, 0);
    cr_tensor *dead = cr_requires_grad_(OF(-inf, -inf), true), *part = cr_requires_grad_(OF(-inf, 0), true);
    VALUES(gradient_of(cr_logsumexp(dead, CR_ALL, false), dead), 0, 0);
    VALUES(gradient_of(cr_logsumexp(part, CR_ALL, false), part), 0, 1);
    cr_tensor *zero = cr_requires_grad_(OF(0, 0), true), *some = cr_requires_grad_(OF(2, 0, 3), true),
              *twice = cr_requires_grad_(OF(0, 5, 0), true);
    VALUES(gradient_of(cr_norm(zero, 2, CR_ALL, false), zero), 0, 0);
    cr_tensor *equal = cr_requires_grad_(OF(3, -3, 1), true), *flat = cr_requires_grad_(OF(4, 4), true);
    VALUES(gradient_of(cr_norm(equal, inf, CR_ALL, false), equal), 0.5, -0.5, 0);
    VALUES(gradient_of(cr_std(flat, CR_ALL, 1, false), flat), 0, 0);
    cr_tensor *rows = cr_requires_grad_(cr_reshape(OF(4, 4, 1, 3), CR_LIST(2, 2)), true);
    VALUES(gradient_of(cr_std(rows, CR_LIST(1), 0, true), rows), 0, 0, -0.5, 0.5);
    VALUES(gradient_of(cr_prod(some, CR_ALL, false), some), 0, 6, 0);
    VALUES(gradient_of(cr_prod(twice, CR_ALL, false), twice), 0, 0, 0);
    cr_tensor *run = cr_requires_grad_(OF(2, 0, 3, 0), true);
    VALUES(gradient_of(cr_cumprod(run, 0), run), 1, 8, 0, 0);
    cr_tensor *missing = cr_requires_grad_(OF(1, NAN, 3), true), *lost = cr_requires_grad_(OF(-inf, 1), true);
    VALUES(gradient_of(cr_nansum(missing, CR_ALL, false), missing), 1, 0, 1);
    VALUES(gradient_of(cr_logcumsumexp(lost, 0), lost), 0, 1);
    cr_tensor *tied = cr_requires_grad_(OF(1, 3, 3), true);
    VALUES(gradient_of(cr_max_along(tied, 0, false, NULL), tied), 0, 1, 0);
    cr_tensor *half = cr_requires_grad_(cr_ones(CR_LIST(3), CR_BF16, dev), true);
    VALUES(gradient_of(cr_mean(half, CR_ALL, false), half), 0.333984375, 0.333984375, 0.333984375);
    CHECK(cr_dtype_of(cr_grad(half)) == CR_BF16, "a gradient has its tensor's dtype");
}
TEST(reduction_gradients) { EACH_DEVICE SCOPED(check_reduction_gradients()); }

/* The second derivative of a product is that of its other elements, whether one, two or none of them are 0. */
static void check_second_of_products(void) {
    const double numbers[3][3] = {{2, 3, 5}, {2, 0, 5}, {0, 0, 5}};
    cr_backward_options graph = {.create_graph = true};
    for (int k = 0; k < 3; k++)
        for (int running = 0; running < 2; running++) {
            const double *v = numbers[k];
            const cr_tensor *x = cr_requires_grad_(of(3, v), true),
                            *y = running ? cr_select(cr_cumprod(x, 0), 0, 2) : cr_prod(x, CR_ALL, false);
            cr_tensor *g;
            OK(cr_gradients(1, &y, NULL, 1, &x, &g, &graph));
            VALUES(cr_detach(g), v[1] * v[2], v[0] * v[2], v[0] * v[1]);
            VALUES(gradient_of(cr_select(g, 0, 0), x), 0, v[2], v[1]);
        }
}
TEST(second_of_products) { EACH_DEVICE SCOPED(check_second_of_products()); }

static void check_scans(void) {
    const double inf = INFINITY;
    cr_tensor *index;
    VALUES(cr_cumsum(OF(1, 2, NAN, 4), 0), 1, 3, NAN, NAN);
    VALUES(cr_cumsum(OF(1, inf, -inf, 4, 5), 0), 1, inf, NAN, NAN, NAN);
    VALUES(cr_cumprod(OF(2, 0, inf, 1), -1), 2, 0, NAN, NAN);
    VALUES(cr_logcumsumexp(OF(-inf, 0, 0, inf, 1), 0), -inf, 0, log(2), inf, inf);
    VALUES(cr_cummax(OF(1, 3, 3, NAN, 9, NAN), 0, &index), 1, 3, 3, NAN, NAN, NAN);
    VALUES(index, 0, 1, 2, 3, 3, 5);
    VALUES(cr_cummin(cr_scalar_int(7), -1, &index), 7);
    VALUES(index, 0);
    VALUES(cr_diff(OF(1, 4, 9, 16), 2, 0), 2, 2);
    SHAPE(cr_diff(OF(1, 4), 9, 0), 0);
    VALUES(cr_diff(cr_from((uint8_t[]){3, 1}, CR_LIST(2), CR_U8, dev), 1, 0), 254);
    CHECK(cr_dtype_of(cr_cumsum(cr_ones(CR_LIST(2), CR_BOOL, dev), 0)) == CR_I64, "bool sums as int64");
    cr_tensor *most = cr_cumprod(cr_from((int64_t[]){INT64_MAX, 2}, CR_LIST(2), CR_I64, dev), 0);
    CHECK(cr_item_int(cr_select(most, 0, 1)) == -2, "int64 wraps");
    FAILS(CR_BAD_INDEX, "[cumsum] axis 1 is out of range", cr_cumsum(OF(1), 1));
    FAILS(CR_BAD_TYPE, "[logcumsumexp] needs a floating point tensor",
          cr_logcumsumexp(cr_ones(CR_LIST(2), CR_I64, dev), 0));
    FAILS(CR_BAD_VALUE, "[diff] differences of order -1", cr_diff(OF(1), -1, 0));
    FAILS(CR_BAD_VALUE, "[diff] a 0-d tensor", cr_diff(cr_zeros(CR_ALL, CR_F32, dev), 1, 0));
    FAILS(CR_BAD_VALUE, "[cummax]", cr_cummax(NULL, 0, &index));
    CHECK(!index, "no index without values");
}
TEST(scans) { EACH_DEVICE SCOPED(check_scans()); }

/* Longer than the 65,536 elements after which a kernel may begin a new block: what came before still counts. */
static void check_long_scans(void) {
    enum { N = 3 * 65536 + 1001, AT = 10 };
    for (int dt = CR_U8; dt < CR_DTYPES; dt++)
        for (int64_t columns = 1; columns < 4; columns += 2) {
            cr_scope_begin();
            cr_tensor *x = cr_ones(CR_LIST(N, columns), (cr_dtype)dt, dev);
            REQUIRE(cr_fill_(cr_select(x, 0, AT), 3), "%s", cr_error());
            cr_tensor *behind = cr_slice(cr_cumprod(x, 0), 0, AT, INT64_MAX, 1);
            CHECK(cr_item(cr_all(cr_eq(behind, cr_scalar_int(3)), CR_ALL, false)) == 1,
                  "%s: cumprod of %s, %lld columns", dev->name, cr_dtype_name((cr_dtype)dt), (long long)columns);
            cr_scope_end();
        }
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(N), CR_F32, dev), true), *y = cr_cumsum(x, 0);
    cr_tensor *wrong = cr_ne(gradient_of(y, x), cr_arange(N, 0, -1, CR_F32, dev));
    CHECK(cr_item(cr_select(y, 0, N - 1)) == N, "%s: cumsum ends with %g", dev->name, cr_item(cr_select(y, 0, N - 1)));
    CHECK(cr_item(cr_any(wrong, CR_ALL, false)) == 0, "%s: the gradient of cumsum counts down from %d", dev->name, N);
}
TEST(long_scans) { EACH_DEVICE SCOPED(check_long_scans()); }

/* Every third element of rows that are longer than a piece which a thread takes at once. */
static void check_long_strides(void) {
    enum { N = 150011, AT = 140000 };
    for (int k = 0; k < 3; k++) {
        const cr_dtype dt = (const cr_dtype[]){CR_F32, CR_F64, CR_I64}[k];
        const double sum = N / 2 * (double)N + 2 * N - AT;
        cr_scope_begin();
        cr_tensor *x = cr_slice(cr_full(CR_LIST(2, 3 * N), 3 * N, dt, dev), 1, 1, 3 * N, 3);
        REQUIRE(cr_copy_(x, cr_arange(0, N, 1, dt, dev)) && cr_fill_(cr_select(x, 1, AT), 2 * N), "%s", cr_error());
        cr_tensor *total = cr_sum(x, CR_LIST(1), false), *most = cr_max(x, CR_LIST(1), false);
        cr_tensor *where = cr_argmax(x, 1, false);
        for (int row = 0; row < 2; row++) {
            const double got = cr_item(cr_select(total, 0, row)), top = cr_item(cr_select(most, 0, row));
            const double at = cr_item(cr_select(where, 0, row));
            CHECK(fabs(got - sum) <= (dt == CR_F32 ? 1e-6 * sum : 0), "%s: row %d of %s sums to %.17g, not %.17g",
                  dev->name, row, cr_dtype_name(dt), got, sum);
            CHECK(top == 2 * N && at == AT, "%s: the most of row %d of %s is %g at %g", dev->name, row,
                  cr_dtype_name(dt), top, at);
        }
        cr_scope_end();
    }
}
TEST(long_strides) { EACH_DEVICE SCOPED(check_long_strides()); }

/* Extremes of uint64 on both sides of 2^63, along rows and across columns of every width. */
static void check_unsigned_extremes(void) {
    enum { ROWS = 7 };
    static const uint64_t v[ROWS] = {3, UINT64_MAX - 1, 0, (uint64_t)1 << 63, UINT64_MAX, 7, INT64_MAX};
    static uint64_t x[ROWS * 1031];
    for (int k = 0; k < 5; k++) {
        const int64_t columns = (const int64_t[]){1, 2, 67, 300, 1031}[k];
        for (int64_t i = 0; i < ROWS * columns; i++) x[i] = v[(i / columns + i % columns) % ROWS];
        cr_scope_begin();
        cr_tensor *t = cr_from(x, CR_LIST(ROWS, columns), CR_U64, dev), *turned = cr_transpose(t, 0, 1), *index;
        for (int across = 0; across < 2; across++) {
            const cr_tensor *from = across ? turned : t;
            cr_tensor *top = cr_max(from, CR_LIST(across), false), *low = cr_min(from, CR_LIST(across), false);
            cr_tensor *at = cr_argmax(from, across, false), *where = cr_argmin(from, across, false);
            cr_tensor *run = cr_select(cr_cummax(from, across, &index), across, -1);
            cr_tensor *down = cr_select(cr_cummin(from, across, &index), across, -1);
            for (int64_t i = 0; i < columns; i++) {
                uint64_t most = 0, least = 0;
                OK(cr_read(cr_select(top, 0, i), CR_U64, &most, 8));
                OK(cr_read(cr_select(low, 0, i), CR_U64, &least, 8));
                CHECK(most == UINT64_MAX && least == 0, "%s: column %lld of %lld from %llu to %llu", dev->name,
                      (long long)i, (long long)columns, (unsigned long long)least, (unsigned long long)most);
                CHECK(cr_item_int(cr_select(at, 0, i)) == (4 + ROWS - i % ROWS) % ROWS &&
                      cr_item_int(cr_select(where, 0, i)) == (2 + ROWS - i % ROWS) % ROWS,
                      "%s: positions in column %lld of %lld", dev->name, (long long)i, (long long)columns);
            }
            cr_tensor *apart = cr_logical_or(cr_ne(top, run), cr_ne(low, down));
            CHECK(cr_item(cr_any(apart, CR_ALL, false)) == 0, "%s: cummax or cummin of %lld columns", dev->name,
                  (long long)columns);
        }
        cr_scope_end();
    }
}
TEST(unsigned_extremes) { EACH_DEVICE SCOPED(check_unsigned_extremes()); }

TEST(nothing_leaks) {
    CHECK_LEAKS(check_reduction_gradients, check_reduction_layouts, check_second_of_products, check_scans);
}
