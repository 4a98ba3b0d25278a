/* registry.c - the devices of this process, by name and number. */
#include "dev.h"

#include <stdio.h>
#include <string.h>

static const cr_device *const devices[] = {&cr_device_cpu, &cr_device_ref};      /* GPUs follow: they are looked for when somebody asks for one */
enum { DEVICES = sizeof devices / sizeof *devices };
static _Atomic(const cr_device *) chosen;           /* cr_set_default_device; NULL: CHAINRULE_DEVICE, or cpu */

#ifdef CR_WEBGPU
static const cr_device *webgpu_at(int i) { return cr_webgpu_at(i); }
static const char *no_gpu(void) { return cr_webgpu_problem(); }
#else
static const cr_device *webgpu_at(int i) { (void)i; return NULL; }
static const char *no_gpu(void) { return "this library was built without WebGPU"; }
#endif

const cr_device *cr_cpu(void) { return &cr_device_cpu; }
const cr_device *cr_ref(void) { return &cr_device_ref; }
const cr_device *cr_device_at(int i) { return i < 0 ? NULL : i < DEVICES ? devices[i] : webgpu_at(i - DEVICES); }

static bool is_kind(const char *name, const char *kind) {
    const size_t n = strlen(kind);
    return !strncmp(name, kind, n) && (!name[n] || name[n] == ':');
}

/* "gpu" and "webgpu" are the first of all, "gpu:1" the second of any kind.  Only such a name has GPUs looked for. */
static const cr_device *find(const char *op, const char *name) {
    const bool any = is_kind(name, "gpu"), gpu = any || is_kind(name, "webgpu");
    const char *number = strchr(name, ':');
    char known[200] = "";
    for (int i = 0; i < DEVICES || (gpu && webgpu_at(i - DEVICES)); i++) {
        const cr_device *dev = cr_device_at(i);
        const char *known_as = any && i >= DEVICES ? strchr(dev->name, ':') : dev->name, *wanted = any && i >= DEVICES ? number : name;
        if (i >= DEVICES && !number ? true : wanted && !strcmp(known_as, wanted)) return dev;
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, i ? ", %s" : "%s", dev->name);
    }
    const char *kind = is_kind(name, "cuda") ? "CUDA device" : gpu ? "GPU" : "device", *why = gpu && !webgpu_at(0) ? no_gpu() : "";
    return cr_fail(CR_BAD_VALUE, op, "no %s '%.40s' here; there are: %s%s%s%s", kind, name, known, *why ? " (" : "", why, *why ? ")" : ""), NULL;
}

static const cr_device *numbered(const char *op, const char *kind, int i) {
    char name[24];
    snprintf(name, sizeof name, "%s:%d", kind, i);
    return find(op, name);
}
const cr_device *cr_gpu(int i) { return numbered("gpu", "gpu", i); }
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
__attribute__((constructor)) static void own_switch(void) { cr_switch_owner("DEVICE", check_device, forget_device); }

static bool real(const cr_device *dev, const char *op) { return dev || (cr_fail_null(op, "the device"), false); }

cr_status cr_set_default_device(const cr_device *dev) {
    if (!real(dev, "set_default_device")) return cr_error_status();
    atomic_store(&chosen, dev);
    return CR_OK;
}

const char *cr_device_name(const cr_device *dev) { return real(dev, "device_name") ? dev->name : NULL; }
const char *cr_device_info(const cr_device *dev) { return real(dev, "device_info") ? dev->info(dev) : NULL; }
cr_status cr_synchronize(const cr_device *dev) { return real(dev, "synchronize") ? dev->kernels->synchronize(dev) : cr_error_status(); }
cr_memory cr_memory_stats(const cr_device *dev) { return real(dev, "memory_stats") ? dev->memory(dev) : (cr_memory){0}; }
void cr_empty_cache(const cr_device *dev) { if (real(dev, "empty_cache")) dev->empty_cache(dev); }
