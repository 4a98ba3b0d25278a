/* attention.c - o = softmax(scale q k^T + mask) v for every head, forward and backward, without a
 * matrix of scores: q, o (B, H, T, D), k, v (B, KV, S, D).
 *
 * A workgroup has EDGE queries (forward, dq) or keys (dk, dv) and goes over tiles of EDGE keys or
 * queries, parts of which pass through workgroup memory.  A longer row of D has more invocations, so
 * that the registers hold every sum.  The order of sums is that of the keys. */
#include "wgsl.gen.h"
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum {
    FOUR = 4,                                       /* rows of an invocation: of a vec4 */
    EDGE = 32,                                      /* rows, columns, and elements of D, of a tile */
    PITCH = EDGE + 1, PITCH4 = EDGE / FOUR + 1,     /* of a row in workgroup memory: no banks in common */
    UNROLLED = 4,
    WIDEST = 256,                                   /* D */
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
    int across, pairs;                              /* invocations for a row; pairs of its D for each */
    int in_pairs;                                   /* results are halves, and no two rows share a word */
    int mask;                                       /* there is a mask */
    int joint;                                      /* dk and dv lie in one buffer, which browsers bind once */
    int n;
    struct { role role; int written; } operand[MOST_OPERANDS];       /* in the order of bindings */
} kernel;

typedef struct heads {                              /* a kernel and its operands */
    kernel how;
    gpu_buffer *buffer[MOST_OPERANDS];
    const cr_array *t[MOST_OPERANDS];               /* NULL: contiguous f32 (B, H, T) of this file's own */
} heads;

/* of D elements; the others are f32 */
static bool is_key(role r) { return r == K || r == V || r == DK || r == DV; }
static bool is_row(role r) { return r != LSE && r != DELTA && r != MASK; }
static cr_dtype dtype_of(const kernel *h, role r) { return is_row(r) ? h->dtype : CR_F32; }

static heads heads_of(attention_kind kind, const cr_array *q) {
    const int64_t D = q->shape[3], across = D > 128 ? 32 : D > 64 ? 16 : 8;
    return (heads){.how = {.id = 'f',
                           .kind = kind,
                           .dtype = q->dtype,
                           .across = (int)across,
                           .pairs = (int)cr_imax(1, gpu_ceil_div(D, 2 * across)),
                           .in_pairs = cr_wgsl_lanes(q->dtype) == 2 && D % 2 == 0}};
}

static void add_operand(heads *a, role r, const cr_array *t, gpu_buffer *b, bool written) {
    if (!t && !b) return;
    const int i = a->how.n++;
    a->how.operand[i].role = r;
    a->how.operand[i].written = written;
    a->how.mask |= r == MASK;
    if (written && t && t->ndim == 4)
        for (int d = 0; d < 4; d++) a->how.in_pairs &= (d < 3 ? t->strides[d] : t->offset) % 2 == 0;
    a->t[i] = t;
    a->buffer[i] = t ? gpu_buffer_of(t) : b;
}

/* ---- source */
enum { OPERAND_NAMES = 8 };
static const char *const role_names[] = {"o", "lse", "q", "k", "v", "g", "delta", "dq", "dk", "dv", "mask"};
/* the operands of the products and sums of attention.wgsl, by kind */
static const struct { const char *name; role of[3]; } uses[OPERAND_NAMES] = {
    {"a0", {Q, Q, K}},      {"b0", {K, K, Q}},      {"c0", {V, K, G}},         {"y0", {O, DQ, DV}},
    {"a1", {ROLES, G, V}},  {"b1", {ROLES, V, G}},  {"c1", {ROLES, ROLES, Q}}, {"y1", {ROLES, ROLES, DK}}};

static int width(const kernel *h) { return 2 * h->across * h->pairs; }

static int lanes(const kernel *h) { return EDGE / FOUR * h->across; }

/* Rows of c that workgroup memory holds. */
static int height(const kernel *h) {
    int n = EDGE;
    while (n * width(h) > EDGE * PITCH) n /= 2;
    return n;
}

/* put_NAME(at, a, b, both): the elements at and, if both, at + 1 of x */
static void add_put(wgsl *w, const char *name, const char *x, bool in_pairs) {
    cr_wgsl_add(w, "fn put_%s(at: u32, a: f32, b: f32, both: bool) { ", name);
    if (in_pairs) cr_wgsl_add(w, "store2_%s(at, a, b); }\n", x);
    else cr_wgsl_add(w, "store_%s(at, a); if both { store_%s(at + 1u, b); } }\n", x, x);
}

static void write_kernel(wgsl *w, const void *how) {
    static const char *const kinds[] = {"FORWARD", "DQ", "DKV"};
    const kernel *h = how;
    const wgsl_constant constants[] = {{kinds[h->kind], 1},
                                       {"MASK", h->mask},
                                       {"PRODUCTS", h->kind == FORWARD ? 1 : 2},
                                       {"SUMS", h->kind == BACKWARD_KV ? 2 : 1},
                                       {"FOUR", FOUR},
                                       {"EDGE", EDGE},
                                       {"PITCH", PITCH},
                                       {"PITCH4", PITCH4},
                                       {"UNROLLED", UNROLLED},
                                       {"ACROSS", h->across},
                                       {"X", EDGE / h->across},
                                       {"PAIRS", h->pairs},
                                       {"WIDTH", width(h)},
                                       {"HEIGHT", height(h)}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        cr_wgsl_const(w, constants[i].name, constants[i].value);
    for (int i = 0; i < h->n; i++) {
        const role r = h->operand[i].role;
        if (h->joint && r == DV) continue;
        if (h->in_pairs && is_row(r) && h->operand[i].written) cr_wgsl_pairs(w, role_names[r], h->dtype);
        else cr_wgsl_array(w, role_names[r], dtype_of(h, r), h->operand[i].written);
    }
    for (int i = 0; i < OPERAND_NAMES; i++) {
        const char *name = uses[i].name;
        if (uses[i].of[h->kind] == ROLES) continue;
        const role r = uses[i].of[h->kind];
        const char *x = role_names[h->joint && r == DV ? DK : r];
        cr_wgsl_add(w, "fn at_%s(b: u32, h: u32, r: u32) -> u32 { return at_of(p.%s, b, h, r); }\n", name,
                    role_names[r]);
        if (*name != 'y') cr_wgsl_add(w, "fn %s(at: u32) -> f32 { return load_%s(at); }\n", name, x);
        else add_put(w, name, x, h->in_pairs);
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
static gpu_span span_of(const heads *a, int i, const work *k, const part *p, int64_t *begin, attention_operand *at) {
    const cr_array *t = a->t[i];
    const int64_t *n = k->n, shared = is_key(a->how.operand[i].role) ? 1 : k->shared;
    const bool four = t && t->ndim == 4;
    const int64_t plain[] = {n[1] * n[2], n[2], 1, 0}, *strides = four ? t->strides : plain;
    const int64_t shape[4] = {p->B, p->H * shared, four ? t->shape[2] : n[2], four ? t->shape[3] : 1};
    *begin = (t ? t->offset : 0) + p->b * strides[0] + p->h * shared * strides[1];
    at->b = (uint32_t)strides[0], at->h = (uint32_t)strides[1];
    at->row = (uint32_t)strides[2], at->column = (uint32_t)strides[3];
    return cr_gpu_span_of(*begin, 4, shape, strides);
}

static cr_status run_part(gpu *g, const char *op, const heads *a, attention_parameters q, const work *k, part w);

static cr_status run_halves(gpu *g, const char *op, const heads *a, attention_parameters q, const work *k, part w) {
    const bool batches = w.B > 1;
    const int64_t first = (batches ? w.B : w.H) / 2;
    const part half[2] = {batches ? (part){w.b, first, w.h, w.H} : (part){w.b, w.B, w.h, first},
                          batches ? (part){w.b + first, w.B - first, w.h, w.H}
                                  : (part){w.b, w.B, w.h + first, w.H - first}};
    cr_status status = run_part(g, op, a, q, k, half[0]);
    return status == CR_OK ? run_part(g, op, a, q, k, half[1]) : status;
}

/* Some batches or heads, split until they fit into windows and no dispatch runs too long. */
static cr_status run_part(gpu *g, const char *op, const heads *a, attention_parameters q, const work *k, part w) {
    const bool whole = w.B <= 1 && w.H <= 1;
    const double products = a->how.kind == FORWARD ? 2 : 4,
                 pairs = products * (double)(w.B * w.H * k->shared) * (double)k->n[2] * (double)k->S;
    gpu_call c = {.op = op,
                  .write = write_kernel,
                  .how = &a->how,
                  .how_bytes = sizeof a->how,
                  .parameters = &q,
                  .parameters_bytes = sizeof q,
                  .work = pairs * (double)k->n[3]};
    if (!whole && c.work > GPU_SPLIT * g->most_work) return run_halves(g, op, a, q, k, w);
    attention_operand *const at[ROLES] = {[O] = &q.o,   [LSE] = &q.lse,     [Q] = &q.q,   [K] = &q.k,
                                          [V] = &q.v,   [G] = &q.g,         [DQ] = &q.dq, [DK] = &q.dk,
                                          [DV] = &q.dv, [DELTA] = &q.delta, [MASK] = &q.mask};
    for (int i = 0; i < a->how.n; i++) {
        const role r = a->how.operand[i].role;
        const bool joint = a->how.joint && r == DK;
        int64_t begin[2];
        uint32_t offset;
        if (a->how.joint && r == DV) continue;
        gpu_span s = span_of(a, i, k, &w, &begin[0], at[r]);
        if (joint) {
            const gpu_span dv = span_of(a, i + 1, k, &w, &begin[1], at[DV]);
            s = (gpu_span){cr_imin(s.first, dv.first), cr_imax(s.end, dv.end)};
        }
        if (cr_gpu_bind_window(g, &c, a->buffer[i], s, dtype_of(&a->how, r), &offset)) {
            at[r]->offset = offset + (uint32_t)(begin[0] - s.first);
            if (joint) at[DV]->offset = offset + (uint32_t)(begin[1] - s.first);
            continue;
        }
        return whole ? cr_gpu_fail_window(g, op, a->buffer[i]->bytes) : run_halves(g, op, a, q, k, w);
    }
    q.H = (uint32_t)(a->how.kind == BACKWARD_KV ? w.H : w.H * k->shared);
    q.groups = (uint32_t)w.B * q.H * q.head_groups;
    c.groups = q.groups;
    return cr_gpu_run(g, &c);
}

static cr_status dispatch_heads(gpu *g, const char *op, const heads *a, const work *k) {
    const int64_t *n = k->n, rows = a->how.kind == BACKWARD_KV ? k->S : n[2];
    const attention_parameters q = {.T = (uint32_t)n[2],
                                    .S = (uint32_t)k->S,
                                    .head_groups = (uint32_t)gpu_ceil_div(rows, EDGE),
                                    .shared_by = (uint32_t)k->shared,
                                    .scale = (float)k->scale,
                                    .D = (uint32_t)n[3],
                                    .first = (int32_t)k->first,
                                    .last = (int32_t)k->last};
    return run_part(g, op, a, q, k, (part){0, n[0], 0, n[1] / k->shared});
}

/* Iterations of an invocation for a tile, of two products and two sums, as lavapipe counts: one more ends each
 * loop, and 14 more were measured. */
static int64_t iterations(const kernel *h, int64_t D) {
    const int64_t parts = gpu_ceil_div(D, EDGE), sums = EDGE / height(h), size = lanes(h),
                  product = EDGE * EDGE / FOUR / size + EDGE * EDGE / size + EDGE / UNROLLED + 4,
                  sum = height(h) * width(h) / size + height(h) + 4;
    return 2 * (parts * product + 1) + 2 * (sums * sum + 1) + 15;
}

bool cr_gpu_attention_takes(const cr_array *q, const cr_array *k) {
    const gpu *g = (const gpu *)(const void *)q->dev;
    const int64_t shared = q->shape[1] / cr_imax(1, k->shape[1]), D = q->shape[3];
    const int64_t tiles = cr_imax(shared * (q->shape[2] / EDGE + 2), k->shape[2] / EDGE + 2);
    if (D > WIDEST || g->limits.maxStorageBuffersPerShaderStage < MOST_OPERANDS) return false;
    const heads a = heads_of(BACKWARD_KV, q);
    return !g->dev.software || tiles * iterations(&a.how, D) + D <= MOST_ITERATIONS;
}

cr_status cr_gpu_attention(const cr_attention_args *args) {
    const cr_array *o = &args->o, *lse = &args->lse, *q = &args->q, *k = &args->k, *v = &args->v,
        *mask = cr_present(&args->mask);
    const work w = {q->shape, k->shape[2], q->shape[1] / k->shape[1], args->first, args->last, args->scale};
    if (cr_gpu_lacks("attention", q)) return cr_error_status();
    gpu *g = cr_gpu_enter("attention", q->dev);
    if (!g) return cr_error_status();
    heads a = heads_of(FORWARD, q);
    add_operand(&a, O, o, NULL, true);
    add_operand(&a, LSE, lse, NULL, true);
    add_operand(&a, Q, q, NULL, false);
    add_operand(&a, K, k, NULL, false);
    add_operand(&a, V, v, NULL, false);
    add_operand(&a, MASK, mask, NULL, false);
    return cr_gpu_leave(g, dispatch_heads(g, "attention", &a, &w));
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
    add_operand(&a, DQ, dq, NULL, true);
    add_operand(&a, DELTA, NULL, delta, true);
    add_operand(&a, LSE, lse, NULL, false);
    add_operand(&a, Q, q, NULL, false);
    add_operand(&a, K, k, NULL, false);
    add_operand(&a, V, v, NULL, false);
    add_operand(&a, G, cotangent, NULL, false);
    add_operand(&a, O, o, NULL, false);
    add_operand(&a, MASK, mask, NULL, false);
    add_operand(&b, DK, dk, NULL, true);
    add_operand(&b, DV, dv, NULL, true);            /* after dk */
    b.how.joint = dk->storage == dv->storage;
    add_operand(&b, LSE, lse, NULL, false);
    add_operand(&b, Q, q, NULL, false);
    add_operand(&b, K, k, NULL, false);
    add_operand(&b, V, v, NULL, false);
    add_operand(&b, G, cotangent, NULL, false);
    add_operand(&b, DELTA, NULL, delta, false);
    add_operand(&b, MASK, mask, NULL, false);
    cr_status status = dispatch_heads(g, op, &a, &w);
    if (status == CR_OK) status = dispatch_heads(g, op, &b, &w);
    cr_gpu_buffer_give(g, delta);
    return cr_gpu_leave(g, status);
}
