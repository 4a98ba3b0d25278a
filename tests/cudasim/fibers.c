/* fibers.c - the threads of a block on one thread of the host.
 *
 * A thread that never waits runs on the fiber of the thread before it.  A thread that waits keeps its
 * fiber, and another fiber runs the remaining threads.  So a kernel without barriers is a loop.  Under
 * the thread sanitizer each thread of the block is a fiber of the sanitizer, ordered by barriers only:
 * two accesses that no barrier separates are reported, whatever the schedule.  This file is never
 * instrumented. */
#include "fibers.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined CUDASIM_THREAD
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void *__tsan_get_current_fiber(void);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define ACQUIRE(address) __tsan_acquire(address)
#define RELEASE(address) __tsan_release(address)
#else
#define ACQUIRE(address) ((void)(address))
#define RELEASE(address) ((void)(address))
#endif
#if defined CUDASIM_ADDRESS
void __asan_unpoison_memory_region(const volatile void *address, size_t size);
void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *save, const void **bottom, size_t *size);
#endif

/* ---- switching: pushes the registers that a call must preserve; the others are dead */
void cudasim_switch(void **from, void *to);
void cudasim_start(void);
#if defined __x86_64__
__asm__(".text\n.globl cudasim_switch\n.type cudasim_switch,@function\n"
        "cudasim_switch:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
        "ret\n"
        ".globl cudasim_start\ncudasim_start: mov %r12, %rdi; call *%rbx; ud2\n");
/* words: r15 r14 r13 r12 rbx rbp, return address, alignment */
enum { SAVED = 9, ARGUMENT = 3, FUNCTION = 4, RETURN = 6 };
#elif defined __aarch64__
__asm__(".text\n.globl cudasim_switch\n.type cudasim_switch,@function\n"
        "cudasim_switch:\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]; stp x27, x28, "
        "[sp, #64]; stp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]\n"
        "mov x2, sp; str x2, [x0]; mov sp, x1\n"
        "ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]; ldp x27, x28, "
        "[sp, #64]; ldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n"
        ".globl cudasim_start\ncudasim_start: mov x0, x20; blr x19; brk #1\n");
enum { SAVED = 20, ARGUMENT = 1, FUNCTION = 0, RETURN = 11 };        /* words: x19 x20 ... x30, d8 ... d15 */
#else
#error "the simulator switches fibers on x86-64 and aarch64 only"
#endif

enum { STACK = 256 << 10, GUARD = 64 << 10 };       /* bytes; untouched pages cost nothing, a guard is at least one
                                                     * page */

typedef struct fiber {
    void *stack_pointer;
    const void *stack;                              /* without its guard */
    size_t stack_size;
    void *shadow;                                   /* the address sanitizer's */
    struct fiber *next;                             /* in the list of free ones */
} fiber;

typedef enum state { FRESH, READY, RUNNING, AT_BARRIER, AT_WARP, PARKED, DONE } state;
typedef struct thread {
    fiber *on;                                      /* while it waits */
    cudasim_dim index;
    state state;
    int kind, line, predicate, source;              /* of what it waits for */
    unsigned mask, accesses;
    unsigned long long value, result;
    char *passed;                                   /* the sanitizer's clock of the barrier that it passed */
    const char *what;                               /* PARKED: what it waits for, and where that is */
    unsigned at;
} thread;

static struct block {
    const cudasim_module *module;
    const cudasim_kernel *kernel;
    void *const *params;
    int size, done, arrived, at_warp;
    int current;                                    /* thread that runs */
    int ready[MAX_THREADS], first, count;           /* ring of threads that may run */
    unsigned blocks;                                /* that ran so far, of all launches */
    int generation;
    unsigned shared;                                /* bytes of dynamic shared memory */
    thread threads[MAX_THREADS];
} b;

static fiber home, *running = &home, *unused, *used;
static jmp_buf leave;                               /* for errors found by home itself */
static bool failed;
static char problem[512];
/* only their addresses matter */
static char clocks[2], warp_clocks[MAX_THREADS / WARP][2], start_clock, end_clock;
static int warp_generation[MAX_THREADS / WARP];
static enum { FORWARD, REVERSE, RANDOM } order;
static uint64_t chance;

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the choice of the next thread */
void fibers_order(const char *text) {
    order = !text || !strcmp(text, "forward") ? FORWARD : !strcmp(text, "reverse") ? REVERSE : RANDOM;
    if (order == RANDOM) chance = strtoull(text, NULL, 10) * 2 + 1;
}

static unsigned draw(unsigned n) {                  /* splitmix64 */
    uint64_t z = chance += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ z >> 31) % n);
}

/* From now on n more threads may run, in the chosen order. */
static void may_run(int *who, int n) {
    for (int i = n - 1; i > 0; i--) {
        const int j = order == RANDOM ? (int)draw((unsigned)i + 1) : order == REVERSE && i >= n / 2 ? n - 1 - i : i;
        const int swap = who[i];
        who[i] = who[j];
        who[j] = swap;
    }
    for (int i = 0; i < n; i++) b.ready[(b.first + b.count++) % MAX_THREADS] = who[i];
}

/* ---- fibers */
#if defined CUDASIM_ADDRESS
static fiber *came_from;
static void arrive(const fiber *f) {
    __sanitizer_finish_switch_fiber(f->shadow, &came_from->stack, &came_from->stack_size);
}
#endif

static void go(fiber *to, bool for_good) {
    fiber *from = running;
    if (from == to) return;
    running = to;
#if defined CUDASIM_ADDRESS
    came_from = from;
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->shadow, to->stack, to->stack_size);
    cudasim_switch(&from->stack_pointer, to->stack_pointer);
    arrive(from);
#else
    (void)for_good;
    cudasim_switch(&from->stack_pointer, to->stack_pointer);
#endif
}

static void work(void *unused_argument);

static fiber *new_fiber(void) {
    fiber *f = unused;
    if (f) unused = f->next;
    else {
        f = calloc(1, sizeof *f);
        char *stack = mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                           0);
        if (!f || stack == MAP_FAILED) fail("no memory for the stacks of a block");
        mprotect(stack, GUARD, PROT_NONE);
        f->stack = stack + GUARD;
        f->stack_size = STACK;
    }
#if defined CUDASIM_ADDRESS
    __asan_unpoison_memory_region(f->stack, STACK); /* its last user may not have returned */
    f->shadow = NULL;
#endif
    void **words = (void **)((uintptr_t)f->stack + STACK) - SAVED;
    memset(words, 0, SAVED * sizeof *words);
    words[ARGUMENT] = f;
    void (*begin)(void *) = work, (*start)(void) = cudasim_start;
    memcpy(&words[FUNCTION], &begin, sizeof begin);
    memcpy(&words[RETURN], &start, sizeof start);
    f->stack_pointer = words;
    return f;
}

static void discard(fiber *f) {
#if defined CUDASIM_THREAD
    f->next = used;                                 /* a stack serves one thread of a block: a second one would seem
                                                     * to race with the first */
    used = f;
#else
    f->next = unused;
    unused = f;
#endif
}

#if defined CUDASIM_THREAD
static void *sanitizer_fibers[MAX_THREADS], *sanitizer_home;
static void become(int t) {
    __tsan_switch_to_fiber(sanitizer_fibers[t], 1);                 /* 1: orders nothing */
}
static void become_home(void) { __tsan_switch_to_fiber(sanitizer_home, 1); }
#else
static void become(int t) { (void)t; }
static void become_home(void) {}
#endif

static void set_current(int t) {
    b.current = t;
    *b.module->thread = b.threads[t].index;
    become(t);
}

/* The next thread that may run, or home. */
static void leave_to_next(bool for_good) {
    if (!b.count) {
        become_home();
        go(&home, for_good);
        return;
    }
    const int t = b.ready[b.first];
    if (b.threads[t].state == FRESH) {
        go(new_fiber(), for_good);                  /* takes it from the ring itself */
        return;
    }
    b.first = (b.first + 1) % MAX_THREADS;
    b.count--;
    set_current(t);
    b.threads[t].state = RUNNING;
    go(b.threads[t].on, for_good);
}

static void work(void *self) {
#if defined CUDASIM_ADDRESS
    arrive(self);
#endif
    while (b.count && b.threads[b.ready[b.first]].state == FRESH) {
        const int t = b.ready[b.first];
        b.first = (b.first + 1) % MAX_THREADS;
        b.count--;
        b.threads[t].state = RUNNING;
        set_current(t);
        ACQUIRE(&start_clock);
        b.kernel->call(b.params);
        RELEASE(&end_clock);
        b.threads[b.current].state = DONE;
        b.done++;
#if defined CUDASIM_THREAD
        break;
#endif
    }
    discard(self);
    leave_to_next(true);
    abort();                                        /* no one switches back to a finished fiber */
}

/* ---- errors */
static _Noreturn void give_up(void) {
    failed = true;
    if (running == &home) longjmp(leave, 1);
    become_home();
    discard(running);
    go(&home, true);
    abort();
}

static const char *where(int t, char *text, size_t room) {
    const cudasim_dim i = b.threads[t].index, at = *b.module->block;
    snprintf(text, room, "thread (%u, %u, %u) of block (%u, %u, %u)", i.x, i.y, i.z, at.x, at.y, at.z);
    return text;
}

static _Noreturn void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = snprintf(problem, sizeof problem, "kernel '%s': ", b.kernel ? b.kernel->name : "?");
    vsnprintf(problem + n, sizeof problem - (size_t)n, format, args);
    va_end(args);
    give_up();
}

_Noreturn void fibers_fail(const char *format, ...) {
    char text[300], place[100];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail("%s: %s", where(b.current, place, sizeof place), text);
}

#if !defined CUDASIM_THREAD && !defined CUDASIM_ADDRESS
/* A kernel that accesses unmapped memory. */
static void caught(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    if (running == &home) {                         /* not in a kernel: the default action */
        signal(signal_number, SIG_DFL);
        return;
    }
    char text[100];
    fail("%s touches address %p, where it has no memory", where(b.current, text, sizeof text), info->si_addr);
}

static void watch(bool on) {
    static struct sigaction before[2];
    if (on) {
        static char stack[64 << 10];
        const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
        sigaltstack(&other, NULL);
        struct sigaction a = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
        a.sa_sigaction = caught;
        sigaction(SIGSEGV, &a, &before[0]);
        sigaction(SIGBUS, &a, &before[1]);
    } else {
        sigaction(SIGSEGV, &before[0], NULL);
        sigaction(SIGBUS, &before[1], NULL);
    }
}
#else
static void watch(bool on) { (void)on; }
#endif

/* ---- barriers of the block */
static void suspend(thread *t) {
    t->on = running;
    leave_to_next(false);
    if (t->passed) ACQUIRE(t->passed);
}

static void open_barrier(void) {
    int sum = 0, who[MAX_THREADS], n = 0;
    for (int i = 0; i < b.size; i++) sum += b.threads[i].predicate;
    for (int i = 0; i < b.size; i++) {
        thread *t = &b.threads[i];
        t->result = (unsigned long long)(t->kind == CUDASIM_AND  ? sum == b.size
                                         : t->kind == CUDASIM_OR ? sum != 0
                                                                 : sum);
        t->state = READY;
        t->passed = &clocks[b.generation & 1];
        who[n++] = i;
    }
    b.generation++;
    b.arrived = 0;
    may_run(who, n);
}

static int barrier(int kind, int predicate, int line) {
    thread *t = &b.threads[b.current];
    t->kind = kind;
    t->predicate = predicate;
    t->line = line;
    RELEASE(&clocks[b.generation & 1]);
    if (++b.arrived == b.size) {
        for (int i = 0; i < b.size; i++)
            if (b.threads[i].line != line || b.threads[i].kind != kind) {
                char one[100], two[100];
                fail("divergent barrier: %s is at the one of line %d, %s at that of line %d",
                     where(b.current, one, sizeof one), line, where(i, two, sizeof two), b.threads[i].line);
            }
        open_barrier();
    } else t->state = AT_BARRIER;
    suspend(t);
    return (int)t->result;
}

/* ---- warps: complete when every lane of the mask that has not ended arrived */
static void complete(int warp, unsigned mask) {
    int who[WARP], n = 0;
    unsigned votes = 0;
    thread *lanes = &b.threads[warp * WARP];
    for (int i = 0; i < WARP; i++)
        if (mask >> i & 1) votes |= (unsigned)(lanes[i].value != 0) << i;
    for (int i = 0; i < WARP; i++) {
        if (!(mask >> i & 1)) continue;
        thread *t = &lanes[i];
        char text[100];
        if (t->kind == CUDASIM_SHUFFLE && !(mask >> t->source & 1))
            fail("%s takes the value of lane %d in line %d, which takes no part (mask %#x)",
                 where(warp * WARP + i, text, sizeof text), t->source, t->line, t->mask);
        t->result = t->kind == CUDASIM_BALLOT ? votes : lanes[t->source].value;
        t->passed = t->kind == CUDASIM_SYNCWARP ? &warp_clocks[warp][warp_generation[warp] & 1] : NULL;
        who[n++] = warp * WARP + i;
    }
    for (int i = 0; i < n; i++) b.threads[who[i]].state = READY;
    warp_generation[warp] += lanes[__builtin_ctz(mask)].kind == CUDASIM_SYNCWARP;
    may_run(who, n);
}

/* Lanes of the mask that have not ended; *missing: those that are not at this call. */
static unsigned alive(int warp, unsigned mask, const thread *like, unsigned *missing) {
    unsigned here = 0;
    *missing = 0;
    for (int i = 0; i < WARP && warp * WARP + i < b.size; i++) {
        const thread *t = &b.threads[warp * WARP + i];
        if (!(mask >> i & 1) || t->state == DONE) continue;
        here |= 1u << i;
        if (t != like && (t->state != AT_WARP || t->mask != mask || t->kind != like->kind || t->line != like->line))
            *missing |= 1u << i;
    }
    return here;
}

static unsigned long long warp(int kind, unsigned mask, unsigned long long value, int source, int line) {
    thread *t = &b.threads[b.current];
    const int w = b.current / WARP, lane = b.current % WARP;
    char text[100];
    if (!(mask >> lane & 1))
        fail("%s is not in its own mask %#x in line %d", where(b.current, text, sizeof text), mask, line);
    t->kind = kind;
    t->mask = mask;
    t->value = value;
    t->source = source;
    t->line = line;
    if (kind == CUDASIM_SYNCWARP) RELEASE(&warp_clocks[w][warp_generation[w] & 1]);
    unsigned missing;
    const unsigned here = alive(w, mask, t, &missing);
    if (missing) t->state = AT_WARP;
    else complete(w, here);
    suspend(t);
    return t->result;
}

static int lane(void) { return b.current % WARP; }
static void trap(int line) {
    char text[100];
    fail("%s is trapped in line %d", where(b.current, text, sizeof text), line);
}

static void misaligned(const void *at) {
    char text[100];
    fail("%s touches %p, which is not aligned", where(b.current, text, sizeof text), at);
}

static void touch(const void *at, unsigned long bytes, int write) {
    fibers_access(at, bytes, write, b.blocks, (unsigned)b.current / WARP, b.threads[b.current].accesses++);
}

static const cudasim_runtime runtime = {barrier, warp, lane, trap, misaligned, printf, touch, &hopper_units};

/* ---- for hopper.c */
fibers_block fibers_here(void) {
    const cudasim_module *m = b.module;
    return (fibers_block){m->dynamic, b.shared, b.size, m->specific && m->architecture == 90, b.generation};
}
int fibers_current(void) { return b.current; }
void fibers_park(const char *what, unsigned at, char *passed) {
    thread *t = &b.threads[b.current];
    t->state = PARKED;
    t->what = what, t->at = at, t->passed = passed;
    suspend(t);
}
void fibers_wake(const int *who, int n) {
    int in_order[MAX_THREADS];
    for (int i = 0; i < n; i++) {
        b.threads[who[i]].state = READY;
        ((volatile int *)in_order)[i] = who[i];     /* no memcpy, which the thread sanitizer would see */
    }
    may_run(in_order, n);
}
void fibers_release(char *clock) { RELEASE(clock); }
void fibers_acquire(char *clock) { ACQUIRE(clock); }
void fibers_meet(void) { warp(CUDASIM_BALLOT, 0xffffffffu, 1, b.current % WARP, 0); }
int fibers_reversed(void) { return order == REVERSE; }
int fibers_chance(int *eager) {
    if (order != RANDOM) return 0;
    *eager = (int)draw(2);
    return 1;
}

/* Shared memory is uninitialised when a block begins. */
static void forget(char *from, const char *to) {
    for (volatile char *p = from; p < to; p++) *p = -1;
}

/* ---- a block */
/* No thread can run though not all have ended: a lane ended that others wait for, or they wait for ever. */
static void unblock(void) {
    int stuck = -1, ended = -1, parked = -1;
    if (hopper_progress()) return;
    for (int i = 0; i < b.size; i++) {
        thread *t = &b.threads[i];
        if (t->state == DONE) ended = i;
        if (t->state == PARKED) parked = i;
        if (t->state != AT_WARP && t->state != AT_BARRIER) continue;
        unsigned missing = 1;
        const unsigned here = t->state == AT_WARP ? alive(i / WARP, t->mask, t, &missing) : 0;
        if (!missing) {
            complete(i / WARP, here);
            return;
        }
        if (stuck < 0 || (t->state == AT_WARP && b.threads[stuck].state != AT_WARP)) stuck = i;
    }
    char one[100], two[100];
    if (parked >= 0)
        fail("%s waits for %s %#x for ever", where(parked, one, sizeof one), b.threads[parked].what,
             b.threads[parked].at);
    const thread *t = &b.threads[stuck];
    where(stuck, one, sizeof one);
    for (int i = 0; i < b.size; i++) {
        const thread *o = &b.threads[i];
        if (t->state == AT_BARRIER ? o->state == AT_BARRIER
                                   : i / WARP != stuck / WARP || !(t->mask >> i % WARP & 1) ||
                                         (o->state == AT_WARP && o->line == t->line && o->mask == t->mask))
            continue;
        if (o->state == DONE && ended != i && t->state != AT_BARRIER) continue;
        where(i, two, sizeof two);
        if (o->state == DONE) fail("%s waits in line %d for %s, which has ended", one, t->line, two);
        fail("%s waits in line %d (mask %#x) for %s, which waits in line %d (mask %#x)", one, t->line,
             t->state == AT_WARP ? t->mask : ~0u, two, o->line, o->state == AT_WARP ? o->mask : ~0u);
    }
    fail("%s waits in line %d for ever", one, t->line);
}

/* After an error: threads that wait are never continued. */
static void abandon(void) {
    for (int i = 0; i < b.size; i++) {
        const state s = b.threads[i].state;
        if (s == READY || s == AT_BARRIER || s == AT_WARP || s == PARKED) discard(b.threads[i].on);
#if defined CUDASIM_THREAD
        if (!sanitizer_fibers[i]) continue;
        become(i);
        RELEASE(&end_clock);
        become_home();
        __tsan_destroy_fiber(sanitizer_fibers[i]);
        sanitizer_fibers[i] = NULL;
#endif
    }
}

static void run_block(cudasim_dim at) {
    b.done = b.arrived = b.first = b.count = 0;
    *b.module->block = at;
    b.blocks++;
    int who[MAX_THREADS];
    for (int i = 0; i < b.size; i++) {
        b.threads[i].state = FRESH;
        b.threads[i].predicate = 0;
        b.threads[i].accesses = 0;
        who[i] = i;
    }
    may_run(who, b.size);
    RELEASE(&start_clock);
    hopper_begin();
    if (!setjmp(leave)) {
        while (!failed && b.done < b.size) {
            if (!b.count) unblock();
            if (b.count) leave_to_next(false);
        }
        if (!failed && hopper_flaw()) fail("%s", hopper_flaw());
    }
    if (failed) abandon();
    while (used) {
        fiber *f = used;
        used = f->next;
        f->next = unused;
        unused = f;
    }
    ACQUIRE(&end_clock);
}

const char *fibers_run(const cudasim_module *m, const cudasim_kernel *k, void *const *params, cudasim_dim blocks,
                       cudasim_dim threads, unsigned shared) {
    b.module = m;
    b.kernel = k;
    b.params = params;
    b.shared = shared;
    b.size = 0;
    *m->threads = threads;
    *m->blocks = blocks;
    *m->runtime = &runtime;
    cudasim_dim at;
    for (at.z = 0; at.z < threads.z; at.z++)
        for (at.y = 0; at.y < threads.y; at.y++)
            for (at.x = 0; at.x < threads.x; at.x++) b.threads[b.size++].index = at;
#if defined CUDASIM_THREAD
    sanitizer_home = __tsan_get_current_fiber();
    for (int i = 0; i < b.size; i++)                /* home creates all of them: the sanitizer orders a fiber after
                                                     * the earlier actions of its creator */
        if (!sanitizer_fibers[i]) sanitizer_fibers[i] = __tsan_create_fiber(0);
#endif
    failed = false;
    watch(true);
    for (at.z = 0; at.z < blocks.z && !failed; at.z++)
        for (at.y = 0; at.y < blocks.y && !failed; at.y++)
            for (at.x = 0; at.x < blocks.x && !failed; at.x++) {
                forget(m->shared, m->dynamic + shared);
                run_block(at);
            }
    watch(false);
    return failed ? problem : NULL;
}
