/* api.h - NVIDIA's driver, NVRTC, cuBLASLt, cuSOLVER and NCCL, opened at run time: cr_cu.MemAlloc is cuMemAlloc_v2.
 *
 * Declared here as far as this folder uses them, so that a build needs no CUDA.  The numbers are those
 * of NVIDIA's headers (tests/cudasim/check_cuda.py compares them where the headers are installed); all
 * results are int, 0: success. */
#ifndef CR_CUDA_API_H
#define CR_CUDA_API_H

#include "../../core/array.h"

typedef uint64_t cuda_address;
typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;
typedef struct CUgraph_st *cuda_graph;
typedef struct CUgraphNode_st *cuda_node;
typedef struct CUgraphExec_st *cuda_executable;
typedef struct _nvrtcProgram *nvrtc_program;
typedef void *lt_handle;                            /* of cuBLASLt: its context, a product, a layout, a preference */

enum {                                              /* CUresult */
    CUDA_OUT_OF_MEMORY = 2, CUDA_NO_DEVICE = 100, CUDA_NOT_READY = 600
};
enum {                                              /* CUdevice_attribute */
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16, CUDA_ATTRIBUTE_MAJOR = 75, CUDA_ATTRIBUTE_MINOR = 76
};
enum { CUDA_DYNAMIC_SHARED = 8 };                   /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_DISABLE_TIMING = 2 };
enum { CUDA_CAPTURE_RELAXED = 2 };                  /* CUstreamCaptureMode */
enum {                                              /* CUtensorMapDataType, -Swizzle, -L2promotion */
    CUDA_MAP_DATA_TYPE_FLOAT16 = 6, CUDA_MAP_DATA_TYPE_BFLOAT16 = 9, CUDA_MAP_SWIZZLE_128B = 3,
    CUDA_MAP_L2_PROMOTION_L2_128B = 2
};
enum { LT_R_32F = 0, LT_R_64F = 1, LT_R_16F = 2, LT_R_16BF = 14 };                             /* cudaDataType */
enum { LT_COMPUTE_32F = 68, LT_COMPUTE_64F = 70, LT_COMPUTE_32F_FAST_TF32 = 77 };              /* cublasComputeType_t */
/* cublasLtMatmulDescAttributes_t */
enum {
    LT_DESC_TRANSA = 3,
    LT_DESC_TRANSB = 4,
    LT_DESC_EPILOGUE = 7,
    LT_DESC_BIAS = 8,
    LT_DESC_EPILOGUE_AUX_POINTER = 11,
    LT_DESC_EPILOGUE_AUX_LD = 12
};
/* cublasLtEpilogue_t; BIAS may be one of the bits */
enum {
    LT_EPILOGUE_BIAS = 4,
    LT_EPILOGUE_GELU = 32,
    LT_EPILOGUE_GELU_AUX = 160,
    LT_EPILOGUE_BGRADB = 512
};
/* cublasLtMatrixLayoutAttribute_t */
enum { LT_LAYOUT_BATCH_COUNT = 5, LT_LAYOUT_BATCH_STRIDE = 6 };
/* cublasLtMatmulPreferenceAttributes_t; B, C, D follow */
enum { LT_PREFERENCE_WORKSPACE = 1, LT_PREFERENCE_REDUCTIONS = 3, LT_PREFERENCE_ALIGNMENT_A = 5 };
/* cublasLtReductionScheme_t */
enum { LT_REDUCTION_COMPUTE_TYPE = 2 };
/* cublasStatus_t */
enum { LT_ALLOC_FAILED = 3, LT_INVALID_VALUE = 7, LT_ARCHITECTURE_MISMATCH = 8, LT_NOT_SUPPORTED = 15 };
typedef struct lt_algorithm { uint64_t data[8]; } lt_algorithm;
typedef struct lt_heuristic {
    lt_algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} lt_heuristic;

/* cuSOLVER: cusolverStatus_t, cublasFillMode_t (of columns), cusolverEigMode_t, cusolverDeterministicMode_t */
enum { SOLVER_ALLOC_FAILED = 2, SOLVER_UPPER = 1, SOLVER_VALUES = 0, SOLVER_VECTORS = 1, SOLVER_DETERMINISTIC = 1 };
typedef struct cusolverDnContext *solver_handle;
typedef struct cusolverDnParams *solver_params;

/* NCCL, from 2.14 on, whose communicators may be nonblocking */
typedef struct ncclComm *nccl_comm;
typedef struct nccl_id { char bytes[128]; } nccl_id;
typedef struct nccl_config { size_t size; unsigned magic, version; int blocking; } nccl_config;        /* of 2.14 */
enum { NCCL_IN_PROGRESS = 7 };                      /* ncclResult_t */
enum { NCCL_BYTE = 1, NCCL_F32 = 7, NCCL_F64 = 8 }; /* ncclDataType_t: ncclUint8, ncclFloat32, ncclFloat64 */
enum { NCCL_SUM = 0 };                              /* ncclRedOp_t */

/* f(member, symbol, parameters) */
#define CUDA_FUNCTIONS(f) \
    f(Init, "cuInit", (unsigned flags)) \
    f(DriverGetVersion, "cuDriverGetVersion", (int *version)) \
    f(DeviceGetCount, "cuDeviceGetCount", (int *count)) \
    f(DeviceGet, "cuDeviceGet", (int *device, int index)) \
    f(DeviceGetName, "cuDeviceGetName", (char *name, int room, int device)) \
    f(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, int device)) \
    f(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, int device)) \
    f(DeviceUuid, "cuDeviceGetUuid_v2", (unsigned char uuid[16], int device)) \
    f(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (cuda_context *context, int device)) \
    f(CtxSetCurrent, "cuCtxSetCurrent", (cuda_context context)) \
    f(CtxGetCurrent, "cuCtxGetCurrent", (cuda_context *context)) \
    f(MemAlloc, "cuMemAlloc_v2", (cuda_address *at, size_t bytes)) \
    f(MemFree, "cuMemFree_v2", (cuda_address at)) \
    f(MemGetInfo, "cuMemGetInfo_v2", (size_t *free, size_t *total)) \
    f(MemHostAlloc, "cuMemHostAlloc", (void **at, size_t bytes, unsigned flags)) \
    f(MemFreeHost, "cuMemFreeHost", (void *at)) \
    f(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (cuda_address to, const void *from, size_t bytes, cuda_stream stream)) \
    f(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, cuda_address from, size_t bytes, cuda_stream stream)) \
    f(MemsetD8Async, "cuMemsetD8Async", (cuda_address at, unsigned char value, size_t bytes, cuda_stream stream)) \
    f(StreamCreate, "cuStreamCreate", (cuda_stream *stream, unsigned flags)) \
    f(StreamSynchronize, "cuStreamSynchronize", (cuda_stream stream)) \
    f(StreamWaitEvent, "cuStreamWaitEvent", (cuda_stream stream, cuda_event event, unsigned flags)) \
    f(EventCreate, "cuEventCreate", (cuda_event *event, unsigned flags)) \
    f(EventRecord, "cuEventRecord", (cuda_event event, cuda_stream stream)) \
    f(EventSynchronize, "cuEventSynchronize", (cuda_event event)) \
    f(EventQuery, "cuEventQuery", (cuda_event event)) \
    f(EventElapsedTime, "cuEventElapsedTime", (float *milliseconds, cuda_event from, cuda_event to)) \
    f(EventDestroy, "cuEventDestroy_v2", (cuda_event event)) \
    f(ModuleLoadData, "cuModuleLoadData", (cuda_module *module, const void *image)) \
    f(FuncSetAttribute, "cuFuncSetAttribute", (cuda_function function, int attribute, int value)) \
    f(ModuleGetFunction, "cuModuleGetFunction", (cuda_function *function, cuda_module module, const char *name)) \
    f(LaunchKernel, "cuLaunchKernel", (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
                                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, \
                                       cuda_stream stream, void **parameters, void **extra)) \
    f(TensorMapEncodeTiled, "cuTensorMapEncodeTiled", (void *map, int type, unsigned rank, void *at, \
                                                       const uint64_t *sizes, const uint64_t *strides, \
                                                       const unsigned *box, const unsigned *steps, int interleave, \
                                                       int swizzle, int promotion, int fill)) \
    f(StreamBeginCapture, "cuStreamBeginCapture_v2", (cuda_stream stream, int mode)) \
    f(StreamEndCapture, "cuStreamEndCapture", (cuda_stream stream, cuda_graph *graph)) \
    f(GraphCreate, "cuGraphCreate", (cuda_graph *graph, unsigned flags)) \
    f(GraphDestroy, "cuGraphDestroy", (cuda_graph graph)) \
    f(GraphAddChild, "cuGraphAddChildGraphNode", (cuda_node *node, cuda_graph graph, const cuda_node *after, size_t n, \
                                                  cuda_graph child)) \
    f(GraphInstantiate, "cuGraphInstantiateWithFlags", (cuda_executable *x, cuda_graph graph, \
                                                        unsigned long long flags)) \
    f(GraphExecSetChild, "cuGraphExecChildGraphNodeSetParams", (cuda_executable x, cuda_node node, cuda_graph child)) \
    f(GraphExecDestroy, "cuGraphExecDestroy", (cuda_executable x)) \
    f(GraphLaunch, "cuGraphLaunch", (cuda_executable x, cuda_stream stream)) \
    f(GetErrorName, "cuGetErrorName", (int error, const char **text)) \
    f(GetErrorString, "cuGetErrorString", (int error, const char **text))

#define NVRTC_FUNCTIONS(f) \
    f(Version, "nvrtcVersion", (int *major, int *minor)) \
    f(CreateProgram, "nvrtcCreateProgram", (nvrtc_program *program, const char *text, const char *name, int headers, \
                                            const char *const *header_texts, const char *const *header_names)) \
    f(CompileProgram, "nvrtcCompileProgram", (nvrtc_program program, int count, const char *const *options)) \
    f(CountArchitectures, "nvrtcGetNumSupportedArchs", (int *count)) \
    f(Architectures, "nvrtcGetSupportedArchs", (int *known)) \
    f(GetCubinSize, "nvrtcGetCUBINSize", (nvrtc_program program, size_t *bytes)) \
    f(GetCubin, "nvrtcGetCUBIN", (nvrtc_program program, char *cubin)) \
    f(GetPtxSize, "nvrtcGetPTXSize", (nvrtc_program program, size_t *bytes)) \
    f(GetPtx, "nvrtcGetPTX", (nvrtc_program program, char *ptx)) \
    f(GetLogSize, "nvrtcGetProgramLogSize", (nvrtc_program program, size_t *bytes)) \
    f(GetLog, "nvrtcGetProgramLog", (nvrtc_program program, char *log)) \
    f(DestroyProgram, "nvrtcDestroyProgram", (nvrtc_program *program))

#define LT_FUNCTIONS(f) \
    f(Create, "cublasLtCreate", (lt_handle *context)) \
    f(MatmulDescCreate, "cublasLtMatmulDescCreate", (lt_handle *product, int compute, int scale)) \
    f(MatmulDescDestroy, "cublasLtMatmulDescDestroy", (lt_handle product)) \
    f(MatmulDescSet, "cublasLtMatmulDescSetAttribute", (lt_handle product, int attribute, const void *value, \
                                                        size_t bytes)) \
    f(LayoutCreate, "cublasLtMatrixLayoutCreate", (lt_handle *layout, int type, uint64_t rows, uint64_t columns, \
                                                   int64_t stride)) \
    f(LayoutDestroy, "cublasLtMatrixLayoutDestroy", (lt_handle layout)) \
    f(LayoutSet, "cublasLtMatrixLayoutSetAttribute", (lt_handle layout, int attribute, const void *value, \
                                                      size_t bytes)) \
    f(PreferenceCreate, "cublasLtMatmulPreferenceCreate", (lt_handle *preference)) \
    f(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (lt_handle preference)) \
    f(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute", (lt_handle preference, int attribute, \
                                                              const void *value, size_t bytes)) \
    f(Heuristic, "cublasLtMatmulAlgoGetHeuristic", (lt_handle context, lt_handle product, lt_handle a, lt_handle b, \
                                                    lt_handle c, lt_handle d, lt_handle preference, int wanted, \
                                                    lt_heuristic *results, int *count)) \
    f(Matmul, "cublasLtMatmul", (lt_handle context, lt_handle product, const void *alpha, cuda_address a, \
                                 lt_handle a_layout, cuda_address b, lt_handle b_layout, const void *beta, \
                                 cuda_address c, lt_handle c_layout, cuda_address d, lt_handle d_layout, \
                                 const lt_algorithm *algorithm, cuda_address workspace, size_t bytes, \
                                 cuda_stream stream))

/* The generic interface: a matrix by columns, `row` elements from one to the next; workspace on the device and on the
 * host. */
#define SOLVER_ROOM size_t *bytes, size_t *host_bytes
#define SOLVER_WORK cuda_address room, size_t bytes, void *host_room, size_t host_bytes, cuda_address info
#define SOLVER_FUNCTIONS(f) \
    f(Create, "cusolverDnCreate", (solver_handle *handle)) \
    f(SetStream, "cusolverDnSetStream", (solver_handle handle, cuda_stream stream)) \
    f(CreateParams, "cusolverDnCreateParams", (solver_params *params)) \
    f(PotrfRoom, "cusolverDnXpotrf_bufferSize", (solver_handle handle, solver_params params, int triangle, int64_t n, \
                                                 int type, cuda_address a, int64_t row, int compute, SOLVER_ROOM)) \
    f(Potrf, "cusolverDnXpotrf", (solver_handle handle, solver_params params, int triangle, int64_t n, int type, \
                                  cuda_address a, int64_t row, int compute, SOLVER_WORK)) \
    f(GetrfRoom, "cusolverDnXgetrf_bufferSize", (solver_handle handle, solver_params params, int64_t m, int64_t n, \
                                                 int type, cuda_address a, int64_t row, int compute, SOLVER_ROOM)) \
    f(Getrf, "cusolverDnXgetrf", (solver_handle handle, solver_params params, int64_t m, int64_t n, int type, \
                                  cuda_address a, int64_t row, cuda_address pivots, int compute, SOLVER_WORK)) \
    f(GeqrfRoom, "cusolverDnXgeqrf_bufferSize", (solver_handle handle, solver_params params, int64_t m, int64_t n, \
                                                 int type, cuda_address a, int64_t row, int tau_type, \
                                                 cuda_address tau, int compute, SOLVER_ROOM)) \
    f(Geqrf, "cusolverDnXgeqrf", (solver_handle handle, solver_params params, int64_t m, int64_t n, int type, \
                                  cuda_address a, int64_t row, int tau_type, cuda_address tau, int compute, \
                                  SOLVER_WORK)) \
    f(SorgqrRoom, "cusolverDnSorgqr_bufferSize", (solver_handle handle, int m, int n, int k, cuda_address a, int row, \
                                                  cuda_address tau, int *elements)) \
    f(DorgqrRoom, "cusolverDnDorgqr_bufferSize", (solver_handle handle, int m, int n, int k, cuda_address a, int row, \
                                                  cuda_address tau, int *elements)) \
    f(Sorgqr, "cusolverDnSorgqr", (solver_handle handle, int m, int n, int k, cuda_address a, int row, \
                                   cuda_address tau, cuda_address room, int elements, cuda_address info)) \
    f(Dorgqr, "cusolverDnDorgqr", (solver_handle handle, int m, int n, int k, cuda_address a, int row, \
                                   cuda_address tau, cuda_address room, int elements, cuda_address info)) \
    f(SyevdRoom, "cusolverDnXsyevd_bufferSize", (solver_handle handle, solver_params params, int vectors, \
                                                 int triangle, int64_t n, int type, cuda_address a, int64_t row, \
                                                 int w_type, cuda_address w, int compute, SOLVER_ROOM)) \
    f(Syevd, "cusolverDnXsyevd", (solver_handle handle, solver_params params, int vectors, int triangle, int64_t n, \
                                  int type, cuda_address a, int64_t row, int w_type, cuda_address w, int compute, \
                                  SOLVER_WORK)) \
    f(GesvdRoom, "cusolverDnXgesvd_bufferSize", (solver_handle handle, solver_params params, signed char u_job, \
                                                 signed char vt_job, int64_t m, int64_t n, int type, cuda_address a, \
                                                 int64_t row, int s_type, cuda_address s, int u_type, cuda_address u, \
                                                 int64_t u_row, int vt_type, cuda_address vt, int64_t vt_row, \
                                                 int compute, SOLVER_ROOM)) \
    f(Gesvd, "cusolverDnXgesvd", (solver_handle handle, solver_params params, signed char u_job, signed char vt_job, \
                                  int64_t m, int64_t n, int type, cuda_address a, int64_t row, int s_type, \
                                  cuda_address s, int u_type, cuda_address u, int64_t u_row, int vt_type, \
                                  cuda_address vt, int64_t vt_row, int compute, SOLVER_WORK))

#define NCCL_FUNCTIONS(f) \
    f(GetVersion, "ncclGetVersion", (int *version)) \
    f(GetUniqueId, "ncclGetUniqueId", (nccl_id *id)) \
    f(CommInitRankConfig, "ncclCommInitRankConfig", (nccl_comm *comm, int size, nccl_id id, int rank, \
                                                     nccl_config *config)) \
    f(CommFinalize, "ncclCommFinalize", (nccl_comm comm)) \
    f(CommDestroy, "ncclCommDestroy", (nccl_comm comm)) \
    f(CommAbort, "ncclCommAbort", (nccl_comm comm)) \
    f(CommGetAsyncError, "ncclCommGetAsyncError", (nccl_comm comm, int *error)) \
    f(GroupStart, "ncclGroupStart", (void)) \
    f(GroupEnd, "ncclGroupEnd", (void)) \
    f(Send, "ncclSend", (cuda_address from, size_t n, int type, int peer, nccl_comm comm, cuda_stream stream)) \
    f(Recv, "ncclRecv", (cuda_address to, size_t n, int type, int peer, nccl_comm comm, cuda_stream stream)) \
    f(Broadcast, "ncclBroadcast", (cuda_address from, cuda_address to, size_t n, int type, int root, nccl_comm comm, \
                                   cuda_stream stream)) \
    f(AllReduce, "ncclAllReduce", (cuda_address from, cuda_address to, size_t n, int type, int sum, nccl_comm comm, \
                                   cuda_stream stream))

#define CUDA_MEMBER(name, symbol, parameters) int (*name) parameters;
/* version: 13000 is CUDA 13.0 */
typedef struct cuda_api { CUDA_FUNCTIONS(CUDA_MEMBER) int version; } cuda_api;
typedef struct nvrtc_api { NVRTC_FUNCTIONS(CUDA_MEMBER) int major, minor; } nvrtc_api;
typedef struct lt_api { LT_FUNCTIONS(CUDA_MEMBER) } lt_api;
typedef struct solver_api {
    SOLVER_FUNCTIONS(CUDA_MEMBER)
    int (*SetDeterministicMode)(solver_handle handle, int mode);       /* NULL: older than CUDA 12.2 */
} solver_api;
typedef struct nccl_api {
    NCCL_FUNCTIONS(CUDA_MEMBER)
    const char *(*GetErrorString)(int error), *(*GetLastError)(nccl_comm comm);
    int version;                                    /* 22304 is 2.23.4 */
} nccl_api;
#undef CUDA_MEMBER
extern cuda_api cr_cu;                                 /* valid after cr_cuda_ready() returned true */
extern nvrtc_api cr_nvrtc;                             /* after cr_nvrtc_ready() */
extern lt_api cr_cublaslt;                                   /* after cr_lt_ready() */
extern solver_api cr_cusolver;                         /* after cr_solver_ready() */
extern nccl_api cr_nccl;                               /* after cr_nccl_ready() */

/* Each opens its library at the first call.  False: not found, unsuitable or switched off; its problem
 * says which, and what would help. */
bool cr_cuda_ready(void);
bool cr_nvrtc_ready(void);
bool cr_lt_ready(void);
bool cr_solver_ready(void);
bool cr_nccl_ready(void);
const char *cr_cuda_api_problem(void);
const char *cr_nvrtc_problem(void);
const char *cr_lt_problem(void);
const char *cr_solver_problem(void);
const char *cr_nccl_problem(void);

#endif
