/* test_value.c - Values: numbers and gradients against closed forms and differences, the order of the
 * walk, ownership, threads, memory. */
#include <float.h>

#include "core/os.h"
#include "test.h"
#include "value/pool.h"

static cr_value *leaf(double x) { return cr_value_new(x, cr_cpu()); }

/* Gives back what it computed with: f(take(x)) frees as it goes. */
static cr_value *pass(cr_value *y, cr_value *a, cr_value *b) {
    cr_value_release(a);
    cr_value_release(b);
    return y;
}
static void drop(cr_value *const *v) { while (*v) cr_value_release(*v++); }
#define DROP(...) drop((cr_value *const[]){__VA_ARGS__, NULL})
static cr_value *add(cr_value *a, cr_value *b) { return pass(cr_value_add(a, b), a, b); }
static cr_value *mul(cr_value *a, cr_value *b) { return pass(cr_value_mul(a, b), a, b); }
static cr_value *keep(cr_value *a) { return cr_value_retain(a); }

static bool near(double a, double b, double tolerance) {
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance * fmax(1, fmax(fabs(a), fabs(b)));
}

typedef cr_value *(*binary)(cr_value *, cr_value *);
typedef cr_value *(*unary)(cr_value *);
static cr_value *cube(cr_value *a) { return cr_value_pow_scalar(a, 3); }
static cr_value *square(cr_value *a) { return cr_value_pow_scalar(a, 2); }
static cr_value *inverse_root(cr_value *a) { return cr_value_pow_scalar(a, -0.5); }

static const struct { const char *name, *symbol; unary f; double x, y, dx;
} of_one[] = {
    {"neg", "neg", cr_value_neg, 3, -3, -1},
    {"relu", "ReLU", cr_value_relu, 2, 2, 1},
    {"relu", "ReLU", cr_value_relu, -2, 0, 0},
    {"relu", "ReLU", cr_value_relu, 0, 0, 0},
    {"relu", "ReLU", cr_value_relu, NAN, NAN, 1},
    {"relu", "ReLU", cr_value_relu, INFINITY, INFINITY, 1},
    {"tanh", "tanh", cr_value_tanh, 0.5, 0.46211715726000975, 0.7864477329659274},
    {"tanh", "tanh", cr_value_tanh, INFINITY, 1, 0},
    {"exp", "exp", cr_value_exp, 1, 2.718281828459045, 2.718281828459045},
    {"exp", "exp", cr_value_exp, 1000, INFINITY, INFINITY},
    {"log", "log", cr_value_log, 2, 0.6931471805599453, 0.5},
    {"log", "log", cr_value_log, 0, -INFINITY, INFINITY},
    {"log", "log", cr_value_log, -1, NAN, -1},
    {"sigmoid", "sigmoid", cr_value_sigmoid, 0.5, 0.6224593312018546, 0.2350037122015945},
    {"sigmoid", "sigmoid", cr_value_sigmoid, -1000, 0, 0},
    {"pow 3", "**", cube, -2, -8, 12},
    {"pow 2", "**", square, -3, 9, -6},
    {"pow -0.5", "**", inverse_root, 4, 0.5, -0.0625},
    {"pow -0.5", "**", inverse_root, 0, INFINITY, -INFINITY},
    {"pow -0.5", "**", inverse_root, -1, NAN, NAN},
};

static const struct { const char *name, *symbol; binary f; double a, b, y, da, db;
} of_two[] = {
    {"add", "+", cr_value_add, 2, 3, 5, 1, 1},
    {"sub", "-", cr_value_sub, 2, 3, -1, 1, -1},
    {"mul", "*", cr_value_mul, 2, 3, 6, 3, 2},
    {"div", "/", cr_value_div, 3, 2, 1.5, 0.5, -0.75},
    {"div", "/", cr_value_div, 1, 0, INFINITY, INFINITY, -INFINITY},
    {"sub", "-", cr_value_sub, INFINITY, INFINITY, NAN, 1, -1},
    {"pow", "**", cr_value_pow, 2, 3, 8, 12, 5.545177444479562},
    {"pow", "**", cr_value_pow, 0, 2, 0, 0, 0},
    {"pow", "**", cr_value_pow, 0, 0, 1, 0, 0},
    {"pow", "**", cr_value_pow, -8, 1. / 3, NAN, NAN, NAN},
    {"pow", "**", cr_value_pow, 5, 0, 1, 0, 1.6094379124341003},
};

TEST(each_op) {
    for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++) {
        cr_value *x = leaf(of_one[i].x), *y = of_one[i].f(x), *in[2];
        REQUIRE(y, "%s: %s", of_one[i].name, cr_error());
        OK(cr_value_backward(y));
        CHECK(near(cr_value_data(y), of_one[i].y, 2e-16), "%s(%g) = %.17g, wanted %.17g", of_one[i].name, of_one[i].x,
              cr_value_data(y), of_one[i].y);
        CHECK(near(cr_value_grad(x), of_one[i].dx, 4e-16), "%s'(%g) = %.17g, wanted %.17g", of_one[i].name, of_one[i].x,
              cr_value_grad(x), of_one[i].dx);
        CHECK(!strcmp(cr_value_op(y), of_one[i].symbol) && cr_value_inputs(y, in, NULL) == 1 && in[0] == x,
              "%s: what it came from", of_one[i].name);
        DROP(x, y);
    }
    for (size_t i = 0; i < sizeof of_two / sizeof *of_two; i++) {
        cr_value *a = leaf(of_two[i].a), *b = leaf(of_two[i].b), *y = of_two[i].f(a, b), *in[2];
        REQUIRE(y, "%s: %s", of_two[i].name, cr_error());
        OK(cr_value_backward(y));
        CHECK(near(cr_value_data(y), of_two[i].y, 2e-16), "%s(%g, %g) = %.17g", of_two[i].name, of_two[i].a,
              of_two[i].b, cr_value_data(y));
        CHECK(near(cr_value_grad(a), of_two[i].da, 4e-16), "%s(%g, %g): da = %.17g", of_two[i].name, of_two[i].a,
              of_two[i].b, cr_value_grad(a));
        CHECK(near(cr_value_grad(b), of_two[i].db, 4e-16), "%s(%g, %g): db = %.17g", of_two[i].name, of_two[i].a,
              of_two[i].b, cr_value_grad(b));
        CHECK(!strcmp(cr_value_op(y), of_two[i].symbol) && cr_value_inputs(y, in, NULL) == 2 && in[0] == a &&
                  in[1] == b,
              "%s: what it came from", of_two[i].name);
        DROP(a, b, y);
    }
    double n = 0;
    cr_value *x = leaf(2), *y = cube(x), *in[2];
    CHECK(cr_value_inputs(x, in, &n) == 0 && isnan(n) && !*cr_value_op(x), "a leaf has no inputs");
    CHECK(cr_value_inputs(y, in, &n) == 1 && n == 3, "the exponent of a cube: %g", n);
    DROP(x, y);
    test_ran_on(cr_cpu());
}

/* A node that is used several times at several depths hands on its gradient once, when all its shares are in. */
TEST(shared_nodes) {
    cr_value *x = leaf(3), *s = square(x), *y = keep(s);           /* s = x^2;  y_k = y_(k-1) s: y = x^22 */
    for (int i = 0; i < 10; i++) y = mul(y, keep(s));
    OK(cr_value_backward(y));
    CHECK(cr_value_data(y) == pow(3, 22), "3^22 = %.17g", cr_value_data(y));
    CHECK(cr_value_grad(x) == 22 * pow(3, 21), "d(x^22) = %.17g, wanted %.17g", cr_value_grad(x), 22 * pow(3, 21));
    CHECK(cr_value_grad(s) == 11 * pow(9, 10), "d(s^11) = %.17g", cr_value_grad(s));
    CHECK(cr_value_grad(y) == 1, "the root's own gradient is %g", cr_value_grad(y));
    DROP(x, s, y);
    /* both inputs the same */
    cr_value *a = leaf(5), *twice = cr_value_add(a, a), *fourth = cr_value_mul(twice, twice);
    OK(cr_value_backward(fourth));
    CHECK(cr_value_grad(a) == 40 && cr_value_grad(twice) == 20, "d((a + a)^2) = %g", cr_value_grad(a));
    DROP(a, twice, fourth);
}

TEST(backward_twice_adds_one_more_gradient) {
    cr_value *x = leaf(2), *h = cr_value_mul(x, x), *y = cr_value_mul(h, x);
    for (int i = 1; i <= 3; i++) {
        OK(cr_value_backward(y));
        CHECK(cr_value_grad(x) == 12 * i && cr_value_grad(h) == 2 && cr_value_grad(y) == 1, "walk %d: %g, %g, %g", i,
              cr_value_grad(x), cr_value_grad(h), cr_value_grad(y));
    }
    OK(cr_value_backward(h));                       /* from the middle: what was there is cleared */
    CHECK(cr_value_grad(h) == 1 && cr_value_grad(x) == 40, "from the middle: %g, %g", cr_value_grad(h),
          cr_value_grad(x));
    cr_value_set_grad(x, 0);
    OK(cr_value_backward(x));
    OK(cr_value_backward(x));
    CHECK(cr_value_grad(x) == 2, "a leaf's own walk adds 1: %g", cr_value_grad(x));
    cr_value_set_data(x, 5);                        /* results are not computed again; gradients read what is there */
    CHECK(cr_value_data(x) == 5 && cr_value_data(y) == 8, "data was set: %g, %g", cr_value_data(x), cr_value_data(y));
    DROP(x, h, y);
}

/* Random graphs against central differences in the leaves. */
static cr_value *expression(const double *x, cr_value **leaves, cr_generator *g) {
    enum { NODES = 60 };
    cr_value *all[NODES], *y = NULL;
    uint64_t seed, counter;
    cr_generator_get(g, &seed, &counter);
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < NODES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (i < 4) { leaves[i] = all[i] = leaf(x[i]); continue; }
        cr_value *a = all[(state >> 33) % (uint64_t)i], *b = all[(state >> 43) % (uint64_t)i];
        switch ((state >> 56) % 7) {
            case 0: all[i] = cr_value_add(a, b); break;
            case 1: all[i] = cr_value_sub(a, b); break;
            case 2: all[i] = cr_value_tanh(a); break;
            case 3: all[i] = cr_value_sigmoid(b); break;
            case 4: { cr_value *t = cr_value_tanh(a); all[i] = mul(t, keep(b)); break; }
            case 5: { cr_value *t = cr_value_sigmoid(a); all[i] = pass(cr_value_div(b, t), t, NULL); break; }
            default: { cr_value *t = cr_value_tanh(a); all[i] = pass(cr_value_exp(t), t, NULL); }
        }
    }
    for (int i = 0; i < NODES; i++) {
        cr_value *t = cr_value_tanh(all[i]);
        y = y ? add(y, t) : t;
    }
    for (int i = 4; i < NODES; i++) cr_value_release(all[i]);
    return y;
}

static double value_at(const double *x, cr_generator *g) {
    cr_value *leaves[4], *y = expression(x, leaves, g);
    const double data = cr_value_data(y);
    cr_value_release(y);
    for (int i = 0; i < 4; i++) cr_value_release(leaves[i]);
    return data;
}

TEST(random_graphs) {
    for (uint64_t round = 0; round < 50; round++) {
        cr_generator *g = cr_generator_new(test_seed() + round);
        double x[4] = {0.3, -0.7, 1.1, 0.2}, d[4];
        cr_value *leaves[4], *y = expression(x, leaves, g);
        OK(cr_value_backward(y));
        for (int i = 0; i < 4; i++) {
            const double h = 1e-5, at = x[i];
            x[i] = at + h;
            d[i] = value_at(x, g);
            x[i] = at - h;
            d[i] = (d[i] - value_at(x, g)) / (2 * h);
            x[i] = at;
            CHECK(fabs(cr_value_grad(leaves[i]) - d[i]) < 1e-6 * (1 + fabs(d[i])),
                  "seed %llu, leaf %d: %.10g, differences say %.10g", (unsigned long long)(test_seed() + round), i,
                  cr_value_grad(leaves[i]), d[i]);
        }
        cr_value_release(y);
        for (int i = 0; i < 4; i++) cr_value_release(leaves[i]);
        cr_generator_free(g);
    }
}

TEST(neuron_records_the_operators_nodes) {
    cr_value *w[3], *x[3], *b = leaf(0.5), *by_hand = keep(b), *u, *v, *in[2], *same[2];
    for (int i = 0; i < 3; i++) w[i] = leaf(i - 1.25), x[i] = leaf(2 - i);
    for (int i = 0; i < 3; i++) by_hand = add(by_hand, cr_value_mul(w[i], x[i]));
    by_hand = pass(cr_value_relu(by_hand), by_hand, NULL);
    cr_value *y = cr_value_neuron(3, w, x, b, true), *linear = cr_value_neuron(3, w, x, b, false);
    for (u = y, v = by_hand; cr_value_inputs(u, in, NULL); u = in[0], v = same[0]) {
        CHECK(cr_value_inputs(v, same, NULL) == cr_value_inputs(u, in, NULL) && !strcmp(cr_value_op(u), cr_value_op(v)),
              "op %s, by hand %s", cr_value_op(u), cr_value_op(v));
        CHECK(cr_value_data(u) == cr_value_data(v), "%s: %g, by hand %g", cr_value_op(u), cr_value_data(u),
              cr_value_data(v));
    }
    CHECK(u == b && v == b, "the sum starts with the bias");
    CHECK(!strcmp(cr_value_op(linear), "+"), "without relu it ends with a sum, not %s", cr_value_op(linear));
    OK(cr_value_backward(linear));
    CHECK(cr_value_grad(w[0]) == 2 && cr_value_grad(x[0]) == -1.25 && cr_value_grad(b) == 1,
          "gradients of a linear neuron");
    CHECK(cr_value_neuron(0, NULL, NULL, b, false) == b, "no inputs: the bias");
    cr_value_release(b);
    cr_value *elsewhere = cr_value_new(1, cr_ref()), *mixed[3] = {x[0], elsewhere, x[2]};
    FAILS(CR_BAD_VALUE, "one Value is on cpu, the other on ref", cr_value_neuron(3, w, mixed, b, true));
    for (int i = 0; i < 3; i++) DROP(w[i], x[i]);
    DROP(elsewhere, b, y, by_hand, linear);
}

TEST(each_device) {
    cr_value *a = cr_value_new(2, cr_ref()), *b = leaf(3), *y = cr_value_mul(a, a);
    CHECK(cr_value_device(y) == cr_ref(), "a result is where its inputs are");
    FAILS(CR_BAD_VALUE, "[mul] one Value is on ref, the other on cpu: move one with to()", cr_value_mul(a, b));
    cr_value *moved = cr_value_to(y, cr_cpu()), *z = cr_value_mul(moved, b);
    CHECK(cr_value_device(z) == cr_cpu(), "and moves when told to");
    OK(cr_value_backward(z));
    CHECK(cr_value_grad(a) == 12 && cr_value_grad(b) == 4, "through the move: %g, %g", cr_value_grad(a),
          cr_value_grad(b));
    CHECK(cr_value_to(b, cr_cpu()) == b, "already there: itself");
    cr_value_release(b);
    FAILS(CR_BAD_VALUE, "the device is NULL", cr_value_new(1, NULL));
    DROP(a, b, y, moved, z);
    test_ran_on(cr_ref());
}

TEST(null_and_labels) {
    cr_value *a = leaf(1);
    FAILS(CR_BAD_VALUE, "[add] the Value is NULL", cr_value_add(a, NULL));
    FAILS(CR_BAD_VALUE, "[tanh] the Value is NULL", cr_value_tanh(NULL));
    FAILS(CR_BAD_VALUE, "[backward] the Value is NULL", cr_value_backward(NULL));
    FAILS(CR_BAD_VALUE, "[data] the Value is NULL", cr_value_data(NULL));
    cr_value_release(NULL);
    CHECK(!cr_value_label(a), "no label at first");
    OK(cr_value_set_label(a, "weight"));
    OK(cr_value_set_label(a, "w"));
    CHECK(!strcmp(cr_value_label(a), "w"), "the label is %s", cr_value_label(a));
    OK(cr_value_set_label(a, NULL));
    CHECK(!cr_value_label(a), "no label any more");
    OK(cr_value_set_label(a, "freed with it"));
    cr_value_release(a);
}

TEST(anomaly) {
    cr_value *x = leaf(-1), *zero = leaf(0), *y;
    OK(cr_value_set_label(x, "weight"));
    const bool before = cr_set_anomaly(true);
    FAILS(CR_RUNTIME, "from Value 'weight' (data=-1)", cr_value_log(x));
    FAILS(CR_RUNTIME, "[div] anomaly: made -inf from Value 'weight' (data=-1) and Value(data=0, op='')",
          cr_value_div(x, zero));
    FAILS(CR_RUNTIME, "to the power of -1", cr_value_pow_scalar(zero, -1));
    FAILS(CR_RUNTIME, "[log] anomaly", cr_value_log(zero));
    y = cr_value_pow_scalar(zero, 0.5);             /* the value is fine, the gradient is not */
    FAILS(CR_RUNTIME, "[pow] anomaly: backward made the gradient of Value(data=0, op='') inf", cr_value_backward(y));
    cr_set_anomaly(before);
    cr_value_set_grad(zero, 0);
    OK(cr_value_backward(y));                       /* a walk that failed left nothing behind */
    CHECK(isinf(cr_value_grad(zero)), "outside anomaly mode infinity flows: %g", cr_value_grad(zero));
    DROP(x, zero, y);
}

/* After a walk that failed in the middle the same graph can be walked again. */
TEST(a_failed_walk_is_over) {
    cr_value *x = leaf(0), *root = cr_value_pow_scalar(x, 0.5), *y = keep(root);
    for (int i = 0; i < 50; i++) y = add(y, keep(root));
    const bool before = cr_set_anomaly(true);
    FAILS(CR_RUNTIME, "anomaly", cr_value_backward(y));
    cr_set_anomaly(before);
    cr_value_set_data(x, 4);
    cr_value_set_grad(x, 0);
    OK(cr_value_backward(y));
    CHECK(cr_value_grad(root) == 51 && cr_value_grad(x) == 51 * 0.25, "after a failure: %g, %g", cr_value_grad(root),
          cr_value_grad(x));
    DROP(x, root, y);
}

/* y_n = x + n x, in one chain: neither the walk nor the end may recurse. */
static void chain(int64_t n) {
    cr_value *x = leaf(1), *y = keep(x);
    for (int64_t i = 0; i < n; i++) y = add(y, keep(x));
    CHECK(cr_value_data(y) == (double)(n + 1), "%lld sums: %g", (long long)n, cr_value_data(y));
    OK(cr_value_backward(y));
    CHECK(cr_value_grad(x) == (double)(n + 1), "gradient of %lld sums: %g", (long long)n, cr_value_grad(x));
    DROP(x, y);
}

/* A tree of n leaves. */
static double tree(int64_t n) {
    cr_value *level[64] = {NULL}, *first = NULL;    /* level[k]: a sum of 2^k leaves that waits for its other half */
    for (int64_t i = 0; i < n; i++) {
        cr_value *y = leaf(1);
        if (!first) first = keep(y);
        int k = 0;
        for (; level[k]; k++) { y = add(level[k], y); level[k] = NULL; }
        level[k] = y;
    }
    cr_value *y = NULL;
    for (int k = 0; k < 64; k++) if (level[k]) y = y ? add(level[k], y) : level[k];
    OK(cr_value_backward(y));
    const double sum = cr_value_data(y) + cr_value_grad(first);
    DROP(first, y);
    return sum;
}

/* Before the pool is so large that nothing makes it grow. */
TEST(memory_goes_back_to_the_pool) {
    chain(200000);
    const int64_t before = cr_cell_memory();
    for (int i = 0; i < 20; i++) { chain(200000); tree(50000); }
    cr_value *x = leaf(-1), *w[3] = {x, x, x}, *elsewhere = cr_value_new(1, cr_ref()), *mixed[3] = {x, x, elsewhere};
    const bool anomaly = cr_set_anomaly(true);
    for (int i = 0; i < 300000; i++) {              /* what fails gives back what it had made */
        if (cr_value_neuron(3, w, mixed, x, true) || cr_value_log(x)) test_fail(__FILE__, __LINE__, "no failure");
        cr_error_clear();
    }
    cr_set_anomaly(anomaly);
    DROP(x, elsewhere);
    CHECK(cr_cell_memory() == before, "the pool grew from %lld to %lld bytes", (long long)before,
          (long long)cr_cell_memory());
}

TEST(deep_and_wide) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const int64_t n = 1000000;                      /* where malloc stands for the pool, or every access is watched */
#else
    const int64_t n = 10000000;
#endif
    chain(n);
    const double sum = tree(1000003);
    CHECK(sum == 1000004, "a tree of a million leaves: %g", sum);
}

static cr_value *of_main;
static void in_another_thread(void *result) {
    bool *right = result;
    cr_value *mine = leaf(2), *y = cr_value_mul(mine, mine);
    *right = cr_value_backward(y) == CR_OK && cr_value_grad(mine) == 4;
    chain(100000);
    *right = *right && !cr_value_mul(of_main, mine) && cr_error_status() == CR_RUNTIME &&
             strstr(cr_error(), "[mul] a Value of another thread");
    cr_error_clear();
    cr_value_release(of_main);                      /* refused: it is not ours to release */
    *right = *right && cr_error_status() == CR_RUNTIME && cr_value_backward(of_main) == CR_RUNTIME;
    cr_error_clear();
    DROP(mine, y);
}

TEST(threads_have_their_own) {
    enum { THREADS = 6 };
    cr_thread *thread[THREADS];
    bool right[THREADS] = {false};
    of_main = leaf(7);
    chain(1000);
    for (int i = 0; i < THREADS; i++) thread[i] = cr_thread_start(in_another_thread, &right[i]);
    for (int i = 0; i < THREADS; i++) {
        if (thread[i]) cr_thread_join(thread[i]);
        CHECK(right[i], "thread %d computed with its own Values and was refused the others", i);
    }
    CHECK(cr_value_data(of_main) == 7, "the Value of the main thread is %g", cr_value_data(of_main));
    cr_value_release(of_main);
    FAILS(CR_RUNTIME, "there are Values already", cr_value_serial());
}

/* Values that a thread freed serve other threads: the pool does not grow with each new thread. */
static void churn(void *unused) { (void)unused; chain(100000); }

TEST(a_thread_leaves_its_cells) {
    int64_t before = 0;
    for (int i = 0; i < 8; i++) {
        cr_thread *t = cr_thread_start(churn, NULL);
        REQUIRE(t, "no thread");
        cr_thread_join(t);
        if (i == 1) before = cr_cell_memory();
    }
    CHECK(cr_cell_memory() == before, "the pool grew from %lld to %lld bytes", (long long)before,
          (long long)cr_cell_memory());
}
