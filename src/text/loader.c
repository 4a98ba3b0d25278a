/* loader.c - batches of windows from a token sequence.  Their order is a function of (seed, cursor)
 * only, so seeking is exact and a resumed run sees the batches of an uninterrupted one.  A thread
 * prepares the next batch while the caller computes.
 *
 * An epoch cuts the sequence into windows of context + 1 tokens whose starts are context apart, so
 * that each token is a target once. In order: from token 0 on.  Shuffled: from an offset below context
 * that differs from epoch to epoch, so a token gets different contexts, and in a permuted order.  An
 * epoch skips the tokens before the offset and the last incomplete window or batch; other epochs
 * include them.  Every epoch has the same number of windows. */
#include <chainrule.h>

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "tokens.h"

struct cr_loader {
    cr_tokens *tokens;
    cr_loader_options o;
    int64_t windows, slack, batches;                /* in an epoch; offsets are in [0, slack] */
    int64_t cursor;                                 /* batches given so far */
    int64_t *x, *y, *row;                           /* (B, T), (B, T), (T + 1) on the host */

    cr_mutex *mutex;                                /* guards the fields below */
    cr_cond *changed;
    cr_thread *thread;                              /* NULL: not started, or it failed to start: the caller fills */
    int64_t process;                                /* process of the thread: a forked child has none */
    int64_t wanted, ready;                          /* batch numbers, -1: none; x and y belong to the thread while
                                                     * they differ */
    int64_t bad;                                    /* position of a token outside the vocabulary in the ready batch,
                                                     * or -1 */
    bool started, stop;
};

cr_loader_options cr_loader_defaults(void) {
    return (cr_loader_options){.batch = 8, .context = 64, .seed = 0, .shuffle = true, .device = cr_default_device()};
}

/* ---- the order ---- */
static uint64_t mix_bits(uint64_t x) {                   /* splitmix64's finaliser (Steele, Lea, Flood 2014) */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t round_key(uint64_t seed, uint64_t epoch, uint64_t use) {
    return mix_bits(mix_bits(mix_bits(seed + 0x9e3779b97f4a7c15u) + epoch) + use * 0x9e3779b97f4a7c15u);
}

/* The position of i in a random permutation of [0, n): a Feistel network over the next even number of
 * bits, repeated until the result is below n (Black and Rogaway 2002). */
static int64_t permute(int64_t i, int64_t n, uint64_t seed, uint64_t epoch) {
    enum { ROUNDS = 6 };
    int half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < n) half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t v = (uint64_t)i;
    do {
        uint64_t left = v >> half, right = v & mask;
        for (uint64_t r = 0; r < ROUNDS; r++) {
            const uint64_t next = left ^ (mix_bits(right ^ round_key(seed, epoch, r + 1)) & mask);
            left = right;
            right = next;
        }
        v = left << half | right;
    } while (v >= (uint64_t)n);
    return (int64_t)v;
}

static int64_t window_start(const cr_loader *l, int64_t epoch, int64_t i) {
    if (!l->o.shuffle) return i * l->o.context;
    const int64_t offset = (int64_t)(round_key(l->o.seed, (uint64_t)epoch, 0) % (uint64_t)(l->slack + 1));
    return offset + permute(i, l->windows, l->o.seed, (uint64_t)epoch) * l->o.context;
}

/* Fills x and y with batch number `cursor`; the position of a bad token, or -1. */
static int64_t fill_batch(cr_loader *l, int64_t cursor) {
    const int64_t T = l->o.context, epoch = cursor / l->batches, first = cursor % l->batches * l->o.batch;
    for (int64_t b = 0; b < l->o.batch; b++) {
        const int64_t bad = cr_tokens_fetch(l->tokens, window_start(l, epoch, first + b), T + 1, l->row);
        if (bad >= 0) return bad;
        memcpy(l->x + b * T, l->row, (size_t)T * sizeof *l->row);
        memcpy(l->y + b * T, l->row + 1, (size_t)T * sizeof *l->row);
    }
    return -1;
}

/* ---- making ---- */
static cr_status check_options(const char *op, const cr_tokens *t, const cr_loader_options *o) {
    if (cr_lacks(op, "the tokens", t)) return cr_error_status();
    if (!o) return cr_fail_null(op, "the options");
    if (!o->device) return cr_fail_null(op, "the device");
    if (o->batch < 1) return cr_fail(CR_BAD_VALUE, op, "batch must be at least 1, not %lld", (long long)o->batch);
    if (o->context < 1) return cr_fail(CR_BAD_VALUE, op, "context must be at least 1, not %lld", (long long)o->context);
    if (o->context > INT64_MAX / 32 / o->batch)
        return cr_fail(CR_BAD_VALUE, op, "a batch of %lld windows of %lld tokens is beyond memory", (long long)o->batch,
                       (long long)o->context);
    return CR_OK;
}

/* Windows per epoch: as many as fit; if shuffled, as many as fit after every offset, but at least one if one fits. */
static cr_status plan_batches(const char *op, cr_loader *l) {
    const int64_t T = l->o.context, targets = cr_tokens_count(l->tokens) - 1, lost = l->o.shuffle ? T - 1 : 0;
    if (targets < T)
        return cr_fail(CR_BAD_VALUE, op, "%lld tokens are too few: a window of context %lld takes %lld",
                       (long long)targets + 1, (long long)T, (long long)T + 1);
    l->windows = targets - lost < T ? 1 : (targets - lost) / T;
    l->slack = !l->o.shuffle ? 0 : targets - l->windows * T < T - 1 ? targets - l->windows * T : T - 1;
    l->batches = l->windows / l->o.batch;
    if (l->batches) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op,
                   "%lld tokens are too few: they give %lld windows of context %lld, and a batch takes %lld",
                   (long long)targets + 1, (long long)l->windows, (long long)T, (long long)l->o.batch);
}

cr_loader *cr_loader_new(const cr_tokens *t, const cr_loader_options *o) {
    static const char op[] = "loader_new";
    if (check_options(op, t, o)) return NULL;
    cr_loader *l = calloc(1, sizeof *l);
    if (!l) return cr_fail(CR_NO_MEMORY, op, "no memory for a loader"), NULL;
    l->o = *o;
    l->wanted = l->ready = l->bad = -1;
    l->tokens = cr_tokens_slice(t, 0, cr_tokens_count(t));
    if (!l->tokens || plan_batches(op, l)) { cr_loader_free(l); return NULL; }
    const size_t bytes = (size_t)(o->batch * o->context) * sizeof *l->x;
    l->x = malloc(bytes);
    l->y = malloc(bytes);
    l->row = malloc((size_t)(o->context + 1) * sizeof *l->row);
    l->mutex = cr_mutex_new();
    l->changed = cr_cond_new();
    if (l->x && l->y && l->row && l->mutex && l->changed) return l;
    cr_fail(CR_NO_MEMORY, op, "no memory for batches of %lld windows of %lld tokens", (long long)o->batch,
            (long long)o->context);
    cr_loader_free(l);
    return NULL;
}

void cr_loader_free(cr_loader *l) {
    if (!l || cr_stale("loader_free", "the loader", l)) return;
    /* its lock and condition may be in any state, so they are leaked */
    const bool forked = l->thread && l->process != cr_os_process_id();
    if (l->thread && !forked) {
        cr_mutex_lock(l->mutex);
        l->stop = true;
        cr_cond_signal_all(l->changed);
        cr_mutex_unlock(l->mutex);
        cr_thread_join(l->thread);
    }
    if (l->changed && !forked) cr_cond_free(l->changed);
    if (l->mutex && !forked) cr_mutex_free(l->mutex);
    cr_tokens_free(l->tokens);
    free(l->x);
    free(l->y);
    free(l->row);
    cr_retire(l);
}

/* ---- the thread ---- */
static void prepare_batch(void *arg) {
    cr_loader *l = arg;
    cr_mutex_lock(l->mutex);
    while (!l->stop) {
        if (l->wanted == l->ready) { cr_cond_wait(l->changed, l->mutex); continue; }
        const int64_t cursor = l->wanted;
        l->ready = -1;
        cr_mutex_unlock(l->mutex);
        const int64_t bad = fill_batch(l, cursor);
        cr_mutex_lock(l->mutex);
        l->ready = cursor;
        l->bad = bad;
        cr_cond_signal_all(l->changed);
    }
    cr_mutex_unlock(l->mutex);
}

static void request_batch(cr_loader *l, int64_t cursor) {    /* lock held */
    if (l->wanted == cursor) return;
    l->wanted = cursor;
    cr_cond_signal_all(l->changed);
}

/* Waits until x and y hold batch `cursor`; they keep it until the next request_batch(). */
static int64_t await_batch(cr_loader *l) {
    if (!l->started) {
        l->started = true;
        l->process = cr_os_process_id();
        l->thread = cr_thread_start(prepare_batch, l);
    }
    if (!l->thread || l->process != cr_os_process_id()) return fill_batch(l, l->cursor);
    cr_mutex_lock(l->mutex);
    request_batch(l, l->cursor);
    while (l->ready != l->cursor) cr_cond_wait(l->changed, l->mutex);
    const int64_t bad = l->bad;
    cr_mutex_unlock(l->mutex);
    return bad;
}

cr_status cr_loader_next(cr_loader *l, cr_tensor **x, cr_tensor **y) {
    static const char op[] = "loader_next";
    if (cr_lacks(op, "the loader", l)) return cr_error_status();
    if (!x || !y) return cr_fail_null(op, x ? "y" : "x");
    *x = *y = NULL;
    const int64_t bad = await_batch(l);
    if (bad >= 0)
        return cr_fail(CR_BAD_VALUE, op, "the token at %lld is not below the vocabulary of %lld", (long long)bad,
                       (long long)cr_tokens_vocabulary(l->tokens));
    cr_tensor *a = cr_from(l->x, CR_LIST(l->o.batch, l->o.context), CR_I64, l->o.device);
    cr_tensor *b = a ? cr_from(l->y, CR_LIST(l->o.batch, l->o.context), CR_I64, l->o.device) : NULL;
    if (!b) { cr_release(a); return cr_error_status(); }
    l->cursor++;
    if (l->thread && l->process == cr_os_process_id()) {
        cr_mutex_lock(l->mutex);
        request_batch(l, l->cursor);
        cr_mutex_unlock(l->mutex);
    }
    *x = a;
    *y = b;
    return CR_OK;
}

/* ---- position ---- */
int64_t cr_loader_cursor(const cr_loader *l) { return cr_lacks("loader_cursor", "the loader", l) ? -1 : l->cursor; }
int64_t cr_loader_batches(const cr_loader *l) { return cr_lacks("loader_batches", "the loader", l) ? -1 : l->batches; }

cr_status cr_loader_seek(cr_loader *l, int64_t cursor) {
    if (cr_lacks("loader_seek", "the loader", l)) return cr_error_status();
    if (cursor < 0)
        return cr_fail(CR_BAD_INDEX, "loader_seek", "the cursor must be at least 0, not %lld", (long long)cursor);
    l->cursor = cursor;
    return CR_OK;
}
