/* nccl.c - the simulated NCCL: messages between processes of one host, each in the order of its stream.
 *
 * A communicator is a file that all ranks map.  In a group, each rank writes what it sends into its part of the file;
 * all meet; each reads what it receives; all meet again.  As with NCCL's nonblocking communicators, a call only notes
 * what is to be done, and ncclCommGetAsyncError moves on: a caller that records an event before that finds no message
 * in its stream.  Sums begin with another rank each time, so that nothing relies on their order.
 *
 * CUDASIM_FAIL: link (a call fails), message (fails in its turn of the stream), vanish (the process ends there).
 * CUDASIM_PATIENCE: seconds that a message waits; true streams do not hold up the calls that ask for their state. */
#define _GNU_SOURCE
#include "control.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

typedef enum ncclResult_t { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE,
                            REMOTE_ERROR, IN_PROGRESS } ncclResult_t;
typedef struct ncclUniqueId { char internal[128]; } ncclUniqueId;
typedef struct ncclConfig { size_t size; unsigned magic, version; int blocking; } ncclConfig;

enum { RANKS = 16, HEAD = 1 << 16, ITEMS = 1000 };
static const size_t ROOM = (size_t)1 << 30;         /* of a rank; the file has holes */

typedef enum kind { SEND, RECEIVE, BROADCAST, SUM } kind;
typedef struct item { kind kind; int peer, type; uint64_t from, to, bytes; } item;
typedef struct posted { kind kind; int peer; uint64_t at, bytes; } posted;
typedef struct shared {
    atomic_int joined, arrived, sense, aborted, pid[RANKS], count[RANKS];
    posted sent[];                                  /* ITEMS of each rank */
} shared;

typedef struct ncclComm {
    shared *s;
    char *file, name[128];
    int rank, n, sense;
    unsigned sums;
    atomic_int error;
    void *stream;                                   /* of a group that is not in its stream yet; else NULL */
    int items;
    item item[ITEMS];
} *ncclComm_t;

static _Thread_local int depth;
static _Thread_local ncclComm_t grouped;            /* tests have one communicator */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t width(int type) {
    static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return widths[type];
}

static size_t head(int n) { return ((sizeof(shared) + sizeof(posted) * ITEMS * (size_t)n) + HEAD - 1) / HEAD * HEAD; }
static char *part(ncclComm_t c, int rank) { return c->file + head(c->n) + ROOM * (size_t)rank; }

/* ---- ranks */
static int is_dead(int pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 1;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(f);
    return state == 'Z';
}

/* False: a rank is gone, or one has aborted. */
static int meet(ncclComm_t c) {
    const char *limit = getenv("CUDASIM_PATIENCE");
    const double patience = limit ? atof(limit) : 30;
    const int sense = c->sense = !c->sense;
    if (atomic_fetch_add(&c->s->arrived, 1) == c->n - 1) {
        atomic_store(&c->s->arrived, 0);
        atomic_store(&c->s->sense, sense);
    }
    const double begun = now();
    for (double looked = begun; atomic_load(&c->s->sense) != sense; usleep(20)) {
        if (now() - begun > patience) atomic_store(&c->s->aborted, 1);
        if (now() - looked > 0.1) {
            looked = now();
            for (int r = 0; r < c->n; r++)
                if (is_dead(c->s->pid[r])) atomic_store(&c->s->aborted, 1);
        }
        if (atomic_load(&c->s->aborted)) return 0;
    }
    return 1;
}

static void stop(ncclComm_t c, int error) {
    atomic_store(&c->error, error);
    atomic_store(&c->s->aborted, 1);
}

/* ---- a group, in its turn of the stream */
typedef struct group { ncclComm_t c; int items; item item[]; } group;

static void add(void *to, const void *from, uint64_t bytes, int type) {
    if (type == 8) for (uint64_t i = 0; i < bytes / 8; i++) ((double *)to)[i] += ((const double *)from)[i];
    else for (uint64_t i = 0; i < bytes / 4; i++) ((float *)to)[i] += ((const float *)from)[i];
}

/* The k-th message of this kind that a rank has posted for a peer; NULL: there are fewer. */
static const posted *find(ncclComm_t c, int rank, kind what, int peer, int k) {
    const posted *p = &c->s->sent[ITEMS * rank];
    for (int i = 0; i < c->s->count[rank]; i++)
        if (p[i].kind == what && p[i].peer == peer && !k--) return &p[i];
    return NULL;
}

static int post(ncclComm_t c, const group *g) {
    uint64_t at = 0;
    int n = 0;
    for (int i = 0; i < g->items; i++) {
        const item *x = &g->item[i];
        if (x->kind == RECEIVE || (x->kind == BROADCAST && x->peer != c->rank)) continue;
        if (at + x->bytes > ROOM) return 0;
        memcpy(part(c, c->rank) + at, (const void *)(uintptr_t)x->from, x->bytes);
        c->s->sent[ITEMS * c->rank + n++] = (posted){x->kind, x->kind == SEND ? x->peer : 0, at, x->bytes};
        at += x->bytes;
    }
    c->s->count[c->rank] = n;
    return 1;
}

/* Items of one kind and peer meet in their order. */
static int take(ncclComm_t c, const group *g) {
    for (int i = 0; i < g->items; i++) {
        const item *x = &g->item[i];
        if (x->kind == SEND) continue;
        const int first = x->kind == SUM ? (int)(++c->sums % (unsigned)c->n) : x->peer;
        int k = 0;
        for (int j = 0; j < i; j++) k += g->item[j].kind == x->kind && g->item[j].peer == x->peer;
        for (int r = 0; r < (x->kind == SUM ? c->n : 1); r++) {
            const int rank = (first + r) % c->n;
            const posted *p = find(c, rank, x->kind == RECEIVE ? SEND : x->kind, x->kind == RECEIVE ? c->rank : 0, k);
            if (!p || p->bytes != x->bytes) return 0;
            const char *from = part(c, rank) + p->at;
            if (r) add((void *)(uintptr_t)x->to, from, x->bytes, x->type);
            else memcpy((void *)(uintptr_t)x->to, from, x->bytes);
        }
    }
    return 1;
}

static void run(void *payload) {
    const group *g = payload;
    ncclComm_t c = g->c;
    if (atomic_load(&c->error)) return;
    if (cudasim_fails("vanish")) raise(SIGKILL);
    if (cudasim_fails("message")) { stop(c, CUDA_ERROR); return; }
    if (!post(c, g)) { stop(c, INTERNAL_ERROR); return; }
    if (!meet(c)) { stop(c, REMOTE_ERROR); return; }
    if (!take(c, g)) { stop(c, INVALID_USAGE); return; }
    if (!meet(c)) stop(c, REMOTE_ERROR);
}

static int submit(ncclComm_t c) {
    const size_t bytes = sizeof(group) + sizeof(item) * (size_t)c->items;
    group *g = malloc(bytes);
    g->c = c;
    g->items = c->items;
    memcpy(g->item, c->item, sizeof(item) * (size_t)c->items);
    for (int i = 0; i < c->items; i++) {
        const item *x = &c->item[i];
        if ((x->from && !cudasim_allocated(c->stream, (void *)(uintptr_t)x->from, x->bytes)) ||
            (x->to && !cudasim_allocated(c->stream, (void *)(uintptr_t)x->to, x->bytes)))
            return free(g), INVALID_ARGUMENT;
    }
    const int status = cudasim_call(c->stream, "nccl", run, g, bytes, (cudasim_bytes){0});
    free(g);
    c->items = 0;
    c->stream = NULL;
    return status ? CUDA_ERROR : SUCCESS;
}

/* ---- NCCL's functions */
API ncclResult_t ncclGetVersion(int *version) { return *version = 22304, SUCCESS; }

API ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    memset(id, 0, sizeof *id);
    const char *folder = getenv("TMPDIR");
    snprintf(id->internal, sizeof id->internal, "%.80s/nccl-%d-%ld", folder ? folder : "/tmp", getpid(),
             (long)(now() * 1e6));
    return SUCCESS;
}

API ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank, const ncclConfig *config) {
    if (n < 1 || n > RANKS || rank < 0 || rank >= n) return INVALID_ARGUMENT;
    if (config->magic != 0xcafebeef || config->size < 20 || config->version < 21400 || config->blocking)
        return INVALID_USAGE;
    if (cudasim_fails("link")) return SYSTEM_ERROR;
    ncclComm_t c = calloc(1, sizeof *c);
    const size_t bytes = head(n) + ROOM * (size_t)n;
    snprintf(c->name, sizeof c->name, "%s", id.internal);
    const int file = open(c->name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, (off_t)bytes)) return SYSTEM_ERROR;
    c->file = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (c->file == MAP_FAILED) return SYSTEM_ERROR;
    c->s = (shared *)c->file;
    c->rank = rank;
    c->n = n;
    c->s->pid[rank] = getpid();
    if (atomic_fetch_add(&c->s->joined, 1) == n - 1) unlink(c->name);
    *out = c;
    return IN_PROGRESS;
}

API ncclResult_t ncclCommGetAsyncError(ncclComm_t c, int *error) {
    *error = atomic_load(&c->error);
    if (*error) return SUCCESS;
    if (atomic_load(&c->s->joined) < c->n) *error = IN_PROGRESS;
    else if (c->stream) *error = submit(c);
    if (*error && *error != IN_PROGRESS) stop(c, *error);
    return SUCCESS;
}

API ncclResult_t ncclGroupStart(void) { return depth++, SUCCESS; }

API ncclResult_t ncclGroupEnd(void) {
    ncclComm_t c = grouped;
    if (--depth) return depth < 0 ? INVALID_USAGE : SUCCESS;
    grouped = NULL;
    return !c ? SUCCESS : cudasim_fails("link") ? SYSTEM_ERROR : IN_PROGRESS;
}

static ncclResult_t note(ncclComm_t c, void *stream, item x) {
    if (c->items == ITEMS || x.peer < 0 || x.peer >= c->n || !depth) return INVALID_ARGUMENT;
    c->item[c->items++] = x;
    c->stream = stream;
    grouped = c;
    return SUCCESS;
}

API ncclResult_t ncclSend(uint64_t from, size_t n, int type, int peer, ncclComm_t c, void *stream) {
    return note(c, stream, (item){SEND, peer, type, from, 0, n * width(type)});
}
API ncclResult_t ncclRecv(uint64_t to, size_t n, int type, int peer, ncclComm_t c, void *stream) {
    return note(c, stream, (item){RECEIVE, peer, type, 0, to, n * width(type)});
}
API ncclResult_t ncclBroadcast(uint64_t from, uint64_t to, size_t n, int type, int root, ncclComm_t c, void *stream) {
    return note(c, stream, (item){BROADCAST, root, type, from, to, n * width(type)});
}
API ncclResult_t ncclAllReduce(uint64_t from, uint64_t to, size_t n, int type, int op, ncclComm_t c, void *stream) {
    return op ? INVALID_USAGE : note(c, stream, (item){SUM, 0, type, from, to, n * width(type)});
}

API ncclResult_t ncclCommFinalize(ncclComm_t c) { return atomic_load(&c->error) ? INVALID_USAGE : IN_PROGRESS; }
API ncclResult_t ncclCommDestroy(ncclComm_t c) {
    munmap(c->file, head(c->n) + ROOM * (size_t)c->n);
    free(c);
    return SUCCESS;
}
/* Its memory stays: work in the stream reads it, and then does nothing. */
API ncclResult_t ncclCommAbort(ncclComm_t c) { return stop(c, REMOTE_ERROR), SUCCESS; }

API const char *ncclGetErrorString(int error) {
    static const char *const texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                        "invalid argument", "invalid usage",
                                        "remote process exited or there was a network error", "in progress"};
    return texts[error];
}
API const char *ncclGetLastError(ncclComm_t c) { return (void)c, ""; }
