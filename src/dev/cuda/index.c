/* index.c - elements read and written by index: gather, scatter, rows taken and put, several indices made one (index.cu). */
#include "gpu.h"

typedef struct job {
    const char *op;
    cr_tensor *to;
    const cr_tensor *from, *index;
    bool put, sum, wrap;
    int64_t size[3], bound;                         /* M, K, N; of the index */
    int64_t strides[3][3];                          /* of index, to, from over these */
} job;

/* What is only moved is moved as unsigned integers. */
static cr_dtype element_of(const job *j) {
    static const cr_dtype by_size[] = {CR_BOOL, CR_U8, CR_U16, CR_BOOL, CR_U32, CR_BOOL, CR_BOOL, CR_BOOL, CR_U64};
    return j->sum ? (cr_dtype)j->to->dtype : by_size[cr_dtype_size((cr_dtype)j->to->dtype)];
}

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype element, const cr_tensor *index, bool sum) {
    return cuda_kernel_of(g, op, cuda_source_index, name, "#define T %s\n#define INDEX %s\n#define ADD %d\n", cuda_type(element), cuda_type((cr_dtype)index->dtype), sum);
}

/* In how many the rows are divided: as many threads as keep a GPU busy, each with some of K at least. */
static int64_t buckets_of(const job *j) {
    enum { BUSY = 1 << 16, LEAST = 16 };
    int64_t n = 1;
    while (2 * n * j->size[0] * j->size[2] <= BUSY && 2 * n * LEAST <= j->size[1] && 2 * n <= j->bound) n *= 2;
    return n;
}

static cr_status run(cuda *g, const job *j) {
    const int64_t M = j->size[0], K = j->size[1], N = j->size[2], buckets = j->put ? buckets_of(j) : 1;
    const cuda_address fault = cuda_fault_new(g, j->op, j->bound);
    const cuda_kernel *k = fault ? kernel_of(g, j->op, j->put ? "put" : "take", element_of(j), j->index, j->sum) : NULL;
    const cuda_kernel *check = k && j->put ? kernel_of(g, j->op, "check", element_of(j), j->index, j->sum) : k;
    if (!check) return cr_error_status();
    cuda_words q = {.n = 10, .w = {cuda_address_of(j->to), cuda_address_of(j->from), cuda_address_of(j->index), fault, (uint64_t)M, (uint64_t)K, (uint64_t)N, (uint64_t)j->bound, j->wrap,
                                   (uint64_t)buckets}};
    for (int of = 0; of < 3; of++)
        for (int d = 0; d < 3; d++) cuda_push(&q, (uint64_t)j->strides[of][d]);
    cr_status status = j->put ? cuda_launch_struct(g, j->op, check, &q, cuda_blocks(g, j->index->numel)) : CR_OK;
    return status != CR_OK ? status : cuda_launch_struct(g, j->op, k, &q, cuda_blocks(g, j->put ? M * N * buckets : M * K * N));
}

static cr_status run_job(const job *j) {
    if (!j->size[0] || !j->size[1] || !j->size[2]) return CR_OK;
    cuda *g = cuda_enter(j->op, j->to->dev);
    return g ? cuda_leave(g, run(g, j)) : cr_error_status();
}

enum { INDEX, TO, FROM };

static void contiguous(int64_t strides[3], int64_t rows, int64_t columns) { cr_strides_contiguous(3, (const int64_t[]){1, rows, columns}, strides); }

static void of_tensor(int64_t strides[3], const cr_tensor *t) {
    for (int d = 0; d < 3; d++) strides[d] = t->strides[d];
}

cr_status cuda_gather(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K) {
    job j = {.op = "gather", .to = y, .from = x, .index = index, .size = {M, K, N}, .bound = R};
    contiguous(j.strides[INDEX], K, N);
    contiguous(j.strides[TO], K, N);
    contiguous(j.strides[FROM], R, N);
    return run_job(&j);
}

cr_status cuda_scatter(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool sum, int64_t M, int64_t R, int64_t N, int64_t K) {
    job j = {.op = sum ? "scatter_add" : "scatter", .to = y, .from = src, .index = index, .put = true, .sum = sum, .size = {M, K, N}, .bound = R};
    contiguous(j.strides[INDEX], K, N);
    contiguous(j.strides[TO], R, N);
    contiguous(j.strides[FROM], K, N);
    return run_job(&j);
}

cr_status cuda_take_rows(const char *op, cr_tensor *y, const cr_tensor *x, const cr_tensor *index, bool wrap) {
    job j = {.op = op, .to = y, .from = x, .index = index, .wrap = wrap, .size = {y->shape[0], y->shape[1], y->shape[2]}, .bound = x->shape[1], .strides = {{0, 1, 0}}};
    of_tensor(j.strides[TO], y);
    of_tensor(j.strides[FROM], x);
    return run_job(&j);
}

cr_status cuda_put_rows(const char *op, cr_tensor *x, const cr_tensor *index, const cr_tensor *src, bool sum, bool wrap) {
    job j = {.op = op, .to = x, .from = src, .index = index, .put = true, .sum = sum, .wrap = wrap, .size = {src->shape[0], src->shape[1], src->shape[2]}, .bound = x->shape[1],
             .strides = {{0, 1, 0}}};
    of_tensor(j.strides[TO], x);
    of_tensor(j.strides[FROM], src);
    return run_job(&j);
}

cr_status cuda_ravel(const char *op, cr_tensor *y, int n, const cr_tensor *const *index, const int64_t *sizes) {
    if (!y->numel) return CR_OK;
    cuda *g = cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    cr_status status = CR_OK;
    for (int i = 0; i < n && status == CR_OK; i++) {
        const cuda_address fault = cuda_fault_new(g, op, sizes[i]);
        const cuda_kernel *k = fault ? kernel_of(g, op, "ravel", CR_U64, index[i], false) : NULL;
        cuda_words q = {.n = 6, .w = {cuda_address_of(y), cuda_address_of(index[i]), fault, (uint64_t)y->numel, (uint64_t)sizes[i], i == 0}};
        status = k ? cuda_launch(g, op, k, &q, cuda_blocks(g, y->numel)) : cr_error_status();
    }
    return cuda_leave(g, status);
}
