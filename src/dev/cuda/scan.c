/* scan.c - running sums, products, log-sum-exps and extremes of x (M, R, N) along R (scan.cu).  Cuts
 * depend on the shape only, so results are reproducible. */
#include "scan.h"
#include "scan.cu"

enum {
    EACH = 5,                                       /* elements of a thread at a time; odd, so that threads at this
                                                     * distance have no bank conflicts */
    BUSY = 2048, LEAST = 2                          /* blocks that are enough for any GPU; the fewest tiles of a
                                                     * chunk for which cutting pays */
};
/* lines of a block; blocks of a chunk */
typedef struct cut { int64_t width, lines, blocks, chunk, chunks; bool along; } cut;

/* the smallest that is at least `least`, but at most `most` */
static int64_t power_of_two(int64_t least, int64_t most) {
    int64_t p = 1;
    while (p < least && p < most) p *= 2;
    return p;
}

/* Threads are neighbours along N where it is long enough for whole sectors of memory, else along R. */
static cut cut_of(const cuda_running *s, int64_t R, bool cuts) {
    enum { SECTOR = 32 };
    cut c = {.along = s->N < SECTOR};
    c.width = c.along       ? power_of_two(cuda_pieces(R, EACH), s->in_order ? SECTOR : CUDA_GROUP)
              : s->in_order ? 1
                            : CUDA_GROUP / power_of_two(s->M * s->N, CUDA_GROUP);
    c.lines = CUDA_GROUP / c.width;
    c.blocks = cuda_pieces(s->M * s->N, c.lines);
    const int64_t tile = EACH * c.width, tiles = cuda_pieces(R, tile);
    int64_t chunks = !cuts || s->in_order ? 1 : BUSY / c.blocks;
    if (chunks > tiles / LEAST) chunks = tiles / LEAST;
    c.chunk = cuda_pieces(tiles, chunks > 1 ? chunks : 1) * tile;
    c.chunks = cuda_pieces(R, c.chunk);
    return c;
}

static cr_status launch_scan(cuda *g, const cuda_running *s, const char *name, cuda_address states, int64_t R,
                             bool reverse, const cut *c) {
    static const char *const of_floats[] = {"float_sum", "float_product", "log_sum", "largest", "smallest"};
    static const char *const of_integers[] = {"integer_sum", "integer_product"};
    static const char definitions[] = "#define T %s\n#define TO %s\n#define HOW %s\n#define EXTREME %d\n#define V %d\n";
    const bool integers = s->kind <= CR_SCAN_PROD && !cr_dtype_is_float(s->from);
    const char *how = (integers ? of_integers : of_floats)[s->kind];
    const cuda_kernel *k = cr_cuda_kernel_of(g, s->op, cr_cuda_source_scan, name, definitions, cr_cuda_type(s->from),
                                             cr_cuda_type(s->to), how, s->kind >= CR_SCAN_MAX, EACH);
    const scan_arguments q = {.y = s->y, .index = s->index, .x = s->x, .a = s->a, .states = states,
                              .R = R, .N = s->N, .lines = s->M * s->N, .chunk = c->chunk, .chunks = c->chunks,
                              .width = c->width, .along = c->along, .reverse = reverse};
    return cr_cuda_launch(g, s->op, k, &q, c->blocks * c->chunks);
}

cr_status cr_cuda_run_along(cuda *g, const cuda_running *s) {
    const cut c = cut_of(s, s->R, true);
    if (s->in_order) return launch_scan(g, s, "in_order", 0, s->R, s->reverse, &c);
    if (c.chunks == 1) return launch_scan(g, s, "results", 0, s->R, s->reverse, &c);
    const cut of_chunks = cut_of(s, c.chunks, false);
    /* the largest state */
    cuda_block *states = cr_cuda_block_take(g, s->op, 16 * (size_t)(s->M * c.chunks * s->N));
    if (!states) return cr_error_status();
    cr_status status = launch_scan(g, s, "sums", states->at, s->R, s->reverse, &c);
    if (status == CR_OK) status = launch_scan(g, s, "before", states->at, c.chunks, false, &of_chunks);
    if (status == CR_OK) status = launch_scan(g, s, "results", states->at, s->R, s->reverse, &c);
    cr_cuda_block_give(g, states);
    return status;
}

cr_status cr_cuda_scan(const cr_scan_args *args) {
    static const char *const names[] = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"};
    const cr_array *y = &args->y, *x = &args->x, *a = cr_present(&args->a);
    const char *op = names[args->kind];
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const cuda_running s = {.op = op,
                            .kind = args->kind,
                            .reverse = args->reverse,
                            .in_order = a != NULL,
                            .from = x->dtype,
                            .to = y->dtype,
                            .y = cuda_address_of(y),
                            .index = cuda_address_of(cr_present(&args->index)),
                            .x = cuda_address_of(x),
                            .a = cuda_address_of(a),
                            .M = x->shape[0],
                            .R = x->shape[1],
                            .N = x->shape[2]};
    return cr_cuda_leave(g, cr_cuda_run_along(g, &s));
}
