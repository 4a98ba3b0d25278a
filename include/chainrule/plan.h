/* plan.h - steps recorded once and replayed: a part of chainrule.h, which includes it.
 *
 * A recording runs a step as usual and keeps the kernels that ran: forward, backward, updates,
 * random draws.  The plan runs the same kernels again without ops, graph or allocation, some of
 * them fused and in memory planned ahead, and gives the same bits.  Tensors from outside the step
 * (parameters, moments, buffers) stay where they are: a plan reads their current values.
 *
 *     cr_record_begin(1, &x);
 *     cr_tensor *loss = step(x);               the step itself: any functions of this library
 *     cr_plan *plan = cr_record_end(1, &loss);
 *     ...
 *     cr_plan_run(plan, &x2, &loss2);          loss2: a new tensor
 *
 * Run the step once before it is recorded: a replay would create again what a first step creates
 * (moments).  A generator that the step draws from, and an optimizer, must outlive the plan. */
#ifndef CHAINRULE_PLAN_H
#define CHAINRULE_PLAN_H

typedef struct cr_plan cr_plan;

/* ---- recording: one at a time in a thread.  Ops of other threads are not part of it:
 * cr_record_end fails if the step uses their results, or they use its tensors */
cr_status cr_record_begin(int n, const cr_tensor *const *inputs);
                            /* tensors that change from run to run; in a run, every handle of an
                               input refers to the input of that run */
void      cr_record_captures(int n, const cr_tensor *const *tensors);
                            /* tensors that the step may read besides its inputs: the plan fits as
                               long as they keep their memory, layout and requires_grad.  An input
                               that shares memory with one of them must do so in every run */
cr_plan  *cr_record_end(int n, const cr_tensor *const *outputs);
                            /* owned; NULL and a message: the step cannot be replayed, but it has
                               run.  An output in a graph has a gradient in each run too: zeros
                               where the loss does not use it */
void      cr_record_cancel(void);   /* after a failure inside the step */
bool      cr_recording(void);       /* does this thread record? */
void      cr_record_lenient(void);  /* from now on, what cannot be replayed runs as usual, and
                                       cr_record_end reports it */
cr_status cr_record_refuse(const char *op, const char *why);
                            /* call it before doing what a replay cannot repeat: fails with
                               "[op] why"; CR_OK if nothing is recorded or it is lenient */

cr_status cr_record_recomputes(const char *op);
                            /* call it before a gradient runs code that a plan would not run: fails
                               if the backward pass is a trial of cr_record_end */

/* ---- replaying */
cr_status cr_plan_run(cr_plan *p, const cr_tensor *const *inputs, cr_tensor **outputs);
                            /* inputs of the recorded shapes, strides, dtypes and devices;
                               outputs[i]: a new tensor.  Several threads may run one plan.  In
                               anomaly mode the first kernel whose result is not finite is an
                               error with its name */
bool      cr_plan_fits(const cr_plan *p, const cr_tensor *const *inputs);
                            /* false: inputs, gradients or tensors from outside are not as recorded:
                               record again */
cr_status cr_plan_try(cr_plan *p, const cr_tensor *const *inputs, cr_tensor **outputs, bool *fit);
                            /* cr_plan_run if the plan fits; else *fit is false and nothing ran */
typedef struct cr_trial cr_trial;
cr_trial *cr_plan_trial(cr_plan *p, const cr_tensor *const *inputs, bool *fit);
                            /* runs the plan and undoes its effects; then run the step itself and
                               compare.  Owned; NULL: *fit is false, or a failure */
cr_status cr_trial_compare(const cr_trial *t, int n, const cr_tensor *const *outputs);
                            /* does the step have the bits of that run: n results, gradients, what
                               it wrote, generators?  CR_RUNTIME names the first difference */
void      cr_trial_free(cr_trial *t);
void      cr_plan_wait(cr_plan *p); /* waits until the system's C compiler has compiled the fused
                               kernels; it starts by itself in the background at the 8th run */
void      cr_plan_free(cr_plan *p);         /* results and graphs of its runs stay valid */
void      cr_plan_retire(cr_plan *p);       /* fits nothing any more, and releases tensors from
                               outside; not while a run is under way */
typedef struct cr_plan_info {
    int recorded;               /* kernels of the recorded step */
    int kernels, fused, calls;  /* of a run; fused: in groups that run tile by tile, a call each */
    int loops;                  /* kernels that the system's C compiler has compiled so far */
    int escaped;                /* tensors made inside that are no outputs and outlived the
                                   recording: a replay does not update them */
    int64_t arena;              /* bytes of all temporaries */
    int64_t temporaries;        /* their sum without sharing */
    int64_t kept;               /* bytes from outside: parameters, moments, constants */
    double  flops;              /* of products, convolutions and attention */
} cr_plan_info;
cr_plan_info cr_plan_look(const cr_plan *p);
char     *cr_plan_text(const cr_plan *p);   /* a line for each kernel: name, op, shapes,
                                               bytes, flops; free() */
char     *cr_plan_dot(const cr_plan *p);    /* kernels and tensors in graphviz' language; free() */

/* ---- host work inside a step: after the kernels recorded before it, before those after it */
typedef cr_status (*cr_host_step)(cr_plan *p, void *ctx, const double *numbers, double *results);
cr_status cr_record_host(int n, const cr_tensor *const *in, int n_out, cr_tensor *const *out,
                         cr_host_step f, void *ctx, void (*done)(void *ctx));
                            /* reads the only element of each in, calls f(NULL, ctx, ...), and
                               writes its results to the only elements of out; each run of the
                               plan does the same with f(p, ctx, ...).  done (or NULL): ctx is not
                               needed any more, also after a failure.  Without a recording: once */

/* ---- numbers that differ between runs, for updates written with cr_program_update */
typedef cr_status (*cr_replay)(cr_plan *p, void *ctx);
cr_status cr_record_replay(cr_replay before, void *ctx, void (*done)(void *ctx));
                            /* before(p, ctx) precedes each run; before(NULL, ctx) follows one that
                               failed, to take back what it counted.  done (or NULL): ctx is not
                               needed any more, also after a failure */
int       cr_record_params(void);
                            /* number of the params of the last recorded update; -1: none */
void      cr_plan_set_params(cr_plan *p, int number, const double *params);

#endif
