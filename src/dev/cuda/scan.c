/* scan.c - running sums, products, log-sum-exps and extremes along R of (M, R, N), in one launch, or three where lines are long and few. */
#include "order.h"

cr_status cuda_scan_at(cuda *g, const char *op, const cuda_scanned *s) {
    enum { BUSY = 1 << 14, LEAST = 32 };            /* lines that keep a GPU busy; elements of a part */
    int64_t parts = 1;
    while (s->M * s->N * parts < BUSY && parts * parts < s->R && s->R / (2 * parts) >= LEAST) parts *= 2;      /* about as many parts as elements in one: both are gone through in order */
    const int64_t part_size = (s->R + parts - 1) / parts, threads = s->M * parts * s->N, blocks = (threads + CUDA_GROUP - 1) / CUDA_GROUP;
    const char *format = "#define T %s\n#define TO %s\n#define KIND %d\n#define LINEAR %d\n", *from = cuda_type(s->from), *to = cuda_type(s->to);
    const bool linear = s->a, cut = parts > 1;
    const cuda_kernel *scan = cuda_kernel_of(g, op, cuda_source_scan, "scan", format, from, to, (int)s->kind, linear);
    const cuda_kernel *totals = scan && cut ? cuda_kernel_of(g, op, cuda_source_scan, "totals", format, from, to, (int)s->kind, linear) : scan;
    const cuda_kernel *before = totals && cut ? cuda_kernel_of(g, op, cuda_source_scan, "before", format, from, to, (int)s->kind, linear) : totals;
    cuda_block *held = before && cut ? cuda_block_take(g, op, 16 * (size_t)threads) : NULL;
    if (!before || (cut && !held)) return cr_error_status();
    cr_status status = CR_OK;
    if (cut) {
        cuda_words q = {.n = 9, .w = {held->at, s->x, s->a, (uint64_t)s->M, (uint64_t)s->R, (uint64_t)s->N, (uint64_t)parts, (uint64_t)part_size, s->reverse}};
        status = cuda_launch(g, op, totals, &q, blocks);
        q = (cuda_words){.n = 4, .w = {held->at, (uint64_t)s->M, (uint64_t)s->N, (uint64_t)parts}};
        if (status == CR_OK) status = cuda_launch(g, op, before, &q, (s->M * s->N + CUDA_GROUP - 1) / CUDA_GROUP);
    }
    cuda_words q = {.n = 11, .w = {s->y, s->index, s->x, s->a, cut ? held->at : 0, (uint64_t)s->M, (uint64_t)s->R, (uint64_t)s->N, (uint64_t)parts, (uint64_t)part_size, s->reverse}};
    if (status == CR_OK) status = cuda_launch(g, op, scan, &q, blocks);
    if (held) cuda_block_give(g, held);
    return status;
}

cr_status cuda_scan(cr_scan_kind kind, bool reverse, cr_tensor *y, cr_tensor *index, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N) {
    static const char *const names[] = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"};
    if (!M || !R || !N) return CR_OK;
    cuda *g = cuda_enter(names[kind], x->dev);
    if (!g) return cr_error_status();
    const cuda_scanned s = {kind, reverse, (cr_dtype)x->dtype, (cr_dtype)y->dtype, cuda_address_of(y), cuda_address_of(index), cuda_address_of(x), cuda_address_of(a), M, R, N};
    return cuda_leave(g, cuda_scan_at(g, names[kind], &s));
}
