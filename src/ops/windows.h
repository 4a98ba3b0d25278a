/* windows.h - what the ops on windows share: the sizes of pooling, and banded matrices made on the host. */
#ifndef CR_WINDOWS_H
#define CR_WINDOWS_H

#include "compose.h"

/* The last o->n axes of x pooled: checks x and o, and gives the shape of the result.  kind: "max_pool" in messages of
 * max_pool2d. */
cr_status cr_pooled_shape(const char *kind, const cr_tensor *x, const cr_pool_options *o, cr_meta *out);
/* 1 <= n <= 3, and as many last axes of x, none of them empty */
cr_status cr_check_spatial(const char *op, const cr_tensor *x, int n);
/* sizes that adaptive pooling and resampling may give the last n axes of x */
cr_status cr_check_sizes(const char *op, const cr_tensor *x, int n, const int64_t *size);
/* Adaptive pooling cuts an axis of R elements into S windows: the first element and the end of one; S, R < 2^31. */
static inline int64_t cr_adaptive_first(int64_t s, int64_t S, int64_t R) { return s * R / S; }
static inline int64_t cr_adaptive_end(int64_t s, int64_t S, int64_t R) { return ((s + 1) * R + S - 1) / S; }

/* A banded matrix (S, R): row s has the weights (s, 0 .. K - 1) from column start[s] on.  On the host. */
typedef struct cr_band { int64_t S, R, K; int64_t *start; double *weights; } cr_band;
/* weights 0; false: out of memory, or too large, with a message */
bool cr_band_new(const char *op, int64_t S, int64_t R, int64_t K, cr_band *b);
void cr_band_free(cr_band *b);
/* b x along an axis of x, whose size is b->R; the starts of b do not fall */
cr_tensor *cr_apply_band(const cr_tensor *x, int axis, const cr_band *b);

#endif
