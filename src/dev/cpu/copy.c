/* copy.c - copies, casts and fills between any strides, and triangles.
 *
 * Axes are first reversed, sorted and merged by the strides of the result.  Then a copy is one run,
 * rows, reversed rows, rows of one repeated element, a transposition in tiles, or the general walk by
 * blocks. */
#include "blocks.h"
#include "isa.h"
#include "../../core/layout.h"
#include "../../core/pool.h"

#include <string.h>

/* elements, but for RUN: bytes */
enum { BLOCK = 1024, CHUNK = 16 * BLOCK, TILE = 32, FEW = 8, PART = 1 << 14, STREAM = 1 << 20, RUN = 128 << 10 };

/* ..._first: offsets of the first element */
typedef struct axes {
    int ndim;
    int64_t shape[CR_MAX_DIMS], to[CR_MAX_DIMS], from[CR_MAX_DIMS], numel, to_first, from_first;
} axes;

/* Orders and directs the axes as they lie in the result's memory, which gives the same copy.  from NULL: a fill. */
static axes sorted_axes(int ndim, const int64_t *shape, const int64_t *to, const int64_t *from) {
    axes x = {.numel = 1};
    int order[CR_MAX_DIMS];
    for (int i = 0; i < ndim; i++) x.numel *= shape[i];
    const int n = cr_axes_by_step(ndim, shape, to, order);
    for (int k = 0; k < n; k++) {
        const int i = order[k];
        const int64_t from_step = from ? from[i] : 0, last = shape[i] - 1;
        const bool back = to[i] < 0;
        x.shape[k] = shape[i];
        x.to[k] = back ? -to[i] : to[i];
        x.from[k] = back ? -from_step : from_step;
        if (back) x.to_first += last * to[i], x.from_first += last * from_step;
    }
    x.ndim = cr_merge_axes(n, x.shape, 2, (int64_t *const[]){x.to, x.from});
    if (!x.ndim) {
        x.ndim = 1;
        x.shape[0] = x.to[0] = x.from[0] = 1;
    }
    return x;
}

typedef struct copy {
    axes x;
    char *to; const char *from;
    cr_dtype to_dtype, from_dtype;
    cr_lane lane;
    int64_t size;                                   /* bytes of an element, if both dtypes are the same */
    int64_t step;                                   /* units of one chunk: elements, rows or rows of tiles */
    int along;                                      /* transposition: the axis whose stride is 1 in the source */
    const void *value;                              /* fill: one element */
} copy;


/* Runs a job of `units` units in chunks of at least `elements` elements. */
static void run_copy(copy *c, int64_t units, int64_t elements, void (*fn)(void *, int64_t, int)) {
    int64_t each = units ? c->x.numel / units : 1;
    c->step = each >= elements ? 1 : (elements + each - 1) / (each ? each : 1);
    cr_run_chunks(cr_pieces(units, c->step), fn, c);
}

/* Offsets of row `i` of the outer axes [0, n) in both arrays. */
static void offsets(const axes *x, int n, int skip, int64_t i, int64_t *to, int64_t *from) {
    *to = *from = 0;
    for (int d = n - 1; d >= 0; d--) {
        if (d == skip) continue;
        int64_t rest = d ? i / x->shape[d] : 0, at = i - rest * x->shape[d];
        i = rest;
        *to += at * x->to[d];
        *from += at * x->from[d];
    }
}

/* ---- one dtype */
static void copy_run(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    int64_t first = chunk * c->step, n = cr_imin(c->step, c->x.numel - first);
    memcpy(c->to + first * c->size, c->from + first * c->size, (size_t)(n * c->size));
}

/* Copies row after row.  Recomputes offsets only where an axis ends, because rows may be short. */
typedef struct walker { const axes *x; int outer; int64_t i, left, to, from; } walker;

static walker row_at(const axes *x, int outer, int64_t i) {
    walker r = {.x = x, .outer = outer, .i = i, .left = outer ? x->shape[outer - 1] - i % x->shape[outer - 1] : 1};
    offsets(x, outer, -1, i, &r.to, &r.from);
    return r;
}

static inline void next_row(walker *r) {
    r->i++;
    if (--r->left) {
        r->to += r->x->to[r->outer - 1];
        r->from += r->x->from[r->outer - 1];
    } else *r = row_at(r->x, r->outer, r->i);
}

/* Reads rows in the order of memory, which the hardware prefetches, and writes them in any order: 8 KB
 * rows upside down take 2/3 of the time. */
static void read_forwards(copy *c) {
    axes *x = &c->x;
    for (int d = 0; d < x->ndim - 1; d++) {
        if (x->from[d] >= 0) continue;
        c->to += (x->shape[d] - 1) * x->to[d] * c->size;
        c->from += (x->shape[d] - 1) * x->from[d] * c->size;
        x->to[d] = -x->to[d];
        x->from[d] = -x->from[d];
    }
}

static void copy_rows(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    int outer = c->x.ndim - 1;
    int64_t length = c->x.shape[outer], rows = c->x.numel / length, end = cr_imin((chunk + 1) * c->step, rows);
    for (walker r = row_at(&c->x, outer, chunk * c->step); r.i < end; next_row(&r))
        memcpy(c->to + r.to * c->size, c->from + r.from * c->size, (size_t)(length * c->size));
}

static void reverse(const copy *c, int64_t to, int64_t from, int64_t n) {
    cr_cpu_vec()->casts->reverse(c->to + to * c->size, c->from + from * c->size, n, c->size);
}

/* Rows that are reversed in the source; or a piece of a single one. */
static void copy_backwards(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    int outer = c->x.ndim - 1;
    int64_t first = chunk * c->step, length = c->x.shape[outer], rows = c->x.numel / length,
            end = cr_imin(first + c->step, rows);
    if (outer == 0) { reverse(c, first, -first, cr_imin(c->step, length - first)); return; }
    for (walker r = row_at(&c->x, outer, first); r.i < end; next_row(&r)) reverse(c, r.to, r.from, length);
}

/* to[i * to_step + j] = from[i + j * from_step], i < rows <= TILE, j < columns.  A tile is first read
 * by whole lines into `tile`: lines at a stride of a power of two share a cache set and would evict
 * each other after one element each.  A few lines do not. */
#define TRANSPOSE(type) static void transpose_##type(void *to, const void *from, int64_t rows, int64_t columns, \
    int64_t to_step, int64_t from_step) { \
    type *y = to, tile[TILE][TILE + 1]; const type *x = from;                                       \
    if (columns <= FEW) {                                                                           \
        for (int64_t i = 0; i < rows; i++)                                                          \
            for (int64_t j = 0; j < columns; j++) y[i * to_step + j] = x[i + j * from_step];        \
        return;                                                                                     \
    }                                                                                               \
    for (int64_t j0 = 0; j0 < columns; j0 += TILE) {                                                \
        int64_t n = cr_imin(TILE, columns - j0);                                                      \
        for (int64_t j = 0; j < n; j++)                                                             \
            for (int64_t i = 0; i < rows; i++) tile[j][i] = x[i + (j0 + j) * from_step];            \
        for (int64_t i = 0; i < rows; i++)                                                          \
            for (int64_t j = 0; j < n; j++) y[i * to_step + j0 + j] = tile[j][i];                   \
    } }
TRANSPOSE(uint8_t)
TRANSPOSE(uint16_t)
TRANSPOSE(uint32_t)
TRANSPOSE(uint64_t)

/* The same for 4 bytes, whole tiles by vectors.  stream: writes past the caches, for results larger
 * than them, because then lines are not read before they are written: 2048 x 2048 in 0.57 ms instead
 * of 0.93. */
static void transpose_tiles(uint32_t *to, const uint32_t *from, int64_t rows, int64_t columns, int64_t to_step,
                            int64_t from_step, bool stream) {
    const struct cr_casts *k = cr_cpu_vec()->casts;
    int64_t i1 = rows / k->tile * k->tile, j1 = columns / k->tile * k->tile;
    for (int64_t j = 0; j < j1; j += k->tile)
        for (int64_t i = 0; i < i1; i += k->tile)
            k->transpose(to + i * to_step + j, from + i + j * from_step, to_step, from_step, stream);
    if (stream) k->stream_end();
    if (j1 < columns) transpose_uint32_t(to + j1, from + j1 * from_step, i1, columns - j1, to_step, from_step);
    if (i1 < rows) transpose_uint32_t(to + i1 * to_step, from + i1, rows - i1, columns, to_step, from_step);
}

/* A unit is TILE rows of one matrix: `along` counts rows, the last axis columns. */
static void copy_tiles(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    int last = c->x.ndim - 1;
    int64_t rows = c->x.shape[c->along], columns = c->x.shape[last], strips = cr_pieces(rows, TILE);
    int64_t units = c->x.numel / (rows * columns) * strips, end = cr_imin((chunk + 1) * c->step, units), to, from;
    for (int64_t u = chunk * c->step; u < end; u++) {
        int64_t row = u % strips * TILE, n = cr_imin(TILE, rows - row);
        offsets(&c->x, last, c->along, u / strips, &to, &from);
        to += row * c->x.to[c->along];
        from += row;
        int64_t to_step = c->x.to[c->along], from_step = c->x.from[last];
        for (int64_t j = 0; j < columns && cr_goes_on(j, PART); j += PART) {
            const int64_t part = cr_imin(PART, columns - j);
            void *y = c->to + (to + j) * c->size;
            const void *x = c->from + (from + j * from_step) * c->size;
            if (c->size == 1) transpose_uint8_t(y, x, n, part, to_step, from_step);
            else if (c->size == 2) transpose_uint16_t(y, x, n, part, to_step, from_step);
            else if (c->size == 4) transpose_tiles(y, x, n, part, to_step, from_step, c->x.numel >= STREAM);
            else transpose_uint64_t(y, x, n, part, to_step, from_step);
        }
    }
}

/* The axis that is contiguous in the source, if another one is in the result; -1: none. */
static int transposed_axis(const axes *x) {
    int last = x->ndim - 1;
    if (x->to[last] != 1 || x->from[last] == 0) return -1;
    for (int d = 0; d < last; d++) if (x->from[d] == 1 && x->shape[d] > 1) return d;
    return -1;
}

/* ---- rows of one repeated element (an expanded last axis), and fills */
static void fill_run(char *to, int64_t stride, int64_t n, const void *value, int64_t size) {
    if (stride == 1 && n * size >= 64) cr_cpu_vec()->casts->repeat(to, cr_pattern(value, (size_t)size), n * size);
    else if (size == 1) for (int64_t i = 0; i < n; i++) memcpy(to + i * stride, value, 1);
    else if (size == 2) {
        uint16_t v;
        memcpy(&v, value, 2);
        for (int64_t i = 0; i < n; i++) ((uint16_t *)(void *)to)[i * stride] = v;
    } else if (size == 4) {
        uint32_t v;
        memcpy(&v, value, 4);
        for (int64_t i = 0; i < n; i++) ((uint32_t *)(void *)to)[i * stride] = v;
    } else {
        uint64_t v;
        memcpy(&v, value, 8);
        for (int64_t i = 0; i < n; i++) ((uint64_t *)(void *)to)[i * stride] = v;
    }
}

/* A fill writes its value, a copy the source's element of the row. */
static void fill_rows(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    int last = c->x.ndim - 1;
    int64_t length = c->x.shape[last], end = cr_imin((chunk + 1) * c->step, c->x.numel / length);
    for (walker r = row_at(&c->x, last, chunk * c->step); r.i < end; next_row(&r))
        fill_run(c->to + r.to * c->size, c->x.to[last], length, c->value ? c->value : c->from + r.from * c->size,
                 c->size);
}

/* ---- the general walk */
static void copy_blocks(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    _Alignas(64) char block[BLOCK * 8];
    cr_block_layout to = {c->x.ndim, c->x.shape, c->x.to}, from = {c->x.ndim, c->x.shape, c->x.from};
    int64_t end = cr_imin((chunk + 1) * c->step, c->x.numel);
    for (int64_t first = chunk * c->step, n; first < end; first += n) {
        n = cr_imin(BLOCK, end - first);
        cr_block_gather(c->lane, block, c->from_dtype, c->from, &from, first, n);
        cr_block_scatter(c->lane, block, c->to_dtype, c->to, &to, first, n);
    }
}

/* Casts of one run whose source or result has the dtype of the lanes: without a block in between. */
static void cast_run(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    int64_t first = chunk * c->step, n = cr_imin(c->step, c->x.numel - first);
    char *to = c->to + first * (int64_t)cr_dtype_size(c->to_dtype);
    const char *from = c->from + first * (int64_t)cr_dtype_size(c->from_dtype);
    cr_dtype own = c->lane == CR_LANE_F32 ? CR_F32 : c->lane == CR_LANE_F64 ? CR_F64 : CR_I64;
    if (c->to_dtype == own) cr_block_load(c->lane, to, c->from_dtype, from, 1, n);
    else cr_block_store(c->lane, from, c->to_dtype, to, 1, n);
}

/* Moves both pointers to the first element. */
static void begin(copy *c) {
    c->to += c->x.to_first * (int64_t)cr_dtype_size(c->to_dtype);
    if (c->from) c->from += c->x.from_first * (int64_t)cr_dtype_size(c->from_dtype);
}

static void cast(copy *c) {
    cr_lane to = cr_lane_of(c->to_dtype), from = cr_lane_of(c->from_dtype);
    c->lane = to == from ? to : CR_LANE_F64;        /* between integers and floats: f64, as cr_convert */
    /* except from f16, bf16, f32: f32 is exact */
    if (from == CR_LANE_F32 && to == CR_LANE_I64) c->lane = CR_LANE_F32;
    if (from == CR_LANE_I64 && c->to_dtype == CR_F32) c->lane = CR_LANE_F32;
    cr_dtype own = c->lane == CR_LANE_F32 ? CR_F32 : c->lane == CR_LANE_F64 ? CR_F64 : CR_I64;
    bool straight = c->x.ndim == 1 && c->x.to[0] == 1 && c->x.from[0] == 1 &&
                    (c->to_dtype == own || c->from_dtype == own);
    run_copy(c, c->x.numel, CHUNK, straight ? cast_run : copy_blocks);
}

static void copy_same(copy *c) {
    const axes *x = &c->x;
    int last = x->ndim - 1;
    c->size = (int64_t)cr_dtype_size(c->to_dtype);
    if (x->to[last] == 1 && x->from[last] == 1) {
        read_forwards(c);
        if (x->ndim == 1) run_copy(c, x->numel, RUN / c->size, copy_run);
        else run_copy(c, x->numel / x->shape[last], CHUNK, copy_rows);
    } else if (x->to[last] == 1 && x->from[last] == -1) {
        run_copy(c, x->ndim == 1 ? x->numel : x->numel / x->shape[last], CHUNK, copy_backwards);
    } else if (x->ndim > 1 && x->from[last] == 0) {
        run_copy(c, x->numel / x->shape[last], CHUNK, fill_rows);
    } else if ((c->along = transposed_axis(x)) >= 0) {
        run_copy(c, x->numel / (x->shape[c->along] * x->shape[last]) * cr_pieces(x->shape[c->along], TILE), CHUNK,
                 copy_tiles);
    } else {                                        /* only the size matters: the bits are copied */
        c->lane = c->size == 4 ? CR_LANE_F32 : c->size == 8 ? CR_LANE_F64 : CR_LANE_I64;
        c->to_dtype = c->from_dtype = c->size == 4 ? CR_F32 : c->size == 8 ? CR_F64 : c->size == 2 ? CR_U16 : CR_U8;
        run_copy(c, x->numel, CHUNK, copy_blocks);
    }
}

cr_status cr_cpu_copy(const cr_copy_args *args) {
    const cr_array *dst = &args->dst, *src = &args->src;
    if (!dst->numel) return CR_OK;
    copy c = {.x = sorted_axes(dst->ndim, dst->shape, dst->strides, src->strides),
              .to = cr_array_data(dst),
              .from = cr_array_data(src),
              .to_dtype = dst->dtype,
              .from_dtype = src->dtype};
    begin(&c);
    if (dst->dtype == src->dtype) copy_same(&c);
    else cast(&c);
    return CR_OK;
}

void cr_cpu_pack(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides, cr_dtype dt,
                 int ndim, const int64_t *shape) {
    copy c = {.x = sorted_axes(ndim, shape, to_strides, from_strides),
              .to = to,
              .from = from,
              .to_dtype = dt,
              .from_dtype = dt};
    begin(&c);
    copy_same(&c);
}

/* ---- fill */
static void fill_one_run(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const copy *c = ctx;
    int64_t first = chunk * c->step;
    fill_run(c->to + first * c->x.to[0] * c->size, c->x.to[0], cr_imin(c->step, c->x.numel - first), c->value, c->size);
}

cr_status cr_cpu_fill(const cr_fill_args *args) {
    const cr_array *dst = &args->dst;
    if (!dst->numel) return CR_OK;
    copy c = {.x = sorted_axes(dst->ndim, dst->shape, dst->strides, NULL),
              .to = cr_array_data(dst),
              .to_dtype = dst->dtype,
              .value = args->value,
              .size = (int64_t)cr_dtype_size(dst->dtype)};
    begin(&c);
    if (c.x.ndim == 1) run_copy(&c, c.x.numel, RUN / c.size, fill_one_run);
    else run_copy(&c, c.x.numel / c.x.shape[c.x.ndim - 1], CHUNK, fill_rows);
    return CR_OK;
}

/* ---- triangles: a piece of each row is copied, the rest is 0; rows are independent */
typedef struct triangle {
    char *to; const char *from;
    int64_t rows, M, N, diagonal, size, step;       /* size: bytes of an element; step: rows of a chunk */
    bool upper;
} triangle;

static void triangle_rows(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const triangle *t = ctx;
    for (int64_t i = chunk * t->step, end = cr_imin(i + t->step, t->rows); i < end; i++) {
        char *y = t->to + i * t->N * t->size;
        int64_t first = i % t->M + t->diagonal + !t->upper;         /* of the upper piece */
        first = cr_iclamp(first, 0, t->N) * t->size;
        int64_t low = t->upper ? first : 0, high = t->upper ? t->N * t->size : first;
        memset(y, 0, (size_t)low);
        if (t->to != t->from) memcpy(y + low, t->from + i * t->N * t->size + low, (size_t)(high - low));
        memset(y + high, 0, (size_t)(t->N * t->size - high));
    }
}

cr_status cr_cpu_triangle(const cr_triangle_args *args) {
    const cr_array *y = &args->y;
    const int64_t M = y->shape[y->ndim - 2], N = y->shape[y->ndim - 1];
    triangle t = {
        .to = cr_array_data(y), .from = cr_array_data(&args->x), .rows = y->numel / N, .M = M, .N = N,
        .diagonal = cr_iclamp(args->diagonal, -M, N),      /* beyond these bounds everything is kept, or nothing */
        .size = (int64_t)cr_dtype_size(y->dtype), .step = (CHUNK + N - 1) / N, .upper = args->upper,
    };
    cr_run_chunks(cr_pieces(t.rows, t.step), triangle_rows, &t);
    return CR_OK;
}
