/* index.c - elements read and written by index: gather, scatter, rows taken and put, several indices made one.
 *
 * Two dispatches.  The first checks every index and notes the first that is out of range (faults.c); the second does nothing where there
 * is one, but says which it is.  Writing goes over the index in order, one invocation for each place beside it, so sums are always added
 * in the same order. */
#include "wgsl.h"

#include <stdlib.h>

enum { MOST_K = 16384 };                            /* turns of one invocation's loop in a dispatch */
enum { FAULTS, INDEX, TO, FROM };                   /* bindings */
typedef enum task { CHECK, NOTE, TAKE, PUT, PUT_SUM, RAVEL } task;

typedef struct job {
    const char *op;
    task task;
    const cr_array *index;
    const cr_array *to;
    const cr_array *from;                          /* NULL: there is none */
    bool wrap;
    int64_t size[3], bound;                         /* M, K, N; of the index */
    int64_t index_strides[3], to_strides[3], from_strides[3];
    int64_t index_at, to_at, from_at;               /* where this part of them begins, beyond their offsets; of the index also how many lie before */
    int64_t indices;                                /* in this part of it, one after another */
    int fault;
} job;

/* Parameters: 0, count, fault, bound; M, K, N, first k; end of k, offsets of index, to, from; the first of the rows that are in the window, how many, indices before this part, in it; strides of index, to, from */
enum { STRIDES = 16 };

static expr stride(int of, int axis) { return cr_wgsl_parameter(STRIDES + 3 * (of - INDEX) + axis); }

/* row(at): the index's element as a row; all ones where it is out of range. */
static void add_row(wgsl *w, cr_dtype index, bool wrap) {
    cr_wgsl_add(w, "fn row(at: u32) -> u32 {\nlet x = %s;\n", cr_wgsl_cast(CR_I64, index, cr_wgsl_load(INDEX, index, "at").s).s);
    cr_wgsl_add(w, "if x.y == 0u && x.x < p[0].w { return x.x; }\n");
    if (wrap) cr_wgsl_add(w, "if x.y == 0xffffffffu && ~x.x < p[0].w { return x.x + p[0].w; }\n");
    cr_wgsl_add(w, "return 0xffffffffu;\n}\n");
}

static void add_check(wgsl *w) { cr_wgsl_add(w, "if i < p[0].y && row(p[2].y + i) == 0xffffffffu { atomicMin(&b%d[4u * p[0].z], p[3].z + i); }\n", FAULTS); }

static void add_guard(wgsl *w, cr_dtype index) {
    cr_wgsl_add(w, "let bad = words%d(4u * p[0].z);\nif bad != 0xffffffffu {\nif i == 0u && bad - p[3].z < p[3].w { let x = %s; set%d(4u * p[0].z + 1u, x.x); set%d(4u * p[0].z + 2u, x.y); }\nreturn;\n}\n",
             FAULTS, cr_wgsl_cast(CR_I64, index, cr_wgsl_load(INDEX, index, "(p[2].y + bad - p[3].z)").s).s, FAULTS, FAULTS);
}

static expr along(int of, const char *m, const char *k, const char *n) {
    return cr_expr_of("p[2].%c + %s * %s + %s * %s + %s * %s", "yzw"[of - INDEX], m, stride(of, 0).s, k, stride(of, 1).s, n, stride(of, 2).s);
}

/* y[m, k, n] = x[m, index, n] */
static void add_take(wgsl *w, cr_dtype dt) {
    cr_wgsl_add(w, "if i >= p[0].y { return; }\nlet n = i %% p[1].z; let k = i / p[1].z %% p[1].y; let m = i / p[1].z / p[1].y;\n");
    cr_wgsl_add(w, "let r = row(%s) - p[3].x;\nif r >= p[3].y { return; }\nlet source = %s;\nlet at = %s;\nlet x = %s;\n", along(INDEX, "m", "k", "n").s, along(FROM, "m", "r", "n").s,
             along(TO, "m", "k", "n").s, cr_wgsl_load(FROM, dt, "source").s);
    cr_wgsl_store(w, TO, dt, "at", "x");
}

/* y[m, index, n] = x[m, k, n], or += it: an invocation for each m, n */
static void add_put(wgsl *w, cr_dtype dt, bool sum) {
    cr_wgsl_add(w, "if i >= p[0].y { return; }\nlet n = i %% p[1].z; let m = i / p[1].z;\nfor (var k = p[1].w; k < p[2].x; k++) {\n");
    cr_wgsl_add(w, "let r = row(%s) - p[3].x;\nif r < p[3].y {\nlet source = %s;\nlet at = %s;\nlet x = %s;\n", along(INDEX, "m", "k", "n").s, along(FROM, "m", "k", "n").s, along(TO, "m", "r", "n").s,
             cr_wgsl_load(FROM, dt, "source").s);
    if (sum) cr_wgsl_add(w, cr_wgsl_wide(dt) ? "let before = %s;\nlet y = add64(before, x);\n" : dt == CR_BOOL ? "let before = %s;\nlet y = before | x;\n" : "let before = %s;\nlet y = before + x;\n",
                      cr_wgsl_load(TO, dt, "at").s);
    cr_wgsl_store(w, TO, dt, "at", sum ? "y" : "x");
    cr_wgsl_add(w, "}\n}\n");
}

/* y = from bound + index; in 32 bits, for no tensor here has more elements */
static void add_ravel(wgsl *w, bool first) {
    cr_wgsl_add(w, "if i >= p[0].y { return; }\nvar y = row(p[2].y + i);\n");
    if (!first) cr_wgsl_add(w, "y += words%d(2u * (p[2].z + i)) * p[0].w;\n", TO);
    cr_wgsl_add(w, "set%d(2u * (p[2].z + i), y); set%d(2u * (p[2].z + i) + 1u, 0u);\n", TO, TO);
}

static cr_dtype element_of(const job *j) { return j->task == PUT_SUM ? j->to->dtype : cr_moved_as(j->to->dtype); }

static int buffers_of(const job *j) { return j->task <= NOTE ? 2 : j->from ? 4 : 3; }

static wgsl text_of(const gpu *g, const job *j) {
    const cr_dtype dt = element_of(j), index = j->index->dtype;
    wgsl w = wgsl_for(g);
    cr_wgsl_binding(&w, FAULTS, true, true);
    cr_wgsl_binding(&w, INDEX, false, false);
    if (j->task > NOTE) cr_wgsl_binding(&w, TO, true, cr_wgsl_lanes(dt) > 1);
    if (buffers_of(j) > FROM) cr_wgsl_binding(&w, FROM, false, false);
    if (j->task != NOTE) add_row(&w, index, j->wrap);
    cr_wgsl_main(&w, GPU_GROUP);
    if (j->task == CHECK) add_check(&w);
    else add_guard(&w, index);
    if (j->task == TAKE) add_take(&w, dt);
    else if (j->task == RAVEL) add_ravel(&w, !j->size[1]);
    else if (j->task > NOTE) add_put(&w, dt, j->task == PUT_SUM);
    cr_wgsl_add(&w, "}\n");
    return w;
}

static const gpu_pipeline *pipeline_of(gpu *g, const job *j) {
    gpu_key k;
    k.n = 0, k.full = false;
    const unsigned char head[] = {'i', (unsigned char)j->task, (unsigned char)element_of(j), (unsigned char)j->index->dtype, j->wrap, j->task == RAVEL && !j->size[1]};
    cr_gpu_key_add(&k, head, sizeof head);
    const gpu_pipeline *p = cr_gpu_pipeline_find(g, &k);
    if (p) return p;
    wgsl w = text_of(g, j);
    return cr_gpu_pipeline_from(g, j->op, &k, buffers_of(j), 1u << FAULTS | 1u << TO, &w);
}

static const int64_t *strides_of(const job *j, int of) { return of == INDEX ? j->index_strides : of == TO ? j->to_strides : j->from_strides; }

/* The window in which operand `of` has this part, `rows` places from `row` on along what is indexed of the table, which is cut apart from the others. */
static bool show(const gpu *g, const job *j, int of, int table, int64_t row, int64_t rows, size_t *at, int64_t *offset) {
    const cr_array *t = of == INDEX ? j->index : of == TO ? j->to : j->from;
    const cr_dtype dt = of == INDEX ? t->dtype : element_of(j);
    const int64_t *strides = strides_of(j, of), first = t->offset + (of == INDEX ? j->index_at : of == TO ? j->to_at : j->from_at) + (of == table ? row * strides[1] : 0);
    gpu_span s = {first, first + j->indices};
    if (of != INDEX && table) s = cr_gpu_span_of(first, 3, (int64_t[]){j->size[0], of == table ? rows : j->size[1], j->size[2]}, strides);
    if (!cr_gpu_window(g, gpu_buffer_of(t), s, dt, at)) return false;
    *offset = first - (int64_t)(*at / cr_dtype_size(dt));
    return true;
}

/* Turns first .. end - 1 of the loop of a task that has one.  All but the table fits. */
static cr_status run(gpu *g, const job *j, int table, int64_t count, int64_t first, int64_t end) {
    const gpu_pipeline *p = pipeline_of(g, j);
    if (!p) return cr_error_status();
    gpu_buffer *const buffers[] = {g->faults, gpu_buffer_of(j->index), gpu_buffer_of(j->to), j->from ? gpu_buffer_of(j->from) : NULL};
    size_t at[4] = {0};
    int64_t offset[4] = {0};
    cr_status status = CR_OK;
    const int64_t all = table && j->bound ? j->bound : 1;          /* without rows every index is wrong, which the kernel says */
    for (int64_t row = 0, rows = all; row < all && status == CR_OK; row += rows) {
        if (row + rows > all) rows = all - row;
        for (int of = INDEX; of < buffers_of(j); of++)
            while (!show(g, j, of, table, row, rows, &at[of], &offset[of])) {
                if (of != table || rows == 1) return cr_gpu_fail_window(g, j->op, buffers[of]->bytes);
                rows /= 2;
            }
        gpu_parameters q = {.n = STRIDES, .words = {
            0, (uint32_t)count, (uint32_t)j->fault, (uint32_t)j->bound, (uint32_t)j->size[0], (uint32_t)j->size[1], (uint32_t)j->size[2], (uint32_t)first,
            (uint32_t)end, (uint32_t)offset[INDEX], (uint32_t)offset[TO], (uint32_t)offset[FROM], (uint32_t)row, (uint32_t)rows, (uint32_t)j->index_at, (uint32_t)j->indices}};
        for (int of = INDEX; of <= FROM; of++)
            for (int d = 0; d < 3; d++) gpu_push(&q, (uint32_t)strides_of(j, of)[d]);
        status = cr_gpu_dispatch_at(g, j->op, p, buffers, at, &q, (uint64_t)((count + GPU_GROUP - 1) / GPU_GROUP));
    }
    return status;
}

/* Of the index alone, and for RAVEL of the result beside it: as much at once as fits. */
static cr_status run_along(gpu *g, const job *j) {
    job part = *j;
    cr_status status = CR_OK;
    for (int64_t first = 0; first < j->index->numel && status == CR_OK; first += part.indices) {
        size_t at;
        int64_t offset;
        part.index_at = part.to_at = first;
        part.indices = j->index->numel - first;
        while (part.indices > 1 && !(show(g, &part, INDEX, 0, 0, 0, &at, &offset) && (j->task != RAVEL || show(g, &part, TO, 0, 0, 0, &at, &offset)))) part.indices /= 2;
        status = run(g, &part, 0, j->task == NOTE ? 1 : part.indices, 0, 0);
    }
    return status;
}

/* Halves of M, or of K where that is 1, in order, until what is not the table fits. */
static cr_status run_parts(gpu *g, const job *j) {
    const int table = j->task == TAKE ? FROM : TO, beside = table == TO ? FROM : TO;
    const int64_t M = j->size[0], K = j->size[1], N = j->size[2];
    const int axis = M > 1 ? 0 : 1;
    size_t at;
    int64_t offset;
    cr_status status = CR_OK;
    if (j->size[axis] == 1 || (show(g, j, INDEX, table, 0, 1, &at, &offset) && show(g, j, beside, table, 0, 1, &at, &offset) && show(g, j, table, table, 0, 1, &at, &offset))) {
        if (table == FROM) return run(g, j, table, M * K * N, 0, 0);
        for (int64_t k = 0; k < K && status == CR_OK; k += MOST_K) status = run(g, j, table, M * N, k, k + MOST_K < K ? k + MOST_K : K);
        return status;
    }
    job half[2] = {*j, *j};
    half[0].size[axis] = j->size[axis] / 2;
    half[1].size[axis] -= half[0].size[axis];
    half[1].index_at += half[0].size[axis] * j->index_strides[axis];
    if (axis == 0 || table == FROM) half[1].to_at += half[0].size[axis] * j->to_strides[axis];
    if (axis == 0 || table == TO) half[1].from_at += half[0].size[axis] * j->from_strides[axis];
    for (int i = 0; i < 2 && status == CR_OK; i++) {
        if (j->index_strides[axis]) half[i].indices = j->indices / j->size[axis] * half[i].size[axis];
        status = run_parts(g, &half[i]);
    }
    return status;
}

static cr_status run_checked(gpu *g, job *j) {
    const task wanted = j->task;
    if ((j->fault = cr_gpu_fault_new(g, j->op, j->bound)) < 0) return cr_error_status();
    j->indices = j->index->numel;
    j->task = CHECK;
    cr_status status = run_along(g, j);
    j->task = wanted;
    return status != CR_OK ? status : wanted == RAVEL ? run_along(g, j) : run_parts(g, j);
}

static cr_status run_job(job *j) {
    if (j->task == PUT_SUM && cr_gpu_lacks(j->op, j->to)) return cr_error_status();
    if (!j->index->numel) return CR_OK;
    if (j->from && j->from->storage == j->to->storage) return cr_gpu_cannot(j->op, j->to->dev, "within one tensor");
    gpu *g = cr_gpu_enter(j->op, j->to->dev);
    return g ? cr_gpu_leave(g, run_checked(g, j)) : cr_error_status();
}

cr_status cr_gpu_fault_note(gpu *g, const char *op, int fault, const cr_array *index) {
    cr_array unused = *index;                      /* nothing is written */
    return run_along(g, &(job){.op = op, .task = NOTE, .index = index, .to = &unused, .fault = fault});
}

static void contiguous(int64_t strides[3], int64_t rows, int64_t columns) { cr_strides_contiguous(3, (const int64_t[]){1, rows, columns}, strides); }

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
    job j = {.op = sum ? "scatter_add" : "scatter", .task = sum ? PUT_SUM : PUT, .index = index, .to = y, .from = src, .size = {M, K, N}, .bound = R};
    contiguous(j.index_strides, K, N);
    contiguous(j.to_strides, R, N);
    contiguous(j.from_strides, K, N);
    return run_job(&j);
}

cr_status cr_gpu_take_rows(const cr_take_rows_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const char *op = args->op;
    const bool wrap = args->wrap;
    job j = {.op = op, .task = TAKE, .index = index, .to = y, .from = x, .wrap = wrap, .size = {y->shape[0], y->shape[1], y->shape[2]}, .bound = x->shape[1],
             .index_strides = {0, 1, 0}};
    of_tensor(j.to_strides, y);
    of_tensor(j.from_strides, x);
    return run_job(&j);
}

cr_status cr_gpu_put_rows(const cr_put_rows_args *args) {
    const cr_array *x = &args->x, *index = &args->index, *src = &args->src;
    const char *op = args->op;
    const bool sum = args->sum, wrap = args->wrap;
    job j = {.op = op, .task = sum ? PUT_SUM : PUT, .index = index, .to = x, .from = src, .wrap = wrap, .size = {src->shape[0], src->shape[1], src->shape[2]},
             .bound = x->shape[1], .index_strides = {0, 1, 0}};
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
    cr_status status = CR_OK;
    for (int k = 0; k < n && status == CR_OK; k++) {
        job j = {.op = op, .task = RAVEL, .index = index[k], .to = y, .wrap = true, .size = {1, k, 1}, .bound = sizes[k]};
        status = run_job(&j);
    }
    return status;
}
