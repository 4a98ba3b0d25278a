/* os_web.c - WebAssembly by Emscripten, whose C library is POSIX over files in memory: no other processes, no libraries
 * that are opened at run time; threads in a build with -pthread. */
#include "os_posix.h"

#include <emscripten.h>
#include <emscripten/heap.h>
#include <dlfcn.h>
#include <emscripten/threading.h>
#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- threads ---- */
#ifdef __EMSCRIPTEN_PTHREADS__
void cr_os_sleep_on(volatile int *word, int value, double seconds) {
    (void)emscripten_futex_wait(word, (uint32_t)value, seconds > 0 ? 1e3 * seconds : INFINITY);
}

void cr_os_wake(volatile int *word, int threads) { (void)emscripten_futex_wake(word, threads); }

/* Workers that the module was started with, beside the caller's thread. */
EM_JS(int, pool, (void), { return Module.threads || 1; })
int cr_os_cpu_count(void) { return pool(); }
#else
/* nobody else could wake this thread */
void cr_os_sleep_on(volatile int *word, int value, double seconds) {
    if (*word == value && seconds > 0) cr_os_sleep(seconds);
}

void cr_os_wake(volatile int *word, int threads) { (void)word, (void)threads; }
int  cr_os_cpu_count(void) { return 1; }
#endif

/* ---- memory: it grows, and is never given back ---- */
void *cr_os_pages(size_t bytes, bool huge) {
    const size_t size = cr_posix_round(bytes);
    void *p = NULL;
#ifdef __EMSCRIPTEN_PTHREADS__
    const uintptr_t fresh = UINTPTR_MAX;
#else
    const uintptr_t fresh = (uintptr_t)sbrk(0);     /* nobody had what is above: malloc never lowers the break */
#endif
    if (!size || posix_memalign(&p, huge ? (size_t)2 << 20 : 1 << 16, size)) return NULL;
    const uintptr_t at = (uintptr_t)p, used = at < fresh ? fresh - at : 0;
    return memset(p, 0, used < size ? used : size);
}

void cr_os_pages_free(void *p, size_t bytes) { (void)bytes, free(p); }

int64_t cr_os_peak_rss(void) { return (int64_t)emscripten_get_heap_size(); }
int64_t cr_os_free_memory(void) { return (int64_t)(emscripten_get_heap_max() - emscripten_get_heap_size()); }

/* ---- shared libraries: none.  Emscripten's functions end the program ---- */
void *dlopen(const char *path, int flags) { return (void)path, (void)flags, NULL; }
void *dlsym(void *library, const char *name) { return (void)library, (void)name, NULL; }
int   dladdr(const void *code, Dl_info *info) { return (void)code, (void)info, 0; }

bool cr_posix_path_of(const void *code, char out[PATH_MAX]) {
    (void)code;
    *out = 0;
    return false;
}

/* ---- randomness ---- */
uint64_t cr_os_entropy(void) {
    uint64_t bits = 0;
    return getentropy(&bits, sizeof bits) ? (uint64_t)(emscripten_get_now() * 1e6) * 0x9E3779B97F4A7C15u : bits;
}

/* ---- files ---- */
/* Emscripten keeps the path under which a folder was opened, and *at() joins names to it. */
EM_JS(void, follow, (int folder), {
    const stream = FS.getStream(folder);
    if (stream) stream.path = FS.getPath(stream.node);
})

void cr_posix_follow(int folder) { follow(folder); }

/* ---- processes and sockets ---- */
/* declared by Emscripten, and not defined */
int posix_spawnp(pid_t *id, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                 char *const argv[], char *const environment[]) {
    (void)id, (void)file, (void)actions, (void)how, (void)argv, (void)environment;
    return ENOSYS;
}

void   cr_posix_end_with_parent(void) { }
char **cr_posix_environment(void) { return environ; }
int    cr_posix_socket(int family) { return socket(family, SOCK_STREAM, 0); }
int    cr_posix_accept(int listener) { return accept(listener, NULL, NULL); }
