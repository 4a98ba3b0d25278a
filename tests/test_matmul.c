/* test_matmul.c - the cpu device's products against plain loops in double: sizes, strides, dtypes, engines, instruction sets, threads. */
#include "box.h"

#include "dev/cpu/cpu.h"
#include "dev/cpu/onednn.h"
#include "dev/cpu/product.h"

/* ---- the truth */

typedef struct trial { const char *note; cr_dtype dt; int64_t m, n, k; bool accumulate, bias; } trial;

static double tolerance(cr_dtype dt, int64_t k) {
    double sum = (8 + sqrt((double)k)) * (dt == CR_F64 ? 0x1p-53 : 0x1p-24);
    return sum + (dt == CR_F16 ? 0x1p-11 : dt == CR_BF16 ? 0x1p-8 : 0);
}

/* The float matrix of x at batch position `at` as doubles, row by row; of b the transpose, so that k is contiguous. */
static double *doubles(const box *x, const int64_t *batch, bool transposed) {
    int n = x->t.ndim;
    int64_t at[CR_MAX_DIMS], outer = x->t.shape[n - 2], inner = x->t.shape[n - 1];
    memcpy(at, batch, sizeof at);
    double *out = malloc((size_t)(outer * inner + 1) * sizeof *out);
    for (at[n - 2] = 0; at[n - 2] < outer; at[n - 2]++)
        for (at[n - 1] = 0; at[n - 1] < inner; at[n - 1]++)
            out[transposed ? at[n - 1] * outer + at[n - 2] : at[n - 2] * inner + at[n - 1]] = cr_load_f64(box_at(x, at), (cr_dtype)x->t.dtype);
    return out;
}

static void check_float(const trial *t, double got, double was, double bias, const double *a, const double *b, const int64_t *at, int n) {
    long double want = (long double)was + (long double)bias;
    double sum = fabs(was) + fabs(bias), plain = 0;
    if (t->dt == CR_F64 && t->k <= 300) for (int64_t p = 0; p < t->k; p++) { want += (long double)a[p] * (long double)b[p]; sum += fabs(a[p] * b[p]); }
    else for (int64_t p = 0; p < t->k; p++) { double x = a[p] * b[p]; plain += x; sum += fabs(x); }
    want += (long double)plain;
    double limit = tolerance(t->dt, t->k) * sum * (t->dt == CR_F64 && t->k > 300 ? 2 : 1);      /* long double is slow; without, the truth errs as much */
    CHECK(fabsl((long double)got - want) <= (long double)limit, "%s %s (%lld %lld %lld) acc %d bias %d at (%lld, %lld): %.9g, wanted %.9g +- %.3g", t->note,
          cr_dtype_name(t->dt), (long long)t->m, (long long)t->n, (long long)t->k, t->accumulate, t->bias, (long long)at[n - 2], (long long)at[n - 1], got,
          (double)want, limit);
}

/* Integers wrap to the dtype at the end, which is the same as wrapping at every step. */
static void check_integer(const trial *t, const void *got, const void *was, const void *bias, const char *a, int64_t step_a, const char *b, int64_t step_b,
                          const int64_t *at, int n) {
    bool is_bool = t->dt == CR_BOOL;
    uint64_t want = t->accumulate ? (uint64_t)cr_load_i64(was, t->dt) : 0, add = bias ? (uint64_t)cr_load_i64(bias, t->dt) : 0, wide = 0;
    for (int64_t p = 0; p < t->k; p++, a += step_a, b += step_b) {
        uint64_t x = (uint64_t)cr_load_i64(a, t->dt), y = (uint64_t)cr_load_i64(b, t->dt);
        want = is_bool ? want | (x & y) : want + x * y;
    }
    cr_store_i64(&wide, t->dt, (int64_t)(is_bool ? want | add : want + add));
    CHECK(!memcmp(&wide, got, cr_dtype_size(t->dt)), "%s %s (%lld %lld %lld) at (%lld, %lld): %lld, wanted %lld", t->note, cr_dtype_name(t->dt), (long long)t->m,
          (long long)t->n, (long long)t->k, (long long)at[n - 2], (long long)at[n - 1], (long long)cr_load_i64(got, t->dt), (long long)cr_load_i64(&wide, t->dt));
}

static void check_matrix(const trial *t, const box *c, const box *a, const box *b, const box *bias, const int64_t *batch) {
    int n = c->t.ndim;
    bool is_float = cr_dtype_is_float(t->dt);
    int64_t at[CR_MAX_DIMS], size = (int64_t)cr_dtype_size(t->dt);
    memcpy(at, batch, sizeof at);
    double *da = is_float ? doubles(a, batch, false) : NULL, *db = is_float ? doubles(b, batch, true) : NULL;
    for (at[n - 2] = 0; at[n - 2] < t->m; at[n - 2]++)
        for (at[n - 1] = 0; at[n - 1] < t->n; at[n - 1]++) {
            const char *got = box_at(c, at), *was = (const char *)c->before + (got - (const char *)c->memory), *add = t->bias ? box_at(bias, at + n - 1) : NULL;
            if (is_float) {
                check_float(t, cr_load_f64(got, t->dt), t->accumulate ? cr_load_f64(was, t->dt) : 0, add ? cr_load_f64(add, t->dt) : 0,
                            da + at[n - 2] * t->k, db + at[n - 1] * t->k, at, n);
                continue;
            }
            int64_t ia[CR_MAX_DIMS], ib[CR_MAX_DIMS];
            memcpy(ia, at, sizeof ia); memcpy(ib, at, sizeof ib);
            ia[n - 1] = ib[n - 2] = 0;
            check_integer(t, got, was, add, box_at(a, ia), a->t.strides[n - 1] * size, box_at(b, ib), b->t.strides[n - 2] * size, at, n);
        }
    free(da); free(db);
}

static void check_values(const trial *t, const box *c, const box *a, const box *b, const box *bias) {
    int64_t batch[CR_MAX_DIMS] = {0};
    if (c->t.numel) do check_matrix(t, c, a, b, bias, batch); while (box_next(batch, c->t.ndim - 2, c->t.shape));
}

/* Runs with two threads and with one, compares the bits, the guards and every value. */
static void check_product(const trial *t, box *c, box *a, box *b, box *bias) {
    cr_tensor *tb = bias->memory ? box_tensor(bias) : NULL;
    cr_set_num_threads(2);
    OK(cr_cpu_matmul(box_tensor(c), box_tensor(a), box_tensor(b), tb, t->accumulate));
    unsigned char *two = malloc(c->bytes);
    memcpy(two, c->memory, c->bytes);
    memcpy(c->memory, c->before, c->bytes);
    cr_set_num_threads(1);
    OK(cr_cpu_matmul(box_tensor(c), box_tensor(a), box_tensor(b), tb, t->accumulate));
    CHECK(!memcmp(two, c->memory, c->bytes), "%s %s (%lld %lld %lld): one thread and two differ", t->note, cr_dtype_name(t->dt),
          (long long)t->m, (long long)t->n, (long long)t->k);
    free(two);
    CHECK(!box_spilled(c), "%s %s (%lld %lld %lld): %ld bytes written outside of c", t->note, cr_dtype_name(t->dt), (long long)t->m, (long long)t->n,
          (long long)t->k, box_spilled(c));
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
    {1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {5, 3, 0}, {1, 3, 0}, {0, 3, 4}, {3, 0, 4}, {2, 3, 1}, {4, 4, 4}, {13, 17, 19}, {14, 32, 16}, {15, 33, 31},
    {29, 64, 47}, {64, 64, 64}, {65, 67, 129}, {100, 1, 1000}, {1, 513, 257}, {1, 70, 4001}, {97, 101, 103}, {6, 700, 1100}, {20, 1500, 70}, {131, 257, 300},
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
                    try_product((trial){"small", dtypes[d], small[s][0], small[s][1], small[s][2], box_draw(2), box_draw(2)}, la, lb, box_draw(2) ? PLAIN : PADDED);
                }
}

TEST(matmul_integers) {
    box_state = test_seed();
    for (size_t s = 0; s < sizeof small / sizeof *small; s++)
        for (int dt = 0; dt < CR_F16; dt++) {
            bool big = small[s][0] * small[s][1] * small[s][2] > 1000000;
            if (big && !test_full() && box_draw(3)) continue;
            for (int i = 0; i < 4; i++)
                try_product((trial){"integers", (cr_dtype)dt, small[s][0], small[s][1], small[s][2], box_draw(2), box_draw(2)},
                            (int)box_draw(LAYOUTS), (int)box_draw(LAYOUTS), box_draw(2) ? PLAIN : PADDED);
        }
}

/* Large enough for tiles, for oneDNN, for parts of k; and rows that overlap, which oneDNN does not take. */
static void large_products(const char *note) {
    static const int64_t large[][3] = {{512, 521, 512}, {256, 640, 1000}, {300, 1030, 700}, {640, 100, 1300}, {3, 5, 40000}, {1, 1, 300000}, {40, 50, 20001}, {1, 3001, 700}};
    box_state = test_seed();
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (int i = 0; i < (test_full() ? 12 : 3); i++) {
            trial t = {note, i % 3 == 2 ? (cr_dtype[]){CR_F64, CR_F16, CR_BF16}[box_draw(3)] : CR_F32, large[s][0], large[s][1], large[s][2], box_draw(2), box_draw(2)};
            static const int layouts[][2] = {{PLAIN, PLAIN}, {PLAIN, TRANSPOSED}, {TRANSPOSED, PLAIN}, {PADDED, PADDED}, {SPARSE, PLAIN}, {REPEATED, TRANSPOSED}};
            const int *l = layouts[(size_t)i < 2 ? (size_t)i : (size_t)box_draw(6)];
            try_product(t, l[0], l[1], box_draw(2) ? PLAIN : PADDED);
        }
    try_product((trial){note, CR_F32, 250, 530, 610, true, true}, TRANSPOSED, PLAIN, PADDED);
    try_product((trial){note, CR_F32, 260, 540, 600, false, true}, PLAIN, REPEATED, PLAIN);
    try_product((trial){note, CR_F32, 260, 540, 600, true, false}, REPEATED, PLAIN, PADDED);
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
    static const struct { int n; int64_t batch[3]; bool a[3], b[3]; int64_t m, n_, k; } cases[] = {     /* a, b: has it the axis, or stride 0? */
        {1, {5}, {1}, {1}, 7, 11, 13}, {1, {5}, {1}, {0}, 7, 11, 13}, {1, {5}, {0}, {1}, 7, 11, 13}, {1, {3}, {0}, {0}, 4, 6, 5},
        {2, {2, 3}, {1, 1}, {0, 0}, 17, 9, 8}, {2, {2, 3}, {1, 0}, {0, 1}, 1, 9, 8}, {2, {2, 3}, {0, 1}, {1, 1}, 19, 1, 8}, {2, {2, 0}, {1, 1}, {1, 1}, 3, 4, 5},
        {1, {12}, {1}, {0}, 64, 96, 128}, {1, {48}, {1}, {1}, 64, 64, 64}, {3, {2, 1, 5}, {1, 1, 1}, {1, 0, 1}, 33, 65, 40}, {2, {40, 50}, {1, 1}, {1, 1}, 3, 5, 4},
        {1, {7}, {1}, {0}, 1, 300, 200}, {1, {7}, {1}, {1}, 1, 300, 200}, {2, {3, 4}, {1, 1}, {1, 1}, 65, 1, 64}, {1, {3}, {1}, {1}, 100, 200, 150},
    };
    box_state = test_seed();
    for (size_t s = 0; s < sizeof cases / sizeof *cases; s++)
        for (int i = 0; i < 12; i++) {
            int nb = cases[s].n, n = nb + 2;
            int64_t shape[3][5], strides[3][5], m = cases[s].m, nn = cases[s].n_, k = cases[s].k, one[1] = {1};
            trial t = {"batch", (cr_dtype[]){CR_F32, CR_F32, CR_F64, CR_BF16, CR_I32, CR_F16}[i % 6], m, nn, k, box_draw(2), box_draw(2)};
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
            if (i % 2 && nb == 1) { strides[2][0] = nn + 1; strides[2][1] = (nn + 1) * cases[s].batch[0]; }     /* c as (M, B, N) */
            box a = box_make(t.dt, n, shape[0], strides[0]), b = box_make(t.dt, n, shape[1], strides[1]), c = box_make(t.dt, n, shape[2], strides[2]), bias = {0};
            if (t.bias) bias = box_make(t.dt, 1, &nn, one);
            check_product(&t, &c, &a, &b, &bias);
            box_drop(&a); box_drop(&b); box_drop(&c); box_drop(&bias);
        }
}

/* ---- every instruction set that this processor has, kernel by kernel */

static void check_kernel(const cr_product_isa *set, bool f64, int kernel, int64_t m, int64_t n, int64_t k) {
    const cr_product_kernels *kernels = f64 ? &set->f64 : &set->f32;
    trial t = {(const char *[]){"direct", "blocked", "row"}[kernel], f64 ? CR_F64 : CR_F32, m, n, k, box_draw(2), box_draw(2)};
    int64_t sa[2], sb[2], sc[2], one[1] = {1};
    layout((int)box_draw(LAYOUTS), m, k, sa); layout(kernel == 0 ? (box_draw(2) ? PLAIN : PADDED) : (int)box_draw(LAYOUTS), k, n, sb); layout(PADDED, m, n, sc);
    box a = box_make(t.dt, 2, (int64_t[]){m, k}, sa), b = box_make(t.dt, 2, (int64_t[]){k, n}, sb), c = box_make(t.dt, 2, (int64_t[]){m, n}, sc), bias = {0};
    if (t.bias) bias = box_make(t.dt, 1, &n, one);
    cr_product w = {m, n, k, cr_tensor_data(box_tensor(&a)), cr_tensor_data(box_tensor(&b)), cr_tensor_data(box_tensor(&c)), t.bias ? cr_tensor_data(box_tensor(&bias)) : NULL,
                    sa[0], sa[1], sb[0], sb[1], sc[0], t.accumulate};
    if (kernel == 0) kernels->direct(&w);
    else if (kernel == 2) kernels->row(&w);
    else {
        size_t bytes = kernels->scratch_bytes(m, n, k);
        unsigned char *scratch = cr_cpu_take(bytes + 64);
        memset(scratch + bytes, 0x77, 64);
        kernels->blocked(&w, scratch);
        long bad = 0;
        for (int i = 0; i < 64; i++) bad += scratch[bytes + (size_t)i] != 0x77;
        CHECK(!bad, "v%d blocked (%lld %lld %lld): scratch of %zu bytes overrun", set->isa, (long long)m, (long long)n, (long long)k, bytes);
        cr_cpu_give(scratch, bytes + 64);
    }
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
        const cr_product_isa *set = cr_product_for(sets[s]);
        if (!set) continue;
        for (int f64 = 0; f64 < 2; f64++) {
            for (int64_t m = 1; m <= 32; m++)
                for (int i = 0; i < 6; i++) check_kernel(set, f64, i % 2, m, 1 + box_draw(80), 1 + box_draw(40));
            for (int i = 0; i < 30; i++) check_kernel(set, f64, 2, 1, 1 + box_draw(5000), 1 + box_draw(80));
            check_kernel(set, f64, 1, 400, 70, 600);
            check_kernel(set, f64, 1, 30, 2100, 300);
        }
    }
}

TEST(matmul_half_conversions) {
    static const int sets[] = {0, 2, 3, 4};
    for (int s = 0; s < 4; s++) {
        const cr_product_isa *set = cr_product_for(sets[s]);
        if (!set) continue;
        static uint16_t in[65536], out[65536];
        static float wide[65536];
        for (int bf16 = 0; bf16 < 2; bf16++) {
            for (int i = 0; i < 65536; i++) in[i] = (uint16_t)i;
            set->f32_from_half(wide, in, 65536, bf16);
            set->half_from_f32(out, wide, 65536, bf16);
            for (int i = 0; i < 65536; i++) {
                float want = bf16 ? cr_bf16_to_f32((uint16_t)i) : cr_f16_to_f32((uint16_t)i);
                bool nan = isnan(want);
                CHECK(nan ? isnan(wide[i]) : wide[i] == want, "v%d bf16 %d: %04x is %g, wanted %g", set->isa, bf16, (unsigned)i, (double)wide[i], (double)want);
                CHECK(nan || out[i] == i, "v%d bf16 %d: %04x came back as %04x", set->isa, bf16, (unsigned)i, out[i]);
            }
        }
    }
}
