/* fuse_update.c - the pass that runs an optimizer's update inside the product that makes the gradient, where the
 * device has such a kernel and the bits stay: the gradient then never exists as a whole.  Elsewhere, on the host, the
 * update runs right behind what makes the gradient, and the memory is free for the next one. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 18 };                           /* bytes of a gradient that is worth a call of its own */

/* Which input of the walk is the whole of buffer b, which nothing else of the step touches; -1: none. */
static int input_of(const cr_step *s, const cr_walk *w, int b) {
    int found = -1;
    for (int i = 0; i < s->n_operands; i++) {
        const cr_operand *o = &s->operands[i];
        if (o->buffer != b) continue;
        const cr_arg *a = o->walk ? cr_step_arg(s, o) : NULL;
        if (!a || a < w->in || a >= w->in + w->n_in || found >= 0) return -1;
        found = (int)(a - w->in);
    }
    return found;
}

/* Does the walk change something outside of the step, as optimizers do? */
static bool updates(const cr_plan *p, const cr_walk *w) {
    for (int i = 0; i < w->n_out; i++)
        if (p->buffers[(intptr_t)w->out[i].storage - 1].kind == CR_BUFFER_OUTSIDE) return true;
    return false;
}

static bool dense(const cr_walk *w) {
    if (w->ndim != 1) return false;
    for (int i = 0; i < w->n_in; i++)
        if (w->in[i].strides[0] != 1) return false;
    for (int i = 0; i < w->n_out; i++)
        if (w->out[i].strides[0] != 1) return false;
    return true;
}

/* The only other step that uses buffer b, after step i; -1: none or several. */
static int only_reader(const cr_plan *p, int i, int b) {
    int found = -1;
    for (int k = 0; k < p->n_steps; k++) {
        bool uses = false;
        for (int o = 0; o < p->steps[k].n_operands; o++) uses |= p->steps[k].operands[o].buffer == b;
        if (!uses || k == i) continue;
        if (k < i || found >= 0) return -1;
        found = k;
    }
    return found;
}

static bool makes_gradient(const cr_plan *p, const cr_step *s) {
    if (s->kernel != CR_KERNEL_matmul) return false;
    const cr_matmul_args *m = (const void *)s->args;
    const cr_device *dev = m->c.dev;
    if (m->c.ndim != 2 || m->a.ndim != 2 || m->b.ndim != 2 || m->bias.storage || m->how & CR_MATMUL_ADD) return false;
    if (!m->c.contiguous || m->c.offset || !m->c.numel || !dev->kernels->update_by_product) return false;
    const cr_buffer *b = &p->buffers[(intptr_t)m->c.storage - 1];
    return b->kind == CR_BUFFER_TEMPORARY && b->bytes == (size_t)m->c.numel * cr_dtype_size(m->c.dtype);
}

/* May the walk, as a step of its own, run right behind the last step before `to` with which it conflicts? */
static int place_for(const cr_plan *p, const cr_step *walk, const cr_step *product, int from, int to) {
    int at = from;
    for (int k = from + 1; k < to; k++)
        if (cr_conflicts(walk, &p->steps[k])) at = k;
    for (int k = from + 1; k <= at; k++)               /* the product waits until then: its operands must stay */
        if (cr_conflicts(product, &p->steps[k])) return -1;
    return at;
}

/* The walk number i of step s goes, and its operands. */
static cr_status drop_walk(cr_step *s, int64_t i) {
    cr_elementwise_args *a = cr_step_walks(s);
    cr_walk *walks = (cr_walk *)(uintptr_t)a->walks;
    cr_program_free((cr_program *)(uintptr_t)walks[i].program);
    memmove(&walks[i], &walks[i + 1], sizeof *walks * (size_t)(--a->count - i));
    return cr_step_relist(s);
}

static cr_status fuse(cr_plan *p, int product, int update, int64_t walk, int input, bool *done) {
    cr_step *s = &p->steps[product], *u = &p->steps[update], joint = {0};
    const cr_matmul_args *m = (const void *)s->args;
    const cr_walk *w = &cr_step_walks(u)->walks[walk];
    const cr_kernels *kernels = m->c.dev->kernels;
    cr_status status = cr_step_fill(&joint, CR_KERNEL_update_by_product,
                                    &(cr_update_by_product_args){w, input, m->a, m->b, m->how}, cr_same_number, NULL);
    joint.run = kernels->raw[CR_KERNEL_update_by_product];
    joint.update = u->update;
    joint.name = cr_joined(u->name, " inside its gradient");
    const int at = status == CR_OK && joint.name ? place_for(p, &joint, s, product, update) : -1;
    if (at < 0) {
        cr_step_free(&joint);
        return status;
    }
    if ((status = drop_walk(u, walk)) != CR_OK) return status;
    const bool empty = cr_step_walks(u)->count == 0;
    cr_step_free(s);
    memmove(s, s + 1, sizeof *s * (size_t)(at - product));
    p->steps[at] = joint;
    if (empty) cr_plan_remove(p, update);
    *done = true;
    return CR_OK;
}

/* The walk becomes a step of its own, behind the gradient's step and those that still read what it writes. */
static cr_status hoist(cr_plan *p, int gradient, int update, int64_t walk) {
    cr_step *u = &p->steps[update], own = {0};
    cr_status status = cr_step_fill(&own, CR_KERNEL_elementwise,
                                    &(cr_elementwise_args){&cr_step_walks(u)->walks[walk], 1}, cr_same_number, NULL);
    own.run = u->run;
    own.update = u->update;
    own.name = cr_joined(u->name, "");
    if (status == CR_OK && !own.name) status = cr_no_memory("plan");
    if (status == CR_OK) status = drop_walk(u, walk);
    int at = gradient + 1;
    for (int k = at; k < update; k++)
        if (cr_conflicts(&own, &p->steps[k])) at = k + 1;
    if (status == CR_OK) status = cr_plan_insert(p, at, &own);
    if (status != CR_OK) {
        cr_step_free(&own);
        return status;
    }
    if (!cr_step_walks(&p->steps[update + 1])->count) cr_plan_remove(p, update + 1);
    return CR_OK;
}

/* The walk of step `update` that takes the whole of buffer b as a gradient, and which of its inputs that is; NULL. */
static const cr_walk *taker_of(const cr_plan *p, int update, int b, int *input) {
    const cr_elementwise_args *a = cr_step_walks(&p->steps[update]);
    for (int64_t k = 0; k < a->count; k++) {
        const cr_walk *w = &a->walks[k];
        *input = input_of(&p->steps[update], w, b);
        if (*input < 0 || !updates(p, w) || !dense(w) || w->in[*input].offset) continue;
        if ((size_t)w->numel * cr_dtype_size(w->in[*input].dtype) == p->buffers[b].bytes) return w;
    }
    return NULL;
}

/* The temporary that step s is the first to write, if it is a large one; -1. */
static int large_result(const cr_plan *p, const cr_step *s) {
    for (int k = 0; s->kind == CR_STEP_KERNEL && k < s->n_operands; k++) {
        const cr_buffer *b = &p->buffers[s->operands[k].buffer];
        if (s->operands[k].use == CR_WRITES && b->kind == CR_BUFFER_TEMPORARY && b->bytes >= LARGE)
            return s->operands[k].buffer;
    }
    return -1;
}

static cr_status try_step(cr_plan *p, int i, bool *done) {
    const cr_step *s = &p->steps[i];
    const bool product = makes_gradient(p, s);
    const cr_matmul_args *m = product ? (const void *)s->args : NULL;
    const int b = product ? (int)(intptr_t)m->c.storage - 1 : large_result(p, s);
    const int reader = b < 0 ? -1 : only_reader(p, i, b);
    if (reader < 0 || p->steps[reader].kernel != CR_KERNEL_elementwise || p->steps[reader].update < 0) return CR_OK;
    if (i < p->split && reader >= p->split) return CR_OK;
    int input;
    const cr_walk *w = taker_of(p, reader, b, &input);
    if (!w) return CR_OK;
    const int64_t walk = w - cr_step_walks(&p->steps[reader])->walks;
    const cr_kernels *kernels = p->buffers[b].dev->kernels;
    if (product && w->in[input].dtype == m->c.dtype && kernels->update_keeps_bits && kernels->update_keeps_bits(m)) {
        const cr_status status = fuse(p, i, reader, walk, input, done);
        if (status != CR_OK || *done) return status;
    }
    return p->buffers[b].dev->host && p->buffers[b].bytes >= LARGE ? hoist(p, i, reader, walk) : CR_OK;
}

cr_status cr_pass_fuse_update(cr_plan *p) {
    cr_status status = CR_OK;
    for (int i = 0; i < p->n_steps && status == CR_OK; ) {
        bool done = false;
        status = try_step(p, i, &done);
        if (!done) i++;                             /* else the steps behind moved here */
    }
    return status;
}
