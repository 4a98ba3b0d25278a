/* product.h - products of two matrices on one thread: what matmul.c and attention_isa.c cut their work into.
 *
 * c (m, n) = [c +] a (m, k) b (k, n) [+ bias (n)].  Strides are in elements; c's columns are contiguous. */
#ifndef CR_PRODUCT_H
#define CR_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cr_product {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    const void *bias;                               /* NULL: none */
    int64_t a_row, a_col, b_row, b_col, c_row;
    bool accumulate;
} cr_product;

/* The register-blocked kernels of one element type, for one instruction set (product_kernels.h). */
typedef struct cr_product_kernels {
    void   (*direct)(const cr_product *p);          /* b_col must be 1; packs nothing: for small products, and where m is small */
    void   (*blocked)(const cr_product *p, void *scratch);      /* any strides; scratch: 64-byte aligned, of scratch_bytes */
    size_t (*scratch_bytes)(int64_t m, int64_t n, int64_t k);
    void   (*row)(const cr_product *p);             /* m must be 1 */
    void   (*pack)(void *to, int64_t width, int64_t n, int64_t k, const void *from, int64_t across, int64_t along);
                                                    /* to[p * width + j] = from[j * across + p * along]: j < n, p < k; zeros for n <= j < width (whole
                                                       vectors, aligned) */
    int    tile_rows, tile_columns;                 /* of c that stay in registers */
} cr_product_kernels;

typedef struct cr_product_isa {
    int isa;
    cr_product_kernels f32, f64;
    void (*f32_from_half)(float *dst, const uint16_t *src, int64_t n, bool bf16);
    void (*half_from_f32)(uint16_t *dst, const float *src, int64_t n, bool bf16);       /* to nearest, ties to even */
} cr_product_isa;

const cr_product_isa *cr_product_best(void);        /* for cr_cpu_isa() */
const cr_product_isa *cr_product_for(int isa);      /* NULL: not built, or this processor lacks it */
int cr_product_prefer(int isa);                     /* for tests: cr_product_best gives this one; -1: cr_cpu_isa()'s; returns the old setting */

#endif
