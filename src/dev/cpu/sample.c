/* sample.c - permutations and weighted samples, as kernels.def defines them.  Position i uses the i-th
 * word of the stream, so nothing depends on the threads. */
#include "blocks.h"
#include "isa.h"
#include "../../core/pool.h"
#include "../elementary.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, CHUNK = 16 * BLOCK };           /* words of 64 bits; whole Philox blocks */

/* The 64-bit words first .. first + n - 1, n <= BLOCK, to be read with cr_word64. */
static void draw(uint64_t seed, uint64_t counter, int64_t first, int64_t n, uint32_t words[2 * BLOCK]) {
    cr_cpu_vec()->randoms->philox(seed, counter + (uint64_t)(first / 2), words, (n + 1) / 2);
}


/* ---- permutations: positions sorted by random words.  The leading bits of such words give their
 * place approximately: first they select a bucket of about 1024, which fits the L2 cache, then the
 * following bits a slot in the bucket; insertion sort does the rest. */
/* elements of a bucket; slots, most of them with one element or none */
enum { BUCKET = 1 << 10, SLOT_BITS = 11, SLOTS = 1 << SLOT_BITS };
typedef struct entry { uint64_t word; int64_t i; } entry;

static bool before(const entry *a, const entry *b) { return a->word < b->word || (a->word == b->word && a->i < b->i); }

static void insertion_sort(entry *x, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        entry e = x[i];
        int64_t to = i;
        for (; to > 0 && before(&e, &x[to - 1]); to--) x[to] = x[to - 1];
        x[to] = e;
    }
}

/* Sorts n entries into `to`; their words agree in the first `known` bits. */
static void sort_bucket(entry *to, const entry *from, int64_t n, int known) {
    uint32_t slot[SLOTS] = {0}, next = 0;
    for (int64_t k = 0; k < n; k++) slot[from[k].word << known >> (64 - SLOT_BITS)]++;
    for (int b = 0; b < SLOTS; b++) { uint32_t here = slot[b]; slot[b] = next; next += here; }
    for (int64_t k = 0; k < n; k++) to[slot[from[k].word << known >> (64 - SLOT_BITS)]++] = from[k];
    insertion_sort(to, n);
}

typedef struct shuffle {
    int64_t n, chunk, chunks, buckets;
    int bits;                                       /* log2 buckets */
    uint64_t seed, counter;
    int64_t *slot;                                  /* (chunks, buckets): how many, then where the next one goes */
    entry *scattered, *sorted;
    uint64_t *word;                                 /* (n): the words, in the memory of `sorted` */
    int64_t *y;
} shuffle;

static int64_t bucket_of(const shuffle *s, uint64_t word) { return s->bits ? (int64_t)(word >> (64 - s->bits)) : 0; }

static void count_chunk(void *ctx, int64_t c, int worker) {
    (void)worker;
    const shuffle *s = ctx;
    uint32_t words[2 * BLOCK];
    int64_t *slot = s->slot + c * s->buckets;
    for (int64_t first = c * s->chunk, end = cr_imin(first + s->chunk, s->n); first < end && cr_goes_on(first, CHUNK);
         first += BLOCK) {
        int64_t n = cr_imin(end - first, BLOCK);
        draw(s->seed, s->counter, first, n, words);
        for (int64_t i = 0; i < n; i++) slot[bucket_of(s, s->word[first + i] = cr_word64(words, i))]++;
    }
}

static void scatter_chunk(void *ctx, int64_t c, int worker) {
    (void)worker;
    const shuffle *s = ctx;
    int64_t *slot = s->slot + c * s->buckets;
    for (int64_t first = c * s->chunk, i = first, end = cr_imin(i + s->chunk, s->n);
         i < end && cr_goes_on(i - first, CHUNK); i++)
        s->scattered[slot[bucket_of(s, s->word[i])]++] = (entry){s->word[i], i};
}

/* Turns counts into slots: by bucket, then by chunk. */
static void assign_slots(shuffle *s) {
    int64_t next = 0;
    for (int64_t b = 0; b < s->buckets && cr_goes_on(b, CHUNK); b++)
        for (int64_t c = 0; c < s->chunks; c++) {
            int64_t *at = &s->slot[c * s->buckets + b], here = *at;
            *at = next;
            next += here;
        }
}

static void sort_chunk(void *ctx, int64_t b, int worker) {
    (void)worker;
    const shuffle *s = ctx;
    const int64_t *ends = s->slot + (s->chunks - 1) * s->buckets;         /* where each bucket ends, after scattering */
    int64_t first = b ? ends[b - 1] : 0, n = ends[b] - first;
    sort_bucket(s->sorted + first, s->scattered + first, n, s->bits);
    for (int64_t i = first; i < first + n; i++) s->y[i] = s->sorted[i].i;
}

cr_status cr_cpu_permutation(const cr_permutation_args *args) {
    shuffle s = {.n = args->y.numel, .seed = args->seed, .counter = args->counter, .y = cr_array_data(&args->y)};
    while (s.n >> s.bits > BUCKET) s.bits++;
    s.buckets = INT64_C(1) << s.bits;
    s.chunk = (s.n / 32 / BLOCK + 1) * BLOCK;       /* at most 32 tables of slots */
    s.chunks = cr_pieces(s.n, s.chunk);
    const size_t slot_bytes = sizeof *s.slot * (size_t)(s.chunks * s.buckets), entries = sizeof *s.sorted * (size_t)s.n;
    s.slot = cr_cpu_take(slot_bytes);
    s.scattered = s.slot ? cr_cpu_take(entries) : NULL;
    s.sorted = s.scattered ? cr_cpu_take(entries) : NULL;
    s.word = (uint64_t *)(void *)s.sorted;
    cr_status status = s.sorted ? CR_OK : cr_error_status();
    if (status == CR_OK) {
        memset(s.slot, 0, slot_bytes);
        cr_pool_run(s.chunks, count_chunk, &s);
        assign_slots(&s);
        cr_pool_run(s.chunks, scatter_chunk, &s);
        cr_pool_run(s.buckets, sort_chunk, &s);
    }
    cr_cpu_give(s.sorted, entries);
    cr_cpu_give(s.scattered, entries);
    cr_cpu_give(s.slot, slot_bytes);
    return status;
}

/* ---- samples by weights */
typedef struct sample {
    const cr_array *w;                             /* (M, N) */
    int64_t *y, M, N, S;                            /* y (M, S) */
    uint64_t seed, counter;
    double *sum;                                    /* (M, N) running sums */
    struct candidate *candidates;                   /* (M, N) */
    int64_t rows;                                   /* of a chunk */
} sample;

static void load_weights(const sample *s, double *to, int64_t first, int64_t n) {
    const cr_dtype dt = s->w->dtype;
    cr_block_load(CR_LANE_F64, to, dt, (const char *)cr_array_data(s->w) + first * (int64_t)cr_dtype_size(dt), 1, n);
}

/* With replacement: a binary search in the running sums. */
static void add_up(void *ctx, int64_t c, int worker) {
    (void)worker;
    const sample *s = ctx;
    for (int64_t m = c * s->rows, end = cr_imin(m + s->rows, s->M); m < end; m++) {
        double *sum = s->sum + m * s->N;
        load_weights(s, sum, m * s->N, s->N);
        for (int64_t i = 1; i < s->N; i++) sum[i] += sum[i - 1];
    }
}

/* The first of n sums that is above t, else the last. */
static int64_t first_above(const double *sum, int64_t n, double t) {
    int64_t low = 0;
    while (n > 1) {
        int64_t half = n / 2;
        low += sum[low + half - 1] <= t ? half : 0;
        n -= half;
    }
    return low;
}

static void pick(void *ctx, int64_t c, int worker) {
    (void)worker;
    const sample *s = ctx;
    uint32_t words[2 * BLOCK];
    int64_t first = c * BLOCK, n = cr_imin(s->M * s->S - first, BLOCK);
    draw(s->seed, s->counter, first, n, words);
    for (int64_t k = 0; k < n; k++) {
        const double *sum = s->sum + (first + k) / s->S * s->N;
        s->y[first + k] = first_above(sum, s->N, cr_uniform64(words, k) * sum[s->N - 1]);
    }
}

static cr_status with_replacement(sample *s) {
    const size_t bytes = sizeof *s->sum * (size_t)(s->M * s->N);
    s->sum = cr_cpu_take(bytes);
    if (!s->sum) return cr_error_status();
    cr_pool_run(cr_pieces(s->M, s->rows), add_up, s);
    cr_pool_run(cr_pieces(s->M * s->S, BLOCK), pick, s);
    cr_cpu_give(s->sum, bytes);
    return CR_OK;
}

/* Without replacement: each position gets a random time by its weight, and the S earliest are taken. */
typedef struct candidate { double time; int64_t i; } candidate;

static bool sooner(const candidate *a, const candidate *b) {
    return a->time < b->time || (a->time == b->time && a->i < b->i);
}
static int by_time(const void *x, const void *y) { return sooner(x, y) ? -1 : sooner(y, x); }

static void wait_times(void *ctx, int64_t c, int worker) {
    (void)worker;
    const sample *s = ctx;
    uint32_t words[2 * BLOCK];
    double w[BLOCK], log_of[BLOCK];
    int64_t first = c * BLOCK, n = cr_imin(s->M * s->N - first, BLOCK);
    draw(s->seed, s->counter, first, n, words);
    load_weights(s, w, first, n);
    for (int64_t k = 0; k < n; k++) log_of[k] = 1 - cr_uniform64(words, k);
    cr_f64_logs(log_of, n);
    for (int64_t k = 0; k < n; k++) {
        double time = w[k] > 0 ? fmin(-log_of[k] / w[k], DBL_MAX) : INFINITY;
        s->candidates[first + k] = (candidate){time, (first + k) % s->N};
    }
}

/* Moves the k soonest of n to the front (Hoare's selection). */
static void soonest_first(candidate *x, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        candidate pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (sooner(&x[i], &pivot)) i++;
            while (sooner(&pivot, &x[j])) j--;
            if (i > j) break;
            candidate t = x[i];
            x[i++] = x[j];
            x[j--] = t;
        }
        if (k - 1 <= j) high = j;
        else if (k - 1 >= i) low = i;
        else return;
    }
}

static void choose(void *ctx, int64_t c, int worker) {
    (void)worker;
    const sample *s = ctx;
    for (int64_t m = c * s->rows, end = cr_imin(m + s->rows, s->M); m < end; m++) {
        candidate *x = s->candidates + m * s->N;
        soonest_first(x, s->N, s->S);
        qsort(x, (size_t)s->S, sizeof *x, by_time);
        for (int64_t k = 0; k < s->S; k++) s->y[m * s->S + k] = x[k].i;
    }
}

static cr_status without_replacement(sample *s) {
    const size_t bytes = sizeof *s->candidates * (size_t)(s->M * s->N);
    s->candidates = cr_cpu_take(bytes);
    if (!s->candidates) return cr_error_status();
    cr_pool_run(cr_pieces(s->M * s->N, BLOCK), wait_times, s);
    cr_pool_run(cr_pieces(s->M, s->rows), choose, s);
    cr_cpu_give(s->candidates, bytes);
    return CR_OK;
}

cr_status cr_cpu_multinomial(const cr_multinomial_args *args) {
    const cr_array *w = &args->w;
    sample s = {.w = w, .y = cr_array_data(&args->y), .M = w->shape[0], .N = w->shape[1], .S = args->y.shape[1],
                .seed = args->seed, .counter = args->counter, .rows = CHUNK / w->shape[1] + 1};
    return args->replacement ? with_replacement(&s) : without_replacement(&s);
}
