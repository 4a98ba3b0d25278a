/* fold.c - the pass that runs steps once which would give the same in each run: masks, positions, numbers that the step
 * makes of nothing but numbers.  They become a plan of their own, whose results are constants of this one.
 *
 * A buffer is fixed if all that is written there is, and before anything else reads it.  Results are not: each run
 * gives its caller new ones. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 32 << 20 };                           /* bytes that a plan may keep: the arena would share them */

typedef struct folding {
    cr_plan *p;
    bool *step, *buffer;                            /* which are fixed */
    bool *read;                                     /* buffers that other steps read */
    bool *too_large;
} folding;

static bool may_be_fixed(const cr_plan *p, const cr_step *s) {
    const bool kind = s->kind == CR_STEP_KERNEL || s->kind == CR_STEP_UPLOAD || s->kind == CR_STEP_TRANSFER;
    return kind && s->draw < 0 && !cr_live_params(p, s);
}

static bool reads_fixed(const folding *f, const cr_step *s) {
    for (int i = 0; i < s->n_operands; i++) {
        const int b = s->operands[i].buffer;
        if (!f->buffer[b] && f->p->buffers[b].kind != CR_BUFFER_CONSTANT) return false;
    }
    return true;
}

/* Takes away what is not fixed after all; false: that was nothing. */
static bool narrow(folding *f) {
    const cr_plan *p = f->p;
    bool changed = false;
    memset(f->read, 0, (size_t)p->n_buffers);
    for (int i = 0; i < p->n_steps; i++) {
        const cr_step *s = &p->steps[i];
        if (f->step[i] && !reads_fixed(f, s)) f->step[i] = false, changed = true;
        for (int k = 0; k < s->n_operands; k++) {
            const cr_operand *o = &s->operands[k];
            const bool late = f->read[o->buffer] || !f->step[i];
            if (o->use & CR_WRITES && late && f->buffer[o->buffer]) f->buffer[o->buffer] = false, changed = true;
            if (o->use & CR_READS && !f->step[i]) f->read[o->buffer] = true;
        }
    }
    return changed;
}

/* The fixed steps; returns how many. */
static int find_fixed_steps(folding *f) {
    const cr_plan *p = f->p;
    int n = 0;
    for (int i = 0; i < p->n_buffers; i++)
        f->buffer[i] = p->buffers[i].kind == CR_BUFFER_TEMPORARY && !f->too_large[i];
    for (int i = 0; i < p->n_steps; i++) f->step[i] = may_be_fixed(p, &p->steps[i]);
    while (narrow(f)) {}
    for (int i = 0; i < p->n_steps; i++) n += f->step[i];
    return n;
}

static bool is_kept(const folding *f, int buffer) { return f->buffer[buffer] && f->read[buffer]; }

/* The largest results are computed in each run if all of them are more than a plan may keep. */
static bool fits_constants(folding *f) {
    size_t bytes = 0;
    int largest = -1;
    for (int i = 0; i < f->p->n_buffers; i++) {
        if (!is_kept(f, i)) continue;
        bytes += f->p->buffers[i].bytes;
        if (largest < 0 || f->p->buffers[i].bytes > f->p->buffers[largest].bytes) largest = i;
    }
    if (bytes > MOST) f->too_large[largest] = true;
    return bytes <= MOST;
}

static cr_array bytes_of(const cr_buffer *b) {
    const int64_t shape[] = {(int64_t)b->bytes};
    return cr_array_of(NULL, b->dev, CR_U8, 1, shape);
}

/* The plan of the n fixed steps, which it takes, with the buffers that are kept as its results. */
static cr_status take_steps(folding *f, int n, cr_plan *own) {
    cr_plan *p = f->p;
    int kept = 0, left = 0, split = p->split;
    own->steps = malloc(sizeof *own->steps * (size_t)n);
    own->buffers = malloc(sizeof *own->buffers * (size_t)(p->n_buffers + 1));
    own->outputs = calloc((size_t)p->n_buffers + 1, sizeof *own->outputs);
    if (!own->steps || !own->buffers || !own->outputs) return cr_no_memory("plan");
    for (int i = 0; i < p->n_buffers; i++) {
        cr_buffer *b = &own->buffers[i];
        *b = p->buffers[i];
        if (b->kind == CR_BUFFER_CONSTANT) cr_storage_retain(b->storage);
        else b->storage = NULL, b->kind = is_kept(f, i) ? CR_BUFFER_OUTPUT : CR_BUFFER_TEMPORARY;
        if (is_kept(f, i)) own->outputs[kept++] = (cr_result){.buffer = i, .array = bytes_of(b)};
    }
    own->n_buffers = p->n_buffers, own->n_outputs = kept;
    own->how = cr_product_how();
    for (int i = 0; i < p->n_steps; i++) {
        if (!f->step[i]) { p->steps[left++] = p->steps[i]; continue; }
        own->steps[own->n_steps] = p->steps[i];
        own->steps[own->n_steps++].update = -1;     /* its numbers stay p's, and what they are */
        split -= i < p->split;
    }
    p->n_steps = left, p->split = split;
    own->split = own->n_steps;
    return CR_OK;
}

static cr_status keep_results(const folding *f, cr_plan *own) {
    cr_tensor **results = calloc((size_t)own->n_outputs + 1, sizeof *results);
    cr_status status = results ? cr_plan_run(own, NULL, results) : cr_no_memory("plan");
    for (int i = 0; i < own->n_outputs && status == CR_OK; i++) {
        cr_buffer *b = &f->p->buffers[own->outputs[i].buffer];
        b->kind = CR_BUFFER_CONSTANT;
        b->storage = cr_storage_retain(results[i]->storage);
        cr_release(results[i]);
    }
    free(results);
    return status;
}

static cr_status run_once(folding *f, int n) {
    cr_plan *own = calloc(1, sizeof *own);
    if (!own) return cr_no_memory("plan");
    atomic_init(&own->refs, 1);
    cr_status status = take_steps(f, n, own);
    if (status == CR_OK) status = cr_pass_arena(own);
    if (status == CR_OK) status = cr_plan_finish(own);
    if (status == CR_OK) status = keep_results(f, own);
    cr_plan_free(own);
    return status;
}

static void mark_results(bool *used, int n, const cr_result *results) {
    for (int i = 0; i < n; i++)
        if (!results[i].absent) used[results[i].buffer] = true;
}

/* Constants that only the fixed steps read end here.  used: all false */
static void end_constants(cr_plan *p, bool *used) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++) used[p->steps[i].operands[k].buffer] = true;
    mark_results(used, p->n_outputs, p->outputs);
    mark_results(used, p->n_gradients, p->gradients);
    for (int i = 0; i < p->n_leaves; i++)
        if (p->leaves[i].buffer >= 0) used[p->leaves[i].buffer] = true;
    for (int i = 0; i < p->n_buffers; i++) {
        cr_buffer *b = &p->buffers[i];
        if (b->kind != CR_BUFFER_CONSTANT || used[i]) continue;
        cr_storage_release(b->storage);
        b->storage = NULL;
        b->kind = CR_BUFFER_TEMPORARY;
    }
}

cr_status cr_pass_fold(cr_plan *p) {
    const size_t n_buffers = (size_t)p->n_buffers + 1;
    bool *all = calloc(3 * n_buffers + (size_t)p->n_steps, sizeof *all);
    if (!all) return cr_no_memory("plan");
    folding f = {p, all + 3 * n_buffers, all, all + n_buffers, all + 2 * n_buffers};
    int n = find_fixed_steps(&f);
    while (!fits_constants(&f)) n = find_fixed_steps(&f);
    const cr_status status = n ? run_once(&f, n) : CR_OK;
    memset(f.read, 0, n_buffers);
    if (status == CR_OK) end_constants(p, f.read);
    free(all);
    return status;
}
