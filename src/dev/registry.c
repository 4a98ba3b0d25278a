/* registry.c - the devices of this process, by name and number. */
#include "dev.h"
#include "../core/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cr_device *const devices[] = {&cr_device_cpu, &cr_device_ref};      /* GPUs follow: they are looked for when somebody asks for one */
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

/* GPUs of any kind, CUDA's first; one may be there twice. */
static const cr_device *gpu_at(int i) {
    const int n = cr_cuda_count();
    return i < n ? cuda_at(i) : webgpu_at(i - n);
}

const cr_device *cr_cpu(void) { return &cr_device_cpu; }
const cr_device *cr_ref(void) { return &cr_device_ref; }
const cr_device *cr_device_at(int i) { return i < 0 ? NULL : i < DEVICES ? devices[i] : gpu_at(i - DEVICES); }

static bool is_kind(const char *name, const char *kind) {
    const size_t n = strlen(kind);
    return !strncmp(name, kind, n) && (!name[n] || name[n] == ':');
}

/* CUDA's first GPU, else the first other of hardware, else the cpu. */
static const cr_device *best_device(void) {
    if (cuda_at(0)) return cuda_at(0);
    for (int i = 0; webgpu_at(i); i++)
        if (!webgpu_at(i)->software) return webgpu_at(i);
    return &cr_device_cpu;
}

/* "gpu", "cuda" and "webgpu" are the first of all, "gpu:1" the second of any kind.  Only such a name and "auto" have GPUs looked for. */
static const cr_device *find(const char *op, const char *name) {
    if (!strcmp(name, "auto")) return best_device();
    const bool cuda = is_kind(name, "cuda"), any = is_kind(name, "gpu");
    const cr_device *(*const at)(int) = cuda ? cuda_at : any ? gpu_at : is_kind(name, "webgpu") ? webgpu_at : NULL;
    const char *number = strchr(name, ':');
    char known[200] = "", wanted[16];
    for (int i = 0; i < DEVICES || (at && at(i - DEVICES)); i++) {
        const cr_device *dev = i < DEVICES ? devices[i] : at(i - DEVICES);
        snprintf(wanted, sizeof wanted, ":%d", i - DEVICES);
        if (i < DEVICES ? !strcmp(dev->name, name) : !number || !strcmp(number, wanted)) return dev;
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, i ? ", %s" : "%s", dev->name);
    }
    const int count = cuda ? cr_cuda_count() : 0;
    if (count) return cr_fail(CR_BAD_VALUE, "cuda", "device %.40s does not exist: %d device%s found", number + 1, count, count > 1 ? "s" : ""), NULL;
    const char *why = at && !at(0) ? (cuda ? no_cuda() : no_webgpu()) : "";
    return cr_fail(CR_BAD_VALUE, op, "no %s '%.40s' here; there are: %s%s%s%s", cuda ? "CUDA device" : at ? "GPU" : "device", name, known, *why ? " (" : "", why, *why ? ")" : ""), NULL;
}

static const cr_device *numbered(const char *op, const char *kind, int i) {
    char name[24];
    snprintf(name, sizeof name, "%s:%d", kind, i);
    return find(op, name);
}
const cr_device *cr_gpu(int i) { return numbered("gpu", "gpu", i); }
const cr_device *cr_cuda(int i) { return numbered("cuda", "cuda", i); }
const cr_device *cr_webgpu(int i) { return numbered("webgpu", "webgpu", i); }

const cr_device *cr_device_find(const char *name) {
    if (!name) return cr_fail_null("device_find", "the name"), NULL;
    return find("device_find", name);
}

const cr_device *cr_default_device(void) {
    const cr_device *dev = atomic_load(&chosen);
    if (dev) return dev;
    const char *name = cr_config("DEVICE");
    return name ? find("CHAINRULE_DEVICE", name) : &cr_device_cpu;
}

static cr_status check_device(const char *name) { return !name || find("switch_set", name) ? CR_OK : cr_error_status(); }
static void forget_device(void) { atomic_store(&chosen, NULL); }

/* MiB in text, as bytes; 0: a message. */
static int64_t bytes_in(const char *op, const char *text) {
    char *end;
    const long long mib = strtoll(text, &end, 10);
    if (end != text && !*end && mib >= 1 && mib < INT64_MAX >> 20) return mib << 20;
    return cr_fail(CR_BAD_VALUE, op, "CHAINRULE_GPU_MEMORY is a whole number of MiB of at least 1, not '%.40s'", text), 0;
}
int64_t cr_gpu_budget(const char *op, int64_t otherwise) {
    const char *text = cr_config("GPU_MEMORY");
    return text ? bytes_in(op, text) : otherwise;
}
static cr_status check_memory(const char *text) { return !text || bytes_in("switch_set", text) ? CR_OK : cr_error_status(); }

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
cr_status cr_synchronize(const cr_device *dev) { return real(dev, "synchronize") ? dev->synchronize(dev) : cr_error_status(); }
cr_memory cr_memory_stats(const cr_device *dev) { return real(dev, "memory_stats") ? dev->memory(dev) : (cr_memory){0}; }
void cr_empty_cache(const cr_device *dev) { if (real(dev, "empty_cache")) dev->empty_cache(dev); }
