/* optimizers.c - the table of optimizers: names, default options and updates.  The updates are
 * UPDATE rows of ops/ops.def. The functions below compute the params of a row in double on the
 * host.  A new optimizer is one row here, one kind in the header and its UPDATE row. */
#include "optim.h"

#include <math.h>

static void sgd_numbers(const cr_optim_options *o, double decay, double g, double t, double out[]) {
    (void)t;
    out[0] = o->lr;
    out[1] = decay;
    out[2] = g;
    out[3] = o->momentum;
}

/* Bias corrections are in the step and in eps, with root = sqrt(1 - b2^t):
 * lr (n / (1 - b1^t)) / (sqrt(w) / root + eps) = (lr root / (1 - b1^t)) n / (sqrt(w) + eps root) */
static void corrected(const cr_optim_options *o, double t, double out[]) {
    const double root = sqrt(1 - pow(o->beta2, t));
    out[0] = o->lr * root / (1 - pow(o->beta1, t));
    out[1] = o->eps * root;
}

static void adam_numbers(const cr_optim_options *o, double decay, double g, double t, double out[]) {
    corrected(o, t, out);
    out[2] = decay;
    out[3] = o->beta1;
    out[4] = 1 - o->beta1;
    out[5] = o->beta2;
    out[6] = 1 - o->beta2;
    out[7] = g;
}

static void adamw_numbers(const cr_optim_options *o, double decay, double g, double t, double out[]) {
    corrected(o, t, out);
    out[2] = 1 - o->lr * decay;
    out[3] = o->beta1;
    out[4] = (1 - o->beta1) * g;
    out[5] = o->beta2;
    out[6] = (1 - o->beta2) * g * g;
}

static void lion_numbers(const cr_optim_options *o, double decay, double g, double t, double out[]) {
    (void)t;
    out[0] = o->lr;
    out[1] = 1 - o->lr * decay;
    out[2] = o->beta1;
    out[3] = (1 - o->beta1) * g;
    out[4] = o->beta2;
    out[5] = (1 - o->beta2) * g;
}

static void muon_numbers(const cr_optim_options *o, double decay, double g, double t, double out[]) {
    (void)decay; (void)t;
    out[0] = o->momentum;
    out[1] = (1 - o->momentum) * g;
}

static const cr_update sgd = {.row = "sgd", .mirrored = "sgd_copy", .numbers = sgd_numbers};
static const cr_update momentum = {.row = "sgd_momentum", .mirrored = "sgd_momentum_copy",
    .moments = 1, .numbers = sgd_numbers};
static const cr_update nesterov = {.row = "sgd_nesterov", .mirrored = "sgd_nesterov_copy",
    .moments = 1, .numbers = sgd_numbers};
static const cr_update adam = {.row = "adam", .mirrored = "adam_copy",
    .moments = 2, .corrected = true, .numbers = adam_numbers};
static const cr_update adamw = {.row = "adamw", .mirrored = "adamw_copy",
    .moments = 2, .corrected = true, .numbers = adamw_numbers};
static const cr_update lion = {.row = "lion", .mirrored = "lion_copy", .moments = 1, .numbers = lion_numbers};
static const cr_update muon = {.row = "muon", .moments = 1, .numbers = muon_numbers, .step = cr_muon_step};
static const cr_update muon_nesterov = {.row = "muon_nesterov", .moments = 1, .numbers = muon_numbers, .step = cr_muon_step};

static const cr_update *sgd_update(const cr_optim_options *o, int ndim) {
    (void)ndim;
    if (!(o->momentum > 0)) return &sgd;
    return o->nesterov ? &nesterov : &momentum;
}

/* Only a matrix has singular vectors: AdamW updates the other parameters. */
static const cr_update *muon_update(const cr_optim_options *o, int ndim) {
    if (ndim != 2) return &adamw;
    return o->nesterov ? &muon_nesterov : &muon;
}

static const cr_optimizer optimizers[] = {
    [CR_SGD]   = {"sgd",   {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .choose = sgd_update},
    [CR_ADAM]  = {"adam",  {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .update = &adam},
    [CR_ADAMW] = {"adamw", {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2},
                  .update = &adamw},
    [CR_LION]  = {"lion",  {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8}, .update = &lion},
    [CR_MUON]  = {"muon",  {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1,
                            .momentum = 0.95, .nesterov = true}, .choose = muon_update, .averages = true},
};

const cr_optimizer *cr_optimizer_of(cr_optim_kind kind) {
    const size_t i = (size_t)kind;
    return i < sizeof optimizers / sizeof *optimizers ? &optimizers[i] : NULL;
}

const char *cr_optim_name(cr_optim_kind kind) {
    const cr_optimizer *optimizer = cr_optimizer_of(kind);
    return optimizer ? optimizer->name : NULL;
}

cr_optim_options cr_optim_defaults(cr_optim_kind kind) {
    const cr_optimizer *optimizer = cr_optimizer_of(kind);
    cr_optim_options o = (optimizer ? optimizer : &optimizers[CR_ADAM])->defaults;
    o.kind = kind;                                  /* cr_optim_new refuses a kind that does not exist */
    return o;
}
