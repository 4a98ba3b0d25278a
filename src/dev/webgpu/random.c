/* random.c - Philox 4x32-10: element i of a stream is a function of seed and counter, as on every
 * device (dev.h).  Integers and uniforms have the same bits; normals pass through a logarithm and a
 * cosine. */
#include "wgsl.gen.h"
#include "wgsl.h"

typedef enum draw { UNIFORM, NORMAL, INTEGERS } draw;
typedef struct kernel { int id; draw draw; cr_dtype dtype; } kernel;

static void write_kernel(wgsl *w, const void *how) {
    static const char *const names[] = {"UNIFORM", "NORMAL", "INTEGERS"};
    const kernel *h = how;
    cr_wgsl_const(w, names[h->draw], 1);
    cr_wgsl_const(w, "BF16", h->dtype == CR_BF16);
    cr_wgsl_const(w, "F16", h->dtype == CR_F16);
    cr_wgsl_array(w, "y", h->dtype, true);
    cr_wgsl_cast_function(w, "result", h->dtype, h->draw == INTEGERS ? CR_I64 : CR_F32);
    cr_wgsl_file(w, cr_wgsl_random);
    cr_wgsl_end(w, GPU_GROUP);
}

/* Elements first .. first + n - 1. */
static cr_status run_part(gpu *g, const char *op, draw kind, const cr_array *y, int64_t first, int64_t n,
                          random_parameters q) {
    const kernel how = {'p', kind, y->dtype};
    const gpu_span part = {y->offset + first, y->offset + first + n};
    gpu_call c = {.op = op, .write = write_kernel, .how = &how, .how_bytes = sizeof how,
                  .parameters = &q, .parameters_bytes = sizeof q, .groups = gpu_groups(n)};
    q.count = (uint32_t)n;
    q.counter += (uint64_t)first / (kind == INTEGERS ? 2 : 4);
    if (!cr_gpu_bind_window(g, &c, gpu_buffer_of(y), part, y->dtype, &q.y))
        return cr_gpu_fail_window(g, op, gpu_buffer_of(y)->bytes);
    return cr_gpu_run(g, &c);
}

static cr_status dispatch_stream(const char *op, draw kind, const cr_array *y, random_parameters q) {
    if (cr_gpu_lacks(op, y)) return cr_error_status();
    gpu *g = cr_gpu_enter(op, y->dev);
    if (!g) return cr_error_status();
    /* elements of a part: whole blocks of Philox, and a window holds them at any offset */
    const int64_t most = (int64_t)(g->window / 8) & ~(int64_t)63;
    cr_status status = CR_OK;
    for (int64_t first = 0; first < y->numel; first += most)
        if (status == CR_OK) status = run_part(g, op, kind, y, first, cr_imin(most, y->numel - first), q);
    return cr_gpu_leave(g, status);
}

cr_status cr_gpu_random(const cr_random_args *args) {
    const bool normal = args->kind == CR_RANDOM_NORMAL;
    const random_parameters q = {.seed = args->seed, .counter = args->counter};
    return dispatch_stream(normal ? "randn" : "rand", normal ? NORMAL : UNIFORM, &args->y, q);
}

cr_status cr_gpu_random_integers(const cr_random_integers_args *args) {
    const random_parameters q = {
        .seed = args->seed, .counter = args->counter, .low = (uint64_t)args->low, .span = args->span};
    return dispatch_stream("randint", INTEGERS, &args->y, q);
}
