/* attention.c - o = softmax(scale q k^T + mask) v for every head, forward and backward, without a
 * matrix of scores: q, o (B, H, T, D), k, v (B, KV, S, D).
 *
 * An invocation has one query (forward, dq) or one key (dk, dv) and goes over the keys or queries
 * that it meets, four at a time: all of a workgroup read the same ones, of one head.  Its sums over
 * them, a row of D, lie in workgroup memory: rows in registers would need unrolled source, which
 * drivers take seconds to compile.  Invocations share and add nothing: the order of sums is that of
 * the keys. */
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum {
    FOUR = 4,                                       /* keys or queries at a time */
    WIDE = 64, WIDEST = 256,                        /* D: rows of sums have room for the one or the other */
    SHARED_BYTES = 16384,                           /* workgroup memory that every GPU has */
    /* of loops on a software GPU: lavapipe ends an invocation silently after 65535 */
    MOST_ITERATIONS = 65000
};
typedef enum attention_kind { FORWARD, BACKWARD_Q, BACKWARD_KV } attention_kind;
typedef enum role { O, LSE, Q, K, V, G, DELTA, DQ, DK, DV, MASK, ROLES } role;
enum { MOST_OPERANDS = 9 };

typedef struct kernel {
    int id;
    attention_kind kind;
    cr_dtype dtype;
    int room;                                       /* WIDE or WIDEST */
    int odd;                                        /* D is not a multiple of 4 */
    int mask;                                       /* there is a mask */
    int n;
    struct { role role; int written; } operand[MOST_OPERANDS];       /* in the order of bindings */
} kernel;

typedef struct heads {                              /* a kernel and its operands */
    kernel how;
    gpu_buffer *buffer[MOST_OPERANDS];
    const cr_array *t[MOST_OPERANDS];               /* NULL: contiguous f32 (B, H, T) of this file's own */
} heads;

typedef struct place { uint32_t offset, stride[4], unused[3]; } place;
typedef struct parameters {
    uint32_t zero, T, S, H, groups, head_groups, shared;
    float scale;
    uint32_t D, fours;
    int32_t first, last;
    place at[ROLES];
} parameters;
_Static_assert(sizeof(parameters) == 48 + 32 * ROLES, "the struct of attention.wgsl");

/* of D elements; the others are f32 */
static bool is_key(role r) { return r == K || r == V || r == DK || r == DV; }
static bool is_row(role r) { return r != LSE && r != DELTA && r != MASK; }
static cr_dtype dtype_of(const kernel *h, role r) { return is_row(r) ? h->dtype : CR_F32; }

static heads heads_of(attention_kind kind, const cr_array *q) {
    const int64_t D = q->shape[3];
    return (heads){
        .how = {.id = 'f', .kind = kind, .dtype = q->dtype, .room = D > WIDE ? WIDEST : WIDE, .odd = D % 4 != 0}};
}

static void add(heads *a, role r, const cr_array *t, gpu_buffer *b, bool written) {
    if (!t && !b) return;
    const int i = a->how.n++;
    a->how.operand[i].role = r;
    a->how.operand[i].written = written;
    a->how.mask |= r == MASK;
    a->t[i] = t;
    a->buffer[i] = t ? gpu_buffer_of(t) : b;
}

/* ---- source */
static int64_t fours(int64_t D) { return gpu_ceil_div(D, 4); }

/* Invocations of a workgroup: one row of sums each, or two. */
static int lanes(const kernel *h) {
    return SHARED_BYTES / ((int)sizeof(float) * h->room * (h->kind == BACKWARD_KV ? 2 : 1));
}

/* load4_NAME(at, d): elements d to d + 3 of the row at `at`, 0 beyond D */
static void add_load4(wgsl *w, const char *x, bool odd) {
    cr_wgsl_add(w, "fn load4_%s(at: u32, d: u32) -> vec4<f32> { return vec4<f32>(", x);
    for (int n = 0; n < FOUR; n++) {
        if (odd) cr_wgsl_add(w, "select(0.0, load_%s(at + min(d + %du, p.D - 1u)), d + %du < p.D), ", x, n, n);
        else cr_wgsl_add(w, "load_%s(at + d + %du), ", x, n);
    }
    cr_wgsl_add(w, "); }\n");
}

static void write(wgsl *w, const void *how) {
    static const char *const kinds[] = {"FORWARD", "DQ", "DKV"};
    static const char *const names[] = {"o", "lse", "q", "k", "v", "g", "delta", "dq", "dk", "dv", "mask"};
    const kernel *h = how;
    cr_wgsl_const(w, kinds[h->kind], 1);
    cr_wgsl_const(w, "MASK", h->mask);
    cr_wgsl_const(w, "FOUR", FOUR);
    cr_wgsl_const(w, "LENGTH", lanes(h) * h->room / FOUR);
    for (int i = 0; i < h->n; i++) {
        const role r = h->operand[i].role;
        cr_wgsl_array(w, names[r], dtype_of(h, r), h->operand[i].written);
        if (is_row(r) && !h->operand[i].written) add_load4(w, names[r], h->odd);
    }
    cr_wgsl_file(w, cr_wgsl_attention);
    cr_wgsl_end(w, lanes(h));
}

/* ---- dispatches */
/* B batches from b on, H heads of keys of each from h on */
typedef struct part { int64_t b, B, h, H; } part;
/* of a call: query t sees the keys t + first .. t + last; shared: heads of q that share one of k and v */
typedef struct work { const int64_t *n; int64_t S, shared, first, last; double scale; } work;

/* Offset and strides of operand i, whose first element is number *begin of its buffer; n: the shape
 * of q. */
static gpu_span span_of(const heads *a, int i, const work *k, const part *p, int64_t *begin, place *at) {
    const cr_array *t = a->t[i];
    const int64_t *n = k->n, shared = is_key(a->how.operand[i].role) ? 1 : k->shared;
    const bool four = t && t->ndim == 4;
    const int64_t plain[] = {n[1] * n[2], n[2], 1, 0}, *strides = four ? t->strides : plain;
    const int64_t shape[4] = {p->B, p->H * shared, four ? t->shape[2] : n[2], four ? t->shape[3] : 1};
    *begin = (t ? t->offset : 0) + p->b * strides[0] + p->h * shared * strides[1];
    for (int d = 0; d < 4; d++) at->stride[d] = (uint32_t)strides[d];
    return cr_gpu_span_of(*begin, 4, shape, strides);
}

static cr_status run_part(gpu *g, const char *op, const heads *a, parameters q, const work *k, part w);

static cr_status run_halves(gpu *g, const char *op, const heads *a, parameters q, const work *k, part w) {
    const bool batches = w.B > 1;
    const int64_t first = (batches ? w.B : w.H) / 2;
    const part half[2] = {batches ? (part){w.b, first, w.h, w.H} : (part){w.b, w.B, w.h, first},
                          batches ? (part){w.b + first, w.B - first, w.h, w.H}
                                  : (part){w.b, w.B, w.h + first, w.H - first}};
    cr_status status = run_part(g, op, a, q, k, half[0]);
    return status == CR_OK ? run_part(g, op, a, q, k, half[1]) : status;
}

/* Some batches or heads, split until they fit into windows and no dispatch runs too long. */
static cr_status run_part(gpu *g, const char *op, const heads *a, parameters q, const work *k, part w) {
    const bool whole = w.B <= 1 && w.H <= 1;
    const double products = a->how.kind == FORWARD ? 2 : 4,
                 pairs = products * (double)(w.B * w.H * k->shared) * (double)k->n[2] * (double)k->S;
    gpu_call c = {.op = op,
                  .write = write,
                  .how = &a->how,
                  .how_bytes = sizeof a->how,
                  .parameters = &q,
                  .parameters_bytes = sizeof q,
                  .work = pairs * (double)k->n[3]};
    if (!whole && c.work > GPU_SPLIT * g->most_work) return run_halves(g, op, a, q, k, w);
    for (int i = 0; i < a->how.n; i++) {
        const role r = a->how.operand[i].role;
        int64_t begin;
        const gpu_span s = span_of(a, i, k, &w, &begin, &q.at[r]);
        if (cr_gpu_bind_window(g, &c, a->buffer[i], s, dtype_of(&a->how, r), &q.at[r].offset)) {
            q.at[r].offset += (uint32_t)(begin - s.first);
            continue;
        }
        return whole ? cr_gpu_fail_window(g, op, a->buffer[i]->bytes) : run_halves(g, op, a, q, k, w);
    }
    q.H = (uint32_t)(a->how.kind == BACKWARD_KV ? w.H : w.H * k->shared);
    q.groups = (uint32_t)w.B * q.H * q.head_groups;
    c.groups = q.groups;
    return cr_gpu_run(g, &c);
}

static cr_status run(gpu *g, const char *op, const heads *a, const work *k) {
    const int64_t *n = k->n, rows = a->how.kind == BACKWARD_KV ? k->S : n[2];
    const parameters q = {.T = (uint32_t)n[2],
                          .S = (uint32_t)k->S,
                          .head_groups = (uint32_t)gpu_ceil_div(rows, lanes(&a->how)),
                          .shared = (uint32_t)k->shared,
                          .scale = (float)k->scale,
                          .D = (uint32_t)n[3],
                          .fours = (uint32_t)fours(n[3]),
                          .first = (int32_t)k->first,
                          .last = (int32_t)k->last};
    return run_part(g, op, a, q, k, (part){0, n[0], 0, n[1] / k->shared});
}

bool cr_gpu_attention_takes(const cr_array *q, const cr_array *k) {
    const gpu *g = (const gpu *)(const void *)q->dev;
    const int64_t shared = q->shape[1] / cr_imax(1, k->shape[1]), D = q->shape[3];
    const int64_t most = cr_imax(q->shape[2] * shared, k->shape[2]);
    return D <= WIDEST && g->limits.maxStorageBuffersPerShaderStage >= MOST_OPERANDS &&
           (!g->dev.software || (most / FOUR + 1) * (2 * fours(D) + 1) + 4 * D <= MOST_ITERATIONS);
}

cr_status cr_gpu_attention(const cr_attention_args *args) {
    const cr_array *o = &args->o, *lse = &args->lse, *q = &args->q, *k = &args->k, *v = &args->v,
        *mask = cr_present(&args->mask);
    const work w = {q->shape, k->shape[2], q->shape[1] / k->shape[1], args->first, args->last, args->scale};
    if (cr_gpu_lacks("attention", q)) return cr_error_status();
    gpu *g = cr_gpu_enter("attention", q->dev);
    if (!g) return cr_error_status();
    heads a = heads_of(FORWARD, q);
    add(&a, O, o, NULL, true);
    add(&a, LSE, lse, NULL, true);
    add(&a, Q, q, NULL, false);
    add(&a, K, k, NULL, false);
    add(&a, V, v, NULL, false);
    add(&a, MASK, mask, NULL, false);
    return cr_gpu_leave(g, run(g, "attention", &a, &w));
}

cr_status cr_gpu_attention_bwd(const cr_attention_bwd_args *args) {
    const cr_array *dq = &args->dq, *dk = &args->dk, *dv = &args->dv, *q = &args->q, *k = &args->k, *v = &args->v,
        *mask = cr_present(&args->mask), *o = &args->o, *lse = &args->lse, *cotangent = &args->g;
    static const char op[] = "attention_bwd";
    const int64_t *n = q->shape;
    const work w = {n, k->shape[2], n[1] / k->shape[1], args->first, args->last, args->scale};
    if (cr_gpu_lacks(op, q)) return cr_error_status();
    gpu *g = cr_gpu_enter(op, q->dev);
    if (!g) return cr_error_status();
    gpu_buffer *delta = cr_gpu_buffer_take(g, op, (size_t)(n[0] * n[1] * n[2]) * sizeof(float));
    if (!delta) return cr_gpu_leave(g, cr_error_status());
    heads a = heads_of(BACKWARD_Q, q), b = heads_of(BACKWARD_KV, q);
    add(&a, DQ, dq, NULL, true);
    add(&a, DELTA, NULL, delta, true);
    add(&a, LSE, lse, NULL, false);
    add(&a, Q, q, NULL, false);
    add(&a, K, k, NULL, false);
    add(&a, V, v, NULL, false);
    add(&a, G, cotangent, NULL, false);
    add(&a, O, o, NULL, false);
    add(&a, MASK, mask, NULL, false);
    add(&b, DK, dk, NULL, true);
    add(&b, DV, dv, NULL, true);
    add(&b, LSE, lse, NULL, false);
    add(&b, Q, q, NULL, false);
    add(&b, K, k, NULL, false);
    add(&b, V, v, NULL, false);
    add(&b, G, cotangent, NULL, false);
    add(&b, DELTA, NULL, delta, false);
    add(&b, MASK, mask, NULL, false);
    cr_status status = run(g, op, &a, &w);
    if (status == CR_OK) status = run(g, op, &b, &w);
    cr_gpu_buffer_give(g, delta);
    return cr_gpu_leave(g, status);
}
