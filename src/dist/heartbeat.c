/* heartbeat.c - who of a world is alive.  MPI notices neither a process that was stopped nor a host that vanished.
 *
 * Each rank has one TCP connection with rank 0, and says twice a second that it lives, and after which step.  A
 * connection that ends without a farewell, or a silence, is a lost rank: rank 0 tells the others.  From then
 * on calls of the world fail with its name. */
#include "heartbeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/config.h"

enum { ALIVE = 1, LOST, FAREWELL };
static const double every = 0.5, meeting = 10;      /* seconds: between beats; for all to connect */

typedef struct message { int32_t kind, rank; int64_t step; uint64_t secret; } message;

struct cr_beat {
    cr_world *w;
    double patience;
    uint64_t secret;                                /* of this world: a stranger's connection does not know it */
    int n;                                          /* connections: of rank 0 with rank i + 1; else one, with rank 0 */
    int *socket;                                    /* -1: ended with a farewell */
    double *heard;
    int64_t *step;
    size_t *got;                                    /* bytes of a message that has not come whole */
    message *part;
    bool *ready;
    char (*host)[CR_HOST];                          /* of every rank */
    atomic_bool stop;
    cr_thread *thread;
};

static int rank_of(const cr_beat *b, int i) { return b->w->rank ? 0 : i + 1; }

/* ---- a loss */
static void lose(cr_beat *b, int rank, int64_t step, const char *why, bool silent) {
    cr_world *w = b->w;
    char text[sizeof w->loss];
    const int64_t here = atomic_load(&w->step);     /* all ranks took part in it */
    if (here > step) step = here;
    size_t n = (size_t)snprintf(text, sizeof text, "rank %d on %s was lost", rank, b->host[rank]);
    if (step > 0) n += (size_t)snprintf(text + n, sizeof text - n, " after step %lld", (long long)step);
    snprintf(text + n, sizeof text - n, ": %s", why);
    cr_mutex_lock(w->mutex);
    if (!atomic_load(&w->mpi.lost)) memcpy(w->loss, text, sizeof text);
    if (silent) atomic_store(&w->silent, true);
    atomic_store(&w->mpi.lost, true);
    cr_cond_signal_all(w->changed);
    cr_mutex_unlock(w->mutex);
}

static void lose_rank(cr_beat *b, int i, bool silent) {
    char why[64] = "its connection ended";
    const int rank = rank_of(b, i);
    if (silent) snprintf(why, sizeof why, "silent for %.3g s", b->patience);
    lose(b, rank, b->step[i], why, silent);
    cr_os_close_socket(b->socket[i]);
    b->socket[i] = -1;
    const message m = {.kind = LOST, .rank = silent ? -1 - rank : rank, .step = b->step[i], .secret = b->secret};
    for (int k = 0; !b->w->rank && k < b->n; k++)
        if (b->socket[k] >= 0) (void)cr_os_send(b->socket[k], &m, sizeof m);
}

/* ---- beats */
static void take_message(cr_beat *b, int i, const message *m) {
    if (m->secret != b->secret) return;
    b->heard[i] = cr_os_seconds();
    if (m->kind == ALIVE) b->step[i] = m->step;
    if (m->kind == FAREWELL) {
        cr_os_close_socket(b->socket[i]);
        b->socket[i] = -1;
    }
    if (m->kind != LOST || !b->w->rank) return;
    const bool silent = m->rank < 0;
    const int rank = silent ? -1 - m->rank : m->rank;
    if (rank < b->w->size) lose(b, rank, m->step, silent ? "silent" : "its connection ended", silent);
}

static void listen_to(cr_beat *b, int i) {
    while (b->socket[i] >= 0) {
        const int64_t n = cr_os_receive(b->socket[i], (char *)&b->part[i] + b->got[i], sizeof(message) - b->got[i]);
        if (n < 0) lose_rank(b, i, false);
        if (n <= 0) return;
        b->got[i] += (size_t)n;
        if (b->got[i] < sizeof(message)) continue;
        b->got[i] = 0;
        take_message(b, i, &b->part[i]);
    }
}

static void say(cr_beat *b, int kind) {
    const message m = {.kind = kind, .rank = b->w->rank, .step = atomic_load(&b->w->step), .secret = b->secret};
    for (int i = 0; i < b->n; i++)
        if (b->socket[i] >= 0) (void)cr_os_send(b->socket[i], &m, sizeof m);
}

static void send_beats(void *arg) {
    cr_beat *b = arg;
    double said = 0, turn = cr_os_seconds();
    while (!atomic_load(&b->stop)) {
        cr_os_poll(b->n, b->socket, b->ready, every / 2);
        const double now = cr_os_seconds();
        const bool slept = now - turn > b->patience / 2;        /* this process was stopped, not the others */
        turn = now;
        for (int i = 0; i < b->n; i++) {
            if (b->ready[i]) listen_to(b, i);
            if (slept) b->heard[i] = now;
            if (b->socket[i] >= 0 && now - b->heard[i] > b->patience) lose_rank(b, i, true);
        }
        if (now - said < every) continue;
        said = now;
        say(b, ALIVE);
    }
    say(b, FAREWELL);
}

/* ---- meeting */
typedef struct address { char host[CR_HOST]; int64_t port; uint64_t secret; } address;

/* Rank 0: a connection from each rank, which says the secret and its rank. */
static int meet_all(cr_beat *b, int listener) {
    int missing = b->n;
    const double limit = cr_os_seconds() + meeting;
    while (missing && cr_os_seconds() < limit) {
        message m = {0};
        const int fd = cr_os_accept(listener, limit - cr_os_seconds());
        if (fd < 0) continue;
        bool ready;
        cr_os_poll(1, &fd, &ready, 1);
        const bool good = cr_os_receive(fd, &m, sizeof m) == sizeof m && m.secret == b->secret && m.rank >= 1 &&
                          m.rank <= b->n && b->socket[m.rank - 1] < 0;
        if (good) b->socket[m.rank - 1] = fd, missing--;
        else cr_os_close_socket(fd);
    }
    return missing;
}

static int meet_first(cr_beat *b, const address *first) {
    const message m = {.kind = ALIVE, .rank = b->w->rank, .secret = b->secret};
    const bool here = !strcmp(first->host, b->w->host);
    b->socket[0] = cr_os_connect(here ? "localhost" : first->host, (int)first->port, meeting / 2);
    return b->socket[0] < 0 || !cr_os_send(b->socket[0], &m, sizeof m);
}

static bool has_room(cr_beat *b) {
    const size_t n = (size_t)b->n;
    b->socket = malloc(n * sizeof *b->socket);
    b->heard = calloc(n, sizeof *b->heard);
    b->step = calloc(n, sizeof *b->step);
    b->got = calloc(n, sizeof *b->got);
    b->part = calloc(n, sizeof *b->part);
    b->ready = calloc(n, sizeof *b->ready);
    b->host = calloc((size_t)b->w->size, sizeof *b->host);
    for (size_t i = 0; b->socket && i < n; i++) b->socket[i] = -1;
    return b->socket && b->heard && b->step && b->got && b->part && b->ready && b->host;
}

static double patience_of(double asked) {
    const char *text = cr_config("PATIENCE");
    if (asked != 0) return asked;
    if (text && !strcmp(text, "off")) return -1;
    const double v = text ? strtod(text, NULL) : 0;
    return v > 0 ? v : 8;
}

/* Every rank takes part, also one that has no memory or no port: all have beats, or none. */
static cr_status meet(cr_beat *b, bool good) {
    static const char op[] = "world_open";
    cr_world *w = b->w;
    address mine = {.secret = cr_os_entropy()}, *all = calloc((size_t)w->size, sizeof *all);
    int port = 0, listener = w->rank ? -1 : cr_os_listen(&port);
    int32_t missing = !good || (!w->rank && listener < 0), *of = calloc((size_t)w->size, sizeof *of);
    cr_status status = all && of ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", w->size);
    snprintf(mine.host, sizeof mine.host, "%s", w->host);
    mine.port = port;
    if (status == CR_OK) status = cr_world_gather(w, op, &mine, (int64_t)sizeof mine, all);
    if (status == CR_OK && !missing) {
        for (int r = 0; r < w->size; r++) memcpy(b->host[r], all[r].host, CR_HOST);
        b->secret = all[0].secret;
        missing = !all[0].port || (w->rank ? meet_first(b, &all[0]) : meet_all(b, listener));
    }
    if (status == CR_OK) status = cr_world_gather(w, op, &missing, (int64_t)sizeof missing, of);
    for (int r = 0; r < w->size && status == CR_OK && !b->w->alone; r++) {
        if (!of[r]) continue;
        const size_t n = strlen(w->engine);
        snprintf(w->engine + n, sizeof w->engine - n, "; no beats: rank %d and rank 0 cannot connect", r);
        b->w->alone = true;
    }
    cr_os_close_socket(listener);
    free(all);
    free(of);
    return status;
}

cr_status cr_beat_start(cr_world *w, double patience) {
    const double seconds = patience_of(patience);
    if (seconds < 0) return CR_OK;                  /* the option is the same everywhere, as the environment is */
    cr_beat *b = w->beat = calloc(1, sizeof *b);
    if (!b) return cr_fail(CR_NO_MEMORY, "world_open", "no memory for beats");
    b->w = w;
    b->patience = seconds;
    b->n = w->rank ? 1 : w->size - 1;
    cr_status status = meet(b, has_room(b));
    if (status != CR_OK || w->alone) { cr_beat_stop(w); return status; }
    for (int i = 0; i < b->n; i++) b->heard[i] = cr_os_seconds();
    b->thread = cr_thread_start(send_beats, b);
    return b->thread ? CR_OK : cr_fail(CR_NO_MEMORY, "world_open", "no thread for beats could be started");
}

void cr_beat_stop(cr_world *w) {
    cr_beat *b = w->beat;
    if (!b) return;
    w->beat = NULL;
    atomic_store(&b->stop, true);
    if (b->thread) cr_thread_join(b->thread);
    for (int i = 0; b->socket && i < b->n; i++) cr_os_close_socket(b->socket[i]);
    free(b->socket);
    free(b->heard);
    free(b->step);
    free(b->got);
    free(b->part);
    free(b->ready);
    free(b->host);
    free(b);
}
