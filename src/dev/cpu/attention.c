/* attention.c - attention on all threads, cut into heads and blocks.
 *
 * attention_isa.c computes f32; f16 and bf16 operands are copied to f32 first, but for keys that few
 * queries read once; f64, which serves gradient checks, runs plain loops, one query at a time.  Each
 * thread holds one block of the scores, or some rows of them. The cut depends on the shape only: an
 * item is a head, a block of 64 queries or keys of a head, or a part of the keys that few queries of
 * all heads that share them read; small items share a chunk. */
#include "attention.h"

#include <math.h>
#include <string.h>

#include "../../core/pool.h"
#include "../elementary.h"
#include "isa.h"

enum { N = CR_ATTENTION_BLOCK, PART = CR_ATTENTION_PART, FEW = 4, MANY_HEADS = 8, ROWS_AT_ONCE = 256, ROWS_SOON = 8 };
enum { Q, K, W, O, G, DQ, DK, DV, OPERANDS };       /* W: the values */

typedef struct job {
    cr_attention_job f32;
    const cr_array *operand[OPERANDS];             /* NULL where a pass does not use it */
    unsigned results;                               /* bit i: operand i is written */
    void *copy[OPERANDS]; size_t copy_bytes[OPERANDS];          /* f16, bf16: as contiguous f32 */
    int converted;                                  /* the operand that is being converted */
    const struct cr_isa_kernels *isa;
    const cr_array *mask;                          /* f32 (f64 for f64); NULL: none */
    int64_t items, group, blocks;                   /* blocks: items of one head; so many items make a chunk */
    size_t scratch;
    float *parts; int64_t part_size;                /* results of few queries, of each group and part */
    void (*run)(const struct job *j, int64_t head, int64_t block, void *scratch);
    double scale, *lse;                             /* of f64 */
    atomic_bool failed;
} job;


/* Query t sees the keys unseen .. seen - 1. */
static int64_t seen(const cr_attention_job *a, int64_t t) { return cr_iclamp(t + a->last + 1, 0, a->S); }
static int64_t unseen(const cr_attention_job *a, int64_t t) { return cr_iclamp(t + a->first, 0, a->S); }

/* ---- f16 and bf16: operands are converted before, results after */

static uint16_t *half_row(const cr_array *t, int64_t i) {
    const int64_t H = t->shape[1], R = t->shape[2];
    return (uint16_t *)cr_array_data(t) + i / R / H * t->strides[0] + i / R % H * t->strides[1] + i % R * t->strides[2];
}

static void convert_rows(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    const cr_array *t = j->operand[j->converted];
    const bool back = j->results >> j->converted & 1;
    const int64_t D = t->shape[3],
                  end = cr_imin(t->shape[0] * t->shape[1] * t->shape[2], (chunk + 1) * ROWS_AT_ONCE);
    float *wide = j->copy[j->converted];
    for (int64_t i = chunk * ROWS_AT_ONCE; i < end; i++) {
        uint16_t *half = half_row(t, i);
        const uint16_t *soon = half_row(t, cr_imin(i + ROWS_SOON, end - 1));
        for (int64_t d = 0; d < D; d += 32) __builtin_prefetch(soon + d);      /* rows are far apart */
        if (back) cr_block_store(CR_LANE_F32, wide + i * D, t->dtype, half, 1, D);
        else cr_block_load(CR_LANE_F32, wide + i * D, t->dtype, half, 1, D);
    }
}

static void convert(job *j, int i) {
    const cr_array *t = j->operand[i];
    j->converted = i;
    cr_pool_run(cr_pieces(t->shape[0] * t->shape[1] * t->shape[2], ROWS_AT_ONCE), convert_rows, j);
}

/* Sets the address of each operand: in place, or an f32 copy. */
static cr_status open_operands(job *j) {
    cr_attention_job *a = &j->f32;
    cr_heads *heads[OPERANDS] = {&a->q, &a->k, &a->v, &a->o, &a->g, &a->dq, &a->dk, &a->dv};
    for (int i = 0; i < OPERANDS; i++) {
        const cr_array *t = j->operand[i];
        if (!t) continue;
        *heads[i] = (cr_heads){cr_array_data(t), t->strides[0], t->strides[1], t->strides[2]};
        if (!cr_dtype_is_half(t->dtype) || (a->half && (i == K || i == W))) continue;
        j->copy_bytes[i] = (size_t)t->numel * sizeof(float) + 64;
        j->copy[i] = cr_cpu_take(j->copy_bytes[i]);
        if (!j->copy[i]) return CR_NO_MEMORY;
        *heads[i] = (cr_heads){j->copy[i], t->shape[1] * t->shape[2] * t->shape[3], t->shape[2] * t->shape[3],
                               t->shape[3]};
        if (!(j->results >> i & 1)) convert(j, i);
    }
    return CR_OK;
}

static cr_status close_operands(job *j, cr_status status, const char *op) {
    if (status == CR_OK && atomic_load(&j->failed))
        status = cr_fail(CR_NO_MEMORY, op, "no memory for a block of scores");
    for (int i = 0; i < OPERANDS; i++) {
        if (status == CR_OK && j->copy[i] && j->results >> i & 1) convert(j, i);
        cr_cpu_give(j->copy[i], j->copy_bytes[i]);
    }
    return status;
}

/* ---- f64 */

static double *row_f64(const job *j, int operand, int64_t head, int64_t row) {
    const cr_array *t = j->operand[operand];
    const int64_t H = j->f32.H, h = head % H * t->shape[1] / H;
    return (double *)cr_array_data(t) + head / H * t->strides[0] + h * t->strides[1] + row * t->strides[2];
}

static double mask_f64(const job *j, int64_t head, int64_t t, int64_t s) {
    const cr_array *m = j->mask;
    if (!m) return 0;
    return ((const double *)cr_array_data(
        m))[head / j->f32.H * m->strides[0] + head % j->f32.H * m->strides[1] + t * m->strides[2] + s * m->strides[3]];
}

static double dot_f64(const double *x, const double *y, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

static void forward_f64(const job *j, int64_t head, int64_t block, void *scratch) {
    const cr_attention_job *a = &j->f32;
    double *p = scratch;
    for (int64_t t = block * N; t < cr_imin(a->T, (block + 1) * N); t++) {
        double *o = row_f64(j, O, head, t), max = -INFINITY, sum = 0;
        int64_t first = unseen(a, t), keys = seen(a, t);
        for (int64_t s = first; s < keys; s++) {
            p[s] = j->scale * dot_f64(row_f64(j, Q, head, t), row_f64(j, K, head, s), a->D) + mask_f64(j, head, t, s);
            max = fmax(max, p[s]);
        }
        if (max == -INFINITY) keys = 0;             /* every key is hidden */
        for (int64_t s = first; s < keys; s++) sum += p[s] = cr_f64_exp(p[s] - max);
        for (int64_t d = 0; d < a->D; d++) o[d] = 0;
        for (int64_t s = first; s < keys; s++) {
            const double *v = row_f64(j, W, head, s), w = p[s] / sum;
            for (int64_t d = 0; d < a->D; d++) o[d] += w * v[d];
        }
        j->lse[head * a->T + t] = keys ? max + cr_f64_log(sum) : -INFINITY;
    }
}

static void backward_head_f64(const job *j, int64_t head) {
    const cr_attention_job *a = &j->f32;
    for (int64_t t = 0; t < a->T; t++) {
        const double *q = row_f64(j, Q, head, t), *g = row_f64(j, G, head, t);
        double *dq = row_f64(j, DQ, head, t), delta = dot_f64(row_f64(j, O, head, t), g, a->D),
               lse = j->lse[head * a->T + t];
        memset(dq, 0, (size_t)a->D * sizeof *dq);
        if (lse == -INFINITY) continue;             /* every key is hidden */
        for (int64_t s = unseen(a, t); s < seen(a, t); s++) {
            const double *k = row_f64(j, K, head, s);
            double *dk = row_f64(j, DK, head, s), *dv = row_f64(j, DV, head, s);
            double p = cr_f64_exp(j->scale * dot_f64(q, k, a->D) + mask_f64(j, head, t, s) - lse);
            double ds = j->scale * p * (dot_f64(g, row_f64(j, W, head, s), a->D) - delta);
            for (int64_t d = 0; d < a->D; d++) { dq[d] += ds * k[d]; dk[d] += ds * q[d]; dv[d] += p * g[d]; }
        }
    }
}

static void backward_f64(const job *j, int64_t group, int64_t block, void *scratch) {
    (void)block; (void)scratch;
    const cr_attention_job *a = &j->f32;
    const int64_t shared = a->H / a->KV;
    for (int64_t s = 0; s < a->S; s++) {
        memset(row_f64(j, DK, group * shared, s), 0, (size_t)a->D * sizeof(double));
        memset(row_f64(j, DV, group * shared, s), 0, (size_t)a->D * sizeof(double));
    }
    for (int64_t h = 0; h < shared; h++) backward_head_f64(j, group * shared + h);
}

/* ---- f32 */

/* With causal attention the last blocks of queries see the most keys: they run first, so that no long
 * item is left at the end. */
static void forward_f32(const job *j, int64_t head, int64_t block, void *scratch) {
    int64_t t = (j->blocks - 1 - block) * N;
    j->isa->attention->forward(&j->f32, head, t, cr_imin(N, j->f32.T - t), scratch);
}

/* dk and dv of keys k .. end, and dq where asked, of all heads that share the keys */
static void backward_group(const job *j, int64_t group, int64_t k, int64_t end, bool want_q, void *scratch) {
    const int64_t shared = j->f32.H / j->f32.KV;
    for (int64_t h = group * shared; h < (group + 1) * shared; h++)
        j->isa->attention->backward(&j->f32, h, k, end, 0, j->f32.T, want_q, true, scratch);
}

static void backward_heads(const job *j, int64_t group, int64_t block, void *scratch) {
    (void)block;
    backward_group(j, group, 0, j->f32.S, true, scratch);
}

static void backward_keys(const job *j, int64_t group, int64_t block, void *scratch) {
    int64_t k = block * N;
    backward_group(j, group, k, cr_imin(j->f32.S, k + N), false, scratch);
}

static void backward_queries(const job *j, int64_t head, int64_t block, void *scratch) {
    int64_t t = (j->blocks - 1 - block) * N, end = cr_imin(j->f32.T, t + N);
    j->isa->attention->backward(&j->f32, head, unseen(&j->f32, t), seen(&j->f32, end - 1), t, end, true, false,
                                scratch);
}

static void forward_part(const job *j, int64_t group, int64_t block, void *scratch) {
    const int64_t k = block * PART;
    j->isa->attention->part(&j->f32, group, k, cr_imin(PART, j->f32.S - k),
                            j->parts + (group * j->blocks + block) * j->part_size, scratch);
}

static void join_parts(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    const int64_t groups = j->items / j->blocks, end = cr_imin(groups, (chunk + 1) * j->group);
    for (int64_t g = chunk * j->group; g < end; g++)
        j->isa->attention->join(&j->f32, g, j->blocks, j->parts + g * j->blocks * j->part_size);
}

/* ---- both */

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    void *scratch = cr_cpu_take(j->scratch);
    if (!scratch) { atomic_store(&j->failed, true); return; }
    for (int64_t i = chunk * j->group; i < cr_imin(j->items, (chunk + 1) * j->group); i++)
        j->run(j, i / j->blocks, i % j->blocks, scratch);
    cr_cpu_give(scratch, j->scratch);
}

/* Runs fn for each of `blocks` blocks of `heads` heads; a pair: a query and a key. */
static void run_items(job *j, void (*fn)(const job *, int64_t, int64_t, void *), int64_t heads, int64_t blocks,
                      double flops_of_pair) {
    const cr_attention_job *a = &j->f32;
    const double pairs = (double)(a->B * a->H) * (double)a->T * (double)a->S, items = (double)heads * (double)blocks;
    const double flops = flops_of_pair * (double)a->D * pairs / items;
    j->run = fn;
    j->blocks = blocks;
    j->items = heads * blocks;
    j->group = flops >= 0x1p20 ? 1 : (int64_t)(0x1p20 / (flops + 1)) + 1;
    cr_pool_run_in_order(cr_pieces(j->items, j->group), run_chunk, j);
}

static job open_job(const cr_attention_args *args) {
    const cr_array *q = &args->q, *mask = cr_present(&args->mask);
    job j = {.isa = cr_cpu_vec(), .mask = mask, .scale = args->scale, .lse = cr_array_data(&args->lse)};
    cr_attention_job *a = &j.f32;
    a->B = q->shape[0], a->H = q->shape[1], a->T = q->shape[2], a->D = q->shape[3];
    a->KV = args->k.shape[1], a->S = args->k.shape[2];
    a->lse = cr_array_data(&args->lse);
    if (mask) {
        a->mask = (cr_heads){cr_array_data(mask), mask->strides[0], mask->strides[1], mask->strides[2]};
        a->mask_key = mask->strides[3];
    }
    a->scale = (float)args->scale;
    a->first = args->first, a->last = args->last;
    a->product = &j.isa->products->f32;
    j.scratch = q->dtype == CR_F64 ? (size_t)cr_imax(1, a->S) * sizeof(double) : cr_attention_scratch(a);
    return j;
}

/* A key of few queries costs reading it, as long as 32 flops of a thread that has it in its cache; 8, because a second
 * thread that sleeps takes as long to wake as so many reads. */
static cr_status run_few(job *j) {
    const cr_attention_job *a = &j->f32;
    const int64_t groups = a->B * a->KV, rows = a->H / a->KV * a->T, parts = cr_pieces(a->S, PART);
    j->part_size = rows * (a->D + 2);
    const size_t bytes = (size_t)(groups * parts * j->part_size) * sizeof(float);
    j->parts = cr_cpu_take(bytes);
    if (!j->parts) return cr_fail(CR_NO_MEMORY, "attention", "no memory for sums of parts");
    j->scratch = cr_attention_part_scratch(a);
    run_items(j, forward_part, groups, parts, (double)cr_imax(4, 8 / rows));
    j->group = (1 << 14) / (parts * j->part_size) + 1;          /* fewer floats are not worth a second thread */
    cr_run_chunks(cr_pieces(groups, j->group), join_parts, j);
    cr_cpu_give(j->parts, bytes);
    return CR_OK;
}

static void (*half_load(cr_dtype dt))(float *, const uint16_t *, int64_t) {
    const struct cr_casts *casts = cr_cpu_vec()->casts;
    return dt == CR_F16 ? casts->f16_to_f32 : dt == CR_BF16 ? casts->bf16_to_f32 : NULL;
}

cr_status cr_cpu_attention(const cr_attention_args *args) {
    if (args->lse.numel == 0) return CR_OK;
    job j = open_job(args);
    const cr_dtype dt = args->q.dtype;
    const bool few = j.f32.T <= FEW && dt != CR_F64 && args->k.numel;
    if (few) j.f32.half = half_load(dt);
    j.operand[Q] = &args->q, j.operand[K] = &args->k, j.operand[W] = &args->v, j.operand[O] = &args->o;
    j.results = 1u << O;
    cr_status status = open_operands(&j);
    if (status == CR_OK && few) status = run_few(&j);
    else if (status == CR_OK)
        run_items(&j, dt == CR_F64 ? forward_f64 : forward_f32, j.f32.B * j.f32.H, cr_pieces(j.f32.T, N), 4);
    return close_operands(&j, status, "attention");
}

static cr_status zero(const cr_array *t) {
    static const double nothing = 0;
    return t->numel ? cr_cpu_fill(&(cr_fill_args){*t, &nothing}) : CR_OK;
}

static void run_backward(job *j) {
    const cr_attention_job *a = &j->f32;
    const int64_t groups = a->B * a->KV;
    if (j->operand[Q]->dtype == CR_F64) run_items(j, backward_f64, groups, 1, 10);
    else if (groups >= MANY_HEADS || (a->T <= N && a->S <= N)) run_items(j, backward_heads, groups, 1, 10);
    else {                                          /* too few heads for all threads: the scores are computed twice,
                                                     * 14 flops instead of 10 */
        run_items(j, backward_keys, groups, cr_pieces(a->S, N), 8);
        run_items(j, backward_queries, a->B * a->H, cr_pieces(a->T, N), 6);
    }
}

cr_status cr_cpu_attention_bwd(const cr_attention_bwd_args *args) {
    const cr_attention_args forward = {.o = args->o,
                                       .lse = args->lse,
                                       .q = args->q,
                                       .k = args->k,
                                       .v = args->v,
                                       .mask = args->mask,
                                       .scale = args->scale,
                                       .first = args->first,
                                       .last = args->last};
    if (args->q.numel == 0 || args->k.numel == 0) {
        cr_status status = zero(&args->dq);
        if (status == CR_OK) status = zero(&args->dk);
        return status == CR_OK ? zero(&args->dv) : status;
    }
    job j = open_job(&forward);
    const cr_array *operands[OPERANDS] = {
        [Q] = &args->q, [K] = &args->k,   [W] = &args->v,   [O] = &args->o,
        [G] = &args->g, [DQ] = &args->dq, [DK] = &args->dk, [DV] = &args->dv,
    };
    memcpy(j.operand, operands, sizeof operands);
    j.results = 1u << DQ | 1u << DK | 1u << DV;
    const cr_status status = open_operands(&j);
    if (status == CR_OK) run_backward(&j);
    return close_operands(&j, status, "attention");
}
