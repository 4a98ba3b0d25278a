/* world.c - a world of processes: opened, closed, and its thread.  MPI_THREAD_SERIALIZED is enough,
 * because one thread of ours makes every call, of MPI and of the link of GPUs. */
#include "world.h"

#include "heartbeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/config.h"

static const char open_op[] = "world_open";

/* ---- the thread */
static int abort_all(cr_world *w, void *code) { return w->comm ? w->mpi.Abort(w->mpi.world, *(int *)code) : 0; }

static void work(void *arg) {
    cr_world *w = arg;
    cr_set_grad_enabled(false);
    cr_mutex_lock(w->mutex);
    for (;;) {
        while (!w->first && !w->stop) cr_cond_wait(w->changed, w->mutex);
        cr_job *job = w->first;
        if (!job) break;
        cr_mutex_unlock(w->mutex);
        const bool lost = atomic_load(&w->mpi.lost) && !job->after_loss;
        int code = lost ? CR_MPI_LOST : job->run(w, job->ctx);
        if (code > 0 && w->mpi.elastic && !job->after_loss) code = cr_elastic_lose(w, code);
        cr_error_take(&job->error);
        cr_error_clear();
        job->code = code;
        if (job->ended) job->ended(w, job);
        cr_mutex_lock(w->mutex);
        w->first = job->next;
        if (!w->first) w->end = &w->first;
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

cr_status cr_world_why(cr_world *w, const cr_job *job, char *text, size_t room) {
    char mpi[1024] = "";
    int n = 0;
    if (job->code == CR_MPI_LOST) {
        cr_mutex_lock(w->mutex);
        snprintf(text, room, "%s", w->loss);
        cr_mutex_unlock(w->mutex);
        return CR_RUNTIME;
    }
    if (job->code == CR_CARRY_FAILED) {
        const char *why = strstr(job->error.message, "] ");
        snprintf(text, room, "rank %d on %s: %s", w->rank, w->host, why ? why + 2 : job->error.message);
        return job->error.status;
    }
    if (!w->mpi.Error_string || w->mpi.Error_string(job->code, mpi, &n)) snprintf(mpi, sizeof mpi, "no text");
    mpi[strcspn(mpi, "\n")] = 0;
    snprintf(text, room, "rank %d on %s: MPI error %d: %.300s", w->rank, w->host, job->code, mpi);
    return CR_RUNTIME;
}

cr_status cr_world_wait(cr_world *w, const char *op, cr_job *job) {
    char text[1024];
    cr_mutex_lock(w->mutex);
    while (!job->done) cr_cond_wait(w->changed, w->mutex);
    cr_mutex_unlock(w->mutex);
    if (!job->code) return CR_OK;
    const cr_status status = cr_world_why(w, job, text, sizeof text);
    return cr_fail(status, op, "%s", text);
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

double cr_world_limit(void) {
    const char *text = cr_config("PATIENCE");
    const double v = text ? strtod(text, NULL) : 0;
    return v > 0 ? 8 * v : 64;
}

/* MPI_Init_thread ends when all ranks have called it.  From then on until the beats begin, only a limit ends the wait
 * for a rank that has failed; where the program called it, its ranks may come here at any time. */
static void limit_opening(cr_world *w) {
    w->mpi.limit = cr_os_seconds() + cr_world_limit();
    snprintf(w->loss, sizeof w->loss, "rank %d on %s: not all ranks have opened the world within %g s (8 x "
                                      "CHAINRULE_PATIENCE); one of them has failed", w->rank, w->host,
             cr_world_limit());
}

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
    if (w->ours) limit_opening(w);
    cr_mpi_handle request = 0;
    code = m->Comm_idup(m->world, &w->comm, &request);
    code = cr_mpi_wait(m, code, &request, 0);
    if (!code) code = m->Comm_set_errhandler(w->comm, m->errors_return);
    if (!code) code = m->Comm_rank(w->comm, &w->rank);
    return code ? code : m->Comm_size(w->comm, &w->size);
}

static int meet(cr_world *w, void *ctx) {
    (void)ctx;
    return w->comm || w->link ? cr_carry_meet(w) : 0;
}

static int end(cr_world *w, void *ctx) {
    (void)ctx;
    if (w->link) w->gpu->linking->close(w->link);
    w->link = NULL;
    if (!w->comm) return 0;
    const int code = w->mpi.Comm_free(&w->comm);
    return !code && w->ours ? w->mpi.Finalize() : code;
}

static cr_status make_room(cr_world *w) {
    w->counts = calloc(4 * (size_t)w->size, sizeof *w->counts);
    w->ranges = calloc(4 * (size_t)w->size, sizeof *w->ranges);
    return w->counts && w->ranges ? CR_OK : cr_fail(CR_NO_MEMORY, open_op, "no memory for %d ranks", w->size);
}

/* The rank among the processes of this host. */
static cr_status find_local(cr_world *w) {
    char (*all)[CR_HOST] = calloc((size_t)w->size, sizeof *all);
    if (!all) return cr_fail(CR_NO_MEMORY, open_op, "no memory for %d ranks", w->size);
    const cr_status status = cr_world_gather(w, open_op, w->host, CR_HOST, all);
    for (int r = 0; r < w->rank && status == CR_OK; r++) w->local += !strcmp(all[r], w->host);
    free(all);
    return status;
}

/* Processes of torchrun: NCCL only. */
static cr_status start_link(cr_world *w, const cr_torchrun *t, double patience) {
    char name[32];
    w->rank = t->rank;
    w->size = t->size;
    w->local = t->local;
    snprintf(name, sizeof name, "cuda:%d", t->local);
    const cr_device *d = cr_device_find(name);
    if (!d) {
        cr_saved_error e;
        cr_error_take(&e);
        cr_error_clear();
        cr_fail(CR_RUNTIME, open_op, "RANK and WORLD_SIZE name %d processes, which need a GPU each (processes without "
                                     "GPUs are started by mpirun); LOCAL_RANK %d: %.200s", t->size, t->local,
                e.message);
    }
    cr_status status = start_thread(w) ? make_room(w) : cr_error_status();
    if (status == CR_OK) status = cr_link_start(w, open_op, d, t);
    return status == CR_OK ? cr_beat_start(w, patience) : status;
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
    static const char *const by[] = {[CR_LAUNCHER_OPENMPI] = "Open MPI's mpirun", [CR_LAUNCHER_PMI] = "PMI",
                                     [CR_LAUNCHER_PMIX] = "PMIx"};
    snprintf(w->engine, sizeof w->engine, "%s, started by %s", w->mpi.name, by[launcher]);
    status = make_room(w);
    if (status == CR_OK && w->size > 1) status = find_local(w);
    if (status == CR_OK && w->size > 1) status = cr_beat_start(w, patience);
    w->mpi.limit = 0;
    return status;
}

static void free_world(cr_world *w) {
    cr_program_free(w->sum);
    free(w->counts);
    free(w->ranges);
    cr_retire(w);
}

cr_world *cr_world_open(const cr_world_options *o) {
    cr_world *w = calloc(1, sizeof *w);
    if (!w) return cr_fail(CR_NO_MEMORY, open_op, "no memory for a world"), NULL;
    w->sum = cr_program_new("sum_of_ranks", "a b", "", "a + b");
    if (!w->sum) return free(w), NULL;
    int rank = 0, size = 0;
    const cr_launcher launcher = o && o->alone ? CR_LAUNCHER_NONE : cr_mpi_launcher(&rank, &size);
    w->size = 1;
    w->process = cr_os_process_id();
    cr_os_host_name(w->host, sizeof w->host);
    snprintf(w->engine, sizeof w->engine, "none");
    cr_torchrun t = {.size = 1};
    const bool torchrun = launcher == CR_LAUNCHER_NONE && !(o && o->alone) && cr_torchrun_is(&t);
    if (torchrun ? t.size == 1 : launcher == CR_LAUNCHER_NONE || size == 1) return w;
    w->rank = rank;                                 /* for messages; MPI says it again */
    const double patience = w->patience = o ? o->patience : 0;
    if ((torchrun ? start_link(w, &t, patience)
                  : start_engine(w, o ? o->library : NULL, launcher, size, patience)) == CR_OK)
        return w;
    cr_beat_stop(w);
    end_thread(w);                                  /* what MPI holds stays: it cannot be begun twice */
    free_world(w);
    return NULL;
}

/* MPI_Finalize of Open MPI may wait for a rank that is gone: then it is left alone. */
static void end_soon(cr_world *w) {
    cr_job *job = malloc(sizeof *job);
    if (!job) { w->stuck = true; return; }
    *job = (cr_job){.run = end, .after_loss = true};
    cr_world_post(w, job);
    bool done = false;
    for (int i = 0; i < 100 && !done; i++) {
        if (i) cr_os_sleep(0.01);
        cr_mutex_lock(w->mutex);
        done = job->done;
        cr_mutex_unlock(w->mutex);
    }
    w->stuck = !done;
    if (done) free(job);
}

void cr_world_close(cr_world *w) {
    if (!w || cr_stale("world_close", "the world", w)) return;
    const bool forked = w->process != cr_os_process_id();
    if (w->stuck) return;                           /* its thread uses it for ever */
    if (w->thread && !forked) {
        cr_saved_error e;
        cr_error_take(&e);
        (void)cr_world_run(w, "world_close", meet, NULL);
        cr_beat_stop(w);
        if (w->shrunk || w->mpi.elastic) end_soon(w);
        else (void)cr_world_run(w, "world_close", end, NULL);
        cr_error_clear();
        cr_error_put(&e);
        if (w->stuck) return;
        end_thread(w);
    }
    free_world(w);
}

void cr_world_abort(cr_world *w, int code) {
    if (!w || w->size == 1 || w->process != cr_os_process_id()) { cr_world_close(w); return; }
    cr_job job = {.run = abort_all, .ctx = &code, .after_loss = true};
    fflush(NULL);
    cr_os_sleep(0.1);                               /* the launcher, which ends all, reads what they have printed */
    /* All ranks know of a rank that is gone.  Each ends itself, because Open MPI's mpirun --with-ft may hang at an
     * abort. */
    const bool each = w->mpi.Comm_agree && atomic_load(&w->mpi.lost);
    if (!each) cr_world_post(w, &job);              /* its thread may be inside an exchange that never ends */
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
int cr_world_local(const cr_world *w) { return cr_lacks("world_local", "the world", w) ? -1 : w->local; }
const char *cr_world_host(const cr_world *w) { return cr_lacks("world_host", "the world", w) ? NULL : w->host; }
const char *cr_world_engine(const cr_world *w) { return cr_lacks("world_engine", "the world", w) ? NULL : w->engine; }
