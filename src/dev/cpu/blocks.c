/* blocks.c - elements anywhere in memory to and from blocks; what converts them is in conversions_isa.c. */
#include "blocks.h"
#include "isa.h"

void cr_block_load(cr_lane lane, void *block, cr_dtype dt, const void *src, int64_t stride, int64_t n) {
    cr_cpu_vec()->conversions->load(lane, block, dt, src, stride, n);
}

void cr_block_store(cr_lane lane, const void *block, cr_dtype dt, void *dst, int64_t stride, int64_t n) {
    cr_cpu_vec()->conversions->store(lane, block, dt, dst, stride, n);
}

/* ---- walking a strided array: runs along the last axis */
int64_t cr_block_offset(const cr_block_layout *at, int64_t i) {
    int64_t offset = 0;
    for (int d = at->ndim - 1; d >= 0 && i; d--) {
        int64_t rest = d ? i / at->shape[d] : 0;
        offset += (i - rest * at->shape[d]) * at->strides[d];
        i = rest;
    }
    return offset;
}

typedef struct cursor { int64_t index[CR_MAX_DIMS], offset; } cursor;

static cursor cursor_at(const cr_block_layout *at, int64_t i) {
    cursor c = {.offset = 0};
    for (int d = at->ndim - 1; d >= 0; d--) {
        int64_t rest = d ? i / at->shape[d] : 0;
        c.index[d] = i - rest * at->shape[d];
        c.offset += c.index[d] * at->strides[d];
        i = rest;
    }
    return c;
}

/* After `run` steps along the last axis: on to the next row where that ends. */
static void cursor_advance(cursor *c, const cr_block_layout *at, int64_t run) {
    int d = at->ndim - 1;
    c->index[d] += run;
    c->offset += run * at->strides[d];
    while (d > 0 && c->index[d] == at->shape[d]) {
        c->offset += at->strides[d - 1] - c->index[d] * at->strides[d];
        c->index[d] = 0;
        c->index[--d]++;
    }
}

static int64_t run_length(const cursor *c, const cr_block_layout *at, int64_t n) {
    return cr_imin(at->shape[at->ndim - 1] - c->index[at->ndim - 1], n);
}

void cr_block_gather(cr_lane lane, void *block, cr_dtype dt, const void *base, const cr_block_layout *at, int64_t first,
                     int64_t n) {
    int64_t size = (int64_t)cr_dtype_size(dt);
    if (at->ndim <= 1) {
        cr_block_load(lane, block, dt, (const char *)base + first * (at->ndim ? at->strides[0] : 0) * size,
                      at->ndim ? at->strides[0] : 0, n);
        return;
    }
    char *to = block;
    cursor c = cursor_at(at, first);
    for (int64_t run; n > 0; n -= run) {
        run = run_length(&c, at, n);
        cr_block_load(lane, to, dt, (const char *)base + c.offset * size, at->strides[at->ndim - 1], run);
        to += (size_t)run * cr_lane_size(lane);
        cursor_advance(&c, at, run);
    }
}

void cr_block_scatter(cr_lane lane, const void *block, cr_dtype dt, void *base, const cr_block_layout *at,
                      int64_t first, int64_t n) {
    int64_t size = (int64_t)cr_dtype_size(dt);
    if (at->ndim <= 1) {
        cr_block_store(lane, block, dt, (char *)base + first * (at->ndim ? at->strides[0] : 0) * size,
                       at->ndim ? at->strides[0] : 1, n);
        return;
    }
    const char *from = block;
    cursor c = cursor_at(at, first);
    for (int64_t run; n > 0; n -= run) {
        run = run_length(&c, at, n);
        cr_block_store(lane, from, dt, (char *)base + c.offset * size, at->strides[at->ndim - 1], run);
        from += (size_t)run * cr_lane_size(lane);
        cursor_advance(&c, at, run);
    }
}
