/* test_random.c - distributions against their exact functions (Kolmogorov and Smirnov, chi-square;
 * fixed seeds), permutations and samples, what is refused, places a tensor may have, generators that
 * are saved, and the same bits for any number of threads. That devices agree number for number is
 * test_ops.c's. */
#include "test.h"
#include "core/tensor.h"

static const cr_device *dev;                        /* the one under test */
static cr_generator *g;
#define EACH_DEVICE for (int device_ = 0; device_ < 2 && (dev = device_ ? cr_ref() : cr_cpu()); device_++, \
    test_ran_on(dev))
#define SCOPED(...) do { cr_scope_begin(); g = cr_generator_new(test_seed()); __VA_ARGS__; cr_generator_free(g); \
    cr_scope_end(); } while (0)

enum { MANY = 20000 };
static double numbers[MANY];

static const double *read_all(const cr_tensor *t) {
    CHECK(t && cr_numel(t) == MANY, "%s: %s", cr_device_name(dev), cr_error() ? cr_error() : "not as many");
    if (t) OK(cr_read(t, CR_F64, numbers, sizeof numbers));
    return numbers;
}

/* ---- how far a sample is from a distribution */
static int ascending(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Largest distance of the sample's distribution function from the exact one, times sqrt(n): above 1.95
 * once in a thousand. */
static void check_cdf(const char *what, const cr_tensor *t, double (*cdf)(double)) {
    double most = 0;
    read_all(t);
    qsort(numbers, MANY, sizeof *numbers, ascending);
    for (int i = 0; i < MANY; i++)
        most = fmax(most, fmax(cdf(numbers[i]) - (double)i / MANY, (double)(i + 1) / MANY - cdf(numbers[i])));
    CHECK(most * sqrt(MANY) < 1.95, "%s on %s: distance %g sqrt(n)", what, cr_device_name(dev), most * sqrt(MANY));
}

/* Sum of (found - expected)^2 / expected over k cells: k - 1 on average, sqrt(2 (k - 1)) its deviation. */
static void check_cells(const char *what, int k, const long *found, const double *chance, double n) {
    double sum = 0;
    for (int i = 0; i < k; i++) sum += pow((double)found[i] - n * chance[i], 2) / (n * chance[i]);
    CHECK(sum < k - 1 + 4 * sqrt(2.0 * (k - 1)), "%s on %s: chi-square %g of %d cells", what, cr_device_name(dev), sum,
          k);
}

static double normal_cdf(double x) { return 0.5 * erfc(-x / sqrt(2)); }
static double uniform_of(double x) { return (x + 2) / 5; }
static double normal_of(double x) { return normal_cdf((x - 1) / 2); }
static double log_normal_of(double x) { return normal_cdf((log(x) - 0.5) / 0.7); }
static double exponential_of(double x) { return -expm1(-1.5 * x); }
static double cauchy_of(double x) { return 0.5 + atan((x - 1) / 2) / 3.14159265358979323846; }
static double gumbel_of(double x) { return exp(-exp(-x)); }

static void check_distributions(void) {
    for (int dt = CR_F32; dt <= CR_F64; dt++) {
        cr_tensor *x = cr_empty(CR_LIST(MANY), (cr_dtype)dt, dev);
        check_cdf("uniform", cr_uniform_(x, -2, 3, g), uniform_of);
        CHECK(numbers[0] >= -2 && numbers[MANY - 1] < 3, "in [-2, 3)");
        check_cdf("normal", cr_normal_(x, 1, 2, g), normal_of);
        check_cdf("log_normal", cr_log_normal_(x, 0.5, 0.7, g), log_normal_of);
        check_cdf("exponential", cr_exponential_(x, 1.5, g), exponential_of);
        CHECK(numbers[0] > 0, "above 0");
        check_cdf("cauchy", cr_cauchy_(x, 1, 2, g), cauchy_of);
        check_cdf("gumbel", cr_gumbel(CR_LIST(MANY), (cr_dtype)dt, dev, g), gumbel_of);
        check_cdf("normal of tensors", cr_normal(cr_ones_like(x), cr_scalar(2), g), normal_of);
    }
}
TEST(distributions) { EACH_DEVICE SCOPED(check_distributions()); }

static void check_geometric(cr_dtype dt) {
    long found[8] = {0};
    double chance[8];
    for (int k = 0; k < 8; k++) chance[k] = k < 7 ? 0.3 * pow(0.7, k) : pow(0.7, 7);
    const double *x = read_all(cr_geometric_(cr_empty(CR_LIST(MANY), dt, dev), 0.3, g));
    for (int i = 0; i < MANY; i++) found[x[i] < 8 ? (int)x[i] - 1 : 7]++;
    check_cells("geometric", 8, found, chance, MANY);
}

static void check_integers(cr_dtype dt) {
    long found[7] = {0};
    double chance[7];
    for (int k = 0; k < 7; k++) chance[k] = 1.0 / 7;
    const double *x = read_all(cr_random_(cr_empty(CR_LIST(MANY), dt, dev), -3, 4, g));
    for (int i = 0; i < MANY; i++) found[(int)x[i] + 3]++;
    check_cells("random_", 7, found, chance, MANY);
}

static void check_whole_numbers(void) {
    static const cr_dtype some[] = {CR_I8, CR_I64, CR_F16, CR_F32, CR_F64};
    static const struct {
        cr_dtype dt;
        double most;
    } all[] = {{CR_BOOL, 1},   {CR_U8, 255},       {CR_I8, 127},     {CR_I16, 32767}, {CR_BF16, 256},
               {CR_F16, 2048}, {CR_F32, 16777216}, {CR_I64, 0x1p63}, {CR_U64, 0x1p64}};
    for (int i = 0; i < 5; i++) check_geometric(some[i]), check_integers(some[i]);
    for (int i = 0; i < 9; i++) {
        const double *x = read_all(cr_random_all_(cr_empty(CR_LIST(MANY), all[i].dt, dev), g));
        double least = x[0], most = x[0];
        for (int k = 0; k < MANY; k++) least = fmin(least, x[k]), most = fmax(most, x[k]);
        CHECK(least >= 0 && least <= all[i].most / 1000 && most > 0.999 * all[i].most && most <= all[i].most,
              "%s from %g to %g", cr_dtype_name(all[i].dt), least, most);
    }
    CHECK(cr_item_int(cr_randint(INT64_MAX - 1, INT64_MAX, CR_ALL, CR_I64, dev, g)) == INT64_MAX - 1,
          "one integer near the end");
}
TEST(whole_numbers) { EACH_DEVICE SCOPED(check_whole_numbers()); }

static void check_chances(void) {
    static const double chance[] = {0, 0.125, 0.3, 0.9, 1};
    cr_tensor *p = cr_from(chance, CR_LIST(5), CR_F64, dev),
              *x = cr_bernoulli_of(cr_expand(p, CR_LIST(MANY / 5, 5)), g);
    double share[5];
    OK(cr_read(cr_mean(x, CR_LIST(0), false), CR_F64, share, sizeof share));
    for (int i = 0; i < 5; i++) {
        const double sigma = sqrt(chance[i] * (1 - chance[i]) * 5 / MANY);
        CHECK(fabs(share[i] - chance[i]) <= 4 * sigma, "chance %g came %g of the time on %s", chance[i], share[i],
              cr_device_name(dev));
    }
    cr_tensor *y = cr_bernoulli_(cr_empty(CR_LIST(1000, 5), CR_BOOL, dev), p, g);
    CHECK(cr_item(cr_sum(cr_select(y, 1, 0), CR_ALL, false)) == 0 &&
              cr_item(cr_sum(cr_select(y, 1, 4), CR_ALL, false)) == 1000,
          "chances 0 and 1, broadcast");
    FAILS(CR_BAD_VALUE, "[bernoulli] the chance must be in [0, 1]: 1.5 at (1, 2)",
          cr_bernoulli_of(cr_from((double[]){0, 0, 0, 0, 0, 1.5}, CR_LIST(2, 3), CR_F64, dev), g));
    FAILS(CR_BAD_VALUE, "[bernoulli] the chance must be in [0, 1]: nan at (1,)",
          cr_bernoulli_of(cr_from((double[]){0, NAN, -1}, CR_LIST(3), CR_F64, dev), g));
    FAILS(CR_BAD_TYPE, "[bernoulli]", cr_bernoulli_of(cr_ones(CR_LIST(3), CR_I64, dev), g));
    FAILS(CR_BAD_VALUE, "[bernoulli_] the chance must be in [0, 1]: -0.5", cr_bernoulli_(y, cr_scalar(-0.5), g));
    FAILS(CR_BAD_VALUE, "(5,)", cr_bernoulli_(cr_empty(CR_LIST(3), CR_F32, dev), p, g));
}
TEST(chances) { EACH_DEVICE SCOPED(check_chances()); }

/* ---- ranges: rounding never takes a number to the upper end, whatever the dtype */
static void check_ranges(void) {
    static const struct { cr_dtype dt; double low, high;
    } cases[] = {
        {CR_F32, 1, 2},
        {CR_F32, 1, 1.0000001},
        {CR_F32, -2, -1},
        {CR_F32, -1, 0},
        {CR_F32, 0, 1e-45},
        {CR_F32, 16777216, 16777218},
        {CR_F16, 0, 1},
        {CR_F16, 1, 1.001},
        {CR_F16, -1, 0},
        {CR_BF16, 0, 1},
        {CR_BF16, 1, 1.01},
        {CR_BF16, -2, -1.9921875},
        {CR_F64, 1, 1.0000000000000002},
        {CR_F32, 3, 3},
        {CR_F16, -65504, 65504},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double low = cases[i].low, high = cases[i].high;
        cr_tensor *x = cr_uniform_(cr_empty(CR_LIST(MANY), cases[i].dt, dev), cases[i].low, cases[i].high, g);
        const double least = x ? cr_item(cr_min(x, CR_ALL, false)) : NAN,
                     most = x ? cr_item(cr_max(x, CR_ALL, false)) : NAN;
        CHECK(least >= low && (most < high || (most == low && low == high)), "%s: %.17g ... %.17g in [%.17g, %.17g)",
              cr_dtype_name(cases[i].dt), least, most, low, high);
    }
}
TEST(ranges) { EACH_DEVICE SCOPED(check_ranges()); }

/* ---- permutations */
static void check_permutation(int64_t n) {
    int64_t *p = malloc(sizeof *p * (size_t)n + 1);
    unsigned char *seen = calloc((size_t)n + 1, 1);
    OK(cr_read(cr_randperm(n, CR_I64, dev, g), CR_I64, p, sizeof *p * (size_t)n));
    for (int64_t i = 0; i < n; i++) {
        CHECK(p[i] >= 0 && p[i] < n && !seen[p[i]], "%lld at %lld of %lld", (long long)p[i], (long long)i,
              (long long)n);
        if (p[i] >= 0 && p[i] < n) seen[p[i]] = 1;
    }
    free(p), free(seen);
}

static void check_permutations(void) {
    static const int64_t sizes[] = {0, 1, 2, 3, 31, 512, 1023, 1024, 1025, 4099, 40009};
    for (int i = 0; i < 11; i++) check_permutation(sizes[i]);
    enum { DRAWS = 6000, N = 5000, CELLS = 10 };
    long found[24] = {0}, where[CELLS * CELLS] = {0};
    double chance[CELLS * CELLS];
    for (int k = 0; k < CELLS * CELLS; k++) chance[k] = k < 24 ? 1.0 / 24 : 0;
    for (int k = 0; k < DRAWS; k++) {               /* of four: every order as often as another */
        int64_t p[4];
        cr_tensor *t = cr_randperm(4, CR_I64, dev, g);
        OK(cr_read(t, CR_I64, p, sizeof p));
        cr_release(t);
        int rank = (int)p[0] * 6 + (int)(p[1] - (p[1] > p[0])) * 2 + (p[2] > p[3]);
        found[rank]++;
    }
    check_cells("orders of four", 24, found, chance, DRAWS);
    for (int k = 0; k < CELLS * CELLS; k++) chance[k] = 1.0 / (CELLS * CELLS);
    for (int k = 0; k < 4; k++) {                   /* of many: from every tenth to every tenth as often */
        int64_t p[N];
        OK(cr_read(cr_randperm(N, CR_I64, dev, g), CR_I64, p, sizeof p));
        for (int i = 0; i < N; i++) where[i * CELLS / N * CELLS + p[i] * CELLS / N]++;
    }
    check_cells("places of 5000", CELLS * CELLS, where, chance, 4 * N);
    CHECK(cr_dtype_of(cr_randperm(100, CR_U8, dev, g)) == CR_U8, "another dtype");
    FAILS(CR_BAD_VALUE, "[randperm] negative size in shape (-1,)", cr_randperm(-1, CR_I64, dev, g));
    FAILS(CR_BAD_VALUE, "[randperm] 299 does not fit uint8", cr_randperm(300, CR_U8, dev, g));
    FAILS(CR_BAD_TYPE, "[randperm] bool", cr_randperm(2, CR_BOOL, dev, g));
    FAILS(CR_BAD_VALUE, "[randperm]", cr_randperm(INT64_MAX, CR_I64, dev, g));
    FAILS(CR_BAD_VALUE, "[randperm]", cr_randperm(3, CR_I64, dev, NULL));
}
TEST(permutations) { EACH_DEVICE SCOPED(check_permutations()); }

/* ---- samples */
static void check_samples(void) {
    static const double weight[] = {0.5, 0, 2, 1, 4};
    enum { DRAWS = 4000 };
    cr_tensor *w = cr_from(weight, CR_LIST(5), CR_F64, dev);
    double chance[5], pairs[20];
    long found[5] = {0}, pair[20] = {0};
    const double *x = read_all(cr_multinomial(w, MANY, true, g));
    for (int i = 0; i < MANY; i++) found[(int)x[i]]++;
    CHECK(found[1] == 0, "a weight of 0 came %ld times", found[1]);
    for (int i = 0, at = 0; i < 5; i++) if (i != 1) chance[at++] = weight[i] / 7.5;
    found[1] = found[2], found[2] = found[3], found[3] = found[4];
    check_cells("with replacement", 4, found, chance, MANY);
    int64_t p[DRAWS * 2];                           /* without: w[i] / W, then w[j] / (W - w[i]) */
    OK(cr_read(cr_multinomial(cr_expand(cr_to(w, CR_F32, dev), CR_LIST(DRAWS, 5)), 2, false, g), CR_I64, p, sizeof p));
    int cells = 0;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            if (i == j || i == 1 || j == 1) continue;
            pairs[cells] = weight[i] / 7.5 * weight[j] / (7.5 - weight[i]);
            for (int k = 0; k < DRAWS; k++) pair[cells] += p[2 * k] == i && p[2 * k + 1] == j;
            cells++;
        }
    check_cells("without replacement", cells, pair, pairs, DRAWS);
    int64_t all[4], sum = 0;
    OK(cr_read(cr_multinomial(w, 4, false, g), CR_I64, all, sizeof all));
    for (int i = 0; i < 4; i++) sum += INT64_C(1) << 8 * all[i];
    CHECK(sum == 1 + (1 << 16) + (1 << 24) + (INT64_C(1) << 32), "all that have a weight, each once");
    cr_tensor *y = cr_multinomial(cr_ones(CR_LIST(3, 7), CR_BF16, dev), 11, true, g);
    CHECK(cr_ndim(y) == 2 && cr_size(y, 0) == 3 && cr_size(y, 1) == 11 && cr_dtype_of(y) == CR_I64,
          "(3, 7) -> (3, 11)");
    CHECK(cr_numel(cr_multinomial(cr_ones(CR_LIST(0, 7), CR_F32, dev), 2, false, g)) == 0, "no rows");
    FAILS(CR_BAD_VALUE, "[multinomial] weights are finite and not negative: -1 at (1, 0)",
          cr_multinomial(cr_from((double[]){1, 2, -1, 3}, CR_LIST(2, 2), CR_F64, dev), 1, true, g));
    FAILS(CR_BAD_VALUE, "[multinomial] weights are finite and not negative: inf at (1,)",
          cr_multinomial(cr_from((double[]){1, INFINITY}, CR_LIST(2), CR_F64, dev), 1, true, g));
    FAILS(CR_BAD_VALUE, "[multinomial] the weights of row 1 sum to 0",
          cr_multinomial(cr_from((double[]){1, 2, 0, 0}, CR_LIST(2, 2), CR_F64, dev), 1, true, g));
    FAILS(CR_BAD_VALUE, "[multinomial] 2 samples without replacement from row 1, which has 1 weights above 0",
          cr_multinomial(cr_from((double[]){1, 2, 0, 3}, CR_LIST(2, 2), CR_F64, dev), 2, false, g));
    FAILS(CR_BAD_VALUE, "[multinomial] 6 samples without replacement from 5 weights", cr_multinomial(w, 6, false, g));
    FAILS(CR_BAD_VALUE, "[multinomial] 0 samples", cr_multinomial(w, 0, true, g));
    FAILS(CR_BAD_VALUE, "[multinomial] needs weights (N) or (M, N): (1, 1, 1)",
          cr_multinomial(cr_ones(CR_LIST(1, 1, 1), CR_F32, dev), 1, true, g));
    FAILS(CR_BAD_VALUE, "[multinomial] 1 samples with replacement from 0 weights",
          cr_multinomial(cr_ones(CR_LIST(0), CR_F32, dev), 1, true, g));
    FAILS(CR_BAD_TYPE, "[multinomial]", cr_multinomial(cr_ones(CR_LIST(3), CR_I64, dev), 1, true, g));
    FAILS(CR_BAD_VALUE, "[multinomial] shape",
          cr_multinomial(cr_ones(CR_LIST(4, 3), CR_F32, dev), INT64_MAX / 2, true, g));
    FAILS(CR_BAD_VALUE, "[multinomial] shape", cr_multinomial(w, INT64_MAX, true, g));
}
TEST(samples) { EACH_DEVICE SCOPED(check_samples()); }

/* ---- refusals of fills */
static void check_refusals(void) {
    cr_tensor *x = cr_zeros(CR_LIST(3), CR_F32, dev), *i = cr_zeros(CR_LIST(3), CR_I8, dev);
    FAILS(CR_BAD_VALUE, "[uniform_] the range must be finite and not reversed: [2, 1)", cr_uniform_(x, 2, 1, g));
    FAILS(CR_BAD_VALUE, "[uniform_] the range", cr_uniform_(x, 0, INFINITY, g));
    FAILS(CR_BAD_VALUE, "[uniform_] the range", cr_uniform_(x, NAN, 1, g));
    FAILS(CR_BAD_VALUE, "does not fit float32", cr_uniform_(x, 0, 1e300, g));
    FAILS(CR_BAD_TYPE, "[uniform_]", cr_uniform_(i, 0, 1, g));
    FAILS(CR_BAD_VALUE, "[uniform_]", cr_uniform_(x, 0, 1, NULL));
    FAILS(CR_BAD_VALUE, "[normal_] the std must be at least 0: -1", cr_normal_(x, 0, -1, g));
    FAILS(CR_BAD_VALUE, "[log_normal_] the std must be above 0: 0", cr_log_normal_(x, 1, 0, g));
    FAILS(CR_BAD_VALUE, "[cauchy_]", cr_cauchy_(x, 0, NAN, g));
    FAILS(CR_BAD_VALUE, "[exponential_] the rate must be above 0: -2", cr_exponential_(x, -2, g));
    FAILS(CR_BAD_VALUE, "[geometric_] the chance must be in (0, 1): 1", cr_geometric_(x, 1, g));
    FAILS(CR_BAD_VALUE, "[random_] low must be below high: 3, 3", cr_random_(x, 3, 3, g));
    FAILS(CR_BAD_VALUE, "does not fit int8", cr_random_(i, 0, 300, g));
    FAILS(CR_BAD_TYPE, "[gumbel]", cr_gumbel(CR_LIST(3), CR_I32, dev, g));
    FAILS(CR_BAD_VALUE, "[normal] the std must be at least 0: -1 at (2,)",
          cr_normal(x, cr_from((float[]){0, 1, -1}, CR_LIST(3), CR_F32, dev), g));
    FAILS(CR_BAD_VALUE, "[normal]", cr_normal(x, cr_zeros(CR_LIST(2), CR_F32, dev), g));
    FAILS(CR_BAD_VALUE, "[normal_]", cr_normal_(cr_expand(x, CR_LIST(2, 3)), 0, 1, g));
    FAILS(CR_BAD_VALUE, "[normal_]", cr_normal_((cr_tensor *)(uintptr_t)CR_NONE, 0, 1, g));
}
TEST(refusals) { EACH_DEVICE SCOPED(check_refusals()); }

/* ---- places: strides, dtypes, graphs */
static void check_places(void) {
    cr_tensor *turned = cr_transpose(cr_zeros(CR_LIST(7, 5), CR_F32, dev), 0, 1),
              *plain = cr_empty(CR_LIST(5, 7), CR_F32, dev);
    cr_generator *same = cr_generator_new(test_seed());
    CHECK(cr_normal_(turned, 0, 1, g) == turned && cr_normal_(plain, 0, 1, same) == plain, "returns its tensor");
    CHECK(cr_item(cr_max(cr_abs(cr_sub(turned, plain)), CR_ALL, false)) == 0,
          "elements in order, whatever the strides");
    cr_generator_free(same);
    cr_tensor *leaf = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F64, dev), true), *y = cr_mul_scalar(leaf, 2);
    FAILS(CR_RUNTIME, "leaf", cr_uniform_(leaf, 0, 1, g));
    CHECK(cr_uniform_(y, 0, 1, g) == y && cr_requires_grad(y), "a result stays in the graph");
    OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
    CHECK(cr_is_none(cr_grad(leaf)) || cr_item(cr_sum(cr_abs(cr_grad(leaf)), CR_ALL, false)) == 0,
          "what was filled has gradient 0");
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F64, dev), true), *inside = cr_mul_scalar(x, 3),
              *product = cr_mul(inside, inside);
    cr_set_grad_enabled(false);
    cr_normal_(inside, 0, 1, g);
    cr_set_grad_enabled(true);
    FAILS(CR_RUNTIME, "", cr_backward(cr_sum(product, CR_ALL, false), CR_NONE, NULL));
    CHECK(!cr_requires_grad(cr_bernoulli_of(cr_sigmoid(x), g)) && !cr_requires_grad(cr_normal(x, x, g)),
          "draws have no gradient");
    cr_tensor *empty = cr_zeros(CR_LIST(0, 3), CR_F32, dev);
    uint64_t before, after;
    cr_generator_get(g, NULL, &before);
    CHECK(cr_normal_(empty, 0, 1, g) == empty && cr_random_(empty, 0, 2, g) == empty &&
              cr_numel(cr_randperm(0, CR_I64, dev, g)) == 0,
          "nothing to fill");
    cr_generator_get(g, NULL, &after);
    CHECK(before == after, "takes no numbers");
}
TEST(places) { EACH_DEVICE SCOPED(check_places()); }

/* ---- generators and threads */
static uint64_t digest(const cr_tensor *t) {        /* FNV-1a of the bytes */
    const unsigned char *p = cr_data(t);
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < (size_t)cr_numel(t) * cr_dtype_size(cr_dtype_of(t)); i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static uint64_t everything(cr_generator *from) {
    uint64_t h = 0;
    cr_scope_begin();
    cr_tensor *x = cr_empty(CR_LIST(50021), CR_F32, dev), *w = cr_rand(CR_LIST(3, 20011), CR_F32, dev, from);
    const cr_tensor *drawn[] = {
        cr_uniform_(cr_clone(x), -1, 1, from),  cr_normal_(cr_clone(x), 0, 1, from),
        cr_exponential_(cr_clone(x), 1, from),  cr_geometric_(cr_clone(x), 0.1, from),
        cr_random_(cr_clone(x), 0, 9, from),    cr_bernoulli_of(w, from),
        cr_randperm(100003, CR_I64, dev, from), cr_multinomial(w, 30011, true, from),
        cr_multinomial(w, 5003, false, from),   cr_gumbel(CR_LIST(50021), CR_F64, dev, from),
    };
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) h = h * 31 + (drawn[i] ? digest(drawn[i]) : 0);
    OK(cr_error_status());
    cr_scope_end();
    return h;
}

TEST(resumed_and_for_any_number_of_threads) {
    const int threads = cr_num_threads();
    dev = cr_cpu();
    g = cr_generator_new(test_seed());
    everything(g);
    uint64_t seed, counter, first[3];
    cr_generator_get(g, &seed, &counter);
    for (int t = 1; t <= 3; t++) {
        cr_generator *resumed = cr_generator_new(0);
        cr_generator_set(resumed, seed, counter);
        OK(cr_set_num_threads(t));
        first[t - 1] = everything(resumed);
        cr_generator_free(resumed);
    }
    OK(cr_set_num_threads(threads));
    CHECK(first[0] == first[1] && first[0] == first[2] && first[0] == everything(g),
          "the same bits for 1, 2 and 3 threads, and going on");
    CHECK(cr_generator_seed(g) != cr_generator_seed(g), "seeds that nobody can foretell");
    cr_generator_get(g, &seed, &counter);
    CHECK(counter == 0, "a fresh stream");
    cr_generator_free(g);
    test_ran_on(dev);
}

/* ---- nextafter */
static cr_tensor *whole(const cr_tensor *x, int64_t n) { return cr_contiguous(cr_expand(x, CR_LIST(n, n))); }
static void check_next(void) {
    static const double at[] = {0,     -0.0, 1,        -1,        0x1p-149, -0x1p-149,      0x1p-126, 3.5,
                                65504, 1e30, INFINITY, -INFINITY, NAN,      0x1.fffffep127, 2,        0x1p-24};
    enum { N = sizeof at / sizeof *at };
    cr_tensor *a = cr_from(at, CR_LIST(N, 1), CR_F64, dev), *b = cr_from(at, CR_LIST(N), CR_F64, dev);
    double wide[N][N];
    float narrow[N][N];
    OK(cr_read(cr_nextafter(a, b), CR_F64, wide, sizeof wide));
    OK(cr_read(cr_nextafter(cr_to(a, CR_F32, dev), cr_to(b, CR_F32, dev)), CR_F32, narrow, sizeof narrow));
    cr_tensor *rows = whole(a, N), *columns = whole(b, N);      /* as they lie: the cpu has a loop for that */
    const cr_dtype dtypes[] = {CR_F64, CR_F32, CR_F16, CR_BF16};
    for (int k = 0; k < 4; k++) {
        cr_tensor *y = cr_nextafter(cr_to(rows, dtypes[k], dev), cr_to(columns, dtypes[k], dev)),
                  *z = cr_nextafter(cr_to(a, dtypes[k], dev), cr_to(b, dtypes[k], dev));
        double one_by_one[N][N], together[N][N];
        OK(cr_read(y, CR_F64, one_by_one, sizeof one_by_one));
        OK(cr_read(z, CR_F64, together, sizeof together));
        for (int i = 0; i < N * N; i++) {
            const double p = one_by_one[i / N][i % N], q = together[i / N][i % N];
            CHECK((p == q && signbit(p) == signbit(q)) || (isnan(p) && isnan(q)),
                  "%s from %g towards %g: %.17g, broadcast %.17g", cr_dtype_name(dtypes[k]), at[i / N], at[i % N], p,
                  q);
        }
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const double d = nextafter(at[i], at[j]);
            const float f = nextafterf((float)at[i], (float)at[j]);
            CHECK(wide[i][j] == d || (isnan(d) && isnan(wide[i][j])), "f64 from %g towards %g: %.17g, wanted %.17g",
                  at[i], at[j], wide[i][j], d);
            CHECK(narrow[i][j] == f || (isnan(f) && isnan(narrow[i][j])), "f32 from %g towards %g: %.9g, wanted %.9g",
                  at[i], at[j], (double)narrow[i][j], (double)f);
        }
    cr_tensor *one = cr_ones(CR_LIST(2), CR_F16, dev);
    double half[2];
    OK(cr_read(cr_nextafter(one, cr_to(cr_from((float[]){2, -2}, CR_LIST(2), CR_F32, dev), CR_F16, dev)), CR_F64, half,
               sizeof half));
    CHECK(half[0] == 1 + 0x1p-10 && half[1] == 1 - 0x1p-11, "f16: %g, %g", half[0], half[1]);
    OK(cr_read(cr_nextafter(cr_to(one, CR_BF16, dev), cr_scalar(9)), CR_F64, half, sizeof half));
    CHECK(half[0] == 1 + 0x1p-7, "bf16: %g", half[0]);
    CHECK(cr_dtype_of(cr_nextafter(cr_ones(CR_LIST(2), CR_I64, dev), cr_scalar(2))) == CR_F32, "integers become f32");
    FAILS(CR_BAD_VALUE, "[nextafter]",
          cr_nextafter(cr_ones(CR_LIST(2), CR_F32, dev), cr_ones(CR_LIST(3), CR_F32, dev)));
}
TEST(nextafter) { EACH_DEVICE SCOPED(check_next()); }
