/* box.h - arrays with any strides over memory of their own, with guard bytes all around, for tests
 * that call kernels directly. */
#ifndef CR_BOX_H
#define CR_BOX_H

#include "test.h"
#include "dev/dev.h"

typedef struct box { cr_array t; cr_storage s; unsigned char *memory, *before; size_t bytes; } box;
enum { GUARD = 64 };                                /* bytes before and after */

static uint64_t box_state;                          /* of the numbers drawn; set it to test_seed() at the start of a
                                                     * test */
static uint32_t box_draw(uint32_t n) {
    box_state = box_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(box_state >> 33) % n;
}

static void box_draw_element(void *p, cr_dtype dt) {
    switch (cr_dtype_kind(dt)) {
        case CR_KIND_FLOAT: cr_store_f64(p, dt, (double)box_draw(2001) / 1000 - 1); break;
        case CR_KIND_BOOL: cr_store_i64(p, dt, box_draw(4) == 0); break;
        default: cr_store_i64(p, dt, (int64_t)(box_draw(1u << 31) * (uint64_t)box_draw(1u << 31)));
    }
}

static void *box_at(const box *b, const int64_t *at) {
    int64_t o = b->t.offset;
    for (int i = 0; i < b->t.ndim; i++) o += at[i] * b->t.strides[i];
    return (char *)b->s.data + o * (int64_t)cr_dtype_size(b->t.dtype);
}

static bool box_next(int64_t *at, int n, const int64_t *shape) {
    for (int i = n - 1; i >= 0; i--) {
        if (++at[i] < shape[i]) return true;
        at[i] = 0;
    }
    return false;
}

static box box_make(cr_dtype dt, int n, const int64_t *shape, const int64_t *strides) {
    box b = {.t = {.dtype = dt, .ndim = n, .numel = 1, .dev = cr_cpu()}};
    int64_t span = 1;
    for (int i = 0; i < n; i++) {
        b.t.shape[i] = shape[i]; b.t.strides[i] = strides[i];
        b.t.numel *= shape[i];
        if (shape[i]) span += (shape[i] - 1) * strides[i];
    }
    size_t size = cr_dtype_size(dt);
    b.bytes = (size_t)span * size + 2 * GUARD;
    b.memory = malloc(b.bytes); b.before = malloc(b.bytes);
    memset(b.memory, 0x5a, b.bytes);
    b.s.data = b.memory + GUARD / 2;
    b.t.offset = (int64_t)(GUARD / 2 / size);
    int64_t at[CR_MAX_DIMS] = {0};
    if (b.t.numel) do box_draw_element(box_at(&b, at), dt); while (box_next(at, n, shape));
    memcpy(b.before, b.memory, b.bytes);
    return b;
}
/* box values move: the storage's address is set where they are used. */
__attribute__((unused)) static cr_array *box_array(box *b) { b->t.storage = &b->s; return &b->t; }
static void box_drop(box *b) { free(b->memory); free(b->before); }

/* Bytes that belong to no element must be what they were. */
__attribute__((unused)) static long box_spilled(const box *b) {
    unsigned char *mine = calloc(b->bytes, 1);
    int64_t at[CR_MAX_DIMS] = {0};
    size_t size = cr_dtype_size(b->t.dtype);
    if (b->t.numel) do
            memset(mine + ((unsigned char *)box_at(b, at) - b->memory), 1, size);
        while (box_next(at, b->t.ndim, b->t.shape));
    long bad = 0;
    for (size_t i = 0; i < b->bytes; i++) bad += !mine[i] && b->memory[i] != b->before[i];
    free(mine);
    return bad;
}

#endif
