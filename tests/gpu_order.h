/* gpu_order.h - what the tables of test_ops.c are too short or too tame for, on a GPU: scans, sorted
 * rows and samples cut over many blocks, with ties, NaN, -0 and integers near their ends.  The truth
 * is the cpu, whose kernels test_ops.c holds against `ref`.
 *
 * Before it: dev(), readings() and waits() (how often the host has read from it, and something had to
 * wait or hurry), sorted_dtypes, float_dtypes, row_sizes (at which kernels change), LINES_OF_SCANS
 * (the same of scans), and sizes that the device, made of software, does in time. */
enum {
    SORTED_DTYPES = sizeof sorted_dtypes / sizeof *sorted_dtypes,
    FLOATS = sizeof float_dtypes / sizeof *float_dtypes
};

static cr_tensor *there(const cr_tensor *x) { return cr_to(x, cr_dtype_of(x), dev()); }

/* The same bytes on both devices? */
static void same_bytes(const char *what, const cr_tensor *got, const cr_tensor *want) {
    REQUIRE(got && want, "%s: %s", what, cr_error());
    const size_t size = cr_dtype_size(cr_dtype_of(want));
    data g = data_of(got), w = data_of(want);
    int64_t at = 0;
    while (at < w.numel && g.numel == w.numel && !memcmp(data_at(&g, at), data_at(&w, at), size)) at++;
    CHECK(g.numel == w.numel, "%s: %lld elements, wanted %lld", what, (long long)g.numel, (long long)w.numel);
    CHECK(at == w.numel || g.numel != w.numel, "%s %s: element %lld is %.17g, wanted %.17g", what,
          cr_dtype_name(g.dtype), (long long)at, data_f64(&g, at), data_f64(&w, at));
    data_free(&g), data_free(&w);
    test_ran_on(dev());
}

/* n elements in which much is equal and nothing is left out: both zeros, NaN of both signs,
 * infinities, denormals; the ends of integers. */
static cr_tensor *mixed(cr_dtype dt, int64_t n) {
    static const double floats[] = {0,        -0.0,      INFINITY, -INFINITY, NAN,   -NAN,
                                    0x1p-140, -0x1p-140, 0x1p-20,  60000,     -60000};
    stream r = stream_of("mixed", dt + 16 * n);
    data d = data_new(dt, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        const int k = (int)(stream_next(&r) * 40);
        const int64_t near = (int64_t)(stream_next(&r) * 5) - 2;
        if (cr_dtype_is_float(dt))
            cr_store_f64(data_at(&d, i), dt, k < 11 ? floats[k] : k < 20 ? (double)near : stream_next(&r) - 0.5);
        else
            cr_store_i64(data_at(&d, i), dt,
                         k < 10   ? INT64_MIN + near + 2
                         : k < 20 ? INT64_MAX + near - 2
                         : k < 30 ? near
                                  : (int64_t)(stream_next(&r) * 0x1p62));
    }
    cr_tensor *t = cr_from(d.bytes, CR_LIST(n), dt, cr_cpu());
    data_free(&d);
    return t;
}

TEST(sorts) {
    for (int d = 0; d < SORTED_DTYPES; d++)
        for (size_t k = 0; k < sizeof row_sizes / sizeof *row_sizes; k++) {
            if (!test_takes(dev(), d + (int64_t)k, 6)) continue;
            const cr_dtype dt = sorted_dtypes[d];
            const int64_t R = row_sizes[k],
                          M = R > 10000  ? 1
                              : R > 2000 ? 2
                                         : 3,
                          first[] = {R, 1, R / 2 + 1, R < 7 ? R : 7, R < 1000 ? R : 1000};
            cr_scope_begin();
            cr_tensor *x = cr_reshape(mixed(dt, M * R), CR_LIST(M, R)), *y = there(x);
            for (size_t f = 0; f < sizeof first / sizeof *first; f++)
                for (int down = 0; down < 2; down++) {
                    cr_tensor *v[2], *at[2];
                    for (int g = 0; g < 2; g++) {
                        v[g] = cr_empty(CR_LIST(M, first[f]), dt, g ? dev() : cr_cpu());
                        at[g] = cr_empty(CR_LIST(M, first[f]), CR_I64, g ? dev() : cr_cpu());
                        OK((g ? dev() : cr_cpu())
                               ->kernels->sort(&(cr_sort_args){v[g]->array, at[g]->array, (g ? y : x)->array, down}));
                    }
                    same_bytes("sort", v[1], v[0]);
                    same_bytes("sort: positions", at[1], at[0]);
                }
            const int64_t kth[] = {0, R / 3, R - 1, CR_KTH_MEDIAN, CR_KTH_NANMEDIAN};
            for (int f = 0; f < 5; f++) {
                cr_tensor *v[2], *at[2];
                for (int g = 0; g < 2; g++) {
                    v[g] = cr_empty(CR_LIST(M), dt, g ? dev() : cr_cpu());
                    at[g] = cr_empty(CR_LIST(M), CR_I64, g ? dev() : cr_cpu());
                    OK((g ? dev() : cr_cpu())
                           ->kernels->kth(&(cr_kth_args){v[g]->array, at[g]->array, (g ? y : x)->array, kth[f]}));
                }
                same_bytes("kth", v[1], v[0]);
                same_bytes("kth: position", at[1], at[0]);
            }
            cr_scope_end();
        }
}

/* Many rows, and a part of a larger tensor. */
TEST(sorts_of_parts) {
    cr_generator *random = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_reshape(mixed(CR_F32, 700 * 131), CR_LIST(700, 131)), *part = cr_slice(x, 0, 3, 690, 1),
              *index[2];
    same_bytes("many rows", cr_sort(cr_slice(there(x), 0, 3, 690, 1), 1, true, &index[1]),
               cr_sort(part, 1, true, &index[0]));
    same_bytes("many rows: positions", index[1], index[0]);
    if (test_full()) {                              /* more than go together */
        cr_tensor *large = cr_reshape(cr_randn(CR_LIST(MANY * 1030), CR_F32, dev(), random), CR_LIST(MANY, 1030)),
                  *near = cr_to(large, CR_F32, cr_cpu());
        same_bytes("rows in two parts", cr_sort(large, 1, false, &index[1]), cr_sort(near, 1, false, &index[0]));
        same_bytes("rows in two parts: positions", index[1], index[0]);
        same_bytes("medians in two parts", cr_median(large, CR_LIST(1), false, NULL),
                   cr_median(near, CR_LIST(1), false, NULL));
    }
    for (int64_t n = 7; n < 500; n += 300) {        /* of no numbers: the first NaN */
        cr_tensor *none = cr_full(CR_LIST(3, n), NAN, CR_F32, cr_cpu());
        same_bytes("median of NaN alone", cr_nanmedian(there(none), CR_LIST(1), false, &index[1]),
                   cr_nanmedian(none, CR_LIST(1), false, &index[0]));
        same_bytes("median of NaN alone: position", index[1], index[0]);
    }
    cr_scope_end();
    cr_generator_free(random);
}

TEST(searches) {
    for (int d = 0; d < SORTED_DTYPES; d++)
        for (int right = 0; right < 2; right++) {
            cr_scope_begin();
            cr_tensor *x = cr_sort(mixed(sorted_dtypes[d], 5003), 0, false, NULL), *v = mixed(sorted_dtypes[d], 3001),
                      *rows = cr_reshape(cr_slice(x, 0, 0, 5000, 1), CR_LIST(2, 2500));
            same_bytes("searchsorted", cr_searchsorted(there(x), there(v), right, CR_NONE),
                       cr_searchsorted(x, v, right, CR_NONE));
            cr_tensor *w = cr_reshape(cr_slice(v, 0, 0, 3000, 1), CR_LIST(2, 1500));
            same_bytes("searchsorted in rows", cr_searchsorted(there(rows), there(w), right, CR_NONE),
                       cr_searchsorted(rows, w, right, CR_NONE));
            cr_scope_end();
        }
}

/* ---- scans */
typedef struct lines { int64_t M, R, N; } lines;
static const lines all_lines[] = LINES_OF_SCANS;
enum { LINES = sizeof all_lines / sizeof *all_lines };

static cr_tensor *scan(cr_scan_kind kind, bool reverse, const cr_tensor *x, const cr_tensor *a, lines l, cr_dtype to,
                       cr_tensor **index) {
    cr_tensor *y = cr_empty(CR_LIST(l.M, l.R, l.N), to, x->dev);
    if (index) *index = cr_empty(CR_LIST(l.M, l.R, l.N), CR_I64, x->dev);
    OK(x->dev->kernels->scan(&(cr_scan_args){.y = y->array,
                                             .index = index ? (*index)->array : (cr_array){0},
                                             .x = cr_array_as(&x->array, CR_LIST(l.M, l.R, l.N)),
                                             .a = a ? a->array : (cr_array){0},
                                             .kind = kind,
                                             .reverse = reverse}));
    return y;
}

/* Integers and extremes to the bit. */
TEST(exact_scans) {
    for (int d = 0; d < SORTED_DTYPES; d++)
        for (int k = 0; k < LINES; k++) {
            if (!test_takes(dev(), d + k, 3)) continue;
            const cr_dtype dt = sorted_dtypes[d];
            const lines l = all_lines[k];
            cr_scope_begin();
            cr_tensor *x = mixed(dt, l.M * l.R * l.N), *y = there(x), *index[2];
            for (int kind = CR_SCAN_MAX; kind <= CR_SCAN_MIN; kind++) {
                same_bytes(kind == CR_SCAN_MAX ? "cummax" : "cummin",
                           scan((cr_scan_kind)kind, false, y, NULL, l, dt, &index[1]),
                           scan((cr_scan_kind)kind, false, x, NULL, l, dt, &index[0]));
                same_bytes("where the extreme lay", index[1], index[0]);
            }
            for (int kind = CR_SCAN_SUM; kind <= CR_SCAN_PROD && !cr_dtype_is_float(dt); kind++)
                for (int reverse = 0; reverse < 2; reverse++)
                    same_bytes(kind == CR_SCAN_SUM ? "cumsum" : "cumprod",
                               scan((cr_scan_kind)kind, reverse, y, NULL, l, CR_I64, NULL),
                               scan((cr_scan_kind)kind, reverse, x, NULL, l, CR_I64, NULL));
            cr_scope_end();
        }
}

/* Floats that were added in double, rounded once: f32 could not do that over 300,000 of them.
 * units: of f32 beside each result; float64, which has no more bits to be added in, in another order:
 * 2^-10 of them. */
static void follows(const char *what, const cr_tensor *got, const cr_tensor *want, double units, double beside) {
    REQUIRE(got && want, "%s: %s", what, cr_error());
    data g = data_of(got), w = data_of(want);
    for (int64_t i = 0; i < w.numel; i++) {
        const double a = data_f64(&g, i), b = data_f64(&w, i), finer = w.dtype == CR_F64 ? 0x1p-10 : 1,
                     allowed = (units * 0x1p-24 * fabs(b) + beside) * finer + FLUSHED;
        if (isnan(b) ? isnan(a) : a == b || fabs(a - b) <= allowed) continue;
        test_fail(__FILE__, __LINE__, "%s: element %lld of %lld is %.9g, wanted %.9g, allowed %.3g", what, (long long)i,
                  (long long)w.numel, a, b, allowed);
        break;
    }
    data_free(&g), data_free(&w);
    test_ran_on(dev());
}

TEST(float_scans) {
    cr_generator *random = cr_generator_new(test_seed());
    for (int k = 0; k < LINES * FLOATS; k++)
        for (int reverse = 0; reverse < 2; reverse++) {
            const cr_dtype dt = float_dtypes[k / LINES];
            const lines l = all_lines[k % LINES];
            cr_scope_begin();
            cr_tensor *x = cr_randn(CR_LIST(l.M * l.R * l.N), dt, cr_cpu(), random),
                      *near = cr_add(cr_mul(x, cr_scalar(0.05)), cr_scalar(1)),
                      *a = cr_tanh(cr_randn(CR_LIST(l.M * l.R * l.N), dt, cr_cpu(), random));
            follows("cumsum", scan(CR_SCAN_SUM, reverse, there(x), NULL, l, dt, NULL),
                    scan(CR_SCAN_SUM, reverse, x, NULL, l, dt, NULL), 2, 1e-9);
            follows("cumprod", scan(CR_SCAN_PROD, reverse, there(near), NULL, l, dt, NULL),
                    scan(CR_SCAN_PROD, reverse, near, NULL, l, dt, NULL), 2, 0);
            follows("recurrence", scan(CR_SCAN_SUM, reverse, there(x), there(a), l, dt, NULL),
                    scan(CR_SCAN_SUM, reverse, x, a, l, dt, NULL), 2, 1e-9);
            follows("logcumsumexp", scan(CR_SCAN_LOGSUMEXP, reverse, there(x), NULL, l, dt, NULL),
                    scan(CR_SCAN_LOGSUMEXP, reverse, x, NULL, l, dt, NULL), 4, 2.5e-7);
            cr_scope_end();
        }
    cr_generator_free(random);
}

/* As in double: a product that f32 cannot hold comes back, a sum too; infinities and NaN stay; zeros are zeros. */
TEST(scans_beyond_f32) {
    enum { N = 6000 };
    static const float parts[][8] = {{1e30f, 1e30f, 1e-30f, 1e-30f, 3, 0, 5, 7},
                                     {1e-30f, 1e-30f, 1e30f, 1e30f, -3, 2, 0x1p-140f, 0x1p120f},
                                     {2, INFINITY, 3, -1, 0, 4, 5, 6},
                                     {-0.0f, -0.0f, 1, NAN, 1, 0, 2, 3},
                                     {3e38f, 3e38f, -3e38f, -3e38f, 1, -INFINITY, 2, INFINITY},
                                     {-INFINITY, -INFINITY, 1, 80, -300, 200, -INFINITY, NAN}};
    float grows[2 * N], slow[N];
    const float part0 = 1;
    cr_scope_begin();
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        for (int kind = CR_SCAN_SUM; kind <= CR_SCAN_LOGSUMEXP; kind++) {
            cr_tensor *x = cr_from(parts[k], CR_LIST(8), CR_F32, cr_cpu());
            follows("eight numbers", scan((cr_scan_kind)kind, false, there(x), NULL, (lines){1, 8, 1}, CR_F32, NULL),
                    scan((cr_scan_kind)kind, false, x, NULL, (lines){1, 8, 1}, CR_F32, NULL), 4,
                    kind == CR_SCAN_LOGSUMEXP ? 3e-7 : 0);
            cr_tensor *long_ = cr_contiguous(
                cr_reshape(cr_expand(cr_reshape(x, CR_LIST(8, 1)), CR_LIST(8, 700)), CR_LIST(5600)));
            if (kind == CR_SCAN_PROD && k < 2) continue;           /* 1e30 700 times over is beyond a double too */
            follows("each 700 times",
                    scan((cr_scan_kind)kind, false, there(long_), NULL, (lines){1, 5600, 1}, CR_F32, NULL),
                    scan((cr_scan_kind)kind, false, long_, NULL, (lines){1, 5600, 1}, CR_F32, NULL), 4,
                    kind == CR_SCAN_LOGSUMEXP ? 6e-7 : 1e26);
        }
    /* y = 2 y - 1 from 1 on stays there, step by step; by parts it would be 2^n - 2^n + 1 */
    for (int i = 0; i < N; i++) grows[i] = i ? -1 : part0, grows[N + i] = 2, slow[i] = 1e-5f * (float)i;
    cr_tensor *x = cr_from(grows, CR_LIST(2, N), CR_F32, dev()), *ones = cr_ones(CR_LIST(1, N, 1), CR_F32, cr_cpu());
    same_bytes("a growing recurrence",
               scan(CR_SCAN_SUM, false, cr_contiguous(cr_slice(x, 0, 0, 1, 1)), cr_contiguous(cr_slice(x, 0, 1, 2, 1)),
                    (lines){1, N, 1}, CR_F32, NULL),
               ones);
    /* long chunks of many lines, in which f32 would round the same way again and again */
    cr_tensor *wide = cr_contiguous(
        cr_expand(cr_from((float[]){0, 0.1f}, CR_LIST(1, 1, 2), CR_F32, cr_cpu()), CR_LIST(LINES_OF_LSE, 300, 2)));
    follows("a long log-sum-exp", cr_logcumsumexp(there(cr_reshape(wide, CR_LIST(LINES_OF_LSE, 600))), 1),
            cr_logcumsumexp(cr_reshape(wide, CR_LIST(LINES_OF_LSE, 600)), 1), 4, 2.5e-7);
    /* a maximum that moves with every element must not cost a rounding each */
    cr_tensor *s = cr_from(slow, CR_LIST(N), CR_F32, cr_cpu());
    follows("a slowly rising log-sum-exp", cr_logcumsumexp(there(s), 0), cr_logcumsumexp(s, 0), 2, 1e-7);
    cr_scope_end();
}

/* Halves are computed as f32 is, and rounded again. */
TEST(half_scans) {
    for (int dt = CR_F16; dt <= CR_BF16; dt++) {
        cr_scope_begin();
        stream r = stream_of("halves", dt);
        data d = data_fill(&(spec){.ndim = 1, .shape = {20011}, .lo = -0.1, .hi = 0.1}, (cr_dtype)dt, &r);
        cr_tensor *x = cr_from(d.bytes, CR_LIST(20011), (cr_dtype)dt, cr_cpu());
        follows("cumsum", cr_cumsum(there(x), 0), cr_cumsum(x, 0), 2 * unit_of((cr_dtype)dt) * 0x1p24, 0);
        follows("cumprod", cr_cumprod(cr_add(there(x), cr_scalar(1)), 0), cr_cumprod(cr_add(x, cr_scalar(1)), 0),
                2 * unit_of((cr_dtype)dt) * 0x1p24, 4 * unit_of((cr_dtype)dt) * smallest_normal((cr_dtype)dt));
        data_free(&d);
        cr_scope_end();
    }
}

/* ---- runs, masks */
TEST(runs_and_masks) {
    static const int64_t sizes[] = {1, 63, 64, 65, 4097, LONG};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k];
        for (int d = 0; d < SORTED_DTYPES; d++) {
            if (!test_takes(dev(), d + (int64_t)k, 3)) continue;
            cr_tensor *inverse[2], *counts[2];
            cr_scope_begin();
            cr_tensor *x = mixed(sorted_dtypes[d], n), *y = there(x);
            same_bytes("unique", cr_unique(y, CR_ALL, &inverse[1], &counts[1]),
                       cr_unique(x, CR_ALL, &inverse[0], &counts[0]));
            same_bytes("unique: inverse", inverse[1], inverse[0]);
            same_bytes("unique: counts", counts[1], counts[0]);
            same_bytes("unique_consecutive", cr_unique_consecutive(y, CR_ALL, NULL, NULL),
                       cr_unique_consecutive(x, CR_ALL, NULL, NULL));
            cr_scope_end();
        }
        cr_scope_begin();
        /* eight kinds of them */
        cr_tensor *rows = cr_reshape(cr_gt(mixed(CR_I16, 3 * n), cr_scalar_int(0)), CR_LIST(n, 3)), *inverse[2];
        same_bytes("unique rows", cr_unique(there(rows), CR_LIST(0), &inverse[1], NULL),
                   cr_unique(rows, CR_LIST(0), &inverse[0], NULL));
        same_bytes("unique rows: inverse", inverse[1], inverse[0]);
        cr_tensor *x = mixed(CR_I16, 3 * n), *mask = cr_reshape(cr_gt(x, cr_scalar_int(0)), CR_LIST(3, n)),
                  *far = there(mask), *v = cr_reshape(mixed(CR_F32, 3 * n), CR_LIST(3, n));
        same_bytes("nonzero", cr_nonzero(far), cr_nonzero(mask));
        same_bytes("nonzero, turned", cr_nonzero(cr_transpose(far, 0, 1)), cr_nonzero(cr_transpose(mask, 0, 1)));
        same_bytes("nothing is true", cr_nonzero(cr_zeros(CR_LIST(n), CR_BOOL, dev())),
                   cr_nonzero(cr_zeros(CR_LIST(n), CR_BOOL, cr_cpu())));
        same_bytes("masked_select", cr_masked_select(there(v), far), cr_masked_select(v, mask));
        same_bytes("a mask as an index", cr_index_get(there(v), 1, (const cr_tensor *[]){far}),
                   cr_index_get(v, 1, (const cr_tensor *[]){mask}));
        cr_scope_end();
    }
    cr_scope_begin();
    int64_t before = readings();
    cr_release(cr_nonzero(cr_ones(CR_LIST(1000), CR_BOOL, dev())));
    CHECK(readings() == before + 1, "the number of places is read once: %lld", (long long)(readings() - before));
    cr_tensor *x = cr_ones(CR_LIST(3000), CR_F32, dev());
    before = readings() + waits();
    cr_release(cr_sort(cr_cumsum(x, 0), 0, true, NULL));
    cr_release(cr_searchsorted(cr_topk(x, 70, 0, true, NULL), x, false, CR_NONE));
    CHECK(readings() + waits() == before, "nothing else waits for the GPU");
    same_bytes("of no elements", cr_sort(cr_empty(CR_LIST(3, 0), CR_F32, dev()), 1, false, NULL),
               cr_empty(CR_LIST(3, 0), CR_F32, cr_cpu()));
    same_bytes("nonzero of no elements", cr_nonzero(cr_empty(CR_LIST(3, 0), CR_BOOL, dev())),
               cr_nonzero(cr_empty(CR_LIST(3, 0), CR_BOOL, cr_cpu())));
    cr_scope_end();
}

/* ---- samples: the positions that doubles choose */
TEST(samples) {
    cr_generator *random[2] = {cr_generator_new(5), cr_generator_new(5)};
    cr_scope_begin();
    same_bytes("randperm", cr_randperm(PERMUTED, CR_I64, dev(), random[1]),
               cr_randperm(PERMUTED, CR_I64, cr_cpu(), random[0]));
    same_bytes("randperm", cr_randperm(1, CR_F32, dev(), random[1]), cr_randperm(1, CR_F32, cr_cpu(), random[0]));
    enum { N = 20011 };
    float w[N];
    for (int how = 0; how < 3; how++) {
        stream r = stream_of("weights", how);
        for (int i = 0; i < N; i++) {               /* alike; some nothing; from denormals to the largest that their
                                                     * sum allows */
            const double u = stream_next(&r);
            w[i] = how == 0   ? 0.5f + (float)u
                   : how == 1 ? (u < 0.5 ? 0 : (float)u)
                              : ldexpf(0.5f + (float)u, (int)(stream_next(&r) * 250) - 140);
        }
        cr_tensor *x = cr_reshape(cr_slice(cr_from(w, CR_LIST(N), CR_F32, cr_cpu()), 0, 1, N, 1), CR_LIST(3, N / 3)),
                  *y = there(x);
        for (int back = 0; back < 2; back++)
            for (int64_t n = 30; n <= 3000; n *= 100)
                same_bytes(back ? "with replacement" : "without replacement", cr_multinomial(y, n, back, random[1]),
                           cr_multinomial(x, n, back, random[0]));
    }
    cr_tensor *close = cr_add(cr_rand(CR_LIST(CLOSE), CR_F32, cr_cpu(), random[0]), cr_scalar(0.1));
    for (int i = 0; i < 2; i++) cr_generator_set(random[i], 7, 0);
    same_bytes("times that are near to each other", cr_multinomial(there(close), CLOSE, false, random[1]),
               cr_multinomial(close, CLOSE, false, random[0]));
    cr_tensor *few = cr_from((float[]){0, 1, 0, 3}, CR_LIST(4), CR_F32, dev());
    FAILS(CR_BAD_VALUE, "3 samples without replacement from row 0, which has 2 weights above 0",
          cr_multinomial(few, 3, false, random[1]));
    FAILS(CR_BAD_VALUE, "weights are finite and not negative: -1 at (2,)",
          cr_multinomial(cr_from((float[]){0, 1, -1, 3}, CR_LIST(4), CR_F32, dev()), 3, true, random[1]));
    cr_scope_end();
    for (int i = 0; i < 2; i++) cr_generator_free(random[i]);
}
