/* matmul.c - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)]: by cuBLASLt where it is there and the layouts suit it, else by
 * a kernel of our own (matmul.cu).  cuBLASLt is told of rows as columns: c^T = b^T a^T.  Its heuristic, not a timing, chooses the algorithm.
 * Operands that are to be rounded to bf16 become so first, 6 bytes an element, and are multiplied as such.  GELU, its gradient, and the sums of
 * rows, are cuBLASLt's alone (matmul_beside).  Its tanh is good to about 2e-4, so not for f32 with all bits. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

static int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }
static int64_t batch_stride(const cr_array *t, int d) { return t->shape[d] == 1 ? 0 : t->strides[d]; }

/* ---- the kernel of our own */

static const cuda_kernel *kernel_of(cuda *g, const char *name, cr_dtype dt, bool rounds) {
    const char *acc = cr_dtype_is_float(dt) ? cr_cuda_wide(dt) : cr_dtype_size(dt) == 8 ? "u64" : "u32";
    return cr_cuda_kernel_of(g, "matmul", cr_cuda_source_matmul, name, "#define T %s\n#define A %s\n#define ROUND %d\n", cr_cuda_type(dt), acc, rounds);
}

static cr_status run_plain(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b, const cr_array *bias, int how) {
    enum { EDGE = 64 };
    const cr_dtype dt = c->dtype;
    const int axes = c->ndim - 2;
    const int64_t M = c->shape[axes], N = c->shape[axes + 1], K = a->shape[axes + 1], across = (N + EDGE - 1) / EDGE, tiles = across * ((M + EDGE - 1) / EDGE);
    const cuda_kernel *k = kernel_of(g, "matmul", dt, how & CR_MATMUL_BF16 && dt == CR_F32);
    if (!k) return cr_error_status();
    cuda_words q = {.n = 19, .w = {cuda_address_of(c), cuda_address_of(a), cuda_address_of(b), cuda_address_of(bias), (uint64_t)M, (uint64_t)N, (uint64_t)K, (uint64_t)across, (uint64_t)tiles,
                                   (uint64_t)a->strides[axes], (uint64_t)a->strides[axes + 1], (uint64_t)b->strides[axes], (uint64_t)b->strides[axes + 1], (uint64_t)c->strides[axes],
                                   bias ? (uint64_t)bias->strides[0] : 0, how & CR_MATMUL_ADD, distance(a->strides[axes + 1]) < distance(a->strides[axes]),
                                   distance(b->strides[axes]) < distance(b->strides[axes + 1]), (uint64_t)axes}};
    int64_t matrices = 1;
    for (int d = 0; d < 6; d++) {
        const bool there = d < axes;
        if (there) matrices *= c->shape[d];
        cuda_push(&q, there ? (uint64_t)c->shape[d] : 1);
        cuda_push(&q, there ? (uint64_t)batch_stride(a, d) : 0);
        cuda_push(&q, there ? (uint64_t)batch_stride(b, d) : 0);
        cuda_push(&q, there ? (uint64_t)batch_stride(c, d) : 0);
    }
    return cr_cuda_launch_struct(g, "matmul", k, &q, matrices * tiles);
}

/* ---- cuBLASLt */

typedef struct matrix { int64_t rows, columns, stride, batch_stride, turned; } matrix;      /* as columns lie in memory; turned: the transpose is meant; no padding, it is compared by bytes */
typedef struct shape {                              /* all that an algorithm is chosen for; compared by bytes */
    matrix a, b, c;                                 /* in cuBLASLt's order: a is our b */
    int64_t batch;
    uint32_t alignment[5];                          /* of a, b, c, extra's vector and h: bytes */
    int32_t type, result, compute, epilogue;        /* type: of a and b */
} shape;

struct cuda_product {
    shape of;
    bool fits;                                      /* false: cuBLASLt has no algorithm for it */
    lt_handle product, a, b, c;
    lt_algorithm algorithm;
    size_t workspace;
    struct cuda_product *next;
};
enum { WORKSPACE = 32 << 20 };                      /* at most */

/* Of rows x columns with these strides, turned rather than not if that is wanted and both are so; false: neither axis is dense. */
static bool matrix_of(matrix *m, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, bool turned) {
    const bool by_rows = (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1), by_columns = (row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1);
    if (by_columns && (turned || !by_rows)) *m = (matrix){.rows = rows, .columns = columns, .stride = columns == 1 ? rows : column_stride, .turned = true};
    else *m = (matrix){.rows = columns, .columns = rows, .stride = rows == 1 ? columns : row_stride};
    return by_rows || by_columns;
}

/* All axes of c before the last two as one of t, where it may have stride 0; false: they are not one. */
static bool one_batch(const cr_array *t, const cr_array *c, int axes, int64_t *stride) {
    int64_t n = 1;
    *stride = 0;
    for (int d = axes - 1; d >= 0; d--) {
        if (c->shape[d] == 1) continue;
        const int64_t s = batch_stride(t, d);
        if (n == 1) *stride = s;
        else if (s != *stride * n) return false;
        n *= c->shape[d];
    }
    return *stride >= 0;
}

static uint32_t alignment_of(const cr_array *t) {
    if (!t) return 256;                             /* what is absent asks for nothing */
    const cuda_address at = cuda_address_of(t), low = at & (~at + 1);
    return low < 256 ? (uint32_t)low : 256;
}

/* What cuBLASLt does beside the product, and where: vector: the bias, or the sums that it writes; h: what GELU is taken of; NULL: none. */
typedef struct extra { const cr_array *vector, *h; int32_t epilogue; } extra;

/* Sums are BGRADB's of our a, cuBLASLt's B, along K; and BGRAD's of D along its columns, our rows. */
static extra extra_of(const cr_array *beside, const cr_array *with, int how) {
    if (how & CR_MATMUL_SUMS) return (extra){beside, NULL, LT_EPILOGUE_BGRADB};
    if (how & CR_MATMUL_DGELU) return (extra){beside, with, beside ? LT_EPILOGUE_DGELU_BGRAD : LT_EPILOGUE_DGELU};
    const int32_t gelu = !(how & CR_MATMUL_GELU) ? 0 : beside ? LT_EPILOGUE_GELU_AUX : LT_EPILOGUE_GELU;
    return (extra){with, beside, gelu | (with ? LT_EPILOGUE_BIAS : 0)};
}

static bool shape_of(shape *s, const cr_array *c, const cr_array *a, const cr_array *b, const extra *e, bool tf32) {
    const int axes = c->ndim - 2;
    const int64_t M = c->shape[axes], N = c->shape[axes + 1], K = a->shape[axes + 1];
    memset(s, 0, sizeof *s);                        /* no byte is left to chance: they are compared */
    s->batch = 1;
    for (int d = 0; d < axes; d++) s->batch *= c->shape[d];
    const bool sums = e->epilogue == LT_EPILOGUE_BGRADB;           /* which it takes of a turned matrix alone */
    if (!matrix_of(&s->a, K, N, b->strides[axes], b->strides[axes + 1], false) || !matrix_of(&s->b, M, K, a->strides[axes], a->strides[axes + 1], sums)
        || !matrix_of(&s->c, M, N, c->strides[axes], 1, false) || s->c.turned || (sums && !s->b.turned)
        || !one_batch(b, c, axes, &s->a.batch_stride) || !one_batch(a, c, axes, &s->b.batch_stride) || !one_batch(c, c, axes, &s->c.batch_stride)) return false;
    const cr_array *of[] = {b, a, c, e->vector, e->h};
    for (int i = 0; i < 5; i++) s->alignment[i] = alignment_of(of[i]);
    s->type = s->result = c->dtype == CR_F64 ? LT_R_64F : c->dtype == CR_F32 ? LT_R_32F : c->dtype == CR_F16 ? LT_R_16F : LT_R_16BF;
    s->compute = c->dtype == CR_F64 ? LT_COMPUTE_64F : c->dtype == CR_F32 && tf32 ? LT_COMPUTE_32F_FAST_TF32 : LT_COMPUTE_32F;
    s->epilogue = e->epilogue;
    return !e->epilogue || (c->dtype != CR_F64 && s->alignment[3] >= 16 && s->alignment[4] >= 16 && (!e->vector || e->vector->strides[0] == 1) && (!e->h || s->c.stride % 8 == 0));
}

static int make_layout(lt_handle *layout, const shape *s, const matrix *m, int32_t type) {
    const int32_t count = (int32_t)s->batch;
    int error = cr_cublaslt.LayoutCreate(layout, type, (uint64_t)m->rows, (uint64_t)m->columns, m->stride);
    if (!error && count > 1) error = cr_cublaslt.LayoutSet(*layout, LT_LAYOUT_BATCH_COUNT, &count, sizeof count);
    return !error && count > 1 ? cr_cublaslt.LayoutSet(*layout, LT_LAYOUT_BATCH_STRIDE, &m->batch_stride, sizeof m->batch_stride) : error;
}

/* Where extra's vector and h lie. */
static int point(lt_handle product, const cuda_address at[5]) {
    const int error = at[3] ? cr_cublaslt.MatmulDescSet(product, LT_DESC_BIAS, &at[3], sizeof at[3]) : 0;
    return !error && at[4] ? cr_cublaslt.MatmulDescSet(product, LT_DESC_EPILOGUE_AUX_POINTER, &at[4], sizeof at[4]) : error;
}

static int choose(cuda *g, struct cuda_product *p, const cuda_address at[5]) {
    const shape *s = &p->of;
    const int32_t turned[2] = {(int32_t)s->a.turned, (int32_t)s->b.turned};
    const size_t most = WORKSPACE;
    const uint32_t reductions = LT_REDUCTION_COMPUTE_TYPE;         /* of parts of K: in f32, not in the type of the result, and in a fixed order */
    lt_handle preference = NULL;
    lt_heuristic found;
    int count = 0, error = cr_cublaslt.MatmulDescCreate(&p->product, s->compute, s->type == LT_R_64F ? LT_R_64F : LT_R_32F);
    if (!error) error = cr_cublaslt.MatmulDescSet(p->product, LT_DESC_TRANSA, &turned[0], sizeof *turned);
    if (!error) error = cr_cublaslt.MatmulDescSet(p->product, LT_DESC_TRANSB, &turned[1], sizeof *turned);
    if (!error && s->epilogue) error = cr_cublaslt.MatmulDescSet(p->product, LT_DESC_EPILOGUE, &s->epilogue, sizeof s->epilogue);
    if (!error && at[4]) error = cr_cublaslt.MatmulDescSet(p->product, LT_DESC_EPILOGUE_AUX_LD, &s->c.stride, sizeof s->c.stride);
    if (!error) error = point(p->product, at);
    if (!error) error = make_layout(&p->a, s, &s->a, s->type);
    if (!error) error = make_layout(&p->b, s, &s->b, s->type);
    if (!error) error = make_layout(&p->c, s, &s->c, s->result);
    if (!error) error = cr_cublaslt.PreferenceCreate(&preference);
    if (!error) error = cr_cublaslt.PreferenceSet(preference, LT_PREFERENCE_WORKSPACE, &most, sizeof most);
    if (!error) error = cr_cublaslt.PreferenceSet(preference, LT_PREFERENCE_REDUCTIONS, &reductions, sizeof reductions);
    for (int i = 0; i < 4 && !error; i++) error = cr_cublaslt.PreferenceSet(preference, LT_PREFERENCE_ALIGNMENT_A + i, &s->alignment[i < 3 ? i : 2], sizeof *s->alignment);
    if (!error) error = cr_cublaslt.Heuristic(g->lt, p->product, p->a, p->b, p->c, p->c, preference, 1, &found, &count);
    if (preference) cr_cublaslt.PreferenceDestroy(preference);
    if (!error && count == 1 && !found.status) {
        p->algorithm = found.algorithm;
        p->workspace = found.workspace;
        p->fits = true;
    }
    return error;
}

static bool is_refusal(int error) { return error == LT_NOT_SUPPORTED || error == LT_INVALID_VALUE || error == LT_ARCHITECTURE_MISMATCH; }
/* Of other errors cuBLASLt does not say whether it had no memory, for its kernels for one: once it may try again where what was cached is given back. */
static bool may_again(cuda *g, int error) { return error && !is_refusal(error) && cr_cuda_make_room(g, CUDA_OUT_OF_MEMORY); }

static void forget(struct cuda_product *p) {
    lt_handle *const layouts[] = {&p->a, &p->b, &p->c};
    for (int i = 0; i < 3; i++) if (*layouts[i]) cr_cublaslt.LayoutDestroy(*layouts[i]), *layouts[i] = NULL;
    if (p->product) cr_cublaslt.MatmulDescDestroy(p->product), p->product = NULL;
}

/* What was worked out for this shape; NULL: no memory.  Shapes of a model are few, so a list will do. */
static struct cuda_product *product_of(cuda *g, const shape *s, const cuda_address at[5]) {
    struct cuda_product *p = g->products;
    while (p && memcmp(&p->of, s, sizeof *s)) p = p->next;
    if (p || !(p = calloc(1, sizeof *p))) return p;
    p->of = *s;
    int error = choose(g, p, at);
    if (may_again(g, error)) forget(p), error = choose(g, p, at);
    if (!p->fits) forget(p), g->counters.refused++; /* what it does not take, the kernel of our own does */
    p->next = g->products;
    return g->products = p;
}

/* An f32 operand rounded to bf16: as it lies, but each column begins where 16 bytes may be read at once. */
typedef struct rounded { matrix from, to; cuda_block *block; } rounded;
static void round_matrix(rounded *r, matrix *m, uint32_t *alignment) {
    r->from = *m;
    m->stride = (m->rows + 7) / 8 * 8;
    if (m->batch_stride) m->batch_stride = m->stride * m->columns;
    *alignment = 256;
    r->to = *m;
}

static cr_status round_elements(cuda *g, rounded *r, cuda_address *at, int64_t batch) {
    const int64_t matrices = r->from.batch_stride ? batch : 1, packs = matrices * r->to.columns * r->to.stride / 8;
    const cuda_kernel *k = kernel_of(g, "round_to_bf16", CR_F32, false);
    if (!k || !(r->block = cr_cuda_block_take(g, "matmul", 16 * (size_t)packs))) return cr_error_status();
    cuda_words q = {.n = 7, .w = {r->block->at, *at, (uint64_t)packs, (uint64_t)r->from.rows, (uint64_t)r->from.columns, (uint64_t)r->from.stride, (uint64_t)r->from.batch_stride}};
    *at = r->block->at;
    return cr_cuda_launch(g, "matmul", k, &q, cr_cuda_blocks(g, packs));
}

/* D = epilogue(A B + beta C); the addresses of A, B, C, and of extra's vector and h */
static cr_status launch(cuda *g, struct cuda_product *p, const cuda_address at[5], bool add, bool *done) {
    const double one = 1, beta = add;
    const float one32 = 1, beta32 = add;
    const bool wide = p->of.result == LT_R_64F;
    int error = point(p->product, at);
    g->counters.launches++;
    bool again = false;
    if (!error) do error = cr_cublaslt.Matmul(g->lt, p->product, wide ? (const void *)&one : &one32, at[0], p->a, at[1], p->b, wide ? (const void *)&beta : &beta32, at[2], p->c, at[2], p->c,
                                     &p->algorithm, p->workspace ? g->workspace->at : 0, p->workspace, g->stream);
    while (!again && (again = may_again(g, error)));
    if (is_refusal(error)) return forget(p), g->counters.refused++, *done = p->fits = false, CR_OK;      /* of some large batches its heuristic promises too much */
    return error ? cr_fail(error == LT_ALLOC_FAILED ? CR_NO_MEMORY : CR_RUNTIME, "matmul", "%s: cuBLASLt fails with error %d", g->name, error) : CR_OK;
}

/* Memory of as many bytes as any product so far; what it was is free for what comes after the products that have it. */
static bool has_workspace(cuda *g, size_t bytes) {
    if (!bytes || (g->workspace && g->workspace->bytes >= bytes)) return true;
    cuda_block *more = cr_cuda_block_take(g, "matmul", bytes);
    if (!more) return false;
    if (g->workspace) cr_cuda_block_give(g, g->workspace);
    g->workspace = more;
    return true;
}

/* Done, or not for cuBLASLt, or failed. */
static cr_status run_lt(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b, const extra *e, int how, bool *done) {
    const bool rounds = how & CR_MATMUL_BF16 && c->dtype == CR_F32;
    cuda_address at[] = {cuda_address_of(b), cuda_address_of(a), cuda_address_of(c), cuda_address_of(e->vector), cuda_address_of(e->h)};
    shape s;
    rounded r[2] = {{.block = NULL}};
    *done = false;
    if (c->dtype == CR_F32 && how & (CR_MATMUL_GELU | CR_MATMUL_DGELU) && !(how & (CR_MATMUL_TF32 | CR_MATMUL_BF16))) return CR_OK;
    if (!cr_dtype_is_float(c->dtype) || !a->shape[a->ndim - 1] || !shape_of(&s, c, a, b, e, how & CR_MATMUL_TF32 && g->major >= 8) || !cr_lt_ready()) return CR_OK;
    int error = g->lt || g->lt_failed ? 0 : cr_cublaslt.Create(&g->lt);
    if (may_again(g, error)) error = cr_cublaslt.Create(&g->lt);
    if (error) g->lt = NULL, g->lt_failed = true;
    if (!g->lt) return CR_OK;
    if (rounds) {
        s.type = LT_R_16BF;
        round_matrix(&r[0], &s.a, &s.alignment[0]);
        round_matrix(&r[1], &s.b, &s.alignment[1]);
    }
    struct cuda_product *p = product_of(g, &s, at);
    if (!p || !p->fits) return CR_OK;
    *done = true;
    if (!has_workspace(g, p->workspace)) return cr_error_status();
    cr_status status = CR_OK;
    for (int i = 0; i < 2 && rounds && status == CR_OK; i++) status = round_elements(g, &r[i], &at[i], s.batch);
    if (status == CR_OK) status = launch(g, p, at, how & CR_MATMUL_ADD, done);
    for (int i = 0; i < 2; i++) if (r[i].block) cr_cuda_block_give(g, r[i].block);
    return status;
}

cr_status cr_cuda_matmul(const cr_matmul_args *args) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b, *bias = cr_present(&args->bias);
    const int how = args->how;
    if (!c->numel) return CR_OK;
    cuda *g = cr_cuda_enter("matmul", c->dev);
    if (!g) return cr_error_status();
    bool done;
    const extra e = extra_of(NULL, bias, how);
    const cr_status status = run_lt(g, c, a, b, &e, how, &done);
    return cr_cuda_leave(g, done ? status : run_plain(g, c, a, b, bias, how));
}

/* SUMS are of a as it is, so not where a is rounded first. */
cr_status cr_cuda_matmul_epilogue(const cr_matmul_epilogue_args *args) {
    const cr_array *c = &args->c, *beside = cr_present(&args->aux), *a = &args->a, *b = &args->b,
        *with = cr_present(&args->operand);
    const int how = args->how;
    bool *done = args->done;
    *done = false;
    if (!c->numel || (how & CR_MATMUL_SUMS && how & (CR_MATMUL_BF16 | CR_MATMUL_TF32) && c->dtype == CR_F32)) return CR_OK;
    cuda *g = cr_cuda_enter("matmul", c->dev);
    if (!g) return cr_error_status();
    const extra e = extra_of(beside, with, how);
    return cr_cuda_leave(g, run_lt(g, c, a, b, &e, how, done));
}
