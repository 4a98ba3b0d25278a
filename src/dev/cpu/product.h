/* product.h - products of two matrices, the units of work of matmul.c, packed.c and attention_isa.c.
 *
 * c (m, n) = [c +] a (m, k) b (k, n) [+ bias (n)].  Strides are in elements; c's columns are contiguous. */
#ifndef CR_PRODUCT_H
#define CR_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <chainrule.h>

#include "isa_name.h"
#include "../../core/ints.h"

typedef struct cr_product {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    const void *bias;                               /* NULL: none */
    int64_t a_row, a_col, b_row, b_col, c_row;
    bool accumulate;
    bool wide;                                      /* a and b of half precision, c and bias f32 */
    bool one_bias;                                  /* bias is one number: c is a column, turned into a row */
} cr_product;

/* Prefetches while panels of a are multiplied with a strip of b, alternating between two sources:
 * during panel i < panels the lines at + i panel + s step, s = 0, 1, ...; in bytes.  A third one,
 * which may have no panels, is prefetched for writing in place of c's tile: step bytes at + i panel. */
typedef struct cr_ahead { const char *at; int64_t panels, panel, step; } cr_ahead;

/* The register-blocked kernels of one element type, for one instruction set (product_tiles.h,
 * product_kernels.h).  Packed operands hold `per` numbers along k in an element of `size` bytes. */
typedef struct cr_product_kernels {
    void (*direct)(const cr_product *p);            /* b_col 1; packs nothing: for small products and small m */
    void (*row)(const cr_product *p);               /* m 1 */
    void (*outer)(const cr_product *p);             /* k and b_col 1 */
    void (*few)(const cr_product *p);               /* a_col and b_row 1: for few rows; reads b's columns in place */
    void (*pack)(void *to, int64_t width, int64_t n, int64_t k, const void *from, int64_t across, int64_t along);
    /* to[p * width + j] = from[j * across + p * along]: j < n, p < k; zeros for n <= j < width (whole
     * vectors, aligned) */
    void (*pack_rows)(void *to, bool of_a, int64_t line, int64_t n, int64_t k, const void *from, int64_t along);
                                                    /* all lines of n numbers, whose k lies across, `line` elements
                                                     * from line to line; NULL: none */
    void (*panels)(const cr_product *p, const cr_ahead next[3]);
    /* a: packed panels of tile_rows, each panel_width wide; b: one packed strip, n <= tile_columns,
     * that wide; the strides of a and b are not used */
    int tile_rows, tile_columns;                    /* the tile of c in registers */
    int panel_width, depth;                         /* depth: numbers along k, such that a strip of b stays in L1 */
    int per, size;
} cr_product_kernels;

struct cr_products {                                /* matmul_isa.c */
    cr_product_kernels f32, f64;
    cr_product_kernels from_f16, from_bf16, rounded;    /* f32's; packing converts: halves, f32 rounded to bf16 */
    void (*row_f16)(const cr_product *p);           /* m 1, a_col and b_row 1; b f16 (or bf16), the others f32 */
    void (*row_bf16)(const cr_product *p);
};
CR_ISA_TABLE(cr_products);

/* Products of pairs of bf16, added in f32 (matmul_bf16.c): only panels and pack, which reads f32 (and
 * rounds to nearest even) or bf16.  NULL: the processor lacks them, or CHAINRULE_ISA or a test fixes
 * the instruction set. */
const cr_product_kernels *cr_product_bf16(bool from_f32);
/* the same without the check: x86-64 only, where cr_cpu_bf16() */
const cr_product_kernels *cr_product_pairs(bool from_f32);

/* An update whose input is a product that never exists whole: complete rows of c go into the update at
 * once (matmul.c). */
typedef struct cr_product_update { const struct cr_walk *walk; int input; } cr_product_update;
/* false: no memory */
bool cr_product_update_rows(const cr_product_update *u, int64_t first, const cr_product *c);

/* One product of floats on all threads (packed.c).  bf16: f32 operands are rounded to bf16.  update:
 * NULL, or the update that receives c, if cr_packed_by_rows.  False: no memory, without a message. */
bool cr_packed_product(const cr_product *w, cr_dtype dtype, bool bf16, const cr_product_update *update);
/* are its chunks whole rows of c over all of k? */
bool cr_packed_by_rows(const cr_product *w, cr_dtype dtype, bool bf16);

#endif
