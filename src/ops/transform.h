/* transform.h - vmap and forward mode, below the functions of tensors.
 *
 * A level is one transform of the thread, from cr_vmap_begin or cr_jvp_begin to cr_transform_end.  Its tensors are
 * wrappers (core/tensor.h): a batch of tensors, or a tensor with its tangent.  The executor passes an op with such an
 * input to cr_run_wrapped, which takes the innermost level off its inputs and runs the op's rule for it (op.h) over
 * their values.  These may be wrappers of outer levels. */
#ifndef CR_TRANSFORM_H
#define CR_TRANSFORM_H

#include "op.h"

enum { CR_MAX_LEVELS = 16, CR_FEW_INPUTS = 16 };

/* A call for a batching rule. */
struct cr_batched {
    const cr_call *call;                            /* as the function sees it: in[i] are single samples */
    const cr_tensor **in;                           /* values; those with has[i] have the batch as axis 0 */
    const bool *has;
    int64_t size;                                   /* of the batch */
    uint64_t level;
    const cr_meta *out, *aux_meta;                  /* of one sample */
    cr_tensor **aux;                                /* NULL, or room for the auxiliary results */
};

bool       cr_any_wrapped(int n, const cr_tensor *const *in);
cr_tensor *cr_run_wrapped(cr_call *c, cr_tensor *kept[]);
/* x = y in place, where x or y is a wrapper; the shapes broadcast */
cr_status  cr_write_wrapped(cr_tensor *x, const cr_tensor *y);
/* A message if t is a wrapper: `op` needs its elements. */
cr_status  cr_want_elements(const char *op, const cr_tensor *t);
cr_status  cr_want_values(const char *op, const cr_tensor *t);  /* the same where those of a primal will do */
/* the elements of all samples, or of the primal, outside all levels: for checks that raise an error */
static inline const cr_tensor *cr_bottom(const cr_tensor *t) {
    while (cr_wrapped(t)) t = t->wrapper->value;
    return t;
}
/* f of what t stands for: of a batch with the number of axes before its own */
cr_tensor *cr_map_wrapped(const cr_tensor *t, cr_tensor *(*f)(const cr_tensor *value, void *ctx), void *ctx);

/* Random numbers inside vmap.  False: a message.  *n, shape: with the axes of levels whose samples draw different
 * numbers in front, for cr_random_end. */
bool       cr_random_begin(const char *op, int *n, const int64_t **shape, int64_t room[]);
cr_tensor *cr_random_end(int n, cr_tensor *y);      /* n: axes of one sample; takes y */
bool       cr_random_same(const char *op);          /* a message where samples may not draw the same numbers */

/* ---- a level below others, for gradients (grad/transform.c).  x without level id, a batch: its samples are axis 0;
 * the primal, or the tangent, of x, CR_NONE without one; and the inverses of both */
cr_tensor *cr_batch_at(const cr_tensor *x, uint64_t id);
cr_tensor *cr_batch_again(const cr_tensor *x, uint64_t id);
cr_tensor *cr_part_at(const cr_tensor *x, uint64_t id, bool tangent);
cr_tensor *cr_dual_again(const cr_tensor *x, const cr_tensor *t, uint64_t id);
bool       cr_level_is_batch(uint64_t id);
cr_tensor *cr_batched_fully(const cr_tensor *x);    /* x as a batch of every vmap around */

/* ---- for rules of vmap */
/* in[i] with the batch axis, by stride 0 where it has none; CR_NONE stays */
const cr_tensor *cr_batch_in(const cr_batched *b, int i);
/* the same with axes of size 1 behind the batch axis, so that a sample has n; others stay */
const cr_tensor *cr_batch_aligned(const cr_batched *b, int i, int n);
/* y, whose elements are in order, in the shape (size, *m->shape) */
cr_tensor *cr_batch_shaped(const cr_batched *b, cr_tensor *y, const cr_meta *m);
cr_tensor *cr_batch_apply(const cr_batched *b, const cr_tensor *const *in, const void *params);

/* ---- rules of vmap: all inputs as they are; all with the batch axis; the same, of ops over the last axis; params
 * begin with an int that is an axis; elements are independent, or rows of the first axis are; the op's composite */
cr_tensor *cr_batch_same(const cr_batched *b);
cr_tensor *cr_batch_all(const cr_batched *b);
cr_tensor *cr_batch_last(const cr_batched *b);
cr_tensor *cr_batch_axis(const cr_batched *b);
cr_tensor *cr_batch_composite(const cr_batched *b);
/* of x w^T + b with a frozen w: in[0] is x, the last is b or CR_NONE, w is between them; all samples share w */
cr_tensor *cr_batch_frozen(const cr_batched *b);

/* ---- rules of forward mode.  t[i]: the tangent of in[i], or CR_NONE; c->out is the result */
cr_tensor *cr_tangent_linear(const cr_call *c, const cr_tensor *const *t);       /* in all float inputs together */
cr_tensor *cr_tangent_products(const cr_call *c, const cr_tensor *const *t);     /* in each input */
cr_tensor *cr_tangent_frozen(const cr_call *c, const cr_tensor *const *t);       /* as cr_batch_frozen */
/* tangents of in[n] may be missing there: zeros */
const cr_tensor *cr_tangent_or_zeros(const cr_tensor *t, const cr_tensor *x);
/* a + b, where each may be CR_NONE */
cr_tensor *cr_tangent_sum(const cr_tensor *a, const cr_tensor *b);

#endif
