/* channels.c - batch normalization by channel and its gradient (channels.wgsl): sums of parts of
 * each channel, their join, then every element.  The parts depend on the shape only. */
#include "wgsl.gen.h"
#include "wgsl.h"

#include <string.h>

enum { MOST = 7 };                                  /* operands */
typedef enum channels_task { MOMENTS, PRODUCTS, STATISTICS, JOIN, NORM, NORM_DX } channels_task;
typedef enum operand { X, G, Y, SUMS, MEAN, VAR, WEIGHT, BIAS, ALL, DW, DB } operand;
static const char *const operand_names[] = {"x", "g", "y", "sums", "mean", "variance", "w", "b", "all", "dw", "db"};
typedef struct kernel {
    int id;
    channels_task task;
    int n;
    struct { operand name; cr_dtype dtype; int written; } operand[MOST];
} kernel;

typedef struct division { int64_t rows, length, across, parts; } division;
typedef struct channels {                           /* one kernel and its operands */
    const char *op;
    gpu *g;
    const cr_array *x;
    division d;
    double eps;
    kernel how;
    const cr_array *t[MOST];
} channels;

static division division_of(const cr_array *x, const gpu *g) {
    enum { BUSY = 1024,                             /* workgroups that are enough for any GPU */
           LEAST = 2 * GPU_GROUP, LONG = 1 << 22 }; /* elements of a part; an invocation has 16384 at most */
    const int64_t B = x->shape[0], C = x->shape[1], S = x->shape[2],
                  most = (int64_t)(g->window / cr_dtype_size(x->dtype) / 2) / (C * S);         /* rows in a window */
    const int64_t parts = cr_imax(cr_iclamp(BUSY / C, 1, cr_imax(B * S / LEAST, 1)), gpu_ceil_div(B * S, LONG));
    division d = {.across = cr_iclamp(gpu_ceil_div(parts, B), 1, cr_imax(S / GPU_GROUP, 1))};
    d.length = gpu_ceil_div(S, d.across);
    d.across = gpu_ceil_div(S, d.length);
    d.rows = cr_iclamp(gpu_ceil_div(B, gpu_ceil_div(parts, d.across)), 1, cr_imax(most, 1));
    d.parts = gpu_ceil_div(B, d.rows) * d.across;
    return d;
}

static void write_kernel(wgsl *w, const void *how) {
    static const char *const tasks[] = {"MOMENTS", "PRODUCTS", "STATISTICS", "JOIN", "NORM", "NORM_DX"};
    static const char *const optional[] = {[WEIGHT] = "HAS_W", [BIAS] = "HAS_B", [DW] = "HAS_DW", [DB] = "HAS_DB"};
    const kernel *h = how;
    cr_wgsl_const(w, tasks[h->task], 1);
    if (h->task <= PRODUCTS) cr_wgsl_const(w, "OF_PARTS", 1);
    if (h->task >= NORM) cr_wgsl_const(w, "EACH", 1);
    for (int i = 0; i < h->n; i++) {
        const char *name = operand_names[h->operand[i].name];
        const expr at = cr_expr_of("p.offsets[%d].%c + i", i / 4, "xyzw"[i % 4]);
        if (optional[h->operand[i].name]) cr_wgsl_const(w, optional[h->operand[i].name], 1);
        cr_wgsl_array(w, name, h->operand[i].dtype, h->operand[i].written);
        if (h->operand[i].written) cr_wgsl_add(w, "fn put_%s(i: u32, v: f32) { store_%s(%s, v); }\n", name, name, at.s);
        else cr_wgsl_add(w, "fn get_%s(i: u32) -> f32 { return load_%s(%s); }\n", name, name, at.s);
    }
    cr_wgsl_file(w, cr_wgsl_channels);
    if (h->task <= PRODUCTS) cr_wgsl_trees(w, 1);
    cr_wgsl_end(w, GPU_GROUP);
}

/* t NULL: there is no such operand */
static void add_operand(channels *c, operand name, const cr_array *t, bool written) {
    if (!t) return;
    const int i = c->how.n++;
    c->how.operand[i].name = name;
    c->how.operand[i].dtype = t->dtype;
    c->how.operand[i].written = written;
    c->t[i] = t;
}
static channels kernel_of(const channels *from, channels_task task) {
    channels c = *from;
    memset(&c.how, 0, sizeof c.how);
    c.how.id = 'B';
    c.how.task = task;
    return c;
}

static bool is_large(const kernel *h, int i) { return h->operand[i].name <= Y; }

/* Dispatches with the elements [first, end) of x, g and y in windows; *fits false: there are no such windows. */
static cr_status dispatch(const channels *c, channels_parameters p, int64_t first, int64_t end, uint64_t groups,
                          bool *fits) {
    gpu_call call = {.op = c->op,
                     .write = write_kernel,
                     .how = &c->how,
                     .how_bytes = sizeof c->how,
                     .parameters = &p,
                     .parameters_bytes = sizeof p,
                     .groups = groups};
    *fits = true;
    for (int i = 0; i < c->how.n; i++) {
        const cr_array *t = c->t[i];
        const bool large = is_large(&c->how, i);
        const gpu_span s = {t->offset + (large ? first : 0), t->offset + (large ? end : t->numel)};
        if (!cr_gpu_bind_window(c->g, &call, gpu_buffer_of(t), s, t->dtype, &p.offsets[i])) return *fits = false, CR_OK;
    }
    return cr_gpu_run(c->g, &call);
}

static channels_parameters parameters_of(const channels *c) {
    const int64_t *shape = c->x->shape;
    return (channels_parameters){.B = (uint32_t)shape[0],
                                 .C = (uint32_t)shape[1],
                                 .S = (uint32_t)shape[2],
                                 .rows = (uint32_t)c->d.rows,
                                 .length = (uint32_t)c->d.length,
                                 .across = (uint32_t)c->d.across,
                                 .parts = (uint32_t)c->d.parts,
                                 .eps = (float)c->eps,
                                 .count = (float)(shape[0] * shape[2])};
}

/* Parts [first, end) of the channels [low, high), split until x fits. */
static cr_status run_parts(const channels *c, int64_t first, int64_t end, int64_t low, int64_t high) {
    const int64_t B = c->x->shape[0], C = c->x->shape[1], S = c->x->shape[2], row = first / c->d.across * c->d.rows,
                  last = cr_imin(((end - 1) / c->d.across + 1) * c->d.rows, B), groups = (end - first) * (high - low);
    channels_parameters p = parameters_of(c);
    bool fits;
    p.groups = (uint32_t)groups;
    p.first_part = (uint32_t)first, p.first_row = (uint32_t)row;
    p.first_channel = (uint32_t)low, p.channels = (uint32_t)(high - low);
    cr_status status = dispatch(c, p, (row * C + low) * S, ((last - 1) * C + high) * S, (uint64_t)groups, &fits);
    if (fits) return status;
    const bool in_parts = end - first > 1;
    const int64_t middle = in_parts ? first + (end - first) / 2 : low + (high - low) / 2;
    if (middle == low && !in_parts) return cr_gpu_fail_window(c->g, c->op, gpu_buffer_of(c->x)->bytes);
    status = in_parts ? run_parts(c, first, middle, low, high) : run_parts(c, first, end, low, middle);
    if (status != CR_OK) return status;
    return in_parts ? run_parts(c, middle, end, low, high) : run_parts(c, first, end, middle, high);
}

/* The elements of the rows [first, end) of B C rows, split until they fit. */
static cr_status run_rows(const channels *c, int64_t first, int64_t end) {
    const int64_t S = c->x->shape[2], count = (end - first) * S;
    channels_parameters p = parameters_of(c);
    bool fits = false;
    cr_status status = CR_OK;
    p.groups = (uint32_t)count;
    p.first_row = (uint32_t)(first % c->x->shape[1]);
    if (count <= INT32_MAX) status = dispatch(c, p, first * S, end * S, gpu_groups(count), &fits);
    if (fits) return status;
    const int64_t middle = first + (end - first) / 2;
    if (middle == first) return cr_gpu_fail_window(c->g, c->op, gpu_buffer_of(c->x)->bytes);
    status = run_rows(c, first, middle);
    return status == CR_OK ? run_rows(c, middle, end) : status;
}

static cr_status run_channels(const channels *c) {
    channels_parameters p = parameters_of(c);
    bool fits;
    p.groups = p.C;
    const cr_status status = dispatch(c, p, 0, 0, gpu_groups(p.C), &fits);
    return fits ? status : cr_gpu_fail_window(c->g, c->op, gpu_buffer_of(c->t[0])->bytes);
}

/* Memory for (parts, C, 2) numbers; storage NULL: an error. */
static cr_array take_sums(const channels *c, int64_t parts, cr_storage *memory) {
    const int64_t C = c->x->shape[1];
    *memory = (cr_storage){.data = cr_gpu_buffer_take(c->g, c->op, (size_t)(2 * parts * C) * sizeof(float))};
    return cr_array_of(memory->data ? memory : NULL, c->x->dev, CR_F32, CR_LIST(parts, C, 2));
}
static void give_sums(const channels *c, const cr_array *sums) {
    if (sums->storage) cr_gpu_buffer_give(c->g, gpu_buffer_of(sums));
}

static int64_t rows_of(const channels *c) { return c->x->shape[0] * c->x->shape[1]; }

static cr_status run_norm(const channels *from, const cr_channel_norm_args *args, const cr_array *sums) {
    channels c = kernel_of(from, MOMENTS);
    add_operand(&c, SUMS, sums, true);
    add_operand(&c, X, &args->x, false);
    cr_status status = run_parts(&c, 0, c.d.parts, 0, c.x->shape[1]);
    c = kernel_of(from, STATISTICS);
    add_operand(&c, MEAN, &args->mean, true);
    add_operand(&c, VAR, &args->var, true);
    add_operand(&c, SUMS, sums, false);
    if (status == CR_OK) status = run_channels(&c);
    c = kernel_of(from, NORM);
    add_operand(&c, Y, &args->y, true);
    add_operand(&c, X, &args->x, false);
    add_operand(&c, MEAN, &args->mean, false);
    add_operand(&c, VAR, &args->var, false);
    add_operand(&c, WEIGHT, cr_present(&args->w), false);
    add_operand(&c, BIAS, cr_present(&args->b), false);
    return status == CR_OK ? run_rows(&c, 0, rows_of(&c)) : status;
}

cr_status cr_gpu_channel_norm(const cr_channel_norm_args *args) {
    channels c = {.op = "batch_norm", .x = &args->x, .eps = args->eps};
    if (cr_gpu_lacks(c.op, c.x)) return cr_error_status();
    c.g = cr_gpu_enter(c.op, c.x->dev);
    if (!c.g) return cr_error_status();
    c.d = division_of(c.x, c.g);
    cr_storage memory;
    const cr_array sums = take_sums(&c, c.d.parts, &memory);
    const cr_status status = sums.storage ? run_norm(&c, args, &sums) : cr_error_status();
    give_sums(&c, &sums);
    return cr_gpu_leave(c.g, status);
}

static cr_status run_bwd(const channels *from, const cr_channel_norm_bwd_args *args, const cr_array *sums,
                         const cr_array *all) {
    channels c = kernel_of(from, PRODUCTS);
    add_operand(&c, SUMS, sums, true);
    add_operand(&c, X, &args->x, false);
    add_operand(&c, G, &args->g, false);
    add_operand(&c, MEAN, &args->mean, false);
    add_operand(&c, VAR, &args->var, false);
    cr_status status = run_parts(&c, 0, c.d.parts, 0, c.x->shape[1]);
    c = kernel_of(from, JOIN);
    add_operand(&c, ALL, all, true);
    add_operand(&c, DB, cr_present(&args->db), true);
    add_operand(&c, DW, cr_present(&args->dw), true);
    add_operand(&c, SUMS, sums, false);
    if (status == CR_OK) status = run_channels(&c);
    if (status != CR_OK || !cr_present(&args->dx)) return status;
    c = kernel_of(from, NORM_DX);
    add_operand(&c, Y, &args->dx, true);
    add_operand(&c, X, &args->x, false);
    add_operand(&c, G, &args->g, false);
    add_operand(&c, MEAN, &args->mean, false);
    add_operand(&c, VAR, &args->var, false);
    add_operand(&c, ALL, all, false);
    add_operand(&c, WEIGHT, cr_present(&args->w), false);
    return run_rows(&c, 0, rows_of(&c));
}

cr_status cr_gpu_channel_norm_bwd(const cr_channel_norm_bwd_args *args) {
    channels c = {.op = "batch_norm_bwd", .x = &args->x, .eps = args->eps};
    if (cr_gpu_lacks(c.op, c.x)) return cr_error_status();
    c.g = cr_gpu_enter(c.op, c.x->dev);
    if (!c.g) return cr_error_status();
    c.d = division_of(c.x, c.g);
    cr_storage memory[2];
    const cr_array sums = take_sums(&c, c.d.parts, &memory[0]), all = take_sums(&c, 1, &memory[1]);
    const cr_status status = sums.storage && all.storage ? run_bwd(&c, args, &sums, &all) : cr_error_status();
    give_sums(&c, &all);
    give_sums(&c, &sums);
    return cr_gpu_leave(c.g, status);
}
