/* order.c - sort, topk, one element of an order, search in sorted rows, runs of equal rows.
 *
 * Elements become unsigned keys (order.h), so that one path serves every dtype.  Rows are sorted by
 * radix sort, lowest digit first (Knuth 5.2.5).  An element's key, minus the smallest key of the row,
 * and its position share one word; digits in which no keys of the row differ are skipped.  If both do
 * not fit a word, the low bits of the keys are sorted first, then the high bits.  Short rows are
 * ranked instead; topk and kth move only the candidates. Threads share a long row by blocks, or take
 * whole rows.  Every step is stable, so the result does not depend on the cut. Limited by the
 * scattered writes. */
#include "isa.h"
#include "order.h"
#include "../../core/pool.h"

#include <string.h>

enum {
    PIECE = 256,                                    /* keys computed at a time, on the stack */
    SCAN = 64,                                      /* the same in a search that rejects almost all of them */
    FEW = CR_RANKED,                                /* at most so many elements are ranked */
    LONG = 1 << 15,                                 /* elements of a row that all threads work on */
    DIGIT = 11,                                     /* bits: the counts of a block stay in the first-level cache */
    MOST_BLOCKS = 32
};

static int bits_of(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }

typedef struct row {
    const struct cr_orders *k;
    cr_dtype dtype;
    const char *x;
    int64_t n;
    uint64_t flip;                                  /* all ones: descending */
    int64_t block, blocks;                          /* elements of a block; number of blocks */
    int position_bits, most_bits;                   /* bits of a position; of a digit at most */
    uint64_t *from, *to;                            /* n words: (key - lowest) << position_bits | position */
    uint64_t *counts;                               /* (blocks, digits): how many, then where the next one goes */
    uint64_t ranges[MOST_BLOCKS][2], lowest;
    int done, shift, digit;                         /* bits of the keys that are sorted; the current digit: its first
                                                     * bit and width */
    char *values; int64_t *index; int64_t wanted;   /* results: the first `wanted` elements */
    uint64_t prefix; int64_t held[MOST_BLOCKS];     /* kth: candidates are keys with (key - lowest) >> shift ==
                                                     * prefix; held: how many each block has */
    uint64_t candidate[FEW]; int64_t at[FEW];
} row;

/* A row of n elements, without its data.  One block: one thread sorts the row. */
static row row_of(cr_dtype dt, int64_t n, bool descending) {
    row r = {.k = cr_cpu_vec()->orders,
             .dtype = dt,
             .n = n,
             .flip = descending ? UINT64_MAX : 0,
             .position_bits = bits_of((uint64_t)n - 1)};
    r.blocks = n < LONG ? 1 : cr_imin(n / (LONG / 2), MOST_BLOCKS);
    r.block = (n + r.blocks - 1) / r.blocks;
    r.most_bits = r.position_bits <= 7 ? 6 : (int)cr_imin(r.position_bits - 1, DIGIT);
    return r;
}

static const char *element(const row *r, int64_t i) { return r->x + i * (int64_t)cr_dtype_size(r->dtype); }
static uint64_t position(const row *r, uint64_t word) { return word & ((UINT64_C(1) << r->position_bits) - 1); }
static int64_t first_of(const row *r, int64_t block) { return cr_imin(block * r->block, r->n); }

static void each_block(row *r, void (*fn)(void *, int64_t, int)) {
    cr_run_chunks(r->blocks, fn, r);
}

static size_t counts_bytes(const row *r) { return sizeof *r->counts * (size_t)r->blocks << r->most_bits; }

/* ---- the range of the keys */
static void range_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    row *r = ctx;
    uint64_t keys[PIECE], *range = r->ranges[chunk];
    range[0] = UINT64_MAX;
    range[1] = 0;
    for (int64_t i = first_of(r, chunk), end = first_of(r, chunk + 1); i < end; i += PIECE) {
        int64_t n = cr_imin(PIECE, end - i);
        r->k->keys(keys, r->dtype, element(r, i), n, r->flip);
        r->k->range(range, keys, n);
    }
}

/* Returns in how many low bits the keys differ; sets lowest. */
static int key_bits(row *r) {
    each_block(r, range_chunk);
    for (int64_t b = 1; b < r->blocks; b++) r->k->range(r->ranges[0], r->ranges[b], 2);
    r->lowest = r->ranges[0][0];
    return bits_of(r->ranges[0][1] - r->lowest);
}

/* ---- a whole row */
static void load_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const row *r = ctx;
    for (int64_t i = first_of(r, chunk), end = first_of(r, chunk + 1); i < end; i += PIECE) {
        int64_t n = cr_imin(PIECE, end - i);
        uint64_t *word = r->from + i;
        r->k->keys(word, r->dtype, element(r, i), n, r->flip);
        for (int64_t j = 0; j < n; j++) word[j] = (word[j] - r->lowest) << r->position_bits | (uint64_t)(i + j);
    }
}

/* Puts the next bits of the keys into words whose positions are sorted by the lower bits. */
static void renew_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const row *r = ctx;
    for (int64_t i = first_of(r, chunk), end = first_of(r, chunk + 1); i < end && cr_goes_on(i, LONG); i++) {
        uint64_t at = position(r, r->from[i]), key = cr_key(r->dtype, r->x, (int64_t)at) ^ r->flip;
        r->from[i] = (key - r->lowest) >> r->done << r->position_bits | at;
    }
}

static void count_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const row *r = ctx;
    const uint64_t mask = (UINT64_C(1) << r->digit) - 1;
    uint64_t *counts = r->counts + (chunk << r->digit);
    memset(counts, 0, sizeof *counts << r->digit);
    for (int64_t i = first_of(r, chunk), end = first_of(r, chunk + 1); i < end; i++)
        counts[r->from[i] >> r->shift & mask]++;
}

static void scatter_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const row *r = ctx;
    const uint64_t mask = (UINT64_C(1) << r->digit) - 1;
    uint64_t *next = r->counts + (chunk << r->digit), *to = r->to;
    for (int64_t i = first_of(r, chunk), end = first_of(r, chunk + 1); i < end && cr_goes_on(i, LONG); i++)
        to[next[r->from[i] >> r->shift & mask]++] = r->from[i];
}

/* Turns counts into positions: by digit, then by block.  False: all keys have the same digit, so there is
 * nothing to sort. */
static bool find_starts(const row *r) {
    uint64_t next = 0;
    for (uint64_t d = 0; d < UINT64_C(1) << r->digit; d++) {
        uint64_t before = next;
        for (int64_t b = 0; b < r->blocks; b++) {
            uint64_t *count = &r->counts[((uint64_t)b << r->digit) + d], n = *count;
            *count = next;
            next += n;
        }
        if (next - before == (uint64_t)r->n) return false;
    }
    return true;
}

static void sort_by_digit(row *r, int shift, int digit) {
    r->shift = shift;
    r->digit = digit;
    each_block(r, count_chunk);
    if (cr_is_cut() || !find_starts(r)) return;     /* an interrupted job has not counted everything */
    each_block(r, scatter_chunk);
    uint64_t *swap = r->from;
    r->from = r->to;
    r->to = swap;
}

/* Afterwards the low bits of from[i] are the position of element i of the sorted row. */
static void sort_row(row *r) {
    if (r->n <= FEW) {
        uint64_t keys[FEW];
        r->k->keys(keys, r->dtype, r->x, r->n, r->flip);
        r->k->rank(r->from, keys, r->n);
        return;
    }
    const int bits = key_bits(r), room = 64 - r->position_bits;
    each_block(r, load_chunk);
    for (r->done = 0; r->done < bits; r->done += room) {
        int width = (int)cr_imin(bits - r->done, room), digits = (width + r->most_bits - 1) / r->most_bits;
        if (r->done) each_block(r, renew_chunk);
        for (int d = 0; d < digits && !cr_is_cut(); d++) {
            int low = width * d / digits, high = width * (d + 1) / digits;
            sort_by_digit(r, r->position_bits + low, high - low);
        }
    }
}

/* ---- results */
#define TAKE(type) for (; i < end; i++) ((type *)r->values)[i] = ((const type *)r->x)[position(r, r->from[i])];
static void emit_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const row *r = ctx;
    const int64_t first = cr_imin(chunk * r->block, r->wanted), end = cr_imin(first + r->block, r->wanted);
    int64_t i = first;
    switch (cr_dtype_size(r->dtype)) {
        case 1: TAKE(uint8_t) break;
        case 2: TAKE(uint16_t) break;
        case 4: TAKE(uint32_t) break;
        default: TAKE(uint64_t) break;
    }
    for (i = first; i < end; i++) r->index[i] = (int64_t)position(r, r->from[i]);      /* from may be index itself */
}

typedef struct job {                                /* M rows of one kind */
    row like;
    const char *x;
    char *values;
    int64_t *index;
    int64_t M, each;                                /* rows; rows of a chunk */
    int64_t K, span, spans;                         /* sort: of each; topk: elements of a span of a row, how many
                                                     * there are */
    int64_t k;                                      /* kth */
    uint64_t *best; int64_t *best_at;               /* topk: (spans, K) keys and positions, of one row */
    atomic_bool failed;
} job;

static job job_of(const cr_array *y, const cr_array *index, const cr_array *x, bool descending) {
    const int64_t M = x->shape[0], R = x->shape[1];
    return (job){.like = row_of(x->dtype, R, descending),
                 .x = cr_array_data(x),
                 .values = cr_array_data(y),
                 .index = cr_array_data(index),
                 .M = M,
                 .each = cr_pieces(LONG / 2, R)};
}

static void open_row(const job *j, row *r, int64_t m) {
    const int64_t size = (int64_t)cr_dtype_size(j->like.dtype);
    r->x = j->x + m * r->n * size;
    r->values = j->values + m * j->K * size;
    r->index = j->index + m * j->K;
    r->wanted = j->K;
}

/* Runs fn for chunks of rows; long rows one after another, each on all threads. */
static cr_status run_rows(job *j, const char *op, void (*fn)(void *, int64_t, int)) {
    if (j->like.blocks > 1) {
        j->each = 1;
        for (int64_t m = 0; m < j->M && !j->failed && !cr_is_cut(); m++) fn(j, m, 0);
    } else {
        cr_run_chunks(cr_pieces(j->M, j->each), fn, j);
    }
    return j->failed ? cr_fail(CR_NO_MEMORY, op, "out of memory for rows of %lld elements", (long long)j->like.n)
                     : CR_OK;
}

/* The words lie in scratch memory; half of them in the index of the result if that has room. */
static void sort_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    row r = j->like;
    const bool lend = j->K == r.n;
    const size_t words = (size_t)r.n * sizeof(uint64_t), bytes = counts_bytes(&r) + (lend ? words : 2 * words);
    char *memory = cr_cpu_try_take(bytes);
    if (!memory) { atomic_store(&j->failed, true); return; }
    for (int64_t m = chunk * j->each, end = cr_imin(m + j->each, j->M); m < end; m++) {
        open_row(j, &r, m);
        r.counts = (uint64_t *)(void *)memory;
        r.from = (uint64_t *)(void *)(memory + counts_bytes(&r));
        r.to = lend ? (uint64_t *)r.index : r.from + r.n;
        sort_row(&r);
        each_block(&r, emit_chunk);
    }
    cr_cpu_give(memory, bytes);
}

/* ---- topk: candidates are collected, and whenever the room is full only the K best of them are kept */
typedef struct best {
    int64_t K, n, room;
    uint64_t limit;                                 /* larger keys are no candidates */
    bool full;                                      /* no smaller key than the K found can exist */
    uint64_t *key, *spare_key, *work;               /* room words each; work: two rooms and the counts */
    int64_t *at, *spare_at;
} best;

/* Candidates as a row of u64; at most `room` of them. */
static row row_of_keys(int64_t n) {
    row r = row_of(CR_U64, n, false);
    r.blocks = 1;
    r.block = n;
    return r;
}

static size_t best_bytes(int64_t room) {
    row r = row_of_keys(room);
    r.most_bits = DIGIT;
    return (size_t)room * 6 * sizeof(uint64_t) + counts_bytes(&r);
}

static void open_best(best *b, int64_t K, int64_t room, char *memory) {
    uint64_t *words = (uint64_t *)(void *)memory;
    *b = (best){.K = K,
                .room = room,
                .limit = UINT64_MAX,
                .key = words,
                .spare_key = words + room,
                .at = (int64_t *)(words + 2 * room),
                .spare_at = (int64_t *)(words + 3 * room),
                .work = words + 4 * room};
}

/* The candidates' order, in words that end with positions of `bits` bits. */
static const uint64_t *order_candidates(const best *b, int *bits) {
    *bits = 63;
    if (b->n <= FEW) { cr_cpu_vec()->orders->rank(b->work, b->key, b->n); return b->work; }
    row r = row_of_keys(b->n);
    r.x = (const char *)b->key;
    r.from = b->work;
    r.to = b->work + b->room;
    r.counts = b->work + 2 * b->room;
    sort_row(&r);
    *bits = r.position_bits;
    return r.from;
}

/* Keeps the K best, sorted; the first of equal ones, because equal candidates lie in the order of their positions. */
static void settle(best *b) {
    int bits;
    const uint64_t *order = order_candidates(b, &bits);
    b->n = cr_imin(b->n, b->K);
    for (int64_t i = 0; i < b->n; i++) {
        uint64_t at = order[i] & ((UINT64_C(1) << bits) - 1);
        b->spare_key[i] = b->key[at];
        b->spare_at[i] = b->at[at];
    }
    uint64_t *key = b->key;
    b->key = b->spare_key;
    b->spare_key = key;
    int64_t *at = b->at;
    b->at = b->spare_at;
    b->spare_at = at;
    if (b->n < b->K) return;
    b->full = b->key[b->K - 1] == 0;
    b->limit = b->key[b->K - 1] - 1;                /* later elements with an equal key are no candidates */
}

/* Finds the K best of elements first .. end - 1. */
static void search_span(best *b, const row *r, int64_t first, int64_t end) {
    uint64_t keys[SCAN];
    for (int64_t i = first; i < end; i += SCAN) {
        int64_t n = cr_imin(SCAN, end - i);
        if (b->n + n > b->room) settle(b);
        if (b->full) return;
        r->k->keys(keys, r->dtype, element(r, i), n, r->flip);
        if (!r->k->any_up_to(keys, n, b->limit)) continue;
        for (int64_t j = 0; j < n; j++)
            if (keys[j] <= b->limit) {
                b->key[b->n] = keys[j];
                b->at[b->n++] = i + j;
            }
    }
    settle(b);
}

static void give_best(const row *r, const int64_t *at) {
    const size_t size = cr_dtype_size(r->dtype);
    for (int64_t i = 0; i < r->wanted; i++) {
        memcpy(r->values + (size_t)i * size, element(r, at[i]), size);
        r->index[i] = at[i];
    }
}

static int64_t best_room(int64_t K) { return 2 * K + SCAN; }

/* Whole rows. */
static void topk_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t room = best_room(j->K);
    char *memory = cr_cpu_try_take(best_bytes(room));
    if (!memory) { atomic_store(&j->failed, true); return; }
    row r = j->like;
    for (int64_t m = chunk * j->each, end = cr_imin(m + j->each, j->M); m < end; m++) {
        best b;
        open_row(j, &r, m);
        open_best(&b, j->K, room, memory);
        search_span(&b, &r, 0, r.n);
        give_best(&r, b.at);
    }
    cr_cpu_give(memory, best_bytes(room));
}

/* One span of the row that like holds. */
static void span_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t room = best_room(j->K);
    char *memory = cr_cpu_try_take(best_bytes(room));
    if (!memory) { atomic_store(&j->failed, true); return; }
    best b;
    open_best(&b, j->K, room, memory);
    search_span(&b, &j->like, chunk * j->span, chunk + 1 < j->spans ? (chunk + 1) * j->span : j->like.n);
    memcpy(j->best + chunk * j->K, b.key, (size_t)j->K * sizeof *b.key);
    memcpy(j->best_at + chunk * j->K, b.at, (size_t)j->K * sizeof *b.at);
    cr_cpu_give(memory, best_bytes(room));
}

/* A long row: the best of each span, then the best of these. */
static void topk_long(void *ctx, int64_t m, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t room = j->spans * j->K;
    char *memory = cr_cpu_try_take(best_bytes(room));
    if (!memory) { atomic_store(&j->failed, true); return; }
    best b;
    open_best(&b, j->K, room, memory);
    b.n = room;
    j->best = b.key;
    j->best_at = b.at;
    open_row(j, &j->like, m);
    cr_pool_run(j->spans, span_chunk, j);
    if (!j->failed && !cr_is_cut()) {
        settle(&b);
        give_best(&j->like, b.at);
    }
    cr_cpu_give(memory, best_bytes(room));
}

cr_status cr_cpu_sort(const cr_sort_args *args) {
    const int64_t R = args->x.shape[1], K = args->index.shape[1];
    job j = job_of(&args->y, &args->index, &args->x, args->descending);
    j.K = K;
    /* few candidates are ranked, at any R */
    if (R < 2 * FEW || (K > R / 32 && best_room(K) > FEW)) return run_rows(&j, "sort", sort_chunk);
    j.span = cr_imax(16 * K, 2 * LONG);
    j.spans = R / j.span;                           /* the last one takes the rest */
    if (j.spans >= 2) return run_rows(&j, "topk", topk_long);
    j.like.blocks = 1;                              /* whole rows are dealt out to the threads */
    return run_rows(&j, "topk", topk_chunk);
}

/* ---- kth: digits are fixed from the highest on, until few candidates are left, or only equal ones */
static void narrow_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const row *r = ctx;
    const uint64_t mask = (UINT64_C(1) << r->digit) - 1;
    uint64_t keys[PIECE], *counts = r->counts + (chunk << r->digit);
    memset(counts, 0, sizeof *counts << r->digit);
    for (int64_t i = first_of(r, chunk), end = first_of(r, chunk + 1); i < end; i += PIECE) {
        int64_t n = cr_imin(PIECE, end - i);
        r->k->keys(keys, r->dtype, element(r, i), n, 0);
        for (int64_t j = 0; j < n; j++) {
            uint64_t key = (keys[j] - r->lowest) >> r->shift;
            if (key >> r->digit == r->prefix) counts[key & mask]++;
        }
    }
}

static bool is_candidate(const row *r, uint64_t key) {
    return r->shift == 64 || (key - r->lowest) >> r->shift == r->prefix;
}

/* Collects the candidates of a block, after those of earlier blocks. */
static void collect_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    row *r = ctx;
    uint64_t keys[PIECE];
    int64_t to = 0, last = 0;
    for (int64_t b = 0; b <= chunk; b++) to = last, last += r->held[b];
    for (int64_t i = first_of(r, chunk), end = first_of(r, chunk + 1); i < end && to < last; i += PIECE) {
        int64_t n = cr_imin(PIECE, end - i);
        r->k->keys(keys, r->dtype, element(r, i), n, 0);
        for (int64_t j = 0; j < n; j++)
            if (is_candidate(r, keys[j])) {
                r->candidate[to] = keys[j];
                r->at[to++] = i + j;
            }
    }
}

/* The position of candidate number k, all candidates being equal. */
static int64_t find_equal(const row *r, int64_t k) {
    int64_t b = 0, i;
    while (k >= r->held[b]) k -= r->held[b++];
    for (i = first_of(r, b); !is_candidate(r, cr_key(r->dtype, r->x, i)) || k--; i++) { }
    return i;
}

/* Resolves a cr_kth for n sorted elements, the last `nans` of which are NaN. */
static int64_t kth_of(int64_t k, int64_t n, int64_t nans) {
    if (k == CR_KTH_MEDIAN) return nans ? n - nans : (n - 1) / 2;
    return k == CR_KTH_NANMEDIAN ? (n - nans > 0 ? (n - nans - 1) / 2 : 0) : k;
}

/* The position of element k of a short row. */
static int64_t rank_element(const row *r, int64_t k) {
    const uint64_t nan = cr_nan_key(r->dtype);
    uint64_t keys[FEW], order[FEW];
    int64_t nans = 0;
    r->k->keys(keys, r->dtype, r->x, r->n, 0);
    if (nan && k < 0) for (int64_t i = 0; i < r->n; i++) nans += keys[i] == nan;
    r->k->rank(order, keys, r->n);
    return (int64_t)order[kth_of(k, r->n, nans)];
}

static int64_t count_nans(const row *r) {
    const uint64_t nan = cr_nan_key(r->dtype);
    int64_t nans = 0;
    if (!nan || r->ranges[0][1] != nan) return 0;
    for (int64_t i = 0; i < r->n; i++) nans += cr_key(r->dtype, r->x, i) == nan;
    return nans;
}

/* Looks at the next digit of the candidates: those whose digit is element k's remain.  Returns how
 * many; k counts from the first of them. */
static int64_t narrow(row *r, int64_t *k) {
    r->digit = (int)cr_imin(r->shift, r->most_bits);
    r->shift -= r->digit;
    each_block(r, narrow_chunk);
    if (cr_is_cut()) return 0;
    for (uint64_t d = 0; ; d++) {
        int64_t left = 0;
        for (int64_t b = 0; b < r->blocks; b++) left += r->held[b] = (int64_t)r->counts[((uint64_t)b << r->digit) + d];
        if (*k < left) {
            r->prefix = r->prefix << r->digit | d;
            return left;
        }
        *k -= left;
    }
}

/* The position of element k of a longer row. */
static int64_t select_element(row *r, int64_t k) {
    int64_t left = r->n;
    r->shift = key_bits(r);
    r->prefix = 0;
    if (cr_is_cut()) return 0;
    if (k < 0) k = kth_of(k, r->n, count_nans(r));
    for (int64_t b = 0; b < r->blocks; b++) r->held[b] = first_of(r, b + 1) - first_of(r, b);
    while (r->shift && left > FEW) {
        left = narrow(r, &k);
        if (cr_is_cut()) return 0;
    }
    if (left > FEW) return find_equal(r, k);
    each_block(r, collect_chunk);
    if (cr_is_cut()) return 0;
    uint64_t order[FEW];
    r->k->rank(order, r->candidate, left);
    return r->at[order[k]];
}

static void kth_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    row r = j->like;
    char *memory = r.n > FEW ? cr_cpu_try_take(counts_bytes(&r)) : NULL;
    if (r.n > FEW && !memory) { atomic_store(&j->failed, true); return; }
    r.counts = (uint64_t *)(void *)memory;
    for (int64_t m = chunk * j->each, end = cr_imin(m + j->each, j->M); m < end; m++) {
        open_row(j, &r, m);
        int64_t at = r.n <= FEW ? rank_element(&r, j->k) : select_element(&r, j->k);
        give_best(&r, &at);
    }
    cr_cpu_give(memory, counts_bytes(&r));
}

cr_status cr_cpu_kth(const cr_kth_args *args) {
    job j = job_of(&args->y, &args->index, &args->x, false);
    j.K = 1;
    j.k = args->k;
    return run_rows(&j, "kth", kth_chunk);
}

/* ---- search in sorted rows */
typedef struct searches {
    const struct cr_orders *k;
    int64_t *y;
    const char *x, *v;
    cr_dtype dtype;
    int64_t M, R, K;
    bool shared, right;
} searches;
enum { SEARCHES_EACH = 2048 };

static void search_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const searches *p = ctx;
    const int64_t end = cr_imin((chunk + 1) * SEARCHES_EACH, p->M * p->K);
    uint64_t keys[CR_IN_STEP] = {0};
    int64_t at[CR_IN_STEP] = {0}, start[CR_IN_STEP] = {0};
    for (int64_t first = chunk * SEARCHES_EACH; first < end; first += CR_IN_STEP) {
        const int64_t n = cr_imin(CR_IN_STEP, end - first);
        p->k->keys(keys, p->dtype, p->v + first * (int64_t)cr_dtype_size(p->dtype), n, 0);
        if (!p->shared) for (int64_t i = 0; i < n; i++) start[i] = (first + i) / p->K * p->R;
        p->k->positions(at, start, p->dtype, p->x, p->R, keys, p->right);
        for (int64_t i = 0; i < n; i++) p->y[first + i] = at[i] - start[i];
    }
}

cr_status cr_cpu_search(const cr_search_args *args) {
    const cr_array *x = &args->x, *v = &args->v;
    searches p = {.k = cr_cpu_vec()->orders,
                  .y = cr_array_data(&args->y),
                  .x = cr_array_data(x),
                  .v = cr_array_data(v),
                  .dtype = x->dtype,
                  .M = v->shape[0],
                  .R = x->shape[x->ndim - 1],
                  .K = v->shape[1],
                  .shared = x->ndim == 1,
                  .right = args->right};
    cr_run_chunks(cr_pieces(p.M * p.K, SEARCHES_EACH), search_chunk, &p);
    return CR_OK;
}

/* ---- runs of equal rows: each block counts its runs, then writes them after those of earlier blocks */
typedef struct run_job {
    const struct cr_orders *k;
    int64_t *run, *starts;
    const int64_t *order;                           /* run[order[i]] is written for row i; NULL: run[i] */
    const char *x;
    cr_dtype dtype;
    int64_t R, C, block, blocks;
    int64_t begun[MOST_BLOCKS];                     /* runs that begin in each block */
} run_job;

/* Does row i > 0 begin a run? */
static bool begins_run(const run_job *j, int64_t i) {
    const uint64_t nan = cr_nan_key(j->dtype);
    for (int64_t at = i * j->C; at < (i + 1) * j->C; at++) {
        const uint64_t key = cr_key(j->dtype, j->x, at);
        if (key != cr_key(j->dtype, j->x, at - j->C) || (nan && key == nan)) return true;
    }
    return false;
}

/* begins[q]: does row first + q begin a run?  q < n.  Returns how many do. */
static int64_t find_begins(const run_job *j, int64_t first, int64_t n, uint8_t *begins) {
    int64_t count = 0;
    if (j->C == 1) {
        uint64_t keys[PIECE + 1];
        keys[0] = cr_key(j->dtype, j->x, first ? first - 1 : 0);
        j->k->keys(keys + 1, j->dtype, j->x + first * (int64_t)cr_dtype_size(j->dtype), n, 0);
        count = j->k->changes(begins, keys, n, cr_nan_key(j->dtype));
    } else {
        for (int64_t q = 0; q < n; q++) {
            begins[q] = first + q > 0 && begins_run(j, first + q);
            count += begins[q];
        }
    }
    if (first == 0 && !begins[0]) {
        begins[0] = 1;
        count++;
    }
    return count;
}

static void count_runs_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    run_job *j = ctx;
    uint8_t begins[PIECE];
    const int64_t first = chunk * j->block, end = cr_imin(first + j->block, j->R);
    j->begun[chunk] = 0;
    for (int64_t i = first; i < end && cr_goes_on(i - first, LONG); i += PIECE)
        j->begun[chunk] += find_begins(j, i, cr_imin(PIECE, end - i), begins);
}

/* Writes which of the rows first .. first + n - 1 begin a run.  Without a branch, because a processor
 * cannot predict it. */
static void write_starts(int64_t *to, int64_t first, int64_t n, const uint8_t *begins) {
    int64_t starts[PIECE + 1], found = 0;
    for (int64_t q = 0; q < n; q++) {
        starts[found] = first + q;
        found += begins[q];
    }
    memcpy(to, starts, sizeof *starts * (size_t)found);
}

/* Writes the run of each of these rows; `run`: of the row before them. */
static void write_runs(const run_job *j, int64_t run, int64_t first, int64_t n, const uint8_t *begins) {
    const int64_t *order = j->order;
    for (int64_t i = first; i < first + n; i++) {
        run += begins[i - first];
        j->run[order ? order[i] : i] = run;
    }
}

static void write_runs_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const run_job *j = ctx;
    uint8_t begins[PIECE];
    int64_t runs = 0;                               /* that begin before row i */
    for (int64_t b = 0; b < chunk; b++) runs += j->begun[b];
    const int64_t first = chunk * j->block, end = cr_imin(first + j->block, j->R);
    for (int64_t i = first; i < end && cr_goes_on(i - first, LONG); i += PIECE) {
        const int64_t n = cr_imin(PIECE, end - i), found = find_begins(j, i, n, begins);
        write_starts(j->starts + runs, i, n, begins);
        if (j->run) write_runs(j, runs - 1, i, n, begins);
        runs += found;
    }
}

cr_status cr_cpu_runs(const cr_runs_args *args) {
    run_job j = {.k = cr_cpu_vec()->orders,
                 .dtype = args->x.dtype,
                 .x = cr_array_data(&args->x),
                 .starts = cr_array_data(&args->starts),
                 .R = args->x.shape[0],
                 .C = args->x.shape[1]};
    if (cr_present(&args->run)) j.run = cr_array_data(&args->run);
    if (cr_present(&args->order)) j.order = cr_array_data(&args->order);
    j.blocks = cr_imin(cr_pieces(j.R, LONG / 2), MOST_BLOCKS);
    j.block = cr_pieces(j.R, j.blocks);
    cr_pool_run(j.blocks, count_runs_chunk, &j);
    cr_pool_run(j.blocks, write_runs_chunk, &j);
    if (cr_is_cut()) return CR_OK;                  /* the op fails; the counts are incomplete */
    int64_t *count = cr_array_data(&args->count);
    *count = 0;
    for (int64_t b = 0; b < j.blocks; b++) *count += j.begun[b];
    return CR_OK;
}
