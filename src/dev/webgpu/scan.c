/* scan.c - running sums, products, log-sum-exps and extremes of x (M, R, N) along R.
 *
 * An invocation goes over a chunk of one line.  Where lines are few they are cut: each chunk is summed first, these sums are scanned (cut again where
 * they are many), and each chunk starts from what is before it.  Cuts depend on the shape alone.  Weighted sums are never cut: a growing recurrence
 * would lose in the joining what it keeps step by step.
 *
 * What is carried is four words, `state`.  WebGPU has no double: sums and products of floats are pairs of f32 with an exponent of their own (wide_add,
 * wgsl_library.c), 2^-44 a step, so they overflow where the result does and are rounded once for f32.  A log-sum-exp is (m, s): m + log s, s a pair; m
 * follows the largest element at a distance of at most 8, for each move of it costs a rounding: a few units of f32 in all. */
#include "wgsl.h"

enum {
    BUSY = 1 << 13,                                 /* invocations that are enough to fill a GPU */
    LEAST = 32, MOST = 4096,                        /* steps of one: below, cutting costs more than it gives; above, lavapipe might stop it (65,535 turns) */
    FEW = 128, CHUNK = 64                           /* sums that one invocation scans; else these many a chunk */
};
typedef enum scan_task { SUM, SUM_STATES, CARRY, RESULTS } scan_task;         /* of chunks of x; of chunks of states; states as what is before each; the results */
enum { Y, X, STATES };                              /* bindings: where it writes, where it reads, what chunks start from; then the weights or the index */

typedef struct kernel {
    int family;
    scan_task task;
    cr_scan_kind kind;
    cr_dtype from, to;
    int reverse, weighted, index, carried;          /* carried: chunks start from states; weighted: and leave them */
} kernel;

typedef struct scan {
    gpu *g;
    kernel how;
    const cr_array *x, *a, *index;
    const cr_array *y;
    int64_t first, M, R, N;                         /* M lines, or N times as many, from line `first` on */
} scan;

static bool is_extreme(const kernel *h) { return h->kind >= CR_SCAN_MAX; }
static int other_of(const kernel *h) { return STATES + h->carried; }
static bool is_wide(const kernel *h) { return cr_dtype_is_float(h->from) && h->kind <= CR_SCAN_PROD; }

/* ---- text: element(at, k) is element k of a line as a state, join(a, b) what is before and what comes after */
static const char log_sums[] =
    "fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> {\n"
    "    let p = bitcast<f32>(a.x); let q = bitcast<f32>(b.x);\n"
    "    if is_nan(p) || b.x == 0xff800000u || (a.x == 0x7f800000u && !is_nan(q)) { return a; }\n"
    "    if is_nan(q) || a.x == 0xff800000u || b.x == 0x7f800000u { return b; }\n"
    "    let d = two_sum(q, -p); let stay = d.x <= 8.0; let u = select(-d, d, stay); var f = f_exp(u.x); if f > 0.0 { f += f * u.y; }\n"
    "    let kept = bitcast<vec3<f32>>(select(b.xyz, a.xyz, stay)); let scaled = bitcast<vec3<f32>>(select(a.xyz, b.xyz, stay));\n"
    "    let s = two_sum(kept.y, scaled.y * f); let y = two_sum(s.x, s.y + kept.z);\n"
    "    return bitcast<vec4<u32>>(vec4<f32>(kept.x, y, 0.0));\n}\n";

static void add_join(wgsl *w, const kernel *h) {
    if (h->kind == CR_SCAN_LOGSUMEXP) { cr_wgsl_add(w, "%s", log_sums); return; }
    if (is_wide(h)) cr_wgsl_add(w, "fn wide(s: vec4<u32>) -> vec3<f32> { return bitcast<vec3<f32>>(s.xyz); }\nfn state(v: vec3<f32>) -> vec4<u32> { return vec4<u32>(bitcast<vec3<u32>>(v), 0u); }\n");
    cr_wgsl_add(w, "fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return %s; }\n",
             is_extreme(h) ? "select(b, a, less_u64(b.xy, a.xy))" :
             is_wide(h) ? (h->kind == CR_SCAN_SUM ? "state(wide_add(wide(a), wide(b)))" : "state(wide_mul(wide(a), wide(b)))") :
             h->kind == CR_SCAN_SUM ? "vec4<u32>(add64(a.xy, b.xy), 0u, 0u)" : "vec4<u32>(mul64(a.xy, b.xy), 0u, 0u)");
}

static void add_element(wgsl *w, const kernel *h) {
    const cr_dtype dt = h->from;
    cr_wgsl_add(w, "fn element(at: u32, k: u32) -> vec4<u32> {\nlet x = %s;\n", cr_wgsl_load(X, dt, "(p[1].y + at)").s);
    if (is_extreme(h)) {
        cr_wgsl_add(w, "let key = %s;\n", cr_wgsl_key(dt, "x").s);
        if (h->kind == CR_SCAN_MIN && cr_dtype_is_float(dt)) cr_wgsl_add(w, "if is_nan(x) { return vec4<u32>(vec2<u32>(~0u), k, 0u); }\n");
        cr_wgsl_add(w, "return vec4<u32>(%s, k, 0u);\n}\n", h->kind == CR_SCAN_MAX ? "key" : "~key");
    } else if (is_wide(h)) cr_wgsl_add(w, "return state(wide_of(x));\n}\n");
    else if (h->kind == CR_SCAN_LOGSUMEXP) cr_wgsl_add(w, "return vec4<u32>(bitcast<u32>(x), 0x3f800000u, 0u, 0u);\n}\n");
    else cr_wgsl_add(w, "return vec4<u32>(%s, 0u, 0u);\n}\n", cr_wgsl_cast(CR_I64, dt, "x").s);
}

/* The result of element k at `at`, and in index where an extreme lay. */
static void add_result(wgsl *w, const kernel *h) {
    const cr_dtype dt = is_extreme(h) ? cr_moved_as(h->to) : h->to;
    if (is_extreme(h)) cr_wgsl_add(w, "let best = start + s.z * p[0].w;\nlet y = %s;\n", cr_wgsl_load(X, dt, "(p[1].y + best)").s);
    else if (is_wide(h)) cr_wgsl_add(w, "let y = wide_round(wide(s));\n");
    else if (h->kind == CR_SCAN_LOGSUMEXP)
        cr_wgsl_add(w, "let t = bitcast<vec3<f32>>(s.xyz);\nvar y = t.x;\nif (s.x & 0x7f800000u) != 0x7f800000u { y += f_log(t.y) + t.z / t.y; }\n");
    else cr_wgsl_add(w, "let y = s.xy;\n");
    cr_wgsl_add(w, "let o = p[1].x + at;\n");
    cr_wgsl_store(w, Y, dt, "o", "y");
    if (h->index) cr_wgsl_add(w, "set%d(2u * (p[1].z + at), s.z); set%d(2u * (p[1].z + at) + 1u, 0u);\n", other_of(h), other_of(h));
}

static void add_states(wgsl *w, int b, bool written) {
    cr_wgsl_add(w, "fn state%d(i: u32) -> vec4<u32> { return vec4<u32>(words%d(4u * i), words%d(4u * i + 1u), words%d(4u * i + 2u), words%d(4u * i + 3u)); }\n", b, b, b, b, b);
    if (written) cr_wgsl_add(w, "fn put_state%d(i: u32, s: vec4<u32>) { set%d(4u * i, s.x); set%d(4u * i + 1u, s.y); set%d(4u * i + 2u, s.z); set%d(4u * i + 3u, s.w); }\n", b, b, b, b, b);
}

/* p[0]: 0, invocations, R, N   p[1]: offsets of y, x, index or a   p[2]: elements of a chunk, chunks, the first chunk */
static void write(wgsl *w, const void *how) {
    const kernel *h = how;
    const bool of_states = h->task == SUM_STATES || h->task == CARRY;
    const int before = h->task == CARRY ? X : STATES;               /* the binding of what chunks start from */
    cr_wgsl_binding(w, Y, true, h->task == RESULTS && cr_wgsl_lanes(h->to) > 1);
    if (h->task != CARRY) cr_wgsl_binding(w, X, false, false);
    if (h->carried) cr_wgsl_binding(w, before, h->weighted, false);
    if (h->weighted || h->index) cr_wgsl_binding(w, other_of(h), h->index, false);
    if (h->task != RESULTS) add_states(w, Y, true);
    if (h->task == SUM_STATES) add_states(w, X, false);
    if (h->carried) add_states(w, before, h->weighted);
    add_join(w, h);
    if (!of_states) add_element(w, h);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "if i >= p[0].y { return; }\nlet n = i %% p[0].w; let c = i / p[0].w %% p[2].y + p[2].z; let m = i / p[0].w / p[2].y;\n"
             "let start = m * p[0].z * p[0].w + n; let first = c * p[2].x; let end = min(first + p[2].x, p[0].z);\nvar s: vec4<u32>;\n");
    if (h->carried) cr_wgsl_add(w, "if c > 0u { s = state%d(i); }\n", before);
    cr_wgsl_add(w, "for (var k = first; k < end; k++) {\nlet at = start + %s * p[0].w;\n", h->reverse && !of_states ? "(p[0].z - 1u - k)" : "k");
    cr_wgsl_add(w, "let v = %s;\n", h->task == CARRY ? "state0(at)" : of_states ? "state1(at)" : "element(at, k)");
    if (h->task == CARRY) cr_wgsl_add(w, "put_state0(at, s);\n");
    if (h->weighted) {                              /* reverse: with the weight of the element before, which lies behind */
        cr_wgsl_add(w, "if k == 0u { s = v; } else { let source = p[1].z + at%s; let a = %s; s = state(wide_add(wide(v), wide_mul(wide_of(a), wide(s)))); }\n",
                 h->reverse ? " + p[0].w" : "", cr_wgsl_load(other_of(h), h->from, "source").s);
    } else {
        cr_wgsl_add(w, "if k == %s { s = v; } else { s = join(s, v); }\n", h->carried ? "0u" : "first");
    }
    if (h->task == RESULTS) add_result(w, h);
    cr_wgsl_add(w, "}\n");
    if (h->task == SUM || h->task == SUM_STATES) cr_wgsl_add(w, "put_state0(i, s);\n");
    if (h->weighted) cr_wgsl_add(w, "put_state%d(i, s);\n", STATES);
    cr_wgsl_add(w, "}\n");
}

/* ---- runs */
static const char *name_of(const scan *s) {
    static const char *const names[] = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"};
    return names[s->how.kind];
}

/* The lines that are scanned now, of a tensor as large as x. */
static bool show(const scan *s, gpu_call *c, const cr_array *t, int word) {
    const int64_t line = s->R * s->N, first = t->offset + s->first * line;
    return cr_gpu_show(s->g, c, gpu_buffer_of(t), (gpu_span){first, first + s->M * line}, t->dtype, &c->q.words[word]);
}

/* `chunks` chunks of each line of R elements from `first` on, of x or of states `from` NULL: of x; to NULL: into y; before: what they start from, NULL: nothing. */
static cr_status run(const scan *s, scan_task task, gpu_buffer *to, gpu_buffer *from, gpu_buffer *before, int64_t R, int64_t chunk, int64_t first, int64_t chunks) {
    gpu_call call = {
        .op = name_of(s), .write = write, .written = 1u << Y,
        .q = {.n = 12, .words = {0, (uint32_t)(s->M * chunks * s->N), (uint32_t)R, (uint32_t)s->N, 0, 0, 0, 0, (uint32_t)chunk, (uint32_t)chunks, (uint32_t)first}},
        .invocations = (uint64_t)(s->M * chunks * s->N)};
    kernel h = s->how;
    const cr_array *other = task != RESULTS ? NULL : s->a ? s->a : s->index;
    bool fits = true;
    h.task = task;
    h.carried = before != NULL;
    h.index &= task == RESULTS;
    call.how = &h;
    call.how_bytes = sizeof h;
    if (to) call.buffer[call.buffers++] = to;
    else fits = show(s, &call, s->y, 4);
    if (from) call.buffer[call.buffers++] = from;
    else if (task != CARRY) fits = fits && show(s, &call, s->x, 5);
    if (before) call.buffer[call.buffers++] = before;
    if (other) {
        call.written |= s->a ? 1u << STATES : 1u << other_of(&h);
        fits = fits && show(s, &call, other, 6);
    }
    return fits ? cr_gpu_run(s->g, &call) : cr_gpu_fail_window(s->g, call.op, gpu_buffer_of(s->x)->bytes);
}

static int64_t pieces(int64_t n, int64_t each) { return (n + each - 1) / each; }
static gpu_buffer *take_states(const scan *s, int64_t chunks) { return cr_gpu_buffer_take(s->g, name_of(s), 16 * (size_t)(s->M * chunks * s->N)); }

/* (M, n, N) states become the sums of those before each; the first, which has none, is not used. */
static cr_status carry(const scan *s, gpu_buffer *states, int64_t n) {
    if (n <= FEW) return run(s, CARRY, states, NULL, NULL, n, n, 0, 1);
    const int64_t chunks = pieces(n, CHUNK);
    gpu_buffer *sums = take_states(s, chunks);
    if (!sums) return cr_error_status();
    cr_status status = run(s, SUM_STATES, sums, states, NULL, n, CHUNK, 0, chunks);
    if (status == CR_OK) status = carry(s, sums, chunks);
    if (status == CR_OK) status = run(s, CARRY, states, NULL, sums, n, CHUNK, 0, chunks);
    cr_gpu_buffer_give(s->g, sums);
    return status;
}

static cr_status run_chunks(const scan *s, gpu_buffer *states, int64_t chunk, int64_t chunks) {
    cr_status status = CR_OK;
    if (s->a) {                                     /* one after the other */
        for (int64_t c = 0; c < chunks && status == CR_OK; c++) status = run(s, RESULTS, NULL, NULL, states, s->R, chunk, c, 1);
        return status;
    }
    if (states) status = run(s, SUM, states, NULL, NULL, s->R, chunk, 0, chunks);
    if (states && status == CR_OK) status = carry(s, states, chunks);
    return status == CR_OK ? run(s, RESULTS, NULL, NULL, states, s->R, chunk, 0, chunks) : status;
}

static cr_status run_lines(const scan *s) {
    int64_t chunk = pieces(s->M * s->R * s->N, BUSY);
    if (chunk < LEAST) chunk = LEAST;
    if (chunk > MOST || s->a) chunk = MOST;
    const int64_t chunks = pieces(s->R, chunk);
    if (chunks == 1 && !s->a) return run_chunks(s, NULL, chunk, 1);
    gpu_buffer *states = take_states(s, s->a ? 1 : chunks);
    if (!states) return cr_error_status();
    cr_status status = run_chunks(s, states, chunk, chunks);
    cr_gpu_buffer_give(s->g, states);
    return status;
}

/* Halves of the lines until they fit into windows. */
static cr_status run_scan(scan s) {
    gpu_call unused = {0};
    const cr_array *other = s.a ? s.a : s.index;
    const bool fits = show(&s, &unused, s.y, 0) && show(&s, &unused, s.x, 0) && (!other || show(&s, &unused, other, 0));
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
    scan s = {.how = {'c', 0, kind, x->dtype, y->dtype, reverse, a != NULL, index != NULL, false}, .x = x, .a = a, .index = index, .y = y, .M = M, .R = R, .N = N};
    if (cr_gpu_lacks(name_of(&s), x)) return cr_error_status();
    s.g = cr_gpu_enter(name_of(&s), y->dev);
    return s.g ? cr_gpu_leave(s.g, run_scan(s)) : cr_error_status();
}
