// library.wgsl - functions that kernels call.  A kernel's source gets those that it calls (wgsl.c).
//
// Drivers compute f32 arithmetic on NaN and infinities as IEEE says, but not max, min, exp and
// comparisons such as x != x: the functions here test the bits instead.  WebGPU promises little
// accuracy for exp, log, sin and others, so they are the polynomials of the cpu device
// (dev/cpu/vmath.h): within 4 ulp, and the same bits on every GPU that rounds as IEEE says.
// `hidden` stops a compiler from simplifying across a value: (a + b) - a is not b.  Metal compiles
// with fast math, which adds in any order and takes no number for an infinity: each sum whose rounding
// matters is hidden before the next one, and infinities are compared by bits.

// ---- dtypes
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_inf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn is_least(x: f32) -> bool { return bitcast<u32>(x) == 0xff800000u; }
// p.zero is 0, but the compiler cannot know that
fn nan() -> f32 { return bitcast<f32>(p.zero | 0x7fc00000u); }
fn inf() -> f32 { return bitcast<f32>(p.zero | 0x7f800000u); }
fn hidden(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ p.zero); }
fn bf16_of(w: u32, i: u32) -> f32 { return bitcast<f32>((w >> (16u * (i & 1u))) << 16u); }
fn native_f16_of(w: u32) -> f32 { return unpack2x16float(w).x; }
fn native_to_f16(x: f32) -> u32 {
    return select(pack2x16float(vec2<f32>(x, 0.0)), 0x7e00u | ((bitcast<u32>(x) >> 16u) & 0x8000u), is_nan(x));
}
// NATIVE_HALVES: the GPU's native conversions give the same results (pipeline.c)
#if NATIVE_HALVES
fn f16_of(w: u32, i: u32) -> f32 { return native_f16_of(w >> (16u * (i & 1u))); }
fn to_f16(x: f32) -> u32 { return native_to_f16(x); }
#else
fn f16_of(w: u32, i: u32) -> f32 {
    let h = (w >> (16u * (i & 1u))) & 0xffffu;
    let sign = (h & 0x8000u) << 16u;
    let size = h & 0x7fffu;
    if size >= 0x7c00u { return bitcast<f32>(sign | 0x7f800000u | ((size & 0x3ffu) << 13u)); }
    if size < 0x400u { return bitcast<f32>(sign | bitcast<u32>(f32(size) * 5.9604644775390625e-08)); }
    return bitcast<f32>(sign | ((size + 0x1c000u) << 13u));
}
// rounds to nearest, ties to even; results below 2^-14 are multiples of 2^-24
fn to_f16(x: f32) -> u32 {
    let b = bitcast<u32>(x);
    let sign = (b >> 16u) & 0x8000u;
    let size = b & 0x7fffffffu;
    if size > 0x7f800000u { return sign | 0x7e00u; }
    if size >= 0x477ff000u { return sign | 0x7c00u; }
    if size < 0x33000000u { return sign; }
    var m = size;
    var drop = 13u;
    var bias = 0x1c000u;
    if size < 0x38800000u {
        m = (size & 0x7fffffu) | 0x800000u;
        drop = 126u - (size >> 23u);
        bias = 0u;
    }
    let odd = (m >> drop) & 1u;
    return sign | (((m + (1u << (drop - 1u)) - 1u + odd) >> drop) - bias);
}
#end
fn u8_of(w: u32, i: u32) -> u32 { return (w >> (8u * (i & 3u))) & 0xffu; }
fn u16_of(w: u32, i: u32) -> u32 { return (w >> (16u * (i & 1u))) & 0xffffu; }
fn i8_of(w: u32, i: u32) -> i32 { return bitcast<i32>(w << (24u - 8u * (i & 3u))) >> 24u; }
fn i16_of(w: u32, i: u32) -> i32 { return bitcast<i32>(w << (16u - 16u * (i & 1u))) >> 16u; }
fn to_bf16(x: f32) -> u32 {
    let b = bitcast<u32>(x);
    return select((b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u, (b >> 16u) | 0x40u, is_nan(x));
}
fn f_f16(x: f32) -> f32 { return f16_of(to_f16(x), 0u); }
fn f_bf16(x: f32) -> f32 { return bf16_of(to_bf16(x), 0u); }
fn f32_to_int(x: f32, least: f32, most: i32) -> i32 {
    if is_nan(x) { return 0; }
    if x <= least { return i32(least); }
    if x >= f32(most) { return most; }
    return i32(x);
}
fn f32_to_uint(x: f32, most: u32) -> u32 {
    if is_nan(x) || x <= 0.0 { return 0u; }
    if x >= f32(most) { return most; }
    return u32(x);
}

// ---- integers
// a negative exponent gives 0 unless x is 1 or -1
fn i_pow(x: i32, e: i32) -> i32 {
    if e < 0 { return select(select(0, select(1, -1, (e & 1) != 0), x == -1), 1, x == 1); }
    var y = 1;
    var a = x;
    var n = e;
    for (; n > 0;) {
        if (n & 1) != 0 { y *= a; }
        a *= a;
        n >>= 1u;
    }
    return y;
}
fn u_pow(x: u32, e: u32) -> u32 {
    var y = 1u;
    var a = x;
    var n = e;
    for (; n > 0u;) {
        if (n & 1u) != 0u { y *= a; }
        a *= a;
        n >>= 1u;
    }
    return y;
}
// the remainder has the sign of b, as in Python
fn i_rem(a: i32, b: i32) -> i32 {
    let r = a % b;
    return select(r, r + b, r != 0 && (r < 0) != (b < 0));
}
fn u_rem(a: u32, b: u32) -> u32 { return a % b; }
fn i_fdiv(a: i32, b: i32) -> i32 { return a / b - select(0, 1, a % b != 0 && (a < 0) != (b < 0)); }
fn u_fdiv(a: u32, b: u32) -> u32 { return a / b; }

// ---- integers of 64 bits: (low, high)
// the 64-bit product of two words
fn mul_wide(a: u32, b: u32) -> vec2<u32> {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let low = al * bl;
    let m = ah * bl + (low >> 16u);
    let n = al * bh + (m & 0xffffu);
    return vec2<u32>((n << 16u) | (low & 0xffffu), ah * bh + (m >> 16u) + (n >> 16u));
}
fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn neg64(a: vec2<u32>) -> vec2<u32> { return vec2<u32>(~a.x + 1u, ~a.y + select(0u, 1u, a.x == 0u)); }
fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn mul64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let p = mul_wide(a.x, b.x);
    return vec2<u32>(p.x, p.y + a.x * b.y + a.y * b.x);
}
fn less_u64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
fn less_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
    return less_u64(a ^ vec2<u32>(0u, 0x80000000u), b ^ vec2<u32>(0u, 0x80000000u));
}
// floor(a b / 2^64)
fn mul_high64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = mul_wide(a.x, b.x);
    let m = mul_wide(a.y, b.x);
    let n = mul_wide(a.x, b.y);
    let middle = add64(add64(vec2<u32>(low.y, 0u), vec2<u32>(m.x, 0u)), vec2<u32>(n.x, 0u));
    return add64(add64(add64(mul_wide(a.y, b.y), vec2<u32>(m.y, 0u)), vec2<u32>(n.y, 0u)),
            vec2<u32>(middle.y, 0u));
}
// unsigned quotient (xy) and remainder (zw), one bit at a time from the top
fn divide64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
    if a.y == 0u && b.y == 0u { return vec4<u32>(a.x / b.x, 0u, a.x % b.x, 0u); }
    var q = a;
    var r = vec2<u32>(0u);
    for (var n = 0; n < 64; n++) {
        r = vec2<u32>((r.x << 1u) | (q.y >> 31u), (r.y << 1u) | (r.x >> 31u));
        q = vec2<u32>(q.x << 1u, (q.y << 1u) | (q.x >> 31u));
        if !less_u64(r, b) {
            r = sub64(r, b);
            q.x |= 1u;
        }
    }
    return vec4<u32>(q, r);
}
// the quotient is truncated; the remainder has the sign of a
fn divide_i64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
    let below = a.y >= 0x80000000u;
    let under = b.y >= 0x80000000u;
    let d = divide64(select(a, neg64(a), below), select(b, neg64(b), under));
    return vec4<u32>(select(d.xy, neg64(d.xy), below != under), select(d.zw, neg64(d.zw), below));
}
fn i64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divide_i64(a, b).xy; }
fn u64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divide64(a, b).xy; }
fn i64_fmod(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divide_i64(a, b).zw; }
fn u64_fmod(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divide64(a, b).zw; }
fn i64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let r = i64_fmod(a, b);
    return select(r, add64(r, b), any(r != vec2<u32>(0u)) && ((r.y ^ b.y) >> 31u) != 0u);
}
fn u64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return u64_fmod(a, b); }
fn i64_fdiv(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let d = divide_i64(a, b);
    return select(d.xy, sub64(d.xy, vec2<u32>(1u, 0u)), any(d.zw != vec2<u32>(0u))
            && ((a.y ^ b.y) >> 31u) != 0u);
}
fn u64_fdiv(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return u64_div(a, b); }
fn shl64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if b.y != 0u || b.x >= 64u { return vec2<u32>(0u); }
    if b.x == 0u { return a; }
    if b.x >= 32u { return vec2<u32>(0u, a.x << (b.x - 32u)); }
    return vec2<u32>(a.x << b.x, (a.y << b.x) | (a.x >> (32u - b.x)));
}
fn shr_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if b.y != 0u || b.x >= 64u { return vec2<u32>(0u); }
    if b.x == 0u { return a; }
    if b.x >= 32u { return vec2<u32>(a.y >> (b.x - 32u), 0u); }
    return vec2<u32>((a.x >> b.x) | (a.y << (32u - b.x)), a.y >> b.x);
}
fn shr_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let s = vec2<u32>(0u - (a.y >> 31u));
    return shr_u64(a ^ s, b) ^ s;
}
fn u64_pow(x: vec2<u32>, e: vec2<u32>) -> vec2<u32> {
    var y = vec2<u32>(1u, 0u);
    var a = x;
    var n = e;
    for (; any(n != vec2<u32>(0u));) {
        if (n.x & 1u) != 0u { y = mul64(y, a); }
        a = mul64(a, a);
        n = shr_u64(n, vec2<u32>(1u, 0u));
    }
    return y;
}
// negative exponents as in i_pow
fn i64_pow(x: vec2<u32>, e: vec2<u32>) -> vec2<u32> {
    if e.y < 0x80000000u { return u64_pow(x, e); }
    if all(x == vec2<u32>(~0u)) { return select(vec2<u32>(1u, 0u), x, (e.x & 1u) != 0u); }
    return select(vec2<u32>(0u), x, all(x == vec2<u32>(1u, 0u)));
}
// rounds to nearest, ties to even; the conversion of some drivers does not
fn u32_to_f32(x: u32) -> f32 {
    if x < 0x1000000u { return f32(x); }
    let n = 8u - countLeadingZeros(x);
    let m = x >> n;
    let rest = x & ((1u << n) - 1u);
    let half = 1u << (n - 1u);
    return f32(m + select(0u, 1u, rest > half || (rest == half && (m & 1u) != 0u))) * f32(1u << n);
}
fn i32_to_f32(x: i32) -> f32 {
    let y = u32_to_f32(select(bitcast<u32>(x), ~bitcast<u32>(x) + 1u, x < 0));
    return select(y, -y, x < 0);
}
// converts the top 32 bits; the lower bits only break ties
fn u64_to_f32(a: vec2<u32>) -> f32 {
    if a.y == 0u { return u32_to_f32(a.x); }
    let n = 32u - countLeadingZeros(a.y);
    let top = shr_u64(a, vec2<u32>(n, 0u)).x;
    let rest = a.x & select((1u << (n & 31u)) - 1u, 0xffffffffu, n == 32u);
    return u32_to_f32(top | select(0u, 1u, rest != 0u)) * bitcast<f32>((n + 127u) << 23u);
}
fn i64_to_f32(a: vec2<u32>) -> f32 {
    if a.y >= 0x80000000u { return -u64_to_f32(neg64(a)); }
    return u64_to_f32(a);
}
// for 0 <= x < 2^64
fn size_to_u64(x: f32) -> vec2<u32> {
    if x < 4294967296.0 { return vec2<u32>(u32(x), 0u); }
    let b = bitcast<u32>(x);
    return shl64(vec2<u32>((b & 0x7fffffu) | 0x800000u, 0u), vec2<u32>((b >> 23u) - 150u, 0u));
}
fn f32_to_u64(x: f32) -> vec2<u32> {
    if is_nan(x) || x <= 0.0 { return vec2<u32>(0u); }
    if x >= 18446744073709551616.0 { return vec2<u32>(~0u); }
    return size_to_u64(x);
}
fn f32_to_i64(x: f32) -> vec2<u32> {
    if is_nan(x) { return vec2<u32>(0u); }
    if x >= 9223372036854775808.0 { return vec2<u32>(~0u, 0x7fffffffu); }
    if x <= -9223372036854775808.0 { return vec2<u32>(0u, 0x80000000u); }
    if x < 0.0 { return neg64(size_to_u64(-x)); }
    return size_to_u64(x);
}

// ---- random numbers: p.seed and p.counter are 64-bit integers
// block counter + more of Philox 4x32-10
fn philox(more: u32) -> vec4<u32> {
    let at = add64(p.counter, vec2<u32>(more, 0u));
    var c = vec4<u32>(at, 0u, 0u);
    var k = p.seed;
    for (var round = 0; round < 10; round++) {
        let a = mul_wide(0xd2511f53u, c.x);
        let b = mul_wide(0xcd9e8d57u, c.z);
        c = vec4<u32>(b.y ^ c.y ^ k.x, b.x, a.y ^ c.w ^ k.y, a.x);
        k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return c;
}
// the 64-bit word i
fn philox64(i: u32) -> vec2<u32> {
    let b = philox(i / 2u);
    return select(b.xy, b.zw, (i & 1u) != 0u);
}

// ---- floats
fn f_max(a: f32, b: f32) -> f32 { return select(b, a, is_nan(a) || (a > b && !is_nan(b))); }
fn f_min(a: f32, b: f32) -> f32 { return select(b, a, is_nan(a) || (a < b && !is_nan(b))); }
fn f_sign(x: f32) -> f32 { return select(0.0, 1.0, x > 0.0) - select(0.0, 1.0, x < 0.0); }
fn f_copysign(a: f32, b: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | (bitcast<u32>(b) & 0x80000000u));
}
// p 2^n for an integer n in [-252, 252]
fn scale(p: f32, n: f32) -> f32 {
    let k = i32(n);
    let half = k >> 1u;
    return hidden(p * bitcast<f32>(bitcast<u32>(half + 127) << 23u)) * bitcast<f32>(bitcast<u32>(k - half
            + 127) << 23u);
}
// an unsigned key in the order of x: NaN is the largest, -0 equals 0
fn float_key(x: f32) -> u32 {
    let b = bitcast<u32>(x);
    if is_nan(x) { return 0xffffffffu; }
    if (b & 0x7fffffffu) == 0u { return 0x80000000u; }
    return b ^ select(0x80000000u, 0xffffffffu, b >= 0x80000000u);
}
// a + b = x + y exactly (Knuth 1969)
fn two_sum(a: f32, b: f32) -> vec2<f32> {
    let s = hidden(a + b);
    let t = hidden(s - a);
    let of_a = hidden(a - hidden(s - t));
    let of_b = hidden(b - t);
    return vec2<f32>(s, hidden(of_a + of_b));
}
// a b = x + y exactly, from 12-bit halves (Dekker 1971)
fn two_product(a: f32, b: f32) -> vec2<f32> {
    let ah = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
    let al = hidden(a - ah);
    let bh = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
    let bl = hidden(b - bh);
    let q = hidden(a * b);
    let high = hidden(ah * bh - q);
    let middle = hidden(hidden(high + ah * bl) + al * bh);
    return vec2<f32>(q, hidden(middle + al * bl));
}

// ---- extended precision in place of double: (x, y, e) is (x + y) 2^e with 1 <= |x| < 2 and |y| <=
// 2^-24.  The relative error of an operation is 2^-44.  0, infinities and NaN are (x, 0, 0).
fn ordinary(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) == 0x3f800000u; }
fn wide_normal(x: f32, y: f32, e: f32) -> vec3<f32> {
    let s = hidden(x + y);
    let b = bitcast<u32>(s) & 0x7fffffffu;
    if b - 0x800000u >= 0x7f000000u { return vec3<f32>(s, 0.0, 0.0); }
    let k = i32(b >> 23u) - 127;
    let f = bitcast<f32>(u32(127 - k) << 23u);
    return vec3<f32>(s * f, (y - hidden(s - x)) * f, e + f32(k));
}
// denormals are integers times 2^-149
fn wide_of(x: f32) -> vec3<f32> {
    let b = bitcast<u32>(x) & 0x7fffffffu;
    var m = b;
    var bias = 127.0;
    if b == 0u || b >= 0x7f800000u { return vec3<f32>(x, 0.0, 0.0); }
    if b < 0x800000u {
        m = bitcast<u32>(f32(b));
        bias = 276.0;
    }
    return vec3<f32>(bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | 0x3f800000u | (m & 0x7fffffu)), 0.0,
            f32(m >> 23u) - bias);
}
fn wide_add(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
    if !ordinary(a.x) || !ordinary(b.x) {
        let none = (bitcast<vec2<u32>>(vec2<f32>(a.x, b.x)) & vec2<u32>(0x7fffffffu)) == vec2<u32>(0u);
        if all(none == vec2<bool>(false, true)) { return a; }
        if all(none == vec2<bool>(true, false)) { return b; }
        return vec3<f32>(a.x + b.x, 0.0, 0.0);
    }
    let h = select(a, b, b.z > a.z);
    let l = select(b, a, b.z > a.z);
    if h.z - l.z > 60.0 { return h; }
    let f = bitcast<f32>(u32(127.0 - (h.z - l.z)) << 23u);
    let s = two_sum(h.x, l.x * f);
    return wide_normal(s.x, s.y + (h.y + l.y * f), h.z);
}
fn wide_mul(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
    if !ordinary(a.x) || !ordinary(b.x) { return vec3<f32>(a.x * b.x, 0.0, 0.0); }
    let q = two_product(a.x, b.x);
    return wide_normal(q.x, q.y + (a.x * b.y + a.y * b.x), a.z + b.z);
}
fn wide_div(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
    if !ordinary(a.x) || !ordinary(b.x) { return vec3<f32>(a.x / b.x, 0.0, 0.0); }
    let q = hidden(a.x / b.x);
    let t = two_product(q, b.x);
    let rest = hidden(hidden(a.x - t.x) - t.y);
    return wide_normal(q, (rest + (a.y - q * b.y)) / b.x, a.z - b.z);
}
fn wide_round(a: vec3<f32>) -> f32 { return scale(a.x, clamp(a.z, -252.0, 252.0)); }
fn expm1_core(r: f32) -> f32 {
    return r * r * ((((1.382105751e-03 * r + 8.368674666e-03) * r + 4.166826233e-02) * r
            + 1.666652113e-01) * r + 4.999999404e-01) + r;
}
// x - n ln 2
fn exp_rest(x: f32, n: f32) -> f32 {
    return hidden(hidden(x - n * 0.693145751953125) - n * 1.428606820309417e-06);
}
fn f_exp(x: f32) -> f32 {
    let c = clamp(x, -104.0, 89.0);
    let n = round(c * 1.44269504);
    return select(scale(expm1_core(exp_rest(c, n)) + 1.0, n), x, is_nan(x));
}
fn exp2_core(r: f32) -> f32 {
    return r * (((((1.532926399e-04 * r + 1.339096925e-03) * r + 9.618499316e-03) * r + 5.550359562e-02)
            * r + 2.402264774e-01) * r + 6.931471825e-01);
}
fn f_exp2(x: f32) -> f32 {
    if is_nan(x) { return x; }
    let c = clamp(x, -151.0, 129.0);
    let n = round(c);
    return scale(exp2_core(c - n) + 1.0, n);
}
// n = 128 would overflow too early: compute half of the result, then double it
fn f_expm1(x: f32) -> f32 {
    if is_nan(x) || abs(x) < 2.98023223876953125e-08 { return x; }
    let c = clamp(x, -30.0, 89.0);
    let n = round(c * 1.44269504);
    let half = scale(0.5, n);
    return (half * expm1_core(exp_rest(c, n)) + (half - 0.5)) * 2.0;
}
// exp(-|x|) never overflows
fn f_sigmoid(x: f32) -> f32 {
    let z = f_exp(-abs(x));
    return select(1.0, z, x < 0.0) / (1.0 + z);
}
fn f_tanh(x: f32) -> f32 {
    if is_nan(x) { return x; }
    let a = abs(x);
    let z = x * x;
    if a < 0.625 {
        return x * z * ((((-5.694865249e-03 * z + 2.063007094e-02) * z - 5.373695120e-02) * z
                + 1.333140880e-01) * z - 3.333328068e-01) + x;
    }
    return f_copysign(1.0 - 2.0 / (f_exp(2.0 * min(a, 10.0)) + 1.0), x);
}
// x = m 2^e for x > 0, m in [sqrt(1/2), sqrt(2)]; denormals are integers times 2^-149
fn log_split(x: f32) -> vec2<f32> {
    var b = bitcast<u32>(x);
    var more = 0;
    if b < 0x800000u {
        b = bitcast<u32>(f32(b));
        more = -149;
    }
    let k = bitcast<i32>(b - 0x3f3504f3u) >> 23u;
    return vec2<f32>(bitcast<f32>(b - (bitcast<u32>(k) << 23u)), f32(k + more));
}
// log(1 + f) - f, f in [sqrt(1/2) - 1, sqrt(2) - 1]
fn log_core(f: f32) -> f32 {
    let z = f * f;
    return f * z * ((((((((6.749600172e-02 * f - 1.167025194e-01) * f + 1.188348532e-01)
            * f - 1.240620315e-01) * f + 1.422036141e-01) * f - 1.666799039e-01) * f + 2.000207156e-01)
            * f - 2.500000894e-01) * f + 3.333331347e-01) - z * 0.5;
}
// the logarithm of x outside (0, inf)
fn log_edge(x: f32) -> f32 {
    if is_nan(x) || x > 0.0 { return x; }
    return select(nan(), -inf(), x == 0.0);
}
fn f_log(x: f32) -> f32 {
    if !(bitcast<u32>(x) - 1u < 0x7f7fffffu) { return log_edge(x); }
    let s = log_split(x);
    let f = s.x - 1.0;
    return hidden(f + (log_core(f) + s.y * 1.428606820309417e-06)) + s.y * 0.693145751953125;
}
fn f_log2(x: f32) -> f32 {
    if !(bitcast<u32>(x) - 1u < 0x7f7fffffu) { return log_edge(x); }
    let s = log_split(x);
    let f = s.x - 1.0;
    return (f + log_core(f)) * 1.44269504 + s.y;
}
fn f_log10(x: f32) -> f32 { return f_log(x) * 0.4342944819; }
// adds the rounding error of 1 + x, relative to 1 + x
fn f_log1p(x: f32) -> f32 {
    if is_nan(x) || abs(x) < 5.9604644775390625e-08 { return x; }
    if abs(x) < 0.29 { return log_core(x) + x; }
    let u = hidden(1.0 + x);
    if !(u > 0.0) || is_inf(u) { return log_edge(u); }
    return f_log(u) + select((x - hidden(u - 1.0)) / u, 0.0, x > 1e8);
}
fn f_sinh(x: f32) -> f32 {
    let a = abs(x);
    let z = x * x;
    if a < 1.0 {
        return x * z * ((((2.5052108e-08 * z + 2.7557319e-06) * z + 1.984126984e-04) * z
                + 8.333333333e-03) * z + 1.666666667e-01) + x;
    }
    let h = f_exp(a * 0.5);
    let y = (0.5 * h) * h;
    return f_copysign(y - select(0.25 / y, 0.0, is_inf(y)), x);
}
fn f_cosh(x: f32) -> f32 {
    let h = f_exp(abs(x) * 0.5);
    let y = (0.5 * h) * h;
    return y + select(0.25 / y, 0.0, is_inf(y));
}
fn f_asinh(x: f32) -> f32 {
    let a = abs(x);
    if is_nan(x) || a < 0.000244140625 { return x; }
    if a > 1e6 { return f_copysign(f_log(a) + 0.693147181, x); }
    return f_copysign(f_log1p(a + a * a / (sqrt(a * a + 1.0) + 1.0)), x);
}
fn f_acosh(x: f32) -> f32 {
    if is_nan(x) { return x; }
    if x < 1.0 { return nan(); }
    if x > 1e6 { return f_log(x) + 0.693147181; }
    let t = x - 1.0;
    return f_log1p(t + sqrt(t * (x + 1.0)));
}
fn f_atanh(x: f32) -> f32 {
    let a = abs(x);
    if is_nan(x) || a < 0.000244140625 { return x; }
    if a > 1.0 { return nan(); }
    if a == 1.0 { return f_copysign(inf(), x); }
    return f_copysign(0.5 * f_log1p(2.0 * a / (1.0 - a)), x);
}
// |x| >= 2048: x 2 / pi modulo 4 from the 96 relevant bits of 2 / pi (Payne and Hanek 1983)
fn far_quarters(x: f32) -> vec2<f32> {
    var digits = array<u32, 8>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,
            0x3c439041u, 0xfe5163abu);
    let b = bitcast<u32>(x) & 0x7fffffffu;
    let m = (b & 0x7fffffu) | 0x800000u;
    let first = (b >> 23u) - 120u;
    let w = first / 32u;
    let s = first % 32u;
    var d: array<u32, 3>;
    for (var k = 0u; k < 3u; k++) {
        d[k] = digits[w + k] << s;
        if s > 0u { d[k] |= digits[w + k + 1u] >> (32u - s); }
    }
    let low = mul_wide(d[2], m);
    let mid = add64(mul_wide(d[1], m), vec2<u32>(low.y, 0u));
    let high = d[0] * m + mid.y;
    var quarter = high >> 30u;
    var rest = vec2<u32>((mid.x << 2u) | (low.x >> 30u), (high << 2u) | (mid.x >> 30u));
    var sign = 1.0;
    if rest.y >= 0x80000000u {
        rest = neg64(rest);
        sign = -1.0;
        quarter += 1u;
    }
    return vec2<f32>(sign * (u64_to_f32(rest) * 5.421010862427522e-20) * 1.57079632679, f32(quarter & 3u))
            * select(vec2<f32>(1.0), vec2<f32>(-1.0), x < 0.0);
}
// (r, n) with x = n pi / 2 + r; pi / 2 is split in three, and n times each of the first two parts
// is exact
fn quarters(x: f32) -> vec2<f32> {
    if abs(x) >= 2048.0 { return far_quarters(x); }
    let n = round(x * 0.636619772);
    let near = hidden(hidden(x - n * 1.5703125) - n * 4.837512969970703125e-4);
    return vec2<f32>(hidden(near - n * 7.549789954891882e-8), n);
}
fn sin_core(r: f32) -> f32 {
    let z = r * r;
    return r * z * ((-1.951828453e-04 * z + 8.332189173e-03) * z - 1.666665524e-01) + r;
}
fn cos_core(r: f32) -> f32 {
    let z = r * r;
    return z * z * ((2.443256381e-05 * z - 1.388731063e-03) * z + 4.166664556e-02) - z * 0.5 + 1.0;
}
// sin(r + n pi / 2)
fn circle(r: f32, n: i32) -> f32 {
    let y = select(sin_core(r), cos_core(r), (n & 1) != 0);
    return select(y, -y, (n & 2) != 0);
}
fn f_sin(x: f32) -> f32 {
    if is_nan(x) || abs(x) < 0.000244140625 { return x; }
    if is_inf(x) { return nan(); }
    let q = quarters(x);
    return circle(q.x, i32(q.y));
}
fn f_cos(x: f32) -> f32 {
    if is_nan(x) { return x; }
    if is_inf(x) { return nan(); }
    let q = quarters(x);
    return circle(q.x, i32(q.y) + 1);
}
fn f_tan(x: f32) -> f32 {
    if is_nan(x) || abs(x) < 0.000244140625 { return x; }
    if is_inf(x) { return nan(); }
    let q = quarters(x);
    let s = sin_core(q.x);
    let c = cos_core(q.x);
    if (i32(q.y) & 1) != 0 { return -c / s; }
    return s / c;
}
// atan(y / x) in [0, pi / 2] for y, x >= 0
fn atan_ratio(y: f32, x: f32) -> f32 {
    let low = min(x, y);
    let high = max(x, y);
    let wide = high * 0.41421356 < low;
    let t = select(low, low - high, wide) / select(high, low + high, wide);
    let z = t * t;
    let q = (((((-3.79244593e-02 * z + 6.99122666e-02) * z - 8.89968425e-02) * z + 1.11040042e-01)
            * z - 1.42854236e-01) * z + 1.99999944e-01) * z - 3.33333333e-01;
    let a = select(0.0, 0.785398163, wide) + (t * z * q + t);
    return select(a, 1.57079633 - a, x < y);
}
fn f_atan(x: f32) -> f32 {
    if is_nan(x) || abs(x) < 0.000244140625 { return x; }
    return f_copysign(atan_ratio(min(abs(x), 1e12), 1.0), x);
}
fn f_asin(x: f32) -> f32 {
    let a = abs(x);
    if is_nan(x) || a < 0.000244140625 { return x; }
    if a > 1.0 { return nan(); }
    return f_copysign(atan_ratio(a, sqrt((1.0 - a) * (1.0 + a))), x);
}
fn f_acos(x: f32) -> f32 {
    let a = abs(x);
    if is_nan(x) { return x; }
    if a > 1.0 { return nan(); }
    let y = atan_ratio(sqrt((1.0 - a) * (1.0 + a)), a);
    return select(y, 3.14159265 - y, x < 0.0);
}
fn f_atan2(y: f32, x: f32) -> f32 {
    if is_nan(y) { return y; }
    if is_nan(x) { return x; }
    var ay = abs(y);
    var ax = abs(x);
    if is_inf(ay) && is_inf(ax) {
        ay = 1.0;
        ax = 1.0;
    } else if is_inf(ay) {
        ay = 1.0;
        ax = 0.0;
    } else if is_inf(ax) {
        ay = 0.0;
        ax = 1.0;
    }
    if ay == 0.0 && ax == 0.0 { ax = 1.0; }
    let a = select(atan_ratio(ay, ax), ay / ax, ax > ay * 1e6);
    return f_copysign(select(a, 3.14159265 - a, bitcast<u32>(x) >= 0x80000000u), y);
}
fn f_erf(x: f32) -> f32 {
    if is_nan(x) { return x; }
    let a = abs(x);
    let z = x * x;
    if a < 1.0 {
        return x * ((((((7.806903159e-05 * z - 7.997853099e-04) * z + 5.187162198e-03)
                * z - 2.685334720e-02) * z + 1.128357872e-01) * z - 3.761262596e-01) * z + 1.283791661e-01) + x;
    }
    let c = min(a, 3.93);
    let t = c * (((((3.039026924e-04 * c - 4.597853404e-03) * c + 3.289139643e-02) * c - 1.516507566e-01)
            * c - 9.173107743e-01) * c - 1.628052592e+00);
    return f_copysign(1.0 - f_exp2(t), x);
}
// exp(-a a) from a = h + l, where h has 12 bits, so h h is exact
fn f_erfc(x: f32) -> f32 {
    if is_nan(x) { return x; }
    let a = min(abs(x), 10.2);
    let t = (a - 3.0) / (a + 3.0);
    let low = (((((((-4.03150595e-06 * t + 2.17514038e-05) * t + 1.19770255e-04) * t - 1.19922895e-04)
            * t - 7.82203698e-04) * t + 1.89349439e-03) * t + 2.53085400e-03) * t - 2.37712437e-02) * t
            + 6.83077726e-02;
    let g = ((((low * t - 1.19273612e-01) * t + 1.29645175e-01) * t - 4.75622959e-02)
            * t - 1.35621106e-01) * t + 1.25300806e+00;
    let h = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
    let y = f_exp(-h * h) * f_exp(hidden(h - a) * (h + a)) * g / (a * 2.0 + 1.0);
    return select(y, 2.0 - y, x < 0.0);
}
// log2(a) = x + y to 2^-32, for 0 < a < inf
fn log2_pair(a: f32) -> vec2<f32> {
    let s = log_split(a);
    let n = s.x - 1.0;
    let d = hidden(s.x + 1.0);
    let dl = s.x - hidden(d - 1.0);
    let t = hidden(n / d);
    let q = two_product(t, d);
    let tl = (hidden(hidden(n - q.x) - q.y) - t * dl) / d;
    let z = t * t;
    let rest = 2.0 * tl + t * z * (((0.2857142857 + z * 0.2222222222 + z * z * 0.1818181818) * z + 0.4)
            * z + 0.6666666667);
    let h = two_product(2.0 * t, 1.44269502);
    let x = hidden(s.y + h.x);
    let lost = hidden(h.x - hidden(x - s.y));
    return vec2<f32>(x, lost + h.y + 2.0 * t * 1.925963033e-08 + rest * 1.44269504);
}
fn pow_size(a: f32, b: f32) -> f32 {
    let l = log2_pair(a);
    let about = b * l.x;
    if about > 200.0 { return inf(); }
    if about < -200.0 { return 0.0; }
    let e = two_product(b, l.x);
    let n = round(e.x);
    return scale(exp2_core(hidden(e.x - n) + (e.y + b * l.y)) + 1.0, n);
}
fn f_pow(a: f32, b: f32) -> f32 {
    if a == 1.0 || b == 0.0 { return 1.0; }
    if is_nan(a) { return a; }
    if is_nan(b) { return b; }
    let size = abs(a);
    let whole = abs(b) >= 16777216.0 || trunc(b) == b;
    let odd = abs(b) < 16777216.0 && whole && (i32(b) & 1) != 0;
    if is_inf(b) {
        if size == 1.0 { return 1.0; }
        return select(0.0, inf(), (size > 1.0) == (b > 0.0));
    }
    var y: f32;
    if size == 0.0 || is_inf(size) {
        y = select(0.0, inf(), (size == 0.0) == (b < 0.0));
    } else if a < 0.0 && !whole {
        return nan();
    } else {
        y = pow_size(size, b);
    }
    return select(y, f_copysign(y, a), odd);
}
// x = m 2^e with an integer m, for finite x >= 0
fn whole_split(x: f32) -> vec2<u32> {
    let b = bitcast<u32>(x);
    let e = b >> 23u;
    return select(vec2<u32>((b & 0x7fffffu) | 0x800000u, e), vec2<u32>(b, 1u), e == 0u);
}
// division of integers, 8 bits at a time: exact
fn f_fmod(a: f32, b: f32) -> f32 {
    if is_nan(a) { return a; }
    if is_nan(b) { return b; }
    if is_inf(a) || b == 0.0 { return nan(); }
    if is_inf(b) || abs(a) < abs(b) { return a; }
    let x = whole_split(abs(a));
    let y = whole_split(abs(b));
    var left = x.y - y.y;
    var r = x.x % y.x;
    for (; left > 0u;) {
        let s = min(left, 8u);
        r = (r << s) % y.x;
        left -= s;
    }
    if r == 0u { return f_copysign(0.0, a); }
    if y.y == 1u {
        return f_copysign(bitcast<f32>(bitcast<u32>(f32(r) * 1.1754943508222875e-38
                * 1.1920928955078125e-07)), a);
    }
    let n = countLeadingZeros(r) - 8u;
    if n < y.y { return f_copysign(bitcast<f32>((((y.y - n) << 23u) | ((r << n) & 0x7fffffu))), a); }
    return f_copysign(bitcast<f32>(r << (y.y - 1u)), a);
}
// the result has the sign of b, also when it is 0, as Python's %
fn f_rem(a: f32, b: f32) -> f32 {
    let r = f_fmod(a, b);
    if r == 0.0 { return f_copysign(0.0, b); }
    return select(r, r + b, (r < 0.0) != (b < 0.0) && !is_nan(r));
}
// the integer part of the exact quotient; a / b may round up to the next integer
fn f_tdiv(a: f32, b: f32) -> f32 {
    let q = a / b;
    if is_nan(q) || is_inf(q) || is_inf(b) || abs(q) >= 16777216.0 || abs(q) < 0.5 { return trunc(q); }
    return f_copysign(round((a - f_fmod(a, b)) / b), q);
}
// as in Python: a finite number over an infinity of the other sign is -1, an infinity over a number
// is NaN
fn f_fdiv(a: f32, b: f32) -> f32 {
    if is_nan(a) { return a; }
    if is_nan(b) { return b; }
    if b == 0.0 { return a / b; }
    if is_inf(a) { return nan(); }
    let r = f_fmod(a, b);
    var q = (a - r) / b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { q -= 1.0; }
    if q == 0.0 { return f_copysign(0.0, a / b); }
    return round(q);
}
