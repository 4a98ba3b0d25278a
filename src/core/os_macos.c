/* os_macos.c - what only macOS has: waiting on an address, performance cores, and where code was loaded from. */
#include "os_posix.h"

#include <crt_externs.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mach/mach.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysctl.h>
#include <unistd.h>

/* ---- threads ----
 * The system's own wait on an address is public from macOS 14.4 on only: here threads sleep in one of a few rows, by
 * the address.  A waker takes the row's lock, so it comes before the value is compared, or after the sleep began. */
enum { ROWS = 64 };
static struct row { pthread_mutex_t lock; pthread_cond_t woken; } rows[ROWS];

static void make_rows(void) {
    for (int i = 0; i < ROWS; i++) {
        pthread_mutex_init(&rows[i].lock, NULL);
        pthread_cond_init(&rows[i].woken, NULL);
    }
}

__attribute__((constructor)) static void make_rows_once(void) {
    make_rows();
    cr_os_at_fork_child(make_rows);
}

static struct row *row_of(volatile int *word) { return &rows[((uintptr_t)word >> 6) % ROWS]; }

void cr_os_sleep_on(volatile int *word, int value, double seconds) {
    struct row *r = row_of(word);
    const struct timespec wait = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    pthread_mutex_lock(&r->lock);
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
        if (seconds > 0) (void)pthread_cond_timedwait_relative_np(&r->woken, &r->lock, &wait);
        else pthread_cond_wait(&r->woken, &r->lock);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Others may sleep in the row: all wake, and those that were not meant sleep again. */
void cr_os_wake(volatile int *word, int threads) {
    (void)threads;
    struct row *r = row_of(word);
    pthread_mutex_lock(&r->lock);
    pthread_cond_broadcast(&r->woken);
    pthread_mutex_unlock(&r->lock);
}

/* Threads on the slow cores would keep the fast ones waiting at the end of each piece of work. */
int cr_os_cpu_count(void) {
    static const char *const names[] = {"hw.perflevel0.logicalcpu", "hw.logicalcpu"};
    for (int i = 0; i < 2; i++) {
        int n = 0;
        size_t bytes = sizeof n;
        if (!sysctlbyname(names[i], &n, &bytes, NULL, 0) && n > 0) return n;
    }
    return 1;
}

/* ---- memory ---- */
void *cr_os_pages(size_t bytes, bool huge) {
    enum { HUGE_PAGE = 2 << 20 };
    const size_t size = cr_posix_round(bytes), extra = huge ? HUGE_PAGE : 0;
    if (!size || size > SIZE_MAX - extra) return NULL;
    char *p = mmap(NULL, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!huge) return p;
    const size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    if (extra - before) munmap(p + before + size, extra - before);
    return p + before;
}

void cr_os_pages_free(void *p, size_t bytes) {
    if (p) munmap(p, cr_posix_round(bytes));
}

int64_t cr_os_peak_rss(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : (int64_t)u.ru_maxrss;              /* macOS counts bytes */
}

int64_t cr_os_free_memory(void) {
    vm_statistics64_data_t v;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&v, &n)) return INT64_MAX;
    return ((int64_t)v.free_count + v.inactive_count + v.purgeable_count) * (int64_t)sysconf(_SC_PAGESIZE);
}

/* ---- shared libraries ---- */
bool cr_posix_path_of(const void *code, char out[PATH_MAX]) {
    Dl_info info;
    return dladdr(code, &info) && realpath(info.dli_fname, out);
}

/* ---- randomness ---- */
uint64_t cr_os_entropy(void) {
    uint64_t bits = 0;
    return getentropy(&bits, sizeof bits) ? (uint64_t)time(NULL) * 0x9E3779B97F4A7C15u ^ (uint64_t)getpid() : bits;
}

/* ---- processes and sockets ---- */
void cr_posix_end_with_parent(void) { }

char **cr_posix_environment(void) { return *_NSGetEnviron(); }

static int own(int fd) {
    const int on = 1;
    if (fd < 0) return -1;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
    return fd;
}

void cr_posix_follow(int folder) { (void)folder; }
int cr_posix_socket(int family) { return own(socket(family, SOCK_STREAM, 0)); }
int cr_posix_accept(int listener) { return own(accept(listener, NULL, NULL)); }
