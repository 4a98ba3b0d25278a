/* order.c - rows of x (M, R) in order, single elements of them, positions in a sorted row, runs of
 * equal rows.
 *
 * Elements become unsigned keys (cr_wgsl_key).  Short rows are ranked: an invocation counts the
 * elements before its own.  Others are sorted by merging, which is stable, deterministic, and takes
 * keys of any width.  An entry is a position with its key.  A workgroup sorts TILE of them in its
 * memory; then runs are merged in pairs, and an invocation finds the part of both that makes its
 * MERGED entries of the result.  Only the first K entries of each run are kept, so there is little
 * to merge for the first few elements of a long row.
 *
 * A single element of a row is selected: a workgroup counts the digits of its keys, from the
 * highest byte down, among those that agree so far. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum {
    RANKED = 64,                                    /* elements of a row that is ranked */
    /* entries of an invocation and of a workgroup: 16 KiB, which WebGPU promises */
    MINE = 4, TILE = MINE * GPU_GROUP,
    MERGED = 8,                                     /* entries of one invocation that merges */
    /* elements of a row in which one is selected: a single workgroup reads it five times and more */
    SELECTED = 1 << 18,
    MOST_BYTES = 1 << 26                            /* of the entries of rows that are sorted together */
};
typedef enum order_task { RANK, SORT_TILE, MERGE, TAKE, SELECT } order_task;

typedef struct kernel {
    int id;
    order_task task;
    cr_dtype dtype;
    int descending, one, values;                    /* one: element kth of each row; values: y is wanted */
} kernel;

typedef struct level { uint32_t run, kept, runs, merged; } level;

typedef struct ordering {
    const char *op;
    gpu *g;
    kernel how;
    const cr_array *x;
    const cr_array *y, *index;
    int64_t first, M, R, K, kth;                    /* M rows from the first on */
} ordering;

/* ---- sources */
static int words_of(cr_dtype dt) { return cr_wgsl_wide(dt) ? 3 : 2; }

/* The next binding, of entries: load_entry(i), or if written store_merged(i, e). */
static void add_entries(wgsl *w, bool written, int words) {
    const char *x = written ? "merged" : "entries";
    cr_wgsl_words(w, x, written, false);
    cr_wgsl_add(w, written ? "fn store_merged(i: u32, e: entry) { " : "fn load_entry(i: u32) -> entry { return entry(");
    for (int k = 0; k < words; k++)
        cr_wgsl_add(w, written ? "merged[%du * i + %du] = e.%c; " : "entries[%du * i + %du], ", words, k, "xyz"[k]);
    cr_wgsl_add(w, written ? "}\n" : "); }\n");
}

static void add_arrays(wgsl *w, const kernel *h) {
    const bool merges = h->task == SORT_TILE || h->task == MERGE;
    if (h->task == MERGE) add_entries(w, false, words_of(h->dtype));
    else cr_wgsl_array(w, "x", h->dtype, false);
    if (merges) add_entries(w, true, words_of(h->dtype));
    else cr_wgsl_array(w, "index", CR_I64, true);
    if (!merges && h->values) {
        cr_wgsl_array(w, "y", cr_dtype_bits(h->dtype), true);
        cr_wgsl_moved_function(w, h->dtype);
    }
    if (h->task == TAKE) add_entries(w, false, words_of(h->dtype));
}

static void write_kernel(wgsl *w, const void *how) {
    static const char *const names[] = {"RANK", "SORT_TILE", "MERGE", "TAKE", "SELECT"};
    const kernel *h = how;
    const bool merges = h->task == SORT_TILE || h->task == MERGE;
    cr_wgsl_const(w, names[h->task], 1);
    cr_wgsl_const(w, "RESULTS", !merges);
    cr_wgsl_const(w, "MERGES", merges);
    cr_wgsl_const(w, "KEYS", h->task != MERGE && h->task != TAKE);
    cr_wgsl_const(w, "ONE", h->one);
    cr_wgsl_const(w, "VALUES", h->values);
    cr_wgsl_const(w, "FLOAT", cr_dtype_is_float(h->dtype));
    cr_wgsl_const(w, "WIDE", cr_wgsl_wide(h->dtype));
    cr_wgsl_const(w, "DIGITS", cr_wgsl_wide(h->dtype) ? 8 : 4);
    cr_wgsl_const(w, "MINE", MINE);
    cr_wgsl_const(w, "TILE", TILE);
    cr_wgsl_const(w, "MERGED", MERGED);
    cr_wgsl_add(w, "const MEDIAN = %uu; const NANMEDIAN = %uu;\n", (unsigned)CR_KTH_MEDIAN, (unsigned)CR_KTH_NANMEDIAN);
    add_arrays(w, h);
    cr_wgsl_key_function(w, h->dtype, h->descending);
    cr_wgsl_file(w, cr_wgsl_order);
    cr_wgsl_end(w, GPU_GROUP);
}

/* ---- runs */
/* The rows that are ordered now, of t with `each` elements in a row. */
static bool bind_rows(const ordering *s, gpu_call *c, const cr_array *t, int64_t each, uint32_t *offset) {
    const int64_t first = t->offset + s->first * each;
    return cr_gpu_bind_window(s->g, c, gpu_buffer_of(t), (gpu_span){first, first + s->M * each}, t->dtype, offset);
}

/* The buffers of a task, and the offsets of the rows in them; false: the rows are too many for a
 * window. */
static bool bind_task(const ordering *s, order_task task, gpu_buffer *from, gpu_buffer *to, gpu_call *c,
                 order_parameters *q) {
    const int64_t found = s->how.one ? 1 : s->K;
    if (task == MERGE) c->buffer[c->buffers++] = from;
    else if (!bind_rows(s, c, s->x, s->R, &q->x)) return false;
    if (to) c->buffer[c->buffers++] = to;
    else if (!bind_rows(s, c, s->index, found, &q->index)) return false;
    if (!to && s->y && !bind_rows(s, c, s->y, found, &q->y)) return false;
    if (task == TAKE) c->buffer[c->buffers++] = from;
    return true;
}

static bool rows_fit(const ordering *s) {
    gpu_call unused = {0};
    order_parameters unread;
    return bind_task(s, RANK, NULL, NULL, &unused, &unread);
}

static cr_status dispatch_task(const ordering *s, order_task task, gpu_buffer *from, gpu_buffer *to, level l,
                               int64_t invocations) {
    kernel h = s->how;
    h.task = task;
    order_parameters q = {.M = (uint32_t)s->M,
                          .R = (uint32_t)s->R,
                          .K = (uint32_t)s->K,
                          .kth = (uint32_t)s->kth,
                          .run = l.run,
                          .kept = l.kept,
                          .runs = l.runs,
                          .merged = l.merged};
    gpu_call call = {.op = s->op,
                     .write = write_kernel,
                     .how = &h,
                     .how_bytes = sizeof h,
                     .parameters = &q,
                     .parameters_bytes = sizeof q,
                     .groups = gpu_groups(invocations)};
    return bind_task(s, task, from, to, &call, &q) ? cr_gpu_run(s->g, &call)
                                              : cr_gpu_fail_window(s->g, s->op, gpu_buffer_of(s->x)->bytes);
}

/* Sorts rows: tiles of x become runs of entries, which are merged until there is one.  spare: as
 * large as entries. */
static cr_status merge(const ordering *s, gpu_buffer *entries, gpu_buffer *spare) {
    level l = {TILE, (uint32_t)cr_imin(TILE, s->K), (uint32_t)gpu_ceil_div(s->R, TILE), 0};
    cr_status status = dispatch_task(s, SORT_TILE, NULL, entries, l, s->M * l.runs * GPU_GROUP);
    while (status == CR_OK && l.runs > 1) {
        l.merged = (uint32_t)cr_imin(2 * (int64_t)l.run, s->K);
        const uint32_t runs = (l.runs + 1) / 2;
        status = dispatch_task(s, MERGE, entries, spare, l, s->M * runs * gpu_ceil_div(l.merged, MERGED));
        l = (level){2 * l.run, l.merged, runs, 0};
        gpu_buffer *swap = entries;
        entries = spare;
        spare = swap;
    }
    return status == CR_OK ? dispatch_task(s, TAKE, entries, NULL, l, s->how.one ? s->M : s->M * s->K) : status;
}

static cr_status order_rows(const ordering *s, order_task task, gpu_buffer *entries, gpu_buffer *spare) {
    if (task == RANK) return dispatch_task(s, RANK, NULL, NULL, (level){0}, s->M * s->R);
    if (task == SELECT) return dispatch_task(s, SELECT, NULL, NULL, (level){0}, s->M * GPU_GROUP);
    return merge(s, entries, spare);
}

/* `most` rows at once, or fewer where they do not fit into windows. */
static cr_status order_all(ordering *s, order_task task, int64_t most, gpu_buffer *entries, gpu_buffer *spare) {
    const int64_t all = s->M;
    for (; s->first < all; s->first += s->M) {
        s->M = cr_imin(most, all - s->first);
        while (s->M > 1 && !rows_fit(s)) s->M /= 2;
        cr_status status = order_rows(s, task, entries, spare);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

/* Chooses how; sorted rows go together as many as MOST_BYTES of entries hold, in two buffers where
 * there is something to merge. */
static cr_status run_order(ordering *s) {
    if (s->R <= RANKED) return order_all(s, RANK, s->M, NULL, NULL);
    if (s->how.one && s->R <= SELECTED) return order_all(s, SELECT, s->M, NULL, NULL);
    const int64_t tiles = gpu_ceil_div(s->R, TILE), bytes = cr_imin(MOST_BYTES, (int64_t)s->g->window);
    const int64_t row = 4 * cr_imin(s->R, tiles * cr_imin(TILE, s->K)) * words_of(s->how.dtype);
    const int64_t most = cr_imin(s->M, row < bytes ? bytes / row : 1);
    gpu_buffer *entries = cr_gpu_buffer_take(s->g, s->op, (size_t)(most * row)), *spare = entries;
    if (!entries) return cr_error_status();
    if (tiles > 1) spare = cr_gpu_buffer_take(s->g, s->op, (size_t)(most * row));
    cr_status status = spare ? order_all(s, MERGE, most, entries, spare) : cr_error_status();
    if (spare && spare != entries) cr_gpu_buffer_give(s->g, spare);
    cr_gpu_buffer_give(s->g, entries);
    return status;
}

static cr_status enter(ordering *s) {
    if (cr_gpu_lacks(s->op, s->x)) return cr_error_status();
    s->g = cr_gpu_enter(s->op, s->x->dev);
    return s->g ? cr_gpu_leave(s->g, run_order(s)) : cr_error_status();
}

cr_status cr_gpu_sort(const cr_sort_args *args) {
    const cr_array *y = cr_present(&args->y), *index = &args->index, *x = &args->x;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], K = args->index.shape[1];
    const bool descending = args->descending;
    ordering s = {.op = "sort",
                  .how = {'o', 0, x->dtype, descending, false, y != NULL},
                  .x = x,
                  .y = y,
                  .index = index,
                  .M = M,
                  .R = R,
                  .K = K};
    return enter(&s);
}

cr_status cr_gpu_kth(const cr_kth_args *args) {
    const cr_array *y = &args->y, *index = &args->index, *x = &args->x;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], k = args->k;
    ordering s = {.op = "kthvalue",
                  .how = {'o', 0, x->dtype, false, true, true},
                  .x = x,
                  .y = y,
                  .index = index,
                  .M = M,
                  .R = R,
                  .K = k < 0 ? R : k + 1,
                  .kth = k};
    return enter(&s);
}

/* ---- positions in a sorted row: an invocation each */
typedef struct search_how { int id; cr_dtype dtype; int right; } search_how;

static void write_search(wgsl *w, const void *how) {
    const search_how *h = how;
    cr_wgsl_const(w, "RIGHT", h->right);
    cr_wgsl_array(w, "y", CR_I64, true);
    cr_wgsl_array(w, "x", h->dtype, false);
    cr_wgsl_array(w, "v", h->dtype, false);
    cr_wgsl_key_function(w, h->dtype, false);
    cr_wgsl_file(w, cr_wgsl_search);
    cr_wgsl_end(w, GPU_GROUP);
}

/* Results first .. end - 1; these are whole rows unless one row of x is shared. */
static cr_status run_search(gpu *g, const search_how *how, const cr_array *y, const cr_array *x, const cr_array *v,
                            int64_t R, int64_t K, int64_t first, int64_t end, bool shared) {
    const int64_t row = shared ? 0 : first / K * R, rows = shared ? 1 : (end - first) / K, unit = shared ? 1 : K,
                  n = (end - first) / unit;
    search_parameters q = {
        .count = (uint32_t)(end - first), .R = (uint32_t)R, .K = (uint32_t)K, .row = shared ? 0 : (uint32_t)R};
    gpu_call c = {.op = "searchsorted",
                  .write = write_search,
                  .how = how,
                  .how_bytes = sizeof *how,
                  .parameters = &q,
                  .parameters_bytes = sizeof q,
                  .groups = gpu_groups(end - first)};
    const gpu_span results = {y->offset + first, y->offset + end},
                   sorted = {x->offset + row, x->offset + row + rows * R};
    if (cr_gpu_bind_window(g, &c, gpu_buffer_of(y), results, CR_I64, &q.y) &&
        cr_gpu_bind_window(g, &c, gpu_buffer_of(x), sorted, how->dtype, &q.x) &&
        cr_gpu_bind_window(g, &c, gpu_buffer_of(v), (gpu_span){v->offset + first, v->offset + end}, how->dtype, &q.v))
        return cr_gpu_run(g, &c);
    if (n == 1) return cr_gpu_fail_window(g, c.op, gpu_buffer_of(x)->bytes);
    const int64_t middle = first + n / 2 * unit;
    cr_status status = run_search(g, how, y, x, v, R, K, first, middle, shared);
    return status == CR_OK ? run_search(g, how, y, x, v, R, K, middle, end, shared) : status;
}

cr_status cr_gpu_search(const cr_search_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *v = &args->v;
    const int64_t M = args->v.shape[0], R = args->x.shape[args->x.ndim - 1], K = args->v.shape[1];
    const bool shared = args->x.ndim == 1, right = args->right;
    const search_how how = {'b', x->dtype, right};
    if (cr_gpu_lacks("searchsorted", x)) return cr_error_status();
    if (!M || !K) return CR_OK;
    gpu *g = cr_gpu_enter("searchsorted", y->dev);
    return g ? cr_gpu_leave(g, run_search(g, &how, y, x, v, R, K, 0, M * K, shared)) : cr_error_status();
}

/* ---- runs of equal rows: mark the row where each begins, count the marks so far, and derive the
 * rest from these counts */
/* begins: the first of the two kernels */
typedef struct runs_how { int id; cr_dtype dtype; int begins, run, ordered; } runs_how;

static void write_runs(wgsl *w, const void *how) {
    const runs_how *h = how;
    cr_wgsl_const(w, "BEGINS", h->begins);
    cr_wgsl_const(w, "FLOAT", cr_dtype_is_float(h->dtype));
    cr_wgsl_const(w, "RUN", h->run);
    cr_wgsl_const(w, "ORDERED", h->ordered);
    if (h->begins) {
        cr_wgsl_words(w, "begins", true, true);
        cr_wgsl_array(w, "x", h->dtype, false);
        cr_wgsl_key_function(w, h->dtype, false);
    } else {
        cr_wgsl_array(w, "begun", CR_I64, false);
        cr_wgsl_array(w, "starts", CR_I64, true);
        cr_wgsl_array(w, "number", CR_I64, true);
        if (h->run) cr_wgsl_array(w, "run", CR_I64, true);
        if (h->ordered) cr_wgsl_array(w, "order", CR_I64, false);
    }
    cr_wgsl_file(w, cr_wgsl_runs);
    cr_wgsl_end(w, GPU_GROUP);
}

static cr_status run_runs(gpu_call *c, const runs_how *how, const runs_parameters *q, const cr_device *d) {
    gpu *g = cr_gpu_enter("runs", d);
    c->op = "runs", c->write = write_runs, c->how = how, c->how_bytes = sizeof *how;
    c->parameters = q, c->parameters_bytes = sizeof *q, c->groups = gpu_groups(q->count);
    return g ? cr_gpu_leave(g, cr_gpu_run(g, c)) : cr_error_status();
}

static cr_status find_runs(const cr_runs_args *args, const cr_array *begins, const cr_array *begun) {
    const cr_array *run = cr_present(&args->run), *starts = &args->starts, *number = &args->count, *x = &args->x,
        *order = run ? cr_present(&args->order) : NULL;
    const int64_t R = x->shape[0], C = x->shape[1];
    gpu_call c = {.buffers = 2, .buffer = {gpu_buffer_of(begins), gpu_buffer_of(x)}};
    cr_status status = cr_gpu_fill(&(cr_fill_args){*begins, &(int64_t){0}});
    const runs_parameters first = {.count = (uint32_t)(R * C), .C = (uint32_t)C, .x = (uint32_t)x->offset};
    if (status == CR_OK) status = run_runs(&c, &(runs_how){'u', x->dtype, true, false, false}, &first, x->dev);
    if (status == CR_OK) status = cr_gpu_scan(&(cr_scan_args){.y = *begun, .x = *begins, .kind = CR_SCAN_SUM});
    if (status != CR_OK) return status;
    c = (gpu_call){.buffers = 3, .buffer = {gpu_buffer_of(begun), gpu_buffer_of(starts), gpu_buffer_of(number)}};
    if (run) c.buffer[c.buffers++] = gpu_buffer_of(run);
    if (order) c.buffer[c.buffers++] = gpu_buffer_of(order);
    const runs_parameters q = {.count = (uint32_t)R,
                               .starts = (uint32_t)starts->offset,
                               .number = (uint32_t)number->offset,
                               .run = run ? (uint32_t)run->offset : 0,
                               .order = order ? (uint32_t)order->offset : 0};
    return run_runs(&c, &(runs_how){'u', 0, false, run != NULL, order != NULL}, &q, x->dev);
}

cr_status cr_gpu_runs(const cr_runs_args *args) {
    const cr_device *d = args->x.dev;
    const int64_t R = args->x.shape[0];
    if (cr_gpu_lacks("runs", &args->x)) return cr_error_status();
    const cr_array begins = cr_gpu_array(d, CR_I64, CR_LIST(1, R, 1)),
                   begun = cr_gpu_array(d, CR_I64, CR_LIST(1, R, 1));
    cr_status status = begins.storage && begun.storage ? find_runs(args, &begins, &begun) : cr_error_status();
    cr_gpu_array_give(&begun);
    cr_gpu_array_give(&begins);
    return status;
}
