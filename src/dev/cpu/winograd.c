/* winograd.c - convolutions in f32 with fewer multiplications (Winograd 1980; Lavin and Gray 2016): kernels of 3 x 3
 * with stride 1 by F(2x2, 3x3), 2.25 times fewer, and of 4 x 4 with stride 2 by F(2x2, 2x2), 1.78 times fewer.  Outputs
 * are computed in tiles of 2 x 2; each position of the transformed tiles is one product of matrices.
 *
 * With stride 2 the elements of one remainder (row, column) modulo 2 - a window - meet a kernel of 2 x 2 taps:
 *   FORWARD   adds the windows of x: their channels lie side by side, K = 4 C
 *   INPUT     each of the four sets of outputs of one remainder has a window of y, and products, of its own
 *   WEIGHT    the taps of one remainder meet the same window of x: columns of the gradient's product
 *
 * FORWARD and INPUT: lanes are tiles.  A chunk transforms a block of them, multiplies and transforms back, in L2 or L3.
 * Few blocks would leave threads without work: there each of the three steps is cut by itself.
 * WEIGHT: lanes are channels, so that products read what the transforms wrote: (M, tiles) x (tiles, K), tiles being a
 * few blocks at a time.
 * Blocks go through images.  An error is a part of the largest numbers in a tile, not of those under one kernel: few
 * channels, for which nothing is gained, stay in conv.c.  Cuts depend on the shape only. */
#include "winograd.h"

#include "conv_job.h"
#include "../../core/pool.h"

#include <string.h>

enum { LEAST_CHANNELS = 16,                         /* of a group, source and result: fewer cost more than they save */
       LEAST_TILES = 16,
       BLOCK_BYTES = 1 << 20,                       /* FORWARD, INPUT: of a block's transformed tiles */
       BLOCK_TILES = 64, MOST_TILES = 128,          /* of a block, or a few more */
       LONG_BLOCK = 256,                            /* WEIGHT, large sums */
       PART_BYTES = 320 << 10,                      /* WEIGHT: of sums of which each part has its own: part of L2 */
       PARTS = 16,
       FEW_BLOCKS = 8,                              /* fewer: cut by steps */
       MOST_TAPS = 16,
       PIECE = 32,                                  /* channels that are transformed at once */
       PANEL_BYTES = 128 << 10,                     /* of a product that meet all strips before the next: part of L2 */
       TOGETHER_BYTES = 8 << 20,                    /* of transformed blocks: part of L3 */
       APART = 32,                                  /* numbers: positions that are a power of two apart would meet in
                                                     * the same lines of L1 */
       ALIGNED = 64 };                              /* bytes */

typedef struct winograd {
    cr_conv_job *x;
    const struct cr_winograd *by;
    int64_t stride, kernel, taps, points, positions; /* of an axis but for the last: the points of a set, n x n */
    int64_t windows, sets, K;                       /* of a tile; of outputs; of the products */
    int64_t TH, TW, rows, blocks, all_rows;         /* tiles of an image; rows of tiles of a block, of all images */
    int64_t strips, together;                       /* of a block; blocks that are transformed before products start */
    int64_t group, first;                           /* of the steps under way: the first block */
    int64_t parts, begin;                           /* WEIGHT: sums of their own; the first block of this one */
    float *u, *v, *m;                               /* transformed weights, source, results; WEIGHT: u: cotangents */
} winograd;

/* Where the tiles of a block lie in a buffer and in the result. */
typedef struct tile_offsets { int64_t *at, *to; int32_t *rows, *columns; int64_t tiles; } tile_offsets;

static int64_t aligned(int64_t bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }
static bool backwards(const winograd *w) { return w->x->a->kind == CR_CONV_INPUT; }

bool cr_conv_winograd_takes(const cr_conv_job *j) {
    const cr_conv_args *a = j->a;
    const int64_t *kernel = a->w.shape + 2, stride = a->stride[1];
    bool takes = j->dtype == CR_F32 && !j->round && j->C >= LEAST_CHANNELS && j->M >= LEAST_CHANNELS &&
                 kernel[0] == 1 && !a->pad[0] && a->stride[0] == 1 && (stride == 1 || stride == 2);
    for (int i = 1; i < 3; i++) takes &= a->stride[i] == stride && a->dilation[i] == 1 && kernel[i] == 2 + stride;
    const cr_array *out = a->kind == CR_CONV_INPUT ? &a->x : &a->y;
    const int64_t tile = CR_TILE * (a->kind == CR_CONV_INPUT ? stride : 1);
    return takes && out->shape[0] * out->shape[2] * cr_pieces(out->shape[3], tile) * cr_pieces(out->shape[4], tile) >=
                        LEAST_TILES;
}

/* ---- windows: for axis 0 (rows) and 1 (columns), in its remainder `phase` */

/* The element of the kernel that is tap i. */
static int64_t axis_tap(const winograd *w, int axis, int64_t phase, int64_t i) {
    if (!backwards(w)) return phase + w->stride * i;
    return (phase + w->x->a->pad[1 + axis]) % w->stride + w->stride * (w->taps - 1 - i);
}

/* The first element of the source for output 0. */
static int64_t axis_first(const winograd *w, int axis, int64_t phase) {
    const int64_t pad = w->x->a->pad[1 + axis];
    return backwards(w) ? (phase + pad) / w->stride - (w->taps - 1) : phase - pad;
}

static int64_t window_row(const winograd *w, int64_t window) { return window / w->stride; }
static int64_t window_column(const winograd *w, int64_t window) { return window % w->stride; }
static int64_t element_step(const winograd *w) { return backwards(w) ? 1 : w->stride; }

static void fill_taps(const winograd *w, int64_t window, int64_t tap[MOST_TAPS]) {
    for (int64_t i = 0; i < w->taps; i++)
        for (int64_t k = 0; k < w->taps; k++)
            tap[i * w->taps + k] = axis_tap(w, 0, window_row(w, window), i) * w->kernel +
                                   axis_tap(w, 1, window_column(w, window), k);
}

static void tile_axes(const winograd *w, const cr_array *out) {
    cr_conv_job *j = w->x;
    const int64_t outs = backwards(w) ? w->stride : 1;
    j->axis[0] = (cr_conv_axis){.in = j->from.shape[2], .out = out->shape[2], .stride = 1, .taps = 1, .step = 1};
    for (int i = 0; i < 2; i++) {
        const int64_t first = axis_first(w, i, 0), last = axis_first(w, i, w->stride - 1);
        j->axis[1 + i] = (cr_conv_axis){.in = j->from.shape[3 + i],
                                        .out = cr_pieces(out->shape[3 + i], CR_TILE * outs),
                                        .stride = CR_TILE * element_step(w),
                                        .taps = last - first + (w->points - 1) * element_step(w) + 1,
                                        .first = first,
                                        .step = 1};
    }
    w->x->panels = cr_pieces(j->M, j->product->tile_rows);
}

/* Cuts the tiles into blocks of about so many. */
static void cut_tiles(winograd *w, const cr_array *out, int64_t tiles) {
    w->TH = w->x->axis[1].out;
    w->TW = w->x->axis[2].out;
    w->all_rows = out->shape[0] * out->shape[2] * w->TH;
    w->rows = cr_imin(w->all_rows, cr_pieces(tiles, w->TW));
    w->blocks = cr_pieces(w->all_rows, w->rows);
    w->strips = cr_pieces(w->rows * w->TW, w->x->product->tile_columns);
}
static int64_t rows_of(const winograd *w, int64_t block) { return cr_imin(w->rows, w->all_rows - block * w->rows); }

/* ---- FORWARD and INPUT: the source */

static int64_t width(const winograd *w) { return w->x->product->tile_columns; }
static int64_t padded(const winograd *w) { return w->strips * width(w); }
static int64_t u_step(const winograd *w) { return w->x->panels * w->x->product->panel_width * w->K + APART; }
static int64_t v_step(const winograd *w) { return w->together * w->strips * w->K * width(w) + APART; }
static int64_t m_row(const winograd *w) { return w->together * padded(w); }

/* Numbers of a buffer for so many channels of a block: its lines, and those around each piece of an image. */
static int64_t buffer_numbers(const winograd *w, int64_t channels) {
    return aligned((channels * w->x->channel + 2 * CR_CONV_SLACK) * w->x->size) / w->x->size;
}
static void place_buffer(const winograd *w) {
    cr_conv_job *j = w->x;
    const cr_conv_axis *rows = &j->axis[1];
    cr_conv_place_buffer(j, w->rows);
    j->channel = j->line * (rows->stride * w->rows + cr_imax(0, rows->taps - rows->stride) *
                                                         cr_imin(w->rows, w->rows / w->TH + 2));
}

static int64_t offsets_bytes(const winograd *w) { return 2 * padded(w) * (int64_t)(sizeof(int64_t) + sizeof(int32_t)); }

/* Fills a buffer with channels c .. c_end - 1 of a block, NULL: none, and p. */
static void fill(const winograd *w, float *buffer, int64_t group, int64_t c, int64_t c_end, int64_t block,
                 tile_offsets *p, void *room) {
    const cr_conv_job *j = w->x;
    const int64_t *s = j->to.strides, depths = j->axis[0].out, first = block * w->rows, end = first + rows_of(w, block),
                  step = CR_TILE * (backwards(w) ? w->stride : 1), stride = j->axis[1].stride;
    int64_t line = 0;
    *p = (tile_offsets){.at = room};
    p->to = p->at + padded(w);
    p->rows = (int32_t *)(p->to + padded(w));
    p->columns = p->rows + padded(w);
    for (int64_t row = first, rows; row < end; row += rows) {
        const int64_t image = row / w->TH, at = row % w->TH, b = image / depths, depth = image % depths;
        rows = cr_imin(end - row, w->TH - at);
        if (buffer)
            cr_conv_fill_buffer(j, (char *)(buffer + line * j->line - c * j->channel), b, group, c, c_end, depth, at,
                                rows);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t t = 0; t < w->TW; t++, p->tiles++) {
                p->at[p->tiles] = (line + stride * r) * j->line + t;
                p->to[p->tiles] = b * s[0] + depth * s[2] + step * ((at + r) * s[3] + t);
                p->rows[p->tiles] = (int32_t)(j->to.shape[3] - step * (at + r));
                p->columns[p->tiles] = (int32_t)(j->to.shape[4] - step * t);
            }
        line += stride * rows + cr_imax(0, j->axis[1].taps - stride);
    }
    for (int64_t t = p->tiles; t < padded(w); t++) {
        p->at[t] = p->at[p->tiles - 1];
        p->to[t] = p->rows[t] = p->columns[t] = 0;
    }
}

/* v (sets, positions, strips, K, width) of channels c .. c + n - 1, which are in the buffer */
static void transform_source(const winograd *w, float *v, const float *buffer, const tile_offsets *p, int64_t c,
                             int64_t n) {
    const cr_conv_job *j = w->x;
    const int64_t stride = j->axis[2].stride, step = element_step(w);
    for (int64_t i = 0; i < w->windows; i++) {
        const int64_t row = axis_first(w, 0, window_row(w, i)) - axis_first(w, 0, 0),
                      column = axis_first(w, 1, window_column(w, i)) - axis_first(w, 1, 0),
                      set = w->sets > 1 ? i : 0, k = c + (w->sets > 1 ? 0 : i * j->C);
        cr_tiles x = {.buffer = buffer + row * j->line, .channel = j->channel, .row = step * j->line};
        for (int64_t e = 0; e < w->points; e++)
            x.column[e] = (column + step * e) % stride * j->phase + (column + step * e) / stride;
        for (int64_t s = 0; s * width(w) < p->tiles; s++) {
            x.at = p->at + s * width(w);
            x.n = cr_imin(width(w), p->tiles - s * width(w));
            w->by->input(v + set * w->positions * v_step(w) + (s * w->K + k) * width(w), v_step(w), width(w), &x, n);
        }
    }
}

/* ---- weights, products, results */

/* A panel of one group: u (groups, sets, positions, K in blocks of `depth`, panels) */
static void transform_weights(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const cr_product_kernels *product = j->product;
    const int64_t group = chunk / j->panels, panel = chunk % j->panels, wide = product->panel_width,
                  all = w->kernel * w->kernel, first = panel * product->tile_rows,
                  rows = cr_imin(product->tile_rows, j->M - first);
    const float *from = cr_array_data(&j->a->w);
    float *u = w->u + group * w->sets * w->positions * u_step(w);
    _Alignas(ALIGNED) float plain[PIECE * MOST_TAPS * 16];
    for (int64_t c = 0, n; c < j->C; c += n) {
        n = cr_imin(PIECE, j->C - c);
        if (!backwards(w))
            product->pack(plain, wide, rows, n * all, from + ((group * j->M + first) * j->C + c) * all, j->C * all, 1);
        else for (int64_t i = 0; i < n; i++)
                product->pack(plain + i * all * wide, wide, rows, all,
                              from + ((group * j->C + c + i) * j->M + first) * all, all, 1);
        for (int64_t i = 0; i < w->windows; i++) {
            const int64_t set = w->sets > 1 ? i : 0, begin = c + (w->sets > 1 ? 0 : i * j->C);
            int64_t tap[MOST_TAPS];
            fill_taps(w, i, tap);
            for (int64_t k = begin, few; k < begin + n; k += few) {         /* of one block of K */
                const int64_t k0 = k / j->depth * j->depth, deep = cr_imin(j->depth, w->K - k0);
                few = cr_imin(begin + n, k0 + deep) - k;
                w->by->weights(u + set * w->positions * u_step(w) + (k0 * j->panels + panel * deep + k - k0) * wide,
                               u_step(w), plain + (k - begin) * all * wide, all, tap, wide, few);
            }
        }
    }
}

/* m (rows of the panels, m_row) = u v of one position of one set, v in strips */
static void multiply(const winograd *w, const float *u, const float *v, float *m, int64_t row, int64_t panel,
                     int64_t panels, int64_t tiles) {
    const cr_conv_job *j = w->x;
    const cr_product_kernels *product = j->product;
    const int64_t height = product->tile_rows, all = cr_imin(panels * height, j->M - panel * height);
    const cr_ahead none[3] = {{0}};
    for (int64_t k0 = 0, k; k0 < w->K; k0 += k) {
        k = cr_imin(j->depth, w->K - k0);
        const int64_t few = cr_imax(1, PANEL_BYTES / (product->panel_width * k * j->size));
        for (int64_t i = 0; i < panels; i += few)
            for (int64_t s = 0; s * width(w) < tiles; s++) {
                cr_product p = {.m = cr_imin(few * height, all - i * height),
                                .n = cr_imin(width(w), tiles - s * width(w)),
                                .k = k,
                                .a = u + (k0 * j->panels + (panel + i) * k) * product->panel_width,
                                .b = v + (s * w->K + k0) * width(w),
                                .c = m + i * height * row + s * width(w),
                                .c_row = row,
                                .accumulate = k0 > 0};
                product->panels(&p, none);
            }
    }
}

/* Rows c .. c + n - 1 of the results of a group from m (sets, positions, m_step), whose rows begin with c. */
static void transform_results(const winograd *w, const float *m, int64_t m_step, int64_t row, const tile_offsets *p,
                              int64_t group, int64_t c, int64_t n) {
    const cr_conv_job *j = w->x;
    const cr_array *bias = cr_present(&j->a->bias);
    const int64_t phases = w->sets > 1 ? w->stride : 1, first = group * j->M + c;
    cr_tiles_out y = {.y = (float *)cr_array_data(&j->to) + first * j->to.strides[1],
                      .channel = j->to.strides[1],
                      .line = j->to.strides[3],
                      .phases = (int)phases};
    for (int64_t s = 0; s * width(w) < p->tiles; s++) {
        y.to = p->to + s * width(w);
        y.rows = p->rows + s * width(w);
        y.columns = p->columns + s * width(w);
        for (int64_t r = 0; r < phases; r++)
            w->by->output(&y, (int)r, m + r * phases * w->positions * m_step + s * width(w), m_step, row,
                          bias ? (float *)cr_array_data(bias) + first : NULL, n);
    }
}

/* ---- FORWARD and INPUT: the steps, for the blocks from w->first on */

static int64_t blocks_now(const winograd *w) { return cr_imin(w->together, w->blocks - w->first); }

static void source_step(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const int64_t block = chunk % blocks_now(w), c = chunk / blocks_now(w) * PIECE, n = cr_imin(PIECE, j->C - c),
                  buffer = buffer_numbers(w, n) * j->size, all = buffer + offsets_bytes(w);
    char *scratch = cr_cpu_try_take((size_t)all);
    if (!scratch) { atomic_store(&w->x->failed, true); return; }
    float *numbers = (float *)(void *)scratch + CR_CONV_SLACK;
    tile_offsets p;
    fill(w, numbers, w->group, c, c + n, w->first + block, &p, scratch + buffer);
    transform_source(w, w->v + block * w->strips * w->K * width(w), numbers, &p, c, n);
    cr_cpu_give(scratch, (size_t)all);
}

static int64_t m_step(const winograd *w) { return w->x->M * m_row(w) + APART; }
static int64_t panels_at_once(const winograd *w) {
    return cr_imax(1, PANEL_BYTES / (w->x->product->panel_width * cr_imin(w->x->depth, w->K) * w->x->size));
}

static void product_step(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const int64_t all = w->sets * w->positions, i = chunk % all, few = panels_at_once(w), panel = chunk / all * few,
                  now = blocks_now(w), last = rows_of(w, w->first + now - 1) * w->TW;
    multiply(w, w->u + (w->group * all + i) * u_step(w), w->v + i * v_step(w),
             w->m + i * m_step(w) + panel * j->product->tile_rows * m_row(w), m_row(w), panel,
             cr_imin(few, j->panels - panel), (now - 1) * padded(w) + last);
}

static void result_step(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const int64_t block = chunk % blocks_now(w), c = chunk / blocks_now(w) * PIECE,
                  all = offsets_bytes(w);
    void *room = cr_cpu_try_take((size_t)all);
    if (!room) { atomic_store(&w->x->failed, true); return; }
    tile_offsets p;
    fill(w, NULL, w->group, 0, 0, w->first + block, &p, room);
    transform_results(w, w->m + c * m_row(w) + block * padded(w), m_step(w), m_row(w), &p, w->group, c,
                      cr_imin(PIECE, w->x->M - c));
    cr_cpu_give(room, (size_t)all);
}

/* Runs a step's chunks: on all threads (cr_run_chunks), or one after the other. */
typedef void run_fn(int64_t chunks, void (*step)(void *ctx, int64_t chunk, int worker), void *ctx);

static void one_by_one(int64_t chunks, void (*step)(void *ctx, int64_t chunk, int worker), void *ctx) {
    for (int64_t i = 0; i < chunks; i++) step(ctx, i, 0);
}

static int64_t v_bytes(const winograd *w) { return aligned(w->sets * w->positions * v_step(w) * w->x->size); }
static int64_t m_bytes(const winograd *w) { return aligned(w->sets * w->positions * m_step(w) * w->x->size); }

static void run_steps(winograd *w, run_fn *run) {
    const cr_conv_job *j = w->x;
    run(blocks_now(w) * cr_pieces(j->C, PIECE), source_step, w);
    run(w->sets * w->positions * cr_pieces(j->panels, panels_at_once(w)), product_step, w);
    run(blocks_now(w) * cr_pieces(j->M, PIECE), result_step, w);
}

static void run_block(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    winograd w = *(const winograd *)ctx;
    w.group = chunk / w.blocks;
    w.first = chunk % w.blocks;
    const size_t v = (size_t)v_bytes(&w), m = (size_t)m_bytes(&w);
    char *scratch = cr_cpu_try_take(v + m);
    if (!scratch) { atomic_store(&w.x->failed, true); return; }
    w.v = (float *)(void *)scratch;
    w.m = (float *)(void *)(scratch + v);
    run_steps(&w, one_by_one);
    cr_cpu_give(scratch, v + m);
}

/* As many blocks at a time as stay in L3. */
static cr_status run_few_blocks(winograd *w) {
    w->together = cr_iclamp(TOGETHER_BYTES / (v_bytes(w) + m_bytes(w)), 1, w->blocks);
    size_t v = (size_t)v_bytes(w), m = (size_t)m_bytes(w);
    w->v = cr_cpu_take_room(&v);
    w->m = w->v ? cr_cpu_take_room(&m) : NULL;
    for (w->group = 0; w->group < w->x->a->groups && w->m; w->group++)
        for (w->first = 0; w->first < w->blocks; w->first += w->together) run_steps(w, cr_run_chunks);
    const cr_status status = w->m ? CR_OK : CR_NO_MEMORY;
    cr_cpu_give(w->m, m);
    cr_cpu_give(w->v, v);
    return status;
}

static cr_status run_outputs(winograd *w) {
    cr_conv_job *j = w->x;
    const int64_t groups = j->a->groups;
    tile_axes(w, &j->to);
    w->together = 1;
    w->sets = backwards(w) ? w->windows : 1;
    w->K = j->C * w->windows / w->sets;
    const int64_t tile = w->sets * w->positions * (w->K + j->M) * j->size;
    cut_tiles(w, &j->to, cr_iclamp(BLOCK_BYTES / tile, BLOCK_TILES, MOST_TILES));
    place_buffer(w);
    j->depth = cr_pieces(w->K, cr_pieces(w->K, j->product->depth));
    size_t bytes = (size_t)(groups * w->sets * w->positions * u_step(w) * j->size);
    if (!(w->u = cr_cpu_take_room(&bytes))) return CR_NO_MEMORY;
    cr_run_chunks(groups * j->panels, transform_weights, w);
    cr_status status = CR_OK;
    if (groups * w->blocks < FEW_BLOCKS) status = run_few_blocks(w);
    else cr_run_chunks(groups * w->blocks, run_block, w);
    cr_cpu_give(w->u, bytes);
    return status == CR_OK && atomic_load(&j->failed) ? cr_no_memory("conv") : status;
}

/* ---- WEIGHT: a block of the source (x), or of the cotangents (y), channels as lanes */

typedef struct side {
    const cr_array *from;
    cr_tile_groups to;
    int64_t channels, pieces, piece;                /* of a group; cuts of them, whole groups of lanes */
    int64_t windows, rows, columns, row, column;    /* of a tile: its elements, the first one */
    int64_t step;                                   /* from tile to tile */
    cr_tile_transform *transform;
    int64_t numbers;                                /* transformed, of a block */
} side;

/* of a block of so many rows of tiles */
static side side_of(const winograd *w, bool cotangents, int64_t rows) {
    const cr_conv_job *j = w->x;
    const cr_product_kernels *product = j->product;
    const cr_conv_axis *h = &j->axis[1], *v = &j->axis[2];
    side s = {.from = &j->from, .channels = j->C, .windows = w->windows, .rows = h->taps, .columns = v->taps};
    s.row = h->first, s.column = v->first, s.step = h->stride, s.transform = w->by->pixels;
    s.to.channels = s.to.lanes = product->tile_columns;
    if (cotangents) {
        s = (side){.from = &j->a->y, .channels = j->M, .windows = 1, .rows = CR_TILE, .columns = CR_TILE};
        s.step = CR_TILE, s.transform = w->by->cotangents;
        s.to.channels = product->tile_rows;
        s.to.lanes = product->panel_width;
    }
    s.piece = cr_imax(1, PIECE / s.to.channels) * s.to.channels;
    s.pieces = cr_pieces(s.channels, s.piece);
    const int64_t all = s.windows * cr_pieces(s.channels, s.to.channels), each = w->TW * s.to.lanes;
    s.to.group = rows * each;
    s.to.step = all * s.to.group + APART;
    s.numbers = w->positions * (all * w->rows * each + APART);
    return s;
}

/* Memory for the channels of the lines of some rows of tiles: `wide` numbers a pixel, zeros around the image. */
typedef struct pixels { float *at; int64_t wide, line, lines; } pixels;

static pixels pixels_of(const winograd *w, const side *s, int64_t rows) {
    return (pixels){.wide = s->piece + s->to.lanes,
                    .line = cr_imax((w->TW - 1) * s->step + s->columns, s->from->shape[4] - s->column),
                    .lines = (rows - 1) * s->step + s->rows};
}

static void zero(const pixels *p, int64_t first, int64_t end) {
    if (end > first) memset(p->at + first * p->wide, 0, (size_t)((end - first) * p->wide) * sizeof *p->at);
}

/* n channels of `count` pixels of the image from pixel i on, a square of the transposition or less, into lines whose
 * first pixel is p->at[at]. */
static void transpose(const side *s, const pixels *p, int64_t at, const float *from, int64_t i, int64_t count,
                      int64_t n) {
    enum { MOST = 16 };
    const struct cr_casts *casts = cr_cpu_vec()->casts;
    const int64_t *strides = s->from->strides, W = s->from->shape[4], tile = casts->tile;
    const bool whole = count == tile && n == tile && strides[4] == 1, direct = whole && i % W + tile <= W;
    float square[MOST * MOST], *to[MOST];
    for (int64_t k = 0; k < count; k++) to[k] = p->at + (at + (i + k) / W * p->line + (i + k) % W) * p->wide;
    if (whole)
        casts->transpose((uint32_t *)(void *)(direct ? to[0] : square), (const uint32_t *)(const void *)from,
                         direct ? p->wide : tile, strides[1], false);
    for (int64_t k = 0; k < count && !direct; k++) {
        if (whole) memcpy(to[k], square + k * tile, (size_t)tile * sizeof *square);
        else if (strides[1] == 1) memcpy(to[k], from + k * strides[4], (size_t)n * sizeof *from);
        else for (int64_t c = 0; c < n; c++) to[k][c] = from[k * strides[4] + c * strides[1]];
    }
}

/* Fills p with n channels of the lines under the rows `at` and on of tiles. */
static void fill_pixels(const side *s, const pixels *p, const float *image, int64_t at, int64_t n) {
    const int64_t *strides = s->from->strides, W = s->from->shape[4], tile = cr_cpu_vec()->casts->tile,
                  top = at * s->step + s->row, first = cr_iclamp(-top, 0, p->lines),
                  end = cr_iclamp(s->from->shape[3] - top, first, p->lines), left = -s->column;
    zero(p, 0, first * p->line);
    zero(p, end * p->line, p->lines * p->line);
    for (int64_t l = first; l < end; l++) {
        zero(p, l * p->line, l * p->line + left);
        zero(p, l * p->line + left + W, (l + 1) * p->line);
        for (int64_t k = 0; k < W && n % s->to.lanes; k++)       /* lanes beyond: no denormals, which take long */
            memset(p->at + (l * p->line + left + k) * p->wide + n, 0, (size_t)s->to.lanes * sizeof *p->at);
    }
    const int64_t lines = strides[3] == W * strides[4] ? end - first : 1;        /* that follow one another */
    for (int64_t l = first; l < end; l += lines)
        for (int64_t i = 0; i < lines * W; i += tile)
            for (int64_t c = 0; c < n; c += tile) {
                const pixels square = {p->at + c, p->wide, p->line, 0};
                const float *from = image + (top + l) * strides[3] + i * strides[4] + c * strides[1];
                transpose(s, &square, l * p->line + left, from, i, cr_imin(tile, lines * W - i), cr_imin(tile, n - c));
            }
}

/* `rows` rows of tiles from p: v of the tiles from `tile` on, of channels c .. c + n - 1. */
static void transform_pixels(const winograd *w, const side *s, const pixels *p, float *v, int64_t rows, int64_t tile,
                             int64_t c, int64_t n) {
    const int64_t groups = cr_pieces(s->channels, s->to.channels), each = s->windows > 1 ? w->stride : 1,
                  row = each * p->line * p->wide, column = each * p->wide;
    for (int64_t t = 0; t < rows * w->TW; t++)
        for (int64_t i = 0; i < s->windows; i++) {
            const int64_t line = t / w->TW * s->step + window_row(w, i), at = t % w->TW * s->step + window_column(w, i);
            s->transform(v + (i * groups + c / s->to.channels) * s->to.group + (tile + t) * s->to.lanes, &s->to,
                         p->at + (line * p->line + at) * p->wide, row, column, n);
        }
}

static void weight_source_step(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const int64_t block = chunk % blocks_now(w), piece = chunk / blocks_now(w), depths = j->axis[0].out,
                  all = rows_of(w, w->first + block);
    const side x = side_of(w, false, all), g = side_of(w, true, all), s = piece < x.pieces ? x : g;
    float *v = piece < x.pieces ? w->v + block * x.numbers : w->u + block * g.numbers;
    const int64_t c = (piece < x.pieces ? piece : piece - x.pieces) * s.piece, n = cr_imin(s.piece, s.channels - c),
                  *strides = s.from->strides, begin = (w->first + block) * w->rows, end = begin + all;
    pixels p = pixels_of(w, &s, cr_imin(all, w->TH));
    const size_t bytes = (size_t)(p.lines * p.line * p.wide * j->size);
    if (!(p.at = cr_cpu_try_take(bytes))) { atomic_store(&w->x->failed, true); return; }
    for (int64_t row = begin, rows; row < end; row += rows) {
        const int64_t image = row / w->TH, at = row % w->TH;
        rows = cr_imin(end - row, w->TH - at);
        p.lines = pixels_of(w, &s, rows).lines;
        fill_pixels(&s, &p, (const float *)cr_array_data(s.from) + image / depths * strides[0] +
                                image % depths * strides[2] + (w->group * s.channels + c) * strides[1], at, n);
        transform_pixels(w, &s, &p, v, rows, (row - begin) * w->TW, c, n);
    }
    cr_cpu_give(p.at, bytes);
}

/* ---- WEIGHT: du (positions, M, K), K: windows, channels */

static int64_t du_step(const winograd *w) { return w->x->M * w->K + APART; }

static int64_t weight_panels(const winograd *w) {
    return cr_imax(1, PANEL_BYTES / (w->x->product->panel_width * w->rows * w->TW * w->x->size));
}

/* One position, a few panels of cotangents. */
static void weight_product_step(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const int64_t i = chunk % w->positions, few = weight_panels(w), panel = chunk / w->positions * few,
                  row = panel * j->product->tile_rows, strips = cr_pieces(j->C, width(w));
    const cr_ahead none[3] = {{0}};
    for (int64_t block = 0; block < blocks_now(w); block++) {
        const int64_t rows = rows_of(w, w->first + block);
        const side x = side_of(w, false, rows), g = side_of(w, true, rows);
        for (int64_t s = 0; s < w->windows * strips; s++) {
            const int64_t c = s % strips * width(w);
            const cr_product p = {.m = cr_imin(few * j->product->tile_rows, j->M - row),
                                  .n = cr_imin(width(w), j->C - c),
                                  .k = rows * w->TW,
                                  .a = w->u + block * g.numbers + i * g.to.step + panel * g.to.group,
                                  .b = w->v + block * x.numbers + i * x.to.step + s * x.to.group,
                                  .c = w->m + i * du_step(w) + row * w->K + s / strips * j->C + c,
                                  .c_row = w->K,
                                  .accumulate = w->first + block > w->begin};
            j->product->panels(&p, none);
        }
    }
}

static int64_t du_numbers(const winograd *w) { return w->positions * du_step(w); }

/* A row of dw of one group. */
static void gradient_step(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const int64_t all = w->kernel * w->kernel;
    for (int64_t part = 1; part < w->parts; part++)
        for (int64_t i = 0; i < w->positions; i++) {
            float *sum = w->m + i * du_step(w) + chunk * w->K;
            const float *more = sum + part * du_numbers(w);
            for (int64_t k = 0; k < w->K; k++) sum[k] += more[k];
        }
    for (int64_t i = 0; i < w->windows; i++) {
        int64_t tap[MOST_TAPS];
        fill_taps(w, i, tap);
        w->by->gradient((float *)cr_array_data(&j->a->w) + (w->group * j->M + chunk) * j->C * all, all, tap,
                        w->m + chunk * w->K + i * j->C, du_step(w), j->C);
    }
}

/* Adds the blocks first .. end - 1 to du. */
static void add_blocks(winograd *w, int64_t end, run_fn *run) {
    const side x = side_of(w, false, w->rows), g = side_of(w, true, w->rows);
    for (w->begin = w->first; w->first < end; w->first += w->together) {
        run(blocks_now(w) * (x.pieces + g.pieces), weight_source_step, w);
        run(w->positions * cr_pieces(w->x->panels, weight_panels(w)), weight_product_step, w);
    }
}

static size_t sides_bytes(const winograd *w) {
    const int64_t block = side_of(w, false, w->rows).numbers + side_of(w, true, w->rows).numbers;
    return (size_t)(w->together * block * w->x->size);
}
static void place_sides(winograd *w, void *room) {
    w->v = room;
    w->u = w->v + w->together * side_of(w, false, w->rows).numbers;
}

/* One part of the blocks, a block at a time. */
static void weight_part(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    winograd w = *(const winograd *)ctx;
    w.m += chunk * du_numbers(&w);
    w.first = chunk * w.blocks / w.parts;
    void *room = cr_cpu_try_take(sides_bytes(&w));
    if (!room) { atomic_store(&w.x->failed, true); return; }
    place_sides(&w, room);
    add_blocks(&w, (chunk + 1) * w.blocks / w.parts, one_by_one);
    cr_cpu_give(room, sides_bytes(&w));
}

/* All blocks, a few at a time. */
static cr_status weight_whole(winograd *w) {
    w->together = cr_iclamp(TOGETHER_BYTES / (int64_t)sides_bytes(w), 1, w->blocks);
    size_t bytes = sides_bytes(w);
    void *room = cr_cpu_take_room(&bytes);
    if (!room) return CR_NO_MEMORY;
    place_sides(w, room);
    w->first = 0;
    add_blocks(w, w->blocks, cr_run_chunks);
    cr_cpu_give(room, bytes);
    return CR_OK;
}

static cr_status run_weight(winograd *w) {
    cr_conv_job *j = w->x;
    tile_axes(w, &j->a->y);
    w->K = w->windows * j->C;
    const bool small = du_numbers(w) * j->size <= PART_BYTES;
    cut_tiles(w, &j->a->y, small ? BLOCK_TILES : LONG_BLOCK);
    w->parts = small ? cr_imin(PARTS, w->blocks) : 1;
    size_t bytes = (size_t)(w->parts * du_numbers(w) * j->size);
    if (!(w->m = cr_cpu_take_room(&bytes))) return CR_NO_MEMORY;
    cr_status status = CR_OK;
    for (w->group = 0; w->group < j->a->groups && status == CR_OK; w->group++) {
        w->together = 1;
        if (w->parts > 1) cr_run_chunks(w->parts, weight_part, w);
        else status = weight_whole(w);
        if (status == CR_OK) cr_run_chunks(j->M, gradient_step, w);
    }
    cr_cpu_give(w->m, bytes);
    return status == CR_OK && atomic_load(&j->failed) ? cr_no_memory("conv") : status;
}

cr_status cr_conv_winograd(cr_conv_job *j) {
    winograd w = {.x = j, .stride = j->a->stride[1], .kernel = j->a->w.shape[3], .sets = 1};
    w.taps = w.kernel / w.stride;
    w.points = w.taps + 1;
    w.positions = w.points * w.points;
    w.windows = w.stride * w.stride;
    w.by = w.taps == 3 ? &cr_cpu_vec()->winograd->three : &cr_cpu_vec()->winograd->two;
    return j->a->kind == CR_CONV_WEIGHT ? run_weight(&w) : run_outputs(&w);
}
