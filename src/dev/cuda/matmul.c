/* matmul.c - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)]: by cuBLASLt where it is
 * found and the layouts suit it, else by matmul.cu.
 *
 * cuBLASLt sees rows as columns: it computes c^T = b^T a^T.  Its heuristic chooses the algorithm,
 * without timing.  Operands that are to be rounded to bf16 are rounded first, which moves 6 bytes
 * an element, and multiplied as bf16.  The epilogues (GELU, the sums of rows) exist in cuBLASLt
 * only.  Its tanh has an error of about 2e-4, so full f32 precision excludes GELU.  Where cuBLASLt
 * refuses an epilogue, its product runs without it and a pass of our own does the rest: the plain
 * kernel is 20 to 50 times slower.  So matmul.cu runs floats only where there is no cuBLASLt or no
 * axis is dense.  Long axes of half precision that are no multiple of 16 bytes are cut. */
#include "gpu.h"
#include "matmul.cu"

#include <stdlib.h>
#include <string.h>

static int64_t batch_stride(const cr_array *t, int d) { return t->shape[d] == 1 ? 0 : t->strides[d]; }

/* ---- the plain kernel */

/* dt: of the operands; of_c: of c and bias */
static const cuda_kernel *kernel_of(cuda *g, const char *name, cr_dtype dt, cr_dtype of_c, bool rounds) {
    const char *acc = cr_dtype_is_float(dt) ? cr_cuda_wide(dt) : cr_dtype_size(dt) == 8 ? "u64" : "u32";
    return cr_cuda_kernel_of(g, "matmul", cr_cuda_source_matmul, name,
                             "#define T %s\n#define TO %s\n#define A %s\n#define ROUND %d\n", cr_cuda_type(dt),
                             cr_cuda_type(of_c), acc, rounds);
}

static int64_t tiles_of(int64_t n) { return cuda_pieces(n, MATMUL_EDGE); }

static matmul_arguments arguments_of(const cr_array *c, const cr_array *a, const cr_array *b, const cr_array *bias,
                                     int how) {
    const int axes = c->ndim - 2;
    const int64_t M = c->shape[axes], N = c->shape[axes + 1];
    matmul_arguments q = {.c = cuda_address_of(c),
                          .a = cuda_address_of(a),
                          .b = cuda_address_of(b),
                          .bias = cuda_address_of(bias),
                          .M = M,
                          .N = N,
                          .K = a->shape[axes + 1],
                          .across = tiles_of(N),
                          .tiles = tiles_of(N) * tiles_of(M),
                          .a_m = a->strides[axes],
                          .a_k = a->strides[axes + 1],
                          .b_k = b->strides[axes],
                          .b_n = b->strides[axes + 1],
                          .c_m = c->strides[axes],
                          .bias_n = bias ? bias->strides[0] : 0,
                          .add = (how & CR_MATMUL_ADD) != 0,
                          .axes = axes};
    q.a_along_k = llabs(q.a_k) < llabs(q.a_m);
    q.b_along_k = llabs(q.b_k) < llabs(q.b_n);
    return q;
}

static cr_status run_plain(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b, const cr_array *bias,
                           int how) {
    _Static_assert(MATMUL_BATCH_AXES == CR_MAX_DIMS - 2, "matmul_arguments.batch");
    const cuda_kernel *k = kernel_of(g, "matmul", a->dtype, c->dtype, how & CR_MATMUL_BF16 && a->dtype == CR_F32);
    if (!k) return cr_error_status();
    matmul_arguments q = arguments_of(c, a, b, bias, how);
    int64_t matrices = 1;
    for (int d = 0; d < q.axes; d++) {
        matrices *= q.batch[d].size = c->shape[d];
        q.batch[d].a = batch_stride(a, d);
        q.batch[d].b = batch_stride(b, d);
        q.batch[d].c = batch_stride(c, d);
    }
    return cr_cuda_launch(g, "matmul", k, &q, matrices * q.tiles);
}

/* ---- cuBLASLt */

enum { A, B, C, VECTOR, AUX, OPERANDS };            /* in cuBLASLt's order: A is our b, B is our a; VECTOR and AUX:
                                                     * of the epilogue */
/* columns lie in memory; no padding: compared as bytes */
typedef struct matrix { int64_t rows, columns, stride, batch_stride, transposed; } matrix;
typedef struct shape {                              /* everything that the choice of an algorithm depends on;
                                                     * compared as bytes */
    matrix a, b, c;
    int64_t batch;
    uint32_t alignment[OPERANDS];                   /* bytes */
    int32_t type, result, compute, epilogue;        /* type: of A and B */
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

/* rows x columns with these strides; transposed: preferred where both orders are possible.  False:
 * neither axis is dense. */
static bool matrix_of(matrix *m, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                      bool transposed) {
    const bool by_rows = (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1);
    const bool by_columns = (row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1);
    if (by_columns && (transposed || !by_rows))
        *m = (matrix){
            .rows = rows, .columns = columns, .stride = columns == 1 ? rows : column_stride, .transposed = true};
    else *m = (matrix){.rows = columns, .columns = rows, .stride = rows == 1 ? columns : row_stride};
    return by_rows || by_columns;
}

/* The batch axes of c as one axis of t, whose stride may be 0; false: they cannot be merged. */
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
    if (!t) return 256;                             /* absent: no constraint */
    const cuda_address at = cuda_address_of(t), low = at & (~at + 1);
    return low < 256 ? (uint32_t)low : 256;
}

/* The epilogue that cuBLASLt computes in the same pass.  vector: the bias, or the sums that it writes; aux: the
 * argument of GELU.  NULL: absent. */
typedef struct epilogue { const cr_array *vector, *aux; int32_t kind; } epilogue;

/* The sums are BGRADB's of cuBLASLt's B, our a, along K. */
static epilogue epilogue_of(const cr_array *aux, const cr_array *bias, int how) {
    if (how & CR_MATMUL_SUMS) return (epilogue){aux, NULL, LT_EPILOGUE_BGRADB};
    const int32_t gelu = !(how & CR_MATMUL_GELU) ? 0 : aux ? LT_EPILOGUE_GELU_AUX : LT_EPILOGUE_GELU;
    return (epilogue){bias, aux, gelu | (bias ? LT_EPILOGUE_BIAS : 0)};
}

static int32_t type_of(cr_dtype dt) {
    return dt == CR_F64 ? LT_R_64F : dt == CR_F32 ? LT_R_32F : dt == CR_F16 ? LT_R_16F : LT_R_16BF;
}

/* False: cuBLASLt does not take these strides. */
static bool matrices_of(shape *s, const cr_array *c, const cr_array *a, const cr_array *b, bool sums) {
    const int axes = c->ndim - 2;
    const int64_t M = c->shape[axes], N = c->shape[axes + 1], K = a->shape[axes + 1];
    if (!matrix_of(&s->a, K, N, b->strides[axes], b->strides[axes + 1], false)) return false;
    if (!matrix_of(&s->b, M, K, a->strides[axes], a->strides[axes + 1], sums)) return false;
    if (!matrix_of(&s->c, M, N, c->strides[axes], 1, false) || s->c.transposed) return false;
    if (sums && !s->b.transposed) return false;     /* BGRADB takes a transposed matrix only */
    s->batch = 1;
    for (int d = 0; d < axes; d++) s->batch *= c->shape[d];
    return one_batch(b, c, axes, &s->a.batch_stride) && one_batch(a, c, axes, &s->b.batch_stride) &&
           one_batch(c, c, axes, &s->c.batch_stride);
}

static bool takes_epilogue(const shape *s, const epilogue *e) {
    if (!e->kind) return true;
    if (s->result == LT_R_64F || s->alignment[VECTOR] < 16 || s->alignment[AUX] < 16) return false;
    return (!e->vector || e->vector->strides[0] == 1) && (!e->aux || s->c.stride % 8 == 0);
}

static bool shape_of(shape *s, const cr_array *c, const cr_array *a, const cr_array *b, const epilogue *e, bool tf32) {
    const cr_array *operands[] = {b, a, c, e->vector, e->aux};
    memset(s, 0, sizeof *s);                        /* all bytes are compared */
    if (!matrices_of(s, c, a, b, e->kind == LT_EPILOGUE_BGRADB)) return false;
    for (int i = 0; i < OPERANDS; i++) s->alignment[i] = alignment_of(operands[i]);
    s->type = type_of(a->dtype);
    s->result = type_of(c->dtype);
    s->compute = c->dtype == CR_F64           ? LT_COMPUTE_64F
                 : a->dtype == CR_F32 && tf32 ? LT_COMPUTE_32F_FAST_TF32
                                              : LT_COMPUTE_32F;
    s->epilogue = e->kind;
    return takes_epilogue(s, e);
}

/* ---- the algorithm for a shape */

typedef struct setting { int attribute; const void *value; size_t bytes; } setting;        /* value NULL: leave it */
static int set_all(int (*set)(lt_handle, int, const void *, size_t), lt_handle handle, const setting *s, size_t n) {
    int error = 0;
    for (size_t i = 0; i < n && !error; i++)
        if (s[i].value) error = set(handle, s[i].attribute, s[i].value, s[i].bytes);
    return error;
}
#define SET_ALL(set, handle, settings) set_all(set, handle, settings, sizeof (settings) / sizeof *(settings))

static int make_layout(lt_handle *layout, const shape *s, const matrix *m, int32_t type) {
    const int32_t count = (int32_t)s->batch;
    const bool batched = count > 1;
    const setting settings[] = {{LT_LAYOUT_BATCH_COUNT, batched ? &count : NULL, sizeof count},
                                {LT_LAYOUT_BATCH_STRIDE, batched ? &m->batch_stride : NULL, sizeof m->batch_stride}};
    const int error = cr_cublaslt.LayoutCreate(layout, type, (uint64_t)m->rows, (uint64_t)m->columns, m->stride);
    return error ? error : SET_ALL(cr_cublaslt.LayoutSet, *layout, settings);
}

static int make_layouts(struct cuda_product *p) {
    const shape *s = &p->of;
    int error = make_layout(&p->a, s, &s->a, s->type);
    if (!error) error = make_layout(&p->b, s, &s->b, s->type);
    return error ? error : make_layout(&p->c, s, &s->c, s->result);
}

/* The addresses of the epilogue's operands. */
static int set_addresses(lt_handle product, const cuda_address at[OPERANDS]) {
    const setting settings[] = {{LT_DESC_BIAS, at[VECTOR] ? &at[VECTOR] : NULL, sizeof *at},
                                {LT_DESC_EPILOGUE_AUX_POINTER, at[AUX] ? &at[AUX] : NULL, sizeof *at}};
    return SET_ALL(cr_cublaslt.MatmulDescSet, product, settings);
}

static int describe(struct cuda_product *p, const cuda_address at[OPERANDS]) {
    const shape *s = &p->of;
    const int32_t transposed[2] = {(int32_t)s->a.transposed, (int32_t)s->b.transposed};
    const setting settings[] = {
        {LT_DESC_TRANSA, &transposed[0], sizeof *transposed}, {LT_DESC_TRANSB, &transposed[1], sizeof *transposed},
        {LT_DESC_EPILOGUE, s->epilogue ? &s->epilogue : NULL, sizeof s->epilogue},
        {LT_DESC_EPILOGUE_AUX_LD, at[AUX] ? &s->c.stride : NULL, sizeof s->c.stride}};
    int error = cr_cublaslt.MatmulDescCreate(&p->product, s->compute, s->type == LT_R_64F ? LT_R_64F : LT_R_32F);
    if (!error) error = SET_ALL(cr_cublaslt.MatmulDescSet, p->product, settings);
    return error ? error : set_addresses(p->product, at);
}

static int find_algorithm(cuda *g, struct cuda_product *p) {
    /* parts of K are added in f32, in a fixed order */
    const uint32_t *alignment = p->of.alignment, reductions = LT_REDUCTION_COMPUTE_TYPE;
    const size_t workspace = WORKSPACE;
    const setting settings[] = {/* D is C */
                                {LT_PREFERENCE_WORKSPACE, &workspace, sizeof workspace},
                                {LT_PREFERENCE_REDUCTIONS, &reductions, sizeof reductions},
                                {LT_PREFERENCE_ALIGNMENT_A, &alignment[A], sizeof *alignment},
                                {LT_PREFERENCE_ALIGNMENT_A + 1, &alignment[B], sizeof *alignment},
                                {LT_PREFERENCE_ALIGNMENT_A + 2, &alignment[C], sizeof *alignment},
                                {LT_PREFERENCE_ALIGNMENT_A + 3, &alignment[C], sizeof *alignment}};
    lt_handle preference = NULL;
    lt_heuristic found;
    int count = 0, error = cr_cublaslt.PreferenceCreate(&preference);
    if (!error) error = SET_ALL(cr_cublaslt.PreferenceSet, preference, settings);
    if (!error) error = cr_cublaslt.Heuristic(g->lt, p->product, p->a, p->b, p->c, p->c, preference, 1, &found, &count);
    if (preference) cr_cublaslt.PreferenceDestroy(preference);
    if (!error && count == 1 && !found.status) {
        p->algorithm = found.algorithm;
        p->workspace = found.workspace;
        p->fits = true;
    }
    return error;
}

static int choose(cuda *g, struct cuda_product *p, const cuda_address at[OPERANDS]) {
    int error = describe(p, at);
    if (!error) error = make_layouts(p);
    return error ? error : find_algorithm(g, p);
}

static bool is_refusal(int error) {
    return error == LT_NOT_SUPPORTED || error == LT_INVALID_VALUE || error == LT_ARCHITECTURE_MISMATCH;
}
/* Other errors do not say whether memory was short, such as memory for cuBLASLt's kernels: after
 * cached memory was freed, it may try again once. */
static bool can_retry(cuda *g, int error) {
    return error && !is_refusal(error) && cr_cuda_make_room(g, CUDA_OUT_OF_MEMORY);
}

static void forget(struct cuda_product *p) {
    lt_handle *const layouts[] = {&p->a, &p->b, &p->c};
    for (int i = 0; i < 3; i++) {
        if (*layouts[i]) cr_cublaslt.LayoutDestroy(*layouts[i]);
        *layouts[i] = NULL;
    }
    if (p->product) cr_cublaslt.MatmulDescDestroy(p->product);
    p->product = NULL;
}

/* The cached choice for this shape; NULL: no memory.  A model has few shapes, so a list will do. */
static struct cuda_product *product_of(cuda *g, const shape *s, const cuda_address at[OPERANDS]) {
    struct cuda_product *p = g->products;
    while (p && memcmp(&p->of, s, sizeof *s)) p = p->next;
    if (p || !(p = calloc(1, sizeof *p))) return p;
    p->of = *s;
    const int error = choose(g, p, at);
    if (can_retry(g, error)) forget(p), choose(g, p, at);
    if (!p->fits) forget(p), g->counters.refused++; /* the plain kernel runs instead */
    p->next = g->products;
    return g->products = p;
}

/* ---- running it */

/* An f32 operand rounded to bf16, in the same order, but each column begins at a multiple of 16 bytes; all 0: none. */
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
    const cuda_kernel *k = kernel_of(g, "round_to_bf16", CR_F32, CR_F32, false);
    if (!k || !(r->block = cr_cuda_block_take(g, "matmul", 16 * (size_t)packs))) return cr_error_status();
    const round_arguments q = {.y = r->block->at,
                               .x = *at,
                               .packs = packs,
                               .rows = r->from.rows,
                               .columns = r->from.columns,
                               .stride = r->from.stride,
                               .batch_stride = r->from.batch_stride};
    *at = r->block->at;
    return cr_cuda_launch(g, "matmul", k, &q, cr_cuda_blocks(g, packs));
}

/* A number as cuBLASLt takes it: f64 for products of f64, else f32. */
typedef union number { double f64; float f32; } number;
static number number_of(double v, bool wide) { return wide ? (number){.f64 = v} : (number){.f32 = (float)v}; }

/* D = epilogue(A B + beta C).  *done becomes false where cuBLASLt refuses after all: its heuristic
 * accepts some large batches that cannot run. */
static cr_status launch(cuda *g, struct cuda_product *p, const cuda_address at[OPERANDS], bool add, bool *done) {
    const bool wide = p->of.result == LT_R_64F;
    const number one = number_of(1, wide), beta = number_of(add, wide);
    int error = set_addresses(p->product, at);
    g->counters.launches++;
    for (int tries = 0; tries < 2 && !error; tries++) {
        cuda_span *span = cr_cuda_span_begin(g, CUDA_KERNELS, "matmul", "cublasLtMatmul");
        error = cr_cublaslt.Matmul(g->lt, p->product, &one, at[A], p->a, at[B], p->b, &beta, at[C], p->c, at[C], p->c,
                                   &p->algorithm, p->workspace ? g->workspace->at : 0, p->workspace, g->stream);
        cr_cuda_span_stop(g, span);
        if (!error) return CR_OK;
        if (!tries && can_retry(g, error)) error = 0;
    }
    if (is_refusal(error)) return forget(p), g->counters.refused++, *done = p->fits = false, CR_OK;
    return cr_fail(error == LT_ALLOC_FAILED ? CR_NO_MEMORY : CR_RUNTIME, "matmul", "%s: cuBLASLt fails with error %d",
                   g->name, error);
}

/* One workspace, as large as any product so far needed.  Its old memory may be used again at once: the
 * stream orders the products. */
static bool has_workspace(cuda *g, size_t bytes) {
    if (!bytes || (g->workspace && g->workspace->bytes >= bytes)) return true;
    if (g->noting) return cr_fail(CR_RUNTIME, "matmul", "a graph of %s has no workspace", g->name), false;
    cuda_block *more = cr_cuda_block_take(g, "matmul", bytes);
    if (!more) return false;
    if (g->workspace) cr_cuda_block_give(g, g->workspace);
    g->workspace = more;
    return true;
}

static bool has_cublaslt(cuda *g) {
    if (!cr_lt_ready()) return false;
    if (g->lt || g->lt_failed) return g->lt;
    int error = cr_cublaslt.Create(&g->lt);
    if (can_retry(g, error)) error = cr_cublaslt.Create(&g->lt);
    if (error) g->lt = NULL, g->lt_failed = true;
    return g->lt;
}

static cr_status run_product(cuda *g, struct cuda_product *p, const shape *s, rounded r[2],
                             cuda_address at[OPERANDS], bool add, bool *done) {
    *done = true;
    cr_status status = has_workspace(g, p->workspace) ? CR_OK : cr_error_status();
    for (int i = 0; i < 2 && status == CR_OK; i++)
        if (r[i].to.rows) status = round_elements(g, &r[i], &at[i], s->batch);
    if (status == CR_OK) status = launch(g, p, at, add, done);
    for (int i = 0; i < 2; i++)
        if (r[i].block) cr_cuda_block_give(g, r[i].block);
    return status;
}

/* A product that cuBLASLt computes, before it runs. */
typedef struct planned { struct cuda_product *p; shape of; rounded r[2]; cuda_address at[OPERANDS]; } planned;

/* False: cuBLASLt does not compute this product. */
static bool plan(cuda *g, planned *q, const cr_array *c, const cr_array *a, const cr_array *b, const epilogue *e,
                 int how) {
    const bool f32 = a->dtype == CR_F32, shortened = how & (CR_MATMUL_TF32 | CR_MATMUL_BF16);
    *q = (planned){.at = {cuda_address_of(b), cuda_address_of(a), cuda_address_of(c), cuda_address_of(e->vector),
                          cuda_address_of(e->aux)}};
    shape *s = &q->of;
    if (!cr_dtype_is_float(c->dtype) || !a->shape[a->ndim - 1]) return false;
    if (f32 && how & CR_MATMUL_GELU && !shortened) return false;
    if (!shape_of(s, c, a, b, e, how & CR_MATMUL_TF32 && g->major >= 8) || !has_cublaslt(g)) return false;
    if (f32 && how & CR_MATMUL_BF16) {
        s->type = LT_R_16BF;
        round_matrix(&q->r[0], &s->a, &s->alignment[A]);
        round_matrix(&q->r[1], &s->b, &s->alignment[B]);
    }
    q->p = product_of(g, s, q->at);
    return q->p && q->p->fits;
}

/* *done false: cuBLASLt does not compute this product. */
static cr_status run_lt(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b, const epilogue *e, int how,
                        bool *done) {
    planned q;
    *done = plan(g, &q, c, a, b, e, how);
    return *done ? run_product(g, q.p, &q.of, q.r, q.at, how & CR_MATMUL_ADD, done) : CR_OK;
}

/* ---- a bias whose epilogue cuBLASLt refuses: f64, an address that is no multiple of 16 bytes, some sizes */

static cr_status run_bias(cuda *g, const cr_array *c, const cr_array *bias, int64_t batch_stride_of_c, bool add) {
    const int axes = c->ndim - 2;
    const int64_t M = c->shape[axes], N = c->shape[axes + 1], each = 16 / (int64_t)cr_dtype_size(c->dtype);
    const bias_arguments q = {.c = cuda_address_of(c), .bias = cuda_address_of(bias),
                              .packs = c->numel / N * cuda_pieces(N, each), .M = M, .N = N,
                              .c_batch = batch_stride_of_c, .c_m = c->strides[axes], .bias_n = bias->strides[0],
                              .add = add};
    const cuda_kernel *k = kernel_of(g, "bias_rows", c->dtype, c->dtype, false);
    return k ? cr_cuda_launch(g, "matmul", k, &q, cr_cuda_blocks(g, q.packs)) : cr_error_status();
}

/* c = bias first, then the product is added to it: the sum is rounded once, as in the epilogue.  Both
 * passes move as many bytes as a product and a pass after it. */
static cr_status run_bias_apart(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b, const cr_array *bias,
                                int how, bool *done) {
    planned q;
    bool ran;
    if (!(*done = plan(g, &q, c, a, b, &(epilogue){0}, how))) return CR_OK;
    cr_status status = run_bias(g, c, bias, q.of.c.batch_stride, how & CR_MATMUL_ADD);
    if (status == CR_OK) status = run_product(g, q.p, &q.of, q.r, q.at, true, &ran);
    return status != CR_OK || ran ? status : run_plain(g, c, a, b, NULL, how | CR_MATMUL_ADD);
}

static cr_status multiply(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b, const cr_array *bias,
                          int how) {
    bool done;
    const epilogue e = epilogue_of(NULL, bias, how);
    cr_status status = run_lt(g, c, a, b, &e, how, &done);
    if (!done && bias) status = run_bias_apart(g, c, a, b, bias, how, &done);
    return done ? status : run_plain(g, c, a, b, bias, how);
}

/* ---- long axes that are no multiple of 16 bytes, such as GPT-2's 50257 classes.  cuBLAS's documentation ("Tensor
 * Core Usage") wants that of every dense axis.  Where rows begin at multiples of 16 bytes, the product is
 * cut: one over the largest multiple, and a thin one over the rest. */
typedef enum cut { CUT_NONE, CUT_M, CUT_N, CUT_K } cut;
enum { PACK = 8, LONG_AXIS = 1024 };                /* elements of half precision in 16 bytes; the shortest axis that
                                                     * is cut */

/* Is axis d of t dense, long and odd, with aligned rows along it? */
static bool is_odd(const cr_array *t, int d) {
    return t->strides[d] == 1 && t->shape[d] >= LONG_AXIS && t->shape[d] % PACK && t->shape[1 - d] > 1 &&
           t->strides[1 - d] % PACK == 0;
}

static cut cut_of(const cr_array *c, const cr_array *a, const cr_array *b) {
    if (c->ndim != 2 || !cr_dtype_is_half(a->dtype)) return CUT_NONE;
    return is_odd(c, 1) || is_odd(b, 1)   ? CUT_N
           : is_odd(a, 0)                 ? CUT_M
           : is_odd(a, 1) || is_odd(b, 0) ? CUT_K
                                          : CUT_NONE;
}

/* The rest comes first: a sum along K is rounded between its parts, and that of few terms is small. */
static cr_status multiply_cut(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b, const cr_array *bias,
                              int how, cut at) {
    const int64_t n = at == CUT_M ? c->shape[0] : at == CUT_N ? c->shape[1] : a->shape[1], whole = n / PACK * PACK;
    cr_status status = CR_OK;
    for (int rest = 1; rest >= 0 && status == CR_OK; rest--) {
        const int64_t first = rest ? whole : 0, size = rest ? n - whole : whole;
        const bool more = at == CUT_K && !rest;
        const cr_array cp = at == CUT_K ? *c : cr_array_narrowed(c, at == CUT_N, first, size);
        const cr_array ap = at == CUT_N ? *a : cr_array_narrowed(a, at == CUT_K, first, size);
        const cr_array bp = at == CUT_M ? *b : cr_array_narrowed(b, at == CUT_N, first, size);
        const cr_array biases = bias && at == CUT_N ? cr_array_narrowed(bias, 0, first, size)
                                : bias && !more     ? *bias
                                                    : (cr_array){0};
        status = multiply(g, &cp, &ap, &bp, cr_present(&biases), more ? how | CR_MATMUL_ADD : how);
    }
    return status;
}

cr_status cr_cuda_multiply(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b) {
    return multiply(g, c, a, b, NULL, 0);
}

cr_status cr_cuda_matmul(const cr_matmul_args *args) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b, *bias = cr_present(&args->bias);
    if (!c->numel) return CR_OK;
    cuda *g = cr_cuda_enter("matmul", c->dev);
    if (!g) return cr_error_status();
    const cut at = cut_of(c, a, b);
    return cr_cuda_leave(g, at ? multiply_cut(g, c, a, b, bias, args->how, at) : multiply(g, c, a, b, bias, args->how));
}

/* The sums are those of a itself, so there are none where a is rounded first. */
cr_status cr_cuda_matmul_epilogue(const cr_matmul_epilogue_args *args) {
    const cr_array *c = &args->c;
    const int how = args->how;
    cr_note_done(args->done, false);
    if (!c->numel || (how & CR_MATMUL_SUMS && how & (CR_MATMUL_BF16 | CR_MATMUL_TF32) && args->a.dtype == CR_F32))
        return CR_OK;
    cuda *g = cr_cuda_enter("matmul", c->dev);
    if (!g) return cr_error_status();
    const epilogue e = epilogue_of(cr_present(&args->aux), cr_present(&args->bias), how);
    bool done;
    const cr_status status = run_lt(g, c, &args->a, &args->b, &e, how, &done);
    cr_note_done(args->done, done);
    return cr_cuda_leave(g, status);
}
