/* collective.c - the collectives of tensors.  Large tensors go in pieces, because MPI counts in ints. */
#include <stdlib.h>
#include <string.h>

#include "tree.h"
#include "world.h"

enum { PIECE = 1 << 24 };                           /* bytes */

static cr_status check(const char *op, const cr_world *w, const cr_tensor *x, const char *what) {
    if (cr_world_lacks(op, w) || cr_lacks_tensor(op, what, x)) return cr_error_status();
    if (cr_is_none(x)) return cr_fail(CR_BAD_VALUE, op, "%s is CR_NONE, not a tensor", what);
    if (!cr_data(x))
        return cr_fail(CR_BAD_VALUE, op, "%s is on %s: the engine %s sends memory of the cpu", what,
                       cr_device_name(cr_device_of(x)), w->engine);
    if (!cr_is_contiguous(x)) return cr_fail(CR_BAD_VALUE, op, "%s is not contiguous", what);
    return CR_OK;
}

static int64_t bytes_of(const cr_tensor *x) { return cr_numel(x) * (int64_t)cr_dtype_size(cr_dtype_of(x)); }

/* What was computed in memory, written as an in-place op: the version counter sees it. */
static cr_status put(cr_tensor *x, const void *memory) {
    return cr_write(x, cr_dtype_of(x), memory, (size_t)bytes_of(x));
}

static int barrier(cr_world *w, void *ctx) {
    (void)ctx;
    cr_mpi_handle request = 0;
    return cr_mpi_wait(&w->mpi, w->mpi.Ibarrier(w->comm, &request), &request, 0);
}

cr_status cr_barrier(cr_world *w) {
    if (cr_world_lacks("barrier", w)) return cr_error_status();
    return w->size == 1 ? CR_OK : cr_world_run(w, "barrier", barrier, NULL);
}

/* ---- broadcast, gather */
typedef struct move { char *data; const void *mine; int64_t bytes; int root; } move;

static int send_all(cr_world *w, void *ctx) {
    const move *m = ctx;
    int code = 0;
    for (int64_t at = 0; at < m->bytes && !code; at += PIECE) {
        const int n = (int)(m->bytes - at < PIECE ? m->bytes - at : PIECE);
        cr_mpi_handle request = 0;
        code = w->mpi.Ibcast(m->data + at, n, w->mpi.byte, m->root, w->comm, &request);
        code = cr_mpi_wait(&w->mpi, code, &request, n);
    }
    return code;
}

cr_status cr_broadcast_from(cr_world *w, cr_tensor *x, int root) {
    static const char op[] = "broadcast_from";
    cr_status status = check(op, w, x, "x");
    if (status != CR_OK) return status;
    if (root < 0 || root >= w->size)
        return cr_fail(CR_BAD_INDEX, op, "root %d is not a rank of 0 .. %d", root, w->size - 1);
    if (w->size == 1 || !bytes_of(x)) return CR_OK;
    char *copy = malloc((size_t)bytes_of(x));
    if (!copy) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld bytes", (long long)bytes_of(x));
    memcpy(copy, cr_data(x), (size_t)bytes_of(x));
    move m = {.data = copy, .bytes = bytes_of(x), .root = root};
    status = cr_world_run(w, op, send_all, &m);
    if (status == CR_OK && w->rank != root) status = put(x, copy);
    free(copy);
    return status;
}

static int gather_all(cr_world *w, void *ctx) {
    const move *m = ctx;
    if (m->bytes <= PIECE) {
        const int n = (int)m->bytes;
        const cr_mpi_handle byte = w->mpi.byte;
        cr_mpi_handle request = 0;
        const int code = w->mpi.Iallgather(m->mine, n, byte, m->data, n, byte, w->comm, &request);
        return cr_mpi_wait(&w->mpi, code, &request, n);
    }
    memcpy(m->data + m->bytes * w->rank, m->mine, (size_t)m->bytes);
    int code = 0;
    for (int r = 0; r < w->size && !code; r++) {
        move one = {.data = m->data + m->bytes * r, .bytes = m->bytes, .root = r};
        code = send_all(w, &one);
    }
    return code;
}

cr_status cr_world_gather(cr_world *w, const char *op, const void *mine, int64_t n, void *all) {
    move m = {.data = all, .mine = mine, .bytes = n};
    if (w->size > 1) return cr_world_run(w, op, gather_all, &m);
    memcpy(all, mine, (size_t)n);
    return CR_OK;
}

/* out has `times` x the elements of x. */
static cr_status check_pair(const char *op, const cr_world *w, const cr_tensor *x, const cr_tensor *out, bool gathers) {
    cr_status status = check(op, w, x, "x");
    if (status == CR_OK) status = check(op, w, out, "out");
    if (status != CR_OK) return status;
    if (cr_dtype_of(x) != cr_dtype_of(out))
        return cr_fail(CR_BAD_TYPE, op, "x is %s, but out is %s", cr_dtype_name(cr_dtype_of(x)),
                       cr_dtype_name(cr_dtype_of(out)));
    const int64_t one = cr_numel(gathers ? x : out), all = cr_numel(gathers ? out : x);
    if (one * w->size == all) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op, "%s has %lld elements: %lld x %d ranks are expected", gathers ? "out" : "x",
                   (long long)all, (long long)one, w->size);
}

cr_status cr_all_gather(cr_world *w, const cr_tensor *x, cr_tensor *out) {
    static const char op[] = "all_gather";
    cr_status status = check_pair(op, w, x, out, true);
    if (status != CR_OK || !bytes_of(out)) return status;
    char *all = malloc((size_t)bytes_of(out));
    if (!all) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld bytes", (long long)bytes_of(out));
    status = cr_world_gather(w, op, cr_data(x), bytes_of(x), all);
    if (status == CR_OK) status = put(out, all);
    free(all);
    return status;
}

/* ---- sums: one node of the tree for each rank */
static cr_status check_sum(const char *op, const cr_tensor *x) {
    if (cr_dtype_of(x) == CR_F32 || cr_dtype_of(x) == CR_F64) return CR_OK;
    return cr_fail(CR_BAD_TYPE, op, "x is %s: float32 or float64 can be added", cr_dtype_name(cr_dtype_of(x)));
}

struct cr_work {
    cr_world *w;
    cr_tensor *x;                                   /* held; its memory belongs to the job */
    cr_exchange e;                                  /* of the piece that is under way */
    int64_t *cut;
    cr_job job;
};

static void work_free(cr_work *k) {
    if (k->x) cr_drop(k->x);
    free(k->e.receive);
    free(k->cut);
    free(k);
}

/* Piece by piece, each sum in the place of its summand. */
static int add_pieces(cr_world *w, void *ctx) {
    cr_work *k = ctx;
    const int64_t width = (int64_t)cr_dtype_size(k->e.dtype), bytes = bytes_of(k->x);
    int code = 0;
    for (int64_t at = 0; at < bytes && !code; at += PIECE) {
        k->e.n = (bytes - at < PIECE ? bytes - at : PIECE) / width;
        k->e.out = (char *)cr_data(k->x) + at;
        k->e.value[0] = k->e.out;
        cr_exchange_even(k->e.n, w->size, k->cut);
        code = cr_exchange_run(w, &k->e);
    }
    return code;
}

/* The exchange writes into memory: the version counter sees it as an in-place op on one element. */
static cr_status touch(cr_tensor *x) {
    cr_scope_begin();
    cr_tensor *flat = cr_reshape(x, CR_LIST(cr_numel(x))), *one = flat ? cr_slice(flat, 0, 0, 1, 1) : NULL;
    const cr_status status = one ? cr_write(one, cr_dtype_of(x), cr_data(x), cr_dtype_size(cr_dtype_of(x)))
                                 : cr_error_status();
    cr_scope_end();
    return status;
}

static cr_status start_work(cr_work *k, cr_tensor *x) {
    static const char op[] = "all_reduce";
    const int64_t bytes = bytes_of(x), width = (int64_t)cr_dtype_size(cr_dtype_of(x));
    k->x = cr_retain(x);
    if (k->w->size == 1 || !bytes) return CR_OK;
    cr_status status = touch(x);
    if (status != CR_OK) return status;
    k->cut = malloc(((size_t)k->w->size + 1) * sizeof *k->cut);
    if (!k->cut) return cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", k->w->size);
    int64_t send, receive;
    k->e = (cr_exchange){.dtype = cr_dtype_of(x), .leaves = k->w->size, .nodes = 1, .gather = true, .cut = k->cut};
    k->e.n = (bytes < PIECE ? bytes : PIECE) / width;
    cr_exchange_even(k->e.n, k->w->size, k->cut);
    cr_exchange_room(k->w, &k->e, &send, &receive);
    k->e.receive = malloc((size_t)receive + 1);
    if (!k->e.receive) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld bytes", (long long)receive);
    k->job = (cr_job){.run = add_pieces, .ctx = k};
    cr_world_post(k->w, &k->job);
    return CR_OK;
}

cr_work *cr_all_reduce_start(cr_world *w, cr_tensor *x) {
    static const char op[] = "all_reduce";
    if (check(op, w, x, "x") || check_sum(op, x)) return NULL;
    cr_work *k = calloc(1, sizeof *k);
    if (!k) return cr_fail(CR_NO_MEMORY, op, "no memory for a sum"), NULL;
    k->w = w;
    if (start_work(k, x) == CR_OK) return k;
    work_free(k);
    return NULL;
}

cr_status cr_work_wait(cr_work *k) {
    if (!k) return cr_error() ? cr_error_status() : cr_fail_null("work_wait", "the work");
    const cr_status status = k->job.run ? cr_world_wait(k->w, "all_reduce", &k->job) : CR_OK;
    work_free(k);
    return status;
}

cr_status cr_all_reduce(cr_world *w, cr_tensor *x) {
    cr_work *k = cr_all_reduce_start(w, x);
    return k ? cr_work_wait(k) : cr_error_status();
}

/* x: n elements on every rank; this rank's shard of the sum in data. */
static cr_status add_shard(cr_world *w, const char *op, cr_dtype dt, const char *x, int64_t n, char *data) {
    cr_exchange e = {.dtype = dt, .leaves = w->size, .n = n, .nodes = 1, .value = {x}, .out = data, .apart = true};
    int64_t send, receive, *cut = malloc(((size_t)w->size + 1) * sizeof *cut);
    if (!cut) return cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", w->size);
    cr_exchange_even(n, w->size, cut);
    e.cut = cut;
    cr_exchange_room(w, &e, &send, &receive);
    e.receive = malloc((size_t)receive + 1);
    const cr_status status = e.receive ? cr_world_run(w, op, cr_exchange_run, &e)
                                       : cr_fail(CR_NO_MEMORY, op, "no memory for %lld bytes", (long long)receive);
    free(e.receive);
    free(cut);
    return status;
}

cr_status cr_reduce_scatter(cr_world *w, const cr_tensor *x, cr_tensor *out) {
    static const char op[] = "reduce_scatter";
    cr_status status = check_pair(op, w, x, out, false);
    if (status == CR_OK) status = check_sum(op, x);
    if (status != CR_OK || !bytes_of(out)) return status;
    if (w->size == 1) return put(out, cr_data(x));
    if (bytes_of(x) > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, op, "x has %lld bytes: at most 2147483647 in one call", (long long)bytes_of(x));
    char *sum = malloc((size_t)bytes_of(out));
    if (!sum) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld bytes", (long long)bytes_of(out));
    status = add_shard(w, op, cr_dtype_of(x), cr_data(x), cr_numel(x), sum);
    if (status == CR_OK) status = put(out, sum);
    free(sum);
    return status;
}
