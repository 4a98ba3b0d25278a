/* test_packed.c - weights in the packed formats of GGUF files: every device and instruction set against `ref`, rows
 * and threads that must not matter, gradients, refused calls.  tests/python/test_gguf.py compares the numbers with
 * those of llama.cpp's package. */
#pragma GCC diagnostic ignored "-Wunused-function"  /* of check.h, for other tests */
#include "check.h"

#include "use_isa.h"
#include "core/formats.h"
#ifndef _WIN32
#include <sys/mman.h>
#endif

/* N rows of K numbers; the scales, which are f16, are small numbers of any sign. */
static cr_tensor *packed_rows(int format, int64_t N, int64_t K, const cr_device *dev) {
    static const struct { int format; int at[3]; } halves[] = {
        {CR_FORMAT_Q8_0, {0, -1}},      {CR_FORMAT_Q4_0, {0, -1}},       {CR_FORMAT_Q4_1, {0, 2, -1}},
        {CR_FORMAT_Q5_0, {0, -1}},      {CR_FORMAT_Q5_1, {0, 2, -1}},    {CR_FORMAT_IQ4_NL, {0, -1}},
        {CR_FORMAT_Q2_K, {80, 82, -1}}, {CR_FORMAT_Q3_K, {108, -1}},     {CR_FORMAT_Q4_K, {0, 2, -1}},
        {CR_FORMAT_Q5_K, {0, 2, -1}},   {CR_FORMAT_Q6_K, {208, -1}},     {CR_FORMAT_IQ4_XS, {0, -1}}};
    const cr_format_traits *f = &cr_formats[format];
    const int64_t blocks = N * (K / f->block);
    uint8_t *b = malloc((size_t)(blocks * f->bytes) + 1);
    uint64_t state = (uint64_t)format * 7919 + 1;
    for (int64_t i = 0; i < blocks * f->bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        b[i] = (uint8_t)(state >> 56);
    }
    for (int64_t i = 0; i < blocks; i++) {
        uint8_t *at = b + i * f->bytes;
        if (format == CR_FORMAT_MXFP4) at[0] = (uint8_t)(116 + at[0] % 8);
        for (size_t h = 0; h < sizeof halves / sizeof *halves; h++)
            for (int k = 0; halves[h].format == format && k < 3 && halves[h].at[k] >= 0; k++)
                at[halves[h].at[k] + 1] = (uint8_t)((at[halves[h].at[k] + 1] & 0x83) | 0x18);    /* about 2^-9 */
    }
    cr_tensor *t = cr_from(b, CR_LIST(N, K / f->block * f->bytes), CR_U8, dev);
    free(b);
    return t;
}

static double number(int64_t i) { return (double)((i * 7919 + 13) % 1009) / 1009 - 0.5; }
static cr_tensor *numbers(int64_t rows, int64_t columns, cr_dtype dt, const cr_device *dev) {
    double *v = malloc((size_t)(rows * columns + 1) * sizeof *v);
    for (int64_t i = 0; i < rows * columns; i++) v[i] = number(i);
    cr_tensor *t = cr_to(cr_from(v, CR_LIST(rows, columns), CR_F64, cr_cpu()), dt, dev);
    free(v);
    return t;
}
static double most(const cr_tensor *t) {
    return cr_numel(t) ? cr_item(cr_max(cr_abs(cr_to(t, CR_F64, cr_cpu())), CR_ALL, false)) : 0;
}
static double distance(const cr_tensor *a, const cr_tensor *b) {
    return most(cr_sub(cr_to(a, CR_F64, cr_cpu()), cr_to(b, CR_F64, cr_cpu())));
}
static cr_tensor *same_on(const cr_tensor *t, const cr_device *dev) { return cr_to(t, cr_dtype_of(t), dev); }
static bool equal(const cr_tensor *a, const cr_tensor *b) {
    return cr_item(cr_all(cr_equal(same_on(a, cr_cpu()), same_on(b, cr_cpu())), CR_ALL, false)) == 1;
}

static const int64_t widths[] = {32, 96, 256, 288, 1024, 2080};
static bool divides(int format, int64_t K) { return K % cr_formats[format].block == 0; }

/* Floats are ref's, bit for bit; a GPU may round once where `ref` rounds twice. */
static bool alike(const cr_device *dev, const cr_tensor *y, const cr_tensor *want) {
    return dev->host ? equal(y, want) : distance(y, want) <= 0x1p-22 * most(want);
}
static void check_unpack(const cr_device *dev) {
    for (int format = CR_FORMAT_PACKED; format < CR_FORMATS; format++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            if (!divides(format, widths[i])) continue;
            for (int64_t N = 1; N <= 37; N += 18) {
                cr_scope_begin();
                const char *name = cr_formats[format].name;
                const cr_tensor *w = packed_rows(format, N, widths[i], dev);
                const cr_tensor *y = cr_unpack(w, name, CR_F32);
                const cr_tensor *want = cr_unpack(same_on(w, test_ref()), name, CR_F32);
                REQUIRE(y && want, "%s", cr_error());
                CHECK(most(want) > 1e-4 && most(want) < 100, "%s: numbers up to %g", name, most(want));
                CHECK(alike(dev, y, want), "%s: %s (%lld, %lld): error %g", cr_device_name(dev), name, (long long)N,
                      (long long)widths[i], distance(y, want));
                for (int dt = CR_F16; dt <= CR_F64 && dev->host; dt++)
                    CHECK(equal(cr_unpack(w, name, (cr_dtype)dt), cr_to(want, (cr_dtype)dt, test_ref())), "%s: as %s",
                          name, cr_dtype_name((cr_dtype)dt));
                test_ran_on(dev);
                cr_scope_end();
            }
        }
}

/* 16 bits of x: an error of half a step of each block's largest, times |w|. */
static void check_layer(const cr_device *dev, int format, int64_t M, int64_t N, int64_t K, cr_dtype dt) {
    cr_scope_begin();
    const char *name = cr_formats[format].name;
    const cr_tensor *w = packed_rows(format, N, K, cr_cpu()), *x = numbers(M, K, dt, cr_cpu()),
                    *b = cr_reshape(numbers(1, N, dt, cr_cpu()), CR_LIST(N));
    const cr_tensor *floats = cr_unpack(w, name, CR_F64);
    const cr_tensor *want = cr_linear(cr_to(x, CR_F64, cr_cpu()), floats, cr_to(b, CR_F64, cr_cpu()));
    const cr_tensor *y = cr_linear_packed(same_on(x, dev), same_on(w, dev), name, same_on(b, dev));
    REQUIRE(y && want, "%s", cr_error());
    const double unit = dt == CR_F64 ? 1e-14 : dt == CR_F32 ? 1e-6 : dt == CR_F16 ? 0x1p-11 : 0x1p-8;
    const double sizes = cr_item(cr_max(cr_sum(cr_abs(floats), CR_LIST(1), false), CR_ALL, false));
    const double allowed = (dt == CR_F64 ? 1e-14 : 0.5 * 1.2 / 65024) * sizes + unit * (most(want) + sizes);
    CHECK(distance(y, want) <= allowed, "%s: %s (%lld, %lld) x %lld, %s: error %g of %g, allowed %g",
          cr_device_name(dev), name, (long long)M, (long long)K, (long long)N, cr_dtype_name(dt), distance(y, want),
          most(want), allowed);
    test_ran_on(dev);
    cr_scope_end();
}

static void check_layers(const cr_device *dev) {
    static const int64_t sizes[][2] = {{1, 7}, {1, 300}, {2, 17}, {4, 16}, {5, 67}, {9, 1}};
    for (int format = CR_FORMAT_PACKED; format < CR_FORMATS; format++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes && divides(format, widths[i]); k++) {
                const cr_dtype dt = k == 2 ? CR_F16 : k == 3 ? CR_BF16 : k == 4 && i == 2 ? CR_F64 : CR_F32;
                if (test_offers(dev, dt) && (dev->host || i % 3 == k % 3))
                    check_layer(dev, format, sizes[k][0], sizes[k][1], widths[i], dt);
            }
}

TEST(formats) {
    for (int d = 0; test_device(d); d++) {
        check_unpack(test_device(d));
        if (test_device(d) != test_ref()) check_layers(test_device(d));
        else check_layer(test_device(d), CR_FORMAT_Q4_K, 2, 5, 256, CR_F32);
    }
}

/* Packed rows as views: rows of a larger matrix, columns of one, a beginning at any byte. */
static void check_views(const cr_device *dev) {
    enum { N = 11, K = 256 };
    cr_scope_begin();
    for (int64_t M = 2; M <= 12; M += 10) {
        const cr_tensor *x = numbers(M, K, CR_F32, dev), *w = packed_rows(CR_FORMAT_Q4_0, N, K, dev);
        const int64_t line = cr_size(w, 1);
        const cr_tensor *want = cr_linear_packed(x, w, "q4_0", CR_NONE);
        const cr_tensor *rows = cr_linear_packed(x, cr_slice(w, 0, 3, 8, 1), "q4_0", CR_NONE);
        CHECK(equal(rows, cr_slice(want, 1, 3, 8, 1)), "%s: rows", cr_device_name(dev));
        const cr_tensor *wide = cr_cat(2, (const cr_tensor *const[]){w, w}, 1);
        CHECK(equal(cr_linear_packed(x, cr_slice(wide, 1, line, 2 * line, 1), "q4_0", CR_NONE), want), "%s: columns",
              cr_device_name(dev));
        const cr_tensor *flat = cr_reshape(w, CR_LIST(N * line)), *one = cr_slice(flat, 0, 0, 1, 1);
        const cr_tensor *odd = cr_slice(cr_cat(2, (const cr_tensor *const[]){one, flat}, 0), 0, 1, N * line + 1, 1);
        const cr_tensor *between = cr_view(odd, CR_LIST(N, line));
        CHECK(equal(cr_linear_packed(x, between, "q4_0", CR_NONE), want), "%s: an odd address", cr_device_name(dev));
        CHECK(equal(cr_unpack(between, "q4_0", CR_F32), cr_unpack(w, "q4_0", CR_F32)), "%s: unpacked from there",
              cr_device_name(dev));
        test_ran_on(dev);
    }
    cr_scope_end();
}
TEST(views) { for (int d = 0; test_device(d); d++) check_views(test_device(d)); }

#if !defined CR_TEST_CUDA && !defined CR_TEST_GPU
TEST(instruction_sets) {
    for (int isa = 0; isa <= 4; isa++) {
        if (!test_use_isa(isa)) continue;
        check_unpack(cr_cpu());
        check_layers(cr_cpu());
    }
    test_use_isa(-1);
}

/* A row of y has the same bits alone and among others, with any number of threads. */
TEST(rows_and_threads) {
    enum { K = 512, N = 211, M = 261 };
    const int before = cr_num_threads();
    for (int format = CR_FORMAT_PACKED; format < CR_FORMATS; format++) {
        cr_scope_begin();
        const char *name = cr_formats[format].name;
        const cr_tensor *w = packed_rows(format, N, K, cr_cpu()), *x = numbers(M, K, CR_F32, cr_cpu());
        cr_set_num_threads(1);
        const cr_tensor *all = cr_linear_packed(x, w, name, CR_NONE);
        for (int threads = 1; threads <= 3; threads++) {
            cr_set_num_threads(threads);
            CHECK(equal(cr_linear_packed(x, w, name, CR_NONE), all), "%s: %d threads", name, threads);
            for (int64_t m = 0; m < M; m += 65) {
                const cr_tensor *one = cr_linear_packed(cr_slice(x, 0, m, m + 1, 1), w, name, CR_NONE);
                CHECK(equal(one, cr_slice(all, 0, m, m + 1, 1)), "%s: row %lld alone", name, (long long)m);
            }
        }
        cr_scope_end();
    }
    cr_set_num_threads(before);
}

/* No byte behind the last row is read: a file that is mapped may end with its page. */
#ifndef _WIN32
TEST(ends_with_a_page) {
    enum { PAGE = 1 << 16, N = 6 };
    uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED && !mprotect(pages + PAGE, PAGE, PROT_NONE), "mmap");
    for (int isa = -1; isa <= 4; isa++) {           /* -1: the best */
        if (!test_use_isa(isa)) continue;
        for (int format = CR_FORMAT_PACKED; format < CR_FORMATS; format++)
            for (int64_t K = 32; K <= 1024; K += 32) {
                if (!divides(format, K)) continue;
                cr_scope_begin();
                const cr_tensor *w = packed_rows(format, N, K, cr_cpu());
                const int64_t bytes = cr_numel(w);
                uint8_t *at = pages + PAGE - bytes;
                OK(cr_read(w, CR_U8, at, (size_t)bytes));
                const cr_tensor *last = cr_borrow(at, CR_LIST(N, bytes / N), CR_U8, NULL, NULL);
                for (int64_t M = 1; M <= 5; M += 4) {
                    const cr_tensor *x = numbers(M, K, CR_F32, cr_cpu());
                    const char *name = cr_formats[format].name;
                    CHECK(equal(cr_linear_packed(x, last, name, CR_NONE), cr_linear_packed(x, w, name, CR_NONE)),
                          "%s: %lld columns", name, (long long)K);
                }
                cr_scope_end();
            }
    }
    test_use_isa(-1);
    munmap(pages, 2 * PAGE);
}
#endif

/* NaN and infinite scales and inputs give what the product of floats gives: numbers that are none. */
TEST(awkward_numbers) {
    enum { K = 256, N = 3 };
    static const uint16_t scales[] = {0x7e00, 0x7c00, 0xfc00, 0x0001, 0x8000};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        cr_scope_begin();
        uint8_t b[N][8][34];
        for (int n = 0; n < N * 8 * 34; n++) (&b[0][0][0])[n] = (uint8_t)(n % 34 > 1 ? n % 13 + 1 : 0x18);
        memcpy(b[1][5], &scales[i], 2);
        const cr_tensor *w = cr_from(b, CR_LIST(N, 8 * 34), CR_U8, cr_cpu()), *x = numbers(1, K, CR_F32, cr_cpu());
        const cr_tensor *y = cr_linear_packed(x, w, "q8_0", CR_NONE), *floats = cr_unpack(w, "q8_0", CR_F32);
        float got[N], number_of_w[N][K];
        OK(cr_read(y, CR_F32, got, sizeof got));
        OK(cr_read(floats, CR_F32, number_of_w, sizeof number_of_w));
        const float bad = number_of_w[1][5 * 32];
        CHECK(isfinite(got[0]) && isfinite(got[2]), "other rows: %g, %g", (double)got[0], (double)got[2]);
        CHECK(isfinite(got[1]) == (i > 2), "a scale %04x gives %g", scales[i], (double)got[1]);
        CHECK(i ? i > 2 || isinf(bad) : isnan(bad), "a scale %04x gives the weight %g", scales[i], (double)bad);
        cr_scope_end();
    }
    for (int64_t columns = 32; columns < 256; columns += 32) {      /* behind a row lies the first scale of the next */
        cr_scope_begin();
        enum { ROWS = 9 };
        uint8_t b[ROWS * 8 * 34];
        const int64_t line = columns / 32 * 34;
        for (int64_t i = 0; i < ROWS * line; i++) b[i] = (uint8_t)(i % 34 > 1 ? i % 13 + 1 : 0x18);
        for (int64_t n = 1; n < ROWS; n += 2) memcpy(b + n * line, &scales[n / 2 % 2], 2);
        const cr_tensor *w = cr_from(b, CR_LIST(ROWS, line), CR_U8, cr_cpu()),
                        *x = numbers(1, columns, CR_F32, cr_cpu());
        float y[ROWS];
        OK(cr_read(cr_linear_packed(x, w, "q8_0", CR_NONE), CR_F32, y, sizeof y));
        for (int n = 0; n < ROWS; n++)
            CHECK(isfinite(y[n]) == (n % 2 == 0), "%lld columns: row %d is %g", (long long)columns, n, (double)y[n]);
        cr_scope_end();
    }
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e-40f, 3e38f, 0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        cr_scope_begin();
        float x[K] = {0}, y[N];
        x[40] = values[i];
        const cr_tensor *w = packed_rows(CR_FORMAT_Q4_K, N, K, cr_cpu());
        OK(cr_read(cr_linear_packed(cr_from(x, CR_LIST(1, K), CR_F32, cr_cpu()), w, "q4_k", CR_NONE), CR_F32, y,
                   sizeof y));
        CHECK(isfinite(y[0]) == (i > 2), "x with %g gives %g", (double)values[i], (double)y[0]);
        cr_scope_end();
    }
}

static cr_tensor *layer(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    return cr_linear_packed(in[0], ctx, "q4_k", in[1]);
}

TEST(gradients) {
    for (int d = 0; d < 2; d++) {
        const cr_device *dev = d ? test_ref() : cr_cpu();
        cr_scope_begin();
        cr_tensor *x = cr_requires_grad_(numbers(3, 256, CR_F64, dev), true),
                  *b = cr_requires_grad_(cr_reshape(numbers(1, 5, CR_F64, dev), CR_LIST(5)), true);
        const cr_tensor *inputs[] = {x, b};
        cr_tensor *w = packed_rows(CR_FORMAT_Q4_K, 5, 256, dev);
        OK(cr_gradcheck(layer, w, 2, inputs, NULL));
        OK(cr_gradgradcheck(layer, w, 2, inputs, NULL));
        test_ran_on(dev);
        cr_scope_end();
    }
}

/* ---- packing */

/* Half a step of each block is the largest error: the step is the block's largest weight / 127 or / 8. */
TEST(quantize_bounds) {
    enum { N = 13, K = 192 };
    cr_scope_begin();
    const cr_tensor *w = numbers(N, K, CR_F32, cr_cpu());
    for (int eight = 0; eight < 2; eight++) {
        const char *format = eight ? "q8_0" : "q4_0";
        const cr_tensor *rows = cr_quantize(w, format, NULL);
        REQUIRE(rows, "%s", cr_error());
        CHECK(cr_size(rows, 1) == K / 32 * (eight ? 34 : 18), "a row of %s has %lld bytes", format,
              (long long)cr_size(rows, 1));
        const cr_tensor *blocks = cr_reshape(cr_to(w, CR_F64, cr_cpu()), CR_LIST(N, K / 32, 32));
        const cr_tensor *back = cr_reshape(cr_unpack(rows, format, CR_F64), CR_LIST(N, K / 32, 32));
        const cr_tensor *error = cr_abs(cr_sub(back, blocks)), *peak = cr_max(cr_abs(blocks), CR_LIST(2), true);
        /* 8 bits: the largest weight lies on the grid.  4: the other sign ends a step earlier, at 7 of 8. */
        const cr_tensor *over = cr_sub(error, cr_mul_scalar(peak, (eight ? 0.5 / 127 : 1.0 / 8) * 1.01));
        CHECK(cr_item(cr_max(over, CR_ALL, false)) <= 0, "%s: beyond half a step", format);
        const double mean = cr_item(cr_mean(error, CR_ALL, false));
        CHECK(mean < (eight ? 0.0012 : 0.019) && mean > (eight ? 0.0005 : 0.008), "%s: mean error %g", format, mean);
    }
    cr_scope_end();
}

/* One block by hand. */
TEST(quantize_layout) {
    cr_scope_begin();
    float w[32];
    uint8_t byte[18];
    for (int k = 0; k < 32; k++) w[k] = (float)(k % 16 - 8) / 4;
    OK(cr_read(cr_quantize(cr_from(w, CR_LIST(1, 32), CR_F32, cr_cpu()), "q4_0", NULL), CR_U8, byte, sizeof byte));
    CHECK(byte[0] == 0 && byte[1] == 0x34, "the scale is %02x%02x, not 0.25", byte[1], byte[0]);
    for (int j = 0; j < 16; j++) CHECK(byte[2 + j] == j + 16 * j, "byte %d is %d", j, byte[2 + j]);
    const cr_tensor *zeros = cr_quantize(cr_zeros(CR_LIST(2, 32), CR_F32, cr_cpu()), "q8_0", NULL);
    CHECK(most(zeros) == 0, "zeros");
    CHECK(cr_numel(cr_quantize(cr_zeros(CR_LIST(0, 32), CR_F32, cr_cpu()), "q4_0", NULL)) == 0, "no rows");
    cr_scope_end();
}

/* Inputs with strong correlations: moments must give outputs nearer to the layer's, balanced rounding the nearest. */
TEST(quantize_with_moments) {
    enum { N = 48, K = 256, ROWS = 512 };
    cr_scope_begin();
    const cr_tensor *few = numbers(ROWS, 24, CR_F32, cr_cpu()), *mix = numbers(24, K, CR_F32, cr_cpu());
    const cr_tensor *x = cr_add(cr_matmul(few, mix), cr_mul_scalar(numbers(ROWS, K, CR_F32, cr_cpu()), 0.1));
    x = cr_mul(x, cr_add_scalar(cr_mul_scalar(cr_arange(0, K, 1, CR_F32, cr_cpu()), 4.0 / K), 0.1));
    const cr_tensor *w = numbers(N, K, CR_F32, cr_cpu()), *want = cr_linear(x, w, CR_NONE);
    const cr_tensor *moments = cr_matmul(cr_transpose(x, 0, 1), x);
    const cr_tensor *given[] = {NULL, cr_diagonal(moments, 0, 0, 1), moments};
    for (int four = 0; four < 2; four++) {
        const char *format = four ? "q4_0" : "q4_k";
        double error[3];
        for (int m = 0; m < 3; m++) {
            const cr_tensor *y = cr_linear(x, cr_unpack(cr_quantize(w, format, given[m]), format, CR_F32), CR_NONE);
            error[m] = cr_item(cr_sum_squares(cr_sub(y, want)));
        }
        CHECK(error[1] < error[0], "%s: with the diagonal %g, without %g", format, error[1], error[0]);
        if (four) CHECK(error[2] < 0.3 * error[0], "balanced %g, to nearest %g", error[2], error[0]);
        else CHECK(error[2] == error[1], "q4_k knows the diagonal: %g, %g", error[2], error[1]);
    }
    const int before = cr_num_threads();
    const cr_tensor *rows[2];
    for (int t = 0; t < 2; t++) cr_set_num_threads(1 + 2 * t), rows[t] = cr_quantize(w, "q4_0", moments);
    cr_set_num_threads(before);
    CHECK(equal(rows[0], rows[1]), "threads matter");
    cr_scope_end();
}

TEST(quantize_refused) {
    cr_scope_begin();
    const cr_tensor *w = numbers(3, 96, CR_F32, cr_cpu()), *none = cr_full(CR_LIST(1, 96), NAN, CR_F32, cr_cpu());
    FAILS(CR_BAD_VALUE, "[quantize] the format must be q8_0, q4_0", cr_quantize(w, "q2_k", NULL));
    FAILS(CR_BAD_VALUE, "not 'NULL'", cr_quantize(w, NULL, NULL));
    FAILS(CR_BAD_VALUE, "[quantize] blocks of 256 do not divide the 96 inputs of (3, 96)",
          cr_quantize(w, "q4_k", NULL));
    FAILS(CR_BAD_VALUE, "[quantize] the weight must be (outputs, inputs)",
          cr_quantize(cr_reshape(w, CR_LIST(288)), "q8_0", NULL));
    FAILS(CR_BAD_VALUE, "[quantize] the moments must be (96, 96)", cr_quantize(w, "q4_0", w));
    FAILS(CR_BAD_VALUE, "the mean of the moments' diagonal is",
          cr_quantize(w, "q4_0", cr_full(CR_LIST(96, 96), NAN, CR_F32, cr_cpu())));
    for (int four = 0; four < 2; four++)
        FAILS(CR_BAD_VALUE, "weights of (4, 96) are not finite",
              cr_quantize(cr_cat(2, (const cr_tensor *const[]){w, none}, 0), four ? "q4_0" : "q8_0",
                          four ? cr_eye(96, 96, CR_F32, cr_cpu()) : NULL));
    FAILS(CR_BAD_TYPE, "[quantize]", cr_quantize(cr_ones(CR_LIST(2, 32), CR_I64, cr_cpu()), "q8_0", NULL));
    OK(cr_record_begin(0, NULL));
    FAILS(CR_RUNTIME, "[quantize] the value of a tensor is read while a step is recorded",
          cr_quantize(w, "q8_0", NULL));
    cr_record_cancel();
    cr_scope_end();
}

TEST(refused) {
    cr_scope_begin();
    const cr_tensor *w = packed_rows(CR_FORMAT_Q8_0, 3, 64, cr_cpu()), *x = numbers(2, 64, CR_F32, cr_cpu());
    FAILS(CR_BAD_VALUE, "[unpack] the format must be one of q8_0, q4_0", cr_unpack(w, "q9_0", CR_F32));
    FAILS(CR_BAD_VALUE, "[unpack] the format", cr_unpack(w, NULL, CR_F32));
    FAILS(CR_BAD_VALUE, "[unpack] the format", cr_unpack(w, "f16", CR_F32));
    FAILS(CR_BAD_TYPE, "[unpack] the dtype", cr_unpack(w, "q8_0", CR_I32));
    FAILS(CR_BAD_TYPE, "[unpack] packed rows must be uint8", cr_unpack(x, "q8_0", CR_F32));
    FAILS(CR_BAD_VALUE, "a multiple of the 144 bytes of a block of q4_k", cr_unpack(w, "q4_k", CR_F32));
    FAILS(CR_BAD_VALUE, "[linear_packed] the last axis of (2, 64)", cr_linear_packed(x,
          packed_rows(CR_FORMAT_Q8_0, 3, 96, cr_cpu()), "q8_0", CR_NONE));
    FAILS(CR_BAD_VALUE, "[linear_packed] the bias must be (3,)", cr_linear_packed(x, w, "q8_0",
          cr_reshape(numbers(1, 4, CR_F32, cr_cpu()), CR_LIST(4))));
    FAILS(CR_BAD_TYPE, "[linear_packed]", cr_linear_packed(w, w, "q8_0", CR_NONE));
    CHECK(cr_numel(cr_linear_packed(cr_slice(x, 0, 0, 0, 1), w, "q8_0", CR_NONE)) == 0, "no rows");
    cr_scope_end();
}
#endif
