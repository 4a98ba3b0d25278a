/* optim.h - the table of optimizers, and what the files of this folder share. */
#ifndef CR_OPTIM_H
#define CR_OPTIM_H

#include <chainrule.h>

/* Entries of a parameter in the optimizer's state: "name.m" and "name.v" are moments, "name.w" is the f32 master of a
 * half-precision parameter, "name.t" counts the parameter's steps.  A slot keeps a tensor for all but the last. */
enum { CR_MASTER = 2, CR_KEPT, CR_STEP_COUNT = CR_KEPT, CR_STATE_ENTRIES, CR_MAX_STEP_PARAMS = 8 };

typedef struct cr_slot cr_slot;

/* One UPDATE row of ops.def: p, g, moments -> p, moments. */
typedef struct cr_update {
    const char *row, *mirrored;                     /* mirrored: the twin of the row that also writes a copy of p */
    int moments;                                    /* tensors like p that the row reads and writes */
    bool corrected;                                 /* bias corrections: the params depend on the step count t, from
                                                     * 1 */
    /* NULL: the row is all of it */
    cr_status (*step)(cr_optim *opt, const cr_slot *s, const cr_tensor *g);
} cr_update;

typedef struct cr_optimizer {
    const char *name;
    cr_optim_options defaults;
    bool averages;                                  /* momentum weighs a mean: it must be below 1 */
    const cr_update *update;                        /* of every parameter, unless choose is set */
    const cr_update *(*choose)(const cr_optim_options *o, int ndim);    /* of a parameter of ndim axes */
} cr_optimizer;

const cr_optimizer *cr_optimizer_of(cr_optim_kind kind);           /* NULL: no such kind (optimizers.c) */

struct cr_slot {                                    /* one parameter */
    char *name;                                     /* owns the memory of entry[] too */
    const char *entry[CR_STATE_ENTRIES];            /* its names in the state */
    cr_tensor *p, *mirror;                          /* mirror NULL: none */
    cr_tensor *kept[CR_KEPT];                       /* moments and master; NULL: no step yet, or none */
    int64_t steps;                                  /* that this parameter took */
    int group;
    const cr_update *update;
    bool master;                                    /* steps change kept[CR_MASTER], and write p as its copy */
    bool decays, stepping;                          /* has weight decay; has a gradient in the step that runs */
};

struct cr_optim {
    int64_t count, steps;
    cr_slot *slots; int64_t slot_room;
    int groups;
    cr_optim_options *options; int64_t option_room;             /* of each group */
    int64_t exchanged;                              /* how often tensors of slots were replaced by others */
    double scale;                                   /* of the gradients in the step that runs: 1 but while clipping */
    double norm;                                    /* of the gradients that were clipped last; NaN: none */
    struct cr_clip *clip;                           /* of the step that runs; NULL: none */
    struct replay *replay;                          /* of the step that is being recorded; NULL: none */
    const void *sharded;                            /* a cr_parallel whose ranks share the moments; NULL: they are
                                                     * here */
};

bool cr_optim_sharded(const char *op, const cr_optim *opt);        /* true: with a message */

/* The params of p for the next step of s.  scale multiplies the gradient, ratio the learning rate (Muon). */
cr_status cr_slot_params(const cr_program *p, const cr_slot *s, const cr_optim_options *o, double scale, double ratio,
                         double params[]);
static inline bool cr_slot_keeps(const cr_slot *s, int k) {
    return k == CR_MASTER ? s->master : k < s->update->moments;
}
static inline int cr_slot_tensors(const cr_slot *s) { return s->update->moments + s->master; }
cr_tensor *cr_kept_new(const cr_optim *opt, const cr_slot *s, int k);   /* zeros like p; p itself for the master */
/* What a step changes, and the copy of it that the same pass writes; NULL: none. */
static inline cr_tensor *cr_slot_stepped(const cr_slot *s) { return s->master ? s->kept[CR_MASTER] : s->p; }
static inline cr_tensor *cr_slot_copy(const cr_slot *s) { return s->master ? s->p : s->mirror; }
/* the gradients that there are, borrowed, in memory that the caller frees; NULL: no memory */
cr_tensor **cr_optim_grads(const char *op, const cr_optim *opt, int64_t *n);
/* Runs a row for one parameter, with the params of its next step; a replay takes the options as they are then. */
cr_status  cr_slot_run(cr_optim *opt, const cr_slot *s, const cr_program *row, double ratio, cr_tensor *const *out,
                       const cr_tensor *const *in);
cr_status  cr_muon_step(cr_optim *opt, const cr_slot *s, const cr_tensor *g);

#endif
