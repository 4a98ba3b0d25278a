/* index.c - elements read and written by index: gather, scatter, rows taken and put, several indices made one (index.cu).
 *
 * What goes to one place is put in order.  Of many columns a thread has one, and reads its whole index; of few, up to some thousands, threads have
 * buckets of rows too, and each place one thread, which rounds at each addition.  Many indices would be read too often so: they are sorted, and runs of
 * them are summed, in f32, and put (a GPT's 64 K tokens: 9 launches).  That takes memory, some 20 bytes an index; where it is not had they are read. */
#include "order.h"

enum { INDEX, TO, FROM };
typedef struct job {
    const char *op;
    const cr_array *to;
    const cr_array *from, *index;
    bool put, sum, wrap;
    int64_t size[3], bound;                         /* M, K, N; of the index */
    int64_t strides[3][3];                          /* of index, to, from over these */
} job;

/* What is only moved is moved as unsigned integers; in whole rows neighbours are one of up to 8 bytes, of which the job then is. */
static cr_dtype element_of(job *j) {
    static const cr_dtype by_size[] = {CR_BOOL, CR_U8, CR_U16, CR_BOOL, CR_U32, CR_BOOL, CR_BOOL, CR_BOOL, CR_U64};
    size_t size = cr_dtype_size(j->to->dtype);
    if (j->sum) return j->to->dtype;
    const cuda_address at = cuda_address_of(j->to) | cuda_address_of(j->from);
    int64_t *const to = j->strides[TO], *const from = j->strides[FROM], *const N = &j->size[2];
    while (size < 8 && !j->strides[INDEX][2] && to[2] == 1 && from[2] == 1 && !((*N | to[0] | to[1] | from[0] | from[1]) & 1) && at % (2 * size) == 0) {
        for (int d = 0; d < 2; d++) to[d] /= 2, from[d] /= 2;
        *N /= 2, size *= 2;
    }
    return by_size[size];
}

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype element, const cr_array *index, bool sum) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_index, name, "#define T %s\n#define INDEX %s\n#define ADD %d\n", cr_cuda_type(element), cr_cuda_type(index->dtype), sum);
}
static const cuda_kernel *kernel_of_runs(cuda *g, const job *j, const char *name, cr_dtype element, cr_dtype key) {
    return cr_cuda_kernel_of(g, j->op, cr_cuda_source_index, name, "#define T %s\n#define INDEX %s\n#define ADD %d\n#define KEY %s\n#define A %s\n", cr_cuda_type(element),
                          cr_cuda_type(j->index->dtype), j->sum, cr_cuda_type(key), cr_dtype_is_float(element) ? cr_cuda_wide(element) : "u64");
}

enum { BUSY = 1 << 16 };                            /* threads that keep a GPU busy */
/* In how many the rows are divided: as many threads as keep a GPU busy, each with some of K at least. */
static int64_t buckets_of(const job *j) {
    enum { LEAST = 16 };
    int64_t n = 1;
    while (2 * n * j->size[0] * j->size[2] <= BUSY && 2 * n * LEAST <= j->size[1] && 2 * n <= j->bound) n *= 2;
    return n;
}

static cuda_words words_of(const job *j, const int64_t size[3], cuda_address fault, int64_t buckets) {
    cuda_words q = {.n = 10, .w = {cuda_address_of(j->to), cuda_address_of(j->from), cuda_address_of(j->index), fault, (uint64_t)size[0], (uint64_t)size[1], (uint64_t)size[2], (uint64_t)j->bound,
                                   j->wrap, (uint64_t)buckets}};
    for (int of = 0; of < 3; of++)
        for (int d = 0; d < 3; d++) cuda_push(&q, (uint64_t)j->strides[of][d]);
    return q;
}

/* An index of its own for each m and n, of what is contiguous, is one of single elements. */
static bool is_shared(const job *j) { return (j->size[0] == 1 || !j->strides[INDEX][0]) && (j->size[2] == 1 || !j->strides[INDEX][2]); }

/* begun: something may have been put. */
static cr_status run_sorted(cuda *g, const job *j, cr_dtype element, cuda_address fault, bool *begun) {
    enum { LEAST = 32, MOST = 1024 };               /* of a chunk; chunks, of which one run may have all */
    const bool shared = is_shared(j);
    const int64_t of_index[3] = {shared ? 1 : j->size[0], j->size[1], shared ? 1 : j->size[2]}, count = of_index[0] * of_index[1] * of_index[2], places = of_index[0] * j->bound * of_index[2];
    const int64_t size[3] = {shared ? j->size[0] : 1, count, shared ? j->size[2] : 1};
    const cr_dtype key = places <= 1 << 16 ? CR_U16 : places <= INT64_C(1) << 32 ? CR_U32 : CR_U64;
    job of_runs = *j;
    int64_t chunk = LEAST;
    while (chunk * MOST < count) chunk *= 2;
    const int64_t chunks = (count + chunk - 1) / chunk, threads = chunks * size[0] * size[2];
    if (!shared) for (int of = TO; of <= FROM; of++) of_runs.strides[of][1] = 1;
    const size_t part = ((size_t)count * cr_dtype_size(key) + 511) / 512 * 512, order = ((size_t)count * 8 + 511) / 512 * 512;
    cuda_block *b = cr_cuda_block_take(g, j->op, 2 * part + order + (j->sum ? (element == CR_F64 || !cr_dtype_is_float(element) ? 8 : 4) * (size_t)threads : 0));
    if (!b) return cr_error_status();
    const cuda_ordering sorted = {j->op, key, false, b->at + part, b->at + 2 * part, b->at, 1, count, count};
    static const char *const names[] = {"number", "put_runs", "put_parts"};
    cr_status status = CR_OK;
    for (int i = 0; i < 2 + j->sum && status == CR_OK; i++) {
        const cuda_kernel *k = kernel_of_runs(g, j, names[i], element, key);
        cuda_words q = words_of(&of_runs, i ? size : of_index, fault, 1);
        const uint64_t more[] = {i ? sorted.y : sorted.x, sorted.index, sorted.index + order, (uint64_t)chunk, (uint64_t)chunks};
        for (int word = 0; word < 5; word++) cuda_push(&q, more[word]);
        *begun = i > 0;
        status = k ? cr_cuda_launch_struct(g, j->op, k, &q, cr_cuda_blocks(g, i ? threads : count)) : cr_error_status();
        if (!i && status == CR_OK) status = cr_cuda_order_rows(g, &sorted);
    }
    cr_cuda_block_give(g, b);
    return status;
}

static cr_status run(cuda *g, job *j) {
    enum { MANY = 1024, BUCKETS = 8 };              /* indices, and how often they would be read for a column, from which on sorting takes less */
    const cuda_address fault = cr_cuda_fault_new(g, j->op, j->bound);
    if (!fault) return cr_error_status();
    const cr_dtype element = element_of(j);
    const int64_t M = j->size[0], K = j->size[1], N = j->size[2], buckets = j->put ? buckets_of(j) : 1;
    bool begun = false;
    if (j->put && K >= MANY && BUCKETS * M * N <= BUSY) {
        const cr_status status = run_sorted(g, j, element, fault, &begun);
        if (status != CR_NO_MEMORY || begun || atomic_load(&g->lost)) return status;
        cr_error_clear();
    }
    const cuda_kernel *k = kernel_of(g, j->op, j->put ? "put" : "take", element, j->index, j->sum), *check = k && j->put ? kernel_of(g, j->op, "check", element, j->index, j->sum) : k;
    if (!check) return cr_error_status();
    cuda_words q = words_of(j, j->size, fault, buckets);
    cr_status status = j->put ? cr_cuda_launch_struct(g, j->op, check, &q, cr_cuda_blocks(g, j->index->numel)) : CR_OK;
    return status != CR_OK ? status : cr_cuda_launch_struct(g, j->op, k, &q, cr_cuda_blocks(g, j->put ? M * N * buckets : M * K * N));
}

static cr_status run_job(job *j) {
    if (!j->size[0] || !j->size[1] || !j->size[2]) return CR_OK;
    cuda *g = cr_cuda_enter(j->op, j->to->dev);
    return g ? cr_cuda_leave(g, run(g, j)) : cr_error_status();
}

static void contiguous(int64_t strides[3], int64_t rows, int64_t columns) { cr_strides_contiguous(3, (const int64_t[]){1, rows, columns}, strides); }

static void of_tensor(int64_t strides[3], const cr_array *t) {
    for (int d = 0; d < 3; d++) strides[d] = t->strides[d];
}

cr_status cr_cuda_gather(const cr_gather_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], N = args->x.shape[2], K = args->index.shape[1];
    job j = {.op = "gather", .to = y, .from = x, .index = index, .size = {M, K, N}, .bound = R};
    contiguous(j.strides[INDEX], K, N);
    contiguous(j.strides[TO], K, N);
    contiguous(j.strides[FROM], R, N);
    return run_job(&j);
}

cr_status cr_cuda_scatter(const cr_scatter_args *args) {
    const cr_array *y = &args->y, *index = &args->index, *src = &args->src;
    const bool sum = args->sum;
    const int64_t M = args->y.shape[0], R = args->y.shape[1], N = args->y.shape[2], K = args->index.shape[1];
    job j = {.op = sum ? "scatter_add" : "scatter", .to = y, .from = src, .index = index, .put = true, .sum = sum, .size = {M, K, N}, .bound = R};
    contiguous(j.strides[INDEX], K, N);
    contiguous(j.strides[TO], R, N);
    contiguous(j.strides[FROM], K, N);
    return run_job(&j);
}

cr_status cr_cuda_take_rows(const cr_take_rows_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const char *op = args->op;
    const bool wrap = args->wrap;
    job j = {.op = op, .to = y, .from = x, .index = index, .wrap = wrap, .size = {y->shape[0], y->shape[1], y->shape[2]}, .bound = x->shape[1], .strides = {{0, 1, 0}}};
    of_tensor(j.strides[TO], y);
    of_tensor(j.strides[FROM], x);
    return run_job(&j);
}

cr_status cr_cuda_put_rows(const cr_put_rows_args *args) {
    const cr_array *x = &args->x, *index = &args->index, *src = &args->src;
    const char *op = args->op;
    const bool sum = args->sum, wrap = args->wrap;
    job j = {.op = op, .to = x, .from = src, .index = index, .put = true, .sum = sum, .wrap = wrap, .size = {src->shape[0], src->shape[1], src->shape[2]}, .bound = x->shape[1],
             .strides = {{0, 1, 0}}};
    of_tensor(j.strides[TO], x);
    of_tensor(j.strides[FROM], src);
    return run_job(&j);
}

cr_status cr_cuda_ravel(const cr_ravel_args *args) {
    const cr_array *y = &args->y;
    const char *op = args->op;
    const int n = args->n;
    const cr_array *const *index = args->index;
    const int64_t *sizes = args->sizes;
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    cr_status status = CR_OK;
    for (int i = 0; i < n && status == CR_OK; i++) {
        const cuda_address fault = cr_cuda_fault_new(g, op, sizes[i]);
        const cuda_kernel *k = fault ? kernel_of(g, op, "ravel", CR_U64, index[i], false) : NULL;
        cuda_words q = {.n = 6, .w = {cuda_address_of(y), cuda_address_of(index[i]), fault, (uint64_t)y->numel, (uint64_t)sizes[i], i == 0}};
        status = k ? cr_cuda_launch(g, op, k, &q, cr_cuda_blocks(g, y->numel)) : cr_error_status();
    }
    return cr_cuda_leave(g, status);
}
