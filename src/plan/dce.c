/* dce.c - removes steps whose results nothing reads. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* A step is needed if it writes what outlives the plan, or what a needed step reads later, or if it may fail. */
cr_status cr_pass_dce(cr_plan *p) {
    bool *needed = calloc((size_t)p->n_buffers + 1, sizeof *needed);
    if (!needed) return cr_no_memory("plan");
    for (int i = 0; i < p->n_buffers; i++) needed[i] = p->buffers[i].kind != CR_BUFFER_TEMPORARY;
    int kept = p->n_steps, split = p->split;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        cr_step *s = &p->steps[i];
        bool keep = s->kind == CR_STEP_HOST || s->may_fail;
        for (int k = 0; k < s->n_operands; k++) keep |= s->operands[k].use & CR_WRITES && needed[s->operands[k].buffer];
        if (!keep) {
            cr_step_free(s);
            split -= i < p->split;
            continue;
        }
        for (int k = 0; k < s->n_operands; k++) needed[s->operands[k].buffer] |= s->operands[k].use & CR_READS;
        p->steps[--kept] = *s;
    }
    if (kept < p->n_steps) memmove(p->steps, p->steps + kept, sizeof *p->steps * (size_t)(p->n_steps - kept));
    p->n_steps -= kept;
    p->split = split;
    free(needed);
    return CR_OK;
}
