/* attention.c - attention of every head, forward and backward, in one kernel for o, one for dq and one for dk and dv (attention.cu): by tensor
 * cores where the GPU has them for the dtype and the operands lie so that 16 bytes can be read at once, else plainly.  Of few queries the keys are
 * split over blocks, and what those found is joined. */
#include "gpu.h"

#include <stdlib.h>

typedef enum pass { FORWARD, QUERIES, KEYS, DELTA, SPLIT } pass;   /* PASS of attention.cu: o, dq, dk and dv, the sums of g o, o from parts of the keys */
enum { OPERANDS = 8 };
typedef struct job {
    const char *op;
    const cr_array *operand[OPERANDS], *mask, *lse;               /* q, k, v, o, g, dq, dk, dv, NULL where there is none; mask too */
    cuda_address delta, lse_for_bwd;                               /* what DELTA leaves */
    double scale;
    bool causal;
    int64_t B, H, T, S, D;
} job;

static job open_job(const char *op, const cr_array *q, const cr_array *k, const cr_array *mask, const cr_array *lse, double scale, bool causal) {
    return (job){.op = op, .operand = {q, k}, .mask = mask, .lse = lse, .scale = scale, .causal = causal,
                 .B = q->shape[0], .H = q->shape[1], .T = q->shape[2], .S = k->shape[2], .D = q->shape[3]};
}

static bool suits_tensor_cores(const cuda *g, const job *j) {
    const cr_dtype dt = j->operand[0]->dtype;
    bool suits = g->major >= 8 && (dt == CR_F16 || dt == CR_BF16) && j->D % 8 == 0 && j->D >= 32 && j->D <= 128 && j->T < 1 << 30 && j->S < 1 << 30;
    for (int i = 0; i < OPERANDS && suits; i++) {
        const cr_array *t = j->operand[i];
        if (t) suits = cuda_address_of(t) % 16 == 0 && t->strides[0] % 8 == 0 && t->strides[1] % 8 == 0 && t->strides[2] % 8 == 0 && llabs(t->strides[2]) < 1 << 30;
    }
    return suits;
}

/* attention_args of attention.cu */
static cuda_words words_of(const job *j, int64_t tiles, int64_t parts) {
    static const int64_t none[4] = {0};
    cuda_words q = {0};
    for (int i = 0; i < OPERANDS; i++) {
        const cr_array *t = j->operand[i];
        cuda_push(&q, cuda_address_of(t));
        for (int axis = 0; axis < 3; axis++) cuda_push(&q, (uint64_t)(t ? t->strides : none)[axis]);
    }
    cuda_push(&q, cuda_address_of(j->mask));
    for (int axis = 0; axis < 4; axis++) cuda_push(&q, (uint64_t)(j->mask ? j->mask->strides : none)[axis]);
    const uint64_t rest[] = {j->lse_for_bwd ? j->lse_for_bwd : cuda_address_of(j->lse), j->delta, (uint64_t)j->H, (uint64_t)j->T, (uint64_t)j->S, (uint64_t)j->D, j->causal};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) cuda_push(&q, rest[i]);
    cuda_push_f64(&q, j->scale);
    cuda_push(&q, (uint64_t)tiles);
    cuda_push(&q, (uint64_t)parts);
    return q;
}

static int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* GPUs with 100 KiB of shared memory for each multiprocessor, not 160 or more. */
static bool has_little_memory(const cuda *g) { return (g->major == 8 && g->minor > 0) || g->major == 12; }

/* Rows of a warp (MT, of 16) and columns of a tile (NT, of 8), which registers hold without a spill and shared memory for two blocks, for heads of up to 64 and of up to 128. */
static cr_status run_tensor_cores(cuda *g, const job *j, pass p, const char *name, int64_t rows) {
    typedef struct { int mt, nt; } size;
    static const size sizes[2][2][3] = {{{{2, 8}, {2, 8}, {2, 8}}, {{2, 8}, {2, 4}, {2, 4}}},        /* masks take registers, too */
                                        {{{2, 4}, {1, 4}, {2, 4}}, {{2, 4}, {1, 4}, {2, 2}}}};
    static const size little[3] = {{2, 4}, {1, 4}, {1, 2}};        /* for heads of up to 128 */
    enum { WARPS = 4, THREADS = 32 * WARPS };
    const bool large = j->D > 64, masked = j->mask != NULL;
    const size z = large && has_little_memory(g) ? little[p] : sizes[masked][large][p];
    const int height = 16 * z.mt * WARPS / (p == KEYS ? 2 : 1), width = 8 * z.nt, row_bytes = large ? 256 : 128;
    const int shared = p == FORWARD ? row_bytes * (height + 2 * width) : p == QUERIES ? row_bytes * (2 * height + 2 * width) : row_bytes * (2 * height + 4 * width) + 16 * width + 2 * height * width;
    const cuda_kernel *k = cr_cuda_kernel_of(g, j->op, cr_cuda_source_attention, name, "#define PASS %d\n#define T %s\n#define A f32\n#define MASKED %d\n#define HEAD %d\n#define MT %d\n#define NT %d\n",
                                          (int)p, cr_cuda_type(j->operand[0]->dtype), masked, (int)j->D, z.mt, z.nt);
    const int64_t tiles = pieces(rows, height);
    cuda_words q = words_of(j, tiles, 1);
    return k ? cr_cuda_launch_shared(g, j->op, k, &q, j->B * j->H * tiles, THREADS, shared) : cr_error_status();
}

/* Heads of more columns than a block has groups for are cut, and scores computed for each part. */
static cr_status run_plain(cuda *g, const job *j, pass p, const char *name, int64_t rows) {
    const cr_dtype dt = j->operand[0]->dtype;
    const int r = dt == CR_F64 ? 2 : 4, n = 16 * r, groups = j->D > n ? 2 : 1;
    const cuda_kernel *k = cr_cuda_kernel_of(g, j->op, cr_cuda_source_attention, name, "#define PASS %d\n#define T %s\n#define A %s\n#define MASKED %d\n#define R %d\n#define C %d\n", (int)p,
                                          cr_cuda_type(dt), cr_cuda_wide(dt), j->mask != NULL, r, groups);
    const int64_t tiles = p == DELTA ? 1 : pieces(rows, n), parts = p == DELTA ? j->B * j->H * rows : pieces(j->D, n * groups);
    cuda_words q = words_of(j, tiles, parts);
    return k ? cr_cuda_launch_struct(g, j->op, k, &q, p == DELTA ? pieces(parts, CUDA_GROUP / 32) : j->B * j->H * tiles * parts) : cr_error_status();
}

/* As many blocks as there are queries and parts of the keys, where a block for 64 queries of a head would leave most of the GPU idle. */
enum { FEW = 4, PART = 64 };                        /* queries; keys of a part */
static cr_status run_split(cuda *g, job *j) {
    const cr_dtype dt = j->operand[0]->dtype;
    const int64_t rows = j->B * j->H * j->T, parts = pieces(j->S, PART);
    const cuda_kernel *k[2];
    static const char *const names[] = {"attention_part", "attention_join"};
    for (int i = 0; i < 2; i++)
        if (!(k[i] = cr_cuda_kernel_of(g, j->op, cr_cuda_source_attention, names[i], "#define PASS %d\n#define T %s\n#define A %s\n#define MASKED %d\n#define R 1\n#define C 1\n#define KEYS %d\n", (int)SPLIT,
                                    cr_cuda_type(dt), cr_cuda_wide(dt), j->mask != NULL, PART))) return cr_error_status();
    cuda_block *found = cr_cuda_block_take(g, j->op, (size_t)(rows * parts * (j->D + 2)) * cr_dtype_size(j->lse->dtype));
    if (!found) return cr_error_status();
    j->delta = found->at;
    cuda_words q = words_of(j, parts, 1);
    cr_status status = cr_cuda_launch_struct(g, j->op, k[0], &q, rows * parts);
    if (status == CR_OK) status = cr_cuda_launch_struct(g, j->op, k[1], &q, rows);
    cr_cuda_block_give(g, found);
    return status;
}

static cr_status run(cuda *g, const job *j, pass p) {
    static const char *const names[] = {"attention", "attention_dq", "attention_dkv", "attention_delta"};
    const int64_t rows = p == KEYS ? j->S : j->T;
    return p != DELTA && suits_tensor_cores(g, j) ? run_tensor_cores(g, j, p, names[p], rows) : run_plain(g, j, p, names[p], rows);
}

cr_status cr_cuda_attention(const cr_attention_args *args) {
    const cr_array *o = &args->o, *lse = &args->lse, *q = &args->q, *k = &args->k, *v = &args->v,
        *mask = cr_present(&args->mask);
    const double scale = args->scale;
    const bool causal = args->causal;
    static const char op[] = "attention";
    if (!o->numel) return CR_OK;
    job j = open_job(op, q, k, mask, lse, scale, causal);
    j.operand[2] = v, j.operand[3] = o;
    cuda *g = cr_cuda_enter(op, q->dev);
    return g ? cr_cuda_leave(g, j.T <= FEW && j.S > PART ? run_split(g, &j) : run(g, &j, FORWARD)) : cr_error_status();
}

cr_status cr_cuda_attention_bwd(const cr_attention_bwd_args *args) {
    const cr_array *dq = &args->dq, *dk = &args->dk, *dv = &args->dv, *q = &args->q, *k = &args->k, *v = &args->v,
        *mask = cr_present(&args->mask), *o = &args->o, *lse = &args->lse, *g_ = &args->g;
    const double scale = args->scale;
    const bool causal = args->causal;
    static const char op[] = "attention_bwd";
    static const double zero = 0;
    const cr_array *const results[] = {dq, dk, dv};
    if (!q->numel || !k->numel) {
        cr_status status = CR_OK;
        for (int i = 0; i < 3 && status == CR_OK; i++) if (results[i]->numel) status = cr_cuda_fill(&(cr_fill_args){*results[i], &zero});
        return status;
    }
    job j = open_job(op, q, k, mask, lse, scale, causal);
    const cr_array *const more[] = {v, o, g_, dq, dk, dv};
    for (int i = 2; i < OPERANDS; i++) j.operand[i] = more[i - 2];
    cuda *g = cr_cuda_enter(op, q->dev);
    if (!g) return cr_error_status();
    const size_t bytes = (size_t)lse->numel * cr_dtype_size(lse->dtype);
    cuda_block *delta = cr_cuda_block_take(g, op, 2 * bytes);
    if (!delta) return cr_cuda_leave(g, cr_error_status());
    job first = j;
    first.delta = j.delta = delta->at, j.lse_for_bwd = delta->at + bytes;
    first.scale = suits_tensor_cores(g, &j) ? 1.4426950408889634 : 1;                 /* there exp is a power of 2 */
    cr_status status = run(g, &first, DELTA);
    if (status == CR_OK) status = run(g, &j, QUERIES);
    if (status == CR_OK) status = run(g, &j, KEYS);
    cr_cuda_block_give(g, delta);
    return cr_cuda_leave(g, status);
}
