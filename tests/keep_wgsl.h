/* keep_wgsl.h - CHAINRULE_TEST_WGSL=folder: the text of every kernel that WebGPU compiles is kept there, for other
 * compilers (check_wgsl.py).  CHAINRULE_TEST_WGSL_SUBGROUPS=0: as for an adapter without subgroups. */
#ifndef CR_TEST_KEEP_WGSL_H
#define CR_TEST_KEEP_WGSL_H
#ifdef CR_WEBGPU
#include "dev/webgpu/gpu.h"

static __typeof__(wgpuDeviceCreateShaderModule) *keep_make;
static __typeof__(wgpuAdapterHasFeature) *keep_has;

/* In a file named by the hash of the text, so that programs share a folder. */
static void keep_text(WGPUStringView text) {
    static const char head[] = "@group(0) @binding(0) var<uniform> p: parameters;";
    const size_t n = text.length == WGPU_STRLEN ? strlen(text.data) : text.length;
    if (n < sizeof head || strncmp(text.data, head, sizeof head - 1)) return;      /* written by a test */
    uint64_t h = 0xcbf29ce484222325u;               /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    char path[4096];
    snprintf(path, sizeof path, "%s/%016llx.wgsl", getenv("CHAINRULE_TEST_WGSL"), (unsigned long long)h);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text.data, 1, n, f) != n || fclose(f)) {
        printf("FAILED %s cannot be written\n", path);
        exit(1);
    }
}

static WGPUShaderModule keep_module(WGPUDevice device, const WGPUShaderModuleDescriptor *d) {
    keep_text(((const WGPUShaderSourceWGSL *)(const void *)d->nextInChain)->code);
    return keep_make(device, d);
}

static WGPUBool keep_feature(WGPUAdapter adapter, WGPUFeatureName feature) {
    return feature != (WGPUFeatureName)WGPUNativeFeature_Subgroup && keep_has(adapter, feature);
}

/* Once the library is there, before a GPU is opened. */
static void keep_wgsl(void) {
    const char *subgroups = getenv("CHAINRULE_TEST_WGSL_SUBGROUPS");
    if (!getenv("CHAINRULE_TEST_WGSL")) return;
    keep_make = cr_wg.DeviceCreateShaderModule;
    cr_wg.DeviceCreateShaderModule = keep_module;
    cr_wg.DeviceCreateShaderModuleTrusted = NULL;
    if (!subgroups || *subgroups != '0') return;
    keep_has = cr_wg.AdapterHasFeature;
    cr_wg.AdapterHasFeature = keep_feature;
}
#else
static void keep_wgsl(void) {}
#endif
#endif
