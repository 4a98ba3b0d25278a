/* winograd.h - the transforms of F(2x2, 3x3) and F(2x2, 2x2) (Winograd 1980; Lavin and Gray 2016) for one instruction
 * set (winograd_isa.c): 2 x 2 outputs of a kernel of r x r taps from n x n elements by n x n multiplications, where
 * n = r + 1, instead of 4 r r.
 *   y = A^T ((G w G^T) . (B^T x B)) A
 * What belongs to one of the n x n positions lies `step` numbers apart. */
#ifndef CR_WINOGRAD_H
#define CR_WINOGRAD_H

#include "isa_name.h"

#include <stdbool.h>
#include <stdint.h>

enum { CR_TILE = 2, CR_TILE_POINTS = 4, CR_TILE_PHASES = 2 };    /* outputs of an axis; the most n; the most phases */

/* Tiles of one channel in a buffer of conv.h, as lanes: element (i, k) of lane l's tile is
 * buffer[at[l] + i row + column[k]]; channel: from one channel to the next; n: lanes that are tiles. */
typedef struct cr_tiles {
    const float *buffer;
    int64_t channel, row, column[CR_TILE_POINTS];
    const int64_t *at;
    int64_t n;
} cr_tiles;

/* Where the results of tiles are: the outputs of an axis are `phases` apart, and outputs of so many phases fill the
 * gaps of a row.  Lane l's first one is y[to[l]]; rows and columns: how many there are from it on, 0: no such tile. */
typedef struct cr_tiles_out {
    float *y;
    int64_t channel, line;
    int phases;
    const int64_t *to;
    const int32_t *rows, *columns;
} cr_tiles_out;

/* Channels as lanes, in groups of `channels` whose numbers lie `group` apart. */
typedef struct cr_tile_groups { int64_t step, group; int channels, lanes; } cr_tile_groups;

/* Transforms one tile, in groups of channels.  Element (i, k) of channel c < n is x[i row + k column + c].  A group is
 * read and written in whole vectors: `lanes` numbers from its first channel on. */
typedef void cr_tile_transform(float *v, const cr_tile_groups *to, const float *x, int64_t row, int64_t column,
                               int64_t n);

/* The transforms of one r; tap[i]: the element of a kernel of `taps` that is tap i of r x r. */
struct cr_winograd {
    /* u[position * step + i * panel + lane] = G w G^T of w[(i * taps + tap[]) * panel + lane], i < n, lane < panel,
     * whole vectors */
    void (*weights)(float *u, int64_t step, const float *w, int64_t taps, const int64_t *tap, int64_t panel, int64_t n);
    /* v[position * step + c * each + lane] = B^T x B, c < channels; lanes: of a strip, product.h */
    void (*input)(float *v, int64_t step, int64_t each, const cr_tiles *x, int64_t channels);
    cr_tile_transform *pixels, *cotangents;         /* the same of one tile, and A g A^T of g 2 x 2 */
    /* y = A^T m A + bias of m[position * step + c * each + lane], phase after phase of a row; bias NULL: none; row: the
     * first one */
    void (*output)(const cr_tiles_out *y, int row, const float *m, int64_t step, int64_t each, const float *bias,
                   int64_t channels);
    /* dw[i * taps + tap[]] = G^T du G of du[position * step + i], i < n */
    void (*gradient)(float *dw, int64_t taps, const int64_t *tap, const float *du, int64_t step, int64_t n);
};
struct cr_winograds { struct cr_winograd three, two; };          /* r */
CR_ISA_TABLE(cr_winograds);

#endif
