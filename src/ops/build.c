/* build.c - builds programs: shares equal values, applies the few identities that are exact for
 * every float (also NaN, -0 and infinities), drops values that no result needs, and packs the
 * program into one block of memory. */
#include "programs.h"
#include "../core/out.h"

#include <stdlib.h>
#include <string.h>

enum { INPUT = -1, PARAM = -2, CONSTANT = -3, MAX_VALUES = INT16_MAX };

static const uint8_t arity[CR_OP_COUNT] = CR_OPCODE_ARITY;

/* ---- values */
static bool same(const cr_build_value *x, const cr_build_value *y) {    /* constants by their bits: 0 is not -0 */
    return !memcmp(x, y, sizeof *x);
}

static int value(cr_build *b, cr_build_value v) {
    uint64_t key = cr_hash_bytes(&v, sizeof v) | 1;
    if (b->failed) return -1;
    for (const uint64_t *i; (i = cr_table_find(&b->numbers, key)); key += 2)
        if (same(&b->values[*i], &v)) return (int)*i;
    if (b->n == MAX_VALUES) { b->failed = CR_BAD_VALUE; return -1; }
    uint64_t *number = NULL;
    if (cr_grow(&b->values, b->n + 1, &b->room, sizeof v)) number = cr_table_add(&b->numbers, key);
    if (!number) { b->failed = CR_NO_MEMORY; return -1; }
    *number = (uint64_t)b->n;
    b->values[b->n] = v;
    return b->n++;
}

int cr_build_input(cr_build *b, int i) { return value(b, (cr_build_value){INPUT, i, -1, -1, 0}); }
int cr_build_param(cr_build *b, int i) { return value(b, (cr_build_value){PARAM, i, -1, -1, 0}); }
int cr_build_const(cr_build *b, double k) { return value(b, (cr_build_value){CONSTANT, -1, -1, -1, k}); }

bool cr_build_is(const cr_build *b, int v, double k) {
    const cr_build_value want = {CONSTANT, -1, -1, -1, k};
    return v >= 0 && same(&b->values[v], &want);
}

void cr_build_free(cr_build *b) {
    free(b->values);
    cr_table_free(&b->numbers);
    *b = (cr_build){0};
}

/* ---- instructions */
static bool fold(int opcode, double x, double y, double *k) {
    switch (opcode) {
        case CR_OP_NEG: *k = -x; return true;
        case CR_OP_ADD: *k = x + y; return true;
        case CR_OP_SUB: *k = x - y; return true;
        case CR_OP_MUL: *k = x * y; return true;
        case CR_OP_DIV: *k = x / y; return true;
        default: return false;
    }
}

/* A value equal to `opcode x y z`, or -1.  x + 0 and x * 0 are kept: they differ from x for -0, and
 * from 0 for NaN. */
static int identity(const cr_build *b, int opcode, int x, int y, int z) {
    const cr_build_value *v = &b->values[x];
    if (opcode == CR_OP_MUL && cr_build_is(b, x, 1)) return y;
    if ((opcode == CR_OP_MUL || opcode == CR_OP_DIV) && cr_build_is(b, y, 1)) return x;
    if (opcode == CR_OP_SUB && cr_build_is(b, y, 0)) return x;
    if (opcode == CR_OP_ADD && cr_build_is(b, y, -0.0)) return x;
    if (opcode == CR_OP_NEG && v->op == CR_OP_NEG) return v->a;
    if (opcode == CR_OP_SEL && y == z) return y;
    return -1;
}

int cr_build_op(cr_build *b, int opcode, int v0, int v1, int v2) {
    int n = arity[opcode];
    if (b->failed || v0 < 0 || (n > 1 && v1 < 0) || (n > 2 && v2 < 0)) return -1;
    const cr_build_value *x = &b->values[v0], *y = n > 1 ? &b->values[v1] : x;
    double k;
    if (x->op == CONSTANT && y->op == CONSTANT && fold(opcode, x->k, y->k, &k)) return cr_build_const(b, k);
    int simpler = identity(b, opcode, v0, v1, v2);
    if (simpler >= 0) return simpler;
    return value(b, (cr_build_value){opcode, v0, n > 1 ? v1 : -1, n > 2 ? v2 : -1, 0});
}

int cr_build_row(cr_build *b, const cr_program *p, const int *args) {
    int map[CR_ROW_VALUES] = {0}, first = p->n_in + p->n_param;
    for (int i = 0; i < first; i++) map[i] = args[i];
    for (int i = 0; i < p->n_const; i++) map[first + i] = cr_build_const(b, p->consts[i]);
    for (int i = 0; i < p->n_instr; i++) {
        const cr_instr *s = &p->instr[i];
        map[first + p->n_const + i] = cr_build_op(b, s->op, map[s->a], s->b < 0 ? -1 : map[s->b],
                                                  s->c < 0 ? -1 : map[s->c]);
    }
    return map[p->out[0]];
}

/* ---- finish */
static void mark(const cr_build *b, const cr_build_result *r, bool *live) {
    for (int k = 0; k < r->n_out; k++) live[r->out[k]] = true;
    for (int i = b->n - 1; i >= 0; i--) {
        const cr_build_value *v = &b->values[i];
        if (!live[i] || v->op < 0) continue;
        live[v->a] = true;
        if (v->b >= 0) live[v->b] = true;
        if (v->c >= 0) live[v->c] = true;
    }
}

/* Numbers the inputs of the program: input_number[i] is the number of builder input i, or -1.  Returns how
 * many there are. */
static int number_inputs(const cr_build *b, const cr_build_result *r, const bool *live, int *input_number) {
    int n = 0;
    bool read[CR_MAX_INPUTS + 2] = {false};
    for (int i = 0; i < b->n; i++)
        if (live[i] && b->values[i].op == INPUT) read[b->values[i].a] = true;
    if (!r->used) {
        for (int i = 0; i < r->n_in; i++) input_number[i] = i;
        return r->n_in;
    }
    for (int i = 0; i < r->n_in; i++) {
        input_number[i] = read[i] ? n : -1;
        if (read[i]) r->used[n++] = (uint8_t)i;
    }
    if (n == 0) r->used[n++] = (uint8_t)r->fallback;
    return n;
}

/* Does the instruction depend differentiably on an input?  from: which values do. */
static bool flows(const cr_instr *s, const bool *from) {
    const cr_gradient *g = atomic_load(&cr_rows[cr_opcode_row[s->op]].grad);
    return g && ((g[0].program && from[s->a]) || (s->b >= 0 && g[1].program && from[s->b]) ||
                 (s->c >= 0 && g[2].program && from[s->c]));
}

static bool differentiable(const cr_program *p, bool *from) {
    int first = p->n_in + p->n_param + p->n_const;
    for (int i = 0; i < first; i++) from[i] = i < p->n_in;
    for (int i = 0; i < p->n_instr; i++) from[first + i] = flows(&p->instr[i], from);
    return p->n_out == 1 && from[p->out[0]];
}

/* One block: the struct, constants, instructions, name and doc. */
static cr_program *pack(const cr_build_result *r, int n_in, int n_const, int n_instr) {
    size_t name = strlen(r->name) + 1, doc = strlen(r->doc) + 1;
    cr_program *p = malloc(sizeof *p + sizeof(double) * (size_t)n_const + sizeof(cr_instr) * (size_t)n_instr + name +
                           doc);
    if (!p) return NULL;
    double *consts = (double *)(p + 1);
    cr_instr *instr = (cr_instr *)(consts + n_const);
    char *text = (char *)(instr + n_instr);
    memcpy(text, r->name, name);
    memcpy(text + name, r->doc, doc);
    *p = (cr_program){.name = text,
                      .doc = text + name,
                      .rule = CR_RULE_FLOAT,
                      .n_in = n_in,
                      .n_param = r->n_param,
                      .n_const = n_const,
                      .n_instr = n_instr,
                      .n_out = r->n_out,
                      .consts = consts,
                      .instr = instr,
                      .fused = -1};
    atomic_init(&p->grad, NULL);
    atomic_init(&p->refs, 1);
    return p;
}

/* Numbers the live values and writes constants and instructions into p.  number: room for b->n. */
static void write_program(const cr_build *b, const cr_build_result *r, cr_program *p, const bool *live,
                          const int *input_number, int16_t *number) {
    double *consts = (double *)(p + 1);
    cr_instr *instr = (cr_instr *)(consts + p->n_const);
    int k = 0, s = 0, first = p->n_in + p->n_param;
    for (int i = 0; i < b->n; i++) {
        const cr_build_value *v = &b->values[i];
        if (!live[i]) continue;
        if (v->op == INPUT) number[i] = (int16_t)input_number[v->a];
        else if (v->op == PARAM) number[i] = (int16_t)(p->n_in + v->a);
        else if (v->op == CONSTANT) { number[i] = (int16_t)(first + k); consts[k++] = v->k; }
        else {
            instr[s] = (cr_instr){(uint8_t)v->op, number[v->a], v->b < 0 ? -1 : number[v->b],
                                  v->c < 0 ? -1 : number[v->c]};
            number[i] = (int16_t)(first + p->n_const + s++);
        }
    }
    for (int i = 0; i < r->n_out; i++) p->out[i] = number[r->out[i]];
}

cr_program *cr_build_finish(const cr_build *b, const cr_build_result *r) {
    if (b->failed == CR_BAD_VALUE)
        return cr_fail(CR_BAD_VALUE, r->name, "more than %d values in one program: split it", MAX_VALUES), NULL;
    bool *live = calloc((size_t)b->n + 1, sizeof *live), *from = NULL;
    int16_t *number = malloc(sizeof *number * ((size_t)b->n + 1));
    cr_program *p = NULL;
    if (b->failed || !live || !number) goto done;
    mark(b, r, live);
    int input_number[CR_MAX_INPUTS + 2], n_in = number_inputs(b, r, live, input_number), n_const = 0, n_instr = 0;
    for (int i = 0; i < b->n; i++) {
        n_const += live[i] && b->values[i].op == CONSTANT;
        n_instr += live[i] && b->values[i].op >= 0;
    }
    int n_values = n_in + r->n_param + n_const + n_instr;
    if (n_in > CR_MAX_INPUTS || n_values > MAX_VALUES) {
        cr_fail(CR_BAD_VALUE, r->name, "%d inputs and %d values: a program has at most %d and %d", n_in, n_values,
                CR_MAX_INPUTS, MAX_VALUES);
        free(live), free(number);
        return NULL;
    }
    from = malloc((size_t)n_values);
    if (from && (p = pack(r, n_in, n_const, n_instr))) {
        write_program(b, r, p, live, input_number, number);
        p->differentiable = differentiable(p, from);
    }
done:
    free(live), free(number), free(from);
    if (!p) cr_fail(CR_NO_MEMORY, r->name, "out of memory for a program");
    return p;
}
