/* test_cudasim.c - the simulated GPU itself: what the tests of the CUDA device rely on. */
#define _GNU_SOURCE
#include "test.h"

#ifndef CHAINRULE_CUDASIM
TEST(cudasim) { SKIP("the simulator needs Linux on x86-64 or aarch64 and a C++ compiler"); }
#else
#include <dlfcn.h>
#include "control.h"
#include "nvidia.h"

#define DRIVER(f)                                                                                                              \
    f(CUresult, cuInit, (unsigned)) f(CUresult, cuDeviceGetCount, (int *)) f(CUresult, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
    f(CUresult, cuCtxSetCurrent, (CUcontext)) f(CUresult, cuMemAlloc_v2, (CUdeviceptr *, size_t)) f(CUresult, cuMemFree_v2, (CUdeviceptr)) \
    f(CUresult, cuMemHostAlloc, (void **, size_t, unsigned)) f(CUresult, cuMemFreeHost, (void *))                              \
    f(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                                           \
    f(CUresult, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                                 \
    f(CUresult, cuStreamCreate, (CUstream *, unsigned)) f(CUresult, cuStreamSynchronize, (CUstream)) f(CUresult, cuStreamDestroy_v2, (CUstream)) \
    f(CUresult, cuModuleLoadData, (CUmodule *, const void *)) f(CUresult, cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
    f(CUresult, cuModuleUnload, (CUmodule))                                                                                    \
    f(CUresult, cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
    f(const cudasim_counters *, cudasim_count, (void)) f(const char *, cudasim_message, (void)) f(void, cudasim_mend, (void))
#define NVRTC(f)                                                                                                               \
    f(nvrtcResult, nvrtcCreateProgram, (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
    f(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram, int, const char *const *)) f(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram, size_t *)) \
    f(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram, char *)) f(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))     \
    f(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram, char *)) f(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram *))

#define VARIABLE(type, name, parameters) static type (*name##_) parameters;
DRIVER(VARIABLE)
NVRTC(VARIABLE)
static CUcontext contexts[4];
static CUstream stream;

static bool find(const char *file, int count, const char *const *names, void **const *into) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return printf("%s\n", dlerror()), false;
    for (int i = 0; i < count; i++)
        if (!(*into[i] = dlsym(library, names[i]))) return printf("%s\n", dlerror()), false;
    return true;
}

static bool ready(void) {
    static int state;
    if (state) return state > 0;
    state = -1;
#define NAME(type, name, parameters) #name,
#define PLACE(type, name, parameters) (void **)&name##_,
    static const char *const driver[] = {DRIVER(NAME)}, *const nvrtc[] = {NVRTC(NAME)};
    static void **const driver_at[] = {DRIVER(PLACE)}, **const nvrtc_at[] = {NVRTC(PLACE)};
    setenv("CUDASIM_DEVICES", "2", 1);
    setenv("CUDASIM_MEMORY", "64", 1);
    setenv("CUDASIM_QUIET", "1", 1);
    if (!find(CHAINRULE_CUDASIM "/libcuda.so.1", sizeof driver / sizeof *driver, driver, driver_at)) return false;
    if (!find(CHAINRULE_CUDASIM "/libnvrtc.so.13", sizeof nvrtc / sizeof *nvrtc, nvrtc, nvrtc_at)) return false;
    if (cuInit_(0)) return false;
    for (int i = 0; i < 2; i++)
        if (cuDevicePrimaryCtxRetain_(&contexts[i], i)) return false;
    if (cuCtxSetCurrent_(contexts[0]) || cuStreamCreate_(&stream, 1)) return false;
    state = 1;
    return true;
}
#define READY REQUIRE(ready(), "the simulator does not open")
#define CU(call) do { const CUresult status_ = (call); CHECK(!status_, "%s: %d: %s", #call, (int)status_, cudasim_message_()); } while (0)

static CUfunction compile(const char *source, const char *name) {
    const char *const options[] = {"--gpu-architecture=sm_80", "--std=c++17", "-DTWO=2"};
    nvrtcProgram p;
    CUmodule m = NULL;
    CUfunction f = NULL;
    size_t size = 0;
    if (nvrtcCreateProgram_(&p, source, "test.cu", 0, NULL, NULL)) return NULL;
    if (nvrtcCompileProgram_(p, 3, options)) {
        nvrtcGetProgramLogSize_(p, &size);
        char *log = malloc(size);
        nvrtcGetProgramLog_(p, log);
        printf("%s\n", log);
        free(log);
    } else {
        nvrtcGetCUBINSize_(p, &size);
        char *image = malloc(size);
        nvrtcGetCUBIN_(p, image);
        if (!cuModuleLoadData_(&m, image)) cuModuleGetFunction_(&f, m, name);
        free(image);
    }
    nvrtcDestroyProgram_(&p);
    return f;
}

static CUdeviceptr upload(const void *data, size_t bytes) {
    CUdeviceptr at = 0;
    CU(cuMemAlloc_v2_(&at, bytes));
    CU(cuMemcpyHtoDAsync_v2_(at, data, bytes, stream));
    return at;
}

TEST(add) {
    READY;
    enum { N = 1031 };
    float a[N], b[N], y[N];
    for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = 0.5f * (float)i;
    CUfunction f = compile("extern \"C\" __global__ void add(float *y, const float *a, const float *b, int n) {\n"
                           "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = TWO * a[i] + b[i];\n"
                           "}\n", "add");
    REQUIRE(f, "no function: %s", cudasim_message_());
    CUdeviceptr da = upload(a, sizeof a), db = upload(b, sizeof b), dy = upload(b, sizeof b);
    int n = N;
    CU(cuLaunchKernel_(f, 3, 1, 1, 128, 1, 1, 0, stream, (void *[]){&dy, &da, &db, &n}, NULL));
    CU(cuMemcpyDtoHAsync_v2_(y, dy, sizeof y, stream));
    CU(cuStreamSynchronize_(stream));
    for (int i = 0; i < N; i++) CHECK(y[i] == 2 * a[i] + b[i], "y[%d] = %g", i, (double)y[i]);
    CU(cuMemFree_v2_(da));
    CU(cuMemFree_v2_(db));
    CU(cuMemFree_v2_(dy));
}
#endif
