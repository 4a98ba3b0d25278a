/* packed.c - one product of floats on all threads, both operands packed into the order in which the kernels read them.
 *
 * All chunks share one operand: a if it has few rows, so that a block of it stays in L2 while b
 * streams past, else b.  Each thread packs its own copy of it, for a span of k that fits the
 * last-level cache: writing lines that other cores have read takes ten times as long as packing.  A
 * chunk packs a part of the other operand, panels of a into L2 or one strip of b at a time into L1,
 * and multiplies it with all of the shared operand.
 *
 * bf16, and f32 to be rounded to bf16, is packed in pairs if the processor multiplies pairs.
 * Otherwise it is converted to f32 while it is packed, as f16 is. */
#include <string.h>

#include "../../core/pool.h"
#include "isa.h"
#include "product.h"

enum {
    SHARED_BYTES = 4 << 20,
    LINE = 64,
    FEW_ROWS = 384,
    BLOCK_STRIPS = 8,
    BLOCK_PANELS = 18,
    UPDATE_PANELS = 6,
    PIECES = 24,
    FEW_OF_K = 16
};

typedef struct packed {
    cr_product w;
    cr_dtype dtype;
    int64_t size, c_size;                           /* bytes of an element: of the operands; of c as the kernels
                                                     * write it */
    const cr_product_kernels *kernels;
    bool half_c;                                    /* c and bias are converted to f32 */
    bool share_a;
    int64_t panels, strips;                         /* number of panels of a, of strips of b */
    int64_t block, chunks;                          /* a chunk is a block of lines of the operand that is not shared */
    int64_t depth, room, from, span;                /* along k: a block; the room of a copy; the packed range */
    const cr_product_update *update;                /* receives the rows of c; NULL: they go to memory */
    struct copy *copies;                            /* of the shared operand, one per worker */
    atomic_bool failed;
} packed;

typedef struct copy {
    char *lines;                                    /* panels or strips of each block of k from packed.from on; NULL:
                                                     * not allocated */
    int64_t end;                                    /* packed up to this k */
    const void *thread;
} copy;

static const void *ahead(const void *p, int64_t bytes) { return (const char *)p + bytes; }

static int64_t line_width(const packed *s, bool of_a) {
    return of_a ? s->kernels->panel_width : s->kernels->tile_columns;
}
static int64_t packed_bytes(const packed *s, bool of_a, int64_t lines, int64_t k) {
    return lines * line_width(s, of_a) * ((k + s->kernels->per - 1) / s->kernels->per) * s->kernels->size;
}

/* ---- packing ---- */

/* Are neighbouring lines adjacent in memory, so that all lines are read together for each k? */
static bool packs_rows(const packed *s, bool of_a) {
    return s->kernels->pack_rows && (of_a ? s->w.a_row : s->w.b_col) == 1;
}

/* Packs panels of a or strips of b from `first` on, k numbers of each from p on.  If neighbouring
 * lines are adjacent in memory, a few numbers of all of them are packed before the next few, so that
 * each cache line is read once. */
static void pack_lines(const packed *s, bool of_a, char *to, int64_t first, int64_t n, int64_t p, int64_t k) {
    const cr_product *w = &s->w;
    const int64_t height = of_a ? s->kernels->tile_rows : s->kernels->tile_columns, all = of_a ? w->m : w->n,
                  line = packed_bytes(s, of_a, 1, k);
    const int64_t across = of_a ? w->a_row : w->b_col, along = of_a ? w->a_col : w->b_row,
                  few = across == 1 && n > 1 ? FEW_OF_K : cr_imax(1, k);
    const char *at = ahead(of_a ? w->a : w->b, (first * height * across + p * along) * s->size);
    if (packs_rows(s, of_a)) {
        s->kernels->pack_rows(to, of_a, line / s->kernels->size, cr_imin(n * height, all - first * height), k, at,
                              along);
        return;
    }
    for (int64_t q = 0; q < k; q += few)
        for (int64_t i = first; i < first + n; i++) {
            const int64_t lines = cr_imin(height, all - i * height), depth = cr_imin(few, k - q);
            s->kernels->pack(to + (i - first) * line + packed_bytes(s, of_a, 1, q), line_width(s, of_a), lines, depth,
                             ahead(at, ((i - first) * height * across + q * along) * s->size), across, along);
        }
}

static int64_t shared_bytes(const packed *s, int64_t k) {
    return packed_bytes(s, s->share_a, s->share_a ? s->panels : s->strips, k);
}
static int64_t depth_at(const packed *s, int64_t p) { return cr_imin(s->depth, s->from + s->span - p); }

/* ---- prefetching while kernels run: the source of the next packing.  A tile over k numbers makes k /
 * 8 prefetches from each of two sources. */

static int64_t prefetches(int64_t k) { return cr_imax(1, k / 8); }
static int64_t spread(int64_t bytes, int64_t k) { return cr_pieces(bytes, prefetches(k)); }

/* The next strip: two of its columns during each panel; if columns are adjacent in memory, both cache
 * lines of as many rows as there are prefetches. */
static void source_of_strip(const packed *s, int64_t strip, int64_t p, int64_t k, int64_t k_now, cr_ahead next[3]) {
    const cr_product *w = &s->w;
    int64_t across = w->b_col * s->size, along = w->b_row * s->size, columns = s->kernels->tile_columns;
    const char *at = ahead(w->b, strip * columns * across + p * along);
    next[0] = next[1] = next[2] = (cr_ahead){0};
    if (w->b_row == 1) {
        next[0] = next[1] = (cr_ahead){at, columns / 2, 2 * across, spread(k * along, k_now)};
        next[1].at += across;
    } else if (w->b_col == 1) {
        next[0] = next[1] = (cr_ahead){at, cr_pieces(k, prefetches(k_now)), prefetches(k_now) * along, along};
        next[1].at += columns * across / 2;
    }
}

/* The next panels: one row of them, or one k, during each panel; `done`: panels multiplied so far. */
static cr_ahead source_of_panels(const packed *s, int64_t first, int64_t p, int64_t k, int64_t k_now, int64_t done,
                                 int64_t panels) {
    const cr_product *w = &s->w;
    int64_t across = w->a_row * s->size, along = w->a_col * s->size,
            rows = cr_imin(panels * s->kernels->tile_rows, w->m - first * s->kernels->tile_rows);
    const char *at = ahead(w->a, first * s->kernels->tile_rows * across + p * along);
    if (w->a_col == 1) return (cr_ahead){at + done * across, rows - done, across, spread(k * along, k_now)};
    if (w->a_row == 1 && rows > 0) return (cr_ahead){at + done * along, k - done, along, spread(rows * across, k_now)};
    return (cr_ahead){0};
}

/* The outputs of the update for this chunk's rows, one after the other, spread evenly over the strips and tiles. */
static void source_of_update(const packed *s, int64_t first, int64_t rows, int64_t panels, int64_t strip, int64_t k,
                             cr_ahead next[3]) {
    enum { ROUND = 2 * LINE };
    const cr_walk *u = s->update->walk;
    const int64_t share = cr_pieces(s->strips, u->n_out), at = strip % share * panels;
    const cr_arg *x = &u->out[cr_imin(strip / share, u->n_out - 1)];
    const int64_t row = s->w.n * (int64_t)cr_dtype_size(x->dtype),
                  tile = cr_pieces(rows * row, share * panels * ROUND) * ROUND,
                  some = cr_imin(tile, prefetches(k) * LINE);
    const char *from = (const char *)x->data + first * s->kernels->tile_rows * row + at * tile;
    next[1] = (cr_ahead){from, panels, tile, LINE};
    next[2] = (cr_ahead){from + some, tile > some ? panels : 0, tile, tile - some};
}

/* ---- multiplying ---- */

/* The part of c that a chunk computes: strips, or panels, first .. first + count - 1. */
typedef struct part { cr_product c; int64_t first, count; const char *shared; char *lines; } part;

static cr_product block_of_k(const packed *s, const part *t, int64_t p, int64_t k) {
    cr_product w = t->c;
    w.k = k;
    w.accumulate = p > 0 || w.accumulate;
    if (p + k < s->w.k) w.bias = NULL;
    return w;
}

static void next_strip(const packed *s, cr_product *w) {
    w->c = (char *)w->c + w->n * s->c_size;
    if (w->bias) w->bias = ahead(w->bias, w->n * s->c_size);
}

static void multiply_strips(const packed *s, const part *t, int64_t p, int64_t k) {
    int64_t columns = s->kernels->tile_columns;
    cr_product w = block_of_k(s, t, p, k);
    w.a = t->shared;
    w.b = t->lines;
    for (int64_t i = 0; i < t->count; i++, next_strip(s, &w)) {
        cr_ahead next[3];                           /* the next chunk follows, on this thread or another */
        bool last = i + 1 == t->count, deeper = p + k < s->from + s->span;
        int64_t to = last ? deeper ? p + k : s->from : p;
        source_of_strip(s, last && deeper ? t->first : t->first + i + 1, to, depth_at(s, to), k, next);
        pack_lines(s, false, t->lines, t->first + i, 1, p, k);
        w.n = cr_imin(columns, t->c.n - i * columns);
        s->kernels->panels(&w, next);
    }
}

static void multiply_panels(const packed *s, const part *t, int64_t p, int64_t k) {
    int64_t columns = s->kernels->tile_columns;
    cr_product w = block_of_k(s, t, p, k);
    w.a = t->lines;
    pack_lines(s, true, t->lines, t->first, t->count, p, k);
    bool deeper = p + k < s->from + s->span;
    int64_t bytes = packed_bytes(s, false, 1, k), to = deeper ? p + k : s->from;
    for (int64_t j = 0; j < s->strips; j++, next_strip(s, &w)) {
        w.b = t->shared + j * bytes;
        w.n = cr_imin(columns, t->c.n - j * columns);
        cr_ahead next[3] = {{ahead(w.b, bytes), t->count, cr_pieces(bytes, t->count), LINE},
                            source_of_panels(s, deeper ? t->first : t->first + t->count, to, depth_at(s, to), k,
                                             j * t->count, t->count)};
        if (s->update && !deeper) source_of_update(s, t->first, t->c.m, t->count, j, k, next);
        s->kernels->panels(&w, next);
    }
}

/* Half precision: c as f32 before, and back afterwards. */
static void half_c(const packed *s, const cr_product *c, float *wide, bool back) {
    uint16_t *half = c->c;
    for (int64_t i = 0; i < c->m; i++, half += c->c_row, wide += c->n) {
        if (back) cr_block_store(CR_LANE_F32, wide, s->dtype, half, 1, c->n);
        else cr_block_load(CR_LANE_F32, wide, s->dtype, half, 1, c->n);
    }
}

/* Bytes of a chunk's scratch: packed lines, c and bias as f32 or c on its way into an update. */
static int64_t lines_bytes(const packed *s) {
    return packed_bytes(s, !s->share_a, s->share_a ? 1 : s->block, s->depth);
}
static int64_t scratch_bytes(const packed *s, const cr_product *c) {
    return lines_bytes(s) +
           (s->half_c   ? (c->m + 1) * c->n * (int64_t)sizeof(float)
            : s->update ? c->m * c->n * s->c_size
                        : 0);
}

/* The shared operand's block of k from p on, which a worker packs when it first needs it; NULL: no memory. */
static const char *shared_block(packed *s, copy *own, int64_t p, int64_t k) {
    if (!own->lines && !(own->lines = cr_cpu_try_take((size_t)shared_bytes(s, cr_imax(1, s->room))))) return NULL;
    own->thread = cr_cpu_thread();
    char *at = own->lines + shared_bytes(s, p - s->from);
    if (own->end <= p) pack_lines(s, s->share_a, at, 0, s->share_a ? s->panels : s->strips, p, k);
    own->end = cr_imax(own->end, p + k);
    return at;
}

/* The part of c that a chunk computes; *at: its first column or, if b is shared, its first row. */
static part part_of(const packed *s, int64_t chunk, int64_t *at) {
    const int64_t element = s->half_c ? 2 : s->c_size;
    part t = {.c = s->w, .first = chunk * s->block};
    t.count = cr_imin(s->block, (s->share_a ? s->strips : s->panels) - t.first);
    *at = t.first * (s->share_a ? s->kernels->tile_columns : s->kernels->tile_rows);
    if (s->share_a) {
        t.c.n = cr_imin(t.count * s->kernels->tile_columns, s->w.n - *at);
        t.c.c = (char *)t.c.c + *at * element;
        if (t.c.bias) t.c.bias = ahead(t.c.bias, *at * element);
    } else {
        t.c.m = cr_imin(t.count * s->kernels->tile_rows, s->w.m - *at);
        t.c.c = (char *)t.c.c + *at * t.c.c_row * element;
    }
    return t;
}

static void multiply_chunk(void *ctx, int64_t chunk, int worker) {
    packed *s = ctx;
    int64_t at;
    part t = part_of(s, chunk, &at);
    const cr_product out = t.c;
    const size_t bytes = (size_t)scratch_bytes(s, &out);
    t.lines = cr_cpu_try_take(bytes);
    if (!t.lines) { atomic_store(&s->failed, true); return; }
    float *wide_c = (float *)(void *)(t.lines + lines_bytes(s)), *wide_bias = wide_c + out.m * out.n;
    if (s->half_c) {
        if (out.accumulate) half_c(s, &out, wide_c, false);
        if (out.bias) cr_block_load(CR_LANE_F32, wide_bias, s->dtype, out.bias, 1, out.n);
        t.c.c = wide_c;
        t.c.c_row = out.n;
        if (out.bias) t.c.bias = wide_bias;
    } else if (s->update) {
        t.c.c = wide_c;
        t.c.c_row = out.n;
    }
    int64_t p = s->from;
    do {                                            /* once if k is 0, because c is written then too */
        int64_t k = depth_at(s, p);
        if (!(t.shared = shared_block(s, &s->copies[worker], p, k))) { atomic_store(&s->failed, true); break; }
        if (s->share_a) multiply_strips(s, &t, p, k);
        else multiply_panels(s, &t, p, k);
        p += k;
    } while (p < s->from + s->span);
    if (s->half_c) half_c(s, &out, wide_c, true);
    if (s->update && !cr_product_update_rows(s->update, at, &t.c)) atomic_store(&s->failed, true);
    cr_cpu_give(t.lines, bytes);
}

/* ---- the plan depends on the shape only ---- */

static void plan(packed *s) {
    const cr_product *w = &s->w;
    s->panels = cr_pieces(w->m, s->kernels->tile_rows);
    s->strips = cr_pieces(w->n, s->kernels->tile_columns);
    s->share_a = w->m <= FEW_ROWS && w->n > w->m;
    int64_t all = s->share_a ? s->strips : s->panels;
    s->block = cr_imin(s->share_a               ? BLOCK_STRIPS
                       : s->update || s->half_c ? UPDATE_PANELS      /* what is done to c behind it stays in L2 */
                                                : BLOCK_PANELS,
                       cr_pieces(all, PIECES));
    s->chunks = cr_pieces(all, s->block);
    int64_t blocks = cr_pieces(w->k, s->kernels->depth), per = s->kernels->per,
            lines = s->share_a ? s->panels : s->strips;
    s->depth = cr_imax(per, cr_pieces(cr_pieces(w->k, blocks), per) * per);
    int64_t most_blocks = cr_imax(1, SHARED_BYTES / packed_bytes(s, s->share_a, lines, s->depth));
    s->room = s->half_c ? w->k : cr_imin(w->k, most_blocks * s->depth);
}

static packed packed_of(const cr_product *w, cr_dtype dtype, bool bf16, const cr_product_update *update) {
    const bool half = cr_dtype_is_half(dtype);
    const cr_product_kernels *pairs = dtype == CR_BF16 || bf16 ? cr_product_bf16(dtype == CR_F32) : NULL;
    const struct cr_products *products = cr_cpu_vec()->products;
    packed s = {.w = *w,
                .dtype = dtype,
                .size = (int64_t)cr_dtype_size(dtype),
                .c_size = dtype == CR_F64 ? 8 : 4,
                .kernels = pairs              ? pairs
                           : dtype == CR_F64  ? &products->f64
                           : dtype == CR_F16  ? &products->from_f16
                           : dtype == CR_BF16 ? &products->from_bf16
                           : bf16             ? &products->rounded
                                              : &products->f32,
                .half_c = half && !w->wide,
                .update = update};
    plan(&s);
    return s;
}

bool cr_packed_by_rows(const cr_product *w, cr_dtype dtype, bool bf16) {
    packed s = packed_of(w, dtype, bf16, NULL);
    return !s.half_c && !s.share_a && s.room == w->k && !w->accumulate && !w->bias;
}

bool cr_packed_product(const cr_product *w, cr_dtype dtype, bool bf16, const cr_product_update *update) {
    packed s = packed_of(w, dtype, bf16, update);
    const int workers = cr_pool_workers();
    const size_t bytes = (size_t)workers * sizeof *s.copies, each = (size_t)shared_bytes(&s, cr_imax(1, s.room));
    if (!(s.copies = cr_cpu_try_take(bytes))) return false;
    memset(s.copies, 0, bytes);
    do {
        s.span = cr_imin(s.room, w->k - s.from);
        cr_pool_run(s.chunks, multiply_chunk, &s);
        s.from += s.span;
    } while (s.from < w->k && !atomic_load(&s.failed));
    for (int i = 0; i < workers; i++) cr_cpu_give_to(s.copies[i].thread, s.copies[i].lines, each);
    cr_cpu_give(s.copies, bytes);
    return !atomic_load(&s.failed);
}
