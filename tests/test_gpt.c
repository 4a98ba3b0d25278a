/* test_gpt.c - the whole model: a small GPT-2 against PyTorch's results (golden/gpt.bin, made by
 * golden/make_gpt.py; loss, every gradient, ten AdamW steps), the same bits for 1 and 2 threads,
 * resume, sampling with the cache, files and bad input. CHAINRULE_GPT_DUMP names another dump
 * (golden/check_gpt.py makes a fresh one where PyTorch is installed). */
#include "test.h"
#include "core/os.h"

/* ---- the dump */

enum { STEPS = 10, MAX_PARAMETERS = 64 };
typedef struct dump {
    cr_gpt_config config;
    int batch;
    double losses[STEPS + 1], norm;
    int64_t numel[MAX_PARAMETERS];
    /* of each parameter: first gradient; final - initial */
    float *gradient[MAX_PARAMETERS], *moved[MAX_PARAMETERS];
    float quantum[MAX_PARAMETERS];                                   /* rounding step of moved */
} dump;

/* The mix of golden/make_gpt.py. */
static uint32_t hash32(uint32_t k) {
    k = (k ^ (k >> 16)) * 0x85EBCA6Bu;
    k = (k ^ (k >> 13)) * 0xC2B2AE35u;
    return k ^ (k >> 16);
}

static double initial(uint32_t p, uint32_t i, int ndim, bool weight) {
    const double u = (double)(hash32(p * 0x9E3779B1u + i) >> 12) / 1048576 - 0.5;
    return ndim == 2 ? u / 2 : weight ? 1 + u / 2 : u / 4;
}

static bool dump_read(const char *path, dump *d, cr_params *layout) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    char magic[8];
    int32_t head[8];
    bool ok = fread(magic, 8, 1, f) == 1 && !memcmp(magic, "CRGPTREF", 8) && fread(head, sizeof head, 1, f) == 1 &&
              head[0] == 1 && head[7] == STEPS;
    if (ok) {
        d->config = (cr_gpt_config){
            .vocabulary = head[1], .context = head[2], .layers = head[3], .heads = head[4], .width = head[5]};
        d->batch = head[6];
        ok = fread(d->losses, sizeof d->losses, 1, f) == 1 && fread(&d->norm, sizeof d->norm, 1, f) == 1;
    }
    for (int64_t i = 0; ok && layout && i < cr_params_count(layout); i++) {
        const size_t n = (size_t)(d->numel[i] = cr_numel(cr_params_at(layout, i)));
        ok = (d->gradient[i] = malloc(n * sizeof(float))) != NULL && fread(d->gradient[i], sizeof(float), n, f) == n;
    }
    for (int64_t i = 0; ok && layout && i < cr_params_count(layout); i++) {
        const size_t n = (size_t)d->numel[i];
        int16_t *steps = malloc(n * sizeof *steps);
        d->moved[i] = malloc(n * sizeof(float));
        ok = steps && d->moved[i] && fread(&d->quantum[i], sizeof(float), 1, f) == 1 &&
             fread(steps, sizeof *steps, n, f) == n;
        for (size_t k = 0; ok && k < n; k++) d->moved[i][k] = d->quantum[i] * (float)steps[k];
        free(steps);
    }
    if (ok && layout) ok = fgetc(f) == EOF;
    fclose(f);
    return ok;
}

static void dump_free(dump *d) {
    for (int i = 0; i < MAX_PARAMETERS; i++) { free(d->gradient[i]); free(d->moved[i]); }
}

/* ---- helpers */

static const cr_gpt_config small = {.vocabulary = 37, .context = 16, .layers = 2, .heads = 2, .width = 32};

/* Token ids (B, T) of one step, shifted by `shift`. */
static cr_tensor *golden_tokens(const dump *d, int step, int shift, const cr_device *dev) {
    const int64_t B = d->batch, T = d->config.context;
    int64_t ids[1024];
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < T; t++)
            ids[b * T + t] = hash32(0x5EED0000u + (uint32_t)(step * 1000 + b * (T + 1) + t + shift)) %
                             (uint32_t)d->config.vocabulary;
    return cr_from(ids, CR_LIST(B, T), CR_I64, dev);
}

static void set_initial(cr_gpt *m) {
    cr_params *p = cr_gpt_params(m);
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        cr_tensor *t = cr_params_at(p, i);
        const int64_t n = cr_numel(t);
        double *v = malloc((size_t)n * sizeof *v);
        for (int64_t k = 0; k < n; k++)
            v[k] = initial((uint32_t)i, (uint32_t)k, cr_ndim(t), strstr(cr_params_name(p, i), "weight") != NULL);
        const bool grad = cr_set_grad_enabled(false);
        OK(cr_write(t, CR_F64, v, (size_t)n * sizeof *v));
        cr_set_grad_enabled(grad);
        free(v);
    }
}

static double *values(const cr_tensor *t) {
    double *v = malloc((size_t)cr_numel(t) * sizeof *v);
    OK(cr_read(t, CR_F64, v, (size_t)cr_numel(t) * sizeof *v));
    return v;
}

/* A key's bias adds the same to every score of a query, so its gradient is 0 but for rounding, which
 * AdamW makes as large as any other in f32: the middle third of c_attn.bias is compared only in f64. */
static bool only_rounding(const char *name, const cr_tensor *t, int64_t i) {
    return cr_dtype_of(t) == CR_F32 && strstr(name, "c_attn.bias") && i >= cr_numel(t) / 3 && i < cr_numel(t) / 3 * 2;
}

/* The largest difference as a share of the largest reference value, over one tensor. */
static void compare(const char *what, const char *name, const cr_tensor *got, const float *want, const double *add,
                    double absolute, double tolerance) {
    const int64_t n = cr_numel(got);
    double *v = values(got), largest = 0, worst = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++) {
        if (add && only_rounding(name, got, i)) continue;
        const double difference = fabs(v[i] - (add ? add[i] : 0) - (double)want[i]);
        if (!(difference <= worst)) { worst = difference; at = i; }
    }
    CHECK(worst <= absolute + tolerance * largest,
          "%s of %s on %s %s at %lld: %.9g, PyTorch %.9g; difference %.3g, allowed %.3g", what, name,
          cr_device_name(cr_device_of(got)), cr_dtype_name(cr_dtype_of(got)), (long long)at,
          v[at] - (add ? add[at] : 0), (double)want[at], worst, absolute + tolerance * largest);
    free(v);
}

static cr_optim *adamw(cr_params *p, double lr) {
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = lr; o.beta1 = 0.9; o.beta2 = 0.99; o.eps = 1e-8; o.weight_decay = 0.1; o.decay_min_ndim = 2;
    return cr_optim_new(p, &o);
}

/* ---- against PyTorch */

static const char *dump_path(void) {
    const char *path = getenv("CHAINRULE_GPT_DUMP");
    return path ? path : "tests/golden/gpt.bin";
}

/* gradients: rounding of the dump (2^-24) and of the arithmetic; moved: half a quantum and what ten
 * AdamW steps make of it: in f32 up to a twentieth of one step (lr 1e-2), because AdamW magnifies the
 * rounding of a gradient that is small beside its tensor's. */
static void golden(const cr_device *dev, cr_dtype dt) {
    dump d = {0};
    REQUIRE(dump_read(dump_path(), &d, NULL), "%s is missing or not a dump of this version", dump_path());
    cr_gpt *m = cr_gpt_new(&d.config, dt, dev, NULL);
    REQUIRE(m, "%s", cr_error());
    cr_params *p = cr_gpt_params(m);
    REQUIRE(dump_read(dump_path(), &d, p), "%s does not hold this model", dump_path());
    set_initial(m);
    const double tight = dt == CR_F64 ? 1e-7 : 2e-5, loss_tolerance = dt == CR_F64 ? 1e-9 : 2e-5;
    double *start[MAX_PARAMETERS], norm = 0;
    for (int64_t i = 0; i < cr_params_count(p); i++) start[i] = values(cr_params_at(p, i));
    cr_optim *opt = adamw(p, 1e-2);
    for (int step = 0; step <= STEPS; step++) {
        cr_scope_begin();
        cr_tensor *loss = cr_gpt_loss(m, golden_tokens(&d, step, 0, dev), golden_tokens(&d, step, 1, dev), true);
        const double got = cr_item(loss);
        CHECK(fabs(got - d.losses[step]) <= loss_tolerance * d.losses[step],
              "loss of step %d on %s %s: %.12g, PyTorch %.12g", step, cr_device_name(dev), cr_dtype_name(dt), got,
              d.losses[step]);
        if (step < STEPS) {
            OK(cr_backward(loss, CR_NONE, NULL));
            for (int64_t i = 0; step == 0 && i < cr_params_count(p); i++)
                compare("gradient", cr_params_name(p, i), cr_grad(cr_params_at(p, i)), d.gradient[i], NULL,
                        dt == CR_F64 ? 1e-9 : 1e-7, tight);
            double n;
            OK(cr_params_clip_grad_norm(p, 1.0, &n));
            if (!step) norm = n;
            OK(cr_optim_step(opt));
            cr_params_zero_grad(p);
        }
        cr_scope_end();
    }
    CHECK(fabs(norm - d.norm) <= tight * d.norm, "gradient norm %.12g, PyTorch %.12g", norm, d.norm);
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        compare("movement in ten steps", cr_params_name(p, i), cr_params_at(p, i), d.moved[i], start[i],
                (double)d.quantum[i] * 0.51 + (dt == CR_F64 ? 1e-6 : 5e-4), 0);
        free(start[i]);
    }
    test_ran_on(dev);
    cr_optim_free(opt);
    cr_gpt_free(m);
    dump_free(&d);
}

TEST(golden_cpu_f64) { golden(cr_cpu(), CR_F64); }
TEST(golden_cpu_f32) { golden(cr_cpu(), CR_F32); }
TEST(golden_ref_f64) { golden(cr_ref(), CR_F64); }
TEST(golden_ref_f32) { golden(cr_ref(), CR_F32); }

TEST(gpt2_names_and_sizes) {
    cr_gpt_config c = {.vocabulary = 50257, .context = 64, .layers = 1, .heads = 12, .width = 768};
    cr_gpt *m = cr_gpt_new(&c, CR_F32, cr_cpu(), NULL);
    REQUIRE(m, "%s", cr_error());
    cr_params *p = cr_gpt_params(m);
    CHECK(cr_params_numel(p) == (50257 + 64) * 768 + 12 * 768 * 768 + 13 * 768 + 2 * 768, "%lld elements",
          (long long)cr_params_numel(p));
    const char *const names[] = {"wte.weight",
                                 "wpe.weight",
                                 "h.0.ln_1.weight",
                                 "h.0.ln_1.bias",
                                 "h.0.attn.c_attn.weight",
                                 "h.0.attn.c_attn.bias",
                                 "h.0.attn.c_proj.weight",
                                 "h.0.attn.c_proj.bias",
                                 "h.0.ln_2.weight",
                                 "h.0.ln_2.bias",
                                 "h.0.mlp.c_fc.weight",
                                 "h.0.mlp.c_fc.bias",
                                 "h.0.mlp.c_proj.weight",
                                 "h.0.mlp.c_proj.bias",
                                 "ln_f.weight",
                                 "ln_f.bias"};
    CHECK(cr_params_count(p) == 16, "%lld parameters", (long long)cr_params_count(p));
    for (int i = 0; i < 16; i++)
        CHECK(!strcmp(cr_params_name(p, i), names[i]), "%d: %s, not %s", i, cr_params_name(p, i), names[i]);
    cr_scope_begin();
    const double std = sqrt(cr_item(cr_var(cr_params_get(p, "wte.weight"), CR_ALL, 0, false)));
    const double residual_std = sqrt(cr_item(cr_var(cr_params_get(p, "h.0.mlp.c_proj.weight"), CR_ALL, 0, false)));
    CHECK(fabs(std - 0.02) < 1e-4, "wte's standard deviation: %g", std);
    CHECK(fabs(residual_std - 0.02 / sqrt(2)) < 1e-4, "c_proj's standard deviation: %g", residual_std);
    CHECK(cr_item(cr_sum(cr_params_get(p, "ln_f.weight"), CR_ALL, false)) == 768, "norm weights start at 1");
    CHECK(cr_item(cr_sum(cr_params_get(p, "h.0.attn.c_attn.bias"), CR_ALL, false)) == 0, "biases start at 0");
    cr_scope_end();
    cr_gpt_free(m);
}

/* ---- training runs */

typedef struct run { cr_generator *g; cr_gpt *m; cr_optim *opt; cr_tokens *tokens; cr_loader *loader; } run;

/* A model with dropout on a made-up text, everything drawn from `seed`. */
static bool run_open(run *r, uint64_t seed) {
    uint32_t ids[1500];
    for (uint32_t i = 0; i < 1500; i++) ids[i] = (i * i / 7 + hash32(i) % 5) % 37;
    cr_gpt_config c = small;
    c.dropout = 0.1;
    r->g = cr_generator_new(seed);
    r->m = cr_gpt_new(&c, CR_F32, cr_cpu(), r->g);
    r->opt = r->m ? adamw(cr_gpt_params(r->m), 1e-3) : NULL;
    r->tokens = cr_tokens_new(ids, 1500, 37);
    cr_loader_options o = cr_loader_defaults();
    o.batch = 5; o.context = 16; o.seed = seed; o.shuffle = true; o.device = cr_cpu();
    r->loader = cr_loader_new(r->tokens, &o);
    CHECK(r->opt && r->loader, "%s", cr_error());
    return r->opt && r->loader;
}

static void run_close(run *r) {
    cr_loader_free(r->loader);
    cr_tokens_free(r->tokens);
    cr_optim_free(r->opt);
    cr_gpt_free(r->m);
    cr_generator_free(r->g);
}

/* Steps inside the backward pass have the bits of steps after it; the embedding is tied to the head. */
TEST(stepping_in_the_backward_pass) {
    run a, b;
    if (run_open(&a, 5) && run_open(&b, 5))
        for (int i = 0; i < 4; i++) {
            run *both[2] = {&a, &b};
            for (int k = 0; k < 2; k++) {
                cr_scope_begin();
                cr_tensor *x = NULL, *y = NULL;
                OK(cr_loader_next(both[k]->loader, &x, &y));
                cr_tensor *loss = cr_gpt_loss(both[k]->m, x, y, true);
                if (k) OK(cr_optim_backward(b.opt, loss));
                else OK(cr_backward(loss, CR_NONE, NULL));
                if (!k) OK(cr_optim_step(a.opt));
                cr_params_zero_grad(cr_gpt_params(a.m));
                cr_scope_end();
            }
        }
    cr_params *p = cr_gpt_params(a.m), *q = cr_gpt_params(b.m);
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        const cr_tensor *s = cr_params_at(p, i), *t = cr_params_at(q, i);
        CHECK(!memcmp(cr_data(s), cr_data(t), (size_t)cr_numel(s) * sizeof(float)), "the bits of %s differ",
              cr_params_name(p, i));
        CHECK(cr_is_none(cr_grad(t)), "%s kept its gradient", cr_params_name(p, i));
    }
    CHECK(cr_optim_steps(b.opt) == 4, "%lld steps", (long long)cr_optim_steps(b.opt));
    run_close(&a); run_close(&b);
}

static void run_steps(run *r, int n, double *losses) {
    for (int i = 0; i < n; i++) {
        cr_scope_begin();
        cr_tensor *x = NULL, *y = NULL;
        OK(cr_loader_next(r->loader, &x, &y));
        cr_tensor *loss = cr_gpt_loss(r->m, x, y, true);
        OK(cr_backward(loss, CR_NONE, NULL));
        OK(cr_params_clip_grad_norm(cr_gpt_params(r->m), 1.0, NULL));
        OK(cr_optim_step(r->opt));
        cr_params_zero_grad(cr_gpt_params(r->m));
        losses[i] = cr_item(loss);
        cr_scope_end();
    }
}

static void same_weights(const run *a, const run *b, const char *what) {
    cr_params *p = cr_gpt_params(a->m), *q = cr_gpt_params(b->m);
    for (int64_t i = 0; i < cr_params_count(p); i++)
        CHECK(!memcmp(cr_data(cr_params_at(p, i)), cr_data(cr_params_at(q, i)),
                      (size_t)cr_numel(cr_params_at(p, i)) * sizeof(float)),
              "%s: the bits of %s differ", what, cr_params_name(p, i));
}

TEST(threads_give_the_same_bits) {
    enum { N = 20 };
    const int threads = cr_num_threads();
    run a, b;
    double x[N], y[N];
    OK(cr_set_num_threads(1));
    if (run_open(&a, 3)) run_steps(&a, N, x);
    OK(cr_set_num_threads(2));
    if (run_open(&b, 3)) run_steps(&b, N, y);
    OK(cr_set_num_threads(threads));
    CHECK(!memcmp(x, y, sizeof x), "losses: %.17g with one thread, %.17g with two after %d steps", x[N - 1], y[N - 1],
          N);
    CHECK(x[N - 1] < x[0], "nothing was learnt: %g, then %g", x[0], x[N - 1]);
    same_weights(&a, &b, "1 and 2 threads");
    test_ran_on(cr_cpu());
    run_close(&a); run_close(&b);
}

TEST(resume_is_bit_exact) {
    const char *dir = "build/test_gpt_checkpoint";
    run straight, first, second;
    double x[10], y[10], astray[3];
    if (run_open(&straight, 7)) run_steps(&straight, 10, x);
    if (run_open(&first, 7)) run_steps(&first, 5, y);
    cr_os_make_directory("build");
    OK(cr_training_save(dir, &(cr_training){.params = cr_gpt_params(first.m),
                                            .optim = first.opt,
                                            .generator = first.g,
                                            .loader = first.loader,
                                            .step = 5}));
    run_close(&first);
    if (!run_open(&second, 7)) return;
    run_steps(&second, 3, astray);                  /* elsewhere: everything must come from the checkpoint */
    cr_training t = {
        .params = cr_gpt_params(second.m), .optim = second.opt, .generator = second.g, .loader = second.loader};
    OK(cr_training_load(dir, &t));
    CHECK(t.step == 5, "step %lld", (long long)t.step);
    run_steps(&second, 5, y + 5);
    for (int i = 0; i < 10; i++)
        CHECK(x[i] == y[i], "step %d: %.17g straight, %.17g with a stop after 5", i, x[i], y[i]);
    same_weights(&straight, &second, "straight and resumed");
    run_close(&straight); run_close(&second);
}

/* The loss as a function of (one parameter, ...), so that the whole model is one checkpointed segment. */
typedef struct segment { const cr_gpt *m; const cr_tensor *x, *y; } segment;
static cr_tensor *segment_loss(int n, const cr_tensor *const *in, void *ctx) {
    const segment *s = ctx;
    (void)n; (void)in;
    return cr_gpt_loss(s->m, s->x, s->y, true);
}

TEST(activation_checkpointing_gives_equal_gradients) {
    dump d = {.config = small, .batch = 3};
    cr_gpt *m = cr_gpt_new(&small, CR_F32, cr_cpu(), NULL);
    REQUIRE(m, "%s", cr_error());
    cr_params *p = cr_gpt_params(m);
    set_initial(m);
    cr_scope_begin();
    segment s = {m, golden_tokens(&d, 0, 0, cr_cpu()), golden_tokens(&d, 0, 1, cr_cpu())};
    cr_tensor *plain = segment_loss(0, NULL, &s);
    OK(cr_backward(plain, CR_NONE, NULL));
    double *want[MAX_PARAMETERS];
    for (int64_t i = 0; i < cr_params_count(p); i++) want[i] = values(cr_grad(cr_params_at(p, i)));
    cr_params_zero_grad(p);
    const cr_tensor *in[MAX_PARAMETERS];
    for (int64_t i = 0; i < cr_params_count(p); i++) in[i] = cr_params_at(p, i);
    cr_tensor *loss = cr_checkpoint(segment_loss, &s, (int)cr_params_count(p), in);
    CHECK(cr_item(loss) == cr_item(plain), "loss %.9g, without %.9g", cr_item(loss), cr_item(plain));
    OK(cr_backward(loss, CR_NONE, NULL));
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        double *got = values(cr_grad(cr_params_at(p, i)));
        CHECK(!memcmp(got, want[i], (size_t)cr_numel(cr_params_at(p, i)) * sizeof *got), "the gradient of %s differs",
              cr_params_name(p, i));
        free(got); free(want[i]);
    }
    cr_scope_end();
    cr_gpt_free(m);
}

/* ---- sampling */

typedef struct collected { uint32_t id[64]; int n, stop_at; } collected;
static bool collect(uint32_t id, void *ctx) {
    collected *c = ctx;
    c->id[c->n++] = id;
    return c->n != c->stop_at;
}

/* Greedy, each token from the whole window anew, as the header promises: a full context goes on from its last half. */
static void recompute(const cr_gpt *m, const uint32_t *prompt, int n_prompt, int n_new, uint32_t *out) {
    const int64_t context = cr_gpt_configuration(m).context, V = cr_gpt_configuration(m).vocabulary;
    int64_t window[64], n = n_prompt < context ? n_prompt : context;
    for (int64_t i = 0; i < n; i++) window[i] = prompt[n_prompt - n + i];
    for (int k = 0; k < n_new; k++) {
        cr_scope_begin();
        cr_tensor *logits = cr_gpt_logits(m, cr_from(window, CR_LIST(1, n), CR_I64, cr_cpu()), false);
        cr_tensor *last = cr_reshape(cr_select(logits, 1, n - 1), CR_LIST(V));
        out[k] = (uint32_t)cr_item_int(cr_argmax(last, 0, false));
        cr_scope_end();
        if (n == context) { n = context / 2; memmove(window, window + (context - n), (size_t)n * sizeof *window); }
        window[n++] = out[k];
    }
}

static void check_cached(int64_t context) {
    cr_gpt_config config = small;
    config.context = context;
    cr_gpt *m = cr_gpt_new(&config, CR_F32, cr_cpu(), NULL);
    REQUIRE(m, "%s", cr_error());
    set_initial(m);
    const uint32_t prompt[20] = {1, 5, 9, 2, 36, 0, 7, 7, 3, 30, 21, 11, 4, 8, 15, 16, 23, 35, 29, 12};
    const int lengths[] = {1, 5, 15, 16, 20};
    for (int l = 0; l < 5; l++) {
        collected c = {0};
        uint32_t want[40];
        OK(cr_gpt_generate(m, prompt, lengths[l], 40, &(cr_sampling){.temperature = 0, .top_p = 1}, NULL, collect, &c));
        recompute(m, prompt, lengths[l], 40, want);
        CHECK(c.n == 40 && !memcmp(c.id, want, sizeof want), "context %lld, prompt of %d: the cache gives other tokens",
              (long long)context, lengths[l]);
    }
    test_ran_on(cr_cpu());
    cr_gpt_free(m);
}
TEST(cached_generation_equals_recomputation) {
    check_cached(16);
    check_cached(13);                               /* the half that stays is the smaller one */
}

TEST(sampling_is_decided_by_its_seed_and_limits) {
    cr_gpt *m = cr_gpt_new(&small, CR_F32, cr_cpu(), NULL);
    REQUIRE(m, "%s", cr_error());
    set_initial(m);
    const uint32_t prompt[] = {3};
    const cr_sampling everything = {.temperature = 1.5, .top_p = 1}, one = {.temperature = 1, .top_p = 1, .top_k = 1},
                      narrow = {.temperature = 1, .top_p = 1e-9};
    collected a = {0}, b = {0}, c = {0}, greedy = {0}, k1 = {0}, p0 = {0}, stopped = {.stop_at = 3};
    cr_generator *g = cr_generator_new(11);
    OK(cr_gpt_generate(m, prompt, 1, 30, &everything, g, collect, &a));
    cr_generator_set(g, 11, 0);
    OK(cr_gpt_generate(m, prompt, 1, 30, &everything, g, collect, &b));
    cr_generator_set(g, 12, 0);
    OK(cr_gpt_generate(m, prompt, 1, 30, &everything, g, collect, &c));
    CHECK(!memcmp(a.id, b.id, sizeof a.id), "one seed gave two texts");
    CHECK(memcmp(a.id, c.id, sizeof a.id), "two seeds gave one text");
    OK(cr_gpt_generate(m, prompt, 1, 30, &(cr_sampling){.top_p = 1}, g, collect, &greedy));
    OK(cr_gpt_generate(m, prompt, 1, 30, &one, g, collect, &k1));
    OK(cr_gpt_generate(m, prompt, 1, 30, &narrow, g, collect, &p0));
    CHECK(!memcmp(greedy.id, k1.id, sizeof k1.id), "top_k 1 is not greedy");
    CHECK(!memcmp(greedy.id, p0.id, sizeof p0.id), "a tiny top_p is not greedy");
    OK(cr_gpt_generate(m, prompt, 1, 30, &everything, g, collect, &stopped));
    CHECK(stopped.n == 3, "stopped after %d tokens", stopped.n);
    CHECK(cr_grad_enabled(), "generation left gradients off");
    cr_generator_free(g);
    cr_gpt_free(m);
}

/* Frequencies of 4,000 first tokens against softmax, restricted to the 3 likeliest. */
TEST(sampled_frequencies_follow_the_logits) {
    cr_gpt *m = cr_gpt_new(&small, CR_F32, cr_cpu(), NULL);
    REQUIRE(m, "%s", cr_error());
    set_initial(m);
    int64_t token = 3;
    cr_scope_begin();
    double *l = values(cr_gpt_logits(m, cr_from(&token, CR_LIST(1, 1), CR_I64, cr_cpu()), false)), p[37], sum = 0;
    cr_scope_end();
    int top[3];
    for (int k = 0; k < 3; k++) {
        top[k] = -1;
        for (int i = 0; i < 37; i++)
            if ((k < 1 || i != top[0]) && (k < 2 || i != top[1]) && (top[k] < 0 || l[i] > l[top[k]])) top[k] = i;
        sum += p[k] = exp((l[top[k]] - l[top[0]]) / 0.8);
    }
    int count[37] = {0};
    const int draws = test_full() ? 20000 : 2000;
    cr_generator *g = cr_generator_new(5);
    for (int i = 0; i < draws; i++) {
        collected c = {0};
        OK(cr_gpt_generate(m, (uint32_t[]){3}, 1, 1, &(cr_sampling){.temperature = 0.8, .top_p = 1, .top_k = 3}, g,
                           collect, &c));
        count[c.id[0]]++;
    }
    for (int k = 0; k < 3; k++) {
        const double want = draws * p[k] / sum, sigma = sqrt(want * (1 - p[k] / sum));
        CHECK(fabs(count[top[k]] - want) < 4.5 * sigma, "token %d: drawn %d times, expected %.0f +- %.0f", top[k],
              count[top[k]], want, sigma);
    }
    CHECK(count[top[0]] + count[top[1]] + count[top[2]] == draws, "top_k let another token through");
    cr_generator_free(g);
    free(l);
    cr_gpt_free(m);
}

/* Equal logits: the smallest ids are the likeliest, and of four two hold half of the mass. */
TEST(top_p_at_its_edge) {
    cr_tensor *logits = cr_zeros(CR_LIST(4), CR_F32, cr_cpu());
    cr_generator *g = cr_generator_new(3);
    bool drawn[4] = {false};
    for (int i = 0; i < 200; i++) {
        uint32_t id = 0;
        OK(cr_sample(logits, &(cr_sampling){.temperature = 1, .top_p = 0.5}, g, &id));
        drawn[id & 3] = true;
    }
    CHECK(drawn[0] && drawn[1] && !drawn[2] && !drawn[3], "half of the mass: %d %d %d %d",
          drawn[0], drawn[1], drawn[2], drawn[3]);
    cr_generator_free(g);
    cr_release(logits);
}

/* ---- files and bad input */

TEST(save_and_load) {
    const char *path = "build/test_gpt.safetensors";
    cr_os_make_directory("build");
    cr_gpt_config c = small;
    c.dropout = 0.25;
    cr_gpt *m = cr_gpt_new(&c, CR_F32, cr_cpu(), NULL);
    REQUIRE(m, "%s", cr_error());
    set_initial(m);
    OK(cr_gpt_save(m, path));
    const cr_device *devices[] = {cr_cpu(), cr_ref()};
    for (int i = 0; i < 2; i++) {
        cr_gpt *n = cr_gpt_load(path, devices[i]);
        REQUIRE(n, "%s", cr_error());
        cr_gpt_config got = cr_gpt_configuration(n);
        CHECK(got.vocabulary == 37 && got.context == 16 && got.layers == 2 && got.heads == 2 && got.width == 32 &&
                  got.dropout == 0.25,
              "the configuration changed");
        CHECK(cr_requires_grad(cr_params_get(cr_gpt_params(n), "wte.weight")), "a loaded model cannot be trained");
        for (int64_t k = 0; k < cr_params_count(cr_gpt_params(m)); k++) {
            double *a = values(cr_params_at(cr_gpt_params(m), k)), *b = values(cr_params_at(cr_gpt_params(n), k));
            CHECK(!memcmp(a, b, (size_t)cr_numel(cr_params_at(cr_gpt_params(m), k)) * sizeof *a), "%s changed",
                  cr_params_name(cr_gpt_params(m), k));
            free(a); free(b);
        }
        cr_gpt_free(n);
        test_ran_on(devices[i]);
    }
    cr_gpt_free(m);
    FAILS(CR_IO, "no_such", cr_gpt_load("build/no_such.safetensors", cr_cpu()));
    FAILS(CR_BAD_VALUE, "device", cr_gpt_load(path, NULL));
    FAILS(CR_BAD_VALUE, "path", cr_gpt_load(NULL, cr_cpu()));
}

TEST(load_refuses_files_that_lie) {
    const char *path = "build/test_gpt_bad.safetensors";
    cr_os_make_directory("build");
    const struct { const char *metadata, *message;
    } cases[] = {
        {"{}", "vocabulary"},
        {"{\"vocabulary\":\"37\",\"context\":\"16\",\"layers\":\"2\",\"heads\":\"2\",\"width\":\"33\",\"dropout\":"
         "\"0\"}",
         "heads"},
        {"{\"vocabulary\":\"37\",\"context\":\"16\",\"layers\":\"x\",\"heads\":\"2\",\"width\":\"32\",\"dropout\":"
         "\"0\"}",
         "layers"},
        {"{\"vocabulary\":\"37.5\",\"context\":\"16\",\"layers\":\"2\",\"heads\":\"2\",\"width\":\"32\",\"dropout\":"
         "\"0\"}",
         "whole"},
        {"{\"vocabulary\":\"2000000000\",\"context\":\"2000000000\",\"layers\":\"2000000000\",\"heads\":\"1\","
         "\"width\":\"2000000000\",\"dropout\":\"0\"}",
         "address"},
        {"{\"vocabulary\":\"37\",\"context\":\"16\",\"layers\":\"2\",\"heads\":\"2\",\"width\":\"32\",\"dropout\":"
         "\"0\"}",
         "28 tensors"},
        {"{\"vocabulary\":\"37\",\"context\":\"16\",\"layers\":\"2\",\"heads\":\"2\",\"width\":\"32\",\"dropout\":"
         "\"nan\"}",
         "dropout"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_params *p = cr_params_new();
        cr_scope_begin();
        OK(cr_params_add(p, "wte.weight", cr_ones(CR_LIST(37, 32), CR_F32, cr_cpu())));
        cr_scope_end();
        OK(cr_save(path, p, cases[i].metadata));
        cr_params_free(p);
        FAILS(CR_BAD_VALUE, cases[i].message, cr_gpt_load(path, cr_cpu()));
    }
}

TEST(impossible_configurations) {
    const struct { cr_gpt_config c; const char *message;
    } cases[] = {{{0, 16, 2, 2, 32, 0}, "vocabulary"},
                 {{37, 0, 2, 2, 32, 0}, "context"},
                 {{37, 16, -1, 2, 32, 0}, "layers"},
                 {{37, 16, 2, 0, 32, 0}, "heads"},
                 {{37, 16, 2, 2, 0, 0}, "width"},
                 {{37, 16, 2, 3, 32, 0}, "multiple of heads: 32 is not one of 3"},
                 {{37, 16, 2, 2, 32, 1}, "dropout"},
                 {{37, 16, 2, 2, 32, -0.1}, "dropout"},
                 {{37, 16, 2, 2, 32, NAN}, "dropout"},
                 {{INT64_MAX, 16, 2, 2, 32, 0}, "vocabulary"},
                 {{37, 16, 2000000000, 2, 2000000000, 0}, "address"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FAILS(CR_BAD_VALUE, cases[i].message, cr_gpt_new(&cases[i].c, CR_F32, cr_cpu(), NULL));
    FAILS(CR_BAD_TYPE, "int64", cr_gpt_new(&small, CR_I64, cr_cpu(), NULL));
    FAILS(CR_BAD_VALUE, "config", cr_gpt_new(NULL, CR_F32, cr_cpu(), NULL));
    FAILS(CR_BAD_VALUE, "device", cr_gpt_new(&small, CR_F32, NULL, NULL));
}

TEST(bad_calls) {
    cr_gpt *m = cr_gpt_new(&small, CR_F32, cr_cpu(), NULL);
    REQUIRE(m, "%s", cr_error());
    cr_scope_begin();
    cr_tensor *x = cr_zeros(CR_LIST(2, 4), CR_I64, cr_cpu()), *long_x = cr_zeros(CR_LIST(2, 17), CR_I64, cr_cpu());
    FAILS(CR_BAD_VALUE, "17 steps of time", cr_gpt_logits(m, long_x, false));
    FAILS(CR_BAD_VALUE, "0 steps of time", cr_gpt_logits(m, cr_zeros(CR_LIST(2, 0), CR_I64, cr_cpu()), false));
    FAILS(CR_BAD_VALUE, "(batch, time)", cr_gpt_logits(m, cr_zeros(CR_LIST(4), CR_I64, cr_cpu()), false));
    FAILS(CR_BAD_VALUE, "model", cr_gpt_logits(NULL, x, false));
    FAILS(CR_BAD_VALUE, "tokens", cr_gpt_logits(m, NULL, false));
    FAILS(CR_BAD_VALUE, "CR_NONE", cr_gpt_logits(m, CR_NONE, false));
    FAILS(CR_BAD_VALUE, "targets", cr_gpt_loss(m, x, NULL, false));
    FAILS(CR_BAD_TYPE, "embedding", cr_gpt_logits(m, cr_zeros(CR_LIST(2, 4), CR_F32, cr_cpu()), false));
    FAILS(CR_BAD_INDEX, "37", cr_gpt_logits(m, cr_full(CR_LIST(2, 4), 37, CR_I64, cr_cpu()), false));
    FAILS(CR_BAD_VALUE, "cross_entropy", cr_gpt_loss(m, x, cr_zeros(CR_LIST(2, 5), CR_I64, cr_cpu()), false));
    cr_scope_end();
    collected c = {0};
    const uint32_t prompt[] = {36, 37};
    const cr_sampling ok = {.temperature = 1, .top_p = 1};
    FAILS(CR_BAD_INDEX, "prompt token 1 is 37: the vocabulary has 37",
          cr_gpt_generate(m, prompt, 2, 4, &ok, NULL, collect, &c));
    FAILS(CR_BAD_VALUE, "at least one", cr_gpt_generate(m, prompt, 0, 4, &ok, NULL, collect, &c));
    FAILS(CR_BAD_VALUE, "-1 tokens", cr_gpt_generate(m, prompt, 1, -1, &ok, NULL, collect, &c));
    FAILS(CR_BAD_VALUE, "temperature",
          cr_gpt_generate(m, prompt, 1, 4, &(cr_sampling){.temperature = -1, .top_p = 1}, NULL, collect, &c));
    FAILS(CR_BAD_VALUE, "temperature",
          cr_gpt_generate(m, prompt, 1, 4, &(cr_sampling){.temperature = NAN, .top_p = 1}, NULL, collect, &c));
    FAILS(CR_BAD_VALUE, "top_p",
          cr_gpt_generate(m, prompt, 1, 4, &(cr_sampling){.temperature = 1, .top_p = 0}, NULL, collect, &c));
    FAILS(
        CR_BAD_VALUE, "top_k",
        cr_gpt_generate(m, prompt, 1, 4, &(cr_sampling){.temperature = 1, .top_p = 1, .top_k = -2}, NULL, collect, &c));
    FAILS(CR_BAD_VALUE, "prompt", cr_gpt_generate(m, NULL, 1, 4, &ok, NULL, collect, &c));
    FAILS(CR_BAD_VALUE, "on_token", cr_gpt_generate(m, prompt, 1, 4, &ok, NULL, NULL, &c));
    FAILS(CR_BAD_VALUE, "model", cr_gpt_generate(NULL, prompt, 1, 4, &ok, NULL, collect, &c));
    CHECK(c.n == 0, "a refused call made %d tokens", c.n);
    uint32_t id;
    cr_tensor *none = cr_zeros(CR_LIST(0), CR_F32, cr_cpu());
    FAILS(CR_BAD_VALUE, "among 0 logits", cr_sample(none, &ok, NULL, &id));
    FAILS(CR_BAD_VALUE, "logits", cr_sample(NULL, &ok, NULL, &id));
    FAILS(CR_BAD_VALUE, "id", cr_sample(none, &ok, NULL, NULL));
    FAILS(CR_BAD_VALUE, "top_k", cr_sample(none, &(cr_sampling){.top_p = 1, .top_k = -1}, NULL, &id));
    cr_release(none);
    cr_tensor *wte = cr_params_get(cr_gpt_params(m), "wte.weight");
    const bool grad = cr_set_grad_enabled(false);
    cr_fill_(wte, NAN);
    cr_set_grad_enabled(grad);
    FAILS(CR_BAD_VALUE, "diverged", cr_gpt_generate(m, prompt, 1, 4, &ok, NULL, collect, &c));
    cr_gpt_free(m);
}

TEST(nothing_is_leaked) {
    const int64_t before = cr_memory_stats(cr_cpu()).current;
    run r;
    double losses[3];
    if (run_open(&r, 5)) run_steps(&r, 3, losses);
    collected c = {0};
    OK(cr_gpt_generate(r.m, (uint32_t[]){1}, 1, 20, NULL, r.g, collect, &c));
    cr_scope_begin();
    FAILS(CR_BAD_INDEX, "", cr_gpt_logits(r.m, cr_full(CR_LIST(2, 4), 99, CR_I64, cr_cpu()), true));
    cr_scope_end();
    run_close(&r);
    CHECK(cr_memory_stats(cr_cpu()).current == before, "%lld bytes are still held",
          (long long)(cr_memory_stats(cr_cpu()).current - before));
}
