/* test_conv_cpu.c - convolutions of the cpu beside those of ref in float64: sizes beyond every block, primes, strides,
 * dilation, groups and uneven padding, each kind, dtype and instruction set; one thread and two give the same bits. */
#include <math.h>

#include "use_isa.h"
#include "core/array.h"
#include "core/tensor.h"
#include "test.h"

typedef struct shape {
    const char *what;
    int64_t B, C, OC, groups, in[3], kernel[3], stride[3], dilation[3], pad[3][2];
} shape;
static const shape shapes[] = {
    {"3x3, several blocks", 2, 37, 23, 1, {1, 17, 37}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {{0}, {1, 1}, {1, 1}}},
    {"3x3, small images", 11, 33, 47, 1, {1, 5, 3}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {{0}, {1, 1}, {1, 1}}},
    {"3x3, wide rows, depths, groups", 2, 40, 34, 2, {2, 9, 141}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1},
     {{0}, {0, 1}, {4, 0}}},
    {"3x3, channels beyond a block", 3, 597, 19, 1, {1, 6, 8}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {{0}, {0, 0}, {1, 0}}},
    {"4x4, stride 2", 3, 35, 39, 1, {1, 16, 16}, {1, 4, 4}, {1, 2, 2}, {1, 1, 1}, {{0}, {1, 1}, {1, 1}}},
    {"4x4, stride 2, uneven padding", 5, 18, 50, 1, {1, 21, 13}, {1, 4, 4}, {1, 2, 2}, {1, 1, 1},
     {{0}, {0, 3}, {2, 0}}},
    {"4x4, stride 2, groups, depths", 2, 36, 34, 2, {2, 15, 70}, {1, 4, 4}, {1, 2, 2}, {1, 1, 1},
     {{0}, {3, 1}, {0, 1}}},
    {"4x4, stride 2, channels beyond a block", 9, 301, 17, 1, {1, 6, 8}, {1, 4, 4}, {1, 2, 2}, {1, 1, 1},
     {{0}, {1, 1}, {1, 2}}},
    {"3x3, several long blocks", 1, 72, 73, 1, {1, 36, 34}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {{0}, {1, 1}, {1, 1}}},
    {"3x3, few large blocks", 1, 1100, 16, 1, {1, 8, 44}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {{0}, {1, 1}, {1, 1}}},
    {"more channels than a block of taps", 1, 307, 13, 1, {1, 5, 9}, {1, 1, 3}, {1, 1, 1}, {1, 1, 1},
     {{0}, {0}, {2, 0}}},
    {"buffer beyond its cache", 1, 35, 4, 1, {1, 41, 97}, {1, 1, 3}, {1, 1, 1}, {1, 1, 1}, {{0}, {1, 0}, {2, 0}}},
    {"7x7, stride 2", 1, 3, 17, 1, {1, 43, 61}, {1, 7, 7}, {1, 2, 2}, {1, 1, 1}, {{0}, {3, 3}, {3, 2}}},
    {"stride beyond the kernel", 2, 5, 9, 1, {1, 31, 29}, {1, 2, 3}, {1, 3, 5}, {1, 1, 1}, {{0}, {1, 0}, {0, 1}}},
    {"stride and dilation with a common factor", 1, 4, 11, 1, {1, 29, 47}, {1, 3, 4}, {1, 4, 6}, {1, 2, 3},
     {{0}, {2, 1}, {0, 4}}},
    {"dilation", 2, 9, 8, 1, {1, 27, 33}, {1, 3, 3}, {1, 1, 1}, {1, 5, 4}, {{0}, {5, 2}, {4, 4}}},
    {"three axes", 2, 5, 7, 1, {7, 9, 11}, {3, 2, 3}, {2, 1, 2}, {1, 2, 1}, {{1, 0}, {1, 1}, {0, 1}}},
    {"groups", 2, 12, 20, 4, {1, 19, 23}, {1, 3, 3}, {1, 1, 2}, {1, 1, 1}, {{0}, {1, 1}, {1, 1}}},
    {"depthwise", 3, 11, 11, 11, {1, 61, 37}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {{0}, {1, 1}, {1, 1}}},
    {"depthwise, stride, multiplier", 2, 7, 14, 7, {1, 33, 45}, {1, 5, 4}, {1, 2, 3}, {1, 1, 1},
     {{0}, {2, 2}, {1, 2}}},
    {"small planes, sums beyond the cache", 5, 40, 300, 1, {1, 6, 6}, {1, 4, 4}, {1, 2, 2}, {1, 1, 1},
     {{0}, {1, 1}, {1, 1}}},
    {"one channel", 2, 1, 32, 1, {1, 28, 28}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {{0}, {2, 2}, {2, 2}}},
    {"one tap", 3, 43, 29, 1, {1, 14, 13}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {{0}, {0}, {0}}},
    {"one tap, groups", 2, 22, 26, 2, {3, 7, 5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {{0}, {0}, {0}}},
    {"one tap, stride 2", 2, 23, 19, 1, {1, 15, 17}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {{0}, {0}, {0}}},
    {"rows of one", 2, 3, 5, 1, {1, 41, 1}, {1, 4, 1}, {1, 1, 1}, {1, 1, 1}, {{0}, {0}, {0}}},
    {"more padding than input", 1, 2, 9, 1, {1, 3, 2}, {1, 2, 5}, {1, 1, 2}, {1, 1, 1}, {{0}, {4, 5}, {7, 6}}},
};

static int64_t out_of(const shape *s, int i) {
    return (s->in[i] + s->pad[i][0] + s->pad[i][1] - s->dilation[i] * (s->kernel[i] - 1) - 1) / s->stride[i] + 1;
}

typedef enum layout { PLAIN, CHANNELS_LAST, CROPPED, LAYOUTS } layout;
static const char *const layouts[] = {"", ", channels last", ", cropped"};

/* x, w, y of `dt` with numbers from a formula; cropped: a part of wider rows. */
static cr_tensor *filled(int64_t a, int64_t b, const int64_t *space, cr_dtype dt, const cr_device *dev, int seed,
                         layout how) {
    const int64_t n = a * b * space[0] * space[1] * space[2];
    cr_tensor *i = cr_arange(0, (double)n, 1, CR_F64, cr_cpu());
    cr_tensor *v = cr_sin(cr_add_scalar(cr_mul_scalar(i, 0.7 + seed), seed));
    cr_tensor *t = cr_to(cr_to(cr_reshape(v, CR_LIST(a, b, space[0], space[1], space[2])), dt, cr_cpu()), dt, dev);
    if (how == CROPPED) return cr_slice(cr_cat(2, (const cr_tensor *const[]){t, t}, 4), 4, 0, space[2], 1);
    if (how == PLAIN) return t;
    return cr_permute(cr_contiguous(cr_permute(t, CR_LIST(0, 2, 3, 4, 1))), CR_LIST(0, 4, 1, 2, 3));
}

/* The result of one kind as float64 on the host. */
static cr_tensor *run(const shape *s, cr_conv_kind kind, cr_dtype dt, cr_dtype wide, const cr_device *dev,
                      layout how) {
    int64_t out[3];
    for (int i = 0; i < 3; i++) out[i] = out_of(s, i);
    cr_tensor *x = filled(s->B, s->C, s->in, dt, dev, 1, kind == CR_CONV_INPUT ? PLAIN : how),
              *w = filled(s->OC, s->C / s->groups, s->kernel, dt, dev, 2, PLAIN),
              *y = filled(s->B, s->OC, out, dt, dev, 3, kind == CR_CONV_FORWARD ? PLAIN : how);
    cr_tensor *bias = filled(s->OC, 1, (int64_t[]){1, 1, 1}, dt, dev, 4, PLAIN);
    x = cr_to(x, wide, dev), w = cr_to(w, wide, dev), y = cr_to(y, wide, dev), bias = cr_to(bias, wide, dev);
    cr_conv_args a = {.y = y->array, .x = x->array, .w = w->array, .kind = kind, .groups = s->groups};
    const int64_t n[1] = {s->OC};
    if (kind == CR_CONV_FORWARD) a.bias = cr_array_as(&bias->array, 1, n);
    for (int i = 0; i < 3; i++) a.stride[i] = s->stride[i], a.pad[i] = s->pad[i][0], a.dilation[i] = s->dilation[i];
    OK(dev->kernels->conv(&a));
    return cr_to(cr_to(kind == CR_CONV_FORWARD ? y : kind == CR_CONV_INPUT ? x : w, CR_F64, dev), CR_F64, cr_cpu());
}

static double largest_difference(const cr_tensor *a, const cr_tensor *b) {
    return cr_item(cr_max(cr_abs(cr_sub(a, b)), CR_ALL, false));
}

static const char *const kinds[] = {"forward", "input", "weight"};

static void compare(const shape *s, cr_conv_kind kind, cr_dtype dt, int isa, const cr_tensor *want) {
    const double eps = dt == CR_F64 ? 1e-13 : dt == CR_F32 ? 1e-5 : dt == CR_F16 ? 2e-3 : 1.2e-2;
    int64_t terms = kind == CR_CONV_WEIGHT ? s->B : 0;             /* of a sum whose largest terms may cancel */
    for (int i = 0; i < 3; i++) terms *= out_of(s, i);
    const double largest = cr_item(cr_max(cr_abs(want), CR_ALL, false)),
                 scale = fmax(fmax(1, largest), sqrt((double)terms) / 16);
    for (int how = PLAIN; how < (dt == CR_F32 || test_full() ? LAYOUTS : CROPPED); how++) {
        cr_set_num_threads(1);
        cr_tensor *got = run(s, kind, dt, dt, cr_cpu(), (layout)how);
        cr_set_num_threads(2);
        cr_tensor *again = run(s, kind, dt, dt, cr_cpu(), (layout)how);
        const double error = largest_difference(got, want);
        CHECK(error <= eps * scale, "%s, %s, %s, v%d%s: differs by %g, largest %g", s->what, kinds[kind],
              cr_dtype_name(dt), isa, layouts[how], error, scale);
        CHECK(largest_difference(got, again) == 0, "%s, %s, %s, v%d: threads change the bits", s->what, kinds[kind],
              cr_dtype_name(dt), isa);
    }
}

TEST(kinds) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_F16, CR_BF16};
    const int threads = cr_num_threads();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = CR_CONV_FORWARD; kind <= CR_CONV_WEIGHT; kind++)
            for (int d = 0; d < 4; d++) {
                if (d > 0 && (d != 1 + (int)i % 3 || shapes[i].C * shapes[i].OC > 5000) && !test_full()) continue;
                cr_scope_begin();
                const cr_tensor *want = run(&shapes[i], (cr_conv_kind)kind, dtypes[d], CR_F64, cr_ref(), PLAIN);
                for (int isa = 2; isa <= 4; isa++) {
                    if (!test_use_isa(isa)) continue;
                    compare(&shapes[i], (cr_conv_kind)kind, dtypes[d], isa, want);
                }
                test_use_isa(-1);
                cr_scope_end();
            }
    cr_set_num_threads(threads);
    test_ran_on(cr_cpu());
}
