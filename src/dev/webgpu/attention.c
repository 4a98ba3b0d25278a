/* attention.c - o = softmax(scale q k^T + mask) v for every head, forward and backward, without a matrix of scores: q, o (B, H, T, D), k, v (B, H, S, D).
 *
 * An invocation has one query (forward, dq) or one key (dk, dv) and goes over the keys, or queries, that it meets, four at a time: all of
 * a workgroup read the same ones, of one head.  Its sums over them, a row of D, lie in workgroup memory, for rows in registers would have
 * to be written out in the text, which drivers take seconds to compile.  Nothing is shared or added between invocations: the order of
 * sums is that of the keys. */
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE = 4,
    WIDE = 64, WIDEST = 256,                        /* D: rows of sums have room for the one or the other */
    SHARED_BYTES = 16384,                           /* workgroup memory that every GPU has */
    MOST_TURNS = 65000                              /* of its loops, where the processor plays the GPU: lavapipe ends it silently after 65535 */
};
typedef enum kind { FORWARD, DQ, DKV } kind;
enum { MOST_OPERANDS = 9, OPERANDS_AT = 12, OPERAND_WORDS = 5 };

typedef struct heads {                              /* one kernel and its operands, in the order of bindings */
    kind kind;
    cr_dtype dtype;
    int room;                                       /* WIDE or WIDEST */
    bool odd;                                       /* D is not a multiple of 4 */
    int n, mask;                                    /* mask: its binding, -1: there is none */
    char name[MOST_OPERANDS];                       /* begins the names of its functions; a capital: one f32 for each query, (B, H, T) */
    uint32_t written;
    gpu_buffer *buffer[MOST_OPERANDS];
    const cr_array *t[MOST_OPERANDS];              /* NULL: contiguous f32 (B, H, T) of our own */
} heads;

static int add(heads *a, char name, const cr_array *t, gpu_buffer *b, bool written) {
    a->name[a->n] = name;
    a->t[a->n] = t;
    a->buffer[a->n] = t ? gpu_buffer_of(t) : b;
    a->written |= (uint32_t)written << a->n;
    return a->n++;
}

/* Parameters: 0, T, S, H; workgroups, workgroups of a head, causal, scale; D, D / 4 rounded up; then of each operand: offset, strides of B, H, rows, columns. */
static expr word(int operand, int i) { return cr_wgsl_parameter(OPERANDS_AT + OPERAND_WORDS * operand + i); }

/* ---- text */
static int64_t fours(int64_t D) { return (D + 3) / 4; }
#define EACH_D "for (var d = 0u; d < p[2].y; d++) { "

/* x_row(r): where row r of this head begins;  x4(at, d): its elements d to d + 3, 0 beyond D */
static void add_operand(wgsl *w, const heads *a, int i) {
    const char x = a->name[i];
    const bool row = x >= 'a', written = a->written >> i & 1;
    const cr_dtype dt = row ? a->dtype : CR_F32;
    cr_wgsl_binding(w, i, written, written && cr_wgsl_lanes(dt) > 1);
    cr_wgsl_add(w, "fn %c_row(b: u32, h: u32, r: u32) -> u32 { return %s + b * %s + h * %s + r * %s; }\n", x, word(i, 0).s, word(i, 1).s, word(i, 2).s, word(i, 3).s);
    if (row && written) {
        cr_wgsl_add(w, "fn %c_put(e: u32, v: f32) { ", x);
        cr_wgsl_store(w, i, dt, "e", "v");
        cr_wgsl_add(w, "}\n");
        return;
    }
    cr_wgsl_add(w, "fn %c_of(e: u32) -> f32 { return %s; }\n", x, cr_wgsl_load(i, dt, "e").s);
    if (!row) return;
    cr_wgsl_add(w, "fn %c4(at: u32, d: u32) -> vec4<f32> { return vec4<f32>(", x);
    for (int n = 0; n < 4; n++) {
        if (a->odd) cr_wgsl_add(w, "select(0.0, %c_of(at + min(d + %du, p[2].x - 1u)), d + %du < p[2].x)", x, n, n);
        else cr_wgsl_add(w, "%c_of(at + d + %du)", x, n);
        cr_wgsl_add(w, n < 3 ? ", " : "); }\n");
    }
}

/* Invocations of a workgroup: one row of sums each, or two. */
static int lanes(const heads *a) { return SHARED_BYTES / ((int)sizeof(float) * a->room * (a->kind == DKV ? 2 : 1)); }

/* Four rows from `other` on of operand x, the last again beyond the end: x_at0 .. x_at3. */
static void add_rows(wgsl *w, char x, const char *rows) {
    for (int i = 0; i < AT_ONCE; i++) cr_wgsl_add(w, "let %c_at%d = %c_row(b, h, min(other + %du, %s - 1u));\n", x, i, x, i, rows);
}

static void add_dots(wgsl *w, const char *sum, char kept, char x) {
    cr_wgsl_add(w, "{ let kept4 = %c4(%c_at, 4u * d); %s += vec4<f32>(", kept, kept, sum);
    for (int i = 0; i < AT_ONCE; i++) cr_wgsl_add(w, "dot(kept4, %c4(%c_at%d, 4u * d))%s", x, x, i, i < AT_ONCE - 1 ? ", " : "); }\n");
}

/* x: the scores of the four pairs, and y: the dot products of rows u and v, where there are such; keys: others are keys, else queries */
static void add_scores(wgsl *w, const heads *a, bool keys, char u, char v) {
    cr_wgsl_add(w, "var x = vec4<f32>(); var y = vec4<f32>();\n" EACH_D "\n");
    add_dots(w, "x", keys ? 'q' : 'k', keys ? 'k' : 'q');
    if (u) add_dots(w, "y", u, v);
    cr_wgsl_add(w, "}\nx *= scale;\n");
    if (a->mask < 0) return;
    for (int i = 0; i < AT_ONCE; i++) {
        cr_wgsl_add(w, "{ let o = min(other + %du, %s - 1u); let at = %s + b * %s + h * %s + ", i, keys ? "S" : "T", word(a->mask, 0).s, word(a->mask, 1).s, word(a->mask, 2).s);
        cr_wgsl_add(w, "%s * %s + %s * %s; x[%d] += %s; }\n", keys ? "kept" : "o", word(a->mask, 3).s, keys ? "o" : "kept", word(a->mask, 4).s, i, cr_wgsl_load(a->mask, CR_F32, "at").s);
    }
}

/* + the weights times the rows of x, of which those that are not seen do not count: there may be NaN in them */
static void add_weighted(wgsl *w, const char *weights, char x) {
    for (int i = 0; i < AT_ONCE; i++) cr_wgsl_add(w, " + select(vec4<f32>(), %s[%d] * %c4(%c_at%d, 4u * d), see[%d])", weights, i, x, x, i, i);
    cr_wgsl_add(w, ";\n");
}

static void add_store(wgsl *w, const heads *a, int operand, char sum, const char *factor) {
    const char x = a->name[operand];
    cr_wgsl_add(w, "{ let to = %c_row(b, h, kept);\n" EACH_D "let v = %c[d * %du + lane]%s;\n", x, sum, lanes(a), factor);
    cr_wgsl_add(w, "for (var e = 0u; e < min(4u, p[2].x - 4u * d); e++) { %c_put(to + 4u * d + e, v[e]); } }\n}\n", x);
}

static void add_keys_seen(wgsl *w, const heads *a) {
    cr_wgsl_add(w, "for (var other = 0u; other < seen(min(first + %du, T - 1u)); other += 4u) {\n", lanes(a) - 1);
    cr_wgsl_add(w, "let see = vec4<bool>(other < n, other + 1u < n, other + 2u < n, other + 3u < n);\n");
    add_rows(w, 'k', "S");
    add_rows(w, 'v', "S");
}

/* m: the largest score so far, l: the sum of exp(score - m) */
static void add_forward(wgsl *w, const heads *a) {
    cr_wgsl_add(w, "var m = -inf(); var l = 0.0;\nlet n = seen(kept);\n");
    add_keys_seen(w, a);
    add_scores(w, a, true, 0, 0);
    cr_wgsl_add(w, "x = select(vec4<f32>(-inf()), x, see);\nlet most = f_max(m, f_max(f_max(x.x, x.y), f_max(x.z, x.w)));\nlet base = select(most, 0.0, most == -inf());\n"
             "let keep = f_exp(m - base); let share = vec4<f32>(f_exp(x.x - base), f_exp(x.y - base), f_exp(x.z - base), f_exp(x.w - base));\n"
             "l = l * keep + ((share.x + share.y) + (share.z + share.w)); m = most;\n" EACH_D "let at = d * %du + lane; s[at] = s[at] * keep", lanes(a));
    add_weighted(w, "share", 'v');
    cr_wgsl_add(w, "}\n}\nif !mine { return; }\nlet blind = m == -inf(); let whole = select(1.0 / l, 0.0, blind);\nset1(L_row(b, h, kept), bitcast<u32>(select(m + f_log(l), m, blind)));\n");
    add_store(w, a, 0, 's', " * whole");
}

/* of x the scores less lse, y = g . v and delta = g . o:  share = exp(x),  ds = share (y - delta) */
static const char weights[] = "let share = select(vec4<f32>(), vec4<f32>(f_exp(x.x), f_exp(x.y), f_exp(x.z), f_exp(x.w)), see);\nlet ds = share * (y - delta);\n";

/* dq = scale ds k */
static void add_dq(wgsl *w, const heads *a) {
    cr_wgsl_add(w, "var sum = 0.0; \n" EACH_D "sum += dot(g4(g_at, 4u * d), o4(o_at, 4u * d)); }\nlet delta = vec4<f32>(sum);\n");
    cr_wgsl_add(w, "let lse = L_of(L_row(b, h, kept)); let n = select(seen(kept), 0u, lse == -inf());\n");
    add_keys_seen(w, a);
    add_scores(w, a, true, 'g', 'v');
    cr_wgsl_add(w, "x -= vec4<f32>(lse);\n%s" EACH_D "let at = d * %du + lane; s[at] = s[at]", weights, lanes(a));
    add_weighted(w, "ds", 'k');
    cr_wgsl_add(w, "}\n}\nif !mine { return; }\nset1(E_row(b, h, kept), bitcast<u32>(sum));\n");
    add_store(w, a, 0, 's', " * scale");
}

/* dv = share g,  dk = scale ds q, over the queries that see the key */
static void add_dkv(wgsl *w, const heads *a) {
    cr_wgsl_add(w, "for (var other = earliest(first); other < T; other += 4u) {\nvar lse: vec4<f32>; var delta: vec4<f32>; var see: vec4<bool>;\n");
    for (int i = 0; i < AT_ONCE; i++)
        cr_wgsl_add(w, "{ let t = min(other + %du, T - 1u); lse[%d] = L_of(L_row(b, h, t)); delta[%d] = E_of(E_row(b, h, t)); "
                 "see[%d] = other + %du < T && kept < seen(t) && lse[%d] != -inf(); }\n", i, i, i, i, i, i);
    add_rows(w, 'q', "T");
    add_rows(w, 'g', "T");
    add_scores(w, a, false, 'v', 'g');
    cr_wgsl_add(w, "x -= lse;\n%s" EACH_D "let at = d * %du + lane; s[at] = s[at]", weights, lanes(a));
    add_weighted(w, "ds", 'q');
    cr_wgsl_add(w, "r[at] = r[at]");
    add_weighted(w, "share", 'g');
    cr_wgsl_add(w, "}\n}\nif !mine { return; }\n");
    add_store(w, a, 0, 's', " * scale");
    add_store(w, a, 1, 'r', "");
}

static wgsl text_of(const gpu *g, const heads *a) {
    wgsl w = wgsl_for(g);
    for (int i = 0; i < a->n; i++) {
        if (i == a->mask) cr_wgsl_binding(&w, i, false, false);
        else add_operand(&w, a, i);
    }
    /* how many keys query t sees, and the first query that sees key s */
    cr_wgsl_add(&w, "fn seen(t: u32) -> u32 { if p[1].z == 0u { return p[0].z; } return u32(max(0, bitcast<i32>(t + 1u + p[0].z - p[0].y))); }\n"
             "fn earliest(s: u32) -> u32 { if p[1].z == 0u { return 0u; } return u32(max(0, bitcast<i32>(s + p[0].y - p[0].z))); }\n");
    for (int i = 0; i < (a->kind == DKV ? 2 : 1); i++) cr_wgsl_add(&w, "var<workgroup> %c: array<vec4<f32>, %d>;\n", "sr"[i], lanes(a) * a->room / 4);
    cr_wgsl_main(&w, lanes(a));
    cr_wgsl_add(&w, "if group >= p[1].x { return; }\nlet T = p[0].y; let S = p[0].z; let head = group / p[1].y; let h = head %% p[0].w; let b = head / p[0].w; let scale = bitcast<f32>(p[1].w);\n"
             "let first = group %% p[1].y * %du; let mine = first + lane < %s; let kept = min(first + lane, %s - 1u);\n", lanes(a), a->kind == DKV ? "S" : "T", a->kind == DKV ? "S" : "T");
    for (const char *x = a->kind == DKV ? "kv" : a->kind == DQ ? "qgo" : "q"; *x; x++) cr_wgsl_add(&w, "let %c_at = %c_row(b, h, kept);\n", *x, *x);
    cr_wgsl_add(&w, EACH_D "s[d * %du + lane] = vec4<f32>(); %s}\n", lanes(a), a->kind == DKV ? cr_expr_of("r[d * %du + lane] = vec4<f32>(); ", lanes(a)).s : "");
    if (a->kind == FORWARD) add_forward(&w, a);
    else if (a->kind == DQ) add_dq(&w, a);
    else add_dkv(&w, a);
    cr_wgsl_add(&w, "}\n");
    return w;
}

/* ---- what it is run with */
typedef struct part { int64_t b, B, h, H; } part;   /* B batches from b on, H heads of each from h on */

/* Operand i: offset and strides of (B, H, rows, columns); how it lies in memory of our own, too */
static gpu_span place(const heads *a, int i, const int64_t *n, const part *p, int64_t at[OPERAND_WORDS]) {
    const cr_array *t = a->t[i];
    const int64_t plain[] = {n[1] * n[2], n[2], 1, 0};
    int64_t shape[4] = {p->B, p->H, n[2], 1};
    at[0] = t ? t->offset : 0;
    for (int d = 0; d < 4; d++) {
        at[1 + d] = t && t->ndim == 4 ? t->strides[d] : plain[d];
        if (d > 1 && t && t->ndim == 4) shape[d] = t->shape[d];
    }
    at[0] += p->b * at[1] + p->h * at[2];
    return cr_gpu_span_of(at[0], 4, shape, at + 1);
}

/* Some batches or heads; halves of them until they fit into windows. */
static cr_status run_part(gpu *g, const char *op, const gpu_pipeline *p, const heads *a, gpu_parameters q, const int64_t *n, const part *w) {
    size_t at[MOST_OPERANDS];
    for (int i = 0; i < a->n; i++) {
        int64_t words[OPERAND_WORDS];
        const cr_dtype dt = a->name[i] >= 'a' ? a->dtype : CR_F32;
        if (!cr_gpu_window(g, a->buffer[i], place(a, i, n, w, words), dt, &at[i])) {
            const bool whole = w->B > 1;
            const int64_t first = (whole ? w->B : w->H) / 2;
            if (!first) return cr_gpu_fail_window(g, op, a->buffer[i]->bytes);
            cr_status status = run_part(g, op, p, a, q, n, &(part){w->b, whole ? first : w->B, w->h, whole ? w->H : first});
            return status == CR_OK ? run_part(g, op, p, a, q, n, whole ? &(part){w->b + first, w->B - first, w->h, w->H} : &(part){w->b, w->B, w->h + first, w->H - first}) : status;
        }
        words[0] -= (int64_t)(at[i] / cr_dtype_size(dt));
        for (int k = 0; k < OPERAND_WORDS; k++) q.words[OPERANDS_AT + OPERAND_WORDS * i + k] = (uint32_t)words[k];
    }
    q.n = OPERANDS_AT + OPERAND_WORDS * a->n;
    q.words[3] = (uint32_t)w->H;
    q.words[4] = (uint32_t)(w->B * w->H) * q.words[5];
    return cr_gpu_dispatch_at(g, op, p, a->buffer, at, &q, q.words[4]);
}

static cr_status run(gpu *g, const char *op, const heads *a, const int64_t *n, int64_t S, double scale, bool causal) {
    const int64_t T = n[2], rows = a->kind == DKV ? S : T;
    gpu_key k;
    k.n = 0, k.full = false;
    const unsigned char head[] = {'f', (unsigned char)a->kind, (unsigned char)a->dtype, a->room == WIDEST, a->odd, a->mask >= 0};
    cr_gpu_key_add(&k, head, sizeof head);
    const gpu_pipeline *p = cr_gpu_pipeline_find(g, &k);
    if (!p) {
        wgsl w = text_of(g, a);
        p = cr_gpu_pipeline_from(g, op, &k, a->n, a->written, &w);
        if (!p) return cr_error_status();
    }
    const float factor = (float)scale;
    gpu_parameters q = {.words = {0, (uint32_t)T, (uint32_t)S, 0, 0, (uint32_t)((rows + lanes(a) - 1) / lanes(a)), causal, 0, (uint32_t)n[3], (uint32_t)fours(n[3])}};
    memcpy(&q.words[7], &factor, sizeof factor);
    return run_part(g, op, p, a, q, n, &(part){0, n[0], 0, n[1]});
}

bool cr_gpu_attention_takes(const cr_array *q, const cr_array *k) {
    const gpu *g = (const gpu *)(const void *)q->dev;
    const int64_t most = q->shape[2] > k->shape[2] ? q->shape[2] : k->shape[2], D = q->shape[3];
    return D <= WIDEST && g->limits.maxStorageBuffersPerShaderStage >= MOST_OPERANDS && (!g->dev.software || (most / AT_ONCE + 1) * (2 * fours(D) + 1) + 4 * D <= MOST_TURNS);
}

cr_status cr_gpu_attention(const cr_attention_args *args) {
    const cr_array *o = &args->o, *lse = &args->lse, *q = &args->q, *k = &args->k, *v = &args->v,
        *mask = cr_present(&args->mask);
    const double scale = args->scale;
    const bool causal = args->causal;
    const int64_t *n = q->shape, S = k->shape[2];
    if (cr_gpu_lacks("attention", q)) return cr_error_status();
    gpu *g = cr_gpu_enter("attention", q->dev);
    if (!g) return cr_error_status();
    heads a = {.kind = FORWARD, .dtype = q->dtype, .room = n[3] > WIDE ? WIDEST : WIDE, .odd = n[3] % 4, .mask = -1};
    add(&a, 'o', o, NULL, true);
    add(&a, 'L', lse, NULL, true);
    add(&a, 'q', q, NULL, false);
    add(&a, 'k', k, NULL, false);
    add(&a, 'v', v, NULL, false);
    if (mask) a.mask = add(&a, 'M', mask, NULL, false);
    return cr_gpu_leave(g, run(g, "attention", &a, n, S, scale, causal));
}

cr_status cr_gpu_attention_bwd(const cr_attention_bwd_args *args) {
    const cr_array *dq = &args->dq, *dk = &args->dk, *dv = &args->dv, *q = &args->q, *k = &args->k, *v = &args->v,
        *mask = cr_present(&args->mask), *o = &args->o, *lse = &args->lse, *cotangent = &args->g;
    const double scale = args->scale;
    const bool causal = args->causal;
    static const char op[] = "attention_bwd";
    const int64_t *n = q->shape, S = k->shape[2];
    if (cr_gpu_lacks(op, q)) return cr_error_status();
    gpu *g = cr_gpu_enter(op, q->dev);
    if (!g) return cr_error_status();
    gpu_buffer *delta = cr_gpu_buffer_take(g, op, (size_t)(n[0] * n[1] * n[2]) * sizeof(float));
    if (!delta) return cr_gpu_leave(g, cr_error_status());
    heads a = {.kind = DQ, .dtype = q->dtype, .room = n[3] > WIDE ? WIDEST : WIDE, .odd = n[3] % 4, .mask = -1}, b = a;
    add(&a, 'd', dq, NULL, true);
    add(&a, 'E', NULL, delta, true);
    add(&a, 'L', lse, NULL, false);
    add(&a, 'q', q, NULL, false);
    add(&a, 'k', k, NULL, false);
    add(&a, 'v', v, NULL, false);
    add(&a, 'g', cotangent, NULL, false);
    add(&a, 'o', o, NULL, false);
    if (mask) a.mask = add(&a, 'M', mask, NULL, false);
    b.kind = DKV;
    add(&b, 'd', dk, NULL, true);
    add(&b, 'e', dv, NULL, true);
    add(&b, 'L', lse, NULL, false);
    add(&b, 'q', q, NULL, false);
    add(&b, 'k', k, NULL, false);
    add(&b, 'v', v, NULL, false);
    add(&b, 'g', cotangent, NULL, false);
    add(&b, 'E', NULL, delta, false);
    if (mask) b.mask = add(&b, 'M', mask, NULL, false);
    cr_status status = run(g, op, &a, n, S, scale, causal);
    if (status == CR_OK) status = run(g, op, &b, n, S, scale, causal);
    cr_gpu_buffer_give(g, delta);
    return cr_gpu_leave(g, status);
}
