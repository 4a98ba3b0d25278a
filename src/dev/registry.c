/* registry.c - the devices of this process, by name and number. */
#include "meta.h"
#include "registry.h"
#include "../core/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __EMSCRIPTEN__                               /* every byte is downloaded */
#define REF (&cr_device_cpu)
static const cr_device *const devices[] = {&cr_device_cpu};
#else
#define REF (&cr_device_ref)
static const cr_device *const devices[] = {&cr_device_cpu, REF};      /* GPUs are numbered after these */
#endif
enum { DEVICES = sizeof devices / sizeof *devices };
static _Atomic(const cr_device *) chosen;           /* cr_set_default_device; NULL: CHAINRULE_DEVICE, or cpu */

#ifdef CR_CUDA
static const cr_device *cuda_at(int i) { return cr_cuda_at(i); }
static const char *no_cuda(void) { return cr_cuda_problem(); }
#else
static const cr_device *cuda_at(int i) { (void)i; return NULL; }
static const char *no_cuda(void) { return "this library was built without CUDA"; }
#endif
#ifdef CR_WEBGPU
static const cr_device *webgpu_at(int i) { return cr_webgpu_at(i); }
static const char *no_webgpu(void) { return cr_webgpu_problem(); }
#else
static const cr_device *webgpu_at(int i) { (void)i; return NULL; }
static const char *no_webgpu(void) { return "this library was built without WebGPU"; }
#endif

int cr_cuda_count(void) {
    int n = 0;
    while (cuda_at(n)) n++;
    return n;
}

/* GPUs of any kind, CUDA's first.  One that both CUDA and WebGPU reach is listed twice.  Software
 * drivers come last (webgpu/gpu.c). */
static const cr_device *gpu_at(int i) {
    const int n = cr_cuda_count();
    return i < n ? cuda_at(i) : webgpu_at(i - n);
}

/* "gpu" means hardware: a software driver is slower than the cpu. */
static const cr_device *hardware_at(int i) {
    const cr_device *dev = gpu_at(i);
    return dev && dev->software ? NULL : dev;
}
static const char *no_hardware(void) {
    return webgpu_at(0) ? "only a software driver was found: its name is webgpu:0" : no_webgpu();
}

const cr_device *cr_cpu(void) { return &cr_device_cpu; }
const cr_device *cr_ref(void) { return REF; }
const cr_device *cr_device_at(int i) { return i < 0 ? NULL : i < DEVICES ? devices[i] : gpu_at(i - DEVICES); }

/* The first CUDA GPU, else the first other hardware GPU, else the cpu. */
static const cr_device *best_device(void) {
    if (cuda_at(0)) return cuda_at(0);
    for (int i = 0; webgpu_at(i); i++)
        if (!webgpu_at(i)->software) return webgpu_at(i);
    return &cr_device_cpu;
}

/* Names of GPUs: "cuda" and "cuda:0" are the first NVIDIA GPU, "gpu:1" is the second hardware GPU of any kind. */
typedef struct gpu_kind {
    const char *name, *noun;
    const cr_device *(*at)(int i);
    const char *(*problem)(void);
} gpu_kind;
static const gpu_kind gpu_kinds[] = {
    {"cuda",   "CUDA device", cuda_at,   no_cuda},
    {"webgpu", "GPU",         webgpu_at, no_webgpu},
    {"gpu",    "GPU",         hardware_at, no_hardware},
};

static const gpu_kind *kind_of(const char *name) {
    const size_t n = strcspn(name, ":");
    for (size_t i = 0; i < sizeof gpu_kinds / sizeof *gpu_kinds; i++)
        if (strlen(gpu_kinds[i].name) == n && !strncmp(gpu_kinds[i].name, name, n)) return &gpu_kinds[i];
    return NULL;
}

const char *cr_gpu_problem(const char *kind) {
    const gpu_kind *k = kind_of(kind);
    return k->at(0) ? "" : k->problem();
}

static const cr_device *gpu_named(const gpu_kind *kind, const char *name) {
    const char *number = strchr(name, ':');
    char wanted[16];
    if (!number) return kind->at(0);
    for (int i = 0; kind->at(i); i++) {
        snprintf(wanted, sizeof wanted, ":%d", i);
        if (!strcmp(number, wanted)) return kind->at(i);
    }
    return NULL;
}

static void append_name(char *list, size_t room, const cr_device *dev) {
    const size_t n = strlen(list);
    snprintf(list + n, room - n, n ? ", %s" : "%s", dev->name);
}

static void fail_unknown(const char *op, const char *name, const gpu_kind *kind) {
    const int cuda = kind && kind->at == cuda_at ? cr_cuda_count() : 0;
    if (cuda) {
        cr_fail(CR_BAD_VALUE, "cuda", "device %.40s does not exist: %d device%s found", strchr(name, ':') + 1, cuda,
                cuda > 1 ? "s" : "");
        return;
    }
    char known[200] = "";
    for (int i = 0; i < DEVICES; i++) append_name(known, sizeof known, devices[i]);
    if (kind) for (int i = 0; kind->at(i); i++) append_name(known, sizeof known, kind->at(i));
    const char *why = kind ? cr_gpu_problem(kind->name) : "";
    cr_fail(CR_BAD_VALUE, op, "no %s '%.40s' here; there are: %s%s%s%s", kind ? kind->noun : "device", name, known,
            *why ? " (" : "", why, *why ? ")" : "");
}

/* Looks for GPUs only where the name asks for one. */
static const cr_device *find_device(const char *op, const char *name) {
    if (!strcmp(name, "auto")) return best_device();
    if (!strcmp(name, cr_device_meta.name)) return &cr_device_meta;
    for (int i = 0; i < DEVICES; i++)
        if (!strcmp(devices[i]->name, name)) return devices[i];
    const gpu_kind *kind = kind_of(name);
    const cr_device *dev = kind ? gpu_named(kind, name) : NULL;
    if (!dev) fail_unknown(op, name, kind);
    return dev;
}

static const cr_device *numbered(const char *op, const char *kind, int i) {
    char name[24];
    snprintf(name, sizeof name, "%s:%d", kind, i);
    return find_device(op, name);
}
const cr_device *cr_gpu(int i) { return numbered("gpu", "gpu", i); }
const cr_device *cr_cuda(int i) { return numbered("cuda", "cuda", i); }
const cr_device *cr_webgpu(int i) { return numbered("webgpu", "webgpu", i); }

const cr_device *cr_device_find(const char *name) {
    if (!name) return cr_fail_null("device_find", "the name"), NULL;
    return find_device("device_find", name);
}

const cr_device *cr_default_device(void) {
    const cr_device *dev = atomic_load(&chosen);
    if (dev) return dev;
    const char *name = cr_config("DEVICE");
    return name ? find_device("CHAINRULE_DEVICE", name) : &cr_device_cpu;
}

static cr_status check_device(const char *name) {
    return !name || find_device("switch_set", name) ? CR_OK : cr_error_status();
}
static void forget_device(void) { atomic_store(&chosen, NULL); }

/* Parses a number of MiB and returns bytes; 0: not such a number, with a message. */
static int64_t bytes_in(const char *op, const char *text) {
    char *end;
    const long long mib = strtoll(text, &end, 10);
    if (end != text && !*end && mib >= 1 && mib < INT64_MAX >> 20) return mib << 20;
    return cr_fail(CR_BAD_VALUE, op, "CHAINRULE_GPU_MEMORY is a whole number of MiB of at least 1, not '%.40s'", text),
           0;
}
int64_t cr_gpu_budget(const char *op, int64_t otherwise) {
    const char *text = cr_config("GPU_MEMORY");
    return text ? bytes_in(op, text) : otherwise;
}
static cr_status check_memory(const char *text) {
    return !text || bytes_in("switch_set", text) ? CR_OK : cr_error_status();
}

__attribute__((constructor)) static void own_switches(void) {
    cr_switch_owner("DEVICE", check_device, forget_device);
    cr_switch_owner("GPU_MEMORY", check_memory, NULL);
}

static bool real(const cr_device *dev, const char *op) { return dev || (cr_fail_null(op, "the device"), false); }

cr_status cr_set_default_device(const cr_device *dev) {
    if (!real(dev, "set_default_device")) return cr_error_status();
    atomic_store(&chosen, dev);
    return CR_OK;
}

const char *cr_device_name(const cr_device *dev) { return real(dev, "device_name") ? dev->name : NULL; }
const char *cr_device_info(const cr_device *dev) { return real(dev, "device_info") ? dev->info(dev) : NULL; }
cr_status cr_synchronize(const cr_device *dev) {
    return real(dev, "synchronize") ? dev->synchronize(dev) : cr_error_status();
}
cr_memory cr_memory_stats(const cr_device *dev) {
    return real(dev, "memory_stats") ? dev->memory(dev) : (cr_memory){0};
}
void cr_reset_peak(const cr_device *dev) { if (real(dev, "reset_peak")) dev->reset_peak(dev); }
void cr_empty_cache(const cr_device *dev) { if (real(dev, "empty_cache")) dev->empty_cache(dev); }
