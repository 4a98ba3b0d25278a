/* winograd.h - the transforms of F(2x2, 3x3) (Winograd 1980; Lavin and Gray 2016) for one instruction set
 * (winograd_isa.c): 2 x 2 outputs of a 3 x 3 kernel from 4 x 4 elements by 16 multiplications instead of 36.
 *   y = A^T ((G w G^T) . (B^T x B)) A
 * Lanes are tiles, or rows of the weights; what belongs to one of the 16 positions lies `step` numbers apart. */
#ifndef CR_WINOGRAD_H
#define CR_WINOGRAD_H

#include "isa_name.h"

#include <stdbool.h>
#include <stdint.h>

enum { CR_TILE = 2, CR_TILE_IN = 4, CR_TILE_POSITIONS = 16 };

/* A strip of tiles of one channel in a buffer of conv.h: element (i, k) of the tile of lane l is
 * buffer[at[l] + i line + k % 2 phase + k / 2]; channel: from one channel to the next;
 * n: lanes that are tiles. */
typedef struct cr_tiles { const float *buffer; int64_t channel, line, phase; const int64_t *at; int64_t n; } cr_tiles;

/* Where the results of a strip are: lane l's first one at y[to[l]], which has a second row and column where `rows`
 * and `columns` of it are set; to < 0: no such tile. */
typedef struct cr_tiles_out {
    float *y;
    int64_t channel, line;
    const int64_t *to;
    const bool *rows, *columns;
} cr_tiles_out;

struct cr_winograds {
    /* u[position * step + i * panel + lane] = G w G^T of w[(i * 9 + tap) * panel + lane], i < n, lane < panel, whole
     * vectors; flip: of the weights turned by 180 degrees */
    void (*weights)(float *u, int64_t step, const float *w, int64_t panel, int64_t n, bool flip);
    /* v[position * step + c * each + lane] = B^T x B, c < channels; lanes: of a strip, product.h */
    void (*input)(float *v, int64_t step, int64_t each, const cr_tiles *x, int64_t channels);
    /* the same of A g A^T, g 2 x 2 */
    void (*cotangent)(float *v, int64_t step, int64_t each, const cr_tiles *g, int64_t channels);
    /* y = A^T m A + bias of m[position * step + c * each + lane]; bias NULL: none */
    void (*output)(const cr_tiles_out *y, const float *m, int64_t step, int64_t each, const float *bias,
                   int64_t channels);
    /* dw[i * 9 + tap] = G^T du G of the sum over parts of du[part * all + position * step + i], i < n */
    void (*gradient)(float *dw, const float *du, int64_t step, int64_t all, int64_t parts, int64_t n);
};
CR_ISA_TABLE(cr_winograds);

#endif
