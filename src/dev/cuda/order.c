/* order.c - rows of x (M, R) in order, single elements of them, places in a sorted row, runs of equal rows (order.cu).
 *
 * Short rows are ranked: a thread reads its whole row, which the cache has.  A row of one tile is sorted by its block in shared memory, read
 * and written once.  So are the tiles of a long row where few elements are wanted: the first K of each tile are rows again.  Else each
 * digit of eight bits costs reading the elements twice and writing them once with their positions: for f32 4 (4 + 8 + 8) bytes an element
 * and 18 % more for counts, where merging tiles in pairs would take 16 bytes for each doubling.  A single element far from the beginning is
 * found by its digits, the row read once for each and once more: of f32 20 bytes an element.  So is the last of the first K of many elements,
 * where these are a part of each row: then they are collected and sorted. */
#include "order.h"
#include "scan.h"

enum {
    RANKED = 64,                                    /* elements of a row that is ranked */
    TILE = 2048,                                    /* that a block sorts */
    FEW = TILE / 2,                                 /* wanted of a long row: tiles leave half at most */
    MANY = 1 << 20, PART = 4,                       /* elements, of which to select takes less than the 12 launches that it costs; of a row, as many as are wanted at most */
    DIGITS = 256
};

static int64_t pieces(int64_t n, int64_t each) { return (n + each - 1) / each; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype dt, bool long_rows) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_order, name, "#define T %s\n#define PLACE %s\n#define TILE %d\n", cr_cuda_type(dt), long_rows ? "u64" : "u32", TILE);
}

/* Memory in parts, each of which begins where any element may. */
typedef struct parts { cuda_block *block; size_t bytes, at[6]; int n; } parts;
static void add_part(parts *p, int64_t count, size_t size) {
    p->at[p->n++] = p->bytes;
    p->bytes += ((size_t)count * size + 511) / 512 * 512;
}
static bool take_parts(cuda *g, const char *op, parts *p) { return (p->block = cr_cuda_block_take(g, op, p->bytes)) != NULL; }
static cuda_address part_at(const parts *p, int i) { return p->block->at + p->at[i]; }

/* One launch of a kernel over tiles: from what, into what. */
typedef struct step { const char *name; cuda_address x, from, y, places, index, counts, ends; int64_t R, K, next, tiles, shift; } step;
static cr_status run(cuda *g, const cuda_ordering *s, const step *t) {
    const cuda_kernel *k = kernel_of(g, s->op, t->name, s->dtype, s->R > UINT32_MAX);
    cuda_words q = {.n = 13, .w = {t->y, t->places, t->index, t->x, t->from, t->counts, t->ends, (uint64_t)t->R, (uint64_t)t->K, (uint64_t)t->next, (uint64_t)t->tiles, (uint64_t)t->shift,
                                   s->descending ? UINT64_MAX : 0}};
    return k ? cr_cuda_launch_struct(g, s->op, k, &q, s->M * t->tiles) : cr_error_status();
}

static size_t place_bytes(const cuda_ordering *s) { return s->R > UINT32_MAX ? 8 : 4; }

/* from: where the R elements of each row of x lay; 0: there. */
static cr_status sort_tiles(cuda *g, const cuda_ordering *s, cuda_address x, cuda_address from, int64_t R) {
    step t = {.name = "sort_tile", .x = x, .from = from, .y = s->y, .index = s->index, .R = R, .K = s->K, .next = s->K, .tiles = pieces(R, TILE)};
    if (t.tiles == 1) return run(g, s, &t);
    parts p = {0};
    t.next = (t.tiles - 1) * s->K + least(s->K, R - (t.tiles - 1) * TILE);
    add_part(&p, s->M * t.next, cr_dtype_size(s->dtype));
    add_part(&p, s->M * t.next, place_bytes(s));
    if (!take_parts(g, s->op, &p)) return cr_error_status();
    t.y = part_at(&p, 0), t.places = part_at(&p, 1), t.index = 0;
    cr_status status = run(g, s, &t);
    if (status == CR_OK) status = sort_tiles(g, s, t.y, t.places, t.next);
    cr_cuda_block_give(g, p.block);
    return status;
}

static cr_status sort_digits(cuda *g, const cuda_ordering *s, cuda_address from, const parts *p) {
    const int digits = (int)cr_dtype_size(s->dtype);
    step t = {.x = s->x, .from = from, .counts = part_at(p, 0), .ends = part_at(p, 1), .R = s->R, .tiles = pieces(s->R, TILE)};
    const cuda_running sum = {.op = s->op, .kind = CR_SCAN_SUM, .from = CR_U32, .to = CR_I64, .y = t.ends, .x = t.counts, .M = s->M, .R = t.tiles, .N = DIGITS};
    cr_status status = CR_OK;
    for (int d = 0; d < digits && status == CR_OK; d++) {
        const bool last = d == digits - 1;
        const int to = 2 + 2 * (d % 2);
        t.shift = 8 * d;
        t.y = last ? s->y : part_at(p, to);
        t.places = last ? 0 : part_at(p, to + 1);
        t.index = last ? s->index : 0;
        t.K = t.next = last ? s->K : s->R;
        t.name = "count";
        status = run(g, s, &t);
        if (status == CR_OK) status = cr_cuda_run_along(g, &sum);
        t.name = "scatter";
        if (status == CR_OK) status = run(g, s, &t);
        t.x = t.y, t.from = t.places;
    }
    return status;
}

static cr_status sort_rows(cuda *g, const cuda_ordering *s, cuda_address from) {
    if (s->R <= TILE || s->K <= FEW) return sort_tiles(g, s, s->x, from, s->R);
    parts p = {0};
    const int64_t tiles = pieces(s->R, TILE);
    const size_t size = cr_dtype_size(s->dtype);
    add_part(&p, s->M * tiles * DIGITS, 4);
    add_part(&p, s->M * tiles * DIGITS, 8);
    for (size_t spare = 1; spare < size && spare <= 2; spare++) {      /* written by one digit and read by the next */
        add_part(&p, s->M * s->R, size);
        add_part(&p, s->M * s->R, place_bytes(s));
    }
    cr_status status = take_parts(g, s->op, &p) ? sort_digits(g, s, from, &p) : cr_error_status();
    if (p.block) cr_cuda_block_give(g, p.block);
    return status;
}

/* ---- by digits, from the highest on: element k of each row, counts of what comes before it and is equal to it; and from these something else */
static cr_status select_run(cuda *g, const cuda_ordering *s, const char *name, int64_t blocks, cuda_words *q) {
    const cuda_kernel *kernel = kernel_of(g, s->op, name, s->dtype, false);
    return kernel ? cr_cuda_launch_struct(g, s->op, kernel, q, blocks) : cr_error_status();
}

static cr_status select_kth(cuda *g, const cuda_ordering *s, int64_t k, bool all_before) {
    const int64_t tiles = pieces(s->R, TILE), most = s->M * (tiles > 257 ? tiles : 257);
    parts p = {0};
    add_part(&p, most, 8);
    add_part(&p, s->M, 16);
    const size_t cleared = p.bytes;
    if (all_before) {
        add_part(&p, s->M * tiles, 8);
        add_part(&p, s->M * s->K, cr_dtype_size(s->dtype));
        add_part(&p, s->M * s->K, 4);
    }
    if (!take_parts(g, s->op, &p)) return cr_error_status();
    const cuda_address counts = part_at(&p, 0);
    enum { SHIFT = 7 };
    cuda_words q = {.n = 12, .w = {s->y, s->index, s->x, counts, part_at(&p, 1), (uint64_t)s->R, (uint64_t)tiles, 0, (uint64_t)k, 0, 0, s->descending ? UINT64_MAX : 0}};
    cr_status status = cr_cuda_check(g, s->op, "memory is not set", cr_cu.MemsetD8Async(counts, 0, cleared, g->stream));
    for (int digit = (int)cr_dtype_size(s->dtype) - 1; digit >= 0 && status == CR_OK; digit--) {
        q.w[SHIFT] = (uint64_t)(8 * digit);
        status = select_run(g, s, "select_count", s->M * tiles, &q);
        if (status == CR_OK) status = select_run(g, s, "select_step", s->M, &q);
    }
    if (status == CR_OK) status = select_run(g, s, "select_equal", s->M * tiles, &q);
    if (!all_before && status == CR_OK) status = select_run(g, s, "select_place", s->M, &q);
    if (all_before && status == CR_OK) {
        const cuda_address ends = part_at(&p, 2), places = part_at(&p, 4);
        const cuda_running sum = {.op = s->op, .kind = CR_SCAN_SUM, .from = CR_I64, .to = CR_I64, .y = ends, .x = counts, .M = s->M, .R = tiles, .N = 1};
        cuda_ordering few = *s;
        q.w[0] = few.x = part_at(&p, 3), q.w[9] = places, q.w[10] = ends;
        few.R = s->K;
        status = cr_cuda_run_along(g, &sum);
        if (status == CR_OK) status = select_run(g, s, "select_collect", s->M * tiles, &q);
        if (status == CR_OK) status = sort_rows(g, &few, places);
    }
    cr_cuda_block_give(g, p.block);
    return status;
}

cr_status cr_cuda_order_rows(cuda *g, const cuda_ordering *s) {
    if (s->R <= RANKED) {
        const cuda_kernel *k = kernel_of(g, s->op, "rank", s->dtype, false);
        cuda_words q = {.n = 7, .w = {s->y, s->index, s->x, (uint64_t)s->M, (uint64_t)s->R, (uint64_t)s->K, s->descending ? UINT64_MAX : 0}};
        return k ? cr_cuda_launch(g, s->op, k, &q, cr_cuda_blocks(g, s->M * s->R)) : cr_error_status();
    }
    const bool few_of_many = s->R > TILE && s->R <= INT32_MAX && PART * s->K <= s->R && s->M * s->R >= MANY;
    return few_of_many ? select_kth(g, s, s->K - 1, true) : sort_rows(g, s, 0);
}

cr_status cr_cuda_sort(const cr_sort_args *args) {
    const cr_array *y = &args->y, *index = &args->index, *x = &args->x;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], K = args->index.shape[1];
    const bool descending = args->descending;
    static const char op[] = "sort";
    if (!M) return CR_OK;
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const cuda_ordering s = {op, x->dtype, descending, cuda_address_of(y), cuda_address_of(index), cuda_address_of(x), M, R, K};
    return cr_cuda_leave(g, cr_cuda_order_rows(g, &s));
}

/* ---- single elements: of long rows by their digits, of others from the beginning of the sorted row, or all of it */
static cr_status find_kth(cuda *g, cuda_ordering *s, int64_t k) {
    parts p = {0};
    const cuda_address y = s->y, index = s->index;
    add_part(&p, s->M * s->K, cr_dtype_size(s->dtype));
    add_part(&p, s->M * s->K, 8);
    if (!take_parts(g, s->op, &p)) return cr_error_status();
    s->y = part_at(&p, 0), s->index = part_at(&p, 1);
    const cuda_kernel *pick = kernel_of(g, s->op, "pick", s->dtype, false);
    cuda_words q = {.n = 8, .w = {y, index, s->y, s->index, (uint64_t)s->M, (uint64_t)s->R, (uint64_t)s->K, (uint64_t)k}};
    cr_status status = pick ? cr_cuda_order_rows(g, s) : cr_error_status();
    if (status == CR_OK) status = cr_cuda_launch(g, s->op, pick, &q, cr_cuda_blocks(g, s->M));
    cr_cuda_block_give(g, p.block);
    return status;
}

cr_status cr_cuda_kth(const cr_kth_args *args) {
    const cr_array *y = &args->y, *index = &args->index, *x = &args->x;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], k = args->k;
    static const char op[] = "kthvalue";
    if (!M) return CR_OK;
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    cuda_ordering s = {op, x->dtype, false, cuda_address_of(y), cuda_address_of(index), cuda_address_of(x), M, R, k < 0 ? R : k + 1};
    return cr_cuda_leave(g, R > TILE && s.K > FEW ? select_kth(g, &s, k, false) : find_kth(g, &s, k));
}

/* ---- places in a sorted row: a thread each */
cr_status cr_cuda_search(const cr_search_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *v = &args->v;
    const int64_t M = args->v.shape[0], R = args->x.shape[args->x.ndim - 1], K = args->v.shape[1];
    const bool shared = args->x.ndim == 1, right = args->right;
    static const char op[] = "searchsorted";
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const cuda_kernel *k = kernel_of(g, op, "search", x->dtype, false);
    cuda_words q = {.n = 8, .w = {cuda_address_of(y), cuda_address_of(x), cuda_address_of(v), (uint64_t)(M * K), (uint64_t)R, (uint64_t)K, shared ? 0 : (uint64_t)R, right}};
    return cr_cuda_leave(g, k ? cr_cuda_launch(g, op, k, &q, cr_cuda_blocks(g, M * K)) : cr_error_status());
}

/* ---- runs of equal rows */
typedef struct runs { cuda_address run, starts, count, order; int64_t R, C; } runs;
static cr_status find_runs(cuda *g, const runs *r, const cr_array *x) {
    static const char op[] = "runs";
    parts p = {0};
    int64_t width = 1;                              /* threads that share a row */
    while (2 * width <= least(r->C, CUDA_GROUP)) width *= 2;
    add_part(&p, r->R, 1);
    add_part(&p, r->R, 8);
    if (!take_parts(g, op, &p)) return cr_error_status();
    const cuda_address begins = part_at(&p, 0), begun = part_at(&p, 1);
    const cuda_running sum = {.op = op, .kind = CR_SCAN_SUM, .from = CR_U8, .to = CR_I64, .y = begun, .x = begins, .M = 1, .R = r->R, .N = 1};
    cuda_words q = {.n = 5, .w = {begins, cuda_address_of(x), (uint64_t)r->R, (uint64_t)r->C, (uint64_t)width}};
    cuda_words numbers = {.n = 6, .w = {r->run, r->starts, r->count, begun, r->order, (uint64_t)r->R}};
    const cuda_kernel *first = kernel_of(g, op, "begins", x->dtype, false), *last = first ? kernel_of(g, op, "number", x->dtype, false) : NULL;
    cr_status status = last ? cr_cuda_launch(g, op, first, &q, pieces(r->R * width, CUDA_GROUP)) : cr_error_status();
    if (status == CR_OK) status = cr_cuda_run_along(g, &sum);
    if (status == CR_OK) status = cr_cuda_launch(g, op, last, &numbers, cr_cuda_blocks(g, r->R));
    cr_cuda_block_give(g, p.block);
    return status;
}

cr_status cr_cuda_runs(const cr_runs_args *args) {
    const cr_array *run_of = cr_present(&args->run), *starts = &args->starts, *count = &args->count, *x = &args->x,
        *order = cr_present(&args->order);
    const int64_t R = args->x.shape[0], C = args->x.shape[1];
    cuda *g = cr_cuda_enter("runs", x->dev);
    if (!g) return cr_error_status();
    const runs r = {cuda_address_of(run_of), cuda_address_of(starts), cuda_address_of(count), cuda_address_of(order), R, C};
    return cr_cuda_leave(g, find_runs(g, &r, x));
}
