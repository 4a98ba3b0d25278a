/* conv.c - convolutions on all threads, as implicit products.
 *
 * A chunk copies the part of the source that it needs into a buffer (conv.h): converted to f32 or f64, with the zeros
 * of the padding, and with the columns of one remainder modulo the stride side by side.  The elements under one tap of
 * neighbouring outputs are then neighbours, whatever the strides, and strips of the product's second operand are packed
 * from them: no matrix of all taps and positions exists.
 *   FORWARD   y (M, positions) = w (M, C taps) x (C taps, positions), the bias as one more tap
 *   INPUT     the same with y as the source: one such pass for each remainder of x's positions modulo the stride
 *   WEIGHT    w (M, C taps) = y (M, positions) x (positions, C taps), in parts of the positions, added in order
 * Results of few channels are sums over taps without packing.  Cuts depend on the shape only. */
#include "conv_job.h"

#include <math.h>
#include <string.h>

#include "../../core/pool.h"

enum { BUFFER_BYTES = 192 << 10,                    /* of a chunk's buffer: part of L2 */
       CHUNKS = 16,                                 /* wanted, where the shape has enough work */
       LEAST_POSITIONS = 512,                       /* of a chunk that is not all */
       POSITIONS = 64,                              /* of a block: fewer of one image are joined by those of the next */
       FEW = 3, LONG_FEW = 64,                      /* results of a group that need no packing; if rows are long */
       SLACK = CR_CONV_SLACK,
       PARTS_BYTES = 32 << 20,                      /* of the partial sums of WEIGHT */
       SUMS_BYTES = 256 << 10 };                    /* of those that many small planes add to: part of L2 */
static const double grain = 1 << 19;                /* flops of a chunk */

typedef cr_conv_axis axis;
typedef cr_conv_job job;

/* ---- axes */

static axis forward_axis(const cr_conv_args *a, int i) {
    return (axis){.in = a->x.shape[2 + i],
                  .out = a->y.shape[2 + i],
                  .stride = a->stride[i],
                  .taps = a->w.shape[2 + i],
                  .first = -a->pad[i],
                  .step = a->dilation[i],
                  .tap_step = 1,
                  .to_step = 1};
}

/* x[r + stride p]: the taps that meet it are those with t dilation = r + pad modulo the stride */
static axis input_axis(const cr_conv_args *a, int i, int64_t r) {
    const int64_t s = a->stride[i], d = a->dilation[i], kernel = a->w.shape[2 + i];
    axis x = {.in = a->y.shape[2 + i], .stride = 1, .to = r, .to_step = s};
    x.out = cr_imax(0, (a->x.shape[2 + i] - r + s - 1) / s);
    int64_t t = 0, gap = 1;
    while (t < kernel && t < s && (r + a->pad[i] - t * d) % s) t++;
    while (gap * d % s) gap++;
    if (t >= kernel || (r + a->pad[i] - t * d) % s) return x;
    x.taps = (kernel - 1 - t) / gap + 1;
    x.first = (r + a->pad[i] - t * d) / s;
    x.step = -(gap * d / s);
    x.tap = t;
    x.tap_step = gap;
    return x;
}

int64_t cr_conv_low(const axis *x) { return cr_imin(x->first, x->first + (x->taps - 1) * x->step); }
static int64_t high(const axis *x) { return cr_imax(x->first, x->first + (x->taps - 1) * x->step); }
int64_t cr_conv_span(const axis *x, int64_t outs) { return (outs - 1) * x->stride + high(x) - cr_conv_low(x) + 1; }

/* ---- the buffer */

void cr_conv_place_buffer(job *j, int64_t rows) {
    const axis *d = j->axis, *h = d + 1, *w = d + 2;
    j->rows = rows;
    j->row_blocks = cr_pieces(h->out, rows);
    j->phase = cr_pieces(cr_conv_span(w, w->out), w->stride);
    j->line = j->phase * w->stride;
    j->plane = j->line * cr_conv_span(h, rows);
    j->channel = j->plane * d->taps;
}

/* Chooses the rows of a block: few enough for the caches and for all threads.  others: items for each block of rows */
static void cut_rows(job *j, int64_t others) {
    int64_t rows = j->axis[1].out;
    cr_conv_place_buffer(j, rows);
    while (rows > 1 && (j->C * j->channel * j->size > BUFFER_BYTES ||
                        (others * j->row_blocks < CHUNKS && rows * j->axis[2].out > LEAST_POSITIONS))) {
        rows = (rows + 1) / 2;
        cr_conv_place_buffer(j, rows);
    }
}

/* The offsets of the taps in the buffer, and in a kernel of the weights. */
static void fill_offsets(job *j) {
    const axis *d = j->axis, *h = d + 1, *w = d + 2;
    const int64_t *kernel = j->a->w.shape + 2;
    int64_t *to = j->offset, *tap = j->tap;
    for (int64_t i = 0; i < d->taps; i++)
        for (int64_t k = 0; k < h->taps; k++)
            for (int64_t l = 0; l < w->taps; l++)
                *tap++ = ((d->tap + i * d->tap_step) * kernel[1] + h->tap + k * h->tap_step) * kernel[2] + w->tap +
                         l * w->tap_step;
    for (int64_t c = 0; c < j->C; c++)
        for (int64_t i = 0; i < d->taps; i++)
            for (int64_t k = 0; k < h->taps; k++)
                for (int64_t l = 0; l < w->taps; l++) {
                    const int64_t column = w->first + l * w->step - cr_conv_low(w);
                    *to++ = c * j->channel + i * j->plane + (h->first + k * h->step - cr_conv_low(h)) * j->line +
                            column % w->stride * j->phase + column / w->stride;
                }
}

/* n numbers, steps in numbers */
static void copy_apart(int64_t size, char *to, int64_t to_step, const char *from, int64_t step, int64_t n) {
    if (size == 4) for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i * to_step, from + 4 * i * step, 4);
    else for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i * to_step, from + 8 * i * step, 8);
}

static void load(const job *j, char *to, const char *from, int64_t stride, int64_t n) {
    if (cr_dtype_is_half(j->dtype)) cr_block_load(j->lane, to, j->dtype, from, stride, n);
    else if (stride == 1) memcpy(to, from, (size_t)(n * j->size));
    else if (stride == 2) j->kernels->every_second(to, from, n);
    else copy_apart(j->size, to, 1, from, stride, n);
    if (j->round) cr_cpu_vec()->casts->round_to_bf16((float *)(void *)to, (const float *)(void *)to, n);
}

static void store(const job *j, const char *from, char *to, int64_t stride, int64_t n) {
    if (cr_dtype_is_half(j->dtype)) cr_block_store(j->lane, from, j->dtype, to, stride, n);
    else copy_apart(j->size, to, stride, from, 1, n);
}

/* A frame is a few numbers: less than a call costs. */
static void zero(const job *j, char *to, int64_t n) {
    enum { FEW_BYTES = 64, WORD = 4 };
    const int64_t bytes = n * j->size;
    if (bytes > FEW_BYTES) memset(to, 0, (size_t)bytes);
    else for (int64_t i = 0; i < bytes; i += WORD) memset(to + i, 0, WORD);
}

/* The columns of one remainder of a line: zeros, those from element `at` of the source on, zeros. */
typedef struct part_of_line { int64_t at, first, end; } part_of_line;

static part_of_line columns_of(const job *j, int64_t remainder) {
    const axis *w = &j->axis[2];
    const int64_t at = cr_conv_low(w) + remainder, left = w->in - at, s = w->stride;
    part_of_line c = {.at = at, .first = cr_imin(j->phase, at < 0 ? (-at + s - 1) / s : 0)};
    c.end = cr_iclamp(left > 0 ? (left + s - 1) / s : 0, c.first, j->phase);
    c.at += c.first * s;
    return c;
}

static void fill_columns(const job *j, char *to, const char *from, const part_of_line *c) {
    const int64_t stride = j->from.strides[4], bytes = (int64_t)cr_dtype_size(j->dtype);
    zero(j, to, c->first);
    if (c->end > c->first)
        load(j, to + c->first * j->size, from + c->at * stride * bytes, j->axis[2].stride * stride, c->end - c->first);
    zero(j, to + c->end * j->size, j->phase - c->end);
}

/* Lines first .. first + n - 1 of a plane of the source, NULL: outside of it. */
static void fill_lines(const job *j, char *to, const char *plane, int64_t first, int64_t n) {
    const axis *h = j->axis + 1, *w = j->axis + 2;
    const int64_t *strides = j->from.strides, bytes = (int64_t)cr_dtype_size(j->dtype),
                  begin = plane ? cr_iclamp(-first, 0, n) : n, end = cr_iclamp(h->in - first, begin, n);
    zero(j, to, begin * j->line);
    zero(j, to + end * j->line * j->size, (n - end) * j->line);
    if (w->stride == 1 && !cr_conv_low(w) && j->line == w->in && strides[4] == 1 && strides[3] == j->line) {
        if (end > begin)                            /* all of them follow one another */
            load(j, to + begin * j->line * j->size, plane + (first + begin) * strides[3] * bytes, 1,
                 (end - begin) * j->line);
        return;
    }
    for (int64_t f = 0; f < w->stride; f++) {
        const part_of_line c = columns_of(j, f);
        for (int64_t i = begin; i < end; i++)
            fill_columns(j, to + (i * j->line + f * j->phase) * j->size, plane + (first + i) * strides[3] * bytes, &c);
    }
}

void cr_conv_fill_buffer(const job *j, char *to, int64_t b, int64_t group, int64_t c, int64_t c_end, int64_t depth,
                        int64_t first, int64_t rows) {
    const axis *d = j->axis, *h = d + 1;
    const int64_t lines = cr_conv_span(h, rows), *strides = j->from.strides, bytes = (int64_t)cr_dtype_size(j->dtype);
    for (; c < c_end; c++)
        for (int64_t i = 0; i < d->taps; i++) {
            const int64_t z = depth * d->stride + d->first + i * d->step;
            const char *plane = (const char *)cr_array_data(&j->from) +
                                (b * strides[0] + (group * j->C + c) * strides[1] + z * strides[2]) * bytes;
            fill_lines(j, to + (c * j->channel + i * j->plane) * j->size, z >= 0 && z < d->in ? plane : NULL,
                       first * h->stride + cr_conv_low(h), lines);
        }
}

/* ---- weights: packed once for all chunks */

static bool has_bias(const job *j) { return cr_present(&j->a->bias) != NULL; }
static int64_t all_taps(const job *j) { return j->K + has_bias(j); }
static int64_t plain_bytes(const job *j) { return j->M * all_taps(j) * j->size; }
static int64_t panel_numbers(const job *j) { return j->product->panel_width; }
static int64_t packed_bytes(const job *j) { return j->panels * panel_numbers(j) * all_taps(j) * j->size; }
static bool is_small(const job *j) { return j->M <= FEW; }

/* The taps of one kernel as numbers of the buffer's type. */
static void load_taps(const job *j, char *to, const char *from, int64_t bytes) {
    const int64_t n = j->taps, *tap = j->tap;
    if (tap[n - 1] - tap[0] == n - 1) load(j, to, from + tap[0] * bytes, 1, n);
    else for (int64_t i = 0; i < n; i++) load(j, to + i * j->size, from + tap[i] * bytes, 1, 1);
}

static void copy_taps(const job *j, float *to, const float *from) {
    for (int64_t i = 0; i < j->taps; i++) to[i] = from[j->tap[i]];
}

/* Rows first .. first + n - 1 of a group's weights (M, K + bias) as numbers of the buffer's type: channel by channel,
 * because in INPUT the kernels of one channel are neighbours. */
static void plain_rows(const job *j, char *to, int64_t group, int64_t first, int64_t n) {
    const cr_array *w = &j->a->w, *bias = &j->a->bias;
    const int64_t bytes = (int64_t)cr_dtype_size(j->dtype), all = all_taps(j), taps = j->taps;
    const bool forward = j->a->kind == CR_CONV_FORWARD, few = j->dtype == CR_F32 && !j->round && taps < 16;
    for (int64_t c = 0; c < j->C && taps; c++)
        for (int64_t m = 0; m < n; m++) {
            const int64_t o = forward ? group * j->M + first + m : group * j->C + c, i = forward ? c : first + m;
            const char *from = (const char *)cr_array_data(w) + (o * w->strides[0] + i * w->strides[1]) * bytes;
            char *row = to + (m * all + c * taps) * j->size;
            if (few) copy_taps(j, (float *)(void *)row, (const float *)(const void *)from);
            else load_taps(j, row, from, bytes);
        }
    for (int64_t m = 0; m < n && has_bias(j); m++)
        cr_block_load(j->lane, to + (m * all + j->K) * j->size, j->dtype,
                      (const char *)cr_array_data(bias) + (group * j->M + first + m) * bytes, 1, 1);
}

/* A panel of one group. */
static void pack_weights(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    const int64_t group = chunk / j->panels, panel = chunk % j->panels, height = j->product->tile_rows,
                  all = all_taps(j), first = panel * height, rows = cr_imin(height, j->M - first),
                  width = panel_numbers(j);
    char *plain = j->plain + group * plain_bytes(j) + first * all * j->size;
    plain_rows(j, plain, group, first, rows);
    if (j->unpacked) return;
    for (int64_t p = 0, k; p < all; p += k) {
        k = cr_imin(j->depth, all - p);
        j->product->pack(j->packed + group * packed_bytes(j) + (p * j->panels + panel * k) * width * j->size, width,
                         rows, k, plain + p * j->size, all, 1);
    }
}

/* ---- FORWARD and INPUT: one block of rows of one group, or all rows of some images */

typedef struct block {
    int64_t b, images, group, depth, row, rows, panel, panels, positions;
    cr_conv_rows layout;
    int64_t lines;                                  /* rows of the layout: one where rows follow one another */
} block;

static block block_at(const job *j, int64_t item) {
    block t = {.layout = {j->axis[2].out, j->axis[1].stride * j->line, 0, j->C * j->channel}};
    t.panel = item % j->m_blocks * j->block_panels;
    t.panels = cr_imin(j->block_panels, j->panels - t.panel);
    item /= j->m_blocks;
    t.row = item % j->row_blocks * j->rows;
    t.rows = cr_imin(j->rows, j->axis[1].out - t.row);
    item /= j->row_blocks;
    t.depth = item % j->axis[0].out;
    item /= j->axis[0].out;
    t.group = item % j->a->groups;
    t.b = item / j->a->groups * j->images;
    t.images = cr_iclamp(j->to.shape[0] - t.b, 0, j->images);
    const bool gapless = t.layout.step == t.layout.columns;
    t.layout.per = gapless ? 1 : t.rows;
    if (gapless) t.layout.columns *= t.rows;
    t.lines = t.layout.per;
    t.positions = t.images * t.rows * j->axis[2].out;
    return t;
}

static bool in_place(const job *j) {
    return !cr_dtype_is_half(j->dtype) && j->axis[1].to_step == 1 && j->axis[2].to_step == 1;
}

/* The result of channel m of an image at a row of outputs. */
static char *result_at(const job *j, const block *t, int64_t image, int64_t m, int64_t row) {
    const int64_t *s = j->to.strides;
    const axis *d = j->axis, *h = d + 1;
    return (char *)cr_array_data(&j->to) +
           ((t->b + image) * s[0] + (t->group * j->M + m) * s[1] + (d->to + t->depth * d->to_step) * s[2] +
            (h->to + row * h->to_step) * s[3] + j->axis[2].to * s[4]) *
               (int64_t)cr_dtype_size(j->dtype);
}

static void multiply(const job *j, const block *t, const char *buffer, char *strip, char *c, int64_t c_row) {
    const int64_t width = j->product->tile_columns, all = all_taps(j), panel = panel_numbers(j);
    const char *weights = j->packed + t->group * packed_bytes(j);
    const cr_ahead none[3] = {{0}};
    cr_product w = {.m = cr_imin(t->panels * j->product->tile_rows, j->M - t->panel * j->product->tile_rows),
                    .b = strip,
                    .c_row = c_row};
    for (int64_t p = 0; p < all; p += w.k) {
        w.k = cr_imin(j->depth, all - p);
        w.a = weights + (p * j->panels + t->panel * w.k) * panel * j->size;
        w.accumulate = p > 0;
        for (int64_t n = 0; n < t->positions; n += width) {
            const bool last = has_bias(j) && p + w.k == all;
            w.n = cr_imin(width, t->positions - n);
            w.c = c + n * j->size;
            j->kernels->pack(strip, buffer, j->offset + p, w.k - last, &t->layout, n, w.n, last);
            j->product->panels(&w, none);
        }
    }
}

static void sum_taps(const job *j, const block *t, const char *buffer, char *c, int64_t c_row) {
    j->kernels->rows(c, c_row, j->M, buffer, j->offset, j->plain + t->group * plain_bytes(j), all_taps(j), j->K,
                     &t->layout, t->lines, has_bias(j));
}

static int64_t buffer_bytes(const job *j) { return (j->images * j->C * j->channel + 2 * SLACK) * j->size + 64; }
static int64_t strip_bytes(const job *j) { return j->product->tile_columns * (j->depth + 1) * j->size; }
static int64_t wide_bytes(const job *j) {
    return in_place(j) && j->images == 1 ? 0 : j->M * j->images * j->rows * j->axis[2].out * j->size;
}

static void run_block(const job *j, const block *t, char *scratch) {
    char *strip = scratch, *buffer = strip + strip_bytes(j) + SLACK * j->size,
         *wide = buffer + buffer_bytes(j) - SLACK * j->size;
    const int64_t first = t->panel * j->product->tile_rows,
                  end = j->unpacked ? j->M : cr_imin(j->M, first + t->panels * j->product->tile_rows);
    const bool direct = in_place(j) && j->images == 1;
    char *c = direct ? result_at(j, t, 0, first, t->row) : wide;
    const int64_t c_row = direct ? j->to.strides[1] : t->positions;
    if (!j->K) {
        for (int64_t m = first; m < end; m++)
            memset(c + (m - first) * c_row * j->size, 0, (size_t)(t->positions * j->size));
    } else {
        for (int64_t i = 0; i < t->images; i++)
            cr_conv_fill_buffer(j, buffer + i * t->layout.skip * j->size, t->b + i, t->group, 0, j->C, t->depth, t->row,
                                t->rows);
        if (j->unpacked) sum_taps(j, t, buffer, c, c_row);
        else multiply(j, t, buffer, strip, c, c_row);
    }
    if (direct) return;
    const int64_t columns = j->axis[2].out, step = j->axis[2].to_step * j->to.strides[4],
                  down = j->axis[1].to_step * j->to.strides[3] * (int64_t)cr_dtype_size(j->dtype);
    const bool weave = !cr_dtype_is_half(j->dtype) && j->axis[2].to_step == 2;
    const char *from = wide;
    for (int64_t m = first; m < end; m++)
        for (int64_t i = 0; i < t->images; i++) {
            char *to = result_at(j, t, i, m, t->row);
            for (int64_t r = 0; r < t->rows; r++, from += columns * j->size, to += down)
                if (weave) j->kernels->into_every_second(to, from, columns);
                else store(j, from, to, step, columns);
        }
}

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const size_t bytes = (size_t)(strip_bytes(j) + buffer_bytes(j) + SLACK * j->size + wide_bytes(j));
    char *scratch = cr_cpu_try_take(bytes);
    if (!scratch) { atomic_store(&j->failed, true); return; }
    for (int64_t i = chunk * j->group; i < cr_imin(j->items, (chunk + 1) * j->group); i++) {
        const block t = block_at(j, i);
        run_block(j, &t, scratch);
    }
    cr_cpu_give(scratch, bytes);
}

/* ---- plans */

static void open_kernels(job *j) {
    const struct cr_isa_kernels *isa = cr_cpu_vec();
    const bool wide = j->dtype == CR_F64;
    j->product = wide ? &isa->products->f64 : &isa->products->f32;
    j->kernels = wide ? &isa->conv->f64 : &isa->conv->f32;
    j->lane = wide ? CR_LANE_F64 : CR_LANE_F32;
    j->size = wide ? 8 : 4;
}

static void plan_taps(job *j) {
    j->taps = j->axis[0].taps * j->axis[1].taps * j->axis[2].taps;
    j->K = j->C * j->taps;
    j->panels = cr_pieces(j->M, j->product->tile_rows);
    j->depth = cr_pieces(cr_imax(1, all_taps(j)), cr_pieces(all_taps(j), j->product->depth));
}

/* Runs fn over the chunks with the offsets and, if weights are wanted, those packed. */
static cr_status run_pass(job *j, int64_t chunks, bool weights, void (*fn)(void *, int64_t, int)) {
    const int64_t groups = j->a->groups;
    const size_t offsets = (size_t)(j->K + j->taps + 1) * sizeof *j->offset;
    size_t plain = (size_t)(groups * plain_bytes(j)) + 64,
           packed = j->unpacked ? 64 : (size_t)(groups * packed_bytes(j)) + 64;
    j->offset = cr_cpu_take(offsets);
    j->plain = weights && j->offset ? cr_cpu_take_room(&plain) : NULL;
    j->packed = weights && j->plain ? cr_cpu_take_room(&packed) : NULL;
    cr_status status = j->offset && (!weights || j->packed) ? CR_OK : CR_NO_MEMORY;
    if (status == CR_OK) {
        j->tap = j->offset + j->K;
        fill_offsets(j);
        if (weights && j->K) cr_run_chunks(groups * j->panels, pack_weights, j);
        cr_run_chunks(chunks, fn, j);
        if (atomic_load(&j->failed)) status = cr_no_memory("conv");
    }
    cr_cpu_give(j->packed, packed);
    cr_cpu_give(j->plain, plain);
    cr_cpu_give(j->offset, offsets);
    return status;
}

/* Small images share a block, so that strips are full and weights are read less often. */
static int64_t images_of(const job *j) {
    const int64_t positions = j->rows * j->axis[2].out, bytes = cr_imax(1, j->C * j->channel * j->size);
    if (j->unpacked || j->row_blocks > 1 || positions >= POSITIONS) return 1;
    return cr_iclamp(cr_imin(j->to.shape[0], cr_pieces(POSITIONS, positions)), 1, cr_imax(1, 2 * BUFFER_BYTES / bytes));
}

/* Is it quicker to read the elements under taps where they are than to pack them?  Few channels use a strip little;
 * rows should fill whole vectors, but for an eighth. */
static bool reads_in_place(const job *j) {
    const int64_t lanes = j->product->tile_columns / 2, columns = j->axis[2].out;
    return is_small(j) || (j->M <= LONG_FEW && 8 * columns >= 7 * lanes * cr_pieces(columns, lanes));
}

static cr_status run_outputs(job *j) {
    const int64_t planes = j->to.shape[0] * j->a->groups * j->axis[0].out;
    if (!planes || !j->axis[1].out || !j->axis[2].out) return CR_OK;
    plan_taps(j);
    j->unpacked = reads_in_place(j);
    cut_rows(j, planes);
    j->images = images_of(j);
    const int64_t blocks = cr_pieces(j->to.shape[0], j->images) * j->a->groups * j->axis[0].out * j->row_blocks;
    j->m_blocks = j->unpacked ? 1 : cr_imin(j->panels, cr_pieces(CHUNKS / 2, blocks));
    j->block_panels = cr_pieces(j->panels, j->m_blocks);
    j->m_blocks = cr_pieces(j->panels, j->block_panels);
    j->items = blocks * j->m_blocks;
    const double flops = 2.0 * (double)j->M * (double)all_taps(j) * (double)(j->images * j->rows * j->axis[2].out);
    j->group = flops >= grain ? 1 : (int64_t)(grain / (flops + 1)) + 1;
    return run_pass(j, cr_pieces(j->items, j->group), true, run_chunk);
}

static cr_status run_forward(job *j) {
    for (int i = 0; i < 3; i++) j->axis[i] = forward_axis(j->a, i);
    return run_outputs(j);
}

static cr_status run_input(job *j) {
    const int64_t *s = j->a->stride;
    cr_status status = CR_OK;
    for (int64_t phase = 0; phase < s[0] * s[1] * s[2] && status == CR_OK; phase++) {
        const int64_t r[3] = {phase / s[2] / s[1], phase / s[2] % s[1], phase % s[2]};
        for (int i = 0; i < 3; i++) j->axis[i] = input_axis(j->a, i, r[i]);
        status = run_outputs(j);
    }
    return status;
}

/* ---- WEIGHT */

typedef struct weight_scratch { char *buffer, *g, *strip; } weight_scratch;

static int64_t padded_channels(const job *j) {
    const int64_t width = j->product->tile_columns;
    return is_small(j) ? j->M : (j->M + width - 1) / width * width;
}
/* As many as hold a strip that stays in L1. */
static int64_t few_lines(const job *j, int64_t columns) { return cr_imax(1, j->product->depth / columns); }

/* g (M, positions) of a block as numbers: in place where they are contiguous, else copied to `wide`. */
static const char *cotangents(const job *j, const block *t, char *wide, int64_t *row) {
    const cr_array *y = &j->to;
    const int64_t *s = y->strides, bytes = (int64_t)cr_dtype_size(j->dtype), columns = j->axis[2].out;
    const char *from = (const char *)cr_array_data(y) +
                       (t->b * s[0] + t->group * j->M * s[1] + t->depth * s[2] + t->row * s[3]) * bytes;
    *row = s[1];
    if (!cr_dtype_is_half(j->dtype) && !j->round && (s[4] == 1 || columns == 1) && (s[3] == columns || t->rows == 1))
        return from;
    *row = t->positions;
    for (int64_t m = 0; m < j->M; m++)
        for (int64_t r = 0; r < t->rows; r++)
            load(j, wide + (m * t->positions + r * columns) * j->size, from + (m * s[1] + r * s[3]) * bytes, s[4],
                 columns);
    return wide;
}

/* Adds the taps first .. end - 1 of dw (K, M in whole strips): g (M, positions) is packed by strips of channels, a few
 * rows at a time. */
static void multiply_weights(const job *j, const block *t, const weight_scratch *s, const char *g, int64_t g_row,
                             char *dw, int64_t first, int64_t end) {
    const int64_t width = j->product->tile_columns, columns = t->layout.columns, few = few_lines(j, columns),
                  all = padded_channels(j);
    for (int64_t line = 0, lines; line < t->lines; line += lines) {
        lines = cr_imin(few, t->lines - line);
        for (int64_t m = 0; m < j->M; m += width) {
            j->product->pack(s->strip, width, cr_imin(width, j->M - m), lines * columns,
                             g + (m * g_row + line * columns) * j->size, g_row, 1);
            j->kernels->weights(dw + (first * all + m) * j->size, all, s->strip,
                                s->buffer + line * t->layout.step * j->size, j->offset + first, end - first, &t->layout,
                                lines);
        }
    }
}

/* Adds unit u of a group to the taps first .. end - 1. */
static void add_unit(const job *j, const weight_scratch *s, char *dw, int64_t u, int64_t group, int64_t first,
                     int64_t end) {
    block t = block_at(j, u);
    t.depth = u / j->row_blocks % j->axis[0].out;
    t.b = u / j->row_blocks / j->axis[0].out;
    t.group = group;
    int64_t g_row;
    const char *g = cotangents(j, &t, s->g, &g_row);
    cr_conv_fill_buffer(j, s->buffer, t.b, group, first / j->taps, (end - 1) / j->taps + 1, t.depth, t.row, t.rows);
    if (!is_small(j)) { multiply_weights(j, &t, s, g, g_row, dw, first, end); return; }
    for (int64_t m = 0; m < j->M; m++)
        j->kernels->row_weights(dw + (m * j->K + first) * j->size, g + m * g_row * j->size, s->buffer,
                                j->offset + first, end - first, &t.layout, t.lines);
}

/* Taps at a time: whole channels whose sums stay in the cache while unit after unit adds to them. */
static int64_t taps_at_once(const job *j) {
    const int64_t channels = SUMS_BYTES / (j->taps * padded_channels(j) * j->size);
    return cr_imax(channels, 4) * j->taps;
}

/* Units `part` of all, the columns of one block, of one group. */
static void weight_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t width = j->product->tile_columns, nb = chunk % j->n_blocks,
                  group = chunk / j->n_blocks % j->a->groups, part = chunk / j->n_blocks / j->a->groups,
                  first = nb * j->block_strips * width,
                  end = cr_imin(j->K, first + j->block_strips * width);
    const int64_t longest = j->rows * j->axis[2].out, all = padded_channels(j), step = taps_at_once(j),
                  sizes[3] = {buffer_bytes(j), (j->M * longest * j->size + 63) / 64 * 64, width * longest * j->size};
    const size_t bytes = (size_t)(sizes[0] + sizes[1] + sizes[2]);
    char *scratch = cr_cpu_try_take(bytes);
    if (!scratch) { atomic_store(&j->failed, true); return; }
    const weight_scratch s = {
        .strip = scratch, .g = scratch + sizes[2], .buffer = scratch + sizes[2] + sizes[1] + SLACK * j->size};
    char *dw = j->partial + (part * j->a->groups + group) * all * j->K * j->size;
    if (!is_small(j)) memset(dw + first * all * j->size, 0, (size_t)((end - first) * all * j->size));
    else for (int64_t m = 0; m < j->M; m++)
            memset(dw + (m * j->K + first) * j->size, 0, (size_t)((end - first) * j->size));
    for (int64_t k = first, next; k < end; k = next) {
        next = cr_imin(end, (k / step + 1) * step);
        for (int64_t u = part * j->units / j->parts; u < (part + 1) * j->units / j->parts; u++)
            add_unit(j, &s, dw, u, group, k, next);
    }
    cr_cpu_give(scratch, bytes);
}

enum { ADDED = 64 };                                /* rows of a chunk */
#define ADD_MORE(name, T)                                                                                          \
    static void name(void *sum, const void *more, int64_t n) {                                                     \
        for (int64_t i = 0; i < n; i++) ((T *)sum)[i] += ((const T *)more)[i];                                     \
    }
ADD_MORE(add_f32, float)
ADD_MORE(add_f64, double)
#undef ADD_MORE

enum { TRANSPOSED = 16 };                           /* rows at a time: a line of f32 */
/* to (M, K), of which `rows` columns are written, from (rows, M in whole strips) */
static void transpose(const job *j, char *to, const char *from, int64_t rows) {
    const struct cr_casts *casts = cr_cpu_vec()->casts;
    const int64_t M = padded_channels(j), bytes = (int64_t)cr_dtype_size(j->dtype);
    int64_t m = 0;
    for (; j->dtype == CR_F32 && rows == TRANSPOSED && m + casts->tile <= j->M; m += casts->tile)
        for (int64_t k = 0; k < rows; k += casts->tile)
            casts->transpose((uint32_t *)(void *)to + m * j->K + k, (const uint32_t *)(const void *)from + k * M + m,
                             j->K, M, false);
    for (int64_t k = 0; k < rows && m < j->M; k++)
        store(j, from + (k * M + m) * j->size, to + (m * j->K + k) * bytes, j->K, j->M - m);
}

/* w = the sum of the parts, in order: of a group (M, K) or, packed, (K, M) in whole strips */
static void add_parts(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    const bool small = is_small(j);
    const int64_t K = small ? j->M : j->K, M = small ? j->K : padded_channels(j), all = j->a->groups * K * M,
                  first = chunk * ADDED, n = cr_imin(ADDED, j->a->groups * K - first),
                  bytes = (int64_t)cr_dtype_size(j->dtype);
    char *sum = j->partial + first * M * j->size, *to = cr_array_data(&j->a->w);
    for (int64_t p = 1; p < j->parts; p++) (j->size == 8 ? add_f64 : add_f32)(sum, sum + p * all * j->size, n * M);
    if (small) { cr_block_store(j->lane, sum, j->dtype, to + first * M * bytes, 1, n * M); return; }
    for (int64_t i = 0, tile; i < n; i += tile) {
        const int64_t group = (first + i) / K, k = (first + i) % K;
        tile = cr_imin(cr_imin(TRANSPOSED, n - i), K - k);
        transpose(j, to + (group * j->M * K + k) * bytes, sum + i * M * j->size, tile);
    }
}

/* Parts of the positions; taps are cut for the rest of the threads.  Each part writes and reads its sums about three
 * times, each cut of the taps reads the cotangents again: the number for which both together are least. */
static int64_t parts_of(const job *j, int64_t sums) {
    const int64_t most = cr_pieces(CHUNKS, j->a->groups);
    const double read = (double)most * (double)j->to.numel, ratio = read / (3 * (double)sums);
    return cr_imin(most, (int64_t)(sqrt(ratio) + 0.5));
}

static cr_status run_weight(job *j) {
    for (int i = 0; i < 3; i++) j->axis[i] = forward_axis(j->a, i);
    plan_taps(j);
    const int64_t planes = j->from.shape[0] * j->axis[0].out, groups = j->a->groups,
                  all = groups * padded_channels(j) * j->K;
    cut_rows(j, planes * groups);
    j->m_blocks = j->images = 1;
    j->units = planes * j->row_blocks;
    j->parts = cr_iclamp(parts_of(j, all), 1, cr_imin(j->units, cr_imax(2, PARTS_BYTES / (all * j->size))));
    j->strips = cr_pieces(j->K, j->product->tile_columns);
    j->n_blocks = cr_imin(j->strips, cr_pieces(CHUNKS / 2, j->parts * groups));
    j->block_strips = cr_pieces(j->strips, j->n_blocks);
    j->n_blocks = cr_pieces(j->strips, j->block_strips);
    size_t bytes = (size_t)(j->parts * all * j->size) + 64;
    if (!(j->partial = cr_cpu_take_room(&bytes))) return CR_NO_MEMORY;
    const cr_status status = run_pass(j, j->parts * groups * j->n_blocks, false, weight_chunk);
    if (status == CR_OK) cr_run_chunks(cr_pieces(groups * (is_small(j) ? j->M : j->K), ADDED), add_parts, j);
    cr_cpu_give(j->partial, bytes);
    return status;
}

/* ---- one tap, stride 1, no padding: products of matrices as they lie */

/* Do the spatial axes of x, whose strides are s, step through memory evenly? */
static bool is_even(const cr_array *x) {
    const int64_t *n = x->shape + 2, *s = x->strides + 2;
    const bool planes = n[0] == 1 || s[0] == n[1] * s[1] || (n[1] == 1 && s[0] == n[2] * s[2]);
    return planes && (n[1] == 1 || s[1] == n[2] * s[2]);
}

static bool is_product(const job *j) {
    const cr_conv_args *a = j->a;
    bool one = a->kind != CR_CONV_WEIGHT && !is_small(j) && is_even(&j->from) &&
               !(cr_present(&a->bias) && cr_dtype_is_half(j->dtype));
    for (int i = 0; i < 3; i++)
        one &= a->w.shape[2 + i] == 1 && a->stride[i] == 1 && a->pad[i] == 0 && a->x.shape[2 + i] == a->y.shape[2 + i];
    return one;
}

/* result (B, groups, M, positions) = weights (groups, M, C) source (B, groups, C, positions) [+ bias] */
static cr_status run_product(job *j) {
    const cr_conv_args *a = j->a;
    const int64_t B = j->from.shape[0], groups = a->groups, *s = j->from.strides,
                  P = j->from.shape[2] * j->from.shape[3] * j->from.shape[4],
                  shape[3][4] = {{B, groups, j->M, P}, {B, groups, j->M, j->C}, {B, groups, j->C, P}},
                  step = j->from.shape[4] > 1 ? s[4] : j->from.shape[3] > 1 ? s[3] : s[2];
    const bool forward = a->kind == CR_CONV_FORWARD;
    const int64_t weights[4] = {0, j->M * j->C, forward ? j->C : 1, forward ? 1 : j->M},
                  source[4] = {s[0], j->C * s[1], s[1], step};
    cr_matmul_args args = {.c = cr_array_as(&j->to, 4, shape[0]),
                           .a = cr_array_strided(&a->w, 4, shape[1], weights, a->w.offset),
                           .b = cr_array_strided(&j->from, 4, shape[2], source, j->from.offset),
                           .how = a->how};
    if (cr_present(&a->bias)) {
        const int64_t each[4] = {0, j->M, 1, 0};
        const cr_array bias = cr_array_strided(&a->bias, 4, shape[0], each, a->bias.offset);
        const cr_status status = cr_cpu_copy(&(cr_copy_args){args.c, bias});
        if (status != CR_OK) return status;
        args.how |= CR_MATMUL_ADD;
    }
    return cr_cpu_matmul(&args);
}

static bool is_finite(const cr_array *x) {
    float most = 0;
    cr_storage s = {.data = &most, .bytes = sizeof most, .dev = x->dev};
    const cr_reduce_args args = {.y = cr_array_of(&s, x->dev, CR_F32, CR_LIST(1, 1)),
                                 .x = cr_array_as(x, CR_LIST(1, x->numel, 1)),
                                 .how = {.kind = CR_REDUCE_MAX, .map = CR_MAP_ABS}};
    return cr_cpu_reduce(&args) == CR_OK && isfinite(most);
}

cr_status cr_cpu_conv(const cr_conv_args *a) {
    static cr_status (*const runs[])(job *) = {
        [CR_CONV_FORWARD] = run_forward, [CR_CONV_INPUT] = run_input, [CR_CONV_WEIGHT] = run_weight};
    const bool back = a->kind == CR_CONV_INPUT;
    const int64_t outs = a->w.shape[0] / a->groups, ins = a->w.shape[1];
    job j = {.a = a,
             .from = back ? a->y : a->x,
             .to = back ? a->x : a->y,
             .dtype = a->w.dtype,
             .round = a->how & CR_MATMUL_BF16 && a->w.dtype == CR_F32,
             .C = back ? outs : ins,
             .M = back ? ins : outs};
    open_kernels(&j);
    if (is_product(&j)) return run_product(&j);
    if (!cr_conv_winograd_takes(&j)) return runs[a->kind](&j);
    job direct = j;
    const cr_status status = cr_conv_winograd(&j);
    const cr_array *written = a->kind == CR_CONV_WEIGHT ? &a->w : back ? &a->x : &a->y;
    /* a number that is not finite spoils its neighbours in a tile: the sums in order do not mix them */
    return status != CR_OK || is_finite(written) ? status : runs[a->kind](&direct);
}
