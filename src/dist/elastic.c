/* elastic.c - the survivors of a loss go on as a smaller world, by MPI's User-Level Failure Mitigation (Bland et al.
 * 2013): revoke ends every call that waits for a lost rank, agree gives all survivors one answer, shrink makes a world
 * of the survivors.
 *
 * A step changes weights only after all have agreed that its exchange was whole, so the survivors of a step that failed
 * are all where it began, share out its microbatches anew, and do it again.  Their GPUs get a link of their own.  With
 * the sharded optimizer each rank also has the moments of its left neighbour, as they were after the last step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../nn/params.h"
#include "heartbeat.h"
#include "parallel.h"

/* ---- the world */
cr_status cr_elastic_begin(cr_world *w, const char *op) {
    if (!w->mpi.Comm_agree)
        return cr_fail(CR_RUNTIME, op, "option elastic needs Open MPI 5 or later, started by `mpirun --with-ft ulfm`; "
                                       "the engine is %s%s", w->engine,
                       strstr(w->engine, "Open MPI v") ? ", without that option" : "");
    w->mpi.elastic = w->comm;
    return CR_OK;
}

/* A call of MPI has failed: no rank waits for this one any longer.  The beats often know who is gone. */
int cr_elastic_lose(cr_world *w, int code) {
    char text[256] = "no text";
    int n = 0;
    (void)w->mpi.Comm_revoke(w->comm);
    for (int i = 0; w->beat && i < 20 && !atomic_load(&w->mpi.lost); i++) cr_os_sleep(0.05);
    char *why = calloc(1, 1 << 13);
    if (why && !w->mpi.Error_string(code, why, &n)) snprintf(text, sizeof text, "%.255s", why);
    free(why);
    cr_mutex_lock(w->mutex);
    if (!atomic_load(&w->mpi.lost)) snprintf(w->loss, sizeof w->loss, "a rank was lost: MPI error %d: %s", code, text);
    atomic_store(&w->mpi.lost, true);
    cr_mutex_unlock(w->mutex);
    return CR_MPI_LOST;
}

/* A blocking call of all survivors.  It waits neither for a rank that is silent, which MPI counts as a survivor, nor
 * for long after a loss that MPI has not seen: then the call never ends, and its memory stays. */
static const double patience = 64;                  /* seconds: a rank may be in a backward pass */
typedef struct meeting { cr_job job; int flag, rank, size; } meeting;

static bool is_done(cr_world *w, const cr_job *job) {
    cr_mutex_lock(w->mutex);
    while (!job->done && !atomic_load(&w->mpi.lost)) cr_cond_wait(w->changed, w->mutex);
    const bool done = job->done;
    cr_mutex_unlock(w->mutex);
    return done;
}

static cr_status hold_meeting(cr_world *w, const char *op, int (*run)(cr_world *w, void *ctx), meeting *out) {
    meeting *m = malloc(sizeof *m);
    if (!m) return cr_no_memory(op);
    *m = *out;
    m->job = (cr_job){.run = run, .ctx = m, .after_loss = true};
    cr_world_post(w, &m->job);
    double lost = 0;
    while (!is_done(w, &m->job)) {
        if (!(lost > 0)) lost = cr_os_seconds();
        if (atomic_load(&w->silent) || cr_os_seconds() > lost + patience) {
            w->stuck = true;
            return cr_fail(CR_RUNTIME, op, "%s; the other ranks cannot go on without it", w->loss);
        }
        cr_os_sleep(0.002);
    }
    const int code = m->job.code;
    *out = *m;
    free(m);
    return code ? cr_fail(CR_RUNTIME, op, "rank %d on %s: MPI error %d in %s", w->rank, w->host, code,
                          "the meeting of the ranks that are left") : CR_OK;
}

static int agree(cr_world *w, void *ctx) {
    meeting *m = ctx;
    if (!m->flag) (void)w->mpi.Comm_revoke(w->comm);
    (void)w->mpi.Comm_agree(w->comm, &m->flag);     /* whatever its code is, survivors have the same flag */
    return 0;
}

cr_status cr_elastic_agree(cr_world *w, const char *op, cr_status status) {
    if (w->size == 1) return status;
    if (status != CR_OK && w->link && !atomic_load(&w->mpi.lost)) {
        w->stuck = true;                            /* others may be in calls of NCCL, which nobody can revoke */
        return status;
    }
    meeting m = {.flag = status == CR_OK};
    cr_saved_error why;
    cr_error_take(&why);
    cr_error_clear();
    const cr_status met = hold_meeting(w, op, agree, &m);
    if (status != CR_OK) {
        cr_error_clear();
        cr_error_put(&why);
        return status;
    }
    if (met != CR_OK || m.flag) return met;
    for (int i = 0; w->beat && i < 20 && !atomic_load(&w->mpi.lost); i++) cr_os_sleep(0.05);
    char text[sizeof w->loss] = "another rank has failed";
    cr_mutex_lock(w->mutex);
    if (atomic_load(&w->mpi.lost)) memcpy(text, w->loss, sizeof text);
    cr_mutex_unlock(w->mutex);
    return cr_fail(CR_RUNTIME, op, "%s", text);
}

static int shrink(cr_world *w, void *ctx) {
    meeting *m = ctx;
    const cr_mpi *mpi = &w->mpi;
    cr_mpi_handle whole = w->comm, rest = 0;
    if (w->link) w->gpu->linking->close(w->link);   /* aborts it, because of the loss */
    w->link = NULL;
    w->gpu = NULL;
    (void)mpi->Comm_revoke(whole);
    int code = mpi->Comm_shrink(whole, &rest);
    if (!code) code = mpi->Comm_set_errhandler(rest, mpi->errors_return);
    if (!code) code = mpi->Comm_rank(rest, &m->rank);
    if (!code) code = mpi->Comm_size(rest, &m->size);
    if (code) return code;
    w->comm = rest;
    (void)mpi->Comm_free(&whole);
    return 0;
}

/* The world of the survivors.  *whole: no rank is gone, so the failure is of another kind, and all end. */
static cr_status shrink_world(cr_world *w, const char *op, bool *whole) {
    static const char why[] = "a call of MPI failed, but no rank is gone";
    meeting m = {0};
    const int before = w->size;
    cr_beat_stop(w);
    cr_status status = hold_meeting(w, op, shrink, &m);
    if (status != CR_OK) return status;
    w->mpi.elastic = w->comm;
    w->rank = m.rank;
    w->size = m.size;
    w->shrunk = true;
    *whole = m.size == before;
    cr_mutex_lock(w->mutex);
    if (*whole) snprintf(w->loss, sizeof w->loss, "%s", why);
    atomic_store(&w->mpi.lost, *whole);
    cr_mutex_unlock(w->mutex);
    if (*whole) return cr_fail(CR_RUNTIME, op, "%s", why);
    return m.size > 1 && !w->alone ? cr_beat_start(w, w->patience) : CR_OK;
}

/* ---- the training */
typedef struct gathered {
    int64_t *all;                                   /* of each survivor: its rank before, steps, laid out?, the order */
    cr_params *moments;                             /* NULL: the pieces were not made yet, or are not all there */
    bool reload;
} gathered;

enum { BEFORE, STEPS, LAID_OUT, ORDER };

static cr_status gather_positions(cr_parallel *p, const char *op, gathered *g) {
    const int64_t n = ORDER + p->opt->count;
    int64_t *mine = calloc((size_t)n, sizeof *mine);
    free(g->all);
    g->all = calloc((size_t)(n * p->w->size), sizeof *g->all);
    cr_status status = mine && g->all ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory for the order");
    if (status == CR_OK) {
        mine[BEFORE] = p->rank;
        mine[STEPS] = p->opt->steps;
        mine[LAID_OUT] = p->laid_out;
        memcpy(mine + ORDER, p->order, (size_t)p->opt->count * sizeof *mine);
        status = cr_world_gather(p->w, op, mine, n * (int64_t)sizeof *mine, g->all);
    }
    for (int r = 1; r < p->w->size && status == CR_OK; r++)
        if (g->all[r * n + STEPS] != p->opt->steps)
            status = cr_fail(CR_RUNTIME, op, "rank %d is at step %lld, rank %d at step %lld", r,
                             (long long)g->all[r * n + STEPS], p->w->rank, (long long)p->opt->steps);
    free(mine);
    return status;
}

/* The survivor that was rank `before`; -1: it is gone. */
static int now_of(const cr_parallel *p, const gathered *g, int before) {
    for (int r = 0; r < p->w->size; r++)
        if (g->all[r * (ORDER + p->opt->count) + BEFORE] == before) return r;
    return -1;
}

/* Every rank's moments to all, from the rank itself or from its right neighbour. */
static cr_status gather_moments(cr_parallel *p, const char *op, gathered *g) {
    cr_params_free(g->moments);
    g->moments = NULL;
    if (!p->o.shard || p->state) return CR_OK;
    int *from = calloc((size_t)p->size, sizeof *from);
    if (!from) return cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", p->size);
    for (int r = 0; r < p->size; r++) {
        from[r] = now_of(p, g, r);
        if (from[r] < 0) from[r] = now_of(p, g, (r + 1) % p->size);
        g->reload |= from[r] < 0;
    }
    if (!g->reload) g->moments = cr_shard_collect(p, from);
    free(from);
    return g->reload || g->moments ? CR_OK : cr_error_status();
}

/* All have what they need: the layout for the new number of ranks.  Calls no other rank. */
static cr_status settle(cr_parallel *p, gathered *g) {
    cr_status status = CR_OK;
    memcpy(p->order, g->all + ORDER, (size_t)p->opt->count * sizeof *p->order);
    p->laid_out = g->all[LAID_OUT] || p->w->size == 1;
    for (int64_t i = 0; !g->all[LAID_OUT] && i < p->opt->count; i++) p->order[i] = p->opt->count - 1 - i;
    cr_layout_free(p);
    if (p->o.shard) cr_shard_forget(p, g->reload);
    if (g->moments) p->state = g->moments;
    g->moments = NULL;
    if (p->o.shard && p->w->size == 1) {
        p->o.shard = false;
        p->opt->sharded = NULL;
        if (p->state) status = cr_optim_load(p->opt, p->state, p->opt->steps);
        cr_params_free(p->state);
        p->state = NULL;
    }
    cr_parallel_share(p);
    if (g->reload) p->again = false;
    return status == CR_OK && !cr_layout_make(p) ? cr_error_status() : status;
}

cr_status cr_parallel_meet(cr_parallel *p) {
    static const char op[] = "parallel_meet";
    if (cr_lacks(op, "the object", p) || cr_world_lacks(op, p->w)) return cr_error_status();
    const cr_status status = cr_barrier(p->w);
    return p->o.elastic ? cr_elastic_agree(p->w, op, status) : status;
}

cr_status cr_parallel_recover(cr_parallel *p, bool *reload) {
    static const char op[] = "parallel_recover";
    if (cr_lacks(op, "the object", p) || cr_world_lacks(op, p->w)) return cr_error_status();
    if (!reload) return cr_fail_null(op, "reload");
    cr_status status = cr_error_status();
    if (!p->w->mpi.elastic || p->w->size == 1 || p->w->stuck || atomic_load(&p->w->silent))
        return status != CR_OK ? status : cr_fail(CR_RUNTIME, op, "no rank has failed, or option elastic is off");
    cr_saved_error first;
    cr_error_take(&first);
    gathered g = {0};
    cr_parallel_drain(p);
    if (p->o.shard && !p->opt->sharded) (void)cr_shard_begin(p);        /* a checkpoint was loaded meanwhile */
    do {                                            /* another rank may be lost meanwhile */
        bool whole = false;
        cr_error_clear();
        status = shrink_world(p->w, op, &whole);
        if (status != CR_OK && (p->w->stuck || whole || !atomic_load(&p->w->mpi.lost))) break;
        if (status == CR_OK && p->w->size > 1 && !p->dev->host) status = cr_link_start(p->w, op, p->dev, NULL);
        if (status == CR_OK) status = gather_positions(p, op, &g);
        if (status == CR_OK) status = gather_moments(p, op, &g);
        status = cr_elastic_agree(p->w, op, status);
    } while (status != CR_OK);
    if (status == CR_OK) status = settle(p, &g);
    else if (first.status != CR_OK) {
        cr_error_clear();
        cr_error_put(&first);                       /* says more */
    }
    *reload = g.reload;
    free(g.all);
    cr_params_free(g.moments);
    return status;
}
