/* optimizers.c - the table of optimizers: names, default options and updates.  The updates are UPDATE
 * rows of ops/ops.def; their OPTIONS rows give the params.  A new optimizer is one row here, one kind
 * in the header and its rows in ops.def. */
#include "optim.h"

cr_status cr_slot_params(const cr_program *p, const cr_slot *s, const cr_optim_options *o, double scale, double ratio,
                         double params[]) {
    const struct { const char *name; double value;
    } options[] = {{"lr", o->lr},       {"weight_decay", s->decays ? o->weight_decay : 0},
                   {"beta1", o->beta1}, {"beta2", o->beta2},
                   {"eps", o->eps},     {"momentum", o->momentum},
                   {"dampening", 0},    {"scale", scale},
                   {"ratio", ratio},    {"t", (double)(s->steps + 1)}};
    enum { COUNT = sizeof options / sizeof *options };
    const char *names[COUNT];
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        names[i] = options[i].name;
        values[i] = options[i].value;
    }
    return cr_program_params(p, COUNT, names, values, params);
}

static const cr_update sgd = {.row = "sgd", .mirrored = "sgd_copy"};
static const cr_update momentum = {.row = "sgd_momentum", .mirrored = "sgd_momentum_copy", .moments = 1};
static const cr_update nesterov = {.row = "sgd_nesterov", .mirrored = "sgd_nesterov_copy", .moments = 1};
static const cr_update adam = {.row = "adam", .mirrored = "adam_copy", .moments = 2, .corrected = true};
static const cr_update adamw = {.row = "adamw", .mirrored = "adamw_copy", .moments = 2, .corrected = true};
static const cr_update adamax = {.row = "adamax", .mirrored = "adamax_copy", .moments = 2, .corrected = true};
static const cr_update lion = {.row = "lion", .mirrored = "lion_copy", .moments = 1};
static const cr_update muon = {.row = "muon", .moments = 1, .step = cr_muon_step};
static const cr_update muon_nesterov = {.row = "muon_nesterov", .moments = 1, .step = cr_muon_step};

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
    [CR_SGD] = {"sgd", {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .choose = sgd_update},
    [CR_ADAM] = {"adam", {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .update = &adam},
    [CR_ADAMW] = {"adamw",
                  {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2},
                  .update = &adamw},
    [CR_LION] = {"lion", {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8}, .update = &lion},
    [CR_ADAMAX] = {"adamax", {.lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .update = &adamax},
    [CR_MUON] = {"muon",
                 {.lr = 1e-3,
                  .beta1 = 0.9,
                  .beta2 = 0.999,
                  .eps = 1e-8,
                  .weight_decay = 0.1,
                  .momentum = 0.95,
                  .nesterov = true},
                 .choose = muon_update,
                 .averages = true},
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
