/* order.c - rows of x (M, R) in order, single elements of them, positions in a sorted row, runs of equal rows
 * (order.cu).
 *
 * Short rows are ranked: a thread reads its whole row from the cache.  A row of one tile is sorted by
 * one block in shared memory, read and written once.  The tiles of a long row are sorted alike if few
 * elements are wanted: the first K of all tiles form rows again.  Otherwise each digit of eight bits
 * reads the elements twice and writes them once with their positions: for f32 4 (4 + 8 + 8) bytes an
 * element, and 18 % more for counts; merging tiles in pairs would take 16 bytes for each doubling.  A
 * single element far from the beginning is found by its digits: the row is read once for each digit
 * and once more, for f32 20 bytes an element.  The last of the first K elements of a long row is found
 * alike if K is a part of the row; then the elements up to it are collected and sorted. */
#include "order.h"
#include "scan.h"
#include "order.cu"

enum {
    RANKED = 64,                                    /* elements of a row that is ranked */
    TILE = 2048,                                    /* elements that a block sorts */
    FEW = TILE / 2,                                 /* elements wanted of a long row: tiles keep half at most */
    MANY = 1 << 20, PART = 4,                       /* elements from which on selection gains more than its 12
                                                     * launches cost; the wanted elements are at most this part of a
                                                     * row */
    DIGITS = 256
};


static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype dt, bool long_rows) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_order, name, "#define T %s\n#define POSITION %s\n#define TILE %d\n",
                             cr_cuda_type(dt), long_rows ? "u64" : "u32", TILE);
}

/* One block of memory in parts, each aligned for every dtype. */
typedef struct parts { cuda_block *block; size_t bytes, at[6]; int n; } parts;
static void add_part(parts *p, int64_t count, size_t size) {
    p->at[p->n++] = p->bytes;
    p->bytes += ((size_t)count * size + 511) / 512 * 512;
}
static bool take_parts(cuda *g, const char *op, parts *p) {
    return (p->block = cr_cuda_block_take(g, op, p->bytes)) != NULL;
}
static cuda_address part_at(const parts *p, int i) { return p->block->at + p->at[i]; }

/* Launches a kernel over the tiles of each row. */
static cr_status launch_tiles(cuda *g, const cuda_ordering *s, const char *name, const sort_arguments *q) {
    return cr_cuda_launch(g, s->op, kernel_of(g, s->op, name, s->dtype, s->R > UINT32_MAX), q, s->M * q->tiles);
}

static u64 flip_of(const cuda_ordering *s) { return s->descending ? UINT64_MAX : 0; }
static size_t position_bytes(const cuda_ordering *s) { return s->R > UINT32_MAX ? 8 : 4; }

/* from: the original positions of the R elements of each row of x; 0: unchanged. */
static cr_status sort_tiles(cuda *g, const cuda_ordering *s, cuda_address x, cuda_address from, int64_t R) {
    sort_arguments q = {.x = x,
                        .from = from,
                        .y = s->y,
                        .index = s->index,
                        .R = R,
                        .K = s->K,
                        .next = s->K,
                        .tiles = cuda_pieces(R, TILE),
                        .flip = flip_of(s)};
    if (q.tiles == 1) return launch_tiles(g, s, "sort_tile", &q);
    parts p = {0};
    q.next = (q.tiles - 1) * s->K + cr_imin(s->K, R - (q.tiles - 1) * TILE);
    add_part(&p, s->M * q.next, cr_dtype_size(s->dtype));
    add_part(&p, s->M * q.next, position_bytes(s));
    if (!take_parts(g, s->op, &p)) return cr_error_status();
    q.y = part_at(&p, 0), q.positions = part_at(&p, 1), q.index = 0;
    cr_status status = launch_tiles(g, s, "sort_tile", &q);
    if (status == CR_OK) status = sort_tiles(g, s, q.y, q.positions, q.next);
    cr_cuda_block_give(g, p.block);
    return status;
}

static cr_status sort_digits(cuda *g, const cuda_ordering *s, cuda_address from, const parts *p) {
    const int digits = (int)cr_dtype_size(s->dtype);
    sort_arguments q = {.x = s->x,
                        .from = from,
                        .counts = part_at(p, 0),
                        .ends = part_at(p, 1),
                        .R = s->R,
                        .tiles = cuda_pieces(s->R, TILE),
                        .flip = flip_of(s)};
    const cuda_running sum = {.op = s->op,
                              .kind = CR_SCAN_SUM,
                              .from = CR_U32,
                              .to = CR_I64,
                              .y = q.ends,
                              .x = q.counts,
                              .M = s->M,
                              .R = q.tiles,
                              .N = DIGITS};
    cr_status status = CR_OK;
    for (int d = 0; d < digits && status == CR_OK; d++) {
        const bool last = d == digits - 1;
        const int to = 2 + 2 * (d % 2);
        q.shift = 8 * d;
        q.y = last ? s->y : part_at(p, to);
        q.positions = last ? 0 : part_at(p, to + 1);
        q.index = last ? s->index : 0;
        q.K = q.next = last ? s->K : s->R;
        status = launch_tiles(g, s, "count", &q);
        if (status == CR_OK) status = cr_cuda_run_along(g, &sum);
        if (status == CR_OK) status = launch_tiles(g, s, "scatter", &q);
        q.x = q.y, q.from = q.positions;
    }
    return status;
}

static cr_status sort_rows(cuda *g, const cuda_ordering *s, cuda_address from) {
    if (s->R <= TILE || s->K <= FEW) return sort_tiles(g, s, s->x, from, s->R);
    parts p = {0};
    const int64_t tiles = cuda_pieces(s->R, TILE);
    const size_t size = cr_dtype_size(s->dtype);
    add_part(&p, s->M * tiles * DIGITS, 4);
    add_part(&p, s->M * tiles * DIGITS, 8);
    /* buffers that one digit writes and the next reads */
    for (size_t spare = 1; spare < size && spare <= 2; spare++) {
        add_part(&p, s->M * s->R, size);
        add_part(&p, s->M * s->R, position_bytes(s));
    }
    cr_status status = take_parts(g, s->op, &p) ? sort_digits(g, s, from, &p) : cr_error_status();
    if (p.block) cr_cuda_block_give(g, p.block);
    return status;
}

/* ---- selection by digits, the highest first: element k of each row; counts of the elements before it
 * and of its equals */
static cr_status select_run(cuda *g, const cuda_ordering *s, const char *name, int64_t blocks,
                            const select_arguments *q) {
    return cr_cuda_launch(g, s->op, kernel_of(g, s->op, name, s->dtype, false), q, blocks);
}

static cr_status find_key(cuda *g, const cuda_ordering *s, select_arguments *q) {
    cr_status status = CR_OK;
    for (int digit = (int)cr_dtype_size(s->dtype) - 1; digit >= 0 && status == CR_OK; digit--) {
        q->shift = 8 * digit;
        status = select_run(g, s, "select_count", s->M * q->tiles, q);
        if (status == CR_OK) status = select_run(g, s, "select_step", s->M, q);
    }
    return status == CR_OK ? select_run(g, s, "select_equal", s->M * q->tiles, q) : status;
}

/* Collects the elements up to element K - 1 of each row, and sorts them.  p: parts 2 and up are those of select_kth. */
static cr_status sort_selected(cuda *g, const cuda_ordering *s, select_arguments *q, const parts *p) {
    const cuda_running sum = {.op = s->op,
                              .kind = CR_SCAN_SUM,
                              .from = CR_I64,
                              .to = CR_I64,
                              .y = part_at(p, 2),
                              .x = q->counts,
                              .M = s->M,
                              .R = q->tiles,
                              .N = 1};
    cuda_ordering few = *s;
    few.R = s->K;
    few.x = part_at(p, 3);
    q->ends = sum.y, q->y = few.x, q->positions = part_at(p, 4);
    cr_status status = cr_cuda_run_along(g, &sum);
    if (status == CR_OK) status = select_run(g, s, "select_collect", s->M * q->tiles, q);
    return status == CR_OK ? sort_rows(g, &few, q->positions) : status;
}

/* Element k of each row; or, where `sorted`, the first K elements in order, k being K - 1. */
static cr_status select_kth(cuda *g, const cuda_ordering *s, int64_t k, bool sorted) {
    const int64_t tiles = cuda_pieces(s->R, TILE), most = s->M * (tiles > DIGITS + 1 ? tiles : DIGITS + 1);
    parts p = {0};
    add_part(&p, most, 8);
    add_part(&p, s->M, sizeof(select_state));
    const size_t cleared = p.bytes;
    if (sorted) {
        add_part(&p, s->M * tiles, 8);
        add_part(&p, s->M * s->K, cr_dtype_size(s->dtype));
        add_part(&p, s->M * s->K, 4);
    }
    if (!take_parts(g, s->op, &p)) return cr_error_status();
    select_arguments q = {.y = s->y, .index = s->index, .x = s->x, .counts = part_at(&p, 0), .found = part_at(&p, 1),
                          .R = s->R, .tiles = tiles, .k = k, .flip = flip_of(s)};
    cr_status status = cr_cuda_check(g, s->op, "memory is not set",
                                     cr_cu.MemsetD8Async(q.counts, 0, cleared, g->stream));
    if (status == CR_OK) status = find_key(g, s, &q);
    if (status == CR_OK) status = sorted ? sort_selected(g, s, &q, &p) : select_run(g, s, "select_position", s->M, &q);
    cr_cuda_block_give(g, p.block);
    return status;
}

cr_status cr_cuda_order_rows(cuda *g, const cuda_ordering *s) {
    if (s->R <= RANKED) {
        const rank_arguments q = {
            .y = s->y, .index = s->index, .x = s->x, .M = s->M, .R = s->R, .K = s->K, .flip = flip_of(s)};
        return cr_cuda_launch(g, s->op, kernel_of(g, s->op, "rank", s->dtype, false), &q,
                              cr_cuda_blocks(g, s->M * s->R));
    }
    const bool few_of_many = s->R > TILE && s->R <= INT32_MAX && PART * s->K <= s->R && s->M * s->R >= MANY;
    return few_of_many ? select_kth(g, s, s->K - 1, true) : sort_rows(g, s, 0);
}

cr_status cr_cuda_sort(const cr_sort_args *args) {
    static const char op[] = "sort";
    const cr_array *x = &args->x;
    if (!x->shape[0]) return CR_OK;
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const cuda_ordering s = {.op = op,
                             .dtype = x->dtype,
                             .descending = args->descending,
                             .y = cuda_address_of(&args->y),
                             .index = cuda_address_of(&args->index),
                             .x = cuda_address_of(x),
                             .M = x->shape[0],
                             .R = x->shape[1],
                             .K = args->index.shape[1]};
    return cr_cuda_leave(g, cr_cuda_order_rows(g, &s));
}

/* ---- single elements: of long rows by their digits, of others from the beginning of the sorted row, or all of it */
static cr_status find_kth(cuda *g, cuda_ordering *s, int64_t k) {
    parts p = {0};
    add_part(&p, s->M * s->K, cr_dtype_size(s->dtype));
    add_part(&p, s->M * s->K, 8);
    if (!take_parts(g, s->op, &p)) return cr_error_status();
    const pick_arguments q = {.y = s->y, .index = s->index, .sorted = part_at(&p, 0), .positions = part_at(&p, 1),
                              .M = s->M, .R = s->R, .K = s->K, .k = k};
    s->y = q.sorted, s->index = q.positions;
    const cuda_kernel *pick = kernel_of(g, s->op, "pick", s->dtype, false);
    cr_status status = pick ? cr_cuda_order_rows(g, s) : cr_error_status();
    if (status == CR_OK) status = cr_cuda_launch(g, s->op, pick, &q, cr_cuda_blocks(g, s->M));
    cr_cuda_block_give(g, p.block);
    return status;
}

cr_status cr_cuda_kth(const cr_kth_args *args) {
    static const char op[] = "kthvalue";
    const cr_array *x = &args->x;
    const int64_t R = x->shape[1], k = args->k;
    if (!x->shape[0]) return CR_OK;
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    cuda_ordering s = {.op = op,
                       .dtype = x->dtype,
                       .y = cuda_address_of(&args->y),
                       .index = cuda_address_of(&args->index),
                       .x = cuda_address_of(x),
                       .M = x->shape[0],
                       .R = R,
                       .K = k < 0 ? R : k + 1};
    return cr_cuda_leave(g, R > TILE && s.K > FEW ? select_kth(g, &s, k, false) : find_kth(g, &s, k));
}

/* ---- positions in a sorted row: a thread each */
cr_status cr_cuda_search(const cr_search_args *args) {
    static const char op[] = "searchsorted";
    const cr_array *y = &args->y, *x = &args->x, *v = &args->v;
    const int64_t M = v->shape[0], R = x->shape[x->ndim - 1], K = v->shape[1];
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const search_arguments q = {.y = cuda_address_of(y), .x = cuda_address_of(x), .v = cuda_address_of(v),
                                .results = M * K, .R = R, .K = K, .step = x->ndim == 1 ? 0 : R, .right = args->right};
    return cr_cuda_leave(
        g, cr_cuda_launch(g, op, kernel_of(g, op, "search", x->dtype, false), &q, cr_cuda_blocks(g, M * K)));
}

/* ---- runs of equal rows */
static cr_status find_runs(cuda *g, const cr_runs_args *args) {
    static const char op[] = "runs";
    const cr_array *x = &args->x;
    const int64_t R = x->shape[0], C = x->shape[1];
    parts p = {0};
    int64_t width = 1;                              /* threads that share a row */
    while (2 * width <= cr_imin(C, CUDA_GROUP)) width *= 2;
    add_part(&p, R, 1);
    add_part(&p, R, 8);
    if (!take_parts(g, op, &p)) return cr_error_status();
    const begins_arguments begins = {.y = part_at(&p, 0), .x = cuda_address_of(x), .R = R, .C = C, .width = width};
    const number_arguments numbers = {.run = cuda_address_of(cr_present(&args->run)),
                                      .starts = cuda_address_of(&args->starts),
                                      .count = cuda_address_of(&args->count),
                                      .begun = part_at(&p, 1),
                                      .order = cuda_address_of(cr_present(&args->order)),
                                      .R = R};
    const cuda_running sum = {.op = op,
                              .kind = CR_SCAN_SUM,
                              .from = CR_U8,
                              .to = CR_I64,
                              .y = numbers.begun,
                              .x = begins.y,
                              .M = 1,
                              .R = R,
                              .N = 1};
    const cuda_kernel *first = kernel_of(g, op, "begins", x->dtype, false),
                      *last = first ? kernel_of(g, op, "number", x->dtype, false) : NULL;
    cr_status status = last ? cr_cuda_launch(g, op, first, &begins, cuda_pieces(R * width, CUDA_GROUP))
                            : cr_error_status();
    if (status == CR_OK) status = cr_cuda_run_along(g, &sum);
    if (status == CR_OK) status = cr_cuda_launch(g, op, last, &numbers, cr_cuda_blocks(g, R));
    cr_cuda_block_give(g, p.block);
    return status;
}

cr_status cr_cuda_runs(const cr_runs_args *args) {
    cuda *g = cr_cuda_enter("runs", args->x.dev);
    return g ? cr_cuda_leave(g, find_runs(g, args)) : cr_error_status();
}
