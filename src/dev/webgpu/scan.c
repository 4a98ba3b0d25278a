/* scan.c - running sums, products, log-sum-exps and extremes of x (M, R, N) along R.
 *
 * An invocation goes over a chunk of one line.  Where there are few lines they are cut: each chunk
 * is summed first, these sums are scanned (cut again where there are many), and each chunk starts
 * from the sum of those before it.  Cuts depend on the shape only.  Weighted sums are never cut:
 * joining chunks of a growing recurrence would lose precision that single steps keep.
 *
 * The running value is a `state` of four words.  WebGPU has no double: sums and products of floats
 * are pairs of f32 with an exponent of their own (library.wgsl), with an error of 2^-44 a step, so
 * they overflow where the result does and are rounded once to f32.  A log-sum-exp is (m, s): m +
 * log s, where s is a pair; m stays within 8 of the largest element, since each change of m costs a
 * rounding: a few ulp of f32 in all. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum {
    BUSY = 1 << 13,                                 /* invocations that are enough to fill a GPU */
    /* steps of one: shorter chunks cost more than they save; lavapipe stops loops after 65,535
     * iterations */
    LEAST = 32, MOST = 4096,
    /* sums that one invocation scans; more are cut into chunks of CHUNK */
    FEW = 128, CHUNK = 64
};
typedef enum scan_task { SUM, SUM_STATES, CARRY, RESULTS } scan_task;         /* see scan.wgsl */

typedef struct kernel {
    int id;
    scan_task task;
    cr_scan_kind kind;
    cr_dtype from, to;
    int reverse, weighted, index, carried;          /* carried: chunks start from states; weighted: and update them */
} kernel;

typedef struct scan {
    gpu *g;
    kernel how;
    const cr_array *x, *a, *index;
    const cr_array *y;
    int64_t first, M, R, N;                         /* M lines, or N times as many, from line `first` on */
} scan;

static void add_constants(wgsl *w, const kernel *h) {
    static const char *const tasks[] = {"SUM", "SUM_STATES", "CARRY", "RESULTS"};
    const bool is_float = cr_dtype_is_float(h->from), extreme = h->kind >= CR_SCAN_MAX, sums = h->kind <= CR_SCAN_PROD;
    const bool of_x = h->task == SUM || h->task == RESULTS;
    cr_wgsl_const(w, tasks[h->task], 1);
    cr_wgsl_const(w, "SUMS", h->task == SUM || h->task == SUM_STATES);
    cr_wgsl_const(w, "OF_X", of_x);
    cr_wgsl_const(w, "EXTREME", extreme);
    cr_wgsl_const(w, "MIN_OF_FLOATS", h->kind == CR_SCAN_MIN && is_float);
    cr_wgsl_const(w, "LOGSUMEXP", h->kind == CR_SCAN_LOGSUMEXP);
    cr_wgsl_const(w, "FLOAT", sums && is_float);
    cr_wgsl_const(w, "INTEGER", sums && !is_float);
    cr_wgsl_const(w, "PRODUCT", h->kind == CR_SCAN_PROD);
    cr_wgsl_const(w, "CARRIED", h->carried);
    cr_wgsl_const(w, "REVERSE", h->reverse && of_x);
    cr_wgsl_const(w, "WEIGHTED", h->weighted);
    cr_wgsl_const(w, "INDEX", h->index);
}

static void add_arrays(wgsl *w, const kernel *h) {
    static const char state[] = "vec4<u32>";
    const bool extreme = h->kind >= CR_SCAN_MAX;
    if (h->task == RESULTS) cr_wgsl_array(w, "y", extreme ? cr_dtype_bits(h->to) : h->to, true);
    else cr_wgsl_storage(w, h->task == CARRY ? "states" : "sums", state, true);
    if (h->task == SUM_STATES) cr_wgsl_storage(w, "states", state, false);
    else if (h->task != CARRY) cr_wgsl_array(w, "x", h->from, false);
    if (h->carried) cr_wgsl_storage(w, "before", state, h->weighted);
    if (h->weighted) cr_wgsl_array(w, "a", h->from, false);
    if (h->index) cr_wgsl_array(w, "index", CR_I64, true);
}

static void write_kernel(wgsl *w, const void *how) {
    const kernel *h = how;
    const bool extreme = h->kind >= CR_SCAN_MAX;
    add_constants(w, h);
    add_arrays(w, h);
    if (extreme) cr_wgsl_key_function(w, h->from, h->kind == CR_SCAN_MIN);
    if (extreme && h->task == RESULTS) cr_wgsl_moved_function(w, h->to);
    if (!cr_dtype_is_float(h->from) && h->kind <= CR_SCAN_PROD) cr_wgsl_cast_function(w, "integer", CR_I64, h->from);
    cr_wgsl_file(w, cr_wgsl_scan);
    cr_wgsl_end(w, GPU_GROUP);
}

/* ---- runs */
static const char *name_of(const scan *s) {
    static const char *const names[] = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"};
    return names[s->how.kind];
}

/* The lines of this scan of t, which has the shape of x. */
static bool bind_lines(const scan *s, gpu_call *c, const cr_array *t, uint32_t *offset) {
    const int64_t line = s->R * s->N, first = t->offset + s->first * line;
    return cr_gpu_bind_window(s->g, c, gpu_buffer_of(t), (gpu_span){first, first + s->M * line}, t->dtype, offset);
}

/* One task over `chunks` chunks of each line of R elements, from chunk `first` on.  to NULL: y;
 * from NULL: x; before: the states that chunks start from, NULL: none. */
static cr_status dispatch_task(const scan *s, scan_task task, gpu_buffer *to, gpu_buffer *from, gpu_buffer *before,
                               int64_t R, int64_t chunk, int64_t first, int64_t chunks) {
    const int64_t count = s->M * chunks * s->N;
    const cr_array *other = task != RESULTS ? NULL : s->a ? s->a : s->index;
    kernel h = s->how;
    h.task = task;
    h.carried = before != NULL;
    h.index &= task == RESULTS;
    scan_parameters q = {.count = (uint32_t)count,
                         .R = (uint32_t)R,
                         .N = (uint32_t)s->N,
                         .chunk = (uint32_t)chunk,
                         .chunks = (uint32_t)chunks,
                         .first = (uint32_t)first};
    gpu_call call = {.op = name_of(s),
                     .write = write_kernel,
                     .how = &h,
                     .how_bytes = sizeof h,
                     .parameters = &q,
                     .parameters_bytes = sizeof q,
                     .groups = gpu_groups(count)};
    bool fits = true;
    if (to) call.buffer[call.buffers++] = to;
    else fits = bind_lines(s, &call, s->y, &q.y);
    if (from) call.buffer[call.buffers++] = from;
    else if (task != CARRY) fits = fits && bind_lines(s, &call, s->x, &q.x);
    if (before) call.buffer[call.buffers++] = before;
    if (other) fits = fits && bind_lines(s, &call, other, &q.other);
    return fits ? cr_gpu_run(s->g, &call) : cr_gpu_fail_window(s->g, call.op, gpu_buffer_of(s->x)->bytes);
}

static gpu_buffer *take_states(const scan *s, int64_t chunks) {
    return cr_gpu_buffer_take(s->g, name_of(s), 16 * (size_t)(s->M * chunks * s->N));
}

/* Each of (M, n, N) states becomes the sum of those before it; the first is not used. */
static cr_status carry(const scan *s, gpu_buffer *states, int64_t n) {
    if (n <= FEW) return dispatch_task(s, CARRY, states, NULL, NULL, n, n, 0, 1);
    const int64_t chunks = gpu_ceil_div(n, CHUNK);
    gpu_buffer *sums = take_states(s, chunks);
    if (!sums) return cr_error_status();
    cr_status status = dispatch_task(s, SUM_STATES, sums, states, NULL, n, CHUNK, 0, chunks);
    if (status == CR_OK) status = carry(s, sums, chunks);
    if (status == CR_OK) status = dispatch_task(s, CARRY, states, NULL, sums, n, CHUNK, 0, chunks);
    cr_gpu_buffer_give(s->g, sums);
    return status;
}

static cr_status run_chunks(const scan *s, gpu_buffer *states, int64_t chunk, int64_t chunks) {
    cr_status status = CR_OK;
    if (s->a) {                                     /* chunks one after the other */
        for (int64_t c = 0; c < chunks; c++)
            if (status == CR_OK) status = dispatch_task(s, RESULTS, NULL, NULL, states, s->R, chunk, c, 1);
        return status;
    }
    if (states) status = dispatch_task(s, SUM, states, NULL, NULL, s->R, chunk, 0, chunks);
    if (states && status == CR_OK) status = carry(s, states, chunks);
    return status == CR_OK ? dispatch_task(s, RESULTS, NULL, NULL, states, s->R, chunk, 0, chunks) : status;
}

static cr_status run_lines(const scan *s) {
    int64_t chunk = gpu_ceil_div(s->M * s->R * s->N, BUSY);
    chunk = s->a ? MOST : cr_imin(cr_imax(chunk, LEAST), MOST);
    const int64_t chunks = gpu_ceil_div(s->R, chunk);
    if (chunks == 1 && !s->a) return run_chunks(s, NULL, chunk, 1);
    gpu_buffer *states = take_states(s, s->a ? 1 : chunks);
    if (!states) return cr_error_status();
    cr_status status = run_chunks(s, states, chunk, chunks);
    cr_gpu_buffer_give(s->g, states);
    return status;
}

/* Splits the lines until they fit into windows. */
static cr_status run_scan(scan s) {
    gpu_call unused = {0};
    uint32_t offset;
    const cr_array *other = s.a ? s.a : s.index;
    const bool fits = bind_lines(&s, &unused, s.y, &offset) && bind_lines(&s, &unused, s.x, &offset) &&
                      (!other || bind_lines(&s, &unused, other, &offset));
    if (fits || s.M == 1) return run_lines(&s);
    scan half[2] = {s, s};
    half[0].M = s.M / 2;
    half[1].first += half[0].M;
    half[1].M -= half[0].M;
    cr_status status = run_scan(half[0]);
    return status == CR_OK ? run_scan(half[1]) : status;
}

cr_status cr_gpu_scan(const cr_scan_args *args) {
    const cr_array *y = &args->y, *index = cr_present(&args->index), *x = &args->x, *a = cr_present(&args->a);
    const cr_scan_kind kind = args->kind;
    const bool reverse = args->reverse;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], N = args->x.shape[2];
    scan s = {.how = {'c', 0, kind, x->dtype, y->dtype, reverse, a != NULL, index != NULL, false},
              .x = x,
              .a = a,
              .index = index,
              .y = y,
              .M = M,
              .R = R,
              .N = N};
    if (cr_gpu_lacks(name_of(&s), x)) return cr_error_status();
    s.g = cr_gpu_enter(name_of(&s), y->dev);
    return s.g ? cr_gpu_leave(s.g, run_scan(s)) : cr_error_status();
}
