/* conv.c - convolutions and their derivatives in x and w, as products for each group (conv.wgsl).
 *
 * A derivative in x divides the positions into phases, the residues of position + pad by the
 * stride, with a dispatch each: in a phase every `cycle`-th tap meets an element of y, so no
 * product with an inserted zero is computed.  A long K with few results is cut into parts, which
 * are added in order.  The batch is cut until its images fit into windows.
 *
 * As for products (matmul.c), a software GPU reads the operands directly, and so do depthwise
 * convolutions. */
#include "wgsl.gen.h"
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum {
    TILE = 4,                                       /* of a vec4 */
    SIDE = 16, EDGE = TILE * SIDE, DEPTH = 16, UNROLLED = 4,
    PITCH = EDGE + 2,                               /* of a row in workgroup memory: see matmul.wgsl */
    ROWS = 8,                                       /* of an invocation that reads directly */
    BUSY = 1 << 14, LEAST = 256,                    /* invocations that are enough to fill a GPU; of K in a part */
    MOST_TILES = 1 << 17, MOST_DIRECT = 1 << 15     /* of K in a part: lavapipe ends an invocation after 65535
                                                     * iterations */
};
typedef enum conv_task { TILES, DIRECT, JOIN } conv_task;
typedef struct kernel {
    int id;
    conv_task task;
    cr_dtype dtype, to;                             /* to: of the result; f32 where there are parts */
    int rows, weight, bias, bf16;
} kernel;

typedef struct conv {
    gpu *g;
    const char *op;
    const cr_conv_args *args;
    const cr_array *result, *bias;
    kernel how;
    int64_t M, K, parts, part;                      /* parts: of each piece of the batch */
    int64_t pieces, images;                         /* pieces of the batch, of so many images each */
    cr_storage memory;                              /* of the sums */
    cr_array sums;                                  /* of the parts; storage NULL: there is one part */
} conv;

static void write_kernel(wgsl *w, const void *how) {
    const kernel *q = how;
    static const char *const tasks[] = {"TILES", "DIRECT", "JOIN"};
    cr_wgsl_const(w, tasks[q->task], 1);
    cr_wgsl_const(w, "BIAS", q->bias);
    cr_wgsl_array(w, "y", q->to, true);
    if (q->task == JOIN) cr_wgsl_array(w, "x", CR_F32, false);
    else {
        const wgsl_constant constants[] = {{"TILE", TILE},         {"SIDE", SIDE},
                                           {"EDGE", EDGE},         {"DEPTH", DEPTH},
                                           {"UNROLLED", UNROLLED}, {"COPIES", DEPTH * EDGE / (SIDE * SIDE)},
                                           {"ROWS", q->rows},      {"WEIGHT", q->weight},
                                           {"BF16", q->bf16},      {"PITCH", PITCH}};
        for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
            cr_wgsl_const(w, constants[i].name, constants[i].value);
        cr_wgsl_array(w, "a", q->dtype, false);
        cr_wgsl_array(w, "b", q->dtype, false);
    }
    if (q->bias) cr_wgsl_array(w, "bias", q->dtype, false);
    cr_wgsl_file(w, cr_wgsl_conv);
    cr_wgsl_end(w, GPU_GROUP);
}

/* ---- walks over positions and taps */

static int64_t greatest_divisor(int64_t a, int64_t b) { return b ? greatest_divisor(b, a % b) : a; }
static int64_t count_of(const conv_walk *w) { return (int64_t)w->size[0] * w->size[1] * w->size[2] * w->size[3]; }

static void set_axis(conv_walk *w, int d, int64_t size, int64_t first, int64_t step, int64_t out) {
    w->size[d] = (uint32_t)size;
    w->first[d] = (int32_t)first;
    w->step[d] = size > 1 ? (int32_t)step : 0;
    w->out[d] = (uint32_t)out;
}
static void set_outer(conv_walk *w, int64_t size, int64_t b, int64_t out) {
    w->size[3] = (uint32_t)size;
    w->first[3] = 0;
    w->step[3] = (int32_t)(uint32_t)b;
    w->out[3] = (uint32_t)out;
}

/* Coordinates are i32, counts u32. */
static bool fits_limits(const cr_conv_args *args) {
    const int64_t most = INT64_C(1) << 29;
    bool fine = args->x.numel / args->x.shape[1] < INT32_MAX && args->y.numel / args->y.shape[1] < INT32_MAX &&
                args->w.numel < INT32_MAX;
    for (int d = 0; d < 3; d++) {
        const int64_t in = args->x.shape[2 + d], out = args->y.shape[2 + d], taps = args->w.shape[2 + d];
        fine = fine && in < most && out < most && args->pad[d] < most && args->stride[d] < most;
        fine = fine && (out == 1 || args->stride[d] <= most / out) && (taps == 1 || args->dilation[d] <= most / taps);
    }
    return fine;
}

/* Images `first` on, `count` of them.  r: the phase of INPUT; a, y: offsets of its first tap and position. */
static void set_walks(const conv *c, int64_t count, const int64_t r[3], conv_walk *positions, conv_walk *taps,
                      int64_t *a, int64_t *y) {
    const cr_conv_args *args = c->args;
    const bool input = args->kind == CR_CONV_INPUT;
    const cr_array *w = &args->w, *images = input ? &args->y : &args->x, *other = input ? &args->x : &args->y;
    set_outer(positions, count, images->strides[0], other->strides[0]);
    set_outer(taps, w->shape[input ? 0 : 1] / (input ? args->groups : 1), images->strides[1],
              w->strides[input ? 0 : 1]);
    *a = *y = 0;
    for (int d = 0; d < 3; d++) {
        const int64_t s = args->stride[d], dilation = args->dilation[d], pad = args->pad[d], size = w->shape[2 + d],
                      step = w->strides[2 + d], out = other->shape[2 + d], along = other->strides[2 + d];
        if (!input) {
            set_axis(positions, d, out, -pad, s, along);
            set_axis(taps, d, size, 0, dilation, step);
            continue;
        }
        const int64_t cycle = s / greatest_divisor(s, dilation), most = cr_imin(cycle, size), from = r[d] + pad;
        int64_t t = 0;
        while (t < most && (from - t * dilation) % s) t++;
        set_axis(positions, d, gpu_ceil_div(out - r[d], s), (from - t * dilation) / s, 1, s * along);
        set_axis(taps, d, t < most ? gpu_ceil_div(size - t, cycle) : 0, 0, -(cycle * dilation / s), cycle * step);
        *a += t * step;
        *y += r[d] * along;
    }
}

/* ---- windows */

/* Images `first` on of t, whose first axis is the batch. */
static cr_array images_of(const cr_array *t, int64_t first, int64_t count) {
    return cr_array_narrowed(t, 0, first, count);
}

static gpu_span span_of(const cr_array *t) { return cr_gpu_span_of(t->offset, t->ndim, t->shape, t->strides); }

/* offset: of the first element of t in the window */
static bool bind_array(const gpu *g, gpu_call *call, const cr_array *t, uint32_t *offset) {
    const gpu_span s = span_of(t);
    if (!cr_gpu_bind_window(g, call, gpu_buffer_of(t), s, t->dtype, offset)) return false;
    *offset += (uint32_t)(t->offset - s.first);
    return true;
}

static bool fits_window(const conv *c, const cr_array *t, int64_t images) {
    size_t at;
    for (int64_t i = 0; i < t->shape[0]; i += images) {
        const cr_array part = images_of(t, i, cr_imin(images, t->shape[0] - i));
        if (!cr_gpu_window(c->g, gpu_buffer_of(t), span_of(&part), t->dtype, &at)) return false;
    }
    return true;
}

static void cut_batch(conv *c) {
    const int64_t B = c->args->x.shape[0];
    c->images = B;
    while (c->images > 1 && !(fits_window(c, &c->args->x, c->images) && fits_window(c, &c->args->y, c->images)))
        c->images = gpu_ceil_div(c->images, 2);
    c->pieces = gpu_ceil_div(B, c->images);
}

/* ---- dispatches */

static cr_status run_phase(const conv *c, int64_t piece, const int64_t r[3]) {
    const cr_conv_args *args = c->args;
    const cr_conv_kind kind = args->kind;
    const int64_t first = piece * c->images, count = cr_imin(c->images, args->x.shape[0] - first),
                  outs = args->w.shape[0] / args->groups, channels = args->w.shape[1];
    const cr_array x = images_of(&args->x, first, count), y = images_of(&args->y, first, count), *w = &args->w;
    const cr_array *a = kind == CR_CONV_WEIGHT ? &y : w, *b = kind == CR_CONV_INPUT ? &y : &x;
    cr_array result = kind == CR_CONV_FORWARD ? y : kind == CR_CONV_INPUT ? x : *w;
    const int64_t a_m = a->strides[kind == CR_CONV_FORWARD ? 0 : 1],
                  y_m = result.strides[kind == CR_CONV_WEIGHT ? 0 : 1];
    int64_t a_first, y_first;
    conv_parameters p = {.M = (uint32_t)c->M, .products = (uint32_t)args->groups, .part = (uint32_t)c->part};
    conv_walk positions, taps;
    set_walks(c, count, r, &positions, &taps, &a_first, &y_first);
    p.n = kind == CR_CONV_WEIGHT ? taps : positions, p.k = kind == CR_CONV_WEIGHT ? positions : taps;
    p.N = (uint32_t)count_of(&p.n), p.K = (uint32_t)count_of(&p.k);
    if (!p.K)                                       /* only INPUT: no tap meets these positions; any tap outside does */
        for (int d = 0; d < 3; d++) p.k.size[d] = 1;
    p.a_m = (uint32_t)a_m, p.y_m = (uint32_t)y_m;
    p.a_group = (uint32_t)(outs * a->strides[kind == CR_CONV_WEIGHT ? 1 : 0]);
    p.b_group = (uint32_t)((kind == CR_CONV_INPUT ? outs : channels) * b->strides[1]);
    p.y_group = (uint32_t)(c->M * y_m);
    const int64_t rows = c->how.task == TILES ? EDGE : c->how.rows, down = gpu_ceil_div(c->M, rows),
                  across = c->how.task == TILES ? gpu_ceil_div(p.N, EDGE) : p.N;
    int64_t groups = down * across * args->groups * c->parts;
    p.down = (uint32_t)down, p.across = (uint32_t)across, p.groups = (uint32_t)groups;
    for (int d = 0; d < 3; d++) p.axis[d] = (uint32_t)b->strides[2 + d], p.size[d] = (uint32_t)b->shape[2 + d];
    if (c->sums.storage) {
        p.y_part = (uint32_t)c->result->numel;
        if (kind == CR_CONV_WEIGHT) p.first_part = (uint32_t)(piece * c->parts);
        y_first += (kind == CR_CONV_WEIGHT ? 0 : result.offset - c->result->offset);
        result = c->sums;
    }
    gpu_call call = {.op = c->op,
                     .write = write_kernel,
                     .how = &c->how,
                     .how_bytes = sizeof c->how,
                     .parameters = &p,
                     .parameters_bytes = sizeof p,
                     .groups = c->how.task == TILES ? (uint64_t)groups : gpu_groups(groups),
                     .work = (double)c->M * (double)p.N * (double)p.K * (double)args->groups};
    if (groups > INT32_MAX || !bind_array(c->g, &call, &result, &p.y) || !bind_array(c->g, &call, a, &p.a) ||
        !bind_array(c->g, &call, b, &p.b) || (c->how.bias && !bind_array(c->g, &call, c->bias, &p.bias)))
        return cr_gpu_fail_window(c->g, c->op, gpu_buffer_of(c->result)->bytes);
    p.y += (uint32_t)y_first;
    p.a += (uint32_t)a_first;
    return cr_gpu_run(c->g, &call);
}

static cr_status run_phases(const conv *c, int64_t piece) {
    int64_t count[3] = {1, 1, 1}, r[3];
    cr_status status = CR_OK;
    if (c->args->kind == CR_CONV_INPUT)
        for (int d = 0; d < 3; d++) count[d] = cr_imin(c->args->stride[d], c->args->x.shape[2 + d]);
    for (r[0] = 0; r[0] < count[0]; r[0]++)
        for (r[1] = 0; r[1] < count[1]; r[1]++)
            for (r[2] = 0; r[2] < count[2]; r[2]++)
                if (status == CR_OK) status = run_phase(c, piece, r);
    return status;
}

static cr_status join_parts(const conv *c) {
    const cr_array *y = c->result;
    const kernel how = {.id = 'v', .task = JOIN, .dtype = y->dtype, .to = y->dtype, .bias = c->bias != NULL};
    conv_parameters p = {.groups = (uint32_t)y->numel,
                         .part = (uint32_t)c->sums.shape[0],
                         .y_part = (uint32_t)y->numel,
                         .size = {(uint32_t)y->shape[1], (uint32_t)(y->shape[2] * y->shape[3] * y->shape[4])}};
    gpu_call call = {.op = c->op,
                     .write = write_kernel,
                     .how = &how,
                     .how_bytes = sizeof how,
                     .parameters = &p,
                     .parameters_bytes = sizeof p,
                     .groups = gpu_groups(y->numel)};
    uint32_t unused;
    if (!bind_array(c->g, &call, y, &p.y) || !bind_array(c->g, &call, &c->sums, &unused) ||
        (c->bias && !bind_array(c->g, &call, c->bias, &p.bias)))
        return cr_gpu_fail_window(c->g, c->op, gpu_buffer_of(y)->bytes);
    return cr_gpu_run(c->g, &call);
}

/* How K is cut: by the shape only. */
static void cut_sums(conv *c, int64_t invocations) {
    const int64_t most = c->how.task == TILES ? MOST_TILES : MOST_DIRECT,
                  room = (int64_t)(c->g->window / sizeof(float)) / c->result->numel,
                  wanted = cr_iclamp(BUSY / invocations, 1, cr_imax(c->K / LEAST, 1));
    c->parts = cr_imax(cr_imin(wanted, room), gpu_ceil_div(c->K, most));
    c->part = gpu_ceil_div(c->K, c->parts);
    c->parts = gpu_ceil_div(c->K, c->part);
}

static cr_status dispatch_conv(conv *c) {
    const cr_conv_args *args = c->args;
    const bool weight = args->kind == CR_CONV_WEIGHT;
    const cr_array *w = &args->w, *result = c->result;
    const int64_t taps = w->shape[2] * w->shape[3] * w->shape[4], outs = w->shape[0] / args->groups;
    cut_batch(c);
    c->M = args->kind == CR_CONV_INPUT ? w->shape[1] : outs;
    const int64_t N = result->numel / c->M / args->groups;
    c->K = weight ? c->images * (args->y.numel / args->y.shape[0] / args->y.shape[1])
                  : taps * (args->kind == CR_CONV_INPUT ? outs : w->shape[1]);
    enum { FEW_ROWS = 2, FEW = 128 };               /* results of a group, for which a tile would be mostly empty */
    if (c->g->dev.software || (weight ? c->M * N <= FEW : c->M <= FEW_ROWS)) {
        c->how.task = DIRECT;
        for (c->how.rows = ROWS; c->how.rows / 2 >= c->M;) c->how.rows /= 2;
    }
    cut_sums(c, c->how.task == DIRECT ? gpu_ceil_div(c->M, c->how.rows) * N * args->groups
                                      : GPU_GROUP * gpu_ceil_div(c->M, EDGE) * gpu_ceil_div(N, EDGE) * args->groups);
    const int64_t sums = weight ? c->parts * c->pieces : c->parts;
    if (sums > 1) {
        c->memory.data = cr_gpu_buffer_take(c->g, c->op, (size_t)(sums * result->numel) * sizeof(float));
        if (!c->memory.data) return cr_error_status();
        c->sums = cr_array_of(&c->memory, result->dev, CR_F32, CR_LIST(sums, result->numel));
        c->how.to = CR_F32;
        c->how.bias = false;
    }
    cr_status status = CR_OK;
    for (int64_t i = 0; i < c->pieces && status == CR_OK; i++) status = run_phases(c, i);
    if (status == CR_OK && sums > 1) status = join_parts(c);
    if (sums > 1) cr_gpu_buffer_give(c->g, c->memory.data);
    return status;
}

cr_status cr_gpu_conv(const cr_conv_args *args) {
    static const char *const names[] = {"conv", "conv_transpose", "conv_weight"};
    conv c = {.op = names[args->kind], .args = args, .bias = cr_present(&args->bias)};
    c.result = args->kind == CR_CONV_FORWARD ? &args->y : args->kind == CR_CONV_INPUT ? &args->x : &args->w;
    if (cr_gpu_lacks(c.op, c.result)) return cr_error_status();
    if (!fits_limits(args)) return cr_gpu_cannot(c.op, c.result->dev, "with sizes as large as these");
    c.g = cr_gpu_enter(c.op, c.result->dev);
    if (!c.g) return cr_error_status();
    const cr_dtype dt = c.result->dtype;
    c.how = (kernel){.id = 'v',
                     .dtype = dt,
                     .to = dt,
                     .weight = args->kind == CR_CONV_WEIGHT,
                     .bias = c.bias != NULL,
                     .bf16 = args->how & CR_MATMUL_BF16 && dt == CR_F32};
    return cr_gpu_leave(c.g, dispatch_conv(&c));
}
