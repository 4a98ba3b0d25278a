/* onednn.h - oneDNN, opened at run time, without its headers. */
#ifndef CR_ONEDNN_H
#define CR_ONEDNN_H

#include <stdbool.h>
#include <stdint.h>

/* Opens the library on the first call (about 10 ms); later calls are cheap.  False: not found, not
 * suitable, or switched off. */
bool cr_onednn_ready(void);

/* For tests: false makes cr_onednn_ready return false; returns the old setting. */
bool cr_onednn_allow(bool on);

/* c (m, n) = a (m, k) b (k, n) + beta c, row-major, on the calling thread only.  a_transposed: a lies as (k, m).
 * Only after cr_onednn_ready.  False: oneDNN refused (out of memory); c may be half written. */
typedef struct cr_onednn_product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_stride, b_stride, c_stride;           /* between rows as they lie in memory */
    bool a_transposed, b_transposed;
    float beta;
} cr_onednn_product;
bool cr_onednn_sgemm(const cr_onednn_product *p);

#endif
