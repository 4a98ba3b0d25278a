/* os_posix.c - the platform, as far as Linux and macOS share it: threads, libraries, time, files, terminal, processes,
 * sockets.  os_linux.c and os_macos.c have what differs. */
#include "os_posix.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef O_PATH
#define O_PATH 0
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0                              /* cr_posix_socket sees to it */
#endif

/* ---- threads ---- */
struct cr_thread { pthread_t id; pid_t process; void (*fn)(void *); void *arg; };
struct cr_mutex { pthread_mutex_t m; int process; };      /* process: which m was made in */
struct cr_cond { pthread_cond_t c; };

static void *thread_main(void *p) {
    const cr_thread *t = p;
    t->fn(t->arg);
    return NULL;
}

/* The pool's threads take no asynchronous signals: Ctrl-C goes to the program's own threads. */
static void block_signals(sigset_t *old) {
    static const int of_the_thread_itself[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF};
    sigset_t block;
    sigfillset(&block);
    for (size_t i = 0; i < sizeof of_the_thread_itself / sizeof *of_the_thread_itself; i++)
        sigdelset(&block, of_the_thread_itself[i]);
    pthread_sigmask(SIG_BLOCK, &block, old);
}

/* Some systems give threads 128 KiB. */
static int start(pthread_t *id, void *(*body)(void *), void *arg) {
    enum { STACK = 4 << 20 };
    pthread_attr_t how;
    size_t stack = STACK;
    if (pthread_attr_init(&how)) return -1;
    if (!pthread_attr_getstacksize(&how, &stack) && stack < STACK) (void)pthread_attr_setstacksize(&how, STACK);
    const int failed = pthread_create(id, &how, body, arg);
    pthread_attr_destroy(&how);
    return failed;
}

static bool create(pthread_t *id, void *(*body)(void *), cr_thread *t) {
    sigset_t old;
    block_signals(&old);
    const int failed = start(id, body, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) free(t);
    return !failed;
}

static cr_thread *thread_of(void (*fn)(void *), void *arg) {
    cr_thread *t = malloc(sizeof *t);
    if (t) *t = (cr_thread){.process = getpid(), .fn = fn, .arg = arg};
    return t;
}

cr_thread *cr_thread_start(void (*fn)(void *), void *arg) {
    cr_thread *t = thread_of(fn, arg);
    return t && create(&t->id, thread_main, t) ? t : NULL;
}

static void *detached_main(void *p) {
    const cr_thread t = *(cr_thread *)p;
    free(p);
    pthread_detach(pthread_self());
    t.fn(t.arg);
    return NULL;
}

bool cr_thread_detached(void (*fn)(void *), void *arg) {
    cr_thread *t = thread_of(fn, arg);
    pthread_t id;
    return t && create(&id, detached_main, t);
}

void cr_thread_join(cr_thread *t) {
    if (!t) return;
    /* after a fork the child has only the memory, not the thread */
    if (t->process == getpid()) pthread_join(t->id, NULL);
    free(t);
}

/* Locks and forks.  The child of a fork has only the thread that forked: a lock that another thread held stays held.
 * Every lock therefore knows the process that took it, and the child takes a lock of its parent as if it were free.
 * The processes of a line of forks count from 1; a held lock is twice the number, plus 1 where threads may sleep. */
static volatile int generation = 1;
static void count_fork(void) { generation++; }
__attribute__((constructor)) static void watch_forks(void) { cr_os_at_fork_child(count_fork); }

static int held(void) { return 2 * __atomic_load_n(&generation, __ATOMIC_RELAXED); }
static bool is_held(int word, int by) { return word >> 1 == by >> 1; }

cr_mutex *cr_mutex_new(void) {
    cr_mutex *m = malloc(sizeof *m);
    if (m && pthread_mutex_init(&m->m, NULL)) { free(m); return NULL; }
    if (m) m->process = held();
    return m;
}

void cr_mutex_free(cr_mutex *m) {
    if (!m) return;
    pthread_mutex_destroy(&m->m);
    free(m);
}

static void renew(cr_mutex *m) {
    static cr_spinlock one;
    cr_spin_lock(&one);
    if (m->process != held()) {
        pthread_mutex_init(&m->m, NULL);
        __atomic_store_n(&m->process, held(), __ATOMIC_RELEASE);
    }
    cr_spin_unlock(&one);
}

void cr_mutex_lock(cr_mutex *m) {
    if (__atomic_load_n(&m->process, __ATOMIC_ACQUIRE) != held()) renew(m);
    pthread_mutex_lock(&m->m);
}
void cr_mutex_unlock(cr_mutex *m) { pthread_mutex_unlock(&m->m); }

cr_cond *cr_cond_new(void) {
    cr_cond *c = malloc(sizeof *c);
    if (c && pthread_cond_init(&c->c, NULL)) { free(c); return NULL; }
    return c;
}

void cr_cond_free(cr_cond *c) {
    if (!c) return;
    pthread_cond_destroy(&c->c);
    free(c);
}

void cr_cond_wait(cr_cond *c, cr_mutex *m) { pthread_cond_wait(&c->c, &m->m); }
void cr_cond_signal_all(cr_cond *c) { pthread_cond_broadcast(&c->c); }

void cr_os_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

/* The holder may have lost its processor: after a while the waiting thread yields. */
void cr_spin_lock(cr_spinlock *l) {
    const int ours = held();
    int seen = 0;
    int tries = 0;
    while (!__atomic_compare_exchange_n(&l->held, &seen, ours, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        for (; is_held(seen, ours); seen = __atomic_load_n(&l->held, __ATOMIC_RELAXED)) {
            if (++tries < 100) cr_os_relax();
            else sched_yield();
        }
}

void cr_spin_unlock(cr_spinlock *l) { __atomic_store_n(&l->held, 0, __ATOMIC_RELEASE); }

void cr_word_lock(volatile int *word) {
    const int ours = held();
    int seen = 0, wanted = ours;
    for (;;) {
        if (!is_held(seen, ours)) {                 /* free, or the parent's */
            if (__atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
            continue;
        }
        wanted = ours + 1;                          /* from here on other threads may sleep too */
        if (seen == wanted ||
            __atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            cr_os_sleep_on(word, wanted, 0);
            seen = __atomic_load_n(word, __ATOMIC_RELAXED);
        }
    }
}

void cr_word_unlock(volatile int *word) {
    if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) & 1) cr_os_wake(word, 1);
}

void cr_os_wake_all(volatile int *word) { cr_os_wake(word, INT_MAX); }

int64_t cr_os_process_id(void) { return (int64_t)getpid(); }

void cr_os_host_name(char *out, size_t room) {
    if (gethostname(out, room)) snprintf(out, room, "unknown");
    out[room - 1] = 0;
}

void cr_os_leave(int code) { _exit(code); }

void cr_os_before_fork(void (*fn)(void)) { (void)pthread_atfork(fn, NULL, NULL); }
void cr_os_at_fork_child(void (*fn)(void)) { (void)pthread_atfork(NULL, NULL, fn); }

static pthread_key_t exit_key;
enum { EXIT_FNS = 4 };
static void (*exit_fns[EXIT_FNS])(void);            /* filled from the front */
static void run_at_exit(void *set) {
    (void)set;
    for (int i = 0; i < EXIT_FNS; i++) {
        void (*fn)(void) = __atomic_load_n(&exit_fns[i], __ATOMIC_ACQUIRE);
        if (fn) fn();
    }
}
static void make_exit_key(void) { (void)pthread_key_create(&exit_key, run_at_exit); }

void cr_os_at_thread_exit(void (*fn)(void)) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    for (int i = 0; i < EXIT_FNS; i++) {
        void (*there)(void) = NULL;
        if (__atomic_compare_exchange_n(&exit_fns[i], &there, fn, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            there == fn)
            break;
    }
    pthread_once(&once, make_exit_key);
    (void)pthread_setspecific(exit_key, &exit_key);
}

/* ---- memory ---- */
size_t cr_posix_round(size_t bytes) {                   /* 0: does not fit */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!bytes) bytes = 1;
    return bytes > SIZE_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

void *cr_os_aligned(size_t alignment, size_t bytes) {
    const size_t whole = bytes / alignment * alignment + (bytes % alignment ? alignment : 0);
    return whole < bytes ? NULL : aligned_alloc(alignment, whole);
}

void cr_os_aligned_free(void *p) { free(p); }

/* ---- shared libraries ---- */
void *cr_os_open_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
void *cr_os_loaded_library(const char *name) { return dlopen(name, RTLD_NOW | RTLD_NOLOAD); }
void *cr_os_symbol(void *library, const char *name) { return dlsym(library, name); }

bool cr_os_share_library(const void *symbol, char *path, size_t room) {
    Dl_info info;
    if (!dladdr(symbol, &info) || !info.dli_fname) return false;
    snprintf(path, room, "%s", info.dli_fname);
    void *again = dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    return again != NULL;                           /* the reference is kept: the library stays */
}

int cr_os_directory_of(const void *code, char *out, size_t room) {
    static const char ours;                         /* an address in this library */
    char path[PATH_MAX];
    if (!cr_posix_path_of(code ? code : &ours, path)) return 0;
    char *slash = strrchr(path, '/');
    if (!slash) return 0;
    slash[slash == path] = 0;                                  /* "/x" lies in "/" */
    size_t n = strlen(path);
    if (n >= room) return 0;
    memcpy(out, path, n + 1);
    return (int)n;
}

/* ---- time ---- */
double cr_os_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cr_os_timestamp(char out[32]) {
    time_t now = time(NULL);
    struct tm tm;
    if (!gmtime_r(&now, &tm) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm)) *out = 0;
}

bool cr_os_local_time(time_t seconds, struct tm *out) { return localtime_r(&seconds, out) != NULL; }

void cr_os_sleep(double seconds) {
    if (!(seconds > 0)) return;
    if (seconds > 1e9) seconds = 1e9;
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR) { }
}

/* ---- files ---- */
static _Thread_local char error_text[384];

enum { NOT_REGULAR = -1 };                          /* in addition to errno's codes */

/* strerror_r returns the text (glibc), or a status with the text in `buffer` (POSIX, musl). */
#define TEXT_OF(call) _Generic((call), char *: (call), int: ((void)(call), buffer))

static bool failed(int code) {
    char buffer[sizeof error_text];
    snprintf(error_text, sizeof error_text, "%s",
             code == NOT_REGULAR ? "Not a regular file" : TEXT_OF(strerror_r(code, buffer, sizeof buffer)));
    return false;
}

static int kind_error(const struct stat *st) {
    return S_ISREG(st->st_mode) ? 0 : S_ISDIR(st->st_mode) ? EISDIR : NOT_REGULAR;
}

const char *cr_os_error(void) { return error_text; }

/* The library's own names: folders of a save under way, and temporary files, ".chainrule-PROCESS-NUMBER.tmp". */
bool cr_os_is_temporary(const char *name) {
    int end = 0;
    return sscanf(name, ".chainrule-%*[0-9]-%*[0-9].tmp%n", &end) == 0 && end && !name[end];
}

static bool is_own(const char *name) {
    static const char *const folders[] = {"new", "ready", "commit", "old"};
    if (strncmp(name, ".chainrule-", 11)) return false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) if (!strcmp(name + 11, folders[i])) return true;
    return cr_os_is_temporary(name);
}

/* Where a path leads: `name` in `folder`.  A folder of the user's may be a link.  From the first name of the library's
 * own on nothing is followed, since a link there was not made by a save. */
typedef struct location { int folder; const char *name; bool own; } location;

static int open_folder(int at, const char *from, const char *to, int flags) {
    char part[PATH_MAX];
    if (to - from >= PATH_MAX) return errno = ENAMETOOLONG, -1;
    snprintf(part, sizeof part, "%.*s", (int)(to - from), from);
    return openat(at, from == to ? "." : part, O_PATH | O_DIRECTORY | O_CLOEXEC | flags);
}

/* False: errno says why. */
static bool locate(const char *path, location *p) {
    *p = (location){AT_FDCWD, path, false};
    for (const char *from = path, *to; *from; from = to + (*to == '/')) {
        char name[NAME_MAX + 1];
        to = from + strcspn(from, "/");
        if (to - from > NAME_MAX) return errno = ENAMETOOLONG, false;
        snprintf(name, sizeof name, "%.*s", (int)(to - from), from);
        if (!p->own && !is_own(name)) continue;
        if (!p->own && (p->folder = open_folder(AT_FDCWD, path, from, 0)) < 0) return false;
        *p = (location){p->folder, from, true};
        if (!*to) return true;
        const int inner = open_folder(p->folder, from, to, O_NOFOLLOW), code = errno;
        close(p->folder);
        if (inner < 0) return errno = code, false;
        *p = (location){inner, ".", true};             /* the path may end in a slash */
    }
    return true;
}

/* Closes the location; keeps errno. */
static int leave(location *p, int result) {
    const int code = errno;
    if (p->folder >= 0) close(p->folder);
    errno = code;
    return result;
}

static int open_at(const char *path, int flags) {
    location p;
    if (!locate(path, &p)) return -1;
    if (!p.own) return open(path, flags | O_CLOEXEC);
    return leave(&p, openat(p.folder, p.name, flags | O_CLOEXEC | O_NOFOLLOW));
}

static bool stat_at(const char *path, struct stat *st) {
    location p;
    return locate(path, &p) && !leave(&p, fstatat(p.folder, p.name, st, p.own ? AT_SYMLINK_NOFOLLOW : 0));
}

static cr_file_id id_of(const struct stat *st) { return (cr_file_id){(uint64_t)st->st_dev, (uint64_t)st->st_ino}; }

static bool map_file(const char *path, int protection, int flags, cr_mapping *m) {
    *m = (cr_mapping){0};
    int fd = open_at(path, O_RDONLY | O_NONBLOCK);             /* a pipe without a writer must not hang */
    if (fd < 0) return failed(errno);
    struct stat st;
    int code = fstat(fd, &st) ? errno : kind_error(&st);
    void *p = code || !st.st_size ? NULL : mmap(NULL, (size_t)st.st_size, protection, MAP_PRIVATE | flags, fd, 0);
    if (p == MAP_FAILED) code = errno;
    close(fd);
    if (code) return failed(code);
    *m = (cr_mapping){p ? p : "", (size_t)st.st_size, id_of(&st)};
    return true;
}

cr_file_id cr_os_file_id(const char *path) {
    struct stat st;
    return stat_at(path, &st) ? id_of(&st) : (cr_file_id){0};
}

bool cr_os_map(const char *path, cr_mapping *m) { return map_file(path, PROT_READ, 0, m); }
bool cr_os_map_private(const char *path, cr_mapping *m) {
    return map_file(path, PROT_READ | PROT_WRITE, MAP_NORESERVE, m);
}

void cr_os_unmap(cr_mapping *m) {
    if (m->bytes) munmap((void *)(uintptr_t)m->data, m->bytes);
    *m = (cr_mapping){0};
}

/* The folder of path, with its slash: "" for a bare name. */
static int folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

/* The folder that is open as `held`, for readdir. */
static DIR *again(int held) {
    const int fd = openat(held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) close(fd);
    return d;
}

/* Removes temporary files of processes that were killed: each is locked as long as its writer lives. */
static void remove_stale(int folder) {
    DIR *d = again(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!cr_os_is_temporary(e->d_name)) continue;
        const int fd = openat(folder, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB))
            (void)unlinkat(folder, e->d_name, 0);
        close(fd);
    }
    if (d) closedir(d);
}

/* A locked, empty file; -1: errno says why, EEXIST: another name is needed. */
static int create_locked(int folder, const char *name, mode_t mode) {
    struct stat st;
    const int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) return -1;
    /* another process may take it for a stale one before it is locked */
    const bool lost = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (!lost && !fstat(fd, &st) && st.st_nlink) return fd;
    close(fd);
    return errno = EEXIST, -1;
}

/* The new file gets the owner and the mode of the one that it replaces. */
static void take_mode(int fd, const struct stat *old) {
    if (fchown(fd, old->st_uid, old->st_gid) && fchown(fd, (uid_t)-1, old->st_gid)) { /* only root may */ }
    (void)fchmod(fd, old->st_mode & 0777);
}

FILE *cr_os_create_beside(const char *path, char *temporary, size_t room) {
    static atomic_uint counter;
    struct stat st;
    location p;
    if (!*path || path[strlen(path) - 1] == '/') return failed(EISDIR), NULL;
    const bool old = stat_at(path, &st);
    /* a rename would replace a device by a file */
    if (old && kind_error(&st)) return failed(kind_error(&st)), NULL;
    if (old && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS)) return failed(errno), NULL;
    for (int tries = 0; tries < 100; tries++) {
        int n = snprintf(temporary, room, "%.*s.chainrule-%ld-%u.tmp", folder_length(path), path, (long)getpid(),
                         atomic_fetch_add(&counter, 1));
        if (n < 0 || (size_t)n >= room) return failed(ENAMETOOLONG), NULL;
        if (!locate(temporary, &p)) return failed(errno), NULL;
        if (!tries) remove_stale(p.folder);
        int fd = leave(&p, create_locked(p.folder, p.name, old ? 0600 : 0666));
        if (fd < 0 && errno == EEXIST) continue;
        if (fd < 0) return failed(errno), NULL;
        if (old) take_mode(fd, &st);
        FILE *f = fdopen(fd, "w+b");
        if (f) return f;
        int code = errno;
        cr_os_remove(temporary);
        close(fd);
        return failed(code), NULL;
    }
    return failed(EEXIST), NULL;
}

/* Syncs the folder, because after a crash the new name must exist too, not only the bytes. */
static void sync_folder(const char *path) {
    char folder[PATH_MAX];
    int n = folder_length(path);
    if (snprintf(folder, sizeof folder, "%.*s", n ? n : 1, n ? path : ".") >= (int)sizeof folder) return;
    int fd = open_at(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return;
    (void)fsync(fd);                                           /* some file systems refuse; the data itself is safe */
    close(fd);
}

static bool move(const char *from, const char *to) {
    location a, b;
    if (!locate(from, &a)) return false;
    if (!locate(to, &b)) return leave(&a, false);
    const bool moved = !renameat(a.folder, a.name, b.folder, b.name);
    return leave(&a, leave(&b, moved));
}

bool cr_os_commit(FILE *f, const char *temporary, const char *path) {
    int code = 0;
    if (ferror(f)) code = EIO;
    if (fflush(f) || fsync(fileno(f))) code = errno;
    if (!code && !move(temporary, path)) code = errno;
    if (code) cr_os_remove(temporary);
    (void)fclose(f);                                           /* only now: closing ends the lock */
    if (code) return failed(code);
    sync_folder(path);
    return true;
}

void cr_os_abandon(FILE *f, const char *temporary) {
    cr_os_remove(temporary);
    if (f) fclose(f);
}

bool cr_os_is_directory(const char *path) {
    struct stat st;
    return stat_at(path, &st) && S_ISDIR(st.st_mode);
}

static mode_t own_kind(const char *path) {          /* not of what a link leads to; 0: not there */
    struct stat st;
    location p;
    const bool there = locate(path, &p) && !leave(&p, fstatat(p.folder, p.name, &st, AT_SYMLINK_NOFOLLOW));
    return there ? st.st_mode & S_IFMT : 0;
}

bool cr_os_is_link(const char *path) { return own_kind(path) == S_IFLNK; }
bool cr_os_is_plain(const char *path) { return own_kind(path) == S_IFREG; }

bool cr_os_exists(const char *path) {
    struct stat st;
    return stat_at(path, &st);
}

bool cr_os_make_directory(const char *path) {
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (!n) return failed(ENOENT);
    if (n >= sizeof part) return failed(ENAMETOOLONG);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != 0) continue;
        part[i] = 0;
        location p;
        if (!locate(part, &p)) return failed(errno);
        int code = mkdirat(p.folder, p.name, p.own ? 0700 : 0777) ? errno : 0;
        (void)leave(&p, 0);
        if (!code) sync_folder(part);
        if (code && !cr_os_is_directory(part)) return failed(code == EEXIST ? ENOTDIR : code);
        part[i] = path[i];
    }
    return true;
}

bool cr_os_remove(const char *path) {
    location p;
    if (!locate(path, &p)) return failed(errno);
    int code = unlinkat(p.folder, p.name, 0) ? errno : 0;
    if (code == EISDIR || code == EPERM) code = unlinkat(p.folder, p.name, AT_REMOVEDIR) ? errno : 0;
    (void)leave(&p, 0);
    return code ? failed(code) : true;
}

/* A file that replaces another one gets its mode. */
static void keep_mode(const char *from, const char *to) {
    struct stat st, old;
    location p;
    if (!locate(to, &p) || leave(&p, fstatat(p.folder, p.name, &old, AT_SYMLINK_NOFOLLOW)) || !S_ISREG(old.st_mode))
        return;
    const int fd = open_at(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    /* not of a file that has other names */
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_nlink == 1) take_mode(fd, &old);
    close(fd);
}

bool cr_os_rename(const char *from, const char *to) {
    keep_mode(from, to);
    if (!move(from, to)) return failed(errno);
    sync_folder(to);
    return true;
}

bool cr_os_share(const char *from, const char *to) {
    location a, b;
    if (!locate(from, &a)) return failed(errno);
    if (!locate(to, &b)) return leave(&a, failed(errno));
    const bool linked = !linkat(a.folder, a.name, b.folder, b.name, a.own ? 0 : AT_SYMLINK_FOLLOW);
    if (!leave(&a, leave(&b, linked))) return cr_os_copy(from, to);
    sync_folder(to);
    return true;
}

bool cr_os_copy(const char *from, const char *to) {
    cr_mapping m;
    char temporary[PATH_MAX];
    if (!cr_os_map(from, &m)) return false;
    FILE *f = cr_os_create_beside(to, temporary, sizeof temporary);
    if (f) (void)fwrite(m.data, 1, m.bytes, f);                /* a failure is found by the commit */
    cr_os_unmap(&m);
    return f && cr_os_commit(f, temporary, to);
}

static DIR *open_directory(const char *path) {
    const int fd = open_at(path, O_RDONLY | O_DIRECTORY);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) close(fd);
    return d;
}

static const char *next_entry(DIR *d) {
    struct dirent *e;
    do e = readdir(d);
    while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")));
    return e ? e->d_name : NULL;
}

void cr_os_each_entry(const char *path, void (*fn)(const char *name, void *ctx), void *ctx) {
    DIR *d = open_directory(path);
    for (const char *name; d && (name = next_entry(d));) fn(name, ctx);
    if (d) closedir(d);
}

bool cr_os_lock_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);   /* stays open: the lock ends with the process */
    if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return true;
    close(fd);
    return false;
}

int cr_os_hold(const char *path) {
    struct stat mine, now;
    const int fd = open_at(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return failed(errno), -1;
    bool held = !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;         /* a file system may have no locks */
    /* it may have been renamed or removed before it was locked */
    held = held && !fstat(fd, &mine) && stat_at(path, &now) && mine.st_ino == now.st_ino && mine.st_dev == now.st_dev;
    if (held) return fd;
    close(fd);
    return -2;
}

void cr_os_let_go(int held) { if (held >= 0) close(held); }

bool cr_os_clear_held(int held, bool (*ours)(const char *name)) {
    struct stat st;
    const char *name;
    cr_posix_follow(held);
    DIR *d = again(held);
    if (!d) return failed(errno);
    bool good = true;
    while (good && (name = next_entry(d))) {
        good = (ours(name) || cr_os_is_temporary(name)) && !fstatat(held, name, &st, AT_SYMLINK_NOFOLLOW) &&
               S_ISREG(st.st_mode);
        if (!good) snprintf(error_text, sizeof error_text, "'%s' in it is not a file of a save: move it away", name);
    }
    rewinddir(d);
    while (good && (name = next_entry(d))) (void)unlinkat(held, name, 0);
    closedir(d);
    return good;
}

bool cr_os_remove_folder(const char *path) {
    DIR *d = open_directory(path);
    if (!d) return failed(errno);
    for (const char *name; (name = next_entry(d));) (void)unlinkat(dirfd(d), name, 0);
    closedir(d);
    return cr_os_remove(path);                                 /* fails, with the reason, if anything is left */
}

/* ---- terminal and signals ---- */
void cr_os_begin(int *argc, char ***argv) { (void)argc, (void)argv; }

FILE *cr_os_open_file(const char *path, const char *mode) { return fopen(path, mode); }

bool cr_os_is_terminal(FILE *f) { return isatty(fileno(f)) == 1; }

int cr_os_hide_output(void) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int before = nowhere < 0 ? -1 : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    fflush(stdout);
    const bool hidden = before >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0;
    if (!hidden) failed(errno);
    if (nowhere >= 0) close(nowhere);
    return hidden ? before : -1;
}

void cr_os_show_output(int hidden) {
    fflush(stdout);
    (void)dup2(hidden, STDOUT_FILENO);
    close(hidden);
}

int cr_os_terminal_width(FILE *f) {
    struct winsize w;
    return !ioctl(fileno(f), TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

static volatile sig_atomic_t interrupted, ctrl_c;

static void on_interrupt(int number) {
    if (number == SIGINT && ctrl_c) {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (number == SIGINT) ctrl_c = 1;
    else interrupted = 1;
}

void cr_os_survive_file_limit(void) { signal(SIGXFSZ, SIG_IGN); }

void cr_os_catch_interrupt(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now, want = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
        /* stays ignored if it was at the start */
        if (sigaction(numbers[i], NULL, &now) || now.sa_handler == SIG_IGN) continue;
        sigemptyset(&want.sa_mask);
        (void)sigaction(numbers[i], &want, NULL);
    }
}

bool cr_os_interrupted(void) { return interrupted || ctrl_c; }

void cr_os_hold_ctrl_c(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

bool cr_os_forget_ctrl_c(void) {
    ctrl_c = 0;
    return !interrupted;
}

const char *cr_os_become(const char *const *argv) {
    execvp(argv[0], (char *const *)argv);
    return strerror(errno);
}

/* The program gets the default for every signal and blocks none, because the thread that starts it may block some. */
int cr_os_run(const char *const *argv) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&files)) return -1;
    if (posix_spawnattr_init(&attributes)) { posix_spawn_file_actions_destroy(&files); return -1; }
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&files, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t id;
    const int failure = posix_spawnp(&id, argv[0], &files, &attributes, (char *const *)argv,
                                     cr_posix_environment());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (failure) return -1;
    int status = 0;
    pid_t ended;
    do ended = waitpid(id, &status, 0);
    while (ended < 0 && errno == EINTR);
    return ended == id && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- processes ---- */
int64_t cr_os_fork(void) {
    fflush(NULL);
    const int64_t id = fork();
    if (id < 0) (void)failed(errno);
    if (!id) cr_posix_end_with_parent();
    return id;
}

int64_t cr_os_reap(int *code, double seconds) {
    const double limit = cr_os_seconds() + seconds;
    int how = 0;
    int64_t id;
    while ((id = waitpid(-1, &how, WNOHANG)) == 0 && cr_os_seconds() < limit) cr_os_sleep(0.02);
    if (id <= 0) return 0;
    *code = WIFSIGNALED(how) ? -WTERMSIG(how) : WEXITSTATUS(how);
    return id;
}

void cr_os_end(int64_t id, bool at_once) { (void)kill((pid_t)id, at_once ? SIGKILL : SIGTERM); }

void cr_os_set_variable(const char *name, const char *value) { (void)setenv(name, value, 1); }

/* ---- sockets ---- */
static int failed_socket(int fd) {
    (void)failed(errno);
    if (fd >= 0) close(fd);
    return -1;
}

static int ready_within(int fd, short events, double seconds) {
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, seconds > 0 ? (int)(1e3 * seconds) : 0);
}

/* Small messages go out at once, and no call waits. */
static int tuned(int fd) {
    const int on = 1;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return failed_socket(fd);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int listening(int family, const struct sockaddr *at, socklen_t n) {
    const int off = 0, on = 1;
    const int fd = cr_posix_socket(family);
    if (fd < 0) return failed_socket(fd);
    if (family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(fd, at, n) ? failed_socket(fd) : fd;
}

int cr_os_listen(int *port) {
    const uint16_t wanted = htons((uint16_t)*port);
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = wanted};
    const struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = wanted};
    struct sockaddr_storage found;
    socklen_t n = sizeof found;
    int fd = listening(AF_INET6, (const struct sockaddr *)&at, sizeof at);
    if (fd < 0) fd = listening(AF_INET, (const struct sockaddr *)&old, sizeof old);    /* a system without IPv6 */
    if (fd < 0) return -1;
    if (listen(fd, SOMAXCONN) || getsockname(fd, (struct sockaddr *)&found, &n)) return failed_socket(fd);
    const bool six = found.ss_family == AF_INET6;
    *port = ntohs(six ? ((struct sockaddr_in6 *)&found)->sin6_port : ((struct sockaddr_in *)&found)->sin_port);
    return fd;
}

int cr_os_accept(int listener, double seconds) {
    errno = ETIMEDOUT;
    if (ready_within(listener, POLLIN, seconds) < 1) return failed_socket(-1);
    const int fd = cr_posix_accept(listener);
    return fd < 0 ? failed_socket(-1) : tuned(fd);
}

static int connect_to(const struct addrinfo *a, double seconds) {
    int fd = cr_posix_socket(a->ai_family), error = 0;
    socklen_t n = sizeof error;
    if (fd < 0 || (fd = tuned(fd)) < 0) return -1;
    if (!connect(fd, a->ai_addr, a->ai_addrlen)) return fd;
    if (errno != EINPROGRESS) return failed_socket(fd);
    errno = ETIMEDOUT;
    if (ready_within(fd, POLLOUT, seconds) < 1) return failed_socket(fd);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) || (errno = error)) return failed_socket(fd);
    return fd;
}

int cr_os_connect(const char *host, int port, double seconds) {
    char service[16];
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &want, &all)) {
        errno = EADDRNOTAVAIL;
        return failed_socket(-1);
    }
    int fd = -1;
    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) fd = connect_to(a, seconds);
    freeaddrinfo(all);
    return fd;
}

void cr_os_poll(int n, const int *sockets, bool *ready, double seconds) {
    struct pollfd *p = calloc((size_t)n + 1, sizeof *p);
    for (int i = 0; p && i < n; i++) p[i] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
    if (p) (void)poll(p, (nfds_t)n, (int)(1e3 * seconds));
    else cr_os_sleep(seconds);
    for (int i = 0; i < n; i++) ready[i] = sockets[i] >= 0 && (!p || p[i].revents);
    free(p);
}

bool cr_os_send(int socket, const void *data, size_t n) {
    return send(socket, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

int64_t cr_os_receive(int socket, void *data, size_t n) {
    const ssize_t got = recv(socket, data, n, MSG_DONTWAIT);
    if (got > 0) return got;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

void cr_os_close_socket(int socket) { if (socket >= 0) close(socket); }
