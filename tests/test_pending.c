/* test_pending.c - memory whose bytes are still on their way (core/pending.h): every way to read or write it waits.  A
 * thread plays a slow engine: it writes the bytes a moment later. */
#include "test.h"
#include "posix.h"


#include "core/os.h"
#include "core/pending.h"
#include "core/tensor.h"
#include "folder.h"

enum { SIDE = 64, N = SIDE * SIDE };
static const double delay = 0.02;                   /* seconds */

static void arrive(void *arg) {
    cr_tensor *x = arg;
    float *data = x->storage->data;
    cr_os_sleep(delay);
    for (int i = 0; i < N; i++) __atomic_store(&data[i], &(float){2}, __ATOMIC_RELAXED);
    cr_pending_end(x->storage);
}

static double at(const cr_tensor *x, int64_t i) {
    return cr_item(cr_select(cr_reshape(x, CR_LIST(cr_numel(x))), 0, i));
}
static double last(const cr_tensor *x) { return x ? at(x, cr_numel(x) - 1) : NAN; }
static cr_tensor *ones(void) { return cr_ones(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu()); }

/* ---- readers: x has 2 everywhere once it is there */
static double by_item(cr_tensor *x) { return cr_item(cr_select(cr_select(x, 0, SIDE - 1), 0, SIDE - 1)); }
static double by_read(cr_tensor *x) {
    static float out[N];
    OK(cr_read(x, CR_F32, out, sizeof out));
    return out[N - 1];
}
static double by_read_as(cr_tensor *x) {
    static double out[N];
    OK(cr_read(x, CR_F64, out, sizeof out));
    return out[N - 1];
}
static double by_data(cr_tensor *x) { return ((float *)cr_data(x))[N - 1]; }
static double by_clone(cr_tensor *x) { return last(cr_clone(x)); }
static double by_add(cr_tensor *x) { return last(cr_add(x, ones())) - 1; }
static double by_broadcast(cr_tensor *x) { return last(cr_add(x, cr_ones(CR_LIST(SIDE), CR_F32, cr_cpu()))) - 1; }
static double by_number(cr_tensor *x) { return last(cr_mul_scalar(x, 3)) / 3; }
static double by_add_(cr_tensor *x) { return last(cr_add_(ones(), x)) - 1; }
static double by_sum(cr_tensor *x) { return cr_item(cr_sum(x, CR_ALL, false)) / N; }
static double by_matmul(cr_tensor *x) { return last(cr_matmul(ones(), x)) / SIDE; }
static double by_linear(cr_tensor *x) { return last(cr_linear(ones(), x, CR_NONE)) / SIDE; }
static double by_transpose(cr_tensor *x) { return last(cr_contiguous(cr_transpose(x, 0, 1))); }
static double by_cast(cr_tensor *x) { return last(cr_to(x, CR_F64, cr_cpu())); }
static double by_device(cr_tensor *x) { return last(cr_to(x, CR_F32, cr_ref())); }
static double by_copy_(cr_tensor *x) { return last(cr_copy_(ones(), x)); }
static double by_own_copy(cr_tensor *x) { return cr_copy_(cr_select(x, 0, 0), cr_select(x, 0, 1)) ? at(x, 0) : NAN; }
static double by_compare(cr_tensor *x) { return last(cr_to(cr_eq(x, cr_scalar(2)), CR_F32, cr_cpu())) * 2; }
static double by_nonzero(cr_tensor *x) { return 2.0 * (double)cr_numel(cr_nonzero(x)) / (2 * N); }
static double by_mask(cr_tensor *x) {
    const cr_tensor *mask = cr_view_dtype(cr_slice(cr_reshape(x, CR_LIST(N)), 0, 0, 8, 1), CR_BOOL);
    return (double)cr_numel(cr_nonzero(mask)) / 4;  /* 2 is 00 00 00 40 */
}
static double by_multinomial(cr_tensor *x) {
    cr_generator *g = cr_generator_new(1);
    const cr_tensor *i = cr_multinomial(x, 2, true, g);
    cr_generator_free(g);
    return i ? 2 : NAN;                             /* weights of 0 everywhere are refused */
}
static double by_nextafter(cr_tensor *x) { return round(last(cr_nextafter(x, ones()))); }
static double by_norm(cr_tensor *x) {
    double norm = 0;
    OK(cr_total_norm(2, (const cr_tensor *const[]){ones(), x}, &norm));
    return sqrt(norm * norm / N - 1);
}
static double by_squares(cr_tensor *x) {
    double sum = 0;
    OK(cr_block_squares(x, &sum));
    return sqrt(sum / N);
}
static double by_quantize(cr_tensor *x) {
    return last(cr_unpack(cr_quantize(x, "q8_0", CR_NONE), "q8_0", CR_F32));
}
static double by_backward(cr_tensor *x) {
    cr_requires_grad_(x, true);
    OK(cr_backward(cr_sum(cr_square(x), CR_ALL, false), CR_NONE, NULL));
    return last(cr_grad(x)) / 2;
}
static double by_update(cr_tensor *x) {             /* as the gradient of another parameter */
    cr_params *set = cr_params_new();
    const cr_optim_options o = {.kind = CR_SGD, .lr = 1};
    cr_tensor *p = cr_requires_grad_(ones(), true);
    OK(cr_params_add(set, "p", p));
    cr_optim *opt = cr_optim_new(set, &o);
    OK(cr_set_grad(p, x));
    OK(cr_optim_step(opt));
    cr_optim_free(opt);
    cr_params_free(set);
    return 1 - last(cr_detach(p));
}
static double by_save(cr_tensor *x) {
    char path[600];
    snprintf(path, sizeof path, "%s", folder_path("pending.safetensors"));
    cr_params *set = cr_params_new();
    OK(cr_params_add(set, "x", x));
    OK(cr_save(path, set, NULL));
    cr_params_free(set);
    set = cr_load(path, cr_cpu());
    const double value = set ? last(cr_params_at(set, 0)) : NAN;
    cr_params_free(set);
    (void)remove(path);
    return value;
}
static double by_fork(cr_tensor *x) {
#ifdef _WIN32
    return last(x);
#endif
    const pid_t child = fork();
    if (!child) _exit((int)((float *)x->storage->data)[N - 1]);
    int status = 0;
    return (double)(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* ---- writers: what they wrote is there in the end */
static double by_fill_(cr_tensor *x) { return cr_fill_(x, 5) ? 5 : NAN; }
static double by_write(cr_tensor *x) {
    static float in[N];
    for (int i = 0; i < N; i++) in[i] = 5;
    OK(cr_write(x, CR_F32, in, sizeof in));
    return 5;
}
static double by_copy_into(cr_tensor *x) { return cr_copy_(x, cr_full(CR_LIST(SIDE), 5, CR_F32, cr_cpu())) ? 5 : NAN; }
static double by_write_to_view(cr_tensor *x) { return cr_fill_(cr_select(x, 0, SIDE - 1), 5) ? 5 : NAN; }
static double by_add_into(cr_tensor *x) { return cr_add_(x, cr_scalar(3)) ? 5 : NAN; }
static double by_normal_(cr_tensor *x) {
    cr_generator *g = cr_generator_new(1), *same = cr_generator_new(1);
    const bool done = cr_normal_(x, 5, 1, g);
    const double value = last(cr_normal_(ones(), 5, 1, same));
    cr_generator_free(g);
    cr_generator_free(same);
    return done ? value : NAN;
}
static double by_optimizer(cr_tensor *x) {
    cr_params *set = cr_params_new();
    const cr_optim_options o = {.kind = CR_SGD, .lr = 3};
    cr_requires_grad_(x, true);
    OK(cr_params_add(set, "x", x));
    cr_optim *opt = cr_optim_new(set, &o);
    OK(cr_set_grad(x, cr_neg(ones())));
    OK(cr_optim_step(opt));
    cr_optim_free(opt);
    cr_params_free(set);
    return 5;
}

#define CASE(f) {#f, f}
static const struct { const char *name; double (*use)(cr_tensor *x); } readers[] = {
    CASE(by_item), CASE(by_read), CASE(by_read_as), CASE(by_data), CASE(by_clone), CASE(by_add), CASE(by_broadcast),
    CASE(by_number), CASE(by_add_), CASE(by_sum), CASE(by_matmul), CASE(by_linear), CASE(by_transpose), CASE(by_cast),
    CASE(by_device), CASE(by_copy_), CASE(by_own_copy), CASE(by_compare), CASE(by_nonzero), CASE(by_mask),
    CASE(by_multinomial), CASE(by_nextafter), CASE(by_norm), CASE(by_squares), CASE(by_quantize), CASE(by_backward),
    CASE(by_update), CASE(by_save), CASE(by_fork)};
static const struct { const char *name; double (*use)(cr_tensor *x); } writers[] = {
    CASE(by_fill_), CASE(by_write), CASE(by_copy_into), CASE(by_write_to_view), CASE(by_add_into), CASE(by_normal_),
    CASE(by_optimizer)};

/* use(x) while x is pending.  The thread has ended when this returns. */
static double used(cr_tensor *x, double (*use)(cr_tensor *x)) {
    cr_pending_begin(x->storage);
    cr_thread *thread = cr_thread_start(arrive, x);
    const double value = use(x);
    cr_thread_join(thread);
    return value;
}

TEST(readers_wait) {
    const double before = cr_pending_seconds();
    const int n = sizeof readers / sizeof *readers;
    for (int i = 0; i < n; i++) {
        cr_scope_begin();
        const double value = used(cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu()), readers[i].use);
        CHECK(fabs(value - 2) < 1e-3, "%s: %g before the bytes were there (%s)", readers[i].name, value,
              cr_error() ? cr_error() : "no error");
        cr_error_clear();
        cr_scope_end();
    }
    CHECK(cr_pending_seconds() - before > 0.5 * n * delay, "%g s of waiting", cr_pending_seconds() - before);
    CHECK(!atomic_load(&cr_slow_path), "%d storages are left", atomic_load(&cr_slow_path));
}

TEST(writers_wait) {
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        cr_scope_begin();
        cr_tensor *x = cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu());
        const double expected = used(x, writers[i].use), value = ((float *)x->storage->data)[N - 1];
        CHECK(value == expected, "%s: %g was overwritten by bytes that came later (%s)", writers[i].name, value,
              cr_error() ? cr_error() : "no error");
        cr_error_clear();
        cr_scope_end();
    }
}

static double run_plan(cr_tensor *x) {
    static cr_plan *plan;
    static cr_tensor *input;
    cr_tensor *y = NULL;
    cr_scope_begin();
    if (!plan) {
        input = ones();
        cr_retain(input);
        OK(cr_record_begin(1, (const cr_tensor *const[]){input}));
        const cr_tensor *sum = cr_add(input, x);
        plan = cr_record_end(1, &sum);
        CHECK(plan, "%s", cr_error());
        cr_scope_end();
        return 0;
    }
    OK(cr_plan_run(plan, (const cr_tensor *const[]){input}, &y));
    const double value = last(y) - 1;
    cr_scope_end();
    cr_plan_free(plan);
    cr_drop(input);
    return value;
}

TEST(plans_wait) {
    cr_tensor *x = cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu());
    (void)run_plan(x);
    const double value = used(x, run_plan);
    CHECK(value == 2, "%g before the bytes were there", value);
    cr_release(x);
}

/* A view needs no bytes; another tensor's op does not wait. */
TEST(others_do_not_wait) {
    cr_scope_begin();
    cr_tensor *x = cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu());
    cr_pending_begin(x->storage);
    const cr_tensor *view = cr_transpose(cr_slice(cr_detach(x), 0, 1, 9, 2), 0, 1);
    CHECK(view && last(cr_add(ones(), ones())) == 2, "%s", cr_error());
    CHECK(cr_size(view, 1) == 4, "%d columns", (int)cr_size(view, 1));
    cr_pending_end(x->storage);
    cr_scope_end();
}

static void read_often(void *arg) {
    for (int i = 0; i < 3; i++) {
        cr_scope_begin();
        if (by_sum(arg) == 2) atomic_fetch_add((atomic_uint *)&((cr_tensor *)arg)->storage->version, 1);
        cr_scope_end();
    }
}

TEST(threads_wait) {
    enum { THREADS = 4 };
    cr_thread *threads[THREADS], *slow;
    cr_tensor *x = cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu());
    cr_pending_begin(x->storage);
    for (int i = 0; i < THREADS; i++) threads[i] = cr_thread_start(read_often, x);
    slow = cr_thread_start(arrive, x);
    for (int i = 0; i < THREADS; i++) cr_thread_join(threads[i]);
    cr_thread_join(slow);
    CHECK(atomic_load(&x->storage->version) == 3 * THREADS, "%u of %d reads saw the bytes",
          atomic_load(&x->storage->version), 3 * THREADS);
    cr_release(x);
}

/* Bytes that never come: each use says why, until what is there is good enough. */
TEST(failures_are_told) {
    cr_scope_begin();
    cr_tensor *x = cr_zeros(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu());
    cr_pending_begin(x->storage);
    cr_pending_fail(x->storage, "rank 1 on HOST was lost");
    cr_pending_end(x->storage);                     /* a later part has come */
    static const char text[] = "the weights did not arrive: rank 1 on HOST was lost";
    for (int i = 0; i < 2; i++) {
        FAILS(CR_RUNTIME, "[matmul] the weights did not arrive", cr_matmul(x, x));
        FAILS(CR_RUNTIME, text, cr_data(x));
        FAILS(CR_RUNTIME, "[read] the weights", cr_read(x, CR_F32, (float[N]){0}, sizeof(float[N])));
        FAILS(CR_RUNTIME, text, cr_fill_(x, 1));
        FAILS(CR_RUNTIME, text, cr_item(cr_select(cr_select(x, 0, 0), 0, 0)));
    }
    cr_pending_clear(x->storage);
    CHECK(by_sum(x) == 0 && !cr_error() && !atomic_load(&cr_slow_path), "%s", cr_error());
    cr_scope_end();
}
