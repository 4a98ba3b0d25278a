/* bench.c - chainrule bench: what this machine does with the library.  Each case runs once to warm up
 * and then several times; the table gives the fastest and the median.  bench/run.py compares with
 * other libraries. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

enum { MAX_RUNS = 400 };
typedef struct result { double least, median; } result;          /* seconds */
typedef struct report {
    bool json; cr_dtype low;                        /* low: of products and activations */
    bool plan;                                      /* training steps are recorded and replayed */
    int rows;
    int64_t held;                                   /* bytes that the last forward pass kept for the backward pass */
} report;

static int ascending(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static result summary(double *t, int n) {
    qsort(t, (size_t)n, sizeof *t, ascending);
    return (result){t[0], t[n / 2]};
}

/* work: floating-point operations or bytes of one run; unit of work / second: "GFLOP/s", "GB/s",
 * "tokens/s" (scale 1e9 or 1). */
static void row(report *r, const char *name, result t, double work, double scale, const char *unit) {
    if (r->json)
        printf("%s\n  {\"name\":\"%s\",\"min_ms\":%.6g,\"median_ms\":%.6g,\"rate\":%.6g,\"unit\":\"%s\"}",
               r->rows ? "," : "", name, t.least * 1e3, t.median * 1e3, work / t.median / scale, unit);
    else
        printf("  %-34s %10.3f %10.3f   %10.1f %s\n", name, t.least * 1e3, t.median * 1e3, work / t.median / scale,
               unit);
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

typedef struct trainer {
    cr_gpt *m; cr_optim *opt; cr_tensor *x, *y;
    cr_dtype low;
    cr_params *copies;
    cr_scaler *scaler;                              /* of f16 */
    int64_t held;                                   /* bytes that the last forward pass kept */
    cr_plan *plan;                                  /* of the step; NULL: not recorded */
} trainer;

static bool trainer_make(trainer *t, const step_case *c, cr_dtype low, const cr_device *dev) {
    cr_generator *g = cr_generator_new(1);
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = 1e-4;
    o.decay_min_ndim = 2;
    t->m = g ? cr_gpt_new(&c->config, CR_F32, dev, g) : NULL;
    t->opt = t->m ? cr_optim_new(cr_gpt_params(t->m), &o) : NULL;
    t->x = cr_randint(0, c->config.vocabulary, CR_LIST(c->batch, c->time), CR_I64, dev, g);
    t->y = cr_randint(0, c->config.vocabulary, CR_LIST(c->batch, c->time), CR_I64, dev, g);
    cr_generator_free(g);
    t->low = low;
    if (low == CR_F16) t->scaler = cr_scaler_new(NULL);
    return t->opt && t->x && t->y && half_dtype_copies(cr_gpt_params(t->m), t->opt, low, &t->copies) &&
           (low != CR_F16 || t->scaler);
}

static void trainer_free(trainer *t) {
    cr_plan_free(t->plan);
    low_copies_free(t->copies, cr_gpt_params(t->m));
    cr_scaler_free(t->scaler);
    cr_release(t->x);
    cr_release(t->y);
    cr_optim_free(t->opt);
    cr_gpt_free(t->m);
}

/* One step with gradients clipped at 1; at[0..3]: seconds of forward, backward, clipping and update,
 * all.  fused: the update is inside the backward pass, without clipping. */
static bool train_once(trainer *t, const cr_device *dev, bool fused, double at[4]) {
    cr_scope_begin();
    const int64_t before = cr_memory_stats(dev).current;
    const double start = cr_os_seconds();
    cr_tensor *loss = half_dtype_loss(t->m, t->low, t->x, t->y, true);
    if (t->scaler) loss = cr_scaler_scale(t->scaler, loss);
    cr_status status = loss ? cr_synchronize(dev) : cr_error_status();
    t->held = cr_memory_stats(dev).current - before;
    const double forward = cr_os_seconds();
    if (status == CR_OK) status = fused ? cr_optim_backward(t->opt, loss) : cr_backward(loss, CR_NONE, NULL);
    if (status == CR_OK) status = cr_synchronize(dev);
    const double backward = cr_os_seconds();
    if (status == CR_OK && t->scaler) status = cr_scaler_step(t->scaler, t->opt, 1, NULL, NULL);
    else if (status == CR_OK && !fused) status = cr_optim_step_clipped(t->opt, 1, NULL);
    if (status == CR_OK && t->scaler) status = cr_scaler_update(t->scaler);
    if (status == CR_OK) status = cr_synchronize(dev);
    cr_params_zero_grad(cr_gpt_params(t->m));
    cr_scope_end();
    const double end = cr_os_seconds();
    at[0] = forward - start; at[1] = backward - forward; at[2] = end - backward; at[3] = end - start;
    return status == CR_OK;
}

/* The step as a recording takes it: gradients are not kept, and with clip 0 not clipped. */
static cr_tensor *plain_step(trainer *t, double clip) {
    cr_scope_begin();
    cr_tensor *loss = half_dtype_loss(t->m, t->low, t->x, t->y, true);
    cr_status status = loss ? cr_backward(loss, CR_NONE, NULL) : cr_error_status();
    if (status == CR_OK) status = clip > 0 ? cr_optim_step_clipped(t->opt, clip, NULL) : cr_optim_step(t->opt);
    cr_params_zero_grad(cr_gpt_params(t->m));
    cr_tensor *kept = status == CR_OK ? cr_keep(cr_detach(loss)) : NULL;
    cr_scope_end();
    return kept;
}

/* *took: seconds of the step that is recorded, and of making the plan */
static bool record_step(trainer *t, double clip, double *took) {
    const cr_tensor *in[] = {t->x, t->y};
    cr_tensor *loss = plain_step(t, clip);          /* makes the moments */
    cr_release(loss);
    const double start = cr_os_seconds();
    if (!loss || cr_record_begin(2, in) != CR_OK) return false;
    if ((loss = plain_step(t, clip))) t->plan = cr_record_end(1, (const cr_tensor *const *)&loss);
    else cr_record_cancel();
    cr_release(loss);
    *took = cr_os_seconds() - start;
    return t->plan;
}

static bool replay_step(trainer *t, const cr_device *dev, double at[4]) {
    const cr_tensor *in[] = {t->x, t->y};
    const double start = cr_os_seconds();
    cr_tensor *loss = NULL;
    bool ok = cr_plan_run(t->plan, in, &loss) == CR_OK && cr_synchronize(dev) == CR_OK;
    cr_release(loss);
    at[0] = at[1] = at[2] = 0;
    at[3] = cr_os_seconds() - start;
    return ok;
}

static bool bench_step(report *r, const step_case *c, bool fused, bool quick, const cr_device *dev) {
    static const char *const parts[] = {"forward", "backward", "update", "step"};
    double times[4][MAX_RUNS], at[4], recording = 0;
    trainer t = {0};
    const int runs = quick ? c->quick_runs : c->runs;
    const double tokens = (double)(c->batch * c->time);
    bool ok = trainer_make(&t, c, r->low, dev);
    if (r->plan) ok = ok && record_step(&t, fused ? 0 : 1, &recording) && replay_step(&t, dev, at);
    else ok = ok && train_once(&t, dev, fused, at) && train_once(&t, dev, fused, at);
    for (int i = 0; ok && i < runs; i++) {
        ok = r->plan ? replay_step(&t, dev, at) : train_once(&t, dev, fused, at);
        for (int k = 0; k < 4; k++) times[k][i] = at[k];
    }
    for (int k = r->plan ? 3 : 0; ok && k < 4; k++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", c->name, parts[k]);
        row(r, name, summary(times[k], runs), tokens, 1, "tokens/s");
    }
    r->held = t.held;
    if (ok && r->plan) {
        char name[64];
        snprintf(name, sizeof name, "%s recording", c->name);
        row(r, name, (result){recording, recording}, tokens, 1, "tokens/s");
    }
    if (ok && !r->json && r->plan)
        printf("  %-34s %33.1f MB of memory for temporaries\n", c->name, (double)cr_plan_look(t.plan).arena / 1e6);
    else if (ok && !r->json) printf("  %-34s %33.1f MB kept for the backward pass\n", c->name, (double)t.held / 1e6);
    trainer_free(&t);
    return ok || (cli_fail_library(), false);
}

/* ---- single operations */
/* (M, K), (N, K), (K), (K), (M) of integers below K */
typedef struct operands { cr_tensor *a, *b, *row, *offset, *target; } operands;
typedef cr_tensor *(*operation)(const operands *o);
/* work: operations or bytes of one run */
typedef struct operation_case { const char *name; operation f; int64_t m, k, n; double work; } operation_case;

static cr_tensor *product(const operands *o) { return cr_linear(o->a, o->b, CR_NONE); }
static cr_tensor *square_product(const operands *o) { return cr_matmul(o->a, o->b); }
static cr_tensor *op_add(const operands *o) { return cr_add(o->a, o->b); }
static cr_tensor *op_exp(const operands *o) { return cr_exp(o->a); }
static cr_tensor *op_tanh(const operands *o) { return cr_tanh(o->a); }
static cr_tensor *op_gelu(const operands *o) { return cr_gelu(o->a); }
static cr_tensor *op_gelu_tanh(const operands *o) { return cr_gelu_tanh(o->a); }
static cr_tensor *op_relu(const operands *o) { return cr_relu(o->a); }
static cr_tensor *op_sum(const operands *o) { return cr_sum(o->a, CR_ALL, false); }
static cr_tensor *op_row_sums(const operands *o) { return cr_sum(o->a, CR_LIST(1), false); }
static cr_tensor *op_column_sums(const operands *o) { return cr_sum(o->a, CR_LIST(0), false); }
static cr_tensor *op_transpose(const operands *o) { return cr_contiguous(cr_transpose(o->a, 0, 1)); }
static cr_tensor *op_softmax(const operands *o) { return cr_softmax(o->a, -1); }
static cr_tensor *op_cross_entropy(const operands *o) { return cr_cross_entropy(o->a, o->target, NULL); }
static cr_tensor *op_layer_norm(const operands *o) { return cr_layer_norm(o->a, o->row, o->offset, 1e-5); }

/* The gradients of f's result with respect to the first n of a, row, offset; the last of them.
 * cotangent CR_NONE: f gives a scalar. */
static cr_tensor *with_gradients(const operands *o, operation f, int n, const cr_tensor *cotangent) {
    cr_tensor *const all[] = {o->a, o->row, o->offset};
    const cr_tensor *in[3];
    cr_tensor *grads[3] = {NULL};
    for (int i = 0; i < n; i++) in[i] = cr_requires_grad_(all[i], true);
    const cr_tensor *y = f(o);
    return cr_gradients(1, &y, &cotangent, n, in, grads, NULL) == CR_OK ? grads[n - 1] : NULL;
}
static cr_tensor *op_cross_entropy_grad(const operands *o) { return with_gradients(o, op_cross_entropy, 1, CR_NONE); }
static cr_tensor *op_layer_norm_grad(const operands *o) { return with_gradients(o, op_layer_norm, 3, o->b); }

/* As a user runs it: the result is made and given back each time. */
static bool bench_operation(report *r, const operation_case *c, const char *unit, bool quick, const cr_device *dev) {
    double times[MAX_RUNS];
    const double limit = quick ? 0.1 : 0.5;
    cr_generator *g = cr_generator_new(2);
    cr_scope_begin();
    operands o = {0};
    if (g)
        o = (operands){cr_randn(CR_LIST(c->m, c->k), r->low, dev, g), cr_randn(CR_LIST(c->n, c->k), r->low, dev, g),
                       cr_ones(CR_LIST(c->k), r->low, dev), cr_zeros(CR_LIST(c->k), r->low, dev),
                       cr_randint(0, c->k, CR_LIST(c->m), CR_I64, dev, g)};
    const double started = cr_os_seconds();
    bool ok = o.a && o.b && o.row && o.offset && o.target;
    int runs = -2;                                  /* two to warm up */
    for (; ok && runs < MAX_RUNS && (runs < 5 || cr_os_seconds() - started < limit); runs++) {
        const double start = cr_os_seconds();
        cr_scope_begin();
        ok = c->f(&o) && cr_synchronize(dev) == CR_OK;
        cr_scope_end();
        if (runs >= 0) times[runs] = cr_os_seconds() - start;
    }
    cr_scope_end();
    cr_generator_free(g);
    if (!ok) return cli_fail_library(), false;
    row(r, c->name, summary(times, runs), c->work, 1e9, unit);
    return true;
}

static bool bench_products(report *r, bool quick, const cr_device *dev) {
    static const struct { const char *name; int64_t m, n, k; bool square; } cases[] = {
        {"product 64 x 64 x 64", 64, 64, 64, true},       {"product 256 x 256 x 256", 256, 256, 256, true},
        {"product 1024 x 1024 x 1024", 1024, 1024, 1024, true}, {"linear 256 x 2304 x 768", 256, 2304, 768, false},
        {"linear 256 x 768 x 3072", 256, 768, 3072, false}, {"linear 256 x 50257 x 768", 256, 50257, 768, false}};
    heading(r, "products (M x N x K)");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const operation_case c = {cases[i].name, cases[i].square ? square_product : product,
                                  cases[i].m,    cases[i].k,
                                  cases[i].n,    2.0 * (double)cases[i].m * (double)cases[i].n * (double)cases[i].k};
        if (!bench_operation(r, &c, "GFLOP/s", quick, dev)) return false;
    }
    return true;
}

static bool bench_elementwise(report *r, bool quick, const cr_device *dev) {
    /* passes: over (rows, columns) */
    static const struct { const char *name; operation f; int64_t rows, columns; double passes;
    } cases[] = {{"add", op_add, 4096, 1024, 3},
                 {"exp", op_exp, 4096, 1024, 2},
                 {"tanh", op_tanh, 4096, 1024, 2},
                 {"gelu", op_gelu, 4096, 1024, 2},
                 {"gelu (tanh form)", op_gelu_tanh, 4096, 1024, 2},
                 {"relu", op_relu, 4096, 1024, 2},
                 {"sum", op_sum, 4096, 1024, 1},
                 {"row sums", op_row_sums, 2048, 2048, 1},
                 {"column sums", op_column_sums, 2048, 2048, 1},
                 {"transpose", op_transpose, 2048, 2048, 2},
                 {"softmax", op_softmax, 256, 50257, 2},
                 {"cross-entropy", op_cross_entropy, 256, 50257, 1},
                 {"cross-entropy, gradient", op_cross_entropy_grad, 256, 50257, 3},
                 {"layer norm", op_layer_norm, 4096, 1024, 2},
                 {"layer norm, gradients", op_layer_norm_grad, 4096, 1024, 5}};
    heading(r, "elementwise and rows, 4M (13M)");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t rows = cases[i].rows, columns = cases[i].columns;
        const double bytes = (double)cr_dtype_size(r->low) * (double)(rows * columns);
        const operation_case c = {cases[i].name, cases[i].f, rows, columns, rows, cases[i].passes * bytes};
        if (!bench_operation(r, &c, "GB/s", quick, dev)) return false;
    }
    return true;
}

/* ---- attention: causal, B 2, H 12, D 64, laid out as a projection's thirds are */
typedef struct heads { cr_tensor *in[3], *g; } heads;   /* q, k, v, and the cotangent: (B, H, T, D), in memory (B, T,
                                                         * H, D) */

static bool heads_make(heads *h, int64_t T, cr_dtype dt, const cr_device *dev) {
    cr_generator *g = cr_generator_new(3);
    cr_tensor *x[4];
    for (int i = 0; i < 4; i++) x[i] = cr_transpose(cr_randn(CR_LIST(2, T, 12, 64), dt, dev, g), 1, 2);
    for (int i = 0; i < 3; i++) h->in[i] = cr_requires_grad_(x[i], true);
    h->g = x[3];
    cr_generator_free(g);
    return h->in[0] && h->in[1] && h->in[2] && h->g;
}

/* In its own scope, so that what it made is freed. */
static bool attend(const heads *h, bool backward, const cr_device *dev) {
    cr_tensor *grads[3];
    cr_scope_begin();
    const bool old = cr_set_grad_enabled(backward);
    const cr_tensor *y = cr_attention(h->in[0], h->in[1], h->in[2], &(cr_attention_options){.causal = true});
    cr_status status = y ? CR_OK : cr_error_status();
    if (status == CR_OK && backward)
        status = cr_gradients(1, &y, (const cr_tensor *[]){h->g}, 3, (const cr_tensor *const *)h->in, grads, NULL);
    if (status == CR_OK) status = cr_synchronize(dev);
    cr_set_grad_enabled(old);
    cr_scope_end();
    return status == CR_OK;
}

/* Operations: 4 D for a visible pair forward, 10 D backward (the scores once more, and four products of gradients). */
static bool bench_attention(report *r, bool quick, const cr_device *dev) {
    static const int64_t lengths[] = {64, 128, 256, 512, 1024, 2048};
    static const struct { const char *name; double flops; } passes[] = {{"forward", 4}, {"forward+backward", 14}};
    double times[MAX_RUNS];
    heading(r, "attention, causal (2 x 12 x 64)");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const double T = (double)lengths[i], pairs = 2 * 12 * 64 * T * (T + 1) / 2;
        heads h;
        cr_scope_begin();
        bool ok = heads_make(&h, lengths[i], r->low, dev);
        for (int p = 0; p < 2 && ok; p++) {
            const double started = cr_os_seconds();
            int runs = -2;                          /* two to warm up */
            for (; ok && runs < MAX_RUNS && (runs < 5 || cr_os_seconds() - started < (quick ? 0.1 : 0.5)); runs++) {
                const double start = cr_os_seconds();
                ok = attend(&h, p, dev);
                if (runs >= 0) times[runs] = cr_os_seconds() - start;
            }
            char name[64];
            snprintf(name, sizeof name, "attention T=%lld %s", (long long)lengths[i], passes[p].name);
            if (ok) row(r, name, summary(times, runs), passes[p].flops * pairs, 1e9, "GFLOP/s");
        }
        cr_scope_end();
        if (!ok) return cli_fail_library(), false;
    }
    return true;
}

static bool bench_parts(report *r, const char *only, bool fused, bool quick, const cr_device *dev) {
    static const struct { const char *part; step_case step;
    } steps[] = {
        /* the same in bench/cases.py */
        {"char",
         {"char GPT", {.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128}, 12, 64, 100, 20}},
        {"char6",
         {"char GPT 6 x 384",
          {.vocabulary = 65, .context = 128, .layers = 6, .heads = 6, .width = 384},
          16,
          128,
          12,
          4}},
        {"gpt2",
         {"GPT-2 124M", {.vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768}, 4, 64, 9, 3}}};
    const bool all = !strcmp(only, "all");
    if (all || !strncmp(only, "char", 4) || !strcmp(only, "gpt2")) heading(r, "training");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if ((all || !strcmp(only, steps[i].part)) && !bench_step(r, &steps[i].step, fused, quick, dev)) return false;
    if ((all || !strcmp(only, "products")) && !bench_products(r, quick, dev)) return false;
    if ((all || !strcmp(only, "attention")) && !bench_attention(r, quick, dev)) return false;
    return (!all && strcmp(only, "elementwise") != 0) || bench_elementwise(r, quick, dev);
}

int cli_bench(int argc, char **argv) {
    bool quick = false, json = false, fused = false, plan = false;
    const char *device = NULL, *only = "all", *dtype = "f32";
    int64_t threads = 0;
    option options[] = {
        {.name = "only", .text = &only, .words = "all|char|char6|gpt2|products|attention|elementwise",
         .help = "one part"},
        {.name = "fuse-step", .flag = &fused,
         .help = "training: update weights inside the backward pass, without clipping"},
        {.name = "compile", .flag = &plan, .help = "training: the step is recorded once and replayed"},
        {.name = "quick", .flag = &quick, .help = "fewer runs"},
        {.name = "json", .flag = &json, .help = "one JSON object instead of the table"},
        {.name = "dtype", .text = &dtype, .words = "f32|bf16|f16",
         .help = "dtype of tensors; in training steps, of products and activations, with f32 weights"},
        option_device(&device),
        option_threads(&threads),
    };
    const command c = {
        "bench",
        "[--only PART] [--fuse-step] [--compile] [--quick] [--json] [--dtype f32|bf16|f16] [--device NAME] "
        "[--threads N]",
        "Measures training steps, products, attention and elementwise operations.",
        options,
        sizeof options / sizeof *options,
        NULL, NULL,
        "bench --quick\n"
        "bench --only gpt2 --dtype bf16 --json\n"};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (threads && cr_set_num_threads((int)threads)) return cli_fail_library();
    if (plan && !strcmp(dtype, "f16"))
        return usage_error(&c, "--compile records steps in f32 or bf16: f16 scales the loss");
    if (fused && !strcmp(dtype, "f16"))
        return usage_error(&c, "--fuse-step keeps no gradients: --dtype f16 needs them to scale the loss");
    const cr_device *dev = device_named(device);
    if (!dev) return cli_fail_library();
    report r = {.json = json, .low = half_dtype_named(dtype), .plan = plan};
    if (json)
        printf("{\"version\":\"%s\",\"device\":\"%s\",\"info\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,\"rows\":[",
               cr_version(), cr_device_name(dev), cr_device_info(dev), dtype, cr_num_threads());
    else printf("chainrule %s on %s (%s), %s\n", cr_version(), cr_device_name(dev), cr_device_info(dev), dtype);
    const bool ok = bench_parts(&r, only, fused, quick, dev);
    if (json)
        printf("\n],\"activation_bytes\":%lld,\"peak_bytes\":%lld,\"peak_rss\":%lld}\n", (long long)r.held,
               (long long)cr_memory_stats(dev).peak, (long long)cr_os_peak_rss());
    return ok ? CLI_OK : CLI_FAILED;
}
