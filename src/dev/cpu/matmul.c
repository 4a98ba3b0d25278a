/* matmul.c - products of matrices on all threads: cuts c into tiles and gives each tile to one thread.
 *
 * The cut and the kernel depend on shape, strides, dtype, instruction set and the presence of oneDNN,
 * never on the number of threads, so the bits do not either.  A tile is one single-threaded oneDNN
 * call or one call of a kernel in matmul_isa.c; packed.c makes its own cut.  f16 and bf16 accumulate
 * in f32 and are rounded once.  Integers wrap; bool: + is or, * is and. */
#include <string.h>

#include "../../core/pool.h"
#include "cpu.h"
#include "isa.h"
#include "onednn.h"
#include "product.h"

typedef enum path { DIRECT, PACKED, ROW, HALF_ROW, OUTER, FEW, ONEDNN, PLAIN } path;
typedef struct axis { int64_t size, a, b, c; } axis;           /* of the batch: strides in elements */

typedef struct job {
    cr_product one;                                 /* the first product, whole */
    cr_dtype dtype;                                 /* of the operands */
    bool bf16;                                      /* f32 operands are rounded to it */
    size_t size, c_size;                            /* bytes of an element: of the operands, of c and bias */
    int axes; axis batch[CR_MAX_DIMS];
    int64_t batches;
    path path;
    int64_t tile_m, tile_n, tiles_m, tiles_n;
    int64_t parts, part_k;                          /* parts of k, if c is too small to be cut: their sums are added
                                                     * in order */
    void *partial;                                  /* (parts, m, n) */
    int64_t items, group;                           /* tiles of all products, or parts of one; items of a chunk */
    size_t scratch;                                 /* bytes for an item */
    const struct cr_isa_kernels *isa;
    atomic_bool failed;
} job;

/* In flops, measured on two Zen 5 cores (bench/products).  From grain on a second thread pays; from
 * large on opening oneDNN pays; products above 8 x large are cut into more than 8 tiles. */
static const double grain = 1 << 20, large = 1 << 27;

enum { FEW_ROWS = 13,                               /* up to so many rows cost less than packing b */
       WIDE_OUTER = 64,                             /* columns of c: fewer are faster in tiles */
       HALF_BLOCK = 4096,                           /* numbers of b as f32, in L1 */
       LONG_ROW = 32768,                            /* elements of c whose sums over parts of k stay in the cache */
       ONEDNN_ROWS = 2304, ONEDNN_COLUMNS = 768 };  /* largest c for which oneDNN is faster (3-7 % on two cores with
                                                     * AVX-512) */

static double flops_of(const cr_product *p) { return 2.0 * (double)p->m * (double)p->n * (double)p->k; }

/* ---- integers and bool ---- */

#define PLAIN_PRODUCT(name, T, WIDE, TIMES, PLUS)                                                                   \
    static void name(const cr_product *w) {                                                                         \
        const T *a = w->a, *bias = w->bias;                                                                         \
        for (int64_t i = 0; i < w->m; i++, a += w->a_row) {                                                         \
            T *restrict c = (T *)w->c + i * w->c_row;                                                               \
            if (!w->accumulate) memset(c, 0, (size_t)w->n * sizeof *c);                                             \
            for (int64_t p = 0; p < w->k; p++) {                                                                    \
                const T *b = (const T *)w->b + p * w->b_row;                                                        \
                const WIDE x = a[p * w->a_col];                                                                     \
                if (w->b_col == 1) for (int64_t j = 0; j < w->n; j++) c[j] = (T)(c[j] PLUS (x TIMES b[j]));         \
                else for (int64_t j = 0; j < w->n; j++) c[j] = (T)(c[j] PLUS (x TIMES b[j * w->b_col]));            \
            }                                                                                                       \
            if (bias) for (int64_t j = 0; j < w->n; j++) c[j] = (T)(c[j] PLUS bias[j]);                             \
        }                                                                                                           \
    }
PLAIN_PRODUCT(product_u8, uint8_t, uint32_t, *, +)
PLAIN_PRODUCT(product_u16, uint16_t, uint32_t, *, +)
PLAIN_PRODUCT(product_u32, uint32_t, uint32_t, *, +)
PLAIN_PRODUCT(product_u64, uint64_t, uint64_t, *, +)
PLAIN_PRODUCT(product_bool, uint8_t, uint32_t, &, |)
#undef PLAIN_PRODUCT

/* Signed integers wrap like unsigned ones. */
static void product_plain(const cr_product *w, cr_dtype dt) {
    switch (dt) {
        case CR_BOOL: product_bool(w); break;
        case CR_U8: case CR_I8: product_u8(w); break;
        case CR_U16: case CR_I16: product_u16(w); break;
        case CR_U32: case CR_I32: product_u32(w); break;
        default: product_u64(w);
    }
}

/* ---- one item ---- */

/* The width of a row of b in whole vectors. */
static int64_t packed_width(int64_t n, const cr_product_kernels *kernels) {
    return (n + kernels->tile_columns - 1) / kernels->tile_columns * kernels->tile_columns;
}

static void add_bias(float *c, const cr_product *w) {
    const float *bias = w->bias;
    for (int64_t i = 0; i < w->m; i++, c += w->c_row)
        for (int64_t j = 0; j < w->n; j++) c[j] += bias[j];
}

static bool product_onednn(const cr_product *w) {
    cr_onednn_product p = {.m = w->m, .n = w->n, .k = w->k, .a = w->a, .b = w->b, .c = w->c, .c_stride = w->c_row,
                           .a_transposed = w->a_col != 1, .b_transposed = w->b_col != 1, .beta = w->accumulate ? 1 : 0};
    p.a_stride = p.a_transposed ? w->a_col : w->a_row;
    p.b_stride = p.b_transposed ? w->b_col : w->b_row;
    if (!cr_onednn_sgemm(&p)) return false;
    if (w->bias) add_bias(w->c, w);
    return true;
}

/* Packs b first, as a whole, if its columns are not contiguous; b is small here. */
static void product_direct(const cr_product *w, const cr_product_kernels *kernels, void *scratch) {
    if (w->b_col == 1 || w->k == 0) { kernels->direct(w); return; }
    cr_product p = *w;
    p.b = scratch;
    p.b_row = packed_width(w->n, kernels);
    p.b_col = 1;
    kernels->pack(scratch, p.b_row, w->n, w->k, w->b, w->b_col, w->b_row);
    kernels->direct(&p);
}

static void add_half_bias(float *c, const cr_product *w, const job *j, float *block) {
    for (int64_t i = 0, n; i < w->n; i += n) {
        n = cr_imin(w->n - i, HALF_BLOCK);
        cr_block_load(CR_LANE_F32, block, j->dtype, (const uint16_t *)w->bias + i, 1, n);
        for (int64_t k = 0; k < n; k++) c[i + k] += block[k];
    }
}

/* One row of half precision; c is rounded once.  Rows of b are converted to f32 in blocks, in the order of memory. */
static void product_half_row(const cr_product *w, const job *j, float *scratch) {
    const struct cr_products *products = j->isa->products;
    float *block = scratch, *a = block + HALF_BLOCK, *c = a + w->k;
    cr_product p = {.m = 1, .n = w->n, .k = w->k, .a = a, .a_col = 1, .b = w->b, .b_row = 1, .b_col = w->b_col, .c = c,
                    .accumulate = w->accumulate};
    cr_block_load(CR_LANE_F32, a, j->dtype, w->a, w->a_col, w->k);
    if (w->accumulate) cr_block_load(CR_LANE_F32, c, j->dtype, w->c, 1, w->n);
    if (w->b_row == 1) (j->dtype == CR_F16 ? products->row_f16 : products->row_bf16)(&p);
    else {
        const int64_t run = cr_imin(w->n, HALF_BLOCK), some = HALF_BLOCK / run;
        for (int64_t k = 0; k < w->k; k += some)
            for (int64_t i = 0; i < w->n; i += run) {
                p = (cr_product){.m = 1, .n = cr_imin(w->n - i, run), .k = cr_imin(w->k - k, some), .a = a + k,
                                 .a_col = 1, .b = block, .b_row = run, .b_col = 1, .c = c + i,
                                 .accumulate = w->accumulate || k > 0};
                for (int64_t r = 0; r < p.k; r++)
                    cr_block_load(CR_LANE_F32, block + r * run, j->dtype,
                                  (const uint16_t *)w->b + (k + r) * w->b_row + i, 1, p.n);
                products->f32.row(&p);
            }
    }
    if (w->bias) add_half_bias(c, w, j, block);
    cr_block_store(CR_LANE_F32, c, j->dtype, w->c, 1, w->n);
}

static bool product(const cr_product *w, const job *j, void *scratch) {
    const cr_product_kernels *kernels = j->dtype == CR_F64 ? &j->isa->products->f64 : &j->isa->products->f32;
    switch (j->path) {
        case DIRECT: product_direct(w, kernels, scratch); return true;
        case PACKED: return cr_packed_product(w, j->dtype, j->bf16, NULL);
        case ROW: kernels->row(w); return true;
        case OUTER: kernels->outer(w); return true;
        case HALF_ROW: product_half_row(w, j, scratch); return true;
        case FEW: kernels->few(w); return true;
        case ONEDNN: return product_onednn(w);
        case PLAIN: break;
    }
    product_plain(w, j->dtype);
    return true;
}

/* ---- items ---- */

static const void *ahead(const void *p, int64_t elements, size_t size) {
    return (const char *)p + elements * (int64_t)size;
}

static cr_product part_of_k(const job *j, int64_t part) {
    cr_product w = j->one;
    int64_t from = part * j->part_k;
    w.k = cr_imin(w.k - from, j->part_k);
    w.a = ahead(w.a, from * w.a_col, j->size);
    w.b = ahead(w.b, from * w.b_row, j->size);
    w.c = (char *)j->partial + (size_t)(part * w.m * w.n) * j->size;
    w.c_row = w.n;
    w.bias = NULL;
    w.accumulate = false;
    return w;
}

static cr_product item_at(const job *j, int64_t item) {
    if (j->parts > 1) return part_of_k(j, item);
    cr_product w = j->one;
    int64_t tiles = j->tiles_m * j->tiles_n, batch = item / tiles, tile = item % tiles, a = 0, b = 0, c = 0;
    for (int i = j->axes - 1; i >= 0; i--) {
        int64_t at = batch % j->batch[i].size;
        batch /= j->batch[i].size;
        a += at * j->batch[i].a; b += at * j->batch[i].b; c += at * j->batch[i].c;
    }
    int64_t m = tile / j->tiles_n * j->tile_m, n = tile % j->tiles_n * j->tile_n;
    w.m = cr_imin(w.m - m, j->tile_m);
    w.n = cr_imin(w.n - n, j->tile_n);
    w.a = ahead(w.a, a + m * w.a_row, j->size);
    w.b = ahead(w.b, b + n * w.b_col, j->size);
    w.c = (char *)w.c + (c + m * w.c_row + n) * (int64_t)j->c_size;
    if (w.bias && !w.one_bias) w.bias = ahead(w.bias, n, j->c_size);
    return w;
}

/* Steps to the next product of a batch.  For small products the divisions of item_at would dominate. */
static void next_product(const job *j, int64_t at[CR_MAX_DIMS], cr_product *w) {
    for (int i = j->axes - 1; i >= 0; i--) {
        const axis *x = &j->batch[i];
        const bool again = ++at[i] == x->size;
        const int64_t steps = again ? 1 - x->size : 1;
        w->a = ahead(w->a, steps * x->a, j->size);
        w->b = ahead(w->b, steps * x->b, j->size);
        w->c = (char *)w->c + steps * x->c * (int64_t)j->c_size;
        if (!again) return;
        at[i] = 0;
    }
}

static bool run_items(const job *j, int64_t first, int64_t end, void *scratch) {
    const bool whole = j->parts == 1 && j->tiles_m * j->tiles_n == 1;
    cr_product w = item_at(j, first);
    int64_t at[CR_MAX_DIMS], rest = first;
    bool ok = true;
    for (int i = j->axes - 1; i >= 0; i--) {
        at[i] = rest % j->batch[i].size;
        rest /= j->batch[i].size;
    }
    for (int64_t i = first; i < end; i++) {
        ok &= product(&w, j, scratch);
        if (whole) next_product(j, at, &w);
        else if (i + 1 < end) w = item_at(j, i + 1);
    }
    return ok;
}

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    _Alignas(64) char small[32 << 10];
    void *scratch = j->scratch <= sizeof small ? small : cr_cpu_try_take(j->scratch);
    if (!scratch) { atomic_store(&j->failed, true); return; }
    if (!run_items(j, chunk * j->group, cr_imin(j->items, (chunk + 1) * j->group), scratch))
        atomic_store(&j->failed, true);
    if (scratch != small) cr_cpu_give(scratch, j->scratch);
}

/* c = [c +] the sum of the parts, in order, [+ bias] */
#define ADD_PARTS(name, T)                                                                                          \
    static void name(const job *j) {                                                                                \
        const cr_product *w = &j->one;                                                                              \
        for (int64_t i = 0; i < w->m; i++) {                                                                        \
            T *c = (T *)w->c + i * w->c_row;                                                                        \
            const T *part = (const T *)j->partial + i * w->n, *bias = w->bias;                                      \
            for (int64_t n = 0; n < w->n; n++) {                                                                    \
                T s = part[n];                                                                                      \
                for (int64_t p = 1; p < j->parts; p++) s += part[p * w->m * w->n + n];                              \
                c[n] = (w->accumulate ? c[n] : 0) + (s + (bias ? bias[w->one_bias ? 0 : n] : 0));                   \
            }                                                                                                       \
        }                                                                                                           \
    }
ADD_PARTS(add_parts_f32, float)
ADD_PARTS(add_parts_f64, double)
#undef ADD_PARTS

/* ---- the plan: everything below looks at shapes, strides and dtypes only ---- */

static void put_axis(job *j, axis x) {
    for (int s = j->axes++; s > 0; s--) j->batch[s] = j->batch[s - 1];
    j->batch[0] = x;
    j->batches *= x.size;
}

/* Adds batch axis x, which lies outside those added so far.  Where b is the same along the whole axis,
 * and rows of a and c continue across it, the axis becomes rows instead: (B, T, C) x (C, V) is one
 * product. */
static void add_axis(job *j, axis x) {
    cr_product *w = &j->one;
    if (x.size == 1) return;
    if (!j->axes && x.b == 0 && w->m == 1) {
        w->m = x.size;
        w->a_row = x.a;
        w->c_row = x.c;
        return;
    }
    if (!j->axes && x.b == 0 && x.a == w->m * w->a_row && x.c == w->m * w->c_row) {
        w->m *= x.size;
        return;
    }
    put_axis(j, x);
}

/* A column is a row of the transposed product.  Columns of a batch that meet one a become its rows: (M, K) x (B, K, 1)
 * is one product. */
static void transpose_column(job *j) {
    const cr_product t = j->one;
    if (t.n != 1 || t.c_row != 1 || t.m == 1) return;
    if (t.bias && (j->bf16 || (j->dtype != CR_F32 && j->dtype != CR_F64))) return;
    j->one = (cr_product){.m = 1, .n = t.m, .k = t.k, .a = t.b, .b = t.a, .c = t.c, .accumulate = t.accumulate,
                          .bias = t.bias, .one_bias = t.bias,
                          .a_row = t.b_col, .a_col = t.b_row, .b_row = t.a_col, .b_col = t.a_row, .c_row = t.m,
                          .wide = t.wide};
    const int axes = j->axes;
    axis batch[CR_MAX_DIMS];
    memcpy(batch, j->batch, sizeof batch);
    j->axes = 0;
    j->batches = 1;
    for (int i = axes - 1; i >= 0; i--) {
        const axis x = {batch[i].size, batch[i].b, batch[i].a, batch[i].c};
        if (t.bias) put_axis(j, x);                 /* which is one number only in a row */
        else add_axis(j, x);
    }
}

static job job_of(cr_dtype dtype, cr_dtype of_c, int how) {
    return (job){.dtype = dtype, .size = cr_dtype_size(dtype), .c_size = cr_dtype_size(of_c), .isa = cr_cpu_vec(),
                 .batches = 1, .bf16 = dtype == CR_F32 && how & CR_MATMUL_BF16};
}

static void read_shapes(job *j, const cr_matmul_args *args) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b, *bias = cr_present(&args->bias);
    const int row = c->ndim - 2, col = c->ndim - 1;
    j->one = (cr_product){.m = c->shape[row],
                          .n = c->shape[col],
                          .k = a->shape[col],
                          .a = cr_array_data(a),
                          .b = cr_array_data(b),
                          .c = cr_array_data(c),
                          .bias = bias ? cr_array_data(bias) : NULL,
                          .a_row = a->strides[row],
                          .a_col = a->strides[col],
                          .b_row = b->strides[row],
                          .b_col = b->strides[col],
                          .c_row = c->strides[row],
                          .accumulate = args->how & CR_MATMUL_ADD,
                          .wide = a->dtype != c->dtype};
    for (int i = row - 1; i >= 0; i--) add_axis(j, (axis){c->shape[i], a->strides[i], b->strides[i], c->strides[i]});
    if (j->one.k == 0) j->one.a = j->one.b = j->one.c;          /* never read, but addresses are computed from them */
    transpose_column(j);
}

/* oneDNN needs one unit stride in each matrix and rows that do not overlap.  It is faster only with
 * AVX-512, for gradients (b is read in the order of memory) with results of moderate size. */
static bool suits_onednn(const job *j) {
    const cr_product *w = &j->one;
    bool a = (w->a_col == 1 && w->a_row >= w->k) || (w->a_row == 1 && w->a_col >= w->m);
    return j->isa->isa == 4 && j->dtype == CR_F32 && !j->bf16 && a && w->b_col == 1 && w->b_row >= w->n &&
           w->c_row >= w->n && flops_of(w) >= large && w->m <= ONEDNN_ROWS && w->n <= ONEDNN_COLUMNS;
}

/* Number of tiles for so many flops and results: eight; more for large products as long as tiles stay wide. */
static int64_t pieces_of(double flops, int64_t results) {
    if (flops < 8 * grain) return cr_imax(1, (int64_t)(flops / grain));
    return cr_imax(8, cr_imin(cr_imin(64, results >> 14), (int64_t)(flops / large)));
}

/* Cuts c into about `pieces` tiles.  Every tile packs its own rows of a and columns of b, b at twice
 * the cost.  OUTER (k = 1) writes whole rows one after another. */
static void cut_tiles(job *j, int64_t pieces) {
    const cr_product *w = &j->one;
    double best = 0;
    for (int64_t across = cr_imax(1, pieces / w->m); across <= (j->path == OUTER ? cr_imax(1, pieces / w->m) : pieces);
         across++) {
        int64_t down = (pieces + across - 1) / across;
        int64_t wide = ((w->n + across - 1) / across + 31) / 32 * 32, high = (w->m + down - 1) / down;
        int64_t tiles_m = (w->m + high - 1) / high, tiles_n = (w->n + wide - 1) / wide;
        double covered = (double)(tiles_m * tiles_n) * (double)high * (double)wide;
        double cost = covered + 8.0 * (double)tiles_n * (double)w->m + 16.0 * (double)tiles_m * (double)w->n;
        if (best > 0 && cost >= best) continue;
        best = cost;
        j->tile_m = high; j->tile_n = wide;
        j->tiles_m = tiles_m; j->tiles_n = tiles_n;
    }
}

/* Reading operands in place is best while a strip of b, k rows, stays in the cache; large strides map
 * to few cache sets. */
static bool suits_direct(const job *j) {
    const cr_product *w = &j->one;
    if (cr_dtype_is_half(j->dtype) || j->bf16) return false;
    if (w->k == 0 || w->m <= 8) return true;
    int64_t step = (w->b_col == 1 ? w->b_row : w->n) * (int64_t)j->size;
    if (flops_of(w) > (w->b_col == 1 ? 128 : 1) * grain) return false;
    if (j->isa->isa == 4) return w->k <= 512 || (w->k <= 1024 && step < 4096);
    return w->k <= 512 && step <= 2048;
}

static path choose_path(const job *j) {
    const cr_product *w = &j->one;
    if (cr_dtype_kind(j->dtype) != CR_KIND_FLOAT) return PLAIN;
    if (w->wide) return PACKED;
    if (w->m == 1 && !cr_dtype_is_half(j->dtype) && !j->bf16) return ROW;
    if (w->k == 1 && w->b_col == 1 && w->n >= WIDE_OUTER && !cr_dtype_is_half(j->dtype) && !j->bf16) return OUTER;
    if (w->m == 1 && w->k && cr_dtype_is_half(j->dtype) && (w->b_row == 1 || w->b_col == 1)) return HALF_ROW;
    if (w->m <= FEW_ROWS && w->k >= 64 && w->a_col == 1 && w->b_row == 1 && w->b_col != 1 &&
        !cr_dtype_is_half(j->dtype) && !j->bf16)
        return FEW;
    if (suits_onednn(j) && cr_onednn_ready()) return ONEDNN;
    return suits_direct(j) ? DIRECT : PACKED;
}

static size_t scratch_of(const job *j) {
    bool packs = j->path == DIRECT && j->one.b_col != 1;
    if (j->path == HALF_ROW) return (size_t)(HALF_BLOCK + j->one.k + j->tile_n) * sizeof(float);
    int64_t k = j->parts > 1 ? j->part_k : j->one.k;
    return packs ? (size_t)(k * packed_width(j->tile_n, &j->isa->products->f32)) * j->size : 0;
}

/* Is the product cut along k?  If c is small, or if a single row meets the rows of b, which are then
 * read in long pieces. */
static bool cuts_k(const job *j, int64_t pieces) {
    const cr_product *w = &j->one;
    if (pieces == 1 || j->batches > 1 || (j->dtype != CR_F32 && j->dtype != CR_F64)) return false;
    if (j->path == ROW && w->b_col == 1 && w->n > 1) return w->k >= 16 * pieces && w->n <= LONG_ROW;
    return w->m * w->n <= 4096 && w->k >= 1 << 14;
}

static void plan(job *j) {
    const cr_product *w = &j->one;
    j->path = choose_path(j);
    j->tile_m = w->m; j->tile_n = w->n;
    j->tiles_m = j->tiles_n = j->parts = 1;
    /* A flop of a memory-bound path or of a plain loop takes about eight times as long. */
    double flops = flops_of(w) *
                   (j->path == ROW || j->path == HALF_ROW || j->path == OUTER || j->path == PLAIN ? 8 : 1),
           all = flops * (double)j->batches;
    int64_t pieces = cr_pieces(pieces_of(all, j->batches * w->m * w->n), j->batches);
    if (cuts_k(j, pieces)) {
        j->part_k = cr_pieces(w->k, cr_imin(pieces, 16));
        j->parts = cr_pieces(w->k, j->part_k);
    } else if (pieces > 1 && j->path != PACKED) cut_tiles(j, pieces);
    j->items = j->parts > 1 ? j->parts : j->batches * j->tiles_m * j->tiles_n;
    j->group = cr_imax(1, (int64_t)(grain * (double)j->items / (all + 1)));
    if (j->path == PACKED && flops > 16 * grain) j->group = j->items;           /* each is cut inside */
    j->scratch = scratch_of(j);
}

static cr_status run_product(job *j) {
    size_t partial = j->parts > 1 ? (size_t)(j->parts * j->one.m * j->one.n) * j->size : 0;
    if (partial && !(j->partial = cr_cpu_take(partial))) return CR_NO_MEMORY;
    int64_t chunks = cr_pieces(j->items, j->group);
    if (chunks == 1) run_chunk(j, 0, 0);
    else cr_pool_run_in_order(chunks, run_chunk, j);
    bool failed = atomic_load(&j->failed);
    if (partial && !failed) {
        if (j->dtype == CR_F32) add_parts_f32(j);
        else add_parts_f64(j);
    }
    cr_cpu_give(j->partial, partial);
    return failed ? cr_fail(CR_NO_MEMORY, "matmul", "no memory for a block of the product") : CR_OK;
}

/* [first, first + n) of an axis of a batch */
static cr_array along(cr_array x, int d, int64_t first, int64_t n) {
    x.offset += first * x.strides[d];
    x.numel = x.numel / x.shape[d] * n;
    x.shape[d] = n;
    x.contiguous = x.contiguous && d == 0;
    return x;
}

/* The axis of a batch along which all products are the same, as those of vmap are that read nothing mapped; -1: none */
static int repeated_axis(const cr_matmul_args *args) {
    for (int i = 0; i + 2 < args->c.ndim && !(args->how & CR_MATMUL_ADD); i++)
        if (args->c.shape[i] > 1 && !args->a.strides[i] && !args->b.strides[i]) return i;
    return -1;
}

static cr_status multiply_once(const cr_matmul_args *args, int d) {
    cr_matmul_args one = *args;
    one.a = along(args->a, d, 0, 1);
    one.b = along(args->b, d, 0, 1);
    one.c = along(args->c, d, 0, 1);
    const cr_status status = cr_cpu_matmul(&one);
    cr_copy_args others = {.dst = along(args->c, d, 1, args->c.shape[d] - 1), .src = args->c};
    others.src = along(others.src, d, 0, args->c.shape[d] - 1);
    others.src.strides[d] = 0;
    return status == CR_OK ? cr_cpu_copy(&others) : status;
}

cr_status cr_cpu_matmul(const cr_matmul_args *args) {
    if (args->c.numel == 0) return CR_OK;
    const int repeated = repeated_axis(args);
    if (repeated >= 0) return multiply_once(args, repeated);
    job j = job_of(args->a.dtype, args->c.dtype, args->how);
    read_shapes(&j, args);
    plan(&j);
    return run_product(&j);
}

/* ---- updates by a product ---- */

bool cr_product_update_rows(const cr_product_update *u, int64_t first, const cr_product *c) {
    cr_walk w = *u->walk;
    w.numel = w.shape[0] = c->m * c->n;
    for (int i = 0; i < w.n_out; i++)
        w.out[i].data = (char *)w.out[i].data + (size_t)(first * c->n) * cr_dtype_size(w.out[i].dtype);
    for (int i = 0; i < w.n_in; i++)
        w.in[i].data = (char *)w.in[i].data + (size_t)(first * c->n) * cr_dtype_size(w.in[i].dtype);
    w.in[u->input].data = c->c;
    w.in[u->input].storage = NULL;                  /* only a block of the product exists */
    return cr_cpu_elementwise(&(cr_elementwise_args){&w, 1}) == CR_OK;
}

/* Else the product alone would be oneDNN's, which adds in another order. */
bool cr_cpu_update_keeps_bits(const cr_matmul_args *args) {
    job j = job_of(args->a.dtype, args->c.dtype, args->how);
    j.one = (cr_product){.m = args->c.shape[0], .n = args->c.shape[1], .k = args->a.shape[1],
                         .a_row = args->a.strides[0], .a_col = args->a.strides[1], .b_row = args->b.strides[0],
                         .b_col = args->b.strides[1], .c_row = args->c.shape[1],
                         .wide = args->a.dtype != args->c.dtype};
    plan(&j);
    return j.path != ONEDNN || !cr_packed_by_rows(&j.one, j.dtype, j.bf16);
}

cr_status cr_cpu_update_by_product(const cr_update_by_product_args *args) {
    const cr_array *a = &args->a, *b = &args->b;
    const cr_product_update into = {args->update, args->input};
    const cr_dtype of_c = args->update->in[args->input].dtype;
    job j = job_of(a->dtype, of_c, args->how);
    j.one = (cr_product){.wide = a->dtype != of_c,
                         .m = a->shape[0],
                         .n = b->shape[1],
                         .k = a->shape[1],
                         .a = cr_array_data(a),
                         .b = cr_array_data(b),
                         .a_row = a->strides[0],
                         .a_col = a->strides[1],
                         .b_row = b->strides[0],
                         .b_col = b->strides[1],
                         .c_row = b->shape[1]};
    plan(&j);
    if ((j.path == PACKED || j.path == ONEDNN) && j.parts == 1 && cr_packed_by_rows(&j.one, j.dtype, j.bf16)) {
        if (cr_packed_product(&j.one, j.dtype, j.bf16, &into)) return CR_OK;
        return cr_fail(CR_NO_MEMORY, "matmul", "no memory for a block of the product");
    }
    const size_t bytes = (size_t)args->update->numel * j.c_size;
    if (!(j.one.c = cr_cpu_take(bytes))) return CR_NO_MEMORY;
    cr_status status = run_product(&j);
    if (status == CR_OK && !cr_product_update_rows(&into, 0, &j.one)) status = cr_error_status();
    cr_cpu_give(j.one.c, bytes);
    return status;
}

const cr_product_kernels *cr_product_bf16(bool from_f32) {
#if defined(__x86_64__)
    if (cr_cpu_bf16()) return cr_product_pairs(from_f32);
#endif
    (void)from_f32;
    return NULL;
}
