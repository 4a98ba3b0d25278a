/* world.c - a world of processes: opened, closed, and its thread.  MPI_THREAD_SERIALIZED is enough,
 * because one thread of ours makes every call. */
#include "world.h"

#include "beat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char open_op[] = "world_open";

/* ---- the thread */
static int abort_all(cr_world *w, void *code) { return w->mpi.Abort(w->mpi.world, *(int *)code); }

static void work(void *arg) {
    cr_world *w = arg;
    cr_mutex_lock(w->mutex);
    for (;;) {
        while (!w->first && !w->stop) cr_cond_wait(w->changed, w->mutex);
        cr_job *job = w->first;
        if (!job) break;
        cr_mutex_unlock(w->mutex);
        const bool lost = atomic_load(&w->mpi.lost) && job->run != abort_all;
        const int code = lost ? CR_MPI_LOST : job->run(w, job->ctx);
        cr_mutex_lock(w->mutex);
        w->first = job->next;
        if (!w->first) w->end = &w->first;
        job->code = code;
        job->done = true;
        cr_cond_signal_all(w->changed);
    }
    cr_mutex_unlock(w->mutex);
}

void cr_world_post(cr_world *w, cr_job *job) {
    job->done = false;
    job->next = NULL;
    cr_mutex_lock(w->mutex);
    *w->end = job;
    w->end = &job->next;
    cr_cond_signal_all(w->changed);
    cr_mutex_unlock(w->mutex);
}

cr_status cr_world_wait(cr_world *w, const char *op, cr_job *job) {
    cr_mutex_lock(w->mutex);
    while (!job->done) cr_cond_wait(w->changed, w->mutex);
    cr_mutex_unlock(w->mutex);
    if (!job->code) return CR_OK;
    char text[1024] = "";
    int n = 0;
    if (job->code == CR_MPI_LOST) {
        cr_mutex_lock(w->mutex);
        snprintf(text, sizeof text, "%s", w->loss);
        cr_mutex_unlock(w->mutex);
        return cr_fail(CR_RUNTIME, op, "%s", text);
    }
    if (!w->mpi.Error_string || w->mpi.Error_string(job->code, text, &n)) snprintf(text, sizeof text, "no text");
    text[strcspn(text, "\n")] = 0;
    return cr_fail(CR_RUNTIME, op, "rank %d on %s: MPI error %d: %.300s", w->rank, w->host, job->code, text);
}

cr_status cr_world_run(cr_world *w, const char *op, int (*run)(cr_world *w, void *ctx), void *ctx) {
    cr_job job = {.run = run, .ctx = ctx};
    cr_world_post(w, &job);
    return cr_world_wait(w, op, &job);
}

static bool start_thread(cr_world *w) {
    w->end = &w->first;
    w->mutex = cr_mutex_new();
    w->changed = cr_cond_new();
    w->thread = w->mutex && w->changed ? cr_thread_start(work, w) : NULL;
    return w->thread || (cr_fail(CR_NO_MEMORY, open_op, "no thread for MPI could be started"), false);
}

static void end_thread(cr_world *w) {
    if (w->thread) {
        cr_mutex_lock(w->mutex);
        w->stop = true;
        cr_cond_signal_all(w->changed);
        cr_mutex_unlock(w->mutex);
        cr_thread_join(w->thread);
    }
    if (w->changed) cr_cond_free(w->changed);
    if (w->mutex) cr_mutex_free(w->mutex);
}

/* ---- opening */
typedef struct start { int level, over; } start;

static int begin(cr_world *w, void *ctx) {
    start *s = ctx;
    cr_mpi *m = &w->mpi;
    int there = 0, code = m->Initialized(&there);
    if (!code) code = m->Finalized(&s->over);
    if (code || s->over) return code;
    if (there) code = m->Query_thread(&s->level);
    else code = m->Init_thread(NULL, NULL, m->serialized, &s->level);
    if (code) return code;
    w->ours = !there;
    code = m->Comm_dup(m->world, &w->comm);
    if (!code) code = m->Comm_set_errhandler(w->comm, m->errors_return);
    if (!code) code = m->Comm_rank(w->comm, &w->rank);
    return code ? code : m->Comm_size(w->comm, &w->size);
}

static int meet(cr_world *w, void *ctx) {
    (void)ctx;
    cr_mpi_handle request = 0;
    return w->comm ? cr_mpi_wait(&w->mpi, w->mpi.Ibarrier(w->comm, &request), &request, 0) : 0;
}

static int end(cr_world *w, void *ctx) {
    (void)ctx;
    const int code = w->comm ? w->mpi.Comm_free(&w->comm) : 0;
    return !code && w->ours ? w->mpi.Finalize() : code;
}

static cr_status start_engine(cr_world *w, const char *path, cr_launcher launcher, int expected, double patience) {
    start s = {0};
    cr_status status = cr_mpi_open(path, launcher, &w->mpi);
    if (status == CR_OK && !start_thread(w)) status = cr_error_status();
    if (status == CR_OK) status = cr_world_run(w, open_op, begin, &s);
    if (status != CR_OK) return status;
    if (s.over) return cr_fail(CR_RUNTIME, open_op, "MPI was finalized in this process: it cannot be opened again");
    if (s.level < w->mpi.serialized)
        return cr_fail(CR_RUNTIME, open_op, "MPI gives thread level %d, below MPI_THREAD_SERIALIZED (%d)", s.level,
                       w->mpi.serialized);
    if (expected && expected != w->size)
        return cr_fail(CR_RUNTIME, open_op,
                       "the launcher started %d processes, but '%s' (%s) sees %d: mpirun and library are of different "
                       "MPIs; use the mpirun of that library, or set CHAINRULE_MPI",
                       expected, w->mpi.path, w->mpi.name, w->size);
    snprintf(w->engine, sizeof w->engine, "%s", w->mpi.name);
    w->counts = calloc(4 * (size_t)w->size, sizeof *w->counts);
    if (!w->counts) return cr_fail(CR_NO_MEMORY, open_op, "no memory for %d ranks", w->size);
    return w->size > 1 ? cr_beat_start(w, patience) : CR_OK;
}

cr_world *cr_world_open(const cr_world_options *o) {
    cr_world *w = calloc(1, sizeof *w);
    if (!w) return cr_fail(CR_NO_MEMORY, open_op, "no memory for a world"), NULL;
    int rank = 0, size = 0;
    const cr_launcher launcher = o && o->alone ? CR_LAUNCHER_NONE : cr_mpi_launcher(&rank, &size);
    w->size = 1;
    w->process = cr_os_process_id();
    cr_os_host_name(w->host, sizeof w->host);
    snprintf(w->engine, sizeof w->engine, "none");
    if (launcher == CR_LAUNCHER_NONE || size == 1) return w;
    w->rank = rank;                                 /* for messages; MPI says it again */
    if (start_engine(w, o ? o->library : NULL, launcher, size, o ? o->patience : 0) == CR_OK) return w;
    cr_beat_stop(w);
    end_thread(w);                                  /* what MPI holds stays: it cannot be begun twice */
    free(w);
    return NULL;
}

void cr_world_close(cr_world *w) {
    if (!w || cr_stale("world_close", "the world", w)) return;
    const bool forked = w->process != cr_os_process_id();
    if (w->thread && !forked) {
        cr_saved_error e;
        cr_error_take(&e);
        (void)cr_world_run(w, "world_close", meet, NULL);
        cr_beat_stop(w);
        (void)cr_world_run(w, "world_close", end, NULL);
        cr_error_clear();
        cr_error_put(&e);
        end_thread(w);
    }
    free(w->counts);
    cr_retire(w);
}

void cr_world_abort(cr_world *w, int code) {
    if (!w || w->size == 1 || w->process != cr_os_process_id()) { cr_world_close(w); return; }
    cr_job job = {.run = abort_all, .ctx = &code};
    fflush(NULL);
    cr_world_post(w, &job);                         /* its thread may be inside an exchange that never ends */
    cr_os_sleep(0.5);
    cr_os_leave(code);                              /* without MPI_Finalize: the launcher ends the others */
}

/* ---- looking */
bool cr_world_lacks(const char *op, const cr_world *w) {
    if (cr_lacks(op, "the world", w)) return true;
    if (w->process == cr_os_process_id()) return false;
    cr_fail(CR_RUNTIME, op, "the world was opened by process %lld, before this one was forked: open a world after the "
                            "fork, in one of them", (long long)w->process);
    return true;
}

int cr_world_rank(const cr_world *w) { return cr_lacks("world_rank", "the world", w) ? -1 : w->rank; }
int cr_world_size(const cr_world *w) { return cr_lacks("world_size", "the world", w) ? -1 : w->size; }
const char *cr_world_host(const cr_world *w) { return cr_lacks("world_host", "the world", w) ? NULL : w->host; }
const char *cr_world_engine(const cr_world *w) { return cr_lacks("world_engine", "the world", w) ? NULL : w->engine; }
