/* onednn.c - opens oneDNN 3.x for the first product that is large enough, only with AVX-512: opening
 * takes about 10 ms and 20 MB.
 *
 * Every call runs on the calling thread (the pool cuts the work).  With the OpenMP runtime the number
 * of threads, which OpenMP keeps per thread, is set to 1 around each call and then restored, which
 * costs a few ns. */
#include "onednn.h"
#include "../../core/config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../../core/library.h"
#include "../../core/os.h"
#include "cpu.h"

/* The two prototypes of oneDNN's C interface (dnnl.h, dnnl_common_types.h of 3.x). */
typedef struct { int major, minor, patch; const char *hash; unsigned cpu_runtime, gpu_runtime; } version;
typedef const version *(*version_fn)(void);
typedef int (*sgemm_fn)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                        int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
enum { RUNTIME_SEQUENTIAL = 1, RUNTIME_OPENMP = 2 };

#if defined(__APPLE__)
static const char *const names[] = {"libdnnl.3.dylib", "libdnnl.dylib", NULL};
#elif defined(_WIN32)
static const char *const names[] = {"dnnl.dll", NULL};
#else
static const char *const names[] = {"libdnnl.so.3", "libdnnl.so", NULL};
#endif

enum { UNOPENED, OPENING, OPEN, FAILED };
static struct {
    atomic_int state;
    atomic_bool forbidden;
    sgemm_fn sgemm;
    void (*omp_set_num_threads)(int);               /* NULL: this build of oneDNN has no threads */
    int (*omp_get_max_threads)(void);
    char info[160];                                 /* written before state leaves OPENING */
} dnnl;

/* ---- opening ---- */

/* dlsym gives an object pointer; C has no cast from there to a function. */
static void symbol(void *library, const char *name, void *fn) {
    void *p = cr_os_symbol(library, name);
    memcpy(fn, &p, sizeof p);
}

/* Is this library suitable?  Writes the reason if not. */
static bool adopt(void *library) {
    version_fn get_version;
    symbol(library, "dnnl_version", &get_version);
    symbol(library, "dnnl_sgemm", &dnnl.sgemm);
    const version *v = get_version ? get_version() : NULL;
    if (!v || !dnnl.sgemm) {
        snprintf(dnnl.info, sizeof dnnl.info, "own kernels (the libdnnl found is not oneDNN)");
        return false;
    }
    if (v->major != 3) {
        snprintf(dnnl.info, sizeof dnnl.info, "own kernels (oneDNN %d.%d.%d found, 3.x wanted)", v->major, v->minor,
                 v->patch);
        return false;
    }
    if (v->cpu_runtime == RUNTIME_OPENMP) {
        symbol(library, "omp_set_num_threads", &dnnl.omp_set_num_threads);
        symbol(library, "omp_get_max_threads", &dnnl.omp_get_max_threads);
    }
    bool one_thread = v->cpu_runtime == RUNTIME_SEQUENTIAL ||
                      (v->cpu_runtime == RUNTIME_OPENMP && dnnl.omp_set_num_threads && dnnl.omp_get_max_threads);
    if (one_thread) snprintf(dnnl.info, sizeof dnnl.info, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    else
        snprintf(dnnl.info, sizeof dnnl.info,
                 "own kernels (oneDNN %d.%d.%d found, but its thread runtime %u cannot be held to one thread)",
                 v->major, v->minor, v->patch, v->cpu_runtime);
    return one_thread;
}

/* Searched in this order: the folder of this library; lib/ next to the bin/ of the program;
 * PREFIX/lib, where pip puts oneDNN, from PREFIX/lib or lib64/python3.x/site-packages/chainrule; the
 * active environment; the system's path, and in a build folder its RPATH. */
static const char *const folders[] = {"self", "self/../lib", "self/../../../../lib", "env/lib", NULL};

static bool switched_off(const char *wish) { return wish && (!strcmp(wish, "off") || !strcmp(wish, "0")); }

/* On other processors the kernels of this library are as fast. */
static bool suits_processor(void) { return cr_cpu_isa() == 4; }

static int open_library(void) {
    const char *wish = cr_config("ONEDNN");
    if (switched_off(wish)) {
        snprintf(dnnl.info, sizeof dnnl.info, "own kernels (CHAINRULE_ONEDNN=%s)", wish);
        return FAILED;
    }
    if (!suits_processor()) {
        snprintf(dnnl.info, sizeof dnnl.info, "own kernels");
        return FAILED;
    }
    void *library = wish ? cr_os_open_library(wish) : cr_library_search(names, folders, NULL);
    if (library) return adopt(library) ? OPEN : FAILED;
    if (wish) snprintf(dnnl.info, sizeof dnnl.info, "own kernels (CHAINRULE_ONEDNN=%.80s cannot be opened)", wish);
    else snprintf(dnnl.info, sizeof dnnl.info, "own kernels (%s not found)", names[0]);
    return FAILED;
}

bool cr_onednn_ready(void) {
    int state = atomic_load_explicit(&dnnl.state, memory_order_acquire);
    if (state < OPEN) {
        int expected = UNOPENED;
        if (atomic_compare_exchange_strong(&dnnl.state, &expected, OPENING)) atomic_store(&dnnl.state, open_library());
        /* Another thread opens it.  Wait, because the path of a shape must not depend on which thread came first. */
        while (atomic_load(&dnnl.state) == OPENING) cr_os_sleep(1e-4);
        state = atomic_load(&dnnl.state);
    }
    return state == OPEN && !atomic_load_explicit(&dnnl.forbidden, memory_order_relaxed);
}

static cr_status check_switch(const char *text) {
    (void)text;
    if (atomic_load(&dnnl.state) == UNOPENED) return CR_OK;
    return cr_fail(CR_RUNTIME, "switch_set",
                   "CHAINRULE_ONEDNN is set too late: a product has already looked for the library");
}
__attribute__((constructor)) static void own_switch(void) { cr_switch_owner("ONEDNN", check_switch, NULL); }

bool cr_onednn_allow(bool on) { return !atomic_exchange(&dnnl.forbidden, !on); }

const char *cr_cpu_engine_info(void) {
    if (atomic_load_explicit(&dnnl.state, memory_order_acquire) >= OPEN) return dnnl.info;
    if (switched_off(cr_config("ONEDNN"))) return "own kernels (oneDNN switched off)";
    return suits_processor() ? "oneDNN not opened yet" : "own kernels";
}

/* ---- calls ---- */

bool cr_onednn_sgemm(const cr_onednn_product *p) {
    int before = 0;
    if (dnnl.omp_set_num_threads) {
        before = dnnl.omp_get_max_threads();
        dnnl.omp_set_num_threads(1);
    }
    int status = dnnl.sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', p->m, p->n, p->k, 1, p->a,
                            p->a_stride, p->b, p->b_stride, p->beta, p->c, p->c_stride);
    if (before) dnnl.omp_set_num_threads(before);
    return status == 0;
}
