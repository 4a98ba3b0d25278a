/* sim.h - CUDA C++ for the host's compiler: precedes every text that the simulated NVRTC compiles.
 *
 * A thread of a kernel is a call of its function.  The driver implements barriers and shuffles
 * (fibers.c); kernels call it through a table. Blocks run one at a time, so __shared__ variables are
 * static.  Atomics are real because the thread sanitizer must see them. Each line here costs time in
 * every compilation: this file includes nothing and has only what kernels use. */
#pragma GCC system_header
#include "module.h"

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

/* ---- vectors */
#define CUDASIM_VECTOR(T, name, align1, align2, align4)                                                     \
    struct name##1 { T x; };                                                                                \
    struct __align__(align2) name##2 { T x, y; };                                                           \
    struct name##3 { T x, y, z; };                                                                          \
    struct __align__(align4) name##4 { T x, y, z, w; };                                                     \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                       \
    static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                               \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDASIM_VECTOR(signed char, char, 1, 2, 4)
CUDASIM_VECTOR(unsigned char, uchar, 1, 2, 4)
CUDASIM_VECTOR(short, short, 2, 4, 8)
CUDASIM_VECTOR(unsigned short, ushort, 2, 4, 8)
CUDASIM_VECTOR(int, int, 4, 8, 16)
CUDASIM_VECTOR(unsigned, uint, 4, 8, 16)
CUDASIM_VECTOR(float, float, 4, 8, 16)
CUDASIM_VECTOR(long long, longlong, 8, 16, 16)
CUDASIM_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
CUDASIM_VECTOR(double, double, 8, 16, 16)
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

/* ---- the position of a thread; the driver writes these */
extern "C" {
/* not zero, or they would lie among the shared variables, which are overwritten when a block begins */
static cudasim_dim cudasim_thread = {1, 1, 1}, cudasim_block = {1, 1, 1}, cudasim_threads = {1, 1, 1},
                   cudasim_blocks = {1, 1, 1};
static const cudasim_runtime *cudasim = (const cudasim_runtime *)1;
}

/* CUDASIM_TRAFFIC: the compiler calls these, made for the thread sanitizer, at every access to memory
 * that others could see. */
#ifdef CUDASIM_TRAFFIC
#define CUDASIM_HOOK __attribute__((visibility("hidden"), no_sanitize("thread"))) void
#define CUDASIM_HOOKS(n)                                                                                    \
    CUDASIM_HOOK __tsan_read##n(void *at) { cudasim->access(at, n, 0); }                                    \
    CUDASIM_HOOK __tsan_write##n(void *at) { cudasim->access(at, n, 1); }                                   \
    CUDASIM_HOOK __tsan_unaligned_read##n(void *at) { cudasim->access(at, n, 0); }                          \
    CUDASIM_HOOK __tsan_unaligned_write##n(void *at) { cudasim->access(at, n, 1); }
extern "C" {
CUDASIM_HOOKS(1) CUDASIM_HOOKS(2) CUDASIM_HOOKS(4) CUDASIM_HOOKS(8) CUDASIM_HOOKS(16)
CUDASIM_HOOK __tsan_read_range(void *at, long n) { cudasim->access(at, (unsigned long)n, 0); }
CUDASIM_HOOK __tsan_write_range(void *at, long n) { cudasim->access(at, (unsigned long)n, 1); }
CUDASIM_HOOK __tsan_func_entry(void *) {}
CUDASIM_HOOK __tsan_func_exit(void *) {}
CUDASIM_HOOK __tsan_init() {}
}
#endif
/* The compiler calls it before an access that is less aligned than its type, which a GPU does not make. */
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void *, void *at) {
    cudasim->misaligned(at);
}
#define threadIdx ((const cudasim_dim &)cudasim_thread)
#define blockIdx ((const cudasim_dim &)cudasim_block)
#define blockDim ((const cudasim_dim &)cudasim_threads)
#define gridDim ((const cudasim_dim &)cudasim_blocks)
#define warpSize 32

/* ---- barriers and shuffles; `line` says where threads wait */
#define cudasim_dropped(...) ((void)0)
#define __syncthreads() ((void)cudasim->barrier(CUDASIM_BARRIER, 0, __LINE__))
#define __syncthreads_count(p) cudasim->barrier(CUDASIM_COUNT, (p) != 0, __LINE__)
#define __syncthreads_and(p) cudasim->barrier(CUDASIM_AND, (p) != 0, __LINE__)
#define __syncthreads_or(p) cudasim->barrier(CUDASIM_OR, (p) != 0, __LINE__)
static inline void cudasim_syncwarp(int line, unsigned mask = 0xffffffffu) {
    cudasim->warp(CUDASIM_SYNCWARP, mask, 0, 0, line);
}
#define __syncwarp(...) cudasim_syncwarp(__LINE__, ##__VA_ARGS__)
#define __ballot_sync(mask, p) ((unsigned)cudasim->warp(CUDASIM_BALLOT, (mask), (p) != 0, 0, __LINE__))
#define __any_sync(mask, p) (__ballot_sync(mask, p) != 0)

/* The lane whose value is taken, of which width lanes are one group; outside the group it is the lane itself. */
enum { CUDASIM_AT, CUDASIM_UP, CUDASIM_XOR };
static inline int cudasim_source(int how, int n, int width) {
    const int lane = cudasim->lane(), first = lane & -width, within = lane - first;
    const int source = how == CUDASIM_AT ? n & (width - 1) : how == CUDASIM_UP ? within - n : within ^ n;
    return source >= 0 && source < width ? first + source : lane;
}
template <class T> static inline T cudasim_shuffle(int how, int line, unsigned mask, T value, int n, int width = 32) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = cudasim->warp(CUDASIM_SHUFFLE, mask, bits, cudasim_source(how, n, width), line);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
#define __shfl_sync(...) cudasim_shuffle(CUDASIM_AT, __LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) cudasim_shuffle(CUDASIM_UP, __LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) cudasim_shuffle(CUDASIM_XOR, __LINE__, __VA_ARGS__)
#define __trap() cudasim->trap(__LINE__)
#define printf(...) cudasim->print(__VA_ARGS__)

/* ---- bits */
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

/* ---- atomics: return the old value.  Threads do not run at once, so only the thread sanitizer needs atomics. */
#ifdef CUDASIM_THREAD
#define CUDASIM_ATOMIC(name, T, expression)                                                                 \
    static inline T name(T *p, T x) {                                                                       \
        T old, y;                                                                                           \
        __atomic_load(p, &old, __ATOMIC_RELAXED);                                                           \
        do y = (expression);                                                                                \
        while (!__atomic_compare_exchange(p, &old, &y, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));         \
        return old;                                                                                         \
    }
#else
#define CUDASIM_ATOMIC(name, T, expression) static inline T name(T *p, T x) { const T old = *p; *p = (expression); \
    return old; }
#endif
CUDASIM_ATOMIC(atomicAdd, int, old + x)
CUDASIM_ATOMIC(atomicAdd, unsigned, old + x)
CUDASIM_ATOMIC(atomicAdd, unsigned long long, old + x)
CUDASIM_ATOMIC(atomicMin, unsigned long long, x < old ? x : old)

/* ---- functions of floats: the C library's, and those whose names differ in CUDA */
#define CUDASIM_MATH1(f) f(sqrt) f(exp) f(exp2) f(expm1) f(log) f(log2) f(log10) f(log1p) f(sin) f(cos) f(tan) \
    f(asin) f(acos) f(atan) \
    f(sinh) f(cosh) f(tanh) f(asinh) f(acosh) f(atanh) f(erf) f(erfc) f(floor) f(ceil) f(trunc) f(round) f(rint) f(fabs)
#define CUDASIM_MATH2(f) f(pow) f(fmod) f(atan2) f(fmin) f(fmax) f(copysign)
extern "C" {
#define CUDASIM_DECLARE1(name) double name(double) noexcept; float name##f(float) noexcept;
#define CUDASIM_DECLARE2(name) double name(double, double) noexcept; float name##f(float, float) noexcept;
CUDASIM_MATH1(CUDASIM_DECLARE1)
CUDASIM_MATH2(CUDASIM_DECLARE2)
double ldexp(double, int) noexcept; float ldexpf(float, int) noexcept;
double fma(double, double, double) noexcept; float fmaf(float, float, float) noexcept;
void *memcpy(void *, const void *, size_t) noexcept;
void *memset(void *, int, size_t) noexcept;
}
#define CUDASIM_OVERLOAD1(name) static inline float name(float x) { return name##f(x); }
#define CUDASIM_OVERLOAD2(name) static inline float name(float x, float y) { return name##f(x, y); }
CUDASIM_MATH1(CUDASIM_OVERLOAD1)
CUDASIM_MATH2(CUDASIM_OVERLOAD2)
static inline float ldexp(float x, int n) { return ldexpf(x, n); }
static inline float rsqrtf(float x) { return (float)(1 / __builtin_sqrt((double)x)); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
#define isnan(x) __builtin_isnan(x)

/* ---- one row of the table of kernels: parameters unpacked by the types of the kernel */
template <class... A> struct cudasim_parameters;
template <unsigned... I> struct cudasim_places {};
template <unsigned N, unsigned... I> struct cudasim_count : cudasim_count<N - 1, N - 1, I...> {};
template <unsigned... I> struct cudasim_count<0, I...> { typedef cudasim_places<I...> places; };
template <class... A> struct cudasim_signature {
    static constexpr unsigned sizes[] = {(unsigned)sizeof(A)..., 0};
};
template <class T> struct cudasim_plain { typedef T type; };
template <class T> struct cudasim_plain<const T> { typedef T type; };
template <class... A, unsigned... I>
static inline void cudasim_spread(void (*f)(A...), void *const *p, cudasim_places<I...>) {
    (void)p;
    f(*(typename cudasim_plain<A>::type *)p[I]...);
}
template <class... A> static inline void cudasim_call(void (*f)(A...), void *const *p) {
    cudasim_spread(f, p, typename cudasim_count<sizeof...(A)>::places());
}
/* The simulated NVRTC adds it after each kernel. */
#define CUDASIM_NAME(name) #name
#define CUDASIM_ROW(name)                                                                                   \
    static void cudasim_call_##name(void *const *p) { cudasim_call(name, p); }                              \
    __attribute__((section("cudasim_kernels"), used)) static constexpr cudasim_kernel cudasim_row_##name =  \
        {CUDASIM_NAME(name), cudasim_call_##name, cudasim_arity(name), cudasim_sizes(name)};
#define CUDASIM_KERNEL(name) CUDASIM_ROW(name)      /* a name may be a macro */
template <class... A> constexpr int cudasim_arity(void (*)(A...)) { return sizeof...(A); }
template <class... A> constexpr const unsigned *cudasim_sizes(void (*)(A...)) { return cudasim_signature<A...>::sizes; }

/* ---- and this at the end of a text */
#define CUDASIM_END(names)                                                                                  \
    __asm__(".section .cudasim_dynamic,\"aw\",@nobits\n.balign 128\ncudasim_dynamic:\n" names         \
            ".zero 232448\n.text\n");                                                                  \
    extern "C" {                                                                                            \
    extern char __bss_start[] __attribute__((visibility("hidden"))), cudasim_dynamic[];                     \
    extern const cudasim_kernel __start_cudasim_kernels[] __attribute__((visibility("hidden")));            \
    extern const cudasim_kernel __stop_cudasim_kernels[] __attribute__((visibility("hidden")));             \
    __attribute__((visibility("default"))) extern const cudasim_module cudasim_module_;                     \
    __attribute__((visibility("default"))) const cudasim_module cudasim_module_ __asm__("cudasim_module") = \
        {__start_cudasim_kernels, __stop_cudasim_kernels, CUDASIM_ARCHITECTURE, \
        CUDASIM_SPECIFIC, &cudasim_thread, &cudasim_block, &cudasim_threads, &cudasim_blocks, &cudasim, \
        __bss_start, cudasim_dynamic};                                                                      \
    }
