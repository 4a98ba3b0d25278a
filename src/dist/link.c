/* link.c - the link of a world's GPUs: who has which GPU, the key of the link to all, then its opening.
 *
 * Ranks of MPI tell each other by MPI.  Ranks that torchrun or `chainrule train --gpus` started meet at rank 0 by a
 * socket: at MASTER_PORT + 1, because torchrun itself keeps MASTER_PORT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

typedef struct hello {                              /* of every rank */
    char magic[16];
    int32_t rank, size, good;
    unsigned char gpu[CR_GPU_ID];
    char host[CR_HOST], device[32], library[32];
} hello;

typedef struct answer {                             /* of rank 0 */
    char magic[16];
    int32_t good;
    unsigned char key[CR_LINK_KEY];
    char text[600];
} answer;

static const char magic[16] = "chainrule link";

/* ---- what a launcher says */
static bool number_of(const char *name, int most, int *value) {
    const char *text = getenv(name);
    char *end = NULL;
    const long v = text ? strtol(text, &end, 10) : -1;
    if (!text || !*text || *end || v < 0 || v > most) return false;
    *value = (int)v;
    return true;
}

bool cr_torchrun_is(cr_torchrun *t) {
    t->address = getenv("MASTER_ADDR");
    return t->address && *t->address && number_of("WORLD_SIZE", 1 << 24, &t->size) && t->size > 0 &&
           number_of("RANK", t->size - 1, &t->rank) && number_of("MASTER_PORT", 65534, &t->port) &&
           (number_of("LOCAL_RANK", 1 << 24, &t->local) || t->size == 1);
}

/* ---- do the ranks fit together? */
static hello greet(cr_world *w, const cr_device *d, cr_saved_error *why) {
    hello h = {.rank = w->rank, .size = w->size};
    memcpy(h.magic, magic, sizeof magic);
    snprintf(h.host, sizeof h.host, "%s", w->host);
    snprintf(h.device, sizeof h.device, "%s", d ? d->name : "");
    const char *library = d && d->linking ? d->linking->name(d) : NULL;
    if (d && !d->linking) cr_fail(CR_BAD_VALUE, "link", "%s: devices of this kind cannot be linked with those of other "
                                                   "processes; cpu and cuda can", d->name);
    h.good = library && d->linking->gpu(d, h.gpu) == CR_OK;
    if (library) snprintf(h.library, sizeof h.library, "%s", library);
    cr_error_take(why);
    cr_error_clear();
    return h;
}

/* False: text says what does not fit. */
static bool ranks_agree(const hello *all, int size, char *text, size_t room) {
    for (int r = 0; r < size; r++) {
        const hello *h = &all[r];
        if (!h->good)
            return snprintf(text, room, "rank %d on %s cannot be linked, and says why", r, h->host), false;
        if (strcmp(h->library, all[0].library) != 0)
            return snprintf(text, room, "rank %d on %s has %s, but rank 0 %s", r, h->host, h->library,
                            all[0].library), false;
        for (int k = 0; k < r; k++)
            if (!strcmp(all[k].host, h->host) && !memcmp(all[k].gpu, h->gpu, CR_GPU_ID))
                return snprintf(text, room, "ranks %d and %d on %s have the same GPU, %s: each rank needs one of its "
                                            "own (chainrule train --device gpu takes it; in programs, "
                                            "\"cuda:LOCAL_RANK\"), so start at most as many processes as the host has "
                                            "GPUs", k, r, h->host, h->device), false;
    }
    return true;
}

static answer answer_to(const cr_world *w, const cr_device *d, const hello *all) {
    answer a = {0};
    memcpy(a.magic, magic, sizeof magic);
    if (!ranks_agree(all, w->size, a.text, sizeof a.text)) return a;
    a.good = d->linking->key(d, a.key) == CR_OK;
    if (!a.good) snprintf(a.text, sizeof a.text, "%.500s", cr_error());
    cr_error_clear();
    return a;
}

/* ---- over MPI */
static cr_status meet_by_mpi(cr_world *w, const char *op, const cr_device *d, const hello *mine, answer *a) {
    hello *all = calloc((size_t)w->size, sizeof *all);
    answer *answers = calloc((size_t)w->size, sizeof *answers);
    cr_status status = all && answers ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", w->size);
    if (status == CR_OK) status = cr_world_gather(w, op, mine, (int64_t)sizeof *mine, all);
    if (status == CR_OK && !w->rank) *a = answer_to(w, d, all);
    if (status == CR_OK) status = cr_world_gather(w, op, a, (int64_t)sizeof *a, answers);
    if (status == CR_OK) *a = answers[0];
    free(all);
    free(answers);
    return status;
}

/* ---- over sockets */
static bool read_all(int fd, void *to, size_t n, double limit) {
    for (size_t got = 0; got < n;) {
        bool ready;
        const double left = limit - cr_os_seconds();
        if (left <= 0) return false;
        cr_os_poll(1, &fd, &ready, left < 0.1 ? left : 0.1);
        const int64_t some = ready ? cr_os_receive(fd, (char *)to + got, n - got) : 0;
        if (some < 0) return false;
        got += (size_t)some;
    }
    return true;
}

static int missing_of(const hello *all, int size, int *first) {
    int n = 0;
    for (int r = size - 1; r > 0; r--)
        if (!all[r].magic[0]) n++, *first = r;
    return n;
}

/* A stranger's connection is closed. */
static void take_hello(int fd, int size, hello *all, int *sockets, double limit) {
    hello h;
    const double soon = cr_os_seconds() + 5;
    const bool good = read_all(fd, &h, sizeof h, soon < limit ? soon : limit) &&
                      !memcmp(h.magic, magic, sizeof magic) && h.size == size && h.rank > 0 && h.rank < size &&
                      !all[h.rank].magic[0];
    if (!good) { cr_os_close_socket(fd); return; }
    h.host[CR_HOST - 1] = h.device[sizeof h.device - 1] = h.library[sizeof h.library - 1] = 0;
    all[h.rank] = h;
    sockets[h.rank] = fd;
}

static cr_status receive_hellos(const cr_world *w, const char *op, int port, hello *all, int *sockets) {
    const double limit = cr_os_seconds() + cr_world_limit();
    int listener = cr_os_listen(&port), first = 0, missing;
    if (listener < 0)
        return cr_fail(CR_RUNTIME, op, "rank 0 cannot listen at port %d (MASTER_PORT + 1): %s", port, cr_os_error());
    while ((missing = missing_of(all, w->size, &first)) && cr_os_seconds() < limit) {
        const int fd = cr_os_accept(listener, limit - cr_os_seconds());
        if (fd >= 0) take_hello(fd, w->size, all, sockets, limit);
    }
    cr_os_close_socket(listener);
    if (!missing) return CR_OK;
    return cr_fail(CR_RUNTIME, op,
                   "%d of %d ranks have not connected to port %d within %g s, the first of them rank %d",
                   missing, w->size, port, cr_world_limit(), first);
}

static cr_status meet_all(const cr_world *w, const char *op, const cr_device *d, int port, const hello *mine,
                          answer *a) {
    hello *all = calloc((size_t)w->size, sizeof *all);
    int *sockets = malloc((size_t)w->size * sizeof *sockets);
    cr_status status = all && sockets ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", w->size);
    for (int r = 0; r < w->size && status == CR_OK; r++) sockets[r] = -1;
    if (status == CR_OK) {
        all[0] = *mine;
        status = receive_hellos(w, op, port, all, sockets);
    }
    if (status == CR_OK) *a = answer_to(w, d, all);
    for (int r = 1; r < w->size && sockets; r++) {
        if (status == CR_OK) (void)cr_os_send(sockets[r], a, sizeof *a);
        cr_os_close_socket(sockets[r]);
    }
    free(all);
    free(sockets);
    return status;
}

static cr_status meet_first(const cr_torchrun *t, const char *op, const hello *mine, answer *a) {
    const int port = t->port + 1;
    const double limit = cr_os_seconds() + cr_world_limit();
    int fd;
    while ((fd = cr_os_connect(t->address, port, 2)) < 0 && cr_os_seconds() < limit) cr_os_sleep(0.05);
    if (fd < 0)
        return cr_fail(CR_RUNTIME, op, "rank %d cannot connect to rank 0 at %s, port %d (MASTER_ADDR, MASTER_PORT + 1) "
                                       "within %g s: %s", t->rank, t->address, port, cr_world_limit(), cr_os_error());
    const bool good = cr_os_send(fd, mine, sizeof *mine) && read_all(fd, a, sizeof *a, limit + cr_world_limit()) &&
                      !memcmp(a->magic, magic, sizeof magic);
    cr_os_close_socket(fd);
    if (!good)
        return cr_fail(CR_RUNTIME, op, "rank 0 at %s, port %d has not answered rank %d: another program listens there, "
                                       "or not all ranks have connected", t->address, port, t->rank);
    a->text[sizeof a->text - 1] = 0;
    return CR_OK;
}

/* ---- opening */
typedef struct opening { const cr_device *d; const unsigned char *key; } opening;

static int open_link(cr_world *w, void *ctx) {
    const opening *o = ctx;
    w->link = o->d->linking->open(o->d, o->key, w->rank, w->size, &w->mpi.lost, cr_world_limit());
    return w->link ? 0 : cr_carried(w, cr_error_status());
}

cr_status cr_link_start(cr_world *w, const char *op, const cr_device *d, const cr_torchrun *t) {
    if (d && w->gpu == d) return CR_OK;
    if (w->gpu)
        return cr_fail(CR_BAD_VALUE, op, "rank %d works together with others on %s, not on %s", w->rank, w->gpu->name,
                       d->name);
    cr_saved_error why;
    answer a = {0};
    const hello mine = greet(w, d, &why);
    cr_status status = !t        ? meet_by_mpi(w, op, d, &mine, &a)
                       : t->rank ? meet_first(t, op, &mine, &a)
                                 : meet_all(w, op, d, t->port + 1, &mine, &a);
    if (!mine.good) {                               /* also where the others have not come */
        const char *text = strstr(why.message, "] ");
        cr_error_clear();
        return cr_fail(CR_RUNTIME, op, "%s", text ? text + 2 : why.message);
    }
    if (status != CR_OK) return status;
    if (!a.good) {
        cr_os_sleep(0.3);                           /* a launcher names the rank that ends first: one that knows why */
        return cr_fail(CR_RUNTIME, op, "%s", a.text);
    }
    w->gpu = d;
    status = cr_world_run(w, op, open_link, &(opening){d, a.key});
    if (status != CR_OK) { w->gpu = NULL; return status; }
    if (w->shrunk) return CR_OK;                    /* as before */
    const size_t n = w->comm ? strlen(w->engine) : 0;
    snprintf(w->engine + n, sizeof w->engine - n, "%s%s on %s", n ? "; " : "", mine.library, d->name);
    return CR_OK;
}
