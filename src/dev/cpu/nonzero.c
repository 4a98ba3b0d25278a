/* nonzero.c - the coordinates of true elements.  Each piece is counted, then writes after those before
 * it.  Limited by memory. */
#include <string.h>

#include "../../core/pool.h"
#include "cpu.h"

enum { PIECE = 16384, BLOCK = 512 };                /* elements of a piece; found elements before they are written */

typedef struct job {
    const uint8_t *x;
    int64_t numel, last;                            /* last: size of the last axis */
    int ndim;
    const int64_t *shape;
    int64_t *y, step, column;                       /* strides of y (count, ndim) */
    int64_t *first;                                 /* per piece: how many it has, then how many come before it */
} job;

static void count_chunk(void *ctx, int64_t piece, int worker) {
    (void)worker;
    const job *j = ctx;
    const int64_t end = cr_imin(piece * PIECE + PIECE, j->numel);
    int64_t count = 0;
    for (int64_t i = piece * PIECE; i < end;) {
        uint8_t some = 0;                           /* counts 128 at most: bytes suffice, and a vector has many */
        for (const int64_t to = cr_imin(i + 128, end); i < to; i++) some = (uint8_t)(some + (j->x[i] != 0));
        count += some;
    }
    j->first[piece] = count;
}

/* Writes the coordinates of n elements, from row `at` of y on. */
static void write_positions(const job *j, int64_t at, const int64_t *found, int64_t n) {
    /* of the last axis's row that position is about */
    int64_t *y = j->y + at * j->step, position[CR_MAX_DIMS], begin = 0, end = 0;
    if (j->ndim == 1) {
        for (int64_t i = 0; i < n; i++) y[i * j->step] = found[i];
        return;
    }
    for (int64_t i = 0; i < n; i++, y += j->step) {
        if (found[i] >= end) {
            int64_t row = found[i] / j->last;
            begin = row * j->last;
            end = begin + j->last;
            for (int d = j->ndim - 2; d >= 0; d--) { position[d] = row % j->shape[d]; row /= j->shape[d]; }
        }
        for (int d = 0; d < j->ndim - 1; d++) y[d * j->column] = position[d];
        y[(j->ndim - 1) * j->column] = found[i] - begin;
    }
}

static void write_chunk(void *ctx, int64_t piece, int worker) {
    (void)worker;
    const job *j = ctx;
    int64_t at = j->first[piece], found[BLOCK];
    const int64_t end = cr_imin(piece * PIECE + PIECE, j->numel);
    for (int64_t from = piece * PIECE; from < end; from += BLOCK) {
        const int64_t to = cr_imin(from + BLOCK, end);
        int64_t n = 0;
        /* no branch: masks are unpredictable */
        for (int64_t i = from; i < to; i++) { found[n] = i; n += j->x[i] != 0; }
        write_positions(j, at, found, n);
        at += n;
    }
}

/* Turns counts into positions of the first element of each piece.  Returns the sum. */
static int64_t add_up(job *j, int64_t pieces) {
    int64_t count = 0;
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t here = j->first[p];
        j->first[p] = count;
        count += here;
    }
    return count;
}

static cr_status write_all(job *j, int64_t pieces, int64_t count, const cr_array *y) {
    if (count != y->shape[0])
        return cr_fail(CR_RUNTIME, "nonzero", "another thread wrote to the tensor during the call");
    if (!y->numel) return CR_OK;
    j->y = cr_array_data(y);
    j->step = y->strides[0];
    j->column = y->strides[1];
    cr_run_chunks(pieces, write_chunk, j);
    return CR_OK;
}

cr_status cr_cpu_nonzero(const cr_nonzero_args *args) {
    const cr_array *y = cr_present(&args->y), *x = &args->x;
    const int64_t pieces = cr_pieces(x->numel, PIECE);
    const size_t bytes = sizeof(int64_t) * (size_t)pieces;
    job j = {.x = cr_array_data(x),
             .numel = x->numel,
             .ndim = x->ndim,
             .shape = x->shape,
             .last = x->ndim ? x->shape[x->ndim - 1] : 1};
    if (!(j.first = cr_cpu_take(bytes))) return CR_NO_MEMORY;
    cr_run_chunks(pieces, count_chunk, &j);
    cr_status status = cr_finished("nonzero", CR_OK);
    *args->count = status == CR_OK ? add_up(&j, pieces) : 0;
    if (status == CR_OK && y) status = write_all(&j, pieces, *args->count, y);
    cr_cpu_give(j.first, bytes);
    return status;
}
