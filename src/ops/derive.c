/* derive.c - the gradient of a program as programs: symbolic reverse accumulation over its
 * instructions.  The rule of an instruction is the gradient of the row of ops.def that is exactly
 * that instruction.  A gradient is a program too, so gradients of any order exist. */
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Program p over the inputs of the builder: the inputs of p, then g.  The gradient computes the
 * result y again where it needs it: the inputs are read anyway, and a y stored in bf16 is
 * rounded. */
typedef struct derivation {
    const cr_program *p;
    cr_build b;
    int n_values, first;                            /* of p; first: the value of its first instruction */
    int *value;                                     /* for each value of p: the value in the builder */
    int *adjoint;                                   /* d result / d value, times g; -1: none */
} derivation;

static void forward(derivation *d) {
    const cr_program *p = d->p;
    int v = 0;
    for (int i = 0; i < p->n_in; i++) d->value[v++] = cr_build_input(&d->b, i);
    for (int i = 0; i < p->n_param; i++) d->value[v++] = cr_build_param(&d->b, i);
    for (int i = 0; i < p->n_const; i++) d->value[v++] = cr_build_const(&d->b, p->consts[i]);
    for (int i = 0; i < p->n_instr; i++) {
        const cr_instr *s = &p->instr[i];
        d->value[v++] = cr_build_op(&d->b, s->op, d->value[s->a], s->b < 0 ? -1 : d->value[s->b],
                                    s->c < 0 ? -1 : d->value[s->c]);
    }
}

/* A constant 0 comes from functions such as floor, whose gradient is a tensor of zeros and not
 * "none". */
static int sum(cr_build *b, int x, int y) {
    if (x < 0 || cr_build_is(b, x, 0)) return y;
    return cr_build_is(b, y, 0) ? x : cr_build_op(b, CR_OP_ADD, x, y, -1);
}

/* Adds the contribution of instruction i to the adjoints of its operands. */
static void backward_one(derivation *d, int i) {
    const cr_instr *s = &d->p->instr[i];
    const int operand[3] = {s->a, s->b, s->c}, g = d->adjoint[d->first + i];
    const cr_program *row = &cr_rows[cr_opcode_row[s->op]];
    const cr_gradient *rules = atomic_load(&row->grad);
    if (g < 0 || !rules) return;
    for (int k = 0; k < row->n_in; k++) {
        const cr_gradient *rule = &rules[k];
        int v = operand[k], args[CR_MAX_INPUTS + 2];
        bool constant = v >= d->p->n_in && v < d->first;
        if (!rule->program || constant) continue;
        for (int j = 0; j < rule->n; j++) {
            int from = rule->from[j];               /* the row's inputs, its result, the cotangent */
            args[j] = from < row->n_in ? d->value[operand[from]] : from == row->n_in ? d->value[d->first + i] : g;
        }
        int zero = cr_build_const(&d->b, 0),
            share = cr_build_is(&d->b, g, 0) ? zero : cr_build_row(&d->b, rule->program, args);
        d->adjoint[v] = sum(&d->b, d->adjoint[v], share);
    }
}

static void free_gradients(cr_gradient *g, int n) {
    for (int i = 0; g && i < n; i++)
        if (g[i].program) cr_program_free(g[i].program);
    free(g);
}

/* The entries for each input, from the adjoints. */
static cr_gradient *collect_gradients(derivation *d) {
    const cr_program *p = d->p;
    cr_gradient *out = calloc((size_t)p->n_in, sizeof *out);
    if (!out) return cr_fail(CR_NO_MEMORY, p->name, "out of memory for its gradient"), NULL;
    char name[80], doc[128];
    const char *kind = strstr(p->name, "_bwd");     /* tanh, tanh_bwd, tanh_bwd2, ... */
    int order = kind ? (kind[4] ? atoi(kind + 4) : 1) + 1 : 1;
    if (order == 1) snprintf(name, sizeof name, "%.50s_bwd", p->name);
    else snprintf(name, sizeof name, "%.*s_bwd%d", kind - p->name > 50 ? 50 : (int)(kind - p->name), p->name, order);
    for (int i = 0; i < p->n_in; i++) {
        if (d->adjoint[i] < 0 && !d->b.failed) continue;
        snprintf(doc, sizeof doc, "gradient of %.50s with respect to input %d", p->name, i);
        cr_build_result r = {name, doc, p->n_in + 1, p->n_param, 1, {d->adjoint[i]}, out[i].from, p->n_in};
        out[i].program = cr_build_finish(&d->b, &r);
        if (!out[i].program) { free_gradients(out, p->n_in); return NULL; }
        out[i].n = out[i].program->n_in;
        for (int j = 0; j < out[i].n; j++)
            /* g comes after y in a cr_gradient */
            if (out[i].from[j] == p->n_in) out[i].from[j] = (uint8_t)(p->n_in + 1);
    }
    return out;
}

static cr_gradient *derive(const cr_program *p) {
    derivation d = {.p = p, .first = p->n_in + p->n_param + p->n_const};
    d.n_values = d.first + p->n_instr;
    d.value = malloc(sizeof(int) * 2 * (size_t)d.n_values);
    if (!d.value) return cr_fail(CR_NO_MEMORY, p->name, "out of memory for its gradient"), NULL;
    d.adjoint = d.value + d.n_values;
    for (int i = 0; i < d.n_values; i++) d.adjoint[i] = -1;
    forward(&d);
    d.adjoint[p->out[0]] = cr_build_input(&d.b, p->n_in);
    for (int i = p->n_instr - 1; i >= 0 && !d.b.failed; i--) backward_one(&d, i);
    cr_gradient *out = collect_gradients(&d);
    free(d.value);
    cr_build_free(&d.b);
    return out;
}

const cr_gradient *cr_program_gradient(const cr_program *p) {
    cr_gradient *known = atomic_load(&p->grad);
    if (known) return known;
    if (p->n_out != 1)
        return cr_fail(CR_BAD_VALUE, p->name, "has %d results: only a program of one has a gradient", p->n_out), NULL;
    cr_gradient *fresh = derive(p);
    if (!fresh) return NULL;
    cr_program *cache = (cr_program *)(uintptr_t)p;  /* only the cache of a program changes */
    if (atomic_compare_exchange_strong(&cache->grad, &known, fresh)) return fresh;
    free_gradients(fresh, p->n_in);                  /* another thread was first */
    return known;
}

/* ---- references; rows of the table have refs -1 and are never freed */
cr_program *cr_program_retain(const cr_program *p) {
    cr_program *q = (cr_program *)(uintptr_t)p;
    if (atomic_load(&q->refs) >= 0) atomic_fetch_add(&q->refs, 1);
    return q;
}

void cr_program_free(cr_program *p) {
    if (!p || atomic_load(&p->refs) < 0 || atomic_fetch_sub(&p->refs, 1) > 1) return;
    free_gradients(atomic_load(&p->grad), p->n_in);
    free(p);
}
