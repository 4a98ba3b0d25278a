/* func.h - transforms of functions: vmap, forward mode, and gradients inside them: a part of
 * chainrule.h.
 *
 * A transform is a level of the thread.  Between its begin and its end the function runs once, over
 * tensors that stand for others: for all samples of a batch, or for a value with its tangent.
 * Levels nest in any order, and gradients pass through them.
 *
 *     uint64_t level = cr_vmap_begin(512, CR_RANDOM_ERROR);
 *     cr_tensor *x = cr_vmap_enter(samples, 0, level);         samples (512, C): x is (C)
 *     cr_tensor *y = cr_vmap_leave(f(x), 0, level);            (512, ...)
 *     cr_transform_end(level);
 *
 * What needs values (cr_read, cr_item) fails inside vmap with the name of the call. */
#ifndef CHAINRULE_FUNC_H
#define CHAINRULE_FUNC_H

typedef enum cr_randomness { CR_RANDOM_ERROR, CR_RANDOM_SAME, CR_RANDOM_DIFFERENT } cr_randomness;
                            /* do samples draw the same numbers, or different ones, or none? */

/* ---- levels: 0 and a message after a failure; they end in reverse order */
uint64_t   cr_vmap_begin(int64_t size, cr_randomness random);
uint64_t   cr_jvp_begin(void);
cr_status  cr_transform_end(uint64_t level);
int        cr_transform_depth(void);            /* levels of this thread */
uint64_t   cr_level_of(const cr_tensor *t);     /* the innermost whose tensor t is; 0: none */

cr_tensor *cr_vmap_enter(const cr_tensor *x, int axis, uint64_t level);  /* without this axis */
cr_tensor *cr_vmap_leave(const cr_tensor *y, int axis, uint64_t level);
                            /* with it again, as a new axis; by stride 0 if y is not mapped */
bool       cr_vmap_has(const cr_tensor *y, uint64_t level);     /* is y mapped? */
cr_tensor *cr_jvp_enter(const cr_tensor *x, const cr_tensor *t, uint64_t level);
cr_tensor *cr_jvp_leave(const cr_tensor *y, uint64_t level, cr_tensor **tangent);
                            /* value and tangent, zeros where there is none */
cr_tensor *cr_wrapped_as(const cr_tensor *x, const cr_tensor *y);
                            /* a copy of y for each sample that x stands for */

/* ---- gradients with respect to x, where a function may depend on outer tensors too */
cr_tensor *cr_grad_enter(const cr_tensor *x);   /* x for the function; outer graphs see it too */
cr_status  cr_grad_leave(int n_out, const cr_tensor *const *out,
                         const cr_tensor *const *cotangents, int n_in, const cr_tensor *const *in,
                         cr_tensor **grads, const cr_backward_options *o);
                            /* as cr_gradients, where `in` are from cr_grad_enter and a result may
                               depend on none of them */
cr_status  cr_grad_nested(int n_out, const cr_tensor *const *out, int n_in,
                          const cr_tensor *const *in, bool *nested);
                            /* do results depend on leaves of outer graphs, also through in[i]?
                               Then the gradients should be recorded */
cr_tensor *cr_ungraph(const cr_tensor *x);      /* cr_detach that keeps tangents */

/* ---- functions of C */
cr_tensor *cr_vmap(cr_function f, void *ctx, int n, const cr_tensor *const *in, const int *axes,
                   int out_axis, cr_randomness random);
                            /* axes[i]: CR_UNMAPPED for the same in[i] in each call */
enum { CR_UNMAPPED = -100 };
cr_tensor *cr_jvp(cr_function f, void *ctx, int n, const cr_tensor *const *in,
                  const cr_tensor *const *tangents, cr_tensor **tangent);
                            /* f(in), and its derivative along tangents[i] or CR_NONE */

#endif
