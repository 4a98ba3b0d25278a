/* bench.c - chainrule bench: what this machine does with the library.  Each case runs once to warm up and then several times;
 * the table gives the fastest and the median.  bench/run.py compares with other libraries. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

enum { MAX_RUNS = 400 };
typedef struct result { double least, median; } result;          /* seconds */
typedef struct report { bool json; int rows; } report;

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static result summary(double *t, int n) {
    qsort(t, (size_t)n, sizeof *t, ascending);
    return (result){t[0], t[n / 2]};
}

/* work: floating-point operations or bytes of one run; unit of work / second: "GFLOP/s", "GB/s", "tokens/s" (scale 1e9 or 1). */
static void row(report *r, const char *name, result t, double work, double scale, const char *unit) {
    if (r->json)
        printf("%s\n  {\"name\":\"%s\",\"min_ms\":%.6g,\"median_ms\":%.6g,\"rate\":%.6g,\"unit\":\"%s\"}", r->rows ? "," : "", name, t.least * 1e3,
               t.median * 1e3, work / t.median / scale, unit);
    else
        printf("  %-34s %10.3f %10.3f   %10.1f %s\n", name, t.least * 1e3, t.median * 1e3, work / t.median / scale, unit);
    r->rows++;
    fflush(stdout);
}

static void heading(const report *r, const char *text) {
    if (!r->json) printf("\n%-36s %10s %10s   %10s\n", text, "min ms", "median ms", "at median");
}

/* ---- training steps */
typedef struct step_case {
    const char *name; cr_gpt_config config; int64_t batch, time; int runs, quick_runs;
} step_case;

typedef struct trainer { cr_gpt *m; cr_optim *opt; cr_tensor *x, *y; } trainer;

static bool trainer_make(trainer *t, const step_case *c, const cr_device *dev) {
    cr_generator *g = cr_generator_new(1);
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = 1e-4;
    o.decay_min_ndim = 2;
    t->m = g ? cr_gpt_new(&c->config, CR_F32, dev, g) : NULL;
    t->opt = t->m ? cr_optim_new(cr_gpt_params(t->m), &o) : NULL;
    t->x = cr_randint(0, c->config.vocabulary, CR_LIST(c->batch, c->time), CR_I64, dev, g);
    t->y = cr_randint(0, c->config.vocabulary, CR_LIST(c->batch, c->time), CR_I64, dev, g);
    cr_generator_free(g);
    return t->opt && t->x && t->y;
}

static void trainer_free(trainer *t) {
    cr_release(t->x);
    cr_release(t->y);
    cr_optim_free(t->opt);
    cr_gpt_free(t->m);
}

/* One step; at[0..3]: seconds of forward, backward, update, all. */
static bool train_once(const trainer *t, const cr_device *dev, double at[4]) {
    cr_scope_begin();
    const double start = cr_os_seconds();
    cr_tensor *loss = cr_gpt_loss(t->m, t->x, t->y, true);
    cr_status status = loss ? cr_synchronize(dev) : cr_error_status();
    const double forward = cr_os_seconds();
    if (!status) status = cr_backward(loss, CR_NONE, NULL);
    if (!status) status = cr_synchronize(dev);
    const double backward = cr_os_seconds();
    if (!status) status = cr_optim_step(t->opt);
    if (!status) status = cr_synchronize(dev);
    cr_params_zero_grad(cr_gpt_params(t->m));
    cr_scope_end();
    const double end = cr_os_seconds();
    at[0] = forward - start; at[1] = backward - forward; at[2] = end - backward; at[3] = end - start;
    return !status;
}

static bool bench_step(report *r, const step_case *c, bool quick, const cr_device *dev) {
    static const char *const parts[] = {"forward", "backward", "adamw", "step"};
    double times[4][MAX_RUNS], at[4];
    trainer t = {0};
    const int runs = quick ? c->quick_runs : c->runs;
    const double tokens = (double)(c->batch * c->time);
    bool ok = trainer_make(&t, c, dev) && train_once(&t, dev, at) && train_once(&t, dev, at);
    for (int i = 0; ok && i < runs; i++) {
        ok = train_once(&t, dev, at);
        for (int k = 0; k < 4; k++) times[k][i] = at[k];
    }
    for (int k = 0; ok && k < 4; k++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", c->name, parts[k]);
        row(r, name, summary(times[k], runs), tokens, 1, "tokens/s");
    }
    trainer_free(&t);
    return ok || (cli_fail_library(), false);
}

/* ---- single operations */
typedef cr_tensor *(*operation)(const cr_tensor *a, const cr_tensor *b);
static cr_tensor *product(const cr_tensor *a, const cr_tensor *b) { return cr_linear(a, b, CR_NONE, CR_ACT_NONE); }
static cr_tensor *square_product(const cr_tensor *a, const cr_tensor *b) { return cr_matmul(a, b); }
static cr_tensor *op_add(const cr_tensor *a, const cr_tensor *b) { return cr_add(a, b); }
static cr_tensor *op_exp(const cr_tensor *a, const cr_tensor *b) { (void)b; return cr_exp(a); }
static cr_tensor *op_tanh(const cr_tensor *a, const cr_tensor *b) { (void)b; return cr_tanh(a); }
static cr_tensor *op_gelu(const cr_tensor *a, const cr_tensor *b) { (void)b; return cr_gelu_tanh(a); }
static cr_tensor *op_sum(const cr_tensor *a, const cr_tensor *b) { (void)b; return cr_sum(a, CR_ALL, false); }
static cr_tensor *op_softmax(const cr_tensor *a, const cr_tensor *b) { (void)b; return cr_softmax(a, -1); }

static bool bench_operation(report *r, const char *name, operation f, int64_t m, int64_t k, int64_t n, double work, const char *unit, bool quick,
                            const cr_device *dev) {
    double times[MAX_RUNS];
    const double limit = quick ? 0.1 : 0.5;
    cr_generator *g = cr_generator_new(2);
    cr_scope_begin();
    cr_tensor *a = g ? cr_randn(CR_LIST(m, k), CR_F32, dev, g) : NULL, *b = g ? cr_randn(CR_LIST(n, k), CR_F32, dev, g) : NULL;
    const double started = cr_os_seconds();
    bool ok = a && b;
    int runs = -2;                                  /* two to warm up */
    for (; ok && runs < MAX_RUNS && (runs < 5 || cr_os_seconds() - started < limit); runs++) {
        const double start = cr_os_seconds();
        cr_tensor *y = f(a, b);
        ok = y && cr_synchronize(dev) == CR_OK;
        if (runs >= 0) times[runs] = cr_os_seconds() - start;
        cr_release(y);
    }
    cr_scope_end();
    cr_generator_free(g);
    if (!ok) return cli_fail_library(), false;
    row(r, name, summary(times, runs), work, 1e9, unit);
    return true;
}

static bool bench_products(report *r, bool quick, const cr_device *dev) {
    static const struct { const char *name; int64_t m, n, k; bool square; } cases[] = {
        {"product 64 x 64 x 64", 64, 64, 64, true},       {"product 256 x 256 x 256", 256, 256, 256, true},
        {"product 1024 x 1024 x 1024", 1024, 1024, 1024, true}, {"linear 256 x 2304 x 768", 256, 2304, 768, false},
        {"linear 256 x 768 x 3072", 256, 768, 3072, false}, {"linear 256 x 50257 x 768", 256, 50257, 768, false}};
    heading(r, "products (M x N x K)");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!bench_operation(r, cases[i].name, cases[i].square ? square_product : product, cases[i].m, cases[i].k, cases[i].n,
                             2.0 * (double)cases[i].m * (double)cases[i].n * (double)cases[i].k, "GFLOP/s", quick, dev)) return false;
    return true;
}

static bool bench_elementwise(report *r, bool quick, const cr_device *dev) {
    static const struct { const char *name; operation f; double passes; } cases[] = {
        {"add", op_add, 3}, {"exp", op_exp, 2}, {"tanh", op_tanh, 2}, {"gelu (tanh form)", op_gelu, 2}, {"sum", op_sum, 1}, {"softmax, rows of 1024", op_softmax, 2}};
    heading(r, "elementwise, 4M f32");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!bench_operation(r, cases[i].name, cases[i].f, 4096, 1024, 4096, cases[i].passes * 4 * 4096 * 1024, "GB/s", quick, dev)) return false;
    return true;
}

static bool bench_parts(report *r, const char *only, bool quick, const cr_device *dev) {
    static const step_case steps[] = {
        {"char GPT", {.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128}, 12, 64, 100, 20},
        {"GPT-2 124M", {.vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768}, 4, 64, 9, 3}};
    const bool all = !strcmp(only, "all");
    if (all || !strcmp(only, "char") || !strcmp(only, "gpt2")) heading(r, "training (B x T: 12 x 64, 4 x 64)");
    if ((all || !strcmp(only, "char")) && !bench_step(r, &steps[0], quick, dev)) return false;
    if ((all || !strcmp(only, "gpt2")) && !bench_step(r, &steps[1], quick, dev)) return false;
    if ((all || !strcmp(only, "products")) && !bench_products(r, quick, dev)) return false;
    return (!all && strcmp(only, "elementwise") != 0) || bench_elementwise(r, quick, dev);
}

int cli_bench(int argc, char **argv) {
    bool quick = false, json = false;
    const char *device = NULL, *only = "all", *dtype = "f32";
    int64_t threads = 0;
    option options[] = {
        {"only", OPTION_CHOICE, &only, "all|char|gpt2|products|elementwise", "one part", 0, 0, false, false},
        {"quick", OPTION_FLAG, &quick, NULL, "fewer runs", 0, 0, false, false},
        {"json", OPTION_FLAG, &json, NULL, "one JSON object instead of the table", 0, 0, false, false},
        {"dtype", OPTION_CHOICE, &dtype, "f32|bf16", "bf16: products round their operands to it", 0, 0, false, false},
        {"device", OPTION_TEXT, &device, "NAME", "cpu or ref (default cpu)", 0, 0, false, false},
        {"threads", OPTION_INT, &threads, "N", "0: as many as the machine offers", 0, 1024, false, false},
    };
    const command c = {"bench", "[--only PART] [--quick] [--json] [--dtype f32|bf16] [--device NAME] [--threads N]",
                       "Measures training steps, products and elementwise operations.", options, sizeof options / sizeof *options};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (threads && cr_set_num_threads((int)threads)) return cli_fail_library();
    cr_set_bf16_products(!strcmp(dtype, "bf16"));
    const cr_device *dev = device_named(device);
    if (!dev) return cli_fail_library();
    report r = {.json = json};
    if (json) printf("{\"version\":\"%s\",\"device\":\"%s\",\"info\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,\"rows\":[", cr_version(), cr_device_name(dev), cr_device_info(dev), dtype, cr_num_threads());
    else printf("chainrule %s on %s (%s), %s\n", cr_version(), cr_device_name(dev), cr_device_info(dev), dtype);
    const bool ok = bench_parts(&r, only, quick, dev);
    if (json) printf("\n],\"peak_bytes\":%lld,\"peak_rss\":%lld}\n", (long long)cr_memory_stats(dev).peak, (long long)cr_os_peak_rss());
    return ok ? CLI_OK : CLI_FAILED;
}
