/* test_quantized.c - weights of 4 or 8 bits: codes and scales against bounds and by hand, layers on every device and
 * instruction set against `ref`, views, threads, rounding with feedback, refused calls. */
#pragma GCC diagnostic ignored "-Wunused-function"  /* of check.h, for other tests */
#include "check.h"

#include "use_isa.h"
#include "dev/cpu/isa.h"
#include "dev/cpu/quantized.h"

static double number(int64_t i) { return (double)((i * 7919 + 13) % 1009) / 1009 - 0.5; }

static cr_tensor *numbers(int64_t rows, int64_t columns, cr_dtype dt, const cr_device *dev) {
    double *v = malloc((size_t)(rows * columns) * sizeof *v);
    for (int64_t i = 0; i < rows * columns; i++) v[i] = number(i);
    cr_tensor *t = cr_to(cr_from(v, CR_LIST(rows, columns), CR_F64, cr_cpu()), dt, dev);
    free(v);
    return t;
}

static double most(const cr_tensor *t) { return cr_item(cr_max(cr_abs(cr_to(t, CR_F64, cr_cpu())), CR_ALL, false)); }
static double distance(const cr_tensor *a, const cr_tensor *b) {
    return most(cr_sub(cr_to(a, CR_F64, cr_cpu()), cr_to(b, CR_F64, cr_cpu())));
}
static cr_tensor *same_on(const cr_tensor *t, const cr_device *dev) { return cr_to(t, cr_dtype_of(t), dev); }

/* Half a step of each group is the largest error: the step is the group's largest weight / 127 or / 8. */
TEST(bounds) {
    cr_scope_begin();
    const cr_tensor *w = numbers(13, 192, CR_F32, cr_cpu());
    for (int bits = 4; bits <= 8; bits += 4)
        for (int64_t group = 32; group <= 96; group += 32) {
            cr_tensor *codes, *scales;
            OK(cr_quantize(w, bits, group, NULL, &codes, &scales));
            CHECK(cr_size(codes, 1) == 192 * bits / 8 && cr_size(scales, 1) == 192 / group, "shapes");
            const cr_tensor *back = cr_dequantize(codes, scales, CR_F64);
            const cr_tensor *error = cr_abs(cr_sub(back, cr_to(w, CR_F64, cr_cpu())));
            const cr_tensor *peak = cr_max(cr_abs(cr_to(cr_reshape(w, CR_LIST(13, 192 / group, group)), CR_F64,
                    cr_cpu())),
                                           CR_LIST(2), true);
            /* 8 bits: the largest weight lies on the grid.  4: the other sign ends a step earlier, at 7 of 8. */
            const double steps = bits == 8 ? 0.5 / 127 : 1.0 / 8;
            const cr_tensor *over = cr_sub(cr_reshape(error, CR_LIST(13, 192 / group, group)),
                                           cr_mul_scalar(peak, steps * 1.01));
            CHECK(cr_item(cr_max(over, CR_ALL, false)) <= 0, "%d bits, groups of %lld: beyond half a step", bits,
                  (long long)group);
            const double mean = cr_item(cr_mean(error, CR_ALL, false));
            CHECK(mean < (bits == 8 ? 0.0012 : 0.019) && mean > (bits == 8 ? 0.0005 : 0.008), "%d bits: mean error %g",
                  bits, mean);
        }
    cr_scope_end();
}

/* One block by hand: the layout that GGUF's Q4_0 has. */
TEST(layout) {
    cr_scope_begin();
    float w[32];
    for (int k = 0; k < 32; k++) w[k] = (float)(k % 16 - 8) / 4;
    cr_tensor *codes, *scales;
    OK(cr_quantize(cr_from(w, CR_LIST(1, 32), CR_F32, cr_cpu()), 4, 32, NULL, &codes, &scales));
    CHECK(cr_item(scales) == 0.25, "the scale is %g", cr_item(scales));
    uint8_t byte[16];
    OK(cr_read(codes, CR_U8, byte, sizeof byte));
    for (int j = 0; j < 16; j++) CHECK(byte[j] == j + 16 * j, "byte %d is %d", j, byte[j]);
    CHECK(distance(cr_dequantize(codes, scales, CR_F32), cr_from(w, CR_LIST(1, 32), CR_F32, cr_cpu())) == 0, "back");
    OK(cr_quantize(cr_zeros(CR_LIST(2, 32), CR_F32, cr_cpu()), 8, 32, NULL, &codes, &scales));
    CHECK(most(codes) == 0 && most(scales) == 0, "zeros");
    cr_scope_end();
}

/* y of one layer on a device, against ref in f64.  16 bits of x: an error below 2^-15 of its largest in each group. */
static void check_layer(const cr_device *dev, int64_t M, int64_t N, int64_t K, int bits, int64_t group, cr_dtype dt) {
    cr_scope_begin();
    cr_tensor *codes, *scales;
    const cr_tensor *x = numbers(M, K, dt, cr_cpu()), *b = cr_reshape(numbers(1, N, dt, cr_cpu()), CR_LIST(N));
    OK(cr_quantize(numbers(N, K, CR_F32, cr_cpu()), bits, group, NULL, &codes, &scales));
    const cr_tensor *want = cr_linear_quantized(cr_to(x, CR_F64, test_ref()), same_on(codes, test_ref()),
                                                same_on(scales, test_ref()), cr_to(b, CR_F64, test_ref()));
    const cr_tensor *y = cr_linear_quantized(same_on(x, dev), same_on(codes, dev), same_on(scales, dev), same_on(b,
            dev));
    REQUIRE(y && want, "%s", cr_error());
    const double unit = dt == CR_F32 ? 0 : dt == CR_F16 ? 0x1p-11 : 0x1p-8;
    const double allowed = 0x1p-15 * 0.5 * 0.3 * 2 * sqrt((double)K) + unit * most(want);
    CHECK(distance(y, want) <= allowed,
          "%s: (%lld, %lld) x (%lld), %d bits, groups of %lld, %s: error %g of %g, allowed %g",
          cr_device_name(dev), (long long)M, (long long)K, (long long)N, bits, (long long)group, cr_dtype_name(dt),
          distance(y, want), most(want), allowed);
    test_ran_on(dev);
    cr_scope_end();
}

static void check_layers(const cr_device *dev) {
    static const int64_t sizes[][4] = {{1, 7, 32, 32},   {1, 300, 96, 32},  {2, 17, 160, 32},  {1, 5, 192, 64},
                                       {3, 11, 192, 96}, {4, 9, 384, 128},  {5, 67, 128, 64},  {1, 3, 4256, 32},
                                       {1, 2, 8320, 128}, {1, 2, 6240, 96}, {9, 33, 64, 32},   {2, 1, 4224, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int bits = 4; bits <= 8; bits += 4)
            for (int dt = CR_F16; dt <= CR_F32; dt++)
                if (test_offers(dev, (cr_dtype)dt) && (dev->host || dt == CR_F32 || i % 4 == 1))
                    check_layer(dev, sizes[i][0], sizes[i][1], sizes[i][2], bits, sizes[i][3], (cr_dtype)dt);
}

TEST(layers) { for (int d = 0; test_variant(d); d++) check_layers(test_variant(d)); }

TEST(instruction_sets) {
    for (int isa = 0; isa <= 4; isa++) {
        if (!test_use_isa(isa)) continue;
        check_layers(cr_cpu());
    }
    test_use_isa(-1);
}

/* Codes and scales as views: rows of a larger matrix, columns of one, a beginning between words. */
static void check_views(const cr_device *dev) {
    enum { N = 11, K = 128 };
    cr_scope_begin();
    const cr_tensor *x = numbers(2, K, CR_F32, dev);
    for (int bits = 4; bits <= 8; bits += 4) {
        cr_tensor *codes, *scales;
        OK(cr_quantize(numbers(N, K, CR_F32, dev), bits, 32, NULL, &codes, &scales));
        const int64_t line = cr_size(codes, 1);
        const cr_tensor *want = cr_linear_quantized(x, codes, scales, CR_NONE);
        const cr_tensor *rows = cr_linear_quantized(x, cr_slice(codes, 0, 3, 8, 1), cr_slice(scales, 0, 3, 8, 1),
                CR_NONE);
        CHECK(distance(rows, cr_slice(want, 1, 3, 8, 1)) == 0, "%s: rows of codes", cr_device_name(dev));
        const cr_tensor *wide = cr_cat(2, (const cr_tensor *const[]){codes, codes}, 1);
        const cr_tensor *part = cr_linear_quantized(x, cr_slice(wide, 1, line, 2 * line, 1), scales, CR_NONE);
        CHECK(distance(part, want) == 0, "%s: columns of codes", cr_device_name(dev));
        const cr_tensor *flat = cr_reshape(codes, CR_LIST(N * line)), *one = cr_slice(flat, 0, 0, 1, 1);
        const cr_tensor *odd = cr_slice(cr_cat(2, (const cr_tensor *const[]){one, flat}, 0), 0, 1, N * line + 1, 1);
        const cr_tensor *between = cr_linear_quantized(x, cr_view(odd, CR_LIST(N, line)), scales, CR_NONE);
        CHECK(distance(between, want) < 1e-4, "%s: codes that begin between words", cr_device_name(dev));
        CHECK(distance(cr_dequantize(cr_view(odd, CR_LIST(N, line)), scales, CR_F32),
                       cr_dequantize(codes, scales, CR_F32)) == 0, "%s: dequantize between words", cr_device_name(dev));
        test_ran_on(dev);
    }
    cr_scope_end();
}
TEST(views) { for (int d = 0; test_variant(d); d++) if (test_offers(test_variant(d),
        CR_F32)) check_views(test_variant(d)); }

/* x of numbers that 16 bits cannot hold, and of numbers that are none. */
TEST(awkward_inputs) {
    enum { K = 64 };
    cr_scope_begin();
    cr_tensor *codes, *scales;
    OK(cr_quantize(numbers(3, K, CR_F32, cr_cpu()), 4, 32, NULL, &codes, &scales));
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e-40f, 3e38f, 0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        float x[K] = {0}, y[3];
        x[40] = values[i];
        OK(cr_read(cr_linear_quantized(cr_from(x, CR_LIST(1, K), CR_F32, cr_cpu()), codes, scales, CR_NONE),
                   CR_F32, y, sizeof y));
        for (int n = 0; n < 3; n++) {
            const double w = cr_item(cr_select(cr_select(cr_dequantize(codes, scales, CR_F64), 0, n), 0, 40));
            if (!isfinite(values[i])) CHECK(!isfinite(y[n]), "x %g gives %g", (double)values[i], (double)y[n]);
            else CHECK(fabs((double)y[n] - w * (double)values[i]) <= 1e-4 * fabs(w * (double)values[i]) + 1e-30,
                       "x %g times %g gives %g", (double)values[i], w, (double)y[n]);
        }
    }
    cr_scope_end();
}

TEST(threads) {
    const int before = cr_num_threads();
    cr_scope_begin();
    const cr_tensor *y[2][2];
    for (int t = 0; t < 2; t++) {
        cr_set_num_threads(t + 1);
        cr_tensor *codes, *scales;
        const cr_tensor *h = numbers(160, 160, CR_F32, cr_cpu());
        OK(cr_quantize(numbers(1100, 160, CR_F32, cr_cpu()), 4, 32, cr_matmul(h, cr_transpose(h, 0, 1)), &codes,
                &scales));
        for (int m = 0; m < 2; m++)
            y[t][m] = cr_linear_quantized(numbers(m ? 33 : 1, 160, CR_F32, cr_cpu()), codes, scales, CR_NONE);
    }
    for (int m = 0; m < 2; m++) CHECK(distance(y[0][m], y[1][m]) == 0, "one and two threads differ by %g",
                                      distance(y[0][m], y[1][m]));
    cr_set_num_threads(before);
    cr_scope_end();
}

/* Inputs with strong correlations: feedback must give outputs nearer to the layer's. */
TEST(feedback) {
    enum { N = 48, K = 192, ROWS = 512 };
    cr_scope_begin();
    const cr_tensor *few = numbers(ROWS, 24, CR_F32, cr_cpu()), *mix = numbers(24, K, CR_F32, cr_cpu());
    const cr_tensor *x = cr_add(cr_matmul(few, mix), cr_mul_scalar(numbers(ROWS, K, CR_F32, cr_cpu()), 0.1));
    const cr_tensor *w = numbers(N, K, CR_F32, cr_cpu()), *want = cr_linear(x, w, CR_NONE);
    const cr_tensor *moments = cr_matmul(cr_transpose(x, 0, 1), x);
    double error[2];
    for (int m = 0; m < 2; m++) {
        cr_tensor *codes, *scales;
        OK(cr_quantize(w, 4, 32, m ? moments : NULL, &codes, &scales));
        const cr_tensor *y = cr_linear(x, cr_dequantize(codes, scales, CR_F32), CR_NONE);
        error[m] = cr_item(cr_sum_squares(cr_sub(y, want)));
    }
    CHECK(error[1] < 0.3 * error[0], "with feedback %g, without %g", error[1], error[0]);
    cr_scope_end();
}

TEST(refused) {
    cr_scope_begin();
    cr_tensor *codes = NULL, *scales = NULL, *w = numbers(3, 96, CR_F32, cr_cpu());
    FAILS(CR_BAD_VALUE, "[quantize] bits must be 8 or 4, not 5", cr_quantize(w, 5, 32, NULL, &codes,
            &scales) ? NULL : w);
    FAILS(CR_BAD_VALUE, "[quantize] the group must be 32, 64, 96 or 128, not 48",
          cr_quantize(w, 4, 48, NULL, &codes, &scales) ? NULL : w);
    FAILS(CR_BAD_VALUE, "[quantize] groups of 64 do not divide the 96 inputs of (3, 96)",
          cr_quantize(w, 4, 64, NULL, &codes, &scales) ? NULL : w);
    FAILS(CR_BAD_VALUE, "[quantize] the moments must be (96, 96)", cr_quantize(w, 4, 32, w, &codes,
            &scales) ? NULL : w);
    FAILS(CR_BAD_VALUE, "of row 3 are not finite",
          cr_quantize(cr_cat(2, (const cr_tensor *const[]){w, cr_full(CR_LIST(1, 96), NAN, CR_F32, cr_cpu())}, 0), 8,
                  32,
                      NULL, &codes, &scales) ? NULL : w);
    FAILS(CR_BAD_TYPE, "[quantize]", cr_quantize(cr_ones(CR_LIST(2, 32), CR_I64, cr_cpu()), 8, 32, NULL, &codes,
            &scales) ? NULL : w);
    OK(cr_record_begin(0, NULL));
    FAILS(CR_RUNTIME, "[quantize] the value of a tensor is read while a step is recorded",
          cr_quantize(w, 8, 32, NULL, &codes, &scales) ? NULL : w);
    cr_record_cancel();
    CHECK(!codes && !scales, "a refused call gives nothing");
    OK(cr_quantize(w, 8, 32, NULL, &codes, &scales));
    const cr_tensor *x = numbers(2, 96, CR_F32, cr_cpu());
    FAILS(CR_BAD_VALUE, "[linear_quantized] the last axis of (2, 64) must be the 96 inputs of the weight (3, 96)",
          cr_linear_quantized(cr_slice(x, 1, 0, 64, 1), codes, scales, CR_NONE));
    FAILS(CR_BAD_VALUE, "[linear_quantized] 2 scales do not divide 96 columns into groups of a multiple of 32",
          cr_linear_quantized(x, codes, cr_slice(scales, 1, 0, 2, 1), CR_NONE));
    FAILS(CR_BAD_TYPE, "[linear_quantized] the scales must be float16: float32",
          cr_linear_quantized(x, codes, cr_to(scales, CR_F32, cr_cpu()), CR_NONE));
    FAILS(CR_BAD_TYPE, "[linear_quantized] the codes must be int8 (8 bits) or uint8 (4 bits): int32",
          cr_linear_quantized(x, cr_to(codes, CR_I32, cr_cpu()), scales, CR_NONE));
    FAILS(CR_BAD_VALUE, "[linear_quantized] the bias must be (3,)", cr_linear_quantized(x, codes, scales, x));
    FAILS(CR_BAD_VALUE, "[linear_quantized] the scales are frozen",
          cr_linear_quantized(x, codes, cr_requires_grad_(cr_clone(scales), true), CR_NONE));
    FAILS(CR_BAD_TYPE, "[dequantize] the dtype must be a float dtype: int8", cr_dequantize(codes, scales, CR_I8));
    cr_scope_end();
}

/* ---- the kernels' room for x holds whatever was there before */
enum { ROOM_N = 5, ROOM_K = 576, ROOM_G = 32, ROOM_CODES = ROOM_N * ROOM_K, ROOM_SCALES = ROOM_N * ROOM_K / ROOM_G };
typedef struct room {
    _Alignas(64) unsigned char q[640 * CR_QUANTIZED_X];
    float scale[32], offset[32];
} room;

static void rows_in(const struct cr_quantizeds *k, bool eight, int before, float y[ROOM_N]) {
    static room x;
    static float row[ROOM_K];
    const size_t bytes = (size_t)ROOM_CODES / (eight ? 1u : 2u);
    uint8_t *codes = malloc(bytes);
    uint16_t *scales = malloc(ROOM_SCALES * sizeof *scales);
    memset(&x, before, sizeof x);
    for (int i = 0; i < ROOM_K; i++) row[i] = (float)number(i);
    for (size_t i = 0; i < bytes; i++) codes[i] = (uint8_t)(i * 37 + 11);
    for (int i = 0; i < ROOM_SCALES; i++) scales[i] = (uint16_t)(0x3c00 + 16 * i);
    const cr_quantized_shape shape = {ROOM_K, ROOM_G, eight};
    const cr_quantized_row at = {x.q, x.scale, x.offset};
    k->prepare(&shape, &at, row);
    k->rows(&shape, y, codes, scales, ROOM_N, &at);
    free(codes), free(scales);
}

static void check_room(const struct cr_quantizeds *k, const char *name) {
    for (int eight = 0; eight < 2; eight++) {
        float clean[ROOM_N], unclean[ROOM_N];
        rows_in(k, eight, 0, clean);
        rows_in(k, eight, 0xff, unclean);
        CHECK(!memcmp(clean, unclean, sizeof clean), "%s, %d bits: y depends on what was in the room for x", name,
              eight ? 8 : 4);
    }
}

TEST(room) {
    for (int isa = 0; isa <= 4; isa++) {
        const struct cr_isa_kernels *k = cr_cpu_vec_for(isa);
        char name[8];
        snprintf(name, sizeof name, "v%d", isa);
        if (k) check_room(k->quantized, name);
    }
#if defined __x86_64__
    if (cr_cpu_bytes()) check_room(&cr_quantizeds_bytes, "bytes");
#endif
}
