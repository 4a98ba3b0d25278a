/* index.c - elements read and written by index: gather, scatter, rows taken and put, several indices
 * raveled into one (index.cu).
 *
 * Elements with the same destination are put in order.  With many columns a thread has one column and
 * reads its whole index.  With few columns, up to some thousands, the rows are divided into buckets
 * too; each destination belongs to one thread, which rounds at each addition.  Long indices would be
 * read too often this way: they are sorted, and runs of equal indices are summed in f32 and put (64 K
 * tokens of a GPT: 9 launches). Sorting takes memory, about 20 bytes an index; if there is none, the
 * indices are read unsorted. */
#include "order.h"
#include "index.cu"

#include <string.h>

enum { INDEX, TO, FROM };
typedef struct job {
    const char *op;
    const cr_array *to;
    const cr_array *from, *index;
    bool put, sum, wrap;
    int64_t size[3], bound;                         /* M, K, N; of the index */
    int64_t strides[3][3];                          /* of index, to, from over these */
} job;

/* Elements that are only moved are moved as unsigned integers; in whole rows neighbours are merged
 * into elements of up to 8 bytes, and the job counts in these. */
static cr_dtype element_of(job *j) {
    static const cr_dtype by_size[] = {CR_BOOL, CR_U8, CR_U16, CR_BOOL, CR_U32, CR_BOOL, CR_BOOL, CR_BOOL, CR_U64};
    size_t size = cr_dtype_size(j->to->dtype);
    if (j->sum) return j->to->dtype;
    const cuda_address at = cuda_address_of(j->to) | cuda_address_of(j->from);
    int64_t *const to = j->strides[TO], *const from = j->strides[FROM], *const N = &j->size[2];
    while (size < 8 && !j->strides[INDEX][2] && to[2] == 1 && from[2] == 1 &&
           !((*N | to[0] | to[1] | from[0] | from[1]) & 1) && at % (2 * size) == 0) {
        for (int d = 0; d < 2; d++) to[d] /= 2, from[d] /= 2;
        *N /= 2, size *= 2;
    }
    return by_size[size];
}

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype element, const cr_array *index,
                                    bool sum) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_index, name, "#define T %s\n#define INDEX %s\n#define ADD %d\n",
                             cr_cuda_type(element), cr_cuda_type(index->dtype), sum);
}
static const cuda_kernel *kernel_of_runs(cuda *g, const job *j, const char *name, cr_dtype element, cr_dtype key) {
    static const char definitions[] = "#define T %s\n#define INDEX %s\n#define ADD %d\n#define KEY %s\n#define A %s\n";
    return cr_cuda_kernel_of(g, j->op, cr_cuda_source_index, name, definitions, cr_cuda_type(element),
                             cr_cuda_type(j->index->dtype), j->sum, cr_cuda_type(key),
                             cr_dtype_is_float(element) ? cr_cuda_wide(element) : "u64");
}

enum { BUSY = 1 << 16 };                            /* threads that keep a GPU busy */
/* The number of buckets of rows: as many threads as keep a GPU busy, each with at least LEAST indices. */
static int64_t buckets_of(const job *j) {
    enum { LEAST = 16 };
    int64_t n = 1;
    while (2 * n * j->size[0] * j->size[2] <= BUSY && 2 * n * LEAST <= j->size[1] && 2 * n <= j->bound) n *= 2;
    return n;
}

static index_arguments arguments_of(const job *j, const int64_t size[3], cuda_address fault, int64_t buckets) {
    const int64_t *index = j->strides[INDEX], *to = j->strides[TO], *from = j->strides[FROM];
    return (index_arguments){
        .to = cuda_address_of(j->to), .from = cuda_address_of(j->from), .index = cuda_address_of(j->index), .f = fault,
        .M = size[0], .K = size[1], .N = size[2], .bound = j->bound, .wrap = j->wrap, .buckets = buckets,
        .index_m = index[0], .index_k = index[1], .index_n = index[2], .to_m = to[0], .to_k = to[1], .to_n = to[2],
        .from_m = from[0], .from_k = from[1], .from_n = from[2]};
}

/* One index serves every m and n.  Otherwise each m and n has its own, and as all is contiguous,
 * elements are put one by one. */
static bool is_shared(const job *j) {
    return (j->size[0] == 1 || !j->strides[INDEX][0]) && (j->size[2] == 1 || !j->strides[INDEX][2]);
}

/* A job whose indices are sorted first: `count` keys, in chunks; a thread has a chunk of one m and n. */
typedef struct sorting {
    job j;                                          /* its strides are those from one key to the next */
    cr_dtype element, key;
    int64_t indices[3], size[3];                    /* M, K, N of the index, and of what the threads put */
    int64_t count, chunk, chunks, threads;
} sorting;

static sorting sorting_of(const job *j, cr_dtype element) {
    enum { LEAST = 32, MOST = 1024 };               /* keys of a chunk; chunks, all of which may belong to one run */
    const bool shared = is_shared(j);
    const int64_t M = j->size[0], K = j->size[1], N = j->size[2], positions = shared ? j->bound : M * j->bound * N;
    sorting s = {.j = *j, .element = element, .count = shared ? K : M * K * N, .chunk = LEAST};
    const int64_t index[3] = {shared ? 1 : M, K, shared ? 1 : N}, size[3] = {shared ? M : 1, s.count, shared ? N : 1};
    memcpy(s.indices, index, sizeof index);
    memcpy(s.size, size, sizeof size);
    s.key = positions <= 1 << 16 ? CR_U16 : positions <= INT64_C(1) << 32 ? CR_U32 : CR_U64;
    while (s.chunk * MOST < s.count) s.chunk *= 2;
    s.chunks = cuda_pieces(s.count, s.chunk);
    s.threads = s.chunks * size[0] * size[2];
    if (!shared) s.j.strides[TO][1] = s.j.strides[FROM][1] = 1;
    return s;
}

static int64_t in_blocks(int64_t bytes) { return 512 * cuda_pieces(bytes, 512); }

/* Numbers the positions, sorts them, and puts the runs.  begun: something may have been put. */
static cr_status run_sorted(cuda *g, const job *j, cr_dtype element, cuda_address fault, bool *begun) {
    static const char *const names[] = {"number", "put_runs", "put_parts"};
    const sorting s = sorting_of(j, element);
    const size_t part = (size_t)in_blocks(s.count * (int64_t)cr_dtype_size(s.key)),
                 order = (size_t)in_blocks(s.count * 8);
    const size_t sum_bytes = element == CR_F64 || !cr_dtype_is_float(element) ? 8 : 4;
    cuda_block *b = cr_cuda_block_take(g, j->op, 2 * part + order + (j->sum ? sum_bytes * (size_t)s.threads : 0));
    if (!b) return cr_error_status();
    const cuda_ordering sorted = {.op = j->op, .dtype = s.key, .y = b->at + part, .index = b->at + 2 * part, .x = b->at,
                                  .M = 1, .R = s.count, .K = s.count};
    cr_status status = CR_OK;
    for (int i = 0; i < 2 + j->sum && status == CR_OK; i++) {
        const runs_arguments q = {.p = arguments_of(&s.j, i ? s.size : s.indices, fault, 1),
                                  .keys = i ? sorted.y : sorted.x,
                                  .order = sorted.index,
                                  .parts = sorted.index + order,
                                  .chunk = s.chunk,
                                  .chunks = s.chunks};
        *begun = i > 0;
        status = cr_cuda_launch(g, j->op, kernel_of_runs(g, j, names[i], element, s.key), &q,
                                cr_cuda_blocks(g, i ? s.threads : s.count));
        if (!i && status == CR_OK) status = cr_cuda_order_rows(g, &sorted);
    }
    cr_cuda_block_give(g, b);
    return status;
}

static cr_status take_rows(cuda *g, const job *j, cr_dtype element, cuda_address fault) {
    const index_arguments q = arguments_of(j, j->size, fault, 1);
    const cuda_kernel *k = kernel_of(g, j->op, "take", element, j->index, j->sum);
    return cr_cuda_launch(g, j->op, k, &q, cr_cuda_blocks(g, j->size[0] * j->size[1] * j->size[2]));
}

static cr_status put_rows(cuda *g, const job *j, cr_dtype element, cuda_address fault) {
    const int64_t buckets = buckets_of(j);
    const index_arguments q = arguments_of(j, j->size, fault, buckets);
    const cuda_kernel *k = kernel_of(g, j->op, "put", element, j->index, j->sum);
    const cuda_kernel *check = k ? kernel_of(g, j->op, "check", element, j->index, j->sum) : NULL;
    const cr_status status = cr_cuda_launch(g, j->op, check, &q, cr_cuda_blocks(g, j->index->numel));
    return status == CR_OK ? cr_cuda_launch(g, j->op, k, &q, cr_cuda_blocks(g, j->size[0] * j->size[2] * buckets))
                           : status;
}

static cr_status put_by_index(cuda *g, job *j) {
    enum { MANY = 1024, READS = 8 };                /* indices, and how often they would be read for a column, from
                                                     * which on sorting is faster */
    const cuda_address fault = cr_cuda_fault_new(g, j->op, j->bound);
    if (!fault) return cr_error_status();
    const cr_dtype element = element_of(j);
    bool begun = false;
    if (!j->put) return take_rows(g, j, element, fault);
    if (j->size[1] >= MANY && READS * j->size[0] * j->size[2] <= BUSY) {
        const cr_status status = run_sorted(g, j, element, fault, &begun);
        if (status != CR_NO_MEMORY || begun || atomic_load(&g->lost)) return status;
        cr_error_clear();
    }
    return put_rows(g, j, element, fault);
}

static cr_status run_job(job *j) {
    if (!j->size[0] || !j->size[1] || !j->size[2]) return CR_OK;
    cuda *g = cr_cuda_enter(j->op, j->to->dev);
    return g ? cr_cuda_leave(g, put_by_index(g, j)) : cr_error_status();
}

static void contiguous(int64_t strides[3], int64_t rows, int64_t columns) {
    cr_strides_contiguous(3, (const int64_t[]){1, rows, columns}, strides);
}

static void copy_strides(int64_t strides[3], const cr_array *t) {
    for (int d = 0; d < 3; d++) strides[d] = t->strides[d];
}

cr_status cr_cuda_gather(const cr_gather_args *args) {
    const int64_t *x = args->x.shape, K = args->index.shape[1];
    job j = {.op = "gather",
             .to = &args->y,
             .from = &args->x,
             .index = &args->index,
             .size = {x[0], K, x[2]},
             .bound = x[1]};
    contiguous(j.strides[INDEX], K, x[2]);
    contiguous(j.strides[TO], K, x[2]);
    contiguous(j.strides[FROM], x[1], x[2]);
    return run_job(&j);
}

cr_status cr_cuda_scatter(const cr_scatter_args *args) {
    const int64_t *y = args->y.shape, K = args->index.shape[1];
    job j = {.op = args->sum ? "scatter_add" : "scatter",
             .to = &args->y,
             .from = &args->src,
             .index = &args->index,
             .put = true,
             .sum = args->sum,
             .size = {y[0], K, y[2]},
             .bound = y[1]};
    contiguous(j.strides[INDEX], K, y[2]);
    contiguous(j.strides[TO], y[1], y[2]);
    contiguous(j.strides[FROM], K, y[2]);
    return run_job(&j);
}

cr_status cr_cuda_take_rows(const cr_take_rows_args *args) {
    const int64_t *y = args->y.shape;
    job j = {.op = args->op, .to = &args->y, .from = &args->x, .index = &args->index, .wrap = args->wrap,
             .size = {y[0], y[1], y[2]}, .bound = args->x.shape[1], .strides = {{0, 1, 0}}};
    copy_strides(j.strides[TO], &args->y);
    copy_strides(j.strides[FROM], &args->x);
    return run_job(&j);
}

cr_status cr_cuda_put_rows(const cr_put_rows_args *args) {
    const int64_t *src = args->src.shape;
    job j = {.op = args->op, .to = &args->x, .from = &args->src, .index = &args->index, .put = true, .sum = args->sum,
             .wrap = args->wrap, .size = {src[0], src[1], src[2]}, .bound = args->x.shape[1], .strides = {{0, 1, 0}}};
    copy_strides(j.strides[TO], &args->x);
    copy_strides(j.strides[FROM], &args->src);
    return run_job(&j);
}

cr_status cr_cuda_ravel(const cr_ravel_args *args) {
    const cr_array *y = &args->y;
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(args->op, y->dev);
    if (!g) return cr_error_status();
    cr_status status = CR_OK;
    for (int i = 0; i < args->n && status == CR_OK; i++) {
        const cr_array *index = args->index[i];
        const cuda_address fault = cr_cuda_fault_new(g, args->op, args->sizes[i]);
        const cuda_kernel *k = fault ? kernel_of(g, args->op, "ravel", CR_U64, index, false) : NULL;
        const ravel_arguments q = {.to = cuda_address_of(y),
                                   .index = cuda_address_of(index),
                                   .f = fault,
                                   .numel = y->numel,
                                   .bound = args->sizes[i],
                                   .first = i == 0};
        status = cr_cuda_launch(g, args->op, k, &q, cr_cuda_blocks(g, y->numel));
    }
    return cr_cuda_leave(g, status);
}
