/* os_linux.c - what only Linux has: futexes, affinity, control groups, huge pages, where code was loaded from. */
#include "os_posix.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- threads ---- */
void cr_os_sleep_on(volatile int *word, int value, double seconds) {
    const struct timespec wait = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, seconds > 0 ? &wait : NULL, NULL, 0);
}

void cr_os_wake(volatile int *word, int threads) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* ---- how many processors this process may use ---- */
static int affinity_count(void) {
    for (int room = 1024; room <= 1 << 20; room *= 2) {        /* the kernel refuses a set smaller than its own */
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        if (!set) break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)room);
        int failed = sched_getaffinity(0, bytes, set), n = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (!failed) return n > 0 ? n : 1;
        if (errno != EINVAL) break;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < INT_MAX ? (int)n : 1;
}

/* Reads one short line; false when the file is not there. */
static bool read_line(const char *path, char *line, int room) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(line, room, f) != NULL;
    fclose(f);
    return ok;
}

/* The quota of one cgroup folder in processors, or no_quota.  v2: "quota period" or "max period" in cpu.max. */
static const double no_quota = INFINITY;

static double quota_of(const char *folder, bool v2) {
    char path[PATH_MAX], line[128];
    double quota = -1, period = 0;
    if (v2) {
        if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path ||
            !read_line(path, line, sizeof line))
            return no_quota;
        if (sscanf(line, "%lf %lf", &quota, &period) != 2) return no_quota;
    } else {
        if (snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder) >= (int)sizeof path ||
            !read_line(path, line, sizeof line))
            return no_quota;
        quota = strtod(line, NULL);
        if (snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder) >= (int)sizeof path ||
            !read_line(path, line, sizeof line))
            return no_quota;
        period = strtod(line, NULL);
    }
    return quota > 0 && period > 0 ? quota / period : no_quota;
}

/* The least value of a cgroup and its ancestors.  In a container the path may be the host's and not
 * exist: the root is read too. */
static double least_up(const char *root, const char *group, bool v2, double (*value_of)(const char *folder, bool v2)) {
    char folder[PATH_MAX];
    double least = value_of(root, v2);
    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder) return least;
    for (size_t shortest = strlen(root); strlen(folder) > shortest; *strrchr(folder, '/') = 0) {
        double q = value_of(folder, v2);
        if (q < least) least = q;
    }
    return least;
}

static bool lists(const char *controllers, const char *name) { /* "cpu,cpuacct": is one of them "cpu"? */
    const size_t n = strlen(name);
    for (const char *p = controllers; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
        if (!strncmp(p, name, n) && (p[n] == ',' || p[n] == 0)) return true;
    return false;
}

/* The least value over this process's cgroups of a controller: "cpu", "memory". */
static double cgroup_least(const char *controller, double (*value_of)(const char *folder, bool v2)) {
    double least = INFINITY;
    char line[PATH_MAX + 256], v1[64];
    snprintf(v1, sizeof v1, "/sys/fs/cgroup/%s", controller);
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) return least;
    /* "number:controllers:path"; v2 has number 0 and no controllers */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = 0; *group++ = 0;
        bool v2 = !*controllers;
        if (!v2 && !lists(controllers, controller)) continue;
        double q = least_up(v2 ? "/sys/fs/cgroup" : v1, *group == '/' && group[1] ? group : "", v2, value_of);
        if (q < least) least = q;
    }
    fclose(f);
    return least;
}

/* The quota is rounded down: a thread beyond it would be stopped in the middle of a chunk while the others wait. */
int cr_os_cpu_count(void) {
    int n = affinity_count();
    double quota = cgroup_least("cpu", quota_of);
    if (quota < n) n = quota < 1 ? 1 : (int)quota;
    return n;
}

/* ---- memory ---- */
enum { HUGE_PAGE = 2 << 20 };

void *cr_os_pages(size_t bytes, bool huge) {
    size_t size = cr_posix_round(bytes), extra = huge ? HUGE_PAGE : 0;
    if (!size || size > SIZE_MAX - extra) return NULL;
    char *p = mmap(NULL, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!huge) return p;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    if (extra - before) munmap(p + before + size, extra - before);
    p += before;
    (void)madvise(p, size, MADV_HUGEPAGE);                     /* only a hint: small pages work too */
    return p;
}

void cr_os_pages_free(void *p, size_t bytes) {
    if (p) munmap(p, cr_posix_round(bytes));
}

int64_t cr_os_peak_rss(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : (int64_t)u.ru_maxrss * 1024;       /* Linux counts KiB */
}

/* The number behind a name in a file of "name number" lines; name "": the file's only one. */
static double number_in(const char *folder, const char *file, const char *name) {
    char path[PATH_MAX], line[160];
    const size_t n = strlen(name);
    double value = NAN;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return NAN;
    FILE *f = fopen(path, "re");
    while (f && isnan(value) && fgets(line, sizeof line, f))
        if (!strncmp(line, name, n)) sscanf(line + n, "%lf", &value);
    if (f) fclose(f);
    return value;
}

/* What a cgroup's limit leaves; pages of files that are not in use make room. */
static double room_of(const char *folder, bool v2) {
    const double limit = number_in(folder, v2 ? "memory.max" : "memory.limit_in_bytes", ""),
                 used = number_in(folder, v2 ? "memory.current" : "memory.usage_in_bytes", ""),
                 files = number_in(folder, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ");
    return isnan(limit) || isnan(used) ? INFINITY : limit - used + (isnan(files) ? 0 : files);
}

int64_t cr_os_free_memory(void) {
    struct rlimit limit;
    double room = 1024 * (number_in("/proc", "meminfo", "MemAvailable:") + number_in("/proc", "meminfo", "SwapFree:"));
    room = fmin(room, cgroup_least("memory", room_of));
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
        room = fmin(room, (double)limit.rlim_cur - 1024 * number_in("/proc/self", "status", "VmSize:"));
    return room > 0 && room < 0x1p62 ? (int64_t)room : room > 0 ? INT64_MAX : 0;
}

/* ---- shared libraries ---- */
/* The file that code was loaded from: a shared library, or the program it is linked into (whose name
 * need not be a path). */
bool cr_posix_path_of(const void *code, char out[PATH_MAX]) {
    Dl_info ours, program;
    /* the program's own headers: part of its first segment */
    const bool inside = dladdr((const void *)getauxval(AT_PHDR), &program);
    if (dladdr(code, &ours) && !(inside && ours.dli_fbase == program.dli_fbase) && realpath(ours.dli_fname, out))
        return true;
    return realpath("/proc/self/exe", out) != NULL;
}

/* ---- randomness ---- */
uint64_t cr_os_entropy(void) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) == (ssize_t)sizeof bits) return bits;
    struct timespec t;                              /* a sandbox without the system call */
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec << 30 ^ (uint64_t)t.tv_nsec) * 0x9E3779B97F4A7C15u ^ (uint64_t)getpid();
}

/* ---- processes and sockets ---- */
void cr_posix_end_with_parent(void) { (void)prctl(PR_SET_PDEATHSIG, SIGTERM); }
char **cr_posix_environment(void) { return environ; }
void cr_posix_follow(int folder) { (void)folder; }
int  cr_posix_socket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0); }
int  cr_posix_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC); }
