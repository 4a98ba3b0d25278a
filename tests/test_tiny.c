/* test_tiny.c - from a constant to a training step on every device, in well under a second: run it
 * before every commit. */
#define CR_TEST_EVERY_DEVICE
#include "test.h"

static const double tiny = 1e-5;                    /* a few roundings of float32 */

static bool near(double a, double b) { return fabs(a - b) <= tiny * (1 + fabs(b)); }

static void constant(const cr_device *dev) {
    cr_tensor *x = cr_full(CR_LIST(2, 3), 1.5, CR_F32, dev);
    CHECK(cr_ndim(x) == 2 && cr_size(x, 0) == 2 && cr_size(x, -1) == 3 && cr_numel(x) == 6, "shape of a constant on %s",
          cr_device_name(dev));
    CHECK(near(cr_item(cr_sum(x, CR_ALL, false)), 9), "six times 1.5 on %s", cr_device_name(dev));
    float back[6] = {0}, data[6] = {1, 2, 3, 4, 5, 6};
    OK(cr_read(cr_transpose(cr_from(data, CR_LIST(2, 3), CR_F32, dev), 0, 1), CR_F32, back, sizeof back));
    CHECK(back[0] == 1 && back[1] == 4 && back[2] == 2 && back[5] == 6,
          "a transposed matrix came back as %g %g %g ... %g", back[0], back[1], back[2], back[5]);
}

static void arithmetic(const cr_device *dev) {
    cr_tensor *a = cr_from((float[]){1, -2, 3}, CR_LIST(3), CR_F32, dev),
              *b = cr_from((float[]){0.5f, 4}, CR_LIST(2, 1), CR_F32, dev);
    float y[6] = {0};
    OK(cr_read(cr_add_scalar(cr_mul(a, b), 1), CR_F32, y, sizeof y));
    CHECK(y[0] == 1.5f && y[1] == 0 && y[2] == 2.5f && y[3] == 5 && y[4] == -7 && y[5] == 13, "a b + 1 on %s",
          cr_device_name(dev));
    float c[4] = {0};
    cr_tensor *m = cr_from((float[]){1, 2, 3, 4, 5, 6}, CR_LIST(2, 3), CR_F32, dev);
    OK(cr_read(cr_matmul(m, cr_transpose(m, 0, 1)), CR_F32, c, sizeof c));
    CHECK(c[0] == 14 && c[1] == 32 && c[2] == 32 && c[3] == 77, "a product on %s: %g %g %g %g", cr_device_name(dev),
          c[0], c[1], c[2], c[3]);
}

/* y = tanh(x)^2 + 3 x:  dy/dx = 2 tanh(x) (1 - tanh(x)^2) + 3 */
static void gradient(const cr_device *dev) {
    cr_tensor *x = cr_requires_grad_(cr_full(CR_ALL, 0.7, CR_F32, dev), true), *t = cr_tanh(x);
    OK(cr_backward(cr_add(cr_mul(t, t), cr_mul_scalar(x, 3)), CR_NONE, NULL));
    double h = tanh(0.7), g = cr_item(cr_grad(x));
    CHECK(near(g, 2 * h * (1 - h * h) + 3), "gradient on %s: %g", cr_device_name(dev), g);
}

/* Eight points of xor with noise; tanh(x w1 + b1) w2 + b2, mean squared error, plain gradient descent. */
typedef struct mlp { cr_tensor *w1, *b1, *w2, *b2; } mlp;

static cr_tensor *parameter(cr_device const *dev, cr_generator *g, int64_t rows, int64_t columns) {
    return cr_requires_grad_(cr_to(cr_randn(CR_LIST(rows, columns), CR_F64, cr_ref(), g), CR_F32, dev), true);
}

static double step(mlp *m, const cr_tensor *x, const cr_tensor *y, double lr) {
    cr_tensor *h = cr_tanh(cr_add(cr_matmul(x, m->w1), m->b1)), *error = cr_sub(cr_add(cr_matmul(h, m->w2), m->b2), y);
    cr_tensor *loss = cr_mean(cr_mul(error, error), CR_ALL, false), *all[] = {m->w1, m->b1, m->w2, m->b2};
    OK(cr_backward(loss, CR_NONE, NULL));
    bool recording = cr_set_grad_enabled(false);
    for (int i = 0; i < 4; i++) {
        CHECK(cr_sub_(all[i], cr_mul_scalar(cr_grad(all[i]), lr)), "step: %s", cr_error());
        OK(cr_set_grad(all[i], CR_NONE));
    }
    cr_set_grad_enabled(recording);
    return cr_item(loss);
}

static double train(const cr_device *dev, int steps) {
    static const float points[16] = {0, 0, 0, 1, 1, 0, 1, 1, 0.1f, -0.1f, -0.1f, 0.9f, 1.1f, 0.1f, 0.9f, 1.1f},
                       truth[8] = {0, 1, 1, 0, 0, 1, 1, 0};
    cr_generator *g = cr_generator_new(3);
    mlp m = {parameter(dev, g, 2, 8), parameter(dev, g, 1, 8), parameter(dev, g, 8, 1), parameter(dev, g, 1, 1)};
    cr_tensor *x = cr_from(points, CR_LIST(8, 2), CR_F32, dev), *y = cr_from(truth, CR_LIST(8, 1), CR_F32, dev);
    double first = 0, last = 0;
    for (int i = 0; i < steps; i++) {
        cr_scope_begin();
        last = step(&m, x, y, 0.1);
        if (!i) first = last;
        cr_scope_end();
    }
    CHECK(steps == 1 || last < first / 4, "the loss on %s went from %g to %g in %d steps", cr_device_name(dev), first,
          last, steps);
    cr_generator_free(g);
    return last;
}

TEST(tiny) {
    double first_step = 0;
    for (int i = 0; cr_device_at(i); i++) {
        const cr_device *dev = cr_device_at(i);
        cr_scope_begin();
        constant(dev);
        arithmetic(dev);
        gradient(dev);
        double loss = train(dev, 1);
        if (i == 0) first_step = loss;
        CHECK(near(loss, first_step), "the first loss on %s is %.9g, on %s %.9g", cr_device_name(dev), loss,
              cr_device_name(cr_device_at(0)), first_step);
        train(dev, 200);
        cr_scope_end();
        test_ran_on(dev);
    }
}
