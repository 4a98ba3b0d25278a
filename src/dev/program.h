/* program.h - elementwise programs: a few instructions over a few inputs, in static single assignment.
 *
 * Values are numbered: inputs first, then params, constants, and the result of each instruction.  All values of
 * one run have one dtype, the walk's `compute`; loads and stores convert.  Comparisons give 0 or 1, SEL takes any
 * value != 0 as true.  Integer results wrap in the compute dtype after each instruction; bool: != 0. */
#ifndef CR_PROGRAM_H
#define CR_PROGRAM_H

#include "../core/dtype.h"
#include "opcodes.gen.h"                            /* enum cr_opcode, from ops.def */

/* Does the instruction fail for integers where b is 0? */
static inline bool cr_opcode_divides(int op) {
    return op == CR_OP_DIV || op == CR_OP_FMOD || op == CR_OP_REM || op == CR_OP_FDIV || op == CR_OP_TDIV;
}

/* op: a cr_opcode; in plans of the cpu CR_OP_COUNT + k is the compiled loop k.  -1: operand not used */
typedef struct cr_instr { int16_t op, a, b, c; } cr_instr;

typedef enum cr_rule {                              /* the compute and result dtypes, from the inputs' promoted dtype
                                                     * p */
    CR_RULE_FLOAT,                                  /* integers and bool become the default float; result p */
    CR_RULE_NUMBER,                                 /* any but bool (bool refused) */
    CR_RULE_ANY,                                    /* any; result p */
    CR_RULE_BITS,                                   /* integers and bool; floats refused */
    CR_RULE_TEST,                                   /* any; result bool */
    CR_RULE_WHERE                                   /* the first input is a condition and is not promoted */
} cr_rule;

typedef struct cr_gradient {                        /* the gradient of one input: a program over some of (inputs...,
                                                     * y, g) */
    cr_program *program;                            /* NULL: no gradient flows */
    int n; uint8_t from[CR_MAX_DIMS + 8];           /* program input j is value from[j]: 0..n_in-1 inputs, n_in the
                                                     * result, n_in+1 the cotangent */
} cr_gradient;

/* A loop of a plan's program, made while the program runs (plan/jit.c).  As the compiled loops: results first, n a
 * multiple of the lanes. */
typedef void (*cr_loop)(float *const *out, const float *const *in, const float *params, int64_t n);
typedef struct cr_made_loop {
    _Atomic(cr_loop) run;                           /* NULL: not there (yet) */
    uint32_t held;                                  /* bit k: of input k it reads one value */
    int isa;                                        /* of cr_cpu_isa */
} cr_made_loop;

struct cr_program {
    const char *name, *doc;
    cr_rule rule;
    int n_in, n_param, n_const, n_instr, n_out;
    const double *consts;
    const cr_instr *instr;
    int16_t out[5];                                 /* value numbers; CR_MAX_OUTPUTS of dev.h */
    int fused;                                      /* number of the compiled loop for this program, -1: none */
    bool differentiable;
    _Atomic(cr_gradient *) grad;                    /* n_in entries; NULL: not derived yet (cr_program_gradient) */
    const cr_gradient *fast;                        /* of a row: the same for f32 and below; NULL: grad */
    atomic_int refs;                                /* -1: a static program */
    struct cr_chain_parts {                         /* NULL: no program of plan/fuse.c */
        cr_made_loop loop;
        int n_links; const uint8_t *links;              /* of each instruction, the kernel that it comes from */
        const cr_program *rows[];                   /* of each instruction that is a compiled loop, its program */
    } *chain;
};

/* The value of the first instruction. */
static inline int cr_first_result(const cr_program *p) { return p->n_in + p->n_param + p->n_const; }

/* How many instructions read value v, and results are it. */
static inline int cr_times_read(const cr_program *p, int v) {
    int n = 0;
    for (int i = 0; i < p->n_instr; i++) n += (p->instr[i].a == v) + (p->instr[i].b == v) + (p->instr[i].c == v);
    for (int k = 0; k < p->n_out; k++) n += p->out[k] == v;
    return n;
}

/* Which operand of instruction i, a sum, is a product that nothing else reads; -1: none.  Where a program is compiled,
 * the two are one operation that rounds once; a plan's program says it with FMA.  joined_operands of tools/gen_ops.py
 * has the same rule. */
static inline int cr_joined_operand(const cr_program *p, int i) {
    const cr_instr *s = &p->instr[i];
    const int of[2] = {s->a, s->b};
    if (p->chain || (s->op != CR_OP_ADD && s->op != CR_OP_SUB)) return -1;
    for (int k = 0; k < 2; k++) {
        const int product = of[k] - cr_first_result(p);
        if (product >= 0 && p->instr[product].op == CR_OP_MUL && cr_times_read(p, of[k]) == 1) return k;
    }
    return -1;
}

/* Is instruction i the product of such a sum? */
static inline bool cr_is_joined(const cr_program *p, int i) {
    for (int k = i + 1; k < p->n_instr && p->instr[i].op == CR_OP_MUL; k++) {
        const int operand = cr_joined_operand(p, k);
        if (operand >= 0 && (operand ? p->instr[k].b : p->instr[k].a) == cr_first_result(p) + i) return true;
    }
    return false;
}

#endif
