/* hopper.c - the asynchronous units of sm_90a: barriers that count arrivals and bytes, tensor copies
 * (TMA), products of a warpgroup (wgmma), named barriers, and the proxy through which they see shared
 * memory.
 *
 * Each unit works as late as it may: a copy arrives when a thread waits for it and none can run, a product is
 * computed when its warp waits for it, and a word that a thread put into shared memory is visible to
 * products after publish().  Results of a product are NaN until then.  In the order "reverse" copies
 * arrive at once, which shows a tile that is overwritten while it is read; random orders draw. */
#include "fibers.h"
#include "hopper.h"
#include "numbers.h"
#include <stdbool.h>
#include <stdio.h>

enum { BASE = 1024, BARRIERS = 64, COPIES = 256, PENDING = 128, SHADOWS = 8, NAMED = 16, PUTS = 512, WARPS = 32 };
static const uint32_t IN_FLIGHT = 0x7fc0dead;       /* a NaN */

/* ---- tensor maps: 128 bytes, which the kernel passes on */
typedef struct map {
    uint64_t magic, at, sizes[4], strides[3];       /* strides: bytes, of all but the first axis */
    uint16_t box[4];
    int32_t swizzle;                                /* bytes of a line; 0: none */
} map;
static const uint64_t MAP_MAGIC = 0x70614d726f736e54;

const char *hopper_map_encode(void *out, int type, unsigned rank, const void *at, const uint64_t *sizes,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                              int swizzle, int fill) {
    map m = {.magic = MAP_MAGIC, .at = (uintptr_t)at, .swizzle = swizzle ? 16 << swizzle : 0};
    _Static_assert(sizeof m <= sizeof(CUtensorMap), "a map has 128 bytes");
    if ((uintptr_t)out % 64) return "the map is not 64-aligned";
    if (type != CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) return "unknown type";
    if (rank != 4 || interleave || fill) return "only maps of 4 axes without interleaving are simulated";
    if ((uintptr_t)at % 16) return "the address is not 16-aligned";
    if (swizzle < 0 || swizzle > CU_TENSOR_MAP_SWIZZLE_128B) return "unknown swizzle";
    for (unsigned i = 0; i < rank; i++) {
        if (!sizes[i] || sizes[i] > 1ull << 32) return "a size is not 1 to 2^32";
        if (!box[i] || box[i] > 256) return "an axis of the box is not 1 to 256";
        if (steps[i] != 1) return "only steps of 1 are simulated";
        if (i && (!strides[i - 1] || strides[i - 1] % 16 || strides[i - 1] >= 1ull << 40))
            return "a stride is not a multiple of 16 bytes below 2^40";
        m.sizes[i] = sizes[i], m.box[i] = (uint16_t)box[i];
        if (i) m.strides[i - 1] = strides[i - 1];
    }
    if (box[0] * 2 % 16) return "lines of the box are not multiples of 16 bytes";
    if (m.swizzle && box[0] * 2 > (uint32_t)m.swizzle) return "lines of the box are longer than the swizzle";
    memcpy(out, &m, sizeof m);
    return NULL;
}

/* memcpy, which the thread sanitizer does not see: it would take this file for a part of the kernel. */
static void move(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes / 4; i++) ((volatile uint32_t *)to)[i] = ((const volatile uint32_t *)from)[i];
}

/* ---- the state of a block */
typedef struct counting {
    unsigned at, count, arrived, phase;
    int bytes, owner, since;                        /* owner: made it, after so many barriers of the block */
    bool waits[MAX_THREADS];
} counting;
typedef struct copy { unsigned to, barrier; map from; int position[4]; } copy;
typedef struct product {
    cudasim_product of;
    float *d[WARP];
    unsigned words[WARP][4];
} product;
typedef struct shadow { float *d; int n, pending; float values[128]; } shadow;
typedef struct lane_state {
    int issued, groups;
    bool fenced;
    shadow shadows[SHADOWS];
} lane_state;
typedef struct warp_state {
    product queue[PENDING];
    int done, group_end[PENDING];
    lane_state lanes[WARP];
} warp_state;
typedef struct put { unsigned at, word; } put;

static struct {
    counting barriers[BARRIERS];
    int barrier_count, copies, puts[MAX_THREADS];
    copy copy[COPIES];
    warp_state warps[WARPS];
    struct { int arrived, threads, waiting, generation; int who[MAX_THREADS]; } named[NAMED];
    put put[MAX_THREADS][PUTS];
} s;
static char named_clocks[NAMED][2], barrier_clocks[BARRIERS][2];
static bool used;                                   /* by this block */

void hopper_begin(void) {
    if (!used) return;
    s.barrier_count = s.copies = 0;
    memset(s.puts, 0, sizeof s.puts);
    memset(s.named, 0, sizeof s.named);
    for (int w = 0; w < WARPS; w++) {
        s.warps[w].done = 0;
        memset(s.warps[w].lanes, 0, sizeof s.warps[w].lanes);
    }
    used = false;
}

static char *shared(unsigned at, unsigned bytes) {
    const fibers_block here = fibers_here();
    if (at < BASE || at - BASE + bytes > here.bytes)
        fibers_fail("shared address %#x is outside of the %u bytes from %#x on", at, here.bytes, (unsigned)BASE);
    return (char *)(uintptr_t)here.shared + (at - BASE);
}

static unsigned address(const void *at) {
    if (!fibers_here().exact) fibers_fail("this text is not compiled for sm_90a");
    return (unsigned)((const char *)at - fibers_here().shared) + BASE;
}

/* ---- barriers in shared memory: the place in memory must not be used for anything else */
static counting *find_barrier(unsigned at) {
    for (int i = 0; i < s.barrier_count; i++) if (s.barriers[i].at == at) return &s.barriers[i];
    return NULL;
}
static counting *barrier_at(unsigned at) {
    counting *c = find_barrier(at);
    if (!c || (c->owner != fibers_current() && c->since == fibers_here().barriers))
        fibers_fail("there is no barrier at %#x", at);
    return c;
}
static char *clock_of(const counting *c, unsigned phase) { return &barrier_clocks[c - s.barriers][phase & 1]; }

static void barrier_init(unsigned at, unsigned count) {
    used = true;
    shared(at, 8);
    if (at % 8 || !count || s.barrier_count == BARRIERS) fibers_fail("a barrier of %u at %#x", count, at);
    counting *c = &s.barriers[s.barrier_count++];
    memset(c, 0, sizeof *c);
    c->at = at, c->count = count, c->owner = fibers_current(), c->since = fibers_here().barriers;
}

static void complete_phase(counting *c) {
    if (c->arrived < c->count || c->bytes) return;
    int who[MAX_THREADS], n = 0;
    c->arrived = 0, c->phase++;
    for (int i = 0; i < MAX_THREADS; i++) if (c->waits[i]) who[n++] = i, c->waits[i] = false;
    fibers_wake(who, n);
}

static void barrier_expect(unsigned at, unsigned bytes) { barrier_at(at)->bytes += (int)bytes; }

static void barrier_arrive(unsigned at) {
    counting *c = barrier_at(at);
    if (++c->arrived > c->count) fibers_fail("more than %u arrivals at barrier %#x", c->count, at);
    fibers_release(clock_of(c, c->phase));
    complete_phase(c);
}

static void barrier_wait(unsigned at, unsigned parity) {
    counting *c = barrier_at(at);
    char *clock = clock_of(c, parity);
    if ((c->phase & 1) == parity) {
        c->waits[fibers_current()] = true;
        fibers_park("barrier", at, clock);
    } else if (c->phase) fibers_acquire(clock);
}

/* ---- the TMA */
static void arrive_copy(const copy *x) {
    const map *m = &x->from;
    unsigned bytes = 0;
    for (unsigned i3 = 0; i3 < m->box[3]; i3++)
        for (unsigned i2 = 0; i2 < m->box[2]; i2++)
            for (unsigned i1 = 0; i1 < m->box[1]; i1++)
                for (unsigned i0 = 0; i0 < m->box[0]; i0++, bytes += 2) {
                    const int64_t p[4] = {x->position[0] + (int64_t)i0, x->position[1] + (int64_t)i1,
                                          x->position[2] + (int64_t)i2, x->position[3] + (int64_t)i3};
                    bool inside = true;
                    uint64_t from = m->at + 2 * (uint64_t)p[0];
                    for (int i = 0; i < 4; i++) {
                        inside &= p[i] >= 0 && p[i] < (int64_t)m->sizes[i];
                        if (i) from += (uint64_t)p[i] * m->strides[i - 1];
                    }
                    const unsigned to = x->to + bytes;
                    const uint16_t value = inside ? *(const uint16_t *)(uintptr_t)from : 0;
                    memcpy(shared(m->swizzle ? hopper_swizzled(to, (unsigned)m->swizzle) : to, 2), &value, 2);
                }
    counting *c = find_barrier(x->barrier);
    c->bytes -= (int)bytes;
    complete_phase(c);
}

static void load_box(unsigned to, const void *from, const int *position, unsigned barrier) {
    copy x = {.to = to, .barrier = barrier};
    memcpy(&x.from, from, sizeof x.from);
    memcpy(x.position, position, sizeof x.position);
    if (x.from.magic != MAP_MAGIC) fibers_fail("a copy without a tensor map");
    if ((uintptr_t)from % 64 || to % 128) fibers_fail("a copy to %#x, by a map at %p", to, from);
    if (s.copies == COPIES) fibers_fail("more than %d copies are under way", COPIES);
    barrier_at(barrier);
    int at_once = fibers_reversed();
    fibers_chance(&at_once);
    if (at_once) arrive_copy(&x);
    else move(&s.copy[s.copies++], &x, sizeof x);
}

int hopper_progress(void) {
    if (!used || !s.copies) return 0;
    int last = 0, chosen = -1;
    fibers_chance(&last);
    for (int i = 0; i < s.copies && (last || chosen < 0); i++)
        for (int t = 0; t < MAX_THREADS; t++)
            if (find_barrier(s.copy[i].barrier)->waits[t]) chosen = i;
    if (chosen < 0) return 0;
    copy x;
    move(&x, &s.copy[chosen], sizeof x);
    for (s.copies--; chosen < s.copies; chosen++) move(&s.copy[chosen], &s.copy[chosen + 1], sizeof x);
    arrive_copy(&x);
    return 1;
}

/* ---- products */
static lane_state *mine(warp_state **w) {
    const int t = fibers_current();
    *w = &s.warps[t / WARP];
    return &(*w)->lanes[t % WARP];
}

static void fence(void) {
    warp_state *w;
    mine(&w)->fenced = used = true;
}

static void check_in_flight(const shadow *x) {
    for (int i = 0; i < x->n; i++)
        if (memcmp(&x->d[i], &IN_FLIGHT, sizeof IN_FLIGHT))
            fibers_fail("result %d of a product was written while the product was in flight", i);
}

/* The values of results that a product is going to write, in whose place there are NaN from now on. */
static void hide(lane_state *l, float *d, int n) {
    shadow *unused = NULL;
    for (int i = 0; i < SHADOWS; i++) {
        shadow *x = &l->shadows[i];
        if (!x->pending) unused = x;
        else if (x->d == d) {
            check_in_flight(x);
            x->pending++;
            return;
        }
    }
    if (!unused) fibers_fail("more than %d products with results of their own are in flight", SHADOWS);
    unused->d = d, unused->n = n, unused->pending = 1;
    move(unused->values, d, sizeof *d * (size_t)n);
    for (int i = 0; i < n; i++) memcpy(&d[i], &IN_FLIGHT, sizeof IN_FLIGHT);
}

static void issue(const cudasim_product *p) {
    warp_state *w;
    lane_state *l = mine(&w);
    const int lane = fibers_current() % WARP;
    product *x = &w->queue[l->issued % PENDING];
    if (!fibers_here().exact) fibers_fail("this text is not compiled for sm_90a");
    if (!l->fenced) fibers_fail("a product without a fence before it");
    if (l->issued - w->done == PENDING) fibers_fail("more than %d products are in flight", PENDING);
    bool first = true;
    for (int i = 0; i < WARP; i++) first &= i == lane || w->lanes[i].issued <= l->issued;
    if (first) x->of = *p;
    else if (x->of.a != p->a || x->of.b != p->b || x->of.n != p->n || x->of.add != p->add || x->of.half != p->half ||
             x->of.a_along_i != p->a_along_i || x->of.b_along_i != p->b_along_i || !x->of.words != !p->words)
        fibers_fail("the lanes of a warp issue different products");
    x->d[lane] = p->d;
    if (p->words) memcpy(x->words[lane], p->words, sizeof x->words[lane]);
    hide(l, p->d, p->n / 2);
    l->issued++;
}

static float number(bool half, uint16_t bits) {
    return half ? half_value(bits) : (float)load(&bits, CUDA_R_16BF, 0);
}

static float element(const product *x, unsigned long long descriptor, int along_i, int i, int k) {
    uint16_t bits;
    if (hopper_line((unsigned)(descriptor >> 62)) == 0 || descriptor >> 49 & 7)
        fibers_fail("only operands with a swizzle and the base offset 0 are simulated: %#llx", descriptor);
    memcpy(&bits, shared(hopper_operand(descriptor, along_i, (unsigned)i, (unsigned)k), 2), 2);
    return number(x->of.half, bits);
}

/* One product of a warp, which is w-th in its warpgroup. */
static void compute(warp_state *warp, const product *x, int w) {
    static float a[16][16], b[256][16];
    for (int i = 0; i < x->of.n; i++)
        for (int k = 0; k < 16; k++) b[i][k] = element(x, x->of.b, x->of.b_along_i, i, k);
    for (int lane = 0; lane < WARP; lane++)
        for (int e = 0; e < 8; e++) {
            const hopper_place p = hopper_fragment(lane, e);
            a[p.row][p.column] = x->of.words ? number(x->of.half, (uint16_t)(x->words[lane][e / 2] >> 16 * (e % 2)))
                                             : element(x, x->of.a, x->of.a_along_i, 16 * w + p.row, p.column);
        }
    for (int lane = 0; lane < WARP; lane++) {
        shadow *to = NULL;
        for (int i = 0; i < SHADOWS; i++) {
            shadow *y = &warp->lanes[lane].shadows[i];
            if (y->pending && y->d == x->d[lane]) to = y;
        }
        for (int e = 0; e < x->of.n / 2; e++) {
            const hopper_place p = hopper_fragment(lane, e);
            float sum = x->of.add ? to->values[e] : 0;
            for (int k = 0; k < 16; k++) sum += a[p.row][k] * b[p.column][k];
            to->values[e] = sum;
        }
        if (--to->pending) continue;
        check_in_flight(to);
        move(to->d, to->values, sizeof *to->d * (size_t)to->n);
    }
}

static void commit(void) {
    warp_state *w;
    lane_state *l = mine(&w);
    w->group_end[l->groups++ % PENDING] = l->issued;
}

static void wait_products(int pending) {
    warp_state *w;
    lane_state *l = mine(&w);
    const int t = fibers_current();
    l->fenced = false;                              /* from now on the thread may use registers */
    fibers_meet();                                  /* all lanes have issued what this one has */
    const int group = l->groups - pending;
    const int end = group > 0 ? w->group_end[(group - 1) % PENDING] : 0;
    for (; w->done < end; w->done++) compute(w, &w->queue[w->done % PENDING], t / WARP % 4);
    fibers_meet();
}

/* ---- named barriers, which count the threads that arrive; some of them wait */
static void named(int id, int threads, int waits) {
    if (id < 1 || id >= NAMED || threads % WARP || threads > fibers_here().threads)
        fibers_fail("a named barrier %d of %d threads", id, threads);
    used = true;
    if (s.named[id].arrived && s.named[id].threads != threads)
        fibers_fail("threads of barrier %d expect %d and %d others", id, s.named[id].threads, threads);
    char *clock = &named_clocks[id][s.named[id].generation & 1];
    s.named[id].threads = threads;
    fibers_release(clock);
    if (waits) s.named[id].who[s.named[id].waiting++] = fibers_current();
    if (++s.named[id].arrived == threads) {
        const int n = s.named[id].waiting;
        s.named[id].arrived = s.named[id].waiting = 0;
        s.named[id].generation++;
        fibers_wake(s.named[id].who, n);
    }
    if (waits) fibers_park("named barrier", (unsigned)id, clock);
}

/* ---- words for products */
static void put_word(unsigned at, unsigned word) {
    const int t = fibers_current();
    shared(at, 4);
    used = true;
    if (s.puts[t] == PUTS) fibers_fail("more than %d words were put and not published", PUTS);
    s.put[t][s.puts[t]++] = (put){at, word};
}
static void publish(void) {
    const int t = fibers_current();
    for (int i = 0; i < s.puts[t]; i++) memcpy(shared(s.put[t][i].at, 4), &s.put[t][i].word, 4);
    s.puts[t] = 0;
}

const char *hopper_flaw(void) {
    static char text[120];
    const char *flaw = s.copies ? "a tensor copy" : NULL;
    for (int t = 0; used && t < MAX_THREADS; t++) {
        if (s.puts[t]) flaw = "a word that was put into shared memory";
        if (s.warps[t / WARP].lanes[t % WARP].issued > s.warps[t / WARP].done) flaw = "a product";
    }
    for (int i = 0; used && i < NAMED; i++) if (s.named[i].arrived) flaw = "an arrival at a named barrier";
    if (flaw) snprintf(text, sizeof text, "the block ends before something saw %s", flaw);
    return flaw ? text : NULL;
}

const cudasim_hopper hopper_units = {address, barrier_init, barrier_expect, barrier_arrive, barrier_wait, load_box,
                                     fence,   issue,        commit,         wait_products,  named,        put_word,
                                     publish};
