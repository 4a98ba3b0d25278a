/* mpi_fails.c - an MPI whose call number FAILS_AT fails on rank FAILS_ON, or with FAILS_KILL kills it; all others go to
 * the library FAILS_REAL.  Calls of MPI_Test that find nothing are not counted.  On rank FAILS_TOO the last collective
 * call that rank FAILS_ON ended fails, after a while in which the other ranks end it.  With FAILS_FLIP=n, a broadcast
 * of n bytes or more arrives on rank FAILS_ON with one bit changed.  With FAILS_SLOW=ms, each MPI_Iallgatherv begins
 * so much later.
 *
 * Every argument is a word, so one prototype passes all of them on. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OTHER = 16 };                                /* some error code */
typedef long call(long, long, long, long, long, long, long, long, long, long);

static call *real(const char *name) {
    static void *library;
    if (!library) library = dlopen(getenv("FAILS_REAL"), RTLD_NOW | RTLD_GLOBAL);
    void *f = library ? dlsym(library, name) : NULL;
    if (!f) { fprintf(stderr, "mpi_fails: no %s: %s\n", name, dlerror()); exit(1); }
    call *c;
    memcpy(&c, &f, sizeof c);
    return c;
}

static int is_on(const char *name) {
    const char *rank = getenv("PMI_RANK"), *on = getenv(name);
    if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank && on && !strcmp(rank, on);
}

static long calls;

static int fails(void) {
    if (++calls != atol(getenv("FAILS_AT")) || !is_on("FAILS_ON")) return 0;
    if (getenv("FAILS_KILL")) raise(SIGKILL);
    return 1;
}

static int over;                                    /* rank FAILS_TOO has failed, or the others have */

/* An MPI_Test has ended its request.  Does it fail on rank FAILS_TOO? */
static int fails_too(void) {
    if (!is_on("FAILS_TOO") || over || calls < atol(getenv("FAILS_AT")) - 1) return 0;
    usleep(100 * 1000);
    return over = 1;
}

#define PASS(name) \
    long MPI_##name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j); \
    long MPI_##name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) { \
        return fails() ? OTHER : real("MPI_" #name)(a, b, c, d, e, f, g, h, i, j); \
    }

PASS(Init_thread) PASS(Initialized) PASS(Finalized) PASS(Query_thread) PASS(Comm_rank) PASS(Comm_size) PASS(Comm_idup)
PASS(Comm_free) PASS(Comm_set_errhandler) PASS(Ibarrier) PASS(Iallgather) PASS(Ialltoallv) PASS(Iallreduce)

long MPI_Iallgatherv(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);
long MPI_Iallgatherv(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
    const char *slow = getenv("FAILS_SLOW");
    if (slow) usleep((useconds_t)(1000 * atol(slow)));
    return fails() ? OTHER : real("MPI_Iallgatherv")(a, b, c, d, e, f, g, h, i, j);
}

#define ALWAYS(name) \
    long MPI_##name(long a, long b, long c); \
    long MPI_##name(long a, long b, long c) { return real("MPI_" #name)(a, b, c, 0, 0, 0, 0, 0, 0, 0); }

ALWAYS(Finalize) ALWAYS(Abort) ALWAYS(Get_library_version) ALWAYS(Error_string)

static char *flipped;                               /* the broadcast under way */
long MPI_Ibcast(char *data, int n, long type, long root, long comm, long request);
long MPI_Ibcast(char *data, int n, long type, long root, long comm, long request) {
    const char *least = getenv("FAILS_FLIP");
    flipped = least && is_on("FAILS_ON") && n >= atoi(least) ? data : NULL;
    return fails() ? OTHER : real("MPI_Ibcast")((long)data, n, type, root, comm, request, 0, 0, 0, 0);
}

long MPI_Test(long request, int *done, long status);
long MPI_Test(long request, int *done, long status) {
    const long code = real("MPI_Test")(request, (long)done, status, 0, 0, 0, 0, 0, 0, 0);
    if (!code && !*done) return 0;
    if (!code && flipped) { *flipped ^= 1; flipped = NULL; }
    const int here = fails(), too = fails_too();
    return code ? code : here || too ? OTHER : 0;
}

long MPIX_Comm_shrink(long comm, long rest);
long MPIX_Comm_shrink(long comm, long rest) {
    over = 1;
    return real("MPIX_Comm_shrink")(comm, rest, 0, 0, 0, 0, 0, 0, 0, 0);
}
