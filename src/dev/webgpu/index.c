/* index.c - elements read and written by index: gather, scatter, rows taken and put, several
 * indices made one.
 *
 * Two dispatches.  The first checks every index and notes the first that is out of range
 * (faults.c); the second does nothing where there is one, except that it writes which index it is.
 * Writes follow the index in order, one invocation for each position across it, so sums are always
 * added in the same order.  Where that leaves the GPU idle or loops long, sums sort the index first
 * (segments.c). */
#include "wgsl.gen.h"
#include "wgsl.h"

#include <stdlib.h>

enum {
    MOST_K = 1024,                                  /* iterations of one invocation's loop in a dispatch */
    UNSORTED = 64,                                  /* K: shorter sums are not worth a sort */
    BUSY = 4096                                     /* invocations that make a GPU busy without one */
};
enum { FAULTS, INDEX, TO, FROM };                   /* bindings */
typedef enum task { CHECK, NOTE, TAKE, PUT, PUT_SUM, ROWS, RAVEL } task;

typedef struct kernel { int id; task task; cr_dtype element, index; int wrap, first, source; } kernel;

typedef struct job {
    const char *op;
    task task;
    const cr_array *index;
    const cr_array *to;
    const cr_array *from;                          /* NULL: there is none */
    bool wrap;
    int64_t size[3], bound;                         /* M, K, N; of the index */
    int64_t index_strides[3], to_strides[3], from_strides[3];
    /* where this part of them begins, after their offsets; of the index, also how many come before */
    int64_t index_at, to_at, from_at;
    int64_t indices;                                /* in this part of it, one after another */
    int fault;
} job;

static cr_dtype element_of(const job *j) { return j->task == PUT_SUM ? j->to->dtype : cr_dtype_bits(j->to->dtype); }

static int buffers_of(const job *j) { return j->task <= NOTE ? 2 : j->from ? 4 : 3; }

static void write_kernel(wgsl *w, const void *how) {
    static const char *const names[] = {"CHECK", "NOTE", "TAKE", "PUT", "PUT", "ROWS", "RAVEL"};
    const kernel *h = how;
    const char *type = cr_wgsl_type(h->element);
    cr_wgsl_const(w, names[h->task], 1);
    cr_wgsl_const(w, "SUM", h->task == PUT_SUM);
    cr_wgsl_const(w, "WRAP", h->wrap);
    cr_wgsl_const(w, "FIRST", h->first);
    cr_wgsl_words(w, "faults", true, true);
    cr_wgsl_array(w, "index", h->index, false);
    if (h->task > NOTE) cr_wgsl_array(w, "dst", h->element, true);
    if (h->source) cr_wgsl_array(w, "src", h->element, false);
    cr_wgsl_cast_function(w, "integer", CR_I64, h->index);
    if (h->task == PUT_SUM)
        cr_wgsl_add(w, "fn plus(a: %s, b: %s) -> %s { return %s; }\n", type, type, type,
                    cr_wgsl_wide(h->element) ? "add64(a, b)" : h->element == CR_BOOL ? "a | b" : "a + b");
    cr_wgsl_file(w, cr_wgsl_index);
    cr_wgsl_end(w, GPU_GROUP);
}

static const int64_t *strides_of(const job *j, int of) {
    return of == INDEX ? j->index_strides : of == TO ? j->to_strides : j->from_strides;
}

static const cr_array *array_of(const job *j, int of) { return of == INDEX ? j->index : of == TO ? j->to : j->from; }

/* The window in which operand `of` has this part: `rows` rows of the table from `row` on, or this
 * part of the other operands. */
static bool bind_part(const gpu *g, gpu_call *c, const job *j, int of, int table, int64_t row, int64_t rows,
                      uint32_t *offset) {
    const cr_array *t = array_of(j, of);
    const cr_dtype dt = of == INDEX ? t->dtype : element_of(j);
    const int64_t *strides = strides_of(j, of), begin = of == INDEX ? j->index_at : of == TO ? j->to_at : j->from_at;
    const int64_t first = t->offset + begin + (of == table ? row * strides[1] : 0),
                  shape[] = {j->size[0], of == table ? rows : j->size[1], j->size[2]};
    const gpu_span s = of != INDEX && table ? cr_gpu_span_of(first, 3, shape, strides)
                                            : (gpu_span){first, first + j->indices};
    if (!cr_gpu_bind_window(g, c, gpu_buffer_of(t), s, dt, offset)) return false;
    *offset += (uint32_t)(first - s.first);
    return true;
}

static bool part_fits(const gpu *g, const job *j, int of, int table) {
    gpu_call unused = {0};
    uint32_t offset;
    return bind_part(g, &unused, j, of, table, 0, 1, &offset);
}

/* As many rows of the table as fit, from `row` on, at most `rows`; 0: a message. */
static int64_t bind_parts(const gpu *g, gpu_call *c, const job *j, int table, int64_t row, int64_t rows,
                          index_parameters *q) {
    uint32_t *const offset[] = {[INDEX] = &q->index, [TO] = &q->dst, [FROM] = &q->src};
    for (int of = INDEX; of < buffers_of(j); of++)
        while (!bind_part(g, c, j, of, table, row, rows, offset[of])) {
            if (of != table || rows == 1) return cr_gpu_fail_window(g, j->op, gpu_buffer_of(array_of(j, of))->bytes), 0;
            rows /= 2;
        }
    return rows;
}

/* Iterations first .. end - 1 of the loop of a task that has one.  Everything but the table fits
 * into windows. */
static cr_status dispatch_loop(gpu *g, const job *j, int table, int64_t count, int64_t first, int64_t end) {
    /* without rows every index is wrong, which the kernel notes */
    const int64_t all = table && j->bound ? j->bound : 1;
    const kernel how = {
        'i', j->task, element_of(j), j->index->dtype, j->wrap, j->task == RAVEL && !j->size[1], buffers_of(j) > FROM};
    index_parameters q = {.count = (uint32_t)count,
                          .fault = (uint32_t)j->fault,
                          .bound = (uint32_t)j->bound,
                          .M = (uint32_t)j->size[0],
                          .K = (uint32_t)j->size[1],
                          .N = (uint32_t)j->size[2],
                          .first_k = (uint32_t)first,
                          .end_k = (uint32_t)end,
                          .before = (uint32_t)j->index_at,
                          .indices = (uint32_t)j->indices};
    uint32_t *const strides[] = {[INDEX] = q.index_strides, [TO] = q.dst_strides, [FROM] = q.src_strides};
    for (int of = INDEX; of <= FROM; of++)
        for (int d = 0; d < 3; d++) strides[of][d] = (uint32_t)strides_of(j, of)[d];
    for (int64_t row = 0, rows = all; row < all; row += rows) {
        gpu_call c = {.op = j->op,
                      .write = write_kernel,
                      .how = &how,
                      .how_bytes = sizeof how,
                      .buffers = 1,
                      .buffer = {g->faults},
                      .windows = 1,
                      .parameters = &q,
                      .parameters_bytes = sizeof q,
                      .groups = gpu_groups(count)};
        rows = bind_parts(g, &c, j, table, row, cr_imin(rows, all - row), &q);
        if (!rows) return cr_error_status();
        q.first_row = (uint32_t)row;
        q.rows = (uint32_t)rows;
        cr_status status = cr_gpu_run(g, &c);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

/* A task over the index only, or for RAVEL over the index and the result: as much at once as fits. */
static cr_status run_along(gpu *g, const job *j) {
    job part = *j;
    for (int64_t first = 0; first < j->index->numel; first += part.indices) {
        part.index_at = part.to_at = first;
        part.indices = j->index->numel - first;
        while (part.indices > 1 && !(part_fits(g, &part, INDEX, 0) && (j->task != RAVEL || part_fits(g, &part, TO, 0))))
            part.indices /= 2;
        cr_status status = dispatch_loop(g, &part, 0, j->task == NOTE ? 1 : part.indices, 0, 0);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

/* Splits M, or K where M is 1, in order, until everything but the table fits. */
static cr_status run_parts(gpu *g, const job *j) {
    const int table = j->task == TAKE ? FROM : TO, other = table == TO ? FROM : TO;
    const int64_t M = j->size[0], K = j->size[1], N = j->size[2];
    const int axis = M > 1 ? 0 : 1;
    const bool fits = part_fits(g, j, INDEX, table) && part_fits(g, j, other, table) && part_fits(g, j, table, table);
    if (j->size[axis] == 1 || fits) {
        if (table == FROM) return dispatch_loop(g, j, table, M * K * N, 0, 0);
        for (int64_t k = 0; k < K; k += MOST_K) {
            cr_status status = dispatch_loop(g, j, table, M * N, k, cr_imin(k + MOST_K, K));
            if (status != CR_OK) return status;
        }
        return CR_OK;
    }
    job half[2] = {*j, *j};
    half[0].size[axis] = j->size[axis] / 2;
    half[1].size[axis] -= half[0].size[axis];
    half[1].index_at += half[0].size[axis] * j->index_strides[axis];
    if (axis == 0 || table == FROM) half[1].to_at += half[0].size[axis] * j->to_strides[axis];
    if (axis == 0 || table == TO) half[1].from_at += half[0].size[axis] * j->from_strides[axis];
    for (int i = 0; i < 2; i++) {
        if (j->index_strides[axis]) half[i].indices = j->indices / j->size[axis] * half[i].size[axis];
        cr_status status = run_parts(g, &half[i]);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

static cr_status run_job(job *j);

static cr_status run_checked(gpu *g, job *j) {
    const task wanted = j->task;
    if ((j->fault = cr_gpu_fault_new(g, j->op, j->bound)) < 0) return cr_error_status();
    j->indices = j->index->numel;
    j->task = CHECK;
    cr_status status = run_along(g, j);
    j->task = wanted;
    if (status != CR_OK) return status;
    if (wanted == ROWS) return dispatch_loop(g, j, 0, j->indices, 0, 0);
    return wanted == RAVEL ? run_along(g, j) : run_parts(g, j);
}

static gpu_segments segments_of(const job *j) {
    return (gpu_segments){.op = j->op,
                          .to = j->to,
                          .from = j->from,
                          .shared = !j->index_strides[0] && !j->index_strides[2],
                          .M = j->size[0],
                          .K = j->size[1],
                          .N = j->size[2],
                          .bound = j->bound,
                          .to_strides = j->to_strides,
                          .from_strides = j->from_strides};
}

/* Does a sum of this size sort its index? */
static bool is_sorted(const gpu *g, const job *j) {
    const int64_t K = j->size[1], invocations = j->size[0] * j->size[2];
    const gpu_segments s = segments_of(j);
    return j->task == PUT_SUM && K > UNSORTED && (K > MOST_K || invocations < BUSY) && j->bound &&
           j->index->numel * (int64_t)sizeof(int64_t) <= (int64_t)g->window && cr_gpu_segments_fit(g, &s);
}

/* Rows of the index by line, sorted with their positions; then sums over equal ones. */
static cr_status sum_sorted(const job *j) {
    gpu_segments s = segments_of(j);
    const int64_t lines = s.shared ? 1 : s.M * s.N, shape[] = {lines, s.K};
    const cr_device *d = j->to->dev;
    const cr_array rows = cr_gpu_array(d, CR_U32, 2, shape), sorted = cr_gpu_array(d, CR_U32, 2, shape),
                   order = cr_gpu_array(d, CR_I64, 2, shape);
    cr_status status = rows.storage && sorted.storage && order.storage ? CR_OK : cr_error_status();
    job of_rows = *j;
    of_rows.task = ROWS, of_rows.to = &rows, of_rows.from = NULL;
    if (s.shared) of_rows.size[0] = of_rows.size[2] = 1;
    if (status == CR_OK) status = run_job(&of_rows);
    if (status == CR_OK) status = cr_gpu_sort(&(cr_sort_args){.y = sorted, .index = order, .x = rows});
    s.rows = &sorted, s.order = &order;
    if (status == CR_OK) status = cr_gpu_sum_segments(&s);
    cr_gpu_array_give(&order);
    cr_gpu_array_give(&sorted);
    cr_gpu_array_give(&rows);
    return status;
}

static bool in_pairs(const cr_array *t, const int64_t strides[3]) {
    return t->offset % 2 == 0 && strides[0] % 2 == 0 && strides[1] % 2 == 0 && strides[2] == 1;
}

/* Rows of narrow elements that only move are moved as words, which no two invocations share. */
static void widen(job *j, cr_array wide[2]) {
    if (j->task != TAKE && j->task != PUT) return;
    wide[0] = *j->to, wide[1] = *j->from;
    j->to = &wide[0], j->from = &wide[1];
    while (cr_wgsl_lanes(wide->dtype) > 1 && j->size[2] % 2 == 0 && !j->index_strides[2] &&
           in_pairs(j->to, j->to_strides) && in_pairs(j->from, j->from_strides)) {
        for (int i = 0; i < 2; i++) {
            wide[i].dtype = cr_dtype_size(wide[i].dtype) == 1 ? CR_U16 : CR_U32;
            wide[i].offset /= 2;
            j->to_strides[i] /= 2;
            j->from_strides[i] /= 2;
        }
        j->size[2] /= 2;
    }
}

static cr_status run_job(job *j) {
    cr_array wide[2];
    if (j->task == PUT_SUM && cr_gpu_lacks(j->op, j->to)) return cr_error_status();
    if (!j->index->numel) return CR_OK;
    if (j->from && j->from->storage == j->to->storage) return cr_gpu_cannot(j->op, j->to->dev, "within one tensor");
    gpu *g = cr_gpu_enter(j->op, j->to->dev);
    if (!g) return cr_error_status();
    widen(j, wide);
    if (!is_sorted(g, j)) return cr_gpu_leave(g, run_checked(g, j));
    const cr_status status = cr_gpu_leave(g, CR_OK);
    return status == CR_OK ? sum_sorted(j) : status;
}

cr_status cr_gpu_fault_note(gpu *g, const char *op, int fault, const cr_array *index) {
    cr_array unused = *index;                      /* nothing is written */
    return run_along(g, &(job){.op = op, .task = NOTE, .index = index, .to = &unused, .fault = fault});
}

static void contiguous(int64_t strides[3], int64_t rows, int64_t columns) {
    cr_strides_contiguous(3, (const int64_t[]){1, rows, columns}, strides);
}

static void of_tensor(int64_t strides[3], const cr_array *t) {
    for (int d = 0; d < 3; d++) strides[d] = t->strides[d];
}

cr_status cr_gpu_gather(const cr_gather_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], N = args->x.shape[2], K = args->index.shape[1];
    job j = {.op = "gather", .task = TAKE, .index = index, .to = y, .from = x, .size = {M, K, N}, .bound = R};
    contiguous(j.index_strides, K, N);
    contiguous(j.to_strides, K, N);
    contiguous(j.from_strides, R, N);
    return run_job(&j);
}

cr_status cr_gpu_scatter(const cr_scatter_args *args) {
    const cr_array *y = &args->y, *index = &args->index, *src = &args->src;
    const bool sum = args->sum;
    const int64_t M = args->y.shape[0], R = args->y.shape[1], N = args->y.shape[2], K = args->index.shape[1];
    job j = {.op = sum ? "scatter_add" : "scatter",
             .task = sum ? PUT_SUM : PUT,
             .index = index,
             .to = y,
             .from = src,
             .size = {M, K, N},
             .bound = R};
    contiguous(j.index_strides, K, N);
    contiguous(j.to_strides, R, N);
    contiguous(j.from_strides, K, N);
    return run_job(&j);
}

cr_status cr_gpu_take_rows(const cr_take_rows_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const char *op = args->op;
    const bool wrap = args->wrap;
    job j = {.op = op,
             .task = TAKE,
             .index = index,
             .to = y,
             .from = x,
             .wrap = wrap,
             .size = {y->shape[0], y->shape[1], y->shape[2]},
             .bound = x->shape[1],
             .index_strides = {0, 1, 0}};
    of_tensor(j.to_strides, y);
    of_tensor(j.from_strides, x);
    return run_job(&j);
}

cr_status cr_gpu_put_rows(const cr_put_rows_args *args) {
    const cr_array *x = &args->x, *index = &args->index, *src = &args->src;
    const char *op = args->op;
    const bool sum = args->sum, wrap = args->wrap;
    job j = {.op = op,
             .task = sum ? PUT_SUM : PUT,
             .index = index,
             .to = x,
             .from = src,
             .wrap = wrap,
             .size = {src->shape[0], src->shape[1], src->shape[2]},
             .bound = x->shape[1],
             .index_strides = {0, 1, 0}};
    of_tensor(j.to_strides, x);
    of_tensor(j.from_strides, src);
    return run_job(&j);
}

cr_status cr_gpu_ravel(const cr_ravel_args *args) {
    const cr_array *y = &args->y;
    const char *op = args->op;
    const int n = args->n;
    const cr_array *const *index = args->index;
    const int64_t *sizes = args->sizes;
    for (int k = 0; k < n; k++) {
        job j = {
            .op = op, .task = RAVEL, .index = index[k], .to = y, .wrap = true, .size = {1, k, 1}, .bound = sizes[k]};
        cr_status status = run_job(&j);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}
