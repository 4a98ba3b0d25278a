/* remat.c - the pass that computes a value again, right before a use far behind the others, instead of keeping it until
 * then.  It takes elementwise kernels whose inputs are in memory there anyway: GELU in a backward pass, which has the
 * argument of GELU too. */
#include "plan.h"
#include "../core/out.h"

#include <stdlib.h>

/* The temporary that the step writes, if it can be repeated; -1. */
static int result_of(const cr_plan *p, const cr_step *s) {
    int result = -1;
    if (s->kind != CR_STEP_KERNEL || s->kernel != CR_KERNEL_elementwise || cr_step_walks(s)->count != 1) return -1;
    if (cr_step_walks(s)->walks->n_out != 1 || cr_live_params(p, s)) return -1;
    for (int i = 0; i < s->n_operands; i++)
        if (s->operands[i].use & CR_WRITES) result = s->operands[i].buffer;
    const cr_buffer *b = &p->buffers[result];
    return b->kind == CR_BUFFER_TEMPORARY && b->bytes >= CR_LARGE_VALUE ? result : -1;
}

static bool written_by_another(const cr_plan *p, int i, int buffer) {
    for (int k = 0; k < p->n_steps; k++)
        for (int o = 0; o < p->steps[k].n_operands && k != i; o++)
            if (p->steps[k].operands[o].buffer == buffer && p->steps[k].operands[o].use & CR_WRITES) return true;
    return false;
}

/* The first use of what step i wrote that is far behind the one before; -1: none. */
static int far_use(const cr_plan *p, int i, int buffer) {
    int last = i;
    for (int k = i + 1; k < p->n_steps; k++) {
        if (!cr_step_uses(&p->steps[k], buffer)) continue;
        if (k - last > CR_FAR) return k;
        last = k;
    }
    return -1;
}

static bool overwritten(const cr_plan *p, const cr_operand *input, int from, int to) {
    for (int k = from; k < to; k++)
        for (int i = 0; i < p->steps[k].n_operands; i++) {
            const cr_operand *o = &p->steps[k].operands[i];
            if (o->buffer == input->buffer && o->use & CR_WRITES && o->low < input->high && input->low < o->high)
                return true;
        }
    return false;
}

/* Are the inputs of step i in memory, and as they were, at step `to`? */
static bool inputs_stay(const cr_plan *p, int i, int to) {
    const cr_step *s = &p->steps[i];
    for (int o = 0; o < s->n_operands; o++) {
        if (s->operands[o].use != CR_READS) continue;
        if (overwritten(p, &s->operands[o], i + 1, to)) return false;
        bool there = p->buffers[s->operands[o].buffer].kind != CR_BUFFER_TEMPORARY;
        for (int k = to; k < p->n_steps && !there; k++) there = cr_step_uses(&p->steps[k], s->operands[o].buffer);
        if (!there) return false;
    }
    return true;
}

static int buffer_like(cr_plan *p, int buffer) {
    if (!cr_grow(&p->buffers, p->n_buffers + 1, &p->buffer_room, sizeof *p->buffers)) return -1;
    const cr_buffer *like = &p->buffers[buffer];
    p->buffers[p->n_buffers] = (cr_buffer){
        .kind = CR_BUFFER_TEMPORARY, .dev = like->dev, .bytes = like->bytes, .written = true};
    return p->n_buffers++;
}

static cr_status repeat(cr_plan *p, int i, int at, int buffer) {
    const cr_step *s = &p->steps[i];
    cr_step again = {0};
    const int twin = buffer_like(p, buffer);
    cr_status status = cr_step_fill(&again, s->kernel, s->args, cr_same_number, NULL);
    again.run = s->run;
    again.update = s->update;
    again.name = cr_joined(s->name, " again");
    if (status == CR_OK && (twin < 0 || !again.name)) status = cr_no_memory("plan");
    for (int o = 0; o < again.n_operands && status == CR_OK; o++)
        if (again.operands[o].use & CR_WRITES) cr_operand_redirect(&again, &again.operands[o], twin);
    if (status == CR_OK) status = cr_plan_insert(p, at, &again);
    if (status == CR_OK) cr_plan_redirect(p, at + 1, buffer, twin);
    else cr_step_free(&again);
    return status;
}

cr_status cr_pass_remat(cr_plan *p) {
    cr_status status = CR_OK;
    for (int i = 0; i < p->n_steps && status == CR_OK; i++) {
        const int buffer = result_of(p, &p->steps[i]), at = buffer < 0 ? -1 : far_use(p, i, buffer);
        if (at < 0 || written_by_another(p, i, buffer) || !inputs_stay(p, i, at)) continue;
        status = repeat(p, i, at, buffer);
    }
    return status;
}
