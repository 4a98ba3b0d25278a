/* test_plan_ops.c - every structured op and every elementwise row, with its gradients, recorded with some numbers and
 * replayed with others: the replay has the bits of the op itself. */
#pragma GCC diagnostic ignored "-Wunused-function"  /* of the harness only a part */
#include "ops_cases.h"
#include "ops/elementwise_tests.gen.h"
#include "core/os.h"
#include "dev/cpu/cpu.h"
#include "folder.h"

#if defined CR_TEST_CUDA
static const cr_device *plan_device(int i) { return i ? NULL : cr_cuda_at(0); }
#elif defined CR_TEST_GPU
static const cr_device *plan_device(int i) { return i ? NULL : cr_webgpu_at(0); }
#else
static const cr_device *plan_device(int i) { return i == 0 ? cr_cpu() : i == 1 ? cr_ref() : NULL; }
#endif

static long replayed, refused;

/* Ops that read values of tensors cannot be recorded. */
static const char *const reads_values[] = {
    "nonzero", "masked_select", "unique", "unique_consecutive", "bincount", "histc", "repeat_interleave", "index_get",
    "index_put", "masked_scatter", NULL
};

typedef struct subject {
    const op_case *structured;                      /* or: */
    const elementwise_test *row; const cr_program *program;
    bool between;                                   /* the row stands between two products */
} subject;

static cr_tensor *call(const subject *s, const cr_tensor *const *in) {
    if (s->structured) return s->structured->run(in);
    if (!s->between) return s->row->call(in, s->row->params);
    const cr_tensor *own[4] = {in[0], in[1], in[2], in[3]};
    if (s->program->rule != CR_RULE_WHERE) own[0] = cr_mul_scalar(in[0], 0.75);
    cr_tensor *y = s->row->call(own, s->row->params);
    return cr_mul(y, y);
}

static int inputs_of(const subject *s) {
    int n = 0;
    if (!s->structured) return s->row->n_in;
    while (n < 4 && s->structured->in[n].ndim >= 0) n++;
    return n;
}

/* Inputs number `round`; floats require a gradient. */
static void fill_inputs(const subject *s, const spec *specs, int n, cr_dtype dt, const cr_device *dev, stream *r,
                        const cr_tensor **in) {
    for (int k = 0; k < n; k++) {
        const cr_dtype own = specs[k].fill == INDEX ? CR_I64 : specs[k].fill == MASK ? CR_BOOL : dt;
        data d = data_fill(&specs[k], own, r);
        cr_tensor *t = data_put(&d, DENSE, dev);
        if (cr_dtype_is_float(own)) cr_requires_grad_(t, true);
        in[k] = t;
        data_free(&d);
    }
    (void)s;
}

/* The gradients of the sum of y's elements times fixed weights. */
static cr_status gradients(const cr_tensor *y, int n, const cr_tensor *const *in, cr_tensor **dx) {
    const cr_tensor *wanted[4];
    cr_tensor *got[4] = {NULL};
    int m = 0;
    for (int k = 0; k < n; k++) dx[k] = NULL;
    if (!cr_requires_grad(y)) return CR_OK;
    for (int k = 0; k < n; k++) if (cr_requires_grad(in[k])) wanted[m++] = in[k];
    cr_tensor *g = cr_to(cr_add_scalar(cr_mul_scalar(cr_detach(y), 0.5), 1), cr_dtype_of(y), cr_device_of(y));
    cr_status status = g ? cr_gradients(1, &y, (const cr_tensor *const *)&g, m, wanted, got, NULL) : cr_error_status();
    for (int k = 0, i = 0; k < n && status == CR_OK; k++) if (cr_requires_grad(in[k])) dx[k] = got[i++];
    return status;
}

static void same(const char *part, const cr_tensor *got, const cr_tensor *want) {
    if (!got || !want || cr_is_none(got) || cr_is_none(want)) {
        CHECK((!got || cr_is_none(got)) == (!want || cr_is_none(want)), "%s %s on %s: %s is missing", now.op, now.what,
              now.device, part);
        return;
    }
    data a = data_of(got), b = data_of(want);
    const bool alike = a.dtype == b.dtype && a.numel == b.numel &&
                       !memcmp(a.bytes, b.bytes, cr_dtype_size(a.dtype) * (size_t)a.numel);
    CHECK(alike, "%s %s %s on %s, seed %llu: %s of the replay differs", now.op, now.what ? now.what : "",
          cr_dtype_name(now.dtype), now.device, (unsigned long long)now.seed, part);
    data_free(&a);
    data_free(&b);
}

static bool may_refuse(const char *name) {
    for (int i = 0; reads_values[i]; i++)
        if (strstr(name, reads_values[i])) return true;
    return false;
}

#if defined CR_TEST_CUDA
enum { REPLAYS = 3 };                               /* kernels one by one, into a graph, by the graph */
#else
enum { REPLAYS = 1 };
#endif

static void replay_once(const subject *s, cr_plan *p, int n, const cr_tensor *const *in, const cr_device *dev) {
    cr_scope_begin();
    cr_tensor *want = call(s, in), *dx[4], *dz[4], *y = NULL;
    OK(cr_plan_run(p, in, &y));
    same("the result", y, want);
    if (y) CHECK(cr_requires_grad(y) == cr_requires_grad(want), "%s on %s: requires_grad", now.op, now.device);
    if (y && cr_requires_grad(want)) {
        OK(gradients(want, n, in, dx));
        OK(gradients(y, n, in, dz));
        for (int k = 0; k < n; k++) same("a gradient", dz[k], dx[k]);
    }
    cr_scope_end();
    replayed++;
    test_ran_on(dev);
}

static void replay(const subject *s, const spec *specs, cr_dtype dt, const cr_device *dev, const char *what) {
    const cr_tensor *in[4] = {NULL}, *other[4] = {NULL};
    const int n = inputs_of(s);
    now.op = s->structured ? s->structured->op : s->program->name, now.what = what, now.dtype = dt;
    now.device = cr_device_name(dev);
    stream r = stream_of(now.op, dt);
    cr_scope_begin();
    fill_inputs(s, specs, n, dt, dev, &r, in);
    fill_inputs(s, specs, n, dt, dev, &r, other);
    if (!call(s, other)) { cr_error_clear(); cr_scope_end(); return; }     /* declined, or not defined for them */
    OK(cr_record_begin(n, in));
    cr_tensor *y = call(s, in);
    cr_plan *p = y ? cr_record_end(1, (const cr_tensor *const *)&y) : (cr_record_cancel(), NULL);
    if (!p) {
        CHECK(may_refuse(now.op) && cr_error() && strstr(cr_error(), "while a step is recorded"), "%s %s on %s: %s",
              now.op, what, now.device, cr_error() ? cr_error() : "no message");
        cr_error_clear();
        refused++;
        cr_scope_end();
        return;
    }
    for (int i = 0; i < REPLAYS && cr_plan_fits(p, other); i++) replay_once(s, p, n, i % 2 ? in : other, dev);
    cr_plan_free(p);
    cr_scope_end();
}

#if defined CR_TEST_GPU
static const cr_dtype tried[] = {CR_F32, CR_F16, CR_BF16, CR_I32};      /* it has no float64 */
#else
static const cr_dtype tried[] = {CR_F32, CR_F64, CR_BF16, CR_I32};
#endif

static bool takes_dtype(const op_case *c, cr_dtype dt) {
    return cr_dtype_is_float(dt) ? c->dtypes & FLOATS : c->dtypes & WHOLES;
}

#if defined CR_TEST_CUDA || defined CR_TEST_GPU
enum { ONE_IN = 9 };                                /* software compiles each kernel in 60 ms */
#else
enum { ONE_IN = 1 };
#endif

TEST(structured) {
#if defined CR_TEST_CUDA || defined CR_TEST_GPU
    if (!plan_device(0)) SKIP("no GPU");
#endif
    for (int d = 0; plan_device(d); d++)
        for (int i = 0; i < OP_CASES; i++)
            for (int k = 0; k < 4; k++) {
                const op_case *c = &op_cases[i];
                if (!takes_dtype(c, tried[k]) || !test_sampled(i, ONE_IN) || (k && !test_sampled(i + k, 4))) continue;
                replay(&(subject){.structured = c}, c->in, tried[k], plan_device(d), c->what);
            }
    CHECK(replayed > (ONE_IN > 1 ? 50 : 900), "only %ld replays", replayed);
    CHECK(refused || ONE_IN > 1, "no op was refused");
}

static void each_row(const spec shapes[3], bool between) {
    for (int d = 0; plan_device(d); d++)
        for (int i = 0; i < (int)(sizeof elementwise_tests / sizeof *elementwise_tests); i++)
            for (int k = 0; k < 3; k++) {
                const elementwise_test *row = &elementwise_tests[i];
                const cr_program *p = cr_program_at(i);
                spec in[3];
                for (int j = 0; j < 3; j++) {
                    in[j] = shapes[j];
                    in[j].lo = row->low, in[j].hi = row->high;
                    if (j == 0 && p->rule == CR_RULE_WHERE) in[j].fill = MASK;
                }
                if (p->rule == CR_RULE_BITS || !test_sampled(i, ONE_IN) || (k && !test_sampled(i + k, 4))) continue;
                replay(&(subject){.row = row, .program = p, .between = between}, in, tried[k], plan_device(d), "row");
            }
}

TEST(elementwise) { each_row((const spec[]){{SHAPE(5, 83)}, {SHAPE(83)}, {SHAPE(5, 1)}}, false); }

/* Large enough for one program of several rows. */
TEST(chains) { each_row((const spec[]){{SHAPE(15, 83)}, {SHAPE(83)}, {SHAPE(15, 1)}}, true); }

/* ---- chains as loops of the system's C compiler: many rows in one step, because a compiler's start takes longest */
#if !defined CR_TEST_CUDA && !defined CR_TEST_GPU
enum { AT_ONCE = 40, MOST_RESULTS = 4 * AT_ONCE };

/* Of rows first, first + 1, ... in f32, while there is room: results and gradients; returns the next row. */
static int rows_from(int first, const cr_tensor *const *in, cr_tensor **results, int *n) {
    const int rows = (int)(sizeof elementwise_tests / sizeof *elementwise_tests);
    int i = first;
    *n = 0;
    for (int taken = 0; i < rows && taken < AT_ONCE; i++) {
        const elementwise_test *row = &elementwise_tests[i];
        const cr_program *p = cr_program_at(i);
        if (p->rule != CR_RULE_FLOAT && p->rule != CR_RULE_NUMBER && p->rule != CR_RULE_ANY) continue;
        /* into the domain of the row, between two products */
        const double middle = (row->low + row->high) / 2, half = (row->high - row->low) / 2;
        const cr_tensor *own[4] = {NULL};
        for (int k = 0; k < row->n_in; k++) own[k] = cr_add_scalar(cr_mul_scalar(in[k], half), middle);
        cr_tensor *y = row->call(own, row->params);
        if (!y || cr_dtype_of(y) != CR_F32) { cr_error_clear(); continue; }
        results[*n] = y = cr_mul(cr_mul_scalar(y, 0.75), y);
        *n += 1;
        taken++;
        cr_tensor *dx[4];
        OK(gradients(y, row->n_in, in, dx));
        for (int k = 0; k < row->n_in; k++)
            if (dx[k] && !cr_is_none(dx[k])) results[(*n)++] = dx[k];
    }
    return i;
}

static void loops_of(const spec *shapes, int isa) {
    if (!cr_cpu_use_isa(isa)) return;
    now.op = "loops", now.what = "rows", now.dtype = CR_F32, now.device = "cpu";
    stream r = stream_of(now.op, CR_F32);
    for (int first = 0, next; first < (int)(sizeof elementwise_tests / sizeof *elementwise_tests); first = next) {
        const cr_tensor *in[4] = {NULL};
        cr_tensor *want[MOST_RESULTS], *got[MOST_RESULTS], *before[MOST_RESULTS];
        int n = 0;
        cr_scope_begin();
        fill_inputs(NULL, shapes, 3, CR_F32, cr_cpu(), &r, in);
        OK(cr_record_begin(3, in));
        next = rows_from(first, in, want, &n);
        cr_plan *p = cr_record_end(n, (const cr_tensor *const *)want);
        CHECK(p, "no plan: %s", cr_error());
        if (p && n) {
            CHECK(cr_plan_look(p).loops == 0, "loops before the compiler ran");
            OK(cr_plan_run(p, in, before));
            cr_plan_wait(p);
            CHECK(cr_plan_look(p).loops > n / 4, "%d loops for %d results", cr_plan_look(p).loops, n);
            OK(cr_plan_run(p, in, got));
            for (int k = 0; k < n; k++) {
                char part[40];
                snprintf(part, sizeof part, "result %d of rows from %d", k, first);
                same(part, before[k], want[k]);
                same(part, got[k], want[k]);
            }
            test_ran_on(cr_cpu());
        }
        cr_plan_free(p);
        cr_scope_end();
    }
    cr_cpu_use_isa(-1);
}

/* 263 is no multiple of a vector; (67, 1) is held for a row.  Compilers share no cache. */
TEST(loops) {
    static const char *const compilers[] = {"cc", "clang"};
    bool tried_one = false;
    for (int c = 0; c < 2; c++) {
        if (cr_os_run((const char *const[]){compilers[c], "--version", NULL})) continue;
        tried_one = true;
        OK(cr_switch_set("CC", compilers[c]));
        OK(cr_switch_set("CACHE", folder_path(compilers[c])));
        for (int isa = 2; isa <= 4; isa++) {
            if (isa < 4 && !test_full()) continue;
            loops_of((const spec[]){{SHAPE(67, 263), .lo = -1, .hi = 1}, {SHAPE(263), .lo = -1, .hi = 1},
                                    {SHAPE(67, 1), .lo = -1, .hi = 1}}, isa);
        }
        cr_os_remove_folder(folder_path(compilers[c]));
    }
    OK(cr_switch_set("CC", NULL));
    OK(cr_switch_set("CACHE", NULL));
    if (!tried_one) SKIP("no C compiler");
}
#endif
