/* test_optim.c - optimizers and schedules: PyTorch's numbers over 100 steps, groups, tied and idle
 * parameters, state. */
#include "test.h"
#include "dev/cpu/onednn.h"

#include "golden/optim.h"

static cr_params *params_of(int n, const char *const *names, cr_tensor *const *tensors) {
    cr_params *p = cr_params_new();
    for (int i = 0; i < n; i++) OK(cr_params_add(p, names[i], tensors[i]));
    return p;
}

/* ---- the golden problem (golden/optim.py): a (5, 3), b (7), f64 or less */
typedef struct problem { cr_tensor *p[2]; cr_params *params; } problem;
static const int64_t sizes[2] = {15, 7};

static problem problem_new(cr_dtype dt, const cr_device *dev) {
    problem q;
    double start[22];
    for (int i = 0; i < 22; i++) start[i] = cos(i);
    q.p[0] = cr_zeros(CR_LIST(5, 3), dt, dev);
    q.p[1] = cr_zeros(CR_LIST(7), dt, dev);
    for (int k = 0; k < 2; k++) {
        OK(cr_write(q.p[k], CR_F64, start + (k ? 15 : 0), (size_t)sizes[k] * sizeof(double)));
        cr_requires_grad_(q.p[k], true);
    }
    q.params = params_of(2, (const char *const[]){"a", "b"}, q.p);
    return q;
}

static void problem_free(problem *q) {
    cr_params_free(q->params);
    for (int k = 0; k < 2; k++) cr_release(q->p[k]);
}

static void set_gradient(cr_tensor *t, const double *g) {
    cr_tensor *wide = cr_from(g, cr_ndim(t), cr_shape(t), CR_F64, cr_device_of(t));
    cr_tensor *grad = cr_to(wide, cr_dtype_of(t), cr_device_of(t));
    OK(cr_set_grad(t, grad));
    cr_release(grad);
    cr_release(wide);
}

static void problem_gradients(problem *q, int step) {
    for (int k = 0, n = 0; k < 2; n += (int)sizes[k++]) {
        double g[15];
        OK(cr_read(q->p[k], CR_F64, g, (size_t)sizes[k] * sizeof *g));
        for (int i = 0; i < sizes[k]; i++) g[i] = (0.5 + 0.1 * ((n + i) % 5)) * g[i] + sin(0.7 * (n + i) + 0.3 * step);
        set_gradient(q->p[k], g);
    }
}

static double problem_error(problem *q, const double *want, int *at) {
    double got[22], worst = 0;
    OK(cr_read(q->p[0], CR_F64, got, 15 * sizeof *got));
    OK(cr_read(q->p[1], CR_F64, got + 15, 7 * sizeof *got));
    for (int i = 0; i < 22; i++) {
        const double e = fabs(got[i] - want[i]) / (1e-3 + fabs(want[i]));
        if (!(e <= worst)) { worst = e; *at = i; }
    }
    return worst;
}

static void run_golden(const cr_device *dev, cr_dtype dt, double tolerance) {
    for (size_t c = 0; c < sizeof golden_optim / sizeof *golden_optim; c++) {
        problem q = problem_new(dt, dev);
        cr_optim *opt = cr_optim_new(q.params, &golden_optim[c].o);
        REQUIRE(opt, "%s: %s", golden_optim[c].name, cr_error());
        for (int step = 1, seen = 0; step <= 100; step++) {
            problem_gradients(&q, step);
            OK(cr_optim_step(opt));
            if (step != golden_steps[seen]) continue;
            int at = 0;
            const double e = problem_error(&q, golden_optim[c].p[seen++], &at);
            CHECK(e <= tolerance, "%s on %s in %s, step %d, element %d: relative error %.3g > %g", golden_optim[c].name,
                  cr_device_name(dev), cr_dtype_name(dt), step, at, e, tolerance);
            test_ran_on(dev);
        }
        CHECK(cr_optim_steps(opt) == 100, "%lld steps", (long long)cr_optim_steps(opt));
        cr_optim_free(opt);
        problem_free(&q);
    }
}

TEST(optim_golden_f64) {
    for (int d = 0; cr_device_at(d); d++) run_golden(cr_device_at(d), CR_F64, 1e-9);
}

TEST(optim_golden_f32) {
    /* a sign of lion may turn on the last bit */
    for (int d = 0; cr_device_at(d); d++) run_golden(cr_device_at(d), CR_F32, 2e-3);
}

TEST(optim_half_keeps_f32_moments) {
    const cr_dtype halves[] = {CR_F16, CR_BF16};
    for (int h = 0; h < 2; h++) {
        problem q = problem_new(halves[h], cr_cpu());
        cr_optim_options o = cr_optim_defaults(CR_ADAMW);
        cr_optim *opt = cr_optim_new(q.params, &o);
        problem_gradients(&q, 1);
        OK(cr_optim_step(opt));
        cr_params *state = cr_optim_state(opt);
        CHECK(cr_params_count(state) == 4, "%lld moments", (long long)cr_params_count(state));
        for (int64_t i = 0; i < cr_params_count(state); i++)
            CHECK(cr_dtype_of(cr_params_at(state, i)) == CR_F32, "%s is %s", cr_params_name(state, i),
                  cr_dtype_name(cr_dtype_of(cr_params_at(state, i))));
        CHECK(cr_dtype_of(q.p[0]) == halves[h], "the parameter became %s", cr_dtype_name(cr_dtype_of(q.p[0])));
        cr_params_free(state);
        cr_optim_free(opt);
        problem_free(&q);
    }
}

/* Every rule. */
enum { RULES = 8 };
static cr_optim_options rule(int r) {
    const struct { cr_optim_kind kind; double momentum; bool nesterov;
    } rules[RULES] = {{CR_SGD, 0, false},   {CR_SGD, 0.9, false}, {CR_SGD, 0.9, true}, {CR_ADAM, 0, false},
                      {CR_ADAMW, 0, false}, {CR_LION, 0, false},  {CR_MUON, 0.9, true}, {CR_ADAMAX, 0, false}};
    return (cr_optim_options){.kind = rules[r].kind, .momentum = rules[r].momentum, .nesterov = rules[r].nesterov,
                              .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};
}

/* Elements of the bf16 mirror that are not p to half a unit (and a hair: ref rounds its doubles twice). */
static double not_rounded(const cr_tensor *mirror, const cr_tensor *p) {
    cr_set_grad_enabled(false);
    cr_tensor *off = cr_abs(cr_sub(cr_to(mirror, CR_F32, cr_device_of(p)), p));
    double n = cr_item(cr_sum(cr_gt(off, cr_mul_scalar(cr_abs(p), 1.001 * 0x1p-8)), CR_ALL, false));
    cr_set_grad_enabled(true);
    return n;
}

/* A mirror holds what its parameter rounds to, after every step of every rule, and changes nothing
 * else.  1031: whole chunks and a rest. */
static void check_mirror(int r, const cr_device *dev) {
    cr_scope_begin();
    cr_generator *gen = cr_generator_new(test_seed());
    const cr_optim_options o = rule(r);
    cr_tensor *start = cr_randn(CR_LIST(17, 1031), CR_F32, dev, gen), *p[2],
              *mirror = cr_empty(CR_LIST(17, 1031), CR_BF16, dev);
    cr_optim *opt[2];
    for (int k = 0; k < 2; k++) {
        p[k] = cr_requires_grad_(cr_clone(start), true);
        cr_params *set = params_of(1, (const char *const[]){"p"}, &p[k]);
        opt[k] = cr_optim_new(set, &o);
        cr_params_free(set);
    }
    OK(cr_optim_mirror(opt[0], p[0], mirror));
    cr_tensor *g = cr_randn(CR_LIST(17, 1031), CR_F32, dev, gen);
    for (int step = 0; step < 3; step++) {
        for (int k = 0; k < 2; k++) {
            if (step) { OK(cr_set_grad(p[k], g)); OK(cr_optim_step(opt[k])); }
        }
        CHECK(not_rounded(mirror, p[0]) == 0, "kind %d on %s, step %d: not the parameter rounded",
              (int)o.kind, cr_device_name(dev), step);
        CHECK(cr_item(cr_sum(cr_ne(p[0], p[1]), CR_ALL, false)) == 0,
              "kind %d on %s, step %d: a mirror changes the parameter", (int)o.kind, cr_device_name(dev), step);
    }
    OK(cr_optim_mirror(opt[0], p[0], (cr_tensor *)CR_NONE));
    OK(cr_optim_step(opt[0]));
    CHECK(not_rounded(mirror, p[1]) == 0 && not_rounded(mirror, p[0]) > 0,
          "kind %d on %s: written after its end", (int)o.kind, cr_device_name(dev));
    FAILS(CR_BAD_VALUE, "no such parameter", cr_optim_mirror(opt[0], p[1], mirror));
    FAILS(CR_BAD_VALUE, "another shape", cr_optim_mirror(opt[0], p[0], cr_empty(CR_LIST(17), CR_BF16, dev)));
    FAILS(CR_BAD_TYPE, "a float dtype",
          cr_optim_mirror(opt[0], p[0], cr_empty(CR_LIST(17, 1031), CR_I32, dev)));
    OK(cr_optim_mirror(opt[0], p[0], mirror));
    for (int k = 0; k < 2; k++) cr_optim_free(opt[k]);
    cr_generator_free(gen);
    cr_scope_end();
    test_ran_on(dev);
}

TEST(optim_mirror) {
    for (int d = 0; cr_device_at(d); d++)
        for (int r = 0; r < RULES; r++) {
            int64_t stay = 1;                       /* each run leaks, or none: a thread keeps its first buffer */
            for (int k = 0; k < 3 && stay; k++) {
                const int64_t before = cr_memory_stats(cr_device_at(d)).current;
                check_mirror(r, cr_device_at(d));
                stay = cr_memory_stats(cr_device_at(d)).current - before;
            }
            CHECK(!stay, "kind %d on %s: %lld bytes stay", (int)rule(r).kind, cr_device_name(cr_device_at(d)),
                  (long long)stay);
        }
}

/* A half-precision parameter and its f32 twin, which gets the same gradients. */
typedef struct pair { cr_tensor *p[2]; cr_params *set[2]; cr_optim *opt[2]; } pair;

static pair pair_new(cr_optim_options o, cr_dtype half, const cr_tensor *start) {
    pair q;
    o.master_weights = true;
    for (int k = 0; k < 2; k++) {
        q.p[k] = cr_requires_grad_(cr_clone(cr_to(start, k ? CR_F32 : half, cr_device_of(start))), true);
        q.set[k] = params_of(1, (const char *const[]){"p"}, &q.p[k]);
        q.opt[k] = cr_optim_new(q.set[k], &o);
    }
    return q;
}

static void pair_free(pair *q) {
    for (int k = 0; k < 2; k++) cr_optim_free(q->opt[k]), cr_params_free(q->set[k]);
}

/* The master has the bits of the twin, and the parameter those of its rounded value. */
static void check_pair(const pair *q, int rule, int step) {
    const cr_device *dev = cr_device_of(q->p[0]);
    cr_params *state[2] = {cr_optim_state(q->opt[0]), cr_optim_state(q->opt[1])};
    const cr_tensor *w = cr_params_get(state[0], "p.w");
    CHECK(w && cr_dtype_of(w) == CR_F32 && cr_params_count(state[0]) == cr_params_count(state[1]) + 1,
          "rule %d on %s: no master among %d entries", rule, cr_device_name(dev), (int)cr_params_count(state[0]));
    const bool recording = cr_set_grad_enabled(false);
    CHECK(w && cr_item(cr_sum(cr_ne(w, q->p[1]), CR_ALL, false)) == 0, "rule %d on %s, step %d: not the steps of f32",
          rule, cr_device_name(dev), step);
    const cr_tensor *rounded = cr_to(q->p[1], cr_dtype_of(q->p[0]), dev);
    /* ref rounds its doubles twice */
    if (strcmp(cr_device_name(dev), "ref"))
        CHECK(cr_item(cr_sum(cr_ne(rounded, q->p[0]), CR_ALL, false)) == 0, "rule %d on %s, step %d: not rounded", rule,
              cr_device_name(dev), step);
    cr_set_grad_enabled(recording);
    for (int k = 0; k < 2; k++) cr_params_free(state[k]);
}

TEST(optim_master_weights) {
    for (int d = 0; cr_device_at(d); d++)
        for (int r = 0; r < 2 * RULES; r++) {
            const cr_device *dev = cr_device_at(d);
            const cr_dtype half = r % 2 ? CR_F16 : CR_BF16;
            cr_scope_begin();
            cr_generator *gen = cr_generator_new(test_seed());
            const cr_tensor *start = cr_to(cr_randn(CR_LIST(17, 103), CR_F32, dev, gen), half, dev);
            pair q = pair_new(rule(r / 2), half, start), other = pair_new(rule(r / 2), half, start);
            for (int step = 1; step <= 4; step++) {
                cr_tensor *g = cr_to(cr_randn(CR_LIST(17, 103), CR_F32, dev, gen), half, dev);
                pair *at = step < 4 ? &q : &other;  /* the last one by another optimizer, which loads the state */
                for (int k = 0; k < 2; k++) {
                    cr_params *state = step == 4 ? cr_optim_state(q.opt[k]) : NULL;
                    if (state) OK(cr_optim_load(other.opt[k], state, 3));
                    if (state) OK(cr_params_copy(other.set[k], q.set[k]));
                    cr_params_free(state);
                    OK(cr_set_grad(at->p[k], k ? cr_to(g, CR_F32, dev) : g));
                    OK(cr_optim_step(at->opt[k]));
                }
                check_pair(at, r / 2, step);
            }
            FAILS(CR_BAD_VALUE, "'p' is itself the copy of a master",
                  cr_optim_mirror(q.opt[0], q.p[0], cr_empty_like(q.p[0])));
            pair_free(&q);
            pair_free(&other);
            cr_generator_free(gen);
            cr_scope_end();
            test_ran_on(dev);
        }
}

/* Steps too small for bf16 add up in the master.  A state without masters, as of f32 weights, makes the next step take
 * them from the parameters. */
TEST(optim_masters_are_made_anew) {
    const double unit = 0x1p-12, master[] = {1 - unit, 1 - 2.5 * unit, 1 - 1.75 * unit};  /* momentum 1, 1.5, 1.75 */
    cr_scope_begin();
    const cr_tensor *start = cr_full(CR_LIST(4), 1, CR_BF16, cr_cpu());
    pair q = pair_new((cr_optim_options){.kind = CR_SGD, .lr = unit, .momentum = 0.5}, CR_BF16, start);
    for (int step = 0; step < 3; step++) {
        for (int k = 0; k < 2; k++) {
            OK(cr_set_grad(q.p[k], cr_ones_like(q.p[k])));
            OK(cr_optim_step(q.opt[k]));
        }
        cr_params *state = cr_optim_state(q.opt[0]), *plain = cr_optim_state(q.opt[1]);
        const double w = cr_item(cr_max(cr_params_get(state, "p.w"), CR_ALL, false));
        CHECK(w == master[step], "step %d: %.9g, not %.9g", step, w, master[step]);
        if (step == 1) OK(cr_optim_load(q.opt[0], plain, 2));
        cr_params_free(state);
        cr_params_free(plain);
    }
    pair_free(&q);
    cr_scope_end();
}

/* The same steps as clipping first, but for rounding; the gradients stay as they are. */
TEST(optim_step_clipped) {
    static const struct { cr_optim_kind kind; double momentum; bool nesterov;
    } cases[] = {{CR_SGD, 0, false},   {CR_SGD, 0.9, false}, {CR_SGD, 0.9, true},   {CR_ADAM, 0, false},
                 {CR_ADAMW, 0, false}, {CR_LION, 0, false},  {CR_MUON, 0.95, true}, {CR_MUON, 0.95, false}};
    for (int d = 0; cr_device_at(d); d++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            cr_optim_options o = cr_optim_defaults(cases[c].kind);
            o.lr = 0.01, o.weight_decay = 0.1, o.momentum = cases[c].momentum, o.nesterov = cases[c].nesterov;
            problem one = problem_new(CR_F64, cr_device_at(d)), two = problem_new(CR_F64, cr_device_at(d));
            cr_optim *clipped = cr_optim_new(one.params, &o), *both = cr_optim_new(two.params, &o);
            for (int step = 0; step < 6; step++) {
                const double max_norm = step == 3 ? INFINITY : 0.3 + 0.1 * step;
                double norm = 0, want = 0, before[7], after[7], wanted[22];
                problem_gradients(&one, step);
                problem_gradients(&two, step);
                OK(cr_read(cr_grad(one.p[1]), CR_F64, before, sizeof before));
                OK(cr_optim_step_clipped(clipped, max_norm, &norm));
                OK(cr_read(cr_grad(one.p[1]), CR_F64, after, sizeof after));
                OK(cr_params_clip_grad_norm(two.params, max_norm, &want));
                OK(cr_optim_step(both));
                CHECK(fabs(norm - want) <= 1e-9 * want && norm > 0.8, "case %zu, step %d: norm %.17g, wanted %.17g", c,
                      step, norm, want);
                CHECK(!memcmp(before, after, sizeof before), "case %zu, step %d: the gradient changed", c, step);
                OK(cr_read(two.p[0], CR_F64, wanted, 15 * sizeof *wanted));
                OK(cr_read(two.p[1], CR_F64, wanted + 15, 7 * sizeof *wanted));
                int at = 0;
                const double error = problem_error(&one, wanted, &at);
                CHECK(error < 1e-9, "case %zu on %s, step %d, element %d: off by %g", c,
                      cr_device_name(cr_device_at(d)), step, at, error);
            }
            cr_optim_free(clipped);
            cr_optim_free(both);
            problem_free(&one);
            problem_free(&two);
            test_ran_on(cr_device_at(d));
        }
    FAILS(CR_BAD_VALUE, "NULL", cr_optim_step_clipped(NULL, 1, NULL));
    problem q = problem_new(CR_F32, cr_cpu());
    const cr_optim_options o = cr_optim_defaults(CR_SGD);
    cr_optim *opt = cr_optim_new(q.params, &o);
    FAILS(CR_BAD_VALUE, "at least 0, not -1", cr_optim_step_clipped(opt, -1, NULL));
    cr_optim_free(opt);
    problem_free(&q);
}

TEST(optim_groups_tied_idle) {
    cr_tensor *w = cr_ones(CR_LIST(2, 3), CR_F64, cr_cpu()), *b = cr_ones(CR_LIST(3), CR_F64, cr_cpu()),
              *idle = cr_ones(CR_LIST(4), CR_F64, cr_cpu()), *m = cr_ones(CR_LIST(1, 2), CR_F64, cr_cpu());
    /* w is tied */
    cr_params *first = params_of(3, (const char *const[]){"w", "head", "idle"}, (cr_tensor *[]){w, w, idle});
    cr_params *second = params_of(2, (const char *const[]){"b", "m"}, (cr_tensor *[]){b, m});
    cr_optim_options o = cr_optim_defaults(CR_SGD), slow = o;
    o.lr = 0.5;
    slow.lr = 0.25;
    slow.weight_decay = 1;
    slow.decay_min_ndim = 2;                        /* m is decayed, b is not */
    cr_optim *opt = cr_optim_new(first, &o);
    OK(cr_optim_add(opt, second, &slow));
    set_gradient(w, (const double[]){1, 1, 1, 1, 1, 1});
    set_gradient(b, (const double[]){2, 2, 2});
    set_gradient(m, (const double[]){2, 2});
    cr_set_grad_enabled(false);
    OK(cr_optim_step(opt));
    CHECK(!cr_set_grad_enabled(true), "a step turns recording on");
    double got[6];
    OK(cr_read(w, CR_F64, got, sizeof got));
    CHECK(got[5] == 0.5, "tied: %g after one step, wanted 0.5", got[5]);
    OK(cr_read(b, CR_F64, got, 3 * sizeof *got));
    CHECK(got[2] == 0.5, "second group: %g, wanted 0.5", got[2]);
    OK(cr_read(m, CR_F64, got, 2 * sizeof *got));
    CHECK(got[1] == 0.25, "with decay: %g, wanted 0.25", got[1]);
    OK(cr_read(idle, CR_F64, got, 4 * sizeof *got));
    CHECK(got[3] == 1, "without gradient: %g, wanted 1", got[3]);
    CHECK(cr_optim_lr(opt) == 0.5, "lr %g", cr_optim_lr(opt));
    OK(cr_optim_set_lr(opt, 0));
    OK(cr_optim_step(opt));
    OK(cr_read(b, CR_F64, got, 3 * sizeof *got));
    CHECK(got[2] == 0.5, "with lr 0 every group stands still: %g", got[2]);
    OK(cr_optim_set_group_lr(opt, 1, 0.125));
    FAILS(CR_BAD_INDEX, "group 2 is not in [0, 2)", cr_optim_set_group_lr(opt, 2, 1));
    FAILS(CR_BAD_VALUE, "lr must be finite", cr_optim_set_group_lr(opt, 0, NAN));
    cr_requires_grad_(m, false);                    /* frozen */
    OK(cr_set_grad(m, CR_NONE));
    OK(cr_optim_step(opt));
    OK(cr_read(w, CR_F64, got, sizeof got));
    CHECK(got[5] == 0.5 && cr_optim_lr(opt) == 0, "only group 1 has a rate: w is %g, lr %g", got[5], cr_optim_lr(opt));
    OK(cr_read(b, CR_F64, got, 3 * sizeof *got));
    CHECK(got[2] == 0.25, "the rate of group 1: %g, wanted 0.25", got[2]);
    OK(cr_read(m, CR_F64, got, 2 * sizeof *got));
    CHECK(got[1] == 0.25, "a frozen parameter: %g, wanted 0.25", got[1]);
    FAILS(CR_BAD_VALUE, "in another group already, as 'w'", cr_optim_add(opt, first, &o));
    cr_tensor *fresh = cr_ones(CR_LIST(2), CR_F64, cr_cpu()), *alone = cr_ones(CR_LIST(2), CR_F64, cr_cpu());
    cr_params *alias = params_of(1, (const char *const[]){"w"}, &fresh),
              *other = params_of(1, (const char *const[]){"v"}, &idle);
    FAILS(CR_BAD_VALUE, "another group has a parameter named 'w'", cr_optim_add(opt, alias, &o));
    FAILS(CR_BAD_VALUE, "'v' is in another group already, as 'idle'", cr_optim_add(opt, other, &o));
    cr_params *half = params_of(3, (const char *const[]){"u", "x", "b"}, (cr_tensor *[]){fresh, alone, b});
    FAILS(CR_BAD_VALUE, "'b' is in another group already", cr_optim_add(opt, half, &o));
    cr_params *again = params_of(2, (const char *const[]){"u", "x"}, (cr_tensor *[]){fresh, alone});
    OK(cr_optim_add(opt, again, &o));               /* of the group that failed nothing stayed */
    cr_params_free(alias); cr_params_free(other); cr_params_free(half); cr_params_free(again);
    cr_release(fresh); cr_release(alone);
    cr_optim_free(opt);
    cr_params_free(first);
    cr_params_free(second);
    cr_release(w); cr_release(b); cr_release(idle); cr_release(m);
}

/* A parameter that gets its first gradient late corrects by its own steps, as in torch; and the state
 * carries that along. */
TEST(optim_state_resumes) {
    const int64_t before = cr_memory_stats(cr_cpu()).current;
    for (int kind = CR_SGD; kind <= CR_ADAMAX; kind++) {
        problem q = problem_new(CR_F32, cr_cpu()), r = problem_new(CR_F32, cr_cpu());
        cr_optim_options o = cr_optim_defaults((cr_optim_kind)kind);
        o.lr = 0.01;
        if (kind == CR_SGD) o.momentum = 0.9;
        cr_optim *one = cr_optim_new(q.params, &o), *two = cr_optim_new(r.params, &o);
        for (int step = 1; step <= 6; step++) {
            problem_gradients(&q, step);
            if (step < 4) OK(cr_set_grad(q.p[1], CR_NONE));
            OK(cr_optim_step(one));
        }
        cr_params *state = cr_optim_state(one);
        OK(cr_params_copy(r.params, q.params));
        OK(cr_optim_load(two, state, cr_optim_steps(one)));
        if (kind == CR_ADAM) {
            cr_tensor *steps = cr_params_get(state, "b.t");
            CHECK(steps && cr_item_int(steps) == 3, "b took %lld steps", (long long)cr_item_int(steps));
        }
        CHECK(cr_optim_steps(two) == 6, "%lld steps", (long long)cr_optim_steps(two));
        for (int step = 7; step <= 12; step++) {
            problem_gradients(&q, step);
            problem_gradients(&r, step);
            OK(cr_optim_step(one));
            OK(cr_optim_step(two));
        }
        for (int k = 0; k < 2; k++) {
            float x[15], y[15];
            OK(cr_read(q.p[k], CR_F32, x, (size_t)sizes[k] * sizeof *x));
            OK(cr_read(r.p[k], CR_F32, y, (size_t)sizes[k] * sizeof *y));
            CHECK(!memcmp(x, y, (size_t)sizes[k] * sizeof *x), "kind %d: the resumed run has other bits", kind);
        }
        cr_params_free(state);
        cr_optim_free(one); cr_optim_free(two);
        problem_free(&q); problem_free(&r);
    }
    CHECK(cr_memory_stats(cr_cpu()).current == before, "%lld bytes stay",
          (long long)(cr_memory_stats(cr_cpu()).current - before));
}

TEST(optim_late_gradient) {                         /* counts from its own first step, as in torch: the same bits as
                                                     * alone */
    problem q = problem_new(CR_F32, cr_cpu()), r = problem_new(CR_F32, cr_cpu());
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_params *late = params_of(1, (const char *const[]){"b"}, &r.p[1]);
    cr_optim *both = cr_optim_new(q.params, &o), *alone = cr_optim_new(late, &o);
    float x[7], y[7];
    for (int step = 1; step <= 8; step++) {
        problem_gradients(&q, step);
        problem_gradients(&r, step);
        if (step < 4) OK(cr_set_grad(q.p[1], CR_NONE));
        OK(cr_optim_step(both));
        if (step >= 4) OK(cr_optim_step(alone));
    }
    OK(cr_read(q.p[1], CR_F32, x, sizeof x));
    OK(cr_read(r.p[1], CR_F32, y, sizeof y));
    CHECK(!memcmp(x, y, sizeof x), "%.9g beside another parameter, %.9g alone", (double)x[0], (double)y[0]);
    cr_params_free(late);
    cr_optim_free(both); cr_optim_free(alone);
    problem_free(&q); problem_free(&r);
}

TEST(optim_bad_state) {
    const int64_t before = cr_memory_stats(cr_cpu()).current;
    problem q = problem_new(CR_F32, cr_cpu());
    cr_optim_options o = cr_optim_defaults(CR_ADAM);
    cr_optim *opt = cr_optim_new(q.params, &o);
    problem_gradients(&q, 1);
    OK(cr_optim_step(opt));
    cr_params *good = cr_optim_state(opt);
    cr_tensor *m = cr_params_get(good, "a.m"), *v = cr_params_get(good, "a.v"),
              *other = cr_zeros(CR_LIST(3, 5), CR_F32, cr_cpu());
    const struct { const char *names[2]; cr_tensor *t[2]; const char *message; } bad[] = {
        {{"a.m", NULL}, {m, NULL}, "'a.m' without 'a.v'"},
        {{"a.v", NULL}, {v, NULL}, "'a.v' without 'a.m'"},
        {{"a.m", "a.v"}, {m, other}, "another shape"},
        {{"a.m", "c.v"}, {m, v}, "without 'a.v'"},
        {{"c.m", "c.v"}, {m, v}, "'c.m' belongs to no parameter"},
        {{"a.x", "a"}, {m, v}, "'a.x' belongs to no parameter"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_params *state = params_of(bad[i].names[1] ? 2 : 1, bad[i].names, bad[i].t);
        FAILS(CR_BAD_VALUE, bad[i].message, cr_optim_load(opt, state, 1));
        cr_params_free(state);
    }
    FAILS(CR_BAD_VALUE, "steps must be at least 0, not -1", cr_optim_load(opt, good, -1));
    const int64_t many = 3;
    cr_tensor *count = cr_from(&many, CR_LIST(1), CR_I64, cr_cpu());
    cr_params *ahead = params_of(3, (const char *const[]){"a.m", "a.v", "a.t"}, (cr_tensor *[]){m, v, count});
    FAILS(CR_BAD_VALUE, "'a.t' counts 3 steps of 2", cr_optim_load(opt, ahead, 2));
    OK(cr_optim_load(opt, ahead, 3));
    cr_params_free(ahead);
    cr_release(count);
    OK(cr_optim_load(opt, good, 1));                /* its own state, after all the failures */
    CHECK(cr_optim_steps(opt) == 1, "%lld", (long long)cr_optim_steps(opt));
    cr_release(other);
    cr_params_free(good);
    cr_optim_free(opt);
    problem_free(&q);
    CHECK(cr_memory_stats(cr_cpu()).current == before, "%lld bytes stay",
          (long long)(cr_memory_stats(cr_cpu()).current - before));
}

/* Every kind has a name of its own, defaults that are accepted, and no kind follows the last. */
TEST(optim_kinds) {
    problem q = problem_new(CR_F32, cr_cpu());
    int kinds = 0;
    for (; cr_optim_name((cr_optim_kind)kinds); kinds++) {
        const cr_optim_options o = cr_optim_defaults((cr_optim_kind)kinds);
        cr_optim *opt = cr_optim_new(q.params, &o);
        CHECK(opt && (int)o.kind == kinds, "%s: kind %d of %d", cr_optim_name((cr_optim_kind)kinds), (int)o.kind,
              kinds);
        for (int k = 0; k < kinds; k++)
            CHECK(strcmp(cr_optim_name((cr_optim_kind)k), cr_optim_name((cr_optim_kind)kinds)), "two kinds are %s",
                  cr_optim_name((cr_optim_kind)k));
        cr_optim_free(opt);
    }
    CHECK(kinds > CR_ADAMAX && !cr_optim_name((cr_optim_kind)-1), "%d kinds", kinds);
    problem_free(&q);
}

TEST(optim_bad_options) {
    problem q = problem_new(CR_F32, cr_cpu());
    const struct { cr_optim_options o; const char *message; } bad[] = {
        {{.kind = CR_SGD, .lr = -1}, "lr must be finite and at least 0, not -1"},
        {{.kind = CR_SGD, .lr = NAN}, "lr must be finite"},
        {{.kind = CR_SGD, .lr = INFINITY}, "lr must be finite"},
        {{.kind = CR_ADAM, .lr = 1, .beta1 = 1}, "beta1 must be in [0, 1), not 1"},
        {{.kind = CR_ADAM, .lr = 1, .beta2 = -0.1}, "beta2 must be in [0, 1), not -0.1"},
        {{.kind = CR_ADAM, .lr = 1, .eps = -1e-8}, "eps"},
        {{.kind = CR_SGD, .lr = 1, .momentum = NAN}, "momentum"},
        {{.kind = CR_MUON, .lr = 1, .momentum = 1}, "momentum must be in [0, 1)"},
        {{.kind = CR_SGD, .lr = 1, .weight_decay = -2}, "weight_decay must be finite and at least 0, not -2"},
        {{.kind = CR_SGD, .lr = 1, .nesterov = true}, "nesterov needs a momentum above 0"},
        {{.kind = CR_SGD, .lr = 1, .decay_min_ndim = -1}, "decay_min_ndim"},
        {{.kind = (cr_optim_kind)99, .lr = 1}, "kind must be one of cr_optim_kind, not 99"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(CR_BAD_VALUE, bad[i].message, cr_optim_new(q.params, &bad[i].o));
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    FAILS(CR_BAD_VALUE, "NULL", cr_optim_new(NULL, &o));
    FAILS(CR_BAD_VALUE, "NULL", cr_optim_new(q.params, NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_optim_step(NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_optim_state(NULL));
    cr_tensor *whole = cr_zeros(CR_LIST(3), CR_I64, cr_cpu());
    cr_params *ints = params_of(1, (const char *const[]){"n"}, &whole);
    FAILS(CR_BAD_TYPE, "'n' is int64", cr_optim_new(ints, &o));
    cr_optim *opt = cr_optim_new(q.params, &o);
    FAILS(CR_BAD_VALUE, "not -0.5", cr_optim_set_lr(opt, -0.5));
    FAILS(CR_BAD_VALUE, "NULL", cr_optim_load(opt, NULL, 0));
    cr_optim_free(opt);
    cr_params_free(ints);
    cr_release(whole);
    problem_free(&q);
}

/* A matrix whose gradient is 0 has no direction: it only decays. */
TEST(optim_muon_without_direction) {
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(2, 3), CR_F64, cr_cpu()), true);
        cr_params *p = params_of(1, (const char *const[]){"w"}, &w);
        cr_optim_options o = cr_optim_defaults(CR_MUON);
        o.nesterov = nesterov;
        cr_optim *opt = cr_optim_new(p, &o);
        set_gradient(w, (const double[6]){0});
        OK(cr_optim_step(opt));
        double got[6];
        OK(cr_read(w, CR_F64, got, sizeof got));
        const double want = 1 - o.lr * o.weight_decay;
        CHECK(got[0] == want && got[5] == want, "%.17g, wanted %.17g", got[0], want);
        cr_optim_free(opt);
        cr_params_free(p);
        cr_release(w);
    }
}

/* Only a matrix has a direction: AdamW steps what has fewer axes or more. */
TEST(optim_muon_of_other_axes) {
    for (int ndim = 1; ndim <= 4; ndim++) {
        cr_tensor *w = cr_requires_grad_(cr_ones(ndim, (const int64_t[]){2, 1, 1, 1}, CR_F64, cr_cpu()), true);
        cr_params *p = params_of(1, (const char *const[]){"w"}, &w);
        cr_optim_options o = cr_optim_defaults(CR_MUON);
        o.weight_decay = 0;
        cr_optim *opt = cr_optim_new(p, &o);
        set_gradient(w, (const double[]){4, 0});
        OK(cr_optim_step(opt));
        double got[2];
        OK(cr_read(w, CR_F64, got, sizeof got));
        CHECK(got[1] == 1 && (fabs(got[0] - (1 - o.lr)) < 1e-9) == (ndim != 2), "%d axes: %.17g", ndim, got[0]);
        cr_optim_free(opt);
        cr_params_free(p);
        cr_release(w);
    }
}

TEST(optim_newton_schulz) {
    const double abc[3] = {3.4445, -4.7750, 2.0315};
    cr_scope_begin();
    FAILS(CR_BAD_VALUE, "needs a matrix, got 1 axes",
          cr_newton_schulz(cr_ones(CR_LIST(3), CR_F64, cr_cpu()), abc, 1e-7, 5));
    FAILS(CR_BAD_VALUE, "NULL", cr_newton_schulz(cr_ones(CR_LIST(2, 3), CR_F64, cr_cpu()), NULL, 1e-7, 5));
    /* x / |x| */
    cr_tensor *y = cr_newton_schulz(cr_eye(3, 3, CR_F64, cr_cpu()), (const double[]){1, 0, 0}, 1e-7, 5);
    double got[9];
    OK(cr_read(y, CR_F64, got, sizeof got));
    CHECK(fabs(got[0] - 1 / sqrt(3)) < 1e-15 && got[1] == 0, "%g %g", got[0], got[1]);
    cr_scope_end();
}

/* Elements that share memory cannot be written: nothing moves, and the next step is not clipped as the failed one. */
TEST(optim_after_a_failed_step) {
    cr_tensor *one = cr_ones(CR_LIST(1), CR_F64, cr_cpu());
    cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(2), CR_F64, cr_cpu()), true);
    cr_tensor *shared = cr_requires_grad_(cr_expand(one, CR_LIST(2)), true);
    cr_params *p = params_of(2, (const char *const[]){"w", "shared"}, (cr_tensor *[]){w, shared});
    cr_optim_options o = cr_optim_defaults(CR_SGD);
    o.lr = 0.5;
    cr_optim *opt = cr_optim_new(p, &o);
    set_gradient(w, (const double[]){1, 1});
    set_gradient(shared, (const double[]){1, 1});
    FAILS(CR_BAD_VALUE, "is expanded", cr_optim_step_clipped(opt, 0.01, NULL));
    FAILS(CR_BAD_VALUE, "is expanded", cr_optim_step(opt));
    OK(cr_set_grad(shared, CR_NONE));
    OK(cr_optim_step(opt));
    double got[2];
    OK(cr_read(w, CR_F64, got, sizeof got));
    CHECK(got[0] == 0.5 && got[1] == 0.5, "%.17g %.17g after a failed step and one of 0.5", got[0], got[1]);
    CHECK(cr_optim_steps(opt) == 1, "%lld steps", (long long)cr_optim_steps(opt));
    cr_optim_free(opt);
    cr_params_free(p);
    cr_release(w); cr_release(shared); cr_release(one);
}

/* Leaves of no optimizer, or of another one, keep their gradients. */
TEST(optim_backward_of_others) {
    cr_tensor *own = cr_ones(CR_LIST(3), CR_F64, cr_cpu()), *other = cr_full(CR_LIST(3), 2, CR_F64, cr_cpu());
    cr_requires_grad_(own, true);
    cr_requires_grad_(other, true);
    cr_params *p = params_of(1, (const char *const[]){"own"}, &own);
    cr_optim_options o = cr_optim_defaults(CR_SGD);
    o.lr = 0.5;
    cr_optim *opt = cr_optim_new(p, &o);
    cr_scope_begin();
    OK(cr_optim_backward(opt, cr_sum(cr_mul(own, other), CR_ALL, false)));
    cr_scope_end();
    double got[3];
    OK(cr_read(own, CR_F64, got, sizeof got));
    CHECK(got[2] == 0 && cr_is_none(cr_grad(own)) && cr_optim_steps(opt) == 1, "own: %g", got[2]);
    REQUIRE(!cr_is_none(cr_grad(other)), "the other leaf has no gradient");
    OK(cr_read(cr_grad(other), CR_F64, got, sizeof got));
    CHECK(got[2] == 1, "the other leaf's gradient: %g", got[2]);
    cr_optim_free(opt);
    cr_params_free(p);
    cr_release(own); cr_release(other);
}

TEST(optim_inside_a_scope) {                        /* moments and steps outlive the scope of the step that made them */
    problem q = problem_new(CR_F32, cr_cpu());
    cr_optim_options o = cr_optim_defaults(CR_MUON);
    cr_optim *opt = cr_optim_new(q.params, &o);
    const int64_t before = cr_memory_stats(cr_cpu()).current;
    int64_t after = 0;
    for (int step = 1; step <= 5; step++) {
        cr_scope_begin();
        problem_gradients(&q, step);
        OK(cr_optim_step(opt));
        cr_params *state = cr_optim_state(opt);
        cr_params_free(state);
        cr_scope_end();
        cr_params_zero_grad(q.params);
        if (step == 1) after = cr_memory_stats(cr_cpu()).current;
    }
    CHECK(cr_memory_stats(cr_cpu()).current == after, "memory grows: %lld, %lld, %lld", (long long)before,
          (long long)after, (long long)cr_memory_stats(cr_cpu()).current);
    cr_optim_free(opt);
    CHECK(cr_memory_stats(cr_cpu()).current == before, "%lld bytes stay",
          (long long)(cr_memory_stats(cr_cpu()).current - before));
    problem_free(&q);
}

TEST(schedules) {
    for (size_t c = 0; c < sizeof golden_schedule / sizeof *golden_schedule; c++)
        for (int t = 0; t < golden_schedule[c].n; t++) {
            const double got = cr_schedule_lr(&golden_schedule[c].s, t), want = golden_schedule[c].lr[t];
            CHECK(fabs(got - want) <= 1e-12, "%s at %d: %.17g, wanted %.17g", golden_schedule[c].name, t, got, want);
        }
    const cr_schedule constant = {.kind = CR_CONSTANT, .lr = 0.5, .warmup = 4};
    CHECK(cr_schedule_lr(&constant, 0) == 0.1 && cr_schedule_lr(&constant, 3) == 0.4 &&
              cr_schedule_lr(&constant, 4) == 0.5 && cr_schedule_lr(&constant, 1000000) == 0.5,
          "constant: %g %g %g", cr_schedule_lr(&constant, 0), cr_schedule_lr(&constant, 3),
          cr_schedule_lr(&constant, 4));
    const struct { cr_schedule s; int64_t step; const char *message; cr_status kind; } bad[] = {
        {{.kind = CR_COSINE, .lr = -1, .total = 5}, 0, "lr must be", CR_BAD_VALUE},
        {{.kind = CR_COSINE, .lr = 1, .min_lr = NAN, .total = 5}, 0, "min_lr must be", CR_BAD_VALUE},
        {{.kind = CR_COSINE, .lr = 1, .warmup = 5, .total = 5}, 0, "total 5, warmup 5", CR_BAD_VALUE},
        {{.kind = CR_CONSTANT, .lr = 1, .warmup = -1}, 0, "warmup must be at least 0", CR_BAD_VALUE},
        {{.kind = CR_CONSTANT, .lr = 1}, -1, "step must be at least 0, not -1", CR_BAD_INDEX},
        {{.kind = (cr_schedule_kind)7, .lr = 1}, 0, "not 7", CR_BAD_VALUE}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(bad[i].kind, bad[i].message, cr_schedule_lr(&bad[i].s, bad[i].step));
    FAILS(CR_BAD_VALUE, "NULL", cr_schedule_lr(NULL, 0));
}

/* ---- a weight's gradient that goes into its update piece by piece has the bits of one that is whole first */
static cr_tensor *count_call(const cr_tensor *grad, void *ctx) {
    (void)grad;
    ++*(int *)ctx;
    return (cr_tensor *)(uintptr_t)CR_NONE;
}

typedef struct layer { cr_tensor *x, *w, *mirror; cr_params *params; cr_optim *opt; } layer;

static layer layer_new(int64_t rows, int64_t outputs, int64_t inputs, bool mirrored, bool turned) {
    cr_generator *g = cr_generator_new(3);
    cr_scope_begin();
    layer l = {.x = cr_keep(cr_randn(CR_LIST(rows, inputs), CR_F32, cr_cpu(), g)),
               .w = cr_keep(turned ? cr_transpose(cr_randn(CR_LIST(inputs, outputs), CR_F32, cr_cpu(), g), 0, 1)
                                   : cr_randn(CR_LIST(outputs, inputs), CR_F32, cr_cpu(), g))};
    cr_requires_grad_(l.w, true);
    l.params = params_of(1, (const char *const[]){"w"}, &l.w);
    const cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    l.opt = cr_optim_new(l.params, &o);
    if (mirrored)
        OK(cr_optim_mirror(l.opt, l.w, l.mirror = cr_keep(cr_zeros(CR_LIST(outputs, inputs), CR_BF16, cr_cpu()))));
    cr_scope_end();
    cr_generator_free(g);
    return l;
}

static void layer_free(layer *l) {
    cr_optim_free(l->opt); cr_params_free(l->params);
    cr_release(l->x); cr_release(l->w); if (l->mirror) cr_release(l->mirror);
}

static void layer_steps(layer *l, bool fused) {
    for (int i = 0; i < 3; i++) {
        cr_scope_begin();
        const cr_tensor *y = cr_linear(l->x, l->w, CR_NONE), *loss = cr_mean(cr_mul(y, y), CR_ALL, false);
        if (fused) OK(cr_optim_backward(l->opt, loss));
        else { OK(cr_backward(loss, CR_NONE, NULL)); OK(cr_optim_step(l->opt)); cr_params_zero_grad(l->params); }
        cr_scope_end();
    }
}

static bool same_bits(const cr_tensor *a, const cr_tensor *b) {
    return !memcmp(cr_data(a), cr_data(b), (size_t)cr_numel(a) * cr_dtype_size(cr_dtype_of(a)));
}

/* The same kernels make a gradient whole and piece by piece, except the second one where there is
 * oneDNN: sums in another order, of which sqrt(v) and eps leave some 1e-6 of a step of 1e-3. */
TEST(gradient_as_a_product) {
    static const int64_t shapes[][3] = {{300, 2400, 100}, {256, 1040, 520}, {7, 5, 3}, {300, 2401, 97}};
    for (int c = 0; c < 16; c++) {
        const int64_t *s = shapes[c % 4];
        const bool mirrored = c / 4 % 2, bf16 = c / 8, turned = c == 2;    /* not dense: the update takes no product */
        const cr_precision before = cr_set_f32_products(bf16 ? CR_MEDIUM : CR_HIGHEST);
        layer whole = layer_new(s[0], s[1], s[2], mirrored, turned),
              pieces = layer_new(s[0], s[1], s[2], mirrored, turned),
              alone = layer_new(s[0], s[1], s[2], mirrored, turned);
        layer hooked = layer_new(s[0], s[1], s[2], mirrored, turned);
        int calls = 0;
        CHECK(cr_add_hook(hooked.w, count_call, &calls, NULL) > 0, "%s", cr_error());
        layer_steps(&whole, false);
        layer_steps(&pieces, true);
        layer_steps(&hooked, true);
        const int threads = cr_num_threads();
        cr_set_num_threads(1);
        layer_steps(&alone, true);
        cr_set_num_threads(threads);
        CHECK(calls == 3, "a hook saw %d gradients of 3", calls);
        CHECK(same_bits(whole.w, hooked.w), "a hook changed the bits");
        CHECK(same_bits(pieces.w, alone.w), "case %d: the bits depend on the threads", c);
        if (c % 4 != 1 || bf16 || !cr_onednn_ready())
            CHECK(same_bits(whole.w, pieces.w), "case %d: other bits piece by piece", c);
        double worst = 0;
        for (int64_t i = 0; i < cr_numel(whole.w); i++)
            worst = fmax(worst,
                         fabs(((const float *)cr_data(whole.w))[i] - (double)((const float *)cr_data(pieces.w))[i]));
        CHECK(worst < 1e-5, "case %d: off by %g", c, worst);
        if (mirrored) {
            cr_scope_begin();
            CHECK(same_bits(pieces.mirror, cr_to(pieces.w, CR_BF16, cr_cpu())),
                  "case %d: the mirror is not the rounded weight", c);
            cr_scope_end();
        }
        layer_free(&whole); layer_free(&pieces); layer_free(&alone); layer_free(&hooked);
        cr_set_f32_products(before);
    }
}
