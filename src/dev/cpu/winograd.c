/* winograd.c - convolutions in f32 with kernels of 3 x 3 and stride 1 by F(2x2, 3x3) (Lavin and Gray 2016): 16 products
 * of matrices of the transformed weights (M, C) and the transformed source (C, tiles), 2.25 times fewer multiplications
 * than conv.c needs.
 *
 * A chunk transforms a block of tiles, multiplies and transforms back, in L2 or L3; blocks go through images, so small
 * images fill strips too.  WEIGHT multiplies transformed cotangents (M, tiles) and sources (tiles, C): sums of parts of
 * the tiles, added in order.  An error is a part of the largest numbers in a tile, not of those under one kernel: few
 * channels, for which nothing is gained, stay in conv.c.  Cuts depend on the shape only. */
#include "winograd.h"

#include "conv_job.h"
#include "../../core/pool.h"

enum { KERNEL = 3,
       TAPS = KERNEL * KERNEL,
       LEAST_CHANNELS = 16,                         /* of a group, source and result: fewer cost more than they save */
       LEAST_TILES = 16,
       BLOCK_TILES = 64,
       CHUNKS = 16,                                 /* wanted, where the shape has enough work */
       PIECE = 64,                                  /* channels of weights that are transformed at once */
       PANEL_BYTES = 128 << 10,                     /* of weights that meet all strips before the next: part of L2 */
       COLUMNS = 128,                               /* WEIGHT: source channels of a chunk */
       PARTS_BYTES = 16 << 20,                      /* WEIGHT: of the partial sums */
       ALIGNED = 64 };                              /* bytes */

typedef struct winograd {
    cr_conv_job *x, g;                              /* the source; WEIGHT: the cotangents as one */
    int64_t TH, TW, rows, blocks;                   /* tiles of an image; rows of tiles of a block, through images */
    int64_t all_rows, strips, padded;               /* of all images; of a block, and their tiles */
    float *u;                                       /* (groups, positions, panels of weights) */
    int64_t m_blocks, block_panels;
    int64_t n_blocks, columns, parts;               /* WEIGHT */
    float *du;                                      /* (groups, parts, positions, M, C) */
} winograd;

/* Where the tiles of a block lie in a buffer and in the result. */
typedef struct places { int64_t *at, *to; bool *rows, *columns; int64_t tiles; } places;

static int64_t aligned(int64_t bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }
static const struct cr_winograds *transforms(void) { return cr_cpu_vec()->winograd; }

bool cr_conv_winograd_takes(const cr_conv_job *j) {
    const cr_conv_args *a = j->a;
    const int64_t *kernel = a->w.shape + 2;
    bool takes = j->dtype == CR_F32 && !j->round && j->C >= LEAST_CHANNELS && j->M >= LEAST_CHANNELS &&
                 kernel[0] == 1 && kernel[1] == KERNEL && kernel[2] == KERNEL && !a->pad[0];
    for (int i = 0; i < 3; i++) takes &= a->stride[i] == 1 && a->dilation[i] == 1;
    const cr_array *out = a->kind == CR_CONV_INPUT ? &a->x : &a->y;
    return takes && out->shape[0] * out->shape[2] * cr_pieces(out->shape[3], CR_TILE) *
                            cr_pieces(out->shape[4], CR_TILE) >= LEAST_TILES;
}

/* ---- blocks of tiles */

/* The axes of a job whose outputs are tiles: `taps` elements of the source from `first` on. */
static void tile_axes(cr_conv_job *j, const cr_array *out, int64_t taps, const int64_t first[2]) {
    j->axis[0] = (cr_conv_axis){.in = j->from.shape[2], .out = out->shape[2], .stride = 1, .taps = 1, .step = 1};
    for (int i = 1; i < 3; i++)
        j->axis[i] = (cr_conv_axis){.in = j->from.shape[2 + i],
                                    .out = cr_pieces(out->shape[2 + i], CR_TILE),
                                    .stride = CR_TILE,
                                    .taps = taps,
                                    .first = first[i - 1],
                                    .step = 1};
}

/* Lines of a buffer for a block: those of its rows, and those around each piece of an image. */
static int64_t most_lines(const winograd *w, const cr_conv_job *j) {
    const int64_t pieces = cr_imin(w->rows, w->rows / w->TH + 2);
    return CR_TILE * w->rows + (j->axis[1].taps - CR_TILE) * pieces;
}

static void place(winograd *w, cr_conv_job *j) {
    cr_conv_place_buffer(j, w->rows);
    j->channel = j->line * most_lines(w, j);
}
static int64_t buffer_bytes(const cr_conv_job *j, int64_t channels) {
    return aligned((channels * j->channel + 2 * CR_CONV_SLACK) * j->size);
}

/* Fills a buffer with channels c .. c_end - 1 of rows first .. first + n - 1 of tiles, and p. */
static void fill(const winograd *w, const cr_conv_job *j, float *buffer, int64_t group, int64_t c, int64_t c_end,
                 int64_t first, int64_t n, places *p) {
    const int64_t *s = j->to.strides, depths = j->axis[0].out;
    int64_t line = 0;
    p->tiles = 0;
    for (int64_t row = first, rows; row < first + n; row += rows) {
        const int64_t image = row / w->TH, at = row % w->TH, b = image / depths, depth = image % depths;
        rows = cr_imin(first + n - row, w->TH - at);
        cr_conv_fill_buffer(j, (char *)(buffer + line * j->line), b, group, c, c_end, depth, at, rows);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t t = 0; t < w->TW; t++, p->tiles++) {
                p->at[p->tiles] = (line + CR_TILE * r) * j->line + t;
                if (!p->to) continue;
                p->to[p->tiles] = b * s[0] + depth * s[2] + CR_TILE * ((at + r) * s[3] + t);
                p->rows[p->tiles] = CR_TILE * (at + r) + 1 < j->to.shape[3];
                p->columns[p->tiles] = CR_TILE * t + 1 < j->to.shape[4];
            }
        line += CR_TILE * rows + j->axis[1].taps - CR_TILE;
    }
    for (int64_t t = p->tiles; t < w->padded; t++) {
        p->at[t] = p->at[p->tiles - 1];
        if (p->to) p->to[t] = -1;
    }
}

/* ---- FORWARD and INPUT */

static int64_t u_step(const winograd *w) { return w->x->panels * w->x->product->panel_width * w->x->C; }

/* A panel of one group. */
static void transform_weights(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const cr_product_kernels *product = j->product;
    const bool forward = j->a->kind == CR_CONV_FORWARD;
    const int64_t group = chunk / j->panels, panel = chunk % j->panels, width = product->panel_width,
                  first = panel * product->tile_rows, rows = cr_imin(product->tile_rows, j->M - first);
    const float *from = cr_array_data(&j->a->w);
    float *u = w->u + group * CR_TILE_POSITIONS * u_step(w);
    _Alignas(ALIGNED) float plain[PIECE * TAPS * 16];
    for (int64_t k0 = 0, k; k0 < j->C; k0 += k) {
        k = cr_imin(j->depth, j->C - k0);
        for (int64_t i = 0, n; i < k; i += n) {
            n = cr_imin(PIECE, k - i);
            if (forward)
                product->pack(plain, width, rows, n * TAPS, from + ((group * j->M + first) * j->C + k0 + i) * TAPS,
                              j->C * TAPS, 1);
            else for (int64_t c = 0; c < n; c++)
                    product->pack(plain + c * TAPS * width, width, rows, TAPS,
                                  from + ((group * j->C + k0 + i + c) * j->M + first) * TAPS, TAPS, 1);
            transforms()->weights(u + (k0 * j->panels + panel * k + i) * width, u_step(w), plain, width, n, !forward);
        }
    }
}

/* m (positions, rows of the panels, tiles) = u v, v in strips */
static void multiply(const winograd *w, const float *u, const float *v, float *m, int64_t panel, int64_t panels,
                     int64_t tiles) {
    const cr_conv_job *j = w->x;
    const cr_product_kernels *product = j->product;
    const int64_t width = product->tile_columns, height = product->tile_rows, first = panel * height,
                  all = cr_imin(panels * height, j->M - first);
    const cr_ahead none[3] = {{0}};
    for (int64_t k0 = 0, k; k0 < j->C; k0 += k) {
        k = cr_imin(j->depth, j->C - k0);
        const int64_t few = cr_imax(1, PANEL_BYTES / (product->panel_width * k * j->size));
        for (int64_t i = 0; i < panels; i += few)
            for (int64_t s = 0; s * width < tiles; s++) {
                cr_product p = {.m = cr_imin(few * height, all - i * height),
                                .n = cr_imin(width, tiles - s * width),
                                .k = k,
                                .a = u + (k0 * j->panels + (panel + i) * k) * product->panel_width,
                                .b = v + (s * j->C + k0) * width,
                                .c = m + i * height * w->padded + s * width,
                                .c_row = w->padded,
                                .accumulate = k0 > 0};
                product->panels(&p, none);
            }
    }
}

typedef struct sizes { int64_t buffer, g_buffer, v, m, packed, strip, at, to, flags, all; } sizes;

static sizes forward_sizes(const winograd *w) {
    const cr_conv_job *j = w->x;
    const int64_t each = CR_TILE_POSITIONS * w->padded * j->size;
    sizes s = {.buffer = buffer_bytes(j, j->C),
               .v = each * j->C,
               .m = each * w->block_panels * j->product->tile_rows,
               .at = aligned(w->padded * (int64_t)sizeof(int64_t)),
               .to = aligned(w->padded * (int64_t)sizeof(int64_t)),
               .flags = aligned(2 * w->padded)};
    s.all = s.buffer + s.v + s.m + s.at + s.to + s.flags;
    return s;
}

static void run_block(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const sizes size = forward_sizes(w);
    const int64_t group = chunk / w->m_blocks / w->blocks, first = chunk / w->m_blocks % w->blocks * w->rows,
                  panel = chunk % w->m_blocks * w->block_panels, panels = cr_imin(w->block_panels, j->panels - panel),
                  width = j->product->tile_columns, row = panel * j->product->tile_rows,
                  M = cr_imin(panels * j->product->tile_rows, j->M - row), step = w->strips * j->C * width;
    char *scratch = cr_cpu_try_take((size_t)size.all);
    if (!scratch) { atomic_store(&w->x->failed, true); return; }
    float *v = (float *)(void *)scratch, *m = v + size.v / 4, *buffer = m + size.m / 4 + CR_CONV_SLACK;
    char *rest = scratch + size.v + size.m + size.buffer;
    places p = {.at = (int64_t *)(void *)rest, .to = (int64_t *)(void *)(rest + size.at)};
    p.rows = (bool *)rest + size.at + size.to;
    p.columns = p.rows + w->padded;
    fill(w, j, buffer, group, 0, j->C, first, cr_imin(w->rows, w->all_rows - first), &p);
    const cr_array *bias = cr_present(&j->a->bias);
    cr_tiles x = {.buffer = buffer, .channel = j->channel, .line = j->line, .phase = j->phase};
    cr_tiles_out y = {.y = (float *)cr_array_data(&j->to) + (group * j->M + row) * j->to.strides[1],
                      .channel = j->to.strides[1],
                      .line = j->to.strides[3]};
    for (int64_t s = 0; s * width < p.tiles; s++) {
        x.at = p.at + s * width;
        x.n = cr_imin(width, p.tiles - s * width);
        transforms()->input(v + s * j->C * width, step, width, &x, j->C);
    }
    for (int64_t i = 0; i < CR_TILE_POSITIONS; i++)
        multiply(w, w->u + (group * CR_TILE_POSITIONS + i) * u_step(w), v + i * step, m + i * M * w->padded, panel,
                 panels, p.tiles);
    for (int64_t s = 0; s * width < p.tiles; s++) {
        y.to = p.to + s * width;
        y.rows = p.rows + s * width;
        y.columns = p.columns + s * width;
        transforms()->output(&y, m + s * width, M * w->padded, w->padded,
                             bias ? (float *)cr_array_data(bias) + group * j->M + row : NULL, M);
    }
    cr_cpu_give(scratch, (size_t)size.all);
}

static cr_status no_memory(void) { return cr_fail(CR_NO_MEMORY, "conv", "out of memory for transformed tiles"); }

/* Cuts the tiles into blocks. */
static void cut(winograd *w, const cr_array *out) {
    const int64_t width = w->x->product->tile_columns;
    w->TH = w->x->axis[1].out;
    w->TW = w->x->axis[2].out;
    w->all_rows = out->shape[0] * out->shape[2] * w->TH;
    w->rows = cr_imin(w->all_rows, cr_pieces(BLOCK_TILES, w->TW));
    w->blocks = cr_pieces(w->all_rows, w->rows);
    w->strips = cr_pieces(w->rows * w->TW, width);
    w->padded = w->strips * width;
    place(w, w->x);
}

static cr_status run_outputs(winograd *w) {
    cr_conv_job *j = w->x;
    const cr_conv_args *a = j->a;
    const int64_t groups = a->groups;
    const bool forward = a->kind == CR_CONV_FORWARD;
    int64_t first[2];
    for (int i = 0; i < 2; i++) first[i] = forward ? -a->pad[1 + i] : a->pad[1 + i] - (KERNEL - 1);
    tile_axes(j, &j->to, CR_TILE_IN, first);
    cut(w, &j->to);
    j->panels = cr_pieces(j->M, j->product->tile_rows);
    j->depth = cr_pieces(j->C, cr_pieces(j->C, j->product->depth));
    w->m_blocks = cr_imin(j->panels, cr_pieces(CHUNKS / 2, groups * w->blocks));
    w->block_panels = cr_pieces(j->panels, w->m_blocks);
    w->m_blocks = cr_pieces(j->panels, w->block_panels);
    const size_t bytes = (size_t)(groups * CR_TILE_POSITIONS * u_step(w) * j->size);
    if (!(w->u = cr_cpu_take(bytes))) return CR_NO_MEMORY;
    cr_run_chunks(groups * j->panels, transform_weights, w);
    cr_run_chunks(groups * w->blocks * w->m_blocks, run_block, w);
    cr_cpu_give(w->u, bytes);
    return atomic_load(&j->failed) ? no_memory() : CR_OK;
}

/* ---- WEIGHT */

static sizes weight_sizes(const winograd *w) {
    const cr_conv_job *j = w->x;
    const int64_t each = CR_TILE_POSITIONS * w->padded * j->size;
    sizes s = {.buffer = buffer_bytes(j, w->columns),
               .g_buffer = buffer_bytes(&w->g, j->M),
               .v = each * w->columns,
               .m = each * j->M,
               .packed = aligned(j->panels * j->product->panel_width * w->padded * j->size),
               .strip = aligned(j->product->tile_columns * w->padded * j->size),
               .at = aligned(w->padded * (int64_t)sizeof(int64_t))};
    s.all = s.buffer + s.g_buffer + s.v + s.m + s.packed + s.strip + s.at;
    return s;
}

/* v (positions, channels, tiles) of the channels c .. c + n - 1 */
static void transform_rows(const winograd *w, const cr_conv_job *j, float *v, float *buffer, int64_t group, int64_t c,
                           int64_t n, int64_t first, places *p) {
    const int64_t width = w->x->product->tile_columns;
    fill(w, j, buffer - c * j->channel, group, c, c + n, first, cr_imin(w->rows, w->all_rows - first), p);
    cr_tiles x = {.buffer = buffer, .channel = j->channel, .line = j->line, .phase = j->phase};
    for (int64_t s = 0; s * width < p->tiles; s++) {
        x.at = p->at + s * width;
        x.n = cr_imin(width, p->tiles - s * width);
        (j == w->x ? transforms()->input : transforms()->cotangent)(v + s * width, n * w->padded, w->padded, &x, n);
    }
}

/* One part of the blocks, some columns, of one group. */
static void weight_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const cr_product_kernels *product = j->product;
    const sizes size = weight_sizes(w);
    const int64_t part = chunk % w->parts, nb = chunk / w->parts % w->n_blocks, group = chunk / w->parts / w->n_blocks,
                  c = nb * w->columns, n = cr_imin(w->columns, j->C - c), width = product->tile_columns,
                  height = product->tile_rows, begin = part * w->blocks / w->parts,
                  end = (part + 1) * w->blocks / w->parts;
    char *scratch = cr_cpu_try_take((size_t)size.all);
    if (!scratch) { atomic_store(&w->x->failed, true); return; }
    float *v = (float *)(void *)scratch, *m = v + size.v / 4, *packed = m + size.m / 4,
          *strip = packed + size.packed / 4, *buffer = strip + size.strip / 4 + CR_CONV_SLACK,
          *g_buffer = buffer + size.buffer / 4;
    places p = {.at = (int64_t *)(void *)(scratch + size.all - size.at)};
    float *du = w->du + (group * w->parts + part) * CR_TILE_POSITIONS * j->M * j->C + c;
    const cr_ahead none[3] = {{0}};
    for (int64_t block = begin; block < end; block++) {
        transform_rows(w, j, v, buffer, group, c, n, block * w->rows, &p);
        transform_rows(w, &w->g, m, g_buffer, group, 0, j->M, block * w->rows, &p);
        for (int64_t i = 0; i < CR_TILE_POSITIONS; i++) {
            for (int64_t panel = 0; panel < j->panels; panel++)
                product->pack(packed + panel * p.tiles * product->panel_width, product->panel_width,
                              cr_imin(height, j->M - panel * height), p.tiles,
                              m + (i * j->M + panel * height) * w->padded, w->padded, 1);
            for (int64_t s = 0; s < n; s += width) {
                cr_product one = {.m = j->M,
                                  .n = cr_imin(width, n - s),
                                  .k = p.tiles,
                                  .a = packed,
                                  .b = strip,
                                  .c = du + i * j->M * j->C + s,
                                  .c_row = j->C,
                                  .accumulate = block > begin};
                product->pack(strip, width, one.n, p.tiles, v + (i * n + s) * w->padded, w->padded, 1);
                product->panels(&one, none);
            }
        }
    }
    cr_cpu_give(scratch, (size_t)size.all);
}

/* A row of dw of one group. */
static void transform_gradient(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const winograd *w = ctx;
    const cr_conv_job *j = w->x;
    const int64_t step = j->M * j->C, all = CR_TILE_POSITIONS * step, group = chunk / j->M, m = chunk % j->M;
    transforms()->gradient((float *)cr_array_data(&j->a->w) + chunk * j->C * TAPS,
                           w->du + group * w->parts * all + m * j->C, step, all, w->parts, j->C);
}

static cr_status run_weight(winograd *w) {
    cr_conv_job *j = w->x;
    const cr_conv_args *a = j->a;
    const int64_t groups = a->groups, all = groups * CR_TILE_POSITIONS * j->M * j->C * j->size;
    const int64_t first[2] = {-a->pad[1], -a->pad[2]}, none[2] = {0};
    tile_axes(j, &j->to, CR_TILE_IN, first);
    cut(w, &j->to);
    w->g = *j;
    w->g.from = a->y;
    w->g.C = j->M;
    tile_axes(&w->g, &a->y, CR_TILE, none);
    place(w, &w->g);
    j->panels = cr_pieces(j->M, j->product->tile_rows);
    w->n_blocks = cr_pieces(j->C, COLUMNS);
    w->columns = cr_imin(j->C, COLUMNS);
    w->parts = cr_iclamp(cr_pieces(CHUNKS, groups * w->n_blocks), 1,
                         cr_imin(w->blocks, cr_imax(1, PARTS_BYTES / all)));
    const size_t bytes = (size_t)(w->parts * all);
    if (!(w->du = cr_cpu_take(bytes))) return CR_NO_MEMORY;
    cr_run_chunks(groups * w->n_blocks * w->parts, weight_chunk, w);
    if (!atomic_load(&j->failed)) cr_run_chunks(groups * j->M, transform_gradient, w);
    cr_cpu_give(w->du, bytes);
    return atomic_load(&j->failed) ? no_memory() : CR_OK;
}

cr_status cr_conv_winograd(cr_conv_job *j) {
    winograd w = {.x = j};
    return j->a->kind == CR_CONV_WEIGHT ? run_weight(&w) : run_outputs(&w);
}
