/* rows.c - softmax, normalisation and cross-entropy over rows, x (M, N): a workgroup for each row,
 * in f32; sums are trees over its invocations.  g is the cotangent. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum { MOST = 6, PART = 32 };                       /* operands; rows of a partial sum of norm_bwd */
typedef enum rows_kind { SOFTMAX, SOFTMAX_BWD, NORM, NORM_DX, NORM_PARTS, CROSS_ENTROPY, CROSS_ENTROPY_BWD } rows_kind;
typedef enum operand { Y, X, G, DX, RSTD, MEAN, W, B, DW, DB, LOSS, LSE, TARGET, FAULTS } operand;
static const char *const operand_names[] = {"y", "x",  "g",  "dx",   "rstd", "mean",   "w",
                                            "b", "dw", "db", "loss", "lse",  "labels", "faults"};

typedef struct kernel {
    int id;
    rows_kind kind;
    int variant;                                    /* LOG, ADD, SMOOTHING or SCALAR of rows.wgsl */
    int in_pairs;                                   /* rows of results are halves that no two invocations share */
    int n;
    struct { operand name; cr_dtype dtype; int written; } operand[MOST];
} kernel;

typedef struct rows {                               /* one kernel over rows, and its arguments */
    const char *op;
    gpu *g;
    kernel how;
    const cr_array *t[MOST];
    int64_t per[MOST];                              /* elements of each row, 0: one and the same for all */
    int64_t M, N;
    double number;                                  /* eps, or smoothing */
    int64_t ignore, total;
    int fault;
} rows;

/* g NULL: a message. */
static rows rows_of(const char *op, rows_kind kind, bool variant, const cr_array *x, int64_t M, int64_t N) {
    rows r = {.op = op, .how = {.id = 'n', .kind = kind, .variant = variant}, .M = M, .N = N};
    if (!cr_gpu_lacks(op, x)) r.g = cr_gpu_enter(op, x->dev);
    return r;
}

static bool is_result(operand name) { return name == Y || name == DX; }         /* a row each, if it is written */

/* t NULL: there is no such operand */
static void add_array(rows *r, operand name, const cr_array *t, bool written, int64_t per) {
    if (!t) return;
    const int i = r->how.n++;
    r->how.operand[i].name = name;
    r->how.operand[i].dtype = t->dtype;
    r->how.operand[i].written = written;
    r->t[i] = t;
    r->per[i] = per;
    if (written && is_result(name))
        r->how.in_pairs = cr_wgsl_lanes(t->dtype) == 2 && per % 2 == 0 && t->offset % 2 == 0;
}

/* ---- source */

/* get_NAME(i), set_NAME(i, v): element i from the offset on; integers as i64.  put_NAME(i, v): rows.wgsl */
static void add_operand(wgsl *w, int i, const kernel *h) {
    const char *name = operand_names[h->operand[i].name];
    const cr_dtype dt = h->operand[i].dtype;
    const bool written = h->operand[i].written, put = written && is_result(h->operand[i].name);
    const expr at = cr_expr_of("p.offsets[%d].%c + i", i / 4, "xyzw"[i % 4]);
    if (put && h->in_pairs) cr_wgsl_pairs(w, name, dt);
    else cr_wgsl_array(w, name, dt, written);
    if (put && h->in_pairs)
        cr_wgsl_add(w, "fn put_%s(i: u32, v: vec2<f32>) { store2_%s(%s, v.x, v.y); }\n", name, name, at.s);
    else if (put) cr_wgsl_add(w, "fn put_%s(i: u32, v: vec2<f32>) { store_%s(%s, v.x); }\n", name, name, at.s);
    else if (written) cr_wgsl_add(w, "fn set_%s(i: u32, v: f32) { store_%s(%s, v); }\n", name, name, at.s);
    const cr_dtype to = cr_dtype_is_float(dt) ? CR_F32 : CR_I64;
    const expr x = cr_wgsl_cast(to, cr_dtype_is_float(dt) ? CR_F32 : dt, cr_expr_of("load_%s(%s)", name, at.s).s);
    cr_wgsl_add(w, "fn get_%s(i: u32) -> %s { return %s; }\n", name, cr_wgsl_type(to), x.s);
}

static void write_kernel(wgsl *w, const void *how) {
    static const char *const kinds[] = {"SOFTMAX",       "SOFTMAX_BWD",      "NORM", "NORM_DX", "NORM_PARTS",
                                        "CROSS_ENTROPY", "CROSS_ENTROPY_BWD"};
    static const char *const variants[] = {[SOFTMAX] = "LOG",
                                           [SOFTMAX_BWD] = "LOG",
                                           [NORM_DX] = "ADD",
                                           [CROSS_ENTROPY] = "SMOOTHING",
                                           [CROSS_ENTROPY_BWD] = "SCALAR"};
    static const char *const optional[] = {
        [MEAN] = "HAS_MEAN", [W] = "HAS_W", [B] = "HAS_B", [DW] = "HAS_DW", [DB] = "HAS_DB", [FAULTS] = NULL};
    const kernel *h = how;
    cr_wgsl_const(w, kinds[h->kind], 1);
    if (h->variant) cr_wgsl_const(w, variants[h->kind], 1);
    cr_wgsl_const(w, "EACH", h->in_pairs ? 2 : 1);
    if (h->kind == NORM_PARTS) cr_wgsl_const(w, "PART", PART);
    if (h->kind >= CROSS_ENTROPY) cr_wgsl_const(w, "CROSS_ENTROPIES", 1);
    if (h->kind == CROSS_ENTROPY_BWD) cr_wgsl_const(w, "OVER_X", h->operand[1].name != X);
    for (int i = 0; i < h->n; i++) {
        const operand name = h->operand[i].name;
        if (optional[name]) cr_wgsl_const(w, optional[name], 1);
        if (name == FAULTS) cr_wgsl_words(w, "faults", true, true);
        else add_operand(w, i, h);
    }
    cr_wgsl_file(w, cr_wgsl_rows);
    cr_wgsl_trees(w, 2);
    cr_wgsl_end(w, GPU_GROUP);
}

/* Rows first .. end - 1, split until their operands fit into windows. */
static cr_status run_rows(const rows *r, int64_t first, int64_t end) {
    rows_parameters q = {.rows = (uint32_t)(end - first),
                         .N = (uint32_t)r->N,
                         .fault = (uint32_t)r->fault,
                         .number = (float)r->number,
                         .length = (float)r->N,
                         .ignore = (uint64_t)r->ignore,
                         .first = (uint32_t)first,
                         .total = (uint32_t)r->total};
    gpu_call c = {.op = r->op,
                  .write = write_kernel,
                  .how = &r->how,
                  .how_bytes = sizeof r->how,
                  .parameters = &q,
                  .parameters_bytes = sizeof q,
                  .groups = (uint64_t)(end - first)};
    for (int i = 0; i < r->how.n; i++) {
        const cr_array *t = r->t[i];
        const int64_t from = t->offset + first * r->per[i],
                      to = t->offset + (r->per[i] && end < r->M ? end * r->per[i] : t->numel);
        if (cr_gpu_bind_window(r->g, &c, gpu_buffer_of(t), (gpu_span){from, to}, t->dtype, &q.offsets[i])) continue;
        const int64_t middle = first + (end - first) / 2;
        if (middle == first) return cr_gpu_fail_window(r->g, r->op, gpu_buffer_of(t)->bytes);
        cr_status status = run_rows(r, first, middle);
        return status == CR_OK ? run_rows(r, middle, end) : status;
    }
    return cr_gpu_run(r->g, &c);
}

static cr_status dispatch_rows(const rows *r) { return cr_gpu_leave(r->g, run_rows(r, 0, r->M)); }

/* ---- softmax */

/* y = exp(x - max) / sum(exp(x - max)), or its logarithm */
cr_status cr_gpu_softmax(const cr_softmax_args *args) {
    const cr_array *y = &args->y, *x = &args->x;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const bool log = args->log;
    rows r = rows_of(log ? "log_softmax" : "softmax", SOFTMAX, log, x, M, N);
    if (!r.g) return cr_error_status();
    add_array(&r, Y, y, true, N);
    add_array(&r, X, x, false, N);
    return dispatch_rows(&r);
}

/* dx = y (g - sum(g y)), or g - exp(y) sum(g) */
cr_status cr_gpu_softmax_bwd(const cr_softmax_bwd_args *args) {
    const cr_array *dx = &args->dx, *y = &args->y, *g = &args->g;
    const int64_t M = args->y.shape[0], N = args->y.shape[1];
    const bool log = args->log;
    rows r = rows_of("softmax_bwd", SOFTMAX_BWD, log, y, M, N);
    if (!r.g) return cr_error_status();
    add_array(&r, DX, dx, true, N);
    add_array(&r, Y, y, false, N);
    add_array(&r, G, g, false, N);
    return dispatch_rows(&r);
}

/* ---- normalisation */

/* y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps) */
cr_status cr_gpu_norm(const cr_norm_args *args) {
    const cr_array *y = &args->y, *mean = cr_present(&args->mean), *rstd = &args->rstd, *x = &args->x,
        *w = cr_present(&args->w), *b = cr_present(&args->b);
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const double eps = args->eps;
    rows r = rows_of(mean ? "layer_norm" : "rms_norm", NORM, false, x, M, N);
    if (!r.g) return cr_error_status();
    r.number = eps;
    add_array(&r, Y, y, true, N);
    add_array(&r, RSTD, rstd, true, 1);
    add_array(&r, X, x, false, N);
    add_array(&r, MEAN, mean, true, 1);
    add_array(&r, W, w, false, 0);
    add_array(&r, B, b, false, 0);
    return dispatch_rows(&r);
}

/* with dh = g w, h = (x - mean) rstd:  dx [+]= rstd (dh - mean(dh) - h mean(dh h)), no mean(dh) for
 * the RMS norm */
static cr_status norm_dx(const cr_array *dx, const cr_array *x, const cr_array *w, const cr_array *mean,
                         const cr_array *rstd, const cr_array *g, bool adds, int64_t M, int64_t N) {
    rows r = rows_of("norm_bwd", NORM_DX, adds, x, M, N);
    if (!r.g) return cr_error_status();
    add_array(&r, DX, dx, true, N);
    add_array(&r, X, x, false, N);
    add_array(&r, G, g, false, N);
    add_array(&r, RSTD, rstd, false, 1);
    add_array(&r, MEAN, mean, false, 1);
    add_array(&r, W, w, false, 0);
    return dispatch_rows(&r);
}

/* The sums over PART rows of g h and of g: (parts, N) each, which are then summed.  Here a "row" is
 * a part. */
static cr_status norm_parts(const cr_array *dw, const cr_array *db, const cr_array *x, const cr_array *mean,
                            const cr_array *rstd, const cr_array *g, int64_t M, int64_t N) {
    rows r = rows_of("norm_bwd", NORM_PARTS, false, x, gpu_ceil_div(M, PART), N);
    if (!r.g) return cr_error_status();
    r.total = M;
    add_array(&r, G, g, false, PART * N);
    add_array(&r, X, x, false, PART * N);
    add_array(&r, RSTD, rstd, false, PART);
    add_array(&r, MEAN, mean, false, PART);
    add_array(&r, DW, dw, true, N);
    add_array(&r, DB, db, true, N);
    return dispatch_rows(&r);
}

static cr_status norm_columns(const cr_array *dw, const cr_array *db, const cr_array *x, const cr_array *mean,
                              const cr_array *rstd, const cr_array *g, int64_t M, int64_t N) {
    const int64_t parts = gpu_ceil_div(M, PART);
    const cr_array *const sums[2] = {dw, db};
    cr_array part[2];
    cr_status status = CR_OK;
    for (int i = 0; i < 2; i++) {
        part[i] = cr_array_of(NULL, x->dev, CR_F32, CR_LIST(1, parts, N));
        if (sums[i] && status == CR_OK &&
            !(part[i].storage = cr_gpu_allocate(x->dev, (size_t)(parts * N) * sizeof(float))))
            status = cr_error_status();
    }
    if (status == CR_OK) status = norm_parts(dw ? &part[0] : NULL, db ? &part[1] : NULL, x, mean, rstd, g, M, N);
    for (int i = 0; i < 2; i++) {
        if (sums[i] && status == CR_OK)
            status = cr_gpu_reduce(&(cr_reduce_args){.y = *sums[i], .x = part[i], .how = {.kind = CR_REDUCE_SUM}});
        if (part[i].storage) cr_storage_release(part[i].storage);
    }
    return status;
}

cr_status cr_gpu_norm_bwd(const cr_norm_bwd_args *args) {
    const cr_array *dx = cr_present(&args->dx), *dw = cr_present(&args->dw), *db = cr_present(&args->db),
        *x = &args->x, *w = cr_present(&args->w), *mean = cr_present(&args->mean), *rstd = &args->rstd,
        *g = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    cr_status status = dx ? norm_dx(dx, x, w, mean, rstd, g, args->add, M, N) : CR_OK;
    return status == CR_OK && (dw || db) ? norm_columns(dw, db, x, mean, rstd, g, M, N) : status;
}

/* ---- cross-entropy */

/* loss = lse - (1 - s) x[target] - s mean(x), for smoothing s */
cr_status cr_gpu_cross_entropy(const cr_cross_entropy_args *args) {
    const cr_array *loss = &args->loss, *lse = &args->lse, *x = &args->x, *target = &args->target;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    rows r = rows_of("cross_entropy", CROSS_ENTROPY, smoothing > 0, x, M, N);
    if (!r.g) return cr_error_status();
    r.number = smoothing;
    r.ignore = ignore;
    r.fault = cr_gpu_fault_new(r.g, r.op, N);
    cr_storage storage = {.data = r.g->faults};
    const cr_array faults = {.dtype = CR_U32, .storage = &storage};
    if (r.fault < 0) return cr_gpu_leave(r.g, cr_error_status());
    add_array(&r, LOSS, loss, true, 1);
    add_array(&r, LSE, lse, true, 1);
    add_array(&r, X, x, false, N);
    add_array(&r, TARGET, target, false, 1);
    add_array(&r, FAULTS, &faults, true, 0);
    cr_status status = run_rows(&r, 0, M);
    return cr_gpu_leave(r.g, status == CR_OK ? cr_gpu_fault_note(r.g, r.op, r.fault, target) : status);
}

/* dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows */
cr_status cr_gpu_cross_entropy_bwd(const cr_cross_entropy_bwd_args *args) {
    const cr_array *dx = &args->dx, *x = &args->x, *target = &args->target, *lse = &args->lse, *g = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    const bool scalar = g->numel == 1;
    rows r = rows_of("cross_entropy_bwd", CROSS_ENTROPY_BWD, scalar, x, M, N);
    if (!r.g) return cr_error_status();
    r.number = smoothing;
    r.ignore = ignore;
    add_array(&r, DX, dx, true, N);
    /* WebGPU binds no buffer twice where one is written */
    if (dx->storage != x->storage) add_array(&r, X, x, false, N);
    add_array(&r, TARGET, target, false, 1);
    add_array(&r, LSE, lse, false, 1);
    add_array(&r, G, g, false, !scalar);
    return dispatch_rows(&r);
}
