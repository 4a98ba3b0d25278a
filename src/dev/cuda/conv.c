/* conv.c - convolutions and their derivatives in x and w, as products for each group (conv.cu): on
 * tensor cores where the GPU has them for the factors, else by plain tiles; depthwise ones by a
 * kernel of their own.  A long K with few results is cut into parts; the cuts depend on the shape
 * only. */
#include "gpu.h"
#include "conv.cu"

#include <stdlib.h>

/* threads of a row and of a column of tiles have BN and BM results */
typedef enum way { DIRECT, PLAIN, CORES } way;
typedef struct job {
    const char *op;
    const cr_conv_args *args;
    const cr_array *result;
    conv_arguments q;
    int64_t N, K;                                   /* INPUT by tiles: of the largest phase */
    way way;
    int rows;                                       /* R or MT of conv.cu */
} job;

static int64_t greatest_divisor(int64_t a, int64_t b) { return b ? greatest_divisor(b, a % b) : a; }

/* Coordinates are int: without the axes of size 1, whose steps are not used. */
static bool set_axis(conv_walk *w, int d, int64_t size, int64_t first, int64_t step, int64_t out) {
    enum { MOST = 1 << 29 };
    w->size[d] = size;
    w->first[d] = first;
    w->step[d] = size > 1 ? step : 0;
    w->out[d] = out;
    return size < MOST && llabs(first) < MOST && llabs(w->step[d]) < MOST && llabs(w->step[d]) * size < MOST;
}

static int64_t count_of(const conv_walk *w) { return w->outer * w->size[0] * w->size[1] * w->size[2]; }

static cr_status fail_size(const job *j) {
    return cr_fail(CR_BAD_VALUE, j->op, "%s: the sizes are too large for a kernel: x %s, w %s, y %s",
                   j->result->dev->name, cr_shape_text(5, j->args->x.shape).s, cr_shape_text(5, j->args->w.shape).s,
                   cr_shape_text(5, j->args->y.shape).s);
}

/* Positions and taps; false: too large. */
static bool set_walks(job *j, conv_walk *positions, conv_walk *taps) {
    const cr_conv_args *args = j->args;
    const bool input = args->kind == CR_CONV_INPUT;
    const cr_array *x = &args->x, *y = &args->y, *w = &args->w, *images = input ? y : x, *other = input ? x : y;
    bool fits = true;
    *positions = (conv_walk){.outer = x->shape[0], .b_outer = images->strides[0], .out_outer = other->strides[0]};
    *taps = (conv_walk){.outer = w->shape[input ? 0 : 1] / (input ? args->groups : 1),
                        .b_outer = images->strides[1],
                        .out_outer = w->strides[input ? 0 : 1]};
    for (int d = 0; d < 3; d++) {
        const int64_t pad = args->pad[d], dilation = args->dilation[d];
        fits &= set_axis(positions, d, other->shape[2 + d], input ? pad : -pad, input ? 1 : args->stride[d],
                         other->strides[2 + d]);
        fits &= set_axis(taps, d, w->shape[2 + d], 0, input ? -dilation : dilation, w->strides[2 + d]);
        fits &= images->shape[2 + d] < INT32_MAX;
        j->q.b_axis[d] = images->strides[2 + d];
        j->q.size[d] = images->shape[2 + d];
        j->q.stride[d] = args->stride[d];
        j->q.cycle[d] = args->stride[d] / greatest_divisor(args->stride[d], dilation);
    }
    return fits && count_of(positions) < INT32_MAX && count_of(taps) < INT32_MAX;
}

static void set_operands(job *j) {
    const cr_conv_args *args = j->args;
    const cr_array *x = &args->x, *y = &args->y, *w = &args->w;
    const int64_t channels = w->shape[1], outs = w->shape[0] / args->groups;
    conv_arguments *q = &j->q;
    q->groups = args->groups;
    q->bias = cuda_address_of(cr_present(&args->bias));
    q->a = cuda_address_of(args->kind == CR_CONV_WEIGHT ? y : w);
    q->b = cuda_address_of(args->kind == CR_CONV_INPUT ? y : x);
    q->y = cuda_address_of(j->result);
    q->M = args->kind == CR_CONV_INPUT ? channels : outs;
    q->a_m = args->kind == CR_CONV_WEIGHT ? y->strides[1] : w->strides[args->kind == CR_CONV_INPUT ? 1 : 0];
    q->a_group = args->kind == CR_CONV_WEIGHT ? outs * y->strides[1] : outs * w->strides[0];
    q->b_group = args->kind == CR_CONV_INPUT ? outs * y->strides[1] : channels * x->strides[1];
    q->y_m = j->result->strides[args->kind == CR_CONV_WEIGHT ? 0 : 1];
    q->y_group = q->M * q->y_m;
}

static void choose(const cuda *g, job *j) {
    const cr_dtype dt = j->result->dtype;
    const int64_t M = j->q.M;
    const bool shortened = dt == CR_F32 && j->args->how & (CR_MATMUL_BF16 | CR_MATMUL_TF32);
    enum { FEW_ROWS = 2, FEW = 128 };               /* results of a group, for which a tile would be mostly empty */
    if (j->args->kind == CR_CONV_WEIGHT ? M * j->N <= FEW : M <= FEW_ROWS) j->way = DIRECT;
    else if (g->major >= 8 && (cr_dtype_is_half(dt) || shortened)) j->way = CORES;
    else j->way = PLAIN;
    if (j->way == CORES) j->rows = M <= 64 ? 1 : 2;
    else j->rows = M <= 32 ? 2 : M <= 64 || dt == CR_F64 ? 4 : 8;
}

/* Blocks of one part; parts of `each` units of work, so that about BUSY blocks run. */
static void cut_work(job *j, int64_t blocks, int64_t units, int64_t least) {
    enum { BUSY = 512 };
    const int64_t parts = cr_iclamp(BUSY / blocks, 1, cr_imax(units / least, 1));
    j->q.part = cuda_pieces(units, parts);
    j->q.parts = cuda_pieces(units, j->q.part);
}

/* ---- kernels: TO is A where there are parts */

static const cuda_kernel *tile_kernel(cuda *g, const job *j) {
    const cr_dtype dt = j->result->dtype;
    const char *type = cr_cuda_type(dt), *wide = cr_cuda_wide(dt), *to = j->q.parts > 1 ? wide : type;
    const int kind = (int)j->args->kind;
    const bool rounds = j->args->how & CR_MATMUL_BF16 && dt == CR_F32;
    if (j->way == CORES)
        return cr_cuda_kernel_of(g, j->op, cr_cuda_source_conv, "conv",
                                 "#define KIND %d\n#define T %s\n#define TO %s\n#define A %s\n#define ROUND 0\n"
                                 "#define F %s\n#define MT %d\n",
                                 kind, type, to, wide, rounds ? "bf16" : type, j->rows);
    return cr_cuda_kernel_of(
        g, j->op, cr_cuda_source_conv, "conv",
        "#define KIND %d\n#define T %s\n#define TO %s\n#define A %s\n#define ROUND %d\n#define R %d\n", kind, type, to,
        wide, rounds, j->rows);
}

static const cuda_kernel *direct_kernel(cuda *g, const job *j, const char *name) {
    const cr_dtype dt = j->result->dtype;
    const char *type = cr_cuda_type(dt), *wide = cr_cuda_wide(dt);
    return cr_cuda_kernel_of(g, j->op, cr_cuda_source_conv, name,
                             "#define KIND %d\n#define T %s\n#define TO %s\n#define A %s\n#define ROUND %d\n",
                             (int)j->args->kind, type, j->q.parts > 1 ? wide : type, wide,
                             j->args->how & CR_MATMUL_BF16 && dt == CR_F32);
}

static cr_status launch_direct(cuda *g, job *j) {
    const int64_t results = j->q.groups * j->q.M * j->N;
    if (j->args->kind == CR_CONV_WEIGHT)
        return cr_cuda_launch(g, j->op, direct_kernel(g, j, "conv_sums"), &j->q, results * j->q.parts);
    return cr_cuda_launch(g, j->op, direct_kernel(g, j, "conv_direct"), &j->q, cuda_pieces(results, CUDA_GROUP));
}

static cr_status launch_tiles(cuda *g, job *j) {
    const conv_arguments *q = &j->q;
    return cr_cuda_launch(g, j->op, tile_kernel(g, j), q, q->tiles * q->phases * q->groups * q->parts);
}

static cr_status join_parts(cuda *g, const job *j, cuda_address parts) {
    const cr_array *y = j->result;
    const conv_join_arguments q = {.y = cuda_address_of(y),
                                   .x = parts,
                                   .bias = cuda_address_of(cr_present(&j->args->bias)),
                                   .numel = y->numel,
                                   .parts = j->q.parts,
                                   .channels = y->shape[1],
                                   .inner = y->shape[2] * y->shape[3] * y->shape[4]};
    return cr_cuda_launch(g, j->op, direct_kernel(g, j, "conv_join"), &q, cr_cuda_blocks(g, y->numel));
}

static void divide(job *j) {
    conv_arguments *q = &j->q;
    enum { COLUMNS = 64 };                          /* of a tile */
    const int height = j->way == CORES ? 64 : 16;   /* of a tile: times j->rows */
    q->parts = q->phases = 1;
    if (j->way == DIRECT) {
        enum { WARP = 32, LEAST = 1024 };           /* LEAST: products of a part */
        if (j->args->kind != CR_CONV_WEIGHT) return;
        for (q->width = 1; q->width < WARP && q->width < q->k.size[2];) q->width *= 2;
        cut_work(j, q->groups * q->M * j->N, j->K / q->k.size[2], cr_imax(LEAST / q->k.size[2], 1));
        return;
    }
    enum { LEAST = 256 };                           /* of K in a part */
    if (j->args->kind == CR_CONV_INPUT)
        for (int d = 0; d < 3; d++) q->phases *= cr_imin(q->stride[d], q->n.size[d]);
    q->down = cuda_pieces(q->M, (int64_t)height * j->rows);
    q->tiles = q->down * cuda_pieces(j->N, COLUMNS);
    cut_work(j, q->tiles * q->phases * q->groups, j->K, LEAST);
}

static cr_status launch_conv(cuda *g, job *j) {
    conv_arguments *q = &j->q;
    const cr_dtype dt = j->result->dtype, acc = dt == CR_F64 ? CR_F64 : CR_F32;
    const cuda_address bias = q->bias;
    cuda_block *parts = NULL;
    divide(j);
    if (q->parts > 1) {
        parts = cr_cuda_block_take(g, j->op, (size_t)(q->parts * j->result->numel) * cr_dtype_size(acc));
        if (!parts) return cr_error_status();
        q->y = parts->at, q->y_part = j->result->numel, q->bias = 0;
    }
    cr_status status = j->way == DIRECT ? launch_direct(g, j) : launch_tiles(g, j);
    if (parts && status == CR_OK) status = join_parts(g, j, parts->at);
    if (parts) cr_cuda_block_give(g, parts);
    q->bias = bias;
    return status;
}

cr_status cr_cuda_conv(const cr_conv_args *args) {
    static const char *const names[] = {"conv", "conv_transpose", "conv_weight"};
    job j = {.op = names[args->kind], .args = args};
    j.result = args->kind == CR_CONV_FORWARD ? &args->y : args->kind == CR_CONV_INPUT ? &args->x : &args->w;
    conv_walk positions, taps;
    if (!set_walks(&j, &positions, &taps)) return fail_size(&j);
    const bool weight = args->kind == CR_CONV_WEIGHT;
    j.q.n = weight ? taps : positions, j.q.k = weight ? positions : taps;
    j.N = count_of(&j.q.n), j.K = count_of(&j.q.k);
    cuda *g = cr_cuda_enter(j.op, j.result->dev);
    if (!g) return cr_error_status();
    set_operands(&j);
    choose(g, &j);
    if (args->kind == CR_CONV_INPUT && j.way != DIRECT) {
        j.N = positions.outer, j.K = taps.outer;
        for (int d = 0; d < 3; d++) {
            j.N *= cuda_pieces(positions.size[d], args->stride[d]);
            j.K *= cuda_pieces(taps.size[d], j.q.cycle[d]);
        }
    }
    return cr_cuda_leave(g, launch_conv(g, &j));
}
