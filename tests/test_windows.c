/* test_windows.c - pooling, resampling and batch normalization by their C names: values, positions, refused calls. */
#include "test.h"

#include <math.h>

static cr_tensor *numbers(const double *v, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev) {
    return cr_to(cr_from(v, n, shape, CR_F64, dev), dt, dev);
}

static void is(const cr_tensor *t, int64_t n, const double *wanted, double error, const char *what) {
    double got[32] = {0};
    OK(cr_read(t, CR_F64, got, sizeof *got * (size_t)n));
    for (int64_t i = 0; i < n; i++)
        CHECK(isnan(wanted[i]) ? isnan(got[i]) : got[i] == wanted[i] || fabs(got[i] - wanted[i]) <= error,
              "%s on %s, element %lld: %g, wanted %g", what, cr_device_name(cr_device_of(t)), (long long)i, got[i],
              wanted[i]);
}

static void on_device(const cr_device *dev) {
    const double v[12] = {1, 5, 2, 8, 3, 5, 0, 8, 7, 7, 4, 6};
    for (cr_dtype dt = CR_F16; dt <= CR_F64; dt++) {
        cr_scope_begin();
        cr_tensor *x = numbers(v, CR_LIST(1, 3, 4), dt, dev), *index, *mean, *var;
        cr_pool_options o = cr_pool_defaults(2, 2);
        is(cr_max_pool(x, &o, &index), 2, (double[]){5, 8}, 0, "max");
        is(index, 2, (double[]){1, 3}, 0, "the first of equals");
        o.ceil = true;
        is(cr_max_pool(x, &o, &index), 4, (double[]){5, 8, 7, 6}, 0, "max, ceil");
        is(index, 4, (double[]){1, 3, 8, 11}, 0, "positions, ceil");
        is(cr_avg_pool(x, &o), 4, (double[]){3.5, 4.5, 7, 5}, 0, "mean, ceil");
        is(cr_adaptive_avg_pool(x, 2, (int64_t[]){1, 2}), 2, (double[]){28 / 6.0, 28 / 6.0}, 2e-2, "adaptive mean");
        is(cr_adaptive_max_pool(x, 2, (int64_t[]){2, 1}, &index), 2, (double[]){8, 8}, 0, "adaptive max");
        is(index, 2, (double[]){3, 7}, 0, "adaptive positions");
        is(cr_interpolate(cr_slice(x, 1, 0, 1, 1), 1, (int64_t[]){8},
                          &(cr_interpolate_options){.mode = CR_RESAMPLE_LINEAR}), 8,
           (double[]){1, 2, 4, 4.25, 2.75, 3.5, 6.5, 8}, 0, "linear");
        CHECK(cr_batch_norm(x, CR_NONE, CR_NONE, 0, &mean, &var), "%s", cr_error());
        is(mean, 3, (double[]){4, 4, 6}, 1e-6, "means");
        is(var, 3, (double[]){7.5, 8.5, 1.5}, 1e-6, "variances");
        cr_scope_end();
    }
}

TEST(values) {
    on_device(cr_cpu());
    on_device(cr_ref());
}

/* A weight of 0 adds nothing: an infinity beside a window stays out of it. */
TEST(infinities_stay_outside) {
    const double v[5] = {1, 2, 3, (double)INFINITY, (double)NAN};
    for (int d = 0; d < 2; d++) {
        cr_scope_begin();
        const cr_device *dev = d ? cr_ref() : cr_cpu();
        cr_tensor *x = numbers(v, CR_LIST(5), CR_F32, dev), *index;
        cr_tensor *beside = numbers((double[]){1, 2, (double)INFINITY, 4, 5}, CR_LIST(5), CR_F32, dev);
        cr_pool_options o = cr_pool_defaults(1, 3);
        o.stride[0] = o.pad[0] = 1;
        is(cr_avg_pool(x, &o), 5, (double[]){1, 2, (double)INFINITY, (double)NAN, (double)NAN}, 1e-6, "mean");
        is(cr_slice(cr_avg_pool(beside, &o), 0, 0, 5, 4), 2, (double[]){1, 3}, 1e-6, "mean beside an infinity");
        is(cr_max_pool(x, &o, &index), 5, (double[]){2, 3, (double)INFINITY, (double)NAN, (double)NAN}, 0, "max");
        is(index, 5, (double[]){1, 2, 3, 4, 4}, 0, "positions");
        is(cr_max_pool(x, &o, NULL), 5, (double[]){2, 3, (double)INFINITY, (double)NAN, (double)NAN}, 0, "values");
        const double plane[8] = {(double)NAN, 1, -1, -2, 2, (double)NAN, -2, -1}, down = -(double)INFINITY;
        o = cr_pool_defaults(2, 2);
        is(cr_max_pool(numbers(plane, CR_LIST(1, 2, 4), CR_F32, dev), &o, &index), 2, (double[]){(double)NAN, -1}, 0,
           "NaN in two columns");
        is(index, 2, (double[]){5, 2}, 0, "the last NaN, the first of equals");
        is(cr_max_pool(cr_full(CR_LIST(1, 2, 2), down, CR_F32, dev), &o, NULL), 1, &down, 0, "minus infinity");
        cr_scope_end();
    }
}

TEST(refused) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(2, 3, 5), CR_F32, cr_cpu());
    cr_pool_options o = cr_pool_defaults(2, 2);
    o.stride[1] = 0;
    FAILS(CR_BAD_VALUE, "[max_pool2d] the stride must be 1 or more: 0", cr_max_pool(x, &o, NULL));
    o = cr_pool_defaults(2, 4);
    FAILS(CR_BAD_VALUE, "[avg_pool2d] the kernel is larger than the padded input (2, 3, 5)", cr_avg_pool(x, &o));
    o = cr_pool_defaults(2, 2);
    o.pad[0] = 2;
    FAILS(CR_BAD_VALUE, "[max_pool2d] pad must be 0 to half of the window", cr_max_pool(x, &o, NULL));
    o = cr_pool_defaults(1, 2);
    o.kernel[0] = INT64_MAX;
    FAILS(CR_BAD_VALUE, "[max_pool1d] kernel size", cr_max_pool(x, &o, NULL));
    o = cr_pool_defaults(4, 2);
    FAILS(CR_BAD_VALUE, "[max_pool] 4 spatial axes", cr_max_pool(x, &o, NULL));
    o = cr_pool_defaults(2, 2);
    o.dilation[0] = 2;
    FAILS(CR_BAD_VALUE, "[avg_pool] the dilation must be 1: 2", cr_avg_pool(x, &o));
    FAILS(CR_BAD_VALUE, "[adaptive_avg_pool] cannot bring", cr_adaptive_avg_pool(x, 2, (int64_t[]){-1, 2}));
    FAILS(CR_BAD_VALUE, "[interpolate] the sizes", cr_interpolate(x, 2, (int64_t[]){0, 2}, NULL));
    FAILS(CR_BAD_VALUE, "[interpolate] antialias",
          cr_interpolate(x, 2, (int64_t[]){2, 2}, &(cr_interpolate_options){.antialias = true}));
    FAILS(CR_BAD_VALUE, "[batch_norm] the weight must be (3,)", cr_batch_norm(x, cr_ones(CR_LIST(5), CR_F32, cr_cpu()),
                                                                              CR_NONE, 1e-5, NULL, NULL));
    FAILS(CR_BAD_VALUE, "[batch_norm] eps", cr_batch_norm(x, CR_NONE, CR_NONE, -1, NULL, NULL));
    FAILS(CR_BAD_VALUE, "[batch_norm] needs at least 2 axes",
          cr_batch_norm(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), CR_NONE, CR_NONE, 0, NULL, NULL));
    FAILS(CR_BAD_VALUE, "[batch_norm]", cr_batch_norm_with(x, CR_NONE, CR_NONE, CR_NONE, CR_NONE, 0));
    cr_scope_end();
}
