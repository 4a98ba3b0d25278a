/* lapack.c - see lapack.h.  Every call runs on the calling thread: OpenBLAS has other bits with two threads than with
 * one, so it is held to one. */
#include "lapack.h"
#include "../../core/config.h"
#include "../../core/library.h"
#include "../../core/os.h"
#include "cpu.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Fortran's interface: all by address, then the lengths of the strings. */
typedef void (*syevd_fn)(const char *job, const char *triangle, const int *n, void *a, const int *lda, void *w,
                         void *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t);
typedef void (*gesdd_fn)(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
                         const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork,
                         int *info, size_t);

#if defined(__APPLE__)
static const char *const names[] = {"libscipy_openblas.dylib", "libopenblas.dylib",
                                    "/opt/homebrew/opt/openblas/lib/libopenblas.dylib",
                                    "/System/Library/Frameworks/Accelerate.framework/Accelerate", NULL};
#elif defined(_WIN32)                               /* of pip, MSYS2, conda and vcpkg */
static const char *const names[] = {"libscipy_openblas.dll", "libopenblas.dll", "openblas.dll", "liblapack.dll", NULL};
#else
static const char *const names[] = {"libscipy_openblas.so", "liblapack.so.3", "libopenblas.so.0", NULL};
#endif

/* Where pip puts scipy-openblas32: beside the package, which holds this library or the program's, and in the active
 * environment. */
static const char *const folders[] = {"self/../scipy_openblas32/lib", "self/../lib/python/scipy_openblas32/lib",
                                      "env/lib/python/scipy_openblas32/lib",
                                      "env/Lib/site-packages/scipy_openblas32/lib", NULL};

enum { UNOPENED, OPENING, OPEN, FAILED };
static struct {
    atomic_int state;
    syevd_fn syevd[2];                              /* f32, f64 */
    gesdd_fn gesdd[2];
    void (*set_threads)(int);                       /* OpenBLAS's; NULL: another library */
    int (*get_threads)(void);
    int (*single)(unsigned);                        /* Accelerate's BLASSetThreading of macOS 15, for this thread */
} lapack;

/* ---- opening */
/* dlsym gives an object pointer; C has no cast from there to a function. */
static bool symbol(void *library, const char *prefix, const char *name, void *fn) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    void *p = cr_os_symbol(library, full);
    memcpy(fn, &p, sizeof p);
    return p != NULL;
}

static bool adopt(void *library) {
    static const char *const prefixes[] = {"scipy_", ""};
    for (int i = 0; i < 2; i++) {
        const char *p = prefixes[i];
        if (!symbol(library, p, "ssyevd_", &lapack.syevd[0]) || !symbol(library, p, "dsyevd_", &lapack.syevd[1]) ||
            !symbol(library, p, "sgesdd_", &lapack.gesdd[0]) || !symbol(library, p, "dgesdd_", &lapack.gesdd[1]))
            continue;
        if (!symbol(library, p, "openblas_set_num_threads", &lapack.set_threads) ||
            !symbol(library, p, "openblas_get_num_threads", &lapack.get_threads))
            lapack.set_threads = NULL;
        if (!symbol(library, "", "BLASSetThreading", &lapack.single)) lapack.single = NULL;
        return true;
    }
    return false;
}

static int open_library(void) {
    const char *wish = cr_config("LAPACK");
    if (wish && (!strcmp(wish, "off") || !strcmp(wish, "0"))) return FAILED;
    void *library = wish ? cr_os_open_library(wish) : cr_library_search(names, folders, NULL);
    return library && adopt(library) ? OPEN : FAILED;
}

bool cr_lapack_ready(void) {
    int state = atomic_load_explicit(&lapack.state, memory_order_acquire), expected = UNOPENED;
    if (state >= OPEN) return state == OPEN;
    if (atomic_compare_exchange_strong(&lapack.state, &expected, OPENING)) atomic_store(&lapack.state, open_library());
    while (atomic_load(&lapack.state) == OPENING) cr_os_sleep(1e-4);       /* another thread opens it */
    return atomic_load(&lapack.state) == OPEN;
}

static cr_status check_switch(const char *text) {
    (void)text;
    if (atomic_load(&lapack.state) == UNOPENED) return CR_OK;
    return cr_fail(CR_RUNTIME, "switch_set", "CHAINRULE_LAPACK is set too late: a large matrix has already looked for "
                   "the library");
}
__attribute__((constructor)) static void own_switch(void) { cr_switch_owner("LAPACK", check_switch, NULL); }

/* ---- calls */
static void on_one_thread(void) {
    enum { SINGLE_THREADED = 1 };
    if (lapack.set_threads && lapack.get_threads() != 1) lapack.set_threads(1);
    if (lapack.single) lapack.single(SINGLE_THREADED);
}

bool cr_lapack_eigh(cr_dtype dt, int64_t N, void *a, void *values, bool vectors) {
    const int n = (int)N, lwork = 1 + 6 * n + 2 * n * n, liwork = 3 + 5 * n;
    const size_t first = (size_t)lwork * cr_dtype_size(dt), bytes = first + (size_t)liwork * sizeof(int);
    char *work = cr_cpu_try_take(bytes);
    int info = -1;
    if (!work) return false;
    on_one_thread();
    lapack.syevd[dt == CR_F64](vectors ? "V" : "N", "L", &n, a, &n, values, work, &lwork,
                               (int *)(void *)(work + first), &liwork, &info, 1, 1);
    cr_cpu_give(work, bytes);
    return info == 0;
}

/* By columns a is a^T (N, M) = v diag(s) u^T, so what LAPACK calls u is v, and its v^T, by columns, is u by rows. */
bool cr_lapack_svd(cr_dtype dt, int64_t M, int64_t N, void *a, void *u, void *values, void *vt) {
    const int m = (int)M, n = (int)N, ask = -1;
    const char *job = u ? "S" : "N";
    union { double wide; float narrow; } room = {0};
    int info = 0, none = 0;
    lapack.gesdd[dt == CR_F64](job, &n, &m, a, &n, values, vt, &n, u, &n, &room, &ask, &none, &info, 1);
    const double wished = dt == CR_F64 ? room.wide : (double)room.narrow;
    if (info || wished > (double)(1 << 30)) return false;
    const int lwork = (int)(wished * 1.001) + 64;   /* f32 rounds the number */
    const size_t first = ((size_t)lwork + 1) / 2 * 2 * cr_dtype_size(dt), bytes = first + 8 * (size_t)n * sizeof(int);
    char *work = cr_cpu_try_take(bytes);
    if (!work) return false;
    on_one_thread();
    lapack.gesdd[dt == CR_F64](job, &n, &m, a, &n, values, vt, &n, u, &n, work, &lwork, (int *)(void *)(work + first),
                               &info, 1);
    cr_cpu_give(work, bytes);
    return info == 0;
}
