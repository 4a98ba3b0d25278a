/* ints.h - arithmetic on sizes. */
#ifndef CR_INTS_H
#define CR_INTS_H

#include <stdint.h>

static inline int64_t cr_imin(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cr_imax(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t cr_iclamp(int64_t x, int64_t low, int64_t high) { return cr_imax(low, cr_imin(x, high)); }

/* How many pieces of at most `grain` units n units make: ceil(n / grain), at least 1. */
static inline int64_t cr_pieces(int64_t n, int64_t grain) { return n <= grain ? 1 : (n + grain - 1) / grain; }

#endif
