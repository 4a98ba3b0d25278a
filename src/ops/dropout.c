/* dropout.c - x * bernoulli(1 - p) / (1 - p): a mask of bool, then one pass. */
#include "compose.h"

/* (x, mask; scale) -> x mask scale.  Values 0 x, 1 mask, 2 scale, 3 x mask. */
static const cr_instr instructions[] = {{.op = CR_OP_MUL, .a = 0, .b = 1, .c = -1},
                                        {.op = CR_OP_MUL, .a = 3, .b = 2, .c = -1}};
static cr_program masked_scale = {
    .name = "dropout",
    .doc = "x mask scale",
    .rule = CR_RULE_FLOAT,
    .n_in = 2,
    .n_param = 1,
    .n_instr = 2,
    .n_out = 1,
    .instr = instructions,
    .out = {4},
    .fused = -1,
    .differentiable = true,
    .refs = -1,
};

cr_tensor *cr_dropout(const cr_tensor *x, double p, bool train, cr_generator *g) {
    if (!cr_given("dropout", "x", x) || cr_want_float("dropout", x) != CR_OK) return NULL;
    if (!(p >= 0 && p <= 1)) return cr_fail(CR_BAD_VALUE, "dropout", "the chance must be in [0, 1]: %g", p), NULL;
    if (!train || p == 0) return cr_alias(x);
    if (cr_lacks("dropout", "the generator", g)) return NULL;
    double scale = p < 1 ? 1 / (1 - p) : 0;
    cr_scope_begin();
    cr_tensor *mask = cr_bernoulli(1 - p, x->ndim, x->shape, CR_BOOL, x->dev, g);
    return cr_leave(mask ? cr_apply_program(&masked_scale, (const cr_tensor *const[]){x, mask}, &scale) : NULL);
}
