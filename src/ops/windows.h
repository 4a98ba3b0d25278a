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

/* Windows over n axes: window p has the elements p stride + t dilation - pad, t < kernel.  (integer_windows.c) */
typedef struct cr_windows { int n; int64_t kernel[3], stride[3], dilation[3], pad[3], count[3]; } cr_windows;
static inline cr_windows cr_windows_of(const cr_pool_options *o, const int64_t *count) {
    cr_windows w = {.n = o->n};
    for (int i = 0; i < o->n; i++) {
        w.kernel[i] = o->kernel[i];
        w.stride[i] = o->stride[i];
        w.dilation[i] = o->dilation[i];
        w.pad[i] = o->pad[i];
        w.count[i] = count[i];
    }
    return w;
}
/* In the caller's scope; x (B, C, ...) and the weight as convolutions have them; no bias. */
cr_tensor *cr_integer_conv(const cr_tensor *x, const cr_tensor *w, const cr_windows *windows, int64_t groups);
cr_tensor *cr_integer_conv_transpose(const cr_tensor *x, const cr_tensor *w, const cr_windows *windows, int64_t groups,
                                     const int64_t *size);
cr_tensor *cr_integer_max_pool(const cr_tensor *x, const cr_windows *w, cr_tensor **index);
cr_tensor *cr_integer_avg_pool(const cr_tensor *x, const cr_windows *w, bool count_pad, int64_t divisor);
static inline bool cr_is_integer(const cr_tensor *x) { return !cr_dtype_is_float(x->dtype) && x->dtype != CR_BOOL; }

/* A banded matrix (S, R): row s has the weights (s, 0 .. K - 1) from column start[s] on.  On the host. */
typedef struct cr_band { int64_t S, R, K; int64_t *start; double *weights; } cr_band;
/* weights 0; false: out of memory, or too large, with a message */
bool cr_band_new(const char *op, int64_t S, int64_t R, int64_t K, cr_band *b);
void cr_band_free(cr_band *b);
/* b x along an axis of x, whose size is b->R; the starts of b do not fall */
cr_tensor *cr_apply_band(const cr_tensor *x, int axis, const cr_band *b);

#endif
