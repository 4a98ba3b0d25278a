/* api.c - opens the driver, NVRTC, cuBLASLt, cuSOLVER and NCCL, each at its first use. */
#include "api.h"

#include <stdio.h>
#include <string.h>

#include "../../core/config.h"
#include "../../core/library.h"
#include "../../core/os.h"

/* The driver belongs to the system.  NVRTC, cuBLASLt and cuSOLVER come from CUDA 13 or 12: from NVIDIA's PyPI
 * packages next to this library, from the environments of the program and of the shell, or from
 * NVIDIA's installer. */
/* CUDA 12.0: loads cubins of NVRTC 12 of any minor version, but none of CUDA 13 */
enum { OLDEST_DRIVER = 12000, DRIVER_OF_13 = 13000, OLDEST_NCCL = 21400 };
#ifdef _WIN32
static const char *const driver_names[] = {"nvcuda.dll", NULL};
static const char *const nvrtc_names[] = {"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", NULL},
                         builtins_name[] = "nvrtc-builtins64_%d%d.dll";
static const char *const lt_names[] = {"cublasLt64_13.dll", "cublasLt64_12.dll", NULL};
static const char *const solver_names[] = {"cusolver64_12.dll", "cusolver64_11.dll", NULL};
static const char *const nccl_names[] = {"nccl.dll", NULL};
#else
static const char *const driver_names[] = {"libcuda.so.1", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL},
                         builtins_name[] = "libnvrtc-builtins.so.%d.%d";
static const char *const lt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const char *const solver_names[] = {"libcusolver.so.12", "libcusolver.so.11", NULL};
static const char *const nccl_names[] = {"libnccl.so.2", NULL};
#endif
static const char *const no_folders[] = {NULL};
static const char *const folders[] = {"self/../nvidia/cu13/lib",
                                      "self/../nvidia/cuda_nvrtc/lib",
                                      "self/../nvidia/cublas/lib",
                                      "self/../nvidia/cusolver/lib",
                                      "self/../nvidia/nccl/lib",
                                      "self/../lib/python/nvidia/cu13/lib",
                                      "self/../lib/python/nvidia/cuda_nvrtc/lib",
                                      "self/../lib/python/nvidia/cublas/lib",
                                      "self/../lib/python/nvidia/cusolver/lib",
                                      "self/../lib/python/nvidia/nccl/lib",
                                      "env/lib/python/nvidia/cu13/lib",
                                      "env/lib/python/nvidia/cuda_nvrtc/lib",
                                      "env/lib/python/nvidia/cublas/lib",
                                      "env/lib/python/nvidia/cusolver/lib",
                                      "env/lib/python/nvidia/nccl/lib",
                                      NULL};
static const char installed[] = "/usr/local/cuda/lib64";

cuda_api cr_cu;
nvrtc_api cr_nvrtc;
lt_api cr_cublaslt;
solver_api cr_cusolver;
nccl_api cr_nccl;

enum { UNOPENED, OPENING, OPEN, FAILED };
/* problem: written before state leaves OPENING */
typedef struct part { atomic_int state; char problem[256]; } part;
static part driver, compiler, products, factors, messages;

#define REFUSE(part, ...) (snprintf((part).problem, sizeof (part).problem, __VA_ARGS__), false)

/* at: the offset of the function pointer in the table */
typedef struct entry { const char *symbol; size_t at; } entry;

static bool load_table(part *p, void *library, void *table, const entry *w, size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *f = cr_os_symbol(library, w[i].symbol);
        if (!f) return REFUSE(*p, "the library found has no %s", w[i].symbol);
        memcpy((char *)table + w[i].at, &f, sizeof f);
    }
    return true;
}

static bool ready(part *p, bool (*open)(void)) {
    int expected = UNOPENED;
    if (atomic_compare_exchange_strong(&p->state, &expected, OPENING)) atomic_store(&p->state, open() ? OPEN : FAILED);
    while (atomic_load(&p->state) == OPENING) cr_os_sleep(1e-4);       /* another thread opens it */
    return atomic_load(&p->state) == OPEN;
}

/* The library that the switch names, else (or if it is "on") the first of `names` that is found.  NULL: not found, or
 * switched off; the problem says which. */
static void *open_library(part *p, const char *name, const char *const *names, const char *const *where,
                          const char *more, const char *missing) {
    const char *setting = cr_config(name);
    if (setting && (!strcmp(setting, "off") || !strcmp(setting, "0")))
        return (void)REFUSE(*p, "CHAINRULE_%s=%.20s", name, setting), NULL;
    const bool named = setting && strcmp(setting, "on");
    void *library = named ? cr_os_open_library(setting) : cr_library_search(names, where, more);
    if (!library)
        (void)(named ? REFUSE(*p, "CHAINRULE_%s=%.160s cannot be opened", name, setting) : REFUSE(*p, "%s", missing));
    return library;
}

/* ---- the driver */

static bool open_driver(void) {
#define ENTRY(name, symbol, parameters) {symbol, offsetof(cuda_api, name)},
    static const entry w[] = {CUDA_FUNCTIONS(ENTRY)};
#undef ENTRY
    char missing[80];
    snprintf(missing, sizeof missing, "no NVIDIA driver: %s not found", *driver_names);
    void *library = open_library(&driver, "CUDA", driver_names, no_folders, NULL, missing);
    if (!library || !load_table(&driver, library, &cr_cu, w, sizeof w / sizeof *w)) return false;
    int error = cr_cu.DriverGetVersion(&cr_cu.version);
    if (!error && cr_cu.version < OLDEST_DRIVER)
        return REFUSE(driver, "the NVIDIA driver is too old: it knows CUDA %d.%d, %d.%d is needed",
                      cr_cu.version / 1000, cr_cu.version % 1000 / 10, OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10);
    if (!error) error = cr_cu.Init(0);
    if (error == CUDA_NO_DEVICE) return REFUSE(driver, "the NVIDIA driver sees no device");
    if (!error) return true;
    const char *text = NULL;
    return REFUSE(driver, "the NVIDIA driver does not start: error %d, %s", error,
                  !cr_cu.GetErrorString(error, &text) && text ? text : "no reason given");
}

/* The names for CUDA 13 and 12, from the first that this driver supports. */
static const char *const *for_driver(const char *const *names) { return names + (cr_cu.version < DRIVER_OF_13); }

bool cr_cuda_ready(void) { return ready(&driver, open_driver); }
const char *cr_cuda_api_problem(void) { return driver.problem; }

/* ---- the compiler */

/* Its builtins lie in the same folder, which NVRTC does not search itself. */
static void open_builtins(const void *code) {
    char path[1100], name[60];
    const int n = cr_os_directory_of(code, path, 1000);
    snprintf(name, sizeof name, builtins_name, cr_nvrtc.major, cr_nvrtc.minor);
    snprintf(path + n, sizeof path - (size_t)n, "/%s", name);
    if (n) cr_os_open_library(path);
}

static bool open_compiler(void) {
#define ENTRY(name, symbol, parameters) {symbol, offsetof(nvrtc_api, name)},
    static const entry w[] = {NVRTC_FUNCTIONS(ENTRY)};
#undef ENTRY
    char missing[120];
    snprintf(missing, sizeof missing, "NVRTC, which compiles kernels, is not found (pip install nvidia-cuda-nvrtc%s)",
             cr_cu.version < DRIVER_OF_13 ? "-cu12" : "");
    void *library = open_library(&compiler, "NVRTC", for_driver(nvrtc_names), folders, installed, missing);
    if (!library || !load_table(&compiler, library, &cr_nvrtc, w, sizeof w / sizeof *w)) return false;
    if (cr_nvrtc.Version(&cr_nvrtc.major, &cr_nvrtc.minor)) return REFUSE(compiler, "NVRTC reports no version");
    open_builtins(cr_os_symbol(library, w->symbol));
    return true;
}

bool cr_nvrtc_ready(void) { return ready(&compiler, open_compiler); }
const char *cr_nvrtc_problem(void) { return compiler.problem; }

/* ---- cuBLASLt */

static bool open_products(void) {
#define ENTRY(name, symbol, parameters) {symbol, offsetof(lt_api, name)},
    static const entry w[] = {LT_FUNCTIONS(ENTRY)};
#undef ENTRY
    void *library = open_library(&products, "CUBLASLT", for_driver(lt_names), folders, installed,
                                 "cuBLASLt is not found");
    return library && load_table(&products, library, &cr_cublaslt, w, sizeof w / sizeof *w);
}

bool cr_lt_ready(void) { return ready(&products, open_products); }
const char *cr_lt_problem(void) { return products.problem; }

/* ---- cuSOLVER */

static bool open_factors(void) {
#define ENTRY(name, symbol, parameters) {symbol, offsetof(solver_api, name)},
    static const entry w[] = {SOLVER_FUNCTIONS(ENTRY)};
#undef ENTRY
    void *library = open_library(&factors, "CUSOLVER", for_driver(solver_names), folders, installed,
                                 "cuSOLVER is not found");
    if (!library || !load_table(&factors, library, &cr_cusolver, w, sizeof w / sizeof *w)) return false;
    void *f = cr_os_symbol(library, "cusolverDnSetDeterministicMode");
    memcpy(&cr_cusolver.SetDeterministicMode, &f, sizeof f);
    return true;
}

bool cr_solver_ready(void) { return ready(&factors, open_factors); }
const char *cr_solver_problem(void) { return factors.problem; }

/* ---- NCCL */

static bool open_messages(void) {
#define ENTRY(name, symbol, parameters) {symbol, offsetof(nccl_api, name)},
    static const entry w[] = {NCCL_FUNCTIONS(ENTRY) {"ncclGetErrorString", offsetof(nccl_api, GetErrorString)},
                              {"ncclGetLastError", offsetof(nccl_api, GetLastError)}};
#undef ENTRY
    char missing[120];
    snprintf(missing, sizeof missing, "NCCL is not found (pip install nvidia-nccl-cu%d)",
             cr_cu.version < DRIVER_OF_13 ? 12 : 13);
    void *library = open_library(&messages, "NCCL", nccl_names, folders, NULL, missing);
    if (!library || !load_table(&messages, library, &cr_nccl, w, sizeof w / sizeof *w)) return false;
    if (cr_nccl.GetVersion(&cr_nccl.version)) return REFUSE(messages, "NCCL reports no version");
    return cr_nccl.version >= OLDEST_NCCL ||
           REFUSE(messages, "NCCL is too old: version number %d, 2.14 (%d) is needed", cr_nccl.version, OLDEST_NCCL);
}

bool cr_nccl_ready(void) { return ready(&messages, open_messages); }
const char *cr_nccl_problem(void) { return messages.problem; }

static cr_status check_switch(const char *text) {
    (void)text;
    if (atomic_load(&driver.state) == UNOPENED && atomic_load(&compiler.state) == UNOPENED &&
        atomic_load(&products.state) == UNOPENED && atomic_load(&factors.state) == UNOPENED &&
        atomic_load(&messages.state) == UNOPENED)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "switch_set", "this is set too late: CUDA devices were already searched");
}
__attribute__((constructor)) static void own_switches(void) {
    cr_switch_owner("CUDA", check_switch, NULL);
    cr_switch_owner("NVRTC", check_switch, NULL);
    cr_switch_owner("CUBLASLT", check_switch, NULL);
    cr_switch_owner("CUSOLVER", check_switch, NULL);
    cr_switch_owner("NCCL", check_switch, NULL);
}
