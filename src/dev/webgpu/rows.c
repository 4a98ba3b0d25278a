/* rows.c - softmax, normalisation and cross-entropy over rows, x (M, N): a workgroup for each row, in f32; sums are trees over its
 * invocations.  g is the cotangent. */
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 6 };                                  /* operands */

typedef struct rows {                               /* one kernel over rows, and what it is run with */
    const char *op;
    gpu *g;
    gpu_pipeline *p;
    int n;
    const cr_tensor *t[MOST];
    uint32_t written;                               /* bits */
    wgsl w;
    gpu_key key;
    int64_t M, N;
    double number;                                  /* eps, or smoothing */
    int64_t ignore;
    int fault;
} rows;

/* kind: of kernels.  g NULL: a message. */
static rows rows_of(const char *op, int kind, const cr_tensor *x, int64_t M, int64_t N) {
    rows r = {.op = op, .M = M, .N = N};
    if (!gpu_lacks(op, x)) r.g = gpu_enter(op, x->dev);
    gpu_key_byte(&r.key, 'n');
    gpu_key_byte(&r.key, kind);
    return r;
}

/* The operand's number; NULL: there is none, -1. */
static int add(rows *r, const cr_tensor *t, bool written) {
    gpu_key_byte(&r->key, t ? t->dtype + (written ? 64 : 0) : 255);
    if (!t) return -1;
    r->t[r->n] = t;
    r->written |= (uint32_t)written << r->n;
    return r->n++;
}

/* ---- text.  p[0]: 0, M, N, fault   p[1], p[2]: offsets of the operands; p[2].z: number, p[2].w: N as f32   p[3]: what is ignored (low, high) */
static const char trees[] =
    "var<workgroup> tree: array<f32, 256>;\n"
    "fn sum_of(lane: u32, v: f32) -> f32 {\n"
    "    tree[lane] = v;\n    for (var half = 128u; half > 0u; half /= 2u) { workgroupBarrier(); if lane < half { tree[lane] += tree[lane + half]; } }\n"
    "    workgroupBarrier();\n    let y = tree[0];\n    workgroupBarrier();\n    return y;\n}\n"
    "fn max_of(lane: u32, v: f32) -> f32 {\n"
    "    tree[lane] = v;\n    for (var half = 128u; half > 0u; half /= 2u) { workgroupBarrier(); if lane < half { tree[lane] = f_max(tree[lane], tree[lane + half]); } }\n"
    "    workgroupBarrier();\n    let y = tree[0];\n    workgroupBarrier();\n    return y;\n}\n";

static bool is_new(rows *r) {
    if ((r->p = gpu_pipeline_find(r->g, &r->key))) return false;
    for (int b = 0; b < r->n; b++) {
        const cr_dtype dt = (cr_dtype)r->t[b]->dtype;
        const bool written = r->written >> b & 1;
        wgsl_binding(&r->w, b, written, written && (wgsl_lanes(dt) > 1 || dt == CR_U32));   /* u32: faults */
        if (cr_dtype_is_float(dt)) wgsl_add(&r->w, "fn of%d(i: u32) -> f32 { let at = p[%d].%c + i; return %s; }\n", b, 1 + b / 4, "xyzw"[b % 4], wgsl_load(b, dt, "at").s);
        if (!written || !cr_dtype_is_float(dt)) continue;
        wgsl_add(&r->w, "fn put%d(i: u32, v: f32) { let at = p[%d].%c + i; ", b, 1 + b / 4, "xyzw"[b % 4]);
        wgsl_store(&r->w, b, dt, "at", "v");
        wgsl_add(&r->w, "}\n");
    }
    wgsl_add(&r->w, "%s", trees);
    wgsl_main(&r->w, GPU_GROUP);
    wgsl_add(&r->w, "let m = group;\nif m >= p[0].y { return; }\nlet N = p[0].z; let length = bitcast<f32>(p[2].w); let number = bitcast<f32>(p[2].z);\nvar a: f32;\n");
    return true;
}

/* What follows is done for each element i of the row, column n of it. */
#define EACH "for (var n = lane; n < N; n += 256u) { let i = m * N + n; "

static cr_status dispatch(rows *r) {
    if (!r->p) {
        wgsl_add(&r->w, "}\n");
        char *text = wgsl_complete(&r->w);
        r->p = gpu_pipeline_make(r->g, r->op, &r->key, r->n, r->written, text);
        free(text);
        wgsl_free(&r->w);
        if (!r->p) return cr_error_status();
    }
    const float number = (float)r->number, length = (float)r->N;
    gpu_parameters q = {.n = 16, .words = {0, (uint32_t)r->M, (uint32_t)r->N, (uint32_t)r->fault, [12] = (uint32_t)r->ignore, (uint32_t)((uint64_t)r->ignore >> 32)}};
    gpu_buffer *buffers[MOST];
    for (int b = 0; b < r->n; b++) {
        buffers[b] = gpu_buffer_of(r->t[b]);
        q.words[4 + b] = (uint32_t)r->t[b]->offset;
    }
    memcpy(&q.words[10], &number, 4);
    memcpy(&q.words[11], &length, 4);
    return gpu_dispatch(r->g, r->op, r->p, buffers, &q, (uint64_t)r->M);
}

static cr_status run(rows *r) { return gpu_leave(r->g, dispatch(r)); }

/* ---- softmax */

/* y = exp(x - max) / sum(exp(x - max)), or its logarithm */
cr_status gpu_softmax(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, bool log) {
    rows r = rows_of(log ? "log_softmax" : "softmax", log ? 'l' : 's', x, M, N);
    if (!r.g) return cr_error_status();
    add(&r, y, true);
    add(&r, x, false);
    if (is_new(&r)) {
        wgsl_add(&r.w, "a = -inf();\n" EACH "a = f_max(a, of1(i)); }\nlet most = max_of(lane, a);\n");
        wgsl_add(&r.w, "a = 0.0;\n" EACH "a += f_exp(of1(i) - most); }\nlet total = sum_of(lane, a);\n");
        wgsl_add(&r.w, log ? EACH "put0(i, (of1(i) - most) - f_log(total)); }\n" : EACH "put0(i, f_exp(of1(i) - most) / total); }\n");
    }
    return run(&r);
}

/* dx = y (g - sum(g y)), or g - exp(y) sum(g) */
cr_status gpu_softmax_bwd(cr_tensor *dx, const cr_tensor *y, const cr_tensor *g, int64_t M, int64_t N, bool log) {
    rows r = rows_of("softmax_bwd", log ? 'L' : 'S', y, M, N);
    if (!r.g) return cr_error_status();
    add(&r, dx, true);
    add(&r, y, false);
    add(&r, g, false);
    if (is_new(&r)) {
        wgsl_add(&r.w, log ? "a = 0.0;\n" EACH "a += of2(i); }\n" : "a = 0.0;\n" EACH "a += of2(i) * of1(i); }\n");
        wgsl_add(&r.w, log ? "let total = sum_of(lane, a);\n" EACH "put0(i, of2(i) - f_exp(of1(i)) * total); }\n"
                           : "let total = sum_of(lane, a);\n" EACH "put0(i, of1(i) * (of2(i) - total)); }\n");
    }
    return run(&r);
}

/* ---- normalisation */

/* y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps) */
cr_status gpu_norm(cr_tensor *y, cr_tensor *mean, cr_tensor *rstd, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, int64_t M, int64_t N, double eps) {
    rows r = rows_of(mean ? "layer_norm" : "rms_norm", 'n', x, M, N);
    if (!r.g) return cr_error_status();
    r.number = eps;
    add(&r, y, true);
    add(&r, rstd, true);
    add(&r, x, false);
    const int with_mean = add(&r, mean, true), with_w = add(&r, w, false), with_b = add(&r, b, false);
    if (is_new(&r)) {
        wgsl_add(&r.w, with_mean < 0 ? "let mean = 0.0;\n" : "a = 0.0;\n" EACH "a += of2(i); }\nlet mean = sum_of(lane, a) / length;\n");
        wgsl_add(&r.w, "a = 0.0;\n" EACH "let d = of2(i) - mean; a += d * d; }\nlet rstd = 1.0 / sqrt(sum_of(lane, a) / length + number);\n");
        wgsl_add(&r.w, EACH "var v = (of2(i) - mean) * rstd;\n");
        if (with_w >= 0) wgsl_add(&r.w, "v *= of%d(n);\n", with_w);
        if (with_b >= 0) wgsl_add(&r.w, "v += of%d(n);\n", with_b);
        wgsl_add(&r.w, "put0(i, v); }\nif lane == 0u { put1(m, rstd); ");
        if (with_mean >= 0) wgsl_add(&r.w, "put%d(m, mean); ", with_mean);
        wgsl_add(&r.w, "}\n");
    }
    return run(&r);
}

/* ---- cross-entropy */

/* label: the target, of binding b, as a column; N where the row is ignored, all ones where it is out of range */
static void add_target(rows *r, int b) {
    wgsl_add(&r->w, "let wide = %s;\nvar label = select(0xffffffffu, wide.x, wide.y == 0u && wide.x < N);\nif all(wide == p[3].xy) { label = N; }\n",
             wgsl_cast(CR_I64, (cr_dtype)r->t[b]->dtype, wgsl_load(b, (cr_dtype)r->t[b]->dtype, expr_of("p[%d].%c + m", 1 + b / 4, "xyzw"[b % 4]).s).s).s);
}

/* loss = lse - (1 - s) x[target] - s mean(x), for smoothing s */
cr_status gpu_cross_entropy(cr_tensor *loss, cr_tensor *lse, const cr_tensor *x, const cr_tensor *target, int64_t M, int64_t N, int64_t ignore, double smoothing) {
    rows r = rows_of("cross_entropy", smoothing > 0 ? 'C' : 'c', x, M, N);
    if (!r.g) return cr_error_status();
    r.number = smoothing;
    r.ignore = ignore;
    r.fault = gpu_fault_new(r.g, r.op, N);
    cr_storage faults = {.data = r.g->faults};
    const cr_tensor noted = {.dtype = CR_U32, .storage = &faults};
    if (r.fault < 0) return gpu_leave(r.g, cr_error_status());
    add(&r, loss, true);
    add(&r, lse, true);
    add(&r, x, false);
    add(&r, target, false);
    add(&r, &noted, true);
    if (is_new(&r)) {
        add_target(&r, 3);
        wgsl_add(&r.w, "a = -inf();\n" EACH "a = f_max(a, of2(i)); }\nlet most = max_of(lane, a);\n");
        wgsl_add(&r.w, "a = 0.0;\n" EACH "a += f_exp(of2(i) - most); }\nlet sum = sum_of(lane, a);\n");
        wgsl_add(&r.w, "let l = select(most + f_log(sum), most, is_inf(most));\nvar mean = 0.0;\n");
        if (smoothing > 0) wgsl_add(&r.w, "a = 0.0;\n" EACH "a += of2(i); }\nmean = number * (sum_of(lane, a) / length);\n");
        wgsl_add(&r.w, "if lane == 0u {\nput1(m, l);\nif label < N { put0(m, l - (1.0 - number) * of2(m * N + label) - mean); } else { put0(m, 0.0); }\n"
                 "if label == 0xffffffffu { atomicMin(&b4[4u * p[0].w], m); }\n}\n");
    }
    cr_status status = dispatch(&r);
    return gpu_leave(r.g, status == CR_OK ? gpu_fault_note(r.g, r.op, r.fault, target) : status);
}

/* dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows */
cr_status gpu_cross_entropy_bwd(cr_tensor *dx, const cr_tensor *x, const cr_tensor *target, const cr_tensor *lse, const cr_tensor *g, int64_t M, int64_t N, int64_t ignore,
                                double smoothing) {
    rows r = rows_of("cross_entropy_bwd", 'd', x, M, N);
    if (!r.g) return cr_error_status();
    r.number = smoothing;
    r.ignore = ignore;
    add(&r, dx, true);
    add(&r, x, false);
    add(&r, target, false);
    add(&r, lse, false);
    add(&r, g, false);
    if (is_new(&r)) {
        add_target(&r, 2);
        wgsl_add(&r.w, "let l = of3(m); let c = of4(m);\n" EACH "let wanted = select(0.0, 1.0 - number, n == label) + number / length; "
                 "put0(i, select(c * (f_exp(of1(i) - l) - wanted), 0.0, label == N)); }\n");
    }
    return run(&r);
}
