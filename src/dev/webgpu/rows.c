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
    const cr_array *t[MOST];
    int64_t per[MOST];                              /* elements of each row, 0: one and the same for all */
    uint32_t written;                               /* bits */
    wgsl w;
    gpu_key key;
    int64_t M, N;
    double number;                                  /* eps, or smoothing */
    int64_t ignore;
    int fault;
} rows;

/* kind: of kernels.  g NULL: a message. */
static rows rows_of(const char *op, int kind, const cr_array *x, int64_t M, int64_t N) {
    rows r = {.op = op, .M = M, .N = N};
    if (!cr_gpu_lacks(op, x)) r.g = cr_gpu_enter(op, x->dev);
    gpu_key_byte(&r.key, 'n');
    gpu_key_byte(&r.key, kind);
    return r;
}

/* The operand's number; NULL: there is none, -1. */
static int add(rows *r, const cr_array *t, bool written, int64_t per) {
    gpu_key_byte(&r->key, t ? (int)t->dtype + (written ? 64 : 0) : 255);
    if (!t) return -1;
    r->t[r->n] = t;
    r->per[r->n] = per;
    r->written |= (uint32_t)written << r->n;
    return r->n++;
}

/* ---- text.  p[0]: 0, M, N, fault   p[1], p[2]: offsets of the operands; p[2].z: number, p[2].w: N as f32   p[3]: what is ignored (low, high), the first row */
static bool is_new(rows *r) {
    if ((r->p = cr_gpu_pipeline_find(r->g, &r->key))) return false;
    r->w = wgsl_for(r->g);
    for (int b = 0; b < r->n; b++) {
        const cr_dtype dt = r->t[b]->dtype;
        const bool written = r->written >> b & 1;
        cr_wgsl_binding(&r->w, b, written, written && (cr_wgsl_lanes(dt) > 1 || dt == CR_U32));   /* u32: faults */
        if (cr_dtype_is_float(dt)) cr_wgsl_add(&r->w, "fn of%d(i: u32) -> f32 { let at = p[%d].%c + i; return %s; }\n", b, 1 + b / 4, "xyzw"[b % 4], cr_wgsl_load(b, dt, "at").s);
        if (!written || !cr_dtype_is_float(dt)) continue;
        cr_wgsl_add(&r->w, "fn put%d(i: u32, v: f32) { let at = p[%d].%c + i; ", b, 1 + b / 4, "xyzw"[b % 4]);
        cr_wgsl_store(&r->w, b, dt, "at", "v");
        cr_wgsl_add(&r->w, "}\n");
    }
    cr_wgsl_tree(&r->w, "sum_of", "f32", "a + b");
    cr_wgsl_tree(&r->w, "max_of", "f32", "f_max(a, b)");
    cr_wgsl_main(&r->w, GPU_GROUP);
    cr_wgsl_add(&r->w, "let m = group;\nif m >= p[0].y { return; }\nlet N = p[0].z; let length = bitcast<f32>(p[2].w); let number = bitcast<f32>(p[2].z);\nvar a: f32;\n");
    return true;
}

/* What follows is done for each element i of the row, column n of it. */
#define EACH "for (var n = lane; n < N; n += 256u) { let i = m * N + n; "

/* Rows first .. end - 1, cut until their operands fit into windows. */
static cr_status dispatch_rows(rows *r, int64_t first, int64_t end) {
    const float number = (float)r->number, length = (float)r->N;
    gpu_parameters q = {.n = 16, .words = {0, (uint32_t)(end - first), (uint32_t)r->N, (uint32_t)r->fault, [12] = (uint32_t)r->ignore, (uint32_t)((uint64_t)r->ignore >> 32), (uint32_t)first}};
    gpu_buffer *buffers[MOST];
    size_t at[MOST];
    for (int b = 0; b < r->n; b++) {
        const cr_array *t = r->t[b];
        const int64_t from = t->offset + first * r->per[b], to = t->offset + (r->per[b] && end < r->M ? end * r->per[b] : t->numel);
        buffers[b] = gpu_buffer_of(t);
        if (!cr_gpu_window(r->g, buffers[b], (gpu_span){from, to}, t->dtype, &at[b])) {
            const int64_t middle = first + (end - first) / 2;
            if (middle == first) return cr_gpu_fail_window(r->g, r->op, buffers[b]->bytes);
            cr_status status = dispatch_rows(r, first, middle);
            return status == CR_OK ? dispatch_rows(r, middle, end) : status;
        }
        q.words[4 + b] = (uint32_t)(from - (int64_t)(at[b] / cr_dtype_size(t->dtype)));
    }
    memcpy(&q.words[10], &number, 4);
    memcpy(&q.words[11], &length, 4);
    return cr_gpu_dispatch_at(r->g, r->op, r->p, buffers, at, &q, (uint64_t)(end - first));
}

static cr_status dispatch(rows *r) {
    if (!r->p) {
        cr_wgsl_add(&r->w, "}\n");
        r->p = cr_gpu_pipeline_from(r->g, r->op, &r->key, r->n, r->written, &r->w);
        if (!r->p) return cr_error_status();
    }
    return dispatch_rows(r, 0, r->M);
}

static cr_status run(rows *r) { return cr_gpu_leave(r->g, dispatch(r)); }

/* ---- softmax */

/* y = exp(x - max) / sum(exp(x - max)), or its logarithm */
cr_status cr_gpu_softmax(const cr_softmax_args *args) {
    const cr_array *y = &args->y, *x = &args->x;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const bool log = args->log;
    rows r = rows_of(log ? "log_softmax" : "softmax", log ? 'l' : 's', x, M, N);
    if (!r.g) return cr_error_status();
    add(&r, y, true, N);
    add(&r, x, false, N);
    if (is_new(&r)) {
        cr_wgsl_add(&r.w, "a = -inf();\n" EACH "a = f_max(a, of1(i)); }\nlet most = max_of(lane, a);\n");
        cr_wgsl_add(&r.w, "a = 0.0;\n" EACH "a += f_exp(of1(i) - most); }\nlet total = sum_of(lane, a);\n");
        cr_wgsl_add(&r.w, log ? EACH "put0(i, (of1(i) - most) - f_log(total)); }\n" : EACH "put0(i, f_exp(of1(i) - most) / total); }\n");
    }
    return run(&r);
}

/* dx = y (g - sum(g y)), or g - exp(y) sum(g) */
cr_status cr_gpu_softmax_bwd(const cr_softmax_bwd_args *args) {
    const cr_array *dx = &args->dx, *y = &args->y, *g = &args->g;
    const int64_t M = args->y.shape[0], N = args->y.shape[1];
    const bool log = args->log;
    rows r = rows_of("softmax_bwd", log ? 'L' : 'S', y, M, N);
    if (!r.g) return cr_error_status();
    add(&r, dx, true, N);
    add(&r, y, false, N);
    add(&r, g, false, N);
    if (is_new(&r)) {
        cr_wgsl_add(&r.w, log ? "a = 0.0;\n" EACH "a += of2(i); }\n" : "a = 0.0;\n" EACH "a += of2(i) * of1(i); }\n");
        cr_wgsl_add(&r.w, log ? "let total = sum_of(lane, a);\n" EACH "put0(i, of2(i) - f_exp(of1(i)) * total); }\n"
                           : "let total = sum_of(lane, a);\n" EACH "put0(i, of1(i) * (of2(i) - total)); }\n");
    }
    return run(&r);
}

/* ---- normalisation */

/* y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps) */
cr_status cr_gpu_norm(const cr_norm_args *args) {
    const cr_array *y = &args->y, *mean = cr_present(&args->mean), *rstd = &args->rstd, *x = &args->x,
        *w = cr_present(&args->w), *b = cr_present(&args->b);
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const double eps = args->eps;
    rows r = rows_of(mean ? "layer_norm" : "rms_norm", 'n', x, M, N);
    if (!r.g) return cr_error_status();
    r.number = eps;
    add(&r, y, true, N);
    add(&r, rstd, true, 1);
    add(&r, x, false, N);
    const int with_mean = add(&r, mean, true, 1), with_w = add(&r, w, false, 0), with_b = add(&r, b, false, 0);
    if (is_new(&r)) {
        cr_wgsl_add(&r.w, with_mean < 0 ? "let mean = 0.0;\n" : "a = 0.0;\n" EACH "a += of2(i); }\nlet mean = sum_of(lane, a) / length;\n");
        cr_wgsl_add(&r.w, "a = 0.0;\n" EACH "let d = of2(i) - mean; a += d * d; }\nlet rstd = 1.0 / sqrt(sum_of(lane, a) / length + number);\n");
        cr_wgsl_add(&r.w, EACH "var v = (of2(i) - mean) * rstd;\n");
        if (with_w >= 0) cr_wgsl_add(&r.w, "v *= of%d(n);\n", with_w);
        if (with_b >= 0) cr_wgsl_add(&r.w, "v += of%d(n);\n", with_b);
        cr_wgsl_add(&r.w, "put0(i, v); }\nif lane == 0u { put1(m, rstd); ");
        if (with_mean >= 0) cr_wgsl_add(&r.w, "put%d(m, mean); ", with_mean);
        cr_wgsl_add(&r.w, "}\n");
    }
    return run(&r);
}

/* with dh = g w, h = (x - mean) rstd:  dx = rstd (dh - mean(dh) - h mean(dh h)), no mean(dh) for the RMS norm */
static cr_status norm_dx(const cr_array *dx, const cr_array *x, const cr_array *w, const cr_array *mean, const cr_array *rstd, const cr_array *g, int64_t M, int64_t N) {
    rows r = rows_of("norm_bwd", 'b', x, M, N);
    if (!r.g) return cr_error_status();
    add(&r, dx, true, N);
    add(&r, x, false, N);
    add(&r, g, false, N);
    add(&r, rstd, false, 1);
    const int with_mean = add(&r, mean, false, 1), with_w = add(&r, w, false, 0);
    if (is_new(&r)) {
        const expr dh = with_w < 0 ? cr_expr_of("of2(i)") : cr_expr_of("of2(i) * of%d(n)", with_w);
        cr_wgsl_add(&r.w, "let r = of3(m); let mean = %s; var b = 0.0;\na = 0.0;\n", with_mean < 0 ? "0.0" : cr_expr_of("of%d(m)", with_mean).s);
        cr_wgsl_add(&r.w, EACH "let dh = %s; a += dh * ((of1(i) - mean) * r); b += dh; }\nlet along = sum_of(lane, a) / length;\n", dh.s);
        cr_wgsl_add(&r.w, with_mean < 0 ? "let level = 0.0;\n" : "let level = sum_of(lane, b) / length;\n");
        cr_wgsl_add(&r.w, EACH "put0(i, r * (%s - level - (of1(i) - mean) * r * along)); }\n", dh.s);
    }
    return run(&r);
}

/* The sums over PART rows of g h and of g: (parts, N) each, which are then summed.  Here a "row" is a part; M is in p[3].x. */
enum { PART = 32 };

static cr_status norm_parts(const cr_array *dw, const cr_array *db, const cr_array *x, const cr_array *mean, const cr_array *rstd, const cr_array *g, int64_t M, int64_t N) {
    rows r = rows_of("norm_bwd", 'w', x, (M + PART - 1) / PART, N);
    if (!r.g) return cr_error_status();
    r.ignore = M;
    add(&r, g, false, PART * N);
    add(&r, x, false, PART * N);
    add(&r, rstd, false, PART);
    const int with_mean = add(&r, mean, false, PART), with_w = add(&r, dw, true, N), with_b = add(&r, db, true, N);
    if (is_new(&r)) {
        cr_wgsl_add(&r.w, "let rows = min(%du, p[3].x - (m + p[3].z) * %du);\n" EACH "a = 0.0; var b = 0.0;\nfor (var k = m * %du; k < m * %du + rows; k++) {\nlet at = k * N + n; let d = of0(at); b += d; ", PART, PART, PART, PART);
        cr_wgsl_add(&r.w, "a += d * ((of1(at) - %s) * of2(k)); }\n", with_mean < 0 ? "0.0" : cr_expr_of("of%d(k)", with_mean).s);
        if (with_w >= 0) cr_wgsl_add(&r.w, "put%d(i, a);\n", with_w);
        if (with_b >= 0) cr_wgsl_add(&r.w, "put%d(i, b);\n", with_b);
        cr_wgsl_add(&r.w, "}\n");
    }
    return run(&r);
}

static cr_status norm_columns(const cr_array *dw, const cr_array *db, const cr_array *x, const cr_array *mean, const cr_array *rstd, const cr_array *g, int64_t M, int64_t N) {
    const int64_t parts = (M + PART - 1) / PART;
    const cr_array *const sums[2] = {dw, db};
    cr_array part[2];
    cr_status status = CR_OK;
    for (int i = 0; i < 2; i++) {
        part[i] = cr_array_of(NULL, x->dev, CR_F32, CR_LIST(1, parts, N));
        if (sums[i] && status == CR_OK && !(part[i].storage = cr_gpu_allocate(x->dev, (size_t)(parts * N) * sizeof(float)))) status = cr_error_status();
    }
    if (status == CR_OK) status = norm_parts(dw ? &part[0] : NULL, db ? &part[1] : NULL, x, mean, rstd, g, M, N);
    for (int i = 0; i < 2; i++) {
        if (sums[i] && status == CR_OK) status = cr_gpu_reduce(&(cr_reduce_args){.y = *sums[i], .x = part[i], .how = {.kind = CR_REDUCE_SUM}});
        if (part[i].storage) cr_storage_release(part[i].storage);
    }
    return status;
}

cr_status cr_gpu_norm_bwd(const cr_norm_bwd_args *args) {
    const cr_array *dx = cr_present(&args->dx), *dw = cr_present(&args->dw), *db = cr_present(&args->db),
        *x = &args->x, *w = cr_present(&args->w), *mean = cr_present(&args->mean), *rstd = &args->rstd,
        *g = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    cr_status status = dx ? norm_dx(dx, x, w, mean, rstd, g, M, N) : CR_OK;
    return status == CR_OK && (dw || db) ? norm_columns(dw, db, x, mean, rstd, g, M, N) : status;
}

/* ---- cross-entropy */

/* label: the target, of binding b, as a column; N where the row is ignored, all ones where it is out of range */
static void add_target(rows *r, int b) {
    cr_wgsl_add(&r->w, "let wide = %s;\nvar label = select(0xffffffffu, wide.x, wide.y == 0u && wide.x < N);\nif all(wide == p[3].xy) { label = N; }\n",
             cr_wgsl_cast(CR_I64, r->t[b]->dtype, cr_wgsl_load(b, r->t[b]->dtype, cr_expr_of("p[%d].%c + m", 1 + b / 4, "xyzw"[b % 4]).s).s).s);
}

/* loss = lse - (1 - s) x[target] - s mean(x), for smoothing s */
cr_status cr_gpu_cross_entropy(const cr_cross_entropy_args *args) {
    const cr_array *loss = &args->loss, *lse = &args->lse, *x = &args->x, *target = &args->target;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    rows r = rows_of("cross_entropy", smoothing > 0 ? 'C' : 'c', x, M, N);
    if (!r.g) return cr_error_status();
    r.number = smoothing;
    r.ignore = ignore;
    r.fault = cr_gpu_fault_new(r.g, r.op, N);
    cr_storage faults = {.data = r.g->faults};
    const cr_array noted = {.dtype = CR_U32, .storage = &faults};
    if (r.fault < 0) return cr_gpu_leave(r.g, cr_error_status());
    add(&r, loss, true, 1);
    add(&r, lse, true, 1);
    add(&r, x, false, N);
    add(&r, target, false, 1);
    add(&r, &noted, true, 0);
    if (is_new(&r)) {
        add_target(&r, 3);
        cr_wgsl_add(&r.w, "a = -inf();\n" EACH "a = f_max(a, of2(i)); }\nlet most = max_of(lane, a);\n");
        cr_wgsl_add(&r.w, "a = 0.0;\n" EACH "a += f_exp(of2(i) - most); }\nlet sum = sum_of(lane, a);\n");
        cr_wgsl_add(&r.w, "let l = select(most + f_log(sum), most, is_inf(most));\nvar mean = 0.0;\n");
        if (smoothing > 0) cr_wgsl_add(&r.w, "a = 0.0;\n" EACH "a += of2(i); }\nmean = number * (sum_of(lane, a) / length);\n");
        cr_wgsl_add(&r.w, "if lane == 0u {\nput1(m, l);\nif label < N { put0(m, l - (1.0 - number) * of2(m * N + label) - mean); } else { put0(m, 0.0); }\n"
                 "if label == 0xffffffffu { atomicMin(&b4[4u * p[0].w], m + p[3].z); }\n}\n");
    }
    cr_status status = dispatch(&r);
    return cr_gpu_leave(r.g, status == CR_OK ? cr_gpu_fault_note(r.g, r.op, r.fault, target) : status);
}

/* dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows */
cr_status cr_gpu_cross_entropy_bwd(const cr_cross_entropy_bwd_args *args) {
    const cr_array *dx = &args->dx, *x = &args->x, *target = &args->target, *lse = &args->lse, *g = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    const bool one = g->numel == 1;
    rows r = rows_of("cross_entropy_bwd", one ? 'D' : 'd', x, M, N);
    if (!r.g) return cr_error_status();
    r.number = smoothing;
    r.ignore = ignore;
    add(&r, dx, true, N);
    add(&r, x, false, N);
    add(&r, target, false, 1);
    add(&r, lse, false, 1);
    add(&r, g, false, !one);
    if (is_new(&r)) {
        add_target(&r, 2);
        cr_wgsl_add(&r.w, "let l = of3(m); let c = of4(%s);\n" EACH "let wanted = select(0.0, 1.0 - number, n == label) + number / length; "
                 "put0(i, select(c * (f_exp(of1(i) - l) - wanted), 0.0, label == N)); }\n", one ? "0u" : "m");
    }
    return run(&r);
}
