/* test_cudasim.c - the simulated GPU: the properties that the tests of the CUDA device rely on. */
#define _GNU_SOURCE
#include "test.h"

#ifndef CHAINRULE_CUDASIM
TEST(cudasim) { SKIP("the simulator needs Linux on x86-64 or aarch64 and a C++ compiler"); }
#else
#include <dlfcn.h>
#include <unistd.h>
#include "control.h"
#include "nvidia.h"

#define DRIVER(f) \
    f(CUresult, cuInit, (unsigned)) f(CUresult, cuDeviceGetCount, (int *)) f(CUresult, cuDevicePrimaryCtxRetain, \
        (CUcontext *, CUdevice)) \
    f(CUresult, cuCtxSetCurrent, (CUcontext)) f(CUresult, cuMemAlloc_v2, (CUdeviceptr *, size_t)) f(CUresult, \
        cuMemFree_v2, (CUdeviceptr)) \
    f(CUresult, cuMemGetInfo_v2, (size_t *, size_t *)) f(CUresult, cuMemHostAlloc, (void **, size_t, unsigned)) \
        f(CUresult, cuMemFreeHost, (void *)) \
    f(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
    f(CUresult, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
    f(CUresult, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
    f(CUresult, cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
    f(CUresult, cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream)) \
    f(CUresult, cuStreamCreate, (CUstream *, unsigned)) f(CUresult, cuStreamSynchronize, (CUstream)) f(CUresult, \
        cuStreamDestroy_v2, (CUstream)) \
    f(CUresult, cuStreamWaitEvent, (CUstream, CUevent, unsigned)) f(CUresult, cuEventCreate, (CUevent *, unsigned)) \
    f(CUresult, cuEventRecord, (CUevent, CUstream)) f(CUresult, cuEventQuery, (CUevent)) f(CUresult, \
        cuEventDestroy_v2, (CUevent)) \
    f(CUresult, cuEventElapsedTime, (float *, CUevent, CUevent)) \
    f(CUresult, cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode)) \
    f(CUresult, cuStreamEndCapture, (CUstream, CUgraph *)) \
    f(CUresult, cuGraphCreate, (CUgraph *, unsigned)) f(CUresult, cuGraphDestroy, (CUgraph)) \
    f(CUresult, cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)) \
    f(CUresult, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
    f(CUresult, cuGraphExecChildGraphNodeSetParams, (CUgraphExec, CUgraphNode, CUgraph)) \
    f(CUresult, cuGraphLaunch, (CUgraphExec, CUstream)) f(CUresult, cuGraphExecDestroy, (CUgraphExec)) \
    f(CUresult, cuModuleLoadData, (CUmodule *, const void *)) f(CUresult, cuModuleGetFunction, (CUfunction *, \
        CUmodule, const char *)) \
    f(CUresult, cuModuleUnload, (CUmodule)) f(CUresult, cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int)) \
    f(CUresult, cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction)) \
    f(CUresult, cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
        CUstream, void **, void **)) \
    f(CUresult, cuTensorMapEncodeTiled, (CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, \
        const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, \
        CUtensorMapL2promotion, CUtensorMapFloatOOBfill)) \
    f(const cudasim_counters *, cudasim_count, (void)) f(const char *, cudasim_message, (void)) f(void, cudasim_mend, \
        (void)) \
    f(int, cudasim_fail, (const char *, int)) f(void, cudasim_order, (const char *)) f(void, cudasim_eager, (int)) \
        f(long long, cudasim_launches, (const char *)) \
    f(cudasim_bytes, cudasim_traffic, (const char *))
#define NVRTC(f) \
    f(nvrtcResult, nvrtcCreateProgram, (nvrtcProgram *, const char *, const char *, int, const char *const *, \
        const char *const *)) \
    f(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram, int, const char *const *)) f(nvrtcResult, nvrtcGetCUBINSize, \
        (nvrtcProgram, size_t *)) \
    f(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram, char *)) f(nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram, size_t *)) \
        f(nvrtcResult, nvrtcGetPTX, (nvrtcProgram, char *)) \
    f(nvrtcResult, nvrtcGetNumSupportedArchs, (int *)) f(nvrtcResult, nvrtcGetSupportedArchs, (int *)) f(nvrtcResult, \
        nvrtcGetProgramLogSize, (nvrtcProgram, size_t *)) \
    f(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram, char *)) f(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram *))
#define LT(f) \
    f(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t *)) f(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t)) \
        f(cublasStatus_t, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType)) f( \
            cublasStatus_t, cublasLtMatmulDescSetAttribute, \
            (cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t)) \
            f(cublasStatus_t, cublasLtMatmulDescDestroy, \
              (cublasLtMatmulDesc_t)) f(cublasStatus_t, cublasLtMatrixLayoutCreate, \
                                        (cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t)) \
                f(cublasStatus_t, cublasLtMatrixLayoutSetAttribute, \
                  (cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void *, size_t)) \
                    f(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t)) \
                        f(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *)) f( \
                            cublasStatus_t, cublasLtMatmulPreferenceSetAttribute, \
                            (cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t)) \
                            f(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t)) \
                                f(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic, \
                                  (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, \
                                   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, \
                                   cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *, int *)) \
                                    f(cublasStatus_t, cublasLtMatmul, \
                                      (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, CUdeviceptr, \
                                       cublasLtMatrixLayout_t, CUdeviceptr, cublasLtMatrixLayout_t, const void *, \
                                       CUdeviceptr, cublasLtMatrixLayout_t, CUdeviceptr, cublasLtMatrixLayout_t, \
                                       const cublasLtMatmulAlgo_t *, CUdeviceptr, size_t, CUstream))

#define SOLVER(f) \
    f(cusolverStatus_t, cusolverDnCreate, (cusolverDnHandle_t *)) \
    f(cusolverStatus_t, cusolverDnDestroy, (cusolverDnHandle_t)) \
    f(cusolverStatus_t, cusolverDnSetStream, (cusolverDnHandle_t, CUstream)) \
    f(cusolverStatus_t, cusolverDnCreateParams, (cusolverDnParams_t *)) \
    f(cusolverStatus_t, cusolverDnDestroyParams, (cusolverDnParams_t)) \
    f(cusolverStatus_t, cusolverDnXgetrf_bufferSize, (cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t, \
        cudaDataType, CUdeviceptr, int64_t, cudaDataType, size_t *, size_t *)) \
    f(cusolverStatus_t, cusolverDnXgetrf, (cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t, cudaDataType, \
        CUdeviceptr, int64_t, CUdeviceptr, cudaDataType, CUdeviceptr, size_t, void *, size_t, CUdeviceptr)) \
    f(cusolverStatus_t, cusolverDnXgesvd_bufferSize, (cusolverDnHandle_t, cusolverDnParams_t, signed char, \
        signed char, int64_t, int64_t, cudaDataType, CUdeviceptr, int64_t, cudaDataType, CUdeviceptr, cudaDataType, \
        CUdeviceptr, int64_t, cudaDataType, CUdeviceptr, int64_t, cudaDataType, size_t *, size_t *))

#define VARIABLE(type, name, parameters) static type (*name##_) parameters;
DRIVER(VARIABLE)
NVRTC(VARIABLE)
LT(VARIABLE)
SOLVER(VARIABLE)
static CUcontext contexts[2];
static CUstream stream;

static bool find(const char *file, size_t count, const char *const *names, void **const *into) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return printf("%s\n", dlerror()), false;
    for (size_t i = 0; i < count; i++)
        if (!(*into[i] = dlsym(library, names[i]))) return printf("%s\n", dlerror()), false;
    return true;
}

static bool open_all(void) {
#define NAME(type, name, parameters) #name,
#define PLACE(type, name, parameters) (void **)&name##_,
#define FIND(file, list) find(CHAINRULE_CUDASIM "/" file, sizeof list##_names / sizeof *list##_names, list##_names, \
    list##_places)
    static const char *const driver_names[] = {DRIVER(NAME)}, *const nvrtc_names[] = {NVRTC(NAME)},
                             *const lt_names[] = {LT(NAME)}, *const solver_names[] = {SOLVER(NAME)};
    static void **const driver_places[] = {DRIVER(PLACE)}, **const nvrtc_places[] = {NVRTC(PLACE)},
                        **const lt_places[] = {LT(PLACE)}, **const solver_places[] = {SOLVER(PLACE)};
    setenv("CUDASIM_DEVICES", "2", 1);
    setenv("CUDASIM_MEMORY", "64", 1);
    setenv("CUDASIM_QUIET", "1", 1);
    if (!dlopen(CHAINRULE_CUDASIM "/libnvrtc-builtins.so.13.0", RTLD_NOW | RTLD_LOCAL)) return false;
    if (!FIND("libcuda.so.1", driver) || !FIND("libnvrtc.so.13", nvrtc) || !FIND("libcublasLt.so.13", lt) ||
        !FIND("libcusolver.so.12", solver) || cuInit_(0))
        return false;
    for (int i = 0; i < 2; i++)
        if (cuDevicePrimaryCtxRetain_(&contexts[i], i)) return false;
    return !cuCtxSetCurrent_(contexts[0]) && !cuStreamCreate_(&stream, 1);
}

static bool ready(void) {
    static enum { UNTRIED, OPEN, CLOSED } state;
    if (state == UNTRIED) state = open_all() ? OPEN : CLOSED;
    if (state == OPEN) cudasim_mend_(), cudasim_order_(NULL), cuCtxSetCurrent_(contexts[0]);
    return state == OPEN;
}
#define READY REQUIRE(ready(), "the simulator does not open")
#define CU(call) do { const CUresult status_ = (call); CHECK(!status_, "%s: %d: %s", #call, (int)status_, \
    cudasim_message_()); } while (0)
#define REFUSED(status, call) do { const CUresult status_ = (call); CHECK(status_ == (status), "%s: %d, wanted %d", \
    #call, (int)status_, (int)(status)); } while (0)
#define SAYS(text) CHECK(strstr(cudasim_message_(), text), "'%s' lacks '%s'", cudasim_message_(), text)

/* ---- minimal kernels */
static nvrtcResult translate(const char *source, int count, const char *const *options, char *log, size_t room,
                             char **image) {
    nvrtcProgram p;
    size_t size = 0;
    nvrtcResult status = nvrtcCreateProgram_(&p, source, "test.cu", 0, NULL, NULL);
    if (!status) status = nvrtcCompileProgram_(p, count, options);
    nvrtcGetProgramLogSize_(p, &size);
    char *all = malloc(size);
    nvrtcGetProgramLog_(p, all);
    snprintf(log, room, "%s", all);
    free(all);
    *image = NULL;
    if (!status) {
        nvrtcGetCUBINSize_(p, &size);
        const bool machine = size;
        if (!machine) nvrtcGetPTXSize_(p, &size);
        (machine ? nvrtcGetCUBIN_ : nvrtcGetPTX_)(p, *image = malloc(size));
    }
    nvrtcDestroyProgram_(&p);
    return status;
}

static CUfunction compile(const char *source, const char *name) {
    static const char *const options[] = {"--gpu-architecture=sm_80", "--std=c++17", "-DTWO=2"};
    char log[2000], *image;
    CUmodule m = NULL;
    CUfunction f = NULL;
    if (translate(source, 3, options, log, sizeof log, &image)) printf("%s\n", log);
    else CU(cuModuleLoadData_(&m, image));
    if (m) CU(cuModuleGetFunction_(&f, m, name));
    free(image);
    if (!f) exit(printf("no kernel '%s' in\n%s\nresult: 0 passed, 1 failed, 0 skipped\n", name, source) < 0 ? 2 : 1);
    return f;
}

static CUdeviceptr device_copy(const void *data, size_t bytes) {
    CUdeviceptr at = 0;
    CU(cuMemAlloc_v2_(&at, bytes));
    CU(cuMemcpyHtoDAsync_v2_(at, data, bytes, stream));
    return at;
}
static CUresult read_back(void *to, CUdeviceptr from, size_t bytes) {
    const CUresult status = cuMemcpyDtoHAsync_v2_(to, from, bytes, stream);
    return status ? status : cuStreamSynchronize_(stream);
}
#define LAUNCH(f, blocks, threads, shared, ...) cuLaunchKernel_(f, blocks, 1, 1, threads, 1, 1, shared, stream, \
    (void *[]){__VA_ARGS__}, NULL)

static const char add_text[] = "#define KERNEL(n) extern \"C\" __global__ void __launch_bounds__(n)\n"
                               "KERNEL(128) add(float *y, const float *a, const float *b, int n) {\n"
                               "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * "
                               "blockDim.x) y[i] = TWO * a[i] + b[i];\n"
                               "}\n";

TEST(elements) {
    READY;
    enum { N = 1031 };
    float a[N], b[N], y[N];
    for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = 0.5f * (float)i, y[i] = 0;
    CUfunction f = compile(add_text, "add");
    CUdeviceptr da = device_copy(a, sizeof a), db = device_copy(b, sizeof b), dy = device_copy(y, sizeof y);
    int n = N;
    const long long before = cudasim_launches_("add");
    CU(LAUNCH(f, 3, 128, 0, &dy, &da, &db, &n));
    n = 0;                                          /* parameters were copied */
    CU(read_back(y, dy, sizeof y));
    for (int i = 0; i < N; i++) CHECK(y[i] == 2 * a[i] + b[i], "y[%d] = %g", i, (double)y[i]);
    CHECK(cudasim_launches_("add") == before + 1, "%lld launches", cudasim_launches_("add"));
    CU(cuMemFree_v2_(da));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2_(da));
    CU(cuMemFree_v2_(db));
    CU(cuMemFree_v2_(dy));
}

/* mean by shuffles in each warp, a barrier, and one value for each warp in shared memory; rows of N on blocks of 96 */
static const char norm_text[] =
    "__device__ static float total(float v) {\n"
    "    __shared__ float sums[32];\n"
    "    for (int half = 16; half; half /= 2) v += __shfl_xor_sync(0xffffffffu, v, half);\n"
    "    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;\n"
    "    __syncthreads();\n"
    "    v = 0;\n"
    "    for (int i = 0; i < (int)blockDim.x / 32; i++) v += sums[i];\n"
    "    __syncthreads();\n"
    "    return v;\n"
    "}\n"
    "extern \"C\" __global__ void norm(float *y, const float *x, int n) {\n"
    "    x += blockIdx.x * n; y += blockIdx.x * n;\n"
    "    float s = 0, q = 0;\n"
    "    for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];\n"
    "    const float mean = total(s) / n;\n"
    "    for (int i = threadIdx.x; i < n; i += blockDim.x) q += (x[i] - mean) * (x[i] - mean);\n"
    "    const float scale = rsqrtf(total(q) / n + 1e-5f);\n"
    "    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = (x[i] - mean) * scale;\n"
    "}\n";
enum { ROWS = 3, COLUMNS = 211 };

/* The largest error of the norm of rows in one order of threads. */
static double norm_error(const char *order) {
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    CUfunction f = compile(norm_text, "norm");
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)sin(i) + (float)(i / COLUMNS), y[i] = 0;
    cudasim_order_(order);
    CUdeviceptr dx = device_copy(x, sizeof x), dy = device_copy(y, sizeof y);
    int n = COLUMNS;
    CU(LAUNCH(f, ROWS, 96, 0, &dy, &dx, &n));
    if (read_back(y, dy, sizeof y)) return INFINITY;
    double worst = 0;
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, square = 0;
        for (int i = 0; i < n; i++) mean += (double)x[r * n + i] / n;
        for (int i = 0; i < n; i++) square += ((double)x[r * n + i] - mean) * ((double)x[r * n + i] - mean) / n;
        for (int i = 0; i < n; i++)
            worst = fmax(worst, fabs((double)y[r * n + i] - ((double)x[r * n + i] - mean) / sqrt(square + 1e-5)));
    }
    CU(cuMemFree_v2_(dx));
    CU(cuMemFree_v2_(dy));
    return worst;
}

TEST(shuffles_and_barriers) {
    READY;
    const char *const orders[] = {"forward", "reverse", "1", "2"};
    for (int i = 0; i < 4; i++) {
        const double e = norm_error(orders[i]);
        CHECK(e < 1e-5, "%s: error %g", orders[i], e);
    }
}

static const char histogram_text[] =
    "extern \"C\" __global__ void histogram(int *out, const int *x, int n, int bins) {\n"
    "    extern __shared__ int counts[];\n"
    "    for (int i = threadIdx.x; i < bins; i += blockDim.x) counts[i] = 0;\n"
    "    __syncthreads();\n"
    "    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&counts[x[i]], 1);\n"
    "    __syncthreads();\n"
    "    for (int i = threadIdx.x; i < bins; i += blockDim.x) out[i] = counts[i];\n"
    "}\n";

static void count_bins(int bins, int shared) {
    enum { N = 5003 };
    static int x[N];
    int out[61] = {0}, want[61] = {0}, n = N;
    CUfunction f = compile(histogram_text, "histogram");
    for (int i = 0; i < N; i++) want[x[i] = i * 7919 % 61]++;
    CUdeviceptr dx = device_copy(x, sizeof x), dy = device_copy(out, sizeof out);
    CU(LAUNCH(f, 1, 64, (unsigned)shared, &dy, &dx, &n, &bins));
    CU(read_back(out, dy, sizeof out));
    for (int i = 0; i < 61; i++) CHECK(out[i] == want[i], "bin %d: %d, wanted %d", i, out[i], want[i]);
    CU(cuMemFree_v2_(dx));
    CU(cuMemFree_v2_(dy));
}

TEST(dynamic_shared_memory) {
    READY;
    count_bins(61, 61 * 4);
    CUfunction f = compile(histogram_text, "histogram");
    CUdeviceptr none = 0;
    int zero = 0;
    REFUSED(CUDA_ERROR_INVALID_VALUE, LAUNCH(f, 1, 64, 60 << 10, &none, &none, &zero, &zero));
    REFUSED(CUDA_ERROR_INVALID_VALUE,
            cuFuncSetAttribute_(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 << 10));
    CU(cuFuncSetAttribute_(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60 << 10));
    CU(LAUNCH(f, 1, 64, 60 << 10, &none, &none, &zero, &zero));
    CU(cuStreamSynchronize_(stream));
}

/* A kernel without shared variables may have all 48 KiB, wherever the linker puts its memory. */
TEST(all_of_dynamic_shared_memory) {
    READY;
    CUdeviceptr none = 0;
    int zero = 0;
    char text[4000];
    for (int shift = 0; shift < 128; shift += 24) {
        snprintf(text, sizeof text, "__device__ char moved_%d[%d] = {1};\n%s", shift, shift + 1, histogram_text);
        CUfunction f = compile(text, "histogram");
        CU(LAUNCH(f, 1, 64, 48 << 10, &none, &none, &zero, &zero));
        REFUSED(CUDA_ERROR_INVALID_VALUE, LAUNCH(f, 1, 64, (48 << 10) + 4, &none, &none, &zero, &zero));
        CU(cuStreamSynchronize_(stream));
    }
}

/* of each thread: votes, lanes, counts of a barrier, the last lane's value, junk in shared memory */
TEST(together) {
    READY;
    CUfunction f = compile("extern \"C\" __global__ void together(unsigned *y) {\n"
                           "    __shared__ unsigned junk[64];\n"
                           "    const unsigned t = threadIdx.x, found = junk[t];\n"
                           "    y[5 * t] = __ballot_sync(0xffffffffu, t % 3 == 0);\n"
                           "    y[5 * t + 1] = __syncthreads_count(t < 5) * 100 + __syncthreads_or(t == 63) * 10 + "
                           "__syncthreads_and(t < 63);\n"
                           "    y[5 * t + 2] = __shfl_up_sync(0xffffffffu, t, 1);\n"
                           "    y[5 * t + 3] = t % 32 < 16 ? __shfl_sync(0xffffu, t, 15, 16) : 7;\n"
                           "    y[5 * t + 4] = found + __popc(t) - __popcll((unsigned long long)t << 32);\n"
                           "    junk[t] = 0;\n"
                           "}\n",
                           "together");
    unsigned y[320] = {0};
    CUdeviceptr dy = device_copy(y, sizeof y);
    CU(LAUNCH(f, 2, 64, 0, &dy));
    CU(read_back(y, dy, sizeof y));
    for (unsigned t = 0; t < 64; t++) {
        const unsigned lane = t % 32, want[5] = {t < 32 ? 0x49249249u : 0x92492492u, 510, lane ? t - 1 : t,
                                                 lane < 16 ? t - lane + 15 : 7, ~0u};
        for (int i = 0; i < 5; i++)
            CHECK(y[5 * t + (unsigned)i] == want[i], "thread %u, value %d: %u, wanted %u", t, i, y[5 * t + (unsigned)i],
                  want[i]);
    }
    CU(cuMemFree_v2_(dy));
}

/* ---- wrong kernels, whose behaviour on a real device is undefined */
static void wrong_kernel(const char *text, const char *message) {
    CUfunction f = compile(text, "wrong");
    float y[64] = {0};
    CUdeviceptr dy = device_copy(y, sizeof y);
    CU(LAUNCH(f, 1, 64, 0, &dy));
    const CUresult status = cuStreamSynchronize_(stream);
    CHECK(status == CUDA_ERROR_LAUNCH_FAILED, "status %d for: %s", (int)status, message);
    SAYS(message);
    REFUSED(status, cuMemFree_v2_(dy));             /* the error stays */
    cudasim_mend_();
    CU(cuMemFree_v2_(dy));
}

TEST(wrong_kernels) {
    READY;
    const char *const orders[] = {"forward", "reverse", "5"};
    for (int i = 0; i < 3; i++) {
        cudasim_order_(orders[i]);
        wrong_kernel("extern \"C\" __global__ void wrong(float *y) {\n    if (threadIdx.x < 40) __syncthreads();\n    "
                     "else\n        __syncthreads();\n}\n",
                     "divergent barrier");
        wrong_kernel("extern \"C\" __global__ void wrong(float *y) {\n    if (threadIdx.x == 3) return;\n    "
                     "__syncthreads();\n}\n",
                     "(3, 0, 0) of block (0, 0, 0), which has ended");
        wrong_kernel("extern \"C\" __global__ void wrong(float *y) { __syncwarp(0xfffffffeu); }\n",
                     "is not in its own mask");
        wrong_kernel("extern \"C\" __global__ void wrong(float *y) { if (threadIdx.x % 32 < 8) y[threadIdx.x] = "
                     "__shfl_sync(0xffu, y[0], 9); }\n",
                     "lane 9 in line 1, which takes no part");
        wrong_kernel("extern \"C\" __global__ void wrong(float *y) {\n    if (threadIdx.x % 2) __syncwarp(); else "
                     "__syncthreads();\n}\n",
                     "waits in line 2");
        wrong_kernel("extern \"C\" __global__ void wrong(float *y) {\n    if (threadIdx.x == 9) __trap();\n}\n",
                     "thread (9, 0, 0) of block (0, 0, 0) is trapped in line 2");
    }
}

TEST(addresses) {
    READY;
    CUfunction f = compile("extern \"C\" __global__ void wrong(float *y, long long i) { y[i] = 1; }\n", "wrong");
    float y[4] = {0}, *host = y;
    CUdeviceptr dy = device_copy(y, sizeof y), other;
    long long i = 0;
    CU(cuCtxSetCurrent_(contexts[1]));
    CU(cuMemAlloc_v2_(&other, 16));
    CU(cuCtxSetCurrent_(contexts[0]));
    CU(LAUNCH(f, 1, 1, 0, &other, &i));
    REFUSED(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize_(stream));
    SAYS("lies on device 1, the work on device 0");
    cudasim_mend_();
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync_v2_(dy, other, 16, stream));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2_(dy, y, 17, stream));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2_((CUdeviceptr)(uintptr_t)host, y, 4, stream));
    CU(cuMemcpyPeerAsync_(dy, contexts[0], other, contexts[1], 16, stream));
    CU(read_back(y, dy, sizeof y));
    CHECK(isnan(y[3]), "fresh memory holds %g", (double)y[3]);
#ifndef CUDASIM_SANITIZER                           /* its report ends the process: below */
    i = 1 << 20;
    CU(LAUNCH(f, 1, 1, 0, &dy, &i));
    REFUSED(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize_(stream));
    SAYS("touches address");
    cudasim_mend_();
    i = 4;                                          /* the first 4 bytes behind the allocation */
    CU(LAUNCH(f, 1, 1, 0, &dy, &i));
    REFUSED(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize_(stream));
    SAYS("kernel 'wrong': byte 0 behind an allocation of 16 bytes was overwritten");
    cudasim_mend_();
    REFUSED(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2_(dy));         /* and it is freed */
    cudasim_mend_();
    dy = device_copy(y, sizeof y);
    CUfunction pair = compile(
        "struct alignas(8) pair { float v[2]; };\nextern \"C\" __global__ void pairs(pair *y) { *y = pair{{1, 2}}; }\n",
        "pairs");
    CUdeviceptr odd = dy + 4;
    CU(LAUNCH(pair, 1, 1, 0, &dy));
    CU(cuStreamSynchronize_(stream));
    CU(LAUNCH(pair, 1, 1, 0, &odd));
    REFUSED(CUDA_ERROR_MISALIGNED_ADDRESS, cuStreamSynchronize_(stream));
    SAYS("which is not aligned");
    cudasim_mend_();
#endif
    CU(cuMemFree_v2_(dy));
    i = 0;
    CU(LAUNCH(f, 1, 1, 0, &dy, &i));
    REFUSED(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize_(stream));
    SAYS("not all allocated");
    cudasim_mend_();
    CU(cuCtxSetCurrent_(contexts[1]));
    CU(cuMemFree_v2_(other));
    REFUSED(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel_(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&dy, &i}, NULL));
}

/* ---- nothing runs before a caller waits */
TEST(queues) {
    READY;
    CUstream second;
    CUevent e;
    int *host, value = 0;
    CUdeviceptr at;
    CU(cuStreamCreate_(&second, 1));
    CU(cuEventCreate_(&e, 0));
    CU(cuMemHostAlloc_((void **)&host, 4, 0));
    CU(cuMemAlloc_v2_(&at, 4));
    *host = 1;
    CU(cuMemcpyHtoDAsync_v2_(at, host, 4, stream));
    *host = 2;                                      /* too early: the copy has not begun */
    CU(cuStreamSynchronize_(stream));
    CU(read_back(&value, at, 4));
    CHECK(value == 2, "a copy from pinned memory took %d at once", value);

    CU(cuMemsetD32Async_(at, 5, 1, stream));
    CU(cuMemcpyDtoHAsync_v2_(host, at, 4, second));
    CU(cuStreamSynchronize_(second));
    CHECK(*host == 2, "another stream waited, though nobody had told it: %d", *host);
    CU(cuEventRecord_(e, stream));
    CU(cuStreamWaitEvent_(second, e, 0));
    CU(cuMemcpyDtoHAsync_v2_(host, at, 4, second));
    CHECK(*host == 2, "a copy to pinned memory at once: %d", *host);
    CU(cuStreamSynchronize_(second));
    CHECK(*host == 5, "an event was not waited for: %d", *host);

    cudasim_eager_(1 << 1);                         /* the second stream */
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        cudasim_fail_("wait", forgotten);
        CU(cuMemsetD32Async_(at, 7 + (unsigned)forgotten, 1, stream));
        CU(cuEventRecord_(e, stream));
        CU(cuStreamWaitEvent_(second, e, 0));
        CU(cuMemcpyDtoHAsync_v2_(host, at, 4, second));
        CHECK(*host == 7, "a stream that is eager, with %d waits forgotten: %d", forgotten, *host);
    }
    cudasim_eager_(0);

    CU(cuMemsetD32Async_(at, 6, 1, stream));
    CU(cuEventRecord_(e, stream));
    REFUSED(CUDA_ERROR_NOT_READY, cuEventQuery_(e));
    CU(cuEventQuery_(e));

    CUevent later, untimed;                         /* times are of when the work ran, not of when it was asked for */
    float ms = -1;
    CU(cuEventCreate_(&later, 0));
    CU(cuEventCreate_(&untimed, 2));
    REFUSED(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_(&ms, e, later));
    CU(cuEventRecord_(later, stream));
    CU(cuEventRecord_(untimed, stream));
    REFUSED(CUDA_ERROR_NOT_READY, cuEventElapsedTime_(&ms, e, later));
    usleep(3000);
    CU(cuStreamSynchronize_(stream));
    CU(cuEventElapsedTime_(&ms, e, later));
    CHECK(ms >= 3 && ms < 3000, "%g ms between two events", (double)ms);
    REFUSED(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_(&ms, e, untimed));
    CU(cuEventDestroy_v2_(later));
    CU(cuEventDestroy_v2_(untimed));
    CU(cuMemFreeHost_(host));
    CU(cuMemFree_v2_(at));
    CU(cuEventDestroy_v2_(e));
    CU(cuStreamDestroy_v2_(second));
}

/* ---- graphs: what is captured runs with each launch, not before */
static CUgraph captured_set(CUdeviceptr at, unsigned value, int times) {
    CUgraph g = NULL;
    CU(cuStreamBeginCapture_v2_(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < times; i++) CU(cuMemsetD32Async_(at + 4 * (unsigned)i, value, 1, stream));
    CU(cuStreamEndCapture_(stream, &g));
    return g;
}

TEST(graphs) {
    READY;
    CUdeviceptr at = 0;
    CUgraph whole = NULL;
    CUgraphNode first = NULL, second = NULL;
    CUgraphExec x = NULL;
    int found[2] = {0};
    CU(cuMemAlloc_v2_(&at, 8));
    CU(cuMemsetD32Async_(at, 1, 2, stream));
    CUgraph set = captured_set(at, 7, 1), other = captured_set(at + 4, 8, 1), longer = captured_set(at, 9, 2);
    CU(read_back(found, at, 8));
    CHECK(found[0] == 1 && found[1] == 1, "captured work ran: %d, %d", found[0], found[1]);
    CU(cuGraphCreate_(&whole, 0));
    CU(cuGraphAddChildGraphNode_(&first, whole, NULL, 0, set));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuGraphAddChildGraphNode_(&second, whole, NULL, 0, other));
    CU(cuGraphAddChildGraphNode_(&second, whole, &first, 1, other));
    CU(cuGraphInstantiateWithFlags_(&x, whole, 0));
    CU(cuGraphLaunch_(x, stream));
    CU(read_back(found, at, 8));
    CHECK(found[0] == 7 && found[1] == 8, "a graph set %d and %d", found[0], found[1]);
    REFUSED(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecChildGraphNodeSetParams_(x, second, longer));
    CU(cuGraphExecChildGraphNodeSetParams_(x, second, set));
    CU(cuMemsetD32Async_(at, 1, 2, stream));
    CU(cuGraphLaunch_(x, stream));
    CU(read_back(found, at, 8));
    CHECK(found[0] == 7 && found[1] == 1, "a graph with the first part twice set %d and %d", found[0], found[1]);

    CUgraph g = NULL;                               /* what ends a capture */
    CU(cuStreamBeginCapture_v2_(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    REFUSED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize_(stream));
    REFUSED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture_(stream, &g));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuStreamEndCapture_(stream, &g));
    CU(cuGraphExecDestroy_(x));
    CUgraph all[] = {whole, set, other, longer};
    for (int i = 0; i < 4; i++) CU(cuGraphDestroy_(all[i]));
    CU(cuMemFree_v2_(at));
}

/* ---- requested failures, and limits */
TEST(faults_asked_for) {
    READY;
    CUdeviceptr at = 0;
    size_t left, total;
    CHECK(cudasim_fail_("alloc", 2) && !cudasim_fail_("nothing", 1), "names of failures");
    CU(cuMemAlloc_v2_(&at, 100));
    REFUSED(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2_(&at, 100));
    CU(cuMemFree_v2_(at));
    REFUSED(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2_(&at, 65 << 20));
    CU(cuMemGetInfo_v2_(&left, &total));
    CHECK(total == 64 << 20 && left == total, "%zu of %zu bytes are left", left, total);
    CU(cuMemAlloc_v2_(&at, 60 << 20));
    CU(cuMemFree_v2_(at));
    CUfunction f = compile(add_text, "add");
    int zero = 0;
    at = 0;
    cudasim_fail_("launch", 1);
    REFUSED(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, LAUNCH(f, 1, 32, 0, &at, &at, &at, &zero));
    CU(LAUNCH(f, 1, 32, 0, &at, &at, &at, &zero));
    cudasim_fail_("fault", 1);
    CU(LAUNCH(f, 1, 32, 0, &at, &at, &at, &zero));
    REFUSED(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize_(stream));
    REFUSED(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc_v2_(&at, 100));
    cudasim_mend_();
    REFUSED(CUDA_ERROR_INVALID_VALUE, LAUNCH(f, 1, 1025, 0, &at, &at, &at, &zero));
    REFUSED(CUDA_ERROR_INVALID_VALUE, LAUNCH(f, 0, 1, 0, &at, &at, &at, &zero));
    cudasim_fail_("copy", 1);
    CU(cuMemAlloc_v2_(&at, 4));
    REFUSED(CUDA_ERROR_UNKNOWN, cuMemcpyHtoDAsync_v2_(at, &zero, 4, stream));
    CU(cuMemFree_v2_(at));
}

/* ---- the compiler */
TEST(compiler) {
    READY;
    char log[2000], *image;
    CUmodule m;
    const char *bad[] = {"--gpu-architecture=sm_42"}, *unknown[] = {"--fast"}, *newer[] = {"--gpu-architecture=sm_90"},
               *same_ptx[] = {"--gpu-architecture=compute_75"}, *newer_ptx[] = {"--gpu-architecture=compute_90"};
    int known[100], count = 0;
    CHECK(translate("extern \"C\" __global__ void f() {\n  int x = ;\n}\n", 0, NULL, log, sizeof log, &image) ==
              NVRTC_ERROR_COMPILATION,
          "compiled");
    CHECK(strstr(log, "test.cu(2): error: "), "the log says: %s", log);
    CHECK(translate("", 1, bad, log, sizeof log, &image) == NVRTC_ERROR_INVALID_OPTION &&
              translate("", 1, unknown, log, sizeof log, &image) == NVRTC_ERROR_INVALID_OPTION &&
              strstr(log, "unrecognized option --fast"),
          "options: %s", log);
    CHECK(!translate(add_text, 1, (const char *[]){"-DTWO=2"}, log, sizeof log, &image), "%s", log);
    free(image);
    CHECK(!translate("extern \"C\" __global__ void f() {}\n", 1, newer, log, sizeof log, &image), "%s", log);
    REFUSED(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData_(&m, image));
    image[0] ^= 1;
    REFUSED(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData_(&m, image));
    free(image);
    CHECK(!translate("extern \"C\" __global__ void f() {}\n", 1, same_ptx, log, sizeof log, &image), "%s", log);
    CU(cuModuleLoadData_(&m, image));
    free(image);
    CHECK(!translate("extern \"C\" __global__ void f() {}\n", 1, newer_ptx, log, sizeof log, &image), "%s", log);
    REFUSED(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData_(&m, image));
    free(image);
    CHECK(!nvrtcGetNumSupportedArchs_(&count) && count == 12 && !nvrtcGetSupportedArchs_(known) && known[0] == 75 &&
              known[11] == 121,
          "%d architectures", count);
    CHECK(!translate("/* __global__ void in_a_comment() { */\n#if 0\n__global__ void left_out() {}\n#endif\nextern "
                     "\"C\" __global__ void here();\n"
                     "template <int N> struct s { int v[N]; };\nextern \"C\" __global__ void here() { if (threadIdx.x) "
                     "{ s<3> a; (void)a; } }\n",
                     0, NULL, log, sizeof log, &image),
          "%s", log);
    free(image);
}

/* ---- products: d (M, N) = epilogue(2 a b + 3 c + bias) in rows, as columns of the transposes; DGELU:
 * gelu'(aux) (2 a b + 3 c), BGRAD: bias is the sum of d's rows */
static double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
static double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

static void product(int transposed, uint32_t epilogue) {
    enum { M = 5, N = 8, K = 7, BATCH = 2 };
    float a[BATCH * M * K], b[BATCH * K * N], c[BATCH * M * N], d[BATCH * M * N], aux[BATCH * M * N], bias[BATCH * N];
    const bool slope = (epilogue & 192) == 192, sums = epilogue & 16;
    for (int i = 0; i < BATCH * M * K; i++) a[i] = (float)sin(i);
    for (int i = 0; i < BATCH * K * N; i++) b[i] = (float)cos(i);
    for (int i = 0; i < BATCH * M * N; i++) c[i] = (float)(i % 5), d[i] = NAN, aux[i] = slope ? (float)sin(3 * i) : NAN;
    for (int i = 0; i < BATCH * N; i++) bias[i] = sums ? NAN : 0.25f * (float)(i % N);
    const CUdeviceptr at[6] = {device_copy(b, sizeof b), device_copy(a, sizeof a),       device_copy(c, sizeof c),
                               device_copy(d, sizeof d), device_copy(bias, sizeof bias), device_copy(aux, sizeof aux)};
    CUdeviceptr workspace;
    CU(cuMemAlloc_v2_(&workspace, 4096));
    const uint64_t rows[4] = {transposed ? K : N, transposed ? M : K, N, N},
                   columns[4] = {transposed ? N : K, transposed ? K : M, M, M};
    const int64_t strides[4] = {K * N, M * K, M * N, M * N}, vectors = N, aux_ld = N, odd_ld = N + 4;
    const int32_t count = BATCH, turned = transposed;
    const uint64_t most = 4096;
    const float alpha = 2, beta = 3;
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t p;
    cublasLtMatrixLayout_t l[4];
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int results = 0;
    bool fine = !cublasLtCreate_(&lt) && !cublasLtMatmulDescCreate_(&p, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
                !cublasLtMatmulPreferenceCreate_(&preference);
#define SET(id, value) (fine = fine && !cublasLtMatmulDescSetAttribute_(p, CUBLASLT_MATMUL_DESC_##id, &(value), \
    sizeof(value)))
    SET(TRANSA, turned);
    SET(TRANSB, turned);
    SET(EPILOGUE, epilogue);
    SET(BIAS_POINTER, at[4]);
    SET(EPILOGUE_AUX_POINTER, at[5]);
    SET(EPILOGUE_AUX_LD, aux_ld);
    SET(EPILOGUE_AUX_BATCH_STRIDE, strides[3]);
    SET(BIAS_BATCH_STRIDE, vectors);
    for (int i = 0; i < 4; i++)
        fine = fine && !cublasLtMatrixLayoutCreate_(&l[i], CUDA_R_32F, rows[i], columns[i], (int64_t)rows[i]) &&
               !cublasLtMatrixLayoutSetAttribute_(l[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) &&
               !cublasLtMatrixLayoutSetAttribute_(l[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &strides[i],
                                                  sizeof *strides);
    fine = fine &&
           !cublasLtMatmulPreferenceSetAttribute_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                                  sizeof most) &&
           !cublasLtMatmulAlgoGetHeuristic_(lt, p, l[0], l[1], l[2], l[3], preference, 1, &found, &results) &&
           results == 1;
    REQUIRE(fine, "a product is refused");
#define MATMUL(b_at, bytes) cublasLtMatmul_(lt, p, &alpha, b_at, l[0], at[1], l[1], &beta, at[2], l[2], at[3], l[3], \
    &found.algo, workspace, bytes, stream)
    CHECK(MATMUL(at[0] + 4, 4096) == CUBLAS_STATUS_INVALID_VALUE, "less aligned than was said");
    CHECK(MATMUL(at[0], 100) == CUBLAS_STATUS_INVALID_VALUE, "a small workspace");
    CHECK(!MATMUL(at[0], 4096), "the product: %s", cudasim_message_());
    CU(read_back(d, at[3], sizeof d));
    CU(read_back(aux, at[5], sizeof aux));
    CU(read_back(bias, at[4], sizeof bias));
    double sum_of[BATCH * N] = {0};
    const double error = epilogue & 32 || slope ? 2e-3 : 1e-5;     /* its tanh has 11 bits */
    for (int m = 0; m < BATCH * M; m++)
        for (int n = 0; n < N; n++) {
            const int batch = m / M, i = m % M;
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)a[batch * M * K + (transposed ? k * M + i : i * K + k)] *
                       (double)b[batch * K * N + (transposed ? n * K + k : k * N + n)];
            const double before = 2 * sum + 3 * (double)c[m * N + n] + (epilogue & 4 ? (double)bias[n] : 0);
            const double want = epilogue & 32 ? gelu(before)
                                : slope       ? before * gelu_slope((double)aux[m * N + n])
                                              : before;
            sum_of[batch * N + n] += want;
            CHECK(fabs((double)d[m * N + n] - want) < error, "d[%d, %d] = %g, wanted %g", m, n, (double)d[m * N + n],
                  want);
            CHECK(slope || !(epilogue & 128) || fabs((double)aux[m * N + n] - before) < 1e-5,
                  "aux[%d, %d] = %g, wanted %g", m, n, (double)aux[m * N + n], before);
        }
    for (int n = 0; n < BATCH * N && sums; n++)
        CHECK(fabs((double)bias[n] - sum_of[n]) < M * error, "the sum of column %d is %g, wanted %g", n,
              (double)bias[n], sum_of[n]);
    CUdeviceptr beside = at[5] + 4;
    SET(EPILOGUE_AUX_POINTER, beside);
    CHECK(MATMUL(at[0], 4096) == CUBLAS_STATUS_INVALID_VALUE, "aux less aligned than it was");
    SET(EPILOGUE_AUX_POINTER, at[5]); SET(EPILOGUE_AUX_LD, odd_ld);
    CHECK(!(epilogue & 128) || MATMUL(at[0], 4096) == CUBLAS_STATUS_INVALID_VALUE,
          "aux with rows that are no multiple of 8");
    SET(EPILOGUE_AUX_LD, aux_ld);
    const int32_t two = 3;
    cublasLtMatrixLayoutSetAttribute_(l[3], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two);
    CHECK(MATMUL(at[0], 4096) == CUBLAS_STATUS_INVALID_VALUE &&
              cublasLtMatmulAlgoGetHeuristic_(lt, p, l[0], l[1], l[2], l[3], preference, 1, &found, &results),
          "batches that differ");
    for (int i = 0; i < 6; i++) CU(cuMemFree_v2_(at[i]));
    CU(cuMemFree_v2_(workspace));
    for (int i = 0; i < 4; i++) cublasLtMatrixLayoutDestroy_(l[i]);
    cublasLtMatmulDescDestroy_(p);
    cublasLtMatmulPreferenceDestroy_(preference);
    cublasLtDestroy_(lt);
}

TEST(products) {
    READY;
    const uint32_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS,
                                  CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                  CUBLASLT_EPILOGUE_DGELU,     CUBLASLT_EPILOGUE_DGELU_BGRAD};
    for (int i = 0; i < 6; i++) product(i % 2, epilogues[i]);
}

/* ---- cuSOLVER: LU of a matrix by columns with a pivot in its second row; misuse is refused */
TEST(factors_by_columns) {
    READY;
    enum { N = 3, LD = 4, ROOM = 4096 };
    const double a[N * LD] = {1, 4, 2, 99, 3, 8, 8, 99, 0, 2, 5, 99};   /* rows (1, 3, 0), (4, 8, 2), (2, 8, 5) */
    const double want[N * LD] = {4, 0.5, 0.25, 99, 8, 4, 0.25, 99, 2, 4, -1.5, 99};
    double lu[N * LD];
    int64_t pivots[N];
    int info = 7;
    char host[ROOM];
    size_t bytes = 0, host_bytes = 0;
    cusolverDnHandle_t h;
    cusolverDnParams_t params;
    CUdeviceptr at = device_copy(a, sizeof a), p_at = device_copy(a, sizeof pivots),
                info_at = device_copy(&info, 4), room;
    CU(cuMemAlloc_v2_(&room, ROOM));
    REQUIRE(!cusolverDnCreate_(&h) && !cusolverDnCreateParams_(&params), "no handle");
#define ASK(n, ld) cusolverDnXgetrf_bufferSize_(h, params, n, n, CUDA_R_64F, at, ld, CUDA_R_64F, &bytes, &host_bytes)
#define FACTOR(of, ld, device, on_host, to) cusolverDnXgetrf_(h, params, N, N, CUDA_R_64F, of, ld, p_at, CUDA_R_64F, \
    room, device, host, on_host, to)
    CHECK(ASK(N, LD) == CUSOLVER_STATUS_NOT_INITIALIZED, "a handle without a stream");
    REQUIRE(!cusolverDnSetStream_(h, stream), "no stream");
    CHECK(ASK(N, N - 1) == CUSOLVER_STATUS_INVALID_VALUE, "a short leading dimension");
    CHECK(!ASK(N, LD) && bytes && bytes <= ROOM && host_bytes && host_bytes <= ROOM, "workspaces of %zu, %zu", bytes,
          host_bytes);
    CHECK(FACTOR(at, LD, bytes - 1, host_bytes, info_at) == CUSOLVER_STATUS_INVALID_VALUE, "a small workspace");
    CHECK(FACTOR(at, LD, bytes, host_bytes - 1, info_at) == CUSOLVER_STATUS_INVALID_VALUE, "a small one of the host");
    CHECK(FACTOR(at, LD, bytes, host_bytes, 0) == CUSOLVER_STATUS_INVALID_VALUE, "no info");
    CHECK(FACTOR(at + (1 << 20), LD, bytes, host_bytes, info_at) == CUSOLVER_STATUS_EXECUTION_FAILED, "no memory");
    SAYS("allocat");
    CHECK(cusolverDnXgesvd_bufferSize_(h, params, 'S', 'S', 2, 3, CUDA_R_64F, at, 3, CUDA_R_64F, at, CUDA_R_64F, at, 3,
                                       CUDA_R_64F, at, 3, CUDA_R_64F, &bytes, &host_bytes) ==
              CUSOLVER_STATUS_INVALID_VALUE, "fewer rows than columns");
    CHECK(!ASK(N, LD) && !FACTOR(at, LD, bytes, host_bytes, info_at), "LU: %s", cudasim_message_());
    CU(read_back(lu, at, sizeof lu));
    CU(read_back(pivots, p_at, sizeof pivots));
    CU(read_back(&info, info_at, sizeof info));
    for (int i = 0; i < N * LD; i++) CHECK(lu[i] == want[i], "element %d is %g, wanted %g", i, lu[i], want[i]);
    CHECK(pivots[0] == 2 && pivots[1] == 3 && pivots[2] == 3 && info == 0, "pivots %d %d %d, info %d", (int)pivots[0],
          (int)pivots[1], (int)pivots[2], info);
    CU(cuMemFree_v2_(at)); CU(cuMemFree_v2_(p_at)); CU(cuMemFree_v2_(info_at)); CU(cuMemFree_v2_(room));
    cusolverDnDestroyParams_(params);
    cusolverDnDestroy_(h);
}

/* ---- traffic: in a separate process, whose kernels are compiled to count */
#ifndef CUDASIM_SANITIZER
__attribute__((constructor(65535))) static void run_counting(void) {
    if (!getenv("CUDASIM_COUNT")) return;
    enum { N = 100 };
    float a[N] = {0};
    int n = N;
    if (!ready()) _exit(3);
    CUfunction f = compile(add_text, "add"), h = compile(norm_text, "norm");
    CUdeviceptr da = device_copy(a, sizeof a), dy = device_copy(a, sizeof a);
    for (int i = 0; i < 2; i++) CU(LAUNCH(f, 2, 32, 0, &dy, &da, &da, &n));
    CU(LAUNCH(h, 1, 32, 0, &dy, &da, &n));
    CU(cuStreamSynchronize_(stream));
    const cudasim_bytes x = cudasim_traffic_("add"), y = cudasim_traffic_("norm");
    printf("add %lld %lld, in sectors %lld %lld, norm %lld %lld\n", x.read, x.written, x.sectors_read,
           x.sectors_written, y.read, y.written);
    fflush(stdout);
    _exit(0);
}

TEST(traffic) {
    char path[1000], command[1400], said[1000];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    REQUIRE(n > 0, "no path");
    path[n] = 0;
    snprintf(command, sizeof command, "CUDASIM_COUNT=1 '%s' 2>&1", path);
    FILE *f = popen(command, "r");
    REQUIRE(f, "no process");
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    pclose(f);
    /* 100 floats, each once a launch, in 13 sectors */
    CHECK(!strcmp(said, "add 800 800, in sectors 52 26, norm 400 400\n"), "counted: %s", said);
}
#endif

/* ---- errors that only a sanitizer finds: each in a separate process, which must end with its report */
#ifdef CUDASIM_SANITIZER
static const struct scenario { const char *sanitizer, *name, *report;
} scenarios[] = {
    {"thread", "first barrier", "data race"},
    {"thread", "second barrier", "data race"},
    {"thread", "no barrier dropped", NULL},
    {"thread", "two writers", "data race"},
    {"address", "global", "use-after-poison"},
    {"address", "static shared", "global-buffer-overflow"},
    {"address", "dynamic shared", "use-after-poison"},
    {"address", "nothing", NULL},
};

static void out_of_bounds(const char *text, int shared) {
    CUfunction f = compile(text, "out");
    float y[9] = {0};
    CUdeviceptr dy = device_copy(y, sizeof y);
    CU(LAUNCH(f, 1, 32, (unsigned)shared, &dy));
    CU(cuStreamSynchronize_(stream));
}

__attribute__((constructor(65535))) static void run_scenario(void) {
    const char *name = getenv("CUDASIM_SCENARIO");
    if (!name) return;
    if (!strcmp(name, "first barrier")) setenv("CUDASIM_DROP_BARRIER", "test.cu:1", 1);
    if (!strcmp(name, "second barrier")) setenv("CUDASIM_DROP_BARRIER", "test.cu:2", 1);
    if (!ready()) _exit(3);
    if (strstr(name, "barrier")) norm_error("forward");
    else if (!strcmp(name, "two writers"))
        out_of_bounds("extern \"C\" __global__ void out(float *y) {\n    y[threadIdx.x / 30] = 1;\n}\n", 0);
    else if (!strcmp(name, "global"))
        out_of_bounds("extern \"C\" __global__ void out(float *y) {\n    y[threadIdx.x] = 1;\n}\n", 0);
    else if (!strcmp(name, "static shared"))
        out_of_bounds("extern \"C\" __global__ void out(float *y) {\n    __shared__ float s[31];\n    s[threadIdx.x] = "
                      "1;\n    y[0] = s[0];\n}\n",
                      0);
    else if (!strcmp(name, "dynamic shared"))
        out_of_bounds("extern \"C\" __global__ void out(float *y) {\n    extern __shared__ float s[];\n    "
                      "s[threadIdx.x] = 1;\n    y[0] = s[0];\n}\n",
                      120);
    else
        out_of_bounds("extern \"C\" __global__ void out(float *y) {\n    __shared__ float s[32];\n    s[threadIdx.x] = "
                      "1;\n    if (threadIdx.x < 9) y[threadIdx.x] = s[threadIdx.x];\n}\n",
                      0);
    fflush(stdout);
    _exit(0);
}

TEST(sanitizer) {
    char path[1000], command[1400], report[20000];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    REQUIRE(n > 0, "no path");
    path[n] = 0;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const struct scenario *s = &scenarios[i];
        if (strcmp(s->sanitizer, CUDASIM_SANITIZER)) continue;
        snprintf(command, sizeof command, "CUDASIM_SCENARIO='%s' TSAN_OPTIONS=halt_on_error=1 '%s' 2>&1", s->name,
                 path);
        FILE *f = popen(command, "r");
        REQUIRE(f, "no process");
        report[fread(report, 1, sizeof report - 1, f)] = 0;
        const int status = pclose(f);
        if (s->report)
            CHECK(status && strstr(report, s->report) && strstr(report, "test.cu:"), "%s is not reported: %s", s->name,
                  report);
        else CHECK(!status && !*report, "%s: %d %s", s->name, status, report);
    }
}
#endif
#endif
