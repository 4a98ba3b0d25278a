/* test_matmul.c - the cpu device's products against plain loops in double: sizes, strides, dtypes,
 * bf16, instruction sets, threads. */
#include "box.h"

#include <float.h>

#include "core/os.h"
#include "dev/cpu/isa.h"
#include "dev/cpu/onednn.h"
#include "dev/cpu/product.h"
#include "use_isa.h"

/* ---- the truth */

/* bf16: of f32, rounded operands */
typedef struct trial { const char *note; cr_dtype dt; int64_t m, n, k; bool accumulate, bias, bf16; } trial;

static double tolerance(cr_dtype dt, int64_t k) {
    double sum = (8 + sqrt((double)k)) * (dt == CR_F64 ? 0x1p-53 : 0x1p-24);
    return sum + (dt == CR_F16 ? 0x1p-11 : dt == CR_BF16 ? 0x1p-8 : 0);
}

/* The float matrix of x at batch position `at` as doubles, row by row; of b the transpose, so that k is contiguous. */
static double *doubles(const trial *t, const box *x, const int64_t *batch, bool transposed) {
    int n = x->t.ndim;
    int64_t at[CR_MAX_DIMS], outer = x->t.shape[n - 2], inner = x->t.shape[n - 1];
    memcpy(at, batch, sizeof at);
    double *out = malloc((size_t)(outer * inner + 1) * sizeof *out);
    for (at[n - 2] = 0; at[n - 2] < outer; at[n - 2]++)
        for (at[n - 1] = 0; at[n - 1] < inner; at[n - 1]++) {
            double v = cr_load_f64(box_at(x, at), x->t.dtype);
            out[transposed ? at[n - 1] * outer + at[n - 2] : at[n - 2] * inner + at[n - 1]] =
                t->bf16 ? (double)cr_bf16_to_f32(cr_f32_to_bf16((float)v)) : v;
        }
    return out;
}

static void check_float(const trial *t, double got, double was, double bias, const double *a, const double *b,
                        const int64_t *at, int n) {
    long double want = (long double)was + (long double)bias;
    double sum = fabs(was) + fabs(bias), plain = 0;
    if (t->dt == CR_F64 && t->k <= 300)
        for (int64_t p = 0; p < t->k; p++) {
            want += (long double)a[p] * (long double)b[p];
            sum += fabs(a[p] * b[p]);
        }
    else for (int64_t p = 0; p < t->k; p++) { double x = a[p] * b[p]; plain += x; sum += fabs(x); }
    want += (long double)plain;
    /* long double is slow; without, the truth errs as much */
    double limit = tolerance(t->dt, t->k) * sum * (t->dt == CR_F64 && t->k > 300 ? 2 : 1);
    CHECK(fabsl((long double)got - want) <= (long double)limit,
          "%s %s (%lld %lld %lld) acc %d bias %d at (%lld, %lld): %.9g, wanted %.9g +- %.3g", t->note,
          cr_dtype_name(t->dt), (long long)t->m, (long long)t->n, (long long)t->k, t->accumulate, t->bias,
          (long long)at[n - 2], (long long)at[n - 1], got, (double)want, limit);
}

/* Integers wrap to the dtype at the end, which is the same as wrapping at every step. */
static void check_integer(const trial *t, const void *got, const void *was, const void *bias, const char *a,
                          int64_t step_a, const char *b, int64_t step_b, const int64_t *at, int n) {
    bool is_bool = t->dt == CR_BOOL;
    uint64_t want = t->accumulate ? (uint64_t)cr_load_i64(was, t->dt) : 0,
             add = bias ? (uint64_t)cr_load_i64(bias, t->dt) : 0, wide = 0;
    for (int64_t p = 0; p < t->k; p++, a += step_a, b += step_b) {
        uint64_t x = (uint64_t)cr_load_i64(a, t->dt), y = (uint64_t)cr_load_i64(b, t->dt);
        want = is_bool ? want | (x & y) : want + x * y;
    }
    cr_store_i64(&wide, t->dt, (int64_t)(is_bool ? want | add : want + add));
    CHECK(!memcmp(&wide, got, cr_dtype_size(t->dt)), "%s %s (%lld %lld %lld) at (%lld, %lld): %lld, wanted %lld",
          t->note, cr_dtype_name(t->dt), (long long)t->m, (long long)t->n, (long long)t->k, (long long)at[n - 2],
          (long long)at[n - 1], (long long)cr_load_i64(got, t->dt), (long long)cr_load_i64(&wide, t->dt));
}

static void check_matrix(const trial *t, const box *c, const box *a, const box *b, const box *bias,
                         const int64_t *batch) {
    int n = c->t.ndim;
    bool is_float = cr_dtype_is_float(t->dt);
    int64_t at[CR_MAX_DIMS], size = (int64_t)cr_dtype_size(t->dt);
    memcpy(at, batch, sizeof at);
    double *da = is_float ? doubles(t, a, batch, false) : NULL, *db = is_float ? doubles(t, b, batch, true) : NULL;
    for (at[n - 2] = 0; at[n - 2] < t->m; at[n - 2]++)
        for (at[n - 1] = 0; at[n - 1] < t->n; at[n - 1]++) {
            const char *got = box_at(c, at), *was = (const char *)c->before + (got - (const char *)c->memory),
                       *add = t->bias ? box_at(bias, at + n - 1) : NULL;
            if (is_float) {
                check_float(t, cr_load_f64(got, t->dt), t->accumulate ? cr_load_f64(was, t->dt) : 0,
                            add ? cr_load_f64(add, t->dt) : 0, da + at[n - 2] * t->k, db + at[n - 1] * t->k, at, n);
                continue;
            }
            int64_t ia[CR_MAX_DIMS], ib[CR_MAX_DIMS];
            memcpy(ia, at, sizeof ia); memcpy(ib, at, sizeof ib);
            ia[n - 1] = ib[n - 2] = 0;
            check_integer(t, got, was, add, box_at(a, ia), a->t.strides[n - 1] * size, box_at(b, ib),
                          b->t.strides[n - 2] * size, at, n);
        }
    free(da); free(db);
}

static void check_values(const trial *t, const box *c, const box *a, const box *b, const box *bias) {
    int64_t batch[CR_MAX_DIMS] = {0};
    if (c->t.numel) do check_matrix(t, c, a, b, bias, batch); while (box_next(batch, c->t.ndim - 2, c->t.shape));
}

/* Runs with two threads and with one, compares the bits, the guards and every value. */
static void check_product(const trial *t, box *c, box *a, box *b, box *bias) {
    const cr_array none = {0}, *tb = bias->memory ? box_array(bias) : &none;
    const int how = (t->accumulate ? CR_MATMUL_ADD : 0) | (t->bf16 ? CR_MATMUL_BF16 : 0);
    cr_set_num_threads(2);
    OK(cr_cpu_matmul(&(cr_matmul_args){*box_array(c), *box_array(a), *box_array(b), *tb, how}));
    unsigned char *two = malloc(c->bytes);
    memcpy(two, c->memory, c->bytes);
    memcpy(c->memory, c->before, c->bytes);
    cr_set_num_threads(1);
    OK(cr_cpu_matmul(&(cr_matmul_args){*box_array(c), *box_array(a), *box_array(b), *tb, how}));
    CHECK(!memcmp(two, c->memory, c->bytes), "%s %s (%lld %lld %lld): one thread and two differ", t->note,
          cr_dtype_name(t->dt), (long long)t->m, (long long)t->n, (long long)t->k);
    free(two);
    CHECK(!box_spilled(c), "%s %s (%lld %lld %lld): %ld bytes written outside of c", t->note, cr_dtype_name(t->dt),
          (long long)t->m, (long long)t->n, (long long)t->k, box_spilled(c));
    check_values(t, c, a, b, bias);
    test_ran_on(cr_cpu());
}

/* ---- one matrix in many layouts */

enum { PLAIN, TRANSPOSED, PADDED, SPARSE, REPEATED, LAYOUTS };
static void layout(int kind, int64_t rows, int64_t columns, int64_t strides[2]) {
    static const struct { int64_t pad, step; } how[LAYOUTS] = {{0, 1}, {0, 1}, {5, 1}, {3, 2}, {0, 1}};
    strides[1] = how[kind].step;
    strides[0] = columns * how[kind].step + how[kind].pad;
    if (kind == TRANSPOSED) { strides[0] = 1; strides[1] = rows; }
    if (kind == REPEATED) strides[0] = 0;
}

static void try_product(trial t, int la, int lb, int lc) {
    int64_t sa[2], sb[2], sc[2], one[1] = {1};
    layout(la, t.m, t.k, sa); layout(lb, t.k, t.n, sb); layout(lc, t.m, t.n, sc);
    box a = box_make(t.dt, 2, (int64_t[]){t.m, t.k}, sa), b = box_make(t.dt, 2, (int64_t[]){t.k, t.n}, sb);
    box c = box_make(t.dt, 2, (int64_t[]){t.m, t.n}, sc), bias = {0};
    if (t.bias) bias = box_make(t.dt, 1, (int64_t[]){t.n}, one);
    check_product(&t, &c, &a, &b, &bias);
    box_drop(&a); box_drop(&b); box_drop(&c); box_drop(&bias);
}

static const int64_t small[][3] = {
    {1, 1, 1},      {1, 7, 5},      {7, 1, 5},      {5, 3, 0},       {1, 3, 0},     {0, 3, 4},
    {3, 0, 4},      {2, 3, 1},      {4, 4, 4},      {13, 17, 19},    {14, 32, 16},  {15, 33, 31},
    {29, 64, 47},   {64, 64, 64},   {65, 67, 129},  {100, 1, 1000},  {1, 513, 257}, {1, 70, 4001},
    {97, 101, 103}, {6, 700, 1100}, {20, 1500, 70}, {131, 257, 300}, {13, 33, 97},  {3, 6, 130},
};

TEST(matmul_small_float) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_F16, CR_BF16};
    box_state = test_seed();
    for (size_t s = 0; s < sizeof small / sizeof *small; s++)
        for (int d = 0; d < 4; d++)
            for (int la = 0; la < LAYOUTS; la++)
                for (int lb = 0; lb < LAYOUTS; lb++) {
                    bool big = small[s][0] * small[s][1] * small[s][2] > 1000000;
                    if (big && !test_full() && box_draw(8)) continue;
                    try_product((trial){"small", dtypes[d], small[s][0], small[s][1], small[s][2], box_draw(2),
                                        box_draw(2), false},
                                la, lb, box_draw(2) ? PLAIN : PADDED);
                }
    for (int d = 0; d < 4; d++)                     /* longer than a block of halves */
        for (int add = 0; add < 2; add++)
            try_product((trial){"long row", dtypes[d], 1, 9001, 3, true, add, false}, PLAIN, PLAIN, PLAIN);
}

/* Operands rounded to bf16: by the processor's own instructions, and, with an instruction set asked
 * for, on the way into f32 products. */
static void rounded_products(const char *note) {
    box_state = test_seed();
    for (size_t s = 0; s < sizeof small / sizeof *small; s++)
        for (int la = 0; la < LAYOUTS; la++)
            for (int lb = 0; lb < LAYOUTS; lb++) {
                bool big = small[s][0] * small[s][1] * small[s][2] > 1000000;
                if (big && !test_full() && box_draw(4)) continue;
                try_product(
                    (trial){note, CR_F32, small[s][0], small[s][1], small[s][2], box_draw(2), box_draw(2), true}, la,
                    lb, box_draw(2) ? PLAIN : PADDED);
            }
    try_product((trial){note, CR_F32, 301, 530, 1301, true, true, true}, TRANSPOSED, PLAIN, PADDED);
    try_product((trial){note, CR_F32, 530, 301, 1301, false, true, true}, PLAIN, TRANSPOSED, PLAIN);
    try_product((trial){note, CR_BF16, 301, 530, 1301, true, true, false}, TRANSPOSED, PLAIN, PADDED);
    try_product((trial){note, CR_BF16, 530, 301, 1301, false, true, false}, PLAIN, TRANSPOSED, PLAIN);
}
TEST(matmul_bf16) {
    rounded_products(cr_cpu_bf16() ? "pairs" : "rounded");
    if (!cr_cpu_bf16()) return;
    test_use_isa(cr_cpu_isa());                     /* no pairs of bf16 */
    rounded_products("rounded");
    test_use_isa(-1);
}

/* The thread's mode through the public operations: values and gradients are those of rounded operands,
 * and no other thread's or later products change. */
static cr_tensor *rounded(const cr_tensor *x) {
    return cr_to(cr_to(x, CR_BF16, cr_device_of(x)), CR_F32, cr_device_of(x));
}

static void same_values(const char *what, const cr_tensor *x, const cr_tensor *y) {
    CHECK(cr_item(cr_max(cr_abs(cr_sub(x, y)), CR_ALL, false)) <= 1e-5 * cr_item(cr_max(cr_abs(y), CR_ALL, false)),
          "%s on %s: %g off", what, cr_device_name(cr_device_of(x)),
          cr_item(cr_max(cr_abs(cr_sub(x, y)), CR_ALL, false)));
}

static void public_mode(const cr_device *dev) {
    cr_generator *r = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_requires_grad_(cr_randn(CR_LIST(2, 17, 40), CR_F32, dev, r), true),
              *w = cr_requires_grad_(cr_randn(CR_LIST(29, 40), CR_F32, dev, r), true);
    cr_tensor *b = cr_randn(CR_LIST(29), CR_F32, dev, r), *g = cr_randn(CR_LIST(2, 17, 29), CR_F32, dev, r);
    CHECK(cr_set_f32_products(CR_MEDIUM) == CR_HIGHEST, "bf16 products were on");
    cr_tensor *y = cr_linear(x, w, b), *z = cr_matmul(x, cr_transpose(w, 0, 1));
    OK(cr_backward(y, g, NULL));
    FAILS(CR_BAD_VALUE, "7 is not a precision", cr_set_f32_products((cr_precision)7));
    CHECK(cr_set_f32_products(CR_HIGHEST) == CR_MEDIUM, "bf16 products were off");
    cr_tensor *rx = cr_reshape(rounded(x), CR_LIST(34, 40)), *rw = rounded(w),
              *rg = cr_reshape(rounded(g), CR_LIST(34, 29));
    same_values("linear", cr_reshape(y, CR_LIST(34, 29)), cr_linear(rx, rw, b));
    same_values("matmul", cr_reshape(z, CR_LIST(34, 29)), cr_matmul(rx, cr_transpose(rw, 0, 1)));
    same_values("dx", cr_reshape(cr_grad(x), CR_LIST(34, 40)), cr_matmul(rg, rw));
    same_values("dw", cr_grad(w), cr_matmul(cr_transpose(rg, 0, 1), rx));
    cr_tensor *full = cr_linear(x, w, b);
    CHECK(cr_item(cr_max(cr_abs(cr_sub(full, y)), CR_ALL, false)) > 1e-4, "%s: nothing was rounded",
          cr_device_name(dev));
    cr_scope_end();
    cr_generator_free(r);
    test_ran_on(dev);
}
TEST(matmul_bf16_mode) { public_mode(cr_cpu()); public_mode(cr_ref()); }

/* Values that are not finite or not normal, through rounding: NaN stays, infinity and 0 give their products,
 * the largest number becomes infinity. */
static void special_operands(void) {
    const float inf = INFINITY, tie = 1.00390625f,
                x[] = {NAN, inf, -inf, FLT_MAX, tie, 1.01171875f, 1.00390637f, -0.0f},
                want[] = {NAN, inf, -inf, inf, 1, 1.015625f, 1.0078125f, 0};
    enum { N = sizeof x / sizeof *x };
    for (int i = 0; i < N; i++) {
        int64_t shape[2] = {33, 40}, strides[2] = {40, 1}, square[2] = {40, 40};
        box a = box_make(CR_F32, 2, shape, strides), b = box_make(CR_F32, 2, square, strides),
            c = box_make(CR_F32, 2, shape, strides);
        float *pa = cr_array_data(box_array(&a)), *pb = cr_array_data(box_array(&b)),
              *pc = cr_array_data(box_array(&c));
        for (int p = 0; p < 33 * 40; p++) pa[p] = 0;
        for (int p = 0; p < 40 * 40; p++) pb[p] = 1;
        pa[5 * 40 + 7] = x[i];
        OK(cr_cpu_matmul(&(cr_matmul_args){.c = c.t, .a = a.t, .b = b.t, .how = CR_MATMUL_BF16}));
        for (int r = 0; r < 33; r++)
            for (int q = 0; q < 40; q++) {
                float y = r == 5 ? want[i] : 0, got = pc[r * 40 + q];
                CHECK(isnan(y) ? isnan(got) : got == y, "%g times 1 at (%d, %d): %g, wanted %g", (double)x[i], r, q,
                      (double)got, (double)y);
            }
        box_drop(&a); box_drop(&b); box_drop(&c);
    }
}
TEST(matmul_bf16_special) {
    special_operands();
    test_use_isa(cr_cpu_isa());                     /* no pairs of bf16 */
    special_operands();
    test_use_isa(-1);
}

TEST(matmul_integers) {
    box_state = test_seed();
    for (size_t s = 0; s < sizeof small / sizeof *small; s++)
        for (int dt = 0; dt < CR_F16; dt++) {
            bool big = small[s][0] * small[s][1] * small[s][2] > 1000000;
            if (big && !test_full() && box_draw(3)) continue;
            for (int i = 0; i < 4; i++)
                try_product((trial){"integers", (cr_dtype)dt, small[s][0], small[s][1], small[s][2], box_draw(2),
                                    box_draw(2), false},
                            (int)box_draw(LAYOUTS), (int)box_draw(LAYOUTS), box_draw(2) ? PLAIN : PADDED);
        }
}

/* Large enough for tiles, for packing, for oneDNN, for parts of k; and rows that overlap, which oneDNN
 * does not take. */
static void large_products(const char *note) {
    static const int64_t large[][3] = {{512, 521, 512}, {256, 640, 1000}, {300, 1030, 700}, {640, 100, 1300},
                                       {3, 5, 40000},   {1, 1, 300000},   {40, 50, 20001},  {1, 3001, 700}};
    box_state = test_seed();
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (int i = 0; i < (test_full() ? 12 : 3); i++) {
            trial t = {note,        i % 3 == 2 ? (cr_dtype[]){CR_F64, CR_F16, CR_BF16}[box_draw(3)] : CR_F32,
                       large[s][0], large[s][1],
                       large[s][2], box_draw(2),
                       box_draw(2), false};
            t.bf16 = t.dt == CR_F32 && box_draw(3) == 0;
            static const int layouts[][2] = {{PLAIN, PLAIN},   {PLAIN, TRANSPOSED}, {TRANSPOSED, PLAIN},
                                             {PADDED, PADDED}, {SPARSE, PLAIN},     {REPEATED, TRANSPOSED}};
            const int *l = layouts[(size_t)i < 2 ? (size_t)i : (size_t)box_draw(6)];
            try_product(t, l[0], l[1], box_draw(2) ? PLAIN : PADDED);
        }
    try_product((trial){note, CR_F32, 250, 530, 610, true, true, false}, TRANSPOSED, PLAIN, PADDED);
    try_product((trial){note, CR_F32, 260, 540, 600, false, true, false}, PLAIN, REPEATED, PLAIN);
    try_product((trial){note, CR_F32, 260, 540, 600, true, false, false}, REPEATED, PLAIN, PADDED);
}
TEST(matmul_large_own) { bool was = cr_onednn_allow(false); large_products("own"); cr_onednn_allow(was); }
TEST(matmul_large_onednn) {
    cr_onednn_allow(true);
    if (!cr_onednn_ready()) { SKIP(cr_cpu_engine_info()); }
    large_products("oneDNN");
    CHECK(!strncmp(cr_cpu_engine_info(), "oneDNN 3.", 9), "engine: %s", cr_cpu_engine_info());
}

/* ---- batches */

TEST(matmul_batches) {
    /* a, b: has it the axis, or stride 0? */
    static const struct { int n; int64_t batch[3]; bool a[3], b[3]; int64_t m, n_, k;
    } cases[] = {
        {1, {5}, {1}, {1}, 7, 11, 13},
        {1, {5}, {1}, {0}, 7, 11, 13},
        {1, {5}, {0}, {1}, 7, 11, 13},
        {1, {3}, {0}, {0}, 4, 6, 5},
        {2, {2, 3}, {1, 1}, {0, 0}, 17, 9, 8},
        {2, {2, 3}, {1, 0}, {0, 1}, 1, 9, 8},
        {2, {2, 3}, {0, 1}, {1, 1}, 19, 1, 8},
        {2, {2, 0}, {1, 1}, {1, 1}, 3, 4, 5},
        {1, {12}, {1}, {0}, 64, 96, 128},
        {1, {48}, {1}, {1}, 64, 64, 64},
        {3, {2, 1, 5}, {1, 1, 1}, {1, 0, 1}, 33, 65, 40},
        {2, {40, 50}, {1, 1}, {1, 1}, 3, 5, 4},
        {1, {7}, {1}, {0}, 1, 300, 200},
        {1, {7}, {1}, {1}, 1, 300, 200},
        {2, {3, 4}, {1, 1}, {1, 1}, 65, 1, 64},
        {1, {3}, {1}, {1}, 100, 200, 150},
    };
    box_state = test_seed();
    for (size_t s = 0; s < sizeof cases / sizeof *cases; s++)
        for (int i = 0; i < 12; i++) {
            int nb = cases[s].n, n = nb + 2;
            int64_t shape[3][5], strides[3][5], m = cases[s].m, nn = cases[s].n_, k = cases[s].k, one[1] = {1};
            trial t = {"batch",     (cr_dtype[]){CR_F32, CR_F32, CR_F64, CR_BF16, CR_I32, CR_F16}[i % 6],
                       m,           nn,
                       k,           box_draw(2),
                       box_draw(2), i % 6 == 1};
            int64_t rows[3] = {m, k, m}, columns[3] = {k, nn, nn};
            for (int x = 0; x < 3; x++) {
                layout(x < 2 ? (int)box_draw(2) : PLAIN, rows[x], columns[x], strides[x] + nb);
                shape[x][nb] = rows[x]; shape[x][nb + 1] = columns[x];
                int64_t step = rows[x] * columns[x] + box_draw(2);
                for (int d = nb - 1; d >= 0; d--) {
                    bool has = x == 0 ? cases[s].a[d] : x == 1 ? cases[s].b[d] : true;
                    shape[x][d] = cases[s].batch[d];
                    strides[x][d] = has ? step : 0;
                    if (has) step *= cases[s].batch[d];
                }
            }
            /* c as (M, B, N) */
            if (i % 2 && nb == 1) { strides[2][0] = nn + 1; strides[2][1] = (nn + 1) * cases[s].batch[0]; }
            box a = box_make(t.dt, n, shape[0], strides[0]), b = box_make(t.dt, n, shape[1], strides[1]),
                c = box_make(t.dt, n, shape[2], strides[2]), bias = {0};
            if (t.bias) bias = box_make(t.dt, 1, &nn, one);
            check_product(&t, &c, &a, &b, &bias);
            box_drop(&a); box_drop(&b); box_drop(&c); box_drop(&bias);
        }
}

/* ---- every instruction set that this processor has, kernel by kernel */

static void check_kernel(const struct cr_isa_kernels *set, bool f64, int kernel, int64_t m, int64_t n, int64_t k) {
    const cr_product_kernels *kernels = f64 ? &set->products->f64 : &set->products->f32;
    trial t = {(const char *[]){"direct", "packed", "row"}[kernel],
               f64 ? CR_F64 : CR_F32,
               m,
               n,
               k,
               box_draw(2),
               box_draw(2),
               false};
    int64_t sa[2], sb[2], sc[2], one[1] = {1};
    layout((int)box_draw(LAYOUTS), m, k, sa);
    layout(kernel == 0 ? (box_draw(2) ? PLAIN : PADDED) : (int)box_draw(LAYOUTS), k, n, sb);
    layout(PADDED, m, n, sc);
    box a = box_make(t.dt, 2, (int64_t[]){m, k}, sa), b = box_make(t.dt, 2, (int64_t[]){k, n}, sb),
        c = box_make(t.dt, 2, (int64_t[]){m, n}, sc), bias = {0};
    if (t.bias) bias = box_make(t.dt, 1, &n, one);
    cr_product w = {m,
                    n,
                    k,
                    cr_array_data(box_array(&a)),
                    cr_array_data(box_array(&b)),
                    cr_array_data(box_array(&c)),
                    t.bias ? cr_array_data(box_array(&bias)) : NULL,
                    sa[0],
                    sa[1],
                    sb[0],
                    sb[1],
                    sc[0],
                    t.accumulate,
                    false,
                    false};
    if (kernel == 0) kernels->direct(&w);
    else if (kernel == 2) kernels->row(&w);
    else CHECK(cr_packed_product(&w, t.dt, false, NULL), "no memory");
    char note[32];
    snprintf(note, sizeof note, "v%d %s", set->isa, t.note);
    t.note = note;
    CHECK(!box_spilled(&c), "%s (%lld %lld %lld): wrote outside of c", note, (long long)m, (long long)n, (long long)k);
    check_values(&t, &c, &a, &b, &bias);
    box_drop(&a); box_drop(&b); box_drop(&c); box_drop(&bias);
    test_ran_on(cr_cpu());
}

TEST(matmul_instruction_sets) {
    static const int sets[] = {0, 2, 3, 4};
    box_state = test_seed();
    for (int s = 0; s < 4; s++) {
        if (!test_use_isa(sets[s])) continue;
        const struct cr_isa_kernels *set = cr_cpu_vec();
        for (int f64 = 0; f64 < 2; f64++) {
            for (int64_t m = 1; m <= 32; m++)
                for (int i = 0; i < 6; i++) check_kernel(set, f64, i % 2, m, 1 + box_draw(80), 1 + box_draw(40));
            for (int i = 0; i < 30; i++) check_kernel(set, f64, 2, 1, 1 + box_draw(5000), 1 + box_draw(80));
            check_kernel(set, f64, 1, 400, 70, 600);
            check_kernel(set, f64, 1, 30, 2100, 300);
        }
    }
    test_use_isa(-1);
}

/* Packing fills its place, zeros included, and nothing behind it: n of width lines, k numbers each, in
 * every layout and whole or not. */
static void check_pack(const char *note, const cr_product_kernels *kernels, bool f64, bool bf16, int64_t width,
                       int64_t n, int64_t k, int how) {
    enum { GUARDS = 1024 };
    const int64_t strides[][2] = {{1, n + 3}, {k + 3, 1}, {2 * k + 1, 2}}, across = strides[how][0],
                  along = strides[how][1];
    const cr_dtype dt = f64 ? CR_F64 : CR_F32;
    int64_t shape[2] = {n, k}, layout_[2] = {across, along}, rows = (k + kernels->per - 1) / kernels->per,
            bytes = rows * width * kernels->size;
    box from = box_make(dt, 2, shape, layout_);
    unsigned char *to = cr_os_aligned(64, (size_t)(bytes + GUARDS));
    memset(to, 0xa5, (size_t)(bytes + GUARDS));
    kernels->pack(to, width, n, k, cr_array_data(box_array(&from)), across, along);
    for (int i = 0; i < GUARDS; i++)
        CHECK(to[bytes + i] == 0xa5, "%s: packing %lld of %lld x %lld, layout %d, wrote behind its end", note,
              (long long)n, (long long)width, (long long)k, how);
    for (int64_t p = 0; p < rows * kernels->per; p++)
        for (int64_t j = 0; j < width; j++) {
            const int64_t at[2] = {j, p};
            double want = j < n && p < k ? cr_load_f64(box_at(&from, at), dt) : 0, got;
            if (bf16) {
                want = (double)cr_bf16_to_f32(cr_f32_to_bf16((float)want));
                got = (double)cr_bf16_to_f32(((const uint16_t *)(const void *)to)[(p / 2 * width + j) * 2 + p % 2]);
            } else got = cr_load_f64(to + (p * width + j) * kernels->size, dt);
            CHECK(got == want, "%s: packing %lld of %lld x %lld, layout %d, at (%lld, %lld): %g, wanted %g", note,
                  (long long)n, (long long)width, (long long)k, how, (long long)j, (long long)p, got, want);
        }
    cr_os_aligned_free(to);
    box_drop(&from);
}

static void check_packing(const char *note, const cr_product_kernels *kernels, bool f64, bool bf16) {
    box_state = test_seed();
    for (int how = 0; how < 3; how++)
        for (int64_t k = 1; k <= 35; k++)
            for (int64_t n = 1; n <= kernels->tile_columns; n++) {
                check_pack(note, kernels, f64, bf16, kernels->tile_columns, n, k, how);
                if (n <= kernels->tile_rows) check_pack(note, kernels, f64, bf16, kernels->panel_width, n, k, how);
            }
    test_ran_on(cr_cpu());
}

TEST(matmul_packing) {
    static const int sets[] = {0, 2, 3, 4};
    for (int s = 0; s < 4; s++) {
        const struct cr_isa_kernels *set = cr_cpu_vec_for(sets[s]);
        char note[16];
        snprintf(note, sizeof note, "v%d", sets[s]);
        if (set) {
            check_packing(note, &set->products->f32, false, false);
            check_packing(note, &set->products->f64, true, false);
        }
    }
#if defined(__x86_64__)
    if (cr_cpu_bf16()) check_packing("pairs", cr_product_pairs(true), false, true);
#endif
}

TEST(matmul_half_conversions) {
    static const int sets[] = {0, 2, 3, 4};
    for (int s = 0; s < 4; s++) {
        const struct cr_isa_kernels *set = cr_cpu_vec_for(sets[s]);
        if (!set) continue;
        static uint16_t in[65536], out[65536];
        static float wide[65536];
        for (int bf16 = 0; bf16 < 2; bf16++) {
            for (int i = 0; i < 65536; i++) in[i] = (uint16_t)i;
            set->conversions->load(CR_LANE_F32, wide, bf16 ? CR_BF16 : CR_F16, in, 1, 65536);
            set->conversions->store(CR_LANE_F32, wide, bf16 ? CR_BF16 : CR_F16, out, 1, 65536);
            for (int i = 0; i < 65536; i++) {
                float want = bf16 ? cr_bf16_to_f32((uint16_t)i) : cr_f16_to_f32((uint16_t)i);
                bool nan = isnan(want);
                CHECK(nan ? isnan(wide[i]) : wide[i] == want, "v%d bf16 %d: %04x is %g, wanted %g", set->isa, bf16,
                      (unsigned)i, (double)wide[i], (double)want);
                CHECK(nan || out[i] == i, "v%d bf16 %d: %04x came back as %04x", set->isa, bf16, (unsigned)i, out[i]);
            }
        }
    }
}
