/* attention.c - attention of every head, forward and backward: one kernel for o, one for dq, one for
 * dk and dv (attention.cu).  They use tensor cores where the GPU has them for the dtype and 16 bytes
 * of the operands can be read at once; otherwise plain kernels run.  A GPU of compute capability 9.0
 * has kernels of its own for the most common heads: one for o, one for all gradients (hopper.cu).  For
 * few queries the keys are split over blocks, and a second kernel joins the partial results. */
#include "gpu.h"
#include "../../core/config.h"
#include "hopper.cu"

#include <stdlib.h>
#include <string.h>

/* PASS of attention.cu: o; dq; dk and dv; the sums of g o; o from parts of the keys */
typedef enum pass { FORWARD, QUERIES, KEYS, DELTA, SPLIT } pass;
enum { Q, K, V, O, G, DQ, DK, DV, OPERANDS };
typedef struct job {
    const char *op;
    const cr_array *operand[OPERANDS], *mask;       /* NULL: absent */
    cr_dtype lse_dtype;
    cuda_address lse, delta;
    double scale;
    int64_t first, last;                            /* query t attends to the keys t + first .. t + last */
    int64_t B, H, KV, T, S, D;                      /* T queries, S keys */
} job;

static job job_of(const char *op, const cr_array *q, const cr_array *k, const cr_array *mask, const cr_array *lse,
                  double scale, int64_t first, int64_t last) {
    return (job){.op = op,
                 .operand = {[Q] = q, [K] = k},
                 .mask = mask,
                 .lse_dtype = lse->dtype,
                 .scale = scale,
                 .first = first,
                 .last = last,
                 .B = q->shape[0],
                 .H = q->shape[1],
                 .KV = k->shape[1],
                 .T = q->shape[2],
                 .S = k->shape[2],
                 .D = q->shape[3]};
}

static bool reads_16_bytes(const cr_array *t) {
    const int64_t *s = t->strides;
    return cuda_address_of(t) % 16 == 0 && s[0] % 8 == 0 && s[1] % 8 == 0 && s[2] % 8 == 0 && llabs(s[2]) < 1 << 30;
}

static bool suits_tensor_cores(const cuda *g, const job *j) {
    if (g->major < 8 || !cr_dtype_is_half(j->operand[Q]->dtype)) return false;
    if (j->D % 8 || j->D < 32 || j->D > 128 || j->T >= 1 << 30 || j->S >= 1 << 30) return false;
    for (int i = 0; i < OPERANDS; i++)
        if (j->operand[i] && !reads_16_bytes(j->operand[i])) return false;
    return true;
}

static attention_heads heads_of(const cr_array *t) {
    return t ? (attention_heads){cuda_address_of(t), t->strides[0], t->strides[1], t->strides[2]}
             : (attention_heads){0};
}

static attention_arguments arguments_of(const job *j, int64_t tiles, int64_t parts) {
    const cr_array *const *x = j->operand;
    attention_arguments a = {.q = heads_of(x[Q]),
                             .k = heads_of(x[K]),
                             .v = heads_of(x[V]),
                             .o = heads_of(x[O]),
                             .g = heads_of(x[G]),
                             .dq = heads_of(x[DQ]),
                             .dk = heads_of(x[DK]),
                             .dv = heads_of(x[DV]),
                             .lse = j->lse,
                             .delta = j->delta,
                             .H = j->H,
                             .shared = j->H / j->KV,
                             .queries = j->T,
                             .keys = j->S,
                             .head_size = j->D,
                             .first = j->first,
                             .last = j->last,
                             .scale = j->scale,
                             .tiles = tiles,
                             .parts = parts};
    if (j->mask) {
        const int64_t *s = j->mask->strides;
        a.mask = cuda_address_of(j->mask);
        a.mask_batch = s[0], a.mask_head = s[1], a.mask_query = s[2], a.mask_key = s[3];
    }
    return a;
}

/* GPUs with 100 KiB of shared memory for each multiprocessor, not 160 or more. */
static bool has_little_memory(const cuda *g) { return (g->major == 8 && g->minor > 0) || g->major == 12; }

/* Rows of a warp (mt, of 16) and columns of a tile (nt, of 8): as many as registers hold without a
 * spill and shared memory holds for two blocks. */
typedef struct tile_size { int mt, nt; } tile_size;
static tile_size tile_size_of(const cuda *g, const job *j, pass p) {
    static const tile_size sizes[2][2][3] = {       /* [masked][large], masks take registers too; large: heads of 65
                                                     * to 128 */
        {{{2, 8}, {2, 8}, {2, 8}}, {{2, 8}, {2, 4}, {2, 4}}},
        {{{2, 4}, {1, 4}, {2, 4}}, {{2, 4}, {1, 4}, {2, 2}}}};
    static const tile_size little[3] = {{2, 4}, {1, 4}, {1, 2}};       /* for large heads */
    const bool large = j->D > 64;
    return large && has_little_memory(g) ? little[p] : sizes[j->mask != NULL][large][p];
}

static int64_t heads_in(const job *j, pass p) { return j->B * (p == KEYS ? j->KV : j->H); }

static cr_status run_tensor_cores(cuda *g, const job *j, pass p, const char *name, int64_t rows) {
    static const char definitions[] = "#define PASS %d\n#define T %s\n#define A f32\n#define MASKED %d\n#define HEAD "
                                      "%d\n#define MT %d\n#define NT %d\n";
    enum { WARPS = 4, THREADS = 32 * WARPS };
    const tile_size z = tile_size_of(g, j, p);
    const int height = 16 * z.mt * WARPS / (p == KEYS ? 2 : 1), width = 8 * z.nt, row_bytes = j->D > 64 ? 256 : 128;
    const int shared[] = {[FORWARD] = row_bytes * (height + 2 * width),
                          [QUERIES] = row_bytes * (2 * height + 2 * width),
                          [KEYS] = row_bytes * (2 * height + 4 * width) + 16 * width + 2 * height * width};
    const cuda_kernel *k = cr_cuda_kernel_of(g, j->op, cr_cuda_source_attention, name, definitions, (int)p,
                                             cr_cuda_type(j->operand[Q]->dtype), j->mask != NULL, (int)j->D, z.mt,
                                             z.nt);
    const int64_t tiles = cuda_pieces(rows, height);
    const attention_arguments a = arguments_of(j, tiles, 1);
    return cr_cuda_launch_shared(g, j->op, k, &a, heads_in(j, p) * tiles, THREADS, shared[p]);
}

/* ---- the kernels of hopper.cu */
enum { HOPPER_ROWS = 128, HOPPER_THREADS = 384 };   /* rows of a block: queries forward, keys backward */

/* cr_array: (B, heads, rows, D).  The TMA takes positive strides; of an axis of one element any. */
static bool has_tensor_map(const cr_array *t) {
    for (int i = 0; i < 3; i++)
        if (t->shape[i] > 1 && (t->strides[i] <= 0 || t->strides[i] >= (int64_t)1 << 38)) return false;
    return true;
}

static bool suits_hopper(const cuda *g, const job *j) {
    const char *wish = cr_config("CUDA_HOPPER");
    if (g->major != 9 || g->minor || (wish && !strcmp(wish, "off")) || !suits_tensor_cores(g, j)) return false;
    static const int read[] = {Q, K, V, G};
    bool mapped = !j->mask && (j->D == 64 || j->D == 128);
    for (int i = 0; i < 4; i++) mapped = mapped && (!j->operand[read[i]] || has_tensor_map(j->operand[read[i]]));
    return mapped;
}

/* Boxes of `rows` rows and 64 columns. */
static cr_status map_tensor(cuda *g, const char *op, tensor_map *to, const cr_array *t, int rows) {
    const uint64_t sizes[] = {(uint64_t)t->shape[3], (uint64_t)t->shape[2], (uint64_t)t->shape[1],
                              (uint64_t)t->shape[0]};
    uint64_t strides[3];
    for (int i = 0; i < 3; i++) strides[i] = 2 * (uint64_t)(t->shape[2 - i] > 1 ? t->strides[2 - i] : t->shape[3]);
    const int type = t->dtype == CR_F16 ? CUDA_MAP_DATA_TYPE_FLOAT16 : CUDA_MAP_DATA_TYPE_BFLOAT16;
    const cuda_address at = cuda_address_of(t);
    return cr_cuda_check(g, op, "a tensor has no map",
                         cr_cu.TensorMapEncodeTiled(to, type, 4, (void *)(uintptr_t)at, sizes, strides,
                                                    (unsigned[]){64, (unsigned)rows, 1, 1}, (unsigned[]){1, 1, 1, 1}, 0,
                                                    CUDA_MAP_SWIZZLE_128B, CUDA_MAP_L2_PROMOTION_L2_128B, 0));
}

/* p: FORWARD, or KEYS for all gradients. */
static cr_status run_hopper(cuda *g, const job *j, pass p, int64_t rows, hopper_arguments *a) {
    static const char definitions[] = "#define PASS %d\n#define T %s\n#define A f32\n#define MASKED 0\n"
                                      "#define HEAD %d\n";
    const int panel = 128, panels = (int)j->D / 64, queries = p == KEYS ? 128 / panels : 128, keys = 128, slots = 2;
    /* as hopper.cu lays it out: tiles, statistics, barriers */
    const int shared[] = {[FORWARD] = panel * panels * (queries + 2 * slots * keys) + 8 * (1 + 4 * slots),
                          [KEYS] = panel * panels * (2 * keys + 2 * slots * queries) + panel * queries / 64 * 2 * keys +
                                   8 * slots * queries + 8 * (2 + 2 * slots)};
    const cuda_kernel *k = cr_cuda_kernel_of(g, j->op, cr_cuda_source_hopper,
                                             p == KEYS ? "attention_hopper_bwd" : "attention_hopper", definitions,
                                             (int)p, cr_cuda_type(j->operand[Q]->dtype), (int)j->D);
    if (!k) return cr_error_status();
    const int64_t tiles = cuda_pieces(rows, HOPPER_ROWS);
    a->of = arguments_of(j, tiles, 1);
    cr_status status = map_tensor(g, j->op, &a->q, j->operand[Q], queries);
    if (status == CR_OK) status = map_tensor(g, j->op, &a->k, j->operand[K], keys);
    if (status == CR_OK) status = map_tensor(g, j->op, &a->v, j->operand[V], keys);
    if (status == CR_OK && p == KEYS) status = map_tensor(g, j->op, &a->g, j->operand[G], queries);
    if (status != CR_OK) return status;
    return cr_cuda_launch_shared(g, j->op, k, a, heads_in(j, p) * tiles, HOPPER_THREADS, shared[p]);
}

/* dq is summed in f32, (B, H, queries rounded up to a tile, D), in the order of turns that begin at 0. */
static cr_status run_hopper_bwd(cuda *g, const job *j) {
    const int64_t tile = 128 * 64 / j->D, tiles = j->B * j->H * cuda_pieces(j->T, tile), turns = 1 + 2 * tiles;
    const size_t sums = (size_t)(tiles * tile * j->D) * sizeof(float), bytes = (size_t)turns * sizeof(uint32_t);
    cuda_block *scratch = cr_cuda_block_take(g, j->op, sums + bytes);
    if (!scratch) return cr_error_status();
    hopper_arguments a = {.sums = scratch->at, .turns = scratch->at + sums};
    cr_status status = cr_cuda_check(g, j->op, "cannot write", cr_cu.MemsetD8Async(a.turns, 0, bytes, g->stream));
    if (status == CR_OK) status = run_hopper(g, j, KEYS, j->S, &a);
    cr_cuda_block_give(g, scratch);
    return status;
}

static const cuda_kernel *plain_kernel(cuda *g, const job *j, pass p, const char *name, int r, int groups) {
    static const char definitions[] =
        "#define PASS %d\n#define T %s\n#define A %s\n#define MASKED %d\n#define R %d\n#define C %d\n";
    const cr_dtype dt = j->operand[Q]->dtype;
    return cr_cuda_kernel_of(g, j->op, cr_cuda_source_attention, name, definitions, (int)p, cr_cuda_type(dt),
                             cr_cuda_wide(dt), j->mask != NULL, r, groups);
}

/* Heads with more columns than a block has groups for are cut, and each part computes the scores again. */
static cr_status run_plain(cuda *g, const job *j, pass p, const char *name, int64_t rows) {
    const int r = j->operand[Q]->dtype == CR_F64 ? 2 : 4, n = 16 * r, groups = j->D > n ? 2 : 1;
    const cuda_kernel *k = plain_kernel(g, j, p, name, r, groups);
    if (p == DELTA) {
        const attention_arguments a = arguments_of(j, 1, j->B * j->H * rows);
        return cr_cuda_launch(g, j->op, k, &a, cuda_pieces(a.parts, CUDA_GROUP / 32));
    }
    const attention_arguments a = arguments_of(j, cuda_pieces(rows, n), cuda_pieces(j->D, n * groups));
    return cr_cuda_launch(g, j->op, k, &a, heads_in(j, p) * a.tiles * a.parts);
}

/* A block for each query and part of the keys, where a block for 64 queries of a head would leave most
 * of the GPU idle. */
enum { FEW = 4, PART = 64 };                        /* queries; keys of a part */
static const cuda_kernel *split_kernel(cuda *g, const job *j, const char *name) {
    static const char definitions[] =
        "#define PASS %d\n#define T %s\n#define A %s\n#define MASKED %d\n#define R 1\n#define C 1\n#define KEYS %d\n";
    const cr_dtype dt = j->operand[Q]->dtype;
    return cr_cuda_kernel_of(g, j->op, cr_cuda_source_attention, name, definitions, (int)SPLIT, cr_cuda_type(dt),
                             cr_cuda_wide(dt), j->mask != NULL, PART);
}

static cr_status run_split(cuda *g, job *j) {
    const int64_t rows = j->B * j->H * j->T, parts = cuda_pieces(j->S, PART);
    const cuda_kernel *part = split_kernel(g, j, "attention_part"),
                      *join = part ? split_kernel(g, j, "attention_join") : NULL;
    if (!join) return cr_error_status();
    cuda_block *found = cr_cuda_block_take(g, j->op, (size_t)(rows * parts * (j->D + 2)) * cr_dtype_size(j->lse_dtype));
    if (!found) return cr_error_status();
    j->delta = found->at;
    const attention_arguments a = arguments_of(j, parts, 1);
    cr_status status = cr_cuda_launch(g, j->op, part, &a, rows * parts);
    if (status == CR_OK) status = cr_cuda_launch(g, j->op, join, &a, rows);
    cr_cuda_block_give(g, found);
    return status;
}

static cr_status launch_pass(cuda *g, const job *j, pass p) {
    static const char *const names[] = {"attention", "attention_dq", "attention_dkv", "attention_delta"};
    const int64_t rows = p == KEYS ? j->S : j->T;
    if (p == FORWARD && suits_hopper(g, j)) return run_hopper(g, j, p, rows, &(hopper_arguments){0});
    return p != DELTA && suits_tensor_cores(g, j) ? run_tensor_cores(g, j, p, names[p], rows)
                                                  : run_plain(g, j, p, names[p], rows);
}

cr_status cr_cuda_attention(const cr_attention_args *args) {
    static const char op[] = "attention";
    if (!args->o.numel) return CR_OK;
    job j = job_of(op, &args->q, &args->k, cr_present(&args->mask), &args->lse, args->scale, args->first,
                   args->last);
    j.operand[V] = &args->v, j.operand[O] = &args->o;
    cuda *g = cr_cuda_enter(op, args->q.dev);
    if (!g) return cr_error_status();
    j.lse = cuda_address_of(&args->lse);
    return cr_cuda_leave(g, j.T <= FEW && j.S > PART ? run_split(g, &j) : launch_pass(g, &j, FORWARD));
}

/* No query or no key: the gradients that have elements are 0. */
static cr_status clear_grads(const cr_attention_bwd_args *args) {
    static const double zero = 0;
    const cr_array *const grads[] = {&args->dq, &args->dk, &args->dv};
    cr_status status = CR_OK;
    for (int i = 0; i < 3 && status == CR_OK; i++)
        if (grads[i]->numel) status = cr_cuda_fill(&(cr_fill_args){*grads[i], &zero});
    return status;
}

/* DELTA writes delta and a copy of lse, in the units of the scores that the other two kernels compute. */
static cr_status run_bwd(cuda *g, job *j, const cr_array *lse) {
    const size_t bytes = (size_t)lse->numel * cr_dtype_size(lse->dtype);
    cuda_block *delta = cr_cuda_block_take(g, j->op, 2 * bytes);
    if (!delta) return cr_error_status();
    job first = *j;
    first.lse = cuda_address_of(lse);
    first.delta = j->delta = delta->at, j->lse = delta->at + bytes;
    /* log2(e): tensor-core kernels compute exp as a power of 2 */
    first.scale = suits_tensor_cores(g, j) ? 1.4426950408889634 : 1;
    cr_status status = launch_pass(g, &first, DELTA);
    if (status == CR_OK && suits_hopper(g, j)) status = run_hopper_bwd(g, j);
    else {
        if (status == CR_OK) status = launch_pass(g, j, QUERIES);
        if (status == CR_OK) status = launch_pass(g, j, KEYS);
    }
    cr_cuda_block_give(g, delta);
    return status;
}

cr_status cr_cuda_attention_bwd(const cr_attention_bwd_args *args) {
    static const char op[] = "attention_bwd";
    if (!args->q.numel || !args->k.numel) return clear_grads(args);
    job j = job_of(op, &args->q, &args->k, cr_present(&args->mask), &args->lse, args->scale, args->first,
                   args->last);
    const cr_array *const more[] = {
        [V] = &args->v, [O] = &args->o, [G] = &args->g, [DQ] = &args->dq, [DK] = &args->dk, [DV] = &args->dv};
    for (int i = V; i < OPERANDS; i++) j.operand[i] = more[i];
    cuda *g = cr_cuda_enter(op, args->q.dev);
    return g ? cr_cuda_leave(g, run_bwd(g, &j, &args->lse)) : cr_error_status();
}
