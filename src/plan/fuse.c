/* fuse.c - the pass that joins elementwise kernels into one: a program that holds the values between them, on the cpu
 * in blocks in the first cache, and writes only what is read elsewhere.
 *
 * On the cpu a row that runs as one compiled loop stays that loop, as one instruction (program.h): it is quicker than
 * its parts.  jit.c makes one loop of the whole program later.  On a GPU the program is one kernel.  A link is one of
 * the kernels that a chain joins. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST = 1024,                                   /* elements on the cpu: of fewer, single kernels cost less */
    LINKS = 12,                                     /* kernels of a chain */
    MOST_VALUES = 48,                               /* of its program: each is a block in the cache */
    WRITTEN = 2 * LINKS
};

/* Elements of a buffer over the shape of the chain. */
typedef struct location {
    int buffer; cr_dtype dtype;
    int64_t offset, strides[CR_MAX_DIMS], low, high;
} location;

typedef struct chain {
    const cr_plan *p;
    const cr_device *dev;
    const int *total;                               /* operands of each buffer, in the whole plan */
    int n, step[LINKS];
    cr_dtype compute;
    int ndim; int64_t shape[CR_MAX_DIMS], numel;
    int n_in; location in[CR_MAX_INPUTS];
    int n_written; location written[WRITTEN];
    int value[WRITTEN], uses[WRITTEN];              /* the operand written there; how often the chain itself uses it */
    int n_instr, n_const;
    cr_instr instr[MOST_VALUES];
    const cr_program *row[MOST_VALUES];             /* of an instruction that is a compiled loop; else NULL */
    uint8_t link[MOST_VALUES];                      /* of an instruction */
    double consts[MOST_VALUES];
} chain;

/* Operands while the number of inputs is not final: instruction k is k, input i INPUT - i, constant c CONSTANT - c. */
enum { NONE = -1, INPUT = -2, CONSTANT = -1000 };

/* A dtype whose values f32 holds, and whose rounding is an instruction. */
static bool is_narrow(cr_dtype dt) { return dt == CR_BOOL || cr_dtype_wide(dt) == CR_F32; }

/* The walk of an elementwise kernel, or of a cast, which is written to *own; NULL: neither. */
static const cr_walk *walk_of(const cr_step *s, cr_walk *own) {
    if (s->kind != CR_STEP_KERNEL) return NULL;
    if (s->kernel == CR_KERNEL_copy) {
        const cr_copy_args *a = (const void *)s->args;
        if (a->dst.dtype == a->src.dtype || !is_narrow(a->dst.dtype) || !is_narrow(a->src.dtype)) return NULL;
        *own = cr_walk_of_copy(&a->dst, &a->src, NULL);
        own->compute = CR_F32;
        return own;
    }
    if (s->kernel != CR_KERNEL_elementwise) return NULL;
    const cr_elementwise_args *a = cr_step_walks(s);
    return a->count == 1 ? a->walks : NULL;
}

static const cr_device *device_of(const cr_plan *p, const cr_walk *w) {
    return p->buffers[(int)(intptr_t)w->out[0].storage - 1].dev;
}

static bool is_number(const cr_walk *w, const cr_arg *a) {
    for (int d = 0; d < w->ndim; d++)
        if (a->strides[d] && w->shape[d] > 1) return false;
    return true;
}

static bool is_loop(const cr_device *dev, const cr_walk *w) {
    return dev == cr_cpu() && w->compute == CR_F32 && w->program->fused >= 0;
}

/* Can the program be part of a chain?  Params that optimizers set stay what they are. */
static bool qualifies(const cr_plan *p, const cr_step *s) {
    cr_walk own;
    const cr_walk *w = walk_of(s, &own);
    if (!w || !w->numel || w->ndim < 1 || (w->compute != CR_F32 && w->compute != CR_F64)) return false;
    const cr_device *dev = device_of(p, w);
    if (!dev->kernels->can_fuse || (dev == cr_cpu() && w->numel < LEAST) || cr_live_params(p, s)) return false;
    if (is_loop(dev, w) && (w->program->n_param || w->n_out > 1 || w->n_in > 3)) return false;
    bool alike = true;                              /* numbers may be the host's */
    for (int i = 0; i < w->n_in; i++) {
        const cr_device *of = p->buffers[(int)(intptr_t)w->in[i].storage - 1].dev;
        alike &= of == dev || (of->host && is_number(w, &w->in[i]));
    }
    for (int i = 0; i < w->n_out; i++) alike &= p->buffers[(int)(intptr_t)w->out[i].storage - 1].dev == dev;
    return alike;
}

/* Does the walk have the chain's shape, or can one of both take the other's?  One axis takes any shape of as many
 * elements. */
static bool same_space(chain *c, const cr_walk *w) {
    if (c->numel != w->numel || c->compute != w->compute || c->dev != device_of(c->p, w)) return false;
    if (w->ndim == 1) return true;
    if (c->ndim == w->ndim) return !memcmp(c->shape, w->shape, sizeof *w->shape * (size_t)w->ndim);
    return c->ndim == 1;
}

static void widen(location *a, int ndim, const int64_t *shape) {    /* from one axis */
    int64_t step = a->strides[0];
    for (int d = ndim - 1; d >= 0; step *= shape[d--]) a->strides[d] = step;
}

static void take_space(chain *c, const cr_walk *w) {
    if (w->ndim == c->ndim || w->ndim == 1) return;
    for (int i = 0; i < c->n_in; i++) widen(&c->in[i], w->ndim, w->shape);
    for (int i = 0; i < c->n_written; i++) widen(&c->written[i], w->ndim, w->shape);
    c->ndim = w->ndim;
    memcpy(c->shape, w->shape, sizeof *w->shape * (size_t)w->ndim);
}

static location location_of(const chain *c, const cr_walk *w, const cr_arg *a) {
    cr_operand o;
    cr_reach(w->ndim, w->shape, a->strides, a->offset, a->dtype, &o);
    location at = {.buffer = (int)(intptr_t)a->storage - 1, .dtype = a->dtype, .offset = a->offset, .low = o.low,
                   .high = o.high};
    memcpy(at.strides, a->strides, sizeof *a->strides * (size_t)w->ndim);
    if (w->ndim < c->ndim) widen(&at, c->ndim, c->shape);
    return at;
}

static bool overlap(const location *a, const location *b) {
    return a->buffer == b->buffer && a->low < b->high && b->low < a->high;
}

static bool same_location(const chain *c, const location *a, const location *b) {
    if (a->buffer != b->buffer || a->dtype != b->dtype || a->offset != b->offset) return false;
    for (int d = 0; d < c->ndim; d++)
        if (a->strides[d] != b->strides[d] && c->shape[d] > 1) return false;
    return true;
}

/* ---- one more link */
static int find_written(const chain *c, const location *at, bool *clash) {
    int found = -1;
    for (int i = 0; i < c->n_written; i++) {
        if (!overlap(&c->written[i], at)) continue;
        if (same_location(c, &c->written[i], at)) found = i;
        else *clash = true;
    }
    return found;
}

static int constant(chain *c, double k) {
    for (int i = 0; i < c->n_const; i++)
        if (!memcmp(&c->consts[i], &k, sizeof k)) return CONSTANT - i;
    c->consts[c->n_const] = k;
    return CONSTANT - c->n_const++;
}

static int instruction(chain *c, int op, int v0, int v1, int v2) {
    c->instr[c->n_instr] = (cr_instr){(int16_t)op, (int16_t)v0, (int16_t)v1, (int16_t)v2};
    c->link[c->n_instr] = (uint8_t)c->n;
    return c->n_instr++;
}

/* What the location holds of the value v: it has the location's dtype.  Rounding it again there changes nothing.  The
 * link that made v rounds it.  Where links stay apart NE is no cast to bool: it may take a subnormal number for 0. */
static int rounded(chain *c, const location *at, int v, bool *ok) {
    if (at->dtype == c->compute) return v;
    const bool test = v >= 0 && c->instr[v].op >= CR_OP_ISNAN && c->instr[v].op <= CR_OP_GE;
    if (at->dtype == CR_BOOL && test) return v;
    const int op = at->dtype == CR_BOOL ? CR_OP_NE : at->dtype == CR_F16 ? CR_OP_F16 : CR_OP_BF16;
    *ok &= at->dtype == CR_BOOL ? !c->dev->kernels->fuse_behind_barrier : cr_dtype_is_half(at->dtype);
    const int made = instruction(c, op, v, op == CR_OP_NE ? constant(c, 0) : NONE, NONE);
    if (v >= 0) c->link[made] = c->link[v];
    return made;
}

/* The operand that stands for an input of the walk; links: counts what the chain has already. */
static int operand_of(chain *c, const location *at, int *links, bool *ok) {
    bool clash = false, broadcast = true;
    const int k = find_written(c, at, &clash);
    *ok &= !clash;
    if (k >= 0) {
        c->uses[k]++;
        (*links)++;
        return c->value[k] = rounded(c, at, c->value[k], ok);
    }
    for (int d = 0; d < c->ndim; d++) broadcast &= at->strides[d] == 0 || c->shape[d] == 1;
    for (int i = 0; i < c->n_in; i++) {
        if (!same_location(c, &c->in[i], at)) continue;
        *links += !broadcast;
        return INPUT - i;
    }
    if (c->n_in == CR_MAX_INPUTS) { *ok = false; return NONE; }
    c->in[c->n_in] = *at;
    return INPUT - c->n_in++;
}

/* Instruction i and the product that is its operand k: the device's kernel of the program has one operation for
 * both. */
static int joined(chain *c, const cr_program *p, int i, int k, const int *values) {
    const cr_instr *s = &p->instr[i], *product = &p->instr[(k ? s->b : s->a) - cr_first_result(p)];
    int a = values[product->a], other = values[k ? s->a : s->b];
    if (s->op == CR_OP_SUB && k) a = instruction(c, CR_OP_NEG, a, NONE, NONE);
    else if (s->op == CR_OP_SUB) other = instruction(c, CR_OP_NEG, other, NONE, NONE);
    return instruction(c, CR_OP_FMA, a, values[product->b], other);
}

/* The instructions of a program, or its compiled loop as one. */
static void add_instructions(chain *c, const cr_walk *w, const int *operands, int *values) {
    const cr_program *p = w->program;
    const int base = cr_first_result(p);
    const bool joins = c->dev != cr_cpu() && !c->dev->kernels->fuse_behind_barrier;
    if (is_loop(c->dev, w)) {
        c->instr[c->n_instr] = (cr_instr){(int16_t)(CR_OP_COUNT + p->fused), NONE, NONE, NONE};
        int16_t *const to[] = {&c->instr[c->n_instr].a, &c->instr[c->n_instr].b, &c->instr[c->n_instr].c};
        for (int i = 0; i < p->n_in; i++) *to[i] = (int16_t)operands[i];
        c->row[c->n_instr] = p;
        values[p->out[0]] = c->n_instr++;
        return;
    }
    for (int i = 0; i < p->n_in; i++) values[i] = operands[i];
    for (int i = 0; i < p->n_param; i++) values[p->n_in + i] = constant(c, w->params[i]);
    for (int i = 0; i < p->n_const; i++) values[p->n_in + p->n_param + i] = constant(c, p->consts[i]);
    for (int i = 0; i < p->n_instr; i++) {
        const cr_instr *s = &p->instr[i];
        const int k = joins ? cr_joined_operand(p, i) : -1;
        if (joins && cr_is_joined(p, i)) continue;
        values[base + i] = k >= 0 ? joined(c, p, i, k, values)
                                  : instruction(c, s->op, s->a < 0 ? NONE : values[s->a],
                                                s->b < 0 ? NONE : values[s->b], s->c < 0 ? NONE : values[s->c]);
    }
}

/* May the walk write there: nothing that the chain reads or wrote out of step? */
static bool may_write(const chain *c, const location *at) {
    bool clash = false;
    find_written(c, at, &clash);
    for (int i = 0; i < c->n_in; i++) clash |= overlap(&c->in[i], at) && !same_location(c, &c->in[i], at);
    return !clash;
}

static void note_written(chain *c, const location *at, int value) {
    bool clash = false;
    int k = find_written(c, at, &clash);
    if (k < 0) k = c->n_written++;
    c->written[k] = *at;
    c->value[k] = value;
    c->uses[k]++;
}

/* Adds step i, or leaves the chain as it was. */
static bool join_step(chain *c, int i) {
    cr_walk own;
    const cr_walk *w = walk_of(&c->p->steps[i], &own);
    const cr_program *p = w->program;
    if (c->n && !same_space(c, w)) return false;
    const int values_more = p->n_instr + p->n_param + p->n_const + p->n_in + 1;
    if (c->n == LINKS || c->n_instr + c->n_const + values_more > MOST_VALUES - CR_MAX_INPUTS) return false;
    chain next = *c;
    if (!c->n) {
        next.dev = device_of(c->p, w);
        next.compute = w->compute, next.numel = w->numel, next.ndim = w->ndim;
        memcpy(next.shape, w->shape, sizeof *w->shape * (size_t)w->ndim);
    }
    take_space(&next, w);
    int operands[CR_MAX_INPUTS], values[MOST_VALUES + CR_MAX_INPUTS], links = 0;
    bool ok = true;
    for (int k = 0; k < w->n_in; k++) {
        const location at = location_of(&next, w, &w->in[k]);
        operands[k] = operand_of(&next, &at, &links, &ok);
    }
    if (!ok || (c->n && !links)) return false;
    add_instructions(&next, w, operands, values);
    for (int k = 0; k < w->n_out; k++) {
        const location at = location_of(&next, w, &w->out[k]);
        if (next.n_written == WRITTEN || !may_write(&next, &at)) return false;
        note_written(&next, &at, values[p->out[k]]);
    }
    next.step[next.n++] = i;
    *c = next;
    return true;
}

/* ---- from a chain to a step */
/* Is what the chain writes there read by nothing else? */
static bool stays_inside(const chain *c, int k) {
    const int b = c->written[k].buffer;
    int inside = 0;
    for (int i = 0; i < c->n_written; i++)
        if (c->written[i].buffer == b) inside += c->uses[i];
    return c->p->buffers[b].kind == CR_BUFFER_TEMPORARY && c->total[b] == inside;
}

static int outputs_of(const chain *c, int *out) {
    int n = 0;
    for (int i = 0; i < c->n_written; i++)
        if (!stays_inside(c, i)) out[n++] = i;
    return n;
}

static char *joined_names(const chain *c) {
    char *text = calloc(1, 96);
    for (int i = 0; i < c->n && text; i++) {
        const char *name = c->p->steps[c->step[i]].name;
        const size_t n = strlen(text);
        if (name && n + strlen(name) + 3 < 96) snprintf(text + n, 96 - n, "%s%s", n ? ", " : "", name);
    }
    return text;
}

/* The number of an operand in the program: inputs, constants, instructions. */
static int16_t number_of(const chain *c, int operand) {
    if (operand == NONE) return -1;
    if (operand <= CONSTANT) return (int16_t)(c->n_in + CONSTANT - operand);
    return (int16_t)(operand <= INPUT ? INPUT - operand : c->n_in + c->n_const + operand);
}

static cr_program *program_of(const chain *c, int n_out, const int *out, const char *name) {
    const size_t consts = sizeof(double) * (size_t)c->n_const, instr = sizeof(cr_instr) * (size_t)c->n_instr,
                 rows = sizeof *c->row * (size_t)c->n_instr, links = sizeof *c->link * (size_t)c->n_instr;
    cr_program *p = calloc(1, sizeof *p + sizeof *p->chain + rows + consts + instr + links + strlen(name) + 1);
    if (!p) return NULL;
    p->chain = (void *)(p + 1);
    memcpy(p->chain->rows, c->row, rows);
    double *k = (double *)(void *)((char *)p->chain->rows + rows);
    cr_instr *s = (cr_instr *)(void *)((char *)k + consts);
    memcpy(k, c->consts, consts);
    for (int i = 0; i < c->n_instr; i++)
        s[i] = (cr_instr){c->instr[i].op, number_of(c, c->instr[i].a), number_of(c, c->instr[i].b),
                          number_of(c, c->instr[i].c)};
    p->chain->n_links = c->n;
    p->chain->links = memcpy((char *)s + instr, c->link, links);
    p->name = strcpy((char *)s + instr + links, name);
    p->rule = CR_RULE_ANY;
    p->n_in = c->n_in, p->n_const = c->n_const, p->n_instr = c->n_instr, p->n_out = n_out;
    p->consts = k, p->instr = s;
    for (int i = 0; i < n_out; i++) p->out[i] = number_of(c, c->value[out[i]]);
    p->fused = -1;
    atomic_init(&p->refs, 1);
    return p;
}

static cr_arg arg_of(const chain *c, const location *at) {
    cr_arg a = {.storage = (cr_storage *)(intptr_t)(at->buffer + 1), .offset = at->offset, .dtype = at->dtype};
    memcpy(a.strides, at->strides, sizeof *at->strides * (size_t)c->ndim);
    return a;
}

static cr_status step_of(const chain *c, int n_out, const int *out, cr_step *to) {
    char *name = joined_names(c);
    cr_program *program = name ? program_of(c, n_out, out, name) : NULL;
    *to = (cr_step){.kind = CR_STEP_KERNEL, .kernel = -1, .draw = -1, .update = -1, .name = name};
    if (!program) return cr_no_memory("plan");
    cr_walk w = {.program = program, .compute = c->compute, .ndim = c->ndim, .numel = c->numel, .n_out = n_out,
                 .n_in = c->n_in};
    memcpy(w.shape, c->shape, sizeof *c->shape * (size_t)c->ndim);
    for (int i = 0; i < c->n_in; i++) w.in[i] = arg_of(c, &c->in[i]);
    for (int i = 0; i < n_out; i++) w.out[i] = arg_of(c, &c->written[out[i]]);
    to->run = c->dev->kernels->raw[CR_KERNEL_elementwise];
    cr_status status = cr_step_fill(to, CR_KERNEL_elementwise, &(cr_elementwise_args){&w, 1}, cr_same_number, NULL);
    cr_program_free(program);
    return status;
}

/* Can one kernel write all results?  A GPU may bind few buffers, and a written one only once, by a window that does not
 * hold locations far from each other. */
static bool fits_program(const chain *c) {
    int out[WRITTEN];
    const int n_out = outputs_of(c, out), most = c->dev->kernels->chain_buffers;
    if (n_out > CR_MAX_OUTPUTS || !most) return n_out <= CR_MAX_OUTPUTS;
    int bound = n_out;
    for (int i = 0; i < c->n_in; i++) bound += !c->p->buffers[c->in[i].buffer].dev->host;
    for (int k = 0; k < n_out; k++) {
        const location *at = &c->written[out[k]];
        for (int i = 0; i < c->n_in + n_out; i++) {
            const location *other = i < c->n_in ? &c->in[i] : &c->written[out[i - c->n_in]];
            if (other->buffer != at->buffer) continue;
            if (!same_location(c, other, at)) return false;
            bound -= i < c->n_in;
        }
    }
    return bound <= most;
}

static cr_status replace(cr_plan *p, const chain *c) {
    int out[WRITTEN];
    const int n_out = outputs_of(c, out);
    if (n_out < 1 || n_out > CR_MAX_OUTPUTS) return CR_OK;
    cr_step joint;
    cr_status status = step_of(c, n_out, out, &joint);
    if (status != CR_OK) {
        cr_step_free(&joint);
        return status;
    }
    for (int k = c->n - 1; k > 0; k--) cr_plan_remove(p, c->step[k]);
    cr_step_free(&p->steps[c->step[0]]);
    p->steps[c->step[0]] = joint;
    return CR_OK;
}

static void collect_chain(chain *c, int first) {
    const cr_plan *p = c->p;
    const int end = first < p->split ? p->split : p->n_steps;
    int skipped[CR_AHEAD], n_skipped = 0;
    for (int i = first + 1; i < end && n_skipped < CR_AHEAD; i++) {
        const chain before = *c;
        if (qualifies(p, &p->steps[i]) && cr_may_pass(p, &p->steps[i], skipped, n_skipped) && join_step(c, i)) {
            if (fits_program(c)) continue;
            *c = before;
        }
        skipped[n_skipped++] = i;
    }
}

static void count_operands(const cr_plan *p, int *total) {
    memset(total, 0, sizeof *total * (size_t)p->n_buffers);
    for (int i = 0; i < p->n_steps; i++)
        for (int o = 0; o < p->steps[i].n_operands; o++) total[p->steps[i].operands[o].buffer]++;
}

cr_status cr_pass_fuse(cr_plan *p) {
    chain *c = malloc(sizeof *c);
    int *total = malloc(sizeof *total * (size_t)(p->n_buffers + 1));
    cr_status status = c && total ? CR_OK : cr_no_memory("plan");
    if (status == CR_OK) count_operands(p, total);
    for (int i = 0; i < p->n_steps && status == CR_OK; i++) {
        if (!qualifies(p, &p->steps[i])) continue;
        *c = (chain){.p = p, .total = total};
        if (!join_step(c, i)) continue;
        collect_chain(c, i);
        if (c->n < 2) continue;
        status = replace(p, c);
        count_operands(p, total);
    }
    free(total);
    free(c);
    return status;
}
