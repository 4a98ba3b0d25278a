/* compose.h - shared by the structured ops: argument checks, handles and arrays for kernels, and short
 * names for gradients and composites. The short names are the public functions; a scope around them
 * owns their results. */
#ifndef CR_COMPOSE_H
#define CR_COMPOSE_H

#include "op.h"
#include "structured.gen.h"

/* ---- argument checks (shared.c) */
/* neither NULL nor CR_NONE, else a message */
bool      cr_given(const char *op, const char *what, const cr_tensor *t);
cr_status cr_want_float(const char *op, const cr_tensor *t);
cr_status cr_want_index(const char *op, const cr_tensor *t);                      /* i32 or i64 */
cr_status cr_want_same_dtype(const char *op, const cr_tensor *a, const cr_tensor *b);
/* what every maker is given (creation.c); m: what to make */
cr_status cr_made_meta(const char *op, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_meta *m);
/* v as one element of dt; refused where it does not fit */
cr_status cr_element(const char *op, double v, cr_dtype dt, void *element);

/* ---- handles for kernels (shared.c): outside any graph; the caller releases them */
/* x's elements in order: the same memory where it is so already */
cr_tensor *cr_packed(const cr_tensor *x);
cr_tensor *cr_packed_as(const cr_tensor *x, cr_dtype dt);                         /* and in this dtype */
/* strides of a view of x in this shape; false: only a copy can have it */
bool       cr_view_strides(const cr_tensor *x, int n, const int64_t *shape, int64_t *strides);
/* the copy kernel; nothing for empty tensors */
cr_status  cr_copy_elements(cr_tensor *dst, const cr_tensor *src);
cr_status  cr_copy_array(const cr_array *dst, const cr_array *src);                /* the same for arrays */
cr_status  cr_copy_repeated(cr_tensor *dst, const cr_tensor *src);                /* src broadcast to dst's shape */
cr_status  cr_fill_elements(cr_tensor *dst, double v);                            /* the fill kernel; v must fit */
cr_status  cr_fill_array(const cr_array *dst, double v);
cr_tensor *cr_filled(const cr_meta *m, const cr_device *dev, double v);           /* a new tensor, every element v */
/* uninitialised, of like's shape and dtype: for a fused gradient */
cr_tensor *cr_fused(const cr_tensor *like);
/* The dtype of gradient dx[i], as c->wide says. */
static inline cr_dtype cr_gradient_dtype(const cr_call *c, int i) {
    return c->wide & 1u << i ? CR_F32 : c->in[i]->dtype;
}
cr_tensor *cr_fused_as(const cr_call *c, int i);                 /* uninitialised, for gradient dx[i] in that dtype */
/* The same, for a gradient that the kernel may write over saved: saved itself where nothing but this call has it. */
cr_tensor *cr_fused_over(const cr_call *c, const cr_tensor *saved);
/* x as M rows of N, its last axis; a scalar is one row of 1 */
void       cr_rows_of(const cr_tensor *x, int64_t *M, int64_t *N);

/* ---- arrays for kernels, of tensors that stay alive until the kernel returns (shared.c) */
/* absent for NULL and CR_NONE */
static inline cr_array array_of(const cr_tensor *t) { return t ? t->array : (cr_array){0}; }
/* contiguous x as (M, N), as cr_rows_of sees it */
cr_array   cr_rows_array(const cr_tensor *x);
/* contiguous a as (M, R, N), R: the axes [axis, axis + count) */
cr_array   cr_around(const cr_array *a, int axis, int count);
/* These copy elements that do not lie as wanted; the scope around owns the copy. */
/* makes *a contiguous, if it is present */
cr_status  cr_pack(cr_array *a);
/* x in another shape; strided where strides can describe that */
cr_status  cr_see_as(const cr_tensor *x, int n, const int64_t *shape, cr_array *a);

/* ---- ops that others use */
#define CR_DECLARE_OP(name) extern const cr_op cr_op_##name;
CR_STRUCTURED_OPS(CR_DECLARE_OP)

/* the dtype in which both are compared: a plain number v does not widen a tensor of its kind (order.c) */
cr_dtype   cr_compared(const cr_tensor *x, const cr_tensor *v);
cr_tensor *cr_alias(const cr_tensor *x);                                          /* a new handle on x, in the graph */
/* y, a new handle with the elements of x in another dtype, becomes the cast of x (copy.c) */
cr_status  cr_cast_recorded(const cr_tensor *x, cr_tensor *y);
/* of n results only `made` exist: releases them (strided_view.c) */
cr_status  cr_all_or_none(int made, int n, cr_tensor **out);

/* of take's result, put's source (take.c) */
cr_status cr_taken_shape(const cr_take_params *p, const cr_tensor *x, const cr_tensor *index, int64_t *shape,
                         int *ndim);
/* to: NULL, or x, to be written in place */
cr_tensor *cr_put(const cr_take_params *p, cr_tensor *to, const cr_tensor *x, const cr_tensor *index,
                  const cr_tensor *src);
/* value, cast to x's dtype, where mask; to as above (masked.c) */
cr_tensor *cr_masked_where(cr_tensor *to, const cr_tensor *x, const cr_tensor *mask, const cr_tensor *value);
/* positions of the true elements of a bool mask, in order: (K) (advanced_index.c) */
cr_tensor *cr_mask_positions(const cr_tensor *mask);

/* ---- elements picked along an axis, and their positions: the op's auxiliary result (shared.c) */
/* index NULL: not wanted */
cr_tensor *cr_apply_with_index(const cr_op *op, const cr_tensor *x, const void *params, cr_tensor **index);
/* y = x[index] along the axis:  dx = zeros with g added at index */
cr_tensor *cr_spread_at(const cr_call *c, const cr_tensor *g, int axis, const cr_tensor *index);

/* Ends a composite's scope: its result, or NULL, moves out. */
static inline cr_tensor *cr_leave(cr_tensor *y) {
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

/* The same where the result is `to`, written in place: that stays where it is. */
static inline cr_tensor *cr_leave_with(const cr_tensor *to, cr_tensor *y) {
    if (!to) return cr_leave(y);
    cr_scope_end();
    return y;
}

/* A composite's result or, where an op inside failed, NULL and that op's message in the composite's
 * own name.  before: cr_error_status() at its start. */
cr_tensor *cr_named(const char *op, cr_status before, cr_tensor *y);              /* (shared.c) */

/* A gradient that is the cotangent itself. */
static inline cr_tensor *same(const cr_tensor *g) { return (cr_tensor *)(uintptr_t)g; }

/* The dtype that statistics of x are kept in: f32 for half precision. */
static inline cr_dtype wide_dtype(const cr_tensor *x) { return cr_dtype_wide(x->dtype); }

/* ---- the short names */
static inline cr_tensor *add(const cr_tensor *a, const cr_tensor *b) { return cr_add(a, b); }
static inline cr_tensor *sub(const cr_tensor *a, const cr_tensor *b) { return cr_sub(a, b); }
static inline cr_tensor *mul(const cr_tensor *a, const cr_tensor *b) { return cr_mul(a, b); }
static inline cr_tensor *divide(const cr_tensor *a, const cr_tensor *b) { return cr_div(a, b); }
static inline cr_tensor *mul_k(const cr_tensor *a, double k) { return cr_mul_scalar(a, k); }
static inline cr_tensor *sum_last(const cr_tensor *x) { return cr_sum(x, CR_LIST(-1), true); }
static inline cr_tensor *mean_last(const cr_tensor *x) { return cr_mean(x, CR_LIST(-1), true); }
static inline cr_tensor *transposed(const cr_tensor *x) { return cr_transpose(x, -2, -1); }
static inline cr_tensor *cast_to(const cr_tensor *x, cr_dtype dt) {
    return !x || x->dtype == dt ? same(x) : cr_to(x, dt, x->dev);
}
static inline cr_dtype widest_float(const cr_device *d) { return d->kernels->f32_only ? CR_F32 : CR_F64; }
static inline cr_tensor *widened(const cr_tensor *x) { return x ? cast_to(x, wide_dtype(x)) : NULL; }
/* All the rows of x one below another, (rows, last axis). */
static inline cr_tensor *rows_of(const cr_tensor *x) {
    int64_t M, N;
    if (!x) return NULL;
    cr_rows_of(x, &M, &N);
    return cr_reshape(x, CR_LIST(M, N));
}
static inline cr_tensor *reshaped_like(const cr_tensor *x, const cr_tensor *like) {
    return cr_reshape(x, like->ndim, like->shape);
}

#endif
