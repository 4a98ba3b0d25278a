/* registry.c - the devices of this process, by name and number. */
#include "dev.h"

#include <stdio.h>
#include <string.h>

static const cr_device *const devices[] = {&cr_device_cpu, &cr_device_ref};
enum { DEVICES = sizeof devices / sizeof *devices };
static _Atomic(const cr_device *) chosen;           /* cr_set_default_device; NULL: CHAINRULE_DEVICE, or cpu */

const cr_device *cr_cpu(void) { return &cr_device_cpu; }
const cr_device *cr_ref(void) { return &cr_device_ref; }
const cr_device *cr_device_at(int i) { return i >= 0 && i < DEVICES ? devices[i] : NULL; }

static const cr_device *find(const char *op, const char *name) {
    char known[200] = "";
    for (int i = 0; i < DEVICES; i++) {
        if (!strcmp(devices[i]->name, name)) return devices[i];
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, i ? ", %s" : "%s", devices[i]->name);
    }
    const char *kind = !strncmp(name, "cuda", 4) ? "CUDA device" : !strncmp(name, "gpu", 3) ? "GPU" : "device";
    return cr_fail(CR_BAD_VALUE, op, "no %s '%s' here; there are: %s", kind, name, known), NULL;
}

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
