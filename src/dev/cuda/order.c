/* order.c - sorted rows, single elements of them, places in a sorted row, runs, where a condition is true, permutations and samples. */
#include "order.h"

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype dt, bool descending) {
    return cuda_kernel_of(g, op, cuda_source_order, name, "#define T %s\n#define U %s\n#define DESCENDING %d\n", cuda_type(dt), cr_dtype_size(dt) == 8 ? "u64" : "u32", descending);
}

static int64_t blocks_of(int64_t threads) { return (threads + CUDA_GROUP - 1) / CUDA_GROUP; }

/* ---- sorting */

void cuda_sorted_give(cuda *g, cuda_sorted *s) {
    if (s->keys) cuda_block_give(g, s->keys);
    if (s->order) cuda_block_give(g, s->order);
    *s = (cuda_sorted){0};
}

static cr_status take_room(cuda *g, const char *op, cr_dtype dt, int64_t numel, cuda_sorted *s) {
    s->keys = cuda_block_take(g, op, (size_t)numel * (cr_dtype_size(dt) == 8 ? 8 : 4));
    if (s->keys) s->order = cuda_block_take(g, op, 8 * (size_t)numel);
    return s->order ? CR_OK : cr_error_status();
}

cr_status cuda_sort_rows(cuda *g, const char *op, cr_dtype dt, cuda_address x, int64_t M, int64_t R, bool descending, cuda_sorted *s) {
    enum { TILE = 512 };
    const int64_t tiles = (R + TILE - 1) / TILE;
    cuda_sorted other = {0};
    *s = other;
    const cuda_kernel *sort = kernel_of(g, op, "sort_tiles", dt, descending), *merge = sort ? kernel_of(g, op, "merge", dt, descending) : NULL;
    cr_status status = merge ? take_room(g, op, dt, M * R, s) : cr_error_status();
    if (status == CR_OK && tiles > 1) status = take_room(g, op, dt, M * R, &other);
    if (status == CR_OK) status = cuda_launch(g, op, sort, &(cuda_words){.n = 5, .w = {s->keys->at, s->order->at, x, (uint64_t)R, (uint64_t)tiles}}, M * tiles);
    for (int64_t length = TILE; length < R && status == CR_OK; length *= 2) {
        cuda_words q = {.n = 7, .w = {other.keys->at, other.order->at, s->keys->at, s->order->at, (uint64_t)M, (uint64_t)R, (uint64_t)length}};
        status = cuda_launch(g, op, merge, &q, cuda_blocks(g, M * R));
        const cuda_sorted swap = *s;
        *s = other;
        other = swap;
    }
    cuda_sorted_give(g, &other);
    if (status != CR_OK) cuda_sorted_give(g, s);
    return status;
}

cr_status cuda_sorted_pick(cuda *g, const char *op, cr_dtype dt, const cuda_sorted *s, cuda_address y, cuda_address index, cuda_address x, int64_t M, int64_t R, int64_t K) {
    const cuda_kernel *k = kernel_of(g, op, "pick", dt, false);
    cuda_words q = {.n = 7, .w = {y, index, x, s->order->at, (uint64_t)M, (uint64_t)R, (uint64_t)K}};
    return k ? cuda_launch(g, op, k, &q, cuda_blocks(g, M * K)) : cr_error_status();
}

cr_status cuda_sort(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending) {
    static const char op[] = "sort";
    const cr_dtype dt = (cr_dtype)x->dtype;
    if (!M) return CR_OK;
    cuda *g = cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    cuda_sorted s;
    cr_status status = cuda_sort_rows(g, op, dt, cuda_address_of(x), M, R, descending, &s);
    if (status == CR_OK) status = cuda_sorted_pick(g, op, dt, &s, cuda_address_of(y), cuda_address_of(index), cuda_address_of(x), M, R, K);
    cuda_sorted_give(g, &s);
    return cuda_leave(g, status);
}

cr_status cuda_kth(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k) {
    static const char op[] = "kthvalue";
    const cr_dtype dt = (cr_dtype)x->dtype;
    if (!M) return CR_OK;
    cuda *g = cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    cuda_sorted s;
    cr_status status = cuda_sort_rows(g, op, dt, cuda_address_of(x), M, R, false, &s);
    const cuda_kernel *kth = status == CR_OK ? kernel_of(g, op, "kth", dt, false) : NULL;
    if (kth) {
        cuda_words q = {.n = 8, .w = {cuda_address_of(y), cuda_address_of(index), cuda_address_of(x), s.keys->at, s.order->at, (uint64_t)M, (uint64_t)R, (uint64_t)k}};
        status = cuda_launch(g, op, kth, &q, blocks_of(M));
    } else {
        status = cr_error_status();
    }
    cuda_sorted_give(g, &s);
    return cuda_leave(g, status);
}

cr_status cuda_search(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right) {
    static const char op[] = "searchsorted";
    if (!y->numel) return CR_OK;
    cuda *g = cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const cuda_kernel *k = kernel_of(g, op, "search", (cr_dtype)x->dtype, false);
    cuda_words q = {.n = 8, .w = {cuda_address_of(y), cuda_address_of(x), cuda_address_of(v), (uint64_t)M, (uint64_t)R, (uint64_t)K, shared, right}};
    return cuda_leave(g, k ? cuda_launch(g, op, k, &q, cuda_blocks(g, M * K)) : cr_error_status());
}

/* ---- running counts, and what they are for */

/* number[i]: how many of the bools 0 .. i are true; the caller gives it back. */
static cuda_block *count_true(cuda *g, const char *op, cuda_address x, int64_t n) {
    cuda_block *number = cuda_block_take(g, op, 8 * (size_t)n);
    if (!number) return NULL;
    const cuda_scanned s = {.kind = CR_SCAN_SUM, .from = CR_BOOL, .to = CR_I64, .y = number->at, .x = x, .M = 1, .R = n, .N = 1};
    if (cuda_scan_at(g, op, &s) == CR_OK) return number;
    cuda_block_give(g, number);
    return NULL;
}

cr_status cuda_runs(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C) {
    static const char op[] = "unique";
    cuda *g = cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    cuda_block *fresh = cuda_block_take(g, op, (size_t)R), *number = NULL;
    const cuda_kernel *find = fresh ? kernel_of(g, op, "fresh_rows", (cr_dtype)x->dtype, false) : NULL, *runs = find ? cuda_kernel_of(g, op, cuda_source_select, "runs", "%s", "") : NULL;
    cr_status status = runs ? cuda_launch(g, op, find, &(cuda_words){.n = 4, .w = {fresh->at, cuda_address_of(x), (uint64_t)R, (uint64_t)C}}, blocks_of(R)) : cr_error_status();
    if (status == CR_OK && !(number = count_true(g, op, fresh->at, R))) status = cr_error_status();
    if (number) {
        cuda_words q = {.n = 6, .w = {cuda_address_of(run), cuda_address_of(starts), cuda_address_of(count), number->at, cuda_address_of(order), (uint64_t)R}};
        status = cuda_launch(g, op, runs, &q, blocks_of(R));
        cuda_block_give(g, number);
    }
    if (fresh) cuda_block_give(g, fresh);
    return cuda_leave(g, status);
}

cr_status cuda_nonzero(cr_tensor *y, const cr_tensor *x, int64_t *count) {
    static const char op[] = "nonzero";
    *count = 0;
    if (!x->numel) return CR_OK;
    cuda *g = cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    cuda_block *number = count_true(g, op, cuda_address_of(x), x->numel);
    cr_status status = number ? cuda_read_bytes(g, op, count, number->at + 8 * (cuda_address)(x->numel - 1), 8) : cr_error_status();
    const cuda_kernel *k = status == CR_OK && y && y->numel ? cuda_kernel_of(g, op, cuda_source_select, "nonzero", "%s", "") : NULL;
    if (k) {
        cuda_words q = {.n = 7, .w = {cuda_address_of(y), cuda_address_of(x), number->at, (uint64_t)x->numel, (uint64_t)y->strides[0], (uint64_t)y->strides[1], x->ndim}};
        for (int d = 0; d < CR_MAX_DIMS; d++) cuda_push(&q, d < x->ndim ? (uint64_t)x->shape[d] : 1);
        status = cuda_launch_struct(g, op, k, &q, cuda_blocks(g, x->numel));
    }
    if (number) cuda_block_give(g, number);
    return cuda_leave(g, status == CR_OK && y && y->numel && !k ? cr_error_status() : status);
}

/* ---- permutations and samples */

static const cuda_kernel *sample_kernel(cuda *g, const char *op, const char *name, cr_dtype dt) {
    return cuda_kernel_of(g, op, cuda_source_sample, name, "#define T %s\n", cuda_type(dt));
}

/* The first S of each row of x (M, N) in rising order: where they lay. */
static cr_status first_places(cuda *g, const char *op, cr_dtype dt, cuda_address x, cuda_address y, int64_t M, int64_t N, int64_t S) {
    cuda_sorted s;
    cr_status status = cuda_sort_rows(g, op, dt, x, M, N, false, &s);
    if (status == CR_OK) status = cuda_sorted_pick(g, op, dt, &s, 0, y, x, M, N, S);
    cuda_sorted_give(g, &s);
    return status;
}

cr_status cuda_permutation(cr_tensor *y, uint64_t seed, uint64_t counter) {
    static const char op[] = "randperm";
    const int64_t n = y->numel;
    if (!n) return CR_OK;
    cuda *g = cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const cuda_kernel *k = sample_kernel(g, op, "words", CR_F32);
    cuda_block *words = k ? cuda_block_take(g, op, 8 * (size_t)n) : NULL;
    cr_status status = words ? cuda_launch(g, op, k, &(cuda_words){.n = 4, .w = {words->at, (uint64_t)n, seed, counter}}, cuda_blocks(g, n)) : cr_error_status();
    if (status == CR_OK) status = first_places(g, op, CR_U64, words->at, cuda_address_of(y), 1, n, n);
    if (words) cuda_block_give(g, words);
    return cuda_leave(g, status);
}

cr_status cuda_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter) {
    static const char op[] = "multinomial";
    if (!y->numel) return CR_OK;
    cuda *g = cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const cuda_kernel *k = sample_kernel(g, op, replacement ? "running" : "times", (cr_dtype)w->dtype), *draw = k ? sample_kernel(g, op, "draw", (cr_dtype)w->dtype) : NULL;
    cuda_block *room = draw ? cuda_block_take(g, op, 8 * (size_t)(M * N)) : NULL;
    cr_status status = room ? CR_OK : cr_error_status();
    if (status == CR_OK && replacement) {
        status = cuda_launch(g, op, k, &(cuda_words){.n = 4, .w = {room->at, cuda_address_of(w), (uint64_t)M, (uint64_t)N}}, blocks_of(M));
        cuda_words q = {.n = 7, .w = {cuda_address_of(y), room->at, (uint64_t)M, (uint64_t)N, (uint64_t)S, seed, counter}};
        if (status == CR_OK) status = cuda_launch(g, op, draw, &q, cuda_blocks(g, M * S));
    } else if (status == CR_OK) {
        status = cuda_launch(g, op, k, &(cuda_words){.n = 5, .w = {room->at, cuda_address_of(w), (uint64_t)(M * N), seed, counter}}, cuda_blocks(g, M * N));
        if (status == CR_OK) status = first_places(g, op, CR_F64, room->at, cuda_address_of(y), M, N, S);
    }
    if (room) cuda_block_give(g, room);
    return cuda_leave(g, status);
}
