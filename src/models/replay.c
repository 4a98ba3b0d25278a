/* replay.c - one token of a text after another: the steps of three tokens are recorded while they run, then joined to a
 * plan in which the position is a number. */
#include "lm.h"

#include <string.h>

#include "../core/status.h"

enum { RECORDED = 3 };

void cr_replay_end(cr_replay_of *r) {
    for (int i = 0; i < r->n; i++) cr_plan_free(r->plan[i]);
    *r = (cr_replay_of){.off = r->off};
}

static cr_tensor *run(const cr_decoder *d, cr_cache *row, const cr_tensor *const *in) {
    cr_cache *const rows[] = {row};
    const cr_caches caches = {.n = 1, .row = rows, .angles = d->angles ? in[1] : NULL};
    return cr_affine_apply(&d->head, d->hidden(d->model, in[0], &caches));
}

/* The plan that two more recordings complete.  A step that cannot be joined goes on without: a cache whose copies grow
 * with it, for example. */
static void join(cr_replay_of *r) {
    r->off = cr_plan_join(r->plan[0], r->plan[1], r->plan[2]) != CR_OK;
    if (r->off) {
        cr_error_clear();
        cr_replay_end(r);
    }
}

static cr_tensor *record(cr_replay_of *r, const cr_decoder *d, cr_cache *row, int n, const cr_tensor *const *in) {
    if (cr_record_begin(n, in) != CR_OK) return NULL;
    cr_tensor *y = run(d, row, in);
    if (!y) return cr_record_cancel(), NULL;
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    if (!p) {
        cr_error_clear();
        cr_replay_end(r);
        r->off = true;
        return y;
    }
    if (!r->n) r->past = row->past;
    r->plan[r->n++] = p;
    if (r->n == RECORDED) join(r);
    return y;
}

static cr_tensor *next(cr_replay_of *r, const cr_decoder *d, cr_cache *row, int n, const cr_tensor *const *in) {
    const bool follows = r->n < RECORDED ? row->past == r->past + r->n : row->past >= r->past;
    if (!follows) cr_replay_end(r);                 /* the context was full: the text goes on from its half */
    if (r->off || d->windowed || row->past < 1 || cr_recording()) return run(d, row, in);
    if (r->n < RECORDED) return record(r, d, row, n, in);
    cr_tensor *y = NULL;
    cr_status status = cr_plan_at(r->plan[0], row->past - r->past);
    if (status == CR_OK) status = cr_plan_run(r->plan[0], in, &y);
    return y;
}

cr_tensor *cr_forward_one(cr_replay_of *r, const cr_decoder *d, cr_cache *row, uint32_t id) {
    if (row->past == row->room) cr_replay_end(r);   /* its memory is replaced */
    if (cr_cache_reserve(row, row->past + 1) != CR_OK) return NULL;
    row->ids[row->past] = id;
    const cr_tensor *in[] = {cr_to(cr_from(&id, CR_LIST(1, 1), CR_U32, d->dev), CR_I64, d->dev),
                             d->angles ? d->angles(d->model, row->past, 1) : NULL};
    cr_tensor *y = in[0] && (in[1] || !d->angles) ? next(r, d, row, d->angles ? 2 : 1, in) : NULL;
    row->past += y != NULL;
    return y;
}
