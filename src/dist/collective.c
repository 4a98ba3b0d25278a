/* collective.c - the collectives of tensors, which read and write the tensors' own memory.  Large tensors go in pieces,
 * because MPI counts in ints. */
#include <stdlib.h>
#include <string.h>

#include "../core/tree.h"
#include "world.h"

enum { PIECE = 1 << 24 };                           /* bytes */

static bool on_host(const cr_tensor *x) { return x->dev->host; }

static cr_status check_tensor(const char *op, cr_world *w, const cr_tensor *x, const char *what) {
    if (cr_world_lacks(op, w) || cr_lacks_tensor(op, what, x)) return cr_error_status();
    if (cr_is_none(x)) return cr_fail(CR_BAD_VALUE, op, "%s is CR_NONE, not a tensor", what);
    if (!cr_is_contiguous(x)) return cr_fail(CR_BAD_VALUE, op, "%s is not contiguous", what);
    if (cr_await(op, x->storage) != CR_OK) return cr_error_status();
    return on_host(x) || w->size == 1 ? CR_OK : cr_link_start(w, op, cr_device_of(x), NULL);
}

static int64_t bytes_of(const cr_tensor *x) { return cr_numel(x) * (int64_t)cr_dtype_size(cr_dtype_of(x)); }

/* x = from, as an in-place op: the version counter sees it.  They may overlap. */
static cr_status write_result(cr_tensor *x, const cr_tensor *from) {
    if (on_host(x) && x->storage != from->storage)
        return cr_write(x, cr_dtype_of(x), cr_data(from), (size_t)bytes_of(x));
    cr_scope_begin();
    const cr_tensor *same = cr_reshape(cr_detach(from), cr_ndim(x), cr_shape(x));
    const cr_status status = same && cr_copy_(x, same) ? CR_OK : cr_error_status();
    cr_scope_end();
    return status;
}

/* An exchange writes into memory: the version counter sees it as an in-place op on one element. */
static cr_status touch(cr_tensor *x) {
    unsigned char one[16];                          /* an element */
    cr_scope_begin();
    cr_tensor *flat = cr_reshape(x, CR_LIST(cr_numel(x))), *first = flat ? cr_slice(flat, 0, 0, 1, 1) : NULL;
    cr_status status = first ? cr_read(first, cr_dtype_of(x), one, cr_dtype_size(cr_dtype_of(x))) : cr_error_status();
    if (status == CR_OK) status = cr_write(first, cr_dtype_of(x), one, cr_dtype_size(cr_dtype_of(x)));
    cr_scope_end();
    return status;
}

static int barrier(cr_world *w, void *ctx) { return (void)ctx, cr_carry_meet(w); }

cr_status cr_barrier(cr_world *w) {
    if (cr_world_lacks("barrier", w)) return cr_error_status();
    return w->size == 1 ? CR_OK : cr_world_run(w, "barrier", barrier, NULL);
}

/* ---- broadcast, gather */
typedef struct move { void *data; const void *mine; int64_t bytes; int root; } move;

static int send_all(cr_world *w, void *ctx) {
    const move *m = ctx;
    return cr_carry_broadcast(w, m->data, m->bytes, m->root);
}

/* Ranges of an array on a GPU, of each rank, to all. */
typedef struct spreading { const cr_array *x; cr_range *of; } spreading;

static int spread(cr_world *w, void *ctx) {
    const spreading *s = ctx;
    return cr_carry_spread(w, s->x, s->of);
}

/* root's x to all; root -1: of each rank a part of x, one after the other */
static cr_status spread_on_gpu(cr_world *w, const char *op, cr_tensor *x, int root) {
    cr_range *of = calloc((size_t)w->size, sizeof *of);
    if (!of) return cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", w->size);
    const int64_t n = bytes_of(x), each = n / w->size;
    for (int r = 0; r < w->size; r++)
        of[r] = root < 0 ? (cr_range){each * r, each} : (cr_range){0, r == root ? n : 0};
    const cr_status status = cr_world_run(w, op, spread, &(spreading){&x->array, of});
    free(of);
    return status;
}

cr_status cr_broadcast_from(cr_world *w, cr_tensor *x, int root) {
    static const char op[] = "broadcast_from";
    cr_status status = check_tensor(op, w, x, "x");
    if (status != CR_OK) return status;
    if (root < 0 || root >= w->size)
        return cr_fail(CR_BAD_INDEX, op, "root %d is not a rank of 0 .. %d", root, w->size - 1);
    if (w->size == 1 || !bytes_of(x)) return CR_OK;
    if ((status = touch(x)) != CR_OK) return status;
    if (!on_host(x)) return spread_on_gpu(w, op, x, root);
    return cr_world_run(w, op, send_all, &(move){.data = cr_data(x), .bytes = bytes_of(x), .root = root});
}

static int gather_all(cr_world *w, void *ctx) {
    const move *m = ctx;
    return cr_carry_gather(w, m->mine, m->bytes, m->data);
}

cr_status cr_world_gather(cr_world *w, const char *op, const void *mine, int64_t n, void *all) {
    move m = {.data = all, .mine = mine, .bytes = n};
    if (w->size > 1) return cr_world_run(w, op, gather_all, &m);
    memcpy(all, mine, (size_t)n);
    return CR_OK;
}

/* out has `times` x the elements of x. */
static cr_status check_pair(const char *op, cr_world *w, const cr_tensor *x, const cr_tensor *out, bool gathers) {
    cr_status status = check_tensor(op, w, x, "x");
    if (status == CR_OK) status = check_tensor(op, w, out, "out");
    if (status != CR_OK) return status;
    if (cr_dtype_of(x) != cr_dtype_of(out))
        return cr_fail(CR_BAD_TYPE, op, "x is %s, but out is %s", cr_dtype_name(cr_dtype_of(x)),
                       cr_dtype_name(cr_dtype_of(out)));
    if (cr_device_of(x) != cr_device_of(out))
        return cr_fail(CR_BAD_VALUE, op, "x is on %s, but out on %s", cr_device_name(cr_device_of(x)),
                       cr_device_name(cr_device_of(out)));
    const int64_t one = cr_numel(gathers ? x : out), all = cr_numel(gathers ? out : x);
    if (one * w->size == all) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op, "%s has %lld elements: %lld x %d ranks are expected", gathers ? "out" : "x",
                   (long long)all, (long long)one, w->size);
}

cr_status cr_all_gather(cr_world *w, const cr_tensor *x, cr_tensor *out) {
    static const char op[] = "all_gather";
    cr_status status = check_pair(op, w, x, out, true);
    if (status != CR_OK || !bytes_of(out)) return status;
    if (w->size == 1) return write_result(out, x);
    if ((status = touch(out)) != CR_OK) return status;
    if (on_host(x)) {                               /* x may be a part of out */
        char *own = (char *)cr_data(out) + bytes_of(x) * w->rank;
        memmove(own, cr_data(x), (size_t)bytes_of(x));
        return cr_world_gather(w, op, own, bytes_of(x), cr_data(out));
    }
    cr_scope_begin();
    cr_tensor *flat = cr_reshape(out, CR_LIST(cr_numel(out))),
              *mine = flat ? cr_slice(flat, 0, cr_numel(x) * w->rank, cr_numel(x) * (w->rank + 1), 1) : NULL;
    status = mine ? write_result(mine, x) : cr_error_status();
    cr_scope_end();
    return status == CR_OK ? spread_on_gpu(w, op, out, -1) : status;
}

/* ---- sums: one node of the tree for each rank */
static cr_status check_sum(const char *op, const cr_tensor *x) {
    if (cr_dtype_is_float(cr_dtype_of(x))) return CR_OK;
    return cr_fail(CR_BAD_TYPE, op, "x is %s: only floats can be added", cr_dtype_name(cr_dtype_of(x)));
}

struct cr_work {
    cr_world *w;
    cr_tensor *x, *send, *receive;                  /* x: held; its memory belongs to the job */
    cr_exchange e;                                  /* of the piece that is under way */
    int64_t *cut;
    cr_job job;
};

static void work_free(cr_work *k) {
    cr_drop(k->x);
    cr_drop(k->send);
    cr_drop(k->receive);
    free(k->cut);
    free(k);
}

/* Piece by piece, each sum in the memory of its summand. */
static int add_pieces(cr_world *w, void *ctx) {
    cr_work *k = ctx;
    const int64_t width = (int64_t)cr_dtype_size(k->e.dtype), bytes = bytes_of(k->x);
    int code = 0;
    for (int64_t at = 0; at < bytes && !code; at += PIECE) {
        k->e.n = (bytes - at < PIECE ? bytes - at : PIECE) / width;
        k->e.out = k->e.value[0] = cr_array_range(&k->x->array, at / width, k->e.n);
        cr_exchange_even(k->e.n, w->size, k->cut);
        code = cr_exchange_run(w, &k->e);
    }
    return code;
}

/* Room of an exchange, which the caller drops. */
static cr_status make_room(const cr_world *w, cr_exchange *e, cr_tensor **send, cr_tensor **receive) {
    int64_t out, in;
    cr_exchange_room(w, e, &out, &in);
    cr_scope_begin();
    cr_tensor *a = cr_empty(CR_LIST(out), e->dtype, e->out.dev),
              *b = a ? cr_empty(CR_LIST(in), e->dtype, e->out.dev) : NULL;
    *send = b ? cr_retain(a) : NULL;
    *receive = b ? cr_retain(b) : NULL;
    cr_scope_end();
    if (!b) return cr_error_status();
    e->send = (*send)->array;
    e->receive = (*receive)->array;
    return CR_OK;
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
    k->e = (cr_exchange){.dtype = cr_dtype_of(x), .leaves = k->w->size, .nodes = 1, .gather = true, .cut = k->cut,
                         .out = x->array};
    k->e.n = (bytes < PIECE ? bytes : PIECE) / width;
    cr_exchange_even(k->e.n, k->w->size, k->cut);
    status = make_room(k->w, &k->e, &k->send, &k->receive);
    if (status != CR_OK) return status;
    k->job = (cr_job){.run = add_pieces, .ctx = k};
    cr_world_post(k->w, &k->job);
    return CR_OK;
}

cr_work *cr_all_reduce_start(cr_world *w, cr_tensor *x) {
    static const char op[] = "all_reduce";
    if (check_tensor(op, w, x, "x") || check_sum(op, x)) return NULL;
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

/* This rank's shard of the sum of x, in out. */
static cr_status add_shard(cr_world *w, const char *op, const cr_tensor *x, cr_tensor *out) {
    int64_t *cut = malloc(((size_t)w->size + 1) * sizeof *cut);
    if (!cut) return cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", w->size);
    cr_exchange e = {.dtype = cr_dtype_of(x), .leaves = w->size, .n = cr_numel(x), .nodes = 1, .value = {x->array},
                     .out = out->array, .apart = true, .cut = cut};
    cr_tensor *send = NULL, *receive = NULL;
    cr_exchange_even(e.n, w->size, cut);
    cr_status status = make_room(w, &e, &send, &receive);
    if (status == CR_OK) status = cr_world_run(w, op, cr_exchange_run, &e);
    cr_drop(send);
    cr_drop(receive);
    free(cut);
    return status;
}

cr_status cr_reduce_scatter(cr_world *w, const cr_tensor *x, cr_tensor *out) {
    static const char op[] = "reduce_scatter";
    cr_status status = check_pair(op, w, x, out, false);
    if (status == CR_OK) status = check_sum(op, x);
    if (status != CR_OK || !bytes_of(out)) return status;
    if (w->size == 1) return write_result(out, x);
    if (bytes_of(x) > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, op, "x has %lld bytes: at most 2147483647 in one call", (long long)bytes_of(x));
    const bool apart = out->storage != x->storage;
    cr_scope_begin();
    cr_tensor *sum = apart ? out : cr_empty(CR_LIST(cr_numel(out)), cr_dtype_of(x), cr_device_of(x));
    status = !sum ? cr_error_status() : apart ? touch(out) : CR_OK;
    if (status == CR_OK) status = add_shard(w, op, x, sum);
    if (status == CR_OK && !apart) status = write_result(out, sum);
    cr_scope_end();
    return status;
}
