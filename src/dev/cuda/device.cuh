/* device.cuh - shared by all kernels: dtypes and their conversions, arithmetic as defined by the
 * primitives of ops.def, faults, trees over threads. Compiled by NVRTC and nvcc, and in tests by the
 * host's compiler: it includes no header. */

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct b8 { u8 bits; };                             /* a bool in memory */

#define D __device__ __forceinline__
/* threads of a block; least number of blocks that a multiprocessor holds */
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)

template <class A, class B> struct same_type { static constexpr bool is = false; };
template <class A> struct same_type<A, A> { static constexpr bool is = true; };
template <class A, class B> constexpr bool same = same_type<A, B>::is;
template <class T> constexpr bool is_half = same<T, f16> || same<T, bf16>;
template <class T> constexpr bool is_float = is_half<T> || same<T, f32> || same<T, f64>;
template <class T> constexpr bool is_signed = same<T, i8> || same<T, i16> || same<T, i32> || same<T, i64>;

/* V neighbouring elements, read and written at once. */
template <class T, int V> struct alignas(sizeof(T) * V) pack { T v[V]; };

/* The bits of a word as a T, and of a number as another type. */
template <class T> D T as(u64 w) {
    union { u64 w; T v; } u;
    u.w = w;
    return u.v;
}
D u32 bits_of(f32 x) { union { f32 x; u32 u; } v; v.x = x; return v.u; }
D f32 f32_of(u32 u) { union { u32 u; f32 x; } v; v.u = u; return v.x; }
template <class T> D T quiet_nan() { return (T)f32_of(0x7fc00000u); }
template <class T> D T infinity() { return (T)f32_of(0x7f800000u); }

/* ---- half floats */
D f32 wide(bf16 h) { return f32_of((u32)h.bits << 16); }
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
D bf16 to_bf16(f32 f) { bf16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); return h; }
#else
D bf16 to_bf16(f32 f) {                             /* to nearest, ties to even */
    const u32 u = bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{(u16)(u >> 16 | 0x40u)};
    return bf16{(u16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}
#endif
#ifdef __CUDA_ARCH__
D f32 wide(f16 h) { f32 f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits)); return f; }
D f16 to_f16(f32 f) { f16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); return h; }
#else
D f32 wide(f16 h) {
    const u32 sign = (u32)(h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31u, fraction = h.bits & 0x3ffu;
    if (exponent == 31) return f32_of(sign | 0x7f800000u | fraction << 13);
    if (exponent) return f32_of(sign | (exponent + 112) << 23 | fraction << 13);
    const f32 f = (f32)fraction * 5.9604644775390625e-08f;             /* a denormal, exactly */
    return sign ? -f : f;
}
D f16 to_f16(f32 f) {
    const u32 u = bits_of(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return f16{(u16)(sign | 0x7e00u | (a >> 13 & 0x3ffu))};
    if (a >= 0x477ff000u) return f16{(u16)(sign | 0x7c00u)};
    if (a >= 0x38800000u) return f16{(u16)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13)};
    return f16{(u16)(sign | (bits_of(f32_of(a) + 0.5f) - bits_of(0.5f)))};
}
#endif
/* f64 to a half float through f32 would round twice: round to odd first (the sticky bit), then once to nearest even. */
D f32 to_odd(f64 v) {
    const f32 f = (f32)v;
    if (v != v || (f64)f == v || (bits_of(f) & 0x7fffffffu) == 0x7f800000u) return f;
    return f32_of((fabs((f64)f) > fabs(v) ? bits_of(f) - 1 : bits_of(f)) | 1u);
}

/* ---- casts, as in cr_convert: float to integer saturates, NaN becomes 0; to bool: != 0.  wide: the
 * type of computation. */
D f32 wide(f32 x) { return x; }
D f64 wide(f64 x) { return x; }
D bool wide(b8 x) { return x.bits != 0; }
D bool wide(bool x) { return x; }
template <class T> D T wide(T x) { return x; }

template <class T> D T saturated(f64 v) {
    constexpr int bits = 8 * (int)sizeof(T) - is_signed<T>;
    constexpr f64 high = 2.0 * (f64)(1ull << (bits - 1)), low = is_signed<T> ? -high : 0.0;
    if (v != v) return 0;
    if (v <= low) return is_signed<T> ? (T)(1ull << (bits & 63)) : (T)0;
    return v >= high ? (T)(~0ull >> (64 - bits)) : (T)v;
}

template <class To, class From> D To cast(From from) {
    const auto x = wide(from);
    typedef decltype(wide(from)) W;
    if constexpr (same<To, From>) return from;
    else if constexpr (same<To, b8>) return b8{(u8)(x != 0)};
    else if constexpr (same<To, bool>) return x != 0;
    else if constexpr (is_half<To>) {
        f32 f;
        if constexpr (same<W, f32>) f = x;
        else if constexpr (sizeof(W) < 4) f = (f32)x;
        else f = to_odd((f64)x);
        if constexpr (same<To, f16>) return to_f16(f);
        else return to_bf16(f);
    }
    else if constexpr (is_float<To>) {
        if constexpr (sizeof(W) == 8) return (To)(f64)x;
        else return (To)x;
    }
    else if constexpr (is_float<From>) return saturated<To>(x);
    else return (To)x;
}

/* ---- floats */
template <class T> D T f_f16(T a) { return cast<T>(cast<f16>(a)); }                           /* rounded */
template <class T> D T f_bf16(T a) { return cast<T>(cast<bf16>(a)); }
template <class T> D T f_max(T a, T b) { return a > b || a != a ? a : b; }                    /* NaN wins */
template <class T> D T f_min(T a, T b) { return a < b || a != a ? a : b; }
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800   /* one instruction instead of three; here max(-0, +0) is +0,
                                                     * above it is the second operand */
D f32 f_max(f32 a, f32 b) { f32 y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
D f32 f_min(f32 a, f32 b) { f32 y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
#endif
D f32 f_mod(f32 a, f32 b) { return fmodf(a, b); }
D f64 f_mod(f64 a, f64 b) { return fmod(a, b); }
D f32 f_sign_of(f32 a, f32 b) { return copysignf(a, b); }
D f64 f_sign_of(f64 a, f64 b) { return copysign(a, b); }
D f32 f_round(f32 a) { return rintf(a); }
D f64 f_round(f64 a) { return rint(a); }
D f32 f_trunc(f32 a) { return truncf(a); }
D f64 f_trunc(f64 a) { return trunc(a); }
D f32 f_exp(f32 a) { return expf(a); }
D f64 f_exp(f64 a) { return exp(a); }
#ifdef __CUDA_ARCH__
/* within 2 ulp; -Inf: 0 */
D f32 power_of_2(f32 x) { f32 y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#else
D f32 power_of_2(f32 x) { return exp2f(x); }
#endif
constexpr f32 LOG2E = 1.4426950408889634f, LN2 = 0.69314718055994531f;
/* e^a, a <= 0, for sums or for results that are rounded to T.  For half floats two instructions
 * instead of eight, with a relative error of 2^-22 (1 + |a|); results below 2^-126 become 0. */
template <class T> D f32 weight_of(f32 a) { return is_half<T> ? power_of_2(a * LOG2E) : f_exp(a); }
template <class T> D f64 weight_of(f64 a) { return exp(a); }
D f32 f_log(f32 a) { return logf(a); }
D f64 f_log(f64 a) { return log(a); }
D f32 f_sqrt(f32 a) { return sqrtf(a); }
D f64 f_sqrt(f64 a) { return sqrt(a); }
D f32 f_pow(f32 a, f32 b) { return powf(a, b); }
D f64 f_pow(f64 a, f64 b) { return pow(a, b); }
template <class T> D bool is_inf(T x) { return x == infinity<T>() || x == -infinity<T>(); }
template <class T> D T f_abs(T x) { return f_sign_of(x, (T)1); }

/* Python's %: the result has b's sign. */
template <class T> D T f_rem(T a, T b) {
    const T r = f_mod(a, b);
    if (r == 0) return f_sign_of((T)0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
/* Python's //: the floor of the exact quotient; floor(a / b) is too large where the division rounds up
 * to an integer. */
template <class T> D T f_floor_div(T a, T b) {
    if (b == 0) return a / b;
    const T r = f_mod(a, b);
    T q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    return q == 0 ? f_sign_of((T)0, a / b) : f_round(q);
}
/* The integer part of the exact quotient; a / b may round up to an integer. */
template <class T> D T f_trunc_div(T a, T b) {
    const T q = a / b;
    if (q != q || is_inf(q) || is_inf(b) || f_abs(q) < (T)0.5) return f_trunc(q);
    return f_sign_of(f_round((a - f_mod(a, b)) / b), q);
}

/* ---- integers, which wrap; b is not 0 */
template <class T> D T i_div(T a, T b) { return is_signed<T> && b == (T)-1 ? (T)(0 - (u64)a) : (T)(a / b); }
template <class T> D T i_mod(T a, T b) { return is_signed<T> && b == (T)-1 ? (T)0 : (T)(a % b); }
template <class T> D T i_floor_div(T a, T b) { return (T)(i_div(a, b) - (i_mod(a, b) != 0 && (a < 0) != (b < 0))); }
template <class T> D T i_rem(T a, T b) {
    const T r = i_mod(a, b);
    return r != 0 && (a < 0) != (b < 0) ? (T)(r + b) : r;
}
template <class T> D T i_pow(T a, T b) {            /* a negative exponent: the integer part */
    if (b < 0) return a == 1 ? (T)1 : a == (T)-1 ? (b % 2 ? (T)-1 : (T)1) : (T)0;
    u64 y = 1, square = (u64)a;
    for (u64 n = (u64)b; n; n >>= 1, square *= square) if (n & 1) y *= square;
    return (T)y;
}

/* ---- faults: the first position and the value there.  Each word has 40 bits of the position and 24
 * of the value, so the minima of the three words belong to the same position, in whatever order
 * threads arrive */
struct fault { u64 w[3]; };
D void note(fault *f, i64 position, i64 value) {
    for (int i = 0; i < 3; i++) atomicMin(&f->w[i], (u64)position << 24 | ((u64)value >> (24 * i) & 0xffffffu));
}
template <class T> D T divisor(T b, fault *f) {
    if (b == 0) note(f, 0, 0);
    return b == 0 ? (T)1 : b;
}

/* ---- `width` threads of a block, a power of two, share one of its 256 / width results: neighbouring
 * threads (along), or every 256 / width-th */
/* lane: of this thread among those of its result; column: of the result in the block */
struct share { int width, lane, column, columns, step; };
D share share_of(i64 width, i64 along) {
    const int t = (int)threadIdx.x, w = (int)width, columns = 256 / w;
    return along ? share{w, t % w, t / w, columns, 1} : share{w, t / columns, t % columns, columns, columns};
}
struct sum_of { template <class T> static __device__ T join(T a, T b) { return a + b; } };
struct max_of { template <class T> static __device__ T join(T a, T b) { return f_max(a, b); } };
/* The value of the thread in the warp whose number differs in these bits. */
template <class T> D T exchanged(T v, int bits) { return (T)__shfl_xor_sync(0xffffffffu, v, bits); }
template <class T, int V> D pack<T, V> exchanged(pack<T, V> v, int bits) {
#pragma unroll
    for (int k = 0; k < V; k++) v.v[k] = exchanged(v.v[k], bits);
    return v;
}
/* The values of the threads that share a result, joined by halves, always in the same order.  All
 * threads of the block call it. */
template <class How, class T> D T halves(T v, T *shared, const share &s) {
    const int t = (int)threadIdx.x;
    shared[t] = v;
    for (int half = s.width / 2; half > 0; half /= 2) {
        __syncthreads();
        if (s.lane < half) shared[t] = How::join(shared[t], shared[t + half * s.step]);
    }
    __syncthreads();
    v = shared[t - s.lane * s.step];
    __syncthreads();                                /* shared may be used again */
    return v;
}
/* The same, but within warps first if the threads are neighbours; join must be commutative. */
template <class How, class T> D T tree(T v, T *shared, const share &s) {
    const int t = (int)threadIdx.x;
    if (s.step > 1) return halves<How>(v, shared, s);
    for (int lane = s.width < 32 ? s.width / 2 : 16; lane; lane /= 2) v = How::join(v, exchanged(v, lane));
    if (s.width <= 32) return v;
    if (t % 32 == 0) shared[t / 32] = v;
    __syncthreads();
    v = shared[(t - s.lane) / 32];
    for (int i = 1; i < s.width / 32; i++) v = How::join(v, shared[(t - s.lane) / 32 + i]);
    __syncthreads();                                /* shared may be used again */
    return v;
}

/* The values of the earlier threads, joined by How from How::none() on; `all`: the values of all.  All
 * threads of the block call it; shared: 2 x 256. */
template <class How, class T> D T prefix(T v, T *shared, const share &s, T &all) {
    const int t = (int)threadIdx.x;
    T *from = shared, *to = shared + 256;
    from[t] = v;
    for (int back = 1; back < s.width; back *= 2) {                    /* Hillis and Steele 1986 */
        __syncthreads();
        if (s.lane >= back) v = How::join(from[t - back * s.step], v);
        to[t] = v;
        T *swap = from;
        from = to, to = swap;
    }
    __syncthreads();
    const T y = s.lane ? from[t - s.step] : How::none();
    all = from[t + (s.width - 1 - s.lane) * s.step];
    __syncthreads();                                /* shared may be used again */
    return y;
}

/* ---- positions of elements: x / n for x < 2^31, by the reciprocal of n from elementwise.c; for 64 bits by n itself */
D u32 divide(u32 x, u64 by) { return (__umulhi(x, (u32)by) + x) >> (u32)(by >> 32); }
D u64 divide(u64 x, u64 n) { return x / n; }

/* The distance of lines of L elements in shared memory: no bank conflicts, neither along a line nor across lines. */
template <class T, int L> constexpr int pitch = L + (sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1);
/* Copies up to N lines of up to L elements into m.  All threads of the block call it. */
template <int N, int L, class T, class S, class I> D void read_tile(T *m, const T *x, S stride, I lines, I length) {
    T v[N * L / 256];
    for (int u = 0; u < N * L / 256; u++) {
        const u32 j = threadIdx.x + u * 256, n = j / L, i = j % L;
        if (n < lines && i < length) v[u] = x[(S)n * stride + (S)i];
    }
    for (int u = 0; u < N * L / 256; u++) {
        const u32 j = threadIdx.x + u * 256, n = j / L, i = j % L;
        if (n < lines && i < length) m[n * pitch<T, L> + i] = v[u];
    }
    __syncthreads();
}

/* ---- Philox 4x32-10 (Salmon et al. 2011): the block numbered `counter` */
struct block4 { u32 w[4]; };
D block4 philox(u64 seed, u64 counter) {
    u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0, k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const u64 a = 0xd2511f53ull * c0, b = 0xcd9e8d57ull * c2;
        c0 = (u32)(b >> 32) ^ c1 ^ k0;
        c2 = (u32)(a >> 32) ^ c3 ^ k1;
        c1 = (u32)b;
        c3 = (u32)a;
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    return block4{{c0, c1, c2, c3}};
}

/* ---- tensor cores (sm_80 and later): c += a b by a warp, F: f16, bf16, or f32 as TF32 */
#include "fragments.cuh"
D int lane() { return (int)threadIdx.x % 32; }
#ifdef __CUDA_ARCH__
template <class F> D void multiply(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if constexpr (same<F, f16>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
            "%2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else if constexpr (same<F, bf16>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
            "%1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
            "%2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
D u32 to_tf32(f32 x) { u32 y; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x)); return y; }
#else
namespace {
/* The values of all lanes of the warp.  Not zero, or the simulator would take them for shared memory. */
template <int N> D u64 (*exchange(const u64 (&mine)[N]))[N] {
    static u64 values[256][N] = {{1}};
    for (int i = 0; i < N; i++) values[threadIdx.x][i] = mine[i];
    __syncwarp();
    return values + threadIdx.x / 32 * 32;
}
}
template <class F> D f32 word_part(u64 word, int i) {
    if constexpr (same<F, f32>) return f32_of((u32)word);
    else return wide(F{(u16)(word >> 16 * i)});
}
template <class F> D void multiply(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    const u64 mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    u64 (*const lanes)[6] = exchange(mine);
    for (int e = 0; e < 4; e++) {
        for (int w = 0; w < 8; w++) {
            const fragment x = fragment_a(fragment_row(lane(), e), w), y = fragment_b(fragment_column(lane(), e), w);
            for (int i = 0; i < (same<F, f32> ? 1 : 2); i++)
                c[e] += word_part<F>(lanes[x.lane][x.word], i) * word_part<F>(lanes[y.lane][4 + y.word], i);
        }
    }
    __syncwarp();
}
D u32 to_tf32(f32 x) {                              /* 10 bits of the fraction, to nearest, ties away from 0 */
    const u32 u = bits_of(x);
    return (u & 0x7f800000u) == 0x7f800000u ? u : (u + 0x1000u) & ~0x1fffu;
}
#endif
