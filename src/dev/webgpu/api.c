/* api.c - finds wgpu-native and loads its functions when a GPU is first requested, never before. */
#include "api.h"

#include <stdio.h>
#include <string.h>

#include "../../core/config.h"
#include "../../core/library.h"
#include "../../core/os.h"

/* The headers change between major versions, so the library must have the version of the headers
 * (tools/requirements.txt). */
enum { MAJOR = 29 };

#if defined(__APPLE__)
static const char *const names[] = {"libwgpu_native-release.dylib", "libwgpu_native.dylib", NULL};
#elif defined(_WIN32)
static const char *const names[] = {"wgpu_native-release.dll", "wgpu_native.dll", NULL};
#else
static const char *const names[] = {"libwgpu_native-release.so", "libwgpu_native.so", NULL};
#endif

/* Next to this library; in the package wgpu where pip installs it next to chainrule, or in the
 * environments of the program and the shell. */
static const char *const folders[] = {"self",
                                      "self/../lib",
                                      "self/../wgpu/resources",
                                      "self/../lib/python/wgpu/resources",
                                      "env/lib/python/wgpu/resources",
                                      NULL};

wgpu_api cr_wg;
enum { UNOPENED, OPENING, OPEN, FAILED };
static atomic_int state;
static char problem[256];                           /* written before state leaves OPENING */

#define REFUSE(...) (snprintf(problem, sizeof problem, __VA_ARGS__), false)

static bool adopt(void *library) {
    static const struct { const char *name; size_t at; bool optional; } wanted[] = {
#define WGPU_ENTRY(name) {"wgpu" #name, offsetof(wgpu_api, name), false},
#define WGPU_OPTIONAL_ENTRY(name) {"wgpu" #name, offsetof(wgpu_api, name), true},
        WGPU_FUNCTIONS(WGPU_ENTRY)
        WGPU_OPTIONAL_FUNCTIONS(WGPU_OPTIONAL_ENTRY)
#undef WGPU_OPTIONAL_ENTRY
#undef WGPU_ENTRY
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *p = cr_os_symbol(library, wanted[i].name);
        if (!p && !wanted[i].optional)
            return REFUSE("the library found is not wgpu-native %d: it has no %s", MAJOR, wanted[i].name);
        memcpy((char *)&cr_wg + wanted[i].at, &p, sizeof p);
    }
    const unsigned v = cr_wg.GetVersion();
    if (v >> 24 != MAJOR)
        return REFUSE("wgpu-native %u.%u.%u found, %d.x wanted", v >> 24, v >> 16 & 255, v >> 8 & 255, MAJOR);
    return true;
}

static bool open_library(void) {
    const char *wish = cr_config("WGPU");
    if (wish && (!strcmp(wish, "off") || !strcmp(wish, "0"))) return REFUSE("CHAINRULE_WGPU=%.20s", wish);
    void *library = wish ? cr_os_open_library(wish) : cr_library_search(names, folders, NULL);
    if (library) return adopt(library);
    return wish ? REFUSE("CHAINRULE_WGPU=%.160s cannot be opened", wish)
                : REFUSE("wgpu-native not found (pip install wgpu==0.32.0)");
}

bool cr_wgpu_ready(void) {
    int expected = UNOPENED;
    if (atomic_compare_exchange_strong(&state, &expected, OPENING))
        atomic_store(&state, open_library() ? OPEN : FAILED);
    while (atomic_load(&state) == OPENING) cr_os_sleep(1e-4);          /* another thread opens it */
    return atomic_load(&state) == OPEN;
}

const char *cr_wgpu_problem(void) { return problem; }

static cr_status check_switch(const char *text) {
    (void)text;
    if (atomic_load(&state) == UNOPENED) return CR_OK;
    return cr_fail(CR_RUNTIME, "switch_set",
                   "CHAINRULE_WGPU is set too late: this process has already searched for GPUs");
}
__attribute__((constructor)) static void own_switch(void) { cr_switch_owner("WGPU", check_switch, NULL); }
