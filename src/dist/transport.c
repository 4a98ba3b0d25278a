/* transport.c - bytes between ranks: MPI for memory of the cpu, the link for that of GPUs.  On the world's thread. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { PIECE = 1 << 24 };                           /* bytes: MPI counts in ints */

int cr_carried(cr_world *w, cr_status status) {
    if (status == CR_OK) return 0;
    for (int i = 0; w->beat && i < 20 && !atomic_load(&w->mpi.lost); i++) cr_os_sleep(0.05);    /* NCCL notices first */
    if (!atomic_load(&w->mpi.lost)) return CR_CARRY_FAILED;
    cr_error_clear();                               /* the world names the rank */
    return CR_MPI_LOST;
}

static const cr_linking *calls(const cr_world *w) { return w->gpu->linking; }

/* ---- memory of the cpu through the GPU */
static cr_storage *stage(cr_world *w, int64_t bytes) { return w->gpu->allocate(w->gpu, (size_t)(bytes ? bytes : 1)); }

static cr_status upload_range(const cr_world *w, cr_storage *to, int64_t at, const void *from, int64_t n) {
    return n ? w->gpu->upload(w->gpu, to, (size_t)at, from, (size_t)n) : CR_OK;
}

static cr_status download_range(const cr_world *w, cr_storage *from, int64_t at, void *to, int64_t n) {
    return n ? w->gpu->download(w->gpu, to, from, (size_t)at, (size_t)n) : CR_OK;
}

static int64_t end_of(const cr_world *w, const cr_range *of) {
    int64_t end = 0;
    for (int r = 0; r < w->size; r++)
        if (of[r].at + of[r].bytes > end) end = of[r].at + of[r].bytes;
    return end;
}

static cr_status exchange_staged(cr_world *w, const char *from, const cr_range *send, char *to,
                                 const cr_range *receive) {
    cr_storage *a = stage(w, end_of(w, send)), *b = a ? stage(w, end_of(w, receive)) : NULL;
    cr_status status = b ? upload_range(w, a, 0, from, end_of(w, send)) : cr_error_status();
    if (status == CR_OK) status = calls(w)->exchange(w->link, a, send, b, receive);
    for (int r = 0; r < w->size && status == CR_OK; r++)
        status = download_range(w, b, receive[r].at, to + receive[r].at, receive[r].bytes);
    if (a) cr_storage_release(a);
    if (b) cr_storage_release(b);
    return status;
}

static cr_status spread_staged(cr_world *w, char *x, const cr_range *of) {
    const cr_range *mine = &of[w->rank];
    cr_storage *s = stage(w, end_of(w, of));
    cr_status status = s ? upload_range(w, s, mine->at, x + mine->at, mine->bytes) : cr_error_status();
    if (status == CR_OK) status = calls(w)->spread(w->link, s, of);
    for (int r = 0; r < w->size && status == CR_OK; r++)
        if (r != w->rank) status = download_range(w, s, of[r].at, x + of[r].at, of[r].bytes);
    if (s) cr_storage_release(s);
    return status;
}

/* ---- arrays */
static int64_t start_of(const cr_array *x) { return x->offset * (int64_t)cr_dtype_size(x->dtype); }

/* Ranges of an array as ranges of its storage. */
static cr_range *moved(cr_world *w, cr_range *to, const cr_range *of, const cr_array *x) {
    for (int r = 0; r < w->size; r++) to[r] = (cr_range){of[r].at + start_of(x), of[r].bytes};
    return to;
}

static void split(const cr_world *w, const cr_range *of, int *counts, int *at) {
    for (int r = 0; r < w->size; r++) {
        counts[r] = (int)of[r].bytes;
        at[r] = (int)of[r].at;
    }
}

int cr_carry_exchange(cr_world *w, const cr_array *from, const cr_range *send, const cr_array *to,
                      const cr_range *receive) {
    if (!from->dev->host) {
        cr_range *out = moved(w, w->ranges, send, from), *in = moved(w, w->ranges + w->size, receive, to);
        return cr_carried(w, calls(w)->exchange(w->link, from->storage, out, to->storage, in));
    }
    if (!w->comm)
        return cr_carried(w, exchange_staged(w, cr_array_data(from), send, cr_array_data(to), receive));
    int *sc = w->counts, *sd = sc + w->size, *rc = sd + w->size, *rd = rc + w->size;
    int64_t bytes = 0;
    for (int r = 0; r < w->size; r++) bytes += send[r].bytes;
    split(w, send, sc, sd);
    split(w, receive, rc, rd);
    const cr_mpi *m = &w->mpi;
    cr_mpi_handle request = 0;
    const int code = m->Ialltoallv(cr_array_data(from), sc, sd, m->byte, cr_array_data(to), rc, rd, m->byte, w->comm,
                                   &request);
    return cr_mpi_wait(m, code, &request, bytes);
}

/* of[r] of rank r's bytes to all */
static int spread_bytes(cr_world *w, void *x, const cr_range *of) {
    if (!w->comm) return cr_carried(w, spread_staged(w, x, of));
    int *counts = w->counts, *at = counts + w->size;
    split(w, of, counts, at);
    const cr_mpi *m = &w->mpi;
    cr_mpi_handle request = 0;
    const int own = counts[w->rank],
              code = m->Iallgatherv(m->in_place, own, m->byte, x, counts, at, m->byte, w->comm, &request);
    return cr_mpi_wait(m, code, &request, own);
}

int cr_carry_spread(cr_world *w, const cr_array *x, const cr_range *of) {
    if (!x->dev->host) return cr_carried(w, calls(w)->spread(w->link, x->storage, moved(w, w->ranges, of, x)));
    return spread_bytes(w, cr_array_data(x), of);
}

static cr_status sum_staged(cr_world *w, const cr_array *x) {
    const int64_t n = x->numel * (int64_t)cr_dtype_size(x->dtype);
    cr_storage *s = stage(w, n);
    cr_status status = s ? upload_range(w, s, 0, cr_array_data(x), n) : cr_error_status();
    if (status == CR_OK) status = calls(w)->sum(w->link, s, (cr_range){0, n}, x->dtype);
    if (status == CR_OK) status = download_range(w, s, 0, cr_array_data(x), n);
    if (s) cr_storage_release(s);
    return status;
}

int cr_carry_sum(cr_world *w, const cr_array *x) {
    const int64_t n = x->numel * (int64_t)cr_dtype_size(x->dtype);
    if (!x->dev->host)
        return cr_carried(w, calls(w)->sum(w->link, x->storage, (cr_range){start_of(x), n}, x->dtype));
    if (!w->comm) return cr_carried(w, sum_staged(w, x));
    const cr_mpi *m = &w->mpi;
    cr_mpi_handle request = 0;
    const int code = m->Iallreduce(m->in_place, cr_array_data(x), (int)x->numel, x->dtype == CR_F64 ? m->f64 : m->f32,
                                   m->sum, w->comm, &request);
    return cr_mpi_wait(m, code, &request, n);
}

/* ---- memory of the cpu */
int cr_carry_broadcast(cr_world *w, void *x, int64_t n, int root) {
    int code = 0;
    if (!w->comm) {
        for (int r = 0; r < w->size; r++) w->ranges[r] = (cr_range){0, r == root ? n : 0};
        return cr_carried(w, spread_staged(w, x, w->ranges));
    }
    for (int64_t at = 0; at < n && !code; at += PIECE) {
        const int some = (int)(n - at < PIECE ? n - at : PIECE);
        cr_mpi_handle request = 0;
        code = w->mpi.Ibcast((char *)x + at, some, w->mpi.byte, root, w->comm, &request);
        code = cr_mpi_wait(&w->mpi, code, &request, some);
    }
    return code;
}

/* mine may lie where it belongs in `all`.  In pieces; rank after rank where `all` is beyond MPI's positions. */
int cr_carry_gather(cr_world *w, const void *mine, int64_t n, void *all) {
    char *own = (char *)all + n * w->rank;
    int code = 0;
    if (w->comm && n <= PIECE && own != mine) {
        const cr_mpi_handle byte = w->mpi.byte;
        cr_mpi_handle request = 0;
        code = w->mpi.Iallgather(mine, (int)n, byte, all, (int)n, byte, w->comm, &request);
        return cr_mpi_wait(&w->mpi, code, &request, n);
    }
    if (own != mine) memcpy(own, mine, (size_t)n);
    const bool beyond = w->comm && n * w->size > INT32_MAX;
    for (int r = 0; r < w->size && beyond && !code; r++) code = cr_carry_broadcast(w, (char *)all + n * r, n, r);
    const int64_t piece = w->comm ? PIECE : n;
    for (int64_t at = 0; at < n && !beyond && !code; at += piece) {
        const int64_t some = n - at < piece ? n - at : piece;
        for (int r = 0; r < w->size; r++) w->ranges[r] = (cr_range){n * r, some};
        code = spread_bytes(w, (char *)all + at, w->ranges);
    }
    return code;
}

int cr_carry_meet(cr_world *w) {
    cr_mpi_handle request = 0;
    if (w->comm) return cr_mpi_wait(&w->mpi, w->mpi.Ibarrier(w->comm, &request), &request, 0);
    char *all = malloc((size_t)w->size);            /* a gather of a byte each is over when all have come */
    if (!all) return cr_carried(w, cr_fail(CR_NO_MEMORY, "barrier", "no memory for %d ranks", w->size));
    const int code = cr_carry_gather(w, "", 1, all);
    free(all);
    return code;
}
