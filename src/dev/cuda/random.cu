/* random.cu - Philox 4x32-10: element i of a stream is a function of seed and counter, as on every
 * device (dev.h).  T elements, A the type of computation for floats.  Integers and uniforms have the
 * same bits on every device; normals use a logarithm and a cosine. */
/* element i of y from seed and counter; integers: low + [0, span), span 0: 2^64 */
typedef struct random_arguments {
    POINTER(T) y;
    i64 numel;
    u64 seed, counter;
    i64 low;
    u64 span;
} random_arguments;

#ifdef __cplusplus
#define EACH(i) for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.numel; i += (i64)gridDim.x * 256)

D u64 word64(u64 seed, u64 counter, i64 i) {
    const block4 b = philox(seed, counter + (u64)i / 2);
    return i % 2 ? b.w[2] | (u64)b.w[3] << 32 : b.w[0] | (u64)b.w[1] << 32;
}
D A uniform01(u64 seed, u64 counter, i64 i) {
    if constexpr (same<A, f64>) return (f64)(word64(seed, counter, i) >> 11) * 1.1102230246251565e-16;
    else return (f32)(philox(seed, counter + (u64)i / 4).w[i % 4] >> 8) * 5.9604644775390625e-08f;
}

/* A half float never becomes 1: where rounding raised the value, the next lower half float is one less in the bits. */
template <class To> D To rounded_down(A u) {
    To v = cast<To>(u);
    if constexpr (is_half<To>) if (wide(v) > u) v.bits--;
    return v;
}
KERNEL(256) uniform(const random_arguments p) {
    EACH(i) p.y[i] = rounded_down<T>(uniform01(p.seed, p.counter, i));
}

D f32 f_sin(f32 x) { return sinf(x); }
D f64 f_sin(f64 x) { return sin(x); }
D f32 f_cos(f32 x) { return cosf(x); }
D f64 f_cos(f64 x) { return cos(x); }

/* sin(2 pi (turn + quarters / 4)); in f32 the remainder to whole quarters of a turn is exact */
D f64 sin_turn(f64 turn, int quarters) {
    return quarters ? f_cos(6.283185307179586 * turn) : f_sin(6.283185307179586 * turn);
}
D f32 sin_turn(f32 turn, int quarters) {
    const f32 n = f_round(4 * turn), x = (turn - n / 4) * 6.28318531f;
    const int q = ((int)n + quarters) & 3;
    const f32 y = q & 1 ? f_cos(x) : f_sin(x);
    return q & 2 ? -y : y;
}

/* Box-Muller on the pair (2j, 2j + 1) */
KERNEL(256) normal(const random_arguments p) {
    EACH(i) {
        const A u0 = uniform01(p.seed, p.counter, i / 2 * 2), u1 = uniform01(p.seed, p.counter, i / 2 * 2 + 1);
        p.y[i] = cast<T>(f_sqrt(-2 * f_log(1 - u0)) * sin_turn(u1, i % 2 ? 0 : 1 /* quarter */));
    }
}

/* floor(word span / 2^64) + low; span 0: 2^64 */
KERNEL(256) integers(const random_arguments p) {
    EACH(i) {
        const u64 word = word64(p.seed, p.counter, i), a = word & 0xffffffffu, b = word >> 32, c = p.span & 0xffffffffu,
                  d = p.span >> 32;
        const u64 middle = (a * c >> 32) + (b * c & 0xffffffffu) + (a * d & 0xffffffffu);
        const u64 high = b * d + (b * c >> 32) + (a * d >> 32) + (middle >> 32);
        p.y[i] = cast<T>((i64)((u64)p.low + (p.span ? high : word)));
    }
}
#endif
