/* rows.c - softmax, norms and cross-entropy over rows: threads split the rows.  f32 and f64 rows are
 * worked on where they lie; f16 and bf16 rows pass through f32 scratch.  The arithmetic is in
 * rows_isa.c and rows_f64.c. */
#include "blocks.h"
#include "isa.h"
#include "../../core/pool.h"
#include "../elementary.h"

#include <math.h>
#include <string.h>

enum { MOST_BLOCKS = 64, SCRATCH_ROWS = 3 };       /* blocks of rows for dw, db; rows in work at once */

typedef struct rows {
    const struct cr_rows *k;
    cr_lane lane;
    size_t size;                                    /* bytes of a lane */
    int64_t M, N, each;                             /* rows of a chunk */
    const cr_array *y, *x, *g;                      /* y is written (or dx; NULL: not wanted), g NULL: forward */
    bool log;
    atomic_bool failed;
} rows;

static rows rows_of(const cr_array *y, const cr_array *x) {
    const int64_t M = x->shape[0], N = x->shape[1];
    rows r = {.M = M, .N = N, .y = y, .x = x, .lane = x->dtype == CR_F64 ? CR_LANE_F64 : CR_LANE_F32};
    r.size = cr_lane_size(r.lane);
    r.k = r.lane == CR_LANE_F64 ? &cr_rows_f64 : cr_cpu_vec()->rows;
    r.each = N ? cr_pieces(cr_chunk(M * N), N) : M;
    return r;
}

static bool is_lane(const rows *r, cr_dtype dt) { return dt == (r->lane == CR_LANE_F64 ? CR_F64 : CR_F32); }
static char *row_at(const cr_array *t, int64_t m, int64_t n) {
    return (char *)cr_array_data(t) + m * n * (int64_t)cr_dtype_size(t->dtype);
}

/* Row m as lanes: in place, or loaded into scratch row `slot`. */
static const void *row_in(const rows *r, const cr_array *t, int64_t m, char *scratch, int slot) {
    if (is_lane(r, t->dtype)) return row_at(t, m, r->N);
    char *block = scratch + (size_t)slot * (size_t)r->N * r->size;
    cr_block_load(r->lane, block, t->dtype, row_at(t, m, r->N), 1, r->N);
    return block;
}
static void *row_out(const rows *r, const cr_array *t, int64_t m, char *scratch, int slot) {
    return is_lane(r, t->dtype) ? row_at(t, m, r->N) : scratch + (size_t)slot * (size_t)r->N * r->size;
}
static void row_done(const rows *r, const cr_array *t, int64_t m, const void *row) {
    if (!is_lane(r, t->dtype)) cr_block_store(r->lane, row, t->dtype, row_at(t, m, r->N), 1, r->N);
}

static bool needs_scratch(const rows *r) {
    const cr_array *all[] = {r->x, r->y, r->g};
    for (int i = 0; i < 3; i++) if (all[i] && !is_lane(r, all[i]->dtype)) return true;
    return false;
}

/* Scratch of one chunk: SCRATCH_ROWS rows where a row must be converted.  False: none left. */
static bool take_scratch(rows *r, char **scratch, size_t *bytes) {
    *bytes = needs_scratch(r) ? SCRATCH_ROWS * (size_t)r->N * r->size : 0;
    *scratch = *bytes ? cr_cpu_try_take(*bytes) : NULL;
    if (*bytes && !*scratch) atomic_store(&r->failed, true);
    return !*bytes || *scratch;
}

static cr_status run_rows(rows *r, const char *op, void (*fn)(void *, int64_t, int)) {
    cr_run_chunks(cr_pieces(r->M, r->each), fn, r);
    return r->failed ? cr_fail(CR_NO_MEMORY, op, "out of memory for rows of %lld numbers", (long long)r->N) : CR_OK;
}

/* ---- softmax */
static void softmax_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    rows *r = ctx;
    char *scratch;
    size_t bytes;
    if (!take_scratch(r, &scratch, &bytes)) return;
    int64_t end = cr_imin((chunk + 1) * r->each, r->M);
    for (int64_t m = chunk * r->each; m < end; m++) {
        void *y = row_out(r, r->y, m, scratch, 0);
        const void *x = row_in(r, r->x, m, scratch, 1);
        if (r->g) r->k->softmax_bwd(y, x, row_in(r, r->g, m, scratch, 2), r->N, r->log);
        else r->k->softmax(y, x, r->N, r->log);
        row_done(r, r->y, m, y);
    }
    cr_cpu_give(scratch, bytes);
}

cr_status cr_cpu_softmax(const cr_softmax_args *args) {
    rows r = rows_of(&args->y, &args->x);
    r.log = args->log;
    return r.M && r.N ? run_rows(&r, "softmax", softmax_chunk) : CR_OK;
}

cr_status cr_cpu_softmax_bwd(const cr_softmax_bwd_args *args) {
    rows r = rows_of(&args->dx, &args->y);
    r.g = &args->g;
    r.log = args->log;
    return r.M && r.N ? run_rows(&r, "softmax", softmax_chunk) : CR_OK;
}

/* ---- norms */
typedef struct norm {
    rows r;                                         /* first: run gives chunks its address */
    const cr_array *mean, *rstd;                    /* mean NULL: RMS norm */
    double eps;
    void *w, *b;                                    /* as lanes; NULL: absent */
    char *dw, *db;                                  /* one row of lanes for each chunk; NULL: not wanted */
    bool add;                                       /* to dx */
} norm;

/* The single row t as lanes: in place, or converted into new memory.  t NULL gives NULL. */
static bool take_row(const rows *r, const cr_array *t, void **row) {
    *row = t ? cr_array_data(t) : NULL;
    if (!t || is_lane(r, t->dtype)) return true;
    if (!(*row = cr_cpu_take((size_t)r->N * r->size))) return false;
    cr_block_load(r->lane, *row, t->dtype, cr_array_data(t), 1, r->N);
    return true;
}
static void give_row(const rows *r, const cr_array *t, void *row) {
    if (t && row != cr_array_data(t)) cr_cpu_give(row, (size_t)r->N * r->size);
}

static void *number_at(const rows *r, const cr_array *t, int64_t m) {
    return t ? (char *)cr_array_data(t) + (size_t)m * r->size : NULL;
}

static void norm_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    norm *n = ctx;
    rows *r = &n->r;
    char *scratch;
    size_t bytes;
    if (!take_scratch(r, &scratch, &bytes)) return;
    int64_t end = cr_imin((chunk + 1) * r->each, r->M);
    for (int64_t m = chunk * r->each; m < end; m++) {
        void *y = row_out(r, r->y, m, scratch, 0);
        r->k->norm(y, number_at(r, n->mean, m), number_at(r, n->rstd, m), row_in(r, r->x, m, scratch, 1), n->w, n->b,
                   r->N, n->eps);
        row_done(r, r->y, m, y);
    }
    cr_cpu_give(scratch, bytes);
}

cr_status cr_cpu_norm(const cr_norm_args *args) {
    const cr_array *w = cr_present(&args->w), *b = cr_present(&args->b);
    norm n = {.r = rows_of(&args->y, &args->x), .mean = cr_present(&args->mean), .rstd = &args->rstd, .eps = args->eps};
    if (!n.r.M || !n.r.N) return CR_OK;
    const bool ok = take_row(&n.r, w, &n.w) && take_row(&n.r, b, &n.b);
    const cr_status status = ok ? run_rows(&n.r, "norm", norm_chunk) : CR_NO_MEMORY;
    give_row(&n.r, w, n.w);
    give_row(&n.r, b, n.b);
    return status;
}

static void norm_bwd_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    norm *n = ctx;
    rows *r = &n->r;
    char *scratch;
    size_t bytes, row = (size_t)r->N * r->size;
    if (!take_scratch(r, &scratch, &bytes)) return;
    char *dw = n->dw ? n->dw + (size_t)chunk * row : NULL, *db = n->db ? n->db + (size_t)chunk * row : NULL;
    if (dw) memset(dw, 0, row);
    if (db) memset(db, 0, row);
    int64_t end = cr_imin((chunk + 1) * r->each, r->M);
    for (int64_t m = chunk * r->each; m < end; m++) {
        void *dx = r->y ? row_out(r, r->y, m, scratch, 0) : NULL;
        if (dx && n->add) (void)row_in(r, r->y, m, scratch, 0);     /* what dx holds: loaded where it is no lane */
        r->k->norm_bwd(dx, dw, db, row_in(r, r->x, m, scratch, 1), n->w, number_at(r, n->mean, m),
                       number_at(r, n->rstd, m), row_in(r, r->g, m, scratch, 2), r->N, n->add);
        if (dx) row_done(r, r->y, m, dx);
    }
    cr_cpu_give(scratch, bytes);
}

/* Sums the chunks' rows as a balanced tree, in order, and casts the result into t. */
static void sum_chunks(const rows *r, char *parts, int64_t n, const cr_array *t) {
    size_t row = (size_t)r->N * r->size;
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step)
            cr_cpu_vec()->reduce->of[r->lane][0].columns(parts + (size_t)i * row, parts + (size_t)(i + step) * row, 1,
                                                         0, r->N);
    cr_block_store(r->lane, parts, t->dtype, cr_array_data(t), 1, r->N);
}

static cr_status clear(const cr_array *t) {
    static const char zero[8];
    return t ? cr_cpu_fill(&(cr_fill_args){*t, zero}) : CR_OK;
}

cr_status cr_cpu_norm_bwd(const cr_norm_bwd_args *args) {
    const cr_array *dw = cr_present(&args->dw), *db = cr_present(&args->db), *w = cr_present(&args->w);
    norm n = {.r = rows_of(cr_present(&args->dx), &args->x), .mean = cr_present(&args->mean), .rstd = &args->rstd,
              .add = args->add};
    rows *r = &n.r;
    if (!r->M || !r->N) return clear(dw) == CR_OK ? clear(db) : CR_NO_MEMORY;
    r->g = &args->g;
    r->each = cr_imax(r->each, cr_pieces(r->M, MOST_BLOCKS));
    const int64_t chunks = cr_pieces(r->M, r->each);
    const size_t bytes = (size_t)(chunks * r->N) * r->size;
    const bool ok = take_row(r, w, &n.w) && (!dw || (n.dw = cr_cpu_take(bytes))) &&
                    (!db || (n.db = cr_cpu_take(bytes)));
    const cr_status status = ok ? run_rows(r, "norm", norm_bwd_chunk) : CR_NO_MEMORY;
    if (status == CR_OK && dw) sum_chunks(r, n.dw, chunks, dw);
    if (status == CR_OK && db) sum_chunks(r, n.db, chunks, db);
    cr_cpu_give(n.dw, bytes);
    cr_cpu_give(n.db, bytes);
    give_row(r, w, n.w);
    return status;
}

/* ---- cross-entropy: loss = (1 - s) (lse - x[target]) + s (lse - mean(x)), s the smoothing */
typedef struct entropy {
    rows r;
    const cr_array *target, *loss, *lse;
    int64_t ignore;
    double smoothing;
} entropy;

static int64_t target_at(const entropy *e, int64_t m) { return cr_load_i64(row_at(e->target, m, 1), e->target->dtype); }

static cr_status check_targets(const entropy *e) {
    for (int64_t m = 0; m < e->r.M; m++) {
        int64_t t = target_at(e, m);
        if (t != e->ignore && (t < 0 || t >= e->r.N))
            return cr_fail(CR_BAD_INDEX, "cross_entropy", "index %lld at position %lld is out of range for size %lld",
                           (long long)t, (long long)m, (long long)e->r.N);
    }
    return CR_OK;
}

static void put_number(const cr_array *t, int64_t m, double v) { cr_store_f64(row_at(t, m, 1), t->dtype, v); }
static double get_number(const cr_array *t, int64_t m) { return cr_load_f64(row_at(t, m, 1), t->dtype); }
static double lane_at(const rows *r, const void *row, int64_t i) {
    return r->lane == CR_LANE_F64 ? ((const double *)row)[i] : (double)((const float *)row)[i];
}

static void entropy_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    entropy *e = ctx;
    rows *r = &e->r;
    char *scratch;
    size_t bytes;
    if (!take_scratch(r, &scratch, &bytes)) return;
    int64_t end = cr_imin((chunk + 1) * r->each, r->M);
    for (int64_t m = chunk * r->each; m < end; m++) {
        const void *x = row_in(r, r->x, m, scratch, 1);
        int64_t t = target_at(e, m);
        cr_logits_sums s;
        r->k->logits_sums(&s, x, r->N, e->smoothing != 0);
        /* relative to the largest: no digits lost */
        double log_sum = cr_f64_log(s.sum_exp), loss = 0;
        if (t != e->ignore) loss = (1 - e->smoothing) * (log_sum - (lane_at(r, x, t) - s.max));
        if (t != e->ignore && e->smoothing != 0) loss += e->smoothing * (log_sum - (s.sum / (double)r->N - s.max));
        put_number(e->loss, m, loss);
        put_number(e->lse, m, s.max + log_sum);
    }
    cr_cpu_give(scratch, bytes);
}

cr_status cr_cpu_cross_entropy(const cr_cross_entropy_args *args) {
    entropy e = {.r = rows_of(NULL, &args->x), .target = &args->target, .loss = &args->loss, .lse = &args->lse,
                 .ignore = args->ignore, .smoothing = args->smoothing};
    if (check_targets(&e) != CR_OK) return CR_BAD_INDEX;
    return e.r.M ? run_rows(&e.r, "cross_entropy", entropy_chunk) : CR_OK;
}

static void entropy_bwd_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    entropy *e = ctx;
    rows *r = &e->r;
    char *scratch;
    size_t bytes;
    if (!take_scratch(r, &scratch, &bytes)) return;
    int64_t end = cr_imin((chunk + 1) * r->each, r->M);
    for (int64_t m = chunk * r->each; m < end; m++) {
        void *dx = row_out(r, r->y, m, scratch, 0);
        int64_t t = target_at(e, m);
        double g = get_number(r->g, r->g->numel == 1 ? 0 : m);
        if (t == e->ignore) memset(dx, 0, (size_t)r->N * r->size);
        else {
            r->k->logits_bwd(dx, row_in(r, r->x, m, scratch, 1), r->N, get_number(e->lse, m), g,
                             g * e->smoothing / (double)r->N);
            if (r->lane == CR_LANE_F64) ((double *)dx)[t] -= g * (1 - e->smoothing);
            else ((float *)dx)[t] -= (float)(g * (1 - e->smoothing));
        }
        row_done(r, r->y, m, dx);
    }
    cr_cpu_give(scratch, bytes);
}

/* dx = g (softmax(x) - s / N - (1 - s) [j = target]) */
cr_status cr_cpu_cross_entropy_bwd(const cr_cross_entropy_bwd_args *args) {
    entropy e = {.r = rows_of(&args->dx, &args->x), .target = &args->target, .lse = &args->lse,
                 .ignore = args->ignore, .smoothing = args->smoothing};
    e.r.g = &args->g;
    if (check_targets(&e) != CR_OK) return CR_BAD_INDEX;
    return e.r.M && e.r.N ? run_rows(&e.r, "cross_entropy", entropy_bwd_chunk) : CR_OK;
}
