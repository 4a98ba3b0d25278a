/* rng.c - Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011). */
#include "rng.h"
#include "status.h"
#include "out.h"
#include "watch.h"
#include <stdatomic.h>
#include "os.h"

#include <limits.h>
#include <stdlib.h>

void cr_philox(uint64_t seed, uint64_t counter, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1; c3 = (uint32_t)p0; c0 = n0; c2 = n2;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

struct cr_generator { _Atomic uint64_t seed, counter; atomic_int refs; };
static cr_generator shared;                         /* refs are not counted */

cr_generator *cr_default_generator(void) { return &shared; }
void cr_manual_seed(uint64_t seed) { cr_generator_set(&shared, seed, 0); }

cr_generator *cr_generator_new(uint64_t seed) {
    cr_generator *g = malloc(sizeof *g);
    if (!g) return cr_no_memory("generator"), NULL;
    atomic_init(&g->seed, seed);
    atomic_init(&g->counter, 0);
    atomic_init(&g->refs, 1);
    return g;
}

cr_generator *cr_generator_retain(cr_generator *g) {
    if (g != &shared) atomic_fetch_add(&g->refs, 1);
    return g;
}

int cr_generator_refs(const cr_generator *g) { return g == &shared ? INT_MAX : atomic_load(&g->refs); }

void cr_generator_free(cr_generator *g) {
    if (!g || g == &shared || cr_stale("generator_free", "the generator", g)) return;
    if (atomic_fetch_sub(&g->refs, 1) == 1) cr_retire(g);
}

void cr_generator_get(const cr_generator *g, uint64_t *seed, uint64_t *counter) {
    if (cr_lacks("generator_get", "the generator", g)) return;
    if (seed) *seed = atomic_load(&g->seed);
    if (counter) *counter = atomic_load(&g->counter);
}

void cr_generator_set(cr_generator *g, uint64_t seed, uint64_t counter) {
    if (cr_lacks("generator_set", "the generator", g)) return;
    atomic_store(&g->seed, seed);
    atomic_store(&g->counter, counter);
    const cr_watch *watch = cr_watching();
    if (watch) watch->seeded(g);
}

uint64_t cr_generator_seed(cr_generator *g) {
    const uint64_t seed = cr_os_entropy();
    cr_generator_set(g, seed, 0);
    return seed;
}

/* ---- tapes */
typedef struct { uint64_t seed, counter; } taken;
struct cr_tape { taken *list; size_t n; int64_t room; bool short_of_memory; };
static _Thread_local cr_tape_use in_use;

cr_tape *cr_tape_new(void) {
    cr_tape *t = calloc(1, sizeof *t);
    if (!t) cr_no_memory("tape");
    return t;
}

void cr_tape_free(cr_tape *t) {
    if (t) free(t->list);
    free(t);
}

cr_tape_use cr_tape_begin(cr_tape *t, bool replay) {
    const cr_tape_use before = in_use;
    in_use = (cr_tape_use){.tape = t, .replay = replay};
    return before;
}

void cr_tape_end(cr_tape_use before) { in_use = before; }

static void note(cr_tape *t, taken x) {
    if (!cr_grow(&t->list, (int64_t)t->n + 1, &t->room, sizeof *t->list)) t->short_of_memory = true;
    else t->list[t->n++] = x;
}

uint64_t cr_generator_take(cr_generator *g, uint64_t blocks, uint64_t *seed) {
    cr_tape *tape = in_use.tape;
    if (tape && in_use.replay && in_use.next < tape->n) {
        taken x = tape->list[in_use.next++];
        *seed = x.seed;
        return x.counter;
    }
    taken x = {atomic_load(&g->seed), atomic_fetch_add(&g->counter, blocks)};
    if (tape && !in_use.replay) note(tape, x);
    const cr_watch *watch = cr_watching();
    if (watch) watch->drew(g, x.seed, x.counter, blocks);
    *seed = x.seed;
    return x.counter;
}
