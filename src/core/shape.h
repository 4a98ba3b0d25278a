/* shape.h - arithmetic on shapes, and the checks that every op shares. */
#ifndef CR_SHAPE_H
#define CR_SHAPE_H

#include <string.h>
#include "ints.h"
#include "status.h"

/* The layout of a result, before it exists. */
typedef struct cr_meta {
    cr_dtype dtype;
    int ndim;
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS], offset;   /* strides, offset: only with `strided` */
    bool strided;                                   /* false: contiguous, strides and offset are not set */
} cr_meta;

typedef struct cr_text { char s[200]; } cr_text;    /* text by value, for messages: cr_shape_text(t->ndim,
                                                     * t->shape).s */
cr_text   cr_shape_text(int ndim, const int64_t *shape);     /* "(2, 3)", "(7,)", "()" */
/* dims >= 0, no overflow of the byte size */
cr_status cr_shape_check(const char *op, int ndim, const int64_t *shape, cr_dtype dt, int64_t *numel);
/* 0..ndim-1 for axis in [-ndim, ndim), else -1 and a message; ndim 0 counts as 1 */
int       cr_axis(const char *op, int64_t axis, int ndim);
/* n 0: all; duplicates refused */
cr_status cr_axes_mask(const char *op, int n, const int64_t *axes, int ndim, uint32_t *mask);
/* out may be a or b */
cr_status cr_broadcast(const char *op, int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out);
void      cr_strides_contiguous(int ndim, const int64_t *shape, int64_t *strides);
static inline bool cr_shape_equal(int na, const int64_t *a, int nb, const int64_t *b) {
    return na == nb && !memcmp(a, b, sizeof *a * (size_t)na);
}
bool      cr_strides_are_contiguous(int ndim, const int64_t *shape, const int64_t *strides);

#endif
